// The loss of windows and its derivatives, against rollouts of their own, central differences and
// dense normal equations with everything in them.

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"
#include "support/testalloc.h"
#include "sysid/objective_rig.h"
#include "sysid/objective_state.h"
#include "sysid/parameters_state.h"
#include "sysid/stage_solver.h"

#include <math.h>
#include <stdlib.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

// ---- making them -------------------------------------------------------------------------------

// A point off the start, so that nothing is zero by chance.
static void scatter(nsi_objective* e, double size) {
    ns_rng rng = ns_rng_seed(7);
    nsi_point point = nsi_objective_point(e);
    uint32_t nz = e->p->parameters ? ns_parameters_count(e->p->parameters) : 0;
    for (uint32_t k = 0; k < nz; k++) point.z[k] += size * ns_rng_normal(&rng);
    for (uint32_t k = 0; k < e->p->sizes.nw; k++) point.w[k] += size * ns_rng_normal(&rng);
    double* step = nsi_numbers(e, e->p->ntangent);
    for (uint32_t w = 0; w < e->windows.count; w++) {
        double* x = point.x + (size_t)w * e->p->sizes.nx;
        for (uint32_t k = 0; k < e->p->ntangent; k++) step[k] = size * ns_rng_normal(&rng);
        nsi_problem_move(e->p, x, step, x);
    }
    nsi_free(&e->allocator, step);
}

typedef struct kept {
    double *z, *w, *x;
    size_t nz, nw, nx;
} kept;

