// Which geometries become pairs, under which names, with which numbers and parameters; what is
// refused or noted.

#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

// ---- building ----------------------------------------------------------------------------------

static ns_model_builder* new_builder(void) {
    ns_model_builder* builder = NULL;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    return builder;
}

static void add_link(ns_model_builder* builder, const char* name, const char* parent,
                     ns_joint_type type, double mass) {
    ns_link_def link = ns_default_link_def();
    ns_error error = {0};
    link.name = name;
    link.parent = parent;
    link.joint_type = type;
    link.mass = mass;
    for (int i = 0; i < 3; i++) link.inertia[i] = 0.01 * mass;
    must(ns_model_builder_add_link(builder, &link, &error), &error);
}

static const double corners[] = {1, 1, 1, -1, 1, -1, -1, -1, 1, 1, -1, -1};
static const double triangle[] = {0, 0, 5, 2, 0, 5, 0, 1, 5};

static ns_geom_def geom_of(ns_geom_type type, const char* name, const char* link) {
    ns_geom_def geom = ns_default_geom_def();
    geom.type = type;
    geom.name = name;
    geom.link = link;
    for (int i = 0; i < 3; i++) geom.size[i] = 0.1;
    if (type == NS_GEOM_MESH || type == NS_GEOM_POINTS) {
        geom.vertices = corners, geom.nvertex = 4;
    } else if (type == NS_GEOM_POLYGON) {
        geom.vertices = triangle, geom.nvertex = 3;
    }
    return geom;
}

static void add_geom(ns_model_builder* builder, const ns_geom_def* geom) {
    ns_error error = {0};
    must(ns_model_builder_add_geom(builder, geom, &error), &error);
}

static void add_shape(ns_model_builder* builder, ns_geom_type type, const char* name,
                      const char* link) {
    ns_geom_def geom = geom_of(type, name, link);
    add_geom(builder, &geom);
}

static void add_pair(ns_model_builder* builder, const char* a, const char* b) {
    ns_contact_def contact = ns_default_contact_def();
    ns_error error = {0};
    contact.a = a, contact.b = b;
    must(ns_model_builder_add_contact(builder, &contact, &error), &error);
}

static ns_model* finish(ns_model_builder* builder) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_builder_finish(builder, &model, &error), &error);
    modelfile_check(model);
    ns_model_builder_free(builder);
    return model;
}

// The names of all pairs, in order.
static void expect_pairs(const ns_model* model, const char* const* names) {
    uint32_t count = 0;
    for (; names[count]; count++) {
        const ns_contact_def* contact = ns_model_contact(model, count);
        assert_non_null(contact);
        assert_string_equal(contact->name, names[count]);
    }
    assert_int_equal(ns_model_get_sizes(model).ncontact, count);
    assert_null(ns_model_contact(model, count));
}

#define EXPECT_PAIRS(model, ...) expect_pairs(model, (const char* const[]){__VA_ARGS__, NULL})
#define EXPECT_NO_PAIRS(model) expect_pairs(model, (const char* const[]){NULL})

// ---- which are made ----------------------------------------------------------------------------

static void a_robot_touches_the_ground(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    add_link(builder, "base", NULL, NS_JOINT_FLOATING, 2.0);
    add_link(builder, "arm", "base", NS_JOINT_REVOLUTE, 1.0);
    add_link(builder, "hand", "arm", NS_JOINT_REVOLUTE, 1.0);
    add_shape(builder, NS_GEOM_BOX, "trunk", "base");
    add_shape(builder, NS_GEOM_PLANE, "ground", NULL);
    add_shape(builder, NS_GEOM_CAPSULE, "bone", "arm");
    add_shape(builder, NS_GEOM_SPHERE, "fist", "hand");
    add_shape(builder, NS_GEOM_SPHERE, "thumb", "hand");
    add_shape(builder, NS_GEOM_BOX, "wall", "world");
    ns_model* model = finish(builder);
    // In the order of the later geometry, then of the earlier; what stands still is second. Not
    // those of one link, nor of a link and the one it carries, nor of the world.
    EXPECT_PAIRS(model, "trunk:ground", "bone:ground", "fist:trunk", "fist:ground", "thumb:trunk",
                 "thumb:ground", "trunk:wall", "bone:wall", "fist:wall", "thumb:wall");
    const ns_contact_def* contact = ns_model_contact(model, 2);
    assert_string_equal(contact->a, "fist");
    assert_string_equal(contact->b, "trunk");
    assert_int_equal(model->contacts[2].a, 3);
    assert_int_equal(model->contacts[2].b, 0);
    assert_ptr_equal(contact->a, ns_model_geom(model, 3)->name);
    assert_int_equal(contact->model, NS_CONTACT_NCP);
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    assert_null(ns_model_contact(NULL, 0));
    ns_model_free(model);
}

