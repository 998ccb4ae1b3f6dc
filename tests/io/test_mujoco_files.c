// Complete MJCF files, loaded here and by MuJoCo: mass matrices and accelerations.

#include "io/mujoco_rig.h"
#include "model/pose.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// MuJoCo diagonalises inertias only so far.
static const double SAME = 1e-6;

static void included_files_agree(void** state) {
    (void)state;
    mujoco_difference worst = mujoco_compare_file("mjcf/include/scene.xml", 20);
    assert_true(worst.mass < SAME && worst.acceleration < SAME);
}

// Complete robots with what public files have: default classes, servos, keyframes, several joints on a
// body, inertia from geoms.
static void robots_agree(void** state) {
    (void)state;
    mujoco_difference worst = mujoco_compare_file("mjcf/quadruped/scene.xml", 20);
    assert_true(worst.mass < SAME && worst.acceleration < SAME);
    worst = mujoco_compare_file("mjcf/humanoid.xml", 20);
    assert_true(worst.mass < SAME && worst.acceleration < SAME);
}

// MuJoCo's Euler takes joint damping at the end of the step; a file that says nothing has it. Steps
// without constraints: in MuJoCo by a flag, here without limits, friction and contact.
static void steps_agree(void** state) {
    (void)state;
    enum { STEPS = 100 };
    static const ns_param_value none[] = {{"joint/*/friction", 0.0},
                                          {"joint/*/limit_stiffness", 0.0},
                                          {"joint/*/limit_damping", 0.0}};
    ns_model* ours = modelfile_load("mjcf/humanoid.xml");
    mjModel* theirs = mujoco_file("mjcf/humanoid.xml");
    theirs->opt.disableflags |= mjDSBL_CONSTRAINT;
    ns_system_options options = ns_default_system_options();
    options.set = none, options.nset = 3;
    options.contact = NS_CONTACT_NONE;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error;
    must(ns_system_create(ours, &options, &system, &error), &error);
    ns_workspace_size size = {.batch = 1, .steps = STEPS, .threads = 1};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    ns_system_sizes z = ns_system_get_sizes(system);
    ns_model_sizes n = ns_model_get_sizes(ours);

    // The same controls all the time.
    mjData* data = mj_makeData(theirs);
    ns_rng rng = ns_rng_seed(5);
    mujoco_random_state(&rng, theirs, data);
    double *x = doubles((size_t)(STEPS + 1) * z.nx), *c = doubles((size_t)STEPS * z.nc);
    memcpy(x, data->qpos, n.nq * sizeof *x);
    memcpy(x + n.nq, data->qvel, n.nv * sizeof *x);
    for (uint32_t k = 0; k < STEPS; k++) memcpy(c + k * z.nc, data->ctrl, n.nu * sizeof *c);
    double* first = doubles(z.nx);
    memcpy(first, x, z.nx * sizeof *x);
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = first, .controls = c, .states = x};
    must(ns_rollout(system, work, &args, &error), &error);
    for (int k = 0; k < STEPS; k++) mj_step(theirs, data);

    double worst = 0.0, moved = 0.0;
    const double* last = x + (size_t)STEPS * z.nx;
    for (uint32_t k = 0; k < n.nq; k++) {
        worst = fmax(worst, fabs(last[k] - data->qpos[k]));
        moved = fmax(moved, fabs(last[k] - first[k]));
    }
    print_message("%d steps of the humanoid against MuJoCo: %.1e, after moving by %.1g\n", STEPS,
                  worst, moved);
    assert_true(worst < 1e-9 && moved > 0.5);
    free(x), free(c), free(first);
    mj_deleteData(data);
    mj_deleteModel(theirs);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(ours);
}

