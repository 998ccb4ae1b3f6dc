// The time step: integrators, what parameters mean, series-elastic actuators, derivatives.

#include "base/common.h"
#include "model/model_data.h"
#include "model/pose.h"
#include "neuralsim/sim.h"
#include "sim/rollout_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- derivatives ---------------------------------------------------------------------------

// The step itself through the derivative check: both modes, central differences, the interpreter at
// every width, native code and emitted C, bit for bit.
static void steps_pass_the_derivative_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(55);
    enum { ROBOTS = 3 };
    static const char* const names[ROBOTS] = {"euler", "rk4", "implicit"};
    rig rigs[ROBOTS];
    check_batch* batch = check_batch_create();
    for (uint32_t n = 0; n < ROBOTS; n++) {
        ns_system_options options = full_options();
        options.integrator = (int)n;
        rigs[n] = rig_create(everything, 1500 + n, 2, &options);
        rig* r = &rigs[n];
        double* in = random_doubles(&rng, r->n.nx + r->n.nc + r->n.np, 0.5);
        random_state(r->model, &rng, in, in + r->z.nq);
        ns_system_default_params(r->system, in + r->n.nx + r->n.nc);
        check_options check = {.name = names[n], .seed = n, .c = CHECK_C_VJP};
        check_batch_add(batch, ns_system_graph(r->system), in, NULL, &check);
        free(in);
    }
    check_report report = check_batch_finish(batch);
    printf("    transpose %.1e, differences %.1e, %u of %u slopes undecided\n",
           report.transpose_error, report.difference_error, report.undecided, report.slopes);
    assert_true(report.undecided * 10 < report.slopes);
    for (uint32_t n = 0; n < ROBOTS; n++) rig_free(&rigs[n]);
}

// ---- what parameters mean ------------------------------------------------------------------

// A link's definition with its parameters read from a list.
static ns_link_def link_with_params(const ns_link_def* link, const double* p) {
    ns_link_def l = *link;
    l.mass = p[NSI_LINK_MASS];
    memcpy(l.com, p + NSI_LINK_COM, sizeof l.com);
    memcpy(l.inertia, p + NSI_LINK_INERTIA, sizeof l.inertia);
    memcpy(l.origin.position, p + NSI_JOINT_ORIGIN, sizeof l.origin.position);
    const double* w = p + NSI_JOINT_ROTATION;
    double angle = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]), turn[4];
    if (angle > 0.0) {
        nsi_quat_from_axis((double[]){w[0] / angle, w[1] / angle, w[2] / angle}, angle, turn);
        nsi_quat_multiply(link->origin.quaternion, turn, l.origin.quaternion);
    }
    memcpy(l.axis, p + NSI_JOINT_AXIS, sizeof l.axis);
    l.stiffness = p[NSI_JOINT_STIFFNESS], l.rest = p[NSI_JOINT_REST];
    l.damping = p[NSI_JOINT_DAMPING], l.friction = p[NSI_JOINT_FRICTION];
    l.friction_velocity = p[NSI_JOINT_FRICTION_VELOCITY], l.armature = p[NSI_JOINT_ARMATURE];
    l.lower = p[NSI_JOINT_LOWER], l.upper = p[NSI_JOINT_UPPER];
    l.limit_stiffness = p[NSI_JOINT_LIMIT_STIFFNESS];
    l.limit_damping = p[NSI_JOINT_LIMIT_DAMPING];
    return l;
}

