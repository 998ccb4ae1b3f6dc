// Maps from the columns of a table to quantities of a model (docs/data.md).

#ifndef NSI_DATA_MAP_H
#define NSI_DATA_MAP_H

#include "expr/formula_syntax.h"
#include "io/schema.h"
#include "neuralsim/data.h"
#include "neuralsim/table.h"

enum { NSI_MAP_MAX_FORMULAS = 4096, NSI_MAP_MAX_SOURCES = 64 };

// A formula, what it defines, and where it stands in the map.
typedef struct nsi_map_formula {
    const char* name; // of the column, channel or control
    const char* text;
    ns_formula* formula;          // NULL: missing, or a list:
    struct nsi_map_formula* each; // (map->row_samples) one for each sample of a row, or NULL
    uint32_t line, column;
} nsi_map_formula;

// Four columns that are a rotation.
typedef struct nsi_map_quaternion {
    const char* names[4]; // w x y z
    uint32_t line, column;
    uint32_t after; // number of definitions after which all four are there
} nsi_map_quaternion;

// Rows with one clock, and what is taken from them.
typedef struct nsi_map_source {
    NSI_ARRAY(ns_table_where) where;
    double rate;                  // rows per s, or 0:
    nsi_map_formula time;         // s
    nsi_map_formula since, until; // a recording begins with the first row where the one is above 0,
                                  // and ends before the first where the other is; may be empty
    double offset;                // s, added to either
    bool time_repair;
    ns_resample resample;
    bool resample_given; // controls are resampled like everything else; otherwise they are held
    double max_gap;      // s; 0: 1.5 median spacings
    NSI_ARRAY(nsi_map_formula) define;
    NSI_ARRAY(nsi_map_quaternion) quaternions;
    NSI_ARRAY(nsi_map_formula) observe, control;
    uint32_t first_channel, first_control; // numbers of those among all
} nsi_map_source;

// A table beside the recordings, with a row for each of them.
typedef struct nsi_map_table {
    const char *file, *key; // key: the column with names of recordings; NULL: no table
    uint32_t line, column;
} nsi_map_table;

struct ns_data_map {
    nsi_arena arena;                // texts
    const char* file;               // for messages
    NSI_ARRAY(const char*) columns; // names, for files without; empty: the file has them
    const char* trajectory;         // a column, or NULL
    uint32_t trajectory_line, trajectory_column;
    uint32_t row_samples; // each row is a recording of so many samples; 0: each is a sample
    nsi_map_table table;
    NSI_ARRAY(nsi_map_source) sources;
    NSI_ARRAY(ns_channel) channels; // of all sources, in order
    NSI_ARRAY(const char*) controls;
    NSI_ARRAY(const char*) unused; // columns of an inferred map that are nothing of the model
    uint32_t nformula;
    bool inferred; // columns were taken by their names
    // For checks: rows whose time does not grow are left out, a control may be missing, and words of an
    // inferred map's columns are missing numbers.
    bool tolerant;
};

// Tables of keys: of a map, of a source, of how rows come onto the grid; and of `table` and channels.
extern const nsi_schema nsi_map_schema, nsi_map_source_schema, nsi_map_grid_schema,
    nsi_map_table_schema, nsi_map_channel_schema;

// Read a map from text that stands for the file `path`.
ns_status nsi_data_map_parse(const char* text, size_t size, const char* path,
                             const ns_allocator* allocator, ns_data_map** out, ns_error* error);

// For those who make maps. An empty map; NULL when out of memory.
ns_data_map* nsi_data_map_create(const char* file, const ns_allocator* allocator);

// Parse `text`, a formula at this place of the map's file.
// @param name  may be NULL
ns_status nsi_map_formula_parse(ns_data_map* map, const char* name, const char* text, uint32_t line,
                                uint32_t column, nsi_map_formula* out, ns_error* error);

// Add a channel or a control to a source, which takes over the formula. Names must be new.
ns_status nsi_map_add_channel(ns_data_map* map, nsi_map_source* source, nsi_map_formula* value,
                              double sigma, double weight, ns_error* error);
ns_status nsi_map_add_control(ns_data_map* map, nsi_map_source* source, nsi_map_formula* value,
                              ns_error* error);

// The map of ns_data_map_infer() with a channel for each column that has no meaning for the model, and
// tolerant. A table without a time has rate 1.
// @param model  NULL: of all columns but the time and the trajectory
ns_status nsi_data_map_infer_all(const char* path, const ns_model* model,
                                 const ns_allocator* allocator, ns_data_map** out, ns_error* error);

// ---- dataset.c -----------------------------------------------------------------------------

// ns_dataset_add() for text that stands for the file `path`.
ns_status nsi_dataset_add_text(ns_dataset* data, const char* text, size_t size, const char* path,
                               const ns_data_part* part, ns_error* error);

// Free this map, which the set was created with, along with the set.
void nsi_dataset_own_map(ns_dataset* data, ns_data_map* map);

// Append a copy of a recording, which is on the grid; its file is called as it is.
ns_status nsi_dataset_append(ns_dataset* data, const ns_recording* recording, ns_error* error);

// Keep the rows of files that are added from now on, for nsi_dataset_rows(), until they are dropped.
void nsi_dataset_keep_rows(ns_dataset* data);
void nsi_dataset_drop_rows(ns_dataset* data);
struct nsi_recording_rows;
const struct nsi_recording_rows* nsi_dataset_rows(const ns_dataset* data,
                                                  uint32_t recording); // or NULL
const ns_data_map* nsi_dataset_map(const ns_dataset* data);

// Gaussian noise on every sample of every channel, as a share of the channel's standard deviation over all
// recordings: what a fit would make of worse sensors.
void nsi_dataset_add_noise(ns_dataset* data, double share, uint64_t seed);

#endif
