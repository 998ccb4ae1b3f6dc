// The command discover: from files made by the program itself to files that it reads again.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define MODEL NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

static void record(const char* set) {
    char arguments[600];
    snprintf(arguments, sizeof arguments,
             "simulate " MODEL " --time 3 --dt 0.02 --integrator rk4 --q0 1 -0.8 -o data.csv %s",
             set);
    run_ok(arguments);
}

static int set_up(void** state) {
    (void)state;
    tempdir_write("missing.yaml", "title: 'a <b> test'\nmodel: " MODEL
                                  "\nintegrator: rk4\ntimestep: 0.02\ndata: {train: [data.csv]}\n");
    return 0;
}

static void damping_is_found(void** state) {
    (void)state;
    record("--set joint/joint1/damping=0.1");
    run_ok("discover missing.yaml --threads 1");
    assert_says(last.out, "joint/joint1/tau += -0.1000000 qd");
    assert_says(last.out, "the same as joint/joint1/damping = 0.1");
    assert_says(last.out, "missing_discover/fitted.yaml");
    // The model goes on where the recording came from.
    run_ok("score missing_discover/fitted.yaml --data data.csv --json");
    json_t* answer = json_loads(last.out, 0, NULL);
    assert_non_null(answer);
    json_decref(answer);
    char* page = tempdir_read("missing_discover/report.html");
    assert_says(page, "joint/joint1/tau += -0.1000000 qd");
    assert_says(page, "a &lt;b&gt; test");
    assert_null(strstr(page, "a <b> test"));
    free(page);
}

static void json_has_the_numbers(void** state) {
    (void)state;
    record("--set link/link1/mass=0.7");
    run_ok("discover missing.yaml --json -o out --threads 2");
    json_t* answer = json_loads(last.out, 0, NULL);
    assert_non_null(answer);
    const json_t* found = json_object_get(answer, "found");
    assert_int_equal(json_array_size(found), 1);
    const json_t* one = json_array_get(found, 0);
    assert_string_equal(json_string_value(json_object_get(one, "kind")), "parameter");
    assert_string_equal(json_string_value(json_object_get(one, "quantity")), "link/link1/mass");
    assert_true(fabs(json_number_value(json_object_get(one, "value")) - 0.7) < 1e-6);
    assert_true(json_array_size(json_object_get(answer, "ranking")) > 5);
    assert_true(json_is_true(json_object_get(answer, "complete")));
    json_decref(answer);
    run_bad("plot out", 1, "this is a discovery; see its report.html");
}

static void likely_mistakes_in_the_data_are_warnings(void** state) {
    (void)state;
    record("--set link/link1/mass=0.7");
    tempdir_write("leak.yaml", "model: " MODEL "\nintegrator: rk4\ntimestep: 0.02\n"
                               "data: {train: [data.csv], test: [data.csv]}\n");
    run_ok("discover leak.yaml -o leak --threads 1");
    static const char said[] = "100 % of this test data is train data, too";
    assert_says(last.err, "neuralsim: warning: ");
    assert_says(last.err, said);
    assert_says(last.out, "\nData\n");
    char *json = tempdir_read("leak/result.json"), *page = tempdir_read("leak/report.html");
    assert_says(json, "\"data_warnings\"");
    assert_says(json, said);
    assert_says(page, said);
    free(json);
    free(page);
}

// What docs/discover.md says of the example.
static void the_example_lacks_seven_things(void** state) {
    (void)state;
    static const char* const quantities[] = {
        "link/link0/mass",  "link/link1/mass",  "link/link1/com/z", "joint/joint0/tau",
        "joint/joint1/tau", "joint/joint0/tau", "joint/joint1/tau"};
    static const char* const forms[] = {"", "", "", "qd", "qd", "tanh(qd / v)", "tanh(qd / v)"};
    run_ok("discover " NEURALSIM_SOURCE_DIR "/examples/discover_pendulum.yaml --json -o example");
    json_t* answer = json_loads(last.out, 0, NULL);
    const json_t* found = json_object_get(answer, "found");
    assert_int_equal(json_array_size(found), 7);
    for (size_t k = 0; k < 7; k++) {
        bool there = false;
        for (size_t i = 0; i < 7; i++) {
            const json_t* one = json_array_get(found, i);
            there |=
                strcmp(json_string_value(json_object_get(one, "quantity")), quantities[k]) == 0 &&
                strcmp(json_string_value(json_object_get(one, "form")), forms[k]) == 0;
        }
        if (!there) fail_msg("%s %s was not found", quantities[k], forms[k]);
    }
    // Useless terms at a place do not hide what one of them explains.
    const json_t* ranks = json_object_get(answer, "ranking");
    for (size_t k = 0; k < json_array_size(ranks); k++) {
        const json_t* rank = json_array_get(ranks, k);
        if (!strstr(json_string_value(json_object_get(rank, "quantity")), "/tau")) continue;
        assert_true(json_number_value(json_object_get(rank, "share")) > 0.1);
    }
    json_decref(answer);
}

