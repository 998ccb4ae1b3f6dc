// Gradient checks: correct gradients pass, wrong ones are reported, kinks are neither.

#include "neuralsim/gradcheck.h"
#include "sim/system.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <string.h>

// A pendulum with two joints, or the same with another mass.
static ns_model* make_pendulum(double mass, const ns_allocator* allocator) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_error error;
    must(ns_model_builder_create(allocator, &builder, &error), &error);
    const char* names[] = {"upper", "lower"};
    for (int k = 0; k < 2; k++) {
        ns_link_def link = ns_default_link_def();
        link.name = names[k];
        link.parent = k == 0 ? NULL : names[0];
        link.joint_type = NS_JOINT_REVOLUTE;
        link.axis[0] = 0.0, link.axis[1] = 1.0, link.axis[2] = 0.0;
        link.origin.position[2] = k == 0 ? 0.0 : -0.5;
        link.mass = mass, link.com[2] = -0.25;
        link.inertia[0] = link.inertia[1] = 0.02;
        link.damping = 0.1;
        must(ns_model_builder_add_link(builder, &link, &error), &error);
    }
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    return model;
}

static ns_system* make_system(const ns_model* model, const ns_blueprint* blueprint) {
    static const char* const free_params[] = {"link/*/mass", "joint/*/damping"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.nfree = 2;
    options.blueprint = blueprint;
    options.backend = NS_BACKEND_INTERP;
    ns_system* system = NULL;
    ns_error error;
    must(ns_system_create(model, &options, &system, &error), &error);
    return system;
}

// A torque at the upper joint with a kink where it does not move.
static ns_blueprint* make_kink(void) {
    static const char text[] = "formulas:\n"
                               "  - name: ratchet\n"
                               "    output: joint/upper_joint/tau\n"
                               "    formula: 'b * max(\"qd/0\", 0)'\n"
                               "    coefficients: {b: -3}\n";
    ns_blueprint* blueprint = NULL;
    ns_error error;
    must(ns_blueprint_parse(text, strlen(text), "kink", NULL, &blueprint, &error), &error);
    return blueprint;
}

static const ns_gradcheck_input* find_input(const ns_gradcheck_result* r, const char* name) {
    for (uint32_t k = 0; k < r->ninput; k++) {
        if (strcmp(r->inputs[k].name, name) == 0) return &r->inputs[k];
    }
    fail_msg("there is no input %s", name);
    return NULL;
}

static ns_gradcheck_result* check(const ns_system* system, const ns_gradcheck_options* options) {
    ns_gradcheck_result* result = NULL;
    ns_error error;
    must(ns_gradcheck(system, options, &result, &error), &error);
    assert_int_equal(result->ok + result->zero + result->biased + result->unreliable + result->fail,
                     result->ninput);
    return result;
}

// ---- verdicts ----------------------------------------------------------------------------------

static void correct_gradients_pass(void** state) {
    (void)state;
    ns_model* model = make_pendulum(1.0, NULL);
    ns_system* system = make_system(model, NULL);
    ns_gradcheck_result* r = check(system, NULL);
    ns_system_free(system);
    ns_model_free(model); // the result owns its names

    assert_int_equal(r->ninput, 4 + 2 + 4);
    assert_int_equal(r->ok, r->ninput);
    assert_false(r->is_zero || r->can_touch);
    assert_int_equal(r->contact_steps, 0);
    assert_true(r->largest_error < 1e-6);
    for (uint32_t k = 0; k < r->ninput; k++) {
        const ns_gradcheck_input* in = &r->inputs[k];
        assert_true(in->reverse != 0.0 && isfinite(in->uncertainty));
        close_relative(in->forward, in->reverse, 1e-12);
        close_relative(in->difference, in->reverse, 1e-6);
    }
    assert_int_equal(find_input(r, "q0")->kind, NS_GRADCHECK_STATE);
    assert_int_equal(find_input(r, "tau1")->kind, NS_GRADCHECK_CONTROL);
    assert_int_equal(find_input(r, "link/upper/mass")->kind, NS_GRADCHECK_PARAMETER);
    ns_gradcheck_free(r);
    ns_gradcheck_free(NULL);
}

// A ball that falls on the floor is checked the same whichever way its contact is found.
static void contacts_found_at_run_time_count(void** state) {
    (void)state;
    ns_model* model = modelfile_parse("<mujoco><option timestep='0.001'/><worldbody>"
                                      "<geom type='plane' size='5 5 1'/><body pos='0 0 .1'>"
                                      "<freejoint/><geom size='.1' mass='1'/></body></worldbody>"
                                      "</mujoco>");
    const ns_detection ways[2] = {NS_DETECTION_TRACED, NS_DETECTION_RUN_TIME};
    uint32_t steps[2];
    for (int k = 0; k < 2; k++) {
        ns_system_options options = ns_default_system_options();
        options.detection = ways[k];
        ns_gradcheck_options how = ns_default_gradcheck_options();
        const double q0[7] = {0.0, 0.0, 0.105, 1.0, 0.0, 0.0, 0.0};
        const double qd0[6] = {0.5, 0.0, -1.0, 0.0, 5.0, 0.0};
        how.q0 = q0;
        how.qd0 = qd0;
        ns_system* system = NULL;
        ns_error error;
        must(ns_system_create(model, &options, &system, &error), &error);
        ns_gradcheck_result* r = check(system, &how);
        assert_int_equal(r->fail, 0);
        assert_true(r->contact_steps > 0);
        steps[k] = r->contact_steps;
        ns_gradcheck_free(r);
        ns_system_free(system);
    }
    assert_true(steps[1] >= steps[0]); // also those that are near
    ns_model_free(model);
}

static void swap_programs(ns_program* a[NSI_FORMS], ns_program* b[NSI_FORMS]) {
    for (int f = 0; f < NSI_FORMS; f++) {
        ns_program* own = a[f];
        a[f] = b[f];
        b[f] = own;
    }
}

// Reverse mode of another robot: forward mode disagrees.
static void a_wrong_reverse_derivative_fails(void** state) {
    (void)state;
    ns_model *model = make_pendulum(1.0, NULL), *other_model = make_pendulum(1.01, NULL);
    ns_system *system = make_system(model, NULL), *other = make_system(other_model, NULL);
    swap_programs(system->vjp, other->vjp);
    // Masses are inputs of these programs, which are the same
    ns_gradcheck_result* same = check(system, NULL);
    assert_int_equal(same->fail, 0);
    ns_gradcheck_free(same);
    ns_system_free(system);
    ns_system_free(other);

    // With the mass built in, the programs differ
    ns_error error;
    must(ns_system_create(model, NULL, &system, &error), &error);
    must(ns_system_create(other_model, NULL, &other, &error), &error);
    swap_programs(system->vjp, other->vjp);
    ns_gradcheck_result* r = check(system, NULL);
    assert_true(r->fail > 0);
    const ns_gradcheck_input* torque = find_input(r, "tau0");
    assert_int_equal(torque->verdict, NS_GRADCHECK_FAIL);
    close_relative(torque->difference, torque->forward, 1e-6); // these are right
    assert_true(torque->error > 1e-4);
    ns_gradcheck_free(r);
    ns_system_free(system);
    ns_system_free(other);
    ns_model_free(model);
    ns_model_free(other_model);
}

// Both derivatives of another robot agree with each other; differences tell.
static void two_wrong_derivatives_fail(void** state) {
    (void)state;
    ns_model *model = make_pendulum(1.0, NULL), *other_model = make_pendulum(1.01, NULL);
    ns_system *system = NULL, *other = NULL;
    ns_error error;
    must(ns_system_create(model, NULL, &system, &error), &error);
    must(ns_system_create(other_model, NULL, &other, &error), &error);
    swap_programs(system->step, other->step);
    ns_gradcheck_options options = ns_default_gradcheck_options();
    options.steps = 1; // forward mode simulates with its own program
    ns_gradcheck_result* r = check(other, &options);
    const ns_gradcheck_input* torque = find_input(r, "tau0");
    assert_int_equal(torque->verdict, NS_GRADCHECK_FAIL);
    close_relative(torque->forward, torque->reverse, 1e-12);
    assert_true(torque->error > 1e-4);
    ns_gradcheck_free(r);
    ns_system_free(system);
    ns_system_free(other);
    ns_model_free(model);
    ns_model_free(other_model);
}

static void a_kink_is_biased(void** state) {
    (void)state;
    ns_model* model = make_pendulum(1.0, NULL);
    ns_blueprint* blueprint = make_kink();
    ns_system* system = make_system(model, blueprint);
    ns_gradcheck_options options = ns_default_gradcheck_options();
    options.steps = 1;
    options.q0 = (const double[]){0.5, 0.2};
    options.qd0 = (const double[]){0.0, 0.3}; // at the kink
    ns_gradcheck_result* r = check(system, &options);
    const ns_gradcheck_input* qd0 = find_input(r, "qd0");
    assert_int_equal(qd0->verdict, NS_GRADCHECK_BIASED);
    assert_says(qd0->reason, "at a kink or jump: the derivative towards");
    assert_int_equal(r->judged, r->ninput);
    assert_int_equal(find_input(r, "qd1")->verdict, NS_GRADCHECK_OK);
    assert_int_equal(r->fail, 0);
    ns_gradcheck_free(r);

    options.qd0 = (const double[]){0.4, 0.3}; // beside it
    r = check(system, &options);
    assert_int_equal(find_input(r, "qd0")->verdict, NS_GRADCHECK_OK);
    assert_int_equal(find_input(r, "ratchet/b")->kind, NS_GRADCHECK_WEIGHT);
    assert_int_equal(find_input(r, "ratchet/b")->verdict, NS_GRADCHECK_OK);
    assert_int_equal(r->biased + r->unreliable + r->fail, 0);
    ns_gradcheck_free(r);

    options.qd0 = (const double[]){-0.4, 0.3}; // where the coefficient has no effect
    r = check(system, &options);
    assert_int_equal(find_input(r, "ratchet/b")->verdict, NS_GRADCHECK_ZERO);
    ns_gradcheck_free(r);
    ns_system_free(system);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

// A ball that is pressed by sweeps that do not converge: the summary names the cause.
static void unsolved_contact_is_named(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='g' type='plane' size='5 5 1'/>"
        "<body pos='0 0 0.1'><freejoint/><geom name='b' type='box' size='0.1 0.1 0.1' mass='1'"
        " friction='0.4'/></body></worldbody></mujoco>";
    ns_model* model = modelfile_parse(text);
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_BAUMGARTE;
    options.contact_sweeps = 5;
    ns_system* system = NULL;
    ns_error error;
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_gradcheck_options o = ns_default_gradcheck_options();
    o.q0 = (const double[]){0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0};
    o.qd0 = (const double[]){1.0, 0.0, 0.0, 0.0, 0.0, 0.0};
    ns_gradcheck_result* r = check(system, &o);
    assert_int_equal(r->certificate.verdict, NS_GRADIENT_UNRELIABLE);
    assert_true(r->certificate.contact.unsolved > 10);
    assert_true(r->unreliable > 0 && r->judged + r->unreliable == r->ninput);
    for (uint32_t k = 0; k < r->ninput; k++) {
        if (r->inputs[k].verdict != NS_GRADCHECK_UNRELIABLE) continue;
        assert_says(r->inputs[k].reason, "contact was not solved in");
    }
    ns_gradcheck_free(r);
    ns_system_free(system);
    ns_model_free(model);
}

// Without kinks nearby, the smoothed gradient for little noise is the exact one.
static void smoothed_derivatives_are_there(void** state) {
    (void)state;
    ns_model* model = make_pendulum(1.0, NULL);
    ns_system* system = make_system(model, NULL);
    ns_gradcheck_options options = ns_default_gradcheck_options();
    options.smooth_sigma = 1e-3;
    ns_gradcheck_result* r = check(system, &options);
    assert_true(r->has_smoothed);
    for (uint32_t k = 0; k < r->ninput; k++) {
        const ns_gradcheck_input* in = &r->inputs[k];
        assert_true(in->smoothed.alpha > 0.99);
        close_to(in->name, in->smoothed.estimate, in->reverse,
                 1e-4 * fabs(in->reverse) + 5.0 * in->smoothed.standard_error);
        assert_true(in->smoothed.zeroth_error > 0.0 && in->smoothed.zeroth_error < INFINITY);
    }
    ns_gradcheck_free(r);
    options.smooth_sigma = -1.0;
    ns_error error;
    assert_int_equal(ns_gradcheck(system, &options, &r, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "options.smooth_sigma is -1");
    ns_system_free(system);
    ns_model_free(model);
}

// ---- arguments and memory ------------------------------------------------------------------------

static void refuses_what_cannot_be_checked(void** state) {
    (void)state;
    ns_model* model = make_pendulum(1.0, NULL);
    ns_system* system = make_system(model, NULL);
    ns_gradcheck_result* r = NULL;
    ns_error error;
    ns_gradcheck_options options = ns_default_gradcheck_options();
    options.steps = 0;
    assert_int_equal(ns_gradcheck(system, &options, &r, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "options.steps is 0");
    assert_int_equal(ns_gradcheck(NULL, NULL, &r, &error), NS_ERR_ARGUMENT);
    assert_null(r);
    ns_system_free(system);
    ns_model_free(model);

    assert_string_equal(ns_gradcheck_verdict_name(NS_GRADCHECK_FAIL), "FAIL");
    assert_string_equal(ns_gradcheck_kind_name(NS_GRADCHECK_WEIGHT), "weight");
    assert_string_equal(ns_gradcheck_kind_name((ns_gradcheck_kind)9), "unknown");
}

static void out_of_memory_is_reported(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model* model = make_pendulum(1.0, &allocator);
    ns_blueprint* blueprint = make_kink();
    ns_system* system = make_system(model, blueprint);
    size_t before = counter.live_blocks;
    ns_gradcheck_options options = ns_default_gradcheck_options();
    options.steps = 2;
    ns_status status = NS_ERR_NOMEM;
    for (size_t n = 1; status == NS_ERR_NOMEM; n++) {
        ns_gradcheck_result* r = NULL;
        ns_error error = {0};
        counter.calls = 0;
        counter.fail_at = n;
        status = ns_gradcheck(system, &options, &r, &error);
        counter.fail_at = 0;
        assert_true(status == NS_OK || status == NS_ERR_NOMEM);
        assert_true(status == NS_ERR_NOMEM ? r == NULL : r->fail == 0);
        ns_gradcheck_free(r);
        assert_int_equal(counter.live_blocks, before);
    }
    ns_system_free(system);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(correct_gradients_pass),
        cmocka_unit_test(contacts_found_at_run_time_count),
        cmocka_unit_test(a_wrong_reverse_derivative_fails),
        cmocka_unit_test(two_wrong_derivatives_fail),
        cmocka_unit_test(a_kink_is_biased),
        cmocka_unit_test(unsolved_contact_is_named),
        cmocka_unit_test(smoothed_derivatives_are_there),
        cmocka_unit_test(refuses_what_cannot_be_checked),
        cmocka_unit_test(out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
