// Samples by refits: those of the Gaussian where the model is as good as linear; with a network, against
// importance sampling from the prior.

#include "sysid/refit_samples.h"

#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "sysid/residuals_state.h"

#include <math.h>
#include <stdlib.h>

#define ROD                                                                                        \
    "<mujoco><option timestep='0.02'/><worldbody><body name='rod'><joint name='hinge'"             \
    " type='hinge' axis='0 1 0' damping='0.2'/><inertial pos='0 0 -0.5' mass='1.4'"                \
    " diaginertia='0.05 0.05 0.01'/></body></worldbody></mujoco>"
#define NETWORK                                                                                    \
    "networks:\n  - name: drag\n    inputs: [joint/hinge/velocity]\n"                              \
    "    outputs: [joint/hinge/tau]\n    hidden: [2]\n"

enum { SAMPLES = 40, SIZE = 600 };
static const double DAMPING = 0.3, PRIOR = 0.3, WEIGHT_PRIOR = 0.7;

typedef struct refit_rig {
    ns_model* model;
    ns_blueprint* blueprint;
    ns_parameters* params;
    ns_dataset* data;
    ns_residuals* residuals;
    nsi_residual_density* density;
    ns_density callbacks;
    double* scales;
    ns_laplace* laplace;
} refit_rig;

// A swinging rod with a damping to find, and with a network that could be the same damping.
static refit_rig make_rig(bool network, double noise) {
    refit_rig r = {0};
    ns_error error = {0};
    must(ns_model_parse(ROD, sizeof ROD - 1, "rod.xml", NULL, &r.model, &error), &error);
    ns_system_options options = ns_default_system_options();
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = SAMPLES - 1, .threads = 1};
    ns_param_value truth = {"joint/hinge/damping", DAMPING};
    options.set = &truth;
    options.nset = 1;
    must(ns_system_create(r.model, &options, &system, &error), &error);
    must(ns_workspace_create(system, &size, &work, &error), &error);
    double states[2 * SAMPLES], x0[2] = {1.5, 0.0};
    ns_rollout_args args = {.batch = 1, .steps = SAMPLES - 1, .x0 = x0, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    ns_workspace_free(work);
    ns_system_free(system);

    // The recording, with a known noise.
    ns_rng rng = ns_rng_seed(5);
    for (int k = 2; k < 2 * SAMPLES; k++) states[k] += noise * ns_rng_normal(&rng);
    ns_array_channel channels[] = {{.name = "q0", .sigma = noise}, {.name = "qd0", .sigma = noise}};
    must(ns_dataset_create_arrays(channels, 2, NULL, 0, 0.02, NULL, &r.data, &error), &error);
    must(ns_dataset_add_arrays(r.data, "run", SAMPLES, states, NULL, &error), &error);

    // A damping with a prior; weights have theirs by decay.
    options = ns_default_system_options();
    if (network) {
        must(ns_blueprint_parse(NETWORK, sizeof NETWORK - 1, "net", NULL, &r.blueprint, &error),
             &error);
        options.blueprint = r.blueprint;
    }
    ns_variant variant = {.model = r.model, .options = &options};
    ns_parameter how = ns_default_parameter();
    how.initial = 0.2;
    how.lower = -INFINITY;
    how.prior_sigma = PRIOR;
    must(ns_parameters_create(&variant, 1, NULL, &r.params, &error), &error);
    must(ns_parameters_add(r.params, "joint/hinge/damping", &how, &error), &error);
    ns_window_options windows = {.initial_state = NS_INITIAL_STATE_RECORDED};
    double rows = 2.0 * (SAMPLES - 1);
    if (network) windows.weight_decay = 1.0 / (rows * WEIGHT_PRIOR * WEIGHT_PRIOR);
    must(ns_residuals_create(r.params, r.data, &windows, 1, &r.residuals, &error), &error);
    must(nsi_residual_density_create(r.residuals->problem, r.data, &windows, network, 2, &r.density,
                                     &error),
         &error);

    // The Gaussian.
    r.callbacks = nsi_residual_density_callbacks(r.density);
    r.scales = calloc(r.callbacks.n, sizeof *r.scales);
    double* start = calloc(r.callbacks.n, sizeof *start);
    nsi_residual_density_scales(r.density, r.scales);
    nsi_point point = nsi_objective_point(r.residuals->objective);
    assert_true(nsi_residual_density_start(r.density, point.z, point.w, start));
    must(ns_laplace_find(&r.callbacks, start, r.scales, &r.laplace, &error), &error);
    assert_true(r.laplace->converged);
    free(start);
    return r;
}

static void free_rig(refit_rig* r) {
    ns_laplace_free(r->laplace);
    free(r->scales);
    nsi_residual_density_free(r->density);
    ns_residuals_free(r->residuals);
    ns_parameters_free(r->params);
    ns_dataset_free(r->data);
    ns_blueprint_free(r->blueprint);
    ns_model_free(r->model);
}

