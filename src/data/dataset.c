// Recordings: read tables through a map, split them into trajectories and resample them.

#include "base/series.h"
#include "data/resample.h"
#include "data/rows.h"
#include "data/stream.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>

// What happened to the rows of a source, over all files.
typedef struct source_history {
    double slowest, fastest; // rows per s
    bool gaps, uneven, resampled;
    uint32_t repaired, cut_before, cut;
} source_history;

struct ns_dataset {
    const ns_data_map* map;
    ns_data_map* own_map; // of arrays, or NULL
    double period;        // s; 0: not known yet
    nsi_arena arena;
    NSI_ARRAY(const ns_recording*) recordings;
    bool keep_rows;
    nsi_arena row_arena;
    NSI_ARRAY(const nsi_recording_rows*) rows; // of the recordings, where they are kept
    source_history* history;                   // one per source
    ns_text treatment;
};

// A few rows with a tiny period, given or told by two times that nearly agree, would fill the
// memory. A row that is a recording by itself may be long.
enum { MAX_SAMPLES = 1000000, MAX_SAMPLES_PER_ROW = 100, MAX_SAMPLES_PER_RECORDING_ROW = 10000 };

ns_status ns_dataset_create(const ns_data_map* map, double period, const ns_allocator* allocator,
                            ns_dataset** out, ns_error* error) {
    *out = NULL;
    if (!map ||
        !(period == 0.0 || (period >= NSI_GRID_MIN_PERIOD && period <= NSI_GRID_MAX_PERIOD))) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        map ? "period must be 0 or from 1e-9 to 1e9 s" : "map is NULL");
    }
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_dataset* data = nsi_alloc_zeroed(&memory, sizeof *data);
    if (!data) return nsi_fail_nomem(error);
    *data = (ns_dataset){
        .map = map, .period = period, .arena.allocator = memory, .row_arena.allocator = memory};
    size_t size = map->sources.count * sizeof *data->history;
    data->history = nsi_arena_alloc(&data->arena, size);
    if (!data->history) {
        ns_dataset_free(data);
        return nsi_fail_nomem(error);
    }
    memset(data->history, 0, size);
    *out = data;
    return NS_OK;
}

void ns_dataset_free(ns_dataset* data) {
    if (!data) return;
    ns_allocator memory = data->arena.allocator;
    nsi_dataset_drop_rows(data);
    nsi_array_free(&memory, &data->recordings);
    ns_text_free(&data->treatment);
    nsi_arena_free(&data->arena);
    ns_data_map_free(data->own_map);
    nsi_free(&memory, data);
}

void nsi_dataset_keep_rows(ns_dataset* data) {
    data->keep_rows = true;
}

void nsi_dataset_drop_rows(ns_dataset* data) {
    data->keep_rows = false;
    nsi_array_free(&data->arena.allocator, &data->rows);
    nsi_arena_free(&data->row_arena);
}

const nsi_recording_rows* nsi_dataset_rows(const ns_dataset* data, uint32_t recording) {
    return recording < data->rows.count ? data->rows.data[recording] : NULL;
}

const ns_data_map* nsi_dataset_map(const ns_dataset* data) {
    return data->map;
}

void nsi_dataset_own_map(ns_dataset* data, ns_data_map* map) {
    data->own_map = map;
}

ns_status nsi_dataset_append(ns_dataset* data, const ns_recording* recording, ns_error* error) {
    size_t nvalue = (size_t)recording->nsample * data->map->channels.count;
    size_t ncontrol = (size_t)recording->nsample * data->map->controls.count;
    ns_recording* r = nsi_arena_alloc(&data->arena, sizeof *r);
    double* values = nsi_arena_alloc(&data->arena, (nvalue + 1) * sizeof *values);
    double* controls = nsi_arena_alloc(&data->arena, (ncontrol + 1) * sizeof *controls);
    char* name = nsi_arena_string(&data->arena, recording->name, strlen(recording->name));
    if (!r || !values || !controls || !name) return nsi_fail_nomem(error);
    if (nvalue > 0) memcpy(values, recording->values, nvalue * sizeof *values);
    if (ncontrol > 0) memcpy(controls, recording->controls, ncontrol * sizeof *controls);
    *r = *recording;
    r->name = r->file = name;
    r->values = values;
    r->controls = controls;
    bool done = nsi_array_push(&data->arena.allocator, &data->recordings, r);
    return done ? NS_OK : nsi_fail_nomem(error);
}

// ---- tables --------------------------------------------------------------------------------

// Rows of a table that are one recording.
typedef struct segment {
    uint32_t first, end;
    double trajectory; // value of the column; 0 without
} segment;

typedef struct table {
    ns_table csv;
    NSI_ARRAY(segment) segments;
} table;

// A file being added.
typedef struct addition {
    ns_dataset* data;
    const ns_data_map* map;
    const char* path;
    const ns_data_part* part;
    table* tables; // one per source
    ns_table side; // the table beside the recordings, if the map has one
    const char* side_path;
    source_history* history; // of this file too, per source
    double period;
    double samples; // of the recordings so far, before parts are cut
    ns_error* error;
} addition;

