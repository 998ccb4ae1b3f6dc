// Columns computed from those of a table, and constants from a table beside it.

#define _POSIX_C_SOURCE 200809L

#include "data/dataset_rig.h"
#include "data/map.h"
#include "data/resample.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(definitions_follow_each_other),
        cmocka_unit_test(quaternions_are_unit_and_continuous),
        cmocka_unit_test(noise_has_its_size),
        cmocka_unit_test(files_without_names_get_them),
        cmocka_unit_test(controls_are_held_or_interpolated),
        cmocka_unit_test(tables_of_others_are_read),
        cmocka_unit_test(constants_come_from_a_table),
        cmocka_unit_test(faults_of_a_table_have_a_place),
        cmocka_unit_test(slopes_lead_along_a_path),
        cmocka_unit_test(columns_are_of_the_rows_that_are_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
