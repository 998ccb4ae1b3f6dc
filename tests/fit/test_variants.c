// Fits of several robots that share parameters: against fits of each alone, central differences, what
// the recordings were made with, and through the files that such a fit writes.

#include "fit/fit_state.h"
#include "neuralsim/discover.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"
#include "support/testalloc.h"
#include "sysid/objective_rig.h"
#include "sysid/objective_state.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- two pendulums -----------------------------------------------------------------------------

// They differ in the name of their link, which gives each a mass of its own; the joint is shared.
static void write_pendulum(const char* file, const char* link, double length) {
    experiment_write(file,
                     "<mujoco><option timestep='0.01'/><worldbody><body name='%s'>"
                     "<joint name='hinge' type='hinge' axis='0 1 0' damping='0.3'/>"
                     "<inertial pos='0 0 %.17g' mass='1.5' diaginertia='0.02 0.02 0.001'/></body>"
                     "</worldbody></mujoco>",
                     link, -0.5 * length);
}

static const double DAMPING = 0.11, SHORT_MASS = 1.1, LONG_MASS = 2.2;

static void record(const char* model, const char* link, double mass, const char* name,
                   uint32_t samples) {
    static const double x0[] = {1.2, 0.5, -0.8, 1.0};
    char path[256], pattern[64];
    snprintf(path, sizeof path, "%s", tempdir_path(model));
    snprintf(pattern, sizeof pattern, "link/%s/mass", link);
    const ns_param_value set[] = {{"joint/hinge/damping", DAMPING}, {pattern, mass}};
    motion m = motion_of(path, 0.01, samples);
    m.options.set = set;
    m.options.nset = 2;
    m.runs = 2;
    m.x0 = x0;
    motion_record(&m, name);
}

// Pendulums, what they did and what the columns are: with a sigma, the loss of a recording does not
// depend on others.
static int write_files(void** state) {
    (void)state;
    write_pendulum("short.xml", "short", 0.5);
    write_pendulum("long.xml", "long", 1.3);
    record("short.xml", "short", SHORT_MASS, "run_short_0.csv", 101);
    record("long.xml", "long", LONG_MASS, "run_long_0.csv", 61);
    record("short.xml", "short", SHORT_MASS, "run_short_1.csv", 41);
    experiment_write("map.yaml",
                     "time: t\ntrajectory: traj\nobserve:\n"
                     "  q0: {value: q0, sigma: 0.1}\n  qd0: {value: qd0, sigma: 0.2}\n");
    experiment_write("net.yaml", "networks:\n"
                                 "  - name: drag\n"
                                 "    each: joint/*\n"
                                 "    inputs: [\"{}/velocity\", \"{}/position\"]\n"
                                 "    outputs: \"{}/tau\"\n"
                                 "    hidden: [3]\n"
                                 "    init: {scale: 1, last: 1, seed: 3}\n");
    return 0;
}

#define BOTH                                                                                       \
    "variants:\n"                                                                                  \
    "  - {name: short, files: \"*_short_*\", model: short.xml}\n"                                  \
    "  - {name: long, files: \"*_long_*\", model: long.xml}\n"
#define ALL_RUNS "[run_short_0.csv, run_long_0.csv, run_short_1.csv]"
#define SHORT_RUNS "[run_short_0.csv, run_short_1.csv]"
#define LONG_RUNS "[run_long_0.csv]"

// ---- what is found -----------------------------------------------------------------------------

static double estimate(const ns_fit* fit, const char* name) {
    double value = NAN;
    if (!ns_fit_estimate(fit, name, &value, NULL)) fail_msg("there is no %s", name);
    return value;
}

static void run(ns_fit* fit) {
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
}

static void shared_and_own_parameters_are_found(void** state) {
    (void)state;
    static const char* const fits[] = {
        "train: {window: [20, 40]}\n", "train: {window: 20, initial_state: tied}\n",
        "train: {window: whole, initial_state: recorded, method: lbfgs, iterations: 300}\n",
        "train: {window: [10, 40], iterations: 20}\nsearch: {population: 3, rounds: 1}\n"};
    for (size_t k = 0; k < sizeof fits / sizeof *fits; k++) {
        experiment_write("fit.yaml",
                         BOTH "data: {train: " ALL_RUNS ", test: [run_long_0.csv]}\n"
                              "parameters:\n"
                              "  link/*/mass: {initial: 1.5, lower: 0.3, upper: 5}\n"
                              "  joint/hinge/damping: {initial: 0.3, lower: 0, upper: 2}\n%s",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 2);
        assert_int_equal(fit->nz, 3);
        run(fit);
        double short_mass = estimate(fit, "link/short/mass"),
               long_mass = estimate(fit, "link/long/mass");
        double damping = estimate(fit, "joint/hinge/damping"), tolerance = k == 2 ? 1e-4 : 1e-7;
        print_message("off by %.1e, %.1e, %.1e\n", short_mass - SHORT_MASS, long_mass - LONG_MASS,
                      damping - DAMPING);
        assert_true(fabs(short_mass - SHORT_MASS) < tolerance);
        assert_true(fabs(long_mass - LONG_MASS) < tolerance);
        assert_true(fabs(damping - DAMPING) < tolerance);
        // Predictions are made by the right robot: with the wrong one they are off by much.
        assert_true(fit->result.before[NS_ROLE_TRAIN].rmse_q > 0.1);
        assert_true(fit->result.after[NS_ROLE_TRAIN].rmse_q < tolerance);
        assert_true(fit->result.after[NS_ROLE_TEST].rmse_q < tolerance);
        assert_string_equal(fit->result.model, "short.xml, long.xml");
        ns_fit_free(fit);
    }
}

