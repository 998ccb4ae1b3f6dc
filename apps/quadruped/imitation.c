// Imitation: recording decisions, and training on them.

#include "quadruped/imitation.h"

#include "neuralsim/program.h"
#include "neuralsim/random.h"
#include "neuralsim/solver.h"

#include <math.h>

enum { FEATURES = QUAD_FEATURES, JOINTS = QUAD_JOINTS, LANES = 4 };

// ---- lessons -------------------------------------------------------------------------------------

ns_status quad_demonstrations_create(uint32_t room, const ns_allocator* allocator,
                                     quad_demonstrations* out, ns_error* error) {
    *out = (quad_demonstrations){.room = room};
    out->features = quad_alloc_zeroed(allocator, (size_t)room * FEATURES * sizeof *out->features);
    out->torques = quad_alloc_zeroed(allocator, (size_t)room * JOINTS * sizeof *out->torques);
    if (out->features && out->torques) return NS_OK;
    quad_demonstrations_free(out, allocator);
    return quad_fail_nomem(error);
}

void quad_demonstrations_free(quad_demonstrations* lessons, const ns_allocator* allocator) {
    quad_free(allocator, lessons->features);
    quad_free(allocator, lessons->torques);
    *lessons = (quad_demonstrations){0};
}

static void record_walk(quad_demonstrations* lessons, quad_walk* walk, uint32_t most, double share,
                        ns_rng* rng) {
    const quad_controller* teacher = quad_walk_controller(walk);
    quad_walk_sample m;
    while (lessons->count < most && quad_walk_step(walk, &m)) {
        bool good = m.report.source == QUAD_STANCE_MPC;
        if (!good || ns_rng_uniform(rng, 0.0, 1.0) >= share) continue;
        size_t at = lessons->count++;
        memcpy(lessons->features + at * FEATURES, quad_controller_features(teacher),
               FEATURES * sizeof *lessons->features);
        memcpy(lessons->torques + at * JOINTS, quad_controller_stance_torques(teacher),
               JOINTS * sizeof *lessons->torques);
    }
}

ns_status quad_demonstrations_record(quad_demonstrations* lessons, const quad_walk_env* place,
                                     const quad_walk_options* options, uint64_t seed,
                                     uint32_t count, double share, const ns_allocator* allocator,
                                     ns_error* error) {
    if (count > lessons->room - lessons->count) {
        return quad_fail(error, NS_ERR_LIMIT, "there is no room for %u decisions more", count);
    }
    const uint32_t most = lessons->count + count;
    quad_walk* walk = NULL;
    ns_rng rng = ns_rng_seed(~seed);
    ns_status status = quad_walk_create(place, options, allocator, &walk, error);
    for (uint32_t run = 0; status == NS_OK && lessons->count < most; run++) {
        quad_walk_begin(walk, seed + run);
        record_walk(lessons, walk, most, share, &rng);
        if (run > 1000 + count) {
            status = quad_fail(error, NS_ERR_LIMIT, "robots fall before decisions can be recorded");
        }
    }
    quad_walk_free(walk);
    return status;
}

// ---- training ------------------------------------------------------------------------------------

quad_imitate_options quad_default_imitate_options(void) {
    return (quad_imitate_options){
        .iterations = 8000, .batch = 64, .rate = 2e-3, .held = 0.1, .seed = 1};
}

typedef struct trainer {
    quad_policy* policy;
    const quad_demonstrations* lessons;
    const quad_imitate_options* options;
    uint32_t ntrain;
    ns_program *value, *gradient;
    void* work;
    ns_rng rng;
} trainer;

