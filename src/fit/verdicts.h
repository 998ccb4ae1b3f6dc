// Verdicts on the whole of a result: did the fit fail, why most likely, and which estimates can then not
// be called ok. A model that is only scored cannot fail; that it does not explain the data is a doubt.

#ifndef NSI_FIT_VERDICTS_H
#define NSI_FIT_VERDICTS_H

#include "fit/result.h"

// What a run knows beside its result. Zero: nothing.
typedef struct nsi_verdict_evidence {
    uint32_t refused;         // steps of the last stage, at its end
    const char* refused_name; // the link or parameter because of which they were
    const char* limits;       // in words: joints that were recorded beyond their limits; NULL: none
    bool whole;               // the only stage simulates whole recordings
    bool stuck;               // no step of any stage lowered the loss
    bool scored;              // no stage has iterations: nothing was to be fitted
} nsi_verdict_evidence;

// Set `failure` of the result, and verdicts of estimates that were ok by themselves. Residuals, scores and
// estimates must be there.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_result_judge(nsi_result* result, const nsi_verdict_evidence* evidence,
                           ns_error* error);

#endif
