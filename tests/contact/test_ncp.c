// The impulse solver: its conditions, closed forms, and derivatives.

#include "contact/block_rig.h"
#include "expr/trace.h"
#include "support/tracing.h"

#include <string.h>

enum { MAX_CONTACTS = 12, MAX_ROWS = 3 * MAX_CONTACTS, MAX_NV = 70 };
enum { MAX_INPUTS = MAX_ROWS * (MAX_NV + 1) + 3 * MAX_CONTACTS };
enum { TOLD = 4 }; // outputs behind the impulses: residual, sweeps, solves, level

// Where the inputs of the block begin.
typedef struct places {
    uint32_t n, nv, rows;
    uint32_t b, mu, cfm, on; // Z is at 0
    uint32_t smooth, count;  // inputs that have derivatives, inputs
} places;

static places places_of(uint32_t n, uint32_t nv) {
    places at = {.n = n, .nv = nv, .rows = 3 * n, .b = 3 * n * nv};
    at.mu = at.b + at.rows;
    at.cfm = at.mu + n;
    at.on = at.smooth = at.cfm + n;
    at.count = at.on + n;
    return at;
}

// A graph that is the block alone: inputs x0.., outputs l0.. and, when they are asked for, what the solver
// tells.
static ns_graph* solver_graph(uint32_t n, nsi_friction friction, uint32_t nv, bool told) {
    ns_graph* g = tracing_begin();
    nsi_id inputs[MAX_INPUTS];
    char name[16];
    places at = places_of(n, nv);
    for (uint32_t i = 0; i < at.count; i++) {
        snprintf(name, sizeof name, "x%u", i);
        inputs[i] = ns_input(name).id;
    }
    nsi_block block = {.kind = &nsi_ncp,
                       .params = {n, friction, nv},
                       .ninput = at.count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &block);
    for (uint32_t k = 0; k < 3 * n + (told ? TOLD : 0); k++) {
        snprintf(name, sizeof name, "l%u", k);
        ns_output(name, (ns_expr){nsi_graph_out(g, node, k)});
    }
    tracing_end();
    return g;
}

// A rigid body that hits something at n random points: A = J M^-1 J' has rank 6 at most, made positive by
// cfm; b takes its velocity away.
static void random_problem(ns_rng* rng, uint32_t n, double mu, double cfm, double* x) {
    places at = places_of(n, BODY);
    double twist[BODY], J[MAX_ROWS * BODY];
    for (int k = 0; k < BODY; k++) twist[k] = ns_rng_normal(rng);
    body_rows(rng, n, J, x);
    for (uint32_t i = 0; i < at.rows; i++) x[at.b + i] = -row_dot(BODY, J + i * BODY, twist);
    for (uint32_t c = 0; c < n; c++) x[at.mu + c] = mu, x[at.cfm + c] = cfm, x[at.on + c] = 1.0;
}

// The same for any Z.
static void random_rows(ns_rng* rng, uint32_t n, uint32_t nv, double mu, double cfm, double* x) {
    places at = places_of(n, nv);
    double v[MAX_NV];
    for (uint32_t k = 0; k < nv; k++) v[k] = ns_rng_normal(rng);
    any_rows(rng, n, nv, x);
    for (uint32_t i = 0; i < at.rows; i++) x[at.b + i] = -row_dot(nv, x + i * nv, v);
    for (uint32_t c = 0; c < n; c++) x[at.mu + c] = mu, x[at.cfm + c] = cfm, x[at.on + c] = 1.0;
}

static double square(const double* x, const places* at, uint32_t i) {
    double sum = 0.0;
    for (uint32_t k = 0; k < at->nv; k++) sum += x[i * at->nv + k] * x[i * at->nv + k];
    return sum;
}

// A with the softness of at least `level`: of the tangents of a cone the mean.
static double entry(const double* x, const places* at, nsi_friction friction, double level,
                    uint32_t i, uint32_t j) {
    double sum = 0.0, cfm = fmax(x[at->cfm + i / 3], level), softness = square(x, at, i);
    for (uint32_t k = 0; k < at->nv; k++) sum += x[i * at->nv + k] * x[j * at->nv + k];
    if (friction == NSI_FRICTION_CONE && i % 3 > 0) {
        uint32_t first = i - i % 3 + 1;
        softness = 0.5 * (square(x, at, first) + square(x, at, first + 1));
    }
    return i == j ? sum + cfm * softness : sum;
}

