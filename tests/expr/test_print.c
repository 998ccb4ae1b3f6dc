// Graphs as text: what is printed reads back as the same graph, bit by bit.

#include "expr/block.h"
#include "expr/text_rig.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>

// ---- helpers -------------------------------------------------------------------------------

static ns_graph* new_graph(void) {
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    return g;
}

// ---- what is printed -----------------------------------------------------------------------

static void sample_is_unchanged(void** state) {
    (void)state;
    check_printed(sample, sample);
}

static void every_op_round_trips(void** state) {
    (void)state;
    for (uint32_t op = 0; op < NSI_OP_COUNT; op++) {
        if (nsi_ops[op].kind == NSI_KIND_LEAF) continue;
        ns_graph* g = new_graph();
        nsi_id a = nsi_graph_input(g, "a");
        nsi_id b = nsi_graph_input(g, "b");
        nsi_id c = nsi_graph_input(g, "c");
        nsi_graph_output(g, "y", nsi_make(g, (nsi_op)op, a, b, c));
        nsi_graph_output(g, "y1", nsi_make(g, (nsi_op)op, c, b, a));
        nsi_graph_output(g, "y2", nsi_make(g, (nsi_op)op, a, nsi_graph_const(g, 1.25), c));

        char expected[64];
        snprintf(expected, sizeof expected, " = %s %%0%s", nsi_ops[op].name,
                 nsi_ops[op].arity > 2   ? " %1 %2\n"
                 : nsi_ops[op].arity > 1 ? " %1\n"
                                         : "\n");
        ns_text text = print(g);
        if (!strstr(text.data, expected)) fail_msg("no \"%s\" in\n%s", expected, text.data);
        ns_text_free(&text);
        check_round_trip(g);
        ns_graph_free(g);
    }
}

// Reading back makes every node again, so what a constructor returns must be final.
static void abs_of_negated_abs_is_final(void** state) {
    (void)state;
    ns_graph* g = new_graph();
    nsi_id x = nsi_make(g, NSI_ABS, nsi_graph_input(g, "x"), 0, 0);
    nsi_graph_output(g, "y", nsi_make(g, NSI_ABS, nsi_make(g, NSI_NEG, x, 0, 0), 0, 0));
    assert_int_equal(g->outputs.data[0].node, x);
    check_round_trip(g);
    ns_graph_free(g);
}

// ---- graphs at random ----------------------------------------------------------------------

static nsi_id random_operand(ns_rng* rng, const nsi_id* pool, uint32_t count) {
    // Recent ones more often, so that identities meet.
    uint32_t range = ns_rng_below(rng, 2) && count > 6 ? 6 : count;
    return pool[count - 1 - ns_rng_below(rng, range)];
}

// Numbers that identities look for, and others.
static double random_number(ns_rng* rng) {
    static const double special[] = {0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, 1.5, INFINITY, NAN};
    uint32_t k = ns_rng_below(rng, 14);
    return k < 10 ? special[k] : ns_rng_normal(rng);
}

// Those with identities more often.
static nsi_op random_op(ns_rng* rng) {
    static const nsi_op with_identities[] = {NSI_ADD, NSI_SUB, NSI_MUL, NSI_NEG,      NSI_NEG,
                                             NSI_FMA, NSI_ABS, NSI_MIN, NSI_COPYSIGN, NSI_NOT,
                                             NSI_DIV, NSI_POW, NSI_AND, NSI_SELECT,   NSI_FNMS};
    uint32_t k = ns_rng_below(rng, 30);
    return k < 15 ? with_identities[k] : (nsi_op)ns_rng_below(rng, NSI_OP_COUNT);
}

