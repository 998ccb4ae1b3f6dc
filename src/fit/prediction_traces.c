// First the rows of all recordings that are shown, then predictions into them.

#include "fit/prediction_traces.h"

#include "fit/posterior_summary.h"
#include "neuralsim/table.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    MAX_ROWS = 20000,
    MAX_NUMBERS = 8000000, // of all states and channels
    MAX_TRACES = 40,
    MAX_PREDICTIONS = 500, // each may have to find its state first
    MIN_SAMPLES = 1000,    // a recording for which there is less room is left out
    MAX_DRAWS = 64,        // of the posterior, for bands; with less room half as many, and so on
    MIN_DRAWS = 16
};

// A recording, or its beginning, and its rows.
typedef struct piece {
    ns_data_role role;
    uint32_t recording, trace;
    uint32_t samples;
    uint32_t first; // row
} piece;

typedef struct maker {
    const ns_fit* f;
    nsi_traces* e;
    NSI_ARRAY(piece) pieces;
} maker;

static const ns_recording* recording_of(const maker* m, const piece* p) {
    return ns_dataset_recording(m->f->data[p->role], p->recording);
}

static double period_of(const maker* m) {
    return ns_dataset_period(m->f->data[NS_ROLE_TRAIN]);
}

// ---- rows --------------------------------------------------------------------------------------

static bool overlap(const maker* m, const ns_recording* a, const ns_recording* b) {
    double half = 0.5 * period_of(m);
    return a->start < b->start + b->nsample * period_of(m) - half &&
           b->start < a->start + a->nsample * period_of(m) - half;
}

// The trace that has other parts of the same recording, or a new one; NSI_NONE: there is no room.
static uint32_t find_trace(const maker* m, const piece* p) {
    const ns_recording* r = recording_of(m, p);
    bool same[MAX_TRACES] = {false}, taken[MAX_TRACES] = {false};
    for (uint32_t k = 0; k < m->pieces.count; k++) {
        uint32_t trace = m->pieces.data[k].trace;
        const ns_recording* other = recording_of(m, &m->pieces.data[k]);
        if (strcmp(r->file, other->file) != 0 || strcmp(r->name, other->name) != 0) continue;
        same[trace] = true;
        taken[trace] |= overlap(m, r, other);
    }
    for (uint32_t k = 0; k < m->e->list.count; k++) {
        if (same[k] && !taken[k]) return k;
    }
    return m->e->list.count < MAX_TRACES ? m->e->list.count : NSI_NONE;
}

static uint32_t max_rows(const nsi_traces* e) {
    uint64_t width = 3 * ((uint64_t)e->nx + e->nchannel) + e->nc + 1, most = MAX_NUMBERS / width;
    return most < 2 ? 2 : most < MAX_ROWS ? (uint32_t)most : MAX_ROWS;
}

static ns_status choose(maker* m, ns_error* error) {
    static const ns_data_role order[] = {NS_ROLE_TEST, NS_ROLE_VALIDATION, NS_ROLE_TRAIN};
    nsi_traces* e = m->e;
    uint32_t room = max_rows(e);

    // Test recordings first: they show what the fit predicts of unseen motion.
    for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
        const ns_dataset* data = m->f->data[order[k]];
        uint32_t count = data ? ns_dataset_recording_count(data) : 0;
        for (uint32_t r = 0; r < count; r++) {
            piece p = {.role = order[k], .recording = r, .trace = NSI_NONE};
            const ns_recording* recording = recording_of(m, &p);
            bool whole = recording->nsample < room; // with a row between parts

            if (whole || room > MIN_SAMPLES || e->list.count == 0) {
                p.trace = find_trace(m, &p);
            }
            // The report says how many recordings are not shown.
            if (p.trace == NSI_NONE) {
                e->left_out++;
                continue;
            }

            // A recording that does not fit is shortened.
            p.samples = whole ? recording->nsample : room - 1;
            e->cut += !whole;
            room -= p.samples + 1;

            // Parts of the same recording form one trace.
            nsi_trace fresh = {.name = recording->name,
                               .variant = nsi_problem_variant(m->f->problem, recording)};
            bool done = p.trace < e->list.count || nsi_array_push(&e->allocator, &e->list, fresh);
            if (!done || !nsi_array_push(&e->allocator, &m->pieces, p)) {
                return nsi_fail_nomem(error);
            }
        }
    }
    return NS_OK;
}

