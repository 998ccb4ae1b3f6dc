// Dynamics on random trees: identities that hold for any robot.

#include "dyn/robot.h"
#include "dyn/solve.h"
#include "expr/graph.h"
#include "model/pose.h"
#include "sim/system.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Sums over a tree of a dozen links are some hundred roundings of 1.1e-16 each.
static const double ROUNDING = 1e-13;

// Solving with a mass matrix multiplies that by its condition number, up to some 1e4 here.
static const double SOLVED = 1e-11;

// Central differences of sixth order with steps of 1e-3 to 1e-2: 1e-16 / 1e-3 of rounding, times
// values of order 1 to 100, and about as much truncation.
static const double DIFFERENCES = 1e-10;

enum { MAX_V = 64, MAX_Q = 80 };

static const random_tree_options plain_options = {.springs = false};

// A tree for the n-th case: 1 to 12 links.
static random_tree_options vary(random_tree_options o, uint32_t n) {
    o.seed += 1000 + n;
    o.nlink = 1 + n % 12;
    return o;
}

// ---- numbers -------------------------------------------------------------------------------

// A = L L' in place; false when A is not positive definite.
static bool cholesky(uint32_t n, double* A) {
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j; i < n; i++) {
            double sum = A[i * n + j];
            for (uint32_t k = 0; k < j; k++) sum -= A[i * n + k] * A[j * n + k];
            if (i == j && !(sum > 0.0)) return false;
            A[i * n + j] = i == j ? sqrt(sum) : sum / A[j * n + j];
        }
    }
    return true;
}

static void cholesky_solve(uint32_t n, const double* L, const double* b, double* x) {
    for (uint32_t i = 0; i < n; i++) {
        x[i] = b[i];
        for (uint32_t k = 0; k < i; k++) x[i] -= L[i * n + k] * x[k];
        x[i] /= L[i * n + i];
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) x[i] -= L[k * n + i] * x[k];
        x[i] /= L[i * n + i];
    }
}

static void multiply(uint32_t rows, uint32_t columns, const double* A, const double* x,
                     double* out) {
    for (uint32_t i = 0; i < rows; i++) {
        out[i] = 0.0;
        for (uint32_t k = 0; k < columns; k++) out[i] += A[i * columns + k] * x[k];
    }
}

static double dot(uint32_t n, const double* a, const double* b) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static double largest(uint32_t n, const double* a) {
    double size = 0.0;
    for (uint32_t i = 0; i < n; i++) size = fmax(size, fabs(a[i]));
    return size;
}

static void randomize(ns_rng* rng, double* x, uint32_t n, double size) {
    for (uint32_t i = 0; i < n; i++) x[i] = ns_rng_uniform(rng, -size, size);
}

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

// ---- the algorithms against each other -----------------------------------------------------

// Inverse dynamics of a given acceleration, forward dynamics of that, mass matrix, bias, kinetic
// energy, traced from the algorithms themselves.
static ns_graph* trace_algorithms(const ns_model* model) {
    ns_model_sizes n = ns_model_get_sizes(model);
    ns_expr q[MAX_Q], qd[MAX_V], a[MAX_V], tau[MAX_V], qdd[MAX_V], bias[MAX_V];
    ns_expr* param = malloc(n.nparam * sizeof *param);
    ns_expr* M = malloc(((size_t)n.nv * n.nv + 1) * sizeof *M);
    ns_graph* g = NULL;
    char name[32];
    assert_true(n.nq <= MAX_Q && n.nv <= MAX_V && param && M);
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    for (uint32_t k = 0; k < n.nq; k++) {
        snprintf(name, sizeof name, "q%u", k);
        q[k] = ns_input(name);
    }
    for (uint32_t k = 0; k < n.nv; k++) {
        snprintf(name, sizeof name, "qd%u", k);
        qd[k] = ns_input(name);
    }
    for (uint32_t k = 0; k < n.nv; k++) {
        snprintf(name, sizeof name, "a%u", k);
        a[k] = ns_input(name);
    }
    for (uint32_t k = 0; k < n.nparam; k++) param[k] = ns_const(ns_model_param(model, k)->value);

    nsi_robot robot;
    assert_true(nsi_robot_init(&robot, model, param, q, qd));
    nsi_rnea(&robot, a, tau);
    nsi_forward_dynamics(&robot, tau, NULL, qdd);
    nsi_crba(&robot, M);
    nsi_rnea(&robot, NULL, bias);
    const struct {
        const char* name;
        const ns_expr* x;
        uint32_t count;
    } results[] = {
        {"tau", tau, n.nv}, {"qdd", qdd, n.nv}, {"bias", bias, n.nv}, {"M", M, n.nv * n.nv}};
    for (int r = 0; r < 4; r++) {
        for (uint32_t k = 0; k < results[r].count; k++) {
            snprintf(name, sizeof name, "%s%u", results[r].name, k);
            ns_output(name, results[r].x[k]);
        }
    }
    ns_output("kinetic", nsi_kinetic_energy(&robot));
    assert_int_equal(ns_trace_end(NULL), NS_OK);
    free(param);
    free(M);
    return g;
}

