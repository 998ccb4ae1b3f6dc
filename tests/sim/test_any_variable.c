// Networks that read what the step writes down later: the state in any order, parameters that depend on
// functions of the state, and what is a cycle.

#include "sim/augment_rig.h"

#include <math.h>

static void set_weights(rig* r, uint32_t count, const double* w) {
    assert_int_equal(r->n.nw, count);
    memcpy(r->weights, w, count * sizeof *w);
}

#define WEIGHTS(r, ...)                                                                            \
    set_weights(r, sizeof((double[]){__VA_ARGS__}) / sizeof(double), (double[]){__VA_ARGS__})

// A mass that slides along x and y, without gravity along them.
static const char table[] =
    "<mujoco><option timestep='0.01' gravity='0.5 0 -9.81'/><worldbody><body name='puck'>"
    "<joint name='x' type='slide' axis='1 0 0'/><joint name='y' type='slide' axis='0 1 0'/>"
    "<geom type='sphere' size='0.1' mass='2'/></body></worldbody></mujoco>";

// ---- the state -----------------------------------------------------------------------------

// Networks at the state read what it is at the start of the step, whatever the order of the list and
// whatever other networks do to it.
static void networks_at_the_state_read_it_as_given(void** state) {
    (void)state;
    rig r = rig_make(table,
                     "networks:\n"
                     "  - {name: a, inputs: [qd/1, q/0], outputs: [q/0], bias: false}\n"
                     "  - {name: b, inputs: [qd/1, qd/0], outputs: [qd/0], bias: false}\n"
                     "  - {name: c, inputs: [qd/0, q/0], outputs: [qd/1], bias: false}\n",
                     NULL, 50);
    WEIGHTS(&r, 0.02, -0.1, 0.03, -0.05, -0.04, 0.2);
    double x[4] = {0.3, -0.2, 1.0, 0.7}, dt = 0.01;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 1; s <= 50; s++) {
        double q0 = x[0] + 0.02 * x[3] - 0.1 * x[0];
        double v0 = x[2] + 0.03 * x[3] - 0.05 * x[2];
        double v1 = x[3] - 0.04 * x[2] + 0.2 * x[0];
        x[2] = v0 + dt * 0.5;
        x[3] = v1;
        x[0] = q0 + dt * x[2];
        x[1] += dt * x[3];
        for (int k = 0; k < 4; k++) close_to("state", state_at(&r, s)[k], x[k], 1e-13);
    }
    rig_free(&r);
}

// They may even read what follows from the state: of a step that starts from it as it is given.
static void networks_at_the_state_read_the_whole_step(void** state) {
    (void)state;
    rig r = rig_make(table,
                     "networks:\n"
                     "  - {name: a, inputs: [qdd/0, energy/kinetic], outputs: [qd/0], bias:"
                     " false}\n"
                     "  - {name: b, inputs: [qd/0], outputs: [joint/x/damping]}\n",
                     NULL, 40);
    WEIGHTS(&r, 0.05, -0.01, 0.4, 0.1);
    double x[4] = {0.0, 0.0, 1.0, 0.5}, dt = 0.01, m = 2.0;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 1; s <= 40; s++) {
        double given = 0.5 - (0.4 * x[2] + 0.1) * x[2] / m; // b reads the velocity of this step
        double energy = 0.5 * m * (x[2] * x[2] + x[3] * x[3]);
        double v = x[2] + 0.05 * given - 0.01 * energy;
        x[2] = v + dt * (0.5 - (0.4 * v + 0.1) * v / m); // and here the changed one
        x[0] += dt * x[2];
        x[1] += dt * x[3];
        for (int k = 0; k < 4; k++) close_to("state", state_at(&r, s)[k], x[k], 1e-12);
    }
    rig_free(&r);
}

// ---- parameters ----------------------------------------------------------------------------

// Damping that depends on where the link is, and on how fast it moves: known in closed form.
static void parameters_read_functions_of_the_state(void** state) {
    (void)state;
    static const char* const inputs[] = {"joint/hinge/sin", "link/arm/velocity/angular/y",
                                         "energy/kinetic"};
    for (int k = 0; k < 3; k++) {
        for (int integrator = 0; integrator < 2; integrator++) {
            char yaml[200];
            snprintf(yaml, sizeof yaml,
                     "networks:\n  - {name: n, inputs: [%s], outputs: [joint/hinge/damping]}\n",
                     inputs[k]);
            ns_system_options o = ns_default_system_options();
            o.integrator = integrator;
            rig a = rig_make(pendulum, yaml, &o, 300);
            WEIGHTS(&a, 0.3, 0.7);

            // The same force where the order of the step allows it.
            snprintf(yaml, sizeof yaml,
                     "formulas:\n  - {name: f, output: joint/hinge/force/damping, formula: '-(0.3 *"
                     " \"%s\" + 0.7) * \"joint/hinge/velocity\"'}\n",
                     inputs[k]);
            rig b = rig_make(pendulum, yaml, &o, 300);
            a.x0[0] = b.x0[0] = 1.0;
            a.x0[1] = b.x0[1] = 2.0;
            rig_run(&a);
            rig_run(&b);
            for (uint32_t s = 0; s <= 300; s++) {
                close_to(inputs[k], state_at(&a, s)[0], state_at(&b, s)[0], 1e-12);
            }
            rig_free(&a);
            rig_free(&b);
        }
    }
}

