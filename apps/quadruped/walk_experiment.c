// Running an experiment: training, walking, numbers.
//
// Test runs, validation, recording and tuning have seeds of their own. What is chosen, is chosen on
// validation.

#include "quadruped/walk_experiment.h"

#include "quadruped/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { TEST = 1000, VALIDATION = 100000, RECORDING = 200000, TUNING = 300000 }; // first seeds
enum { CORRECTION_SEEDS = 4 };

#define TIME_UNIT 1e-7 // s, lower end of the first bin
#define TIME_RATIO 1.02

uint32_t walk_period(uint32_t robot) {
    return robot == WALK_A1 ? 5 : 10; // as motion_imitation (Peng et al. 2020)
}

double walk_speed_error(const quad_walk_result* result) {
    return hypot(result->velocity[0], result->velocity[1]);
}

// ---- times of decisions --------------------------------------------------------------------------

static void add_time(walk_times* times, double seconds) {
    double bin = log(fmax(seconds, TIME_UNIT) / TIME_UNIT) / log(TIME_RATIO);
    times->bins[bin < WALK_TIME_BINS - 1 ? (uint32_t)bin : WALK_TIME_BINS - 1]++;
    times->count++;
}

double walk_quantile(const walk_times* times, double share) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < WALK_TIME_BINS; k++) {
        sum += times->bins[k];
        if (sum > 0 && (double)sum >= share * (double)times->count) {
            return TIME_UNIT * pow(TIME_RATIO, k + 0.5);
        }
    }
    return (double)NAN;
}

// ---- traces --------------------------------------------------------------------------------------

static ns_status create_trace(walk_trace* t, const quad_walk_env* env, double seconds,
                              const quad_walk_options* options, ns_error* error) {
    size_t rows = (size_t)(seconds / (1e-3 * options->period)) + 1;
    t->nx = env->nx;
    t->nc = env->nc;
    t->time = calloc(rows, sizeof *t->time);
    t->states = calloc(rows * t->nx, sizeof *t->states);
    t->controls = calloc(rows * t->nc, sizeof *t->controls);
    t->wanted = calloc(rows, sizeof *t->wanted);
    t->velocity = calloc(rows, sizeof *t->velocity);
    t->height = calloc(rows, sizeof *t->height);
    t->stands = calloc(rows, sizeof *t->stands);
    t->touches = calloc(rows, sizeof *t->touches);
    bool complete = t->time && t->states && t->controls && t->wanted && t->velocity && t->height &&
                    t->stands && t->touches;
    return complete ? NS_OK : quad_fail_nomem(error);
}

static void free_trace(walk_trace* t) {
    free(t->time);
    free(t->states);
    free(t->controls);
    free(t->wanted);
    free(t->velocity);
    free(t->height);
    free(t->stands);
    free(t->touches);
}

static void add_to_trace(walk_trace* t, const quad_walk_sample* m) {
    const uint32_t k = t->count++;
    const double wanted[3] = {m->command.velocity[0], m->command.velocity[1], m->command.yaw_rate};
    t->time[k] = m->time;
    memcpy(t->states + (size_t)k * t->nx, m->states, t->nx * sizeof *t->states);
    memcpy(t->controls + (size_t)k * t->nc, m->controls, t->nc * sizeof *t->controls);
    memcpy(t->wanted[k], wanted, sizeof wanted);
    memcpy(t->velocity[k], m->velocity, sizeof m->velocity);
    t->height[k] = m->height;
    memcpy(t->stands[k], m->report.stands, sizeof m->report.stands);
    memcpy(t->touches[k], m->state.contact, sizeof m->state.contact);
}

// ---- walking -------------------------------------------------------------------------------------

static int thread_count(const walk_experiment* w) {
#ifdef _OPENMP
    return w->options.threads > 0 ? (int)w->options.threads : omp_get_num_procs();
#else
    (void)w;
    return 1;
#endif
}

static void report_progress(const walk_experiment* w, const char* name, double fraction) {
    if (w->options.progress) w->options.progress(w->options.context, name, fraction);
}

