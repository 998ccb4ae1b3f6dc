// An experiment of kind `walk`: reading, training, walking, numbers.
//
// Test runs, validation, recording and tuning have seeds of their own. What is chosen, is chosen on
// validation.

#define _POSIX_C_SOURCE 200809L

#include "experiment_walk.h"

#include "report/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { TEST = 1000, VALIDATION = 100000, RECORDING = 200000, TUNING = 300000 }; // first seeds
enum { TRIM_SEEDS = 4, LONGEST_NAME = 60 };

enum { CONTACT_MODELS = NS_CONTACT_SPRING + 1 + NS_CONTACT_MAX_LAWS };

static const ns_choice robot_rows[] = {{0, "a1", "Unitree A1"}, {1, "laikago", "Unitree Laikago"}};
static const ns_choices robots = NS_CHOICES("robot", robot_rows);

uint32_t walk_period(uint32_t robot) {
    return robot == 0 ? 5 : 10; // as motion_imitation (Peng et al. 2020)
}

// ---- reading -----------------------------------------------------------------------------------

static void read_commands(walk_experiment* w, const nsi_yaml_node* root) {
    experiment* e = w->e;
    quad_walk_options* o = &w->options;
    const nsi_yaml_node* n = nsi_yaml_find(root, "commands");
    experiment_check_map(e, n, "commands", "forward sideways turn hold ramp");
    experiment_number(e, n, "forward", 0.0, 10.0, &o->most[0]);
    experiment_number(e, n, "sideways", 0.0, 10.0, &o->most[1]);
    experiment_number(e, n, "turn", 0.0, 10.0, &o->most[2]);
    experiment_number(e, n, "hold", 0.01, 1e4, &o->hold[0]);
    o->hold[1] = o->hold[0];
    experiment_number(e, n, "ramp", 0.0, 1e4, &o->ramp);
    experiment_count(e, root, "window", 1, 100, &o->controller.window);
}

static int read_choice(experiment* e, const nsi_yaml_node* n, const char* key,
                       const ns_choices* choices, int usual) {
    int choice = -1;
    if (e->status == NS_OK) {
        e->status = nsi_yaml_choice(&e->yaml, nsi_yaml_find(n, key), choices, &choice, &e->error);
    }
    return choice < 0 ? usual : choice;
}

static bool read_flag(experiment* e, const nsi_yaml_node* n, const char* key, bool usual) {
    bool flag = usual;
    if (e->status == NS_OK) {
        e->status = nsi_yaml_flag(&e->yaml, nsi_yaml_find(n, key), &flag, &e->error);
    }
    return flag;
}

// Is this entry left out of a quick run?
static bool is_left_out(experiment* e, const nsi_yaml_node* n) {
    return read_flag(e, n, "full", false) && e->quick;
}

static uint32_t find_policy(const walk_experiment* w, const char* name) {
    for (uint32_t k = 0; k < w->npolicy; k++) {
        if (strcmp(w->policies[k].name, name) == 0) return k;
    }
    return NSI_NONE;
}

static uint32_t find_run(const walk_experiment* w, const char* name) {
    for (uint32_t k = 0; k < w->nrun; k++) {
        if (strcmp(w->runs[k].name, name) == 0) return k;
    }
    return NSI_NONE;
}

// Names become names of files, of metrics and of functions in C.
static void check_name(experiment* e, const nsi_yaml_node* n, const char* name, bool taken) {
    const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    n = nsi_yaml_find(n, "name");
    if (!*name || name[strspn(name, letters)] || strlen(name) > LONGEST_NAME) {
        experiment_fault(e, n, "a name has letters, digits and _, at most 60");
    }
    if (taken) experiment_fault(e, n, "this name is taken");
}

static void read_imitation(walk_experiment* w, const nsi_yaml_node* n, walk_policy* p) {
    experiment* e = w->e;
    p->imitate = quad_default_imitate_options();
    p->transitions = 10000;
    p->share = 1.0;
    experiment_count(e, n, "transitions", 100, 10000000, &p->transitions);
    experiment_count(e, n, "iterations", 1, 10000000, &p->imitate.iterations);
    experiment_number(e, n, "rate", 1e-12, 1.0, &p->imitate.rate);
    experiment_number(e, n, "share", 1e-3, 1.0, &p->share);
    uint32_t count;
    const double* hidden = experiment_numbers(e, nsi_yaml_find(n, "hidden"), &count);
    if (count == 0 || count >= QUAD_MLP_F32_LAYERS) {
        experiment_fault(e, n, "`hidden` needs one to five widths of layers");
        count = 0;
    }
    for (uint32_t k = 0; k < count && e->status == NS_OK; k++) {
        if (hidden[k] < 1.0 || hidden[k] > QUAD_MLP_F32_WIDEST || hidden[k] != floor(hidden[k])) {
            experiment_fault(e, n, "widths in `hidden` are whole numbers, 1 to 512");
            return;
        }
        p->hidden[k] = (uint32_t)hidden[k];
    }
    p->nhidden = count;
    const nsi_yaml_node* quick = nsi_yaml_find(n, "quick");
    if (e->quick) {
        experiment_count(e, quick, "iterations", 1, 10000000, &p->imitate.iterations);
        experiment_count(e, quick, "transitions", 100, 10000000, &p->transitions);
    }
}

