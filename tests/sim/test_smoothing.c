// Smoothed gradients against closed forms and quadrature.

#include "neuralsim/smoothing.h"
#include "support/assert.h"
#include "support/malloccount.h"
#include "support/trial.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static double normal_density(double x) {
    return exp(-0.5 * x * x) / sqrt(2.0 * pi);
}
static double normal_cdf(double x) {
    return 0.5 * erfc(-x / sqrt(2.0));
}

static ns_smoother* make_smoother(const trial* t, uint32_t batch) {
    ns_smoother* smoother = NULL;
    ns_error error = {0};
    ns_smoother_size size = {.steps = t->steps, .batch = batch};
    must(ns_smoother_create(t->system, &size, &smoother, &error), &error);
    return smoother;
}

static ns_rollout_args point_of(const trial* t) {
    return (ns_rollout_args){
        .batch = 1, .steps = t->steps, .x0 = t->x0, .controls = t->controls, .params = t->params};
}

// An estimate is within `z` of its standard errors of the truth, and these are not large.
static void check_estimate(const char* what, double estimate, double error, double truth,
                           double largest_error) {
    if (!(error <= largest_error)) fail_msg("%s: standard error %g", what, error);
    close_to(what, estimate, truth, 4.0 * error + 1e-12);
}

// A mass that moves freely along x: the final position is q + T qd.
static const char mass[] =
    "<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody><body>"
    "<joint name='x' type='slide' axis='1 0 0'/>"
    "<geom name='m' type='sphere' size='0.1' mass='2'/></body></worldbody></mujoco>";

typedef struct final_cost {
    double (*f)(double x, double* slope); // of the first coordinate
    uint32_t steps, nx;
} final_cost;

static double cost_of_final(void* context, const double* states, const double* observations,
                            double* dstates, double* dobservations) {
    (void)observations;
    (void)dobservations;
    const final_cost* c = context;
    size_t at = (size_t)c->steps * c->nx;
    return c->f(states[at], &dstates[at]);
}

static double square(double x, double* slope) {
    *slope = 2.0 * x;
    return x * x;
}
static double absolute(double x, double* slope) {
    *slope = x < 0.0 ? -1.0 : 1.0;
    return fabs(x);
}
static double jump(double x, double* slope) {
    *slope = 0.0;
    return x < 0.0 ? 0.0 : 1.0;
}
static double identity(double x, double* slope) {
    *slope = 1.0;
    return x;
}

// ---- closed forms --------------------------------------------------------------------------------

// f(x) at x = q + T qd + ..., noise in q, in qd, in both and in the force.
static void kinks_and_jumps_have_closed_forms(void** state) {
    (void)state;
    trial t = trial_make(mass, NULL, 100); // T = 1 s
    ns_smoother* smoother = make_smoother(&t, 0);
    const double x = 0.07, sq = 0.1, sv = 0.2, s = sqrt(sq * sq + sv * sv);
    t.x0[0] = x;
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 4096;
    smoothing.x0_sigma = (const double[]){sq, sv};
    const struct {
        double (*f)(double, double*);
        double value, slope; // of the smoothed function
    } cases[] = {
        {square, x * x + s * s, 2.0 * x},
        {absolute, x * (2.0 * normal_cdf(x / s) - 1.0) + 2.0 * s * normal_density(x / s),
         2.0 * normal_cdf(x / s) - 1.0},
        {jump, normal_cdf(x / s), normal_density(x / s) / s},
    };
    for (int k = 0; k < 3; k++) {
        final_cost cost = {cases[k].f, t.steps, t.n.nx};
        ns_smoothed_derivative d[2];
        ns_smoothed_gradient gradient = {.dx0 = d};
        ns_rollout_args args = point_of(&t);
        ns_error error = {0};
        must(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, cost_of_final, &cost,
                                          &gradient, &error),
             &error);
        check_estimate("value", gradient.value, gradient.value_error, cases[k].value, 0.02);
        for (int i = 0; i < 2; i++) { // d/dq and, with T = 1 s, d/dqd are the same
            check_estimate("zeroth", d[i].zeroth, d[i].zeroth_error, cases[k].slope, 0.1);
            if (k < 2) check_estimate("first", d[i].first, d[i].first_error, cases[k].slope, 0.05);
            assert_true(d[i].standard_error <= d[i].zeroth_error);

            // Exact gradients of a jump are 0 without any scatter: only the check of bias sees it
            assert_int_equal(d[i].first_biased, k == 2);
            if (k == 2) {
                assert_true(d[i].first == 0.0 && d[i].first_error == 0.0 && d[i].alpha < 0.3);
                close_to("mix", d[i].estimate, cases[k].slope, 7.0 * d[i].zeroth_error);
            } else {
                check_estimate("mix", d[i].estimate, d[i].standard_error, cases[k].slope, 0.05);
                assert_true(d[i].standard_error <= d[i].first_error * (1.0 + 1e-9));
            }
        }
    }
    ns_smoother_free(smoother);
    trial_free(&t);
}

