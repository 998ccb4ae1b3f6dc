// Learned systems: the same bits however they are run, learning, what goes wrong.

#include "base/common.h"
#include "neuralsim/learned.h"
#include "sim/learned_model.h"
#include "sim/learned_rig.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the same bits -------------------------------------------------------------------------

static void compare_runs(const char* what, const run* a, const run* b) {
    char name[100];
    const struct {
        const char* name;
        const double *a, *b;
        size_t count;
    } parts[] = {{"states", a->states, b->states, a->nstate},
                 {"dstates", a->dstates, b->dstates, a->nstate},
                 {"dx0", a->dx0, b->dx0, a->nx0},
                 {"dcontrols", a->dcontrols, b->dcontrols, a->ncontrol},
                 {"dweights", a->dw, b->dw, a->z.nw}};
    for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
        snprintf(name, sizeof name, "%s: %s", what, parts[k].name);
        same_bits(name, parts[k].a, parts[k].b, parts[k].count);
    }
}

static void the_same_bits_however_it_is_run(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(4);
    for (uint32_t n = 0; n < 4; n++) {
        ns_learned_def def = awkward_def((ns_learned_kind)(n % 2), n >= 2);
        ns_system* system = make_system(&def, NS_BACKEND_NATIVE);
        ns_system* interpreted = make_system(&def, NS_BACKEND_INTERP);
        run u = run_create(system, &rng, 11 + n, 50);
        if (n >= 2) { // increments add up
            for (uint32_t i = 0; i < u.z.nw; i++) u.w[i] *= 0.1;
        }
        run_all(system, &u, (ns_workspace_size){.threads = 1});
        run v = run_again(&u);
        for (uint32_t threads = 0; threads <= 3; threads++) {
            run_all(system, &v, (ns_workspace_size){.threads = threads});
            compare_runs("threads", &u, &v);
        }
        run_all(interpreted, &v, (ns_workspace_size){.threads = 2});
        compare_runs("backends", &u, &v);
        // Less and less memory, down to what is refused.
        uint32_t accepted = 0;
        for (size_t bytes = 200000;; bytes = bytes * 2 / 3) {
            ns_workspace_size size = {u.batch, u.steps, 1, bytes};
            ns_workspace* work = NULL;
            if (ns_workspace_create(system, &size, &work, NULL) != NS_OK) break;
            ns_workspace_free(work);
            run_all(system, &v, size);
            compare_runs("checkpoints", &u, &v);
            accepted++;
        }
        assert_in_range(accepted, 4, 30);

        // Each robot as if it were alone.
        double* sum = doubles(u.z.nw);
        for (uint32_t b = 0; b < u.batch; b++) {
            size_t row = (size_t)(u.steps + 1) * u.z.nx, controls = (size_t)u.steps * u.z.nc;
            run one = u;
            one.batch = 1;
            one.nstate = row, one.ncontrol = controls, one.nx0 = u.z.nx;
            one.x0 += b * u.z.nx, one.tx0 += b * u.z.nx;
            one.controls += b * controls, one.tcontrols += b * controls;
            one.seeds += b * row;
            one = run_again(&one);
            run_all(system, &one, (ns_workspace_size){.threads = 1});
            same_bits("alone: states", one.states, u.states + b * row, row);
            same_bits("alone: dstates", one.dstates, u.dstates + b * row, row);
            same_bits("alone: dx0", one.dx0, u.dx0 + b * u.z.nx, u.z.nx);
            same_bits("alone: dcontrols", one.dcontrols, u.dcontrols + b * controls, controls);
            for (uint32_t i = 0; i < u.z.nw; i++) sum[i] += one.dw[i];
            run_free_results(&one);
        }
        residual r = {.name = "sum of gradients for weights", .tolerance = 1e-12};
        residual_array(&r, u.dw, sum, u.z.nw, 1e-3);
        residual_check(&r);
        free(sum);
        run_free_results(&v);
        run_free(&u);
        ns_system_free(system);
        ns_system_free(interpreted);
    }
}

// ---- learning ------------------------------------------------------------------------------