static void read_tuning(walk_experiment* w, const nsi_yaml_node* n, walk_policy* p) {
    experiment* e = w->e;
    p->tune = quad_default_tune_options();
    p->every = 20, p->seeds = 4, p->seconds = 20.0;
    experiment_count(e, n, "iterations", 1, 10000000, &p->tune.iterations);
    experiment_number(e, n, "rate", 1e-12, 1.0, &p->tune.rate);
    experiment_count(e, n, "every", 1, 10000000, &p->every);
    experiment_count(e, n, "seeds", 1, 10000, &p->seeds);
    experiment_number(e, n, "seconds", 2.0, 1e5, &p->seconds);
    uint32_t count;
    const double* unit = experiment_numbers(e, nsi_yaml_find(n, "unit"), &count);
    if (unit && count != QUAD_TUNE_ERRORS) experiment_fault(e, n, "`unit` needs six numbers");
    for (uint32_t k = 0; unit && count == QUAD_TUNE_ERRORS && k < count; k++) {
        if (!(unit[k] > 0.0)) experiment_fault(e, n, "numbers in `unit` are above 0");
        p->tune.unit[k] = unit[k];
    }
    const nsi_yaml_node* quick = nsi_yaml_find(n, "quick");
    if (e->quick) experiment_count(e, quick, "iterations", 1, 1000000, &p->tune.iterations);
    p->tune.seed = TUNING;
    uint32_t rows = p->tune.iterations / p->every + 2;
    p->history_at = experiment_zeros(e, rows * sizeof *p->history_at);
    p->history_v = experiment_zeros(e, rows * sizeof *p->history_v);
    p->history_h = experiment_zeros(e, rows * sizeof *p->history_h);
}

static void read_policies(walk_experiment* w, const nsi_yaml_node* root) {
    experiment* e = w->e;
    uint32_t count;
    const nsi_yaml_node* n = experiment_list(e, root, "policies", false, &count);
    if (count > WALK_MOST) experiment_fault(e, root, "at most 32 policies");
    w->policies = experiment_zeros(e, (count + 1) * sizeof *w->policies);
    for (; n && e->status == NS_OK; n = n->next) {
        walk_policy* p = &w->policies[w->npolicy];
        const char* from = NULL;
        experiment_check_map(e, n, "a policy",
                             "name label robot hidden transitions share iterations rate from every"
                             " seeds seconds unit full quick");
        if (e->status != NS_OK) return;
        experiment_check_map(e, nsi_yaml_find(n, "quick"), "quick", "iterations transitions");
        if (is_left_out(e, n)) continue;
        experiment_text(e, n, "name", true, &p->name);
        experiment_text(e, n, "label", false, &p->label);
        experiment_text(e, n, "from", false, &from);
        if (e->status != NS_OK) return;
        check_name(e, n, p->name, find_policy(w, p->name) != NSI_NONE);
        if (e->status != NS_OK) return;
        if (!p->label) p->label = p->name;
        p->from = from ? find_policy(w, from) : NSI_NONE;
        if (from && p->from == NSI_NONE) {
            experiment_fault(e, nsi_yaml_find(n, "from"), "there is no such policy before it");
        }
        p->robot = (uint32_t)read_choice(e, n, "robot", &robots, 0);
        if (from && e->status == NS_OK) {
            p->robot = w->policies[p->from].robot;
            read_tuning(w, n, p);
        } else {
            read_imitation(w, n, p);
        }
        w->npolicy++;
    }
}

static void read_runs(walk_experiment* w, const nsi_yaml_node* root) {
    experiment* e = w->e;
    uint32_t count;
    const nsi_yaml_node* n = experiment_list(e, root, "runs", true, &count);
    if (count > WALK_MOST) experiment_fault(e, root, "at most 32 runs");
    w->runs = experiment_zeros(e, (count + 1) * sizeof *w->runs);
    for (; n && e->status == NS_OK; n = n->next) {
        walk_run* r = &w->runs[w->nrun];
        const char* policy = NULL;
        *r = (walk_run){.policy = NSI_NONE, .seeds = w->seeds, .options = w->options};
        experiment_check_map(e, n, "a run",
                             "name label robot contact policy friction ramp trim show seeds full");
        if (e->status != NS_OK || is_left_out(e, n)) continue;
        experiment_text(e, n, "name", true, &r->name);
        experiment_text(e, n, "label", false, &r->label);
        experiment_text(e, n, "policy", false, &policy);
        if (!e->quick) experiment_count(e, n, "seeds", 1, 10000, &r->seeds);
        r->robot = (uint32_t)read_choice(e, n, "robot", &robots, 0);
        r->contact = read_choice(e, n, "contact", &ns_contact_laws, NS_CONTACT_NCP);
        experiment_number(e, n, "friction", 0.0, 100.0, &r->options.controller.mpc.friction);
        experiment_number(e, n, "ramp", 0.0, 1e4, &r->options.ramp);
        r->trim = read_flag(e, n, "trim", false);
        r->show = read_flag(e, n, "show", false);
        if (e->status != NS_OK) return;
        check_name(e, n, r->name, find_run(w, r->name) != NSI_NONE);
        if (!r->label) r->label = r->name;
        if (policy) r->policy = find_policy(w, policy);
        if (policy && r->policy == NSI_NONE) {
            experiment_fault(e, nsi_yaml_find(n, "policy"), "there is no such policy");
        }
        if (policy && e->status == NS_OK) r->robot = w->policies[r->policy].robot;
        r->options.period = walk_period(r->robot);
        w->nrun++;
    }
}

