// Blueprints that are written read back the same.

#include "nn/binding.h"
#include "nn/blueprint_data.h"
#include "nn/blueprint_rig.h"
#include "nn/formula_rig.h"
#include "support/assert.h"
#include "support/check.h"

#include <math.h>
#include <stdio.h>

static bool same_text(const char* a, const char* b) {
    return a && b ? strcmp(a, b) == 0 : a == b;
}

static void same_numbers(const double* a, uint32_t na, const double* b, uint32_t nb) {
    assert_int_equal(na, nb);
    for (uint32_t k = 0; k < na; k++) assert_true(check_same_bits(a[k], b[k]));
}

static void same_network(const ns_network_def* a, const ns_network_def* b) {
    assert_true(same_text(a->name, b->name) && same_text(a->each, b->each));
    assert_true(a->separate == b->separate && a->mode == b->mode && a->no_bias == b->no_bias);
    assert_true(a->activation == b->activation && a->structure == b->structure);
    assert_true(a->ninput == b->ninput && a->noutput == b->noutput && a->nhidden == b->nhidden);
    assert_true((a->conjugate == NULL) == (b->conjugate == NULL));
    for (uint32_t k = 0; k < a->ninput; k++) assert_string_equal(a->inputs[k], b->inputs[k]);
    for (uint32_t k = 0; k < a->noutput; k++) assert_string_equal(a->outputs[k], b->outputs[k]);
    for (uint32_t k = 0; a->conjugate && k < a->noutput; k++) {
        assert_string_equal(a->conjugate[k], b->conjugate[k]);
    }
    for (uint32_t k = 0; k < a->nhidden; k++) assert_true(a->hidden[k] == b->hidden[k]);
    same_numbers(a->input_shift, a->ninput_shift, b->input_shift, b->ninput_shift);
    same_numbers(a->input_scale, a->ninput_scale, b->input_scale, b->ninput_scale);
    same_numbers(a->output_scale, a->noutput_scale, b->output_scale, b->noutput_scale);
    same_numbers(a->conjugate_scale, a->nconjugate_scale, b->conjugate_scale, b->nconjugate_scale);
    assert_true(a->bound == b->bound && a->seed == b->seed);
    assert_true(a->init_scale == b->init_scale && a->init_last_scale == b->init_last_scale);
}

static void same_formula(const ns_formula_def* a, const ns_formula_def* b, const double* values) {
    assert_true(same_text(a->name, b->name) && same_text(a->each, b->each));
    assert_true(a->separate == b->separate && a->mode == b->mode);
    assert_string_equal(a->output, b->output);
    assert_string_equal(a->formula, b->formula);
    assert_int_equal(a->ncoefficient, b->ncoefficient);
    for (uint32_t k = 0; k < a->ncoefficient; k++) {
        assert_string_equal(a->coefficients[k].name, b->coefficients[k].name);
        double wanted = values ? values[k] : a->coefficients[k].value;
        assert_true(check_same_bits(b->coefficients[k].value, wanted));
    }
}

static const char to_write[] =
    "networks:\n"
    "- name: drag\n  each: link/*\n  weights: separate\n"
    "  inputs: [\"{}/velocity/x\", 'prev:{}/force/x', \"lag3:*/\\u2028/\\\"odd\\\"\"]\n"
    "  outputs: ['{}/force/x', 'true']\n  mode: replace\n  hidden: [35, 20]\n"
    "  activation: softplus\n  bias: false\n  structure: [dissipative, even]\n"
    "  conjugate: ['{}/velocity/x', 'nan']\n  input_shift: 0.1\n  input_scale: [2, 3e1, 1e-300]\n"
    "  output_scale: 1.45e-4\n  conjugate_scale: [.25, 0.3]\n"
    "  init: {scale: 2, last: 0, seed: 18446744073709551615}\n"
    "- {name: 'no', inputs: q/*, outputs: '-1', mode: scale, structure: bounded, bound: 0.1}\n"
    "- {name: plain, inputs: q/0, outputs: qdd/0}\n"
    "formulas:\n"
    "- name: friction\n  each: joint/*\n  weights: separate\n  output: '{}/tau'\n"
    "  formula: -b * \"{}/velocity\" - y_1 * tanh(\"prev:{}/velocity\" / 0.05)\n"
    "  coefficients: {b: 0.1, y_1: -3e-7}\n"
    "- {name: 'null', output: \"a\\\"b\", mode: scale, formula: '9'}\n"
    "- {name: odd, output: q/0, formula: '\"it''s\" + \"\xc3\xa4\" * y', coefficients: {y: 5}}\n";

static void what_is_written_reads_back_the_same(void** state) {
    (void)state;
    static const double anew[] = {0.2, 1.0 / 3.0, -0.0};
    const char* path = "blueprint_written.yaml";
    ns_blueprint* blueprint = parse(to_write);
    ns_error error = {0};
    for (int given = 0; given < 2; given++) {
        const double* values = given ? anew : NULL;
        must(nsi_blueprint_write(path, blueprint, values, NULL, &error), &error);
        ns_blueprint* again = NULL;
        must(ns_blueprint_load(path, NULL, &again, &error), &error);
        assert_int_equal(ns_blueprint_network_count(again), 3);
        assert_int_equal(ns_blueprint_formula_count(again), 3);
        for (uint32_t k = 0; k < 3; k++) {
            same_network(ns_blueprint_network(blueprint, k), ns_blueprint_network(again, k));
            const ns_formula_def* def = ns_blueprint_formula(blueprint, k);
            same_formula(def, ns_blueprint_formula(again, k), values);
            if (values) values += def->ncoefficient;
        }
        ns_blueprint_free(again);
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(nsi_blueprint_write("/does/not/exist.yaml", blueprint, NULL, NULL, &error),
                     NS_ERR_IO);
    static const double infinite[] = {1.0, INFINITY, 1.0};
    ns_text text;
    assert_int_equal(nsi_blueprint_text(blueprint, infinite, NULL, &text, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "\"friction\": y_1 is not finite");
    ns_blueprint_free(blueprint);

    // Nothing at all, and what YAML cannot hold.
    blueprint = empty_blueprint();
    assert_int_equal(nsi_blueprint_text(blueprint, NULL, NULL, &text, &error), NS_OK);
    ns_blueprint_free(parse(text.data));
    ns_text_free(&text);
    ns_formula_def def = good_formula();
    def.output = "joint/\xff/tau";
    assert_int_equal(ns_blueprint_add_formula(blueprint, &def, &error), NS_OK);
    assert_int_equal(nsi_blueprint_text(blueprint, NULL, NULL, &text, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "\"friction\": a text is not UTF-8");
    ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_reads_back_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
