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
    assert_says(text, "blueprint: fitted_blueprint.yaml\n");
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

// A result is fitted again; its folder is refused, since its files were read.
static void a_moved_result_is_fitted_again(void** state) {
    (void)state;
    ns_error error = {0};
    tempdir_remove();
    write_fit("model: robots/rod.xml");
    fit_and_move();
    assert_int_equal(rename(tempdir_path("there/mailed"), tempdir_path("there/first")), 0);
    write_swing("there/first/swing.csv");
    tempdir_write("there/first/again.yaml", "model: fitted.yaml\ndata: {train: [swing.csv]}\n"
                                            "parameters: {joint/hinge/damping: free}\n");
    ns_fit* fit = NULL;
    double damping = NAN;
    must(ns_fit_load(tempdir_path("there/first/again.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    char* before = tempdir_read("there/first/fitted.yaml");
    assert_int_equal(ns_fit_save(fit, tempdir_path("there/first"), &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "there/first/fitted.yaml: the result would replace this file");
    char* after = tempdir_read("there/first/fitted.yaml");
    assert_string_equal(before, after);
    free(before);
    free(after);
    must(ns_fit_save(fit, tempdir_path("there/mailed"), &error), &error);
    assert_true(ns_fit_estimate(fit, "joint/hinge/damping", &damping, NULL));
    ns_fit_free(fit);
    load_moved(NULL, damping);
}

// A source of each kind whose name is one of a result's; nothing is written then.
static void sources_are_not_replaced(void** state) {
    (void)state;
    static const char* const fits[][2] = {
        {"blueprint: fitted_blueprint.yaml\n", "/fitted_blueprint.yaml: "},
        {"blueprint: drag.yaml\n", "/fitted.yaml: "}, // which drag.yaml extends
        {"extends: result.json\n", "/result.json: "},
        {"data: {train: [predictions.csv]}\n", "/predictions.csv: "},
    };
    for (size_t k = 0; k < sizeof fits / sizeof *fits; k++) {
        ns_error error = {0};
        ns_fit* fit = NULL;
        char text[400];
        tempdir_remove();
        write_fit("model: robots/rod.xml");
        if (k == 0) tempdir_write("here/fitted_blueprint.yaml", "extends: base.yaml\n");
        if (k == 1) {
            assert_int_equal(
                rename(tempdir_path("here/base.yaml"), tempdir_path("here/fitted.yaml")), 0);
            tempdir_write("here/drag.yaml", "extends: fitted.yaml\n");
        }
        if (k == 2) tempdir_write("here/result.json", "ground: false\n");
        if (k == 3) write_swing("here/predictions.csv");
        snprintf(text, sizeof text,
                 "model: robots/rod.xml\nparameters: {joint/hinge/damping: free}\n%s%s",
                 k == 3 ? "" : "data: {train: [swing.csv]}\n", fits[k][0]);
        tempdir_write("here/fit.yaml", text);
        must(ns_fit_load(tempdir_path("here/fit.yaml"), 1, &fit, &error), &error);
        must(ns_fit_run(fit, NULL, &error), &error);
        assert_int_equal(ns_fit_save(fit, tempdir_path("here"), &error), NS_ERR_ARGUMENT);
        assert_says(error.message, fits[k][1]);
        char* report = tempdir_read("here/report.html");
        assert_string_equal(report, "");
        free(report);
        ns_fit_free(fit);
    }

    // The program refuses before it fits.
    run_bad("fit here/fit.yaml -o here", 1, "would replace this file");

    // A blueprint of the user's own stays as it is.
    tempdir_remove();
    write_fit("model: robots/rod.xml");
    tempdir_write("here/blueprint.yaml", "extends: base.yaml\n");
    run_ok("fit here/fit.yaml -o here");
    char* own = tempdir_read("here/blueprint.yaml");
    assert_string_equal(own, "extends: base.yaml\n");
    free(own);
}

// A robot file may name any file as a mesh; the result has only those that are meshes.
static void only_meshes_are_copied(void** state) {
    (void)state;
    tempdir_remove();
    write_fit("model: robots/rod.urdf");
    tempdir_mkdir("here/secret");
    tempdir_write("here/secret/id_rsa", "a key\n");
    tempdir_write("here/secret/key.obj", "a key\n");
    tempdir_write("far.obj", BLOCK);
    tempdir_write("here/meshes/block.obj", BLOCK);
    tempdir_write("here/robots/rod.urdf",
                  "<robot name='r'><link name='base'/><link name='rod'><inertial><mass value='1'/>"
                  "<origin xyz='0 0 -0.5'/><inertia ixx='0.1' iyy='0.1' izz='0.1' ixy='0' ixz='0'"
                  " iyz='0'/></inertial>"
                  "<visual><geometry><mesh filename='../secret/id_rsa'/></geometry></visual>"
                  "<visual><geometry><mesh filename='../secret/key.obj'/></geometry></visual>"
                  "<visual><geometry><mesh filename='../../far.obj'/></geometry></visual>"
                  "<visual><geometry><mesh filename='rod.urdf'/></geometry></visual>"
                  "<visual><geometry><mesh filename='package://r/meshes/block.obj'/></geometry>"
                  "</visual></link><joint name='hinge' type='continuous'><parent link='base'/>"
                  "<child link='rod'/><axis xyz='0 1 0'/></joint></robot>");
    char* robot = tempdir_read("here/robots/rod.urdf");
    run_ok("fit here/fit.yaml -o out");
    static const char* const files[][2] = {{"out/robot/secret/id_rsa", ""},
                                           {"out/robot/secret/key.obj", ""},
                                           {"out/far.obj", ""},
                                           {"out/robot/far.obj", ""},
                                           {"out/robot/meshes/block.obj", BLOCK}};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char* text = tempdir_read(files[k][0]);
        assert_string_equal(text, files[k][1]);
        free(text);
    }
    char *copy = tempdir_read("out/robot/in/rod.urdf"), *result = tempdir_read("out/result.json");
    assert_string_equal(copy, robot);
    assert_says(result, "../secret/id_rsa was not copied to the result: it is not .stl,");
    assert_says(result, "../secret/key.obj was not copied to the result: ");
    assert_null(strstr(result, "far.obj")); // outside of the package: it was not even looked for
    free(copy);
    free(result);
    free(robot);
}

// A robot that touches with a mesh far away stays where it is, or it would move otherwise.
static void a_robot_with_far_meshes_stays(void** state) {
    (void)state;
    tempdir_remove();
    write_fit("model: robots/rod.xml");
    tempdir_mkdir("here/deep");
    tempdir_mkdir("here/deep/er");
    tempdir_write("here/package.xml", "<package/>"); // meshes may be anywhere in it
    char text[2000];
    char* robot = tempdir_read("here/robots/rod.xml");
    char* at = strstr(robot, "../meshes");
    snprintf(text, sizeof text, "%.*s../%s", (int)(at - robot), robot, at);
    free(robot);
    tempdir_write("here/deep/er/rod.xml", text);
    tempdir_write("here/fit.yaml", "model: deep/er/rod.xml\ndata: {train: [swing.csv]}\n"
                                   "parameters: {joint/hinge/damping: free}\n");
    run_ok("fit here/fit.yaml -o out");
    char *fitted = tempdir_read("out/fitted.yaml"), *result = tempdir_read("out/result.json");
    assert_says(fitted, "here/deep/er/rod.xml");
    assert_says(result, "rod.xml was not copied to the result: not all of its meshes can be");
    free(fitted);
    free(result);
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
        nsi_copy_notes notes = {0};
        nsi_hybrid_init(&memory, &file);
        file.robot = robot;
        const ns_model* models[] = {model};
        ns_status status = nsi_copy_robots(tempdir(), models, &file, &notes, &memory, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        nsi_copy_notes_free(&memory, &notes);
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
        cmocka_unit_test(sources_are_not_replaced),
        cmocka_unit_test(only_meshes_are_copied),
        cmocka_unit_test(a_robot_with_far_meshes_stays),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
