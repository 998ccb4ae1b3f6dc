// The gradient of a walk with respect to the weights of its policy.
//
// Within a decision's period the torque of a stance joint is constant and that of a swing joint is
// kp (angle - q) - kd qd, angle being given. With L the loss and bars for its derivatives, from the
// last step to the first:
//
//     (x_bar, c_bar) = step'(x, c) x_bar          ns_rollout_vjp, one step
//     x_bar          += dc/dx' c_bar              PD of swing legs: -kp for q, -kd for qd
//     torque_bar     += c_bar of stance joints    until the decision is reached, then
//     (x_bar, w_bar) += policy'(features(x)) torque_bar + dL/dx
//
// The estimate of the velocity averages over the last decisions, so that part of the derivative goes to
// earlier ones.

#include "quadruped/tuning.h"

#include "neuralsim/program.h"
#include "neuralsim/vec.h"
#include "quadruped/support.h"

#include <math.h>
#include <stdio.h>

enum {
    FEATURES = QUAD_FEATURES,
    JOINTS = QUAD_JOINTS,
    LANES = 4,
    BLOCK_HEAD = 16, // bytes before a block of memory; keeps its alignment
    // Inputs of the graph of a decision
    IN_QUATERNION = 0,
    IN_VELOCITY = 4,
    IN_ANGULAR = 7,
    IN_JOINTS = 10,
    IN_REST = 22, // of the average of velocities
    NSTATE = 25,  // what derivatives are for
    IN_SHARE = 25,
    IN_STANDS = 26,
    IN_COMMAND = 30,
    NIN = 33,
    // Outputs
    OUT_TORQUES = 0,
    OUT_SAMPLE = 12, // velocity in the trunk's axes
    OUT_MOTION = 15, // forward, sideways, turning, roll, pitch
    NOUT = 20
};

// Errors: of the motion (as above), and of the height.
enum { MOTION = 5, HEIGHT = 5, ERRORS = QUAD_TUNE_ERRORS };

// Robots side by side: a thread takes a group of them all the way back.
typedef struct group {
    ns_workspace* rollouts;
    void* work;
    double* gradient; // (nweight)
    bool failed;
} group;

struct quad_tune {
    ns_allocator allocator;
    const quad_walk_env* place;
    quad_walk_options walk_options;
    quad_tune_options options;
    quad_policy* policy;
    uint32_t period, decisions;
    uint64_t seed; // of the next walk
    quad_walk** walks;
    quad_tune_tape* tapes;
    uint32_t* ages; // decisions since the start of each walk

    ns_program* decision;                    // its derivative
    group* groups;                           // (robots / LANES)
    double *x, *c, *seeds, *dx, *dc;         // of all robots, one step
    double *x_bar, *torque_bar, *sample_bar; // (robots x nx), (x 12), (x decisions x 3)
    double (*means)[ERRORS];                 // (robots) of errors
    void* blocks; // memory, each block beginning with the address of the one before
    quad_tune_observer* observe;
    void* context;
};

quad_tune_options quad_default_tune_options(void) {
    return (quad_tune_options){.robots = 16,
                               .iterations = 300,
                               .rate = 1e-4,
                               .clip = 1.0,
                               .unit = {0.05, 0.03, 0.03, 0.1, 0.1, 0.005},
                               .ripple = 0.1,
                               .seed = 1,
                               .threads = 1};
}

// Memory that lives as long as the tuning.
static void* tune_alloc(quad_tune* t, size_t size) {
    void** block = quad_alloc(&t->allocator, BLOCK_HEAD + size);
    if (!block) return NULL;
    *block = t->blocks;
    t->blocks = block;
    return (char*)block + BLOCK_HEAD;
}

static double* tune_zeros(quad_tune* t, size_t count) {
    double* block = tune_alloc(t, count * sizeof *block);
    if (block) memset(block, 0, count * sizeof *block);
    return block;
}

// ---- the graph of a decision -----------------------------------------------------------------------

