// Links of a builder: coordinates, mimic joints, limits, and what is refused.

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"

#include <math.h>

static void coordinates_follow_the_links(void** state) {
    (void)state;
    static const ns_joint_type types[] = {NS_JOINT_FLOATING, NS_JOINT_REVOLUTE, NS_JOINT_FIXED,
                                          NS_JOINT_SPHERICAL, NS_JOINT_PRISMATIC};
    static const uint32_t q[] = {0, 7, UINT32_MAX, 8, 12}, v[] = {0, 6, UINT32_MAX, 7, 10};
    static const char* const names[] = {"a", "b", "c", "d", "e"};
    ns_model_builder* builder = new_builder();
    for (uint32_t i = 0; i < 5; i++) {
        ns_link_def link = rod(names[i], i > 0 ? names[i - 1] : "world");
        link.joint_type = types[i];
        link.inertia[2] = 0.01;
        link.origin.position[0] = 0.1 * i + 0.3;
        link.origin.quaternion[0] = 0.6;
        link.origin.quaternion[2] = 0.8;
        add(builder, &link);
    }
    ns_model* model = finish(builder);
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(ns_model_joint_q(model, i), q[i]);
        assert_int_equal(ns_model_joint_v(model, i), v[i]);
        assert_int_equal(ns_model_link_parent(model, i), i > 0 ? i - 1 : UINT32_MAX);
    }
    assert_int_equal(ns_model_get_sizes(model).nq, 13);
    assert_int_equal(ns_model_get_sizes(model).nv, 11);
    // Only the revolute and prismatic joints have the axis that was given.
    assert_true(ns_model_link(model, 1)->axis[1] == 1.0);
    assert_true(ns_model_link(model, 3)->axis[2] == 1.0);

    double start[13];
    for (int i = 0; i < 13; i++) start[i] = 99.0;
    ns_model_default_q(model, start);
    const double expected[13] = {0.3, 0, 0, 0.6, 0, 0.8, 0, 0, 1, 0, 0, 0, 0};
    for (int i = 0; i < 13; i++) assert_true(start[i] == expected[i]);
    ns_model_free(model);
}

static void followers_have_no_coordinate(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("leader", NULL);
    link.joint = "lead";
    add(builder, &link);
    link = rod("follower", NULL);
    link.mimic = "lead";
    link.mimic_multiplier = -2.0;
    link.mimic_offset = 0.5;
    add(builder, &link);
    // Following a follower is following its leader.
    link = rod("third", "follower");
    link.joint_type = NS_JOINT_PRISMATIC;
    link.mimic = "follower_joint";
    link.mimic_multiplier = 3.0;
    link.mimic_offset = 0.25;
    add(builder, &link);
    link = rod("last", "third");
    add(builder, &link);
    ns_model* model = finish(builder);
    assert_true(model->has_mimic);
    assert_int_equal(ns_model_get_sizes(model).nq, 2);
    assert_int_equal(ns_model_joint_q(model, 1), UINT32_MAX);
    assert_int_equal(ns_model_joint_q(model, 3), 1);
    assert_int_equal(model->links[1].mimic, 0);
    assert_int_equal(model->links[2].mimic, 0);
    assert_int_equal(model->links[2].q, 0);
    assert_string_equal(ns_model_link(model, 2)->mimic, "lead");
    assert_true(ns_model_link(model, 2)->mimic_multiplier == -6.0);
    assert_true(ns_model_link(model, 2)->mimic_offset == 3.0 * 0.5 + 0.25);
    ns_model_free(model);
}

// A point mass of 2 kg half a metre from its hinge: the inertia that resists is 0.5 kg m^2.
static void limits_left_open_suit_the_inertia(void** state) {
    (void)state;
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    ns_world_def world = ns_default_world_def();
    world.timestep = 0.002; // w = 0.2 / dt = 100 rad/s
    assert_int_equal(ns_model_builder_set_world(builder, &world, NULL), NS_OK);
    ns_link_def link = ns_default_link_def();
    link.name = "rod";
    link.joint_type = NS_JOINT_REVOLUTE;
    link.mass = 2.0;
    link.com[0] = 0.5;
    link.limited = true;
    link.lower = -1.0;
    link.upper = 1.0;
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_OK);
    const ns_link_def* held = ns_model_link(model, 0);
    assert_true(fabs(held->limit_stiffness - 0.5 * 100.0 * 100.0) < 1e-9);
    assert_true(fabs(held->limit_damping - 2.0 * 0.5 * 100.0) < 1e-9);
    const ns_param* param =
        ns_model_param(model, ns_model_find_param(model, "joint/rod_joint/limit_damping"));
    assert_true(param->value == held->limit_damping && param->transform == NS_TRANSFORM_LOG);
    assert_int_equal(ns_model_find_link(model, "rod"), 0);
    assert_int_equal(ns_model_find_joint(model, "rod_joint"), 0);
    assert_int_equal(ns_model_find_joint(model, "rod"), UINT32_MAX);
    ns_model_free(model);
    ns_model_builder_free(builder);
}

// Spoil a good link and see which field is named.
typedef struct bad_link {
    const char* fragment; // of the message
    void (*spoil)(ns_link_def*);
} bad_link;

#define SPOIL(name, statement)                                                                     \
    static void name(ns_link_def* link) {                                                          \
        statement;                                                                                 \
    }

