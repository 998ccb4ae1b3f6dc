// Recordings of real machines, where they are at hand.

#define _POSIX_C_SOURCE 200809L

#include "data/dataset_rig.h"
#include "data/map.h"
#include "data/resample.h"
#include "support/assert.h"
#include "support/realdata.h"

#include <math.h>
#include <stdio.h>

// The set for a map of data/maps and files below the folder of real data; skips the test without it.
static set load_real(const char* map_name, double period, const char* const* files, int nfile) {
    need_data(files[0]);
    char path[1000];
    set s = {0};
    ns_error error = {0};
    snprintf(path, sizeof path, "%s/data/maps/%s.yaml", NEURALSIM_SOURCE_DIR, map_name);
    if (ns_data_map_load(path, NULL, &s.map, &error) != NS_OK ||
        ns_dataset_create(s.map, period, NULL, &s.data, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    for (int k = 0; k < nfile; k++) {
        must(ns_dataset_add(s.data, need_data(files[k]), NULL, &error), &error);
    }
    print_message("%s: %s\n", map_name, ns_dataset_treatment(s.data));
    return s;
}

// The root mean square of what the recorded velocity and the slope of the position differ by,
// relative to the velocity's.
static double velocity_error(const set* s, uint32_t position, uint32_t velocity) {
    double error = 0.0, all = 0.0, period = ns_dataset_period(s->data);
    for (uint32_t n = 0; n < ns_dataset_recording_count(s->data); n++) {
        for (uint32_t k = 1; k + 1 < ns_dataset_recording(s->data, n)->nsample; k++) {
            double before = value(s, n, k - 1, position), after = value(s, n, k + 1, position);
            double v = value(s, n, k, velocity);
            if (isnan(before) || isnan(after) || isnan(v)) continue;
            error += pow((after - before) / (2.0 * period) - v, 2.0);
            all += v * v;
        }
    }
    return sqrt(error / all);
}

static void ibm_double_pendulum(void** state) {
    (void)state;
    static const char* const files[] = {"ibm_double_pendulum/0.csv", "ibm_double_pendulum/5.csv"};
    set s = load_real("ibm_double_pendulum", 0.0, files, 2);
    assert_true(ns_dataset_period(s.data) == 0.0025);
    for (uint32_t n = 0; n < 2; n++) {
        const ns_recording* r = ns_dataset_recording(s.data, n);
        assert_true(r->nsample > 17000 && r->nmissing == 0 && !r->resampled);
        // At the end it swings about hanging down, whole turns away.
        double sum = 0.0;
        for (uint32_t k = r->nsample - 2000; k < r->nsample; k++) sum += value(&s, n, k, 0);
        assert_true(fabs(remainder(sum / 2000.0, 2.0 * PI)) < 0.1);
        // No jumps: neither arm turns by more than half a rad in 2.5 ms.
        for (uint32_t k = 1; k < r->nsample; k++) {
            for (uint32_t c = 0; c < 2; c++) {
                assert_true(fabs(value(&s, n, k, c) - value(&s, n, k - 1, c)) < 0.5);
            }
        }
    }
    drop(&s);
}

static void dfki_double_pendulum(void** state) {
    (void)state;
    static const char* const files[] = {"dfki_double_pendulum/C1_143339.csv",
                                        "dfki_double_pendulum/A0_00.csv"};
    set s = load_real("dfki_double_pendulum", 0.0, files, 2);
    assert_true(ns_dataset_period(s.data) == 0.002);
    assert_true(ns_dataset_recording(s.data, 0)->resampled);
    assert_int_equal(ns_dataset_recording(s.data, 0)->nmissing, 0);
    assert_string_equal(ns_dataset_control(s.data, 0), "tau0");
    assert_true(velocity_error(&s, 0, 2) < 0.1);
    assert_true(velocity_error(&s, 1, 3) < 0.1);
    assert_true(ns_dataset_channel(s.data, 2)->weight == 0.0);
    drop(&s);
}

static void schmidt_lipson(void** state) {
    (void)state;
    static const char* const files[] = {"schmidt_lipson/double_pendulum_trial0.csv"};
    set s = load_real("schmidt_lipson", 0.0, files, 1);
    const ns_recording* r = ns_dataset_recording(s.data, 0);
    assert_true(ns_dataset_period(s.data) == 0.01);
    assert_int_equal(r->nsample - r->nmissing / 4, 819); // all rows, and nothing between
    assert_false(r->resampled);
    assert_true(velocity_error(&s, 0, 2) < 0.1);
    assert_true(velocity_error(&s, 1, 3) < 0.1);
    drop(&s);
}

static void contactnets_cube(void** state) {
    (void)state;
    static const char* const files[] = {"contactnets_cube/000.csv", "contactnets_cube/285.csv",
                                        "contactnets_cube/565.csv"};
    set s = load_real("contactnets_cube", 0.0, files, 3);
    assert_true(ns_dataset_period(s.data) == 1.0 / 148.0);
    assert_int_equal(ns_dataset_recording_count(s.data), 3);
    for (uint32_t n = 0; n < 3; n++) {
        for (uint32_t k = 0; k < ns_dataset_recording(s.data, n)->nsample; k++) {
            double length = 0.0, turn = 0.0;
            for (uint32_t i = 3; i < 7; i++) {
                length += pow(value(&s, n, k, i), 2.0);
                if (k > 0) turn += value(&s, n, k, i) * value(&s, n, k - 1, i);
            }
            assert_true(fabs(length - 1.0) < 1e-14);
            assert_true(k == 0 || turn > 0.9);
        }
    }
    // In the air and on the board; impacts are sharper than the difference of two rows.
    for (uint32_t i = 0; i < 3; i++) assert_true(velocity_error(&s, i, 7 + i) < 0.3);
    drop(&s);
}

static void mcube_push(void** state) {
    (void)state;
    static const char* const files[] = {
        "mcube_push/trajectories/abs_butter_v50_i0_s0.850_t-0.349.csv",
        "mcube_push/trajectories/abs_butter_v50_i0_s0.850_t-0.698.csv"};
    set s = load_real("mcube_push", 0.004, files, 2);
    for (uint32_t n = 0; n < 2; n++) {
        const ns_recording* r = ns_dataset_recording(s.data, n);
        assert_true(r->resampled && r->nsample > 300 && r->nmissing < 100);
        // The rod rests at first, goes the stroke, and is where its velocities lead.
        double at[2] = {value(&s, n, 0, 6), value(&s, n, 0, 7)}, start[2] = {at[0], at[1]};
        assert_true(hypot(r->controls[0], r->controls[1]) < 5e-3);
        for (uint32_t k = 0; k + 1 < r->nsample; k++) {
            for (uint32_t i = 0; i < 2; i++) {
                at[i] += 0.004 * r->controls[2 * k + i];
                assert_true(fabs(at[i] - value(&s, n, k + 1, 6 + i)) < 1e-12);
            }
        }
        assert_true(fabs(hypot(at[0] - start[0], at[1] - start[1]) - 0.05) < 0.002);
    }
    drop(&s);
}

static void mcube_push_endpoints(void** state) {
    (void)state;
    static const char* const files[] = {"mcube_push/endpoints/abs_butter_v10.csv"};
    set s = load_real("mcube_push_endpoints", 0.1, files, 1);
    assert_int_equal(ns_dataset_recording_count(s.data), 220);
    for (uint32_t n = 0; n < 220; n++) {
        const ns_recording* r = ns_dataset_recording(s.data, n);
        assert_int_equal(r->nsample, 12);
        assert_true(fabs(value(&s, n, 11, 2) - value(&s, n, 0, 2)) < PI); // no full turns
        for (uint32_t i = 0; i < 2; i++) {
            double way = value(&s, n, 11, 6 + i) - value(&s, n, 0, 6 + i);
            assert_true(fabs(way - r->controls[i]) < 1e-12); // in 1 s
        }
        assert_true(fabs(hypot(r->controls[0], r->controls[1]) - 0.05) < 0.002);
    }
    drop(&s);
}

static void swimmer2(void** state) {
    (void)state;
    static const char* const files[] = {"mujoco/train/swimmer2_water25.csv"};
    set s = load_real("swimmer2", 0.0, files, 1);
    assert_true(ns_dataset_period(s.data) == 0.01);
    assert_int_equal(ns_dataset_recording_count(s.data), 30);
    for (uint32_t n = 0; n < 30; n++) {
        const ns_recording* r = ns_dataset_recording(s.data, n);
        assert_true(r->nsample == 1001 && r->nmissing == 0 && !r->resampled && r->start == 0.0);
        for (uint32_t k = 0; k + 1 < r->nsample; k++) { // semi-implicit Euler, to nine digits
            for (uint32_t i = 0; i < 4; i++) {
                double step = value(&s, n, k + 1, i) - value(&s, n, k, i);
                assert_true(fabs(step - 0.01 * value(&s, n, k + 1, 4 + i)) < 2e-7);
            }
        }
    }
    drop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ibm_double_pendulum),
        cmocka_unit_test(dfki_double_pendulum),
        cmocka_unit_test(schmidt_lipson),
        cmocka_unit_test(contactnets_cube),
        cmocka_unit_test(mcube_push),
        cmocka_unit_test(mcube_push_endpoints),
        cmocka_unit_test(swimmer2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