static void welded_links_are_one_body(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    add_link(builder, "table", NULL, NS_JOINT_FIXED, 5.0); // to the world: it is the world
    add_link(builder, "shoulder", "table", NS_JOINT_REVOLUTE, 1.0);
    add_link(builder, "shell", "shoulder", NS_JOINT_FIXED, 0.1);
    add_link(builder, "elbow", "shell", NS_JOINT_REVOLUTE, 1.0);
    add_link(builder, "tool", "elbow", NS_JOINT_FIXED, 0.1);
    add_shape(builder, NS_GEOM_PLANE, "floor", NULL);
    add_shape(builder, NS_GEOM_BOX, "top", "table");
    add_shape(builder, NS_GEOM_SPHERE, "joint", "shoulder");
    add_shape(builder, NS_GEOM_SPHERE, "cover", "shell");
    add_shape(builder, NS_GEOM_SPHERE, "tip", "tool");
    ns_model* model = finish(builder);
    // The world as parent does not keep what it carries from touching it.
    EXPECT_PAIRS(model, "joint:floor", "joint:top", "cover:floor", "cover:top", "tip:floor",
                 "tip:top");
    ns_model_free(model);
}

// Two hinges in one point, with nothing between them, are one joint.
static void massless_links_are_part_of_the_joint(void** state) {
    (void)state;
    for (int cross_has_mass = 0; cross_has_mass < 2; cross_has_mass++) {
        ns_model_builder* builder = new_builder();
        add_link(builder, "a", NULL, NS_JOINT_FLOATING, 1.0);
        add_link(builder, "cross", "a", NS_JOINT_PRISMATIC, cross_has_mass ? 0.1 : 0.0);
        add_link(builder, "b", "cross", NS_JOINT_REVOLUTE, 1.0);
        add_shape(builder, NS_GEOM_SPHERE, "x", "a");
        add_shape(builder, NS_GEOM_SPHERE, "y", "b");
        ns_model* model = finish(builder);
        if (cross_has_mass) {
            EXPECT_PAIRS(model, "y:x");
        } else {
            EXPECT_NO_PAIRS(model);
        }
        ns_model_free(model);
    }
}

static ns_model* with_groups(uint32_t groups_a, uint32_t touches_a, uint32_t groups_b,
                             uint32_t touches_b, bool collision) {
    ns_model_builder* builder = new_builder();
    add_link(builder, "l", NULL, NS_JOINT_FLOATING, 1.0);
    ns_geom_def geom = geom_of(NS_GEOM_PLANE, "p", NULL);
    geom.groups = groups_a, geom.touches = touches_a;
    add_geom(builder, &geom);
    geom = geom_of(NS_GEOM_SPHERE, "s", "l");
    geom.groups = groups_b, geom.touches = touches_b;
    geom.collision = collision;
    add_geom(builder, &geom);
    return finish(builder);
}

static void groups_say_what_touches(void** state) {
    (void)state;
    static const struct {
        uint32_t groups_a, touches_a, groups_b, touches_b;
        bool collision;
        uint32_t count;
    } cases[] = {
        {1, 1, 1, 1, true, 1},     {1, 1, 1, 1, false, 0},
        {1, 1, 2, 1, true, 1},     {1, 2, 2, 0, true, 1},
        {2, 0, 1, 2, true, 1},     {1, 1, 2, 2, true, 0},
        {0, 0, 1, 1, true, 0},     {1, 1, 0, 0, true, 0},
        {4, 0, 8, 4 | 2, true, 1}, {1u << 31, 0, 0, 1u << 31, true, 1},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = with_groups(cases[k].groups_a, cases[k].touches_a, cases[k].groups_b,
                                      cases[k].touches_b, cases[k].collision);
        assert_int_equal(ns_model_get_sizes(model).ncontact, cases[k].count);
        ns_model_free(model);
    }
}

