// Gradient checks: reverse mode, forward mode and differences of one function, input by input.
//
//     point        initial state, controls, parameters, weights: random, but where motion is gentle
//     scales       how large a change of each input is: steps of differences are relative to it
//     derivatives  one reverse sweep; one tangent per input; a ladder of step sizes per input
//     verdicts     the three are compared, with the uncertainty of the differences

#include "neuralsim/gradcheck.h"

#include "contact/scene.h"
#include "model/model_data.h"
#include "sim/system.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

// Central differences of fourth order are made with each of these steps, relative to the scale of
// the input; the two neighbours that agree best are believed. The finer ones are for kinks.
static const double ladder[] = {3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8};
enum { FINE_RUNGS = sizeof ladder / sizeof *ladder, RUNGS = 6, POINTS = 4 };
static const double point[POINTS] = {-2.0, -1.0, 1.0, 2.0};
static const double point_weight[POINTS] = {1.0 / 12.0, -8.0 / 12.0, 8.0 / 12.0, -1.0 / 12.0};

// Differences are good to about 1e-9; a wrong derivative is off by far more.
static const double difference_tolerance = 1e-6;
// Forward and reverse mode differ only by rounding.
static const double forward_tolerance = 1e-9;
// Springs that are stiff for the step enlarge derivatives on the way, rounding included, by 1e7 and
// more, and shrink them again (docs/contact-gradients.md).
static const double forward_tolerance_contact = 1e-6;
// With kinks, the derivatives to both sides of a point without one differ by less.
static const double side_tolerance = 1e-4;
// Differences whose uncertainty is larger than this, relative, have no answer.
static const double certain_tolerance = 1e-4;

enum { WEIGHT_NAME_SIZE = 1100 };

// An input and how large a change of it is.
typedef struct checked_input {
    ns_gradcheck_input result;
    double scale;
    double after, before; // derivatives to either side, where each has an answer; else NaN
} checked_input;

typedef struct gradcheck {
    const ns_system* system;
    const ns_model* model;
    ns_gradcheck_options options;
    ns_system_sizes z;
    nsi_arena arena;        // everything below
    bool can_touch;         // there are pairs that push when they touch
    bool kinks;             // possible: contact, or networks of abs and relu
    uint32_t rungs;         // of the ladder
    double *x0, *c, *p, *w; // the point: (nx), (steps x nc), (np), (nw)
    double* control_scale;  // (nc)
    double* seed;           // (nx) weights of the final state
    double size;            // sum of |seed * final state|
    uint32_t* sample;       // (nsample) numbers of the weights of networks that are checked
    uint32_t nsample;
    checked_input* inputs; // state, controls, parameters, then weights of networks
    uint32_t ninput;
    ns_gradient_certificate certificate; // of the reverse gradient
} gradcheck;

// The result and the memory it lives in.
typedef struct result_block {
    ns_gradcheck_result result;
    nsi_arena arena;
} result_block;

static double* arena_zeros(nsi_arena* arena, size_t count) {
    double* numbers = nsi_arena_alloc(arena, (count + 1) * sizeof *numbers);
    if (numbers) memset(numbers, 0, (count + 1) * sizeof *numbers);
    return numbers;
}

// ---- the point -------------------------------------------------------------------------------

// Another system of the same model that observes quantities and runs once.
typedef struct observer {
    ns_system* system;
    ns_workspace* work;
    double* observations; // (steps x ny)
    uint32_t ny;
} observer;

static ns_status observer_create(gradcheck* g, ns_system_options options, const char* quantity,
                                 uint32_t steps, observer* out, ns_error* error) {
    options.observe = &quantity;
    options.nobserve = 1;
    options.backend = NS_BACKEND_INTERP;
    ns_status status = nsi_system_create_like(g->system, &options, &out->system, error);
    if (status != NS_OK) return status;
    out->ny = ns_system_get_sizes(out->system).ny;
    out->observations = arena_zeros(&g->arena, (size_t)steps * out->ny);
    if (!out->observations) return nsi_fail_nomem(error);
    ns_workspace_size size = {.batch = 1, .steps = steps};
    return ns_workspace_create(out->system, &size, &out->work, error);
}

static void observer_free(observer* o) {
    ns_workspace_free(o->work);
    ns_system_free(o->system);
}

// How much of each control (nc) makes an acceleration of about 1: what is a small change for a
// crane is a catastrophe for an insect.
static ns_status scale_controls(gradcheck* g, ns_error* error) {
    ns_system_options options = g->system->options;
    options.blueprint = NULL; // the state begins as without networks
    options.integrator = NS_INTEGRATOR_EXPLICIT;
    options.contact = NS_CONTACT_NONE;
    observer o = {0};
    ns_status status = observer_create(g, options, "qdd", 1, &o, error);
    double* direction = arena_zeros(&g->arena, g->z.nc);
    if (status == NS_OK && !direction) status = nsi_fail_nomem(error);

    for (uint32_t k = 0; k < g->z.nc && status == NS_OK; k++) {
        memset(direction, 0, g->z.nc * sizeof *direction);
        direction[k] = 1.0;
        ns_rollout_args args = {.batch = 1, .steps = 1, .x0 = g->x0};
        ns_rollout_tangent tangent = {.dcontrols = direction, .dobservations = o.observations};
        status = ns_rollout_jvp(o.system, o.work, &args, &tangent, error);
        double largest = 0.0;
        for (uint32_t i = 0; i < o.ny; i++) largest = fmax(largest, fabs(o.observations[i]));
        g->control_scale[k] = largest > 0.0 ? 1.0 / largest : 1.0;
    }
    observer_free(&o);
    return status;
}

