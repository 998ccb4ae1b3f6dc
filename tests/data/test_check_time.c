// Times that go back, repeat, vary or are not there.

#include "data/check_rig.h"

#include <string.h>

static void late_rows_are_counted(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 67);
    r->x[200][T] = r->x[199][T];        // repeats
    r->x[300][T] = r->x[290][T] - 1e-3; // goes back
    r->x[400][T] = NAN;
    checked c = rig_check(r, NULL, NULL);
    const ns_data_finding* f = rig_must_find(c.check, NS_DATA_TIME_BACKWARDS, NULL,
                                             "run.csv:202: the time goes back, repeats");
    assert_int_equal(f->severity, NS_DATA_PROBLEM);
    assert_int_equal(f->count, 3);
    close_to("time", f->places[0].time, 1.99, 1e-9);
    rig_only(c.check, NS_DATA_TIME_BACKWARDS);
    assert_int_equal(ns_data_check_recording(c.check, 0)->rows, ROWS - 3);
    rig_drop(&c);

    // The map repairs: worth a note.
    r->x[400][T] = 4.0;
    tempdir_write("repair.yaml", "time: t\ntime_repair: true\nobserve: {q_slide: a, q_hinge: b}\n");
    c = rig_check(r, "t,a,b,c,d,f", tempdir_path("repair.yaml"));
    f = rig_must_find(c.check, NS_DATA_TIME_BACKWARDS, NULL, "in 2 rows");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    rig_drop(&c);
    free(r);
}

static void uneven_rows_are_noted(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 71);
    checked c = rig_check(r, NULL, NULL);
    assert_null(rig_find(c.check, NS_DATA_UNEVEN, NULL));
    close_to("jitter", ns_data_check_recording(c.check, 0)->jitter, 0.0, 1e-9);
    rig_drop(&c);

    // Every other row is late: distances of 8.2 and 11.8 ms.
    for (int i = 1; i < ROWS; i += 2) r->x[i][T] += 0.0018;
    c = rig_check(r, NULL, NULL);
    const ns_data_finding* f = rig_must_find(c.check, NS_DATA_UNEVEN, NULL, "varies by");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    rig_drop(&c);
    free(r);
}

// Many uneven recordings are one finding, which names the worst one.
static void uneven_recordings_are_one_finding(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 71);
    const char* files[4];
    const double late[] = {0.0, 0.0016, 0.0019, 0.0005};
    for (int k = 0; k < 4; k++) {
        char name[20];
        snprintf(name, sizeof name, "%d.csv", k);
        for (int i = 1; i < ROWS; i += 2) r->x[i][T] = PERIOD * i + late[k];
        r->x[1][Q_SLIDE] += 0.001; // no duplicates
        files[k] = rig_write(name, r, NULL);
    }
    ns_data_check* check = rig_check_files(files, 4, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(check, NS_DATA_UNEVEN, NULL, "2.csv:2: in 2 of 4 recordings, the distance");
    assert_int_equal(f->count, 2);
    assert_int_equal(f->nplace, 2);
    assert_string_equal(f->places[1].recording, "1.csv");

    // Distances of 8.1 ms, and as many that are 3.8 ms longer (the last row is beyond the grid).
    close_to("jitter", f->value, 0.0038 * sqrt(0.5), 1e-9);
    uint32_t notes = 0;
    for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
        notes += ns_data_check_finding(check, k)->code == NS_DATA_UNEVEN;
    }
    assert_int_equal(notes, 1);
    ns_data_check_free(check);
    free(r);
}

static void a_missing_time_is_found(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 73);
    const char* path = rig_write("time.csv", r, "Time (s),a,b,c,d,f");
    ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(check, NS_DATA_NO_TIME, "Time (s)", "is not called t or time");
    assert_says(f->advice, "rename \"Time (s)\" to t");
    assert_true(isnan(ns_data_check_recording(check, 0)->rate));
    assert_true(isnan(ns_data_check_recording(check, 0)->duration));
    ns_data_check_free(check);
    path = rig_write("none.csv", r, "e,a,b,c,d,f");
    check = rig_check_files(&path, 1, NULL, NULL);
    rig_must_find(check, NS_DATA_NO_TIME, NULL, "no column is the time");
    ns_data_check_free(check);
    free(r);
}

