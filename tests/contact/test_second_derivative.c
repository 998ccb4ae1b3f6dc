// Second derivatives of the blocks of rigid contact: all four ways to differentiate twice against each
// other, differences and backends; closed forms; lanes; no third derivatives.

#include "contact/second_derivative.h"

#include "contact/block_rig.h"
#include "contact/contact_step.h"
#include "contact/convex_block.h"
#include "expr/trace.h"
#include "support/tracing.h"

#include <string.h>

enum { MAX_CONTACTS = 2 * PARTS, MAX_INPUTS = 3 * MAX_CONTACTS * (BODY + 2) + 12 * MAX_CONTACTS };

// One problem of each block. Its inputs are a body's rows Z, then what the kind has.
typedef struct second_case {
    const char* name;
    const nsi_block_kind* kind;
    const nsi_contact_family* family;
    uint32_t params[3], n;
    uint32_t noutput;   // that have derivatives
    bool impact, turns; // turns: each contact with its torsion and its rolling
} second_case;

#define NCP(friction, n, turns)                                                                    \
    &nsi_ncp, &nsi_ncp_family, {n, friction, BODY}, n, 3 * n, false, turns
#define STEP(friction, n, impact, turns)                                                           \
    &nsi_contact_step, &nsi_contact_step_family, {n, friction, BODY}, n, 6 * n, impact, turns
#define CONVEX(n, turns) &nsi_convex, &nsi_convex_family, {n, BODY}, n, 3 * n, false, turns

static const second_case cases[] = {
    {"ncp, pyramid", NCP(NSI_FRICTION_PYRAMID, 2, false)},
    {"ncp, cone", NCP(NSI_FRICTION_CONE, 3, false)},
    {"step", STEP(NSI_FRICTION_CONE, 2, false, false)},
    {"impact", STEP(NSI_FRICTION_CONE, 2, true, false)},
    {"convex", CONVEX(2, false)},
    {"ncp, cone, turns", NCP(NSI_FRICTION_CONE, 6, true)},
    {"impact, turns", STEP(NSI_FRICTION_CONE, 6, true, true)},
    {"convex, turns", CONVEX(6, true)},
};
enum { CASES = sizeof cases / sizeof *cases };

static bool is_step(const second_case* c) {
    return c->kind == &nsi_contact_step;
}

// Is a block of rows the torsion or the rolling of a contact?
static bool is_part(const second_case* c, uint32_t block) {
    return c->turns && block % PARTS > 0;
}

// Numbers of a body that arrives at n contacts with a random velocity; returns how many there are.
static uint32_t fill_case(const second_case* c, ns_rng* rng, double mu, double cfm, double* x) {
    const uint32_t n = c->n, rows = 3 * n;
    double twist[BODY], J[3 * MAX_CONTACTS * BODY];
    for (int k = 0; k < BODY; k++) twist[k] = ns_rng_normal(rng);
    if (c->turns) {
        turning_rows(rng, n, J, x);
    } else {
        body_rows(rng, n, J, x);
    }
    for (uint32_t i = 0; i < rows; i += 3) { // all contacts arrive
        if (row_dot(BODY, J + i * BODY, twist) < 0.0) continue;
        for (uint32_t k = 0; k < BODY; k++) J[i * BODY + k] *= -1.0, x[i * BODY + k] *= -1.0;
    }
    double* at = x + rows * BODY;
    for (uint32_t i = 0; i < rows; i++) {
        double u = row_dot(BODY, J + i * BODY, twist);
        *at++ = is_step(c) ? u : -u;
    }
    for (uint32_t i = 0; i < rows && is_step(c); i++) *at++ = 0.1 * ns_rng_normal(rng); // h
    const double lever[PARTS] = {1.0, 0.2, 0.1};
    for (uint32_t k = 0; k < n; k++) *at++ = is_part(c, k) ? mu * lever[k % PARTS] : mu;
    for (uint32_t k = 0; k < n; k++) *at++ = cfm;
    if (is_step(c)) { // restitution, gap, share, slack, slack_after, goal, rise
        const double each[] = {0.6, 0.1, 0.4, 0.05, 0.07, 0.02, 0.0};
        for (size_t i = 0; i < 7; i++) {
            for (uint32_t k = 0; k < n; k++) {
                bool none = (i == 2 && !c->impact) || (i == 6 && c->impact);
                *at++ = none || (i != 2 && is_part(c, k)) ? 0.0 : each[i];
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) { // flags: the first hits, the others rest
        bool hits = c->impact && (c->turns ? k / PARTS : k) == 0;
        double flag = !is_step(c) ? 1.0 : hits ? NSI_CONTACT_HIT : NSI_CONTACT_RESTS;
        *at++ = flag + (is_part(c, k) ? NSI_CONTACT_LIMITED : 0);
    }
    return (uint32_t)(at - x);
}

// The block alone: inputs that are not zero may vary, the flags may not.
static ns_graph* case_graph(const second_case* c, const double* x, uint32_t count, double* inputs) {
    ns_graph* g = tracing_begin();
    nsi_id ids[MAX_INPUTS];
    char name[16];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "x%u", i);
        bool varies = i < count - c->n && x[i] != 0.0;
        ids[i] = varies ? ns_input(name).id : ns_const(x[i]).id;
        if (varies) *inputs++ = x[i];
    }
    nsi_block block = {
        .kind = c->kind, .ninput = count, .inputs = ids, .source = NSI_NONE, .sink = NSI_NONE};
    memcpy(block.params, c->params, sizeof block.params);
    nsi_id node = nsi_graph_block(g, &block);
    for (uint32_t k = 0; k < c->noutput; k++) {
        snprintf(name, sizeof name, "y%u", k);
        ns_output(name, (ns_expr){nsi_graph_out(g, node, k)});
    }
    tracing_end();
    return g;
}

