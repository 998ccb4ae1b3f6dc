// The command plot: figures of a real fit, an experiment and tables, as files and in characters.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/picture.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const picture* read_picture(const char* name) {
    char* text = tempdir_read(name);
    if (!*text) fail_msg("there is no %s", name);
    const picture* p = picture_read(text, strlen(text));
    free(text);
    return p;
}

static ns_table read_table(const char* name) {
    ns_table table;
    ns_error error;
    must(ns_table_read(tempdir_path(name), &(ns_table_options){.allow_missing = true}, NULL, &table,
                       &error),
         &error);
    return table;
}

static double number_of(const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    return json_is_null(value) ? NAN : json_number_value(value);
}

// ---- a fit -------------------------------------------------------------------------------------

static int set_up(void** state) {
    (void)state;
    tempdir_write("net.yaml", "networks:\n  - name: friction\n    each: joint/*\n"
                              "    inputs: ['{}/velocity', '{}/sin']\n    outputs: '{}/tau'\n"
                              "    hidden: [3]\n");
    tempdir_write(
        "fit.yaml",
        "title: 'A </script><b> \"fit\" \xe9\x96\xa2\xe7\xaf\x80'\n"
        "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
        "blueprint: net.yaml\nintegrator: rk4\ntimestep: 0.02\n"
        "data:\n  train: [{file: " NEURALSIM_SOURCE_DIR
        "/examples/rusty_pendulum_run.csv, to: 70%}]\n"
        "  test: [{file: " NEURALSIM_SOURCE_DIR "/examples/rusty_pendulum_run.csv, from: 70%}]\n"
        "parameters: {link/link1/mass: free, joint/joint0/damping: {initial: 0.01, lower: 0}}\n"
        "train: {window: 5, initial_state: recorded, iterations: 5}\n"
        "stages:\n  - {}\n  - {method: proximal, group: 1.0e-5}\n"
        "  - {method: proximal, group: 1.0e-3}\n  - {}\n"
        "predict: {origins: 3, horizons: [0.1, 0.2]}\n");
    run_ok("fit fit.yaml -o out");
    return 0;
}

static void figures_are_listed(void** state) {
    (void)state;
    run_ok("plot out --list");
    static const char* const figures[] = {"loss ",         "parameters ",      "correlation ",
                                          "errors_train ", "errors_test ",     "timing ",
                                          "path ",         "network_friction "};
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) assert_says(last.out, figures[k]);
    char* all = strdup(last.out);
    run_ok("plot out/result.json --list");
    assert_string_equal(last.out, all);
    run_ok("plot out/ --list");
    assert_string_equal(last.out, all);
    free(all);
}

static void every_figure_is_a_picture(void** state) {
    (void)state;
    run_ok("plot out -o figures/");
    static const char* const figures[] = {"loss",         "parameters",      "correlation",
                                          "errors_train", "errors_test",     "timing",
                                          "path",         "network_friction"};
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        char name[80];
        snprintf(name, sizeof name, "figures/%s.svg", figures[k]);
        const picture* p = read_picture(name);
        assert_int_equal(picture_count(p, "rect", "paper"), 1);
        assert_true(p->nitem > 5);
    }
    const picture* p = read_picture("figures/network_friction.svg");
    assert_int_equal(picture_count(p, "line", NULL), 3 * 3 + 4);
    assert_true(picture_says(p, "joint/*/velocity"));
    p = read_picture("figures/path.svg");
    assert_true(picture_says(p, "joint/*/sin") && picture_says(p, "penalty, group"));
    run_ok("plot out --figure timing -o one.svg");
    char* one = tempdir_read("one.svg");
    char* same = tempdir_read("figures/timing.svg");
    assert_string_equal(one, same);
    free(one);
    free(same);
    run_ok("plot out -o first.svg"); // the first
    assert_true(picture_says(read_picture("first.svg"), "Loss over iterations"));
    // The page has the same pictures.
    char* page = tempdir_read("out/report.html");
    for (size_t k = 0; k < sizeof figures / sizeof *figures; k++) {
        char mark[80];
        snprintf(mark, sizeof mark, "<figure id=\"figure-%s\" class=\"figure\">", figures[k]);
        assert_says(page, mark);
    }
    assert_says(page, "<style id=\"figure-style\">");
    free(page);
}

