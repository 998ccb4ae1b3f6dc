// The QP solver on thousands of random problems, of which many are degenerate: its answers are held to
// the KKT conditions, and its proofs that there is no answer to what they prove, all in long double.

#include "neuralsim/random.h"
#include "quadruped/qp.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { N = 40, M = 90 };

typedef struct qp_case {
    quad_qp_problem p;
    double H[N * N], g[N], values[M * N], lower[M], upper[M];
    uint32_t start[M + 1], columns[M * N];
    double x[N], y[M];
    int8_t active[M];
} qp_case;

// What is wrong with a random problem, or hard about it.
typedef enum problem_kind {
    PLAIN,
    DEGENERATE, // repeated rows, rows without entries, sums of rows, many rows through one point
    EQUALITIES,
    NEARLY_FLAT, // H of condition 1e8
    FLAT,        // H singular, with bounds on all variables
    LINEAR,      // H = 0, with bounds
    BADLY_SCALED,
    ZERO, // the answer is x = 0, at bounds of 0
    KINDS
} problem_kind;

static const char* const kind_names[] = {"plain", "degenerate", "equalities",   "nearly flat",
                                         "flat",  "linear",     "badly scaled", "zero"};

static void symmetric_part(ns_rng* rng, qp_case* c, uint32_t rank, double least) {
    const uint32_t n = c->p.n;
    double B[N * N];
    for (uint32_t k = 0; k < rank * n; k++) B[k] = ns_rng_normal(rng);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            double sum = i == j ? least : 0.0;
            for (uint32_t k = 0; k < rank; k++) sum += B[k * n + i] * B[k * n + j];
            c->H[i * n + j] = sum;
        }
    }
}

static void begin_rows(qp_case* c) {
    c->p.m = 0;
    c->start[0] = 0;
}

static void add_row(qp_case* c, const double* row, double lower, double upper) {
    uint32_t e = c->start[c->p.m];
    for (uint32_t j = 0; j < c->p.n; j++) {
        if (row[j] == 0.0) continue;
        c->columns[e] = j;
        c->values[e++] = row[j];
    }
    c->lower[c->p.m] = lower;
    c->upper[c->p.m] = upper;
    c->start[++c->p.m] = e;
}

static void point_at(qp_case* c) {
    c->p.H = c->H, c->p.g = c->g;
    c->p.start = c->start, c->p.columns = c->columns, c->p.values = c->values;
    c->p.lower = c->lower, c->p.upper = c->upper;
}

