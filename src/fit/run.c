// Running a fit: its stages one after the other, or a search over many starts and then the last stage
// from the best; checkpoints on the way.

#include "fit/descend.h"
#include "fit/fit.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>

typedef struct run {
    ns_fit* f;
    const ns_fit_options* o;
    ns_error* error;
    double began, earlier, saved; // s: start of this run, spent before it, last checkpoint
    uint64_t fingerprint;
    uint32_t phase, nphase;
    bool searches;    // the first phase is a search
    uint32_t first;   // stage of the first phase that is one
    const char* name; // of the phase
    uint32_t iterations;
    nsi_evaluator* e; // of the stage at work; kept after the last
    nsi_descent* descent;
    nsi_checkpoint resumed; // what to go on from; empty after it was taken up
    bool resuming;
    ns_status failure; // of a checkpoint that could not be written
} run;

static double elapsed(const run* r) {
    return r->earlier + nsi_clock_wall() - r->began;
}

static const char* keep_text(ns_fit* f, const char* text) {
    return nsi_arena_string(&f->answer.arena, text, strlen(text));
}

static ns_status note(run* r, const char* text) {
    const char* kept = keep_text(r->f, text);
    bool done = kept && nsi_array_push(&r->f->allocator, &r->f->answer.notes, kept);
    return done ? NS_OK : nsi_fail_nomem(r->error);
}

// ---- checkpoints -------------------------------------------------------------------------------

static void describe_stage(const nsi_stage* stage, char* text, size_t size) {
    static const char* const methods[] = {"LM", "L-BFGS", "OWL-QN", "Adam", "proximal"};
    const char* what = stage->loss.fit_params && stage->loss.fit_weights ? ""
                       : stage->loss.fit_params                          ? ", parameters"
                                                                         : ", weights";
    if (stage->loss.length == 0) {
        snprintf(text, size, "whole recordings, %s%s", methods[stage->method], what);
    } else {
        snprintf(text, size, "windows of %u, %s%s", stage->loss.length, methods[stage->method],
                 what);
    }
}

// After hopping, which goes through all stages from each start, the last stage is enough.
static void list_phases(run* r) {
    const nsi_search_method method = r->f->plan->search.method;
    uint32_t nstage = r->f->plan->stages.count;
    r->searches = method != NSI_SEARCH_NONE;
    r->first = method == NSI_SEARCH_HOP || method == NSI_SEARCH_RESTART ? nstage - 1 : 0;
    r->nphase = nstage - r->first + r->searches;
}

static const nsi_stage* stage_of(const run* r, uint32_t phase) {
    return &r->f->plan->stages.data[r->first + phase - r->searches];
}

static void describe_phase(const run* r, uint32_t phase, char* text, size_t size) {
    static const char* const names[] = {"",     "basin hopping", "random restarts", "CRS2", "ISRES",
                                        "ESCH", "MLSL"};
    if (r->searches && phase == 0) {
        snprintf(text, size, "search by %s", names[r->f->plan->search.method]);
    } else {
        describe_stage(stage_of(r, phase), text, size);
    }
}

// What is the same for checkpoints of stages and of searches.
static nsi_checkpoint begin_checkpoint(const run* r) {
    ns_fit* f = r->f;
    return (nsi_checkpoint){.fingerprint = r->fingerprint,
                            .seconds = elapsed(r),
                            .phase = r->phase,
                            .z = f->z,
                            .nz = f->nz,
                            .w = f->w,
                            .nw = f->nw,
                            .phases = f->answer.phases.data,
                            .nphase = f->answer.phases.count,
                            .history = f->answer.history.data,
                            .nhistory = f->answer.history.count};
}

static void write_checkpoint(run* r, const nsi_checkpoint* c) {
    if (!r->o->checkpoint) return;
    ns_status status = nsi_checkpoint_write(r->o->checkpoint, c, &r->f->allocator, r->error);
    if (status != NS_OK) r->failure = status;
    r->saved = nsi_clock_wall();
}