static vec3 constant(const double v[3]) {
    return v3_const(v[0], v[1], v[2]);
}

// As quad_leg_toe().
static vec3 trace_toe(const quad_leg_def* leg, const ns_expr q[3]) {
    const vec3 x = v3_const(1.0, 0.0, 0.0), y = v3_const(0.0, 1.0, 0.0);
    mat3 abduction = m3_axis_angle(x, ns_mul(ns_const(leg->abduction_sign), q[0]));
    vec3 toe = m3_apply(m3_axis_angle(y, q[2]), constant(leg->toe));
    toe = m3_apply(m3_axis_angle(y, q[1]), v3_add(constant(leg->lower), toe));
    toe = m3_apply(abduction, v3_add(constant(leg->upper), toe));
    return v3_add(constant(leg->hip), toe);
}

// The heading's velocity: that of the world turned back by the yaw.
static void trace_motion(mat3 R, vec3 velocity, vec3 angular, ns_expr out[MOTION]) {
    ns_expr cosine = R.e[0][0], sine = R.e[1][0];
    ns_expr length =
        ns_sqrt(ns_add(ns_mul(cosine, cosine), ns_mul(sine, sine))); // cos of the pitch
    cosine = ns_div(cosine, length);
    sine = ns_div(sine, length);
    out[0] = ns_add(ns_mul(cosine, velocity.e[0]), ns_mul(sine, velocity.e[1]));
    out[1] = ns_sub(ns_mul(cosine, velocity.e[1]), ns_mul(sine, velocity.e[0]));
    out[2] = v3_dot(m3_row(R, 2), angular);
    out[3] = ns_atan2(R.e[2][1], R.e[2][2]);
    out[4] = ns_neg(ns_asin(R.e[2][0]));
}

static void trace_decision(const quad_tune* t) {
    const quad_policy* p = t->policy;
    const quad_robot* robot = &t->place->robot;
    ns_expr in[NIN], features[FEATURES], torques[JOINTS], motion[MOTION];
    char name[16];

    // Inputs: state of the trunk and joints, and the part of the average that is known before.
    for (int k = 0; k < NIN; k++) {
        snprintf(name, sizeof name, "in%d", k);
        in[k] = ns_input(name);
    }
    // Weights are shared by all lanes.
    ns_array weights = ns_input_array("weights", p->nweight, false);
    mat3 R = m3_from_quat(q_normalize((quat){in[0], in[1], in[2], in[3]}));
    vec3 velocity = v3(in[IN_VELOCITY], in[IN_VELOCITY + 1], in[IN_VELOCITY + 2]);
    vec3 angular = v3(in[IN_ANGULAR], in[IN_ANGULAR + 1], in[IN_ANGULAR + 2]);
    // Velocity in the frame of the trunk.
    vec3 sample = m3_apply_t(R, velocity);

    // Features as in controller.c.
    for (int i = 0; i < 3; i++) {
        // The moving average, with this velocity as its last sample.
        features[i] = ns_add(in[IN_REST + i], ns_mul(in[IN_SHARE], sample.e[i]));
        features[6 + i] = angular.e[i];
        // Targets: height and commanded velocities.
        features[29 + i] = ns_const(i < 2 ? 0.0 : robot->body_height + t->walk_options.lift);
        features[32 + i] = i < 2 ? in[IN_COMMAND + i] : ns_const(0.0);
        features[35 + i] = ns_const(0.0);
        features[38 + i] = i < 2 ? ns_const(0.0) : in[IN_COMMAND + 2];
    }

    // Attitude of the trunk, and the legs.
    trace_motion(R, velocity, angular, motion);
    features[3] = motion[3];
    features[4] = motion[4];
    // Yaw does not matter.
    features[5] = ns_const(0.0);
    for (int leg = 0; leg < QUAD_LEGS; leg++) {
        // Stance flags are constants of the gait.
        vec3 toe = trace_toe(&robot->legs[leg], in + IN_JOINTS + 3 * leg);
        features[9 + leg] = in[IN_STANDS + leg];
        for (int i = 0; i < 3; i++) features[13 + 3 * leg + i] = toe.e[i];
        features[25 + leg] = ns_const(t->walk_options.controller.mpc.friction);
    }

    // The network, on scaled features.
    for (int k = 0; k < FEATURES; k++) {
        features[k] = ns_mul(ns_sub(features[k], ns_const(p->mean[k])), ns_const(p->scale[k]));
    }
    quad_policy_trace(p, weights, features, torques);

    // Outputs: torques, this velocity's sample of the average, and the motion that is judged.
    for (int k = 0; k < NOUT; k++) {
        snprintf(name, sizeof name, "out%d", k);
        // Torques are scaled back to N m.
        ns_expr y = k < OUT_SAMPLE   ? ns_mul(ns_const(p->torque[k]), torques[k])
                    : k < OUT_MOTION ? sample.e[k - OUT_SAMPLE]
                                     : motion[k - OUT_MOTION];
        ns_output(name, y);
    }
}

