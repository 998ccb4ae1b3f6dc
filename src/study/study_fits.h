// A study of kind `fits`: types and functions that its files share (docs/experiments.md).

#ifndef NSI_STUDY_STUDY_FITS_H
#define NSI_STUDY_STUDY_FITS_H

#include "fit/result.h"
#include "neuralsim/table.h"
#include "study/study_state.h"

enum { STUDY_MAX_SEEDS = 1000 };

// One run of a fit: for a number of training trajectories and a seed.
typedef struct study_run {
    nsi_result result;
    bool done;
} study_run;

// A fit with its seeds, folds and numbers of trajectories.
typedef struct study_entry {
    const char *name, *label;
    const nsi_yaml_node* node;   // its mapping in study.yaml
    const char* full_label;      // with the largest number of trajectories, where there are several
    uint32_t group;              // its table
    uint32_t from;               // entry whose result it starts from; NSI_NONE: none
    uint32_t seeds;              // runs for each number of trajectories
    nsi_count_list trajectories; // of the file
    const uint32_t* counts;      // (ncount) training trajectories; 0: as the fit says
    uint32_t ncount;
    uint32_t
        folds; // runs that each leave out a part of the training data, after the first; 0: none
    uint32_t max_trajectories, max_seeds; // of a run that is no smoke run
    uint32_t smoke_iterations;            // of each stage in a smoke run; 0: all
    const nsi_yaml_node* inputs;          // that should survive a sparsity path, or NULL
    const nsi_yaml_node* truth; // names and values of parameters and coefficients, or NULL
    const double* horizons;     // (nhorizon) of its predictions, from the arena
    uint32_t nhorizon;
    uint64_t seed;    // of the file
    bool chosen;      // it is run
    bool has_weights; // its result has
    study_run* runs;  // (nrun) ncount x seeds, or with folds: of all, then each fold
    uint32_t nrun;
} study_entry;

// A table of its own: fits to the same recordings.
typedef struct study_group {
    const char *name, *title; // "": the only one
    const char* data;         // folder that it needs, or NULL
    const char* baseline_label;
    const nsi_yaml_node* baseline_node; // names the entry, or NULL
    uint32_t baseline, headline;        // entries
    bool missing;                       // its data is not there
} study_group;

// Errors that others reach.
typedef struct study_reference {
    const char* name;
    int role;
    uint32_t group;
    nsi_number_list horizons, pooled, median; // empty: not known
    const nsi_yaml_node* measures;            // by name, or NULL
} study_reference;

struct study_fits {
    ns_study* study;
    const char* data;  // folder of the recordings, or NULL
    bool simulates;    // makes recordings of its own,
    const char** made; // with these file names, up to a NULL
    study_group* groups;
    uint32_t ngroup;
    study_entry* entries;
    uint32_t nentry;
    study_reference* references;
    uint32_t nreference;
    uint32_t headline; // entry
    uint32_t analytic; // entry whose model becomes analytic.yaml; NSI_NONE: none
};

// Tables of keys.
extern const nsi_schema nsi_study_fits_schema, nsi_study_group_schema, nsi_study_baseline_schema,
    nsi_study_fit_schema, nsi_study_reference_schema, nsi_study_simulate_schema,
    nsi_study_figure_schema;

// ---- study_fits.c ------------------------------------------------------------------------------

// Number of the entry that a node names, or NSI_NONE, which is a fault.
uint32_t nsi_study_find_fit(study_fits* f, const nsi_yaml_node* node);

// The fit of an entry, with what it extends.
ns_status nsi_study_read_spec(const study_fits* f, const study_entry* x, nsi_fit_spec** out,
                              ns_error* error);

// ---- study_run.c -------------------------------------------------------------------------------

bool nsi_study_prepare_fits(ns_study* s);
bool nsi_study_run_fits(ns_study* s);

// Runs of the largest number of trajectories, one for each seed; the first stands for all in pictures.
const study_run* nsi_study_runs(const study_entry* x);

// The part of its data that a fold leaves out counts as data to test on.
static inline bool nsi_study_is_folded(const study_entry* x, ns_data_role role) {
    return x->folds > 0 && role == NS_ROLE_TEST;
}

static inline bool nsi_study_has_analytic(const study_fits* f) {
    return f->analytic != NSI_NONE && f->entries[f->analytic].chosen;
}

// ---- study_simulate.c --------------------------------------------------------------------------

bool nsi_study_check_simulate(study_fits* f); // reads all of `simulate` first
bool nsi_study_simulate(study_fits* f);       // recordings into the folder `data` of the run

// ---- study_scores.c ----------------------------------------------------------------------------

