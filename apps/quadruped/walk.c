// The loop of simulator and controller.

#include "quadruped/walk.h"

#include "neuralsim/random.h"

#include <math.h>

struct quad_walk {
    ns_allocator allocator;
    const quad_walk_env* place;
    quad_walk_options options;
    ns_workspace* work;
    quad_controller* controller;
    double *x, *y, *states, *controls; // (nx), (4), (period + 1 x nx), (period x nc)
    uint32_t stride;                   // decisions of a cycle of the gait

    ns_rng commands, noise; // apart, so that noise does not change what is commanded
    uint64_t step;
    double from[3], to[3]; // the command goes from one to the other
    double changed, next;  // s: when it started to, when it will again
    double pushed;         // s: next push
    quad_state seen[QUAD_WALK_MOST_DELAY + 1];
    uint32_t nseen;
    bool over;

    quad_walk_result sums; // squares where the result has roots
    double errors[QUAD_WALK_MOST_STRIDE][3];
    uint32_t nerror;
};

// ---- where ---------------------------------------------------------------------------------------

quad_walk_env_options quad_default_walk_env_options(void) {
    return (quad_walk_env_options){.contact = NS_CONTACT_NCP, .mass = 1.0, .friction = 1.0};
}

static double sum_masses(const ns_model* model) {
    double sum = 0.0;
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        const ns_param* p = ns_model_param(model, k);
        if (ns_glob_match("link/*/mass", p->name)) sum += p->value;
    }
    return sum;
}

// Values instead of the model's: masses and inertias of all links, friction of all contacts.
static uint32_t change_params(const ns_model* model, const quad_walk_env_options* o,
                              ns_param_value* out) {
    uint32_t count = 0, all = ns_model_get_sizes(model).nparam;
    for (uint32_t k = 0; k < all; k++) {
        const ns_param* p = ns_model_param(model, k);
        bool heavy =
            ns_glob_match("link/*/mass", p->name) || ns_glob_match("link/*/inertia/*", p->name);
        if (heavy && o->mass != 1.0) out[count++] = (ns_param_value){p->name, o->mass * p->value};
        if (ns_glob_match("contact/*/mu", p->name)) {
            out[count++] = (ns_param_value){p->name, o->friction};
        }
    }
    return count;
}

ns_status quad_walk_env_create(const ns_model* model, const quad_robot* robot,
                               const quad_walk_env_options* options, const ns_allocator* allocator,
                               quad_walk_env** out, ns_error* error) {
    // Depths of the toes are observed.
    static const char* const toes[] = {"contact/FR_toe*/0/depth", "contact/FL_toe*/0/depth",
                                       "contact/RR_toe*/0/depth", "contact/RL_toe*/0/depth"};
    *out = NULL;
    quad_walk_env_options chosen = options ? *options : quad_default_walk_env_options();
    // NaN is rejected, too.
    if (!(chosen.mass > 0.0 && chosen.friction >= 0.0)) {
        return quad_fail(error, NS_ERR_ARGUMENT,
                         "a mass factor of %g or a friction of %g has no sense", chosen.mass,
                         chosen.friction);
    }

    // The environment, and scratch for changed parameters.
    quad_walk_env* p = quad_alloc_zeroed(allocator, sizeof *p);
    ns_param_value* set =
        quad_alloc(allocator, ((size_t)ns_model_get_sizes(model).nparam + 1) * sizeof *set);
    ns_status status = p && set ? NS_OK : quad_fail_nomem(error);

    // Locate trunk and joints in the model.
    if (status == NS_OK) {
        p->allocator = allocator ? *allocator : ns_default_allocator();
        p->robot = *robot;
        // Weight scaled along with the links.
        p->mass = chosen.mass * sum_masses(model);
        status = quad_bind(model, robot, &p->map, error);
    }

    // Compile the system, with changed masses and friction.
    if (status == NS_OK) {
        ns_system_options system = ns_default_system_options();
        system.contact = (int)chosen.contact;
        system.observe = toes;
        system.nobserve = QUAD_LEGS;
        system.set = set;
        system.nset = change_params(model, &chosen, set);
        status = ns_system_create(model, &system, &p->system, error);
    }

    // Sizes, and one contact point per toe.
    if (status == NS_OK) {
        ns_system_sizes z = ns_system_get_sizes(p->system);
        p->nx = z.nx;
        p->nc = z.nc;
        if (z.ny != QUAD_LEGS) {
            status =
                quad_fail(error, NS_ERR_ARGUMENT, "each toe must touch the ground at one point");
        }
    }

    quad_free(allocator, set);
    if (status == NS_OK) {
        *out = p;
    } else {
        // The free function needs the allocator.
        if (p) p->allocator = allocator ? *allocator : ns_default_allocator();
        quad_walk_env_free(p);
    }
    return status;
}

