// Formulas of blueprints: by calls and from YAML, laid onto names, written and read back, and
// everything that can be wrong with them.

#include "nn/binding.h"
#include "nn/blueprint_data.h"
#include "nn/blueprint_rig.h"
#include "nn/formula_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>

// ---- by calls --------------------------------------------------------------------------------

static void everything_is_copied(void** state) {
    (void)state;
    char name[] = "drag", each[] = "link/*", output[] = "{}/force/x", b[] = "k";
    char formula[] =
        "-k * abs(\"{}/velocity/com/x\") * \"{}/velocity/com/x\" + \"prev:{}/force/x\"";
    ns_coefficient coefficients[] = {{b, 0.25}};
    ns_formula_def def = ns_default_formula_def();
    assert_true(!def.name && !def.each && !def.separate && !def.output && !def.formula);
    assert_int_equal(def.mode, NS_AUGMENT_ADD);
    def = (ns_formula_def){name, each, true, output, NS_AUGMENT_SCALE, formula, coefficients, 1};
    ns_blueprint* blueprint = empty_blueprint();
    ns_error error = {0};
    assert_int_equal(ns_blueprint_add_formula(blueprint, &def, &error), NS_OK);

    name[0] = each[0] = output[0] = b[0] = formula[1] = 'X';
    coefficients[0].value = 0.0;
    assert_int_equal(ns_blueprint_formula_count(blueprint), 1);
    const ns_formula_def* got = ns_blueprint_formula(blueprint, 0);
    assert_string_equal(got->name, "drag");
    assert_string_equal(got->each, "link/*");
    assert_true(got->separate);
    assert_string_equal(got->output, "{}/force/x");
    assert_int_equal(got->mode, NS_AUGMENT_SCALE);
    assert_int_equal(got->formula[1], 'k');
    assert_int_equal(got->ncoefficient, 1);
    assert_string_equal(got->coefficients[0].name, "k");
    assert_true(got->coefficients[0].value == 0.25);
    assert_null(ns_blueprint_formula(blueprint, 1));
    assert_null(ns_blueprint_formula(NULL, 0));
    assert_int_equal(ns_blueprint_formula_count(NULL), 0);

    // Each quantity once, in the order in which it appears.
    const nsi_blueprint_formula* f = &blueprint->formulas.data[0];
    assert_int_equal(f->ports.ninput, 2);
    assert_string_equal(f->ports.inputs[0], "{}/velocity/com/x");
    assert_string_equal(f->ports.inputs[1], "prev:{}/force/x");
    assert_false(f->sources[0].is_input);
    assert_true(f->sources[2].is_input && f->sources[2].number == 1);
    ns_blueprint_free(blueprint);
}

static void check_refused(const ns_formula_def* def, ns_status expected, const char* message) {
    ns_blueprint* blueprint = empty_blueprint();
    ns_formula_def first = good_formula();
    ns_error error = {0};
    first.name = "first";
    assert_int_equal(ns_blueprint_add_formula(blueprint, &first, &error), NS_OK);
    ns_status status = ns_blueprint_add_formula(blueprint, def, &error);
    if (status != expected || strcmp(error.message, message) != 0) {
        fail_msg("%d: \"%s\", not %d: \"%s\"", status, error.message, expected, message);
    }
    assert_int_equal(ns_blueprint_add_formula(blueprint, def, NULL), expected);
    assert_int_equal(ns_blueprint_formula_count(blueprint), 1);
    ns_blueprint_free(blueprint);
}

#define REFUSED(change, status, message)                                                           \
    do {                                                                                           \
        ns_formula_def def = good_formula();                                                       \
        change;                                                                                    \
        check_refused(&def, status, message);                                                      \
    } while (0)

#define WRONG(change, message) REFUSED(change, NS_ERR_ARGUMENT, message)

#define NO_NAME                                                                                    \
    " is no name of one: at most 200 letters, digits and '_', no digit first, and no function or"  \
    " constant of formulas"

