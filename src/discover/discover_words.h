// What a discovery says, in words.

#ifndef NSI_DISCOVER_DISCOVER_WORDS_H
#define NSI_DISCOVER_DISCOVER_WORDS_H

#include "discover/discover_state.h"

// "joint/elbow/tau += -0.098 qd", "link/lower/mass = 0.75"; from the arena, NULL when out of
// memory.
const char* nsi_discover_sentence(ns_discovery* discovery, const ns_discovered* found);

// What else a person wants to know, into the notes.
ns_status nsi_discover_note(ns_discovery* discovery, ns_error* error);

// "enters", "takes the place of joint/a/tau: q", "leaves"; of the term's name.
void nsi_discover_step_text(const ns_discovery* discovery, const nsi_selection_step* move,
                            nsi_text_builder* out);

#endif
