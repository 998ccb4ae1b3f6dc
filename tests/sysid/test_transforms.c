// Transforms of one parameter: there and back, bounds, starts at bounds.

#include "model/model_data.h"
#include "support/assert.h"
#include "sysid/parameter_map.h"
#include "sysid/parameter_rig.h"
#include "sysid/parameters_state.h"

#include <math.h>
#include <stdlib.h>

static void every_transform_goes_there_and_back(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {
        ask_own("none", -0.3, NAN, NAN),   ask_own("positive", 2.0, 0.0, NAN),
        ask_own("shifted", 3.0, 1.0, NAN), ask_own("above", -1.0, -2.0, NAN),
        ask_own("below", 4.0, NAN, 5.0),   ask_own("box", 0.3, -1.0, 2.0),
    };
    const ns_parameter_transform expected[] = {NS_PARAMETER_NONE,  NS_PARAMETER_ABOVE,
                                               NS_PARAMETER_ABOVE, NS_PARAMETER_ABOVE,
                                               NS_PARAMETER_BELOW, NS_PARAMETER_BOX};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    assert_int_equal(ns_parameters_count(v), N);
    assert_int_equal(nsi_parameters_param_count(v, 0), 0);
    double* scratch = scratch_of(v);
    ns_rng rng = ns_rng_seed(1);
    for (int trial = 0; trial < 200; trial++) {
        double x[N], z[N], back[N];
        for (uint32_t k = 0; k < N; k++) {
            const ns_parameter_info* item = ns_parameters_at(v, k);
            assert_int_equal(item->transform, expected[k]);
            double low = isfinite(item->lower) ? item->lower : item->upper - 10.0;
            if (!isfinite(low)) low = -5.0;
            double high = isfinite(item->upper) ? item->upper : low + 10.0, width = high - low;
            x[k] = ns_rng_uniform(&rng, low + 0.01 * width, high - 0.01 * width);
        }
        if (trial == 0) nsi_parameters_initial(v, x);
        nsi_parameters_to_z(v, x, z);
        nsi_parameters_from_z(v, z, back, NULL, scratch);
        for (uint32_t k = 0; k < N; k++) {
            assert_near(back[k], x[k], 1e-13, ns_parameters_at(v, k)->name);
        }
        check_derivatives(v, z);
    }
    free(scratch);
    ns_parameters_free(v);
}

// For every z, however large.
static void bounds_hold_everywhere(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("log", 2.0, 1.0, NAN),
                                        ask_own("above", -1, -2, NAN), ask_own("below", 4, NAN, 5),
                                        ask_own("box", 0.3, -1, 2)};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    double* scratch = scratch_of(v);
    ns_rng rng = ns_rng_seed(2);
    for (int trial = 0; trial < 1000; trial++) {
        double z[N], x[N];
        double size = pow(10.0, ns_rng_uniform(&rng, -8.0, 2.5));
        for (uint32_t k = 0; k < N; k++) z[k] = size * ns_rng_normal(&rng);
        nsi_parameters_from_z(v, z, x, NULL, scratch);
        for (uint32_t k = 0; k < N; k++) {
            const ns_parameter_info* item = ns_parameters_at(v, k);
            assert_true(x[k] >= item->lower && x[k] <= item->upper);
        }
    }
    free(scratch);
    ns_parameters_free(v);
}

// At a bound derivatives vanish, so a start there is moved off a little; and no further.
static void starts_at_bounds_can_move(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("zero", 0.0, 0.0, NAN),
                                        ask_own("above", -2, -2, NAN), ask_own("below", 5, NAN, 5),
                                        ask_own("low", -1, -1, 2), ask_own("high", 2, -1, 2)};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    double *scratch = scratch_of(v), x[N], z[N], back[N], dv[N * N];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, dv, scratch);
    for (uint32_t k = 0; k < N; k++) {
        const ns_parameter_info* item = ns_parameters_at(v, k);
        double range = item->transform == NS_PARAMETER_BOX ? 3.0 : item->scale;
        assert_true(fabs(back[k] - x[k]) <= 1.001e-3 * range);
        assert_true(back[k] != x[k] && fabs(dv[k * N + k]) > 1e-3 * range);
    }
    free(scratch);
    ns_parameters_free(v);
}

// The closed forms that steps within bounds use are those of the traced map.
static void closed_forms_are_those_of_the_map(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("above", -1, -2, NAN), ask_own("below", 4, NAN, 5),
                                        ask_own("box", 0.3, -1, 2)};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    double* scratch = scratch_of(v);
    ns_rng rng = ns_rng_seed(3);
    for (int trial = 0; trial < 200; trial++) {
        double z[N], x[N], dv[N * N];
        for (uint32_t k = 0; k < N; k++) z[k] = ns_rng_uniform(&rng, -4.0, 4.0);
        nsi_parameters_from_z(v, z, x, dv, scratch);
        for (uint32_t k = 0; k < N; k++) {
            const ns_parameter_info* item = ns_parameters_at(v, k);
            assert_true(nsi_transform_is_bounded(item));
            assert_near(nsi_transform_value(item, z[k]), x[k], 1e-14, item->name);
            assert_near(nsi_transform_slope(item, z[k]), dv[k * N + k], 1e-14, item->name);
            double back = nsi_transform_coordinate(item, nsi_transform_inside(item, x[k], 1e-9));
            assert_near(nsi_transform_value(item, back), x[k], 1e-8, item->name);
        }
    }
    free(scratch);
    ns_parameters_free(v);
}

// Points on bounds are moved by a thousandth of the range or scale, others not by a bit.
static void points_leave_bounds(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("above", -1, -2, NAN), ask_own("below", 4, NAN, 5),
                                        ask_own("box", 0.3, -1, 2), ask_own("other", 0.3, -1, 2),
                                        ask_own("open", 0.3, NAN, NAN)};
    enum { N = sizeof requests / sizeof *requests };
    ns_parameters* v = make(requests, N, NULL, 0);
    double *scratch = scratch_of(v), x[N], z[N] = {0.0, 1e-8, 2.0 * atan(1.0), 0.7, 0.0};
    nsi_parameters_leave_bounds(v, z);
    nsi_parameters_from_z(v, z, x, NULL, scratch);
    assert_near(x[0], -2.0 + 1e-3 * ns_parameters_at(v, 0)->scale, 1e-12, "above");
    assert_near(x[1], 5.0 - 1e-3 * ns_parameters_at(v, 1)->scale, 1e-12, "below");
    assert_near(x[2], 2.0 - 3e-3, 1e-12, "box");
    assert_true(z[3] == 0.7 && z[4] == 0.0);
    free(scratch);
    ns_parameters_free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transform_goes_there_and_back),
        cmocka_unit_test(bounds_hold_everywhere),
        cmocka_unit_test(starts_at_bounds_can_move),
        cmocka_unit_test(closed_forms_are_those_of_the_map),
        cmocka_unit_test(points_leave_bounds),
    };
    return cmocka_run_group_tests(tests, load_pendulum, free_pendulum);
}
