// The model builder: what it accepts, what it says about the rest, and the model it makes.

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>

// ---- what is made ------------------------------------------------------------------------------

static void one_rod(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("rod", NULL);
    add(builder, &link);
    ns_model* model = finish(builder);
    ns_model_sizes sizes = ns_model_get_sizes(model);
    assert_int_equal(sizes.nlink, 1);
    assert_int_equal(sizes.nq, 1);
    assert_int_equal(sizes.nv, 1);
    assert_int_equal(sizes.nu + sizes.ngeom + sizes.nignored, 0);
    assert_int_equal(sizes.nparam, NSI_LINK_PARAMS + 3);
    assert_string_equal(ns_model_name(model), "model");

    const ns_link_def* held = ns_model_link(model, 0);
    assert_string_equal(held->name, "rod");
    assert_string_equal(held->parent, "world");
    assert_string_equal(held->joint, "rod_joint");
    assert_true(held->axis[1] == 1.0);
    assert_true(held->friction_velocity == 0.01);
    assert_true(ns_model_world(model)->gravity[2] == -9.81);
    assert_true(ns_model_world(model)->timestep == 0.001);

    // Past the end there is nothing.
    assert_null(ns_model_link(model, 1));
    assert_null(ns_model_geom(model, 0));
    assert_null(ns_model_actuator(model, 0));
    assert_null(ns_model_ignored(model, 0));
    assert_null(ns_model_param(model, sizes.nparam));
    assert_int_equal(ns_model_link_parent(model, 1), UINT32_MAX);
    assert_int_equal(ns_model_joint_q(model, 1), UINT32_MAX);
    assert_int_equal(ns_model_joint_v(model, 1), UINT32_MAX);
    ns_model_free(model);
}

static void nothing_is_fine_too(void** state) {
    (void)state;
    ns_model* model = finish(new_builder());
    assert_int_equal(ns_model_get_sizes(model).nlink, 0);
    assert_int_equal(ns_model_get_sizes(model).nparam, 3);
    ns_model_default_q(model, NULL);
    ns_model_free(model);

    ns_model_free(NULL);
    ns_model_builder_free(NULL);
    assert_int_equal(ns_model_get_sizes(NULL).nlink, 0);
    assert_string_equal(ns_model_name(NULL), "");
    assert_null(ns_model_world(NULL));
    assert_null(ns_model_link(NULL, 0));
    assert_int_equal(ns_model_find_param(NULL, "x"), UINT32_MAX);
}

static void names_are_copied(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    char name[] = "first", joint[] = "hinge", text[] = "a note";
    ns_link_def link = rod(name, NULL);
    link.joint = joint;
    add(builder, &link);
    assert_int_equal(ns_model_builder_set_name(builder, text, NULL), NS_OK);
    assert_int_equal(ns_model_builder_add_ignored(builder, text, NULL), NS_OK);
    memset(name, 'x', sizeof name - 1);
    memset(joint, 'x', sizeof joint - 1);
    memset(text, 'x', sizeof text - 1);

    // The builder is left as it was: a second model, and one with more, can be made.
    ns_model* early = NULL;
    assert_int_equal(ns_model_builder_finish(builder, &early, NULL), NS_OK);
    link = rod("second", "first");
    add(builder, &link);
    ns_model* model = finish(builder);
    assert_int_equal(ns_model_get_sizes(early).nlink, 1);
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    assert_string_equal(ns_model_link(early, 0)->joint, "hinge");
    assert_string_equal(ns_model_link(model, 1)->parent, "first");
    assert_string_equal(ns_model_name(model), "a note");
    assert_string_equal(ns_model_ignored(model, 0), "a note");
    ns_model_free(early);
    ns_model_free(model);
}

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

static void geometries_and_actuators(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("arm", NULL);
    add(builder, &link);
    ns_geom_def geom = ns_default_geom_def();
    geom.type = NS_GEOM_SPHERE;
    geom.size[0] = 0.1;
    geom.size[1] = 77.0; // a sphere has one size
    geom.name = "arm_geom1";
    geom.color[0] = 7.0;
    assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    geom.name = NULL;
    geom.link = "arm";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    }
    geom.link = NULL;
    geom.type = NS_GEOM_MESH;
    geom.mesh = "hand.stl";
    assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);

    ns_actuator_def actuator = ns_default_actuator_def();
    actuator.joint = "arm_joint";
    actuator.gear = 3.0;
    assert_int_equal(ns_model_builder_add_actuator(builder, &actuator, NULL), NS_OK);
    actuator.name = "servo";
    actuator.type = NS_ACTUATOR_POSITION;
    actuator.kp = 10.0;
    actuator.control_limited = true;
    actuator.control_lower = -1.0, actuator.control_upper = 1.0;
    assert_int_equal(ns_model_builder_add_actuator(builder, &actuator, NULL), NS_OK);

    ns_model* model = finish(builder);
    assert_int_equal(ns_model_get_sizes(model).ngeom, 4);
    assert_string_equal(ns_model_geom(model, 0)->link, "world");
    assert_true(ns_model_geom(model, 0)->size[1] == 0.0);
    assert_true(ns_model_geom(model, 0)->color[0] == 1.0);
    assert_string_equal(ns_model_geom(model, 1)->name, "arm_geom0");
    assert_string_equal(ns_model_geom(model, 2)->name, "arm_geom2"); // 1 is taken
    assert_string_equal(ns_model_geom(model, 3)->name, "world_geom0");
    assert_string_equal(ns_model_geom(model, 3)->mesh, "hand.stl");
    assert_int_equal(model->geoms[0].link, NSI_NONE);
    assert_int_equal(model->geoms[1].link, 0);
    assert_int_equal(ns_model_get_sizes(model).nu, 2);
    assert_string_equal(ns_model_actuator(model, 0)->name, "arm_joint_motor");
    assert_int_equal(model->actuators[1].link, 0);
    assert_true(ns_model_actuator(model, 1)->control_upper == 1.0);
    ns_model_free(model);
}

