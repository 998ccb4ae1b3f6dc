// neuralsim gradcheck: the gradient of a rollout, computed three ways.
//
// The function is a random weighted sum of the final state, from a random or given state. Reverse
// mode gives its gradient in one sweep; forward mode and central differences give it again, input by
// input. With contact the function has kinks, which may lie close together: there, differences count
// only as far from the point as those to both sides agree.

#include "cli.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim gradcheck MODEL [OPTIONS]\n"
    "\n"
    "Checks the gradient of a short simulation: of a random weighted sum of its final state, from "
    "a\n"
    "random or given initial state. For each number of the initial state, each control (held "
    "over\n"
    "all steps) and each free parameter the table compares reverse mode, forward mode and "
    "central\n"
    "differences. The exit code is 1 when one FAILs. 'unsure': differences have no answer, as\n"
    "at a kink. 'zero': the input acts on nothing. With contact the last line says\n"
    "in how many steps any acted.\n"
    "\n"
    "  --free GLOB..     parameters to check; '**' for all\n"
    "  --steps N         default 20\n"
    "  --dt H            time step in s; default: the model's\n"
    "  --integrator I    euler, rk4 or implicit; default: the model's\n"
    "  --contact C       none, ncp (rigid) or spring; default: as each pair says\n"
    "  --friction F      of ncp: cone (default) or pyramid\n"
    "  --sweeps N        of ncp: N plain sweeps instead of the exact solution\n"
    "  --q0 X..          coordinates to start from; default: random, near the pose of the model\n"
    "  --qd0 X..         velocities to start from; default: random\n"
    "  --blueprint FILE  networks at quantities; up to 20 of their weights are checked, too\n"
    "  --weights FILE    weights of the networks; default: as the blueprint's seeds make them\n"
    "  --seed S          of the random state and weights; default 1\n"
    "  --backend B       auto, interp or native\n"
    "  --json            the table as one JSON object\n"
    "  --ground          add the plane z = 0 unless the file has a plane\n"
    "  --self-collision  links of a URDF can touch each other\n"
    "  --variant NAME    which one, of a hybrid model with variants\n"
    "  --repair-inertia  raise unphysical inertias instead of refusing the file\n"
    "\n"
    "example: everything that a mass can do wrong\n"
    "  neuralsim gradcheck models/quadruped.urdf --free 'link/*/mass'\n";

// Central differences of fourth order are made with each of these steps, relative to the size of
// the input; the two neighbours that agree best are believed. The finer ones are for contact.
static const double ladder[] = {3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8};
enum { FINE_RUNGS = sizeof ladder / sizeof *ladder, RUNGS = 6, POINTS = 4 };
static const double point[POINTS] = {-2.0, -1.0, 1.0, 2.0};
static const double weight[POINTS] = {1.0 / 12.0, -8.0 / 12.0, 8.0 / 12.0, -1.0 / 12.0};

// Differences are good to about 1e-9; a wrong derivative is off by far more.
static const double difference_tolerance = 1e-6;
// Forward and reverse differ only by rounding.
static const double forward_tolerance = 1e-9;
// Springs that are stiff for the step enlarge derivatives on the way, rounding included, by 1e7 and
// more, and shrink them again (docs/contact-gradients.md).
static const double forward_tolerance_contact = 1e-6;
// With contact, the derivatives to both sides of a point without a kink differ by less.
static const double side_tolerance = 1e-4;

typedef enum verdict {
    VERDICT_OK,
    VERDICT_ZERO, // ok, and exactly zero in all three ways: the input acts on nothing
    VERDICT_UNSURE,
    VERDICT_FAIL,
    VERDICTS
} verdict;
static const char* const verdict_names[] = {"ok", "zero", "unsure", "FAIL"};

// Of the weights of networks so many are checked, chosen at random.
enum { MAX_SAMPLE = 20, WEIGHT_NAME = 1100 };

typedef struct input {
    const char* kind; // "state", "control", "parameter", "weight"
    const char* name;
    double scale; // its size, to choose steps
    double reverse, forward, difference, uncertainty;
    double error; // relative
    verdict verdict;
} input;

typedef struct gradcheck {
    const char* model_path;
    cli_list free_params;
    uint32_t steps;
    uint64_t seed;
    double dt;
    int integrator, backend;
    cli_contact contact;
    cli_start start;
    cli_networks networks;
    bool json;
    ns_load_options load;

    cli_model source;
    const ns_model* model;
    ns_system* system;
    ns_system_sizes z;
    bool touching;          // are there pairs that act when they touch?
    bool kinks;             // may there be kinks: contact, or networks of abs and relu?
    uint32_t rungs;         // of the ladder
    uint32_t contact_steps; // in which a contact acted
    double *x0, *c, *p, *w; // where it is checked: (nx), (steps x nc), (np), (nw)
    double* control_scale;  // (nc)
    double* weights;        // (nx) of the final state
    double size;            // sum of |weight * final state|
    uint32_t* sample;       // (nsample) numbers of the weights of networks that are checked
    uint32_t nsample;
    char (*sample_names)[WEIGHT_NAME];
    input* inputs; // state, controls, parameters, then weights of networks
    uint32_t ninput;
} gradcheck;