static ns_status create_env(const walk_experiment* w, uint32_t robot,
                            const quad_walk_env_options* options, quad_walk_env** out,
                            ns_error* error) {
    return quad_walk_env_create(w->models[robot], &w->robots[robot], options, NULL, out, error);
}

// Walk with seeds first .. first + count - 1 and merge the results in their order, so that they do not
// depend on the threads.
// @param times, trace  NULL: not wanted; the trace is of the first seed
static ns_status walk_seeds(const walk_experiment* w, const quad_walk_env* env,
                            const quad_walk_options* options, uint64_t first, uint32_t count,
                            quad_walk_result* sum, walk_times* times, walk_trace* trace,
                            ns_error* error) {
    quad_walk_result* results = calloc(count, sizeof *results);
    if (!results) return quad_fail_nomem(error);
    // Threads report failure through one flag.
    bool failed = false;
    const uint32_t rows = (uint32_t)(w->def->playback / (1e-3 * options->period));

#ifdef _OPENMP
#pragma omp parallel num_threads(thread_count(w))
#endif
    {
        // Each thread has its own robot.
        quad_walk* walk = NULL;
        walk_times own = {.count = 0};
        if (quad_walk_create(env, options, NULL, &walk, NULL) != NS_OK) {
#ifdef _OPENMP
#pragma omp critical(walk_experiment)
#endif
            failed = true;
        }
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif
        for (int k = 0; k < (int)count; k++) {
            // Results depend on the seed only.
            quad_walk_sample m;
            if (!walk) continue;
            quad_walk_begin(walk, first + (uint64_t)k);
            while (quad_walk_step(walk, &m)) {
                if (times) add_time(&own, m.seconds);
                // Only the first seed is shown in the report.
                if (trace && k == 0 && trace->count < rows) add_to_trace(trace, &m);
            }
            results[k] = quad_walk_finish(walk);
        }
        quad_walk_free(walk);

        // Merge the timing histograms of all threads.
#ifdef _OPENMP
#pragma omp critical(walk_experiment)
#endif
        for (uint32_t k = 0; times && k < WALK_TIME_BINS; k++) {
            times->bins[k] += own.bins[k];
            times->count += own.bins[k];
        }
    }

    // Merge the results in the order of the seeds.
    *sum = (quad_walk_result){0};
    for (uint32_t k = 0; k < count; k++) quad_walk_merge(sum, &results[k]);
    free(results);
    return failed ? quad_fail_nomem(error) : NS_OK;
}

static void use_policy(const walk_experiment* w, uint32_t policy, quad_walk_options* options) {
    if (policy == QUAD_NONE) return;
    options->controller.policy = quad_policy_decide;
    options->controller.policy_context = w->policies[policy].policy;
}

// The simplest remedy for a constant error: gains of commands and an offset of the height, from
// validation runs.
static ns_status correct_commands(const walk_experiment* w, const quad_walk_env* env, walk_run* r,
                                  ns_error* error) {
    quad_walk_result sum;
    ns_status status =
        walk_seeds(w, env, &r->options, VALIDATION, CORRECTION_SEEDS, &sum, NULL, NULL, error);
    if (status != NS_OK) return status;
    for (int k = 0; k < 3; k++) {
        if (sum.follow[k][0] > 0.0) r->options.gain[k] = sum.follow[k][1] / sum.follow[k][0];
    }
    // Networks do not see the wanted height.
    if (r->policy == QUAD_NONE && sum.count > 0) r->options.lift = -sum.bias;
    return NS_OK;
}

static ns_contact_model run_contact(const walk_run* r) {
    return r->def->contact ? r->def->contact : NS_CONTACT_NCP;
}

static ns_status walk_run_seeds(walk_experiment* w, walk_run* r, ns_error* error) {
    quad_walk_env_options options = quad_default_walk_env_options();
    options.contact = run_contact(r);
    quad_walk_env* env = NULL;
    ns_status status = create_env(w, r->robot, &options, &env, error);
    use_policy(w, r->policy, &r->options);

    if (status == NS_OK && r->def->command_correction) {
        status = correct_commands(w, env, r, error);
    }
    if (status == NS_OK && r->def->record_trace) {
        status = create_trace(&r->trace, env, w->def->playback, &r->options, error);
    }
    if (status == NS_OK) {
        status = walk_seeds(w, env, &r->options, TEST, r->seeds, &r->sum, &r->times,
                            r->def->record_trace ? &r->trace : NULL, error);
    }
    quad_walk_env_free(env);
    return status;
}

