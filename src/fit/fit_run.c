// Running a fit: its stages one after the other, or a search over many starts and then the last stage
// from the best; checkpoints on the way.

#include "fit/fit_run.h"

#include "io/file.h"
#include "report/network_charts.h"

#include <math.h>
#include <stdio.h>

double nsi_run_elapsed(const nsi_run* r) {
    return r->earlier + nsi_clock_wall() - r->began;
}

static const char* run_keep_text(ns_fit* f, const char* text) {
    return nsi_arena_string(&f->result.arena, text, strlen(text));
}

static ns_status note(nsi_run* r, const char* text) {
    const char* kept = run_keep_text(r->f, text);
    bool done = kept && nsi_array_push(&r->f->allocator, &r->f->result.notes, kept);
    return done ? NS_OK : nsi_fail_nomem(r->error);
}

// ---- checkpoints -------------------------------------------------------------------------------

static void describe_stage(const nsi_stage* stage, char* text, size_t size) {
    const char* title = nsi_solver_title(stage->solver);
    const char* what = nsi_optimises_parameters(stage->windows.optimise) &&
                               nsi_optimises_weights(stage->windows.optimise)
                           ? ""
                       : nsi_optimises_parameters(stage->windows.optimise) ? ", parameters"
                                                                           : ", weights";
    const char* teacher = stage->teacher_forcing ? "teacher, " : "";
    if (stage->windows.length == 0) {
        snprintf(text, size, "%swhole recordings, %s%s", teacher, title, what);
    } else {
        snprintf(text, size, "%swindows of %u, %s%s", teacher, stage->windows.length, title, what);
    }
}

// After hopping, which goes through all stages from each start, the last stage is enough.
static void list_phases(nsi_run* r) {
    const ns_solver* search = r->f->spec->search.solver;
    uint32_t nstage = r->f->spec->stages.count;
    r->searches = search != NULL;
    r->first = search && (search->capabilities & NS_SOLVER_STARTS) ? nstage - 1 : 0;
    r->nphase = nstage - r->first + r->searches;
}

static const nsi_stage* stage_of(const nsi_run* r, uint32_t phase) {
    return &r->f->spec->stages.data[r->first + phase - r->searches];
}

void nsi_run_describe_phase(const nsi_run* r, uint32_t phase, char* text, size_t size) {
    if (r->searches && phase == 0) {
        snprintf(text, size, "search by %s", nsi_solver_title(r->f->spec->search.solver));
    } else {
        describe_stage(stage_of(r, phase), text, size);
    }
}

// What is the same for checkpoints of stages and of searches.
nsi_checkpoint nsi_run_begin_checkpoint(const nsi_run* r) {
    ns_fit* f = r->f;
    return (nsi_checkpoint){.fingerprint = r->fingerprint,
                            .seconds = nsi_run_elapsed(r),
                            .phase = r->phase,
                            .z = f->z,
                            .nz = f->nz,
                            .w = f->w,
                            .nw = f->nw,
                            .phases = f->result.phases.data,
                            .nphase = f->result.phases.count,
                            .history = f->result.history.data,
                            .nhistory = f->result.history.count,
                            .path = f->result.path.data,
                            .npath = f->result.path.count,
                            .npath_name = f->result.path_names.count,
                            .best = r->best,
                            .nbest = r->best ? f->nz + f->nw + r->nbest_state : 0};
}

void nsi_run_write_checkpoint(nsi_run* r, const nsi_checkpoint* c) {
    if (!r->o->checkpoint) return;
    ns_status status = nsi_checkpoint_write(r->o->checkpoint, c, &r->f->allocator, r->error);
    if (status != NS_OK) r->failure = status;
    r->saved = nsi_clock_wall();
}

