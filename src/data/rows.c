// Rows of recordings as they were in the file, before the grid.

#include "data/rows.h"

nsi_recording_rows* nsi_rows_create(nsi_arena* arena, const ns_data_map* map) {
    nsi_recording_rows* rows = nsi_arena_alloc(arena, sizeof *rows);
    size_t size = map->sources.count * sizeof *rows->sources;
    if (!rows) return NULL;
    rows->sources = nsi_arena_alloc(arena, size);
    if (!rows->sources) return NULL;
    memset(rows->sources, 0, size);
    return rows;
}

// The first row of the stream that is not before the grid.
static uint32_t first_row(const nsi_stream* s, const nsi_grid* grid) {
    uint32_t k = 0;
    while (k < s->count && s->times[k] < grid->start - grid->tolerance) k++;
    return k;
}

static uint32_t end_row(const nsi_stream* s, const nsi_grid* grid) {
    double last = grid->start + (grid->count - 1.0) * grid->period;
    uint32_t k = s->count;
    while (k > 0 && s->times[k - 1] > last + grid->tolerance) k--;
    return k;
}

bool nsi_rows_open(nsi_arena* arena, const nsi_stream* s, const nsi_grid* grid,
                   nsi_source_rows* out) {
    // Rows of the part that was asked for.
    uint32_t first = first_row(s, grid), end = end_row(s, grid);
    uint32_t count = end > first ? end - first : 0;
    double* times = nsi_arena_alloc(arena, ((size_t)count + 1) * sizeof *times);
    uint32_t* lines = nsi_arena_alloc(arena, ((size_t)count + 1) * sizeof *lines);
    uint32_t nsignal = s->source->observe.count + s->source->control.count;
    const double** signals = nsi_arena_alloc(arena, ((size_t)nsignal + 1) * sizeof *signals);
    if (!times || !lines || !signals) return false;

    // The stream is dropped after its recording, so everything is copied.
    for (uint32_t k = 0; k < count; k++) {
        times[k] = s->times[first + k];
        lines[k] = s->table->lines[s->rows[first + k]];
    }
    *out = (nsi_source_rows){.count = count,
                             .times = times,
                             .lines = lines,
                             .late = s->late,
                             .late_line = s->late_line,
                             .late_time = s->late_time,
                             .signals = signals};
    return true;
}

bool nsi_rows_add(nsi_arena* arena, const nsi_stream* s, const nsi_grid* grid, uint32_t signal,
                  const double* x, nsi_source_rows* out) {
    double* copy = nsi_arena_alloc(arena, ((size_t)out->count + 1) * sizeof *copy);
    if (!copy) return false;
    memcpy(copy, x + first_row(s, grid), out->count * sizeof *copy);
    out->signals[signal] = copy;
    return true;
}
