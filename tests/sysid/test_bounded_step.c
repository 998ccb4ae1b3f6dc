// Steps within bounds: random fits whose truths lie beyond their bounds, against NLopt.

#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "sysid/objective_state.h"
#include "sysid/residuals_state.h"

#include <math.h>
#include <nlopt.h>
#include <stdlib.h>

#define CHAIN                                                                                      \
    "<mujoco><option timestep='0.01' integrator='RK4'/><worldbody><body name='a'>"                 \
    "<joint name='p' type='hinge' axis='0 1 0' damping='0.3' stiffness='2' armature='0.05'/>"      \
    "<inertial pos='0 0 -0.2' mass='1' diaginertia='0.02 0.02 0.01'/>"                             \
    "<body name='b' pos='0 0 -0.4'>"                                                               \
    "<joint name='q' type='hinge' axis='0 1 0' damping='0.2' stiffness='1' armature='0.02'/>"      \
    "<inertial pos='0 0 -0.1' mass='0.5' diaginertia='0.01 0.01 0.01'/></body></body></worldbody>" \
    "</mujoco>"

enum { FREE = 5, SAMPLES = 60, CHANNELS = 4 };

static const char* const names[FREE] = {"joint/p/damping", "joint/q/damping", "joint/p/stiffness",
                                        "joint/q/stiffness", "joint/p/armature"};
static const double sizes[FREE] = {0.3, 0.2, 2.0, 1.0, 0.05};

typedef struct bounded_fit {
    ns_model* model;
    ns_parameters* params;
    ns_dataset* data;
    ns_residuals* residuals;
    double lower[FREE], upper[FREE], initial[FREE];
} bounded_fit;

static ns_dataset* simulate_truth(const ns_model* model, const double* truth, ns_rng* rng) {
    ns_error error = {0};
    ns_param_value set[FREE];
    for (int k = 0; k < FREE; k++) set[k] = (ns_param_value){names[k], truth[k]};
    ns_system_options options = ns_default_system_options();
    options.timestep = 0.01;
    options.set = set;
    options.nset = FREE;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = SAMPLES - 1, .threads = 1};
    must(ns_system_create(model, &options, &system, &error), &error);
    must(ns_workspace_create(system, &size, &work, &error), &error);

    // Far from rest, with a little noise.
    double states[SAMPLES * CHANNELS], x0[CHANNELS] = {1.2, -0.8, 0.5, 2.0};
    ns_rollout_args args = {.batch = 1, .steps = SAMPLES - 1, .x0 = x0, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    for (int k = CHANNELS; k < SAMPLES * CHANNELS; k++) states[k] += 0.003 * ns_rng_normal(rng);
    ns_array_channel channels[CHANNELS] = {{.name = "q0", .sigma = 0.01},
                                           {.name = "q1", .sigma = 0.01},
                                           {.name = "qd0", .sigma = 0.05},
                                           {.name = "qd1", .sigma = 0.05}};
    ns_dataset* data = NULL;
    must(ns_dataset_create_arrays(channels, CHANNELS, NULL, 0, 0.01, NULL, &data, &error), &error);
    must(ns_dataset_add_arrays(data, "run", SAMPLES, states, NULL, &error), &error);
    ns_workspace_free(work);
    ns_system_free(system);
    return data;
}

