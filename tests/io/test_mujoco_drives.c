// Actuators of MJCF files in MuJoCo and here: forces, accelerations without constraints, and
// activations along trajectories.

#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/residual.h"

#include <math.h>
#include <mujoco/mujoco.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Sums in another order, and a mass matrix between forces and accelerations.
static const double SAME = 1e-9;

// ---- both programs ---------------------------------------------------------------------------

static void complain(const char* message) {
    fail_msg("MuJoCo: %s", message);
}

// A model from text, by way of MuJoCo's virtual file system.
static mjModel* mujoco_load(const char* text) {
    static const char file[] = "model.xml";
    char error[1000] = "";
    int size = (int)strlen(text);
    mjVFS* files = malloc(sizeof *files); // too large for the stack
    assert_non_null(files);
    mju_user_error = complain;
    mj_defaultVFS(files);
    assert_int_equal(mj_makeEmptyFileVFS(files, file, size), 0);
    memcpy(files->filedata[mj_findFileVFS(files, file)], text, (size_t)size);
    mjModel* model = mj_loadXML(file, files, error, sizeof error);
    mj_deleteVFS(files);
    free(files);
    if (!model) fail_msg("MuJoCo: %s\n%s", error, text);
    return model;
}

typedef struct both {
    ns_model* ours;
    ns_system* system;
    ns_workspace* work;
    mjModel* theirs;
    mjData* data;
    ns_model_sizes n;
    ns_system_sizes z;
    double *x, *c, *y; // one state, its controls, the observations
} both;

static both both_load(const char* text, const char* const* observe, int integrator) {
    both b = {.ours = modelfile_parse(text), .theirs = mujoco_load(text)};
    ns_error error;
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    while (observe[options.nobserve]) options.nobserve++;
    options.integrator = integrator;
    options.contact = NS_CONTACT_NONE;
    must(ns_system_create(b.ours, &options, &b.system, &error), &error);
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    must(ns_workspace_create(b.system, &size, &b.work, &error), &error);
    b.data = mj_makeData(b.theirs);
    b.n = ns_model_get_sizes(b.ours);
    b.z = ns_system_get_sizes(b.system);
    assert_int_equal(b.n.nq, b.theirs->nq);
    assert_int_equal(b.n.nv, b.theirs->nv);
    assert_int_equal(b.n.nu, b.theirs->nu);
    assert_int_equal(b.z.nx, b.theirs->nq + b.theirs->nv + b.theirs->na);
    b.x = calloc(2 * b.z.nx, sizeof *b.x);
    b.c = calloc(b.z.nc, sizeof *b.c);
    b.y = calloc(b.z.ny + 1, sizeof *b.y);
    assert_true(b.x && b.c && b.y);
    return b;
}

static void both_free(both* b) {
    free(b->x), free(b->c), free(b->y);
    ns_workspace_free(b->work);
    ns_system_free(b->system);
    ns_model_free(b->ours);
    mj_deleteData(b->data);
    mj_deleteModel(b->theirs);
}

// A random state and controls, which reach beyond the ranges of controls.
static void both_random(both* b, ns_rng* rng) {
    const mjModel* m = b->theirs;
    for (int j = 0; j < m->njnt; j++) {
        mjtNum* q = b->data->qpos + m->jnt_qposadr[j];
        int type = m->jnt_type[j], turns = type == mjJNT_FREE ? 3 : 0;
        for (int k = 0; k < (type < mjJNT_SLIDE ? turns + 4 : 1); k++) q[k] = ns_rng_normal(rng);
        if (type < mjJNT_SLIDE) mju_normalize4(q + turns);
    }
    for (int k = 0; k < m->nv; k++) b->data->qvel[k] = ns_rng_normal(rng);
    for (int k = 0; k < m->na; k++) b->data->act[k] = ns_rng_normal(rng);
    for (int k = 0; k < m->nu; k++) b->data->ctrl[k] = 2.0 * ns_rng_normal(rng);
}