// Damping by the momentum, of a mass that depends on the place: networks in a chain, the first one last.
static void chains_of_late_networks(void** state) {
    (void)state;
    rig r = rig_make(table,
                     "networks:\n"
                     "  - {name: m, inputs: [momentum/linear/y], outputs: [joint/x/damping]}\n"
                     "  - {name: d, inputs: [link/puck/pose/x], outputs: [link/puck/mass]}\n",
                     NULL, 60);
    WEIGHTS(&r, 0.2, 0.5, 0.6, 0.0);
    double x[4] = {0.4, 0.0, 1.0, -0.5}, dt = 0.01;
    memcpy(r.x0, x, sizeof x);
    rig_run(&r);
    for (uint32_t s = 1; s <= 60; s++) {
        double m = 2.0 + 0.6 * x[0], d = 0.5 + 0.2 * m * x[3];
        x[2] += dt * (0.5 - d * x[2] / m);
        x[0] += dt * x[2];
        close_to("x", state_at(&r, s)[0], x[0], 1e-12);
        close_to("v", state_at(&r, s)[2], x[2], 1e-12);
    }
    rig_free(&r);
}

// A read-out that takes long to trace is there for networks in every stage of an integrator.
static void forces_read_the_mass_matrix(void** state) {
    (void)state;
    for (int integrator = 0; integrator < 3; integrator++) {
        ns_system_options o = ns_default_system_options();
        o.integrator = integrator;
        rig a = rig_make("double_pendulum.urdf",
                         "networks:\n  - {name: n, inputs: [mass_matrix/0/1, \"prev:q/0\"],"
                         " outputs: [joint/joint0/tau]}\n",
                         &o, 100);
        // M01 of a double pendulum is a + b cos(q1).
        rig b = rig_make("double_pendulum.urdf",
                         "networks:\n  - {name: n, inputs: [joint/joint1/cos, \"prev:q/0\"],"
                         " outputs: [joint/joint0/tau]}\n",
                         &o, 100);
        ns_model* model = load_model("double_pendulum.urdf");
        const ns_link_def *first = ns_model_link(model, 0), *second = ns_model_link(model, 1);
        double l = hypot(second->origin.position[0], second->origin.position[2]);
        double c = hypot(second->com[0], second->com[2]), m = second->mass;
        double sum = m * c * c + second->inertia[1], factor = m * l * c;
        assert_true(first->mass > 0.0);
        ns_model_free(model);
        WEIGHTS(&a, 2.0, 0.1, -0.3);
        WEIGHTS(&b, 2.0 * factor, 0.1, -0.3 + 2.0 * sum);
        a.x0[0] = b.x0[0] = 0.4;
        a.x0[1] = b.x0[1] = 1.0;
        rig_run(&a);
        rig_run(&b);
        for (uint32_t s = 0; s <= 100; s++) {
            close_to("q0", state_at(&a, s)[0], state_at(&b, s)[0], 1e-10);
            close_to("q1", state_at(&a, s)[1], state_at(&b, s)[1], 1e-10);
        }
        rig_free(&a);
        rig_free(&b);
    }
}

// ---- cycles --------------------------------------------------------------------------------

