// Streams: rows sorted by time, and columns computed from them.

#include "data/stream.h"

#include "base/series.h"

#include <math.h>
#include <stdio.h>

// ---- columns -------------------------------------------------------------------------------

uint32_t nsi_find_column(const ns_data_map* map, const ns_table* table, const char* path,
                         const char* name, uint32_t line, uint32_t column, ns_error* error) {
    uint32_t found = ns_table_column(table, name);
    if (found != NSI_NONE) return found;
    ns_nearest nearest = {.wanted = name};
    char list[160] = "";
    size_t used = 0;
    for (uint32_t k = 0; k < table->ncol && k < 1000; k++) {
        ns_nearest_offer(&nearest, table->names[k]);
        if (used >= sizeof list) continue;
        int wrote =
            snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? ", " : "", table->names[k]);
        used += wrote > 0 ? (size_t)wrote : 0;
    }
    if (used >= sizeof list) memcpy(list + sizeof list - 4, "...", 4);
    const char* near = ns_nearest_likely(&nearest);
    nsi_fail(error, NS_ERR_PARSE, "%.120s:%u:%u: there is no column \"%.60s\" in %.120s; %s%.60s%s",
             map->file, line, column, name, path, near ? "did you mean \"" : "it has ",
             near ? near : list, near ? "\"?" : "");
    return NSI_NONE;
}

static double* find_computed(const nsi_stream* s, const char* name) {
    for (uint32_t k = s->columns.count; k-- > 0;) {
        if (strcmp(s->columns.data[k].name, name) == 0) return s->columns.data[k].numbers;
    }
    return NULL;
}

// NULL when out of memory.
static double* stream_add_column(nsi_stream* s, const char* name) {
    nsi_stream_column column = {name, nsi_arena_alloc(s->arena, s->count * sizeof(double))};
    bool ok = column.numbers && nsi_array_push(&s->arena->allocator, &s->columns, column);
    return ok ? column.numbers : NULL;
}

// A column of the table beside the recordings: the same number in every row.
static ns_status add_constant(nsi_stream* s, uint32_t column, double** out, ns_error* error) {
    double* numbers = stream_add_column(s, s->side->names[column]);
    if (!numbers) return nsi_fail_nomem(error);
    double x = s->constants[column];
    for (uint32_t k = 0; k < s->count; k++) numbers[k] = isfinite(x) ? x : NAN;
    *out = numbers;
    return NS_OK;
}

// A column that was computed, or else one of the table, or of the one beside it.
static ns_status stream_get_column(nsi_stream* s, const char* name, uint32_t line, uint32_t place,
                                   double** out, ns_error* error) {
    *out = find_computed(s, name);
    if (*out) return NS_OK;
    uint32_t constant = NSI_NONE;
    if (s->constants && ns_table_column(s->table, name) == NSI_NONE) {
        constant = ns_table_column(s->side, name);
    }
    if (constant != NSI_NONE) return add_constant(s, constant, out, error);
    uint32_t column = nsi_find_column(s->map, s->table, s->path, name, line, place, error);
    if (column == NSI_NONE) return NS_ERR_PARSE;
    double* numbers = stream_add_column(s, s->table->names[column]);
    if (!numbers) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < s->count; k++) {
        double x = ns_table_at(s->table, s->rows[k], column);
        numbers[k] = isfinite(x) ? x : NAN;
    }
    *out = numbers;
    return NS_OK;
}

static ns_status compute_one(nsi_stream* s, const nsi_map_formula* f, const double* times,
                             double* out, ns_error* error) {
    const ns_allocator* memory = &s->arena->allocator;
    uint32_t count = ns_formula_variable_count(f->formula);
    double** columns = nsi_alloc(memory, count * sizeof *columns);
    if (!columns) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        uint32_t place = f->column + (uint32_t)ns_formula_variable_offset(f->formula, k);
        status = stream_get_column(s, ns_formula_variable(f->formula, k), f->line, place,
                                   &columns[k], error);
    }
    if (status == NS_OK) {
        status = ns_formula_columns(f->formula, (const double* const*)columns, times, s->count, out,
                                    error);
    }
    nsi_free(memory, columns);
    for (uint32_t k = 0; k < s->count && status == NS_OK; k++) {
        if (!isfinite(out[k])) out[k] = NAN;
    }
    return status;
}