static ns_status build_decision(quad_tune* t, ns_error* error) {
    ns_graph *value = NULL, *gradient = NULL;
    uint32_t wrt[NSTATE];
    for (uint32_t k = 0; k < NSTATE; k++) wrt[k] = k;

    // Differentiate with respect to the state, not to command and gait.
    ns_diff_options diff = ns_default_diff_options();
    diff.wrt = wrt;
    diff.nwrt = NSTATE;
    // Values are known from the walk.
    diff.skip_value = true;
    ns_program_options options = ns_default_program_options();
    options.lanes = LANES;

    // Trace, differentiate and compile a decision.
    ns_status status = ns_graph_create(&t->allocator, &value, error);
    if (status == NS_OK) status = ns_trace_begin(value, error);
    if (status == NS_OK) {
        trace_decision(t);
        status = ns_trace_end(error);
    }
    // Reverse mode: many weights, one cost.
    if (status == NS_OK) status = ns_graph_vjp(value, &diff, &gradient, error);
    if (status == NS_OK) status = ns_program_build(gradient, &options, &t->decision, error);

    // Workspace of each group of lanes.
    for (uint32_t k = 0; status == NS_OK && k < t->options.robots / LANES; k++) {
        group* g = &t->groups[k];
        ns_workspace_size size = {.batch = LANES, .steps = 1, .threads = 1};
        g->work = tune_alloc(t, ns_program_work_size(t->decision));
        // Gradients are summed over the groups afterwards.
        g->gradient = tune_zeros(t, t->policy->nweight);
        if (!g->work || !g->gradient) status = quad_fail_nomem(error);
        if (status == NS_OK) {
            status = ns_workspace_create(t->place->system, &size, &g->rollouts, error);
        }
    }

    ns_graph_free(value);
    ns_graph_free(gradient);
    return status;
}

// ---- making one ------------------------------------------------------------------------------------

static bool make_tape(quad_tune* t, quad_tune_tape* tape) {
    const size_t n = t->decisions, steps = n * t->period;
    tape->states = tune_zeros(t, (steps + 1) * t->place->nx);
    tape->controls = tune_zeros(t, steps * t->place->nc);
    tape->features = tune_zeros(t, n * FEATURES);
    tape->commands = tune_alloc(t, n * sizeof *tape->commands);
    tape->averaged = tune_alloc(t, n * sizeof *tape->averaged);
    tape->stands = tune_alloc(t, n * sizeof *tape->stands);
    return tape->states && tape->controls && tape->features && tape->commands && tape->averaged &&
           tape->stands;
}

