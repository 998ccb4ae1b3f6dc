// Posteriors of fits: against standard errors, closed forms, and an independent sampler.

#include "neuralsim/fit.h"
#include "neuralsim/random.h"
#include "support/assert.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PENDULUM                                                                                   \
    "<mujoco><option timestep='0.02' integrator='RK4'/><worldbody><body name='rod'>"               \
    "<joint name='hinge' type='hinge' axis='0 1 0'/>"                                              \
    "<inertial pos='0 0 -0.5' mass='1.4' diaginertia='0.05 0.05 0.01'/>"                           \
    "</body></worldbody></mujoco>"

enum { SAMPLES = 61 };

static ns_model* robot;
static ns_system_options options;

static int make_robot(void** state) {
    (void)state;
    options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_RK4;
    options.timestep = 0.02;
    return ns_model_parse(PENDULUM, sizeof PENDULUM - 1, "rod.xml", NULL, &robot, NULL);
}

static int free_robot(void** state) {
    (void)state;
    ns_model_free(robot);
    return 0;
}

// A swing of a pendulum with this value of a parameter, with noise of angle and rate.
static ns_dataset* make_swing(const char* name, double value, const double noise[2],
                              const double sigma[2], uint64_t seed) {
    ns_param_value set = {name, value};
    ns_system_options own = options;
    own.set = &set, own.nset = 1;
    ns_system* truth = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    double states[SAMPLES * 2], torque[SAMPLES];
    must(ns_system_create(robot, &own, &truth, &error), &error);
    must(ns_workspace_create(truth, &(ns_workspace_size){.batch = 1, .steps = SAMPLES - 1}, &work,
                             &error),
         &error);
    for (int k = 0; k < SAMPLES; k++) torque[k] = 0.0;
    ns_rollout_args run = {1, SAMPLES - 1, .x0 = (double[]){1.0, 0.0}, .controls = torque,
                           .states = states};
    must(ns_rollout(truth, work, &run, &error), &error);
    ns_rng rng = ns_rng_seed(seed);
    for (int k = 0; k < 2 * SAMPLES; k++) states[k] += noise[k % 2] * ns_rng_normal(&rng);
    ns_workspace_free(work);
    ns_system_free(truth);

    const ns_array_channel channels[] = {{.name = "q0", .sigma = sigma[0]},
                                         {.name = "qd0", .sigma = sigma[1]}};
    ns_dataset* data = NULL;
    must(ns_dataset_create_arrays(channels, 2, (const char*[]){"tau0"}, 1, 0.02, NULL, &data,
                                  &error),
         &error);
    must(ns_dataset_add_arrays(data, "swing", SAMPLES, states, torque, &error), &error);
    return data;
}

typedef struct posterior_rig {
    ns_parameters* params;
    ns_dataset* data;
    ns_fit* fit;
    const ns_fit_result* result;
    const ns_posterior* posterior; // or NULL
} posterior_rig;

// Fit parameters to data that the rig owns from now on.
static posterior_rig run_rig(ns_dataset* data, const char* const* names, const ns_parameter* how,
                             uint32_t count, const ns_posterior_options* posterior,
                             const ns_fit_search* search, uint64_t seed) {
    posterior_rig r = {.data = data};
    ns_error error = {0};
    ns_variant variant = {.model = robot, .options = &options};
    must(ns_parameters_create(&variant, 1, NULL, &r.params, &error), &error);
    for (uint32_t k = 0; k < count; k++) {
        must(ns_parameters_add(r.params, names[k], how ? &how[k] : NULL, &error), &error);
    }
    ns_fit_spec spec = {.parameters = r.params,
                        .train = r.data,
                        .posterior = *posterior,
                        .seed = seed,
                        .threads = 2};
    if (search) spec.search = *search;
    must(ns_fit_create(&spec, &r.fit, &error), &error);
    must(ns_fit_run(r.fit, NULL, &error), &error);
    r.result = ns_fit_get_result(r.fit);
    r.posterior = r.result->posterior;
    return r;
}

static void free_rig(posterior_rig* r) {
    ns_fit_free(r->fit);
    ns_parameters_free(r->params);
    ns_dataset_free(r->data);
}

static const ns_posterior_number* find_number(const ns_posterior* p, const char* name) {
    for (uint32_t k = 0; k < p->n; k++) {
        if (strcmp(p->numbers[k].name, name) == 0) return &p->numbers[k];
    }
    fail_msg("no number %s", name);
    return NULL;
}