// A state near the model's default pose, moving, unless it is given.
static void choose_state(gradcheck* g, ns_rng* rng) {
    ns_model_sizes n = g->model->sizes;
    ns_model_default_q(g->model, g->x0);
    for (uint32_t k = 0; k < n.nq + n.nv; k++) g->x0[k] += 0.3 * ns_rng_normal(rng);
    ns_model_normalize_q(g->model, g->x0);
    if (g->options.q0) memcpy(g->x0, g->options.q0, n.nq * sizeof *g->x0);
    if (g->options.qd0) memcpy(g->x0 + n.nq, g->options.qd0, n.nv * sizeof *g->x0);
}

// Controls that matter but do not hurt; motors start where their controls are, activations half way.
static void choose_controls(gradcheck* g, ns_rng* rng) {
    ns_model_sizes n = g->model->sizes;
    uint32_t motor = n.nq + n.nv;
    for (uint32_t i = 0; i < g->z.nc; i++) {
        const ns_actuator_def* a = ns_model_actuator(g->model, i); // NULL for generalised forces
        double c = g->control_scale[i] * ns_rng_normal(rng);
        if (a && a->control_limited) { // away from both limits
            double span = a->control_upper - a->control_lower;
            c = a->control_lower + span * ns_rng_uniform(rng, 0.3, 0.7);
        }
        for (uint32_t k = 0; k < g->options.steps; k++) g->c[(size_t)k * g->z.nc + i] = c;
        if (a && nsi_actuator_state(a)) {
            g->x0[motor++] = a->dynamics == NS_DYNAMICS_NONE ? c : 0.5 * c;
        }
    }
}

static ns_status choose_point(gradcheck* g, ns_error* error) {
    ns_rng rng = ns_rng_seed(g->options.seed);
    choose_state(g, &rng);
    ns_status status = scale_controls(g, error);
    if (status != NS_OK) return status;
    choose_controls(g, &rng);
    ns_system_default_params(g->system, g->p);
    for (uint32_t k = 0; k < g->z.nx; k++) g->seed[k] = ns_rng_normal(&rng);
    ns_system_default_weights(g->system, g->w);

    // Selection sampling, Knuth TAOCP 2, algorithm 3.4.2 S: so many of all, in order
    for (uint32_t k = 0, taken = 0; k < g->z.nw && taken < g->nsample; k++) {
        if (ns_rng_below(&rng, g->z.nw - k) < g->nsample - taken) g->sample[taken++] = k;
    }
    return NS_OK;
}

// Are there pairs that push when they touch?
static bool model_can_touch(const ns_model* model, int contact) {
    for (uint32_t k = 0; k < model->sizes.ncontact; k++) {
        int acts = contact >= 0 ? contact : (int)model->contacts[k].def.model;
        if (acts != NS_CONTACT_NONE) return true;
    }
    return false;
}

// In how many steps a contact acts, by one more rollout of a system that observes the forces, or whether
// the solver looked at contacts, where they are found at run time.
static ns_status count_contact_steps(gradcheck* g, uint32_t* out, ns_error* error) {
    *out = 0;
    if (!g->can_touch) return NS_OK;
    uint32_t steps = g->options.steps;
    observer o = {0};
    bool named = !nsi_scene_is_part_of(g->system->graph);
    const char* acting = named ? "contact/**/force/normal" : "contact/sweeps";
    ns_status status = observer_create(g, g->system->options, acting, steps, &o, error);
    if (status == NS_OK) {
        ns_rollout_args args = {.batch = 1,
                                .steps = steps,
                                .x0 = g->x0,
                                .controls = g->c,
                                .weights = g->w,
                                .observations = o.observations};
        status = ns_rollout(o.system, o.work, &args, error);
    }
    for (size_t step = 0; step < steps && status == NS_OK; step++) {
        bool acts = false;
        for (uint32_t k = 0; k < o.ny; k++) acts = acts || o.observations[step * o.ny + k] > 0.0;
        *out += acts;
    }
    observer_free(&o);
    return status;
}

// ---- scales of inputs ------------------------------------------------------------------------

static void set_param_scale(const gradcheck* g, double* scale, const char* kind, const char* name,
                            const char* what, double value) {
    char full[NSI_PARAM_NAME_SIZE];
    snprintf(full, sizeof full, "%s/%s/%s", kind, name, what);
    uint32_t number = ns_model_find_param(g->model, full);
    if (number != NSI_NONE) scale[number] = value;
}

