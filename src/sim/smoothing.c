// Smoothed gradients by antithetic samples, first and zeroth order, mixed by variance.
//
// For each input i and each pair of samples x + sigma e, x - sigma e:
//
//     a = (f'_i(x + sigma e) + f'_i(x - sigma e)) / 2       first order
//     b = (f(x + sigma e) - f(x - sigma e)) e_i / (2 sigma_i)   zeroth order
//
// Both have the mean dF/dx_i, F(x) = E f(x + sigma e): the first where f is continuous, the second always
// (Stein's identity). From means, variances v_a, v_b and the covariance c of the means over all pairs,
//
//     alpha = (v_b - c) / (v_a + v_b - 2 c), within 0..1         least variance of the mix
//     alpha <= z sqrt(v_b) / |a - b|                             bias within the noise of zeroth order
//
// The first is Suh et al. (2022), lemma 4.3, with the covariance, since both use the same samples. The
// second is their constraint eps + alpha B <= gamma with B = |a - b|, the radius eps = z sqrt(v_b) in which
// the truth is for certain, and gamma = 2 eps: whatever the first-order estimate is off by, the mix is not
// off by more than eps, and both vanish as the number of samples grows.

#include "neuralsim/smoothing.h"

#include "sim/system.h"

enum { DEFAULT_BATCH = 32 };

// Means over pairs and sums of products of deviations from them (Welford 1962).
typedef struct pair_sums {
    double first, zeroth;
    double first_square, zeroth_square, product;
    bool first_lost; // a gradient was not finite
} pair_sums;

struct ns_smoother {
    ns_allocator allocator;
    const ns_system* system;
    uint32_t steps, batch;
    ns_workspace* work;
    nsi_arena arena;
    double *x0, *controls, *params;        // (batch x ..) inputs of the samples
    double *states, *observations;         // (batch x ..) what became of them
    double *dstates, *dobservations;       // seeds
    double *dx0, *dcontrols, *dparams;     // gradients
    double* cost;                          // (batch)
    double* noise;                         // (batch / 2 x inputs)
    pair_sums* sums;                       // (inputs)
    ns_gradient_certificate* certificates; // (batch)
};

// One call: the inputs in a row are the state, the controls and the parameters.
typedef struct smoothing_run {
    ns_smoother* s;
    const ns_rollout_args* args;
    ns_smoothing options;
    ns_trajectory_cost* cost;
    void* context;
    uint32_t nx, nc, np;
    size_t ncontrol; // numbers: steps x nc, or nc when they are held
    size_t ninput;
    uint32_t npair;
    double value, value_square; // mean of the cost over pairs, squares of deviations
} smoothing_run;

// ---- memory ------------------------------------------------------------------------------------

static double* smoother_numbers(ns_smoother* s, size_t rows, size_t count) {
    return nsi_arena_alloc(&s->arena, (rows * count + 1) * sizeof(double));
}

static bool allocate_smoother(ns_smoother* s) {
    const ns_system_sizes* z = &s->system->sizes;
    size_t batch = s->batch, steps = s->steps;
    size_t inputs = z->nx + steps * z->nc + z->np;
    s->x0 = smoother_numbers(s, batch, z->nx);
    s->controls = smoother_numbers(s, batch, steps * z->nc);
    s->params = smoother_numbers(s, batch, z->np);
    s->states = smoother_numbers(s, batch, (steps + 1) * z->nx);
    s->observations = smoother_numbers(s, batch, steps * z->ny);
    s->dstates = smoother_numbers(s, batch, (steps + 1) * z->nx);
    s->dobservations = smoother_numbers(s, batch, steps * z->ny);
    s->dx0 = smoother_numbers(s, batch, z->nx);
    s->dcontrols = smoother_numbers(s, batch, steps * z->nc);
    s->dparams = smoother_numbers(s, batch, z->np);
    s->cost = smoother_numbers(s, batch, 1);
    s->noise = smoother_numbers(s, batch / 2, inputs);
    s->sums = nsi_arena_alloc(&s->arena, (inputs + 1) * sizeof *s->sums);
    s->certificates = nsi_arena_alloc(&s->arena, batch * sizeof *s->certificates);
    return s->x0 && s->controls && s->params && s->states && s->observations && s->dstates &&
           s->dobservations && s->dx0 && s->dcontrols && s->dparams && s->cost && s->noise &&
           s->sums && s->certificates;
}