static double* copy_of(const double* x, size_t count) {
    double* copy = malloc((count + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, x, count * sizeof *copy);
    return copy;
}

static kept keep(nsi_objective* e) {
    nsi_point p = nsi_objective_point(e);
    kept k = {.nz = e->p->parameters ? ns_parameters_count(e->p->parameters) : 0,
              .nw = e->p->sizes.nw,
              .nx = (size_t)e->windows.count * e->p->sizes.nx};
    k.z = copy_of(p.z, k.nz), k.w = copy_of(p.w, k.nw), k.x = copy_of(p.x, k.nx);
    return k;
}

static void put_back(nsi_objective* e, const kept* k) {
    nsi_point p = nsi_objective_point(e);
    memcpy(p.z, k->z, k->nz * sizeof(double));
    memcpy(p.w, k->w, k->nw * sizeof(double));
    memcpy(p.x, k->x, k->nx * sizeof(double));
}

static void free_kept(kept* k) {
    free(k->z);
    free(k->w);
    free(k->x);
}

// ---- F by itself -------------------------------------------------------------------------------

static double rho(const ns_window_options* loss, double r) {
    double c = loss->robust_width;
    switch (loss->robust) {
    case NS_ROBUST_NONE: break;
    case NS_ROBUST_HUBER: return fabs(r) <= c ? r * r : 2.0 * c * fabs(r) - c * c;
    case NS_ROBUST_CAUCHY: return c * c * log(1.0 + r * r / (c * c));
    }
    return r * r;
}

// Each window rolled out alone, one number after the other.
static double value_alone(const ns_fit* fit, nsi_objective* e) {
    const ns_window_options* loss = &fit->spec->stages.data[0].windows;
    const ns_dataset* data = fit->data[NS_ROLE_TRAIN];
    ns_system_sizes n = ns_system_get_sizes(fit->system);
    nsi_point point = nsi_objective_point(e);
    double v[64], p[64], sum = 0.0, *scratch = malloc(8 * nsi_parameters_scratch(fit->parameters));
    nsi_parameters_from_z(fit->parameters, point.z, v, NULL, scratch);
    nsi_parameters_params(fit->parameters, 0, v, p, NULL, scratch);
    free(scratch);
    uint32_t substeps = (uint32_t)lround(ns_dataset_period(data) / n.timestep), count = 0;
    uint32_t nchannel = ns_dataset_channel_count(data), ncontrol = ns_dataset_control_count(data);
    double* before = NULL; // where the last window ended
    for (uint32_t w = 0; w < nsi_objective_window_count(e); w++) {
        const nsi_window* window = nsi_objective_window(e, w);
        const ns_recording* r = ns_dataset_recording(data, window->recording);
        uint32_t steps = window->length * substeps + 1;
        double* states = calloc((steps + 1) * n.nx, sizeof *states);
        double* seen = calloc(steps * n.ny + 1, sizeof *seen);
        double* controls = calloc(steps * n.nc + 1, sizeof *controls);
        for (uint32_t s = 0; s < steps; s++) {
            for (uint32_t c = 0; c < ncontrol; c++) {
                for (uint32_t i = 0; i < n.nc; i++) {
                    if (strcmp(ns_system_control_name(fit->system, i),
                               ns_dataset_control(data, c)) != 0)
                        continue;
                    controls[s * n.nc + i] =
                        r->controls[(window->start + s / substeps) * ncontrol + c];
                }
            }
        }
        ns_workspace* work = NULL;
        ns_workspace_size size = {.batch = 1, .steps = steps, .threads = 1};
        assert_int_equal(ns_workspace_create(fit->system, &size, &work, NULL), NS_OK);
        ns_rollout_args args = {.batch = 1,
                                .steps = steps,
                                .x0 = point.x + (size_t)w * n.nx,
                                .controls = controls,
                                .params = p,
                                .weights = point.w,
                                .states = states,
                                .observations = seen};
        assert_int_equal(ns_rollout(fit->system, work, &args, NULL), NS_OK);
        ns_workspace_free(work);
        for (uint32_t k = loss->initial_state == NS_INITIAL_STATE_RECORDED; k <= window->length;
             k++) {
            for (uint32_t c = 0; c < nchannel; c++) {
                double recorded = r->values[(window->start + k) * nchannel + c], simulated = NAN;
                const char* name = ns_dataset_channel(data, c)->name;
                for (uint32_t i = 0; i < n.nx; i++) {
                    if (strcmp(ns_system_state_name(fit->system, i), name) == 0) {
                        simulated = states[k * substeps * n.nx + i];
                    }
                }
                for (uint32_t i = 0; i < n.ny; i++) {
                    if (strcmp(ns_system_observation_name(fit->system, i), name) == 0) {
                        simulated = seen[k * substeps * n.ny + i];
                    }
                }
                if (isnan(recorded) || fit->problem->sources[c].scale == 0.0) continue;
                sum += rho(loss, (simulated - recorded) * fit->problem->sources[c].scale);
                count++;
            }
        }
        bool goes_on = w > 0 && nsi_objective_window(e, w - 1)->recording == window->recording &&
                       nsi_objective_window(e, w - 1)->start + window->length == window->start;
        for (uint32_t k = 0; k < n.nx && goes_on && loss->initial_state == NS_INITIAL_STATE_TIED;
             k++) {
            double off = (before[k] - point.x[(size_t)w * n.nx + k]) * e->tie_scale[k];
            sum += off * off;
        }
        free(before);
        before = copy_of(states + window->length * substeps * n.nx, n.nx);
        free(states);
        free(seen);
        free(controls);
    }
    free(before);
    assert_int_equal(count, nsi_objective_residual_count(e));
    for (uint32_t k = 0; k < n.nw && nsi_optimises_weights(loss->optimise); k++) {
        sum += count * loss->weight_decay * point.w[k] * point.w[k];
    }
    for (uint32_t k = 0; k < fit->nz && nsi_optimises_parameters(loss->optimise); k++) {
        const ns_parameter_info* item = ns_parameters_at(fit->parameters, k);
        sum += pow((v[k] - item->initial) / item->prior_sigma, 2.0);
    }
    return 0.5 * sum;
}

// ---- checks ------------------------------------------------------------------------------------

static void check_gradient(nsi_objective* e, double tolerance) {
    uint32_t n = nsi_objective_unknowns(e);
    double *g = calloc(n + 1, sizeof *g), *step = calloc(n + 1, sizeof *step), most = 0.0;
    kept at = keep(e);
    double value = nsi_objective_gradient(e, g);
    assert_true(value == nsi_objective_cost(e));
    for (uint32_t k = 0; k < n; k++) most = fmax(most, fabs(g[k]));
    assert_true(most > 0.0);
    for (uint32_t k = 0; k < n; k++) {
        double f[2], h = 1e-5;
        for (int side = 0; side < 2; side++) {
            step[k] = side ? h : -h;
            nsi_objective_move(e, step);
            f[side] = nsi_objective_cost(e);
            put_back(e, &at);
        }
        step[k] = 0.0;
        double slope = (f[1] - f[0]) / (2.0 * h);
        if (!(fabs(slope - g[k]) <= tolerance * (most + fabs(g[k])))) {
            fail_msg("unknown %u of %u: gradient %.12g, differences %.12g", k, n, g[k], slope);
        }
    }
    free_kept(&at);
    free(g);
    free(step);
}

// Residuals with all that is added to them, at the point; weights of robust rows as they are given.
static uint32_t all_rows(nsi_objective* e, const double* weights, double* out) {
    uint32_t count = 0, rows = (uint32_t)e->row_at[e->windows.count];
    assert_true(isfinite(nsi_objective_cost(e)));
    for (uint32_t k = 0; k < rows; k++) out[count++] = sqrt(weights[k]) * e->residuals[k];
    for (uint32_t w = 0; w < e->windows.count; w++) {
        if (!nsi_is_tied(e, w)) continue;
        nsi_objective_continuity(e, &e->point, w, out + count);
        count += e->p->sizes.nx;
    }
    for (uint32_t k = 0; k < e->nz; k++) {
        const ns_parameter_info* v = ns_parameters_at(e->p->parameters, k);
        out[count++] = (e->v[k] - v->initial) / v->prior_sigma;
    }
    for (uint32_t k = 0; k < e->nw; k++) {
        out[count++] = sqrt(e->decay[k] * e->nresidual) * e->point.w[k];
    }
    return count;
}

// A x = b by Gauss with pivots; A is n x n and is lost.
static void solve(uint32_t n, double* A, double* b) {
    for (uint32_t k = 0; k < n; k++) {
        uint32_t best = k;
        for (uint32_t i = k; i < n; i++) {
            if (fabs(A[i * n + k]) > fabs(A[best * n + k])) best = i;
        }
        for (uint32_t j = 0; j < n; j++) {
            double kept_a = A[k * n + j];
            A[k * n + j] = A[best * n + j];
            A[best * n + j] = kept_a;
        }
        double kept_b = b[k];
        b[k] = b[best], b[best] = kept_b;
        for (uint32_t i = k + 1; i < n; i++) {
            double factor = A[i * n + k] / A[k * n + k];
            for (uint32_t j = k; j < n; j++) A[i * n + j] -= factor * A[k * n + j];
            b[i] -= factor * b[k];
        }
    }
    for (uint32_t k = n; k-- > 0;) {
        for (uint32_t j = k + 1; j < n; j++) b[k] -= A[k * n + j] * b[j];
        b[k] /= A[k * n + k];
    }
}

// Steps of parameters with bounds are linear in their values: the one in z with the same change.
static double linear_step(const nsi_objective* e, uint32_t k) {
    const double step = e->normal.step[k], z = k < e->nz ? e->point.z[k] : 0.0;
    const ns_parameter_info* v = k < e->nz ? ns_parameters_at(e->p->parameters, k) : NULL;
    if (!v || !nsi_transform_is_bounded(v)) return step;
    double change = nsi_transform_value(v, z + step) - nsi_transform_value(v, z);
    return change / nsi_transform_slope(v, z);
}

// Does the step lead an unknown to a bound?
static bool ends_at_bound(const nsi_objective* e, uint32_t k) {
    const ns_parameter_info* v = k < e->nz ? ns_parameters_at(e->p->parameters, k) : NULL;
    if (!v || !nsi_transform_is_bounded(v)) return false;
    double reached = nsi_transform_value(v, e->point.z[k] + e->normal.step[k]);
    return fabs(reached - nsi_transform_inside(v, reached, 1.1e-9)) > 0.0;
}

// The equations of what ends at a bound: it goes there.
static void hold_at_bounds(const nsi_objective* e, uint32_t n, double* A, double* x) {
    for (uint32_t k = 0; k < e->nz; k++) {
        if (!ends_at_bound(e, k)) continue;
        for (uint32_t j = 0; j < n; j++) A[k * n + j] = j == k ? 1.0 : 0.0;
        x[k] = linear_step(e, k);
    }
}

// There the quadratic falls outwards.
static void check_multipliers(const nsi_objective* e, uint32_t n, const double* H, const double* g,
                              const double* x, double damping) {
    for (uint32_t k = 0; k < e->nz; k++) {
        if (!ends_at_bound(e, k)) continue;
        double slope = g[k] + damping * H[k * n + k] * x[k];
        for (uint32_t j = 0; j < n; j++) slope += H[k * n + j] * x[j];
        const ns_parameter_info* v = ns_parameters_at(e->p->parameters, k);
        double outwards = nsi_transform_value(v, e->point.z[k] + e->normal.step[k]) -
                          nsi_transform_value(v, e->point.z[k]);
        assert_true(slope / nsi_transform_slope(v, e->point.z[k]) * outwards <= 0.0);
    }
}

// Steps against those of one dense matrix, states included, whose Jacobian comes from differences.
static void check_steps(nsi_objective* e, double tolerance) {
    uint32_t n = nsi_objective_unknowns(e), nt = e->nt;
    size_t most = e->row_at[e->windows.count] + (size_t)e->windows.count * e->p->sizes.nx + n + 1;
    double *J = calloc(most * n, sizeof *J), *r = calloc(most, sizeof *r), *g = calloc(n, 8);
    double *low = calloc(most, 8), *high = calloc(most, 8), *step = calloc(n + 1, 8);
    double *H = calloc((size_t)n * n, 8), *A = calloc((size_t)n * n, 8), *x = calloc(n, 8);
    double value, gradient_value = nsi_objective_gradient(e, x);
    assert_true(nsi_objective_linearise(e, &value));
    assert_true(value == gradient_value);
    // Both ways to the gradient.
    double largest = 0.0;
    for (uint32_t k = 0; k < n; k++) largest = fmax(largest, fabs(x[k]));
    for (uint32_t k = 0; k < n; k++) {
        double other = k < e->n ? e->normal.g[k] : e->normal.gx[k - e->n];
        if (!(fabs(other - x[k]) <= 1e-10 * largest)) {
            fail_msg("unknown %u: %.17g by windows, %.17g backwards", k, other, x[k]);
        }
    }
    double* weights = copy_of(e->row_weight, e->row_at[e->windows.count]);
    kept at = keep(e);
    uint32_t rows = all_rows(e, weights, r);
    for (uint32_t k = 0; k < n; k++) {
        double h = 1e-6;
        step[k] = h;
        nsi_objective_move(e, step);
        all_rows(e, weights, high);
        put_back(e, &at);
        step[k] = -h;
        nsi_objective_move(e, step);
        all_rows(e, weights, low);
        put_back(e, &at);
        step[k] = 0.0;
        for (uint32_t i = 0; i < rows; i++) J[i * n + k] = (high[i] - low[i]) / (2.0 * h);
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < rows; k++) g[i] += J[k * n + i] * r[k];
        for (uint32_t j = 0; j < n; j++) {
            for (uint32_t k = 0; k < rows; k++) H[i * n + j] += J[k * n + i] * J[k * n + j];
        }
    }
    double mean_weight = 0.0;
    for (uint32_t k = e->nz; k < e->n; k++) mean_weight += H[k * n + k] / e->nw;
    for (int trial = 0; trial < 3; trial++) {
        double damping = (const double[]){1e-2, 1.0, 1e6}[trial], predicted, slope = 0.0,
               bend = 0.0;
        assert_true(nsi_objective_linearise(e, &value));
        assert_true(nsi_objective_solve(e, damping, &predicted));
        memcpy(A, H, (size_t)n * n * sizeof *A);
        for (uint32_t k = 0; k < n; k++) {
            A[k * n + k] += damping * (k >= e->nz && k < e->n ? mean_weight : H[k * n + k]);
            x[k] = -g[k];
        }
        hold_at_bounds(e, n, A, x);
        solve(n, A, x);
        check_multipliers(e, n, H, g, x, damping);
        double length = 0.0;
        for (uint32_t k = 0; k < n; k++) length = fmax(length, fabs(x[k]));
        for (uint32_t k = 0; k < n; k++) {
            double found = k < e->n ? linear_step(e, k) : e->normal.step_x[k - e->n];
            slope += g[k] * x[k];
            for (uint32_t i = 0; i < n; i++) bend += x[i] * H[i * n + k] * x[k];
            if (!(fabs(found - x[k]) <= tolerance * length)) {
                fail_msg("damping %g, unknown %u of %u (%u per window): step %.10g, dense %.10g",
                         damping, k, n, nt, found, x[k]);
            }
            // With so much damping, down the gradient, each number in its own unit.
            double unit = k >= e->nz && k < e->n ? mean_weight : H[k * n + k];
            if (damping == 1e6) assert_true(fabs(found * damping * unit + g[k]) <= 1e-4 * largest);
        }
        // The decrease of the quadratic without damping.
        assert_true(fabs(predicted + slope + 0.5 * bend) <= tolerance * fabs(slope));
    }
    free_kept(&at);
    free(weights);
    double* blocks[] = {J, r, g, low, high, step, H, A, x};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) free(blocks[k]);
}

