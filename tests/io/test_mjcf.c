// MJCF: what a file becomes, against closed forms, against MuJoCo and against URDF; broken and
// damaged files.

#define _XOPEN_SOURCE 700 // setenv

#include "model/model_data.h"
#include "model/pose.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static const double pi = 3.14159265358979323846;

#define BALL "<geom size='0.1'/>"

static ns_model* parse_world(const char* inside) {
    char text[4000];
    snprintf(text, sizeof text,
             "<mujoco><compiler angle='radian'/><worldbody>%s</worldbody></mujoco>", inside);
    return modelfile_parse(text);
}

// ---- the same model twice ----------------------------------------------------------------------

static void urdf_and_mjcf_agree(void** state) {
    (void)state;
    static const char* const names[] = {"double_pendulum", "pendulum5", "arm7_mixed", "free_body",
                                        "quad12",          "swimmer2",  "swimmer3",   "swimmer6"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[100];
        snprintf(path, sizeof path, "mujoco/models/%s.xml", names[k]);
        ns_model* mjcf = modelfile_load(path);
        snprintf(path, sizeof path, "mujoco/models/%s.urdf", names[k]);
        ns_model* urdf = modelfile_load(path);
        modelfile_check_same(mjcf, urdf, 1e-15);
        for (uint32_t i = 0; i < ns_model_get_sizes(mjcf).nignored; i++) {
            fail_msg("%s: %s", names[k], ns_model_ignored(mjcf, i)); // everything is represented
        }
        ns_model_free(mjcf);
        ns_model_free(urdf);
    }
}

static void models_with_ground_load(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mujoco/models/quad12_ground.xml");
    ns_model_sizes sizes = ns_model_get_sizes(model);
    assert_int_equal(sizes.nu, 12);
    assert_int_equal(sizes.ngeom, 5);
    const ns_geom_def* ground = ns_model_geom(model, 0);
    assert_int_equal(ground->type, NS_GEOM_PLANE);
    assert_string_equal(ground->link, "world");
    assert_true(ground->collision);
    all_close(ground->friction, (const double[]){0.8, 0.005, 0.0001}, 3, 0.0);
    assert_string_equal(ns_model_geom(model, 1)->link, "FR_calf");
    assert_true(ns_model_world(model)->timestep == 0.002);
    ns_model_free(model);

    // Where a flag switches contact off, nothing is in contact.
    model = modelfile_load("mujoco/models/swimmer2.xml");
    assert_false(ns_model_geom(model, 0)->collision);
    all_close(ns_model_world(model)->gravity, (const double[]){0, 0, 0}, 3, 0.0);
    ns_model_free(model);
    model = modelfile_load("mujoco/models/pendulum5_ground.xml");
    assert_int_equal(ns_model_get_sizes(model).ngeom, 6);
    assert_string_equal(ns_model_actuator(model, 4)->joint, "joint4");
    ns_model_free(model);
}

// ---- against MuJoCo ----------------------------------------------------------------------------

// Poses of all links at coordinates q.
static void link_poses(const ns_model* model, const double* q, ns_pose* out) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        const ns_link_def* link = ns_model_link(model, i);
        const double* at = q + model->links[i].q;
        ns_pose joint = nsi_pose_identity(), origin = link->origin;
        switch (link->joint_type) {
        case NS_JOINT_FIXED: break;
        case NS_JOINT_REVOLUTE: nsi_quat_from_axis(link->axis, at[0], joint.quaternion); break;
        case NS_JOINT_PRISMATIC:
            for (int k = 0; k < 3; k++) joint.position[k] = at[0] * link->axis[k];
            break;
        case NS_JOINT_SPHERICAL: memcpy(joint.quaternion, at, 4 * sizeof *at); break;
        case NS_JOINT_FLOATING:
            origin = nsi_pose_identity();
            memcpy(joint.position, at, 3 * sizeof *at);
            memcpy(joint.quaternion, at + 3, 4 * sizeof *at);
            break;
        }
        ns_pose local = nsi_pose_compose(&origin, &joint);
        uint32_t parent = ns_model_link_parent(model, i);
        out[i] = parent == UINT32_MAX ? local : nsi_pose_compose(&out[parent], &local);
    }
}

