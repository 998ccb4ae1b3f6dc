// Gradient-based optimisation through contact: throw a cube so that it comes to rest at a place, throw a
// ball over bounces to a target, push a box at mu = 1. Targets are where random trials end, and first
// guesses are other random trials.

#include "contact/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double HIT = 0.01; // m
enum { VARIABLES = 3, COORDINATES = 2, STARTS = 8, STAGES = 4 };

// A number of the initial state, or a control that is the same in all steps; its range in random trials.
typedef struct target_variable {
    bool is_control;
    uint32_t index;
    double low, high;
} target_variable;

typedef struct target_scene {
    const char *name, *file, *text; // of the model: one of the two
    uint32_t steps;
    double mu, restitution;
    double start[8]; // q
    uint32_t nvariable;
    target_variable variable[VARIABLES];
    uint32_t ncoordinate, coordinate[COORDINATES]; // of the final state
    bool fixed;                                    // the target is `place`, not where a trial ends
    double place[COORDINATES];
} target_scene;

#define FLOOR "<geom name='floor' type='plane' size='5 5 1'/>"
static const char cube_text[] =
    "<mujoco><option timestep='0.001'/><worldbody>" FLOOR
    "<body><freejoint/><geom name='cube' type='box' size='.05 .05 .05' mass='.4'/></body>"
    "</worldbody></mujoco>";
static const char ball_text[] =
    "<mujoco><option timestep='0.002'/><worldbody>" FLOOR
    "<body pos='0 0 0'><joint name='x' type='slide' axis='1 0 0'/>"
    "<joint name='z' type='slide' axis='0 0 1'/><joint name='turn' axis='0 1 0'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

#define BALL(seconds, steps_)                                                                      \
    {                                                                                              \
        .name = "ball to a target over bounces, " #seconds " s", .text = ball_text,                \
        .steps = steps_, .mu = 0.3, .restitution = 0.8, .start = {0.0, 1.0}, .nvariable = 2,       \
        .variable = {{false, 3, -1.5, 1.5}, {false, 4, -2.0, 2.0}}, .ncoordinate = 2,              \
        .coordinate = {                                                                            \
            0,                                                                                     \
            1                                                                                      \
        }                                                                                          \
    }

static const target_scene target_scenes[] = {
    {.name = "cube to a place",
     .text = cube_text,
     .steps = 1000,
     .mu = 0.5,
     .start = {0.0, 0.0, 0.4, 0.9, 0.3, 0.2, 0.245},
     .nvariable = 3,
     .variable = {{false, 7, -1.5, 1.5}, {false, 8, -1.5, 1.5}, {false, 9, -1.0, 1.0}},
     .ncoordinate = 2,
     .coordinate = {0, 1}},
    BALL(0.8, 400),
    BALL(1.5, 750),
    BALL(3.0, 1500),
    {.name = "box pushed to 0.5 m at mu 1",
     .file = "push.xml",
     .steps = 1000,
     .mu = 1.0,
     .start = {0.0, 0.0, 0.02, 0.1, 1.0, 0.0, 0.0},
     .nvariable = 2,
     .variable = {{false, 8, 0.3, 2.0}, {true, 0, 0.0, 30.0}},
     .ncoordinate = 1,
     .coordinate = {1},
     .fixed = true,
     .place = {0.5}},
};
enum { TARGET_SCENES = sizeof target_scenes / sizeof *target_scenes };

typedef struct target_problem {
    const target_scene* scene;
    rig r;
    ns_smoother* smoother;
    double target[COORDINATES];
    double share; // of the ranges of variables: standard deviation of smoothing
    double *seeds, *dx0, *dcontrols;
} target_problem;

static double range_of(const target_variable* v) {
    return v->high - v->low;
}

// Variables are in units of their ranges.
static void set_variables(target_problem* p, const double* x) {
    rig* r = &p->r;
    for (uint32_t k = 0; k < p->scene->nvariable; k++) {
        const target_variable* v = &p->scene->variable[k];
        double value = x[k] * range_of(v);
        if (!v->is_control) r->x0[v->index] = value;
        for (uint32_t i = 0; i < r->steps && v->is_control; i++) {
            r->controls[(size_t)i * r->n.nc + v->index] = value;
        }
    }
}