// A trial elsewhere changes nothing of the equations at the point.
static void check_reduced(nsi_objective* e) {
    double *S = calloc((size_t)e->n * e->n + 1, 8), *b = calloc(e->n + 1, 8);
    double value, predicted, before, after;
    assert_true(nsi_objective_linearise(e, &value));
    assert_true(nsi_objective_eliminate_states(e, 0.01, S, b, &before));
    assert_true(nsi_objective_solve(e, 1.0, &predicted));
    nsi_objective_trial_cost(e);
    assert_true(nsi_objective_eliminate_states(e, 0.01, S, b, &after));
    assert_true(before == after);
    free(S);
    free(b);
}

// Information about v: S by dense elimination of everything else, from the Jacobian for v.
static void check_information(nsi_objective* e, double tolerance) {
    uint32_t n = nsi_objective_unknowns(e), nz = e->nz, rest = n - nz;
    double *found = calloc((size_t)nz * nz + 1, 8), *H = calloc((size_t)n * n, 8), value;
    assert_true(nsi_objective_information(e, found));
    for (uint32_t k = 0; k < nz; k++) { // which leaves priors out
        double prior = ns_parameters_at(e->p->parameters, k)->prior_sigma;
        found[(size_t)k * nz + k] += 1.0 / (prior * prior);
    }
    // The same from the normal equations for z: H_v = D^-T H_z D^-1 with D = dv/dz.
    assert_true(nsi_objective_linearise(e, &value));
    const nsi_normal* m = &e->normal;
    for (uint32_t i = 0; i < e->n; i++) {
        for (uint32_t j = 0; j <= i; j++) H[i * n + j] = H[j * n + i] = m->H[i * e->n + j];
    }
    for (uint32_t w = 0; w < e->windows.count; w++) {
        uint32_t at = e->n + w * e->nt;
        for (uint32_t i = 0; i < e->nt; i++) {
            for (uint32_t j = 0; j <= i; j++) {
                H[(at + i) * n + at + j] = H[(at + j) * n + at + i] =
                    m->Hxx[((size_t)w * e->nt + i) * e->nt + j];
            }
            for (uint32_t j = 0; j < e->n; j++) {
                H[(at + i) * n + j] = H[j * n + at + i] =
                    m->Hxn[((size_t)w * e->nt + i) * e->n + j];
            }
            for (uint32_t j = 0; nsi_is_tied(e, w) && j < e->nt; j++) {
                H[(at + i) * n + at + e->nt + j] = H[(at + e->nt + j) * n + at + i] =
                    m->Hnext[((size_t)w * e->nt + i) * e->nt + j];
            }
        }
    }
    double *D = copy_of(e->dv, (size_t)nz * nz), *S = calloc((size_t)nz * nz + 1, 8);
    double *A = calloc((size_t)rest * rest + 1, 8), *b = calloc(rest + 1, 8);
    for (uint32_t j = 0; j < nz; j++) {
        for (uint32_t i = 0; i < rest; i++) {
            for (uint32_t k = 0; k < rest; k++) A[i * rest + k] = H[(nz + i) * n + nz + k];
            b[i] = H[(nz + i) * n + j];
        }
        solve(rest, A, b);
        for (uint32_t i = 0; i < nz; i++) {
            S[i * nz + j] = H[i * n + j];
            for (uint32_t k = 0; k < rest; k++) S[i * nz + j] -= H[i * n + nz + k] * b[k];
        }
    }
    for (uint32_t i = 0; i < nz; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = 0.0; // D' I D
            for (uint32_t k = 0; k < nz; k++) {
                for (uint32_t l = 0; l < nz; l++) {
                    double I = k >= l ? found[k * nz + l] : found[l * nz + k];
                    sum += D[k * nz + i] * I * D[l * nz + j];
                }
            }
            if (!(fabs(sum - S[i * nz + j]) <=
                  tolerance * sqrt(fabs(S[i * nz + i] * S[j * nz + j])))) {
                fail_msg("information %u %u: %.10g, dense %.10g", i, j, sum, S[i * nz + j]);
            }
        }
    }
    double* blocks[] = {found, H, D, S, A, b};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) free(blocks[k]);
}

