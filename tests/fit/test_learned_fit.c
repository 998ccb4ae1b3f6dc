// Fits of learned systems: linear maps against least squares, teacher forcing against steps made one by
// one, the same bits again, and files that predict as the fit did.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "neuralsim/learned.h"
#include "report/web_bundle.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/payload.h"
#include "support/program.h"
#include "support/rendered.h"
#include "support/tempdir.h"
#include "support/testalloc.h"
#include "sysid/stage_solver.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"
#define MODEL "model: " PENDULUM "\n"
#define DATA "data: {train: [swings.csv]}\n"
#define BALL "model: ball.xml\ndata: {train: [ball.csv]}\n"

enum { NX = 4, NC = 2, NU = NX + NC + 1 }; // of the pendulum; inputs of a linear map with a bias

// ---- recordings --------------------------------------------------------------------------------

// x' = A x + B u + b, stable, and noise on what it does.
static const double truth[NX][NU] = {{0.9, 0.05, 0.1, 0.0, 0.3, 0.0, 0.02},
                                     {-0.1, 0.85, 0.0, 0.1, 0.0, -0.2, -0.01},
                                     {-0.2, 0.1, 0.7, 0.05, 0.5, 0.1, 0.0},
                                     {0.1, -0.3, 0.1, 0.75, 0.0, 0.4, 0.03}};

enum { RUNS = 3, SAMPLES = 60 };
typedef struct record {
    double x[RUNS][SAMPLES][NX], u[RUNS][SAMPLES][NC];
} record;

static void write_linear(const char* name, double noise, record* out) {
    ns_rng rng = ns_rng_seed(11);
    FILE* file = fopen(tempdir_path(name), "w");
    assert_non_null(file);
    fprintf(file, "t,traj,q0,q1,qd0,qd1,tau0,tau1\n");
    for (int run = 0; run < RUNS; run++) {
        double x[NX];
        for (int i = 0; i < NX; i++) x[i] = ns_rng_normal(&rng);
        for (int k = 0; k < SAMPLES; k++) {
            double z[NU] = {x[0], x[1], x[2], x[3], 0.0, 0.0, 1.0};
            for (int i = 0; i < NC; i++) z[NX + i] = ns_rng_normal(&rng) + 0.5;
            fprintf(file, "%.17g,%d,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g\n", 0.02 * k, run, z[0],
                    z[1], z[2], z[3], z[4], z[5]);
            memcpy(out->x[run][k], z, sizeof out->x[run][k]);
            memcpy(out->u[run][k], z + NX, sizeof out->u[run][k]);
            for (int i = 0; i < NX; i++) {
                x[i] = noise * ns_rng_normal(&rng);
                for (int j = 0; j < NU; j++) x[i] += truth[i][j] * z[j];
            }
        }
    }
    fclose(file);
}

static record exact, noisy;

static int write_data(void** state) {
    (void)state;
    static const double swings[] = {0.8, -0.3, 0.2, 0.5, -1.2, 0.4, -0.5, 1.0, 0.1, 1.4, 0.0, 0.0};
    motion m = motion_of(PENDULUM, 0.01, 41);
    m.runs = 3;
    m.x0 = swings;
    m.push = 0.5;
    motion_record(&m, "swings.csv");
    write_linear("exact.csv", 0.0, &exact);
    write_linear("noisy.csv", 0.1, &noisy);
    experiment_write("net.yaml", "networks:\n  - {name: a, inputs: joint/joint0/velocity,"
                                 " outputs: joint/joint0/tau}\n");
    return 0;
}

static ns_fit* load_text(const char* text, uint32_t threads) {
    experiment_write("fit.yaml", "%s", text);
    return experiment_load("fit.yaml", threads);
}

static void run(ns_fit* fit, const ns_fit_options* options) {
    ns_error error = {0};
    must(ns_fit_run(fit, options, &error), &error);
}

static void save(const ns_fit* fit, const char* folder) {
    ns_error error = {0};
    must(ns_fit_save(fit, tempdir_path(folder), &error), &error);
}

// ---- linear maps -------------------------------------------------------------------------------

// Least squares by normal equations and Gaussian elimination, in long double.
static void least_squares(const record* r, double map[NX][NU]) {
    long double a[NU][NU + NX] = {{0}};
    for (int run = 0; run < RUNS; run++) {
        for (int k = 0; k + 1 < SAMPLES; k++) {
            long double z[NU] = {0};
            for (int i = 0; i < NX; i++) z[i] = r->x[run][k][i];
            for (int i = 0; i < NC; i++) z[NX + i] = r->u[run][k][i];
            z[NU - 1] = 1.0;
            for (int i = 0; i < NU; i++) {
                for (int j = 0; j < NU; j++) a[i][j] += z[i] * z[j];
                for (int j = 0; j < NX; j++) a[i][NU + j] += z[i] * r->x[run][k + 1][j];
            }
        }
    }
    for (int i = 0; i < NU; i++) {
        for (int k = 0; k < NU; k++) {
            if (k == i) continue;
            long double factor = a[k][i] / a[i][i];
            for (int j = i; j < NU + NX; j++) a[k][j] -= factor * a[i][j];
        }
    }
    for (int i = 0; i < NX; i++) {
        for (int j = 0; j < NU; j++) map[i][j] = (double)(a[j][NU + i] / a[j][j]);
    }
}

