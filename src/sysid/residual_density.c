// The posterior density of a fit's unknowns, from objectives: one for each worker.

#include "sysid/residual_density.h"

#include "sysid/objective_state.h"
#include "sysid/parameters_state.h"

#include <math.h>
#include <stdio.h>

enum { MAX_UNKNOWNS = 2000 };

// What a worker needs besides its objective.
typedef struct density_worker {
    nsi_objective* e;
    double* gradient; // (unknowns of the objective)

    // While perturbed: draws of what the data and priors could have been, and noise levels that
    // stay.
    bool perturbed;
    nsi_perturbation perturbation;
    double *residuals, *ties, *weights, *noise;
    nsi_prior* priors; // (parameters)
} density_worker;

struct nsi_residual_density {
    ns_allocator allocator;
    const nsi_problem* p;
    const ns_dataset* data;
    density_worker* workers;
    uint32_t nworker;
    uint32_t n, nz, nw, nx, nnoise; // coordinates: parameters, weights, directions of states, noise
    uint32_t* weight;               // (nw) number of each weight among all
    uint32_t* channel;              // (nnoise) of each noise level
    double *w, *x;                  // the origin: all weights, initial states
    double* counts;                 // (nnoise) recorded numbers of each such channel
};

// ---- coordinates --------------------------------------------------------------------------------

static uint32_t density_noise_from(const nsi_residual_density* d) {
    return d->nz + d->nw + d->nx;
}

nsi_unknown nsi_residual_density_unknown(const nsi_residual_density* d, uint32_t k) {
    if (k < d->nz) return (nsi_unknown){NSI_UNKNOWN_PARAMETER, k};
    k -= d->nz;
    if (k < d->nw) return (nsi_unknown){NSI_UNKNOWN_WEIGHT, d->weight[k]};
    k -= d->nw;
    if (k < d->nx) return (nsi_unknown){NSI_UNKNOWN_STATE, k};
    return (nsi_unknown){NSI_UNKNOWN_NOISE, d->channel[k - d->nx]};
}

// The part of the state that a direction moves.
static const nsi_coordinate* direction_coordinate(const nsi_problem* p, uint32_t direction) {
    const nsi_coordinate* c = p->coordinates;
    while (c + 1 < p->coordinates + p->ncoordinate && c[1].tangent <= direction) c++;
    return c;
}

static uint32_t direction_channel(const nsi_problem* p, uint32_t direction) {
    return p->channel_of_state[direction_coordinate(p, direction)->at];
}

void nsi_residual_density_name(const nsi_residual_density* d, uint32_t coordinate, char* text,
                               size_t size) {
    const nsi_problem* p = d->p;
    nsi_unknown u = nsi_residual_density_unknown(d, coordinate);
    if (u.kind == NSI_UNKNOWN_PARAMETER) {
        snprintf(text, size, "%s", ns_parameters_at(p->parameters, u.number)->name);
    } else if (u.kind == NSI_UNKNOWN_NOISE) {
        snprintf(text, size, "noise/%s", ns_dataset_channel(d->data, u.number)->name);
    } else if (u.kind == NSI_UNKNOWN_STATE) {
        uint32_t direction = u.number % p->ntangent, channel = direction_channel(p, direction);
        const nsi_coordinate* c = direction_coordinate(p, direction);
        char turn[16] = "";
        if (c->quaternion) snprintf(turn, sizeof turn, "/turn%u", direction - c->tangent);
        snprintf(text, size, "window %u: %s%s", u.number / p->ntangent,
                 channel != NSI_NONE ? ns_dataset_channel(d->data, channel)->name
                                     : ns_system_state_name(p->system, c->at),
                 turn);
    } else {
        snprintf(text, size, "weight %u", u.number);
        for (uint32_t k = 0; k < ns_system_weight_matrix_count(p->system); k++) {
            ns_weight_matrix m = ns_system_weight_matrix(p->system, k);
            if (!m.formula || u.number < m.offset || u.number - m.offset >= m.columns) continue;
            snprintf(text, size, "%s/%s", m.set, m.formula->coefficients[u.number - m.offset].name);
        }
    }
}