static bool make_room(quad_tune* t) {
    const size_t n = t->options.robots, nx = t->place->nx, nc = t->place->nc;
    // Walks, their tapes and their ages.
    t->walks = tune_alloc(t, n * sizeof *t->walks);
    t->tapes = tune_alloc(t, n * sizeof *t->tapes);
    t->ages = tune_alloc(t, n * sizeof *t->ages);
    t->groups = tune_alloc(t, n / LANES * sizeof *t->groups);
    // Zero, so that a partial tuner can be freed.
    if (t->walks) memset(t->walks, 0, n * sizeof *t->walks);
    if (t->groups) memset(t->groups, 0, n / LANES * sizeof *t->groups);

    // States, controls and adjoints of all robots.
    t->x = tune_zeros(t, n * nx);
    t->c = tune_zeros(t, n * nc);
    t->seeds = tune_zeros(t, n * 2 * nx);
    t->dx = tune_zeros(t, n * nx);
    t->dc = tune_zeros(t, n * nc);
    t->x_bar = tune_zeros(t, n * nx);
    // Mean errors over the tape.
    t->means = (double(*)[ERRORS])tune_zeros(t, n * ERRORS);
    // Adjoints that earlier decisions receive from later ones.
    t->torque_bar = tune_zeros(t, n * JOINTS);
    t->sample_bar = tune_zeros(t, n * t->decisions * 3);

    // All of these are freed with the tuner.
    if (!t->walks || !t->tapes || !t->ages || !t->groups || !t->x || !t->c || !t->seeds || !t->dx ||
        !t->dc || !t->x_bar || !t->means || !t->torque_bar || !t->sample_bar) {
        return false;
    }

    // All robots start in their home pose.
    memset(t->ages, 0, n * sizeof *t->ages);
    for (size_t k = 0; k < n; k++) {
        if (!make_tape(t, &t->tapes[k])) return false;
        quad_start(&t->place->map, &t->place->robot, t->tapes[k].states);
    }
    return true;
}

ns_status quad_tune_create(const quad_walk_env* place, const quad_walk_options* walk,
                           quad_policy* policy, const quad_tune_options* options,
                           const ns_allocator* allocator, quad_tune** out, ns_error* error) {
    *out = NULL;
    quad_tune* t = quad_alloc_zeroed(allocator, sizeof *t);
    if (!t) return quad_fail_nomem(error);
    t->allocator = allocator ? *allocator : ns_default_allocator();
    t->place = place;
    t->policy = policy;
    // Defaults for missing options.
    t->options = options ? *options : quad_default_tune_options();

    // Walks that do not end, with the policy that is tuned.
    t->walk_options = *walk;
    t->walk_options.seconds = 1e6; // they do not end
    t->walk_options.controller.policy = quad_policy_decide;
    t->walk_options.controller.policy_context = policy;
    t->period = walk->period;
    t->seed = t->options.seed;

    // An iteration is one stride unless the options say otherwise.
    const quad_gait_options* gait = &walk->controller.gait;
    double stride = gait->stance_duration / gait->duty_factor /
                    (walk->period * ns_system_get_sizes(place->system).timestep);
    t->decisions = t->options.decisions > 0 ? t->options.decisions : (uint32_t)round(stride);

    // Noise and delay are not differentiated.
    ns_status status = NS_OK;
    if (t->options.robots == 0 || t->options.robots % LANES != 0 || walk->delay > 0 ||
        walk->noise > 0.0) {
        status = quad_fail(error, NS_ERR_ARGUMENT,
                           "tuning needs robots by fours that see without noise and delay");
    }

    // Memory, walks and programs.
    if (status == NS_OK && !make_room(t)) status = quad_fail_nomem(error);
    for (uint32_t k = 0; status == NS_OK && k < t->options.robots; k++) {
        status = quad_walk_create(place, &t->walk_options, allocator, &t->walks[k], error);
        if (status == NS_OK) quad_walk_begin(t->walks[k], t->seed++);
    }
    if (status == NS_OK) status = build_decision(t, error);

    // Hand over a complete tuner or none.
    if (status != NS_OK) {
        quad_tune_free(t);
        return status;
    }
    *out = t;
    return NS_OK;
}