// Changing free parameters is the same as building another robot.
static void parameters_are_those_of_the_builder(void** state) {
    (void)state;
    residual r = {.name = "changed parameters against a changed model", .tolerance = 1e-11};
    ns_rng rng = ns_rng_seed(6);
    for (uint32_t n = 0; n < 20; n++) {
        static const char* const observe[] = {"qdd", "energy", "com", "link/*/pose"};
        ns_system_options options = full_options();
        options.observe = observe;
        options.nobserve = 4;
        rig a = rig_create(everything, 600 + n, 1 + n % 6, &options), b = a;
        run u = run_create(&a, &rng, 1, 10), v = run_again(&a, &u);
        double* p = doubles(a.n.np);
        ns_system_default_params(a.system, p);
        for (uint32_t i = 0; i < a.z.nlink; i++) {
            double* own = p + a.model->links[i].param;
            const ns_link_def* l = &a.tree.link[i];
            for (uint32_t k = 0; k < NSI_LINK_PARAMS; k++) {
                bool moments = k >= NSI_LINK_INERTIA && k < NSI_JOINT_ORIGIN;
                if (!moments) own[k] *= ns_rng_uniform(&rng, 0.9, 1.1);
                if (moments) own[k] *= 1.05; // stays physical
            }
            for (uint32_t k = 0; k < 3; k++) {
                if (l->joint_type != NS_JOINT_FLOATING) {
                    own[NSI_JOINT_ROTATION + k] = ns_rng_uniform(&rng, -0.5, 0.5);
                }
            }
            b.tree.link[i] = link_with_params(l, own);
        }
        for (uint32_t i = 0; i < a.z.nu; i++) {
            double* own = p + a.model->actuators[i].param;
            for (uint32_t k = 0; k < NSI_ACTUATOR_GAINS; k++) {
                own[k] *= ns_rng_uniform(&rng, 0.9, 1.1);
            }
            b.tree.actuator[i].gear = own[NSI_ACTUATOR_GEAR];
            b.tree.actuator[i].kp = own[NSI_ACTUATOR_KP];
            b.tree.actuator[i].kd = own[NSI_ACTUATOR_KD];
        }
        for (uint32_t k = 0; k < 3; k++) {
            p[a.model->gravity_param + k] += ns_rng_uniform(&rng, -1.0, 1.0);
            b.tree.world.gravity[k] = p[a.model->gravity_param + k];
        }
        options.nfree = 0;
        b.model = random_tree_build(&b.tree, NULL);
        b.system = make_system(b.model, &options);
        b.n = ns_system_get_sizes(b.system);
        ns_error error = {0};
        ns_workspace_size size = {.batch = 1, .steps = u.steps, .threads = 1};
        ns_workspace *wa = make_work(a.system, size), *wb = make_work(b.system, size);
        ns_rollout_args args = run_args(&u);
        args.params = p;
        must(ns_rollout(a.system, wa, &args, &error), &error);
        args = run_args(&v);
        must(ns_rollout(b.system, wb, &args, &error), &error);
        residual_array(&r, u.states, v.states, u.nstate, 1.0);
        residual_array(&r, u.observations, v.observations, u.nobserved, 1.0);
        free(p);
        ns_workspace_free(wa);
        ns_workspace_free(wb);
        run_free(&u);
        run_free(&v);
        rig_free(&a);
        rig_free(&b);
    }
    residual_check(&r);
}

// ---- integrators ---------------------------------------------------------------------------

// State after `time` with steps of dt.
static void simulate(const ns_model* model, int integrator, double dt, double time,
                     const double* x0, double* end) {
    ns_system_options options = ns_default_system_options();
    options.integrator = integrator;
    options.timestep = dt;
    ns_system* system = make_system(model, &options);
    uint32_t steps = (uint32_t)(time / dt + 0.5), nx = ns_system_get_sizes(system).nx;
    ns_workspace* work =
        make_work(system, (ns_workspace_size){.batch = 1, .steps = steps, .threads = 1});
    double* states = doubles((steps + 1) * (size_t)nx);
    ns_error error = {0};
    ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    memcpy(end, states + (size_t)steps * nx, nx * sizeof *end);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
}

static double distance(const double* a, const double* b, uint32_t n) {
    double sum = 0.0;
    for (uint32_t i = 0; i < n; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum);
}

