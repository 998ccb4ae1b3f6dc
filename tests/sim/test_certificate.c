// Certificates: growth is that of the Jacobian, verdicts name the cause, and asking for one changes
// nothing.

#include "neuralsim/certificate.h"
#include "sim/certificate_notes.h"
#include "sim/rollout_rig.h"
#include "support/malloccount.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

// The certificate of the gradient of a sum over the final state.
static ns_gradient_certificate certify(trial* t, ns_status expected) {
    ns_gradient_certificate c;
    ns_error error = {0};
    double* seeds = doubles(((size_t)t->steps + 1) * t->n.nx);
    double* dx0 = doubles(t->n.nx);
    for (uint32_t k = 0; k < t->n.nx; k++) seeds[(size_t)t->steps * t->n.nx + k] = 1.0 - k % 3;
    ns_rollout_args args = {.batch = 1, .steps = t->steps, .x0 = t->x0, .params = t->params};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0, .certificate = &c};
    assert_int_equal(ns_rollout_vjp(t->system, t->work, &args, &adjoint, &error), expected);
    if (expected == NS_OK) assert_true(c.growth >= max_abs(dx0, t->n.nx)); // the largest seed is 1
    free(seeds);
    free(dx0);
    return c;
}

static const char* verdict_name(ns_gradient_verdict verdict) {
    return ns_choice_name(&ns_gradient_verdicts, (int)verdict);
}

static void says(const ns_gradient_certificate* c, ns_gradient_verdict verdict, const char* text) {
    if (c->verdict != verdict || !strstr(c->reason, text)) {
        fail_msg("%s: \"%s\", not %s: \"%s\"", verdict_name(c->verdict), c->reason,
                 verdict_name(verdict), text);
    }
}

#define PENDULUM_WITH(joint)                                                                       \
    "<mujoco><option timestep='0.001' gravity='0 0 -9.81'/><worldbody><body pos='0 0 2'>"          \
    "<joint name='hinge' axis='0 1 0' " joint "/>"                                                 \
    "<geom name='ball' type='sphere' size='0.05' pos='0 0 -1' "                                    \
    "mass='1'/></body></worldbody></mujoco>"

// ---- growth ------------------------------------------------------------------------------------

static void a_swinging_pendulum_is_ok(void** state) {
    (void)state;
    trial t = trial_make(PENDULUM_WITH(""), NULL, 2000);
    t.x0[0] = 1.0;
    ns_gradient_certificate c = certify(&t, NS_OK);
    says(&c, NS_GRADIENT_OK, "");
    assert_true(c.finite && c.steps == 2000 && c.alternating_steps == 0);
    assert_true(c.growth > 0.99 && c.growth < 30.0);
    trial_free(&t);
}

// An inverted pendulum grows by exp(sqrt(m g l / I) t), and its adjoint never turns round.
static void an_unstable_motion_grows_as_it_should(void** state) {
    (void)state;
    const double rate = sqrt(9.81 * 1.0 / (1.0 + 0.4 * 0.05 * 0.05));
    static const uint32_t steps[] = {500, 1500, 6000};
    static const ns_gradient_verdict verdicts[] = {NS_GRADIENT_OK, NS_GRADIENT_OK,
                                                   NS_GRADIENT_UNRELIABLE};
    for (int k = 0; k < 3; k++) {
        trial t = trial_make(PENDULUM_WITH(""), NULL, steps[k]);
        t.x0[0] = 3.14159265358979; // upright, and staying there
        ns_gradient_certificate c = certify(&t, NS_OK);
        // Seeds 1 and 0: d q / d q0 = cosh(rate t), d q / d qd0 = sinh(rate t) / rate
        close_to("growth", log(c.growth), log(cosh(rate * 1e-3 * steps[k])), 0.02);
        says(&c, verdicts[k], k == 2 ? "it holds only for changes below" : "");
        assert_int_equal(c.alternating_steps, 0);
        assert_int_equal(c.growth_step, 0);
        trial_free(&t);
    }
}

// A pendulum without gravity and with a torque by a formula, for explicit steps.
static trial make_formula_trial(const char* formula, uint32_t steps, ns_blueprint** blueprint) {
    char text[400];
    ns_error error = {0};
    snprintf(text, sizeof text,
             "formulas:\n  - name: drag\n    output: joint/hinge/tau\n    formula: '%s'\n"
             "    coefficients: {b: 1}\n",
             formula);
    must(ns_blueprint_parse(text, strlen(text), "drag", NULL, blueprint, &error), &error);
    ns_system_options options = ns_default_system_options();
    options.blueprint = *blueprint;
    options.integrator = NS_INTEGRATOR_EULER;
    static const ns_param_value weightless = {"world/gravity/z", 0.0};
    options.set = &weightless;
    options.nset = 1;
    return trial_make(PENDULUM_WITH(""), &options, steps);
}

static const double inertia = 1.0 + 0.4 * 0.05 * 0.05; // of the pendulum, kg m^2