// Take the state and controls from MuJoCo.
static void both_copy(both* b) {
    memcpy(b->x, b->data->qpos, b->n.nq * sizeof *b->x);
    memcpy(b->x + b->n.nq, b->data->qvel, b->n.nv * sizeof *b->x);
    for (int k = 0; k < b->theirs->na; k++) b->x[b->n.nq + b->n.nv + (uint32_t)k] = b->data->act[k];
    memcpy(b->c, b->data->ctrl, b->n.nu * sizeof *b->c);
}

// One step of ours: b->y, and the next state behind b->x.
static void both_step(both* b) {
    double* states = calloc(2 * b->z.nx, sizeof *states);
    ns_error error;
    ns_rollout_args args = {.batch = 1,
                            .steps = 1,
                            .x0 = b->x,
                            .controls = b->c,
                            .states = states,
                            .observations = b->y};
    must(ns_rollout(b->system, b->work, &args, &error), &error);
    memcpy(b->x, states, 2 * b->z.nx * sizeof *states);
    free(states);
}

static double observed(const both* b, const char* format, ...) NSI_PRINTF(2, 3);
static double observed(const both* b, const char* format, ...) {
    char name[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < b->z.ny; i++) {
        if (strcmp(ns_system_observation_name(b->system, i), name) == 0) return b->y[i];
    }
    fail_msg("\"%s\" is not observed", name);
    return 0.0;
}

static double largest_of(const mjtNum* x, int count) {
    double largest = 0.0;
    for (int k = 0; k < count; k++) largest = fmax(largest, fabs(x[k]));
    return largest;
}

// ---- forces ----------------------------------------------------------------------------------

// A tree with joints of all types. Hinges and slides have no forces of their own, so that the total
// along a joint is that of its actuators.
#define CHAIN(options)                                                                             \
    "<mujoco><compiler angle='radian' autolimits='true'/><option timestep='0.003' " options        \
    "><flag contact='disable'/></option><worldbody>"                                               \
    "<body name='base' pos='0 0 1'><joint name='h1' axis='0 1 0.2'/>"                              \
    "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"                        \
    "<body name='arm' pos='0.4 0 0'><joint name='s1' type='slide' axis='0.3 0 1'/>"                \
    "<inertial pos='0 0.1 0.1' mass='0.7' diaginertia='0.012 0.01 0.015'/>"                        \
    "<body name='hand' pos='0 0 0.3'>"

#define TREE                                                                                       \
    CHAIN("")                                                                                      \
    "<joint name='b1' type='ball'/>"                                                               \
    "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.006 0.008 0.007'/>"                   \
    "</body></body></body>"                                                                        \
    "<body name='drone' pos='2 0 1'><freejoint name='f1'/>"                                        \
    "<inertial pos='0.01 0 0.02' mass='0.8' diaginertia='0.011 0.012 0.02'/></body></worldbody>"

#define DRIVES                                                                                     \
    "<actuator>"                                                                                   \
    "<motor name='m' joint='h1' gear='1.7' ctrlrange='-1 0.8'/>"                                   \
    "<motor name='m2' joint='h1' gear='-0.4' forcerange='-0.3 0.5'/>"                              \
    "<position name='p' joint='h1' kp='3' gear='0.6' ctrlrange='-0.5 0.5'/>"                       \
    "<velocity name='v' joint='s1' kv='1.3'/>"                                                     \
    "<damper name='d' joint='s1' kv='0.9' ctrlrange='0 1'/>"                                       \
    "<general name='g' joint='s1' gear='2' gaintype='affine' gainprm='1.5 0.3 -0.2' "              \
    "biastype='affine' biasprm='0.7 -1.1 -0.4' forcerange='-3 2'/>"                                \
    "<general name='k' joint='h1' gainprm='4' gear='2'/>"                                          \
    "<motor name='t' joint='b1' gear='0.5 -0.3 0.8'/>"                                             \
    "<position name='tp' jointinparent='b1' kp='2.1' gear='0.2 0.9 -0.4'/>"                        \
    "<general name='tv' joint='b1' gear='0.7 0.1 0.3' biastype='affine' biasprm='0 0 -0.6'/>"      \
    "<motor name='w' joint='f1' gear='0.1 0.2 1 0.02 -0.01 0.05'/>"                                \
    "<motor name='wp' jointinparent='f1' gear='0.3 -0.2 0.5 0.02 0.04 0.01'/>"                     \
    "<intvelocity name='i' joint='h1' kp='2' actrange='-1.2 1.1'/>"                                \
    "<general name='f' joint='s1' dyntype='filter' dynprm='0.05' gainprm='2' biastype='affine' "   \
    "biasprm='0.1 -0.5 0'/>"                                                                       \
    "<general name='fb' joint='b1' dyntype='integrator' gear='0.3 0.3 0.1' actrange='-0.9 0.9'/>"  \
    "</actuator></mujoco>"

