// YAML: random trees come back with the places at which they were written, what is refused is
// refused where it stands, and values keep their bounds.

#define _POSIX_C_SOURCE 200809L

#include "io/yaml.h"
#include "neuralsim/blueprint.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static nsi_yaml parse_bytes(const char* text, size_t size) {
    nsi_yaml yaml;
    ns_error error = {0};
    must(nsi_yaml_parse(text, size, "f.yaml", NULL, &yaml, &error), &error);
    assert_int_equal(error.status, NS_OK);
    return yaml;
}

static nsi_yaml parse(const char* text) {
    return parse_bytes(text, strlen(text));
}

static void refuse_bytes(const char* text, size_t size, ns_status expected, const char* message) {
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    nsi_yaml yaml;
    ns_error error = {0};
    ns_status status = nsi_yaml_parse(text, size, "f.yaml", &allocator, &yaml, &error);
    if (status != expected || strcmp(error.message, message) != 0) {
        fail_msg("%.100s\ngives %d: %s\nnot   %d: %s", text, status, error.message, expected,
                 message);
    }
    assert_int_equal(error.status, expected);
    assert_int_equal(counter.live_blocks, 0);
    nsi_yaml_free(&yaml);
}

static void refuse(const char* text, const char* message) {
    refuse_bytes(text, strlen(text), NS_ERR_PARSE, message);
}

// ---- trees ---------------------------------------------------------------------------------

// A tree in one line: texts in <> or "", lists in [], maps in {}.
static size_t print(const nsi_yaml_node* node, char* out) {
    char* at = out;
    if (node->key) at += sprintf(at, "%s=", node->key);
    if (node->type == NSI_YAML_SCALAR) {
        assert_null(node->first);
        assert_int_equal(node->count, 0);
        at += sprintf(at, node->plain ? "<%s>" : "\"%s\"", node->text);
        return (size_t)(at - out);
    }
    assert_null(node->text);
    uint32_t count = 0;
    at += sprintf(at, node->type == NSI_YAML_LIST ? "[" : "{");
    for (const nsi_yaml_node* n = node->first; n; n = n->next, count++) {
        assert_ptr_equal(n->parent, node);
        assert_true((n->key != NULL) == (node->type == NSI_YAML_MAP));
        at += print(n, at);
    }
    assert_int_equal(node->count, count);
    at += sprintf(at, node->type == NSI_YAML_LIST ? "]" : "}");
    return (size_t)(at - out);
}

