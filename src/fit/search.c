// Searches over the box of the parameters by a global solver of the table: those that run local searches
// from many starts go through all stages from each; the others minimise the loss of the last stage.
//
// The best point is kept as it was seen, so that the result is not worse: in the coordinates of solvers, and,
// where local searches estimated them, with the initial states of the last stage. From others guessed anew
// the last stage may end in another minimum; with contacts it often does.

#include "fit/fit_run.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

// A thread of a search: an objective for each stage.
typedef struct searcher {
    nsi_objective** e;
    nsi_stage_solver** solvers;
    double *z, *scratch;
} searcher;

typedef struct search {
    nsi_run* r;
    searcher* workers;
    uint32_t nworker;
    bool damaged; // a round was cut short: its results are not those of a whole one

    // A solver without starts: the loss of the last stage as a function of v, initial states as guessed.
    nsi_objective* e;
    double *z, *dv, *gradient, *v, *scratch;

    const ns_solver* solver;
    void* state;
    ns_solver_options options;
    ns_solver_problem problem;
    uint32_t rounds;  // done
    uint32_t nx;      // numbers of a point: v; for starts also weights, z and initial states
    uint32_t nstate;  // of the last stage, all windows; 0 without starts
    double *x, value; // the best
    double *lower, *upper;
} search;

static bool has_starts(const search* s) {
    return (s->solver->capabilities & NS_SOLVER_STARTS) != 0;
}

// The box of a search: bounds of parameters.
static ns_status make_box(nsi_run* r, search* s) {
    ns_fit* f = r->f;
    s->lower = nsi_alloc_zeroed(&f->allocator, 2 * ((size_t)f->nz + 1) * sizeof *s->lower);
    if (!s->lower) return nsi_fail_nomem(r->error);
    s->upper = s->lower + f->nz + 1;
    for (uint32_t k = 0; k < f->nz; k++) {
        const ns_parameter_info* v = ns_parameters_at(f->parameters, k);
        s->lower[k] = v->lower;
        s->upper[k] = v->upper;
    }
    return NS_OK;
}

// ---- local searches from many starts -----------------------------------------------------------

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
                                    .iteration = s->rounds,
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

// Where a local search ended, for chains of the posterior. Its order depends on threads.
static void keep_minimum(nsi_run* r, double value, const double* x) {
    const ns_fit* f = r->f;
    if (f->spec->posterior.method == NS_POSTERIOR_NONE || !isfinite(value)) return;
#ifdef _OPENMP
#pragma omp critical(nsi_search)
#endif
    {
        bool kept = nsi_array_push(&f->allocator, &r->minima, value);
        for (uint32_t k = 0; k < f->nz + f->nw && kept; k++) {
            kept = nsi_array_push(&f->allocator, &r->minima, x[k]);
        }
        if (!kept) r->failure = nsi_fail_nomem(r->error);
    }
}

// From x = v, weights through all stages; x receives z and the initial states as well.
static double search_from(void* context, uint32_t worker, double* x) {
    search* s = context;
    ns_fit* f = s->r->f;
    searcher* w = &s->workers[worker];
    double value = INFINITY;
    nsi_parameters_to_z(f->parameters, x, w->z);
    for (uint32_t k = 0; k < f->spec->stages.count; k++) {
        nsi_point point = nsi_objective_point(w->e[k]);
        nsi_copy_numbers(point.z, w->z, f->nz);
        nsi_copy_numbers(point.w, x + f->nz, f->nw);
        nsi_objective_guess(w->e[k]);
        if (nsi_stage_solver_restart(w->solvers[k], NULL) != NS_OK) return INFINITY;
        ns_solver_result out = nsi_stage_solver_run(w->solvers[k], watch_search, s);
        value = out.value;
        if (out.finish == NS_FINISH_FAILED) return INFINITY;
        point = nsi_objective_point(w->e[k]);
        nsi_copy_numbers(w->z, point.z, f->nz);
        nsi_copy_numbers(x + f->nz, point.w, f->nw);
    }
    nsi_parameters_from_z(f->parameters, w->z, x, NULL, w->scratch);
    double *z = x + f->nz + f->nw, *states = z + f->nz;
    nsi_copy_numbers(z, w->z, f->nz);
    nsi_copy_numbers(states, nsi_objective_point(w->e[f->spec->stages.count - 1]).x, s->nstate);
    keep_minimum(s->r, value, x);
    return value;
}

