// Blueprints from YAML: what is read, and what is refused with its place.

#include "nn/blueprint_data.h"
#include "nn/blueprint_rig.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <stdlib.h>

static ns_blueprint* parse(const char* text) {
    ns_blueprint* blueprint = NULL;
    ns_error error;
    must(ns_blueprint_parse(text, strlen(text), "net.yaml", NULL, &blueprint, &error), &error);
    return blueprint;
}

static void yaml_is_read(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse(everything);
    assert_int_equal(ns_blueprint_network_count(blueprint), 2);
    const ns_network_def* drag = ns_blueprint_network(blueprint, 0);
    assert_string_equal(drag->name, "drag");
    assert_string_equal(drag->each, "link/*");
    assert_true(drag->separate);
    assert_int_equal(drag->ninput, 2);
    assert_string_equal(drag->inputs[0], "{}/velocity/x");
    assert_string_equal(drag->inputs[1], "prev:{}/force/x");
    assert_int_equal(drag->noutput, 1);
    assert_string_equal(drag->outputs[0], "{}/force/x");
    assert_int_equal(drag->mode, NS_AUGMENT_REPLACE);
    assert_int_equal(drag->nhidden, 2);
    assert_int_equal(drag->hidden[0], 35);
    assert_int_equal(drag->hidden[1], 20);
    assert_int_equal(drag->activation, NS_SOFTPLUS);
    assert_true(drag->no_bias);
    assert_int_equal(drag->structure, NS_STRUCTURE_DISSIPATIVE | NS_STRUCTURE_EVEN);
    assert_string_equal(drag->conjugate[0], "{}/velocity/x");
    assert_int_equal(drag->ninput_shift, 1);
    assert_true(drag->input_shift[0] == 0.5);
    assert_int_equal(drag->ninput_scale, 2);
    assert_true(drag->input_scale[0] == 2.0 && drag->input_scale[1] == 30.0);
    assert_true(drag->noutput_scale == 1 && drag->output_scale[0] == 1.45e-4);
    assert_true(drag->nconjugate_scale == 1 && drag->conjugate_scale[0] == 0.25);
    assert_true(drag->init_scale == 2.0 && drag->init_last_scale == 0.0);
    assert_true(drag->seed == UINT64_MAX);

    const ns_network_def* gain = ns_blueprint_network(blueprint, 1);
    assert_null(gain->each);
    assert_false(gain->separate);
    assert_int_equal(gain->ninput, 1);
    assert_string_equal(gain->inputs[0], "joint/*/velocity");
    assert_int_equal(gain->mode, NS_AUGMENT_SCALE);
    assert_int_equal(gain->nhidden, 0);
    assert_int_equal(gain->activation, NS_TANH);
    assert_false(gain->no_bias);
    assert_int_equal(gain->structure, NS_STRUCTURE_BOUNDED);
    assert_true(gain->bound == 0.5);
    assert_null(gain->conjugate);
    assert_int_equal(gain->seed, 1);

    // Where they stand.
    const nsi_places* places = &blueprint->networks.data[0].places;
    assert_string_equal(blueprint->file, "net.yaml");
    nsi_place at = nsi_places_find(places, NSI_FIELD_COUNT, NSI_NONE);
    assert_true(at.line == 3 && at.column == 5);
    at = nsi_places_find(places, NSI_FIELD_INPUTS, 1);
    assert_true(at.line == 6 && at.column == 31);
    at = nsi_places_find(places, NSI_FIELD_INPUT_SCALE, NSI_NONE);
    assert_true(at.line == 16 && at.column == 18);
    at = nsi_places_find(&blueprint->networks.data[1].places, NSI_FIELD_EACH, NSI_NONE);
    assert_true(at.line == 20 && at.column == 5);
    ns_blueprint_free(blueprint);

    // JSON is YAML; so are a byte order mark and other ends of lines.
    blueprint = parse("\xEF\xBB\xBFnetworks:\r\n- {\"name\": \"n\", \"inputs\": [\"q/0\"],\r\n"
                      "   \"outputs\": [\"qdd/0\"], \"bias\": true}\r\n");
    assert_string_equal(ns_blueprint_network(blueprint, 0)->outputs[0], "qdd/0");
    ns_blueprint_free(blueprint);
    blueprint = parse("---\nnetworks: []\n...\n");
    assert_int_equal(ns_blueprint_network_count(blueprint), 0);
    ns_blueprint_free(blueprint);
}