// The same bits at any number of threads.
static void check_threads(const ns_fit* fit) {
    double *g[2], value[2], step_value[2];
    nsi_objective* e[2];
    for (uint32_t k = 0; k < 2; k++) {
        double predicted, again;
        e[k] = objective_of(fit, 1 + 2 * k);
        scatter(e[k], 0.02);
        g[k] = calloc(nsi_objective_unknowns(e[k]) + 1, 8);
        value[k] = nsi_objective_gradient(e[k], g[k]);
        assert_true(nsi_objective_linearise(e[k], &again) && again == value[k]);
        assert_true(nsi_objective_solve(e[k], 0.1, &predicted));
        step_value[k] = nsi_objective_trial_cost(e[k]);
    }
    uint32_t n = nsi_objective_unknowns(e[0]);
    assert_true(value[0] == value[1] && step_value[0] == step_value[1]);
    assert_memory_equal(g[0], g[1], n * sizeof(double));
    assert_memory_equal(e[0]->normal.H, e[1]->normal.H, (size_t)e[0]->n * e[0]->n * 8);
    assert_memory_equal(e[0]->normal.step, e[1]->normal.step, e[0]->n * 8);
    assert_memory_equal(e[0]->normal.step_x, e[1]->normal.step_x,
                        (size_t)e[0]->windows.count * e[0]->nt * 8);
    for (uint32_t k = 0; k < 2; k++) {
        free(g[k]);
        nsi_objective_free(e[k]);
    }
}