static void save_stage(run* r) {
    if (!r->o->checkpoint) return;
    nsi_checkpoint c = begin_checkpoint(r);
    const nsi_descent_state* state = nsi_descent_get_state(r->descent);
    nsi_point point = nsi_evaluator_point(r->e);
    c.z = point.z;
    c.w = point.w;
    c.x = point.x;
    c.nx = nsi_evaluator_window_count(r->e) * r->f->problem->sizes.nx;
    c.iteration = state->lm.iteration;
    c.small = state->lm.small;
    c.damping = state->lm.damping;
    c.m = state->m;
    c.v = state->v;
    c.nm = state->m ? nsi_evaluator_unknowns(r->e) : 0;
    write_checkpoint(r, &c);
}

// ---- watching ----------------------------------------------------------------------------------

static bool report(run* r, uint32_t iteration, double value) {
    ns_fit* f = r->f;
    double loss = sqrt(2.0 * value);
    nsi_history_point point = {r->phase, iteration, elapsed(r), loss};
    if (!nsi_array_push(&f->allocator, &f->answer.history, point)) return true;
    ns_fit_progress progress = {.phase = r->name,
                                .number = r->phase,
                                .count = r->nphase,
                                .iteration = iteration,
                                .iterations = r->iterations,
                                .loss = loss,
                                .seconds = point.seconds};
    if (r->o->observe && r->o->observe(r->o->context, &progress)) f->stopped = true;
    return f->stopped;
}

static bool watch_stage(void* context, uint32_t iteration, double value) {
    run* r = context;
    double interval = r->o->interval > 0.0 ? r->o->interval : 2.0;
    report(r, iteration, value);
    if (r->f->stopped || nsi_clock_wall() - r->saved >= interval) save_stage(r);
    return r->f->stopped || r->failure != NS_OK;
}

static ns_status end_phase(run* r, const nsi_outcome* out, double seconds) {
    static const char* const finishes[] = {"converged", "limit", "stopped", "failed"};
    nsi_phase phase = {.name = keep_text(r->f, r->name),
                       .iterations = out->iterations,
                       .evaluations = out->evaluations,
                       .seconds = seconds,
                       .value = sqrt(2.0 * out->value),
                       .finish = finishes[out->finish]};
    if (!phase.name || !nsi_array_push(&r->f->allocator, &r->f->answer.phases, phase)) {
        return nsi_fail_nomem(r->error);
    }
    return r->failure;
}

// ---- stages ------------------------------------------------------------------------------------

static void copy(double* to, const double* from, size_t count) {
    memcpy(to, from, count * sizeof(double));
}

// The evaluator of a stage at the point where the fit stands, or where a checkpoint stood in it.
static ns_status begin_stage(run* r, const nsi_stage* stage) {
    ns_fit* f = r->f;
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    ns_status status =
        nsi_evaluator_create(f->problem, train, &stage->loss, NULL, f->threads, &r->e, r->error);
    if (status != NS_OK) return status;
    nsi_point point = nsi_evaluator_point(r->e);
    copy(point.z, f->z, f->nz);
    copy(point.w, f->w, f->nw);
    status = nsi_descent_create(f->problem, train, stage, r->e, f->plan->seed, f->threads,
                                &r->descent, r->error);
    if (status != NS_OK || !r->resuming) return status;
    const nsi_checkpoint* c = &r->resumed;
    nsi_descent_state* state = nsi_descent_get_state(r->descent);
    size_t nx = (size_t)nsi_evaluator_window_count(r->e) * f->problem->sizes.nx;
    size_t nm = state->m ? nsi_evaluator_unknowns(r->e) : 0;
    if (c->nz != f->nz || c->nw != f->nw || c->nx != nx || c->nm != nm) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s does not fit the data; start again without resuming",
                        r->o->checkpoint);
    }
    copy(point.z, c->z, f->nz);
    copy(point.w, c->w, f->nw);
    copy(point.x, c->x, nx);
    state->lm = (nsi_lm_state){c->iteration, c->small, c->damping};
    if (state->m) {
        copy(state->m, c->m, nm);
        copy(state->v, c->v, nm);
    }
    r->resuming = false;
    return NS_OK;
}

