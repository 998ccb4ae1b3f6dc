// Pairs of a builder: names, what is refused, too many of them; memory that runs out.

#include "model/model_data.h"
#include "model/pairs_rig.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>

// ---- names -------------------------------------------------------------------------------------

static void names_may_be_long(void** state) {
    (void)state;
    char a[NSI_MODEL_MAX_NAME + 1] = "", b[NSI_MODEL_MAX_NAME + 1] = "";
    memset(a, 'a', NSI_MODEL_MAX_NAME);
    memset(b, 'b', NSI_MODEL_MAX_NAME);
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        ns_model_builder* builder = new_builder();
        add_link(builder, "l", NULL, NS_JOINT_FLOATING, 1.0);
        add_shape(builder, NS_GEOM_SPHERE, a, "l");
        add_shape(builder, NS_GEOM_PLANE, b, NULL);
        if (by_hand) add_pair(builder, a, b);
        ns_model* model = finish(builder);
        const char* name = ns_model_contact(model, 0)->name;
        assert_int_equal(strlen(name), NSI_PAIR_MAX_NAME);
        assert_true(name[199] == 'a' && name[200] == ':' && name[201] == 'b');
        const ns_param* last = ns_model_param(model, ns_model_get_sizes(model).nparam - 1);
        assert_memory_equal(last->name + 8 + NSI_PAIR_MAX_NAME, "/baumgarte_alpha", 17);
        ns_model_free(model);
    }
}

static void two_pairs_cannot_have_one_name(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    add_link(builder, "l", NULL, NS_JOINT_FLOATING, 1.0);
    add_shape(builder, NS_GEOM_SPHERE, "a", "l");
    add_shape(builder, NS_GEOM_PLANE, "b:c", NULL);
    add_shape(builder, NS_GEOM_SPHERE, "a:b", "l");
    add_shape(builder, NS_GEOM_PLANE, "c", NULL);
    ns_model* model = NULL;
    ns_error error;
    assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "pair \"a:b:c\": another pair has this name"));
    ns_model_builder_free(builder);
}

// ---- what is refused ---------------------------------------------------------------------------

typedef struct bad_contact {
    const char* fragment; // of the message
    void (*spoil)(ns_contact_def*);
} bad_contact;

#define SPOIL(name, statement)                                                                     \
    static void name(ns_contact_def* c) {                                                          \
        statement;                                                                                 \
    }

SPOIL(no_a, c->a = NULL)
SPOIL(unknown_b, c->b = "nobody")
SPOIL(empty_name, c->name = "")
SPOIL(taken_name, c->name = "taken")
SPOIL(same_geom, c->b = "s")
SPOIL(same_body, c->b = "s2")
SPOIL(both_world, c->a = "step")
SPOIL(drawn, c->a = "drawn")
SPOIL(not_handled, (c->a = "tin", c->b = "step"))
SPOIL(taken_pair, (c->a = "p", c->b = "s3"))
SPOIL(bad_model, c->model = 7)
SPOIL(bad_mu, c->mu = -0.5)
SPOIL(nan_mu, c->mu = NAN)
SPOIL(bad_torsion, c->mu_torsion = -0.5)
SPOIL(nan_rolling, c->mu_rolling = NAN)
SPOIL(bad_restitution, c->restitution = 1.5)
SPOIL(bad_alpha, c->baumgarte_alpha = -1.0)
SPOIL(bad_beta, c->baumgarte_beta = 2.0)
SPOIL(bad_push, c->max_push = -1.0)
SPOIL(bad_cfm, c->cfm = -1.0)
SPOIL(bad_margin, c->margin = INFINITY)
SPOIL(bad_stiffness, c->stiffness = -2.0)
SPOIL(bad_damping, c->damping = -2.0)
SPOIL(bad_exponent, c->exponent = 0.5)
SPOIL(bad_mu_static, c->mu_static = -2.0)
SPOIL(bad_transition, c->transition_velocity = 0.0)
SPOIL(bad_depth, c->max_depth = 0.0)