void quad_tune_free(quad_tune* t) {
    if (!t) return;
    ns_allocator memory = t->allocator;
    for (uint32_t k = 0; t->walks && k < t->options.robots; k++) quad_walk_free(t->walks[k]);
    for (uint32_t k = 0; t->groups && k < t->options.robots / LANES; k++) {
        ns_workspace_free(t->groups[k].rollouts);
    }
    ns_program_free(t->decision);
    for (void* block = t->blocks; block;) {
        void* next = *(void**)block;
        quad_free(&t->allocator, block);
        block = next;
    }
    quad_free(&memory, t);
}

const quad_tune_tape* quad_tune_get_tape(const quad_tune* t, uint32_t robot) {
    return &t->tapes[robot];
}

// ---- walking ---------------------------------------------------------------------------------------

static void record(quad_tune* t, quad_tune_tape* tape, uint32_t k, uint32_t age,
                   const quad_walk_sample* m, const quad_controller* controller) {
    const size_t nx = t->place->nx, nc = t->place->nc, at = (size_t)k * t->period;
    const uint32_t window = t->walk_options.controller.window;
    memcpy(tape->states + at * nx, m->states, (t->period + 1) * nx * sizeof *m->states);
    memcpy(tape->controls + at * nc, m->controls, t->period * nc * sizeof *m->controls);
    memcpy(tape->features + (size_t)k * FEATURES, quad_controller_features(controller),
           FEATURES * sizeof *tape->features);
    tape->commands[k] = m->command;
    tape->averaged[k] = age + 1 < window ? age + 1 : window;
    memcpy(tape->stands[k], m->report.stands, sizeof tape->stands[k]);
}

void quad_tune_walk(quad_tune* t) {
    const int n = (int)t->options.robots;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads((int)t->options.threads)
#endif
    for (int r = 0; r < n; r++) {
        quad_tune_tape* tape = &t->tapes[r];
        tape->whole = true;
        for (uint32_t k = 0; k < t->decisions && tape->whole; k++) {
            quad_walk_sample m;
            tape->whole = quad_walk_step(t->walks[r], &m) && !m.report.fallen;
            if (tape->whole)
                record(t, tape, k, t->ages[r]++, &m, quad_walk_controller(t->walks[r]));
        }
    }
    // Those that fell begin anew, in their order.
    for (int r = 0; r < n; r++) {
        if (t->tapes[r].whole) continue;
        quad_walk_begin(t->walks[r], t->seed++);
        t->ages[r] = 0;
    }
}

// Errors in their units at a decision: of the motion, of the height.
static void errors_at(const quad_tune* t, const quad_tune_tape* tape, uint32_t k,
                      double out[ERRORS]) {
    const double* x = tape->states + (size_t)k * t->period * t->place->nx;
    quad_state s = quad_read(&t->place->map, x);
    const double *v = s.velocity, *turn = s.angular_velocity;
    double R[9];
    quad_to_matrix(s.quaternion, R);
    const double length = hypot(R[0], R[3]);
    const quad_command* c = &tape->commands[k];
    out[0] = (R[0] * v[0] + R[3] * v[1]) / length - c->velocity[0];
    out[1] = (R[0] * v[1] - R[3] * v[0]) / length - c->velocity[1];
    out[2] = R[6] * turn[0] + R[7] * turn[1] + R[8] * turn[2] - c->yaw_rate;
    out[3] = atan2(R[7], R[8]);
    out[4] = -asin(R[6]);
    out[HEIGHT] = s.position[2] - t->place->robot.toe_radius - t->place->robot.body_height;
    for (int i = 0; i < ERRORS; i++) out[i] /= t->options.unit[i];
}

// Of velocities the mean counts, and what is left of each moment a little; of angles and of the height
// each moment.
static double ripple_of(const quad_tune* t, int i) {
    return i < 3 ? t->options.ripple : 1.0;
}

