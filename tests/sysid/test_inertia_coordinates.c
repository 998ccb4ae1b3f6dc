// Whole bodies: inertias that stay physical, in any order.

#include "model/model_data.h"
#include "support/assert.h"
#include "sysid/parameter_map.h"
#include "sysid/parameter_rig.h"

#include <math.h>
#include <stdlib.h>

// Smallest eigenvalue of a symmetric 4 x 4 matrix by Jacobi rotations.
static double least_eigenvalue(double A[4][4]) {
    for (int sweep = 0; sweep < 60; sweep++) {
        for (int p = 0; p < 4; p++) {
            for (int q = p + 1; q < 4; q++) {
                if (A[p][q] == 0.0) continue;
                double theta = 0.5 * atan2(2.0 * A[p][q], A[q][q] - A[p][p]);
                double c = cos(theta), s = sin(theta);
                for (int k = 0; k < 4; k++) {
                    double a = A[k][p], b = A[k][q];
                    A[k][p] = c * a - s * b;
                    A[k][q] = s * a + c * b;
                }
                for (int k = 0; k < 4; k++) {
                    double a = A[p][k], b = A[q][k];
                    A[p][k] = c * a - s * b;
                    A[q][k] = s * a + c * b;
                }
            }
        }
    }
    double least = A[0][0];
    for (int k = 1; k < 4; k++) least = fmin(least, A[k][k]);
    return least;
}

// Is there a body of this mass, centre and inertia? There is when its pseudo-inertia is positive.
static bool is_physical(const double body[10]) {
    const double *c = body + 1, *I = body + 4;
    double half = 0.5 * (I[0] + I[1] + I[2]), m = body[0];
    double S[3][3] = {
        {half - I[0], -I[3], -I[4]}, {-I[3], half - I[1], -I[5]}, {-I[4], -I[5], half - I[2]}};
    double J[4][4];
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) J[i][j] = S[i][j] + m * c[i] * c[j];
        J[i][3] = J[3][i] = m * c[i];
    }
    J[3][3] = m;
    return m > 0.0 && least_eigenvalue(J) > 0.0;
}

