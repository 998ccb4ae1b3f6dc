// What the actuators of MJCF files become. tests/io/test_mujoco_drives.c compares their forces with
// MuJoCo's.

#include "io/mjcf_rig.h"

#include "support/modelfile.h"

#include <math.h>
#include <string.h>

#define FILE_WITH(joint, actuators)                                                                \
    "<mujoco><compiler angle='radian'/><default><general gear='2' forcerange='-5 5'/>"             \
    "<default class='slow'><position kp='7' timeconst='0.2'/></default></default><worldbody>"      \
    "<body><joint name='j' " joint "/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"        \
    "<body><joint name='b' type='ball'/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"      \
    "</body></body></worldbody><actuator>" actuators "</actuator></mujoco>"

static void shortcuts_become_laws(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(FILE_WITH(
        "range='-1 3' actuatorfrcrange='-9 8'",
        "<position name='p' class='slow' joint='j' kv='0.3' inheritrange='0.5'/>"
        "<intvelocity name='i' joint='j' inheritrange='2'/><damper name='d' joint='j' kv='3'/>"
        "<motor name='m' jointinparent='b' gear='1 2 3 4 5 6'/>"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    const ns_actuator_def* a = ns_model_actuator(model, 0);
    assert_true(a->type == NS_ACTUATOR_POSITION && a->kp == 7.0 && a->kd == 0.3 && a->gear == 2.0);
    assert_true(a->dynamics == NS_DYNAMICS_FILTER_EXACT && a->time_constant == 0.2);
    assert_true(a->control_limited && a->control_lower == 0.0 && a->control_upper == 2.0);
    assert_true(a->force_limited && a->force_lower == -5.0 && a->force_upper == 5.0);
    a = ns_model_actuator(model, 1);
    assert_true(a->dynamics == NS_DYNAMICS_INTEGRATOR && a->kp == 1.0 && !a->control_limited);
    assert_true(a->activation_limited && a->activation_lower == -3.0 && a->activation_upper == 5.0);
    a = ns_model_actuator(model, 2);
    assert_true(a->type == NS_ACTUATOR_GENERAL && a->gain[0] == 0.0 && a->gain[2] == -3.0);
    a = ns_model_actuator(model, 3);
    assert_true(a->in_parent && a->direction[2] == 3.0 && a->gear == 1.0);
    const ns_link_def* joint = ns_model_link(model, 0);
    assert_true(joint->drive_limited && joint->drive_lower == -9.0 && joint->drive_upper == 8.0);
    ns_model_free(model);
}

static void general_actuators_become_the_nearest_law(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(FILE_WITH(
        "", "<general name='a' joint='j'/><general name='b' joint='j' gainprm='3'/>"
            "<general name='c' joint='j' gainprm='4' biastype='affine' biasprm='0 -4 -0.5'/>"
            "<general name='d' joint='j' gainprm='4' biastype='affine' biasprm='0 -4 0.9'/>"
            "<general name='e' joint='j' gainprm='2' biastype='affine' biasprm='0 0 -2'/>"
            "<general name='f' joint='j' gainprm='2' biastype='affine' biasprm='1 0 -2'/>"
            "<general name='g' joint='j' gaintype='affine' gainprm='1 2 3' dyntype='filter' "
            "dynprm='0.1'/><general name='h' joint='j' gainprm='1 2 3' biasprm='9 9 9'/>"));
    static const ns_actuator_type types[] = {
        NS_ACTUATOR_TORQUE,   NS_ACTUATOR_GENERAL, NS_ACTUATOR_POSITION, NS_ACTUATOR_POSITION,
        NS_ACTUATOR_VELOCITY, NS_ACTUATOR_GENERAL, NS_ACTUATOR_GENERAL,  NS_ACTUATOR_TORQUE};
    for (uint32_t k = 0; k < 8; k++) {
        assert_int_equal(ns_model_actuator(model, k)->type, types[k]);
    }
    const ns_actuator_def* a = ns_model_actuator(model, 1);
    assert_true(a->gear == 2.0 && a->gain[0] == 3.0 && a->force_upper == 5.0);
    assert_true(ns_model_actuator(model, 2)->kd == 0.5);
    assert_true(ns_model_actuator(model, 3)->damping_ratio == 0.9);
    assert_true(ns_model_actuator(model, 5)->bias[0] == 1.0);
    a = ns_model_actuator(model, 6);
    assert_true(a->gain[2] == 3.0 && a->dynamics == NS_DYNAMICS_FILTER && a->time_constant == 0.1);
    ns_model_free(model);
}

static void muscles_and_cylinders_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(FILE_WITH(
        "range='-1 3'",
        "<muscle name='a' joint='j' lengthrange='0 2' lmax='1.7' timeconst='0.02'/>"
        "<muscle name='b' joint='j'/><muscle name='c' joint='b'/>"
        "<general name='d' joint='j' gaintype='muscle' biastype='muscle' lengthrange='0 1' "
        "gainprm='0.7 1.1 20 1 0.4 1.7 0.5 0.9 1.3' biasprm='0.7 1.1 20 1 0.4 1.7 0.5 0.9 1.3'/>"
        "<general name='e' joint='j' gaintype='muscle' biastype='muscle' lengthrange='0 1' "
        "gainprm='0.7 1.1 20 1 0.4 1.7 0.5 0.9 1.3'/>"
        "<cylinder name='f' joint='j' diameter='2' timeconst='0.3' bias='1 2 3'/>"));
    assert_int_equal(ns_model_get_sizes(model).nu, 4);
    const ns_actuator_def* a = ns_model_actuator(model, 0);
    assert_true(a->type == NS_ACTUATOR_MUSCLE && a->dynamics == NS_DYNAMICS_MUSCLE);
    assert_true(a->muscle.lmax == 1.7 && a->muscle.fvmax == 1.2 && a->muscle.length_range[1] == 2);
    assert_true(a->time_constant == 0.02 && a->deactivation_time == 0.04 && a->gear == 2.0);
    // By gear 2 a force of 1 accelerates the joint by 2, and the ball, which stays, by -2.
    close_to("peak force", a->muscle.force, 200.0 / sqrt(8.0), 1e-12);
    all_close(ns_model_actuator(model, 1)->muscle.length_range, (const double[]){-2, 6}, 2, 1e-15);
    assert_true(modelfile_notes(model,
                                "<muscle name=\"b\"> is a muscle without lengthrange: it works "
                                "between the limits of its joint"));
    assert_true(modelfile_notes(model,
                                "<muscle name=\"c\"> is a muscle without lengthrange, which is "
                                "not computed"));
    a = ns_model_actuator(model, 2);
    assert_true(a->type == NS_ACTUATOR_MUSCLE && a->dynamics == NS_DYNAMICS_NONE);
    assert_true(a->muscle.force == 20.0 && a->muscle.fpmax == 0.9);
    assert_true(modelfile_notes(model, "<general name=\"e\"> has a force law that is not"));
    a = ns_model_actuator(model, 3);
    assert_true(a->type == NS_ACTUATOR_GENERAL && a->dynamics == NS_DYNAMICS_FILTER);
    assert_true(a->time_constant == 0.3 && a->bias[2] == 3.0);
    close_to("area", a->gain[0], pi, 1e-15);
    ns_model_free(model);
}

static void what_is_not_represented_is_noted(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(FILE_WITH(
        "", "<general joint='j' dyntype='user' name='x'/><motor name='y' body='q'/>"
            "<adhesion body='a'/><motor tendon='lost'/><position joint='j' actdim='2'/>"
            "<general joint='j' actrange='0 1' name='z'/><motor joint='j'/><motor joint='j'/>"
            "<position site='s' refsite='r' gear='0 0 0 1 0 0'/>"));
    assert_true(modelfile_notes(model, "<general name=\"x\"> has a force law that is not "
                                       "represented; changes the motion"));
    assert_true(modelfile_notes(model, "<motor name=\"y\"> body: not represented; changes"));
    assert_true(
        modelfile_notes(model, "acts on tendon \"lost\", which is not represented; changes"));
    assert_true(modelfile_notes(model, "<position> holds the angle of a site from its refsite"));
    assert_true(modelfile_notes(model, "<adhesion> is not represented; changes the motion"));
    assert_true(modelfile_notes(model, "actdim: not represented; changes the motion"));
    assert_true(modelfile_notes(model, "has actrange without an activation: no limit"));
    assert_int_equal(ns_model_get_sizes(model).nu, 4); // names are made up, also for several
    ns_model_free(model);
}

static void mistakes_are_refused(void** state) {
    (void)state;
    assert_says(
        modelfile_error(FILE_WITH("", "<position joint='j' kv='1' dampratio='1'/>"), NS_ERR_PARSE),
        "has both kv and dampratio");
    assert_says(
        modelfile_error(FILE_WITH("", "<position joint='j' inheritrange='1'/>"), NS_ERR_PARSE),
        "inheritrange needs a joint with a range");
    assert_says(modelfile_error(FILE_WITH("range='0 1'", "<position joint='j' inheritrange='1' "
                                                         "ctrlrange='0 1'/>"),
                                NS_ERR_PARSE),
                "has both inheritrange and a range");
    assert_says(modelfile_error(FILE_WITH("", "<general joint='j' dyntype='filter' dynprm='0'/>"),
                                NS_ERR_PARSE),
                "time_constant");
    assert_says(modelfile_error(FILE_WITH("", "<motor joint='nobody'/>"), NS_ERR_PARSE),
                "there is no joint \"nobody\"");
    assert_says(modelfile_error(FILE_WITH("actuatorfrcrange='1 0'", ""), NS_ERR_PARSE),
                "actuatorfrcrange must be two numbers");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shortcuts_become_laws),
        cmocka_unit_test(general_actuators_become_the_nearest_law),
        cmocka_unit_test(muscles_and_cylinders_are_read),
        cmocka_unit_test(what_is_not_represented_is_noted),
        cmocka_unit_test(mistakes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
