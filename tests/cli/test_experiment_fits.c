// Experiments of fits: truths that they simulate, seeds, learning curves, fits that go on from others,
// cases, figures and numbers.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

// A double pendulum with friction in its joints, and fits of what its model lacks.
static const struct {
    const char *name, *text;
} files[] = {
    {"truth.yaml", "robot: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                   "parameters: {joint/joint0/damping: 0.1, joint/joint1/damping: 0.05}\n"},
    {"friction.yaml", "formulas:\n"
                      "  - name: friction\n"
                      "    each: joint/*\n"
                      "    weights: separate\n"
                      "    output: \"{}/tau\"\n"
                      "    formula: -b * \"{}/velocity\"\n"
                      "    coefficients: {b: 0.01}\n"},
#define FIT(start) FIT_WITH(start, "")
#define FIT_WITH(start, measures)                                                                  \
    "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n" start                          \
    "integrator: rk4\ntimestep: 0.01\n"                                                            \
    "data:\n  folder: data\n  train: [{file: a.csv, trajectories: 0-9}]\n"                         \
    "  test: [{file: a.csv, trajectories: 10-14}]\n"                                               \
    "predict: {horizons: [0.5, 1]" measures "}\n"
    {"formula.yaml",
     FIT("blueprint: friction.yaml\n") "train: {window: 20, initial_state: recorded}\n"},
    {"again.yaml", FIT("blueprint: friction.yaml\n") "train: {window: 20, initial_state: recorded, "
                                                     "iterations: 1}\n"},
    {"damping.yaml", FIT("parameters: {joint/*/damping: {initial: 0.01, lower: 0}}\n") //
     "train: {window: 20, initial_state: recorded}\n"},
    {"near_far.yaml", FIT_WITH("blueprint: friction.yaml\n",
                               ", measures: {near: {distance: [q0]}, far: {distance: [q1]}}") //
     "train: {window: 20, initial_state: recorded, iterations: 0}\n"},
    {"far_near.yaml", FIT_WITH("blueprint: friction.yaml\n",
                               ", measures: {far: {distance: [q1]}, near: {distance: [q0]}}") //
     "train: {window: 20, initial_state: recorded, iterations: 0}\n"},
#define PUSHES(data)                                                                               \
    "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"                                \
    "integrator: rk4\ntimestep: 0.01\ndata: {" data "}\n"                                          \
    "parameters: {joint/*/damping: {initial: 0.01, lower: 0}}\n"                                   \
    "train: {window: 20, initial_state: recorded}\n"                                               \
    "predict: {measures: {far: {distance: [q0, q1]}}}\n"
    {"pushes.yaml", PUSHES("train: [push_*.csv]")},
    {"twice.yaml", PUSHES("train: [push_a.csv, push_?.csv]")},
    {"first.yaml", PUSHES("train: [push_b.csv, push_d.csv], test: [push_a.csv, push_c.csv]")},
    {"second.yaml", PUSHES("train: [{file: push_*.csv, select: 0}, push_c.csv],"
                           " test: [push_b.csv, push_d.csv]")},
    {"plate.xml", "<mujoco><option timestep='0.01'/><default><geom contype='0' conaffinity='0'/>"
                  "</default><worldbody><geom name='board' type='plane' size='1 1 1'/>"
                  "<body name='plate'><joint name='x' type='slide' axis='1 0 0' damping='0.2'/>"
                  "<joint name='y' type='slide' axis='0 1 0'/>"
                  "<joint name='yaw' type='hinge' axis='0 0 1'/>"
                  "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
                  "<geom name='square' type='polygon' size='0.01'"
                  " vertex='0.1 0.1 -0.1 0.1 -0.1 -0.1 0.1 -0.1'/>"
                  "<geom name='foot' type='points' vertex='0 0 0' pos='0.05 -0.02 1'/>"
                  "</body></worldbody><contact><pair geom1='foot' geom2='board' friction='0.3'/>"
                  "</contact></mujoco>"},
    {"slide.yaml", "model: plate.xml\ndata: {train: [slide_*.csv]}\n"
                   "parameters: {joint/x/damping: {initial: 0.1, lower: 0}}\n"
                   "train: {window: whole, initial_state: recorded}\n"
                   "predict: {measures: {far: {distance: [q0, q1]}}}\n"},
    {"network.yaml", FIT("blueprint: networks.yaml\n") //
     "train: {window: 5, initial_state: recorded, iterations: 3}\n"},
    {"networks.yaml", "networks:\n"
                      "  - {name: torque, each: joint/*, inputs: [\"{}/velocity\"], outputs: "
                      "[\"{}/tau\"], hidden: [3]}\n"},
};

#define SIMULATE(more)                                                                             \
    "simulate:\n"                                                                                  \
    "  - {file: a.csv, model: truth.yaml, trajectories: 15, seconds: 1, timestep: 0.01,"           \
    " integrator: rk4, initial_state: {q_joint0: [-2, 2], q_joint1: [-2, 2], qd0: 0.5}" more "}\n"

static void write_experiment(const char* text) {
    tempdir_write("experiments/mine/study.yaml", text);
}

static json_t* run_experiment(const char* arguments) {
    char command[300];
    json_error_t error;
    snprintf(command, sizeof command, "experiment mine --json %s", arguments);
    run_ok(command);
    json_t* root = json_loads(last.out, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("%s: line %d: %s", arguments, error.line, error.text);
    return root;
}

static double number_of(const json_t* root, const char* fit, uint32_t run, const char* key) {
    const json_t* runs = json_object_get(json_object_get(root, "runs"), fit);
    return json_number_value(json_object_get(json_array_get(runs, run), key));
}

// The numbers of a table, without its names.
static double* read_numbers(const char* name, uint32_t* count) {
    char *text = tempdir_read(name), *at = strchr(text, '\n');
    double* numbers = malloc((strlen(text) + 1) * sizeof *numbers);
    *count = 0;
    for (char* end; at && *at; at = end + (*end != '\0')) {
        numbers[*count] = strtod(at, &end);
        if (end == at) break;
        ++*count;
    }
    free(text);
    return numbers;
}

// ---- the truth -----------------------------------------------------------------------------

// The same motions as the command simulate makes from the same starts.
static void truth_is_simulated(void** state) {
    (void)state;
    uint32_t count, others;
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE("") //
                     "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(run_experiment("-o clean"));
    double* table = read_numbers("clean/data/a.csv", &count);
    assert_int_equal(count, 15 * 101 * 6);
    FILE* starts = fopen(tempdir_path("starts.csv"), "w");
    fprintf(starts, "q_joint0,q_joint1,qd_joint0,qd_joint1\n");
    for (uint32_t k = 0; k < 15; k++) {
        const double* row = table + (size_t)k * 101 * 6;
        assert_true(row[0] == k && row[1] == 0.0);
        assert_true(fabs(row[2]) <= 2.0 && fabs(row[3]) <= 2.0);
        assert_true(row[4] == 0.5 && row[5] == 0.0);
        if (k > 0) assert_true(row[2] != table[2]);
        fprintf(starts, "%.17g,%.17g,%.17g,%.17g\n", row[2], row[3], row[4], row[5]);
    }
    fclose(starts);
    run_ok("simulate experiments/mine/truth.yaml --batch starts.csv --time 1 --dt 0.01"
           " --integrator rk4 -o same.csv");
    char* header = tempdir_read("same.csv");
    assert_int_equal(strncmp(header, "traj,t,q_joint0,q_joint1,qd_joint0,qd_joint1\n", 45), 0);
    double* same = read_numbers("same.csv", &others);
    assert_int_equal(count, others);
    for (uint32_t k = 0; k < count; k++) assert_true(fabs(table[k] - same[k]) < 1e-12);
    free(header);
    free(table);
    free(same);
}

// A block slides over a floor, from 2 and 1 m/s: with a pyramid each loses mu g t, with a cone both together
// do. Quaternions are drawn number by number, and made unit.
static void friction_and_rotations_of_a_truth(void** state) {
    (void)state;
    uint32_t count;
    tempdir_write("experiments/mine/block.xml",
                  "<mujoco><option cone=\"elliptic\"/><worldbody>"
                  "<geom type=\"plane\" size=\"1 1 1\" friction=\"0.4 0 0\"/>"
                  "<body pos=\"0 0 0.1\"><freejoint name=\"root\"/>"
                  "<geom type=\"box\" size=\"0.1 0.1 0.1\" friction=\"0.4 0 0\"/></body>"
                  "</worldbody></mujoco>\n");
    write_experiment(
        "kind: fits\ntitle: Mine\n" SIMULATE("") //
        "  - {file: cone.csv, model: block.xml, seconds: 0.2, initial_state: {qd0: 2, qd1: 1}}\n"
        "  - {file: pyramid.csv, model: block.xml, seconds: 0.2, friction: pyramid,"
        " initial_state: {qd0: 2, qd1: 1}}\n"
        "  - {file: turned.csv, model: block.xml, trajectories: 20, seconds: 0.01,"
        " initial_state: {q2: 1, q3: [-1, 1], q4: [-1, 1], q5: [-1, 1], q6: [-1, 1]}}\n"
        "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(run_experiment("-o block"));
    double lost = 0.4 * 9.81 * 0.2, along = 2.0 / sqrt(5.0), across = 1.0 / sqrt(5.0);
    double *cone = read_numbers("block/data/cone.csv", &count), *end = cone + count - 15;
    assert_true(fabs(end[9] - 2.0 + lost * along) < 1e-3);
    assert_true(fabs(end[10] - 1.0 + lost * across) < 1e-3);
    double* pyramid = read_numbers("block/data/pyramid.csv", &count);
    end = pyramid + count - 15;
    assert_true(fabs(end[9] - 2.0 + lost) < 1e-3);
    assert_true(fabs(end[10] - 1.0 + lost) < 1e-3);
    double* turned = read_numbers("block/data/turned.csv", &count);
    for (uint32_t k = 0; k < count; k += count / 20) {
        const double* q = turned + k + 5;
        assert_true(fabs(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] - 1.0) < 1e-12);
    }
    free(cone);
    free(pyramid);
    free(turned);
}

// Noise is a share of how far a column goes, on every row.
static void noise_is_as_large_as_asked_for(void** state) {
    (void)state;
    uint32_t count, others;
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE(", noise: 0.01") //
                     "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(run_experiment("-o noisy"));
    double *clean = read_numbers("clean/data/a.csv", &count),
           *noisy = read_numbers("noisy/data/a.csv", &others);
    assert_int_equal(count, others);
    for (uint32_t c = 2; c < 6; c++) {
        double sum = 0.0, square = 0.0, off = 0.0, n = count / 6;
        for (uint32_t r = 0; r < count / 6; r++) {
            double x = clean[r * 6 + c], d = noisy[r * 6 + c] - x;
            sum += x;
            square += x * x;
            off += d * d;
        }
        double share = sqrt(off / (square - sum * sum / n));
        assert_true(fabs(share - 0.01) < 0.0007); // 1,515 numbers: 1.8 % is one sigma
    }
    free(clean);
    free(noisy);
}

// What an earlier run left in the folder is not what this one made.
static void recordings_of_earlier_runs_are_not_taken(void** state) {
    (void)state;
    write_experiment("kind: fits\ntitle: Mine\n"
                     "simulate: [{file: b.csv, model: truth.yaml, trajectories: 2, seconds: 1}]\n"
                     "fits: [{name: formula, extends: formula.yaml}]\n");
    assert_int_equal(access(tempdir_path("clean/data/a.csv"), R_OK), 0);
    assert_int_equal(access(tempdir_path("clean/report.html"), R_OK), 0);
    run_bad("experiment mine -o clean", 1, "there is no");
    assert_int_not_equal(access(tempdir_path("clean/report.html"), R_OK), 0);
}

// A figure of what is not there costs neither table nor report.
static void a_wrong_figure_costs_no_result(void** state) {
    (void)state;
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE("") //
                     "fits: [{name: formula, extends: formula.yaml}]\n"
                     "figures:\n"
                     "  - {kind: prediction, title: P, fits: [formula], channels: [q_joint0]}\n");
    run_bad("experiment mine -o wrong_figure", 1, "its channels are q0, q1, qd0, qd1");
    assert_says(last.out, "0.5 s");
    assert_int_equal(access(tempdir_path("wrong_figure/report.html"), R_OK), 0);
}

// ---- runs ----------------------------------------------------------------------------------

static double median_of_three(double a, double b, double c) {
    return fmax(fmin(a, b), fmin(fmax(a, b), c));
}

static void seeds_and_learning_curves(void** state) {
    (void)state;
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE(", noise: 0.001") //
                     "fits:\n"
                     "  - name: formula\n"
                     "    extends: formula.yaml\n"
                     "    seeds: 3\n"
                     "    trajectories: [1, 3]\n"
                     "    truth: {friction/joint/joint0/b: 0.1, friction/joint/joint1/b: 0.05}\n"
                     "  - name: damping\n"
                     "    extends: damping.yaml\n"
                     "    truth: {joint/joint0/damping: 0.1, joint/joint1/damping: 0.05}\n"
                     "  - {name: network, extends: network.yaml, seeds: 2}\n"
                     "figures:\n"
                     "  - {kind: learning, title: Learning, fits: [formula]}\n"
                     "  - {kind: loss, title: Loss, fits: [formula, damping]}\n"
                     "  - {kind: prediction, title: <Motion>, fits: [damping, formula],"
                     " channels: [q0, qd1], before: no friction, recordings: [0, 2],"
                     " mark: {at: 0.5, label: here}}\n"
                     "  - {kind: prediction, title: Path, fits: [damping], channels: [q1],"
                     " against: q0}\n");
    json_t* a = run_experiment("-o runs");
    // Numbers of runs stand together with those of all.
    double off[3], q[3];
    for (uint32_t k = 0; k < 3; k++) {
        off[k] = number_of(a, "formula", 3 + k, "truth_error");
        const json_t* runs = json_object_get(json_object_get(a, "runs"), "formula");
        const json_t* run = json_array_get(runs, 3 + k);
        assert_int_equal(json_integer_value(json_object_get(run, "trajectories")), 3);
        assert_int_equal(json_integer_value(json_object_get(run, "seed")), 1 + k);
        q[k] = json_number_value(json_object_get(json_object_get(run, "test"), "q"));
        assert_true(off[k] > 0.0 && off[k] < 0.05); // noise of 0.1 %
    }
    assert_true(off[0] != off[1] && off[1] != off[2]); // other trajectories
    assert_true(metric(a, "formula_truth_error") == median_of_three(off[0], off[1], off[2]));
    assert_true(metric(a, "formula_truth_error_worst") == fmax(fmax(off[0], off[1]), off[2]));
    assert_true(metric(a, "formula_test_q") == median_of_three(q[0], q[1], q[2]));
    assert_true(metric(a, "formula_test_q") == metric(a, "formula_n3_test_q"));
    assert_true(metric(a, "formula_n1_test_q") != metric(a, "formula_n3_test_q"));
    assert_true(fabs(metric(a, "formula_test_pooled_1s") - metric(a, "formula_test_q")) < 1e-12);
    double gain = metric(a, "before_test_qd") / metric(a, "formula_test_qd");
    assert_true(gain > 5.0 && fabs(metric(a, "formula_gain_qd") - gain) < 1e-9 * gain);
    // A parameter of the model is the same law.
    assert_true(metric(a, "damping_truth_error") < 0.02);
    // Networks start elsewhere.
    assert_true(number_of(a, "network", 0, "seed") == 1.0);
    const json_t* runs = json_object_get(json_object_get(a, "runs"), "network");
    assert_false(json_equal(json_object_get(json_array_get(runs, 0), "test"),
                            json_object_get(json_array_get(runs, 1), "test")));
    json_decref(a);

    // Figures: in the page, and as files.
    char* page = tempdir_read("runs/report.html");
    assert_says(page, "&lt;Motion&gt;");
    assert_null(strstr(page, "<Motion>"));
    assert_says(page, "no friction");
    free(page);
    uint32_t count;
    double* curve = read_numbers("runs/learning.csv", &count);
    assert_true(curve[0] == 1.0); // trajectories
    free(curve);
    static const char* const names[] = {"loss.svg", "learning.svg", "prediction.svg",
                                        "prediction_2.svg", "prediction_2.csv"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char name[100];
        snprintf(name, sizeof name, "runs/%s", names[k]);
        assert_int_equal(access(tempdir_path(name), R_OK), 0);
    }
    run_ok("score runs/damping/fitted.yaml --data runs/data/a.csv");
    run_ok("experiment mine --quick -o quick");
    assert_says(last.out, "from the truth");
}