// Order of a body among the variables of "link/link1/mass", "com/*", "inertia/*": as in the model.
static void whole_bodies_stay_physical(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/mass"), ask("link/link1/com/*"),
                                        ask("link/link1/inertia/*")};
    ns_parameters* v = make(requests, 3, NULL, 0);
    assert_int_equal(ns_parameters_count(v), 10);
    for (uint32_t k = 0; k < 10; k++) {
        assert_int_equal(ns_parameters_at(v, k)->transform, NS_PARAMETER_INERTIA);
    }
    double *scratch = scratch_of(v), x[10], z[10], back[10], again[10], p[10];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, NULL, scratch);
    for (int k = 0; k < 10; k++) assert_near(back[k], x[k], 1e-14, "start");
    ns_rng rng = ns_rng_seed(3);
    for (int trial = 0; trial < 500; trial++) {
        for (int k = 0; k < 10; k++) z[k] = ns_rng_normal(&rng);
        nsi_parameters_from_z(v, z, x, NULL, scratch);
        assert_true(is_physical(x));
        nsi_parameters_params(v, 0, x, p, NULL, scratch);
        assert_null(nsi_parameters_fault(v, 0, p));
        nsi_parameters_to_z(v, x, back);
        for (int k = 0; k < 10; k++) assert_near(back[k], z[k], 1e-7, "coordinates");
        nsi_parameters_from_z(v, back, again, NULL, scratch);
        for (int k = 0; k < 10; k++) assert_near(again[k], x[k], 1e-9, "body");
        if (trial < 50) check_derivatives(v, z);
    }
    free(scratch);
    ns_parameters_free(v);
}

// What one asks for can come in any order.
static void the_order_of_a_body_does_not_matter(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/inertia/*"), ask("joint/joint0/damping"),
                                        ask("link/link1/com/*"), ask("link/link1/mass")};
    requests[1].how.initial = 0.1;
    ns_parameters* v = make(requests, 4, NULL, 0);
    double *scratch = scratch_of(v), x[11], z[11], back[11];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, NULL, scratch);
    for (uint32_t k = 0; k < 11; k++) assert_near(back[k], x[k], 1e-14, "body");
    free(scratch);
    ns_parameters_free(v);
}

// A thin rod has no inertia about its axis, and no logarithm of it: it is thickened a little.
static void rods_on_the_border_are_taken_in(void** state) {
    (void)state;
    ns_model_builder* builder = NULL;
    ns_model* rod = NULL;
    ns_error error = {0};
    ns_link_def def = ns_default_link_def();
    def.name = "rod";
    def.joint_type = NS_JOINT_REVOLUTE;
    def.axis[0] = 0, def.axis[1] = 1, def.axis[2] = 0;
    def.mass = 2.0, def.com[2] = -0.5;
    def.inertia[0] = def.inertia[1] = 0.1;
    assert_int_equal(ns_model_builder_create(NULL, &builder, NULL), NS_OK);
    assert_int_equal(ns_model_builder_add_link(builder, &def, &error), NS_OK);
    assert_int_equal(ns_model_builder_finish(builder, &rod, &error), NS_OK);
    ns_model_builder_free(builder);
    nsi_parameter_request requests[] = {ask("link/rod/mass"), ask("link/rod/com/*"),
                                        ask("link/rod/inertia/*")};
    ns_parameters* v = NULL;
    assert_int_equal(nsi_parameters_read(&(ns_variant){.model = rod, .options = &no_options}, 1,
                                         "e.yaml", requests, 3, NULL, 0, NULL, &v, &error),
                     NS_OK);
    double *scratch = scratch_of(v), x[10], z[10], back[10];
    nsi_parameters_initial(v, x);
    nsi_parameters_to_z(v, x, z);
    nsi_parameters_from_z(v, z, back, NULL, scratch);
    for (int k = 0; k < 10; k++) assert_near(back[k], x[k], 1e-7, "rod");
    free(scratch);
    ns_parameters_free(v);
    ns_model_free(rod);
}

static void faults_name_the_link(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/inertia/yy"), ask("joint/joint0/damping"),
                                        ask("link/link0/mass")};
    ns_parameters* v = make(requests, 3, NULL, 0);
    // In the order of the model: mass of link0, damping, inertia of link1.
    double good[] = {1.0, 0.1, 0.035}, tilted[] = {1.0, 0.1, -0.5}, negative[] = {-1.0, 0.1, 0.035};
    double nothing[] = {1.0, NAN, 0.035}, far[] = {1.0, 0.1, INFINITY};
    assert_null(nsi_parameters_fault(v, 0, good));
    assert_string_equal(nsi_parameters_fault(v, 0, tilted), "link1");
    assert_string_equal(nsi_parameters_fault(v, 0, negative), "link0");
    assert_string_equal(nsi_parameters_fault(v, 0, nothing), "joint/joint0/damping");
    assert_string_equal(nsi_parameters_fault(v, 0, far), "link/link1/inertia/yy");
    double below[] = {1.0, -0.1, 0.035}; // of what the model can have; a formula leads there
    assert_string_equal(nsi_parameters_fault(v, 0, below), "joint/joint0/damping");
    ns_parameters_free(v);
}

// Whole bodies are physical with any coordinates: there is nothing to repair.
static void whole_bodies_need_no_repair(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/link1/mass"), ask("link/link1/com/*"),
                                        ask("link/link1/inertia/*")};
    ns_parameters* v = make(requests, 3, NULL, 0);
    double *scratch = scratch_of(v), z[10], before[10], natural[10], p[10];
    ns_rng rng = ns_rng_seed(5);
    for (int k = 0; k < 10; k++) z[k] = before[k] = ns_rng_normal(&rng);
    assert_true(nsi_parameters_repair(v, z, natural, p, scratch));
    assert_memory_equal(z, before, sizeof z);
    free(scratch);
    ns_parameters_free(v);
}

// ---- some of the ten numbers ---------------------------------------------------------------------

static const char thin[] =
    "<mujoco><worldbody><body name='base'><joint name='base' type='%s' axis='%s'/>"
    "<inertial pos='0 0 0' mass='1' diaginertia='0.1 0.1 0.1'/>"
    "<body name='rod'><joint name='rod' type='%s' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.3' mass='0.2' diaginertia='0.006 0.0059 0.001'/></body></body>"
    "</worldbody></mujoco>";

// The rod of `thin` with two joints, and parameters of it.
static ns_parameters* rod_on(const char* base, const char* axis, const char* joint,
                             const nsi_parameter_request* requests, uint32_t count,
                             ns_model** model) {
    char text[1000];
    ns_error error = {0};
    snprintf(text, sizeof text, thin, base, axis, joint);
    must(ns_model_parse(text, strlen(text), "rod.xml", NULL, model, &error), &error);
    ns_parameters* v = NULL;
    must(nsi_parameters_read(&(ns_variant){.model = *model, .options = &no_options}, 1, "e.yaml",
                             requests, count, NULL, 0, NULL, &v, &error),
         &error);
    return v;
}

// Moments about axes that a link never turns about restrict nothing: the same yy above xx + zz is a body
// where the rod turns about y alone, and none where it turns otherwise, too.
static void moments_that_no_motion_shows_follow(void** state) {
    (void)state;
    static const struct {
        const char *base, *axis, *joint;
        bool follows;
    } cases[] = {{"slide", "1 0 0", "hinge", true},  {"hinge", "0 1 0", "hinge", true},
                 {"hinge", "0 -1 0", "hinge", true}, {"hinge", "1 0 0", "hinge", false},
                 {"slide", "1 0 0", "ball", false},  {"hinge", "0 1 1", "hinge", false}};
    nsi_parameter_request requests[] = {ask("link/rod/mass"), ask("link/rod/inertia/yy")};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_model* model = NULL;
        ns_parameters* v =
            rod_on(cases[k].base, cases[k].axis, cases[k].joint, requests, 2, &model);
        double beyond[] = {0.32, 0.0096}, negative[] = {0.32, -1e-3};
        const char* fault = nsi_parameters_fault(v, 0, beyond);
        if (!fault != cases[k].follows) fail_msg("case %zu: %s", k, fault ? fault : "no fault");
        assert_non_null(nsi_parameters_fault(v, 0, negative));

        // What is written is a body, with the moment that the motion shows as it is.
        nsi_following_moments moments;
        assert_true(nsi_parameters_following(v, 0, beyond, 0, &moments));
        assert_false(nsi_parameters_following(v, 0, beyond, 1, &moments));
        assert_false(moments.moved[1]);
        assert_int_equal(moments.moved[0], cases[k].follows);
        assert_int_equal(moments.moved[2], cases[k].follows);
        assert_string_equal(moments.name[2], "link/rod/inertia/zz");
        if (cases[k].follows) {
            assert_null(nsi_inertia_fault(0.32, moments.value));
            assert_near(moments.value[1], 0.0096, 1e-15, "yy");
            assert_near(moments.value[0] + moments.value[2], 0.0096, 1e-9, "the nearest");
        }
        ns_parameters_free(v);
        ns_model_free(model);
    }
}

// One moment beside fixed ones that the motion shows: |xx - zz| and xx + zz are bounds.
static void a_single_moment_has_a_range(void** state) {
    (void)state;
    nsi_parameter_request request = ask("link/rod/inertia/yy");
    ns_model* model = NULL;
    ns_parameters* v = rod_on("slide", "1 0 0", "ball", &request, 1, &model);
    const ns_parameter_info* yy = ns_parameters_at(v, 0);
    assert_int_equal(yy->transform, NS_PARAMETER_BOX);
    assert_near(yy->lower, 0.005, 1e-6, "xx - zz");
    assert_near(yy->upper, 0.007, 1e-6, "xx + zz");
    ns_parameters_free(v);
    ns_model_free(model);

    // Where the others follow it has none.
    v = rod_on("slide", "1 0 0", "hinge", &request, 1, &model);
    assert_int_equal(ns_parameters_at(v, 0)->transform, NS_PARAMETER_LOG);
    ns_parameters_free(v);
    ns_model_free(model);
}

// A step of two moments out of what is physical ends at the boundary; the third is fixed.
static void steps_go_along_the_boundary(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask("link/rod/inertia/xx"), ask("link/rod/inertia/yy")};
    ns_model* model = NULL;
    ns_parameters* v = rod_on("slide", "1 0 0", "ball", requests, 2, &model);
    double *scratch = scratch_of(v), natural[2], p[2], z[2], before[2];
    double inside[] = {0.0065, 0.006}, outside[] = {0.02, 0.012}, negative[] = {1e-5, 1e-6};
    nsi_parameters_to_z(v, inside, z);
    memcpy(before, z, sizeof z);
    assert_true(nsi_parameters_repair(v, z, natural, p, scratch));
    assert_memory_equal(z, before, sizeof z);

    nsi_parameters_to_z(v, outside, z);
    assert_true(nsi_parameters_repair(v, z, natural, p, scratch));
    nsi_parameters_from_z(v, z, natural, NULL, scratch);
    assert_near(natural[0] - natural[1], 0.001, 1e-6, "xx - yy = zz");
    assert_near(natural[0] + natural[1], 0.032, 1e-6, "the nearest");
    nsi_parameters_to_z(v, negative, z); // xx + yy >= zz
    assert_true(nsi_parameters_repair(v, z, natural, p, scratch));
    nsi_parameters_from_z(v, z, natural, NULL, scratch);
    assert_near(natural[0] + natural[1], 0.001, 1e-6, "xx + yy = zz");
    free(scratch);
    ns_parameters_free(v);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_bodies_stay_physical),
        cmocka_unit_test(the_order_of_a_body_does_not_matter),
        cmocka_unit_test(rods_on_the_border_are_taken_in),
        cmocka_unit_test(faults_name_the_link),
        cmocka_unit_test(moments_that_no_motion_shows_follow),
        cmocka_unit_test(a_single_moment_has_a_range),
        cmocka_unit_test(steps_go_along_the_boundary),
        cmocka_unit_test(whole_bodies_need_no_repair),
    };
    return cmocka_run_group_tests(tests, load_pendulum, free_pendulum);
}
