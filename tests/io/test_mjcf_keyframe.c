// Keyframes and reference positions of MJCF files.

#include "io/mjcf_rig.h"

static void keyframes_have_the_order_of_mujoco(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/keyframes.xml");
    assert_int_equal(ns_model_get_sizes(model).nkeyframe, 3);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    const ns_keyframe_def* home = ns_model_keyframe(model, ns_model_find_keyframe(model, "home"));
    all_close(home->q, (const double[]){0.1, 0.2, 1.5, 0.8, 0, 0.6, 0, 0.7, -0.2, 0.6, 0, 0.8, 0},
              13, 1e-15);
    all_close(home->qd, (const double[]){1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 11, 0.0);
    all_close(home->control, (const double[]){0.4, 3}, 2, 0.0);
    assert_string_equal(ns_model_keyframe(model, 1)->name, "key1");
    assert_int_equal(ns_model_find_keyframe(model, "nobody"), UINT32_MAX);
    assert_null(ns_model_keyframe(model, 3));

    // Where nothing is given: reference positions, as MuJoCo's qpos0.
    const double start[13] = {0, 0, 2, 1, 0, 0, 0, pi / 6.0, 0.5, 1, 0, 0, 0}, none[11] = {0};
    const ns_keyframe_def* other = ns_model_keyframe(model, 2);
    all_close(other->q, start, 13, 1e-15);
    all_close(other->qd, none, 11, 0.0);
    all_close(other->control, none, 2, 0.0);

    // The first one is the default.
    double q[13];
    ns_model_default_q(model, q);
    all_close(q, home->q, 13, 0.0);
    ns_model_free(model);
}

static void reference_positions_are_the_default(void** state) {
    (void)state;
    ns_model* model = parse_world("<body name='a' pos='1 0 0'><joint ref='0.3' axis='0 1 0'/>" BALL
                                  "<body name='b' pos='1 0 0'><joint type='slide' axis='1 0 0' "
                                  "ref='-2'/>" BALL "</body></body>");
    double q[8]; // as many as a free joint has, for the compiler
    ns_model_default_q(model, q);
    all_close(q, (const double[]){0.3, -2}, 2, 0.0);

    // There the bodies are where the file draws them.
    ns_pose poses[2];
    link_poses(model, q, poses);
    all_close(poses[0].position, (const double[]){1, 0, 0}, 3, 1e-15);
    all_close(poses[1].position, (const double[]){2, 0, 0}, 3, 1e-15);
    all_close(poses[1].quaternion, (const double[]){1, 0, 0, 0}, 4, 1e-15);
    ns_model_free(model);
}

// A model with one coordinate and one actuator, and another that is not represented.
static void expect_control(const char* keyframe, double q, double control) {
    char text[1000];
    snprintf(text, sizeof text,
             "<mujoco><worldbody><body><joint name='j'/><geom size='1' pos='1 0 0'/></body>"
             "</worldbody><actuator><motor tendon='t'/><motor joint='j'/><motor body='s'/>"
             "</actuator><keyframe>%s</keyframe></mujoco>",
             keyframe);
    ns_model* model = modelfile_parse(text);
    assert_int_equal(ns_model_get_sizes(model).nu, 1);
    assert_true(ns_model_keyframe(model, 0)->q[0] == q);
    assert_true(ns_model_keyframe(model, 0)->control[0] == control);
    ns_model_free(model);
}

static void controls_of_others_are_left_out(void** state) {
    (void)state;
    expect_control("<key ctrl='1 2 3'/>", 0.0, 2.0);
    expect_control("<key qpos='4'/>", 4.0, 0.0);
}

static void faults_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *key, *fragment;
    } cases[] = {
        {"<key qpos='1 2'/>", "qpos has 2 numbers, and the model 1"},
        {"<key qvel=''/><key qvel='1 2 3'/>", "qvel has 3 numbers, and the model 1"},
        {"<key ctrl='1'/>", "ctrl has 1 numbers, and the model 0"},
        {"<key qpos='x'/>", "qpos: "},
        {"<key qpos='nan'/>", "qpos: "},
        {"<key name='a'/><key name='a'/>", "another keyframe has this name"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[500];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody><body><joint/><geom size='1' pos='1 0 0'/></body></worldbody>"
                 "<keyframe>%s</keyframe></mujoco>",
                 cases[k].key);
        const char* message = modelfile_error(text, NS_ERR_PARSE);
        if (!strstr(message, cases[k].fragment)) fail_msg("%s", message);
    }
    const char* message = modelfile_error("<mujoco><worldbody><body><freejoint/>" BALL "</body>"
                                          "</worldbody><keyframe><key qpos='0 0 0 0 0 0 0'/>"
                                          "</keyframe></mujoco>",
                                          NS_ERR_PARSE);
    assert_non_null(strstr(message, "a quaternion is zero"));
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    modelfile_fail_allocations(
        "<mujoco><worldbody><body><joint name='j'/>" BALL "</body></worldbody><actuator><motor "
        "joint='j'/></actuator><keyframe><key name='a' qpos='1' qvel='2' ctrl='3'/></keyframe>"
        "</mujoco>");
}

// Activations are those of the actuators that have one.
static void activations_are_read(void** state) {
    (void)state;
#define ACTUATED(more, act)                                                                        \
    "<mujoco><worldbody><body><joint name='j'/><geom size='1' pos='1 0 0'/></body></worldbody>"    \
    "<actuator><motor joint='j'/><intvelocity joint='j' kp='1'/>" more                             \
    "<general joint='j' dyntype='filter'/></actuator><keyframe><key act='" act "'/></keyframe>"    \
    "</mujoco>"
    ns_model* model = modelfile_parse(ACTUATED("", "0.3 0.7"));
    all_close(ns_model_keyframe(model, 0)->activation, (const double[]){0, 0.3, 0.7}, 3, 0.0);
    ns_model_free(model);
    const char* message = modelfile_error(ACTUATED("", "0.3"), NS_ERR_PARSE);
    assert_says(message, "act has 1 numbers, and the model 2");
    model = modelfile_parse(ACTUATED("<general joint='j' dyntype='user'/>", "1 2 3"));
    assert_true(modelfile_notes(model, "act: not read, since not all actuators are represented"));
    all_close(ns_model_keyframe(model, 0)->activation, (const double[]){0, 0, 0}, 3, 0.0);
    ns_model_free(model);
#undef ACTUATED
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keyframes_have_the_order_of_mujoco),
        cmocka_unit_test(reference_positions_are_the_default),
        cmocka_unit_test(controls_of_others_are_left_out),
        cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(activations_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
