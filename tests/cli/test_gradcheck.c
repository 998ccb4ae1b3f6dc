// The command gradcheck: gradients are right, with contact too.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "cli/commands_rig.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static void gradients_are_right(void** state) {
    (void)state;
    run_ok("gradcheck " PENDULUM " --free link/rod/mass joint/hinge/damping");
    assert_says(last.out, "state     q0 ");
    assert_says(last.out, "control   tau0 ");
    assert_says(last.out, "parameter link/rod/mass ");
    assert_says(
        last.out,
        "5 inputs over 20 steps: 5 ok, 0 biased, 0 unreliable, 0 FAIL; largest relative error ");
    run_ok("gradcheck " DATA "motors.xml --free '**' --integrator rk4 --seed 7");
    run_ok("gradcheck " MODELS "arm7_mixed.urdf --free '**' --steps 5 --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "fail") + number(root, "unreliable") + number(root, "biased"), 0.0,
                   0.0);
    close_relative(number(root, "ok") + number(root, "zero"), 15 + 7 + 148, 0.0);
    assert_true(number(root, "zero") > 0.0);
    assert_true(number(root, "largest_error") < 1e-7);
    json_decref(root);

    // Damping of a joint that cannot move acts on nothing.
    tempdir_write("fixed.urdf",
                  "<robot name='r'><link name='world'/>"
                  "<joint name='h' type='revolute'><parent link='world'/>"
                  "<child link='a'/><axis xyz='0 1 0'/><limit effort='1' velocity='1'/>"
                  "</joint><link name='a'><inertial><origin xyz='0 0 -1'/>"
                  "<mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' "
                  "iyz='0'/></inertial></link><joint name='f' type='fixed'>"
                  "<parent link='a'/><child link='b'/></joint><link name='b'/></robot>");
    run_ok("gradcheck fixed.urdf --free 'joint/*/damping'");
    assert_says(last.out, "   0.0e+00  zero\n");
    assert_says(last.out, "5 inputs over 20 steps: 4 ok, 1 zero, 0 biased, 0 unreliable, 0 FAIL; ");

    // One step of the pendulum by hand: the ratio of two derivatives does not know the weights.
    run_ok("gradcheck " PENDULUM " --steps 1 --json --free joint/hinge/damping");
    root = json_of(last.out);
    json_t* inputs = json_object_get(root, "inputs");
    double by_tau = number(json_array_get(inputs, 2), "reverse");
    double by_damping = number(json_array_get(inputs, 3), "reverse");
    assert_true(by_tau != 0.0 && by_damping != 0.0);
    double by_qd = number(json_array_get(inputs, 1), "reverse");
    // d/dqd = A (1 - h d/I) and d/dtau = A h/I for the same A
    close_relative(by_qd / by_tau, (1.0 - timestep * damping / moment) / (timestep / moment),
                   1e-12);
    json_decref(root);
}

