// The command export: ranges of a fit with a posterior, and what is missing without one.

#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>

#define FIT(posterior)                                                                             \
    "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"                                \
    "integrator: rk4\n"                                                                            \
    "timestep: 0.02\n"                                                                             \
    "data: {train: [{file: " NEURALSIM_SOURCE_DIR                                                  \
    "/examples/pendulum_recording.csv, trajectories: 0}]}\n"                                       \
    "parameters: {\"joint/*/damping\": {initial: 0.1, lower: 0}}\n"                                \
    "train: {window: 100}\n" posterior

static double member(const json_t* root, const char* what) {
    const json_t* parameters = json_object_get(root, "parameters");
    const json_t* one = json_object_get(parameters, "joint/joint1/damping");
    return json_number_value(json_object_get(one, what));
}

static void ranges_of_a_fit(void** state) {
    (void)state;
    tempdir_write("fit.yaml", FIT("posterior: {method: laplace, samples: 500}\n"));
    run_ok("fit fit.yaml -o out");
    assert_says(last.out, "Laplace approximation");

    // The interval of the given probability around the mean.
    run_ok("export out --ranges");
    json_t* root = json_loads(last.out, 0, NULL);
    assert_non_null(root);
    double mean = member(root, "mean"), deviation = member(root, "deviation");
    close_to("low", member(root, "low"), mean - 1.645 * deviation, 0.25 * deviation);
    close_to("high", member(root, "high"), mean + 1.645 * deviation, 0.25 * deviation);
    json_decref(root);
    run_ok("export out --ranges --probability 0.5 -o half.json");
    root = json_load_file(tempdir_path("half.json"), 0, NULL);
    close_to("half", member(root, "high"), mean + 0.674 * deviation, 0.2 * deviation);
    json_decref(root);

    // Mistakes.
    run_bad("export out", 2, "--ranges");
    run_bad("export out --ranges --probability 1.5", 2, "between 0 and 1");
    run_bad("export none --ranges", 1, "none is not the folder of a fit");
    tempdir_write("plain.yaml", FIT(""));
    run_ok("fit plain.yaml -o plain");
    run_bad("export plain --ranges", 1, "posterior: hmc");
}

static void bad_keys_are_found(void** state) {
    (void)state;
    tempdir_write("fit.yaml", FIT("posterior: nuts\n"));
    run_bad("fit fit.yaml --check", 1, "expected laplace, hmc or none");
    tempdir_write("fit.yaml", FIT("posterior: {method: hmc, chain: 4}\n"));
    run_bad("fit fit.yaml --check", 1, "chains");
    tempdir_write("fit.yaml", FIT("posterior: {method: hmc, target_accept: 1.5}\n"));
    run_bad("fit fit.yaml --check", 1, "target_accept");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_a_fit),
        cmocka_unit_test(bad_keys_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