static void read_disturbances(walk_experiment* w, const nsi_yaml_node* root) {
    experiment* e = w->e;
    uint32_t count;
    const nsi_yaml_node *of = nsi_yaml_find(root, "robustness"), *n;
    w->disturbed_seeds = 10, w->disturbed_seconds = 30.0;
    if (!of) return;
    experiment_check_map(e, of, "robustness", "runs seeds seconds disturbances quick");
    if (e->status != NS_OK) return;
    experiment_count(e, of, "seeds", 1, 10000, &w->disturbed_seeds);
    experiment_number(e, of, "seconds", 2.0, 1e5, &w->disturbed_seconds);
    const nsi_yaml_node* quick = nsi_yaml_find(of, "quick");
    experiment_check_map(e, quick, "quick", "seeds seconds");
    if (e->quick) {
        experiment_count(e, quick, "seeds", 1, 10000, &w->disturbed_seeds);
        experiment_number(e, quick, "seconds", 2.0, 1e5, &w->disturbed_seconds);
    }
    n = experiment_list(e, of, "runs", true, &count);
    if (count > WALK_MOST) experiment_fault(e, of, "at most 32 runs");
    for (const char* name; n && e->status == NS_OK; n = n->next) {
        e->status = nsi_yaml_text(&e->yaml, n, &name, &e->error);
        uint32_t run = e->status == NS_OK ? find_run(w, name) : NSI_NONE;
        if (run == NSI_NONE) experiment_fault(e, n, "there is no such run");
        w->disturbed[w->ndisturbed++] = run;
    }
    n = experiment_list(e, of, "disturbances", true, &count);
    w->disturbances = experiment_zeros(e, (count + 1) * sizeof *w->disturbances);
    for (; n && e->status == NS_OK; n = n->next) {
        walk_disturbance* d = &w->disturbances[w->ndisturbance++];
        *d = (walk_disturbance){.mass = 1.0, .friction = 1.0};
        experiment_check_map(e, n, "a disturbance", "name label mass friction delay push noise");
        experiment_text(e, n, "name", true, &d->name);
        experiment_text(e, n, "label", true, &d->label);
        experiment_number(e, n, "mass", 0.01, 100.0, &d->mass);
        experiment_number(e, n, "friction", 0.0, 100.0, &d->friction);
        experiment_number(e, n, "delay", 0.0, 0.05, &d->delay);
        experiment_number(e, n, "push", 0.0, 10.0, &d->push);
        experiment_number(e, n, "noise", 0.0, 100.0, &d->noise);
        d->sums = experiment_zeros(e, (w->ndisturbed + 1) * sizeof *d->sums);
    }
}

static void read_compare(walk_experiment* w, const nsi_yaml_node* root) {
    experiment* e = w->e;
    uint32_t count;
    const nsi_yaml_node* n = experiment_list(e, root, "compare", false, &count);
    w->pairs = experiment_zeros(e, (count + 1) * sizeof *w->pairs);
    for (; n && e->status == NS_OK; n = n->next) {
        const char* names[2] = {NULL, NULL};
        experiment_check_map(e, n, "an entry of compare", "before after full");
        if (e->status != NS_OK || is_left_out(e, n)) continue;
        experiment_text(e, n, "before", true, &names[0]);
        experiment_text(e, n, "after", true, &names[1]);
        for (int k = 0; k < 2 && e->status == NS_OK; k++) {
            uint32_t run = find_run(w, names[k]);
            if (run == NSI_NONE) experiment_fault(e, n, "there is no such run");
            w->pairs[w->npair][k] = run;
        }
        w->npair++;
    }
}

