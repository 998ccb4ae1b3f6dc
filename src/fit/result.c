// Creates and frees the record of a result, and gives callers a view of it.

#include "fit/result.h"

#include <math.h>

void nsi_result_init(const ns_allocator* allocator, nsi_result* out) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = (nsi_result){.allocator = memory, .arena = {.allocator = memory}};
}

static void free_score(const ns_allocator* memory, ns_score* score) {
    nsi_free(memory, score->horizons);
    nsi_free(memory, score->metrics);
}

void nsi_result_free(nsi_result* result) {
    ns_allocator memory = result->allocator;
    nsi_array_free(&memory, &result->estimates);
    nsi_array_free(&memory, &result->coefficients);
    nsi_free(&memory, result->correlation);
    for (uint32_t k = 0; k < result->directions.count; k++) {
        nsi_free(&memory, result->directions.data[k].change);
    }
    nsi_array_free(&memory, &result->directions);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        free_score(&memory, &result->before[role]);
        free_score(&memory, &result->after[role]);
    }
    nsi_array_free(&memory, &result->phases);
    nsi_array_free(&memory, &result->history);
    nsi_array_free(&memory, &result->path);
    nsi_array_free(&memory, &result->path_names);
    nsi_array_free(&memory, &result->data_warnings);
    nsi_array_free(&memory, &result->notes);
    nsi_arena_free(&result->arena);
    nsi_result_init(&memory, result);
}

ns_status nsi_result_identify(nsi_result* result, const double* information, double sigma,
                              const double* sizes, ns_error* error) {
    nsi_identification found = {.allocator = result->allocator,
                                .estimates = result->estimates,
                                .correlation = result->correlation,
                                .directions = result->directions};
    ns_status status = nsi_identify(&found, information, sigma, sizes, error);
    result->estimates = found.estimates;
    result->correlation = found.correlation;
    result->directions = found.directions;
    return status;
}

ns_fit_result nsi_result_view(const nsi_result* a) {
    return (ns_fit_result){.title = a->title,
                           .model = a->model,
                           .treatment = a->treatment,
                           .setting = a->setting,
                           .citation = a->citation,

                           // Estimates, and what the data identifies.
                           .estimates = a->estimates.data,
                           .nestimate = a->estimates.count,
                           .coefficients = a->coefficients.data,
                           .ncoefficient = a->coefficients.count,
                           .correlation = a->correlation,
                           .directions = a->directions.data,
                           .ndirection = a->directions.count,
                           .sigma = a->sigma,
                           .noise_known = a->noise_known,
                           .nresidual = a->nresidual,
                           .nweight = a->nweight,

                           // Prediction error before and after the fit.
                           .before = a->before,
                           .after = a->after,

                           // How the solvers converged.
                           .phases = a->phases.data,
                           .nphase = a->phases.count,
                           .history = a->history.data,
                           .nhistory = a->history.count,
                           // Sparsity, notes and time.
                           .path = a->path.data,
                           .npath = a->path.count,
                           .path_names = a->path_names.data,
                           .npath_name = a->path_names.count,
                           .data_warnings = a->data_warnings.data,
                           .ndata_warning = a->data_warnings.count,
                           .notes = a->notes.data,
                           .nnote = a->notes.count,
                           .seconds = a->seconds,
                           .complete = a->complete,
                           .unreliable_gradients = a->unreliable_gradients,
                           .failure = a->failure,
                           .doubts = a->doubts,
                           .posterior = a->posterior};
}

double ns_fit_covariance(const ns_fit_result* result, uint32_t a, uint32_t b) {
    if (!result || !result->correlation || a >= result->nestimate || b >= result->nestimate) {
        return NAN;
    }
    return result->correlation[(size_t)a * result->nestimate + b] *
           result->estimates[a].standard_error * result->estimates[b].standard_error;
}
