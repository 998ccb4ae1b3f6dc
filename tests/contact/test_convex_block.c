// The block of the convex relaxation: its conditions, closed forms, derivatives, lanes and backends.

#include "contact/block_rig.h"
#include "contact/convex_block.h"
#include "contact/convex_kernels.h"
#include "expr/trace.h"
#include "support/tracing.h"

#include <string.h>

enum { MAX_CONTACTS = 8, MAX_ROWS = 3 * MAX_CONTACTS, MAX_NV = 40 };
enum { MAX_INPUTS = MAX_ROWS * (MAX_NV + 1) + 3 * MAX_CONTACTS };
enum { TOLD = 4 }; // outputs behind the impulses: residual, sweeps, solves, level

// Where the inputs of the block begin.
typedef struct convex_places {
    uint32_t n, nv, rows;
    uint32_t b, mu, cfm, on; // Z is at 0
    uint32_t smooth, count;  // inputs that have derivatives, inputs
} convex_places;

static convex_places convex_places_of(uint32_t n, uint32_t nv) {
    convex_places at = {.n = n, .nv = nv, .rows = 3 * n, .b = 3 * n * nv};
    at.mu = at.b + at.rows;
    at.cfm = at.mu + n;
    at.on = at.smooth = at.cfm + n;
    at.count = at.on + n;
    return at;
}

// A graph that is the block alone.
static ns_graph* convex_graph(uint32_t n, uint32_t nv, bool told) {
    ns_graph* g = tracing_begin();
    nsi_id inputs[MAX_INPUTS];
    char name[16];
    convex_places at = convex_places_of(n, nv);
    for (uint32_t i = 0; i < at.count; i++) {
        snprintf(name, sizeof name, "x%u", i);
        inputs[i] = ns_input(name).id;
    }
    nsi_block block = {.kind = &nsi_convex,
                       .params = {n, nv},
                       .ninput = at.count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &block);
    for (uint32_t k = 0; k < 3 * n + (told ? TOLD : 0); k++) {
        snprintf(name, sizeof name, "g%u", k);
        ns_output(name, (ns_expr){nsi_graph_out(g, node, k)});
    }
    tracing_end();
    return g;
}

// Rows of a rigid body (nv = 6) or any rows, b that takes a random velocity away.
static void convex_problem(ns_rng* rng, const convex_places* at, double mu, double cfm, double* x) {
    double v[MAX_NV], J[MAX_ROWS * BODY];
    const double* rows = x;
    for (uint32_t k = 0; k < at->nv; k++) v[k] = ns_rng_normal(rng);
    if (at->nv == BODY) body_rows(rng, at->n, J, x), rows = J;
    if (at->nv != BODY) any_rows(rng, at->n, at->nv, x);
    for (uint32_t i = 0; i < at->rows; i++) {
        x[at->b + i] = -row_dot(at->nv, rows + i * at->nv, v);
    }
    for (uint32_t c = 0; c < at->n; c++) {
        x[at->mu + c] = mu, x[at->cfm + c] = cfm, x[at->on + c] = 1.0;
    }
}

// Contacts 2, 3, ... are the first one again, but for a small change: Z is nearly singular.
static void repeat_first_contact(ns_rng* rng, const convex_places* at, double change, double* x) {
    uint32_t block = 3 * at->nv;
    for (uint32_t c = 1; c < at->n; c++) {
        for (uint32_t k = 0; k < block; k++) {
            x[c * block + k] = x[k] + change * ns_rng_normal(rng);
        }
        for (uint32_t k = 0; k < 3; k++) x[at->b + 3 * c + k] = x[at->b + k];
    }
}