static void links_can_be_excluded(void** state) {
    (void)state;
    for (int k = 0; k < 4; k++) {
        ns_model_builder* builder = new_builder();
        add_link(builder, "a", NULL, NS_JOINT_FLOATING, 1.0);
        add_link(builder, "b", NULL, NS_JOINT_FLOATING, 1.0);
        add_link(builder, "c", "b", NS_JOINT_FIXED, 1.0);
        add_shape(builder, NS_GEOM_PLANE, "p", NULL);
        add_shape(builder, NS_GEOM_SPHERE, "x", "a");
        add_shape(builder, NS_GEOM_SPHERE, "y", "b");
        add_shape(builder, NS_GEOM_SPHERE, "z", "c");
        if (k == 0) { // a link that is welded to another stands for itself
            assert_int_equal(ns_model_builder_exclude_contact(builder, "c", "a", NULL), NS_OK);
        } else if (k == 1) { // one that moves, for all that are welded to it
            assert_int_equal(ns_model_builder_exclude_contact(builder, "a", "b", NULL), NS_OK);
        } else if (k == 2) {
            assert_int_equal(ns_model_builder_exclude_contact(builder, NULL, "a", NULL), NS_OK);
        } else { // by hand it can touch all the same
            assert_int_equal(ns_model_builder_exclude_contact(builder, "a", "b", NULL), NS_OK);
            add_pair(builder, "x", "y");
        }
        ns_model* model = finish(builder);
        if (k == 0) EXPECT_PAIRS(model, "x:p", "y:p", "y:x", "z:p");
        if (k == 1) EXPECT_PAIRS(model, "x:p", "y:p", "z:p");
        if (k == 2) EXPECT_PAIRS(model, "y:p", "y:x", "z:p", "z:x");
        if (k == 3) EXPECT_PAIRS(model, "x:y", "x:p", "y:p", "z:p");
        ns_model_free(model);
    }
}

static void pairs_by_hand_come_first(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    add_link(builder, "a", NULL, NS_JOINT_FLOATING, 1.0);
    add_link(builder, "b", "a", NS_JOINT_REVOLUTE, 1.0);
    add_shape(builder, NS_GEOM_PLANE, "p", NULL);
    add_shape(builder, NS_GEOM_SPHERE, "x", "a");
    ns_geom_def alone = geom_of(NS_GEOM_SPHERE, "y", "b");
    alone.groups = alone.touches = 0;
    add_geom(builder, &alone);
    ns_contact_def contact = ns_default_contact_def();
    contact.name = "slippery";
    contact.a = "p", contact.b = "x"; // takes the place of x:p, and its order
    contact.mu = 0.0, contact.restitution = 0.5, contact.model = NS_CONTACT_SPRING;
    contact.stiffness = 3e4, contact.damping = 0.0, contact.exponent = 1.0;
    contact.mu_static = 0.2, contact.margin = 0.0;
    assert_int_equal(ns_model_builder_add_contact(builder, &contact, NULL), NS_OK);
    add_pair(builder, "y", "x"); // of a link and the one it carries
    add_pair(builder, "y", "p");
    ns_model* model = finish(builder);
    EXPECT_PAIRS(model, "slippery", "y:x", "y:p");
    const ns_contact_def* held = ns_model_contact(model, 0);
    assert_string_equal(held->a, "p");
    assert_string_equal(held->b, "x");
    assert_int_equal(held->model, NS_CONTACT_SPRING);
    assert_true(held->mu == 0.0 && held->restitution == 0.5 && held->stiffness == 3e4);
    assert_true(held->damping == 0.0 && held->exponent == 1.0 && held->mu_static == 0.2);
    assert_true(held->margin == 0.0 && held->baumgarte_beta == 0.2);
    ns_model_free(model);
}

// ---- shapes ------------------------------------------------------------------------------------

static void shapes_that_are_handled(void** state) {
    (void)state;
    // Rows and columns in the order of ns_geom_type.
    static const char* const table[] = {
        "xx.xx.....", // sphere
        "xx.xx.....", // capsule
        "....x..xx.", // cylinder
        "xx.xx.....", // box
        "xxxx.xxxxx", // plane
        "....x.....", // mesh
        "....x.....", // ellipsoid
        "..x.x.....", // polygon
        "..x.x.....", // ellipse
        "....x.....", // points
    };
    for (uint32_t a = 0; a <= NS_GEOM_POINTS; a++) {
        for (uint32_t b = 0; b <= NS_GEOM_POINTS; b++) {
            ns_geom_def x = geom_of((ns_geom_type)a, "x", NULL);
            ns_geom_def y = geom_of((ns_geom_type)b, "y", NULL);
            assert_int_equal(nsi_geoms_can_touch(&x, &y), table[a][b] == 'x');
        }
    }
    ns_geom_def mesh = geom_of(NS_GEOM_MESH, "m", NULL), plane = geom_of(NS_GEOM_PLANE, "p", NULL);
    mesh.nvertex = 0;
    assert_false(nsi_geoms_can_touch(&mesh, &plane));
}