// Worst violation of the conditions in ncp.h, in units of the largest impulse and velocity.
static double violation(const double* x, const places* at, nsi_friction friction, const double* l) {
    double level = l[at->rows + TOLD - 1];
    double w[MAX_ROWS], worst = 0.0, size_l = 1e-9, size_w = 1e-9;
    for (uint32_t i = 0; i < at->rows; i++) {
        w[i] = -x[at->b + i];
        for (uint32_t j = 0; j < at->rows; j++) w[i] += entry(x, at, friction, level, i, j) * l[j];
        size_l = fmax(size_l, fabs(l[i]));
        size_w = fmax(size_w, fmax(fabs(w[i]), fabs(x[at->b + i])));
    }
    for (uint32_t c = 0; c < at->n; c++) {
        double mu = x[at->mu + c];
        worst = fmax(worst, coulomb_violation(friction, mu, l + 3 * c, w + 3 * c, size_l, size_w));
    }
    return worst;
}

static void conditions_hold(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3), rows_rng = ns_rng_seed(4);
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        uint32_t failed = 0, relaxed = 0, total = 0;
        for (uint32_t n = 1; n <= 5; n++) {
            places body = places_of(n, BODY), any = places_of(n, 9);
            ns_graph* g = solver_graph(n, friction, BODY, true);
            ns_graph* h = solver_graph(n, friction, 9, true);
            for (int trial = 0; trial < 200; trial++) {
                double x[MAX_INPUTS], l[MAX_ROWS + TOLD];
                random_problem(&rng, n, 0.5, 1e-4, x);
                run_graph(g, x, l);
                bool met = violation(x, &body, friction, l) <= 1e-8;
                assert_true(met == (l[3 * n] < 1e-10)); // the residual says so
                assert_true(l[3 * n + 1] >= 3.0);
                failed += !met;
                relaxed += l[3 * n + 3] > 0.0;
                random_rows(&rows_rng, n, 9, 0.5, 1e-4, x);
                run_graph(h, x, l);
                failed += violation(x, &any, friction, l) > 1e-8;
                relaxed += l[3 * n + 3] > 0.0;
                total += 2;
            }
            ns_graph_free(g);
            ns_graph_free(h);
        }
        print_message("%s: %u of %u problems not met, %u softened\n",
                      friction == NSI_FRICTION_CONE ? "cone" : "pyramid", failed, total, relaxed);
        // Wedged between contacts from all sides, a Coulomb problem need not have a solution: a softer
        // one has.
        assert_true(failed == 0 && relaxed * 100 <= total);
    }
}

// A point of mass 2 falling and sliding: full friction, then more than friction can hold.
static void point_mass_has_the_closed_form(void** state) {
    (void)state;
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        ns_graph* g = solver_graph(1, friction, 3, true);
        // Z Z' = 1/m, b = -v: velocity 3 down, 1 and -0.5 sideways.
        double r = sqrt(0.5), l[3 + TOLD];
        double x[] = {r, 0, 0, 0, r, 0, 0, 0, r, 3, -1, 0.5, 0.8, 0.0, 1.0};
        run_graph(g, x, l);
        double expected[3] = {6.0, -2.0, 1.0};
        for (int k = 0; k < 3; k++) assert_true(fabs(l[k] - expected[k]) < 1e-12);
        assert_true(l[3] < 1e-12 && l[4] == 3.0 && l[5] <= 1.0); // residual, sweeps, solves
        x[12] = 0.1;                                             // mu l_n = 0.6
        run_graph(g, x, l);
        double length = friction == NSI_FRICTION_CONE ? hypot(1.0, 0.5) : 1.0;
        assert_true(fabs(l[1] + 0.6 * (friction == NSI_FRICTION_CONE ? 1.0 / length : 1.0)) <
                    1e-12);
        assert_true(fabs(l[2] - 0.6 * (friction == NSI_FRICTION_CONE ? 0.5 / length : 1.0)) <
                    1e-12);
        x[13] = 0.25; // softer: less of everything
        run_graph(g, x, l);
        assert_true(fabs(l[0] - 6.0 / 1.25) < 1e-12);
        x[14] = 0.0; // off
        run_graph(g, x, l);
        for (int k = 0; k < 3 + TOLD; k++) assert_true(l[k] == 0.0);
        ns_graph_free(g);
    }
}

