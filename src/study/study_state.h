// Internals of studies that all kinds share.

#ifndef NSI_STUDY_STUDY_STATE_H
#define NSI_STUDY_STUDY_STATE_H

#include "fit/spec.h"
#include "neuralsim/hybrid.h"
#include "neuralsim/json.h"
#include "neuralsim/study.h"
#include "report/report_data.h"

typedef struct study_fits study_fits;
typedef struct study_grid study_grid;

// What a kind of study does. Functions that can fail return false and leave the status of the study.
typedef struct study_kind {
    const char *name, *help;
    bool (*read)(ns_study* s);    // the file
    bool (*prepare)(ns_study* s); // is there something to run?
    bool (*run)(ns_study* s);     // into s->output; false when stopped, too
    void (*report)(ns_study* s, ns_report* report);
    bool (*record)(ns_study* s, ns_json* j); // members of result.json
    uint64_t (*seed)(const ns_study* s);
    void (*free)(ns_study* s);
} study_kind;

extern const study_kind nsi_study_kind_fits, nsi_study_kind_grid;

enum { STUDY_MAX_PROBLEMS = 2 }; // of figures and of names

struct ns_study {
    const char* name;
    const char* folder; // of study.yaml, ending with '/' or empty
    const char* output; // folder of the run, NULL before it
    ns_study_options options;
    double began, seconds; // s: when it was loaded; until the end of the run
    nsi_yaml yaml;         // its arena holds everything that is read, and paths
    char* path;            // of study.yaml
    const study_kind* kind;
    study_fits* fits; // the one of its kind, from the arena
    study_grid* grid;
    const char *title, *citation, *source;
    nsi_text_list notes;
    nsi_figures charts;
    const char* problems[STUDY_MAX_PROBLEMS];
    uint32_t nproblem;
    bool ran, finished, stopped;
    ns_status status; // the first failure; after it functions do nothing
    ns_error error;
};

extern const nsi_schema nsi_study_schema;

// ---- study.c: failures, notes, progress, figures -------------------------------------------------

// Keep a failure, unless there is one before it; false.
bool nsi_study_fail(ns_study* s, ns_status status, const char* format, ...) NSI_PRINTF(3, 4);
bool nsi_study_fail_nomem(ns_study* s);
// Keep the status of a call that was given &s->error; true: there is no failure.
bool nsi_study_take(ns_study* s, ns_status status);
// The failure becomes a problem that is told beside the result.
void nsi_study_keep_problem(ns_study* s);

void nsi_study_note(ns_study* s, const char* format, ...) NSI_PRINTF(2, 3);
// Tell the observer how far it is; true: stop. It sticks.
bool nsi_study_observe(ns_study* s, const char* what, double done, double total);

// Show a chart of the study, which the report borrows.
void nsi_study_show_figure(ns_section* section, const ns_figure* chart);

// ---- study_read.c --------------------------------------------------------------------------------

void nsi_study_fault(ns_study* s, const nsi_yaml_node* node, const char* what);
void* nsi_study_zeros(ns_study* s, size_t size); // from the arena; NULL after a failure
// A list of numbers, from the arena; NULL when it is missing.
double* nsi_study_numbers(ns_study* s, const nsi_yaml_node* list, uint32_t* count);
// The entries of a list. `needed`: it is an error when it is missing or empty.
const nsi_yaml_node* nsi_study_list(ns_study* s, const nsi_yaml_node* map, const char* key,
                                    bool needed, uint32_t* count);

// Read a mapping by its table; false after a failure, of this or before.
bool nsi_study_read(ns_study* s, const nsi_schema* schema, const nsi_yaml_node* map, void* context,
                    void* out);
// Each entry of a list that is a mapping. `size` bytes of `*items` are one of them, from the arena.
bool nsi_study_read_list(ns_study* s, const nsi_schema* schema, const nsi_yaml_node* list,
                         void* context, size_t size, void* items, uint32_t* count);

// ---- study_files.c -------------------------------------------------------------------------------

// "<folder>/<name>" from the arena; NULL when out of memory, which is a failure.
const char* nsi_study_path(ns_study* s, const char* folder, const char* name);
bool nsi_study_is_folder(const char* path); // NULL is allowed
bool nsi_study_make_folder(ns_study* s, const char* path);
bool nsi_study_copy(ns_study* s, const char* name, const char* folder); // from the study's folder
bool nsi_study_write(ns_study* s, const char* folder, const char* name, const ns_text* text);
// Results of the folder of the run, which would look like those of this one.
void nsi_study_remove_results(ns_study* s);

// A model of the study's folder, which has physics.
bool nsi_study_load_model(ns_study* s, const char* path, const char* variant, ns_hybrid** out);

#endif