static void shapes_that_are_not_are_noted_together(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    static const char* const names[] = {"a", "b", "c"};
    add_shape(builder, NS_GEOM_BOX, "step", NULL);
    add_shape(builder, NS_GEOM_PLANE, "floor", NULL);
    for (int k = 0; k < 3; k++) {
        add_link(builder, names[k], NULL, NS_JOINT_FLOATING, 1.0);
        add_shape(builder, NS_GEOM_CYLINDER, NULL, names[k]);
    }
    ns_geom_def mesh = geom_of(NS_GEOM_MESH, "shell", "c");
    mesh.nvertex = 0, mesh.mesh = "shell.stl";
    add_geom(builder, &mesh);
    assert_int_equal(ns_model_builder_add_ignored(builder, "something else", NULL), NS_OK);
    ns_model* model = finish(builder);
    EXPECT_PAIRS(model, "a_geom0:floor", "b_geom0:floor", "c_geom0:floor");
    static const char* const notes[] = {
        "something else",
        "contact between cylinder and cylinder geometries is not simulated (3 pairs, the first is "
        "b_geom0:a_geom0); changes the motion where they touch",
        "contact between cylinder and box geometries is not simulated (3 pairs, the first is "
        "a_geom0:step); changes the motion where they touch",
        "contact between cylinder and mesh (without vertices) geometries is not simulated (2 "
        "pairs, "
        "the first is shell:a_geom0); changes the motion where they touch",
        "contact between box and mesh (without vertices) geometries is not simulated (1 pair, "
        "shell:step); changes the motion where they touch",
        "contact between plane and mesh (without vertices) geometries is not simulated (1 pair, "
        "shell:floor); changes the motion where they touch",
    };
    const uint32_t count = sizeof notes / sizeof *notes;
    for (uint32_t i = 0; i < count; i++) {
        assert_non_null(ns_model_ignored(model, i));
        assert_string_equal(ns_model_ignored(model, i), notes[i]);
    }
    assert_int_equal(ns_model_get_sizes(model).nignored, count);
    ns_model_free(model);
}

// ---- numbers -----------------------------------------------------------------------------------

// Two free bodies of several links each, and the ground.
static ns_model* two_trees(const ns_geom_def* a, const ns_geom_def* b) {
    ns_model_builder* builder = new_builder();
    add_link(builder, "base", NULL, NS_JOINT_FIXED, 100.0); // of the world, not of a tree
    add_link(builder, "a", "base", NS_JOINT_REVOLUTE, 3.0);
    add_link(builder, "a2", "a", NS_JOINT_REVOLUTE, 2.0);
    add_link(builder, "b", NULL, NS_JOINT_FLOATING, 1.5);
    add_link(builder, "b2", "b", NS_JOINT_FIXED, 0.25);
    ns_geom_def geom = *a;
    geom.name = "x", geom.link = "a2";
    add_geom(builder, &geom);
    geom = *b;
    geom.name = "y", geom.link = "b";
    add_geom(builder, &geom);
    add_shape(builder, NS_GEOM_PLANE, "p", NULL);
    return finish(builder);
}

static void numbers_left_to_us_are_chosen(void** state) {
    (void)state;
    ns_geom_def a = geom_of(NS_GEOM_SPHERE, NULL, NULL), b = a;
    a.friction[0] = 0.3, b.friction[0] = 0.7;
    a.restitution = 0.6, b.restitution = 0.1;
    ns_model* model = two_trees(&a, &b);
    EXPECT_PAIRS(model, "y:x", "x:p", "y:p");
    const ns_contact_def* contact = ns_model_contact(model, 0);
    assert_true(contact->mu == 0.7 && contact->mu_static == 0.7 && contact->restitution == 0.6);
    // The lighter tree has 1.75 kg, the other 5, the world no end. The lighter body has 1.75 kg,
    // the other 2: the time step, 1 ms, allows 0.25 * 300^2 * 0.01 / 1.5 = 150 N/kg at 1 cm.
    assert_true(fabs(contact->stiffness - 1.75e5) < 1e-9 * 1.75e5);
    assert_true(contact->max_depth == 0.05);
    assert_true(contact->damping == 1.0 && contact->exponent == 1.5);
    assert_true(contact->baumgarte_alpha == 1.0 && contact->baumgarte_beta == 0.2);
    assert_true(contact->max_push == 2.0 && contact->cfm == 1e-4 && contact->margin == 0.02);
    assert_true(contact->transition_velocity == 0.05);
    assert_true(fabs(ns_model_contact(model, 1)->stiffness - 2 * 1.5e5) < 1e-9 * 3e5);
    assert_true(ns_model_contact(model, 1)->mu == 1.0); // the plane's
    ns_model_free(model);

    // One spring alone, and two in a row.
    a.stiffness = 3e4, a.damping = 0.5, b.damping = 0.25;
    model = two_trees(&a, &b);
    contact = ns_model_contact(model, 0);
    assert_true(contact->stiffness == 3e4 && contact->damping == 0.5);
    assert_true(contact->max_depth == INFINITY && contact->exponent == 1.5);
    ns_model_free(model);
    b.stiffness = 6e4;
    model = two_trees(&a, &b);
    assert_true(fabs(ns_model_contact(model, 0)->stiffness - 2e4) < 1e-9);
    ns_model_free(model);
    a.stiffness = 0.0;
    model = two_trees(&a, &b);
    assert_true(ns_model_contact(model, 0)->stiffness == 0.0);
    ns_model_free(model);
    a.stiffness = b.stiffness = 1e300; // whose product is not finite
    model = two_trees(&a, &b);
    assert_true(fabs(ns_model_contact(model, 0)->stiffness / 5e299 - 1.0) < 1e-12);
    ns_model_free(model);
}

