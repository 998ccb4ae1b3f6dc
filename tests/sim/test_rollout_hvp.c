// Hessian-vector products of rollouts: against differences of gradients, by symmetry, and against closed
// forms; with and without contact, with networks, in batches.

#include "neuralsim/certificate.h"
#include "sim/rollout_rig.h"
#include "support/malloccount.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>

// The inputs of a rollout in a row, x0, controls, params, weights, with a cost L = sum w z^2 / 2 over states
// and observations z.
typedef struct problem {
    const ns_system* system;
    ns_workspace* work;
    ns_system_sizes n;
    uint32_t batch, steps;
    size_t nx0, ncontrol, ninput, nstate, nobserved;
    double *input, *weight; // weight: of the numbers of states, then of observations
    double *states, *observations, *dstates, *dobservations, *seeds, *dseeds;
} problem;

static problem problem_create(ns_system* system, uint32_t batch, uint32_t steps,
                              ns_workspace_size size) {
    ns_error error = {0};
    must(ns_system_build_hvp(system, &error), &error);
    problem p = {
        .system = system, .n = ns_system_get_sizes(system), .batch = batch, .steps = steps};
    size.batch = batch;
    size.steps = steps;
    must(ns_workspace_create(system, &size, &p.work, &error), &error);
    p.nx0 = (size_t)batch * p.n.nx;
    p.ncontrol = (size_t)batch * steps * p.n.nc;
    p.ninput = p.nx0 + p.ncontrol + p.n.np + p.n.nw;
    p.nstate = (size_t)batch * (steps + 1) * p.n.nx;
    p.nobserved = (size_t)batch * steps * p.n.ny;
    p.input = doubles(p.ninput);
    p.weight = doubles(p.nstate + p.nobserved);
    p.states = doubles(p.nstate);
    p.dstates = doubles(p.nstate);
    p.observations = doubles(p.nobserved);
    p.dobservations = doubles(p.nobserved);
    p.seeds = doubles(p.nstate + p.nobserved);
    p.dseeds = doubles(p.nstate + p.nobserved);
    ns_system_default_params(system, p.input + p.nx0 + p.ncontrol);
    ns_system_default_weights(system, p.input + p.ninput - p.n.nw);
    return p;
}

static void problem_free(problem* p) {
    double* all[] = {p->input,        p->weight,        p->states, p->dstates,
                     p->observations, p->dobservations, p->seeds,  p->dseeds};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    ns_workspace_free(p->work);
}

static ns_rollout_args problem_args(const problem* p, const double* input) {
    return (ns_rollout_args){.batch = p->batch,
                             .steps = p->steps,
                             .x0 = input,
                             .controls = input + p->nx0,
                             .params = input + p->nx0 + p->ncontrol,
                             .weights = input + p->ninput - p->n.nw,
                             .states = p->states,
                             .observations = p->observations};
}

static ns_rollout_tangent problem_direction(const problem* p, const double* v) {
    return (ns_rollout_tangent){.dx0 = v,
                                .dcontrols = v + p->nx0,
                                .dparams = v + p->nx0 + p->ncontrol,
                                .dweights = v + p->ninput - p->n.nw,
                                .dstates = p->dstates,
                                .dobservations = p->dobservations};
}

static ns_rollout_adjoint problem_adjoint(const problem* p, const double* seeds, double* result) {
    return (ns_rollout_adjoint){.state_seeds = seeds,
                                .observation_seeds = seeds ? seeds + p->nstate : NULL,
                                .dx0 = result,
                                .dcontrols = result + p->nx0,
                                .dparams = result + p->nx0 + p->ncontrol,
                                .dweights = result + p->ninput - p->n.nw};
}

// The seeds of the cost, or from tangents those of the product.
static void weigh(const problem* p, const double* states, const double* observations,
                  double* seeds) {
    for (size_t k = 0; k < p->nstate; k++) seeds[k] = p->weight[k] * states[k];
    for (size_t k = 0; k < p->nobserved; k++) {
        seeds[p->nstate + k] = p->weight[p->nstate + k] * observations[k];
    }
}

static void gradient_at(const problem* p, const double* input, double* gradient) {
    ns_error error = {0};
    ns_rollout_args args = problem_args(p, input);
    must(ns_rollout(p->system, p->work, &args, &error), &error);
    weigh(p, p->states, p->observations, p->seeds);
    ns_rollout_adjoint adjoint = problem_adjoint(p, p->seeds, gradient);
    must(ns_rollout_vjp(p->system, p->work, &args, &adjoint, &error), &error);
}