// The part of a trace that begins first of those that begin after a time; NULL: there is none.
static piece* next_piece(const maker* m, uint32_t trace, double after) {
    piece* next = NULL;
    for (uint32_t k = 0; k < m->pieces.count; k++) {
        piece* p = &m->pieces.data[k];
        double start = recording_of(m, p)->start;
        if (p->trace != trace || !(start > after)) continue;
        if (!next || start < recording_of(m, next)->start) next = p;
    }
    return next;
}

static uint32_t choose_ahead(const maker* m) {
    const nsi_fit_spec* spec = m->f->spec;
    if (spec->horizons.count == 0) return 0;
    double samples = ceil(spec->horizons.data[spec->horizons.count - 1] / period_of(m) - 1e-6);
    uint32_t least = m->e->rows / MAX_PREDICTIONS + 1;
    return samples < least ? least : samples < MAX_ROWS ? (uint32_t)samples : MAX_ROWS;
}

static void trace_lay_out(maker* m) {
    nsi_traces* e = m->e;
    for (uint32_t k = 0; k < e->list.count; k++) {
        nsi_trace* trace = &e->list.data[k];
        trace->first = e->rows;
        double end = -INFINITY, after = -INFINITY; // of the part before, and its start
        for (piece* p; (p = next_piece(m, k, after)); after = recording_of(m, p)->start) {
            double start = recording_of(m, p)->start;
            // Parts that do not follow one another without a gap have an empty row between them.
            if (start > end + 1.5 * period_of(m) && e->rows > trace->first) e->rows++;
            p->first = e->rows;
            e->rows += p->samples;
            end = start + (p->samples - 1) * period_of(m);
        }
        trace->rows = e->rows - trace->first;
    }
    e->ahead = choose_ahead(m);
}

// ---- numbers -----------------------------------------------------------------------------------

static double* missing(const ns_allocator* allocator, size_t count) {
    double* numbers = nsi_alloc(allocator, (count + 1) * sizeof(double));
    for (size_t k = 0; numbers && k < count; k++) numbers[k] = NAN;
    return numbers;
}

static bool all_recorded(const nsi_problem* p) {
    for (uint32_t k = 0; k < p->nq; k++) {
        if (p->channel_of_state[k] == NSI_NONE) return false;
    }
    return true;
}

static ns_status trace_allocate(maker* m, ns_error* error) {
    nsi_traces* e = m->e;
    const nsi_problem* p = m->f->problem;
    size_t rows = e->rows;
    bool ok = true;
    e->time = missing(&e->allocator, rows);
    e->roles = nsi_alloc(&e->allocator, rows + 1);
    e->recorded = missing(&e->allocator, rows * e->nchannel);
    e->controls = nsi_alloc_zeroed(&e->allocator, (rows * e->nc + 1) * sizeof(double));
    if (all_recorded(p)) {
        e->measured = missing(&e->allocator, rows * e->nx);
        ok = e->measured != NULL;
    }
    for (int k = 0; k < 2; k++) {
        e->values[k] = missing(&e->allocator, rows * e->nchannel);
        e->states[k] = missing(&e->allocator, rows * e->nx);
        ok = ok && e->values[k] && e->states[k];
    }
    if (!ok || !e->time || !e->roles || !e->recorded || !e->controls) return nsi_fail_nomem(error);
    memset(e->roles, NS_ROLE_COUNT, rows);
    return NS_OK;
}

static bool has_position(const nsi_problem* p, const double* values) {
    for (uint32_t k = 0; k < p->nq; k++) {
        if (isnan(values[p->channel_of_state[k]])) return false;
    }
    return true;
}

// Of no length: missing.
static void make_unit(double q[4]) {
    double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    for (int i = 0; i < 4; i++) q[i] = length > 0.0 ? q[i] / length : NAN;
}