// ---- against standard errors --------------------------------------------------------------------

// With little noise the posterior is the Gaussian that standard errors describe.
static void posteriors_agree_with_standard_errors(void** state) {
    (void)state;
    const double noise[] = {0.002, 0.01};
    const char* const names[] = {"joint/hinge/damping", "link/rod/com/z"};
    for (int method = NS_POSTERIOR_LAPLACE; method <= NS_POSTERIOR_HMC; method++) {
        const ns_posterior_options how = {.method = (ns_posterior_method)method, .warmup = 300};
        posterior_rig r = run_rig(make_swing("joint/hinge/damping", 0.3, noise, noise, 1), names,
                                  NULL, 2, &how, NULL, 1);
        assert_non_null(r.posterior);
        assert_int_equal(r.posterior->n, 4); // and the initial state
        assert_int_equal(r.posterior->nmode, 1);
        assert_int_equal(r.posterior->divergences, 0);
        for (uint32_t k = 0; k < 2; k++) {
            const ns_estimate* e = &r.result->estimates[k];
            const ns_posterior_number* number = &r.posterior->numbers[k];
            assert_string_equal(number->name, names[k]);
            assert_int_equal(number->kind, NS_POSTERIOR_PARAMETER);

            // Standard errors are multiplied by the spread of the residuals, which was known here.
            double error = e->standard_error / r.result->sigma;
            close_to("mean", number->summary.mean, e->value, 0.2 * error);
            close_to("deviation", number->summary.deviation / error, 1.0, 0.07);
            close_to("5 %", number->summary.lower, e->value - 1.645 * error, 0.2 * error);
            close_to("95 %", ns_posterior_quantile(r.posterior, k, 0.95), e->value + 1.645 * error,
                     0.2 * error);
            close_to("R-hat", number->summary.rhat, 1.0, 0.01);
        }
        free_rig(&r);
    }
}

// Noise levels that are not given are found: of the residuals of n numbers, to 1 in sqrt(2 n).
static void noise_levels_are_sampled(void** state) {
    (void)state;
    const double noise[] = {0.004, 0.03}, sigma[] = {0.0, 0.0};
    const char* const names[] = {"joint/hinge/damping"};
    const ns_posterior_options how = {.method = NS_POSTERIOR_HMC, .warmup = 300};
    posterior_rig r = run_rig(make_swing("joint/hinge/damping", 0.3, noise, sigma, 2), names, NULL,
                              1, &how, NULL, 1);
    const char* const levels[] = {"noise/q0", "noise/qd0"};
    for (int k = 0; k < 2; k++) {
        const ns_posterior_number* number = find_number(r.posterior, levels[k]);
        assert_int_equal(number->kind, NS_POSTERIOR_NOISE);
        close_to("level", number->summary.mean / noise[k], 1.0, 0.3);
        close_to("deviation", number->summary.deviation / number->summary.mean,
                 1.0 / sqrt(2.0 * SAMPLES), 0.015);
    }
    free_rig(&r);
}

// ---- several modes ------------------------------------------------------------------------------

// A compound pendulum swings the same about its conjugate point (Kater 1818): with k^2 = I / m the
// lengths l and k^2 / l have the same frequency, g l / (k^2 + l^2).
static void both_lengths_of_a_compound_pendulum_are_found(void** state) {
    (void)state;
    enum { SEEDS = 20 };
    const double noise[] = {0.01, 0.05}, square = 0.05 / 1.4, length = 0.3;
    const double other = square / length;
    const char* const names[] = {"link/rod/com/z"};
    ns_parameter how = ns_default_parameter();
    how.initial = -0.5, how.lower = -1.0, how.upper = -0.02;
    const ns_posterior_options posterior = {.method = NS_POSTERIOR_LAPLACE, .samples = 500};
    const ns_fit_search search = {.solver = "basin_hopping", .rounds = 10};
    uint32_t found = 0;

    // The prior is flat in the length: a mode has the width that the frequency leaves it.
    double slopes[2], lengths[2] = {length, other};
    for (int k = 0; k < 2; k++) {
        double l = lengths[k], both = square + l * l;
        slopes[k] = fabs(square - l * l) / (both * both);
    }
    double want = slopes[1] / (slopes[0] + slopes[1]), sum = 0.0; // of `length`, the longer one
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        ns_dataset* data = make_swing("link/rod/com/z", -length, noise, noise, seed);
        posterior_rig r = run_rig(data, names, &how, 1, &posterior, &search, seed);
        assert_non_null(r.posterior);
        bool both[2] = {false, false};
        for (uint32_t m = 0; m < r.posterior->nmode; m++) {
            for (uint32_t c = 0; c < r.posterior->chains; c++) {
                if (r.posterior->mode[c] != m) continue;
                const ns_posterior* p = r.posterior;
                double at = -p->samples[(size_t)c * p->count * p->n];
                for (int k = 0; k < 2; k++) both[k] = both[k] || fabs(at - lengths[k]) < 0.03;
            }
        }
        found += r.posterior->nmode == 2 && both[0] && both[1];
        // The probability of the longer one, from where the posterior's samples of it begin.
        if (r.posterior->nmode == 2) {
            uint32_t longer = r.posterior->samples[0] < -0.5 * (length + other) ? 0 : 1;
            sum += r.posterior->probability[r.posterior->mode[0] == 0 ? longer : 1 - longer];
        }
        free_rig(&r);
    }
    assert_int_equal(found, SEEDS);
    close_to("probability", sum / SEEDS, want, 0.05);
}

