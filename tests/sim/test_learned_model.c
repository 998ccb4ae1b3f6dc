// Steps of learned systems against plain C: sizes, rotations, derivatives.

#include "base/common.h"
#include "neuralsim/learned.h"
#include "sim/learned_model.h"
#include "sim/learned_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/residual.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the step in plain C -------------------------------------------------------------------

// Sums of row vector u times W, W having a last row of biases.
static const double* plain_dense(const double* w, uint32_t nin, const double* u, uint32_t nout,
                                 double* y) {
    for (uint32_t i = 0; i < nout; i++) {
        double sum = w[nin * nout + i];
        for (uint32_t j = 0; j < nin; j++) sum += w[j * nout + i] * u[j];
        y[i] = sum;
    }
    return w + (size_t)(nin + 1) * nout;
}

static double plain_sigmoid(double x) {
    return 1.0 / (1.0 + exp(-x));
}

// The networks of awkward_def(): y (NX) from u (NIN); `kept` are h and c of both layers in the order of
// states, and are replaced.
static void plain_lstm(const double* w, const double* inputs, double* kept, double* y) {
    static const uint32_t widths[] = {5, 3};
    double u[16], sum[32];
    uint32_t nin = NIN;
    memcpy(u, inputs, NIN * sizeof *u);
    for (uint32_t k = 0; k < 2; k++) {
        uint32_t n = widths[k];
        double *h = kept, *c = kept + n;
        memcpy(u + nin, h, n * sizeof *u);
        w = plain_dense(w, nin + n, u, 4 * n, sum);
        for (uint32_t i = 0; i < n; i++) {
            double in = plain_sigmoid(sum[i]), forget = plain_sigmoid(sum[n + i]);
            double out = plain_sigmoid(sum[3 * n + i]);
            c[i] = forget * c[i] + in * tanh(sum[2 * n + i]);
            h[i] = out * tanh(c[i]);
        }
        memcpy(u, h, n * sizeof *u);
        nin = n;
        kept += 2 * n;
    }
    plain_dense(w, nin, u, NX, y);
}

static void plain_feedforward(const double* w, const double* u, double* y) {
    double a[5], b[3];
    w = plain_dense(w, NIN, u, 5, a);
    for (int i = 0; i < 5; i++) a[i] = tanh(a[i]);
    w = plain_dense(w, 5, a, 3, b);
    for (int i = 0; i < 3; i++) b[i] = tanh(b[i]);
    plain_dense(w, 3, b, NX, y);
}

static void plain_step(const ns_learned_def* def, const double* w, const double* c, double* x) {
    double y[NX];
    const double u[NIN] = {(x[0] - 0.2) / 2.0, sin(x[1]),          cos(x[1]),
                           x[3] / 1.5,         (c[0] - 0.1) / 0.7, c[1] + 0.3};
    if (def->kind == NS_LEARNED_LSTM) {
        plain_lstm(w, u, x + NX, y);
    } else {
        plain_feedforward(w, u, y);
    }
    static const double shift[] = {0.2, -0.1, 0.3, 0.0}, scale[] = {0.5, 0.8, 1.2, 1.5};
    for (int i = 0; i < NX; i++) x[i] = (def->increment ? x[i] : shift[i]) + scale[i] * y[i];
}

static void steps_match_plain_c(void** state) {
    (void)state;
    enum { STEPS = 40, BATCH = 3 };
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "sequences in plain C", .tolerance = 1e-12};
    for (int n = 0; n < 40; n++) {
        ns_learned_def def = awkward_def((ns_learned_kind)(n % 2), n / 2 % 2);
        ns_system* system = make_system(&def, NS_BACKEND_AUTO);
        ns_system_sizes z = ns_system_get_sizes(system);
        double* w = random_doubles(&rng, z.nw, 0.8);
        double* x0 = random_doubles(&rng, BATCH * z.nx, 1.0);
        double* c = random_doubles(&rng, BATCH * STEPS * NC, 1.0);
        double* states = doubles((size_t)BATCH * (STEPS + 1) * z.nx);
        double* x = doubles(z.nx);
        ns_workspace* work = make_work(system, (ns_workspace_size){BATCH, STEPS, 1, 0});
        ns_rollout_args args = {.batch = BATCH,
                                .steps = STEPS,
                                .x0 = x0,
                                .controls = c,
                                .weights = w,
                                .states = states};
        ns_error error = {0};
        must(ns_rollout(system, work, &args, &error), &error);
        for (uint32_t b = 0; b < BATCH; b++) {
            memcpy(x, x0 + b * z.nx, z.nx * sizeof *x);
            for (uint32_t k = 0; k < STEPS; k++) {
                plain_step(&def, w, c + (b * STEPS + k) * NC, x);
                // From the state that was reached: an increment system may amplify rounding.
                double* got = states + ((size_t)b * (STEPS + 1) + k + 1) * z.nx;
                residual_array(&r, got, x, z.nx, 1.0);
                memcpy(x, got, z.nx * sizeof *x);
            }
        }
        ns_workspace_free(work);
        ns_system_free(system);
        free(w), free(x0), free(c), free(states), free(x);
    }
    residual_check(&r);
}

