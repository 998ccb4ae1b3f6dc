// The library of candidate terms of a model: their sites, names, and what they are equivalent to.

#include "discover/discover_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

// A cart with a pole, and a joint and link whose names look like other quantities.
static const char cart[] =
    "<mujoco><worldbody><body name='cart'><joint name='slide' type='slide' axis='1 0 0'/>"
    "<inertial pos='0 0 0' mass='1.5' diaginertia='0.01 0.01 0.01'/>"
    "<body name='force/x'><joint name='a/tau, joint/b' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.4' mass='0.5' diaginertia='0.03 0.03 0.001'/>"
    "</body></body></worldbody></mujoco>";

static ns_fit* open_fit(const char* lines) {
    ns_error error = {0};
    ns_fit* fit = NULL;
    experiment_write("robot.xml", "%s", cart);
    motion m = motion_of(tempdir_path("robot.xml"), 0.02, 20);
    motion_record(&m, "data.csv");
    experiment_write("fit.yaml", "model: robot.xml\ndata: {train: [data.csv]}\n%s", lines);
    must(nsi_fit_open(tempdir_path("fit.yaml"), 1, NULL, &fit, &error), &error);
    return fit;
}

static const nsi_term* find_term(const nsi_term_library* library, const char* name) {
    for (uint32_t k = 0; k < library->terms.count; k++) {
        if (strcmp(library->terms.data[k].name, name) == 0) return &library->terms.data[k];
    }
    return NULL;
}

static const nsi_site* site_of(const nsi_term_library* library, const char* name) {
    const nsi_term* t = find_term(library, name);
    if (!t) fail_msg("no term %s", name);
    return &library->sites.data[t->site];
}

static void terms_know_their_sites(void** state) {
    (void)state;
    ns_fit* fit = open_fit("");
    nsi_term_library library;
    ns_error error = {0};
    must(nsi_term_library_make(fit, NSI_NONE, &library, &error), &error);

    const nsi_site* slide = site_of(&library, "joint/slide/tau: qd");
    assert_int_equal(slide->kind, NSI_SITE_JOINT);
    assert_int_equal(slide->link, 0);
    const nsi_site* hinge = site_of(&library, "joint/a/tau, joint/b/tau: sin(q)");
    assert_int_equal(hinge->kind, NSI_SITE_JOINT);
    assert_int_equal(hinge->link, 1);
    assert_null(find_term(&library, "joint/slide/tau: sin(q)")); // it slides

    const nsi_site* whole = site_of(&library, "link/force/x/force: v");
    assert_int_equal(whole->kind, NSI_SITE_LINK_FORCE);
    assert_int_equal(whole->link, 1);
    assert_int_equal(whole->component, NSI_NONE);
    const nsi_site* axis = site_of(&library, "link/force/x/torque/z: w");
    assert_int_equal(axis->kind, NSI_SITE_LINK_TORQUE);
    assert_int_equal(axis->component, 2);
    assert_int_equal(site_of(&library, "link/*/force: |v| v")->link, NSI_NONE);
    assert_int_equal(site_of(&library, "link/cart/mass")->kind, NSI_SITE_PARAMETER);

    // Damping is a parameter of the model, too, and a shape belongs to its friction.
    const ns_model* model = ns_hybrid_model(fit->hybrid);
    const nsi_term* damping = find_term(&library, "joint/slide/tau: qd");
    assert_string_equal(ns_model_param(model, damping->equivalent)->name, "joint/slide/damping");
    assert_int_equal(find_term(&library, "joint/slide/tau: q^2")->equivalent, NSI_NONE);
    const nsi_term* friction = find_term(&library, "joint/slide/tau: tanh(qd / v0)");
    const nsi_term* shape = &library.terms.data[friction->shape];
    assert_int_equal(shape->kind, NSI_TERM_SHAPE);
    assert_ptr_equal(&library.terms.data[shape->owner], friction);
    nsi_term_library_free(&library);
    ns_fit_free(fit);
}

static void a_joint_can_be_extended(void** state) {
    (void)state;
    ns_fit* fit =
        open_fit("discover: {outputs: [joint/slide/tau], parameters: [link/cart/mass]}\n");
    nsi_term_library plain, extended;
    ns_error error = {0};
    must(nsi_term_library_make(fit, NSI_NONE, &plain, &error), &error);
    must(nsi_term_library_make(fit, 0, &extended, &error), &error);
    assert_null(find_term(&plain, "joint/slide/tau: |q| q"));
    assert_true(find_term(&extended, "joint/slide/tau: |q| q")->extended);
    assert_non_null(find_term(&extended, "joint/slide/tau: sin(q_a/tau, joint/b)"));
    assert_null(find_term(&extended, "joint/slide/tau: sin(3 q)"));
    assert_null(find_term(&extended, "link/cart/force: v"));
    assert_non_null(find_term(&extended, "link/cart/mass"));
    assert_null(find_term(&extended, "link/force/x/mass"));
    assert_int_equal(extended.omitted, 0);
    nsi_term_library_free(&plain);
    nsi_term_library_free(&extended);
    ns_fit_free(fit);
}

static void memory_can_run_out(void** state) {
    (void)state;
    ns_fit* fit =
        open_fit("discover: {outputs: [joint/slide/tau], parameters: [link/cart/mass]}\n");
    ns_allocator own = fit->allocator;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        nsi_term_library library;
        ns_error error = {0};
        fit->allocator = test_allocator(&counter);
        ns_status status = nsi_term_library_make(fit, 0, &library, &error);
        if (status == NS_OK) nsi_term_library_free(&library);
        fit->allocator = own;
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
    }
    ns_fit_free(fit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(terms_know_their_sites),
        cmocka_unit_test(a_joint_can_be_extended),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