static void a_tree_moved_by_armature_alone_has_a_stiffness(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = ns_default_link_def();
    link.name = "l";
    link.joint_type = NS_JOINT_PRISMATIC;
    link.armature = 0.1;
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_OK);
    add_shape(builder, NS_GEOM_SPHERE, "s", "l");
    add_shape(builder, NS_GEOM_PLANE, "p", NULL);
    ns_model* model = finish(builder);
    assert_true(fabs(ns_model_contact(model, 0)->stiffness - 1e5) < 1e-9 * 1e5);
    ns_model_free(model);
}

// Frequency at 1 cm of a quarter of the body's mass: p k d^(p-1) / (m/4) = (0.3/dt)^2 where the time
// step is what limits.
static void the_time_step_limits_stiffness(void** state) {
    (void)state;
    static const double exponents[] = {1.0, 1.5, 2.5};
    for (int k = 0; k < 3; k++) {
        ns_model_builder* builder = new_builder();
        ns_world_def world = ns_default_world_def();
        world.timestep = 0.004;
        assert_int_equal(ns_model_builder_set_world(builder, &world, NULL), NS_OK);
        add_link(builder, "trunk", NULL, NS_JOINT_FLOATING, 50.0);
        add_link(builder, "leg", "trunk", NS_JOINT_REVOLUTE, 0.5);
        add_link(builder, "shoe", "leg", NS_JOINT_FIXED, 0.25);
        ns_geom_def geom = geom_of(NS_GEOM_SPHERE, "foot", "shoe");
        geom.exponent = exponents[k];
        add_geom(builder, &geom);
        add_shape(builder, NS_GEOM_PLANE, "ground", NULL);
        ns_model* model = finish(builder);
        const ns_contact_def* contact = ns_model_contact(model, 0);
        double p = exponents[k], mass = 0.75 / 4.0, w = 0.3 / 0.004;
        assert_true(contact->exponent == p);
        double w2 = p * contact->stiffness * pow(0.01, p - 1.0) / mass;
        assert_true(fabs(w2 / (w * w) - 1.0) < 1e-12);
        ns_model_free(model);
    }
}

// ---- vertices ----------------------------------------------------------------------------------

static void vertices_are_copied(void** state) {
    (void)state;
    double points[6] = {1, 2, 3, 4, 5, 6};
    ns_model_builder* builder = new_builder();
    ns_geom_def geom = geom_of(NS_GEOM_POINTS, "pins", NULL);
    geom.vertices = points, geom.nvertex = 2;
    add_geom(builder, &geom);
    geom.vertices = points + 3, geom.nvertex = 1, geom.name = "pin";
    add_geom(builder, &geom);
    memset(points, 0, sizeof points);
    add_shape(builder, NS_GEOM_MESH, "mesh", NULL);
    add_shape(builder, NS_GEOM_SPHERE, "ball", NULL);
    // A clockwise outline is turned; z does not matter.
    const double clockwise[] = {0, 0, 1, 0, 1, 2, 1, 1, 3, 1, 0, 4};
    geom = geom_of(NS_GEOM_POLYGON, "plate", NULL);
    geom.vertices = clockwise, geom.nvertex = 4;
    add_geom(builder, &geom);
    ns_model* model = finish(builder);

    const ns_geom_def* held = ns_model_geom(model, 0);
    assert_int_equal(held->nvertex, 2);
    for (int i = 0; i < 6; i++) assert_true(held->vertices[i] == i + 1);
    assert_true(held->size[0] == 0.0); // points have none
    held = ns_model_geom(model, 1);
    for (int i = 0; i < 3; i++) assert_true(held->vertices[i] == i + 4);
    held = ns_model_geom(model, 2);
    assert_null(held->mesh);
    assert_memory_equal(held->vertices, corners, sizeof corners);
    assert_null(ns_model_geom(model, 3)->vertices);
    held = ns_model_geom(model, 4);
    const double turned[] = {1, 0, 0, 1, 1, 0, 0, 1, 0, 0, 0, 0};
    assert_memory_equal(held->vertices, turned, sizeof turned);
    assert_true(held->size[0] == 0.1 && held->size[1] == 0.0);
    ns_model_free(model);
}