static void free_searchers(search* s) {
    ns_fit* f = s->r->f;
    for (uint32_t k = 0; s->workers && k < s->nworker; k++) {
        searcher* w = &s->workers[k];
        for (uint32_t i = 0; i < f->spec->stages.count; i++) {
            if (w->solvers) nsi_stage_solver_free(w->solvers[i]);
            if (w->e) nsi_objective_free(w->e[i]);
        }
        nsi_free(&f->allocator, w->e);
        nsi_free(&f->allocator, w->solvers);
        nsi_free(&f->allocator, w->z);
        nsi_free(&f->allocator, w->scratch);
    }
    nsi_free(&f->allocator, s->workers);
}

static ns_status make_searcher(nsi_run* r, searcher* w) {
    ns_fit* f = r->f;
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    uint32_t count = f->spec->stages.count;
    w->e = nsi_alloc_zeroed(&f->allocator, count * sizeof(nsi_objective*));
    w->solvers = nsi_alloc_zeroed(&f->allocator, count * sizeof(nsi_stage_solver*));
    w->z = nsi_alloc(&f->allocator, ((size_t)f->nz + 1) * sizeof(double));
    w->scratch = nsi_alloc(&f->allocator, nsi_parameters_scratch(f->parameters) * sizeof(double));
    ns_status status = w->e && w->solvers && w->z && w->scratch ? NS_OK : nsi_fail_nomem(r->error);
    for (uint32_t k = 0; status == NS_OK && k < count; k++) {
        const nsi_stage* stage = &f->spec->stages.data[k];
        status =
            nsi_objective_create(f->problem, train, &stage->windows, NULL, 1, &w->e[k], r->error);
        if (status == NS_OK) {
            status = nsi_stage_solver_create(f->problem, train, stage, w->e[k], f->spec->seed, 1,
                                             &w->solvers[k], r->error);
        }
    }
    return status;
}

static ns_status make_searchers(nsi_run* r, search* s) {
    ns_fit* f = r->f;
    uint32_t threads = nsi_solver_threads(&s->options), population = s->options.population;
    s->nworker = s->options.threads = threads < population ? threads : population;
    s->workers = nsi_alloc_zeroed(&f->allocator, s->nworker * sizeof *s->workers);
    if (!s->workers) return nsi_fail_nomem(r->error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; status == NS_OK && k < s->nworker; k++) {
        status = make_searcher(r, &s->workers[k]);
    }
    if (status != NS_OK) return status;

    // What a local search returns has a place behind its weights.
    const nsi_objective* last = s->workers[0].e[f->spec->stages.count - 1];
    s->nstate = nsi_objective_window_count(last) * f->problem->sizes.nx;
    s->problem.carried = f->nw + f->nz + s->nstate;
    s->nx = f->nz + s->problem.carried;
    return NS_OK;
}

// ---- the loss as a function --------------------------------------------------------------------

static double surface_value(void* context, const double* v, double* gradient) {
    search* s = context;
    ns_fit* f = s->r->f;
    uint32_t n = f->nz;
    nsi_parameters_to_z(f->parameters, v, s->z);
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
    nsi_parameters_from_z(f->parameters, s->z, s->v, s->dv, s->scratch);
    for (uint32_t k = 0; k < n; k++) {
        double slope = s->dv[(size_t)k * n + k];
        gradient[k] = slope != 0.0 ? s->gradient[k] / slope * scale : 0.0;
    }
    return value * scale;
}