// A feasible problem around a random point z.
static void make(qp_case* c, ns_rng* rng, problem_kind kind) {
    *c = (qp_case){.p.n = 1 + ns_rng_below(rng, N)};
    const uint32_t n = c->p.n, m = ns_rng_below(rng, M - N + 1);
    double z[N], row[N], previous[N] = {0};
    uint32_t rank = kind == FLAT ? ns_rng_below(rng, n) : kind == LINEAR ? 0 : n + 1 - n % 2;
    if (rank > n) rank = n;
    symmetric_part(rng, c, rank, kind == FLAT || kind == LINEAR ? 0.0 : 1e-3);
    if (kind == NEARLY_FLAT) symmetric_part(rng, c, n / 2, 1e-7);
    for (uint32_t j = 0; j < n; j++) {
        z[j] = kind == ZERO ? 0.0 : ns_rng_normal(rng);
        c->g[j] = 3.0 * ns_rng_normal(rng);
    }
    begin_rows(c);
    for (uint32_t i = 0; i < m; i++) {
        double value = 0.0;
        uint32_t dense = ns_rng_below(rng, 2);
        for (uint32_t j = 0; j < n; j++) {
            bool zero = !dense && ns_rng_below(rng, n) > 3;
            row[j] = zero ? 0.0 : ns_rng_normal(rng);
            if (kind == BADLY_SCALED) row[j] *= pow(10.0, ns_rng_uniform(rng, -3.0, 3.0));
        }
        double distance = ns_rng_uniform(rng, 0.0, 1.0), lower = -INFINITY, upper = INFINITY;
        if (kind == ZERO && ns_rng_below(rng, 2) == 0) distance = 0.0;
        if (kind == DEGENERATE) {
            uint32_t how = ns_rng_below(rng, 5);
            if (how == 0) memset(row, 0, sizeof row);
            if (how == 1) memcpy(row, previous, sizeof row);
            for (uint32_t j = 0; j < n && how == 2; j++) row[j] += previous[j];
            for (uint32_t j = 0; j < n && how == 3; j++) row[j] = -2.0 * previous[j];
            if (how > 1) distance = 0.0;
        }
        memcpy(previous, row, sizeof row);
        for (uint32_t j = 0; j < n; j++) value += row[j] * z[j];
        uint32_t sides = ns_rng_below(rng, 3);
        if (sides != 1) upper = value + distance;
        if (sides != 0) lower = value - ns_rng_uniform(rng, 0.0, 2.0) * distance;
        if (kind == EQUALITIES && ns_rng_below(rng, 4) == 0) lower = upper = value;
        if (kind == EQUALITIES && i > 0 && ns_rng_below(rng, 9) == 0) { // one of them twice
            lower = upper = value;
            add_row(c, row, value, value);
            if (++i == m) break;
        }
        add_row(c, row, lower, upper);
    }
    for (uint32_t j = 0; j < n && (kind == FLAT || kind == LINEAR); j++) {
        memset(row, 0, sizeof row);
        row[j] = 1.0;
        add_row(c, row, z[j] - 2.0, z[j] + 1.0);
    }
    for (uint32_t j = 0; j < n && kind == ZERO; j++) { // each bound stops the way down from 0
        memset(row, 0, sizeof row);
        row[j] = ns_rng_uniform(rng, 0.1, 10.0);
        double room = ns_rng_below(rng, 3) > 0 ? 1.0 : 0.0;
        add_row(c, row, c->g[j] < 0.0 ? -room : 0.0, c->g[j] < 0.0 ? 0.0 : room);
    }
    point_at(c);
}

// The worst of the KKT conditions, each in relation to its own terms.
static double kkt(const qp_case* c) {
    const uint32_t n = c->p.n;
    long double gradient[N] = {0}, scale[N] = {0}, worst = 0.0L, forces = 0.0L, lengths = 0.0L;
    for (uint32_t i = 0; i < n; i++) {
        gradient[i] = c->g[i];
        scale[i] = fabs(c->g[i]);
        for (uint32_t j = 0; j < n; j++) {
            long double term = (long double)c->H[i * n + j] * c->x[j];
            gradient[i] += term;
            scale[i] = fmaxl(scale[i], fabsl(term));
        }
    }
    for (uint32_t r = 0; r < c->p.m; r++) {
        for (uint32_t e = c->start[r]; e < c->start[r + 1]; e++) {
            uint32_t j = c->columns[e];
            long double term = (long double)c->values[e] * c->y[r];
            gradient[j] += term;
            scale[j] = fmaxl(scale[j], fabsl(term));
            lengths = fmaxl(lengths, fabsl((long double)c->values[e] * c->x[j]));
        }
    }
    long double usual = 0.0L, steepest = 0.0L;
    for (uint32_t i = 0; i < n; i++) {
        usual = fmaxl(usual, fabs(c->g[i]));
        steepest = fmaxl(steepest, c->H[i * n + i]);
    }
    usual = steepest > 0.0L ? usual / steepest : 0.0L;
    for (uint32_t i = 0; i < n; i++) forces = fmaxl(forces, scale[i]);
    for (uint32_t i = 0; i < n; i++) worst = fmaxl(worst, fabsl(gradient[i]) / forces);
    for (uint32_t r = 0; r < c->p.m; r++) {
        long double value = 0.0L, weight = 0.0L, norm = 0.0L;
        for (uint32_t e = c->start[r]; e < c->start[r + 1]; e++) {
            value += (long double)c->values[e] * c->x[c->columns[e]];
            weight = fmaxl(weight, fabsl((long double)c->values[e] * c->y[r]));
            norm = fmaxl(norm, fabs(c->values[e]));
        }
        long double length = norm * usual, bounds = 0.0L;
        if (isfinite(c->lower[r])) bounds = fabs(c->lower[r]);
        if (isfinite(c->upper[r])) bounds = fmaxl(bounds, fabs(c->upper[r]));
        if (bounds > 0.0L) length = fminl(length, bounds);
        long double size = fmaxl(fmaxl(lengths, length), 1e-300L);
        if (c->y[r] > 0.0) size = fmaxl(size, fabs(c->upper[r]));
        if (c->y[r] < 0.0) size = fmaxl(size, fabs(c->lower[r]));
        worst = fmaxl(worst, (value - c->upper[r]) / size);
        worst = fmaxl(worst, (c->lower[r] - value) / size);
        long double slack = c->y[r] > 0.0   ? c->upper[r] - value
                            : c->y[r] < 0.0 ? value - c->lower[r]
                                            : 0.0L;
        worst = fmaxl(worst, fminl(weight / forces, fabsl(slack) / size));
    }
    return (double)worst;
}

