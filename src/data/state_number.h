// Which component of the state a channel is, by its name.

#ifndef NSI_DATA_STATE_NUMBER_H
#define NSI_DATA_STATE_NUMBER_H

#include "neuralsim/model.h"

// Of q0, qd0, q_<joint>, qd_<joint>, joint/<joint>/position and joint/<joint>/velocity: the number in
// (q, qd); UINT32_MAX for other names.
uint32_t nsi_state_number(const ns_model* model, const char* name);

#endif