// ---- where and what ------------------------------------------------------------------------

// How much of each control (nc) makes an acceleration of about 1: what is a small change for a
// crane is a catastrophe for an insect. False after saying why.
static bool control_scales(const gradcheck* g, double* scale) {
    static const char* const observe[] = {"qdd"};
    ns_system_options options = ns_default_system_options();
    cli_model_apply(&g->source, &options);
    options.blueprint = NULL; // the state begins as without networks
    options.observe = observe;
    options.nobserve = 1;
    options.integrator = NS_INTEGRATOR_EULER;
    options.contact = NS_CONTACT_NONE;
    ns_system* system = cli_create_system(g->model, &options);
    ns_workspace_size size = {.batch = 1, .steps = 1};
    ns_workspace* work = system ? cli_create_workspace(system, &size) : NULL;
    uint32_t ny = system ? ns_system_get_sizes(system).ny : 0;
    double* direction = cli_zeros(g->z.nc);
    double* dqdd = cli_zeros(ny);
    bool ok = work && direction && dqdd;
    for (uint32_t k = 0; k < g->z.nc && ok; k++) {
        memset(direction, 0, g->z.nc * sizeof *direction);
        direction[k] = 1.0;
        ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = g->x0};
        ns_rollout_tangent tangent = {.dcontrols = direction, .dobservations = dqdd};
        ns_error error;
        ok = ns_rollout_jvp(system, work, &args, &tangent, &error) == NS_OK;
        if (!ok) cli_fail("%s", error.message);
        double most = 0.0;
        for (uint32_t i = 0; i < ny; i++) most = fmax(most, fabs(dqdd[i]));
        scale[k] = most > 0.0 ? 1.0 / most : 1.0;
    }
    free(direction);
    free(dqdd);
    ns_workspace_free(work);
    ns_system_free(system);
    return ok;
}

// A state near the model's own pose, moving, with controls that matter but do not hurt.
static int choose_point(gradcheck* g) {
    nsi_rng rng = nsi_rng_seed(g->seed);
    ns_model_sizes n = ns_model_get_sizes(g->model);
    ns_model_default_q(g->model, g->x0);
    for (uint32_t k = 0; k < n.nq + n.nv; k++) g->x0[k] += 0.3 * nsi_rng_normal(&rng);
    for (uint32_t i = 0; i < n.nlink; i++) {
        uint32_t at = cli_joint_quaternion(g->model, i);
        if (at != NSI_NONE) cli_normalize_quaternion(g->x0 + at);
    }
    int code = cli_set_start("gradcheck", g->model, &g->start, g->x0);
    if (code != CLI_GO_ON) return code;
    if (!control_scales(g, g->control_scale)) return EXIT_FAILED;
    uint32_t motor = n.nq + n.nv;
    for (uint32_t i = 0; i < g->z.nc; i++) {
        const ns_actuator_def* a = i < n.nu ? ns_model_actuator(g->model, i) : NULL;
        double c = g->control_scale[i] * nsi_rng_normal(&rng);
        if (a && a->control_limited) { // away from both limits
            double span = a->control_upper - a->control_lower;
            c = a->control_lower + span * nsi_rng_uniform(&rng, 0.3, 0.7);
        }
        for (uint32_t k = 0; k < g->steps; k++) g->c[(size_t)k * g->z.nc + i] = c;
        if (a && a->type == NS_ACTUATOR_SERIES_ELASTIC) g->x0[motor++] = c;
    }
    ns_system_default_params(g->system, g->p);
    for (uint32_t k = 0; k < g->z.nx; k++) g->weights[k] = nsi_rng_normal(&rng);
    ns_system_default_weights(g->system, g->w);
    // Selection sampling, Knuth TAOCP 2, algorithm 3.4.2 S: so many of all, in order.
    for (uint32_t k = 0, taken = 0; k < g->z.nw && taken < g->nsample; k++) {
        if (nsi_rng_below(&rng, g->z.nw - k) < g->nsample - taken) g->sample[taken++] = k;
    }
    return CLI_GO_ON;
}

// Are there pairs that push when they touch?
static bool has_contact(const ns_model* model, int contact) {
    for (uint32_t k = 0; k < ns_model_get_sizes(model).ncontact; k++) {
        int acts = contact >= 0 ? contact : (int)ns_model_contact(model, k)->model;
        if (acts != NS_CONTACT_NONE) return true;
    }
    return false;
}

