// Laplace approximation: the maximum of a density by damped Newton steps, and the Gaussian there.

#include "neuralsim/posterior.h"

#include "neuralsim/random.h"
#include "solver/solvers.h"

#include <float.h>
#include <math.h>

enum { MAX_ITERATIONS = 200, MAX_HALVINGS = 40 };

// Squared length of a Newton step, in standard deviations, at which the maximum is reached, and at
// which it is near enough.
static const double REACHED = 1e-8, NEAR = 1e-4;

static const double LOG_ROOT_2PI = 0.91893853320467274178; // of the density of a normal number

typedef struct laplace_search {
    ns_allocator allocator;
    const ns_density* density;
    uint32_t n, worker;
    double close_enough; // squared length of a Newton step that ends the search
    double *x, *gradient, *direction, *trial, *trial_gradient;
    double *H, *vectors, *values, *size, *ridge;
} laplace_search;

void ns_laplace_free(ns_laplace* laplace) {
    if (!laplace) return;
    ns_allocator memory = ns_default_allocator();
    nsi_free(&memory, laplace->mean);
    nsi_free(&memory, laplace->factor);
    nsi_free(&memory, laplace);
}

static double laplace_value(const laplace_search* s, const double* x, double* gradient) {
    double value = s->density->log_density(s->density->context, s->worker, x, gradient);
    bool finite = isfinite(value);
    for (uint32_t k = 0; k < s->n; k++) finite = finite && isfinite(gradient[k]);
    return finite ? value : -INFINITY;
}

// Negative second derivatives by central differences of gradients.
static bool difference_gradients(laplace_search* s, const double* x) {
    const uint32_t n = s->n;
    double *up = s->trial_gradient, *down = s->values;
    memcpy(s->trial, x, n * sizeof *x);
    for (uint32_t k = 0; k < n; k++) {
        const double h = cbrt(DBL_EPSILON) * fmax(1.0, fabs(x[k]));
        s->trial[k] = x[k] + h;
        if (laplace_value(s, s->trial, up) == -INFINITY) return false;
        s->trial[k] = x[k] - h;
        if (laplace_value(s, s->trial, down) == -INFINITY) return false;
        s->trial[k] = x[k];
        for (uint32_t i = 0; i < n; i++) s->H[(size_t)k * n + i] = (down[i] - up[i]) / (2.0 * h);
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < i; j++) {
            double* lower = &s->H[(size_t)i * n + j];
            *lower = 0.5 * (*lower + s->H[(size_t)j * n + i]);
        }
    }
    return true;
}

// A matrix L (n x n) with L L' = (H + ridge)^-1 at x, and log |det L|. False without information,
// or when the density does not curve at all in a direction that no ridge limits.
static bool factorise_curvature(laplace_search* s, const double* x, double* L, double* log_det) {
    const uint32_t n = s->n;
    const ns_density* d = s->density;
    bool known = d->information ? d->information(d->context, s->worker, x, s->H)
                                : difference_gradients(s, x);
    if (!known) return false;

    // A diagonal of 1 makes eigenvalues comparable.
    for (uint32_t i = 0; i < n; i++) {
        double* own = &s->H[(size_t)i * n + i];
        *own = fabs(*own) + s->ridge[i];
        if (!(*own > 0.0) || !isfinite(*own)) return false;
        s->size[i] = 1.0 / sqrt(*own);
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j <= i; j++) s->H[(size_t)i * n + j] *= s->size[i] * s->size[j];
    }
    if (!nsi_dense_eigen(n, s->H, s->values, s->vectors)) return false;

    // Away from a maximum the density may curve upwards: the size of the curvature counts.
    *log_det = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        double root = sqrt(fmax(fabs(s->values[k]), 1e-14));
        for (uint32_t i = 0; i < n; i++) {
            L[(size_t)i * n + k] = s->size[i] * s->vectors[(size_t)k * n + i] / root;
        }
        *log_det += log(s->size[k]) - log(root);
    }
    return true;
}

// The Newton step L L' g; returns g' L L' g.
static double newton_direction(laplace_search* s, const double* L) {
    const uint32_t n = s->n;
    double decrement = 0.0, *along = s->values;
    memset(along, 0, n * sizeof *along);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < n; k++) along[k] += L[(size_t)i * n + k] * s->gradient[i];
    }
    for (uint32_t i = 0; i < n; i++) {
        s->direction[i] = 0.0;
        for (uint32_t k = 0; k < n; k++) s->direction[i] += L[(size_t)i * n + k] * along[k];
    }
    for (uint32_t k = 0; k < n; k++) decrement += along[k] * along[k];
    return decrement;
}

// The longest step t of 1, 1/2, .. that gains enough; 0: none does.
static double search_line(laplace_search* s, double value, double decrement, double* reached) {
    double t = 1.0;
    for (int k = 0; k < MAX_HALVINGS; k++, t *= 0.5) {
        for (uint32_t i = 0; i < s->n; i++) s->trial[i] = s->x[i] + t * s->direction[i];
        *reached = laplace_value(s, s->trial, s->trial_gradient);
        if (*reached >= value + 1e-4 * t * decrement) return t;
    }
    return 0.0;
}