// Keyframes, and the default pose, which MuJoCo calls qpos0.
static void compare_keyframes(const char* path) {
    ns_model* ours = modelfile_load(path);
    mjModel* theirs = mujoco_file(path);
    ns_model_sizes n = ns_model_get_sizes(ours);
    assert_int_equal(n.nkeyframe, theirs->nkey);
    for (uint32_t k = 0; k < n.nkeyframe; k++) {
        const ns_keyframe_def* key = ns_model_keyframe(ours, k);
        all_close(key->q, theirs->key_qpos + k * n.nq, n.nq, 1e-12);
        all_close(key->qd, theirs->key_qvel + k * n.nv, n.nv, 0.0);
        all_close(key->control, theirs->key_ctrl + k * n.nu, n.nu, 0.0);
    }
    mj_deleteModel(theirs);
    ns_model_free(ours);
}

static void keyframes_agree(void** state) {
    (void)state;
    compare_keyframes("mjcf/keyframes.xml"); // one is empty: reference positions
    compare_keyframes("mjcf/quadruped/scene.xml");
    compare_keyframes("mjcf/humanoid.xml");
}

// MuJoCo 2.2.2 has no frames: it reads the file without them.
static void frames_agree(void** state) {
    (void)state;
    ns_model* ours = modelfile_load("mjcf/frames.xml");
    mjModel* theirs = mujoco_file("mjcf/frames_expanded.xml");
    mujoco_difference worst = mujoco_compare(ours, theirs, 20);
    print_message("frames against MuJoCo: mass matrix %.1e, accelerations %.1e\n", worst.mass,
                  worst.acceleration);
    assert_true(worst.mass < SAME && worst.acceleration < SAME);
    mj_deleteModel(theirs);
    ns_model_free(ours);
}

// Masses, centres of mass and inertias of all bodies, and places of all geoms. Two orders of bodies are
// the same where each body has one joint.
//
// With MuJoCo's legacy rule for meshes, version 2.2.2 takes the volume of the box of equal inertia for the
// volume, where later ones take the sum of the pyramids: only ratios of moments are then compared.
static void compare_bodies(const char* path, bool legacy, double tolerance) {
    ns_model* ours = modelfile_load(path);
    mjModel* theirs = mujoco_file(path);
    double worst = 0.0, shape = 0.0;
    assert_int_equal(ns_model_get_sizes(ours).nlink + 1, theirs->nbody);
    for (uint32_t i = 0; i < ns_model_get_sizes(ours).nlink; i++) {
        const ns_link_def* link = ns_model_link(ours, i);
        const mjtNum *moments = theirs->body_inertia + 3 * (i + 1),
                     *com = theirs->body_ipos + 3 * (i + 1);
        const double principal[6] = {moments[0], moments[1], moments[2], 0.0, 0.0, 0.0};
        double inertia[6], difference = 0.0, size = fmax(moments[0], fmax(moments[1], moments[2]));
        nsi_inertia_rotate(theirs->body_iquat + 4 * (i + 1), principal, inertia);
        double trace = link->inertia[0] + link->inertia[1] + link->inertia[2];
        double scale = legacy ? (moments[0] + moments[1] + moments[2]) / trace : 1.0;
        difference = fabs(link->mass - theirs->body_mass[i + 1]) / theirs->body_mass[i + 1];
        if (legacy) difference = 0.0;
        for (int k = 0; k < 3; k++) difference = fmax(difference, fabs(link->com[k] - com[k]));
        for (int k = 0; k < 6; k++) {
            difference = fmax(difference, fabs(scale * link->inertia[k] - inertia[k]) / size);
        }
        if (!(difference < tolerance)) fail_msg("%s: %s by %g", path, link->name, difference);
        worst = fmax(worst, difference);
    }
    assert_int_equal(ns_model_get_sizes(ours).ngeom, theirs->ngeom);
    for (uint32_t i = 0; i < ns_model_get_sizes(ours).ngeom; i++) {
        const ns_geom_def* geom = ns_model_geom(ours, i);
        if (geom->type == NS_GEOM_MESH) continue; // MuJoCo moves its vertices
        double r[9], R[9], difference = 0.0;
        nsi_quat_to_matrix(geom->pose.quaternion, r);
        nsi_quat_to_matrix(theirs->geom_quat + 4 * i, R);
        for (int k = 0; k < 3; k++) {
            const mjtNum *size = theirs->geom_size + 3 * i, *pos = theirs->geom_pos + 3 * i;
            difference = fmax(difference, fabs(geom->size[k] - size[k]));
            difference = fmax(difference, fabs(geom->pose.position[k] - pos[k]));
        }
        // Axes up to their sign.
        for (int k = 0; k < 3 && geom->type != NS_GEOM_SPHERE; k++) {
            double dot = r[k] * R[k] + r[3 + k] * R[3 + k] + r[6 + k] * R[6 + k];
            difference = fmax(difference, 1.0 - fabs(dot));
        }
        if (!(difference < tolerance)) fail_msg("%s: %s by %g", path, geom->name, difference);
        shape = fmax(shape, difference);
    }
    print_message("%s against MuJoCo: masses %.1e, shapes %.1e\n", path, worst, shape);
    mj_deleteModel(theirs);
    ns_model_free(ours);
}