// A torque that is too steep for the step: the motion stays where it is, the gradient is multiplied by
// 1 - dt 30 / (0.01 I) < -1 in each step.
static void stiff_friction_is_named(void** state) {
    (void)state;
    ns_blueprint* blueprint = NULL;
    trial t = make_formula_trial("-30 * b * tanh(\"qd/0\" / 0.01)", 200, &blueprint);
    ns_gradient_certificate c = certify(&t, NS_OK);
    says(&c, NS_GRADIENT_UNRELIABLE, "with alternating sign");
    says(&c, NS_GRADIENT_UNRELIABLE, "stiffer than the time step allows");
    assert_true(c.alternating_steps >= 180);
    close_relative(log(c.alternation) / c.alternating_steps, log(3.0 / inertia - 1.0), 0.02);
    trial_free(&t);
    ns_blueprint_free(blueprint);
}

// Gradients that overflow are an error, and the certificate says where: 1.5^1751 is too large.
static void overflow_is_located(void** state) {
    (void)state;
    ns_blueprint* blueprint = NULL;
    trial t = make_formula_trial("500 * b * \"qd/0\"", 2000, &blueprint);
    ns_gradient_certificate c = certify(&t, NS_ERR_NONFINITE);
    says(&c, NS_GRADIENT_UNRELIABLE, "the gradient stops being finite on its way back in step");
    double factor = 1.0 + 0.5 / inertia;
    close_to("step", c.nonfinite_step, 2000.0 - log(DBL_MAX) / log(factor), 30.0);
    trial_free(&t);
    ns_blueprint_free(blueprint);
}

// A motion that leaves the finite numbers has no gradient.
static void a_lost_motion_is_unreliable(void** state) {
    (void)state;
    ns_blueprint* blueprint = NULL;
    trial t = make_formula_trial("500 * b * \"qd/0\"", 2000, &blueprint);
    t.x0[1] = 1.0;
    ns_gradient_certificate c = certify(&t, NS_ERR_NONFINITE);
    says(&c, NS_GRADIENT_UNRELIABLE, "the motion stops being finite in step");
    trial_free(&t);
    ns_blueprint_free(blueprint);
}

