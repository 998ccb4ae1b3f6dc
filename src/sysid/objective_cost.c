// Cost of an objective and its gradient: rollouts of all windows side by side, sums in the order of
// windows.

#include "sim/rollout.h"
#include "sysid/objective_state.h"

#include <float.h>
#include <math.h>

// ---- value -------------------------------------------------------------------------------------

bool nsi_objective_set_params(nsi_objective* e, const double* z, bool derivatives) {
    const ns_parameters* parameters = e->p->parameters;
    if (!parameters) return true;
    nsi_parameters_from_z(parameters, z, e->v, derivatives ? e->dv : NULL, e->scratch);
    for (uint32_t k = 0; k < e->p->nvariant; k++) {
        size_t at = e->p->param_at[k];
        double* params = e->params + at;
        nsi_parameters_params(parameters, k, e->v, params,
                              derivatives ? e->dparams + at * nsi_parameter_count(e) : NULL,
                              e->scratch);
        const char* fault = nsi_parameters_fault(parameters, k, params);
        if (!fault) continue;
        e->refused++;
        e->refused_link = fault;
        return false;
    }
    return true;
}

void nsi_objective_repair(nsi_objective* e, double* z) {
    if (e->nz == 0) return;
    nsi_parameters_repair(e->p->parameters, z, e->v, e->params, e->scratch);
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
    const double* values = nsi_window_recording(e, window)->values + (size_t)w->start * p->nchannel;
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
            if (isnan(recorded) || e->scale[c] == 0.0) continue;
            double simulated = s->state ? states[step * p->sizes.nx + s->number]
                                        : observations[step * p->sizes.ny + s->number];
            e->residuals[row] = (simulated - recorded) * e->scale[c];
            if (e->perturbation) e->residuals[row] += e->perturbation->residuals[row];
            robust(&e->options, e->residuals[row], &e->row_weight[row]);
        }
    }
}

void nsi_objective_continuity(const nsi_objective* e, const nsi_point* point, uint32_t window,
                              double* out) {
    uint32_t nx = nsi_state_size(e), length = e->windows.data[window].length;
    const double* end = nsi_objective_states(e, window) + (size_t)length * e->p->substeps * nx;
    const double* next = point->x + ((size_t)window + 1) * nx;
    for (uint32_t k = 0; k < nx; k++) out[k] = (end[k] - next[k]) * e->tie_scale[k];
    for (uint32_t k = 0; k < nx && e->perturbation; k++) {
        if (e->tie_scale[k] > 0.0) out[k] += e->perturbation->ties[(size_t)window * nx + k];
    }
}

// What is added for weights and parameters.
static double penalty(const nsi_objective* e, const nsi_point* point) {
    double sum = 0.0;
    for (uint32_t k = 0; k < e->nw; k++) {
        double off = point->w[k] - nsi_weight_mean(e, k);
        sum += e->decay[k] * off * off;
    }
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
        for (uint32_t i = 0; i < nsi_state_size(e); i++) sum += e->tie[i] * e->tie[i];
    }
    double value = 0.5 * sum + penalty(e, point);
    return isfinite(value) ? value : INFINITY;
}

double nsi_objective_cost_at(nsi_objective* e, const nsi_point* point) {
    if (!nsi_objective_set_params(e, point->z, false)) return INFINITY;
    for (uint32_t k = 0; k < e->batches.count; k++) {
        const nsi_batch* b = &e->batches.data[k];
        ns_rollout_args args = batch_args(e, b, point);
        if (ns_rollout(nsi_batch_system(e, b), b->work, &args, NULL) != NS_OK) return INFINITY;
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
    if (!e->dp) e->dp = nsi_numbers(e, 2 * (size_t)nsi_param_total(e));
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
            double d = e->row_weight[row] * e->residuals[row] * e->scale[c];
            if (s->state) {
                states[step * p->sizes.nx + s->number] += d;
            } else {
                observed[step * p->sizes.ny + s->number] += d;
            }
        }
    }
    if (!nsi_is_tied(e, window)) return;
    double* tie = e->dx + (size_t)window * p->sizes.nx; // free until the derivative is known
    nsi_objective_continuity(e, &e->point, window, tie);
    size_t end = (size_t)w->length * p->substeps * p->sizes.nx;
    for (uint32_t i = 0; i < p->sizes.nx; i++) states[end + i] += tie[i] * e->tie_scale[i];
}

// Windows of a batch whose simulation is there.
typedef struct seed_job {
    nsi_objective* e;
    uint32_t first; // window of the batch
} seed_job;

static void seed_simulated(void* context, uint32_t first, uint32_t count) {
    const seed_job* j = context;
    for (uint32_t k = j->first + first; k < j->first + first + count; k++) {
        compare(j->e, k);
        seed_window(j->e, k);
    }
}

