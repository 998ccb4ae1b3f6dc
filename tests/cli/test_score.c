// The command score: recordings that the program itself simulated, changed models whose error is
// computed here from two simulations, and data of an independent simulator where it is at hand.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/realdata.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/tests/data/cli/pendulum.urdf"
#define MOTORS NEURALSIM_SOURCE_DIR "/tests/data/cli/motors.xml"
#define DOUBLE NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"
#define FREE NEURALSIM_SOURCE_DIR "/tests/data/mujoco/models/free_body.xml"
#define SWIMMER NEURALSIM_SOURCE_DIR "/models/swimmer2.xml"

// ---- running the program -------------------------------------------------------------------

static FILE* create(const char* name) {
    FILE* file = fopen(tempdir_path(name), "wb");
    assert_non_null(file);
    return file;
}

static ns_table table_of(const char* name) {
    ns_table csv;
    ns_error error;
    must(ns_table_read(tempdir_path(name), &(ns_table_options){.allow_missing = true}, NULL, &csv,
                       &error),
         &error);
    return csv;
}

static double cell(const ns_table* csv, uint32_t row, const char* column) {
    uint32_t k = ns_table_column(csv, column);
    if (k == NSI_NONE || row >= csv->nrow) fail_msg("there is no row %u, column %s", row, column);
    return ns_table_at(csv, row, k);
}

// Root of the mean squared difference of columns of two tables, rows first + 1 .. first + count of
// the first table and 1 .. count of the second. Missing numbers do not count.
static double difference(const ns_table* a, uint32_t first, const ns_table* b, uint32_t count,
                         const char* const* columns) {
    double sum = 0.0, n = 0.0;
    for (; *columns; columns++) {
        for (uint32_t k = 1; k <= count; k++) {
            double off = cell(a, first + k, *columns) - cell(b, k, *columns);
            if (isnan(off)) continue;
            sum += off * off;
            n += 1.0;
        }
    }
    return sqrt(sum / n);
}

// The object that the last command printed.
static json_t* answer(void) {
    json_error_t error;
    json_t* root = json_loads(last.out, 0, &error);
    if (!root) fail_msg("line %d: %s in\n%s", error.line, error.text, last.out);
    return root;
}

static json_t* score(const char* arguments) {
    char command[4096];
    snprintf(command, sizeof command, "score %s --json", arguments);
    run_ok(command);
    return answer();
}

static double number(const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is not a number in %s", key, last.out);
    return json_number_value(value);
}

static const json_t* item(const json_t* object, const char* list, size_t k) {
    const json_t* value = json_array_get(json_object_get(object, list), k);
    if (!value) fail_msg("%s has no item %zu in %s", list, k, last.out);
    return value;
}

static bool is_null(const json_t* object, const char* key) {
    return json_is_null(json_object_get(object, key));
}

static const char* const q_columns[] = {"q_joint0", "q_joint1", NULL};
static const char* const qd_columns[] = {"qd_joint0", "qd_joint1", NULL};

// A model with another mass, a recording of the true one, and what the other one would have made of
// it: truth.csv, other.csv, heavy.yaml.
static void make_two_models(void) {
    static const char control[] = " --time 1 --q0 1 0.2 --qd0 0 -0.5"
                                  " --control 'tau0=0.3*sin(5*t), tau1=0.1*cos(3*t)' ";
    char command[1024];
    snprintf(command, sizeof command, "simulate %s %s -o truth.csv", DOUBLE, control);
    run_ok(command);
    snprintf(command, sizeof command, "simulate %s %s --set link/link1/mass=0.9 -o other.csv",
             DOUBLE, control);
    run_ok(command);
    tempdir_write("heavy.yaml", "robot: " DOUBLE "\nparameters:\n  link/link1/mass: 0.9\n");
}

// ---- errors --------------------------------------------------------------------------------