static void the_world_can_be_set(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_world_def world = ns_default_world_def();
    world.gravity[0] = 1.5;
    world.timestep = 0.01;
    world.integrator = NS_INTEGRATOR_RK4;
    world.viscosity = 0.001;
    assert_int_equal(ns_model_builder_set_world(builder, &world, NULL), NS_OK);
    ns_model* model = finish(builder);
    assert_memory_equal(ns_model_world(model), &world, sizeof world);
    uint32_t number = ns_model_find_param(model, "world/gravity/x");
    assert_int_equal(number, model->gravity_param);
    assert_true(ns_model_param(model, number)->value == 1.5);
    ns_model_free(model);
}

// ---- what is refused ---------------------------------------------------------------------------

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
        if (!strstr(error.message, cases[k].fragment)) {
            fail_msg("\"%s\" does not say \"%s\"", error.message, cases[k].fragment);
        }
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

static void long_names_are_refused(void** state) {
    (void)state;
    char name[NSI_MODEL_MAX_NAME + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod(name, NULL);
    link.joint = "j";
    ns_error error;
    assert_int_equal(ns_model_builder_add_link(builder, &link, &error), NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "201 bytes; at most 200"));
    link.name = name + 1; // just short enough
    add(builder, &link);
    ns_model* model = finish(builder);
    assert_string_equal(ns_model_link(model, 0)->name, name + 1);
    ns_model_free(model);
}

static void expect_geom_error(ns_model_builder* builder, const ns_geom_def* geom,
                              const char* fragment) {
    ns_error error = {0};
    assert_int_equal(ns_model_builder_add_geom(builder, geom, &error), NS_ERR_ARGUMENT);
    if (!strstr(error.message, fragment)) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, fragment);
    }
}

static void bad_geometries_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_geom_def good = ns_default_geom_def();
    good.name = "ball";
    good.size[0] = 1.0;
    ns_geom_def geom = good;
    geom.link = "nobody";
    expect_geom_error(builder, &geom, "geometry \"ball\": link names no earlier link \"nobody\"");
    geom = good;
    geom.size[0] = 0.0;
    expect_geom_error(builder, &geom, "size must be positive");
    geom = good;
    geom.type = NS_GEOM_BOX;
    expect_geom_error(builder, &geom, "size must be positive");
    geom = good;
    geom.type = (ns_geom_type)99;
    expect_geom_error(builder, &geom, "type");
    geom = good;
    geom.pose.quaternion[3] = 1.0;
    expect_geom_error(builder, &geom, "quaternion of pose");
    geom = good;
    geom.friction[2] = -1.0;
    expect_geom_error(builder, &geom, "friction must be zero or positive");
    geom = good;
    geom.color[3] = NAN;
    expect_geom_error(builder, &geom, "color must be finite");
    geom = good;
    geom.type = NS_GEOM_MESH;
    expect_geom_error(builder, &geom, "mesh must name a file");
    geom = good;
    geom.mesh = "a.stl";
    expect_geom_error(builder, &geom, "mesh must be NULL");
    assert_int_equal(ns_model_builder_add_geom(builder, &good, NULL), NS_OK);
    expect_geom_error(builder, &good, "another geometry has this name");
    ns_model_builder_free(builder);
}

static void expect_actuator_error(ns_model_builder* builder, const ns_actuator_def* actuator,
                                  const char* fragment) {
    ns_error error = {0};
    assert_int_equal(ns_model_builder_add_actuator(builder, actuator, &error), NS_ERR_ARGUMENT);
    if (!strstr(error.message, fragment)) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, fragment);
    }
}