// ---- an independent sampler ---------------------------------------------------------------------

enum { REFERENCE_SIZE = 16900 }; // effective samples of the reference, at least

// Of tests/data/posterior/reference.csv, which tests/fit/reference_posterior.py writes.
static void close_to_reference(const ns_posterior* p, const char* problem, const char* name) {
    ns_table table;
    ns_error error = {0};
    const ns_table_where where[] = {{"problem", problem}, {"name", name}};
    const ns_table_options how = {.where = where, .nwhere = 2};
    must(ns_table_read(NEURALSIM_SOURCE_DIR "/tests/data/posterior/reference.csv", &how, NULL,
                       &table, &error),
         &error);
    assert_int_equal(table.nrow, 1);
    const double* want = table.numbers + 2;
    const ns_chain_summary* s = &find_number(p, name)->summary;
    const double got[] = {s->mean, s->deviation, s->lower, s->median, s->upper};
    static const char* const what[] = {"mean", "deviation", "5 %", "median", "95 %"};

    // Errors of both samplers, of a Gaussian in units of its deviation: within four of them.
    static const double factor[] = {1.0, 0.71, 2.11, 1.25, 2.11};
    const double sizes[] = {s->ess_bulk, s->ess_tail, s->ess_tail, s->ess_bulk, s->ess_tail};
    for (int k = 0; k < 5; k++) {
        double spread = factor[k] * want[1] * sqrt(1.0 / sizes[k] + 1.0 / REFERENCE_SIZE);
        print_message("%s, %s: off by %.2f errors\n", name, what[k], (got[k] - want[k]) / spread);
        close_to(what[k], got[k], want[k], 4.0 * spread);
    }
    ns_table_free(&table);
}

static ns_dataset* read_problem(const char* path, const double sigma[2]) {
    ns_table table;
    ns_error error = {0};
    must(ns_table_read(path, NULL, NULL, &table, &error), &error);
    assert_int_equal(table.nrow, SAMPLES);
    double values[SAMPLES * 2], torque[SAMPLES];
    for (uint32_t k = 0; k < SAMPLES; k++) {
        values[2 * k] = ns_table_at(&table, k, 1);
        values[2 * k + 1] = ns_table_at(&table, k, 2);
        torque[k] = ns_table_at(&table, k, 3);
    }
    ns_table_free(&table);
    const ns_array_channel channels[] = {{.name = "q0", .sigma = sigma[0]},
                                         {.name = "qd0", .sigma = sigma[1]}};
    ns_dataset* data = NULL;
    must(ns_dataset_create_arrays(channels, 2, (const char*[]){"tau0"}, 1, 0.02, NULL, &data,
                                  &error),
         &error);
    must(ns_dataset_add_arrays(data, "swing", SAMPLES, values, torque, &error), &error);
    return data;
}