typedef struct broken {
    const char *text, *message;
    ns_status status; // NS_OK: NS_ERR_PARSE
} broken;

static void check_broken(const broken* rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        ns_blueprint* blueprint = NULL;
        ns_error error = {0};
        ns_status expected = rows[i].status == NS_OK ? NS_ERR_PARSE : rows[i].status;
        ns_status status = ns_blueprint_parse(rows[i].text, strlen(rows[i].text), "f.yaml", NULL,
                                              &blueprint, &error);
        if (status != expected ||
            strncmp(error.message, rows[i].message, strlen(rows[i].message)) != 0) {
            fail_msg("%s\ngives %d: \"%s\"\nand not \"%s\"", rows[i].text, status, error.message,
                     rows[i].message);
        }
        assert_null(blueprint);
    }
}

#define IO "  inputs: q/0\n  outputs: qdd/0\n" // lines 3 and 4

static void broken_yaml_is_refused_with_its_place(void** state) {
    (void)state;
    static const broken rows[] = {
        {"", "f.yaml:1:1: a blueprint: this is nothing; write a mapping with keys from: networks",
         0},
        {"# only a comment\n", "f.yaml:1:1: a blueprint: this is nothing", 0},
        {"~\n", "f.yaml:1:1: a blueprint: this is nothing", 0},
        {"text\n", "f.yaml:1:1: a blueprint: this is one value; write a mapping", 0},
        {"- a\n", "f.yaml:1:1: a blueprint: this is a list; write a mapping", 0},
        {"{}\n", "f.yaml:1:1: the keys networks and formulas are missing; give one of them", 0},
        {"\nnetwork: []\n",
         "f.yaml:2:1: unknown key \"network\"; did you mean \"networks\"? The keys of a blueprint: "
         "networks",
         0},
        {"networks: []\nnetworks: []\n",
         "f.yaml:2:1: the key \"networks\" is given twice, first on line 1; remove one", 0},
        {"networks:\n", "f.yaml:1:10: networks: this is nothing; write a list", 0},
        {"networks: {}\n", "f.yaml:1:11: networks: this is a mapping; write a list", 0},
        {"networks: [a]\n", "f.yaml:1:12: a network: this is one value; write a mapping with keys",
         0},
        {"networks:\n-\n", "f.yaml:2:2: a network: this is nothing; write a mapping", 0},
        {"? [a]\n: b\n", "f.yaml:1:3: a key is a list or a mapping; write a word", 0},

        // YAML itself
        {"networks: [\n", "f.yaml:2:1: malformed YAML: did not find expected node content", 0},
        {"networks: [a\n", "f.yaml:2:1: malformed YAML: did not find expected ',' or ']'", 0},
        {"networks:\n\t- a\n", "f.yaml:2:1: this line is indented with a tab", 0},
        {"a: \"b\n", "f.yaml:2:1: malformed YAML: found unexpected end of stream", 0},
        {"networks: []\n b: 1\n", "f.yaml:2:2: malformed YAML: did not find expected key (while",
         0},
        {"networks: []\n# \xFF\n", "f.yaml:2:3: this is not UTF-8 text", 0},
        {"networks: \x01\n", "f.yaml:1:11: this is not UTF-8 text: control characters", 0},
        {"%TAG !a! b\n---\nnetworks: []\n", "f.yaml:1:1: the directive %TAG is not read", 0},
        {"networks: []\n---\nnetworks: []\n", "f.yaml:2:1: this starts a second document", 0},
        {"networks: &a []\n", "f.yaml:1:11: the anchor \"a\" is not allowed here", 0},
        {"networks: *a\n", "f.yaml:1:11: the alias \"a\" is not allowed here", 0},
        {"networks: &a {}\n", "f.yaml:1:11: the anchor", 0},
        {"networks: &a b\n", "f.yaml:1:11: the anchor", 0},
        {"networks: !!seq []\n", "f.yaml:1:11: the tag \"tag:yaml.org,2002:seq\" is not", 0},
        {"networks: [!x {}]\n", "f.yaml:1:12: the tag \"!x\" is not allowed here", 0},
        {"networks: ! []\n", "f.yaml:1:11: the tag \"!\" is not allowed here", 0},
        {"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", // 33
         "f.yaml:1:33: lists and mappings nest more than 32 deep", NS_ERR_LIMIT},

        // fields
        {"networks:\n- name: n\n  ouputs: x\n",
         "f.yaml:3:3: unknown key \"ouputs\"; did you mean \"outputs\"? The keys of a network: "
         "name",
         0},
        {"networks:\n- name: n\n  \"in\\aputs\": x\n",
         "f.yaml:3:3: the key \"in puts\" has a control character", 0},
        {"networks:\n- name: n\n  name: m\n",
         "f.yaml:3:3: the key \"name\" is given twice, first on line 2", 0},
        {"networks:\n- name:\n", "f.yaml:2:8: name: this is nothing; write a text", 0},
        {"networks:\n- name: []\n", "f.yaml:2:9: name: this is a list; write a text", 0},
        {"networks:\n- name: a b\n" IO, "f.yaml:2:9: network 1: name: byte 2 is none of", 0},
        {"networks:\n- {}\n", "f.yaml:2:3: network 1: name: there is none", 0},
        {"networks:\n- name: n\n" IO "- name: n\n" IO,
         "f.yaml:5:9: network 2: name: network 1 has it too; rename one", 0},
        {"networks:\n- name: n\n  outputs: x\n",
         "f.yaml:2:3: network \"n\": inputs: the list is empty", 0},
        {"networks:\n- name: n\n  inputs: []\n  outputs: x\n",
         "f.yaml:3:11: network \"n\": inputs: the list is empty", 0},
        {"networks:\n- name: n\n  inputs: [x, '']\n  outputs: x\n",
         "f.yaml:3:15: inputs: \"\" is empty; write a text", 0},
        {"networks:\n- name: n\n  inputs: [x, [y]]\n  outputs: x\n",
         "f.yaml:3:15: inputs: this is a list; write a text", 0},
        {"networks:\n- name: n\n  inputs:\n  - x\n  - \"{}/x\"\n  outputs: x\n",
         "f.yaml:5:5: network \"n\": inputs: \"{}/x\" has a {}", 0},
        {"networks:\n- name: n\n  inputs: \"a\\0b\"\n  outputs: x\n",
         "f.yaml:3:11: inputs: \"a b\" has a control character", 0},
        {"networks:\n- name: n\n  inputs: \"a\\nb\"\n  outputs: x\n",
         "f.yaml:3:11: inputs: \"a b\" has a control character", 0},
        {"networks:\n- name: n\n  inputs: {a: b}\n",
         "f.yaml:3:11: inputs: this is a mapping; write a list", 0},
        {"networks:\n- name: n\n  inputs: lag0:x\n  outputs: x\n",
         "f.yaml:3:11: network \"n\": inputs: \"lag0:x\" is no earlier value", 0},
        {"networks:\n- name: n\n" IO "  weights: both\n",
         "f.yaml:5:12: weights: \"both\" is not one of: shared, separate", 0},
        {"networks:\n- name: n\n" IO "  mode: [add]\n",
         "f.yaml:5:9: mode: this is a list; write one of: add, replace, scale", 0},
        {"networks:\n- name: n\n" IO "  hidden: 3\n",
         "f.yaml:5:11: hidden: this is one value; write a list", 0},
        {"networks:\n- name: n\n" IO "  hidden: [3, 2.5]\n",
         "f.yaml:5:15: hidden: \"2.5\" is not a whole number", 0},
        {"networks:\n- name: n\n" IO "  hidden: [\"3\"]\n",
         "f.yaml:5:12: hidden: \"3\" is not a whole number", 0},
        {"networks:\n- name: n\n" IO "  hidden: [3, 0]\n",
         "f.yaml:5:15: network \"n\": hidden: a layer is 0 wide", 0},
        {"networks:\n- name: n\n" IO "  hidden: [4294967296]\n",
         "f.yaml:5:12: hidden: \"4294967296\" is too large; at most 4294967295", 0},
        {"networks:\n- name: n\n" IO "  hidden: [5000]\n",
         "f.yaml:5:12: network \"n\": hidden: a layer is 5000 wide", NS_ERR_LIMIT},
        {"networks:\n- name: n\n" IO "  activation: tan\n",
         "f.yaml:5:15: activation: \"tan\" is not one of: identity, tanh", 0},
        {"networks:\n- name: n\n" IO "  bias: yes\n",
         "f.yaml:5:9: bias: \"yes\" is neither true nor false", 0},
        {"networks:\n- name: n\n" IO "  structure: [odd, strange]\n",
         "f.yaml:5:20: structure: \"strange\" is not one of: dissipative, conservative", 0},
        {"networks:\n- name: n\n" IO "  structure: [odd, even]\n",
         "f.yaml:5:14: network \"n\": structure: odd and even do not go together", 0},
        {"networks:\n- name: n\n" IO "  bound: 2\n",
         "f.yaml:5:10: bound: this is for the structure bounded only", 0},
        {"networks:\n- name: n\n" IO "  structure: bounded\n  bound: 0\n",
         "f.yaml:6:10: network \"n\": bound: it must be finite and greater than 0", 0},
        {"networks:\n- name: n\n" IO "  structure: dissipative\n  conjugate: [a, b]\n",
         "f.yaml:6:14: conjugate: 2 names for 1 output; give one for each", 0},
        {"networks:\n- name: n\n" IO "  conjugate: a\n",
         "f.yaml:5:14: network \"n\": conjugate: this is for the structure dissipative only", 0},
        {"networks:\n- name: n\n" IO "  input_shift: a\n",
         "f.yaml:5:16: input_shift: \"a\" is not a number", 0},
        {"networks:\n- name: n\n" IO "  input_shift: '1'\n",
         "f.yaml:5:16: input_shift: \"1\" is in quotes; write a number without", 0},
        {"networks:\n- name: n\n" IO "  input_shift: inf\n",
         "f.yaml:5:16: input_shift: \"inf\" is not finite", 0},
        {"networks:\n- name: n\n" IO "  input_shift: 1e999\n",
         "f.yaml:5:16: input_shift: \"1e999\" is too large", 0},
        {"networks:\n- name: n\n" IO "  input_scale: []\n",
         "f.yaml:5:16: input_scale: the list is empty", 0},
        {"networks:\n- name: n\n" IO "  input_scale: [1,\n    -1]\n",
         "f.yaml:6:5: network \"n\": input_scale: number 2 is not greater than 0", 0},
        {"networks:\n- name: n\n" IO "  init: 3\n",
         "f.yaml:5:9: init: this is one value; write a mapping with keys from: scale last seed", 0},
        {"networks:\n- name: n\n" IO "  init: {sead: 3}\n",
         "f.yaml:5:10: unknown key \"sead\"; did you mean \"seed\"? The keys of init: scale last "
         "seed",
         0},
        {"networks:\n- name: n\n" IO "  init: {seed: -3}\n",
         "f.yaml:5:16: seed: \"-3\" is not a whole number", 0},
        {"networks:\n- name: n\n" IO "  init: {seed: 18446744073709551616}\n",
         "f.yaml:5:16: seed: \"18446744073709551616\" is too large", 0},
        {"networks:\n- name: n\n" IO "  init: {scale: -1}\n",
         "f.yaml:5:17: network \"n\": init_scale: it must be finite and at least 0", 0},
        {"networks:\n- name: n\n" IO "  init: {last: x}\n",
         "f.yaml:5:16: last: \"x\" is not a number", 0},
    };
    check_broken(rows, sizeof rows / sizeof *rows);
}

