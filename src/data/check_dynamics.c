// Accelerations of the recorded motion beside those of the model.
//
// Degrees: angles without velocities are tried in both units. Where the model explains hardly anything of the
// accelerations in rad and most of them in degrees, they are degrees.
//
// The sign of controls: accelerations that the model does not explain without controls are regressed on
// those that each control adds in the model. The factors are near 1 where the model is right; a clearly
// negative one says that the motion answers this control the other way round.

#include "data/check_motion.h"

#include "base/series.h"
#include "neuralsim/io_names.h"

#include <math.h>
#include <stdio.h>

enum { MAX_SAMPLES = 400 };

static const struct {
    double factor; // more negative than this
    double errors; // standard errors from 0
    double share;  // of what is left unexplained by the others
} thresholds = {.factor = -0.25, .errors = 5.0, .share = 0.3};

// Of the accelerations' squares, what the model leaves unexplained in rad and in degrees.
static const struct { double rad, degrees; } unexplained = {.rad = 0.8, .degrees = 0.4};

// ---- motion --------------------------------------------------------------------------------------

// All coordinates are needed, of joints with one; velocities come from them where they are missing.
static bool find_channels(nsi_motion_fit* f) {
    const ns_data_check* c = f->check;
    for (uint32_t k = 0; k < f->nq + f->nv; k++) f->channel[k] = NSI_NONE;
    for (uint32_t k = 0; k < c->nchannel; k++) {
        const nsi_signal* s = &c->signals[k];
        bool joint = s->kind != NSI_SIGNAL_OTHER;
        if (joint && s->state < f->nq + f->nv) f->channel[s->state] = k;
    }
    for (uint32_t k = 0; k < f->nq; k++) {
        if (f->channel[k] == NSI_NONE) return false;
    }
    return f->nq == f->nv;
}

// Units that are wrong, and jumps, would be taken for dynamics.
bool nsi_motion_has_clean_units(const nsi_motion_fit* f) {
    const ns_data_check* c = f->check;
    for (uint32_t k = 0; k < f->nq; k++) {
        const char* name = c->signals[f->channel[k]].name;
        if (nsi_was_found(c, NS_DATA_DEGREES, name) ||
            nsi_was_found(c, NS_DATA_MILLIMETRES, name) ||
            nsi_was_found(c, NS_DATA_WRAPPED, name)) {
            return false;
        }
    }
    return !nsi_was_found(c, NS_DATA_MILLISECONDS, NULL);
}

static bool find_controls(nsi_motion_fit* f) {
    const ns_data_check* c = f->check;
    ns_io_names* names = NULL;
    if (ns_io_names_create(f->system, &names, &f->error) != NS_OK) return false;
    bool all = true;
    for (uint32_t k = 0; k < f->ncontrol; k++) {
        ns_io_target target = ns_io_names_find(names, c->signals[c->nchannel + k].quantity);
        all = all && target.kind == NS_IO_CONTROL;
        f->control[k] = target.index;
    }
    ns_io_names_free(names);
    return all;
}

// Smooth positions and velocities of a recording, and differentiate.
void nsi_motion_smooth(nsi_motion_fit* f, const nsi_checked_recording* r) {
    const ns_data_check* c = f->check;
    uint32_t n = r->recording->nsample;
    double period = ns_dataset_period(r->data) * f->time_unit;
    double *raw = f->column, *rate = raw + n, *acceleration = rate + n;
    for (uint32_t i = 0; i < f->nq; i++) {
        bool angle = c->signals[f->channel[i]].kind == NSI_SIGNAL_ANGLE;
        double unit = angle ? f->angle_unit : 1.0;
        for (uint32_t k = 0; k < n; k++) {
            raw[k] = unit * r->recording->values[(size_t)k * c->nchannel + f->channel[i]];
        }
        nsi_series_smooth(raw, NULL, n, NSI_MOTION_WINDOW, NSI_MOTION_ORDER, false, rate);
        for (uint32_t k = 0; k < n; k++) f->q[(size_t)k * f->nq + i] = rate[k];
        nsi_series_smooth(raw, NULL, n, NSI_MOTION_WINDOW, NSI_MOTION_ORDER, true, rate);
        for (uint32_t k = 0; k < n; k++) rate[k] /= period;

        // A recorded velocity is better than a derivative.
        uint32_t velocity = f->channel[f->nq + i];
        for (uint32_t k = 0; k < n && velocity != NSI_NONE; k++) {
            rate[k] = r->recording->values[(size_t)k * c->nchannel + velocity];
        }
        nsi_series_smooth(rate, NULL, n, NSI_MOTION_WINDOW, NSI_MOTION_ORDER, true, acceleration);
        for (uint32_t k = 0; k < n; k++) {
            f->qd[(size_t)k * f->nv + i] = rate[k];
            f->qdd[(size_t)k * f->nv + i] = acceleration[k] / period;
        }
    }
}