static void mujoco_agrees(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/features.xml");
    size_t size;
    char* csv = modelfile_read("mjcf/features.csv", &size);
    ns_pose poses[32];
    double q[32], worst_pose = 0.0, worst_mass = 0.0;
    uint32_t nposes = 0, nmasses = 0;
    for (char* line = strtok(csv, "\n"); line; line = strtok(NULL, "\n")) {
        char kind[20], name[20];
        int skip = 0;
        assert_int_equal(sscanf(line, "%19[^,],%19[^,],%n", kind, name, &skip), 2);
        double v[32];
        uint32_t count = 0;
        for (char* at = line + skip; *at && count < 32; at += *at == ',')
            v[count++] = strtod(at, &at);

        if (strcmp(kind, "q") == 0) {
            assert_int_equal(count, ns_model_get_sizes(model).nq);
            memcpy(q, v, sizeof q);
            link_poses(model, q, poses);
            continue;
        }
        uint32_t link = modelfile_link(model, name);
        assert_int_not_equal(link, UINT32_MAX);
        if (strcmp(kind, "pose") == 0) {
            double r[9];
            nsi_quat_to_matrix(poses[link].quaternion, r);
            assert_int_equal(count, 12);
            for (int i = 0; i < 3; i++) {
                worst_pose = fmax(worst_pose, fabs(poses[link].position[i] - v[i]));
            }
            for (int i = 0; i < 9; i++) worst_pose = fmax(worst_pose, fabs(r[i] - v[i + 3]));
            nposes++;
        } else {
            const ns_link_def* def = ns_model_link(model, link);
            assert_int_equal(count, 10);
            worst_mass = fmax(worst_mass, fabs(def->mass - v[0]) / v[0]);
            for (int i = 0; i < 3; i++) worst_mass = fmax(worst_mass, fabs(def->com[i] - v[i + 1]));
            for (int i = 0; i < 6; i++) {
                worst_mass = fmax(worst_mass, fabs(def->inertia[i] - v[i + 4]) / v[4]);
            }
            nmasses++;
        }
    }
    free(csv);
    printf("against MuJoCo: poses differ by %.2g, masses by %.2g\n", worst_pose, worst_mass);
    assert_int_equal(nposes, 18);
    assert_int_equal(nmasses, 6);
    assert_true(worst_pose < 1e-14);
    assert_true(worst_mass < 1e-9); // MuJoCo diagonalises only so far
    ns_model_free(model);
}

static void features_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/features.xml");
    static const char* const links[] = {"a_ja", "a", "b_jb", "b_jb2", "b_jb3", "b",
                                        "c_jc", "c", "d",    "f",     "g"};
    static const char* const joints[] = {"ja", "a_joint", "jb", "jb2", "jb3",    "b_joint",
                                         "jc", "c_joint", "jd", "jf",  "g_joint"};
    assert_int_equal(ns_model_get_sizes(model).nlink, 11);
    for (uint32_t i = 0; i < 11; i++) {
        assert_string_equal(ns_model_link(model, i)->name, links[i]);
        assert_string_equal(ns_model_link(model, i)->joint, joints[i]);
    }
    const ns_world_def* world = ns_model_world(model);
    assert_true(world->timestep == 0.004 && world->integrator == NS_INTEGRATOR_RK4);
    assert_true(world->density == 1.2 && world->viscosity == 0.0002);
    all_close(world->gravity, (const double[]){0.1, 0, -9.8}, 3, 0.0);

    // Classes, and angles in degrees.
    const ns_link_def* ja = ns_model_link(model, 0);
    all_close(ja->axis, (const double[]){0, 1, 0}, 3, 0.0);
    assert_true(ja->damping == 0.1 && ja->armature == 0.2 && ja->friction == 0.02 && ja->limited);
    all_close(&ja->lower, (const double[]){-pi / 6.0, pi * 40.0 / 180.0}, 2, 1e-15);
    const ns_link_def* jb = ns_model_link(model, 2);
    all_close(jb->axis, (const double[]){1, 0, 0}, 3, 0.0);
    assert_true(jb->stiffness == 2.0 && fabs(jb->rest - 12.0 * pi / 180.0) < 1e-15);
    const ns_link_def* jb2 = ns_model_link(model, 3);
    assert_int_equal(jb2->joint_type, NS_JOINT_PRISMATIC);
    all_close(&jb2->lower, (const double[]){-0.1, 0.2}, 2, 0.0);
    assert_false(ns_model_link(model, 8)->limited);

    const ns_geom_def* geom = ns_model_geom(model, 0);
    all_close(geom->friction, (const double[]){0.7, 0.01, 0.0001}, 3, 0.0);
    all_close(geom->color, (const double[]){0.1, 0.2, 0.3, 1}, 4, 0.0);
    assert_int_equal(ns_model_geom(model, 1)->type, NS_GEOM_CAPSULE);
    assert_true(ns_model_geom(model, 1)->collision && !ns_model_geom(model, 2)->collision);

    // Actuators.
    const ns_actuator_def* a = ns_model_actuator(model, 0);
    assert_true(a->type == NS_ACTUATOR_TORQUE && a->gear == 3.0 && a->control_limited);
    a = ns_model_actuator(model, 1);
    assert_true(a->type == NS_ACTUATOR_POSITION && a->kp == 5.0 && a->kd == 0.0 && a->gear == 3.0);
    assert_true(a->force_limited && a->force_lower == -7.0 && a->force_upper == 8.0);
    a = ns_model_actuator(model, 2);
    assert_true(a->type == NS_ACTUATOR_VELOCITY && a->kd == 2.0 && a->gear == 1.0);
    a = ns_model_actuator(model, 3);
    assert_true(a->type == NS_ACTUATOR_POSITION && a->kp == 4.0 && a->kd == 0.5);
    a = ns_model_actuator(model, 4); // a gain is a gear
    assert_true(a->type == NS_ACTUATOR_TORQUE && a->gear == 8.0);
    assert_true(a->force_lower == -2.0 && a->force_upper == 3.0);

    assert_false(modelfile_notes(model, "cone")); // it is ours
    assert_true(modelfile_notes(model, "line 5: <flag> warmstart: not represented"));
    assert_true(modelfile_notes(model, "line 22: <light> is not represented"));
    assert_true(modelfile_notes(model, "<site name=\"s\"> is not represented"));
    assert_true(modelfile_notes(model, "<sensor> is not represented"));
    assert_true(
        modelfile_notes(model, "forces of the medium are not represented; changes the motion"));
    // Shapes that cannot touch: a note for each combination.
    assert_true(modelfile_notes(model, "contact between capsule and ellipsoid geometries is not "
                                       "simulated (2 pairs, the first is c_geom0:a_geom0)"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 5 + 4);
    ns_model_free(model);
}

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
    ns_model* model = parse_world("<body name='a'><joint type='ball' stiffness='1'/>" BALL "</body>"
                                  "<body name='b'><joint type='ball' range='0 1'/>" BALL "</body>");
    assert_true(modelfile_notes(model, "has stiffness, which is not represented on a joint of this "
                                       "type; changes the motion"));
    assert_true(modelfile_notes(model, "has range, which is not represented"));
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

