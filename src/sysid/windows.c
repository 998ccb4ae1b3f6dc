// Windows of recordings, and guesses of their initial states.

#include "sysid/problem.h"

#include <math.h>

// ---- windows -----------------------------------------------------------------------------------

// Something to compare with after the start?
static bool has_values(const nsi_problem* p, const ns_recording* recording, const nsi_window* w) {
    for (size_t k = (size_t)w->start + 1; k <= (size_t)w->start + w->length; k++) {
        for (uint32_t c = 0; c < p->nchannel; c++) {
            if (p->sources[c].scale > 0.0 && !isnan(recording->values[k * p->nchannel + c])) {
                return true;
            }
        }
    }
    return false;
}

// Windows of a recording that lie side by side, and all there could be.
static uint32_t side_by_side(const ns_recording* recording, uint32_t length) {
    if (recording->nsample < 2) return 0;
    return length > 0 ? (recording->nsample - 1) / length : 1;
}
static uint32_t possible(const ns_recording* recording, uint32_t length) {
    return recording->nsample > length ? recording->nsample - length : 0;
}

// `count` windows, evenly among those that lie side by side or, when they are to overlap, among all.
static ns_status windows_lay_out(const nsi_problem* p, const ns_dataset* data, uint32_t length,
                                 uint64_t count, uint64_t total, bool overlap, nsi_windows* out,
                                 ns_error* error) {
    uint32_t recording = 0, stride = overlap ? 1 : length;
    uint64_t passed = 0; // windows of recordings before this one
    for (uint64_t k = 0; k < count; k++) {
        uint64_t number = k * total / count;
        const ns_recording* r = ns_dataset_recording(data, recording);
        for (;; r = ns_dataset_recording(data, ++recording)) {
            uint32_t here = overlap ? possible(r, length) : side_by_side(r, length);
            if (number < passed + here) break;
            passed += here;
        }
        nsi_window w = {.recording = recording,
                        .start = (uint32_t)(number - passed) * stride,
                        .length = length > 0 ? length : r->nsample - 1};
        if (has_values(p, r, &w) && !nsi_array_push(&p->allocator, out, w)) {
            return nsi_fail_nomem(error);
        }
    }
    return NS_OK;
}

ns_status nsi_windows_make(const nsi_problem* p, const ns_dataset* data, uint32_t length,
                           uint32_t most, bool overlap, nsi_windows* out, ns_error* error) {
    uint64_t starts = 0, total = 0;
    uint32_t nrecording = ns_dataset_recording_count(data), longest = 0;

    // How many windows there can be, side by side and at most.
    for (uint32_t r = 0; r < nrecording; r++) {
        const ns_recording* recording = ns_dataset_recording(data, r);
        if (recording->nsample > longest) longest = recording->nsample;
        starts += possible(recording, length);
        total += side_by_side(recording, length);
    }

    // No recording is long enough.
    if (longest < 2) {
        return nsi_fail(error, NS_ERR_PARSE, "every recording has only one sample, or none");
    }
    if (longest <= length) {
        return nsi_fail(error, NS_ERR_PARSE,
                        "windows of %u samples are longer than every recording (%u samples at"
                        " most); take shorter ones",
                        length, longest);
    }

    // Overlap only when there would be too few, thin out when there are too many.
    overlap = overlap && length > 0 && total < most;
    if (overlap) total = starts;
    uint64_t count = most > 0 && most < total ? most : total;
    ns_status status = windows_lay_out(p, data, length, count, total, overlap, out, error);

    // Windows without any value are left out; all of them may be.
    if (status == NS_OK && out->count == 0) {
        status = nsi_fail(error, NS_ERR_PARSE,
                          "there is nothing to compare with: all values are missing or have the"
                          " weight 0");
    }

    // Windows that follow each other can be tied.
    for (uint32_t k = 0; status == NS_OK && k + 1 < out->count; k++) {
        nsi_window *w = &out->data[k], *next = w + 1;
        w->joined = w->recording == next->recording && w->start + w->length == next->start;
    }
    return status;
}

// ---- speed of the motion -------------------------------------------------------------------------

// Samples between two whose difference gives the speed of a coordinate: far enough apart for noise.
enum { SPEED_APART = 5 };
// Range of the characteristic half-period, samples; and the same where no coordinate is recorded, s.
enum { MIN_HALF_PERIOD = 5, MAX_HALF_PERIOD = 2000 };
static const double DEFAULT_HALF_PERIOD = 0.25;