// Half the square of the distance from the target.
static double target_cost(void* context, const double* states, const double* observations,
                          double* dstates, double* dobservations) {
    (void)observations, (void)dobservations;
    const target_problem* p = context;
    size_t end = (size_t)p->r.steps * p->r.n.nx;
    double cost = 0.0;
    for (uint32_t k = 0; k < p->scene->ncoordinate; k++) {
        size_t at = end + p->scene->coordinate[k];
        dstates[at] = states[at] - p->target[k];
        cost += 0.5 * dstates[at] * dstates[at];
    }
    return cost;
}

static ns_rollout_args target_args(const target_problem* p) {
    return (ns_rollout_args){.batch = 1,
                             .steps = p->r.steps,
                             .x0 = p->r.x0,
                             .controls = p->r.controls,
                             .params = p->r.params};
}

static double exact_cost(void* context, const double* x, double* gradient) {
    target_problem* p = context;
    rig* r = &p->r;
    set_variables(p, x);
    if (!rig_run(r, r->steps)) return INFINITY;
    double cost = target_cost(p, r->states, NULL, p->seeds, NULL);
    if (!gradient) return cost;
    ns_rollout_args args = target_args(p);
    ns_rollout_adjoint adjoint = {
        .state_seeds = p->seeds, .dx0 = p->dx0, .dcontrols = p->dcontrols};
    if (ns_rollout_vjp(r->system, r->work, &args, &adjoint, NULL) != NS_OK) return INFINITY;
    for (uint32_t k = 0; k < p->scene->nvariable; k++) {
        const target_variable* v = &p->scene->variable[k];
        double sum = v->is_control ? 0.0 : p->dx0[v->index];
        for (uint32_t i = 0; i < r->steps && v->is_control; i++) {
            sum += p->dcontrols[(size_t)i * r->n.nc + v->index];
        }
        gradient[k] = sum * range_of(v);
    }
    return cost;
}

// The same, averaged over trials nearby.
static double smoothed_cost(void* context, const double* x, double* gradient) {
    target_problem* p = context;
    rig* r = &p->r;
    double *sigma = trial_alloc(r->n.nx + r->n.nc, sizeof *sigma), *control_sigma = sigma + r->n.nx;
    ns_smoothed_derivative* d = trial_alloc(r->n.nx + r->n.nc, sizeof *d);
    set_variables(p, x);
    for (uint32_t k = 0; k < p->scene->nvariable; k++) {
        const target_variable* v = &p->scene->variable[k];
        (v->is_control ? control_sigma : sigma)[v->index] = p->share * range_of(v);
    }
    ns_rollout_args args = target_args(p);
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 16;
    smoothing.x0_sigma = sigma;
    smoothing.control_sigma = control_sigma;
    smoothing.hold_controls = true;
    ns_smoothed_gradient result = {.dx0 = d, .dcontrols = d + r->n.nx};
    ns_status status =
        ns_rollout_smoothed_gradient(p->smoother, &args, &smoothing, target_cost, p, &result, NULL);
    for (uint32_t k = 0; k < p->scene->nvariable && gradient; k++) {
        const target_variable* v = &p->scene->variable[k];
        gradient[k] = d[v->is_control ? r->n.nx + v->index : v->index].estimate * range_of(v);
    }
    free(sigma), free(d);
    return status == NS_OK ? result.value : INFINITY;
}

// L-BFGS with the exact gradient; returns the distance that is left, m.
static double reach(target_problem* p, const double* from) {
    double x[VARIABLES];
    memcpy(x, from, sizeof x);
    ns_solver_result result;
    ns_solver_problem problem = {.n = p->scene->nvariable, .cost = exact_cost, .context = p};
    ns_solver_options lbfgs = {.max_iterations = 100};
    if (ns_minimise("lbfgs", &problem, &lbfgs, x, &result, NULL) != NS_OK) return INFINITY;
    return sqrt(2.0 * exact_cost(p, x, NULL));
}