// Worst violation of the optimality conditions: impulses g in the cone, w = Z Z'g - b + R g in its dual,
// g w = 0; in units of the largest impulse and velocity.
static double convex_violation(const double* x, const convex_places* at, const double* g) {
    double u[MAX_NV] = {0}, w[MAX_ROWS], worst = 0.0, size_g = 1e-9, size_w = 1e-9;
    for (uint32_t i = 0; i < at->rows; i++) {
        for (uint32_t k = 0; k < at->nv; k++) u[k] += x[i * at->nv + k] * g[i];
    }
    for (uint32_t c = 0; c < at->n; c++) {
        const double* z = x + 3 * c * at->nv;
        double square[3], soft[3], cfm = fmax(x[at->cfm + c], NSI_CONVEX_MIN_CFM);
        for (uint32_t r = 0; r < 3; r++)
            square[r] = row_dot(at->nv, z + r * at->nv, z + r * at->nv);
        soft[0] = square[0], soft[1] = soft[2] = 0.5 * (square[1] + square[2]);
        for (uint32_t r = 0; r < 3; r++) {
            uint32_t i = 3 * c + r;
            w[i] = row_dot(at->nv, z + r * at->nv, u) - x[at->b + i] + cfm * soft[r] * g[i];
            size_g = fmax(size_g, fabs(g[i]));
            size_w = fmax(size_w, fmax(fabs(w[i]), fabs(x[at->b + i])));
        }
    }
    for (uint32_t c = 0; c < at->n; c++) {
        const double *l = g + 3 * c, *v = w + 3 * c, mu = x[at->mu + c];
        double work = row_dot(3, l, v) / (size_g * size_w);
        worst = fmax(worst, (hypot(l[1], l[2]) - mu * l[0]) / size_g);
        worst = fmax(worst, (mu * hypot(v[1], v[2]) - v[0]) / size_w);
        worst = fmax(worst, fabs(work));
    }
    return worst;
}

// Random problems, also with contacts that are all but the same one.
static void conditions_hold_on_random_problems(void** state) {
    (void)state;
    static double x[MAX_INPUTS], y[MAX_ROWS + TOLD];
    static const double mus[] = {0.1, 0.5, 1.0, 2.0}, cfms[] = {1e-2, 1e-4, 1e-6};
    ns_rng rng = ns_rng_seed(31);
    for (int k = 0; k < 3; k++) {
        double worst = 0.0, residual = 0.0, solves = 0.0, sum = 0.0;
        uint32_t total = 0, slides = 0, sticks = 0;
        for (uint32_t trial = 0; trial < 3000; trial++, total++) {
            convex_places at = convex_places_of(1 + trial % MAX_CONTACTS, trial % 2 ? BODY : 18);
            convex_problem(&rng, &at, mus[trial / 2 % 4], cfms[k], x);
            if (trial % 3 == 0) {
                repeat_first_contact(&rng, &at, (double[]){0.0, 1e-9, 1e-4}[trial / 3 % 3], x);
            }
            run_kind(&nsi_convex, (uint32_t[]){at.n, at.nv}, x, y);
            worst = fmax(worst, convex_violation(x, &at, y));
            residual = fmax(residual, y[at.rows]);
            solves = fmax(solves, y[at.rows + 2]);
            sum += y[at.rows + 2];
            for (uint32_t c = 0; c < at.n; c++) {
                double bound = x[at.mu + c] * y[3 * c], drag = hypot(y[3 * c + 1], y[3 * c + 2]);
                slides += y[3 * c] > 0.0 && drag > bound * (1.0 - 1e-12);
                sticks += y[3 * c] > 0.0 && drag < bound * (1.0 - 1e-6);
            }
            assert_true(y[at.rows + 1] == 0.0 && y[at.rows + 3] == 0.0);
        }
        print_message("cfm %.0e: %u problems, violation %.1e, residual %.1e, %.1f Newton steps,"
                      " at most %.0f; %u slide, %u stick\n",
                      cfms[k], total, worst, residual, sum / total, solves, slides, sticks);
        assert_true(worst < (k == 2 ? 1e-8 : 1e-10) && solves <= 200.0);
        assert_true(slides > 1000 && sticks > 1000);
    }
}