// Of a table that has rows.
static ns_status find_segments(addition* a, table* t) {
    const ns_data_map* map = a->map;
    uint32_t column = NSI_NONE;
    if (map->trajectory) {
        column = nsi_find_column(map, &t->csv, a->path, map->trajectory, map->trajectory_line,
                                 map->trajectory_column, a->error);
        if (column == NSI_NONE) return NS_ERR_PARSE;
    }
    const ns_allocator* memory = &a->data->arena.allocator;
    segment last = {0};
    for (uint32_t row = 0; row < t->csv.nrow; row++) {
        double trajectory = map->row_samples > 0 ? row : 0.0;
        if (column != NSI_NONE) trajectory = ns_table_at(&t->csv, row, column);
        if (!isfinite(trajectory)) {
            return nsi_fail(a->error, NS_ERR_PARSE, "%.200s:%u: \"%.60s\" is missing or not finite",
                            a->path, t->csv.lines[row], map->trajectory);
        }
        if (row > 0 && trajectory != last.trajectory) {
            if (!nsi_array_push(memory, &t->segments, last)) return nsi_fail_nomem(a->error);
            last.first = row;
        }
        last.end = row + 1;
        last.trajectory = trajectory;
    }
    return nsi_array_push(memory, &t->segments, last) ? NS_OK : nsi_fail_nomem(a->error);
}

// Does a formula, or anything else of a source, use this column?
static bool uses(const ns_formula* formula, const char* name) {
    for (uint32_t k = 0; formula && k < ns_formula_variable_count(formula); k++) {
        if (strcmp(ns_formula_variable(formula, k), name) == 0) return true;
    }
    return false;
}

typedef struct column_use {
    const ns_data_map* map;
    const nsi_map_source* source;
} column_use;

static bool formula_uses(const column_use* use, const nsi_map_formula* f, const char* name) {
    bool used = uses(f->formula, name);
    for (uint32_t k = 0; f->each && k < use->map->row_samples; k++) {
        used = used || uses(f->each[k].formula, name);
    }
    return used;
}

static bool is_column_used(const void* context, const char* name) {
    const column_use* use = context;
    // For checks of all columns, words are missing numbers.
    if (use->map->inferred && use->map->tolerant) return false;
    const nsi_map_source* s = use->source;
    bool used = formula_uses(use, &s->time, name) || formula_uses(use, &s->since, name) ||
                formula_uses(use, &s->until, name) ||
                (use->map->trajectory && strcmp(use->map->trajectory, name) == 0);
    for (uint32_t k = 0; k < s->define.count; k++) {
        used |= formula_uses(use, &s->define.data[k], name);
    }
    for (uint32_t k = 0; k < s->observe.count; k++) {
        used |= formula_uses(use, &s->observe.data[k], name);
    }
    for (uint32_t k = 0; k < s->control.count; k++) {
        used |= formula_uses(use, &s->control.data[k], name);
    }
    for (uint32_t k = 0; k < s->quaternions.count; k++) {
        for (int i = 0; i < 4; i++) used |= strcmp(s->quaternions.data[k].names[i], name) == 0;
    }
    return used;
}

static ns_status dataset_read_table(addition* a, uint32_t number, const char* text, size_t size) {
    const nsi_map_source* source = &a->map->sources.data[number];
    table* t = &a->tables[number];
    const column_use use = {a->map, source};
    ns_table_options form = {.allow_missing = true,
                             .names = a->map->columns.data,
                             .nname = a->map->columns.count,
                             .where = source->where.data,
                             .nwhere = source->where.count,
                             .is_used = is_column_used,
                             .context = &use};
    ns_status status =
        ns_table_parse(text, size, a->path, &form, &a->data->arena.allocator, &t->csv, a->error);
    if (status != NS_OK) return status;
    if (t->csv.nrow == 0 && source->where.count > 0) {
        return nsi_fail(a->error, NS_ERR_PARSE,
                        "%.200s:1: no row has \"%.60s\" in column \"%.60s\"", a->path,
                        source->where.data[0].text, source->where.data[0].column);
    }
    if (t->csv.nrow == 0) {
        return nsi_fail(a->error, NS_ERR_PARSE, "%.200s:1: the table has no rows", a->path);
    }
    return find_segments(a, t);
}

// ---- the table beside the recordings ---------------------------------------------------------

static bool is_side_column_used(const void* context, const char* name) {
    const ns_data_map* map = context;
    bool used = map->trajectory && strcmp(map->table.key, name) == 0;
    for (uint32_t k = 0; k < map->sources.count; k++) {
        const column_use use = {map, &map->sources.data[k]};
        used = used || is_column_used(&use, name);
    }
    return used;
}