static void fill_recorded(maker* m, const piece* p) {
    nsi_traces* e = m->e;
    const nsi_problem* problem = m->f->problem;
    const ns_recording* r = recording_of(m, p);
    uint32_t reach = m->f->spec->stages.data[0].windows.smoothing;
    for (uint32_t k = 0; k < p->samples; k++) {
        size_t row = (size_t)p->first + k;
        const double* values = r->values + (size_t)k * e->nchannel;
        e->time[row] = r->start + k * period_of(m);
        e->roles[row] = (uint8_t)p->role;
        memcpy(e->recorded + row * e->nchannel, values, e->nchannel * sizeof(double));
        for (uint32_t c = 0; c < problem->ncontrol; c++) {
            double control = r->controls[(size_t)k * problem->ncontrol + c];
            e->controls[row * e->nc + problem->controls[c]] = control;
        }
        if (!e->measured || !has_position(problem, values)) continue;
        double* x = e->measured + row * e->nx;
        nsi_problem_guess(problem, r, k, reach, x);
        for (uint32_t i = 0; i < problem->nq; i++) x[i] = values[problem->channel_of_state[i]];
        for (uint32_t i = 0; i < problem->ncoordinate; i++) {
            const nsi_coordinate* c = &problem->coordinates[i];
            if (c->quaternion && c->at < problem->nq) make_unit(x + c->at);
        }
    }
}

// Times of the rows between parts, where nothing else is known.
static void fill_gaps(nsi_traces* e) {
    for (uint32_t row = 1; row + 1 < e->rows; row++) {
        if (e->roles[row] != NS_ROLE_COUNT) continue;
        e->time[row] = 0.5 * (e->time[row - 1] + e->time[row + 1]);
        for (uint32_t c = 0; c < e->nc; c++) e->controls[(size_t)row * e->nc + c] = NAN;
    }
}

// Which recordings of a set are shown, and where.
typedef struct target {
    nsi_traces* e;
    const uint32_t* samples; // (nrecording)
    const uint32_t* first;   // (nrecording) rows
    double *values, *states; // (rows x nchannel), (rows x nx) or NULL
} target;

static void keep_path(void* context, const nsi_path* path) {
    const target* t = context;
    const nsi_traces* e = t->e;
    // The last sample is the origin of the next prediction, if there is one.
    bool last = path->origin + path->length + 1 == t->samples[path->recording];
    uint32_t count = path->length + last;
    size_t row = (size_t)t->first[path->recording] + path->origin;
    for (uint32_t k = 0; k < count; k++, row++) {
        memcpy(t->values + row * e->nchannel, path->values + (size_t)k * e->nchannel,
               e->nchannel * sizeof(double));
        if (!t->states) continue;
        memcpy(t->states + row * e->nx, path->states + k * path->stride, e->nx * sizeof(double));
    }
}

// Predict a set of recordings with these z and weights, in consecutive windows.
// @param states  NULL: not kept
static ns_status predict(maker* m, ns_data_role role, const double* z, const double* w,
                         double* values, double* states, ns_error* error) {
    const ns_fit* f = m->f;
    uint32_t count = ns_dataset_recording_count(f->data[role]), chosen = 0;

    // Select the chosen recordings and the rows where they go.
    uint32_t* only = nsi_alloc_zeroed(&m->e->allocator, ((size_t)count + 1) * sizeof *only);
    uint32_t* first = nsi_alloc_zeroed(&m->e->allocator, ((size_t)count + 1) * sizeof *first);
    ns_status status = only && first ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; status == NS_OK && k < m->pieces.count; k++) {
        const piece* p = &m->pieces.data[k];

        // Each role is a dataset of its own.
        if (p->role != role) continue;
        only[p->recording] = p->samples;
        first[p->recording] = p->first;
        chosen++;
    }
    if (status == NS_OK && chosen > 0) {
        nsi_predict_options options = nsi_fit_predict_options(f);
        options.tiled = true;
        options.only = only;
        options.ahead = m->e->ahead;
        target t = {.e = m->e, .samples = only, .first = first, .values = values, .states = states};
        status = nsi_predict_visit(f->problem, f->data[role], z, w, &options, keep_path, &t, error);
        if (status == NS_ERR_PARSE) status = NS_OK; // all are too short
    }

    // The traces hold the values now.
    nsi_free(&m->e->allocator, only);
    nsi_free(&m->e->allocator, first);
    return status;
}

// ---- bands -------------------------------------------------------------------------------------