// Of one robot: the sum of (1 - ripple) (mean error)^2 + ripple (mean of squares).
static double value_of(const quad_tune* t, const quad_tune_tape* tape, double mean[ERRORS]) {
    double square[ERRORS] = {0}, value = 0.0;
    memset(mean, 0, ERRORS * sizeof *mean);
    for (uint32_t k = 0; k < t->decisions; k++) {
        double e[ERRORS];
        errors_at(t, tape, k, e);
        for (int i = 0; i < ERRORS; i++) {
            mean[i] += e[i] / t->decisions;
            square[i] += e[i] * e[i] / t->decisions;
        }
    }
    for (int i = 0; i < ERRORS; i++) {
        double ripple = ripple_of(t, i);
        value += (1.0 - ripple) * mean[i] * mean[i] + ripple * square[i];
    }
    return value;
}

static uint32_t count_whole(const quad_tune* t) {
    uint32_t count = 0;
    for (uint32_t r = 0; r < t->options.robots; r++) count += t->tapes[r].whole;
    return count;
}

double quad_tune_value(const quad_tune* t) {
    double sum = 0.0, mean[ERRORS];
    uint32_t count = count_whole(t);
    for (uint32_t r = 0; r < t->options.robots; r++) {
        if (t->tapes[r].whole) sum += value_of(t, &t->tapes[r], mean);
    }
    return count > 0 ? sum / count : (double)NAN;
}

// ---- and back --------------------------------------------------------------------------------------

// One step of a group whose first robot is `first`, number `step` of the iteration: seeds to dx and dc.
static bool step_back(quad_tune* t, const group* g, size_t first, uint32_t step) {
    const size_t nx = t->place->nx, nc = t->place->nc;
    for (size_t r = first; r < first + LANES; r++) {
        // A robot that fell stays where it began: a step of it is of no consequence.
        const quad_tune_tape* tape = &t->tapes[r];
        memcpy(t->x + r * nx, tape->states + (tape->whole ? step : 0) * nx, nx * sizeof *t->x);
        memcpy(t->c + r * nc, tape->controls + (tape->whole ? step : 0) * nc, nc * sizeof *t->c);
        memcpy(t->seeds + (2 * r + 1) * nx, t->x_bar + r * nx, nx * sizeof *t->x);
    }
    ns_rollout_args args = {
        .batch = LANES, .steps = 1, .x0 = t->x + first * nx, .controls = t->c + first * nc};
    ns_rollout_adjoint adjoint = {.state_seeds = t->seeds + 2 * first * nx,
                                  .dx0 = t->dx + first * nx,
                                  .dcontrols = t->dc + first * nc};
    return ns_rollout_vjp(t->place->system, g->rollouts, &args, &adjoint, NULL) == NS_OK;
}

// Torques of a step depend on the state, or on the decision.
static void torques_back(quad_tune* t, size_t first, uint32_t step) {
    const quad_map* map = &t->place->map;
    const quad_robot* robot = &t->place->robot;
    const size_t nx = t->place->nx, nc = t->place->nc;
    for (size_t r = first; r < first + LANES; r++) {
        const quad_tune_tape* tape = &t->tapes[r];
        const bool* stands = tape->stands[step / t->period];
        double* x_bar = t->x_bar + r * nx;
        memcpy(x_bar, t->dx + r * nx, nx * sizeof *x_bar);
        for (uint32_t k = 0; k < JOINTS && tape->whole; k++) {
            const uint32_t joint = k % QUAD_LEG_JOINTS, at = map->nu + map->v[k];
            const double torque = tape->controls[(size_t)step * nc + at], bar = t->dc[r * nc + at];
            if (fabs(torque) >= robot->torque[joint]) continue; // limited
            if (stands[k / QUAD_LEG_JOINTS]) {
                t->torque_bar[r * JOINTS + k] += bar;
            } else {
                x_bar[map->q[k]] -= robot->kp[joint] * bar;
                x_bar[map->nq + map->v[k]] -= robot->kd[joint] * bar;
            }
        }
    }
}