// Where f is linear, the first order has no scatter and is all of the mix. Controls at each step, or held;
// parameters; an input without noise.
static void a_linear_function_is_exact(void** state) {
    (void)state;
    static const char* const names[] = {"link/*/mass"};
    ns_system_options options = ns_default_system_options();
    options.free_params = names;
    options.nfree = 1;
    trial t = trial_make(mass, &options, 10);
    ns_smoother* smoother = make_smoother(&t, 6);
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 50;
    smoothing.x0_sigma = (const double[]){0.1, 0.0};
    smoothing.control_sigma = (const double[]){0.5};
    ns_smoothed_derivative dx[2], dc[10], dp[1];
    final_cost cost = {identity, t.steps, t.n.nx};
    ns_rollout_args args = point_of(&t);
    ns_error error = {0};
    for (int hold = 0; hold < 2; hold++) {
        ns_smoothed_gradient gradient = {.dx0 = dx, .dcontrols = dc, .dparams = dp};
        smoothing.hold_controls = hold;
        must(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, cost_of_final, &cost,
                                          &gradient, &error),
             &error);
        assert_int_equal(gradient.samples, 50);
        assert_int_equal(gradient.unreliable, 0);
        close_to("dq", dx[0].estimate, 1.0, 1e-12);
        close_to("alpha", dx[0].alpha, 1.0, 1e-6);
        close_to("dqd", dx[1].estimate, 0.1, 1e-12);
        assert_true(isnan(dx[1].zeroth) && isinf(dx[1].zeroth_error));
        // A force in step k acts on the velocity for 10 - k steps of position
        double h = 0.01, sum = 0.0;
        for (int k = 0; k < 10; k++) {
            if (!hold) close_to("dc", dc[k].estimate, h * h / 2.0 * (10 - k), 1e-12);
            sum += h * h / 2.0 * (10 - k);
        }
        if (hold) close_to("held", dc[0].estimate, sum, 1e-12);
        check_estimate("held, zeroth order", dc[0].zeroth, dc[0].zeroth_error,
                       hold ? sum : h * h / 2.0 * 10, 0.1);
        close_to("dp", dp[0].estimate, 0.0, 1e-12 + 4.0 * dp[0].standard_error);
    }
    ns_smoother_free(smoother);
    trial_free(&t);
}