static void own_data_replays_to_nothing(void** state) {
    (void)state;
    tempdir_write("start.csv", "q0,q1,qd0,qd1\n0.5,0,0,1\n-1,0.3,0.2,0\n2,1,0,0\n");
    run_ok("simulate " DOUBLE " --batch start.csv --time 0.5 --control 'tau0=sin(9*t)' -o own.csv");
    json_t* a = score(DOUBLE " --data own.csv");
    assert_true(number(a, "rmse_q") < 1e-12);
    assert_true(number(a, "rmse_qd") < 1e-12);
    assert_int_equal(number(a, "count"), 1500);
    assert_int_equal(number(a, "lost"), 0);
    close_relative(number(a, "timestep"), 0.001, 1e-12);
    json_decref(a);

    // Rows further apart than steps; another integrator, by option and by the model's file.
    tempdir_write("rk4.yaml", "robot: " DOUBLE "\nintegrator: rk4\n");
    run_ok("simulate rk4.yaml --time 1 --q0 1 1 --every 10 -o sparse.csv");
    a = score("rk4.yaml --data sparse.csv");
    assert_true(number(a, "rmse_q") < 1e-12);
    assert_int_equal(number(a, "count"), 100);
    close_relative(number(a, "timestep"), 0.001, 1e-12);
    assert_string_equal(json_string_value(json_object_get(a, "integrator")), "rk4");
    assert_string_equal(last.err, ""); // what the file asks for is no surprise
    json_decref(a);
    a = score(DOUBLE " --data sparse.csv --integrator rk4");
    assert_true(number(a, "rmse_q") < 1e-12);
    json_decref(a);
    a = score(DOUBLE " --data sparse.csv");
    assert_true(number(a, "rmse_q") > 1e-5); // Euler
    json_decref(a);

    // A time step that does not divide the period is shortened until it does, or refused.
    tempdir_write("odd.yaml", "robot: " DOUBLE "\ntimestep: 0.003\n");
    a = score("odd.yaml --data sparse.csv");
    close_relative(number(a, "timestep"), 0.0025, 1e-12);
    json_decref(a);
    a = score("odd.yaml --data sparse.csv --dt 0.005");
    close_relative(number(a, "timestep"), 0.005, 1e-12);
    json_decref(a);
    run_bad("score odd.yaml --data sparse.csv --dt 0.003", 1, "no multiple of the time step");
}

static void quantities_are_channels_too(void** state) {
    (void)state;
    run_ok("simulate " MOTORS " --time 0.4 --control 'u_m_left=0.1, u_m_right=t' --observe"
           " energy/total link/left/pose/qz -o motors.csv");
    json_t* a = score(MOTORS " --data motors.csv");
    assert_true(number(a, "rmse_q") < 1e-12);
    const json_t* energy = item(a, "coordinates", 4);
    assert_string_equal(json_string_value(json_object_get(energy, "name")), "energy/total");
    assert_string_equal(json_string_value(json_object_get(energy, "unit")), "J");
    assert_true(number(energy, "rmse") < 1e-12);
    assert_string_equal(json_string_value(json_object_get(item(a, "coordinates", 0), "unit")),
                        "rad");
    json_decref(a);

    // By a map, from a table without names: only what it observes counts.
    tempdir_write("bare.csv", "1,0,5\n1,0.1,5\n1,0.2,5\n1,0.3,5\n");
    tempdir_write("bare.yaml",
                  "columns: [a, b, c]\nrate: 500\n"
                  "observe: {joint/j_left/position: 0*a, joint/j_left/velocity: 0*b}\n");
    a = score(MOTORS " --data bare.csv --map bare.yaml");
    assert_true(number(a, "rmse_q") == 0.0); // nothing moves
    assert_string_equal(json_string_value(json_object_get(item(a, "coordinates", 0), "name")),
                        "joint/j_left/position");
    assert_says(last.err, "the data has no q1, qd1: predictions start from the pose");
    json_decref(a);
}