static ns_status run_stage(run* r) {
    ns_fit* f = r->f;
    const nsi_stage* stage = stage_of(r, r->phase);
    double start = nsi_clock_wall();
    char name[120];
    describe_phase(r, r->phase, name, sizeof name);
    r->name = name;
    r->iterations = stage->iterations;
    ns_status status = begin_stage(r, stage);
    if (status == NS_OK && !isfinite(nsi_evaluator_value(r->e))) {
        status =
            nsi_fail(r->error, NS_ERR_NONFINITE,
                     "%s: %s: the simulation does not stay finite from this start; take shorter"
                     " windows, a smaller time step, or other start values",
                     f->plan->path, name);
    }
    if (status == NS_OK) {
        nsi_outcome out = nsi_descent_run(r->descent, watch_stage, r);
        nsi_point point = nsi_evaluator_point(r->e);
        copy(f->z, point.z, f->nz);
        copy(f->w, point.w, f->nw);
        out.iterations = nsi_descent_get_state(r->descent)->lm.iteration; // before resuming, too
        status = end_phase(r, &out, nsi_clock_wall() - start);
        const char* link;
        uint32_t refused = nsi_evaluator_refused(r->e, &link);
        if (status == NS_OK && refused > 0) {
            char text[500];
            snprintf(
                text, sizeof text,
                "%s: %u steps were refused because %.200s would not have been physical or in its"
                " range; if a link stops there, free all ten of its inertial numbers",
                name, refused, link);
            status = note(r, text);
        }
        if (status == NS_OK && out.finish == NSI_FINISH_FAILED && out.iterations == 0) {
            status = nsi_fail(r->error, NS_ERR_NONFINITE,
                              "%s: %s: there are no finite derivatives at this start: motion grows"
                              " beyond all bounds; are angles in rad and times in s? Take shorter"
                              " windows or a smaller time step",
                              f->plan->path, name);
        }
        if (status == NS_OK && out.finish == NSI_FINISH_FAILED) {
            char text[300];
            snprintf(
                text, sizeof text,
                "%s failed: there were no derivatives that can be computed with, no way down or"
                " too little memory; what comes after goes on from where it stood",
                name);
            status = note(r, text);
        }
    }
    nsi_descent_free(r->descent);
    r->descent = NULL;
    if (r->phase + 1 < r->nphase || status != NS_OK) {
        nsi_evaluator_free(r->e);
        r->e = NULL;
    }
    return status;
}

// ---- search ------------------------------------------------------------------------------------

// A thread of a search: an evaluator for each stage.
typedef struct searcher {
    nsi_evaluator** e;
    nsi_descent** descent;
    double *z, *scratch;
} searcher;

typedef struct search {
    run* r;
    searcher* workers;
    uint32_t nworker, best_rounds;
    bool damaged; // a round was cut short: its results are not those of a whole one
} search;

static double* box_numbers(ns_fit* f, double** upper) {
    uint32_t n = f->nz;
    double* lower = nsi_alloc_zeroed(&f->allocator, 2 * ((size_t)n + 1) * sizeof *lower);
    if (lower) *upper = lower + n + 1;
    return lower;
}

// The box of a search: bounds of parameters.
static ns_status make_box(run* r, double** lower, double** upper) {
    ns_fit* f = r->f;
    *lower = box_numbers(f, upper);
    if (!*lower) return nsi_fail_nomem(r->error);
    for (uint32_t k = 0; k < f->nz; k++) {
        const nsi_variable* v = nsi_variables_at(f->variables, k);
        (*lower)[k] = v->lower;
        (*upper)[k] = v->upper;
    }
    return NS_OK;
}

static bool watch_search(void* context, uint32_t iteration, double value) {
    (void)iteration, (void)value;
    search* s = context;
    bool stop;
#ifdef _OPENMP
#pragma omp critical(nsi_search)
#endif
    {
        ns_fit_progress progress = {.phase = s->r->name,
                                    .number = s->r->phase,
                                    .count = s->r->nphase,
                                    .iteration = s->best_rounds,
                                    .iterations = s->r->iterations,
                                    .loss = NAN,
                                    .seconds = elapsed(s->r)};
        if (s->r->o->observe && s->r->o->observe(s->r->o->context, &progress)) {
            s->r->f->stopped = s->damaged = true;
        }
        stop = s->r->f->stopped;
    }
    return stop;
}

