// Gradients of rollouts: for every parameter, and over long runs.

#include "base/common.h"
#include "model/model_data.h"
#include "neuralsim/sim.h"
#include "sim/rollout_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/malloccount.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- derivatives ---------------------------------------------------------------------------

// Where in the list of inputs (x0, controls, parameters) a number is.
static double* input_at(const rig* r, const run* u, double* params, size_t i) {
    if (i < r->n.nx) return u->x0 + i;
    i -= r->n.nx;
    return i < u->ncontrol ? u->controls + i : params + (i - u->ncontrol);
}

static double loss(const rig* r, const run* u, const double* states, const double* observations,
                   double* size) {
    double sum = 0.0;
    *size = 0.0;
    for (size_t i = 0; i < (u->steps + 1) * (size_t)r->n.nx; i++) {
        sum += u->state_seeds[i] * states[i];
        *size += fabs(u->state_seeds[i] * states[i]);
    }
    for (size_t i = 0; i < u->steps * (size_t)r->n.ny; i++) {
        sum += u->observation_seeds[i] * observations[i];
        *size += fabs(u->observation_seeds[i] * observations[i]);
    }
    return sum;
}

// The step of central differences for an input of this size: inertias are small numbers.
static double difference_step(const char* name, double value) {
    double scale = strstr(name, "/inertia/") ? 0.01 : 0.1;
    return 1e-3 * fmax(scale, fabs(value));
}

// d loss / d input i by central differences of sixth order, at steps h and h / 2.
enum { POINTS = 12 };

static const double weights[3] = {45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0};

static double point_offset(uint32_t p) { // -3 -2 -1 1 2 3, then halves of that
    int k = (int)(p % 6) - 3;
    return (p < 6 ? 1.0 : 0.5) * (k >= 0 ? k + 1 : k);
}

typedef struct slope {
    double coarse, fine, noise;
} slope;

// All slopes in one batch.
static void differences(const rig* r, run* u, const double* h, size_t ninput, slope* out) {
    size_t batch = ninput * POINTS, nx = r->n.nx, nc = u->ncontrol, np = r->n.np;
    double *x0 = doubles(batch * nx), *controls = doubles(batch * nc);
    double *params = doubles(batch * np), *values = doubles(np), *losses = doubles(batch);
    double* states = doubles(batch * (u->steps + 1) * nx);
    double* observations = doubles(batch * u->steps * r->n.ny);
    ns_system_default_params(r->system, values);
    for (size_t b = 0; b < batch; b++) {
        double* input = input_at(r, u, values, b / POINTS);
        double kept = *input;
        *input += point_offset((uint32_t)(b % POINTS)) * h[b / POINTS];
        memcpy(x0 + b * nx, u->x0, nx * sizeof *x0);
        memcpy(controls + b * nc, u->controls, nc * sizeof *controls);
        memcpy(params + b * np, values, np * sizeof *params);
        *input = kept;
    }
    ns_error error = {0};
    ns_workspace_size size = {.batch = (uint32_t)batch, .steps = u->steps, .threads = 1};
    ns_workspace* work = make_work(r->system, size);
    ns_rollout_args args = {.batch = (uint32_t)batch, .steps = u->steps, .x0 = x0};
    args.controls = controls;
    args.params = params;
    args.per_robot_params = true;
    args.states = states;
    args.observations = observations;
    must(ns_rollout(r->system, work, &args, &error), &error);
    for (size_t i = 0; i < ninput; i++) {
        out[i] = (slope){0};
        for (uint32_t p = 0; p < POINTS; p++) {
            size_t b = i * POINTS + p;
            double extent, offset = point_offset(p), value;
            value = loss(r, u, states + b * (u->steps + 1) * nx,
                         observations + b * u->steps * r->n.ny, &extent);
            int k = (int)(fabs(offset) * (p < 6 ? 1.0 : 2.0) + 0.5) - 1;
            double weight = (offset > 0.0 ? 1.0 : -1.0) * weights[k] / h[i];
            if (p < 6) out[i].coarse += weight * value;
            if (p >= 6) out[i].fine += 2.0 * weight * value;
            // Each term of the loss carries some ten roundings of its own.
            out[i].noise = fmax(out[i].noise, 10.0 * DBL_EPSILON * extent / h[i]);
        }
    }
    free(x0), free(controls), free(params), free(values), free(losses), free(states);
    free(observations);
    ns_workspace_free(work);
}

