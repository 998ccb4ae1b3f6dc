// Bodies of MJCF files: inertias in closed form, orientations, joints.

#define _XOPEN_SOURCE 700 // setenv

#include "io/mjcf_rig.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <stdio.h>

// ---- closed forms ------------------------------------------------------------------------------

static void solids_have_their_inertia(void** state) {
    (void)state;
    static const double r = 0.3, h = 0.5, rho = 700.0;
    double ball = 4.0 / 3.0 * pi * r * r * r, tube = 2.0 * pi * r * r * h;
    double mb = rho * ball, mt = rho * tube;
    const struct {
        const char* geom;
        double mass, moments[3];
    } cases[] = {
        {"type='sphere' size='0.3'", mb, {0.4 * mb * r * r, 0.4 * mb * r * r, 0.4 * mb * r * r}},
        {"type='box' size='0.1 0.2 0.3'",
         rho * 0.048,
         {rho * 0.048 * (0.04 + 0.09) / 3.0, rho * 0.048 * (0.01 + 0.09) / 3.0,
          rho * 0.048 * (0.01 + 0.04) / 3.0}},
        {"type='cylinder' size='0.3 0.5'",
         mt,
         {mt * (r * r / 4.0 + h * h / 3.0), mt * (r * r / 4.0 + h * h / 3.0), mt * r * r / 2.0}},
        // A cylinder and two half balls, each with its centre 3/8 r beyond the cylinder's end:
        // about that centre 83/320 m r^2, then moved by h + 3/8 r.
        {"type='capsule' size='0.3 0.5'",
         mt + mb,
         {mt * (r * r / 4.0 + h * h / 3.0) +
              mb * (83.0 / 320.0 * r * r + (h + 0.375 * r) * (h + 0.375 * r)),
          mt * (r * r / 4.0 + h * h / 3.0) +
              mb * (83.0 / 320.0 * r * r + (h + 0.375 * r) * (h + 0.375 * r)),
          mt * r * r / 2.0 + 0.4 * mb * r * r}},
        {"type='ellipsoid' size='0.1 0.2 0.3'",
         rho * 4.0 / 3.0 * pi * 0.006,
         {rho * 4.0 / 3.0 * pi * 0.006 * 0.13 / 5.0, rho * 4.0 / 3.0 * pi * 0.006 * 0.10 / 5.0,
          rho * 4.0 / 3.0 * pi * 0.006 * 0.05 / 5.0}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[400];
        snprintf(text, sizeof text, "<body name='a'><joint/><geom density='700' %s/></body>",
                 cases[k].geom);
        ns_model* model = parse_world(text);
        const ns_link_def* a = ns_model_link(model, 0);
        all_close(&a->mass, &cases[k].mass, 1, 1e-14 * cases[k].mass);
        all_close(a->inertia, cases[k].moments, 3, 1e-14 * cases[k].moments[0]);
        all_close(a->inertia + 3, (const double[]){0, 0, 0}, 3, 0.0);
        ns_model_free(model);
    }

    // The swimmer's links, whose numbers were computed elsewhere.
    ns_model* model = parse_world("<body name='a'><joint/><geom type='capsule' size='0.01' "
                                  "fromto='0 0 0 0.1 0 0' density='1000'/></body>");
    const ns_link_def* a = ns_model_link(model, 0);
    all_close(&a->mass, (const double[]){0.03560471674068433}, 1, 1e-16);
    all_close(a->com, (const double[]){0.05, 0, 0}, 3, 1e-17);
    all_close(a->inertia,
              (const double[]){1.7383479349863525e-06, 3.917566039026473e-05, 3.917566039026473e-05,
                               0, 0, 0},
              6, 1e-19);
    ns_model_free(model);

    // Two balls of given mass: the centre between them, and a dumbbell.
    model = parse_world("<body name='a'><joint/><geom size='0.1' mass='1' pos='0 0 1'/>"
                        "<geom size='0.1' mass='3' pos='0 0 -1'/></body>");
    a = ns_model_link(model, 0);
    assert_true(a->mass == 4.0);
    all_close(a->com, (const double[]){0, 0, -0.5}, 3, 1e-16);
    double own = 0.4 * 4.0 * 0.01;
    all_close(a->inertia, (const double[]){own + 3.0, own + 3.0, own, 0, 0, 0}, 6, 1e-14);
    ns_model_free(model);
}

static void inertia_comes_from_where_it_should(void** state) {
    (void)state;
    static const char body[] = "<worldbody><body name='a'><joint/><inertial pos='0 0 0' mass='2' "
                               "diaginertia='1 1 1'/><geom size='1' density='1'/></body>"
                               "<body name='b'><geom size='1' density='1'/></body></worldbody>";
    static const struct {
        const char* compiler;
        double a, b;
    } cases[] = {{"", 2.0, 4.0 / 3.0},
                 {"<compiler inertiafromgeom='auto'/>", 2.0, 4.0 / 3.0},
                 {"<compiler inertiafromgeom='true'/>", 4.0 / 3.0, 4.0 / 3.0},
                 {"<compiler inertiafromgeom='false'/>", 2.0, 0.0}};
    for (size_t k = 0; k < 4; k++) {
        char text[1000];
        snprintf(text, sizeof text, "<mujoco>%s%s</mujoco>", cases[k].compiler, body);
        ns_model* model = modelfile_parse(text);
        double a = ns_model_link(model, 0)->mass, b = ns_model_link(model, 1)->mass;
        assert_true(fabs(a - (cases[k].a == 2.0 ? 2.0 : cases[k].a * pi)) < 1e-14);
        assert_true(fabs(b - cases[k].b * pi) < 1e-14);
        ns_model_free(model);
    }
}

// ---- orientations and joints -------------------------------------------------------------------

static void orientations_have_five_forms(void** state) {
    (void)state;
    // A quarter turn about z, whichever way it is said; and the file's units and order.
    static const struct {
        const char *compiler, *how;
        double q[4];
    } cases[] = {
        {"", "quat='2 0 0 2'", {1, 0, 0, 1}},
        {"", "axisangle='0 0 3 90'", {1, 0, 0, 1}},
        {"angle='radian'", "axisangle='0 0 3 1.5707963267948966'", {1, 0, 0, 1}},
        {"", "euler='0 0 90'", {1, 0, 0, 1}},
        {"eulerseq='zyx'", "euler='90 0 0'", {1, 0, 0, 1}},
        {"", "xyaxes='0 2 0 -1 0.5 0'", {1, 0, 0, 1}},
        {"", "zaxis='1 0 0'", {1, 0, 1, 0}},
        {"", "zaxis='0 0 -1'", {0, 1, 0, 0}},
        // x then y about the moving axes is y then x about the fixed ones.
        {"eulerseq='xyz'", "euler='90 90 0'", {1, 1, 1, 1}},
        {"eulerseq='YXZ'", "euler='90 90 0'", {1, 1, 1, 1}},
        {"eulerseq='XYZ'", "euler='90 90 0'", {1, 1, 1, -1}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[500];
        snprintf(text, sizeof text,
                 "<mujoco><compiler %s/><worldbody><body name='a' %s/></worldbody></mujoco>",
                 cases[k].compiler, cases[k].how);
        ns_model* model = modelfile_parse(text);
        double expected[4];
        memcpy(expected, cases[k].q, sizeof expected);
        nsi_normalize(expected, 4);
        all_close(ns_model_link(model, 0)->origin.quaternion, expected, 4, 1e-15);
        ns_model_free(model);
    }
}

static void several_joints_make_several_links(void** state) {
    (void)state;
    ns_model* model = parse_world("<body name='a' pos='1 2 3'><joint type='slide' axis='1 0 0'/>"
                                  "<joint axis='0 1 0'/>" BALL "</body>");
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    const ns_link_def *outer = ns_model_link(model, 0), *a = ns_model_link(model, 1);
    assert_string_equal(outer->name, "a_a_joint0");
    assert_string_equal(outer->joint, "a_joint0");
    assert_string_equal(a->joint, "a_joint1");
    assert_string_equal(a->parent, "a_a_joint0");
    all_close(outer->origin.position, (const double[]){1, 2, 3}, 3, 0.0);
    all_close(a->origin.position, (const double[]){0, 0, 0}, 3, 0.0);
    assert_true(outer->mass == 0.0 && a->mass > 0.0);
    ns_model_free(model);
}

static void a_hinge_turns_about_its_point(void** state) {
    (void)state;
    ns_model* model = parse_world("<body name='a'><joint name='j' axis='0 0 1' pos='1 0 0'/>"
                                  "<geom type='box' size='0.1 0.2 0.3'/></body>");
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    assert_string_equal(ns_model_link(model, 0)->name, "a_j");
    assert_int_equal(ns_model_link(model, 1)->joint_type, NS_JOINT_FIXED);
    assert_true(ns_model_link(model, 1)->mass > 0.0);
    ns_pose poses[2];
    const double q[1] = {pi / 2.0};
    link_poses(model, q, poses);
    all_close(poses[1].position, (const double[]){1, -1, 0}, 3, 1e-15);
    ns_model_free(model);
}

static void joints_are_where_ref_says(void** state) {
    (void)state;
    ns_model* model =
        parse_world("<body name='a' pos='0 0 1'><joint name='j' axis='0 0 1' ref='0.5'/>"
                    "<geom type='box' size='0.1 0.2 0.3'/></body>"
                    "<body name='b'><joint name='k' type='slide' ref='2'/>" BALL "</body>");
    ns_pose poses[2];
    const double q[2] = {0.5, 2.0};
    link_poses(model, q, poses);
    all_close(poses[0].quaternion, (const double[]){1, 0, 0, 0}, 4, 1e-15);
    all_close(poses[0].position, (const double[]){0, 0, 1}, 3, 0.0);
    all_close(poses[1].position, (const double[]){0, 0, 0}, 3, 1e-15);
    ns_model_free(model);
}

static void names_are_made_up(void** state) {
    (void)state;
    ns_model* model =
        parse_world("<body><joint/>" BALL "<body><joint name='body2_joint'/>" BALL "</body></body>"
                    "<body><joint name='x'/><joint name='y' axis='1 0 0'/>" BALL "</body>"
                    "<body name='body3'>" BALL "</body><body name='body3__x'>" BALL "</body>");
    // The names given in the file are left to those they are given to.
    static const char* const links[] = {"body1",  "body2", "body3__x_",
                                        "body3_", "body3", "body3__x"};
    for (uint32_t i = 0; i < 6; i++) assert_string_equal(ns_model_link(model, i)->name, links[i]);
    assert_string_equal(ns_model_link(model, 0)->joint, "body1_joint");
    assert_string_equal(ns_model_link(model, 1)->joint, "body2_joint");
    ns_model_free(model);
}

static void springs_on_balls_are_noted(void** state) {
    (void)state;
    ns_model* model =
        parse_world("<body name='a'><joint type='ball' stiffness='1'/>" BALL "</body>"
                    "<body name='b'><joint type='ball' range='0 1'/>" BALL "</body>"
                    "<body name='c'><joint type='ball' stiffness='1' range='0 1'/>" BALL "</body>");
    assert_true(modelfile_notes(model, "has stiffness, which is not represented on a joint of this "
                                       "type; changes the motion"));
    assert_true(modelfile_notes(model, "has range, which is not represented"));
    assert_true(modelfile_notes(model, "has stiffness and range, which is not represented"));
    ns_model_free(model);
}

static void limits_can_be_explicit(void** state) {
    (void)state;
    ns_model* model =
        modelfile_parse("<mujoco><compiler autolimits='false' angle='radian'/><worldbody>"
                        "<body name='a'><joint range='-1 1'/>" BALL "</body>"
                        "<body name='b'><joint range='-1 1' limited='true'/>" BALL "</body>"
                        "<body name='c'><joint range='-1 1' limited='false'/>" BALL "</body>"
                        "</worldbody></mujoco>");
    assert_false(ns_model_link(model, 0)->limited);
    assert_true(modelfile_notes(model, "and autolimits is off: no limit"));
    assert_true(ns_model_link(model, 1)->limited);
    assert_false(ns_model_link(model, 2)->limited);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solids_have_their_inertia),
        cmocka_unit_test(inertia_comes_from_where_it_should),
        cmocka_unit_test(orientations_have_five_forms),
        cmocka_unit_test(several_joints_make_several_links),
        cmocka_unit_test(a_hinge_turns_about_its_point),
        cmocka_unit_test(joints_are_where_ref_says),
        cmocka_unit_test(names_are_made_up),
        cmocka_unit_test(springs_on_balls_are_noted),
        cmocka_unit_test(limits_can_be_explicit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