static bool watch_surface(void* context, const ns_solver_progress* progress) {
    search* s = context;
    if (progress->iteration % 100 != 0) return s->r->f->stopped;
    return nsi_run_report(s->r, progress->iteration, progress->value);
}

static ns_status make_surface(nsi_run* r, search* s) {
    ns_fit* f = r->f;
    size_t n = f->nz;
    nsi_stage stage = f->spec->stages.data[f->spec->stages.count - 1];
    stage.windows.initial_state = NS_INITIAL_STATE_RECORDED;
    stage.windows.optimise = nsi_optimises_parameters(stage.windows.optimise)
                                 ? NS_OPTIMISE_PARAMETERS
                                 : NS_OPTIMISE_NONE;
    ns_status status = nsi_objective_create(f->problem, f->data[NS_ROLE_TRAIN], &stage.windows,
                                            NULL, f->threads, &s->e, r->error);
    if (status != NS_OK) return status;
    size_t size = n * n + 3 * n + nsi_parameters_scratch(f->parameters) + 1;
    s->z = nsi_alloc(&f->allocator, size * sizeof *s->z);
    if (!s->z) return nsi_fail_nomem(r->error);
    s->gradient = s->z + n;
    s->v = s->gradient + n;
    s->dv = s->v + n;
    s->scratch = s->dv + n * n;
    return NS_OK;
}

// ---- rounds ------------------------------------------------------------------------------------

static void fill_search_problem(search* s) {
    const ns_fit* f = s->r->f;
    const nsi_search* settings = &f->spec->search;
    double target = 0.5 * settings->target * settings->target; // of the loss, where 0 means none

    // Limits of the search; a target of 0 would mean none to the solver.
    s->options =
        (ns_solver_options){.max_iterations = s->r->iterations,
                            .population = has_starts(s) ? settings->population : 0,
                            .threads = f->threads,
                            .sigma = settings->sigma,
                            .target = isfinite(settings->target) ? fmax(target, DBL_TRUE_MIN) : 0.0,
                            .patience = settings->patience,
                            .seconds = settings->seconds,
                            .seed = f->spec->seed};

    // Weights go along with a start; other solvers see the parameters alone.
    s->problem =
        (ns_solver_problem){.n = f->nz, .lower = s->lower, .upper = s->upper, .context = s};

    // What a point of the search consists of.
    s->nx = f->nz;
    if (has_starts(s)) {
        s->problem.local_search = search_from; // what it carries along follows the objectives
    } else {
        // Without local searches each point costs one evaluation.
        s->problem.cost = surface_value;
        s->problem.observe = watch_surface;
    }
}

// The start, or where a checkpoint stood.
static ns_status begin_search(nsi_run* r, search* s) {
    ns_fit* f = r->f;
    s->x = nsi_alloc_zeroed(&f->allocator, ((size_t)s->nx + f->nw + 1) * sizeof *s->x);
    if (!s->x) return nsi_fail_nomem(r->error);
    nsi_parameters_initial(f->parameters, s->x);
    nsi_copy_numbers(s->x + f->nz, f->w, f->nw);
    s->value = INFINITY;
    ns_status status = s->solver->create(&s->problem, &s->options, &s->state, r->error);
    if (status != NS_OK || !r->resuming) return status;

    const nsi_checkpoint* c = &r->resumed;
    if (!s->solver->load || c->nkept != s->nx || c->nsolver != s->solver->state_size(s->state)) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s does not fit the experiment; start again without"
                        " resuming",
                        r->o->checkpoint);
    }
    s->rounds = c->iteration;
    s->value = c->kept_value;
    nsi_copy_numbers(s->x, c->kept, s->nx);
    s->solver->load(s->state, c->solver);
    r->resuming = false;
    return NS_OK;
}

