// Gradients for weights of a batch: the sum of those of its robots, whatever the size of the batch.

#include "base/common.h"
#include "neuralsim/sim.h"
#include "support/assert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { STEPS = 7, MOST = 200 };

static ns_blueprint* make_blueprint(void) {
    static const char* const inputs[] = {"q/*", "qd/*"};
    static const char* const outputs[] = {"joint/*/tau"};
    static const uint32_t hidden[] = {5};
    static const double scale = 1e-4;
    ns_network_def def = ns_default_network_def();
    def.name = "net";
    def.inputs = inputs;
    def.ninput = 2;
    def.outputs = outputs;
    def.noutput = 1;
    def.hidden = hidden;
    def.nhidden = 1;
    def.output_scale = &scale;
    def.noutput_scale = 1;
    ns_blueprint* blueprint = NULL;
    assert_int_equal(ns_blueprint_create(NULL, &blueprint, NULL), NS_OK);
    assert_int_equal(ns_blueprint_add(blueprint, &def, NULL), NS_OK);
    return blueprint;
}

static void a_batch_has_the_sum_of_the_gradients_of_its_robots(void** state) {
    (void)state;
    ns_error error = {0};
    ns_model* model = NULL;
    ns_system* system = NULL;
    ns_blueprint* blueprint = make_blueprint();
    must(ns_model_load(NEURALSIM_SOURCE_DIR "/models/swimmer2.xml", NULL, &model, &error), &error);
    const char* observe = "qdd/*";
    ns_system_options options = ns_default_system_options();
    options.blueprint = blueprint;
    options.observe = &observe;
    options.nobserve = 1;
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_system_sizes z = ns_system_get_sizes(system);
    assert_true(z.nw > 0 && z.ny == 4);

    ns_rng rng = ns_rng_seed(5);
    size_t nseed = (size_t)MOST * (STEPS + 1) * z.nx, nlook = (size_t)MOST * STEPS * z.ny;
    double* x0 = malloc(sizeof(double) * MOST * z.nx);
    double* seeds = malloc(sizeof(double) * nseed);
    double* look = malloc(sizeof(double) * nlook);
    double *sum = calloc(z.nw, sizeof *sum), *size = calloc(z.nw, sizeof *size);
    double *one = calloc(z.nw, sizeof *one), *all = calloc(z.nw, sizeof *all);
    assert_true(x0 && seeds && look && sum && size && one && all);
    for (uint32_t k = 0; k < MOST * z.nx; k++) x0[k] = ns_rng_uniform(&rng, -0.5, 0.5);
    for (size_t k = 0; k < nseed; k++) seeds[k] = ns_rng_uniform(&rng, -1.0, 1.0);
    for (size_t k = 0; k < nlook; k++) look[k] = ns_rng_uniform(&rng, -1.0, 1.0);

    ns_workspace* work = NULL;
    assert_int_equal(ns_workspace_create(system,
                                         &(ns_workspace_size){.batch = MOST, .steps = STEPS}, &work,
                                         &error),
                     NS_OK);
    double worst = 0.0;
    for (uint32_t n = 1; n <= MOST; n++) {
        ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0 + (size_t)(n - 1) * z.nx};
        ns_rollout_adjoint adjoint = {.state_seeds = seeds + (size_t)(n - 1) * (STEPS + 1) * z.nx,
                                      .observation_seeds = look + (size_t)(n - 1) * STEPS * z.ny,
                                      .dweights = one};
        assert_int_equal(ns_rollout_vjp(system, work, &args, &adjoint, &error), NS_OK);
        for (uint32_t k = 0; k < z.nw; k++) {
            sum[k] += one[k];
            size[k] += fabs(one[k]);
        }
        if (n > 14 && n < MOST - 5) continue; // all numbers of lanes; more than one tile in a chunk
        args.x0 = x0;
        args.batch = n;
        adjoint =
            (ns_rollout_adjoint){.state_seeds = seeds, .observation_seeds = look, .dweights = all};
        assert_int_equal(ns_rollout_vjp(system, work, &args, &adjoint, &error), NS_OK);
        for (uint32_t k = 0; k < z.nw; k++) {
            assert_true(size[k] > 0.0);
            worst = fmax(worst, fabs(all[k] - sum[k]) / size[k]);
        }
    }
    print_message("largest difference: %.2g of the sum of sizes\n", worst);
    assert_true(worst < 1e-13); // rounding
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
    ns_blueprint_free(blueprint);
    free(x0);
    free(seeds);
    free(look);
    free(sum);
    free(size);
    free(one);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_has_the_sum_of_the_gradients_of_its_robots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