static void trees_are_what_yaml_says(void** state) {
    (void)state;
    static const char* const cases[][2] = {
        {"a: 1\nb: [x, 'y', \"z\"]\nc:\n  d: {}\n  e: []\n",
         "{a=<1>b=[<x>\"y\"\"z\"]c={d={}e=[]}}"},
        {"{\"a\": 1, \"b\": [x, 'y', \"z\"], \"c\": {\"d\": {}, \"e\": []}}", // JSON
         "{a=<1>b=[<x>\"y\"\"z\"]c={d={}e=[]}}"},
        {"- a\n- - b\n  - c\n-\n  d: e\n", "[<a>[<b><c>]{d=<e>}]"},
        {"a:\nb: ~\nc: ''\n", "{a=<>b=<~>c=\"\"}"},
        {"? a\n: b\n? c\n", "{a=<b>c=<>}"},
        {"a: b c  # d\n", "{a=<b c>}"},
        {"a: b\n  c\n", "{a=<b c>}"}, // folded
        {"a: >-\n  b\n  c\n", "{a=\"b c\"}"},
        {"'a b': \"\\u00e9\\x41\"\n", "{a b=\"\xC3\xA9"
                                      "A\"}"},
        {"\xC3\xA9: \xF0\x9F\xA4\x96\n", "{\xC3\xA9=<\xF0\x9F\xA4\x96>}"},
        {"<<: {a: b}\n", "{<<={a=<b>}}"}, // nothing is merged
        {"a: {a: {a: 1}}\nb: {a: 2}\n", "{a={a={a=<1>}}b={a=<2>}}"},
        {"%YAML 1.1\n---\na: b\n...\n", "{a=<b>}"},
        {"\xEF\xBB\xBF# mark\r\na: b\r\nc:\r\n- d\r\n", "{a=<b>c=[<d>]}"},
        {"text", "<text>"},
        {"100%", "<100%>"},
        {"", "<>"},
        {"# nothing\n", "<>"},
        {"---\n", "<>"},
        {"\xEF\xBB\xBF", "<>"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        nsi_yaml yaml = parse(cases[k][0]);
        char text[200];
        print(yaml.root, text);
        assert_string_equal(text, cases[k][1]);
        assert_null(yaml.root->key);
        assert_null(yaml.root->next);
        assert_null(yaml.root->parent);
        nsi_yaml_free(&yaml);
        assert_null(yaml.root);
        nsi_yaml_free(&yaml); // again
    }
    nsi_yaml zero = {0};
    nsi_yaml_free(&zero);
}

// ---- places --------------------------------------------------------------------------------

// Writes a random tree, and what reading it should tell.
typedef struct writer {
    ns_rng rng;
    char text[1 << 16], expected[1 << 17];
    size_t size, nexpected;
    uint32_t line, column;
    bool crlf;
} writer;

static void put(writer* w, const char* text) {
    size_t size = strlen(text);
    memcpy(w->text + w->size, text, size);
    w->size += size;
    for (size_t i = 0; i < size; i++) w->column += ((unsigned char)text[i] & 0xC0) != 0x80;
}

static void put_space(writer* w) {
    while (ns_rng_below(&w->rng, 3) == 0) put(w, " ");
    if (ns_rng_below(&w->rng, 4) != 0) return;
    if (ns_rng_below(&w->rng, 3) == 0) put(w, " # a \xC3\xA9 comment, [ {");
    put(w, w->crlf ? "\r\n" : "\n");
    w->line++;
    w->column = 1;
    put(w, " ");
}

static void expect(writer* w, const char* text) {
    w->nexpected +=
        (size_t)sprintf(w->expected + w->nexpected, "%s %u:%u\n", text, w->line, w->column);
}

static void put_tree(writer* w, uint32_t depth) {
    uint32_t kind = depth > 6 || w->size > 30000 ? 0 : ns_rng_below(&w->rng, 3);
    if (kind == 0) {
        static const char* const texts[] = {"plain", "'single'", "\"double\"", "\"\xC3\xA9\"", "7"};
        expect(w, "text");
        put(w, texts[ns_rng_below(&w->rng, 5)]);
        return;
    }
    uint32_t count = ns_rng_below(&w->rng, 6);
    expect(w, kind == 1 ? "list" : "map");
    put(w, kind == 1 ? "[" : "{");
    for (uint32_t k = 0; k < count; k++) {
        if (k > 0) put(w, ",");
        put_space(w);
        if (kind == 2) {
            char key[20];
            snprintf(key, sizeof key, "k\xC3\xA9y%u", k);
            expect(w, key);
            put(w, key);
            put(w, ": ");
            put_space(w);
        }
        put_tree(w, depth + 1);
    }
    put_space(w);
    put(w, kind == 1 ? "]" : "}");
}

static char* print_places(const nsi_yaml_node* node, char* at) {
    if (node->key) at += sprintf(at, "%s %u:%u\n", node->key, node->key_line, node->key_column);
    at += sprintf(at, "%s %u:%u\n",
                  node->type == NSI_YAML_SCALAR ? "text"
                  : node->type == NSI_YAML_LIST ? "list"
                                                : "map",
                  node->line, node->column);
    for (const nsi_yaml_node* n = node->first; n; n = n->next) at = print_places(n, at);
    return at;
}

static void places_are_where_it_was_written(void** state) {
    (void)state;
    writer* w = malloc(sizeof *w);
    char* places = malloc(sizeof w->expected);
    size_t size = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        *w = (writer){.rng = ns_rng_seed(seed), .line = 1, .column = 1, .crlf = seed % 2};
        if (seed % 3 == 0) put(w, "\xEF\xBB\xBF"), w->column = 1; // no column of its own
        put_tree(w, 0);
        nsi_yaml yaml = parse_bytes(w->text, w->size);
        *print_places(yaml.root, places) = '\0';
        assert_string_equal(places, w->expected);
        nsi_yaml_free(&yaml);
        size += w->size;
    }
    assert_true(size > 50000);
    free(places);
    free(w);

    nsi_yaml yaml = parse("a:\n  - b\n  -   c: d\n");
    const nsi_yaml_node* list = nsi_yaml_find(yaml.root, "a");
    assert_true(list->key_line == 1 && list->key_column == 1);
    assert_true(list->line == 2 && list->column == 3);
    const nsi_yaml_node* d = nsi_yaml_find(list->first->next, "c");
    assert_true(d->key_line == 3 && d->key_column == 7 && d->line == 3 && d->column == 10);
    nsi_yaml_free(&yaml);
}