// A list gives sample k of a row by its k-th formula.
static ns_status compute(nsi_stream* s, const nsi_map_formula* f, const double* times, double* out,
                         ns_error* error) {
    if (!f->each) return compute_one(s, f, times, out, error);
    double* sample = nsi_alloc(&s->arena->allocator, s->count * sizeof *sample);
    if (!sample) return nsi_fail_nomem(error);
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < s->count && status == NS_OK; k++) {
        out[k] = NAN;
        if (!f->each[k].formula) continue;
        status = compute_one(s, &f->each[k], times, sample, error);
        out[k] = sample[k];
    }
    nsi_free(&s->arena->allocator, sample);
    return status;
}

ns_status nsi_stream_compute(nsi_stream* s, const nsi_map_formula* f, double* out,
                             ns_error* error) {
    return compute(s, f, s->times, out, error);
}

// ---- definitions ---------------------------------------------------------------------------

// Make unit length, with the sign that is nearer to the row before: q and -q are one rotation.
static ns_status mend_quaternion(nsi_stream* s, const nsi_map_quaternion* quaternion,
                                 ns_error* error) {
    double* q[4];
    for (int i = 0; i < 4; i++) {
        ns_status status = stream_get_column(s, quaternion->names[i], quaternion->line,
                                             quaternion->column, &q[i], error);
        if (status != NS_OK) return status;
    }
    double last[4] = {0.0}; // the first known one stays as it is
    for (uint32_t k = 0; k < s->count; k++) {
        double length = 0.0, along = 0.0;
        for (int i = 0; i < 4; i++) {
            length += q[i][k] * q[i][k];
            along += q[i][k] * last[i];
        }
        length = sqrt(length);
        bool known = length > 0.0 && isfinite(length);
        if (along < 0.0) length = -length;
        for (int i = 0; i < 4; i++) {
            q[i][k] = known ? q[i][k] / length : NAN;
            if (known) last[i] = q[i][k];
        }
    }
    return NS_OK;
}

static ns_status mend_quaternions(nsi_stream* s, uint32_t defined, ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < s->source->quaternions.count && status == NS_OK; k++) {
        const nsi_map_quaternion* q = &s->source->quaternions.data[k];
        if (q->after == defined) status = mend_quaternion(s, q, error);
    }
    return status;
}

ns_status nsi_stream_define(nsi_stream* s, ns_error* error) {
    ns_status status = mend_quaternions(s, 0, error);
    for (uint32_t k = 0; k < s->source->define.count && status == NS_OK; k++) {
        const nsi_map_formula* f = &s->source->define.data[k];
        // Computed aside: the formula may use a column of the same name.
        status = compute(s, f, s->times, s->scratch, error);
        if (status != NS_OK) return status;
        double* numbers = stream_add_column(s, f->name);
        if (!numbers) return nsi_fail_nomem(error);
        memcpy(numbers, s->scratch, s->count * sizeof *numbers);
        status = mend_quaternions(s, k + 1, error);
    }
    return status;
}

// ---- time ----------------------------------------------------------------------------------

// More rows than a late message passes: then it is another recording.
enum { MOST_MOVED = 16 };

static uint32_t line_of(const nsi_stream* s, uint32_t k) {
    return s->table->lines[s->rows[k]];
}