// Value, tangent and adjoint of the problem x: y receives l and what the solver tells, then dl, then
// the adjoints. `seed` are dZ, db, dmu, dcfm, then the adjoint of l.
static void run_all(const uint32_t* params, const double* x, const double* seed, double* y) {
    static double more[2 * MAX_INPUTS + MAX_ROWS + 1];
    places at = places_of(params[0], params[2]);
    uint32_t seeds = at.count + at.rows + 1;
    run_kind(&nsi_ncp, params, x, y);
    memcpy(more, x, at.count * sizeof *more);
    memcpy(more + at.count, y, at.rows * sizeof *more);
    more[seeds - 1] = y[at.rows + TOLD - 1];
    memcpy(more + seeds, seed, at.smooth * sizeof *more);
    run_kind(&nsi_ncp_tangent, params, more, y + at.rows + TOLD);
    memcpy(more + seeds, seed + at.smooth, at.rows * sizeof *more);
    run_kind(&nsi_ncp_adjoint, params, more, y + 2 * at.rows + TOLD);
}

// Inputs of `n` contacts among those of more of them, without contact `gone`.
static void leave_out(const double* from, const places* at, uint32_t gone, bool on, double* to) {
    for (uint32_t i = 0; i < at->rows; i++) {
        for (uint32_t k = 0; k < at->nv && i / 3 != gone; k++) *to++ = from[i * at->nv + k];
    }
    for (uint32_t i = 0; i < at->rows; i++) {
        if (i / 3 != gone) *to++ = from[at->b + i];
    }
    const uint32_t lists[3] = {at->mu, at->cfm, at->on};
    for (int k = 0; k < (on ? 3 : 2); k++) {
        for (uint32_t c = 0; c < at->n; c++) {
            if (c != gone) *to++ = from[lists[k] + c];
        }
    }
}

// A contact that is off, or whose normal has no mass: the others have the bits they have without
// it, in value and derivatives, and its own are exact zeros, whatever its numbers are.
static void absent_contacts_change_no_bit(void** state) {
    (void)state;
    enum { N = 3, ROWS = 3 * N };
    static double x[MAX_INPUTS], fewer[MAX_INPUTS], seed[MAX_INPUTS + MAX_ROWS];
    static double fewer_seed[MAX_INPUTS + MAX_ROWS], y[2 * MAX_INPUTS], without[2 * MAX_INPUTS];
    static const double sizes[] = {1.0, 1e300, 1e-300, 0.0};
    ns_rng rng = ns_rng_seed(5);
    for (uint32_t trial = 0; trial < 200; trial++) {
        uint32_t nv = trial % 5 == 4 ? MAX_NV : BODY, gone = trial % N;
        places at = places_of(N, nv), less = places_of(N - 1, nv);
        if (nv == BODY) random_problem(&rng, N, 0.6, 0.01, x);
        if (nv != BODY) random_rows(&rng, N, nv, 0.6, 0.01, x);
        for (uint32_t i = 0; i < at.smooth + ROWS; i++) seed[i] = ns_rng_normal(&rng);
        double size = sizes[trial / N % 4];
        bool massless = trial % 7 == 0;
        for (uint32_t i = 3 * gone; i < 3 * gone + 3; i++) {
            for (uint32_t k = 0; k < nv; k++) {
                x[i * nv + k] *= massless && i % 3 == 0 ? 0.0 : size;
                seed[i * nv + k] *= size;
            }
            x[at.b + i] *= size;
        }
        x[at.on + gone] = massless;
        leave_out(x, &at, gone, true, fewer);
        leave_out(seed, &at, gone, false, fewer_seed);
        for (uint32_t i = 0, k = less.smooth; i < ROWS; i++) {
            if (i / 3 != gone) fewer_seed[k++] = seed[at.smooth + i];
        }
        run_all((uint32_t[]){N, trial / 2 % 2, nv}, x, seed, y);
        run_all((uint32_t[]){N - 1, trial / 2 % 2, nv}, fewer, fewer_seed, without);
        // What there is without it, in the order of all; its own is zero.
        const double* next = without;
        const double* got = y;
        for (uint32_t part = 0; part < 2; part++) { // l, then dl
            for (uint32_t i = 0; i < ROWS; i++) {
                assert_true(check_same_bits(*got++, i / 3 == gone ? 0.0 : *next++));
            }
            for (uint32_t k = 0; k < TOLD && part == 0; k++) {
                assert_true(check_same_bits(*got++, *next++));
            }
        }
        for (uint32_t i = 0; i < at.smooth; i++) {
            uint32_t c = i < at.b ? i / nv / 3 : i < at.mu ? (i - at.b) / 3 : (i - at.mu) % N;
            assert_true(check_same_bits(*got++, c == gone ? 0.0 : *next++));
        }
    }
}

