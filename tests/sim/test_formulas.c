// Formulas in the step: the same motion as the model's own forces, as closed forms and with the
// gradients of these; what is observed, saved, loaded and wrong.

#include "base/common.h"
#include "neuralsim/hybrid.h"
#include "neuralsim/sim.h"
#include "sim/augment_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- one robot with formulas ---------------------------------------------------------------

static double difference(const rig* a, const rig* b, uint32_t count) {
    double most = 0.0;
    assert_int_equal(a->steps, b->steps);
    for (uint32_t s = 0; s <= a->steps; s++) {
        for (uint32_t k = 0; k < count; k++) {
            most = fmax(most, fabs(state_at(a, s)[k] - state_at(b, s)[k]));
        }
    }
    return most;
}

// ---- the model's own forces ----------------------------------------------------------------

#define PENDULUM(joint)                                                                            \
    "<mujoco><option timestep='0.002'/><worldbody>"                                                \
    "<body name='arm' pos='0 0 1'><joint name='hinge' type='hinge' axis='0 1 0' " joint "/>"       \
    "<geom type='sphere' size='0.1' pos='0 0 -0.5' mass='2'/></body></worldbody></mujoco>"

#define JOINTS(upper, lower)                                                                       \
    "<mujoco><option timestep='0.002'/><worldbody>"                                                \
    "<body name='upper'><joint name='shoulder' type='hinge' axis='0 1 0' damping='" upper "'/>"    \
    "<geom type='sphere' size='0.1' pos='0 0 -0.5' mass='2'/>"                                     \
    "<body name='lower' pos='0 0 -0.6'><joint name='elbow' type='hinge' axis='0 1 0' "             \
    "damping='" lower "'/><geom type='sphere' size='0.1' pos='0 0 -0.4' mass='1'/></body></body>"  \
    "</worldbody></mujoco>"

#define EACH(weights)                                                                              \
    "formulas:\n- name: friction\n  each: joint/*\n  weights: " weights "\n  output: \"{}/tau\"\n" \
    "  formula: -b * \"{}/velocity\"\n  coefficients: {b: 0.3}\n"

// Rounding grows along a motion that is not chaotic: a thousand steps and some bits.
static const double same = 1e-12;

static void damping_is_the_models(void** state) {
    (void)state;
    static const struct {
        const char *model, *other, *yaml;
    } rows[] = {
        {PENDULUM("damping='0.3'"), PENDULUM(""), EACH("shared")},
        {PENDULUM("damping='0.3'"), PENDULUM("damping='5'"),
         "formulas:\n- {name: f, output: joint/hinge/force/damping, mode: replace,\n"
         "   formula: '-b * \"joint/hinge/velocity\"', coefficients: {b: 0.3}}\n"},
        {PENDULUM("damping='0.3'"), PENDULUM("damping='0.2'"),
         "formulas:\n- {name: f, output: joint/hinge/force/damping, mode: scale, formula: "
         "'0.5'}\n"},
        {PENDULUM("stiffness='2' springref='30'"), PENDULUM(""),
         "formulas:\n- {name: f, output: joint/hinge/tau,\n"
         "   formula: 'k * (30 * deg - \"joint/hinge/position\")', coefficients: {k: 2}}\n"},
        {JOINTS("0.3", "0.3"), JOINTS("0", "0"), EACH("shared")},
        {JOINTS("0.3", "0.3"), JOINTS("0", "0"), EACH("separate")},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        for (int integrator = 0; integrator < 2; integrator++) {
            ns_system_options o = ns_default_system_options();
            o.integrator = integrator; // Euler, rk4
            rig a = rig_make(rows[i].model, NULL, &o, 1000);
            rig b = rig_make(rows[i].other, rows[i].yaml, &o, 1000);
            rig c = rig_make(rows[i].other, NULL, &o, 1000);
            a.x0[0] = b.x0[0] = c.x0[0] = 1.2;
            rig_run(&a), rig_run(&b), rig_run(&c);
            double off = difference(&a, &b, a.n.nx);
            if (!(off <= same)) fail_msg("row %zu: %g", i, off);
            assert_true(difference(&a, &c, a.n.nx) > 1e-2); // it matters
            rig_free(&a), rig_free(&b), rig_free(&c);
        }
    }
}