// Adam with the smoothed gradient, with less noise in each stage, until L-BFGS reaches the target.
static double reach_smoothed(target_problem* p, const double* from) {
    static const double shares[STAGES] = {0.3, 0.1, 0.04, 0.015};
    double x[VARIABLES], left = INFINITY;
    memcpy(x, from, sizeof x);
    ns_solver_result result;
    ns_solver_problem problem = {.n = p->scene->nvariable, .cost = smoothed_cost, .context = p};
    for (int k = 0; k < STAGES && left > HIT; k++) {
        p->share = shares[k];
        ns_solver_options adam = {.max_iterations = 40, .learning_rate = 0.5 * shares[k]};
        if (ns_minimise("adam", &problem, &adam, x, &result, NULL) != NS_OK) return INFINITY;
        left = fmin(left, reach(p, x));
    }
    return left;
}

static void random_variables(ns_rng* rng, const target_scene* scene, double* x) {
    for (uint32_t k = 0; k < scene->nvariable; k++) {
        const target_variable* v = &scene->variable[k];
        x[k] = ns_rng_uniform(rng, v->low, v->high) / range_of(v);
    }
}

static void target_trial(const trial_options* options, const target_scene* scene) {
    char path[4096], what[120], text[200];
    snprintf(path, sizeof path, "%s/%s", options->scenes, scene->file ? scene->file : "");
    ns_param_value set[] = {{"contact/*/mu", scene->mu},
                            {"contact/*/restitution", scene->restitution}};
    ns_system_options o = ns_default_system_options();
    o.set = set;
    o.nset = 2;
    ns_model* model = rig_load(scene->file ? path : NULL, scene->text, false);
    const uint32_t steps = scene->steps;
    target_problem p = {.scene = scene, .r = rig_create(model, &o, 1, steps)};
    ns_error error;
    ns_smoother_size size = {.steps = steps, .threads = 1};
    if (ns_smoother_create(p.r.system, &size, &p.smoother, &error) != NS_OK) {
        trial_die("smoother", error.message);
    }
    p.seeds = trial_alloc((size_t)(steps + 1) * p.r.n.nx, sizeof *p.seeds);
    p.dx0 = trial_alloc(p.r.n.nx, sizeof *p.dx0);
    p.dcontrols = trial_alloc((size_t)steps * p.r.n.nc, sizeof *p.dcontrols);
    memcpy(p.r.x0, scene->start, p.r.nq * sizeof *p.r.x0);

    ns_rng rng = ns_rng_seed(1);
    uint32_t exact = 0, hits = 0, starts = options->quick ? 1 : STARTS;
    for (uint32_t k = 0; k < starts; k++) {
        double aim[VARIABLES] = {0}, first[VARIABLES] = {0};
        random_variables(&rng, scene, aim);
        random_variables(&rng, scene, first);
        memcpy(p.target, scene->place, sizeof p.target);
        if (!scene->fixed) {
            exact_cost(&p, aim, NULL);
            const double* end = rig_state(&p.r, steps);
            for (uint32_t i = 0; i < scene->ncoordinate; i++) {
                p.target[i] = end[scene->coordinate[i]];
            }
        }
        bool hit = reach(&p, first) < HIT;
        exact += hit;
        hits += hit || reach_smoothed(&p, first) < HIT;
    }
    snprintf(what, sizeof what, "L-BFGS, %s", scene->name);
    snprintf(text, sizeof text, "%u of %u (%u with the exact gradient alone)", hits, starts, exact);
    char requested[40];
    snprintf(requested, sizeof requested, "%u of %u", starts, starts);
    trial_row(what, requested, text, hits == starts);
    ns_smoother_free(p.smoother);
    free(p.seeds), free(p.dx0), free(p.dcontrols);
    rig_free(&p.r);
}

void trial_targets(const trial_options* options) {
    for (int k = 0; k < TARGET_SCENES; k++) target_trial(options, &target_scenes[k]);
}