// Repeat a text, between a beginning and an end; the result must be refused.
static void check_hostile(const char* begin, const char* part, size_t count, const char* end,
                          ns_status expected) {
    size_t nbegin = strlen(begin), npart = strlen(part), nend = strlen(end);
    size_t size = nbegin + count * npart + nend;
    char* text = malloc(size);
    assert_non_null(text);
    memcpy(text, begin, nbegin);
    for (size_t i = 0; i < count; i++) memcpy(text + nbegin + i * npart, part, npart);
    memcpy(text + size - nend, end, nend);
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    ns_status status = ns_blueprint_parse(text, size, "f", NULL, &blueprint, &error);
    free(text);
    if (status != expected || strncmp(error.message, "f:", 2) != 0) {
        fail_msg("%zu times \"%s\": %d: %s", count, part, status, error.message);
    }
}

static void hostile_yaml_is_refused(void** state) {
    (void)state;
    size_t many = 1 << 20;
    check_hostile("", "[", many, "", NS_ERR_LIMIT);
    check_hostile("", "[\n", many, "", NS_ERR_LIMIT);
    check_hostile("", "{a: ", many, "", NS_ERR_LIMIT);
    check_hostile("", "- ", many, "", NS_ERR_LIMIT);
    check_hostile("", "? ", many, "", NS_ERR_PARSE);
    check_hostile("networks: [", "a,", many, "]", NS_ERR_LIMIT);
    check_hostile("", "networks: []\n", many / 4, "", NS_ERR_PARSE);
    check_hostile("", "%TAG !a! b\n", many / 4, "--- {}", NS_ERR_PARSE);
    check_hostile("#\xC2\x85", "%TAG !a! b\xC2\x85", many / 4, "--- {}", NS_ERR_PARSE);
    check_hostile("networks: \"", "a ", many, "\"", NS_ERR_PARSE);
    check_hostile("networks: ", "a ", many, "", NS_ERR_PARSE);
    check_hostile("networks: ", "a\n ", many, "", NS_ERR_PARSE);
    check_hostile("a", " ", 16 << 20, "", NS_ERR_LIMIT);
    check_hostile("&", "a", many, " b", NS_ERR_PARSE);
}