// Sort rows by time, those of equal time as they were, and drop repeated times.
static ns_status repair_times(nsi_stream* s, ns_error* error) {
    // Insertion sort: rows are late by a few places only, and equal times keep their order.
    for (uint32_t k = 1; k < s->count; k++) {
        double time = s->times[k];
        uint32_t row = s->rows[k], to = k;
        for (; to > 0 && s->times[to - 1] > time; to--) {
            // A large jump back means several recordings rather than a late row.
            if (k - to == MOST_MOVED) {
                return nsi_fail(
                    error, NS_ERR_PARSE,
                    "%.200s:%u: the time goes back by more than %d rows; if these are "
                    "several recordings, name the column that distinguishes them as trajectory",
                    s->path, s->table->lines[row], MOST_MOVED);
            }
            // Shift later rows up.
            s->times[to] = s->times[to - 1];
            s->rows[to] = s->rows[to - 1];
        }
        s->times[to] = time;
        s->rows[to] = row;

        // Count moved rows, for the description of the dataset.
        if (to < k) s->repaired++;
    }

    // Of rows with equal times, keep the first.
    uint32_t kept = 1;
    for (uint32_t k = 1; k < s->count; k++) {
        if (s->times[k] == s->times[kept - 1]) {
            s->repaired++;
            continue;
        }
        // Compact in place.
        s->times[kept] = s->times[k];
        s->rows[kept++] = s->rows[k];
    }
    s->count = kept;
    return NS_OK;
}

// Samples of one row, which nobody can sort or remove.
static ns_status check_sample_times(const nsi_stream* s, ns_error* error) {
    for (uint32_t k = 0; k < s->count; k++) {
        if (isnan(s->times[k])) {
            return nsi_fail(error, NS_ERR_PARSE, "%.200s:%u: time of sample %u is missing", s->path,
                            line_of(s, k), k);
        }
        if (k == 0 || s->times[k] > s->times[k - 1]) continue;
        return nsi_fail(error, NS_ERR_PARSE,
                        "%.200s:%u: time of sample %u is not after that of sample %u", s->path,
                        line_of(s, k), k, k - 1);
    }
    return NS_OK;
}

// Count rows whose time is missing or not after that of all rows before.
static void count_late_rows(nsi_stream* s) {
    double last = -INFINITY;
    for (uint32_t k = 0; k < s->count; k++) {
        if (s->times[k] > last) {
            last = s->times[k];
        } else if (s->late++ == 0) {
            s->late_line = line_of(s, k);
            s->late_time = s->times[k];
        }
    }
}

// Leave those rows out.
static void drop_late_rows(nsi_stream* s) {
    uint32_t kept = 0;
    for (uint32_t k = 0; k < s->count; k++) {
        if (!(kept == 0 ? !isnan(s->times[k]) : s->times[k] > s->times[kept - 1])) continue;
        s->times[kept] = s->times[k];
        s->rows[kept++] = s->rows[k];
    }
    s->count = kept;
}

static ns_status check_times(nsi_stream* s, ns_error* error) {
    if (s->map->row_samples > 0) return check_sample_times(s, error);
    count_late_rows(s);
    if (s->map->tolerant && !s->source->time_repair && s->late < s->count) {
        drop_late_rows(s);
        return NS_OK;
    }
    bool grows = true;
    for (uint32_t k = 0; k < s->count; k++) {
        if (isnan(s->times[k])) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%.200s:%u: the time is missing or not finite; remove the row", s->path,
                            line_of(s, k));
        }
        if (k == 0 || s->times[k] > s->times[k - 1]) continue;
        if (!s->source->time_repair) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%.200s:%u: the time %s; correct the rows, or set time_repair: true in "
                            "the map to sort them and drop duplicates",
                            s->path, line_of(s, k),
                            s->times[k] < s->times[k - 1] ? "goes back"
                                                          : "equals that of the row before");
        }
        grows = false;
    }
    return grows ? NS_OK : repair_times(s, error);
}

