// Words of a result that all of its reports share.

#include "fit/result_words.h"

const char* nsi_result_verdict(const nsi_result* result, uint32_t estimate) {
    if (!result->correlation) return NULL;
    return ns_choice_name(&ns_verdicts, (int)result->estimates.data[estimate].verdict);
}

const char* nsi_result_residual_unit(const nsi_result* result) {
    return result->noise_known ? "in units of the noise given"
                               : "relative to how far channels go (no sigma given)";
}

static const ns_choice role_rows[] = {NS_ROLE_MAP(NS_CHOICE_ROW)};
const ns_choices ns_data_roles = NS_CHOICES("role", role_rows);

const char* nsi_role_name(ns_data_role role) {
    return ns_choice_name(&ns_data_roles, (int)role);
}