// Every beginning of a file, and every byte replaced: an answer, and no memory left behind.
static void damaged_yaml_is_survived(void** state) {
    (void)state;
    size_t size = sizeof everything - 1, fine = 0;
    char* text = malloc(size);
    assert_non_null(text);
    static const char bytes[] = "\n\t x0-:[]{}&*!%\"'#,\x80\xFF";
    for (size_t i = 0; i < size; i++) {
        for (size_t k = 0; k <= sizeof bytes; k++) {
            test_alloc counter = {0};
            ns_allocator allocator = test_allocator(&counter);
            memcpy(text, everything, size);
            if (k < sizeof bytes) text[i] = bytes[k];
            ns_blueprint* blueprint = NULL;
            ns_error error = {0};
            ns_status status = ns_blueprint_parse(text, k < sizeof bytes ? size : i, "f",
                                                  &allocator, &blueprint, &error);
            assert_true((status == NS_OK) == (blueprint != NULL));
            if (status != NS_OK && strncmp(error.message, "f:", 2) != 0) {
                fail_msg("%s", error.message);
            }
            fine += status == NS_OK;
            ns_blueprint_free(blueprint);
            assert_int_equal(counter.live_blocks, 0);
        }
    }
    print_message("%zu of %zu damaged files were fine\n", fine, size * (sizeof bytes + 1));
    free(text);
}