static void hvp_at(const problem* p, const double* v, double* gradient, double* product) {
    ns_error error = {0};
    ns_rollout_args args = problem_args(p, p->input);
    ns_rollout_tangent direction = problem_direction(p, v);
    must(ns_rollout_jvp(p->system, p->work, &args, &direction, &error), &error);
    weigh(p, p->states, p->observations, p->seeds);
    weigh(p, p->dstates, p->dobservations, p->dseeds);
    ns_rollout_adjoint first = problem_adjoint(p, p->seeds, gradient);
    ns_rollout_adjoint second = problem_adjoint(p, p->dseeds, product);
    must(ns_rollout_hvp(p->system, p->work, &args, &direction, &first, &second, &error), &error);
}

static double largest(const double* x, size_t count) {
    double most = 0.0;
    for (size_t k = 0; k < count; k++) most = fmax(most, fabs(x[k]));
    return most;
}

// A random direction, parameters by a share of their values, which may be small and positive.
static double* random_direction(const problem* p, ns_rng* rng) {
    double* v = doubles(p->ninput);
    size_t from = p->nx0 + p->ncontrol, to = from + p->n.np;
    for (size_t k = 0; k < p->ninput; k++) {
        v[k] = (k < from || k >= to ? 1.0 : fabs(p->input[k])) * ns_rng_normal(rng);
    }
    return v;
}

// The error of the product against the best of some differences of gradients, relative to its largest
// number; the relative error of u'Hv = v'Hu; the largest number.
typedef struct hvp_report {
    double error, asymmetry, size;
} hvp_report;

static hvp_report check_product(const problem* p, ns_rng* rng) {
    const size_t n = p->ninput;
    double *v = random_direction(p, rng), *u = random_direction(p, rng), *at = doubles(n);
    double *gradient = doubles(n), *expected = doubles(n), *Hv = doubles(n), *Hu = doubles(n);
    double *above = doubles(n), *below = doubles(n), *dstates = doubles(p->nstate);

    // Direction and gradient are those of ns_rollout_jvp() and ns_rollout_vjp().
    hvp_at(p, u, gradient, Hu);
    hvp_at(p, v, gradient, Hv);
    memcpy(dstates, p->dstates, p->nstate * sizeof *dstates);
    ns_error error = {0};
    ns_rollout_args args = problem_args(p, p->input);
    ns_rollout_tangent direction = problem_direction(p, v);
    must(ns_rollout_jvp(p->system, p->work, &args, &direction, &error), &error);
    for (size_t k = 0; k < p->nstate; k++) assert_true(dstates[k] == p->dstates[k]);
    gradient_at(p, p->input, expected);
    double scale = largest(expected, n), forward = 0.0, backward = 0.0, sum = 1e-300;
    for (size_t k = 0; k < n; k++) {
        close_to("gradient", gradient[k], expected[k], 1e-11 * scale);
        forward += u[k] * Hv[k];
        backward += v[k] * Hu[k];
        sum += fabs(u[k] * Hv[k]) + fabs(v[k] * Hu[k]);
    }

    // A kink of the gradient may be nearby, so that only small differences agree.
    hvp_report r = {INFINITY, fabs(forward - backward) / sum, largest(Hv, n)};
    for (double h = 1e-4; h > 1e-9; h *= 0.1) {
        double worst = 0.0;
        for (size_t k = 0; k < n; k++) at[k] = p->input[k] + h * v[k];
        gradient_at(p, at, above);
        for (size_t k = 0; k < n; k++) at[k] = p->input[k] - h * v[k];
        gradient_at(p, at, below);
        for (size_t k = 0; k < n; k++) {
            worst = fmax(worst, fabs((above[k] - below[k]) / (2.0 * h) - Hv[k]));
        }
        r.error = fmin(r.error, worst / (r.size + 1e-300));
    }
    double* all[] = {v, u, at, gradient, expected, Hv, Hu, above, below, dstates};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    return r;
}

// ---- without contact -----------------------------------------------------------------------