// Scales of parameters (nparam). One that is zero in the model has that of what it is added to.
static void scale_params(const gradcheck* g, double* scale) {
    static const char* const moments[] = {"inertia/xx", "inertia/yy", "inertia/zz",
                                          "inertia/xy", "inertia/xz", "inertia/yz"};
    static const char* const forces[] = {"armature", "friction", "damping", "stiffness"};
    ns_model_sizes n = g->model->sizes;
    double mass = 0.0;
    for (uint32_t k = 0; k < n.nparam; k++) scale[k] = 0.1;
    for (uint32_t i = 0; i < n.nlink; i++) mass += ns_model_link(g->model, i)->mass;

    // Masses, inertias and joint forces, relative to the robot's
    for (uint32_t i = 0; i < n.nlink; i++) {
        const ns_link_def* l = ns_model_link(g->model, i);
        double largest = fmax(l->inertia[0], fmax(l->inertia[1], l->inertia[2]));
        uint32_t v = ns_model_joint_v(g->model, i);
        double gentle = v == NSI_NONE ? 1.0 : g->control_scale[n.nu + v];
        double moment = largest > 0.0 ? largest : gentle;
        set_param_scale(g, scale, "link", l->name, "mass", 0.1 * mass);
        for (int k = 0; k < 6; k++) {
            set_param_scale(g, scale, "link", l->name, moments[k], 0.1 * moment);
        }
        for (int k = 0; k < 4; k++) {
            set_param_scale(g, scale, "joint", l->joint, forces[k], 0.1 * gentle);
        }
    }

    // All others by their own value
    for (uint32_t k = 0; k < n.nparam; k++) {
        double value = ns_model_param(g->model, k)->value;
        if (value != 0.0) scale[k] = fabs(value);
    }
}

// "drag/w0[2,1]": row and column of a matrix; "friction/b": a coefficient of a formula, then true.
static bool name_weight(const gradcheck* g, uint32_t number, char name[WEIGHT_NAME_SIZE]) {
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(g->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(g->system, k);
        if (number < m.offset || number - m.offset >= m.rows * m.columns) continue;
        uint32_t at = number - m.offset;
        if (m.formula) {
            snprintf(name, WEIGHT_NAME_SIZE, "%.800s/%.200s", m.set,
                     m.formula->coefficients[at].name);
            return true;
        }
        snprintf(name, WEIGHT_NAME_SIZE, "%.1000s/w%u[%u,%u]", m.set, m.layer, at / m.columns,
                 at % m.columns);
    }
    return false;
}

static ns_status describe_inputs(gradcheck* g, ns_error* error) {
    double* scale = arena_zeros(&g->arena, g->model->sizes.nparam);
    if (!scale) return nsi_fail_nomem(error);
    scale_params(g, scale);

    checked_input* in = g->inputs;

    // States in SI units are of size 1; controls and parameters have scales of their own.
    for (uint32_t k = 0; k < g->z.nx; k++, in++) {
        in->result.kind = NS_GRADCHECK_STATE;
        in->result.name = ns_system_state_name(g->system, k);
        in->scale = 1.0;
    }
    for (uint32_t k = 0; k < g->z.nc; k++, in++) {
        in->result.kind = NS_GRADCHECK_CONTROL;
        in->result.name = ns_system_control_name(g->system, k);
        in->scale = g->control_scale[k];
    }
    for (uint32_t k = 0; k < g->z.np; k++, in++) {
        in->result.kind = NS_GRADCHECK_PARAMETER;
        in->result.name = ns_system_param_name(g->system, k);
        in->scale = scale[g->system->free_param[k]];
    }

    // Weights by their size. A coefficient may be tiny on purpose; other weights near 0 are changed
    // by 0.1.
    for (uint32_t k = 0; k < g->nsample; k++, in++) {
        char name[WEIGHT_NAME_SIZE] = "";
        bool coefficient = name_weight(g, g->sample[k], name);
        double size = fabs(g->w[g->sample[k]]);
        in->result.kind = NS_GRADCHECK_WEIGHT;
        in->result.name = nsi_arena_string(&g->arena, name, strlen(name));
        in->scale = coefficient && size > 0.0 ? size : fmax(size, 0.1);
        if (!in->result.name) return nsi_fail_nomem(error);
    }
    return NS_OK;
}

// ---- batches of rollouts -----------------------------------------------------------------------

// Many copies of the rollout, each with one input changed.
typedef struct copies {
    uint32_t max;
    double *x0, *c, *p; // (max x nx), (max x steps x nc), (max x np)
    double* states;     // (max x (steps + 1) x nx)
} copies;

// For the differences of one input: all points of all rungs, and the point itself.
static uint32_t copies_per_input(const gradcheck* g) {
    return g->rungs * POINTS + 1;
}

// As many as there are inputs to change, within a bound on memory, whole inputs at a time.
static ns_status copies_create(gradcheck* g, copies* r, ns_error* error) {
    enum { BUDGET = 1 << 22 }; // numbers
    size_t steps = g->options.steps, least = copies_per_input(g);
    size_t each = steps * ((size_t)g->z.nx + g->z.nc) + g->z.np;
    size_t wanted = (size_t)(g->ninput - g->nsample) * least;
    size_t fitting = BUDGET / (each + 1) / least * least;
    if (fitting < least) fitting = least;
    *r = (copies){.max = (uint32_t)(wanted < fitting ? wanted : fitting)};
    r->x0 = arena_zeros(&g->arena, (size_t)r->max * g->z.nx);
    r->c = arena_zeros(&g->arena, r->max * steps * g->z.nc);
    r->p = arena_zeros(&g->arena, (size_t)r->max * g->z.np);
    r->states = arena_zeros(&g->arena, r->max * (steps + 1) * g->z.nx);
    return r->x0 && r->c && r->p && r->states ? NS_OK : nsi_fail_nomem(error);
}