static void a_changed_mass_gives_the_error_of_two_simulations(void** state) {
    (void)state;
    make_two_models();
    ns_table truth = table_of("truth.csv"), other = table_of("other.csv");
    json_t* a = score("heavy.yaml --data truth.csv -o predicted.csv");
    close_relative(number(a, "rmse_q"), difference(&truth, 0, &other, 1000, q_columns), 1e-10);
    close_relative(number(a, "rmse_qd"), difference(&truth, 0, &other, 1000, qd_columns), 1e-10);
    assert_true(number(a, "rmse_q") > 0.01);
    for (size_t k = 0; k < 4; k++) {
        const char* one[] = {k < 2 ? q_columns[k] : qd_columns[k - 2], NULL};
        const json_t* c = item(a, "coordinates", k);
        assert_string_equal(json_string_value(json_object_get(c, "name")), one[0]);
        close_relative(number(c, "rmse"), difference(&truth, 0, &other, 1000, one), 1e-10);
    }
    for (size_t k = 0; k < 4; k++) { // a quarter of the prediction each, by itself
        const json_t* h = item(a, "horizons", k);
        uint32_t steps = 250 * (uint32_t)(k + 1);
        close_relative(number(h, "seconds"), 0.25 * (double)(k + 1), 1e-9);
        assert_int_equal(number(h, "steps"), steps);
        assert_int_equal(number(h, "windows"), 1);
        double expected = difference(&truth, 0, &other, steps, q_columns);
        close_relative(number(h, "pooled"), expected, 1e-10);
        close_relative(number(h, "median"), expected, 1e-10);
    }
    assert_int_equal(json_array_size(json_object_get(a, "horizons")), 4);
    json_decref(a);

    ns_table predicted = table_of("predicted.csv");
    assert_int_equal(predicted.nrow, 1001);
    for (uint32_t row = 0; row <= 1000; row += 125) {
        close_relative(cell(&predicted, row, "traj"), 0.0, 0.0);
        close_relative(cell(&predicted, row, "t"), cell(&truth, row, "t"), 1e-9);
        close_relative(cell(&predicted, row, "q_joint1"), cell(&other, row, "q_joint1"), 1e-10);
        close_relative(cell(&predicted, row, "q_joint1_recorded"), cell(&truth, row, "q_joint1"),
                       0.0);
    }
    ns_table_free(&predicted);
    ns_table_free(&truth);
    ns_table_free(&other);
}

static void horizons_are_samples_or_seconds(void** state) {
    (void)state;
    make_two_models();
    ns_table truth = table_of("truth.csv"), other = table_of("other.csv");
    double expected = difference(&truth, 0, &other, 120, q_columns);
    static const char* const ways[] = {"--horizon 120", "--horizon 0.12s", "--horizon=0.1209s"};
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "heavy.yaml --data truth.csv %s", ways[k]);
        json_t* a = score(arguments);
        assert_int_equal(number(a, "count"), 120);
        close_relative(number(a, "rmse_q"), expected, 1e-10);
        assert_int_equal(number(item(a, "horizons", 3), "steps"), 120);
        json_decref(a);
    }
    // The table does not say how far predictions go; what they do not reach is empty.
    json_t* a = score("heavy.yaml --data truth.csv --horizons 0.02 0.12 7");
    assert_int_equal(number(a, "count"), 1000);
    close_relative(number(item(a, "horizons", 1), "pooled"), expected, 1e-10);
    assert_int_equal(number(item(a, "horizons", 2), "windows"), 0);
    assert_true(is_null(item(a, "horizons", 2), "pooled"));
    json_decref(a);
    a = score("heavy.yaml --data truth.csv --horizon 3"); // fewer samples than four
    assert_int_equal(json_array_size(json_object_get(a, "horizons")), 3);
    json_decref(a);
    ns_table_free(&truth);
    ns_table_free(&other);
}

// Every origin is a simulation of its own from the recorded state, with the controls from there on.
static void origins_start_from_recorded_states(void** state) {
    (void)state;
    make_two_models();
    ns_table truth = table_of("truth.csv");
    json_t* a = score("heavy.yaml --data truth.csv --origins 3 --horizon 100 -o predicted.csv");
    assert_int_equal(number(a, "predictions"), 3);
    assert_int_equal(number(a, "count"), 300);
    assert_int_equal(number(item(a, "trajectories", 0), "samples"), 300);
    static const uint32_t origins[] = {0, 450, 900};
    double errors[3], squares = 0.0;
    ns_table predicted = table_of("predicted.csv");
    for (uint32_t k = 0; k < 3; k++) {
        char command[1024];
        uint32_t row = origins[k];
        double t = cell(&truth, row, "t");
        close_relative(cell(&predicted, 101 * k, "t"), t, 1e-9);
        close_relative(cell(&predicted, 101 * k, "traj"), k, 0.0);
        snprintf(command, sizeof command,
                 "simulate heavy.yaml --steps 100 --q0 %.17g %.17g --qd0 %.17g %.17g --control"
                 " 'tau0=0.3*sin(5*(t+%.17g)), tau1=0.1*cos(3*(t+%.17g))' -o one.csv",
                 cell(&truth, row, "q_joint0"), cell(&truth, row, "q_joint1"),
                 cell(&truth, row, "qd_joint0"), cell(&truth, row, "qd_joint1"), t, t);
        run_ok(command);
        ns_table one = table_of("one.csv");
        errors[k] = difference(&truth, row, &one, 100, q_columns);
        squares += errors[k] * errors[k];
        close_relative(cell(&predicted, 101 * k + 100, "q_joint1"), cell(&one, 100, "q_joint1"),
                       1e-9);
        ns_table_free(&one);
    }
    close_relative(number(a, "rmse_q"), sqrt(squares / 3.0), 1e-9);
    double low = fmin(errors[0], errors[1]), high = fmax(errors[0], errors[1]);
    double median = fmax(low, fmin(high, errors[2]));
    close_relative(number(item(a, "horizons", 3), "median"), median, 1e-9);
    json_decref(a);

    // The longest horizon is how far to go when only the table says so.
    a = score("heavy.yaml --data truth.csv --origins 4 --horizons 0.05 0.1");
    assert_int_equal(number(a, "count"), 400);
    json_decref(a);
    ns_table_free(&predicted);
    ns_table_free(&truth);
}

