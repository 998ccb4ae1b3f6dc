// Joints that nothing resists are refused.

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/modelfile.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Finish; the message must name this joint, or NULL when all is well.
static void expect_unresisted(ns_model_builder* builder, const char* joint) {
    ns_model* model = NULL;
    ns_error error = {0};
    ns_status status = ns_model_builder_finish(builder, &model, &error);
    if (!joint) {
        must(status, &error);
        ns_model_free(model);
    } else {
        assert_int_equal(status, NS_ERR_ARGUMENT);
        assert_null(model);
        char wanted[100];
        snprintf(wanted, sizeof wanted, "joint \"%s\": no inertia resists its motion", joint);
        if (!strstr(error.message, wanted)) fail_msg("%s, not %s", error.message, wanted);
    }
    ns_model_builder_free(builder);
}

static ns_link_def massless(const char* name, const char* parent, ns_joint_type type,
                            const double axis[3]) {
    ns_link_def link = ns_default_link_def();
    link.name = name;
    link.parent = parent;
    link.joint_type = type;
    memcpy(link.axis, axis, sizeof link.axis);
    return link;
}

static const double x_axis[3] = {1, 0, 0}, y_axis[3] = {0, 1, 0}, z_axis[3] = {0, 0, 1};

static void a_joint_must_move_mass(void** state) {
    (void)state;
    // A massless link at the end.
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    add(builder, &link);
    link = massless("b", "a", NS_JOINT_PRISMATIC, x_axis);
    add(builder, &link);
    expect_unresisted(builder, "b_joint");

    // Armature helps, and so does mass further out.
    builder = new_builder();
    link.parent = NULL;
    link.armature = 0.1;
    add(builder, &link);
    expect_unresisted(builder, NULL);

    builder = new_builder();
    link.armature = 0.0;
    add(builder, &link);
    link = massless("weld", "b", NS_JOINT_FIXED, x_axis);
    link.mass = 1.0;
    add(builder, &link);
    expect_unresisted(builder, NULL);
}

static void mass_on_the_axis_does_not_resist_turning(void** state) {
    (void)state;
    ns_link_def link = massless("a", NULL, NS_JOINT_REVOLUTE, z_axis);
    link.mass = 1.0;
    link.com[2] = 0.7;
    ns_model_builder* builder = new_builder();
    add(builder, &link);
    expect_unresisted(builder, "a_joint");

    builder = new_builder();
    link.com[0] = 0.001;
    add(builder, &link);
    expect_unresisted(builder, NULL);

    // A point mass cannot be turned about the line to it, so neither a ball nor a free joint will
    // do.
    for (ns_joint_type type = NS_JOINT_SPHERICAL; type <= NS_JOINT_FLOATING; type++) {
        builder = new_builder();
        link.joint_type = type;
        add(builder, &link);
        expect_unresisted(builder, "a_joint");
    }
}

static void two_joints_must_not_do_the_same(void** state) {
    (void)state;
    // A planar base on massless links is fine, in any direction.
    for (int parallel = 0; parallel < 2; parallel++) {
        ns_model_builder* builder = new_builder();
        const double oblique[3] = {0.6, 0.8, 0.0};
        ns_link_def link = massless("x", NULL, NS_JOINT_PRISMATIC, oblique);
        add(builder, &link);
        link = massless("y", "x", NS_JOINT_PRISMATIC, parallel ? oblique : y_axis);
        add(builder, &link);
        link = rod("body", "y");
        add(builder, &link);
        link = rod("arm", "body");
        link.origin.position[2] = -1.0;
        add(builder, &link);
        // The one further in is found: the other moves the mass.
        expect_unresisted(builder, parallel ? "x_joint" : NULL);
    }

    // Three hinges in one point are a ball; a fourth is too many.
    static const double* const axes[4] = {x_axis, y_axis, z_axis, x_axis};
    static const char* const names[4] = {"a", "b", "c", "d"};
    for (uint32_t count = 3; count <= 4; count++) {
        ns_model_builder* builder = new_builder();
        for (uint32_t i = 0; i < count; i++) {
            ns_link_def link =
                massless(names[i], i > 0 ? names[i - 1] : NULL, NS_JOINT_REVOLUTE, axes[i]);
            if (i + 1 == count) {
                link.mass = 1.0;
                link.inertia[0] = 0.01, link.inertia[1] = 0.02, link.inertia[2] = 0.025;
            }
            add(builder, &link);
        }
        expect_unresisted(builder, count == 4 ? "a_joint" : NULL);
    }
}

static void followers_may_carry_the_mass(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = massless("knob", NULL, NS_JOINT_REVOLUTE, z_axis);
    add(builder, &link);
    link = rod("hand", NULL);
    link.mimic = "knob_joint";
    add(builder, &link);
    expect_unresisted(builder, NULL);
}

static void huge_masses_are_said_to_be(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    link.mass = 1e300;
    link.com[2] = 1e10;
    add(builder, &link);
    ns_model* model = NULL;
    ns_error error;
    assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "too large to compute with"));
    ns_model_builder_free(builder);
}

