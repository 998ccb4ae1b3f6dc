// Samples of a posterior by refits (refit_samples.h).

#include "sysid/refit_samples.h"

#include "solver/solvers.h"

#include <math.h>

#ifdef _OPENMP
#include <omp.h>
#endif

// A refit ends a tenth of a standard deviation off its maximum.
static const double CLOSE_ENOUGH = 1e-2;

// Of the walk that follows it.
enum { WALK_STEPS = 60 };
static const double WALK_STEP = 0.3;

typedef struct refit_run {
    nsi_residual_density* density;
    ns_density callbacks;
    const nsi_refit_options* options;
    ns_samples* samples;
    uint32_t done;
    nsi_refit_counts counts;
    bool stop;
} refit_run;

// Report to the observer now and then.
static void count_refit(refit_run* r, bool converged, uint32_t steps, uint32_t accepted) {
#ifdef _OPENMP
#pragma omp critical(nsi_refit)
#endif
    {
        const nsi_refit_options* o = r->options;
        uint32_t all = r->samples->chains * r->samples->count;
        r->done++;
        r->counts.unfinished += !converged;
        r->counts.steps += steps;
        r->counts.accepted += accepted;
        if (!r->stop && o->observe && (r->done % 10 == 0 || r->done == all)) {
            r->stop = o->observe(o->context, r->done, all);
        }
    }
}

// ---- Metropolis steps ----------------------------------------------------------------------------
// The simplified manifold Langevin algorithm (Girolami & Calderhead 2011): from x, propose
//
//     y ~ N(x + 1/2 h G(x)^-1 g(x), h G(x)^-1)
//
// with the gradient g of the log-density and the information G, and accept by Metropolis and Hastings.

// A point of a walk: its Gaussian of proposals.
typedef struct walk_point {
    double *x, *mean; // (n)
    double* L;        // (n x n) Cholesky factor of G
    double value, log_det;
} walk_point;

static bool walk_arrive(const refit_run* r, uint32_t worker, walk_point* p, double* gradient) {
    const uint32_t n = r->samples->n;
    const ns_density* d = &r->callbacks;
    p->value = d->log_density(d->context, worker, p->x, gradient);
    if (!isfinite(p->value) || !d->information(d->context, worker, p->x, p->L)) return false;
    for (uint32_t k = 0; k < n; k++) {
        double scale = r->options->scales[k];
        p->L[(size_t)k * (n + 1)] += 1.0 / (scale * scale);
    }
    if (!nsi_dense_cholesky(n, p->L, 1)) return false;
    memcpy(p->mean, gradient, n * sizeof *gradient);
    nsi_dense_cholesky_solve(n, p->L, 1, p->mean);
    p->log_det = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        p->mean[k] = p->x[k] + 0.5 * WALK_STEP * p->mean[k];
        p->log_det += log(p->L[(size_t)k * (n + 1)]);
    }
    return isfinite(p->log_det);
}

// Log-density of proposing y from a point, up to a constant.
static double walk_log_proposal(const walk_point* p, uint32_t n, const double* y) {
    double squares = 0.0;
    for (uint32_t j = 0; j < n; j++) { // L' (y - mean)
        double sum = 0.0;
        for (uint32_t i = j; i < n; i++) sum += p->L[(size_t)i * n + j] * (y[i] - p->mean[i]);
        squares += sum * sum;
    }
    return p->log_det - 0.5 * squares / WALK_STEP;
}

// y = mean + sqrt(h) L'^-1 (normal numbers).
static void walk_propose(const walk_point* p, uint32_t n, ns_rng* rng, double* y) {
    for (uint32_t i = 0; i < n; i++) y[i] = sqrt(WALK_STEP) * ns_rng_normal(rng);
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) y[i] -= p->L[(size_t)k * n + i] * y[k];
        y[i] /= p->L[(size_t)i * (n + 1)];
    }
    for (uint32_t i = 0; i < n; i++) y[i] += p->mean[i];
}

// Steps on the density itself; a start without finite density or information stays.
static ns_status walk(const refit_run* r, uint32_t worker, ns_rng* rng, double* x,
                      uint32_t* accepted) {
    const size_t n = r->samples->n;
    ns_allocator memory = ns_default_allocator();
    double* block = nsi_alloc(&memory, (2 * n * n + 5 * n) * sizeof *block);
    if (!block) return NS_ERR_NOMEM;
    walk_point at = {.x = block, .mean = block + n, .L = block + 5 * n};
    walk_point next = {.x = block + 2 * n, .mean = block + 3 * n, .L = block + 5 * n + n * n};
    double* gradient = block + 4 * n;
    memcpy(at.x, x, n * sizeof *x);

    // Points change places when a proposal is accepted.
    bool started = walk_arrive(r, worker, &at, gradient);
    for (int k = 0; k < WALK_STEPS && started; k++) {
        walk_propose(&at, (uint32_t)n, rng, next.x);
        double share = ns_rng_uniform(rng, 0.0, 1.0);
        if (!walk_arrive(r, worker, &next, gradient)) continue;
        double gain = next.value - at.value + walk_log_proposal(&next, (uint32_t)n, at.x) -
                      walk_log_proposal(&at, (uint32_t)n, next.x);
        if (!(log(share) < gain)) continue;
        walk_point kept = at;
        at = next;
        next = kept;
        (*accepted)++;
    }
    memcpy(x, at.x, n * sizeof *x);
    nsi_free(&memory, block);
    return NS_OK;
}

// ---- refits --------------------------------------------------------------------------------------

static ns_status refit_one(refit_run* r, uint32_t number, uint32_t worker) {
    double* x = r->samples->x + (size_t)number * r->samples->n;
    ns_rng rng = nsi_chain_rng(r->options->seed + 1, number);
    if (!nsi_residual_density_perturb(r->density, worker, x, &rng)) return NS_ERR_NOMEM;
    ns_laplace* there = NULL;
    ns_status status = nsi_laplace_search(&r->callbacks, worker, CLOSE_ENOUGH, x,
                                          r->options->scales, &there, NULL);
    nsi_residual_density_restore(r->density, worker);

    // Where there is no density, the sample of the Gaussian stays.
    bool converged = status == NS_OK && there->converged;
    if (status == NS_OK) memcpy(x, there->mean, r->samples->n * sizeof *x);
    ns_laplace_free(there);
    uint32_t accepted = 0;
    if (status != NS_ERR_NOMEM) status = walk(r, worker, &rng, x, &accepted);
    count_refit(r, converged, WALK_STEPS, accepted);
    return status;
}

ns_status nsi_refit_samples(nsi_residual_density* density, const nsi_refit_options* options,
                            ns_samples* samples, nsi_refit_counts* counts, ns_error* error) {
    refit_run r = {.density = density,
                   .callbacks = nsi_residual_density_callbacks(density),
                   .options = options,
                   .samples = samples};
    const int count = (int)(samples->chains * samples->count);
    bool no_memory = false;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)options->threads)
#endif
    for (int k = 0; k < count; k++) {
        uint32_t worker = 0;
        bool stop;
#ifdef _OPENMP
        worker = (uint32_t)omp_get_thread_num();
#pragma omp critical(nsi_refit)
#endif
        stop = r.stop || no_memory;
        if (!stop && refit_one(&r, (uint32_t)k, worker) == NS_ERR_NOMEM) {
#ifdef _OPENMP
#pragma omp critical(nsi_refit)
#endif
            no_memory = true;
        }
    }
    if (no_memory) return nsi_fail_nomem(error);
    if (r.stop) samples->count = 0;
    *counts = r.counts;
    return NS_OK;
}