static void nothing_is_an_answer(void** state) {
    (void)state;
    record("");
    run_ok("discover missing.yaml -o none --threads 1");
    assert_says(last.out, "Nothing is missing");
    run_ok("inspect none/fitted.yaml");
}

static bool is_there(const char* name) {
    return access(tempdir_path(name), F_OK) == 0;
}

static void an_older_answer_is_removed(void** state) {
    (void)state;
    record("--set joint/joint1/damping=0.1");
    run_ok("discover missing.yaml -o again --threads 1");
    assert_true(is_there("again/fitted_blueprint.yaml"));
    tempdir_write("again/weights.safetensors", "old");
    record("");
    run_ok("discover missing.yaml -o again --threads 1");
    assert_false(is_there("again/fitted_blueprint.yaml") || is_there("again/weights.safetensors"));
    run_ok("inspect again/fitted.yaml");
}

// A blueprint of plain numbers has no weights to be saved.
static void formulas_without_coefficients(void** state) {
    (void)state;
    tempdir_write("plain_formulas.yaml",
                  "formulas: [{name: damper, output: joint/joint1/tau, formula:"
                  " '-0.1 * \"joint/joint1/velocity\"'}]\n");
    tempdir_write("plain_model.yaml", "robot: " MODEL "\nblueprint: plain_formulas.yaml\n");
    tempdir_write("plain.yaml", "model: plain_model.yaml\nintegrator: rk4\ntimestep: 0.02\n"
                                "data: {train: [data.csv]}\n");
    record("--set joint/joint1/damping=0.1");
    run_ok("discover plain.yaml -o plain --threads 1");
    assert_says(last.out, "Nothing is missing");
    assert_false(is_there("plain/weights.safetensors"));
    run_ok("score plain/fitted.yaml --data data.csv --json");
}

static void what_cannot_be_saved_is_shown(void** state) {
    (void)state;
    record("");
    run_ok("discover missing.yaml -o full --threads 1");
    assert_int_equal(unlink(tempdir_path("full/report.html")), 0);
    tempdir_mkdir("full/report.html");
    run_bad("discover missing.yaml -o full --threads 1", 1, "report.html");
    assert_says(last.out, "Nothing is missing");
}

static void bad_input_is_told(void** state) {
    (void)state;
    run_bad("discover", 2, "expected one fit file");
    run_bad("discover nowhere.yaml", 1, "nowhere.yaml");
    tempdir_write("bad.yaml",
                  "model: " MODEL "\ndata: {train: [data.csv]}\ndiscover: {outputs: 3}\n");
    run_bad("discover bad.yaml", 1, "bad.yaml:3");
    run_bad("discover " MODEL, 1,
            "this is a robot (URDF or MJCF), not a fit file; write a YAML file");
    run_bad("discover data.csv", 1, "`data: {train: [data.csv]}`");
    run_ok("discover --help");
    assert_says(last.out, "discover: {parameters");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damping_is_found),
        cmocka_unit_test(json_has_the_numbers),
        cmocka_unit_test(likely_mistakes_in_the_data_are_warnings),
        cmocka_unit_test(the_example_lacks_seven_things),
        cmocka_unit_test(nothing_is_an_answer),
        cmocka_unit_test(an_older_answer_is_removed),
        cmocka_unit_test(formulas_without_coefficients),
        cmocka_unit_test(what_cannot_be_saved_is_shown),
        cmocka_unit_test(bad_input_is_told),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