typedef struct algorithm_residuals {
    residual inverse, symmetric, linear, kinetic, solved;
} algorithm_residuals;

static void compare_algorithms(const ns_model* model, ns_rng* rng, algorithm_residuals* r) {
    ns_model_sizes n = ns_model_get_sizes(model);
    uint32_t nv = n.nv;
    ns_graph* g = trace_algorithms(model);
    double in[MAX_Q + 2 * MAX_V], *qd = in + n.nq, *a = qd + nv, want[MAX_V];
    double* out = malloc((3 * nv + (size_t)nv * nv + 1) * sizeof *out);
    assert_non_null(out);
    random_state(model, rng, in, qd);
    randomize(rng, a, nv, 5.0);
    run_graph(g, in, out);
    double *tau = out, *qdd = tau + nv, *bias = qdd + nv, *M = bias + nv;
    const double* kinetic = M + (size_t)nv * nv;

    residual_array(&r->inverse, qdd, a, nv, 1.0);
    for (uint32_t i = 0; i < nv; i++) {
        for (uint32_t j = 0; j < nv; j++) {
            residual_add(&r->symmetric, M[i * nv + j], M[j * nv + i], largest(nv * nv, M));
        }
    }
    multiply(nv, nv, M, a, want);
    for (uint32_t k = 0; k < nv; k++) want[k] += bias[k];
    residual_array(&r->linear, tau, want, nv, 1.0);
    multiply(nv, nv, M, qd, want);
    residual_add(&r->kinetic, *kinetic, 0.5 * dot(nv, qd, want), 1.0 + *kinetic);
    // M is positive definite, and solving with it is a third way to the acceleration.
    for (uint32_t k = 0; k < nv; k++) want[k] = tau[k] - bias[k];
    if (!cholesky(nv, M)) fail_msg("the mass matrix is not positive definite");
    cholesky_solve(nv, M, want, want);
    residual_array(&r->solved, want, a, nv, 1.0);
    free(out);
    ns_graph_free(g);
}

static void algorithms_agree_on(const char* what, random_tree_options options) {
    ns_rng rng = ns_rng_seed(10);
    algorithm_residuals r = {{.name = "forward of inverse dynamics", .tolerance = SOLVED},
                             {.name = "M = M'", .tolerance = 0.0},
                             {.name = "M a + bias = inverse dynamics", .tolerance = ROUNDING},
                             {.name = "kinetic energy = qd' M qd / 2", .tolerance = ROUNDING},
                             {.name = "M^-1 (tau - bias)", .tolerance = SOLVED}};
    printf("  %s\n", what);
    for (uint32_t n = 0; n < 60; n++) {
        random_tree tree;
        random_tree_options o = vary(options, n);
        random_tree_make(&tree, &o);
        ns_model* model = random_tree_build(&tree, NULL);
        if (ns_model_get_sizes(model).nv > 0) compare_algorithms(model, &rng, &r);
        ns_model_free(model);
    }
    residual_check(&r.inverse);
    residual_check(&r.symmetric);
    residual_check(&r.linear);
    residual_check(&r.kinetic);
    residual_check(&r.solved);
}