static void outlines_must_be_simple(void** state) {
    (void)state;
    static const struct {
        const char* fault; // NULL: none
        uint32_t count;
        double xy[20];
    } cases[] = {
        {NULL, 3, {0, 0, 1, 0, 0, 1}},
        {NULL, 3, {0, 0, 0, 1, 1, 0}},
        {NULL, 4, {0, 0, 2, 0, 0.5, 0.5, 0, 2}},   // not convex
        {NULL, 5, {0, 0, 1, 0, 2, 0, 2, 2, 0, 2}}, // three in a row
        {NULL, 4, {1e6, 1e6, 1e6 + 1, 1e6, 1e6 + 1, 1e6 + 1, 1e6, 1e6 + 1}},
        {NULL, 8, {0, 0, 4, 0, 4, 4, 3, 4, 3, 1, 1, 1, 1, 4, 0, 4}}, // a U
        {"fewer than 3", 2, {0, 0, 1, 0}},
        {"twice in a row", 4, {0, 0, 1, 0, 1, 0, 0, 1}},
        {"twice in a row", 4, {0, 0, 1, 0, 0, 1, 0, 0}},
        {"on a line", 3, {0, 0, 1, 1, 2, 2}},
        {"on a line", 3, {0, 0, 1, 0, 2, 1e-14}},
        {"crosses", 4, {0, 0, 1, 1, 1, 0, 0, 1}}, // a bow tie: no area at all
        {"crosses", 5, {0, 0, 4, 0, 4, 4, 2, -1, 0, 4}},
        {"crosses", 5, {0, 0, 4, 0, 4, 4, 2, 0, 0, 4}},       // a corner on an edge
        {"crosses", 6, {0, 0, 2, 0, 1, 1, 2, 2, 0, 2, 1, 1}}, // twice through a point
        {"folds back", 4, {0, 0, 4, 0, 2, 0, 0, 3}},
        {"too large", 3, {0, 0, 1e200, 0, 0, 1e200}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double vertices[30];
        for (uint32_t i = 0; i < cases[k].count; i++) {
            vertices[3 * i] = cases[k].xy[2 * i];
            vertices[3 * i + 1] = cases[k].xy[2 * i + 1];
            vertices[3 * i + 2] = 7.0;
        }
        const char* fault = nsi_outline_fault(vertices, cases[k].count);
        if (!cases[k].fault != !fault || (fault && !strstr(fault, cases[k].fault))) {
            fail_msg("outline %zu: %s", k, fault ? fault : "nothing is wrong");
        }
    }
}

// ---- parameters --------------------------------------------------------------------------------

static const ns_param* param_of(const ns_model* model, uint32_t number, const char* name) {
    const ns_param* param = ns_model_param(model, number);
    assert_non_null(param);
    assert_string_equal(param->name, name);
    return param;
}

static void geometries_in_pairs_have_parameters(void** state) {
    (void)state;
    static const struct {
        ns_geom_type type;
        const char *sizes[4], *unit;
    } cases[] = {
        {NS_GEOM_SPHERE, {"radius"}, "m"},
        {NS_GEOM_CAPSULE, {"radius", "half_length"}, "m"},
        {NS_GEOM_CYLINDER, {"radius", "half_length"}, "m"},
        {NS_GEOM_BOX, {"half/x", "half/y", "half/z"}, "m"},
        {NS_GEOM_MESH, {"scale/x", "scale/y", "scale/z"}, ""},
        {NS_GEOM_ELLIPSOID, {"half/x", "half/y", "half/z"}, "m"},
        {NS_GEOM_POLYGON, {"half_thickness"}, "m"},
        {NS_GEOM_ELLIPSE, {"half/x", "half/y", "half_thickness"}, "m"},
        {NS_GEOM_POINTS, {NULL}, ""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model_builder* builder = new_builder();
        add_link(builder, "l", NULL, NS_JOINT_FLOATING, 1.0);
        ns_geom_def drawn = geom_of(cases[k].type, "drawn", "l");
        drawn.collision = false;
        add_geom(builder, &drawn);
        ns_geom_def geom = geom_of(cases[k].type, "g", "l");
        geom.pose.position[1] = 0.25;
        for (int i = 0; i < 3; i++) geom.size[i] = 0.1 * (i + 1);
        add_geom(builder, &geom);
        add_shape(builder, NS_GEOM_PLANE, "p", NULL);
        ns_model* model = finish(builder);

        assert_int_equal(model->geoms[0].param, NSI_NONE);
        uint32_t at = model->geoms[1].param;
        assert_int_equal(at, model->gravity_param + 3);
        assert_true(param_of(model, at, "geom/g/origin/x")->value == 0.0);
        const ns_param* y = param_of(model, at + NSI_GEOM_ORIGIN + 1, "geom/g/origin/y");
        assert_true(y->value == 0.25 && y->lower == -INFINITY);
        assert_string_equal(y->unit, "m");
        const ns_param* rz = param_of(model, at + NSI_GEOM_ROTATION + 2, "geom/g/origin/rz");
        assert_true(rz->value == 0.0);
        assert_string_equal(rz->unit, "rad");
        uint32_t count = 0;
        for (; cases[k].sizes[count]; count++) {
            char name[64];
            snprintf(name, sizeof name, "geom/g/%s", cases[k].sizes[count]);
            const ns_param* size = param_of(model, at + NSI_GEOM_SIZE + count, name);
            assert_true(size->value == ns_model_geom(model, 1)->size[count] && size->value > 0.0);
            assert_string_equal(size->unit, cases[k].unit);
            bool scale = cases[k].type == NS_GEOM_MESH;
            assert_true(size->lower == (scale ? -INFINITY : 0.0));
            assert_int_equal(size->transform, scale ? NS_TRANSFORM_IDENTITY : NS_TRANSFORM_LOG);
        }
        assert_int_equal(model->geoms[2].param, at + NSI_GEOM_SIZE + count);
        param_of(model, at + NSI_GEOM_SIZE + count, "geom/p/origin/x");
        assert_int_equal(model->contacts[0].param, at + 2 * NSI_GEOM_SIZE + count);
        assert_int_equal(ns_model_get_sizes(model).nparam,
                         model->contacts[0].param + model->ncontact_param);
        ns_model_free(model);
    }
}

static void pairs_have_parameters(void** state) {
    (void)state;
    static const double inf = INFINITY;
    static const struct {
        const char *name, *unit;
        double value, lower, upper;
        ns_param_transform transform;
    } expected[] = {
        {"contact/s:p/mu", "", 1.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/restitution", "", 0.0, 0.0, 1.0, NS_TRANSFORM_BOX},
        {"contact/s:p/baumgarte_alpha", "", 1.0, 0.0, 1.0, NS_TRANSFORM_BOX},
        {"contact/s:p/baumgarte_beta", "", 0.2, 0.0, 1.0, NS_TRANSFORM_BOX},
        {"contact/s:p/max_push", "m/s", 2.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/cfm", "", 1e-4, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/margin", "m", 0.02, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/stiffness", "N/m^exponent", 1e5, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/damping", "s/m", 1.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/exponent", "", 1.5, 1.0, inf, NS_TRANSFORM_IDENTITY},
        {"contact/s:p/mu_static", "", 1.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/transition_velocity", "m/s", 0.05, 0.0, inf, NS_TRANSFORM_LOG},
    };
    ns_model* model = with_groups(1, 1, 1, 1, true);
    assert_int_equal(model->ncontact_param, sizeof expected / sizeof *expected);
    for (uint32_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        const ns_param* param = param_of(model, model->contacts[0].param + k, expected[k].name);
        assert_string_equal(param->unit, expected[k].unit);
        assert_true(param->value == expected[k].value);
        assert_true(param->lower == expected[k].lower && param->upper == expected[k].upper);
        assert_int_equal(param->transform, expected[k].transform);
    }
    ns_model_free(model);
}

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
        assert_memory_equal(last->name + 8 + NSI_PAIR_MAX_NAME, "/transition_velocity", 21);
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
    add_shape(builder, NS_GEOM_CYLINDER, "tin", "l");
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
        if (!strstr(error.message, cases[k].fragment)) {
            fail_msg("\"%s\" does not say \"%s\"", error.message, cases[k].fragment);
        }
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

static void expect_geom_error(const ns_geom_def* geom, ns_status status, const char* fragment) {
    ns_model_builder* builder = new_builder();
    ns_error error = {0};
    assert_int_equal(ns_model_builder_add_geom(builder, geom, &error), status);
    if (!strstr(error.message, fragment)) {
        fail_msg("\"%s\" does not say \"%s\"", error.message, fragment);
    }
    ns_model_builder_free(builder);
}

static void bad_geometries_are_named(void** state) {
    (void)state;
    ns_geom_def geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.restitution = 1.1;
    expect_geom_error(&geom, NS_ERR_ARGUMENT,
                      "geometry \"g\": restitution must be between 0 and 1");
    geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.stiffness = -2.0;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "stiffness must be zero or positive");
    geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.damping = NAN;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "damping must be finite");
    geom = geom_of(NS_GEOM_SPHERE, "g", NULL);
    geom.vertices = corners, geom.nvertex = 4;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "only meshes, polygons and points have vertices");
    geom = geom_of(NS_GEOM_POLYGON, "g", NULL);
    geom.nvertex = 0;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "vertices must be given");
    geom = geom_of(NS_GEOM_POINTS, "g", NULL);
    geom.vertices = NULL;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "vertices is NULL");
    geom = geom_of(NS_GEOM_POINTS, "g", NULL);
    geom.nvertex = 0;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "vertices must be given");
    geom = geom_of(NS_GEOM_MESH, "g", NULL);
    geom.nvertex = 0;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "mesh must name a file, or give vertices");
    geom = geom_of(NS_GEOM_ELLIPSE, "g", NULL);
    geom.size[1] = 0.0;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "size must be positive");
    geom = geom_of(NS_GEOM_ELLIPSE, "g", NULL);
    geom.size[2] = -0.1;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "size must be zero or positive");
    const double bad[] = {0, 0, 0, 1, NAN, 0, 0, 1, 0};
    geom = geom_of(NS_GEOM_POLYGON, "g", NULL);
    geom.vertices = bad;
    expect_geom_error(&geom, NS_ERR_ARGUMENT, "vertices must be finite");
    const double bow[] = {0, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1, 0};
    geom.vertices = bow, geom.nvertex = 4;
    expect_geom_error(&geom, NS_ERR_ARGUMENT,
                      "geometry \"g\": vertices: the outline crosses or touches itself");
    geom.nvertex = 5000;
    expect_geom_error(&geom, NS_ERR_LIMIT, "too many vertices, 5000");
}