// The damping of a pendulum that was never pushed is known from another: its own data alone does not
// tell it.
static void one_variant_tells_what_another_does_not(void** state) {
    (void)state;
    experiment_write("rest.csv", "t,traj,q0,qd0\n0,0,0,0\n0.01,0,0,0\n0.02,0,0,0\n0.03,0,0,0\n");
    static const char rest[] = "parameters: {joint/hinge/damping: 0.3}\ntrain: {window: 2}\n";
    experiment_write("alone.yaml", "model: long.xml\ndata: {train: [rest.csv]}\n%s", rest);
    experiment_write("both.yaml",
                     "variants:\n"
                     "  - {name: short, files: run_short_?.csv, model: short.xml}\n"
                     "  - {name: long, files: \"*\", model: long.xml}\n"
                     "data: {train: [rest.csv, run_short_0.csv]}\n%s"
                     "set: {link/short/mass: 1.1}\n",
                     rest);
    ns_fit* alone = experiment_load("alone.yaml", 1);
    ns_fit* both = experiment_load("both.yaml", 1);
    run(alone);
    run(both);
    assert_int_equal(alone->result.estimates.data[0].verdict, NS_VERDICT_NO_EFFECT);
    assert_int_equal(both->result.estimates.data[0].verdict, NS_VERDICT_OK);
    assert_true(fabs(estimate(both, "joint/hinge/damping") - DAMPING) < 1e-7);
    ns_fit_free(alone);
    ns_fit_free(both);
}

// Variants that are the same robot are one robot.
static void equal_variants_are_one(void** state) {
    (void)state;
    static const char rest[] = "data: {map: map.yaml, train: " SHORT_RUNS "}\nblueprint: net.yaml\n"
                               "parameters: {link/short/mass: free, joint/hinge/damping: free}\n"
                               "train: {window: 20, weight_decay: 0.001, iterations: 5}\n";
    experiment_write("one.yaml", "model: short.xml\n%s", rest);
    experiment_write("two.yaml",
                     "variants:\n"
                     "  - {name: a, files: \"*_1.csv\", model: short.xml}\n"
                     "  - {name: b, files: \"*_0.csv\", model: short.xml}\n%s",
                     rest);
    ns_fit *one = experiment_load("one.yaml", 1), *two = experiment_load("two.yaml", 2);
    run(one);
    run(two);
    assert_int_equal(one->nz, two->nz);
    assert_int_equal(one->nw, two->nw);
    // Sums are made in another order.
    for (uint32_t k = 0; k < one->nz + one->nw; k++) {
        assert_true(fabs(one->z[k] - two->z[k]) <= 1e-8 * (1.0 + fabs(one->z[k])));
    }
    double a = one->result.estimates.data[0].standard_error;
    double b = two->result.estimates.data[0].standard_error;
    assert_true(a > 0.0 && fabs(a - b) < 1e-6 * a);
    ns_fit_free(one);
    ns_fit_free(two);
}

static void threads_change_nothing(void** state) {
    (void)state;
    experiment_write("fit.yaml", BOTH "data: {train: " ALL_RUNS "}\nblueprint: net.yaml\n"
                                      "parameters: {link/*/mass: free, joint/hinge/damping: free}\n"
                                      "train: {window: 10, iterations: 4, weight_decay: 0.001}\n");
    ns_fit *one = experiment_load("fit.yaml", 1), *three = experiment_load("fit.yaml", 3);
    run(one);
    run(three);
    assert_memory_equal(one->z, three->z, (one->nz + one->nw) * sizeof(double));
    ns_fit_free(one);
    ns_fit_free(three);
}

static bool stop_soon(void* context, const ns_fit_progress* progress) {
    (void)context;
    return progress->iteration >= 2;
}