static void forces_and_accelerations_agree(void** state) {
    (void)state;
    static const char* const observe[] = {"actuator/*/force", "joint/*/tau", "qdd", NULL};
    residual force = {.name = "force of each actuator", .tolerance = 1e-12};
    residual joint = {.name = "qfrc_actuator", .tolerance = SAME};
    residual motion = {.name = "qacc_smooth", .tolerance = SAME};
    both b = both_load(TREE DRIVES, observe, NS_INTEGRATOR_EXPLICIT);
    static const char* const joints[] = {"h1", "s1", "b1", "f1"};
    ns_rng rng = ns_rng_seed(3);
    for (int n = 0; n < 50; n++) {
        both_random(&b, &rng);
        mj_forward(b.theirs, b.data);
        both_copy(&b);
        both_step(&b);
        double size = largest_of(b.data->qfrc_actuator, b.theirs->nv);
        double most = largest_of(b.data->qacc_smooth, b.theirs->nv);
        for (uint32_t k = 0; k < b.n.nu; k++) {
            const char* name = ns_model_actuator(b.ours, k)->name;
            double want = b.data->actuator_force[k];
            residual_add(&force, observed(&b, "actuator/%s/force", name), want, fabs(want) + 1.0);
        }
        for (uint32_t k = 0; k < b.n.nv; k++) {
            uint32_t of = k < 2 ? k : k < 5 ? 2 : 3, first = of < 2 ? of : of == 2 ? 2 : 5;
            double got = of < 2 ? observed(&b, "joint/%s/tau", joints[of])
                                : observed(&b, "joint/%s/tau/%u", joints[of], k - first);
            residual_add(&joint, got, b.data->qfrc_actuator[k], size);
            residual_add(&motion, observed(&b, "qdd/%u", k), b.data->qacc_smooth[k], most);
        }
    }
    residual_check(&force);
    residual_check(&joint);
    residual_check(&motion);
    both_free(&b);
}

// ---- tendons and sites -----------------------------------------------------------------------

