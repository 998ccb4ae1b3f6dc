// Random trees and their quantities in plain numbers.

#ifndef TEST_DYNAMICS_RIG_H
#define TEST_DYNAMICS_RIG_H

#include "dyn/robot.h"
#include "dyn/solve.h"
#include "expr/graph.h"
#include "sim/system.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/randomtree.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Sums over a tree of a dozen links are some hundred roundings of 1.1e-16 each.
static const double ROUNDING = 1e-13;

// Solving with a mass matrix multiplies that by its condition number, up to some 1e4 here.
static const double SOLVED = 1e-11;

// Central differences of sixth order with steps of 1e-3 to 1e-2: 1e-16 / 1e-3 of rounding, times
// values of order 1 to 100, and about as much truncation.
static const double DIFFERENCES = 1e-10;

enum { MAX_V = 64, MAX_Q = 80 };

// A tree for the n-th case: 1 to 12 links.
static inline random_tree_options vary(random_tree_options o, uint32_t n) {
    o.seed += 1000 + n;
    o.nlink = 1 + n % 12;
    return o;
}

// ---- numbers -------------------------------------------------------------------------------

// A = L L' in place; false when A is not positive definite.
static inline bool cholesky(uint32_t n, double* A) {
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j; i < n; i++) {
            double sum = A[i * n + j];
            for (uint32_t k = 0; k < j; k++) sum -= A[i * n + k] * A[j * n + k];
            if (i == j && !(sum > 0.0)) return false;
            A[i * n + j] = i == j ? sqrt(sum) : sum / A[j * n + j];
        }
    }
    return true;
}

static inline void cholesky_solve(uint32_t n, const double* L, const double* b, double* x) {
    for (uint32_t i = 0; i < n; i++) {
        x[i] = b[i];
        for (uint32_t k = 0; k < i; k++) x[i] -= L[i * n + k] * x[k];
        x[i] /= L[i * n + i];
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) x[i] -= L[k * n + i] * x[k];
        x[i] /= L[i * n + i];
    }
}

static inline void multiply(uint32_t rows, uint32_t columns, const double* A, const double* x,
                            double* out) {
    for (uint32_t i = 0; i < rows; i++) {
        out[i] = 0.0;
        for (uint32_t k = 0; k < columns; k++) out[i] += A[i * columns + k] * x[k];
    }
}

static inline double dot(uint32_t n, const double* a, const double* b) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static inline double largest(uint32_t n, const double* a) {
    double size = 0.0;
    for (uint32_t i = 0; i < n; i++) size = fmax(size, fabs(a[i]));
    return size;
}

static inline void randomize(ns_rng* rng, double* x, uint32_t n, double size) {
    for (uint32_t i = 0; i < n; i++) x[i] = ns_rng_uniform(rng, -size, size);
}

// ---- differences ---------------------------------------------------------------------------

// f'(0) = sum_k weight[k] (f((k+1) h) - f(-(k+1) h)) / h, error h^6 f'''''''/140.
static const double difference_weight[3] = {45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0};

// The rate of `count` observations from `first` on, along q (+) t v, qd + t a.
static inline void observation_rate(evaluator* e, const double* q, const double* qd,
                                    const double* v, const double* a, double h, const char* first,
                                    uint32_t count, double* rate) {
    double step[MAX_V];
    const double* y = evaluator_get(e, "%s", first);
    for (uint32_t i = 0; i < count; i++) rate[i] = 0.0;
    for (int k = -3; k <= 3; k++) {
        if (k == 0) continue;
        double weight = (k > 0 ? 1.0 : -1.0) * difference_weight[abs(k) - 1] / h;
        for (uint32_t i = 0; i < e->sizes.nv; i++) {
            step[i] = k * h * v[i];
            e->qd[i] = qd[i] + (a ? k * h * a[i] : 0.0);
        }
        move_coordinates(e->model, q, step, e->q);
        evaluator_run(e);
        for (uint32_t i = 0; i < count; i++) rate[i] += weight * y[i];
    }
    memcpy(e->q, q, e->sizes.nq * sizeof *q);
    memcpy(e->qd, qd, e->sizes.nv * sizeof *qd);
    evaluator_run(e);
}

// ---- frames --------------------------------------------------------------------------------

static const char* const robot_quantities[] = {"qdd", "mass_matrix", "bias", "energy", NULL};

#endif