// The map that weights stand for, from what is written beside them.
static void map_of(const ns_fit* fit, double map[NX][NU]) {
    const nsi_learned* l = fit->spec->learned;
    assert_int_equal(fit->nw, NU * NX);
    for (int i = 0; i < NX; i++) {
        double bias = fit->w[(NU - 1) * NX + i], out = l->output_scale.data[i];
        for (int j = 0; j < NX + NC; j++) {
            double scale = j < NX ? l->state_scale.data[j] : l->control_scale.data[j - NX];
            double shift = j < NX ? l->state_shift.data[j] : l->control_shift.data[j - NX];
            map[i][j] = out * fit->w[j * NX + i] / scale;
            bias -= fit->w[j * NX + i] * shift / scale;
        }
        map[i][NU - 1] = out * bias + (l->increment ? 0.0 : l->state_shift.data[i]);
        if (l->increment) map[i][i] += 1.0;
    }
}

static void assert_map(const ns_fit* fit, const double expected[NX][NU], double tolerance) {
    double map[NX][NU];
    map_of(fit, map);
    for (int i = 0; i < NX; i++) {
        for (int j = 0; j < NU; j++) {
            if (fabs(map[i][j] - expected[i][j]) <= tolerance) continue;
            fail_msg("%d, %d: %.12g, not %.12g", i, j, map[i][j], expected[i][j]);
        }
    }
}

// Without hidden layers the network is a linear map, and one-step residuals are linear in it: what LM
// and L-BFGS find is the solution of least squares.
static void linear_maps_are_found(void** state) {
    (void)state;
    static const char* const stages[] = {
        "{window: one, initial_state: recorded, tolerance: 0, iterations: 30}",
        "{window: one, initial_state: recorded, method: lbfgs,"
        " iterations: 2000, tolerance: 1.0e-16}"};
    for (int k = 0; k < 8; k++) {
        bool with_noise = k & 1, increment = k & 2, lbfgs = k & 4;
        char text[800];
        snprintf(text, sizeof text,
                 MODEL "data: {train: [%s.csv]}\nlearned: {kind: feedforward, increment: %s}\n"
                       "train: %s\n",
                 with_noise ? "noisy" : "exact", increment ? "true" : "false", stages[lbfgs]);
        ns_fit* fit = load_text(text, 1);
        run(fit, NULL);
        double expected[NX][NU];
        least_squares(with_noise ? &noisy : &exact, expected);
        assert_map(fit, expected, lbfgs ? 1e-5 : 1e-9);
        if (!with_noise) {
            assert_map(fit, truth, lbfgs ? 1e-5 : 1e-9);
            if (!lbfgs) assert_true(fit->result.after[NS_ROLE_TRAIN].rmse_q < 1e-8);
        }
        ns_fit_free(fit);
    }
}

// Means and standard deviations of the training data, and of increments their size.
static void scales_are_those_of_the_data(void** state) {
    (void)state;
    ns_fit* fit = load_text(MODEL "data: {train: [noisy.csv]}\n"
                                  "learned: {kind: feedforward, increment: true}\n"
                                  "train: {window: one, initial_state: recorded}\n",
                            1);
    const nsi_learned* l = fit->spec->learned;
    for (int i = 0; i < NX + NC; i++) {
        double mean = 0.0, square = 0.0, change = 0.0;
        for (int pass = 0; pass < 2; pass++) {
            for (int k = 0; k < RUNS * SAMPLES; k++) {
                int run = k / SAMPLES, sample = k % SAMPLES;
                const double *x = noisy.x[run][sample], *u = noisy.u[run][sample];
                double value = i < NX ? x[i] : u[i - NX];
                if (pass == 0) mean += value / (RUNS * SAMPLES);
                if (pass == 1) square += pow(value - mean, 2.0);
                if (pass == 1 && sample > 0 && i < NX) {
                    change += pow(x[i] - noisy.x[run][sample - 1][i], 2.0);
                }
            }
        }
        double scale = sqrt(square / (RUNS * SAMPLES));
        double size = sqrt(change / (RUNS * (SAMPLES - 1)));
        assert_true(fabs((i < NX ? l->state_shift.data[i] : l->control_shift.data[i - NX]) - mean) <
                    1e-12);
        assert_true(fabs((i < NX ? l->state_scale.data[i] : l->control_scale.data[i - NX]) -
                         scale) < 1e-12);
        if (i < NX) assert_true(fabs(l->output_scale.data[i] - size) < 1e-12);
    }
    assert_int_equal(l->controls.count, 2);
    assert_string_equal(l->controls.data[1], "tau1");
    ns_fit_free(fit);
}

// ---- teacher forcing ---------------------------------------------------------------------------

static const char* const lstms[] = {
    "{kind: lstm, hidden: [3]}", "{kind: lstm, hidden: [3, 2], increment: true}",
    "{kind: lstm, hidden: [4], hide: [joint0], angle: [joint1]}",
    "{kind: lstm, hidden: [2], hide: [joint1], increment: true, init: {last: 1}, seed: 4}"};
enum { LSTMS = sizeof lstms / sizeof *lstms };

static ns_fit* load_teacher(const char* learned, const char* data) {
    char text[800];
    snprintf(text, sizeof text,
             MODEL
             "data: {train: [%s]}\nlearned: %s\n"
             "train: {teacher_forcing: true, window: 20, initial_state: recorded, method: adam,"
             " iterations: 30}\n",
             data, learned);
    return load_text(text, 1);
}

