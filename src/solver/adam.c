// Adam: Kingma & Ba, "Adam: a method for stochastic optimization", ICLR 2015, algorithm 1, with a
// rate that falls along half a cosine (Loshchilov & Hutter 2017, without restarts). Where there is no
// cost, the last step is taken back and the momentum lost.

#include "solver/solvers.h"

#include <math.h>

typedef struct adam_state {
    const ns_allocator* allocator;
    const ns_solver_problem* problem;
    uint32_t n, max_iterations;
    double rate, final_rate, beta1, beta2, epsilon, clip_norm;
    uint32_t iteration;
    double *m, *v; // (n) moments
    double* gradient;
} adam_state;

static ns_status adam_check(const adam_state* s, ns_error* error) {
    const char* wrong = NULL;
    if (!(s->rate > 0.0 && isfinite(s->rate))) wrong = "learning_rate must be positive";
    if (!isfinite(s->final_rate)) wrong = "final_learning_rate must be finite";
    if (!(s->beta1 >= 0.0 && s->beta1 < 1.0)) wrong = "beta1 must be less than 1";
    if (!(s->beta2 >= 0.0 && s->beta2 < 1.0)) wrong = "beta2 must be less than 1";
    if (!(s->epsilon > 0.0)) wrong = "epsilon must be positive";
    if (!(s->clip_norm >= 0.0)) wrong = "clip_norm must not be negative";
    return wrong ? nsi_fail(error, NS_ERR_ARGUMENT, "adam: %s", wrong) : NS_OK;
}

static double adam_rate(const adam_state* s) {
    const double pi = 3.14159265358979323846;
    double share = (double)(s->iteration - 1) / (double)s->max_iterations;
    return s->final_rate + 0.5 * (s->rate - s->final_rate) * (1.0 + cos(pi * share));
}

// x -= sign * the step that belongs to the state. All of it follows from the state, so that a step
// can be taken back after the run was stored and continued.
static void adam_move(const adam_state* s, double* x, double sign) {
    if (s->iteration == 0) return;
    double t = (double)s->iteration;
    double rate = sign * adam_rate(s) / (1.0 - pow(s->beta1, t));
    double scale = 1.0 / sqrt(1.0 - pow(s->beta2, t));
    for (uint32_t i = 0; i < s->n; i++) {
        x[i] -= rate * s->m[i] / (scale * sqrt(s->v[i]) + s->epsilon);
    }
}

static void adam_update_moments(adam_state* s, double norm) {
    double shrink = s->clip_norm > 0.0 && norm > s->clip_norm ? s->clip_norm / norm : 1.0;
    for (uint32_t i = 0; i < s->n; i++) {
        double gi = shrink * s->gradient[i];
        s->m[i] = s->beta1 * s->m[i] + (1.0 - s->beta1) * gi;
        s->v[i] = s->beta2 * s->v[i] + (1.0 - s->beta2) * gi * gi;
    }
}

static ns_status adam_step(void* state, double* x, uint32_t iterations, ns_solver_result* out,
                           ns_error* error) {
    (void)error;
    adam_state* s = state;
    const ns_solver_problem* p = s->problem;
    // Without an iteration there is no value.
    *out = (ns_solver_result){.finish = NS_FINISH_LIMIT, .value = INFINITY};
    while (out->iterations < iterations && s->iteration < s->max_iterations) {
        // Evaluate cost and gradient. Both must be finite.
        double value = p->cost(p->context, x, s->gradient);
        out->evaluations++;
        double square = isfinite(value) ? 0.0 : (double)INFINITY;
        for (uint32_t i = 0; isfinite(value) && i < s->n; i++) {
            square += s->gradient[i] * s->gradient[i];
        }
        // The norm is also reported and used for clipping.
        double norm = sqrt(square);
        bool good = isfinite(square);

        // A bad starting point is an error: there is no step to take back.
        if (!good && s->iteration == 0) {
            out->finish = NS_FINISH_FAILED;
            return NS_OK;
        }

        // Regular iteration: update the moments, then step along their ratio.
        if (good) {
            adam_update_moments(s, norm);
            s->iteration++;
            adam_move(s, x, 1.0);
            // The reported value is that before the step, which is not evaluated yet.
            out->value = value;
        } else {
            // Diverged: undo the last step and reset the momentum, which makes the next steps
            // shorter.
            adam_move(s, x, -1.0);
            memset(s->m, 0, s->n * sizeof *s->m);
            // A failed step counts, so that the learning rate keeps decaying.
            s->iteration++;
        }

        // Report progress; the observer may stop the run.
        out->iterations++;
        ns_solver_progress progress = {.iteration = s->iteration,
                                       .value = good ? value : (double)INFINITY,
                                       .gradient_norm = good ? norm : (double)NAN,
                                       .x = x};
        if (p->observe && p->observe(p->context, &progress)) {
            out->finish = NS_FINISH_STOPPED;
            return NS_OK;
        }
    }
    return NS_OK;
}