static ns_status maximise(laplace_search* s, ns_laplace* out, ns_error* error) {
    const uint32_t n = s->n;
    double log_det = 0.0, decrement = INFINITY;
    out->log_density = laplace_value(s, s->x, s->gradient);
    if (out->log_density == -INFINITY) {
        return nsi_fail(error, NS_ERR_NONFINITE, "the log-density is not finite at the start");
    }

    // Newton steps, as long as they gain.
    for (;; out->iterations++) {
        if (!factorise_curvature(s, s->x, out->factor, &log_det)) {
            return nsi_fail(error, NS_ERR_NONFINITE,
                            "the log-density has no finite curvature; give each number a prior");
        }
        decrement = newton_direction(s, out->factor);
        if (decrement < s->close_enough || out->iterations == MAX_ITERATIONS) break;
        double reached;
        if (search_line(s, out->log_density, decrement, &reached) == 0.0) break;
        memcpy(s->x, s->trial, n * sizeof *s->x);
        memcpy(s->gradient, s->trial_gradient, n * sizeof *s->gradient);
        out->log_density = reached;
    }

    // Directions in which the ridge says more than the density.
    for (uint32_t k = 0; k < n; k++) {
        double share = 0.0;
        for (uint32_t i = 0; i < n; i++) {
            double l = out->factor[(size_t)i * n + k];
            share += l * l * s->ridge[i];
        }
        out->undetermined += share > 0.5;
    }
    out->converged = decrement < fmax(NEAR, s->close_enough);
    out->log_evidence = out->log_density + n * LOG_ROOT_2PI + log_det;
    memcpy(out->mean, s->x, n * sizeof *s->x);
    return NS_OK;
}

ns_status ns_laplace_find(const ns_density* density, const double* start, const double* scale,
                          ns_laplace** out, ns_error* error) {
    return nsi_laplace_search(density, 0, REACHED, start, scale, out, error);
}

ns_status nsi_laplace_search(const ns_density* density, uint32_t worker, double close_enough,
                             const double* start, const double* scale, ns_laplace** out,
                             ns_error* error) {
    if (!density || !density->log_density || density->n == 0 || !start || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_laplace_find: an argument is NULL");
    }
    *out = NULL;
    ns_allocator memory = ns_default_allocator();
    const size_t n = density->n;

    // One block for all vectors and matrices of the search.
    laplace_search s = {.allocator = memory,
                        .density = density,
                        .n = density->n,
                        .worker = worker,
                        .close_enough = close_enough};
    double* block = nsi_alloc_zeroed(&memory, (8 * n + 2 * n * n) * sizeof *block);
    ns_laplace* l = nsi_alloc_zeroed(&memory, sizeof *l);
    if (l) l->n = density->n;
    if (l) l->mean = nsi_alloc_zeroed(&memory, n * sizeof *l->mean);
    if (l) l->factor = nsi_alloc_zeroed(&memory, n * n * sizeof *l->factor);
    if (!block || !l || !l->mean || !l->factor) {
        nsi_free(&memory, block);
        ns_laplace_free(l);
        return nsi_fail_nomem(error);
    }
    double** parts[] = {&s.x,    &s.gradient, &s.direction, &s.trial, &s.trial_gradient,
                        &s.size, &s.ridge,    &s.values};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) *parts[k] = block + k * n;
    s.H = block + 8 * n;
    s.vectors = s.H + n * n;

    // Scales limit what the density leaves open.
    memcpy(s.x, start, n * sizeof *s.x);
    for (uint32_t k = 0; k < density->n; k++) {
        s.ridge[k] = scale ? 1.0 / (scale[k] * scale[k]) : 0.0;
    }
    ns_status status = maximise(&s, l, error);
    nsi_free(&memory, block);
    if (status != NS_OK) {
        ns_laplace_free(l);
        return status;
    }
    *out = l;
    return NS_OK;
}

// ---- samples ------------------------------------------------------------------------------------

ns_status ns_laplace_sample(const ns_laplace* const* modes, uint32_t nmode, uint32_t chains,
                            uint32_t count, uint64_t seed, ns_samples** out, ns_error* error) {
    if (!modes || nmode == 0 || chains == 0 || count == 0 || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_laplace_sample: no modes or no samples");
    }
    *out = NULL;
    const uint32_t n = modes[0]->n;
    ns_allocator memory = ns_default_allocator();
    ns_samples* s = nsi_samples_create(n, chains, count);
    double* z = nsi_alloc(&memory, n * sizeof *z);
    if (!s || !z) {
        ns_samples_free(s);
        nsi_free(&memory, z);
        return nsi_fail_nomem(error);
    }

    // mean + L z, a sequence of random numbers for each chain.
    for (uint32_t c = 0; c < chains; c++) {
        const ns_laplace* mode = modes[c % nmode];
        ns_rng rng = nsi_chain_rng(seed, c);
        s->start[c] = c % nmode;
        s->acceptance[c] = 1.0;
        for (uint32_t k = 0; k < count; k++) {
            size_t at = (size_t)c * count + k;
            s->log_density[at] = NAN;
            for (uint32_t i = 0; i < n; i++) z[i] = ns_rng_normal(&rng);
            for (uint32_t i = 0; i < n; i++) {
                double sum = mode->mean[i];
                for (uint32_t j = 0; j < n; j++) sum += mode->factor[(size_t)i * n + j] * z[j];
                s->x[at * n + i] = sum;
            }
        }
    }
    nsi_free(&memory, z);
    *out = s;
    return NS_OK;
}
