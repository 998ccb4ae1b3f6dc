// The bench: one system with all terms of the dictionary, recordings cut into windows, and refits of chosen
// terms. Folds have an evaluator each, so that their normal equations are known apart.

#include "discover/discover_state.h"

#include "sysid/gauss_newton.h"

#include <math.h>
#include <stdio.h>

enum {
    MOST_ROWS = 40000
}; // residuals in all, about: more tell no more about what kind of thing is missing

static double* numbers(const nsi_workspace* b, size_t count) {
    return nsi_alloc_zeroed(&b->allocator, (count + 1) * sizeof(double));
}

// ---- system ------------------------------------------------------------------------------------

ns_status nsi_workspace_system(const nsi_workspace* b, const ns_system_options* options,
                               const ns_blueprint* blueprint, ns_system** system,
                               nsi_problem** problem, ns_error* error) {
    ns_fit* f = b->fit;
    const ns_model* model = ns_hybrid_model(f->hybrid);
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    ns_system_options own = *options;
    const char** observe =
        nsi_alloc(&b->allocator, ((size_t)ns_dataset_channel_count(train) + 1) * sizeof *observe);
    if (!observe) return nsi_fail_nomem(error);
    uint32_t nobserve = 0;
    ns_error inner;
    ns_status status = nsi_problem_observations(model, train, observe, &nobserve, &inner);
    if (status == NS_OK) {
        own.observe = observe;
        own.nobserve = nobserve;
        own.blueprint = blueprint;
        own.free_params = nsi_parameters_param_names(b->dictionary->variables, 0);
        own.nfree = nsi_parameters_param_count(b->dictionary->variables, 0);
        status = ns_system_create(model, &own, system, &inner);
    }
    if (status == NS_OK) {
        status = nsi_problem_create(model, *system, b->dictionary->variables, train, &b->allocator,
                                    problem, &inner);
    }
    nsi_free(&b->allocator, observe);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    return nsi_fail(error, status, "%.200s: %s", f->plan->path, inner.message);
}

ns_status nsi_discover_base_weights(const ns_fit* f, const ns_system* system, double* out,
                                    ns_error* error) {
    if (!nsi_discover_base(f)) return NS_OK;
    ns_system* base = NULL;
    ns_status status = ns_system_create(ns_hybrid_model(f->hybrid), &f->options, &base, error);
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

// Size of the velocity of a joint in the recordings, from the states that are guessed there.
static double speed_of(const nsi_workspace* b, const char* quoted, double* x) {
    const ns_dataset* train = b->fit->data[NSI_ROLE_TRAIN];
    const ns_model* model = b->problem->model;
    char name[200];
    snprintf(name, sizeof name, "%.190s", quoted + sizeof "\"joint/" - 1);
    char* end = strstr(name, "/velocity\"");
    if (end) *end = '\0';
    uint32_t v = ns_model_joint_v(model, ns_model_find_joint(model, name)), count = 0;
    double sum = 0.0;
    for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
        const ns_recording* r = ns_dataset_recording(train, k);
        for (uint32_t i = 0; i < r->nsample; i += r->nsample / 50 + 1, count++) {
            nsi_problem_guess(b->problem, r, i, 5, x);
            double speed = fabs(x[b->problem->nq + v]);
            sum += speed * speed;
        }
    }
    return sum > 0.0 ? sqrt(sum / count) : 1.0;
}

static ns_status start_shapes(nsi_workspace* b, nsi_dictionary* d, ns_error* error) {
    double* x = numbers(b, b->nx);
    if (!x) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < d->terms.count; k++) {
        nsi_term* t = &d->terms.data[k];
        if (t->kind != NSI_TERM_SHAPE) continue;
        const nsi_atom* atom = &d->atoms.data[t->parts[0].atom];
        t->start = atom->share * speed_of(b, atom->speed, x);
        b->w0[atom->shape - d->nz] = t->start;
    }
    nsi_free(&b->allocator, x);
    return NS_OK;
}