static double noise(uint32_t* seed) { // uniform in -1 .. 1
    *seed = *seed * 1664525u + 1013904223u;
    return (double)*seed / 2147483648.0 - 1.0;
}

// A noisy recording of the right model: what is left of the error is noise alone once the state is
// fitted, and that of the start where it is taken as recorded.
static void a_fitted_state_beats_a_noisy_one(void** state) {
    (void)state;
    run_ok("simulate " DOUBLE " --time 2 --q0 0.4 0 --every 5 -o clean.csv");
    ns_table clean = table_of("clean.csv");
    FILE* file = create("noisy.csv");
    uint32_t seed = 1;
    const double size = 0.03;
    fprintf(file, "t,q0,q1,qd0,qd1\n");
    for (uint32_t k = 0; k < clean.nrow; k++) {
        double off[4];
        for (int i = 0; i < 4; i++) off[i] = size * noise(&seed);
        fprintf(file, "%.17g,%.17g,%.17g,%.17g,%.17g\n", cell(&clean, k, "t"),
                cell(&clean, k, "q_joint0") + off[0], cell(&clean, k, "q_joint1") + off[1],
                cell(&clean, k, "qd_joint0") + off[2], cell(&clean, k, "qd_joint1") + off[3]);
    }
    fclose(file);
    ns_table_free(&clean);
    json_t* recorded = score(DOUBLE " --data noisy.csv --origins 10 --horizon 100");
    json_t* fitted = score(DOUBLE " --data noisy.csv --origins 10 --horizon 100 --history 21");
    double floor_of_noise = size / sqrt(3.0), with = number(fitted, "rmse_q"),
           without = number(recorded, "rmse_q");
    print_message("rmse of q: noise %.4f, state fitted %.4f, as recorded %.4f\n", floor_of_noise,
                  with, without);
    assert_true(with < 1.1 * floor_of_noise);
    assert_true(without > 1.3 * with);
    assert_int_equal(number(fitted, "count"), 1000);
    json_decref(recorded);
    json_decref(fitted);

    // Without origins, the first is the last sample of the history.
    fitted = score(DOUBLE " --data noisy.csv --history 21");
    assert_int_equal(number(fitted, "count"), 400 - 20);
    json_decref(fitted);
    run_bad("score " DOUBLE " --data noisy.csv --history 401", 1,
            "noisy.csv: no recording has a"
            " sample to predict after");
}

// ---- data ----------------------------------------------------------------------------------

