// Standard errors and verdicts of parameters that the data does not determine.

#include "fit/uncertainty.h"

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rod[] =
    "<mujoco><compiler angle='radian'/><worldbody><body name='rod'><joint name='hinge' type='hinge'"
    " axis='0 1 0' damping='0.3'/><inertial pos='0 0 -0.5' mass='1' diaginertia='0.05 0.05 0.002'/>"
    "</body></worldbody></mujoco>";

static const double SIGMA = 1e-3;

static void record_rod(const double starts[4]) {
    experiment_write("rod.xml", "%s", rod);
    motion m = motion_of(tempdir_path("rod.xml"), 0.01, 201);
    m.runs = 2;
    m.x0 = starts;
    m.sigma = SIGMA;
    motion_record(&m, "rod.csv");
    experiment_write("map.yaml", "time: t\ntrajectory: traj\nobserve:\n"
                                 "  joint/hinge/position: {value: q0, sigma: 0.001}\n"
                                 "  joint/hinge/velocity: {value: qd0, sigma: 0.001}\n");
}

// A fit that has run; NULL where it refused to.
static ns_fit* run_fit(const char* rest) {
    experiment_write("fit.yaml",
                     "model: rod.xml\ntimestep: 0.01\ndata: {map: map.yaml, train: [rod.csv]}\n%s",
                     rest);
    ns_fit* fit = experiment_load("fit.yaml", 1);
    if (ns_fit_run(fit, NULL, NULL) == NS_OK) return fit;
    ns_fit_free(fit);
    return NULL;
}

// What a fit prints; to be freed.
static ns_text printed(const ns_fit* fit) {
    ns_text text;
    ns_error error = {0};
    must(render_result(&fit->result, ns_report_text, &text, &error), &error);
    return text;
}

// Only the product of two parameters matters: neither is determined, and their product is.
static void factors_of_a_product_are_undetermined(void** state) {
    (void)state;
    record_rod((const double[]){2.5, 0.0, -2.0, 1.0});
    ns_fit* fit = run_fit("parameters:\n"
                          "  a: {initial: 0.5, lower: 0}\n"
                          "  b: {initial: 0.5, lower: 0}\n"
                          "set: {joint/hinge/damping: a*b}\n"
                          "train: {window: 25}\n");
    assert_non_null(fit);
    const ns_fit_result* result = ns_fit_get_result(fit);
    assert_int_equal(result->nestimate, 2);
    for (int k = 0; k < 2; k++) {
        assert_int_equal(result->estimates[k].verdict, NS_VERDICT_UNDETERMINED);
        assert_true(isinf(result->estimates[k].standard_error));
    }
    close_to("product", result->estimates[0].value * result->estimates[1].value, 0.3, 2e-3);
    close_to("sigma", result->sigma, 1.0, 0.1);

    // One direction: a grows as b shrinks.
    assert_int_equal(result->ndirection, 1);
    const ns_parameter_direction* d = &result->directions[0];
    assert_true(d->null && isinf(d->error));
    close_to("direction", d->change[0] / d->change[1], -1.0, 1e-3);
    ns_text text = printed(fit);
    const char *a = strstr(text.data, "\na "), *b = strstr(text.data, "\nb ");
    assert_true(a && b);
    assert_non_null(strstr(a, " inf  undetermined\nb "));
    assert_non_null(strstr(b, " inf  undetermined\n"));
    assert_says(text.data, "The data cannot identify this combination: a +1 %, b -1 %");
    ns_text_free(&text);
    ns_fit_free(fit);
}

// Simulations that explode have derivatives whose squares are no numbers, though the loss still is one: there
// are no standard errors, and the fit has failed. A rod at rest by a spring that is too stiff for its steps has
// larger derivatives than residuals.
static void singular_equations_are_a_failure(void** state) {
    (void)state;
    record_rod((const double[]){0.0, 0.0, 0.0, 0.0});
    bool exploded = false;
    int found = 0;
    for (double stiffness = 3e5; !exploded; stiffness *= 1.005) {
        char rest[300];
        snprintf(rest, sizeof rest,
                 "integrator: rk4\n"
                 "parameters: {joint/hinge/stiffness: {initial: %.0f, lower: 10000}}\n"
                 "train: {window: 50, iterations: 1}\n",
                 stiffness);
        ns_fit* fit = run_fit(rest);
        exploded = !fit; // even the loss is none
        if (exploded) break;
        assert_true(stiffness < 1e7);
        const ns_fit_result* result = ns_fit_get_result(fit);
        assert_non_null(result->failure);
        ns_text text = printed(fit);
        if (strstr(text.data, "the normal equations are singular")) {
            found++;
            assert_true(isnan(result->estimates[0].standard_error));
            assert_int_equal(result->estimates[0].verdict, NS_VERDICT_MISFIT);
            assert_true(result->sigma > 1e100);
            assert_int_equal(strncmp(text.data, "PROBLEM: The fit failed: ", 25), 0);
        }
        ns_text_free(&text);
        ns_fit_free(fit);
    }
    assert_true(found > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(factors_of_a_product_are_undetermined),
        cmocka_unit_test(singular_equations_are_a_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