// Fixed and spatial tendons with springs and dampers, driven; thrusters at sites. Sites and their reference
// sites have no joint in common: MuJoCo before version 3 lets such joints feel the force.
#define TENDONS                                                                                    \
    "<mujoco><compiler angle='radian' autolimits='true'/><option timestep='0.003'>"                \
    "<flag contact='disable'/></option><worldbody><site name='w1' pos='0.3 -0.2 0.4'/>"            \
    "<body name='base' pos='0 0 1'><joint name='h1' axis='0 1 0.2' springref='0.2'/>"              \
    "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"                        \
    "<site name='t1' pos='0.1 0.05 0.02' euler='0.3 0.2 0.1'/>"                                    \
    "<body name='arm' pos='0.4 0 0'><joint name='s1' type='slide' axis='0.3 0 1'/>"                \
    "<joint name='h2' axis='1 0 0' springref='-0.3'/>"                                             \
    "<inertial pos='0 0.1 0.1' mass='0.7' diaginertia='0.012 0.01 0.015'/>"                        \
    "<site name='t2' pos='0.05 0.1 0.1'/>"                                                         \
    "<body name='hand' pos='0 0 0.3'><joint name='b1' type='ball'/>"                               \
    "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.006 0.008 0.007'/>"                   \
    "<site name='t3' pos='0.03 -0.02 0.15' quat='0.8 0.1 -0.5 0.3'/></body></body></body>"         \
    "<body name='drone' pos='2 0 1'><freejoint/>"                                                  \
    "<inertial pos='0.01 0 0.02' mass='0.8' diaginertia='0.011 0.012 0.02'/>"                      \
    "<site name='t4' pos='0.1 0.2 0.3' quat='0.1 0.9 0.3 0.4'/></body></worldbody><tendon>"        \
    "<fixed name='f' stiffness='3' damping='0.4'><joint joint='h1' coef='0.7'/>"                   \
    "<joint joint='s1' coef='-1.3'/></fixed>"                                                      \
    "<fixed name='g' stiffness='2' springlength='0.3'><joint joint='h2' coef='2'/></fixed>"        \
    "<spatial name='s' stiffness='5' damping='0.6'><site site='w1'/><site site='t1'/>"             \
    "<site site='t3'/></spatial>"                                                                  \
    "<spatial name='p' stiffness='4' damping='0.2' springlength='0.5'><site site='w1'/>"           \
    "<site site='t2'/><pulley divisor='2'/><site site='t2'/><site site='t3'/>"                     \
    "<pulley divisor='3'/><site site='t1'/><site site='t4'/></spatial></tendon>"                   \
    "<actuator><motor name='a' tendon='f' gear='2'/>"                                              \
    "<position name='b' tendon='p' kp='3' gear='1.5'/><velocity name='c' tendon='s' kv='0.7'/>"    \
    "<motor name='d' site='t4' gear='0.1 0.2 1 0.3 -0.2 0.1'/>"                                    \
    "<general name='e' site='t3' gear='0.4 -0.2 0.3 0.02 0.03 -0.01' biastype='affine' "           \
    "biasprm='0.1 0 -0.3'/>"                                                                       \
    "<motor name='r' site='t3' refsite='t4' gear='0.4 -0.2 0.3 0.02 0.03 -0.01'/>"                 \
    "<position name='q' site='t4' refsite='t3' kp='2' gear='0.5 0.1 -0.3 0 0 0'/>"                 \
    "</actuator></mujoco>"

// How often the tendons of MuJoCo's model wrap: each time adds two points to the path.
static uint32_t count_wraps(const both* b) {
    uint32_t count = 0;
    for (int k = 0; k < b->data->ten_wrapadr[b->theirs->ntendon - 1] +
                            b->data->ten_wrapnum[b->theirs->ntendon - 1];
         k++) {
        count += b->data->wrap_obj[k] >= 0;
    }
    return count / 2;
}

// Lengths and velocities of tendons, forces of actuators, and accelerations in random states. Returns how
// often the tendons wrapped.
static uint32_t compare_tendons(const char* text, double tolerance, int states) {
    static const char* const observe[] = {"actuator/*/force", "tendon", "qdd", NULL};
    residual length = {.name = "lengths of tendons", .tolerance = tolerance};
    residual rate = {.name = "velocities of tendons", .tolerance = tolerance};
    residual force = {.name = "forces of actuators", .tolerance = tolerance};
    residual motion = {.name = "qacc_smooth", .tolerance = fmax(SAME, tolerance)};
    both b = both_load(text, observe, NS_INTEGRATOR_EXPLICIT);
    assert_int_equal(ns_model_get_sizes(b.ours).nignored, 0);
    uint32_t wraps = 0;
    ns_rng rng = ns_rng_seed(4);
    for (int n = 0; n < states; n++) {
        both_random(&b, &rng);
        mj_forward(b.theirs, b.data);
        both_copy(&b);
        both_step(&b);
        wraps += count_wraps(&b);
        double most = largest_of(b.data->qacc_smooth, b.theirs->nv);
        for (uint32_t k = 0; k < b.n.ntendon; k++) {
            const char* name = ns_model_tendon(b.ours, k)->name;
            residual_add(&length, observed(&b, "tendon/%s/length", name), b.data->ten_length[k],
                         1.0);
            double want = b.data->ten_velocity[k];
            residual_add(&rate, observed(&b, "tendon/%s/velocity", name), want, fabs(want) + 1.0);
        }
        for (uint32_t k = 0; k < b.n.nu; k++) {
            const char* name = ns_model_actuator(b.ours, k)->name;
            double want = b.data->actuator_force[k];
            residual_add(&force, observed(&b, "actuator/%s/force", name), want, fabs(want) + 1.0);
        }
        for (uint32_t k = 0; k < b.n.nv; k++) {
            residual_add(&motion, observed(&b, "qdd/%u", k), b.data->qacc_smooth[k], most);
        }
    }
    residual_check(&length);
    residual_check(&rate);
    residual_check(&force);
    residual_check(&motion);
    both_free(&b);
    return wraps;
}