// Random robots in batches, with all parameters free and observations in the cost.
static void trees_have_second_derivatives(void** state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        ns_system_options o = full_options();
        o.integrator = (int)(seed % 3);
        rig r = rig_create(everything, seed, 4, &o);
        problem p =
            problem_create(r.system, 1 + (uint32_t)seed % 3, 8, (ns_workspace_size){.threads = 2});
        ns_rng rng = ns_rng_seed(seed);
        double* x0 = random_states(&r, &rng, p.batch);
        memcpy(p.input, x0, p.nx0 * sizeof *x0);
        free(x0);
        for (size_t k = 0; k < p.ncontrol; k++) p.input[p.nx0 + k] = 0.5 * ns_rng_normal(&rng);
        for (size_t k = 0; k < p.nstate; k++) p.weight[k] = ns_rng_normal(&rng);
        for (size_t k = 0; k < p.nobserved; k++)
            p.weight[p.nstate + k] = 1e-3 * ns_rng_normal(&rng);
        hvp_report c = check_product(&p, &rng);
        print_message("tree %u: error %.1e, asymmetry %.1e, size %.1e\n", (unsigned)seed, c.error,
                      c.asymmetry, c.size);
        assert_true(c.error < 1e-6 && c.asymmetry < 1e-12 && c.size > 1e-3);
        problem_free(&p);
        rig_free(&r);
    }
}

#define PENDULUM                                                                                   \
    "<mujoco><worldbody><body><joint name='a' axis='0 1 0'/><inertial pos='0 0 -.5' mass='1'"      \
    " diaginertia='.08 .08 .01'/><body pos='0 0 -1'><joint name='b' axis='0 1 0'/>"                \
    "<inertial pos='0 0 -.5' mass='1' diaginertia='.08 .08 .01'/></body></body></worldbody>"       \
    "</mujoco>"

static void weights_have_second_derivatives(void** state) {
    (void)state;
    static const char yaml[] = "networks: [{name: n, inputs: [q/0, qd/1], outputs: joint/b/tau,"
                               " hidden: [5], activation: tanh}]";
    static const char* const free_params[] = {"link/*/mass"};
    ns_error error = {0};
    ns_blueprint* blueprint = NULL;
    must(ns_blueprint_parse(yaml, strlen(yaml), "b.yaml", NULL, &blueprint, &error), &error);
    ns_model* model = modelfile_parse(PENDULUM);
    ns_system_options o = ns_default_system_options();
    o.blueprint = blueprint;
    o.free_params = free_params;
    o.nfree = 1;
    ns_system* system = make_system(model, &o);
    problem p = problem_create(system, 6, 20, (ns_workspace_size){.threads = 2});
    ns_rng rng = ns_rng_seed(7);
    assert_true(p.n.nw > 10);
    for (size_t k = 0; k < p.nx0 + p.ncontrol; k++) p.input[k] = ns_rng_normal(&rng);
    for (size_t k = 0; k < p.n.nw; k++) p.input[p.ninput - p.n.nw + k] = ns_rng_normal(&rng);
    for (size_t k = 0; k < p.nstate; k++) p.weight[k] = ns_rng_normal(&rng);
    hvp_report c = check_product(&p, &rng);
    print_message("network: error %.1e, asymmetry %.1e, size %.1e\n", c.error, c.asymmetry, c.size);
    assert_true(c.error < 1e-7 && c.asymmetry < 1e-12 && c.size > 1e-3);
    problem_free(&p);
    ns_system_free(system);
    ns_model_free(model);
    ns_blueprint_free(blueprint);
}

// ---- contact -------------------------------------------------------------------------------

#define FLOOR "<geom name='floor' type='plane' size='5 5 1'/>"

typedef struct scene {
    const char *name, *text;
    uint32_t steps, nset;
    struct {
        uint32_t component;
        double value;
    } set[6];
    const char* free_params[4];
    double force; // the first generalised force, all the time
} scene;