void quad_walk_env_free(quad_walk_env* place) {
    if (!place) return;
    ns_allocator memory = place->allocator;
    ns_system_free(place->system);
    quad_free(&memory, place);
}

// ---- making one ----------------------------------------------------------------------------------

quad_walk_options quad_default_walk_options(void) {
    quad_walk_options o = {.seconds = 60.0,
                           .period = 5,
                           .most = {0.6, 0.2, 0.8},
                           .hold = {2.0, 2.0},
                           .ramp = 0.5,
                           .gain = {1.0, 1.0, 1.0},
                           .push_every = 5.0,
                           .settle = 1.0,
                           .contact_known = true,
                           .controller = quad_default_controller_options()};
    o.controller.window = 5;
    return o;
}

static ns_status check_walk(const quad_walk_options* o, ns_error* error) {
    const struct {
        const char* name;
        double value, least, most;
    } ranges[] = {{"seconds", o->seconds, 0.0, 1e6},
                  {"period", o->period, 1.0, QUAD_WALK_MOST_PERIOD},
                  {"most[0]", o->most[0], 0.0, 10.0},
                  {"most[1]", o->most[1], 0.0, 10.0},
                  {"most[2]", o->most[2], 0.0, 10.0},
                  {"hold[0]", o->hold[0], 1e-3, o->hold[1]},
                  {"hold[1]", o->hold[1], 1e-3, 1e6},
                  {"ramp", o->ramp, 0.0, 1e6},
                  {"lift", o->lift, -1.0, 1.0},
                  {"delay", o->delay, 0.0, QUAD_WALK_MOST_DELAY},
                  {"noise", o->noise, 0.0, 1e3},
                  {"push", o->push, 0.0, 100.0},
                  {"push_every", o->push_every, 0.1, 1e6},
                  {"settle", o->settle, 0.0, 1e6}};
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        if (!(ranges[k].value >= ranges[k].least && ranges[k].value <= ranges[k].most)) {
            return quad_fail(error, NS_ERR_ARGUMENT, "%s is %g; it must be from %g to %g",
                             ranges[k].name, ranges[k].value, ranges[k].least, ranges[k].most);
        }
    }
    return NS_OK;
}

ns_status quad_walk_create(const quad_walk_env* place, const quad_walk_options* options,
                           const ns_allocator* allocator, quad_walk** out, ns_error* error) {
    *out = NULL;
    quad_walk_options chosen = options ? *options : quad_default_walk_options();
    // Defaults for missing options, then validate.
    ns_status status = check_walk(&chosen, error);
    if (status != NS_OK) return status;

    // Buffers for one control period, in one block.
    quad_walk* w = quad_alloc_zeroed(allocator, sizeof *w);
    if (!w) return quad_fail_nomem(error);
    w->allocator = allocator ? *allocator : ns_default_allocator();
    w->place = place;
    w->options = chosen;
    // One row more: the state at the end of the period.
    size_t rows = (size_t)chosen.period + 1;
    double* block = quad_alloc_zeroed(
        allocator, (place->nx + QUAD_LEGS + rows * (place->nx + place->nc)) * sizeof *block);
    if (!block) {
        status = quad_fail_nomem(error);
    } else {
        // Partition the block.
        w->x = block;
        w->y = w->x + place->nx;
        w->states = w->y + QUAD_LEGS;
        w->controls = w->states + rows * place->nx;
    }

    // The controller aims at a higher trunk, as the options ask.
    quad_robot robot = place->robot;
    robot.body_height += chosen.lift;
    if (status == NS_OK) {
        status =
            quad_controller_create(&robot, &chosen.controller, allocator, &w->controller, error);
    }

    // Length of a stride in decisions, over which velocities are averaged.
    if (status == NS_OK) {
        const quad_gait_options* gait = &chosen.controller.gait;
        double decision = chosen.period * ns_system_get_sizes(place->system).timestep;
        double stride = round(gait->stance_duration / gait->duty_factor / decision);
        // Bounded by the buffer of the average.
        w->stride = (uint32_t)fmin(fmax(stride, 1.0), QUAD_WALK_MOST_STRIDE);
        ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
        status = ns_workspace_create(place->system, &size, &w->work, error);
    }

    // Hand over a complete walk or none.
    if (status != NS_OK) {
        quad_walk_free(w);
        return status;
    }
    // Seed 0 until the caller chooses one.
    quad_walk_begin(w, 0);
    *out = w;
    return NS_OK;
}

