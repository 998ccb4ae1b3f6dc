// Reading graphs from text: what is malformed or too large is refused, whatever is missing.

#include "expr/block.h"
#include "expr/text_rig.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <stdlib.h>

// ---- what is printed -----------------------------------------------------------------------

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

// ---- malformed texts -----------------------------------------------------------------------

#define DENSE "%1 = block dense nin=1 nout=2 (%0) from @0+0\n" // line 6

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
    {HEAD "inptu \"y\"\n",
     "t:6:1: found \"inptu\"; expected input, array, sink, output, function or"},
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reading_simplifies),
        cmocka_unit_test(equal_blocks_merge_unless_they_add),
        cmocka_unit_test(malformed_texts_are_refused),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(wide_blocks_are_a_limit),
        cmocka_unit_test(every_prefix_is_read_or_refused),
        cmocka_unit_test(parse_survives_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