static void files_are_read(void** state) {
    (void)state;
    static const struct {
        const char* name;
        uint32_t count;
    } files[] = {{"drag", 1}, {"joints", 1}, {"several", 3}, {"none", 0}, {"formulas", 1}};
    char path[1000];
    ns_blueprint* blueprint;
    ns_error error;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(path, sizeof path, "%s/tests/fuzz/corpus/fuzz_blueprint/%s.yaml",
                 NEURALSIM_SOURCE_DIR, files[i].name);
        must(ns_blueprint_load(path, NULL, &blueprint, &error), &error);
        assert_int_equal(ns_blueprint_network_count(blueprint), files[i].count);
        assert_string_equal(blueprint->file, path);
        ns_blueprint_free(blueprint);
    }
    assert_int_equal(ns_blueprint_load("/does/not/exist.yaml", NULL, &blueprint, &error),
                     NS_ERR_IO);
    assert_non_null(strstr(error.message, "/does/not/exist.yaml: cannot be opened"));
    assert_null(blueprint);
}

// The indented texts of docs/blueprint.md that start with "networks:" or "formulas:".
static void documented_blueprints_are_read(void** state) {
    (void)state;
    FILE* file = fopen(NEURALSIM_SOURCE_DIR "/docs/blueprint.md", "r");
    assert_non_null(file);
    char line[300], text[4000] = "";
    int count = 0;
    for (bool more = true; more;) {
        more = fgets(line, sizeof line, file) != NULL;
        bool inside = more && strncmp(line, "    ", 4) == 0;
        bool starts =
            strncmp(line, "    networks:", 13) == 0 || strncmp(line, "    formulas:", 13) == 0;
        if (inside && (text[0] != '\0' || starts)) {
            assert_true(strlen(text) + strlen(line) < sizeof text);
            memcpy(text + strlen(text), line, strlen(line) + 1);
        } else if (text[0] != '\0') {
            ns_blueprint_free(parse(text));
            text[0] = '\0';
            count++;
        }
    }
    fclose(file);
    assert_int_equal(count, 7);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(yaml_is_read),
        cmocka_unit_test(broken_yaml_is_refused_with_its_place),
        cmocka_unit_test(hostile_yaml_is_refused),
        cmocka_unit_test(damaged_yaml_is_survived),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(documented_blueprints_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