// The first row where a formula is above 0; all rows when there is none.
static ns_status find_row(nsi_stream* s, const nsi_map_formula* f, uint32_t* out, ns_error* error) {
    ns_status status = compute(s, f, s->times, s->scratch, error);
    *out = 0;
    while (status == NS_OK && *out < s->count && !(s->scratch[*out] > 0.0)) ++*out;
    s->columns.count = 0; // they have rows that may go
    return status;
}

// Leave out the rows before the first one where the source says so.
static ns_status cut_before(nsi_stream* s, ns_error* error) {
    if (!s->source->since.formula) return NS_OK;
    uint32_t first;
    ns_status status = find_row(s, &s->source->since, &first, error);
    if (status != NS_OK) return status;
    if (first == s->count) {
        return nsi_fail(error, NS_ERR_PARSE, "%.200s:%u: since is never above 0, so no rows remain",
                        s->path, line_of(s, 0));
    }
    s->cut_before = first;
    s->count -= first;
    memmove(s->rows, s->rows + first, s->count * sizeof *s->rows);
    memmove(s->times, s->times + first, s->count * sizeof *s->times);
    return NS_OK;
}

// Leave out the rows from the first one on where the source says so.
static ns_status cut_rows(nsi_stream* s, ns_error* error) {
    uint32_t kept;
    if (!s->source->until.formula) return NS_OK;
    ns_status status = find_row(s, &s->source->until, &kept, error);
    if (status != NS_OK) return status;
    if (kept == 0) {
        return nsi_fail(error, NS_ERR_PARSE,
                        "%.200s:%u: until is above 0 in the first row, so no rows remain", s->path,
                        line_of(s, 0));
    }
    s->cut = s->count - kept;
    s->count = kept;
    return NS_OK;
}

ns_status nsi_stream_open(const ns_data_map* map, const nsi_map_source* source,
                          const nsi_stream_rows* rows, nsi_arena* arena, nsi_stream* out,
                          ns_error* error) {
    uint32_t first = rows->first;
    *out = (nsi_stream){.map = map,
                        .source = source,
                        .table = rows->table,
                        .side = rows->side,
                        .constants = rows->constants,
                        .path = rows->path,
                        .arena = arena,
                        .count = map->row_samples > 0 ? map->row_samples : rows->end - first};

    // Select the rows; if a row is a whole recording, all samples refer to that row.
    out->rows = nsi_arena_alloc(arena, out->count * sizeof *out->rows);
    out->times = nsi_arena_alloc(arena, out->count * sizeof *out->times);
    out->scratch = nsi_arena_alloc(arena, out->count * sizeof *out->scratch);
    if (!out->rows || !out->times || !out->scratch) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < out->count; k++)
        out->rows[k] = map->row_samples > 0 ? first : first + k;

    // Times come from the row rate or from a formula; check_times() reports NaN with its line.
    ns_status status = NS_OK;
    if (source->rate > 0.0) {
        for (uint32_t k = 0; k < out->count; k++) out->times[k] = k / source->rate;
    } else {
        status = compute(out, &source->time, NULL, out->times, error);
    }

    // Align the clock of this source with the others.
    for (uint32_t k = 0; k < out->count && status == NS_OK; k++) {
        out->times[k] += source->offset;
        // Infinity and NaN are reported in the same way.
        if (!isfinite(out->times[k])) out->times[k] = NAN;
    }

    out->columns.count = 0; // what the time needed was in the order of the file

    // Order the rows, then cut them where the map says so.
    if (status == NS_OK) status = check_times(out, error);
    if (status == NS_OK) status = cut_before(out, error);
    if (status == NS_OK) status = cut_rows(out, error);

    // Typical row spacing, for the choice of a period.
    if (status == NS_OK) out->spacing = nsi_series_spacing(out->times, out->count, out->scratch);
    return status;
}

void nsi_stream_free(nsi_stream* s) {
    if (s->arena) nsi_array_free(&s->arena->allocator, &s->columns);
}
