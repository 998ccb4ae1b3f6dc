// Which uses of networks can be computed, and how a cycle is reported.

#include "nn/causality.h"

#include "expr/trace.h"
#include "support/assert.h"
#include "support/tracing.h"

#include <stdio.h>
#include <string.h>

enum { A, B, C, D, E, F, COUNT };

// b = a^2 and c = sin(b) a; d = b + 1; e stands alone; f = d e. Every quantity has its probe.
typedef struct probed {
    ns_graph* graph;
    nsi_id probes[COUNT];
    nsi_causality causality;
} probed;

static ns_expr name_probed(probed* p, int number, const char* name, ns_expr x) {
    char input[20];
    snprintf(input, sizeof input, "probe/%s", name);
    ns_expr probe = ns_input(input);
    p->probes[number] = probe.id;
    return ns_quantity(name, ns_add(x, probe));
}

static void make_probed(probed* p) {
    p->graph = tracing_begin();
    ns_expr a = name_probed(p, A, "a", ns_const(0.0)); // its value is its probe
    ns_expr b = name_probed(p, B, "b", ns_mul(a, a));
    name_probed(p, C, "c", ns_mul(ns_sin(b), a));
    ns_expr d = name_probed(p, D, "d", ns_add(b, ns_const(1.0)));
    ns_expr e = name_probed(p, E, "e", ns_input("x"));
    name_probed(p, F, "f", ns_mul(d, e));
    tracing_end();
    p->causality = (nsi_causality){p->graph, p->probes};
}

static nsi_causal_cycle check(const probed* p, uint32_t nuse, const nsi_causal_use* uses) {
    nsi_causal_cycle cycle;
    assert_int_equal(nsi_causality_check(&p->causality, nuse, uses, &cycle, NULL), NS_OK);
    return cycle;
}

#define USE(in, out)                                                                               \
    {                                                                                              \
        1, 1, (const uint32_t[]){in}, (const uint32_t[]) {                                         \
            out                                                                                    \
        }                                                                                          \
    }

// Later than the output is fine, as long as it does not follow from it.
static void only_dependence_counts(void** state) {
    (void)state;
    probed p;
    make_probed(&p);
    const bool follows[COUNT][COUNT] = {
        // what reads, from A, to: [output][input]
        [A] = {1, 1, 1, 1, 0, 1}, [B] = {0, 1, 1, 1, 0, 1}, [C] = {0, 0, 1, 0, 0, 0},
        [D] = {0, 0, 0, 1, 0, 1}, [E] = {0, 0, 0, 0, 1, 1}, [F] = {0, 0, 0, 0, 0, 1}};
    for (uint32_t out = 0; out < COUNT; out++) {
        for (uint32_t in = 0; in < COUNT; in++) {
            const nsi_causal_use use = USE(in, out);
            nsi_causal_cycle cycle = check(&p, 1, &use);
            assert_int_equal(cycle.use, follows[out][in] ? 0 : NSI_NONE);
            if (cycle.use == NSI_NONE) continue;
            assert_int_equal(cycle.output, out);
            assert_int_equal(cycle.reads, in);
        }
    }
    ns_graph_free(p.graph);
}

static void paths_are_told(void** state) {
    (void)state;
    probed p;
    make_probed(&p);
    const nsi_causal_use one = USE(F, A);
    assert_string_equal(check(&p, 1, &one).path, "a -> b -> d -> f");

    // By way of another network: the last one is blamed.
    const nsi_causal_use two[] = {USE(C, E), USE(E, B)};
    nsi_causal_cycle cycle = check(&p, 2, two);
    assert_int_equal(cycle.use, 1);
    assert_int_equal(cycle.input, 0);
    assert_string_equal(cycle.path, "b -> c => e");

    // Each alone is possible, and so are both when they do not meet.
    assert_int_equal(check(&p, 1, two).use, NSI_NONE);
    const nsi_causal_use apart[] = {USE(C, E), USE(E, D)};
    assert_int_equal(check(&p, 2, apart).use, NSI_NONE);

    // Of several inputs the one that is part of the cycle.
    const nsi_causal_use several = {3, 1, (const uint32_t[]){A, E, F}, (const uint32_t[]){D}};
    cycle = check(&p, 1, &several);
    assert_int_equal(cycle.input, 2);
    assert_string_equal(cycle.path, "d -> f");
    ns_graph_free(p.graph);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_dependence_counts),
        cmocka_unit_test(paths_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
