// Words of a result that all of its reports share.

#ifndef NSI_FIT_RESULT_WORDS_H
#define NSI_FIT_RESULT_WORDS_H

#include "fit/result.h"
#include "neuralsim/report.h"
#include "report/format.h"

// ---- result_words.c ----------------------------------------------------------------------------------

// "ok", "at lower bound", ...; NULL when standard errors were not computed.
const char* nsi_result_verdict(const nsi_result* result, uint32_t estimate);
const char* nsi_result_residual_unit(const nsi_result* result); // "in units of the noise given"
const char* nsi_role_name(ns_data_role role);                   // "train", "validation", "test"

// ---- diagnostics.c ------------------------------------------------------------------------------

// Add a section of notes: what the data cannot identify or only poorly, strong correlations, parameters
// without effect or at a bound, windows that diverge, an early end.
void nsi_result_diagnose(const nsi_result* result, ns_report* report);

#endif
