// A result can be moved: its folder has all that the fitted model refers to.

#define _POSIX_C_SOURCE 200809L

#include "fit/portable.h"
#include "neuralsim/fit.h"
#include "neuralsim/hybrid.h"
#include "support/program.h"
#include "support/tempdir.h"
#include "support/testalloc.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// A block on a hinge whose mesh is in a folder beside that of the robot file.
#define ROBOT                                                                                      \
    "<mujoco><compiler meshdir='../meshes'/><option timestep='0.01'/>"                             \
    "<asset><mesh name='block' file='parts/block.obj'/></asset><worldbody><body name='rod'>"       \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='0.1'/>"                                \
    "<inertial pos='0 0 -0.5' mass='1.5' diaginertia='0.02 0.02 0.01'/>"                           \
    "<geom type='mesh' mesh='block'/></body></worldbody></mujoco>"
#define BLOCK "v 0 0 0\nv 0.1 0 0\nv 0 0.1 0\nv 0 0 0.1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n"

enum { STEPS = 100 };

static void write_swing(const char* name) {
    FILE* out = fopen(tempdir_path(name), "w");
    assert_non_null(out);
    fprintf(out, "t,q0,qd0\n");
    for (int k = 0; k <= STEPS; k++) {
        double t = 0.01 * k;
        fprintf(out, "%.2f,%.9g,%.9g\n", t, exp(-0.2 * t) * cos(3.0 * t), -3.0 * sin(3.0 * t));
    }
    fclose(out);
}

// Files of a fit in the folder "here": a robot with a mesh, a blueprint that extends another.
static void write_fit(const char* model) {
    char text[400];
    tempdir_mkdir("here");
    tempdir_mkdir("here/robots");
    tempdir_mkdir("here/meshes");
    tempdir_mkdir("here/meshes/parts");
    tempdir_write("here/robots/rod.xml", ROBOT);
    tempdir_write("here/meshes/parts/block.obj", BLOCK);
    tempdir_write("here/base.yaml", "networks:\n  - {name: drag, inputs: joint/hinge/velocity,"
                                    " outputs: joint/hinge/tau, hidden: [3]}\n");
    tempdir_write("here/drag.yaml", "extends: base.yaml\n");
    write_swing("here/swing.csv");
    snprintf(text, sizeof text,
             "%s\nblueprint: drag.yaml\ndata: {train: [swing.csv]}\n"
             "parameters: {joint/hinge/damping: free}\n",
             model);
    tempdir_write("here/fit.yaml", text);
}

// Fit, save to here/out, move that elsewhere and remove all that it came from.
static double fit_and_move(void) {
    ns_error error = {0};
    ns_fit* fit = NULL;
    double damping = NAN;
    must(ns_fit_load(tempdir_path("here/fit.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    must(ns_fit_save(fit, tempdir_path("here/out"), &error), &error);
    assert_true(ns_fit_estimate(fit, "joint/hinge/damping", &damping, NULL));
    ns_fit_free(fit);
    tempdir_mkdir("there");
    assert_int_equal(rename(tempdir_path("here/out"), tempdir_path("there/mailed")), 0);
    char command[1200];
    snprintf(command, sizeof command, "rm -r '%s'", tempdir_path("here"));
    assert_int_equal(system(command), 0); // NOLINT: a folder of our own
    return damping;
}

static void load_moved(const char* variant, double damping) {
    ns_error error = {0};
    ns_load_options load = ns_default_load_options();
    ns_hybrid* hybrid = NULL;
    ns_system* system = NULL;
    load.variant = variant;
    must(ns_hybrid_load(tempdir_path("there/mailed/fitted.yaml"), &load, &hybrid, &error), &error);
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    options.free_params = (const char*[]){"joint/hinge/damping"}, options.nfree = 1;
    must(ns_system_create(ns_hybrid_model(hybrid), &options, &system, &error), &error);
    double value;
    ns_system_default_params(system, &value);
    close_to("damping", value, damping, 0.0);
    assert_int_equal(ns_system_get_sizes(system).nw, 10);
    ns_system_free(system);
    ns_hybrid_free(hybrid);
}

static void a_result_moves(void** state) {
    (void)state;
    tempdir_remove();
    write_fit("model: robots/rod.xml");
    double damping = fit_and_move();
    char* text = tempdir_read("there/mailed/fitted.yaml");
    assert_says(text, "robot: robot/in/rod.xml\n");
    assert_says(text, "blueprint: blueprint.yaml\n");
    assert_says(text, "weights: weights.safetensors\n");
    assert_null(strstr(text, tempdir()));
    free(text);
    load_moved(NULL, damping);

    // The program simulates and scores it.
    write_swing("swing.csv");
    run_ok("simulate there/mailed/fitted.yaml --time 0.1");
    run_ok("score there/mailed/fitted.yaml --data swing.csv");
}

static void variants_move(void** state) {
    (void)state;
    tempdir_remove();
    write_fit("variants:\n  - {name: a, files: \"sw*\", model: robots/rod.xml}\n"
              "  - {name: b, files: \"x*\", model: robots/rod.xml}");
    double damping = fit_and_move();
    load_moved("a", damping);
    load_moved("b", damping);
}

// Saving once more into the folder that the model came from.
static void a_moved_result_is_fitted_again(void** state) {
    (void)state;
    ns_error error = {0};
    tempdir_remove();
    write_fit("model: robots/rod.xml");
    fit_and_move();
    write_swing("there/mailed/swing.csv");
    tempdir_write("there/mailed/again.yaml", "model: fitted.yaml\ndata: {train: [swing.csv]}\n"
                                             "parameters: {joint/hinge/damping: free}\n");
    ns_fit* fit = NULL;
    double damping = NAN;
    must(ns_fit_load(tempdir_path("there/mailed/again.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    must(ns_fit_save(fit, tempdir_path("there/mailed"), &error), &error);
    assert_true(ns_fit_estimate(fit, "joint/hinge/damping", &damping, NULL));
    ns_fit_free(fit);
    load_moved(NULL, damping);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    ns_error error = {0};
    tempdir_remove();
    write_fit("model: robots/rod.xml");
    ns_model* model = NULL;
    char* robot = strdup(tempdir_path("here/robots/rod.xml"));
    must(ns_model_load(robot, NULL, &model, &error), &error);
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator memory = test_allocator(&counter);
        nsi_hybrid file;
        nsi_hybrid_init(&memory, &file);
        file.robot = robot;
        const ns_model* models[] = {model};
        ns_status status = nsi_copy_robots(tempdir(), models, &file, &memory, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        nsi_hybrid_free(&file);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
    free(robot);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_result_moves),
        cmocka_unit_test(variants_move),
        cmocka_unit_test(a_moved_result_is_fitted_again),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
