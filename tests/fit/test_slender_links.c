// Links whose inertia is on the boundary of what is physical: a cart-pole with a thin rod, recorded in
// MuJoCo (tests/data/cartpole), by fit and by discover; and a top of which two moments are estimated.

#include "neuralsim/discover.h"
#include "neuralsim/hybrid.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define CARTPOLE NEURALSIM_SOURCE_DIR "/tests/data/cartpole/"
#define CARTPOLE_FIT                                                                               \
    "model: " CARTPOLE "model.xml\nintegrator: rk4\ntimestep: 0.01\n"                              \
    "data: {map: " CARTPOLE "map.yaml, train: [" CARTPOLE "recording.csv]}\n"

typedef struct truth {
    const char* name;
    double value;
} truth;

// An estimate is within 3 of its standard errors, which is not a wide one.
static void check_estimate(const ns_fit* fit, truth t, double widest) {
    double value, error;
    assert_true(ns_fit_estimate(fit, t.name, &value, &error));
    print_message("    %s = %.6g +- %.2g, truth %g\n", t.name, value, error, t.value);
    if (!(fabs(value - t.value) <= 3.0 * error)) fail_msg("%s: %g +- %g", t.name, value, error);
    if (!(error < widest * t.value)) fail_msg("%s: +- %g", t.name, error);
}

static ns_fit* run_fit(void) {
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    return fit;
}

static const truth rod_truths[] = {{"link/pole/mass", 0.32},
                                   {"link/pole/inertia/yy", 0.0096},
                                   {"joint/slide/damping", 0.3},
                                   {"joint/hinge/damping", 0.02}};

// The rod of the model is 0.2 kg, that of the recording 0.32 kg: its yy is above xx + zz of the model.
static void a_thin_rod_is_identified(void** state) {
    (void)state;
    experiment_write("fit.yaml", CARTPOLE_FIT
                     "parameters:\n  link/pole/mass: free\n  link/pole/inertia/yy: free\n"
                     "  joint/*/damping: {initial: 0.1, lower: 0}\n"
                     "train: {window: [10, 25, 50], initial_state: free}\n");
    ns_fit* fit = run_fit();
    for (int k = 0; k < 4; k++) check_estimate(fit, rod_truths[k], 0.01);
    const ns_fit_result* result = ns_fit_get_result(fit);
    if (!(fabs(result->sigma - 1.0) < 0.05)) fail_msg("residuals of %g sigma", result->sigma);
    bool noted = false;
    for (uint32_t k = 0; k < result->nnote; k++) {
        if (strstr(result->notes[k], "refused")) fail_msg("%s", result->notes[k]);
        noted = noted || strstr(result->notes[k], "link pole turns about one axis");
    }
    assert_true(noted);

    // The model that is written is a body, too.
    char folder[300];
    snprintf(folder, sizeof folder, "%s", tempdir_mkdir("out"));
    ns_error error = {0};
    must(ns_fit_save(fit, folder, &error), &error);
    ns_fit_free(fit);
    ns_hybrid* hybrid = NULL;
    must(ns_hybrid_load(tempdir_path("out/fitted.yaml"), NULL, &hybrid, &error), &error);
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    double xx = NAN, yy = NAN, zz = NAN;
    for (uint32_t k = 0; k < options.nset; k++) {
        const ns_param_value* set = &options.set[k];
        if (strcmp(set->pattern, "link/pole/inertia/xx") == 0) xx = set->value;
        if (strcmp(set->pattern, "link/pole/inertia/yy") == 0) yy = set->value;
        if (strcmp(set->pattern, "link/pole/inertia/zz") == 0) zz = set->value;
    }
    if (!(yy <= (xx + zz) * (1.0 + 1e-9))) fail_msg("%g %g %g", xx, yy, zz);
    ns_hybrid_free(hybrid);
}

// Nothing but a model, data and parameters: windows are chosen from the data.
static void three_lines_are_enough(void** state) {
    (void)state;
    experiment_write("fit.yaml",
                     "model: " CARTPOLE "model.xml\n"
                     "data: {map: " CARTPOLE "map.yaml, train: [" CARTPOLE "recording.csv]}\n"
                     "parameters: {link/pole/mass: free, link/pole/inertia/yy: free,"
                     " \"joint/*/damping\": {initial: 0.1, lower: 0}}\n");
    ns_fit* fit = run_fit();
    assert_int_equal(ns_fit_get_result(fit)->nphase, 3);
    assert_null(ns_fit_get_result(fit)->failure);
    for (int k = 0; k < 4; k++) check_estimate(fit, rod_truths[k], 0.01);
    ns_fit_free(fit);
}