SPOIL(no_name, link->name = NULL)
SPOIL(empty_name, link->name = "")
SPOIL(world_name, link->name = "world")
SPOIL(same_name, link->name = "base")
SPOIL(same_joint, link->joint = "base_joint")
SPOIL(control_name, link->name = "a\nb")
SPOIL(no_parent, link->parent = "nobody")
SPOIL(own_parent, link->parent = "new")
SPOIL(negative_mass, link->mass = -1.0)
SPOIL(infinite_mass, link->mass = INFINITY)
SPOIL(nan_com, link->com[1] = NAN)
SPOIL(nan_inertia, link->inertia[4] = NAN)
SPOIL(negative_inertia, link->inertia[0] = -0.02)
SPOIL(triangle, link->inertia[2] = 0.05)
SPOIL(off_diagonal, link->inertia[3] = 0.03)
SPOIL(massless_inertia, link->mass = 0.0)
SPOIL(bad_type, link->joint_type = (ns_joint_type)17)
SPOIL(floating_inside, link->joint_type = NS_JOINT_FLOATING)
SPOIL(zero_axis, link->axis[1] = 0.0)
SPOIL(nan_axis, link->axis[1] = NAN)
SPOIL(zero_quaternion, link->origin.quaternion[0] = 0.0)
SPOIL(long_quaternion, link->origin.quaternion[0] = 1.1)
SPOIL(nan_origin, link->origin.position[0] = NAN)
SPOIL(negative_stiffness, link->stiffness = -1.0)
SPOIL(nan_rest, link->rest = NAN)
SPOIL(negative_damping, link->damping = -1.0)
SPOIL(negative_friction, link->friction = -1.0)
SPOIL(zero_friction_velocity, link->friction_velocity = 0.0)
SPOIL(negative_armature, link->armature = -1.0)
SPOIL(negative_limit_stiffness, link->limit_stiffness = -2.0)
SPOIL(negative_limit_damping, link->limit_damping = -2.0)
SPOIL(empty_range, link->limited = true)
SPOIL(infinite_range, link->upper = INFINITY)
SPOIL(limited_ball, (link->joint_type = NS_JOINT_SPHERICAL, link->limited = true))
SPOIL(stiff_ball, (link->joint_type = NS_JOINT_SPHERICAL, link->stiffness = 1.0))
SPOIL(damped_weld, (link->joint_type = NS_JOINT_FIXED, link->damping = 1.0))
SPOIL(mimic_nobody, link->mimic = "nobody")
SPOIL(mimic_itself, link->mimic = "new_joint")
SPOIL(mimic_ball, (link->mimic = "base_joint", link->joint_type = NS_JOINT_SPHERICAL))
SPOIL(mimic_nan, (link->mimic = "base_joint", link->mimic_multiplier = NAN))

static void bad_links_are_named(void** state) {
    (void)state;
    static const bad_link cases[] = {
        {"link: the name is empty", no_name},
        {"link: the name is empty", empty_name},
        {"\"world\"", world_name},
        {"link \"base\": another link has this name", same_name},
        {"joint \"base_joint\": another joint has this name", same_joint},
        {"control character", control_name},
        {"link \"new\": parent names no earlier link \"nobody\"", no_parent},
        {"parent names no earlier link \"new\"", own_parent},
        {"link \"new\": mass must be zero or positive", negative_mass},
        {"link \"new\": mass must be finite", infinite_mass},
        {"link \"new\": com must be finite", nan_com},
        {"link \"new\": inertia must be finite", nan_inertia},
        {"negative principal moment", negative_inertia},
        {"larger than the sum of the other two", triangle},
        {"negative principal moment", off_diagonal},
        {"is not zero but the mass is", massless_inertia},
        {"joint_type", bad_type},
        {"joint \"new_joint\": a floating joint must be carried by the world", floating_inside},
        {"joint \"new_joint\": axis", zero_axis},
        {"joint \"new_joint\": axis", nan_axis},
        {"quaternion of origin", zero_quaternion},
        {"quaternion of origin", long_quaternion},
        {"origin must be finite", nan_origin},
        {"stiffness must be zero or positive", negative_stiffness},
        {"rest must be finite", nan_rest},
        {"damping must be zero or positive", negative_damping},
        {"friction must be zero or positive", negative_friction},
        {"friction_velocity must be positive", zero_friction_velocity},
        {"armature must be zero or positive", negative_armature},
        {"limit_stiffness must be zero or positive", negative_limit_stiffness},
        {"limit_damping must be zero or positive", negative_limit_damping},
        {"lower must be less than upper", empty_range},
        {"upper must be finite", infinite_range},
        {"only revolute and prismatic joints can be limited", limited_ball},
        {"stiffness must be 0 unless", stiff_ball},
        {"damping must be 0 on a fixed joint", damped_weld},
        {"mimic names no earlier joint \"nobody\"", mimic_nobody},
        {"mimic names no earlier joint \"new_joint\"", mimic_itself},
        {"both must be revolute or prismatic", mimic_ball},
        {"mimic_multiplier must be finite", mimic_nan},
    };
    ns_model_builder* builder = new_builder();
    ns_link_def base = rod("base", NULL);
    add(builder, &base);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_link_def link = rod("new", "base");
        cases[k].spoil(&link);
        ns_error error = {0};
        assert_int_equal(ns_model_builder_add_link(builder, &link, &error), NS_ERR_ARGUMENT);
        assert_int_equal(error.status, NS_ERR_ARGUMENT);
        assert_says(error.message, cases[k].fragment);
        // The error need not be wanted.
        assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_ERR_ARGUMENT);
    }
    // None of them left a trace.
    ns_link_def link = rod("new", "base");
    add(builder, &link);
    ns_model* model = finish(builder);
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(coordinates_follow_the_links),
        cmocka_unit_test(followers_have_no_coordinate),
        cmocka_unit_test(limits_left_open_suit_the_inertia),
        cmocka_unit_test(bad_links_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