static void random_graphs_round_trip(void** state) {
    (void)state;
    enum { NGRAPH = 3000, NSTEP = 40 };
    for (uint32_t seed = 0; seed < NGRAPH; seed++) {
        ns_rng rng = ns_rng_seed(seed);
        ns_graph* g = new_graph();
        uint32_t w = nsi_graph_array(g, "w", 6, false), s = nsi_graph_sink(g, "s", 8, true);
        nsi_id pool[NSTEP + 1] = {nsi_graph_input(g, "x")};
        uint32_t count = 1;
        while (count <= NSTEP) {
            nsi_id a = random_operand(&rng, pool, count);
            nsi_id b = random_operand(&rng, pool, count);
            nsi_id c = random_operand(&rng, pool, count);
            uint32_t choice = ns_rng_below(&rng, 20);
            if (choice == 0) { // an input that comes late
                char name[16];
                snprintf(name, sizeof name, "x%u", count);
                pool[count++] = nsi_graph_input(g, name);
            } else if (choice < 5) {
                pool[count++] = nsi_graph_const(g, random_number(&rng));
            } else if (choice == 5) {
                nsi_id inputs[] = {a, b, c};
                nsi_block block = {.kind = &nsi_dense,
                                   .params = {3, 2},
                                   .ninput = 3,
                                   .inputs = inputs,
                                   .source = w,
                                   .sink = NSI_NONE};
                nsi_id node = nsi_graph_block(g, &block);
                pool[count++] = nsi_graph_out(g, node, ns_rng_below(&rng, 2));
            } else if (choice == 6 && ns_rng_below(&rng, 4) == 0) {
                nsi_id inputs[] = {a, b, c};
                nsi_block block = {.kind = &nsi_dense_outer,
                                   .params = {2, 1},
                                   .ninput = 3,
                                   .inputs = inputs,
                                   .source = NSI_NONE,
                                   .sink = s,
                                   .sink_offset = ns_rng_below(&rng, 7)};
                nsi_graph_block(g, &block);
            } else {
                nsi_op op = random_op(&rng);
                if (nsi_ops[op].kind != NSI_KIND_LEAF) {
                    pool[count++] = nsi_make(g, op, a, b, c);
                }
            }
        }
        for (uint32_t k = 0; k < 5; k++) {
            char name[16];
            snprintf(name, sizeof name, "y%u", k);
            nsi_graph_output(g, name, random_operand(&rng, pool, count));
        }
        check_round_trip(g);

        ns_graph* gradient = NULL;
        assert_int_equal(ns_graph_vjp(g, NULL, &gradient, NULL), NS_OK);
        check_round_trip(gradient);
        ns_graph_free(gradient);
        ns_graph_free(g);
    }
}

// ---- numbers and names ---------------------------------------------------------------------

static const double numbers[] = {
    0.0,
    -0.0,
    1.0,
    0.1,
    -1.0 / 3.0,
    123456789012345.0,
    1e15,
    1e16,
    1e17,
    1e22,
    1e23,
    0.30000000000000004,
    5e-324,
    -4.9406564584124654e-322,
    2.2250738585072009e-308, // the largest subnormal
    DBL_MIN,
    DBL_MAX,
    -0x1.fffffffffffffp1023,
    DBL_EPSILON,
    1.0 + DBL_EPSILON,
    1.0 - DBL_EPSILON / 2.0,
    INFINITY,
    -INFINITY,
    NAN,
};

enum { NNUMBER = sizeof numbers / sizeof *numbers };

static void check_number(double value) {
    ns_graph* g = new_graph();
    nsi_graph_output(g, "y", nsi_graph_const(g, value));
    ns_text text = print(g);
    ns_graph* copy = parse(text.data);
    const nsi_node* node = &copy->nodes.data[copy->outputs.data[0].node];
    assert_int_equal(node->op, NSI_CONST);
    double expected = isnan(value) ? NAN : value; // a NaN has no sign and no payload here
    if (memcmp(&node->value, &expected, sizeof expected) != 0) {
        fail_msg("%a is %s and reads back as %a", value, text.data, node->value);
    }
    check_round_trip(g);
    ns_text_free(&text);
    ns_graph_free(copy);
    ns_graph_free(g);
}

static void numbers_keep_their_bits(void** state) {
    (void)state;
    for (int k = 0; k < NNUMBER; k++) check_number(numbers[k]);
    ns_rng rng = ns_rng_seed(1);
    for (int k = 0; k < 20000; k++) {
        uint64_t bits = ns_rng_next(&rng);
        double value;
        memcpy(&value, &bits, sizeof value);
        check_number(value);
    }
}

static void numbers_are_short(void** state) {
    (void)state;
    check_printed("graph 1\n%0 = const 0.1000000000000000055\n%1 = const +.5e+1\n%2 = const 1.\n"
                  "%3 = const 1E300\n%4 = const 1e-400\n%5 = const -0\n%6 = const -inf\n"
                  "output \"a\" %0\noutput \"b\" %1\noutput \"c\" %2\noutput \"d\" %3\n"
                  "output \"e\" %4\noutput \"f\" %5\noutput \"g\" %6\n",
                  "graph 1\n%0 = const 0.1\n%1 = const 5\n%2 = const 1\n"
                  "%3 = const 1e+300\n%4 = const 0\n%5 = const -0\n%6 = const -inf\n"
                  "output \"a\" %0\noutput \"b\" %1\noutput \"c\" %2\noutput \"d\" %3\n"
                  "output \"e\" %4\noutput \"f\" %5\noutput \"g\" %6\n");
}

