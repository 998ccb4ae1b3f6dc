// Errors of predictions: of channels, at horizons, and metrics as a field reports them. Sums are kept
// for each window and added in order.

#include "sysid/prediction_state.h"

#include <stdlib.h>

// Squared errors of one window: of each channel, and of positions up to each horizon. Kept per window
// and added in order.
typedef struct sums {
    const nsi_predict_job* j;
    uint32_t width; // numbers per window
    double*
        window; // per window: (nchannel) sums, counts, (nhorizon) sums, counts, (nmeasure) sums,
                // counts, lost
} sums;

static bool is_position(const nsi_problem* p, uint32_t channel) {
    return p->sources[channel].state && p->sources[channel].number < p->nq;
}

// A formula of the channels of a row.
static double eval_formula(const nsi_error_formula* f, const double* row) {
    double a[NSI_FORMULA_MAX_OPS];
    for (uint32_t k = 0; k < ns_formula_variable_count(f->formula); k++) a[k] = row[f->channels[k]];
    return ns_formula_eval(f->formula, a);
}

static double formula_error(const nsi_error_formula* f, const double* row, const double* truth) {
    return eval_formula(f, row) - eval_formula(f, truth);
}

// The angle between two rotations, in degrees. Quaternions of both signs are the same rotation; the
// difference and the sum of two unit vectors are at a right angle, and tell small angles exactly.
static double rotation_between(const nsi_metric* m, const double* row, const double* truth) {
    double a[4], b[4], aa = 0.0, bb = 0.0, ab = 0.0, less = 0.0, more = 0.0;
    for (int k = 0; k < 4; k++) {
        a[k] = eval_formula(&m->formulas[k], row);
        b[k] = eval_formula(&m->formulas[k], truth);
        aa += a[k] * a[k];
        bb += b[k] * b[k];
        ab += a[k] * b[k];
    }
    double sign = ab < 0.0 ? -1.0 : 1.0;
    for (int k = 0; k < 4; k++) { // NaN for four zeros, which are no rotation
        double x = sign * a[k] / sqrt(aa), y = b[k] / sqrt(bb);
        less += (x - y) * (x - y);
        more += (x + y) * (x + y);
    }
    return 4.0 * atan2(sqrt(less), sqrt(more)) * (180.0 / 3.14159265358979323846);
}

static double distance_between(const nsi_metric* m, const double* row, const double* truth) {
    double sum = 0.0;
    for (uint32_t k = 0; k < m->nformula; k++) {
        double off = formula_error(&m->formulas[k], row, truth);
        sum += off * off;
    }
    return sqrt(sum);
}

// Is all that a measure is made of recorded?
static bool is_recorded(const nsi_metric* m, const double* truth) {
    for (uint32_t k = 0; k < m->nformula; k++) {
        if (isnan(eval_formula(&m->formulas[k], truth))) return false;
    }
    return true;
}

static void take_metrics(const nsi_predict_job* j, const double* row, const double* truth,
                         double* sum, double* count) {
    for (uint32_t k = 0; k < j->options->nmetric; k++) {
        const nsi_metric* m = &j->options->metrics[k];
        if (!is_recorded(m, truth)) continue;
        double d = m->rotation ? rotation_between(m, row, truth) : distance_between(m, row, truth);
        if (!isfinite(d)) d = INFINITY;
        sum[k] += m->mean ? d : d * d;
        count[k] += 1.0;
    }
}

static void add_near(const nsi_predict_job* j, uint32_t sample, double square, double* near) {
    uint32_t nh = j->options->nhorizon;
    for (uint32_t h = 0; h < nh; h++) {
        if (sample > nsi_horizon_samples(j, h)) continue;
        near[h] += square;
        near[nh + h] += 1.0;
    }
}

static void add_window(void* context, uint32_t number, const nsi_predict_worker* from) {
    sums* s = context;
    const nsi_predict_job* j = s->j;
    const nsi_problem* p = j->p;
    const nsi_window* w = &j->windows.data[number];
    const double* values = from->values;
    uint32_t nc = p->nchannel, nh = j->options->nhorizon, origin = w->start + j->history;
    const double* recorded = ns_dataset_recording(j->data, w->recording)->values;

    // The sums of this window: per channel, per horizon, per metric, then whether it diverged.
    double *sum = s->window + (size_t)number * s->width, *count = sum + nc;
    uint32_t nm = j->options->nmetric;
    double *near = count + nc, *measured = near + 2 * (size_t)nh, *lost = measured + 2 * (size_t)nm;

    // Position errors measure the trajectory; without positions every channel counts.
    bool positions = false;
    for (uint32_t c = 0; c < nc; c++) positions |= is_position(p, c);

    for (uint32_t k = 1; k <= w->length - j->history; k++) {
        const double* truth = recorded + ((size_t)origin + k) * nc;
        const double* row = values + (size_t)k * nc;

        // Errors of channels where there is a recorded value.
        for (uint32_t c = 0; c < nc; c++) {
            double off = row[c] - truth[c], square = off * off;
            if (isnan(truth[c])) continue;
            if (!isfinite(square)) { // nothing is as wrong as no number
                *lost = 1.0;
                square = INFINITY;
            }
            sum[c] += square;
            count[c] += 1.0;

            bool counts = j->options->nerror == 0 && (is_position(p, c) || !positions);
            if (counts) add_near(j, k, square, near);
        }

        // Error formulas of the spec replace the position error.
        for (uint32_t i = 0; i < j->options->nerror; i++) {
            double off = formula_error(&j->options->errors[i], row, truth), square = off * off;
            double reference = formula_error(&j->options->errors[i], truth, truth);
            if (isnan(reference)) continue; // something was not recorded
            add_near(j, k, isfinite(square) ? square : INFINITY, near);
        }
        take_metrics(j, row, truth, measured, measured + nm);
    }
}

