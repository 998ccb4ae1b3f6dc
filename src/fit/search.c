// Searches from many starts: basin hopping and restarts, which run all stages from each start, and the
// population methods of NLopt on the loss of the last stage.

#include "fit/fit_run.h"

#include <math.h>
#include <stdio.h>

// A thread of a search: an evaluator for each stage.
typedef struct searcher {
    nsi_objective** e;
    nsi_stage_solver** descent;
    double *z, *scratch;
} searcher;

typedef struct search {
    nsi_run* r;
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
static ns_status make_box(nsi_run* r, double** lower, double** upper) {
    ns_fit* f = r->f;
    *lower = box_numbers(f, upper);
    if (!*lower) return nsi_fail_nomem(r->error);
    for (uint32_t k = 0; k < f->nz; k++) {
        const ns_parameter_info* v = ns_parameters_at(f->variables, k);
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
                                    .seconds = nsi_run_elapsed(s->r)};
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
    nsi_parameters_to_z(f->variables, x, w->z);
    for (uint32_t k = 0; k < f->plan->stages.count; k++) {
        nsi_point point = nsi_objective_point(w->e[k]);
        nsi_copy_numbers(point.z, w->z, f->nz);
        nsi_copy_numbers(point.w, x + f->nz, f->nw);
        nsi_objective_guess(w->e[k]);
        nsi_stage_solver_state* state = nsi_stage_solver_get_state(w->descent[k]);
        state->lm = (nsi_lm_state){0};
        state->best_value = INFINITY;
        if (state->m) {
            size_t size = nsi_objective_unknowns(w->e[k]) * sizeof(double);
            memset(state->m, 0, size);
            memset(state->v, 0, size);
        }
        nsi_outcome out = nsi_stage_solver_run(w->descent[k], watch_search, s);
        value = out.value;
        if (out.finish == NSI_FINISH_FAILED) return INFINITY;
        point = nsi_objective_point(w->e[k]);
        nsi_copy_numbers(w->z, point.z, f->nz);
        nsi_copy_numbers(x + f->nz, point.w, f->nw);
    }
    nsi_parameters_from_z(f->variables, w->z, x, NULL, w->scratch);
    return value;
}

static void free_searchers(search* s) {
    ns_fit* f = s->r->f;
    for (uint32_t k = 0; s->workers && k < s->nworker; k++) {
        searcher* w = &s->workers[k];
        for (uint32_t i = 0; i < f->plan->stages.count; i++) {
            if (w->descent) nsi_stage_solver_free(w->descent[i]);
            if (w->e) nsi_objective_free(w->e[i]);
        }
        nsi_free(&f->allocator, w->e);
        nsi_free(&f->allocator, w->descent);
        nsi_free(&f->allocator, w->z);
        nsi_free(&f->allocator, w->scratch);
    }
    nsi_free(&f->allocator, s->workers);
}

static ns_status make_searcher(nsi_run* r, searcher* w) {
    ns_fit* f = r->f;
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    uint32_t count = f->plan->stages.count;
    w->e = nsi_alloc_zeroed(&f->allocator, count * sizeof(nsi_objective*));
    w->descent = nsi_alloc_zeroed(&f->allocator, count * sizeof(nsi_stage_solver*));
    w->z = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    w->scratch = nsi_alloc(&f->allocator, nsi_parameters_scratch(f->variables) * sizeof(double));
    ns_status status = w->e && w->descent && w->z && w->scratch ? NS_OK : nsi_fail_nomem(r->error);
    for (uint32_t k = 0; status == NS_OK && k < count; k++) {
        const nsi_stage* stage = &f->plan->stages.data[k];
        status =
            nsi_objective_create(f->problem, train, &stage->windows, NULL, 1, &w->e[k], r->error);
        if (status == NS_OK) {
            status = nsi_stage_solver_create(f->problem, train, stage, w->e[k], f->plan->seed, 1,
                                             &w->descent[k], r->error);
        }
    }
    return status;
}

static bool watch_round(void* context, const nsi_basin_hopping_state* state) {
    search* s = context;
    nsi_run* r = s->r;
    s->best_rounds = state->round;
    if (s->damaged) return true; // the last whole round is in the checkpoint
    nsi_run_report(r, state->round, state->value);
    nsi_checkpoint c = nsi_run_begin_checkpoint(r);
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
    nsi_run_write_checkpoint(r, &c);
    return r->f->stopped || r->failure != NS_OK;
}

static ns_status begin_hop(nsi_run* r, nsi_basin_hopping_state* state, double* memory) {
    ns_fit* f = r->f;
    uint32_t n = f->nz + f->nw, population = f->plan->search.population;
    *state = (nsi_basin_hopping_state){.value = INFINITY,
                                       .x = memory,
                                       .elite = memory + n,
                                       .elite_value = memory + n + (size_t)population * n};
    for (uint32_t k = 0; k < population; k++) state->elite_value[k] = INFINITY;
    nsi_parameters_initial(f->variables, state->x);
    nsi_copy_numbers(state->x + f->nz, f->w, f->nw);
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
    nsi_copy_numbers(state->x, c->best, n);
    nsi_copy_numbers(state->elite, c->elite, (size_t)population * n);
    nsi_copy_numbers(state->elite_value, c->elite_value, population);
    r->resuming = false;
    return NS_OK;
}

static ns_status hop(nsi_run* r, search* s, const double* lower, const double* upper,
                     nsi_outcome* out) {
    ns_fit* f = r->f;
    const nsi_search* plan = &f->plan->search;
    uint32_t n = f->nz + f->nw;
    nsi_basin_hopping_options options = nsi_default_basin_hopping_options();
    options.method =
        plan->method == NSI_SEARCH_HOP ? NSI_BASIN_HOPPING_MUTATE : NSI_BASIN_HOPPING_RESTART;
    options.population = plan->population;
    options.rounds = plan->rounds;
    options.threads = f->threads;
    options.sigma = plan->sigma;
    options.target = isfinite(plan->target) ? 0.5 * plan->target * plan->target : -INFINITY;
    options.patience = plan->patience;
    options.seconds = plan->seconds;
    options.carried = f->nw;
    options.seed = f->plan->seed;
    s->nworker = nsi_basin_hopping_threads(&options);
    s->workers = nsi_alloc_zeroed(&f->allocator, s->nworker * sizeof *s->workers);
    size_t size = ((size_t)plan->population + 1) * ((size_t)n + 1);
    double* memory = nsi_alloc_zeroed(&f->allocator, size * sizeof *memory); // it is stored whole
    ns_status status = s->workers && memory ? NS_OK : nsi_fail_nomem(r->error);
    for (uint32_t k = 0; status == NS_OK && k < s->nworker; k++) {
        status = make_searcher(r, &s->workers[k]);
    }
    nsi_basin_hopping_state state;
    if (status == NS_OK) status = begin_hop(r, &state, memory);
    if (status == NS_OK) {
        status = nsi_basin_hopping(f->nz, lower, upper, &state, search_from, watch_round, s,
                                   &options, out, r->error);
    }
    if (status == NS_OK) {
        nsi_parameters_to_z(f->variables, state.x, f->z);
        nsi_copy_numbers(f->w, state.x + f->nz, f->nw);
        out->iterations = state.searches;
    }
    nsi_free(&f->allocator, memory);
    return status;
}

// The loss of the last stage as a function of v, start states as guessed.
typedef struct surface {
    nsi_run* r;
    nsi_objective* e;
    double *z, *dv, *gradient, *v, *scratch;
} surface;

static double surface_value(void* context, const double* v, double* gradient) {
    surface* s = context;
    ns_fit* f = s->r->f;
    uint32_t n = f->nz;
    nsi_parameters_to_z(f->variables, v, s->z);
    nsi_copy_numbers(nsi_objective_point(s->e).z, s->z, n);
    double scale;
    if (!gradient) {
        double value = nsi_objective_cost(s->e);
        scale = 1.0 / nsi_objective_residual_count(s->e);
        return value * scale;
    }
    double value = nsi_objective_gradient(s->e, s->gradient);
    scale = 1.0 / nsi_objective_residual_count(s->e);
    // dF/dv from dF/dz: transforms act on one number each where a search is possible.
    nsi_parameters_from_z(f->variables, s->z, s->v, s->dv, s->scratch);
    for (uint32_t k = 0; k < n; k++) {
        double slope = s->dv[(size_t)k * n + k];
        gradient[k] = slope != 0.0 ? s->gradient[k] / slope * scale : 0.0;
    }
    return value * scale;
}

static bool watch_surface(void* context, const nsi_progress* progress) {
    surface* s = context;
    if (progress->iteration % 100 != 0) return s->r->f->stopped;
    return nsi_run_report(s->r, progress->iteration, progress->value);
}

static ns_status populate(nsi_run* r, const double* lower, const double* upper, nsi_outcome* out) {
    ns_fit* f = r->f;
    const nsi_search* plan = &f->plan->search;
    size_t n = f->nz;
    nsi_stage stage = f->plan->stages.data[f->plan->stages.count - 1];
    stage.windows.initial_state = NS_INITIAL_STATE_RECORDED;
    stage.windows.optimise = nsi_optimises_parameters(stage.windows.optimise)
                                 ? NS_OPTIMISE_PARAMETERS
                                 : NS_OPTIMISE_NONE;
    surface s = {.r = r};
    ns_status status = nsi_objective_create(f->problem, f->data[NSI_ROLE_TRAIN], &stage.windows,
                                            NULL, f->threads, &s.e, r->error);
    if (status != NS_OK) return status;
    size_t size = n * n + 4 * n + nsi_parameters_scratch(f->variables) + 1;
    double* memory = nsi_alloc(&f->allocator, size * sizeof *memory);
    if (!memory) status = nsi_fail_nomem(r->error);
    if (status == NS_OK) {
        double* x = memory;
        s.z = x + n, s.gradient = s.z + n, s.v = s.gradient + n, s.dv = s.v + n;
        s.scratch = s.dv + n * n;
        nsi_parameters_initial(f->variables, x);
        nsi_population_options options = nsi_default_population_options();
        options.method = (nsi_population_method)(plan->method - NSI_SEARCH_CRS2);
        options.max_evaluations = plan->evaluations;
        options.target = isfinite(plan->target) ? 0.5 * plan->target * plan->target : -INFINITY;
        options.seed = f->plan->seed;
        status = nsi_population((uint32_t)n, lower, upper, x, surface_value, watch_surface, &s,
                                &options, out, r->error);
        if (status == NS_OK) nsi_parameters_to_z(f->variables, x, f->z);
    }
    nsi_free(&f->allocator, memory);
    nsi_objective_free(s.e);
    return status;
}

ns_status nsi_run_search(nsi_run* r) {
    ns_fit* f = r->f;
    const nsi_search* plan = &f->plan->search;
    double *lower = NULL, *upper = NULL, start = nsi_clock_wall();
    search s = {.r = r};
    nsi_outcome out = {0};
    bool hops = plan->method == NSI_SEARCH_HOP || plan->method == NSI_SEARCH_RESTART;
    char name[80];
    nsi_run_describe_phase(r, r->phase, name, sizeof name);
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
    if (status == NS_OK) status = nsi_run_end_phase(r, &out, nsi_clock_wall() - start);
    free_searchers(&s);
    nsi_free(&f->allocator, lower);
    return status;
}