// Inputs of the graph of a decision and its seeds, for one lane.
static void load_decision(quad_tune* t, size_t r, uint32_t k, double count, double* in,
                          double* height_bar) {
    const quad_tune_tape* tape = &t->tapes[r];
    const quad_tune_options* o = &t->options;
    // State at decision k; a tape has several steps per decision.
    quad_state s = quad_read(&t->place->map, tape->states + (size_t)k * t->period * t->place->nx);
    const double* f = tape->features + (size_t)k * FEATURES;
    const double share = 1.0 / tape->averaged[k];
    double lane[NIN + NOUT] = {0}, e[ERRORS], sample[3];

    // State at the decision.
    memcpy(lane + IN_QUATERNION, s.quaternion, sizeof s.quaternion);
    memcpy(lane + IN_VELOCITY, s.velocity, sizeof s.velocity);
    memcpy(lane + IN_ANGULAR, s.angular_velocity, sizeof s.angular_velocity);
    memcpy(lane + IN_JOINTS, s.q, sizeof s.q);

    // Earlier samples of the average: all but the share of this one, R' v.
    const double *q = s.quaternion, *v = s.velocity;
    double R[9];
    quad_to_matrix(q, R);
    for (int i = 0; i < 3; i++) {
        sample[i] = R[i] * v[0] + R[3 + i] * v[1] + R[6 + i] * v[2];
        lane[IN_REST + i] = f[i] - share * sample[i];
    }

    // Gait and command, as recorded.
    lane[IN_SHARE] = share;
    for (int i = 0; i < QUAD_LEGS; i++) lane[IN_STANDS + i] = f[9 + i];
    lane[IN_COMMAND] = f[32], lane[IN_COMMAND + 1] = f[33], lane[IN_COMMAND + 2] = f[40];

    // Seeds: derivatives of the cost, and the adjoints that later decisions have left.
    double* seeds = lane + NIN;
    errors_at(t, tape, k, e);
    for (int i = 0; i < ERRORS; i++) {
        double ripple = ripple_of(t, i);
        // Mean and ripple of each error are weighted.
        double bar = 2.0 * ((1.0 - ripple) * t->means[r][i] + ripple * e[i]) / (o->unit[i] * count);
        if (i < MOTION) seeds[OUT_MOTION + i] = bar;
        if (i == HEIGHT) *height_bar = bar;
    }

    memcpy(seeds + OUT_TORQUES, t->torque_bar + r * JOINTS, JOINTS * sizeof *seeds);
    memcpy(seeds + OUT_SAMPLE, t->sample_bar + (r * t->decisions + k) * 3, 3 * sizeof *seeds);
    for (int i = 0; i < NIN + NOUT; i++) in[(size_t)i * LANES] = lane[i];
}

// What a decision passes on to the state of one robot, and to velocities before.
static void tuning_spread(quad_tune* t, size_t r, uint32_t k, const double* out,
                          double height_bar) {
    const quad_map* map = &t->place->map;
    const uint32_t averaged = t->tapes[r].averaged[k];
    double* bar = t->x_bar + r * t->place->nx;
    for (uint32_t i = 0; i < 4; i++) bar[map->base_q + 3 + i] += out[(IN_QUATERNION + i) * LANES];
    for (uint32_t i = 0; i < 6; i++) {
        bar[map->nq + map->base_v + i] += out[(IN_VELOCITY + i) * LANES];
    }
    for (uint32_t i = 0; i < JOINTS; i++) bar[map->q[i]] += out[(IN_JOINTS + i) * LANES];
    bar[map->base_q + 2] += height_bar;
    for (uint32_t back = 1; back < averaged && back <= k; back++) {
        double* sample = t->sample_bar + (r * t->decisions + k - back) * 3;
        for (uint32_t i = 0; i < 3; i++) sample[i] += out[(IN_REST + i) * LANES] / averaged;
    }
    memset(t->torque_bar + r * JOINTS, 0, JOINTS * sizeof *t->torque_bar);
}