const char* nsi_residual_density_unit(const nsi_residual_density* d, uint32_t coordinate) {
    const nsi_problem* p = d->p;
    nsi_unknown u = nsi_residual_density_unknown(d, coordinate);
    if (u.kind == NSI_UNKNOWN_PARAMETER) return ns_parameters_at(p->parameters, u.number)->unit;
    if (u.kind == NSI_UNKNOWN_NOISE) return nsi_problem_unit(p, u.number);
    if (u.kind == NSI_UNKNOWN_WEIGHT) return "";
    uint32_t direction = u.number % p->ntangent, channel = direction_channel(p, direction);
    if (direction_coordinate(p, direction)->quaternion) return "rad";
    return channel != NSI_NONE ? nsi_problem_unit(p, channel) : "";
}

// Scale of a channel's residuals without a noise level.
static double channel_scale(const nsi_residual_density* d, uint32_t channel) {
    return d->p->sources[channel].scale;
}

void nsi_residual_density_point(const nsi_residual_density* d, const double* coordinates, double* z,
                                double* w, double* x) {
    const nsi_problem* p = d->p;
    const double *weights = coordinates + d->nz, *steps = weights + d->nw;
    memcpy(z, coordinates, d->nz * sizeof *z);
    memcpy(w, d->w, p->sizes.nw * sizeof *w);
    for (uint32_t k = 0; k < d->nw; k++) w[d->weight[k]] = weights[k];

    // Initial states that are not sampled stay where they are.
    const nsi_objective* e = d->workers[0].e;
    for (uint32_t k = 0; k < e->windows.count; k++) {
        const double* from = d->x + (size_t)k * p->sizes.nx;
        double* to = x + (size_t)k * p->sizes.nx;
        if (d->nx > 0) {
            nsi_problem_move(p, from, steps + (size_t)k * p->ntangent, to);
        } else {
            memcpy(to, from, p->sizes.nx * sizeof *to);
        }
    }
}

void nsi_residual_density_values(const nsi_residual_density* d, const double* coordinates,
                                 double* values) {
    nsi_objective* e = d->workers[0].e;
    if (d->nz > 0) {
        nsi_parameters_from_z(d->p->parameters, coordinates, values, NULL, e->scratch);
    }
    for (uint32_t k = d->nz; k < d->n; k++) {
        nsi_unknown u = nsi_residual_density_unknown(d, k);
        values[k] = coordinates[k];
        if (u.kind == NSI_UNKNOWN_NOISE) {
            double weight = ns_dataset_channel(d->data, u.number)->weight;
            values[k] = exp(coordinates[k]) * weight / channel_scale(d, u.number);
        } else if (u.kind == NSI_UNKNOWN_STATE) {
            uint32_t window = u.number / d->p->ntangent;
            const nsi_coordinate* c = direction_coordinate(d->p, u.number % d->p->ntangent);
            if (!c->quaternion) values[k] += d->x[(size_t)window * d->p->sizes.nx + c->at];
        }
    }
}

void nsi_residual_density_scales(const nsi_residual_density* d, double* out) {
    for (uint32_t k = 0; k < d->n; k++) {
        nsi_unknown u = nsi_residual_density_unknown(d, k);
        out[k] = 1e3;
        if (u.kind == NSI_UNKNOWN_NOISE) out[k] = 10.0;
        if (u.kind != NSI_UNKNOWN_PARAMETER) continue;
        const ns_parameter_info* v = ns_parameters_at(d->p->parameters, u.number);
        switch (v->transform) {
        case NS_PARAMETER_LOG:
        case NS_PARAMETER_INERTIA: out[k] = 10.0; break; // of a logarithm
        case NS_PARAMETER_BOX: out[k] = 2.0; break;      // of a sine
        case NS_PARAMETER_ABOVE:
        case NS_PARAMETER_BELOW: out[k] = 1e3; break;
        case NS_PARAMETER_AUTO:
        case NS_PARAMETER_NONE: out[k] = 1e3 * fmax(v->scale, fabs(v->initial)); break;
        }
    }
}

// ---- the transforms' Jacobian -------------------------------------------------------------------

