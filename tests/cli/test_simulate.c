// The command simulate: trajectories against steps by hand, controls, batches, divergence.

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

// Semi-implicit Euler by hand.
static void step_by_hand(double* q, double* qd, double tau, double dt) {
    double torque = tau - mass * gravity * length * sin(*q) - damping * *qd;
    *qd += dt * torque / moment;
    *q += dt * *qd;
}

static void simulate_agrees_with_steps_by_hand(void** state) {
    (void)state;
    run_ok("simulate " PENDULUM " --steps 3000 --q0 1 --qd0 -0.5 --every 100 "
           "--control 'tau_hinge = 0.5*sin(2*pi*t)' --observe qdd energy/total");
    assert_string_equal(last.err, "");
    ns_table csv = table_of(last.out);
    assert_int_equal(csv.nrow, 31);
    double q = 1.0, qd = -0.5;
    const double pi = 3.14159265358979323846;
    for (uint32_t k = 0; k <= 3000; k++) {
        double t = k * timestep, tau = 0.5 * sin(2.0 * pi * t);
        if (k % 100 == 0) {
            close_relative(cell(&csv, k / 100, "t"), t, 1e-15);
            close_relative(cell(&csv, k / 100, "q_hinge"), q, 1e-11);
            close_relative(cell(&csv, k / 100, "qd_hinge"), qd, 1e-11);
            close_relative(cell(&csv, k / 100, "tau_hinge"), tau, 1e-15);
            double energy = 0.5 * moment * qd * qd - mass * gravity * length * cos(q);
            close_relative(cell(&csv, k / 100, "energy/total"), energy, 1e-11);
            double torque = tau - mass * gravity * length * sin(q) - damping * qd;
            close_relative(cell(&csv, k / 100, "qdd0"), torque / moment, 1e-10);
        }
        step_by_hand(&q, &qd, tau, timestep);
    }
    ns_table_free(&csv);
}

// A small oscillation has its period, whatever the integrator.
static void simulate_has_the_right_period(void** state) {
    (void)state;
    static const char* const integrators[] = {"euler", "rk4", "implicit"};
    double period = 2.0 * 3.14159265358979323846 / sqrt(mass * gravity * length / moment);
    char arguments[512];
    for (int k = 0; k < 3; k++) {
        snprintf(arguments, sizeof arguments,
                 "simulate " PENDULUM " --q0 1e-4 --set 'joint/*/damping=0' --dt 1e-4 --time %.17g "
                 "--integrator %s --json",
                 period, integrators[k]);
        run_ok(arguments);
        json_t* root = json_of(last.out);
        json_t* end = json_object_get(root, "final_state");
        close_relative(number(end, "q_hinge") / 1e-4, 1.0, 1e-3);
        close_relative(number(root, "energy_end"), number(root, "energy_start"), 1e-10);
        close_relative(number(root, "steps"), round(period / 1e-4), 0.0);
        assert_true(number(root, "steps_per_second") > 0.0);
        json_decref(root);
    }
}

static void simulate_writes_the_last_row(void** state) {
    (void)state;
    static const char* const more[] = {"", " --observe qdd", " --batch b.csv",
                                       " --batch b.csv --observe qdd"};
    tempdir_write("b.csv", "q0\n0.1\n0.2\n");
    char arguments[512];
    for (int k = 0; k < 4; k++) {
        snprintf(arguments, sizeof arguments, "simulate " PENDULUM " --time 0.0104 --every 4%s",
                 more[k]);
        run_ok(arguments);
        ns_table csv = table_of(last.out);
        assert_int_equal(csv.nrow, k < 2 ? 4 : 8);
        for (uint32_t row = 0; row < csv.nrow; row++) {
            static const double times[] = {0.0, 0.004, 0.008, 0.010};
            close_relative(cell(&csv, row, "t"), times[row % 4], 1e-15);
        }
        ns_table_free(&csv);
    }
}

static void simulate_observes_the_last_state_too(void** state) {
    (void)state;
    run_ok("simulate " PENDULUM " --steps 10 --q0 0.3 --observe q qd energy/kinetic --index-names");
    ns_table csv = table_of(last.out);
    assert_int_equal(csv.nrow, 11);
    for (uint32_t k = 0; k < 11; k++) {
        double qd = cell(&csv, k, "qd0");
        close_relative(cell(&csv, k, "q/0"), cell(&csv, k, "q0"), 0.0);
        close_relative(cell(&csv, k, "qd/0"), qd, 0.0);
        close_relative(cell(&csv, k, "energy/kinetic"), 0.5 * moment * qd * qd, 1e-14);
    }
    ns_table_free(&csv);
}