static void check_all(const char* name, double tolerance) {
    ns_fit* fit = experiment_load(name, 1);
    nsi_objective* e = objective_of(fit, 1);
    scatter(e, 0.02);
    double value = nsi_objective_cost(e), alone = value_alone(fit, e);
    if (!(fabs(value - alone) <= 1e-12 * alone)) fail_msg("%.17g is not %.17g", value, alone);
    check_gradient(e, tolerance);
    check_steps(e, tolerance);
    check_reduced(e);
    if (e->nz > 0 && e->n + e->windows.count * e->nt > e->nz) check_information(e, 1e-5);
    nsi_objective_free(e);
    check_threads(fit);
    ns_fit_free(fit);
}

// ---- models ------------------------------------------------------------------------------------

static const double swings[] = {0.8, -0.3, 0.2, 0.5, -1.2, 0.4, -0.5, 1.0, 0.1, 1.4, 0.0, 0.0};

static void write_pendulum(double missing) {
    motion m = motion_of(PENDULUM, 0.01, 31);
    m.runs = 3;
    m.x0 = swings;
    m.push = 0.5;
    m.sigma = 0.01;
    m.missing = missing;
    motion_record(&m, "swings.csv");
}

static void write_experiment(const char* parts) {
    experiment_write("fit.yaml",
                     "model: " PENDULUM "\n"
                     "data: {train: [swings.csv]}\n"
                     "timestep: 0.01\n"
                     "parameters:\n"
                     "  link/link1/mass: 0.7\n"
                     "  joint/joint0/damping: 0.05\n"
                     "  half: {initial: 0.4, lower: 0.1, upper: 0.9}\n"
                     "set: {link/link1/com/z: -half}\n"
                     "%s",
                     parts);
}

static void pendulums_with_windows_of_all_kinds(void** state) {
    (void)state;
    static const char* const fits[] = {
        "train: {window: 10, initial_state: free}\n",
        "train: {window: 10, initial_state: tied}\n",
        "train: {window: 10, initial_state: tied, continuity_weight: 3}\n",
        "train: {window: 10, initial_state: recorded}\n",
        "train: {window: whole, initial_state: free}\n",
        "train: {window: one, initial_state: free, max_windows: 9}\n",
        "train: {window: one, initial_state: recorded}\n",
        "train: {window: 7, initial_state: free, max_windows: 5, overlap: true}\n",
        "train: {window: 10, max_windows: 4}\n",
        "train: {window: 15, initial_state: free, huber: 0.02}\n",
        "train: {window: 15, initial_state: tied, cauchy: 0.02}\n",
        "train: {window: 15, initial_state: recorded, cauchy: 0.05}\n",
    };
    write_pendulum(0.0);
    for (size_t k = 0; k < sizeof fits / sizeof *fits; k++) {
        write_experiment(fits[k]);
        check_all("fit.yaml", 2e-5);
    }
}

static void missing_numbers_count_nothing(void** state) {
    (void)state;
    write_pendulum(0.3);
    write_experiment("train: {window: 10, initial_state: free}\n");
    check_all("fit.yaml", 2e-5);
    write_experiment("train: {window: 10, initial_state: tied, huber: 0.03}\n");
    check_all("fit.yaml", 2e-5);
}

// Windows of different lengths: recordings of different lengths as a whole.
static void several_lengths_together(void** state) {
    (void)state;
    write_pendulum(0.0);
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data:\n  train:\n"
                                 "    - {file: swings.csv, trajectories: 0, to: 0.2}\n"
                                 "    - {file: swings.csv, trajectories: 1-2}\n"
                                 "    - {file: swings.csv, trajectories: 2, from: 0.05, to: 0.15}\n"
                                 "timestep: 0.01\n"
                                 "parameters: {link/link1/mass: 0.7, joint/*/damping: 0.1}\n"
                                 "train: {window: whole}\n");
    check_all("fit.yaml", 2e-5);
}

