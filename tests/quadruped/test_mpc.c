// The MPC's QP against rollouts of its model, the model against the rigid body it stands for, and its
// forces against another program's.

#include "model/pose.h"
#include "neuralsim/random.h"
#include "quadruped/mpc.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N = QUAD_MPC_STEPS, MOST = N * 12 };

typedef struct setup {
    quad_robot robot;
    quad_mpc_options options;
    quad_mpc* mpc;
} setup;

static setup create(bool a1) {
    setup s = {a1 ? quad_a1() : quad_laikago(), quad_default_controller_options().mpc, NULL};
    assert_int_equal(quad_mpc_create(s.robot.mass, s.robot.inertia, &s.options, NULL, &s.mpc, NULL),
                     NS_OK);
    return s;
}

static quad_mpc_input random_input(const quad_robot* robot, ns_rng* rng, uint32_t stands) {
    quad_mpc_input in = {.height = robot->body_height + 0.02 * ns_rng_normal(rng),
                         .wanted_height = robot->body_height,
                         .wanted_yaw_rate = 0.5 * ns_rng_normal(rng)};
    for (int i = 0; i < 3; i++) {
        in.angular_velocity[i] = 0.3 * ns_rng_normal(rng);
        in.velocity[i] = 0.2 * ns_rng_normal(rng);
    }
    for (int i = 0; i < 2; i++) {
        in.rpy[i] = 0.1 * ns_rng_normal(rng);
        in.wanted_velocity[i] = 0.3 * ns_rng_normal(rng);
    }
    for (int k = 0; k < QUAD_LEGS; k++) {
        in.stands[k] = (stands >> k & 1) != 0;
        in.feet[k][0] = robot->foothold[k][0] + 0.03 * ns_rng_normal(rng);
        in.feet[k][1] = robot->foothold[k][1] + 0.03 * ns_rng_normal(rng);
        in.feet[k][2] = -in.height + 0.01 * ns_rng_normal(rng);
    }
    return in;
}

// ---- the model, a second time --------------------------------------------------------------

typedef struct rates {
    double rpy[3], position[3], angular[3], velocity[3];
} rates;

typedef struct trunk {
    double rpy[3], position[3], angular[3], velocity[3]; // angular velocity in the level frame
} trunk;

static void rotation(const double rpy[3], double R[9]) {
    double q[4];
    nsi_quat_from_rpy(rpy, q);
    nsi_quat_to_matrix(q, R);
}

// R diag(I) R' w, or with the inverse of I.
static void times_inertia(const double R[9], const double inertia[3], bool inverse,
                          const double w[3], double out[3]) {
    double body[3];
    for (int i = 0; i < 3; i++) {
        body[i] = R[i] * w[0] + R[3 + i] * w[1] + R[6 + i] * w[2];
        body[i] = inverse ? body[i] / inertia[i] : body[i] * inertia[i];
    }
    for (int i = 0; i < 3; i++) {
        out[i] = R[3 * i] * body[0] + R[3 * i + 1] * body[1] + R[3 * i + 2] * body[2];
    }
}

// The rigid body: Newton and Euler, feet that stay where they are. `frozen`: what the MPC makes of it,
// with feet, inertia and the rates matrix those at the start, and no gyroscopic torque.
static rates derive(const setup* s, const trunk* t, const trunk* start, const quad_mpc_input* in,
                    const double forces[QUAD_LEGS][3], bool frozen) {
    const trunk* at = frozen ? start : t;
    double R[9], torque[3] = {0}, momentum[3], gyro[3];
    rates d = {.velocity = {0.0, 0.0, -s->options.gravity}};
    rotation(at->rpy, R);
    for (int k = 0; k < QUAD_LEGS; k++) {
        double arm[3], turn[3];
        if (!in->stands[k]) continue;
        for (int i = 0; i < 3; i++) {
            arm[i] = in->feet[k][i] - (at->position[i] - start->position[i]);
            d.velocity[i] += forces[k][i] / s->robot.mass;
        }
        nsi_cross(arm, forces[k], turn);
        for (int i = 0; i < 3; i++) torque[i] += turn[i];
    }
    if (!frozen) {
        times_inertia(R, s->robot.inertia, false, t->angular, momentum);
        nsi_cross(t->angular, momentum, gyro);
        for (int i = 0; i < 3; i++) torque[i] -= gyro[i];
    }
    times_inertia(R, s->robot.inertia, true, torque, d.angular);
    memcpy(d.position, t->velocity, sizeof d.position);
    double cp = cos(at->rpy[1]), sp = sin(at->rpy[1]), cy = cos(at->rpy[2]), sy = sin(at->rpy[2]);
    const double* w = t->angular;
    d.rpy[0] = (cy * w[0] + sy * w[1]) / cp;
    d.rpy[1] = cy * w[1] - sy * w[0];
    d.rpy[2] = w[2] + sp * d.rpy[0];
    return d;
}

