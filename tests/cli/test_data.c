// The command data: terminal, JSON and page, and exit codes.

#include "support/program.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODEL NEURALSIM_SOURCE_DIR "/tests/data/cartpole/model.xml"

enum { ROWS = 300 };

// A cart-pole that swings, with a hinge in the unit of `factor` per rad; NULL for good rows.
static void write_swing(const char* name, double factor, const char* end) {
    static char text[ROWS * 120];
    size_t used = (size_t)sprintf(text, "t,q_slide,q_hinge,qd_slide,qd_hinge\n");
    for (int k = 0; k < ROWS; k++) {
        double t = 0.01 * k;
        used +=
            (size_t)sprintf(text + used, "%.2f,%.7f,%.7f,%.7f,%.7f\n", t, 0.3 * sin(2.0 * t),
                            factor * 0.8 * cos(3.0 * t), 0.6 * cos(2.0 * t), -2.4 * sin(3.0 * t));
    }
    sprintf(text + used, "%s", end ? end : "");
    tempdir_write(name, text);
}

static void good_recordings_say_so(void** state) {
    (void)state;
    write_swing("good.csv", 1.0, NULL);
    run_ok("data good.csv --model " MODEL);
    assert_says(last.out, "No mistakes were found.");
    assert_says(last.out, "q_hinge");
    assert_string_equal(last.err, "");
}

static void a_mistake_is_a_warning_in_all_forms(void** state) {
    (void)state;
    write_swing("deg.csv", 57.29577951308232, NULL);
    run_ok("data deg.csv --model " MODEL " -o checked");
    assert_says(last.out, "1 likely mistake");
    assert_says(last.out, "deg.csv: q_hinge: it seems to be in degrees, not rad");
    assert_says(last.out, "q_hinge * deg");

    // The page has the headline first, then the curves.
    char* page = tempdir_read("checked/report.html");
    const char *warning = strstr(page, "it seems to be in degrees"), *curve = strstr(page, "<svg");
    assert_true(warning && curve && warning < curve);
    free(page);

    // JSON, printed and in the folder.
    run_ok("data deg.csv --json --model " MODEL);
    char* record = tempdir_read("checked/result.json");
    const char* texts[] = {last.out, record};
    for (int k = 0; k < 2; k++) {
        json_t* root = json_loads(texts[k], 0, NULL);
        assert_non_null(root);
        assert_int_equal(json_integer_value(json_object_get(root, "warnings")), 1);
        assert_int_equal(json_integer_value(json_object_get(root, "problems")), 0);
        const json_t* f = json_array_get(json_object_get(root, "findings"), 0);
        assert_string_equal(json_string_value(json_object_get(f, "code")), "degrees");
        assert_string_equal(json_string_value(json_object_get(f, "severity")), "warning");
        assert_string_equal(json_string_value(json_object_get(f, "channel")), "q_hinge");
        assert_int_equal(json_array_size(json_object_get(root, "channels")), 4);
        const json_t* recording = json_array_get(json_object_get(root, "recordings"), 0);
        assert_int_equal(json_integer_value(json_object_get(recording, "rows")), ROWS);
        json_decref(root);
    }
    free(record);
}

// Curves have a line at each finding.
static void pages_mark_findings(void** state) {
    (void)state;
    write_swing("spike.csv", 1.0, NULL);
    char* text = tempdir_read("spike.csv");
    char* at = strstr(text, "\n1.50,");
    assert_non_null(at);
    memcpy(at + 1, "1.50,9", 6); // the slide is at 9 there
    tempdir_write("spike.csv", text);
    free(text);
    run_ok("data spike.csv -o spike");
    assert_says(last.out, "spike.csv:152: q_slide: values up to 8.99 away");
    char* page = tempdir_read("spike/report.html");
    assert_non_null(strstr(page, ">outliers<"));
    free(page);
}

// Files with other columns: a channel for each, with curves.
static void files_with_other_columns_are_shown(void** state) {
    (void)state;
    tempdir_write("one.csv", "t,a,b\n0,1,2\n0.1,2,3\n0.2,3,5\n0.3,1,2\n");
    tempdir_write("two.csv", "t,a,c\n0,1,2\n0.1,2,4\n0.2,3,5\n0.3,1,2\n");
    run_ok("data one.csv two.csv -o columns");
    assert_says(last.out, "two.csv:1: it has other columns than one.csv: no b, but also c; ");
    const char* rows[] = {"a (one.csv)", "b  ", "a (two.csv)", "c  "};
    for (int k = 0; k < 4; k++) assert_says(last.out, rows[k]);
    char* page = tempdir_read("columns/report.html");
    const char* titles[] = {"a in one.csv", "b in one.csv", "a in two.csv", "c in two.csv"};
    for (int k = 0; k < 4; k++) assert_says(page, titles[k]);
    free(page);
}

// A file whose rows cannot be read has channels without a recording: they are not those of another file.
static void channels_without_recordings_have_their_own_file(void** state) {
    (void)state;
    tempdir_write("bad.csv", "t,a,c\n0,1,2\n0.1\n");
    tempdir_write("right.csv", "t,a,b\n0,1,2\n0.1,2,3\n0.2,3,5\n");
    run_bad("data bad.csv right.csv -o broken", 1, "");
    assert_says(last.out, "a (bad.csv)");
    assert_says(last.out, "a (right.csv)");
    char* record = tempdir_read("broken/result.json");
    json_t* root = json_loads(record, 0, NULL);
    assert_non_null(root);
    const json_t* channels = json_object_get(root, "channels");
    assert_int_equal(json_array_size(channels), 4);
    for (size_t k = 0; k < 4; k++) {
        const json_t* file = json_object_get(json_array_get(channels, k), "file");
        assert_non_null(file);
        assert_string_equal(json_string_value(file), k < 2 ? "bad.csv" : "right.csv");
    }
    json_decref(root);
    free(record);
}

static void unusable_files_end_with_1(void** state) {
    (void)state;
    write_swing("back.csv", 1.0, "1,0,0,0,0\n");
    run_bad("data back.csv", 1, "");
    assert_says(last.out, "back.csv:302: the time goes back");
    assert_says(last.out, "time_repair: true");
    run_bad("data none.csv", 1, "none.csv");
    run_bad("data", 2, "expected recordings");
    run_bad("data good.csv --map none.yaml", 1, "none.yaml");
    run_bad("data good.csv --model none.xml", 1, "none.xml");
    run_bad("data good.csv -o good.csv", 1, "give another one with -o");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_recordings_say_so),
        cmocka_unit_test(a_mistake_is_a_warning_in_all_forms),
        cmocka_unit_test(pages_mark_findings),
        cmocka_unit_test(files_with_other_columns_are_shown),
        cmocka_unit_test(channels_without_recordings_have_their_own_file),
        cmocka_unit_test(unusable_files_end_with_1),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