static void every_nan_is_one(void** state) {
    (void)state;
    ns_graph* g = new_graph();
    nsi_id zero = nsi_graph_const(g, 0.0);
    nsi_id a = nsi_graph_const(g, NAN), b = nsi_graph_const(g, -NAN);
    assert_int_equal(a, b);
    assert_int_equal(nsi_make(g, NSI_SQRT, nsi_graph_const(g, -1.0), 0, 0), a);
    assert_int_equal(nsi_make(g, NSI_MIN, zero, a, 0), a);
    ns_graph_free(g);
}

static void odd_names_round_trip(void** state) {
    (void)state;
    char all[256];
    for (int c = 1; c < 256; c++) all[c - 1] = (char)(unsigned char)c;
    all[255] = '\0';
    char longest[NSI_MAX_NAME];
    memset(longest, 0xff, sizeof longest);
    longest[NSI_MAX_NAME - 1] = '\0';
    const char* names[] = {all, longest,    "\"",   "\\", "\\x41",   "\n%0 = const 1",
                           "#", "\xce\xb8", "%s%n", " ",  "a \"b\"", "\\"};
    ns_graph* g = new_graph();
    for (size_t k = 0; k + 1 < sizeof names / sizeof *names; k++) { // the last repeats another
        nsi_graph_input(g, names[k]);
        nsi_graph_output(g, names[k], g->inputs.data[k].node);
        nsi_graph_array(g, names[k], 1, false);
        nsi_graph_sink(g, names[k], 1, true);
    }
    check_round_trip(g);
    ns_text text = print(g);
    for (size_t k = 0; k < text.size; k++) {
        assert_true(text.data[k] == '\n' || (text.data[k] >= 0x20 && text.data[k] < 0x7f));
    }
    ns_text_free(&text);
    ns_graph_free(g);

    // UTF-8 may also be written as it is, and A as \x41.
    check_printed("graph 1\ninput \"\xce\xb8 \\x41\"\n", "graph 1\ninput \"\\xce\\xb8 A\"\n");
}

// ---- memory and locale ---------------------------------------------------------------------

static void print_survives_failing_allocations(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_parse(sample, sizeof sample - 1, NULL, &allocator, &g, NULL), NS_OK);
    size_t live = counter.live_blocks;
    for (size_t n = 1;; n++) {
        counter.calls = 0;
        counter.fail_at = n;
        ns_text text;
        ns_error error = {0};
        ns_status status = ns_graph_print(g, &text, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_string_equal(text.data, sample);
            assert_in_range(n, 4, 100);
            ns_text_free(&text);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_null(text.data);
        assert_int_equal(counter.live_blocks, live);
    }
    counter.fail_at = 0;
    ns_graph_free(g);
    assert_int_equal(counter.live_blocks, 0);
}

static void locale_does_not_matter(void** state) {
    (void)state;
    // A comma, or in Pashto two bytes, as the decimal separator.
    static const char* const candidates[] = {
        "de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "nl_NL.UTF-8", "de_DE", "ps_AF.UTF-8", "ps_AF"};
    bool any = false;
    for (size_t k = 0; k < sizeof candidates / sizeof *candidates; k++) {
        if (!setlocale(LC_NUMERIC, candidates[k])) continue;
        char text[32];
        snprintf(text, sizeof text, "%.1f", 0.5);
        if (strcmp(text, "0.5") != 0) {
            any = true;
            for (int i = 0; i < NNUMBER; i++) check_number(numbers[i]);
            check_printed(sample, sample);
            numbers_are_short(NULL);
            check_malformed(HEAD "%1 = const 1,5\n", sizeof HEAD "%1 = const 1,5\n" - 1,
                            "\"1,5\" is not a number");
        }
        setlocale(LC_NUMERIC, "C");
    }
    if (!any) {
        print_message("locale_does_not_matter: no locale with another decimal separator here\n");
        skip();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sample_is_unchanged),
        cmocka_unit_test(every_op_round_trips),
        cmocka_unit_test(abs_of_negated_abs_is_final),
        cmocka_unit_test(random_graphs_round_trip),
        cmocka_unit_test(numbers_keep_their_bits),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(every_nan_is_one),
        cmocka_unit_test(odd_names_round_trip),
        cmocka_unit_test(print_survives_failing_allocations),
        cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
