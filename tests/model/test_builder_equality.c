// Equality constraints of a builder: what is refused, computed anchors, parameters, copies.

#include "builder_rig.h"

#include "model/pose.h"

#include <math.h>
#include <stdio.h>

// rod "a" at the world, "b" at the end of it, "c" at x = 1 beside them; a slider "d" on "c"; "e" is fixed
// to "c".
static ns_model_builder* make_links(void) {
    ns_model_builder* builder = new_builder();
    ns_link_def a = rod("a", NULL), b = rod("b", "a"), c = rod("c", NULL), d = rod("d", "c");
    ns_link_def e = ns_default_link_def();
    b.origin.position[2] = -1.0;
    c.origin.position[0] = 1.0;
    c.reference = 0.5;
    d.joint_type = NS_JOINT_PRISMATIC;
    d.axis[1] = 0.0, d.axis[2] = 1.0;
    d.reference = 0.2;
    e.name = "e";
    e.parent = "c";
    add(builder, &a), add(builder, &b), add(builder, &c), add(builder, &d), add(builder, &e);
    return builder;
}

static ns_equality_def connect(const char* a, const char* b) {
    ns_equality_def def = ns_default_equality_def();
    def.a = a, def.b = b;
    return def;
}

static void refuse(ns_model_builder* builder, const ns_equality_def* def, ns_status status,
                   const char* says) {
    ns_error error = {0};
    assert_int_equal(ns_model_builder_add_equality(builder, def, &error), status);
    assert_says(error.message, says);
}

static void accept(ns_model_builder* builder, const ns_equality_def* def) {
    ns_error error = {0};
    must(ns_model_builder_add_equality(builder, def, &error), &error);
}

static void wrong_constraints_are_refused(void** state) {
    (void)state;
    ns_model_builder* builder = make_links();
    ns_equality_def def = connect("a", "nowhere");
    refuse(builder, &def, NS_ERR_ARGUMENT, "b names no earlier link \"nowhere\"");
    def = connect("c", "e");
    refuse(builder, &def, NS_ERR_ARGUMENT, "do not move relative to each other");
    def = connect(NULL, "world");
    refuse(builder, &def, NS_ERR_ARGUMENT, "do not move relative to each other");

    def = connect("a_joint", NULL);
    def.type = NS_EQUALITY_JOINT;
    def.b = "a_joint";
    refuse(builder, &def, NS_ERR_ARGUMENT, "constrains a joint by itself");
    def.b = "e_joint";
    refuse(builder, &def, NS_ERR_ARGUMENT, "neither revolute nor prismatic");
    def.a = NULL;
    refuse(builder, &def, NS_ERR_ARGUMENT, "a names no earlier joint");
    def.a = "a_joint", def.b = NULL;
    def.coefficients[3] = NAN;
    refuse(builder, &def, NS_ERR_ARGUMENT, "coefficients");

    def = connect("a", "c");
    def.type = (ns_equality_type)7;
    refuse(builder, &def, NS_ERR_ARGUMENT, "none of ns_equality_type");
    def = connect("a", "c");
    def.compute_a = def.compute_b = true;
    refuse(builder, &def, NS_ERR_ARGUMENT, "one anchor must be given");
    def = connect("a", "c");
    def.recovery = -1.0;
    refuse(builder, &def, NS_ERR_ARGUMENT, "recovery");
    def = connect("a", "c");
    def.anchor_b.position[0] = INFINITY;
    refuse(builder, &def, NS_ERR_ARGUMENT, "anchor_b");
    def = connect("a", "c");
    def.name = "same";
    accept(builder, &def);
    refuse(builder, &def, NS_ERR_ARGUMENT, "same");
    ns_model_builder_free(builder);
}

