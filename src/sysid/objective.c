// Memory is laid out once; values and gradients are rollouts of all windows side by side. Sums are
// made in the order of windows.

#include "sysid/objective_state.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>

static const ns_choice initial_state_rows[] = {NS_INITIAL_STATE_MAP(NS_CHOICE_ROW)};
static const ns_choice optimise_rows[] = {NS_OPTIMISE_MAP(NS_CHOICE_ROW)};
const ns_choices ns_initial_states = NS_CHOICES("initial state", initial_state_rows);
const ns_choices ns_optimises = NS_CHOICES("set of unknowns", optimise_rows);
#endif

// Below some milliseconds of work, to wake other threads takes longer than it saves, and very much
// longer where other programs use the cores.
static const double LITTLE = 4e6; // steps x (weights + PHYSICS)
enum { PHYSICS = 500 };           // what the rest of a step costs, in weights

// ---- memory ------------------------------------------------------------------------------------

static ns_status take_windows(nsi_objective* e, const nsi_windows* windows, ns_error* error) {
    if (!windows) {
        bool overlap = e->options.overlap && e->options.initial_state != NS_INITIAL_STATE_TIED;
        return nsi_windows_make(e->p, e->data, e->options.length, e->options.max_windows, overlap,
                                &e->windows, error);
    }
    for (uint32_t k = 0; k < windows->count; k++) {
        if (!nsi_array_push(&e->allocator, &e->windows, windows->data[k])) {
            return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

// Those of a variant one after the other, otherwise as they are: batches are as large as they can be,
// and windows of one recording stay together.
static ns_status sort_windows(nsi_objective* e, ns_error* error) {
    uint32_t count = e->windows.count;
    e->variant = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->variant);
    e->used = nsi_alloc_zeroed(&e->allocator, e->p->nvariant * sizeof *e->used);
    if (!e->variant || !e->used) return nsi_fail_nomem(error);
    if (e->p->nvariant == 1) {
        e->used[0] = true;
        return NS_OK;
    }
    nsi_windows sorted = {0};
    for (uint32_t variant = 0; variant < e->p->nvariant; variant++) {
        for (uint32_t k = 0; k < count; k++) {
            if (nsi_problem_variant(e->p, nsi_window_recording(e, k)) != variant) continue;
            e->used[variant] = true;
            e->variant[sorted.count] = variant;
            if (!nsi_array_push(&e->allocator, &sorted, e->windows.data[k])) {
                nsi_array_free(&e->allocator, &sorted);
                return nsi_fail_nomem(error);
            }
        }
    }
    nsi_array_free(&e->allocator, &e->windows);
    e->windows = sorted;
    return NS_OK;
}

// Where each window has its states, controls and residuals.
static ns_status objective_lay_out(nsi_objective* e, ns_error* error) {
    uint32_t count = e->windows.count;

    // Offsets have one entry more than windows: the last is the total.
    e->state_at = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->state_at);
    e->control_at = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->control_at);
    e->row_at = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->row_at);
    if (!e->state_at || !e->control_at || !e->row_at) return nsi_fail_nomem(error);

    // States, controls and residuals of all windows lie one after the other.
    for (uint32_t k = 0; k < count; k++) {
        const nsi_window* w = &e->windows.data[k];
        ns_status status = nsi_problem_check_length(e->p, w->length, error);
        if (status != NS_OK) return status;

        // Recorded initial states leave no residual at the first sample.
        uint32_t steps = nsi_problem_steps(e->p, w->length);
        uint32_t samples = w->length + 1 - nsi_first_sample(e);
        e->state_at[k + 1] = e->state_at[k] + steps + 1;
        e->control_at[k + 1] = e->control_at[k] + steps;
        e->row_at[k + 1] = e->row_at[k] + (size_t)samples * e->p->nchannel;

        // Windows of the same length and variant are rolled out together.
        const uint32_t nbatch = e->batches.count;
        nsi_batch next = {.first = k, .count = 1, .steps = steps, .variant = e->variant[k]};
        if (nbatch > 0 && e->batches.data[nbatch - 1].steps == steps &&
            e->batches.data[nbatch - 1].variant == next.variant) {
            e->batches.data[nbatch - 1].count++;
        } else if (!nsi_array_push(&e->allocator, &e->batches, next)) {
            return nsi_fail_nomem(error);
        }
    }

    // Residual indices are 32-bit.
    if (e->row_at[count] > INT32_MAX) {
        return nsi_fail(error, NS_ERR_LIMIT, "%zu residuals are too many; take fewer windows",
                        e->row_at[count]);
    }
    return NS_OK;
}