static quad_qp* create(void) {
    quad_qp* qp = NULL;
    assert_int_equal(quad_qp_create(N, M, NULL, &qp, NULL), NS_OK);
    return qp;
}

static void feasible_problems_are_solved(void** state) {
    (void)state;
    quad_qp* qp = create();
    ns_rng rng = ns_rng_seed(1);
    static qp_case c;
    for (int k = 0; k < KINDS; k++) {
        residual r = {.name = kind_names[k], .tolerance = 1e-8};
        uint64_t iterations = 0, active = 0;
        for (int repeat = 0; repeat < 1500; repeat++) {
            make(&c, &rng, (problem_kind)k);
            quad_qp_report report = quad_qp_solve(qp, &c.p, c.active, c.x, c.y);
            if (report.status != QUAD_QP_SOLVED) {
                print_message("%s %d: status %d, residual %g, %u variables, %u rows, %u\n",
                              kind_names[k], repeat, report.status, report.residual, c.p.n, c.p.m,
                              report.iterations);
            }
            assert_int_equal(report.status, QUAD_QP_SOLVED);
            residual_add(&r, kkt(&c), 0.0, 1.0);
            for (uint32_t j = 0; j < c.p.n && k == ZERO; j++) assert_true(fabs(c.x[j]) < 1e-12);
            residual_add(&r, report.residual, 0.0, 1.0);
            iterations += report.iterations;
            active += report.active;
        }
        print_message("%.1f iterations, %.1f active rows\n", (double)iterations / 1500.0,
                      (double)active / 1500.0);
        residual_check(&r);
    }
    quad_qp_free(qp);
}

// ---- no answer -----------------------------------------------------------------------------

// A' y = 0 and the bounds times y are below 0: then y' A x cannot be what it must be.
static void check_contradiction(const qp_case* c, residual* r) {
    long double sum[N] = {0}, scale = 0.0L, value = 0.0L, terms = 0.0L;
    for (uint32_t row = 0; row < c->p.m; row++) {
        if (c->y[row] == 0.0) continue;
        long double bound = c->y[row] > 0.0 ? c->upper[row] : c->lower[row];
        assert_true(isfinite((double)bound));
        value += bound * c->y[row];
        terms = fmaxl(terms, fabsl(bound * c->y[row]));
        for (uint32_t e = c->start[row]; e < c->start[row + 1]; e++) {
            long double term = (long double)c->values[e] * c->y[row];
            sum[c->columns[e]] += term;
            scale = fmaxl(scale, fabsl(term));
        }
    }
    assert_true(value < -1e-12L * terms);
    for (uint32_t j = 0; j < c->p.n && scale > 0.0L; j++) {
        residual_add(r, (double)(sum[j] / scale), 0.0, 1.0);
    }
}

