// How often 90 % intervals of posteriors hold the truth, over synthetic fits.
//
// usage: coverage PROBLEM METHOD FITS [FILE]
//        PROBLEM: pendulum, arm, ball or network; METHOD: laplace or hmc
//
// Each fit draws a truth (parameters, and weights of the network), simulates a recording, adds
// noise, fits from nominal values and counts the parameters whose truth lies between the 5 % and 95
// % quantiles of the posterior. FILE receives a line for each fit: its seed, and for each parameter
// the share of the samples below the truth. Fits that FILE has already are not run again.

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARAMETERS = 8, MAX_SAMPLES = 400, MAX_CHANNELS = 14, MAX_FITS = 10000 };

typedef struct free_parameter {
    const char* name;
    double initial, from, to; // the truth is drawn uniformly from this range
} free_parameter;

typedef struct problem {
    const char *name, *model, *blueprint;
    double timestep;
    int integrator;
    const char* contact; // a contact law; NULL: the model's
    uint32_t samples, nq, ncontrol;
    double x0[2 * MAX_CHANNELS / 2];
    double torque;
    double noise_q, noise_qd; // standard deviations; those of qd are not given to the fit
    double weight_deviation;  // of the network's weights, also its prior
    free_parameter parameters[MAX_PARAMETERS];
    double deviations[MAX_PARAMETERS]; // of Gaussian priors, which truths are drawn from; 0: none
} problem;

#define LINK(k, axis, mass, pos)                                                                   \
    "<body name='l" k "' pos='" pos "'><joint name='j" k "' type='hinge' axis='" axis              \
    "' damping='0.5' armature='0.01'/><inertial pos='0 0 0.1' mass='" mass                         \
    "' diaginertia='0.01 0.01 0.005'/>"

static const problem problems[] = {
    {.name = "pendulum",
     .model = "<mujoco><worldbody><body name='rod'><joint name='hinge' type='hinge' axis='0 1 0'"
              " damping='0.2'/><inertial pos='0 0 -0.5' mass='1.4' diaginertia='0.05 0.05 0.01'/>"
              "</body></worldbody></mujoco>",
     .timestep = 0.02,
     .integrator = NS_INTEGRATOR_RK4,
     .samples = 100,
     .nq = 1,
     .ncontrol = 1,
     .x0 = {1.0, 0.0},
     .torque = 2.0,
     .noise_q = 0.02,
     .noise_qd = 0.1,
     .parameters = {{"joint/hinge/damping", 0.2, 0.1, 0.4},
                    {"link/rod/mass", 1.4, 1.0, 2.0},
                    {"link/rod/com/z", -0.5, -0.6, -0.4}}},
    {.name = "arm",
     .model = "<mujoco><worldbody>" LINK("0", "0 0 1", "2", "0 0 0") LINK(
         "1", "0 1 0", "1.5", "0 0 0.2") LINK("2", "0 0 1", "1.2", "0 0 0.2") LINK("3", "0 1 0",
                                                                                   "1", "0 0 0.2")
         LINK("4", "0 0 1", "0.8", "0 0 0.2") LINK("5", "0 1 0", "0.5", "0 0 0.2") LINK(
             "6", "0 0 1", "0.3",
             "0.05 0 0.1") "</body></body></body></body></body></body></body></worldbody></mujoco>",
     .timestep = 0.01,
     .integrator = NS_INTEGRATOR_IMPLICIT,
     .samples = 100,
     .nq = 7,
     .ncontrol = 7,
     .x0 = {0.1, 0.5, 0.2, 0.8, -0.3, 0.6, 0.0},
     .torque = 3.0,
     .noise_q = 0.005,
     .noise_qd = 0.05,
     .parameters = {{"joint/j0/damping", 0.5, 0.3, 0.8},
                    {"joint/j1/damping", 0.5, 0.3, 0.8},
                    {"joint/j2/damping", 0.5, 0.3, 0.8},
                    {"joint/j3/damping", 0.5, 0.3, 0.8},
                    {"joint/j4/damping", 0.5, 0.3, 0.8},
                    {"joint/j5/damping", 0.5, 0.3, 0.8},
                    {"joint/j6/damping", 0.5, 0.3, 0.8},
                    {"link/l6/mass", 0.3, 0.2, 0.8}}},
    {.name = "ball",
     .model = "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 .1'/>"
              "<body name='ball'><joint name='z' type='slide' axis='0 0 1' damping='0.2'/>"
              "<inertial pos='0 0 0' mass='1' diaginertia='.01 .01 .01'/>"
              "<geom name='ball' type='sphere' size='0.1'/></body></worldbody></mujoco>",
     .timestep = 0.002,
     .integrator = NS_INTEGRATOR_EULER,
     .contact = "spring",
     .samples = 300,
     .nq = 1,
     .ncontrol = 1,
     .x0 = {0.5, 0.0},
     .noise_q = 0.002,
     .noise_qd = 0.05,
     .parameters = {{"contact/ball:floor/stiffness", 1e4, 5e3, 2e4},
                    {"contact/ball:floor/damping", 1.0, 0.5, 1.5},
                    {"joint/z/damping", 0.2, 0.1, 0.4}}},
    {.name = "network",
     .model = "<mujoco><worldbody><body name='rod'><joint name='hinge' type='hinge' axis='0 1 0'"
              " damping='0.2'/><inertial pos='0 0 -0.5' mass='1.4' diaginertia='0.05 0.05 0.01'/>"
              "</body></worldbody></mujoco>",
     .blueprint = "networks:\n  - name: drag\n    inputs: [joint/hinge/position,"
                  " joint/hinge/velocity]\n    outputs: [joint/hinge/tau]\n    hidden: [2]\n",
     .timestep = 0.02,
     .integrator = NS_INTEGRATOR_RK4,
     .samples = 100,
     .nq = 1,
     .ncontrol = 1,
     .x0 = {1.0, 0.0},
     .torque = 2.0,
     .noise_q = 0.06,
     .noise_qd = 0.3,
     .weight_deviation = 0.5,
     .parameters = {{"joint/hinge/damping", .initial = 0.2}, {"link/rod/mass", .initial = 1.4}},
     .deviations = {0.05, 0.2}},
};