// Truths between 0.2 and 3 of a number's size, bounds anywhere: many exclude the truth.
static bounded_fit make_fit(uint64_t seed) {
    bounded_fit f = {0};
    ns_error error = {0};
    ns_rng rng = ns_rng_seed(seed);
    must(ns_model_parse(CHAIN, sizeof CHAIN - 1, "chain.xml", NULL, &f.model, &error), &error);
    double truth[FREE];
    for (int k = 0; k < FREE; k++) truth[k] = sizes[k] * ns_rng_uniform(&rng, 0.2, 3.0);
    f.data = simulate_truth(f.model, truth, &rng);
    must(ns_parameters_create(&(ns_variant){.model = f.model}, 1, NULL, &f.params, &error), &error);
    for (int k = 0; k < FREE; k++) {
        ns_parameter how = ns_default_parameter();
        double a = ns_rng_uniform(&rng, 0.1, 3.0), b = ns_rng_uniform(&rng, 0.1, 3.0);
        double share = ns_rng_uniform(&rng, 0.0, 1.0);
        bool open = ns_rng_uniform(&rng, 0.0, 1.0) < 0.3; // no upper bound
        f.lower[k] = sizes[k] * fmin(a, b);
        f.upper[k] = open ? INFINITY : sizes[k] * (fmax(a, b) + 0.05);
        f.initial[k] = f.lower[k] + share * sizes[k] * (fabs(a - b) + 0.05);
        how.lower = f.lower[k];
        how.upper = f.upper[k];
        how.initial = f.initial[k];
        how.transform = open ? NS_PARAMETER_ABOVE : NS_PARAMETER_BOX;
        must(ns_parameters_add(f.params, names[k], &how, &error), &error);
    }
    ns_window_options windows = {.initial_state = NS_INITIAL_STATE_RECORDED};
    must(ns_residuals_create(f.params, f.data, &windows, 1, &f.residuals, &error), &error);
    return f;
}

static void free_fit(bounded_fit* f) {
    ns_residuals_free(f->residuals);
    ns_parameters_free(f->params);
    ns_dataset_free(f->data);
    ns_model_free(f->model);
}

// The cost at values, on bounds as well.
static double cost_at(unsigned n, const double* values, double* gradient, void* context) {
    (void)gradient;
    bounded_fit* f = context;
    double* z = nsi_objective_point(f->residuals->objective).z;
    for (unsigned k = 0; k < n; k++) {
        const ns_parameter_info* v = ns_parameters_at(f->params, k);
        if (v->transform == NS_PARAMETER_BOX) {
            double share = (values[k] - v->lower) / (v->upper - v->lower);
            z[k] = asin(fmin(fmax(2.0 * share - 1.0, -1.0), 1.0));
        } else {
            double above = fmax((values[k] - v->lower) / v->scale, 0.0) + 1.0;
            z[k] = sqrt(above * above - 1.0);
        }
    }
    double cost = ns_residuals_cost(f->residuals);
    return isfinite(cost) ? cost : 1e12;
}

// The lowest cost that a solver without derivatives and transforms finds near these values.
static double reference_cost(bounded_fit* f, double* values) {
    double best = INFINITY;
    nlopt_opt opt = nlopt_create(NLOPT_LN_BOBYQA, FREE);
    nlopt_set_min_objective(opt, cost_at, f);
    nlopt_set_lower_bounds(opt, f->lower);
    nlopt_set_upper_bounds(opt, f->upper);
    nlopt_set_ftol_rel(opt, 1e-9);
    nlopt_set_maxeval(opt, 1500);
    for (int k = 0; k < FREE; k++) values[k] = fmin(fmax(values[k], f->lower[k]), f->upper[k]);
    nlopt_optimize(opt, values, &best);
    nlopt_destroy(opt);
    return best;
}

static void fits_reach_the_minimum_within_bounds(void** state) {
    (void)state;
    int active = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        bounded_fit f = make_fit(seed);
        ns_error error = {0};
        ns_fit_result* result = NULL;
        must(ns_least_squares_fit(f.residuals, NULL, &result, &error), &error);
        double values[FREE], from[FREE], found = ns_residuals_cost(f.residuals);
        for (int k = 0; k < FREE; k++) {
            values[k] = result->estimates[k].value;
            double size = sizes[k];
            active += values[k] - f.lower[k] < 1e-3 * size || f.upper[k] - values[k] < 1e-3 * size;
        }

        // From where the fit ended, and from where it began.
        memcpy(from, f.initial, sizeof from);
        double near = reference_cost(&f, values), far = reference_cost(&f, from);
        assert_true(found <= fmin(near, far) * (1.0 + 1e-4) + 1e-6);
        ns_fit_result_free(result);
        free_fit(&f);
    }
    assert_true(active > 80); // so that many of these fits end at bounds
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fits_reach_the_minimum_within_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
