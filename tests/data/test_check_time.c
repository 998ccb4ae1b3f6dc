// Times that go back, repeat, vary or are not there.

#include "data/check_rig.h"

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

static void a_missing_time_is_found(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 73);
    const char* path = rig_write("time.csv", r, "Time (s),a,b,c,d,f");
    ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(check, NS_DATA_NO_TIME, "Time (s)", "is not called t or time");
    assert_says(f->advice, "rename \"Time (s)\" to t");
    assert_true(isnan(ns_data_check_recording(check, 0)->rate));
    ns_data_check_free(check);
    path = rig_write("none.csv", r, "e,a,b,c,d,f");
    check = rig_check_files(&path, 1, NULL, NULL);
    rig_must_find(check, NS_DATA_NO_TIME, NULL, "no column is the time");
    ns_data_check_free(check);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(late_rows_are_counted),
        cmocka_unit_test(uneven_rows_are_noted),
        cmocka_unit_test(a_missing_time_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
