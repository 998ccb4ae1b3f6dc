// State of a fit: assemble.c creates it, fit_run.c optimises it and save.c writes its files.

#ifndef NSI_FIT_FIT_STATE_H
#define NSI_FIT_FIT_STATE_H

#include "fit/checkpoint.h"
#include "fit/data_warnings.h"
#include "fit/portable.h"
#include "fit/result.h"
#include "fit/spec.h"
#include "io/hybrid_file.h"
#include "neuralsim/fit.h"
#include "neuralsim/hybrid.h"
#include "sysid/prediction.h"

// A robot of a fit.
typedef struct nsi_fit_variant {
    const char *name, *files; // NULL: it is the only one. In the arena of the spec, as
    const char* robot;        // the path of its file, NULL: as the spec's model says
    ns_hybrid* hybrid;        // NULL: by calls
    const ns_model* model;
    ns_system* system;
    ns_system_options options; // of the system
} nsi_fit_variant;

struct ns_fit {
    ns_allocator allocator;
    uint32_t threads;
    nsi_fit_spec* spec;
    nsi_fit_variant* variants; // (nvariant)
    uint32_t nvariant;
    ns_hybrid* hybrid;       // of the first variant, as its system and options below
    ns_blueprint* blueprint; // of the spec, or NULL
    ns_data_map* map;
    bool by_calls;                         // parameters and data are the caller's
    const ns_dataset* data[NS_ROLE_COUNT]; // NULL: none
    nsi_data_warnings data_warnings;       // of files
    ns_parameters* parameters;
    ns_system* system;
    nsi_problem* problem;
    ns_system* teacher_system; // for stages with teacher forcing, or NULL
    nsi_problem* teacher;
    nsi_error_formula* errors; // of predictions
    uint32_t nerror;
    nsi_metric* metrics;
    uint32_t nmetric;
    nsi_error_formula* measured; // of all measures
    uint32_t nmeasured;
    uint32_t* adapt; // parameters that adapt in predictions
    double* adapt_deviations;
    uint32_t nadapt;
    double timestep;
    ns_system_options options; // of the system

    uint32_t nz, nw;
    double *z, *w;   // where the fit stands
    double *z0, *w0; // where it began
    nsi_result result;
    ns_fit_result view; // of the result, when a run has ended
    bool has_result;
    bool stopped;
};

// What an experiment changes in the file of a fit. Zero: nothing.
typedef struct nsi_fit_changes {
    uint64_t seed;           // added to the seeds of the file, its networks and its learned system
    const char* data;        // a folder in which these recordings are looked for first; NULL: none
    const char* const* made; // names of these, up to a NULL
    uint32_t
        trajectories;     // to train on: so many of the first file, which says which it has. 0: all
    uint32_t block;       // the block-th so many of them
    uint32_t folds, fold; // test on the fold-th part of what is trained on, without it; 0 folds: no
    uint32_t iterations;  // of each stage, at most; 0: as it says
    const char* weights;  // a file to start from; NULL: that of the spec, if it has one
    nsi_fit_spec* spec;   // in place of the file at the path, taken over; NULL: that file
} nsi_fit_changes;

// @param changes  NULL: none
// @return as ns_fit_load()
ns_status nsi_fit_load(const char* path, uint32_t threads, const nsi_fit_changes* changes,
                       ns_fit** out, ns_error* error);

// Read the spec, the model and the recordings, and find the time step: all of ns_fit_load() that does not
// ask what is fitted.
ns_status nsi_fit_open(const char* path, uint32_t threads, const nsi_fit_changes* changes,
                       ns_fit** out, ns_error* error);

// ---- assemble.c ----------------------------------------------------------------------------------

// A failure at an entry of the spec: its message begins with the place, the first one for NULL. In a fit
// made by calls there are no places, and what would be wrong in a file is a wrong argument.
ns_status nsi_fit_fail_at(const ns_fit* fit, const nsi_yaml_node* node, ns_status status,
                          const char* what, ns_error* error);
const nsi_yaml_node* nsi_fit_entry(const ns_fit* fit, const char* key); // or NULL

// A formula of channels of the training data.
// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_NOMEM
ns_status nsi_fit_parse_formula(ns_fit* fit, const char* text, nsi_error_formula* out,
                                ns_error* error);

// The time step of all variants, when spec, models and data are there.
void nsi_fit_choose_timestep(ns_fit* fit);

// Systems, problem and initial point of a fit whose spec, models, data and parameters are there; then
// check that stages, search and predictions have what they need.
ns_status nsi_fit_assemble(ns_fit* fit, ns_error* error);
ns_status nsi_fit_check(ns_fit* fit, ns_error* error);

// ---- save.c: files of a result ---------------------------------------------------------------

// "folder/name", to be freed; NULL: out of memory.
char* nsi_fit_join(const ns_fit* fit, const char* folder, const char* name);
ns_status nsi_fit_write_text(const ns_fit* fit, const char* folder, const char* name,
                             const ns_text* text, ns_error* error);
// folder/result.json and folder/report.html
ns_status nsi_fit_write_report(const ns_fit* fit, const ns_report* report, const char* folder,
                               ns_error* error);

// A parameter of the model that is written, in place of the file's own value, or behind all that may fit
// the name, too. Rounding may have led out of the range, in which a model that is read must be.
ns_status nsi_fit_set_parameter(const ns_fit* fit, nsi_hybrid_parameters* to, const ns_model* robot,
                                const char* name, double value, ns_error* error);

// Moments that no motion shows and that others have left behind (nsi_parameters_following()).
// @param p  parameters of the variant
ns_status nsi_fit_set_following(const ns_fit* fit, const ns_parameters* params, uint32_t variant,
                                const double* p, nsi_hybrid_parameters* to, ns_error* error);

// The hybrid model that was fitted, with what was found, as folder/name.
// @param weights  path of its weights; NULL: it has none
// @param notes    as of nsi_copy_robots()
ns_status nsi_fit_write_model(const ns_fit* fit, const char* folder, const char* name,
                              const char* weights, nsi_copy_notes* notes, ns_error* error);

// What a stage fits: the problem, or the one with a teacher.
static inline const nsi_problem* nsi_fit_problem(const ns_fit* fit, const nsi_stage* stage) {
    return stage->teacher_forcing ? fit->teacher : fit->problem;
}

// Learned systems (learned_fit.c): names of controls and scales from the training data, into the spec; and,
// after the problem is there, a teacher where a stage needs one.
ns_status nsi_fit_prepare_learned(ns_fit* fit, ns_error* error);
ns_status nsi_fit_make_teacher(ns_fit* fit, ns_error* error);

// How the fit's predictions are made.
nsi_predict_options nsi_fit_predict_options(const ns_fit* fit);

// Predictions of a set of recordings from where the fit began or stands; nothing without such a set.
ns_status nsi_fit_score(const ns_fit* fit, ns_data_role role, bool after, ns_score* out,
                        ns_error* error);

// The result for the point where a fit stands.
// @param objective  of the last stage, at its end; NULL when it was not reached
ns_status nsi_fit_get_result(ns_fit* fit, nsi_objective* objective, ns_error* error);

#endif
