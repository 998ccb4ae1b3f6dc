// Dynamics of random trees: power, energy and momentum, whatever the frame.

#include "dyn/dynamics_rig.h"
#include "dyn/robot.h"
#include "expr/graph.h"
#include "model/pose.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- the trees are what they should be -----------------------------------------------------

static void random_trees_have_everything(void** state) {
    (void)state;
    uint32_t joints[NS_JOINT_FLOATING + 1] = {0}, actuators[NS_ACTUATOR_SERIES_ELASTIC + 1] = {0};
    uint32_t massless = 0, welded_massless = 0, mimic = 0, springs = 0, dampers = 0, friction = 0;
    uint32_t armature = 0, limited = 0, roots = 0, oblique_sliders = 0;
    for (uint32_t n = 0; n < 100; n++) {
        random_tree tree;
        random_tree_options o = {.forces = true, .armature = true, .mimic = true};
        o.actuators = true;
        o = vary(o, n);
        random_tree_make(&tree, &o);
        assert_int_equal(tree.nlink, o.nlink);
        ns_model_free(random_tree_build(&tree, NULL));
        for (uint32_t i = 0; i < tree.nlink; i++) {
            const ns_link_def* l = &tree.link[i];
            joints[l->joint_type]++;
            massless += l->mass == 0.0 && l->joint_type != NS_JOINT_FIXED;
            welded_massless += l->mass == 0.0 && l->joint_type == NS_JOINT_FIXED;
            mimic += l->mimic != NULL;
            springs += l->stiffness > 0.0;
            dampers += l->damping > 0.0;
            friction += l->friction > 0.0;
            armature += l->armature > 0.0;
            limited += l->limited;
            roots += i > 0 && !l->parent;
            oblique_sliders += l->joint_type == NS_JOINT_PRISMATIC && l->axis[0] * l->axis[1] != 0;
        }
        for (uint32_t i = 0; i < tree.nactuator; i++) actuators[tree.actuator[i].type]++;
    }
    for (int k = 0; k <= NS_JOINT_FLOATING; k++) assert_in_range(joints[k], 10, 1000);
    for (int k = 0; k <= NS_ACTUATOR_SERIES_ELASTIC; k++) assert_in_range(actuators[k], 10, 1000);
    const uint32_t counts[] = {massless, welded_massless, mimic,   springs, dampers,
                               friction, armature,        limited, roots,   oblique_sliders};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        if (counts[k] < 5) fail_msg("kind %zu occurs only %u times", k, counts[k]);
    }
}

// ---- energy and momentum -------------------------------------------------------------------

// What flows into the joint springs.
static double spring_power(const random_tree* tree, const ns_model* model, const double* q,
                           const double* qd) {
    double sum = 0.0;
    for (uint32_t i = 0; i < tree->nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->def.stiffness == 0.0) continue;
        double at = q[l->q], rate = qd[l->v];
        if (l->mimic != NSI_NONE) {
            at = l->def.mimic_multiplier * at + l->def.mimic_offset;
            rate *= l->def.mimic_multiplier;
        }
        sum += l->def.stiffness * (at - l->def.rest) * rate;
    }
    return sum;
}

// Power of all joint forces but the springs', whose energy counts, is the rate of kinetic and
// potential energy.
static void power_of_joint_forces_is_the_rate_of_energy(void** state) {
    (void)state;
    residual r = {.name = "dE/dt = qd . tau", .tolerance = DIFFERENCES};
    ns_rng rng = ns_rng_seed(13);
    for (uint32_t n = 0; n < 60; n++) {
        random_tree tree;
        random_tree_options o = {.forces = true, .armature = true, .mimic = n % 2 == 0};
        o.actuators = true;
        o.seed = 200;
        o = vary(o, n);
        random_tree_make(&tree, &o);
        ns_model* model = random_tree_build(&tree, NULL);
        ns_model_sizes z = ns_model_get_sizes(model);
        if (z.nv > 0) {
            const char* const observe[] = {"qdd", "energy", "joint/*/tau", NULL};
            evaluator* e = evaluator_create(model, observe);
            double q[MAX_Q], qd[MAX_V], qdd[MAX_V], tau[MAX_V], power, rate;
            random_state(model, &rng, q, qd);
            randomize(&rng, e->u, z.nu, 0.5);
            randomize(&rng, e->motor, e->n.nx - z.nq - z.nv, 0.5);
            randomize(&rng, e->tau, z.nv, 2.0);
            memcpy(e->q, q, z.nq * sizeof *q);
            memcpy(e->qd, qd, z.nv * sizeof *qd);
            evaluator_run(e);
            memcpy(qdd, evaluator_get(e, "qdd/0"), z.nv * sizeof *qdd);
            // All joint forces in the order of the joints, which is that of qd.
            uint32_t k = 0;
            for (uint32_t i = 0; i < e->n.ny; i++) {
                const char* name = ns_system_observation_name(e->system, i);
                if (strncmp(name, "joint/", 6) == 0) tau[k++] = e->y[i];
            }
            assert_int_equal(k, z.nv);
            power = dot(z.nv, qd, tau) + spring_power(&tree, model, q, qd);
            double scale = 1.0 + fabs(power) + *evaluator_get(e, "energy/kinetic");
            observation_rate(e, q, qd, qd, qdd, 1e-3, "energy/total", 1, &rate);
            residual_add(&r, rate, power, scale);
            evaluator_free(e);
        }
        ns_model_free(model);
    }
    residual_check(&r);
}