// log |dv/dz| up to a constant, its gradient, and the negative second derivative; the last two are
// added. It is a sum over coordinates, also for the ten of a body: with U upper triangular, the
// pseudo-inertia U U' has the Jacobian 2^4 prod u_ii^i, and u_ii are exponentials of the first four
// coordinates.
static double add_jacobian(const nsi_residual_density* d, const double* z, double* gradient,
                           double* curvature) {
    double sum = 0.0;
    for (uint32_t k = 0; k < d->nz; k++) {
        double x = z[k], square = x * x + 1.0;
        switch (ns_parameters_at(d->p->parameters, k)->transform) {
        case NS_PARAMETER_LOG:
            sum += x;
            gradient[k] += 1.0;
            break;
        case NS_PARAMETER_ABOVE:
        case NS_PARAMETER_BELOW:
            sum += log(fabs(x)) - 0.5 * log(square);
            gradient[k] += 1.0 / x - x / square;
            curvature[k] += 1.0 / (x * x) + (1.0 - x * x) / (square * square);
            break;
        case NS_PARAMETER_BOX:
            sum += log(fabs(cos(x)));
            gradient[k] -= tan(x);
            curvature[k] += 1.0 / (cos(x) * cos(x));
            break;
        case NS_PARAMETER_INERTIA:
        case NS_PARAMETER_AUTO:
        case NS_PARAMETER_NONE: break;
        }
    }

    // Mass, com and inertia about the centre of mass: S = m U U', whose six numbers scale with m
    // each; com are coordinates themselves.
    static const double powers[4] = {14.0, 2.0, 3.0, 4.0};
    const ns_parameters* params = d->p->parameters;
    for (uint32_t b = 0; d->nz > 0 && b < params->bodies.count; b++) {
        for (int i = 0; i < 4; i++) {
            uint32_t at = params->bodies.data[b].at[i];
            sum += powers[i] * z[at];
            gradient[at] += powers[i];
        }
    }
    return sum;
}

// ---- density ------------------------------------------------------------------------------------

// Move the objective of a worker to the coordinates.
static nsi_objective* density_move(nsi_residual_density* d, uint32_t worker, const double* at) {
    nsi_objective* e = d->workers[worker].e;
    nsi_residual_density_point(d, at, e->point.z, e->point.w, e->point.x);
    for (uint32_t k = 0; k < d->nnoise; k++) {
        uint32_t channel = d->channel[k];
        const density_worker* w = &d->workers[worker];
        double level = w->perturbed ? w->noise[k] : at[density_noise_from(d) + k];
        e->scale[channel] = channel_scale(d, channel) * exp(-level);
    }
    return e;
}

// Sum of the robust weights times squared residuals of a channel.
static double channel_squares(const nsi_objective* e, uint32_t channel) {
    double sum = 0.0;
    for (size_t row = channel; row < e->row_at[e->windows.count]; row += e->p->nchannel) {
        sum += e->row_weight[row] * e->residuals[row] * e->residuals[row];
    }
    return sum;
}

// From the derivative along directions at x + step to that of `step` (nsi_problem_move), in place.
static void pull_back(const nsi_problem* p, const double* step, double* gradient) {
    for (uint32_t k = 0; k < p->ncoordinate; k++) {
        const nsi_coordinate* c = &p->coordinates[k];
        const double* s = step + c->tangent;
        double* g = gradient + c->tangent;
        if (!c->quaternion) continue;
        // q0 (1, s/2) / |(1, s/2)|: a change ds turns it by (ds - s x ds / 2) / |(1, s/2)|^2.
        double square = 1.0 + 0.25 * (s[0] * s[0] + s[1] * s[1] + s[2] * s[2]);
        double cross[3] = {g[1] * s[2] - g[2] * s[1], g[2] * s[0] - g[0] * s[2],
                           g[0] * s[1] - g[1] * s[0]};
        for (int i = 0; i < 3; i++) g[i] = (g[i] - 0.5 * cross[i]) / square;
    }
}

static double density_value(void* context, uint32_t worker, const double* at, double* gradient) {
    nsi_residual_density* d = context;
    nsi_objective* e = density_move(d, worker, at);
    double *full = d->workers[worker].gradient, cost = nsi_objective_gradient(e, full);
    if (!isfinite(cost)) return -INFINITY;

    // Parameters, then weights, states and noise levels.
    double value = -cost;
    for (uint32_t k = 0; k < d->nz; k++) gradient[k] = -full[k];
    for (uint32_t k = 0; k < d->nw; k++) gradient[d->nz + k] = -full[e->nz + d->weight[k]];
    double* states = gradient + d->nz + d->nw;
    for (uint32_t k = 0; k < d->nx; k++) states[k] = -full[e->n + k];
    for (uint32_t k = 0; k < e->windows.count && d->nx > 0; k++) {
        size_t first = (size_t)k * e->nt;
        pull_back(d->p, at + d->nz + d->nw + first, states + first);
    }
    for (uint32_t k = 0; k < d->nnoise; k++) {
        uint32_t noise = density_noise_from(d) + k;
        const density_worker* w = &d->workers[worker];
        if (w->perturbed) { // a Gaussian that holds the level
            double off = at[noise] - w->noise[k];
            value -= d->counts[k] * off * off;
            gradient[noise] = -2.0 * d->counts[k] * off;
            continue;
        }
        value -= d->counts[k] * at[noise];
        gradient[noise] = channel_squares(e, d->channel[k]) - d->counts[k];
    }
    double* ignored = full; // its numbers are in `gradient` by now
    return value + add_jacobian(d, at, gradient, ignored);
}

