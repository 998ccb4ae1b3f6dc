// The pendulum of tests/data/cli, and what commands print as tables and JSON.

#ifndef TEST_COMMANDS_RIG_H
#define TEST_COMMANDS_RIG_H

#include "base/common.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#define DATA NEURALSIM_SOURCE_DIR "/tests/data/cli/"

#define MODELS NEURALSIM_SOURCE_DIR "/models/"

#define PENDULUM DATA "pendulum.urdf"

// The pendulum of tests/data/cli.
static const double mass = 2.0, length = 0.7, moment = 0.1 + 2.0 * 0.7 * 0.7, gravity = 9.81,
                    damping = 0.3, timestep = 0.001;

// ---- tables and JSON -----------------------------------------------------------------------

static inline ns_table table_of(const char* text) {
    ns_table csv;
    ns_error error;
    if (ns_table_parse(text, strlen(text), "output", NULL, NULL, &csv, &error) != NS_OK) {
        fail_msg("%s\n%s", error.message, text);
    }
    return csv;
}

static inline double cell(const ns_table* csv, uint32_t row, const char* column) {
    uint32_t k = ns_table_column(csv, column);
    if (k == NSI_NONE || row >= csv->nrow) {
        fail_msg("there is no row %u, column %s", row, column);
    }
    return ns_table_at(csv, row, k);
}

static inline json_t* json_of(const char* text) {
    json_error_t error;
    json_t* root = json_loads(text, 0, &error);
    if (!root) fail_msg("line %d: %s in\n%s", error.line, error.text, text);
    return root;
}

static inline double number(const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is not a number", key);
    return json_number_value(value);
}

// ---- command line --------------------------------------------------------------------------

static const char* const commands[] = {"inspect",  "quantities", "eval",
                                       "simulate", "gradcheck",  "score"};

enum { COMMANDS = sizeof commands / sizeof *commands };

// What a command cannot do without, besides its model.
static inline const char* needs(const char* command) {
    if (strcmp(command, "eval") == 0) return "--quantity qdd";
    return strcmp(command, "score") == 0 ? "--data recording.csv" : "";
}

// ---- names ---------------------------------------------------------------------------------

// The output has a line that starts with this name, this unit and ends like this.
static inline void assert_line(const char* name, const char* unit, const char* end) {
    char line[256];
    snprintf(line, sizeof line, "\n%-46s  %-16s  %s\n", name, unit, end);
    assert_says(last.out, line);
}

#endif
