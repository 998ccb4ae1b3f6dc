// Blueprints for tests.

#ifndef TEST_BLUEPRINT_RIG_H
#define TEST_BLUEPRINT_RIG_H

#include "nn/blueprint_data.h"
#include "support/assert.h"

static inline ns_blueprint* empty_blueprint(void) {
    ns_blueprint* blueprint = NULL;
    ns_error error;
    must(ns_blueprint_create(NULL, &blueprint, &error), &error);
    return blueprint;
}

// ---- YAML ------------------------------------------------------------------------------------

static const char everything[] = "# a comment\n"
                                 "networks:\n"
                                 "  - name: drag\n"
                                 "    each: link/*\n"
                                 "    weights: separate\n"
                                 "    inputs: [\"{}/velocity/x\", 'prev:{}/force/x']\n"
                                 "    outputs:\n"
                                 "      - \"{}/force/x\"\n"
                                 "    mode: replace\n"
                                 "    hidden: [35, 20]\n"
                                 "    activation: softplus\n"
                                 "    bias: false\n"
                                 "    structure: [dissipative, even]\n"
                                 "    conjugate: \"{}/velocity/x\"\n"
                                 "    input_shift: 0.5\n"
                                 "    input_scale: [2, 3e1]\n"
                                 "    output_scale: 1.45e-4\n"
                                 "    conjugate_scale: [.25]\n"
                                 "    init: {scale: 2, last: 0, seed: 18446744073709551615}\n"
                                 "  - name: gain\n"
                                 "    inputs: joint/*/velocity\n"
                                 "    outputs: actuator/a/force\n"
                                 "    mode: scale\n"
                                 "    structure: bounded\n"
                                 "    bound: 0.5\n"
                                 "formulas:\n"
                                 "  - name: friction\n"
                                 "    each: joint/*\n"
                                 "    weights: separate\n"
                                 "    output: \"{}/tau\"\n"
                                 "    mode: replace\n"
                                 "    formula: -b * \"{}/velocity\" - c * tanh(\"prev:{}/tau\")\n"
                                 "    coefficients: {b: 0.098, c: 2e-2}\n";

#endif
