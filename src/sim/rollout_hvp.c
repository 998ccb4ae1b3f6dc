// Hessian-vector products of rollouts: forward over reverse. The forward sweep keeps the state x and its
// tangent dx at the beginning of each step. The reverse sweep runs the tangent of the step's reverse
// program (ns_system_build_hvp()), which has as inputs
//
//     x | c | p | seeds of y | seeds of the next x | tangents of all these
//
// and gives the adjoints of x, c, p and the tangents of those. So the gradient comes along with its
// product. Memory, segments and sums are those of rollout.c; a record holds x and dx.

#include "sim/rollout.h"

#include <float.h>
#include <math.h>

// Which sweep is done, for whom.
typedef struct hvp_job {
    const ns_rollout_tangent* direction;
    const ns_rollout_adjoint *gradient, *product;
} hvp_job;

// x and dx at the beginning of step k of the segment.
static double* pair_at(const nsi_tile* t, size_t k) {
    return t->memory->records + k * nsi_record_size(t->s) * t->lanes;
}

// The rows of a step in an array of (batch x steps x count), or NULL.
static const double* rows_of_step(const double* all, size_t step, size_t count) {
    return all ? all + step * count : NULL;
}

// ---- forward -------------------------------------------------------------------------------

// Steps from .. from + count, from the first pair; false when a state is not finite any more.
static bool forward_pairs(const nsi_tile* t, ns_workspace* w, const ns_rollout_tangent* d,
                          uint32_t from, uint32_t count, bool report) {
    const ns_system_sizes* z = &t->s->sizes;
    const ns_rollout_args* a = t->args;
    const size_t lanes = t->lanes, steps = a->steps, state = z->nx * lanes;
    double *x = t->memory->in, *c = x + state, *dx = c + (z->nc + z->np) * lanes, *dc = dx + state;
    double *y = t->memory->out, *next = y + nsi_step_ny(t->s) * lanes;
    double *dy = next + state, *dnext = dy + nsi_step_ny(t->s) * lanes;
    for (uint32_t k = 0; k < count; k++) {
        const size_t step = from + k;
        memcpy(x, pair_at(t, k), state * sizeof(double));
        memcpy(dx, pair_at(t, k) + state, state * sizeof(double));
        nsi_tile_gather(t, rows_of_step(a->controls, step, z->nc), steps * z->nc, z->nc, c);
        nsi_tile_gather(t, rows_of_step(d->dcontrols, step, z->nc), steps * z->nc, z->nc, dc);
        ns_program_run(t->s->jvp[t->form],
                       &(ns_run){.in = x, .out = y, .arrays = t->arrays, .work = t->memory->work});
        memcpy(pair_at(t, k + 1), next, state * sizeof(double));
        memcpy(pair_at(t, k + 1) + state, dnext, state * sizeof(double));
        if (!report) continue;

        // What the caller wants of it.
        nsi_tile_report_contact(t, y, (uint32_t)step);
        nsi_tile_scatter(t, next, (steps + 1) * z->nx, z->nx,
                         a->states ? a->states + (step + 1) * z->nx : NULL);
        nsi_tile_scatter(t, dnext, (steps + 1) * z->nx, z->nx,
                         d->dstates ? d->dstates + (step + 1) * z->nx : NULL);
        nsi_tile_scatter(t, y, steps * z->ny, z->ny,
                         a->observations ? a->observations + step * z->ny : NULL);
        nsi_tile_scatter(t, dy, steps * z->ny, z->ny,
                         d->dobservations ? d->dobservations + step * z->ny : NULL);

        // A lane that leaves the finite numbers ends the tile.
        for (size_t i = 0; i < state; i++) {
            if (fabs(next[i]) <= DBL_MAX) continue;
            w->failed_step[t->number] = (uint32_t)step;
            w->failed_lane[t->number] = (uint32_t)(i % lanes);
            return false;
        }
    }
    return true;
}

