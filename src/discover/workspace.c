// The workspace: one system with all terms of the library, and the recordings cut into windows.
// Each fold has an objective of its own, so that its normal equations are known separately.

#include "discover/discover_state.h"

#include <math.h>
#include <stdio.h>

static double* workspace_numbers(const nsi_workspace* ws, size_t count) {
    return nsi_alloc_zeroed(&ws->allocator, (count + 1) * sizeof(double));
}

// ---- system ------------------------------------------------------------------------------------

ns_status nsi_workspace_system(const nsi_workspace* ws, const ns_system_options* options,
                               const ns_blueprint* blueprint, ns_system** system,
                               nsi_problem** problem, ns_error* error) {
    ns_fit* f = ws->fit;
    // The search handles one variant of the robot.
    const ns_model* model = f->variants[0].model;
    const ns_dataset* train = f->data[NS_ROLE_TRAIN];
    ns_system_options own = *options;

    // Recorded quantities that are no state become observations of the system.
    const char** observe =
        nsi_alloc(&ws->allocator, ((size_t)ns_dataset_channel_count(train) + 1) * sizeof *observe);
    if (!observe) return nsi_fail_nomem(error);
    uint32_t nobserve = 0;
    ns_error inner;
    ns_status status = nsi_problem_observations(model, train, observe, &nobserve, &inner);

    // All variables of the library are free parameters, and all formulas are in the blueprint.
    if (status == NS_OK) {
        own.observe = observe;
        own.nobserve = nobserve;
        own.blueprint = blueprint;
        own.free_params = nsi_parameters_param_names(ws->library->variables, 0);
        own.nfree = nsi_parameters_param_count(ws->library->variables, 0);
        status = ns_system_create(model, &own, system, &inner);
    }

    // Connect the system to the recorded channels.
    if (status == NS_OK) {
        status = nsi_problem_create(model, *system, ws->library->variables, train, &ws->allocator,
                                    problem, &inner);
    }

    nsi_free(&ws->allocator, observe);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    return nsi_fail(error, status, "%.200s: %s", f->spec->path, inner.message);
}

ns_status nsi_discover_base_weights(const ns_fit* f, const ns_system* system, double* out,
                                    ns_error* error) {
    if (!nsi_discover_base(f)) return NS_OK;
    ns_system* base = NULL;
    ns_status status = ns_system_create(f->variants[0].model, &f->options, &base, error);
    if (status != NS_OK) return status;
    size_t nw = ns_system_get_sizes(base).nw;
    double* w = nsi_alloc_zeroed(&f->allocator, (nw + 1) * sizeof *w);
    if (w) ns_system_default_weights(base, w);
    for (uint32_t i = 0; w && i < ns_system_weight_matrix_count(base); i++) {
        ns_weight_matrix from = ns_system_weight_matrix(base, i);
        for (uint32_t k = 0; k < ns_system_weight_matrix_count(system); k++) {
            ns_weight_matrix to = ns_system_weight_matrix(system, k);
            if (to.layer != from.layer || strcmp(to.set, from.set) != 0) continue;
            memcpy(out + to.offset, w + from.offset, (size_t)from.rows * from.columns * sizeof *w);
        }
    }
    nsi_free(&f->allocator, w);
    ns_system_free(base);
    return w ? NS_OK : nsi_fail_nomem(error);
}

nsi_state_spread nsi_workspace_spread(const nsi_workspace* ws, uint32_t component, double* x) {
    const ns_dataset* train = ws->fit->data[NS_ROLE_TRAIN];
    nsi_state_spread spread = {0};
    for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
        const ns_recording* r = ns_dataset_recording(train, k);
        uint32_t stride = r->nsample / nsi_thresholds.windows.speed_samples + 1;
        for (uint32_t i = 0; i < r->nsample; i += stride, spread.count++) {
            nsi_problem_guess(ws->problem, r, i, nsi_thresholds.windows.smoothing, x);
            spread.sum += x[component];
            spread.squares += x[component] * x[component];
        }
    }
    return spread;
}