// Copy n at the point of the check, or at zero for tangents.
static void copy_reset(const gradcheck* g, copies* r, size_t n, bool zero) {
    size_t nx = g->z.nx, nc = (size_t)g->options.steps * g->z.nc, np = g->z.np;
    for (size_t k = 0; k < nx; k++) r->x0[n * nx + k] = zero ? 0.0 : g->x0[k];
    for (size_t k = 0; k < nc; k++) r->c[n * nc + k] = zero ? 0.0 : g->c[k];
    for (size_t k = 0; k < np; k++) r->p[n * np + k] = zero ? 0.0 : g->p[k];
}

static void copy_change(const gradcheck* g, copies* r, size_t n, uint32_t input, double by) {
    uint32_t nx = g->z.nx, nc = g->z.nc;
    if (input < nx) {
        r->x0[n * nx + input] += by;
    } else if (input < nx + nc) {
        size_t steps = g->options.steps;
        for (size_t k = 0; k < steps; k++) r->c[(n * steps + k) * nc + input - nx] += by;
    } else {
        r->p[n * g->z.np + input - nx - nc] += by;
    }
}

// The function: the weighted sum of the final state of copy n.
static double final_sum(const gradcheck* g, const copies* r, size_t n) {
    size_t steps = g->options.steps;
    const double* x = r->states + (n * (steps + 1) + steps) * g->z.nx;
    double sum = 0.0;
    for (uint32_t k = 0; k < g->z.nx; k++) sum += g->seed[k] * x[k];
    return sum;
}

// ---- derivatives -------------------------------------------------------------------------------

static ns_status reverse_gradient(gradcheck* g, ns_workspace* work, copies* r, ns_error* error) {
    const ns_system_sizes* z = &g->z;
    size_t steps = g->options.steps;
    double* seeds = arena_zeros(&g->arena, (steps + 1) * z->nx);
    double* dx = arena_zeros(&g->arena, z->nx);
    double* dc = arena_zeros(&g->arena, steps * z->nc);
    double* dp = arena_zeros(&g->arena, z->np);
    double* dw = arena_zeros(&g->arena, z->nw);
    if (!seeds || !dx || !dc || !dp || !dw) return nsi_fail_nomem(error);

    // One reverse pass from the weighted sum of the final state.
    memcpy(seeds + steps * z->nx, g->seed, z->nx * sizeof *seeds);
    ns_rollout_args args = {.batch = 1,
                            .steps = g->options.steps,
                            .x0 = g->x0,
                            .controls = g->c,
                            .params = g->p,
                            .weights = g->w,
                            .states = r->states};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds,
                                  .dx0 = dx,
                                  .dcontrols = dc,
                                  .dparams = dp,
                                  .dweights = dw,
                                  .certificate = &g->certificate};
    ns_status status = ns_rollout_vjp(g->system, work, &args, &adjoint, error);
    if (status != NS_OK) return status;

    // A control is held over all steps: its derivative is the sum over them
    const double* x = r->states + steps * z->nx;
    checked_input* in = g->inputs;
    for (uint32_t k = 0; k < z->nx; k++) g->size += fabs(g->seed[k] * x[k]);
    for (uint32_t k = 0; k < z->nx; k++) (in++)->result.reverse = dx[k];
    for (uint32_t k = 0; k < z->nc; k++, in++) {
        for (size_t step = 0; step < steps; step++) in->result.reverse += dc[step * z->nc + k];
    }
    for (uint32_t k = 0; k < z->np; k++) (in++)->result.reverse = dp[k];
    for (uint32_t k = 0; k < g->nsample; k++) (in++)->result.reverse = dw[g->sample[k]];
    return NS_OK;
}

// One direction for each copy.
static ns_status forward_gradient(gradcheck* g, ns_workspace* work, copies* r, copies* tangents,
                                  ns_error* error) {
    uint32_t count = g->ninput - g->nsample;
    for (uint32_t first = 0, n; first < count; first += n) {
        // A batch of copies, each with a tangent along one input.
        n = count - first < r->max ? count - first : r->max;
        for (uint32_t i = 0; i < n; i++) {
            copy_reset(g, r, i, false);
            copy_reset(g, tangents, i, true);
            copy_change(g, tangents, i, first + i, 1.0);
        }

        ns_rollout_args args = {.batch = n,
                                .steps = g->options.steps,
                                .x0 = r->x0,
                                .controls = r->c,
                                .params = r->p,
                                .per_robot_params = true};
        ns_rollout_tangent tangent = {.dx0 = tangents->x0,
                                      .dcontrols = tangents->c,
                                      .dparams = tangents->p,
                                      .dstates = tangents->states};
        ns_status status = ns_rollout_jvp(g->system, work, &args, &tangent, error);
        if (status != NS_OK) return status;

        for (uint32_t i = 0; i < n; i++) {
            // Copy i has the derivative with respect to its input.
            g->inputs[first + i].result.forward = final_sum(g, tangents, i);
        }
    }
    return NS_OK;
}