static void read_all(walk_experiment* w) {
    experiment* e = w->e;
    const nsi_yaml_node* root = e->yaml.root;
    experiment_check_map(e, root, "an experiment with walks",
                         EXPERIMENT_KEYS "seconds seeds commands window playback policies runs"
                                         " robustness compare quick");
    if (e->status != NS_OK) return;
    w->options = quad_default_walk_options();
    w->seeds = 20, w->playback = 20.0;
    const nsi_yaml_node* quick = nsi_yaml_find(root, "quick");
    experiment_check_map(e, quick, "quick", "seconds seeds");
    experiment_number(e, root, "seconds", 2.0, 1e5, &w->options.seconds);
    experiment_count(e, root, "seeds", 1, 10000, &w->seeds);
    experiment_number(e, root, "playback", 1.0, 600.0, &w->playback);
    if (e->quick) {
        experiment_number(e, quick, "seconds", 2.0, 1e5, &w->options.seconds);
        experiment_count(e, quick, "seeds", 1, 10000, &w->seeds);
    }
    read_commands(w, root);
    read_policies(w, root);
    read_runs(w, root);
    read_disturbances(w, root);
    read_compare(w, root);
}

// ---- models ------------------------------------------------------------------------------------

// The robot's file, from beside the experiments or where the program was built.
static ns_status load_model(walk_experiment* w, uint32_t robot, ns_error* error) {
    const char* const ways[] = {"../../models", "../models"};
    const char* const places[] = {w->e->folder, NEURALSIM_EXPERIMENTS};
    ns_load_options load = ns_default_load_options();
    load.ground = true;
    ns_status status = NS_ERR_IO;
    for (int k = 0; k < 2 && status == NS_ERR_IO; k++) {
        char name[100];
        snprintf(name, sizeof name, "%s/%s.urdf", ways[k], w->robots[robot].name);
        const char* path = experiment_path(w->e, places[k], name);
        if (!path) return nsi_fail_nomem(error);
        status = ns_model_load(path, &load, &w->models[robot], error);
    }
    return status;
}

static bool load_models(walk_experiment* w) {
    bool needed[WALK_ROBOTS] = {false};
    for (uint32_t k = 0; k < w->nrun; k++) needed[w->runs[k].robot] = true;
    for (uint32_t k = 0; k < w->npolicy; k++) needed[w->policies[k].robot] = true;
    w->robots[0] = quad_a1();
    w->robots[1] = quad_laikago();
    for (uint32_t k = 0; k < WALK_ROBOTS; k++) {
        ns_error error;
        if (needed[k] && load_model(w, k, &error) != NS_OK) {
            return cli_fail("%s", error.message), false;
        }
    }
    return true;
}

static quad_walk_env* make_place(const walk_experiment* w, uint32_t robot,
                                 const quad_walk_env_options* options) {
    quad_walk_env* place = NULL;
    ns_error error;
    ns_status status =
        quad_walk_env_create(w->models[robot], &w->robots[robot], options, NULL, &place, &error);
    if (status != NS_OK) cli_fail("%s", error.message);
    return place;
}

static int thread_count(const walk_experiment* w) {
#ifdef _OPENMP
    return w->e->threads > 0 ? (int)w->e->threads : omp_get_num_procs();
#else
    (void)w;
    return 1;
#endif
}

// ---- walking -----------------------------------------------------------------------------------

static void add_time(walk_times* times, double seconds) {
    double bin = log(fmax(seconds, 1e-7) / 1e-7) / log(1.02);
    times->bins[bin < WALK_BINS - 1 ? (uint32_t)bin : WALK_BINS - 1]++;
    times->count++;
}

double walk_quantile(const walk_times* times, double share) {
    uint64_t sum = 0;
    for (uint32_t k = 0; k < WALK_BINS; k++) {
        sum += times->bins[k];
        if ((double)sum >= share * (double)times->count && sum > 0)
            return 1e-7 * pow(1.02, k + 0.5);
    }
    return (double)NAN;
}

double walk_speed_error(const quad_walk_result* result) {
    return hypot(result->velocity[0], result->velocity[1]);
}

static void put_trace(walk_trace* t, const quad_walk_sample* m) {
    const uint32_t k = t->count++;
    t->time[k] = m->time;
    memcpy(t->states + (size_t)k * t->nx, m->states, t->nx * sizeof *t->states);
    memcpy(t->controls + (size_t)k * t->nc, m->controls, t->nc * sizeof *t->controls);
    const double wanted[3] = {m->command.velocity[0], m->command.velocity[1], m->command.yaw_rate};
    memcpy(t->wanted[k], wanted, sizeof wanted);
    memcpy(t->velocity[k], m->velocity, sizeof m->velocity);
    t->height[k] = m->height;
    memcpy(t->stands[k], m->report.stands, sizeof m->report.stands);
    memcpy(t->touches[k], m->state.contact, sizeof m->state.contact);
}