// The loss by the plain system: one step at a time from recorded states, while h and c go on.
static double loss_step_by_step(const ns_fit* fit, const double* weights) {
    const nsi_problem* p = fit->problem;
    const ns_dataset* data = fit->data[NS_ROLE_TRAIN];
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    assert_int_equal(ns_workspace_create(fit->system, &size, &work, NULL), NS_OK);
    double x[64] = {0}, states[128], sum = 0.0;
    assert_true(p->sizes.nx <= 64);
    for (uint32_t r = 0; r < ns_dataset_recording_count(data); r++) {
        const ns_recording* recording = ns_dataset_recording(data, r);
        for (uint32_t k = 0; k + 1 < recording->nsample; k++) {
            if (k % 20 == 0) memset(x, 0, sizeof x);
            memcpy(x, recording->values + (size_t)k * NX, NX * sizeof *x);
            ns_rollout_args args = {.batch = 1,
                                    .steps = 1,
                                    .x0 = x,
                                    .controls = recording->controls + (size_t)k * NC,
                                    .weights = weights,
                                    .states = states};
            assert_int_equal(ns_rollout(fit->system, work, &args, NULL), NS_OK);
            memcpy(x, states + p->sizes.nx, p->sizes.nx * sizeof *x);
            for (uint32_t c = 0; c < NX; c++) {
                double off = x[c] - recording->values[(size_t)(k + 1) * NX + c];
                sum += pow(off * p->sources[c].scale, 2.0);
            }
        }
    }
    ns_workspace_free(work);
    return 0.5 * sum;
}

static nsi_objective* objective_of(const ns_fit* fit) {
    nsi_objective* e = NULL;
    ns_error error = {0};
    const nsi_stage* stage = &fit->spec->stages.data[0];
    must(nsi_objective_create(nsi_fit_problem(fit, stage), fit->data[NS_ROLE_TRAIN],
                              &stage->windows, NULL, 1, &e, &error),
         &error);
    return e;
}

// Larger weights than a network starts with, so that nothing is nearly linear.
static void scatter_weights(const ns_fit* fit, nsi_objective* e) {
    ns_rng rng = ns_rng_seed(5);
    for (uint32_t k = 0; k < fit->nw; k++) {
        nsi_objective_point(e).w[k] = 0.5 * ns_rng_normal(&rng);
    }
}

static void a_teacher_gives_recorded_states(void** state) {
    (void)state;
    for (int k = 0; k < LSTMS; k++) {
        ns_fit* fit = load_teacher(lstms[k], "swings.csv");
        assert_int_equal(ns_system_get_sizes(fit->teacher_system).nw, fit->nw);
        nsi_objective* e = objective_of(fit);
        assert_int_equal(nsi_objective_window_count(e), 6);
        scatter_weights(fit, e);
        double value = nsi_objective_cost(e);
        double expected = loss_step_by_step(fit, nsi_objective_point(e).w);
        if (!(fabs(value - expected) <= 1e-11 * expected)) {
            fail_msg("%s: %.15g, not %.15g", lstms[k], value, expected);
        }
        nsi_objective_free(e);
        ns_fit_free(fit);
    }
}

static void gradients_with_a_teacher_are_slopes(void** state) {
    (void)state;
    for (int k = 0; k < LSTMS; k++) {
        ns_fit* fit = load_teacher(lstms[k], "swings.csv");
        nsi_objective* e = objective_of(fit);
        scatter_weights(fit, e);
        double gradient[256], size = 0.0, worst = 0.0;
        assert_true(fit->nw <= 256);
        assert_int_equal(nsi_objective_unknowns(e), fit->nw);
        assert_true(isfinite(nsi_objective_gradient(e, gradient)));
        double* w = nsi_objective_point(e).w;
        for (uint32_t i = 0; i < fit->nw; i++) {
            double at = w[i], step = 1e-5;
            w[i] = at + step;
            double above = nsi_objective_cost(e);
            w[i] = at - step;
            double below = nsi_objective_cost(e);
            w[i] = at;
            size = fmax(size, fabs(gradient[i]));
            worst = fmax(worst, fabs((above - below) / (2.0 * step) - gradient[i]));
        }
        // Central differences are good to step^2 and to rounding / step.
        if (!(worst <= 1e-8 * size) || !(size > 0.0)) {
            fail_msg("%s: off by %g of %g", lstms[k], worst, size);
        }
        nsi_objective_free(e);
        ns_fit_free(fit);
    }
}

// Samples that are missing count nothing, and the network sees what can be guessed of them.
static void missing_samples_are_guessed(void** state) {
    (void)state;
    static const double x0[] = {0.8, -0.3, 0.2, 0.5};
    motion m = motion_of(PENDULUM, 0.01, 41);
    m.x0 = x0;
    m.missing = 0.1;
    motion_record(&m, "holes.csv");
    ns_fit* fit = load_teacher(lstms[1], "holes.csv");
    run(fit, NULL);
    assert_true(isfinite(fit->result.phases.data[0].value));
    ns_fit_free(fit);
}

// ---- the same again ----------------------------------------------------------------------------

static const char* const plans[] = {
    MODEL DATA "learned: {kind: lstm, hidden: [3]}\n"
               "train: {initial_state: recorded, method: adam, clip_norm: 1, learning_rate: 0.05}\n"
               "stages:\n"
               "  - {teacher_forcing: true, window: 20, iterations: 12, batch: 2}\n"
               "  - {window: 10, iterations: 14, batch: 5, learning_rate_end: 0.02}\n"
               "  - {window: 20, iterations: 12}\n",
    MODEL DATA "learned: {kind: lstm, hidden: [2, 2], increment: true, angle: [joint0]}\n"
               "train: {initial_state: recorded, iterations: 8}\n"
               "stages:\n"
               "  - {teacher_forcing: true, window: 20}\n"
               "  - {window: 10, method: lbfgs}\n",
    MODEL DATA "learned: {kind: feedforward, hidden: [5], increment: true, activation: softsign}\n"
               "train: {initial_state: recorded, iterations: 8}\n"
               "stages: [{window: one}, {window: 10, method: adam, learning_rate: 0.3}]\n"};
enum { PLANS = sizeof plans / sizeof *plans };