static const char tumbling_box[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='box' pos='0 0 3'><freejoint/>"
    "<geom name='box' type='box' size='0.1 0.15 0.2' mass='1'/></body></worldbody></mujoco>";

// Right gradients are not called wrong because coarse differences agree on the trend over kinks, and
// what is checked is said.
// Code 3, nothing could be judged, is no failure here.
static void gradients_of_contact_are_right(void** state) {
    (void)state;
    tempdir_write("box.xml", tumbling_box);
    run_ok("gradcheck box.xml");
    assert_says(last.out, "; no contact acted (--q0 and --qd0 choose the start)\n");
    run_ok("gradcheck box.xml --contact none");
    assert_true(strstr(last.out, "contact") == NULL);
    double ok = 0.0;
    for (int k = 0; k < 12; k++) {
        static const char* const models[] = {"ncp", "ncp --friction pyramid", "spring"};
        static const int lengths[] = {150, 300, 1000, 2000};
        char command[200];
        snprintf(command, sizeof command,
                 "gradcheck box.xml --steps %d --contact %s --q0 0 0 .3 .9 .2 .3 .1 --seed %d"
                 " --json --free 'link/*/mass' 'geom/**' 'contact/**' || [ $? = 3 ]",
                 lengths[k / 3], models[k % 3], k + 1);
        run_ok(command);
        json_t* root = json_of(last.out);
        close_relative(number(root, "fail"), 0.0, 0.0);
        assert_true(number(root, "contact_steps") > 20.0);
        ok += number(root, "ok");
        json_decref(root);
    }
    print_message("%g derivatives are ok\n", ok);
    assert_true(ok >= 150.0);

    // A ball that bounces, without kinks nearby: all are sure.
    tempdir_write("ball.urdf",
                  "<robot name='r'><link name='world'/><joint name='z' type='prismatic'>"
                  "<parent link='world'/><child link='b'/><axis xyz='0 0 1'/>"
                  "<limit effort='1' velocity='1' lower='-9' upper='9'/></joint><link name='b'>"
                  "<contact><restitution value='0.5'/></contact><inertial><mass value='1'/>"
                  "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial><collision>"
                  "<geometry><sphere radius='0.1'/></geometry></collision></link></robot>");
    run_ok("gradcheck ball.urdf --ground --steps 100 --q0 0.15023 --qd0 -1"
           " --free 'contact/*/restitution'");
    assert_says(last.out, "4 inputs over 100 steps: ");
    assert_says(last.out, " 0 biased, 0 unreliable, 0 FAIL; ");
    assert_says(last.out, "; contact acted in ");
    // At a kink up is not down: it just touches, and is pressed in the only step.
    run_ok("gradcheck ball.urdf --ground --steps 1 --q0 0.1 --qd0 -1 --json");
    json_t* root = json_of(last.out);
    assert_true(number(root, "biased") >= 1.0);
    json_decref(root);
    run_bad("gradcheck ball.urdf --q0 1 2", 2, "--q0 needs 1 numbers for this model, not 2");
    run_bad("gradcheck ball.urdf --qd0 x", 2, "--qd0: 'x' is not a number");
    run_bad("gradcheck box.xml --q0 0 0 0 0 0 0 0", 2, "--q0: a quaternion is zero");
}

// Where nothing could be judged, the summary and the exit code say so.
static void what_cannot_be_judged_is_said(void** state) {
    (void)state;
    tempdir_write("resting.xml",
                  "<mujoco><option timestep='0.001'/><worldbody>"
                  "<geom name='g' type='plane' size='5 5 1'/><body pos='0 0 0.1'><freejoint/>"
                  "<geom name='b' type='box' size='0.1 0.1 0.1' mass='1' friction='0.4'/></body>"
                  "</worldbody></mujoco>");
    run_ok("gradcheck resting.xml --contact baumgarte --sweeps 5 --q0 0 0 0.1 1 0 0 0 --qd0 1 0 0 "
           "0 0 0");
    assert_says(last.out, "unreliable because contact was not solved in ");
    assert_says(last.out, " of 19 could be judged; largest relative error ");
    assert_says(last.out, "; contact acted in 20 steps, unsolved in ");
    assert_says(last.out, "the gradient as a whole is unreliable: contact was not solved in ");

    // A pendulum whose only torque jumps back and forth within 1e-8: no difference has an answer
    tempdir_write("shaky.yaml",
                  "formulas:\n"
                  "  - name: shaky\n"
                  "    output: joint/hinge/tau\n"
                  "    formula: 'b * sin(1e12 * \"q/0\") + 1e3 * sin(1e12 * \"qd/0\")'\n"
                  "    coefficients: {b: 1e3}\n");
    run_bad("gradcheck " PENDULUM " --blueprint shaky.yaml --steps 3", 3,
            "no input could be judged: ");
    assert_says(last.out, "; no input could be judged\n");
    assert_true(strstr(last.out, "largest relative error") == NULL);

    // The smoothed gradient stands beside the exact one
    run_ok("gradcheck " PENDULUM " --smooth 0.01 --samples 32");
    assert_says(last.out, "smoothed        +-  alpha  verdict\n");
    run_ok("gradcheck " PENDULUM " --smooth 0.01 --json");
    json_t* root = json_of(last.out);
    json_t* smoothed =
        json_object_get(json_array_get(json_object_get(root, "inputs"), 0), "smoothed");
    assert_true(number(smoothed, "alpha") > 0.9 && number(smoothed, "standard_error") < 0.1);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(root, "certificate"), "verdict")), "ok");
    json_decref(root);
    run_bad("gradcheck " PENDULUM " --smooth 0", 2, "--smooth must be positive, not 0");
    run_bad("gradcheck " PENDULUM " --smooth 1 --samples 3", 2, "--samples needs at least 4");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(gradients_of_contact_are_right),
        cmocka_unit_test(what_cannot_be_judged_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