static void coefficients_are_shared_or_not(void** state) {
    (void)state;
    ns_system_options o = ns_default_system_options();
    o.integrator = NS_INTEGRATOR_EULER; // an implicit step takes damping at its end
    rig shared = rig_make(JOINTS("0", "0"), EACH("shared"), &o, 1000);
    rig separate = rig_make(JOINTS("0", "0"), EACH("separate"), &o, 1000);
    rig own = rig_make(JOINTS("0.1", "0.7"), NULL, &o, 1000);
    assert_int_equal(shared.n.nw, 1);
    assert_int_equal(separate.n.nw, 2);
    assert_int_equal(ns_system_weight_matrix_count(separate.system), 2);
    ns_weight_matrix m = ns_system_weight_matrix(separate.system, 1);
    assert_string_equal(m.set, "friction/joint/elbow");
    assert_true(m.offset == 1 && m.rows == 1 && m.columns == 1 && m.layer == 0 && !m.bias);
    assert_ptr_equal(m.formula, ns_blueprint_formula(separate.blueprint, 0));
    separate.weights[0] = 0.1;
    separate.weights[1] = 0.7;
    separate.x0[0] = own.x0[0] = 1.2;
    rig_run(&separate), rig_run(&own);
    close_to("the difference", difference(&separate, &own, 4), 0.0, same);
    rig_free(&shared), rig_free(&separate), rig_free(&own);
}

// ---- falling through air -------------------------------------------------------------------

static const char falling_ball[] =
    "<mujoco><option timestep='0.001'/><worldbody><body name='ball' pos='0 0 100'><freejoint/>"
    "<geom type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

#define SPEED "sqrt(\"{}/velocity/com/x\"^2 + \"{}/velocity/com/y\"^2 + \"{}/velocity/com/z\"^2)"
#define DRAG(axis)                                                                                 \
    "- name: drag_" axis "\n  each: link/*\n  output: \"{}/force/" axis "\"\n"                     \
    "  formula: -k * " SPEED " * \"{}/velocity/com/" axis "\"\n  coefficients: {k: 0.02}\n"

static const char drag[] = "formulas:\n" DRAG("x") DRAG("y") DRAG("z");

// Vertical fall from rest with the drag k v^2: v(t) = vt tanh(g t / vt), vt = sqrt(m g / k).
static double fall(double k, double t) {
    double g = 9.81, end = sqrt(0.5 * g / k);
    return -end * tanh(g * t / end);
}

// Falling for 2 s, turned by any angle: forces are in the axes of the link.
static rig fall_rig(double timestep, int integrator) {
    ns_system_options o = ns_default_system_options();
    o.timestep = timestep;
    o.integrator = integrator;
    rig r = rig_make(falling_ball, drag, &o, (uint32_t)lround(2.0 / timestep));
    double turn[4] = {0.5, 0.1, -0.7, 0.5};
    memcpy(r.x0 + 3, turn, sizeof turn); // of unit length
    return r;
}

static void drag_is_quadratic(void** state) {
    (void)state;
    rig r = fall_rig(0.005, NS_INTEGRATOR_RK4);
    rig_run(&r);
    for (uint32_t s = 0; s <= r.steps; s++) {
        close_to("velocity", state_at(&r, s)[9], fall(0.02, 0.005 * s), 1e-9);
        close_to("velocity aside", state_at(&r, s)[7], 0.0, 1e-12);
    }
    assert_true(fall(0.02, 2.0) > -0.83 * 2.0 * 9.81); // far from falling freely
    rig_free(&r);

    // Euler's error goes with the step.
    double error[2];
    for (int k = 0; k < 2; k++) {
        r = fall_rig(k ? 0.001 : 0.002, NS_INTEGRATOR_EULER);
        rig_run(&r);
        error[k] = state_at(&r, r.steps)[9] - fall(0.02, 2.0);
        rig_free(&r);
    }
    close_to("ratio of errors", error[0] / error[1], 2.0, 0.01);
    assert_true(fabs(error[0]) < 1e-2);
}

// ---- gradients -----------------------------------------------------------------------------

// The derivative of the closed form: k of all three axes moves together.
static void coefficients_have_the_gradient_of_the_closed_form(void** state) {
    (void)state;
    rig r = fall_rig(0.005, NS_INTEGRATOR_RK4);
    double *seeds = doubles((size_t)(r.steps + 1) * r.n.nx), gradient[3];
    seeds[(size_t)r.steps * r.n.nx + 9] = 1.0;
    ns_rollout_args args = rig_args(&r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = gradient};
    ns_error error = {0};
    assert_int_equal(r.n.nw, 3);
    must(ns_rollout_vjp(r.system, r.work, &args, &adjoint, &error), &error);
    double k = 0.02, g = 9.81, t = 2.0, end = sqrt(0.5 * g / k), x = g * t / end;
    double slope = end / (2.0 * k) * (tanh(x) - x / (cosh(x) * cosh(x)));
    close_to("dv/dk", gradient[0] + gradient[1] + gradient[2], slope, 1e-7 * slope);
    free(seeds);
    rig_free(&r);
}

