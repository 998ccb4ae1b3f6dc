// What sites and tendons of MJCF files become.

#include "io/mjcf_rig.h"

#define FILE_WITH(tendons)                                                                         \
    "<mujoco><compiler angle='radian'/><default><tendon stiffness='4'/>"                           \
    "<site pos='0 0 1'/></default><worldbody><site name='w' quat='0 1 0 0'/><site/>"               \
    "<body name='a'><joint name='j' type='slide'/>" BALL "<site name='s' pos='1 2 3'/></body>"     \
    "</worldbody><tendon>" tendons "</tendon></mujoco>"

static void sites_and_tendons_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(FILE_WITH(
        "<fixed damping='0.3' range='-1 2' springlength='0.1 0.4'><joint joint='j' coef='-2'/>"
        "</fixed><spatial name='p' stiffness='5' frictionloss='0.2'><site site='w'/>"
        "<site site='s'/><pulley divisor='3'/><site site='w'/><site site='s'/></spatial>"));
    const ns_site_def* site = ns_model_site(model, 0);
    assert_true(site->pose.position[2] == 1.0 && site->pose.quaternion[1] == 1.0);
    assert_string_equal(ns_model_site(model, 1)->link, "a");
    all_close(ns_model_site(model, 1)->pose.position, (const double[]){1, 2, 3}, 3, 0.0);
    assert_true(modelfile_notes(model, "has no name, so that nothing can refer to it"));
    const ns_tendon_def* t = ns_model_tendon(model, 0);
    assert_string_equal(t->name, "tendon0");
    assert_true(t->stiffness == 4.0 && t->damping == 0.3 && t->rest == 0.1 && t->npart == 1);
    close_to("slack", t->slack, 0.3, 1e-15);
    assert_true(t->limited && t->lower == -1.0 && t->upper == 2.0 && t->parts[0].factor == -2.0);
    t = ns_model_tendon(model, 1);
    assert_true(t->stiffness == 5.0 && t->friction == 0.2 && t->npart == 5);
    assert_string_equal(t->parts[1].site, "s");
    assert_true(!t->parts[2].site && !t->parts[2].joint && t->parts[2].factor == 3.0);
    ns_model_free(model);
}

static void what_is_wrong_is_said(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        FILE_WITH("<spatial name='x'><site site='w'/><geom geom='g'/><site site='s'/></spatial>"));
    assert_true(modelfile_notes(model,
                                "<spatial name=\"x\"> is not represented: it wraps around geom "
                                "\"g\", which is not represented; changes the motion"));
    assert_int_equal(ns_model_get_sizes(model).ntendon, 0);
    ns_model_free(model);
    assert_says(modelfile_error(FILE_WITH("<fixed/>"), NS_ERR_PARSE), "it has no parts");
    assert_says(modelfile_error(FILE_WITH("<fixed><joint joint='x'/></fixed>"), NS_ERR_PARSE),
                "there is no joint \"x\"");
    assert_says(modelfile_error(FILE_WITH("<spatial><site/></spatial>"), NS_ERR_PARSE), "site");
    assert_says(modelfile_error(FILE_WITH("<fixed springlength='2 1'><joint joint='j'/></fixed>"),
                                NS_ERR_PARSE),
                "the first number must not exceed the second");
}

// Of two ends, with z from the first to the second.
static void sites_may_have_two_ends(void** state) {
    (void)state;
    ns_model* model = parse_world("<body name='a'><joint/>" BALL
                                  "<frame pos='0 0 1'><site name='s' fromto='1 0 0 1 4 0'/></frame>"
                                  "</body>");
    const ns_site_def* site = ns_model_site(model, 0);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    all_close(site->pose.position, (const double[]){1, 2, 1}, 3, 1e-15);
    double r[9];
    nsi_quat_to_matrix(site->pose.quaternion, r);
    all_close((const double[]){r[2], r[5], r[8]}, (const double[]){0, 1, 0}, 3, 1e-15);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_and_tendons_are_read),
        cmocka_unit_test(what_is_wrong_is_said),
        cmocka_unit_test(sites_may_have_two_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