// Momentum changes by gravity alone; it is the mass times the velocity of the centre of mass.
static void momentum_changes_by_outer_forces_alone(void** state) {
    (void)state;
    residual linear = {.name = "dp/dt = m g", .tolerance = DIFFERENCES};
    residual angular = {.name = "dL/dt = c x m g", .tolerance = DIFFERENCES};
    residual velocity = {.name = "p = m dc/dt", .tolerance = DIFFERENCES};
    ns_rng rng = ns_rng_seed(14);
    for (uint32_t n = 0; n < 40; n++) {
        random_tree tree;
        random_tree_options o = {.forces = true, .mimic = n % 2 == 0, .one_root = true};
        o.actuators = true;
        o.root = ROOT_FLOATING;
        o.seed = 300;
        o = vary(o, n);
        random_tree_make(&tree, &o);
        tree.link[0].damping = tree.link[0].friction = 0.0; // they would hold on to the world
        for (int i = 0; i < 3; i++) tree.world.gravity[i] = ns_rng_uniform(&rng, -10.0, 10.0);
        ns_model* model = random_tree_build(&tree, NULL);
        ns_model_sizes z = ns_model_get_sizes(model);
        const char* const observe[] = {"qdd", "momentum", "com", NULL};
        evaluator* e = evaluator_create(model, observe);
        double q[MAX_Q], qd[MAX_V], qdd[MAX_V], mass = 0.0, rate[6], com[3], weight[3], torque[3];
        random_state(model, &rng, q, qd);
        randomize(&rng, e->u, z.nu, 0.5);
        randomize(&rng, e->tau + 6, z.nv - 6, 2.0); // inner forces, nothing on the root
        memcpy(e->q, q, z.nq * sizeof *q);
        memcpy(e->qd, qd, z.nv * sizeof *qd);
        evaluator_run(e);
        memcpy(qdd, evaluator_get(e, "qdd/0"), z.nv * sizeof *qdd);
        memcpy(com, evaluator_get(e, "com/x"), sizeof com);
        double scale = 1.0 + largest(6, evaluator_get(e, "momentum/linear/x"));
        for (uint32_t i = 0; i < tree.nlink; i++) mass += tree.link[i].mass;
        for (int i = 0; i < 3; i++) weight[i] = mass * tree.world.gravity[i];
        nsi_cross(com, weight, torque);
        observation_rate(e, q, qd, qd, qdd, 1e-3, "momentum/linear/x", 6, rate);
        for (int i = 0; i < 3; i++) {
            residual_add(&linear, rate[i], weight[i], scale + largest(3, weight));
            residual_add(&angular, rate[3 + i], torque[i], scale + largest(3, weight));
        }
        observation_rate(e, q, qd, qd, NULL, 1e-3, "com/x", 3, rate);
        for (int i = 0; i < 3; i++) rate[i] *= mass;
        residual_array(&velocity, rate, evaluator_get(e, "momentum/linear/x"), 3, 1.0);
        evaluator_free(e);
        ns_model_free(model);
    }
    residual_check(&linear);
    residual_check(&angular);
    residual_check(&velocity);
}