static void interrupted_fits_go_on(void** state) {
    (void)state;
    experiment_write("fit.yaml", BOTH "data: {train: " ALL_RUNS "}\n"
                                      "parameters: {link/*/mass: free, joint/hinge/damping: free}\n"
                                      "train: {window: 10, iterations: 5, tolerance: 0}\n");
    ns_fit *whole = experiment_load("fit.yaml", 1), *parts = experiment_load("fit.yaml", 1);
    ns_fit_options options = {.observe = stop_soon, .checkpoint = tempdir_path("checkpoint.json")};
    ns_error error = {0};
    run(whole);
    must(ns_fit_run(parts, &options, &error), &error);
    assert_true(ns_fit_stopped(parts));
    options.observe = NULL;
    options.resume = true;
    must(ns_fit_run(parts, &options, &error), &error);
    assert_memory_equal(whole->z, parts->z, whole->nz * sizeof(double));
    ns_fit_free(whole);
    ns_fit_free(parts);
}

// Stages with batches of windows from all variants.
static void batches_are_of_all_variants(void** state) {
    (void)state;
    experiment_write("fit.yaml",
                     BOTH "data: {train: " ALL_RUNS "}\nblueprint: net.yaml\n"
                          "parameters: {link/*/mass: free, joint/hinge/damping: free}\n"
                          "train: {window: 10, initial_state: recorded, method: adam, batch: 7,"
                          " iterations: 200, learning_rate: 0.02}\n");
    ns_fit* fit = experiment_load("fit.yaml", 2);
    run(fit);
    assert_true(fit->result.phases.data[0].value < 0.2 * fit->result.history.data[0].value);
    ns_fit_free(fit);
}

// ---- sums over variants ------------------------------------------------------------------------

// The number that a parameter of `one` has in `all`.
static uint32_t number_in(const ns_fit* all, const ns_fit* one, uint32_t number) {
    const char* name = ns_parameters_at(one->parameters, number)->name;
    for (uint32_t k = 0; k < all->nz; k++) {
        if (strcmp(ns_parameters_at(all->parameters, k)->name, name) == 0) return k;
    }
    fail_msg("%s is missing", name);
    return 0;
}

// A pooled loss beside those of its variants, all at the same point off the start.
typedef struct pool {
    ns_fit* fit[3]; // both, short, long
    nsi_objective* e[3];
    uint32_t columns[3][64]; // of z and weights, in those of both
    uint32_t first[3];       // windows
} pool;

static pool make_pool(const char* rest) {
    static const char* const heads[] = {
        BOTH "data: {map: map.yaml, train: " ALL_RUNS "}\n",
        "model: short.xml\ndata: {map: map.yaml, train: " SHORT_RUNS "}\n",
        "model: long.xml\ndata: {map: map.yaml, train: " LONG_RUNS "}\n"};
    pool p = {.first = {0}};
    ns_rng rng = ns_rng_seed(7);
    for (int k = 0; k < 3; k++) {
        experiment_write("fit.yaml", "%s%s", heads[k], rest);
        p.fit[k] = experiment_load("fit.yaml", 2);
        p.e[k] = objective_of(p.fit[k], 2);
    }
    nsi_point all = nsi_objective_point(p.e[0]);
    uint32_t nx = p.fit[0]->problem->sizes.nx;
    for (uint32_t k = 0; k < p.fit[0]->nz; k++) all.z[k] += 0.1 * ns_rng_normal(&rng);
    for (uint32_t k = 0; k < p.fit[0]->nw; k++) all.w[k] += 0.1 * ns_rng_normal(&rng);
    for (uint32_t k = 0; k < nsi_objective_window_count(p.e[0]) * nx; k++) {
        all.x[k] += 0.02 * ns_rng_normal(&rng);
    }
    for (int m = 1; m < 3; m++) {
        nsi_point own = nsi_objective_point(p.e[m]);
        for (uint32_t k = 0; k < p.fit[m]->nz; k++) {
            p.columns[m][k] = number_in(p.fit[0], p.fit[m], k);
            own.z[k] = all.z[p.columns[m][k]];
        }
        for (uint32_t k = 0; k < p.fit[m]->nw; k++) {
            p.columns[m][p.fit[m]->nz + k] = p.fit[0]->nz + k;
            own.w[k] = all.w[k];
        }
        p.first[m] = m == 1 ? 0 : nsi_objective_window_count(p.e[1]);
        memcpy(own.x, all.x + (size_t)p.first[m] * nx,
               nsi_objective_window_count(p.e[m]) * nx * sizeof *own.x);
    }
    assert_int_equal(nsi_objective_window_count(p.e[0]),
                     nsi_objective_window_count(p.e[1]) + nsi_objective_window_count(p.e[2]));
    return p;
}