static const char* file_name(const char* path) {
    const char* slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// "a/run0.csv" -> "run0". NULL when out of memory.
static const char* stem_of(addition* a) {
    const char* name = file_name(a->path);
    const char* dot = strrchr(name, '.');
    size_t size = dot && dot > name ? (size_t)(dot - name) : strlen(name);
    return nsi_arena_string(&a->data->arena, name, size);
}

static const char* side_path_of(addition* a) {
    size_t folder = (size_t)(file_name(a->path) - a->path), size = strlen(a->map->table.file);
    char* path = nsi_arena_alloc(&a->data->arena, folder + size + 1);
    if (!path) return NULL;
    memcpy(path, a->path, folder);
    memcpy(path + folder, a->map->table.file, size + 1);
    return path;
}

// Files that are one recording take the row with their name, others all rows: which one is told by
// the trajectory.
static ns_status read_side(addition* a) {
    const ns_data_map* map = a->map;
    if (!map->table.key) return NS_OK;
    const char* stem = stem_of(a);
    a->side_path = side_path_of(a);
    if (!stem || !a->side_path) return nsi_fail_nomem(a->error);
    const ns_table_where where = {map->table.key, stem};
    ns_table_options form = {.allow_missing = true,
                             .where = &where,
                             .nwhere = map->trajectory ? 0 : 1,
                             .is_used = is_side_column_used,
                             .context = map};
    ns_status status =
        ns_table_read(a->side_path, &form, &a->data->arena.allocator, &a->side, a->error);
    if (status != NS_OK || map->trajectory) return status;
    if (a->side.nrow == 1) return NS_OK;
    return nsi_fail(a->error, NS_ERR_PARSE,
                    "%.200s:%u: %s row has \"%.60s\" in column \"%.60s\"; each recording needs one",
                    a->side_path, a->side.nrow > 1 ? a->side.lines[1] : 1,
                    a->side.nrow > 1 ? "a second" : "no", stem, map->table.key);
}

// The row for a trajectory.
static ns_status find_constants(const addition* a, double trajectory, const double** out) {
    // Without a side table there are no constants.
    const ns_data_map* map = a->map;
    *out = NULL;
    if (!map->table.key) return NS_OK;

    // A file that is a single recording has read its own row only.
    *out = a->side.numbers;
    if (!map->trajectory) return NS_OK;

    // Find the row whose key column holds this trajectory. It must be unique.
    uint32_t column = nsi_find_column(map, &a->side, a->side_path, map->table.key, map->table.line,
                                      map->table.column, a->error);
    if (column == NSI_NONE) return NS_ERR_PARSE;
    // Look at all rows, to detect duplicates.
    uint32_t found = NSI_NONE;
    for (uint32_t row = 0; row < a->side.nrow; row++) {
        if (ns_table_at(&a->side, row, column) != trajectory) continue;
        if (found != NSI_NONE) {
            return nsi_fail(a->error, NS_ERR_PARSE,
                            "%.200s:%u: a second row for trajectory %g; each needs one",
                            a->side_path, a->side.lines[row], trajectory);
        }
        found = row;
    }

    // A trajectory without constants cannot be interpreted.
    if (found == NSI_NONE) {
        return nsi_fail(a->error, NS_ERR_PARSE,
                        "%.200s:1: no row for trajectory %g; each needs one", a->side_path,
                        trajectory);
    }
    // Constants of the row, one per column of the side table.
    *out = a->side.numbers + (size_t)found * a->side.ncol;
    return NS_OK;
}

// Do all sources have the same trajectories?
static ns_status match_segments(const addition* a) {
    const table* one = &a->tables[0];
    for (uint32_t s = 1; s < a->map->sources.count; s++) {
        const table* other = &a->tables[s];
        for (uint32_t k = 0; k < one->segments.count || k < other->segments.count; k++) {
            bool both = k < one->segments.count && k < other->segments.count;
            if (both && one->segments.data[k].trajectory == other->segments.data[k].trajectory) {
                continue;
            }
            const table* t = k < other->segments.count ? other : one;
            return nsi_fail(a->error, NS_ERR_PARSE,
                            "%.200s:%u: source %u has another trajectory here than source 1; all "
                            "sources need the same trajectories in the same order",
                            a->path, t->csv.lines[t->segments.data[k].first], s + 1);
        }
    }
    return NS_OK;
}

// ---- the grid ------------------------------------------------------------------------------

static uint32_t first_line(const nsi_stream* s) {
    return s->table->lines[s->rows[0]];
}

static ns_status choose_period(addition* a, const nsi_stream* s) {
    if (a->period > 0.0) return NS_OK;
    a->period = s->source->rate > 0.0 ? 1.0 / s->source->rate
                                      : nsi_grid_period(s->times, s->count, s->scratch);
    if (a->period >= NSI_GRID_MIN_PERIOD && a->period <= NSI_GRID_MAX_PERIOD) return NS_OK;
    return nsi_fail(a->error, NS_ERR_PARSE,
                    "%.200s:%u: the sample period cannot be derived from the rows; give it",
                    a->path, first_line(s));
}

// What all streams cover.
static ns_status choose_grid(addition* a, const nsi_stream* streams, nsi_grid* grid) {
    // The grid covers the time span that all sources share.
    double start = -INFINITY, end = INFINITY;
    for (uint32_t s = 0; s < a->map->sources.count; s++) {
        start = fmax(start, streams[s].times[0]);
        end = fmin(end, streams[s].times[streams[s].count - 1]);
    }

    // Count the steps; the tolerance keeps the last sample if its time is rounded.
    ns_status status = choose_period(a, &streams[0]);
    if (status != NS_OK) return status;
    double tolerance = nsi_grid_tolerance(a->period, fmax(fabs(start), fabs(end)));
    double steps = floor((end - start + tolerance) / a->period);
    // Disjoint sources usually have different clocks.
    if (!(steps >= 0.0)) {
        return nsi_fail(a->error, NS_ERR_PARSE,
                        "%.200s:%u: the sources have no time in common; is an offset missing?",
                        a->path, first_line(&streams[0]));
    }

    // Bound the samples of the whole file, since a tiny period would exhaust memory.
    int per_row = a->map->row_samples > 0 ? MAX_SAMPLES_PER_RECORDING_ROW : MAX_SAMPLES_PER_ROW;
    // Large files may have more samples than small ones.
    double most = fmax(MAX_SAMPLES, per_row * (double)a->tables[0].csv.nrow);
    a->samples += steps + 1.0;
    if (steps >= INT32_MAX || a->samples > most) {
        return nsi_fail(
            a->error, NS_ERR_LIMIT,
            "%.200s:%u: more than a million samples, and more than %d for each row; take "
            "a longer period",
            a->path, first_line(&streams[0]), per_row);
    }

    *grid = (nsi_grid){start, a->period, (uint32_t)steps + 1, tolerance};
    return NS_OK;
}

// A sample number in 0..count.
static uint32_t clamp_sample(double number, uint32_t count) {
    return number > 0.0 ? number < count ? (uint32_t)number : count : 0;
}

// Parts that meet have no sample in common: each has its beginning, and not its end.
static nsi_grid cut_grid(const ns_data_part* part, nsi_grid grid) {
    if (!part) return grid;
    double from = part->fractions ? round(part->from * grid.count)
                                  : ceil((part->from - grid.tolerance) / grid.period);
    double to = part->fractions ? round(part->to * grid.count)
                                : ceil((part->to - grid.tolerance) / grid.period);
    uint32_t first = clamp_sample(from, grid.count);
    uint32_t end = part->to == 0.0 ? grid.count : clamp_sample(to, grid.count);
    return (nsi_grid){grid.start + first * grid.period, grid.period, end > first ? end - first : 0,
                      grid.tolerance};
}

// ---- numbers -------------------------------------------------------------------------------

// The few samples of a row are far apart: between them nothing is known unless the map says so.
static double max_gap_of(const nsi_stream* s, double spacing) {
    if (s->source->max_gap > 0.0) return s->source->max_gap;
    if (s->map->row_samples > 0) return 0.0;
    return isnan(spacing) ? 0.0 : 1.5 * spacing;
}

// Where nothing is interpolated, what is known between the samples of the grid would be lost.
static ns_status check_on_grid(const nsi_stream* s, const nsi_grid* grid, const double* x,
                               ns_error* error) {
    if (s->map->row_samples == 0 || s->source->max_gap > 0.0) return NS_OK;
    for (uint32_t k = 0; k < s->count; k++) {
        double time = s->times[k] - s->times[0];
        double off = fabs(time - grid->period * round(time / grid->period));
        if (isnan(x[k]) || off <= grid->tolerance) continue;
        return nsi_fail(error, NS_ERR_PARSE,
                        "%.200s:%u: time %g is no multiple of the period %g s; give period, or "
                        "max_gap",
                        s->path, s->table->lines[s->rows[k]], time, grid->period);
    }
    return NS_OK;
}

// A channel, from the rows that have it: its own rate, when it is there in every fifth row only.
static ns_status sample_channel(const nsi_stream* s, const nsi_grid* grid, double* x, double* times,
                                double* out, size_t stride, ns_error* error) {
    ns_status status = check_on_grid(s, grid, x, error);
    if (status != NS_OK) return status;
    uint32_t count = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        if (isnan(x[k])) continue;
        times[count] = s->times[k];
        x[count++] = x[k];
    }
    double gap = max_gap_of(s, nsi_series_spacing(times, count, s->scratch));
    nsi_resample(grid, times, x, count, s->source->resample, gap, out, stride);
    return NS_OK;
}