static void advance(trunk* t, const rates* d, double h) {
    for (int i = 0; i < 3; i++) {
        t->rpy[i] += h * d->rpy[i];
        t->position[i] += h * d->position[i];
        t->angular[i] += h * d->angular[i];
        t->velocity[i] += h * d->velocity[i];
    }
}

// A step of the horizon by Runge-Kutta.
static void integrate(const setup* s, trunk* t, const trunk* start, const quad_mpc_input* in,
                      const double forces[QUAD_LEGS][3], bool frozen, double duration, int steps) {
    const double h = duration / steps;
    for (int k = 0; k < steps; k++) {
        trunk moved = *t;
        rates a = derive(s, t, start, in, forces, frozen);
        advance(&moved, &a, 0.5 * h);
        rates b = derive(s, &moved, start, in, forces, frozen);
        moved = *t;
        advance(&moved, &b, 0.5 * h);
        rates c = derive(s, &moved, start, in, forces, frozen);
        moved = *t;
        advance(&moved, &c, h);
        rates d = derive(s, &moved, start, in, forces, frozen);
        advance(t, &a, h / 6.0), advance(t, &b, h / 3.0);
        advance(t, &c, h / 3.0), advance(t, &d, h / 6.0);
    }
}

static trunk start_of(const quad_mpc_input* in) {
    trunk t = {.rpy = {in->rpy[0], in->rpy[1], 0.0}, .position = {0.0, 0.0, in->height}};
    memcpy(t.angular, in->angular_velocity, sizeof t.angular);
    memcpy(t.velocity, in->velocity, sizeof t.velocity);
    return t;
}

// The forces of a step out of all.
static void forces_of(const quad_mpc_input* in, const double* x, int step,
                      double forces[QUAD_LEGS][3]) {
    int standing = 0, at = 0;
    for (int k = 0; k < QUAD_LEGS; k++) standing += in->stands[k];
    memset(forces, 0, QUAD_LEGS * sizeof *forces);
    for (int k = 0; k < QUAD_LEGS; k++) {
        if (in->stands[k]) memcpy(forces[k], x + 3 * (step * standing + at++), sizeof forces[k]);
    }
}

// What the MPC minimises, by integrating its model step by step.
static double cost(const setup* s, const quad_mpc_input* in, const double* x, uint32_t n) {
    trunk start = start_of(in), t = start;
    const double* weights = s->options.state_weights;
    double sum = 0.0;
    for (int i = 0; i < N; i++) {
        double forces[QUAD_LEGS][3], time = (i + 1) * s->options.timestep;
        forces_of(in, x, i, forces);
        integrate(s, &t, &start, in, forces, true, s->options.timestep, 1); // exact: degree 2
        double off[12] = {t.rpy[0],
                          t.rpy[1],
                          t.rpy[2] - in->wanted_yaw_rate * time,
                          t.position[0] - in->wanted_velocity[0] * time,
                          t.position[1] - in->wanted_velocity[1] * time,
                          t.position[2] - in->wanted_height,
                          t.angular[0],
                          t.angular[1],
                          t.angular[2] - in->wanted_yaw_rate,
                          t.velocity[0] - in->wanted_velocity[0],
                          t.velocity[1] - in->wanted_velocity[1],
                          t.velocity[2]};
        for (int k = 0; k < 12; k++) sum += weights[k] * off[k] * off[k];
    }
    for (uint32_t k = 0; k < n; k++) sum += 0.5 * s->options.force_weight * x[k] * x[k];
    return sum;
}