static void masses_agree(void** state) {
    (void)state;
    // MuJoCo keeps vertices in single precision.
    compare_bodies("mjcf/mesh_mass.xml", true, SAME);
    compare_bodies("mjcf/mesh_mass_exact.xml", false, SAME);
    compare_bodies("mjcf/mesh_fit.xml", false, SAME);
    compare_bodies("mjcf/compiler.xml", false, SAME);
}

// MuJoCo 2.2.2 puts these shapes elsewhere, so only sizes are compared. Ours enclose the mesh.
static void fitted_bounds_agree(void** state) {
    (void)state;
    ns_model* ours = modelfile_load("mjcf/mesh_fit_bounds.xml");
    mjModel* theirs = mujoco_file("mjcf/mesh_fit_bounds.xml");
    static const double scale[] = {1.0, 1.0, 0.5, 1.5, 1.0}; // fitscale
    for (uint32_t i = 0; i < 5; i++) {
        const ns_geom_def* geom = ns_model_geom(ours, i);
        for (int k = 0; k < 3; k++) {
            assert_true(fabs(geom->size[k] - theirs->geom_size[3 * i + (uint32_t)k]) < SAME);
        }
        // The corners of the L-shaped prism, in the frame of the box, the ball and the cylinder.
        static const double outline[6][2] = {{0, 0},         {0.5, 0},      {0.5, 0.125},
                                             {0.125, 0.125}, {0.125, 0.75}, {0, 0.75}};
        const double *q = geom->pose.quaternion, back[4] = {q[0], -q[1], -q[2], -q[3]};
        double reach[3] = {0.0}, ball = 0.0, tube = 0.0;
        for (int k = 0; k < 12 && i != 0;
             k++) { // body frames are those of the mesh, except the first
            double v[3] = {outline[k % 6][0] + 0.0625, outline[k % 6][1] - 0.25,
                           k < 6 ? 0.0 : 0.9375};
            for (int j = 0; j < 3; j++) v[j] -= geom->pose.position[j];
            nsi_quat_rotate(back, v, v);
            for (int j = 0; j < 3; j++) reach[j] = fmax(reach[j], fabs(v[j]));
            ball = fmax(ball, sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]));
            tube = fmax(tube, sqrt(v[0] * v[0] + v[1] * v[1]));
        }
        if (geom->type == NS_GEOM_SPHERE) close_relative(geom->size[0], ball, 1e-9);
        if (geom->type == NS_GEOM_CYLINDER) {
            close_relative(geom->size[0] / scale[i], tube, 1e-9);
            close_relative(geom->size[1] / scale[i], reach[2], 1e-9);
        }
        if (geom->type == NS_GEOM_ELLIPSOID) all_close(geom->size, reach, 3, 1e-9);
    }
    mj_deleteModel(theirs);
    ns_model_free(ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(included_files_agree), cmocka_unit_test(robots_agree),
        cmocka_unit_test(steps_agree),          cmocka_unit_test(keyframes_agree),
        cmocka_unit_test(frames_agree),         cmocka_unit_test(masses_agree),
        cmocka_unit_test(fitted_bounds_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