// ---- sizes, names, initial weights ---------------------------------------------------------

static void weights_are_as_many_as_they_should_be(void** state) {
    (void)state;
    const struct {
        ns_learned_kind kind;
        uint32_t nx, nc, nhidden, hidden[2], nw, states;
    } cases[] = {
        {NS_LEARNED_LSTM, 8, 1, 1, {16}, 4 * 16 * (9 + 16 + 1) + 17 * 8, 8 + 32},
        {NS_LEARNED_LSTM, 8, 1, 1, {16}, 1800, 40},
        {NS_LEARNED_LSTM, 8, 1, 2, {10, 10}, 1728, 48}, // (20 + 21) 40 + 11 * 8
        {NS_LEARNED_LSTM, 1, 0, 1, {1}, 4 * 3 + 2, 3},
        {NS_LEARNED_FEEDFORWARD, 8, 1, 2, {32, 32}, 10 * 32 + 33 * 32 + 33 * 8, 8},
        {NS_LEARNED_FEEDFORWARD, 8, 1, 2, {32, 32}, 1640, 8},
        {NS_LEARNED_FEEDFORWARD, 3, 2, 0, {0}, 18, 3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ns_learned_def def =
            small_def(cases[i].kind, cases[i].nx, cases[i].nc, cases[i].nhidden, cases[i].hidden);
        ns_system* system = make_system(&def, NS_BACKEND_INTERP);
        ns_system_sizes z = ns_system_get_sizes(system);
        assert_int_equal(z.nw, cases[i].nw);
        assert_int_equal(z.nx, cases[i].states);
        assert_int_equal(z.nc, cases[i].nc);
        assert_int_equal(z.np + z.ny, 0);
        assert_true(z.timestep == def.timestep);

        // Matrices without gaps, each with its biases; forget gates begin open, other biases at 0.
        bool lstm = def.kind == NS_LEARNED_LSTM;
        uint32_t count = ns_system_weight_matrix_count(system), offset = 0;
        double* w = doubles(z.nw);
        ns_system_default_weights(system, w);
        assert_int_equal(count, def.nhidden + 1);
        for (uint32_t k = 0; k < count; k++) {
            ns_weight_matrix m = ns_system_weight_matrix(system, k);
            bool last = k + 1 == count;
            assert_string_equal(m.set, !lstm ? "dynamics" : last ? "readout" : "lstm");
            assert_int_equal(m.layer, lstm && last ? 0 : k);
            assert_int_equal(m.offset, offset);
            assert_true(m.bias);
            uint32_t in = k > 0 ? def.hidden[k - 1] : def.nx + def.nc;
            uint32_t width = last ? def.nx : def.hidden[k];
            assert_int_equal(m.rows, in + (lstm && !last ? width : 0) + 1);
            assert_int_equal(m.columns, lstm && !last ? 4 * width : width);
            offset += m.rows * m.columns;
            double squares = 0.0;
            for (uint32_t n = m.offset; n < offset - m.columns; n++) squares += w[n] * w[n];
            double deviation =
                sqrt(squares / m.columns); // per column: fan_in numbers of 1 / fan_in
            assert_true(last ? deviation < 0.3 : deviation > 0.1);
            assert_true(deviation > 0.0);
            for (uint32_t n = 0; n < m.columns; n++) {
                bool forget = lstm && !last && n / width == 1;
                assert_true(w[offset - m.columns + n] == (forget ? 1.0 : 0.0));
            }
        }
        assert_int_equal(offset, z.nw);
        assert_null(ns_system_weight_matrix(system, count).set);
        free(w);
        ns_system_free(system);
    }
}

static void names_and_seeds(void** state) {
    (void)state;
    ns_learned_def def = small_def(NS_LEARNED_LSTM, 2, 1, 2, (const uint32_t[]){2, 1});
    ns_system* system = make_system(&def, NS_BACKEND_INTERP);
    static const char* const states[] = {"x0",   "x1",   "h0/0", "h0/1",
                                         "c0/0", "c0/1", "h1/0", "c1/0"};
    for (uint32_t i = 0; i < 8; i++) {
        assert_string_equal(ns_system_state_name(system, i), states[i]);
        assert_string_equal(ns_graph_output_name(ns_system_graph(system), i), states[i]);
    }
    assert_null(ns_system_state_name(system, 8));
    assert_string_equal(ns_system_control_name(system, 0), "c0");
    assert_null(ns_system_control_name(system, 1));
    assert_null(ns_system_param_name(system, 0));
    assert_null(ns_system_observation_name(system, 0));
    ns_system_default_params(system, NULL);

    // Seeds.
    uint32_t nw = ns_system_get_sizes(system).nw;
    double *w = doubles(nw), *again = doubles(nw), *other = doubles(nw);
    ns_system_default_weights(system, w);
    ns_system_free(system);
    def.state_names = (const char* const[]){"angle", "rate"};
    def.control_names = (const char* const[]){"torque"};
    system = make_system(&def, NS_BACKEND_INTERP);
    ns_system_default_weights(system, again);
    same_bits("weights of a seed", w, again, nw);
    assert_string_equal(ns_system_state_name(system, 1), "rate");
    assert_string_equal(ns_system_state_name(system, 2), "h0/0");
    assert_string_equal(ns_system_control_name(system, 0), "torque");
    ns_system_free(system);
    def.seed = 2;
    system = make_system(&def, NS_BACKEND_INTERP);
    ns_system_default_weights(system, other);
    assert_true(w[0] != other[0]);
    ns_system_free(system);
    free(w), free(again), free(other);
}

// ---- derivatives ---------------------------------------------------------------------------

static void steps_pass_the_derivative_check(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    static const char* const names[] = {"feed-forward state", "lstm state",
                                        "feed-forward increment", "lstm increment"};
    ns_system* systems[4];
    double *w[4], *in[4];
    check_batch* batch = check_batch_create();
    for (uint32_t n = 0; n < 4; n++) {
        ns_learned_def def = awkward_def((ns_learned_kind)(n % 2), n >= 2);
        systems[n] = make_system(&def, NS_BACKEND_AUTO);
        ns_system_sizes z = ns_system_get_sizes(systems[n]);
        w[n] = random_doubles(&rng, z.nw, 0.7);
        in[n] = random_doubles(&rng, z.nx + z.nc, 0.8);
        const double* arrays[2] = {w[n], NULL};
        if (n % 2 == 1) {
            arrays[1] = w[n] + ns_system_weight_matrix(systems[n], 2).offset;
        }
        check_options check = {.name = names[n], .seed = n, .c = n < 2 ? CHECK_C_ALL : CHECK_C_VJP};
        check_batch_add(batch, ns_system_graph(systems[n]), in[n], arrays, &check);
    }
    check_report report = check_batch_finish(batch);
    printf("    transpose %.1e, differences %.1e, %u of %u slopes undecided\n",
           report.transpose_error, report.difference_error, report.undecided, report.slopes);
    assert_int_equal(report.undecided, 0);
    for (uint32_t n = 0; n < 4; n++) {
        ns_system_free(systems[n]);
        free(w[n]), free(in[n]);
    }
}

static double dot(const double* a, const double* b, size_t count) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += a[i] * b[i];
    return sum;
}

