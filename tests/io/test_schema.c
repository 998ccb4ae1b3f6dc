// Reading by a table of keys: values go where the table says, and faults are told from it.

#include "io/schema.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COLOUR_MAP(X) X(RED, "red", "") X(GREEN, "green", "")
enum { COLOUR_MAP(NS_CHOICE_VALUE) };
static const ns_choice colour_rows[] = {COLOUR_MAP(NS_CHOICE_ROW)};
static const ns_choices colours = NS_CHOICES("colour", colour_rows);

typedef struct part {
    double width;
    bool hollow;
} part;

typedef struct thing {
    double size;
    uint32_t count;
    uint64_t seed;
    int colour;
    const char* name;
    nsi_text_list labels;
    nsi_number_list numbers;
    part inner;
    const nsi_yaml_node* others;
    int calls; // of functions
} thing;

static ns_status count_call(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)r, (void)node;
    ((thing*)out)->calls++;
    return NS_OK;
}

static const nsi_schema_key part_keys[] = {
    {"width", NSI_KEY_NUMBER, offsetof(part, width), DBL_MIN, DBL_MAX, .fallback = "2",
     .help = "m"},
    {"hollow", NSI_KEY_FLAG, offsetof(part, hollow), .fallback = "true", .help = "inside"},
};
static const nsi_schema part_schema = NSI_SCHEMA("a part", part_keys, NULL);

static const nsi_schema_key thing_keys[] = {
    {"size", NSI_KEY_NUMBER, offsetof(thing, size), 0.5, 10, .fallback = "1.5", .help = "m"},
    {"count", NSI_KEY_COUNT, offsetof(thing, count), 1, 9, .fallback = "(all)", .help = "of them"},
    {"seed", NSI_KEY_WHOLE, offsetof(thing, seed), .fallback = "7", .help = ""},
    {"colour", NSI_KEY_CHOICE, offsetof(thing, colour), .choices = &colours, .fallback = "green",
     .help = "seen"},
    {"name", NSI_KEY_TEXT, offsetof(thing, name), .required = true, .help = "what it is called"},
    {"labels", NSI_KEY_TEXTS, offsetof(thing, labels), .single = true, .most = 2, .help = ""},
    {"numbers", NSI_KEY_NUMBERS, offsetof(thing, numbers), .filled = true, .help = ""},
    {"inner", NSI_KEY_TABLE, offsetof(thing, inner), .table = &part_schema, .help = ""},
    {"others", NSI_KEY_MAP, offsetof(thing, others), .values = "`{NAME: x}`", .help = ""},
    {"special", NSI_KEY_OTHER, .read = count_call, .values = "anything", .help = ""},
};
static const nsi_schema thing_schema = NSI_SCHEMA("a thing", thing_keys, count_call);

static ns_status read_thing(const char* text, nsi_yaml* yaml, thing* out, ns_error* error) {
    must(nsi_yaml_parse(text, strlen(text), "t.yaml", NULL, yaml, error), error);
    nsi_schema_reader r = {.yaml = yaml, .arena = &yaml->arena, .error = error};
    *out = (thing){0};
    nsi_schema_defaults(&thing_schema, out);
    return nsi_schema_read(&r, &thing_schema, yaml->root, out);
}

static void values_go_where_the_table_says(void** state) {
    (void)state;
    nsi_yaml yaml;
    thing t;
    ns_error error = {0};
    must(read_thing("name: a\nsize: 2\ncount: 3\nseed: 18446744073709551615\ncolour: red\n"
                    "labels: one\nnumbers: [1, 2, 3]\ninner: {width: 0.5}\nothers: {x: 1}\n"
                    "special: [1]\n",
                    &yaml, &t, &error),
         &error);
    assert_true(t.size == 2.0 && t.count == 3 && t.seed == UINT64_MAX && t.colour == RED);
    assert_string_equal(t.name, "a");
    assert_true(t.labels.count == 1 && strcmp(t.labels.data[0], "one") == 0);
    assert_true(t.numbers.count == 3 && t.numbers.data[2] == 3.0);
    assert_true(t.inner.width == 0.5 && t.inner.hollow);
    assert_int_equal(t.others->count, 1);
    assert_int_equal(t.calls, 2); // the key's and the table's
    nsi_yaml_free(&yaml);
}

static void defaults_are_those_of_the_table(void** state) {
    (void)state;
    nsi_yaml yaml;
    thing t;
    ns_error error = {0};
    must(read_thing("name: a\n", &yaml, &t, &error), &error);
    assert_true(t.size == 1.5 && t.count == 0 && t.seed == 7 && t.colour == GREEN);
    assert_true(t.inner.width == 2.0 && t.inner.hollow && t.numbers.count == 0 && t.calls == 1);
    nsi_yaml_free(&yaml);
}