static void save_stage(nsi_run* r) {
    if (!r->o->checkpoint) return;

    // The point and the stage.
    nsi_checkpoint c = nsi_run_begin_checkpoint(r);
    const nsi_stage_solver_state* state = nsi_stage_solver_get_state(r->stage_solver);
    nsi_point point = nsi_objective_point(r->e);
    c.z = point.z;
    c.w = point.w;
    c.x = point.x;
    c.nx = nsi_objective_window_count(r->e) * r->f->problem->sizes.nx;

    // How far the stage is; stochastic solvers also keep their best point.
    c.iteration = state->iteration;
    c.converged = state->converged;
    c.kept = state->best;
    c.nkept = state->best && isfinite(state->best_value) ? nsi_objective_unknowns(r->e) : 0;
    c.kept_value = state->best_value;

    // The solver's own numbers, such as moments and damping: without them a resumed run would take
    // other steps.
    c.nsolver = nsi_stage_solver_state_size(r->stage_solver);
    c.solver = nsi_alloc(&r->f->allocator, ((size_t)c.nsolver + 1) * sizeof *c.solver);
    if (!c.solver) {
        r->failure = nsi_fail_nomem(r->error);
        return;
    }

    // Write it; the previous checkpoint stays as a fallback.
    nsi_stage_solver_save(r->stage_solver, c.solver);
    nsi_run_write_checkpoint(r, &c);
    nsi_free(&r->f->allocator, c.solver);
}

// ---- watching ----------------------------------------------------------------------------------

bool nsi_run_report(nsi_run* r, uint32_t iteration, double value) {
    ns_fit* f = r->f;
    double loss = sqrt(2.0 * value);
    ns_fit_history_point point = {r->phase, iteration, nsi_run_elapsed(r), loss};
    if (!nsi_array_push(&f->allocator, &f->result.history, point)) return true;
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
    nsi_run* r = context;
    double interval = r->o->interval > 0.0 ? r->o->interval : 2.0;
    nsi_run_report(r, iteration, value);
    if (r->f->stopped || nsi_clock_wall() - r->saved >= interval) save_stage(r);
    return r->f->stopped || r->failure != NS_OK;
}

ns_status nsi_run_end_phase(nsi_run* r, const ns_solver_result* out, double seconds) {
    ns_fit_phase phase = {.name = run_keep_text(r->f, r->name),
                          .iterations = out->iterations,
                          .evaluations = out->evaluations,
                          .seconds = seconds,
                          .value = sqrt(2.0 * out->value),
                          .finish = ns_finish_text(out->finish)};
    if (!phase.name || !nsi_array_push(&r->f->allocator, &r->f->result.phases, phase)) {
        return nsi_fail_nomem(r->error);
    }
    return r->failure;
}

// ---- sparsity path -----------------------------------------------------------------------------

enum { MOST_PATH_POINTS = 200 }; // of a stage, along its iterations

static bool has_penalty(const nsi_stage* stage) {
    return nsi_optimises_weights(stage->windows.optimise) &&
           (stage->l1 > 0.0 || stage->group > 0.0);
}

// Names of the inputs of first layers and of coefficients, in the order of weights.
static ns_status name_inputs(nsi_run* r) {
    ns_fit* f = r->f;
    nsi_arena* arena = &f->result.arena;

    // With several first layers, names begin with that of the set of weights.
    uint32_t first_layers = 0;
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(f->system); k++) {
        first_layers += ns_system_weight_matrix(f->system, k).layer == 0;
    }
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(f->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(f->system, k);
        const nsi_binding* binding = f->system->binding;
        const char* const* inputs = NULL;
        if (m.layer > 0) continue;

        // Coefficients of a formula are one row; each of them is a group of its own.
        if (m.formula) m.rows = m.columns;

        // Inputs of a network have names when the blueprint knows them.
        for (uint32_t set = 0; binding && !m.formula && set < binding->nset; set++) {
            bool same = strcmp(binding->sets[set].name, m.set) == 0;
            if (!same || binding->sets[set].ninput != m.rows - m.bias) continue;
            inputs = nsi_weights_inputs(f->system, set, arena);
            if (!inputs) return nsi_fail_nomem(r->error);
        }

        // One name for each input or coefficient.
        for (uint32_t row = 0; row < m.rows - m.bias; row++) {
            nsi_text_builder text = {.allocator = f->allocator};
            if (first_layers > 1) nsi_text_add(&text, "%s: ", m.set);
            if (m.formula) {
                nsi_text_add(&text, "%s", m.formula->coefficients[row].name);
            } else if (inputs) {
                nsi_text_add(&text, "%s", inputs[row]);
            } else {
                nsi_text_add(&text, "input %u", row + 1);
            }
            // The builder's text is temporary: the arena of the result keeps the name.
            const char* name =
                text.failed ? NULL : nsi_arena_string(arena, text.text.data, text.text.count);
            nsi_array_free(&text.allocator, &text.text);
            if (!name || !nsi_array_push(&f->allocator, &f->result.path_names, name)) {
                return nsi_fail_nomem(r->error);
            }
        }
    }
    return NS_OK;
}