static ns_status sample_control(const nsi_stream* s, const nsi_map_formula* f, const nsi_grid* grid,
                                const double* x, double* out, size_t stride, ns_error* error) {
    if (s->source->resample_given) {
        nsi_resample(grid, s->times, x, s->count, s->source->resample, INFINITY, out, stride);
    } else {
        nsi_resample_held(grid, s->times, x, s->count, out, stride);
    }
    for (uint32_t k = 0; k < grid->count; k++) {
        if (isfinite(out[k * stride]) || s->map->tolerant) continue;
        // A row around this sample is missing.
        double time = grid->start + k * grid->period, best = INFINITY;
        uint32_t row = 0;
        for (uint32_t i = 0; i < s->count; i++) {
            if (!isnan(x[i]) || fabs(s->times[i] - time) >= best) continue;
            best = fabs(s->times[i] - time);
            row = i;
        }
        return nsi_fail(
            error, NS_ERR_PARSE,
            "%.200s:%u: the control \"%.100s\" is missing or not finite; fill it in, or "
            "take another part of the file",
            s->path, s->table->lines[s->rows[row]], f->name);
    }
    return NS_OK;
}

// @param kept  receives the rows; NULL: they are not kept
static ns_status sample_stream(addition* a, nsi_stream* s, const nsi_grid* grid, double* values,
                               double* controls, nsi_source_rows* kept) {
    nsi_arena* row_arena = &a->data->row_arena;
    const nsi_map_source* source = s->source;
    uint32_t nchannel = a->map->channels.count, ncontrol = a->map->controls.count;
    double* x = nsi_arena_alloc(s->arena, s->count * sizeof *x);
    double* times = nsi_arena_alloc(s->arena, s->count * sizeof *times);
    if (!x || !times) return nsi_fail_nomem(a->error);
    ns_status status = nsi_stream_define(s, a->error);
    if (kept && !nsi_rows_open(row_arena, s, grid, kept)) return nsi_fail_nomem(a->error);

    // Compute each channel in all rows, keep these, and bring them onto the grid.
    uint32_t observed = source->observe.count;
    for (uint32_t k = 0; k < observed && status == NS_OK; k++) {
        status = nsi_stream_compute(s, &source->observe.data[k], x, a->error);
        if (status == NS_OK && kept && !nsi_rows_add(row_arena, s, grid, k, x, kept)) {
            status = nsi_fail_nomem(a->error);
        }
        if (status != NS_OK) break;
        status = sample_channel(s, grid, x, times, values + source->first_channel + k, nchannel,
                                a->error);
    }

    // The same for controls.
    for (uint32_t k = 0; k < source->control.count && status == NS_OK; k++) {
        const nsi_map_formula* f = &source->control.data[k];
        status = nsi_stream_compute(s, f, x, a->error);
        if (status == NS_OK && kept && !nsi_rows_add(row_arena, s, grid, observed + k, x, kept)) {
            status = nsi_fail_nomem(a->error);
        }
        if (status != NS_OK) break;
        status =
            sample_control(s, f, grid, x, controls + source->first_control + k, ncontrol, a->error);
    }
    return status;
}

