// Commands on models with networks and formulas; numbers are compared with closed forms.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "cli/commands_rig.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A network without hidden layers, so that what it does is known: tau - 0.5 qd - 0.1.
static void write_networks(void) {
    tempdir_write("b.yaml", "networks:\n"
                            "  - name: drag\n"
                            "    inputs: joint/hinge/velocity\n"
                            "    outputs: joint/hinge/tau\n");
    tempdir_write("w.json", "{\"drag/w0\": [[-0.5], [-0.1]]}");
    tempdir_write("h.yaml", "robot: " PENDULUM "\n"
                            "parameters: {joint/hinge/damping: 0.2, link/rod/mass: 3}\n"
                            "timestep: 0.002\n"
                            "blueprint: b.yaml\n"
                            "weights: w.json\n");
    tempdir_write("s.csv", "q0,qd0\n0.4,1.5\n");
}

// Acceleration at q = 0.4, qd = 1.5 with this damping, mass and further torque.
static double known_qdd(double d, double m, double tau) {
    return (tau - d * 1.5 - m * gravity * length * sin(0.4)) / (0.1 + m * length * length);
}

static double first_qdd(const char* arguments) {
    char command[1024];
    snprintf(command, sizeof command, "eval %s --states s.csv --quantity qdd", arguments);
    run_ok(command);
    ns_table csv = table_of(last.out);
    double qdd = cell(&csv, 0, "qdd0");
    ns_table_free(&csv);
    return qdd;
}

