// From rows at any times to an even grid.

#define _POSIX_C_SOURCE 200809L

#include "data/dataset_rig.h"
#include "data/map.h"
#include "data/resample.h"
#include "support/assert.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- rows on the grid ----------------------------------------------------------------------

static void rows_on_the_grid_are_used_as_they_are(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    static const struct {
        const char* map;
        double step, start, period; // of rows and of the set
    } cases[] = {
        {"time: t\nobserve: {q0: x}\n", 0.01, 0.0, 0.0},
        {"time: t\nobserve: {q0: x}\n", 0.01, 17.3, 0.01},
        {"time: t\nobserve: {q0: x}\n", 1.0 / 148.0, 0.0, 0.0},
        {"time: t\nobserve: {q0: x}\nresample: cubic\n", 0.0025, -1.0, 0.0},
        {"rate: 148\nobserve: {q0: x}\n", 1.0 / 148.0, 0.0, 0.0},
        {"rate: 100\nobserve: {q0: x}\noffset: 2.5\n", 0.01, 2.5, 0.01},
    };
    enum { N = 3000 };
    double* x = malloc(N * sizeof *x);
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        set s = make(cases[c].map, cases[c].period);
        writing w = start_table("t,x");
        for (int k = 0; k < N; k++) {
            x[k] = ns_rng_normal(&rng);
            put_row(&w, NULL, 2, (double[]){cases[c].start + k * cases[c].step, x[k]});
        }
        add_table(&s, &w, NULL);
        assert_true(ns_dataset_period(s.data) == cases[c].step);
        const ns_recording* r = ns_dataset_recording(s.data, 0);
        assert_int_equal(r->nsample, N);
        assert_int_equal(r->nmissing, 0);
        assert_int_equal(r->line, 2);
        assert_true(r->start == cases[c].start);
        assert_false(r->resampled);
        assert_true(fabs(r->row_rate * cases[c].step - 1.0) < 1e-9);
        assert_string_equal(r->name, "t.csv");
        assert_string_equal(r->file, "dir/t.csv");
        for (uint32_t k = 0; k < N; k++) assert_true(check_same_bits(value(&s, 0, k, 0), x[k]));
        drop(&s);
    }
    free(x);
}

static void periods_are_as_round_as_the_times(void** state) {
    (void)state;
    enum { N = 1000 };
    double times[N], scratch[N];
    static const struct {
        double step, resolution, start, expected;
    } cases[] = {
        {0.01, 0.0, 0.0, 0.01},
        {0.002, 1e-6, 0.0, 0.002},
        {1.0 / 148.0, 1e-6, 0.0, 1.0 / 148.0}, // stamps in microseconds
        {1.0 / 60.0, 1e-4, 3.0, 1.0 / 60.0},
        {0.01, 0.0, 1.7e9, 0.01}, // seconds since 1970
        {0.0123456789, 0.0, 0.0, 0.0123456789},
        {20.0, 0.0, 0.0, 20.0},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        for (int k = 0; k < N; k++) {
            times[k] = cases[c].start + k * cases[c].step;
            if (cases[c].resolution > 0.0) {
                times[k] = round(times[k] / cases[c].resolution) * cases[c].resolution;
            }
        }
        assert_true(nsi_grid_period(times, N, scratch) == cases[c].expected);
    }
    // With a gap, and trembling: the median.
    for (int k = 0; k < N; k++) times[k] = 0.01 * k + (k > 500 ? 0.37 : 0.0);
    assert_true(nsi_grid_period(times, N, scratch) == 0.01);
    assert_true(isnan(nsi_grid_period(times, 1, scratch)));
}

// ---- between rows --------------------------------------------------------------------------

// The largest error of a sampled sine on a grid that does not fit, away from the ends.
static double sine_error(const char* manner, uint32_t n) {
    char map[100];
    snprintf(map, sizeof map, "time: t\nobserve: {q0: x}\nresample: %s\n", manner);
    set s = make(map, 0.00317);
    writing w = start_table("t,x");
    for (uint32_t k = 0; k <= n; k++) {
        double t = 2.0 * k / n;
        put_row(&w, NULL, 2, (double[]){t, sin(5.0 * t)});
    }
    add_table(&s, &w, NULL);
    const ns_recording* r = ns_dataset_recording(s.data, 0);
    assert_true(r->resampled);
    assert_int_equal(r->nsample, 631); // 2 / 0.00317
    double worst = 0.0;
    for (uint32_t k = 0; k < r->nsample; k++) {
        worst = fmax(worst, fabs(value(&s, 0, k, 0) - sin(5.0 * 0.00317 * k)));
    }
    drop(&s);
    return worst;
}

static void resampling_has_its_order(void** state) {
    (void)state;
    static const struct {
        const char* manner;
        double order;
    } cases[] = {{"nearest", 1.0}, {"linear", 2.0}, {"cubic", 3.0}};
    for (int c = 0; c < 3; c++) {
        double coarse = sine_error(cases[c].manner, 50), fine = sine_error(cases[c].manner, 200);
        double order = log2(coarse / fine) / 2.0;
        print_message("%s: %.3g, %.3g: order %.2f\n", cases[c].manner, coarse, fine, order);
        assert_true(fabs(order - cases[c].order) < 0.2);
    }
    // Linear: the known bound h^2/8 max |x''|, nearly reached.
    double h = 2.0 / 50.0, bound = h * h / 8.0 * 25.0, error = sine_error("linear", 50);
    assert_true(error < bound && error > 0.9 * bound);
}