// Observations count as what they put in: a large constant factor is no growth.
static void seeds_of_observations_are_no_growth(void** state) {
    (void)state;
    static const char* const observe[] = {"energy/total", "qdd"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = 2;
    trial t = trial_make(PENDULUM_WITH("damping='0.1'"), &options, 300);
    t.x0[0] = 1.0;
    double* seeds = doubles((size_t)t.steps * t.n.ny);
    for (uint32_t k = 0; k < t.steps * t.n.ny; k++) seeds[k] = 1e9;
    ns_gradient_certificate c;
    ns_error error = {0};
    ns_rollout_args args = {.batch = 1, .steps = t.steps, .x0 = t.x0};
    ns_rollout_adjoint adjoint = {.observation_seeds = seeds, .certificate = &c};
    must(ns_rollout_vjp(t.system, t.work, &args, &adjoint, &error), &error);
    says(&c, NS_GRADIENT_OK, "");
    assert_true(c.growth > 0.0 && c.growth < 10.0);
    free(seeds);
    trial_free(&t);
}

// ---- contact -----------------------------------------------------------------------------------

static const char sliding_block[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body pos='0 0 0.1'><freejoint/><geom name='b' type='box' size='0.1 0.1 0.1' mass='1'"
    " friction='0.4'/></body></worldbody></mujoco>";

// Sweeps that have not converged are unsolved steps, counted as by args.contact.
static void unsolved_contact_is_unreliable(void** state) {
    (void)state;
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_BAUMGARTE;
    options.contact_sweeps = 5;
    trial t = trial_make(sliding_block, &options, 100);
    t.x0[7] = 1.0;
    ns_gradient_certificate c;
    ns_contact_report report;
    ns_error error = {0};
    double* seeds = doubles(((size_t)t.steps + 1) * t.n.nx);
    seeds[(size_t)t.steps * t.n.nx] = 1.0;
    ns_rollout_args args = {.batch = 1, .steps = t.steps, .x0 = t.x0, .contact = &report};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .certificate = &c};
    must(ns_rollout_vjp(t.system, t.work, &args, &adjoint, &error), &error);
    assert_true(report.unsolved > 50);
    assert_memory_equal(&report, &c.contact, sizeof report);
    says(&c, NS_GRADIENT_UNRELIABLE, "contact was not solved in");
    free(seeds);
    trial_free(&t);
}

// Steps with more regularisation than asked for: the gradient is that of another problem.
static void relaxed_contact_is_biased(void** state) {
    (void)state;
    trial t = trial_make(sliding_block, NULL, 10);
    ns_gradient_certificate c;
    nsi_certificate_begin(&c, 500);
    nsi_contact_report_add(&c.contact, &(nsi_contact_note){1e-12, 0.0}, 3);
    nsi_certificate_judge(t.system, &c);
    says(&c, NS_GRADIENT_OK, "");
    nsi_contact_report_add(&c.contact, &(nsi_contact_note){1e-11, 1e-3}, 4);
    nsi_contact_report_add(&c.contact, &(nsi_contact_note){1e-13, 1e-2}, 5);
    nsi_certificate_judge(t.system, &c);
    says(&c, NS_GRADIENT_BIASED, "2 of 500 steps used relaxed contact");
    assert_int_equal(c.contact.step, 4);
    nsi_contact_report_add(&c.contact, &(nsi_contact_note){NAN, 0.0}, 6);
    nsi_certificate_judge(t.system, &c);
    says(&c, NS_GRADIENT_UNRELIABLE, "contact was not solved in 1 of 500 steps");
    trial_free(&t);
}

// The quadruped of models/ falls on its feet. Whatever the contact model does, the verdict follows the
// growth that forward mode finds.
static void verdicts_follow_the_jacobian(void** state) {
    (void)state;
    static const int laws[] = {NS_CONTACT_NCP, NS_CONTACT_SPRING};
    for (int k = 0; k < 2; k++) {
        ns_load_options load = ns_default_load_options();
        load.ground = true;
        ns_model* model = NULL;
        ns_error error = {0};
        must(ns_model_load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", &load, &model, &error),
             &error);
        ns_system_options options = ns_default_system_options();
        options.contact = laws[k];
        trial t = trial_of_model(model, &options, 300);
        t.x0[2] = 0.45;
        for (uint32_t i = 7; i < t.nq; i++) t.x0[i] = 0.05 * i - 0.5;
        ns_gradient_certificate c = certify(&t, NS_OK);
        double* jacobian = doubles((size_t)t.n.nx * t.n.nx);
        trial_jacobian(&t, jacobian);
        double largest = max_abs(jacobian, (size_t)t.n.nx * t.n.nx);
        print_message("%s: largest d x(T) / d x(0) %.3g, growth %.3g, %s %s\n",
                      k == 0 ? "rigid" : "spring", largest, c.growth, verdict_name(c.verdict),
                      c.reason);
        // |J' s|_inf <= nx |J|_max |s|_inf; the growth is also that of later steps
        if (largest > 1e9) says(&c, NS_GRADIENT_UNRELIABLE, "the gradient grows by");
        if (c.verdict == NS_GRADIENT_OK) assert_true(largest < 1e6);
        free(jacobian);
        trial_free(&t);
    }
}

// ---- asking --------------------------------------------------------------------------------------

// The same bits with and without, for robots with networks, observations, checkpoints; no allocation.
static void asking_changes_no_bit(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    ns_system_options options = full_options();
    rig r = rig_create(everything, 77, 5, &options);
    run u = run_create(&r, &rng, 7, 23);
    ns_gradient_certificate certificates[7];
    double *dx0 = doubles(7 * r.n.nx), *dparams = doubles(r.n.np);
    ns_error error = {0};
    for (int checkpoints = 0; checkpoints < 2; checkpoints++) {
        size_t bytes = checkpoints ? 40000 : 0;
        ns_workspace* work = make_work(
            r.system,
            (ns_workspace_size){.batch = 7, .steps = 23, .threads = 1, .max_bytes = bytes});
        ns_rollout_args args = {.batch = 7, .steps = 23, .x0 = u.x0, .controls = u.controls};
        ns_rollout_adjoint adjoint = {.state_seeds = u.state_seeds,
                                      .observation_seeds = u.observation_seeds,
                                      .dx0 = u.dx0,
                                      .dparams = u.dparams};
        must(ns_rollout_vjp(r.system, work, &args, &adjoint, &error), &error);
        adjoint.dx0 = dx0;
        adjoint.dparams = dparams;
        adjoint.certificate = certificates;
        unsigned long before = malloc_calls;
        must(ns_rollout_vjp(r.system, work, &args, &adjoint, &error), &error);
        assert_true(malloc_calls == before);
        same_bits("dx0", dx0, u.dx0, 7 * r.n.nx);
        same_bits("dparams", dparams, u.dparams, r.n.np);
        for (int k = 0; k < 7; k++) {
            assert_int_equal(certificates[k].steps, 23);
            assert_true(certificates[k].growth > 0.0);
        }
        ns_workspace_free(work);
    }
    free(dx0);
    free(dparams);
    run_free(&u);
    rig_free(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_swinging_pendulum_is_ok),
        cmocka_unit_test(an_unstable_motion_grows_as_it_should),
        cmocka_unit_test(stiff_friction_is_named),
        cmocka_unit_test(seeds_of_observations_are_no_growth),
        cmocka_unit_test(overflow_is_located),
        cmocka_unit_test(a_lost_motion_is_unreliable),
        cmocka_unit_test(unsolved_contact_is_unreliable),
        cmocka_unit_test(relaxed_contact_is_biased),
        cmocka_unit_test(verdicts_follow_the_jacobian),
        cmocka_unit_test(asking_changes_no_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