void quad_walk_free(quad_walk* walk) {
    if (!walk) return;
    ns_allocator memory = walk->allocator;
    quad_controller_free(walk->controller);
    ns_workspace_free(walk->work);
    quad_free(&memory, walk->x);
    quad_free(&memory, walk);
}

void quad_walk_begin(quad_walk* w, uint64_t seed) {
    quad_controller_reset(w->controller);
    memset(w->x, 0, w->place->nx * sizeof *w->x);
    memset(w->y, 0, QUAD_LEGS * sizeof *w->y);
    quad_start(&w->place->map, &w->place->robot, w->x);
    w->commands = ns_rng_seed(2 * seed);
    w->noise = ns_rng_seed(2 * seed + 1);
    w->step = 0;
    memset(w->from, 0, sizeof w->from);
    memset(w->to, 0, sizeof w->to);
    w->changed = -w->options.ramp;
    w->next = 0.0;
    w->pushed = 0.5 * w->options.push_every;
    w->nseen = 0;
    w->nerror = 0;
    w->over = false;
    w->sums = (quad_walk_result){0};
}

const quad_controller* quad_walk_controller(const quad_walk* walk) {
    return walk->controller;
}

// ---- commands and disturbances -------------------------------------------------------------------

static quad_command command_at(quad_walk* w, double time) {
    const quad_walk_options* o = &w->options;
    if (time >= w->next - 1e-9) {
        for (int k = 0; k < 3; k++) {
            w->from[k] = w->to[k];
            w->to[k] = ns_rng_uniform(&w->commands, -o->most[k], o->most[k]);
        }
        w->changed = time;
        w->next = time + ns_rng_uniform(&w->commands, o->hold[0], o->hold[1]);
    }
    double share = o->ramp > 0.0 ? fmin((time - w->changed) / o->ramp, 1.0) : 1.0, c[3];
    for (int k = 0; k < 3; k++) c[k] = w->from[k] + share * (w->to[k] - w->from[k]);
    return (quad_command){{c[0], c[1]}, c[2]};
}

static void add_noise(ns_rng* rng, double scale, double* numbers, int count) {
    for (int k = 0; k < count; k++) numbers[k] += scale * ns_rng_normal(rng);
}

// What the controller is shown: noisy, and late.
static quad_state sense(quad_walk* w, const quad_state* truth) {
    const quad_walk_options* o = &w->options;
    quad_state s = *truth;
    if (o->noise > 0.0) {
        // A small turn by t about the trunk's own axes multiplies the quaternion by (1, t/2).
        double t[3] = {0};
        add_noise(&w->noise, 0.5 * o->noise * QUAD_WALK_NOISE_TILT, t, 3);
        const double* q = truth->quaternion;
        s.quaternion[0] = q[0] - q[1] * t[0] - q[2] * t[1] - q[3] * t[2];
        s.quaternion[1] = q[1] + q[0] * t[0] + q[2] * t[2] - q[3] * t[1];
        s.quaternion[2] = q[2] + q[0] * t[1] + q[3] * t[0] - q[1] * t[2];
        s.quaternion[3] = q[3] + q[0] * t[2] + q[1] * t[1] - q[2] * t[0];
        add_noise(&w->noise, o->noise * QUAD_WALK_NOISE_VELOCITY, s.velocity, 3);
        add_noise(&w->noise, o->noise * QUAD_WALK_NOISE_ANGULAR, s.angular_velocity, 3);
        add_noise(&w->noise, o->noise * QUAD_WALK_NOISE_ANGLE, s.q, QUAD_JOINTS);
        add_noise(&w->noise, o->noise * QUAD_WALK_NOISE_RATE, s.qd, QUAD_JOINTS);
    }
    memmove(w->seen + 1, w->seen, sizeof w->seen - sizeof *w->seen);
    w->seen[0] = s;
    if (w->nseen <= o->delay) w->nseen++;
    return w->seen[w->nseen - 1];
}