static void uneven_rows_keep_polynomials(void** state) {
    (void)state;
    static const char* const manners[] = {"linear", "cubic"};
    for (int c = 0; c < 2; c++) {
        ns_rng rng = ns_rng_seed(9);
        char map[100];
        snprintf(map, sizeof map, "time: t\nobserve: {q0: x}\nresample: %s\nmax_gap: 1\n",
                 manners[c]);
        set s = make(map, 0.004);
        writing w = start_table("t,x");
        double t = 0.1;
        for (int k = 0; k < 300; k++) {
            put_row(&w, NULL, 2, (double[]){t, 2.0 - t + c * 3.0 * t * t});
            t += ns_rng_uniform(&rng, 0.001, 0.005);
        }
        add_table(&s, &w, NULL);
        const ns_recording* r = ns_dataset_recording(s.data, 0);
        assert_true(r->start == 0.1 && r->nsample > 100 && r->nmissing == 0);
        for (uint32_t k = 0; k < r->nsample; k++) {
            double at = 0.1 + 0.004 * k;
            assert_true(fabs(value(&s, 0, k, 0) - (2.0 - at + c * 3.0 * at * at)) < 1e-13);
        }
        assert_non_null(strstr(ns_dataset_treatment(s.data), "(uneven"));
        drop(&s);
    }
}

static void gaps_are_missing(void** state) {
    (void)state;
    static const char* const maps[] = {
        "time: t\nobserve: {q0: x}\ncontrol: {u: 2*x}\n",
        "time: t\nobserve: {q0: x}\ncontrol: {u: 2*x}\nmax_gap: 0.05\n",
        "time: t\nobserve: {q0: x}\ncontrol: {u: 2*x}\nmax_gap: 0.06\n"};
    for (int c = 0; c < 3; c++) {
        set s = make(maps[c], 0.01);
        writing w = start_table("t,x");
        for (int k = 0; k <= 100; k++) {
            if (k > 40 && k < 46) continue; // 0.06 s without a row
            if (k == 70) continue;          // 0.02 s
            put_row(&w, NULL, 2, (double[]){0.01 * k, 3.0 * k});
        }
        add_table(&s, &w, NULL);
        const ns_recording* r = ns_dataset_recording(s.data, 0);
        assert_int_equal(r->nsample, 101);
        assert_int_equal(r->nmissing, c == 0 ? 6 : c == 1 ? 5 : 0);
        assert_int_equal(r->resampled, c > 0);
        for (uint32_t k = 0; k <= 100; k++) {
            bool missing = (k > 40 && k < 46 && c < 2) || (k == 70 && c == 0);
            assert_true(isnan(value(&s, 0, k, 0)) == missing);
            if (!missing) assert_true(fabs(value(&s, 0, k, 0) - 3.0 * k) < 1e-10);
            double row = k > 40 && k < 46 ? 40 : k == 70 ? 69 : k; // that holds
            assert_true(control(&s, k, 0) == 6.0 * row);
        }
        assert_non_null(strstr(ns_dataset_treatment(s.data), "100 Hz (with gaps)"));
        drop(&s);
    }
}

// A column that is filled in every fifth row has a rate of its own; single missing fields are holes.
static void columns_have_their_own_rate(void** state) {
    (void)state;
    set s = make("time: t\nobserve: {q0: fast, q1: slow}\n", 0.01);
    writing w = start_table("t,fast,slow");
    for (int k = 0; k <= 100; k++) {
        put_row(&w, NULL, 3,
                (double[]){0.01 * k, k == 33 ? NAN : 1.0 * k, k % 5 == 0 ? 2.0 * k : NAN});
    }
    add_table(&s, &w, NULL);
    for (uint32_t k = 0; k <= 100; k++) {
        assert_true(k == 33 ? isnan(value(&s, 0, k, 0)) : value(&s, 0, k, 0) == k);
        assert_true(fabs(value(&s, 0, k, 1) - 2.0 * k) < 1e-12);
    }
    assert_int_equal(ns_dataset_recording(s.data, 0)->nmissing, 1);
    drop(&s);
}

// ---- several sources -----------------------------------------------------------------------