// Of its first coefficient.
static double start_of_again(void) {
    char* text = tempdir_read("from/again/result.json");
    json_t* again = json_loads(text, 0, NULL);
    const json_t* b = json_array_get(json_object_get(again, "coefficients"), 0);
    double start = json_number_value(json_object_get(b, "start"));
    json_decref(again);
    free(text);
    return start;
}

// Weights and parameters go on from where another fit ended.
static void fits_go_on_from_others(void** state) {
    (void)state;
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE("") //
                     "groups:\n"
                     "  - {name: first, title: The first}\n"
                     "  - {name: second, title: The second, baseline: {fit: formula}}\n"
                     "  - {name: third, title: The third, data: not_there_at_all}\n"
                     "fits:\n"
                     "  - {name: formula, extends: formula.yaml, group: first}\n"
                     "  - {name: again, extends: again.yaml, from: formula, group: second}\n"
                     "  - {name: lost, extends: again.yaml, group: third}\n"
                     "  - {name: orphan, extends: again.yaml, from: lost, group: second}\n");
    json_t* a = run_experiment("-o from");
    assert_says(last.err, "The third: left out");
    assert_says(last.err, "orphan: left out");
    assert_null(json_object_get(json_object_get(a, "metrics"), "orphan_test_q"));
    assert_true(metric(a, "formula_test_q") < 1e-6); // the law itself
    assert_true(metric(a, "again_test_q") < 1e-6);   // one iteration from there
    assert_true(metric(a, "second_before_test_q") == metric(a, "first_before_test_q"));
    assert_null(json_object_get(json_object_get(a, "metrics"), "lost_test_q"));
    json_decref(a);
    char* page = tempdir_read("from/report.html");
    assert_says(page, "Left out");
    free(page);
    // The start of the second is the end of the first.
    assert_true(fabs(start_of_again() - 0.1) < 1e-6);
    // Weights that another run left in the folder are not those of a fit without any.
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE("") //
                     "fits:\n"
                     "  - {name: formula, extends: damping.yaml}\n"
                     "  - {name: again, extends: again.yaml, from: formula}\n");
    json_decref(run_experiment("-o from"));
    assert_true(start_of_again() == 0.01);
}

