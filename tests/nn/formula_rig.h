// Blueprints with formulas for tests.

#ifndef TEST_FORMULA_RIG_H
#define TEST_FORMULA_RIG_H

#include "nn/binding.h"
#include "nn/blueprint_data.h"
#include "nn/blueprint_rig.h"
#include "support/assert.h"

static const ns_coefficient two[] = {{"b", 0.5}, {"c", -2.0}};

// A formula that is fine.
static inline ns_formula_def good_formula(void) {
    ns_formula_def def = ns_default_formula_def();
    def.name = "friction";
    def.output = "joint/a/tau";
    def.formula = "-b * \"joint/a/velocity\" + c";
    def.coefficients = two;
    def.ncoefficient = 2;
    return def;
}

static inline ns_blueprint* parse(const char* text) {
    ns_blueprint* blueprint = NULL;
    ns_error error;
    must(ns_blueprint_parse(text, strlen(text), "f.yaml", NULL, &blueprint, &error), &error);
    return blueprint;
}

#endif