static void algorithms_agree(void** state) {
    (void)state;
    algorithms_agree_on("trees", plain_options);
    algorithms_agree_on("trees with armature", (random_tree_options){.armature = true, .seed = 1});
    algorithms_agree_on("floating trees with armature",
                        (random_tree_options){.armature = true, .root = ROOT_FLOATING, .seed = 2});
    algorithms_agree_on("trees with mimic joints",
                        (random_tree_options){.armature = true, .mimic = true, .seed = 3});
}

static void small_systems_are_solved(void** state) {
    (void)state;
    residual r = {.name = "A x = b", .tolerance = ROUNDING};
    ns_rng rng = ns_rng_seed(11);
    for (uint32_t n = 1; n <= 8; n++) {
        double in[72], B[64], x[8], back[8]; // A (n x n), b (n)
        randomize(&rng, B, n * n, 1.0);
        for (uint32_t i = 0; i < n; i++) { // A = B B' + 1
            for (uint32_t j = 0; j < n; j++) {
                in[i * n + j] = dot(n, B + i * n, B + j * n) + (i == j ? 1.0 : 0.0);
            }
        }
        randomize(&rng, in + n * n, n, 1.0);
        ns_graph* g = NULL;
        ns_expr e[72];
        char name[16];
        assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
        assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
        for (uint32_t k = 0; k < n * n + n; k++) {
            snprintf(name, sizeof name, "x%u", k);
            e[k] = ns_input(name);
        }
        nsi_ldl_factor(n, e);
        nsi_ldl_solve(n, e, e + n * n, e + n * n);
        for (uint32_t k = 0; k < n; k++) {
            snprintf(name, sizeof name, "y%u", k);
            ns_output(name, e[n * n + k]);
        }
        assert_int_equal(ns_trace_end(NULL), NS_OK);
        run_graph(g, in, x);
        multiply(n, n, in, x, back);
        residual_array(&r, back, in + n * n, n, 1.0);
        ns_graph_free(g);
    }
    residual_check(&r);
}

// ---- differences ---------------------------------------------------------------------------

// f'(0) = sum_k weight[k] (f((k+1) h) - f(-(k+1) h)) / h, error h^6 f'''''''/140.
static const double difference_weight[3] = {45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0};

// The rate of `count` observations from `first` on, along q (+) t v, qd + t a.
static void observation_rate(evaluator* e, const double* q, const double* qd, const double* v,
                             const double* a, double h, const char* first, uint32_t count,
                             double* rate) {
    double step[MAX_V];
    const double* y = evaluator_get(e, "%s", first);
    for (uint32_t i = 0; i < count; i++) rate[i] = 0.0;
    for (int k = -3; k <= 3; k++) {
        if (k == 0) continue;
        double weight = (k > 0 ? 1.0 : -1.0) * difference_weight[abs(k) - 1] / h;
        for (uint32_t i = 0; i < e->sizes.nv; i++) {
            step[i] = k * h * v[i];
            e->qd[i] = qd[i] + (a ? k * h * a[i] : 0.0);
        }
        move_coordinates(e->model, q, step, e->q);
        evaluator_run(e);
        for (uint32_t i = 0; i < count; i++) rate[i] += weight * y[i];
    }
    memcpy(e->q, q, e->sizes.nq * sizeof *q);
    memcpy(e->qd, qd, e->sizes.nv * sizeof *qd);
    evaluator_run(e);
}

// Angular velocity in the world of a quaternion and its rate: 2 dq/dt q*.
static void angular_velocity(const double q[4], const double rate[4], double w[3]) {
    double conjugate[4] = {q[0], -q[1], -q[2], -q[3]}, product[4];
    nsi_quat_multiply(rate, conjugate, product);
    for (int i = 0; i < 3; i++) w[i] = 2.0 * product[i + 1];
}

// ---- kinematics ----------------------------------------------------------------------------

typedef struct kinematics_residuals {
    residual velocity, linear, angular, unit;
} kinematics_residuals;

