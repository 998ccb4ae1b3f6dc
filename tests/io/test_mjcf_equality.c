// Equality constraints of MJCF files: what is read, what is said of the rest.

#include "io/mjcf_rig.h"

#include <math.h>
#include <string.h>

static ns_model* parse_equality(const char* top, const char* equality) {
    char text[4000];
    snprintf(text, sizeof text,
             "<mujoco>%s<worldbody><body name='a'><joint name='x'/>" BALL
             "<body name='b' pos='1 0 0'><joint name='y' axis='0 1 0'/>" BALL "</body></body>"
             "<body name='c' pos='0 2 0' euler='0 0 90'><freejoint/>" BALL "</body></worldbody>"
             "<equality>%s</equality></mujoco>",
             top, equality);
    return modelfile_parse(text);
}

static void constraints_are_read(void** state) {
    (void)state;
    ns_model* model = parse_equality(
        "", "<joint joint1='x' joint2='y' polycoef='0.5 2' name='gear'/>"
            "<connect body1='a' body2='c' anchor='1 2 0'/>"
            "<weld body1='a' body2='b' active='false' solref='0.03 1'/>"
            "<weld body1='c' relpose='1 2 3 0 2 0 0' anchor='4 5 6' torquescale='3'/>");
    assert_int_equal(ns_model_get_sizes(model).nequality, 4);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    const ns_equality_def* e = ns_model_equality(model, 0);
    assert_int_equal(e->type, NS_EQUALITY_JOINT);
    assert_string_equal(e->name, "gear");
    assert_string_equal(e->a, "x");
    assert_string_equal(e->b, "y");
    const double coefficients[5] = {0.5, 2.0, 0.0, 0.0, 0.0};
    all_close(e->coefficients, coefficients, 5, 0.0);

    // The point (1, 2, 0) of a, in c's frame, which is turned by 90 degrees about z at (0, 2, 0).
    e = ns_model_equality(model, 1);
    assert_int_equal(e->type, NS_EQUALITY_CONNECT);
    assert_string_equal(e->name, "connect1");
    const double given[3] = {1.0, 2.0, 0.0}, other[3] = {0.0, -1.0, 0.0};
    all_close(e->anchor_a.position, given, 3, 0.0);
    all_close(e->anchor_b.position, other, 3, 1e-15);
    close_to("recovery", e->recovery, 0.0, 0.0);

    e = ns_model_equality(model, 2);
    assert_true(e->inactive);
    close_to("recovery", e->recovery, 0.03, 0.0);
    const double origin_of_b[3] = {1.0, 0.0, 0.0};
    all_close(e->anchor_a.position, origin_of_b, 3, 1e-15);

    // relpose is the anchor in body1, here that of c, of the world's anchor.
    e = ns_model_equality(model, 3);
    assert_null(e->b);
    const double relative[3] = {1.0, 2.0, 3.0}, anchor[3] = {4.0, 5.0, 6.0}, turn[4] = {0, 1, 0, 0};
    all_close(e->anchor_a.position, relative, 3, 0.0);
    all_close(e->anchor_b.position, anchor, 3, 0.0);
    all_close(e->anchor_a.quaternion, turn, 4, 0.0);
    ns_model_free(model);
}

static void defaults_and_stiffness_are_read(void** state) {
    (void)state;
    ns_model* model = parse_equality(
        "<default><equality solref='0.004 1'/><default class='off'><equality active='false'/>"
        "</default></default>",
        "<connect body1='a' body2='c' anchor='0 0 0'/>"
        "<connect class='off' body1='b' body2='c' anchor='0 0 0' solref='-200 -4'/>"
        "<connect body1='b' body2='c' anchor='1 0 0' solimp='0.8 0.9 0.01'/>"
        "<connect body1='b' body2='c' anchor='0 1 0' solimp='0.999 0.9999 0.01'/>");
    close_to("recovery", ns_model_equality(model, 0)->recovery, 0.004, 0.0);
    assert_false(ns_model_equality(model, 0)->inactive);
    close_to("recovery", ns_model_equality(model, 1)->recovery, 0.02, 1e-15); // damping / stiffness
    assert_true(ns_model_equality(model, 1)->inactive);
    assert_int_equal(ns_model_get_sizes(model).nignored, 1);
    assert_says(ns_model_ignored(model, 0), "the constraint is hard");
    ns_model_free(model);
}