static void numbers_are_those_of_the_result(void** state) {
    (void)state;
    json_t* root = json_load_file(tempdir_path("out/result.json"), 0, NULL);
    assert_non_null(root);
    run_ok("plot out --figure loss -o loss.csv");
    ns_table table = read_table("loss.csv");
    const json_t* list = json_object_get(root, "history");
    assert_int_equal(table.nrow, json_array_size(list));
    for (uint32_t k = 0; k < table.nrow; k++) {
        const json_t* point = json_array_get(list, k);
        assert_true(ns_table_at(&table, k, ns_table_column(&table, "loss")) ==
                    number_of(point, "value"));
        assert_true(ns_table_at(&table, k, ns_table_column(&table, "iteration")) ==
                    number_of(point, "iteration"));
    }
    ns_table_free(&table);
    run_ok("plot out --figure path -o path.csv");
    table = read_table("path.csv");
    list = json_object_get(root, "path");
    assert_int_equal(table.nrow, json_array_size(list));
    for (uint32_t k = 0; k < table.nrow; k++) {
        const json_t* point = json_array_get(list, k);
        assert_true(ns_table_at(&table, k, ns_table_column(&table, "group")) ==
                    number_of(point, "group"));
        double norm = json_number_value(json_array_get(json_object_get(point, "norms"), 1));
        assert_true(ns_table_at(&table, k, ns_table_column(&table, "joint/*/sin")) == norm);
    }
    ns_table_free(&table);
    run_ok("plot out --figure errors_test -o errors.csv");
    table = read_table("errors.csv");
    list = json_object_get(json_object_get(json_object_get(root, "after"), "test"), "horizons");
    assert_int_equal(table.nrow, 2);
    for (uint32_t k = 0; k < table.nrow; k++) {
        assert_true(ns_table_at(&table, k, ns_table_column(&table, "after")) ==
                    number_of(json_array_get(list, k), "pooled"));
    }
    ns_table_free(&table);
    json_decref(root);
}

static void figures_are_drawn_in_characters(void** state) {
    (void)state;
    run_ok("plot out");
    assert_says(last.out, "Loss over iterations\n");
    assert_says(last.out, "iterations of all phases");
    assert_null(strstr(last.out, "\033")); // this is no terminal
    run_ok("plot out --figure parameters");
    assert_says(last.out, "link/link1/mass");
    run_ok("plot out --figure timing");
    assert_says(last.out, " evaluations");
    run_ok("plot out --figure correlation");
    run_ok("plot out --figure path");
    assert_says(last.out, "joint/*/velocity");
    run_bad("plot out --figure network_friction", 1, "a network cannot be drawn in characters");
}

// ---- tables ------------------------------------------------------------------------------------