// A push lasts a period: force on the trunk, sideways or along, that changes the velocity of all.
static void push(quad_walk* w, double time, double force[2]) {
    const quad_walk_options* o = &w->options;
    force[0] = force[1] = 0.0;
    if (!(o->push > 0.0) || time < w->pushed - 1e-9) return;
    w->pushed += o->push_every;
    const double duration = o->period * ns_system_get_sizes(w->place->system).timestep;
    const double size = o->push * w->place->mass / duration;
    const double angle = ns_rng_uniform(&w->noise, 0.0, 2.0 * acos(-1.0));
    force[0] = size * cos(angle);
    force[1] = size * sin(angle);
}

// ---- how well ------------------------------------------------------------------------------------

static void walk_observe(quad_walk* w, quad_walk_sample* m) {
    const double* q = m->state.quaternion;
    double yaw = atan2(2.0 * (q[0] * q[3] + q[1] * q[2]), 1.0 - 2.0 * (q[2] * q[2] + q[3] * q[3]));
    const double *v = m->state.velocity, *turn = m->state.angular_velocity;
    m->velocity[0] = cos(yaw) * v[0] + sin(yaw) * v[1];
    m->velocity[1] = cos(yaw) * v[1] - sin(yaw) * v[0];
    // The vertical part of the angular velocity: the last row of the rotation.
    m->velocity[2] = 2.0 * (q[1] * q[3] - q[0] * q[2]) * turn[0] +
                     2.0 * (q[2] * q[3] + q[0] * q[1]) * turn[1] +
                     (1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2])) * turn[2];
    m->height = m->state.position[2] - w->place->robot.toe_radius;
}

static void judge_sample(quad_walk* w, const quad_walk_sample* m) {
    quad_walk_result* s = &w->sums;
    const double wanted[3] = {m->command.velocity[0], m->command.velocity[1], m->command.yaw_rate};
    const double* q = m->state.quaternion;
    double roll = atan2(2.0 * (q[2] * q[3] + q[0] * q[1]), 1.0 - 2.0 * (q[1] * q[1] + q[2] * q[2]));
    double pitch = asin(fmin(fmax(2.0 * (q[0] * q[2] - q[1] * q[3]), -1.0), 1.0));
    s->tilt = fmax(s->tilt, fmax(fabs(roll), fabs(pitch)));
    double* now = w->errors[w->nerror++ % w->stride];
    for (int k = 0; k < 3; k++) now[k] = m->velocity[k] - wanted[k];
    if (m->time < w->options.settle || w->nerror < w->stride) return;
    s->count++;
    for (int k = 0; k < 3; k++) {
        double mean = 0.0;
        for (uint32_t i = 0; i < w->stride; i++) mean += w->errors[i][k] / w->stride;
        s->velocity[k] += mean * mean;
        s->raw[k] += now[k] * now[k];
        s->follow[k][0] += wanted[k] * m->velocity[k];
        s->follow[k][1] += wanted[k] * wanted[k];
    }
    double off = m->height - w->place->robot.body_height;
    s->height += off * off;
    s->bias += off;
}

quad_walk_result quad_walk_finish(const quad_walk* walk) {
    quad_walk_result r = walk->sums;
    const double n = r.count; // where nothing counted, errors are 0 / 0
    for (int k = 0; k < 3; k++) {
        r.velocity[k] = sqrt(r.velocity[k] / n);
        r.raw[k] = sqrt(r.raw[k] / n);
    }
    r.height = sqrt(r.height / n);
    r.bias /= n;
    return r;
}

static double merge_squares(double a, double na, double b, double nb) {
    if (na == 0.0 || nb == 0.0) return na == 0.0 ? b : a; // what did not count may be NaN
    return sqrt((na * a * a + nb * b * b) / (na + nb));
}

