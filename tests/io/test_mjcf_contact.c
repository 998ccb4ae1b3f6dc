// Contact of MJCF files: pairs, their numbers, outlines of plates, what is not represented.

#define _XOPEN_SOURCE 700 // setenv

#include "io/mjcf_contact_rig.h"
#include "io/mjcf_rig.h"
#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"

#include <stdio.h>

// Two free balls a and b, and a floor; `ball` is for a, `rest` comes after the bodies.
static ns_model* parse_balls(const char* top, const char* ball, const char* rest) {
    char text[4000];
    snprintf(text, sizeof text,
             "<mujoco>%s<worldbody><geom name='floor' type='plane' size='1 1 1' friction='0.2'/>"
             "<body name='A'><freejoint/><geom name='a' size='0.1' %s/></body>"
             "<body name='B'><freejoint/><geom name='b' size='0.1' friction='0.4'/></body>"
             "</worldbody>%s</mujoco>",
             top, ball, rest);
    return modelfile_parse(text);
}

static void contype_and_conaffinity_are_groups(void** state) {
    (void)state;
    static const struct {
        const char *attributes, *pairs;
    } cases[] = {
        {"", "a:floor b:floor b:a"},
        {"contype='0'", "a:floor b:floor b:a"}, // either side is enough
        {"contype='2' conaffinity='2'", "b:floor"},
        {"contype='2' conaffinity='1'", "a:floor b:floor b:a"},
        {"contype='0' conaffinity='0'", "b:floor"},
        {"contype='-1' conaffinity='0'", "a:floor b:floor b:a"}, // all bits
        {"contype='4294967295' conaffinity='0'", "a:floor b:floor b:a"},
        {"contype='4294967294' conaffinity='0'", "b:floor"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = parse_balls("", cases[k].attributes, "");
        expect_pairs(model, cases[k].pairs);
        assert_int_equal(ns_model_get_sizes(model).nignored, 0);
        ns_model_free(model);
    }
    // By default, and by the default of a class.
    ns_model* model = parse_balls("<default><geom contype='2'/><default class='c'>"
                                  "<geom conaffinity='2' friction='0.9' condim='4'/></default>"
                                  "</default>",
                                  "class='c'", "");
    expect_pairs(model, "a:floor b:a");
    assert_int_equal(ns_model_geom(model, 1)->groups, 2);
    assert_int_equal(ns_model_geom(model, 1)->touches, 2);
    assert_true(ns_model_contact(model, 0)->mu == 0.9);
    assert_int_equal(ns_model_geom(model, 1)->condim, 4);
    assert_true(ns_model_contact(model, 0)->mu_torsion == 0.005); // MuJoCo's default
    assert_true(ns_model_contact(model, 0)->mu_rolling == 0.0);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);

    model = parse_balls("<option><flag contact='disable'/></option>", "condim='6'",
                        "<contact><pair geom1='a' geom2='b'/><exclude body1='A' body2='B'/>"
                        "</contact>");
    expect_pairs(model, "");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

static void condim_one_is_smooth(void** state) {
    (void)state;
    // MuJoCo's rule: the larger condim, and the larger friction whosever it is.
    ns_model* model = parse_balls("", "condim='1' friction='3'", "");
    assert_true(ns_model_contact(model, 0)->mu == 3.0);
    assert_true(ns_model_contact(model, 1)->mu == 0.4);
    assert_true(ns_model_contact(model, 2)->mu == 3.0);
    assert_true(ns_model_geom(model, 1)->friction[0] == 3.0);
    ns_model_free(model);
    model = parse_balls("<default><geom condim='1'/></default>", "condim='3' friction='0.7'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.7);
    assert_true(ns_model_contact(model, 1)->mu == 0.0); // both are smooth
    ns_model_free(model);
}

static void condim_adds_torsion_and_rolling(void** state) {
    (void)state;
    // Of equal priority the larger condim and the larger numbers, whosever they are; the floor has 0.2.
    ns_model* model = parse_balls("", "condim='6' friction='0.1 0.2 0.3'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.2);
    assert_true(ns_model_contact(model, 0)->mu_torsion == 0.2);
    assert_true(ns_model_contact(model, 0)->mu_rolling == 0.3);
    assert_true(ns_model_contact(model, 1)->mu_torsion == 0.0);
    assert_true(ns_model_contact(model, 1)->mu_rolling == 0.0);
    uint32_t torsion = ns_model_find_param(model, "contact/a:floor/mu_torsion");
    assert_true(ns_model_param(model, torsion)->value == 0.2);
    assert_string_equal(ns_model_param(model, torsion)->unit, "m");
    ns_model_free(model);

    // Of a pair, its own: sliding twice, torsion, rolling twice.
    model = parse_balls("", "condim='6'",
                        "<contact><pair geom1='a' geom2='b' condim='6' friction='1 1 .1 .02 .02'/>"
                        "<pair geom1='a' geom2='floor' condim='4'/>"
                        "<pair geom1='b' geom2='floor' condim='6' friction='1 1 .1 .02 .03'/>"
                        "</contact>");
    assert_true(ns_model_contact(model, 0)->mu_torsion == 0.1);
    assert_true(ns_model_contact(model, 0)->mu_rolling == 0.02);
    assert_true(ns_model_contact(model, 1)->mu_torsion == 0.005);
    assert_true(ns_model_contact(model, 1)->mu_rolling == 0.0);
    assert_true(modelfile_notes(model, "<pair> has different friction in two directions"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 1); // the third
    ns_model_free(model);
    const char* message = modelfile_error(
        "<mujoco><worldbody><body><freejoint/><geom name='a' size='1'/></body><geom name='b' "
        "type='plane' size='1 1 1'/></worldbody><contact><pair geom1='a' geom2='b' friction='1 1 "
        "-1'/></contact></mujoco>",
        NS_ERR_PARSE);
    assert_non_null(strstr(message, "friction is negative"));
}

static void the_higher_priority_decides_friction(void** state) {
    (void)state;
    ns_model* model = parse_balls("", "priority='1' friction='0.1'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.1);
    assert_true(ns_model_contact(model, 1)->mu == 0.4);
    assert_true(ns_model_contact(model, 2)->mu == 0.1);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
    model = parse_balls("<default><geom priority='-1'/></default>", "priority='2' condim='1'", "");
    assert_true(ns_model_contact(model, 0)->mu == 0.0);
    assert_true(ns_model_contact(model, 1)->mu == 0.4);
    ns_model_free(model);
    const char* message = modelfile_error(
        "<mujoco><worldbody><geom size='1' priority='0.5'/></worldbody></mujoco>", NS_ERR_PARSE);
    assert_non_null(strstr(message, "priority must be an integer"));
}

static void a_pair_does_not_ask_its_geoms(void** state) {
    (void)state;
    ns_model* model = parse_balls("", "friction='0.1' condim='1'",
                                  "<contact><pair geom1='a' geom2='b'/></contact>");
    assert_true(ns_model_contact(model, 0)->mu == 1.0); // MuJoCo's default for pairs
    ns_model_free(model);
}

static void pyramids_are_noted(void** state) {
    (void)state;
    ns_model* model = parse_balls("<option cone='pyramidal'/>", "", "");
    assert_true(modelfile_notes(
        model,
        "cone: a pyramidal cone is ignored (--friction pyramid enables it); changes the motion"));
    ns_model_free(model);
    model = parse_balls("<option cone='elliptic'/>", "", "");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);
}

static void pairs_and_exclusions_are_read(void** state) {
    (void)state;
    ns_model* model =
        parse_balls("<default><pair friction='0.6'/><default class='slick'>"
                    "<pair condim='1'/></default></default>",
                    "contype='0' conaffinity='0'",
                    "<contact><pair name='q' geom1='a' geom2='b' friction='0.3 0.3 0.1'/>"
                    "<exclude name='e' body1='world' body2='B'/></contact>"
                    "<contact><pair geom1='floor' geom2='a' class='slick'/></contact>");
    expect_pairs(model, "q floor:a");
    assert_true(ns_model_geom(model, 1)->collision);
    assert_true(ns_model_contact(model, 0)->mu == 0.3);
    assert_true(ns_model_contact(model, 1)->mu == 0.0);
    assert_string_equal(ns_model_contact(model, 1)->a, "floor");
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    ns_model_free(model);

    model = parse_balls("", "", "<contact><exclude body1='A' body2='B'/></contact>");
    expect_pairs(model, "a:floor b:floor");
    ns_model_free(model);
}

static void softness_is_noted_once(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><default><geom solref='0.01 1'/><joint solimplimit='0 1 1'/></default><worldbody>"
        "<geom type='plane' size='1 1 1' margin='0' gap='0.0'/><body><joint margin='0'/><geom "
        "size='1' solimp='1 2 3'/><geom size='1' solref='2 1'/><geom size='1' solmix='3'/></body>"
        "</worldbody></mujoco>");
    assert_int_equal(ns_model_get_sizes(model).nignored, 2);
    assert_says(ns_model_ignored(model, 0),
                "has solref, solimp, solmix, as 3 other elements have, not represented");
    assert_says(ns_model_ignored(model, 1), "<joint> has ");
    assert_says(ns_model_ignored(model, 1), "has solimplimit, not represented: limits");
    ns_model_free(model);
}

static void robots_do_not_touch_themselves_if_told(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><worldbody><geom name='floor' type='plane' size='1 1 1'/>"
        "<body><freejoint/><geom name='a' size='.1'/><body><joint/><geom name='b' size='.1'/><body>"
        "<joint/><geom name='c' size='.1'/></body></body></body>"
        "<body><freejoint/><geom name='d' size='.1'/></body>"
        "</worldbody>%s</mujoco>";
    static const struct {
        const char *rest, *pairs;
        bool apart;
    } cases[] = {
        {"", "a:floor b:floor c:floor c:a d:floor d:a d:b d:c", false},
        {"", "a:floor b:floor c:floor d:floor d:a d:b d:c", true},
        {"<contact><pair geom1='a' geom2='c'/></contact>", // given by hand
         "a:c a:floor b:floor c:floor d:floor d:a d:b d:c", true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char whole[1000];
        snprintf(whole, sizeof whole, text, cases[k].rest);
        ns_load_options options = {.no_self_collision = cases[k].apart};
        ns_model* model = NULL;
        ns_error error;
        must(ns_model_parse(whole, strlen(whole), "t", &options, &model, &error), &error);
        expect_pairs(model, cases[k].pairs);
        ns_model_free(model);
    }
}

static void what_contact_lacks_is_listed(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><geom name='floor' type='plane' size='1 1 1' solref='0.01 1'/>\n"
        "<geom name='hills' type='hfield' hfield='h'/><body name='A'><freejoint/>\n"
        "<geom name='a' size='0.1' solimp='0.9' margin='0.01' user='1'/>\n"
        "<geom name='a2' type='box' size='0.1 0.1 0.1' condim='6'/></body><body name='B'>\n"
        "<freejoint/><inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
        "<geom name='b' type='ellipse' size='0.1 0.1 0.1' condim='4'/></body></worldbody>\n"
        "<contact><pair geom1='a' geom2='hills'/>\n<pair geom1='a' geom2='b'/>\n"
        "<pair geom1='a' geom2='a2'/>\n<pair geom1='a' geom2='floor' friction='1 2' gap='1'/>\n"
        "</contact></mujoco>");
    static const char* const notes[] = {
        "line 3: <geom name=\"a\"> user: not represented",
        ("line 1: <geom name=\"floor\"> has solref, solimp, as 1 other element has, not "
         "represented: contact is rigid, or has springs of its own; changes the motion"),
        ("line 3: <geom name=\"a\"> has margin, gap, as 1 other element has, not represented: "
         "contact acts from distance 0 on; changes the motion"),
        "line 2: <geom name=\"hills\"> names a hfield that is not among the assets",
        ("line 2: <geom name=\"hills\"> is of type hfield, which is not represented; changes the "
         "motion where it touches something"),
        ("line 6: <pair> names the geom \"hills\", which is not represented; changes the motion"),
        ("line 7: <pair> is not represented: the pair is of shapes whose contact is not handled; "
         "changes the motion"),
        ("line 8: <pair> is not represented: the pair is on one body, or both of its geometries "
         "are fixed to the world; changes the motion"),
        ("line 9: <pair> has different friction in two directions; the first acts in both; "
         "changes the motion"),
        ("contact between sphere and ellipse geometries is not simulated (1 pair, b:a); changes "
         "the motion where they touch"),
        ("contact between box and ellipse geometries is not simulated (1 pair, b:a2); changes "
         "the motion where they touch"),
    };
    const uint32_t count = sizeof notes / sizeof *notes;
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(ns_model_ignored(model, i));
        assert_string_equal(ns_model_ignored(model, i), notes[i]);
    }
    assert_int_equal(ns_model_get_sizes(model).nignored, count);
    expect_pairs(model, "a:floor a2:floor b:floor");
    ns_model_free(model);
}

static void ground_is_added_on_demand(void** state) {
    (void)state;
    static const struct {
        const char *geoms, *pairs;
    } cases[] = {
        {"", "a:ground"},
        {"<geom type='plane' size='1 1 1'/>", "a:world_geom0"},
        {"<geom type='plane' size='1 1 1' contype='0' conaffinity='0'/>", "a:ground"}, // drawn only
        {"<geom name='ground' type='sphere' size='1'/>", "a:ground a:ground_"},
        {"<body name='weld'><geom name='tilted' type='plane' size='1 1 1'/></body>", "a:tilted"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[1000];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody>%s<body name='A'><freejoint/><geom name='a' size='0.1'/>"
                 "</body></worldbody></mujoco>",
                 cases[k].geoms);
        ns_load_options options = ns_default_load_options();
        options.ground = true;
        ns_model* model = NULL;
        assert_int_equal(ns_model_parse(text, strlen(text), "t", &options, &model, NULL), NS_OK);
        modelfile_check(model);
        expect_pairs(model, cases[k].pairs);
        ns_model_free(model);
    }
}

// A body with several joints does not touch the one that carries it, as in MuJoCo.
static void joints_in_a_row_are_one(void** state) {
    (void)state;
    ns_model* model = parse_world(
        "<body name='a'><freejoint/><geom name='x' size='0.1'/><body name='b'>"
        "<joint name='j'/><joint name='k' axis='0 1 0' pos='0.1 0 0'/><geom name='y' size='0.1'/>"
        "<body name='c'><joint name='l'/><geom name='z' size='0.1' pos='1 0 0'/></body>"
        "</body></body>");
    expect_pairs(model, "z:x");
    ns_model_free(model);
}

// As deep as a document may be.
static void long_chains_load(void** state) {
    (void)state;
    enum { LENGTH = 509 };
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    nsi_text_add(&b, "<mujoco><option><flag contact='disable'/></option><worldbody>");
    for (int i = 0; i < LENGTH; i++) {
        nsi_text_add(&b, "<body name='b%d'><joint name='j%d'/>" BALL, i, i);
    }
    for (int i = 0; i < LENGTH; i++) nsi_text_add(&b, "</body>");
    nsi_text_add(&b, "</worldbody></mujoco>");
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    ns_model* model = modelfile_parse(text.data);
    assert_int_equal(ns_model_get_sizes(model).nlink, LENGTH);
    assert_int_equal(ns_model_link_parent(model, LENGTH - 1), LENGTH - 2);
    ns_model_free(model);
    ns_text_free(&text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contype_and_conaffinity_are_groups),
        cmocka_unit_test(condim_one_is_smooth),
        cmocka_unit_test(condim_adds_torsion_and_rolling),
        cmocka_unit_test(the_higher_priority_decides_friction),
        cmocka_unit_test(a_pair_does_not_ask_its_geoms),
        cmocka_unit_test(pyramids_are_noted),
        cmocka_unit_test(pairs_and_exclusions_are_read),
        cmocka_unit_test(softness_is_noted_once),
        cmocka_unit_test(robots_do_not_touch_themselves_if_told),
        cmocka_unit_test(what_contact_lacks_is_listed),
        cmocka_unit_test(ground_is_added_on_demand),
        cmocka_unit_test(joints_in_a_row_are_one),
        cmocka_unit_test(long_chains_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
