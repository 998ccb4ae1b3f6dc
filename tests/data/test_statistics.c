// Statistics of channels: noise, resolution, range, rate, jitter.

#include "data/check_rig.h"
#include "data/check_state.h"

// ---- resolution ----------------------------------------------------------------------------------

static void resolution_is_the_step(void** state) {
    (void)state;
    double x[ROWS];
    const double steps[] = {2.0 * PI / 4096.0, 1e-4, 0.5, 1e3};
    for (int s = 0; s < 4; s++) {
        ns_rng rng = ns_rng_seed(1);
        for (int k = 0; k < ROWS; k++) {
            double value = 300.0 * steps[s] * sin(0.013 * k) + steps[s] * ns_rng_normal(&rng);
            x[k] = steps[s] * round(value / steps[s]) + 0.37;
        }
        close_to("step", nsi_resolution(x, ROWS) / steps[s], 1.0, 1e-6);
    }

    // Printed with few digits: multiples up to rounding.
    for (int k = 0; k < ROWS; k++) {
        double value = steps[0] * round(sin(0.013 * k) / steps[0]);
        x[k] = 1e-5 * round(1e5 * value);
    }
    double found = nsi_resolution(x, ROWS);
    assert_true(fabs(found / steps[0] - 1.0) < 0.02 || fabs(found / 1e-5 - 1.0) < 1e-6);
}

static void real_numbers_have_no_resolution(void** state) {
    (void)state;
    double x[ROWS];
    for (uint64_t seed = 0; seed < 50; seed++) {
        ns_rng rng = ns_rng_seed(seed);
        for (int k = 0; k < ROWS; k++) x[k] = ns_rng_normal(&rng);
        assert_true(nsi_resolution(x, ROWS) == 0.0);
    }
    double same[5] = {1.0, 1.0, 1.0, 1.0, 1.0};
    assert_true(nsi_resolution(same, 5) == 0.0);
    assert_true(nsi_resolution(same, 0) == 0.0);
}

// ---- noise ---------------------------------------------------------------------------------------

static void noise_is_measured_beside_motion(void** state) {
    (void)state;
    const double levels[] = {1e-5, 1e-4, 1e-3, 1e-2};
    for (int k = 0; k < 4; k++) {
        recording* r = rig_record(levels[k], 89);
        checked c = rig_check(r, NULL, NULL);
        for (uint32_t i = 0; i < 2; i++) {
            close_to("noise", ns_data_check_channel(c.check, i)->noise / levels[k], 1.0, 0.15);
        }
        close_to("noise of velocity", ns_data_check_channel(c.check, 3)->noise / (3.0 * levels[k]),
                 1.0, 0.15);
        rig_drop(&c);
        free(r);
    }
}

static void noise_ignores_outliers_and_gaps(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 89);
    for (int i = 20; i < ROWS; i += 40) r->x[i][Q_HINGE] = 100.0;
    for (int i = 30; i < ROWS; i += 40) r->x[i][Q_HINGE] = NAN;
    checked c = rig_check(r, NULL, NULL);
    double noise = ns_data_check_channel(c.check, 1)->noise;
    assert_true(noise > 0.8e-3 && noise < 1.8e-3);
    rig_drop(&c);
    free(r);
}

// ---- range, rate, time ---------------------------------------------------------------------------

static void range_and_rate_are_those_of_the_rows(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 97);
    double low = INFINITY, high = -INFINITY, sum = 0.0;
    for (int k = 0; k < ROWS; k++) {
        low = fmin(low, r->x[k][Q_HINGE]);
        high = fmax(high, r->x[k][Q_HINGE]);
        sum += r->x[k][Q_HINGE];
    }
    // Two seconds without rows: the time of later ones moves on.
    for (int k = 500; k < ROWS; k++) r->x[k][T] += 2.0;
    checked c = rig_check(r, NULL, NULL);
    const ns_data_channel* s = ns_data_check_channel(c.check, 1);
    close_to("min", s->min, low, 1e-8);
    close_to("max", s->max, high, 1e-8);
    close_to("mean", s->mean, sum / ROWS, 1e-8);
    close_to("rate", s->rate, 100.0, 1e-6);
    assert_int_equal(s->missing, 200);
    assert_string_equal(s->unit, "rad");
    assert_true(ns_data_check_channel(c.check, 4)->control);
    const ns_data_recording* rows = ns_data_check_recording(c.check, 0);
    assert_int_equal(rows->rows, ROWS);
    assert_int_equal(rows->gaps, 1);
    close_to("gap", rows->longest_gap, 2.01, 1e-9);
    close_to("duration", rows->duration, 9.99, 1e-9);
    rig_drop(&c);
    free(r);
}

static void jitter_is_the_deviation_of_steps(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 101);
    ns_rng rng = ns_rng_seed(5);
    for (int k = 0; k < ROWS; k++) r->x[k][T] += 2e-4 * ns_rng_normal(&rng);
    checked c = rig_check(r, NULL, NULL);
    close_to("jitter", ns_data_check_recording(c.check, 0)->jitter / (sqrt(2.0) * 2e-4), 1.0, 0.1);
    rig_drop(&c);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolution_is_the_step),
        cmocka_unit_test(real_numbers_have_no_resolution),
        cmocka_unit_test(noise_is_measured_beside_motion),
        cmocka_unit_test(noise_ignores_outliers_and_gaps),
        cmocka_unit_test(range_and_rate_are_those_of_the_rows),
        cmocka_unit_test(jitter_is_the_deviation_of_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