// z and weights of a sample of the posterior; what was not sampled is that of the fit.
static void take_draw(const ns_fit* f, size_t row, double* v, double* z, double* w) {
    const ns_posterior* p = f->result.posterior;
    memcpy(z, f->z, f->nz * sizeof *z);
    memcpy(w, f->w, f->nw * sizeof *w);
    bool parameters = false;
    for (uint32_t k = 0; k < p->n; k++) {
        double value = p->samples[row * p->n + k];
        if (p->numbers[k].kind == NS_POSTERIOR_WEIGHT) w[p->numbers[k].index] = value;
        if (p->numbers[k].kind != NS_POSTERIOR_PARAMETER) continue;
        v[p->numbers[k].index] = value;
        parameters = true;
    }
    if (parameters) nsi_parameters_to_z(f->parameters, v, z);
}

static int compare_band_values(const void* a, const void* b) {
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

// Quantiles of each number over the draws (draws x count); missing where one is missing.
static void set_bands(nsi_traces* e, const double* draws, uint32_t ndraw, size_t count) {
    double sorted[MAX_DRAWS];
    for (size_t at = 0; at < count; at++) {
        bool all = true;
        for (uint32_t k = 0; k < ndraw; k++) {
            sorted[k] = draws[k * count + at];
            all = all && isfinite(sorted[k]);
        }
        if (!all) continue;
        qsort(sorted, ndraw, sizeof *sorted, compare_band_values);
        for (int side = 0; side < 2; side++) {
            double place = (side == 0 ? 0.05 : 0.95) * (ndraw - 1);
            uint32_t low = (uint32_t)place;
            e->bands[side][at] = sorted[low] + (place - low) * (sorted[low + 1] - sorted[low]);
        }
    }
}

// Predictions with draws of the posterior, as many as there is room for.
static ns_status predict_bands(maker* m, ns_error* error) {
    const ns_fit* f = m->f;
    nsi_traces* e = m->e;
    size_t count = (size_t)e->rows * e->nchannel;
    uint32_t ndraw = MAX_DRAWS;
    while (ndraw >= MIN_DRAWS && ndraw * count > MAX_NUMBERS) ndraw /= 2;
    if (!f->result.posterior || ndraw < MIN_DRAWS || count == 0) return NS_OK;

    // Memory of all draws, and the bands.
    double* point =
        nsi_alloc_zeroed(&e->allocator, (2 * (size_t)f->nz + f->nw + 1) * sizeof *point);
    double* draws = missing(&e->allocator, ndraw * count);
    for (int side = 0; side < 2; side++) e->bands[side] = missing(&e->allocator, count);
    ns_status status = point && draws && e->bands[0] && e->bands[1] ? NS_OK : nsi_fail_nomem(error);
    double *z = point + f->nz, *w = z + f->nz;
    for (uint32_t k = 0; k < ndraw && status == NS_OK; k++) {
        take_draw(f, nsi_posterior_pick(f->result.posterior, (k + 0.5) / ndraw), point, z, w);
        for (int role = 0; status == NS_OK && role < NS_ROLE_COUNT; role++) {
            if (!f->data[role]) continue;
            status = predict(m, (ns_data_role)role, z, w, draws + k * count, NULL, error);
        }
    }
    if (status == NS_OK) set_bands(e, draws, ndraw, count);
    nsi_free(&e->allocator, draws);
    nsi_free(&e->allocator, point);
    return status;
}

ns_status nsi_traces_make(const ns_fit* f, nsi_traces* out, ns_error* error) {
    *out = (nsi_traces){.allocator = f->allocator,
                        .nchannel = f->problem->nchannel,
                        .nx = f->problem->sizes.nx,
                        .nc = f->problem->sizes.nc};

    // Choose pieces of the recordings, and copy what was recorded.
    maker m = {.f = f, .e = out};
    ns_status status = choose(&m, error);
    if (status == NS_OK) {
        trace_lay_out(&m);
        status = trace_allocate(&m, error);
    }
    for (uint32_t k = 0; status == NS_OK && k < m.pieces.count; k++) {
        fill_recorded(&m, &m.pieces.data[k]);
    }
    if (status == NS_OK) fill_gaps(out);

    // Predict them before and after the fit, and bands of the posterior.
    for (int role = 0; status == NS_OK && role < NS_ROLE_COUNT; role++) {
        if (!f->data[role]) continue;
        for (int when = 0; when < 2 && status == NS_OK; when++) {
            status = predict(&m, (ns_data_role)role, when == NSI_AFTER ? f->z : f->z0,
                             when == NSI_AFTER ? f->w : f->w0, out->values[when], out->states[when],
                             error);
        }
    }
    if (status == NS_OK) status = predict_bands(&m, error);

    nsi_array_free(&out->allocator, &m.pieces);
    if (status != NS_OK) nsi_traces_free(out);
    return status;
}

void nsi_traces_free(nsi_traces* e) {
    if (!e->allocator.free) return;
    ns_allocator memory = e->allocator;
    double* blocks[] = {e->time,      e->recorded,  e->measured,  e->controls, e->values[0],
                        e->values[1], e->states[0], e->states[1], e->bands[0], e->bands[1]};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&memory, blocks[k]);
    nsi_free(&memory, e->roles);
    nsi_array_free(&memory, &e->list);
    *e = (nsi_traces){.allocator = memory};
}