typedef struct stopper {
    uint32_t calls, stop_at; // 0: never
} stopper;

static bool watch(void* context, const ns_fit_progress* progress) {
    (void)progress;
    stopper* s = context;
    return ++s->calls == s->stop_at;
}

// Weights at the end; the number of iterations.
static uint32_t end_of(const char* text, uint32_t threads, uint32_t stop_at, bool resume,
                       double* weights) {
    ns_fit* fit = load_text(text, threads);
    stopper s = {.stop_at = stop_at};
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", tempdir_path("checkpoint.json"));
    ns_fit_options options = {.observe = watch,
                              .context = &s,
                              .checkpoint = stop_at > 0 || resume ? checkpoint : NULL,
                              .interval = 1e3,
                              .resume = resume};
    run(fit, &options);
    assert_true(fit->nw <= 256);
    assert_int_equal(ns_fit_stopped(fit), stop_at > 0);
    memcpy(weights, fit->w, fit->nw * sizeof(double));
    memset(weights + fit->nw, 0, (256 - fit->nw) * sizeof(double));
    ns_fit_free(fit);
    return s.calls;
}

static void threads_and_stops_do_not_change_the_answer(void** state) {
    (void)state;
    for (int k = 0; k < PLANS; k++) {
        double one[256], two[256];
        uint32_t calls = end_of(plans[k], 1, 0, false, one);
        end_of(plans[k], 2, 0, false, two);
        assert_memory_equal(one, two, sizeof one);
        for (uint32_t stop_at = 1; stop_at <= calls; stop_at += 3) {
            remove(tempdir_path("checkpoint.json"));
            remove(tempdir_path("checkpoint.json.old"));
            end_of(plans[k], 1, stop_at, false, two);
            end_of(plans[k], 2, 0, true, two);
            assert_memory_equal(one, two, sizeof one);
        }
    }
}

// With a rate that is too large Adam does not end where it is best; the stage does.
static void adam_ends_with_the_best_weights(void** state) {
    (void)state;
    for (int batch = 0; batch < 2; batch++) {
        char text[800];
        snprintf(text, sizeof text,
                 MODEL DATA
                 "learned: {kind: lstm, hidden: [3]}\n"
                 "train: {window: 10, initial_state: recorded, method: adam, iterations: 60,"
                 " learning_rate: 0.5, learning_rate_end: 0.5%s}\n",
                 batch ? ", batch: 4" : "");
        ns_fit* fit = load_text(text, 1);
        run(fit, NULL);
        const nsi_result* a = &fit->result;
        double least = INFINITY, end = a->phases.data[0].value;
        for (uint32_t k = 0; k < a->history.count; k++) {
            least = fmin(least, a->history.data[k].value);
        }
        assert_int_equal(a->history.count, 60);
        nsi_objective* e = objective_of(fit);
        memcpy(nsi_objective_point(e).w, fit->w, fit->nw * sizeof(double));
        double value = nsi_objective_cost(e) / nsi_objective_residual_count(e);
        assert_true(fabs(sqrt(2.0 * value) - end) <= 1e-12 * end);
        if (!batch) { // a history of the loss of all windows, before each step
            assert_true(end <= least);
            assert_true(a->history.data[59].value > 1.02 * end);
        } else {
            memcpy(nsi_objective_point(e).w, fit->w0, fit->nw * sizeof(double));
            assert_true(value < nsi_objective_cost(e) / nsi_objective_residual_count(e));
        }
        nsi_objective_free(e);
        ns_fit_free(fit);
    }
}

// ---- predictions and files ---------------------------------------------------------------------

// Errors of q and qd over all recordings, rolled out from their first rows by the system of a file.
static void roll_out(const char* path, const ns_dataset* data, double errors[2]) {
    ns_hybrid* hybrid = NULL;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    double sums[2] = {0}, counts[2] = {0};
    must(ns_hybrid_load(path, NULL, &hybrid, &error), &error);
    assert_true(ns_hybrid_is_learned(hybrid));
    must(ns_hybrid_create_learned(hybrid, &system, &error), &error);
    uint32_t nx = ns_system_get_sizes(system).nx;
    double *x0 = calloc(nx, sizeof *x0), *states = calloc((size_t)nx * 200, sizeof *states);
    assert_true(x0 && states);
    ns_workspace_size size = {.batch = 1, .steps = 199, .threads = 1};
    assert_int_equal(ns_workspace_create(system, &size, &work, NULL), NS_OK);
    for (uint32_t r = 0; r < ns_dataset_recording_count(data); r++) {
        const ns_recording* recording = ns_dataset_recording(data, r);
        memcpy(x0, recording->values, NX * sizeof *x0);
        ns_rollout_args args = {.batch = 1,
                                .steps = recording->nsample - 1,
                                .x0 = x0,
                                .controls = recording->controls,
                                .states = states};
        must(ns_rollout(system, work, &args, &error), &error);
        for (uint32_t k = 1; k < recording->nsample; k++) {
            for (uint32_t c = 0; c < NX; c++) {
                double off = states[(size_t)k * nx + c] - recording->values[(size_t)k * NX + c];
                sums[c >= 2] += off * off;
                counts[c >= 2] += 1.0;
            }
        }
    }
    for (int k = 0; k < 2; k++) errors[k] = sqrt(sums[k] / counts[k]);
    free(x0);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_hybrid_free(hybrid);
}