ns_status nsi_workspace_make(ns_fit* f, nsi_dictionary* d, nsi_workspace* b, ns_error* error) {
    *b = (nsi_workspace){.fit = f, .dictionary = d, .allocator = f->allocator};
    ns_status status =
        nsi_workspace_system(b, &f->options, d->blueprint, &b->system, &b->problem, error);
    if (status == NS_OK) status = nsi_dictionary_bind(d, b->system, error);
    if (status != NS_OK) {
        nsi_workspace_free(b);
        return status;
    }
    size_t n = d->ncolumn, terms = d->terms.count, nz = d->nz;
    b->nx = b->problem->sizes.nx;
    b->nt = b->problem->ntangent;
    b->values = numbers(b, terms);
    b->old = numbers(b, terms);
    b->rhs = numbers(b, terms);
    b->moves = numbers(b, terms);
    b->A = numbers(b, terms * terms);
    b->z0 = numbers(b, 2 * nz); // and the same as natural numbers
    b->w0 = numbers(b, n - nz);
    b->S = numbers(b, n * n);
    b->b = numbers(b, n);
    b->step = numbers(b, n);
    b->chosen = nsi_alloc_zeroed(&b->allocator, (n + 1) * sizeof *b->chosen);
    b->at = nsi_alloc_zeroed(&b->allocator, (n + 1) * sizeof *b->at);
    bool ok = b->chosen && b->at && b->values && b->old && b->rhs && b->moves && b->A && b->z0 &&
              b->w0 && b->S && b->b && b->step;
    status = ok ? NS_OK : nsi_fail_nomem(error);
    if (ok) {
        nsi_parameters_initial(d->variables, b->z0 + nz);
        nsi_parameters_to_z(d->variables, b->z0 + nz, b->z0);
        ns_system_default_weights(b->system, b->w0);
        status = nsi_discover_base_weights(f, b->system, b->w0, error);
        if (status == NS_OK) status = start_shapes(b, d, error);
    }
    if (status != NS_OK) nsi_workspace_free(b);
    return status;
}

static void free_folds(nsi_workspace* b) {
    for (uint32_t k = 0; k < b->nfold; k++) nsi_objective_free(b->folds[k]);
    b->nfold = 0;
}

void nsi_workspace_free(nsi_workspace* b) {
    free_folds(b);
    nsi_problem_free(b->problem);
    ns_system_free(b->system);
    nsi_free(&b->allocator, b->chosen);
    nsi_free(&b->allocator, b->at);
    double* blocks[] = {b->values, b->old, b->rhs, b->moves, b->A,
                        b->z0,     b->w0,  b->S,   b->b,     b->step};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&b->allocator, blocks[k]);
    *b = (nsi_workspace){.allocator = b->allocator};
}

// ---- windows -----------------------------------------------------------------------------------

uint32_t nsi_workspace_pace(const nsi_workspace* b) {
    const ns_dataset* train = b->fit->data[NSI_ROLE_TRAIN];
    double period = ns_dataset_period(train), far = 0.0, fast = 0.0;
    // Squares of deviations and of changes, each channel in units of its spread.
    for (uint32_t c = 0; c < b->problem->nchannel; c++) {
        const nsi_source* s = &b->problem->sources[c];
        if (!s->state || s->number >= b->problem->nq) continue;
        for (uint32_t k = 0; k < ns_dataset_recording_count(train); k++) {
            const ns_recording* r = ns_dataset_recording(train, k);
            double mean = 0.0;
            uint32_t count = 0;
            for (uint32_t i = 0; i < r->nsample; i++) {
                double v = r->values[(size_t)i * b->problem->nchannel + c];
                if (isfinite(v)) mean += v, count++;
            }
            mean /= count > 0 ? count : 1;
            // Changes over several samples, which noise does not hide.
            enum { APART = 5 };
            for (uint32_t i = APART; i < r->nsample; i++) {
                double v = r->values[(size_t)i * b->problem->nchannel + c];
                double w = r->values[(size_t)(i - APART) * b->problem->nchannel + c];
                if (!isfinite(v) || !isfinite(w)) continue;
                far += (v - mean) * (v - mean) * s->scale * s->scale;
                fast += (v - w) * (v - w) * s->scale * s->scale / (APART * APART);
            }
        }
    }
    double samples = fast > 0.0 && far > 0.0 ? sqrt(far / fast) : 0.25 / period;
    return samples < 5.0 ? 5 : samples > 2000.0 ? 2000 : (uint32_t)samples;
}