// The weighted sum of states, `step` along the tangents.
static double shifted_loss(const ns_system* system, ns_workspace* work, const run* u, double step) {
    run v = run_again(u);
    double *w = doubles(u->z.nw), *x0 = doubles(u->nx0), *c = doubles(u->ncontrol);
    for (size_t i = 0; i < u->z.nw; i++) w[i] = u->w[i] + step * u->tw[i];
    for (size_t i = 0; i < u->nx0; i++) x0[i] = u->x0[i] + step * u->tx0[i];
    for (size_t i = 0; i < u->ncontrol; i++) c[i] = u->controls[i] + step * u->tcontrols[i];
    v.w = w, v.x0 = x0, v.controls = c;
    ns_rollout_args args = run_args(&v);
    ns_error error = {0};
    must(ns_rollout(system, work, &args, &error), &error);
    double loss = dot(v.states, u->seeds, u->nstate);
    free(w), free(x0), free(c);
    run_free_results(&v);
    return loss;
}

// <s, J v> = <J' s, v> over whole rollouts, for weights, initial states and controls together; and
// both are the slope of the loss.
static void check_gradients(const ns_system* system, const run* u, residual* transpose,
                            residual* slope) {
    run_all(system, u, (ns_workspace_size){.threads = 1});
    double forward = dot(u->seeds, u->dstates, u->nstate);
    double reverse = dot(u->dw, u->tw, u->z.nw) + dot(u->dx0, u->tx0, u->nx0) +
                     dot(u->dcontrols, u->tcontrols, u->ncontrol);
    double size = 0.0;
    for (size_t i = 0; i < u->nstate; i++) size += fabs(u->seeds[i] * u->dstates[i]);
    residual_add(transpose, reverse, forward, size);
    ns_workspace* work = make_work(system, (ns_workspace_size){u->batch, u->steps, 1, 0});
    double h = 1e-5;
    double central =
        (shifted_loss(system, work, u, h) - shifted_loss(system, work, u, -h)) / (2.0 * h);
    residual_add(slope, forward, central, size);
    assert_true(dot(u->dw, u->dw, u->z.nw) > 0.0);
    ns_workspace_free(work);
}