static void refused(const char* model_text, int contact, const char* yaml, const char* fragment) {
    ns_model* model = load_model(model_text);
    ns_blueprint* blueprint = parse_blueprint(yaml);
    ns_system_options o = ns_default_system_options();
    ns_system* system = NULL;
    ns_error error = {0};
    o.blueprint = blueprint;
    o.contact = contact;
    assert_int_equal(ns_system_create(model, &o, &system, &error), NS_ERR_ARGUMENT);
    if (!strstr(error.message, fragment)) fail_msg("%s\nlacks %s", error.message, fragment);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

static void cycles_are_told_with_their_path(void** state) {
    (void)state;
    refused(
        "double_pendulum.urdf", -1,
        "networks:\n  - {name: n, inputs: [link/link1/pose/x], outputs: [joint/joint1/origin/x]}\n",
        "b.yaml:2:24: network \"n\": inputs: \"link/link1/pose/x\" is computed from the output"
        " \"joint/joint1/origin/x\": joint/joint1/origin/x -> link/link1/pose/x; use"
        " \"prev:link/link1/pose/x\", its value in the step before");
    refused(pendulum, -1,
            "networks:\n  - {name: n, inputs: [qdd/0], outputs: [joint/hinge/damping]}\n",
            "joint/hinge/damping -> joint/hinge/force/damping -> joint/hinge/tau -> qdd/0; use");
    refused(pendulum, -1, "networks:\n  - {name: n, inputs: [tau/0], outputs: [tau/0]}\n",
            "\"tau/0\" is an output; use \"prev:tau/0\"");
    refused(
        "double_pendulum.urdf", -1,
        "networks:\n"
        "  - {name: a, inputs: [joint/joint0/force/damping], outputs: [joint/joint1/damping]}\n"
        "  - {name: b, inputs: [joint/joint1/force/damping], outputs: [joint/joint0/damping]}\n",
        "network \"b\": inputs: \"joint/joint1/force/damping\" is computed from the output"
        " \"joint/joint0/damping\": joint/joint0/damping -> joint/joint0/force/damping =>"
        " joint/joint1/damping -> joint/joint1/force/damping (=> is another network)");
    refused(pendulum, -1,
            "networks:\n  - {name: n, inputs: [q/0], outputs: [joint/hinge/damping],"
            " structure: dissipative, conjugate: [qdd/0]}\n",
            "conjugate: \"qdd/0\" is computed from the output \"joint/hinge/damping\"");
    refused(pendulum, -1,
            "formulas:\n  - {name: f, output: joint/hinge/damping, formula: '2 * \"qdd/0\"'}\n",
            "formula \"f\": formula: \"qdd/0\" is computed from the output");
}

// ---- gradients -----------------------------------------------------------------------------

// The gradient of a sum of final states for the weights, against differences along a direction.
static void check_weight_gradient(const char* what, rig* r) {
    ns_rng rng = ns_rng_seed(3);
    size_t nstate = (r->steps + 1) * (size_t)r->n.nx;
    double *seeds = doubles(nstate), *gradient = doubles(r->n.nw), *start = doubles(r->n.nw),
           *direction = doubles(r->n.nw);
    for (size_t k = 0; k < nstate; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    for (uint32_t k = 0; k < r->n.nw; k++) {
        start[k] = r->weights[k];
        direction[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    }
    ns_rollout_args args = rig_args(r);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = gradient};
    ns_error error = {0};
    must(ns_rollout_vjp(r->system, r->work, &args, &adjoint, &error), &error);
    double slope = 0.0, f[2], h = 1e-5;
    for (uint32_t k = 0; k < r->n.nw; k++) slope += gradient[k] * direction[k];
    for (int side = 0; side < 2; side++) {
        for (uint32_t k = 0; k < r->n.nw; k++) {
            r->weights[k] = start[k] + (side == 0 ? -h : h) * direction[k];
        }
        rig_run(r);
        f[side] = 0.0;
        for (size_t k = 0; k < nstate; k++) f[side] += seeds[k] * r->states[k];
    }
    memcpy(r->weights, start, r->n.nw * sizeof *start);
    double difference = (f[1] - f[0]) / (2.0 * h);
    if (!(fabs(slope - difference) <= 1e-6 * (fabs(slope) + 1e-3)) || slope == 0.0) {
        fail_msg("%s: gradient %.12g, differences %.12g", what, slope, difference);
    }
    free(seeds), free(gradient), free(start), free(direction);
}

static void late_networks_have_gradients(void** state) {
    (void)state;
    static const struct {
        const char *model, *inputs, *outputs;
        int integrators; // how many of them, from the first
    } cases[] = {
        {"double_pendulum.urdf", "q/*, qd/*", "q/0, qd/1", 1},
        {"double_pendulum.urdf", "qdd/*, link/link1/pose/*", "qd/*", 1},
        {"double_pendulum.urdf", "link/link1/pose/*, joint/joint1/sin", "link/*/mass", 3},
        {"double_pendulum.urdf", "link/*/velocity/com/*, joint/*/sin", "joint/*/damping", 3},
        {"double_pendulum.urdf", "mass_matrix/*/*, link/link1/jacobian/**", "joint/joint0/tau", 3},
        {"double_pendulum.urdf", "joint/joint0/position", "joint/joint1/origin/*", 3},
        {"arm7_mixed.urdf", "mass_matrix/*/*, momentum/**", "tau/0", 1},
    };
    for (size_t n = 0; n < sizeof cases / sizeof *cases; n++) {
        for (int i = 0; i < cases[n].integrators; i++) {
            char yaml[300];
            snprintf(yaml, sizeof yaml,
                     "networks:\n  - {name: n, inputs: [%s], outputs: [%s], hidden: [3],"
                     " output_scale: 0.1, init: {last: 1}}\n",
                     cases[n].inputs, cases[n].outputs);
            ns_system_options o = ns_default_system_options();
            o.integrator = i;
            rig r = rig_make(cases[n].model, yaml, &o, 4);
            for (uint32_t k = 0; k < r.n.nx; k++) r.x0[k] += 0.3 - 0.1 * k;
            check_weight_gradient(cases[n].inputs, &r);
            rig_free(&r);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(networks_at_the_state_read_it_as_given),
        cmocka_unit_test(networks_at_the_state_read_the_whole_step),
        cmocka_unit_test(parameters_read_functions_of_the_state),
        cmocka_unit_test(chains_of_late_networks),
        cmocka_unit_test(forces_read_the_mass_matrix),
        cmocka_unit_test(cycles_are_told_with_their_path),
        cmocka_unit_test(late_networks_have_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