// Each push has a friction of its own, so that what is left out is not explained by the rest.
static void record_pushes(void) {
    for (int k = 0; k < 4; k++) {
        char command[400];
        snprintf(command, sizeof command,
                 "simulate %s/models/double_pendulum.urdf --set joint/joint0/damping=%g"
                 " --q0 %g 0.3 --time 1 --dt 0.01 --integrator rk4 -o experiments/mine/push_%c.csv",
                 NEURALSIM_SOURCE_DIR, 0.05 * (k + 1), 1.0 - 0.4 * k, 'a' + k);
        run_ok(command);
    }
}

// A fold is the same as a fit to the files that it keeps, tested on the others; numbers of all folds
// are averages over what they leave out.
static void folds_leave_out_a_part_each(void** state) {
    (void)state;
    record_pushes();
    write_experiment("kind: fits\ntitle: Mine\nanalytic_baseline: all\nheadline: again\n"
                     "fits:\n"
                     "  - {name: all, extends: pushes.yaml, folds: 2}\n"
                     "  - {name: again, extends: pushes.yaml, folds: 2, from: all}\n"
                     "  - {name: first, extends: first.yaml}\n"
                     "  - {name: second, extends: second.yaml}\n"
                     "  - {name: curve, extends: pushes.yaml, trajectories: [1, 2], seeds: 2}\n");
    json_t* root = run_experiment("-o folds");
    double first = metric(root, "first_test_far"), second = metric(root, "second_test_far");
    assert_true(first > 1e-3 && second > 1e-3 && fabs(first - second) > 1e-4);
    assert_true(fabs(metric(root, "all_test_far") - 0.5 * (first + second)) < 1e-9);
    assert_true(fabs(metric(root, "again_test_far") - 0.5 * (first + second)) < 1e-6);
    // Fold k goes on from fold k.
    const json_t* folds = json_object_get(json_object_get(root, "runs"), "again");
    assert_int_equal(json_array_size(folds), 3);
    assert_null(json_object_get(json_array_get(folds, 0), "fold"));
    for (uint32_t k = 1; k < 3; k++) {
        char name[60];
        snprintf(name, sizeof name, "folds/%s/result.json", k == 1 ? "first" : "second");
        char* text = tempdir_read(name);
        json_t* alone = json_loads(text, 0, NULL);
        snprintf(name, sizeof name, "folds/again/fold%u/result.json", k);
        char* other = tempdir_read(name);
        json_t* again = json_loads(other, 0, NULL);
        const json_t* end = json_array_get(json_object_get(alone, "parameters"), 0);
        const json_t* start = json_array_get(json_object_get(again, "parameters"), 0);
        assert_true(json_number_value(json_object_get(end, "value")) > 0.01);
        assert_true(fabs(json_number_value(json_object_get(end, "value")) -
                         json_number_value(json_object_get(start, "start"))) < 1e-9);
        json_decref(alone);
        json_decref(again);
        free(text);
        free(other);
    }
    // One and two of the files, the same for all seeds.
    const json_t* runs = json_object_get(json_object_get(root, "runs"), "curve");
    assert_int_equal(json_array_size(runs), 4);
    assert_false(json_equal(json_object_get(json_array_get(runs, 0), "train"),
                            json_object_get(json_array_get(runs, 2), "train")));
    assert_true(json_equal(json_object_get(json_array_get(runs, 2), "train"),
                           json_object_get(json_array_get(runs, 3), "train")));
    json_decref(root);
    run_ok("score folds/analytic.yaml --data experiments/mine/push_a.csv");

    write_experiment("kind: fits\ntitle: Mine\n"
                     "fits: [{name: all, extends: pushes.yaml, folds: 5}]\n");
    run_bad("experiment mine -o few", 1, "expected 5 files or more");
    write_experiment("kind: fits\ntitle: Mine\n"
                     "fits: [{name: all, extends: pushes.yaml, folds: 2, seeds: 2}]\n");
    run_bad("experiment mine -o few", 1, "does not go with");
    // What has seen all files is no start for one that leaves some out.
    write_experiment("kind: fits\ntitle: Mine\n"
                     "fits: [{name: all, extends: pushes.yaml},"
                     " {name: some, extends: pushes.yaml, folds: 2, from: all}]\n");
    run_bad("experiment mine -o few", 1, "has seen what folds leave out");
    write_experiment(
        "kind: fits\ntitle: Mine\nfits: [{name: all, extends: twice.yaml, folds: 2}]\n");
    run_bad("experiment mine -o few", 1, "stands twice");
    write_experiment("kind: fits\ntitle: Mine\nfits: [{name: all, extends: pushes.yaml}]\n"
                     "references: [{name: o, horizons: [1], pooled: [1], measures: [1, 2]}]\n");
    run_bad("experiment mine -o few", 1, "measures: write a mapping");
}