static const scene scenes[] = {
    {"bouncing ball",
     "<mujoco><option timestep='0.002'/><worldbody>" FLOOR
     "<body pos='0 0 0.6'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/>"
     "<joint axis='0 1 0'/><geom type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>",
     400,
     4,
     {{1, 0.013}, {3, 1.3}, {4, -0.7}, {5, 2.0}},
     {"contact/*/mu", "link/*/mass", "geom/*/radius", "contact/*/restitution"},
     0.0},
    {"box slides to rest",
     "<mujoco><option timestep='0.002'/><worldbody>" FLOOR
     "<body pos='0 0 0.1'><freejoint/><geom type='box' size='0.1 0.15 0.1' mass='1'"
     " friction='0.4'/></body></worldbody></mujoco>",
     300,
     4,
     {{2, 0.0997}, {7, 1.5}, {8, 0.3}, {12, 1.0}},
     {"contact/*/mu", "link/*/mass", "geom/*/half/*", "contact/*/cfm"},
     0.0},
    {"pushed box",
     "<mujoco><option timestep='0.002'/><worldbody>" FLOOR
     "<body pos='-0.3 0 0.05'><joint name='push' type='slide' axis='1 0 0'/>"
     "<geom type='sphere' size='0.05' mass='1' friction='0.5'/></body>"
     "<body pos='0 0.02 0.1'><freejoint/><geom type='box' size='0.1 0.1 0.1' mass='1'"
     " friction='0.3'/></body></worldbody></mujoco>",
     150,
     6,
     {{3, 0.0999}, {8, 1.5}, {9, 0.05}, {10, -0.03}, {11, 0.01}, {13, 0.02}},
     {"contact/*/mu", "link/*/mass"},
     3.0},
    {"double pendulum on the ground",
     "<mujoco><option timestep='0.001'/><worldbody><geom name='floor' type='plane' size='5 5 1'"
     " pos='0 0 -1.5'/><body><joint axis='0 1 0'/><inertial pos='0 0 -.5' mass='1'"
     " diaginertia='.083 .083 .001'/><body pos='0 0 -1'><joint axis='0 1 0'/>"
     "<inertial pos='0 0 -.5' mass='1' diaginertia='.083 .083 .001'/>"
     "<geom type='sphere' size='0.01' pos='0 0 -1'/></body></body></worldbody></mujoco>",
     400,
     4,
     {{0, 1.2}, {1, 0.3}, {2, -1.0}, {3, 0.5}},
     {"contact/*/mu", "link/*/mass", "contact/*/restitution"},
     0.0},
    {"ball slides, spins and rolls",
     "<mujoco><option timestep='0.002'/><worldbody>" FLOOR
     "<body pos='0 0 0.1'><freejoint/><geom type='sphere' size='0.1' mass='1' condim='6'"
     " friction='0.5 0.02 0.004'/></body></worldbody></mujoco>",
     150,
     6,
     {{2, 0.0997}, {7, 1.5}, {8, 0.4}, {10, 1.0}, {11, 2.0}, {12, 6.0}},
     {"contact/*/mu", "geom/*/radius", "contact/*/mu_torsion", "contact/*/mu_rolling"},
     0.0},
    {"box slides and spins",
     "<mujoco><option timestep='0.002'/><worldbody>" FLOOR
     "<body pos='0 0 0.1'><freejoint/><geom type='box' size='0.1 0.15 0.1' mass='1'"
     " condim='4' friction='0.4 0.03 0'/></body></worldbody></mujoco>",
     150,
     5,
     {{2, 0.0997}, {7, 1.5}, {8, 0.3}, {9, -0.2}, {12, 4.0}},
     {"contact/*/mu", "link/*/mass", "contact/*/mu_torsion"},
     0.0},
};

static const struct {
    const char* name;
    int contact;
    ns_friction friction;
    double error, asymmetry; // largest
} laws[] = {
    {"ncp, cone", NS_CONTACT_NCP, NS_FRICTION_CONE, 5e-6, 1e-10}, // solved to 1e-10
    {"ncp, pyramid", NS_CONTACT_NCP, NS_FRICTION_PYRAMID, 5e-6, 1e-10},
    {"baumgarte", NS_CONTACT_BAUMGARTE, NS_FRICTION_CONE, 5e-6, 1e-11},
    {"convex", NS_CONTACT_CONVEX, NS_FRICTION_CONE, 2e-5, 2e-10},
    {"spring", NS_CONTACT_SPRING, NS_FRICTION_CONE, 5e-6, 1e-11},
};

// The problem of a scene, with the trial that owns its system.
static problem scene_problem(const scene* s, size_t law, ns_backend backend, trial* t) {
    ns_system_options o = ns_default_system_options();
    o.contact = laws[law].contact;
    o.friction = laws[law].friction;
    o.backend = backend;
    o.free_params = s->free_params;
    while (o.nfree < 4 && s->free_params[o.nfree]) {
        const char* name = s->free_params[o.nfree];
        bool rigid = strstr(name, "restitution") || strstr(name, "cfm") || strstr(name, "mu_");
        if (rigid && o.contact == NS_CONTACT_SPRING) break; // they come last
        o.nfree++;
    }
    *t = trial_make(s->text, &o, 1);
    problem p = problem_create(t->system, 1, s->steps, (ns_workspace_size){.threads = 1});
    memcpy(p.input, t->x0, p.n.nx * sizeof(double));
    for (uint32_t k = 0; k < s->nset; k++) p.input[s->set[k].component] = s->set[k].value;
    for (uint32_t k = 0; k < s->steps; k++) p.input[p.nx0 + k * p.n.nc] = s->force;
    for (uint32_t k = 0; k < p.n.np; k++) {
        bool bounces = strstr(ns_system_param_name(t->system, k), "restitution");
        if (bounces) p.input[p.nx0 + p.ncontrol + k] = 0.6;
    }
    ns_rng rng = ns_rng_seed(3);
    for (size_t k = 0; k < p.nstate; k++) p.weight[k] = ns_rng_normal(&rng) / s->steps;
    return p;
}

