// Joints of URDF: floating bases, names that the file does not give, and the order of followers.

#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define INERTIAL                                                                                   \
    "<inertial><mass value='1'/><inertia ixx='0.1' iyy='0.1' izz='0.1' ixy='0' ixz='0' "           \
    "iyz='0'/></inertial>"
#define LINK(name) "<link name='" name "'>" INERTIAL "</link>"
#define JOINT(name, type, parent, child, more)                                                     \
    "<joint name='" name "' type='" type "'><parent link='" parent "'/><child link='" child        \
    "'/>" more "</joint>"

static ns_model* parse_floating(const char* text) {
    ns_load_options options = ns_default_load_options();
    options.floating_base = true;
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(text, strlen(text), "t", &options, &model, &error), &error);
    modelfile_check(model);
    return model;
}

// ---- floating base -----------------------------------------------------------------------------

static void the_root_floats_on_demand(void** state) {
    (void)state;
    static const char text[] =
        "<robot>" LINK("a") LINK("b") JOINT("j", "continuous", "a", "b", "") "</robot>";
    ns_model* model = modelfile_parse(text);
    assert_int_equal(ns_model_get_sizes(model).nv, 1);
    ns_model_free(model);
    model = parse_floating(text);
    assert_int_equal(ns_model_get_sizes(model).nv, 7);
    assert_int_equal(ns_model_link(model, 0)->joint_type, NS_JOINT_FLOATING);
    assert_string_equal(ns_model_link(model, 0)->joint, "a_joint");
    ns_model_free(model);

    // A root without mass floats with what is welded to it.
    model = parse_floating("<robot><link name='base'/>" LINK("a")
                               JOINT("j", "fixed", "base", "a", "") "</robot>");
    assert_int_equal(ns_model_get_sizes(model).nv, 6);
    ns_model_free(model);
}

// The one joint that welds the robot to a root link "world" becomes the floating one, with its origin
// as the start.
static void the_weld_to_the_world_floats_on_demand(void** state) {
    (void)state;
    ns_model* model = parse_floating("<robot><link name='world'/>" LINK("a") JOINT(
        "j", "fixed", "world", "a", "<origin xyz='1 2 3'/>") "</robot>");
    assert_int_equal(ns_model_get_sizes(model).nlink, 1);
    assert_int_equal(ns_model_link(model, 0)->joint_type, NS_JOINT_FLOATING);
    double q[7];
    ns_model_default_q(model, q);
    all_close(q, (const double[]){1, 2, 3, 1, 0, 0, 0}, 7, 0.0);
    ns_model_free(model);

    // What floats already stays as it is, under either kind of root.
    static const char* const roots[] = {"world", "map"};
    for (int k = 0; k < 2; k++) {
        char text[600];
        snprintf(
            text, sizeof text,
            "<robot><link name='%s'/>" LINK("a") "<joint name='j' type='floating'><parent "
                                                 "link='%s'/><child link='a'/></joint></robot>",
            roots[k], roots[k]);
        model = parse_floating(text);
        assert_int_equal(ns_model_get_sizes(model).nv, 6);
        ns_model_free(model);
    }
}

static void a_floating_base_may_be_impossible(void** state) {
    (void)state;
    static const struct {
        const char *text, *fragment;
    } cases[] = {
        {"<robot><link name='world'/>" LINK("a")
             JOINT("j", "continuous", "world", "a", "") "</robot>",
         "remove the link \"world\""},
        {"<robot><link name='world'/>" LINK("a") LINK("b") JOINT("j", "fixed", "world", "a", "")
             JOINT("k", "fixed", "world", "b", "") "</robot>",
         "remove the link \"world\""},
        {"<mujoco><worldbody><body><freejoint/><geom size='1'/></body></worldbody></mujoco>",
         "give the body a <freejoint/>"},
    };
    ns_load_options options = ns_default_load_options();
    options.floating_base = true;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = NULL;
        ns_error error = {0};
        assert_int_equal(
            ns_model_parse(cases[k].text, strlen(cases[k].text), "t", &options, &model, &error),
            NS_ERR_UNSUPPORTED);
        assert_non_null(strstr(error.message, cases[k].fragment));
    }
}

// ---- names -------------------------------------------------------------------------------------

// Names that are made up give way to those of the file, wherever these come.
static void invented_names_are_free(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot>" LINK("a") LINK("b") LINK("c") JOINT("a_joint", "continuous", "a", "b", "")
            JOINT("a_joint_", "continuous", "b", "c", "") "</robot>");
    assert_string_equal(ns_model_link(model, 0)->joint, "a_joint__");
    assert_string_equal(ns_model_link(model, 1)->joint, "a_joint");
    assert_string_equal(ns_model_link(model, 2)->joint, "a_joint_");
    ns_model_free(model);

    // Those of the parts of a planar joint, too.
    model = modelfile_parse("<robot><link name='world'/>" LINK("b") LINK("b_p_x") LINK("d") JOINT(
        "p", "planar", "world", "b", "") JOINT("p_y", "continuous", "b", "b_p_x", "")
                                JOINT("p_theta", "continuous", "b_p_x", "d", "") "</robot>");
    assert_string_equal(ns_model_link(model, 0)->joint, "p_x");
    assert_string_equal(ns_model_link(model, 0)->name, "b_p_x_");
    assert_string_equal(ns_model_link(model, 1)->joint, "p_y_");
    assert_string_equal(ns_model_link(model, 2)->joint, "p_theta_");
    assert_string_equal(ns_model_link(model, 3)->joint, "p_y");
    ns_model_free(model);
}

// ---- followers ---------------------------------------------------------------------------------

// A joint that follows a later one comes after it with all it carries; so do followers of followers.
static void followers_may_come_first(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot>" LINK("a") LINK("b") LINK("b2") LINK("c") LINK("d")
            JOINT("j", "prismatic", "a", "b", "<mimic joint='k' multiplier='2'/>")
                JOINT("j2", "continuous", "b", "b2", "")
                    JOINT("k", "prismatic", "a", "c", "<mimic joint='l' offset='0.5'/>")
                        JOINT("l", "prismatic", "a", "d", "") "</robot>");
    static const char* const joints[] = {"a_joint", "l", "k", "j", "j2"};
    for (uint32_t i = 0; i < 5; i++) {
        assert_string_equal(ns_model_link(model, i)->joint, joints[i]);
    }
    assert_int_equal(ns_model_get_sizes(model).nq, 2);
    const ns_link_def* j = ns_model_link(model, 3); // 2 (l + 0.5)
    assert_string_equal(j->mimic, "l");
    assert_true(j->mimic_multiplier == 2.0 && j->mimic_offset == 1.0);
    ns_model_free(model);
}

// A joint without mass of its own moves when one that follows it has some.
static void leaders_need_no_mass(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot>" LINK("a") "<link name='b'/>" LINK("c") JOINT("j", "continuous", "a", "b", "")
            JOINT("k", "continuous", "a", "c", "<mimic joint='j'/>") "</robot>");
    assert_int_equal(ns_model_get_sizes(model).nv, 1);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_floats_on_demand),
        cmocka_unit_test(the_weld_to_the_world_floats_on_demand),
        cmocka_unit_test(a_floating_base_may_be_impossible),
        cmocka_unit_test(invented_names_are_free),
        cmocka_unit_test(followers_may_come_first),
        cmocka_unit_test(leaders_need_no_mass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