// Halving the step divides the error by 2^order. The reference has 16 times smaller steps than the
// coarser one, which moves the measured order by less than 0.1 for order 1 and 2e-5 for order 4;
// the rest is the next term of the error.
static void integrators_have_their_order(void** state) {
    (void)state;
    static const struct {
        const char* name;
        int integrator;
        double dt, time, low, high;
    } cases[] = {{"euler", NS_INTEGRATOR_EULER, 1e-3, 0.1, 0.9, 1.25},
                 {"implicit", NS_INTEGRATOR_IMPLICIT, 1e-3, 0.1, 0.9, 1.25},
                 {"rk4", NS_INTEGRATOR_RK4, 4e-3, 0.2, 3.8, 4.3}};
    ns_rng rng = ns_rng_seed(9);
    for (int c = 0; c < 3; c++) {
        uint32_t balls = 0;
        printf("    order of %s:", cases[c].name);
        for (uint32_t n = 0; n < 6; n++) {
            random_tree tree;
            random_tree_options o = {.seed = 900 + n, .nlink = 2 + n % 3, .forces = true};
            o.root = n % 2 ? ROOT_FLOATING : ROOT_WORLD;
            random_tree_make(&tree, &o);
            // Limits set in with a jump, and no method keeps its order over one. Friction changes
            // within a step as long as these.
            for (uint32_t i = 0; i < tree.nlink; i++) {
                tree.link[i].limited = false;
                tree.link[i].friction = 0.0;
            }
            tree.link[1].joint_type = n < 3 ? NS_JOINT_SPHERICAL : NS_JOINT_REVOLUTE;
            if (n < 3) tree.link[1].stiffness = tree.link[1].rest = 0.0, balls++;
            ns_model* model = random_tree_build(&tree, NULL);
            uint32_t nx = ns_model_get_sizes(model).nq + ns_model_get_sizes(model).nv;
            double x0[100], coarse[100], fine[100], reference[100];
            assert_true(nx <= 100);
            random_state(model, &rng, x0, x0 + ns_model_get_sizes(model).nq);
            const double dt = cases[c].dt, time = cases[c].time;
            simulate(model, cases[c].integrator, dt, time, x0, coarse);
            simulate(model, cases[c].integrator, dt / 2, time, x0, fine);
            simulate(model, cases[c].integrator, dt / 16, time, x0, reference);
            double order = log2(distance(coarse, reference, nx) / distance(fine, reference, nx));
            printf(" %.2f", order);
            if (!(order > cases[c].low && order < cases[c].high)) {
                fail_msg("%s has order %g on tree %u", cases[c].name, order, n);
            }
            ns_model_free(model);
        }
        printf("\n");
        assert_int_equal(balls, 3);
    }
}

// With d dt / m = 10 the explicit step multiplies the velocity by -9, the implicit one by 1/11.
static void the_implicit_integrator_bears_stiff_damping(void** state) {
    (void)state;
    enum { STEPS = 20 };
    const double dt = 1e-3, d = 1e4, decay = pow(1.0 + d * dt, -STEPS);
    random_tree tree = slider();
    tree.link[0].damping = d;
    ns_model* model = random_tree_build(&tree, NULL);
    double x0[2] = {0.5, 1.0}, states[(STEPS + 1) * 2], *end = states + STEPS * 2;
    simulate(model, NS_INTEGRATOR_EULER, dt, STEPS * dt, x0, end);
    assert_true(fabs(end[1]) > 1e15);

    // Value and gradient of the last velocity, v = v0 (1 + d dt / m)^-STEPS.
    static const char* const free_params[] = {"link/body/mass", "joint/slide/damping"};
    ns_system_options options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_IMPLICIT;
    options.timestep = dt;
    options.free_params = free_params;
    options.nfree = 2;
    ns_system* system = make_system(model, &options);
    assert_string_equal(ns_system_param_name(system, 0), "link/body/mass");
    ns_workspace* work =
        make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
    double seeds[(STEPS + 1) * 2] = {0.0}, dx0[2], dparams[2];
    seeds[2 * STEPS + 1] = 1.0;
    ns_error error = {0};
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0, .dparams = dparams};
    must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
    residual r = {.name = "implicit damping against its formula", .tolerance = 1e-13};
    double slope_d = -STEPS * dt * decay / (1.0 + d * dt);
    residual_add(&r, end[1], decay, decay);
    residual_add(&r, end[0], 0.5 + dt * (1.0 - decay) / (d * dt), 1.0);
    residual_add(&r, dx0[0], 0.0, decay);
    residual_add(&r, dx0[1], decay, decay);
    residual_add(&r, dparams[0], -d * slope_d, -d * slope_d);
    residual_add(&r, dparams[1], slope_d, -slope_d);
    residual_check(&r);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// Solve A x = b in place by Gauss, without pivoting: A is positive definite.
