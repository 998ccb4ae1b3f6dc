// Which geometries become pairs, under which names, with which numbers and parameters; what is
// refused or noted.

#include "model/model_data.h"
#include "model/pairs_rig.h"
#include "support/assert.h"

#include <math.h>
#include <stdio.h>

// ---- building ----------------------------------------------------------------------------------

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
    contact.mu_static = 0.2, contact.margin = 0.0, contact.mu_torsion = 0.03;
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
    assert_true(held->mu_torsion == 0.03 && held->mu_rolling == 0.0);
    ns_model_free(model);
}

// ---- shapes ------------------------------------------------------------------------------------

static void shapes_that_are_handled(void** state) {
    (void)state;
    // Rows and columns in the order of ns_geom_type.
    static const char* const table[] = {
        "xxxxxxx...x", // sphere
        "xxxxxxx...x", // capsule
        "xxxxxxxxx.x", // cylinder
        "xxxxxxx...x", // box
        "xxxx.xxxxx.", // plane
        "xxxxxxx...x", // mesh
        "xxxxxxx...x", // ellipsoid
        "..x.x......", // polygon
        "..x.x......", // ellipse
        "....x......", // points
        "xxxx.xx....", // height field
    };
    for (uint32_t a = 0; a <= NS_GEOM_HFIELD; a++) {
        for (uint32_t b = 0; b <= NS_GEOM_HFIELD; b++) {
            ns_geom_def x = geom_of((ns_geom_type)a, "x", NULL);
            ns_geom_def y = geom_of((ns_geom_type)b, "y", NULL);
            assert_int_equal(nsi_geoms_can_touch(&x, &y), table[a][b] == 'x');
        }
    }
    ns_geom_def mesh = geom_of(NS_GEOM_MESH, "m", NULL), plane = geom_of(NS_GEOM_PLANE, "p", NULL);
    mesh.nvertex = 0;
    assert_false(nsi_geoms_can_touch(&mesh, &plane));
    // Many vertices.
    ns_geom_def box = geom_of(NS_GEOM_BOX, "b", NULL);
    mesh.nvertex = NSI_MAX_HULL_VERTICES;
    assert_true(nsi_geoms_can_touch(&mesh, &box));
    mesh.nvertex++;
    assert_true(nsi_geoms_can_touch(&mesh, &plane) && !nsi_geoms_can_touch(&box, &mesh));
}

static void shapes_that_are_not_are_noted_together(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    static const char* const names[] = {"a", "b", "c"};
    add_shape(builder, NS_GEOM_BOX, "step", NULL);
    add_shape(builder, NS_GEOM_PLANE, "floor", NULL);
    for (int k = 0; k < 3; k++) {
        add_link(builder, names[k], NULL, NS_JOINT_FLOATING, 1.0);
        add_shape(builder, NS_GEOM_ELLIPSE, NULL, names[k]);
    }
    ns_geom_def mesh = geom_of(NS_GEOM_MESH, "shell", "c");
    mesh.nvertex = 0, mesh.mesh = "shell.stl";
    add_geom(builder, &mesh);
    assert_int_equal(ns_model_builder_add_ignored(builder, "something else", NULL), NS_OK);
    ns_model* model = finish(builder);
    EXPECT_PAIRS(model, "a_geom0:floor", "b_geom0:floor", "c_geom0:floor");
    static const char* const notes[] = {
        "something else",
        "contact between box and ellipse geometries is not simulated (3 pairs, the first is "
        "a_geom0:step); changes the motion where they touch",
        "contact between box and mesh (without vertices) geometries is not simulated (1 pair, "
        "shell:step); changes the motion where they touch",
        "contact between plane and mesh (without vertices) geometries is not simulated (1 pair, "
        "shell:floor); changes the motion where they touch",
        "contact between ellipse and ellipse geometries is not simulated (3 pairs, the first is "
        "b_geom0:a_geom0); changes the motion where they touch",
        "contact between ellipse and mesh (without vertices) geometries is not simulated (2 "
        "pairs, the first is shell:a_geom0); changes the motion where they touch",
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
        {NS_GEOM_HFIELD, {"half/x", "half/y", "height"}, "m"},
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
        bool hfield = cases[k].type == NS_GEOM_HFIELD; // which touches no plane
        add_shape(builder, hfield ? NS_GEOM_SPHERE : NS_GEOM_PLANE, "p", NULL);
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
        assert_int_equal(model->contacts[0].param, at + 2 * NSI_GEOM_SIZE + count + hfield);
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
        {"contact/s:p/baumgarte_beta", "", 0.2, 0.0, 1.0, NS_TRANSFORM_BOX},
        {"contact/s:p/max_push", "m/s", 2.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/cfm", "", 1e-4, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/margin", "m", 0.02, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/mu_torsion", "m", 0.0, 0.0, inf, NS_TRANSFORM_IDENTITY},
        {"contact/s:p/mu_rolling", "m", 0.0, 0.0, inf, NS_TRANSFORM_IDENTITY},
        {"contact/s:p/stiffness", "N/m^exponent", 1e5, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/damping", "s/m", 1.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/exponent", "", 1.5, 1.0, inf, NS_TRANSFORM_IDENTITY},
        {"contact/s:p/mu_static", "", 1.0, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/transition_velocity", "m/s", 0.05, 0.0, inf, NS_TRANSFORM_LOG},
        {"contact/s:p/baumgarte_alpha", "", 1.0, 0.0, 1.0, NS_TRANSFORM_BOX},
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
        cmocka_unit_test(geometries_in_pairs_have_parameters),
        cmocka_unit_test(pairs_have_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