static void wrong_formulas_are_refused(void** state) {
    (void)state;
    static const ns_coefficient constant[] = {{"b", 1.0}, {"pi", 2.0}}, number[] = {{"1b", 1.0}},
                                function[] = {{"rate", 1.0}}, none[] = {{NULL, 1.0}},
                                infinite[] = {{"b", 1.0}, {"c", INFINITY}},
                                twice[] = {{"b", 1.0}, {"b", 2.0}};
    WRONG(def.name = NULL, "formula 2: name: there is none; every formula needs one");
    WRONG(def.name = "first", "formula 2: name: formula 1 has it too; rename one");
    WRONG(def.name = "a/b",
          "formula 2: name: byte 2 is none of letters, digits, '_', '-' and '.'; rename it");
    WRONG(def.output = NULL, "formula \"friction\": output: there is none; give a quantity");
    WRONG(def.output = "", "formula \"friction\": output: a name is empty; write a quantity");
    WRONG(def.output = "{}/tau",
          "formula \"friction\": output: \"{}/tau\" has a {}, which stands for a match of `each`,"
          " and there is no `each`; add one or write the name");
    WRONG(def.output = "prev:qdd/0",
          "formula \"friction\": output: \"prev:qdd/0\": prev: is for what a formula reads");
    WRONG(def.mode = (ns_augment)7, "formula \"friction\": mode: 7 is no mode");
    WRONG(def.formula = NULL,
          "formula \"friction\": formula: there is none; write what is to be computed");
    WRONG(def.formula = "b * (c", "formula \"friction\": formula, byte 7: expected ')'");
    WRONG(def.formula = "b * unwrap(c)",
          "formula \"friction\": formula, byte 5: unwrap() is for columns of a table, and there are"
          " none");
    WRONG(def.formula = "b * c * d",
          "formula \"friction\": formula, byte 9: d is not among the coefficients (add it, or put"
          " it in double quotes if it is a quantity); the nearest is \"b\"");
    WRONG(
        def.formula = "b * c * \"c\"",
        "formula \"friction\": formula, byte 5: c is here with quotes, as a quantity, and without,"
        " as a coefficient; rename the coefficient");
    WRONG(def.formula = "b", "formula \"friction\": coefficients[1]: the formula does not use c;"
                             " remove it");
    WRONG(def.formula = "b * \"c\"",
          "formula \"friction\": coefficients[1]: the formula does not use c; remove it");
    WRONG(
        def.formula = "b * c * \"{}/velocity\"",
        "formula \"friction\": formula, byte 9: \"{}/velocity\" has a {}, which stands for a match"
        " of `each`, and there is no `each`; add one or write the name");
    WRONG(def.formula = "b * c * \"lag2:qd/0\"",
          "formula \"friction\": formula, byte 9: \"lag2:qd/0\" is no earlier value; write"
          " prev:<name>");
    WRONG(def.coefficients = NULL, "formula \"friction\": coefficients: the list is NULL");
    WRONG(def.coefficients = constant, "formula \"friction\": coefficients[1]: \"pi\"" NO_NAME);
    WRONG(def.coefficients = number, "formula \"friction\": coefficients[0]: \"1b\"" NO_NAME);
    WRONG(def.coefficients = function, "formula \"friction\": coefficients[0]: \"rate\"" NO_NAME);
    WRONG(def.coefficients = none, "formula \"friction\": coefficients[0]: \"\"" NO_NAME);
    WRONG(def.coefficients = infinite, "formula \"friction\": coefficients[1]: c is not finite");
    WRONG(def.coefficients = twice,
          "formula \"friction\": coefficients[1]: b is given twice; remove one");
    REFUSED(def.ncoefficient = 513, NS_ERR_LIMIT,
            "formula \"friction\": coefficients: 513 of them; at most 512");
    static char lengthy[(1 << 16) + 2];
    memset(lengthy, '1', sizeof lengthy - 1);
    REFUSED(def.formula = lengthy, NS_ERR_LIMIT,
            "formula \"friction\": formula: it has more than 65536 bytes");
    static char deep[200] = "";
    memset(deep, '(', 100);
    REFUSED(def.formula = deep, NS_ERR_LIMIT,
            "formula \"friction\": formula, byte 65: more than 64 things within each other");
    assert_int_equal(ns_blueprint_add_formula(NULL, NULL, NULL), NS_ERR_ARGUMENT);
}