// Walks of seeds first .. first + count - 1; `results` (count). Results do not depend on the thread.
// @param times, trace  NULL: not wanted; the trace is of the first seed
static bool walk_seeds(const walk_experiment* w, const quad_walk_env* place,
                       const quad_walk_options* options, uint64_t first, uint32_t count,
                       quad_walk_result* sum, walk_times* times, walk_trace* trace) {
    quad_walk_result* results = calloc(count, sizeof *results);
    if (!results) return cli_fail("out of memory"), false;
    bool failed = false;
    const uint32_t room =
        (uint32_t)(w->playback / (1e-3 * options->period)); // rows that a trace has room for
#ifdef _OPENMP
#pragma omp parallel num_threads(thread_count(w))
#endif
    {
        quad_walk* walk = NULL;
        walk_times own = {.count = 0};
        if (quad_walk_create(place, options, NULL, &walk, NULL) != NS_OK) {
#ifdef _OPENMP
#pragma omp critical(experiment_walk)
#endif
            failed = true;
        }
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif
        for (int k = 0; k < (int)count; k++) {
            quad_walk_sample m;
            if (!walk) continue;
            quad_walk_begin(walk, first + (uint64_t)k);
            while (quad_walk_step(walk, &m)) {
                if (times) add_time(&own, m.seconds);
                if (trace && k == 0 && trace->count < room) put_trace(trace, &m);
            }
            results[k] = quad_walk_finish(walk);
        }
        quad_walk_free(walk);
#ifdef _OPENMP
#pragma omp critical(experiment_walk)
#endif
        for (uint32_t k = 0; times && k < WALK_BINS; k++) {
            times->bins[k] += own.bins[k];
            times->count += own.bins[k];
        }
    }
    *sum = (quad_walk_result){0};
    for (uint32_t k = 0; k < count; k++) quad_walk_merge(sum, &results[k]);
    free(results);
    if (failed) cli_fail("out of memory");
    return !failed;
}

static bool make_trace(const walk_experiment* w, const quad_walk_env* place, walk_run* r) {
    walk_trace* t = &r->trace;
    size_t rows = (size_t)(w->playback / (1e-3 * r->options.period)) + 1;
    t->nx = place->nx;
    t->nc = place->nc;
    t->time = cli_zeros(rows);
    t->states = cli_zeros(rows * t->nx);
    t->controls = cli_zeros(rows * t->nc);
    t->wanted = calloc(rows, sizeof *t->wanted);
    t->velocity = calloc(rows, sizeof *t->velocity);
    t->height = cli_zeros(rows);
    t->stands = calloc(rows, sizeof *t->stands);
    t->touches = calloc(rows, sizeof *t->touches);
    return t->time && t->states && t->controls && t->wanted && t->velocity && t->height &&
           t->stands && t->touches;
}

static void set_policy(const walk_experiment* w, uint32_t policy, quad_walk_options* options) {
    if (policy == NSI_NONE) return;
    options->controller.policy = quad_policy_decide;
    options->controller.policy_context = w->policies[policy].policy;
}

// The simplest remedy for errors that are always the same: gains of commands and an offset of the
// height, from validation runs.
static bool find_trim(const walk_experiment* w, const quad_walk_env* place, walk_run* r) {
    quad_walk_result sum;
    if (!walk_seeds(w, place, &r->options, VALIDATION, TRIM_SEEDS, &sum, NULL, NULL)) return false;
    for (int k = 0; k < 3; k++) {
        if (sum.follow[k][0] > 0.0) r->options.gain[k] = sum.follow[k][1] / sum.follow[k][0];
    }
    // Networks do not look at the wanted height.
    if (r->policy == NSI_NONE && sum.count > 0) r->options.lift = -sum.bias;
    return true;
}

static bool run_one(walk_experiment* w, walk_run* r) {
    quad_walk_env_options options = quad_default_walk_env_options();
    options.contact = (ns_contact_model)r->contact;
    quad_walk_env* place = make_place(w, r->robot, &options);
    if (!place) return false;
    set_policy(w, r->policy, &r->options);
    bool done = !r->trim || find_trim(w, place, r);
    if (done && r->show) done = make_trace(w, place, r);
    done = done && walk_seeds(w, place, &r->options, TEST, r->seeds, &r->sum, &r->times,
                              r->show ? &r->trace : NULL);
    quad_walk_env_free(place);
    return done;
}

static bool run_disturbed(walk_experiment* w, walk_disturbance* d) {
    quad_walk_env_options at = quad_default_walk_env_options();
    at.mass = d->mass;
    at.friction = d->friction;
    quad_walk_env* places[WALK_ROBOTS][CONTACT_MODELS] = {{NULL}}; // of each contact model
    bool done = true;
    for (uint32_t k = 0; k < w->ndisturbed && done; k++) {
        const walk_run* r = &w->runs[w->disturbed[k]];
        quad_walk_env** place = &places[r->robot][r->contact];
        quad_walk_options options = r->options;
        options.seconds = w->disturbed_seconds;
        options.delay = (uint32_t)round(d->delay / (1e-3 * options.period));
        options.push = d->push;
        options.noise = d->noise;
        at.contact = (ns_contact_model)r->contact;
        if (!*place) *place = make_place(w, r->robot, &at);
        done = *place &&
               walk_seeds(w, *place, &options, TEST, w->disturbed_seeds, &d->sums[k], NULL, NULL);
    }
    for (uint32_t k = 0; k < CONTACT_MODELS * WALK_ROBOTS; k++) {
        quad_walk_env_free(places[k / CONTACT_MODELS][k % CONTACT_MODELS]);
    }
    return done;
}