// RMS speed of the joint that carries a link, in the recordings.
static double rms_speed(const nsi_workspace* ws, uint32_t link, double* x) {
    uint32_t v = ns_model_joint_v(ws->problem->model, link);
    nsi_state_spread spread = nsi_workspace_spread(ws, ws->problem->nq + v, x);
    return spread.squares > 0.0 ? sqrt(spread.squares / spread.count) : 1.0;
}

static ns_status start_shapes(nsi_workspace* ws, nsi_term_library* library, ns_error* error) {
    double* x = workspace_numbers(ws, ws->nx);
    if (!x) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < library->terms.count; k++) {
        nsi_term* t = &library->terms.data[k];
        if (t->kind != NSI_TERM_SHAPE) continue;
        const nsi_atom* atom = &library->atoms.data[t->parts[0].atom];
        t->start = atom->speed_share * rms_speed(ws, atom->speed_link, x);
        ws->w0[atom->shape_column - library->nz] = t->start;
    }
    nsi_free(&ws->allocator, x);
    return NS_OK;
}

ns_status nsi_workspace_make(ns_fit* f, nsi_term_library* library, nsi_workspace* ws,
                             ns_error* error) {
    *ws = (nsi_workspace){.fit = f, .library = library, .allocator = f->allocator};

    // Compile the system, and locate the columns of the terms in it.
    ns_status status =
        nsi_workspace_system(ws, &f->options, library->blueprint, &ws->system, &ws->problem, error);
    if (status == NS_OK) status = nsi_term_library_bind(library, ws->system, error);
    // The library is useless without its columns.
    if (status != NS_OK) {
        nsi_workspace_free(ws);
        return status;
    }

    // Allocate all memory that refits and normal equations need.
    size_t n = library->ncolumn, terms = library->terms.count, nz = library->nz;
    ws->nx = ws->problem->sizes.nx;
    ws->nt = ws->problem->ntangent;
    // Per term: values, and the equations of a refit.
    ws->values = workspace_numbers(ws, terms);
    ws->old = workspace_numbers(ws, terms);
    ws->rhs = workspace_numbers(ws, terms);
    ws->held = workspace_numbers(ws, terms);
    ws->A = workspace_numbers(ws, terms * terms);
    // Per column: start values, normal equations and step.
    ws->z0 = workspace_numbers(ws, 2 * nz); // and the same as natural numbers
    ws->w0 = workspace_numbers(ws, n - nz);
    ws->S = workspace_numbers(ws, n * n);
    ws->b = workspace_numbers(ws, n);
    ws->step = workspace_numbers(ws, n);
    // Columns of the active terms, and where they are in the equations.
    ws->chosen = nsi_alloc_zeroed(&ws->allocator, (n + 1) * sizeof *ws->chosen);
    ws->at = nsi_alloc_zeroed(&ws->allocator, (n + 1) * sizeof *ws->at);
    bool ok = ws->chosen && ws->at && ws->values && ws->old && ws->rhs && ws->held && ws->A &&
              ws->z0 && ws->w0 && ws->S && ws->b && ws->step;

    // Start values: parameters of the model, weights of its blueprint, scales of the formulas.
    status = ok ? NS_OK : nsi_fail_nomem(error);
    if (ok) {
        nsi_parameters_initial(library->variables, ws->z0 + nz);
        // The search works in transformed variables.
        nsi_parameters_to_z(library->variables, ws->z0 + nz, ws->z0);
        ns_system_default_weights(ws->system, ws->w0);
        // Networks of the model keep their trained weights.
        status = nsi_discover_base_weights(f, ws->system, ws->w0, error);
        if (status == NS_OK) status = start_shapes(ws, library, error);
    }
    if (status != NS_OK) nsi_workspace_free(ws);
    return status;
}

