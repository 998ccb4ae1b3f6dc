// Datasets: recordings made of tables by a map; trajectories, parts, faults with their places.

#define _POSIX_C_SOURCE 200809L

#include "data/dataset_rig.h"
#include "data/map.h"
#include "data/resample.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
    assert_string_equal(
        error.message,
        "u.csv:2: no samples remain: the selected part is empty or outside the recording");
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

// ---- a table beside the recordings, and where recordings end ---------------------------------------

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
                        "t.csv:2: until is above 0 in the first row, so no rows remain");
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
    assert_string_equal(error.message, "t.csv:2: since is never above 0, so no rows remain");
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
         "t.csv:4: the time equals that of the row before; correct the rows, or set time_repair: "
         "true in the map to sort them and drop duplicates"},
        {timed, 0, "t,xs,c\n1,0,0\n\n3,0,0\n2,0,0\n",
         "t.csv:5: the time goes back; correct the rows, or set time_repair: true in the map to "
         "sort them and drop duplicates"},
        {timed, 0, "t,xs,c\n1,0,0\n,0,0\n",
         "t.csv:3: the time is missing or not finite; remove the row"},
        {timed, 0, "t,xs,c\n1,0,0\ninf,0,0\n",
         "t.csv:3: the time is missing or not finite; remove the row"},
        {"rows: recordings\ntime: [0, t]\nobserve: {q0: x}\n", 1, "t,x\n1,0\n,0\n",
         "t.csv:3: time of sample 1 is missing"},
        {"rows: recordings\ntime: [0, t]\nobserve: {q0: x}\n", 0.1, "t,x\n0.3,0\n0.25,0\n",
         "t.csv:3: time 0.25 is no multiple of the period 0.1 s; give period, or max_gap"},
        {timed, 0, "t,xs,c\n1,0,0\n",
         "t.csv:2: the sample period cannot be derived from the rows; give it"},
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
         "the column that distinguishes them as trajectory"},
        {streams, 0, "s,run,t,x\na,0,0,1\na,0,1,1\nb,0,0,1\nb,1,0,1\n",
         "t.csv:5: source 2 has another trajectory here than source 1; all sources need the same "
         "trajectories in the same order"},
        {streams, 0, "s,run,t,x\na,0,0,1\na,1,1,1\nb,0,0,1\n",
         "t.csv:3: source 2 has another trajectory here than source 1; all sources need the same "
         "trajectories in the same order"},
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trajectories_are_recordings),
        cmocka_unit_test(parts_that_meet_share_nothing),
        cmocka_unit_test(recordings_end_where_the_map_says),
        cmocka_unit_test(recordings_begin_where_the_map_says),
        cmocka_unit_test(rows_can_be_recordings),
        cmocka_unit_test(many_rows_can_be_recordings),
        cmocka_unit_test(faults_have_a_place),
        cmocka_unit_test(a_failed_file_changes_nothing),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