static void an_ensemble_sampler_gives_the_same_posterior(void** state) {
    (void)state;
    const double unknown[] = {0.0, 0.0}, known[] = {0.01, 0.05};
    const char* const names[] = {"joint/hinge/damping", "link/rod/mass"};
    const char* const all[] = {"joint/hinge/damping", "window 0: q0", "window 0: qd0",
                               "link/rod/mass",       "noise/q0",     "noise/qd0"};
    const ns_posterior_options how = {.method = NS_POSTERIOR_HMC, .samples = 3000};

    // Both parameters and both noise levels; then damping at its bound, where the posterior is cut
    // off.
    posterior_rig r =
        run_rig(read_problem(NEURALSIM_SOURCE_DIR "/tests/data/posterior/driven.csv", unknown),
                names, NULL, 2, &how, NULL, 1);
    for (int k = 0; k < 6; k++) close_to_reference(r.posterior, "0", all[k]);
    free_rig(&r);
    r = run_rig(read_problem(NEURALSIM_SOURCE_DIR "/tests/data/posterior/bound.csv", known), names,
                NULL, 1, &how, NULL, 1);
    for (int k = 0; k < 3; k++) close_to_reference(r.posterior, "1", all[k]);
    free_rig(&r);
}

// ---- reports and refusals -----------------------------------------------------------------------

static bool has_note(const ns_fit_result* result, const char* part) {
    for (uint32_t k = 0; k < result->nnote; k++) {
        if (strstr(result->notes[k], part)) return true;
    }
    return false;
}

// Without a torque only ratios of mass and damping matter: a flat prior has no posterior.
static void improper_posteriors_are_refused(void** state) {
    (void)state;
    const double noise[] = {0.002, 0.01};
    const char* const names[] = {"joint/hinge/damping", "link/rod/mass", "link/rod/inertia/yy"};
    const ns_posterior_options how = {.method = NS_POSTERIOR_HMC, .samples = 100};
    posterior_rig r = run_rig(make_swing("joint/hinge/damping", 0.3, noise, noise, 1), names, NULL,
                              3, &how, NULL, 1);
    assert_null(r.posterior);
    assert_true(has_note(r.result, "prior_sigma"));
    free_rig(&r);

    // A prior on one of them makes it proper.
    ns_parameter priors[3] = {ns_default_parameter(), ns_default_parameter(),
                              ns_default_parameter()};
    priors[1].prior_sigma = 0.05;
    r = run_rig(make_swing("joint/hinge/damping", 0.3, noise, noise, 1), names, priors, 3, &how,
                NULL, 1);
    assert_non_null(r.posterior);
    close_to("deviation", find_number(r.posterior, "link/rod/mass")->summary.deviation, 0.05, 0.01);
    free_rig(&r);
}

// Figures of the files that a fit wrote are those of its report, to the last digit.
static void same_figures_from_files(const ns_report* report, const char* folder) {
    char path[600];
    ns_error error = {0};
    ns_report* other = NULL;
    ns_table table;
    must(ns_report_create("files", NULL, &other, &error), &error);
    snprintf(path, sizeof path, "%s/samples.csv", folder);
    must(ns_section_add_corner(ns_report_add_section(other, NULL), path, &error), &error);
    snprintf(path, sizeof path, "%s/predictions.csv", folder);
    must(ns_table_read(path, &(ns_table_options){.allow_missing = true}, NULL, &table, &error),
         &error);
    must(ns_section_add_bands(ns_report_add_section(other, NULL), &table, &error), &error);
    ns_table_free(&table);

    // As numbers and as pictures.
    static const char* const names[] = {"corner", "bands"};
    for (int k = 0; k < 2; k++) {
        const ns_figure *a = ns_report_find_figure(report, names[k]),
                        *b = ns_report_find_figure(other, names[k]);
        ns_text texts[4];
        assert_true(a && b);
        must(ns_figure_csv(a, NULL, &texts[0], &error), &error);
        must(ns_figure_csv(b, NULL, &texts[1], &error), &error);
        must(ns_figure_svg(a, NULL, &texts[2], &error), &error);
        must(ns_figure_svg(b, NULL, &texts[3], &error), &error);
        assert_string_equal(texts[0].data, texts[1].data);
        assert_string_equal(texts[2].data, texts[3].data);
        for (int i = 0; i < 4; i++) ns_text_free(&texts[i]);
    }
    ns_report_free(other);
}