// ---- policies ----------------------------------------------------------------------------------

static bool imitate(walk_experiment* w, walk_policy* p, const quad_walk_env* place) {
    quad_demonstrations lessons = {0};
    quad_walk_options options = w->options;
    options.period = walk_period(p->robot);
    options.seconds = 60.0;
    ns_error error;
    ns_status status = quad_demonstrations_create(p->transitions, NULL, &lessons, &error);
    if (status == NS_OK) {
        status = quad_demonstrations_record(&lessons, place, &options, RECORDING, p->transitions,
                                            p->share, NULL, &error);
    }
    if (status == NS_OK) {
        status = quad_policy_create(p->hidden, p->nhidden, 1, NULL, &p->policy, &error);
    }
    if (status == NS_OK) {
        status = quad_imitate(p->policy, &lessons, &p->imitate, &p->imitated, &error);
    }
    quad_demonstrations_free(&lessons, NULL);
    if (status != NS_OK) cli_fail("%s: %s", p->name, error.message);
    return status == NS_OK;
}

// Tuning keeps the weights that are best on validation seeds: errors of speed and height, each as a
// share of what it was before, no fall.
typedef struct validation {
    walk_experiment* w;
    walk_policy* p;
    const quad_walk_env* place;
    quad_walk_options options;
    quad_policy* best;
    double score;
    bool failed;
    cli_progress progress;
} validation;

static bool validate(validation* v, uint32_t iteration) {
    walk_policy* p = v->p;
    quad_walk_result sum;
    if (!walk_seeds(v->w, v->place, &v->options, VALIDATION, p->seeds, &sum, NULL, NULL)) {
        return false;
    }
    if (iteration == 0) p->first = p->last = sum;
    // Where nothing counted before, errors are taken as they are; where nothing counts now, a NaN is
    // never the best.
    const bool known = p->first.count > 0;
    double score = walk_speed_error(&sum) / (known ? walk_speed_error(&p->first) : 1.0) +
                   sum.height / (known ? p->first.height : 1.0) + 100.0 * sum.falls;
    p->history_at[p->nhistory] = iteration;
    p->history_v[p->nhistory] = walk_speed_error(&sum);
    p->history_h[p->nhistory++] = sum.height;
    p->falls += sum.falls;
    if (score < v->score) {
        v->score = score;
        p->best = iteration;
        p->last = sum;
        memcpy(v->best->weights, p->policy->weights, p->policy->nweight * sizeof(double));
    }
    return true;
}

static bool after_iteration(void* context, uint32_t iteration, double value, double norm) {
    validation* v = context;
    (void)value;
    (void)norm;
    cli_progress_update(&v->progress, iteration, v->p->tune.iterations);
    if (iteration % v->p->every == 0 && !validate(v, iteration)) v->failed = true;
    return v->failed;
}

static bool tune(walk_experiment* w, walk_policy* p, const quad_walk_env* place) {
    validation v = {
        .w = w, .p = p, .place = place, .options = w->options, .score = (double)INFINITY};
    quad_tune* t = NULL;
    ns_error error;
    ns_status status = quad_policy_copy(w->policies[p->from].policy, &p->policy, &error);
    if (status == NS_OK) status = quad_policy_copy(p->policy, &v.best, &error);
    v.options.period = walk_period(p->robot);
    v.options.seconds = p->seconds;
    p->tune.threads = (uint32_t)thread_count(w);
    if (status == NS_OK) {
        v.options.controller.policy = quad_policy_decide;
        v.options.controller.policy_context = p->policy;
        status = quad_tune_create(place, &v.options, p->policy, &p->tune, NULL, &t, &error);
    }
    bool done = status == NS_OK && validate(&v, 0);
    if (done) {
        v.progress = cli_progress_start(p->name);
        status = quad_tune_run(t, after_iteration, &v, &error);
        cli_progress_end(&v.progress);
        memcpy(p->policy->weights, v.best->weights, p->policy->nweight * sizeof(double));
        quad_policy_ready(p->policy);
    }
    if (status != NS_OK) cli_fail("%s: %s", p->name, error.message);
    quad_tune_free(t);
    quad_policy_free(v.best);
    return done && status == NS_OK && !v.failed;
}

// As weights and as C.
static bool save_policy(walk_experiment* w, const walk_policy* p) {
    char name[200];
    ns_error error;
    ns_text text = {0};
    snprintf(name, sizeof name, "%.100s.safetensors", p->name);
    const char* path = experiment_path(w->e, w->e->output, name);
    ns_status status = path ? quad_policy_save(p->policy, path, &error) : nsi_fail_nomem(&error);
    snprintf(name, sizeof name, "policy_%.90s", p->name);
    if (status == NS_OK) status = quad_policy_emit_c(p->policy, name, &text, &error);
    if (status != NS_OK) cli_fail("%s: %s", p->name, error.message);
    snprintf(name, sizeof name, "%.100s.c", p->name);
    bool done = status == NS_OK && experiment_write(w->e, name, &text);
    ns_text_free(&text);
    return done;
}