static void check(ns_status status, const ns_error* error) {
    if (status == NS_OK) return;
    fprintf(stderr, "coverage: %s\n", error->message);
    exit(1);
}

// What all fits of a problem share.
typedef struct setup {
    const problem* p;
    ns_model* model;
    ns_blueprint* blueprint;
    ns_system_options options;
    uint32_t n; // parameters
} setup;

static setup make_setup(const problem* p) {
    setup s = {.p = p};
    ns_error error = {0};
    check(ns_model_parse(p->model, strlen(p->model), "model.xml", NULL, &s.model, &error), &error);
    s.options = ns_default_system_options();
    s.options.timestep = p->timestep;
    s.options.integrator = p->integrator;
    int law;
    if (p->contact && ns_choice_find(&ns_contact_laws, p->contact, &law)) s.options.contact = law;
    if (p->blueprint) {
        check(ns_blueprint_parse(p->blueprint, strlen(p->blueprint), "networks", NULL, &s.blueprint,
                                 &error),
              &error);
        s.options.blueprint = s.blueprint;
    }
    while (s.n < MAX_PARAMETERS && p->parameters[s.n].name) s.n++;
    return s;
}

// A recording of a truth that is drawn here, with noise.
static ns_dataset* draw_recording(const setup* s, ns_rng* rng, double* truth) {
    const problem* p = s->p;
    ns_param_value set[MAX_PARAMETERS];
    for (uint32_t k = 0; k < s->n; k++) {
        const free_parameter* f = &p->parameters[k];
        truth[k] = p->deviations[k] > 0.0 ? f->initial + p->deviations[k] * ns_rng_normal(rng)
                                          : ns_rng_uniform(rng, f->from, f->to);
        set[k] = (ns_param_value){f->name, truth[k]};
    }
    ns_system_options options = s->options;
    options.set = set;
    options.nset = s->n;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    check(ns_system_create(s->model, &options, &system, &error), &error);

    // Weights from their prior, torques of several frequencies.
    ns_system_sizes z = ns_system_get_sizes(system);
    double* weights = calloc(z.nw + 1, sizeof *weights);
    for (uint32_t k = 0; k < z.nw; k++) weights[k] = p->weight_deviation * ns_rng_normal(rng);
    static double controls[MAX_SAMPLES * MAX_CHANNELS], states[MAX_SAMPLES * 64],
        values[MAX_SAMPLES * MAX_CHANNELS];
    for (uint32_t k = 0; k < p->samples; k++) {
        for (uint32_t c = 0; c < p->ncontrol; c++) {
            controls[k * p->ncontrol + c] =
                p->torque / (1 + c) * sin((2.5 + c) * p->timestep * k + c);
        }
    }
    double x0[64] = {0};
    memcpy(x0, p->x0, p->nq * sizeof *x0);
    ns_workspace_size size = {.batch = 1, .steps = p->samples - 1, .threads = 1};
    check(ns_workspace_create(system, &size, &work, &error), &error);
    ns_rollout_args run = {.batch = 1,
                           .steps = p->samples - 1,
                           .x0 = x0,
                           .controls = controls,
                           .weights = weights,
                           .states = states};
    check(ns_rollout(system, work, &run, &error), &error);

    // Angles have a known noise, rates one that the posterior finds.
    char names[MAX_CHANNELS][16], control_names[MAX_CHANNELS][16];
    const char* control_list[MAX_CHANNELS];
    ns_array_channel channels[MAX_CHANNELS];
    for (uint32_t c = 0; c < 2 * p->nq; c++) {
        bool rate = c >= p->nq;
        snprintf(names[c], sizeof names[c], rate ? "qd%u" : "q%u", rate ? c - p->nq : c);
        channels[c] = (ns_array_channel){.name = names[c], .sigma = rate ? 0.0 : p->noise_q};
        for (uint32_t k = 0; k < p->samples; k++) {
            values[k * 2 * p->nq + c] =
                states[k * z.nx + c] + (rate ? p->noise_qd : p->noise_q) * ns_rng_normal(rng);
        }
    }
    for (uint32_t c = 0; c < p->ncontrol; c++) {
        snprintf(control_names[c], sizeof control_names[c], "tau%u", c);
        control_list[c] = control_names[c];
    }
    ns_dataset* data = NULL;
    check(ns_dataset_create_arrays(channels, 2 * p->nq, control_list, p->ncontrol, p->timestep,
                                   NULL, &data, &error),
          &error);
    check(ns_dataset_add_arrays(data, "run", p->samples, values, controls, &error), &error);
    free(weights);
    ns_workspace_free(work);
    ns_system_free(system);
    return data;
}