static void free_pool(pool* p) {
    for (int k = 0; k < 3; k++) {
        nsi_objective_free(p->e[k]);
        ns_fit_free(p->fit[k]);
    }
}

static double largest(const double* x, size_t count) {
    double most = 0.0;
    for (size_t k = 0; k < count; k++) most = fmax(most, fabs(x[k]));
    return most;
}

static void assert_near(const double* x, const double* y, size_t count, double tolerance,
                        const char* what) {
    double most = largest(x, count);
    assert_true(count == 0 || most > 0.0);
    for (size_t k = 0; k < count; k++) {
        if (fabs(x[k] - y[k]) <= tolerance * most) continue;
        fail_msg("%s %zu of %zu: %.15g, not %.15g", what, k, count, x[k], y[k]);
    }
}

// Priors, decay and ties are left out: they are no sums over recordings, or differ by their number.
static const char* const sums[] = {
    "parameters: {link/*/mass: free, joint/hinge/damping: free}\ntrain: {window: 10}\n",
    "parameters: {joint/hinge/damping: free, link/*/mass: free}\nblueprint: net.yaml\n"
    "train: {window: 15, huber: 1}\n",
    "blueprint: net.yaml\nparameters: {link/*/mass: free, joint/hinge/armature: 0.01}\n"
    "train: {window: 20, initial_state: recorded}\n",
    "parameters: {load: 1.4}\nset: {link/*/mass: load, joint/hinge/damping: 0.1 * load}\n"
    "train: {window: whole, initial_state: tied}\n"};
enum { SUMS = sizeof sums / sizeof *sums };

static void gradients_are_sums(void** state) {
    (void)state;
    for (int k = 0; k < SUMS; k++) {
        pool p = make_pool(sums[k]);
        double *g[3], value[3];
        for (int m = 0; m < 3; m++) {
            g[m] = calloc(nsi_objective_unknowns(p.e[m]) + 1, sizeof **g);
            value[m] = nsi_objective_gradient(p.e[m], g[m]);
            assert_true(isfinite(value[m]) && value[m] > 0.0);
        }
        uint32_t n = p.e[0]->n, nt = p.e[0]->nt;
        double* sum = calloc(nsi_objective_unknowns(p.e[0]) + 1, sizeof *sum);
        for (int m = 1; m < 3; m++) {
            for (uint32_t i = 0; i < p.e[m]->n; i++) sum[p.columns[m][i]] += g[m][i];
            memcpy(sum + n + (size_t)p.first[m] * nt, g[m] + p.e[m]->n,
                   (size_t)nsi_objective_window_count(p.e[m]) * nt * sizeof *sum);
        }
        assert_true(fabs(value[0] - value[1] - value[2]) <= 1e-13 * value[0]);
        assert_near(g[0], sum, n, 1e-12, "number");
        assert_near(g[0] + n, sum + n, nsi_objective_unknowns(p.e[0]) - n, 1e-12, "direction");
        // And differences of the pooled loss.
        double* step = calloc(nsi_objective_unknowns(p.e[0]) + 1, sizeof *step);
        double most = largest(g[0], nsi_objective_unknowns(p.e[0]));
        for (uint32_t i = 0; i < nsi_objective_unknowns(p.e[0]); i++) {
            double h = 1e-5, f[2];
            step[i] = h;
            nsi_objective_move(p.e[0], step);
            f[1] = nsi_objective_cost(p.e[0]);
            step[i] = -2.0 * h;
            nsi_objective_move(p.e[0], step);
            f[0] = nsi_objective_cost(p.e[0]);
            step[i] = h;
            nsi_objective_move(p.e[0], step);
            step[i] = 0.0;
            assert_true(fabs((f[1] - f[0]) / (2.0 * h) - g[0][i]) <= 1e-6 * most);
        }
        for (int m = 0; m < 3; m++) free(g[m]);
        free(sum);
        free(step);
        free_pool(&p);
    }
}