static void what_cannot_be_is_said(void** state) {
    (void)state;
    static const struct {
        const char *equality, *message;
    } errors[] = {
        {"<joint/>", "joint1"},
        {"<joint joint1='z'/>", "there is no joint \"z\""},
        {"<joint joint1='x' joint2='z'/>", "there is no joint \"z\""},
        {"<connect body1='a'/>", "anchor is missing"},
        {"<connect body1='a' body2='d' anchor='0 0 0'/>", "there is no body \"d\""},
        {"<weld body2='a'/>", "body1"},
        {"<connect body1='a' anchor='0 0 0' solref='0.1 -1' name='n'/><weld name='n' body1='b'/>",
         "n"},
        {"<connect body1='a' anchor='0 0 0' solref='-1 1'/>", "solref must be"},
        {"<connect body1='a' anchor='0 0 0' active='perhaps'/>", "active"},
    };
    for (size_t k = 0; k < sizeof errors / sizeof *errors; k++) {
        char text[2000];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody><body name='a'><joint name='x'/>" BALL
                 "<body name='b'><joint name='y'/>" BALL "</body></body></worldbody>\n"
                 "<equality>%s</equality></mujoco>",
                 errors[k].equality);
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status = ns_model_parse(text, strlen(text), "loop.xml", NULL, &model, &error);
        assert_int_not_equal(status, NS_OK);
        assert_null(model);
        assert_says(error.message, errors[k].message);
        assert_says(error.message, "loop.xml:2");
    }

    // Constraints without effect are left out; those of tendons are not represented.
    ns_model* model = parse_equality("", "<weld body1='world' body2='world'/>"
                                         "<tendon tendon1='t'/><distance geom1='g' geom2='h'/>");
    assert_int_equal(ns_model_get_sizes(model).nequality, 0);
    assert_int_equal(ns_model_get_sizes(model).nignored, 3);
    assert_true(modelfile_notes(model, "<tendon> as a constraint is not represented; changes the"));
    assert_true(modelfile_notes(model, "<distance> as a constraint is not represented; changes"));
    ns_model_free(model);
}

// Sites are the anchors: what MuJoCo 3 has, and 2.2.2 has not.
static void sites_are_anchors(void** state) {
    (void)state;
#define TWO(equality)                                                                              \
    "<mujoco><worldbody><site name='w' pos='1 2 3' quat='0 1 0 0'/><body name='a' pos='0 0 1'>"    \
    "<freejoint/><geom size='0.1'/><site name='s' pos='0.1 0.2 0.3' quat='0.8 0 0.6 0'/></body>"   \
    "</worldbody><equality>" equality "</equality></mujoco>"
    ns_model* model =
        modelfile_parse(TWO("<connect site1='s' site2='w'/><weld site1='w' site2='s'/>"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    const ns_equality_def* e = ns_model_equality(model, 0);
    assert_int_equal(e->type, NS_EQUALITY_CONNECT);
    assert_string_equal(e->a, "a");
    all_close(e->anchor_a.position, (const double[]){0.1, 0.2, 0.3}, 3, 0.0);
    all_close(e->anchor_b.position, (const double[]){1, 2, 3}, 3, 0.0);
    e = ns_model_equality(model, 1);
    assert_int_equal(e->type, NS_EQUALITY_WELD);
    assert_string_equal(e->b, "a");
    all_close(e->anchor_a.quaternion, (const double[]){0, 1, 0, 0}, 4, 0.0);
    all_close(e->anchor_b.quaternion, (const double[]){0.8, 0, 0.6, 0}, 4, 1e-15);
    ns_model_free(model);
    assert_says(modelfile_error(TWO("<weld site1='s'/>"), NS_ERR_PARSE), "site2 is missing");
    assert_says(modelfile_error(TWO("<weld site1='s' site2='x'/>"), NS_ERR_PARSE),
                "there is no site \"x\"");
    assert_says(modelfile_error(TWO("<weld site1='s' site2='w' body1='a'/>"), NS_ERR_PARSE),
                "has both bodies and sites");
#undef TWO
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constraints_are_read),
        cmocka_unit_test(defaults_and_stiffness_are_read),
        cmocka_unit_test(what_cannot_be_is_said),
        cmocka_unit_test(sites_are_anchors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