// ---- the record --------------------------------------------------------------------------------

static ns_status adam_create(const ns_solver_problem* problem, const ns_solver_options* o,
                             void** state, ns_error* error) {
    // Apply defaults (Kingma & Ba 2015) to options that are not set.
    adam_state s = {.allocator = o->allocator,
                    .problem = problem,
                    .n = problem->n,
                    .max_iterations = o->max_iterations,
                    .rate = o->learning_rate == 0.0 ? 1e-3 : o->learning_rate,
                    .beta1 = nsi_option(o->beta1, 0.9),
                    .beta2 = nsi_option(o->beta2, 0.999),
                    .epsilon = o->epsilon == 0.0 ? 1e-8 : o->epsilon,
                    .clip_norm = o->clip_norm};

    // The learning rate decays to 1 % by default.
    s.final_rate = nsi_option(o->final_learning_rate, 0.01 * s.rate);
    // Validate after defaults, so that combinations are checked, too.
    ns_status status = adam_check(&s, error);
    if (status != NS_OK) return status;

    // Allocate moments and gradient in one block.
    adam_state* kept = nsi_alloc(o->allocator, sizeof *kept);
    double* memory = nsi_alloc_zeroed(o->allocator, 3 * (size_t)s.n * sizeof *memory);
    if (!kept || !memory) {
        nsi_free(o->allocator, kept);
        nsi_free(o->allocator, memory);
        return nsi_fail_nomem(error);
    }

    // Copy the options into the state, which outlives this call.
    s.m = memory;
    s.v = s.m + s.n;
    s.gradient = s.v + s.n;
    *kept = s;
    *state = kept;
    return NS_OK;
}

// The iteration, then both moments.
static uint32_t adam_state_size(const void* state) {
    return 2 * ((const adam_state*)state)->n + 1;
}

static void adam_save(const void* state, double* numbers) {
    const adam_state* s = state;
    numbers[0] = s->iteration;
    memcpy(numbers + 1, s->m, 2 * (size_t)s->n * sizeof *numbers);
}

static void adam_load(void* state, const double* numbers) {
    adam_state* s = state;
    s->iteration = nsi_saved_count(numbers[0]);
    memcpy(s->m, numbers + 1, 2 * (size_t)s->n * sizeof *numbers);
}

static void adam_free(void* state) {
    adam_state* s = state;
    if (!s) return;
    nsi_free(s->allocator, s->m);
    nsi_free(s->allocator, s);
}

const ns_solver nsi_solver_adam = {
    .name = "adam",
    .title = "Adam",
    .help = "Adam, for a cost of other data in each iteration",
    .capabilities = NS_SOLVER_GRADIENT | NS_SOLVER_STOCHASTIC,
    .round = 1,
    .max_iterations = 1000,
    .create = adam_create,
    .step = adam_step,
    .state_size = adam_state_size,
    .save = adam_save,
    .load = adam_load,
    .free = adam_free,
};