// Where a square ends is its pose applied to its corners; bars are measures; discs are friction.
static void figures_of_planes_and_bars(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        char command[300];
        snprintf(command, sizeof command,
                 "simulate experiments/mine/plate.xml --q0 0 0 0.2 --qd0 %g 0.1 0.3 --time 1"
                 " -o experiments/mine/slide_%d.csv",
                 k == 0 ? 0.2 : -0.1, k);
        run_ok(command);
    }
    write_experiment("kind: fits\ntitle: Mine\n"
                     "fits: [{name: slide, extends: slide.yaml, folds: 2}]\n"
                     "references: [{name: others, measures: {far: 0.25}}]\n"
                     "figures:\n"
                     "  - {kind: outlines, title: Ends, fits: [slide], model: plate.xml,"
                     " channels: [q0, q1, q2], recordings: [0, 7]}\n"
                     "  - {kind: bars, title: Far, fits: [slide], measure: far, mark: {at: 0.1,"
                     " label: floor}}\n"
                     "  - {kind: supports, title: Feet, fits: [slide]}\n");
    run_ok("experiment mine -o planes");
    assert_says(last.err, "no recording 7");
    assert_says(last.out, "0.25"); // of others
    uint32_t count;
    double* motion = read_numbers("experiments/mine/slide_0.csv", &count); // left out by fold 1
    const double* end = motion + count - 7;                                // t, q, qd
    double c = cos(end[3]), s = sin(end[3]);
    char *text = tempdir_read("planes/outlines.csv"), *at = text;
    static const double corners[4][2] = {{0.1, 0.1}, {-0.1, 0.1}, {-0.1, -0.1}, {0.1, -0.1}};
    for (int k = 0; k < 4; k++) {
        double x, y;
        at = strstr(at, "\"recorded, outline\",");
        assert_non_null(at);
        at += strlen("\"recorded, outline\",");
        assert_int_equal(sscanf(at, "%lf,%lf", &x, &y), 2);
        assert_true(fabs(x - (end[1] + c * corners[k][0] - s * corners[k][1])) < 1e-9);
        assert_true(fabs(y - (end[2] + s * corners[k][0] + c * corners[k][1])) < 1e-9);
    }
    free(text);
    free(motion);
    text = tempdir_read("planes/supports.csv");
    assert_says(text, ",foot,0.05,-0.02,0.3\n");
    free(text);
    text = tempdir_read("planes/bars.csv");
    double trained, unseen;
    assert_int_equal(sscanf(text, "model,trained on,unseen\nslide,%lf,%lf", &trained, &unseen), 2);
    free(text);
    text = tempdir_read("planes/result.json");
    json_t* root = json_loads(text, 0, NULL);
    assert_true(fabs(trained - metric(root, "slide_train_far")) < 1e-12);
    assert_true(fabs(unseen - metric(root, "slide_test_far")) < 1e-12);
    json_decref(root);
    free(text);
    write_experiment("kind: fits\ntitle: Mine\nfits: [{name: slide, extends: slide.yaml}]\n"
                     "figures: [{kind: bars, title: F, fits: [slide], measure: near}]\n");
    run_bad("experiment mine -o planes", 1, "which no fit has");
    write_experiment(
        "kind: fits\ntitle: Mine\nfits: [{name: slide, extends: slide.yaml}]\n"
        "figures: [{kind: outlines, title: E, fits: [slide], channels: [q0, q1, q2]}]\n");
    run_bad("experiment mine -o planes", 1, "model");
}