static void scores_are_those_of_rollouts(void** state) {
    (void)state;
    static const char* const learned[] = {
        "{kind: lstm, hidden: [4], angle: [joint0]}",
        "{kind: lstm, hidden: [3, 2], increment: true, hide: [joint0]}",
        "{kind: feedforward, hidden: [6], increment: true, activation: sin}"};
    for (int k = 0; k < 3; k++) {
        char text[800];
        snprintf(text, sizeof text,
                 MODEL
                 "data: {train: [{file: swings.csv, trajectories: 0-1}],"
                 " test: [{file: swings.csv, trajectories: 2}]}\nlearned: %s\n"
                 "train: {window: 10, initial_state: recorded, method: adam, iterations: 40}\n",
                 learned[k]);
        ns_fit* fit = load_text(text, 2);
        run(fit, NULL);
        save(fit, "saved");
        for (int role = 0; role < NS_ROLE_COUNT; role++) {
            if (!fit->data[role]) continue;
            const ns_score* score = &fit->result.after[role];
            double errors[2];
            roll_out(tempdir_path("saved/fitted.yaml"), fit->data[role], errors);
            assert_true(fabs(errors[0] - score->rmse_q) <= 1e-12 * errors[0]);
            assert_true(fabs(errors[1] - score->rmse_qd) <= 1e-12 * errors[1]);
            assert_true(score->loss < fit->result.before[role].loss || role != NS_ROLE_TRAIN);
        }
        // The program says the same of the file, and all that need physics refuse it.
        run_ok("score saved/fitted.yaml --data swings.csv --json");
        assert_says(last.out, "\"integrator\": \"learned\"");
        static const char* const others[] = {
            "simulate saved/fitted.yaml", "quantities saved/fitted.yaml",
            "gradcheck saved/fitted.yaml", "eval saved/fitted.yaml --quantity qdd",
            "inspect saved/fitted.yaml"};
        for (int i = 0; i < 5; i++) {
            run_bad(others[i], 1, "a learned system");
        }
        run_bad("score saved/fitted.yaml --data swings.csv --dt 0.01", 2, "--dt");
        run_ok("plot saved --list");
        char* page = tempdir_read("saved/report.html");
        assert_true(strlen(page) > 10000);
        free(page);
        // A fit cannot start from it.
        experiment_write("again.yaml",
                         "model: saved/fitted.yaml\n" DATA "learned: {kind: feedforward}\n");
        assert_says(experiment_error("again.yaml", NS_ERR_UNSUPPORTED), "again.yaml:1:8: this is");
        ns_fit_free(fit);
    }
}

// The page shows the model where the network says it is: for a swimmer of two links of 0.1 m,
// link1 begins at (x + 0.1 cos h, y + 0.1 sin h).
static void poses_are_those_of_the_model(void** state) {
    (void)state;
    nsi_web_bundle bundle;
    if (!nsi_web_bundle_get(&bundle)) skip();
    static const double x0[] = {0.0, 0.0, 0.5, -0.7, 0.1, 0.0, 0.3, 0.0};
    motion m = motion_of(NEURALSIM_SOURCE_DIR "/models/swimmer2.xml", 0.01, 50);
    m.x0 = x0;
    m.push = 1e-4;
    motion_record(&m, "swim.csv");
    ns_fit* fit =
        load_text("model: " NEURALSIM_SOURCE_DIR "/models/swimmer2.xml\n"
                  "data: {train: [swim.csv]}\n"
                  "learned: {kind: lstm, hidden: [5], hide: [rootx, rooty], angle: [rootz]}\n"
                  "train: {window: 10, initial_state: recorded, method: adam, iterations: 30}\n",
                  1);
    run(fit, NULL);
    ns_text page = {0};
    ns_error error = {0};
    must(render_fit(fit, ns_report_html, &page, &error), &error);
    payload p = payload_read(page.data);
    for (uint32_t track = 0; track < 3; track++) { // recorded, before, after
        const double* x = payload_quantity(&p, 0, track, "joint/rootx/position");
        const double* y = payload_quantity(&p, 0, track, "joint/rooty/position");
        const double* h = payload_quantity(&p, 0, track, "joint/rootz/position");
        const double* px = payload_quantity(&p, 0, track, "link/link1/pose/x");
        const double* py = payload_quantity(&p, 0, track, "link/link1/pose/y");
        assert_true(x && y && h && px && py);
        for (int k = 0; k < 50; k++) { // pages keep about seven digits
            assert_true(fabs(px[k] - x[k] - 0.1 * cos(h[k])) < 1e-5);
            assert_true(fabs(py[k] - y[k] - 0.1 * sin(h[k])) < 1e-5);
        }
    }
    payload_free(&p);
    ns_text_free(&page);
    ns_fit_free(fit);
}

// A ball in free fall: its velocity changes by -g dt, its spin does not. A linear map finds that from
// single steps, and whole flights follow from it, rotations with them.
static void a_falling_ball_is_found(void** state) {
    (void)state;
    static const double x0[] = {0, 0, 1, 1, 0, 0, 0, 1,    0,    2,   3, -2, 1, //
                                1, 2, 0, 0, 1, 0, 0, -0.5, 0.7,  1,   0, 1,  2, //
                                3, 0, 2, 0, 0, 1, 0, 0.3,  -1.5, 0.1, 1, 1,  -3};
    experiment_write("fall.xml", "<mujoco><worldbody><body name=\"b\"><freejoint name=\"root\"/>"
                                 "<geom type=\"sphere\" size=\"0.1\"/></body></worldbody>"
                                 "</mujoco>\n");
    motion m = motion_of(tempdir_path("fall.xml"), 0.01, 31);
    m.runs = 3;
    m.x0 = x0;
    motion_record(&m, "fall.csv");
    ns_fit* fit = load_text("model: fall.xml\n"
                            "data: {train: [fall.csv]}\n"
                            "learned: {kind: feedforward, increment: true, integrate: true,"
                            " hide: [root/x, root/y]}\n"
                            "train: {window: one, initial_state: recorded}\n",
                            1);
    run(fit, NULL);
    const ns_score *before = &fit->result.before[NS_ROLE_TRAIN],
                   *after = &fit->result.after[NS_ROLE_TRAIN];
    printf("    falling ball: q off by %.1e, then %.1e\n", before->rmse_q, after->rmse_q);
    assert_true(before->rmse_q > 1e-2);
    assert_true(after->rmse_q < 1e-8);
    assert_true(after->rmse_qd < 1e-8);
    save(fit, "fall");
    ns_fit_free(fit);
    char* answer = tempdir_read("fall/fitted.yaml");
    assert_says(answer, "integrate: true");
    assert_says(answer, "root/y");
    free(answer);
    run_ok("score fall/fitted.yaml --data fall.csv --json");
    assert_says(last.out, "\"integrator\": \"learned\"");
}