static ns_status make_rollouts(nsi_objective* e, ns_error* error) {
    const ns_system_sizes* z = &e->p->sizes;
    uint32_t count = e->windows.count;
    e->states = nsi_numbers(e, e->state_at[count] * z->nx);
    e->observations = nsi_numbers(e, e->control_at[count] * z->ny);
    bool controlled = e->p->ncontrol > 0 || e->p->taught;
    e->controls = controlled ? nsi_numbers(e, e->control_at[count] * z->nc) : NULL;
    e->residuals = nsi_numbers(e, e->row_at[count]);
    e->row_weight = nsi_numbers(e, e->row_at[count]);
    if (!e->states || !e->observations || !e->residuals || !e->row_weight ||
        (controlled && !e->controls)) {
        return nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < count && e->controls; k++) {
        nsi_problem_controls(e->p, nsi_window_recording(e, k), &e->windows.data[k],
                             e->controls + e->control_at[k] * z->nc);
    }
    for (uint32_t k = 0; k < e->batches.count; k++) {
        nsi_batch* b = &e->batches.data[k];
        ns_workspace_size size = {.batch = b->count, .steps = b->steps, .threads = e->threads};
        if ((double)b->count * b->steps * (z->nw + PHYSICS) < LITTLE) size.threads = 1;
        ns_status status = ns_workspace_create(nsi_batch_system(e, b), &size, &b->work, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static bool make_point(nsi_objective* e, nsi_point* point) {
    point->z = nsi_numbers(e, nsi_parameter_count(e));
    point->w = nsi_numbers(e, e->p->sizes.nw);
    point->x = nsi_numbers(e, (size_t)e->windows.count * nsi_state_size(e));
    return point->z && point->w && point->x;
}

static ns_status make_points(nsi_objective* e, ns_error* error) {
    // Without fitted parameters the systems' own are used.
    const ns_parameters* parameters = e->p->parameters;
    size_t nz = nsi_parameter_count(e), np = nsi_param_total(e);

    // Parameters and their derivatives, scales of ties, weight decay.
    e->v = nsi_numbers(e, nz);
    e->params = nsi_numbers(e, np);
    e->dparams = nsi_numbers(e, np * nz);
    e->dv = nsi_numbers(e, nz * nz);
    e->scratch = nsi_numbers(e, parameters ? nsi_parameters_scratch(parameters) : 0);
    e->scale = nsi_numbers(e, e->p->nchannel);
    e->tie_scale = nsi_numbers(e, nsi_state_size(e));
    e->tie = nsi_numbers(e, nsi_state_size(e));
    e->decay = nsi_numbers(e, e->p->sizes.nw);
    e->coefficient = nsi_alloc_zeroed(&e->allocator, (size_t)e->p->sizes.nw + 1);

    // The point, and a second one to try steps at.
    if (!e->decay || !e->coefficient || !e->v || !e->params || !e->dparams || !e->dv ||
        !e->scratch || !e->scale || !e->tie_scale || !e->tie || !make_point(e, &e->point) ||
        !make_point(e, &e->trial)) {
        return nsi_fail_nomem(error);
    }

    for (uint32_t k = 0; k < e->p->nchannel; k++) e->scale[k] = e->p->sources[k].scale;

    // The initial point: parameters, or those of the systems, and weights.
    if (parameters) {
        nsi_parameters_initial(parameters, e->v);
        nsi_parameters_to_z(parameters, e->v, e->point.z);
    } else {
        for (uint32_t k = 0; k < e->p->nvariant; k++) {
            ns_system_default_params(e->p->variants[k].system, e->params + e->p->param_at[k]);
        }
    }

    // Variants share the weights.
    ns_system_default_weights(e->p->system, e->point.w);
    return NS_OK;
}

// Tied ends count in units of the channels' scales; velocities that are not recorded in those that
// would move the position by as much in a tenth of a window.
static void scale_ties(nsi_objective* e) {
    const nsi_problem* p = e->p;
    double span = 0.1 * e->options.length * p->substeps * p->sizes.timestep;
    for (uint32_t k = 0; k < p->ncoordinate; k++) {
        const nsi_coordinate* c = &p->coordinates[k];
        double position = 0.0;
        for (uint32_t i = 0; i < (c->quaternion ? 4u : 1u); i++) {
            uint32_t channel = p->channel_of_state[c->at + i];
            if (channel == NSI_NONE) continue;
            position = e->tie_scale[c->at + i] =
                e->options.continuity_weight * p->sources[channel].scale;
        }
        for (uint32_t i = 0; p->model && c->at < p->nq && i < (c->quaternion ? 3u : 1u); i++) {
            e->tie_scale[p->nq + c->tangent + i] = position * span;
        }
    }
}

// Coefficients of formulas have units and sizes of their own: nothing pulls them to 0.
static void set_decay(nsi_objective* e) {
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(e->p->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(e->p->system, k);
        memset(e->coefficient + m.offset, m.formula != NULL, (size_t)m.rows * m.columns);
        if (m.formula) continue;
        for (uint32_t i = 0; i < m.rows * m.columns; i++) {
            e->decay[m.offset + i] =
                e->options.weight_decay + (m.layer > 0 ? e->options.weight_decay_upper : 0.0);
        }
    }
}

static ns_status make(nsi_objective* e, const nsi_windows* windows, ns_error* error) {
    ns_status status = take_windows(e, windows, error);
    if (status == NS_OK) status = sort_windows(e, error);
    if (status == NS_OK) status = objective_lay_out(e, error);
    if (status == NS_OK) status = make_rollouts(e, error);
    if (status == NS_OK) status = make_points(e, error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < e->windows.count && e->p->taught; k++) {
        nsi_problem_teach(e->p, nsi_window_recording(e, k), &e->windows.data[k],
                          e->options.smoothing, e->trial.x,
                          e->controls + e->control_at[k] * e->p->sizes.nc);
    }
    scale_ties(e);
    set_decay(e);
    nsi_objective_guess(e);
    return NS_OK;
}

ns_status nsi_objective_create(const nsi_problem* problem, const ns_dataset* data,
                               const ns_window_options* options, const nsi_windows* windows,
                               uint32_t threads, nsi_objective** out, ns_error* error) {
    *out = NULL;

    // Options with their defaults.
    nsi_objective* e = nsi_alloc_zeroed(&problem->allocator, sizeof *e);
    if (!e) return nsi_fail_nomem(error);
    e->allocator = problem->allocator;

    // Both outlive the objective.
    e->p = problem;
    e->data = data;
    e->options = *options;
    if (e->options.smoothing == 0) e->options.smoothing = NSI_DEFAULT_SMOOTHING;
    if (e->options.continuity_weight == 0.0) {
        e->options.continuity_weight = NSI_DEFAULT_CONTINUITY_WEIGHT;
    }

    // 0 threads: as many as there are processors.
    e->threads = threads > 0 ? threads : 1;
#ifdef _OPENMP
    e->threads = threads > 0 ? threads : (uint32_t)omp_get_num_procs();
#endif

    // Which unknowns there are.
    e->nz = nsi_optimises_parameters(options->optimise) ? nsi_parameter_count(e) : 0;
    e->nw = nsi_optimises_weights(options->optimise) ? problem->sizes.nw : 0;
    e->n = e->nz + e->nw;
    e->nt = options->initial_state == NS_INITIAL_STATE_RECORDED ? 0 : problem->ntangent;

    // Windows, memory and workspaces.
    ns_status status = make(e, windows, error);
    if (status != NS_OK) {
        nsi_objective_free(e);
        return status;
    }
    *out = e;
    return NS_OK;
}

void nsi_objective_free(nsi_objective* e) {
    if (!e) return;
    ns_allocator memory = e->allocator;
    for (uint32_t k = 0; k < e->batches.count; k++) ns_workspace_free(e->batches.data[k].work);
    nsi_normal_free(e);
    nsi_array_free(&memory, &e->windows);
    nsi_array_free(&memory, &e->batches);
    void* blocks[] = {e->state_at,    e->control_at, e->row_at,
                      e->point.z,     e->point.w,    e->point.x,
                      e->trial.z,     e->trial.w,    e->trial.x,
                      e->v,           e->params,     e->dparams,
                      e->dv,          e->scratch,    e->states,
                      e->controls,    e->seeds,      e->observations,
                      e->tie,         e->tie_scale,  e->residuals,
                      e->row_weight,  e->dx,         e->dp,
                      e->dw,          e->decay,      e->observation_seeds,
                      e->coefficient, e->variant,    e->used,
                      e->scale};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, e);
}

void nsi_objective_set_priors(nsi_objective* e, const nsi_prior* priors) {
    e->priors = priors;
}

void nsi_objective_set_perturbation(nsi_objective* e, const nsi_perturbation* perturbation) {
    e->perturbation = perturbation;
}

double* nsi_objective_scales(nsi_objective* e) {
    return e->scale;
}

void nsi_objective_set_active(nsi_objective* e, const uint32_t* columns, uint32_t count) {
    e->chosen = columns;
    e->n = columns ? count : e->nz + e->nw;
}

uint32_t nsi_objective_window_count(const nsi_objective* e) {
    return e->windows.count;
}

const nsi_window* nsi_objective_window(const nsi_objective* e, uint32_t number) {
    return &e->windows.data[number];
}

uint32_t nsi_objective_residual_count(const nsi_objective* e) {
    return e->nresidual;
}

nsi_point nsi_objective_point(nsi_objective* e) {
    return e->point;
}

void nsi_objective_guess(nsi_objective* e) {
    for (uint32_t k = 0; k < e->windows.count; k++) {
        nsi_problem_guess(e->p, nsi_window_recording(e, k), e->windows.data[k].start,
                          e->options.smoothing, e->point.x + (size_t)k * nsi_state_size(e));
    }
}

double nsi_objective_rms(const nsi_objective* e) {
    return e->nresidual > 0 ? sqrt(e->squares / e->nresidual) : NAN;
}

const double* nsi_objective_residuals(const nsi_objective* e, size_t* count) {
    *count = e->row_at[e->windows.count];
    return e->residuals;
}

const double* nsi_objective_states(const nsi_objective* e, uint32_t window) {
    return e->states + e->state_at[window] * nsi_state_size(e);
}

const double* nsi_objective_observations(const nsi_objective* e, uint32_t window) {
    return e->observations + e->control_at[window] * e->p->sizes.ny;
}

uint32_t nsi_objective_refused(const nsi_objective* e, const char** link) {
    *link = e->refused_link;
    return e->refused;
}
