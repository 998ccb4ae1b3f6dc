// The text form of graphs: what is printed, that it reads back to the same graph, and what is said
// about texts that are no graphs.

#include "expr/block.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

// ---- helpers -------------------------------------------------------------------------------

static ns_graph* new_graph(void) {
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_create(NULL, &g, NULL), NS_OK);
    return g;
}

static ns_graph* parse(const char* text) {
    ns_graph* g = NULL;
    ns_error error = {0};
    must(ns_graph_parse(text, strlen(text), NULL, NULL, &g, &error), &error);
    assert_int_equal(nsi_graph_validate(g, NULL), NS_OK);
    return g;
}

static ns_text print(const ns_graph* g) {
    ns_text text;
    assert_int_equal(ns_graph_print(g, &text, NULL), NS_OK);
    assert_int_equal(strlen(text.data), text.size);
    return text;
}

// Print, read, print again: the same bytes, and the same ports.
static void check_round_trip(const ns_graph* g) {
    assert_int_equal(g->error.status, NS_OK);
    ns_text first = print(g);
    ns_graph* copy = parse(first.data);
    ns_text second = print(copy);
    assert_string_equal(first.data, second.data);

    assert_int_equal(ns_graph_op_count(copy), ns_graph_op_count(g));
    assert_int_equal(copy->inputs.count, g->inputs.count);
    assert_int_equal(copy->outputs.count, g->outputs.count);
    assert_int_equal(copy->arrays.count, g->arrays.count);
    assert_int_equal(copy->sinks.count, g->sinks.count);
    for (uint32_t k = 0; k < g->inputs.count; k++) {
        assert_string_equal(copy->inputs.data[k].name, g->inputs.data[k].name);
    }
    for (uint32_t k = 0; k < g->arrays.count; k++) {
        assert_string_equal(copy->arrays.data[k].name, g->arrays.data[k].name);
        assert_int_equal(copy->arrays.data[k].size, g->arrays.data[k].size);
        assert_int_equal(copy->arrays.data[k].per_lane, g->arrays.data[k].per_lane);
    }
    ns_text_free(&first);
    ns_text_free(&second);
    ns_graph_free(copy);
}

static void check_printed(const char* text, const char* expected) {
    ns_graph* g = parse(text);
    ns_text printed = print(g);
    assert_string_equal(printed.data, expected);
    check_round_trip(g);
    ns_text_free(&printed);
    ns_graph_free(g);
}

// ---- what is printed -----------------------------------------------------------------------

static const char sample[] = "graph 1\n"
                             "input \"q\"\n"
                             "input \"unused\"\n"
                             "input \"dq\"\n"
                             "array \"net/w\" 48\n"
                             "array \"scale\" 2 per_lane\n"
                             "sink \"d:net/w\" 48\n"
                             "sink \"d:scale\" 2 per_lane\n"
                             "%0 = input 0\n"
                             "%1 = input 2\n"
                             "%2 = const 0.5\n"
                             "%3 = sin %0\n"
                             "%4 = fma %1 %2 %0\n"
                             "%5 = block dense nin=4 nout=2 (%0 %1 %3 %4) from @0+40\n"
                             "%6 = out %5 0\n"
                             "%7 = out %5 1\n"
                             "%8 = block dense_transpose nin=1 nout=2 (%6 %7) from @1+0\n"
                             "%9 = out %8 0\n"
                             "%10 = block dense_outer nin=1 nout=2 (%0 %1 %3) into @0+12\n"
                             "%11 = block dense_outer nin=1 nout=2 (%0 %1 %3) into @0+12\n"
                             "input \"late\"\n"
                             "%12 = input 3\n"
                             "%13 = mul %4 %12\n"
                             "output \"y\" %9\n"
                             "output \"z\" %13\n"
                             "output \"same\" %13\n";

static void sample_is_unchanged(void** state) {
    (void)state;
    check_printed(sample, sample);
}