static void compare_link(evaluator* e, const char* link, const double* q, const double* qd,
                         kinematics_residuals* r) {
    uint32_t nv = e->sizes.nv;
    double pose[7], twist[6], world[6], J[2][3 * MAX_V], got[6];
    char first[64];
    memcpy(pose, evaluator_get(e, "link/%s/pose/x", link), sizeof pose);
    memcpy(twist, evaluator_get(e, "link/%s/velocity/angular/x", link), sizeof twist);
    memcpy(J[0], evaluator_get(e, "link/%s/jacobian/linear/0/0", link), 3 * nv * sizeof(double));
    memcpy(J[1], evaluator_get(e, "link/%s/jacobian/angular/0/0", link), 3 * nv * sizeof(double));
    residual_add(&r->unit, dot(4, pose + 3, pose + 3), 1.0, 1.0);

    // J qd is the twist, turned into the world's axes.
    nsi_quat_rotate(pose + 3, twist, world + 3);
    nsi_quat_rotate(pose + 3, twist + 3, world);
    multiply(3, nv, J[0], qd, got);
    multiply(3, nv, J[1], qd, got + 3);
    residual_array(&r->velocity, got, world, 6, 1.0);

    // Column k is how the pose changes with velocity k.
    snprintf(first, sizeof first, "link/%s/pose/x", link);
    for (uint32_t k = 0; k < nv; k++) {
        double unit[MAX_V] = {0.0}, rate[7], w[3];
        unit[k] = 1.0;
        observation_rate(e, q, qd, unit, NULL, 1e-2, first, 7, rate);
        angular_velocity(pose + 3, rate + 3, w);
        for (uint32_t row = 0; row < 3; row++) {
            residual_add(&r->linear, J[0][row * nv + k], rate[row], 1.0);
            residual_add(&r->angular, J[1][row * nv + k], w[row], 1.0);
        }
    }
}