// Does this parameter have any effect? By what the header says, not by what was traced.
static bool acts(const rig* r, uint32_t param) {
    const ns_model* model = r->model;
    for (uint32_t i = 0; i < r->z.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (param < l->param || param >= l->param + NSI_LINK_PARAMS) continue;
        uint32_t k = param - l->param, up = i;
        ns_joint_type type = l->def.joint_type;
        bool axis = type == NS_JOINT_REVOLUTE || type == NS_JOINT_PRISMATIC;
        while (up != NSI_NONE && model->links[up].def.joint_type == NS_JOINT_FIXED) {
            up = model->links[up].parent;
        }
        if (k < NSI_JOINT_ORIGIN) return up != NSI_NONE; // not when welded to the world
        if (k < NSI_JOINT_AXIS) return type != NS_JOINT_FLOATING;
        if (k <= NSI_JOINT_REST) return axis;
        if (k <= NSI_JOINT_ARMATURE) return type != NS_JOINT_FIXED;
        return l->def.limited;
    }
    for (uint32_t i = 0; i < r->z.nu; i++) {
        const nsi_actuator* a = &model->actuators[i];
        uint32_t end = i + 1 < r->z.nu ? model->actuators[i + 1].param : model->gravity_param;
        if (param < a->param || param >= end) continue;
        if (model->params[param].kind == NS_PARAM_ACTUATOR_LIMIT) return true; // when reached
        ns_actuator_type type = a->def.type;
        uint32_t k = param - a->param;
        if (k == NSI_ACTUATOR_KP) {
            return type == NS_ACTUATOR_POSITION || type == NS_ACTUATOR_SERIES_ELASTIC;
        }
        return k == NSI_ACTUATOR_GEAR || type != NS_ACTUATOR_TORQUE;
    }
    return true; // gravity
}

// Kinds of parameters: the name without that of the link, joint or actuator.
enum { MAX_KINDS = 64 };

typedef struct kinds {
    uint32_t count;
    char name[MAX_KINDS][40];
    uint32_t checked[MAX_KINDS]; // parameters whose gradient stands out of the noise
} kinds;

static void count_kind(kinds* all, const char* name, bool clear) {
    char kind[40];
    const char *first = strchr(name, '/'), *second = first ? strchr(first + 1, '/') : NULL;
    bool of_world = strncmp(name, "world/", 6) == 0;
    snprintf(kind, sizeof kind, "%.*s%.30s", (int)(first - name), name, of_world ? first : second);
    uint32_t k = 0;
    while (k < all->count && strcmp(all->name[k], kind) != 0) k++;
    assert_true(k < MAX_KINDS);
    if (k == all->count) memcpy(all->name[all->count++], kind, sizeof kind);
    all->checked[k] += clear;
}

// The tolerance of central differences: where steps h and h/2 agree to a tenth of it, the finer
// one, whose error is 64 times smaller, is better than that.
static const double GRADIENT = 1e-7;

typedef struct gradient_residuals {
    residual transpose, slope;
    uint32_t undecided;
    kinds kinds;
} gradient_residuals;

static void check_gradient(const rig* r, ns_rng* rng, uint32_t steps, gradient_residuals* g) {
    run u = run_create(r, rng, 1, steps);
    run_all(r, &u, (ns_workspace_size){.threads = 1}, false);
    size_t ninput = r->n.nx + u.ncontrol + r->n.np;

    // Forward against reverse: <seeds, J t> = <J' seeds, t>.
    double left = 0.0, right = 0.0, extent;
    left = loss(r, &u, u.dstates, u.dobservations, &extent);
    for (size_t i = 0; i < r->n.nx; i++) right += u.dx0[i] * u.tx0[i];
    for (size_t i = 0; i < u.ncontrol; i++) right += u.dcontrols[i] * u.tcontrols[i];
    for (size_t i = 0; i < r->n.np; i++) right += u.dparams[i] * u.tparams[i];
    residual_add(&g->transpose, left, right, extent);

    // Every component against central differences.
    double *h = doubles(ninput), *values = doubles(r->n.np);
    slope* slopes = calloc(ninput + 1, sizeof *slopes);
    assert_non_null(slopes);
    ns_system_default_params(r->system, values);
    for (size_t i = 0; i < ninput; i++) {
        size_t p = i - r->n.nx - u.ncontrol;
        bool parameter = i >= r->n.nx + u.ncontrol;
        const char* name = parameter ? ns_system_param_name(r->system, (uint32_t)p) : "";
        h[i] = difference_step(name, parameter ? values[p] : 1.0);
    }
    differences(r, &u, h, ninput, slopes);
    for (size_t i = 0; i < ninput; i++) {
        size_t p = i - r->n.nx - u.ncontrol;
        bool parameter = i >= r->n.nx + u.ncontrol;
        double got = i < r->n.nx ? u.dx0[i] : parameter ? u.dparams[p] : u.dcontrols[i - r->n.nx];
        slope s = slopes[i];
        if (parameter && !acts(r, (uint32_t)p)) {
            const char* name = ns_system_param_name(r->system, (uint32_t)p);
            if (got != 0.0 || fabs(s.coarse) > s.noise) fail_msg("%s acts, but should not", name);
            continue;
        }
        if (fabs(s.coarse - s.fine) > 0.1 * GRADIENT * fabs(s.fine) + s.noise) {
            g->undecided++; // a kink within the step
            continue;
        }
        // Off by the noise is off by the tolerance.
        residual_add(&g->slope, got, s.fine, fmax(fabs(s.fine), s.noise / GRADIENT));
        if (parameter) {
            count_kind(&g->kinds, ns_system_param_name(r->system, (uint32_t)p),
                       fabs(s.fine) > 1e3 * s.noise);
        }
    }
    free(h), free(values), free(slopes);
    run_free(&u);
}