static void reading_simplifies(void** state) {
    (void)state;
    check_printed("graph 1\n"
                  "input \"x\"\n"
                  "%7 = input 0 # any numbers will do\n"
                  "\n"
                  "  %2147483647=const 2\t# and blanks where they do not matter\r\n"
                  "%3 = mul %2147483647 %2147483647\n"
                  "%4 = sub %7 %7\n"
                  "%5 = add %7 %4\n"
                  "%6 = mul %5 %3\n"
                  "%0 = exp %7 # dead\n"
                  "output \"y\" %6 #\n"
                  "# no newline at the end",
                  "graph 1\n"
                  "input \"x\"\n"
                  "%0 = input 0\n"
                  "%1 = const 4\n"
                  "%2 = mul %0 %1\n"
                  "output \"y\" %2\n");
    check_printed("graph 1", "graph 1\n");
    check_printed("# first a comment\n\n graph 1 # ...\r\n", "graph 1\n");
}

static void equal_blocks_merge_unless_they_add(void** state) {
    (void)state;
    check_printed("graph 1\ninput \"x\"\narray \"w\" 1\nsink \"s\" 1\n"
                  "%0 = input 0\n"
                  "%1 = block dense nin = 1 nout = 1 ( %0 ) from @0 + 0\n"
                  "%2 = block dense nin=1 nout=1 (%0) from @0+0\n"
                  "%3 = block dense_outer nin=1 nout=1 (%0 %0)into @0+0\n"
                  "%4 = block dense_outer nin=1 nout=1(%0%0) into @0+0\n"
                  "%5 = out %1 0\n%6 = out %2 0\n%7 = add %5 %6\noutput \"y\" %7\n",
                  "graph 1\ninput \"x\"\narray \"w\" 1\nsink \"s\" 1\n"
                  "%0 = input 0\n"
                  "%1 = block dense nin=1 nout=1 (%0) from @0+0\n"
                  "%2 = block dense_outer nin=1 nout=1 (%0 %0) into @0+0\n"
                  "%3 = block dense_outer nin=1 nout=1 (%0 %0) into @0+0\n"
                  "%4 = out %1 0\n%5 = add %4 %4\noutput \"y\" %5\n");
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

// ---- malformed texts -----------------------------------------------------------------------

#define HEAD "graph 1\ninput \"x\"\narray \"w\" 8\nsink \"s\" 8\n%0 = input 0\n" // five lines
#define DENSE "%1 = block dense nin=1 nout=2 (%0) from @0+0\n"                   // line 6

static const struct {
    const char *text, *expected;
} malformed[] = {
    // the header
    {"", "t:1:1: the text has no graph; a graph starts with the line \"graph 1\""},
    {"# nothing\n\n", "t:3:1: the text has no graph"},
    {"input \"x\"\n", "t:1:1: found \"input\"; a graph starts with the line \"graph 1\""},
    {"\x7f"
     "ELF",
     "t:1:1: found \"?ELF\"; a graph starts with the line \"graph 1\""},
    {"  graphs 1\n", "t:1:3: found \"graphs\""},
    {"graph\n", "t:1:6: the line ends here; expected the version of the form, 1"},
    {"graph one\n", "t:1:7: found \"one\"; expected the version"},
    {"graph 2\n", "t:1:7: version 2 of the form is not known; this library reads version 1"},
    {"graph 99999999999999999999\n", "t:1:7: 99999999999999999999 is too large"},
    {"graph 1 2\n", "t:1:9: unexpected \"2\" after the end of the statement; remove it"},
    {"graph 1\ngraph 1\n", "t:2:1: a second header; a text holds one graph"},

    // statements
    {HEAD "inptu \"y\"\n", "t:6:1: found \"inptu\"; expected input, array, sink, output or"},
    {HEAD "= 3\n", "t:6:1: found \"=\"; expected input"},
    {HEAD "\xff\x01\n", "t:6:1: found \"??\"; expected input"},
    {HEAD "%1 = sin %0 garbage\n", "t:6:13: unexpected \"garbage\" after the end"},
    {HEAD "%1 = const 1 2\n", "t:6:14: unexpected \"2\" after the end"},
    {HEAD "%1 = input 0 0\n", "t:6:14: unexpected \"0\" after the end"},
    {HEAD "input \"y\" 3\n", "t:6:11: unexpected \"3\" after the end"},
    {HEAD "output \"y\" %0 %0\n", "t:6:15: unexpected \"%0\" after the end"},

    // names
    {HEAD "input\n", "t:6:6: the line ends here; expected a name in double quotes"},
    {HEAD "input y\n", "t:6:7: found \"y\"; expected a name in double quotes"},
    {HEAD "input \"\"\n", "t:6:7: the name is empty; give it one"},
    {HEAD "input \"y\n", "t:6:7: the name does not end on this line; close it with \""},
    {HEAD "input \"y\\\"\n", "t:6:7: the name does not end on this line"},
    {HEAD "input \"y\\", "t:6:9: unknown escape; write \\\", \\\\ or \\xNN"},
    {HEAD "input \"y\\n\"\n", "t:6:9: unknown escape"},
    {HEAD "input \"\\x4\"\n", "t:6:8: unknown escape"},
    {HEAD "input \"\\x", "t:6:8: unknown escape"},
    {HEAD "input \"\\xgg\"\n", "t:6:8: unknown escape"},
    {HEAD "input \"\\x00\"\n", "t:6:8: a name cannot contain a NUL byte; leave it out"},
    {HEAD "input \"a\tb\"\n", "t:6:9: control character in a name; write it as \\x09"},
    {HEAD "input \"x\"\n", "t:6:7: \"x\" is taken already; names must differ"},
    {HEAD "input \"\\x78\"\n", "t:6:7: \"\\x78\" is taken already; names must differ"},
    {HEAD "array \"w\" 1\n", "t:6:7: \"w\" is taken already"},
    {HEAD "sink \"s\" 1\n", "t:6:6: \"s\" is taken already"},
    {HEAD "output \"y\" %0\noutput \"y\" %0\n", "t:7:8: \"y\" is taken already"},

    // arrays
    {HEAD "array \"v\"\n", "t:6:10: the line ends here; expected the size of an array"},
    {HEAD "array \"v\" -1\n", "t:6:11: found \"-1\"; expected the size of an array"},
    {HEAD "array \"v\" 0\n", "t:6:7: the array has size 0; it must be at least 1"},
    {HEAD "sink \"v\" 268435457\n",
     "t:6:10: 268435457 is too large; the size of an array is at most"},
    {HEAD "array \"v\" 1 perlane\n", "t:6:13: found \"perlane\"; expected per_lane or the end"},
    {HEAD "array \"v\" 1 per_lane 2\n", "t:6:22: unexpected \"2\""},

    // definitions
    {HEAD "%\n", "t:6:2: \"%\" without a number; nodes are called %0, %1, ..."},
    {HEAD "% 1 = sin %0\n", "t:6:2: \"%\" without a number"},
    {HEAD "%x = sin %0\n", "t:6:2: \"%\" without a number"},
    {HEAD "%2147483648 = sin %0\n",
     "t:6:2: 2147483648 is too large; the number of a node is at most"},
    {HEAD "%0 = const 1\n", "t:6:1: %0 is defined already, on line 5; use another number"},
    {HEAD "%1 sin %0\n", "t:6:4: found \"sin\"; expected = and an operation"},
    {HEAD "%1 =\n", "t:6:5: the line ends here; expected an operation such as add"},
    {HEAD "%1 = %0\n", "t:6:6: found \"%0\"; expected an operation such as add"},
    {HEAD "%1 = sine %0\n", "t:6:6: unknown operation \"sine\"; did you mean \"sin\"?"},
    {HEAD "%1 = slect %0 %0 %0\n", "t:6:6: unknown operation \"slect\"; did you mean \"select\"?"},
    {HEAD "%1 = SIN %0\n", "t:6:6: unknown operation \"SIN\"; did you mean"},
    {HEAD "%1 = abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz %0\n",
     "t:6:6: unknown operation \"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqr...\"; no name is"},

    // operands
    {HEAD "%1 = sin\n", "t:6:6: sin is given 0 operands; it takes 1"},
    {HEAD "%1 = add %0\n", "t:6:6: add is given 1 operand; it takes 2"},
    {HEAD "%1 = add %0 %0 %0\n", "t:6:6: add is given 3 operands; it takes 2"},
    {HEAD "%1 = fma %0 # %0 %0\n", "t:6:6: fma is given 1 operand; it takes 3"},
    {HEAD "%1 = add %0 0\n", "t:6:13: found \"0\"; expected an operand such as %0"},
    {HEAD "%1 = sin %2\n%2 = const 1\n",
     "t:6:10: %2 is not defined; operands must be defined on an earlier line"},
    {HEAD "%1 = neg %1\n",
     "t:6:10: %1 is not defined; operands must be defined on an earlier line"},
    {HEAD "%1 = add %0 %9999999999\n", "t:6:14: 9999999999 is too large"},
    {HEAD "output \"y\"\n", "t:6:11: the line ends here; expected a node such as %0"},
    {HEAD "output \"y\" %3\n", "t:6:12: %3 is not defined"},
    {HEAD DENSE "%2 = sin %1\n", "t:7:10: %1 is a block, not a number; take one of its outputs"},
    {HEAD DENSE "output \"y\" %1\n", "t:7:12: %1 is a block, not a number"},
    {HEAD DENSE "%2 = block dense nin=1 nout=1 (%1) from @0+0\n", "t:7:32: %1 is a block, not a"},

    // leaves
    {HEAD "%1 = const\n", "t:6:11: the line ends here; expected a number"},
    {HEAD "%1 = const one\n",
     "t:6:12: \"one\" is not a number; write it like -1.5e-3, inf, -inf or nan"},
    {HEAD "%1 = const 1,5\n", "t:6:12: \"1,5\" is not a number"},
    {HEAD "%1 = const 0x10\n", "t:6:12: \"0x10\" is not a number"},
    {HEAD "%1 = const 1e\n", "t:6:12: \"1e\" is not a number"},
    {HEAD "%1 = const 1e+\n", "t:6:12: \"1e+\" is not a number"},
    {HEAD "%1 = const .\n", "t:6:12: \".\" is not a number"},
    {HEAD "%1 = const -\n", "t:6:12: \"-\" is not a number"},
    {HEAD "%1 = const 1.5.\n", "t:6:12: \"1.5.\" is not a number"},
    {HEAD "%1 = const +inf\n", "t:6:12: \"+inf\" is not a number"},
    {HEAD "%1 = const NaN\n", "t:6:12: \"NaN\" is not a number"},
    {HEAD "%1 = const infinity\n", "t:6:12: \"infinity\" is not a number"},
    {HEAD "%1 = const 1e309\n", "t:6:12: \"1e309\" is too large or too long"},
    {HEAD "%1 = const -1e99999999999999999999\n",
     "t:6:12: \"-1e99999999999999999999\" is too large"},
    {HEAD "%1 = input\n", "t:6:11: the line ends here; expected the number of an input"},
    {HEAD "%1 = input 1\n", "t:6:12: there is no input 1; 1 are declared on earlier lines"},
    {HEAD "%1 = input -1\n", "t:6:12: found \"-1\"; expected the number of an input"},
    {HEAD "%1 = input 4294967296\n", "t:6:12: 4294967296 is too large"},
    {HEAD "%1 = out %0 0\n", "t:6:10: %0 is a number, not a block; out takes a block"},
    {HEAD "%1 = out\n", "t:6:9: the line ends here; expected a node such as %0"},
    {HEAD DENSE "%2 = out %1\n", "t:7:12: the line ends here; expected the number of an output"},
    {HEAD DENSE "%2 = out %1 2\n", "t:7:13: the block has no output 2; it has 2, counted from 0"},

    // blocks
    {HEAD "%1 = block\n", "t:6:11: the line ends here; expected the kind of the block"},
    {HEAD "%1 = block dens nin=1\n", "t:6:12: unknown kind of block \"dens\"; is it misspelt"},
    {HEAD "%1 = block dense (%0)\n", "t:6:18: found \"(%0)\"; expected nin"},
    {HEAD "%1 = block dense nout=1 nin=1 (%0)\n",
     "t:6:18: found \"nout\"; parameter 1 of block dense is nin"},
    {HEAD "%1 = block dense nin (%0)\n", "t:6:22: found \"(%0)\"; expected ="},
    {HEAD "%1 = block dense nin=x\n", "t:6:22: found \"x\"; expected nin"},
    {HEAD "%1 = block dense nin=0 nout=1 () from @0+0\n",
     "t:6:12: the parameters of block dense are"},
    {HEAD "%1 = block dense nin=4294967295 nout=4294967295 ()\n",
     "t:6:12: the parameters of block"},
    {HEAD "%1 = block dense nin=1 nout=1\n",
     "t:6:30: the line ends here; expected ( and the inputs"},
    {HEAD "%1 = block dense nin=1 nout=1 %0\n", "t:6:31: found \"%0\"; expected ( and the inputs"},
    {HEAD "%1 = block dense nin=1 nout=1 (%0\n", "t:6:34: the line ends here; expected another"},
    {HEAD "%1 = block dense nin=2 nout=1 (%0) from @0+0\n",
     "t:6:31: block dense is given 1 input; its parameters ask for 2"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0 %0) from @0+0\n",
     "t:6:31: block dense is given 2 inputs; its parameters ask for 1"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0)\n",
     "t:6:35: the block needs an array of 2 elements; add \"from @<array>+<offset>\""},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) into @0+0\n",
     "t:6:36: the block needs an array of 2"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from @0+0 into @0+0\n",
     "t:6:46: this block has no array there; remove \"into\""},
    {HEAD "%1 = block dense_outer nin=1 nout=1 (%0 %0) from @0+0 into @0+0\n",
     "t:6:45: this block has no array there; remove \"from\""},
    {HEAD "%1 = block dense_outer nin=1 nout=1 (%0 %0)\n", "add \"into @<array>+<offset>\""},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from 0\n",
     "t:6:41: found \"0\"; expected an array such"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from @1+0\n", "t:6:42: there is no array @1; 1 are"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from @0\n",
     "t:6:43: the line ends here; expected + and"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from @0+7\n",
     "t:6:44: 2 elements from offset 7 on do not fit; the array has 8"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from @0+4294967295\n",
     "on do not fit; the array has 8"},
    {HEAD "%1 = block dense nin=1 nout=9 (%0) from @0+0\n",
     "9 elements from offset 0 on do not fit"},
    {HEAD "%1 = block dense nin=1 nout=2 (%0) from @0+0 0\n",
     "t:6:46: unexpected \"0\" after the end"},
};
enum { NMALFORMED = sizeof malformed / sizeof *malformed };