// ---- other parts -------------------------------------------------------------------------------

static void options_have_mujocos_defaults(void** state) {
    (void)state;
    ns_model* model = modelfile_parse("<mujoco><worldbody/></mujoco>");
    assert_true(ns_model_world(model)->timestep == 0.002);
    assert_true(ns_model_world(model)->gravity[2] == -9.81);
    assert_int_equal(ns_model_world(model)->integrator, NS_INTEGRATOR_EULER);
    assert_string_equal(ns_model_name(model), "model");
    ns_model_free(model);

    model = modelfile_parse("<mujoco><option integrator='implicitfast'><flag gravity='disable' "
                            "contact='disable'/></option><worldbody><geom size='1'/></worldbody>"
                            "</mujoco>");
    assert_int_equal(ns_model_world(model)->integrator, NS_INTEGRATOR_IMPLICIT);
    assert_true(ns_model_world(model)->gravity[2] == 0.0);
    assert_false(ns_model_geom(model, 0)->collision);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

static void assets_are_looked_up(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler meshdir='parts/'/><default><mesh scale='2 2 2'/></default>"
        "<asset><mesh file='arm.v2.stl'/><mesh name='m' file='/abs/b.obj' scale='1 2 3'/>"
        "<mesh name='inline' vertex='0 0 0 1 0 0 0 1 0 0 0 1'/>"
        "<material name='red' rgba='1 0 0 1'/><texture name='t'/></asset>"
        "<worldbody><geom type='mesh' mesh='arm.v2' material='red'/>"
        "<geom mesh='m' rgba='0 1 0 1' material='red'/><geom type='mesh' mesh='inline' group='3'/>"
        "<geom type='mesh' mesh='lost'/><geom type='hfield' hfield='h'/>"
        "<body name='a'><geom type='mesh' mesh='m'/></body></worldbody></mujoco>");
    assert_int_equal(ns_model_get_sizes(model).ngeom, 5);
    const ns_geom_def* geom = ns_model_geom(model, 0);
    assert_string_equal(geom->mesh, "parts/arm.v2.stl");
    all_close(geom->size, (const double[]){2, 2, 2}, 3, 0.0);
    all_close(geom->color, (const double[]){1, 0, 0, 1}, 4, 0.0);
    geom = ns_model_geom(model, 1);
    assert_int_equal(geom->type, NS_GEOM_MESH);
    assert_string_equal(geom->mesh, "/abs/b.obj");
    all_close(geom->color, (const double[]){0, 1, 0, 1}, 4, 0.0);
    assert_true(geom->visual);
    assert_null(ns_model_geom(model, 2)->mesh);
    assert_int_equal(ns_model_geom(model, 2)->nvertex, 4);
    assert_false(ns_model_geom(model, 2)->visual);
    assert_true(modelfile_notes(model, "names a mesh that is not among the assets"));
    assert_true(modelfile_notes(model, "is of type hfield, which is not represented"));
    assert_true(modelfile_notes(model, "is a mesh, whose mass is not computed"));
    assert_true(modelfile_notes(model, "<texture name=\"t\"> is not represented"));
    ns_model_free(model);
}