// Batches of every remainder: lanes that are left over count nothing.
static void rollouts_have_their_gradients(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    residual transpose = {.name = "transpose", .tolerance = 1e-12};
    residual slope = {.name = "central differences", .tolerance = 1e-7};
    for (uint32_t n = 0; n < 24; n++) {
        ns_learned_def def = awkward_def((ns_learned_kind)(n % 2), false);
        ns_system* system = make_system(&def, n / 2 % 2 ? NS_BACKEND_INTERP : NS_BACKEND_NATIVE);
        run u = run_create(system, &rng, 1 + n / 4, 12);
        check_gradients(system, &u, &transpose, &slope);
        run_free(&u);
        ns_system_free(system);
    }
    residual_check(&transpose);
    residual_check(&slope);
}

// ---- rotations -----------------------------------------------------------------------------

enum { BODY = 13, SEEN = 16 }; // states of a free body; what the network sees: z, R, velocities

// A free body: position, quaternion, velocity, angular velocity in the body; x and y are hidden.
static ns_learned_def body_def(ns_learned_kind kind, bool increment) {
    static const ns_learned_input modes[] = {NS_LEARNED_HIDE,     NS_LEARNED_HIDE, NS_LEARNED_RAW,
                                             NS_LEARNED_ROTATION, NS_LEARNED_HIDE, NS_LEARNED_HIDE,
                                             NS_LEARNED_HIDE};
    static const ns_learned_motion motions[] = {
        {0, 7, false}, {1, 8, false}, {2, 9, false}, {3, 10, true}};
    static const uint32_t hidden[] = {4};
    ns_learned_def def = small_def(kind, BODY, 0, 1, hidden);
    def.increment = increment;
    def.state_input = modes, def.nstate_input = 7;
    def.motions = motions, def.nmotion = 4;
    def.timestep = 0.1;
    return def;
}

static void quaternion_product(const double* a, const double* b, double* out) {
    out[0] = a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3];
    out[1] = a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2];
    out[2] = a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1];
    out[3] = a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0];
}

// The quaternion of turning about `w` for `seconds`.
static void turn(const double* w, double seconds, double* out) {
    double speed = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
    out[0] = cos(0.5 * speed * seconds);
    for (int i = 0; i < 3; i++) out[i + 1] = w[i] / speed * sin(0.5 * speed * seconds);
}

static void random_body(ns_rng* rng, double* x) {
    double norm = 0.0;
    for (int i = 0; i < BODY; i++) x[i] = ns_rng_normal(rng);
    for (int i = 3; i < 7; i++) norm += x[i] * x[i];
    for (int i = 3; i < 7; i++) x[i] /= sqrt(norm);
}

// One step of body_def() in plain C, feed-forward. Columns of R are the turned axes, q e q*.
static void plain_body(const double* w, bool increment, double* x) {
    double u[SEEN] = {x[2]}, a[4], y[6], q[4], next[4];
    const double back[4] = {x[3], -x[4], -x[5], -x[6]};
    for (int k = 0; k < 3; k++) {
        double axis[4] = {0.0, k == 0, k == 1, k == 2}, half[4], whole[4];
        quaternion_product(x + 3, axis, half);
        quaternion_product(half, back, whole);
        for (int i = 0; i < 3; i++) u[1 + 3 * i + k] = whole[i + 1];
    }
    memcpy(u + 10, x + 7, 6 * sizeof *u);
    w = plain_dense(w, SEEN, u, 4, a);
    for (int i = 0; i < 4; i++) a[i] = tanh(a[i]);
    plain_dense(w, 4, a, 6, y);
    for (int i = 0; i < 6; i++) x[7 + i] = (increment ? x[7 + i] : 0.0) + y[i];
    for (int i = 0; i < 3; i++) x[i] += 0.1 * x[7 + i];
    turn(x + 10, 0.1, q);
    quaternion_product(x + 3, q, next);
    memcpy(x + 3, next, sizeof next);
}

