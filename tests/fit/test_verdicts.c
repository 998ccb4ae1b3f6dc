// Verdicts on a whole result: what makes a fit fail, what its first line says, and that no estimate is then ok.

#include "fit/verdicts.h"

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- of a record ---------------------------------------------------------------------------------

// Two estimates, one at its bound; residuals as small as the noise; no test data.
static void make_result(nsi_result* a) {
    nsi_result_init(NULL, a);
    a->complete = a->noise_known = true;
    a->sigma = 1.0;
    a->nresidual = 100;
    ns_estimate good = {.name = "link/a/mass", .unit = "kg", .verdict = NS_VERDICT_OK};
    ns_estimate bound = {.name = "joint/a/damping", .unit = "", .verdict = NS_VERDICT_AT_LOWER};
    assert_true(nsi_array_push(&a->allocator, &a->estimates, good));
    assert_true(nsi_array_push(&a->allocator, &a->estimates, bound));
}

typedef struct judged_case {
    double sigma;
    bool noise_known;
    nsi_verdict_evidence evidence;
    double before, after; // error on test data; 0: there is none
    uint32_t lost;
    ns_verdict verdict;  // of what was ok
    const char* failure; // part of it; NULL: none
    const char* doubts;
} judged_case;

static const judged_case judged_cases[] = {
    {1.0, true, {0}, 0, 0, 0, NS_VERDICT_OK, NULL, NULL},
    {2.9, true, {0}, 0, 0, 0, NS_VERDICT_OK, NULL, NULL},
    {43.8, true, {0}, 0, 0, 0, NS_VERDICT_MISFIT, "residuals are 44 times the noise given", NULL},
    {NAN, true, {0}, 0, 0, 0, NS_VERDICT_MISFIT, "The fit failed", NULL},
    {43.8,
     true,
     {.refused = 12, .refused_name = "pole"},
     0,
     0,
     0,
     NS_VERDICT_MISFIT,
     "(1) 12 steps were refused because pole would not be physical",
     NULL},
    {43.8,
     true,
     {.whole = true},
     0,
     0,
     0,
     NS_VERDICT_MISFIT,
     "(1) joint/a/damping is at its bound: widen it; (2) a local minimum",
     NULL},
    {43.8, true, {.stuck = true}, 0, 0, 0, NS_VERDICT_MISFIT, "no step lowered the loss", NULL},
    {43.8,
     true,
     {.scored = true, .stuck = true, .whole = true},
     0,
     0,
     0,
     NS_VERDICT_MISFIT,
     NULL,
     "The model does not explain the data: residuals are 43.8 times the noise given"},
    {0.7,
     false,
     {.scored = true},
     0,
     0,
     0,
     NS_VERDICT_MISFIT,
     NULL,
     "0.7 times how far the data goes, and 0.5 times is the limit"},
    {1.0, true, {.scored = true, .stuck = true}, 0, 0, 0, NS_VERDICT_OK, NULL, NULL},
    {1.0, true, {.scored = true}, 0, 0, 3, NS_VERDICT_OK, NULL, "3 simulations of it do not stay"},
    {0.1, false, {0}, 0, 0, 0, NS_VERDICT_OK, NULL, NULL},
    {0.7, false, {0}, 0, 0, 0, NS_VERDICT_MISFIT, "0.7 times how far the data goes", NULL},
    {1.0, true, {.refused = 3, .refused_name = "pole"}, 0, 0, 0, NS_VERDICT_REFUSED, NULL, NULL},
    {1.0,
     true,
     {.limits = "joint/a goes to 3"},
     0,
     0,
     0,
     NS_VERDICT_LIMITS,
     NULL,
     "joint/a goes to 3"},
    {1.0, true, {0}, 1.0, 1.04, 0, NS_VERDICT_OK, NULL, NULL},
    {1.0,
     true,
     {0},
     1.0,
     1.2,
     0,
     NS_VERDICT_TEST,
     NULL,
     "The error on test data grew, from 1.00 to 1.20"},
    {1.0, true, {0}, 1.0, 0.5, 2, NS_VERDICT_OK, "do not stay finite", NULL},
};