// Largest change of energy, relative to the largest kinetic energy, over one second.
static double energy_drift(const ns_model* model, const double* x0, double dt) {
    ns_system_options options = ns_default_system_options();
    const char* const observe[] = {"energy"};
    uint32_t steps = (uint32_t)(1.0 / dt + 0.5), ny;
    options.integrator = NS_INTEGRATOR_RK4;
    options.timestep = dt;
    options.observe = observe;
    options.nobserve = 1;
    double* y = observe_rollout(model, &options, x0, steps, &ny);
    assert_int_equal(ny, 3);
    double first = 0.0, drift = 0.0, kinetic = 0.0;
    for (uint32_t k = 0; k < steps; k++) {
        const double* at = y + (size_t)k * ny; // kinetic, potential (springs included), total
        double energy = at[2];
        if (k == 0) first = energy;
        kinetic = fmax(kinetic, at[0]);
        drift = fmax(drift, fabs(energy - first));
    }
    free(y);
    return drift / kinetic;
}

// Runge-Kutta's own error of order 4 is some 1e-8 at a millisecond and 16 times less at half the
// step. The bound is half way to order 3, on a logarithmic scale.
static const double DRIFT = 1e-7, HALVED = 1.0 / 11.3;

// Drifts that are rounding do not get smaller with the step.
static const double DRIFT_ROUNDING = 1e-10;

static void energy_drifts_by_the_integrators_error_only(void** state) {
    (void)state;
    residual r = {.name = "energy drift over 1 s at 1 ms", .tolerance = DRIFT};
    residual halved = {.name = "drift at half the step / drift", .tolerance = HALVED};
    ns_rng rng = ns_rng_seed(15);
    for (uint32_t n = 0; n < 16; n++) {
        random_tree tree;
        random_tree_options o = {.springs = true, .armature = true, .mimic = n % 4 == 0};
        o.seed = 400;
        o = vary(o, n);
        o.nlink = 2 + n % 5;
        random_tree_make(&tree, &o);
        ns_model* model = random_tree_build(&tree, NULL);
        ns_model_sizes z = ns_model_get_sizes(model);
        if (z.nv > 0) {
            double x0[MAX_Q + MAX_V];
            random_state(model, &rng, x0, x0 + z.nq);
            double coarse = energy_drift(model, x0, 1e-3);
            residual_add(&r, coarse, 0.0, 1.0);
            if (coarse > DRIFT_ROUNDING) {
                residual_add(&halved, energy_drift(model, x0, 5e-4) / coarse, 0.0, 1.0);
            }
        }
        ns_model_free(model);
    }
    residual_check(&r);
    residual_check(&halved);
}

// Largest change of the six components of momentum over half a second.
static double momentum_drift(const ns_model* model, const double* x0, double dt) {
    ns_system_options options = ns_default_system_options();
    const char* const observe[] = {"momentum"};
    uint32_t steps = (uint32_t)(0.5 / dt + 0.5), ny;
    options.integrator = NS_INTEGRATOR_RK4;
    options.timestep = dt;
    options.observe = observe;
    options.nobserve = 1;
    double *y = observe_rollout(model, &options, x0, steps, &ny), drift = 0.0;
    assert_int_equal(ny, 6);
    for (uint32_t i = 6; i < 6 * steps; i++) drift = fmax(drift, fabs(y[i] - y[i % 6]));
    drift /= 1.0 + largest(6, y);
    free(y);
    return drift;
}

static void momentum_of_free_trees_is_conserved(void** state) {
    (void)state;
    residual r = {.name = "momentum drift over 0.5 s at 1 ms", .tolerance = DRIFT};
    residual halved = {.name = "drift at half the step / drift", .tolerance = HALVED};
    ns_rng rng = ns_rng_seed(16);
    for (uint32_t n = 0; n < 12; n++) {
        random_tree tree;
        random_tree_options o = {.forces = true, .one_root = true, .root = ROOT_FLOATING};
        o.seed = 500;
        o = vary(o, n);
        random_tree_make(&tree, &o);
        tree.link[0].damping = tree.link[0].friction = 0.0;
        // Limits set in with a jump, which costs the integrator its order.
        for (uint32_t i = 0; i < tree.nlink; i++) tree.link[i].limited = false;
        for (int i = 0; i < 3; i++) tree.world.gravity[i] = 0.0;
        ns_model* model = random_tree_build(&tree, NULL);
        double x0[MAX_Q + MAX_V];
        random_state(model, &rng, x0, x0 + ns_model_get_sizes(model).nq);
        double coarse = momentum_drift(model, x0, 1e-3);
        residual_add(&r, coarse, 0.0, 1.0);
        if (coarse > DRIFT_ROUNDING) {
            residual_add(&halved, momentum_drift(model, x0, 5e-4) / coarse, 0.0, 1.0);
        }
        ns_model_free(model);
    }
    residual_check(&r);
    residual_check(&halved);
}