// The share of the samples of a number that is below a value; there is one mode.
static double share_below(const ns_posterior* posterior, uint32_t number, double value) {
    size_t all = (size_t)posterior->chains * posterior->count, below = 0;
    for (size_t k = 0; k < all; k++) {
        below += posterior->samples[k * posterior->n + number] < value;
    }
    return (double)below / (double)all;
}

// One fit; the share of samples below the truth of each parameter. False: no posterior.
static bool run_fit(const setup* s, ns_posterior_method method, uint64_t seed, double* below) {
    const problem* p = s->p;
    ns_rng rng = ns_rng_seed(seed);
    double truth[MAX_PARAMETERS];
    ns_dataset* data = draw_recording(s, &rng, truth);
    ns_parameters* params = NULL;
    ns_error error = {0};
    ns_variant variant = {.model = s->model, .options = &s->options};
    check(ns_parameters_create(&variant, 1, NULL, &params, &error), &error);
    for (uint32_t k = 0; k < s->n; k++) {
        ns_parameter how = ns_default_parameter();
        how.initial = p->parameters[k].initial;
        if (p->deviations[k] > 0.0) how.prior_sigma = p->deviations[k];
        check(ns_parameters_add(params, p->parameters[k].name, &how, &error), &error);
    }

    // Short windows first. The penalty N R / 2 |w|^2 is the prior of the weights.
    const bool network = p->blueprint != NULL; // samples cost more
    double decay =
        network ? 1.0 / (p->weight_deviation * p->weight_deviation * 2.0 * p->nq * p->samples)
                : 0.0;
    ns_fit_stage stages[] = {
        {.windows = {.length = 20, .weight_decay = decay}},
        {.windows = {.length = 0, .weight_decay = decay}},
    };
    ns_fit_spec spec = {.parameters = params,
                        .train = data,
                        .stages = stages,
                        .nstage = 2,
                        .posterior = {.method = method,
                                      .chains = 4,
                                      .warmup = network ? 150 : 250,
                                      .samples = network ? 50 : 300,
                                      .weights = true},
                        .seed = seed,
                        .threads = 1};
    ns_fit* fit = NULL;
    check(ns_fit_create(&spec, &fit, &error), &error);
    bool done = ns_fit_run(fit, NULL, &error) == NS_OK;
    const ns_fit_result* result = done ? ns_fit_get_result(fit) : NULL;
    done = result && result->posterior;
    for (uint32_t k = 0; k < s->n && done; k++) {
        below[k] = share_below(result->posterior, k, truth[k]);
    }
    if (!done)
        fprintf(stderr, "fit %u: %s\n", (unsigned)seed,
                result && result->nnote ? result->notes[result->nnote - 1] : error.message);
    ns_fit_free(fit);
    ns_parameters_free(params);
    ns_dataset_free(data);
    return done;
}