static void save_search(nsi_run* r, search* s) {
    if (!r->o->checkpoint || !s->solver->save) return;
    nsi_checkpoint c = nsi_run_begin_checkpoint(r);
    c.iteration = s->rounds;
    c.kept = s->x;
    c.nkept = s->nx;
    c.kept_value = s->value;
    c.nsolver = s->solver->state_size(s->state);
    c.solver = nsi_alloc(&r->f->allocator, ((size_t)c.nsolver + 1) * sizeof *c.solver);
    if (!c.solver) {
        r->failure = nsi_fail_nomem(r->error);
        return;
    }
    s->solver->save(s->state, c.solver);
    nsi_run_write_checkpoint(r, &c);
    nsi_free(&r->f->allocator, c.solver);
}

// After a round; true: stop.
static bool end_round(nsi_run* r, search* s) {
    if (s->damaged) return true; // the last whole round is in the checkpoint
    if (has_starts(s)) nsi_run_report(r, s->rounds, s->value);
    save_search(r, s);
    return r->f->stopped || r->failure != NS_OK;
}

static ns_status search_rounds(nsi_run* r, search* s, ns_solver_result* all) {
    const uint32_t round = s->solver->round > 0 ? s->solver->round : 1;
    *all = (ns_solver_result){.finish = NS_FINISH_LIMIT, .value = s->value};
    while (s->rounds < r->iterations) {
        uint32_t left = r->iterations - s->rounds;
        ns_solver_result out;
        ns_status status =
            s->solver->step(s->state, s->x, left < round ? left : round, &out, r->error);
        if (status != NS_OK) return status;
        all->evaluations += out.evaluations;
        all->finish = out.finish;
        all->value = s->value = out.value;
        s->rounds += out.iterations;
        bool stop = out.iterations > 0 && end_round(r, s);
        if (out.finish != NS_FINISH_LIMIT || out.iterations == 0) break;
        if (stop) {
            all->finish = NS_FINISH_STOPPED;
            break;
        }
    }
    all->iterations = has_starts(s) ? s->rounds * s->options.population : s->rounds;
    return NS_OK;
}

static void free_search(search* s) {
    ns_fit* f = s->r->f;
    s->solver->free(s->state);
    free_searchers(s);
    nsi_objective_free(s->e);
    nsi_free(&f->allocator, s->z);
    nsi_free(&f->allocator, s->x);
    nsi_free(&f->allocator, s->lower);
}

ns_status nsi_run_search(nsi_run* r) {
    ns_fit* f = r->f;
    const nsi_search* settings = &f->spec->search;
    double start = nsi_clock_wall();
    search s = {.r = r, .solver = settings->solver};
    ns_solver_result out = {0};

    // Name and length of this phase, for progress messages.
    char name[80];
    nsi_run_describe_phase(r, r->phase, name, sizeof name);
    r->name = name;
    r->iterations = has_starts(&s) ? settings->rounds : settings->evaluations;

    // Search.
    ns_status status = make_box(r, &s);
    if (status == NS_OK) fill_search_problem(&s);
    if (status == NS_OK) status = has_starts(&s) ? make_searchers(r, &s) : make_surface(r, &s);
    if (status == NS_OK) status = begin_search(r, &s);
    if (status == NS_OK) status = search_rounds(r, &s, &out);

    // No stage can begin at a point without a loss.
    if (status == NS_OK && !isfinite(out.value)) {
        status = nsi_fail(r->error, NS_ERR_NONFINITE,
                          "%s: no start of the search gave a finite loss; take shorter windows or"
                          " narrower bounds",
                          f->spec->path);
    }

    // The stages go on from the best point.
    if (status == NS_OK) {
        // The search works on values, stages on unbounded coordinates.
        if (s.nstate > 0) {
            nsi_copy_numbers(f->w, s.x + f->nz, f->nw);
            nsi_copy_numbers(f->z, s.x + f->nz + f->nw, f->nz);
        } else {
            nsi_parameters_to_z(f->parameters, s.x, f->z);
        }
        status = nsi_run_keep_best(r, s.x + f->nz + f->nw + f->nz, s.nstate);
        if (status == NS_OK) status = nsi_run_end_phase(r, &out, nsi_clock_wall() - start);
    }
    free_search(&s);
    return status;
}