static ns_status build_trainer(trainer* t, ns_error* error) {
    ns_graph *value = NULL, *gradient = NULL;
    ns_program_options options = ns_default_program_options();
    options.lanes = LANES;
    ns_diff_options diff = ns_default_diff_options();
    diff.skip_inputs = diff.skip_value = true;
    ns_status status = quad_policy_graph(t->policy, &value, error);
    if (status == NS_OK) status = ns_graph_vjp(value, &diff, &gradient, error);
    if (status == NS_OK) status = ns_program_build(value, &options, &t->value, error);
    if (status == NS_OK) status = ns_program_build(gradient, &options, &t->gradient, error);
    if (status == NS_OK) {
        size_t a = ns_program_work_size(t->value), b = ns_program_work_size(t->gradient);
        t->work = quad_alloc(&t->policy->allocator, a > b ? a : b);
        if (!t->work) status = quad_fail_nomem(error);
    }
    ns_graph_free(value);
    ns_graph_free(gradient);
    return status;
}

// Means and standard deviations; what never changes is not looked at, so that it cannot mislead where
// it does.
static void set_scales(quad_policy* p, const quad_demonstrations* l, uint32_t count) {
    for (int k = 0; k < FEATURES; k++) {
        double mean = 0.0, square = 0.0;
        for (size_t n = 0; n < count; n++) mean += l->features[n * FEATURES + (size_t)k] / count;
        for (size_t n = 0; n < count; n++) {
            double off = l->features[n * FEATURES + (size_t)k] - mean;
            square += off * off / count;
        }
        p->mean[k] = mean;
        p->scale[k] = square > 1e-16 ? 1.0 / sqrt(square) : 0.0;
    }
    for (size_t k = 0; k < JOINTS; k++) {
        double square = 0.0, n = 0.0;
        for (size_t i = 0; i < count; i++) {
            double torque = l->torques[i * JOINTS + k];
            if (l->features[i * FEATURES + 9 + k / QUAD_LEG_JOINTS] == 0.0) continue;
            square += torque * torque;
            n++;
        }
        p->torque[k] = n > 0.0 && square > 0.0 ? sqrt(square / n) : 1.0;
    }
}

// Four lessons: scaled features in, errors of scaled torques of stance legs out (as seeds of 1/2 of
// their squares). The sum of squares comes back.
static double evaluate(trainer* t, const double* weights, const uint32_t which[LANES], double* in,
                       double* seeds) {
    const quad_policy* p = t->policy;
    double out[JOINTS * LANES], sum = 0.0;
    for (size_t lane = 0; lane < LANES; lane++) {
        const double* f = t->lessons->features + (size_t)which[lane] * FEATURES;
        for (size_t k = 0; k < FEATURES; k++)
            in[k * LANES + lane] = (f[k] - p->mean[k]) * p->scale[k];
    }
    const double* arrays[1] = {weights};
    ns_program_run(t->value, &(ns_run){.in = in, .out = out, .arrays = arrays, .work = t->work});
    for (size_t lane = 0; lane < LANES; lane++) {
        const double* f = t->lessons->features + (size_t)which[lane] * FEATURES;
        const double* want = t->lessons->torques + (size_t)which[lane] * JOINTS;
        for (size_t k = 0; k < JOINTS; k++) {
            double error = out[k * LANES + lane] - want[k] / p->torque[k];
            if (f[9 + k / QUAD_LEG_JOINTS] == 0.0) error = 0.0;
            seeds[k * LANES + lane] = error;
            sum += error * error;
        }
    }
    return sum;
}

static double imitation_cost(void* context, const double* x, double* gradient) {
    trainer* t = context;
    const quad_imitate_options* o = t->options;
    const uint32_t n = t->policy->nweight;
    double in[(FEATURES + JOINTS) * LANES], value = 0.0;
    const double* arrays[1] = {x};
    double* sinks[1] = {gradient};
    if (gradient) memset(gradient, 0, n * sizeof *gradient);
    for (uint32_t k = 0; k < o->batch; k += LANES) {
        uint32_t which[LANES];
        for (int lane = 0; lane < LANES; lane++) which[lane] = ns_rng_below(&t->rng, t->ntrain);
        value += 0.5 * evaluate(t, x, which, in, in + FEATURES * LANES) / o->batch;
        if (!gradient) continue;
        for (int i = FEATURES * LANES; i < (FEATURES + JOINTS) * LANES; i++) in[i] /= o->batch;
        double none[1];
        ns_program_run(
            t->gradient,
            &(ns_run){.in = in, .out = none, .arrays = arrays, .sinks = sinks, .work = t->work});
    }
    return value;
}

