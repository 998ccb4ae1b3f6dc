// A dual active-set method (Goldfarb & Idnani 1983, in the form of Arnstroem, Bemporad & Axehill
// 2022, "A dual active-set solver for embedded quadratic programming using recursive LDL' updates").
//
// A working set W holds rows that are kept at a bound. With v_k = H^-1 a_k and x0 = -H^-1 g, the best
// x under these rows is x = x0 - sum y_k v_k, where S y = A_W x0 - b_W and S = A_W H^-1 A_W', of
// which a factor L D L' is kept up to date. Multipliers start feasible (of the right sign, or 0) and
// move towards the solution of W; one that would change its sign leaves W. Once none does, the row
// that is violated most joins W; when it depends on those in W, the multipliers move along the
// dependency until one of them is 0 and leaves, and when none ever is, the rows contradict each
// other. Every step raises the dual objective, from any feasible multipliers: so the last answer is a
// good start.
//
// Then x and y are refined with W held fixed, which undoes the rounding of the inverse and of S.
//
// Where H is singular, or so close to it that the answer is not exact, rho |x - c|^2 / 2 is added and
// c moved to the answer until it stays there (proximal point method, Rockafellar 1976). When the
// problem has no lowest point, the moves tend to a direction along which it falls for ever.

#include "quadruped/qp.h"

#include "quadruped/dense_kernels.h"

#include <math.h>

#define SUSPICIOUS 1e-7       // pivot of S, relative, below which a row may depend on others
#define LEAST_PIVOT 1e-13     // of S, relative, where it does not
#define LEAST_CURVATURE 1e-11 // pivot of H, relative, below which it counts as singular
#define VIOLATION 1e-11       // of a row that joins W, relative to its terms
#define CERTIFICATE 1e-8      // of an infeasible or unbounded problem, relative
#define FLAT 1e-11            // H along a direction in which an unbounded problem falls, relative
#define CONTRADICTED 1e-10    // of bounds, relative
#define PROXIMAL 1e-6         // rho, relative to the diagonal of H
#define REFINED 1e-14         // residual below which nothing is left to refine
#define STATIONARY 1e-10      // residual at which c stays
enum { REFINEMENTS = 6, CENTRES = 400, LEFT_OUT = 2 };

struct quad_qp {
    ns_allocator allocator;
    uint32_t n, m; // most
    quad_inverse_kernel* invert;
    quad_add_rows_kernel* add_rows;

    double* inverse;        // (n x n) of H + rho I
    double *g, *x0, *x, *c; // (n) x0 = -inverse g; c: the centre of the proximal term
    double *r, *d;          // (n) a residual and what it moves
    double* work;           // (3 n)
    double* norms;          // (m) of rows; 0: has no entries
    int8_t* side; // (m) in W: 1 at the upper bound, -1 at the lower; 0: not in W; LEFT_OUT

    uint32_t count;   // of W, at most n
    uint32_t* rows;   // (n) of W
    double** v;       // (n) inverse a of the rows of W; those after `count` are free
    double* factor;   // (n x n) L, unit lower triangle
    double* pivots;   // (n) D
    double *y, *next; // (n) multipliers of W; those it moves to
    double *s, *l;    // (n) column of S for a row that joins, and of L
    double* values;   // (n) for products
    const double** states;
    uint32_t iterations, limit;
};

// ---- memory --------------------------------------------------------------------------------