// ---- tests ---------------------------------------------------------------------------------

// A quadratic function has its Hessian and gradient in its values: f(a + b) - f(a) - f(b) + f(0).
static void the_qp_is_the_cost_of_a_rollout(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual hessian = {.name = "x'Hy", .tolerance = 1e-10};
    residual gradient = {.name = "g'x", .tolerance = 1e-10};
    for (int repeat = 0; repeat < 60; repeat++) {
        setup s = create(repeat % 2);
        for (int k = 0; k < 12; k++) s.options.state_weights[k] = ns_rng_uniform(&rng, 0.1, 5.0);
        quad_mpc_free(s.mpc);
        assert_int_equal(
            quad_mpc_create(s.robot.mass, s.robot.inertia, &s.options, NULL, &s.mpc, NULL), NS_OK);
        quad_mpc_input in = random_input(&s.robot, &rng, 1 + ns_rng_below(&rng, 15));
        quad_qp_problem p = quad_mpc_build(s.mpc, &in);
        double a[MOST] = {0}, b[MOST] = {0}, both[MOST], zero[MOST] = {0};
        // Few forces at a time, so that single blocks of H are seen.
        for (int k = 0; k < 3; k++) {
            a[ns_rng_below(&rng, p.n)] = 50.0 * ns_rng_normal(&rng);
            b[ns_rng_below(&rng, p.n)] = 50.0 * ns_rng_normal(&rng);
        }
        double product = 0.0, slope = 0.0, curve = 0.0;
        for (uint32_t i = 0; i < p.n; i++) {
            both[i] = a[i] + b[i];
            slope += p.g[i] * a[i];
            for (uint32_t j = 0; j < p.n; j++) {
                product += a[i] * p.H[i * p.n + j] * b[j];
                curve += 0.5 * a[i] * p.H[i * p.n + j] * a[j];
                assert_true(p.H[i * p.n + j] == p.H[j * p.n + i]);
            }
        }
        double f0 = cost(&s, &in, zero, p.n), fa = cost(&s, &in, a, p.n);
        double fb = cost(&s, &in, b, p.n), fab = cost(&s, &in, both, p.n);
        double scale = fmax(fmax(f0, fab), fmax(fa, fb));
        residual_add(&hessian, product, fab - fa - fb + f0, scale);
        residual_add(&gradient, slope + curve, fa - f0, scale);
        quad_mpc_free(s.mpc);
    }
    residual_check(&hessian);
    residual_check(&gradient);
}

// Of the rigid body the MPC's model is the first order: what it leaves out falls with the square of the
// time.
static void the_model_is_the_rigid_body_at_first(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    residual close = {.name = "model against rigid body, 1 ms", .tolerance = 0.03};
    for (int repeat = 0; repeat < 50; repeat++) {
        setup s = create(repeat % 2);
        quad_mpc_input in = random_input(&s.robot, &rng, 1 + ns_rng_below(&rng, 15));
        // The model has no gyroscopic torque: from rest it is exact in first order.
        memset(in.angular_velocity, 0, sizeof in.angular_velocity);
        double forces[QUAD_LEGS][3], errors[2];
        for (int k = 0; k < 12; k++) forces[k / 3][k % 3] = 30.0 * ns_rng_normal(&rng);
        const double times[2] = {1e-3, 4e-3};
        for (int d = 0; d < 2; d++) {
            trunk start = start_of(&in), model = start, body = start;
            integrate(&s, &model, &start, &in, forces, true, times[d], 1);
            integrate(&s, &body, &start, &in, forces, false, times[d], 50);
            const double *x = model.rpy, *y = body.rpy;
            errors[d] = 0.0;
            for (int k = 0; k < 12; k++) errors[d] = fmax(errors[d], fabs(x[k] - y[k]));
            double moved = 0.0;
            for (int i = 0; i < 3; i++) {
                moved = fmax(moved, fabs(model.angular[i] - start.angular[i]));
            }
            if (d == 0) residual_add(&close, errors[0], 0.0, fmax(moved, 0.01));
        }
        assert_true(errors[1] > 8.0 * errors[0]); // 16 for a square
        quad_mpc_free(s.mpc);
    }
    residual_check(&close);
}