// All steps; leaves the last segment's pairs. False when a state is not finite.
static bool forward_hvp(const nsi_tile* t, ns_workspace* w, const ns_rollout_tangent* d) {
    const ns_system_sizes* z = &t->s->sizes;
    const ns_rollout_args* a = t->args;
    const size_t lanes = t->lanes, steps = a->steps, pair = 2 * (size_t)z->nx * lanes;
    double *first = pair_at(t, 0), *p = t->memory->in + (z->nx + z->nc) * lanes;
    double* dp = p + (z->np + z->nx + z->nc) * lanes;

    w->failed_step[t->number] = w->failed_input[t->number] = NSI_NONE;
    nsi_tile_begin_report(t);
    nsi_tile_gather(t, a->x0, z->nx, z->nx, first);
    nsi_tile_gather(t, d->dx0, z->nx, z->nx, first + z->nx * lanes);
    nsi_tile_gather_params(t, a->params, p);
    nsi_tile_gather(t, d->dparams, a->per_robot_params ? z->np : 0, z->np, dp);
    nsi_tile_scatter(t, first, (steps + 1) * z->nx, z->nx, a->states);
    nsi_tile_scatter(t, first + z->nx * lanes, (steps + 1) * z->nx, z->nx, d->dstates);

    for (uint32_t from = 0, n; from < a->steps; from += n) {
        n = a->steps - from < w->segment ? a->steps - from : w->segment;
        if (from > 0) memcpy(first, pair_at(t, w->segment), pair * sizeof(double));
        memcpy(t->memory->checkpoints + from / w->segment * pair, first, pair * sizeof(double));
        if (!forward_pairs(t, w, d, from, n, true)) return false;
    }
    return true;
}

// ---- reverse -------------------------------------------------------------------------------

// One half of the inputs of a reverse step: state, controls and parameters, or their tangents, and seeds.
typedef struct hvp_half {
    double *x, *c, *p, *seeds, *next; // in the inputs
    double* adjoint;                  // of the state, or its tangent
    double* dp;                       // (np) sums
    const ns_rollout_adjoint* job;
    const double* controls; // or their tangents
} hvp_half;

// Inputs of step k of a segment.
static void gather_half(const nsi_tile* t, const hvp_half* h, const double* state, size_t step) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t lanes = t->lanes, steps = t->args->steps;
    memcpy(h->x, state, z->nx * lanes * sizeof(double));
    nsi_tile_gather(t, rows_of_step(h->controls, step, z->nc), steps * z->nc, z->nc, h->c);

    // Seeds of the solver's outputs stay 0.
    memset(h->seeds, 0, nsi_step_ny(t->s) * lanes * sizeof(double));
    nsi_tile_add(t, rows_of_step(h->job->observation_seeds, step, z->ny), steps * z->ny, z->ny,
                 h->seeds);
    nsi_tile_add(t, rows_of_step(h->job->state_seeds, step + 1, z->nx), (steps + 1) * z->nx, z->nx,
                 h->adjoint);
    memcpy(h->next, h->adjoint, z->nx * lanes * sizeof(double));
}

// The adjoint of the state goes on; those of controls and parameters are results.
static void scatter_half(const nsi_tile* t, const hvp_half* h, const double* out, size_t step) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t lanes = t->lanes, steps = t->args->steps;
    const double *c = out + z->nx * lanes, *p = c + z->nc * lanes;
    memcpy(h->adjoint, out, z->nx * lanes * sizeof(double));
    nsi_tile_scatter(t, c, steps * z->nc, z->nc,
                     h->job->dcontrols ? h->job->dcontrols + step * z->nc : NULL);
    for (size_t i = 0; i < z->np * lanes; i++) h->dp[i] += p[i];
}

static void reverse_pairs(const nsi_tile* t, const hvp_half half[2], uint32_t from,
                          uint32_t count) {
    const ns_system_sizes* z = &t->s->sizes;
    const size_t state = z->nx * t->lanes, adjoints = state + (z->nc + z->np) * t->lanes;
    double* out = t->memory->out;
    for (uint32_t k = count; k-- > 0;) {
        const size_t step = from + k;
        for (size_t i = 0; i < 2; i++) gather_half(t, &half[i], pair_at(t, k) + i * state, step);
        ns_program_run(t->s->hvp[t->form], &(ns_run){.in = t->memory->hvp_in,
                                                     .out = out,
                                                     .arrays = t->arrays,
                                                     .sinks = t->sinks,
                                                     .work = t->memory->work});
        for (size_t i = 0; i < 2; i++) scatter_half(t, &half[i], out + i * adjoints, step);
    }
}