ns_status quad_qp_create(uint32_t n, uint32_t m, const ns_allocator* allocator, quad_qp** out,
                         ns_error* error) {
    *out = NULL;
    // An empty problem still has buffers.
    if (n == 0) n = 1;
    quad_qp* qp = quad_alloc_zeroed(allocator, sizeof *qp);
    if (!qp) return quad_fail_nomem(error);
    qp->allocator = allocator ? *allocator : ns_default_allocator();
    qp->n = n;
    qp->m = m;

    // Allocate four blocks, the first for all numbers.
    size_t square = (size_t)n * n;
    qp->inverse = quad_alloc(&qp->allocator, (3 * square + 15 * (size_t)n + m) * sizeof(double));
    qp->v = quad_alloc(&qp->allocator, 2 * (size_t)n * sizeof *qp->v);
    qp->rows = quad_alloc(&qp->allocator, n * sizeof *qp->rows);
    qp->side = quad_alloc(&qp->allocator, m);
    if (!qp->inverse || !qp->v || !qp->rows || !qp->side) {
        quad_qp_free(qp);
        return quad_fail_nomem(error);
    }

    // Partition it into matrices and vectors.
    double* at = qp->inverse + square;
    // Columns of H^-1 A' for the rows of the working set.
    for (uint32_t k = 0; k < n; k++, at += n) qp->v[k] = at;
    qp->states = (const double**)(qp->v + n);
    qp->factor = at, at += square;
    // Vectors of length n.
    double** const vectors[] = {&qp->g, &qp->x0, &qp->x,    &qp->c, &qp->r,      &qp->d,
                                &qp->y, &qp->s,  &qp->next, &qp->l, &qp->pivots, &qp->values};
    for (size_t k = 0; k < sizeof vectors / sizeof *vectors; k++, at += n) *vectors[k] = at;
    qp->work = at;
    qp->norms = at + 3 * (size_t)n;

    // Choose the kernels of this machine.
    qp->invert = quad_inverse_generic;
    qp->add_rows = quad_add_rows_generic;
#ifdef QUAD_HAVE_AVX2_KERNELS
    if (quad_cpu_has_avx2_fma()) {
        qp->invert = quad_inverse_avx2;
        qp->add_rows = quad_add_rows_avx2;
    }
#endif

    *out = qp;
    return NS_OK;
}

void quad_qp_free(quad_qp* qp) {
    if (!qp) return;
    ns_allocator memory = qp->allocator;
    quad_free(&memory, qp->inverse);
    quad_free(&memory, (void*)qp->v);
    quad_free(&memory, qp->rows);
    quad_free(&memory, qp->side);
    quad_free(&memory, qp);
}

// ---- small products ------------------------------------------------------------------------

static double row_product(const quad_qp_problem* p, uint32_t row, const double* x) {
    double sum = 0.0;
    for (uint32_t e = p->start[row]; e < p->start[row + 1]; e++) {
        sum += p->values[e] * x[p->columns[e]];
    }
    return sum;
}

static void add_row(const quad_qp_problem* p, uint32_t row, double factor, double* out) {
    for (uint32_t e = p->start[row]; e < p->start[row + 1]; e++) {
        out[p->columns[e]] += factor * p->values[e];
    }
}