// All disturbed runs under one disturbance; runs on the same robot and contact model share a system.
static ns_status walk_disturbed(walk_experiment* w, uint32_t number, ns_error* error) {
    const walk_disturbance* d = &w->def->disturbances[number];
    // The disturbance changes the robot and the ground.
    quad_walk_env_options at = quad_default_walk_env_options();
    at.mass = d->mass;
    at.friction = d->friction;
    // Systems are compiled on demand.
    quad_walk_env* envs[WALK_ROBOTS][2] = {{NULL}}; // rigid, spring
    ns_status status = NS_OK;

    for (uint32_t k = 0; k < w->ndisturbed && status == NS_OK; k++) {
        const walk_run* r = &w->runs[w->disturbed[k]];
        quad_walk_env** env = &envs[r->robot][run_contact(r) == NS_CONTACT_SPRING];
        // Delay, push and noise belong to the walk.
        quad_walk_options options = r->options;
        options.seconds = w->disturbed_seconds;
        options.delay = (uint32_t)round(d->delay / (1e-3 * options.period));
        options.push = d->push;
        options.noise = d->noise;
        at.contact = run_contact(r);
        // The first run of a robot and contact model creates the system.
        if (!*env) status = create_env(w, r->robot, &at, env, error);
        if (status == NS_OK) {
            status = walk_seeds(w, *env, &options, TEST, w->disturbed_seeds,
                                &w->disturbed_sums[number * w->ndisturbed + k], NULL, NULL, error);
        }
    }

    // Systems belong to this disturbance only.
    for (uint32_t k = 0; k < WALK_ROBOTS; k++) {
        quad_walk_env_free(envs[k][0]);
        quad_walk_env_free(envs[k][1]);
    }
    return status;
}

// ---- policies ------------------------------------------------------------------------------------

// A tuned policy walks the robot of the one it started from.
static uint32_t policy_robot(const walk_experiment* w, uint32_t policy) {
    while (w->policies[policy].from != QUAD_NONE) policy = w->policies[policy].from;
    return w->policies[policy].def->robot;
}

static quad_walk_options default_walk(const walk_experiment* w, uint32_t robot) {
    quad_walk_options o = quad_default_walk_options();
    o.seconds = w->walk_seconds;
    o.period = walk_period(robot);
    return o;
}

static ns_status train_by_imitation(const walk_experiment* w, walk_policy* p,
                                    const quad_walk_env* env, ns_error* error) {
    quad_demonstrations demonstrations = {0};
    quad_walk_options walk = default_walk(w, p->def->robot);
    walk.seconds = 60.0;
    quad_imitate_options imitate = quad_default_imitate_options();
    imitate.iterations = p->iterations;

    ns_status status = quad_demonstrations_create(p->transitions, NULL, &demonstrations, error);
    if (status == NS_OK) {
        status = quad_demonstrations_record(&demonstrations, env, &walk, RECORDING, p->transitions,
                                            p->def->keep_probability, NULL, error);
    }
    if (status == NS_OK) {
        status = quad_policy_create(p->def->hidden, p->def->nhidden, 1, NULL, &p->policy, error);
    }
    if (status == NS_OK) {
        status = quad_imitate(p->policy, &demonstrations, &imitate, &p->imitated, error);
    }
    quad_demonstrations_free(&demonstrations, NULL);
    return status;
}

// Tuning keeps the weights that are best on validation seeds: errors of speed and height, each as a
// share of what it was before, no fall.
typedef struct validation {
    walk_experiment* w;
    walk_policy* p;
    const quad_walk_env* env;
    quad_walk_options options;
    quad_policy* best;
    double score;
    ns_status status;
    ns_error* error;
} validation;