// z with these values of terms.
void nsi_workspace_variables(const nsi_workspace* b, const double* values, double* z) {
    const nsi_dictionary* d = b->dictionary;
    memcpy(z, b->z0, d->nz * sizeof *z);
    for (uint32_t k = 0; k < d->terms.count; k++) {
        const nsi_term* t = &d->terms.data[k];
        if (t->parts[0].atom == NSI_NONE) z[t->parts[0].column] += values[k];
    }
}

// Put evaluators to the terms' values.
static void place(nsi_workspace* b, const double* values) {
    const nsi_dictionary* d = b->dictionary;
    memset(b->step, 0, d->ncolumn * sizeof *b->step);
    for (uint32_t k = 0; k < d->terms.count; k++) {
        const nsi_term* t = &d->terms.data[k];
        if (values[k] == 0.0) continue;
        for (uint32_t i = 0; i < t->npart; i++)
            b->step[t->parts[i].column] += t->parts[i].sign * values[k];
    }
    for (uint32_t f = 0; f < b->nfold; f++) {
        nsi_point p = nsi_objective_point(b->folds[f]);
        for (uint32_t k = 0; k < d->nz; k++) p.z[k] = b->z0[k] + b->step[k];
        for (uint32_t k = d->nz; k < d->ncolumn; k++) {
            p.w[k - d->nz] = b->w0[k - d->nz] + b->step[k];
        }
    }
}

static ns_window_options loss_of(const nsi_workspace* b, uint32_t length) {
    ns_window_options loss = b->fit->plan->stages.data[0].windows;
    return (ns_window_options){.length = length,
                               .smoothing = loss.smoothing > 0 ? loss.smoothing : 5};
}

// All windows of the training data, thinned out where there are very many.
static ns_status list_windows(const nsi_workspace* b, uint32_t length, nsi_windows* out,
                              ns_error* error) {
    uint32_t rows = (length + 1) * b->problem->nchannel, most = MOST_ROWS / rows + 1;
    return nsi_windows_make(b->problem, b->fit->data[NSI_ROLE_TRAIN], length, most, false, out,
                            error);
}

ns_status nsi_workspace_cut(nsi_workspace* b, uint32_t length, ns_error* error) {
    const ns_dataset* train = b->fit->data[NSI_ROLE_TRAIN];
    nsi_windows all = {0}, part = {0};
    free_folds(b);
    b->length = length;
    ns_status status = list_windows(b, length, &all, error);
    if (status != NS_OK) {
        nsi_array_free(&b->allocator, &all);
        return status;
    }
    // Recordings are folds when there are at least three: their windows are alike. Otherwise stretches.
    uint32_t recordings = ns_dataset_recording_count(train), wanted = recordings;
    if (recordings < 3) wanted = all.count < NSI_FOLDS ? all.count : NSI_FOLDS;
    if (wanted > NSI_FOLDS) wanted = NSI_FOLDS;
    ns_window_options loss = loss_of(b, length);
    for (uint32_t f = 0; f < wanted && status == NS_OK; f++) {
        part.count = 0;
        for (uint32_t k = 0; k < all.count && status == NS_OK; k++) {
            uint32_t its = recordings < 3 ? (uint32_t)((uint64_t)k * wanted / all.count)
                                          : all.data[k].recording % wanted;
            if (its != f) continue;
            if (!nsi_array_push(&b->allocator, &part, all.data[k])) status = nsi_fail_nomem(error);
        }
        if (part.count == 0 || status != NS_OK) continue;
        status = nsi_objective_create(b->problem, train, &loss, &part, b->fit->threads,
                                      &b->folds[b->nfold], error);
        if (status == NS_OK) b->nfold++;
    }
    nsi_array_free(&b->allocator, &all);
    nsi_array_free(&b->allocator, &part);
    if (status == NS_OK) place(b, b->values);
    return status;
}