// A number of a window's blocks and of the shared unknowns, of which the lower triangle is there.
static double shared_block(const nsi_objective* e, uint32_t i, uint32_t j) {
    return e->normal.H[(size_t)(i > j ? i : j) * e->n + (i > j ? j : i)];
}

// Number of a coordinate among the objective's parameters and weights.
static uint32_t shared_number(const nsi_residual_density* d, uint32_t k) {
    return k < d->nz ? k : d->nz + d->weight[k - d->nz];
}

// J'J of parameters, weights and initial states: in H (n x n), both triangles.
static void gather_normal_equations(const nsi_residual_density* d, const nsi_objective* e,
                                    double* H) {
    const uint32_t n = d->n, shared = d->nz + d->nw, nt = e->nt;
    for (uint32_t i = 0; i < shared; i++) {
        for (uint32_t j = 0; j < shared; j++) {
            H[(size_t)i * n + j] = shared_block(e, shared_number(d, i), shared_number(d, j));
        }
    }
    for (uint32_t k = 0; k < e->windows.count && d->nx > 0; k++) {
        const uint32_t first = shared + k * nt;
        for (uint32_t i = 0; i < nt; i++) {
            size_t at = (size_t)k * nt + i;

            // Its own block, and with what all windows share.
            for (uint32_t j = 0; j < nt; j++) {
                size_t low = (size_t)k * nt + (i > j ? i : j);
                H[(size_t)(first + i) * n + first + j] = e->normal.Hxx[low * nt + (i > j ? j : i)];
            }
            for (uint32_t j = 0; j < shared; j++) {
                double block = e->normal.Hxn[at * e->n + shared_number(d, j)];
                H[(size_t)(first + i) * n + j] = H[(size_t)j * n + first + i] = block;
            }

            // A tie to the next window.
            if (!nsi_is_tied(e, k)) continue;
            for (uint32_t j = 0; j < nt; j++) {
                double block = e->normal.Hnext[at * nt + j];
                H[(size_t)(first + i) * n + first + nt + j] = block;
                H[(size_t)(first + nt + j) * n + first + i] = block;
            }
        }
    }
}

// Gauss-Newton for residuals and priors; of noise levels the expected information, 2 n.
static bool density_information(void* context, uint32_t worker, const double* at, double* H) {
    nsi_residual_density* d = context;
    nsi_objective* e = density_move(d, worker, at);
    double value, *slope = d->workers[worker].gradient, *curvature = slope + d->n;
    if (!nsi_normal_linearise(e, false, &value)) return false;
    memset(H, 0, (size_t)d->n * d->n * sizeof *H);
    gather_normal_equations(d, e, H);
    for (uint32_t k = 0; k < d->nnoise; k++) {
        H[(size_t)(density_noise_from(d) + k) * (d->n + 1)] = 2.0 * d->counts[k];
    }
    memset(slope, 0, 2 * (size_t)d->n * sizeof *slope);
    add_jacobian(d, at, slope, curvature);
    for (uint32_t k = 0; k < d->nz; k++) H[(size_t)k * (d->n + 1)] += fmax(curvature[k], 0.0);
    return true;
}

ns_density nsi_residual_density_callbacks(nsi_residual_density* d) {
    return (ns_density){
        .n = d->n, .log_density = density_value, .information = density_information, .context = d};
}

// ---- perturbed ----------------------------------------------------------------------------------

static bool make_perturbation(nsi_residual_density* d, density_worker* w) {
    const nsi_objective* e = w->e;
    const nsi_problem* p = d->p;
    if (w->noise) return true;
    w->residuals = nsi_numbers(e, e->row_at[e->windows.count]);
    w->ties = nsi_numbers(e, (size_t)e->windows.count * p->sizes.nx);
    w->weights = nsi_numbers(e, p->sizes.nw);
    w->priors =
        nsi_alloc_zeroed(&d->allocator, ((size_t)nsi_parameter_count(e) + 1) * sizeof *w->priors);
    w->perturbation = (nsi_perturbation){w->residuals, w->ties, w->weights};
    if (w->residuals && w->ties && w->weights && w->priors) w->noise = nsi_numbers(e, d->nnoise);
    return w->noise != NULL;
}