// The derivatives that one step size gives.
typedef struct rung {
    double central;       // fourth order
    double after, before; // second order, to either side
    double noise;         // of rounding
} rung;

// @param copy  the point itself; those of the rungs follow
static void read_rungs(const gradcheck* g, const copies* r, size_t copy, double scale,
                       rung out[FINE_RUNGS]) {
    double here = final_sum(g, r, copy);
    for (size_t k = 0; k < g->rungs; k++) {
        double h = ladder[k] * scale, f[POINTS];
        for (size_t i = 0; i < POINTS; i++) f[i] = final_sum(g, r, copy + 1 + k * POINTS + i);
        out[k] = (rung){.noise = 8.0 * DBL_EPSILON * g->size / h};
        for (size_t i = 0; i < POINTS / 2; i++) { // in pairs, so that equal values give 0
            out[k].central += point_weight[POINTS - 1 - i] * (f[POINTS - 1 - i] - f[i]) / h;
        }
        out[k].after = (4.0 * (f[2] - here) - (f[3] - here)) / (2.0 * h);
        out[k].before = (4.0 * (here - f[1]) - (here - f[0])) / (2.0 * h);
    }
}

static bool sides_agree(double a, double b, double noise) {
    return fabs(a - b) <= side_tolerance * fmax(fabs(a), fabs(b)) + noise;
}

// The first rung that can be believed. Where no kink is within a step, none is within any smaller
// one: from the finest rung up, both sides and the finest must agree. Coarse rungs may agree among
// themselves on the trend over many kinks, which is no derivative. g->rungs: none can.
static uint32_t first_without_kink(const gradcheck* g, const rung* rungs) {
    const rung* finest = &rungs[g->rungs - 1];
    uint32_t first = g->rungs;
    for (const rung* k = finest; first > 0; k--, first--) {
        bool sides = sides_agree(k->after, k->before, 4.0 * k->noise);
        if (!sides || !sides_agree(k->central, finest->central, 4.0 * finest->noise)) break;
    }
    return first;
}

// The derivative to one side, where three rungs in a row agree on it; else NaN. Of several such places
// the finest counts: kinks farther away do not matter.
static double one_sided(const gradcheck* g, const rung* rungs, bool after) {
    for (uint32_t k = g->rungs; k-- > 2;) {
        double d[3];
        for (uint32_t i = 0; i < 3; i++) {
            d[i] = after ? rungs[k - i].after : rungs[k - i].before;
        }
        double noise = 4.0 * rungs[k].noise, size = fmax(fabs(d[0]), fabs(d[2]));
        bool precise = noise <= side_tolerance * size || size == 0.0;
        if (precise && sides_agree(d[0], d[1], noise) && sides_agree(d[1], d[2], noise)) {
            return d[1];
        }
    }
    return NAN;
}

// The estimate of two neighbouring rungs that agree best, and by how much they differ. With kinks
// also by how much the sides differ, and the finest rung beyond rounding.
static void choose_difference(const gradcheck* g, const copies* r, size_t copy, checked_input* in) {
    rung rungs[FINE_RUNGS] = {0};
    read_rungs(g, r, copy, in->scale, rungs);
    const rung* finest = &rungs[g->rungs - 1];
    uint32_t first = g->kinks ? first_without_kink(g, rungs) : 0;
    in->after = in->before = NAN;
    if (g->kinks) {
        in->after = one_sided(g, rungs, true);
        in->before = one_sided(g, rungs, false);
    }
    in->result.uncertainty = INFINITY;
    in->result.difference = finest->central;
    for (uint32_t k = first; k + 1 < g->rungs; k++) {
        const rung* fine = &rungs[k + 1];
        double apart = fabs(fine->central - rungs[k].central) + fine->noise;
        if (g->kinks) {
            apart = fmax(apart, fabs(fine->after - fine->before));
            apart = fmax(apart, fabs(fine->central - finest->central) - 4.0 * finest->noise);
        }
        if (!(apart < in->result.uncertainty)) continue;
        in->result.uncertainty = apart;
        in->result.difference = fine->central;
    }
}

// Large steps may leave the finite numbers; such rungs are not chosen.
static ns_status difference_gradient(gradcheck* g, ns_workspace* work, copies* r, ns_error* error) {
    uint32_t each = copies_per_input(g), max = r->max / each, count = g->ninput - g->nsample;
    size_t steps = g->options.steps;
    for (uint32_t first = 0, n; first < count; first += n) {
        n = count - first < max ? count - first : max;

        // The point itself, then each point of each rung
        for (uint32_t i = 0; i < n * each; i++) {
            uint32_t input = first + i / each, k = i % each;
            copy_reset(g, r, i, false);
            if (k == 0) continue;
            double h = ladder[(k - 1) / POINTS] * g->inputs[input].scale;
            copy_change(g, r, i, input, h * point[(k - 1) % POINTS]);
        }

        // What is not reached must not look finite
        for (size_t k = 0; k < (size_t)n * each * (steps + 1) * g->z.nx; k++) r->states[k] = NAN;
        ns_rollout_args args = {.batch = n * each,
                                .steps = g->options.steps,
                                .x0 = r->x0,
                                .controls = r->c,
                                .params = r->p,
                                .per_robot_params = true,
                                .states = r->states};
        ns_status status = ns_rollout(g->system, work, &args, error);
        if (status != NS_OK && status != NS_ERR_NONFINITE) return status;
        for (uint32_t i = 0; i < n; i++) {
            choose_difference(g, r, (size_t)i * each, &g->inputs[first + i]);
        }
    }
    return NS_OK;
}

