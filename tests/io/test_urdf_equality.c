// Equality constraints in URDF (an extension of this library): what is read, and messages for mistakes.

#include "support/assert.h"
#include "support/modelfile.h"

#include <stdio.h>
#include <string.h>

#define LINKS                                                                                      \
    "<link name='world'/>"                                                                         \
    "<link name='a'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' "          \
    "ixz='0' iyz='0'/></inertial></link>"                                                          \
    "<link name='b'><inertial><mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' "          \
    "ixz='0' iyz='0'/></inertial></link>"                                                          \
    "<joint name='x' type='continuous'><parent link='world'/><child link='a'/></joint>"            \
    "<joint name='y' type='continuous'><parent link='world'/><child link='b'/>"                    \
    "<origin xyz='1 2 0' rpy='0 0 1.5707963267948966'/></joint>\n"

static void constraints_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<robot name='r'>" LINKS
        "<equality name='loop' type='connect' recovery='0.25'><link1 link='a'>"
        "<origin xyz='1 3 0.5'/></link1><link2 link='b'/></equality>"
        "<equality type='weld' active='false'><link1 link='a'/><link2 link='world'>"
        "<origin xyz='4 5 6'/></link2></equality>"
        "<equality type='joint' coefficients='0.1 -2'><joint1 joint='x'/><joint2 joint='y'/>"
        "</equality></robot>");
    assert_int_equal(ns_model_get_sizes(model).nequality, 3);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);

    // The point (1, 3, 0.5) in b's frame, turned by 90 degrees at (1, 2, 0).
    const ns_equality_def* e = ns_model_equality(model, 0);
    const double given[3] = {1.0, 3.0, 0.5}, computed[3] = {1.0, 0.0, 0.5}, world[3] = {4, 5, 6};
    assert_int_equal(e->type, NS_EQUALITY_CONNECT);
    assert_string_equal(e->name, "loop");
    all_close(e->anchor_a.position, given, 3, 0.0);
    all_close(e->anchor_b.position, computed, 3, 1e-15);
    close_to("recovery", e->recovery, 0.25, 0.0);

    e = ns_model_equality(model, 1);
    assert_int_equal(e->type, NS_EQUALITY_WELD);
    assert_true(e->inactive);
    all_close(e->anchor_a.position, world, 3, 1e-15);

    e = ns_model_equality(model, 2);
    const double coefficients[5] = {0.1, -2.0, 0.0, 0.0, 0.0};
    assert_int_equal(e->type, NS_EQUALITY_JOINT);
    assert_string_equal(e->a, "x");
    assert_string_equal(e->b, "y");
    all_close(e->coefficients, coefficients, 5, 0.0);
    ns_model_free(model);
}

static void what_is_wrong_is_said(void** state) {
    (void)state;
    static const struct {
        const char *equality, *message;
    } errors[] = {
        {"<equality/>", "type"},
        {"<equality type='hinge'/>", "there are joint, connect, weld"},
        {"<equality type='connect'/>", "there is no <link1>"},
        {"<equality type='joint'><link1 link='a'/></equality>", "there is no <joint1>"},
        {"<equality type='connect'><link1/></equality>", "link"},
        {"<equality type='connect'><link1 link='c'/></equality>", "no earlier link \"c\""},
        {"<equality type='weld' active='no'><link1 link='a'/></equality>", "active must be"},
        {"<equality type='weld' recovery='-1'><link1 link='a'/></equality>", "recovery"},
        {"<equality type='joint'><joint1 joint='x'/><joint2 joint='x'/></equality>", "by itself"},
    };
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        char text[3000];
        snprintf(text, sizeof text, "<robot name='r'>" LINKS "%s</robot>", errors[k].equality);
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status = ns_model_parse(text, strlen(text), "loop.urdf", NULL, &model, &error);
        assert_int_not_equal(status, NS_OK);
        assert_says(error.message, errors[k].message);
        assert_says(error.message, "loop.urdf:2");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constraints_are_read),
        cmocka_unit_test(what_is_wrong_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