// The inverse of a positive definite matrix (n x n), by Gauss-Jordan.
static void invert(uint32_t n, double* A) {
    for (uint32_t j = 0; j < n; j++) {
        double pivot = A[j * n + j];
        A[j * n + j] = 1.0;
        for (uint32_t k = 0; k < n; k++) A[j * n + k] /= pivot;
        for (uint32_t i = 0; i < n; i++) {
            double factor = A[i * n + j];
            if (i == j) continue;
            A[i * n + j] = 0.0;
            for (uint32_t k = 0; k < n; k++) A[i * n + k] -= factor * A[j * n + k];
        }
    }
}

// What forces of a joint feel is 1 / (M^-1)_kk: the bodies that carry the joint give way.
static void resistance_is_that_of_the_inverse_mass_matrix(void** state) {
    (void)state;
    residual r = {.name = "resistance against 1 / (M^-1)_kk", .tolerance = 1e-9};
    for (uint32_t n = 0; n < 40; n++) {
        random_tree tree;
        random_tree_options o = {.seed = 70 + n, .nlink = 1 + n % 7, .armature = n % 2 == 0};
        random_tree_make(&tree, &o);
        for (uint32_t i = 0; i < tree.nlink; i++) { // whose position here is of its own making
            bool ball = tree.link[i].joint_type == NS_JOINT_SPHERICAL;
            if (ball) tree.link[i].joint_type = NS_JOINT_REVOLUTE;
        }
        ns_model* model = random_tree_build(&tree, NULL);
        evaluator* e = evaluator_create(model, (const char*[]){"mass_matrix", NULL});
        uint32_t nv = e->sizes.nv, bad;
        double* felt = doubles(tree.nlink);
        ns_error error = {0};
        must(nsi_model_check_mobility(model, felt, &bad, &error), &error);

        // The position that mobility.c chooses.
        for (uint32_t i = 0; i < tree.nlink; i++) {
            const nsi_link* l = &model->links[i];
            if (l->nq == 1) e->q[l->q] = 0.4 + 0.5 * sin(1.7 * i);
            if (l->nq == 7) memcpy(e->q + l->q + 3, l->def.origin.quaternion, 4 * sizeof *e->q);
        }
        evaluator_run(e);
        double* inverse = doubles((size_t)nv * nv + 1);
        if (nv > 0) {
            memcpy(inverse, evaluator_get(e, "mass_matrix/0/0"), sizeof *inverse * nv * nv);
            invert(nv, inverse);
        }
        for (uint32_t i = 0; i < tree.nlink; i++) {
            const nsi_link* l = &model->links[i];
            if (l->nv == 0) assert_true(felt[i] == 0.0);
            if (l->nv != 1) continue; // a floating joint's velocities have other axes there
            double want = 1.0 / inverse[l->v * nv + l->v];
            residual_add(&r, felt[i], want, want);
        }
        free(inverse), free(felt);
        evaluator_free(e);
        ns_model_free(model);
    }
    residual_check(&r);
}

// Accelerations at the reference coordinates, without velocities and gravity, are those of the simulation.
static void accelerations_are_those_of_the_simulation(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><option gravity='0 0 0'/><worldbody>"
        "<body pos='0 0 1'><joint name='h1' axis='0 1 0.2' ref='0.4' armature='0.01'/>"
        "<inertial pos='0.1 0 0.05' mass='1.2' diaginertia='0.02 0.03 0.025'/>"
        "<body pos='0.4 0 0'><joint name='s1' type='slide' axis='0.3 0 1' ref='0.2'/>"
        "<joint name='h2' axis='1 0 0' ref='-0.3'/>"
        "<inertial pos='0 0.1 0.1' mass='0.7' diaginertia='0.012 0.01 0.015'/>"
        "<body pos='0 0 0.3'><joint name='b1' type='ball'/>"
        "<inertial pos='0.02 0.03 0.1' mass='0.5' diaginertia='0.006 0.008 0.007'/></body>"
        "</body></body>"
        "</worldbody></mujoco>");
    static const char* const observe[] = {"qdd", NULL};
    evaluator* e = evaluator_create(model, observe);
    ns_model_default_q(model, e->q);
    double push[16], got[16];
    uint32_t nv = ns_model_get_sizes(model).nv;
    for (uint32_t k = 0; k < nv; k++) e->tau[k] = push[k] = sin(3.0 * k + 1.0);
    evaluator_run(e);
    ns_error error;
    must(nsi_model_accelerate(model, push, got, &error), &error);
    residual r = {.name = "accelerations", .tolerance = 1e-12};
    for (uint32_t k = 0; k < nv; k++) {
        double want = *evaluator_get(e, "qdd/%u", k);
        residual_add(&r, got[k], want, fabs(want) + 1.0);
    }
    residual_check(&r);
    evaluator_free(e);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_joint_must_move_mass),
        cmocka_unit_test(mass_on_the_axis_does_not_resist_turning),
        cmocka_unit_test(two_joints_must_not_do_the_same),
        cmocka_unit_test(followers_may_carry_the_mass),
        cmocka_unit_test(huge_masses_are_said_to_be),
        cmocka_unit_test(resistance_is_that_of_the_inverse_mass_matrix),
        cmocka_unit_test(accelerations_are_those_of_the_simulation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