// From x = v, weights through all stages.
static double search_from(void* context, uint32_t worker, double* x) {
    search* s = context;
    ns_fit* f = s->r->f;
    searcher* w = &s->workers[worker];
    double value = INFINITY;
    nsi_variables_to_z(f->variables, x, w->z);
    for (uint32_t k = 0; k < f->plan->stages.count; k++) {
        nsi_point point = nsi_evaluator_point(w->e[k]);
        copy(point.z, w->z, f->nz);
        copy(point.w, x + f->nz, f->nw);
        nsi_evaluator_guess(w->e[k]);
        nsi_descent_state* state = nsi_descent_get_state(w->descent[k]);
        state->lm = (nsi_lm_state){0};
        if (state->m) {
            size_t size = nsi_evaluator_unknowns(w->e[k]) * sizeof(double);
            memset(state->m, 0, size);
            memset(state->v, 0, size);
        }
        nsi_outcome out = nsi_descent_run(w->descent[k], watch_search, s);
        value = out.value;
        if (out.finish == NSI_FINISH_FAILED) return INFINITY;
        point = nsi_evaluator_point(w->e[k]);
        copy(w->z, point.z, f->nz);
        copy(x + f->nz, point.w, f->nw);
    }
    nsi_variables_from_z(f->variables, w->z, x, NULL, w->scratch);
    return value;
}

static void free_searchers(search* s) {
    ns_fit* f = s->r->f;
    for (uint32_t k = 0; s->workers && k < s->nworker; k++) {
        searcher* w = &s->workers[k];
        for (uint32_t i = 0; i < f->plan->stages.count; i++) {
            if (w->descent) nsi_descent_free(w->descent[i]);
            if (w->e) nsi_evaluator_free(w->e[i]);
        }
        nsi_free(&f->allocator, w->e);
        nsi_free(&f->allocator, w->descent);
        nsi_free(&f->allocator, w->z);
        nsi_free(&f->allocator, w->scratch);
    }
    nsi_free(&f->allocator, s->workers);
}

static ns_status make_searcher(run* r, searcher* w) {
    ns_fit* f = r->f;
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    uint32_t count = f->plan->stages.count;
    w->e = nsi_alloc_zeroed(&f->allocator, count * sizeof(nsi_evaluator*));
    w->descent = nsi_alloc_zeroed(&f->allocator, count * sizeof(nsi_descent*));
    w->z = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    w->scratch = nsi_alloc(&f->allocator, nsi_variables_scratch(f->variables) * sizeof(double));
    ns_status status = w->e && w->descent && w->z && w->scratch ? NS_OK : nsi_fail_nomem(r->error);
    for (uint32_t k = 0; status == NS_OK && k < count; k++) {
        const nsi_stage* stage = &f->plan->stages.data[k];
        status = nsi_evaluator_create(f->problem, train, &stage->loss, NULL, 1, &w->e[k], r->error);
        if (status == NS_OK) {
            status = nsi_descent_create(f->problem, train, stage, w->e[k], f->plan->seed, 1,
                                        &w->descent[k], r->error);
        }
    }
    return status;
}

static bool watch_round(void* context, const nsi_hop_state* state) {
    search* s = context;
    run* r = s->r;
    s->best_rounds = state->round;
    if (s->damaged) return true; // the last whole round is in the checkpoint
    report(r, state->round, state->value);
    nsi_checkpoint c = begin_checkpoint(r);
    c.searching = true;
    c.iteration = state->round;
    c.stale = state->stale;
    c.searches = state->searches;
    c.best = state->x;
    c.best_value = state->value;
    c.nhop = r->f->nz + r->f->nw;
    c.nelite = r->f->plan->search.population;
    c.elite = state->elite;
    c.elite_value = state->elite_value;
    write_checkpoint(r, &c);
    return r->f->stopped || r->failure != NS_OK;
}