// A table of controls: by time or by row; actuators by their name or their joint's.
static void simulate_takes_controls_from_tables(void** state) {
    (void)state;
    tempdir_write("c.csv", "t,tau0\n0,1\n0.01,-2\n0.02,0.5\n");
    run_ok("simulate " PENDULUM " --steps 40 --control c.csv");
    assert_string_equal(last.err, ""); // a row by time holds until the next, as it should
    ns_table csv = table_of(last.out);
    double q = 0.0, qd = 0.0;
    for (uint32_t k = 0; k <= 40; k++) {
        double tau = k < 10 ? 1.0 : k < 20 ? -2.0 : 0.5;
        close_relative(cell(&csv, k, "tau_hinge"), tau, 0.0);
        close_relative(cell(&csv, k, "q_hinge"), q, 1e-13);
        step_by_hand(&q, &qd, tau, timestep);
    }
    ns_table_free(&csv);

    // Nothing acts before the first row.
    tempdir_write("c.csv", "t,tau0\n0.005,3\n");
    run_ok("simulate " PENDULUM " --steps 10 --control c.csv");
    csv = table_of(last.out);
    for (uint32_t k = 0; k <= 10; k++) {
        close_relative(cell(&csv, k, "tau_hinge"), k < 5 ? 0.0 : 3.0, 0.0);
        assert_true((cell(&csv, k, "q_hinge") == 0.0) == (k <= 5));
    }
    ns_table_free(&csv);

    // No gravity: the motor makes 3 * u / 0.5, the servo is a spring of 4 / 0.25.
    tempdir_write("c.csv", "u_j_left,u_m_right\n0.1,0\n0.2,0\n0.3,0\n");
    run_ok("simulate " DATA "motors.xml --steps 3 --control c.csv --q0 0 0.5 --index-names");
    csv = table_of(last.out);
    double left = 0.0, right = 0.5, right_v = 0.0;
    for (uint32_t k = 0; k < 3; k++) {
        left += 0.002 * 3.0 * 0.1 * (k + 1) / 0.5;
        right_v -= 0.002 * 4.0 * right / 0.25;
        right += 0.002 * right_v;
        close_relative(cell(&csv, k, "u/m_left"), 0.1 * (k + 1), 1e-15);
        close_relative(cell(&csv, k + 1, "qd0"), left, 1e-14);
        close_relative(cell(&csv, k + 1, "q1"), right, 1e-14);
    }
    ns_table_free(&csv);

    tempdir_write("c.csv", "u_hinge\n1\n");
    run_ok("simulate " PENDULUM " --steps 2 --control c.csv");
    assert_says(last.err, "c.csv ends before the simulation does; its last row is held");
    assert_says(last.err,
                "c.csv: column u_hinge is taken as tau0, since no actuator drives that joint");
    tempdir_write("c.csv", "t,tau0\n0,1\n-1,2\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1, "c.csv:3: the time goes back");
    tempdir_write("c.csv", "t,torque\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1,
            "c.csv: column \"torque\" is not part of this model; did you mean \"tau0\"?");
    tempdir_write("c.csv", "t,volts\n0,1\n");
    run_bad(
        "simulate " PENDULUM " --control c.csv", 1,
        "c.csv: column \"volts\" is not part of this model; controls are tau_hinge ('neuralsim");
    tempdir_write("c.csv", "t,tau_hing\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1, "did you mean \"tau_hinge\"?");
    run_bad("simulate " PENDULUM " --control 'sin(t)'", 1,
            "(a formula is written NAME=..., for example tau0=sin(t))");
    tempdir_write("c.csv", "t,q0\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1,
            "c.csv: no column is a control of this model");
    run_bad("simulate " PENDULUM " --control 'tau0=1/(t-0.002)'", 1,
            "--control: tau_hinge is inf at t = 0.002 s");
}

// Many trajectories at once are the single ones after each other, at any number of threads.
static void batches_are_single_trajectories(void** state) {
    (void)state;
    tempdir_write("b.csv", "q0,qd0,link/rod/mass\n0.1,0,2\n0.2,1,2\n0.3,-1,2\n0.4,0,3\n0.5,0,2\n"
                           "2,2,1\n");
    const char* batch = "simulate " PENDULUM " --steps 2000 --every 500 --batch b.csv "
                        "--control 'tau0=cos(t)' --observe energy/total --threads ";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s1", batch);
    run_ok(arguments);
    char* one = strdup(last.out);
    snprintf(arguments, sizeof arguments, "%s3", batch);
    run_ok(arguments);
    assert_string_equal(last.out, one);
    ns_table csv = table_of(one);
    assert_int_equal(csv.nrow, 6 * 5);
    for (uint32_t n = 0; n < 6; n++) {
        for (uint32_t k = 0; k < 5; k++) {
            close_relative(cell(&csv, n * 5 + k, "traj"), n, 0.0);
            close_relative(cell(&csv, n * 5 + k, "t"), 0.5 * k, 1e-15);
        }
    }
    run_ok("simulate " PENDULUM " --steps 2000 --q0 0.4 --set link/rod/mass=3 --every 500 "
           "--control 'tau0=cos(t)'");
    ns_table single = table_of(last.out);
    for (uint32_t k = 0; k < 5; k++) {
        close_relative(cell(&csv, 15 + k, "q_hinge"), cell(&single, k, "q_hinge"), 0.0);
        close_relative(cell(&csv, 15 + k, "qd_hinge"), cell(&single, k, "qd_hinge"), 0.0);
    }
    ns_table_free(&single);
    ns_table_free(&csv);
    free(one);

    run_ok("simulate " PENDULUM " --steps 10 --batch b.csv --json -o t.csv");
    json_t* root = json_of(last.out);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 6);
    json_decref(root);

    // Controls for each of them.
    tempdir_write("b.csv", "q0\n0\n0\n");
    tempdir_write("c.csv", "traj,t,tau0\n0,0,1\n0,1,1\n1,0,-2\n1,1,-2\n");
    run_ok("simulate " PENDULUM " --steps 5 --batch b.csv --control c.csv");
    csv = table_of(last.out);
    close_relative(cell(&csv, 11, "qd_hinge"), -2.0 * cell(&csv, 5, "qd_hinge") * 1.0, 1e-2);
    close_relative(cell(&csv, 7, "tau_hinge"), -2.0, 0.0);
    ns_table_free(&csv);
    tempdir_write("b.csv", "q0\n0\n0\n0\n");
    run_bad("simulate " PENDULUM " --steps 5 --batch b.csv --control c.csv", 1,
            "c.csv has controls for 2 trajectories, but there are 3 initial states");
}

