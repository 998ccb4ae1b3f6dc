// What a model holds, found by name; coordinates that are made valid.

#include "neuralsim/model.h"
#include "support/assert.h"

#include <math.h>

// A floating body with a ball joint on it, and a geometry on each.
static ns_model* make_body(void) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_builder_create(NULL, &builder, &error), &error);
    const char* names[] = {"trunk", "head"};
    for (int k = 0; k < 2; k++) {
        ns_link_def link = ns_default_link_def();
        link.name = names[k];
        link.parent = k == 0 ? NULL : names[0];
        link.joint_type = k == 0 ? NS_JOINT_FLOATING : NS_JOINT_SPHERICAL;
        link.mass = 1.0;
        link.inertia[0] = link.inertia[1] = link.inertia[2] = 0.1;
        must(ns_model_builder_add_link(builder, &link, &error), &error);
        ns_geom_def geom = ns_default_geom_def();
        geom.name = k == 0 ? "belly" : "nose";
        geom.link = names[k];
        geom.type = NS_GEOM_SPHERE;
        geom.size[0] = 0.1;
        must(ns_model_builder_add_geom(builder, &geom, &error), &error);
    }
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    return model;
}

static void names_lead_to_numbers(void** state) {
    (void)state;
    ns_model* model = make_body();
    assert_int_equal(ns_model_find_link(model, "head"), 1);
    assert_int_equal(ns_model_find_joint(model, "trunk_joint"), 0);
    assert_int_equal(ns_model_find_geom(model, "nose"), 1);
    assert_int_equal(ns_model_find_geom(model, "head"), UINT32_MAX);
    ns_model_free(model);
}

static void quaternions_become_unit_length(void** state) {
    (void)state;
    ns_model* model = make_body();
    double q[11];
    ns_model_default_q(model, q);
    close_to("unit already", ns_model_normalize_q(model, q), 0.0, 0.0);

    // Position stays; the larger of the two deviations is returned
    q[0] = 5.0, q[3] = 2.0, q[7] = 0.0, q[8] = 1.5;
    close_to("deviation", ns_model_normalize_q(model, q), 1.0, 1e-15);
    all_close(q, (const double[]){5, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0}, 11, 1e-15);

    // A quaternion without a direction is left alone
    q[8] = 0.0;
    assert_true(ns_model_normalize_q(model, q) < 0.0);
    q[8] = NAN;
    assert_true(ns_model_normalize_q(model, q) < 0.0);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_lead_to_numbers),
        cmocka_unit_test(quaternions_become_unit_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