// Adam (Kingma & Ba 2015) on half the sum of squares of state 0 to nx - 1 against `want` (batch x
// (steps + 1) x nx, NaN: does not count), over the number of such; returns the last mean square.
static double train(const ns_system* system, uint32_t nx, ns_rollout_args args, const double* want,
                    double* w, uint32_t epochs, double rate) {
    ns_system_sizes z = ns_system_get_sizes(system);
    size_t rows = (size_t)args.batch * (args.steps + 1);
    double *states = doubles(rows * z.nx), *seeds = doubles(rows * z.nx);
    double *dw = doubles(z.nw), *m = doubles(z.nw), *v = doubles(z.nw), loss = INFINITY;
    ns_workspace* work = make_work(system, (ns_workspace_size){args.batch, args.steps, 1, 0});
    args.weights = w;
    args.states = states;
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dweights = dw};
    ns_error error = {0};
    for (uint32_t epoch = 1; epoch <= epochs; epoch++) {
        must(ns_rollout(system, work, &args, &error), &error);
        double count = 0.0;
        loss = 0.0;
        for (size_t i = 0; i < rows; i++) {
            for (uint32_t k = 0; k < nx; k++) {
                double off = states[i * z.nx + k] - want[i * nx + k];
                seeds[i * z.nx + k] = isnan(off) ? 0.0 : off;
                if (isnan(off)) continue;
                count += 1.0;
                loss += off * off;
            }
        }
        loss /= count;
        must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
        double decay = 0.5 * (1.0 + cos(3.14159265358979 * epoch / epochs));
        for (uint32_t k = 0; k < z.nw; k++) {
            double d = dw[k] / count;
            m[k] = 0.9 * m[k] + 0.1 * d;
            v[k] = 0.999 * v[k] + 0.001 * d * d;
            w[k] -= rate * decay * (m[k] / (1.0 - pow(0.9, epoch))) /
                    (sqrt(v[k] / (1.0 - pow(0.999, epoch))) + 1e-12);
        }
    }
    ns_workspace_free(work);
    free(states), free(seeds), free(dw), free(m), free(v);
    return loss;
}

// x' = A x + B c, from random transitions.
static void a_linear_network_finds_the_matrix(void** state) {
    (void)state;
    enum { N = 3, C = 2, ROWS = 64 };
    static const double A[N][N] = {{0.9, 0.2, 0.0}, {-0.3, 0.8, 0.1}, {0.05, 0.0, -0.7}};
    static const double B[N][C] = {{0.5, 0.0}, {0.0, -0.4}, {0.3, 0.2}};
    ns_rng rng = ns_rng_seed(5);
    for (int increment = 0; increment < 2; increment++) {
        ns_learned_def def = small_def(NS_LEARNED_FEEDFORWARD, N, C, 0, NULL);
        def.increment = increment;
        ns_system* system = make_system(&def, NS_BACKEND_AUTO);
        double *x0 = random_doubles(&rng, ROWS * N, 1.0), *c = random_doubles(&rng, ROWS * C, 1.0);
        double want[ROWS][2][N], w[(N + C + 1) * N];
        for (int r = 0; r < ROWS; r++) {
            for (int i = 0; i < N; i++) {
                want[r][0][i] = NAN;
                want[r][1][i] = 0.0;
                for (int j = 0; j < N; j++) want[r][1][i] += A[i][j] * x0[r * N + j];
                for (int j = 0; j < C; j++) want[r][1][i] += B[i][j] * c[r * C + j];
            }
        }
        ns_system_default_weights(system, w);
        ns_rollout_args args = {.batch = ROWS, .steps = 1, .x0 = x0, .controls = c};
        train(system, N, args, &want[0][0][0], w, 1000, 0.02);
        residual r = {.name = increment ? "A - 1, B from increments" : "A, B from states",
                      .tolerance = 1e-3};
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) {
                residual_add(&r, w[j * N + i], A[i][j] - (increment && i == j), 1.0);
            }
            for (int j = 0; j < C; j++) residual_add(&r, w[(N + j) * N + i], B[i][j], 1.0);
            residual_add(&r, w[(N + C) * N + i], 0.0, 1.0);
        }
        residual_check(&r);
        free(x0), free(c);
        ns_system_free(system);
    }
}

