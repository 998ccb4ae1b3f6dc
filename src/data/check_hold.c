// How controls act between samples, by the motion. Fits hold the control of a sample until the next one. A
// recording that has the control at the end of each interval, or values of one that changes continuously,
// makes estimates wrong without a sign of it in the residuals.
//
// With b the acceleration by the controls in the model at each sample, an interval from k to k + 1 has
// (1 - s) b_k + s b_{k+1}: s = 0 where the control is held, 1/2 for the mean or the line between both, 1 where it
// is that of the end. Velocities are summed up from b, and differentiated by the polynomials that also
// smooth the recorded motion, so that both sides are blurred alike. What the model does not explain without
// controls is regressed, for each coordinate, on the trapezoidal sum (gain g) and on the sum of the
// differences b_{k+1} - b_k (gain d), beside positions, velocities and friction, which models have wrong:
//
//     s = 1/2 + d / g

#include "data/check_motion.h"

#include "base/series.h"

#include <math.h>
#include <stdio.h>

enum {
    MAX_ROWS = 5000, // of a recording that are looked at
    MIN_ROWS = 200,  // that are regressed
    MAX_COORDINATES = 12,
    CONTROLS = 2, // regressors by the controls: the trapezoidal sum, differences
    MAX_REGRESSORS = CONTROLS + 1 + 3 * MAX_COORDINATES
};

static const double STEPS = 20.0; // of the model in a sample, at least

static const struct {
    double error;     // largest standard error of s
    double off;       // how far s may be from a kind of holding
    double gain;      // of the controls, or its inverse, at most
    double explained; // by the controls, of what is left without them
    double worse;     // how much more is left when controls are held
    double harm;      // how much more, as a share of the accelerations by controls: less is a note
    double friction;  // velocity at which friction is whole, as a share of the usual one
} hold_limits = {.error = 0.05,
                 .off = 0.2,
                 .gain = 2.0,
                 .explained = 0.5,
                 .worse = 1.25,
                 .harm = 3e-4,
                 .friction = 0.1};

// Sums for one coordinate: normal equations of its regressors.
typedef struct hold_sums {
    double *normal, *right; // (regressors^2), (regressors)
    double rest;            // sum of squares
} hold_sums;

typedef struct hold_fit {
    nsi_motion_fit* motion;
    uint32_t nregressor, rows;
    double count;
    double *free, *driven;     // (rows x nv) accelerations without controls, and by them
    double *rest, *mean, *gap; // (rows x nv) filtered: what is regressed, and on what
    double *sum, *scratch;     // (rows)
    bool* known;               // (rows)
    hold_sums sums[MAX_COORDINATES];
} hold_fit;

// What one coordinate says of s.
typedef struct hold_estimate {
    bool judged;
    double s, error;
    double held, best; // shares that are left: s = 0; s as estimated
    double left_by[3]; // s = 0, 1/2, 1
} hold_estimate;

// ---- accelerations -------------------------------------------------------------------------------

// Of all samples of a recording; false when the model cannot be simulated from any of them.
static bool take_accelerations(hold_fit* h, const nsi_checked_recording* r, double* model) {
    nsi_motion_fit* f = h->motion;
    uint32_t nv = f->nv;
    bool any = false;
    for (uint32_t k = 0; k < h->rows; k++) {
        double *free = h->free + (size_t)k * nv, *driven = h->driven + (size_t)k * nv;
        h->known[k] = nsi_motion_is_known(f, r, k) && nsi_motion_accelerations(f, r, k, model);
        for (uint32_t i = 0; i < nv; i++) {
            free[i] = h->known[k] ? model[i] : 0.0;
            driven[i] = 0.0;
            for (uint32_t a = 0; a < f->ncontrol && h->known[k]; a++) {
                driven[i] += model[(size_t)(a + 1) * nv + i] - model[i];
            }
        }
        any = any || h->known[k];
    }
    return any;
}