// Forces are usable when the QP is solved, and not when it has no answer.
static quad_qp_report solve(quad_mpc* mpc, const quad_mpc_input* in, double forces[QUAD_LEGS][3]) {
    quad_qp_report report;
    bool usable = quad_mpc_solve(mpc, in, forces, &report);
    if (report.status != QUAD_QP_INEXACT) assert_true(usable == (report.status == QUAD_QP_SOLVED));
    return report;
}

// Upright, at rest and at the wanted height over evenly placed feet, all that is to be done is to carry
// the weight.
static void at_rest_the_feet_carry_the_weight(void** state) {
    (void)state;
    for (int a1 = 0; a1 < 2; a1++) {
        setup s = create(a1);
        s.options.force_weight = 1e-10; // otherwise it sags a little to save force
        quad_mpc_free(s.mpc);
        quad_mpc_create(s.robot.mass, s.robot.inertia, &s.options, NULL, &s.mpc, NULL);
        quad_mpc_input in = {.height = 0.3, .wanted_height = 0.3};
        for (int k = 0; k < QUAD_LEGS; k++) {
            in.stands[k] = true;
            in.feet[k][0] = k < 2 ? 0.2 : -0.2;
            in.feet[k][1] = k % 2 ? 0.1 : -0.1;
            in.feet[k][2] = -0.3;
        }
        double forces[QUAD_LEGS][3], weight = s.robot.mass * s.options.gravity;
        assert_int_equal(solve(s.mpc, &in, forces).status, QUAD_QP_SOLVED);
        for (int k = 0; k < QUAD_LEGS; k++) {
            assert_true(fabs(forces[k][2] - 0.25 * weight) < 1e-3 * weight);
            assert_true(fabs(forces[k][0]) < 1e-3 * weight);
            assert_true(fabs(forces[k][1]) < 1e-3 * weight);
        }
        quad_mpc_free(s.mpc);
    }
}

static void forces_keep_to_the_pyramid(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    residual r = {.name = "KKT", .tolerance = 1e-8};
    double slack = 1e-8;
    for (int a1 = 0; a1 < 2; a1++) {
        setup s = create(a1);
        double weight = s.robot.mass * s.options.gravity, mu = s.options.friction;
        for (int repeat = 0; repeat < 1000; repeat++) {
            quad_mpc_input in = random_input(&s.robot, &rng, ns_rng_below(&rng, 16));
            for (int i = 0; i < 3; i++) in.velocity[i] *= 5.0; // so that bounds are felt
            double forces[QUAD_LEGS][3];
            quad_qp_report report = solve(s.mpc, &in, forces);
            assert_int_equal(report.status, QUAD_QP_SOLVED);
            residual_add(&r, report.residual, 0.0, 1.0);
            for (int k = 0; k < QUAD_LEGS; k++) {
                const double* f = forces[k];
                if (!in.stands[k]) {
                    assert_true(f[0] == 0.0 && f[1] == 0.0 && f[2] == 0.0);
                    continue;
                }
                assert_true(f[2] >= (0.1 - slack) * weight && f[2] <= (10.0 + slack) * weight);
                assert_true(fabs(f[0]) <= mu * f[2] + slack * weight);
                assert_true(fabs(f[1]) <= mu * f[2] + slack * weight);
            }
        }
        quad_mpc_free(s.mpc);
    }
    residual_check(&r);
}

static void read_vector(const json_t* object, const char* key, double* out) {
    const json_t *list = json_object_get(object, key), *number;
    size_t k;
    json_array_foreach(list, k, number) out[k] = json_number_value(number);
}