static void contact_has_second_derivatives(void** state) {
    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof *scenes; i++) {
        for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
            trial t;
            problem p = scene_problem(&scenes[i], l, NS_BACKEND_AUTO, &t);
            ns_rng rng = ns_rng_seed(1 + i);
            hvp_report c = check_product(&p, &rng);
            print_message("%s, %s: error %.1e, asymmetry %.1e, size %.1e\n", scenes[i].name,
                          laws[l].name, c.error, c.asymmetry, c.size);
            assert_true(c.error < laws[l].error && c.asymmetry < laws[l].asymmetry);
            assert_true(c.size > 1e-2);
            problem_free(&p);
            trial_free(&t);
        }
    }
}

static void backends_agree_on_products(void** state) {
    (void)state;
    for (size_t l = 0; l < sizeof laws / sizeof *laws; l++) {
        double *product[2], *gradient[2];
        size_t n = 0;
        for (int b = 0; b < 2; b++) {
            trial t;
            problem p = scene_problem(&scenes[2], l, b ? NS_BACKEND_INTERP : NS_BACKEND_AUTO, &t);
            ns_rng rng = ns_rng_seed(5);
            double* v = random_direction(&p, &rng);
            n = p.ninput;
            product[b] = doubles(n);
            gradient[b] = doubles(n);
            hvp_at(&p, v, gradient[b], product[b]);
            free(v);
            problem_free(&p);
            trial_free(&t);
        }
        for (size_t k = 0; k < n; k++) {
            assert_true(check_same_bits(product[0][k], product[1][k]));
            assert_true(check_same_bits(gradient[0][k], gradient[1][k]));
        }
        for (int b = 0; b < 2; b++) free(product[b]), free(gradient[b]);
    }
}

// ---- closed forms --------------------------------------------------------------------------

static const double g = 9.81;

// Second derivative of number k of the final state for two inputs, a number of x0 or of parameters.
static double second_derivative(const problem* p, uint32_t k, size_t a, size_t b) {
    double *v = doubles(p->ninput), *gradient = doubles(p->ninput), *product = doubles(p->ninput);
    double* seeds = doubles(p->nstate + p->nobserved);
    ns_error error = {0};
    v[b] = 1.0;
    seeds[(size_t)p->steps * p->n.nx + k] = 1.0;
    ns_rollout_args args = problem_args(p, p->input);
    ns_rollout_tangent direction = problem_direction(p, v);
    ns_rollout_adjoint first = problem_adjoint(p, seeds, gradient);
    ns_rollout_adjoint second = problem_adjoint(p, NULL, product);
    second.state_seeds = second.observation_seeds = NULL; // the cost is linear
    must(ns_rollout_hvp(p->system, p->work, &args, &direction, &first, &second, &error), &error);
    double result = product[a];
    free(v), free(gradient), free(product), free(seeds);
    return result;
}

// A system of a text with one family of free parameters, all set to a value.
static problem closed_problem(const char* text, int law, const char* free_param, double value,
                              uint32_t steps, trial* t) {
    ns_system_options o = ns_default_system_options();
    o.contact = law;
    o.free_params = &free_param;
    o.nfree = 1;
    *t = trial_make(text, &o, 1);
    problem p = problem_create(t->system, 1, steps, (ns_workspace_size){.threads = 1});
    for (uint32_t k = 0; k < p.n.np; k++) p.input[p.nx0 + p.ncontrol + k] = value;
    return p;
}

// Two equal balls: va+ = mean - e (va - vb) / 2, whose only second derivatives are -1/2 and 1/2.
static void a_collision_has_the_closed_form(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option timestep='0.001' gravity='0 0 0'/><worldbody>"
        "<body pos='-0.5 0 0'><joint type='slide' axis='1 0 0'/>"
        "<geom type='sphere' size='0.1' mass='0.7'/></body><body pos='0.5 0 0'>"
        "<joint type='slide' axis='1 0 0'/><geom type='sphere' size='0.1' mass='0.7'/></body>"
        "</worldbody></mujoco>";
    trial t;
    problem p = closed_problem(text, NS_CONTACT_NCP, "contact/*/restitution", 0.7, 1000, &t);
    size_t e = p.nx0 + p.ncontrol;
    p.input[2] = 1.1, p.input[3] = -0.4;
    close_to("d2 va / d va0 de", second_derivative(&p, 2, 2, e), -0.5, 1e-9);
    close_to("d2 va / d vb0 de", second_derivative(&p, 2, 3, e), 0.5, 1e-9);
    close_to("d2 va / de d va0", second_derivative(&p, 2, e, 2), -0.5, 1e-9);
    close_to("d2 va / d va0^2", second_derivative(&p, 2, 2, 2), 0.0, 1e-9);
    close_to("d2 va / de^2", second_derivative(&p, 2, e, e), 0.0, 1e-9);
    problem_free(&p);
    trial_free(&t);
}