// ---- frames --------------------------------------------------------------------------------

static void turn_vector(const double quaternion[4], double* v) {
    nsi_quat_rotate(quaternion, v, v);
}

static void a_turned_world_changes_nothing(void** state) {
    (void)state;
    residual r = {.name = "turned world: accelerations", .tolerance = SOLVED};
    residual M = {.name = "turned world: mass matrix, bias, energy", .tolerance = ROUNDING};
    ns_rng rng = ns_rng_seed(17);
    for (uint32_t n = 0; n < 40; n++) {
        random_tree tree, turned;
        random_tree_options o = {.forces = true, .mimic = n % 2 == 0, .seed = 600};
        o = vary(o, n);
        random_tree_make(&tree, &o);
        // Damping of a floating joint is along the world's axes, but the same for all: it turns
        // along. Friction is not.
        if (tree.link[0].joint_type == NS_JOINT_FLOATING) tree.link[0].friction = 0.0;
        ns_pose frame = {.position = {0.3, -0.7, 1.1}};
        random_quaternion(&rng, frame.quaternion);
        turned = tree;
        turn_vector(frame.quaternion, turned.world.gravity);
        for (uint32_t i = 0; i < tree.nlink; i++) {
            ns_link_def* l = &turned.link[i];
            if (!l->parent) l->origin = nsi_pose_compose(&frame, &l->origin);
        }
        ns_model *a = random_tree_build(&tree, NULL), *b = random_tree_build(&turned, NULL);
        ns_model_sizes z = ns_model_get_sizes(a);
        if (z.nv > 0) {
            evaluator* ea = evaluator_create(a, robot_quantities);
            evaluator* eb = evaluator_create(b, robot_quantities);
            random_state(a, &rng, ea->q, ea->qd);
            randomize(&rng, ea->tau, z.nv, 2.0);
            memcpy(eb->q, ea->q, z.nq * sizeof(double));
            memcpy(eb->qd, ea->qd, z.nv * sizeof(double));
            memcpy(eb->tau, ea->tau, z.nv * sizeof(double));
            bool floating = tree.link[0].joint_type == NS_JOINT_FLOATING;
            if (floating) {
                ns_pose pose;
                memcpy(pose.position, ea->q, sizeof pose.position);
                memcpy(pose.quaternion, ea->q + 3, sizeof pose.quaternion);
                pose = nsi_pose_compose(&frame, &pose);
                memcpy(eb->q, pose.position, sizeof pose.position);
                memcpy(eb->q + 3, pose.quaternion, sizeof pose.quaternion);
                turn_vector(frame.quaternion, eb->qd);
                turn_vector(frame.quaternion, eb->tau);
            }
            evaluator_run(ea);
            evaluator_run(eb);
            // What is along the world's axes turns.
            double want[MAX_V];
            memcpy(want, evaluator_get(ea, "qdd/0"), z.nv * sizeof *want);
            if (floating) turn_vector(frame.quaternion, want);
            residual_array(&r, evaluator_get(eb, "qdd/0"), want, z.nv, 1.0);
            memcpy(want, evaluator_get(ea, "bias/0"), z.nv * sizeof *want);
            if (floating) turn_vector(frame.quaternion, want);
            residual_array(&M, evaluator_get(eb, "bias/0"), want, z.nv, 1.0);
            residual_array(&M, evaluator_get(eb, "energy/kinetic"),
                           evaluator_get(ea, "energy/kinetic"), 1, 1.0);
            if (!floating) {
                residual_array(&M, evaluator_get(eb, "mass_matrix/0/0"),
                               evaluator_get(ea, "mass_matrix/0/0"), (size_t)z.nv * z.nv, 0.1);
            }
            evaluator_free(ea);
            evaluator_free(eb);
        }
        ns_model_free(a);
        ns_model_free(b);
    }
    residual_check(&r);
    residual_check(&M);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_have_everything),
        cmocka_unit_test(power_of_joint_forces_is_the_rate_of_energy),
        cmocka_unit_test(momentum_changes_by_outer_forces_alone),
        cmocka_unit_test(energy_drifts_by_the_integrators_error_only),
        cmocka_unit_test(momentum_of_free_trees_is_conserved),
        cmocka_unit_test(a_turned_world_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