static void tendons_and_sites_agree(void** state) {
    (void)state;
    assert_int_equal(compare_tendons(TENDONS, 1e-12, 50), 0);
}

// Tendons around a ball and a cylinder of the arm, and a cylinder of the world: to the nearer side, on the side
// of a site, and between two pulleys.
#define WRAPPED(tendons)                                                                           \
    "<mujoco><compiler angle='radian' autolimits='true'/><option timestep='0.003'>"                \
    "<flag contact='disable'/></option><worldbody><site name='w1' pos='-0.3 0.02 1.1'/>"           \
    "<site name='w2' pos='0.4 0.3 0.8'/><geom name='post' type='cylinder' size='0.08 0.4' "        \
    "pos='0.3 0.1 0.9' euler='0.3 0.4 0.1'/>"                                                      \
    "<body name='base' pos='0 0 1'><joint name='h1' axis='0 1 0.2' springref='0.2'/>"              \
    "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"                        \
    "<geom name='ball' size='0.1' pos='0.02 0.01 0.03'/><site name='t1' pos='0.25 0.05 0.12'/>"    \
    "<site name='b_side' pos='0.02 0.01 0.4'/><site name='b_in' pos='0.03 0.02 0.04'/>"            \
    "<body name='arm' pos='0.4 0 0'><joint name='h2' axis='0 1 0' springref='-0.3'/>"              \
    "<joint name='h3' axis='0 0 1'/>"                                                              \
    "<inertial pos='0 0.1 0.1' mass='0.7' diaginertia='0.012 0.01 0.015'/>"                        \
    "<geom name='pin' type='cylinder' size='0.06 0.1' euler='1.5 0.1 0.2' pos='0 0.01 0'/>"        \
    "<site name='t2' pos='0.25 0.1 0.1'/><site name='c_side' pos='0.05 0 0.3'/>"                   \
    "<site name='c_in' pos='0.01 0.02 0.01'/></body></body></worldbody>"                           \
    "<tendon>" tendons "</tendon><actuator><motor name='a' tendon='a' gear='2'/>"                  \
    "<position name='p' tendon='a' kp='3'/></actuator></mujoco>"

static void wrapped_tendons_agree(void** state) {
    (void)state;
    uint32_t wraps = compare_tendons(
        WRAPPED("<spatial name='a' stiffness='5' damping='0.6'><site site='w1'/><geom geom='ball'/>"
                "<site site='t1'/><geom geom='pin'/><site site='t2'/></spatial>"
                "<spatial name='b' stiffness='30' damping='0.2'><site site='w1'/>"
                "<geom geom='ball' sidesite='b_side'/><site site='t1'/>"
                "<geom geom='pin' sidesite='c_side'/><site site='t2'/></spatial>"
                "<spatial name='c' stiffness='9' springlength='0.5'><site site='t1'/>"
                "<geom geom='post' sidesite='c_side'/><site site='w2'/><pulley divisor='3'/>"
                "<site site='t1'/><geom geom='post'/><site site='w2'/><site site='t2'/>"
                "</spatial>"),
        1e-9, 200);
    assert_in_range(wraps, 200, 1200); // of 1200
}

// Tendons that run inside of a ring, which holds them: MuJoCo finds the place to 1e-6, of which lengths
// depend on the square.
static void tendons_in_rings_agree(void** state) {
    (void)state;
    uint32_t wraps =
        compare_tendons(WRAPPED("<spatial name='a' stiffness='5' damping='0.6'><site site='w1'/>"
                                "<geom geom='ball' sidesite='b_in'/><site site='t1'/>"
                                "<geom geom='pin' sidesite='c_in'/><site site='t2'/></spatial>"),
                        1e-5, 200);
    assert_in_range(wraps, 50, 350); // of 400
}