static void several_files_are_one_set(void** state) {
    (void)state;
    make_two_models();
    run_ok("simulate " DOUBLE " --time 0.3 --q0 -1 0 -o short.csv");
    // The first file says what columns there are; the other has no controls.
    run_bad("score heavy.yaml --data truth.csv short.csv", 1,
            "there is no column \"tau_joint0\" in short.csv");
    run_ok("simulate " DOUBLE " --time 0.3 --q0 -1 0 --control 'tau0=0, tau1=0' -o short.csv");
    json_t* one = score("heavy.yaml --data truth.csv");
    double first = number(one, "rmse_q");
    json_decref(one);
    one = score("heavy.yaml --data short.csv");
    double second = number(one, "rmse_q");
    json_decref(one);
    json_t* both = score("heavy.yaml --data truth.csv --data short.csv --threads 2");
    assert_int_equal(number(both, "count"), 1300);
    close_relative(number(both, "rmse_q"),
                   sqrt((1000.0 * first * first + 300.0 * second * second) / 1300.0), 1e-10);
    assert_string_equal(json_string_value(json_object_get(item(both, "trajectories", 1), "name")),
                        "short.csv");
    close_relative(number(item(both, "trajectories", 1), "rmse_q"), second, 1e-10);
    // Only the longer one reaches half a second.
    assert_int_equal(number(item(both, "horizons", 0), "windows"), 2);
    assert_int_equal(number(item(both, "horizons", 1), "windows"), 1);
    assert_int_equal(number(item(both, "horizons", 3), "windows"), 1);
    json_decref(both);
    char* text = strdup(last.out);
    run_ok("score heavy.yaml --data truth.csv short.csv --threads 1 --json");
    assert_string_equal(last.out, text);
    free(text);

    // Long lists are cut, in the text alone.
    FILE* file = create("many.csv");
    fprintf(file, "traj,t,q0,q1\n");
    for (int traj = 0; traj < 70; traj++) {
        for (int k = 0; k < 5; k++) fprintf(file, "%d,%g,0,0\n", traj, k * 0.01);
    }
    fclose(file);
    run_ok("score " DOUBLE " --data many.csv");
    assert_says(last.out, "many.csv:58 ");
    assert_says(last.out, "\n11 more rows are in the JSON.\n");
    assert_null(strstr(last.out, "many.csv:59"));
}

// Each file is predicted by the variant that its name tells: with the right one nothing is left, with
// the other what two simulations differ by.
static void variants_are_told_by_names(void** state) {
    (void)state;
    make_two_models();
    tempdir_write("two.yaml", "variants:\n"
                              "  - {name: light, files: \"run_*\", robot: " DOUBLE "}\n"
                              "  - {name: heavy, files: \"*\", robot: " DOUBLE
                              ", parameters: {link/link1/mass: 0.9}}\n");
    run_ok("simulate " DOUBLE " --time 1 --q0 1 0.2 -o run_light.csv");
    run_ok("simulate two.yaml --variant heavy --time 1 --q0 1 0.2 -o load_heavy.csv");
    json_t* right = score("two.yaml --data load_heavy.csv run_light.csv");
    json_t* wrong = score("two.yaml --data load_heavy.csv run_light.csv --variant light");
    ns_table light = table_of("run_light.csv"), heavy = table_of("load_heavy.csv");
    double off = difference(&light, 0, &heavy, light.nrow - 1, q_columns);
    assert_true(off > 1e-3);
    for (size_t k = 0; k < 2; k++) {
        close_relative(number(item(right, "trajectories", k), "rmse_q"), 0.0, 1e-12);
        double expected = k == 0 ? off : 0.0;
        close_relative(number(item(wrong, "trajectories", k), "rmse_q"), expected, 1e-9);
    }
    json_decref(right);
    json_decref(wrong);
    ns_table_free(&light);
    ns_table_free(&heavy);
    run_ok("score two.yaml --data load_heavy.csv run_light.csv");
    assert_says(last.out, "variants   light, heavy");
    run_ok("inspect two.yaml --variant heavy --params");
    run_bad("inspect two.yaml", 1,
            "two.yaml has variants; choose one with the option variant: light, heavy");
    run_bad("quantities two.yaml --variant wide", 1,
            "two.yaml has no variant wide, only light, heavy");
    run_bad("score " DOUBLE " --data run_light.csv --variant light", 1, "has no variants");
    tempdir_write("one.yaml", "variants: [{name: a, files: \"a_*\", robot: " DOUBLE "}]\n");
    run_bad("score one.yaml --data run_light.csv", 1,
            "run_light.csv belongs to no variant of one.yaml");
}