static void normal_equations_are_sums(void** state) {
    (void)state;
    for (int k = 0; k < SUMS; k++) {
        pool p = make_pool(sums[k]);
        uint32_t n = p.e[0]->n, nt = p.e[0]->nt;
        double *H = calloc((size_t)n * n + 1, sizeof *H), *g = calloc((size_t)n + 1, sizeof *g);
        for (int m = 0; m < 3; m++) {
            double value;
            assert_true(nsi_objective_linearise(p.e[m], &value));
        }
        for (int m = 1; m < 3; m++) {
            const nsi_normal* own = &p.e[m]->normal;
            uint32_t size = p.e[m]->n, windows = nsi_objective_window_count(p.e[m]);
            for (uint32_t i = 0; i < size; i++) {
                g[p.columns[m][i]] += own->g[i];
                for (uint32_t j = 0; j <= i; j++) {
                    uint32_t a = p.columns[m][i], b = p.columns[m][j];
                    H[(size_t)(a > b ? a : b) * n + (a > b ? b : a)] +=
                        own->H[(size_t)i * size + j];
                }
            }
            assert_near(p.e[0]->normal.Hxx + (size_t)p.first[m] * nt * nt, own->Hxx,
                        (size_t)windows * nt * nt, 1e-12, "of states");
        }
        for (uint32_t i = 0; i < n; i++) { // the upper triangle does not count
            for (uint32_t j = i + 1; j < n; j++) {
                H[(size_t)i * n + j] = p.e[0]->normal.H[(size_t)i * n + j] = 0.0;
            }
        }
        assert_near(p.e[0]->normal.H, H, (size_t)n * n, 1e-12, "of numbers");
        assert_near(p.e[0]->normal.g, g, n, 1e-12, "of the right-hand side");
        free(H);
        free(g);
        free_pool(&p);
    }
}

// ---- what is refused ---------------------------------------------------------------------------

static void refused(ns_status status, const char* what, const char* text) {
    experiment_write("bad.yaml", "%s", text);
    const char* message = experiment_error("bad.yaml", status);
    if (!strstr(message, what)) fail_msg("%s\ngives %s\nnot %s", text, message, what);
}

#define REST "parameters: {joint/hinge/damping: free}\n"
#define DATA "data: {train: " ALL_RUNS "}\n"
#define SHORT_AND(name, model)                                                                     \
    "variants:\n"                                                                                  \
    "  - {name: short, files: \"*_short_*\", model: short.xml}\n"                                  \
    "  - {name: " name ", files: \"*\", model: " model "}\n"

// A pendulum that is not like the others.
static void write_odd(const char* file, const char* joint, const char* option, const char* damping,
                      const char* child, const char* rest) {
    experiment_write(file,
                     "<mujoco><option timestep='0.01' %s/><worldbody><body name='arm'>"
                     "<joint name='%s' type='hinge' axis='0 1 0' damping='%s'/>"
                     "<inertial pos='0 0 -0.3' mass='1.5' diaginertia='0.02 0.02 0.001'/>%s</body>"
                     "</worldbody>%s</mujoco>",
                     option, joint, damping, child, rest);
}

static void faults_are_told(void** state) {
    (void)state;
    refused(NS_ERR_PARSE, "bad.yaml:4:28: run_short_1.csv belongs to no variant",
            "variants:\n"
            "  - {name: a, files: \"*_0.csv\", model: short.xml}\n"
            "data:\n  train: [run_short_0.csv, run_short_1.csv]\n" REST);
    write_odd("other.xml", "hinge", "", "0.7", "", "");
    refused(NS_ERR_PARSE,
            "bad.yaml:5:3: joint/hinge/damping is 0.3 in variant short and 0.7 in other, and can"
            " have one initial value only; give it",
            SHORT_AND("other", "other.xml") "parameters:\n  joint/hinge/damping: free\n" DATA);
    write_odd("elbow.xml", "elbow", "", "0.3", "", "");
    refused(NS_ERR_PARSE,
            "bad.yaml:2:3: variants must have the same joints, controls, networks and"
            " integrator, but short and turned have joints hinge and elbow",
            SHORT_AND("turned", "elbow.xml") DATA "parameters: {link/*/mass: free}\n");
    write_odd("driven.xml", "hinge", "", "0.3", "",
              "<actuator><motor name='motor' joint='hinge'/></actuator>");
    refused(NS_ERR_PARSE, "short and driven have 1 and 2 controls",
            SHORT_AND("driven", "driven.xml") DATA REST);
    write_odd("two.xml", "hinge", "", "0.3",
              "<body name='tip'><inertial pos='0 0 -1' mass='0.1' diaginertia='0.01 0.01 0.01'/>"
              "</body>",
              "");
    experiment_write("links.yaml", "networks:\n  - {name: drag, inputs: \"link/*/velocity/com/x\","
                                   " outputs: \"joint/hinge/tau\", hidden: [3]}\n");
    refused(NS_ERR_PARSE, "short and two have 10 and 13 weights",
            SHORT_AND("two", "two.xml") DATA REST "blueprint: links.yaml\n");
    write_odd("rk4.xml", "hinge", "integrator='RK4'", "0.3", "", "");
    refused(NS_ERR_PARSE, "short and long have other integrators; give `integrator`",
            SHORT_AND("long", "rk4.xml") DATA REST);
    refused(NS_ERR_PARSE,
            "no parameter of any variant matches \"link/shrt/mass\"; did you mean"
            " \"link/short/mass\"?",
            BOTH DATA "parameters: {link/shrt/mass: free}\n");
    refused(NS_ERR_PARSE, "no parameter of any variant matches \"link/none/mass\"",
            BOTH DATA REST "set: {link/none/mass: 1}\n");
    refused(NS_ERR_PARSE, "no variant that has link/short/mass has all parameters that its formula",
            BOTH DATA REST "set: {link/short/mass: '\"link/long/mass\"'}\n");
    refused(NS_ERR_PARSE, "neither a parameter of the model",
            BOTH DATA REST "set: {link/*/mass: weight}\n");
    refused(NS_ERR_PARSE, "link/short/mass is asked for twice",
            BOTH DATA "parameters: {link/*/mass: free, link/short/mass: 1}\n");
    refused(NS_ERR_PARSE, "model and variants: leave one of the two out",
            "model: short.xml\n" BOTH DATA REST);
    refused(NS_ERR_PARSE, "`files` is missing",
            "variants: [{name: a, model: short.xml}]\n" DATA REST);
    refused(NS_ERR_PARSE, "expected a list of variants", "variants: short.xml\n" DATA REST);
    refused(NS_ERR_PARSE, "another variant of this name",
            "variants: [{name: a, files: a, model: short.xml}, {name: a, files: b, model:"
            " long.xml}]\n" DATA REST);
    refused(NS_ERR_PARSE, "a variant is a URDF or MJCF file",
            "variants: [{name: a, files: a, model: short.yaml}]\n" DATA REST);
    refused(NS_ERR_IO, "bad.yaml:1:41: there is no file",
            "variants: [{name: a, files: \"*\", model: none.xml}]\n" DATA REST);
    refused(NS_ERR_PARSE, "variants does not go with `learned`",
            BOTH "learned: {kind: feedforward, hidden: [3]}\n" DATA);
    experiment_write("bad.yaml", "%s", BOTH DATA REST);
    ns_discovery* discovery = NULL;
    ns_error error = {0};
    assert_int_equal(ns_discover_load(tempdir_path("bad.yaml"), 1, &discovery, &error),
                     NS_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "discovery searches one robot"));
}