// In the order in which they are shown.
enum { STUDY_ROLES = 3 };
extern const ns_data_role nsi_study_roles[STUDY_ROLES];

// A number of each of some runs: the median, the least and the most. NaN where a run has none.
typedef struct study_spread {
    double median, least, most;
} study_spread;

study_spread nsi_study_spread_of(const double* values, uint32_t count);

// What is asked of a score.
typedef struct study_quantity {
    enum { STUDY_POOLED, STUDY_MEDIAN, STUDY_RMSE_Q, STUDY_RMSE_QD, STUDY_MEASURE } kind;
    double seconds;   // of the first two: the horizon
    const char* name; // of a measure
} study_quantity;

// Over the seeds or folds of an entry, after the fit or before it, with the number-th count of trajectories.
study_spread nsi_study_score(const study_entry* x, uint32_t number, bool after, ns_data_role role,
                             study_quantity what);
// Scores of one run that say what there is: of the first seed, or the first fold.
const ns_score* nsi_study_example(const study_entry* x, uint32_t number, bool after,
                                  ns_data_role role);
study_spread nsi_study_seconds(const study_entry* x, uint32_t number);

// A measure of a fit with all its trajectories, as tables have it; NaN: there is none.
double nsi_study_measure(const study_entry* x, ns_data_role role, const char* name);

// Of a sparsity path: are exactly the expected inputs left; in how many seeds?
bool nsi_study_has_inputs(const study_entry* x, const nsi_result* a);
uint32_t nsi_study_count_inputs(const study_entry* x);

// The largest relative error of `truth`, of a run and of all seeds; NaN: there is nothing of such a name.
double nsi_study_truth_error(const study_fits* f, const study_entry* x, const nsi_result* a);
study_spread nsi_study_truth_errors(const study_fits* f, const study_entry* x);

// Names of `truth` and `inputs` that mean nothing would look like results that are missing: a failure.
bool nsi_study_check_names(study_fits* f);

// ---- study_figures.c ---------------------------------------------------------------------------

#define STUDY_FIGURE_MAP(X)                                                                        \
    X(STUDY_FIGURE_LOSS, "loss", "")                                                               \
    X(STUDY_FIGURE_PREDICTION, "prediction", "")                                                   \
    X(STUDY_FIGURE_LEARNING, "learning", "")                                                       \
    X(STUDY_FIGURE_BARS, "bars", "")                                                               \
    X(STUDY_FIGURE_OUTLINES, "outlines", "")                                                       \
    X(STUDY_FIGURE_SUPPORTS, "supports", "")

typedef enum study_figure_kind { STUDY_FIGURE_MAP(NS_CHOICE_VALUE) } study_figure_kind;

enum { STUDY_MAX_SHOWN = 7, STUDY_MAX_CHANNELS = 12, STUDY_MAX_RECORDINGS = 20 };

extern const char* const nsi_study_line_styles[STUDY_MAX_SHOWN];

typedef struct study_figure {
    int kind; // a study_figure_kind
    const char* title;
    const study_entry* fits[STUDY_MAX_SHOWN]; // that are run
    uint32_t nfit;
    nsi_text_list channels;
    const char* against; // a channel, or NULL: time
    const char* before;  // what the start of the first fit is called; NULL: it is not shown
    nsi_number_list recordings;
    ns_line_mark mark;   // label NULL: none
    const char* measure; // of bars
    const char* model;   // of outlines: a file beside the study's
} study_figure;

void nsi_study_check_figures(study_fits* f);
bool nsi_study_make_figures(study_fits* f); // charts of `figures`

// ---- study_predictions.c -----------------------------------------------------------------------

// The predictions of a fit that stand for all of it; of folds those of the first, of which the
// recordings that it left out come first.
bool nsi_study_read_predictions(study_fits* f, const study_entry* x, const char** path,
                                ns_table* out);
// Where the number-th recording of such a table begins and ends; false: there is none.
bool nsi_study_find_recording(const ns_table* table, double number, uint32_t* first, uint32_t* end);
// Fail with the channels that there are, since this is none; false.
bool nsi_study_fail_column(study_fits* f, const ns_table* table, const char* path,
                           const char* channel);

// ---- study_planes.c ----------------------------------------------------------------------------

// Paths of a plate in the plane, and its outline at their ends, recorded and predicted; and how much
// friction there is under it.
bool nsi_study_add_outlines(study_fits* f, const study_figure* of);
bool nsi_study_add_supports(study_fits* f, const study_figure* of);

// ---- study_report.c, study_record.c ------------------------------------------------------------

void nsi_study_report_fits(ns_study* s, ns_report* report);
bool nsi_study_record_fits(ns_study* s, ns_json* j);

#endif