// A ball falls from `drop`, bounces once with e and is at z after T. The impact moves within its step: at
// the share s of it, z gains dt (1 - s) times the velocity at the end of the step, where both are linear in
// the drop with ds = 1 / (v dt). So the second derivative is -2 g (1 + e) / v^2, for any dt. That is not
// the second derivative -2.82 of the height of a real ball; see contact-gradients.md.
static void a_bounce_has_the_closed_form(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option timestep='0.0005'/><worldbody>" FLOOR
        "<body pos='0 0 0.6'><joint type='slide' axis='0 0 1'/>"
        "<geom type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";
    const double e = 0.8, drop = 0.5, T = 0.5, at = sqrt(2.0 * drop / g), v = g * at;
    trial t;
    problem p = closed_problem(text, NS_CONTACT_NCP, "contact/*/restitution", e, 1000, &t);
    size_t e_at = p.nx0 + p.ncontrol;

    // z = e v (T - at) - g (T - at)^2 / 2 - drop with at' = 1 / v, v' = g / v.
    double mixed = g / v * (T - at) - 1.0, inside = -2.0 * g * (1.0 + e) / (v * v);
    close_to("d2z / d drop de", second_derivative(&p, 0, 0, e_at), mixed, 5e-3 * fabs(mixed));
    close_to("d2z / d drop^2", second_derivative(&p, 0, 0, 0), inside, 5e-3 * fabs(inside));
    close_to("d2z / de^2", second_derivative(&p, 0, e_at, e_at), 0.0, 1e-9);
    problem_free(&p);
    trial_free(&t);
}

static const char block[] =
    "<mujoco><option timestep='0.001'/><worldbody>" FLOOR
    "<body pos='0 0 0.1'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 1 0'/>"
    "<joint type='slide' axis='0 0 1'/><geom type='box' size='0.2 0.15 0.1' mass='2'/></body>"
    "</worldbody></mujoco>";

enum { BLOCK_VX = 3, BLOCK_VY = 4 };

// A block slides with velocity (v, w): x(T) = v T - mu g T^2 v / (2 |(v, w)|). Friction turns with the
// velocity: the curvature of the cone.
static void sliding_has_the_curvature_of_the_cone(void** state) {
    (void)state;
    static const int rigid[] = {NS_CONTACT_NCP, NS_CONTACT_BAUMGARTE, NS_CONTACT_CONVEX};
    const double mu = 0.3, v = 1.5, w = 1.0, T = 0.2, s = hypot(v, w), f = -0.5 * g * T * T;
    for (size_t l = 0; l < 3; l++) {
        trial t;
        problem p = closed_problem(block, rigid[l], "contact/*/mu", mu, 200, &t);
        size_t mu_at = p.nx0 + p.ncontrol;
        if (rigid[l] == NS_CONTACT_CONVEX) p.input[2] = mu * s * p.n.timestep; // it slides there
        p.input[BLOCK_VX] = v, p.input[BLOCK_VY] = w;
        double vv = mu * f * -3.0 * v * w * w / pow(s, 5.0);
        double vw = mu * f * w * (2.0 * v * v - w * w) / pow(s, 5.0);
        double vmu = f * w * w / pow(s, 3.0), got = 0.0;
        for (uint32_t k = 0; k < p.n.np; k++) {
            got += second_derivative(&p, 0, BLOCK_VX, mu_at + k);
        }
        close_to("d2x / dv2", second_derivative(&p, 0, BLOCK_VX, BLOCK_VX), vv, 1e-2 * vv);
        close_to("d2x / dv dw", second_derivative(&p, 0, BLOCK_VX, BLOCK_VY), vw, -1e-2 * vw);
        close_to("d2x / dv dmu", got, vmu, -2e-2 * vmu);
        problem_free(&p);
        trial_free(&t);
    }
}