static void bodies_match_plain_c(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(8);
    residual r = {.name = "steps of a free body in plain C", .tolerance = 1e-13};
    residual sign = {.name = "q and -q", .tolerance = 1e-14};
    for (int n = 0; n < 40; n++) {
        ns_learned_def def = body_def(NS_LEARNED_FEEDFORWARD, n % 2);
        ns_system* system = make_system(&def, n / 2 % 2 ? NS_BACKEND_INTERP : NS_BACKEND_NATIVE);
        ns_system_sizes z = ns_system_get_sizes(system);
        assert_int_equal(z.nw, (SEEN + 1) * 4 + 5 * 6);
        assert_int_equal(z.nx, BODY);
        double* w = random_doubles(&rng, z.nw, 1.0);
        double x0[2][BODY], states[2][2][BODY];
        random_body(&rng, x0[0]);
        memcpy(x0[1], x0[0], sizeof x0[1]);
        for (int i = 3; i < 7; i++) x0[1][i] = -x0[0][i];
        ns_workspace* work = make_work(system, (ns_workspace_size){2, 1, 1, 0});
        ns_rollout_args args = {
            .batch = 2, .steps = 1, .x0 = x0[0], .weights = w, .states = states[0][0]};
        ns_error error = {0};
        must(ns_rollout(system, work, &args, &error), &error);
        plain_body(w, n % 2, x0[0]);
        residual_array(&r, states[0][1], x0[0], BODY, 1.0);
        for (int i = 3; i < 7; i++) states[1][1][i] = -states[1][1][i];
        residual_array(&sign, states[1][1], states[0][1], BODY, 1.0);
        ns_workspace_free(work);
        ns_system_free(system);
        free(w);
    }
    residual_check(&r);
    residual_check(&sign);
}

// Without forces (a network of zeros for the change) a body goes straight and turns evenly: after 200
// steps the closed form, and a quaternion of length 1.
static void a_free_body_turns_evenly(void** state) {
    (void)state;
    enum { STEPS = 200 };
    ns_rng rng = ns_rng_seed(9);
    residual r = {.name = "closed form of even motion", .tolerance = 1e-11};
    ns_learned_def def = body_def(NS_LEARNED_LSTM, true);
    ns_system* system = make_system(&def, NS_BACKEND_AUTO);
    ns_system_sizes z = ns_system_get_sizes(system);
    double *w = doubles(z.nw), *x0 = doubles(z.nx), *states = doubles((STEPS + 1) * z.nx);
    random_body(&rng, x0);
    ns_workspace* work = make_work(system, (ns_workspace_size){1, STEPS, 1, 0});
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .weights = w, .states = states};
    ns_error error = {0};
    must(ns_rollout(system, work, &args, &error), &error);
    const double* end = states + (size_t)STEPS * z.nx;
    double expected[BODY], spin[4], norm = 0.0;
    memcpy(expected, x0, sizeof expected);
    for (int i = 0; i < 3; i++) expected[i] += 0.1 * STEPS * x0[7 + i];
    turn(x0 + 10, 0.1 * STEPS, spin);
    quaternion_product(x0 + 3, spin, expected + 3);
    residual_array(&r, end, expected, BODY, 1.0);
    residual_check(&r);
    for (int i = 3; i < 7; i++) norm += end[i] * end[i];
    assert_true(fabs(norm - 1.0) < 1e-14);
    ns_workspace_free(work);
    ns_system_free(system);
    free(w), free(x0), free(states);
}

static double* roll(const ns_system* system, const double* x0, const double* w, uint32_t steps) {
    ns_workspace* work = make_work(system, (ns_workspace_size){1, steps, 1, 0});
    double* states = doubles((size_t)(steps + 1) * ns_system_get_sizes(system).nx);
    ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .weights = w, .states = states};
    ns_error error = {0};
    must(ns_rollout(system, work, &args, &error), &error);
    ns_workspace_free(work);
    return states;
}