static ns_system_options system_options(const gradcheck* g) {
    ns_system_options options = ns_default_system_options();
    cli_model_apply(&g->source, &options);
    options.free_params = g->free_params.items;
    options.nfree = g->free_params.count;
    if (!isnan(g->dt)) options.timestep = g->dt;
    if (g->integrator >= 0) options.integrator = g->integrator;
    cli_set_contact(&g->contact, &options);
    options.backend = (ns_backend)g->backend;
    return options;
}

// In how many steps a contact acts, by rolling out once more and looking at the forces: the system
// that is checked observes nothing.
static bool count_contact(gradcheck* g) {
    if (!g->touching) return true;
    static const char* const observe[] = {"contact/**/force/normal"};
    ns_system_options options = system_options(g);
    options.observe = observe;
    options.nobserve = 1;
    options.backend = NS_BACKEND_INTERP; // it runs once
    ns_system* system = cli_create_system(g->model, &options);
    ns_workspace_size size = {.batch = 1, .steps = g->steps};
    ns_workspace* work = system ? cli_create_workspace(system, &size) : NULL;
    uint32_t ny = system ? ns_system_get_sizes(system).ny : 0;
    double* force = cli_zeros((size_t)g->steps * ny);
    bool ok = work && force;
    if (ok) {
        ns_rollout_args args = {.batch = 1,
                                .steps = g->steps,
                                .x0 = g->x0,
                                .controls = g->c,
                                .params = g->p,
                                .weights = g->w,
                                .observations = force};
        ns_error error;
        ok = ns_rollout(system, work, &args, &error) == NS_OK;
        if (!ok) cli_fail("%s", error.message);
    }
    for (size_t step = 0; step < g->steps && ok; step++) {
        bool acts = false;
        for (uint32_t k = 0; k < ny; k++) acts = acts || force[step * ny + k] > 0.0;
        g->contact_steps += acts;
    }
    free(force);
    ns_workspace_free(work);
    ns_system_free(system);
    return ok;
}

// ---- sizes of inputs -----------------------------------------------------------------------

static void set_scale(const gradcheck* g, double* scale, const char* kind, const char* name,
                      const char* what, double value) {
    char full[512];
    snprintf(full, sizeof full, "%s/%s/%s", kind, name, what);
    uint32_t number = ns_model_find_param(g->model, full);
    if (number != UINT32_MAX) scale[number] = value;
}

// Sizes of parameters (nparam) that are zero in the model: those of what they are added to.
static void param_scales(const gradcheck* g, double* scale) {
    static const char* const moments[] = {"inertia/xx", "inertia/yy", "inertia/zz",
                                          "inertia/xy", "inertia/xz", "inertia/yz"};
    static const char* const forces[] = {"armature", "friction", "damping", "stiffness"};
    ns_model_sizes n = ns_model_get_sizes(g->model);
    double mass = 0.0;
    for (uint32_t k = 0; k < n.nparam; k++) scale[k] = 0.1;
    for (uint32_t i = 0; i < n.nlink; i++) mass += ns_model_link(g->model, i)->mass;
    for (uint32_t i = 0; i < n.nlink; i++) {
        const ns_link_def* l = ns_model_link(g->model, i);
        double inertia = fmax(l->inertia[0], fmax(l->inertia[1], l->inertia[2]));
        uint32_t v = ns_model_joint_v(g->model, i);
        double force = v == UINT32_MAX ? 1.0 : g->control_scale[n.nu + v];
        set_scale(g, scale, "link", l->name, "mass", 0.1 * mass);
        for (int k = 0; k < 6; k++) {
            double moment = inertia > 0.0 ? inertia : force;
            set_scale(g, scale, "link", l->name, moments[k], 0.1 * moment);
        }
        for (int k = 0; k < 4; k++) set_scale(g, scale, "joint", l->joint, forces[k], 0.1 * force);
    }
    for (uint32_t k = 0; k < n.nparam; k++) {
        double value = ns_model_param(g->model, k)->value;
        if (value != 0.0) scale[k] = fabs(value);
    }
}

// "drag/w0[2,1]": row and column of a matrix; "friction/b": a coefficient of a formula, then true.
static bool name_weight(const gradcheck* g, uint32_t number, char name[WEIGHT_NAME]) {
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(g->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(g->system, k);
        if (number < m.offset || number - m.offset >= m.rows * m.columns) continue;
        uint32_t at = number - m.offset;
        if (m.formula) {
            snprintf(name, WEIGHT_NAME, "%.800s/%.200s", m.set, m.formula->coefficients[at].name);
            return true;
        }
        snprintf(name, WEIGHT_NAME, "%.1000s/w%u[%u,%u]", m.set, m.layer, at / m.columns,
                 at % m.columns);
    }
    return false;
}