static void formulas_are_limited(void** state) {
    (void)state;
    ns_blueprint* blueprint = empty_blueprint();
    ns_error error = {0};
    char name[20];
    ns_formula_def def = good_formula();
    def.name = name;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "f%d", i);
        assert_int_equal(ns_blueprint_add_formula(blueprint, &def, &error), NS_OK);
    }
    def.name = "more";
    assert_int_equal(ns_blueprint_add_formula(blueprint, &def, &error), NS_ERR_LIMIT);
    assert_string_equal(error.message, "formula 1001: a blueprint has at most 1000 formulas");
    ns_blueprint_free(blueprint);
}

// ---- YAML ------------------------------------------------------------------------------------

static const char both[] = "networks:\n"
                           "- {name: net, inputs: q/0, outputs: qdd/0}\n"
                           "formulas:\n"
                           "- name: friction\n"
                           "  each: joint/*\n"
                           "  weights: separate\n"
                           "  output: \"{}/tau\"\n"
                           "  mode: add\n"
                           "  formula: -b * \"{}/velocity\" - c * tanh(\"{}/velocity\" / 0.05)\n"
                           "  coefficients: {b: 0.098, c: 0.02}\n"
                           "- {name: lift, output: link/a/force/z, mode: replace, formula: 9.81}\n";

static void yaml_is_read(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse(both);
    assert_int_equal(ns_blueprint_network_count(blueprint), 1);
    assert_int_equal(ns_blueprint_formula_count(blueprint), 2);
    const ns_formula_def* def = ns_blueprint_formula(blueprint, 0);
    assert_string_equal(def->name, "friction");
    assert_string_equal(def->each, "joint/*");
    assert_true(def->separate);
    assert_string_equal(def->output, "{}/tau");
    assert_int_equal(def->mode, NS_AUGMENT_ADD);
    assert_string_equal(def->formula, "-b * \"{}/velocity\" - c * tanh(\"{}/velocity\" / 0.05)");
    assert_int_equal(def->ncoefficient, 2);
    assert_string_equal(def->coefficients[0].name, "b");
    assert_string_equal(def->coefficients[1].name, "c");
    assert_true(def->coefficients[0].value == 0.098 && def->coefficients[1].value == 0.02);
    def = ns_blueprint_formula(blueprint, 1);
    assert_true(!def->each && !def->separate && def->ncoefficient == 0);
    assert_int_equal(def->mode, NS_AUGMENT_REPLACE);
    ns_blueprint_free(blueprint);
}

#define HEAD "formulas:\n- name: f\n  output: qdd/0\n" // three lines

