// Forward dynamics by two algorithms, and inverse dynamics, agree; what they cost; states at rest.

#include "dyn/dynamics_rig.h"
#include "dyn/robot.h"
#include "expr/graph.h"
#include "sim/system.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const random_tree_options plain_options = {.springs = false};

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
        cmocka_unit_test(algorithms_agree),
        cmocka_unit_test(nothing_is_nan_at_rest),
        cmocka_unit_test(cost_is_linear_in_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