static double largest(uint32_t n, const double* x) {
    double most = 0.0;
    for (uint32_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

// out += sign * A x for a symmetric matrix.
static void add_symmetric(quad_qp* qp, uint32_t n, const double* A, const double* x, double sign,
                          double* out) {
    for (uint32_t k = 0; k < n; k++) {
        qp->values[k] = sign * x[k];
        qp->states[k] = A + (size_t)k * n;
    }
    qp->add_rows(n, n, qp->values, qp->states, out);
}

// out -= sum of y_k v_k over W.
static void subtract_working(quad_qp* qp, uint32_t n, const double* y, double* out) {
    for (uint32_t k = 0; k < qp->count; k++) {
        qp->values[k] = -y[k];
        qp->states[k] = qp->v[k];
    }
    qp->add_rows(n, qp->count, qp->values, qp->states, out);
}

static double bound(const quad_qp_problem* p, uint32_t row, int side) {
    return side > 0 ? p->upper[row] : p->lower[row];
}

// ---- the factor of S -----------------------------------------------------------------------

// Solve L D L' x = b in place.
static void solve_factor(const quad_qp* qp, double* b) {
    const uint32_t count = qp->count;
    const size_t stride = qp->n;
    for (uint32_t i = 0; i < count; i++) {
        const double* row = qp->factor + i * stride;
        double sum = b[i];
        for (uint32_t j = 0; j < i; j++) sum -= row[j] * b[j];
        b[i] = sum;
    }
    for (uint32_t i = 0; i < count; i++) b[i] /= qp->pivots[i];
    for (uint32_t i = count; i-- > 0;) {
        const double *row = qp->factor + i * stride, xi = b[i];
        for (uint32_t j = 0; j < i; j++) b[j] -= row[j] * xi;
    }
}

// The column of S for a row that is to join, into s, and what of it is its own, in relation to its
// diagonal: close to 0 when the row depends on those in W. Leaves inverse a in the free v, and the
// column of L in l.
static double prepare_row(quad_qp* qp, const quad_qp_problem* p, uint32_t row, double* pivot) {
    const uint32_t n = p->n, count = qp->count;
    double* v = count < n ? qp->v[count] : qp->d; // when none is free, none is needed
    memset(v, 0, n * sizeof *v);
    uint32_t entries = p->start[row + 1] - p->start[row];
    for (uint32_t e = 0; e < entries; e++) {
        qp->values[e] = p->values[p->start[row] + e];
        qp->states[e] = qp->inverse + (size_t)p->columns[p->start[row] + e] * n;
    }
    qp->add_rows(n, entries, qp->values, qp->states, v);

    double diagonal = row_product(p, row, v);
    *pivot = diagonal;
    for (uint32_t k = 0; k < count; k++) {
        const double* of_k = qp->factor + (size_t)k * qp->n;
        double sum = qp->s[k] = row_product(p, qp->rows[k], v);
        for (uint32_t j = 0; j < k; j++) sum -= of_k[j] * qp->l[j];
        qp->l[k] = sum;
    }
    for (uint32_t k = 0; k < count; k++) {
        double scaled = qp->l[k] / qp->pivots[k];
        *pivot -= scaled * qp->l[k];
        qp->l[k] = scaled;
    }
    return diagonal > 0.0 && count < n ? *pivot / diagonal : 0.0;
}

// The row that was prepared joins W.
static void append_row(quad_qp* qp, uint32_t row, int side, double y, double pivot) {
    uint32_t k = qp->count++;
    qp->rows[k] = row;
    qp->side[row] = (int8_t)side;
    qp->y[k] = y;
    qp->pivots[k] = pivot;
    memcpy(qp->factor + (size_t)k * qp->n, qp->l, k * sizeof *qp->l);
}

// Row k of W leaves it: without row and column k, what is below is L D L' plus d l l' (Gill, Golub,
// Murray & Saunders 1974, method C1).
static void remove_row(quad_qp* qp, uint32_t k) {
    const size_t stride = qp->n;
    const uint32_t last = --qp->count;
    double *l = qp->l, weight = qp->pivots[k], *freed = qp->v[k];
    // The row is free again.
    qp->side[qp->rows[k]] = 0;

    // Close the gap in working set and factor; the column of the removed row remains.
    for (uint32_t i = k; i < last; i++) {
        double* to = qp->factor + i * stride;
        const double* from = to + stride;
        // Entries of that column.
        l[i] = from[k];
        memcpy(to, from, k * sizeof *to);
        memcpy(to + k, from + k + 1, (i - k) * sizeof *to);
        // Multipliers and pivots move along.
        qp->rows[i] = qp->rows[i + 1];
        qp->y[i] = qp->y[i + 1];
        qp->pivots[i] = qp->pivots[i + 1];
        qp->v[i] = qp->v[i + 1];
    }

    // Rank-one update of the rows behind it.
    // Its memory is reused for the next row.
    qp->v[last] = freed;
    for (uint32_t j = k; j < last; j++) {
        // Pivots only grow, so the factor stays positive definite.
        double p = l[j], old = qp->pivots[j], d = old + weight * p * p, b = weight * p / d;
        weight *= old / d;
        qp->pivots[j] = d;
        for (uint32_t i = j + 1; i < last; i++) {
            double* entry = qp->factor + i * stride + j;
            l[i] -= p * *entry;
            *entry += b * l[i];
        }
    }
}

// ---- the working set -----------------------------------------------------------------------

// Of an equality the multiplier may have any sign.
static bool may_leave(const quad_qp_problem* p, uint32_t row) {
    return p->lower[row] < p->upper[row];
}

// The multipliers of W as `next`.
static void solve_working(quad_qp* qp, const quad_qp_problem* p) {
    for (uint32_t k = 0; k < qp->count; k++) {
        uint32_t row = qp->rows[k];
        qp->next[k] = row_product(p, row, qp->x0) - bound(p, row, qp->side[row]);
    }
    solve_factor(qp, qp->next);
}

// Move y towards `next`; the first multiplier to change its sign on the way leaves W. False when all
// of the way was gone.
static bool leave_one(quad_qp* qp, const quad_qp_problem* p) {
    uint32_t first = QUAD_NONE;
    double step = 1.0;
    for (uint32_t k = 0; k < qp->count; k++) {
        int8_t side = qp->side[qp->rows[k]];
        if (!may_leave(p, qp->rows[k]) || side * qp->next[k] >= 0.0) continue;
        double t = qp->y[k] / (qp->y[k] - qp->next[k]);
        if (first == QUAD_NONE || t < step) step = t, first = k;
    }
    for (uint32_t k = 0; k < qp->count; k++) {
        qp->y[k] = first == QUAD_NONE ? qp->next[k] : qp->y[k] + step * (qp->next[k] - qp->y[k]);
    }
    if (first == QUAD_NONE) return false;
    remove_row(qp, first);
    return true;
}

// The row outside of W that is violated most for its length; QUAD_NONE when none is.
static uint32_t find_violated(const quad_qp* qp, const quad_qp_problem* p, int* side) {
    const double size = fmax(largest(p->n, qp->x0), largest(p->n, qp->x));
    uint32_t found = QUAD_NONE;
    double most = 0.0;
    for (uint32_t row = 0; row < p->m; row++) {
        if (qp->side[row] || qp->norms[row] == 0.0) continue;
        double value = row_product(p, row, qp->x);
        int over = value > p->upper[row] ? 1 : -1;
        double violation = over * (value - bound(p, row, over));
        if (violation <= VIOLATION * (qp->norms[row] * size + fabs(value))) continue;
        violation /= qp->norms[row];
        if (violation > most) most = violation, found = row, *side = over;
    }
    return found;
}

// What is to be made of a row that is violated and looks as if it depends on W.
typedef enum dependency {
    NO_DEPENDENCY, // A' y is not 0: it only looked so
    CONTRADICTION, // A' y = 0 and the bounds times y are below 0
    ROUNDING       // the same, but by no more than rounding
} dependency;

// A' y into r.
static void combine_rows(quad_qp* qp, const quad_qp_problem* p, uint32_t row, int sign) {
    memset(qp->r, 0, p->n * sizeof *qp->r);
    add_row(p, row, sign, qp->r);
    for (uint32_t k = 0; k < qp->count; k++) add_row(p, qp->rows[k], qp->next[k], qp->r);
}

// With `sign` as the multiplier of the row, and those of W, as `next`, that cancel it.
static dependency classify(quad_qp* qp, const quad_qp_problem* p, uint32_t row, int sign) {
    const uint32_t n = p->n;

    // Express the row as a combination of the working set, as far as possible.
    for (uint32_t k = 0; k < qp->count; k++) qp->next[k] = -sign * qp->s[k];
    solve_factor(qp, qp->next);
    combine_rows(qp, p, row, sign);

    // Iterative refinement, because the factor is that of a product.
    for (int round = 0; round < REFINEMENTS; round++) { // the factor is that of a product
        memset(qp->d, 0, n * sizeof *qp->d);
        add_symmetric(qp, n, qp->inverse, qp->r, -1.0, qp->d);
        for (uint32_t k = 0; k < qp->count; k++) qp->s[k] = row_product(p, qp->rows[k], qp->d);
        solve_factor(qp, qp->s);
        for (uint32_t k = 0; k < qp->count; k++) qp->next[k] += qp->s[k];
        combine_rows(qp, p, row, sign);
    }

    // The same combination of the bounds tells whether they contradict each other.
    double value = sign * bound(p, row, sign), terms = fabs(value), most = qp->norms[row];
    double off = 0.0;
    for (uint32_t k = 0; k < qp->count; k++) {
        uint32_t other = qp->rows[k];
        double product = qp->next[k] * bound(p, other, qp->side[other]);
        value += product;
        terms = fmax(terms, fabs(product));
        most = fmax(most, fabs(qp->next[k]) * qp->norms[other]);
    }

    // The residual of the combination: large means that the row is independent.
    for (uint32_t i = 0; i < n; i++) off += fabs(qp->r[i]);
    if (off > CERTIFICATE * most) return NO_DEPENDENCY;
    // Compare with rounding: bounds may be small by cancellation, so the size of x counts, too.
    double size = largest(n, qp->x);
    double allowed = CONTRADICTED * fmax(terms, most * size) + 100.0 * off * size;
    return value < -allowed ? CONTRADICTION : ROUNDING;
}

// A violated row joins W, or is left out for what rounding did to it. False when the rows contradict
// each other.
static bool join_row(quad_qp* qp, const quad_qp_problem* p, uint32_t row, int side) {
    // Its multiplier starts at 0.
    double y = 0.0, pivot;

    // As long as the row depends on the working set, another one must leave for it.
    while (!(prepare_row(qp, p, row, &pivot) > SUSPICIOUS)) {
        dependency found = classify(qp, p, row, side);
        // Nearly dependent: regularise the pivot.
        if (found == NO_DEPENDENCY && qp->count < p->n) {
            double share = prepare_row(qp, p, row, &pivot);
            double diagonal = row_product(p, row, qp->v[qp->count]);
            if (share < LEAST_PIVOT) pivot = LEAST_PIVOT * diagonal;
            break;
        }

        // Ratio test: move the multiplier of the row, and compensate by those of the working set.
        uint32_t first = QUAD_NONE;
        double step = INFINITY;
        for (uint32_t k = 0; k < qp->count; k++) {
            int8_t of_k = qp->side[qp->rows[k]];
            // Only inequalities whose multiplier moves towards 0 can block.
            if (!may_leave(p, qp->rows[k]) || of_k * qp->next[k] >= 0.0) continue;
            double t = -qp->y[k] / qp->next[k];
            if (t < step) step = t, first = k;
        }

        // No row can leave: either the bounds contradict each other, or the row is redundant.
        if (first == QUAD_NONE && found == CONTRADICTION) return false;
        if (first == QUAD_NONE) {
            qp->side[row] = LEFT_OUT;
            return true;
        }

        // The blocking row leaves at the step at which its multiplier becomes 0.
        for (uint32_t k = 0; k < qp->count; k++) qp->y[k] += step * qp->next[k];
        y += side * step;
        remove_row(qp, first);
        qp->iterations++;
    }

    append_row(qp, row, side, y, pivot);
    return true;
}

// Rows that were active before; those that depend on others are left out.
static void start_working(quad_qp* qp, const quad_qp_problem* p, const int8_t* active) {
    qp->count = 0;
    memset(qp->side, 0, p->m);
    for (uint32_t row = 0; row < p->m; row++) {
        int side = may_leave(p, row) ? active[row] : 1;
        double pivot;
        if (side == 0 || qp->norms[row] == 0.0 || isinf(bound(p, row, side))) continue;
        if (prepare_row(qp, p, row, &pivot) > SUSPICIOUS) append_row(qp, row, side, 0.0, pivot);
    }
}

// ---- answers -------------------------------------------------------------------------------

// Newton's method on H x + rho (x - c) + g + A' y = 0 and the rows of W, which is linear: what is
// left is rounding.
static void refine(quad_qp* qp, const quad_qp_problem* p, double rho) {
    const uint32_t n = p->n;
    double before = INFINITY;
    for (int round = 0; round < REFINEMENTS; round++) {
        // Residual of stationarity.
        memcpy(qp->r, p->g, n * sizeof *qp->r);
        add_symmetric(qp, n, p->H, qp->x, 1.0, qp->r);
        for (uint32_t i = 0; i < n; i++) qp->r[i] += rho * (qp->x[i] - qp->c[i]);
        double scale = 0.0;
        for (uint32_t k = 0; k < qp->count; k++) {
            add_row(p, qp->rows[k], qp->y[k], qp->r);
            scale = fmax(scale, fabs(qp->y[k]) * qp->norms[qp->rows[k]]);
        }

        // Newton step without the rows of the working set.
        memset(qp->d, 0, n * sizeof *qp->d);
        add_symmetric(qp, n, qp->inverse, qp->r, -1.0, qp->d);

        // Violation of the bounds of the working set.
        double gap = 0.0;
        for (uint32_t k = 0; k < qp->count; k++) {
            uint32_t row = qp->rows[k];
            double off = row_product(p, row, qp->x) - bound(p, row, qp->side[row]);
            gap = fmax(gap, fabs(off) / qp->norms[row]);
            qp->next[k] = off + row_product(p, row, qp->d);
        }

        // Stop when both are small, or stop decreasing.
        double now = fmax(largest(n, qp->r) / fmax(fmax(scale, largest(n, p->g)), 1e-300),
                          gap / fmax(largest(n, qp->x), 1e-300));
        if (now < REFINED || now > 0.5 * before) break;
        before = now;

        // Correct x and the multipliers.
        solve_factor(qp, qp->next);
        subtract_working(qp, n, qp->next, qp->d);
        for (uint32_t i = 0; i < n; i++) qp->x[i] += qp->d[i];
        for (uint32_t k = 0; k < qp->count; k++) qp->y[k] += qp->next[k];
    }
}

// Solve the problem with the proximal term. What it started from is in W.
static quad_qp_status solve_centred(quad_qp* qp, const quad_qp_problem* p, double rho) {
    const uint32_t n = p->n;

    // Unconstrained minimum.
    for (uint32_t i = 0; i < n; i++) qp->g[i] = p->g[i] - rho * qp->c[i];
    memset(qp->x0, 0, n * sizeof *qp->x0);
    add_symmetric(qp, n, qp->inverse, qp->g, -1.0, qp->x0);

    // Dual method of Goldfarb & Idnani (1983): multipliers stay feasible, violated rows join.
    while (qp->iterations++ < qp->limit) {
        solve_working(qp, p);
        // A multiplier of the wrong sign means that a row must leave.
        if (leave_one(qp, p)) continue;

        // Primal solution of the working set.
        memcpy(qp->x, qp->x0, n * sizeof *qp->x);
        subtract_working(qp, n, qp->y, qp->x);

        // Add the most violated row, or finish.
        int side = 0;
        uint32_t row = find_violated(qp, p, &side);
        if (row == QUAD_NONE) {
            refine(qp, p, rho);
            return QUAD_QP_SOLVED;
        }
        if (!join_row(qp, p, row, side)) {
            // Certificate of infeasibility: multipliers of all rows, none of the wrong sign by
            // rounding.
            for (uint32_t k = 0; k < qp->count; k++) {
                bool wrong = may_leave(p, qp->rows[k]) && qp->side[qp->rows[k]] * qp->next[k] < 0.0;
                qp->y[k] = wrong ? 0.0 : qp->next[k];
            }
            qp->side[row] = (int8_t)side;
            return QUAD_QP_INFEASIBLE;
        }
    }
    return QUAD_QP_INEXACT;
}

static void put_multipliers(const quad_qp* qp, const quad_qp_problem* p, quad_qp_status status,
                            double* y) {
    for (uint32_t row = 0; row < p->m; row++) y[row] = 0.0;
    if (status == QUAD_QP_INFEASIBLE) { // the row that could not join has the multiplier 1
        for (uint32_t row = 0; row < p->m; row++) {
            if (qp->side[row] != LEFT_OUT) y[row] = qp->side[row];
        }
    }
    for (uint32_t k = 0; k < qp->count; k++) y[qp->rows[k]] = qp->y[k];
}

// Does the objective fall along d for ever, with no row in the way?
static bool is_unbounded(quad_qp* qp, const quad_qp_problem* p, double* d) {
    const uint32_t n = p->n;
    double size = largest(n, d), slope = 0.0, terms = 0.0, most = 0.0;
    if (!(size > 0.0)) return false;
    for (uint32_t i = 0; i < n; i++) {
        d[i] /= size;
        slope += p->g[i] * d[i];
        terms = fmax(terms, fabs(p->g[i]));
        most = fmax(most, fabs(p->H[(size_t)i * n + i]));
    }
    memset(qp->r, 0, n * sizeof *qp->r);
    add_symmetric(qp, n, p->H, d, 1.0, qp->r);
    if (largest(n, qp->r) > FLAT * most || !(slope < -CERTIFICATE * terms)) return false;
    for (uint32_t row = 0; row < p->m; row++) {
        double value = row_product(p, row, d), allowed = CERTIFICATE * qp->norms[row];
        if (!isinf(p->upper[row]) && value > allowed) return false;
        if (!isinf(p->lower[row]) && value < -allowed) return false;
    }
    return true;
}

// Move the centre until it stays.
static quad_qp_status solve_proximal(quad_qp* qp, const quad_qp_problem* p, const int8_t* active,
                                     double* y) {
    const uint32_t n = p->n;
    double most = 0.0;
    for (uint32_t i = 0; i < n; i++) most = fmax(most, p->H[(size_t)i * n + i]);
    if (most == 0.0) most = fmax(largest(n, p->g), 1e-300);
    const double rho = PROXIMAL * most;
    memcpy(qp->inverse, p->H, (size_t)n * n * sizeof *qp->inverse);
    for (uint32_t i = 0; i < n; i++) qp->inverse[(size_t)i * n + i] += rho;
    if (!qp->invert(n, qp->inverse, 0.0, qp->work)) return QUAD_QP_BAD_INPUT; // not semidefinite
    start_working(qp, p, active);
    for (int round = 0; round < CENTRES; round++) {
        quad_qp_status status = solve_centred(qp, p, rho);
        if (status != QUAD_QP_SOLVED) return status;
        put_multipliers(qp, p, status, y);
        if (quad_qp_residual(p, qp->x, y, qp->work) <= STATIONARY) break;
        for (uint32_t i = 0; i < n; i++) {
            qp->d[i] = qp->x[i] - qp->c[i];
            qp->c[i] = qp->x[i];
        }
        if (is_unbounded(qp, p, qp->d)) {
            memcpy(qp->x, qp->d, n * sizeof *qp->x);
            return QUAD_QP_UNBOUNDED;
        }
    }
    return QUAD_QP_SOLVED;
}

// The larger of the bounds of a row that are neither infinite nor 0; infinite when none is.
static double widest_bound(const quad_qp_problem* p, uint32_t row) {
    double lower = fabs(p->lower[row]), upper = fabs(p->upper[row]);
    double widest = fmax(isinf(lower) ? 0.0 : lower, isinf(upper) ? 0.0 : upper);
    return widest > 0.0 ? widest : (double)INFINITY;
}

double quad_qp_residual(const quad_qp_problem* p, const double* x, const double* y, double* work) {
    const uint32_t n = p->n;
    double *Hx = work, *Ay = work + n;
    memset(Ay, 0, n * sizeof *Ay);

    // Scales: the largest term of stationarity, and the largest term of a row.
    double forces = 1e-300, lengths = 1e-300, worst = 0.0, finite = 0.0, steepest = 0.0;
    for (uint32_t i = 0; i < n; i++) steepest = fmax(steepest, p->H[(size_t)i * n + i]);
    // An answer of 0 has no length of its own. This one is at most n times that of the answer without
    // rows, as no entry of H is above its largest diagonal one; that answer need not exist.
    const double usual = steepest > 0.0 ? largest(n, p->g) / steepest : 0.0;
    for (uint32_t row = 0; row < p->m; row++) {
        add_row(p, row, y[row], Ay);
        for (uint32_t e = p->start[row]; e < p->start[row + 1]; e++) {
            lengths = fmax(lengths, fabs(p->values[e] * x[p->columns[e]]));
            forces = fmax(forces, fabs(p->values[e] * y[row]));
        }
    }

    // H x, and its largest term.
    // Stationarity: H x + g + A' y.
    for (uint32_t i = 0; i < n; i++) {
        double sum = 0.0, most = fabs(p->g[i]);
        for (uint32_t j = 0; j < n; j++) {
            double term = p->H[(size_t)i * n + j] * x[j], size = fabs(term);
            sum += term;
            most = size > most ? size : most;
        }
        Hx[i] = sum;
        forces = fmax(forces, most);
    }
    for (uint32_t i = 0; i < n; i++) {
        double off = fabs(Hx[i] + p->g[i] + Ay[i]) / forces;
        worst = off > worst ? off : worst;
        finite += off - off; // NaN when it is not
    }

    // Bounds and complementarity of each row.
    for (uint32_t row = 0; row < p->m; row++) {
        double value = row_product(p, row, x), most = 0.0, norm = 0.0;
        double over = fmax(value - p->upper[row], p->lower[row] - value);
        double limit = bound(p, row, y[row] > 0.0 ? 1 : -1);
        for (uint32_t e = p->start[row]; e < p->start[row + 1]; e++) {
            most = fmax(most, fabs(p->values[e] * y[row]));
            norm = fmax(norm, fabs(p->values[e]));
        }
        double length = fmin(norm * usual, widest_bound(p, row));
        double scale = fmax(fmax(lengths, length), isinf(limit) ? 0.0 : fabs(limit));
        double pair = fmin(most / forces, fabs(value - limit) / scale);
        double off = fmax(fmax(over, 0.0) / scale, y[row] == 0.0 ? 0.0 : pair);
        worst = off > worst ? off : worst;
        finite += off - off;
    }

    return finite == 0.0 ? worst : INFINITY;
}

// ---- the whole -----------------------------------------------------------------------------

// Norms of rows, and what is wrong with the numbers; also rows without entries that contradict
// themselves.
static quad_qp_status qp_check(quad_qp* qp, const quad_qp_problem* p) {
    quad_qp_status status = QUAD_QP_SOLVED;
    if (p->n > qp->n || p->m > qp->m) return QUAD_QP_BAD_INPUT;
    for (uint32_t row = 0; row < p->m; row++) {
        double norm = 0.0;
        for (uint32_t e = p->start[row]; e < p->start[row + 1]; e++) {
            if (!isfinite(p->values[e])) return QUAD_QP_BAD_INPUT;
            norm = fmax(norm, fabs(p->values[e]));
        }
        qp->norms[row] = norm;
        double lower = p->lower[row], upper = p->upper[row];
        if (!(lower <= upper) || lower == INFINITY || upper == -INFINITY) return QUAD_QP_BAD_INPUT;
        if (norm == 0.0 && (lower > 0.0 || upper < 0.0)) status = QUAD_QP_INFEASIBLE;
    }
    for (uint32_t i = 0; i < p->n; i++) {
        double diagonal = p->H[(size_t)i * p->n + i];
        if (!(diagonal >= 0.0) || isinf(diagonal) || !isfinite(p->g[i])) return QUAD_QP_BAD_INPUT;
    }
    double finite[4] = {0}; // x - x is NaN for what is not finite
    size_t k = 0, count = (size_t)p->n * p->n;
    for (; k + 4 <= count; k += 4) {
        for (size_t l = 0; l < 4; l++) finite[l] += p->H[k + l] - p->H[k + l];
    }
    for (; k < count; k++) finite[0] += p->H[k] - p->H[k];
    return finite[0] + finite[1] + finite[2] + finite[3] == 0.0 ? status : QUAD_QP_BAD_INPUT;
}

// One of the rows without entries that contradict themselves proves it.
static void prove_empty(const quad_qp* qp, const quad_qp_problem* p, double* y) {
    for (uint32_t row = 0; row < p->m; row++) {
        if (qp->norms[row] > 0.0 || (p->lower[row] <= 0.0 && p->upper[row] >= 0.0)) continue;
        y[row] = p->upper[row] < 0.0 ? 1.0 : -1.0;
        return;
    }
}

quad_qp_report quad_qp_solve(quad_qp* qp, const quad_qp_problem* p, int8_t* active, double* x,
                             double* y) {
    const uint32_t n = p->n;
    const size_t bytes = (size_t)n * n * sizeof(double);

    // Refuse what is not a problem, and prove bounds that cross.
    quad_qp_report report = {.status = qp_check(qp, p), .residual = INFINITY};
    memset(x, 0, n * sizeof *x);
    memset(y, 0, p->m * sizeof *y);
    if (report.status == QUAD_QP_INFEASIBLE) prove_empty(qp, p, y);
    if (report.status != QUAD_QP_SOLVED) return report;
    qp->iterations = 0;
    qp->limit = 10 * (n + p->m) + 50;
    memset(qp->c, 0, n * sizeof *qp->c);

    // A definite H: the dual method as it is.
    memcpy(qp->inverse, p->H, bytes);
    bool definite = qp->invert(n, qp->inverse, LEAST_CURVATURE, qp->work);
    if (definite) {
        start_working(qp, p, active);
        report.status = solve_centred(qp, p, 0.0);
        put_multipliers(qp, p, report.status, y);
        report.residual = quad_qp_residual(p, qp->x, y, qp->work);
    }

    // Otherwise, or when that was not exact enough: the same around centres that move to the
    // solution.
    bool exact = report.status == QUAD_QP_INFEASIBLE || report.residual <= QUAD_QP_TOLERANCE;
    if (!definite || !exact) {
        uint32_t before = qp->iterations;
        qp->limit += before + 20 * CENTRES;
        report.status = solve_proximal(qp, p, active, y);
        if (report.status == QUAD_QP_BAD_INPUT) return report;
        put_multipliers(qp, p, report.status, y);
        report.residual = quad_qp_residual(p, qp->x, y, qp->work);
    }

    // What it is worth.
    memcpy(x, qp->x, n * sizeof *x);
    if (report.status == QUAD_QP_INFEASIBLE || report.status == QUAD_QP_UNBOUNDED) {
        report.residual = INFINITY;
    } else if (report.status == QUAD_QP_SOLVED && !(report.residual <= QUAD_QP_TOLERANCE)) {
        report.status = QUAD_QP_INEXACT;
    }
    report.iterations = qp->iterations;
    report.active = qp->count;

    // The working set, to start the next problem from.
    for (uint32_t row = 0; row < p->m; row++) {
        active[row] = qp->side[row] == LEFT_OUT ? 0 : qp->side[row];
    }
    return report;
}