static void free_folds(nsi_workspace* ws) {
    for (uint32_t k = 0; k < ws->nfold; k++) nsi_objective_free(ws->folds[k]);
    ws->nfold = 0;
}

void nsi_workspace_free(nsi_workspace* ws) {
    free_folds(ws);
    nsi_problem_free(ws->problem);
    ns_system_free(ws->system);
    nsi_free(&ws->allocator, ws->chosen);
    nsi_free(&ws->allocator, ws->at);
    double* blocks[] = {ws->values, ws->old, ws->rhs, ws->held, ws->A,
                        ws->z0,     ws->w0,  ws->S,   ws->b,    ws->step};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&ws->allocator, blocks[k]);
    *ws = (nsi_workspace){.allocator = ws->allocator};
}

// ---- windows -----------------------------------------------------------------------------------

uint32_t nsi_workspace_half_period(const nsi_workspace* ws) {
    return nsi_windows_half_period(ws->problem, ws->fit->data[NS_ROLE_TRAIN]);
}

void nsi_workspace_variables(const nsi_workspace* ws, const double* values, double* z) {
    const nsi_term_library* library = ws->library;
    memcpy(z, ws->z0, library->nz * sizeof *z);
    for (uint32_t k = 0; k < library->terms.count; k++) {
        const nsi_term* t = &library->terms.data[k];
        if (t->parts[0].atom == NSI_NONE) z[t->parts[0].column] += values[k];
    }
}

// Move all objectives to these values of the terms.
static void set_term_values(nsi_workspace* ws, const double* values) {
    const nsi_term_library* library = ws->library;
    memset(ws->step, 0, library->ncolumn * sizeof *ws->step);
    for (uint32_t k = 0; k < library->terms.count; k++) {
        const nsi_term* t = &library->terms.data[k];
        if (values[k] == 0.0) continue;
        for (uint32_t i = 0; i < t->npart; i++)
            ws->step[t->parts[i].column] += t->parts[i].sign * values[k];
    }
    for (uint32_t f = 0; f < ws->nfold; f++) {
        nsi_point p = nsi_objective_point(ws->folds[f]);
        for (uint32_t k = 0; k < library->nz; k++) p.z[k] = ws->z0[k] + ws->step[k];
        for (uint32_t k = library->nz; k < library->ncolumn; k++) {
            p.w[k - library->nz] = ws->w0[k - library->nz] + ws->step[k];
        }
    }
}

uint32_t nsi_workspace_longest(const ns_dataset* data) {
    uint32_t longest = 0;
    for (uint32_t k = 0; k < ns_dataset_recording_count(data); k++) {
        uint32_t n = ns_dataset_recording(data, k)->nsample;
        if (n > longest) longest = n;
    }
    return longest;
}

ns_window_options nsi_workspace_windows(const nsi_workspace* ws, uint32_t length) {
    uint32_t given = ws->fit->spec->stages.data[0].windows.smoothing;
    return (ns_window_options){.length = length,
                               .smoothing = given > 0 ? given : nsi_thresholds.windows.smoothing};
}

uint32_t nsi_workspace_max_windows(const nsi_problem* problem, uint32_t length) {
    return nsi_thresholds.windows.max_residuals / ((length + 1) * problem->nchannel) + 1;
}

// The fold of a window: that of its recording, or a stretch of windows where there are few
// recordings.
static uint32_t fold_of_window(const nsi_windows* all, uint32_t window, uint32_t recordings,
                               uint32_t nfold) {
    if (recordings >= nsi_thresholds.windows.min_fold_recordings) {
        return all->data[window].recording % nfold;
    }
    return (uint32_t)((uint64_t)window * nfold / all->count);
}