// Gaps are left out, and velocities that are not recorded come from positions.
static void missing_numbers_do_not_count(void** state) {
    (void)state;
    make_two_models();
    ns_table truth = table_of("truth.csv"), other = table_of("other.csv");
    FILE* file = create("gaps.csv");
    fprintf(file, "t,q0,q1,qd0,qd1,tau0,tau1\n");
    double sum = 0.0, count = 0.0;
    for (uint32_t k = 0; k < truth.nrow; k++) {
        bool gone = (k > 10 && k < 20) || (k > 400 && k < 600);
        fprintf(file, "%.17g,%.17g,", cell(&truth, k, "t"), cell(&truth, k, "q_joint0"));
        if (!gone) fprintf(file, "%.17g", cell(&truth, k, "q_joint1"));
        for (int i = 0; i < 2; i++) fprintf(file, ",%.17g", cell(&truth, k, qd_columns[i]));
        fprintf(file, ",%.17g,%.17g\n", cell(&truth, k, "tau_joint0"),
                cell(&truth, k, "tau_joint1"));
        for (int i = 0; i < 2 && k > 0; i++) {
            if (i == 1 && gone) continue;
            double off = cell(&truth, k, q_columns[i]) - cell(&other, k, q_columns[i]);
            sum += off * off;
            count += 1.0;
        }
    }
    fclose(file);
    json_t* a = score("heavy.yaml --data gaps.csv");
    close_relative(number(a, "rmse_q"), sqrt(sum / count), 1e-10);
    assert_int_equal(number(a, "count"), 1000);
    json_decref(a);
    ns_table_free(&truth);
    ns_table_free(&other);

    // By cubics; with Euler's method they would be half a step off, since it moves a position by the
    // velocity at the end of the step.
    run_ok("simulate " DOUBLE " --integrator rk4 --time 1 --q0 1 0.2 --qd0 0 -0.5 -o smooth.csv");
    ns_table smooth = table_of("smooth.csv");
    file = create("positions.csv");
    fprintf(file, "t,q0,q1\n");
    for (uint32_t k = 0; k < smooth.nrow; k++) {
        fprintf(file, "%.17g,%.17g,", cell(&smooth, k, "t"), cell(&smooth, k, "q_joint0"));
        if (k < 2 || k > 4) fprintf(file, "%.17g", cell(&smooth, k, "q_joint1"));
        fprintf(file, "\n");
    }
    fclose(file);
    ns_table_free(&smooth);
    a = score(DOUBLE " --data positions.csv --integrator rk4");
    assert_true(number(a, "rmse_q") < 1e-6);
    assert_true(is_null(a, "rmse_qd"));
    assert_true(is_null(item(a, "trajectories", 0), "rmse_qd"));
    assert_int_equal(json_array_size(json_object_get(a, "coordinates")), 2);
    json_decref(a);

    // A rotation that is missing at the start is the nearest one.
    run_ok("simulate " FREE " --time 0.2 --qd0 0 0 1 0.3 -0.2 0.1 --index-names -o free.csv");
    char* text = tempdir_read("free.csv");
    char* row = strchr(text, '\n') + 1;
    assert_int_equal(strncmp(row, "0,0,0,1,1,0,0,0,", 16), 0);
    file = create("turned.csv");
    fprintf(file, "%.*s0,0,0,1,,,,,%s", (int)(row - text), text, row + 16);
    fclose(file);
    free(text);
    a = score(FREE " --data turned.csv");
    assert_int_equal(number(a, "lost"), 0);
    assert_true(number(a, "rmse_q") < 1e-3); // a step of 1 ms too far
    json_decref(a);

    // Nothing near the start.
    file = create("late.csv");
    fprintf(file, "t,q0,q1\n");
    for (int k = 0; k < 40; k++) fprintf(file, k < 12 ? "%g,,0\n" : "%g,0.1,0\n", k * 0.01);
    fclose(file);
    run_ok("score " DOUBLE " --data late.csv");
    assert_says(last.out,
                "- warning: 1 of 1 predictions start where a part of the state is missing");
    run_ok("score " DOUBLE " --data late.csv --reach 20");
    assert_string_equal(last.err, "");
}

// What a simulation does not reach is infinitely wrong, also for parts that would go on.
static void lost_predictions_are_infinitely_wrong(void** state) {
    (void)state;
    run_ok("simulate " MOTORS " --time 2 --control 'u_m_right=0.1' -o motors.csv");
    tempdir_write("stiff.yaml",
                  "robot: " MOTORS
                  "\nintegrator: explicit\nparameters:\n  joint/j_right/damping: 2000\n");
    json_t* a = score("stiff.yaml --data motors.csv --horizons 0.01 2");
    assert_int_equal(number(a, "lost"), 1);
    assert_true(is_null(a, "rmse_q"));
    assert_true(is_null(a, "rmse_qd"));
    for (size_t k = 0; k < 4; k++) assert_true(is_null(item(a, "coordinates", k), "rmse"));
    assert_true(number(item(a, "horizons", 0), "pooled") > 0.0); // so far it went
    assert_true(is_null(item(a, "horizons", 1), "pooled"));
    assert_true(is_null(item(a, "horizons", 1), "median"));
    json_decref(a);
    run_ok("score stiff.yaml --data motors.csv");
    assert_says(last.out, "PROBLEM: 1 of 1 predictions did not stay finite");
    assert_says(last.out, "inf");
}