// A block at rest is pushed: nothing happens below mu m g, then the way grows linearly. Smoothed over
// pushes, the slope is that of the sliding block times the share of pushes that move it.
static void sticking_has_a_gradient_when_smoothed(void** state) {
    (void)state;
    static const char block[] =
        "<mujoco><option timestep='0.001'/><worldbody><geom name='g' type='plane' size='5 5 1'/>"
        "<body pos='0 0 0.1'><joint type='slide' axis='1 0 0'/><joint type='slide' axis='0 0 1'/>"
        "<geom name='b' type='sphere' size='0.1' mass='1' friction='0.4'/></body></worldbody>"
        "</mujoco>";
    static const ns_param_value slippery = {"contact/*/mu", 0.4};
    ns_system_options options = ns_default_system_options();
    options.set = &slippery;
    options.nset = 1;
    trial t = trial_make(block, &options, 300);
    ns_smoother* smoother = make_smoother(&t, 0);
    double* push = doubles((size_t)t.steps * t.n.nc);
    t.controls = push;
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 512;
    smoothing.hold_controls = true;
    const double limit = 0.4 * 9.81, sigma = 0.8;
    double sigmas[8] = {sigma};
    smoothing.control_sigma = sigmas;
    ns_smoothed_derivative dc[8];
    final_cost cost = {identity, t.steps, t.n.nx};
    const double slides = 0.5 * 0.3 * (0.3 + 0.001); // m / N: T (T + dt) / 2 for 1 kg
    for (int k = -2; k <= 2; k++) {
        double force = limit + k * 0.5 * sigma;
        for (uint32_t i = 0; i < t.steps; i++) push[i * t.n.nc] = force;
        ns_smoothed_gradient gradient = {.dcontrols = dc};
        ns_rollout_args args = point_of(&t);
        ns_error error = {0};
        must(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, cost_of_final, &cost,
                                          &gradient, &error),
             &error);
        double truth =
            slides * (normal_cdf((force - limit) / sigma) + normal_cdf((-force - limit) / sigma));
        close_to("way", dc[0].estimate, truth, 4.0 * dc[0].standard_error + 1e-3 * slides);
        assert_true(dc[0].standard_error < 0.1 * slides && !dc[0].first_biased);
    }
    free(push);
    ns_smoother_free(smoother);
    trial_free(&t);
}

// ---- a bouncing ball -----------------------------------------------------------------------------

static const char ball[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body pos='0 0 0'><joint name='x' type='slide' axis='1 0 0'/>"
    "<joint name='z' type='slide' axis='0 0 1'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='1' "
    "friction='0.1'/></body></worldbody></mujoco>";

static trial make_ball(uint32_t steps) {
    static const ns_param_value set[] = {{"contact/*/restitution", 0.8}, {"contact/*/mu", 0.0}};
    ns_system_options options = ns_default_system_options();
    options.set = set;
    options.nset = 2;
    return trial_make(ball, &options, steps);
}

static double height_cost(void* context, const double* states, const double* observations,
                          double* dstates, double* dobservations) {
    (void)observations;
    (void)dobservations;
    const trial* t = context;
    size_t z = (size_t)t->steps * t->n.nx + 1;
    dstates[z] = 2.0 * (states[z] - 0.4);
    return (states[z] - 0.4) * (states[z] - 0.4);
}

// The height after 1.2 s, averaged over heights from which it falls: quadrature over a fine grid of
// simulations is the truth, for the value and, by Stein's identity, for the slope.
static void a_bouncing_ball_agrees_with_quadrature(void** state) {
    (void)state;
    enum { GRID = 1201 };
    trial t = make_ball(1200);
    const double height = 1.15, sigma = 0.05; // from 1.144 m it hits the ground at 1.2 s
    ns_workspace* work = NULL;
    ns_error error = {0};
    ns_workspace_size size = {.batch = GRID, .steps = t.steps};
    must(ns_workspace_create(t.system, &size, &work, &error), &error);
    double* x0 = doubles((size_t)GRID * t.n.nx);
    double* states = doubles((size_t)GRID * (t.steps + 1) * t.n.nx);
    double* seeds = doubles(((size_t)t.steps + 1) * t.n.nx);
    for (int k = 0; k < GRID; k++)
        x0[(size_t)k * t.n.nx + 1] = height + sigma * 0.01 * (k - GRID / 2);
    ns_rollout_args grid = {
        .batch = GRID, .steps = t.steps, .x0 = x0, .params = t.params, .states = states};
    must(ns_rollout(t.system, work, &grid, &error), &error);
    double value = 0.0, slope = 0.0;
    for (int k = 0; k < GRID; k++) {
        double e = 0.01 * (k - GRID / 2);
        double f = height_cost(&t, states + (size_t)k * (t.steps + 1) * t.n.nx, NULL, seeds, NULL);
        value += 0.01 * normal_density(e) * f;
        slope += 0.01 * normal_density(e) * f * e / sigma;
    }

    // The smoothed gradient there
    ns_smoother* smoother = make_smoother(&t, 0);
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 1024;
    smoothing.x0_sigma = (const double[]){0.0, sigma, 0.0, 0.0};
    ns_smoothed_derivative d[4];
    ns_smoothed_gradient gradient = {.dx0 = d};
    t.x0[1] = height;
    ns_rollout_args args = point_of(&t);
    must(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, height_cost, &t, &gradient,
                                      &error),
         &error);
    print_message("quadrature: value %.5f slope %.4f; estimate %.5f slope %.4f +- %.4f alpha %.2f;"
                  " first %.4f +- %.4f zeroth %.4f +- %.4f\n",
                  value, slope, gradient.value, d[1].estimate, d[1].standard_error, d[1].alpha,
                  d[1].first, d[1].first_error, d[1].zeroth, d[1].zeroth_error);
    check_estimate("value", gradient.value, gradient.value_error, value, 0.01);
    check_estimate("first", d[1].first, d[1].first_error, slope, 0.1);
    check_estimate("zeroth", d[1].zeroth, d[1].zeroth_error, slope, 0.2);
    check_estimate("mix", d[1].estimate, d[1].standard_error, slope, 0.1);
    free(x0);
    free(states);
    free(seeds);
    ns_workspace_free(work);
    ns_smoother_free(smoother);
    trial_free(&t);
}