// Is there a path, and of what?
static ns_status begin_path(nsi_run* r) {
    const nsi_stage* first = NULL;
    r->along = true;
    for (uint32_t phase = r->searches; phase < r->nphase; phase++) {
        const nsi_stage* stage = stage_of(r, phase);
        if (!has_penalty(stage)) continue;
        if (!first) first = stage;
        if (stage->l1 != first->l1 || stage->group != first->group) r->along = false;
    }
    return first ? name_inputs(r) : NS_OK;
}

static void keep_path_point(nsi_run* r, const ns_sparsity_point* from) {
    nsi_result* a = &r->f->result;
    size_t size = a->path_names.count * sizeof *from->norms;
    double* norms = nsi_arena_alloc(&a->arena, size + 1);
    ns_sparsity_point point = *from;
    point.norms = norms;
    if (norms) memcpy(norms, from->norms, size);
    if (!norms || !nsi_array_push(&r->f->allocator, &a->path, point)) {
        r->failure = nsi_fail_nomem(r->error);
    }
}

static void watch_path(void* context, uint32_t iteration, double value, const double* norms) {
    nsi_run* r = context;
    const nsi_stage* stage = stage_of(r, r->phase);
    const nsi_result* a = &r->f->result;
    const ns_sparsity_point* last = a->path.count > 0 ? &a->path.data[a->path.count - 1] : NULL;
    if (last && last->phase == r->phase && last->iteration >= iteration) return;
    keep_path_point(r, &(ns_sparsity_point){.phase = r->phase,
                                            .iteration = iteration,
                                            .l1 = stage->l1,
                                            .group = stage->group,
                                            .loss = sqrt(2.0 * value),
                                            .norms = norms});
}

static void watch_iterations(void* context, uint32_t iteration, double value, const double* norms) {
    nsi_run* r = context;
    uint32_t stride = r->iterations / MOST_PATH_POINTS + 1;
    if (iteration == 1 || iteration % stride == 0) watch_path(context, iteration, value, norms);
}

// ---- the best point of a search ------------------------------------------------------------------

ns_status nsi_run_keep_best(nsi_run* r, const double* states, uint32_t nstate) {
    ns_fit* f = r->f;
    nsi_free(&f->allocator, r->best);
    r->best = nsi_alloc(&f->allocator, ((size_t)f->nz + f->nw + nstate + 1) * sizeof *r->best);
    if (!r->best) return nsi_fail_nomem(r->error);
    nsi_copy_numbers(r->best, f->z, f->nz);
    nsi_copy_numbers(r->best + f->nz, f->w, f->nw);
    nsi_copy_numbers(r->best + f->nz + f->nw, states, nstate);
    r->nbest_state = nstate;
    return NS_OK;
}

// Go to the best point of the search; initial states that it does not know are guessed.
static void go_to_best(nsi_run* r) {
    ns_fit* f = r->f;
    nsi_point point = nsi_objective_point(r->e);
    nsi_copy_numbers(point.z, r->best, f->nz);
    nsi_copy_numbers(point.w, r->best + f->nz, f->nw);
    nsi_objective_guess(r->e);
    uint32_t nstate = nsi_objective_window_count(r->e) * f->problem->sizes.nx;
    if (nstate != r->nbest_state) return;
    nsi_copy_numbers(nsi_objective_point(r->e).x, r->best + f->nz + f->nw, nstate);
}