static void predictions_are_drawn(void** state) {
    (void)state;
    tempdir_mkdir("copy");
    char* result = tempdir_read("out/result.json");
    tempdir_write("copy/result.json", result);
    free(result);
    tempdir_write("copy/predictions.csv",
                  "t,traj,test,\"a </script>\",\"a </script>/before\",\"a </script>/after\",b\n"
                  "0,0,0,1,1,1,5\n0.5,0,0,2,3,,6\n1,0,0,3,5,3.5,7\n"
                  "0,1,1,4,4,4,8\n0.5,1,1,5,6,5.5,9\n1,1,1,6,8,6.5,10\n");
    run_ok("plot copy --list");
    assert_says(last.out, "Recorded and predicted\n");
    run_ok("plot copy --figure predictions -o p.svg");
    const picture* p = read_picture("p.svg");
    assert_int_equal(picture_count(p, "polyline", "curve recorded"), 2);
    assert_int_equal(picture_count(p, "polyline", "curve before"), 2);
    assert_int_equal(picture_count(p, "polyline", "curve after"), 1); // in pieces: a gap
    assert_int_equal(picture_count(p, "circle", "curve after"), 2);
    assert_int_equal(picture_count(p, "polyline", "curve c0"), 2);
    assert_true(picture_says(p, "a </script>") && picture_says(p, "test"));
    // The boundary: the shaded stretch begins where the second trajectory does.
    const picture_item* span = picture_item_at(p, "rect", "span", 0);
    const picture_item* second = picture_item_at(p, "polyline", "curve recorded", 1);
    assert_true(fabs(span->x - p->points[second->point][0]) < 1e-6);
    assert_true(fabs(picture_item_at(p, "line", "dash", 0)->x - span->x) < 1e-6);
    run_ok("plot copy --figure predictions -o p.csv");
    ns_table table = read_table("p.csv");
    assert_int_equal(table.nrow, 6);
    assert_true(ns_table_at(&table, 3, ns_table_column(&table, "t")) == 0.0);
    assert_true(ns_table_at(&table, 4, ns_table_column(&table, "a </script>/after")) == 5.5);
    assert_true(ns_table_at(&table, 0, ns_table_column(&table, "x")) == 0.0);
    assert_true(ns_table_at(&table, 3, ns_table_column(&table, "x")) > 1.0);
    ns_table_free(&table);
    run_ok("plot copy --figure predictions --columns b -o p.svg");
    assert_int_equal(picture_count(read_picture("p.svg"), "polyline", NULL), 2);
    // Columns are of predictions; one of a channel is enough.
    run_ok("plot copy --columns 'a </script>/after' -o p.svg");
    assert_int_equal(picture_count(read_picture("p.svg"), "polyline", "curve before"), 2);
    assert_int_equal(unlink(tempdir_path("copy/predictions.csv")), 0);
    run_bad("plot copy --columns b", 1, "copy: --columns are of predictions, and there are none");

    // fitted.yaml is not beside it: no networks, which is said when one is asked for.
    run_bad("plot copy --figure network_friction", 1, "there is no figure 'network_friction'");
    tempdir_write("copy/fitted.yaml", "robot: nowhere.urdf\nblueprint: none.yaml\n");
    run_bad("plot copy --figure network_friction", 1, "nowhere.urdf");
    tempdir_write("copy/predictions.csv", "t,a\n0,x\n");
    run_bad("plot copy", 1, "copy/predictions.csv:2:3:");
}

// Of a posterior: bands of the first recording, and its samples by their weights.
static void posteriors_are_drawn(void** state) {
    (void)state;
    tempdir_mkdir("posterior");
    char* result = tempdir_read("out/result.json");
    tempdir_write("posterior/result.json", result);
    free(result);
    tempdir_write("posterior/predictions.csv",
                  "traj,t,test,a,a/before,a/after,a/low,a/high,b\n"
                  "0,0,0,1,1,1,0.9,1.1,5\n0,0.5,0,2,3,2,1.8,2.2,6\n1,0,0,4,4,4,3,5,7\n");
    tempdir_write("posterior/samples.csv",
                  "chain,draw,mode,weight,log_density,divergent,link/a/mass,noise/a\n"
                  "0,0,0,0,-1,0,7,0.1\n0,1,0,0.75,-1,0,2,0.1\n0,2,0,0.25,-1,0,3,0.1\n");
    run_ok("plot posterior --list");
    assert_says(last.out, "bands");
    assert_says(last.out, "corner");
    run_ok("plot posterior --figure bands -o bands.csv");
    ns_table table = read_table("bands.csv");
    assert_int_equal(table.nrow, 2);
    assert_int_equal(table.ncol, 4);
    assert_true(ns_table_at(&table, 1, ns_table_column(&table, "a/high")) == 2.2);
    ns_table_free(&table);

    // A sample without weight is not drawn; noise is no parameter.
    run_ok("plot posterior --figure corner -o corner.csv");
    table = read_table("corner.csv");
    assert_int_equal(table.ncol, 1);
    assert_int_equal(table.nrow, 3);
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(ns_table_at(&table, k, 0) == (k < 2 ? 2.0 : 3.0));
    }
    ns_table_free(&table);
    run_ok("plot posterior --figure corner -o corner.svg");
    tempdir_write("posterior/samples.csv", "chain,weight,link/a/mass\n0,-1,2\n");
    run_bad("plot posterior", 1, "samples.csv has no samples with a weight");
}

