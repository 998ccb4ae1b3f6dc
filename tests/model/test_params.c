// The parameter registry: names, order, units, bounds, transforms; and patterns of names.

#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static ns_model* make_model(void) {
    ns_model_builder* builder = NULL;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    ns_link_def link = ns_default_link_def();
    link.name = "upper";
    link.joint = "shoulder";
    link.joint_type = NS_JOINT_REVOLUTE;
    link.mass = 2.0;
    link.com[0] = 0.1, link.com[1] = 0.2, link.com[2] = 0.3;
    for (int i = 0; i < 3; i++) link.inertia[i] = 0.01 * (i + 4), link.inertia[i + 3] = 0.001 * i;
    link.origin.position[0] = 1.0, link.origin.position[1] = 2.0, link.origin.position[2] = 3.0;
    link.axis[0] = 0.6, link.axis[1] = 0.0, link.axis[2] = 0.8;
    link.stiffness = 5.0, link.rest = -0.5, link.damping = 6.0, link.friction = 7.0;
    link.armature = 8.0, link.limited = true, link.lower = -9.0, link.upper = 9.0;
    link.limit_stiffness = 0.0, link.limit_damping = 10.0;
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);

    link = ns_default_link_def();
    link.name = "slider";
    link.joint_type = NS_JOINT_PRISMATIC;
    link.mass = 1.0;
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);

    ns_actuator_def actuator = ns_default_actuator_def();
    actuator.joint = "shoulder";
    actuator.gear = -3.0, actuator.kp = 4.0;
    assert_int_equal(ns_model_builder_add_actuator(builder, &actuator, NULL), NS_OK);
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    modelfile_check(model);
    return model;
}

typedef struct expected_param {
    const char *name, *unit;
    double value, lower;
    ns_param_transform transform;
} expected_param;