static void bad_actuators_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    add(builder, &link);
    link = rod("b", "a");
    link.mimic = "a_joint";
    add(builder, &link);
    link = rod("c", "a");
    link.joint_type = NS_JOINT_SPHERICAL;
    add(builder, &link);
    ns_actuator_def good = ns_default_actuator_def(), actuator = good;
    good.name = "m";
    good.joint = "a_joint";
    actuator = good;
    actuator.joint = NULL;
    expect_actuator_error(builder, &actuator, "there is no joint \"\"");
    actuator.joint = "nobody";
    expect_actuator_error(builder, &actuator, "actuator \"m\": there is no joint \"nobody\"");
    actuator.joint = "b_joint";
    expect_actuator_error(builder, &actuator, "it follows joint \"a_joint\"");
    actuator.joint = "c_joint";
    expect_actuator_error(builder, &actuator, "must be revolute or prismatic");
    actuator = good;
    actuator.type = (ns_actuator_type)9;
    expect_actuator_error(builder, &actuator, "type");
    actuator = good;
    actuator.gear = NAN;
    expect_actuator_error(builder, &actuator, "gear must be finite");
    actuator = good;
    actuator.kp = -1.0;
    expect_actuator_error(builder, &actuator, "kp must be zero or positive");
    actuator = good;
    actuator.kd = -1.0;
    expect_actuator_error(builder, &actuator, "kd must be zero or positive");
    actuator = good;
    actuator.control_limited = true;
    expect_actuator_error(builder, &actuator, "control_lower must be less than control_upper");
    actuator = good;
    actuator.force_limited = true;
    actuator.force_upper = INFINITY;
    expect_actuator_error(builder, &actuator, "force_lower must be less than force_upper");
    assert_int_equal(ns_model_builder_add_actuator(builder, &good, NULL), NS_OK);
    expect_actuator_error(builder, &good, "another actuator has this name");
    ns_model_builder_free(builder);
}

static void bad_worlds_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_error error;
    ns_world_def world = ns_default_world_def();
    world.gravity[1] = NAN;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "gravity must be finite"));
    world = ns_default_world_def();
    world.timestep = 0.0;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "timestep must be positive"));
    world = ns_default_world_def();
    world.density = -1.0;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "density"));
    world = ns_default_world_def();
    world.viscosity = -1.0;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "viscosity"));
    world = ns_default_world_def();
    world.integrator = (ns_integrator)5;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "integrator"));
    assert_int_equal(ns_model_builder_set_world(builder, NULL, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_set_world(NULL, &world, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_set_name(builder, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_set_name(builder, "", NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_finish(builder, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_create(NULL, NULL, NULL), NS_ERR_ARGUMENT);
    ns_model_builder_free(builder);
}

// ---- memory ------------------------------------------------------------------------------------

static ns_status build(const ns_allocator* allocator, ns_model** out, ns_error* error) {
    ns_model_builder* builder = NULL;
    ns_status status = ns_model_builder_create(allocator, &builder, error);
    if (status != NS_OK) return status;
    status = ns_model_builder_set_name(builder, "many", error);
    char name[20], parent[20];
    for (uint32_t i = 0; i < 30 && status == NS_OK; i++) {
        snprintf(name, sizeof name, "link%u", i);
        ns_link_def link = rod(name, i > 0 ? parent : NULL);
        status = ns_model_builder_add_link(builder, &link, error);
        snprintf(parent, sizeof parent, "%s", name);
        ns_geom_def geom = ns_default_geom_def();
        geom.link = name;
        geom.type = NS_GEOM_MESH;
        geom.mesh = "file.obj";
        if (status == NS_OK) status = ns_model_builder_add_geom(builder, &geom, error);
        ns_actuator_def actuator = ns_default_actuator_def();
        char joint[30];
        snprintf(joint, sizeof joint, "%s_joint", name);
        actuator.joint = joint;
        if (status == NS_OK) status = ns_model_builder_add_actuator(builder, &actuator, error);
        if (status == NS_OK) status = ns_model_builder_add_ignored(builder, "something", error);
    }
    if (status == NS_OK) status = ns_model_builder_finish(builder, out, error);
    ns_model_builder_free(builder);
    return status;
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status = build(&allocator, &model, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_int_equal(counter.live_blocks, 1); // one model, one block
            modelfile_check(model);
            ns_model_free(model);
            assert_int_equal(counter.live_blocks, 0);
            assert_true(n > 20);
            return;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        assert_null(model);
        assert_int_equal(counter.live_blocks, 0);
    }
}

// After a failure half way through, the builder only says that there is no memory.
static void a_failed_builder_stays_failed(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model_builder* builder = NULL;
    assert_int_equal(ns_model_builder_create(&allocator, &builder, NULL), NS_OK);
    counter.fail_at = counter.calls + 3; // the strings, the links, ...
    ns_link_def link = rod("a", NULL);
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_ERR_NOMEM);
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_ERR_NOMEM);
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_ERR_NOMEM);
    ns_model_builder_free(builder);
    assert_int_equal(counter.live_blocks, 0);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rod),
        cmocka_unit_test(nothing_is_fine_too),
        cmocka_unit_test(names_are_copied),
        cmocka_unit_test(coordinates_follow_the_links),
        cmocka_unit_test(followers_have_no_coordinate),
        cmocka_unit_test(geometries_and_actuators),
        cmocka_unit_test(the_world_can_be_set),
        cmocka_unit_test(bad_links_are_named),
        cmocka_unit_test(long_names_are_refused),
        cmocka_unit_test(bad_geometries_are_named),
        cmocka_unit_test(bad_actuators_are_named),
        cmocka_unit_test(bad_worlds_are_named),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(a_failed_builder_stays_failed),
        cmocka_unit_test(limits_left_open_suit_the_inertia),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