// States of walking robots, recorded in the simulator. tests/quadruped/reference.py writes the MPC down
// once more and lets CVXOPT solve it.
static void recorded_problems_have_the_forces_of_cvxopt(void** state) {
    (void)state;
    json_t* cases = json_load_file(NEURALSIM_SOURCE_DIR "/tests/data/control/mpc.json", 0, NULL);
    assert_non_null(cases);
    residual r = {.name = "forces against CVXOPT", .tolerance = 1e-6};
    setup setups[2] = {create(false), create(true)};
    size_t at;
    json_t* c;
    json_array_foreach(cases, at, c) {
        bool a1 = strcmp(json_string_value(json_object_get(c, "robot")), "a1") == 0;
        quad_mpc_input in = {
            .height = json_number_value(json_object_get(c, "height")),
            .wanted_height = json_number_value(json_object_get(c, "wanted_height")),
            .wanted_yaw_rate = json_number_value(json_object_get(c, "wanted_yaw_rate"))};
        read_vector(c, "rpy", in.rpy);
        read_vector(c, "angular_velocity", in.angular_velocity);
        read_vector(c, "velocity", in.velocity);
        read_vector(c, "wanted_velocity", in.wanted_velocity);
        double forces[QUAD_LEGS][3], want[QUAD_LEGS][3];
        for (size_t k = 0; k < QUAD_LEGS; k++) {
            in.stands[k] = json_is_true(json_array_get(json_object_get(c, "stands"), k));
            const json_t* foot = json_array_get(json_object_get(c, "feet"), k);
            const json_t* force = json_array_get(json_object_get(c, "forces"), k);
            for (size_t i = 0; i < 3; i++) {
                in.feet[k][i] = json_number_value(json_array_get(foot, i));
                want[k][i] = json_number_value(json_array_get(force, i));
            }
        }
        assert_int_equal(solve(setups[a1].mpc, &in, forces).status, QUAD_QP_SOLVED);
        residual_array(&r, &forces[0][0], &want[0][0], 12, 1.0);
    }
    residual_check(&r);
    for (int k = 0; k < 2; k++) quad_mpc_free(setups[k].mpc);
    json_decref(cases);
}

// A bad state is told and gives no force; the next good one is solved as if nothing had been.
static void bad_states_are_told(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    setup s = create(true);
    quad_mpc_input good = random_input(&s.robot, &rng, 6), bad = good;
    double forces[QUAD_LEGS][3], again[QUAD_LEGS][3];
    assert_int_equal(solve(s.mpc, &good, forces).status, QUAD_QP_SOLVED);
    bad.velocity[0] = NAN;
    assert_int_equal(solve(s.mpc, &bad, again).status, QUAD_QP_BAD_INPUT);
    for (int k = 0; k < 12; k++) assert_true(again[k / 3][k % 3] == 0.0);
    assert_int_equal(solve(s.mpc, &good, again).status, QUAD_QP_SOLVED);
    for (int k = 0; k < 12; k++) {
        assert_true(fabs(again[k / 3][k % 3] - forces[k / 3][k % 3]) < 1e-9);
    }
    good.rpy[1] = acos(0.0); // upended: T is not finite there
    solve(s.mpc, &good, again);
    for (int k = 0; k < 12; k++) assert_true(isfinite(again[k / 3][k % 3]));
    quad_mpc_free(s.mpc);
}

static void memory_is_checked_and_only_asked_for_at_the_start(void** state) {
    (void)state;
    quad_robot robot = quad_a1();
    quad_mpc_options options = quad_default_controller_options().mpc;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        quad_mpc* mpc = NULL;
        ns_error error;
        ns_status status =
            quad_mpc_create(robot.mass, robot.inertia, &options, &allocator, &mpc, &error);
        if (counter.calls < n) {
            size_t calls = counter.calls;
            ns_rng rng = ns_rng_seed(5);
            for (int k = 0; k < 30; k++) {
                double forces[QUAD_LEGS][3];
                quad_mpc_input in = random_input(&robot, &rng, (uint32_t)k % 16);
                assert_int_equal(solve(mpc, &in, forces).status, QUAD_QP_SOLVED);
            }
            assert_int_equal(counter.calls, calls);
            quad_mpc_free(mpc);
            assert_int_equal(counter.live_blocks, 0);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
    }
    quad_mpc_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_qp_is_the_cost_of_a_rollout),
        cmocka_unit_test(the_model_is_the_rigid_body_at_first),
        cmocka_unit_test(at_rest_the_feet_carry_the_weight),
        cmocka_unit_test(forces_keep_to_the_pyramid),
        cmocka_unit_test(recorded_problems_have_the_forces_of_cvxopt),
        cmocka_unit_test(bad_states_are_told),
        cmocka_unit_test(memory_is_checked_and_only_asked_for_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