static ns_status begin_hop(run* r, nsi_hop_state* state, double* memory) {
    ns_fit* f = r->f;
    uint32_t n = f->nz + f->nw, population = f->plan->search.population;
    *state = (nsi_hop_state){.value = INFINITY,
                             .x = memory,
                             .elite = memory + n,
                             .elite_value = memory + n + (size_t)population * n};
    for (uint32_t k = 0; k < population; k++) state->elite_value[k] = INFINITY;
    nsi_variables_start(f->variables, state->x);
    copy(state->x + f->nz, f->w, f->nw);
    if (!r->resuming) return NS_OK;
    const nsi_checkpoint* c = &r->resumed;
    if (c->nhop != n || c->nelite != population) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s does not fit the experiment; start again without"
                        " resuming",
                        r->o->checkpoint);
    }
    state->round = c->iteration;
    state->stale = c->stale;
    state->searches = c->searches;
    state->value = c->best_value;
    copy(state->x, c->best, n);
    copy(state->elite, c->elite, (size_t)population * n);
    copy(state->elite_value, c->elite_value, population);
    r->resuming = false;
    return NS_OK;
}

static ns_status hop(run* r, search* s, const double* lower, const double* upper,
                     nsi_outcome* out) {
    ns_fit* f = r->f;
    const nsi_search* plan = &f->plan->search;
    uint32_t n = f->nz + f->nw;
    nsi_hop_options options = nsi_default_hop_options();
    options.method = plan->method == NSI_SEARCH_HOP ? NSI_HOP_MUTATE : NSI_HOP_RESTART;
    options.population = plan->population;
    options.rounds = plan->rounds;
    options.threads = f->threads;
    options.sigma = plan->sigma;
    options.target = isfinite(plan->target) ? 0.5 * plan->target * plan->target : -INFINITY;
    options.patience = plan->patience;
    options.seconds = plan->seconds;
    options.carried = f->nw;
    options.seed = f->plan->seed;
    s->nworker = nsi_hop_threads(&options);
    s->workers = nsi_alloc_zeroed(&f->allocator, s->nworker * sizeof *s->workers);
    size_t size = ((size_t)plan->population + 1) * ((size_t)n + 1);
    double* memory = nsi_alloc_zeroed(&f->allocator, size * sizeof *memory); // it is stored whole
    ns_status status = s->workers && memory ? NS_OK : nsi_fail_nomem(r->error);
    for (uint32_t k = 0; status == NS_OK && k < s->nworker; k++) {
        status = make_searcher(r, &s->workers[k]);
    }
    nsi_hop_state state;
    if (status == NS_OK) status = begin_hop(r, &state, memory);
    if (status == NS_OK) {
        status = nsi_hop(f->nz, lower, upper, &state, search_from, watch_round, s, &options, out,
                         r->error);
    }
    if (status == NS_OK) {
        nsi_variables_to_z(f->variables, state.x, f->z);
        copy(f->w, state.x + f->nz, f->nw);
        out->iterations = state.searches;
    }
    nsi_free(&f->allocator, memory);
    return status;
}

// The loss of the last stage as a function of v, start states as guessed.
typedef struct surface {
    run* r;
    nsi_evaluator* e;
    double *z, *dv, *gradient, *v, *scratch;
} surface;

static double surface_value(void* context, const double* v, double* gradient) {
    surface* s = context;
    ns_fit* f = s->r->f;
    uint32_t n = f->nz;
    nsi_variables_to_z(f->variables, v, s->z);
    copy(nsi_evaluator_point(s->e).z, s->z, n);
    double scale;
    if (!gradient) {
        double value = nsi_evaluator_value(s->e);
        scale = 1.0 / nsi_evaluator_residual_count(s->e);
        return value * scale;
    }
    double value = nsi_evaluator_gradient(s->e, s->gradient);
    scale = 1.0 / nsi_evaluator_residual_count(s->e);
    // dF/dv from dF/dz: transforms act on one number each where a search is possible.
    nsi_variables_from_z(f->variables, s->z, s->v, s->dv, s->scratch);
    for (uint32_t k = 0; k < n; k++) {
        double slope = s->dv[(size_t)k * n + k];
        gradient[k] = slope != 0.0 ? s->gradient[k] / slope * scale : 0.0;
    }
    return value * scale;
}