void quad_walk_merge(quad_walk_result* sum, const quad_walk_result* one) {
    const double na = sum->count, nb = one->count;
    for (int k = 0; k < 3; k++) {
        sum->velocity[k] = merge_squares(sum->velocity[k], na, one->velocity[k], nb);
        sum->raw[k] = merge_squares(sum->raw[k], na, one->raw[k], nb);
        for (int i = 0; i < 2; i++) sum->follow[k][i] += one->follow[k][i];
    }
    sum->height = merge_squares(sum->height, na, one->height, nb);
    if (na == 0.0) {
        sum->bias = one->bias;
    } else if (nb > 0.0) {
        sum->bias = (na * sum->bias + nb * one->bias) / (na + nb);
    }
    sum->count += one->count;
    sum->falls += one->falls;
    sum->seconds += one->seconds;
    sum->tilt = fmax(sum->tilt, one->tilt);
    sum->cpu += one->cpu;
    sum->decisions += one->decisions;
    sum->shared += one->shared;
    sum->unreachable += one->unreachable;
    sum->limited += one->limited;
}

// ---- the loop ------------------------------------------------------------------------------------

static void decide(quad_walk* w, quad_walk_sample* m) {
    quad_walk_result* s = &w->sums;
    quad_state seen = sense(w, &m->state);
    double began = quad_clock_wall();
    ns_status status =
        quad_controller_update(w->controller, m->time, &seen, &m->told, &m->report, NULL);
    m->seconds = quad_clock_wall() - began;
    s->decisions++;
    s->shared += m->report.source == QUAD_STANCE_SHARED;
    s->limited += m->report.limited;
    bool missed = false;
    for (int k = 0; k < QUAD_LEGS; k++) missed = missed || m->report.unreachable[k];
    s->unreachable += missed;
    if (status != NS_OK || m->report.fallen) w->over = true;
}

bool quad_walk_step(quad_walk* w, quad_walk_sample* m) {
    const quad_walk_env* place = w->place;
    const quad_walk_options* o = &w->options;
    const uint32_t nx = place->nx, nc = place->nc;
    const double timestep = ns_system_get_sizes(place->system).timestep;
    double time = (double)w->step * timestep, began = quad_clock_thread_cpu();
    // A fall or the end of the time ends the walk.
    if (w->over || time >= o->seconds - 1e-9) return false;

    // The command, and the corrected one for the controller: gains compensate a systematic error.
    *m = (quad_walk_sample){.time = time, .states = w->states, .controls = w->controls};
    m->command = command_at(w, time);
    m->told =
        (quad_command){{o->gain[0] * m->command.velocity[0], o->gain[1] * m->command.velocity[1]},
                       o->gain[2] * m->command.yaw_rate};

    m->state = quad_read(&place->map, w->x);
    m->state.contact_known = o->contact_known;
    // A toe within 1 mm counts as touching: rigid contact leaves gaps that small.
    for (int k = 0; k < QUAD_LEGS; k++) m->state.contact[k] = w->y[k] > -1e-3;

    // Apply noise and delay, update the errors, and decide.
    walk_observe(w, m);
    judge_sample(w, m);
    decide(w, m);

    // Disturbance of this period, if any.
    double force[2];
    push(w, time, force);
    memset(w->controls, 0, (size_t)o->period * nc * sizeof *w->controls);

    // Simulate the period step by step.
    for (uint32_t k = 0; k < o->period && !w->over; k++) {
        double *rows = w->states + (size_t)k * nx, *c = w->controls + (size_t)k * nc;
        double torques[QUAD_JOINTS];
        // Torques follow the joints at the rate of the simulation.
        quad_state s = quad_read(&place->map, w->x);
        quad_controller_torques(w->controller, s.q, s.qd, torques);
        quad_write(&place->map, torques, c);
        // The push acts on the trunk.
        for (int i = 0; i < 2; i++) c[place->map.nu + place->map.base_v + (uint32_t)i] += force[i];
        ns_rollout_args args = {.batch = 1,
                                .steps = 1,
                                .x0 = w->x,
                                .controls = c,
                                .states = rows,
                                .observations = w->y};
        // A simulation that diverges counts as a fall.
        if (ns_rollout(place->system, w->work, &args, NULL) != NS_OK) w->over = true;
        memcpy(w->x, rows + nx, nx * sizeof *w->x);
        w->step++;
    }

    if (w->over) w->sums.falls = 1;
    w->sums.seconds = (double)w->step * timestep;
    w->sums.cpu += quad_clock_thread_cpu() - began;
    return true;
}
