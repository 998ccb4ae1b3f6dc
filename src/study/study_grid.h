// A study of kind `grid`: types and functions that its files share (docs/experiments.md).

#ifndef NSI_STUDY_STUDY_GRID_H
#define NSI_STUDY_STUDY_GRID_H

#include "study/study_state.h"

typedef struct study_method {
    const char *name, *label;
    const nsi_yaml_node* node; // its mapping in study.yaml
} study_method;

// What came of a cell.
typedef struct study_cell {
    double error;   // distance from the truth
    double seconds; // of one core
    uint32_t runs;  // local optimisations
    bool found;
} study_cell;

struct study_grid {
    ns_study* study;
    const char* model;
    nsi_text_list files; // others that fits need
    const char *headline_name, *compare_name;
    uint32_t smoke_cells, smoke_poses; // 0: all
    uint32_t steps;
    double timestep;
    int integrator;       // -1: the model's
    const double** poses; // (npose) start positions, at rest
    const char** folders; // (npose) of their recording and fits
    uint32_t npose, nq;
    const char* names[2]; // of the parameters
    double truth[2], tolerance;
    double from, to;
    uint32_t cells; // in a row
    study_method* methods;
    uint32_t nmethod, headline, compare; // compare: what the headline is drawn beside

    study_cell*
        results;     // (npose x nmethod x cells x cells): row i has the second parameter's value i
    uint32_t failed; // lowest number of a result that could not be had, or NSI_NONE
    ns_error error;  // why
    double rollouts; // per second
    uint64_t seed;
    double*
        errors; // (npose x 2 x cells x cells) of `compare` and the headline, as figures show them
};

// Tables of keys.
extern const nsi_schema nsi_study_grid_schema, nsi_study_method_schema,
    nsi_study_grid_simulate_schema, nsi_study_cells_schema, nsi_study_grid_smoke_schema;

static inline uint32_t nsi_study_cell_count(const study_grid* g) {
    return g->cells * g->cells;
}

static inline study_cell* nsi_study_cells(const study_grid* g, uint32_t pose, uint32_t method) {
    return g->results + (size_t)(pose * g->nmethod + method) * nsi_study_cell_count(g);
}

// ---- study_grid.c ------------------------------------------------------------------------------

// The fit of a method with all that it extends, as <folder>/<name>.yaml.
bool nsi_study_write_method(study_grid* g, const study_method* m, const char* folder);

// ---- study_grid_run.c --------------------------------------------------------------------------

bool nsi_study_run_grid(ns_study* s);

// ---- study_grid_report.c -----------------------------------------------------------------------

bool nsi_study_draw_grid(study_grid* g); // a figure for each pose
void nsi_study_report_grid(ns_study* s, ns_report* report);
bool nsi_study_record_grid(ns_study* s, ns_json* j);

#endif