// What was written can be read: stopping in the middle changes nothing.
static void simulations_can_be_continued(void** state) {
    (void)state;
    run_ok("simulate " MODELS "quadruped.urdf --steps 200 --every 100 --control 'tau_FR_knee=0.1' "
           "--observe energy/total -o whole.csv");
    char* text = tempdir_read("whole.csv");
    ns_table whole = table_of(text);
    // Header and the row of the middle.
    char* header_end = strchr(text, '\n');
    char* first_end = strchr(header_end + 1, '\n');
    char* middle_end = strchr(first_end + 1, '\n');
    nsi_text_builder middle = {.allocator = ns_default_allocator()};
    nsi_text_add_bytes(&middle, text, (size_t)(header_end + 1 - text));
    nsi_text_add_bytes(&middle, first_end + 1, (size_t)(middle_end - first_end));
    ns_text state_text;
    assert_int_equal(nsi_text_finish(&middle, &state_text, NULL), NS_OK);
    tempdir_write("middle.csv", state_text.data);
    run_ok("simulate " MODELS "quadruped.urdf --steps 100 --every 100 --state middle.csv "
           "--control 'tau_FR_knee=0.1'");
    assert_says(last.err, "middle.csv: ignored 2 columns: t, energy/total\n");
    ns_table rest = table_of(last.out);
    for (uint32_t k = 0; k < rest.ncol; k++) {
        if (strcmp(rest.names[k], "t") == 0) continue;
        close_relative(ns_table_at(&rest, 1, k), cell(&whole, 2, rest.names[k]), 0.0);
    }
    ns_table_free(&rest);
    ns_table_free(&whole);
    ns_text_free(&state_text);
    free(text);
}