// ---- output --------------------------------------------------------------------------------

static void json_has_all_of_it(void** state) {
    (void)state;
    make_two_models();
    json_t* a = score("heavy.yaml --data truth.csv");
    static const char* const numbers[] = {"rmse_q", "rmse_qd",     "count",
                                          "lost",   "predictions", "timestep"};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) number(a, numbers[k]);
    static const char* const horizon[] = {"seconds", "steps", "pooled", "median", "windows"};
    for (size_t k = 0; k < 5; k++) number(item(a, "horizons", 0), horizon[k]);
    static const char* const trajectory[] = {"rmse_q", "rmse_qd", "samples"};
    for (size_t k = 0; k < 3; k++) number(item(a, "trajectories", 0), trajectory[k]);
    assert_string_equal(json_string_value(json_object_get(a, "treatment")),
                        "as recorded, at 1000 Hz");
    assert_string_equal(json_string_value(json_object_get(a, "integrator")), "euler");
    assert_int_equal(json_array_size(json_object_get(a, "coordinates")), 4);
    json_decref(a);

    run_ok("score heavy.yaml --data truth.csv --period 0.004");
    assert_says(last.out, "heavy.yaml; euler, steps of 1 ms");
    assert_says(last.out, "resampled linearly from 1000 Hz to 250 Hz");
    assert_says(last.out, "controls   tau0, tau1");
    assert_says(last.out, "predicted  250 samples by 1 prediction in 1 of 1 trajectory");
    assert_says(last.out, "qd_joint1  rad/s");
    run_ok("score heavy.yaml --data truth.csv --horizon 2 -o -");
    assert_int_equal(strncmp(last.out, "traj,t,q_joint0,q_joint0_recorded,", 34), 0);
    run_ok("score heavy.yaml --data truth.csv --history 5");
    assert_says(last.out, "states fitted to 5 samples");
}

static void mistakes_are_explained(void** state) {
    (void)state;
    make_two_models();
    static const struct {
        const char* arguments;
        int code;
        const char* message;
    } cases[] = {
        {"", 2, "no --data given"},
        {"--data truth.csv", 2, "no MODEL given"},
        {DOUBLE, 2, "no --data given"},
        {DOUBLE " --data", 2, "--data needs CSV files"},
        {DOUBLE " --data truth.csv --horizon 0", 2, "--horizon needs a whole number of samples"},
        {DOUBLE " --data truth.csv --horizon 1.5", 2, "or seconds such as 0.5s, not '1.5'"},
        {DOUBLE " --data truth.csv --horizon s", 2, "not 's'"},
        {DOUBLE " --data truth.csv --horizon 0.0001s", 2, "less than the 0.001 s between samples"},
        {DOUBLE " --data truth.csv --horizons 1 x", 2, "positive times in s, not 'x'"},
        {DOUBLE " --data truth.csv --horizons 1 1", 2, "--horizons must grow"},
        {DOUBLE " --data truth.csv --horizons 0.00001", 2, "between samples"},
        {DOUBLE " --data truth.csv --horizon 10 --horizons 0.5", 2,
         "0.5 s is beyond the horizon of 10"},
        {DOUBLE " --data truth.csv --origins 3", 2, "--origins needs --horizon"},
        {DOUBLE " --data truth.csv --reach 0", 2, "--reach needs at least 1"},
        {DOUBLE " --data truth.csv --period 0", 2, "--period must be positive"},
        {DOUBLE " --data truth.csv --dt -1", 2, "--dt must be positive"},
        {DOUBLE " --data truth.csv --json -o -", 2, "both write to standard output"},
        {DOUBLE " --data nothing.csv", 1, "nothing.csv"},
        {"nothing.urdf --data truth.csv", 1, "nothing.urdf"},
        {DOUBLE " --data truth.csv --map nothing.yaml", 1, "nothing.yaml"},
        {DOUBLE " --data truth.csv -o /nowhere/x.csv", 1, "/nowhere/x.csv"},
        {DOUBLE " --data broken.csv", 1, "broken.csv:3"},
        {DOUBLE " --data unknown.csv", 1, "unknown.csv:1: no column name is known"},
        {DOUBLE " --data controls.csv", 1, "controls.csv: there is nothing to compare with"},
        {DOUBLE " --data empty.csv", 1, "empty.csv: there is nothing to compare with"},
        {DOUBLE " --data row.csv", 1, "row.csv"},
        {DOUBLE " --data truth.csv --map elbow.yaml", 1,
         "elbow.yaml: the data has a channel \"joint/joint2/position\", which the model does not"
         " know (`neuralsim quantities MODEL` lists what there is); did you mean \"joint/joint"},
    };
    tempdir_write("broken.csv", "t,q0\n0,1\n0.1,x\n");
    tempdir_write("unknown.csv", "t,volts\n0,1\n0.1,2\n");
    tempdir_write("controls.csv", "t,tau0\n0,1\n0.1,2\n");
    tempdir_write("empty.csv", "t,q0\n0,1\n0.1,\n0.2,\n");
    tempdir_write("row.csv", "t,q0\n0,1\n");
    tempdir_write("elbow.yaml", "time: t\nobserve: {joint/joint2/position: q_joint1}\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char arguments[1024];
        snprintf(arguments, sizeof arguments, "score %s", cases[k].arguments);
        run_bad(arguments, cases[k].code, cases[k].message);
        assert_int_equal(strncmp(last.err, "neuralsim", 9), 0);
        assert_string_equal(last.out, "");
    }
}

