// What the trials share (rig.h).

#define _POSIX_C_SOURCE 200809L

#include "contact/rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint32_t misses;

_Noreturn void trial_die(const char* what, const char* detail) {
    fprintf(stderr, "contact_trials: %s: %s\n", what, detail);
    exit(EXIT_FAILURE);
}

void* trial_alloc(size_t count, size_t size) {
    void* memory = calloc(count + 1, size);
    if (!memory) trial_die("memory", "there is not enough");
    return memory;
}

void trial_row(const char* what, const char* requested, const char* measured, bool ok) {
    printf("| %s | %s | %s%s |\n", what, requested, measured, ok ? "" : " **missed**");
    fflush(stdout);
    misses += !ok;
}

void trial_note(const char* what, const char* measured) {
    printf("| %s | | %s |\n", what, measured);
    fflush(stdout);
}

uint32_t trial_misses(void) {
    return misses;
}

double trial_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// ---- rollouts --------------------------------------------------------------------------------

ns_model* rig_load(const char* path, const char* text, bool ground) {
    ns_load_options load = ns_default_load_options();
    ns_model* model = NULL;
    ns_error error;
    load.ground = ground;
    ns_status status = path ? ns_model_load(path, &load, &model, &error)
                            : ns_model_parse(text, strlen(text), "scene", &load, &model, &error);
    if (status != NS_OK) trial_die("model", error.message);
    return model;
}

rig rig_create(ns_model* model, const ns_system_options* options, uint32_t batch, uint32_t steps) {
    rig r = {.model = model, .nq = ns_model_get_sizes(model).nq, .batch = batch, .steps = steps};
    ns_error error;
    if (ns_system_create(model, options, &r.system, &error) != NS_OK) {
        trial_die("system", error.message);
    }
    r.n = ns_system_get_sizes(r.system);
    ns_workspace_size size = {.batch = batch, .steps = steps, .threads = 1};
    if (ns_workspace_create(r.system, &size, &r.work, &error) != NS_OK) {
        trial_die("workspace", error.message);
    }
    r.x0 = trial_alloc(r.n.nx, sizeof *r.x0);
    r.controls = trial_alloc((size_t)steps * r.n.nc, sizeof *r.controls);
    r.params = trial_alloc(r.n.np, sizeof *r.params);
    r.states = trial_alloc((size_t)batch * (steps + 1) * r.n.nx, sizeof *r.states);
    r.observations = trial_alloc((size_t)batch * steps * r.n.ny, sizeof *r.observations);
    ns_model_default_q(model, r.x0);
    ns_system_default_params(r.system, r.params);
    return r;
}

void rig_free(rig* r) {
    ns_workspace_free(r->work);
    ns_system_free(r->system);
    ns_model_free(r->model);
    free(r->x0), free(r->controls), free(r->params), free(r->states), free(r->observations);
}

void rig_set(rig* r, const char* glob, double value) {
    bool any = false;
    for (uint32_t k = 0; k < r->n.np; k++) {
        if (!ns_glob_match(glob, ns_system_param_name(r->system, k))) continue;
        r->params[k] = value;
        any = true;
    }
    if (!any) trial_die("no parameter matches", glob);
}

static ns_rollout_args rig_args(const rig* r, uint32_t steps) {
    return (ns_rollout_args){.batch = 1,
                             .steps = steps,
                             .x0 = r->x0,
                             .controls = r->controls,
                             .params = r->params,
                             .states = r->states};
}

bool rig_run(rig* r, uint32_t steps) {
    ns_rollout_args args = rig_args(r, steps);
    args.observations = r->n.ny > 0 ? r->observations : NULL;
    args.contact = &r->contact;
    return ns_rollout(r->system, r->work, &args, NULL) == NS_OK;
}

const double* rig_state(const rig* r, uint32_t step) {
    return r->states + (size_t)step * r->n.nx;
}

double rig_time_step(rig* r, int repeats) {
    double least = INFINITY;
    for (int repeat = 0; repeat < repeats; repeat++) {
        double before = trial_clock();
        if (!rig_run(r, 1)) trial_die("step", "the motion is not finite");
        least = fmin(least, trial_clock() - before);
    }
    memcpy(r->x0, rig_state(r, 1), r->n.nx * sizeof *r->x0);
    return least;
}

static int compare_times(const void* a, const void* b) {
    float x = *(const float*)a, y = *(const float*)b;
    return (x > y) - (x < y);
}

void rig_report_times(const trial_options* options, const char* what, float* times, size_t count) {
    char text[200];
    qsort(times, count, sizeof *times, compare_times);
    double median = times[count / 2], worst = times[count - 1];
    snprintf(text, sizeof text, "%.1fx (median %.1f us, 99.9 %% %.1f us, worst %.1f us)",
             worst / median, 1e6 * median, 1e6 * times[count - 1 - count / 1000], 1e6 * worst);
    trial_row(what, "< 10x", text, options->quick || worst < 10.0 * median);
}