static void contradicting_rows_are_found(void** state) {
    (void)state;
    const problem_kind kinds[] = {PLAIN, DEGENERATE, EQUALITIES, NEARLY_FLAT, FLAT, LINEAR};
    quad_qp* qp = create();
    ns_rng rng = ns_rng_seed(2);
    residual r = {.name = "A'y of contradictions", .tolerance = 1e-7};
    static qp_case c;
    int lost = 0;
    for (int repeat = 0; repeat < 3000; repeat++) {
        make(&c, &rng, kinds[repeat % 6]);
        // A sum of rows must be above what their bounds allow.
        double sum[N] = {0}, limit = 0.0;
        uint32_t used = 0;
        for (uint32_t row = 0; row < c.p.m && used < 5; row++) {
            bool up = isfinite(c.upper[row]);
            double weight = ns_rng_uniform(&rng, 0.1, 1.0) * (up ? 1.0 : -1.0);
            if (ns_rng_below(&rng, 3) > 0) continue;
            for (uint32_t e = c.start[row]; e < c.start[row + 1]; e++) {
                sum[c.columns[e]] += weight * c.values[e];
            }
            limit += weight * (up ? c.upper[row] : c.lower[row]);
            used++;
        }
        double margin = ns_rng_uniform(&rng, 1e-3, 1.0);
        if (c.p.m == M) continue;
        add_row(&c, sum, limit + margin, INFINITY);
        quad_qp_report report = quad_qp_solve(qp, &c.p, c.active, c.x, c.y);
        // An answer is never claimed; a proof that is lost in rounding is rare.
        if (report.status == QUAD_QP_INEXACT) {
            lost++;
            continue;
        }
        assert_int_equal(report.status, QUAD_QP_INFEASIBLE);
        check_contradiction(&c, &r);
    }
    print_message("%d of 3000 proofs lost in rounding\n", lost);
    assert_true(lost <= 5);
    residual_check(&r);
    quad_qp_free(qp);
}

static void falling_for_ever_is_found(void** state) {
    (void)state;
    quad_qp* qp = create();
    ns_rng rng = ns_rng_seed(3);
    residual r = {.name = "directions", .tolerance = 1e-7};
    static qp_case c;
    for (int repeat = 0; repeat < 2000; repeat++) {
        // H and the rows with two sides do not see the direction d; others let it pass.
        c = (qp_case){.p.n = 1 + ns_rng_below(&rng, N)};
        const uint32_t n = c.p.n, rank = ns_rng_below(&rng, n + 1);
        double d[N], z[N], v[N], dd = 0.0, gd = 0.0;
        for (uint32_t j = 0; j < n; j++) {
            d[j] = ns_rng_below(&rng, 3) > 0 ? ns_rng_normal(&rng) : 0.0;
            z[j] = ns_rng_normal(&rng);
        }
        d[ns_rng_below(&rng, n)] = 1.0;
        for (uint32_t j = 0; j < n; j++) dd += d[j] * d[j];
        for (uint32_t k = 0; k < rank; k++) {
            double vd = 0.0;
            for (uint32_t j = 0; j < n; j++) vd += (v[j] = ns_rng_normal(&rng)) * d[j];
            for (uint32_t j = 0; j < n; j++) v[j] -= vd * d[j] / dd;
            for (uint32_t i = 0; i < n; i++) {
                for (uint32_t j = 0; j < n; j++) c.H[i * n + j] += v[i] * v[j];
            }
        }
        for (uint32_t j = 0; j < n; j++) gd += (c.g[j] = ns_rng_normal(&rng)) * d[j];
        for (uint32_t j = 0; j < n; j++) c.g[j] -= (gd + 1.0) * d[j] / dd; // so that g'd = -1
        begin_rows(&c);
        for (uint32_t i = ns_rng_below(&rng, M - N); i > 0; i--) {
            uint32_t sides = ns_rng_below(&rng, 3);
            double vd = 0.0, value = 0.0;
            for (uint32_t j = 0; j < n; j++) vd += (v[j] = ns_rng_normal(&rng)) * d[j];
            for (uint32_t j = 0; j < n; j++) {
                if (sides == 2) v[j] -= vd * d[j] / dd;
                if (sides == 0 && vd > 0.0) v[j] = -v[j];
                if (sides == 1 && vd < 0.0) v[j] = -v[j];
                value += v[j] * z[j];
            }
            add_row(&c, v, sides == 0 ? -INFINITY : value - 0.5, sides == 1 ? INFINITY : value);
        }
        point_at(&c);
        quad_qp_report report = quad_qp_solve(qp, &c.p, c.active, c.x, c.y);
        assert_int_equal(report.status, QUAD_QP_UNBOUNDED);

        long double slope = 0.0L, size = 0.0L;
        for (uint32_t j = 0; j < n; j++) {
            slope += (long double)c.g[j] * c.x[j];
            size = fmaxl(size, fabsl((long double)c.x[j]));
        }
        assert_true(slope < 0.0L && size > 0.0L);
        for (uint32_t i = 0; i < n; i++) {
            long double sum = 0.0L;
            for (uint32_t j = 0; j < n; j++) sum += (long double)c.H[i * n + j] * c.x[j];
            residual_add(&r, (double)(sum / size), 0.0, 1.0);
        }
        for (uint32_t row = 0; row < c.p.m; row++) {
            long double sum = 0.0L;
            for (uint32_t e = c.start[row]; e < c.start[row + 1]; e++) {
                sum += (long double)c.values[e] * c.x[c.columns[e]];
            }
            if (isfinite(c.upper[row])) residual_add(&r, (double)fmaxl(sum / size, 0), 0.0, 1.0);
            if (isfinite(c.lower[row])) residual_add(&r, (double)fminl(sum / size, 0), 0.0, 1.0);
        }
    }
    residual_check(&r);
    quad_qp_free(qp);
}