static void what_is_left_out_is_listed(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco>\n<worldbody><body name='a' gravcomp='1'><joint name='j' user='1' "
        "margin='0.1'/>" BALL "<camera/></body></worldbody>\n"
        "<equality><joint joint1='j'/></equality>\n<tendon/>\n<contact><other/></contact>\n"
        "<keyframe/>\n<actuator><muscle joint='j'/><motor name='t' tendon='x'/>\n"
        "<general name='g' joint='j' gaintype='affine'/><motor joint='j' name='m' "
        "gear='2'/></actuator>\n"
        "<statistic/><visual/><size/><custom/><extension/></mujoco>");
    static const char* const notes[] = {
        "line 2: <body name=\"a\"> gravcomp: not represented; changes the motion",
        "line 2: <joint name=\"j\"> user: not represented",
        "line 2: <joint name=\"j\"> margin: not represented; changes the motion",
        "line 2: <camera> in <body name=\"a\"> is not represented",
        "line 3: <equality> is not represented; changes the motion",
        "line 4: <tendon> is not represented; changes the motion",
        "line 5: <other> is not represented",
        "line 6: <keyframe> is not represented",
        "line 7: <muscle> is not represented; changes the motion",
        "line 7: <motor name=\"t\"> tendon: not represented; changes the motion",
        "line 9: <statistic> is not represented",
        "line 9: <visual> is not represented",
        "line 9: <size> is not represented",
        "line 9: <custom> is not represented",
        "line 9: <extension> is not represented",
        ("line 7: <motor name=\"t\"> does not act on a joint and is not represented; "
         "changes the motion"),
        "line 8: <general name=\"g\"> has a force law that is not represented; changes the motion",
    };
    const uint32_t count = sizeof notes / sizeof *notes;
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(ns_model_ignored(model, i));
        assert_string_equal(ns_model_ignored(model, i), notes[i]);
    }
    assert_int_equal(ns_model_get_sizes(model).nignored, count);
    assert_int_equal(ns_model_get_sizes(model).nu, 1);
    ns_model_free(model);
}

// ---- contact -----------------------------------------------------------------------------------

// Two free balls a and b, and a floor; `ball` is for a, `rest` comes after the bodies.
static ns_model* parse_balls(const char* top, const char* ball, const char* rest) {
    char text[4000];
    snprintf(text, sizeof text,
             "<mujoco>%s<worldbody><geom name='floor' type='plane' size='1 1 1' friction='0.2'/>"
             "<body name='A'><freejoint/><geom name='a' size='0.1' %s/></body>"
             "<body name='B'><freejoint/><geom name='b' size='0.1' friction='0.4'/></body>"
             "</worldbody>%s</mujoco>",
             top, ball, rest);
    return modelfile_parse(text);
}

static void expect_pairs(const ns_model* model, const char* names) {
    char all[400] = "";
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ncontact; i++) {
        size_t length = strlen(all);
        snprintf(all + length, sizeof all - length, "%s%s", i > 0 ? " " : "",
                 ns_model_contact(model, i)->name);
    }
    assert_string_equal(all, names);
}

