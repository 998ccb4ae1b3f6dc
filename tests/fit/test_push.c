// Losses of recorded pushes (experiments/push): their gradients through whole pushes against differences, and that they
// are finite from anywhere between the bounds. Skipped without the recordings.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "study/study_fits.h"
#include "study/study_state.h"
#include "support/assert.h"
#include "support/realdata.h"
#include "sysid/objective.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 80 }; // unknowns

// A fit of the study by its name; the study holds its texts.
static ns_study* study;

static ns_fit* load(const char* name) {
    need_data("mcube_push");
    ns_fit* fit = NULL;
    ns_error error = {0};
    if (!study) {
        const char* path = NEURALSIM_SOURCE_DIR "/experiments/push/study.yaml";
        must(ns_study_load(path, NULL, &study, &error), &error);
    }
    for (uint32_t k = 0; k < study->fits->nentry; k++) {
        const study_entry* entry = &study->fits->entries[k];
        nsi_fit_changes changes = {0};
        if (strcmp(entry->name, name) != 0) continue;
        must(nsi_study_read_spec(study->fits, entry, &changes.spec, &error), &error);
        must(nsi_fit_load(study->yaml.file, 1, &changes, &fit, &error), &error);
    }
    assert_non_null(fit);
    return fit;
}

static int free_study(void** state) {
    (void)state;
    ns_study_free(study);
    return 0;
}

// Of one recording, from its first sample to its last.
static nsi_objective* objective_of(const ns_fit* fit, uint32_t recording) {
    const ns_dataset* data = fit->data[NS_ROLE_TRAIN];
    nsi_windows all = {0};
    nsi_objective* e = NULL;
    ns_error error = {0};
    ns_status status = nsi_windows_make(fit->problem, data, 0, 0, false, &all, &error);
    assert_true(status == NS_OK && recording < all.count);
    nsi_windows one = all;
    one.data = all.data + recording;
    one.count = 1;
    status = nsi_objective_create(fit->problem, data, &fit->spec->stages.data[0].windows, &one, 1,
                                  &e, &error);
    must(status, &error);
    nsi_array_free(&fit->problem->allocator, &all);
    nsi_objective_guess(e);
    memcpy(nsi_objective_point(e).z, fit->z0, fit->nz * sizeof(double));
    if (fit->nw > 0) memcpy(nsi_objective_point(e).w, fit->w0, fit->nw * sizeof(double));
    return e;
}

// By central differences of two steps; false where they disagree, as near a kink.
static bool difference(nsi_objective* e, uint32_t k, double* d) {
    double step[MOST] = {0}, slope[2];
    for (int round = 0; round < 2; round++) {
        double h = round == 0 ? 1e-5 : 2.5e-6;
        step[k] = h;
        nsi_objective_move(e, step);
        double up = nsi_objective_cost(e);
        step[k] = -2.0 * h;
        nsi_objective_move(e, step);
        slope[round] = (up - nsi_objective_cost(e)) / (2.0 * h);
        step[k] = h;
        nsi_objective_move(e, step);
    }
    *d = slope[1];
    return fabs(slope[1] - slope[0]) <= 1e-3 * fabs(slope[1]) + 1e-3;
}

static void check_gradients(const char* name, uint32_t every) {
    ns_fit* fit = load(name);
    uint32_t count = ns_dataset_recording_count(fit->data[NS_ROLE_TRAIN]);
    uint32_t compared = 0, undecided = 0, pushes = 0;
    double worst = 0.0;
    for (uint32_t recording = 0; recording < count; recording += every, pushes++) {
        nsi_objective* e = objective_of(fit, recording);
        uint32_t n = nsi_objective_unknowns(e);
        double g[MOST], largest = 0.0;
        assert_true(n > 0 && n <= MOST);
        assert_true(isfinite(nsi_objective_gradient(e, g)));
        for (uint32_t k = 0; k < n; k++) largest = fmax(largest, fabs(g[k]));
        for (uint32_t k = 0; k < n; k++) {
            double d;
            if (!difference(e, k, &d)) {
                undecided++;
                continue;
            }
            double off = fabs(g[k] - d) / (fabs(d) + 1e-3 * largest);
            worst = fmax(worst, off);
            compared++;
            if (!(off < 2e-3)) {
                fail_msg("%s, push %u, unknown %u: gradient %.9g, differences %.9g", name,
                         recording, k, g[k], d);
            }
        }
        assert_true(largest > 0.0);
        nsi_objective_free(e);
    }
    print_message("%s: %u derivatives of %u pushes compared, the worst off by %.1e; %u undecided\n",
                  name, compared, pushes, worst, undecided);
    assert_true(compared > 2 * undecided);
    ns_fit_free(fit);
}

static void gradients_are_right(void** state) {
    (void)state;
    check_gradients("calibrated", 5);
}

// Its inputs are of the rod's contact one step before, which is called after each plate.
static void gradients_of_a_network_are_right(void** state) {
    (void)state;
    check_gradients("network", 12);
}

// From corners and random places of the box.
static void all_starts_are_finite(void** state) {
    (void)state;
    ns_fit* fit = load("calibrated");
    uint32_t n = fit->nz;
    ns_rng rng = ns_rng_seed(3);
    for (uint32_t recording = 1; recording < 50; recording += 12) {
        nsi_objective* e = objective_of(fit, recording);
        double* z = nsi_objective_point(e).z;
        for (int start = 0; start < 40; start++) {
            double g[MOST], v[MOST], value;
            for (uint32_t k = 0; k < n; k++) {
                const ns_parameter_info* of = ns_parameters_at(fit->parameters, k);
                double share = ns_rng_uniform(&rng, 0.0, 1.0);
                if (start < 16) share = share < 0.5 ? 0.001 : 0.999; // a bound itself is flat
                v[k] = of->lower + share * (of->upper - of->lower);
            }
            nsi_parameters_to_z(fit->parameters, v, z);
            assert_true(isfinite(nsi_objective_gradient(e, g)));
            for (uint32_t k = 0; k < n; k++) assert_true(isfinite(g[k]));
            assert_true(nsi_objective_linearise(e, &value) && isfinite(value));
        }
        nsi_objective_free(e);
    }
    ns_fit_free(fit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(gradients_of_a_network_are_right),
        cmocka_unit_test(all_starts_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, free_study);
}