static void sources_meet_on_one_grid(void** state) {
    (void)state;
    set s = make("sources:\n"
                 "  - where: {stream: obj}\n"
                 "    time: t\n"
                 "    observe: {q0: x}\n"
                 "    resample: cubic\n"
                 "  - where: {stream: tip}\n"
                 "    time: t/1000\n"
                 "    offset: -0.25\n"
                 "    control: {u: a}\n"
                 "    resample: linear\n"
                 "  - where: {stream: extra}\n"
                 "    rate: 20\n"
                 "    observe: {q1: x}\n",
                 0.004);
    writing w = start_table("stream,t,x,a");
    for (int k = 0; k < 150; k++) { // two clocks, one late by 0.25 s and in ms; rows mixed
        double t = 0.05 + 0.01 * k, late = 0.003 * k + 0.33;
        put_row(&w, "obj", 3, (double[]){t, sin(t), NAN});
        put_row(&w, "tip", 3, (double[]){1000.0 * late, NAN, 5.0 - late});
        if (k < 40) put_row(&w, "extra", 3, (double[]){NAN, 10.0 * k, NAN});
    }
    nsi_text_add(&w.text, "note,what,is,this\n"); // other streams may hold anything
    add_table(&s, &w, NULL);
    const ns_recording* r = ns_dataset_recording(s.data, 0);
    // obj 0.05 to 1.54, tip 0.08 to 0.527, extra 0 to 1.95
    assert_true(fabs(r->start - 0.08) < 1e-12);
    assert_int_equal(r->nsample, 112);
    assert_int_equal(r->nmissing, 0);
    for (uint32_t k = 0; k < r->nsample; k++) {
        double t = r->start + 0.004 * k;
        assert_true(fabs(value(&s, 0, k, 0) - sin(t)) < 1e-6);
        assert_true(fabs(value(&s, 0, k, 1) - 200.0 * t) < 1e-11);
        assert_true(fabs(control(&s, k, 0) - (5.0 - 0.25 - t)) < 1e-12);
    }
    assert_int_equal(r->line, 2 + 3 * 3); // the first row of obj from 0.08 on
    assert_string_equal(ns_dataset_treatment(s.data),
                        "source 1: resampled by cubics from 100 Hz to 250 Hz; "
                        "source 2: resampled linearly from 333.3 Hz to 250 Hz; "
                        "source 3: resampled linearly from 20 Hz to 250 Hz");
    drop(&s);
}

static void repeated_and_late_rows_are_repaired(void** state) {
    (void)state;
    static const char table[] = "t,x\n0,0\n1,1\n2,2\n4,4\n3,3\n4,99\n5,5\n6,6\n6,99\n7,7\n";
    set s = make("time: t\ntime_repair: true\nobserve: {q0: x}\n", 0.0);
    add(&s, table, NULL);
    assert_int_equal(ns_dataset_recording(s.data, 0)->nsample, 8);
    for (uint32_t k = 0; k < 8; k++) assert_true(value(&s, 0, k, 0) == k);
    assert_string_equal(ns_dataset_treatment(s.data),
                        "as recorded, at 1 Hz; time repaired in 3 rows");
    drop(&s);
}

// ---- a table beside the recordings, and where recordings end ---------------------------------------

// Nothing is known between samples, so a sample off the grid would be lost.
static void samples_of_rows_are_on_the_grid(void** state) {
    (void)state;
    static const char text[] = "x,y\n1,2\n3,4\n";
    set s = make("rows: recordings\ntime: [0, 0.25, 0.5]\nobserve: {q0: [x, nan, y]}\n", 0.1);
    add(&s, text, NULL); // what is off the grid is not known anyway
    assert_true(value(&s, 0, 0, 0) == 1.0 && value(&s, 0, 5, 0) == 2.0);
    drop(&s);
    s = make("rows: recordings\ntime: [0, 0.25]\nobserve: {q0: [x, y]}\nmax_gap: 1\n", 0.1);
    add(&s, text, NULL);
    assert_true(fabs(value(&s, 0, 2, 0) - 1.8) < 1e-14);
    drop(&s);
    s = make("rows: recordings\ntime: [1, 1.5]\nobserve: {q0: [x, y]}\n", 0.1);
    add(&s, text, NULL); // samples count from the first
    assert_true(value(&s, 1, 5, 0) == 4.0);
    drop(&s);
}

static void long_files_are_read(void** state) {
    (void)state;
    enum { N = 200000 };
    set s = make("time: t\nobserve: {q0: x, q1: 'smooth(x, 21, 3)'}\n", 0.0);
    writing w = start_table("t,x");
    for (int k = 0; k < N; k++) put_row(&w, NULL, 2, (double[]){0.001 * k, sin(0.01 * k)});
    add_table(&s, &w, NULL);
    const ns_recording* r = ns_dataset_recording(s.data, 0);
    assert_int_equal(r->nsample, N);
    assert_false(r->resampled);
    assert_true(ns_dataset_period(s.data) == 0.001);
    for (uint32_t k = 0; k < N; k += 1000) {
        assert_true(fabs(value(&s, 0, k, 1) - sin(0.01 * k)) < 1e-5);
    }
    drop(&s);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_on_the_grid_are_used_as_they_are),
        cmocka_unit_test(periods_are_as_round_as_the_times),
        cmocka_unit_test(resampling_has_its_order),
        cmocka_unit_test(uneven_rows_keep_polynomials),
        cmocka_unit_test(gaps_are_missing),
        cmocka_unit_test(columns_have_their_own_rate),
        cmocka_unit_test(sources_meet_on_one_grid),
        cmocka_unit_test(repeated_and_late_rows_are_repaired),
        cmocka_unit_test(samples_of_rows_are_on_the_grid),
        cmocka_unit_test(long_files_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