// Sum up now * b_k + next * b_{k+1} to velocities, or positions where velocities are not recorded, and
// differentiate as the recorded motion is.
static void filter_accelerations(hold_fit* h, const double* b, uint32_t coordinate, double now,
                                 double next, double* out) {
    nsi_motion_fit* f = h->motion;
    uint32_t n = h->rows, nv = f->nv;
    bool twice = f->channel[f->nq + coordinate] == NSI_NONE;
    double position = 0.0, velocity = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        h->sum[k] = twice ? position : velocity;
        if (k + 1 == n) break;
        double gained =
            now * b[(size_t)k * nv + coordinate] + next * b[(size_t)(k + 1) * nv + coordinate];
        position += velocity + 0.5 * gained;
        velocity += gained;
    }
    nsi_series_smooth(h->sum, NULL, n, NSI_MOTION_WINDOW, NSI_MOTION_ORDER, true, h->scratch);
    if (twice) {
        memcpy(h->sum, h->scratch, n * sizeof *h->sum);
        nsi_series_smooth(h->sum, NULL, n, NSI_MOTION_WINDOW, NSI_MOTION_ORDER, true, h->scratch);
    }
    for (uint32_t k = 0; k < n; k++) out[(size_t)k * nv + coordinate] = h->scratch[k];
}

static void filter_recording(hold_fit* h) {
    nsi_motion_fit* f = h->motion;
    for (uint32_t i = 0; i < f->nv; i++) {
        filter_accelerations(h, h->free, i, 0.5, 0.5, h->rest);
        filter_accelerations(h, h->driven, i, 0.5, 0.5, h->mean);
        filter_accelerations(h, h->driven, i, -1.0, 1.0, h->gap);
    }
    for (size_t k = 0; k < (size_t)h->rows * f->nv; k++) h->rest[k] = f->qdd[k] - h->rest[k];
}

// ---- sums ----------------------------------------------------------------------------------------

// Usual size of a velocity in the recording.
static double usual_velocity(const hold_fit* h, uint32_t coordinate) {
    double squares = 0.0, count = 0.0;
    for (uint32_t k = 0; k < h->rows; k++) {
        double v = h->motion->qd[(size_t)k * h->motion->nv + coordinate];
        if (!h->known[k]) continue;
        squares += v * v;
        count++;
    }
    return count > 0.0 ? sqrt(squares / count) : 0.0;
}

static void add_row(hold_fit* h, uint32_t k, const double* friction) {
    nsi_motion_fit* f = h->motion;
    uint32_t nv = f->nv, n = h->nregressor;
    double x[MAX_REGRESSORS];

    // What models have wrong: constant forces, springs, damping, dry friction.
    double* other = x + CONTROLS;
    *other++ = 1.0;
    for (uint32_t i = 0; i < nv; i++) {
        double v = f->qd[(size_t)k * nv + i];
        *other++ = f->q[(size_t)k * nv + i];
        *other++ = v;
        *other++ = friction[i] > 0.0 ? tanh(v / friction[i]) : 0.0;
    }
    for (uint32_t i = 0; i < nv; i++) {
        hold_sums* s = &h->sums[i];
        double rest = h->rest[(size_t)k * nv + i];
        x[0] = h->mean[(size_t)k * nv + i];
        x[1] = h->gap[(size_t)k * nv + i];
        for (uint32_t a = 0; a < n; a++) {
            s->right[a] += x[a] * rest;
            for (uint32_t b = 0; b < n; b++) s->normal[(size_t)a * n + b] += x[a] * x[b];
        }
        s->rest += rest * rest;
    }
    h->count++;
}

static void add_rows(hold_fit* h) {
    const uint32_t reach = 2 * NSI_MOTION_WINDOW;
    double friction[MAX_COORDINATES];
    for (uint32_t i = 0; i < h->motion->nv; i++) {
        friction[i] = hold_limits.friction * usual_velocity(h, i);
    }

    // Rows near unknown ones, and near the ends, are smoothed from others than they should be.
    uint32_t since = 0;
    for (uint32_t k = 0; k < h->rows; k++) {
        since = h->known[k] ? since + 1 : 0;
        if (since > 2 * reach) add_row(h, k - reach, friction);
    }
}

// ---- estimates -----------------------------------------------------------------------------------

// What is left at this s, as a share of what is left without controls.
static double left_at(double s, double g, double d, const double inverse[3], double left,
                      double without) {
    double off = d - (s - 0.5) * g, slope = s - 0.5;
    double variance = inverse[2] - 2.0 * slope * inverse[1] + slope * slope * inverse[0];
    return (left + off * off / variance) / without;
}

