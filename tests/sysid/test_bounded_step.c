// Steps within bounds: random fits whose truths lie beyond their bounds, against NLopt.

#include "sysid/bounded_rig.h"

#include <nlopt.h>

// The cost at values, on bounds as well.
static double cost_at(unsigned n, const double* values, double* gradient, void* context) {
    (void)gradient;
    bounded_fit* f = context;
    double* z = nsi_objective_point(f->residuals->objective).z;
    for (unsigned k = 0; k < n; k++) {
        const ns_parameter_info* v = ns_parameters_at(f->params, k);
        if (v->transform == NS_PARAMETER_BOX) {
            double share = (values[k] - v->lower) / (v->upper - v->lower);
            z[k] = asin(fmin(fmax(2.0 * share - 1.0, -1.0), 1.0));
        } else {
            double above = fmax((values[k] - v->lower) / v->scale, 0.0) + 1.0;
            z[k] = sqrt(above * above - 1.0);
        }
    }
    double cost = ns_residuals_cost(f->residuals);
    return isfinite(cost) ? cost : 1e12;
}

// The lowest cost that a solver without derivatives and transforms finds near these values.
static double reference_cost(bounded_fit* f, double* values) {
    double best = INFINITY;
    nlopt_opt opt = nlopt_create(NLOPT_LN_BOBYQA, FREE);
    nlopt_set_min_objective(opt, cost_at, f);
    nlopt_set_lower_bounds(opt, f->lower);
    nlopt_set_upper_bounds(opt, f->upper);
    nlopt_set_ftol_rel(opt, 1e-9);
    nlopt_set_maxeval(opt, 1500);
    for (int k = 0; k < FREE; k++) values[k] = fmin(fmax(values[k], f->lower[k]), f->upper[k]);
    nlopt_optimize(opt, values, &best);
    nlopt_destroy(opt);
    return best;
}

static const ns_window_options recorded_windows = {.initial_state = NS_INITIAL_STATE_RECORDED};

static void fits_reach_the_minimum_within_bounds(void** state) {
    (void)state;
    int active = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        bounded_fit f = bounded_fit_make(seed, &recorded_windows);
        ns_error error = {0};
        ns_fit_result* result = NULL;
        must(ns_least_squares_fit(f.residuals, NULL, &result, &error), &error);
        double values[FREE], from[FREE], found = ns_residuals_cost(f.residuals);
        for (int k = 0; k < FREE; k++) {
            values[k] = result->estimates[k].value;
            double size = sizes[k];
            active += values[k] - f.lower[k] < 1e-3 * size || f.upper[k] - values[k] < 1e-3 * size;
        }

        // From where the fit ended, and from where it began.
        memcpy(from, f.initial, sizeof from);
        double near = reference_cost(&f, values), far = reference_cost(&f, from);
        assert_true(found <= fmin(near, far) * (1.0 + 1e-4) + 1e-6);
        ns_fit_result_free(result);
        bounded_fit_free(&f);
    }
    assert_true(active > 80); // so that many of these fits end at bounds
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_reach_the_minimum_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
