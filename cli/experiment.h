// An experiment: a folder with a study.yaml that is run as a whole (docs/experiments.md).

#ifndef CLI_EXPERIMENT_H
#define CLI_EXPERIMENT_H

#include "io/schema.h"
#include <neuralsim/json.h>

typedef struct experiment {
    const char* name;
    const char* folder; // of study.yaml, ending with '/'
    const char* output; // folder of the results, which is there
    bool quick, json;
    uint32_t threads; // 0: one per core
    double began;     // s
    nsi_yaml yaml;    // its arena holds paths, too
    const char *title, *citation, *source;
    nsi_text_list notes;
    ns_status status; // of reading: the first failure
    ns_error error;
} experiment;

// Keys that all kinds have.
#define EXPERIMENT_KEYS "kind title citation source notes "
extern const nsi_schema study_schema, study_grid_schema, study_grid_simulate_schema,
    study_grid_smoke_schema, study_cells_schema, study_method_schema;

// The exit code.
int experiment_run_fits(experiment* e);
int experiment_run_grid(experiment* e);

// ---- reading -----------------------------------------------------------------------------------
// After a failure these do nothing; experiment_complain() says it at the end.

void experiment_check_map(experiment* e, const nsi_yaml_node* map, const char* what,
                          const char* keys);
// `needed`: it is an error when it is missing; otherwise the result stays.
void experiment_text(experiment* e, const nsi_yaml_node* map, const char* key, bool needed,
                     const char** out);
void experiment_number(experiment* e, const nsi_yaml_node* map, const char* key, double lower,
                       double upper, double* out);
void experiment_count(experiment* e, const nsi_yaml_node* map, const char* key, uint32_t lower,
                      uint32_t upper, uint32_t* out);
// A list of numbers, from the arena; NULL when it is missing.
double* experiment_numbers(experiment* e, const nsi_yaml_node* list, uint32_t* count);
// The entries of a list that is not empty.
const nsi_yaml_node* experiment_list(experiment* e, const nsi_yaml_node* map, const char* key,
                                     bool needed, uint32_t* count);
void experiment_fault(experiment* e, const nsi_yaml_node* node, const char* what);
void* experiment_zeros(experiment* e, size_t size); // from the arena; NULL after a failure

// Read a mapping by its table; false after a failure, of this or before.
bool experiment_read(experiment* e, const nsi_schema* schema, const nsi_yaml_node* map,
                     void* context, void* out);
// Each entry of a list that is a mapping. `size` bytes of `*items` are one of them, from the arena.
bool experiment_read_list(experiment* e, const nsi_schema* schema, const nsi_yaml_node* list,
                          void* context, size_t size, void* items, uint32_t* count);

int experiment_complain(const experiment* e); // EXIT_OK, or EXIT_FAILED after the message

// ---- files -------------------------------------------------------------------------------------

// "<folder>/<name>" from the arena; NULL when out of memory, which is a failure of reading.
const char* experiment_path(experiment* e, const char* folder, const char* name);
bool experiment_make_folder(const char* path); // false after saying why
bool experiment_copy(experiment* e, const char* name, const char* folder);
bool experiment_write(const experiment* e, const char* name, const ns_text* text); // in the output

// ---- results -----------------------------------------------------------------------------------

ns_json* experiment_begin_json(const experiment* e, uint64_t seed);
void experiment_open_page(const experiment* e, nsi_text_builder* page);
void experiment_close_page(const experiment* e, nsi_text_builder* page);

// Write result.json and report.html, free both, and print the first if that is asked for.
int experiment_finish(const experiment* e, ns_json* result, nsi_text_builder* page);

#endif