// Velocities that no contact moves change nothing, though with few velocities for each row the linear systems
// are solved by way of them, and with many as they are.
static void idle_velocities_change_nothing(void** state) {
    (void)state;
    enum { N = MAX_CONTACTS, ROWS = 3 * N, MORE = 30 };
    static double x[MAX_INPUTS], wide[MAX_INPUTS], seed[MAX_INPUTS + MAX_ROWS];
    static double wide_seed[MAX_INPUTS + MAX_ROWS], y[2 * MAX_INPUTS], y_wide[2 * MAX_INPUTS];
    places at = places_of(N, BODY), more = places_of(N, MORE);
    ns_rng rng = ns_rng_seed(11);
    uint32_t compared = 0;
    for (uint32_t trial = 0; trial < 200; trial++) {
        random_problem(&rng, N, 0.4, trial % 2 == 0 ? 1e-4 : 1e-3, x);
        for (uint32_t i = 0; i < at.smooth + ROWS; i++) seed[i] = ns_rng_normal(&rng);
        memset(wide, 0, sizeof wide);
        memset(wide_seed, 0, sizeof wide_seed);
        for (uint32_t i = 0; i < ROWS; i++) {
            memcpy(wide + i * MORE, x + i * BODY, BODY * sizeof *x);
            memcpy(wide_seed + i * MORE, seed + i * BODY, BODY * sizeof *x);
        }
        memcpy(wide + more.b, x + at.b, (at.count - at.b) * sizeof *x);
        memcpy(wide_seed + more.b, seed + at.b, (at.smooth + ROWS - at.b) * sizeof *x);
        run_all((uint32_t[]){N, trial / 2 % 2, BODY}, x, seed, y);
        run_all((uint32_t[]){N, trial / 2 % 2, MORE}, wide, wide_seed, y_wide);

        // The same solution, where both found the problem that was given.
        if (y[ROWS + TOLD - 1] > 0.0 || y_wide[ROWS + TOLD - 1] > 0.0) continue;
        compared++;
        double size = 0.0;
        for (uint32_t i = 0; i < ROWS; i++) size = fmax(size, fabs(y[i]));
        for (uint32_t i = 0; i < ROWS; i++) assert_true(fabs(y[i] - y_wide[i]) <= 1e-9 * size);
        const double *dl = y + ROWS + TOLD, *dl_wide = y_wide + ROWS + TOLD;
        for (uint32_t part = 0; part < 2; part++) { // dl, then the adjoints but for those of Z
            uint32_t first = part == 0 ? 0 : ROWS + at.b, end = part == 0 ? ROWS : ROWS + at.smooth;
            uint32_t shift = part == 0 ? 0 : more.b - at.b;
            size = 0.0;
            for (uint32_t i = first; i < end; i++) size = fmax(size, fabs(dl[i]));
            for (uint32_t i = first; i < end; i++) {
                assert_true(fabs(dl[i] - dl_wide[i + shift]) <= 1e-8 * size);
            }
        }
        for (uint32_t i = 0; i < ROWS; i++) { // adjoints of Z
            for (uint32_t k = 0; k < MORE; k++) {
                double got = dl_wide[ROWS + i * MORE + k];
                double expected = k < BODY ? dl[ROWS + i * BODY + k] : 0.0;
                assert_true(fabs(got - expected) <= 1e-8 * fmax(size, fabs(expected)));
            }
        }
    }
    assert_true(compared > 150);
}