static void contype_and_conaffinity_are_groups(void** state) {
    (void)state;
    static const struct {
        const char *attributes, *pairs;
    } cases[] = {
        {"", "a:floor b:floor b:a"},
        {"contype='0'", "a:floor b:floor b:a"}, // either side is enough
        {"contype='2' conaffinity='2'", "b:floor"},
        {"contype='2' conaffinity='1'", "a:floor b:floor b:a"},
        {"contype='0' conaffinity='0'", "b:floor"},
        {"contype='-1' conaffinity='0'", "a:floor b:floor b:a"}, // all bits
        {"contype='4294967295' conaffinity='0'", "a:floor b:floor b:a"},
        {"contype='4294967294' conaffinity='0'", "b:floor"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = parse_balls("", cases[k].attributes, "");
        expect_pairs(model, cases[k].pairs);
        assert_int_equal(ns_model_get_sizes(model).nignored, 0);
        ns_model_free(model);
    }
    // By default, and by the default of a class.
    ns_model* model = parse_balls("<default><geom contype='2'/><default class='c'>"
                                  "<geom conaffinity='2' friction='0.9' condim='4'/></default>"
                                  "</default>",
                                  "class='c'", "");
    expect_pairs(model, "a:floor b:a");
    assert_int_equal(ns_model_geom(model, 1)->groups, 2);
    assert_int_equal(ns_model_geom(model, 1)->touches, 2);
    assert_true(ns_model_contact(model, 0)->mu == 0.9);
    assert_true(modelfile_notes(model,
                                "<geom name=\"a\"> has condim 4 or 6, as 1 in all: torsional "
                                "and rolling friction do not act; changes the motion"));
    ns_model_free(model);

    model = parse_balls("<option><flag contact='disable'/></option>", "condim='6'",
                        "<contact><pair geom1='a' geom2='b'/><exclude body1='A' body2='B'/>"
                        "</contact>");
    expect_pairs(model, "");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

static void condim_one_is_smooth(void** state) {
    (void)state;
    // MuJoCo's rule: the larger condim, and the larger friction whosever it is.
    ns_model* model = parse_balls("", "condim='1' friction='3'", "");
    assert_true(ns_model_contact(model, 0)->mu == 3.0);
    assert_true(ns_model_contact(model, 1)->mu == 0.4);
    assert_true(ns_model_contact(model, 2)->mu == 3.0);
    assert_true(ns_model_geom(model, 1)->friction[0] == 3.0);
    ns_model_free(model);
    model = parse_balls("<default><geom condim='1'/></default>", "condim='3' friction='0.7'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.7);
    assert_true(ns_model_contact(model, 1)->mu == 0.0); // both are smooth
    ns_model_free(model);
}

static void the_higher_priority_decides_friction(void** state) {
    (void)state;
    ns_model* model = parse_balls("", "priority='1' friction='0.1'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.1);
    assert_true(ns_model_contact(model, 1)->mu == 0.4);
    assert_true(ns_model_contact(model, 2)->mu == 0.1);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
    model = parse_balls("<default><geom priority='-1'/></default>", "priority='2' condim='1'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.0);
    assert_true(ns_model_contact(model, 1)->mu == 0.4);
    ns_model_free(model);
    const char* message = modelfile_error(
        "<mujoco><worldbody><geom size='1' priority='0.5'/></worldbody></mujoco>", NS_ERR_PARSE);
    assert_non_null(strstr(message, "priority must be an integer"));
}

static void a_pair_does_not_ask_its_geoms(void** state) {
    (void)state;
    ns_model* model = parse_balls("", "friction='0.1' condim='1'",
                                  "<contact><pair geom1='a' geom2='b'/></contact>");
    assert_true(ns_model_contact(model, 0)->mu == 1.0); // MuJoCo's default for pairs
    ns_model_free(model);
}

static void pyramids_are_noted(void** state) {
    (void)state;
    ns_model* model = parse_balls("<option cone='pyramidal'/>", "", "");
    assert_true(modelfile_notes(model, "cone: friction is a cone unless a system is told otherwise "
                                       "(--friction pyramid); changes the motion"));
    ns_model_free(model);
    model = parse_balls("<option cone='elliptic'/>", "", "");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

static void pairs_and_exclusions_are_read(void** state) {
    (void)state;
    ns_model* model =
        parse_balls("<default><pair friction='0.6'/><default class='slick'>"
                    "<pair condim='1'/></default></default>",
                    "contype='0' conaffinity='0'",
                    "<contact><pair name='q' geom1='a' geom2='b' friction='0.3 0.3 0.1'/>"
                    "<exclude name='e' body1='world' body2='B'/></contact>"
                    "<contact><pair geom1='floor' geom2='a' class='slick'/></contact>");
    expect_pairs(model, "q floor:a");
    assert_true(ns_model_geom(model, 1)->collision);
    assert_true(ns_model_contact(model, 0)->mu == 0.3);
    assert_true(ns_model_contact(model, 1)->mu == 0.0);
    assert_string_equal(ns_model_contact(model, 1)->a, "floor");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);

    model = parse_balls("", "", "<contact><exclude body1='A' body2='B'/></contact>");
    expect_pairs(model, "a:floor b:floor");
    ns_model_free(model);
}

// What MuJoCo has no words for: plates, points, and how a pair pushes back.
static void plates_and_laws_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/plates.xml");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    const ns_geom_def* square = ns_model_geom(model, 1);
    assert_int_equal(square->type, NS_GEOM_POLYGON);
    all_close(square->size, (const double[]){0.01, 0, 0}, 3, 0.0);
    assert_int_equal(square->nvertex, 4);
    // Counter-clockwise, whichever way round the file has them.
    all_close(square->vertices, (const double[]){0.2, 0, 0, 0.2, 0.2, 0, 0, 0.2, 0, 0, 0, 0}, 12,
              0.0);
    const ns_geom_def* foot = ns_model_geom(model, 2);
    assert_int_equal(foot->type, NS_GEOM_POINTS);
    assert_int_equal(foot->nvertex, 2);
    all_close(foot->vertices, (const double[]){0.1, 0.1, -0.011, 0.2, 0, -0.011}, 6, 0.0);
    assert_false(foot->visual);
    const ns_geom_def* round = ns_model_geom(model, 3);
    assert_int_equal(round->type, NS_GEOM_ELLIPSE);
    all_close(round->size, (const double[]){0.1, 0.05, 0.02}, 3, 0.0);
    all_close(round->pose.quaternion, (const double[]){cos(pi / 12), 0, 0, sin(pi / 12)}, 4, 1e-15);

    expect_pairs(model, "square:rod round:rod foot:board");
    const ns_contact_def* rigid = ns_model_contact(model, 0);
    assert_int_equal(rigid->model, NS_CONTACT_NCP);
    assert_true(rigid->restitution == 0.2 && rigid->mu == 0.3);
    const ns_contact_def* soft = ns_model_contact(model, 1);
    assert_int_equal(soft->model, NS_CONTACT_SPRING);
    assert_true(soft->mu == 0.1 && soft->exponent == 1.5 && soft->transition_velocity == 0.05);
    const ns_contact_def* own = ns_model_contact(model, 2);
    assert_int_equal(own->model, NS_CONTACT_SPRING);
    assert_true(own->stiffness == 900.0 && own->damping == 0.5 && own->exponent == 1.0);
    assert_true(own->transition_velocity == 0.01 && own->max_depth == INFINITY);
    ns_model_free(model);

    // The mass of a plate is not computed.
    model = parse_world("<body name='a'><joint/><geom size='0.1' mass='1'/>"
                        "<geom name='p' type='ellipse' size='1 1 0'/></body>");
    assert_true(modelfile_notes(model, "<geom name=\"p\"> is a plate, whose mass is not computed"));
    ns_model_free(model);

    // One that is given is left out, and that is said.
    model = parse_world("<body name='a'><joint/><geom size='0.1' mass='1'/>"
                        "<geom name='p' type='ellipse' size='1 1 0' mass='2'/>"
                        "<geom name='q' type='points' vertex='0 0 0' mass='3'/>"
                        "<geom name='r' type='points' vertex='0 0 0'/></body>");
    assert_true(ns_model_link(model, 0)->mass == 1.0);
    assert_true(modelfile_notes(model, "<geom name=\"p\"> is a plate, whose mass is left out"));
    assert_true(
        modelfile_notes(model, "<geom name=\"q\"> is a set of points, whose mass is left out"));
    assert_false(modelfile_notes(model, "<geom name=\"r\">"));
    ns_model_free(model);

    // What an element says wins over its class; twice on one element is a fault.
    model = modelfile_parse("<mujoco><default><geom file='none.csv'/></default><worldbody>"
                            "<geom type='polygon' size='1' vertex='0 0 1 0 1 1'/></worldbody>"
                            "</mujoco>");
    assert_int_equal(ns_model_geom(model, 0)->nvertex, 3);
    ns_model_free(model);
    assert_non_null(strstr(modelfile_error("<mujoco><default><geom vertex='0 0 1 0 1 1'/></default>"
                                           "<worldbody><geom type='polygon' size='1' "
                                           "file='p.csv'/></worldbody></mujoco>",
                                           NS_ERR_IO),
                           "is not looked for"));
    assert_non_null(strstr(modelfile_error("<mujoco><worldbody><geom type='polygon' size='1' "
                                           "file='p.csv' vertex='0 0 1 0 1 1'/></worldbody>"
                                           "</mujoco>",
                                           NS_ERR_PARSE),
                           "needs one of the attributes vertex and file"));

    // More vertices than a geometry may have, and outlines of a model that is not from a file.
    size_t size = 0, room = 100000;
    char* text = malloc(room);
    assert_non_null(text);
    size += (size_t)snprintf(text, room, "<mujoco><worldbody><geom type='points' vertex='");
    for (int k = 0; k < 4097; k++) {
        size += (size_t)snprintf(text + size, room - size, "%d 0 0 ", k);
    }
    snprintf(text + size, room - size, "'/></worldbody></mujoco>");
    assert_non_null(strstr(modelfile_error(text, NS_ERR_LIMIT), "too many vertices, 4097"));
    free(text);
    const char* message = modelfile_error("<mujoco><worldbody><geom type='polygon' size='1' "
                                          "file='p.csv'/></worldbody></mujoco>",
                                          NS_ERR_IO);
    assert_non_null(strstr(message, "is not looked for, since the model is not from a file"));
}

// Outlines in tables: beside the model, or where the data are.
static void outlines_come_from_files(void** state) {
    (void)state;
    static const struct {
        const char *table, *fault; // NULL: it is fine
        uint32_t count;
    } cases[] = {
        {"x,y\n0,0\n1,0\n1,2\n", NULL, 3},
        {"x,y\n0,0\n1,0\n1,2\n0,2\n0,-0.0\n", NULL, 4}, // comes back to where it began
        {"x,y\n0,0\n1,0\n", "the outline has fewer than 3 vertices", 0},
        {"x,y\n0,0\n1,1\n1,0\n0,1\n", "the outline crosses or touches itself", 0},
        {"x,y\n0,0\n1,0\n1,nan\n", "vertices", 0},
        {"x,y\n0,0\n1,a\n1,2\n", ":3:3: ", 0},
        {"x,z\n0,0\n1,0\n1,2\n", "its columns must be x and y", 0},
        {"x,y,z\n0,0,0\n1,0,0\n1,2,0\n", "its columns must be x and y", 0},
        {"x,y\n", "vertices must be given", 0},
    };
    tempdir_mkdir("beside");
    tempdir_mkdir("beside/plates");
    tempdir_write("beside/model.xml",
                  "<mujoco><worldbody><geom name='p' type='polygon' size='0.01' "
                  "file='plates/p.csv'/></worldbody></mujoco>");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = NULL;
        ns_error error = {0};
        tempdir_write("beside/plates/p.csv", cases[k].table);
        ns_status status = ns_model_load(tempdir_path("beside/model.xml"), NULL, &model, &error);
        if (cases[k].fault) {
            assert_int_equal(status, NS_ERR_PARSE);
            if (!strstr(error.message, cases[k].fault)) fail_msg("%s", error.message);
        } else {
            must(status, &error);
            assert_int_equal(ns_model_geom(model, 0)->nvertex, cases[k].count);
        }
        ns_model_free(model);
    }

    // Too many vertices, and a table that is too long to be an outline.
    for (int k = 0; k < 2; k++) {
        const char* row = k == 0 ? "1,2\n" : "1.000000000000,2.000000000000\n";
        int rows = k == 0 ? 4097 : 40000;
        char* text = malloc((size_t)rows * strlen(row) + 20);
        assert_non_null(text);
        size_t size = (size_t)sprintf(text, "x,y\n0,0\n");
        for (int i = 1; i < rows; i++) size += (size_t)sprintf(text + size, "%s", row);
        tempdir_write("beside/plates/p.csv", text);
        free(text);
        ns_model* model = NULL;
        ns_error error = {0};
        assert_int_equal(ns_model_load(tempdir_path("beside/model.xml"), NULL, &model, &error),
                         NS_ERR_LIMIT);
        const char* fault = k == 0 ? "too many vertices, 4097" : "at most 1 MiB";
        if (!strstr(error.message, fault)) fail_msg("%s", error.message);
    }

    // Elsewhere than beside the model: the environment names the folder.
    const char* given = getenv("NEURALSIM_DATA");
    char* kept = given ? strdup(given) : NULL;
    tempdir_mkdir("other");
    assert_int_equal(rename(tempdir_path("beside/model.xml"), tempdir_path("other/model.xml")), 0);
    tempdir_write("beside/plates/p.csv", cases[0].table);
    ns_model* model = NULL;
    ns_error error = {0};
    unsetenv("NEURALSIM_DATA");
    assert_int_equal(ns_model_load(tempdir_path("other/model.xml"), NULL, &model, &error),
                     NS_ERR_IO);
    setenv("NEURALSIM_DATA", tempdir_path("beside"), 1);
    must(ns_model_load(tempdir_path("other/model.xml"), NULL, &model, &error), &error);
    assert_int_equal(ns_model_geom(model, 0)->nvertex, 3);
    ns_model_free(model);

    // But not out of that folder.
    tempdir_write("other/up.xml", "<mujoco><worldbody><geom name='p' type='polygon' size='0.01' "
                                  "file='plates/../plates/p.csv'/></worldbody></mujoco>");
    assert_int_equal(ns_model_load(tempdir_path("other/up.xml"), NULL, &model, &error), NS_ERR_IO);

    // Each allocation may fail.
    uint32_t n = 0;
    for (ns_status status = NS_ERR_NOMEM; status != NS_OK; n++) {
        test_alloc counter = {.fail_at = n + 1};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = {.allocator = &allocator};
        status = ns_model_load(tempdir_path("other/model.xml"), &options, &model, &error);
        if (status != NS_OK) assert_int_equal(status, NS_ERR_NOMEM);
        ns_model_free(model);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(n > 20);
    if (kept) setenv("NEURALSIM_DATA", kept, 1);
    if (!kept) unsetenv("NEURALSIM_DATA");
    free(kept);
}

static void what_contact_lacks_is_listed(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><geom name='floor' type='plane' size='1 1 1' solref='0.01 1'/>\n"
        "<geom name='hills' type='hfield' hfield='h'/><body name='A'><freejoint/>\n"
        "<geom name='a' size='0.1' solimp='0.9' margin='0.01' user='1'/>\n"
        "<geom name='a2' type='box' size='0.1 0.1 0.1' condim='6'/></body><body name='B'>\n"
        "<freejoint/><geom name='b' type='cylinder' size='0.1 0.1' "
        "condim='4'/></body></worldbody>\n"
        "<contact><pair geom1='a' geom2='hills'/>\n<pair geom1='a' geom2='b'/>\n"
        "<pair geom1='a' geom2='a2'/>\n<pair geom1='a' geom2='floor' friction='1 2' gap='1'/>\n"
        "</contact></mujoco>");
    static const char* const notes[] = {
        "line 1: <geom name=\"floor\"> solref: not represented; changes the motion",
        "line 2: <geom name=\"hills\"> hfield: not represented; changes the motion",
        "line 3: <geom name=\"a\"> user: not represented",
        "line 3: <geom name=\"a\"> solimp, margin: not represented; changes the motion",
        "line 9: <pair> gap: not represented; changes the motion",
        ("line 2: <geom name=\"hills\"> is of type hfield, which is not represented; changes the "
         "motion where it touches something"),
        ("line 6: <pair> names the geom \"hills\", which is not represented; changes the motion"),
        ("line 7: <pair> is not represented: the pair is of shapes whose contact is not handled; "
         "changes the motion"),
        ("line 8: <pair> is not represented: the pair is on one body, or both of its geometries "
         "are fixed to the world; changes the motion"),
        ("line 9: <pair> has different friction in two directions; the first acts in both; "
         "changes the motion"),
        ("line 4: <geom name=\"a2\"> has condim 4 or 6, as 2 in all: torsional and rolling "
         "friction do not act; changes the motion"),
        ("contact between sphere and cylinder geometries is not simulated (1 pair, b:a); changes "
         "the motion where they touch"),
        ("contact between cylinder and box geometries is not simulated (1 pair, b:a2); changes "
         "the motion where they touch"),
    };
    const uint32_t count = sizeof notes / sizeof *notes;
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(ns_model_ignored(model, i));
        assert_string_equal(ns_model_ignored(model, i), notes[i]);
    }
    assert_int_equal(ns_model_get_sizes(model).nignored, count);
    expect_pairs(model, "a:floor a2:floor b:floor");
    ns_model_free(model);
}

static void ground_is_added_on_demand(void** state) {
    (void)state;
    static const struct {
        const char *geoms, *pairs;
    } cases[] = {
        {"", "a:ground"},
        {"<geom type='plane' size='1 1 1'/>", "a:world_geom0"},
        {"<geom type='plane' size='1 1 1' contype='0' conaffinity='0'/>", "a:ground"}, // drawn only
        {"<geom name='ground' type='sphere' size='1'/>", "a:ground a:ground_"},
        {"<body name='weld'><geom name='tilted' type='plane' size='1 1 1'/></body>", "a:tilted"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody>%s<body name='A'><freejoint/><geom name='a' size='0.1'/>"
                 "</body></worldbody></mujoco>",
                 cases[k].geoms);
        ns_load_options options = ns_default_load_options();
        options.ground = true;
        ns_model* model = NULL;
        assert_int_equal(ns_model_parse(text, strlen(text), "t", &options, &model, NULL), NS_OK);
        modelfile_check(model);
        expect_pairs(model, cases[k].pairs);
        ns_model_free(model);
    }
}

// A body with several joints does not touch the one that carries it, as in MuJoCo.
static void joints_in_a_row_are_one(void** state) {
    (void)state;
    ns_model* model = parse_world(
        "<body name='a'><freejoint/><geom name='x' size='0.1'/><body name='b'>"
        "<joint name='j'/><joint name='k' axis='0 1 0' pos='0.1 0 0'/><geom name='y' size='0.1'/>"
        "<body name='c'><joint name='l'/><geom name='z' size='0.1' pos='1 0 0'/></body>"
        "</body></body>");
    expect_pairs(model, "z:x");
    ns_model_free(model);
}

// As deep as a document may be.
static void long_chains_load(void** state) {
    (void)state;
    enum { LENGTH = 509 };
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    nsi_text_add(&b, "<mujoco><option><flag contact='disable'/></option><worldbody>");
    for (int i = 0; i < LENGTH; i++) {
        nsi_text_add(&b, "<body name='b%d'><joint name='j%d'/>" BALL, i, i);
    }
    for (int i = 0; i < LENGTH; i++) nsi_text_add(&b, "</body>");
    nsi_text_add(&b, "</worldbody></mujoco>");
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    ns_model* model = modelfile_parse(text.data);
    assert_int_equal(ns_model_get_sizes(model).nlink, LENGTH);
    assert_int_equal(ns_model_link_parent(model, LENGTH - 1), LENGTH - 2);
    ns_model_free(model);
    ns_text_free(&text);
}

// ---- bad files ---------------------------------------------------------------------------------

static void broken_files_say_what_is_wrong(void** state) {
    (void)state;
    assert_true(modelfile_try_broken(".xml") >= 40);
}

static void damaged_files_do_no_harm(void** state) {
    (void)state;
    static const char* const paths[] = {"mujoco/models/arm7_mixed.xml",
                                        "mjcf/features.xml",
                                        "mujoco/models/swimmer2.xml",
                                        "mjcf/features.xml",
                                        "mujoco/models/quad12_ground.xml",
                                        "mjcf/contact.xml",
                                        "mjcf/plates.xml",
                                        NULL};
    modelfile_try_damaged(paths, 4200, 2026);
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    size_t size;
    static const char* const paths[] = {"mjcf/features.xml", "mjcf/contact.xml", "mjcf/plates.xml"};
    for (int k = 0; k < 3; k++) {
        char* text = modelfile_read(paths[k], &size);
        modelfile_fail_allocations(text);
        free(text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urdf_and_mjcf_agree),
        cmocka_unit_test(models_with_ground_load),
        cmocka_unit_test(mujoco_agrees),
        cmocka_unit_test(features_are_read),
        cmocka_unit_test(solids_have_their_inertia),
        cmocka_unit_test(inertia_comes_from_where_it_should),
        cmocka_unit_test(orientations_have_five_forms),
        cmocka_unit_test(several_joints_make_several_links),
        cmocka_unit_test(a_hinge_turns_about_its_point),
        cmocka_unit_test(joints_are_where_ref_says),
        cmocka_unit_test(names_are_made_up),
        cmocka_unit_test(springs_on_balls_are_noted),
        cmocka_unit_test(limits_can_be_explicit),
        cmocka_unit_test(options_have_mujocos_defaults),
        cmocka_unit_test(assets_are_looked_up),
        cmocka_unit_test(what_is_left_out_is_listed),
        cmocka_unit_test(contype_and_conaffinity_are_groups),
        cmocka_unit_test(condim_one_is_smooth),
        cmocka_unit_test(the_higher_priority_decides_friction),
        cmocka_unit_test(a_pair_does_not_ask_its_geoms),
        cmocka_unit_test(pyramids_are_noted),
        cmocka_unit_test(pairs_and_exclusions_are_read),
        cmocka_unit_test(plates_and_laws_are_read),
        cmocka_unit_test(outlines_come_from_files),
        cmocka_unit_test(what_contact_lacks_is_listed),
        cmocka_unit_test(ground_is_added_on_demand),
        cmocka_unit_test(joints_in_a_row_are_one),
        cmocka_unit_test(long_chains_load),
        cmocka_unit_test(broken_files_say_what_is_wrong),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