// Without times, places are rows and lengths are numbers of rows.
static void rows_without_times_are_counted(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 73);
    r->x[300][Q_SLIDE] += 0.8;
    for (int i = 400; i < 430; i++) r->x[i][Q_HINGE] = NAN;
    const char* path = rig_write("none.csv", r, "e,a,b,c,d,f");
    ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
    rig_must_find(check, NS_DATA_OUTLIERS, "a", "1 time, at row 301; ");
    rig_must_find(check, NS_DATA_MISSING, "b", "in gaps of up to 31 rows, 1 time, at row 431; ");
    ns_data_check_free(check);
    free(r);
}

// The text between `...` of an advice.
static void quoted_part(const char* advice, char* out, size_t size) {
    const char *from = strchr(advice, '`'), *to = from ? strchr(from + 1, '`') : NULL;
    if (!to) {
        fail_msg("no command in: %s", advice);
        return;
    }
    assert_true((size_t)(to - from) < size);
    snprintf(out, size, "%.*s", (int)(to - from - 1), from + 1);
}

// Times in other units under a name that is not known: what the advice says leads to seconds.
static void advice_on_other_clocks_leads_to_seconds(void** state) {
    (void)state;
    static const struct {
        const char *column, *unit;
        double factor;
    } cases[] = {
        {"time_ms", "in milliseconds", 1e3},   {"\"Time (ms)\"", "in milliseconds", 1e3},
        {"t_us", "in microseconds", 1e6},      {"stamp_ns", "in nanoseconds", 1e9},
        {"timestamp", "in milliseconds", 1e3}, {"time_s", "it seems to be the time, but", 1.0}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        recording* r = rig_record(1e-3, 73);
        for (int i = 0; i < ROWS; i++) r->x[i][T] *= cases[k].factor;
        char header[80], name[40], part[120], text[300];
        snprintf(header, sizeof header, "%s,a,b,c,d,f", cases[k].column);
        bool quoted = cases[k].column[0] == '"';
        snprintf(name, sizeof name, "%.*s", (int)strlen(cases[k].column) - (quoted ? 2 : 0),
                 cases[k].column + (quoted ? 1 : 0));
        const char* path = rig_write("clock.csv", r, header);
        ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
        const ns_data_finding* f = rig_must_find(check, NS_DATA_NO_TIME, name, cases[k].unit);
        quoted_part(f->advice, part, sizeof part);
        char divide[160];
        snprintf(divide, sizeof divide, "divide \"%s\" by %g and rename it to t", name,
                 cases[k].factor);
        assert_int_equal(strstr(f->advice, divide) != NULL, cases[k].factor > 1.0);
        ns_data_check_free(check);

        // In a map.
        snprintf(text, sizeof text, "%s\nobserve: {q0: a}\n", part);
        check = rig_check_files(&path, 1, tempdir_write("clock.yaml", text), NULL);
        rig_only(check, -1);
        close_to("rate", ns_data_check_recording(check, 0)->rate, 100.0, 1e-6);
        ns_data_check_free(check);

        // In the file.
        for (int i = 0; i < ROWS; i++) r->x[i][T] /= cases[k].factor;
        path = rig_write("clock.csv", r, "t,a,b,c,d,f");
        check = rig_check_files(&path, 1, NULL, NULL);
        rig_only(check, -1);
        close_to("rate", ns_data_check_recording(check, 0)->rate, 100.0, 1e-6);
        ns_data_check_free(check);
        free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_rows_are_counted),
        cmocka_unit_test(uneven_rows_are_noted),
        cmocka_unit_test(uneven_recordings_are_one_finding),
        cmocka_unit_test(a_missing_time_is_found),
        cmocka_unit_test(rows_without_times_are_counted),
        cmocka_unit_test(advice_on_other_clocks_leads_to_seconds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