static void networks_do_what_they_say(void** state) {
    (void)state;
    write_networks();
    double drag = -0.5 * 1.5 - 0.1;
    close_relative(first_qdd(PENDULUM), known_qdd(damping, mass, 0.0), 1e-12);
    close_relative(first_qdd(PENDULUM " --blueprint b.yaml --weights w.json"),
                   known_qdd(damping, mass, drag), 1e-12);
    close_relative(first_qdd("h.yaml"), known_qdd(0.2, 3.0, drag), 1e-12);
    // options of the command line win
    tempdir_write("v.json", "{\"drag/w0\": [[0], [-0.3]]}");
    close_relative(first_qdd("h.yaml --weights v.json"), known_qdd(0.2, 3.0, -0.3), 1e-12);
    close_relative(first_qdd("h.yaml --blueprint b.yaml --weights v.json --set link/rod/mass=2"),
                   known_qdd(0.2, 2.0, -0.3), 1e-12);
    tempdir_write("none.yaml", "networks: []\n");
    close_relative(first_qdd("h.yaml --blueprint none.yaml"), known_qdd(0.2, 3.0, 0.0), 1e-12);
    run_ok("eval h.yaml --states s.csv --quantity net --wrt qd");
    ns_table csv = table_of(last.out);
    close_relative(cell(&csv, 0, "net/drag/joint/hinge/tau"), drag, 1e-15);
    close_relative(cell(&csv, 0, "dnet/drag/joint/hinge/tau/dqd0"), -0.5, 1e-15);
    ns_table_free(&csv);

    run_ok("simulate h.yaml --state s.csv --steps 1 --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "timestep"), 0.002, 0.0);
    close_relative(number(json_object_get(root, "final_state"), "qd_hinge"),
                   1.5 + 0.002 * known_qdd(0.2, 3.0, drag), 1e-12);
    json_decref(root);
    run_ok("simulate h.yaml --state s.csv --steps 1 --dt 0.01 --json");
    root = json_of(last.out);
    close_relative(number(root, "timestep"), 0.01, 0.0);
    json_decref(root);
}

static void hybrid_models_are_shown(void** state) {
    (void)state;
    write_networks();
    run_ok("inspect h.yaml");
    assert_says(last.out, "time step 0.002 s");
    assert_says(last.out, "\nchanged parameters\n  link/rod/mass  ");
    assert_says(last.out, "3 kg, in the robot's file 2\n");
    assert_says(last.out, "total mass 3 kg\n"); // the tables have the values of the model
    assert_says(last.out, "\nrod    3 ");
    assert_says(last.out, "\nnetworks\n  drag                     1 set, 2 weights\n");
    run_ok("inspect h.yaml --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "timestep"), 0.002, 0.0);
    const json_t* network = json_array_get(json_object_get(root, "networks"), 0);
    close_relative(number(network, "weights"), 2.0, 0.0);
    json_decref(root);
    run_ok("quantities h.yaml 'net/**'");
    assert_line("  net/drag/joint/hinge/tau", "N m", "forces        no");
}

// The same pendulum, its drag by a formula.
static void formulas_do_what_they_say(void** state) {
    (void)state;
    write_networks();
    tempdir_write("f.yaml",
                  "formulas:\n"
                  "  - {name: drag, each: joint/*, output: '{}/tau',"
                  " formula: '-b * \"{}/velocity\" - c', coefficients: {b: 0.5, c: 0.1}}\n"
                  "  - {name: more, output: joint/hinge/force/damping, mode: scale,"
                  " formula: '1'}\n");
    tempdir_write("fw.json", "{\"drag/w0\": [[0.25, 0.3]]}");
    tempdir_write("fh.yaml", "robot: " PENDULUM "\nblueprint: f.yaml\n");
    double drag = -0.5 * 1.5 - 0.1;
    close_relative(first_qdd("fh.yaml"), known_qdd(2.0 * damping, mass, drag), 1e-12);
    close_relative(first_qdd(PENDULUM " --blueprint f.yaml --weights fw.json"),
                   known_qdd(2.0 * damping, mass, -0.25 * 1.5 - 0.3), 1e-12);
    run_ok("inspect fh.yaml");
    assert_says(last.out, "\nformulas\n  drag at {}/tau: -b * \"{}/velocity\" - c\n"
                          "    drag: b 0.5, c 0.1\n  more at joint/hinge/force/damping: 1\n");
    run_ok("inspect fh.yaml --json");
    json_t* root = json_of(last.out);
    const json_t* formula = json_array_get(json_object_get(root, "formulas"), 0);
    close_relative(number(formula, "coefficients"), 2.0, 0.0);
    json_decref(root);
    run_ok("quantities fh.yaml 'formula/**'");
    assert_line("  formula/drag/joint/hinge/tau", "N m", "forces        no");
    assert_line("  formula/more/joint/hinge/force/damping", "-", "forces        no");
    run_ok("gradcheck fh.yaml");
    assert_says(last.out, "\nweight    drag/b ");
    assert_says(last.out, "\nweight    drag/c ");
    assert_says(last.out, "5 inputs over 20 steps: 5 ok, 0 biased, 0 unreliable, 0 FAIL");
}

static void gradcheck_checks_weights(void** state) {
    (void)state;
    write_networks();
    run_ok("gradcheck h.yaml --free link/rod/mass");
    assert_says(last.out, "\nweight    drag/w0[0,0]");
    assert_says(last.out, "\nweight    drag/w0[1,0]");
    assert_says(last.out, "6 inputs over 20 steps: 6 ok, 0 biased, 0 unreliable, 0 FAIL");
    // Of many weights some are taken, others with another seed.
    tempdir_write("b.yaml", "networks:\n"
                            "  - {name: big, inputs: [q/*, prev:qdd/*, lag2:joint/*/tau],"
                            " outputs: joint/hinge/tau, hidden: [8, 8]}\n");
    run_ok("gradcheck " PENDULUM " --blueprint b.yaml --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "fail"), 0.0, 0.0);
    assert_int_equal(json_array_size(json_object_get(root, "inputs")), 5 + 1 + 20);
    json_decref(root);
    char* one = strdup(last.out);
    run_ok("gradcheck " PENDULUM " --blueprint b.yaml --json --seed 2");
    assert_true(strcmp(one, last.out) != 0);
    free(one);
}

// Values of earlier steps are part of the state: a run goes on where it stopped.
static void runs_with_memory_go_on(void** state) {
    (void)state;
    tempdir_write("b.yaml", "networks:\n"
                            "  - {name: n, inputs: lag2:joint/*/tau, outputs: joint/j_left/tau}\n");
    run_ok("simulate " DATA "motors.xml --blueprint b.yaml --steps 6 --every 3 -o whole.csv");
    run_ok("simulate " DATA "motors.xml --blueprint b.yaml --steps 3 --every 3 -o half.csv");
    char* half = tempdir_read("half.csv");
    const char* row = strstr(strchr(half, '\n') + 1, "\n") + 1;
    char text[4096];
    snprintf(text, sizeof text, "%.*s\n%s", (int)strcspn(half, "\n"), half, row);
    tempdir_write("middle.csv", text);
    run_ok("simulate " DATA "motors.xml --blueprint b.yaml --steps 3 --every 3 --state middle.csv");
    char* whole = tempdir_read("whole.csv");
    ns_table all = table_of(whole), rest = table_of(last.out);
    assert_true(ns_table_column(&rest, "memory/joint/j_left/tau/2") != NSI_NONE);
    for (uint32_t k = 1; k < rest.ncol; k++) {
        close_relative(ns_table_at(&rest, 1, k), cell(&all, 2, rest.names[k]), 0.0);
    }
    ns_table_free(&all);
    ns_table_free(&rest);
    free(half);
    free(whole);
}

static void mistakes_with_networks_are_explained(void** state) {
    (void)state;
    write_networks();
    tempdir_write("wrong.yaml",
                  "networks:\n  - {name: a, inputs: q/0, outputs: joint/hinge/taus}\n");
    tempdir_write("shape.json", "{\"drag/w0\": [[1, 2, 3]]}");
    tempdir_write("param.yaml", "robot: " PENDULUM "\nparameters: {link/rod/mas: 3}\n");
    static const char* const with_networks[] = {"quantities", "eval", "simulate", "gradcheck"};
    char arguments[512];
    for (int k = 0; k < 4; k++) {
        const char* more = k == 1 ? "--quantity qdd" : "";
        snprintf(arguments, sizeof arguments, "%s " PENDULUM " --blueprint wrong.yaml %s",
                 with_networks[k], more);
        run_bad(arguments, 1, "joint/hinge/tau");
        assert_says(last.err, "wrong.yaml:2");
        snprintf(arguments, sizeof arguments, "%s h.yaml --weights shape.json %s", with_networks[k],
                 more);
        run_bad(arguments, 1, "drag/w0");
        snprintf(arguments, sizeof arguments, "%s " PENDULUM " --weights w.json %s",
                 with_networks[k], more);
        run_bad(arguments, 1, "there are no networks; declare them with --blueprint");
        snprintf(arguments, sizeof arguments, "%s " PENDULUM " --blueprint nothing.yaml %s",
                 with_networks[k], more);
        run_bad(arguments, 1, "nothing.yaml");
        snprintf(arguments, sizeof arguments, "%s h.yaml --blueprint b.yaml --blueprint b.yaml %s",
                 with_networks[k], more);
        run_bad(arguments, 2, "--blueprint is given twice");
    }
    for (int k = 0; k < COMMANDS; k++) {
        snprintf(arguments, sizeof arguments, "%s param.yaml %s", commands[k], needs(commands[k]));
        run_bad(arguments, 1, "did you mean \"link/rod/mass\"?");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_do_what_they_say),
        cmocka_unit_test(hybrid_models_are_shown),
        cmocka_unit_test(formulas_do_what_they_say),
        cmocka_unit_test(gradcheck_checks_weights),
        cmocka_unit_test(runs_with_memory_go_on),
        cmocka_unit_test(mistakes_with_networks_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