// ---- where it stands ---------------------------------------------------------------------------

static size_t states_of(const nsi_workspace* b, uint32_t fold) {
    return (size_t)nsi_objective_window_count(b->folds[fold]) * b->nx;
}

double* nsi_workspace_save(const nsi_workspace* b) {
    size_t terms = b->dictionary->terms.count, count = terms;
    for (uint32_t f = 0; f < b->nfold; f++) count += states_of(b, f);
    double* saved = numbers(b, count);
    if (!saved) return NULL;
    memcpy(saved, b->values, terms * sizeof *saved);
    count = terms;
    for (uint32_t f = 0; f < b->nfold; f++) {
        memcpy(saved + count, nsi_objective_point(b->folds[f]).x, states_of(b, f) * sizeof *saved);
        count += states_of(b, f);
    }
    return saved;
}

void nsi_workspace_restore(nsi_workspace* b, const double* saved) {
    size_t at = b->dictionary->terms.count;
    memcpy(b->values, saved, at * sizeof *saved);
    for (uint32_t f = 0; f < b->nfold; f++) {
        memcpy(nsi_objective_point(b->folds[f]).x, saved + at, states_of(b, f) * sizeof *saved);
        at += states_of(b, f);
    }
    place(b, b->values);
}

double nsi_workspace_value(nsi_workspace* b) {
    double sum = 0.0;
    for (uint32_t f = 0; f < b->nfold; f++) sum += 2.0 * nsi_objective_cost(b->folds[f]);
    return sum;
}

// ---- refits ------------------------------------------------------------------------------------

// Columns of the active terms, for the evaluators, and the place of each among them.
static void choose(nsi_workspace* b, const uint32_t* active, uint32_t n) {
    const nsi_dictionary* d = b->dictionary;
    b->nchosen = 0;
    for (uint32_t k = 0; k < d->ncolumn; k++) b->at[k] = NSI_NONE;
    for (uint32_t i = 0; i < n; i++) {
        const nsi_term* t = &d->terms.data[active[i]];
        for (uint32_t p = 0; p < t->npart; p++) {
            uint32_t column = t->parts[p].column;
            if (b->at[column] != NSI_NONE) continue;
            b->at[column] = b->nchosen;
            b->chosen[b->nchosen++] = column;
        }
    }
    for (uint32_t f = 0; f < b->nfold; f++)
        nsi_objective_set_active(b->folds[f], b->chosen, b->nchosen);
}

// Sum of the folds' reduced equations for the active terms into A and rhs; `left`: what start states alone
// would leave.
static bool gather(nsi_workspace* b, const uint32_t* active, uint32_t n, double damping,
                   double* left) {
    const nsi_dictionary* d = b->dictionary;
    memset(b->A, 0, (size_t)n * n * sizeof *b->A);
    memset(b->rhs, 0, n * sizeof *b->rhs);
    *left = 0.0;
    for (uint32_t f = 0; f < b->nfold; f++) {
        double squares;
        if (!nsi_objective_eliminate_states(b->folds[f], damping, b->S, b->b, &squares))
            return false;
        *left += squares;
        for (uint32_t i = 0; i < n; i++) {
            const nsi_term* t = &d->terms.data[active[i]];
            for (uint32_t p = 0; p < t->npart; p++) {
                size_t row = b->at[t->parts[p].column];
                b->rhs[i] += t->parts[p].sign * b->b[row];
                for (uint32_t j = 0; j <= i; j++) {
                    const nsi_term* u = &d->terms.data[active[j]];
                    for (uint32_t q = 0; q < u->npart; q++) {
                        size_t column = b->at[u->parts[q].column];
                        double s = row >= column ? b->S[row * b->nchosen + column]
                                                 : b->S[column * b->nchosen + row];
                        b->A[(size_t)i * n + j] += t->parts[p].sign * u->parts[q].sign * s;
                    }
                }
            }
        }
    }
    return true;
}

