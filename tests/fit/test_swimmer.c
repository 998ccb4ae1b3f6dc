// The swimmer of experiments/swimmer, small: from 200 steps of 10 motions, a network of 158 weights
// predicts 900 steps of motions it has not seen, on two links and on six; and no medium that it can
// learn gives energy.

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/residual.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define SOURCE NEURALSIM_SOURCE_DIR
#define SWIMMER SOURCE "/experiments/swimmer/"

// A fit of the experiment with other keys at its end.
static ns_fit* run(const char* model, const char* map, const char* blueprint, const char* file,
                   const char* rest) {
    experiment_write("fit.yaml",
                     "model: " SOURCE "/models/%s\n"
                     "%s"
                     "data:\n"
                     "  map: " SOURCE "/data/maps/%s\n"
                     "  train: [{file: " SWIMMER "data/%s, trajectories: 0-9, to: 2.005}]\n"
                     "  test: [{file: " SWIMMER "data/%s, trajectories: %s}]\n"
                     "predict: {horizons: [9]}\n"
                     "%s",
                     model, blueprint, map, file, file,
                     strcmp(model, "swimmer6.xml") == 0 ? "0-3" : "20-29", rest);
    ns_fit* fit = experiment_load("fit.yaml", 0);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    return fit;
}

static ns_score score_of(ns_fit* fit) {
    ns_score score = fit->result.after[NS_ROLE_TEST];
    print_message("    q %.3g, qd %.3g over 900 steps\n", score.rmse_q, score.rmse_qd);
    assert_int_equal(score.lost, 0);
    ns_fit_free(fit);
    return score;
}

#define ONLY_SCORED "train: {window: one, initial_state: recorded, iterations: 0}\n"
#define DRAG "blueprint: " SWIMMER "drag_small.yaml\n"

static ns_score hybrid; // on two links; its weights are in the folder

static int train(void** state) {
    (void)state;
    ns_error error = {0};
    ns_fit* fit = run("swimmer2.xml", "swimmer2.yaml", DRAG, "swimmer2_water25.csv",
                      "train: {window: one, initial_state: recorded, iterations: 20}\n");
    must(ns_fit_save(fit, tempdir(), &error), &error);
    hybrid = score_of(fit);
    return 0;
}

static void little_data_teaches_long_predictions(void** state) {
    (void)state;
    ns_score vacuum =
        score_of(run("swimmer2.xml", "swimmer2.yaml", "", "swimmer2_water25.csv", ONLY_SCORED));
    assert_true(hybrid.rmse_q < vacuum.rmse_q / 100.0);
    assert_true(hybrid.rmse_qd < vacuum.rmse_qd / 50.0);
}

// It is the force on a link, not on a machine.
static void what_is_learned_moves_to_another_machine(void** state) {
    (void)state;
    char learned[300];
    snprintf(learned, sizeof learned, DRAG "weights: %s\n", tempdir_path("weights.safetensors"));
    ns_score alone =
        score_of(run("swimmer6.xml", "swimmer6.yaml", "", "swimmer6_water25.csv", ONLY_SCORED));
    ns_score six = score_of(
        run("swimmer6.xml", "swimmer6.yaml", learned, "swimmer6_water25.csv", ONLY_SCORED));
    assert_true(six.rmse_q < alone.rmse_q / 20.0);
    assert_true(six.rmse_qd < alone.rmse_qd / 20.0);
}

// ---- energy ------------------------------------------------------------------------------------

enum { STATES = 4000 };

