// Scores of a fit: open-loop predictions of each set of recordings, before and after.

#include "fit/fit_state.h"

nsi_predict_options nsi_fit_predict_options(const ns_fit* f) {
    return (nsi_predict_options){.history = f->spec->history,
                                 .origins = f->spec->origins,
                                 .after = f->spec->after,
                                 .adapt = {f->adapt, f->adapt_deviations, f->nadapt},
                                 .smoothing = f->spec->stages.data[0].windows.smoothing,
                                 .horizons = f->spec->horizons.data,
                                 .nhorizon = f->spec->horizons.count,
                                 .errors = f->errors,
                                 .nerror = f->nerror,
                                 .metrics = f->metrics,
                                 .nmetric = f->nmetric,
                                 .threads = f->threads};
}

ns_status nsi_fit_score(const ns_fit* f, ns_data_role role, bool after, ns_score* out,
                        ns_error* error) {
    if (!f->data[role]) return NS_OK;
    nsi_predict_options options = nsi_fit_predict_options(f);
    nsi_prediction prediction = {0};
    ns_status status = nsi_predict(f->problem, f->data[role], after ? f->z : f->z0,
                                   after ? f->w : f->w0, &options, &prediction, error);
    if (status != NS_OK) return status;
    *out = prediction.score;
    prediction.score.horizons = NULL;
    prediction.score.metrics = NULL;
    nsi_prediction_free(&prediction);
    return NS_OK;
}
