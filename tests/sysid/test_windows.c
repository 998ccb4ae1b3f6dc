// Windows of recordings: where they lie, and where states start in them.

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"
#include "sysid/objective_rig.h"
#include "sysid/objective_state.h"
#include "sysid/stage_solver.h"

#include <math.h>
#include <stdio.h>

// ---- windows -----------------------------------------------------------------------------------

static void windows_lie_as_they_should(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(11);
    experiment_write("hinge.xml", "%s", hinge);
    for (int trial = 0; trial < 40; trial++) {
        uint32_t size[8], runs = 1 + ns_rng_below(&rng, 8);
        FILE* file = fopen(tempdir_path("rows.csv"), "w");
        assert_non_null(file);
        fputs("t,traj,q0\n", file);
        for (uint32_t r = 0; r < runs; r++) {
            size[r] = 2 + ns_rng_below(&rng, 60);
            for (uint32_t k = 0; k < size[r]; k++) fprintf(file, "%.10g,%u,%u\n", 0.01 * k, r, k);
        }
        fclose(file);
        experiment_write("fit.yaml", "model: hinge.xml\n"
                                     "data: {train: [rows.csv]}\n"
                                     "parameters: {joint/hinge/damping: 0.3}\n"
                                     "train: {window: whole}\n");
        ns_fit* fit = experiment_load("fit.yaml", 1);
        const ns_dataset* data = fit->data[NS_ROLE_TRAIN];
        assert_int_equal(ns_dataset_recording_count(data), runs);
        for (int choice = 0; choice < 30; choice++) {
            uint32_t length = ns_rng_below(&rng, 20), most = ns_rng_below(&rng, 40);
            bool overlap = ns_rng_below(&rng, 2) == 1;
            uint32_t beside = 0, starts = 0;
            for (uint32_t r = 0; r < runs; r++) {
                beside += length > 0 ? (size[r] - 1) / length : 1;
                starts += length > 0 && size[r] > length ? size[r] - length : 0;
            }
            nsi_windows out = {0};
            ns_status status =
                nsi_windows_make(fit->problem, data, length, most, overlap, &out, NULL);
            assert_int_equal(status, beside > 0 ? NS_OK : NS_ERR_PARSE);
            uint32_t expected = beside;
            if (most > 0 && most < beside) expected = most;
            if (length > 0 && overlap && most > beside) expected = most < starts ? most : starts;
            assert_int_equal(out.count, expected);
            for (uint32_t k = 0; k < out.count; k++) {
                const nsi_window *w = &out.data[k], *next = w + 1;
                assert_true(w->length == (length > 0 ? length : size[w->recording] - 1));
                assert_true(w->start + w->length < size[w->recording]);
                if (k + 1 == out.count) {
                    assert_false(w->joined);
                    continue;
                }
                bool same = w->recording == next->recording;
                assert_true(same ? next->start > w->start : next->recording > w->recording);
                assert_true(w->joined == (same && w->start + w->length == next->start));
                if (expected <= beside) assert_true(!same || next->start >= w->start + length);
                if (most == 0) assert_true(w->joined == same); // nothing left out
            }
            nsi_array_free(&fit->problem->allocator, &out);
        }
        ns_fit_free(fit);
    }
}

// ---- starts ------------------------------------------------------------------------------------