static ns_samples* draw(const refit_rig* r) {
    ns_samples* samples = NULL;
    const ns_laplace* modes[] = {r->laplace};
    ns_error error = {0};
    must(ns_laplace_sample(modes, 1, 2, SIZE / 2, 7, &samples, &error), &error);
    return samples;
}

static ns_samples* refit(const refit_rig* r, uint32_t threads) {
    ns_samples* samples = draw(r);
    ns_error error = {0};
    nsi_refit_counts counts = {0};
    nsi_refit_options options = {.scales = r->scales, .threads = threads, .seed = 3};
    must(nsi_refit_samples(r->density, &options, samples, &counts, &error), &error);
    assert_true(counts.unfinished < SIZE / 10);
    assert_true(counts.steps >= SIZE && counts.accepted > 0 && counts.accepted <= counts.steps);
    return samples;
}

// Where noise is small the model is as good as linear, and refits are samples of the Gaussian.
static void refits_are_the_gaussian_where_it_is_right(void** state) {
    (void)state;
    refit_rig r = make_rig(false, 1e-3);
    ns_samples* samples = refit(&r, 1);
    ns_chain_summary s = ns_samples_summary(samples, 0);
    double deviation = fabs(r.laplace->factor[0]);
    close_to("mean", s.mean, r.laplace->mean[0], 4.0 * deviation / sqrt(SIZE));
    close_to("deviation", s.deviation, deviation, 4.0 * deviation / sqrt(2.0 * SIZE));
    ns_samples_free(samples);
    free_rig(&r);
}

// Mean and deviation of the damping, by draws of the prior and their likelihoods.
static double sample_prior(const refit_rig* r, double* deviation) {
    ns_rng rng = ns_rng_seed(11);
    double weights[64], all = 0.0, sum = 0.0, squares = 0.0, largest = 0.0;
    const uint32_t nw = r->callbacks.n - 1;
    for (int k = 0; k < 60000; k++) {
        double damping = 0.2 + PRIOR * ns_rng_normal(&rng), likelihood = 0.0;
        for (uint32_t i = 0; i < nw; i++) weights[i] = WEIGHT_PRIOR * ns_rng_normal(&rng);
        ns_residuals_set_parameters(r->residuals, &damping);
        ns_residuals_set_weights(r->residuals, weights);
        if (!isfinite(ns_residuals_cost(r->residuals))) continue;
        const double* rows = ns_residuals_values(r->residuals);
        for (uint32_t i = 0; i < ns_residuals_count(r->residuals); i++) {
            likelihood -= 0.5 * rows[i] * rows[i];
        }
        double share = exp(likelihood + 30.0);
        all += share;
        sum += share * damping;
        squares += share * damping * damping;
        largest = fmax(largest, share);
    }
    assert_true(largest < 0.02 * all); // many draws count
    *deviation = sqrt(squares / all - sum * sum / (all * all));
    return sum / all;
}

// The data leaves open what is damping and what is network. The Gaussian at the maximum, where weights are 0,
// knows of no network and is far too narrow.
static void refits_know_what_networks_could_do(void** state) {
    (void)state;
    refit_rig r = make_rig(true, 0.1);
    ns_samples *refits = refit(&r, 1), *again = refit(&r, 2), *gaussian = draw(&r);
    double deviation, mean = sample_prior(&r, &deviation);
    ns_chain_summary s = ns_samples_summary(refits, 0), g = ns_samples_summary(gaussian, 0);
    close_to("mean", s.mean, mean, 0.35 * deviation);
    close_to("deviation", s.deviation, deviation, 0.35 * deviation);
    assert_true(g.deviation < 0.4 * deviation);

    // By any number of threads.
    assert_memory_equal(refits->x, again->x, (size_t)SIZE * refits->n * sizeof *refits->x);
    ns_samples_free(refits);
    ns_samples_free(again);
    ns_samples_free(gaussian);
    free_rig(&r);
}

static bool stop_at_once(void* context, uint32_t done, uint32_t count) {
    *(uint32_t*)context = count;
    return done > 0;
}

static void observers_can_stop(void** state) {
    (void)state;
    refit_rig r = make_rig(false, 1e-3);
    ns_samples* samples = draw(&r);
    ns_error error = {0};
    nsi_refit_counts counts = {0};
    uint32_t count = 0;
    nsi_refit_options options = {
        .scales = r.scales, .threads = 1, .observe = stop_at_once, .context = &count};
    must(nsi_refit_samples(r.density, &options, samples, &counts, &error), &error);
    assert_int_equal(count, SIZE);
    assert_int_equal(samples->count, 0);
    ns_samples_free(samples);
    free_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refits_are_the_gaussian_where_it_is_right),
        cmocka_unit_test(refits_know_what_networks_could_do),
        cmocka_unit_test(observers_can_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