static bool watch_surface(void* context, const nsi_progress* progress) {
    surface* s = context;
    if (progress->iteration % 100 != 0) return s->r->f->stopped;
    return report(s->r, progress->iteration, progress->value);
}

static ns_status populate(run* r, const double* lower, const double* upper, nsi_outcome* out) {
    ns_fit* f = r->f;
    const nsi_search* plan = &f->plan->search;
    size_t n = f->nz;
    nsi_stage stage = f->plan->stages.data[f->plan->stages.count - 1];
    stage.loss.states = NSI_STATES_RECORDED;
    stage.loss.fit_weights = false;
    surface s = {.r = r};
    ns_status status = nsi_evaluator_create(f->problem, f->data[NSI_ROLE_TRAIN], &stage.loss, NULL,
                                            f->threads, &s.e, r->error);
    if (status != NS_OK) return status;
    size_t size = n * n + 4 * n + nsi_variables_scratch(f->variables) + 1;
    double* memory = nsi_alloc(&f->allocator, size * sizeof *memory);
    if (!memory) status = nsi_fail_nomem(r->error);
    if (status == NS_OK) {
        double* x = memory;
        s.z = x + n, s.gradient = s.z + n, s.v = s.gradient + n, s.dv = s.v + n;
        s.scratch = s.dv + n * n;
        nsi_variables_start(f->variables, x);
        nsi_population_options options = nsi_default_population_options();
        options.method = (nsi_population_method)(plan->method - NSI_SEARCH_CRS2);
        options.max_evaluations = plan->evaluations;
        options.target = isfinite(plan->target) ? 0.5 * plan->target * plan->target : -INFINITY;
        options.seed = f->plan->seed;
        status = nsi_population((uint32_t)n, lower, upper, x, surface_value, watch_surface, &s,
                                &options, out, r->error);
        if (status == NS_OK) nsi_variables_to_z(f->variables, x, f->z);
    }
    nsi_free(&f->allocator, memory);
    nsi_evaluator_free(s.e);
    return status;
}

static ns_status run_search(run* r) {
    ns_fit* f = r->f;
    const nsi_search* plan = &f->plan->search;
    double *lower = NULL, *upper = NULL, start = nsi_clock_wall();
    search s = {.r = r};
    nsi_outcome out = {0};
    bool hops = plan->method == NSI_SEARCH_HOP || plan->method == NSI_SEARCH_RESTART;
    char name[80];
    describe_phase(r, r->phase, name, sizeof name);
    r->name = name;
    r->iterations = hops ? plan->rounds : plan->evaluations;
    ns_status status = make_box(r, &lower, &upper);
    if (status == NS_OK) {
        status = hops ? hop(r, &s, lower, upper, &out) : populate(r, lower, upper, &out);
    }
    if (status == NS_OK && !isfinite(out.value)) {
        status = nsi_fail(r->error, NS_ERR_NONFINITE,
                          "%s: no start of the search gave a finite loss; take shorter windows or"
                          " narrower bounds",
                          f->plan->path);
    }
    if (status == NS_OK) status = end_phase(r, &out, nsi_clock_wall() - start);
    free_searchers(&s);
    nsi_free(&f->allocator, lower);
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------

static void hash(run* r, const void* bytes, size_t size) {
    r->fingerprint = nsi_hash64(r->fingerprint, bytes, size);
}

// Of the plan, of the numbers of the model and of the networks, and of the data and its scales.
static ns_status hash_experiment(run* r) {
    ns_fit* f = r->f;
    const ns_model* model = ns_hybrid_model(f->hybrid);
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    nsi_bytes bytes = {0};
    ns_status status =
        nsi_file_read(f->plan->path, NSI_YAML_MAX_SIZE, &f->allocator, &bytes, r->error);
    uint32_t sizes[] = {f->nz, f->nw, f->problem->sizes.nx, f->problem->nchannel};
    r->fingerprint = NSI_HASH_START;
    hash(r, bytes.data, bytes.count);
    hash(r, sizes, sizeof sizes);
    hash(r, f->z0, ((size_t)f->nz + f->nw) * sizeof(double));
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        hash(r, &ns_model_param(model, k)->value, sizeof(double));
    }
    for (uint32_t k = 0; k < f->problem->nchannel; k++) { // sigmas and weights of the map
        hash(r, &f->problem->sources[k].scale, sizeof(double));
    }
    hash(r, &f->timestep, sizeof f->timestep);
    for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
        const ns_recording* recording = ns_dataset_recording(train, k);
        size_t one = recording->nsample * sizeof(double);
        hash(r, &recording->nsample, sizeof recording->nsample);
        hash(r, recording->values, one * f->problem->nchannel);
        hash(r, recording->controls, one * f->problem->ncontrol);
    }
    nsi_array_free(&f->allocator, &bytes);
    return status;
}