static void tables_are_drawn(void** state) {
    (void)state;
    run_ok("simulate " NEURALSIM_SOURCE_DIR
           "/models/double_pendulum.urdf --q0 1 0 --time 1 --every 10 -o run.csv");
    run_ok("plot run.csv -o run.svg");
    const picture* p = read_picture("run.svg");
    assert_int_equal(picture_count(p, "polyline", "curve c0"), 4);
    assert_int_equal(picture_item_at(p, "polyline", NULL, 0)->count, 101);
    assert_true(picture_says(p, "q_joint0") && picture_says(p, "t (s)"));
    run_ok("plot run.csv --columns 'qd_*' -o run.svg");
    p = read_picture("run.svg");
    assert_int_equal(picture_count(p, "polyline", NULL), 2);
    assert_true(picture_says(p, "qd_joint1") && !picture_says(p, "q_joint1"));
    run_ok("plot run.csv");
    assert_says(last.out, "run.csv\n");
    run_ok("plot run.csv --list");
    assert_says(last.out, "curves ");
    run_bad("plot run.csv --columns nothing", 1, "run.csv: there is no column 'nothing'");
    tempdir_write("many.csv", "a,b,c,d,e,f,g,h,i,j\n1,2,3,4,5,6,7,8,9,10\n");
    run_bad("plot many.csv --columns '*'", 1, "more than 8 columns");
    run_ok("plot many.csv -o many.svg");

    // What score writes: recorded and predicted in one panel.
    run_ok("score " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf --data " NEURALSIM_SOURCE_DIR
           "/examples/rusty_pendulum_run.csv -o score.csv");
    run_ok("plot score.csv -o score.svg");
    p = read_picture("score.svg");
    assert_int_equal(picture_count(p, "polyline", "curve recorded"), 4);
    assert_int_equal(picture_count(p, "polyline", "curve after"), 4);
    assert_true(picture_says(p, "predicted") && picture_says(p, "qd_joint1"));

    // Rows without a time are left out, and nothing else with them.
    tempdir_write("times.csv",
                  "traj,t,test,a\n0,0,0,1\n0,1,0,2\n0,,0,3\n1,,1,4\n1,0,1,5\n1,1,1,6\n1,,1,7\n"
                  "2,,0,8\n2,0,0,9\n2,1,0,9\n");
    run_ok("plot times.csv -o times.svg");
    p = read_picture("times.svg");
    assert_int_equal(picture_count(p, "polyline", "curve c0"), 3);
    assert_int_equal(picture_count(p, "line", "dash"), 2);
    const picture_item *span = picture_item_at(p, "rect", "span", 0),
                       *second = picture_item_at(p, "polyline", "curve c0", 1);
    assert_int_equal(picture_count(p, "rect", "span"), 1);
    assert_true(fabs(span->x - p->points[second->point][0]) < 1e-6);
    assert_true(fabs(span->x + span->x2 - p->points[second->point + 1][0]) < 2e-3);
    // Without numbers of trajectories there is one. Time may go backwards.
    tempdir_write("times.csv", "traj,t,test,a\n,3,1,1\n,2,1,2\n,1,1,3\n,0,1,4\n");
    run_ok("plot times.csv -o times.svg");
    p = read_picture("times.svg");
    assert_int_equal(picture_item_at(p, "polyline", "curve c0", 0)->count, 4);
    assert_true(picture_item_at(p, "rect", "span", 0)->x2 > 100.0);

    tempdir_write("empty.csv", "t,a\n");
    run_bad("plot empty.csv", 1, "the table has no rows");
    tempdir_write("only.csv", "t\n1\n");
    run_bad("plot only.csv", 1, "there are no columns to draw");
    tempdir_write("own.csv", "t,a\n0,1\n1,2\n");
    run_bad("plot own.csv -o own.csv", 2, "-o would replace own.csv itself");
    run_bad("plot own.csv -o ./own.csv", 2, "-o would replace own.csv itself");
    tempdir_write("page.html", "<html></html>");
    run_bad("plot page.html", 1, "page.html cannot be drawn; a result.json can");
}

