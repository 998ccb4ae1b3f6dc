// The record itself: made, freed.

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

void nsi_result_free(nsi_result* answer) {
    ns_allocator memory = answer->allocator;
    nsi_array_free(&memory, &answer->estimates);
    nsi_array_free(&memory, &answer->coefficients);
    nsi_free(&memory, answer->correlation);
    for (uint32_t k = 0; k < answer->directions.count; k++) {
        nsi_free(&memory, answer->directions.data[k].change);
    }
    nsi_array_free(&memory, &answer->directions);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        free_score(&memory, &answer->before[role]);
        free_score(&memory, &answer->after[role]);
    }
    nsi_array_free(&memory, &answer->phases);
    nsi_array_free(&memory, &answer->history);
    nsi_array_free(&memory, &answer->path);
    nsi_array_free(&memory, &answer->path_names);
    nsi_array_free(&memory, &answer->notes);
    nsi_arena_free(&answer->arena);
    nsi_result_init(&memory, answer);
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
                           .path = a->path.data,
                           .npath = a->path.count,
                           .path_names = a->path_names.data,
                           .npath_name = a->path_names.count,
                           .notes = a->notes.data,
                           .nnote = a->notes.count,
                           .seconds = a->seconds,
                           .complete = a->complete};
}

double ns_fit_covariance(const ns_fit_result* result, uint32_t a, uint32_t b) {
    if (!result || !result->correlation || a >= result->nestimate || b >= result->nestimate) {
        return NAN;
    }
    return result->correlation[(size_t)a * result->nestimate + b] *
           result->estimates[a].standard_error * result->estimates[b].standard_error;
}