static ns_status take_up(run* r) {
    ns_fit* f = r->f;
    bool damaged;
    if (!r->o->resume || !r->o->checkpoint) return NS_OK;
    ns_error why;
    ns_status status = nsi_checkpoint_read(r->o->checkpoint, r->fingerprint, &f->allocator,
                                           &r->resumed, &damaged, &why);
    if (status == NS_ERR_IO) return NS_OK; // nothing to go on from: from the beginning
    if (status != NS_OK) return nsi_fail(r->error, status, "%s", why.message);
    const nsi_checkpoint* c = &r->resumed;
    if (c->phase >= r->nphase || c->nphase != c->phase) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s is of a phase that the experiment does not have; start"
                        " again without resuming",
                        r->o->checkpoint);
    }
    r->resuming = true;
    r->earlier = c->seconds;
    r->phase = c->phase;
    if (damaged) {
        status = note(r, "the last checkpoint was damaged; went on from the one before it");
        if (status != NS_OK) return status;
    }
    for (uint32_t k = 0; k < c->nphase; k++) {
        nsi_phase phase = c->phases[k];
        char name[120];
        describe_phase(r, k, name, sizeof name);
        phase.name = keep_text(f, name);
        phase.finish = "done";
        if (!phase.name || !nsi_array_push(&f->allocator, &f->answer.phases, phase)) {
            return nsi_fail_nomem(r->error);
        }
    }
    for (uint32_t k = 0; k < c->nhistory; k++) {
        if (!nsi_array_push(&f->allocator, &f->answer.history, c->history[k])) {
            return nsi_fail_nomem(r->error);
        }
    }
    if (c->nz == f->nz) copy(f->z, c->z, f->nz);
    if (c->nw == f->nw) copy(f->w, c->w, f->nw);
    return NS_OK;
}

static ns_status run_phases(run* r) {
    for (; r->phase < r->nphase && !r->f->stopped; r->phase++) {
        ns_status status = r->searches && r->phase == 0 ? run_search(r) : run_stage(r);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

ns_status ns_fit_run(ns_fit* f, const ns_fit_options* options, ns_error* error) {
    static const ns_fit_options defaults = {0};
    if (!f) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_run: fit is NULL");
    run r = {.f = f,
             .o = options ? options : &defaults,
             .error = error,
             .began = nsi_clock_wall(),
             .saved = nsi_clock_wall()};
    nsi_answer_free(&f->answer);
    f->stopped = false;
    copy(f->z, f->z0, f->nz + f->nw);
    list_phases(&r);
    ns_status status = hash_experiment(&r);
    if (status == NS_OK) status = take_up(&r);
    if (status == NS_OK) status = run_phases(&r);
    f->answer.complete = status == NS_OK && !f->stopped;
    f->answer.seconds = elapsed(&r);
    if (status == NS_OK) status = nsi_fit_answer(f, r.e, error);
    f->answer.seconds = elapsed(&r);
    nsi_descent_free(r.descent);
    nsi_evaluator_free(r.e);
    nsi_checkpoint_free(&r.resumed);
    return status;
}

bool ns_fit_stopped(const ns_fit* f) {
    return f->stopped;
}
