// Rows of recordings as they were in the file, before the grid: kept by a data set for checks.

#ifndef NSI_DATA_ROWS_H
#define NSI_DATA_ROWS_H

#include "data/resample.h"
#include "data/stream.h"

// Rows of one source of a map in one recording.
typedef struct nsi_source_rows {
    uint32_t count;
    const double* times;    // (count) s, growing
    const uint32_t* lines;  // (count) of the file
    uint32_t late;          // rows whose time was missing or did not grow: left out, or repaired
    uint32_t late_line;     // of the first of them
    double late_time;       // s: of that row
    const double** signals; // (channels + controls of the source) (count); NaN: missing
} nsi_source_rows;

typedef struct nsi_recording_rows {
    nsi_source_rows* sources; // one per source of the map
} nsi_recording_rows;

// Room for the rows of a recording; NULL when out of memory.
nsi_recording_rows* nsi_rows_create(nsi_arena* arena, const ns_data_map* map);

// Keep the times and lines of the rows between the first and the last sample of the grid.
// @return false when out of memory
bool nsi_rows_open(nsi_arena* arena, const nsi_stream* stream, const nsi_grid* grid,
                   nsi_source_rows* out);

// Keep the numbers of the next channel or control of the source; x has one for each row of the stream.
bool nsi_rows_add(nsi_arena* arena, const nsi_stream* stream, const nsi_grid* grid, uint32_t signal,
                  const double* x, nsi_source_rows* out);

#endif