// ---- derivatives -----------------------------------------------------------------------------

enum { SIZES = 3, LANES_PER_INPUT = 2 * SIZES };
static const double change[SIZES] = {1e-5, 1e-6, 1e-7};

static double weighted_sum(const rig* r, const double* weights, const double* state) {
    double sum = 0.0;
    for (uint32_t i = 0; i < r->n.nx; i++) sum += weights[i] * state[i];
    return sum;
}

// Gradient for x0, followed by that for control 0 of all steps together.
static void exact_gradient(rig* r, uint32_t steps, const double* weights, double* gradient) {
    ns_rollout_args args = rig_args(r, steps);
    ns_error error;
    double* seeds = trial_alloc((size_t)(steps + 1) * r->n.nx, sizeof *seeds);
    double* dcontrols = trial_alloc((size_t)steps * r->n.nc, sizeof *dcontrols);
    memcpy(seeds + (size_t)steps * r->n.nx, weights, r->n.nx * sizeof *seeds);
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = gradient, .dcontrols = dcontrols};
    if (ns_rollout_vjp(r->system, r->work, &args, &adjoint, &error) != NS_OK) {
        trial_die("gradient", error.message);
    }
    gradient[r->n.nx] = 0.0;
    for (uint32_t k = 0; k < steps; k++) gradient[r->n.nx] += dcontrols[(size_t)k * r->n.nc];
    free(seeds), free(dcontrols);
}

// The function at all changed inputs: for each input SIZES changes to one side, then to the other.
static void changed_values(rig* r, uint32_t steps, const double* weights, uint32_t inputs,
                           double* values) {
    uint32_t nx = r->n.nx, nc = r->n.nc, lanes = inputs * LANES_PER_INPUT;
    double* x0 = trial_alloc((size_t)lanes * nx, sizeof *x0);
    double* controls = trial_alloc((size_t)lanes * steps * nc, sizeof *controls);
    for (uint32_t lane = 0; lane < lanes; lane++) {
        uint32_t input = lane / LANES_PER_INPUT, size = lane % SIZES;
        double by = lane % LANES_PER_INPUT < SIZES ? change[size] : -change[size];
        double* own = controls + (size_t)lane * steps * nc;
        memcpy(x0 + (size_t)lane * nx, r->x0, nx * sizeof *x0);
        memcpy(own, r->controls, (size_t)steps * nc * sizeof *own);
        if (input < nx) x0[(size_t)lane * nx + input] += by;
        for (uint32_t k = 0; k < steps && input == nx; k++) own[(size_t)k * nc] += by;
    }

    ns_rollout_args args = rig_args(r, steps);
    ns_error error;
    args.batch = lanes;
    args.x0 = x0;
    args.controls = controls;
    if (ns_rollout(r->system, r->work, &args, &error) != NS_OK) {
        trial_die("differences", error.message);
    }
    for (uint32_t lane = 0; lane < lanes; lane++) {
        const double* end = r->states + ((size_t)lane * (steps + 1) + steps) * nx;
        values[lane] = weighted_sum(r, weights, end);
    }
    free(x0), free(controls);
}

void rig_check_gradient(rig* r, uint32_t steps, const double* weights, bool has_control,
                        gradient_count* count) {
    const double tolerance = 2e-3, negligible = 1e-5; // relative; of the largest derivative
    uint32_t inputs = r->n.nx + (has_control ? 1 : 0);
    if (r->batch < inputs * LANES_PER_INPUT) trial_die("gradient", "there are too few lanes");
    double* gradient = trial_alloc(r->n.nx + 1, sizeof *gradient);
    double* values = trial_alloc((size_t)inputs * LANES_PER_INPUT, sizeof *values);
    exact_gradient(r, steps, weights, gradient);
    if (!rig_run(r, steps)) trial_die("gradient", "the motion is not finite");
    double middle = weighted_sum(r, weights, rig_state(r, steps)), largest = 0.0;
    changed_values(r, steps, weights, inputs, values);

    for (uint32_t i = 0; i < inputs; i++) largest = fmax(largest, fabs(gradient[i]));
    for (uint32_t i = 0; i < inputs; i++) {
        // One-sided differences: from the least to the largest of six.
        double low = INFINITY, high = -INFINITY;
        for (uint32_t k = 0; k < LANES_PER_INPUT; k++) {
            double by = k < SIZES ? change[k] : -change[k - SIZES];
            double slope = (values[i * LANES_PER_INPUT + k] - middle) / by;
            low = fmin(low, slope);
            high = fmax(high, slope);
        }
        double mean = 0.5 * (low + high), size = fmax(fabs(mean), negligible * largest);
        double error = fmax(gradient[i] - high, low - gradient[i]);
        count->inputs++;
        if (!(high - low <= tolerance * size)) continue;
        count->clean++;
        count->wrong += !(error <= tolerance * size);
        count->worst = fmax(count->worst, error / size);
    }
    free(gradient), free(values);
}