static void broken_yaml_is_refused_with_its_place(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
        ns_status status; // NS_OK: NS_ERR_PARSE
    } rows[] = {
        {"formulas: 3\n", "f.yaml:1:11: formulas: this is one value; write a list", 0},
        {"formulas:\n- 3\n", "f.yaml:2:3: a formula: this is one value", 0},
        {"formulae: []\n", "f.yaml:1:1: unknown key \"formulae\"; did you mean \"formulas\"?", 0},
        {HEAD "  outputs: a\n",
         "f.yaml:4:3: unknown key \"outputs\"; did you mean \"output\"? The"
         " keys of a formula: name each weights output mode formula"
         " coefficients",
         0},
        {HEAD, "f.yaml:2:3: formula \"f\": formula: there is none", 0},
        {"formulas:\n- {name: f, formula: 1}\n", "f.yaml:2:3: formula \"f\": output: there is none",
         0},
        {"networks:\n- {name: f, inputs: q/0, outputs: qdd/0}\n" HEAD "  formula: 1\n",
         "f.yaml:4:9: formula 1: name: network 1 has it too; rename one", 0},
        {HEAD "  formula: [1]\n", "f.yaml:4:12: formula: this is a list; write a text", 0},
        {HEAD "  formula: 1 + * 2\n",
         "f.yaml:4:16: formula \"f\": formula: expected a number, a name, a function or '('", 0},
        // In quotes the text starts one further.
        {HEAD "  formula: '1 + * 2'\n",
         "f.yaml:4:17: formula \"f\": formula: expected a number, a name", 0},
        {HEAD "  formula: b * sine(\"q/0\")\n",
         "f.yaml:4:16: formula \"f\": formula: 'sine' is no function; there are sin cos tan", 0},
        {HEAD "  formula: b * \"q/0\" + bb\n  coefficients: {b: 1}\n",
         "f.yaml:4:24: formula \"f\": formula: bb is not among the coefficients (add it,", 0},
        {HEAD "  formula: 2 * b\n",
         "f.yaml:4:16: formula \"f\": formula: b is not among the"
         " coefficients (add it,",
         0},
        {HEAD "  formula: b\n  coefficients: {b: 1, c: 2}\n",
         "f.yaml:5:24: formula \"f\": coefficients: the formula does not use c; remove it", 0},
        {HEAD "  formula: b\n  coefficients: {b: 1, 2c: 2}\n",
         "f.yaml:5:24: formula \"f\": coefficients: \"2c\"" NO_NAME, 0},
        {HEAD "  formula: b\n  coefficients: [b]\n",
         "f.yaml:5:17: coefficients: write a mapping of names and numbers", 0},
        {HEAD "  formula: b\n  coefficients: {b: one}\n", "f.yaml:5:21: b: \"one\" is not a number",
         0},
        {HEAD "  formula: b\n  coefficients: {b: inf}\n", "f.yaml:5:21: b: \"inf\" is not finite",
         0},
        {HEAD "  formula: b\n  coefficients: {b: 1, b: 2}\n", "f.yaml:5:24: ", 0},
        {HEAD "  formula: \"\\\"lag3:q/0\\\"\"\n",
         "f.yaml:4:13: formula \"f\": formula: \"lag3:q/0\" is no earlier value", 0},
        {HEAD "  formula: 1\n  mode: multiply\n",
         "f.yaml:5:9: mode: \"multiply\" is not one of: add, replace, scale", 0},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
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

// ---- on names --------------------------------------------------------------------------------

static const char* const names[] = {"q/0",
                                    "joint/a/velocity",
                                    "joint/b/velocity",
                                    "joint/c*/velocity",
                                    "link/a/force/x",
                                    "link/a/force/y",
                                    "joint/a/tau",
                                    "joint/b/tau",
                                    "joint/c*/tau",
                                    "qdd/0"};

enum { NNAME = sizeof names / sizeof *names };

static nsi_binding* lay_out(const ns_blueprint* blueprint) {
    nsi_binding* binding = NULL;
    ns_error error = {0};
    must(nsi_binding_create(blueprint, &(nsi_binding_quantities){.count = NNAME, .names = names},
                            NULL, &binding, &error),
         &error);
    return binding;
}

static void sets_are_those_of_the_coefficients(void** state) {
    (void)state;
    for (int separate = 0; separate < 2; separate++) {
        char text[600];
        snprintf(text, sizeof text,
                 "networks:\n- {name: net, inputs: q/0, outputs: qdd/0, bias: false}\n"
                 "formulas:\n- name: none\n  output: link/a/force/x\n  formula: 3\n"
                 "- name: friction\n  each: joint/*\n  weights: %s\n  output: \"{}/tau\"\n"
                 "  formula: d * \"{}/velocity\" + c * \"prev:{}/tau\"\n"
                 "  coefficients: {c: 3, d: 4}\n",
                 separate ? "separate" : "shared");
        ns_blueprint* blueprint = parse(text);
        nsi_binding* binding = lay_out(blueprint);
        assert_int_equal(binding->ninstance, 5);
        assert_int_equal(binding->nset, separate ? 4 : 2);
        assert_int_equal(binding->nweight, separate ? 7 : 3);
        assert_int_equal(binding->instances[1].set, NSI_NONE);
        assert_int_equal(binding->instances[1].formula, 0);
        assert_string_equal(binding->sets[1].name, separate ? "friction/joint/a" : "friction");
        if (separate) assert_string_equal(binding->sets[3].name, "friction/joint/c*");
        assert_null(nsi_binding_formula(binding, 0));
        assert_ptr_equal(nsi_binding_formula(binding, 1), ns_blueprint_formula(blueprint, 1));
        const nsi_network_instance* use = &binding->instances[3];
        assert_int_equal(use->set, separate ? 2 : 1);
        assert_int_equal(use->ninput, 2);
        assert_string_equal(use->inputs[0].name, "joint/b/velocity");
        assert_int_equal(use->inputs[0].lag, 0);
        assert_string_equal(use->inputs[1].name, "joint/b/tau");
        assert_int_equal(use->inputs[1].lag, 1);
        assert_string_equal(use->outputs[0], "joint/b/tau");
        assert_int_equal(binding->nmemory, 3);

        nsi_layer layers[NSI_MAX_LAYERS];
        assert_int_equal(nsi_binding_layers(binding, 1, layers), 1);
        assert_true(layers[0].rows == 1 && layers[0].columns == 2 && !layers[0].bias);
        double weights[7];
        ns_error error = {0};
        assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_OK);
        for (uint32_t k = 1; k < binding->nweight; k++)
            assert_true(weights[k] == (k % 2 ? 3.0 : 4.0));
        nsi_binding_free(binding);

        // Loaded weights are for all sets.
        static const double loaded[] = {5.0, 6.0};
        static const char* const sets[] = {"friction/joint/a/w0", "friction/joint/b/w0",
                                           "friction/joint/c*/w0"};
        binding = lay_out(blueprint);
        assert_int_equal(nsi_blueprint_add_tensor(blueprint, "net/w0", 1, 1, loaded, &error),
                         NS_OK);
        assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, separate
                                                  ? "\"friction/joint/a/w0\" (1 x 2) is missing"
                                                  : "\"friction/w0\" (1 x 2) is missing"));
        for (int k = 0; k < (separate ? 3 : 1); k++) {
            const char* name = separate ? sets[k] : "friction/w0";
            assert_int_equal(nsi_blueprint_add_tensor(blueprint, name, 1, 2, loaded, &error),
                             NS_OK);
        }
        assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_OK);
        assert_true(weights[1] == 5.0 && weights[2] == 6.0);
        nsi_blueprint_clear_tensors(blueprint);
        nsi_blueprint_add_tensor(blueprint, "net/w0", 1, 1, loaded, &error);
        nsi_blueprint_add_tensor(blueprint, separate ? sets[0] : "friction/w0", 2, 1, loaded,
                                 &error);
        assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
        assert_non_null(
            strstr(error.message, "is 2 x 1, but the formula of 2 coefficients needs 1 x 2"));
        nsi_binding_free(binding);
        ns_blueprint_free(blueprint);
    }
}