// ---- closed forms --------------------------------------------------------------------------

// Without coupling each variable is by itself: clamped to its bounds.
static void boxes_clamp(void** state) {
    (void)state;
    quad_qp* qp = create();
    ns_rng rng = ns_rng_seed(4);
    residual r = {.name = "boxes", .tolerance = 1e-14};
    static qp_case c;
    for (int repeat = 0; repeat < 100; repeat++) {
        c = (qp_case){.p.n = N};
        begin_rows(&c);
        for (uint32_t j = 0; j < N; j++) {
            double row[N] = {0}, lower = ns_rng_normal(&rng);
            c.H[j * N + j] = ns_rng_uniform(&rng, 0.1, 10.0);
            c.g[j] = ns_rng_normal(&rng);
            row[j] = 1.0;
            add_row(&c, row, lower, lower + ns_rng_uniform(&rng, 0.0, 1.0));
        }
        point_at(&c);
        assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_SOLVED);
        for (uint32_t j = 0; j < N; j++) {
            double free = -c.g[j] / c.H[j * N + j];
            residual_add(&r, c.x[j], fmin(fmax(free, c.lower[j]), c.upper[j]), 1.0);
        }
    }
    residual_check(&r);
    quad_qp_free(qp);
}

// The projection on the plane sum x = 1 is at equal distance from all.
static void equalities_project(void** state) {
    (void)state;
    quad_qp* qp = create();
    static qp_case c;
    c = (qp_case){.p.n = 4, .g = {-1.0, -2.0, -3.0, -4.0}};
    for (uint32_t j = 0; j < 4; j++) c.H[5 * j] = 1.0;
    begin_rows(&c);
    add_row(&c, (double[]){1, 1, 1, 1}, 1.0, 1.0);
    point_at(&c);
    assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_SOLVED);
    for (uint32_t j = 0; j < 4; j++) assert_true(fabs(c.x[j] - (j + 1 - 2.25)) < 1e-14);
    assert_true(fabs(c.y[0] - 2.25) < 1e-14);
    quad_qp_free(qp);
}