static bool make_policies(walk_experiment* w) {
    bool done = true;
    for (uint32_t k = 0; k < w->npolicy && done; k++) {
        walk_policy* p = &w->policies[k];
        double began = nsi_clock_wall();
        quad_walk_env* place = make_place(w, p->robot, NULL);
        done = place && (p->from == NSI_NONE ? imitate(w, p, place) : tune(w, p, place));
        quad_walk_env_free(place);
        p->took = nsi_clock_wall() - began;
        done = done && save_policy(w, p);
    }
    return done;
}

// ---- numbers -----------------------------------------------------------------------------------

static void add_result(ns_json* j, const char* name, const quad_walk_result* r) {
    const struct {
        const char* name;
        double value;
    } rows[] = {{"seconds_walked", r->seconds},
                {"velocity_error", walk_speed_error(r)},
                {"forward_error", r->velocity[0]},
                {"sideways_error", r->velocity[1]},
                {"turn_error", r->velocity[2]},
                {"velocity_error_raw", hypot(r->raw[0], r->raw[1])},
                {"height_error", r->height},
                {"height_bias", r->bias},
                {"tilt", r->tilt}};
    char key[200];
    const struct {
        const char* name;
        uint32_t value;
    } counts[] = {{"falls", r->falls},
                  {"shared", r->shared},
                  {"unreachable", r->unreachable},
                  {"limited", r->limited}};
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        snprintf(key, sizeof key, "%.100s_%s", name, counts[k].name);
        ns_json_count(j, key, counts[k].value);
    }
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        snprintf(key, sizeof key, "%.100s_%s", name, rows[k].name);
        ns_json_number(j, key, rows[k].value);
    }
}