// Squares of deviations from the mean of a recording and of changes per sample, in units of the
// channel.
static void add_channel_motion(const nsi_problem* problem, const ns_recording* r, uint32_t channel,
                               double* range, double* speed) {
    const uint32_t apart = SPEED_APART;
    const nsi_source* source = &problem->sources[channel];
    const double* values = r->values + channel;
    size_t stride = problem->nchannel;

    // Samples may be missing.
    double mean = 0.0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < r->nsample; i++) {
        double v = values[i * stride];
        if (isfinite(v)) mean += v, count++;
    }
    mean /= count > 0 ? count : 1;

    // Changes over several samples, which noise does not hide.
    for (uint32_t i = apart; i < r->nsample; i++) {
        double v = values[i * stride], w = values[(i - apart) * stride];
        if (!isfinite(v) || !isfinite(w)) continue;
        *range += (v - mean) * (v - mean) * source->scale * source->scale;
        *speed += (v - w) * (v - w) * source->scale * source->scale / (apart * apart);
    }
}

uint32_t nsi_windows_half_period(const nsi_problem* p, const ns_dataset* data) {
    double range = 0.0, speed = 0.0;
    for (uint32_t c = 0; c < p->nchannel; c++) {
        const nsi_source* source = &p->sources[c];
        if (!source->state || source->number >= p->nq) continue;
        for (uint32_t k = 0; k < ns_dataset_recording_count(data); k++) {
            add_channel_motion(p, ns_dataset_recording(data, k), c, &range, &speed);
        }
    }
    double samples = speed > 0.0 && range > 0.0 ? sqrt(range / speed)
                                                : DEFAULT_HALF_PERIOD / ns_dataset_period(data);
    return (uint32_t)fmin(fmax(samples, MIN_HALF_PERIOD), MAX_HALF_PERIOD);
}

// ---- states ------------------------------------------------------------------------------------

enum { ORDER = 4 }; // coefficients of a cubic

// Solve A c = b for a symmetric positive A of size n by Cholesky; false when it is singular.
static bool solve(double A[ORDER][ORDER], double* b, int n) {
    for (int j = 0; j < n; j++) {
        for (int k = 0; k < j; k++) A[j][j] -= A[j][k] * A[j][k];
        if (!(A[j][j] > 1e-12)) return false;
        A[j][j] = sqrt(A[j][j]);
        for (int i = j + 1; i < n; i++) {
            for (int k = 0; k < j; k++) A[i][j] -= A[i][k] * A[j][k];
            A[i][j] /= A[j][j];
        }
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < i; k++) b[i] -= A[i][k] * b[k];
        b[i] /= A[i][i];
    }
    for (int i = n - 1; i >= 0; i--) {
        for (int k = i + 1; k < n; k++) b[i] -= A[k][i] * b[k];
        b[i] /= A[i][i];
    }
    return true;
}

// Value and derivative (per sample) at `sample` of the polynomial through what is there around it;
// false when there is too little.
static bool local_fit(const ns_recording* recording, uint32_t nchannel, uint32_t channel,
                      uint32_t sample, uint32_t reach, double* value, double* slope) {
    double from = (double)sample - reach, to = (double)sample + reach;
    if (from < 0.0) from = 0.0;
    if (to > recording->nsample - 1.0) to = recording->nsample - 1.0;
    for (int n = ORDER; n >= 2; n--) {
        double A[ORDER][ORDER] = {{0}}, b[ORDER] = {0};
        uint32_t count = 0;
        for (uint32_t k = (uint32_t)from; k <= (uint32_t)to; k++) {
            double x = recording->values[(size_t)k * nchannel + channel], power[ORDER] = {1.0};
            if (isnan(x)) continue;
            count++;
            for (int i = 1; i < n; i++) power[i] = power[i - 1] * ((double)k - sample) / reach;
            for (int i = 0; i < n; i++) {
                b[i] += power[i] * x;
                for (int j = 0; j < n; j++) A[i][j] += power[i] * power[j];
            }
        }
        if (count < (uint32_t)n || !solve(A, b, n)) continue;
        *value = b[0];
        *slope = b[1] / reach;
        return true;
    }
    return false;
}

static double recorded(const nsi_problem* p, const ns_recording* recording, uint32_t sample,
                       uint32_t state) {
    uint32_t channel = p->channel_of_state[state];
    if (channel == NSI_NONE) return NAN;
    return recording->values[(size_t)sample * p->nchannel + channel];
}