static void bad_pairs_are_named(void** state) {
    (void)state;
    static const bad_contact cases[] = {
        {"pair \"\": a names no earlier geometry \"\"", no_a},
        {"pair \"\": b names no earlier geometry \"nobody\"", unknown_b},
        {"the name is empty", empty_name},
        {"pair \"taken\": another pair has this name", taken_name},
        {"pair \"s:s\": it is on one body", same_geom},
        {"pair \"s:s2\": it is on one body", same_body},
        {"both of its geometries are fixed to the world", both_world},
        {"not for contact (collision is false)", drawn},
        {"pair \"tin:step\": it is of shapes whose contact is not handled", not_handled},
        {"it has the geometries of another pair", taken_pair},
        {"model", bad_model},
        {"pair \"s:p\": mu must be zero or positive", bad_mu},
        {"mu must be finite", nan_mu},
        {"pair \"s:p\": mu_torsion must be zero or positive", bad_torsion},
        {"mu_rolling must be finite", nan_rolling},
        {"restitution must be between 0 and 1", bad_restitution},
        {"baumgarte_alpha must be between 0 and 1", bad_alpha},
        {"baumgarte_beta must be between 0 and 1", bad_beta},
        {"max_push must be zero or positive", bad_push},
        {"cfm must be zero or positive", bad_cfm},
        {"margin must be finite", bad_margin},
        {"stiffness must be zero or positive", bad_stiffness},
        {"damping must be zero or positive", bad_damping},
        {"exponent must be 1 or more", bad_exponent},
        {"mu_static must be zero or positive", bad_mu_static},
        {"transition_velocity must be positive", bad_transition},
        {"max_depth must be positive", bad_depth},
    };
    ns_model_builder* builder = new_builder();
    add_link(builder, "l", NULL, NS_JOINT_FLOATING, 1.0);
    add_shape(builder, NS_GEOM_PLANE, "p", NULL);
    add_shape(builder, NS_GEOM_BOX, "step", NULL);
    add_shape(builder, NS_GEOM_SPHERE, "s", "l");
    add_shape(builder, NS_GEOM_SPHERE, "s2", "l");
    add_shape(builder, NS_GEOM_SPHERE, "s3", "l");
    add_shape(builder, NS_GEOM_ELLIPSE, "tin", "l");
    ns_geom_def geom = geom_of(NS_GEOM_SPHERE, "drawn", "l");
    geom.collision = false;
    add_geom(builder, &geom);
    ns_contact_def taken = ns_default_contact_def();
    taken.name = "taken", taken.a = "s3", taken.b = "p";
    assert_int_equal(ns_model_builder_add_contact(builder, &taken, NULL), NS_OK);

    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_contact_def contact = ns_default_contact_def();
        contact.a = "s", contact.b = "p";
        cases[k].spoil(&contact);
        ns_error error = {0};
        assert_int_equal(ns_model_builder_add_contact(builder, &contact, &error), NS_ERR_ARGUMENT);
        assert_says(error.message, cases[k].fragment);
    }
    ns_error error;
    assert_int_equal(ns_model_builder_exclude_contact(builder, "l", "nobody", &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "link_b names no earlier link \"nobody\""));
    assert_int_equal(ns_model_builder_exclude_contact(NULL, "l", "l", NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_add_contact(builder, NULL, NULL), NS_ERR_ARGUMENT);
    char name[NSI_MODEL_MAX_NAME + 2] = "";
    memset(name, 'n', NSI_MODEL_MAX_NAME + 1);
    taken.name = name;
    assert_int_equal(ns_model_builder_add_contact(builder, &taken, NULL), NS_ERR_LIMIT);
    ns_model* model = finish(builder); // none of them left a trace
    EXPECT_PAIRS(model, "taken", "s:p", "s:step", "s2:p", "s2:step", "s3:step", "tin:p");
    ns_model_free(model);
}

