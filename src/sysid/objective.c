// Memory is laid out once; values and gradients are rollouts of all windows side by side. Sums are
// made in the order of windows.

#include "sysid/objective_state.h"

#include <float.h>
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

static uint32_t nx_of(const nsi_objective* e) {
    return e->p->sizes.nx;
}

// Parameters of all variants together.
static uint32_t np_of(const nsi_objective* e) {
    return e->p->param_at[e->p->nvariant];
}

static const ns_system* system_of(const nsi_objective* e, const nsi_batch* b) {
    return e->p->variants[b->variant].system;
}

static const ns_recording* recording_of(const nsi_objective* e, uint32_t window) {
    return ns_dataset_recording(e->data, e->windows.data[window].recording);
}

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
            if (nsi_problem_variant(e->p, recording_of(e, k)) != variant) continue;
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
static ns_status lay_out(nsi_objective* e, ns_error* error) {
    uint32_t count = e->windows.count;
    e->state_at = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->state_at);
    e->control_at = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->control_at);
    e->row_at = nsi_alloc_zeroed(&e->allocator, ((size_t)count + 1) * sizeof *e->row_at);
    if (!e->state_at || !e->control_at || !e->row_at) return nsi_fail_nomem(error);

    // States, controls and residuals of all windows lie one after the other.
    for (uint32_t k = 0; k < count; k++) {
        const nsi_window* w = &e->windows.data[k];
        ns_status status = nsi_problem_check_length(e->p, w->length, error);
        if (status != NS_OK) return status;
        uint32_t steps = nsi_problem_steps(e->p, w->length);
        uint32_t samples = w->length + 1 - nsi_first_sample(e);
        e->state_at[k + 1] = e->state_at[k] + steps + 1;
        e->control_at[k + 1] = e->control_at[k] + steps;
        e->row_at[k + 1] = e->row_at[k] + (size_t)samples * e->p->nchannel;

        // Windows of the same length and variant are rolled out together.
        nsi_batch* last = e->batches.count > 0 ? &e->batches.data[e->batches.count - 1] : NULL;
        nsi_batch next = {.first = k, .count = 1, .steps = steps, .variant = e->variant[k]};
        if (last && last->steps == steps && last->variant == next.variant) {
            last->count++;
        } else if (!nsi_array_push(&e->allocator, &e->batches, next)) {
            return nsi_fail_nomem(error);
        }
    }

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
        nsi_problem_controls(e->p, recording_of(e, k), &e->windows.data[k],
                             e->controls + e->control_at[k] * z->nc);
    }
    for (uint32_t k = 0; k < e->batches.count; k++) {
        nsi_batch* b = &e->batches.data[k];
        ns_workspace_size size = {.batch = b->count, .steps = b->steps, .threads = e->threads};
        if ((double)b->count * b->steps * (z->nw + PHYSICS) < LITTLE) size.threads = 1;
        ns_status status = ns_workspace_create(system_of(e, b), &size, &b->work, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static uint32_t variable_count(const nsi_objective* e) {
    return e->p->variables ? ns_parameters_count(e->p->variables) : 0;
}

static bool make_point(nsi_objective* e, nsi_point* point) {
    point->z = nsi_numbers(e, variable_count(e));
    point->w = nsi_numbers(e, e->p->sizes.nw);
    point->x = nsi_numbers(e, (size_t)e->windows.count * nx_of(e));
    return point->z && point->w && point->x;
}

static ns_status make_points(nsi_objective* e, ns_error* error) {
    const ns_parameters* variables = e->p->variables;
    size_t nz = variable_count(e), np = np_of(e);

    // Parameters and their derivatives, scales of ties, weight decay.
    e->v = nsi_numbers(e, nz);
    e->params = nsi_numbers(e, np);
    e->dparams = nsi_numbers(e, np * nz);
    e->dv = nsi_numbers(e, nz * nz);
    e->scratch = nsi_numbers(e, variables ? nsi_parameters_scratch(variables) : 0);
    e->tie_scale = nsi_numbers(e, nx_of(e));
    e->tie = nsi_numbers(e, nx_of(e));
    e->decay = nsi_numbers(e, e->p->sizes.nw);
    e->coefficient = nsi_alloc_zeroed(&e->allocator, (size_t)e->p->sizes.nw + 1);
    if (!e->decay || !e->coefficient || !e->v || !e->params || !e->dparams || !e->dv ||
        !e->scratch || !e->tie_scale || !e->tie || !make_point(e, &e->point) ||
        !make_point(e, &e->trial)) {
        return nsi_fail_nomem(error);
    }

    // The initial point: parameters, or those of the systems, and weights.
    if (variables) {
        nsi_parameters_initial(variables, e->v);
        nsi_parameters_to_z(variables, e->v, e->point.z);
    } else {
        for (uint32_t k = 0; k < e->p->nvariant; k++) {
            ns_system_default_params(e->p->variants[k].system, e->params + e->p->param_at[k]);
        }
    }
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
    if (status == NS_OK) status = lay_out(e, error);
    if (status == NS_OK) status = make_rollouts(e, error);
    if (status == NS_OK) status = make_points(e, error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < e->windows.count && e->p->taught; k++) {
        nsi_problem_teach(e->p, recording_of(e, k), &e->windows.data[k], e->options.smoothing,
                          e->trial.x, e->controls + e->control_at[k] * e->p->sizes.nc);
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
    nsi_objective* e = nsi_alloc_zeroed(&problem->allocator, sizeof *e);
    if (!e) return nsi_fail_nomem(error);
    e->allocator = problem->allocator;

    e->p = problem;
    e->data = data;
    e->options = *options;
    if (e->options.smoothing == 0) e->options.smoothing = NSI_DEFAULT_SMOOTHING;
    if (e->options.continuity_weight == 0.0) {
        e->options.continuity_weight = NSI_DEFAULT_CONTINUITY_WEIGHT;
    }

    e->threads = threads > 0 ? threads : 1;
#ifdef _OPENMP
    e->threads = threads > 0 ? threads : (uint32_t)omp_get_num_procs();
#endif

    // Which unknowns there are.
    e->nz = nsi_optimises_parameters(options->optimise) ? variable_count(e) : 0;
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
                      e->coefficient, e->variant,    e->used};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, e);
}

void nsi_objective_set_priors(nsi_objective* e, const nsi_prior* priors) {
    e->priors = priors;
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
        nsi_problem_guess(e->p, recording_of(e, k), e->windows.data[k].start, e->options.smoothing,
                          e->point.x + (size_t)k * nx_of(e));
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
    return e->states + e->state_at[window] * nx_of(e);
}

const double* nsi_objective_observations(const nsi_objective* e, uint32_t window) {
    return e->observations + e->control_at[window] * e->p->sizes.ny;
}

uint32_t nsi_objective_refused(const nsi_objective* e, const char** link) {
    *link = e->refused_link;
    return e->refused;
}

// ---- value -------------------------------------------------------------------------------------

bool nsi_objective_set_params(nsi_objective* e, const double* z, bool derivatives) {
    const ns_parameters* variables = e->p->variables;
    if (!variables) return true;
    nsi_parameters_from_z(variables, z, e->v, derivatives ? e->dv : NULL, e->scratch);
    for (uint32_t k = 0; k < e->p->nvariant; k++) {
        size_t at = e->p->param_at[k];
        double* params = e->params + at;
        nsi_parameters_params(variables, k, e->v, params,
                              derivatives ? e->dparams + at * variable_count(e) : NULL, e->scratch);
        const char* fault = nsi_parameters_fault(variables, k, params);
        if (!fault) continue;
        e->refused++;
        e->refused_link = fault;
        return false;
    }
    return true;
}

static ns_rollout_args batch_args(nsi_objective* e, const nsi_batch* b, const nsi_point* point) {
    const ns_system_sizes* z = &e->p->sizes;
    size_t states = e->state_at[b->first], steps = e->control_at[b->first];
    return (ns_rollout_args){.batch = b->count,
                             .steps = b->steps,
                             .x0 = point->x + (size_t)b->first * z->nx,
                             .controls = e->controls ? e->controls + steps * z->nc : NULL,
                             .params = e->params + e->p->param_at[b->variant],
                             .weights = point->w,
                             .states = e->states + states * z->nx,
                             .observations = e->observations + steps * z->ny};
}

// rho(r), and its weight rho'(r) / 2 r.
static double robust(const ns_window_options* o, double r, double* weight) {
    double size = fabs(r), width = o->robust_width;
    *weight = 1.0;
    if (o->robust == NS_ROBUST_HUBER && size > width) {
        *weight = width / size;
        return width * (2.0 * size - width);
    }
    if (o->robust == NS_ROBUST_CAUCHY) {
        double share = r / width;
        *weight = fmax(1.0 / (1.0 + share * share), DBL_MIN); // 0 is for what is missing
        return width * width * log1p(share * share);
    }
    return r * r;
}

// Residuals of a window from its simulated states; missing ones are 0 and count nothing.
static void compare(nsi_objective* e, uint32_t window) {
    const nsi_problem* p = e->p;
    const nsi_window* w = &e->windows.data[window];
    const double* values = recording_of(e, window)->values + (size_t)w->start * p->nchannel;
    const double* states = nsi_objective_states(e, window);
    const double* observations = nsi_objective_observations(e, window);
    size_t row = e->row_at[window];
    for (uint32_t k = nsi_first_sample(e); k <= w->length; k++) {
        size_t step = (size_t)k * p->substeps;
        for (uint32_t c = 0; c < p->nchannel; c++, row++) {
            const nsi_source* s = &p->sources[c];
            double recorded = values[(size_t)k * p->nchannel + c];
            e->residuals[row] = e->row_weight[row] = 0.0;
            if (p->taught_changes) recorded -= values[(size_t)(k - 1) * p->nchannel + c];
            if (isnan(recorded) || s->scale == 0.0) continue;
            double simulated = s->state ? states[step * p->sizes.nx + s->number]
                                        : observations[step * p->sizes.ny + s->number];
            e->residuals[row] = (simulated - recorded) * s->scale;
            robust(&e->options, e->residuals[row], &e->row_weight[row]);
        }
    }
}

void nsi_objective_continuity(const nsi_objective* e, const nsi_point* point, uint32_t window,
                              double* out) {
    uint32_t nx = nx_of(e), length = e->windows.data[window].length;
    const double* end = nsi_objective_states(e, window) + (size_t)length * e->p->substeps * nx;
    const double* next = point->x + ((size_t)window + 1) * nx;
    for (uint32_t k = 0; k < nx; k++) out[k] = (end[k] - next[k]) * e->tie_scale[k];
}

// What is added for weights and parameters.
static double penalty(const nsi_objective* e, const nsi_point* point) {
    double sum = 0.0;
    for (uint32_t k = 0; k < e->nw; k++) sum += e->decay[k] * point->w[k] * point->w[k];
    sum *= e->nresidual;
    for (uint32_t k = 0; k < e->nz; k++) {
        nsi_prior prior = nsi_prior_of(e, k);
        double off = (e->v[k] - prior.mean) / prior.deviation;
        sum += off * off;
    }
    return 0.5 * sum;
}

static double sum_up(nsi_objective* e, const nsi_point* point) {
    double sum = 0.0, squares = 0.0, weight;
    uint32_t count = 0;
    for (size_t k = 0; k < e->row_at[e->windows.count]; k++) {
        if (e->row_weight[k] == 0.0) continue;
        count++;
        squares += e->residuals[k] * e->residuals[k];
        sum += robust(&e->options, e->residuals[k], &weight);
    }
    e->nresidual = count;
    e->squares = squares;
    for (uint32_t k = 0; k < e->windows.count; k++) {
        if (!nsi_is_tied(e, k)) continue;
        nsi_objective_continuity(e, point, k, e->tie);
        for (uint32_t i = 0; i < nx_of(e); i++) sum += e->tie[i] * e->tie[i];
    }
    double value = 0.5 * sum + penalty(e, point);
    return isfinite(value) ? value : INFINITY;
}

double nsi_objective_cost_at(nsi_objective* e, const nsi_point* point) {
    if (!nsi_objective_set_params(e, point->z, false)) return INFINITY;
    for (uint32_t k = 0; k < e->batches.count; k++) {
        const nsi_batch* b = &e->batches.data[k];
        ns_rollout_args args = batch_args(e, b, point);
        if (ns_rollout(system_of(e, b), b->work, &args, NULL) != NS_OK) return INFINITY;
    }
    for (uint32_t k = 0; k < e->windows.count; k++) compare(e, k);
    return sum_up(e, point);
}

double nsi_objective_cost(nsi_objective* e) {
    return nsi_objective_cost_at(e, &e->point);
}

// ---- gradient ----------------------------------------------------------------------------------

uint32_t nsi_objective_unknowns(const nsi_objective* e) {
    return e->n + e->windows.count * e->nt;
}

// Memory of gradients, when one is asked for.
static bool need_gradient(nsi_objective* e) {
    const ns_system_sizes* z = &e->p->sizes;
    uint32_t count = e->windows.count;
    if (e->seeds) return true;
    // Some may be there from a call that found too little memory.
    if (!e->observation_seeds) e->observation_seeds = nsi_numbers(e, e->control_at[count] * z->ny);
    if (!e->dx) e->dx = nsi_numbers(e, (size_t)count * z->nx);
    if (!e->dp) e->dp = nsi_numbers(e, 2 * (size_t)np_of(e));
    if (!e->dw) e->dw = nsi_numbers(e, 2 * (size_t)z->nw);
    if (!e->observation_seeds || !e->dx || !e->dp || !e->dw) return false;
    e->seeds = nsi_numbers(e, e->state_at[count] * z->nx);
    return e->seeds != NULL;
}

// dF / d(simulated) of a window.
static void seed_window(nsi_objective* e, uint32_t window) {
    const nsi_problem* p = e->p;
    const nsi_window* w = &e->windows.data[window];
    double* states = e->seeds + e->state_at[window] * p->sizes.nx;
    double* observed = e->observation_seeds + e->control_at[window] * p->sizes.ny;
    size_t row = e->row_at[window];
    for (uint32_t k = nsi_first_sample(e); k <= w->length; k++) {
        size_t step = (size_t)k * p->substeps;
        for (uint32_t c = 0; c < p->nchannel; c++, row++) {
            const nsi_source* s = &p->sources[c];
            double d = e->row_weight[row] * e->residuals[row] * s->scale;
            if (s->state) {
                states[step * p->sizes.nx + s->number] += d;
            } else {
                observed[step * p->sizes.ny + s->number] += d;
            }
        }
    }
    if (!nsi_is_tied(e, window)) return;
    nsi_objective_continuity(e, &e->point, window, e->tie);
    size_t end = (size_t)w->length * p->substeps * p->sizes.nx;
    for (uint32_t i = 0; i < p->sizes.nx; i++) states[end + i] += e->tie[i] * e->tie_scale[i];
}

// Derivatives for start states, parameters and weights of the system.
static bool differentiate(nsi_objective* e) {
    const ns_system_sizes* z = &e->p->sizes;
    uint32_t nx = z->nx, count = e->windows.count;
    memset(e->seeds, 0, e->state_at[count] * nx * sizeof(double));
    memset(e->observation_seeds, 0, e->control_at[count] * z->ny * sizeof(double));
    memset(e->dp, 0, np_of(e) * sizeof(double));
    memset(e->dw, 0, z->nw * sizeof(double));
    for (uint32_t k = 0; k < count; k++) seed_window(e, k);
    for (uint32_t k = 0; k < e->batches.count; k++) {
        const nsi_batch* b = &e->batches.data[k];
        const uint32_t* at = e->p->param_at + b->variant;
        double *dp = e->dp + np_of(e), *dw = e->dw + z->nw;
        ns_rollout_args args = batch_args(e, b, &e->point);
        ns_rollout_adjoint adjoint = {.state_seeds = e->seeds + e->state_at[b->first] * nx,
                                      .observation_seeds =
                                          e->observation_seeds + e->control_at[b->first] * z->ny,
                                      .dx0 = e->dx + (size_t)b->first * nx,
                                      .dparams = dp,
                                      .dweights = dw};
        if (ns_rollout_vjp(system_of(e, b), b->work, &args, &adjoint, NULL) != NS_OK) return false;
        for (uint32_t i = 0; i < at[1] - at[0]; i++) e->dp[at[0] + i] += dp[i];
        for (uint32_t i = 0; i < z->nw; i++) e->dw[i] += dw[i];
    }
    return true;
}

double nsi_objective_gradient(nsi_objective* e, double* gradient) {
    uint32_t nx = nx_of(e), nz = e->nz;
    double value = nsi_objective_cost(e);
    if (!isfinite(value) || !need_gradient(e) || !differentiate(e)) return INFINITY;
    nsi_objective_set_params(e, e->point.z, true);

    // Parameters.
    for (uint32_t j = 0; j < nz; j++) { // for v, then for z
        nsi_prior prior = nsi_prior_of(e, j);
        double d = (e->v[j] - prior.mean) / (prior.deviation * prior.deviation);
        for (uint32_t i = 0; i < np_of(e); i++) {
            d += e->dp[i] * e->dparams[(size_t)i * nz + j];
        }
        e->scratch[j] = d;
    }
    for (uint32_t j = 0; j < nz; j++) {
        gradient[j] = 0.0;
        for (uint32_t i = 0; i < nz; i++) gradient[j] += e->scratch[i] * e->dv[(size_t)i * nz + j];
    }

    // Weights, with their decay.
    for (uint32_t k = 0; k < e->nw; k++) {
        gradient[nz + k] = e->dw[k] + e->decay[k] * e->nresidual * e->point.w[k];
    }

    // Start states: ties pull at both ends.
    for (uint32_t k = 0; k < e->windows.count && e->nt > 0; k++) {
        double* dx = e->dx + (size_t)k * nx;
        if (k > 0 && nsi_is_tied(e, k - 1)) {
            nsi_objective_continuity(e, &e->point, k - 1, e->tie);
            for (uint32_t i = 0; i < nx; i++) dx[i] -= e->tie[i] * e->tie_scale[i];
        }
        nsi_problem_tangent(e->p, e->point.x + (size_t)k * nx, dx,
                            gradient + e->n + (size_t)k * e->nt);
    }
    return value;
}

void nsi_objective_moved(const nsi_objective* e, const double* step, const double* step_x,
                         nsi_point* out) {
    bool all = !e->chosen;
    for (uint32_t k = 0; k < variable_count(e); k++) {
        out->z[k] = e->point.z[k] + (all && k < e->nz ? step[k] : 0.0);
    }
    for (uint32_t k = 0; k < e->p->sizes.nw; k++) {
        out->w[k] = e->point.w[k] + (all && k < e->nw ? step[e->nz + k] : 0.0);
    }
    for (uint32_t k = 0; k < e->n && !all; k++) {
        uint32_t column = e->chosen[k];
        *(column < e->nz ? &out->z[column] : &out->w[column - e->nz]) += step[k];
    }
    for (uint32_t k = 0; k < e->windows.count; k++) {
        const double* from = e->point.x + (size_t)k * nx_of(e);
        double* to = out->x + (size_t)k * nx_of(e);
        if (e->nt > 0) {
            nsi_problem_move(e->p, from, step_x + (size_t)k * e->nt, to);
        } else if (to != from) {
            memcpy(to, from, nx_of(e) * sizeof(double));
        }
    }
}

void nsi_objective_move(nsi_objective* e, const double* step) {
    nsi_objective_moved(e, step, step + e->n, &e->point);
}