static const char many[] =
    "networks:\n- {name: n, inputs: [q/*], outputs: [joint/shoulder/tau], hidden: [2]}\n"
    "formulas:\n"
    "- name: f\n  output: joint/elbow/tau\n"
    "  formula: '-b * \"joint/elbow/velocity\" - c * tanh(\"joint/elbow/velocity\" / s)\n"
    "    + abs(\"joint/shoulder/velocity\")^p * \"prev:joint/elbow/tau\"'\n"
    "  coefficients: {b: 0.3, c: 0.2, s: 0.4, p: 1.3}\n"
    "- {name: g, output: link/lower/mass, mode: scale, formula: 'a * sin(\"q/1\") + exp(-a)',\n"
    "   coefficients: {a: 0.1}}\n"
    "- {name: h, output: qdd/0, mode: replace, formula: '\"bias/0\" * max(k, 0.1)/2 + atan2(k, "
    "2)',\n"
    "   coefficients: {k: -0.7}}\n";

static void steps_with_formulas_pass_the_derivative_check(void** state) {
    (void)state;
    ns_system_options o = ns_default_system_options();
    o.backend = NS_BACKEND_INTERP;
    rig r = rig_make(JOINTS("0.1", "0.1"), many, &o, 1);
    double* in = doubles(r.n.nx + r.n.nc);
    ns_rng rng = ns_rng_seed(4);
    for (uint32_t k = 0; k < r.n.nx + r.n.nc; k++) in[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    const double* arrays[4];
    uint32_t narray = 0;
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(r.system); k++) {
        ns_weight_matrix w = ns_system_weight_matrix(r.system, k);
        if (w.layer == 0) arrays[narray++] = r.weights + w.offset;
    }
    assert_int_equal(narray, 4);
    check_options check = {.name = "formulas", .seed = 1, .c = CHECK_C_VJP};
    check_report report = check_function(ns_system_graph(r.system), in, arrays, &check);
    assert_int_equal(report.undecided, 0);
    free(in);
    rig_free(&r);
}

// ---- what is seen, kept and loaded -----------------------------------------------------------

static void values_are_observed(void** state) {
    (void)state;
    static const char* const observe[] = {"formula", "joint/hinge/velocity", "joint/hinge/tau"};
    ns_system_options o = ns_default_system_options();
    o.observe = observe;
    o.nobserve = 3;
    rig r = rig_make(PENDULUM(""),
                     "formulas:\n- {name: late, output: joint/hinge/tau,\n"
                     "   formula: '3 * \"prev:joint/hinge/velocity\"'}\n",
                     &o, 50);
    assert_int_equal(r.n.nw, 0); // it has no coefficients
    assert_int_equal(ns_system_weight_matrix_count(r.system), 0);
    assert_int_equal(r.n.ny, 3);
    assert_string_equal(ns_system_observation_name(r.system, 0), "formula/late/joint/hinge/tau");
    r.x0[0] = 0.5;
    rig_run(&r);
    for (uint32_t s = 0; s < r.steps; s++) {
        double before = s > 0 ? r.observations[3 * (s - 1) + 1] : 0.0;
        assert_true(r.observations[3 * s] == 3.0 * before);
        assert_true(r.observations[3 * s + 2] == r.observations[3 * s]);
    }
    rig_free(&r);
}