// A block slides to rest over v^2 / (2 mu g). With rigid contact the step in which it stops is held fixed,
// and so the distance is linear in v; springs, which are smooth, have most of the curvature.
static void stopping_has_the_curvature_of_its_step(void** state) {
    (void)state;
    const double mu = 0.4, v = 1.5;
    trial t;
    problem p = closed_problem(block, NS_CONTACT_NCP, "contact/*/mu", mu, 1000, &t);
    p.input[BLOCK_VX] = v;
    close_to("rigid", second_derivative(&p, 0, BLOCK_VX, BLOCK_VX), 0.0, 1e-6);
    problem_free(&p);
    trial_free(&t);
    p = closed_problem(block, NS_CONTACT_SPRING, "contact/*/mu*", mu, 1000, &t);
    double* gradient = doubles(p.ninput);
    for (int settle = 0; settle < 5; settle++) { // first it sinks in
        gradient_at(&p, p.input, gradient);
        memcpy(p.input, p.states + p.nstate - p.nx0, p.nx0 * sizeof(double));
    }
    free(gradient);
    p.input[BLOCK_VX] = v;
    double vv = second_derivative(&p, 0, BLOCK_VX, BLOCK_VX), vmu = 0.0, mumu = 0.0;
    for (size_t a = p.nx0 + p.ncontrol; a < p.ninput; a++) { // mu_static follows mu
        vmu += second_derivative(&p, 0, BLOCK_VX, a);
        for (size_t b = p.nx0 + p.ncontrol; b < p.ninput; b++) {
            mumu += second_derivative(&p, 0, a, b);
        }
    }
    print_message("springs: d2/dv2 %.4f, d2/dv dmu %.4f, d2/dmu2 %.4f\n", vv, vmu, mumu);
    close_to("springs, v v", vv, 1.0 / (mu * g), 1e-3 / (mu * g));
    close_to("springs, v mu", vmu, -v / (mu * mu * g), 1e-3 * v / (mu * mu * g));
    close_to("springs, mu mu", mumu, v * v / (pow(mu, 3.0) * g), 1e-3 * v * v / (pow(mu, 3.0) * g));
    problem_free(&p);
    trial_free(&t);
}

// ---- batches -------------------------------------------------------------------------------

// A robot in a batch, with few stored states and several threads, as if it were alone; no allocation.
static void batches_give_the_same_bits(void** state) {
    (void)state;
    enum { BATCH = 7, STEPS = 60 };
    static const char* const free_params[] = {"link/*/mass", "contact/*/mu"};
    ns_system_options o = ns_default_system_options();
    o.free_params = free_params;
    o.nfree = 2;
    ns_model* model = modelfile_parse(scenes[2].text);
    ns_system* system = make_system(model, &o);
    problem all = problem_create(system, BATCH, STEPS, (ns_workspace_size){.threads = 2});
    problem one = problem_create(system, 1, STEPS, (ns_workspace_size){.threads = 1});
    problem few = problem_create(system, BATCH, STEPS,
                                 (ns_workspace_size){.threads = 3, .max_bytes = 300000});
    const size_t nx = all.n.nx, nc = (size_t)STEPS * all.n.nc, rows = (STEPS + 1) * nx;
    ns_rng rng = ns_rng_seed(9);
    for (size_t k = 0; k < all.nstate; k++) all.weight[k] = ns_rng_normal(&rng);
    ns_model_default_q(model, one.input);
    for (uint32_t b = 0; b < BATCH; b++) {
        double* x = all.input + b * nx;
        memcpy(x, one.input, nx * sizeof *x);
        x[3] = 0.0999;
        for (size_t k = 8; k < nx; k++) x[k] = 0.3 * ns_rng_normal(&rng);
        x[8] = 1.5;
    }
    memcpy(few.input, all.input, all.ninput * sizeof(double));
    memcpy(few.weight, all.weight, all.nstate * sizeof(double));
    double* v = random_direction(&all, &rng);
    double *gradient = doubles(all.ninput), *product = doubles(all.ninput);
    double *gradient2 = doubles(all.ninput), *product2 = doubles(all.ninput);
    double *v1 = doubles(one.ninput), *sum = doubles(2 * all.n.np);
    hvp_at(&all, v, gradient, product);
    hvp_at(&few, v, gradient2, product2);
    unsigned long before = malloc_calls; // threads have started
    hvp_at(&few, v, gradient2, product2);
    assert_int_equal(malloc_calls, before);
    for (size_t k = 0; k < all.ninput; k++) {
        assert_true(check_same_bits(gradient[k], gradient2[k]));
        assert_true(check_same_bits(product[k], product2[k]));
    }

    for (uint32_t b = 0; b < BATCH; b++) {
        memcpy(one.input, all.input + b * nx, nx * sizeof(double));
        memcpy(one.input + nx, all.input + all.nx0 + b * nc, nc * sizeof(double));
        memcpy(one.weight, all.weight + b * rows, rows * sizeof(double));
        memcpy(v1, v + b * nx, nx * sizeof *v1);
        memcpy(v1 + nx, v + all.nx0 + b * nc, nc * sizeof *v1);
        memcpy(v1 + nx + nc, v + all.nx0 + all.ncontrol, all.n.np * sizeof *v1);
        hvp_at(&one, v1, gradient2, product2);
        for (size_t k = 0; k < nx + nc; k++) {
            size_t at = k < nx ? b * nx + k : all.nx0 + b * nc + k - nx;
            assert_true(check_same_bits(product[at], product2[k]));
            assert_true(check_same_bits(gradient[at], gradient2[k]));
        }
        for (uint32_t k = 0; k < all.n.np; k++) {
            sum[k] += gradient2[nx + nc + k];
            sum[all.n.np + k] += product2[nx + nc + k];
        }
    }
    for (uint32_t k = 0; k < all.n.np; k++) { // sums over robots, in order
        assert_true(sum[k] == gradient[all.nx0 + all.ncontrol + k]);
        assert_true(sum[all.n.np + k] == product[all.nx0 + all.ncontrol + k]);
    }
    double* buffers[] = {v, gradient, product, gradient2, product2, v1, sum};
    for (size_t k = 0; k < sizeof buffers / sizeof *buffers; k++) free(buffers[k]);
    problem_free(&all);
    problem_free(&one);
    problem_free(&few);
    ns_system_free(system);
    ns_model_free(model);
}