static void check_malformed(const char* text, size_t size, const char* expected) {
    // A copy without a byte to spare, so that reading past the end is seen.
    char* copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph* g = NULL;
    ns_error error = {0};
    ns_status status = ns_graph_parse(copy, size, "t", &allocator, &g, &error);
    free(copy);
    if (status != NS_ERR_PARSE || error.status != status || !strstr(error.message, expected)) {
        fail_msg("%.*s\nexpected: %s\nstatus %d: %s", (int)size, text, expected, status,
                 error.message);
    }
    assert_null(g);
    assert_int_equal(counter.live_blocks, 0);
}

static void malformed_texts_are_refused(void** state) {
    (void)state;
    for (int k = 0; k < NMALFORMED; k++) {
        check_malformed(malformed[k].text, strlen(malformed[k].text), malformed[k].expected);
    }
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_parse(NULL, 0, NULL, NULL, &g, NULL), NS_ERR_PARSE);
    assert_null(g);

    static const char nul[] = "graph 1\ninput \"a\0b\"\n";
    check_malformed(nul, sizeof nul - 1, "t:2:9: NUL byte; the file is not text or is damaged");
    static const char nul_in_comment[] = "graph 1 #\0\n";
    check_malformed(nul_in_comment, sizeof nul_in_comment - 1, "t:1:10: NUL byte");
}