// ---- accelerations of the model ------------------------------------------------------------------

// One step from the state of sample k, without control and with each one alone.
bool nsi_motion_accelerations(nsi_motion_fit* f, const nsi_checked_recording* r, uint32_t k,
                              double* out) {
    uint32_t batch = f->ncontrol + 1, nc = f->sizes.nc, nx = f->sizes.nx;
    memset(f->controls, 0, (size_t)batch * nc * sizeof *f->controls);
    for (uint32_t b = 0; b < batch; b++) {
        double* x = f->x0 + (size_t)b * nx;
        memcpy(x, f->q + (size_t)k * f->nq, f->nq * sizeof *x);
        memcpy(x + f->nq, f->qd + (size_t)k * f->nv, f->nv * sizeof *x);
        if (b == 0) continue;
        f->controls[(size_t)b * nc + f->control[b - 1]] =
            r->recording->controls[(size_t)k * f->ncontrol + b - 1];
    }
    ns_rollout_args args = {
        .batch = batch, .steps = 1, .x0 = f->x0, .controls = f->controls, .states = f->states};
    if (ns_rollout(f->system, f->work, &args, &f->error) != NS_OK) return false;
    for (uint32_t b = 0; b < batch; b++) {
        const double* next = f->states + (size_t)b * 2 * nx + nx;
        for (uint32_t i = 0; i < f->nv; i++) {
            out[(size_t)b * f->nv + i] =
                (next[f->nq + i] - f->qd[(size_t)k * f->nv + i]) / f->sizes.timestep;
        }
    }
    return true;
}

bool nsi_motion_is_known(const nsi_motion_fit* f, const nsi_checked_recording* r, uint32_t k) {
    for (uint32_t i = 0; i < f->nv; i++) {
        double sum = f->q[(size_t)k * f->nq + i] + f->qd[(size_t)k * f->nv + i] +
                     f->qdd[(size_t)k * f->nv + i];
        if (!isfinite(sum)) return false;
    }
    for (uint32_t i = 0; i < f->ncontrol; i++) {
        if (!isfinite(r->recording->controls[(size_t)k * f->ncontrol + i])) return false;
    }
    return true;
}

// Sums of the normal equations from one sample.
static void add_sample(nsi_motion_fit* f, uint32_t k, const double* model) {
    for (uint32_t i = 0; i < f->nv; i++) {
        double w = f->weights[i], rest = w * (f->qdd[(size_t)k * f->nv + i] - model[i]);
        double acceleration = w * f->qdd[(size_t)k * f->nv + i], left = rest;
        for (uint32_t a = 0; a < f->ncontrol; a++) {
            left -= w * (model[(size_t)(a + 1) * f->nv + i] - model[i]);
        }
        if (f->check->signals[f->channel[i]].kind == NSI_SIGNAL_ANGLE) {
            f->size += acceleration * acceleration;
            f->misfit += left * left;
        }
        f->rest += rest * rest;
        f->count++;
        for (uint32_t a = 0; a < f->ncontrol; a++) {
            double by_a = w * (model[(size_t)(a + 1) * f->nv + i] - model[i]);
            f->right[a] += by_a * rest;
            for (uint32_t b = 0; b < f->ncontrol; b++) {
                double by_b = w * (model[(size_t)(b + 1) * f->nv + i] - model[i]);
                f->normal[(size_t)a * f->ncontrol + b] += by_a * by_b;
            }
        }
    }
}