static ns_graph* derived(const ns_graph* g, bool reverse) {
    ns_graph* d = NULL;
    ns_error error = {0};
    must(reverse ? ns_graph_vjp(g, NULL, &d, &error) : ns_graph_jvp(g, NULL, &d, &error), &error);
    return d;
}

// ---- graphs ----------------------------------------------------------------------------------

// The forward and the reverse derivative as functions of their own: their values in all backends, their
// forward and reverse derivatives, and differences.
static void derivatives_have_derivatives(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    check_batch* batch = check_batch_create();
    ns_graph* graphs[2 * CASES];
    // Each new kind of block is compiled once as emitted C.
    const check_c c_of[CASES][2] = {{CHECK_C_VALUE, CHECK_C_VALUE}, {CHECK_C_JVP, CHECK_C_VALUE},
                                    {CHECK_C_VALUE, CHECK_C_VALUE}, {CHECK_C_JVP, CHECK_C_JVP},
                                    {CHECK_C_JVP, CHECK_C_JVP},     {CHECK_C_VALUE, CHECK_C_VALUE},
                                    {CHECK_C_VALUE, CHECK_C_VALUE}, {CHECK_C_VALUE, CHECK_C_VALUE}};
    for (uint32_t k = 0; k < CASES; k++) {
        double x[MAX_INPUTS], inputs[MAX_INPUTS + 3 * MAX_INPUTS];
        uint32_t count = fill_case(&cases[k], &rng, k % 2 ? 0.3 : 0.8, 0.15, x);
        ns_graph* g = case_graph(&cases[k], x, count, inputs);
        for (int reverse = 0; reverse < 2; reverse++) {
            ns_graph* d = graphs[2 * k + (uint32_t)reverse] = derived(g, reverse);
            for (uint32_t i = ns_graph_input_count(g); i < ns_graph_input_count(d); i++) {
                inputs[i] = ns_rng_normal(&rng); // direction or seeds
            }
            check_batch_add(
                batch, d, inputs, NULL,
                &(check_options){
                    .name = cases[k].name, .may_vanish = true, .seed = k, .c = c_of[k][reverse]});
        }
        ns_graph_free(g);
    }
    check_report report = check_batch_finish(batch);
    print_message("transpose %.1e, differences %.1e, undecided %u of %u\n", report.transpose_error,
                  report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 5 <= report.slopes); // where the pattern changes nearby
    for (uint32_t k = 0; k < 2 * CASES; k++) ns_graph_free(graphs[k]);
}