bool nsi_residual_density_perturb(nsi_residual_density* d, uint32_t worker, const double* at,
                                  ns_rng* rng) {
    density_worker* w = &d->workers[worker];
    nsi_objective* e = w->e;
    if (!make_perturbation(d, w)) return false;
    nsi_residual_density_restore(d, worker);
    nsi_objective_cost(density_move(d, worker, at)); // counts residuals
    for (uint32_t k = 0; k < d->nnoise; k++) w->noise[k] = at[density_noise_from(d) + k];

    // Residuals and ties have a standard deviation of 1.
    for (size_t k = 0; k < e->row_at[e->windows.count]; k++) w->residuals[k] = ns_rng_normal(rng);
    for (size_t k = 0; k < (size_t)e->windows.count * d->p->sizes.nx; k++) {
        w->ties[k] = ns_rng_normal(rng);
    }

    // Priors; what is not sampled keeps its own.
    for (uint32_t k = 0; k < d->nz; k++) {
        w->priors[k] = nsi_prior_of(e, k);
        double deviation = w->priors[k].deviation, z = ns_rng_normal(rng);
        if (isfinite(deviation)) w->priors[k].mean += deviation * z;
    }
    memset(w->weights, 0, d->p->sizes.nw * sizeof *w->weights);
    for (uint32_t k = 0; k < d->nw; k++) {
        double decay = e->decay[d->weight[k]] * e->nresidual, z = ns_rng_normal(rng);
        if (decay > 0.0) w->weights[d->weight[k]] = z / sqrt(decay);
    }
    nsi_objective_set_perturbation(e, &w->perturbation);
    if (d->nz > 0) nsi_objective_set_priors(e, w->priors);
    w->perturbed = true;
    return true;
}

void nsi_residual_density_restore(nsi_residual_density* d, uint32_t worker) {
    density_worker* w = &d->workers[worker];
    if (!w->perturbed) return;
    nsi_objective_set_perturbation(w->e, NULL);
    nsi_objective_set_priors(w->e, NULL);
    w->perturbed = false;
}

// ---- start --------------------------------------------------------------------------------------

void nsi_residual_density_set_origin(nsi_residual_density* d, const double* w, const double* x) {
    const nsi_objective* e = d->workers[0].e;
    memcpy(d->w, w, d->p->sizes.nw * sizeof *w);
    memcpy(d->x, x, (size_t)e->windows.count * d->p->sizes.nx * sizeof *x);
}

bool nsi_residual_density_start(nsi_residual_density* d, const double* z, const double* w,
                                double* out) {
    memset(out, 0, d->n * sizeof *out);
    memcpy(out, z, d->nz * sizeof *z);
    if (d->nz > 0) nsi_parameters_leave_bounds(d->p->parameters, out);
    for (uint32_t k = 0; k < d->nw; k++) out[d->nz + k] = w[d->weight[k]];
    nsi_objective* e = density_move(d, 0, out);
    if (!isfinite(nsi_objective_cost(e))) return false;

    // Noise: the spread of the residuals, which rounding keeps above 0.
    for (uint32_t k = 0; k < d->nnoise; k++) {
        double mean = channel_squares(e, d->channel[k]) / fmax(d->counts[k], 1.0);
        out[density_noise_from(d) + k] = 0.5 * log(fmax(mean, 1e-18));
    }
    return true;
}

// ---- making it ----------------------------------------------------------------------------------

// Numbers of each channel that its residuals are of.
static void count_density_rows(nsi_residual_density* d) {
    const nsi_objective* e = d->workers[0].e;
    for (uint32_t k = 0; k < d->nnoise; k++) {
        size_t row = d->channel[k];
        for (uint32_t w = 0; w < e->windows.count; w++) {
            const nsi_window* window = &e->windows.data[w];
            const double* values = nsi_window_recording(e, w)->values;
            for (uint32_t i = nsi_first_sample(e); i <= window->length; i++) {
                d->counts[k] += !isnan(values[(size_t)(window->start + i) * d->p->nchannel + row]);
            }
        }
    }
}

