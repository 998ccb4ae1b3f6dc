// A fit file: what is fitted to which data, and how (docs/fit.md).

#ifndef NSI_FIT_SPEC_H
#define NSI_FIT_SPEC_H

#include "fit/result.h"
#include "io/learned_file.h"
#include "io/schema.h"
#include "sysid/stage_solver.h"

// A file of recordings, or a part of it.
typedef struct nsi_fit_spec_file {
    const char* path; // as written
    ns_data_part part;
    uint32_t first, last; // of a glob: these of the files that fit, in the order of their names
    bool found;           // the path is where it is
    const char* base;     // folder of the file that names it, from that of the fit
    const nsi_yaml_node* node; // for messages
} nsi_fit_spec_file;

typedef NSI_ARRAY(nsi_fit_spec_file) nsi_fit_spec_files;

// One of several robots that share parameters.
typedef struct nsi_fit_spec_variant {
    const char *name, *files, *model; // files: a glob; model: a path as written
    const nsi_yaml_node* node;        // for messages
} nsi_fit_spec_variant;

typedef struct nsi_search {
    const ns_solver* solver; // NULL: there is no search
    uint32_t population, rounds, patience, evaluations;
    double sigma, target, seconds;
} nsi_search;

#define NSI_AVERAGE_MAP(X)                                                                         \
    X(NSI_AVERAGE_RMS, "rms", "root of the mean square")                                           \
    X(NSI_AVERAGE_MEAN, "mean", "")
typedef enum nsi_average { NSI_AVERAGE_MAP(NS_CHOICE_VALUE) } nsi_average;

// What a measure says besides its formulas.
typedef struct nsi_fit_measure {
    int average; // an nsi_average
    const char* unit;
} nsi_fit_measure;

typedef struct nsi_fit_spec {
    const char* path;
    char* folder; // of the file
    nsi_yaml yaml;
    const char *title, *citation;

    const char *model, *blueprint, *weights;  // paths as written, or NULL
    NSI_ARRAY(nsi_fit_spec_variant) variants; // in place of `model`
    nsi_learned* learned;                     // or NULL: the step is that of physics
    bool ground, self_collision, floating_base;
    int contact, integrator; // -1: the model's
    double timestep;         // 0: the longest that divides the period and is not above the model's

    const char* data_folder;      // or NULL
    const char* data_base;        // folder of the file that names it, from that of the fit
    const char* data_root;        // where files of these names are looked for first, up to a NULL;
    const char* const* data_made; // a root of NULL: there are none
    const char* map;              // or NULL: by names of columns
    double period;                // 0: of the files
    double noise; // added to what is trained on, share of each channel's standard deviation
    nsi_fit_spec_files files[NS_ROLE_COUNT];

    NSI_ARRAY(nsi_parameter_request) parameters;
    NSI_ARRAY(nsi_setting_request) settings;
    NSI_ARRAY(nsi_stage) stages;
    bool choose_windows; // the only stage becomes a schedule that is chosen from the data
    nsi_search search;
    ns_posterior_options posterior;

    uint32_t history, origins;
    double after;               // share of a recording before its origin; 0: none
    const nsi_yaml_node* adapt; // parameters that adapt to it, and how far; NULL: none
    nsi_number_list horizons;   // s
    const nsi_yaml_node*
        errors; // names and formulas of channels whose errors count; NULL: positions
    const nsi_yaml_node* measures; // by name, each with the formulas of its distance; NULL: none
    uint64_t seed;

    // What `neuralsim discover` may look at: globs of parameters and of quantities; none: its own choice.
    nsi_text_list discover_parameters, discover_outputs;
    ns_allocator allocator;
} nsi_fit_spec;

// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE, NS_ERR_LIMIT with file:line:column; NS_ERR_NOMEM
ns_status nsi_fit_spec_read(const char* path, const ns_allocator* allocator, nsi_fit_spec** out,
                            ns_error* error);
ns_status nsi_fit_spec_parse(const char* text, size_t size, const char* path,
                             const ns_allocator* allocator, nsi_fit_spec** out, ns_error* error);
// A fit that stands in a file of studies: `entry` is a mapping of a fit, and of other keys, `skip` (nsi_yaml_derive).
// @param title  for a fit whose own mapping has none; may be NULL
ns_status nsi_fit_spec_derive(const nsi_yaml* yaml, const nsi_yaml_node* entry, const char* skip,
                              const char* title, nsi_yaml_finder* before, void* context,
                              const ns_allocator* allocator, nsi_fit_spec** out, ns_error* error);
void nsi_fit_spec_free(nsi_fit_spec* spec); // NULL is allowed

// A spec without a file, to be filled by calls; NULL when out of memory.
nsi_fit_spec* nsi_fit_spec_make(const char* path, const ns_allocator* allocator);

// Tables of keys: of the file, and of its parts.
extern const nsi_schema nsi_fit_schema, nsi_fit_data_schema, nsi_fit_file_schema,
    nsi_fit_parameter_schema, nsi_fit_train_schema, nsi_fit_search_schema, nsi_fit_posterior_schema,
    nsi_fit_predict_schema, nsi_fit_measure_schema, nsi_fit_variant_schema, nsi_fit_discover_schema;

// ---- spec_files.c --------------------------------------------------------------------------------

// Files in place of globs.
// @return NS_ERR_PARSE when none fits
ns_status nsi_fit_spec_expand(nsi_fit_spec* spec, ns_error* error);

// Another part of the training data, for learning curves: so many trajectories of the first file, the
// block-th so many of those it names; or the first so many whole files. 0: all.
// @return NS_ERR_PARSE when there are not so many
ns_status nsi_fit_spec_choose(nsi_fit_spec* spec, uint32_t trajectories, uint32_t block,
                              ns_error* error);

// Cross-validation: every `folds`-th training file, from number `fold` on, is to test on instead of
// those of the spec.
// @return NS_ERR_PARSE when there are fewer files
ns_status nsi_fit_spec_fold(nsi_fit_spec* spec, uint32_t folds, uint32_t fold, ns_error* error);

// A name in the spec as a path: beside the spec's file unless it is absolute. From the arena of the
// spec; NULL when out of memory.
const char* nsi_fit_spec_path(nsi_fit_spec* spec, const char* name);

// The same for a file of recordings: in the data folder below the data root, else beside the spec, else
// below the folder that the environment names in NEURALSIM_DATA.
// @return NS_ERR_IO says where it was looked for
ns_status nsi_fit_spec_data_path(nsi_fit_spec* spec, const nsi_fit_spec_file* file,
                                 const char** out, ns_error* error);

#endif