static void wrong_names_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *formulas, *message;
    } rows[] = {
        {"- {name: f, output: joint/a/tau, formula: '2 * \"joint/a/velocty\"'}\n",
         "f.yaml:2:48: formula \"f\": formula: no quantity is called \"joint/a/velocty\"; nearest:"
         " joint/a/velocity, joint/b/velocity, joint/c*/velocity"},
        {"- {name: f, output: joint/a/torque, formula: 1}\n",
         "f.yaml:2:21: formula \"f\": output: no quantity is called \"joint/a/torque\"; nearest:"},
        {"- {name: f, output: link/a/force, formula: 1}\n",
         "f.yaml:2:21: formula \"f\": output: no quantity is called \"link/a/force\"; nearest:"
         " link/a/force/x, link/a/force/y"},
        {"- {name: f, output: joint/a/tau, formula: '\"joint/?/velocity\"'}\n",
         "f.yaml:2:44: formula \"f\": formula: no quantity is called \"joint/?/velocity\"; nearest:"
         " joint/a/velocity, joint/b/velocity, joint/c*/velocity; there are no globs in formulas"},
        {"- {name: f, each: joint/*, output: '{}/tau', formula: '1 + \"{}/speed\"'}\n",
         "f.yaml:2:60: formula \"f\", joint/a: formula: no quantity is called \"joint/a/speed\";"},
        {"- {name: f, each: joint/*, output: '{}/tau', formula: '\"qdd/0\"'}\n",
         "f.yaml:2:56: formula \"f\", joint/a: formula: \"qdd/0\" is not computed before the output"
         " \"joint/a/tau\"; prev: takes the value of the step before"},
        {"- {name: f, output: joint/a/tau, formula: '\"joint/a/tau\"'}\n",
         "f.yaml:2:44: formula \"f\": formula: \"joint/a/tau\" is not computed before"},
        {"- {name: f, output: qdd/0, formula: 1}\n- {name: g, output: qdd/0, formula: 1}\n",
         "f.yaml:3:21: formula \"g\": output: \"qdd/0\" is an output of formula \"f\" already; a"
         " quantity has one network or formula at most"},
        {"- {name: f, output: qdd/0, formula: 1}\nnetworks:\n"
         "- {name: n, inputs: q/0, outputs: qdd/0}\n",
         "f.yaml:2:21: formula \"f\": output: \"qdd/0\" is an output of network \"n\" already; a"},
        {"- {name: f, each: wheel/*, output: '{}/tau', formula: 1}\n",
         "f.yaml:2:19: formula \"f\": each: no beginning of a quantity's name"},
        {"- {name: f, each: link/*, output: '{}/tau', formula: 1}\n",
         "f.yaml:2:35: formula \"f\": output: none of them exists at any match of `each`"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[600];
        snprintf(text, sizeof text, "formulas:\n%s", rows[i].formulas);
        ns_blueprint* blueprint = parse(text);
        nsi_binding* binding = NULL;
        ns_error error = {0};
        assert_int_equal(
            nsi_binding_create(blueprint, &(nsi_binding_quantities){.count = NNAME, .names = names},
                               NULL, &binding, &error),
            NS_ERR_ARGUMENT);
        if (strncmp(error.message, rows[i].message, strlen(rows[i].message)) != 0) {
            fail_msg("%s\ngives \"%s\"\nand not \"%s\"", text, error.message, rows[i].message);
        }
        assert_null(binding);
        ns_blueprint_free(blueprint);
    }
}