// Muscles over all pieces of their curves, on joints and tendons; peak forces that are given, and those that
// follow from what the muscle accelerates, at coordinates that are not zero. Cylinders.
#define MUSCLES                                                                                    \
    "<mujoco><compiler angle='radian' autolimits='true'/><option timestep='0.003'>"                \
    "<flag contact='disable'/></option><default><general ctrlrange='0 1'/></default><worldbody>"   \
    "<site name='w' pos='0.3 -0.2 0.4'/><body pos='0 0 1'><joint name='h1' axis='0 1 0.2' "        \
    "ref='0.4'/><inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"             \
    "<site name='t1' pos='0.1 0.05 0.02'/><body pos='0.4 0 0'>"                                    \
    "<joint name='s1' type='slide' axis='0.3 0 1'/><joint name='h2' axis='1 0 0' ref='-0.3'/>"     \
    "<inertial pos='0 0.1 0.1' mass='0.7' diaginertia='0.012 0.01 0.015'/>"                        \
    "<site name='t2' pos='0.05 0.1 0.1'/><body pos='0 0 0.3'><joint name='b1' type='ball'/>"       \
    "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.006 0.008 0.007'/></body>"            \
    "</body></body></worldbody><tendon><spatial name='s'><site site='w'/><site site='t1'/>"        \
    "<site site='t2'/></spatial></tendon><actuator>"                                               \
    "<muscle name='a' joint='h1' lengthrange='-3.2 2.4' range='0.6 1.5' vmax='0.1' force='30'/>"   \
    "<muscle name='b' joint='h2' gear='-2' lengthrange='-6.4 4.8' range='0.6 1.5' vmax='0.2' "     \
    "lmin='0.4' lmax='1.5' fpmax='0.8' fvmax='1.6' scale='5' timeconst='0.02 0.07'/>"              \
    "<muscle name='c' tendon='s' lengthrange='0.1 3' gear='0.7'/>"                                 \
    "<general name='d' joint='s1' gaintype='muscle' lengthrange='-3 3' dyntype='muscle' "          \
    "gainprm='0.6 1.5 20 1 0.4 1.7 0.5 0.9 1.3' dynprm='0.03 0.05'/>"                              \
    "<cylinder name='e' joint='h1' timeconst='0.1' area='0.3' bias='0.2 -0.1 -0.3'/>"              \
    "<cylinder name='f' joint='h2' diameter='0.5'/></actuator></mujoco>"

static void muscles_agree(void** state) {
    (void)state;
    compare_tendons(MUSCLES, 1e-11, 300);
}

// ---- medium ----------------------------------------------------------------------------------

// Boxes that are not along the axes of their bodies, in wind.
static void drag_of_the_medium_agrees(void** state) {
    (void)state;
    static const char* const observe[] = {"qdd", NULL};
    residual motion = {.name = "qacc_smooth in a medium", .tolerance = SAME};
    both b = both_load(
        "<mujoco><option density='900' viscosity='0.7' wind='1 -2 0.5'><flag contact='disable'/>"
        "</option><worldbody><body name='fish'><freejoint/><inertial pos='0.1 0.02 -0.05' "
        "quat='0.8 0.3 -0.1 0.5' mass='1.2' diaginertia='0.03 0.02 0.045'/>"
        "<body pos='0.4 0 0'><joint axis='0 0 1'/><inertial pos='0.1 0 0' mass='0.3' "
        "diaginertia='0.001 0.003 0.0035'/></body>"
        "<body pos='-0.4 0 0' euler='10 20 30'><inertial pos='0.1 0 0' mass='0.2' "
        "diaginertia='0.001 0.003 0.0035'/></body></body></worldbody></mujoco>",
        observe, NS_INTEGRATOR_EXPLICIT);
    ns_rng rng = ns_rng_seed(6);
    for (int n = 0; n < 50; n++) {
        both_random(&b, &rng);
        mj_forward(b.theirs, b.data);
        both_copy(&b);
        both_step(&b);
        double most = largest_of(b.data->qacc_smooth, b.theirs->nv);
        for (uint32_t k = 0; k < b.n.nv; k++) {
            residual_add(&motion, observed(&b, "qdd/%u", k), b.data->qacc_smooth[k], most);
        }
    }
    residual_check(&motion);
    both_free(&b);
}