// Accelerations in units of their size, so that all joints count.
static void choose_weights(nsi_motion_fit* f, const nsi_checked_recording* r) {
    uint32_t n = r->recording->nsample;
    for (uint32_t i = 0; i < f->nv; i++) {
        size_t count = 0;
        for (uint32_t k = 0; k < n; k++) {
            double a = fabs(f->qdd[(size_t)k * f->nv + i]);
            if (isfinite(a)) f->column[count++] = a;
        }
        double size = nsi_median(f->column, count);
        f->weights[i] = size > 0.0 ? 1.0 / size : 0.0;
    }
}

static bool add_recording(nsi_motion_fit* f, const nsi_checked_recording* r, uint32_t stride,
                          double* model) {
    if (r->recording->nsample < 2 * NSI_MOTION_WINDOW) return true;
    nsi_motion_smooth(f, r);
    choose_weights(f, r);
    // Ends are smoothed worse.
    for (uint32_t k = NSI_MOTION_WINDOW; k + NSI_MOTION_WINDOW < r->recording->nsample;
         k += stride) {
        if (!nsi_motion_is_known(f, r, k)) continue;
        if (!nsi_motion_accelerations(f, r, k, model)) return false;
        add_sample(f, k, model);
    }
    return true;
}

// ---- the regression ------------------------------------------------------------------------------

// Invert a symmetric positive matrix in place by Gauss-Jordan; rows without size stay 0.
void nsi_motion_invert(double* a, uint32_t n) {
    double largest = 0.0;
    for (uint32_t i = 0; i < n; i++) largest = fmax(largest, a[(size_t)i * n + i]);
    for (uint32_t p = 0; p < n; p++) {
        double pivot = a[(size_t)p * n + p];
        bool empty = !(pivot > 1e-10 * largest);
        for (uint32_t j = 0; j < n; j++) {
            a[(size_t)p * n + j] = empty    ? 0.0
                                   : j == p ? 1.0 / pivot
                                            : a[(size_t)p * n + j] / pivot;
        }
        for (uint32_t i = 0; i < n; i++) {
            if (i == p) continue;
            double factor = a[(size_t)i * n + p];
            a[(size_t)i * n + p] = 0.0;
            for (uint32_t j = 0; j < n && !empty; j++) {
                a[(size_t)i * n + j] -= factor * a[(size_t)p * n + j];
            }
        }
    }
}

static void judge(nsi_motion_fit* f) {
    ns_data_check* c = f->check;
    uint32_t n = f->ncontrol;
    if (f->count < 20.0 * n) return;
    nsi_motion_invert(f->normal, n);
    double factors[NSI_MOTION_MAX_CONTROLS], left = f->rest;
    for (uint32_t a = 0; a < n; a++) {
        factors[a] = 0.0;
        for (uint32_t b = 0; b < n; b++) factors[a] += f->normal[(size_t)a * n + b] * f->right[b];
        left -= factors[a] * f->right[a];
    }
    left = fmax(left, 0.0);
    for (uint32_t a = 0; a < n; a++) {
        double inverse = f->normal[(size_t)a * n + a], factor = factors[a];
        if (!(inverse > 0.0)) continue;
        // Neighbouring samples share the rows that they are smoothed from.
        double error = sqrt(NSI_MOTION_WINDOW * inverse * left / f->count),
               drop = factor * factor / inverse;
        if (factor > thresholds.factor || factor > -thresholds.errors * error ||
            drop < thresholds.share * (drop + left)) {
            continue;
        }
        const nsi_signal* s = &c->signals[c->nchannel + a];
        char advice[200];
        const char* quote = nsi_yaml_quote(s->formula);
        snprintf(advice, sizeof advice,
                 "change its sign in the map, %s-(%.80s)%s, or the axis in the model", quote,
                 s->formula, quote);
        nsi_find(
            c, NS_DATA_CONTROL_SIGN, NS_DATA_WARNING, s->name, NULL, factor, advice,
            "accelerations are %.2g times those that it makes in the model: its sign seems wrong",
            factor);
    }
}