// Shapes stay positive and on their scale: the farthest that a step can go towards where it leads.
static double bounded(const nsi_workspace* b, uint32_t term, double step) {
    const nsi_term* t = &b->dictionary->terms.data[term];
    double low = 0.02 * t->start, high = 50.0 * t->start, shape = t->start + b->values[term];
    if (t->kind != NSI_TERM_SHAPE || (shape + step >= low && shape + step <= high)) return step;
    return (step < 0.0 ? low : high) - shape;
}

// Solve for the active terms into rhs; those that are held go as far as `moves` says.
static bool solve(nsi_workspace* b, uint32_t n, double damping) {
    for (uint32_t i = 0; i < n; i++) {
        double* own = &b->A[(size_t)i * n + i];
        *own += (damping + 1e-13) * *own;
        if (!(*own > 0.0)) *own = 1.0;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (isnan(b->moves[i])) continue;
        for (uint32_t j = 0; j < n; j++) {
            double* a = i > j ? &b->A[(size_t)i * n + j] : &b->A[(size_t)j * n + i];
            if (isnan(b->moves[j])) b->rhs[j] -= *a * b->moves[i];
            *a = i == j ? 1.0 : 0.0;
        }
        b->rhs[i] = b->moves[i];
    }
    if (n == 0) return true;
    if (!nsi_dense_cholesky(n, b->A, 1)) return false;
    nsi_dense_cholesky_solve(n, b->A, 1, b->rhs);
    return true;
}

// A step for this damping; the value there, or INFINITY. `predicted`: what the normal equations say.
static double try_step(nsi_workspace* b, const uint32_t* active, uint32_t n, double damping,
                       double* predicted) {
    const nsi_dictionary* d = b->dictionary;
    double* rhs = b->old;
    for (uint32_t i = 0; i < n; i++) b->moves[i] = NAN;
    // A shape that would go too far is held at the end of its range, and the others find their way with it.
    for (bool again = true; again;) {
        again = false;
        *predicted = 0.0;
        if (!gather(b, active, n, damping, predicted)) return INFINITY;
        memcpy(rhs, b->rhs, n * sizeof *rhs);
        if (!solve(b, n, damping)) return INFINITY;
        for (uint32_t i = 0; i < n; i++) {
            double move = bounded(b, active[i], b->rhs[i]);
            if (!isnan(b->moves[i]) || move == b->rhs[i] || !isfinite(move)) continue;
            b->moves[i] = move;
            again = true;
        }
    }
    for (uint32_t i = 0; i < n; i++) *predicted -= rhs[i] * b->rhs[i];
    memset(b->step, 0, d->ncolumn * sizeof *b->step);
    for (uint32_t i = 0; i < n; i++) {
        const nsi_term* t = &d->terms.data[active[i]];
        for (uint32_t p = 0; p < t->npart; p++) {
            b->step[b->at[t->parts[p].column]] += t->parts[p].sign * b->rhs[i];
        }
    }
    double sum = 0.0;
    for (uint32_t f = 0; f < b->nfold && isfinite(sum); f++) {
        nsi_objective_set_step(b->folds[f], b->step);
        sum += 2.0 * nsi_objective_trial_cost(b->folds[f]);
    }
    return sum;
}