// Derivatives for initial states, parameters and weights of the system.
// @param certificates  (windows) of all windows, also after one without a finite gradient; NULL: none
// @param compares      residuals are those of the simulation that a gradient makes anyway; otherwise they
//                      are there
static bool differentiate(nsi_objective* e, ns_gradient_certificate* certificates, bool compares) {
    const ns_system_sizes* z = &e->p->sizes;
    uint32_t nx = z->nx, count = e->windows.count;

    // Derivatives of the cost for states and observations.
    memset(e->seeds, 0, e->state_at[count] * nx * sizeof(double));
    memset(e->observation_seeds, 0, e->control_at[count] * z->ny * sizeof(double));
    memset(e->dp, 0, nsi_param_total(e) * sizeof(double));
    memset(e->dw, 0, z->nw * sizeof(double));
    for (uint32_t k = 0; k < count && !compares; k++) seed_window(e, k);

    // Back through the simulations of each batch; sums over all batches.
    for (uint32_t k = 0; k < e->batches.count; k++) {
        const nsi_batch* b = &e->batches.data[k];
        const uint32_t* at = e->p->param_at + b->variant;
        double *dp = e->dp + nsi_param_total(e), *dw = e->dw + z->nw;
        ns_rollout_args args = batch_args(e, b, &e->point);
        ns_rollout_adjoint adjoint = {.state_seeds = e->seeds + e->state_at[b->first] * nx,
                                      .observation_seeds =
                                          e->observation_seeds + e->control_at[b->first] * z->ny,
                                      .dx0 = e->dx + (size_t)b->first * nx,
                                      .dparams = dp,
                                      .dweights = dw,
                                      .certificate = certificates ? certificates + b->first : NULL};
        seed_job job = {e, b->first};
        ns_status status = nsi_rollout_vjp_seeded(nsi_batch_system(e, b), b->work, &args, &adjoint,
                                                  compares ? seed_simulated : NULL, &job, NULL);
        if (status != NS_OK && !certificates) return false;
        for (uint32_t i = 0; i < at[1] - at[0]; i++) e->dp[at[0] + i] += dp[i];
        for (uint32_t i = 0; i < z->nw; i++) e->dw[i] += dw[i];
    }
    return true;
}

ns_status nsi_objective_certify(nsi_objective* e, nsi_gradient_trust* out, ns_error* error) {
    *out = (nsi_gradient_trust){.windows = e->windows.count};
    if (!isfinite(nsi_objective_cost(e))) {
        return nsi_fail(error, NS_ERR_NONFINITE, "there is no cost at the point");
    }
    ns_gradient_certificate* all =
        nsi_alloc_zeroed(&e->allocator, ((size_t)e->windows.count + 1) * sizeof *all);
    if (!all || !need_gradient(e)) {
        nsi_free(&e->allocator, all);
        return nsi_fail_nomem(error);
    }
    differentiate(e, all, false);
    for (uint32_t k = 0; k < e->windows.count; k++) {
        if (all[k].verdict != NS_GRADIENT_UNRELIABLE) continue;
        if (out->unreliable++ == 0) memcpy(out->reason, all[k].reason, sizeof out->reason);
    }
    nsi_free(&e->allocator, all);
    return NS_OK;
}

double nsi_objective_gradient(nsi_objective* e, double* gradient) {
    uint32_t nx = nsi_state_size(e), nz = e->nz;

    // One simulation for the cost and its derivatives.
    if (!need_gradient(e) || !nsi_objective_set_params(e, e->point.z, true)) return INFINITY;
    if (!differentiate(e, NULL, true)) return INFINITY;
    double value = sum_up(e, &e->point);
    if (!isfinite(value)) return INFINITY;

    // Parameters.
    for (uint32_t j = 0; j < nz; j++) { // for v, then for z
        nsi_prior prior = nsi_prior_of(e, j);
        double d = (e->v[j] - prior.mean) / (prior.deviation * prior.deviation);
        for (uint32_t i = 0; i < nsi_param_total(e); i++) {
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
        double off = e->point.w[k] - nsi_weight_mean(e, k);
        gradient[nz + k] = e->dw[k] + e->decay[k] * e->nresidual * off;
    }

    // Initial states: ties pull at both ends.
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

bool nsi_objective_score(nsi_objective* e, size_t first, size_t last, double* masked, double* out) {
    uint32_t nx = nsi_state_size(e), nz = e->nz;
    if (!need_gradient(e)) return false;

    // Residuals of other rows are 0 for this once.
    double* all = e->residuals;
    memset(masked, 0, e->row_at[e->windows.count] * sizeof *masked);
    memcpy(masked + first, all + first, (last - first) * sizeof *masked);
    e->residuals = masked;
    bool done = differentiate(e, NULL, false);
    e->residuals = all;

    // Parameters, weights, directions of states.
    for (uint32_t j = 0; j < nz; j++) {
        out[j] = 0.0;
        for (uint32_t i = 0; i < nsi_param_total(e); i++) {
            out[j] += e->dp[i] * e->dparams[(size_t)i * nz + j];
        }
    }
    memcpy(out + nz, e->dw, e->nw * sizeof *out);
    for (uint32_t k = 0; k < e->windows.count && e->nt > 0; k++) {
        nsi_problem_tangent(e->p, e->point.x + (size_t)k * nx, e->dx + (size_t)k * nx,
                            out + e->n + (size_t)k * e->nt);
    }
    return done;
}

void nsi_objective_moved(const nsi_objective* e, const double* step, const double* step_x,
                         nsi_point* out) {
    bool all = !e->chosen;
    for (uint32_t k = 0; k < nsi_parameter_count(e); k++) {
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
        const double* from = e->point.x + (size_t)k * nsi_state_size(e);
        double* to = out->x + (size_t)k * nsi_state_size(e);
        if (e->nt > 0) {
            nsi_problem_move(e->p, from, step_x + (size_t)k * e->nt, to);
        } else if (to != from) {
            memcpy(to, from, nsi_state_size(e) * sizeof(double));
        }
    }
}

void nsi_objective_move(nsi_objective* e, const double* step) {
    nsi_objective_moved(e, step, step + e->n, &e->point);
}