// ---- memory ----------------------------------------------------------------------------------

static ns_status do_all(const ns_allocator* allocator, ns_error* error) {
    ns_blueprint* blueprint = NULL;
    nsi_binding* binding = NULL;
    ns_text text = {0};
    ns_status status = ns_blueprint_parse(both, sizeof both - 1, "f", allocator, &blueprint, error);
    ns_formula_def def = good_formula();
    def.name = "g";
    def.output = "link/a/force/x";
    if (status == NS_OK) status = ns_blueprint_add_formula(blueprint, &def, error);
    if (status == NS_OK) status = nsi_blueprint_text(blueprint, NULL, allocator, &text, error);
    if (status == NS_OK) {
        static const char* const few[] = {
            "q/0", "joint/a/velocity", "link/a/force/x", "link/a/force/z", "joint/a/tau", "qdd/0"};
        status = nsi_binding_create(blueprint, &(nsi_binding_quantities){.count = 6, .names = few},
                                    allocator, &binding, error);
    }
    nsi_binding_free(binding);
    ns_text_free(&text);
    ns_blueprint_free(blueprint);
    return status;
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_error error = {0};
        ns_status status = do_all(&allocator, &error);
        bool reached = counter.calls >= n;
        if (status != (reached ? NS_ERR_NOMEM : NS_OK)) fail_msg("%zu: %s", n, error.message);
        assert_int_equal(counter.live_blocks, 0);
        if (!reached) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_copied),
        cmocka_unit_test(wrong_formulas_are_refused),
        cmocka_unit_test(formulas_are_limited),
        cmocka_unit_test(yaml_is_read),
        cmocka_unit_test(broken_yaml_is_refused_with_its_place),
        cmocka_unit_test(sets_are_those_of_the_coefficients),
        cmocka_unit_test(wrong_names_are_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