static double rms_of(double sum, double count) {
    return count > 0.0 ? sqrt(sum / count) : NAN;
}

static int compare_numbers(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

static double median_of(double* values, uint32_t count) {
    if (count == 0) return NAN;
    qsort(values, count, sizeof *values, compare_numbers);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static void score_horizon(const sums* s, uint32_t h, double* scratch, ns_horizon_error* out) {
    const nsi_predict_job* j = s->j;
    uint32_t nc = j->p->nchannel, nh = j->options->nhorizon, count = 0;
    double sum = 0.0, number = 0.0;
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const double* w = s->window + (size_t)k * s->width + 2 * (size_t)nc;
        bool reaches = j->windows.data[k].length - j->history >= nsi_horizon_samples(j, h);
        if (!reaches || w[nh + h] == 0.0) continue;
        sum += w[h];
        number += w[nh + h];
        scratch[count++] = rms_of(w[h], w[nh + h]);
    }
    *out = (ns_horizon_error){.seconds = j->options->horizons[h],
                              .pooled = rms_of(sum, number),
                              .median = median_of(scratch, count),
                              .windows = count,
                              .samples = nsi_horizon_samples(j, h)};
}

static void score_metric(const sums* s, uint32_t k, double* scratch, ns_metric_score* out) {
    const nsi_predict_job* j = s->j;
    const nsi_metric* m = &j->options->metrics[k];
    uint32_t nm = j->options->nmetric, count = 0;
    double sum = 0.0;
    for (uint32_t i = 0; i < j->windows.count; i++) {
        const double* w = s->window + (size_t)i * s->width + (s->width - 1 - 2 * (size_t)nm);
        if (w[nm + k] == 0.0) continue;
        double average = w[k] / w[nm + k];
        scratch[count] = m->mean ? average : sqrt(average);
        sum += scratch[count++];
    }
    *out = (ns_metric_score){.name = m->name,
                             .unit = m->unit,
                             .windows = count,
                             .mean = count > 0 ? sum / count : NAN,
                             .median = median_of(scratch, count)};
}

// Sums over windows and channels: of positions, then of velocities.
typedef struct kind_sums {
    double sum[2], count[2];
} kind_sums;

static void add_kinds(const sums* s, const double* w, kind_sums* to) {
    const nsi_problem* p = s->j->p;
    for (uint32_t c = 0; c < p->nchannel; c++) {
        if (!p->sources[c].state) continue;
        int kind = is_position(p, c) ? 0 : 1;
        to->sum[kind] += w[c];
        to->count[kind] += w[p->nchannel + c];
    }
}

// kinds: (nrecording + 1) of zeros, the last one for all recordings.
static void score_kinds(const sums* s, kind_sums* kinds, nsi_prediction* out) {
    const nsi_predict_job* j = s->j;
    kind_sums* all = &kinds[out->nrecording];
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const double* w = s->window + (size_t)k * s->width;
        add_kinds(s, w, &kinds[j->windows.data[k].recording]);
        add_kinds(s, w, all);
    }
    for (uint32_t r = 0; r < out->nrecording; r++) {
        out->recordings[r].rmse_q = rms_of(kinds[r].sum[0], kinds[r].count[0]);
        out->recordings[r].rmse_qd = rms_of(kinds[r].sum[1], kinds[r].count[1]);
    }
    out->score.rmse_q = rms_of(all->sum[0], all->count[0]);
    out->score.rmse_qd = rms_of(all->sum[1], all->count[1]);
}

// Windows that had to start from a state that is not recorded.
static uint32_t count_blind(const nsi_predict_job* j, double* x) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < j->windows.count && j->history == 0; k++) {
        const nsi_window* w = &j->windows.data[k];
        const ns_recording* recording = ns_dataset_recording(j->data, w->recording);
        count += !nsi_problem_guess(j->p, recording, w->start, j->options->smoothing, x);
    }
    return count;
}