ns_status ns_smoother_create(const ns_system* system, const ns_smoother_size* size,
                             ns_smoother** out, ns_error* error) {
    *out = NULL;
    if (!system || !size || size->steps == 0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "a smoother needs a system and at least one step");
    }
    ns_smoother* s = nsi_alloc_zeroed(&system->allocator, sizeof *s);
    if (!s) return nsi_fail_nomem(error);
    s->allocator = s->arena.allocator = system->allocator;
    s->system = system;
    s->steps = size->steps;
    s->batch = size->batch > 0 ? size->batch : DEFAULT_BATCH;
    s->batch += s->batch % 2; // whole pairs

    ns_workspace_size work = {.batch = s->batch, .steps = size->steps, .threads = size->threads};
    ns_status status = ns_workspace_create(system, &work, &s->work, error);
    if (status == NS_OK && !allocate_smoother(s)) status = nsi_fail_nomem(error);
    if (status != NS_OK) {
        ns_smoother_free(s);
        return status;
    }
    *out = s;
    return NS_OK;
}

void ns_smoother_free(ns_smoother* s) {
    if (!s) return;
    ns_allocator memory = s->allocator;
    ns_workspace_free(s->work);
    nsi_arena_free(&s->arena);
    nsi_free(&memory, s);
}

ns_smoothing ns_default_smoothing(void) {
    return (ns_smoothing){.samples = 64, .seed = 1, .confidence = 3.0};
}

// ---- samples -----------------------------------------------------------------------------------

// Standard deviation of an input; 0: it is not random.
static double input_sigma(const smoothing_run* r, size_t input) {
    const ns_smoothing* o = &r->options;
    if (input < r->nx) return o->x0_sigma ? o->x0_sigma[input] : 0.0;
    input -= r->nx;
    if (input < r->ncontrol) return o->control_sigma ? o->control_sigma[input % r->nc] : 0.0;
    return o->param_sigma ? o->param_sigma[input - r->ncontrol] : 0.0;
}

// Each pair has random numbers of its own, whatever the batches are.
static void draw_noise(const smoothing_run* r, uint32_t pair, double* noise) {
    ns_rng mixer = ns_rng_seed(r->options.seed);
    ns_rng rng = ns_rng_seed(ns_rng_next(&mixer) + pair);
    for (size_t i = 0; i < r->ninput; i++) {
        noise[i] = input_sigma(r, i) > 0.0 ? ns_rng_normal(&rng) : 0.0;
    }
}

// The inputs of sample n of a batch: the point plus `sign` times the noise.
static void place_sample(const smoothing_run* r, size_t n, const double* noise, double sign) {
    ns_smoother* s = r->s;
    const ns_rollout_args* a = r->args;
    size_t steps = a->steps, nc = r->nc, control = r->nx, param = r->nx + r->ncontrol;
    for (size_t k = 0; k < r->nx; k++) {
        s->x0[n * r->nx + k] = a->x0[k] + sign * input_sigma(r, k) * noise[k];
    }
    for (size_t k = 0; k < steps * nc; k++) {
        size_t input = control + (r->options.hold_controls ? k % nc : k);
        double value = a->controls ? a->controls[k] : 0.0;
        s->controls[n * steps * nc + k] = value + sign * input_sigma(r, input) * noise[input];
    }
    for (size_t k = 0; k < r->np; k++) {
        const ns_system* system = s->system;
        double value = a->params ? a->params[k] : system->params[system->free_param[k]];
        s->params[n * r->np + k] = value + sign * input_sigma(r, param + k) * noise[param + k];
    }
}

// Roll out `count` samples, get their costs and gradients.
static ns_status run_samples(const smoothing_run* r, uint32_t count, ns_error* error) {
    ns_smoother* s = r->s;
    const ns_system_sizes* z = &s->system->sizes;
    size_t steps = r->args->steps, nstate = (steps + 1) * z->nx, nobserved = steps * z->ny;
    ns_rollout_args args = {.batch = count,
                            .steps = r->args->steps,
                            .x0 = s->x0,
                            .controls = s->controls,
                            .params = r->np > 0 ? s->params : NULL,
                            .per_robot_params = r->np > 0,
                            .weights = r->args->weights,
                            .states = s->states,
                            .observations = s->observations};
    ns_status status = ns_rollout(s->system, s->work, &args, error);
    if (status != NS_OK) return status;

    // Costs and their derivatives
    memset(s->dstates, 0, count * nstate * sizeof(double));
    memset(s->dobservations, 0, count * nobserved * sizeof(double));
    for (size_t n = 0; n < count; n++) {
        s->cost[n] = r->cost(r->context, s->states + n * nstate, s->observations + n * nobserved,
                             s->dstates + n * nstate, s->dobservations + n * nobserved);
        if (fabs(s->cost[n]) <= DBL_MAX) continue;
        return nsi_fail(error, NS_ERR_NONFINITE, "the cost of a sample is %g", s->cost[n]);
    }

    // Gradients. Those that are not finite are left out one by one.
    args.states = args.observations = NULL;
    ns_rollout_adjoint adjoint = {.state_seeds = s->dstates,
                                  .observation_seeds = s->dobservations,
                                  .dx0 = s->dx0,
                                  .dcontrols = s->dcontrols,
                                  .dparams = s->dparams,
                                  .certificate = s->certificates};
    status = ns_rollout_vjp(s->system, s->work, &args, &adjoint, error);
    return status == NS_ERR_NONFINITE ? NS_OK : status;
}

