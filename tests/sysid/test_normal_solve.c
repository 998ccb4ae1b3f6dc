// Gauss-Newton steps: the predicted decrease is that of the quadratic made of residuals and their derivatives
// along the step.

#include "sysid/bounded_rig.h"
#include "sysid/bounded_step.h"
#include "sysid/parameters_state.h"

// Residuals and ties of the point moved by a share of the step, which are linear in z.
static size_t residuals_along(nsi_objective* e, const double* z_step, double share, double* out) {
    uint32_t n = e->n, states = e->windows.count * e->nt, nx = nsi_state_size(e);
    double *step = doubles(n), *step_x = doubles(states + 1);
    for (uint32_t k = 0; k < n; k++) step[k] = share * z_step[k];
    for (uint32_t k = 0; k < states; k++) step_x[k] = share * e->normal.step_x[k];
    nsi_objective_moved(e, step, step_x, &e->trial);
    assert_true(isfinite(nsi_objective_cost_at(e, &e->trial)));
    size_t count;
    const double* r = nsi_objective_residuals(e, &count);
    memcpy(out, r, count * sizeof *out);
    for (uint32_t w = 0; w < e->windows.count; w++) {
        if (!nsi_is_tied(e, w)) continue;
        nsi_objective_continuity(e, &e->trial, w, out + count);
        count += nx;
    }
    free(step);
    free(step_x);
    return count;
}

// 1/2 |r|^2 - 1/2 |r + J s|^2, with J s by central differences along the step.
static double decrease_along(nsi_objective* e, const double* z_step) {
    const double share = 1e-5;
    size_t room = e->row_at[e->windows.count] + (size_t)e->windows.count * nsi_state_size(e) + 1;
    double *here = doubles(room), *up = doubles(room), *down = doubles(room), sum = 0.0;
    size_t count = residuals_along(e, z_step, 0.0, here);
    residuals_along(e, z_step, share, up);
    residuals_along(e, z_step, -share, down);
    for (size_t k = 0; k < count; k++) {
        double slope = (up[k] - down[k]) / (2.0 * share);
        sum -= here[k] * slope + 0.5 * slope * slope;
    }
    free(here);
    free(up);
    free(down);
    return sum;
}

// The step that is linear in z and leads to the same values; how many of them end at a bound.
static int linear_step(const nsi_objective* e, const bounded_fit* f, double* out) {
    int at_bounds = 0;
    for (uint32_t k = 0; k < e->n; k++) {
        const ns_parameter_info* info = ns_parameters_at(f->params, k);
        double z = e->point.z[k], from = nsi_transform_value(info, z);
        double to = nsi_transform_value(info, z + e->normal.step[k]);
        out[k] = (to - from) / nsi_transform_slope(info, z);
        at_bounds += to - f->lower[k] < 1e-6 * sizes[k] || f->upper[k] - to < 1e-6 * sizes[k];
    }
    return at_bounds;
}

static const ns_window_options window_options[] = {
    {.length = 20, .initial_state = NS_INITIAL_STATE_RECORDED},
    {.length = 20, .initial_state = NS_INITIAL_STATE_FREE},
    {.length = 14, .initial_state = NS_INITIAL_STATE_TIED},
};
static const double dampings[] = {1e-8, 1e-2, 1.0, 100.0};

static void the_predicted_decrease_is_that_of_the_quadratic(void** state) {
    (void)state;
    int at_bounds = 0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        for (int w = 0; w < 3; w++) {
            bounded_fit f = bounded_fit_make(seed, &window_options[w]);
            nsi_objective* e = f.residuals->objective;
            double value, predicted, step[FREE];
            assert_true(nsi_objective_linearise(e, &value));
            assert_true(nsi_has_bounded_numbers(e));
            for (int k = 0; k < 4; k++) {
                if (!nsi_objective_solve(e, dampings[k], &predicted)) continue;
                at_bounds += linear_step(e, &f, step);
                assert_true(predicted > 0.0 && predicted <= value);
                double off = predicted / decrease_along(e, step) - 1.0;
                if (!(fabs(off) < 1e-5)) {
                    fail_msg("seed %d, states %d, damping %g: off by %g", (int)seed, w, dampings[k],
                             off);
                }
            }
            bounded_fit_free(&f);
        }
    }
    assert_true(at_bounds > 30); // so that many steps end at bounds
}

// With a penalty, which is 0 here, the minimum is searched for: its initial states count as well.
static void a_penalised_step_counts_initial_states(void** state) {
    (void)state;
    for (int w = 0; w < 3; w++) {
        bounded_fit f = bounded_fit_make(7, &window_options[w]);
        nsi_objective* e = f.residuals->objective;
        double value, predicted;
        const ns_variable_group all = {0, FREE};
        ns_allocator allocator = ns_default_allocator();
        ns_solver_options options = {.groups = &all, .ngroup = 1, .allocator = &allocator};
        assert_true(nsi_objective_linearise(e, &value));
        nsi_objective_set_penalty(e, &options);
        for (int k = 1; k < 4; k++) {
            if (!nsi_objective_solve(e, dampings[k], &predicted)) continue;
            close_to("decrease", predicted / decrease_along(e, e->normal.step), 1.0, 1e-5);
        }
        bounded_fit_free(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_predicted_decrease_is_that_of_the_quadratic),
        cmocka_unit_test(a_penalised_step_counts_initial_states),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