// ---- recordings ----------------------------------------------------------------------------

// "run0.csv", or "run0.csv:3".
static const char* recording_name(addition* a, double trajectory) {
    nsi_text_builder text = {.allocator = a->data->arena.allocator};
    nsi_text_add(&text, "%s", file_name(a->path));
    if (a->map->trajectory || a->map->row_samples > 0) {
        nsi_text_add(&text, ":");
        nsi_text_add_double(&text, trajectory);
    }
    ns_text finished;
    if (nsi_text_finish(&text, &finished, NULL) != NS_OK) return NULL;
    const char* name = nsi_arena_string(&a->data->arena, finished.data, finished.size);
    ns_text_free(&finished);
    return name;
}

static void note_history(addition* a, uint32_t number, const nsi_stream* s, const nsi_grid* grid,
                         bool* resampled) {
    source_history* h = &a->history[number];
    h->repaired += s->repaired;
    h->cut_before += s->cut_before;
    h->cut += s->cut;
    if (isnan(s->spacing)) return;
    double rate = 1.0 / s->spacing;
    nsi_grid_fit fit =
        nsi_grid_compare(grid, s->times, s->count, s->spacing, max_gap_of(s, s->spacing));
    bool moved = fit.between > 0 || fit.at < fit.rows;
    h->slowest = h->slowest > 0.0 ? fmin(h->slowest, rate) : rate;
    h->fastest = fmax(h->fastest, rate);
    h->gaps = h->gaps || fit.gaps;
    h->uneven = h->uneven || fit.uneven;
    h->resampled = h->resampled || moved;
    *resampled = *resampled || moved;
}

// The line of the first row that is not before the first sample.
static uint32_t line_at(const nsi_stream* s, const nsi_grid* grid) {
    uint32_t k = 0;
    while (k + 1 < s->count && s->times[k] < grid->start - grid->tolerance) k++;
    return s->table->lines[s->rows[k]];
}