// ---- robustness ----------------------------------------------------------------------------------

// The same numbers for the same seed, whatever the batch and the threads; no allocation.
static void samples_follow_the_seed(void** state) {
    (void)state;
    trial t = make_ball(300);
    t.x0[1] = 0.3;
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 26;
    smoothing.x0_sigma = (const double[]){0.0, 0.02, 0.1, 0.1};
    smoothing.control_sigma = (const double[]){0.1, 0.1};
    ns_smoothed_derivative d[3][4];
    ns_smoothed_gradient gradient[3];
    static const uint32_t batches[] = {32, 4, 32};
    for (int k = 0; k < 3; k++) {
        ns_smoother* smoother = make_smoother(&t, batches[k]);
        if (k == 2) smoothing.seed = 2;
        gradient[k] = (ns_smoothed_gradient){.dx0 = d[k]};
        ns_rollout_args args = point_of(&t);
        ns_error error = {0};
        unsigned long before = malloc_calls;
        must(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, height_cost, &t,
                                          &gradient[k], &error),
             &error);
        assert_true(malloc_calls == before);
        ns_smoother_free(smoother);
    }
    for (int i = 0; i < 4; i++) {
        same_bits("estimate", &d[0][i].estimate, &d[1][i].estimate, 1);
        assert_true(i % 2 == 0 || d[0][i].estimate != d[2][i].estimate); // z and its velocity
    }
    same_bits("value", &gradient[0].value, &gradient[1].value, 1);
    trial_free(&t);
}

static double wave(double x, double* slope) {
    *slope = -sin(x);
    return cos(x);
}