static void solve_dense(uint32_t n, double* A, double* b) {
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t i = j + 1; i < n; i++) {
            double factor = A[i * n + j] / A[j * n + j];
            for (uint32_t k = j; k < n; k++) A[i * n + k] -= factor * A[j * n + k];
            b[i] -= factor * b[j];
        }
    }
    for (uint32_t i = n; i-- > 0;) {
        for (uint32_t k = i + 1; k < n; k++) b[i] -= A[i * n + k] * b[k];
        b[i] /= A[i * n + i];
    }
}

// How what acts at a joint resists its velocity over a step, by what docs/integrators.md says: the
// damping, the secant of friction, damping and stiffness of a limit.
static double force_slope(const ns_link_def* l, double q, double qd, double dt) {
    double smooth = l->damping + l->friction * tanh(qd / l->friction_velocity) / qd;
    if (!l->limited) return smooth;
    double push = q < l->lower   ? l->limit_stiffness * (l->lower - q) - l->limit_damping * qd
                  : q > l->upper ? l->limit_stiffness * (q - l->upper) + l->limit_damping * qd
                                 : 0.0;
    return push > 0.0 ? smooth + l->limit_damping + dt * l->limit_stiffness : smooth;
}

// (M + dt B) (qd' - qd) / dt = tau - bias, with B the slopes of the joint forces.
static void the_implicit_step_solves_its_equation(void** state) {
    (void)state;
    residual r = {.name = "(M + dt B) qdd = tau - bias", .tolerance = 1e-11};
    ns_rng rng = ns_rng_seed(10);
    uint32_t floating = 0;
    for (uint32_t n = 0; n < 40; n++) {
        static const char* const observe[] = {"mass_matrix", "bias", "joint/*/tau"};
        ns_system_options options = ns_default_system_options();
        options.integrator = NS_INTEGRATOR_IMPLICIT;
        options.timestep = 0.05; // so that it matters
        options.observe = observe;
        options.nobserve = 3;
        random_tree tree;
        random_tree_options o = {.seed = 1100 + n, .nlink = 1 + n % 6, .forces = true};
        o.mimic = n % 3 == 0;
        o.armature = n % 2 == 0;
        random_tree_make(&tree, &o);
        floating += tree.link[0].joint_type == NS_JOINT_FLOATING && tree.link[0].friction > 0.0;
        ns_model* model = random_tree_build(&tree, NULL);
        evaluator* e = evaluator_create_with(model, &options);
        uint32_t nv = e->sizes.nv;
        if (nv > 0) {
            random_state(model, &rng, e->q, e->qd);
            for (uint32_t k = 0; k < nv; k++) e->tau[k] = ns_rng_uniform(&rng, -2.0, 2.0);
            evaluator_run(e);
            double *M = doubles((size_t)nv * nv), *b = doubles(nv), *got = doubles(nv);
            memcpy(M, evaluator_get(e, "mass_matrix/0/0"), (size_t)nv * nv * sizeof *M);
            const double *bias = evaluator_get(e, "bias/0"), *tau = bias + nv;
            for (uint32_t k = 0; k < nv; k++) {
                b[k] = tau[k] - bias[k];
                got[k] = (e->next[e->sizes.nq + k] - e->qd[k]) / options.timestep;
            }
            for (uint32_t i = 0; i < tree.nlink; i++) {
                const nsi_link* l = &model->links[i];
                double m = l->mimic != NSI_NONE ? l->def.mimic_multiplier : 1.0;
                uint32_t count = l->mimic != NSI_NONE ? 1 : l->nv;
                for (uint32_t k = 0; k < count; k++) {
                    double q = count == 1 ? e->q[l->q] : 0.0, qd = m * e->qd[l->v + k];
                    if (l->mimic != NSI_NONE) q = m * q + l->def.mimic_offset;
                    M[(l->v + k) * (nv + 1)] +=
                        options.timestep * m * m * force_slope(&l->def, q, qd, options.timestep);
                }
            }
            solve_dense(nv, M, b);
            residual_array(&r, got, b, nv, 1.0);
            free(M), free(b), free(got);
        }
        evaluator_free(e);
        ns_model_free(model);
    }
    assert_true(floating > 0);
    residual_check(&r);
}