static void second_derivatives_read_back(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(12);
    for (uint32_t k = 0; k < CASES; k++) {
        double x[MAX_INPUTS], inputs[MAX_INPUTS];
        uint32_t count = fill_case(&cases[k], &rng, 0.5, 0.1, x);
        ns_graph* g = case_graph(&cases[k], x, count, inputs);
        for (int reverse = 0; reverse < 2; reverse++) {
            ns_graph* d = derived(g, reverse);
            check_round_trips(d);
            ns_graph_free(d);
        }
        ns_graph_free(g);
    }
}

static void there_are_no_third_derivatives(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(13);
    for (uint32_t k = 0; k < CASES; k++) {
        double x[MAX_INPUTS], inputs[MAX_INPUTS];
        uint32_t count = fill_case(&cases[k], &rng, 0.5, 0.1, x);
        ns_graph *g = case_graph(&cases[k], x, count, inputs), *first = derived(g, true);
        ns_graph *second = derived(first, false), *third = NULL;
        ns_error error = {0};
        assert_int_equal(ns_graph_jvp(second, NULL, &third, &error), NS_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, "no third"));
        assert_int_equal(ns_graph_vjp(second, NULL, &third, &error), NS_ERR_UNSUPPORTED);
        assert_null(third);
        ns_graph_free(second);
        ns_graph_free(first);
        ns_graph_free(g);
    }
}

// ---- closed form -----------------------------------------------------------------------------

// A point of mass 2 that slides: l_t = mu m v_n b / |b| with b the target of the tangents, so that
// seed'l has the Hessian of mu m v_n (s'b) / |b|.
static void a_sliding_point_has_the_closed_form(void** state) {
    (void)state;
    const double r = sqrt(0.5), m = 2.0, vn = 3.0, mu = 0.1, b1 = -1.0, b2 = 0.5;
    ns_graph* g = tracing_begin();
    ns_expr zero = ns_const(0.0), root = ns_const(r), on = ns_const(1.0);
    ns_expr in[3] = {ns_input("b1"), ns_input("b2"), ns_input("mu")};
    nsi_id ids[] = {root.id,  zero.id,  zero.id,  zero.id, root.id,
                    zero.id,  zero.id,  zero.id,  root.id, ns_const(vn).id,
                    in[0].id, in[1].id, in[2].id, zero.id, on.id};
    nsi_block block = {.kind = &nsi_ncp,
                       .params = {1, NSI_FRICTION_CONE, 3},
                       .ninput = 15,
                       .inputs = ids,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    nsi_id node = nsi_graph_block(g, &block);
    ns_output("l1", (ns_expr){nsi_graph_out(g, node, 1)});
    tracing_end();
    ns_graph *reverse = derived(g, true), *hvp = derived(reverse, false);

    // With s = (1, 0): f = mu m v_n b1 / |b|.
    double s = hypot(b1, b2), f = m * vn, s3 = s * s * s, s5 = s3 * s * s;
    double H[3][3] = {{-3.0 * mu * f * b1 * b2 * b2 / s5,
                       mu * f * b2 * (2.0 * b1 * b1 - b2 * b2) / s5, f * b2 * b2 / s3},
                      {0.0, mu * f * b1 * (2.0 * b2 * b2 - b1 * b1) / s5, -f * b1 * b2 / s3},
                      {0.0, 0.0, 0.0}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < i; j++) H[i][j] = H[j][i];
    }
    for (int k = 0; k < 3; k++) {
        // Inputs: b1, b2, mu, seed, then their directions; outputs: l, gradient, then their derivatives.
        double x[8] = {b1, b2, mu, 1.0, 0.0, 0.0, 0.0, 0.0}, y[8];
        assert_int_equal(ns_graph_input_count(hvp), 8);
        assert_int_equal(ns_graph_output_count(hvp), 8);
        x[4 + k] = 1.0;
        run_graph(hvp, x, y);
        for (int i = 0; i < 3; i++) close_to("Hessian", y[5 + i], H[i][k], 1e-13);
    }
    ns_graph_free(hvp);
    ns_graph_free(reverse);
    ns_graph_free(g);
}

// ---- lanes -----------------------------------------------------------------------------------