static bool name_inputs(gradcheck* g) {
    double* scale = cli_zeros(ns_model_get_sizes(g->model).nparam);
    if (!scale) return false;
    param_scales(g, scale);
    input* in = g->inputs;
    for (uint32_t k = 0; k < g->z.nx; k++, in++) {
        *in = (input){.kind = "state", .name = ns_system_state_name(g->system, k), .scale = 1.0};
    }
    for (uint32_t k = 0; k < g->z.nc; k++, in++) {
        *in = (input){.kind = "control", .scale = g->control_scale[k]};
        in->name = ns_system_control_name(g->system, k);
    }
    for (uint32_t k = 0; k < g->z.np; k++, in++) {
        *in = (input){.kind = "parameter", .name = ns_system_param_name(g->system, k)};
        in->scale = scale[ns_model_find_param(g->model, in->name)];
    }
    for (uint32_t k = 0; k < g->nsample; k++, in++) {
        bool coefficient = name_weight(g, g->sample[k], g->sample_names[k]);
        double size = fabs(g->w[g->sample[k]]);
        *in = (input){.kind = "weight", .name = g->sample_names[k]};
        in->scale = coefficient && size > 0.0 ? size : fmax(size, 0.1);
    }
    free(scale);
    return true;
}

// ---- robots --------------------------------------------------------------------------------

// Many copies of the rollout, each with one input changed.
typedef struct robots {
    uint32_t most;
    double *x0, *c, *p; // (most x nx), (most x steps x nc), (most x np)
    double* states;     // (most x (steps + 1) x nx)
    ns_workspace* work;
} robots;

// For the differences of one input: all points of all rungs, and the point itself.
static uint32_t robots_each(const gradcheck* g) {
    return g->rungs * POINTS + 1;
}

static bool robots_create(const gradcheck* g, robots* r) {
    enum { BUDGET = 1 << 22 };
    size_t least = robots_each(g);
    size_t each = (size_t)g->steps * ((size_t)g->z.nx + g->z.nc) + g->z.np;
    size_t want = (size_t)(g->ninput - g->nsample) * least,
           fit = BUDGET / (each + 1) / least * least;
    if (fit < least) fit = least;
    *r = (robots){.most = (uint32_t)(want < fit ? want : fit)};
    r->x0 = cli_zeros((size_t)r->most * g->z.nx);
    r->c = cli_zeros((size_t)r->most * g->steps * g->z.nc);
    r->p = cli_zeros((size_t)r->most * g->z.np);
    r->states = cli_zeros((size_t)r->most * (g->steps + 1) * g->z.nx);
    if (!r->x0 || !r->c || !r->p || !r->states) return false;
    ns_workspace_size size = {.batch = r->most, .steps = g->steps, .max_bytes = (size_t)1 << 28};
    r->work = cli_create_workspace(g->system, &size);
    return r->work != NULL;
}

static void robots_free(robots* r) {
    free(r->x0);
    free(r->c);
    free(r->p);
    free(r->states);
    ns_workspace_free(r->work);
}

// Robot n at the point of the check, or at zero for tangents.
static void robot_reset(const gradcheck* g, robots* r, size_t n, bool zero) {
    size_t nx = g->z.nx, nc = (size_t)g->steps * g->z.nc, np = g->z.np;
    for (size_t k = 0; k < nx; k++) r->x0[n * nx + k] = zero ? 0.0 : g->x0[k];
    for (size_t k = 0; k < nc; k++) r->c[n * nc + k] = zero ? 0.0 : g->c[k];
    for (size_t k = 0; k < np; k++) r->p[n * np + k] = zero ? 0.0 : g->p[k];
}

static void robot_change(const gradcheck* g, robots* r, size_t n, uint32_t which, double by) {
    uint32_t nx = g->z.nx, nc = g->z.nc;
    if (which < nx) {
        r->x0[n * nx + which] += by;
    } else if (which < nx + nc) {
        for (size_t k = 0; k < g->steps; k++) r->c[(n * g->steps + k) * nc + which - nx] += by;
    } else {
        r->p[n * g->z.np + which - nx - nc] += by;
    }
}

static double final_sum(const gradcheck* g, const robots* r, size_t n) {
    const double* x = r->states + (n * (g->steps + 1) + g->steps) * g->z.nx;
    double sum = 0.0;
    for (uint32_t k = 0; k < g->z.nx; k++) sum += g->weights[k] * x[k];
    return sum;
}

static bool failed(const ns_error* error) {
    cli_fail("%s", error->message);
    return true;
}

// ---- the three gradients -------------------------------------------------------------------