// One step of all states, with and without the network: where it leads, and what is observed.
static void step_all(const ns_model* model, const ns_blueprint* blueprint,
                     const char* const* observe, uint32_t nobserve, const double* x0,
                     double* states, double* observations) {
    ns_system_options options = ns_default_system_options();
    options.blueprint = blueprint;
    options.observe = observe;
    options.nobserve = nobserve;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    ns_workspace_size size = {.batch = STATES, .steps = 1, .threads = 1};
    ns_rollout_args args = {
        .batch = STATES, .steps = 1, .x0 = x0, .states = states, .observations = observations};
    if (ns_system_create(model, &options, &system, &error) != NS_OK ||
        ns_workspace_create(system, &size, &work, &error) != NS_OK ||
        ns_rollout(system, work, &args, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    ns_workspace_free(work);
    ns_system_free(system);
}

static double* zeros(size_t count) {
    double* x = calloc(count, sizeof *x);
    assert_non_null(x);
    return x;
}

// The work of the medium in a step is qd' M dqd, where dqd is what it does to the velocities; kinetic
// energy is quadratic in them, so that half the difference of T(qd + dqd) and T(qd - dqd) is just this.
static void check_power(const char* robot, const ns_blueprint* blueprint) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_load(robot, NULL, &model, &error), &error);
    uint32_t nv = ns_model_get_sizes(model).nv, nlink = nv - 2, nx = 2 * nv;
    static const char* const parts[] = {"force/x",        "force/y",        "torque/z",
                                        "velocity/com/x", "velocity/com/y", "velocity/angular/z"};
    char names[6 * 6][60];
    const char *observe[6 * 6], *kinetic[] = {"energy/kinetic"};
    for (uint32_t k = 0; k < 6 * nlink; k++) {
        snprintf(names[k], sizeof names[k], "link/link%u/%s", k / 6, parts[k % 6]);
        observe[k] = names[k];
    }
    double *x0 = zeros(STATES * nx), *with = zeros(2 * STATES * nx), *none = zeros(2 * STATES * nx);
    double *seen = zeros(STATES * 6 * nlink), *low = zeros(STATES), *high = zeros(STATES);
    double* moved = zeros(STATES * nx);
    ns_rng rng = ns_rng_seed(5);
    for (uint32_t s = 0; s < STATES; s++) {
        // From still water to ten times the speeds that were trained on.
        double speed = pow(10.0, -3.0 + 4.0 * s / STATES);
        for (uint32_t k = 0; k < nv; k++) {
            x0[s * nx + k] = 2.0 * ns_rng_normal(&rng);
            x0[s * nx + nv + k] = (k < 2 ? 0.045 : 1.4) * speed * ns_rng_normal(&rng);
        }
    }
    step_all(model, blueprint, observe, 6 * nlink, x0, with, seen);
    step_all(model, NULL, kinetic, 1, x0, none, low);
    for (int side = 0; side < 2; side++) {
        memcpy(moved, x0, STATES * nx * sizeof *moved);
        for (uint32_t s = 0; s < STATES; s++) {
            for (uint32_t k = nv; k < nx; k++) {
                double change = with[(2 * s + 1) * nx + k] - none[(2 * s + 1) * nx + k];
                moved[s * nx + k] += side ? change : -change;
            }
        }
        step_all(model, NULL, kinetic, 1, moved, NULL, side ? high : low);
    }
    residual same = {.name = "power of forces on links", .tolerance = 1e-13};
    double most = -INFINITY;
    for (uint32_t s = 0; s < STATES; s++) {
        double power = 0.0, work = 0.5 * (high[s] - low[s]);
        for (uint32_t l = 0; l < nlink; l++) {
            const double* o = seen + (s * nlink + l) * 6;
            power += o[0] * o[3] + o[1] * o[4] + o[2] * o[5];
        }
        assert_true(power <= 0.0);
        residual_add(&same, work, 0.01 * power, fabs(high[s]) + fabs(low[s]));
        most = fmax(most, power);
    }
    residual_check(&same);
    print_message("    power at most %.3g W in %d states\n", most, STATES);
    free(x0), free(with), free(none), free(seen), free(low), free(high), free(moved);
    ns_model_free(model);
}

static void the_medium_gives_no_energy(void** state) {
    (void)state;
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    if (ns_blueprint_load(SWIMMER "drag_small.yaml", NULL, &blueprint, &error) != NS_OK ||
        ns_blueprint_load_weights(blueprint, tempdir_path("weights.safetensors"), &error) !=
            NS_OK) {
        fail_msg("%s", error.message);
    }
    check_power(SOURCE "/models/swimmer2.xml", blueprint);
    check_power(SOURCE "/models/swimmer6.xml", blueprint);
    ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(little_data_teaches_long_predictions),
        cmocka_unit_test(what_is_learned_moves_to_another_machine),
        cmocka_unit_test(the_medium_gives_no_energy),
    };
    return cmocka_run_group_tests(tests, train, NULL);
}