static ns_status validate_policy(validation* v, uint32_t iteration) {
    walk_policy* p = v->p;
    quad_walk_result sum;
    ns_status status = walk_seeds(v->w, v->env, &v->options, VALIDATION, p->def->validation_seeds,
                                  &sum, NULL, NULL, v->error);
    if (status != NS_OK) return status;
    if (iteration == 0) p->first = p->last = sum;

    // Where nothing counted before, errors are taken as they are; where nothing counts now, a NaN is
    // never the best.
    const bool known = p->first.count > 0;
    double score = walk_speed_error(&sum) / (known ? walk_speed_error(&p->first) : 1.0) +
                   sum.height / (known ? p->first.height : 1.0) + 100.0 * sum.falls;
    p->history_at[p->nhistory] = iteration;
    p->history_velocity[p->nhistory] = walk_speed_error(&sum);
    p->history_height[p->nhistory++] = sum.height;
    if (score < v->score) {
        v->score = score;
        p->best = iteration;
        p->last = sum;
        memcpy(v->best->weights, p->policy->weights, p->policy->nweight * sizeof(double));
    }
    return NS_OK;
}

static bool after_iteration(void* context, uint32_t iteration, double value, double norm) {
    validation* v = context;
    (void)value;
    (void)norm;
    report_progress(v->w, v->p->def->name, (double)iteration / v->p->iterations);
    if (iteration % v->p->def->validate_every == 0) v->status = validate_policy(v, iteration);
    return v->status != NS_OK;
}

static quad_tune_options tune_options(const walk_experiment* w, const walk_policy* p) {
    quad_tune_options o = quad_default_tune_options();
    o.iterations = p->iterations;
    o.rate = p->def->learning_rate;
    o.seed = TUNING;
    o.threads = (uint32_t)thread_count(w);
    for (int k = 0; k < QUAD_TUNE_ERRORS; k++) {
        if (p->def->error_scale[k] > 0.0) o.unit[k] = p->def->error_scale[k];
    }
    return o;
}

static ns_status tune_policy(walk_experiment* w, walk_policy* p, const quad_walk_env* env,
                             ns_error* error) {
    validation v = {.w = w, .p = p, .env = env, .score = (double)INFINITY, .error = error};
    // Validation walks like a run of the report, but shorter.
    v.options = default_walk(w, policy_robot(w, p->from));
    v.options.seconds = p->def->validation_seconds;
    const quad_tune_options tune = tune_options(w, p);
    quad_tune* t = NULL;

    // History of the validation, for a figure.
    size_t rows = p->iterations / p->def->validate_every + 2;
    p->history_at = calloc(rows, sizeof *p->history_at);
    p->history_velocity = calloc(rows, sizeof *p->history_velocity);
    p->history_height = calloc(rows, sizeof *p->history_height);
    bool complete = p->history_at && p->history_velocity && p->history_height;
    ns_status status = complete ? NS_OK : quad_fail_nomem(error);

    // Start from the imitating policy, which is also the first candidate.
    if (status == NS_OK) {
        status = quad_policy_copy(w->policies[p->from].policy, &p->policy, error);
    }
    if (status == NS_OK) status = quad_policy_copy(p->policy, &v.best, error);
    // Walks of the tuner use the policy that is being changed.
    if (status == NS_OK) {
        v.options.controller.policy = quad_policy_decide;
        v.options.controller.policy_context = p->policy;
        status = quad_tune_create(env, &v.options, p->policy, &tune, NULL, &t, error);
    }

    // Tune, and keep the weights with the lowest validation error.
    if (status == NS_OK) status = validate_policy(&v, 0);
    if (status == NS_OK) status = quad_tune_run(t, after_iteration, &v, error);
    // Errors inside the callback.
    if (status == NS_OK) status = v.status;
    if (status == NS_OK) {
        memcpy(p->policy->weights, v.best->weights, p->policy->nweight * sizeof(double));
        quad_policy_ready(p->policy);
    }

    quad_tune_free(t);
    quad_policy_free(v.best);
    return status;
}