// Without friction the problem is that of ncp.h.
static void without_friction_it_is_the_ncp(void** state) {
    (void)state;
    static double x[MAX_INPUTS], y[MAX_ROWS + TOLD], expected[MAX_ROWS + TOLD];
    ns_rng rng = ns_rng_seed(32);
    double worst = 0.0;
    for (uint32_t trial = 0; trial < 1000; trial++) {
        convex_places at = convex_places_of(1 + trial % MAX_CONTACTS, trial % 2 ? BODY : 18);
        convex_problem(&rng, &at, 0.0, 1e-4, x);
        run_kind(&nsi_convex, (uint32_t[]){at.n, at.nv}, x, y);
        run_kind(&nsi_ncp, (uint32_t[]){at.n, NSI_FRICTION_CONE, at.nv}, x, expected);
        double size = 1e-3;
        for (uint32_t i = 0; i < at.rows; i++) size = fmax(size, fabs(expected[i]));
        for (uint32_t i = 0; i < at.rows; i++) {
            worst = fmax(worst, fabs(y[i] - expected[i]) / size);
        }
    }
    print_message("largest difference %.1e\n", worst);
    assert_true(worst < 1e-9);
}

// A point of mass 2 falls and slides: it sticks, or slides and parts with mu times its slip.
static void a_point_mass_has_the_closed_form(void** state) {
    (void)state;
    const double r = sqrt(0.5), cfm = 1e-6, mu = 0.1;
    double x[] = {r, 0, 0, 0, r, 0, 0, 0, r, 3, -1, 0.5, 0.8, cfm, 1.0}, y[3 + TOLD];
    run_kind(&nsi_convex, (uint32_t[]){1, 3}, x, y);
    static const double sticks[3] = {6.0, -2.0, 1.0};
    for (int k = 0; k < 3; k++) assert_true(fabs(y[k] * (1.0 + cfm) - sticks[k]) < 1e-9);

    // Sliding: with v the slip, g_n (1 + cfm) (1 + mu^2) / m = 3 + mu v.
    x[12] = mu;
    run_kind(&nsi_convex, (uint32_t[]){1, 3}, x, y);
    double slip = hypot(1.0, 0.5), g = 2.0 * (3.0 + mu * slip) / ((1.0 + mu * mu) * (1.0 + cfm));
    assert_true(fabs(y[0] - g) < 1e-9);
    assert_true(fabs(y[1] + mu * g / slip) < 1e-9 && fabs(y[2] - mu * g * 0.5 / slip) < 1e-9);
    double parting = 0.5 * y[0] - 3.0, left = slip - 0.5 * mu * y[0];
    assert_true(fabs(parting - mu * left) < 1e-5);

    // Softer than the least softness, off, without mass, and not a number.
    x[13] = 0.0;
    run_kind(&nsi_convex, (uint32_t[]){1, 3}, x, y);
    assert_true(fabs(y[0] - g) < 1e-9 && y[3 + 3] == NSI_CONVEX_MIN_CFM);
    x[14] = 0.0;
    run_kind(&nsi_convex, (uint32_t[]){1, 3}, x, y);
    for (int k = 0; k < 3 + TOLD; k++) assert_true(check_same_bits(y[k], 0.0));
    x[14] = 1.0, x[0] = 0.0;
    run_kind(&nsi_convex, (uint32_t[]){1, 3}, x, y);
    for (int k = 0; k < 3 + TOLD; k++) assert_true(check_same_bits(y[k], 0.0));
    x[0] = r, x[9] = NAN;
    run_kind(&nsi_convex, (uint32_t[]){1, 3}, x, y);
    assert_true(isnan(y[0]) && isnan(y[3]));
}

// ---- derivatives -------------------------------------------------------------------------------

// Value, tangent and adjoint: y receives g and what the solver tells, then dg, then the adjoints. `seed`
// are dZ, db, dmu, dcfm, then the adjoint of g.
static void run_convex(const convex_places* at, const double* x, const double* seed, double* y) {
    static double more[2 * MAX_INPUTS + MAX_ROWS];
    const uint32_t params[2] = {at->n, at->nv};
    run_kind(&nsi_convex, params, x, y);
    memcpy(more, x, at->count * sizeof *more);
    memcpy(more + at->count, y, at->rows * sizeof *more);
    memcpy(more + at->count + at->rows, seed, at->smooth * sizeof *more);
    run_kind(&nsi_convex_tangent, params, more, y + at->rows + TOLD);
    memcpy(more + at->count + at->rows, seed + at->smooth, at->rows * sizeof *more);
    run_kind(&nsi_convex_adjoint, params, more, y + 2 * at->rows + TOLD);
}