static bool reverse_gradient(gradcheck* g, robots* r) {
    const ns_system_sizes* z = &g->z;
    ns_error error;
    ns_rollout_args args = {.batch = 1,
                            .steps = g->steps,
                            .x0 = g->x0,
                            .controls = g->c,
                            .params = g->p,
                            .weights = g->w,
                            .states = r->states};
    double* seeds = cli_zeros((size_t)(g->steps + 1) * z->nx);
    double* dx = cli_zeros(z->nx);
    double* dc = cli_zeros((size_t)g->steps * z->nc);
    double* dp = cli_zeros(z->np);
    double* dw = cli_zeros(z->nw);
    bool ok = seeds && dx && dc && dp && dw;
    if (ok) {
        memcpy(seeds + (size_t)g->steps * z->nx, g->weights, z->nx * sizeof *seeds);
        ns_rollout_adjoint adjoint = {
            .state_seeds = seeds, .dx0 = dx, .dcontrols = dc, .dparams = dp, .dweights = dw};
        ok =
            ns_rollout_vjp(g->system, r->work, &args, &adjoint, &error) == NS_OK || !failed(&error);
    }
    if (ok) {
        const double* x = r->states + (size_t)g->steps * z->nx;
        input* in = g->inputs;
        for (uint32_t k = 0; k < z->nx; k++) g->size += fabs(g->weights[k] * x[k]);
        for (uint32_t k = 0; k < z->nx; k++) (in++)->reverse = dx[k];
        for (uint32_t k = 0; k < z->nc; k++, in++) {
            for (size_t step = 0; step < g->steps; step++) in->reverse += dc[step * z->nc + k];
        }
        for (uint32_t k = 0; k < z->np; k++) (in++)->reverse = dp[k];
        for (uint32_t k = 0; k < g->nsample; k++) (in++)->reverse = dw[g->sample[k]];
    }
    free(seeds);
    free(dx);
    free(dc);
    free(dp);
    free(dw);
    return ok;
}

// One direction for each robot.
static bool forward_gradient(gradcheck* g, robots* r, robots* tangents) {
    ns_error error;
    uint32_t count = g->ninput - g->nsample;
    for (uint32_t first = 0, n; first < count; first += n) {
        n = count - first < r->most ? count - first : r->most;
        for (uint32_t i = 0; i < n; i++) {
            robot_reset(g, r, i, false);
            robot_reset(g, tangents, i, true);
            robot_change(g, tangents, i, first + i, 1.0);
        }
        ns_rollout_args args = {.batch = n,
                                .steps = g->steps,
                                .x0 = r->x0,
                                .controls = r->c,
                                .params = r->p,
                                .per_robot_params = true};
        ns_rollout_tangent tangent = {.dx0 = tangents->x0,
                                      .dcontrols = tangents->c,
                                      .dparams = tangents->p,
                                      .dstates = tangents->states};
        if (ns_rollout_jvp(g->system, r->work, &args, &tangent, &error) != NS_OK) {
            return !failed(&error);
        }
        for (uint32_t i = 0; i < n; i++) g->inputs[first + i].forward = final_sum(g, tangents, i);
    }
    return true;
}

// What a rung of the ladder says.
typedef struct rung {
    double central;       // fourth order
    double after, before; // second order, to either side
    double noise;         // of rounding
} rung;

// @param robot  the point itself; those of the rungs follow
static void read_rungs(const gradcheck* g, const robots* r, size_t robot, const input* in,
                       rung out[FINE_RUNGS]) {
    double here = final_sum(g, r, robot);
    for (size_t k = 0; k < g->rungs; k++) {
        double h = ladder[k] * in->scale, f[POINTS];
        for (size_t i = 0; i < POINTS; i++) f[i] = final_sum(g, r, robot + 1 + k * POINTS + i);
        // in pairs, so that equal values give 0
        out[k] = (rung){.noise = 8.0 * DBL_EPSILON * g->size / h};
        for (size_t i = 0; i < POINTS / 2; i++) {
            out[k].central += weight[POINTS - 1 - i] * (f[POINTS - 1 - i] - f[i]) / h;
        }
        out[k].after = (4.0 * (f[2] - here) - (f[3] - here)) / (2.0 * h);
        out[k].before = (4.0 * (here - f[1]) - (here - f[0])) / (2.0 * h);
    }
}

static bool near(double a, double b, double noise) {
    return fabs(a - b) <= side_tolerance * fmax(fabs(a), fabs(b)) + noise;
}