// A kicked mass, v += K / dt sin(x), x += dt v (Chirikov's standard map), is chaotic for K = 10: gradients
// grow by about K / 2 in each step and overflow, although the motion is finite. Zeroth order takes over,
// and finds that the phase after many kicks does not depend on the start.
static void exploding_gradients_are_left_out(void** state) {
    (void)state;
    static const char text[] = "formulas:\n"
                               "  - name: kick\n"
                               "    output: joint/x/tau\n"
                               "    formula: 'b * sin(\"q/0\")'\n"
                               "    coefficients: {b: 2e5}\n";
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    must(ns_blueprint_parse(text, strlen(text), "kick", NULL, &blueprint, &error), &error);
    ns_system_options options = ns_default_system_options();
    options.blueprint = blueprint;
    options.integrator = NS_INTEGRATOR_EULER;
    static const uint32_t steps[] = {60, 800}; // large, and beyond the largest number
    for (int k = 0; k < 2; k++) {
        trial t = trial_make(mass, &options, steps[k]);
        t.x0[0] = 0.3;
        ns_smoother* smoother = make_smoother(&t, 0);
        ns_smoothing smoothing = ns_default_smoothing();
        smoothing.samples = 200;
        smoothing.x0_sigma = (const double[]){0.1, 0.3};
        ns_smoothed_derivative d[2];
        ns_smoothed_gradient gradient = {.dx0 = d};
        final_cost cost = {wave, t.steps, t.n.nx};
        ns_rollout_args args = point_of(&t);
        must(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, cost_of_final, &cost,
                                          &gradient, &error),
             &error);
        assert_int_equal(gradient.unreliable, gradient.samples);
        for (int i = 0; i < 2; i++) {
            if (k == 0) assert_true(d[i].first_error > 1e20);
            if (k == 1) assert_true(isnan(d[i].first) && isinf(d[i].first_error));
            close_to("alpha", d[i].alpha, 0.0, 1e-20);
            check_estimate("d/dx", d[i].estimate, d[i].standard_error, 0.0, 1.0);
        }
        ns_smoother_free(smoother);
        trial_free(&t);
    }
    ns_blueprint_free(blueprint);
}

static void refuses_wrong_arguments(void** state) {
    (void)state;
    trial t = trial_make(mass, NULL, 5);
    ns_smoother* smoother = NULL;
    ns_error error = {0};
    ns_smoother_size size = {.steps = 0};
    assert_int_equal(ns_smoother_create(t.system, &size, &smoother, &error), NS_ERR_ARGUMENT);
    smoother = make_smoother(&t, 3);
    final_cost cost = {square, t.steps, t.n.nx};
    ns_smoothed_gradient gradient = {0};
    ns_rollout_args args = point_of(&t);
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.x0_sigma = (const double[]){-0.1, 0.0};
    assert_int_equal(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, cost_of_final, &cost,
                                                  &gradient, &error),
                     NS_ERR_ARGUMENT);
    assert_says(error.message, "smoothing.x0_sigma[0] is -0.1");
    smoothing = ns_default_smoothing();
    smoothing.samples = 3;
    assert_int_equal(ns_rollout_smoothed_gradient(smoother, &args, &smoothing, cost_of_final, &cost,
                                                  &gradient, &error),
                     NS_ERR_ARGUMENT);
    args.steps = 6;
    assert_int_equal(ns_rollout_smoothed_gradient(smoother, &args, NULL, cost_of_final, &cost,
                                                  &gradient, &error),
                     NS_ERR_ARGUMENT);
    args.steps = 5;
    args.batch = 2;
    assert_int_equal(ns_rollout_smoothed_gradient(smoother, &args, NULL, cost_of_final, &cost,
                                                  &gradient, &error),
                     NS_ERR_ARGUMENT);
    assert_int_equal(
        ns_rollout_smoothed_gradient(smoother, &args, NULL, NULL, &cost, &gradient, &error),
        NS_ERR_ARGUMENT);
    ns_smoother_free(smoother);
    trial_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kinks_and_jumps_have_closed_forms),
        cmocka_unit_test(a_linear_function_is_exact),
        cmocka_unit_test(sticking_has_a_gradient_when_smoothed),
        cmocka_unit_test(a_bouncing_ball_agrees_with_quadrature),
        cmocka_unit_test(samples_follow_the_seed),
        cmocka_unit_test(exploding_gradients_are_left_out),
        cmocka_unit_test(refuses_wrong_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