ns_status nsi_workspace_cut(nsi_workspace* ws, uint32_t length, ns_error* error) {
    // Folds of another window length are of no use.
    const ns_dataset* train = ws->fit->data[NS_ROLE_TRAIN];
    nsi_windows all = {0}, part = {0};
    free_folds(ws);
    ws->length = length;

    // Cut the recordings into windows.
    ns_status status =
        nsi_windows_make(ws->problem, train, length, nsi_workspace_max_windows(ws->problem, length),
                         false, &all, error);
    if (status != NS_OK) {
        nsi_array_free(&ws->allocator, &all);
        return status;
    }

    // Folds are recordings, because windows of one recording are correlated; with few recordings,
    // folds are contiguous stretches of windows.
    uint32_t recordings = ns_dataset_recording_count(train), wanted = recordings;
    if (recordings < nsi_thresholds.windows.min_fold_recordings) wanted = all.count;
    if (wanted > NSI_FOLDS) wanted = NSI_FOLDS;

    // Create one objective per fold.
    ns_window_options loss = nsi_workspace_windows(ws, length);
    for (uint32_t f = 0; f < wanted && status == NS_OK; f++) {
        part.count = 0;
        for (uint32_t k = 0; k < all.count && status == NS_OK; k++) {
            if (fold_of_window(&all, k, recordings, wanted) != f) continue;
            if (!nsi_array_push(&ws->allocator, &part, all.data[k])) status = nsi_fail_nomem(error);
        }
        // A fold may be empty if recordings are shorter than the window.
        if (part.count == 0 || status != NS_OK) continue;
        status = nsi_objective_create(ws->problem, train, &loss, &part, ws->fit->threads,
                                      &ws->folds[ws->nfold], error);
        if (status == NS_OK) ws->nfold++;
    }

    nsi_array_free(&ws->allocator, &all);
    nsi_array_free(&ws->allocator, &part);
    // New objectives start at the current values of the terms.
    if (status == NS_OK) set_term_values(ws, ws->values);
    return status;
}

// ---- the current point -------------------------------------------------------------------------

static size_t fold_states(const nsi_workspace* ws, uint32_t fold) {
    return (size_t)nsi_objective_window_count(ws->folds[fold]) * ws->nx;
}

double* nsi_workspace_save(const nsi_workspace* ws) {
    size_t terms = ws->library->terms.count, count = terms;
    for (uint32_t f = 0; f < ws->nfold; f++) count += fold_states(ws, f);
    double* saved = workspace_numbers(ws, count);
    if (!saved) return NULL;
    memcpy(saved, ws->values, terms * sizeof *saved);
    count = terms;
    for (uint32_t f = 0; f < ws->nfold; f++) {
        memcpy(saved + count, nsi_objective_point(ws->folds[f]).x,
               fold_states(ws, f) * sizeof *saved);
        count += fold_states(ws, f);
    }
    return saved;
}

void nsi_workspace_restore(nsi_workspace* ws, const double* saved) {
    size_t at = ws->library->terms.count;
    memcpy(ws->values, saved, at * sizeof *saved);
    for (uint32_t f = 0; f < ws->nfold; f++) {
        memcpy(nsi_objective_point(ws->folds[f]).x, saved + at, fold_states(ws, f) * sizeof *saved);
        at += fold_states(ws, f);
    }
    set_term_values(ws, ws->values);
}

double nsi_workspace_cost(nsi_workspace* ws) {
    double sum = 0.0;
    for (uint32_t f = 0; f < ws->nfold; f++) sum += 2.0 * nsi_objective_cost(ws->folds[f]);
    return sum;
}

// ---- progress ----------------------------------------------------------------------------------

bool nsi_discover_poll(nsi_discover_progress* progress) {
    if (!progress->stopped && progress->observe) {
        progress->stopped = progress->observe(progress->context, progress->activity,
                                              nsi_clock_wall() - progress->began);
    }
    return progress->stopped;
}

bool nsi_discover_poll_lm(void* context, const ns_solver_progress* unused) {
    (void)unused;
    return nsi_discover_poll(context);
}

bool nsi_discover_report_activity(ns_discovery* d, const char* activity) {
    snprintf(d->progress->activity, sizeof d->progress->activity, "%s", activity);
    return nsi_discover_poll(d->progress);
}