double nsi_workspace_refit(nsi_workspace* b, const uint32_t* active, uint32_t n,
                           uint32_t iterations, double tolerance) {
    enum { FAILURES = 10 };
    double damping = 1e-6, value = INFINITY;
    choose(b, active, n);
    for (uint32_t k = 0; k <= iterations; k++) {
        double here = 0.0;
        for (uint32_t f = 0; f < b->nfold; f++) {
            double part;
            if (nsi_watch_asks(b->watch)) return value;
            if (!nsi_objective_linearise(b->folds[f], &part)) return INFINITY;
            here += 2.0 * part;
        }
        value = here;
        if (k == iterations) break;
        double next = INFINITY;
        for (int failure = 0; failure < FAILURES; failure++) {
            double predicted;
            next = try_step(b, active, n, damping, &predicted);
            if (next < value || value - predicted < 0.1 * tolerance * value) break;
            damping *= 10.0;
        }
        if (!(next < value)) break;
        for (uint32_t f = 0; f < b->nfold; f++) nsi_objective_commit(b->folds[f]);
        for (uint32_t i = 0; i < n; i++) b->values[active[i]] += b->rhs[i];
        damping = fmax(0.1 * damping, 1e-9);
        bool done = value - next < tolerance * value;
        value = next;
        if (done) break;
    }
    return value;
}

// ---- other integrators -------------------------------------------------------------------------

bool nsi_watch_lm(void* context, const ns_solver_progress* progress) {
    (void)progress;
    return nsi_watch_asks(context);
}

// Residuals of all windows with start states fitted, nothing else; NULL: cannot be told.
static double* residuals_of(const nsi_workspace* b, const nsi_problem* problem,
                            const ns_dataset* data, uint32_t length, const double* values,
                            size_t* count, uint32_t* there, ns_error* error) {
    const nsi_dictionary* d = b->dictionary;
    nsi_windows windows = {0};
    nsi_objective* e = NULL;
    ns_window_options loss = loss_of(b, length);
    loss.optimise = NS_OPTIMISE_NONE;
    uint32_t rows = (length + 1) * problem->nchannel;
    ns_status status =
        nsi_windows_make(problem, data, length, MOST_ROWS / rows + 1, false, &windows, error);
    if (status == NS_OK) {
        status = nsi_objective_create(problem, data, &loss, &windows, b->fit->threads, &e, error);
    }
    nsi_array_free(&b->allocator, &windows);
    if (status != NS_OK) return NULL;
    nsi_point p = nsi_objective_point(e);
    memcpy(p.z, b->z0, d->nz * sizeof *p.z);
    memcpy(p.w, b->w0, (d->ncolumn - d->nz) * sizeof *p.w);
    for (uint32_t k = 0; k < d->terms.count; k++) {
        const nsi_term* t = &d->terms.data[k];
        for (uint32_t i = 0; i < t->npart && values[k] != 0.0; i++) {
            uint32_t column = t->parts[i].column;
            *(column < d->nz ? &p.z[column] : &p.w[column - d->nz]) += t->parts[i].sign * values[k];
        }
    }
    ns_solver_options options = {.max_iterations = 10, .damping = 1e-6};
    ns_solver_result out = nsi_objective_lm(e, &options, nsi_watch_lm, b->watch);
    double* kept = NULL;
    if (isfinite(out.value) && isfinite(nsi_objective_cost(e))) {
        const double* r = nsi_objective_residuals(e, count);
        kept = numbers(b, *count);
        if (kept) memcpy(kept, r, *count * sizeof *kept);
        *there = nsi_objective_residual_count(e);
    }
    nsi_objective_free(e);
    return kept;
}