// Balls on joints of all kinds, without forces: with a network of zeros for the change, each
// joint's coordinates follow from its own velocities as in the model's step. A teacher is refused.
static void joints_of_all_kinds_move_as_the_model(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option timestep='0.01' gravity='0 0 0'/><worldbody>"
        "<body name='a'><joint name='slide' type='slide'/><geom size='0.1' mass='1'/></body>"
        "<body name='b' pos='1 0 0'><freejoint name='root'/><geom size='0.1' mass='1'/></body>"
        "<body name='c' pos='2 0 0'><joint name='ball' type='ball'/><geom size='0.1' mass='1'/>"
        "</body><body name='d' pos='3 0 0'><joint name='hinge'/><geom size='0.1' mass='1'/></body>"
        "</worldbody></mujoco>";
    enum { NQ = 13, ALL = 24, STEPS = 50 };
    ns_model* model = NULL;
    ns_system *learned = NULL, *own = NULL;
    ns_error error = {0};
    must(ns_model_parse(text, strlen(text), "m.xml", NULL, &model, &error), &error);
    nsi_learned l = nsi_default_learned();
    l.integrate = l.increment = true;
    must(nsi_learned_create(&l, model, 0.01, false, NULL, &learned, &error), &error);
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NONE;
    must(ns_system_create(model, &options, &own, &error), &error);
    assert_int_equal(ns_system_get_sizes(learned).nx, ALL);
    assert_int_equal(ns_system_get_sizes(own).nx, ALL);
    ns_rng rng = ns_rng_seed(11);
    double *x0 = random_doubles(&rng, ALL, 1.0), *w = doubles(ns_system_get_sizes(learned).nw);
    for (int q = 4; q < NQ - 1; q += 4) { // quaternions are at 4 and 8
        double norm = 0.0;
        for (int i = q; i < q + 4; i++) norm += x0[i] * x0[i];
        for (int i = q; i < q + 4; i++) x0[i] /= sqrt(norm);
    }
    double *a = roll(learned, x0, w, STEPS), *b = roll(own, x0, NULL, STEPS);
    residual r = {.name = "the model's own steps", .tolerance = 1e-12};
    residual_array(&r, a, b, (STEPS + 1) * ALL, 1.0);
    residual_check(&r);
    ns_system* none = NULL;
    assert_int_equal(nsi_learned_create(&l, model, 0.01, true, NULL, &none, &error),
                     NS_ERR_UNSUPPORTED);
    assert_null(none);
    free(x0), free(w), free(a), free(b);
    ns_system_free(learned);
    ns_system_free(own);
    ns_model_free(model);
}

// Derivatives of the step, also where the body hardly turns, and of whole rollouts.
static void bodies_have_their_gradients(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(10);
    residual transpose = {.name = "transpose", .tolerance = 1e-12};
    residual slope = {.name = "central differences", .tolerance = 1e-7};
    for (uint32_t n = 0; n < 8; n++) {
        ns_learned_def def = body_def((ns_learned_kind)(n % 2), n / 2 % 2);
        ns_system* system = make_system(&def, n < 4 ? NS_BACKEND_INTERP : NS_BACKEND_NATIVE);
        run u = run_create(system, &rng, 3, 12);
        for (uint32_t b = 0; b < u.batch; b++) {
            random_body(&rng, u.x0 + b * u.z.nx);
            for (int i = 10; b == 2 && i < BODY; i++) u.x0[b * u.z.nx + (uint32_t)i] = 0.0;
        }
        const double* arrays[2] = {u.w, NULL};
        if (n % 2 == 1) arrays[1] = u.w + ns_system_weight_matrix(system, 1).offset;
        check_options check = {.name = n % 2 ? "lstm body" : "feed-forward body", .seed = n};
        check_function(ns_system_graph(system), u.x0, arrays, &check);
        check_gradients(system, &u, &transpose, &slope);
        run_free(&u);
        ns_system_free(system);
    }
    residual_check(&transpose);
    residual_check(&slope);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_match_plain_c),
        cmocka_unit_test(weights_are_as_many_as_they_should_be),
        cmocka_unit_test(names_and_seeds),
        cmocka_unit_test(steps_pass_the_derivative_check),
        cmocka_unit_test(rollouts_have_their_gradients),
        cmocka_unit_test(bodies_match_plain_c),
        cmocka_unit_test(a_free_body_turns_evenly),
        cmocka_unit_test(joints_of_all_kinds_move_as_the_model),
        cmocka_unit_test(bodies_have_their_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
