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

#endif
