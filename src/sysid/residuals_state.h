// State of ns_residuals.

#ifndef NSI_SYSID_RESIDUALS_STATE_H
#define NSI_SYSID_RESIDUALS_STATE_H

#include "sysid/objective.h"

struct ns_residuals {
    ns_allocator allocator;
    ns_parameters* params;  // of the caller; NULL: there are none
    const ns_dataset* data; // of the caller
    nsi_variant* variants;  // (nvariant) with systems made here; none without parameters
    uint32_t nvariant;
    nsi_problem* problem;
    nsi_objective* objective;
};

// The name of an option out of its range; NULL: all are right.
const char* nsi_find_bad_window_option(const ns_window_options* options);

// Names and lengths that are wrong in a call are wrong arguments, not wrong files: NS_ERR_PARSE becomes
// NS_ERR_ARGUMENT, in the error as well.
ns_status nsi_parse_to_argument(ns_status status, ns_error* error);

#endif