// ---- sensors ---------------------------------------------------------------------------------

#define FRAMES(of)                                                                                 \
    "<framepos " of "/><framelinvel " of "/><frameangvel " of "/><framelinacc " of                 \
    "/><frameangacc " of "/>"
#define ORIENTATIONS(of)                                                                           \
    "<framequat " of "/><framexaxis " of "/><frameyaxis " of "/><framezaxis " of "/>"
#define RELATIVE(of) "<framepos " of "/><framelinvel " of "/><frameangvel " of "/>" ORIENTATIONS(of)
#define SENSORS                                                                                    \
    "<sensor><jointpos joint='h1'/><jointvel joint='s1'/><jointvel joint='h1' cutoff='0.2'/>"      \
    "<ballquat joint='b1'/><ballangvel joint='b1'/><actuatorpos actuator='b'/>"                    \
    "<actuatorvel actuator='c'/><actuatorfrc actuator='b'/><tendonpos tendon='s'/>"                \
    "<tendonvel tendon='p'/>" FRAMES("objtype='site' objname='t3'") ORIENTATIONS(                  \
        "objtype='site' objname='t3'") FRAMES("objtype='body' objname='hand'")                     \
        FRAMES("objtype='xbody' objname='drone'") ORIENTATIONS("objtype='xbody' objname='hand'")   \
            RELATIVE("objtype='site' objname='t3' reftype='site' refname='t4'")                    \
                RELATIVE("objtype='xbody' objname='drone' reftype='xbody' refname='hand'")         \
                    RELATIVE("objtype='site' objname='w1' reftype='site' refname='t2'") FRAMES(    \
                        "objtype='site' objname='w1'") "<gyro site='t4'/><velocimeter "            \
                                                       "site='t3'/><accelerometer site='t3'/>"     \
                                                       "<accelerometer site='t4'/><subtreecom "    \
                                                       "body='arm'/><subtreecom body='world'/>"    \
                                                       "<subtreelinvel body='base'/></sensor>"

// Orientations up to the sign of the quaternion. There are no constraints, so that the acceleration of
// MuJoCo's sensors is the one without them.
static void sensors_agree(void** state) {
    (void)state;
    static const char* const observe[] = {"sensor", NULL};
    static const char* const vector[3] = {"x", "y", "z"};
    static const char* const quaternion[4] = {"qw", "qx", "qy", "qz"};
    residual readings = {.name = "sensordata", .tolerance = SAME};
    char* text = calloc(1, 20000);
    assert_non_null(text);
    const char* end = strstr(TENDONS, "</mujoco>");
    snprintf(text, 20000, "%.*s%s</mujoco>", (int)(strlen(TENDONS) - strlen(end)), TENDONS,
             SENSORS);
    both b = both_load(text, observe, NS_INTEGRATOR_EXPLICIT);
    free(text);
    assert_int_equal(b.n.nsensor, b.theirs->nsensor);
    ns_rng rng = ns_rng_seed(7);
    for (int n = 0; n < 30; n++) {
        both_random(&b, &rng);
        mj_forward(b.theirs, b.data);
        both_copy(&b);
        both_step(&b);
        for (uint32_t k = 0; k < b.n.nsensor; k++) {
            const char* name = ns_model_sensor(b.ours, k)->name;
            const mjtNum* want = b.data->sensordata + b.theirs->sensor_adr[k];
            uint32_t size = (uint32_t)b.theirs->sensor_dim[k];
            double got[4], sign = 0.0, largest = 1.0;
            for (uint32_t i = 0; i < size; i++) {
                got[i] = size == 1 ? observed(&b, "sensor/%s", name)
                                   : observed(&b, "sensor/%s/%s", name,
                                              size == 4 ? quaternion[i] : vector[i]);
                sign += got[i] * want[i];
                largest = fmax(largest, fabs(want[i]));
            }
            for (uint32_t i = 0; i < size; i++) {
                double flipped = size == 4 && sign < 0.0 ? -got[i] : got[i];
                residual_add(&readings, flipped, want[i], largest);
            }
        }
    }
    residual_check(&readings);
    both_free(&b);
}