// ---- as a table ----------------------------------------------------------------------------------

// Columns of a channel: recorded, before, after, and bands where there are any.
static uint32_t trace_columns(const nsi_traces* e) {
    return e->bands[0] ? 5 : 3;
}

// Names of columns: traj, t, test, and those of each channel; in the arena.
static const char** name_columns(const nsi_traces* e, const ns_fit* f, nsi_arena* arena) {
    static const char* const endings[] = {"", "/before", "/after", "/low", "/high"};
    const uint32_t each = trace_columns(e);
    const char** names = nsi_arena_alloc(arena, (3 + each * (size_t)e->nchannel) * sizeof *names);
    if (!names) return NULL;
    names[0] = "traj";
    names[1] = "t";
    names[2] = "test";
    for (uint32_t k = 0; k < each * e->nchannel; k++) {
        const char* channel = ns_dataset_channel(f->data[NS_ROLE_TRAIN], k / each)->name;
        size_t size = strlen(channel) + sizeof "/before";
        char* name = nsi_arena_alloc(arena, size);
        if (!name) return NULL;
        snprintf(name, size, "%s%s", channel, endings[k % each]);
        names[3 + k] = name;
    }
    return names;
}

ns_status nsi_traces_write(const nsi_traces* e, const ns_fit* f, const char* path,
                           ns_error* error) {
    nsi_arena arena = {.allocator = e->allocator};
    uint32_t each = trace_columns(e), ncol = 3 + each * e->nchannel;

    // Columns: trace, time, role, then those of each channel.
    const char** names = name_columns(e, f, &arena);
    double* line = nsi_arena_alloc(&arena, ncol * sizeof(double));
    ns_table_writer* writer = NULL;
    ns_status status = names && line ? NS_OK : nsi_fail_nomem(error);
    if (status == NS_OK) status = ns_table_writer_replace(path, &e->allocator, &writer, error);

    if (status == NS_OK) {
        // One line for each row of a trace.
        ns_table_writer_put_names(writer, names, ncol);
        for (uint32_t k = 0; k < e->list.count; k++) {
            const nsi_trace* trace = &e->list.data[k];

            // Rows between two parts of a trace are separators without data.
            for (size_t row = trace->first; row < trace->first + trace->rows; row++) {
                if (e->roles[row] == NS_ROLE_COUNT) continue;
                line[0] = k;
                line[1] = e->time[row];
                line[2] = e->roles[row] == NS_ROLE_TEST;

                // Recorded, predicted before and predicted after the fit.
                for (uint32_t c = 0; c < e->nchannel; c++) {
                    size_t at = row * e->nchannel + c;
                    double* cells = line + 3 + each * c;
                    cells[0] = e->recorded[at];
                    cells[1] = e->values[NSI_BEFORE][at];
                    cells[2] = e->values[NSI_AFTER][at];
                    for (uint32_t i = 3; i < each; i++) cells[i] = e->bands[i - 3][at];
                }
                ns_table_writer_put_row(writer, line, ncol);
            }
        }

        // The file appears whole or not at all.
        status = ns_table_writer_finish(writer, error);
    }
    nsi_arena_free(&arena);
    return status;
}