// ---- what goes wrong -----------------------------------------------------------------------

static void misuse_is_explained(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(PENDULUM);
    ns_system* system = make_system(model, NULL);
    ns_error error = {0};
    double x0[4] = {0.3, 0.2, 0.0, 0.0}, out[4];
    ns_rollout_args args = {.batch = 1, .steps = 2, .x0 = x0};
    ns_rollout_tangent direction = {.dx0 = x0};
    ns_rollout_adjoint gradient = {.dx0 = out}, product = {.dx0 = out};
    ns_workspace* work = make_work(system, (ns_workspace_size){.batch = 1, .steps = 2});
    ns_status status = ns_rollout_hvp(system, work, &args, &direction, &gradient, &product, &error);
    assert_int_equal(status, NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "ns_system_build_hvp()"));

    // A workspace from before the build has no room.
    must(ns_system_build_hvp(system, &error), &error);
    must(ns_system_build_hvp(system, &error), &error);
    status = ns_rollout_hvp(system, work, &args, &direction, &gradient, &product, &error);
    assert_int_equal(status, NS_ERR_ARGUMENT);
    must(ns_rollout(system, work, &args, &error), &error); // but still does the rest
    must(ns_rollout_vjp(system, work, &args, &gradient, &error), &error);
    ns_workspace_free(work);

    work = make_work(system, (ns_workspace_size){.batch = 1, .steps = 2});
    must(ns_rollout_hvp(system, work, &args, &direction, &gradient, &product, &error), &error);
    status = ns_rollout_hvp(system, work, &args, NULL, &gradient, &product, &error);
    assert_int_equal(status, NS_ERR_ARGUMENT);
    ns_gradient_certificate certificate;
    gradient.certificate = &certificate;
    status = ns_rollout_hvp(system, work, &args, &direction, &gradient, &product, &error);
    assert_int_equal(status, NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "certificate"));
    gradient.certificate = NULL;
    args.steps = 3;
    status = ns_rollout_hvp(system, work, &args, &direction, &gradient, &product, &error);
    assert_int_equal(status, NS_ERR_ARGUMENT);
    args.steps = 2;
    x0[2] = 1e200;
    status = ns_rollout_hvp(system, work, &args, &direction, &gradient, &product, &error);
    assert_int_equal(status, NS_ERR_NONFINITE);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_have_second_derivatives),
        cmocka_unit_test(weights_have_second_derivatives),
        cmocka_unit_test(contact_has_second_derivatives),
        cmocka_unit_test(backends_agree_on_products),
        cmocka_unit_test(a_collision_has_the_closed_form),
        cmocka_unit_test(a_bounce_has_the_closed_form),
        cmocka_unit_test(sliding_has_the_curvature_of_the_cone),
        cmocka_unit_test(stopping_has_the_curvature_of_its_step),
        cmocka_unit_test(batches_give_the_same_bits),
        cmocka_unit_test(misuse_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