static void check_gradients(random_tree_options tree, int integrator, uint64_t seed, uint32_t cases,
                            gradient_residuals* g) {
    ns_rng rng = ns_rng_seed(seed);
    ns_system_options options = full_options();
    options.integrator = integrator;
    for (uint32_t n = 0; n < cases; n++) {
        rig r = rig_create(tree, seed + n, 1 + n % 6, &options);
        check_gradient(&r, &rng, 8, g);
        rig_free(&r);
    }
}

static void every_parameter_has_its_gradient(void** state) {
    (void)state;
    gradient_residuals g = {
        .transpose = {.name = "reverse against forward mode", .tolerance = 1e-12},
        .slope = {.name = "reverse mode against central differences", .tolerance = GRADIENT}};
    random_tree_options no_mimic = everything;
    no_mimic.mimic = false;
    check_gradients(no_mimic, NS_INTEGRATOR_EULER, 1000, 18, &g);
    check_gradients(everything, NS_INTEGRATOR_EULER, 2000, 12, &g);
    check_gradients(everything, NS_INTEGRATOR_RK4, 3000, 6, &g);
    check_gradients(everything, NS_INTEGRATOR_IMPLICIT, 4000, 6, &g);
    printf("    %u slopes undecided, %u kinds of parameters\n", g.undecided, g.kinds.count);
    residual_check(&g.transpose);
    residual_check(&g.slope);
    assert_true(g.undecided * 100 < g.slope.count);
    // 10 of a link, 19 of a joint, 3 and 4 limits of an actuator, 3 of the world.
    assert_int_equal(g.kinds.count, 39);
    for (uint32_t k = 0; k < g.kinds.count; k++) {
        // Limits of actuators act where they are reached.
        bool limit = strncmp(g.kinds.name[k], "actuator/", 9) == 0 && strchr(g.kinds.name[k], '_');
        if (g.kinds.checked[k] < (limit ? 1 : 3)) {
            fail_msg("%s has a gradient in %u cases only", g.kinds.name[k], g.kinds.checked[k]);
        }
    }
}

// ---- long runs -----------------------------------------------------------------------------

// 1e5 steps: everything finite, quaternions of unit length. The Newton step of each time step
// leaves a few roundings.
static void a_hundred_thousand_steps_stay_finite(void** state) {
    (void)state;
    static const struct {
        ns_joint_type type;
        int integrator;
    } cases[] = {{NS_JOINT_FLOATING, NS_INTEGRATOR_EULER},
                 {NS_JOINT_FLOATING, NS_INTEGRATOR_RK4},
                 {NS_JOINT_SPHERICAL, NS_INTEGRATOR_EULER},
                 {NS_JOINT_SPHERICAL, NS_INTEGRATOR_RK4},
                 {NS_JOINT_SPHERICAL, NS_INTEGRATOR_IMPLICIT}};
    enum { STEPS = 100000 };
    residual unit = {.name = "length of quaternions over 1e5 steps", .tolerance = 1e-14};
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        random_tree tree = {.world = ns_default_world_def(), .nlink = 1};
        ns_link_def link = ns_default_link_def();
        link.name = "body";
        link.joint_type = cases[n].type;
        link.mass = 1.2;
        link.com[0] = 0.1, link.com[2] = -0.3;
        link.inertia[0] = 0.02, link.inertia[1] = 0.03, link.inertia[2] = 0.045;
        // A free body falls for 100 s otherwise, and loses digits with the distance.
        if (link.joint_type == NS_JOINT_FLOATING) tree.world.gravity[2] = 0.0;
        link.damping = cases[n].integrator == NS_INTEGRATOR_IMPLICIT ? 0.01 : 0.0;
        tree.link[0] = link;
        ns_model* model = random_tree_build(&tree, NULL);
        ns_system_options options = ns_default_system_options();
        options.integrator = cases[n].integrator;
        ns_system* system = make_system(model, &options);
        ns_workspace* work =
            make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
        uint32_t nx = ns_system_get_sizes(system).nx, nq = ns_model_get_sizes(model).nq;
        double x0[13] = {0.0}, *states = doubles((STEPS + 1) * (size_t)nx);
        ns_model_default_q(model, x0);
        x0[nx - 3] = 7.0, x0[nx - 2] = -3.0, x0[nx - 1] = 0.5; // tumbling
        ns_error error = {0};
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
        must(ns_rollout(system, work, &args, &error), &error);
        double turned = 0.0;
        for (size_t k = 0; k <= STEPS; k++) {
            const double* q = states + k * nx + nq - 4;
            residual_add(&unit, sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]), 1.0,
                         1.0);
            turned = fmax(turned, fabs(q[1]));
            for (uint32_t i = 0; i < nx; i++) assert_true(isfinite(states[k * nx + i]));
        }
        assert_true(turned > 0.5);
        free(states);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
    residual_check(&unit);
}