static void every_number_is_registered(void** state) {
    (void)state;
    static const double inf = INFINITY;
    const expected_param expected[] = {
        {"link/upper/mass", "kg", 2.0, 0.0, NS_TRANSFORM_INERTIA},
        {"link/upper/com/x", "m", 0.1, -inf, NS_TRANSFORM_INERTIA},
        {"link/upper/com/y", "m", 0.2, -inf, NS_TRANSFORM_INERTIA},
        {"link/upper/com/z", "m", 0.3, -inf, NS_TRANSFORM_INERTIA},
        {"link/upper/inertia/xx", "kg m^2", 0.04, 0.0, NS_TRANSFORM_INERTIA},
        {"link/upper/inertia/yy", "kg m^2", 0.05, 0.0, NS_TRANSFORM_INERTIA},
        {"link/upper/inertia/zz", "kg m^2", 0.06, 0.0, NS_TRANSFORM_INERTIA},
        {"link/upper/inertia/xy", "kg m^2", 0.0, -inf, NS_TRANSFORM_INERTIA},
        {"link/upper/inertia/xz", "kg m^2", 0.001, -inf, NS_TRANSFORM_INERTIA},
        {"link/upper/inertia/yz", "kg m^2", 0.002, -inf, NS_TRANSFORM_INERTIA},
        {"joint/shoulder/origin/x", "m", 1.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/origin/y", "m", 2.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/origin/z", "m", 3.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/origin/rx", "rad", 0.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/origin/ry", "rad", 0.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/origin/rz", "rad", 0.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/axis/x", "", 0.6, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/axis/y", "", 0.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/axis/z", "", 0.8, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/stiffness", "N m/rad", 5.0, 0.0, NS_TRANSFORM_LOG},
        {"joint/shoulder/rest", "rad", -0.5, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/damping", "N m s/rad", 6.0, 0.0, NS_TRANSFORM_LOG},
        {"joint/shoulder/friction", "N m", 7.0, 0.0, NS_TRANSFORM_LOG},
        {"joint/shoulder/friction_velocity", "rad/s", 0.01, 0.0, NS_TRANSFORM_LOG},
        {"joint/shoulder/armature", "kg m^2", 8.0, 0.0, NS_TRANSFORM_LOG},
        {"joint/shoulder/lower", "rad", -9.0, -inf, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/upper", "rad", 9.0, -inf, NS_TRANSFORM_IDENTITY},
        // From zero, no logarithm leads anywhere.
        {"joint/shoulder/limit_stiffness", "N m/rad", 0.0, 0.0, NS_TRANSFORM_IDENTITY},
        {"joint/shoulder/limit_damping", "N m s/rad", 10.0, 0.0, NS_TRANSFORM_LOG},
    };
    const uint32_t count = sizeof expected / sizeof *expected;
    assert_int_equal(count, NSI_LINK_PARAMS);
    ns_model* model = make_model();
    for (uint32_t i = 0; i < count; i++) {
        const ns_param* param = ns_model_param(model, i);
        assert_string_equal(param->name, expected[i].name);
        assert_string_equal(param->unit, expected[i].unit);
        assert_true(param->value == expected[i].value);
        assert_true(param->lower == expected[i].lower && param->upper == inf);
        assert_int_equal(param->transform, expected[i].transform);
        assert_int_equal(ns_model_find_param(model, expected[i].name), i);
    }

    // The numbers of model_data.h lead to the same parameters.
    assert_int_equal(model->links[1].param, NSI_LINK_PARAMS);
    assert_string_equal(model->params[model->links[1].param + NSI_JOINT_ARMATURE].name,
                        "joint/slider_joint/armature");
    assert_string_equal(model->params[model->actuators[0].param + NSI_ACTUATOR_KD].name,
                        "actuator/shoulder_motor/kd");
    assert_string_equal(model->params[model->gravity_param + 2].name, "world/gravity/z");
    assert_int_equal(model->gravity_param + 3, ns_model_get_sizes(model).nparam);
    assert_true(model->params[model->gravity_param + 2].value == -9.81);

    // A joint that slides has other units.
    const ns_param* slider = model->params + model->links[1].param;
    assert_string_equal(slider[NSI_JOINT_STIFFNESS].unit, "N/m");
    assert_string_equal(slider[NSI_JOINT_DAMPING].unit, "N s/m");
    assert_string_equal(slider[NSI_JOINT_FRICTION].unit, "N");
    assert_string_equal(slider[NSI_JOINT_ARMATURE].unit, "kg");
    assert_string_equal(slider[NSI_JOINT_FRICTION_VELOCITY].unit, "m/s");
    assert_string_equal(slider[NSI_JOINT_REST].unit, "m");

    const ns_param* gains = model->params + model->actuators[0].param;
    assert_true(gains[NSI_ACTUATOR_GEAR].value == -3.0 && gains[NSI_ACTUATOR_GEAR].lower == -inf);
    assert_int_equal(gains[NSI_ACTUATOR_KP].transform, NS_TRANSFORM_LOG);
    assert_int_equal(gains[NSI_ACTUATOR_KD].transform, NS_TRANSFORM_IDENTITY);
    ns_model_free(model);
}

static void unknown_names_are_not_found(void** state) {
    (void)state;
    static const char* const names[] = {"",
                                        "link/upper",
                                        "link/upper/mass/",
                                        "link/Upper/mass",
                                        "joint/upper/damping",
                                        "world/gravity",
                                        "link/slider/origin/x"};
    ns_model* model = make_model();
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        assert_int_equal(ns_model_find_param(model, names[k]), UINT32_MAX);
    }
    assert_int_equal(ns_model_find_param(model, NULL), UINT32_MAX);
    assert_null(ns_model_param(model, UINT32_MAX));
    assert_null(ns_model_param(NULL, 0));
    ns_model_free(model);
}

static void patterns_match(void** state) {
    (void)state;
    static const struct {
        const char *pattern, *name;
        bool match;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"*", "", true},
        {"*", "abc", true},
        {"*", "a/b", false},
        {"**", "a/b", true},
        {"**", "", true},
        {"?", "a", true},
        {"?", "", false},
        {"?", "/", false},
        {"?", "\xC3\xA9", true}, // one character of two bytes
        {"??", "\xC3\xA9", false},
        {"a?c", "abc", true},
        {"link/*/mass", "link/upper/mass", true},
        {"link/*/mass", "link/upper/com/mass", false},
        {"link/*/mass", "link//mass", true},
        {"link/**/mass", "link/a/b/mass", true},
        {"link/**", "link/upper/inertia/xx", true},
        {"**/xx", "link/upper/inertia/xx", true},
        {"**/x?", "link/upper/inertia/xx", true},
        {"link/*/com/*", "link/a/com/x", true},
        {"link/*/com/*", "link/a/com/x/y", false},
        {"*/*/mass", "link/a/mass", true},
        {"link/left_*/mass", "link/left_arm/mass", true},
        {"link/left_*/mass", "link/right_arm/mass", false},
        {"a*b*c", "axxbybzc", true},
        {"a*b*c", "axxbybz", false},
        {"*ab", "aab", true},
        {"*ab*ab", "abab", true},
        {"*ab*ab", "abcab/ab", false},
        {"**ab*ab", "abcab/abab", true},
        {"**a**b", "xa/y/zab", true},
        {"**/a*/b", "x/y/ac/b", true},
        {"**/a*/b", "x/y/ac/d/b", false},
        {"**/a*/b", "a1/a2/a3/b", true},
        {"***", "a/b/c", true},
        {"*?", "a", true},
        {"*?", "", false},
        {"joint/*/origin/r?", "joint/j/origin/rz", true},
        {"joint/*/origin/r?", "joint/j/origin/x", false},
        {"[a]", "a", false}, // nothing else is special
        {"a.c", "abc", false},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        if (ns_glob_match(cases[k].pattern, cases[k].name) != cases[k].match) {
            fail_msg("%s and %s: not %d", cases[k].pattern, cases[k].name, cases[k].match);
        }
    }
    assert_false(ns_glob_match(NULL, "a"));
    assert_false(ns_glob_match("a", NULL));
}

// The same by its definition, which may take for ever but is plainly right.
static bool match_slowly(const char* pattern, const char* name) {
    if (*pattern == '\0') return *name == '\0';
    if (pattern[0] == '*' && pattern[1] == '*') {
        return match_slowly(pattern + 2, name) || (*name && match_slowly(pattern, name + 1));
    }
    if (*pattern == '*') {
        return match_slowly(pattern + 1, name) ||
               (*name && *name != '/' && match_slowly(pattern, name + 1));
    }
    if (*name == '\0' || (*pattern == '?' && *name == '/')) return false;
    return (*pattern == '?' || *pattern == *name) && match_slowly(pattern + 1, name + 1);
}

static void random_patterns_match(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(12);
    uint32_t matches = 0;
    for (int k = 0; k < 200000; k++) {
        char pattern[12] = "", name[12] = "";
        uint32_t length = ns_rng_below(&rng, 9);
        for (uint32_t i = 0; i < length; i++) pattern[i] = "ab/**?*"[ns_rng_below(&rng, 7)];
        length = ns_rng_below(&rng, 10);
        for (uint32_t i = 0; i < length; i++) name[i] = "ab/a"[ns_rng_below(&rng, 4)];
        bool match = ns_glob_match(pattern, name);
        if (match != match_slowly(pattern, name)) fail_msg("%s and %s: %d", pattern, name, match);
        matches += match;
    }
    assert_in_range(matches, 5000, 150000);
}

// No pattern takes for ever.
static void patterns_are_quick(void** state) {
    (void)state;
    char pattern[401], name[1001];
    for (int i = 0; i < 400; i++) pattern[i] = i % 2 ? 'a' : '*';
    memset(name, 'a', 1000);
    pattern[399] = 'b';
    pattern[400] = name[1000] = '\0';
    assert_false(ns_glob_match(pattern, name));
    for (int i = 0; i < 399; i++) pattern[i] = i % 3 < 2 ? '*' : 'a';
    assert_false(ns_glob_match(pattern, name));
}

// Kind, owner and component say what a name says, so that nobody needs to read names.
static void kinds_and_owners(void** state) {
    (void)state;
    static const struct {
        const char* name;
        ns_param_kind kind;
        uint32_t component;
        bool may_vanish;
    } rows[] = {{"link/%s/mass", NS_PARAM_MASS, 0, false},
                {"link/%s/com/z", NS_PARAM_COM, 2, false},
                {"link/%s/inertia/xx", NS_PARAM_INERTIA, 0, false},
                {"link/%s/inertia/yz", NS_PARAM_INERTIA, 5, false},
                {"joint/%s/origin/y", NS_PARAM_JOINT_ORIGIN, 1, false},
                {"joint/%s/origin/rx", NS_PARAM_JOINT_ROTATION, 0, false},
                {"joint/%s/axis/z", NS_PARAM_JOINT_AXIS, 2, false},
                {"joint/%s/stiffness", NS_PARAM_JOINT_STIFFNESS, 0, true},
                {"joint/%s/rest", NS_PARAM_JOINT_REST, 0, false},
                {"joint/%s/damping", NS_PARAM_JOINT_DAMPING, 0, true},
                {"joint/%s/friction_velocity", NS_PARAM_JOINT_FRICTION_VELOCITY, 0, false},
                {"joint/%s/limit_damping", NS_PARAM_JOINT_LIMIT_DAMPING, 0, true}};
    ns_model* model = make_model();
    for (uint32_t link = 0; link < ns_model_get_sizes(model).nlink; link++) {
        const ns_link_def* def = ns_model_link(model, link);
        for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
            char name[200];
            bool of_link = rows[k].kind <= NS_PARAM_INERTIA;
            snprintf(name, sizeof name, rows[k].name, of_link ? def->name : def->joint);
            const ns_param* param = ns_model_param(model, ns_model_find_param(model, name));
            assert_non_null(param);
            assert_int_equal(param->kind, rows[k].kind);
            assert_int_equal(param->owner, link);
            assert_int_equal(param->component, rows[k].component);
            assert_int_equal(param->may_vanish, rows[k].may_vanish);
        }
    }
    const ns_param* gravity = ns_model_param(model, ns_model_find_param(model, "world/gravity/z"));
    assert_int_equal(gravity->kind, NS_PARAM_GRAVITY);
    assert_int_equal(gravity->component, 2);
    assert_int_equal(gravity->owner, UINT32_MAX);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_is_registered),  cmocka_unit_test(kinds_and_owners),
        cmocka_unit_test(unknown_names_are_not_found), cmocka_unit_test(patterns_match),
        cmocka_unit_test(random_patterns_match),       cmocka_unit_test(patterns_are_quick),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