static void write_file(const char* path, const char* text) {
    FILE* file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void coefficients_are_saved_and_loaded(void** state) {
    (void)state;
    static const char weights[] = "formula_weights.json", hybrid[] = "formula_hybrid.yaml",
                      blueprint[] = "formula_blueprint.yaml", robot[] = "formula_robot.xml";
    rig r = rig_make(JOINTS("0", "0"), many, NULL, 100);
    ns_error error = {0};
    for (uint32_t k = 0; k < r.n.nw; k++) r.weights[k] *= 1.0 + 0.01 * k;
    must(ns_system_save_weights(r.system, r.weights, weights, &error), &error);
    double* back = doubles(r.n.nw);
    must(ns_system_load_weights(r.system, weights, back, &error), &error);
    assert_memory_equal(back, r.weights, r.n.nw * sizeof *back);
    r.x0[0] = 0.4;
    rig_run(&r);

    // A hybrid model with all of it.
    write_file(robot, JOINTS("0", "0"));
    write_file(blueprint, many);
    write_file(hybrid, "robot: formula_robot.xml\nblueprint: formula_blueprint.yaml\n"
                       "weights: formula_weights.json\n");
    ns_hybrid* h = NULL;
    must(ns_hybrid_load(hybrid, NULL, &h, &error), &error);
    ns_system_options o = ns_default_system_options();
    ns_hybrid_apply(h, &o);
    ns_system* system = NULL;
    must(ns_system_create(ns_hybrid_model(h), &o, &system, &error), &error);
    ns_rollout_args args = rig_args(&r);
    double* states = doubles((size_t)(r.steps + 1) * r.n.nx);
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = r.steps, .threads = 1};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    args.states = states;
    args.observations = NULL;
    ns_system_default_weights(system, back);
    args.weights = back;
    must(ns_rollout(system, work, &args, &error), &error);
    assert_memory_equal(states, r.states, (size_t)(r.steps + 1) * r.n.nx * sizeof *states);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_hybrid_free(h);
    free(states), free(back);
    rig_free(&r);
    remove(weights), remove(hybrid), remove(blueprint), remove(robot);
}

// ---- what goes wrong -----------------------------------------------------------------------

static void what_is_not_finite_is_named(void** state) {
    (void)state;
    rig r = rig_make(PENDULUM(""),
                     "formulas:\n- {name: bad, output: joint/hinge/tau,\n"
                     "   formula: 'log(c - \"joint/hinge/velocity\")', coefficients: {c: 0.5}}\n",
                     NULL, 1000);
    ns_rollout_args args = rig_args(&r);
    ns_error error = {0};
    r.x0[0] = -1.2;
    assert_int_equal(ns_rollout(r.system, r.work, &args, &error), NS_ERR_NONFINITE);
    if (!strstr(error.message, "formula/bad/joint/hinge/tau")) fail_msg("%s", error.message);
    rig_free(&r);
}

static void mistakes_are_named(void** state) {
    (void)state;
    static const struct {
        const char *yaml, *message;
        int integrator;
    } rows[] = {
        {"formulas:\n- {name: f, output: joint/hing/tau, formula: 1}\n",
         "b.yaml:2:21: formula \"f\": output: no quantity is called \"joint/hing/tau\"; nearest:"
         " joint/hinge/tau",
         0},
        {"formulas:\n- {name: f, output: joint/hinge/tau, formula: '1 + \"qd/1\"'}\n",
         "b.yaml:2:52: formula \"f\": formula: no quantity is called \"qd/1\"; nearest:", 0},
        {"formulas:\n- {name: f, output: energy/total, formula: 1}\n",
         "b.yaml:2:21: formula \"f\": output: nothing in the step depends on \"energy/total\"", 0},
        {"formulas:\n- {name: f, output: qd/0, formula: 1}\n", "rk4", NS_INTEGRATOR_RK4},
    };
    ns_model* model = modelfile_parse(PENDULUM(""));
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        ns_blueprint* blueprint = parse_blueprint(rows[k].yaml);
        ns_system_options o = ns_default_system_options();
        ns_system* system = NULL;
        ns_error error = {0};
        o.blueprint = blueprint;
        o.integrator = rows[k].integrator;
        assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
        if (!strstr(error.message, rows[k].message)) fail_msg("%s", error.message);
        ns_blueprint_free(blueprint);
    }
    ns_model_free(model);
}

static void memory_running_out_is_an_error(void** state) {
    (void)state;
    static const char text[] = JOINTS("0", "0");
    assert_true(fail_each_system(text, many) > 50);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damping_is_the_models),
        cmocka_unit_test(coefficients_are_shared_or_not),
        cmocka_unit_test(drag_is_quadratic),
        cmocka_unit_test(coefficients_have_the_gradient_of_the_closed_form),
        cmocka_unit_test(steps_with_formulas_pass_the_derivative_check),
        cmocka_unit_test(values_are_observed),
        cmocka_unit_test(coefficients_are_saved_and_loaded),
        cmocka_unit_test(what_is_not_finite_is_named),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(memory_running_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
