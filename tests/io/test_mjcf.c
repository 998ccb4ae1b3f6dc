// MJCF: what a file becomes, against closed forms, against MuJoCo and against URDF; broken and
// damaged files.

#define _XOPEN_SOURCE 700 // setenv

#include "io/mjcf_rig.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
    a = ns_model_actuator(model, 4);
    assert_true(a->type == NS_ACTUATOR_GENERAL && a->gain[0] * a->gear == 8.0);
    assert_true(a->force_limited && a->gain[1] == 0.0 && a->bias[0] == 0.0);

    assert_false(modelfile_notes(model, "cone")); // it is ours
    assert_true(modelfile_notes(model, "line 5: <flag> warmstart: not represented"));
    assert_true(modelfile_notes(model, "line 22: <light> is not represented"));
    assert_string_equal(ns_model_site(model, 0)->name, "s");
    assert_false(modelfile_notes(model, "contact between")); // all shapes can touch
    assert_int_equal(ns_model_get_sizes(model).nignored, 2);
    ns_model_free(model);
}

// ---- other parts -------------------------------------------------------------------------------

static void options_have_mujocos_defaults(void** state) {
    (void)state;
    ns_model* model = modelfile_parse("<mujoco><worldbody/></mujoco>");
    assert_true(ns_model_world(model)->timestep == 0.002);
    assert_true(ns_model_world(model)->gravity[2] == -9.81);
    // MuJoCo's Euler is implicit in joint damping (sim/test_stability.c has its numbers).
    assert_int_equal(ns_model_world(model)->integrator, NS_INTEGRATOR_IMPLICIT);
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
    assert_true(modelfile_notes(model, "names a hfield that is not among the assets"));
    assert_true(modelfile_notes(
        model, "is a mesh without mass: it is in a file, and the model was not loaded from one"));
    assert_true(modelfile_notes(model, "<texture name=\"t\"> is not represented"));
    ns_model_free(model);
}

static void what_is_left_out_is_listed(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco>\n<worldbody><body name='a' gravcomp='1'><joint name='j' user='1' "
        "margin='0.1'/>" BALL "<camera/></body></worldbody>\n"
        "<equality><flex flex='f'/></equality>\n<tendon/>\n<contact><other/></contact>\n"
        "<keyframe/>\n<actuator><adhesion body='a'/><motor name='t' body='x'/>\n"
        "<general name='g' joint='j' gaintype='user'/><motor joint='j' name='m' "
        "gear='2'/></actuator>\n"
        "<statistic/><visual/><size/><custom/><extension/></mujoco>");
    static const char* const notes[] = {
        "line 2: <joint name=\"j\"> user: not represented",
        "line 2: <camera> in <body name=\"a\"> is not represented",
        "line 3: <flex> is not represented; changes the motion",
        "line 5: <other> is unknown in this place and not read; may change the motion",
        "line 7: <adhesion> is not represented; changes the motion",
        "line 7: <motor name=\"t\"> body: not represented; changes the motion",
        "line 9: <statistic> is not represented",
        "line 9: <visual> is not represented",
        "line 9: <size> is not represented",
        "line 9: <custom> is not represented",
        "line 9: <extension> is not represented",
        ("line 2: <joint name=\"j\"> has margin, not represented: limits have springs of their "
         "own; changes the motion"),
        ("line 7: <motor name=\"t\"> does not act on a joint, tendon or site and is not "
         "represented; changes the motion"),
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

// Names that MJCF does not have, and names that it has elsewhere, may have been meant to do something.
static void unknown_names_may_change_the_motion(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/unknown.xml");
    static const struct {
        const char* note;
        ns_ignored_effect effect;
    } notes[] = {
        {"line 2: <option> jacobian: not represented", NS_IGNORED_HARMLESS},
        {"line 3: <geoms> is unknown in this place and not read; may change the motion",
         NS_IGNORED_UNKNOWN},
        {"line 5: <joint name=\"j\"> springdamper: not represented; changes the motion",
         NS_IGNORED_CHANGING},
        {"line 6: <geom> in <body name=\"a\"> damping, fricton: unknown and not read; may change "
         "the motion",
         NS_IGNORED_UNKNOWN},
        {"line 7: <motor> in <body name=\"a\"> is unknown in this place and not read; may change "
         "the motion",
         NS_IGNORED_UNKNOWN},
    };
    for (uint32_t k = 0; k < sizeof notes / sizeof *notes; k++) {
        bool found = false;
        for (uint32_t i = 0; i < ns_model_get_sizes(model).nignored; i++) {
            if (strcmp(ns_model_ignored(model, i), notes[k].note) != 0) continue;
            found = true;
            assert_int_equal(ns_model_ignored_effect(model, i), notes[k].effect);
        }
        if (!found) fail_msg("no note: %s", notes[k].note);
    }
    assert_int_equal(ns_model_ignored_effect(model, UINT32_MAX), NS_IGNORED_HARMLESS);
    ns_model_free(model);
}

// MuJoCo's friction slips less with these; as they are by default, nothing is said.
static void settings_of_friction_change_the_motion(void** state) {
    (void)state;
    static const struct {
        const char *option, *note;
    } cases[] = {{"impratio='10'", "<option> impratio: not represented; changes the motion"},
                 {"noslip_iterations='3'",
                  "<option> noslip_iterations: not represented; changes the motion"},
                 {"impratio='1' noslip_iterations='0'", NULL}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[300];
        snprintf(text, sizeof text,
                 "<mujoco><option %s/><worldbody><body name='a'/></worldbody></mujoco>",
                 cases[k].option);
        ns_model* model = modelfile_parse(text);
        uint32_t count = ns_model_get_sizes(model).nignored;
        assert_int_equal(count, cases[k].note ? 1 : 0);
        if (count == 1) {
            assert_true(modelfile_notes(model, cases[k].note));
            assert_int_equal(ns_model_ignored_effect(model, 0), NS_IGNORED_CHANGING);
        }
        ns_model_free(model);
    }
}

// The reason for a joint that nothing resists, where it is a mesh that is not there.
static void a_missing_mesh_is_said_first(void** state) {
    (void)state;
    ns_model* model = NULL;
    ns_error error;
    char path[] = NEURALSIM_SOURCE_DIR "/tests/data/mjcf/lost_mesh.xml";
    assert_int_equal(ns_model_load(path, NULL, &model, &error), NS_ERR_PARSE);
    assert_non_null(strstr(error.message,
                           "lost_mesh.xml:4: mesh \"arm\" has a file that is not found: "
                           "\"meshes/arm.stl\"; so "));
    assert_non_null(strstr(error.message, "lost_mesh.xml:4: joint \"j\": no inertia resists"));
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
        cmocka_unit_test(options_have_mujocos_defaults),
        cmocka_unit_test(assets_are_looked_up),
        cmocka_unit_test(what_is_left_out_is_listed),
        cmocka_unit_test(unknown_names_may_change_the_motion),
        cmocka_unit_test(settings_of_friction_change_the_motion),
        cmocka_unit_test(a_missing_mesh_is_said_first),
        cmocka_unit_test(broken_files_say_what_is_wrong),
        cmocka_unit_test(damaged_files_do_no_harm),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