// Trees with everything that acts on joints, damped so that they come to rest, over 1e5 steps: states
// and gradients stay finite, and the checkpointed reverse sweep is still the transpose of the forward
// one. Seeds stand at an early step, while there is motion, and at the end.
static void long_runs_of_trees_have_gradients(void** state) {
    (void)state;
    enum { STEPS = 100000, EARLY = 1500 };
    residual r = {.name = "<s, J v> = <J's, v> over 1e5 steps", .tolerance = 1e-9};
    for (uint32_t n = 0; n < 3; n++) {
        random_tree tree;
        random_tree_options o = {.seed = 900 + n, .nlink = 5, .root = ROOT_WORLD, .forces = true};
        random_tree_make(&tree, &o);
        for (uint32_t i = 0; i < tree.nlink; i++) {
            if (tree.link[i].joint_type != NS_JOINT_FIXED) tree.link[i].damping = 0.8;
        }
        ns_model* model = random_tree_build(&tree, NULL);
        ns_system_options options = ns_default_system_options();
        options.integrator = NS_INTEGRATOR_IMPLICIT;
        ns_system* system = make_system(model, &options);
        ns_workspace_size size = {
            .batch = 1, .steps = STEPS, .threads = 1, .max_bytes = (size_t)4 << 20};
        ns_workspace* work = make_work(system, size);
        uint32_t nx = ns_system_get_sizes(system).nx, nq = ns_model_get_sizes(model).nq;
        ns_rng rng = ns_rng_seed(n);
        double *x0 = doubles(nx), *v = doubles(nx), *dx0 = doubles(nx);
        double *seeds = doubles((STEPS + 1) * (size_t)nx),
               *dstates = doubles((STEPS + 1) * (size_t)nx);
        random_state(model, &rng, x0, x0 + nq);
        for (uint32_t i = 0; i < nx; i++) {
            v[i] = ns_rng_normal(&rng);
            seeds[(size_t)EARLY * nx + i] = ns_rng_normal(&rng);
            seeds[(size_t)STEPS * nx + i] = ns_rng_normal(&rng);
        }
        ns_error error = {0};
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0};
        ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
        ns_rollout_tangent tangent = {.dx0 = v, .dstates = dstates};
        must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
        must(ns_rollout_jvp(system, work, &args, &tangent, &error), &error);
        double forward = 0.0, reverse = 0.0, size_of = 0.0;
        for (uint32_t i = 0; i < nx; i++) {
            const size_t at[2] = {(size_t)EARLY * nx + i, (size_t)STEPS * nx + i};
            for (int k = 0; k < 2; k++) {
                forward += seeds[at[k]] * dstates[at[k]];
                size_of += fabs(seeds[at[k]] * dstates[at[k]]);
            }
            reverse += dx0[i] * v[i];
            size_of += fabs(dx0[i] * v[i]);
        }
        assert_true(size_of > 1e-6);
        residual_add(&r, forward, reverse, size_of);
        free(x0);
        free(v);
        free(dx0);
        free(seeds);
        free(dstates);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
    residual_check(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_has_its_gradient),
        cmocka_unit_test(a_hundred_thousand_steps_stay_finite),
        cmocka_unit_test(long_runs_of_trees_have_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