// Memory: the state shall be the control of three steps ago. Without it the best guess is 0, with a
// mean square of 1/3. The trained network then meets sequences it has not seen.
static void an_lstm_learns_a_delayed_copy(void** state) {
    (void)state;
    enum { DELAY = 3, STEPS = 24, BATCH = 64 };
    ns_rng rng = ns_rng_seed(6);
    const ns_learned_input hide = NS_LEARNED_HIDE;
    ns_learned_def def = small_def(NS_LEARNED_LSTM, 1, 1, 1, (const uint32_t[]){21});
    def.state_input = &hide, def.nstate_input = 1;
    ns_system* system = make_system(&def, NS_BACKEND_AUTO);
    ns_system_sizes z = ns_system_get_sizes(system);
    assert_int_equal(z.nw, 4 * 21 * (1 + 21 + 1) + 22); // 1,954
    double *w = doubles(z.nw), *x0 = doubles(BATCH * z.nx);
    static double want[2][BATCH][STEPS + 1];
    double* c[2];
    for (int set = 0; set < 2; set++) {
        c[set] = random_doubles(&rng, BATCH * STEPS, 1.0);
        for (int b = 0; b < BATCH; b++) {
            for (int k = 0; k <= STEPS; k++) {
                // State k + 1 is the first to know control k.
                want[set][b][k] = k > DELAY ? c[set][b * STEPS + k - 1 - DELAY] : NAN;
            }
        }
    }
    ns_system_default_weights(system, w);
    ns_rollout_args args = {.batch = BATCH, .steps = STEPS, .x0 = x0, .controls = c[0]};
    double before = train(system, 1, args, &want[0][0][0], w, 1, 0.0);
    double after = train(system, 1, args, &want[0][0][0], w, 1500, 0.02);
    args.controls = c[1];
    double unseen = train(system, 1, args, &want[1][0][0], w, 1, 0.0);
    printf("    mean square %.3f before, %.1e after training, %.1e on unseen sequences\n", before,
           after, unseen);
    assert_true(before > 0.25);
    assert_true(after < 2e-3);
    assert_true(unseen < 5e-3);
    free(w), free(x0), free(c[0]), free(c[1]);
    ns_system_free(system);
}

// ---- what goes wrong -----------------------------------------------------------------------

static void refuse(const ns_learned_def* def, ns_status status, const char* fragment) {
    ns_system* system = NULL;
    ns_error error = {0};
    assert_int_equal(ns_system_create_learned(def, NULL, NS_BACKEND_AUTO, &system, &error), status);
    assert_null(system);
    if (!strstr(error.message, fragment)) fail_msg("%s: %s", fragment, error.message);
}