// The last stage must not end above the best point of the search: stages before it may have left it, for
// windows that are not those of the last. From there it cannot go up.
static ns_status finish_at_best(nsi_run* r, ns_solver_result* out) {
    // The search knows nothing of penalties.
    if (!r->best || r->phase + 1 < r->nphase || r->f->stopped) return NS_OK;
    if (has_penalty(stage_of(r, r->phase))) return NS_OK;
    double ended = nsi_objective_cost(r->e);
    nsi_point point = nsi_objective_point(r->e);
    size_t nx = (size_t)nsi_objective_window_count(r->e) * r->f->problem->sizes.nx;
    size_t count = (size_t)r->f->nz + r->f->nw + nx;
    double* end = nsi_alloc(&r->f->allocator, (count + 1) * sizeof *end);
    if (!end) return nsi_fail_nomem(r->error);
    nsi_copy_numbers(end, point.z, r->f->nz);
    nsi_copy_numbers(end + r->f->nz, point.w, r->f->nw);
    nsi_copy_numbers(end + r->f->nz + r->f->nw, point.x, nx);

    // Compare both in the last stage's loss.
    go_to_best(r);
    bool better = nsi_objective_cost(r->e) < ended;
    ns_status status = NS_OK;
    if (better) {
        status = nsi_stage_solver_restart(r->stage_solver, r->error);
        if (status == NS_OK) *out = nsi_stage_solver_run(r->stage_solver, watch_stage, r);
        if (status == NS_OK) {
            status = note(r, "the stages ended above the best point of the search: the last one was"
                             " run again from there");
        }
    } else {
        nsi_copy_numbers(point.z, end, r->f->nz);
        nsi_copy_numbers(point.w, end + r->f->nz, r->f->nw);
        nsi_copy_numbers(point.x, end + r->f->nz + r->f->nw, nx);
        nsi_objective_cost(r->e); // its residuals are read later
    }
    nsi_free(&r->f->allocator, end);
    return status;
}

// ---- stages ------------------------------------------------------------------------------------

// The objective of a stage at the point where the fit stands, or where a checkpoint stood in it.
static ns_status begin_stage(nsi_run* r, const nsi_stage* stage) {
    ns_fit* f = r->f;
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    const nsi_problem* problem = nsi_fit_problem(f, stage);
    ns_status status =
        nsi_objective_create(problem, train, &stage->windows, NULL, f->threads, &r->e, r->error);
    if (status != NS_OK) return status;

    // A stage begins where the one before ended.
    nsi_point point = nsi_objective_point(r->e);
    nsi_copy_numbers(point.z, f->z, f->nz);
    nsi_copy_numbers(point.w, f->w, f->nw);
    if (r->best && r->nbest_state > 0 && r->phase + 1 == r->nphase) go_to_best(r);

    // The solver looks at the point, so it is made after it.
    status = nsi_stage_solver_create(problem, train, stage, r->e, f->spec->seed, f->threads,
                                     &r->stage_solver, r->error);
    if (status != NS_OK || !r->resuming) return status;

    // A checkpoint of this stage must have its sizes.
    const nsi_checkpoint* c = &r->resumed;
    nsi_stage_solver_state* state = nsi_stage_solver_get_state(r->stage_solver);
    size_t nx = (size_t)nsi_objective_window_count(r->e) * f->problem->sizes.nx;
    uint32_t nkept = state->best ? nsi_objective_unknowns(r->e) : 0;
    bool fits = c->nz == f->nz && c->nw == f->nw && c->nx == nx &&
                c->nsolver == nsi_stage_solver_state_size(r->stage_solver);
    if (!fits || (c->nkept != 0 && c->nkept != nkept)) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s does not fit the data; start again without resuming",
                        r->o->checkpoint);
    }

    // The point, the norms at the beginning of the stage, and the state of the solver.
    nsi_copy_numbers(point.z, c->z, f->nz);
    nsi_copy_numbers(point.w, c->w, f->nw);
    nsi_copy_numbers(point.x, c->x, nx);
    const ns_sparsity_point* began = NULL; // where the stage did
    for (uint32_t k = 0; stage->adaptive && k < f->result.path.count; k++) {
        if (f->result.path.data[k].phase < r->phase) began = &f->result.path.data[k];
    }
    if (began) nsi_stage_solver_set_sizes(r->stage_solver, began->norms);
    state->iteration = c->iteration;
    state->converged = c->converged;
    nsi_stage_solver_load(r->stage_solver, c->solver);

    // The best point so far of a stochastic solver, which may lie behind.
    if (c->nkept > 0) {
        nsi_copy_numbers(state->best, c->kept, c->nkept);
        state->best_value = c->kept_value;
    }

    // Later stages begin as in a run that was not interrupted.
    r->resuming = false;
    return NS_OK;
}

