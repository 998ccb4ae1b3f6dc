// Keyframes of models that are built by hand.

#include "neuralsim/model.h"
#include "support/assert.h"

// A free body and a hinge with an actuator.
static ns_model_builder* make_builder(void) {
    ns_model_builder* builder = NULL;
    ns_error error;
    must(ns_model_builder_create(NULL, &builder, &error), &error);
    ns_link_def link = ns_default_link_def();
    link.name = "free";
    link.joint_type = NS_JOINT_FLOATING;
    link.mass = 1.0;
    for (int i = 0; i < 3; i++) link.inertia[i] = 1.0;
    link.origin.position[2] = 3.0;
    must(ns_model_builder_add_link(builder, &link, &error), &error);
    link.name = "arm", link.parent = "free";
    link.joint = "hinge";
    link.joint_type = NS_JOINT_REVOLUTE;
    link.reference = 0.7;
    must(ns_model_builder_add_link(builder, &link, &error), &error);
    ns_actuator_def actuator = ns_default_actuator_def();
    actuator.joint = "hinge";
    must(ns_model_builder_add_actuator(builder, &actuator, &error), &error);
    return builder;
}

static void the_first_one_is_the_default(void** state) {
    (void)state;
    ns_model_builder* builder = make_builder();
    ns_model* model = NULL;
    ns_error error;
    double q[8];

    // Without keyframes: the reference of each joint.
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_default_q(model, q);
    all_close(q, (const double[]){0, 0, 3, 1, 0, 0, 0, 0.7}, 8, 0.0);
    assert_null(ns_model_keyframe(model, 0));
    ns_model_free(model);

    const double high[8] = {0, 0, 9, 0, 0, 0, 2, 0.1}, one = 1.0;
    must(ns_model_builder_add_keyframe(builder, &(ns_keyframe_def){.name = "high", .q = high},
                                       &error),
         &error);
    must(ns_model_builder_add_keyframe(builder, &(ns_keyframe_def){.control = &one}, &error),
         &error);
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_default_q(model, q);
    all_close(q, (const double[]){0, 0, 9, 0, 0, 0, 1, 0.1}, 8, 0.0); // made unit length
    assert_int_equal(ns_model_get_sizes(model).nkeyframe, 2);
    assert_int_equal(ns_model_find_keyframe(model, "key1"), 1);
    assert_true(ns_model_keyframe(model, 1)->control[0] == 1.0);
    assert_true(ns_model_keyframe(model, 1)->q[7] == 0.7);
    assert_true(ns_model_keyframe(model, 0)->qd[6] == 0.0);
    ns_model_free(model);
    ns_model_builder_free(builder);
}

static void what_is_wrong_is_told(void** state) {
    (void)state;
    ns_model_builder* builder = make_builder();
    ns_error error;
    const double zero[8] = {0}, infinite = 1.0 / 0.0;
    assert_int_equal(ns_model_builder_add_keyframe(builder, NULL, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_add_keyframe(builder, &(ns_keyframe_def){.q = zero}, &error),
                     NS_ERR_ARGUMENT);
    assert_says(error.message, "a quaternion is zero");
    assert_int_equal(
        ns_model_builder_add_keyframe(builder, &(ns_keyframe_def){.control = &infinite}, &error),
        NS_ERR_ARGUMENT);
    assert_says(error.message, "keyframe \"key0\": control 0 is not finite");
    must(ns_model_builder_add_keyframe(builder, &(ns_keyframe_def){.name = "a"}, &error), &error);
    assert_int_equal(
        ns_model_builder_add_keyframe(builder, &(ns_keyframe_def){.name = "a"}, &error),
        NS_ERR_ARGUMENT);

    // Sizes must not change afterwards.
    ns_actuator_def actuator = ns_default_actuator_def();
    actuator.name = "second", actuator.joint = "hinge";
    must(ns_model_builder_add_actuator(builder, &actuator, &error), &error);
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "\"a\" was added before the last link or actuator");
    ns_model_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_one_is_the_default),
        cmocka_unit_test(what_is_wrong_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
