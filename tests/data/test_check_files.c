// Files of data checks: those that cannot be read, and those with other columns than the first.

#include "data/check_rig.h"

static void files_that_cannot_be_read_are_findings(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 3);
    const char* files[] = {rig_write("good.csv", r, NULL), tempdir_path("none.csv"),
                           tempdir_write("short.csv", "t,q_slide\n0,1\n0.1\n")};
    ns_model* model = rig_model();
    ns_data_check* check = rig_check_files(files, 3, NULL, model);
    assert_int_equal(ns_data_check_count(check, NS_DATA_PROBLEM), 2);
    assert_says(ns_data_check_finding(check, 0)->text, "none.csv");
    assert_says(ns_data_check_finding(check, 1)->text, "short.csv");
    assert_int_equal(ns_data_check_recording_count(check), 1);
    ns_data_check_free(check);

    // Without any, there is nothing to check.
    ns_error error = {0};
    ns_data_check_options none = {0};
    assert_int_equal(ns_data_check_files(&none, NULL, &check, &error), NS_ERR_ARGUMENT);
    ns_model_free(model);
    free(r);
}

// rig_write() with a path that lasts.
static const char* write_file(char path[500], const char* name, const recording* r,
                              const char* header) {
    snprintf(path, 500, "%s", rig_write(name, r, header));
    return path;
}

// Files with other columns are checked by their own names; the order of columns is free.
static void files_with_other_columns_are_apart(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 3);
    char paths[5][500];
    const char* files[5];
    files[0] = write_file(paths[0], "first.csv", r, NULL);
    for (int i = 0; i < ROWS; i++) {
        double slide = r->x[i][Q_SLIDE]; // the two positions change places
        r->x[i][Q_SLIDE] = r->x[i][Q_HINGE];
        r->x[i][Q_HINGE] = slide;
    }
    r->x[400][QD_HINGE] += 20.0;
    files[1] =
        write_file(paths[1], "order.csv", r, "t,q_hinge,q_slide,qd_slide,qd_hinge,tau_slide");
    r->x[500][Q_HINGE] += 1.0;
    files[2] =
        write_file(paths[2], "other.csv", r, "t,q_hinge,x_slide,qd_slide,qd_hinge,tau_slide");
    files[3] =
        write_file(paths[3], "clock.csv", r, "time,q_hinge,x_slide,qd_slide,qd_hinge,tau_slide");
    r->x[500][Q_HINGE] += 1.0;
    files[4] =
        write_file(paths[4], "again.csv", r, "t,qd_hinge,x_slide,qd_slide,q_hinge,tau_slide");
    ns_data_check* check = rig_check_files(files, 4, NULL, NULL);

    // One finding for each kind of file.
    const ns_data_finding* f = rig_must_find(check, NS_DATA_OTHER_COLUMNS, NULL, "other.csv:1: ");
    assert_int_equal(f->severity, NS_DATA_WARNING);
    assert_says(f->message, "no q_slide, but also x_slide");
    bool clock = false;
    for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
        clock |= strstr(ns_data_check_finding(check, k)->text, "but also x_slide, time") != NULL;
    }
    assert_true(clock);

    // Channels with the names of their own files, and rows of these only.
    assert_int_equal(ns_data_check_recording_count(check), 4);
    assert_int_equal(ns_data_check_channel_count(check), 15);
    assert_string_equal(ns_data_check_recording(check, 2)->name, "other.csv");
    assert_string_equal(ns_data_check_channel(check, 0)->name, "q_slide");
    assert_string_equal(ns_data_check_channel(check, 6)->name, "x_slide");
    assert_null(ns_data_check_channel(check, 15));
    assert_null(ns_data_check_recording(check, 4));
    const double *times, *x;
    assert_int_equal(ns_data_check_rows(check, 1, 0, &times, &x), ROWS);
    close_to("q_slide of the other order", x[77], r->x[77][Q_HINGE], 1e-8);
    assert_int_equal(ns_data_check_rows(check, 2, 6, &times, &x), ROWS);
    close_to("x_slide", x[77], r->x[77][Q_HINGE], 1e-8);
    close_to("time", times[77], 0.77, 1e-9);
    assert_int_equal(ns_data_check_rows(check, 2, 0, &times, &x), 0);

    // Findings have the names of their own files.
    rig_must_find(check, NS_DATA_OUTLIERS, "x_slide", "other.csv:502: x_slide: ");
    rig_must_find(check, NS_DATA_OUTLIERS, "qd_hinge", "order.csv:402: qd_hinge: ");
    ns_data_check_free(check);

    // Files of one kind are one finding, in whatever order their columns are.
    const char* kinds[] = {files[0], files[2], files[4]};
    check = rig_check_files(kinds, 3, NULL, NULL);
    f = rig_must_find(check, NS_DATA_OTHER_COLUMNS, NULL, "2 files have other columns than ");
    assert_int_equal(f->count, 2);
    assert_int_equal(ns_data_check_channel_count(check), 10);
    ns_data_check_free(check);

    // Columns that only later files have do no harm, nor do those that the model does not know.
    r->x[400][QD_HINGE] -= 20.0;
    const char* more[] = {rig_write("less.csv", r, "t,q_hinge,step,qd_slide,qd_hinge,tau_slide"),
                          rig_write("more.csv", r, "t,q_hinge,note,qd_slide,qd_hinge,tau_slide")};
    ns_model* model = rig_model();
    for (int k = 0; k < 2; k++) {
        const char* both[] = {more[k], more[1 - k]};
        check = rig_check_files(both, 2, NULL, k == 0 ? NULL : model);
        f = rig_must_find(check, NS_DATA_OTHER_COLUMNS, NULL,
                          k == 0 ? "more.csv:1: column note is in this file, not in " : "no note");
        assert_int_equal(f->severity, NS_DATA_NOTE);
        assert_string_equal(f->advice, "the file is checked separately");
        ns_data_check_free(check);
    }
    ns_model_free(model);

    // Of several files with several columns, too.
    const char* tables[] = {tempdir_write("a.csv", "t,a\n0,1\n0.1,2\n"),
                            tempdir_write("b.csv", "t,a,b,c\n0,1,2,3\n0.1,2,3,4\n"),
                            tempdir_write("c.csv", "t,a,b,c\n0,1,2,3\n0.1,4,3,4\n")};
    check = rig_check_files(tables, 3, NULL, NULL);
    f = rig_must_find(check, NS_DATA_OTHER_COLUMNS, NULL,
                      "columns b, c are in these 2 files, not in ");
    assert_string_equal(f->advice, "the files are checked separately");
    ns_data_check_free(check);
    free(r);
}

// A channel names the first file with its columns, also when no row of this can be read.
static void channels_name_their_files(void** state) {
    (void)state;
    const char* files[] = {tempdir_write("bad.csv", "t,a,c\n0,1,2\n0.1\n"),
                           tempdir_write("right.csv", "t,a,b\n0,1,2\n0.1,2,3\n")};
    ns_data_check* check = rig_check_files(files, 2, NULL, NULL);
    assert_int_equal(ns_data_check_recording_count(check), 1);
    assert_int_equal(ns_data_check_channel_count(check), 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_string_equal(ns_data_check_channel(check, k)->file, files[k / 2]);
    }
    ns_data_check_free(check);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_cannot_be_read_are_findings),
        cmocka_unit_test(files_with_other_columns_are_apart),
        cmocka_unit_test(channels_name_their_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