static void nothing_is_ok_in_a_failed_fit(void** state) {
    (void)state;
    for (size_t k = 0; k < sizeof judged_cases / sizeof *judged_cases; k++) {
        const judged_case* c = &judged_cases[k];
        nsi_result a;
        make_result(&a);
        a.sigma = c->sigma;
        a.noise_known = c->noise_known;
        ns_score *before = &a.before[NS_ROLE_TEST], *after = &a.after[NS_ROLE_TEST];
        before->windows = after->windows = c->before > 0.0;
        before->loss = c->before;
        after->loss = c->after;
        after->lost = c->lost;
        ns_error error = {0};
        must(nsi_result_judge(&a, &c->evidence, &error), &error);
        if (a.estimates.data[0].verdict != c->verdict) {
            fail_msg("case %zu: %d", k, (int)a.estimates.data[0].verdict);
        }
        assert_int_equal(a.estimates.data[1].verdict, NS_VERDICT_AT_LOWER);
        if (!a.failure != !c->failure || (c->failure && !strstr(a.failure, c->failure))) {
            fail_msg("case %zu: %s", k, a.failure ? a.failure : "no failure");
        }
        if (!a.doubts != !c->doubts || (c->doubts && !strstr(a.doubts, c->doubts))) {
            fail_msg("case %zu: %s", k, a.doubts ? a.doubts : "no doubts");
        }

        // The first line of the text and of the page, before the title.
        if (c->failure) {
            ns_text text;
            assert_int_equal(render_result(&a, ns_report_text, &text, &error), NS_OK);
            assert_int_equal(strncmp(text.data, "PROBLEM: The fit failed: ", 25), 0);
            ns_text_free(&text);
            assert_int_equal(render_result(&a, ns_report_html, &text, &error), NS_OK);
            const char* problem = strstr(text.data, "<strong>Problem:</strong> The fit failed: ");
            assert_true(problem && problem < strstr(text.data, "<h1>"));
            ns_text_free(&text);
        }
        nsi_result_free(&a);
    }
}

// ---- of runs -------------------------------------------------------------------------------------

static const char rod[] =
    "<mujoco><compiler angle='radian'/><worldbody><body name='rod'><joint name='hinge' type='hinge'"
    " axis='0 1 0' %s/><inertial pos='0 0 -0.5' mass='1' diaginertia='0.05 0.05 0.002'/></body>"
    "</worldbody></mujoco>";

static ns_fit* run_rod(const char* model, const char* parameter) {
    experiment_write("rod.xml", rod, model);
    experiment_write("fit.yaml",
                     "model: rod.xml\ntimestep: 0.01\ndata: {map: map.yaml, train: [rod.csv]}\n"
                     "parameters: {%s}\ntrain: {window: 25}\n",
                     parameter);
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    return fit;
}

static const ns_fit_result* result_of(const ns_fit* fit, ns_verdict verdict) {
    const ns_fit_result* result = ns_fit_get_result(fit);
    if (result->estimates[0].verdict != verdict) {
        fail_msg("%s", ns_choice_name(&ns_verdicts, (int)result->estimates[0].verdict));
    }
    return result;
}

