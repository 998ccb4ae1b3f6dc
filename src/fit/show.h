// What all forms of an answer share: words and sentences that say what was found.

#ifndef NSI_FIT_SHOW_H
#define NSI_FIT_SHOW_H

#include "fit/answer.h"
#include "page/show.h"

// ---- show.c ----------------------------------------------------------------------------------

// "ok", "at lower bound", ...; NULL when standard errors were not computed.
const char* nsi_show_verdict(const nsi_answer* answer, uint32_t estimate);
const char* nsi_show_residual_unit(const nsi_answer* answer); // "in units of the noise given"
const char* nsi_show_role(nsi_role role);                     // "train", "validation", "test"

// ---- findings.c ------------------------------------------------------------------------------

// Sentences, one on each line: what the data does not determine or only poorly, strong
// correlations, parameters without effect or at a bound, lost windows, an early end.
void nsi_show_findings(nsi_text_builder* out, const nsi_answer* answer);

#endif