// ---- files -------------------------------------------------------------------------------------

static ns_hybrid* load_variant(const char* name, const char* variant, const char* recording) {
    ns_load_options options = ns_default_load_options();
    ns_hybrid* h = NULL;
    ns_error error = {0};
    options.variant = variant;
    options.recording = recording;
    must(ns_hybrid_load(tempdir_path(name), &options, &h, &error), &error);
    return h;
}

// A parameter as a system made of a hybrid model has it.
static double parameter(const ns_hybrid* h, const char* name) {
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(h, &options);
    options.free_params = &name;
    options.nfree = 1;
    ns_system* system = NULL;
    ns_error error = {0};
    double value = NAN;
    must(ns_system_create(ns_hybrid_model(h), &options, &system, &error), &error);
    ns_system_default_params(system, &value);
    ns_system_free(system);
    return value;
}

static void not_loaded(const char* variant, const char* recording, const char* message) {
    ns_load_options options = ns_default_load_options();
    ns_hybrid* h = NULL;
    ns_error error = {0};
    options.variant = variant;
    options.recording = recording;
    assert_int_equal(ns_hybrid_load(tempdir_path("out/fitted.yaml"), &options, &h, &error),
                     NS_ERR_ARGUMENT);
    if (!strstr(error.message, message)) fail_msg("%s", error.message);
}

static ns_fit* fit_and_save(const char* text) {
    ns_error error = {0};
    experiment_write("fit.yaml", "%s", text);
    ns_fit* fit = experiment_load("fit.yaml", 1);
    run(fit);
    must(ns_fit_save(fit, tempdir_path("out"), &error), &error);
    return fit;
}