static void decision_back(quad_tune* t, const group* g, size_t first, uint32_t k, double count) {
    const double* arrays[1] = {t->policy->weights};
    double* sinks[1] = {g->gradient};
    double in[(NIN + NOUT) * LANES] = {0}, out[NSTATE * LANES], height[LANES] = {0};
    for (size_t lane = 0; lane < LANES; lane++) {
        in[lane] = 1.0; // a quaternion, for a robot that fell
        if (!t->tapes[first + lane].whole) continue;
        load_decision(t, first + lane, k, count, in + lane, &height[lane]);
    }
    ns_run run = {.in = in, .out = out, .arrays = arrays, .sinks = sinks, .work = g->work};
    ns_program_run(t->decision, &run);
    for (size_t lane = 0; lane < LANES; lane++) {
        if (t->tapes[first + lane].whole)
            tuning_spread(t, first + lane, k, out + lane, height[lane]);
    }
}

static bool group_back(quad_tune* t, group* g, size_t first, double count) {
    const size_t nx = t->place->nx;
    memset(g->gradient, 0, t->policy->nweight * sizeof *g->gradient);
    memset(t->x_bar + first * nx, 0, LANES * nx * sizeof *t->x_bar);
    memset(t->torque_bar + first * JOINTS, 0, LANES * JOINTS * sizeof *t->torque_bar);
    memset(t->sample_bar + first * t->decisions * 3, 0,
           (size_t)LANES * t->decisions * 3 * sizeof *t->sample_bar);
    for (size_t r = first; r < first + LANES; r++) {
        if (t->tapes[r].whole) value_of(t, &t->tapes[r], t->means[r]);
    }
    for (uint32_t k = t->decisions; k-- > 0;) {
        for (uint32_t step = (k + 1) * t->period; step-- > k * t->period;) {
            if (!step_back(t, g, first, step)) return false;
            torques_back(t, first, step);
        }
        decision_back(t, g, first, k, count);
    }
    return true;
}

bool quad_tune_gradient(quad_tune* t, double* gradient) {
    const uint32_t nweight = t->policy->nweight, whole = count_whole(t);
    const int ngroup = (int)(t->options.robots / LANES);
    memset(gradient, 0, nweight * sizeof *gradient);
    if (whole == 0) return false;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads((int)t->options.threads)
#endif
    for (int k = 0; k < ngroup; k++) {
        group* g = &t->groups[k];
        g->failed = !group_back(t, g, (size_t)k * LANES, (double)whole * t->decisions);
    }
    // Summed in their order, so that threads do not matter.
    for (int k = 0; k < ngroup; k++) {
        if (t->groups[k].failed) return false;
        for (uint32_t i = 0; i < nweight; i++) gradient[i] += t->groups[k].gradient[i];
    }
    return true;
}

// ---- Adam ------------------------------------------------------------------------------------------

static double tuning_cost(void* context, const double* x, double* gradient) {
    quad_tune* t = context;
    (void)x; // the policy's own weights
    quad_policy_ready(t->policy);
    quad_tune_walk(t);
    double value = quad_tune_value(t);
    return quad_tune_gradient(t, gradient) ? value : (double)NAN;
}

static bool tuning_observe(void* context, const ns_solver_progress* progress) {
    quad_tune* t = context;
    quad_policy_ready(t->policy);
    return t->observe &&
           t->observe(t->context, progress->iteration, progress->value, progress->gradient_norm);
}

ns_status quad_tune_run(quad_tune* t, quad_tune_observer* observer, void* context,
                        ns_error* error) {
    t->observe = observer;
    t->context = context;
    ns_solver_problem problem = {
        .n = t->policy->nweight, .cost = tuning_cost, .observe = tuning_observe, .context = t};
    ns_solver_options adam = {.learning_rate = t->options.rate,
                              .clip_norm = t->options.clip,
                              .max_iterations = t->options.iterations};
    ns_solver_result result;
    ns_status status = ns_minimise("adam", &problem, &adam, t->policy->weights, &result, error);
    if (status == NS_OK && result.finish == NS_FINISH_FAILED) {
        status = quad_fail(error, NS_ERR_NONFINITE,
                           "tuning cannot begin: all robots fall, or the gradient is not finite");
    }
    return status;
}