static ns_status add_recording(addition* a, nsi_stream* streams, const nsi_grid* grid,
                               double trajectory, const char* file) {
    // Allocate from the arena of the dataset, which owns its recordings.
    ns_dataset* data = a->data;
    uint32_t nchannel = a->map->channels.count, ncontrol = a->map->controls.count;
    size_t values_size = (size_t)grid->count * nchannel,
           controls_size = (size_t)grid->count * ncontrol;
    ns_recording* r = nsi_arena_alloc(&data->arena, sizeof *r);
    double* values = nsi_arena_alloc(&data->arena, values_size * sizeof *values);
    double* controls = nsi_arena_alloc(&data->arena, controls_size * sizeof *controls);
    if (!r || !values || !controls) return nsi_fail_nomem(a->error);

    // Describe where the recording comes from.
    *r = (ns_recording){.name = recording_name(a, trajectory),
                        .file = file,
                        .line = line_at(&streams[0], grid),
                        .start = grid->start,
                        .nsample = grid->count,
                        .values = values,
                        .controls = controls,
                        .row_rate = isnan(streams[0].spacing) ? 0.0 : 1.0 / streams[0].spacing};
    if (!r->name) return nsi_fail_nomem(a->error);

    // Each source fills its own channels and controls.
    nsi_recording_rows* rows = NULL;
    if (data->keep_rows) {
        rows = nsi_rows_create(&data->row_arena, a->map);
        if (!rows) return nsi_fail_nomem(a->error);
    }
    for (uint32_t s = 0; s < a->map->sources.count; s++) {
        nsi_source_rows* kept = rows ? &rows->sources[s] : NULL;
        ns_status status = sample_stream(a, &streams[s], grid, values, controls, kept);
        if (status != NS_OK) return status;
        // Note what resampling did, for the description of the dataset.
        note_history(a, s, &streams[s], grid, &r->resampled);
    }

    // Count missing samples (NaN).
    for (size_t k = 0; k < values_size; k++) r->nmissing += isnan(values[k]) ? 1 : 0;
    // Publish the recording only when it is complete.
    if (rows && !nsi_array_push(&data->arena.allocator, &data->rows, rows)) {
        return nsi_fail_nomem(a->error);
    }
    if (!nsi_array_push(&data->arena.allocator, &data->recordings, r)) {
        return nsi_fail_nomem(a->error);
    }
    return NS_OK;
}

// Forget the recordings of a file that cannot be read to its end.
static void forget_recordings(ns_dataset* data, uint32_t count) {
    data->recordings.count = count;
    if (data->rows.count > count) data->rows.count = count;
}

static ns_status add_segment(addition* a, uint32_t number, const char* file) {
    // Streams live in an arena of their own, which is dropped at the end.
    const ns_data_map* map = a->map;
    nsi_arena arena = {.allocator = a->data->arena.allocator};
    nsi_stream* streams = nsi_alloc_zeroed(&arena.allocator, map->sources.count * sizeof *streams);
    if (!streams) return nsi_fail_nomem(a->error);

    // Open the rows of this trajectory in each source.
    double trajectory = a->tables[0].segments.data[number].trajectory;
    const double* constants;
    // Constants of the side table, if any.
    ns_status status = find_constants(a, trajectory, &constants);
    for (uint32_t s = 0; s < map->sources.count && status == NS_OK; s++) {
        // Segments of all sources are in the same order.
        const segment* g = &a->tables[s].segments.data[number];
        const nsi_stream_rows rows = {.table = &a->tables[s].csv,
                                      .path = a->path,
                                      .first = g->first,
                                      .end = g->end,
                                      .side = &a->side,
                                      .constants = constants};
        status = nsi_stream_open(map, &map->sources.data[s], &rows, &arena, &streams[s], a->error);
    }

    // Resample onto the shared grid.
    nsi_grid grid = {0};
    if (status == NS_OK) status = choose_grid(a, streams, &grid);
    // The part of the recording that was asked for may be empty.
    if (status == NS_OK) grid = cut_grid(a->part, grid);
    if (status == NS_OK && grid.count > 0) {
        status = add_recording(a, streams, &grid, trajectory, file);
    }

    // Temporary memory, on success and on failure.
    for (uint32_t s = 0; s < map->sources.count; s++) nsi_stream_free(&streams[s]);
    nsi_free(&arena.allocator, streams);
    nsi_arena_free(&arena);
    return status;
}

static bool dataset_is_wanted(const ns_data_part* part, double trajectory) {
    return !part || part->all_trajectories ||
           (trajectory >= part->first_trajectory && trajectory <= part->last_trajectory);
}

static ns_status fail_empty(const addition* a) {
    char count[80] = "";
    if (a->map->row_samples > 0) {
        snprintf(count, sizeof count, " (trajectories are the rows, from 0; there are %u)",
                 a->tables[0].csv.nrow);
    } else if (!a->map->trajectory) {
        snprintf(count, sizeof count, " (there is one trajectory, 0)");
    }
    return nsi_fail(
        a->error, NS_ERR_PARSE,
        "%.200s:%u: no samples remain: the selected part is empty or outside the recording%s",
        a->path, a->tables[0].csv.lines[0], count);
}

static ns_status add_segments(addition* a) {
    ns_dataset* data = a->data;
    const char* file = nsi_arena_string(&data->arena, a->path, strlen(a->path));
    if (!file) return nsi_fail_nomem(a->error);
    uint32_t before = data->recordings.count;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < a->tables[0].segments.count && status == NS_OK; k++) {
        if (!dataset_is_wanted(a->part, a->tables[0].segments.data[k].trajectory)) continue;
        status = add_segment(a, k, file);
    }
    if (status == NS_OK && data->recordings.count == before) status = fail_empty(a);
    if (status != NS_OK) forget_recordings(data, before);
    return status;
}