// What is left of r when as much as fits of (other - r) is taken away.
static double left_over(const double* r, const double* other, size_t count) {
    enum { FARTHEST = 30 }; // times the difference: an integrator that is much coarser
    double along = 0.0, length = 0.0, sum = 0.0;
    for (size_t k = 0; k < count; k++) {
        double d = other[k] - r[k];
        along -= d * r[k];
        length += d * d;
    }
    double share = length > 0.0 ? along / length : 0.0;
    share = fmin(fmax(share, -FARTHEST), FARTHEST);
    for (size_t k = 0; k < count; k++) {
        double left = r[k] + share * (other[k] - r[k]);
        sum += left * left;
    }
    return sum;
}

typedef struct alternative {
    int integrator;
    double timestep;
} alternative;

ns_status nsi_workspace_numerical(nsi_workspace* b, double* squares, char other[80],
                                  ns_error* error) {
    enum { MOST_STEPS = 400 }; // from sample to sample
    ns_fit* f = b->fit;
    const ns_dataset* train = f->data[NSI_ROLE_TRAIN];
    const ns_system_sizes* z = &b->problem->sizes;
    double period = ns_dataset_period(train);
    ns_system_options usual = f->options;
    usual.timestep = 0.0;
    double file_step = nsi_problem_timestep(ns_hybrid_model(f->hybrid), &usual, 0.0, period);
    alternative list[3];
    int count = 0;
    list[count++] = (alternative){(int)z->integrator, 0.5 * z->timestep};
    if (z->integrator != NS_INTEGRATOR_RK4) {
        list[count++] = (alternative){NS_INTEGRATOR_RK4, z->timestep};
    }
    if (z->integrator != NS_INTEGRATOR_EULER) {
        list[count++] = (alternative){NS_INTEGRATOR_EULER, file_step};
    }
    size_t rows = 0;
    uint32_t there = 0;
    double* own = residuals_of(b, b->problem, train, b->length, b->values, &rows, &there, error);
    *squares = INFINITY;
    other[0] = '\0';
    if (!own) return NS_OK;
    for (int k = 0; k < count && !nsi_watch_asks(b->watch); k++) {
        ns_system* system = NULL;
        nsi_problem* problem = NULL;
        ns_system_options options = f->options;
        ns_error inner;
        options.integrator = list[k].integrator;
        options.timestep = list[k].timestep;
        if (period / list[k].timestep > MOST_STEPS) continue;
        if (nsi_workspace_system(b, &options, b->dictionary->blueprint, &system, &problem,
                                 &inner) == NS_OK) {
            size_t its = 0;
            double* r = residuals_of(b, problem, train, b->length, b->values, &its, &there, &inner);
            double left = r && its == rows ? left_over(own, r, rows) : INFINITY;
            if (left < *squares) {
                *squares = left;
                snprintf(other, 80, "%s, steps of %.4g ms",
                         ns_choice_name(&ns_integrators, (int)list[k].integrator),
                         1e3 * list[k].timestep);
            }
            nsi_free(&b->allocator, r);
        } // rk4 does not go with rigid contact: then this one is no alternative
        nsi_problem_free(problem);
        ns_system_free(system);
    }
    nsi_free(&b->allocator, own);
    return NS_OK;
}

ns_status nsi_workspace_score(nsi_workspace* b, const ns_dataset* data, const double* values,
                              double* out, ns_error* error) {
    uint32_t longest = 0, there = 0;
    size_t rows = 0;
    *out = NAN;
    for (uint32_t k = 0; k < ns_dataset_recording_count(data); k++) {
        uint32_t n = ns_dataset_recording(data, k)->nsample;
        if (n > longest) longest = n;
    }
    uint32_t length = b->length < longest ? b->length : longest - 1;
    if (longest < 2) return NS_OK;
    double* r = residuals_of(b, b->problem, data, length, values, &rows, &there, error);
    double sum = 0.0;
    for (size_t k = 0; r && k < rows; k++) sum += r[k] * r[k];
    if (r && there > 0) *out = sqrt(sum / there);
    nsi_free(&b->allocator, r);
    return NS_OK;
}