// A stage in rounds that was at its end when it was resumed: what it ended at, with the penalty, is
// what was told then.
static void keep_last_value(nsi_run* r, const nsi_stage* stage) {
    nsi_result* a = &r->f->result;
    const uint32_t capabilities = stage->solver->capabilities;
    if (capabilities & NS_SOLVER_STOCHASTIC) return;
    if ((capabilities & NS_SOLVER_LEAST_SQUARES) && !has_penalty(stage)) return;
    if (a->history.count == 0) return;
    const ns_fit_history_point* last = &a->history.data[a->history.count - 1];
    if (last->phase == r->phase) a->phases.data[a->phases.count - 1].value = last->value;
}

// Notes on refused steps and on a failure; an error where a stage could not even begin.
static ns_status explain_stage(nsi_run* r, const ns_solver_result* out) {
    char text[500];
    const char* link;

    // Counted by the objective since the stage began.
    uint32_t refused = nsi_objective_refused(r->e, &link);
    ns_status status = NS_OK;

    // Rejected steps hint at an inertia on the boundary of what is physical.
    if (refused > 0) {
        // Later phases may still succeed from the best point: a note, not an error.
        snprintf(text, sizeof text,
                 "%s: %u steps were refused because %.200s would not have been physical or in its"
                 " range; if a link stops there, free all ten of its inertial numbers",
                 r->name, refused, link);
        status = note(r, text);
    }
    if (status != NS_OK || out->finish != NS_FINISH_FAILED) return status;

    // It failed: at its start, or on the way.
    if (out->iterations == 0) {
        return nsi_fail(r->error, NS_ERR_NONFINITE,
                        "%s: %s: there are no finite derivatives at this start: motion grows"
                        " beyond all bounds; are angles in rad and times in s? Take shorter"
                        " windows or a smaller time step",
                        r->f->spec->path, r->name);
    }

    // On the way: there is a point from which later phases go on.
    snprintf(text, sizeof text,
             "%s failed: there were no derivatives that can be computed with, no way down or"
             " too little memory; what comes after goes on from where it stood",
             r->name);
    return note(r, text);
}

