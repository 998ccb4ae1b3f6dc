// Tracing: begin, end, what fails first.

#include "expr/block.h"
#include "expr/graph_rig.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/tracing.h"

// ---- tracing -------------------------------------------------------------------------------

static void tracing_has_a_beginning_and_an_end(void** state) {
    (void)state;
    ns_error error;
    assert_int_equal(ns_trace_end(&error), NS_ERR_STATE);
    assert_non_null(strstr(error.message, "without ns_trace_begin"));
    assert_int_equal(ns_trace_begin(NULL, &error), NS_ERR_ARGUMENT);

    ns_graph *g = tracing_begin(), *other = NULL;
    assert_int_equal(ns_graph_create(NULL, &other, NULL), NS_OK);
    assert_int_equal(ns_trace_begin(other, &error), NS_ERR_STATE);
    assert_non_null(strstr(error.message, "tracing already"));
    assert_int_equal(ns_trace_begin(g, NULL), NS_ERR_STATE);
    ns_expr x = ns_input("x"); // the first trace goes on
    tracing_end();
    assert_int_equal(ns_graph_input_count(g), 1);
    assert_int_equal(ns_graph_input_count(other), 0);

    // A graph may be traced in several goes.
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_output("y", ns_sin(x));
    tracing_end();
    assert_int_equal(ns_graph_op_count(g), 1);
    ns_graph_free(g);
    ns_graph_free(other);
}

static void outside_of_a_trace_everything_is_invalid(void** state) {
    (void)state;
    ns_expr out[2], x[2] = {{0}, {1}};
    assert_false(ns_expr_is_valid(ns_input("x")));
    assert_false(ns_expr_is_valid(ns_const(1.0)));
    assert_false(ns_expr_is_valid(ns_add(x[0], x[1])));
    assert_false(ns_expr_is_valid(ns_sin(x[0])));
    assert_false(ns_expr_is_valid(ns_select(x[0], x[1], x[0])));
    assert_false(ns_expr_is_valid(ns_norm(2, x)));
    assert_false(ns_expr_is_valid(ns_clamp(x[0], x[0], x[1])));
    ns_normalize(2, x, out);
    assert_false(ns_expr_is_valid(out[0]) || ns_expr_is_valid(out[1]));
    ns_gradient(x[0], 2, x, out);
    assert_false(ns_expr_is_valid(out[0]) || ns_expr_is_valid(out[1]));
    ns_array w = ns_input_array("w", 6, false);
    assert_int_equal(w.size, 0);
    ns_dense_layer((ns_array){0, 0, 6}, 2, x, 2, NS_TANH, out);
    assert_false(ns_expr_is_valid(out[0]) || ns_expr_is_valid(out[1]));
    ns_output("y", x[0]);
}

static void the_first_failure_is_reported(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_expr x = ns_input("x");
    ns_expr lost = ns_add(x, (ns_expr){1000}); // of some larger graph
    assert_false(ns_expr_is_valid(lost));
    assert_false(ns_expr_is_valid(ns_sin(lost))); // passed on
    assert_false(ns_expr_is_valid(ns_add(x, x))); // nothing is built any more
    assert_false(ns_expr_is_valid(ns_input("another")));
    ns_output("y", lost);
    uint32_t count = g->nodes.count;
    ns_error error;
    assert_int_equal(ns_trace_end(&error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "operand 2 of \"add\""));
    assert_int_equal(g->nodes.count, count);
    // It sticks.
    assert_int_equal(ns_trace_begin(g, NULL), NS_OK);
    ns_output("z", x);
    end_with(g, NS_ERR_ARGUMENT, "operand 2 of \"add\"");

    g = tracing_begin();
    ns_output("y", (ns_expr){7});
    end_with(g, NS_ERR_ARGUMENT, "output \"y\" is not an expression of this graph");

    g = tracing_begin();
    ns_expr gradient[1];
    ns_gradient(ns_input("x"), 1, &(ns_expr){7}, gradient);
    assert_false(ns_expr_is_valid(gradient[0]));
    end_with(g, NS_ERR_ARGUMENT, "ns_gradient");
}

// ---- options of differentiation ------------------------------------------------------------

static void a_freed_graph_is_traced_no_more(void** state) {
    (void)state;
    ns_graph* g = tracing_begin();
    ns_graph_free(g);
    assert_false(ns_expr_is_valid(ns_input("x")));
    assert_int_equal(ns_trace_end(NULL), NS_ERR_STATE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tracing_has_a_beginning_and_an_end),
        cmocka_unit_test(outside_of_a_trace_everything_is_invalid),
        cmocka_unit_test(the_first_failure_is_reported),
        cmocka_unit_test(a_freed_graph_is_traced_no_more),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