static void score_windows(const sums* s, double* scratch, kind_sums* kinds, nsi_prediction* out) {
    const nsi_predict_job* j = s->j;
    uint32_t nc = j->p->nchannel, nh = j->options->nhorizon;

    // RMSE of each channel, and the loss over the channels that are fitted.
    double scaled = 0.0, scaled_count = 0.0;
    for (uint32_t c = 0; c < nc; c++) {
        double sum = 0.0, count = 0.0, scale = j->p->sources[c].scale;
        for (uint32_t k = 0; k < j->windows.count; k++) {
            sum += s->window[(size_t)k * s->width + c];
            count += s->window[(size_t)k * s->width + nc + c];
        }

        out->channels[c] = rms_of(sum, count);
        if (scale == 0.0) continue; // also when the sum is infinite
        scaled += sum * scale * scale;
        scaled_count += count;
    }

    // Windows that diverged, and the samples that each recording contributes.
    for (uint32_t k = 0; k < j->windows.count; k++) {
        const double* w = s->window + (size_t)k * s->width;
        out->score.lost += w[s->width - 1] != 0.0;
        out->recordings[j->windows.data[k].recording].samples +=
            j->windows.data[k].length - j->history;
    }

    // Errors by kind of channel, by horizon and by metric.
    score_kinds(s, kinds, out);
    for (uint32_t h = 0; h < nh; h++) score_horizon(s, h, scratch, &out->score.horizons[h]);
    for (uint32_t k = 0; k < j->options->nmetric; k++) {
        score_metric(s, k, scratch, &out->score.metrics[k]);
    }
    out->score.nmetric = j->options->nmetric;

    // Totals.
    out->score.windows = j->windows.count;
    for (uint32_t k = 0; k < j->windows.count; k++) {
        out->score.samples += j->windows.data[k].length - j->history;
    }
    out->score.loss = rms_of(scaled, scaled_count);
    out->score.nhorizon = nh;
    out->blind = count_blind(j, scratch);
}

ns_status nsi_predict(const nsi_problem* problem, const ns_dataset* data, const double* z,
                      const double* weights, const nsi_predict_options* options,
                      nsi_prediction* out, ns_error* error) {
    // All are NULL until they are needed, so that the end can free them.
    nsi_predict_job j;
    double *memory = NULL, *scratch = NULL;
    kind_sums* kinds = NULL;

    // Choose the windows.
    *out = (nsi_prediction){.allocator = problem->allocator,
                            .nchannel = problem->nchannel,
                            .nrecording = ns_dataset_recording_count(data)};
    ns_status status = nsi_predict_start(&j, problem, data, z, weights, options, &memory, error);
    sums s = {.j = &j, .width = 2 * (problem->nchannel + options->nhorizon + options->nmetric) + 1};

    // Sums are kept per window, so that medians over windows exist.
    if (status == NS_OK) {
        size_t windows = j.windows.count, one = sizeof(double);
        s.window = nsi_alloc_zeroed(&j.allocator, windows * s.width * one);
        scratch = nsi_alloc(&j.allocator, (windows + problem->sizes.nx + 1) * one);
        kinds = nsi_alloc_zeroed(&j.allocator, ((size_t)out->nrecording + 1) * sizeof *kinds);
        out->channels = nsi_alloc(&j.allocator, ((size_t)out->nchannel + 1) * one);
        out->recordings =
            nsi_alloc_zeroed(&j.allocator, ((size_t)out->nrecording + 1) * sizeof *out->recordings);
        out->score.horizons =
            nsi_alloc(&j.allocator, ((size_t)options->nhorizon + 1) * sizeof(ns_horizon_error));
        out->score.metrics =
            nsi_alloc(&j.allocator, ((size_t)options->nmetric + 1) * sizeof(ns_metric_score));

        // One check for all of them.
        bool ok = s.window && scratch && kinds && out->channels && out->recordings &&
                  out->score.horizons && out->score.metrics;
        status = ok ? nsi_predict_for_windows(&j, add_window, &s, error) : nsi_fail_nomem(error);
    }

    // Windows are added in any order by threads; the scores are formed in window order.
    if (status == NS_OK) score_windows(&s, scratch, kinds, out);

    // Only the scores outlive the job.
    nsi_free(&j.allocator, s.window);
    nsi_free(&j.allocator, scratch);
    nsi_free(&j.allocator, kinds);
    nsi_predict_end(&j, memory);
    if (status != NS_OK) nsi_prediction_free(out);
    return status;
}

void nsi_prediction_free(nsi_prediction* prediction) {
    if (!prediction->allocator.free) return;
    ns_allocator memory = prediction->allocator;
    nsi_free(&memory, prediction->channels);
    nsi_free(&memory, prediction->recordings);
    nsi_free(&memory, prediction->score.horizons);
    nsi_free(&memory, prediction->score.metrics);
    *prediction = (nsi_prediction){.allocator = memory};
}
