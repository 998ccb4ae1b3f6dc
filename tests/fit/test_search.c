// Searches keep their best point: what comes after never ends above it.

#include "fit/fit_state.h"
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

// A ball that is thrown onto the ground and bounces: with free initial states the loss has a minimum for
// each impact that comes a sample earlier or later.
static const char ball[] =
    "<mujoco><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='ball' pos='0 0 1'><freejoint name='free'/>"
    "<inertial pos='0 0 0' mass='0.1' diaginertia='4e-5 4e-5 4e-5'/>"
    "<geom name='ball' type='sphere' size='0.03'/></body></worldbody></mujoco>";

static void record_ball(void) {
    static const double starts[2 * 13] = {0, 0, 0.5, 1, 0, 0, 0, 1.0, 0, 0, 0, 0, 20, //
                                          0, 0, 0.8, 1, 0, 0, 0, 0.3, 1, 0, 5, 0, 0};
    static const char* const seen[] = {"q0", "q1", "q2"};
    experiment_write("ball.xml", ball);
    static const ns_param_value truth[] = {{"contact/*/restitution", 0.8}, {"contact/*/mu", 0.2}};
    motion m = motion_of(tempdir_path("ball.xml"), 0.005, 241);
    m.runs = 2;
    m.x0 = starts;
    m.options.set = truth;
    m.options.nset = 2;
    m.channels = seen;
    m.nchannel = 3;
    m.sigma = 5e-3;
    motion_record(&m, "ball.csv");
}

// Loss at the end of the first phase, the search, and at the end of the fit.
static void search_ball(const char* settings, double* search, double* end) {
    experiment_write("fit.yaml",
                     "model: ball.xml\ntimestep: 0.005\ndata: {train: [ball.csv]}\n"
                     "parameters:\n"
                     "  contact/*/restitution: {initial: 0.3, lower: 0, upper: 1}\n"
                     "  contact/*/mu: {initial: 0.6, lower: 0, upper: 1}\n%s",
                     settings);
    ns_fit* fit = experiment_load("fit.yaml", 2);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    const ns_fit_result* result = ns_fit_get_result(fit);
    *search = result->phases[0].value;
    *end = result->phases[result->nphase - 1].value;
    for (uint32_t k = 0; k < result->nphase; k++) {
        print_message("    %s: %g\n", result->phases[k].name, result->phases[k].value);
    }
    ns_fit_free(fit);
}

static void the_best_point_is_kept(void** state) {
    (void)state;
    static const char* const settings[] = {
        "train: {window: whole, iterations: 15}\nsearch: {population: 6, rounds: 2}\n",
        "train: {window: [30, whole], iterations: 10}\nsearch: {population: 4, rounds: 2}\n",
        "train: {window: 40, iterations: 10}\n"
        "search: {method: restart, population: 6, rounds: 2}\n",
        "train: {window: [20, whole], iterations: 3}\n"
        "search: {method: crs2, evaluations: 200}\n"};
    record_ball();
    for (int k = 0; k < 4; k++) {
        double search, end;
        search_ball(settings[k], &search, &end);
        if (!(end <= search * (1.0 + 1e-12))) fail_msg("%s: %g after %g", settings[k], end, search);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_point_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