// Measures are told apart by their names, not by the order in which a file has them.
static void measures_go_by_their_names(void** state) {
    (void)state;
    write_experiment("kind: fits\ntitle: Mine\n" SIMULATE("") //
                     "fits:\n"
                     "  - {name: a, extends: near_far.yaml}\n"
                     "  - {name: b, extends: far_near.yaml}\n");
    json_t* root = run_experiment("-o measures");
    assert_true(metric(root, "a_test_near") != metric(root, "a_test_far"));
    assert_true(metric(root, "a_test_near") == metric(root, "b_test_near"));
    assert_true(metric(root, "b_gain_near") == 1.0 && metric(root, "b_gain_far") == 1.0);
    json_decref(root);
}

static void mistakes_are_explained(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } wrong[] = {
        {"simulate: [{file: a.csv, model: truth.yaml}]\nfits: [{name: a, extends: formula.yaml}]\n",
         "`seconds` is missing"},
        {"simulate: [{file: ../a.csv, model: truth.yaml, seconds: 1}]\n"
         "fits: [{name: a, extends: formula.yaml}]\n",
         "not a path"},
        {"simulate: [{file: a.csv, model: truth.yaml, seconds: 1, initial_state: {q_knee: 1}}]\n"
         "fits: [{name: a, extends: formula.yaml}]\n",
         "no state of the model"},
        {"simulate: [{file: a.csv, model: truth.yaml, seconds: 1e5, timestep: 1e-5}]\n"
         "fits: [{name: a, extends: formula.yaml}]\n",
         "at most"},
        {"fits: [{name: a, extends: formula.yaml, from: b}]\n", "none of the names"},
        {"fits: [{name: a, extends: formula.yaml, group: b}]\n",
         "none of the names under `groups`"},
        {"fits: [{name: a, extends: formula.yaml, trajectories: [2, 1]}]\n", "must grow"},
        {"fits: [{name: a, extends: formula.yaml, trajectories: 2}]\n", "list"},
        {"fits: [{name: a, extends: formula.yaml, truth: 3}]\n", "truth: write a mapping"},
        {"groups: [{name: c, title: C}]\nfits: [{name: a, extends: formula.yaml}]\n",
         "group: NAME"},
        {"fits: [{name: a, extends: formula.yaml}]\nfigures: [{kind: pie, title: x, fits: [a]}]\n",
         "loss"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: prediction, title: x, fits: [a]}]\n",
         "channels"},
        {"fits: [{name: a, extends: formula.yaml}, {name: a, extends: damping.yaml}]\n",
         "another one before it has this name"},
        {"groups: [{name: c, title: C}, {name: c, title: D}]\n"
         "fits: [{name: a, extends: formula.yaml, group: c}]\n",
         "another one before it has this name"},
        {"groups: [{name: c, title: C}]\nbaseline: {fit: a}\n"
         "fits: [{name: a, extends: formula.yaml, group: c}]\n",
         "each has its own"},
        {"simulate: [{file: a.csv, model: truth.yaml, seconds: 1},"
         " {file: a.csv, model: truth.yaml, seconds: 2}]\nfits: [{name: a, extends: "
         "formula.yaml}]\n",
         "another entry before it has this file"},
        {"fits: [{name: a, extends: not_there.yaml}]\n", "not_there.yaml"},
        {"fits: [{name: a, extends: network.yaml, inputs: [[x]]}]\n", "write a text"},
        {"fits: [{name: a, extends: formula.yaml, truth: {friction/b: [1]}}]\n", "write a number"},
        {"fits: [{name: a, extends: formula.yaml, truth: {friction/b: 0}}]\n", "are relative"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: learning, title: x, fits: [a]}]\n",
         "with `trajectories`"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: prediction, title: x, fits: [a], channels: [q0], recordings: [-1]}]\n",
         "at least 0"},
        {"fits: [{name: a, extends: formula.yaml}]\n"
         "figures: [{kind: prediction, title: x, fits: [a], channels: [q0], mark: {label: x}}]\n",
         "`at` is missing"},
        {SIMULATE("") "fits: [{name: a, extends: formula.yaml, truth: {friction/c: 1}}]\n",
         "no parameter or coefficient friction/c"},
        {SIMULATE("") "fits: [{name: a, extends: formula.yaml, inputs: [x]}]\n", "no input x"},
        {SIMULATE("") "fits: [{name: a, extends: formula.yaml, trajectories: [11]}]\n",
         "with 11 or more"},
        // Told at once, and by a quick run, which has one seed only.
        {"fits: [{name: a, extends: formula.yaml, trajectories: [1, 4], seeds: 3}]\n",
         "with 12 or more"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        char text[2000];
        snprintf(text, sizeof text, "kind: fits\ntitle: Mine\n%s", wrong[k].text);
        write_experiment(text);
        run_bad("experiment mine -o wrong", 1, wrong[k].message);
        run_bad("experiment mine --quick -o wrong", 1, wrong[k].message);
    }
}

// --------------------------------------------------------------------------------------------

static int start(void** state) {
    (void)state;
    tempdir_mkdir("experiments");
    tempdir_mkdir("experiments/mine");
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        char name[100];
        snprintf(name, sizeof name, "experiments/mine/%s", files[k].name);
        tempdir_write(name, files[k].text);
    }
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_is_simulated),
        cmocka_unit_test(friction_and_rotations_of_a_truth),
        cmocka_unit_test(noise_is_as_large_as_asked_for),
        cmocka_unit_test(recordings_of_earlier_runs_are_not_taken),
        cmocka_unit_test(a_wrong_figure_costs_no_result),
        cmocka_unit_test(seeds_and_learning_curves),
        cmocka_unit_test(fits_go_on_from_others),
        cmocka_unit_test(folds_leave_out_a_part_each),
        cmocka_unit_test(figures_of_planes_and_bars),
        cmocka_unit_test(measures_go_by_their_names),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