// A contact that parts: exact zeros in the adjoints.
static void parting_contacts_have_no_adjoint(void** state) {
    (void)state;
    static double x[MAX_INPUTS], seed[MAX_INPUTS + MAX_ROWS], y[2 * MAX_INPUTS];
    ns_rng rng = ns_rng_seed(6);
    places at = places_of(2, BODY);
    uint32_t parted = 0;
    for (int trial = 0; trial < 100; trial++) {
        random_problem(&rng, 2, 0.6, 0.01, x);
        x[at.b + 3] = -100.0;
        for (uint32_t i = 0; i < at.smooth + at.rows; i++) seed[i] = ns_rng_normal(&rng);
        run_all((uint32_t[]){2, 1, BODY}, x, seed, y);
        if (y[3] != 0.0) continue;
        parted++;
        const double* adjoint = y + 2 * at.rows + TOLD;
        for (uint32_t k = 3 * BODY; k < 6 * BODY; k++)
            assert_true(check_same_bits(adjoint[k], 0.0));
        for (uint32_t k = 3; k < 6; k++) assert_true(check_same_bits(adjoint[at.b + k], 0.0));
        assert_true(check_same_bits(adjoint[at.mu + 1], 0.0));
        assert_true(check_same_bits(adjoint[at.cfm + 1], 0.0));
    }
    assert_true(parted > 80);
}

// A problem with contacts that are off and rows without mass, which may hold anything.
static void random_lane(ns_rng* rng, uint32_t n, uint32_t nv, double* x) {
    places at = places_of(n, nv);
    if (nv == BODY) random_problem(rng, n, 0.5, 1e-4, x);
    if (nv != BODY) random_rows(rng, n, nv, 0.5, 1e-4, x);
    for (uint32_t i = 0; i < at.rows; i++) { // every fourth row is without mass
        if (ns_rng_uniform(rng, 0.0, 1.0) > 0.25) continue;
        for (uint32_t k = 0; k < nv; k++) x[i * nv + k] *= i % 2 ? 0.0 : 1e-9;
    }
    for (uint32_t c = 0; c < n; c++) {
        x[at.on + c] = ns_rng_uniform(rng, 0.0, 1.0) < 0.7;
        double size = ns_rng_uniform(rng, 0.0, 1.0) < 0.5 ? 1.0 : 1e300;
        for (uint32_t k = 0; k < 3 * nv && x[at.on + c] == 0.0; k++) x[3 * c * nv + k] *= size;
    }
}

// Lanes with different contacts on, and with rows that only some of them have.
static void lanes_do_not_see_their_neighbours(void** state) {
    (void)state;
    enum { N = 4, ROWS = 3 * N };
    static double x[RIG_LANES * MAX_INPUTS], l[RIG_LANES * (ROWS + TOLD)];
    static double tangent[2 * RIG_LANES * MAX_INPUTS], adjoint[2 * RIG_LANES * MAX_INPUTS];
    static double y[RIG_LANES * MAX_INPUTS];
    const nsi_ncp_kernels* all[] = {
        &nsi_ncp_kernels_generic,
#ifdef NSI_HAVE_AVX2_KERNELS
        nsi_cpu_has_avx2_fma() ? &nsi_ncp_kernels_avx2 : &nsi_ncp_kernels_generic,
#endif
    };
    ns_rng rng = ns_rng_seed(17);
    for (uint32_t trial = 0; trial < 48; trial++) {
        uint32_t nv = trial % 3 == 0 ? BODY : trial % 3 == 1 ? 5 : MAX_NV;
        uint32_t params[3] = {N, trial % 2, nv};
        places at = places_of(N, nv);
        uint32_t seeds = at.count + ROWS + 1;
        uint32_t ntangent = seeds + at.smooth, nadjoint = seeds + ROWS;
        for (uint32_t e = 0; e < RIG_LANES; e++) random_lane(&rng, N, nv, x + e * at.count);
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            check_lanes(&nsi_ncp, all[k]->value, all[0]->value[0], params, x, l);
            for (uint32_t e = 0; e < RIG_LANES; e++) {
                double *t = tangent + e * ntangent, *a = adjoint + e * nadjoint;
                memcpy(t, x + e * at.count, at.count * sizeof *t);
                memcpy(a, x + e * at.count, at.count * sizeof *a);
                const double* told = l + e * (ROWS + TOLD);
                memcpy(t + at.count, told, ROWS * sizeof *t);
                memcpy(a + at.count, told, ROWS * sizeof *a);
                t[seeds - 1] = a[seeds - 1] = told[ROWS + TOLD - 1];
                for (uint32_t i = seeds; i < ntangent; i++) t[i] = ns_rng_normal(&rng);
                for (uint32_t i = seeds; i < nadjoint; i++) a[i] = ns_rng_normal(&rng);
            }
            check_lanes(&nsi_ncp_tangent, all[k]->tangent, all[0]->tangent[0], params, tangent, y);
            check_lanes(&nsi_ncp_adjoint, all[k]->adjoint, all[0]->adjoint[0], params, adjoint, y);
        }
    }
}