// ---- another simulator ---------------------------------------------------------------------

// MuJoCo 3.12 wrote it with 9 digits.
static void swimmer_in_vacuum_is_replayed(void** state) {
    (void)state;
    char arguments[5000];
    snprintf(arguments, sizeof arguments, SWIMMER " --data '%s'",
             need_data("mujoco/train/swimmer2_vacuum.csv"));
    json_t* a = score(arguments);
    assert_int_equal(number(a, "count"), 10000);
    print_message("vacuum: rmse of q %.3g, of qd %.3g\n", number(a, "rmse_q"),
                  number(a, "rmse_qd"));
    assert_true(number(a, "rmse_q") < 3e-8);
    assert_true(number(a, "rmse_qd") < 1e-8);
    json_decref(a);
}

// The gap to water that the data's own description gives: q 0.720, qd 0.828 over 200 steps, 5.58 and
// 1.36 over 900, for the first ten trajectories.
static void swimmer_in_water_shows_the_known_gap(void** state) {
    (void)state;
    char* text = file_text(need_data("mujoco/train/swimmer2_water25.csv"));
    char* end = strstr(text, "\n10,0,");
    assert_non_null(end);
    end[1] = '\0';
    tempdir_write("water.csv", text);
    free(text);
    json_t* a = score(SWIMMER " --data water.csv --horizon 900 --horizons 2 9");
    close_relative(number(a, "rmse_q"), 5.58, 1e-3);
    close_relative(number(a, "rmse_qd"), 1.36, 2e-3);
    close_relative(number(item(a, "horizons", 0), "pooled"), 0.720, 5e-4);
    json_decref(a);
    a = score(SWIMMER " --data water.csv --horizon 200");
    close_relative(number(a, "rmse_qd"), 0.828, 5e-4);
    json_decref(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_data_replays_to_nothing),
        cmocka_unit_test(quantities_are_channels_too),
        cmocka_unit_test(a_changed_mass_gives_the_error_of_two_simulations),
        cmocka_unit_test(horizons_are_samples_or_seconds),
        cmocka_unit_test(origins_start_from_recorded_states),
        cmocka_unit_test(a_fitted_state_beats_a_noisy_one),
        cmocka_unit_test(several_files_are_one_set),
        cmocka_unit_test(variants_are_told_by_names),
        cmocka_unit_test(missing_numbers_do_not_count),
        cmocka_unit_test(lost_predictions_are_infinitely_wrong),
        cmocka_unit_test(json_has_all_of_it),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(swimmer_in_vacuum_is_replayed),
        cmocka_unit_test(swimmer_in_water_shows_the_known_gap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