static void too_long_is_refused(void** state) {
    (void)state;
    enum { SIZE = (1 << 20) + 100 };
    char* text = malloc(SIZE);
    assert_non_null(text);

    // A line.
    memset(text, ' ', SIZE);
    memcpy(text, "graph 1\n", 8);
    check_malformed(text, SIZE, "t:2:1: the line is longer than 1048576 bytes; this is no graph");

    // A name, of 1,024 bytes.
    int size = snprintf(text, SIZE, "graph 1\ninput \"%01024d\"\n", 0);
    check_malformed(text, (size_t)size, "t:2:7: the name is longer than 1023 bytes; shorten it");

    // A number.
    size = snprintf(text, SIZE, "graph 1\n%%0 = const 0.%0300d\n", 0);
    check_malformed(text, (size_t)size, "t:2:12: \"0.0000000000000000000000000000000000000000");
    free(text);
}

// 20,000 lines that ask for 2^14 values each: reading them is cheap, a program of them is not to
// be.
static void wide_blocks_are_a_limit(void** state) {
    (void)state;
    enum { NBLOCK = 20000 };
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    nsi_text_add(&b, "graph 1\ninput \"x\"\narray \"w\" 40000\n%%0 = input 0\n");
    for (int k = 1; k <= NBLOCK; k++) {
        nsi_text_add(&b, "%%%d = block dense nin=1 nout=16384 (%%0) from @0+%d\n", 2 * k, k);
        nsi_text_add(&b, "%%%d = out %%%d 16383\noutput \"y%d\" %%%d\n", 2 * k + 1, 2 * k, k,
                     2 * k + 1);
    }
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_graph* g = NULL;
    assert_int_equal(ns_graph_parse(text.data, text.size, "t", &allocator, &g, NULL), NS_OK);
    assert_in_range(counter.live_bytes, 1, 10 * text.size);
    ns_program* program = NULL;
    ns_error error = {0};
    assert_int_equal(ns_program_build(g, NULL, &program, &error), NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "outputs of blocks included"));
    assert_null(program);
    ns_text_free(&text);
    ns_graph_free(g);
    assert_int_equal(counter.live_blocks, 0);
}