// The exact derivative of sample n of a batch for an input.
static double sample_derivative(const smoothing_run* r, size_t n, size_t input) {
    const ns_smoother* s = r->s;
    size_t steps = r->args->steps, nc = r->nc;
    if (input < r->nx) return s->dx0[n * r->nx + input];
    input -= r->nx;
    if (input >= r->ncontrol) return s->dparams[n * r->np + input - r->ncontrol];
    if (!r->options.hold_controls) return s->dcontrols[n * steps * nc + input];
    double sum = 0.0; // of a control that is held
    for (size_t k = 0; k < steps; k++) sum += s->dcontrols[(n * steps + k) * nc + input];
    return sum;
}

// ---- statistics --------------------------------------------------------------------------------

// Take in pair number `pair`: samples n and n + 1 of the batch.
static void add_sample_pair(smoothing_run* r, uint32_t pair, size_t n, const double* noise) {
    ns_smoother* s = r->s;
    double share = 1.0 / (pair + 1.0), half = 0.5 * (s->cost[n] - s->cost[n + 1]);
    for (size_t i = 0; i < r->ninput; i++) {
        pair_sums* sum = &s->sums[i];
        double sigma = input_sigma(r, i);
        double zeroth = sigma > 0.0 ? half * noise[i] / sigma : 0.0;
        double first = 0.5 * (sample_derivative(r, n, i) + sample_derivative(r, n + 1, i));
        if (!(fabs(first) <= DBL_MAX)) sum->first_lost = true;
        if (sum->first_lost) first = 0.0;

        // Running means and products of deviations
        double da = first - sum->first, db = zeroth - sum->zeroth;
        sum->first += da * share;
        sum->zeroth += db * share;
        sum->first_square += da * (first - sum->first);
        sum->zeroth_square += db * (zeroth - sum->zeroth);
        sum->product += da * (zeroth - sum->zeroth);
    }
    double mean = 0.5 * (s->cost[n] + s->cost[n + 1]), change = mean - r->value;
    r->value += change * share;
    r->value_square += change * (mean - r->value);
}

// The share of the first-order estimate: least variance, then at most as much bias as noise.
static double mix_estimates(double va, double vb, double c, double apart, double radius) {
    double spread = va + vb - 2.0 * c;
    double alpha = spread > 0.0 ? fmin(fmax((vb - c) / spread, 0.0), 1.0) : 1.0;
    return alpha * apart > radius ? radius / apart : alpha;
}

static ns_smoothed_derivative finish_input(const smoothing_run* r, size_t input) {
    const pair_sums* sum = &r->s->sums[input];
    double n = r->npair, degrees = n * (n - 1.0), z = r->options.confidence;
    double va = sum->first_square / degrees, vb = sum->zeroth_square / degrees,
           c = sum->product / degrees;
    ns_smoothed_derivative d = {.first = sum->first,
                                .first_error = sqrt(va),
                                .zeroth = sum->zeroth,
                                .zeroth_error = sqrt(vb)};
    bool random = input_sigma(r, input) > 0.0;

    // Only one of them is there
    if (sum->first_lost || !(va <= DBL_MAX)) {
        d.first = NAN;
        d.first_error = INFINITY;
    }
    if (!random) {
        d.zeroth = NAN;
        d.zeroth_error = INFINITY;
    }
    bool first_only = !random, zeroth_only = random && d.first_error == INFINITY;
    if (first_only || zeroth_only) {
        d.alpha = first_only ? 1.0 : 0.0;
        d.estimate = first_only ? d.first : d.zeroth;
        d.standard_error = first_only ? d.first_error : d.zeroth_error;
        return d;
    }

    // Both
    double apart = fabs(d.first - d.zeroth);
    d.first_biased = apart > z * sqrt(fmax(va + vb - 2.0 * c, 0.0));
    d.alpha = mix_estimates(va, vb, c, apart, z * d.zeroth_error);
    double beta = 1.0 - d.alpha;
    d.estimate = d.alpha * d.first + beta * d.zeroth;
    d.standard_error =
        sqrt(fmax(d.alpha * d.alpha * va + beta * beta * vb + 2.0 * d.alpha * beta * c, 0.0));
    return d;
}