// ---- the check -----------------------------------------------------------------------------------

static bool allocate(nsi_motion_fit* f) {
    ns_data_check* c = f->check;
    uint32_t most = 0, batch = f->ncontrol + 1;
    for (uint32_t r = 0; r < c->nrecording; r++) {
        uint32_t n = c->recordings[r].recording->nsample;
        if (n > most) most = n;
    }
    size_t n = most + 1;
    f->q = nsi_arena_alloc(&c->arena, n * f->nq * sizeof(double));
    f->qd = nsi_arena_alloc(&c->arena, n * f->nv * sizeof(double));
    f->qdd = nsi_arena_alloc(&c->arena, n * f->nv * sizeof(double));
    f->column = nsi_arena_alloc(&c->arena, 3 * n * sizeof(double));
    f->x0 = nsi_arena_alloc(&c->arena, (size_t)batch * (f->sizes.nx + 1) * sizeof(double));
    f->controls = nsi_arena_alloc(&c->arena, (size_t)batch * (f->sizes.nc + 1) * sizeof(double));
    f->states = nsi_arena_alloc(&c->arena, 2 * (size_t)batch * (f->sizes.nx + 1) * sizeof(double));
    f->weights = nsi_arena_alloc(&c->arena, (f->nv + 1) * sizeof(double));
    size_t square = (size_t)f->ncontrol * f->ncontrol;
    f->normal = nsi_arena_alloc(&c->arena, (square + 1) * sizeof(double));
    f->right = nsi_arena_alloc(&c->arena, (f->ncontrol + 1) * sizeof(double));
    return f->q && f->qd && f->qdd && f->column && f->x0 && f->controls && f->states &&
           f->weights && f->normal && f->right;
}

// Gather the sums of all recordings. False when the model cannot be simulated from these states, which
// others judge.
static bool gather(nsi_motion_fit* f, double* model) {
    ns_data_check* c = f->check;
    size_t total = 0;
    for (uint32_t r = 0; r < c->nrecording; r++) total += c->recordings[r].recording->nsample;
    uint32_t stride = (uint32_t)(1 + total / MAX_SAMPLES);
    f->size = f->misfit = f->rest = f->count = 0.0;
    memset(f->normal, 0, (size_t)f->ncontrol * f->ncontrol * sizeof(double));
    memset(f->right, 0, f->ncontrol * sizeof(double));
    bool done = true;
    for (uint32_t r = 0; r < c->nrecording && done; r++) {
        done = add_recording(f, &c->recordings[r], stride, model);
    }
    return done && f->count > 0.0;
}

static void judge_signs(nsi_motion_fit* f, double* model) {
    if (nsi_motion_has_clean_units(f) && f->ncontrol > 0 && gather(f, model)) judge(f);
}

// Angles beyond half a turn that no velocity, limit or name has told about.
static bool may_be_degrees(const nsi_motion_fit* f) {
    const ns_data_check* c = f->check;
    bool far = false;
    for (uint32_t k = 0; k < f->nq; k++) {
        const nsi_signal* s = &c->signals[f->channel[k]];
        if (s->kind != NSI_SIGNAL_ANGLE) continue;
        if (s->velocity != NSI_NONE || nsi_was_found(c, NS_DATA_DEGREES, s->name)) return false;
        far = far || fmax(fabs(s->stats.min), fabs(s->stats.max)) > NSI_PI;
    }
    return far;
}

