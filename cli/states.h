// States, controls and parameters from tables and from the command line.

#ifndef CLI_STATES_H
#define CLI_STATES_H

#include "model_io.h"

// States with their controls and parameters, one per row.
typedef struct states {
    uint32_t count;
    double* x;                     // (count x nx)
    double* c;                     // (count x nc)
    double* params;                // (count x np)
    bool has_controls, has_motors; // were there columns for them?
} states;

// Room for `count` states in a keyframe, with its controls, each with these parameters (np). Without
// a keyframe: at rest in the model's default pose. False after saying why; free it in any case.
bool states_create(const model_io* p, uint32_t count, const double* params,
                   const ns_keyframe_def* keyframe, states* out);
void states_free(states* s);

// The first `most` rows of a table. What it has no column for stays as states_create() made it,
// except that motors are where their controls are. Says on standard error which columns were
// ignored and that quaternions were made unit length. False after saying why.
// @param path  of the table, for messages
bool states_read(const model_io* p, const ns_table* table, const char* path, uint32_t most,
                 const double* params, const ns_keyframe_def* keyframe, states* out);

// Resolve the columns of a table. Those that tables carry along (time, step, energies, quantities
// of the model) are NS_IO_NONE; columns that are none of this, and two for the same number, are an
// error. Says which columns were ignored; or, with `keep`, quietly keeps only inputs of that kind.
// False after saying why.
// @param out  (table->ncol)
bool states_columns(const model_io* p, const ns_table* table, const char* path, ns_io_kind keep,
                    ns_io_target* out);

// Check that the numbers of the columns that are kept are finite; false after saying which is not.
bool states_check_finite(const ns_table* table, const char* path, const ns_io_target* columns);

// Are the free parameters (np) within their bounds, and the inertias that they make physical? False
// after saying what is not.
// @param where  the beginning of the message, such as "--set"
bool states_check_params(const ns_model* model, const ns_system* system, const double* params,
                         const char* where);

// Columns that are names of parameters ask for these to be free: adds them to the list. False after
// saying that there are too many.
bool states_add_free(const ns_model* model, const ns_table* table, cli_list* free_params);

// ---- --set NAME=VALUE ----------------------------------------------------------------------

// Parameters, or globs of them, with values.
typedef struct settings {
    cli_pool pool; // the names
    cli_list names;
    double values[CLI_MAX_LIST];
} settings;

// CLI_GO_ON, or an exit code after saying what is wrong. Names are added to `free_params`.
int settings_read(const char* command, const cli_list* texts, settings* out, cli_list* free_params);
void settings_free(settings* s);

// The model's values of the free parameters (np), with the settings. False after saying which of
// them cannot be.
bool settings_apply(const settings* s, const ns_model* model, const ns_system* system,
                    double* params);

// Initial states that miss equality constraints by little are moved onto them, with a note; of others
// a note says by how much. `always`: all are, or it is an error; `never`: none is.
typedef enum closing { CLOSE_AUTO, CLOSE_ALWAYS, CLOSE_NEVER } closing;
extern const ns_choices closings;
bool states_close(const model_io* p, closing when, states* s);

#endif