static void jacobians_are_velocities_and_slopes_of_poses(void** state) {
    (void)state;
    kinematics_residuals r = {
        {.name = "J qd = velocity of the link", .tolerance = ROUNDING},
        {.name = "linear Jacobian = slope of position", .tolerance = DIFFERENCES},
        {.name = "angular Jacobian = slope of orientation", .tolerance = DIFFERENCES},
        {.name = "orientations are unit quaternions", .tolerance = ROUNDING}};
    ns_rng rng = ns_rng_seed(12);
    const char* const observe[] = {"link/*/pose", "link/*/velocity", "link/*/jacobian/linear",
                                   "link/*/jacobian/angular", NULL};
    for (uint32_t n = 0; n < 24; n++) {
        random_tree tree;
        random_tree_options o = vary((random_tree_options){.mimic = n % 2}, n);
        random_tree_make(&tree, &o);
        ns_model* model = random_tree_build(&tree, NULL);
        if (ns_model_get_sizes(model).nv > 0) {
            double q[MAX_Q], qd[MAX_V];
            evaluator* e = evaluator_create(model, observe);
            random_state(model, &rng, q, qd);
            memcpy(e->q, q, e->sizes.nq * sizeof *q);
            memcpy(e->qd, qd, e->sizes.nv * sizeof *qd);
            evaluator_run(e);
            for (uint32_t i = 0; i < tree.nlink; i++) {
                compare_link(e, tree.link[i].name, q, qd, &r);
            }
            evaluator_free(e);
        }
        ns_model_free(model);
    }
    residual_check(&r.velocity);
    residual_check(&r.linear);
    residual_check(&r.angular);
    residual_check(&r.unit);
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

// Everything that should be equal for two descriptions of one robot.
// Mass matrix and Jacobians are traced for those who ask for them, in whatever way, and for no one
// else: there are as many of them as pairs of joints.
static void only_what_is_asked_for_is_traced(void** state) {
    (void)state;
    static const struct {
        const char* pattern;
        uint32_t count; // of the quadruped
    } cases[] = {{"energy/total", 1},
                 {"link/**/pose/*", 13 * 7},
                 {"mass_matrix", 18 * 18},
                 {"mass_matrix/1?/17", 8},
                 {"link/*/jacobian/linear/2/17", 13},
                 {"link/*/jacobian/linear/?/??", 13 * 3 * 8},
                 {"**/1/12", 1 + 13 * 2}};
    ns_model* model = NULL;
    assert_int_equal(
        ns_model_load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", NULL, &model, NULL), NS_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_system_options options = ns_default_system_options();
        ns_system* system = NULL;
        options.observe = &cases[k].pattern;
        options.nobserve = 1;
        assert_int_equal(ns_system_create(model, &options, &system, NULL), NS_OK);
        assert_int_equal(ns_system_get_sizes(system).ny, cases[k].count);
        for (uint32_t i = 0; i < system->graph->quantities.count && k < 2; i++) {
            const char* name = system->graph->quantities.data[i].name;
            if (strncmp(name, "mass_matrix/", 12) == 0) fail_msg("%s is traced", name);
        }
        ns_system_free(system);
    }
    ns_model_free(model);
}

static const char* const robot_quantities[] = {"qdd", "mass_matrix", "bias", "energy", NULL};

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

// ---- welded links --------------------------------------------------------------------------

// Add a body to another: masses, centres of mass and inertias about the common one.
static void add_body(ns_link_def* to, const ns_pose* pose, const ns_link_def* from) {
    double com[3], moments[6], total = to->mass + from->mass;
    nsi_quat_rotate(pose->quaternion, from->com, com);
    for (int i = 0; i < 3; i++) com[i] += pose->position[i];
    nsi_inertia_rotate(pose->quaternion, from->inertia, moments);
    if (total == 0.0) return;
    double common[3], offset[3];
    for (int i = 0; i < 3; i++) common[i] = (to->mass * to->com[i] + from->mass * com[i]) / total;
    for (int i = 0; i < 3; i++) offset[i] = to->com[i] - common[i];
    nsi_inertia_shift(to->mass, offset, to->inertia);
    for (int i = 0; i < 3; i++) offset[i] = com[i] - common[i];
    nsi_inertia_shift(from->mass, offset, moments);
    for (int i = 0; i < 6; i++) to->inertia[i] += moments[i];
    for (int i = 0; i < 3; i++) to->com[i] = common[i];
    to->mass = total;
}

// The same robot without fixed joints.
static void merge_welded(const random_tree* tree, random_tree* merged) {
    ns_pose place[RANDOM_TREE_LINKS]; // of each link in its body
    uint32_t body[RANDOM_TREE_LINKS]; // in `merged`, or UINT32_MAX for the world
    merged->world = tree->world;
    merged->nlink = merged->nactuator = 0;
    for (uint32_t i = 0; i < tree->nlink; i++) {
        ns_link_def link = tree->link[i];
        uint32_t parent = random_tree_find(tree, link.parent);
        ns_pose origin = link.origin;
        if (parent != UINT32_MAX) origin = nsi_pose_compose(&place[parent], &link.origin);
        uint32_t carrier = parent == UINT32_MAX ? UINT32_MAX : body[parent];
        if (link.joint_type == NS_JOINT_FIXED) {
            place[i] = origin;
            body[i] = carrier;
            if (carrier != UINT32_MAX) add_body(&merged->link[carrier], &origin, &link);
        } else {
            link.origin = origin;
            link.parent = carrier == UINT32_MAX ? NULL : merged->link[carrier].name;
            place[i] = nsi_pose_identity();
            body[i] = merged->nlink;
            merged->link[merged->nlink++] = link;
        }
    }
}

static void welded_links_are_merged_inertias(void** state) {
    (void)state;
    residual r = {.name = "welded against merged: accelerations", .tolerance = SOLVED};
    residual M = {.name = "welded against merged: M, bias, energy", .tolerance = ROUNDING};
    ns_rng rng = ns_rng_seed(18);
    uint32_t welds = 0;
    for (uint32_t n = 0; n < 60; n++) {
        random_tree tree, merged;
        random_tree_options o = vary((random_tree_options){.seed = 700}, n);
        random_tree_make(&tree, &o);
        merge_welded(&tree, &merged);
        ns_model* a = random_tree_build(&tree, NULL);
        ns_model_sizes z = ns_model_get_sizes(a);
        if (merged.nlink > 0 && merged.nlink < tree.nlink) {
            welds += tree.nlink - merged.nlink;
            ns_model* b = random_tree_build(&merged, NULL);
            evaluator* ea = evaluator_create(a, robot_quantities);
            evaluator* eb = evaluator_create(b, robot_quantities);
            random_state(a, &rng, ea->q, ea->qd);
            randomize(&rng, ea->tau, z.nv, 2.0);
            memcpy(eb->q, ea->q, z.nq * sizeof(double));
            memcpy(eb->qd, ea->qd, z.nv * sizeof(double));
            memcpy(eb->tau, ea->tau, z.nv * sizeof(double));
            evaluator_run(ea);
            evaluator_run(eb);
            residual_array(&r, evaluator_get(ea, "qdd/0"), evaluator_get(eb, "qdd/0"), z.nv, 1.0);
            residual_array(&M, evaluator_get(ea, "mass_matrix/0/0"),
                           evaluator_get(eb, "mass_matrix/0/0"), (size_t)z.nv * z.nv, 0.1);
            residual_array(&M, evaluator_get(ea, "bias/0"), evaluator_get(eb, "bias/0"), z.nv, 1.0);
            residual_array(&M, evaluator_get(ea, "energy/kinetic"),
                           evaluator_get(eb, "energy/kinetic"), 3, 1.0);
            evaluator_free(ea);
            evaluator_free(eb);
            ns_model_free(b);
        }
        ns_model_free(a);
    }
    assert_in_range(welds, 20, 1000);
    residual_check(&r);
    residual_check(&M);
}

// ---- mimic joints --------------------------------------------------------------------------

// q_full = G q + g with constant G: M = G' M_full G, forces G' f, and no further terms.
static void mimic_joints_are_a_projection(void** state) {
    (void)state;
    residual M = {.name = "mimic: mass matrix and bias", .tolerance = ROUNDING};
    residual tau = {.name = "mimic: joint forces", .tolerance = ROUNDING};
    residual r = {.name = "mimic: accelerations", .tolerance = SOLVED};
    ns_rng rng = ns_rng_seed(19);
    uint32_t followers = 0;
    for (uint32_t n = 0; n < 80; n++) {
        random_tree tree, full;
        random_tree_options o = {.mimic = true, .armature = true, .forces = true, .seed = 800};
        o = vary(o, n);
        random_tree_make(&tree, &o);
        full = tree;
        for (uint32_t i = 0; i < full.nlink; i++) full.link[i].mimic = NULL;
        // A link that the followed joint moves may be massless; alone it may not.
        ns_model *a = random_tree_build(&tree, NULL), *b = random_tree_try(&full, NULL, NULL);
        ns_model_sizes z = ns_model_get_sizes(a), zb = ns_model_get_sizes(b);
        if (b && zb.nv > z.nv) {
            const char* const observe[] = {"qdd", "mass_matrix", "bias", "joint/*/tau", NULL};
            evaluator *ea = evaluator_create(a, observe), *eb = evaluator_create(b, observe);
            double G[MAX_V * MAX_V] = {0.0}, MG[MAX_V * MAX_V], GMG[MAX_V * MAX_V] = {0.0};
            double forces[MAX_V] = {0.0}, bias[MAX_V] = {0.0}, want[MAX_V];
            random_state(a, &rng, ea->q, ea->qd);
            for (uint32_t i = 0; i < tree.nlink; i++) {
                const nsi_link *la = &a->links[i], *lb = &b->links[i];
                if (la->mimic != NSI_NONE) {
                    double multiplier = la->def.mimic_multiplier;
                    eb->q[lb->q] = multiplier * ea->q[la->q] + la->def.mimic_offset;
                    eb->qd[lb->v] = multiplier * ea->qd[la->v];
                    G[lb->v * z.nv + la->v] = multiplier;
                    followers++;
                }
                for (uint32_t k = 0; k < la->nq; k++) eb->q[lb->q + k] = ea->q[la->q + k];
                for (uint32_t k = 0; k < la->nv; k++) {
                    eb->qd[lb->v + k] = ea->qd[la->v + k];
                    G[(lb->v + k) * z.nv + la->v + k] = 1.0;
                }
            }
            randomize(&rng, eb->tau, zb.nv, 2.0);
            for (uint32_t k = 0; k < z.nv; k++) { // tau = G' tau_full
                ea->tau[k] = 0.0;
                for (uint32_t i = 0; i < zb.nv; i++) ea->tau[k] += G[i * z.nv + k] * eb->tau[i];
            }
            evaluator_run(ea);
            evaluator_run(eb);

            const double* full_M = evaluator_get(eb, "mass_matrix/0/0");
            const double* full_bias = evaluator_get(eb, "bias/0");
            const double* full_tau = full_bias + zb.nv; // all joint forces follow the bias
            for (uint32_t i = 0; i < zb.nv; i++) {
                for (uint32_t k = 0; k < z.nv; k++) {
                    MG[i * z.nv + k] = 0.0;
                    for (uint32_t j = 0; j < zb.nv; j++) {
                        MG[i * z.nv + k] += full_M[i * zb.nv + j] * G[j * z.nv + k];
                    }
                    forces[k] += G[i * z.nv + k] * full_tau[i];
                    bias[k] += G[i * z.nv + k] * full_bias[i];
                }
            }
            for (uint32_t i = 0; i < zb.nv; i++) {
                for (uint32_t k = 0; k < z.nv * z.nv; k++) {
                    GMG[k] += G[i * z.nv + k / z.nv] * MG[i * z.nv + k % z.nv];
                }
            }
            residual_array(&M, evaluator_get(ea, "mass_matrix/0/0"), GMG, (size_t)z.nv * z.nv, 0.1);
            residual_array(&M, evaluator_get(ea, "bias/0"), bias, z.nv, 1.0);
            residual_array(&tau, evaluator_get(ea, "bias/0") + z.nv, forces, z.nv, 1.0);
            for (uint32_t k = 0; k < z.nv; k++) want[k] = forces[k] - bias[k];
            assert_true(cholesky(z.nv, GMG));
            cholesky_solve(z.nv, GMG, want, want);
            residual_array(&r, evaluator_get(ea, "qdd/0"), want, z.nv, 1.0);
            evaluator_free(ea);
            evaluator_free(eb);
        }
        ns_model_free(a);
        ns_model_free(b);
    }
    assert_in_range(followers, 20, 1000);
    residual_check(&M);
    residual_check(&tau);
    residual_check(&r);
}

// ---- exceptional states --------------------------------------------------------------------

static random_tree straight_chain(uint32_t links, ns_joint_type type) {
    random_tree tree;
    random_tree_make(&tree, &(random_tree_options){.nlink = links, .seed = 1, .no_welds = true});
    for (uint32_t i = 0; i < links; i++) {
        ns_link_def link = ns_default_link_def();
        link.name = tree.link[i].name;
        link.joint = tree.link[i].joint;
        link.parent = i > 0 ? tree.link[i - 1].name : NULL;
        link.joint_type = type;
        link.axis[0] = link.axis[2] = 0.0, link.axis[1] = 1.0;
        link.origin.position[2] = i > 0 ? -0.2 : 0.0;
        link.mass = 0.5;
        link.com[2] = -0.1;
        link.inertia[0] = link.inertia[1] = 0.002, link.inertia[2] = 0.0005;
        tree.link[i] = link;
    }
    return tree;
}

// Step and gradient for every input and every parameter, from where angles and velocities vanish.
static void expect_finite(const ns_model* model, const char* what, int integrator) {
    enum { STEPS = 3 };
    ns_error error = {0};
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_system_options options = ns_default_system_options();
    const char* const everything[] = {"**"};
    options.free_params = everything;
    options.nfree = 1;
    options.observe = everything;
    options.nobserve = 1;
    options.integrator = integrator;
    ns_workspace_size size = {.batch = 1, .steps = STEPS, .threads = 1};
    if (ns_system_create(model, &options, &system, &error) != NS_OK ||
        ns_workspace_create(system, &size, &work, &error) != NS_OK) {
        fail_msg("%s: %s", what, error.message);
    }
    ns_system_sizes n = ns_system_get_sizes(system);
    size_t count = (STEPS + 1) * ((size_t)n.nx + n.ny + n.nc + n.np);
    double* seeds = malloc(count * sizeof *seeds);
    double *x0 = calloc(n.nx, sizeof *x0), *y = calloc(STEPS * n.ny, sizeof *y);
    double* gradient = calloc(count, sizeof *gradient);
    assert_true(seeds && x0 && y && gradient);
    for (size_t i = 0; i < count; i++) seeds[i] = 1.0;
    ns_model_default_q(model, x0);
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .observations = y};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds,
                                  .observation_seeds = seeds,
                                  .dx0 = gradient,
                                  .dcontrols = gradient + n.nx,
                                  .dparams = gradient + n.nx + STEPS * n.nc};
    if (ns_rollout_vjp(system, work, &args, &adjoint, &error) != NS_OK) {
        fail_msg("%s: %s", what, error.message);
    }
    for (uint32_t i = 0; i < STEPS * n.ny; i++) {
        if (!isfinite(y[i])) {
            fail_msg("%s: %s is %g", what, ns_system_observation_name(system, i % n.ny), y[i]);
        }
    }
    for (uint32_t i = 0; i < n.nx + STEPS * n.nc + n.np; i++) {
        if (!isfinite(gradient[i])) fail_msg("%s: gradient %u is %g", what, i, gradient[i]);
    }
    free(seeds);
    free(x0);
    free(y);
    free(gradient);
    ns_workspace_free(work);
    ns_system_free(system);
}