// The factor by which recorded times are too large.
static double known_time_factor(const ns_data_check* c) {
    for (uint32_t k = 0; k < c->findings.count; k++) {
        if (c->findings.data[k].code == NS_DATA_MILLISECONDS) return c->findings.data[k].value;
    }
    return 1.0;
}

static void judge_degrees(nsi_motion_fit* f, double* model) {
    ns_data_check* c = f->check;
    if (!may_be_degrees(f)) return;
    f->time_unit = 1.0 / known_time_factor(c);
    bool known = gather(f, model);
    double rad = known ? f->misfit / f->size : INFINITY; // the model cannot even be there
    f->angle_unit = NSI_PI / 180.0;
    known = gather(f, model);
    double degrees = known ? f->misfit / f->size : INFINITY;
    if (!(rad > unexplained.rad) || !(degrees < unexplained.degrees)) return;

    for (uint32_t k = 0; k < f->nq; k++) {
        const nsi_signal* s = &c->signals[f->channel[k]];
        char advice[200];
        if (s->kind != NSI_SIGNAL_ANGLE) continue;
        const char* quote = nsi_yaml_quote(s->formula);
        snprintf(advice, sizeof advice, "write %s%.100s * deg%s in the map", quote, s->formula,
                 quote);
        nsi_find(c, NS_DATA_DEGREES, NS_DATA_WARNING, s->name, NULL, 180.0 / NSI_PI, advice,
                 "it seems to be in degrees, not rad: in degrees the model explains %.0f %% of the "
                 "accelerations, in rad %.0f %%",
                 100.0 * (1.0 - degrees), 100.0 * fmax(0.0, 1.0 - rad));
    }
}

static void run(nsi_motion_fit* f, void (*judge_by)(nsi_motion_fit*, double*)) {
    ns_data_check* c = f->check;
    ns_workspace_size size = {.batch = f->ncontrol + 1, .steps = 1, .threads = 1};
    double* model =
        nsi_arena_alloc(&c->arena, (size_t)(f->ncontrol + 1) * (f->nv + 1) * sizeof(double));
    if (!model || !allocate(f) ||
        ns_workspace_create(f->system, &size, &f->work, &f->error) != NS_OK) {
        c->failed = true;
        return;
    }
    judge_by(f, model);
    ns_workspace_free(f->work);
}

// Set up the model and the places of the signals in it, and judge.
void nsi_motion_check(ns_data_check* c, double timestep,
                      void (*judge_by)(nsi_motion_fit*, double*)) {
    uint32_t ncontrol = c->nsignal - c->nchannel;
    if (!c->model || ncontrol > NSI_MOTION_MAX_CONTROLS || c->map->row_samples > 0) return;
    nsi_motion_fit f = {.check = c, .ncontrol = ncontrol, .angle_unit = 1.0, .time_unit = 1.0};
    ns_model_sizes n = ns_model_get_sizes(c->model);
    f.nq = n.nq;
    f.nv = n.nv;
    f.channel = nsi_arena_alloc(&c->arena, ((size_t)f.nq + f.nv + 1) * sizeof *f.channel);
    f.control = nsi_arena_alloc(&c->arena, ((size_t)ncontrol + 1) * sizeof *f.control);
    if (!f.channel || !f.control) {
        c->failed = true;
        return;
    }
    if (!find_channels(&f)) return;
    ns_system_options options = ns_default_system_options();
    if (timestep > 0.0) options.timestep = timestep;
    if (ns_system_create(c->model, &options, &f.system, &f.error) != NS_OK) return;
    f.sizes = ns_system_get_sizes(f.system);
    // Motors with an angle of their own have a state that nobody recorded.
    if (f.sizes.nx == f.nq + f.nv && find_controls(&f)) run(&f, judge_by);
    ns_system_free(f.system);
}

void nsi_check_degrees_by_motion(ns_data_check* c) {
    nsi_motion_check(c, 0.0, judge_degrees);
}

void nsi_check_control_sign(ns_data_check* c) {
    if (c->nsignal > c->nchannel) nsi_motion_check(c, 0.0, judge_signs);
}