// Each kind of input by itself: tangent against central differences, adjoint against the tangent.
static void derivatives_agree(void** state) {
    (void)state;
    static double x[MAX_INPUTS], seed[MAX_INPUTS + MAX_ROWS], y[2 * MAX_INPUTS];
    static double above[MAX_ROWS + TOLD], below[MAX_ROWS + TOLD];
    static const char* const kinds[4] = {"Z", "b", "mu", "cfm"};
    static const double cfms[2] = {0.05, 1e-4};
    ns_rng rng = ns_rng_seed(33);
    uint32_t close[4] = {0}, moved[4] = {0}, total = 0;
    double transpose[2] = {0};
    for (uint32_t trial = 0; trial < 600; trial++, total++) {
        convex_places at = convex_places_of(1 + trial % 5, trial % 2 ? BODY : 9);
        const uint32_t from[5] = {0, at.b, at.mu, at.cfm, at.smooth};
        convex_problem(&rng, &at, trial % 4 < 2 ? 0.3 : 1.0, cfms[trial / 4 % 2], x);
        for (int kind = 0; kind < 4; kind++) {
            const double h = kind == 3 ? 1e-3 * x[at.cfm] : 1e-7;
            double error = 0.0, size = 0.0, forward = 0.0, backward = 0.0, scale = 1e-300;
            memset(seed, 0, sizeof seed);
            for (uint32_t i = from[kind]; i < from[kind + 1]; i++) seed[i] = ns_rng_normal(&rng);
            for (uint32_t i = 0; i < at.rows; i++) seed[at.smooth + i] = ns_rng_normal(&rng);
            run_convex(&at, x, seed, y);
            for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * seed[i];
            run_kind(&nsi_convex, (uint32_t[]){at.n, at.nv}, x, above);
            for (uint32_t i = 0; i < at.smooth; i++) x[i] -= 2.0 * h * seed[i];
            run_kind(&nsi_convex, (uint32_t[]){at.n, at.nv}, x, below);
            for (uint32_t i = 0; i < at.smooth; i++) x[i] += h * seed[i];

            const double *dg = y + at.rows + TOLD, *bar = dg + at.rows;
            for (uint32_t i = 0; i < at.rows; i++) {
                error = fmax(error, fabs((above[i] - below[i]) / (2.0 * h) - dg[i]));
                size = fmax(size, fabs(dg[i]));
                forward += dg[i] * seed[at.smooth + i];
                scale += fabs(dg[i] * seed[at.smooth + i]);
            }
            for (uint32_t i = 0; i < at.smooth; i++) {
                backward += bar[i] * seed[i];
                scale += fabs(bar[i] * seed[i]);
            }
            double* worst = &transpose[trial / 4 % 2];
            *worst = fmax(*worst, fabs(forward - backward) / scale);
            close[kind] += error <= 1e-4 * (1.0 + size);
            moved[kind] += size > 1e-3;
        }
    }
    print_message("adjoint and tangent differ by %.1e at cfm 0.05, %.1e at 1e-4\n", transpose[0],
                  transpose[1]);
    assert_true(transpose[0] < 1e-12 && transpose[1] < 1e-10);
    for (int kind = 0; kind < 4; kind++) {
        print_message("%s: %u of %u slopes agree, %u not zero\n", kinds[kind], close[kind], total,
                      moved[kind]);
        assert_true(close[kind] * 100 >= 97 * total); // a region may end nearby
        assert_true(moved[kind] * 2 > total);
    }
}

// Interpreter, native code and emitted C: the same bits; forward, reverse mode and differences agree.
static void backends_agree(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(34);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[4];
    for (uint32_t n = 1; n <= 4; n++) {
        convex_places at = convex_places_of(n, n == 4 ? 4 : BODY);
        graphs[n - 1] = convex_graph(n, at.nv, false);
        for (int trial = 0; trial < 2; trial++) {
            double x[MAX_INPUTS];
            convex_problem(&rng, &at, trial % 2 ? 0.3 : 0.9, trial % 2 ? 0.3 : 0.12, x);
            check_batch_add(batch, graphs[n - 1], x, NULL,
                            &(check_options){.name = "convex",
                                             .may_vanish = true,
                                             .seed = (uint64_t)trial,
                                             .c = CHECK_C_ALL});
        }
    }
    check_report report = check_batch_finish(batch);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 5 <= report.slopes); // where a region ends nearby
    for (uint32_t k = 0; k < 4; k++) ns_graph_free(graphs[k]);
}