// Forward mode and differences of one weight. Weights are the same for all robots of a rollout: one
// rollout of one robot for each change.
static ns_status check_weight(gradcheck* g, ns_workspace* work, uint32_t k, copies* r,
                              copies* tangents, double* dw, ns_error* error) {
    checked_input* in = &g->inputs[g->ninput - g->nsample + k];
    double *weight = &g->w[g->sample[k]], value = *weight;
    ns_rollout_args args = {.batch = 1,
                            .steps = g->options.steps,
                            .x0 = g->x0,
                            .controls = g->c,
                            .params = g->p,
                            .weights = g->w};

    // The forward derivative along this weight.
    dw[g->sample[k]] = 1.0;
    ns_rollout_tangent tangent = {.dweights = dw, .dstates = tangents->states};
    ns_status status = ns_rollout_jvp(g->system, work, &args, &tangent, error);
    dw[g->sample[k]] = 0.0;
    if (status != NS_OK) return status;
    in->result.forward = final_sum(g, tangents, 0);

    // Rollouts with the weight changed by the steps of the difference formula. Weights are shared
    // by a batch, so each is a rollout of its own.
    size_t each = (size_t)(g->options.steps + 1) * g->z.nx;
    for (uint32_t i = 0; i < copies_per_input(g) && status == NS_OK; i++) {
        double h = i == 0 ? 0.0 : ladder[(i - 1) / POINTS] * point[(i - 1) % POINTS];
        *weight = value + h * in->scale;
        args.states = r->states + i * each;
        for (size_t n = 0; n < each; n++) args.states[n] = NAN;
        status = ns_rollout(g->system, work, &args, error);
        if (status == NS_ERR_NONFINITE) status = NS_OK; // this rung is not chosen
    }
    *weight = value;
    if (status == NS_OK) choose_difference(g, r, 0, in);
    return status;
}

static ns_status weight_gradients(gradcheck* g, ns_workspace* work, copies* r, copies* tangents,
                                  ns_error* error) {
    double* dw = arena_zeros(&g->arena, g->z.nw);
    ns_status status = dw ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; k < g->nsample && status == NS_OK; k++) {
        status = check_weight(g, work, k, r, tangents, dw, error);
    }
    return status;
}

static ns_status check_derivatives(gradcheck* g, ns_error* error) {
    copies r = {0}, tangents = {0};
    ns_workspace* work = NULL;
    ns_status status = copies_create(g, &r, error);
    if (status == NS_OK) status = copies_create(g, &tangents, error);
    ns_workspace_size size = {
        .batch = r.max, .steps = g->options.steps, .max_bytes = (size_t)1 << 28};
    if (status == NS_OK) status = ns_workspace_create(g->system, &size, &work, error);
    if (status == NS_OK) status = reverse_gradient(g, work, &r, error);
    if (status == NS_OK) status = forward_gradient(g, work, &r, &tangents, error);
    if (status == NS_OK) status = difference_gradient(g, work, &r, error);
    if (status == NS_OK) status = weight_gradients(g, work, &r, &tangents, error);
    ns_workspace_free(work);
    return status;
}

// ---- certificate and smoothing -----------------------------------------------------------------

static ns_rollout_args point_args(const gradcheck* g) {
    return (ns_rollout_args){.batch = 1,
                             .steps = g->options.steps,
                             .x0 = g->x0,
                             .controls = g->c,
                             .params = g->p,
                             .weights = g->w};
}

// Contacts near a switch, into the certificate.
static ns_status watch_contacts(gradcheck* g, ns_error* error) {
    ns_contact_monitor* monitor = NULL;
    ns_status status = ns_contact_monitor_create(g->system, g->options.steps, &monitor, error);
    ns_rollout_args args = point_args(g);
    if (status == NS_OK) {
        status = ns_contact_monitor_run(monitor, &args, &g->certificate, error);
    }
    ns_contact_monitor_free(monitor);
    return status;
}

// The weighted sum of the final state as a cost.
static double weighted_final_state(void* context, const double* states, const double* observations,
                                   double* dstates, double* dobservations) {
    (void)observations;
    (void)dobservations;
    const gradcheck* g = context;
    size_t end = (size_t)g->options.steps * g->z.nx;
    double sum = 0.0;
    for (uint32_t k = 0; k < g->z.nx; k++) {
        sum += g->seed[k] * states[end + k];
        dstates[end + k] = g->seed[k];
    }
    return sum;
}