// As weights and as C.
static ns_status save_policy(const walk_experiment* w, const walk_policy* p, ns_error* error) {
    char path[4096], function[128];
    int length = snprintf(path, sizeof path, "%s/%s.safetensors", w->options.output, p->def->name);
    if (length < 0 || (size_t)length >= sizeof path) {
        return quad_fail(error, NS_ERR_LIMIT, "%.100s...: the path is too long", path);
    }
    ns_text text = {0};
    ns_status status = quad_policy_save(p->policy, path, error);
    snprintf(function, sizeof function, "policy_%.90s", p->def->name);
    if (status == NS_OK) status = quad_policy_emit_c(p->policy, function, &text, error);
    if (status == NS_OK) {
        snprintf(path, sizeof path, "%s/%s.c", w->options.output, p->def->name);
        status = quad_write_file(path, &text, error);
    }
    ns_text_free(&text);
    return status;
}

static ns_status train_policies(walk_experiment* w, ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < w->npolicy && status == NS_OK; k++) {
        walk_policy* p = &w->policies[k];
        double began = quad_clock_wall();
        quad_walk_env* env = NULL;
        status = create_env(w, policy_robot(w, k), NULL, &env, error);
        if (status == NS_OK) {
            status = p->from == QUAD_NONE ? train_by_imitation(w, p, env, error)
                                          : tune_policy(w, p, env, error);
        }
        quad_walk_env_free(env);
        p->seconds = quad_clock_wall() - began;
        if (status == NS_OK) status = save_policy(w, p, error);
    }
    return status;
}

// ---- from a case to an experiment ----------------------------------------------------------------

static uint32_t find_policy(const walk_experiment* w, const char* name) {
    for (uint32_t k = 0; k < w->npolicy; k++) {
        if (strcmp(w->policies[k].def->name, name) == 0) return k;
    }
    return QUAD_NONE;
}

const walk_run* walk_find_run(const walk_experiment* w, const char* name) {
    for (uint32_t k = 0; k < w->nrun; k++) {
        if (strcmp(w->runs[k].def->name, name) == 0) return &w->runs[k];
    }
    return NULL;
}

static ns_status take_policies(walk_experiment* w, ns_error* error) {
    const bool quick = w->options.quick;
    for (uint32_t k = 0; k < w->def->npolicy; k++) {
        const walk_policy_case* def = &w->def->policies[k];
        if (def->full_only && quick) continue;
        uint32_t from = def->tuned_from ? find_policy(w, def->tuned_from) : QUAD_NONE;
        if (def->tuned_from && from == QUAD_NONE) {
            return quad_fail(error, NS_ERR_ARGUMENT, "policy %s: there is no policy %s before it",
                             def->name, def->tuned_from);
        }
        w->policies[w->npolicy++] = (walk_policy){
            .def = def,
            .from = from,
            .iterations = quick && def->quick_iterations ? def->quick_iterations : def->iterations,
            .transitions =
                quick && def->quick_transitions ? def->quick_transitions : def->transitions};
    }
    return NS_OK;
}

static ns_status take_runs(walk_experiment* w, ns_error* error) {
    const bool quick = w->options.quick;
    const uint32_t seeds = quick ? w->def->quick_seeds : w->def->seeds;
    for (uint32_t k = 0; k < w->def->nrun; k++) {
        const walk_run_case* def = &w->def->runs[k];
        if (def->full_only && quick) continue;
        uint32_t policy = def->policy ? find_policy(w, def->policy) : QUAD_NONE;
        if (def->policy && policy == QUAD_NONE) {
            return quad_fail(error, NS_ERR_ARGUMENT, "run %s: there is no policy %s", def->name,
                             def->policy);
        }
        walk_run* r = &w->runs[w->nrun++];
        r->def = def;
        r->policy = policy;
        r->robot = policy == QUAD_NONE ? def->robot : policy_robot(w, policy);
        r->seeds = def->seeds && !quick ? def->seeds : seeds;
        r->options = default_walk(w, r->robot);
        if (def->planned_friction > 0.0) {
            r->options.controller.mpc.friction = def->planned_friction;
        }
        if (def->immediate_commands) r->options.ramp = 0.0;
    }
    return NS_OK;
}