static ns_status list_unknowns(nsi_residual_density* d, bool weights, ns_error* error) {
    const nsi_problem* p = d->p;
    const nsi_objective* e = d->workers[0].e;
    d->weight = nsi_alloc(&d->allocator, (p->sizes.nw + (size_t)1) * sizeof *d->weight);
    d->channel = nsi_alloc(&d->allocator, (p->nchannel + (size_t)1) * sizeof *d->channel);
    if (!d->weight || !d->channel) return nsi_fail_nomem(error);

    // Everything that the stage optimises; of weights, those that are asked for.
    d->nz = e->nz;
    for (uint32_t k = 0; k < e->nw; k++) {
        if (weights || e->coefficient[k]) d->weight[d->nw++] = k;
    }
    d->nx = e->windows.count * e->nt;
    for (uint32_t k = 0; k < p->nchannel; k++) {
        if (channel_scale(d, k) == 0.0 || ns_dataset_channel(d->data, k)->sigma > 0.0) continue;
        d->channel[d->nnoise++] = k;
    }
    d->n = density_noise_from(d) + d->nnoise;
    if (d->n <= MAX_UNKNOWNS) return NS_OK;
    return nsi_fail(
        error, NS_ERR_LIMIT,
        "the posterior of %u unknowns is too large, above %d: take fewer or longer windows,"
        " or `initial_state: recorded`",
        d->n, MAX_UNKNOWNS);
}

static ns_status density_make(nsi_residual_density* d, const ns_window_options* options,
                              bool weights, ns_error* error) {
    // Weights that stay need no derivatives.
    ns_window_options o = *options;
    bool some = weights;
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(d->p->system); k++) {
        some = some || ns_system_weight_matrix(d->p->system, k).formula != NULL;
    }
    if (!some && nsi_optimises_weights(o.optimise)) {
        o.optimise =
            nsi_optimises_parameters(o.optimise) ? NS_OPTIMISE_PARAMETERS : NS_OPTIMISE_NONE;
    }

    // An objective for each worker.
    for (uint32_t k = 0; k < d->nworker; k++) {
        density_worker* w = &d->workers[k];
        ns_status status = nsi_objective_create(d->p, d->data, &o, NULL, 1, &w->e, error);
        if (status != NS_OK) return status;
    }
    ns_status status = list_unknowns(d, weights, error);
    if (status != NS_OK) return status;

    // Numbers of all, and of each worker.
    const nsi_objective* e = d->workers[0].e;
    size_t states = (size_t)e->windows.count * d->p->sizes.nx;
    d->counts = nsi_alloc_zeroed(&d->allocator, (d->nnoise + (size_t)1) * sizeof *d->counts);
    d->w = nsi_alloc_zeroed(&d->allocator, (d->p->sizes.nw + (size_t)1) * sizeof *d->w);
    d->x = nsi_alloc_zeroed(&d->allocator, (states + 1) * sizeof *d->x);
    if (!d->counts || !d->w || !d->x) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < d->nworker; k++) {
        size_t room = nsi_objective_unknowns(e) + 2 * (size_t)d->n + 1;
        d->workers[k].gradient = nsi_alloc_zeroed(&d->allocator, room * sizeof(double));
        if (!d->workers[k].gradient) return nsi_fail_nomem(error);
    }
    count_density_rows(d);
    nsi_residual_density_set_origin(d, e->point.w, e->point.x);
    return NS_OK;
}

ns_status nsi_residual_density_create(const nsi_problem* problem, const ns_dataset* data,
                                      const ns_window_options* options, bool weights,
                                      uint32_t workers, nsi_residual_density** out,
                                      ns_error* error) {
    *out = NULL;
    nsi_residual_density* d = nsi_alloc_zeroed(&problem->allocator, sizeof *d);
    if (!d) return nsi_fail_nomem(error);
    d->allocator = problem->allocator;
    d->p = problem;
    d->data = data;
    d->workers = nsi_alloc_zeroed(&d->allocator, workers * sizeof *d->workers);
    d->nworker = workers;
    ns_status status =
        d->workers ? density_make(d, options, weights, error) : nsi_fail_nomem(error);
    if (status != NS_OK) {
        nsi_residual_density_free(d);
        return status;
    }
    *out = d;
    return NS_OK;
}

void nsi_residual_density_free(nsi_residual_density* d) {
    if (!d) return;
    ns_allocator memory = d->allocator;
    for (uint32_t k = 0; d->workers && k < d->nworker; k++) {
        nsi_objective_free(d->workers[k].e);
        const density_worker* w = &d->workers[k];
        void* parts[] = {w->gradient, w->residuals, w->ties, w->weights, w->noise, w->priors};
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) nsi_free(&memory, parts[i]);
    }
    void* blocks[] = {d->workers, d->weight, d->channel, d->w, d->x, d->counts};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, d);
}
