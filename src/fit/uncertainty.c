// Standard errors of parameters and coefficients, from the normal equations where a fit ended.

#include "fit/uncertainty.h"

#include "solver/solvers.h"
#include "sysid/sandwich.h"

#include <math.h>
#include <stdio.h>

// ---- estimates -----------------------------------------------------------------------------------

ns_status nsi_list_estimates(const ns_parameters* params, const double* v, nsi_result* out,
                             ns_error* error) {
    for (uint32_t k = 0; k < ns_parameters_count(params); k++) {
        const ns_parameter_info* p = ns_parameters_at(params, k);
        ns_estimate estimate = {.name = p->name,
                                .unit = p->unit,
                                .initial = p->initial,
                                .value = v[k],
                                .lower = p->lower,
                                .upper = p->upper,
                                .standard_error = NAN,
                                .verdict = NS_VERDICT_OK};
        if (!nsi_array_push(&out->allocator, &out->estimates, estimate)) {
            return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

ns_status nsi_list_coefficients(const ns_system* system, const double* w0, const double* w,
                                nsi_result* out, ns_error* error) {
    for (uint32_t k = 0; out->nweight > 0 && k < ns_system_weight_matrix_count(system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(system, k);
        for (uint32_t i = 0; m.formula && i < m.columns; i++) {
            ns_fitted_coefficient c = {.set = m.set,
                                       .name = m.formula->coefficients[i].name,
                                       .initial = w0[m.offset + i],
                                       .value = w[m.offset + i],
                                       .standard_error = NAN};
            if (!nsi_array_push(&out->allocator, &out->coefficients, c)) {
                return nsi_fail_nomem(error);
            }
        }
    }
    out->nweight -= out->coefficients.count;
    return NS_OK;
}

// ---- errors --------------------------------------------------------------------------------------

static ns_status uncertainty_note(nsi_result* out, const char* text, ns_error* error) {
    const char* kept = nsi_arena_string(&out->arena, text, strlen(text));
    bool done = kept && nsi_array_push(&out->allocator, &out->notes, kept);
    return done ? NS_OK : nsi_fail_nomem(error);
}

// What priors say, beside residuals of this standard deviation. The fit itself weighs them as if it
// were 1, and says so where it is not.
static ns_status add_priors(const ns_parameters* params, double sigma, double* information,
                            nsi_result* out, ns_error* error) {
    bool any = false;
    uint32_t n = ns_parameters_count(params);
    for (uint32_t k = 0; k < n; k++) {
        double prior = ns_parameters_at(params, k)->prior_sigma, share = sigma / prior;
        information[(size_t)k * n + k] += share * share;
        any |= isfinite(prior);
    }
    if (!any || (sigma > 0.5 && sigma < 2.0)) return NS_OK;
    char text[300];
    snprintf(
        text, sizeof text,
        "priors were weighed as if the residuals had a standard deviation of 1, but it is %.2g:"
        " they %s than they should; give channels their sigma in a map",
        sigma, sigma < 1.0 ? "pull harder" : "pull less");
    return uncertainty_note(out, text, error);
}

// Standard deviation of the residuals, from those of the last stage.
static double find_sigma(const nsi_objective* e, nsi_result* out) {
    double residuals = nsi_objective_residual_count(e);
    double free_ones = residuals - nsi_objective_unknowns(e);
    double rms = nsi_objective_rms(e);
    out->sigma = rms * sqrt(residuals / (free_ones > 1.0 ? free_ones : 1.0));
    out->nresidual = nsi_objective_residual_count(e);
    // Data made by the model itself has no noise, but residuals and derivatives have rounding.
    return fmax(out->sigma, 1e-9);
}

// Residuals that are correlated in time, or much larger than the noise, say less than their number: by how
// much each parameter's error grows is found over blocks, and divides the information.
static ns_status apply_sandwich(nsi_objective* e, uint32_t n, double sigma, double* information,
                                nsi_result* out, ns_error* error) {
    static const double CORRELATED = 0.2, TOO_LARGE = 1.5;
    nsi_residual_correlation c = nsi_objective_residual_correlation(e);
    bool correlated = c.lag1 > CORRELATED && c.lag1 > 4.0 / sqrt(out->nresidual);
    bool large = out->noise_known && sigma > TOO_LARGE;
    if (!correlated && !large) return NS_OK;
    char why[120], text[400];
    snprintf(why, sizeof why,
             correlated ? "residuals are correlated in time (%.2f at lag 1)"
                        : "residuals are %.2g times the noise",
             correlated ? c.lag1 : sigma);

    // Too few stretches that could be compared.
    uint32_t length, blocks = nsi_objective_block_count(e, c.samples, &length);
    if (blocks == 0) {
        snprintf(
            text, sizeof text,
            "%s, and recordings are too short for robust standard errors: the reported ones are"
            " too small",
            why);
        return uncertainty_note(out, text, error);
    }

    // Variances both ways.
    double* robust = nsi_alloc_zeroed(&out->allocator, ((size_t)n * n + n) * sizeof *robust);
    if (!robust) return nsi_fail_nomem(error);
    double *plain = robust + n, most = 1.0;
    memcpy(plain, information, (size_t)n * n * sizeof *plain);
    bool known = nsi_dense_cholesky(n, plain, 1) && nsi_objective_sandwich(e, length, robust);
    double* column = known ? nsi_alloc(&out->allocator, n * sizeof *column) : NULL;
    for (uint32_t k = 0; column && k < n; k++) {
        memset(column, 0, n * sizeof *column);
        column[k] = 1.0;
        nsi_dense_cholesky_solve(n, plain, 1, column);
        double factor = sqrt(fmax(1.0, robust[k] / (sigma * sigma * column[k])));
        for (uint32_t i = 0; i < n; i++) {
            information[(size_t)k * n + i] /= factor;
            information[(size_t)i * n + k] /= factor;
        }
        most = fmax(most, factor);
    }
    known = column != NULL;
    nsi_free(&out->allocator, column);
    nsi_free(&out->allocator, robust);
    if (known) {
        snprintf(text, sizeof text,
                 "%s: standard errors are robust (sandwich estimator over %u blocks of %u samples),"
                 " up to %.2g times those for independent noise",
                 why, blocks, length, most);
    } else {
        snprintf(text, sizeof text,
                 "%s; robust standard errors could not be computed: the reported ones may be too"
                 " small",
                 why);
    }
    return uncertainty_note(out, text, error);
}

static ns_status judge_parameters(const ns_parameters* params, nsi_objective* e, nsi_result* out,
                                  ns_error* error) {
    uint32_t n = ns_parameters_count(params);

    // Parameters near zero are judged by a fraction of their scale.
    double* information = nsi_alloc_zeroed(&out->allocator, (size_t)n * n * sizeof(double));
    double* sizes = nsi_alloc(&out->allocator, n * sizeof(double));
    ns_status status = information && sizes ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; status == NS_OK && k < n; k++) {
        sizes[k] = 1e-3 * ns_parameters_at(params, k)->scale;
    }

    // What the residuals say of the parameters, then what priors add.
    if (status == NS_OK && nsi_objective_information(e, information)) {
        // The spread of the residuals is the noise, as far as the fit can know it.
        double sigma = find_sigma(e, out);
        status = apply_sandwich(e, n, sigma, information, out, error);
        if (status == NS_OK) status = add_priors(params, sigma, information, out, error);
        if (status == NS_OK) status = nsi_result_identify(out, information, sigma, sizes, error);

        // Estimates stay valid without standard errors: a note, not an error.
        if (status == NS_ERR_NONFINITE || status == NS_ERR_INVALID) {
            status = uncertainty_note(out,
                                      "standard errors could not be computed: the information about"
                                      " the parameters is not finite",
                                      error);
        }

    } else if (status == NS_OK) {
        // How far the residuals are from the noise is known all the same.
        find_sigma(e, out);
        status = uncertainty_note(
            out, "standard errors could not be computed: the normal equations are singular", error);
    }

    // Verdicts and errors are in the result.
    nsi_free(&out->allocator, information);
    nsi_free(&out->allocator, sizes);
    return status;
}

static ns_status judge_coefficients(const ns_system* system, nsi_objective* e, nsi_result* out,
                                    ns_error* error) {
    uint32_t nw = ns_system_get_sizes(system).nw;
    double* variances = nsi_alloc(&out->allocator, nw * sizeof *variances);
    if (!variances) return nsi_fail_nomem(error);
    if (nsi_objective_coefficient_variances(e, variances)) {
        double sigma = find_sigma(e, out);
        ns_fitted_coefficient* c = out->coefficients.data;
        for (uint32_t k = 0; k < ns_system_weight_matrix_count(system); k++) {
            ns_weight_matrix m = ns_system_weight_matrix(system, k);
            for (uint32_t i = 0; m.formula && i < m.columns; i++, c++) {
                c->standard_error = sigma * sqrt(variances[m.offset + i]);
            }
        }
    }
    nsi_free(&out->allocator, variances);
    return NS_OK;
}

ns_status nsi_judge_estimates(const ns_parameters* params, const ns_system* system,
                              ns_optimise optimised, nsi_objective* e, nsi_result* out,
                              ns_error* error) {
    ns_status status = NS_OK;
    if (out->estimates.count > 0 && nsi_optimises_parameters(optimised)) {
        status = judge_parameters(params, e, out, error);
    }
    if (status == NS_OK && out->coefficients.count > 0 && nsi_optimises_weights(optimised)) {
        status = judge_coefficients(system, e, out, error);
    }
    return status;
}
