#include "support/experiment.h"

#include "base/common.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void experiment_write(const char* name, const char* format, ...) {
    FILE* file = fopen(tempdir_path(name), "wb");
    assert_non_null(file);
    va_list arguments;
    va_start(arguments, format);
    assert_true(vfprintf(file, format, arguments) >= 0);
    va_end(arguments);
    assert_int_equal(fclose(file), 0);
}

// ---- motions -----------------------------------------------------------------------------------

motion motion_of(const char* model, double timestep, uint32_t samples) {
    motion m = {.model = model, .options = ns_default_system_options(), .runs = 1};
    m.samples = samples;
    m.options.timestep = timestep;
    return m;
}

// Where each column comes from: a component of the state, or after those an observation.
typedef struct column {
    char name[128];
    uint32_t number;
} column;

static uint32_t list_columns(const motion* m, const ns_system* system, uint32_t nq, uint32_t nv,
                             column* out) {
    ns_system_sizes n = ns_system_get_sizes(system);
    uint32_t count = m->nchannel > 0 ? m->nchannel : nq + nv;
    for (uint32_t k = 0; k < count; k++) {
        column* c = &out[k];
        c->number = UINT32_MAX;
        snprintf(c->name, sizeof c->name, "%s",
                 m->nchannel > 0 ? m->channels[k] : ns_system_state_name(system, k));
        for (uint32_t i = 0; i < n.nx; i++) {
            if (strcmp(ns_system_state_name(system, i), c->name) == 0) c->number = i;
        }
        for (uint32_t i = 0; i < n.ny; i++) {
            if (strcmp(ns_system_observation_name(system, i), c->name) == 0) c->number = n.nx + i;
        }
        if (c->number == UINT32_MAX) fail_msg("%s has no %s", m->model, c->name);
    }
    return count;
}

// Controls change with the samples and are held in between.
static void push(const motion* m, const ns_system_sizes* n, uint32_t run, double period,
                 double* controls) {
    uint32_t substeps = m->substeps > 0 ? m->substeps : 1;
    for (uint32_t step = 0; step < m->samples * substeps; step++) {
        double t = period * (step / substeps);
        for (uint32_t k = 0; k < n->nc; k++) {
            double wave = sin((2.0 + 1.7 * k) * t + run) + 0.5 * cos((5.0 + 2.3 * k) * t);
            controls[(size_t)step * n->nc + k] = m->push * wave;
        }
    }
}

void motion_record(const motion* m, const char* name) {
    ns_error error = {0};
    ns_model* model = NULL;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    must(ns_model_load(m->model, NULL, &model, &error), &error);
    ns_model_sizes sizes = ns_model_get_sizes(model);
    ns_system_options options = m->options;
    const char* observed[64];
    for (uint32_t k = 0; k < m->nchannel; k++) {
        // Neither "q0" nor "qd0".
        if (strchr(m->channels[k], '/')) observed[options.nobserve++] = m->channels[k];
    }
    options.observe = observed;
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_system_sizes n = ns_system_get_sizes(system);
    uint32_t substeps = m->substeps > 0 ? m->substeps : 1, steps = m->samples * substeps;
    ns_workspace_size size = {.batch = 1, .steps = steps, .threads = 1};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    column columns[64];
    uint32_t ncolumn = list_columns(m, system, sizes.nq, sizes.nv, columns);
    double *states = doubles((size_t)(steps + 1) * n.nx), *seen = doubles((size_t)steps * n.ny);
    double *controls = doubles((size_t)steps * n.nc), *x0 = doubles(n.nx);
    double period = n.timestep * substeps;
    ns_rng rng = ns_rng_seed(m->seed);

    FILE* file = fopen(tempdir_path(name), "w");
    assert_non_null(file);
    fprintf(file, "t,traj");
    for (uint32_t k = 0; k < ncolumn; k++) fprintf(file, ",%s", columns[k].name);
    for (uint32_t k = 0; m->push != 0.0 && k < n.nc; k++) {
        fprintf(file, ",%s", ns_system_control_name(system, k));
    }
    fprintf(file, "\n");
    for (uint32_t run = 0; run < m->runs; run++) {
        ns_model_default_q(model, x0);
        if (m->x0) memcpy(x0, m->x0 + (size_t)run * n.nx, n.nx * sizeof *x0);
        push(m, &n, run, period, controls);
        ns_rollout_args args = {.batch = 1,
                                .steps = steps,
                                .x0 = x0,
                                .controls = controls,
                                .states = states,
                                .observations = seen};
        must(ns_rollout(system, work, &args, &error), &error);
        for (uint32_t k = 0; k < m->samples; k++) {
            size_t step = (size_t)k * substeps;
            fprintf(file, "%.17g,%u", period * k, run);
            for (uint32_t c = 0; c < ncolumn; c++) {
                uint32_t i = columns[c].number;
                double value = i < n.nx ? states[step * n.nx + i] : seen[step * n.ny + i - n.nx];
                value += m->sigma * ns_rng_normal(&rng);
                bool there = !(ns_rng_uniform(&rng, 0.0, 1.0) < m->missing);
                fprintf(file, there ? ",%.17g" : ",", value);
            }
            for (uint32_t c = 0; m->push != 0.0 && c < n.nc; c++) {
                fprintf(file, ",%.17g", controls[step * n.nc + c]);
            }
            fprintf(file, "\n");
        }
    }
    fclose(file);
    free(states);
    free(seen);
    free(controls);
    free(x0);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// ---- loading -----------------------------------------------------------------------------------

ns_fit* experiment_load(const char* name, uint32_t threads) {
    ns_fit* fit = NULL;
    ns_error error = {0};
    must(ns_fit_load(tempdir_path(name), threads, &fit, &error), &error);
    return fit;
}

const char* experiment_error(const char* name, ns_status status) {
    static ns_error error;
    ns_fit* fit = NULL;
    error = (ns_error){0};
    ns_status got = ns_fit_load(tempdir_path(name), 1, &fit, &error);
    if (got != status) fail_msg("status %d, not %d: %s", got, status, error.message);
    assert_null(fit);
    assert_int_equal(error.status, status);
    return error.message;
}