static ns_json* make_json(const walk_experiment* w) {
    ns_json* j = experiment_begin_json(w->e, TEST);
    char key[300];
    ns_json_open(j, "metrics", '{');
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        snprintf(key, sizeof key, "%.100s_seeds", r->name);
        ns_json_count(j, key, r->seeds);
        add_result(j, r->name, &r->sum);
        snprintf(key, sizeof key, "%.100s_decision_median", r->name);
        ns_json_number(j, key, walk_quantile(&r->times, 0.5));
        snprintf(key, sizeof key, "%.100s_decision_99", r->name);
        ns_json_number(j, key, walk_quantile(&r->times, 0.99));
        snprintf(key, sizeof key, "%.100s_realtime", r->name);
        ns_json_number(j, key, r->sum.seconds / r->sum.cpu);
    }
    for (uint32_t k = 0; k < w->npair; k++) {
        const quad_walk_result* before = &w->runs[w->pairs[k][0]].sum;
        const walk_run* after = &w->runs[w->pairs[k][1]];
        snprintf(key, sizeof key, "%.100s_velocity_reduction", after->name);
        ns_json_number(j, key, 1.0 - walk_speed_error(&after->sum) / walk_speed_error(before));
        snprintf(key, sizeof key, "%.100s_height_reduction", after->name);
        ns_json_number(j, key, 1.0 - after->sum.height / before->height);
    }
    ns_json_number(j, "seconds", nsi_clock_wall() - w->e->began);
    ns_json_close(j);
    ns_json_open(j, "policies", '[');
    for (uint32_t k = 0; k < w->npolicy; k++) {
        const walk_policy* p = &w->policies[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", p->name);
        ns_json_count(j, "weights", p->policy->nweight);
        ns_json_number(j, "seconds", p->took);
        if (p->from == NSI_NONE) {
            ns_json_count(j, "transitions", p->transitions);
            ns_json_number(j, "train_error", p->imitated.train);
            ns_json_number(j, "held_error", p->imitated.held);
            ns_json_number(j, "torque_spread", p->imitated.spread);
        } else {
            ns_json_count(j, "iterations", p->tune.iterations);
            ns_json_count(j, "kept_iteration", p->best);
            ns_json_numbers(j, "validated_at", p->history_at, p->nhistory);
            ns_json_numbers(j, "validation_velocity_error", p->history_v, p->nhistory);
            ns_json_numbers(j, "validation_height_error", p->history_h, p->nhistory);
        }
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_open(j, "robustness", '[');
    for (uint32_t d = 0; d < w->ndisturbance; d++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", w->disturbances[d].name);
        ns_json_count(j, "seeds", w->disturbed_seeds);
        for (uint32_t k = 0; k < w->ndisturbed; k++) {
            add_result(j, w->runs[w->disturbed[k]].name, &w->disturbances[d].sums[k]);
        }
        ns_json_close(j);
    }
    ns_json_close(j);
    return j;
}

static void print_all(const walk_experiment* w) {
    const experiment* e = w->e;
    printf("%s\n%s s of random commands, errors are root mean squares against the command\n\n",
           e->title, nsi_format_short(w->options.seconds, 4).text);
    printf("%-34s %7s %9s %9s %9s %9s %11s %9s\n", "run", "falls", "m/s", "rad/s", "height, m",
           "tilt, rad", "decision", "realtime");
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        char falls[32], median[40];
        snprintf(falls, sizeof falls, "%u of %u", r->sum.falls, r->seeds);
        snprintf(median, sizeof median, "%s us",
                 nsi_format(1e6 * walk_quantile(&r->times, 0.5), 2).text);
        printf("%-34s %7s %9s %9s %9s %9s %11s %9s\n", r->label, falls,
               nsi_format(walk_speed_error(&r->sum), 3).text,
               nsi_format(r->sum.velocity[2], 3).text, nsi_format(r->sum.height, 3).text,
               nsi_format(r->sum.tilt, 2).text, median,
               nsi_format(r->sum.seconds / r->sum.cpu, 3).text);
    }
    for (uint32_t d = 0; d < w->ndisturbance; d++) {
        if (d == 0) printf("\n%-34s", "disturbed: falls, m/s, height");
        for (uint32_t k = 0; d == 0 && k < w->ndisturbed; k++) {
            printf(" %-26.26s", w->runs[w->disturbed[k]].label);
        }
        printf("\n%-34s", w->disturbances[d].label);
        for (uint32_t k = 0; k < w->ndisturbed; k++) {
            const quad_walk_result* r = &w->disturbances[d].sums[k];
            char cell[100];
            snprintf(cell, sizeof cell, "%u of %u, %s, %s", r->falls, w->disturbed_seeds,
                     nsi_format(walk_speed_error(r), 2).text, nsi_format(r->height, 2).text);
            printf(" %-26s", cell);
        }
    }
    for (uint32_t k = 0; k < w->npair; k++) {
        const walk_run *a = &w->runs[w->pairs[k][0]], *b = &w->runs[w->pairs[k][1]];
        printf("%s%s against %s: velocity error %s %% lower, height error %s %% lower",
               k == 0 ? "\n\n" : "\n", b->label, a->label,
               nsi_format(100.0 * (1.0 - walk_speed_error(&b->sum) / walk_speed_error(&a->sum)), 2)
                   .text,
               nsi_format(100.0 * (1.0 - b->sum.height / a->sum.height), 2).text);
    }
    if (w->npair > 0) printf("\n");
    for (const nsi_yaml_node* n = e->remarks ? e->remarks->first : NULL; n; n = n->next) {
        printf("\n- %s", n->text);
    }
    printf("\n\n%s s in all\npage    %s/report.html\n",
           nsi_format(nsi_clock_wall() - e->began, 3).text, e->output);
}

// ---- all of it ---------------------------------------------------------------------------------

static void free_all(walk_experiment* w) {
    for (uint32_t k = 0; w->policies && k < w->npolicy; k++)
        quad_policy_free(w->policies[k].policy);
    for (uint32_t k = 0; w->runs && k < w->nrun; k++) {
        walk_trace* t = &w->runs[k].trace;
        free(t->time);
        free(t->states);
        free(t->controls);
        free(t->wanted);
        free(t->velocity);
        free(t->height);
        free(t->stands);
        free(t->touches);
    }
    for (uint32_t k = 0; k < WALK_ROBOTS; k++) ns_model_free(w->models[k]);
}

static int run_all(walk_experiment* w) {
    if (!experiment_make_folder(w->e->output) || !load_models(w) || !make_policies(w)) {
        return EXIT_FAILED;
    }
    cli_progress progress = cli_progress_start(w->e->name);
    bool done = true;
    const double total = w->nrun + w->ndisturbance;
    for (uint32_t k = 0; k < w->nrun && done; k++) {
        done = run_one(w, &w->runs[k]);
        cli_progress_update(&progress, k + 1, total);
    }
    for (uint32_t k = 0; k < w->ndisturbance && done; k++) {
        done = run_disturbed(w, &w->disturbances[k]);
        cli_progress_update(&progress, w->nrun + k + 1, total);
    }
    cli_progress_end(&progress);
    if (!done) return EXIT_FAILED;
    nsi_text_builder page = {.allocator = ns_default_allocator()};
    done = walk_make_page(w, &page);
    ns_json* j = make_json(w);
    int code = experiment_finish(w->e, j, &page);
    if (done && code == EXIT_OK && !w->e->json) {
        print_all(w);
        code = cli_finish();
    }
    return done ? code : EXIT_FAILED;
}

int experiment_run_walk(experiment* e) {
    walk_experiment w = {.e = e};
    read_all(&w);
    int code = experiment_complain(e);
    if (code == EXIT_OK) code = run_all(&w);
    free_all(&w);
    return code;
}
