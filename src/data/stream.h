// A stream: the rows of one recording in one source of a map, with their times and columns.

#ifndef NSI_DATA_STREAM_H
#define NSI_DATA_STREAM_H

#include "data/map.h"

typedef struct nsi_stream_column {
    const char* name;
    double* numbers; // (count)
} nsi_stream_column;

typedef struct nsi_stream {
    const ns_data_map* map;
    const nsi_map_source* source;
    const ns_table* table;
    const ns_table* side;
    const double* constants; // a row of `side`, or NULL
    const char* path;
    nsi_arena* arena; // everything here is from it

    uint32_t count;
    uint32_t* rows;           // (count) of the table, in the order of time
    double* times;            // (count) s, growing
    double spacing;           // s, median; NaN for one row
    uint32_t repaired;        // rows that were moved or dropped
    uint32_t late, late_line; // rows whose time was missing or did not grow; the first one's line
    double late_time;         // s: of that one
    uint32_t cut_before, cut; // rows until the source says `since`, from its `until` on
    double* scratch;          // (count)
    NSI_ARRAY(nsi_stream_column) columns; // a later one hides an earlier one of the same name
} nsi_stream;

// The rows of a recording, or the one that is its samples.
typedef struct nsi_stream_rows {
    const ns_table* table;
    const char* path;        // for messages
    uint32_t first, end;     // at least one row
    const ns_table* side;    // the table beside the recordings,
    const double* constants; // and its row for this one; or NULL
} nsi_stream_rows;

// Take rows with their times, from where the source begins them up to where it ends them. The
// arrays that do not come from the arena are freed by nsi_stream_free(), in any case.
// @return NS_OK; NS_ERR_PARSE naming the row whose time is missing or does not grow (unless the map is
//         tolerant: then such rows are left out and counted), or when none is left; NS_ERR_NOMEM
ns_status nsi_stream_open(const ns_data_map* map, const nsi_map_source* source,
                          const nsi_stream_rows* rows, nsi_arena* arena, nsi_stream* out,
                          ns_error* error);
void nsi_stream_free(nsi_stream* stream);

// Compute what the source defines.
ns_status nsi_stream_define(nsi_stream* stream, ns_error* error);

// Compute a formula of its columns; what is not finite is NaN.
// @param out  (count)
// @return NS_OK; NS_ERR_PARSE naming a column that is not there; NS_ERR_NOMEM
ns_status nsi_stream_compute(nsi_stream* stream, const nsi_map_formula* formula, double* out,
                             ns_error* error);

// A column of a table that a map needs, at a place of the map; NSI_NONE with NS_ERR_PARSE in
// `error` when it is not there.
uint32_t nsi_find_column(const ns_data_map* map, const ns_table* table, const char* path,
                         const char* name, uint32_t line, uint32_t column, ns_error* error);

#endif