static void nothing_is_nan_at_rest(void** state) {
    (void)state;
    for (uint32_t n = 0; n < 24; n++) {
        random_tree tree;
        random_tree_options o = {.forces = true, .armature = true, .mimic = n % 3 == 0};
        o.actuators = true;
        o.seed = 900;
        o = vary(o, n);
        o.nlink = 1 + n % 6;
        random_tree_make(&tree, &o);
        ns_model* model = random_tree_build(&tree, NULL);
        char what[32];
        snprintf(what, sizeof what, "tree %u", n);
        expect_finite(model, what, (int)(n % 3));
        ns_model_free(model);
    }
    static const ns_joint_type types[] = {NS_JOINT_REVOLUTE, NS_JOINT_SPHERICAL};
    for (int n = 0; n < 2; n++) {
        random_tree tree = straight_chain(5, types[n]);
        ns_model* model = random_tree_build(&tree, NULL);
        expect_finite(model, "straight chain", -1);
        ns_model_free(model);
    }
}

// ---- cost ----------------------------------------------------------------------------------

static uint32_t chain_cost(uint32_t links, ns_joint_type type) {
    random_tree tree = straight_chain(links, type);
    ns_model* model = random_tree_build(&tree, NULL);
    ns_system* system = NULL;
    assert_int_equal(ns_system_create(model, NULL, &system, NULL), NS_OK);
    uint32_t cost = ns_graph_op_count(ns_system_graph(system));
    ns_system_free(system);
    ns_model_free(model);
    return cost;
}