static ns_status smooth_gradient(gradcheck* g, ns_error* error) {
    uint32_t count = g->ninput - g->nsample;
    double* sigma = arena_zeros(&g->arena, count);
    ns_smoothed_derivative* d = nsi_arena_alloc(&g->arena, ((size_t)count + 1) * sizeof *d);
    if (!sigma || !d) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count; k++) sigma[k] = g->options.smooth_sigma * g->inputs[k].scale;

    // Controls are held, as in the check
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = g->options.smooth_samples;
    smoothing.seed = g->options.seed;
    smoothing.hold_controls = true;
    smoothing.x0_sigma = sigma;
    smoothing.control_sigma = sigma + g->z.nx;
    smoothing.param_sigma = sigma + g->z.nx + g->z.nc;
    ns_smoothed_gradient gradient = {
        .dx0 = d, .dcontrols = d + g->z.nx, .dparams = d + g->z.nx + g->z.nc};
    ns_rollout_args args = point_args(g);
    ns_smoother* smoother = NULL;
    ns_smoother_size size = {.steps = g->options.steps};
    ns_status status = ns_smoother_create(g->system, &size, &smoother, error);
    if (status == NS_OK) {
        status = ns_rollout_smoothed_gradient(smoother, &args, &smoothing, weighted_final_state, g,
                                              &gradient, error);
    }
    ns_smoother_free(smoother);
    for (uint32_t k = 0; k < count && status == NS_OK; k++) g->inputs[k].result.smoothed = d[k];
    return status;
}

// ---- verdicts ----------------------------------------------------------------------------------

// Differences have an answer, which is another one.
static const char* explain_failure(const gradcheck* g) {
    return g->certificate.contact.unsolved > 0 ? g->certificate.reason : "differences differ";
}

// Differences to both sides do not agree: the derivative of one side, whatever is on the other one, or no
// answer at all.
static void judge_kink(const gradcheck* g, checked_input* checked, double noise) {
    ns_gradcheck_input* in = &checked->result;
    double tolerance = side_tolerance * fabs(in->reverse) + noise;
    bool after = fabs(in->reverse - checked->after) <= tolerance;
    bool before = fabs(in->reverse - checked->before) <= tolerance;
    bool same = fabs(checked->after - checked->before) <= 10.0 * tolerance; // not with NaN
    if ((after || before) && !same) {
        in->verdict = NS_GRADCHECK_BIASED;
        in->reason = after ? "at a kink or jump: the derivative towards larger values"
                           : "at a kink or jump: the derivative towards smaller values";
        return;
    }
    in->verdict = NS_GRADCHECK_UNRELIABLE;
    in->reason = g->certificate.verdict != NS_GRADIENT_OK
                     ? g->certificate.reason
                     : "differences with different steps do not agree: kinks or jumps nearby";
}

static void judge_input(const gradcheck* g, checked_input* checked) {
    ns_gradcheck_input* in = &checked->result;
    double size = fmax(fabs(in->reverse), fabs(in->difference));
    double off = fabs(in->reverse - in->difference);
    double noise = 1e3 * DBL_EPSILON * g->size / checked->scale; // of a derivative that is zero
    in->error = size > noise ? off / size : 0.0;

    double forward_off = fabs(in->reverse - in->forward);
    double tolerance = g->can_touch ? forward_tolerance_contact : forward_tolerance;
    bool forward_agrees = forward_off <= tolerance * fmax(size, fabs(in->forward)) + noise;
    bool difference_agrees = off <= difference_tolerance * size + noise;
    bool certain = in->uncertainty <= certain_tolerance * size + noise;
    bool vanishes = fmax(size, fabs(in->forward)) <= noise; // agreement of nothing with nothing

    in->reason = "";
    if (vanishes && certain) {
        in->verdict = NS_GRADCHECK_ZERO;
    } else if (!forward_agrees || !isfinite(in->reverse) || !isfinite(in->forward)) {
        in->verdict = NS_GRADCHECK_FAIL;
        in->reason = "forward and reverse mode differ";
    } else if (difference_agrees && !vanishes) {
        in->verdict = NS_GRADCHECK_OK;
    } else if (certain) {
        bool ok = off <= 3.0 * in->uncertainty;
        in->verdict = ok ? NS_GRADCHECK_OK : NS_GRADCHECK_FAIL;
        if (!ok) in->reason = explain_failure(g);
    } else {
        judge_kink(g, checked, noise);
    }
}

static void count_verdicts(ns_gradcheck_result* result) {
    result->is_zero = true;
    result->largest_error = NAN;
    for (uint32_t k = 0; k < result->ninput; k++) {
        const ns_gradcheck_input* in = &result->inputs[k];
        switch (in->verdict) {
        case NS_GRADCHECK_OK:
            result->ok++;
            result->largest_error = fmax(result->largest_error, in->error);
            break;
        case NS_GRADCHECK_ZERO: result->zero++; break;
        case NS_GRADCHECK_BIASED: result->biased++; break;
        case NS_GRADCHECK_UNRELIABLE: result->unreliable++; break;
        case NS_GRADCHECK_FAIL: result->fail++; break;
        }
        if (in->reverse != 0.0) result->is_zero = false;
    }
    result->judged = result->ninput - result->unreliable;
}