static void results_have_samples_tables_and_figures(void** state) {
    (void)state;
    const double noise[] = {0.002, 0.01};
    const char* const names[] = {"joint/hinge/damping", "link/rod/com/z"};
    const ns_posterior_options how = {.method = NS_POSTERIOR_HMC, .warmup = 100, .samples = 60};
    posterior_rig r = run_rig(make_swing("joint/hinge/damping", 0.3, noise, noise, 1), names, NULL,
                              2, &how, NULL, 1);
    const char* folder = tempdir_mkdir("fit");
    ns_error error = {0};
    must(ns_fit_save(r.fit, folder, &error), &error);

    // All samples, with weights that add up to 1.
    char path[600];
    ns_table table;
    snprintf(path, sizeof path, "%s/samples.csv", folder);
    must(ns_table_read(path, NULL, NULL, &table, &error), &error);
    assert_int_equal(table.nrow, 4 * 60);
    assert_int_equal(table.ncol, 6 + r.posterior->n);
    double sum = 0.0;
    for (uint32_t k = 0; k < table.nrow; k++) {
        sum += ns_table_at(&table, k, ns_table_column(&table, "weight"));
        double damping = ns_table_at(&table, k, ns_table_column(&table, "joint/hinge/damping"));
        same_bits("damping", &damping, &r.posterior->samples[(size_t)k * r.posterior->n], 1);
    }
    close_to("weights", sum, 1.0, 1e-12);
    ns_table_free(&table);

    // Bands hold the fitted motion, mostly, and are narrow.
    snprintf(path, sizeof path, "%s/predictions.csv", folder);
    must(ns_table_read(path, &(ns_table_options){.allow_missing = true}, NULL, &table, &error),
         &error);
    uint32_t inside = 0;
    for (uint32_t k = 0; k < table.nrow; k++) {
        double low = ns_table_at(&table, k, ns_table_column(&table, "q0/low"));
        double high = ns_table_at(&table, k, ns_table_column(&table, "q0/high"));
        double after = ns_table_at(&table, k, ns_table_column(&table, "q0/after"));
        assert_true(low <= high && high - low < 0.05);
        inside += after >= low - 1e-9 && after <= high + 1e-9;
    }
    assert_true(inside > table.nrow / 2);
    ns_table_free(&table);

    // The report shows it, and so does the record, which can still be read.
    ns_report* report = NULL;
    must(ns_fit_report(r.fit, &(ns_fit_report_options){.motion = true}, &report, &error), &error);
    same_figures_from_files(report, folder);
    ns_text text;
    must(ns_report_text(report, &text, &error), &error);
    assert_says(text.data, "Posterior by the no-U-turn sampler (HMC): 4 chains of 60 samples");
    assert_says(text.data, "effective samples");
    ns_text_free(&text);
    must(ns_report_json(report, &text, &error), &error);
    assert_says(text.data, "\"posterior\": {\"method\": \"hmc\"");
    ns_text_free(&text);
    ns_report_free(report);
    snprintf(path, sizeof path, "%s/result.json", folder);
    must(ns_result_report(path, NULL, &report, &error), &error);
    ns_report_free(report);
    free_rig(&r);
}

static bool stop_sampling(void* context, const ns_fit_progress* progress) {
    (void)context;
    return strcmp(progress->phase, "posterior by HMC") == 0 && progress->iteration > 1000;
}

static void stopped_runs_keep_samples(void** state) {
    (void)state;
    const double noise[] = {0.002, 0.01};
    const char* const names[] = {"joint/hinge/damping"};
    const ns_posterior_options how = {
        .method = NS_POSTERIOR_HMC, .chains = 1, .warmup = 500, .samples = 5000};
    posterior_rig r = run_rig(make_swing("joint/hinge/damping", 0.3, noise, noise, 1), names, NULL,
                              1, &how, NULL, 1);
    assert_int_equal(r.posterior->count, 5000);
    ns_error error = {0};
    must(ns_fit_run(r.fit, &(ns_fit_options){.observe = stop_sampling}, &error), &error);
    r.result = ns_fit_get_result(r.fit);
    assert_true(ns_fit_stopped(r.fit) && !r.result->complete);
    assert_true(r.result->posterior->count > 400 && r.result->posterior->count < 1000);
    free_rig(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posteriors_agree_with_standard_errors),
        cmocka_unit_test(noise_levels_are_sampled),
        cmocka_unit_test(both_lengths_of_a_compound_pendulum_are_found),
        cmocka_unit_test(an_ensemble_sampler_gives_the_same_posterior),
        cmocka_unit_test(improper_posteriors_are_refused),
        cmocka_unit_test(results_have_samples_tables_and_figures),
        cmocka_unit_test(stopped_runs_keep_samples),
    };
    return cmocka_run_group_tests(tests, make_robot, free_robot);
}