// ---- lanes -------------------------------------------------------------------------------------

// A problem with contacts that are off and rows without mass, which may hold anything.
static void convex_lane(ns_rng* rng, const convex_places* at, double* x) {
    convex_problem(rng, at, 0.5, 1e-4, x);
    for (uint32_t i = 0; i < at->rows; i++) {
        if (ns_rng_uniform(rng, 0.0, 1.0) > 0.25) continue;
        for (uint32_t k = 0; k < at->nv; k++) x[i * at->nv + k] *= i % 2 ? 0.0 : 1e-9;
    }
    for (uint32_t c = 0; c < at->n; c++) {
        x[at->on + c] = ns_rng_uniform(rng, 0.0, 1.0) < 0.7;
        for (uint32_t k = 0; k < 3 * at->nv && x[at->on + c] == 0.0; k++) {
            x[3 * c * at->nv + k] *= 1e300;
        }
    }
}

static void convex_lanes_do_not_see_their_neighbours(void** state) {
    (void)state;
    enum { N = 4, ROWS = 3 * N };
    static double x[RIG_LANES * MAX_INPUTS], g[RIG_LANES * (ROWS + TOLD)];
    static double tangent[2 * RIG_LANES * MAX_INPUTS], adjoint[2 * RIG_LANES * MAX_INPUTS];
    static double y[RIG_LANES * MAX_INPUTS];
    const nsi_ncp_kernels* all[] = {
        &nsi_convex_kernels_generic,
#ifdef NSI_HAVE_AVX2_KERNELS
        nsi_cpu_has_avx2_fma() ? &nsi_convex_kernels_avx2 : &nsi_convex_kernels_generic,
#endif
    };
    ns_rng rng = ns_rng_seed(35);
    for (uint32_t trial = 0; trial < 24; trial++) {
        convex_places at = convex_places_of(N, trial % 3 == 0 ? BODY : trial % 3 == 1 ? 5 : MAX_NV);
        const uint32_t params[2] = {N, at.nv};
        uint32_t seeds = at.count + ROWS, ntangent = seeds + at.smooth, nadjoint = seeds + ROWS;
        for (uint32_t e = 0; e < RIG_LANES; e++) convex_lane(&rng, &at, x + e * at.count);
        for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
            check_lanes(&nsi_convex, all[k]->value, all[0]->value[0], params, x, g);
            for (uint32_t e = 0; e < RIG_LANES; e++) {
                double *t = tangent + e * ntangent, *a = adjoint + e * nadjoint;
                memcpy(t, x + e * at.count, at.count * sizeof *t);
                memcpy(a, x + e * at.count, at.count * sizeof *a);
                memcpy(t + at.count, g + e * (ROWS + TOLD), ROWS * sizeof *t);
                memcpy(a + at.count, g + e * (ROWS + TOLD), ROWS * sizeof *a);
                for (uint32_t i = seeds; i < ntangent; i++) t[i] = ns_rng_normal(&rng);
                for (uint32_t i = seeds; i < nadjoint; i++) a[i] = ns_rng_normal(&rng);
            }
            check_lanes(&nsi_convex_tangent, all[k]->tangent, all[0]->tangent[0], params, tangent,
                        y);
            check_lanes(&nsi_convex_adjoint, all[k]->adjoint, all[0]->adjoint[0], params, adjoint,
                        y);
        }
    }
}

static void convex_text_form_reads_back(void** state) {
    (void)state;
    ns_graph* g = convex_graph(2, 4, true);
    check_round_trips(g);
    ns_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_point_mass_has_the_closed_form),
        cmocka_unit_test(conditions_hold_on_random_problems),
        cmocka_unit_test(without_friction_it_is_the_ncp),
        cmocka_unit_test(derivatives_agree),
        cmocka_unit_test(backends_agree),
        cmocka_unit_test(convex_lanes_do_not_see_their_neighbours),
        cmocka_unit_test(convex_text_form_reads_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