// Fits that are done: a bit for each seed, and how often each interval held the truth.
typedef struct tally {
    uint32_t done, inside[MAX_PARAMETERS];
    bool known[MAX_FITS + 1]; // by seed
} tally;

static void tally_add(tally* t, const setup* s, const double* below) {
    t->done++;
    for (uint32_t k = 0; k < s->n; k++) t->inside[k] += below[k] >= 0.05 && below[k] <= 0.95;
}

// Lines of an earlier run; the last one may be cut off.
static void tally_read(tally* t, const setup* s, const char* path) {
    FILE* file = fopen(path, "r");
    long seed;
    while (file && fscanf(file, "%ld", &seed) == 1) {
        double below[MAX_PARAMETERS];
        uint32_t n = 0;
        while (n < s->n && fscanf(file, "%lf", &below[n]) == 1) n++;
        if (n < s->n || seed < 1 || seed > MAX_FITS || t->known[seed]) break;
        t->known[seed] = true;
        tally_add(t, s, below);
    }
    if (file) fclose(file);
}

static void tally_print(const tally* t, const setup* s, const char* method) {
    double all = 0.0;
    for (uint32_t k = 0; k < s->n; k++) {
        printf("%s %s %s %.1f %%\n", s->p->name, method, s->p->parameters[k].name,
               100.0 * t->inside[k] / t->done);
        all += 100.0 * t->inside[k] / t->done / s->n;
    }
    printf("%s %s all %.1f %% of %u fits\n", s->p->name, method, all, t->done);
}

int main(int argc, char** argv) {
    int method = 0;
    const problem* p = NULL;
    for (size_t k = 0; argc > 1 && k < sizeof problems / sizeof *problems; k++) {
        if (strcmp(argv[1], problems[k].name) == 0) p = &problems[k];
    }
    long fits = argc > 3 ? strtol(argv[3], NULL, 10) : 0;
    if (fits < 1 || fits > MAX_FITS || !p ||
        !ns_choice_find(&ns_posterior_methods, argv[2], &method) || method == 0) {
        fprintf(stderr, "usage: coverage pendulum|arm|ball|network laplace|hmc FITS [FILE]\n");
        return 2;
    }
    setup s = make_setup(p);
    static tally t;
    FILE* file = NULL;
    if (argc > 4) {
        tally_read(&t, &s, argv[4]);
        file = fopen(argv[4], "a");
        if (!file) return perror(argv[4]), 1;
    }

    // The seed of a fit is its number.
    for (long seed = 1; seed <= fits; seed++) {
        double below[MAX_PARAMETERS];
        if (t.known[seed]) continue;
        if (!run_fit(&s, (ns_posterior_method)method, (uint64_t)seed, below)) continue;
        tally_add(&t, &s, below);
        if (!file) continue;
        fprintf(file, "%ld", seed);
        for (uint32_t k = 0; k < s.n; k++) fprintf(file, " %.4f", below[k]);
        fprintf(file, "\n");
        fflush(file);
    }
    if (t.done > 0) tally_print(&t, &s, argv[2]);
    if (file) fclose(file);
    ns_blueprint_free(s.blueprint);
    ns_model_free(s.model);
    return 0;
}