static void there_can_be_too_many(void** state) {
    (void)state;
    // 91 balls in the air: 91 90 / 2 = 4095 pairs; one more is too many.
    for (int more = 0; more < 2; more++) {
        ns_model_builder* builder = new_builder();
        char name[20];
        for (int i = 0; i < 181 + more; i++) {
            snprintf(name, sizeof name, "l%d", i);
            add_link(builder, name, NULL, NS_JOINT_FLOATING, 1.0);
            add_shape(builder, NS_GEOM_SPHERE, NULL, name);
        }
        if (!more) {
            ns_model* model = finish(builder);
            assert_int_equal(ns_model_get_sizes(model).ncontact, 16290);
            ns_model_free(model);
            continue;
        }
        ns_model* model = NULL;
        ns_error error;
        assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_ERR_LIMIT);
        assert_non_null(strstr(error.message, "more than 16384 pairs"));
        assert_non_null(strstr(error.message, "groups"));
        assert_null(model);
        ns_model_builder_free(builder);
    }
}

// Very many geometries do not take for ever.
static void many_geometries_are_quick_or_refused(void** state) {
    (void)state;
    for (int moving = 0; moving < 2; moving++) {
        ns_model_builder* builder = new_builder();
        add_link(builder, "l", NULL, NS_JOINT_FLOATING, 1.0);
        for (int i = 0; i < 20000; i++) {
            ns_geom_def geom = geom_of(NS_GEOM_SPHERE, NULL, moving ? "l" : NULL);
            add_geom(builder, &geom);
        }
        ns_model* model = NULL;
        ns_error error;
        ns_status status = ns_model_builder_finish(builder, &model, &error);
        assert_int_equal(status, moving ? NS_ERR_LIMIT : NS_OK);
        if (moving) assert_non_null(strstr(error.message, "too many to look for pairs"));
        ns_model_free(model);
        ns_model_builder_free(builder);
    }
}

// ---- memory ------------------------------------------------------------------------------------

static ns_status build(const ns_allocator* allocator, ns_model** out, ns_error* error) {
    ns_model_builder* builder = NULL;
    ns_status status = ns_model_builder_create(allocator, &builder, error);
    if (status != NS_OK) return status;
    char name[20];
    for (int i = 0; i < 12 && status == NS_OK; i++) {
        ns_link_def link = ns_default_link_def();
        snprintf(name, sizeof name, "l%d", i);
        link.name = name;
        link.joint_type = NS_JOINT_PRISMATIC;
        link.mass = 1.0;
        status = ns_model_builder_add_link(builder, &link, error);
        ns_geom_def geom = geom_of(i % 3 == 0   ? NS_GEOM_MESH
                                   : i % 3 == 1 ? NS_GEOM_CYLINDER
                                                : NS_GEOM_POLYGON,
                                   name, name);
        if (status == NS_OK) status = ns_model_builder_add_geom(builder, &geom, error);
        if (status == NS_OK && i > 0) {
            status = ns_model_builder_exclude_contact(builder, "l0", name, error);
        }
    }
    ns_geom_def plane = geom_of(NS_GEOM_PLANE, "p", NULL);
    if (status == NS_OK) status = ns_model_builder_add_geom(builder, &plane, error);
    for (int i = 0; i < 10 && status == NS_OK; i++) {
        ns_contact_def contact = ns_default_contact_def();
        snprintf(name, sizeof name, "l%d", i);
        contact.a = name, contact.b = "p";
        status = ns_model_builder_add_contact(builder, &contact, error);
    }
    if (status == NS_OK) status = ns_model_builder_finish(builder, out, error);
    ns_model_builder_free(builder);
    return status;
}

static void check_pairs(const ns_model* model) {
    assert_true(ns_model_get_sizes(model).ncontact > 12);
    assert_true(ns_model_get_sizes(model).nignored > 0);
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    fail_each_allocation(build, check_pairs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_may_be_long),
        cmocka_unit_test(two_pairs_cannot_have_one_name),
        cmocka_unit_test(bad_pairs_are_named),
        cmocka_unit_test(there_can_be_too_many),
        cmocka_unit_test(many_geometries_are_quick_or_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
