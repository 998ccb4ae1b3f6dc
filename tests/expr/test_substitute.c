// Placeholders are replaced by expressions of nodes that come later; variants; cycles are found.

#include "expr/substitute.h"

#include "expr/graph_rig.h"
#include "support/tracing.h"

#include <math.h>

// x, y, then placeholders a and b. `late` comes after the placeholders and does not depend on b.
typedef struct late_rig {
    ns_graph* graph;
    ns_expr x, y, a, b, early, late, result;
    uint32_t calls[NSI_MAX_VARIANTS];
} late_rig;

static late_rig make_late(void) {
    late_rig r = {.graph = tracing_begin()};
    r.x = ns_input("x");
    r.y = ns_input("y");
    r.a = ns_input("a");
    r.b = ns_input("b");
    r.early = ns_mul(r.b, ns_sin(r.x));
    r.late = ns_add(ns_mul(r.x, r.y), r.a);
    r.result = ns_sub(r.early, ns_mul(r.late, r.y));
    tracing_end();
    return r;
}

// a is cos(y), or 2 in the other variant; b is exp(-late).
static nsi_id value(void* context, nsi_substitution* s, uint32_t number, uint32_t variant) {
    late_rig* r = context;
    r->calls[variant]++;
    if (number == 0 && variant == 1) return nsi_graph_const(s->to, 2.0);
    nsi_id of = nsi_substitute(s, number == 0 ? r->y.id : r->late.id, variant);
    if (number == 0) return nsi_make(s->to, NSI_COS, of, 0, 0);
    return nsi_make(s->to, NSI_EXP, nsi_make(s->to, NSI_NEG, of, 0, 0), 0, 0);
}

static void placeholders_are_replaced(void** state) {
    (void)state;
    late_rig r = make_late();
    nsi_substitution s;
    assert_int_equal(nsi_substitution_begin(r.graph, 2, value, &r, &s, NULL), NS_OK);
    assert_int_equal(ns_graph_input_count(s.to), 2);
    nsi_id given = nsi_substitute(&s, r.result.id, 1);
    nsi_substitution_finish(&s);
    nsi_graph_output(s.to, "changed", nsi_substitute(&s, r.result.id, 0));
    nsi_graph_output(s.to, "given", given);
    assert_int_equal(s.to->error.status, NS_OK);
    assert_int_equal(r.calls[0], 2); // each once in each variant
    assert_int_equal(r.calls[1], 2);
    nsi_substitution_free(&s);

    const double in[2] = {0.7, -1.3};
    double out[2];
    run_graph(s.to, in, out);
    for (int k = 0; k < 2; k++) {
        double a = k == 0 ? cos(in[1]) : 2.0, late = in[0] * in[1] + a;
        double expected = exp(-late) * sin(in[0]) - late * in[1];
        assert_true(fabs(out[k] - expected) < 1e-14);
    }
    ns_graph_free(s.to);
    ns_graph_free(r.graph);
}

static nsi_id cyclic_value(void* context, nsi_substitution* s, uint32_t number, uint32_t variant) {
    const late_rig* r = context;
    return nsi_substitute(s, number == 0 ? r->early.id : r->late.id, variant);
}

static void cycles_fail(void** state) {
    (void)state;
    late_rig r = make_late();
    nsi_substitution s;
    assert_int_equal(nsi_substitution_begin(r.graph, 2, cyclic_value, &r, &s, NULL), NS_OK);
    assert_int_equal(nsi_substitute(&s, r.result.id, 0), NSI_NONE);
    assert_int_equal(s.to->error.status, NS_ERR_STATE);
    assert_non_null(strstr(s.to->error.message, "depends on itself"));
    assert_true(s.cyclic < 2);
    nsi_substitution_free(&s);
    ns_graph_free(s.to);
    ns_graph_free(r.graph);
}

// What must round by itself still does, in both variants: x*y + z without fusing.
static nsi_id same_value(void* context, nsi_substitution* s, uint32_t number, uint32_t variant) {
    (void)context, (void)number, (void)variant;
    return s->to->inputs.data[0].node;
}

static void rounding_is_kept(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x"), y = ns_input("y"), z = ns_input("z"), p = ns_input("p");
    ns_expr product = ns_mul(p, y);
    nsi_graph_round(g, product.id);
    ns_expr sum = ns_add(product, z);
    tracing_end();
    nsi_substitution s;
    assert_int_equal(nsi_substitution_begin(g, 3, same_value, NULL, &s, NULL), NS_OK);
    nsi_substitution_finish(&s);
    nsi_graph_output(s.to, "sum", nsi_substitute(&s, sum.id, 0));
    nsi_substitution_free(&s);
    double in[3] = {1.0 + 0x1p-30, 1.0 - 0x1p-30, -1.0}, out;
    run_graph(s.to, in, &out);
    assert_true(out == 0.0); // fused it would be -2^-60
    (void)x;
    ns_graph_free(s.to);
    ns_graph_free(g);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_are_replaced),
        cmocka_unit_test(cycles_fail),
        cmocka_unit_test(rounding_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