static void runs_are_judged(void** state) {
    (void)state;
    experiment_write("truth.xml", rod, "damping='0.3'");
    static const double starts[] = {2.5, 0.0, -2.0, 1.0};
    motion m = motion_of(tempdir_path("truth.xml"), 0.01, 201);
    m.runs = 2;
    m.x0 = starts;
    m.sigma = 1e-3;
    motion_record(&m, "rod.csv");
    m.runs = 1;
    m.x0 = (const double[]){2.5, 0.0};
    motion_record(&m, "other.csv"); // goes as far
    experiment_write("map.yaml", "time: t\ntrajectory: traj\nobserve:\n"
                                 "  joint/hinge/position: {value: q0, sigma: 0.001}\n"
                                 "  joint/hinge/velocity: {value: qd0, sigma: 0.001}\n");

    // A model that is right, and one whose damping may not reach that of the recording.
    ns_fit* fit = run_rod("", "joint/hinge/damping: {initial: 0.1, lower: 0}");
    assert_null(result_of(fit, NS_VERDICT_OK)->failure);
    ns_fit_free(fit);
    fit = run_rod("", "joint/hinge/damping: {initial: 0.1, lower: 0, upper: 0.2}");
    const ns_fit_result* result = result_of(fit, NS_VERDICT_AT_UPPER);
    assert_true(result->failure && strstr(result->failure, "joint/hinge/damping is at its bound"));
    ns_fit_free(fit);

    // Something is missing that the parameter cannot stand in for.
    fit = run_rod("", "link/rod/inertia/yy: free");
    assert_non_null(result_of(fit, NS_VERDICT_MISFIT)->failure);
    ns_fit_free(fit);

    // The recording goes where the model has stops.
    fit = run_rod("limited='true' range='-1 1'", "joint/hinge/damping: {initial: 0.1, lower: 0}");
    result = ns_fit_get_result(fit);
    assert_true(result->estimates[0].verdict != NS_VERDICT_OK);
    assert_true(result->doubts && strstr(result->doubts, "joint/hinge goes to"));
    ns_fit_free(fit);

    ns_error error = {0};
    // The same where only the second variant has stops: recordings of the first may go there.
    for (int k = 0; k < 2; k++) {
        const char* stops = "limited='true' range='-1 1'";
        experiment_write("first.xml", rod, k == 0 ? "" : stops);
        experiment_write("second.xml", rod, k == 0 ? stops : "");
        experiment_write("fit.yaml",
                         "variants:\n  - {name: first, files: \"rod.csv\", model: first.xml}\n"
                         "  - {name: second, files: \"other.csv\", model: second.xml}\n"
                         "timestep: 0.01\ndata: {map: map.yaml, train: [%s]}\n"
                         "parameters: {joint/hinge/damping: {initial: 0.1, lower: 0}}\n"
                         "train: {window: 25}\n",
                         k == 0 ? "other.csv, rod.csv" : "other.csv");
        fit = experiment_load("fit.yaml", 1);
        must(ns_fit_run(fit, NULL, &error), &error);
        result = ns_fit_get_result(fit);
        if (k == 0) assert_non_null(strstr(result->doubts, "second: joint/hinge goes to"));
        if (k == 1) assert_true(!result->doubts || !strstr(result->doubts, "goes to"));
        ns_fit_free(fit);
    }
}

// A model that is only scored does not fail, and says how far it is off.
static void scored_models_do_not_fail(void** state) {
    (void)state;
    experiment_write("rod.xml", rod, "damping='0.28'");
    experiment_write("fit.yaml", "model: rod.xml\ntimestep: 0.01\n"
                                 "data: {map: map.yaml, train: [rod.csv]}\n"
                                 "parameters: {joint/hinge/damping: {lower: 0}}\n"
                                 "train: {window: 25, iterations: 0}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    const ns_fit_result* result = result_of(fit, NS_VERDICT_MISFIT);
    char numbers[80];
    snprintf(numbers, sizeof numbers, "does not explain the data: residuals are %.1f times",
             result->sigma);
    assert_null(result->failure);
    assert_true(result->sigma > 3.0 && result->sigma < 99.95);
    assert_true(result->doubts && strstr(result->doubts, numbers));
    ns_fit_free(fit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_ok_in_a_failed_fit),
        cmocka_unit_test(runs_are_judged),
        cmocka_unit_test(scored_models_do_not_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