// On a cubic positions and velocities are exact, at the ends, too, and with numbers missing.
static void starts_are_guessed_from_positions(void** state) {
    (void)state;
    experiment_write("hinge.xml", "%s", hinge);
    FILE* file = fopen(tempdir_path("rows.csv"), "w");
    fputs("t,q0\n", file);
    for (int k = 0; k < 30; k++) {
        double t = 0.02 * k;
        fprintf(file, "%.17g,", t);
        if (k % 7 != 3) fprintf(file, "%.17g", 0.3 - t + 2.0 * t * t - 3.0 * t * t * t);
        fputs("\n", file);
    }
    fclose(file);
    experiment_write("fit.yaml", "model: hinge.xml\n"
                                 "data: {train: [rows.csv]}\n"
                                 "parameters: {joint/hinge/damping: 0.3}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    const ns_recording* r = ns_dataset_recording(fit->data[NS_ROLE_TRAIN], 0);
    for (uint32_t reach = 2; reach < 8; reach++) {
        for (uint32_t k = 0; k < 30; k++) {
            double x[2], t = 0.02 * k, tolerance = 1e-9;
            if (reach == 2 && (k < 3 || k > 26)) continue; // fewer than four numbers
            if (reach < 4) tolerance = INFINITY;           // so near a gap
            nsi_problem_guess(fit->problem, r, k, reach, x);
            assert_true(isfinite(x[0]) && isfinite(x[1]));
            assert_true(fabs(x[0] - (0.3 - t + 2 * t * t - 3 * t * t * t)) <= tolerance);
            assert_true(fabs(x[1] - (-1.0 + 4.0 * t - 9.0 * t * t)) <= 1e2 * tolerance);
        }
    }
    ns_fit_free(fit);
}

static void starts_are_taken_as_recorded(void** state) {
    (void)state;
    experiment_write("rows.csv", "t,q0,qd0\n0,0.1,5\n0.01,0.7,6\n0.02,0.3,\n0.03,,8\n0.04,0.2,9\n");
    experiment_write("fit.yaml", "model: hinge.xml\n"
                                 "data: {train: [rows.csv]}\n"
                                 "parameters: {joint/hinge/damping: 0.3}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    const ns_recording* r = ns_dataset_recording(fit->data[NS_ROLE_TRAIN], 0);
    double x[2];
    nsi_problem_guess(fit->problem, r, 0, 5, x);
    assert_true(x[0] == 0.1 && x[1] == 5.0);
    nsi_problem_guess(fit->problem, r, 1, 5, x);
    assert_true(x[0] == 0.7 && x[1] == 6.0);
    nsi_problem_guess(fit->problem, r, 3, 5, x);
    assert_true(isfinite(x[0]) && x[1] == 8.0);
    nsi_problem_guess(fit->problem, r, 4, 5, x);
    assert_true(x[0] == 0.2 && x[1] == 9.0);
    ns_fit_free(fit);
}

// A body turning evenly: from quaternions alone its angular velocity is exact, at both ends and
// beside gaps; in a gap it is what is near.
static void starts_are_guessed_from_quaternions(void** state) {
    (void)state;
    experiment_write("block.xml", "%s", block);
    FILE* file = fopen(tempdir_path("rows.csv"), "w");
    fputs("t,q0,q1,q2,q3,q4,q5,q6\n", file);
    const double rate[3] = {1.0, -2.0, 0.5}, speed = sqrt(5.25);
    for (int k = 0; k < 12; k++) {
        double half = 0.5 * speed * 0.01 * k, s = sin(half) / speed;
        if (k == 6) {
            fprintf(file, "%.17g,0,0,0,,,,\n", 0.01 * k);
            continue;
        }
        fprintf(file, "%.17g,0,0,0,%.17g,%.17g,%.17g,%.17g\n", 0.01 * k, cos(half), s * rate[0],
                s * rate[1], s * rate[2]);
    }
    fclose(file);
    experiment_write("fit.yaml", "model: block.xml\n"
                                 "data: {train: [rows.csv]}\n"
                                 "parameters: {link/block/com/x: 0}\n"
                                 "timestep: 0.01\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    const ns_recording* r = ns_dataset_recording(fit->data[NS_ROLE_TRAIN], 0);
    for (uint32_t k = 0; k < 12; k++) {
        double x[13], norm = 0.0;
        nsi_problem_guess(fit->problem, r, k, 5, x);
        for (int i = 3; i < 7; i++) norm += x[i] * x[i];
        assert_true(fabs(norm - 1.0) < 1e-14);
        for (int i = 0; i < 3; i++) assert_true(fabs(x[10 + i] - rate[i]) < 1e-9);
    }
    ns_fit_free(fit);
}

// ---- schedules -----------------------------------------------------------------------------------

// Without `window`, lengths follow the speed of the motion: of sin(w t) the range over the speed, taken over 5
// samples, is 5 / (2 sin(5 w dt / 2)). They divide the recording.
static void schedules_follow_the_motion(void** state) {
    (void)state;
    enum { SAMPLES = 1001 };
    experiment_write("hinge.xml", "%s", hinge);
    static const double speeds[] = {2.0, 4.0, 10.0}; // rad/s
    for (int k = 0; k < 3; k++) {
        FILE* file = fopen(tempdir_path("rows.csv"), "w");
        assert_non_null(file);
        fputs("t,q0\n", file);
        for (int i = 0; i < SAMPLES; i++) {
            fprintf(file, "%.10g,%.17g\n", 0.01 * i, sin(speeds[k] * 0.01 * i));
        }
        fclose(file);
        experiment_write("fit.yaml", "model: hinge.xml\ndata: {train: [rows.csv]}\n"
                                     "parameters: {joint/hinge/damping: 0.3}\n");
        ns_fit* fit = experiment_load("fit.yaml", 1);
        uint32_t half = nsi_windows_half_period(fit->problem, fit->data[NS_ROLE_TRAIN]);
        double exact = 5.0 / (2.0 * sin(0.025 * speeds[k]));
        if (!(fabs(half - exact) < 0.05 * exact + 1.0)) fail_msg("%u, not %g", half, exact);

        assert_int_equal(fit->spec->stages.count, 3);
        static const double growth[] = {1.0, 2.5, 5.0};
        for (uint32_t s = 0; s < 3; s++) {
            const ns_window_options* w = &fit->spec->stages.data[s].windows;
            assert_int_equal(w->initial_state, NS_INITIAL_STATE_FREE);
            double windows = round((SAMPLES - 1) / (growth[s] * half));
            assert_int_equal(w->length, (uint32_t)((SAMPLES - 1) / windows));
        }
        ns_fit_free(fit);
    }

    // What a file says counts, and so does a model that is only scored.
    static const char* const settings[] = {"train: {window: whole}\n", "train: {iterations: 0}\n",
                                           "train: {method: lbfgs}\n", "stages: [{huber: 1}]\n"};
    for (int k = 0; k < 4; k++) {
        experiment_write("fit.yaml",
                         "model: hinge.xml\ndata: {train: [rows.csv]}\n"
                         "parameters: {joint/hinge/damping: 0.3}\n%s",
                         settings[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        assert_int_equal(fit->spec->stages.count, 1);
        assert_int_equal(fit->spec->stages.data[0].windows.length, 0);
        ns_fit_free(fit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_lie_as_they_should),
        cmocka_unit_test(starts_are_guessed_from_positions),
        cmocka_unit_test(starts_are_taken_as_recorded),
        cmocka_unit_test(starts_are_guessed_from_quaternions),
        cmocka_unit_test(schedules_follow_the_motion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
