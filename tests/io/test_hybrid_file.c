// Files of hybrid models: what is read, and what is refused with its place.

#define _XOPEN_SOURCE 700

#include "io/file.h"
#include "io/hybrid_file.h"
#include "io/hybrid_file_rig.h"
#include "io/yaml.h"
#include "neuralsim/model.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <stdlib.h>

// ---- reading -------------------------------------------------------------------------------

static void a_full_file_is_read(void** state) {
    (void)state;
    nsi_hybrid h = parse(full, "models/h.yaml");
    assert_string_equal(h.robot, "models/arm.urdf");
    assert_string_equal(h.blueprint, "models/drag.yaml");
    assert_string_equal(h.weights, "models/../w/drag.safetensors");
    assert_int_equal(h.parameters.count, 2);
    assert_string_equal(h.parameters.data[0].pattern, "link/*/mass");
    assert_true(h.parameters.data[0].value == 1.2);
    assert_true(h.parameters.data[0].line == 2 && h.parameters.data[0].column == 14);
    assert_string_equal(h.parameters.data[1].pattern, "contact/*/mu");
    assert_true(h.parameters.data[1].line == 2 && h.parameters.data[1].column == 34);
    assert_true(h.parameters.data[1].value == 0.4);
    assert_int_equal(h.contact, NS_CONTACT_NCP);
    assert_true(h.timestep == 0.001);
    assert_true(h.ground && h.self_collision);
    nsi_hybrid_free(&h);
    nsi_hybrid_free(&h); // again
    nsi_hybrid_free(NULL);
    h = (nsi_hybrid){0};
    nsi_hybrid_free(&h);
}

// Read, and printed again to the same bytes.
static void a_learned_system_is_read(void** state) {
    (void)state;
    static const char text[] = LEARNED_FILE;
    nsi_hybrid h = parse(text, "h.yaml");
    const nsi_learned* l = h.learned;
    assert_non_null(l);
    assert_int_equal(l->kind, NS_LEARNED_FEEDFORWARD);
    assert_true(l->nhidden == 2 && l->hidden[0] == 16 && l->hidden[1] == 8);
    assert_true(l->increment && l->activation == NS_RELU && l->seed == UINT64_MAX);
    assert_true(l->init_scale == 2.0 && l->init_last_scale == 0.5);
    assert_int_equal(l->hide.count, 2);
    assert_string_equal(l->hide.data[1], "null");
    assert_string_equal(l->angle.data[0], "b: c");
    assert_string_equal(l->controls.data[0], "u/m");
    assert_true(l->state_shift.data[1] == -2.0 && l->state_scale.data[1] == 1e-300);
    assert_true(l->control_shift.data[1] == 1e300 && l->control_scale.data[0] == 3.0);
    assert_true(l->output_scale.count == 2 && l->output_scale.data[1] == 0.25);
    ns_text printed;
    assert_int_equal(nsi_hybrid_print(&h, "h.yaml", NULL, &printed, NULL), NS_OK);
    assert_int_equal(printed.size, strlen(text));
    if (strncmp(printed.data, text, printed.size) != 0) fail_msg("%s", printed.data);
    ns_text_free(&printed);

    // What it does not go with, and what there is not, is not written either.
    nsi_learned wrong = *l;
    ns_error error;
    h.learned = &wrong;
    h.integrator = 0;
    assert_int_equal(nsi_hybrid_print(&h, "h.yaml", NULL, &printed, &error), NS_ERR_ARGUMENT);
    h.integrator = -1;
    wrong.state_scale.data[0] = 0.0;
    assert_int_equal(nsi_hybrid_print(&h, "h.yaml", NULL, &printed, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "state_scale"));
    wrong.state_scale.data[0] = 1.0;
    wrong.hide.data[0] = "two\nlines";
    assert_int_equal(nsi_hybrid_print(&h, "h.yaml", NULL, &printed, &error), NS_ERR_ARGUMENT);
    wrong.hide.data[0] = "a";
    wrong.kind = NS_LEARNED_LSTM; // with relu
    assert_int_equal(nsi_hybrid_print(&h, "h.yaml", NULL, &printed, &error), NS_ERR_ARGUMENT);
    nsi_hybrid_free(&h);
}