// A formula may give each variant another value: the inertia goes with the mass, which is the model's.
static void files_have_all_variants(void** state) {
    (void)state;
    write_pendulum("other.xml", "short", 0.9);
    ns_fit* fit = fit_and_save(
        "variants:\n"
        "  - {name: short, files: \"*_short_*\", model: short.xml}\n"
        "  - {name: other, files: \"*_short_1*\", model: other.xml}\n"
        "  - {name: long, files: \"*_long_*\", model: long.xml}\n"
        "data: {train: " ALL_RUNS "}\nblueprint: net.yaml\n"
        "parameters: {factor: 1, joint/hinge/damping: free, link/long/mass: free}\n"
        "set: {link/short/inertia/yy: '0.02 * factor * (1 - 0.1 * \"link/short/com/z\"^2)',\n"
        "      joint/hinge/armature: '0.001 * \"link/short/mass\"'}\n"
        "train: {window: 10, iterations: 3, initial_state: recorded}\n");
    double factor = estimate(fit, "factor"), damping = estimate(fit, "joint/hinge/damping");
    static const char* const names[] = {"short", "other", "long"};
    static const double com[] = {0.25, 0.45, 0.0};
    for (int k = 0; k < 3; k++) {
        ns_hybrid* h = load_variant("out/fitted.yaml", names[k], NULL);
        assert_string_equal(ns_hybrid_variant(h), names[k]);
        assert_true(parameter(h, "joint/hinge/damping") == damping);
        // A formula does not hold where a parameter that it uses is missing.
        assert_true(parameter(h, "joint/hinge/armature") == (k < 2 ? 0.001 * 1.5 : 0.0));
        if (k < 2) {
            double yy = 0.02 * factor * (1.0 - 0.1 * com[k] * com[k]);
            assert_true(fabs(parameter(h, "link/short/inertia/yy") - yy) < 1e-14);
        } else {
            assert_true(parameter(h, "link/long/mass") == estimate(fit, "link/long/mass"));
        }
        assert_non_null(ns_hybrid_blueprint(h));
        ns_hybrid_free(h);
    }
    // By the name of a recording: the first that fits.
    ns_hybrid* h = load_variant("out/fitted.yaml", NULL, "/far/away/run_short_1.csv");
    assert_string_equal(ns_hybrid_variant(h), "short");
    ns_hybrid_free(h);
    not_loaded(NULL, NULL, "has variants; choose one with the option variant: short, other, long");
    not_loaded(NULL, "run_wide_0.csv",
               "has variants, none for run_wide_0.csv; choose one with the option variant");
    not_loaded("wide", NULL, "has no variant wide, only short, other, long");
    ns_fit_free(fit);
}

// A file that a fit wrote is a model to go on from.
static void fits_go_on_from_files(void** state) {
    (void)state;
    ns_fit* first = fit_and_save(BOTH "data: {train: " ALL_RUNS "}\n"
                                      "parameters: {link/*/mass: free, joint/hinge/damping: free}\n"
                                      "train: {window: 40}\n");
    ns_fit_free(first);
    assert_int_equal(rename(tempdir_path("out"), tempdir_path("first")), 0);
    ns_fit* fit = fit_and_save("model: first/fitted.yaml\ndata: {train: " ALL_RUNS "}\n"
                               "parameters: {link/long/mass: 1}\ntrain: {window: 40}\n");
    assert_int_equal(fit->nvariant, 2);
    assert_true(fabs(estimate(fit, "link/long/mass") - LONG_MASS) < 1e-7);
    ns_hybrid* h = load_variant("out/fitted.yaml", "long", NULL);
    assert_true(parameter(h, "link/long/mass") == estimate(fit, "link/long/mass"));
    assert_true(fabs(parameter(h, "joint/hinge/damping") - DAMPING) < 1e-7);
    ns_hybrid_free(h);
    ns_fit_free(fit);
}

// What a variant has of its own in the file does not hide what was found for all.
static void own_values_are_replaced(void** state) {
    (void)state;
    experiment_write("own.yaml",
                     "variants:\n  - {name: short, files: \"*_short_*\", robot: short.xml}\n"
                     "  - {name: long, files: \"*_long_*\", robot: long.xml, parameters:"
                     " {joint/*/damping: 0.5}}\n"
                     "parameters: {link/short/mass: 1.1, link/long/mass: 2.2}\n");
    ns_fit* fit = fit_and_save("model: own.yaml\ndata: {train: " ALL_RUNS "}\n"
                               "parameters: {joint/hinge/damping: 0.2}\ntrain: {window: 40}\n");
    static const char* const names[] = {"short", "long"};
    for (int k = 0; k < 2; k++) {
        ns_hybrid* h = load_variant("out/fitted.yaml", names[k], NULL);
        assert_true(fabs(parameter(h, "joint/hinge/damping") - DAMPING) < 1e-7);
        ns_hybrid_free(h);
    }
    ns_fit_free(fit);
}

