// Recordings on the grid: closed forms that are sampled, cut, put out of step and brought back, and
// recordings of real machines, if they are there.

#define _POSIX_C_SOURCE 200809L

#include "data/map.h"
#include "data/resample.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/realdata.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#define PI 3.14159265358979323846

typedef struct set {
    ns_data_map* map;
    ns_dataset* data;
} set;

static set make(const char* map_text, double period) {
    set s = {0};
    ns_error error = {0};
    if (nsi_data_map_parse(map_text, strlen(map_text), "m.yaml", NULL, &s.map, &error) != NS_OK ||
        ns_dataset_create(s.map, period, NULL, &s.data, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    return s;
}

static void drop(set* s) {
    ns_dataset_free(s->data);
    ns_data_map_free(s->map);
    *s = (set){0};
}

static void add(const set* s, const char* text, const ns_data_part* part) {
    ns_error error = {0};
    must(nsi_dataset_add_text(s->data, text, strlen(text), "dir/t.csv", part, &error), &error);
}

static double value(const set* s, uint32_t recording, uint32_t sample, uint32_t channel) {
    const ns_recording* r = ns_dataset_recording(s->data, recording);
    assert_non_null(r);
    assert_true(sample < r->nsample);
    return r->values[(size_t)sample * ns_dataset_channel_count(s->data) + channel];
}

static double control(const set* s, uint32_t sample, uint32_t number) {
    const ns_recording* r = ns_dataset_recording(s->data, 0);
    assert_true(sample < r->nsample);
    return r->controls[(size_t)sample * ns_dataset_control_count(s->data) + number];
}

// A table being written.
typedef struct writing {
    nsi_text_builder text;
} writing;

static writing start_table(const char* header) {
    writing w = {.text = {.allocator = ns_default_allocator()}};
    nsi_text_add(&w.text, "%s\n", header);
    return w;
}

static void put_row(writing* w, const char* stream, uint32_t count, const double* numbers) {
    if (stream) nsi_text_add(&w->text, "%s,", stream);
    for (uint32_t k = 0; k < count; k++) {
        if (k > 0) nsi_text_add(&w->text, ",");
        if (!isnan(numbers[k])) nsi_text_add_double(&w->text, numbers[k]);
    }
    nsi_text_add(&w->text, "\n");
}

static void add_table(const set* s, writing* w, const ns_data_part* part) {
    ns_text text;
    assert_int_equal(nsi_text_finish(&w->text, &text, NULL), NS_OK);
    add(s, text.data, part);
    ns_text_free(&text);
}

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

// ---- trajectories and parts ----------------------------------------------------------------

static void add_trajectories(const set* s, const ns_data_part* part) {
    writing w = start_table("run,t,x,a");
    for (int run = 0; run < 4; run++) {
        for (int k = 0; k < 50 + 10 * run; k++) {
            put_row(&w, NULL, 4,
                    (double[]){2.5 + run, 100.0 * run + 0.1 * k, 1000.0 * run + k,
                               remainder(3.0 * run + 2.0 * k, 2.0 * PI)});
        }
    }
    add_table(s, &w, part);
}

static void trajectories_are_recordings(void** state) {
    (void)state;
    static const char map[] =
        "time: t\ntrajectory: run\nobserve: {q0: x, q1: unwrap(a), q2: first(x)}\n";
    set s = make(map, 0.0);
    add_trajectories(&s, NULL);
    assert_true(ns_dataset_period(s.data) == 0.1);
    assert_int_equal(ns_dataset_recording_count(s.data), 4);
    uint32_t line = 2;
    for (uint32_t run = 0; run < 4; run++) {
        const ns_recording* r = ns_dataset_recording(s.data, run);
        char name[40];
        snprintf(name, sizeof name, "t.csv:%u.5", 2 + run);
        assert_string_equal(r->name, name);
        assert_int_equal(r->line, line);
        assert_true(r->start == 100.0 * run);
        assert_int_equal(r->nsample, 50 + 10 * run);
        line += r->nsample;
        double first = value(&s, run, 0, 1);
        assert_true(fabs(first) <= PI); // not carried on from the run before
        for (uint32_t k = 0; k < r->nsample; k++) {
            assert_true(value(&s, run, k, 0) == 1000.0 * run + k);
            assert_true(fabs(value(&s, run, k, 1) - first - 2.0 * k) < 1e-11);
            assert_true(value(&s, run, k, 2) == 1000.0 * run);
        }
    }
    assert_null(ns_dataset_recording(s.data, 4));
    drop(&s);

    s = make(map, 0.0);
    add_trajectories(&s, &(ns_data_part){.first_trajectory = 3.5, .last_trajectory = 5.0});
    assert_int_equal(ns_dataset_recording_count(s.data), 2);
    assert_string_equal(ns_dataset_recording(s.data, 1)->name, "t.csv:4.5");
    ns_error error = {0};
    ns_data_part none = {.first_trajectory = 9.0, .last_trajectory = 10.0};
    assert_int_equal(
        nsi_dataset_add_text(s.data, "run,t,x,a\n1,2,3,4\n", 18, "u.csv", &none, &error),
        NS_ERR_PARSE);
    assert_string_equal(error.message, "u.csv:2: no sample is left; the part to take is empty or "
                                       "lies outside");
    assert_int_equal(ns_dataset_recording_count(s.data), 2);
    drop(&s);
}

static void parts_that_meet_share_nothing(void** state) {
    (void)state;
    static const char map[] = "time: t\ntrajectory: run\nobserve: {q0: x}\n";
    static const struct {
        ns_data_part part;
        uint32_t first, count; // of the first run, which has 50 samples
    } cases[] = {
        {{.all_trajectories = true}, 0, 50},
        {{.all_trajectories = true, .to = 2.0}, 0, 20},
        {{.all_trajectories = true, .from = 2.0}, 20, 30},
        {{.all_trajectories = true, .from = 2.0, .to = 3.0}, 20, 10},
        {{.all_trajectories = true, .from = 2.05, .to = 2.15}, 21, 1},
        {{.all_trajectories = true, .to = 1000.0}, 0, 50},
        {{.all_trajectories = true, .to = 0.7, .fractions = true}, 0, 35},
        {{.all_trajectories = true, .from = 0.7, .fractions = true}, 35, 15},
        {{.all_trajectories = true, .from = 0.7, .to = 1.0, .fractions = true}, 35, 15},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        set s = make(map, 0.0);
        add_trajectories(&s, &cases[c].part);
        assert_int_equal(ns_dataset_recording_count(s.data), 4);
        const ns_recording* r = ns_dataset_recording(s.data, 0);
        assert_int_equal(r->nsample, cases[c].count);
        assert_true(value(&s, 0, 0, 0) == cases[c].first);
        assert_true(fabs(r->start - 0.1 * cases[c].first) < 1e-12);
        assert_int_equal(r->line, 2 + cases[c].first);
        drop(&s);
    }
    // Runs that are too short for a part are left out.
    set s = make(map, 0.0);
    add_trajectories(&s, &(ns_data_part){.all_trajectories = true, .from = 5.5});
    assert_int_equal(ns_dataset_recording_count(s.data), 3);
    static const ns_data_part bad[] = {{.from = -1.0},
                                       {.from = 2.0, .to = 1.0},
                                       {.to = NAN},
                                       {.to = INFINITY},
                                       {.to = 1.5, .fractions = true}};
    for (size_t c = 0; c < sizeof bad / sizeof *bad; c++) {
        assert_int_equal(nsi_dataset_add_text(s.data, "run,t,x\n", 8, "t.csv", &bad[c], NULL),
                         NS_ERR_ARGUMENT);
    }
    drop(&s);
}

// ---- columns -------------------------------------------------------------------------------

static void definitions_follow_each_other(void** state) {
    (void)state;
    set s = make("rate: 100\n"
                 "define:\n"
                 "  angle: a*deg\n"
                 "  twice: 2*angle\n"
                 "  a: a + 1\n" // hides the column from here on
                 "  b: a*mm\n"
                 "observe: {q0: twice, q1: b, qd0: 'rate(twice, 5, 2)', q2: '\"x y\"'}\n",
                 0.0);
    writing w = start_table("a,\"x y\"");
    for (int k = 0; k < 50; k++) put_row(&w, NULL, 2, (double[]){90.0 * k, 7.0});
    add_table(&s, &w, NULL);
    for (uint32_t k = 0; k < 50; k++) {
        assert_true(fabs(value(&s, 0, k, 0) - PI * k) < 1e-12);
        assert_true(fabs(value(&s, 0, k, 1) - (0.09 * k + 0.001)) < 1e-14);
        assert_true(fabs(value(&s, 0, k, 2) - 100.0 * PI) < 1e-9);
        assert_true(value(&s, 0, k, 3) == 7.0);
    }
    assert_string_equal(ns_dataset_treatment(s.data), "as recorded, at 100 Hz; rate(twice, 5, 2)");
    drop(&s);
}

static void quaternions_are_unit_and_continuous(void** state) {
    (void)state;
    set s = make("rate: 10\n"
                 "define: {w: '2*qw', x: '2*qx', y: '2*qy', z: '2*qz'}\n"
                 "quaternions: [[qw, qx, qy, qz], [w, x, y, z]]\n"
                 "observe: {q3: qw, q4: qx, q5: qy, q6: qz, a: w, b: x, c: y, d: z}\n",
                 0.0);
    writing w = start_table("qw,qx,qy,qz");
    enum { N = 200 };
    for (int k = 0; k < N; k++) { // one and a half turns, signs as they come
        double half = 0.5 * 3.0 * PI * k / N, sign = k * 7 % 3 == 1 ? -1.3 : 1.3;
        if (k == 0) sign = 1.3;
        double row[4] = {sign * cos(half), sign * 0.6 * sin(half), 0.0, sign * 0.8 * sin(half)};
        if (k == 50) row[2] = NAN;
        if (k == 51) memset(row, 0, sizeof row);
        put_row(&w, NULL, 4, row);
    }
    add_table(&s, &w, NULL);
    for (uint32_t k = 0; k < N; k++) {
        double half = 0.5 * 3.0 * PI * k / N;
        double expected[4] = {cos(half), 0.6 * sin(half), 0.0, 0.8 * sin(half)};
        for (uint32_t i = 0; i < 8; i++) {
            double got = value(&s, 0, k, i);
            assert_true(k == 50 || k == 51 ? isnan(got) : fabs(got - expected[i % 4]) < 1e-14);
        }
    }
    drop(&s);
}

// Of the asked-for size relative to each channel's own; missing numbers stay missing.
static void noise_has_its_size(void** state) {
    (void)state;
    enum { ROWS = 4000 };
    set with = make("time: t\nobserve: {q0: a, q1: b}\n", 0.01);
    set same = make("time: t\nobserve: {q0: a, q1: b}\n", 0.01);
    char* text = malloc(ROWS * 60 + 10);
    assert_non_null(text);
    int used = sprintf(text, "t,a,b\n");
    for (int k = 0; k < ROWS; k++) { // a has a standard deviation of 2, b of 0.03
        double s = sqrt(2.0) * sin(2.0 * PI * k / ROWS);
        used += k == 7 ? sprintf(text + used, "%.2f,,1\n", 0.01 * k)
                       : sprintf(text + used, "%.2f,%.17g,%.17g\n", 0.01 * k, 5.0 + 2.0 * s,
                                 1.0 + 0.03 * s);
    }
    add(&with, text, NULL);
    add(&same, text, NULL);
    nsi_dataset_add_noise(with.data, 0.1, 3);
    assert_true(isnan(value(&with, 0, 7, 0)));
    const double sizes[] = {0.2, 0.003};
    double both = 0.0;
    for (uint32_t c = 0; c < 2; c++) {
        double square = 0.0;
        for (uint32_t k = 8; k < ROWS; k++) {
            double off = value(&with, 0, k, c) - value(&same, 0, k, c);
            square += off * off;
            if (c == 0) both += off * (value(&with, 0, k, 1) - value(&same, 0, k, 1));
        }
        // The standard error of a standard deviation from 4000 numbers is 1.1 %.
        assert_true(fabs(sqrt(square / (ROWS - 8)) / sizes[c] - 1.0) < 0.05);
    }
    assert_true(fabs(both / (ROWS - 8)) < 0.08 * sizes[0] * sizes[1]); // channels differ
    nsi_dataset_add_noise(same.data, 0.1, 3);
    assert_true(value(&with, 0, 100, 0) == value(&same, 0, 100, 0));
    free(text);
    drop(&with);
    drop(&same);
}

static void files_without_names_get_them(void** state) {
    (void)state;
    set s = make("columns: [x, y]\nrate: 2\nobserve: {q0: x - y}\n", 0.0);
    add(&s, "# a comment\n3,1\n\n5,2\n", NULL);
    assert_int_equal(ns_dataset_recording(s.data, 0)->nsample, 2);
    assert_int_equal(ns_dataset_recording(s.data, 0)->line, 2);
    assert_true(value(&s, 0, 1, 0) == 3.0);
    assert_int_equal(ns_dataset_channel_count(s.data), 1);
    assert_string_equal(ns_dataset_channel(s.data, 0)->name, "q0");
    assert_string_equal(ns_dataset_channel(s.data, 0)->value, "x - y");
    assert_null(ns_dataset_channel(s.data, 1));
    assert_null(ns_dataset_control(s.data, 0));
    drop(&s);
}

static void controls_are_held_or_interpolated(void** state) {
    (void)state;
    // Rows slower than the grid: each holds until the next.
    set s = make("time: t\ncontrol: {tau0: u}\nobserve: {q0: u}\n", 0.25);
    add(&s, "t,u\n0,1\n1,2\n2,4\n", NULL);
    static const double held[9] = {1, 1, 1, 1, 2, 2, 2, 2, 4};
    for (uint32_t k = 0; k < 9; k++) assert_true(control(&s, k, 0) == held[k]);
    assert_string_equal(ns_dataset_control(s.data, 0), "tau0");
    drop(&s);

    // Faster, and beside it: the mean of what held from sample to sample.
    s = make("time: t\ncontrol: {tau0: u}\nobserve: {q0: u}\n", 1.0);
    add(&s, "t,u\n0,1\n0.25,3\n1,2\n1.5,5\n2,4\n", NULL);
    static const double means[3] = {2.5, 3.5, 4};
    for (uint32_t k = 0; k < 3; k++) assert_true(fabs(control(&s, k, 0) - means[k]) < 1e-12);
    drop(&s);

    // As the map says.
    s = make("time: t\ncontrol: {tau0: u}\nobserve: {q0: u}\nresample: nearest\n", 0.25);
    add(&s, "t,u\n0,1\n1,2\n2,4\n", NULL);
    static const double nearest[9] = {1, 1, 2, 2, 2, 2, 4, 4, 4};
    for (uint32_t k = 0; k < 9; k++) assert_true(control(&s, k, 0) == nearest[k]);
    drop(&s);
}

// What other programs write into a table.
static void tables_of_others_are_read(void** state) {
    (void)state;
    set s = make("time: t\nobserve: {q0: x}\nmax_gap: 1\n", 1.0);
    add(&s, "t,x,note\n0,1,ok\n1,NaN,\"a, b\"\n2,NA,3\n3,4,\n", NULL);
    const ns_recording* r = ns_dataset_recording(s.data, 0);
    assert_int_equal(r->nsample, 4);
    assert_int_equal(r->nmissing, 2);
    assert_true(value(&s, 0, 0, 0) == 1.0 && value(&s, 0, 3, 0) == 4.0);
    assert_true(isnan(value(&s, 0, 1, 0)) && isnan(value(&s, 0, 2, 0)));
    drop(&s);
}

// ---- what is no recording ------------------------------------------------------------------

// ---- a table beside the recordings, and where recordings end ---------------------------------------

static ns_status add_beside(const set* s, const char* name, const char* text, ns_error* error) {
    return nsi_dataset_add_text(s->data, text, strlen(text), tempdir_path(name), NULL, error);
}

static void must_add_beside(const set* s, const char* name, const char* text) {
    ns_error error = {0};
    must(add_beside(s, name, text, &error), &error);
}

static const char side_map[] = "table: {file: index.csv, key: name}\n"
                               "time: t - late\n"
                               "define: {y: x * gain}\n"
                               "observe: {q0: y, q1: x}\n"
                               "control: {u: gain}\n";

// Files find their row by their name, text or digits as they are written.
static void constants_come_from_a_table(void** state) {
    (void)state;
    tempdir_write("index.csv", "note,gain,name,late,x\nslow,2,007,0.5,99\nfast,-3,run.b,0,99\n");
    set s = make(side_map, 0.0);
    must_add_beside(&s, "007.csv", "t,x\n0.5,1\n0.6,2\n0.7,4\n");
    must_add_beside(&s, "run.b.csv", "t,x\n0,1\n0.1,2\n");
    assert_int_equal(ns_dataset_recording_count(s.data), 2);
    assert_true(ns_dataset_recording(s.data, 0)->start == 0.0);
    assert_true(value(&s, 0, 2, 0) == 8.0);
    assert_true(value(&s, 1, 1, 0) == -6.0);
    assert_true(value(&s, 1, 1, 1) == 2.0); // the file's own x, not the table's
    assert_true(control(&s, 1, 0) == 2.0);
    drop(&s);

    // Trajectories find theirs by their number.
    tempdir_write("index.csv", "name,gain\n2.0,10\n1e0,-1\n");
    s = make(
        "table: {file: index.csv, key: name}\ntrajectory: r\nrate: 10\nobserve: {q0: x*gain}\n", 0);
    must_add_beside(&s, "all.csv", "r,x\n1,5\n1,6\n2,7\n2,8\n");
    assert_true(value(&s, 0, 1, 0) == -6.0);
    assert_true(value(&s, 1, 1, 0) == 80.0);
    drop(&s);

    // What is missing in the table is missing in all rows.
    tempdir_write("index.csv", "name,gain\na,\n");
    s = make("table: {file: index.csv, key: name}\nrate: 10\nobserve: {q0: x*gain, q1: x}\n", 0);
    must_add_beside(&s, "a.csv", "x\n5\n6\n");
    assert_true(isnan(value(&s, 0, 1, 0)));
    assert_true(value(&s, 0, 1, 1) == 6.0);
    drop(&s);
}

static void faults_of_a_table_have_a_place(void** state) {
    (void)state;
    static const char numbered[] =
        "table: {file: index.csv, key: name}\ntrajectory: r\nrate: 10\nobserve: {q0: x*gain}\n";
    static const char one[] = "t,x\n0,1\n1,2\n", two[] = "r,x\n0,1\n0,2\n3,1\n3,2\n";
    static const struct {
        const char *map, *index, *table, *message;
    } cases[] = {
        {side_map, "name,gain,late\nb,1,0\n", one,
         "index.csv:1: no row has \"a\" in column \"name\"; each recording needs one"},
        {side_map, "name,gain,late\na,1,0\na,1,0\n", one,
         "index.csv:3: a second row has \"a\" in column \"name\"; each recording needs one"},
        {side_map, "nme,gain,late\na,1,0\n", one, "name"},
        {side_map, "name,gain\na,1\n", one, "m.yaml:2:11: there is no column \"late\" in "},
        {side_map, "name,gain,late\na,high,0\n", one, "index.csv:2:3: \"high\" in column \"gain\""},
        {side_map, "name,gain,late\na,1\n", one, "index.csv:2:"},
        {side_map, "", one, "index.csv:1:1: "},
        {side_map, "name,gain,late\na,1,nan\n", one, "a.csv:2: the time is missing or not finite"},
        {side_map, "name,gain,late\na,inf,0\n", one, "the control \"u\" is missing or not finite"},
        {numbered, "name,gain\n0,1\n", two, "index.csv:1: no row for trajectory 3; each needs one"},
        {numbered, "name,gain\n0,1\n3,1\n0,2\n", two,
         "index.csv:4: a second row for trajectory 0; each needs one"},
        {numbered, "nane,gain\n0,1\n", two, "m.yaml:1:8: there is no column \"name\" in "},
        {numbered, "name,gain\nfirst,1\n", two, "index.csv:2:1: \"first\" in column \"name\""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        tempdir_write("index.csv", cases[k].index);
        set s = make(cases[k].map, 0.0);
        ns_error error = {0};
        assert_int_equal(add_beside(&s, "a.csv", cases[k].table, &error), NS_ERR_PARSE);
        if (!strstr(error.message, cases[k].message)) fail_msg("%zu: %s", k, error.message);
        assert_int_equal(ns_dataset_recording_count(s.data), 0);
        drop(&s);
    }
    remove(tempdir_path("index.csv"));
    set s = make(side_map, 0.0);
    ns_error error = {0};
    assert_int_equal(add_beside(&s, "a.csv", one, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "index.csv"));
    drop(&s);
}

// A ball that bounces: z = |1 - t|, cut where it comes within 0.25 of the floor.
static void recordings_end_where_the_map_says(void** state) {
    (void)state;
    writing w = start_table("t,z");
    for (int k = 0; k <= 20; k++) put_row(&w, NULL, 2, (double[]){0.1 * k, fabs(1.0 - 0.1 * k)});
    set s = make("time: t\nuntil: 0.25 - z\nobserve: {q0: z}\n", 0.0);
    add_table(&s, &w, NULL);
    assert_int_equal(ns_dataset_recording(s.data, 0)->nsample, 8); // 1 to 0.3; not 0.3 to 1 again
    assert_true(fabs(value(&s, 0, 7, 0) - 0.3) < 1e-12);
    assert_non_null(strstr(ns_dataset_treatment(s.data), "13 rows left out after the end"));
    drop(&s);

    // Nothing happens: all rows. What is missing does not end a recording.
    s = make("time: t\nuntil: -z\nobserve: {q0: z}\n", 0.0);
    add(&s, "t,z\n0,1\n1,\n2,1\n", NULL);
    assert_int_equal(ns_dataset_recording(s.data, 0)->nsample, 3);
    assert_null(strstr(ns_dataset_treatment(s.data), "left out"));
    drop(&s);

    s = make("time: t\nuntil: z\nobserve: {q0: z}\n", 0.0);
    static const char text[] = "t,z\n0,1\n1,0\n";
    ns_error error = {0};
    assert_int_equal(nsi_dataset_add_text(s.data, text, strlen(text), "t.csv", NULL, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "t.csv:2: until is above 0 in the first row, which leaves nothing");
    drop(&s);
}

// A rod that rests, then moves on: what is before is left out, also of the other source.
static void recordings_begin_where_the_map_says(void** state) {
    (void)state;
    set s = make("sources:\n"
                 "  - where: {s: a}\n"
                 "    time: t\n"
                 "    observe: {q0: x}\n"
                 "  - where: {s: b}\n"
                 "    time: t\n"
                 "    since: shift(x, -1) - first(x) - 0.05\n"
                 "    until: x - first(x) - 0.35\n"
                 "    observe: {q1: x - first(x)}\n",
                 0.1);
    writing w = start_table("s,t,x");
    for (int k = 0; k <= 20; k++) {
        double t = 0.1 * k;
        put_row(&w, "a", 2, (double[]){t, t * t});
        put_row(&w, "b", 2, (double[]){t, 3.0 + fmax(0.0, t - 1.0)});
    }
    add_table(&s, &w, NULL);
    const ns_recording* r = ns_dataset_recording(s.data, 0);
    // The row before the first that moved, up to 0.3 of the way: 1.0, 1.1, 1.2, 1.3.
    assert_true(fabs(r->start - 1.0) < 1e-12);
    assert_int_equal(r->nsample, 4);
    for (uint32_t k = 0; k < 4; k++) {
        double t = 1.0 + 0.1 * k;
        assert_true(fabs(value(&s, 0, k, 0) - t * t) < 1e-12);
        assert_true(fabs(value(&s, 0, k, 1) - (t - 1.0)) < 1e-12); // first(): of what is left
    }
    assert_non_null(strstr(ns_dataset_treatment(s.data),
                           "10 rows left out before the beginning; 7 rows left out after the end"));
    drop(&s);

    s = make("time: t\nsince: z\nobserve: {q0: z}\n", 0.0);
    static const char text[] = "t,z\n0,0\n1,0\n";
    ns_error error = {0};
    assert_int_equal(nsi_dataset_add_text(s.data, text, strlen(text), "t.csv", NULL, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "t.csv:2: since is above 0 in no row, which leaves nothing");
    drop(&s);
}

// A path that is followed by its slopes passes through all of its samples.
static void slopes_lead_along_a_path(void** state) {
    (void)state;
    set s = make("time: t\nobserve: {q0: x}\ncontrol: {u: forward(x)}\n", 0.02);
    ns_rng rng = ns_rng_seed(5);
    writing w = start_table("t,x");
    double t = 0.0, x = 0.3;
    for (int k = 0; k < 400; k++) {
        put_row(&w, NULL, 2, (double[]){t, x});
        t += ns_rng_uniform(&rng, 0.003, 0.005);
        x += ns_rng_uniform(&rng, -1e-3, 2e-3);
    }
    add_table(&s, &w, NULL);
    double along = 0.3;
    for (uint32_t k = 0; k + 1 < ns_dataset_recording(s.data, 0)->nsample; k++) {
        along += 0.02 * control(&s, k, 0);
        assert_true(fabs(along - value(&s, 0, k + 1, 0)) < 1e-13);
    }
    drop(&s);
}

static const char ends_map[] = "rows: recordings\n"
                               "define: {turn: 'atan2(sin(a1 - a0), cos(a1 - a0))'}\n"
                               "time: [0, 0.5, 0.6]\n"
                               "observe:\n"
                               "  q0: [x0, nan, x1]\n"
                               "  q1: {value: [a0, nan, a0 + turn], weight: 2}\n"
                               "  q2: 3*x0\n"
                               "control: {u: [(x1 - x0)/0.5, 0, 0]}\n";

static void rows_can_be_recordings(void** state) {
    (void)state;
    set s = make(ends_map, 0.1);
    add(&s, "x0,a0,x1,a1\n1,3,2,-3\n4,0.5,3,0.25\n5,,6,1\n", NULL);
    assert_int_equal(ns_dataset_recording_count(s.data), 3);
    for (uint32_t n = 0; n < 3; n++) {
        const ns_recording* r = ns_dataset_recording(s.data, n);
        char name[20];
        snprintf(name, sizeof name, "t.csv:%u", n);
        assert_string_equal(r->name, name);
        assert_int_equal(r->line, 2 + n);
        assert_int_equal(r->nsample, 7);
        assert_true(r->start == 0.0);
        for (uint32_t k = 1; k < 6; k++) {
            assert_true(isnan(value(&s, n, k, 0)) && isnan(value(&s, n, k, 1)));
        }
        // A value for all samples is there at all of them, and not between.
        assert_true(value(&s, n, 5, 2) == value(&s, n, 0, 2) && isnan(value(&s, n, 4, 2)));
    }
    assert_true(value(&s, 0, 0, 0) == 1.0 && value(&s, 0, 6, 0) == 2.0);
    assert_true(value(&s, 0, 0, 1) == 3.0); // the short way round: 3 to 3.28
    assert_true(fabs(value(&s, 0, 6, 1) - (2.0 * PI - 3.0)) < 1e-12);
    assert_true(fabs(value(&s, 1, 6, 1) - 0.25) < 1e-12);
    assert_true(isnan(value(&s, 2, 0, 1)) && isnan(value(&s, 2, 6, 1))); // an empty field
    for (uint32_t k = 0; k < 7; k++) assert_true(control(&s, k, 0) == (k < 5 ? 2.0 : 0.0));
    assert_string_equal(ns_dataset_treatment(s.data), "each row a recording of 3 samples");
    drop(&s);

    // Rows are trajectories, from 0.
    s = make(ends_map, 0.1);
    const ns_data_part part = {.first_trajectory = 1, .last_trajectory = 1};
    add(&s, "x0,a0,x1,a1\n1,3,2,-3\n4,0.5,3,0.25\n5,,6,1\n", &part);
    assert_int_equal(ns_dataset_recording_count(s.data), 1);
    assert_string_equal(ns_dataset_recording(s.data, 0)->name, "t.csv:1");
    drop(&s);

    // Times may be columns; here those of the second row do not grow.
    s = make("rows: recordings\ntime: [0, t]\nobserve: {q0: [a, b]}\n", 0.1);
    static const char text[] = "t,a,b\n0.3,1,2\n0,3,4\n";
    ns_error error = {0};
    assert_int_equal(nsi_dataset_add_text(s.data, text, strlen(text), "t.csv", NULL, &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "t.csv:3: time of sample 1 is not after that of sample 0");
    assert_int_equal(ns_dataset_recording_count(s.data), 0);
    drop(&s);

    // With `where`, recordings count among the rows that it lets through.
    s = make("rows: recordings\nwhere: {s: b}\ntime: [0, 1]\nobserve: {q0: x}\n", 1.0);
    const ns_data_part second = {.first_trajectory = 1, .last_trajectory = 1};
    add(&s, "s,x\na,1\nb,2\na,3\nb,4\n", &second);
    assert_string_equal(ns_dataset_recording(s.data, 0)->name, "t.csv:1");
    assert_true(value(&s, 0, 0, 0) == 4.0);
    drop(&s);

    // A part that is not there: how many rows are there?
    s = make("rows: recordings\ntime: [0, 1]\nobserve: {q0: x}\n", 1.0);
    const ns_data_part outside = {.first_trajectory = 7, .last_trajectory = 9};
    assert_int_equal(nsi_dataset_add_text(s.data, "x\n1\n2\n3\n", 8, "t.csv", &outside, &error),
                     NS_ERR_PARSE);
    assert_non_null(strstr(error.message, "(trajectories are the rows, from 0; there are 3)"));
    drop(&s);
}

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

// Rows that are recordings may be long, and many.
static void many_rows_can_be_recordings(void** state) {
    (void)state;
    enum { ROWS = 1000 };
    char* text = malloc(16 * ROWS);
    assert_non_null(text);
    size_t size = (size_t)sprintf(text, "x\n");
    for (int k = 0; k < ROWS; k++) size += (size_t)sprintf(text + size, "%d\n", k);
    set s = make("rows: recordings\ntime: [0, 1.1]\nobserve: {q0: x}\n", 0.001);
    add(&s, text, NULL);
    assert_int_equal(ns_dataset_recording_count(s.data), ROWS);
    assert_int_equal(ns_dataset_recording(s.data, ROWS - 1)->nsample, 1101);
    assert_true(value(&s, ROWS - 1, 1100, 0) == ROWS - 1);
    drop(&s);
    free(text);
}

// Filters and first() see the rows that `since` and `until` leave; parts are cut afterwards.
static void columns_are_of_the_rows_that_are_left(void** state) {
    (void)state;
    set s = make(
        "rate: 1\nsince: x - 1\nuntil: x - 9\nobserve: {q0: first(x), q1: 'shift(x, 1)'}\n", 0.0);
    add(&s, "x\n0\n2\n4\n8\n16\n", &(ns_data_part){.from = 1.0, .all_trajectories = true});
    assert_int_equal(ns_dataset_recording(s.data, 0)->nsample, 2);
    assert_true(value(&s, 0, 0, 0) == 2.0 && value(&s, 0, 1, 0) == 2.0);
    assert_true(value(&s, 0, 0, 1) == 2.0 && value(&s, 0, 1, 1) == 4.0);
    drop(&s);
}

static void faults_have_a_place(void** state) {
    (void)state;
    static const char timed[] = "time: t\nobserve: {q0: 2*xs}\ncontrol: {u: c}\n";
    static const char streams[] = "trajectory: run\nsources:\n"
                                  "  - {where: {s: a}, rate: 5, observe: {q0: x}}\n"
                                  "  - {where: {s: b}, time: t, observe: {q1: x}}\n";
    static const struct {
        const char* map;
        double period;
        const char *table, *message;
    } cases[] = {
        {timed, 0, "t,c\n1,2\n2,3\n",
         "m.yaml:2:17: there is no column \"xs\" in t.csv; it has t, c"},
        {timed, 0, "t,xS,c\n1,2\n",
         "t.csv:2:4: 2 fields for 3 columns; add what is missing from column \"c\" on"},
        {timed, 0, "t,xS,c\n1,2,3\n2,3,4\n",
         "m.yaml:2:17: there is no column \"xs\" in t.csv; did you mean \"xS\"?"},
        {timed, 0, "xs,c\n1,2\n", "m.yaml:1:7: there is no column \"t\" in t.csv; it has xs, c"},
        {timed, 0, "t,xs,c\n", "t.csv:1: the table has no rows"},
        {timed, 0, "", "t.csv:1:1: there is no table; the first row must name the columns"},
        {timed, 0, "t,xs,c\n1,a,2\n",
         "t.csv:2:3: \"a\" in column \"xs\" is not a number; write one, with a point for decimals"},
        {timed, 0, "t,xs,c\n1,0,0\n2,0,0\n2,0,0\n",
         "t.csv:4: the time is that of the row before; correct the rows, or let time_repair: true "
         "in the map sort them and drop repeated ones"},
        {timed, 0, "t,xs,c\n1,0,0\n\n3,0,0\n2,0,0\n",
         "t.csv:5: the time goes back; correct the rows, or let time_repair: true in the map sort "
         "them and drop repeated ones"},
        {timed, 0, "t,xs,c\n1,0,0\n,0,0\n",
         "t.csv:3: the time is missing or not finite; remove the row"},
        {timed, 0, "t,xs,c\n1,0,0\ninf,0,0\n",
         "t.csv:3: the time is missing or not finite; remove the row"},
        {"rows: recordings\ntime: [0, t]\nobserve: {q0: x}\n", 1, "t,x\n1,0\n,0\n",
         "t.csv:3: time of sample 1 is missing"},
        {"rows: recordings\ntime: [0, t]\nobserve: {q0: x}\n", 0.1, "t,x\n0.3,0\n0.25,0\n",
         "t.csv:3: time 0.25 is no multiple of the period 0.1 s; give period, or max_gap"},
        {timed, 0, "t,xs,c\n1,0,0\n",
         "t.csv:2: the rows do not tell the time between samples; give it"},
        {timed, 0, "t,xs,c\n0,0,0\n1,0,\n2,0,0\n",
         "t.csv:3: the control \"u\" is missing or not finite; fill it in, or take another part of "
         "the file"},
        {timed, 0.3, "t,xs,c\n0,0,0\n1,0,0\n2,0,nan\n",
         "t.csv:4: the control \"u\" is missing or not finite; fill it in, or take another part of "
         "the file"},
        {"time: t\nobserve: {q0: x}\ncontrol: {u: 1/x}\n", 0, "t,x\n0,1\n1,0\n2,1\n",
         "t.csv:3: the control \"u\" is missing or not finite; fill it in, or take another part of "
         "the file"},
        {timed, 1e-6, "t,xs,c\n0,0,0\n10,0,0\n",
         "t.csv:2: more than a million samples, and more than 100 for each row; take a longer "
         "period"},
        {"time: t\ntrajectory: r\nobserve: {q0: x}\n", 1e-6, // together
         "r,t,x\n0,0,0\n0,0.6,0\n1,0,0\n1,0.6,0\n",
         "t.csv:4: more than a million samples, and more than 100 for each row; take a longer "
         "period"},
        {"time: t\ntime_repair: true\nobserve: {q0: x}\n", 0,
         "t,x\n1,0\n2,0\n3,0\n4,0\n5,0\n6,0\n7,0\n8,0\n9,0\n10,0\n11,0\n12,0\n13,0\n14,0\n15,0\n"
         "16,0\n17,0\n0,0\n",
         "t.csv:19: the time goes back by more than 16 rows; if these are several recordings, name "
         "the column that tells them apart as trajectory"},
        {streams, 0, "s,run,t,x\na,0,0,1\na,0,1,1\nb,0,0,1\nb,1,0,1\n",
         "t.csv:5: this trajectory is not the same in source 2 as in source 1; each must have all "
         "of them, in one order"},
        {streams, 0, "s,run,t,x\na,0,0,1\na,1,1,1\nb,0,0,1\n",
         "t.csv:3: this trajectory is not the same in source 2 as in source 1; each must have all "
         "of them, in one order"},
        {streams, 0, "s,run,t,x\na,0,0,1\na,0,1,1\nb,0,9,1\n",
         "t.csv:2: the sources have no time in common; is an offset missing?"},
        {streams, 0, "s,run,t,x\na,0,0,1\n", "t.csv:1: no row has \"b\" in column \"s\""},
        {streams, 0, "run,t,x\n0,0,1\n", "t.csv:1:1: there is no column \"s\""},
        {streams, 0, "s,t,x\na,0,1\nb,0,1\n",
         "m.yaml:1:13: there is no column \"run\" in t.csv; it has s, t, x"},
        {streams, 0, "s,run,t,x\na,,0,1\n", "t.csv:2: \"run\" is missing or not finite"},
        {"rate: 5\nquaternions: [[a, b, c, d]]\nobserve: {q0: a}\n", 0, "a,b,c\n1,2,3\n1,2,3\n",
         "m.yaml:2:15: there is no column \"d\" in t.csv; it has a, b, c"},
        {"columns: [a, b]\nrate: 5\nobserve: {q0: a}\n", 0, "1,2,3\n",
         "t.csv:1:5: more fields than the 2 columns; remove them, or name them"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        set s = make(cases[k].map, cases[k].period);
        ns_error error = {0};
        ns_status status = nsi_dataset_add_text(s.data, cases[k].table, strlen(cases[k].table),
                                                "t.csv", NULL, &error);
        if (status == NS_OK) fail_msg("accepted: %s", cases[k].table);
        if (strcmp(error.message, cases[k].message) != 0) {
            fail_msg("%s\n  gives    %s\n  expected %s", cases[k].table, error.message,
                     cases[k].message);
        }
        assert_int_equal(status, error.status);
        assert_int_equal(ns_dataset_recording_count(s.data), 0);
        assert_true(ns_dataset_period(s.data) == cases[k].period);
        assert_string_equal(ns_dataset_treatment(s.data), "");
        drop(&s);
    }
    // A control that is missing elsewhere does not matter.
    set s = make(timed, 0.0);
    add(&s, "t,xs,c\n0,0,0\n1,0,\n2,0,0\n3,0,0\n", &(ns_data_part){.from = 2.0});
    assert_int_equal(ns_dataset_recording(s.data, 0)->nsample, 2);
    drop(&s);
}

static void a_failed_file_changes_nothing(void** state) {
    (void)state;
    set s = make("time: t\nobserve: {q0: x}\n", 0.0);
    ns_error error = {0};
    assert_int_equal(ns_dataset_add(s.data, "/no/such/file.csv", NULL, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "/no/such/file.csv"));
    add(&s, "t,x\n0,1\n0.5,2\n", NULL);
    const ns_recording* first = ns_dataset_recording(s.data, 0);
    assert_int_equal(nsi_dataset_add_text(s.data, "t,x\n0,1\n0,2\n", 12, "b.csv", NULL, &error),
                     NS_ERR_PARSE);
    assert_int_equal(ns_dataset_recording_count(s.data), 1);
    assert_true(ns_dataset_period(s.data) == 0.5);
    add(&s, "t,x\n0,1\n0.25,2\n1,3\n", NULL);
    assert_ptr_equal(ns_dataset_recording(s.data, 0), first);
    assert_int_equal(ns_dataset_recording_count(s.data), 2);
    assert_true(ns_dataset_period(s.data) == 0.5); // that of the first
    drop(&s);
    ns_dataset_free(NULL);
    assert_int_equal(ns_dataset_create(NULL, 0.1, NULL, &s.data, &error), NS_ERR_ARGUMENT);
    s = make("rate: 1\nobserve: {q0: x}\n", 0.0);
    ns_dataset* other = NULL;
    assert_int_equal(ns_dataset_create(s.map, -1.0, NULL, &other, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_dataset_create(s.map, NAN, NULL, &other, &error), NS_ERR_ARGUMENT);
    drop(&s);
}

static void fail_each_allocation(const char* map_text, const char* table) {
    const char* path = tempdir_path("t.csv");
    ns_data_map* map = NULL;
    assert_int_equal(nsi_data_map_parse(map_text, strlen(map_text), "m.yaml", NULL, &map, NULL),
                     NS_OK);
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_dataset* data = NULL;
        ns_error error = {0};
        ns_status status = ns_dataset_create(map, 0.0, &allocator, &data, &error);
        if (status == NS_OK) {
            status = nsi_dataset_add_text(data, table, strlen(table), path, NULL, &error);
            assert_int_equal(ns_dataset_recording_count(data), status == NS_OK ? 2 : 0);
        }
        ns_dataset_free(data);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
    }
    ns_data_map_free(map);
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    static const char map_text[] = "trajectory: r\n"
                                   "table: {file: index.csv, key: r}\n"
                                   "sources:\n"
                                   "  - where: {s: a}\n"
                                   "    time: t + late\n"
                                   "    since: x\n"
                                   "    until: x - 2.5\n"
                                   "    define: {y: 'smooth(x, 3, 1)'}\n"
                                   "    quaternions: [[y, y, y, y]]\n"
                                   "    observe: {q0: y, q1: x}\n"
                                   "  - where: {s: b}\n"
                                   "    rate: 5\n"
                                   "    control: {u: 2*x}\n";
    static const char table[] = "s,r,t,x\na,0,0,1\na,0,0.1,2\na,0,0.2,3\nb,0,,1\nb,0,,2\n"
                                "a,1,0,1\na,1,0.1,2\nb,1,,1\nb,1,,2\nb,1,,2\n";
    tempdir_write("index.csv", "r,late\n0,0\n1,0\n");
    fail_each_allocation(map_text, table);
    fail_each_allocation(ends_map, "x0,a0,x1,a1\n1,3,2,-3\n4,0.5,3,0.25\n");
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

// ---- real recordings -----------------------------------------------------------------------

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
        cmocka_unit_test(rows_on_the_grid_are_used_as_they_are),
        cmocka_unit_test(periods_are_as_round_as_the_times),
        cmocka_unit_test(resampling_has_its_order),
        cmocka_unit_test(uneven_rows_keep_polynomials),
        cmocka_unit_test(gaps_are_missing),
        cmocka_unit_test(columns_have_their_own_rate),
        cmocka_unit_test(sources_meet_on_one_grid),
        cmocka_unit_test(repeated_and_late_rows_are_repaired),
        cmocka_unit_test(trajectories_are_recordings),
        cmocka_unit_test(parts_that_meet_share_nothing),
        cmocka_unit_test(definitions_follow_each_other),
        cmocka_unit_test(quaternions_are_unit_and_continuous),
        cmocka_unit_test(noise_has_its_size),
        cmocka_unit_test(files_without_names_get_them),
        cmocka_unit_test(controls_are_held_or_interpolated),
        cmocka_unit_test(tables_of_others_are_read),
        cmocka_unit_test(constants_come_from_a_table),
        cmocka_unit_test(faults_of_a_table_have_a_place),
        cmocka_unit_test(recordings_end_where_the_map_says),
        cmocka_unit_test(recordings_begin_where_the_map_says),
        cmocka_unit_test(slopes_lead_along_a_path),
        cmocka_unit_test(rows_can_be_recordings),
        cmocka_unit_test(samples_of_rows_are_on_the_grid),
        cmocka_unit_test(many_rows_can_be_recordings),
        cmocka_unit_test(columns_are_of_the_rows_that_are_left),
        cmocka_unit_test(faults_have_a_place),
        cmocka_unit_test(a_failed_file_changes_nothing),
        cmocka_unit_test(failing_allocations_are_reported),
        cmocka_unit_test(long_files_are_read),
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