// Ten more links cost the same wherever they are added.
static void cost_is_linear_in_links(void** state) {
    (void)state;
    static const ns_joint_type types[] = {NS_JOINT_REVOLUTE, NS_JOINT_PRISMATIC};
    for (int t = 0; t < 2; t++) {
        uint32_t before = chain_cost(10, types[t]), first = 0;
        printf("    operations of a chain of 10, 20 .. 100 links: %u", before);
        for (uint32_t links = 20; links <= 100; links += 10) {
            uint32_t cost = chain_cost(links, types[t]), added = cost - before;
            printf(" %u", cost);
            if (first == 0) first = added;
            if (added != first) fail_msg("ten links cost %u operations, then %u", first, added);
            before = cost;
        }
        printf("\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_trees_have_everything),
        cmocka_unit_test(small_systems_are_solved),
        cmocka_unit_test(algorithms_agree),
        cmocka_unit_test(jacobians_are_velocities_and_slopes_of_poses),
        cmocka_unit_test(power_of_joint_forces_is_the_rate_of_energy),
        cmocka_unit_test(momentum_changes_by_outer_forces_alone),
        cmocka_unit_test(energy_drifts_by_the_integrators_error_only),
        cmocka_unit_test(momentum_of_free_trees_is_conserved),
        cmocka_unit_test(a_turned_world_changes_nothing),
        cmocka_unit_test(welded_links_are_merged_inertias),
        cmocka_unit_test(mimic_joints_are_a_projection),
        cmocka_unit_test(nothing_is_nan_at_rest),
        cmocka_unit_test(cost_is_linear_in_links),
        cmocka_unit_test(only_what_is_asked_for_is_traced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
