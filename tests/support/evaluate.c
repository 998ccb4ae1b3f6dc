#include "support/evaluate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static double* doubles(size_t count) {
    double* block = calloc(count + 1, sizeof *block);
    if (!block) abort(); // out of memory in a test
    return block;
}

evaluator* evaluator_create_with(const ns_model* model, const ns_system_options* options) {
    evaluator* e = calloc(1, sizeof *e);
    ns_error error = {0};
    if (!e) abort();
    e->model = model;
    e->sizes = ns_model_get_sizes(model);
    if (ns_system_create(model, options, &e->system, &error) != NS_OK) {
        fail_msg("the system is refused: %s", error.message);
    }
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    if (ns_workspace_create(e->system, &size, &e->work, &error) != NS_OK) {
        fail_msg("the workspace is refused: %s", error.message);
    }
    e->n = ns_system_get_sizes(e->system);
    e->q = doubles(e->n.nx);
    e->qd = e->q + e->sizes.nq;
    e->motor = e->qd + e->sizes.nv;
    e->u = doubles(e->n.nc);
    e->tau = e->u + e->sizes.nu;
    e->y = doubles(e->n.ny);
    e->states = doubles(2 * (size_t)e->n.nx);
    e->next = e->states + e->n.nx;
    ns_model_default_q(model, e->q);
    return e;
}

evaluator* evaluator_create(const ns_model* model, const char* const* observe) {
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.integrator = NS_INTEGRATOR_EXPLICIT; // the equations of motion, not those of a step
    while (observe[options.nobserve]) options.nobserve++;
    return evaluator_create_with(model, &options);
}

void evaluator_free(evaluator* e) {
    if (!e) return;
    ns_workspace_free(e->work);
    ns_system_free(e->system);
    free(e->q);
    free(e->u);
    free(e->y);
    free(e->states);
    free(e);
}

void evaluator_run(evaluator* e) {
    ns_error error = {0};
    ns_rollout_args args = {.batch = 1,
                            .steps = 1,
                            .x0 = e->q,
                            .controls = e->u,
                            .states = e->states,
                            .observations = e->y};
    if (ns_rollout(e->system, e->work, &args, &error) != NS_OK) {
        fail_msg("the step fails: %s", error.message);
    }
}

const double* evaluator_get(const evaluator* e, const char* format, ...) {
    char name[256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    for (uint32_t i = 0; i < e->n.ny; i++) {
        if (strcmp(ns_system_observation_name(e->system, i), name) == 0) return e->y + i;
    }
    fail_msg("\"%s\" is not observed", name);
    return NULL;
}

double* observe_rollout(const ns_model* model, const ns_system_options* options, const double* x0,
                        uint32_t steps, uint32_t* ny) {
    ns_error error = {0};
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_workspace_size size = {.batch = 1, .steps = steps, .threads = 1};
    if (ns_system_create(model, options, &system, &error) != NS_OK ||
        ns_workspace_create(system, &size, &work, &error) != NS_OK) {
        fail_msg("the system is refused: %s", error.message);
    }
    *ny = ns_system_get_sizes(system).ny;
    double* y = doubles((size_t)steps * *ny);
    ns_rollout_args args = {.batch = 1, .steps = steps, .x0 = x0, .observations = y};
    if (ns_rollout(system, work, &args, &error) != NS_OK) {
        fail_msg("the rollout fails: %s", error.message);
    }
    ns_workspace_free(work);
    ns_system_free(system);
    return y;
}
