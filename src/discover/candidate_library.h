// The candidate library in the making: shared by the files that add terms to it.

#ifndef NSI_DISCOVER_CANDIDATE_LIBRARY_H
#define NSI_DISCOVER_CANDIDATE_LIBRARY_H

#include "discover/discover_state.h"

// A force that a formula could be added to.
typedef struct nsi_target {
    const char* name;
    nsi_site_kind kind;
    uint32_t link;
    bool exists; // the step computes it, and the motion depends on it
    bool taken;  // by a network or formula of the model
} nsi_target;

// A joint with one coordinate.
typedef struct nsi_library_joint {
    const char* name;
    uint32_t link, site;
    bool turns;         // otherwise it slides
    const char *q, *qd; // quantities, quoted for formulas
    const char* tau;
} nsi_library_joint;

typedef struct nsi_library_builder {
    ns_fit* fit;
    nsi_term_library* library;
    const ns_model* model;
    NSI_ARRAY(nsi_target) targets;
    NSI_ARRAY(nsi_library_joint) joints;
    NSI_ARRAY(nsi_parameter_request) requests;
    NSI_ARRAY(nsi_setting_request) settings;
    NSI_ARRAY(uint32_t) params; // of the model, one per setting that the file does not have
    bool failed;                // no memory
} nsi_library_builder;

// Parts of a term that is being put together; freed by nsi_library_add_term().
typedef struct nsi_part_list {
    NSI_ARRAY(nsi_term_part) list;
    bool missing; // one of the quantities cannot have a formula
} nsi_part_list;

// ---- candidate_library.c ---------------------------------------------------------------------

// From the arena; "" and `failed` when out of memory.
const char* nsi_library_text(nsi_library_builder* builder, const char* format, ...)
    NSI_PRINTF(2, 3);

// Does the step compute this force?
bool nsi_library_has_target(const nsi_library_builder* builder, const char* name);
bool nsi_library_link_moves(const nsi_library_builder* builder, uint32_t link);

// The number of the site, which is added when it is new.
uint32_t nsi_library_site(nsi_library_builder* builder, nsi_site site);

// Is there room for so many more coefficients? If not, a kind of term is counted as omitted.
bool nsi_library_has_room(nsi_library_builder* builder, uint32_t more);

// Number of a quantity among the outputs; NSI_NONE when it cannot have a formula.
// @param outside  also when the globs of the file do not match it
uint32_t nsi_library_output(nsi_library_builder* builder, const char* name, bool outside);

// `factor` times a coefficient at a quantity, as a part of a term; the atom, or NSI_NONE.
// @param host  the quantity whose formula holds it; NULL: the same
uint32_t nsi_library_add_part(nsi_library_builder* builder, nsi_part_list* parts,
                              const char* output, const char* host, const char* factor,
                              double sign);

// The term's number, or NSI_NONE when a part is missing. Sets its name, quantity and parts.
uint32_t nsi_library_add_term(nsi_library_builder* builder, nsi_part_list* parts, nsi_term term);
uint32_t nsi_library_add_formula(nsi_library_builder* builder, nsi_part_list* parts, uint32_t site,
                                 const char* form, double complexity);

// ---- candidate_joints.c ----------------------------------------------------------------------

void nsi_library_list_joints(nsi_library_builder* builder);
void nsi_library_add_joints(nsi_library_builder* builder); // each alone; ball and floating ones
void nsi_library_add_couplings(nsi_library_builder* builder);
void nsi_library_extend_joint(nsi_library_builder* builder, uint32_t link);

// Forces of a joint that add up to the same as its tau: formulas can be put there instead.
enum { NSI_LIBRARY_HOSTS = 4 };
extern const char* const nsi_library_hosts[NSI_LIBRARY_HOSTS];

// ---- candidate_links.c -----------------------------------------------------------------------

void nsi_library_add_links(nsi_library_builder* builder);

// ---- candidate_parameters.c ------------------------------------------------------------------

// Variables of the library: those of the file, and one per candidate parameter.
void nsi_library_request_parameters(nsi_library_builder* builder);
// Terms for the variables, once these have their order.
void nsi_library_add_parameters(nsi_library_builder* builder);

// ---- candidate_blueprint.c -------------------------------------------------------------------

// Name of the formula at an output.
void nsi_library_formula_name(const char* output, char* out, size_t size);
// All atoms with coefficients of 0.
ns_status nsi_library_write_all(const nsi_term_library* library, const ns_fit* fit,
                                ns_blueprint** out, ns_error* error);

#endif