// The first rung that can be believed. Where no kink is within a step, none is within any smaller
// one: from the finest rung up, both sides and the finest must agree. Coarse rungs may agree among
// themselves on the trend over many kinks, which is no derivative. g->rungs: none can.
static uint32_t first_without_kink(const gradcheck* g, const rung* rungs) {
    const rung* finest = &rungs[g->rungs - 1];
    uint32_t first = g->rungs;
    for (const rung* k = finest; first > 0; k--, first--) {
        bool sides = near(k->after, k->before, 4.0 * k->noise);
        if (!sides || !near(k->central, finest->central, 4.0 * finest->noise)) break;
    }
    return first;
}

// The estimate of two neighbouring rungs that agree best, and by how much they differ. With contact
// also by how much the sides differ, and the finest rung beyond rounding.
static void choose_difference(const gradcheck* g, const robots* r, size_t robot, input* in) {
    rung rungs[FINE_RUNGS];
    read_rungs(g, r, robot, in, rungs);
    const rung* finest = &rungs[g->rungs - 1];
    uint32_t first = g->kinks ? first_without_kink(g, rungs) : 0;
    in->uncertainty = INFINITY;
    in->difference = finest->central;
    for (uint32_t k = first; k + 1 < g->rungs; k++) {
        const rung* fine = &rungs[k + 1];
        double apart = fabs(fine->central - rungs[k].central) + fine->noise;
        if (g->kinks) {
            apart = fmax(apart, fabs(fine->after - fine->before));
            apart = fmax(apart, fabs(fine->central - finest->central) - 4.0 * finest->noise);
        }
        if (!(apart < in->uncertainty)) continue;
        in->uncertainty = apart;
        in->difference = fine->central;
    }
}

// Large steps may leave the finite numbers; such rungs are not chosen.
static bool difference_gradient(gradcheck* g, robots* r) {
    uint32_t each = robots_each(g), most = r->most / each;
    uint32_t count = g->ninput - g->nsample;
    ns_error error;
    for (uint32_t first = 0, n; first < count; first += n) {
        n = count - first < most ? count - first : most;
        for (uint32_t i = 0; i < n * each; i++) {
            uint32_t which = first + i / each, k = i % each;
            robot_reset(g, r, i, false);
            if (k == 0) continue;
            double h = ladder[(k - 1) / POINTS] * g->inputs[which].scale;
            robot_change(g, r, i, which, h * point[(k - 1) % POINTS]);
        }
        for (size_t k = 0; k < (size_t)n * each * (g->steps + 1) * g->z.nx; k++) r->states[k] = NAN;
        ns_rollout_args args = {.batch = n * each,
                                .steps = g->steps,
                                .x0 = r->x0,
                                .controls = r->c,
                                .params = r->p,
                                .per_robot_params = true,
                                .states = r->states};
        ns_status status = ns_rollout(g->system, r->work, &args, &error);
        if (status != NS_OK && status != NS_ERR_NONFINITE) return !failed(&error);
        for (uint32_t i = 0; i < n; i++) {
            choose_difference(g, r, (size_t)i * each, &g->inputs[first + i]);
        }
    }
    return true;
}

// Weights are the same for all robots of a rollout: one rollout of one robot for each change.
static bool weight_gradients(gradcheck* g, robots* r, robots* tangents) {
    double* dw = cli_zeros(g->z.nw);
    bool ok = dw != NULL;
    ns_error error;
    for (uint32_t k = 0; k < g->nsample && ok; k++) {
        input* in = &g->inputs[g->ninput - g->nsample + k];
        double* weight_at = &g->w[g->sample[k]];
        ns_rollout_args args = {.batch = 1,
                                .steps = g->steps,
                                .x0 = g->x0,
                                .controls = g->c,
                                .params = g->p,
                                .weights = g->w};
        dw[g->sample[k]] = 1.0;
        ns_rollout_tangent tangent = {.dweights = dw, .dstates = tangents->states};
        ok = ns_rollout_jvp(g->system, r->work, &args, &tangent, &error) == NS_OK;
        dw[g->sample[k]] = 0.0;
        if (!ok) break;
        in->forward = final_sum(g, tangents, 0);
        double value = *weight_at;
        size_t each = (size_t)(g->steps + 1) * g->z.nx;
        for (uint32_t i = 0; i < robots_each(g) && ok; i++) {
            double h = i == 0 ? 0.0 : ladder[(i - 1) / POINTS] * point[(i - 1) % POINTS];
            *weight_at = value + h * in->scale;
            args.states = r->states + i * each;
            for (size_t n = 0; n < each; n++) args.states[n] = NAN;
            ns_status status = ns_rollout(g->system, r->work, &args, &error);
            ok = status == NS_OK || status == NS_ERR_NONFINITE;
        }
        *weight_at = value;
        if (ok) choose_difference(g, r, 0, in);
    }
    free(dw);
    return ok || (dw && !failed(&error));
}