static ns_status run_stage(nsi_run* r) {
    ns_fit* f = r->f;
    const nsi_stage* stage = stage_of(r, r->phase);
    double start = nsi_clock_wall();
    char name[120];
    nsi_run_describe_phase(r, r->phase, name, sizeof name);
    r->name = name;
    r->iterations = stage->iterations;

    // Begin where there is a loss.
    ns_status status = begin_stage(r, stage);
    if (status == NS_OK && !isfinite(nsi_objective_cost(r->e))) {
        status =
            nsi_fail(r->error, NS_ERR_NONFINITE,
                     "%s: %s: the simulation does not stay finite from this start; take shorter"
                     " windows, a smaller time step, or other start values",
                     f->spec->path, name);
    }

    // Optimise; the end of a stage with a penalty is a point of the sparsity path.
    if (status == NS_OK) {
        if (has_penalty(stage) && r->along)
            nsi_stage_solver_watch_path(r->stage_solver, watch_iterations, r);
        ns_solver_result out = nsi_stage_solver_run(r->stage_solver, watch_stage, r);
        if (has_penalty(stage)) {
            nsi_stage_solver_watch_path(r->stage_solver, watch_path, r);
            nsi_stage_solver_tell_path(r->stage_solver);
        }

        status = finish_at_best(r, &out);

        // Take over where it ended, whatever ended it.
        nsi_point point = nsi_objective_point(r->e);
        nsi_copy_numbers(f->z, point.z, f->nz);
        nsi_copy_numbers(f->w, point.w, f->nw);
        out.iterations =
            nsi_stage_solver_get_state(r->stage_solver)->iteration; // before resuming, too
        if (status == NS_OK) status = nsi_run_end_phase(r, &out, nsi_clock_wall() - start);
        if (status == NS_OK && out.evaluations == 0) keep_last_value(r, stage);
        if (status == NS_OK) status = explain_stage(r, &out);
    }

    // Only the objective of the last stage is needed afterwards.
    nsi_stage_solver_free(r->stage_solver);
    r->stage_solver = NULL;
    if (r->phase + 1 < r->nphase || status != NS_OK) {
        nsi_objective_free(r->e);
        r->e = NULL;
    }
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------

static void hash(nsi_run* r, const void* bytes, size_t size) {
    r->fingerprint = nsi_hash64(r->fingerprint, bytes, size);
}

// Of the spec, of the numbers of the model and of the networks, and of the data and its scales.
static ns_status hash_experiment(nsi_run* r) {
    ns_fit* f = r->f;
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    nsi_text_builder text = {.allocator = f->allocator};
    ns_text spec = {0};

    // The spec: the file itself, or what a program chose in its place.
    if (!f->by_calls) nsi_yaml_add_node(&text, f->spec->yaml.root); // with all that it extends
    for (uint32_t k = 0; k < f->spec->stages.count && f->by_calls; k++) {
        const nsi_stage* stage = &f->spec->stages.data[k];
        nsi_text_add(&text, "%s %u %u\n", stage->solver->name, stage->windows.length,
                     stage->iterations);
    }
    ns_status status = nsi_text_finish(&text, &spec, r->error);
    if (status != NS_OK) return status;

    // Sizes and initial values.
    uint32_t sizes[] = {f->nz, f->nw, f->problem->sizes.nx, f->problem->nchannel};
    r->fingerprint = NSI_HASH_START;
    hash(r, spec.data, spec.size);
    ns_text_free(&spec);
    hash(r, sizes, sizeof sizes);
    hash(r, f->z0, ((size_t)f->nz + f->nw) * sizeof(double));

    // Model parameters, also those that are not fitted.
    for (uint32_t m = 0; m < f->nvariant; m++) {
        const ns_model* model = f->variants[m].model;
        for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
            hash(r, &ns_model_param(model, k)->value, sizeof(double));
        }
    }

    for (uint32_t k = 0; k < f->problem->nchannel; k++) { // sigmas and weights of the map
        hash(r, &f->problem->sources[k].scale, sizeof(double));
    }

    // Time step and training data, sample by sample.
    hash(r, &f->timestep, sizeof f->timestep);
    for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
        const ns_recording* recording = ns_dataset_recording(train, k);
        size_t one = recording->nsample * sizeof(double);
        hash(r, &recording->nsample, sizeof recording->nsample);
        hash(r, recording->values, one * f->problem->nchannel);
        hash(r, recording->controls, one * f->problem->ncontrol);
    }
    return NS_OK;
}