// ---- what was done -------------------------------------------------------------------------

static void add_rounded(nsi_text_builder* text, double x) {
    double scale = pow(10.0, 3.0 - floor(log10(x)));
    nsi_text_add_double(text, scale > 1.0 ? round(x * scale) / scale : round(x));
}

static void describe_source(nsi_text_builder* text, const nsi_map_source* source,
                            const source_history* h, double period) {
    // How the samples were obtained.
    if (h->resampled) {
        nsi_text_add(text, "resampled %s from %s",
                     ns_choice_help(&ns_resamples, (int)source->resample),
                     h->uneven ? "about " : "");
    } else {
        nsi_text_add(text, "as recorded, at ");
    }

    // Row rate, as a range if files or trajectories differ.
    if (h->fastest > 0.0) {
        add_rounded(text, h->slowest);
        if (h->fastest > 1.001 * h->slowest) {
            nsi_text_add(text, " to ");
            add_rounded(text, h->fastest);
        }
        nsi_text_add(text, " Hz");
    } else {
        // Too few rows for a rate.
        nsi_text_add(text, "single rows");
    }

    if (h->uneven || h->gaps) {
        nsi_text_add(text, " (%s%s%s)", h->uneven ? "uneven" : "", h->uneven && h->gaps ? ", " : "",
                     h->gaps ? "with gaps" : "");
    }

    if (h->resampled) {
        nsi_text_add(text, " to ");
        add_rounded(text, 1.0 / period);
        nsi_text_add(text, " Hz");
    }

    // Rows that were moved, dropped or corrected.
    if (h->repaired > 0) {
        nsi_text_add(text, "; time repaired in %u row%s", h->repaired, h->repaired == 1 ? "" : "s");
    }
    // Rows outside the time span that all sources share.
    if (h->cut_before > 0) {
        nsi_text_add(text, "; %u row%s left out before the beginning", h->cut_before,
                     h->cut_before == 1 ? "" : "s");
    }
    if (h->cut > 0) {
        nsi_text_add(text, "; %u row%s left out after the end", h->cut, h->cut == 1 ? "" : "s");
    }
    // Quaternions change sign and length.
    if (source->quaternions.count > 0) nsi_text_add(text, "; quaternions made unit and continuous");
}

static void describe_filters(nsi_text_builder* text, const nsi_map_formula* formulas,
                             uint32_t count) {
    size_t offset, size;
    for (uint32_t k = 0; k < count; k++) {
        if (!formulas[k].formula) continue;
        for (uint32_t i = 0; nsi_formula_filter(formulas[k].formula, i, &offset, &size); i++) {
            nsi_text_add(text, "; ");
            nsi_text_add_bytes(text, formulas[k].text + offset, size);
        }
    }
}

static ns_status dataset_describe_mapping(const addition* a, ns_text* out) {
    const ns_data_map* map = a->map;
    nsi_text_builder text = {.allocator = a->data->arena.allocator};
    for (uint32_t k = 0; k < map->sources.count; k++) {
        const nsi_map_source* s = &map->sources.data[k];
        if (k > 0) nsi_text_add(&text, "; ");
        if (map->sources.count > 1) nsi_text_add(&text, "source %u: ", k + 1);
        if (map->row_samples > 0) {
            nsi_text_add(&text, "each row a recording of %u samples", map->row_samples);
        } else {
            describe_source(&text, s, &a->history[k], a->period);
        }
        describe_filters(&text, s->define.data, s->define.count);
        describe_filters(&text, s->observe.data, s->observe.count);
        describe_filters(&text, s->control.data, s->control.count);
    }
    for (uint32_t k = 0; k < map->unused.count; k++) {
        nsi_text_add(&text, "%s%s", k > 0 ? ", " : "; columns not used: ", map->unused.data[k]);
    }
    return nsi_text_finish(&text, out, a->error);
}

// ---- adding --------------------------------------------------------------------------------

static ns_status check_part(const ns_data_part* part, ns_error* error) {
    if (!part) return NS_OK;
    bool ok = part->from >= 0.0 && part->to >= 0.0 && isfinite(part->from) && isfinite(part->to);
    if (part->fractions) ok = ok && part->from <= 1.0 && part->to <= 1.0;
    if (part->to > 0.0) ok = ok && part->from < part->to;
    if (ok) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT,
                    "part: from and to must be finite, not negative, in order, and as fractions at "
                    "most 1");
}

