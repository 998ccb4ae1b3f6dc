// Adam: Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1, with a
// rate that falls along half a cosine (Loshchilov & Hutter 2017, without restarts).

#include "solver/solvers.h"

#include <math.h>

nsi_adam_options nsi_default_adam_options(void) {
    return (nsi_adam_options){.rate = 1e-3,
                              .final_rate = -1.0,
                              .beta1 = 0.9,
                              .beta2 = 0.999,
                              .epsilon = 1e-8,
                              .max_iterations = 1000};
}

static ns_status check_options(const nsi_adam_options* o, ns_error* error) {
    const char* wrong = NULL;
    if (!(o->rate > 0.0 && isfinite(o->rate))) wrong = "rate must be positive";
    if (!isfinite(o->final_rate)) wrong = "final_rate must be finite";
    if (!(o->beta1 >= 0.0 && o->beta1 < 1.0)) wrong = "beta1 must be at least 0 and less than 1";
    if (!(o->beta2 >= 0.0 && o->beta2 < 1.0)) wrong = "beta2 must be at least 0 and less than 1";
    if (!(o->epsilon > 0.0)) wrong = "epsilon must be positive";
    if (!(o->clip >= 0.0)) wrong = "clip must not be negative";
    return wrong ? nsi_fail(error, NS_ERR_ARGUMENT, "adam: %s", wrong) : NS_OK;
}

static double rate_at(const nsi_adam_options* o, uint32_t iteration) {
    const double pi = 3.14159265358979323846;
    double last = o->final_rate < 0.0 ? 0.01 * o->rate : o->final_rate;
    double share = (double)(iteration - 1) / (double)o->max_iterations;
    return last + 0.5 * (o->rate - last) * (1.0 + cos(pi * share));
}

// x -= sign * the step that belongs to the state. All of it follows from the state, so that a step
// can be taken back after the run was stored and continued.
static void move(uint32_t n, double* x, const nsi_adam_state* state, const nsi_adam_options* o,
                 double sign) {
    if (state->iteration == 0) return;
    double t = (double)state->iteration;
    double rate = sign * rate_at(o, state->iteration) / (1.0 - pow(o->beta1, t));
    double scale = 1.0 / sqrt(1.0 - pow(o->beta2, t));
    for (uint32_t i = 0; i < n; i++) {
        x[i] -= rate * state->m[i] / (scale * sqrt(state->v[i]) + o->epsilon);
    }
}

ns_status nsi_adam(uint32_t n, double* x, nsi_adam_state* state, nsi_cost_function* objective,
                   nsi_observer* observe, void* context, const nsi_adam_options* options,
                   nsi_outcome* out, ns_error* error) {
    nsi_adam_options o = options ? *options : nsi_default_adam_options();
    *out = (nsi_outcome){.finish = NSI_FINISH_ITERATIONS, .value = INFINITY};
    ns_status status = check_options(&o, error);
    if (status != NS_OK) return status;
    double* g = nsi_alloc(NULL, n * sizeof *g);
    if (!g) return nsi_fail_nomem(error);

    while (state->iteration < o.max_iterations) {
        double value = objective(context, x, g);
        out->evaluations++;
        double square = isfinite(value) ? 0.0 : (double)INFINITY;
        if (isfinite(value)) {
            for (uint32_t i = 0; i < n; i++) square += g[i] * g[i];
        }
        double norm = sqrt(square);
        bool good = isfinite(square);
        if (!good && state->iteration == 0) {
            out->finish = NSI_FINISH_FAILED;
            break;
        }
        if (good) {
            double shrink = o.clip > 0.0 && norm > o.clip ? o.clip / norm : 1.0;
            for (uint32_t i = 0; i < n; i++) {
                double gi = shrink * g[i];
                state->m[i] = o.beta1 * state->m[i] + (1.0 - o.beta1) * gi;
                state->v[i] = o.beta2 * state->v[i] + (1.0 - o.beta2) * gi * gi;
            }
            state->iteration++;
            move(n, x, state, &o, 1.0);
            out->value = value;
        } else {
            // Take the last step back and lose the momentum: the next steps are shorter.
            move(n, x, state, &o, -1.0);
            memset(state->m, 0, n * sizeof *state->m);
            state->iteration++;
        }
        out->iterations++;
        nsi_progress progress = {.iteration = state->iteration,
                                 .value = good ? value : (double)INFINITY,
                                 .gradient_norm = good ? norm : (double)NAN,
                                 .x = x};
        if (observe && observe(context, &progress)) {
            out->finish = NSI_FINISH_STOPPED;
            break;
        }
    }
    nsi_free(NULL, g);
    return NS_OK;
}