static void divergence_is_reported_and_rows_are_kept(void** state) {
    (void)state;
    run_bad("simulate " PENDULUM " --set joint/hinge/damping=1e5 --qd0 1 --time 5 -o d.csv", 1,
            "trajectory 0, step 155 (t = 0.155 s): quantity joint/hinge/tau is not finite");
    char* text = tempdir_read("d.csv");
    ns_table csv = table_of(text);
    assert_int_equal(csv.nrow, 156);
    for (uint32_t k = 0; k < csv.nrow; k++) assert_true(isfinite(cell(&csv, k, "q_hinge")));
    ns_table_free(&csv);
    free(text);

    // Far into the run, and only one of several.
    tempdir_write("b.csv", "qd0,joint/hinge/damping\n1,0\n1,2220\n1,0.1\n");
    run_bad("simulate " PENDULUM " --batch b.csv --time 50 --observe energy/total", 1,
            "trajectory 1, step ");
    csv = table_of(last.out);
    assert_true(csv.nrow > 3000);
    ns_table_free(&csv);
}

// Initial states that miss a loop by little are moved onto it, others when asked for.
static void simulate_closes_loops(void** state) {
    (void)state;
    static const struct {
        const char *options, *says;
        double violation; // of the first state, at most or at least
        bool closed;
    } cases[] = {
        {"--q0 0.1 -0.09 0.05", "1 initial state missed the equality constraints, \"loop\" by",
         1e-9, true},
        {"--q0 0.1 -0.09 0.05 --close never", "misses the equality constraints", 1e-3, false},
        {"--q0 0.1 0.4 0.05", "--close always", 0.1, false},
        {"--q0 0.1 0.4 0.05 --close always", "was moved onto them", 1e-9, true},
        {"--q0 0 0 0", "", 1e-9, true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char command[512];
        snprintf(command, sizeof command,
                 "simulate " DATA "four_bar.xml --steps 1 --observe equality/loop/violation %s",
                 cases[k].options);
        run_ok(command);
        assert_says(last.err, cases[k].says);
        if (!*cases[k].says) assert_string_equal(last.err, "");
        ns_table csv = table_of(last.out);
        double x = cell(&csv, 0, "equality/loop/violation/x"),
               z = cell(&csv, 0, "equality/loop/violation/z"), off = hypot(x, z);
        assert_true(cases[k].closed ? off < cases[k].violation : off > cases[k].violation);
        ns_table_free(&csv);
    }
}

// The first keyframe, or another one; its controls hold where none are given.
static void simulations_start_in_keyframes(void** state) {
    (void)state;
    static const char start[] =
        "\n0,0.1,0.2,1.5,0.8,0,0.6,0,0.7,-0.2,0.6,0,0.8,0,1,2,3,4,5,6,7,8,9,"
        "10,11,";
#define KEYFRAMES "simulate " DATA "../mjcf/keyframes.xml --steps 2 --index-names"
    run_ok(KEYFRAMES);
    assert_says(last.out, start);
    char* held = strdup(last.out);
    run_ok(KEYFRAMES " --keyframe home --control u_knee=0.4,u_slide=3");
    assert_string_equal(last.out, held);
    run_ok(KEYFRAMES " --keyframe home --control u_knee=0.4"); // the other one as in the keyframe
    assert_true(strstr(last.out, ",3\n") != NULL);
    run_ok(KEYFRAMES " --keyframe default");
    assert_says(last.out, "\n0,0,0,2,1,0,0,0,0.5235987755982988,0.5,1,0,0,0,0,0,");
    run_ok(KEYFRAMES " --keyframe home --qd0 0 0 0 0 0 0 0 0 0 0 0");
    assert_says(last.out, "\n0,0.1,0.2,1.5,0.8,0,0.6,0,0.7,-0.2,0.6,0,0.8,0,0,0,0,");
    free(held);
    run_bad(KEYFRAMES " --keyframe hoem", 1,
            "the model has no keyframe \"hoem\"; did you mean \"home\"?");
    run_bad("simulate " PENDULUM " --keyframe home", 1,
            "the model has no keyframes; remove --keyframe");
    run_ok("eval " DATA "../mjcf/keyframes.xml --quantity q/8 --keyframe key1");
    assert_says(last.out, "\n0\n");
    run_ok("eval " DATA "../mjcf/keyframes.xml --quantity q/8");
    assert_says(last.out, "\n-0.2\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(simulate_agrees_with_steps_by_hand),
        cmocka_unit_test(simulate_has_the_right_period),
        cmocka_unit_test(simulate_writes_the_last_row),
        cmocka_unit_test(simulate_observes_the_last_state_too),
        cmocka_unit_test(simulate_takes_controls_from_tables),
        cmocka_unit_test(batches_are_single_trajectories),
        cmocka_unit_test(simulations_can_be_continued),
        cmocka_unit_test(divergence_is_reported_and_rows_are_kept),
        cmocka_unit_test(simulate_closes_loops),
        cmocka_unit_test(simulations_start_in_keyframes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
