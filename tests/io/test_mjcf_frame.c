// <frame> and <replicate>. tests/io/test_mujoco_files.c compares the same file with MuJoCo.

#include "io/mjcf_rig.h"

#include <stdlib.h>

static void frames_move_what_they_hold(void** state) {
    (void)state;
    ns_model *model = modelfile_load("mjcf/frames.xml"),
             *expanded = modelfile_load("mjcf/frames_expanded.xml");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);

    // Where links and geometries are, with all joints turned.
    ns_pose ours[32], theirs[32];
    double q[32];
    for (int k = 0; k < 32; k++) q[k] = 0.1 * k - 0.3;
    assert_int_equal(ns_model_get_sizes(model).nq, ns_model_get_sizes(expanded).nq);
    link_poses(model, q, ours);
    link_poses(expanded, q, theirs);
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        const ns_link_def* link = ns_model_link(model, i);
        uint32_t same = modelfile_link(expanded, link->name);
        if (same == UINT32_MAX) continue; // a joint's own link
        all_close(ours[i].position, theirs[same].position, 3, 1e-14);
        double sign = ours[i].quaternion[0] * theirs[same].quaternion[0] < 0.0 ? -1.0 : 1.0;
        for (int k = 0; k < 4; k++) ours[i].quaternion[k] *= sign;
        all_close(ours[i].quaternion, theirs[same].quaternion, 4, 1e-14);
        assert_true(link->damping == ns_model_link(expanded, same)->damping);
    }
    assert_int_equal(ns_model_get_sizes(model).ngeom, ns_model_get_sizes(expanded).ngeom);
    ns_model_free(model);
    ns_model_free(expanded);
}

static void copies_have_numbers(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/frames.xml");
    static const char* const links[] = {"link_0", "link_1", "link_2"};
    static const char* const beads[] = {"bead00", "bead10", "bead01", "bead11"};
    for (int k = 0; k < 3; k++) assert_int_not_equal(modelfile_link(model, links[k]), UINT32_MAX);
    for (int k = 0; k < 4; k++) {
        assert_int_not_equal(ns_model_find_geom(model, beads[k]), UINT32_MAX);
    }
    // Actuators of what is copied are copied too, and come after the others.
    static const char* const actuators[] = {"ma", "ml_0", "ml_1", "ml_2"};
    assert_int_equal(ns_model_get_sizes(model).nu, 4);
    for (uint32_t k = 0; k < 4; k++) {
        assert_string_equal(ns_model_actuator(model, k)->name, actuators[k]);
    }
    assert_string_equal(ns_model_actuator(model, 3)->joint, "jl_2");
    ns_model_free(model);

    // Ten copies need two digits. Things of another kind with the same name stay as they are.
    model = parse_world("<replicate count='10'><body name='a'><joint/>" BALL "</body></replicate>"
                        "<body name='b'><joint name='a'/>" BALL "</body>");
    assert_int_not_equal(modelfile_link(model, "a00"), UINT32_MAX);
    assert_int_not_equal(modelfile_link(model, "a09"), UINT32_MAX);
    assert_int_equal(ns_model_get_sizes(model).nlink, 11);
    ns_model_free(model);
    model = modelfile_parse("<mujoco><worldbody><replicate count='2'><geom name='x' size='1'/>"
                            "</replicate><body><joint name='x'/><geom size='1'/></body></worldbody>"
                            "<actuator><motor joint='x'/></actuator></mujoco>");
    assert_int_equal(ns_model_get_sizes(model).nu, 1);
    assert_string_equal(ns_model_actuator(model, 0)->joint, "x");
    ns_model_free(model);
}

// One that is wrong, in a <worldbody>.
static void refuse(const char* inside, ns_status status, const char* fragment) {
    char text[500];
    snprintf(text, sizeof text, "<mujoco><worldbody>%s</worldbody></mujoco>", inside);
    const char* message = modelfile_error(text, status);
    if (!strstr(message, fragment)) fail_msg("%s", message);
}

static void faults_are_refused(void** state) {
    (void)state;
    refuse("<frame childclass='no'><geom size='1'/></frame>", NS_ERR_PARSE,
           "<frame>: there is no default class \"no\"");
    refuse("<body><frame><inertial mass='1' diaginertia='1 1 1'/></frame></body>", NS_ERR_PARSE,
           "must be directly in a <body>");
    refuse("<frame quat='0 0 0 0'><geom size='1'/></frame>", NS_ERR_PARSE,
           "quat gives no rotation");
    refuse("<replicate/>", NS_ERR_PARSE, "the attribute count is missing");
    refuse("<replicate count='0'/>", NS_ERR_PARSE, "count must be an integer");
    refuse("<replicate count='1.5'/>", NS_ERR_PARSE, "count must be an integer");
    refuse("<replicate count='2' sep='123456789012345678901'/>", NS_ERR_PARSE, "sep is longer");
    refuse("<replicate count='200000'><geom size='1'/><site/></replicate>", NS_ERR_LIMIT,
           "more than 250000 elements, copies included");
    refuse("<replicate count='1000'><replicate count='1000'><body/></replicate></replicate>",
           NS_ERR_LIMIT, "more than 250000 elements, copies included");
}

static void many_replicates_are_refused(void** state) {
    (void)state;
    enum { MANY = 1001, SIZE = 100 * 1000 };
    char* text = malloc(SIZE);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "<mujoco><worldbody>");
    for (int k = 0; k < MANY; k++) at += (size_t)sprintf(text + at, "<replicate count='1'/>");
    sprintf(text + at, "</worldbody></mujoco>");
    const char* message = modelfile_error(text, NS_ERR_LIMIT);
    if (!strstr(message, "<replicate>: there are more than 1000")) fail_msg("%s", message);
    free(text);
}

static void empty_ones_are_nothing(void** state) {
    (void)state;
    ns_model* model = parse_world("<frame/><body name='a'><joint/><frame><frame/></frame>" BALL
                                  "<replicate count='3'/></body><frame/><body name='b'/>");
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    ns_model_free(model);
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    modelfile_fail_allocations(
        "<mujoco><worldbody><frame pos='1 0 0'><replicate count='2'><body name='a'><joint "
        "name='j'/>"
        "<geom size='1' rgba=''/></body></replicate></frame></worldbody><actuator>"
        "<motor joint='j'/></actuator></mujoco>");
}

// Each replicate looks at the elements that might refer to what it copies: 1000 of them at 5000.
static void work_is_bounded(void** state) {
    (void)state;
    enum { REPLICATES = 1000, SENSORS = 5000 };
    char* text = malloc(REPLICATES * 70 + SENSORS * 40 + 200);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "<mujoco><worldbody>");
    for (int k = 0; k < REPLICATES; k++) {
        at += (size_t)sprintf(text + at, "<replicate count='1'><site name='s%d'/></replicate>", k);
    }
    at += (size_t)sprintf(text + at, "</worldbody><sensor>");
    for (int k = 0; k < SENSORS; k++) {
        at += (size_t)sprintf(text + at, "<gyro name='g%d' site='q'/>", k);
    }
    sprintf(text + at, "</sensor></mujoco>");
    const char* message = modelfile_error(text, NS_ERR_LIMIT);
    if (!strstr(message, "too many replicates together with elements")) fail_msg("%s", message);
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_move_what_they_hold),
        cmocka_unit_test(copies_have_numbers),
        cmocka_unit_test(faults_are_refused),
        cmocka_unit_test(many_replicates_are_refused),
        cmocka_unit_test(empty_ones_are_nothing),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(work_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
