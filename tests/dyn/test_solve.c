// Small linear systems are solved.

#include "dyn/dynamics_rig.h"
#include "dyn/solve.h"
#include "expr/graph.h"
#include "sim/system.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <stdio.h>

static void small_systems_are_solved(void** state) {
    (void)state;
    residual r = {.name = "A x = b", .tolerance = ROUNDING};
    ns_rng rng = ns_rng_seed(11);
    for (uint32_t n = 1; n <= 8; n++) {
        double in[72], B[64], x[8], back[8]; // A (n x n), b (n)
        randomize(&rng, B, n * n, 1.0);
        for (uint32_t i = 0; i < n; i++) { // A = B B' + 1
            for (uint32_t j = 0; j < n; j++) {
                in[i * n + j] = dot(n, B + i * n, B + j * n) + (i == j ? 1.0 : 0.0);
            }
        }
        randomize(&rng, in + n * n, n, 1.0);
        ns_graph* g = NULL;
        ns_expr e[72];
        char name[16];
        assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
        assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
        for (uint32_t k = 0; k < n * n + n; k++) {
            snprintf(name, sizeof name, "x%u", k);
            e[k] = ns_input(name);
        }
        nsi_ldl_factor(n, e);
        nsi_ldl_solve(n, e, e + n * n, e + n * n);
        for (uint32_t k = 0; k < n; k++) {
            snprintf(name, sizeof name, "y%u", k);
            ns_output(name, e[n * n + k]);
        }
        assert_int_equal(ns_trace_end(NULL), NS_OK);
        run_graph(g, in, x);
        multiply(n, n, in, x, back);
        residual_array(&r, back, in + n * n, n, 1.0);
        ns_graph_free(g);
    }
    residual_check(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_systems_are_solved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