static hold_estimate estimate_hold(hold_fit* h, uint32_t coordinate) {
    uint32_t n = h->nregressor;
    hold_sums* s = &h->sums[coordinate];
    hold_estimate out = {0};
    double size[MAX_REGRESSORS] = {0}, x[MAX_REGRESSORS] = {0};

    // Regressors of size 1.
    for (uint32_t a = 0; a < n; a++) size[a] = sqrt(s->normal[(size_t)a * n + a]);
    if (!(size[0] > 0.0) || !(size[1] > 0.0)) return out;
    for (uint32_t a = 0; a < n; a++) {
        for (uint32_t b = 0; b < n; b++) {
            double both = size[a] * size[b];
            s->normal[(size_t)a * n + b] *= both > 0.0 ? 1.0 / both : 0.0;
        }
    }
    nsi_motion_invert(s->normal, n);
    double left = s->rest;
    for (uint32_t a = 0; a < n; a++) {
        x[a] = 0.0;
        for (uint32_t b = 0; b < n; b++) {
            if (size[b] > 0.0) x[a] += s->normal[(size_t)a * n + b] * s->right[b] / size[b];
        }
        if (size[a] > 0.0) left -= x[a] * s->right[a] / size[a];
    }
    left = fmax(left, 1e-12 * s->rest);

    // The two of the controls, in their own units, with the inverse of their block.
    double g = x[0] / size[0], d = x[1] / size[1];
    double inverse[3] = {s->normal[0] / (size[0] * size[0]), s->normal[1] / (size[0] * size[1]),
                         s->normal[n + 1] / (size[1] * size[1])};
    double determinant = inverse[0] * inverse[2] - inverse[1] * inverse[1];
    if (!(inverse[0] > 0.0) || !(inverse[2] > 0.0) || !(determinant > 0.0)) return out;
    double drop =
        (inverse[2] * g * g - 2.0 * inverse[1] * g * d + inverse[0] * d * d) / determinant;
    double without = left + drop;

    // Neighbouring rows share the samples that they are smoothed from.
    double slope = d / g;
    double variance = inverse[2] - 2.0 * slope * inverse[1] + slope * slope * inverse[0];
    out.s = 0.5 + slope;
    out.error = sqrt(2.0 * NSI_MOTION_WINDOW * variance * left / h->count) / fabs(g);
    out.best = left / without;
    for (int k = 0; k < 3; k++) out.left_by[k] = left_at(0.5 * k, g, d, inverse, left, without);
    out.held = out.left_by[0];
    out.judged = g > 1.0 / hold_limits.gain && g < hold_limits.gain &&
                 out.best < 1.0 - hold_limits.explained && out.error < hold_limits.error;
    return out;
}

// ---- the finding ---------------------------------------------------------------------------------

static void find_hold(ns_data_check* c, const hold_estimate* e, int kind) {
    const char* holds =
        kind == 1 ? "the mean of it and the next one acts in between, as of a control that changes "
                    "continuously"
                  : "the value of the end of each interval acts in it";
    const nsi_signal* control = &c->signals[c->nchannel];
    const char* name = c->nsignal == c->nchannel + 1 ? control->name : NULL;
    double left = e->left_by[kind], period = ns_dataset_period(c->recordings[0].data);

    // What the map has already moved them by stays.
    double offset = c->map->sources.data[control->source].offset - 0.5 * kind * period;
    char advice[300];
    snprintf(
        advice, sizeof advice,
        "give the controls a source of their own in the map with `offset: %.6g` (docs/data.md)",
        offset);
    nsi_find(c, NS_DATA_CONTROL_HOLD,
             e->held - left > hold_limits.harm ? NS_DATA_WARNING : NS_DATA_NOTE, name, NULL, e->s,
             advice,
             "controls are not held from sample to sample: %s (that leaves %.2g %% of the "
             "accelerations by controls unexplained, held ones leave %.2g %%; fits hold them)",
             holds, 100.0 * left, 100.0 * e->held);
}

