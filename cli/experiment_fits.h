// An experiment of kind `fits`: what its parts share (docs/experiments.md).

#ifndef CLI_EXPERIMENT_FITS_H
#define CLI_EXPERIMENT_FITS_H

#include "experiment.h"
#include "fit/result.h"
#include "fit/spec.h"
#include "report/figure_data.h"
#include <neuralsim/table.h>

enum { FITS_MOST_SEEDS = 1000 };

// One run of a fit: for a number of training trajectories and a seed.
typedef struct fits_run {
    nsi_result answer;
    bool done;
} fits_run;

typedef struct fits_entry {
    const char *name, *label;
    const nsi_yaml_node* node;   // its mapping in study.yaml
    const char* full_label;      // with the largest number of trajectories, where there are several
    uint32_t of;                 // its case
    uint32_t from;               // entry whose result it starts from; NSI_NONE: none
    uint32_t seeds;              // runs for each number of trajectories
    nsi_count_list trajectories; // of the file
    const uint32_t* counts;      // (ncount) training trajectories; 0: as the fit says
    uint32_t ncount;
    uint32_t
        folds; // runs that each leave out a part of what is trained on, after the first; 0: none
    uint32_t most_trajectories, most_seeds; // of a run that is not quick
    uint32_t quick_iterations;              // of each stage when it is quick; 0: all
    const nsi_yaml_node *inputs,            // that should survive a sparsity path, or NULL
        *truth;             // names and values of parameters and coefficients, or NULL
    const double* horizons; // of its predictions, from the arena
    uint32_t nhorizon;
    uint64_t seed;    // of the file
    bool chosen;      // it is run
    bool has_weights; // its result has
    fits_run* runs;   // (ncount x seeds), or with folds: of all, then each fold
    uint32_t nrun;
} fits_entry;

// A table of its own: fits to the same recordings.
typedef struct fits_case {
    const char *name, *title; // "": the only one
    const char* data;         // folder that it needs, or NULL
    const char* before_label;
    const nsi_yaml_node* before_node; // names the entry, or NULL
    uint32_t before, main;            // entries
    bool missing;                     // its data is not there
} fits_case;

// Errors that others reach.
typedef struct fits_reference {
    const char* name;
    int role;
    uint32_t of;                              // its case
    nsi_number_list horizons, pooled, median; // empty: not known
    const nsi_yaml_node* metrics;             // by name, or NULL
} fits_reference;

typedef struct fits {
    experiment* e;
    const char* data;      // folder of the recordings, or NULL
    const char* simulated; // folder of those made here, or NULL
    const char** made;     // their files, up to a NULL
    fits_case* cases;
    uint32_t ncase;
    fits_entry* entries;
    uint32_t nentry;
    fits_reference* references;
    uint32_t nreference;
    uint32_t main;     // entry
    uint32_t analytic; // entry whose model becomes analytic.yaml; NSI_NONE: none
    bool interrupted;
    nsi_figures charts;
} fits;

// Tables of keys.
extern const nsi_schema study_fits_schema, study_group_schema, study_baseline_schema,
    study_fit_schema, study_reference_schema, study_simulate_schema, study_figure_schema;

// Number of the entry that a node names, or NSI_NONE, which is a fault.
uint32_t fits_find(fits* f, const nsi_yaml_node* node);

// The fit of an entry, with what it extends.
ns_status fits_read_spec(fits* f, const fits_entry* x, nsi_fit_spec** out, ns_error* error);

// Runs of the largest number of trajectories, one for each seed; the first stands for all in pictures.
const fits_run* fits_runs(const fits_entry* x);

// The part of its data that a fold leaves out counts as data to test on.
static inline bool fits_is_folded(const fits_entry* x, ns_data_role role) {
    return x->folds > 0 && role == NS_ROLE_TEST;
}

// A number of each of some runs, one per seed: the median, the least and the most. NaN where a run has
// none.
typedef struct fits_spread {
    double median, least, most;
} fits_spread;
fits_spread fits_spread_of(const double* values, uint32_t count);

// ---- experiment_simulate.c -------------------------------------------------------------------

// Recordings of `simulate` into the folder. False after saying why.
bool fits_check_simulate(fits* f); // reads all of it first
bool fits_simulate(fits* f);

// ---- experiment_figures.c --------------------------------------------------------------------

#define FITS_FIGURE_MAP(X)                                                                         \
    X(FITS_FIGURE_LOSS, "loss", "")                                                                \
    X(FITS_FIGURE_PREDICTION, "prediction", "")                                                    \
    X(FITS_FIGURE_LEARNING, "learning", "")                                                        \
    X(FITS_FIGURE_BARS, "bars", "")                                                                \
    X(FITS_FIGURE_OUTLINES, "outlines", "")                                                        \
    X(FITS_FIGURE_SUPPORTS, "supports", "")

typedef enum fits_figure_kind { FITS_FIGURE_MAP(NS_CHOICE_VALUE) } fits_figure_kind;

enum { FITS_MOST_SHOWN = 7, FITS_MOST_CHANNELS = 12, FITS_MOST_RECORDINGS = 20 };

extern const char* const fits_classes[FITS_MOST_SHOWN]; // colours

typedef struct fits_figure {
    int kind; // a fits_figure_kind
    const char* title;
    const fits_entry* fits[FITS_MOST_SHOWN]; // that are run
    uint32_t nfit;
    nsi_text_list channels;
    const char* against; // a channel, or NULL: time
    const char* before;  // what the start of the first fit is called; NULL: it is not shown
    nsi_number_list recordings;
    ns_line_mark mark;   // label NULL: none
    const char* measure; // of bars
    const char* model;   // of outlines: a file beside the experiment's
} fits_figure;

void fits_check_figures(fits* f);
// Charts of `figures`; false after saying why.
bool fits_make_figures(fits* f);

// ---- experiment_predictions.c ------------------------------------------------------------------

// The predictions of a fit that stand for all of it; of folds those of the first, of which the
// recordings that it left out come first. False after saying why.
bool fits_read_predictions(fits* f, const fits_entry* x, const char** path, ns_table* out);
// Where the number-th recording of such a table begins and ends; false: there is none.
bool fits_find_recording(const ns_table* table, double number, uint32_t* first, uint32_t* end);
// Say which channels there are, since this is none; false.
bool fits_fail_column(const ns_table* table, const char* path, const char* channel);

// ---- experiment_planes.c -----------------------------------------------------------------------

// Paths of a plate in the plane, and its outline at their ends, recorded and predicted; and how much friction there is
// under it. False after saying why.
bool fits_add_outlines(fits* f, const fits_figure* of);
bool fits_add_supports(fits* f, const fits_figure* of);

// ---- experiment_tables.c -----------------------------------------------------------------------

// Print the tables, and write page and numbers. The exit code.
int fits_report(fits* f);

// A measure of a fit with all its trajectories, as tables have it; NaN: there is none.
double fits_measure(const fits_entry* x, ns_data_role role, const char* name);

#endif