// On a pendulum under torques, an LSTM gets well below the guess that nothing changes.
static void an_lstm_learns_a_pendulum(void** state) {
    (void)state;
    enum { PUSHED = 8 };
    double x0[PUSHED * NX];
    ns_rng rng = ns_rng_seed(2);
    for (int k = 0; k < PUSHED * NX; k++) x0[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    motion m = motion_of(PENDULUM, 0.02, 61);
    m.runs = PUSHED;
    m.x0 = x0;
    m.push = 1.0;
    motion_record(&m, "pushed.csv");
    ns_fit* fit = load_text(
        MODEL "data: {train: [{file: pushed.csv, trajectories: 0-6}],"
              " test: [{file: pushed.csv, trajectories: 7}]}\n"
              "learned: {kind: lstm, hidden: [12]}\n"
              "train: {initial_state: recorded, method: adam, clip_norm: 1}\n"
              "stages:\n"
              "  - {teacher_forcing: true, window: 20, iterations: 300, learning_rate: 0.02}\n"
              "  - {window: 20, iterations: 300, learning_rate: 0.01}\n"
              "  - {window: 60, iterations: 300, learning_rate: 3.0e-3}\n",
        1);
    run(fit, NULL);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        if (!fit->data[role]) continue;
        double sum = 0.0, count = 0.0;
        for (uint32_t r = 0; r < ns_dataset_recording_count(fit->data[role]); r++) {
            const ns_recording* recording = ns_dataset_recording(fit->data[role], r);
            for (uint32_t k = 1; k < recording->nsample; k++) {
                for (uint32_t c = 0; c < 2; c++) {
                    sum += pow(recording->values[(size_t)k * NX + c] - recording->values[c], 2.0);
                    count += 1.0;
                }
            }
        }
        double still = sqrt(sum / count), learned = fit->result.after[role].rmse_q;
        double share = role == NS_ROLE_TRAIN ? 0.25 : 0.7;
        if (!(learned < share * still)) fail_msg("%d: %g of %g", role, learned, still);
    }
    ns_fit_free(fit);
}

// ---- horizons ----------------------------------------------------------------------------------

// A horizon that one set reaches is enough; another has nothing to show there.
static void horizons_may_be_too_long_for_a_set(void** state) {
    (void)state;
    static const char text[] =
        MODEL "data: {train: [{file: swings.csv, to: 0.205}], test: [swings.csv]}\n"
              "learned: {kind: feedforward, increment: true}\n"
              "train: {window: one, initial_state: recorded, iterations: 3}\n"
              "predict: {horizons: [0.2, 0.4]}\n";
    ns_fit* fit = load_text(text, 1);
    run(fit, NULL);
    const ns_score *train = &fit->result.after[NS_ROLE_TRAIN],
                   *test = &fit->result.after[NS_ROLE_TEST];
    assert_int_equal(train->nhorizon, 2);
    assert_int_equal(train->horizons[0].windows, 3);
    assert_true(isfinite(train->horizons[0].pooled));
    assert_int_equal(train->horizons[1].windows, 0);
    assert_true(isnan(train->horizons[1].pooled) && isnan(train->horizons[1].median));
    assert_int_equal(test->horizons[1].windows, 3);
    assert_true(isfinite(test->horizons[1].pooled) && isfinite(train->rmse_q));
    save(fit, "short");
    ns_fit_free(fit);
    experiment_write("fit.yaml", "%s",
                     MODEL "data: {train: [{file: swings.csv, to: 0.205}], test: [swings.csv]}\n"
                           "learned: {kind: feedforward}\npredict: {horizons: [0.2, 0.41]}\n");
    assert_says(experiment_error("fit.yaml", NS_ERR_PARSE),
                "fit.yaml:4:10: a horizon of 0.41 s is longer than every recording allows: at most"
                " 0.4 s");
}

// ---- what is wrong -----------------------------------------------------------------------------