// All coordinates that tell must agree, and one of them clearly.
static void judge_estimates(hold_fit* h) {
    hold_estimate clearest = {.error = INFINITY};
    int kind = 0;
    for (uint32_t i = 0; i < h->motion->nv; i++) {
        hold_estimate e = estimate_hold(h, i);
        if (!e.judged) continue;
        int nearest = e.s > 0.75 ? 2 : e.s > 0.25 ? 1 : 0;
        bool clear = fabs(e.s - 0.5 * nearest) < hold_limits.off && nearest > 0 &&
                     e.held > hold_limits.worse * e.left_by[nearest];
        if (!clear || (kind > 0 && nearest != kind)) return;
        kind = nearest;
        if (e.error < clearest.error) clearest = e;
    }
    if (kind > 0) find_hold(h->motion->check, &clearest, kind);
}

// Velocities that are late or early would be taken for controls that are early or late. So would positions
// alone of a simulation with a step for each sample: but for RK4, these are half a step ahead.
static bool has_punctual_motion(const nsi_motion_fit* f) {
    const ns_data_check* c = f->check;
    const ns_world_def* world = ns_model_world(c->model);
    double period = ns_dataset_period(c->recordings[0].data);
    bool coarse = world->integrator != NS_INTEGRATOR_RK4 && 4.0 * world->timestep > period;
    for (uint32_t k = 0; k < f->nq; k++) {
        const nsi_signal* s = &c->signals[f->channel[k]];
        if (s->velocity == NSI_NONE && coarse) return false;
        if (s->velocity == NSI_NONE) continue;
        if (!s->match.known || fabs(s->match.delay) > 0.25 * period) return false;
    }
    return true;
}

static bool allocate_hold(hold_fit* h, size_t rows) {
    nsi_arena* arena = &h->motion->check->arena;
    size_t nv = h->motion->nv, n = h->nregressor;
    double* memory = nsi_arena_alloc(arena, (5 * rows * nv + 2 * rows + 1) * sizeof *memory);
    h->known = nsi_arena_alloc(arena, rows * sizeof *h->known);
    double* sums = nsi_arena_alloc(arena, nv * (n * n + n) * sizeof *sums);
    if (!memory || !h->known || !sums) return false;
    memset(sums, 0, nv * (n * n + n) * sizeof *sums);
    double** parts[] = {&h->free, &h->driven, &h->rest, &h->mean, &h->gap};
    for (size_t k = 0; k < 5; k++) *parts[k] = memory + k * rows * nv;
    h->sum = memory + 5 * rows * nv;
    h->scratch = h->sum + rows;
    for (size_t i = 0; i < nv; i++) {
        h->sums[i] = (hold_sums){.normal = sums + i * (n * n + n)};
        h->sums[i].right = h->sums[i].normal + n * n;
    }
    return true;
}

static void judge_hold(nsi_motion_fit* f, double* model) {
    ns_data_check* c = f->check;
    hold_fit h = {.motion = f, .nregressor = CONTROLS + 1 + 3 * f->nv};
    bool clear = nsi_motion_has_clean_units(f) && has_punctual_motion(f) &&
                 !nsi_was_found(c, NS_DATA_CONTROL_SIGN, NULL);
    if (f->ncontrol == 0 || f->nv > MAX_COORDINATES || !clear) return;
    uint32_t most = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        uint32_t n = c->recordings[r].recording->nsample;
        if (n > most) most = n;
    }
    if (most > MAX_ROWS) most = MAX_ROWS;
    if (!allocate_hold(&h, most)) {
        c->failed = true;
        return;
    }

    // Recordings until there are enough rows.
    for (uint32_t r = 0; r < c->nrecording && h.count < MAX_ROWS; r++) {
        uint32_t n = c->recordings[r].recording->nsample;
        h.rows = n < most ? n : most;
        if (n < 6 * NSI_MOTION_WINDOW) continue;
        nsi_motion_smooth(f, &c->recordings[r]);
        if (!take_accelerations(&h, &c->recordings[r], model)) continue;
        filter_recording(&h);
        add_rows(&h);
    }
    if (h.count >= MIN_ROWS) judge_estimates(&h);
}

void nsi_check_control_hold(ns_data_check* c) {
    if (c->nsignal == c->nchannel || c->nrecording == 0) return;
    nsi_motion_check(c, ns_dataset_period(c->recordings[0].data) / STEPS, judge_hold);
}