// ---- another solver ------------------------------------------------------------------------

static void read_vector(const json_t* list, double* out, double none) {
    for (size_t k = 0; k < json_array_size(list); k++) {
        const json_t* number = json_array_get(list, k);
        out[k] = json_is_null(number) ? none : json_number_value(number);
    }
}

// tests/quadruped/reference.py made the problems and answered them with CVXOPT.
static void cvxopt_has_the_same_answers(void** state) {
    (void)state;
    json_t* problems = json_load_file(NEURALSIM_SOURCE_DIR "/tests/data/control/qp.json", 0, NULL);
    assert_non_null(problems);
    quad_qp* qp = create();
    residual objective = {.name = "objective against CVXOPT", .tolerance = 1e-8};
    residual answer = {.name = "answers against CVXOPT", .tolerance = 1e-5};
    static qp_case c;
    for (size_t k = 0; k < json_array_size(problems); k++) {
        const json_t *p = json_array_get(problems, k), *rows = json_object_get(p, "rows");
        c = (qp_case){.p.n = (uint32_t)json_array_size(json_object_get(p, "g"))};
        double lower[M], upper[M], row[N], x[N], value[2] = {0};
        for (uint32_t i = 0; i < c.p.n; i++) {
            read_vector(json_array_get(json_object_get(p, "H"), i), c.H + i * c.p.n, 0.0);
        }
        read_vector(json_object_get(p, "g"), c.g, 0.0);
        read_vector(json_object_get(p, "lower"), lower, -INFINITY);
        read_vector(json_object_get(p, "upper"), upper, INFINITY);
        read_vector(json_object_get(p, "x"), x, 0.0);
        begin_rows(&c);
        for (size_t r = 0; r < json_array_size(rows); r++) {
            read_vector(json_array_get(rows, r), row, 0.0);
            add_row(&c, row, lower[r], upper[r]);
        }
        point_at(&c);
        assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_SOLVED);
        residual_array(&answer, c.x, x, c.p.n, 1.0);
        for (int which = 0; which < 2; which++) {
            const double* at = which ? c.x : x;
            for (uint32_t i = 0; i < c.p.n; i++) {
                value[which] += c.g[i] * at[i];
                for (uint32_t j = 0; j < c.p.n; j++) {
                    value[which] += 0.5 * at[i] * c.H[i * c.p.n + j] * at[j];
                }
            }
        }
        residual_add(&objective, value[1], value[0], fmax(1.0, fabs(value[0])));
    }
    residual_check(&objective);
    residual_check(&answer);
    quad_qp_free(qp);
    json_decref(problems);
}

// ---- starts --------------------------------------------------------------------------------

static void any_start_ends_in_the_same_place(void** state) {
    (void)state;
    quad_qp* qp = create();
    ns_rng rng = ns_rng_seed(5);
    residual r = {.name = "starts", .tolerance = 1e-9};
    uint64_t cold = 0, warm = 0;
    static qp_case c;
    for (int repeat = 0; repeat < 1000; repeat++) {
        make(&c, &rng, repeat % 2 ? PLAIN : DEGENERATE);
        cold += quad_qp_solve(qp, &c.p, c.active, c.x, c.y).iterations;
        double x[N];
        memcpy(x, c.x, sizeof x);
        quad_qp_report report = quad_qp_solve(qp, &c.p, c.active, c.x, c.y);
        warm += report.iterations;
        assert_int_equal(report.status, QUAD_QP_SOLVED);
        residual_array(&r, c.x, x, c.p.n, 1.0);
        for (uint32_t row = 0; row < c.p.m; row++)
            c.active[row] = (int8_t)(ns_rng_below(&rng, 3) - 1);
        assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_SOLVED);
        residual_array(&r, c.x, x, c.p.n, 1.0);
    }
    print_message("%.1f iterations from nothing, %.1f from the answer\n", (double)cold / 1000.0,
                  (double)warm / 1000.0);
    assert_true(5 * warm < cold);
    residual_check(&r);
    quad_qp_free(qp);
}