static ns_status take_disturbed(walk_experiment* w, ns_error* error) {
    const walk_case* def = w->def;
    const bool quick = w->options.quick;
    w->disturbed_seeds = quick ? def->quick_disturbed_seeds : def->disturbed_seeds;
    w->disturbed_seconds = quick ? def->quick_disturbed_seconds : def->disturbed_seconds;
    for (uint32_t k = 0; k < WALK_MAX_DISTURBED && def->disturbed[k]; k++) {
        const walk_run* run = walk_find_run(w, def->disturbed[k]);
        if (!run) {
            return quad_fail(error, NS_ERR_ARGUMENT, "disturbed runs: there is no run %s",
                             def->disturbed[k]);
        }
        w->disturbed[w->ndisturbed++] = (uint32_t)(run - w->runs);
    }
    return NS_OK;
}

static ns_status load_robots(walk_experiment* w, ns_error* error) {
    ns_load_options load = ns_default_load_options();
    load.ground = true;
    w->robots[WALK_A1] = quad_a1();
    w->robots[WALK_LAIKAGO] = quad_laikago();
    ns_status status = NS_OK;
    for (uint32_t robot = 0; robot < WALK_ROBOTS && status == NS_OK; robot++) {
        bool needed = false;
        for (uint32_t k = 0; k < w->nrun; k++) needed = needed || w->runs[k].robot == robot;
        for (uint32_t k = 0; k < w->npolicy; k++) needed = needed || policy_robot(w, k) == robot;
        if (!needed) continue;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.urdf", w->options.models, w->robots[robot].name);
        status = ns_model_load(path, &load, &w->models[robot], error);
    }
    return status;
}

static ns_status walk_everything(walk_experiment* w, ns_error* error) {
    const double total = w->nrun + w->def->ndisturbance;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < w->nrun && status == NS_OK; k++) {
        report_progress(w, w->def->name, k / total);
        status = walk_run_seeds(w, &w->runs[k], error);
    }
    for (uint32_t k = 0; k < w->def->ndisturbance && status == NS_OK; k++) {
        report_progress(w, w->def->name, (w->nrun + k) / total);
        status = walk_disturbed(w, k, error);
    }
    return status;
}

ns_status walk_experiment_create(const walk_case* def, const walk_options* options,
                                 walk_experiment** out, ns_error* error) {
    // The time of the whole experiment is reported.
    double began = quad_clock_wall();
    *out = NULL;
    walk_experiment* w = calloc(1, sizeof *w);
    if (!w) return quad_fail_nomem(error);
    w->def = def;
    w->options = *options;
    w->walk_seconds = options->quick ? def->quick_seconds : def->seconds;

    // Select policies, runs and disturbed runs.
    w->policies = calloc((size_t)def->npolicy + 1, sizeof *w->policies);
    w->runs = calloc((size_t)def->nrun + 1, sizeof *w->runs);
    ns_status status = w->policies && w->runs ? NS_OK : quad_fail_nomem(error);
    // Runs refer to policies, and disturbed runs to runs.
    if (status == NS_OK) status = take_policies(w, error);
    if (status == NS_OK) status = take_runs(w, error);
    if (status == NS_OK) status = take_disturbed(w, error);
    // One result per disturbance and run.
    if (status == NS_OK) {
        w->disturbed_sums =
            calloc((size_t)w->ndisturbed * def->ndisturbance + 1, sizeof *w->disturbed_sums);
        if (!w->disturbed_sums) status = quad_fail_nomem(error);
    }
    // Robots that the selection needs.
    if (status == NS_OK) status = load_robots(w, error);

    // Train the policies, then walk with all of them.
    if (status == NS_OK) status = train_policies(w, error);
    if (status == NS_OK) status = walk_everything(w, error);
    w->seconds = quad_clock_wall() - began;

    // Hand over a complete experiment or none.
    if (status == NS_OK) {
        *out = w;
    } else {
        walk_experiment_free(w);
    }
    return status;
}

void walk_experiment_free(walk_experiment* w) {
    if (!w) return;
    for (uint32_t k = 0; k < w->npolicy; k++) {
        quad_policy_free(w->policies[k].policy);
        free(w->policies[k].history_at);
        free(w->policies[k].history_velocity);
        free(w->policies[k].history_height);
    }
    for (uint32_t k = 0; k < w->nrun; k++) free_trace(&w->runs[k].trace);
    for (uint32_t k = 0; k < WALK_ROBOTS; k++) ns_model_free(w->models[k]);
    free(w->policies);
    free(w->runs);
    free(w->disturbed_sums);
    free(w);
}