static const struct {
    const char* text;
    ns_status status;
    const char *place, *says;
} bads[] = {
    {MODEL DATA "learned: lstm\n", NS_ERR_PARSE, "fit.yaml:3:10:", "write a mapping"},
    {MODEL DATA "learned: {hidden: [16]}\n", NS_ERR_PARSE, "fit.yaml:3:10:", "`kind` is missing"},
    {MODEL DATA "learned: {kind: gru}\n", NS_ERR_PARSE, "fit.yaml:3:17:", "lstm"},
    {MODEL DATA "learned: {kind: lstm}\n", NS_ERR_PARSE, "fit.yaml:3:10:", "widths of its layers"},
    {MODEL DATA "learned: {kind: lstm, hidden: []}\n", NS_ERR_PARSE, "fit.yaml:3:31:", "widths"},
    {MODEL DATA "learned: {kind: lstm, hidden: 16}\n", NS_ERR_PARSE, "fit.yaml:3:31:", "a list"},
    {MODEL DATA "learned: {kind: lstm, hidden: [0]}\n", NS_ERR_PARSE, "fit.yaml:3:32:", "hidden"},
    {MODEL DATA "learned: {kind: lstm, hidden: [5000]}\n", NS_ERR_PARSE, "fit.yaml:3:32:", "4096"},
    {MODEL DATA "learned: {kind: lstm, hidden: [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}\n",
     NS_ERR_LIMIT, "fit.yaml:3:31:", "more than 16"},
    {MODEL DATA "learned: {kind: lstm, hidden: [4], activation: relu}\n", NS_ERR_PARSE,
     "fit.yaml:3:48:", "that of an lstm is tanh"},
    {MODEL DATA "learned: {kind: feedforward, activation: square}\n", NS_ERR_PARSE,
     "fit.yaml:3:42:", "softplus"},
    {MODEL DATA "learned: {kind: feedforward, state_scale: [1]}\n", NS_ERR_PARSE,
     "fit.yaml:3:30:", "unknown key \"state_scale\""},
    {MODEL DATA "learned: {kind: feedforward, init: {scale: -1}}\n", NS_ERR_PARSE,
     "fit.yaml:3:44:", "scale"},
    {MODEL DATA "learned: {kind: feedforward, init: {first: 1}}\n", NS_ERR_PARSE,
     "fit.yaml:3:37:", "first"},
    {MODEL DATA "learned: {kind: feedforward, increment: 1}\n", NS_ERR_PARSE,
     "fit.yaml:3:41:", "increment"},
    {MODEL DATA "learned: {kind: feedforward, hide: [joint]}\n", NS_ERR_PARSE, "fit.yaml:3:10:",
     "hide: the model has no joint \"joint\" with a coordinate; did you mean \"joint0\"?"},
    {MODEL DATA "learned: {kind: feedforward, hide: [joint0], angle: [joint0]}\n", NS_ERR_PARSE,
     "fit.yaml:3:10:", "under hide and under angle"},
    {MODEL DATA "learned: {kind: feedforward}\nparameters: {link/link1/mass: 1}\n", NS_ERR_PARSE,
     "fit.yaml:4:13:", "parameters does not go with `learned`"},
    {MODEL DATA "learned: {kind: feedforward}\nset: {link/link1/mass: 1}\n", NS_ERR_PARSE,
     "fit.yaml:4:6:", "set does not go with `learned`"},
    {MODEL DATA "learned: {kind: feedforward}\nblueprint: net.yaml\n", NS_ERR_PARSE,
     "fit.yaml:4:12:", "blueprint does not go with `learned`"},
    {MODEL DATA "learned: {kind: feedforward}\nweights: w.json\n", NS_ERR_PARSE,
     "fit.yaml:4:10:", "weights does not go with `learned`"},
    {MODEL DATA "learned: {kind: feedforward}\nintegrator: rk4\n", NS_ERR_PARSE,
     "fit.yaml:4:13:", "integrator does not go with `learned`"},
    {MODEL DATA "learned: {kind: feedforward}\ntimestep: 0.01\n", NS_ERR_PARSE,
     "fit.yaml:4:11:", "from sample to sample"},
    {MODEL DATA "learned: {kind: feedforward}\nsearch: {}\n", NS_ERR_PARSE,
     "fit.yaml:4:9:", "search does not go with `learned`"},
    {MODEL DATA "learned: {kind: feedforward}\ntrain: {optimise: parameters}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "no parameters"},
    {MODEL DATA "learned: {kind: feedforward}\ntrain: {window: 5, teacher_forcing: true}\n",
     NS_ERR_PARSE, "fit.yaml:4:8:", "window: one"},
    {MODEL DATA "learned: {kind: lstm, hidden: [2]}\ntrain: {window: 5, teacher_forcing: true}\n",
     NS_ERR_PARSE, "fit.yaml:4:8:", "initial_state: recorded"},
    {MODEL DATA "learned: {kind: lstm, hidden: [2]}\ntrain: {initial_state: recorded}\n"
                "stages:\n  - {window: 5}\n  - {teacher_forcing: true, initial_state: free}\n",
     NS_ERR_PARSE, "fit.yaml:7:5:", "initial_state: recorded"},
    {MODEL DATA "learned: {kind: lstm, hidden: [2]}\ntrain: {teacher_forcing: perhaps}\n",
     NS_ERR_PARSE, "fit.yaml:4:26:", "teacher"},
    {MODEL DATA
     "parameters: {link/link1/mass: 1}\ntrain: {teacher_forcing: true, initial_state: recorded}\n",
     NS_ERR_PARSE, "fit.yaml:4:8:", "for a `learned` system"},
    {MODEL DATA "learned: {kind: lstm, hidden: [2]}\ntrain: {learning_rate_end: -1}\n",
     NS_ERR_PARSE, "fit.yaml:4:28:", "rate_end"},
    {BALL "learned: {kind: feedforward}\n", NS_ERR_UNSUPPORTED,
     "fit.yaml:3:10:", "add `integrate: true`"},
    {BALL "learned: {kind: feedforward, integrate: true, hide: [b/w]}\n", NS_ERR_PARSE,
     "fit.yaml:3:10:", "no joint \"b/w\""},
    {BALL "learned: {kind: feedforward, integrate: true, hide: [root/w]}\n", NS_ERR_PARSE,
     "fit.yaml:3:10:", "no joint \"root/w\" with a coordinate; did you mean \"root/x\"?"},
    {BALL "learned: {kind: feedforward, integrate: true, hide: [root], angle: [root/x]}\n",
     NS_ERR_PARSE, "fit.yaml:3:10:", "root/x is under hide and under angle"},
    {BALL "learned: {kind: feedforward, integrate: true, angle: [root]}\n", NS_ERR_PARSE,
     "fit.yaml:3:10:", "seen as its matrix"},
    {BALL "learned: {kind: lstm, hidden: [2], integrate: true}\n"
          "train: {teacher_forcing: true, initial_state: recorded}\n",
     NS_ERR_PARSE, "fit.yaml:4:8:", "does not go with `integrate`"},
    {MODEL "data: {train: [swings.csv], map: half.yaml}\nlearned: {kind: feedforward}\n",
     NS_ERR_PARSE, "fit.yaml:2:7:", "the data has no q1"},
    {MODEL "data: {train: [swings.csv], map: pose.yaml}\nlearned: {kind: feedforward}\n",
     NS_ERR_PARSE, "fit.yaml:2:7:", "link/link1/pose/x"},
};

static void faults_have_a_place(void** state) {
    (void)state;
    experiment_write("ball.xml", "<mujoco><worldbody><body name=\"b\"><freejoint name=\"root\"/>"
                                 "<geom type=\"sphere\" size=\"0.1\"/></body></worldbody>"
                                 "</mujoco>\n");
    experiment_write("ball.csv", "t,q0,q1,q2,q3,q4,q5,q6\n0,0,0,0,1,0,0,0\n0.01,0,0,0,1,0,0,0\n"
                                 "0.02,0,0,0,1,0,0,0\n");
    experiment_write("half.yaml", "time: t\ntrajectory: traj\nobserve: {q0: q0, qd0: qd0}\n");
    experiment_write("pose.yaml",
                     "time: t\ntrajectory: traj\nobserve: {q0: q0, q1: q1, link/link1/pose/x:"
                     " q1}\n");
    for (size_t k = 0; k < sizeof bads / sizeof *bads; k++) {
        experiment_write("fit.yaml", "%s", bads[k].text);
        const char* message = experiment_error("fit.yaml", bads[k].status);
        const char* name = strstr(message, "fit.yaml:");
        if (!name || strncmp(name, bads[k].place, strlen(bads[k].place)) != 0 ||
            !strstr(message, bads[k].says)) {
            fail_msg("%zu. %s'%s'\n not '%s ... %s'", k, bads[k].text, message, bads[k].place,
                     bads[k].says);
        }
    }
}

// Files of learned systems that do not fit, and memory that runs out.
static void files_that_do_not_fit_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *learned, *says;
    } cases[] = {
        {"{kind: feedforward, hide: [elbow]}", "hide: the model has no joint \"elbow\""},
        {"{kind: feedforward, controls: [tau7]}", "controls: the model has no control tau7"},
        {"{kind: feedforward, state_shift: [1]}", "state_shift has 1 numbers; the model needs 4"},
        {"{kind: feedforward, control_scale: [1]}", "control_scale has 1 numbers"}};
    ns_hybrid* hybrid = NULL;
    ns_system* system = NULL;
    ns_error error = {0};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        experiment_write("h.yaml", "robot: " PENDULUM "\ntimestep: 0.01\nlearned: %s\n",
                         cases[k].learned);
        assert_int_equal(ns_hybrid_load(tempdir_path("h.yaml"), NULL, &hybrid, &error), NS_OK);
        assert_int_equal(ns_hybrid_create_learned(hybrid, &system, &error), NS_ERR_ARGUMENT);
        assert_null(system);
        assert_says(error.message, "h.yaml: learned: ");
        assert_says(error.message, cases[k].says);
        ns_hybrid_free(hybrid);
    }
    experiment_write("h.yaml", "robot: " PENDULUM "\n");
    assert_int_equal(ns_hybrid_load(tempdir_path("h.yaml"), NULL, &hybrid, &error), NS_OK);
    assert_false(ns_hybrid_is_learned(hybrid));
    assert_int_equal(ns_hybrid_create_learned(hybrid, &system, &error), NS_ERR_ARGUMENT);
    ns_hybrid_free(hybrid);
    experiment_write("h.yaml", "robot: " PENDULUM "\ntimestep: 0.01\nlearned: {kind: lstm, hidden:"
                               " [1], angle: [joint0], controls: [tau1], control_scale: [2]}\n");
    size_t n = 1;
    for (bool done = false; !done; n += 1 + n / 20) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = ns_default_load_options();
        options.allocator = &allocator;
        hybrid = NULL, system = NULL;
        ns_status status = ns_hybrid_load(tempdir_path("h.yaml"), &options, &hybrid, &error);
        if (status == NS_OK) status = ns_hybrid_create_learned(hybrid, &system, &error);
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        ns_system_free(system);
        ns_hybrid_free(hybrid);
        assert_int_equal(counter.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_maps_are_found),
        cmocka_unit_test(scales_are_those_of_the_data),
        cmocka_unit_test(a_teacher_gives_recorded_states),
        cmocka_unit_test(gradients_with_a_teacher_are_slopes),
        cmocka_unit_test(missing_samples_are_guessed),
        cmocka_unit_test(threads_and_stops_do_not_change_the_answer),
        cmocka_unit_test(adam_ends_with_the_best_weights),
        cmocka_unit_test(scores_are_those_of_rollouts),
        cmocka_unit_test(poses_are_those_of_the_model),
        cmocka_unit_test(a_falling_ball_is_found),
        cmocka_unit_test(an_lstm_learns_a_pendulum),
        cmocka_unit_test(horizons_may_be_too_long_for_a_set),
        cmocka_unit_test(faults_have_a_place),
        cmocka_unit_test(files_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, write_data, NULL);
}