// Root mean square error in N m of lessons from..to.
static double measure(trainer* t, uint32_t from, uint32_t to) {
    double in[FEATURES * LANES], errors[JOINTS * LANES], sum = 0.0, count = 0.0;
    for (uint32_t n = from; n < to; n += LANES) {
        uint32_t which[LANES];
        for (uint32_t lane = 0; lane < LANES; lane++) which[lane] = n + lane < to ? n + lane : n;
        evaluate(t, t->policy->weights, which, in, errors);
        for (uint32_t lane = 0; lane < LANES && n + lane < to; lane++) {
            const double* f = t->lessons->features + (size_t)(n + lane) * FEATURES;
            for (uint32_t k = 0; k < JOINTS; k++) {
                double off = errors[k * LANES + lane] * t->policy->torque[k];
                sum += off * off;
                count += f[9 + k / QUAD_LEG_JOINTS];
            }
        }
    }
    return count > 0.0 ? sqrt(sum / count) : 0.0;
}

static double torque_spread(const quad_demonstrations* l) {
    double sum = 0.0, count = 0.0;
    for (size_t k = 0; k < JOINTS; k++) {
        double mean = 0.0, n = 0.0, square = 0.0;
        for (size_t i = 0; i < l->count; i++) {
            if (l->features[i * FEATURES + 9 + k / QUAD_LEG_JOINTS] == 0.0) continue;
            double torque = l->torques[i * JOINTS + k];
            mean += torque;
            square += torque * torque;
            n++;
        }
        if (n > 0.0) sum += square - mean * mean / n;
        count += n;
    }
    return count > 0.0 ? sqrt(sum / count) : 0.0;
}

ns_status quad_imitate(quad_policy* policy, const quad_demonstrations* lessons,
                       const quad_imitate_options* options, quad_imitate_report* report,
                       ns_error* error) {
    quad_imitate_options chosen = options ? *options : quad_default_imitate_options();
    // Demonstrations at the end are held out, so that both parts are consecutive.
    trainer t = {.policy = policy, .lessons = lessons, .options = &chosen};
    t.ntrain = (uint32_t)((1.0 - chosen.held) * lessons->count);
    t.rng = ns_rng_seed(chosen.seed);
    // Programs run in lanes, so batches must fill them.
    if (t.ntrain == 0 || chosen.batch == 0 || chosen.batch % LANES != 0) {
        return quad_fail(error, NS_ERR_ARGUMENT,
                         "imitation needs lessons, and batches of a multiple of %d", LANES);
    }

    // Train by Adam on random batches.
    ns_status status = build_trainer(&t, error);
    if (status == NS_OK) {
        // Features are scaled by their spread in the training part.
        set_scales(policy, lessons, t.ntrain);
        ns_solver_problem problem = {.n = policy->nweight, .cost = imitation_cost, .context = &t};
        ns_solver_options adam = {.learning_rate = chosen.rate,
                                  .max_iterations = chosen.iterations};
        ns_solver_result result;
        status = ns_minimise("adam", &problem, &adam, policy->weights, &result, error);
        // A bad start is an error, not a bad policy.
        if (status == NS_OK && result.finish == NS_FINISH_FAILED) {
            status = quad_fail(error, NS_ERR_NONFINITE,
                               "imitation cannot begin: lessons or weights are not finite");
        }
    }

    // Errors on both parts, and the spread of the torques to compare them with.
    if (status == NS_OK && report) {
        *report = (quad_imitate_report){.train = measure(&t, 0, t.ntrain),
                                        .held = measure(&t, t.ntrain, lessons->count),
                                        .spread = torque_spread(lessons)};
    }

    // Convert the weights for inference.
    if (status == NS_OK) quad_policy_ready(policy);

    ns_program_free(t.value);
    ns_program_free(t.gradient);
    quad_free(&policy->allocator, t.work);
    return status;
}