static void a_thin_rod_is_discovered(void** state) {
    (void)state;
    experiment_write("discover.yaml", CARTPOLE_FIT);
    ns_discovery* d = NULL;
    ns_error error = {0};
    must(ns_discover_load(tempdir_path("discover.yaml"), 1, &d, &error), &error);
    must(ns_discover_run(d, NULL, NULL, &error), &error);
    static const truth truths[] = {{"link/pole/mass", 0.32},
                                   {"link/pole/inertia/yy", 0.0096},
                                   {"joint/hinge/tau", -0.02},
                                   {"joint/slide/tau", -0.3}};
    for (int i = 0; i < 4; i++) {
        const ns_discovered* found = NULL;
        for (uint32_t k = 0; k < ns_discover_count(d); k++) {
            const ns_discovered* f = ns_discover_found(d, k);
            if (strcmp(f->quantity, truths[i].name) == 0) found = f;
            if (i == 0) print_message("    %s +- %.2g\n", f->text, f->standard_error);
        }
        if (!found) fail_msg("%s was not found", truths[i].name);
        if (!(fabs(found->value - truths[i].value) <= 3.0 * found->standard_error)) {
            fail_msg("%s +- %g", found->text, found->standard_error);
        }

        // Mass and inertia can be traded against the cart's mass and the centre of mass; damping cannot.
        assert_int_equal(found->verdict, i < 2 ? NS_VERDICT_UNDETERMINED : NS_VERDICT_OK);
    }

    // Nothing else of the links is to be changed: their other numbers are right.
    for (uint32_t k = 0; k < ns_discover_count(d); k++) {
        const char* quantity = ns_discover_found(d, k)->quantity;
        assert_true(strncmp(quantity, "link/", 5) != 0 || strncmp(quantity, "link/pole/", 10) == 0);
        assert_null(strstr(quantity, "com"));
    }

    // The report names all that can be traded.
    ns_report* report = NULL;
    ns_text text;
    must(ns_discover_report(d, &report, &error), &error);
    must(ns_report_text(report, &text, &error), &error);
    const char* group = strstr(text.data, "these can be traded against each other");
    if (!group) fail_msg("%s", text.data);
    static const char* const traded[] = {"link/cart/mass", "link/pole/mass", "link/pole/com/z",
                                         "link/pole/inertia/yy"};
    for (int k = 0; k < 4; k++) assert_non_null(strstr(group, traded[k]));
    ns_text_free(&text);
    ns_report_free(report);
    ns_discover_free(d);
}

// A body that turns about all axes, of which zz is fixed: |xx - yy| may not exceed it.
static const char top[] =
    "<mujoco><worldbody><body name='top'><joint name='top' type='ball'/>"
    "<inertial pos='0 0 -0.2' mass='0.5' diaginertia='%s'/></body></worldbody></mujoco>";

static double fit_top(const char* parameters, double* loss) {
    experiment_write("fit.yaml",
                     "model: top.xml\ntimestep: 0.01\ndata: {train: [top.csv]}\n%s"
                     "train: {window: 25, iterations: 200}\n",
                     parameters);
    ns_fit* fit = run_fit();
    const ns_fit_result* result = ns_fit_get_result(fit);
    double xx;
    assert_true(ns_fit_estimate(fit, "link/top/inertia/xx", &xx, NULL));
    *loss = result->phases[result->nphase - 1].value;
    ns_fit_free(fit);
    return xx;
}

// The fixed zz is too small for what was recorded, so the best estimate is at the boundary, where
// yy = xx - zz. The fit finds the same point as one along this line.
static void estimates_go_along_the_boundary(void** state) {
    (void)state;
    experiment_write("truth.xml", top, "0.022 0.0185 0.0035");
    experiment_write("top.xml", top, "0.0106 0.0102 0.001");
    static const double starts[] = {1, 0, 0, 0, 2, 1, 3, 1, 0, 0, 0, -1, 3, -2};
    motion m = motion_of(tempdir_path("truth.xml"), 0.01, 101);
    m.runs = 2;
    m.x0 = starts;
    m.sigma = 1e-3;
    motion_record(&m, "top.csv");
    double loss, best;
    double both =
        fit_top("parameters: {link/top/inertia/xx: free, link/top/inertia/yy: free}\n", &loss);
    double line = fit_top("parameters: {link/top/inertia/xx: free}\n"
                          "set: {link/top/inertia/yy: '\"link/top/inertia/xx\" - 0.001'}\n",
                          &best);
    if (!(fabs(both - line) < 5e-6)) fail_msg("xx: %g, %g along the boundary", both, line);
    if (!(loss <= best * (1.0 + 1e-3))) fail_msg("loss: %g, %g along the boundary", loss, best);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thin_rod_is_identified),
        cmocka_unit_test(three_lines_are_enough),
        cmocka_unit_test(a_thin_rod_is_discovered),
        cmocka_unit_test(estimates_go_along_the_boundary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