static void wrong_definitions_are_refused(void** state) {
    (void)state;
    static const double zero = 0.0, infinite = INFINITY, many[5] = {1, 1, 1, 1, 1};
    static const uint32_t none = 0, wide = 4097, big[2] = {4096, 4096};
    static const uint32_t huge[16] = {4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096,
                                      4096, 4096, 4096, 4096, 4096, 4096, 4096, 4096};
    static const ns_learned_input bad = (ns_learned_input)4;
    static const ns_learned_input hidden[NX] = {NS_LEARNED_HIDE, NS_LEARNED_HIDE, NS_LEARNED_HIDE,
                                                NS_LEARNED_HIDE};
    refuse(NULL, NS_ERR_ARGUMENT, "def is NULL");
    ns_learned_def good = awkward_def(NS_LEARNED_FEEDFORWARD, false), d;
#define REFUSE(fragment, ...) (d = good, __VA_ARGS__, refuse(&d, NS_ERR_ARGUMENT, fragment))
    REFUSE("def.kind is 7", d.kind = (ns_learned_kind)7);
    REFUSE("def.nx is 0", d.nx = 0);
    REFUSE("def.nx is 5000", d.nx = 5000);
    REFUSE("def.nc is 5000", d.nc = 5000);
    REFUSE("def.state_names[1]", d.state_names = (const char* const[]){"a", "", "c", "d"});
    REFUSE("def.state_names[2]", d.state_names = (const char* const[]){"a", "b", NULL, "d"});
    REFUSE("def.state_names[0] and [3]", d.state_names = (const char* const[]){"a", "b", "c", "a"});
    REFUSE("def.control_names[0] and [1]", d.control_names = (const char* const[]){"u", "u"});
    REFUSE("called \"x1\"", d.control_names = (const char* const[]){"u", "x1"});
    REFUSE("def.nhidden is 17", d.nhidden = 17);
    REFUSE("def.nhidden is 0", d.kind = NS_LEARNED_LSTM, d.nhidden = 0);
    REFUSE("def.hidden is NULL", d.hidden = NULL);
    REFUSE("def.hidden[0] is 0", d.hidden = &none, d.nhidden = 1);
    REFUSE("def.hidden[0] is 4097", d.hidden = &wide, d.nhidden = 1);
    REFUSE("def.activation is 99", d.activation = (ns_activation)99);
    REFUSE("def.activation is relu", d.kind = NS_LEARNED_LSTM, d.activation = NS_RELU);
    REFUSE("def.state_input[0] is 4", d.state_input = &bad, d.nstate_input = 1);
    static const ns_learned_input early[] = {NS_LEARNED_ROTATION, NS_LEARNED_HIDE},
                                  late[] = {NS_LEARNED_RAW, NS_LEARNED_ROTATION, NS_LEARNED_HIDE,
                                            NS_LEARNED_HIDE};
    REFUSE("def.state_input[0] is a rotation", d.state_input = early, d.nstate_input = 2);
    REFUSE("def.state_input[1] is a rotation", d.state_input = late, d.nstate_input = 4);
    static const ns_learned_motion motions[][2] = {
        {{0, 1, false}, {0, 2, false}}, {{0, 1, false}, {1, 2, false}},
        {{0, 1, false}, {2, 4, false}}, {{0, 1, false}, {4, 2, false}},
        {{0, 3, false}, {0, 3, true}},  {{0, 3, false}, {1, 2, true}}};
    static const int which[] = {1, 0, 1, 1, 0, 0}; // a motion comes first that another one breaks
    for (int k = 0; k < 6; k++) {
        REFUSE(which[k] ? "def.motions[1]" : "def.motions[0]", d.motions = motions[k],
               d.nmotion = 2);
    }
    REFUSE("def.motions is NULL", d.nmotion = 1);
    REFUSE("def.state_input is NULL", d.state_input = NULL);
    REFUSE("def.state_input has 5", d.nstate_input = 5);
    REFUSE("def.state_input hides", d.state_input = hidden, d.nstate_input = NX, d.nc = 0,
           d.ncontrol_shift = d.ncontrol_scale = 0);
    REFUSE("def.state_shift[0] is inf", d.state_shift = &infinite, d.nstate_shift = 1);
    REFUSE("def.state_scale[0] is 0", d.state_scale = &zero, d.nstate_scale = 1);
    REFUSE("def.state_scale has 5", d.state_scale = many, d.nstate_scale = 5);
    REFUSE("def.control_shift has 3", d.control_shift = many, d.ncontrol_shift = 3);
    REFUSE("def.control_scale[0]", d.control_scale = &infinite);
    REFUSE("def.output_scale[0] is 0", d.output_scale = &zero, d.noutput_scale = 1);
    REFUSE("def.timestep is 0", d.timestep = 0.0);
    REFUSE("def.init_scale is -1", d.init_scale = -1.0);
    REFUSE("def.init_last_scale is nan", d.init_last_scale = (double)NAN);
#undef REFUSE
    d = good;
    d.hidden = huge, d.nhidden = 16;
    refuse(&d, NS_ERR_LIMIT, "def.hidden");
    d.kind = NS_LEARNED_LSTM;
    d.hidden = big, d.nhidden = 2;
    refuse(&d, NS_ERR_LIMIT, "def.hidden");
    // An LSTM may run by itself.
    d = awkward_def(NS_LEARNED_LSTM, false);
    d.state_input = hidden, d.nstate_input = NX, d.nc = 0;
    d.ncontrol_shift = d.ncontrol_scale = 0;
    ns_system_free(make_system(&d, NS_BACKEND_AUTO));
}