static void every_prefix_is_read_or_refused(void** state) {
    (void)state;
    for (size_t size = 0; size < sizeof sample; size++) {
        char* prefix = malloc(size ? size : 1);
        assert_non_null(prefix);
        memcpy(prefix, sample, size);
        ns_graph* g = NULL;
        ns_error error = {0};
        ns_status status = ns_graph_parse(prefix, size, "t", NULL, &g, &error);
        if (status == NS_OK) {
            assert_int_equal(nsi_graph_validate(g, NULL), NS_OK);
            check_round_trip(g);
        } else {
            assert_int_equal(status, NS_ERR_PARSE);
            assert_memory_equal(error.message, "t:", 2);
            assert_null(g);
        }
        ns_graph_free(g);
        free(prefix);
    }
}

// ---- memory and locale ---------------------------------------------------------------------

static void parse_survives_failing_allocations(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_graph* g = NULL;
        ns_error error = {0};
        ns_status status = ns_graph_parse(sample, sizeof sample - 1, NULL, &allocator, &g, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_in_range(n, 20, 1000);
            ns_graph_free(g);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_null(g);
        assert_int_equal(counter.live_blocks, 0);
    }
}

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
        cmocka_unit_test(reading_simplifies),
        cmocka_unit_test(equal_blocks_merge_unless_they_add),
        cmocka_unit_test(every_op_round_trips),
        cmocka_unit_test(abs_of_negated_abs_is_final),
        cmocka_unit_test(random_graphs_round_trip),
        cmocka_unit_test(numbers_keep_their_bits),
        cmocka_unit_test(numbers_are_short),
        cmocka_unit_test(every_nan_is_one),
        cmocka_unit_test(odd_names_round_trip),
        cmocka_unit_test(malformed_texts_are_refused),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(wide_blocks_are_a_limit),
        cmocka_unit_test(every_prefix_is_read_or_refused),
        cmocka_unit_test(parse_survives_failing_allocations),
        cmocka_unit_test(print_survives_failing_allocations),
        cmocka_unit_test(locale_does_not_matter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