static void a_robot_is_enough(void** state) {
    (void)state;
    static const char* const forms[] = {
        "robot: a.urdf",
        "{robot: a.urdf}",
        "---\nrobot: 'a.urdf'\n...\n",
        "\xef\xbb\xbf# with a byte order mark\n\"robot\": \"a.urdf\"\r\n",
        "{\"robot\": \"a.urdf\", \"parameters\": {}, \"ground\": false}",
        "%YAML 1.1\n---\nrobot: a.urdf\nself_collision: false\n",
        "? robot\n: a.urdf\n",
        "robot:\n  a.urdf\n",
    };
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        nsi_hybrid h = parse(forms[k], "h.yaml");
        assert_string_equal(h.robot, "a.urdf");
        assert_null(h.blueprint);
        assert_null(h.weights);
        assert_int_equal(h.parameters.count, 0);
        assert_int_equal(h.contact, -1);
        assert_true(h.timestep == 0.0);
        assert_false(h.ground || h.self_collision || h.floating_base);
        nsi_hybrid_free(&h);
    }
}

static void paths_are_resolved(void** state) {
    (void)state;
    static const char* const cases[][3] = {
        // file, robot, resolved
        {"h.yaml", "a.urdf", "a.urdf"},
        {"./h.yaml", "a.urdf", "./a.urdf"},
        {"x/y/h.yaml", "../a.urdf", "x/y/../a.urdf"},
        {"/x/h.yaml", "a/b.urdf", "/x/a/b.urdf"},
        {"x/h.yaml", "/abs/a.urdf", "/abs/a.urdf"},
        {"x/h.yaml", "\"~/$HOME/%2e\"", "x/~/$HOME/%2e"}, // nothing is expanded
        {"x/h.yaml", "file:///etc/a", "x/file:///etc/a"},
        {"x/h.yaml", "\"7\"", "x/7"},
        {"x/h.yaml", "'a: b #c'", "x/a: b #c"},
        {"x/h.yaml", "\"\\u00e9\"", "x/é"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[256];
        snprintf(text, sizeof text, "robot: %s\n", cases[k][1]);
        nsi_hybrid h = parse(text, cases[k][0]);
        assert_string_equal(h.robot, cases[k][2]);
        nsi_hybrid_free(&h);
    }
    assert_true(ns_hybrid_is_path("a.yaml"));
    assert_true(ns_hybrid_is_path("x/a.yml"));
    assert_false(ns_hybrid_is_path("a.yaml.urdf"));
    assert_false(ns_hybrid_is_path("a.urdf"));
    assert_false(ns_hybrid_is_path("yml"));
    assert_false(ns_hybrid_is_path(""));
}

// ---- what is refused -------------------------------------------------------------------------

#define KEYS " The" KEY_LIST

#define KEY_LIST                                                                                   \
    " keys of a hybrid model: robot variants parameters contact integrator timestep "              \
    "blueprint weights "                                                                           \
    "learned ground self_collision floating_base"

static void broken_files_get_a_message(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        // Not a mapping, or not YAML.
        {"", "h.yaml:1:1: a hybrid model is a mapping; start with \"robot: <URDF or MJCF file>\""},
        {"# nothing\n",
         "h.yaml:1:1: a hybrid model is a mapping; start with \"robot: <URDF or MJCF file>\""},
        {"robot\n",
         "h.yaml:1:1: a hybrid model is a mapping; start with \"robot: <URDF or MJCF file>\""},
        {"- robot: a\n",
         "h.yaml:1:1: a hybrid model is a mapping; start with \"robot: <URDF or MJCF file>\""},
        {"{}", "h.yaml:1:1: there is no robot; add \"robot: <URDF or MJCF file>\""},
        {"\nground: true\n", "h.yaml:2:1: there is no robot; add \"robot: <URDF or MJCF file>\""},
        {"robot: \"a\n", "h.yaml:2:1: malformed YAML: found unexpected end of stream (while "
                         "scanning a quoted scalar, line 1)"},
        {R " ground: true\n",
         "h.yaml:2:8: malformed YAML: mapping values are not allowed in this context"},
        {"robot: [a\n", "h.yaml:2:1: malformed YAML: did not find expected ',' or ']' (while "
                        "parsing a flow sequence, line 1)"},
        {R "\tground: true\n",
         "h.yaml:2:1: this line is indented with a tab; YAML takes spaces only"},
        {R "---\n" R, "h.yaml:2:1: this starts a second document; a file has one"},
        {R "ground: \x01\n", "h.yaml:2:9: this is not UTF-8 text: control characters are not "
                             "allowed; save the file as UTF-8"},
        {R "ground: \xff\n",
         "h.yaml:2:9: this is not UTF-8 text: invalid leading UTF-8 octet; save the file as UTF-8"},
        {"\xff\xfer\0",
         "h.yaml:1:1: this is not UTF-8 text: invalid leading UTF-8 octet; save the file as UTF-8"},
        {"%YAML 3.0\n---\n" R, "h.yaml:1:1: malformed YAML: found incompatible YAML document"},
        // Learned systems.
        {R "timestep: 1\nlearned: [lstm]\n",
         "h.yaml:3:10: a learned system: this is a list; write a mapping with keys from: kind"
         " hidden increment integrate hide angle activation init seed controls state_shift"
         " state_scale control_shift control_scale output_scale"},
        {R "learned: {kind: lstm, hidden: [2]}\n",
         "h.yaml:2:10: learned: the time step is missing; add \"timestep:\""},
        {R "timestep: 1\nlearned: {kind: feedforward}\nintegrator: rk4\n",
         "h.yaml:4:13: integrator: not supported with a learned system; remove one of the two"},
        {R "timestep: 1\nlearned: {kind: feedforward}\nparameters: {a: 1}\n",
         "h.yaml:4:13: parameters: not supported with a learned system; remove one of the two"},
        {R "timestep: 1\nlearned: {kind: feedforward, state_scale: [1, 0]}\n",
         "h.yaml:3:47: state_scale: \"0\" is not greater than 0; write such a number"},
        // Keys.
        {R "blueprnt: b.yaml\n",
         "h.yaml:2:1: unknown key \"blueprnt\"; did you mean \"blueprint\"?" KEYS},
        {R "  \n  \nRobot: x\n", "h.yaml:4:1: unknown key \"Robot\"; did you mean \"robot\"?" KEYS},
        {"{robot: a, time_step: 1}",
         "h.yaml:1:12: unknown key \"time_step\"; did you mean \"timestep\"?" KEYS},
        {R "\"robot\\0\": b\n",
         "h.yaml:2:1: the key \"robot \" has a control character; write one line of text"},
        {R "<<: {ground: true}\n", "h.yaml:2:1: unknown key \"<<\"; the" KEY_LIST},
        {R "robot: b.urdf\n",
         "h.yaml:2:1: the key \"robot\" is given twice, first on line 1; remove one"},
        {R "ground: true\n'ground': false\n",
         "h.yaml:3:1: the key \"ground\" is given twice, first on line 2; remove one"},
        {R "? [a]\n: b\n", "h.yaml:2:3: a key is a list or a mapping; write a word"},
        // Aliases, anchors, tags.
        {"robot: &r a.urdf\n", "h.yaml:1:8: the anchor \"r\" is not allowed here; remove it, or "
                               "put a text that starts with & in quotes"},
        {"&r {robot: a.urdf}\n", "h.yaml:1:1: the anchor \"r\" is not allowed here; remove it, or "
                                 "put a text that starts with & in quotes"},
        {"robot: *r\n", "h.yaml:1:8: the alias \"r\" is not allowed here; write the value out, or "
                        "put a name that starts with * in quotes"},
        {R "parameters:\n  *all: 1\n", "h.yaml:3:3: the alias \"all\" is not allowed here; write "
                                       "the value out, or put a name that starts with * in quotes"},
        {"robot: !!str a.urdf\n", "h.yaml:1:8: the tag \"tag:yaml.org,2002:str\" is not allowed "
                                  "here; remove it, or put a text that starts with ! in quotes"},
        {"robot: ! a.urdf\n", "h.yaml:1:8: the tag \"!\" is not allowed here; remove it, or put a "
                              "text that starts with ! in quotes"},
        {R "parameters: !map {}\n", "h.yaml:2:13: the tag \"!map\" is not allowed here; remove it, "
                                    "or put a text that starts with ! in quotes"},
        {R "parameters: !s []\n", "h.yaml:2:13: the tag \"!s\" is not allowed here; remove it, or "
                                  "put a text that starts with ! in quotes"},
        // Paths.
        {"robot:\n", "h.yaml:1:7: robot: this is nothing; write a text"},
        {"robot: ~\n", "h.yaml:1:8: robot: this is nothing; write a text"},
        {"robot: Null\n",
         "h.yaml:1:8: robot: \"Null\" is not the name of a file; put it in quotes if it is"},
        {"robot: 1.5\n",
         "h.yaml:1:8: robot: \"1.5\" is not the name of a file; put it in quotes if it is"},
        {"robot: true\n",
         "h.yaml:1:8: robot: \"true\" is not the name of a file; put it in quotes if it is"},
        {"robot: \"\"\n", "h.yaml:1:8: robot: \"\" is empty; write a text"},
        {"robot: \"a\\0b\"\n",
         "h.yaml:1:8: robot: \"a b\" has a control character; write one line of text"},
        {"robot: \"a\\nb\"\n",
         "h.yaml:1:8: robot: \"a b\" has a control character; write one line of text"},
        {"robot: |\n  a.urdf\n",
         "h.yaml:1:8: robot: \"a.urdf \" has a control character; write one line of text"},
        {"robot: {a: b}\n", "h.yaml:1:8: robot: this is a mapping; write a text"},
        {"robot: a.yml/\n", "h.yaml:1:8: robot: \"a.yml/\" is a folder; give a file"},
        {"robot: a/.\n", "h.yaml:1:8: robot: \"a/.\" is a folder; give a file"},
        {"robot: .\n", "h.yaml:1:8: robot: \".\" is a folder; give a file"},
        {"robot: h.yaml\n", "h.yaml:1:8: robot: \"h.yaml\" is YAML; give a URDF or MJCF file"},
        {R "weights: w.json\n",
         "h.yaml:2:10: weights without a blueprint; add \"blueprint: <file>\""},
        // Numbers, words.
        {R "timestep: fast\n", "h.yaml:2:11: timestep: \"fast\" is not a number; write a number"},
        {R "timestep: \"0.1\"\n",
         "h.yaml:2:11: timestep: \"0.1\" is in quotes; write a number without"},
        {R "timestep: 0\n",
         "h.yaml:2:11: timestep: \"0\" is not greater than 0; write such a number"},
        {R "timestep: -1e-3\n",
         "h.yaml:2:11: timestep: \"-1e-3\" is not greater than 0; write such a number"},
        {R "timestep: nan\n", "h.yaml:2:11: timestep: \"nan\" is not finite; write a number"},
        {R "timestep: .inf\n", "h.yaml:2:11: timestep: \".inf\" is not a number; write a number"},
        {R "timestep: 1e999\n",
         "h.yaml:2:11: timestep: \"1e999\" is too large or too long; write a number"},
        {R "timestep: 0x10\n", "h.yaml:2:11: timestep: \"0x10\" is not a number; write a number"},
        {R "timestep:\n", "h.yaml:2:10: timestep: this is nothing; write a number"},
        {R "timestep: [1]\n", "h.yaml:2:11: timestep: this is a list; write a number"},
        {R "contact: springs\n", "h.yaml:2:10: contact: \"springs\" is not one of: none, ncp, "
                                 "spring, baumgarte, convex; did you mean \"spring\"?"},
        {R "contact: \"ncp\\0\"\n",
         "h.yaml:2:10: contact: \"ncp \" has a control character; write one line of text"},
        {R "contact: {}\n", "h.yaml:2:10: contact: this is a mapping; write one of: none, ncp, "
                            "spring, baumgarte, convex"},
        {R "ground: yes\n", "h.yaml:2:9: ground: \"yes\" is neither true nor false"},
        {R "ground: \"true\"\n", "h.yaml:2:9: ground: \"true\" is in quotes; write it without"},
        {R "self_collision: 1\n", "h.yaml:2:17: self_collision: \"1\" is neither true nor false"},
        {R "ground: []\n", "h.yaml:2:9: ground: this is a list; write true or false"},
        // Variants.
        {R "variants: [{name: a, files: b, robot: c}]\n",
         "h.yaml:2:11: robot and variants: leave one of the two out"},
        {"variants: []\n", "h.yaml:1:11: variants: must be a list such as [{name: a, files:"
                           " \"*_a_*\", robot: a.xml}]"},
        {"variants: [{name: a, files: b}]\n", "h.yaml:1:12: `robot` is missing: URDF or MJCF"},
        {"variants: [{name: a, files: \"\", robot: c}]\n",
         "h.yaml:1:29: files: \"\" is empty; write a text"},
        {"variants: [a]\n",
         "h.yaml:1:12: a variant: this is one value; write a mapping with keys from:"
         " name files robot parameters"},
        {"variants: [{name: a, files: b, robot: c.yaml}]\n",
         "h.yaml:1:39: robot: \"c.yaml\" is YAML; give a URDF or MJCF file"},
        {"variants: [{name: a, files: b, robot: c}, {name: a, files: d, robot: e}]\n",
         "h.yaml:1:43: there are two variants a"},
        {"variants: [{name: a, files: b, robot: c, parameters: {d: x}}]\n",
         "h.yaml:1:58: d: \"x\" is not a number; write a number"},
        {"timestep: 1\nlearned: {kind: lstm, hidden: [3]}\n"
         "variants: [{name: a, files: b, robot: c}]\n",
         "h.yaml:3:11: variants: not supported with a learned system; remove one of the two"},
        // Parameters.
        {R "parameters: 1\n",
         "h.yaml:2:13: parameters: must be a mapping such as {\"link/*/mass\": 1.2}"},
        {R "parameters: [a, 1]\n",
         "h.yaml:2:13: parameters: must be a mapping such as {\"link/*/mass\": 1.2}"},
        {R "parameters:\n",
         "h.yaml:2:12: parameters: must be a mapping such as {\"link/*/mass\": 1.2}"},
        {R "parameters:\n  a: 1\n  b: x\n", "h.yaml:4:6: b: \"x\" is not a number; write a number"},
        {R "parameters:\n  a: 1\n  a: 2\n",
         "h.yaml:4:3: the key \"a\" is given twice, first on line 3; remove one"},
        {R "parameters: {a: inf}\n", "h.yaml:2:17: a: \"inf\" is not finite; write a number"},
        {R "parameters: {a: '1'}\n", "h.yaml:2:17: a: \"1\" is in quotes; write a number without"},
        {R "parameters: {a: {b: 1}}\n", "h.yaml:2:17: a: this is a mapping; write a number"},
        {R "parameters: {[a]: 1}\n", "h.yaml:2:14: a key is a list or a mapping; write a word"},
        {R "parameters: {\"\": 1}\n", "h.yaml:2:14: a key is empty; write a word"},
        {R "parameters: {\"a\\tb\": 1}\n",
         "h.yaml:2:14: the key \"a b\" has a control character; write one line of text"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        nsi_hybrid h;
        ns_error error = {0};
        ns_status status = nsi_hybrid_parse(cases[k].text, strlen(cases[k].text), "h.yaml",
                                            &allocator, &h, &error);
        if (status == NS_OK) fail_msg("accepted: %s", cases[k].text);
        if (strcmp(error.message, cases[k].message) != 0) {
            fail_msg("%s\ngives    %s\nnot      %s", cases[k].text, error.message,
                     cases[k].message);
        }
        assert_int_equal(status, NS_ERR_PARSE);
        assert_int_equal(error.status, status);
        assert_null(h.robot);
        assert_int_equal(counter.live_blocks, 0);
    }
}

static void limits_are_kept(void** state) {
    (void)state;
    nsi_hybrid h;
    ns_error error;
    char* text = calloc(1, NSI_YAML_MAX_SIZE + 2);
    memset(text, '#', NSI_YAML_MAX_SIZE + 1);
    assert_int_equal(nsi_hybrid_parse(text, NSI_YAML_MAX_SIZE + 1, "h.yaml", NULL, &h, &error),
                     NS_ERR_LIMIT);
    assert_string_equal(error.message, "h.yaml: more than 4 MiB; split the file");

    // Paths of 4095 bytes and names of 500 are read.
    for (int extra = 0; extra < 2; extra++) {
        char name[NSI_HYBRID_MAX_PATH + 2];
        memset(name, 'n', sizeof name);
        name[NSI_HYBRID_MAX_PATH + extra] = '\0';
        snprintf(text, NSI_YAML_MAX_SIZE, "robot: %s\n", name);
        assert_int_equal(nsi_hybrid_parse(text, strlen(text), "h.yaml", NULL, &h, &error),
                         extra ? NS_ERR_LIMIT : NS_OK);
        if (extra) assert_string_equal(error.message, "h.yaml:1:8: robot: more than 4095 bytes");
        nsi_hybrid_free(&h);
        name[NSI_HYBRID_MAX_PATTERN + extra] = '\0';
        snprintf(text, NSI_YAML_MAX_SIZE, R "parameters:\n  \"%s\": 1\n", name);
        assert_int_equal(nsi_hybrid_parse(text, strlen(text), "h.yaml", NULL, &h, &error),
                         extra ? NS_ERR_LIMIT : NS_OK);
        if (extra) {
            assert_string_equal(error.message,
                                "h.yaml:3:508: parameters: more than 65536 of them, or"
                                " a name of more than 500 bytes");
        }
        nsi_hybrid_free(&h);
    }

    // So are 65,536 parameters.
    for (int extra = 0; extra < 2; extra++) {
        size_t size = (size_t)sprintf(text, R "parameters:\n");
        for (int k = 0; k < NSI_HYBRID_MAX_PARAMETERS + extra; k++) {
            size += (size_t)sprintf(text + size, "  \"p%d\": %d\n", k, k);
        }
        assert_int_equal(nsi_hybrid_parse(text, size, "h.yaml", NULL, &h, &error),
                         extra ? NS_ERR_LIMIT : NS_OK);
        nsi_hybrid_free(&h);
    }

    // Nesting as deep as the file is long costs nothing: level 33 is refused.
    memset(text, '[', NSI_YAML_MAX_SIZE);
    memcpy(text, R, strlen(R));
    assert_int_equal(nsi_hybrid_parse(text, NSI_YAML_MAX_SIZE, "h.yaml", NULL, &h, &error),
                     NS_ERR_PARSE);
    memset(text + strlen("robot: "), '[', strlen(R));
    assert_int_equal(nsi_hybrid_parse(text, NSI_YAML_MAX_SIZE, "h.yaml", NULL, &h, &error),
                     NS_ERR_LIMIT);
    free(text);
}

// Cut a good file anywhere: it is read or refused, with a message, and nothing is leaked.
static uint32_t survive_prefixes(const char* text) {
    uint32_t good = 0;
    for (size_t size = 0; size <= strlen(text); size++) {
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        char* exact = malloc(size ? size : 1); // so that reading past the end is seen
        memcpy(exact, text, size);
        nsi_hybrid h;
        ns_error error = {0};
        ns_status status = nsi_hybrid_parse(exact, size, "h.yaml", &allocator, &h, &error);
        assert_int_equal(status, error.status);
        good += status == NS_OK;
        nsi_hybrid_free(&h);
        assert_int_equal(counter.live_blocks, 0);
        free(exact);
    }
    return good;
}

static void every_prefix_is_survived(void** state) {
    (void)state;
    assert_true(survive_prefixes(full) > 10);
    assert_true(survive_prefixes(LEARNED_FILE) > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_file_is_read),        cmocka_unit_test(a_learned_system_is_read),
        cmocka_unit_test(a_robot_is_enough),          cmocka_unit_test(paths_are_resolved),
        cmocka_unit_test(broken_files_get_a_message), cmocka_unit_test(limits_are_kept),
        cmocka_unit_test(every_prefix_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