// ---- series-elastic actuators --------------------------------------------------------------

// The motor's angle of the last step is in the state; its rate drives the damper.
static void series_elastic_motors_remember_their_angle(void** state) {
    (void)state;
    enum { STEPS = 20 };
    const double dt = 1e-2, kp = 5.0, kd = 0.3, gear = 2.0;
    for (int limited = 0; limited < 2; limited++) {
        random_tree tree = slider();
        ns_actuator_def* a = &tree.actuator[0];
        *a = ns_default_actuator_def();
        tree.nactuator = 1;
        a->joint = "slide";
        a->name = "spring";
        a->type = NS_ACTUATOR_SERIES_ELASTIC;
        a->kp = kp, a->kd = kd, a->gear = gear;
        a->control_limited = limited;
        a->control_lower = -0.1, a->control_upper = 0.15;
        ns_model* model = random_tree_build(&tree, NULL);
        ns_system_options options = ns_default_system_options();
        options.timestep = dt;
        ns_system* system = make_system(model, &options);
        assert_int_equal(ns_system_get_sizes(system).nx, 3);
        assert_string_equal(ns_system_state_name(system, 2), "motor/spring");
        assert_string_equal(ns_system_control_name(system, 0), "u/spring");
        double x0[3] = {0.1, -0.2, 0.05}, controls[STEPS * 2] = {0.0}, states[(STEPS + 1) * 3];
        for (int k = 0; k < STEPS; k++) controls[2 * k] = 0.3 * sin(0.7 * k);
        ns_workspace* work =
            make_work(system, (ns_workspace_size){.batch = 1, .steps = STEPS, .threads = 1});
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
        args.controls = controls;
        ns_error error = {0};
        must(ns_rollout(system, work, &args, &error), &error);

        residual r = {.name = limited ? "motor with limited angle" : "motor", .tolerance = 1e-13};
        double q = x0[0], qd = x0[1], motor = x0[2];
        for (int k = 0; k < STEPS; k++) {
            double u = controls[2 * k];
            if (limited) u = fmin(fmax(u, a->control_lower), a->control_upper);
            qd += dt * gear * (kp * (u - gear * q) + kd * ((u - motor) / dt - gear * qd));
            q += dt * qd;
            motor = u;
            const double want[3] = {q, qd, motor};
            residual_array(&r, states + 3 * (k + 1), want, 3, 1.0);
        }
        residual_check(&r);
        ns_workspace_free(work);
        ns_system_free(system);
        ns_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_pass_the_derivative_check),
        cmocka_unit_test(parameters_are_those_of_the_builder),
        cmocka_unit_test(integrators_have_their_order),
        cmocka_unit_test(the_implicit_integrator_bears_stiff_damping),
        cmocka_unit_test(the_implicit_step_solves_its_equation),
        cmocka_unit_test(series_elastic_motors_remember_their_angle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