static void reverse_hvp(const nsi_tile* t, ns_workspace* w, const hvp_job* job) {
    const ns_system_sizes* z = &t->s->sizes;
    const ns_rollout_args* a = t->args;
    const size_t lanes = t->lanes, state = z->nx * lanes, np = z->np * (size_t)NSI_TILE_LANES;
    const size_t inputs = (nsi_step_ny(t->s) + 2 * (size_t)z->nx + z->nc + z->np) * lanes;

    // The gradient, and its product with the direction.
    hvp_half half[2];
    for (size_t i = 0; i < 2; i++) {
        hvp_half* h = &half[i];
        h->x = t->memory->hvp_in + i * inputs;
        h->c = h->x + state;
        h->p = h->c + z->nc * lanes;
        h->seeds = h->p + z->np * lanes;
        h->next = h->seeds + nsi_step_ny(t->s) * lanes;
        h->adjoint = t->memory->adjoint + i * state;
        h->dp = w->dparams + ((i == 0 ? 0 : nsi_tile_count(a->batch)) + t->number) * np;
        h->job = i == 0 ? job->gradient : job->product;
        h->controls = i == 0 ? a->controls : job->direction->dcontrols;
        memset(h->dp, 0, np * sizeof(double));
        memset(h->adjoint, 0, state * sizeof(double));
    }
    nsi_tile_gather_params(t, a->params, half[0].p);
    nsi_tile_gather(t, job->direction->dparams, a->per_robot_params ? z->np : 0, z->np, half[1].p);

    // Segments from the last, whose pairs are still there.
    uint32_t last = (a->steps - 1) / w->segment;
    for (uint32_t n = last + 1; n-- > 0;) {
        uint32_t from = n * w->segment;
        uint32_t count = n == last ? a->steps - from : w->segment;
        if (n != last) {
            memcpy(pair_at(t, 0), t->memory->checkpoints + n * 2 * state,
                   2 * state * sizeof(double));
            (void)forward_pairs(t, w, job->direction, from, count, false);
        }
        reverse_pairs(t, half, from, count);
    }

    w->failed_input[t->number] = NSI_NONE;
    for (size_t i = 0; i < 2; i++) {
        const hvp_half* h = &half[i];
        nsi_tile_add(t, h->job->state_seeds, ((size_t)a->steps + 1) * z->nx, z->nx, h->adjoint);
        nsi_tile_scatter(t, h->adjoint, z->nx, z->nx, h->job->dx0);
        nsi_tile_check_derivative(t, w, h->adjoint, z->nx, 0);
        nsi_tile_check_derivative(t, w, h->dp, z->np, z->nx);
    }
}

static void hvp_work(const nsi_tile* t, ns_workspace* w, const void* job) {
    const hvp_job* j = job;
    if (forward_hvp(t, w, j->direction)) reverse_hvp(t, w, j);
}

// ---- results -------------------------------------------------------------------------------

static ns_status check_hvp(const ns_system* s, const ns_workspace* w, const hvp_job* job,
                           ns_error* error) {
    if (!s || !w) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_rollout_hvp needs a system and a workspace");
    }
    if (!job->direction || !job->gradient || !job->product) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_rollout_hvp: direction, gradient or product is NULL");
    }
    if (job->gradient->certificate || job->product->certificate) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_rollout_hvp has no certificates; ask ns_rollout_vjp() for one");
    }
    if (!w->hvp) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "ns_rollout_hvp: call ns_system_build_hvp() before the workspace is created");
    }
    return NS_OK;
}

ns_status ns_rollout_hvp(const ns_system* s, ns_workspace* w, const ns_rollout_args* args,
                         const ns_rollout_tangent* direction, const ns_rollout_adjoint* gradient,
                         const ns_rollout_adjoint* product, ns_error* error) {
    const hvp_job job = {direction, gradient, product};
    ns_status status = check_hvp(s, w, &job, error);
    if (status != NS_OK) return status;
    const nsi_tile_task task = {.work = hvp_work,
                                .job = &job,
                                .dweights = direction->dweights,
                                .gradient = true,
                                .second = true};
    status = nsi_run_tiles(s, w, args, &task, error);
    if (status != NS_OK) return status;

    // Sums over robots, of the gradient and of the product.
    const size_t tiles = nsi_tile_count(args->batch), nw = s->sizes.nw;
    const uint32_t chunks = nsi_chunk_count(args->batch);
    const ns_rollout_adjoint* const results[2] = {gradient, product};
    for (size_t i = 0; i < 2; i++) {
        const ns_rollout_adjoint* r = results[i];
        const double* dp = w->dparams + (i == 0 ? 0 : tiles) * s->sizes.np * NSI_TILE_LANES;
        if (r->dparams) nsi_collect_dparams(s, dp, args, r->dparams);
        if (!r->dweights || nw == 0) continue;
        nsi_collect_dweights(s, w->dweights + (i == 0 ? 0 : nw), 2 * nw, chunks, r->dweights);
    }
    status = nsi_report_derivative(s, w, args, "the second derivative for", error);
    for (size_t i = 0; i < 2; i++) {
        for (size_t k = 0; status == NS_OK && results[i]->dweights && k < nw; k++) {
            if (fabs(results[i]->dweights[k]) <= DBL_MAX) continue;
            status = nsi_fail(error, NS_ERR_NONFINITE,
                              "the motion is finite, but the second derivative for weight %zu is"
                              " not; use fewer steps or a smaller time step",
                              k);
        }
    }
    return status;
}