static ns_status take_up(nsi_run* r) {
    ns_fit* f = r->f;
    bool damaged;

    // Without a checkpoint to go on from, the fit begins anew.
    if (!r->o->resume || !r->o->checkpoint) return NS_OK;
    ns_error why;
    ns_status status = nsi_checkpoint_read(r->o->checkpoint, r->fingerprint, &f->allocator,
                                           &r->resumed, &damaged, &why);
    if (status == NS_ERR_IO) return NS_OK; // nothing to go on from: from the beginning
    if (status != NS_OK) return nsi_fail(r->error, status, "%s", why.message);

    // It must be one of this experiment.
    const nsi_checkpoint* c = &r->resumed;
    if (c->phase >= r->nphase || c->nphase != c->phase) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s is of a phase that the experiment does not have; start"
                        " again without resuming",
                        r->o->checkpoint);
    }
    if (f->result.path_names.count > 0 &&
        (!c->has_path || (c->npath > 0 && c->npath_name != f->result.path_names.count))) {
        return nsi_fail(r->error, NS_ERR_PARSE,
                        "the checkpoint %s does not have the sparsity path of this fit: an earlier"
                        " version wrote it; start again without resuming",
                        r->o->checkpoint);
    }

    // Phases that are done, the history and the path so far.
    r->resuming = true;
    r->earlier = c->seconds;
    r->phase = c->phase;

    // The result says where the lost iterations went.
    if (damaged) {
        status = note(r, "the last checkpoint was damaged; went on from the one before it");
        if (status != NS_OK) return status;
    }
    for (uint32_t k = 0; k < c->nphase; k++) {
        ns_fit_phase phase = c->phases[k];
        char name[120];
        nsi_run_describe_phase(r, k, name, sizeof name);
        phase.name = run_keep_text(f, name);
        phase.finish = "done";
        if (!phase.name || !nsi_array_push(&f->allocator, &f->result.phases, phase)) {
            return nsi_fail_nomem(r->error);
        }
    }
    for (uint32_t k = 0; k < c->nhistory; k++) {
        if (!nsi_array_push(&f->allocator, &f->result.history, c->history[k])) {
            return nsi_fail_nomem(r->error);
        }
    }
    for (uint32_t k = 0; k < c->npath && f->result.path_names.count > 0; k++) {
        keep_path_point(r, &c->path[k]);
    }
    if (r->failure != NS_OK) return r->failure;

    // Where the search ended.
    if (c->nbest >= f->nz + f->nw && c->nbest > 0) {
        nsi_copy_numbers(f->z, c->best, f->nz);
        nsi_copy_numbers(f->w, c->best + f->nz, f->nw);
        status = nsi_run_keep_best(r, c->best + f->nz + f->nw, c->nbest - f->nz - f->nw);
        if (status != NS_OK) return status;
    }

    // Where the phase began.
    if (c->nz == f->nz) nsi_copy_numbers(f->z, c->z, f->nz);
    if (c->nw == f->nw) nsi_copy_numbers(f->w, c->w, f->nw);
    return NS_OK;
}

static ns_status run_phases(nsi_run* r) {
    for (; r->phase < r->nphase && !r->f->stopped; r->phase++) {
        ns_status status = r->searches && r->phase == 0 ? nsi_run_search(r) : run_stage(r);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

ns_status ns_fit_run(ns_fit* f, const ns_fit_options* options, ns_error* error) {
    static const ns_fit_options defaults = {0};
    if (!f) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_fit_run: fit is NULL");
    nsi_run r = {.f = f,
                 .o = options ? options : &defaults,
                 .error = error,
                 .began = nsi_clock_wall(),
                 .saved = nsi_clock_wall()};

    // Forget an earlier result: every run starts from the initial values.
    nsi_result_free(&f->result);
    f->has_result = f->stopped = false;
    nsi_copy_numbers(f->z, f->z0, f->nz + f->nw);

    // A matching checkpoint continues where it stopped; other phases run in order.
    list_phases(&r);
    ns_status status = hash_experiment(&r);
    if (status == NS_OK) status = begin_path(&r);
    if (status == NS_OK) status = take_up(&r);
    if (status == NS_OK) status = run_phases(&r);

    // The result needs the objective of the last stage for covariances.
    f->result.complete = status == NS_OK && !f->stopped;

    // Time again, now with the analysis of the result.
    f->result.seconds = nsi_run_elapsed(&r);
    if (status == NS_OK) status = nsi_fit_get_result(f, r.e, error);
    if (status == NS_OK && f->result.complete) status = nsi_run_sample_posterior(&r);
    f->result.seconds = nsi_run_elapsed(&r);
    f->has_result = status == NS_OK;
    f->view = nsi_result_view(&f->result);

    // The result keeps nothing of the run.
    nsi_stage_solver_free(r.stage_solver);
    nsi_objective_free(r.e);
    nsi_checkpoint_free(&r.resumed);
    nsi_free(&f->allocator, r.best);
    nsi_array_free(&f->allocator, &r.minima);
    return status;
}

bool ns_fit_stopped(const ns_fit* f) {
    return f->stopped;
}