// ---- bad input and memory ------------------------------------------------------------------

static void bad_numbers_are_told(void** state) {
    (void)state;
    quad_qp* qp = create();
    ns_rng rng = ns_rng_seed(6);
    const double bad[] = {NAN, INFINITY, -INFINITY};
    static qp_case c, good;
    do make(&good, &rng, PLAIN);
    while (good.p.m < 5 || good.p.n < 5 || good.start[1] == 0);
    for (int k = 0; k < 3; k++) {
        double* const places[] = {&c.H[0], &c.H[1], &c.H[good.p.n * good.p.n - 1], &c.g[3],
                                  &c.values[0]};
        for (int p = 0; p < 5; p++) {
            c = good;
            point_at(&c);
            *places[p] = bad[k];
            quad_qp_report report = quad_qp_solve(qp, &c.p, c.active, c.x, c.y);
            assert_int_equal(report.status, QUAD_QP_BAD_INPUT);
            for (uint32_t j = 0; j < c.p.n; j++) assert_true(c.x[j] == 0.0);
        }
    }
    c = good;
    point_at(&c);
    c.lower[2] = 2.0, c.upper[2] = 1.0;
    assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_BAD_INPUT);
    c.upper[2] = NAN;
    assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_BAD_INPUT);
    c = good;
    point_at(&c);
    c.H[0] = -1.0;
    assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_BAD_INPUT);
    c = (qp_case){.p.n = 2, .H = {1.0, 2.0, 2.0, 1.0}}; // a saddle
    begin_rows(&c);
    point_at(&c);
    assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_BAD_INPUT);
    quad_qp* small = NULL;
    assert_int_equal(quad_qp_create(1, M, NULL, &small, NULL), NS_OK);
    assert_int_equal(quad_qp_solve(small, &c.p, c.active, c.x, c.y).status, QUAD_QP_BAD_INPUT);
    quad_qp_free(small);
    quad_qp_free(qp);
}

static void rows_without_entries_can_contradict_themselves(void** state) {
    (void)state;
    quad_qp* qp = create();
    static qp_case c;
    c = (qp_case){.p.n = 1, .H = {1.0}};
    begin_rows(&c);
    add_row(&c, (double[]){0}, 1.0, 2.0);
    point_at(&c);
    assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status, QUAD_QP_INFEASIBLE);
    assert_true(c.y[0] < 0.0);
    quad_qp_free(qp);
}

static void memory_is_checked_and_only_asked_for_at_the_start(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        quad_qp* qp = NULL;
        ns_error error;
        ns_status status = quad_qp_create(N, M, &allocator, &qp, &error);
        if (counter.calls < n) {
            size_t calls = counter.calls;
            static qp_case c;
            ns_rng rng = ns_rng_seed(7);
            for (int repeat = 0; repeat < 50; repeat++) {
                make(&c, &rng, (problem_kind)(repeat % KINDS));
                assert_int_equal(quad_qp_solve(qp, &c.p, c.active, c.x, c.y).status,
                                 QUAD_QP_SOLVED);
            }
            assert_int_equal(counter.calls, calls);
            quad_qp_free(qp);
            assert_int_equal(counter.live_blocks, 0);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_null(qp);
        assert_int_equal(counter.live_blocks, 0);
    }
    quad_qp_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(feasible_problems_are_solved),
        cmocka_unit_test(contradicting_rows_are_found),
        cmocka_unit_test(falling_for_ever_is_found),
        cmocka_unit_test(boxes_clamp),
        cmocka_unit_test(equalities_project),
        cmocka_unit_test(cvxopt_has_the_same_answers),
        cmocka_unit_test(any_start_ends_in_the_same_place),
        cmocka_unit_test(bad_numbers_are_told),
        cmocka_unit_test(rows_without_entries_can_contradict_themselves),
        cmocka_unit_test(memory_is_checked_and_only_asked_for_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