static ns_status add_tables(addition* a, const char* text, size_t size) {
    uint32_t count = a->map->sources.count, before = a->data->recordings.count;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < count && status == NS_OK; k++)
        status = dataset_read_table(a, k, text, size);
    if (status == NS_OK) status = match_segments(a);
    if (status == NS_OK) status = read_side(a);
    if (status == NS_OK) status = add_segments(a);
    ns_text treatment;
    if (status == NS_OK) {
        status = dataset_describe_mapping(a, &treatment);
        if (status != NS_OK) forget_recordings(a->data, before);
    }
    if (status != NS_OK) return status;
    // All went well: the set changes.
    ns_text_free(&a->data->treatment);
    a->data->treatment = treatment;
    a->data->period = a->period;
    memcpy(a->data->history, a->history, count * sizeof *a->history);
    return NS_OK;
}

ns_status nsi_dataset_add_text(ns_dataset* data, const char* text, size_t size, const char* path,
                               const ns_data_part* part, ns_error* error) {
    // Validate the requested part of the recordings.
    ns_status status = check_part(part, error);
    if (status != NS_OK) return status;

    // Work on a copy of the history, so that a failure leaves the dataset unchanged.
    ns_allocator memory = data->arena.allocator;
    uint32_t count = data->map->sources.count;
    addition a = {.data = data,
                  .map = data->map,
                  .path = path,
                  .part = part,
                  .tables = nsi_alloc_zeroed(&memory, count * sizeof *a.tables),
                  .history = nsi_alloc(&memory, count * sizeof *a.history),
                  .period = data->period,
                  .error = error};

    // Counters continue those of files added before.
    if (a.tables && a.history) {
        memcpy(a.history, data->history, count * sizeof *a.history);
        // Parse the text, and add its recordings.
        status = add_tables(&a, text, size);
    } else {
        status = nsi_fail_nomem(error);
    }

    // Free the tables: recordings have their own copies.
    for (uint32_t k = 0; k < count && a.tables; k++) {
        ns_table_free(&a.tables[k].csv);
        nsi_array_free(&memory, &a.tables[k].segments);
    }
    ns_table_free(&a.side);
    nsi_free(&memory, a.tables);
    nsi_free(&memory, a.history);
    return status;
}

ns_status ns_dataset_add(ns_dataset* data, const char* path, const ns_data_part* part,
                         ns_error* error) {
    ns_allocator memory = data->arena.allocator;
    nsi_bytes text = {0};
    if (data->own_map) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_dataset_add: %.200s: this set is made of arrays and has no map for"
                        " files",
                        path);
    }
    ns_status status = nsi_file_read(path, NS_TABLE_MAX_SIZE, &memory, &text, error);
    if (status == NS_OK) {
        status = nsi_dataset_add_text(data, text.data, text.count, path, part, error);
    }
    nsi_array_free(&memory, &text);
    return status;
}

// ---- noise ---------------------------------------------------------------------------------

// Standard deviation of a channel over all recordings.
static double spread_of(const ns_dataset* data, uint32_t channel) {
    size_t nchannel = data->map->channels.count, count = 0;
    double mean = 0.0, squares = 0.0; // Welford 1962
    for (uint32_t k = 0; k < data->recordings.count; k++) {
        const ns_recording* r = data->recordings.data[k];
        for (size_t i = 0; i < r->nsample; i++) {
            double value = r->values[i * nchannel + channel], off = value - mean;
            if (isnan(value)) continue;
            mean += off / (double)++count;
            squares += off * (value - mean);
        }
    }
    return count > 0 ? sqrt(squares / (double)count) : 0.0;
}

void nsi_dataset_add_noise(ns_dataset* data, double share, uint64_t seed) {
    size_t nchannel = data->map->channels.count;
    for (uint32_t c = 0; c < nchannel; c++) {
        double size = share * spread_of(data, c);
        ns_rng rng = ns_rng_seed(~((seed << 32) + c));
        for (uint32_t k = 0; k < data->recordings.count; k++) {
            const ns_recording* r = data->recordings.data[k];
            double* values = (double*)r->values; // ours, from the arena
            for (size_t i = 0; i < r->nsample; i++) {
                values[i * nchannel + c] += size * ns_rng_normal(&rng);
            }
        }
    }
}

// ---- what a set holds ----------------------------------------------------------------------

double ns_dataset_period(const ns_dataset* data) {
    return data->period;
}
uint32_t ns_dataset_channel_count(const ns_dataset* data) {
    return data->map->channels.count;
}
const ns_channel* ns_dataset_channel(const ns_dataset* data, uint32_t number) {
    return number < data->map->channels.count ? &data->map->channels.data[number] : NULL;
}
uint32_t ns_dataset_control_count(const ns_dataset* data) {
    return data->map->controls.count;
}
const char* ns_dataset_control(const ns_dataset* data, uint32_t number) {
    return number < data->map->controls.count ? data->map->controls.data[number] : NULL;
}
uint32_t ns_dataset_recording_count(const ns_dataset* data) {
    return data->recordings.count;
}
const ns_recording* ns_dataset_recording(const ns_dataset* data, uint32_t number) {
    return number < data->recordings.count ? data->recordings.data[number] : NULL;
}
const char* ns_dataset_treatment(const ns_dataset* data) {
    return data->treatment.data ? data->treatment.data : "";
}