// ---- what is refused -----------------------------------------------------------------------

static void what_is_refused_is_refused_where_it_stands(void** state) {
    (void)state;
#define QUOTE_IT "; remove it, or put a text that starts with "
    static const char* const cases[][2] = {
        {"a: &x 1", "f.yaml:1:4: the anchor \"x\" is not allowed here" QUOTE_IT "& in quotes"},
        {"&x a: 1", "f.yaml:1:1: the anchor \"x\" is not allowed here" QUOTE_IT "& in quotes"},
        {"a:\n- &x []", "f.yaml:2:3: the anchor \"x\" is not allowed here" QUOTE_IT "& in quotes"},
        {"&x {}", "f.yaml:1:1: the anchor \"x\" is not allowed here" QUOTE_IT "& in quotes"},
        {"a: *x", "f.yaml:1:4: the alias \"x\" is not allowed here; write the value out, or put a"
                  " name that starts with * in quotes"},
        {"a: b\n*x : 1", "f.yaml:2:1: the alias \"x\" is not allowed here; write the value out, or"
                         " put a name that starts with * in quotes"},
        {"a: !!int 1", "f.yaml:1:4: the tag \"tag:yaml.org,2002:int\" is not allowed here" QUOTE_IT
                       "! in quotes"},
        {"! a", "f.yaml:1:1: the tag \"!\" is not allowed here" QUOTE_IT "! in quotes"},
        {"[!x {}]", "f.yaml:1:2: the tag \"!x\" is not allowed here" QUOTE_IT "! in quotes"},
        {"[!x []]", "f.yaml:1:2: the tag \"!x\" is not allowed here" QUOTE_IT "! in quotes"},
        {"%TAG !a! b\n---\na", "f.yaml:1:1: the directive %TAG is not read; remove the line"},
        {"%YAML 3.0\n---\na", "f.yaml:1:1: malformed YAML: found incompatible YAML document"},
        {"a\n---\nb", "f.yaml:2:1: this starts a second document; a file has one"},
        {"a: 1\n...\nb: 1", "f.yaml:3:1: malformed YAML: did not find expected <document start>"},
        // keys
        {"a: 1\nb: 2\na: 3", "f.yaml:3:1: the key \"a\" is given twice, first on line 1; remove"
                             " one"},
        {"{a: {b: 1,\n 'b': 2}}", "f.yaml:2:2: the key \"b\" is given twice, first on line 1;"
                                  " remove one"},
        {"? [a]\n: b", "f.yaml:1:3: a key is a list or a mapping; write a word"},
        {"{a: {}, {b: c}: d}", "f.yaml:1:9: a key is a list or a mapping; write a word"},
        {"a: 1\n? \n: 2", "f.yaml:2:2: a key is empty; write a word"},
        {"'': 2", "f.yaml:1:1: a key is empty; write a word"},
        {"\"a\\tb\": 2", "f.yaml:1:1: the key \"a b\" has a control character; write one line of"
                         " text"},
        // texts
        {"a: \"b\\0\"", "f.yaml:1:4: a: \"b \" has a control character; write one line of text"},
        {"a: [\"\\x85\"]", "f.yaml:1:5: a: \"\xC2\x85\" has a control character; write one line of"
                           " text"},
        {"|\n  two\n  lines", "f.yaml:1:1: \"two lines\" has a control character; write one line of"
                              " text"},
        {"a: b\xFF",
         "f.yaml:1:5: this is not UTF-8 text: invalid leading UTF-8 octet; save the file"
         " as UTF-8"},
        {"a: \xC3\xA9\x01",
         "f.yaml:1:5: this is not UTF-8 text: control characters are not allowed;"
         " save the file as UTF-8"},
        {"a: b\r\nc: \xED\xA0\x80", "f.yaml:2:4: this is not UTF-8 text: invalid Unicode character;"
                                    " save the file as UTF-8"},
        {"\xFF\xFE",
         "f.yaml:1:1: this is not UTF-8 text: invalid leading UTF-8 octet; save the file"
         " as UTF-8"},
        // syntax
        {"[a\n",
         "f.yaml:2:1: malformed YAML: did not find expected ',' or ']' (while parsing a flow"
         " sequence, line 1)"},
        {"a: b: c", "f.yaml:1:5: malformed YAML: mapping values are not allowed in this context"},
        {"a: 'b\nc\n",
         "f.yaml:3:1: malformed YAML: found unexpected end of stream (while scanning a"
         " quoted scalar, line 1)"},
        {"a:\n\tb: c", "f.yaml:2:1: this line is indented with a tab; YAML takes spaces only"},
        {"\xc3\xa9: \xc3\xa9\na:\n  \tb: c\n",
         "f.yaml:3:3: this line is indented with a tab; YAML takes spaces only"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) refuse(cases[k][0], cases[k][1]);
    refuse_bytes("a: \0", 4, NS_ERR_PARSE,
                 "f.yaml:1:4: this is not UTF-8 text: control characters are not allowed; save the"
                 " file as UTF-8");
}

// `count` times a text between a beginning and an end, to be freed.
static char* repeat(const char* begin, const char* part, size_t count, const char* end,
                    size_t* size) {
    size_t nbegin = strlen(begin), npart = strlen(part), nend = strlen(end);
    *size = nbegin + count * npart + nend;
    char* text = malloc(*size + 1);
    assert_non_null(text);
    memcpy(text, begin, nbegin);
    for (size_t i = 0; i < count; i++) memcpy(text + nbegin + i * npart, part, npart);
    memcpy(text + *size - nend, end, nend + 1);
    return text;
}

static void refuse_repeated(const char* begin, const char* part, size_t count, const char* end,
                            ns_status expected, const char* message) {
    size_t size;
    char* text = repeat(begin, part, count, end, &size);
    refuse_bytes(text, size, expected, message);
    free(text);
}

// None of these takes longer than its length: the whole is done in a moment.
static void limits_are_kept(void** state) {
    (void)state;
    const char deep[] = "lists and mappings nest more than 32 deep";
    char message[NS_ERROR_SIZE];
    size_t many = 1 << 20, size;
    snprintf(message, sizeof message, "f.yaml:1:33: %s", deep);
    refuse_repeated("", "[", 33, "", NS_ERR_LIMIT, message);
    refuse_repeated("", "[", 4 * many, "", NS_ERR_LIMIT, message);
    snprintf(message, sizeof message, "f.yaml:1:129: %s", deep);
    refuse_repeated("", "{a: ", many, "", NS_ERR_LIMIT, message);
    snprintf(message, sizeof message, "f.yaml:1:65: %s", deep);
    refuse_repeated("", "- ", many, "", NS_ERR_LIMIT, message);
    refuse_repeated("", "? ", many, "", NS_ERR_PARSE,
                    "f.yaml:1:3: a key is a list or a mapping; write a word");
    refuse_repeated("", "\n", 4 * many, "a", NS_ERR_LIMIT,
                    "f.yaml: more than 4 MiB; split the file");
    refuse_repeated("[", "a,", many, "]", NS_ERR_LIMIT,
                    "f.yaml:1:2097152: more than 1048576 values; split the file");
    refuse_repeated("%YAML 1.1\n", "%TAG !a! b\n", many / 4, "--- a", NS_ERR_PARSE,
                    "f.yaml:2:1: the directive %TAG is not read; remove the line");
    refuse_repeated("#\xC2\x85", "%TAG !a! b\xC2\x85", 9, "--- a", NS_ERR_PARSE,
                    "f.yaml:1:3: the directive %TAG is not read; remove the line");

    // As much as is allowed.
    char* text = repeat("", "[", 32, "]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]", &size);
    nsi_yaml yaml = parse(text);
    uint32_t depth = 1;
    for (const nsi_yaml_node* n = yaml.root; n->first; n = n->first) depth++;
    assert_int_equal(depth, NSI_YAML_MAX_DEPTH);
    nsi_yaml_free(&yaml);
    free(text);
    text = repeat("[", "a,", many - 2, "a]", &size);
    yaml = parse_bytes(text, size);
    assert_int_equal(yaml.root->count, NSI_YAML_MAX_NODES - 1);
    nsi_yaml_free(&yaml);
    free(text);
    text = repeat("\"", "a", 4 * many - 2, "\"", &size);
    yaml = parse_bytes(text, size);
    assert_int_equal(strlen(yaml.root->text), 4 * many - 2);
    nsi_yaml_free(&yaml);
    free(text);
}

// Compared each with each, these keys would take minutes.
static void large_maps_are_read_in_linear_time(void** state) {
    (void)state;
    enum { COUNT = 250000 };
    char* text = malloc((size_t)COUNT * 16 + 100);
    size_t size = 0;
    for (int k = 0; k < COUNT; k++) size += (size_t)sprintf(text + size, "k%d: %d\n", k, k);
    nsi_yaml yaml = parse_bytes(text, size);
    assert_int_equal(yaml.root->count, COUNT);
    assert_string_equal(nsi_yaml_find(yaml.root, "k249999")->text, "249999");
    assert_null(nsi_yaml_find(yaml.root, "k250000"));
    nsi_yaml_free(&yaml);
    size += (size_t)sprintf(text + size, "k777: x\n");
    refuse_bytes(text, size, NS_ERR_PARSE,
                 "f.yaml:250001:1: the key \"k777\" is given twice, first on line 778; remove one");

    // The same keys again and again, each time in another map.
    size = 0;
    for (int k = 0; k < COUNT; k++) size += (size_t)sprintf(text + size, "- {a: 1}\n");
    yaml = parse_bytes(text, size);
    assert_int_equal(yaml.root->count, COUNT);
    nsi_yaml_free(&yaml);
    free(text);
}

static void long_keys_are_cut_in_messages(void** state) {
    (void)state;
    size_t size;
    char* text = repeat("? \"", "k", 100000, "\"\n: x\n", &size);
    nsi_yaml yaml = parse_bytes(text, size);
    assert_int_equal(strlen(yaml.root->first->key), 100000);
    ns_error error;
    double number;
    assert_int_equal(nsi_yaml_number(&yaml, yaml.root->first, 0.0, 1.0, &number, &error),
                     NS_ERR_PARSE);
    char key[80] = "", message[NS_ERROR_SIZE];
    memset(key, 'k', 66); // what nsi_quote() leaves
    snprintf(message, sizeof message,
             "f.yaml:2:3: \"%s...\": \"x\" is not a number; write a number", key);
    assert_string_equal(error.message, message);
    assert_int_equal(nsi_yaml_check_map(&yaml, yaml.root, "loss", "seed k", &error), NS_ERR_PARSE);
    snprintf(message, sizeof message, "f.yaml:1:3: unknown key \"%s...\"; the keys of loss: seed k",
             key); // too far from any for a hint
    assert_string_equal(error.message, message);
    nsi_yaml_free(&yaml);
    free(text);
}

// ---- values --------------------------------------------------------------------------------

static void maps_are_checked(void** state) {
    (void)state;
    nsi_yaml yaml = parse("loss: {wieghts: 1, seed: 2}\nlist: [1]\nnone:\n");
    const nsi_yaml_node* loss = nsi_yaml_find(yaml.root, "loss");
    ns_error error;
    assert_int_equal(nsi_yaml_check_map(&yaml, loss, "loss", "seed wieghts", &error), NS_OK);
    assert_int_equal(nsi_yaml_check_map(&yaml, NULL, "loss", "a", &error), NS_OK);
    assert_int_equal(nsi_yaml_check_map(&yaml, loss, "loss", "seed width weights", &error),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "f.yaml:1:8: unknown key \"wieghts\"; did you mean"
                                       " \"weights\"? The keys of loss: seed width weights");
    assert_int_equal(nsi_yaml_check_map(&yaml, loss, "loss", "wieghts see", &error), NS_ERR_PARSE);
    assert_string_equal(error.message, "f.yaml:1:20: unknown key \"seed\"; did you mean \"see\"?"
                                       " The keys of loss: wieghts see");
    assert_int_equal(
        nsi_yaml_check_map(&yaml, nsi_yaml_find(yaml.root, "list"), "list", "a b", &error),
        NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "f.yaml:2:7: list: this is a list; write a mapping with keys from: a b");
    assert_int_equal(
        nsi_yaml_check_map(&yaml, nsi_yaml_find(yaml.root, "none"), "none", "a b", &error),
        NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "f.yaml:3:6: none: this is nothing; write a mapping with keys from: a b");
    assert_null(nsi_yaml_find(yaml.root, "los"));
    assert_null(nsi_yaml_find(NULL, "loss"));
    assert_null(nsi_yaml_find(nsi_yaml_find(yaml.root, "list"), "1"));
    nsi_yaml_free(&yaml);
    yaml = parse("");
    assert_int_equal(nsi_yaml_check_map(&yaml, yaml.root, "job", "a", &error), NS_ERR_PARSE);
    assert_string_equal(error.message,
                        "f.yaml:1:1: job: this is nothing; write a mapping with keys from: a");
    nsi_yaml_free(&yaml);
}

typedef enum wanted { NUMBER, POSITIVE, COUNT, WHOLE, FLAG, TEXT, CHOICE } wanted;

// Read the value of `x` in a file as something, from 2 to 30 where it is a number. The result as a
// number.
static ns_status read_value(const nsi_yaml* yaml, const nsi_yaml_node* node, wanted kind,
                            double* out, ns_error* error) {
    double number = 77.0;
    uint32_t count = 77;
    uint64_t whole = 77;
    bool flag = true;
    const char* text = NULL;
    int which = 77;
    ns_status status;
    switch (kind) {
    case NUMBER: status = nsi_yaml_number(yaml, node, 2.5, 30.0, &number, error); break;
    case POSITIVE: status = nsi_yaml_number(yaml, node, DBL_MIN, INFINITY, &number, error); break;
    case COUNT:
        status = nsi_yaml_count(yaml, node, 2, 30, &count, error);
        number = count;
        break;
    case WHOLE:
        status = nsi_yaml_whole(yaml, node, 0, UINT64_MAX, &whole, error);
        number = (double)whole;
        break;
    case FLAG:
        status = nsi_yaml_flag(yaml, node, &flag, error);
        number = flag;
        break;
    case TEXT:
        status = nsi_yaml_text(yaml, node, &text, error);
        number = text ? (double)strlen(text) : 77.0;
        break;
    default:
        status = nsi_yaml_choice(yaml, node, &ns_augments, &which, error);
        number = which;
        break;
    }
    *out = number;
    return status;
}

static void values_keep_their_bounds(void** state) {
    (void)state;
    static const struct {
        const char* text;
        wanted kind;
        double value;
        const char* message; // NULL: fine
    } cases[] = {
        {"x: 2.5", NUMBER, 2.5, NULL},
        {"x: 30", NUMBER, 30.0, NULL},
        {"x: +.3e1", NUMBER, 3.0, NULL},
        {"x: 2.4999", NUMBER, 0, "1:4: x: \"2.4999\" is too small; at least 2.5"},
        {"x: 1e2", NUMBER, 0, "1:4: x: \"1e2\" is too large; at most 30"},
        {"x: [4, 5, 31]", NUMBER, 0, "1:11: x: \"31\" is too large; at most 30"},
        {"x: nan", NUMBER, 0, "1:4: x: \"nan\" is not finite; write a number"},
        {"x: -inf", NUMBER, 0, "1:4: x: \"-inf\" is not finite; write a number"},
        {"x: 1e999", NUMBER, 0, "1:4: x: \"1e999\" is too large or too long; write a number"},
        {"x: 1 m", NUMBER, 0, "1:4: x: \"1 m\" is not a number; write a number"},
        {"x: 0x10", NUMBER, 0, "1:4: x: \"0x10\" is not a number; write a number"},
        {"x: '3'", NUMBER, 0, "1:4: x: \"3\" is in quotes; write a number without"},
        {"x:", NUMBER, 0, "1:3: x: this is nothing; write a number"},
        {"x: {a: b}", NUMBER, 0, "1:4: x: this is a mapping; write a number"},
        {"x: 1e-300", POSITIVE, 1e-300, NULL},
        {"x: 1e300", POSITIVE, 1e300, NULL},
        {"x: 0", POSITIVE, 0, "1:4: x: \"0\" is not greater than 0; write such a number"},
        {"x: -1", POSITIVE, 0, "1:4: x: \"-1\" is not greater than 0; write such a number"},
        {"x: 2", COUNT, 2, NULL},
        {"x: 030", COUNT, 30, NULL},
        {"x: 1", COUNT, 0, "1:4: x: \"1\" is too small; at least 2"},
        {"x: 31", COUNT, 0, "1:4: x: \"31\" is too large; at most 30"},
        {"x: 4294967298", COUNT, 0, "1:4: x: \"4294967298\" is too large; at most 30"},
        {"x: -3", COUNT, 0, "1:4: x: \"-3\" is not a whole number from 2 to 30"},
        {"x: 3.0", COUNT, 0, "1:4: x: \"3.0\" is not a whole number from 2 to 30"},
        {"x: \"3\"", COUNT, 0, "1:4: x: \"3\" is not a whole number; write digits without quotes"},
        {"x: -3", WHOLE, 0, "1:4: x: \"-3\" is not a whole number; write digits"},
        {"x: ~", COUNT, 0, "1:4: x: this is nothing; write a whole number"},
        {"x: 18446744073709551615", WHOLE, 0x1p64, NULL},
        {"x: 18446744073709551616", WHOLE, 0,
         "1:4: x: \"18446744073709551616\" is too large; at most 18446744073709551615"},
        {"x: true", FLAG, 1, NULL},
        {"x: false", FLAG, 0, NULL},
        {"x: yes", FLAG, 0, "1:4: x: \"yes\" is neither true nor false"},
        {"x: True", FLAG, 0, "1:4: x: \"True\" is neither true nor false"},
        {"x: 'true'", FLAG, 0, "1:4: x: \"true\" is in quotes; write it without"},
        {"x: [[]]", FLAG, 0, "1:5: x: this is a list; write true or false"},
        {"x: three", TEXT, 5, NULL},
        {"x: 'null'", TEXT, 4, NULL},
        {"x: null", TEXT, 0, "1:4: x: this is nothing; write a text"},
        {"x: ''", TEXT, 0, "1:4: x: \"\" is empty; write a text"},
        {"x: add", CHOICE, 0, NULL},
        {"x: 'scale'", CHOICE, 2, NULL},
        {"x: rep", CHOICE, 0,
         "1:4: x: \"rep\" is not one of: add, replace, scale; did you mean \"replace\"?"},
        {"x: add replace", CHOICE, 0, "1:4: x: \"add replace\" is not one of: add, replace, scale"},
        {"x: ''", CHOICE, 0, "1:4: x: \"\" is not one of: add, replace, scale"},
        {"x:", CHOICE, 0, "1:3: x: this is nothing; write one of: add, replace, scale"},
        {"{'a b': 1}", COUNT, 0, "1:9: \"a b\": \"1\" is too small; at least 2"},
        {"1", COUNT, 0, "1:1: \"1\" is too small; at least 2"}, // without a key
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        nsi_yaml yaml = parse(cases[k].text);
        const nsi_yaml_node* node = yaml.root->first ? yaml.root->first : yaml.root;
        if (node->type == NSI_YAML_LIST) node = node->first; // its last item
        while (node->next) node = node->next;
        double value;
        ns_error error = {0};
        char message[NS_ERROR_SIZE] = "";
        ns_status status = read_value(&yaml, node, cases[k].kind, &value, &error);
        if (cases[k].message) snprintf(message, sizeof message, "f.yaml:%s", cases[k].message);
        assert_string_equal(error.message, message);
        assert_int_equal(status, cases[k].message ? NS_ERR_PARSE : NS_OK);
        if (!cases[k].message) assert_true(value == cases[k].value);
        nsi_yaml_free(&yaml);
    }
}

static void what_is_absent_or_wrong_changes_nothing(void** state) {
    (void)state;
    nsi_yaml yaml = parse("x: []");
    for (wanted kind = NUMBER; kind <= CHOICE; kind++) {
        double value;
        double before = kind == FLAG ? 1.0 : 77.0;
        assert_int_equal(read_value(&yaml, NULL, kind, &value, NULL), NS_OK);
        assert_true(value == before);
        assert_int_equal(read_value(&yaml, yaml.root->first, kind, &value, NULL), NS_ERR_PARSE);
        assert_true(value == before);
    }
    nsi_yaml_free(&yaml);
}

static void messages_start_with_the_place(void** state) {
    (void)state;
    nsi_yaml yaml = parse("\n a: 7\n");
    ns_error error;
    assert_int_equal(nsi_yaml_fail(&yaml, yaml.root->first, &error, "%s; %d", "no", 3),
                     NS_ERR_PARSE);
    assert_string_equal(error.message, "f.yaml:2:5: no; 3");
    assert_int_equal(error.status, NS_ERR_PARSE);
    assert_int_equal(nsi_yaml_fail_limit(&yaml, NULL, &error, "x"), NS_ERR_LIMIT);
    assert_string_equal(error.message, "f.yaml:2:2: x");
    assert_int_equal(error.status, NS_ERR_LIMIT);
    assert_int_equal(nsi_yaml_fail(&yaml, NULL, NULL, "x"), NS_ERR_PARSE);
    nsi_yaml_free(&yaml);
}

// ---- files, damage, memory -----------------------------------------------------------------

static void files_are_read(void** state) {
    (void)state;
    char message[NS_ERROR_SIZE];
    const char* path = tempdir_path("t.yaml");
    int handle = open(path, O_WRONLY | O_CREAT, 0666);
    assert_true(handle >= 0);
    assert_int_equal(write(handle, "a: [1]\n", 7), 7);
    nsi_yaml yaml;
    ns_error error;
    assert_int_equal(nsi_yaml_read(path, NULL, &yaml, &error), NS_OK);
    assert_string_equal(nsi_yaml_find(yaml.root, "a")->first->text, "1");
    assert_string_equal(yaml.file, path);
    nsi_yaml_free(&yaml);

    assert_int_equal(write(handle, "a: 1\n", 5), 5);
    assert_int_equal(nsi_yaml_read(path, NULL, &yaml, &error), NS_ERR_PARSE);
    snprintf(message, sizeof message,
             "%s:2:1: the key \"a\" is given twice, first on line 1; remove one", path);
    assert_string_equal(error.message, message);
    nsi_yaml_free(&yaml);

    assert_int_equal(ftruncate(handle, NSI_YAML_MAX_SIZE + 1), 0);
    assert_int_equal(nsi_yaml_read(path, NULL, &yaml, &error), NS_ERR_LIMIT);
    snprintf(message, sizeof message, "%s: more than 4 MiB; split the file", path);
    assert_string_equal(error.message, message);
    close(handle);
    unlink(path);
    assert_int_equal(nsi_yaml_read(path, NULL, &yaml, &error), NS_ERR_IO);
    snprintf(message, sizeof message, "%s: cannot be opened: No such file or directory", path);
    assert_string_equal(error.message, message);
    nsi_yaml_free(&yaml);
}

static const char sample[] = "robot: arm.urdf # comment\r\n"
                             "list: [1, {a: 'b', \"c\\u00e9\": ~}, []]\n"
                             "? long\n"
                             ": - x\n"
                             "  - >-\n"
                             "    folded\n"
                             "    text\n"
                             "\xC3\xA9t\xC3\xA9: {}\n";

// Every beginning of a file, and every byte replaced: an answer, and no memory left behind.
static void damaged_files_are_survived(void** state) {
    (void)state;
    static const char bytes[] = "\n\t x0-:[]{}&*!%\"'#,|>?\\\r\x80\xFF";
    size_t size = sizeof sample - 1, fine = 0, all = 0;
    for (size_t i = 0; i <= size; i++) {
        for (size_t k = 0; k <= sizeof bytes; k++, all++) {
            size_t cut = k < sizeof bytes ? size : i;
            char* text = malloc(cut + 1); // so that reading past the end is seen
            memcpy(text, sample, cut);
            if (k < sizeof bytes && i < size) text[i] = bytes[k];
            test_alloc counter = {0};
            ns_allocator allocator = test_allocator(&counter);
            nsi_yaml yaml;
            ns_error error = {0};
            ns_status status = nsi_yaml_parse(text, cut, "f", &allocator, &yaml, &error);
            assert_int_equal(status, error.status);
            assert_true((status == NS_OK) == (yaml.root != NULL));
            assert_true(status == NS_OK || strncmp(error.message, "f:", 2) == 0);
            fine += status == NS_OK;
            nsi_yaml_free(&yaml);
            assert_int_equal(counter.live_blocks, 0);
            free(text);
        }
    }
    print_message("%zu of %zu damaged files were fine\n", fine, all);
    assert_true(fine > 100 && fine < all - 100);
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    // Enough keys for the index to grow.
    char text[4000];
    size_t size = (size_t)sprintf(text, "x: 99\n%s", sample);
    for (int k = 0; k < 100; k++) size += (size_t)sprintf(text + size, "key%d: %d\n", k, k);
    size_t n = 1;
    for (bool done = false; !done; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_yaml yaml;
        ns_error error = {0};
        double number = 7.0;
        ns_status status = nsi_yaml_parse(text, size, "f", &allocator, &yaml, &error);
        if (status == NS_OK) { // the message needs memory
            status =
                nsi_yaml_number(&yaml, nsi_yaml_find(yaml.root, "x"), 0.0, 1.0, &number, &error);
            assert_int_not_equal(status, NS_OK);
        }
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_ERR_PARSE : NS_ERR_NOMEM);
        assert_int_equal(error.status, status);
        assert_true(number == 7.0);
        nsi_yaml_free(&yaml);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(n > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_what_yaml_says),
        cmocka_unit_test(places_are_where_it_was_written),
        cmocka_unit_test(what_is_refused_is_refused_where_it_stands),
        cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(large_maps_are_read_in_linear_time),
        cmocka_unit_test(long_keys_are_cut_in_messages),
        cmocka_unit_test(maps_are_checked),
        cmocka_unit_test(values_keep_their_bounds),
        cmocka_unit_test(what_is_absent_or_wrong_changes_nothing),
        cmocka_unit_test(messages_start_with_the_place),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(damaged_files_are_survived),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
