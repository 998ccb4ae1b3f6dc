// Quadratics within bounds against all active sets.

#include "neuralsim/random.h"
#include "solver/solvers.h"
#include "support/assert.h"

#include <math.h>
#include <stdlib.h>

enum { N = 5, SETS = 243 }; // 3^5

typedef struct quadratic {
    double S[N * N], r[N], lower[N], upper[N];
} quadratic;

static double value_of(const quadratic* q, const double* x) {
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        sum -= q->r[i] * x[i];
        for (int j = 0; j < N; j++) sum += 0.5 * x[i] * q->S[i * N + j] * x[j];
    }
    return sum;
}

// Condition numbers up to 1e6 and bounds at 0, near it, far and nowhere.
static quadratic make_quadratic(ns_rng* rng) {
    quadratic q = {0};
    double A[N * N];
    for (int k = 0; k < N * N; k++) A[k] = ns_rng_normal(rng);
    for (int i = 0; i < N; i++) {
        double scale = pow(10.0, ns_rng_uniform(rng, -3.0, 0.0));
        for (int j = 0; j < N; j++) A[i * N + j] *= scale;
    }
    for (int i = 0; i < N; i++) {
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < N; k++) q.S[i * N + j] += A[k * N + i] * A[k * N + j];
        }
        q.S[i * N + i] += 1e-6;
        q.r[i] = ns_rng_normal(rng);
        double low = ns_rng_uniform(rng, -1.0, 0.5), high = ns_rng_uniform(rng, -0.5, 1.0);
        q.lower[i] = low < -0.7 ? -INFINITY : fmin(low, 0.0);
        q.upper[i] = high > 0.7 ? INFINITY : fmax(high, 0.0);
    }
    return q;
}

// The minimum over the face on which each number is free, at its lower or at its upper bound; false: there
// is none within the bounds.
static bool minimise_face(const quadratic* q, int set, double* x) {
    int free[N], count = 0;
    double A[N * N], b[N];
    for (int k = 0; k < N; k++, set /= 3) {
        if (set % 3 == 0) {
            free[count++] = k;
            x[k] = 0.0;
            continue;
        }
        x[k] = set % 3 == 1 ? q->lower[k] : q->upper[k];
        if (!isfinite(x[k])) return false;
    }
    for (int i = 0; i < count; i++) {
        b[i] = q->r[free[i]];
        for (int j = 0; j < N; j++) b[i] -= q->S[free[i] * N + j] * x[j];
        for (int j = 0; j < count; j++) A[i * count + j] = q->S[free[i] * N + free[j]];
    }

    // Gauss elimination, of a positive definite matrix.
    for (int k = 0; k < count; k++) {
        for (int i = k + 1; i < count; i++) {
            double share = A[i * count + k] / A[k * count + k];
            for (int j = k; j < count; j++) A[i * count + j] -= share * A[k * count + j];
            b[i] -= share * b[k];
        }
    }
    for (int i = count; i-- > 0;) {
        for (int j = i + 1; j < count; j++) b[i] -= A[i * count + j] * b[j];
        b[i] /= A[i * count + i];
        x[free[i]] = b[i];
        if (b[i] < q->lower[free[i]] || b[i] > q->upper[free[i]]) return false;
    }
    return true;
}

static void minima_are_the_lowest_of_all_active_sets(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    int at_bounds = 0;
    for (int trial = 0; trial < 500; trial++) {
        quadratic q = make_quadratic(&rng);
        double best = 0.0, x[N], scratch[N * N + N];
        uint32_t numbers[N];
        for (int set = 0; set < SETS; set++) {
            if (minimise_face(&q, set, x)) best = fmin(best, value_of(&q, x));
        }
        assert_true(nsi_box_quadratic(N, q.S, q.r, q.lower, q.upper, 1, x, scratch, numbers));
        for (int k = 0; k < N; k++) {
            assert_true(x[k] >= q.lower[k] && x[k] <= q.upper[k]);
            at_bounds += x[k] == q.lower[k] || x[k] == q.upper[k];
        }
        close_to("value", value_of(&q, x), best, 1e-7 * fabs(best));
    }
    assert_true(at_bounds > 500);
}

static void matrices_that_are_not_positive_definite_are_refused(void** state) {
    (void)state;
    const double S[] = {1.0, 0.0, 2.0, 1.0}, r[] = {1.0, 1.0}, lower[] = {-1.0, -1.0},
                 upper[] = {1.0, 1.0};
    double x[2], scratch[6];
    uint32_t numbers[2];
    assert_false(nsi_box_quadratic(2, S, r, lower, upper, 1, x, scratch, numbers));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minima_are_the_lowest_of_all_active_sets),
        cmocka_unit_test(matrices_that_are_not_positive_definite_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