static void finish_gradient(const smoothing_run* r, ns_smoothed_gradient* out) {
    double n = r->npair;
    out->value = r->value;
    out->value_error = sqrt(r->value_square / (n * (n - 1.0)));
    out->samples = 2 * r->npair;
    for (size_t i = 0; i < r->ninput; i++) {
        ns_smoothed_derivative d = finish_input(r, i);
        if (i < r->nx) {
            if (out->dx0) out->dx0[i] = d;
        } else if (i < r->nx + r->ncontrol) {
            if (out->dcontrols) out->dcontrols[i - r->nx] = d;
        } else if (out->dparams) {
            out->dparams[i - r->nx - r->ncontrol] = d;
        }
    }
}

// ---- public ------------------------------------------------------------------------------------

static ns_status check_sigmas(const char* what, const double* sigma, size_t count,
                              ns_error* error) {
    for (size_t k = 0; sigma && k < count; k++) {
        if (sigma[k] >= 0.0 && sigma[k] <= DBL_MAX) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "smoothing.%s[%zu] is %g; it must not be negative",
                        what, k, sigma[k]);
    }
    return NS_OK;
}

static ns_status check_smoothing(const smoothing_run* r, ns_error* error) {
    const ns_rollout_args* a = r->args;
    if (a->batch != 1 || a->per_robot_params || !a->x0) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a smoothed gradient is that of one robot: batch must be 1, x0 given and"
                        " per_robot_params false");
    }
    if (a->steps == 0 || a->steps > r->s->steps) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "a smoother for 1 to %u steps cannot roll out %u",
                        r->s->steps, a->steps);
    }
    if (r->options.samples < 4) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "smoothing.samples is %u; it must be at least 4",
                        r->options.samples);
    }
    if (!(r->options.confidence > 0.0)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "smoothing.confidence is %g; it must be positive",
                        r->options.confidence);
    }
    ns_status status = check_sigmas("x0_sigma", r->options.x0_sigma, r->nx, error);
    if (status == NS_OK) {
        status = check_sigmas("control_sigma", r->options.control_sigma, r->nc, error);
    }
    if (status == NS_OK) status = check_sigmas("param_sigma", r->options.param_sigma, r->np, error);
    return status;
}

ns_status ns_rollout_smoothed_gradient(ns_smoother* s, const ns_rollout_args* args,
                                       const ns_smoothing* smoothing, ns_trajectory_cost* cost,
                                       void* context, ns_smoothed_gradient* gradient,
                                       ns_error* error) {
    if (!s || !args || !cost || !gradient) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "a smoothed gradient needs a smoother, arguments, a cost and a result");
    }
    const ns_system_sizes* z = &s->system->sizes;
    smoothing_run r = {.s = s,
                       .args = args,
                       .options = smoothing ? *smoothing : ns_default_smoothing(),
                       .cost = cost,
                       .context = context,
                       .nx = z->nx,
                       .nc = z->nc,
                       .np = z->np};
    ns_status status = check_smoothing(&r, error);
    if (status != NS_OK) return status;
    r.ncontrol = r.options.hold_controls ? r.nc : (size_t)args->steps * r.nc;
    r.ninput = r.nx + r.ncontrol + r.np;
    r.npair = r.options.samples / 2 + r.options.samples % 2;
    memset(s->sums, 0, r.ninput * sizeof *s->sums);
    gradient->unreliable = 0;

    // Batches of pairs
    for (uint32_t first = 0, n; first < r.npair; first += n) {
        n = r.npair - first < s->batch / 2 ? r.npair - first : s->batch / 2;
        for (uint32_t k = 0; k < n; k++) {
            double* noise = s->noise + k * r.ninput;
            draw_noise(&r, first + k, noise);
            place_sample(&r, 2 * (size_t)k, noise, 1.0);
            place_sample(&r, 2 * (size_t)k + 1, noise, -1.0);
        }
        status = run_samples(&r, 2 * n, error);
        if (status != NS_OK) return status;
        for (uint32_t k = 0; k < n; k++) {
            add_sample_pair(&r, first + k, 2 * (size_t)k, s->noise + k * r.ninput);
        }
        for (uint32_t k = 0; k < 2 * n; k++) {
            gradient->unreliable += s->certificates[k].verdict == NS_GRADIENT_UNRELIABLE;
        }
    }
    finish_gradient(&r, gradient);
    return NS_OK;
}
