#include "support/trial.h"

#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

trial trial_of_model(ns_model* model, const ns_system_options* options, uint32_t steps) {
    trial t = {.model = model, .steps = steps};
    ns_error error = {0};
    must(ns_system_create(model, options, &t.system, &error), &error);
    t.n = ns_system_get_sizes(t.system);
    t.nq = ns_model_get_sizes(model).nq;
    ns_workspace_size size = {.batch = t.n.nx, .steps = steps};
    must(ns_workspace_create(t.system, &size, &t.work, &error), &error);
    t.x0 = doubles(t.n.nx);
    t.params = doubles(t.n.np);
    t.states = doubles((size_t)t.n.nx * (steps + 1));
    t.observations = doubles((size_t)t.n.ny * steps);
    ns_model_default_q(model, t.x0);
    ns_system_default_params(t.system, t.params);
    return t;
}

trial trial_make(const char* text, const ns_system_options* options, uint32_t steps) {
    return trial_of_model(modelfile_parse(text), options, steps);
}

void trial_free(trial* t) {
    ns_workspace_free(t->work);
    ns_system_free(t->system);
    ns_model_free(t->model);
    free(t->x0);
    free(t->params);
    free(t->states);
    free(t->observations);
}

void trial_set(trial* t, const char* glob, double value) {
    bool found = false;
    for (uint32_t k = 0; k < t->n.np; k++) {
        if (!ns_glob_match(glob, ns_system_param_name(t->system, k))) continue;
        t->params[k] = value;
        found = true;
    }
    if (!found) fail_msg("no free parameter fits %s", glob);
}

double* trial_param(trial* t, const char* name) {
    for (uint32_t k = 0; k < t->n.np; k++) {
        if (ns_glob_match(name, ns_system_param_name(t->system, k))) return &t->params[k];
    }
    fail_msg("no free parameter is called %s", name);
    return NULL;
}

static ns_rollout_args arguments(trial* t) {
    return (ns_rollout_args){.batch = 1,
                             .steps = t->steps,
                             .x0 = t->x0,
                             .controls = t->controls,
                             .params = t->params,
                             .states = t->states,
                             .observations = t->observations,
                             .contact = &t->contact};
}

void trial_run(trial* t) {
    ns_rollout_args args = arguments(t);
    ns_error error = {0};
    must(ns_rollout(t->system, t->work, &args, &error), &error);
    if (t->contact.unsolved > 0) {
        fail_msg("%u steps unsolved, the worst, %u, by %g", t->contact.unsolved, t->contact.step,
                 t->contact.residual);
    }
}

const double* trial_state(const trial* t, uint32_t step) {
    return t->states + (size_t)step * t->n.nx;
}
const double* trial_end(const trial* t) {
    return trial_state(t, t->steps);
}

void trial_gradient(trial* t, uint32_t k, double* dx0, double* dparams) {
    uint32_t nx = t->n.nx, np = t->n.np;
    size_t last = (size_t)t->steps * nx;
    double *seeds = doubles(last + nx), *dstates = doubles(last + nx);
    double *dx = doubles(nx), *dp = doubles(np);
    double *direction = doubles(nx), *pdirection = doubles(np);
    ns_error error = {0};
    ns_rollout_args args = arguments(t);
    seeds[last + k] = 1.0;
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx, .dparams = dp};
    must(ns_rollout_vjp(t->system, t->work, &args, &adjoint, &error), &error);

    // The other mode along a direction without structure.
    double reverse = 0.0, size = 0.0;
    for (uint32_t i = 0; i < nx + np; i++) {
        double part = cos(1.0 + 2.3 * i);
        *(i < nx ? &direction[i] : &pdirection[i - nx]) = part;
        double term = part * (i < nx ? dx[i] : dp[i - nx]);
        reverse += term;
        size += fabs(term);
    }
    ns_rollout_tangent tangent = {.dx0 = direction, .dparams = pdirection, .dstates = dstates};
    must(ns_rollout_jvp(t->system, t->work, &args, &tangent, &error), &error);
    if (!(fabs(dstates[last + k] - reverse) <= 1e-9 * (size + fabs(reverse)) + 1e-12)) {
        fail_msg("forward mode %.15g, reverse mode %.15g", dstates[last + k], reverse);
    }
    if (dx0) memcpy(dx0, dx, nx * sizeof *dx);
    if (dparams) memcpy(dparams, dp, np * sizeof *dp);
    free(seeds), free(dstates), free(dx), free(dp), free(direction), free(pdirection);
}

void trial_jacobian(trial* t, double* d) {
    uint32_t nx = t->n.nx;
    size_t row = (size_t)(t->steps + 1) * nx;
    double *x0 = doubles((size_t)nx * nx), *dx0 = doubles((size_t)nx * nx);
    double* dstates = doubles(nx * row);
    for (uint32_t k = 0; k < nx; k++) {
        memcpy(x0 + (size_t)k * nx, t->x0, nx * sizeof *x0);
        dx0[(size_t)k * nx + k] = 1.0;
    }
    ns_error error = {0};
    ns_rollout_args args = {.batch = nx, .steps = t->steps, .x0 = x0, .params = t->params};
    ns_rollout_tangent tangent = {.dx0 = dx0, .dstates = dstates};
    must(ns_rollout_jvp(t->system, t->work, &args, &tangent, &error), &error);
    for (uint32_t k = 0; k < nx; k++) {
        for (uint32_t i = 0; i < nx; i++) {
            d[(size_t)i * nx + k] = dstates[k * row + (size_t)t->steps * nx + i];
        }
    }
    free(x0), free(dx0), free(dstates);
}