static void parameters_must_be_somewhere(void** state) {
    (void)state;
    experiment_write("h.yaml", "variants:\n  - {name: a, files: a, robot: short.xml}\n"
                               "  - {name: b, files: b, robot: long.xml, parameters:"
                               " {link/long/mass: 4}}\n"
                               "parameters: {link/long/mass: 3, link/*/com/x: 0.1}\n");
    ns_hybrid *a = load_variant("h.yaml", "a", NULL), *b = load_variant("h.yaml", "b", NULL);
    assert_true(parameter(a, "link/short/com/x") == 0.1);
    assert_true(parameter(b, "link/long/com/x") == 0.1);
    assert_true(parameter(b, "link/long/mass") == 4.0); // its own comes last
    ns_hybrid_free(a);
    ns_hybrid_free(b);
    static const char* const wrong[] = {
        "variants:\n  - {name: a, files: a, robot: short.xml}\n"
        "  - {name: b, files: b, robot: long.xml}\nparameters: {link/wide/mass: 3}\n",
        "variants:\n  - {name: a, files: a, robot: short.xml, parameters: {link/long/mass: 3}}\n"
        "  - {name: b, files: b, robot: long.xml}\n"};
    ns_load_options options = ns_default_load_options();
    options.variant = "a";
    for (int k = 0; k < 2; k++) {
        ns_error error = {0};
        experiment_write("h.yaml", "%s", wrong[k]);
        assert_int_equal(ns_hybrid_load(tempdir_path("h.yaml"), &options, &a, &error),
                         NS_ERR_PARSE);
        assert_non_null(strstr(error.message, "no parameter of the model matches"));
    }
    ns_error error = {0};
    assert_int_equal(ns_hybrid_load(tempdir_path("short.xml"), &options, &a, &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "has no variants"));
}

// ---- memory ------------------------------------------------------------------------------------

// Everything once.
static ns_status use_all(const ns_fit* fit, const ns_allocator* allocator) {
    const ns_dataset* data = fit->data[NS_ROLE_TRAIN];
    const nsi_fit_spec* spec = fit->spec;
    ns_parameters* parameters = NULL;
    nsi_problem* problem = NULL;
    nsi_objective* e = NULL;
    nsi_prediction prediction = {0};
    nsi_predict_options options = {.smoothing = 5, .threads = 1};
    ns_variant models[2];
    nsi_variant variants[2];
    ns_error error = {0};
    for (int k = 0; k < 2; k++) {
        const nsi_fit_variant* v = &fit->variants[k];
        models[k] = (ns_variant){v->name, v->files, ns_hybrid_model(v->hybrid), &v->options};
        variants[k] = (nsi_variant){v->name, v->files, ns_hybrid_model(v->hybrid), v->system};
    }
    ns_status status = nsi_parameters_read(models, 2, spec->path, spec->parameters.data,
                                           spec->parameters.count, spec->settings.data,
                                           spec->settings.count, allocator, &parameters, &error);
    if (status == NS_OK) {
        status =
            nsi_problem_create_shared(variants, 2, parameters, data, allocator, &problem, &error);
    }
    if (status == NS_OK) {
        status =
            nsi_objective_create(problem, data, &spec->stages.data[0].windows, NULL, 1, &e, &error);
    }
    if (status == NS_OK) status = differentiate_once(e);
    if (status == NS_OK) {
        status = nsi_predict(problem, data, fit->z, fit->w, &options, &prediction, &error);
    }
    nsi_prediction_free(&prediction);
    nsi_objective_free(e);
    nsi_problem_free(problem);
    ns_parameters_free(parameters);
    return status;
}

static void memory_may_run_out(void** state) {
    (void)state;
    experiment_write("fit.yaml", BOTH "data: {train: " ALL_RUNS "}\n"
                                      "parameters: {link/*/mass: free, factor: 1}\n"
                                      "set: {joint/hinge/damping: 0.1 * factor}\n"
                                      "train: {window: 20}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    fail_each_use(fit, use_all);
    ns_fit_free(fit);
}

static void memory_of_files_may_run_out(void** state) {
    (void)state;
    experiment_write("h.yaml", "variants:\n  - {name: a, files: a, robot: short.xml}\n"
                               "  - {name: b, files: b, robot: long.xml, parameters:"
                               " {link/long/mass: 4}}\n"
                               "parameters: {link/short/mass: 3}\n");
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = ns_default_load_options();
        ns_hybrid* h = NULL;
        options.allocator = &allocator;
        options.variant = "b";
        ns_status status = ns_hybrid_load(tempdir_path("h.yaml"), &options, &h, NULL);
        if (status != NS_OK) assert_int_equal(status, NS_ERR_NOMEM);
        ns_hybrid_free(h);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            break;
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shared_and_own_parameters_are_found),
        cmocka_unit_test(one_variant_tells_what_another_does_not),
        cmocka_unit_test(equal_variants_are_one),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(interrupted_fits_go_on),
        cmocka_unit_test(batches_are_of_all_variants),
        cmocka_unit_test(gradients_are_sums),
        cmocka_unit_test(normal_equations_are_sums),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(files_have_all_variants),
        cmocka_unit_test(fits_go_on_from_files),
        cmocka_unit_test(own_values_are_replaced),
        cmocka_unit_test(parameters_must_be_somewhere),
        cmocka_unit_test(memory_may_run_out),
        cmocka_unit_test(memory_of_files_may_run_out),
    };
    return cmocka_run_group_tests(tests, write_files, NULL);
}