// The inputs with names of their own: the result may outlive the system.
static ns_status make_result(const gradcheck* g, uint32_t contact_steps, ns_gradcheck_result** out,
                             ns_error* error) {
    result_block* block = nsi_alloc_zeroed(&g->arena.allocator, sizeof *block);
    if (!block) return nsi_fail_nomem(error);
    block->arena.allocator = g->arena.allocator;
    ns_gradcheck_input* inputs = nsi_arena_alloc(&block->arena, g->ninput * sizeof *inputs);
    bool ok = inputs != NULL;
    for (uint32_t k = 0; k < g->ninput && ok; k++) {
        inputs[k] = g->inputs[k].result;
        inputs[k].name = nsi_arena_string(&block->arena, inputs[k].name, strlen(inputs[k].name));
        inputs[k].reason =
            nsi_arena_string(&block->arena, inputs[k].reason, strlen(inputs[k].reason));
        ok = inputs[k].name != NULL && inputs[k].reason != NULL;
    }
    block->result = (ns_gradcheck_result){.inputs = inputs,
                                          .ninput = g->ninput,
                                          .certificate = g->certificate,
                                          .has_smoothed = g->options.smooth_sigma > 0.0,
                                          .can_touch = g->can_touch,
                                          .contact_steps = contact_steps};
    if (!ok) {
        ns_gradcheck_free(&block->result);
        return nsi_fail_nomem(error);
    }
    count_verdicts(&block->result);
    *out = &block->result;
    return NS_OK;
}

// ---- public ------------------------------------------------------------------------------------

ns_gradcheck_options ns_default_gradcheck_options(void) {
    return (ns_gradcheck_options){.steps = 20, .seed = 1, .max_weights = 20, .smooth_samples = 64};
}

const char* ns_gradcheck_kind_name(ns_gradcheck_kind kind) {
    static const char* const names[] = {"state", "control", "parameter", "weight"};
    return (unsigned)kind < sizeof names / sizeof *names ? names[kind] : "unknown";
}

const char* ns_gradcheck_verdict_name(ns_gradcheck_verdict verdict) {
    static const char* const names[] = {"ok", "zero", "biased", "unreliable", "FAIL"};
    return (unsigned)verdict < sizeof names / sizeof *names ? names[verdict] : "unknown";
}

static ns_status gradcheck_prepare(gradcheck* g, ns_error* error) {
    size_t steps = g->options.steps;
    g->z = ns_system_get_sizes(g->system);
    g->nsample = g->z.nw < g->options.max_weights ? g->z.nw : g->options.max_weights;
    g->ninput = g->z.nx + g->z.nc + g->z.np + g->nsample;
    if (g->ninput == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "the model has nothing that moves");
    }

    // Near kinks, as contact and activations have them, differences need small steps.
    g->can_touch = model_can_touch(g->model, g->system->options.contact);
    g->kinks = g->can_touch || g->z.nw > 0;
    g->rungs = g->kinks ? FINE_RUNGS : RUNGS;

    g->x0 = arena_zeros(&g->arena, g->z.nx);
    g->c = arena_zeros(&g->arena, steps * g->z.nc);
    g->p = arena_zeros(&g->arena, g->z.np);
    g->w = arena_zeros(&g->arena, g->z.nw);
    g->seed = arena_zeros(&g->arena, g->z.nx);
    g->control_scale = arena_zeros(&g->arena, g->z.nc);
    g->sample = nsi_arena_alloc(&g->arena, ((size_t)g->nsample + 1) * sizeof *g->sample);
    g->inputs = nsi_arena_alloc(&g->arena, g->ninput * sizeof *g->inputs);
    if (!g->x0 || !g->c || !g->p || !g->w || !g->seed || !g->control_scale || !g->sample ||
        !g->inputs) {
        return nsi_fail_nomem(error);
    }
    memset(g->inputs, 0, g->ninput * sizeof *g->inputs);

    // Where to compare, and what is compared.
    ns_status status = choose_point(g, error);
    return status == NS_OK ? describe_inputs(g, error) : status;
}

ns_status ns_gradcheck(const ns_system* system, const ns_gradcheck_options* options,
                       ns_gradcheck_result** out, ns_error* error) {
    *out = NULL;
    ns_gradcheck_options chosen = options ? *options : ns_default_gradcheck_options();
    if (!system) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_gradcheck: the system is NULL");
    if (!system->model) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "ns_gradcheck: a learned system has no model to choose a state from");
    }
    if (chosen.steps == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.steps is 0; it must be at least 1");
    }
    if (!(chosen.smooth_sigma >= 0.0 && chosen.smooth_sigma <= DBL_MAX)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "options.smooth_sigma is %g; it must be positive",
                        chosen.smooth_sigma);
    }

    gradcheck g = {.system = system,
                   .model = system->model,
                   .options = chosen,
                   .arena = {.allocator = system->allocator}};
    uint32_t contact_steps = 0;
    ns_status status = gradcheck_prepare(&g, error);
    if (status == NS_OK) status = check_derivatives(&g, error);
    if (status == NS_OK) status = count_contact_steps(&g, &contact_steps, error);
    if (status == NS_OK) status = watch_contacts(&g, error);
    if (status == NS_OK && chosen.smooth_sigma > 0.0) status = smooth_gradient(&g, error);
    for (uint32_t k = 0; k < g.ninput && status == NS_OK; k++) judge_input(&g, &g.inputs[k]);
    if (status == NS_OK) status = make_result(&g, contact_steps, out, error);
    nsi_arena_free(&g.arena);
    return status;
}

void ns_gradcheck_free(ns_gradcheck_result* result) {
    if (!result) return;
    result_block* block = (result_block*)result; // its first member
    ns_allocator memory = block->arena.allocator;
    nsi_arena_free(&block->arena);
    nsi_free(&memory, block);
}