static void there_can_be_too_many(void** state) {
    (void)state;
    // 91 balls in the air: 91 90 / 2 = 4095 pairs; one more is too many.
    for (int more = 0; more < 2; more++) {
        ns_model_builder* builder = new_builder();
        char name[20];
        for (int i = 0; i < 91 + more; i++) {
            snprintf(name, sizeof name, "l%d", i);
            add_link(builder, name, NULL, NS_JOINT_FLOATING, 1.0);
            add_shape(builder, NS_GEOM_SPHERE, NULL, name);
        }
        if (!more) {
            ns_model* model = finish(builder);
            assert_int_equal(ns_model_get_sizes(model).ncontact, 4095);
            ns_model_free(model);
            continue;
        }
        ns_model* model = NULL;
        ns_error error;
        assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_ERR_LIMIT);
        assert_non_null(strstr(error.message, "more than 4096 pairs"));
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
            assert_true(ns_model_get_sizes(model).ncontact > 12);
            assert_true(ns_model_get_sizes(model).nignored > 0);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_robot_touches_the_ground),
        cmocka_unit_test(welded_links_are_one_body),
        cmocka_unit_test(massless_links_are_part_of_the_joint),
        cmocka_unit_test(groups_say_what_touches),
        cmocka_unit_test(links_can_be_excluded),
        cmocka_unit_test(pairs_by_hand_come_first),
        cmocka_unit_test(shapes_that_are_handled),
        cmocka_unit_test(shapes_that_are_not_are_noted_together),
        cmocka_unit_test(numbers_left_to_us_are_chosen),
        cmocka_unit_test(a_tree_moved_by_armature_alone_has_a_stiffness),
        cmocka_unit_test(the_time_step_limits_stiffness),
        cmocka_unit_test(vertices_are_copied),
        cmocka_unit_test(outlines_must_be_simple),
        cmocka_unit_test(geometries_in_pairs_have_parameters),
        cmocka_unit_test(pairs_have_parameters),
        cmocka_unit_test(names_may_be_long),
        cmocka_unit_test(two_pairs_cannot_have_one_name),
        cmocka_unit_test(bad_pairs_are_named),
        cmocka_unit_test(bad_geometries_are_named),
        cmocka_unit_test(there_can_be_too_many),
        cmocka_unit_test(many_geometries_are_quick_or_refused),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