// ---- trajectories ----------------------------------------------------------------------------

// Controls change from step to step. MuJoCo's Euler takes joint damping at the end of the step, as our
// `implicit` does; there is none here, nor a force of an actuator that depends on the velocity.
static void activations_agree_along_trajectories(void** state) {
    (void)state;
    static const char* const observe[] = {"qdd", NULL};
    static const struct {
        const char *option, *name;
        ns_integrator ours;
    } cases[] = {{"", "Euler", NS_INTEGRATOR_IMPLICIT}, {"RK4", "RK4", NS_INTEGRATOR_RK4}};
    // MuJoCo turns quaternions otherwise within a step of Runge-Kutta: hinges and slides only.
    for (int n = 0; n < 2; n++) {
        residual activations = {.name = "activations", .tolerance = 1e-12};
        residual states = {.name = cases[n].name, .tolerance = 1e-10};
        const char* text = n == 0 ? CHAIN("") : CHAIN("integrator='RK4'");
        char whole[8000];
        snprintf(whole, sizeof whole,
                 "%s<joint name='h2' axis='1 0 0'/><inertial pos='0.02 0.03 0.1' mass='0.5' "
                 "diaginertia='0.006 0.008 0.007'/></body></body></body></worldbody>"
                 "<actuator><motor joint='h1' gear='2'/><motor joint='h2' gear='0.1'/>"
                 "<intvelocity joint='h1' kp='2' actrange='-0.3 0.4'/>"
                 "<general joint='s1' dyntype='filter' dynprm='0.05' gainprm='2'/>"
                 "<general joint='s1' dyntype='integrator' gainprm='0.5' biastype='affine' "
                 "biasprm='0 -4 0'/><muscle joint='h1' lengthrange='-9 9' force='0.3' vmax='1e12'/>"
                 "<cylinder joint='h2' timeconst='0.03' area='0.02'/></actuator></mujoco>",
                 text);
        both b = both_load(whole, observe, (int)cases[n].ours);
        ns_rng rng = ns_rng_seed(5);
        uint32_t nv = b.n.nv, clamped = 0;
        both_copy(&b);
        for (int step = 0; step < 300; step++) {
            for (uint32_t k = 0; k < b.n.nu; k++) b.data->ctrl[k] = ns_rng_normal(&rng);
            if (step % 100 < 50) b.data->ctrl[2] = 3.0; // to the limit of the activation
            memcpy(b.c, b.data->ctrl, b.n.nu * sizeof *b.c);
            both_step(&b);
            memcpy(b.x, b.x + b.z.nx, b.z.nx * sizeof *b.x);
            mj_step(b.theirs, b.data);
            for (int k = 0; k < b.theirs->na; k++) {
                double want = b.data->act[k];
                residual_add(&activations, b.x[b.n.nq + nv + (uint32_t)k], want, 1.0);
            }
            clamped += b.data->act[0] == 0.4;
            for (uint32_t k = 0; k < nv; k++) {
                residual_add(&states, b.x[b.n.nq + k], b.data->qvel[k], 10.0);
            }
            for (uint32_t k = 0; k < b.n.nq; k++) {
                residual_add(&states, b.x[k], b.data->qpos[k], 10.0);
            }
        }
        assert_in_range(clamped, 10, 290);
        residual_check(&activations);
        residual_check(&states);
        both_free(&b);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forces_and_accelerations_agree),
        cmocka_unit_test(tendons_and_sites_agree),
        cmocka_unit_test(wrapped_tendons_agree),
        cmocka_unit_test(tendons_in_rings_agree),
        cmocka_unit_test(muscles_agree),
        cmocka_unit_test(sensors_agree),
        cmocka_unit_test(drag_of_the_medium_agrees),
        cmocka_unit_test(activations_agree_along_trajectories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