static void judge(const gradcheck* g, input* in) {
    double size = fmax(fabs(in->reverse), fabs(in->difference));
    double off = fabs(in->reverse - in->difference);
    double noise = 1e3 * DBL_EPSILON * g->size / in->scale; // of a derivative that is zero
    in->error = size > noise ? off / size : 0.0;
    double forward_off = fabs(in->reverse - in->forward);
    double tolerance = g->touching ? forward_tolerance_contact : forward_tolerance;
    bool forward_ok = forward_off <= tolerance * fmax(size, fabs(in->forward)) + noise;
    bool close = off <= difference_tolerance * size + noise;
    bool certain = in->uncertainty <= 1e-4 * size + noise;
    if (in->reverse == 0.0 && in->forward == 0.0 && in->difference == 0.0 && certain) {
        in->verdict = VERDICT_ZERO;
    } else if (!forward_ok || !isfinite(in->reverse) || !isfinite(in->forward)) {
        in->verdict = VERDICT_FAIL;
    } else if (close) {
        in->verdict = VERDICT_OK;
    } else if (certain) {
        in->verdict = off <= 3.0 * in->uncertainty ? VERDICT_OK : VERDICT_FAIL;
    } else {
        in->verdict = VERDICT_UNSURE;
    }
}

// ---- result --------------------------------------------------------------------------------

typedef struct tally {
    uint32_t count[VERDICTS];
    double worst; // relative error of those that are ok
    bool zero;    // is the gradient zero everywhere?
} tally;

static tally count_verdicts(const gradcheck* g) {
    tally t = {.zero = true};
    for (uint32_t k = 0; k < g->ninput; k++) {
        const input* in = &g->inputs[k];
        t.count[in->verdict]++;
        if (in->verdict == VERDICT_OK) t.worst = fmax(t.worst, in->error);
        if (in->reverse != 0.0) t.zero = false;
    }
    return t;
}

static void print_table(const gradcheck* g, const tally* t) {
    int width = 5;
    for (uint32_t k = 0; k < g->ninput; k++) {
        int length = (int)strlen(g->inputs[k].name);
        if (length > width) width = length;
    }
    printf("%-9s %-*s %17s %17s %17s %9s  %s\n", "input", width, "", "reverse", "forward",
           "differences", "error", "verdict");
    for (uint32_t k = 0; k < g->ninput; k++) {
        const input* in = &g->inputs[k];
        printf("%-9s %-*s %17.9e %17.9e %17.9e %9.1e  %s\n", in->kind, width, in->name, in->reverse,
               in->forward, in->difference, in->error, verdict_names[in->verdict]);
    }
    printf("%u inputs over %u steps: %u ok, ", g->ninput, g->steps, t->count[VERDICT_OK]);
    if (t->count[VERDICT_ZERO] > 0) printf("%u zero, ", t->count[VERDICT_ZERO]);
    printf("%u unsure, %u FAIL; largest relative error %.1e", t->count[VERDICT_UNSURE],
           t->count[VERDICT_FAIL], t->worst);
    if (g->contact_steps > 0) {
        printf("; contact acted in %u %s\n", g->contact_steps,
               g->contact_steps == 1 ? "step" : "steps");
    } else {
        printf("%s\n", g->touching ? "; no contact acted (--q0 and --qd0 choose the start)" : "");
    }
}

static int print_json(const gradcheck* g, const tally* t) {
    nsi_json j = nsi_json_begin(NULL);
    nsi_json_text(&j, "model", ns_model_name(g->model));
    nsi_json_count(&j, "steps", g->steps);
    nsi_json_count(&j, "seed", g->seed);
    nsi_json_count(&j, "ok", t->count[VERDICT_OK]);
    nsi_json_count(&j, "zero", t->count[VERDICT_ZERO]);
    nsi_json_count(&j, "unsure", t->count[VERDICT_UNSURE]);
    nsi_json_count(&j, "fail", t->count[VERDICT_FAIL]);
    nsi_json_number(&j, "largest_error", t->worst);
    nsi_json_count(&j, "contact_steps", g->contact_steps);
    nsi_json_open(&j, "inputs", '[');
    for (uint32_t k = 0; k < g->ninput; k++) {
        const input* in = &g->inputs[k];
        nsi_json_open(&j, NULL, '{');
        nsi_json_text(&j, "kind", in->kind);
        nsi_json_text(&j, "name", in->name);
        nsi_json_number(&j, "reverse", in->reverse);
        nsi_json_number(&j, "forward", in->forward);
        nsi_json_number(&j, "difference", in->difference);
        nsi_json_number(&j, "error", in->error);
        nsi_json_text(&j, "verdict", verdict_names[in->verdict]);
        nsi_json_close(&j);
    }
    nsi_json_close(&j);
    return cli_print_json(&j);
}