// Angular velocity in the body's frame from two unit quaternions `samples` apart: 2 log(a* b).
static void turn_between(const double a[4], const double b[4], double samples, double out[3]) {
    double w = a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
    double v[3] = {a[0] * b[1] - a[1] * b[0] - a[2] * b[3] + a[3] * b[2],
                   a[0] * b[2] + a[1] * b[3] - a[2] * b[0] - a[3] * b[1],
                   a[0] * b[3] - a[1] * b[2] + a[2] * b[1] - a[3] * b[0]};
    if (w < 0.0) w = -w, v[0] = -v[0], v[1] = -v[1], v[2] = -v[2];
    double s = sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
    double factor = s > 1e-12 ? 2.0 * atan2(s, w) / s : 2.0;
    for (int i = 0; i < 3; i++) out[i] = factor * v[i] / samples;
}

static bool quaternion_at(const nsi_problem* p, const ns_recording* recording, double sample,
                          uint32_t at, double q[4]) {
    if (sample < 0.0 || sample > recording->nsample - 1.0) return false;
    double norm = 0.0;
    for (uint32_t i = 0; i < 4; i++) {
        q[i] = recorded(p, recording, (uint32_t)sample, at + i);
        norm += q[i] * q[i];
    }
    if (!(norm > 0.0)) return false;
    for (int i = 0; i < 4; i++) q[i] /= sqrt(norm);
    return true;
}

// Velocity that belongs to a coordinate: its place in the state, or NSI_NONE.
static uint32_t velocity_of(const nsi_problem* p, const nsi_coordinate* c) {
    return p->model && c->at < p->nq ? p->nq + c->tangent : NSI_NONE;
}

bool nsi_problem_guess(const nsi_problem* p, const ns_recording* recording, uint32_t sample,
                       uint32_t reach, double* x) {
    const ns_model* model = p->variants[nsi_problem_variant(p, recording)].model;
    memset(x, 0, p->sizes.nx * sizeof(double));
    if (model) ns_model_default_q(model, x);
    double rate = 1.0 / (p->substeps * p->sizes.timestep); // samples per s
    bool known = true;

    // Position and velocity of each coordinate.
    for (uint32_t k = 0; k < p->ncoordinate; k++) {
        const nsi_coordinate* c = &p->coordinates[k];
        uint32_t velocity = velocity_of(p, c), channel = p->channel_of_state[c->at];

        // A rotation: the nearest recorded one, and the turn between its neighbours.
        if (c->quaternion) {
            double q[3][4], nearest[4]; // q: of the samples before, here and after
            bool there[3], known_here = false;
            for (int i = 0; i < 3; i++) {
                there[i] = quaternion_at(p, recording, (double)sample + i - 1.0, c->at, q[i]);
            }
            for (double away = 0.0; away <= reach && !known_here; away += 1.0) { // the nearest
                known_here = quaternion_at(p, recording, sample - away, c->at, nearest) ||
                             quaternion_at(p, recording, sample + away, c->at, nearest);
            }
            if (known_here) memcpy(x + c->at, nearest, sizeof nearest);
            known &= known_here || channel == NSI_NONE;
            int first = there[0] ? 0 : 1, last = there[2] ? 2 : 1;
            if (first < last && there[first] && there[last]) {
                double turn[3];
                turn_between(q[first], q[last], last - first, turn);
                for (uint32_t i = 0; i < 3; i++) x[velocity + i] = turn[i] * rate;
            }
            continue;
        }

        // A number: as recorded, or a local cubic.
        if (channel == NSI_NONE) continue;
        double value, slope, exact = recorded(p, recording, sample, c->at);
        bool measured = velocity != NSI_NONE && !isnan(recorded(p, recording, sample, velocity));
        bool fitted = local_fit(recording, p->nchannel, channel, sample, reach, &value, &slope);
        // With its velocity recorded, a position is taken as it is; otherwise both are smoothed.
        if (!isnan(exact) && (measured || velocity == NSI_NONE || !fitted)) {
            x[c->at] = exact;
        } else if (fitted) {
            x[c->at] = value;
        }
        known &= fitted || !isnan(exact);
        if (velocity != NSI_NONE && fitted) x[velocity] = slope * rate;
    }
    // Recorded velocities last: they stand behind the positions.
    for (uint32_t k = 0; k < p->nv; k++) {
        double exact = recorded(p, recording, sample, p->nq + k);
        if (!isnan(exact)) x[p->nq + k] = exact;
    }
    return known;
}