static void priors_pull(void** state) {
    (void)state;
    write_pendulum(0.0);
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data: {train: [swings.csv]}\n"
                                 "timestep: 0.01\n"
                                 "parameters:\n"
                                 "  link/link1/mass: {initial: 0.7, prior_sigma: 0.05}\n"
                                 "  joint/joint0/damping: {initial: 0.05, prior_sigma: 0.01}\n"
                                 "train: {window: 10}\n");
    check_all("fit.yaml", 2e-5);
}

static void whole_bodies(void** state) {
    (void)state;
    write_pendulum(0.0);
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "data: {train: [swings.csv]}\n"
                                 "timestep: 0.01\n"
                                 "parameters: {link/link1/mass: free, link/link1/com/*: free,"
                                 " link/link1/inertia/*: free}\n"
                                 "train: {window: 15, initial_state: recorded}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    nsi_objective* e = objective_of(fit, 1);
    scatter(e, 0.02);
    check_gradient(e, 2e-5);
    nsi_objective_free(e);
    check_threads(fit);
    ns_fit_free(fit);
}

// Samples further apart than steps; the hinge has a motor.
static void substeps_and_motors(void** state) {
    (void)state;
    experiment_write("hinge.xml", "%s", hinge);
    motion m = motion_of(tempdir_path("hinge.xml"), 0.005, 21);
    m.substeps = 4;
    m.x0 = (const double[]){0.5, 0.1};
    m.push = 0.3;
    m.sigma = 0.01;
    motion_record(&m, "hinge.csv");
    static const char* const fits[] = {"{window: 5}", "{window: 5, initial_state: tied}",
                                       "{window: 5, initial_state: recorded}"};
    for (int k = 0; k < 3; k++) {
        experiment_write("fit.yaml",
                         "model: hinge.xml\n"
                         "data: {train: [hinge.csv]}\n"
                         "timestep: 0.005\n"
                         "parameters: {joint/hinge/damping: 0.3, actuator/motor/gear: 1.7}\n"
                         "train: %s\n",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        assert_int_equal(fit->problem->substeps, 4);
        ns_fit_free(fit);
        check_all("fit.yaml", 2e-5);
    }
}

// A torque that is too steep for the step multiplies the gradient of a window by -2 in each step.
static void unreliable_windows_are_counted(void** state) {
    (void)state;
    experiment_write("hinge.xml", "%s", hinge);
    motion m = motion_of(tempdir_path("hinge.xml"), 0.01, 121);
    m.x0 = (const double[]){0.5, 0.1};
    motion_record(&m, "hinge.csv");
    experiment_write("steep.yaml", "formulas:\n"
                                   "  - name: steep\n"
                                   "    output: joint/hinge/tau\n"
                                   "    formula: '-b * \"qd/0\"'\n"
                                   "    coefficients: {b: 0.1}\n");
    experiment_write("fit.yaml", "model: hinge.xml\n"
                                 "data: {train: [hinge.csv]}\n"
                                 "blueprint: steep.yaml\n"
                                 "integrator: explicit\n"
                                 "train: {window: 40}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    nsi_objective* e = objective_of(fit, 1);
    nsi_gradient_trust trust;
    ns_error error = {0};
    must(nsi_objective_certify(e, &trust, &error), &error);
    assert_int_equal(trust.windows, 3);
    assert_int_equal(trust.unreliable, 0);

    nsi_objective_point(e).w[0] = 3.0 * 0.26 / 0.01; // 1 - dt b / I = -2
    must(nsi_objective_certify(e, &trust, &error), &error);
    assert_int_equal(trust.unreliable, 3);
    assert_says(trust.reason, "with alternating sign");
    nsi_objective_free(e);
    ns_fit_free(fit);
}

// Where the model's step does not divide the period, the next shorter one that does is taken.
static void time_steps_divide_the_period(void** state) {
    (void)state;
    experiment_write("hinge.xml", "%s", hinge);
    motion m = motion_of(tempdir_path("hinge.xml"), 0.025, 11);
    motion_record(&m, "hinge.csv");
    experiment_write("fit.yaml", "model: hinge.xml\n"
                                 "data: {train: [hinge.csv]}\n"
                                 "parameters: {joint/hinge/damping: 0.3}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    assert_int_equal(fit->problem->substeps, 3);
    assert_true(fabs(fit->problem->sizes.timestep - 0.025 / 3.0) < 1e-15);
    ns_fit_free(fit);
}

static void networks(void** state) {
    (void)state;
    write_pendulum(0.0);
    experiment_write("net.yaml", "networks:\n"
                                 "  - name: drag\n"
                                 "    each: joint/*\n"
                                 "    inputs: [\"{}/velocity\", \"{}/position\"]\n"
                                 "    outputs: \"{}/tau\"\n"
                                 "    hidden: [3]\n"
                                 "    init: {scale: 1, last: 1, seed: 3}\n");
    static const char* const fits[] = {
        "{window: 10, weight_decay: 0.01}", "{window: 10, initial_state: tied, weight_decay: 0.01}",
        "{window: 15, initial_state: recorded, weight_decay: 0.02, optimise: weights}",
        "{window: 15, initial_state: recorded, optimise: parameters}"};
    for (int k = 0; k < 4; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\n"
                         "blueprint: net.yaml\n"
                         "data: {train: [swings.csv]}\n"
                         "timestep: 0.01\n"
                         "parameters: {link/link1/mass: 0.7, joint/*/damping: 0.1}\n"
                         "train: %s\n",
                         fits[k]);
        check_all("fit.yaml", 5e-5);
    }
}

// Networks of so many weights that rows are looked at first: positions after one step say the same as
// velocities, and missing numbers nothing.
static void rows_that_say_the_same_become_one(void** state) {
    (void)state;
    experiment_write("wide.yaml", "networks:\n"
                                  "  - name: drag\n"
                                  "    each: joint/*\n"
                                  "    inputs: [\"{}/velocity\", \"{}/position\"]\n"
                                  "    outputs: \"{}/tau\"\n"
                                  "    hidden: [6, 7]\n"
                                  "    init: {scale: 1, last: 1, seed: 3}\n");
    experiment_write("both.yaml",
                     "time: t\n"
                     "trajectory: traj\n"
                     "observe: {q0: q0, q1: q1, qd0: qd0, qd1: {value: qd1, weight: 0}}\n");
    const struct {
        double missing;
        const char* fit;
        uint32_t least, most; // rows of each window that are left
    } cases[] = {
        {0.0, "{window: one, initial_state: recorded, optimise: weights}", 2, 2},
        {0.3, "{window: one, initial_state: recorded, optimise: weights, huber: 0.5}", 0, 2},
        {0.0, "{window: one, max_windows: 20, optimise: weights, weight_decay: 0.01}", 4, 6},
        {0.0, "{window: 5, initial_state: recorded, optimise: weights}", 12, 15}};
    for (int k = 0; k < 4; k++) {
        motion m = motion_of(PENDULUM, 0.01, 31);
        m.runs = 3;
        m.x0 = swings;
        m.sigma = 0.01;
        m.missing = cases[k].missing;
        motion_record(&m, "swings.csv");
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\n"
                         "blueprint: wide.yaml\n"
                         "data: {map: both.yaml, train: [swings.csv]}\n"
                         "timestep: 0.01\n"
                         "train: %s\n",
                         cases[k].fit);
        check_all("fit.yaml", 5e-5);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        nsi_objective* e = objective_of(fit, 1);
        double value;
        assert_true(e->n >= 64);
        assert_true(nsi_objective_linearise(e, &value));
        for (uint32_t w = 0; w < e->windows.count && w < e->normal.slab_windows; w++) {
            assert_in_range(e->normal.kept[w], cases[k].least, cases[k].most);
        }
        nsi_objective_free(e);
        ns_fit_free(fit);
    }
}

// Decay of first layers and of those above it.
static void decay_tells_layers_apart(void** state) {
    (void)state;
    write_pendulum(0.0);
    experiment_write("fit.yaml", "model: " PENDULUM "\n"
                                 "blueprint: net.yaml\n"
                                 "data: {train: [swings.csv]}\n"
                                 "timestep: 0.01\n"
                                 "train: {window: 15, initial_state: recorded, weight_decay: 0.1,"
                                 " weight_decay_upper: 0.3}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    nsi_objective* e = objective_of(fit, 1);
    uint32_t first = 0, upper = 0;
    for (uint32_t k = 0; k < e->nw; k++) {
        first += fabs(e->decay[k] - 0.1) < 1e-15;
        upper += fabs(e->decay[k] - 0.4) < 1e-15;
    }
    assert_int_equal(first, (2 + 1) * 3);
    assert_int_equal(upper, 3 + 1);
    scatter(e, 0.02);
    check_gradient(e, 2e-5);
    nsi_objective_free(e);
    ns_fit_free(fit);
}

// ---- free bodies -------------------------------------------------------------------------------

// Position, quaternion, velocities: tumbling.
static const double tumble[] = {0.1, -0.2, 1.0, 0.5, 0.5, -0.5, 0.5, 0.3, 0.1, 2.0, 1.0, -2.0, 0.5};

static const char* const pose[] = {"link/block/pose/x",  "link/block/pose/y",  "link/block/pose/z",
                                   "link/block/pose/qw", "link/block/pose/qx", "link/block/pose/qy",
                                   "link/block/pose/qz"};

static void write_block(const char* const* channels, uint32_t count) {
    experiment_write("block.xml", "%s", block);
    motion m = motion_of(tempdir_path("block.xml"), 0.01, 21);
    m.x0 = tumble;
    m.channels = channels;
    m.nchannel = count;
    motion_record(&m, "block.csv");
}

static void write_block_fit(const char* fit) {
    experiment_write("fit.yaml",
                     "model: block.xml\n"
                     "data: {train: [block.csv]}\n"
                     "timestep: 0.01\n"
                     "parameters: {link/block/com/x: 0.04, link/block/inertia/xx: 0.025}\n"
                     "train: %s\n",
                     fit);
}

static void free_bodies(void** state) {
    (void)state;
    write_block(NULL, 0);
    static const char* const fits[] = {"{window: 5}", "{window: 5, initial_state: tied}",
                                       "{window: 10, initial_state: recorded}"};
    for (int k = 0; k < 3; k++) {
        write_block_fit(fits[k]);
        check_all("fit.yaml", 1e-4);
    }
}

// The state is the same seen as coordinates or as a pose, and so is the loss; only that nothing is
// known of it at the start.
static void poses_are_states(void** state) {
    (void)state;
    double value[2][3];
    for (int k = 0; k < 2; k++) {
        static const char* const coordinates[] = {"q0", "q1", "q2", "q3", "q4", "q5", "q6"};
        write_block(k ? pose : coordinates, 7);
        write_block_fit("{window: 5}");
        ns_fit* fit = experiment_load("fit.yaml", 1);
        nsi_objective* e = objective_of(fit, 1);
        nsi_point point = nsi_objective_point(e);
        for (uint32_t i = 0; i < e->windows.count * 13; i++) assert_true(isfinite(point.x[i]));
        // The same states for both.
        for (uint32_t w = 0; w < e->windows.count; w++) {
            memcpy(point.x + w * 13, tumble, sizeof tumble);
            point.x[w * 13] += 0.1 * w;
        }
        double *g = calloc(nsi_objective_unknowns(e), 8), predicted;
        // Channels are scaled by how far they go, which is the same for both.
        value[k][0] = nsi_objective_gradient(e, g);
        value[k][1] = g[0];
        assert_true(nsi_objective_linearise(e, &predicted));
        assert_true(nsi_objective_solve(e, 1e-3, &predicted));
        value[k][2] = predicted;
        free(g);
        double whole = nsi_objective_cost(e), alone = value_alone(fit, e);
        assert_true(fabs(whole - alone) <= 1e-12 * alone);
        check_gradient(e, 1e-4);
        check_steps(e, 1e-4);
        check_reduced(e);
        nsi_objective_free(e);
        ns_fit_free(fit);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(fabs(value[0][i] - value[1][i]) <= 1e-9 * fabs(value[0][i]));
    }
}

static void steps_of_quaternions_keep_them_unit(void** state) {
    (void)state;
    write_block(NULL, 0);
    write_block_fit("{window: 5}");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    const nsi_problem* p = fit->problem;
    assert_int_equal(p->ntangent, 12);
    double step[12], x[13], d[12], row[13];
    ns_rng rng = ns_rng_seed(5);
    for (int trial = 0; trial < 100; trial++) {
        for (int k = 0; k < 12; k++) step[k] = ns_rng_normal(&rng);
        nsi_problem_move(p, tumble, step, x);
        double norm = 0.0;
        for (int k = 3; k < 7; k++) norm += x[k] * x[k];
        assert_true(fabs(norm - 1.0) < 1e-14);
        // Derivatives along the step are those of differences.
        for (int k = 0; k < 13; k++) row[k] = ns_rng_normal(&rng);
        nsi_problem_tangent(p, tumble, row, d);
        double slope = 0.0, moved[13], back[13], sum = 0.0;
        for (int k = 0; k < 12; k++) slope += d[k] * step[k], step[k] *= 1e-6;
        nsi_problem_move(p, tumble, step, moved);
        for (int k = 0; k < 12; k++) step[k] = -step[k];
        nsi_problem_move(p, tumble, step, back);
        for (int k = 0; k < 13; k++) sum += row[k] * (moved[k] - back[k]) / 2e-6;
        assert_true(fabs(sum - slope) < 1e-7);
    }
    ns_fit_free(fit);
}

// ---- memory ------------------------------------------------------------------------------------

// Everything once.
static ns_status use_all(const ns_fit* fit, const ns_allocator* allocator) {
    const ns_dataset* data = fit->data[NS_ROLE_TRAIN];
    nsi_problem* problem = NULL;
    nsi_objective* e = NULL;
    nsi_stage_solver* solver = NULL;
    nsi_prediction prediction = {0};
    nsi_predict_options options = {.history = 5, .origins = 3, .smoothing = 5, .threads = 1};
    const nsi_stage* stage = &fit->spec->stages.data[0];
    ns_error error = {0};
    ns_status status = nsi_problem_create(ns_hybrid_model(fit->hybrid), fit->system,
                                          fit->parameters, data, allocator, &problem, &error);
    if (status == NS_OK) {
        status = nsi_objective_create(problem, data, &stage->windows, NULL, 1, &e, &error);
    }
    if (status == NS_OK) status = differentiate_once(e);
    if (status == NS_OK) {
        status = nsi_stage_solver_create(problem, data, stage, e, 1, 1, &solver, &error);
    }
    if (status == NS_OK) {
        status = nsi_predict(problem, data, fit->z, fit->w, &options, &prediction, &error);
    }
    nsi_prediction_free(&prediction);
    nsi_stage_solver_free(solver);
    nsi_objective_free(e);
    nsi_problem_free(problem);
    return status;
}

static void memory_may_run_out(void** state) {
    (void)state;
    static const char* const fits[] = {
        "{window: 10, initial_state: tied}",
        "{window: 5, initial_state: recorded, method: adam, batch: 4}"};
    write_pendulum(0.0);
    for (int k = 0; k < 2; k++) {
        experiment_write("fit.yaml",
                         "model: " PENDULUM "\nblueprint: net.yaml\ndata: {train: [swings.csv]}\n"
                         "timestep: 0.01\nparameters: {link/link1/mass: 0.7}\ntrain: %s\n",
                         fits[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        fail_each_use(fit, use_all);
        ns_fit_free(fit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pendulums_with_windows_of_all_kinds),
        cmocka_unit_test(missing_numbers_count_nothing),
        cmocka_unit_test(several_lengths_together),
        cmocka_unit_test(priors_pull),
        cmocka_unit_test(whole_bodies),
        cmocka_unit_test(substeps_and_motors),
        cmocka_unit_test(unreliable_windows_are_counted),
        cmocka_unit_test(time_steps_divide_the_period),
        cmocka_unit_test(networks),
        cmocka_unit_test(rows_that_say_the_same_become_one),
        cmocka_unit_test(decay_tells_layers_apart),
        cmocka_unit_test(free_bodies),
        cmocka_unit_test(poses_are_states),
        cmocka_unit_test(steps_of_quaternions_keep_them_unit),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