static void divergence_is_reported_with_its_culprit(void** state) {
    (void)state;
    ns_learned_def def = small_def(NS_LEARNED_FEEDFORWARD, 2, 0, 0, NULL);
    ns_system* system = make_system(&def, NS_BACKEND_AUTO);
    ns_workspace* work = make_work(system, (ns_workspace_size){1, 100, 1, 0});
    const double x0[2] = {1.0, 0.0}, w[6] = {1e10, 0.0, 0.0, 0.0, 0.0, 0.0};
    ns_rollout_args args = {.batch = 1, .steps = 100, .x0 = x0, .weights = w};
    ns_error error = {0};
    assert_int_equal(ns_rollout(system, work, &args, &error), NS_ERR_NONFINITE);
    if (!strstr(error.message, "step 30") || !strstr(error.message, "output/x0") ||
        !strstr(error.message, "x0 was 1e+300") || strstr(error.message, "integrator")) {
        fail_msg("%s", error.message);
    }
    ns_workspace_free(work);
    ns_system_free(system);
}

static void memory_running_out_is_an_error(void** state) {
    (void)state;
    uint32_t failures = 0;
    for (int kind = 0; kind < 2; kind++) {
        ns_learned_def def = awkward_def((ns_learned_kind)kind, true);
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        for (size_t n = 1;; n++) {
            ns_error error = {0};
            ns_system* system = NULL;
            ns_workspace* work = NULL;
            ns_workspace_size size = {.batch = 6, .steps = 5, .threads = 2};
            counter.calls = 0;
            counter.fail_at = n;
            ns_status status =
                ns_system_create_learned(&def, &allocator, NS_BACKEND_INTERP, &system, &error);
            if (status == NS_OK) status = ns_workspace_create(system, &size, &work, &error);
            bool reached = counter.calls >= n;
            counter.fail_at = 0;
            if (status != NS_OK) {
                assert_int_equal(status, NS_ERR_NOMEM);
                assert_int_equal(error.status, NS_ERR_NOMEM);
                assert_null(work);
                failures++;
            }
            ns_workspace_free(work);
            ns_system_free(system);
            assert_int_equal(counter.live_blocks, 0);
            if (!reached) break;
            assert_int_not_equal(status, NS_OK);
        }
    }
    printf("    %u allocations, each failed once\n", failures);
    assert_in_range(failures, 20, 100000);
}

static void rolling_out_allocates_nothing(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(7);
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_learned_def def = awkward_def(NS_LEARNED_LSTM, false);
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create_learned(&def, &allocator, NS_BACKEND_AUTO, &system, &error), &error);
    run u = run_create(system, &rng, 6, 10);
    ns_workspace* work = make_work(system, (ns_workspace_size){6, 10, 2, 0});
    ns_rollout_args args = run_args(&u);
    ns_rollout_adjoint adjoint = {.state_seeds = u.seeds, .dx0 = u.dx0, .dweights = u.dw};
    ns_rollout_tangent tangent = {.dweights = u.tw, .dstates = u.dstates};
    size_t calls = counter.calls;
    must(ns_rollout(system, work, &args, &error), &error);
    must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
    must(ns_rollout_jvp(system, work, &args, &tangent, &error), &error);
    assert_int_equal(counter.calls, calls);
    ns_workspace_free(work);
    ns_system_free(system);
    assert_int_equal(counter.live_blocks, 0);
    run_free(&u);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_same_bits_however_it_is_run),
        cmocka_unit_test(a_linear_network_finds_the_matrix),
        cmocka_unit_test(an_lstm_learns_a_delayed_copy),
        cmocka_unit_test(wrong_definitions_are_refused),
        cmocka_unit_test(divergence_is_reported_with_its_culprit),
        cmocka_unit_test(memory_running_out_is_an_error),
        cmocka_unit_test(rolling_out_allocates_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