// ---- experiments -------------------------------------------------------------------------------

static void experiments_are_drawn(void** state) {
    (void)state;
    run_ok("experiment basin_hopping --quick -o grid");
    run_ok("plot grid --list");
    assert_string_equal(last.out, "Figures\n\n"
                                  "figure        title\n"
                                  "starts_pose1  Distance from the truth by start, pose 1\n"
                                  "starts_pose2  Distance from the truth by start, pose 2\n"
                                  "predictions   Recorded and predicted\n");
    run_ok("plot grid --figure starts_pose2 -o pose2.svg");
    char* file = tempdir_read("pose2.svg");
    char* same = tempdir_read("grid/starts_pose2.svg");
    assert_string_equal(file, same);
    free(file);
    free(same);
    run_ok("plot grid --figure starts_pose1 -o pose1.csv");
    ns_table table = read_table("pose1.csv");
    json_t* root = json_load_file(tempdir_path("grid/result.json"), 0, NULL);
    const json_t* errors =
        json_object_get(json_array_get(json_object_get(root, "poses"), 0), "errors");
    assert_int_equal(table.nrow, 25);
    for (uint32_t k = 0; k < 25; k++) {
        assert_true(ns_table_at(&table, k, 2) ==
                    json_number_value(json_array_get(json_object_get(errors, "local"), k)));
        assert_true(ns_table_at(&table, k, 3) ==
                    json_number_value(json_array_get(json_object_get(errors, "hop"), k)));
    }
    ns_table_free(&table);
    json_decref(root);
    run_ok("plot grid");
    assert_says(last.out, "*");

    // Of several fits, one.
    char *one = tempdir_read("out/result.json"), *both = malloc(3 * strlen(one) + 100);
    assert_non_null(both);
    snprintf(both, 3 * strlen(one) + 100, "{\"fits\": {\"a\": %s, \"b\": %s}}", one, one);
    tempdir_write("several.json", both);
    free(one);
    free(both);
    run_ok("plot several.json --fit b --list");
    run_bad("plot several.json --fit c", 1, "several.json: there is no fit 'c'; there are: a b");
}

// ---- mistakes ----------------------------------------------------------------------------------

static void mistakes_are_explained(void** state) {
    (void)state;
    run_bad("plot", 2, "expected one RESULT");
    run_bad("plot a b", 2, "expected one RESULT");
    run_bad("plot out -o picture.png", 2, "-o needs a name that ends with .svg, .csv or /");
    run_bad("plot out --figure paramters", 1, "'paramters'; did you mean 'parameters'?");
    run_bad("plot out --figure whatever", 1, "'neuralsim plot out --list'");
    run_bad("plot nothing.json", 1, "nothing.json");
    run_bad("plot nothing.csv", 1, "nothing.csv");
    tempdir_mkdir("hollow");
    run_bad("plot hollow", 1, "hollow has no result.json");
    tempdir_write("bad.json", "{\"before\": ");
    run_bad("plot bad.json", 1, "bad.json:1:");
    tempdir_write("bad.json", "{\"before\": {}, \"title\": []}");
    run_bad("plot bad.json", 1, "bad.json: title: expected a text");
    tempdir_write("bad.json", "{\"before\": {}, \"title\": \"\xff\"}");
    run_bad("plot bad.json", 1, "bad.json:1:");
    run_bad("plot out -o /nowhere/at/all.svg", 1, "/nowhere/at/all.svg");
    run_ok("plot --help");
    assert_says(last.out, "usage: neuralsim plot RESULT");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_are_listed),
        cmocka_unit_test(every_figure_is_a_picture),
        cmocka_unit_test(numbers_are_those_of_the_result),
        cmocka_unit_test(figures_are_drawn_in_characters),
        cmocka_unit_test(predictions_are_drawn),
        cmocka_unit_test(posteriors_are_drawn),
        cmocka_unit_test(tables_are_drawn),
        cmocka_unit_test(experiments_are_drawn),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