static int report(const gradcheck* g) {
    tally t = count_verdicts(g);
    int code = EXIT_OK;
    if (g->json) {
        code = print_json(g, &t);
    } else {
        print_table(g, &t);
        code = cli_finish();
    }
    if (t.zero) return cli_fail("the gradient is zero everywhere: nothing was checked");
    return t.count[VERDICT_FAIL] > 0 ? EXIT_FAILED : code;
}

// ---- command -------------------------------------------------------------------------------

static int prepare(gradcheck* g) {
    if (!cli_model_load(g->model_path, &g->load, &g->networks, &g->source)) return EXIT_FAILED;
    g->model = g->source.model;
    cli_note_ignored(g->model, g->model_path);
    ns_system_options options = system_options(g);
    g->system = cli_create_system(g->model, &options);
    if (!g->system) return EXIT_FAILED;
    g->z = ns_system_get_sizes(g->system);
    g->nsample = g->z.nw < MAX_SAMPLE ? g->z.nw : MAX_SAMPLE;
    g->ninput = g->z.nx + g->z.nc + g->z.np + g->nsample;
    if (g->ninput == 0) return cli_fail("the model has nothing that moves");
    g->touching = has_contact(g->model, options.contact);
    g->kinks = g->touching || g->z.nw > 0;
    g->rungs = g->kinks ? FINE_RUNGS : RUNGS;
    g->x0 = cli_zeros(g->z.nx);
    g->c = cli_zeros((size_t)g->steps * g->z.nc);
    g->p = cli_zeros(g->z.np);
    g->w = cli_zeros(g->z.nw);
    g->sample = calloc(MAX_SAMPLE, sizeof *g->sample);
    g->sample_names = calloc(MAX_SAMPLE, sizeof *g->sample_names);
    g->weights = cli_zeros(g->z.nx);
    g->control_scale = cli_zeros(g->z.nc);
    g->inputs = calloc(g->ninput, sizeof *g->inputs);
    if (!g->x0 || !g->c || !g->p || !g->w || !g->weights || !g->control_scale || !g->inputs ||
        !g->sample || !g->sample_names) {
        return cli_fail("out of memory");
    }
    int code = choose_point(g);
    if (code != CLI_GO_ON) return code;
    return name_inputs(g) ? CLI_GO_ON : EXIT_FAILED;
}

static int run(gradcheck* g) {
    int code = prepare(g);
    if (code != CLI_GO_ON) return code;
    robots r = {0}, tangents = {0};
    bool ok = robots_create(g, &r) && robots_create(g, &tangents) && reverse_gradient(g, &r) &&
              forward_gradient(g, &r, &tangents) && difference_gradient(g, &r) &&
              weight_gradients(g, &r, &tangents) && count_contact(g);
    robots_free(&r);
    robots_free(&tangents);
    for (uint32_t k = 0; k < g->ninput && ok; k++) judge(g, &g->inputs[k]);
    return ok ? report(g) : EXIT_FAILED;
}

int cmd_gradcheck(int argc, char** argv) {
    gradcheck g = {.steps = 20,
                   .seed = 1,
                   .dt = NAN,
                   .integrator = -1,
                   .contact = CLI_CONTACT_DEFAULT,
                   .load = ns_default_load_options()};
    const cli_row rows[] = {{"--free", CLI_LIST, &g.free_params, "names of parameters"},
                            {"--steps", CLI_COUNT, &g.steps, "a whole number of steps"},
                            {"--dt", CLI_NUMBER, &g.dt, "a time step in s"},
                            {"--integrator", CLI_CHOICE, &g.integrator, CLI_INTEGRATORS},
                            CLI_CONTACT_ROWS(g.contact),
                            CLI_START_ROWS(g.start),
                            CLI_NETWORK_ROWS(g.networks),
                            {"--seed", CLI_SEED, &g.seed, "a whole number"},
                            {"--backend", CLI_CHOICE, &g.backend, CLI_BACKENDS},
                            {"--json", CLI_FLAG, &g.json, NULL},
                            CLI_LOAD_ROWS(g.load),
                            {0}};
    cli_list arguments = {.count = 0};
    int code = cli_parse("gradcheck", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    g.model_path = cli_model_argument("gradcheck", &arguments);
    if (!g.model_path) return EXIT_USAGE;
    if (g.steps == 0) return cli_usage("gradcheck", "--steps needs at least 1");
    if (g.dt <= 0.0) return cli_usage("gradcheck", "--dt must be positive, not %g", g.dt);
    code = run(&g);

    free(g.x0);
    free(g.c);
    free(g.p);
    free(g.w);
    free(g.sample);
    free(g.sample_names);
    free(g.weights);
    free(g.control_scale);
    free(g.inputs);
    ns_system_free(g.system);
    cli_model_free(&g.source);
    return code;
}