static void faults_are_told_from_the_table(void** state) {
    (void)state;
    static const struct {
        const char *text, *says;
    } bads[] = {
        {"size: 1\n", "t.yaml:1:1: `name` is missing: what it is called"},
        {"name: a\nsise: 1\n", "t.yaml:2:1: unknown key \"sise\"; did you mean \"size\"?"},
        {"name: a\nsize: 0.4\n", "t.yaml:2:7: size: \"0.4\" is too small; at least 0.5"},
        {"name: a\nsize: 11\n", "t.yaml:2:7: size: \"11\" is too large; at most 10"},
        {"name: a\nsize: [1]\n", "t.yaml:2:7: size: this is a list; write a number"},
        {"name: a\ncount: 10\n", "t.yaml:2:8: count: \"10\" is too large; at most 9"},
        {"name: a\ncolour: rad\n", "did you mean \"red\"?"},
        {"name: a\nname: b\n", "t.yaml:2:1: the key \"name\" is given twice"},
        {"name: a\nlabels: [a, b, c]\n", "t.yaml:2:9: labels: more than 2 of them"},
        {"name: a\nnumbers: []\n", "t.yaml:2:10: numbers: the list is empty"},
        {"name: a\nnumbers: 1\n", "t.yaml:2:10: numbers: this is one value; write a list"},
        {"name: a\ninner: {width: 0}\n", "t.yaml:2:16: width: \"0\" is not greater than 0"},
        {"name: a\ninner: {hight: 0}\n", "the keys of a part: width hollow"},
        {"name: a\nothers: [1]\n", "t.yaml:2:9: others: write a mapping"},
        {"- a\n", "t.yaml:1:1: a thing: this is a list; write a mapping with keys from: size"},
    };
    for (size_t k = 0; k < sizeof bads / sizeof *bads; k++) {
        nsi_yaml yaml = {0};
        thing t;
        ns_error error = {0};
        if (strstr(bads[k].says, "twice")) { // told by the parser
            nsi_yaml_parse(bads[k].text, strlen(bads[k].text), "t.yaml", NULL, &yaml, &error);
        } else {
            assert_int_not_equal(read_thing(bads[k].text, &yaml, &t, &error), NS_OK);
        }
        if (!strstr(error.message, bads[k].says))
            fail_msg("%s\nnot %s", error.message, bads[k].says);
        nsi_yaml_free(&yaml);
    }
}

static const char full_text[] =
    "name: a name\nlabels: [x, y]\nnumbers: [1, 2]\ninner: {width: 1}\n";

// Texts are copied into the arena of the reader; every allocation may fail.
static void texts_outlive_the_tree(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n}; // overwrites what is freed
        ns_allocator allocator = test_allocator(&counter);
        nsi_arena arena = {.allocator = allocator};
        nsi_yaml yaml = {0};
        thing t = {0};
        ns_error error = {0};
        ns_status status =
            nsi_yaml_parse(full_text, strlen(full_text), "t.yaml", &allocator, &yaml, &error);
        nsi_schema_reader r = {.yaml = &yaml, .arena = &arena, .error = &error};
        if (status == NS_OK) status = nsi_schema_read(&r, &thing_schema, yaml.root, &t);
        bool failed = counter.calls >= n;
        assert_int_equal(status, failed ? NS_ERR_NOMEM : NS_OK);

        nsi_yaml_free(&yaml);
        if (!failed) {
            assert_string_equal(t.name, "a name");
            assert_string_equal(t.labels.data[1], "y");
        }
        nsi_arena_free(&arena);
        assert_int_equal(counter.live_blocks, 0);
        if (!failed) break;
    }
}

// A mapping may hold the keys of two tables, each of which reads its own.
static void keys_of_another_table_are_accepted(void** state) {
    (void)state;
    static const nsi_schema both = {
        .what = "both", .keys = thing_keys, .count = 1, .also = &part_schema};
    static const char text[] = "size: 3\nwidth: 4\n", bad[] = "size: 3\ncount: 4\n";
    nsi_yaml yaml;
    ns_error error = {0};
    thing t = {0};
    part p = {0};
    must(nsi_yaml_parse(text, strlen(text), "t.yaml", NULL, &yaml, &error), &error);
    nsi_schema_reader r = {.yaml = &yaml, .arena = &yaml.arena, .error = &error};
    must(nsi_schema_read(&r, &both, yaml.root, &t), &error);
    must(nsi_schema_read_known(&r, &part_schema, yaml.root, &p), &error);
    assert_true(t.size == 3.0 && p.width == 4.0);
    nsi_yaml_free(&yaml);

    must(nsi_yaml_parse(bad, strlen(bad), "t.yaml", NULL, &yaml, &error), &error);
    assert_int_equal(nsi_schema_read(&r, &both, yaml.root, &t), NS_ERR_PARSE);
    assert_says(error.message, "t.yaml:2:1: unknown key \"count\"");
    assert_says(error.message, "keys of both: size width hollow");
    nsi_yaml_free(&yaml);
}

static void tables_are_printed(void** state) {
    (void)state;
    nsi_text_builder builder = {.allocator = ns_default_allocator()};
    ns_text text;
    nsi_schema_markdown(&thing_schema, &builder);
    assert_int_equal(nsi_text_finish(&builder, &text, NULL), NS_OK);
    assert_non_null(strstr(text.data, "| `size` | number, 0.5 to 10 | 1.5 | m |\n"));
    assert_non_null(strstr(text.data, "| `colour` | `red`, `green` | green | seen |\n"));
    assert_non_null(strstr(text.data, "| `name` | text | required | what it is called |\n"));
    ns_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_go_where_the_table_says),
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(faults_are_told_from_the_table),
        cmocka_unit_test(texts_outlive_the_tree),
        cmocka_unit_test(keys_of_another_table_are_accepted),
        cmocka_unit_test(tables_are_printed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