static void anchors_hold_at_the_reference(void** state) {
    (void)state;
    ns_model_builder* builder = make_links();
    ns_equality_def def = connect("d", "b");
    def.type = NS_EQUALITY_WELD;
    def.compute_a = true;
    def.anchor_b.position[0] = 0.3;
    accept(builder, &def);
    ns_model* model = finish(builder);

    // b is unturned at z = -1, so its anchor is at (0.3, 0, -1). d stands 0.2 along the z axis of c, which
    // is turned by 0.5 about y at x = 1.
    const ns_equality_def* got = ns_model_equality(model, 0);
    double dx = 0.3 - 1.0, dz = -1.0;
    close_to("x", got->anchor_a.position[0], cos(0.5) * dx - sin(0.5) * dz, 1e-12);
    close_to("y", got->anchor_a.position[1], 0.0, 1e-12);
    close_to("z", got->anchor_a.position[2], sin(0.5) * dx + cos(0.5) * dz - 0.2, 1e-12);
    close_to("turn", got->anchor_a.quaternion[2], -sin(0.25), 1e-12);
    assert_string_equal(got->name, "weld0");
    assert_int_equal(ns_model_equality_rows(model, 0), 6);
    assert_null(ns_model_equality(model, 1));
    ns_model_free(model);
}

static void numbers_are_parameters(void** state) {
    (void)state;
    ns_model_builder* builder = make_links();
    ns_equality_def def = connect("a", "c");
    def.name = "loop";
    def.anchor_a.position[2] = 0.25;
    def.anchor_b.position[1] = -0.5;
    accept(builder, &def);
    def = ns_default_equality_def();
    def.name = "gear";
    def.type = NS_EQUALITY_JOINT;
    def.a = "a_joint", def.b = "c_joint";
    def.coefficients[4] = 0.125;
    def.inactive = true;
    accept(builder, &def);
    def = connect("b", NULL);
    def.name = "fix";
    def.type = NS_EQUALITY_WELD;
    accept(builder, &def);
    ns_model* model = finish(builder);

    const struct {
        const char* name;
        double value;
        ns_param_kind kind;
        uint32_t owner, component;
    } wanted[] = {{"equality/loop/anchor_a/z", 0.25, NS_PARAM_EQUALITY_ANCHOR, 0, 2},
                  {"equality/loop/anchor_b/y", -0.5, NS_PARAM_EQUALITY_ANCHOR, 0, 4},
                  {"equality/gear/coefficient/1", 1.0, NS_PARAM_EQUALITY_COEFFICIENT, 1, 1},
                  {"equality/gear/coefficient/4", 0.125, NS_PARAM_EQUALITY_COEFFICIENT, 1, 4},
                  {"equality/fix/rotation/y", 0.0, NS_PARAM_EQUALITY_ROTATION, 2, 1}};
    for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
        const ns_param* param = ns_model_param(model, ns_model_find_param(model, wanted[k].name));
        assert_non_null(param);
        close_to(wanted[k].name, param->value, wanted[k].value, 0.0);
        assert_int_equal(param->kind, wanted[k].kind);
        assert_int_equal(param->owner, wanted[k].owner);
        assert_int_equal(param->component, wanted[k].component);
    }
    assert_int_equal(ns_model_find_param(model, "equality/loop/rotation/x"), UINT32_MAX);
    assert_int_equal(ns_model_equality_rows(model, 1), 0); // inactive
    ns_model_free(model);
}

static ns_status make_constrained(const ns_allocator* allocator, ns_model** out, ns_error* error) {
    ns_model_builder* builder = NULL;
    ns_link_def a = rod("a", NULL);
    ns_equality_def def = connect("a", NULL);
    ns_status status = ns_model_builder_create(allocator, &builder, error);
    if (status == NS_OK) status = ns_model_builder_add_link(builder, &a, error);
    for (int k = 0; k < 200 && status == NS_OK; k++) {
        char name[NSI_MODEL_MAX_NAME + 1];
        snprintf(name, sizeof name, "%0190d", k);
        def.name = name;
        status = ns_model_builder_add_equality(builder, &def, error);
    }
    if (status == NS_OK) status = ns_model_builder_finish(builder, out, error);
    ns_model_builder_free(builder);
    return status;
}

static void allocations_may_fail(void** state) {
    (void)state;
    fail_each_allocation(make_constrained, NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_constraints_are_refused),
        cmocka_unit_test(anchors_hold_at_the_reference),
        cmocka_unit_test(numbers_are_parameters),
        cmocka_unit_test(allocations_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