static void text_form_reads_back(void** state) {
    (void)state;
    ns_graph* g = solver_graph(2, NSI_FRICTION_CONE, 4, true);
    check_round_trips(g);
    ns_graph_free(g);
}

static void derivatives_pass_the_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[10];
    int count = 0;
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        for (uint32_t n = 1; n <= 5; n++) { // the last with another number of columns
            uint32_t nv = n == 5 ? 4 : BODY, contacts = n == 5 ? 2 : n;
            graphs[count] = solver_graph(contacts, friction, nv, false);
            for (int trial = 0; trial < 2; trial++) {
                // Other lanes have up to 0.11 less, and redundant contacts need some.
                double x[MAX_INPUTS], mu = trial % 2 ? 0.3 : 0.9, cfm = trial % 2 ? 0.3 : 0.12;
                if (nv == BODY) random_problem(&rng, n, mu, cfm, x);
                if (nv != BODY) random_rows(&rng, contacts, nv, mu, cfm, x);
                check_batch_add(batch, graphs[count], x, NULL,
                                &(check_options){.name = "ncp",
                                                 .may_vanish = true,
                                                 .seed = (uint64_t)trial,
                                                 .c = n == 5 ? CHECK_C_VJP : CHECK_C_ALL});
            }
            count++;
        }
    }
    check_report report = check_batch_finish(batch);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 5 <= report.slopes); // where the pattern changes nearby
    while (count-- > 0) ns_graph_free(graphs[count]);
}

// Each kind of input by itself: the tangent against differences of the impulses.
static void every_input_has_its_slope(void** state) {
    (void)state;
    static double x[MAX_INPUTS], seed[MAX_INPUTS + MAX_ROWS], y[2 * MAX_INPUTS];
    static double above[2 * MAX_INPUTS], below[2 * MAX_INPUTS];
    ns_rng rng = ns_rng_seed(23);
    for (nsi_friction friction = 0; friction <= NSI_FRICTION_CONE; friction++) {
        const uint32_t params[3] = {3, friction, BODY};
        places at = places_of(3, BODY);
        const uint32_t from[5] = {0, at.b, at.mu, at.cfm, at.smooth};
        uint32_t close[4] = {0}, moved[4] = {0}, total = 0;
        for (int trial = 0; trial < 200; trial++, total++) {
            random_problem(&rng, 3, 0.5, 0.05, x);
            for (int kind = 0; kind < 4; kind++) {
                const double h = 1e-6;
                double error = 0.0, size = 0.0;
                memset(seed, 0, sizeof seed);
                for (uint32_t i = from[kind]; i < from[kind + 1]; i++) {
                    seed[i] = ns_rng_normal(&rng);
                }
                run_all(params, x, seed, y);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * seed[i];
                run_kind(&nsi_ncp, params, x, above);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] -= 2.0 * h * seed[i];
                run_kind(&nsi_ncp, params, x, below);
                for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * seed[i];
                for (uint32_t i = 0; i < at.rows; i++) {
                    double slope = (above[i] - below[i]) / (2.0 * h), got = y[at.rows + TOLD + i];
                    error = fmax(error, fabs(slope - got));
                    size = fmax(size, fabs(got));
                }
                close[kind] += error <= 1e-6 * (1.0 + size);
                moved[kind] += size > 1e-3;
            }
        }
        for (int kind = 0; kind < 4; kind++) {
            print_message("%s of %s: %u of %u slopes agree, %u not zero\n",
                          (const char*[]){"Z", "b", "mu", "cfm"}[kind],
                          friction == NSI_FRICTION_CONE ? "cone" : "pyramid", close[kind], total,
                          moved[kind]);
            assert_true(close[kind] * 100 >= 95 * total); // a pattern may change nearby
            assert_true(moved[kind] * 2 > total);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(point_mass_has_the_closed_form),
        cmocka_unit_test(conditions_hold),
        cmocka_unit_test(absent_contacts_change_no_bit),
        cmocka_unit_test(idle_velocities_change_nothing),
        cmocka_unit_test(parting_contacts_have_no_adjoint),
        cmocka_unit_test(lanes_do_not_see_their_neighbours),
        cmocka_unit_test(text_form_reads_back),
        cmocka_unit_test(derivatives_pass_the_check),
        cmocka_unit_test(every_input_has_its_slope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