// Random second derivatives of a case, RIG_LANES of them: `x` is [lane][inputs].
static void fill_lanes(const second_case* c, ns_rng* rng, const nsi_contact_family_sizes* z,
                       uint32_t ninput, double* x) {
    for (uint32_t e = 0; e < RIG_LANES; e++) {
        double *lane = x + e * ninput, value[19 * MAX_CONTACTS + 8];
        uint32_t count = fill_case(c, rng, e % 3 ? 0.4 : 1.0, 1e-3, lane);
        if (e % 4 == 3) lane[count - 1] = 0.0; // without its last contact
        run_kind(c->kind, c->params, lane, value);

        // What the value keeps: ncp impulses and level, convex impulses, the step what follows its results.
        const double* kept = value + (is_step(c) ? 6 * c->n : 0);
        memcpy(lane + count, kept, (z->fixed - count) * sizeof *lane);
        if (c->kind == &nsi_ncp) lane[z->fixed - 1] = value[3 * c->n + 3];
        for (uint32_t i = z->fixed; i < ninput; i++) lane[i] = ns_rng_normal(rng);
    }
}

static void lanes_do_not_see_their_neighbours(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(17);
    const nsi_second_kernel_set* all[] = {
        &nsi_second_kernels_generic,
#ifdef NSI_HAVE_AVX2_KERNELS
        nsi_cpu_has_avx2_fma() ? &nsi_second_kernels_avx2 : &nsi_second_kernels_generic,
#endif
    };
    for (uint32_t k = 0; k < CASES; k++) {
        const second_case* c = &cases[k];
        nsi_contact_family_sizes z;
        assert_true(nsi_contact_family_measure(c->family, c->params, &z));
        for (int reverse = 0; reverse < 2; reverse++) {
            const nsi_block_kind* kind =
                reverse ? c->family->adjoint_tangent : c->family->tangent_tangent;
            nsi_block_sizes sizes;
            assert_true(kind->sizes(c->params, &sizes));
            double* x = test_malloc(RIG_LANES * sizes.ninput * sizeof *x);
            double* y = test_malloc(RIG_LANES * sizes.noutput * sizeof *y);
            fill_lanes(c, &rng, &z, sizes.ninput, x);
            for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
                const nsi_second_kernels* of[2] = {c->kind == &nsi_ncp ? &all[0]->ncp
                                                   : is_step(c)        ? &all[0]->contact_step
                                                                       : &all[0]->convex,
                                                   c->kind == &nsi_ncp ? &all[i]->ncp
                                                   : is_step(c)        ? &all[i]->contact_step
                                                                       : &all[i]->convex};
                nsi_block_kernel* alone = reverse ? of[0]->adjoint[0] : of[0]->tangent[0];
                check_lanes(kind, reverse ? of[1]->adjoint : of[1]->tangent, alone, c->params, x,
                            y);
            }
            test_free(x);
            test_free(y);
        }
    }
}

// Directions of any size: the result is linear in them, to the last bit for powers of two.
static void directions_may_have_any_size(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(19);
    for (uint32_t k = 0; k < CASES; k++) {
        const second_case* c = &cases[k];
        const nsi_block_kind* kind = c->family->adjoint_tangent;
        nsi_contact_family_sizes z;
        nsi_block_sizes sizes;
        assert_true(nsi_contact_family_measure(c->family, c->params, &z));
        assert_true(kind->sizes(c->params, &sizes));
        double* x = test_malloc(RIG_LANES * sizes.ninput * sizeof *x);
        double* y = test_malloc(2 * sizes.noutput * sizeof *y);
        fill_lanes(c, &rng, &z, sizes.ninput, x);
        run_kind(kind, c->params, x, y);
        const int powers[] = {-900, -300, 200, 700};
        for (size_t p = 0; p < sizeof powers / sizeof *powers; p++) {
            double *big = x + sizes.ninput, *out = y + sizes.noutput;
            memcpy(big, x, sizes.ninput * sizeof *x);
            for (uint32_t i = z.fixed + z.noutput; i < sizes.ninput; i++) {
                big[i] = ldexp(big[i], powers[p]);
            }
            run_kind(kind, c->params, big, out);
            for (uint32_t i = 0; i < sizes.noutput; i++) {
                assert_true(out[i] == ldexp(y[i], powers[p]));
            }
        }
        test_free(x);
        test_free(y);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sliding_point_has_the_closed_form),
        cmocka_unit_test(derivatives_have_derivatives),
        cmocka_unit_test(second_derivatives_read_back),
        cmocka_unit_test(there_are_no_third_derivatives),
        cmocka_unit_test(lanes_do_not_see_their_neighbours),
        cmocka_unit_test(directions_may_have_any_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
