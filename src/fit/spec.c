// Reading a fit file by its tables: every key is checked before anything is loaded.

#include "fit/spec.h"

#include "fit/result_words.h"
#include "io/file.h"
#include "io/hybrid_file.h"
#include "io/numbers.h"
#include "neuralsim/contact.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const ns_choice average_rows[] = {NSI_AVERAGE_MAP(NS_CHOICE_ROW)};
static const ns_choices averages = NS_CHOICES("average", average_rows);

// ---- what functions of the tables share ----------------------------------------------------------

static ns_status spec_fail(nsi_schema_reader* r, const nsi_yaml_node* node, const char* what) {
    return nsi_yaml_fail(r->yaml, node, r->error, "%s", what);
}

#define SPEC_PUSH(r, array, item)                                                                  \
    (nsi_array_push(&((nsi_fit_spec*)(r)->context)->allocator, array, item)                        \
         ? NS_OK                                                                                   \
         : nsi_fail_nomem((r)->error))

// ---- data ----------------------------------------------------------------------------------------

// "0-9", "3"
static ns_status read_range(nsi_schema_reader* r, const nsi_yaml_node* node, const char* what,
                            uint32_t* from, uint32_t* to) {
    char rest;
    const char* text = node->type == NSI_YAML_SCALAR ? node->text : "";
    size_t digits = strspn(text, "0123456789"), more = 0;
    if (text[digits] == '-') more = strspn(text + digits + 1, "0123456789");
    bool plain = digits > 0 && digits < 10 && more < 10; // below 2^32
    int n = plain ? sscanf(text, "%u-%u%c", from, to, &rest) : 0;
    if (n == 1 && sscanf(text, "%u%c", from, &rest) == 1) *to = *from, n = 2;
    return n == 2 && *to >= *from ? NS_OK : spec_fail(r, node, what);
}

static ns_status read_trajectories(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    ns_data_part* part = &((nsi_fit_spec_file*)out)->part;
    uint32_t first, last;
    ns_status status =
        read_range(r, node, "expected numbers of trajectories: 3, or 0-9", &first, &last);
    if (status != NS_OK) return status;
    part->all_trajectories = false;
    part->first_trajectory = first;
    part->last_trajectory = last;
    return NS_OK;
}

// Of the files that a glob fits.
static ns_status read_select(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    nsi_fit_spec_file* file = out;
    return read_range(r, node, "expected numbers of files, in the order of their names: 3, or 0-9",
                      &file->first, &file->last);
}

// Seconds, or a share: 70%
static ns_status read_time(nsi_schema_reader* r, const nsi_yaml_node* node, bool* is_share,
                           double* out) {
    double share;
    char rest[2];
    *is_share = false;
    if (node->type != NSI_YAML_SCALAR || !strchr(node->text, '%')) {
        return nsi_yaml_number(r->yaml, node, 0.0, 1e9, out, r->error);
    }
    if (sscanf(node->text, "%lf%1[%]", &share, rest) != 2 || !(share >= 0 && share <= 100)) {
        return spec_fail(r, node, "expected a share between 0% and 100%");
    }
    *is_share = true;
    *out = share / 100.0;
    return NS_OK;
}

// The part of a file between two times.
static ns_status check_file_part(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    ns_data_part* part = &((nsi_fit_spec_file*)out)->part;
    const nsi_yaml_node *from = nsi_yaml_find(map, "from"), *to = nsi_yaml_find(map, "to");
    bool from_share = false, to_share = false;
    ns_status status = from ? read_time(r, from, &from_share, &part->from) : NS_OK;
    if (status == NS_OK && to) status = read_time(r, to, &to_share, &part->to);
    if (status != NS_OK) return status;
    part->fractions = from_share || to_share;
    if (from && to && from_share != to_share) {
        return spec_fail(r, from, "from and to must both be seconds or both be shares");
    }
    if (to && part->to <= part->from) return spec_fail(r, to, "to must be later than from");
    return NS_OK;
}

static const nsi_schema_key file_keys[] = {
    {"file", NSI_KEY_TEXT, offsetof(nsi_fit_spec_file, path), .required = true,
     .help = "name of a recording; a glob (`*`, `?`) stands for all files that match, in the order"
             " of their names"},
    {"select", NSI_KEY_OTHER, .read = read_select, .values = "`3`, `0-9`", .fallback = "(all)",
     .help = "of a glob: numbers of files, from 0"},
    {"from", NSI_KEY_OTHER, .values = "s, or a share: `10%`", .fallback = "(the start)",
     .help = "first sample"},
    {"to", NSI_KEY_OTHER, .values = "s, or a share: `70%`", .fallback = "(the end)",
     .help = "end of the part, not included"},
    {"trajectories", NSI_KEY_OTHER, .read = read_trajectories, .values = "`3`, `0-9`",
     .fallback = "(all)", .help = "numbers in the trajectory column"},
};
const nsi_schema nsi_fit_file_schema = NSI_SCHEMA("a file", file_keys, check_file_part);

static ns_status read_files(nsi_schema_reader* r, const nsi_yaml_node* list, ns_data_role role) {
    nsi_fit_spec* p = r->context;
    ns_status status = NS_OK;
    if (list->type != NSI_YAML_LIST) {
        return spec_fail(r, list, "expected a list of files, [a.csv, b.csv]");
    }
    for (const nsi_yaml_node* node = list->first; node && status == NS_OK; node = node->next) {
        nsi_fit_spec_file file = {.node = node,
                                  .base = node->source->folder,
                                  .part = {.all_trajectories = true},
                                  .last = UINT32_MAX};
        status = node->type == NSI_YAML_SCALAR
                     ? nsi_schema_text(r, node, &file.path)
                     : nsi_schema_read(r, &nsi_fit_file_schema, node, &file);
        if (status == NS_OK) status = SPEC_PUSH(r, &p->files[role], file);
    }
    return status;
}

static ns_status read_train_files(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)out;
    return read_files(r, node, NS_ROLE_TRAIN);
}

static ns_status read_validation_files(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)out;
    return read_files(r, node, NS_ROLE_VALIDATION);
}

static ns_status read_test_files(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)out;
    return read_files(r, node, NS_ROLE_TEST);
}

static ns_status keep_data_base(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)r;
    ((nsi_fit_spec*)out)->data_base = node->source->folder;
    return NS_OK;
}

static ns_status check_data(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    if (((nsi_fit_spec*)out)->files[NS_ROLE_TRAIN].count > 0) return NS_OK;
    return spec_fail(r, map, "there is nothing to train on; give `train: [a.csv]`");
}

static const nsi_schema_key data_keys[] = {
    {"map", NSI_KEY_PATH, offsetof(nsi_fit_spec, map), .fallback = "(columns by their names)",
     .help = "what the columns are ([data.md](data.md))"},
    {"folder", NSI_KEY_TEXT, offsetof(nsi_fit_spec, data_folder), .read = keep_data_base,
     .values = "folder", .fallback = "(beside this file)",
     .help = "of the recordings: beside this file, else below `$NEURALSIM_DATA`"},
    {"period", NSI_KEY_NUMBER, offsetof(nsi_fit_spec, period), 1e-9, 1e6,
     .fallback = "(that of the first file)",
     .help = "s between samples; recordings are resampled to it"},
    {"noise", NSI_KEY_NUMBER, offsetof(nsi_fit_spec, noise), 0.0, 1e6, .fallback = "0",
     .help = "Gaussian noise added to training data, as a share of each channel's standard"
             " deviation; drawn from `seed`"},
    {"train", NSI_KEY_OTHER, .read = read_train_files, .values = "list of files",
     .help = "recordings to fit to: names, or `{file, select, from, to, trajectories}`"},
    {"validation", NSI_KEY_OTHER, .read = read_validation_files, .values = "list of files",
     .help = "recordings to choose settings by"},
    {"test", NSI_KEY_OTHER, .read = read_test_files, .values = "list of files",
     .help = "recordings that nothing was chosen by"},
};
const nsi_schema nsi_fit_data_schema = NSI_SCHEMA("data", data_keys, check_data);

// ---- parameters ----------------------------------------------------------------------------------

static const nsi_schema_key parameter_keys[] = {
    {"initial", NSI_KEY_NUMBER, offsetof(nsi_parameter_request, how.initial),
     .fallback = "(the model's value)", .help = "value that the fit starts from"},
    {"lower", NSI_KEY_NUMBER, offsetof(nsi_parameter_request, how.lower),
     .fallback = "(the model's)", .help = "bound"},
    {"upper", NSI_KEY_NUMBER, offsetof(nsi_parameter_request, how.upper),
     .fallback = "(the model's)", .help = "bound"},
    {"scale", NSI_KEY_NUMBER, offsetof(nsi_parameter_request, how.scale), 0.0, DBL_MAX,
     .fallback = "(from the value)", .help = "what counts as a change when the value is near 0"},
    {"prior_sigma", NSI_KEY_NUMBER, offsetof(nsi_parameter_request, how.prior_sigma), 0.0, DBL_MAX,
     .fallback = "(no prior)",
     .help = "standard deviation of a Gaussian prior around the initial value"},
};
const nsi_schema nsi_fit_parameter_schema = NSI_SCHEMA("a parameter", parameter_keys, NULL);

static ns_status read_parameters(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    nsi_fit_spec* p = out;
    ns_status status = NS_OK;
    if (map->type != NSI_YAML_MAP)
        return spec_fail(r, map, "expected a map of names, such as `link/pole/mass: free`");
    for (const nsi_yaml_node* node = map->first; node && status == NS_OK; node = node->next) {
        nsi_parameter_request q = {.name = node->key,
                                   .how = ns_default_parameter(),
                                   .file = node->source->file,
                                   .line = node->key_line,
                                   .column = node->key_column};
        if (node->type == NSI_YAML_SCALAR && strcmp(node->text, "free") == 0) {
            // from the model's value
        } else if (node->type == NSI_YAML_SCALAR && isalpha((unsigned char)node->text[0])) {
            char quote[NSI_QUOTE_SIZE];
            status = nsi_yaml_fail(r->yaml, node, r->error,
                                   "%.100s: %s is neither `free` nor a number; write one of them",
                                   node->key, nsi_quote(node->text, strlen(node->text), quote));
        } else if (node->type == NSI_YAML_SCALAR) {
            status = nsi_yaml_number(r->yaml, node, -INFINITY, INFINITY, &q.how.initial, r->error);
        } else {
            status = nsi_schema_read(r, &nsi_fit_parameter_schema, node, &q);
        }
        if (status == NS_OK) status = SPEC_PUSH(r, &p->parameters, q);
    }
    return status;
}

static ns_status read_settings(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    nsi_fit_spec* p = out;
    ns_status status = NS_OK;
    if (map->type != NSI_YAML_MAP) {
        return spec_fail(r, map, "expected a map of parameters and formulas");
    }
    for (const nsi_yaml_node* node = map->first; node && status == NS_OK; node = node->next) {
        nsi_setting_request q = {.name = node->key,
                                 .file = node->source->file,
                                 .line = node->line,
                                 .column = node->column};
        status = nsi_yaml_text(r->yaml, node, &q.formula, r->error);
        if (status == NS_OK) status = SPEC_PUSH(r, &p->settings, q);
    }
    return status;
}

// ---- stages --------------------------------------------------------------------------------------

static ns_status set_huber(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)r, (void)node;
    ((nsi_stage*)out)->windows.robust = NS_ROBUST_HUBER;
    return NS_OK;
}

static ns_status set_cauchy(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    ((nsi_stage*)out)->windows.robust = NS_ROBUST_CAUCHY;
    if (!nsi_yaml_find(node->parent, "huber")) return NS_OK;
    return spec_fail(r, node, "give huber or cauchy, not both");
}

// A length of windows: samples, `one` or `whole`.
static ns_status read_length(nsi_schema_reader* r, const nsi_yaml_node* node, uint32_t* out) {
    bool scalar = node->type == NSI_YAML_SCALAR;
    if (scalar && strcmp(node->text, "whole") == 0) {
        *out = 0;
    } else if (scalar && strcmp(node->text, "one") == 0) {
        *out = 1;
    } else {
        return nsi_yaml_count(r->yaml, node, 1, 10000000, out, r->error);
    }
    return NS_OK;
}

// One length; a list of them is read by read_stages().
static ns_status read_window(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    if (node->type == NSI_YAML_LIST) return NS_OK;
    return read_length(r, node, &((nsi_stage*)out)->windows.length);
}

// A solver by its name.
static ns_status read_solver(nsi_schema_reader* r, const nsi_yaml_node* node, uint32_t needed,
                             uint32_t excluded, const ns_solver** out) {
    const char* name = NULL;
    ns_status status = nsi_yaml_text(r->yaml, node, &name, r->error);
    if (status != NS_OK) return status;
    ns_error why;
    *out = nsi_solver_choose(name, needed, excluded, &why);
    return *out ? NS_OK : spec_fail(r, node, why.message);
}

static ns_status read_method(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    return read_solver(r, node, 0, NS_SOLVER_GLOBAL, &((nsi_stage*)out)->solver);
}

// Does the solver minimise with this penalty?
static ns_status check_penalty(nsi_schema_reader* r, const nsi_yaml_node* map, const char* key,
                               bool wanted, uint32_t capability, const ns_solver* solver) {
    if (!wanted || (solver->capabilities & capability)) return NS_OK;
    char list[200];
    nsi_solver_list(capability, NS_SOLVER_GLOBAL, list, sizeof list);
    return nsi_yaml_fail(r->yaml, map, r->error, "%s needs method %s", key, list);
}

static ns_status check_penalties(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    const nsi_stage* s = out;
    ns_status status = check_penalty(r, map, "l1", s->l1 > 0.0, NS_SOLVER_L1, s->solver);
    if (status == NS_OK) {
        status = check_penalty(r, map, "group", s->group > 0.0, NS_SOLVER_GROUPS, s->solver);
    }
    if (status == NS_OK) {
        status = check_penalty(r, map, "adaptive", s->adaptive, NS_SOLVER_GROUPS, s->solver);
    }
    return status;
}

static const nsi_schema_key train_keys[] = {
    {"window", NSI_KEY_OTHER, .read = read_window, .values = "samples, `one`, `whole`, or a list",
     .fallback = "(a schedule from the data)",
     .help = "length of windows after their first sample; a list is a schedule: each fit starts"
             " from the one before"},
    {"max_windows", NSI_KEY_COUNT, offsetof(nsi_stage, windows.max_windows), 1, 10000000,
     .fallback = "(all)", .help = "at most so many windows, spread evenly"},
    {"overlap", NSI_KEY_FLAG, offsetof(nsi_stage, windows.overlap), .fallback = "false",
     .help = "windows may overlap to reach `max_windows`"},
    {"initial_state", NSI_KEY_CHOICE, offsetof(nsi_stage, windows.initial_state),
     .choices = &ns_initial_states, .fallback = "free",
     .help = "of each window: estimated with everything else and eliminated, taken from the data,"
             " or estimated and pulled to the end of the window before"},
    {"smoothing", NSI_KEY_COUNT, offsetof(nsi_stage, windows.smoothing), 1, 10000, .fallback = "5",
     .help = "samples on either side from which an initial state is guessed where velocities are"
             " not recorded"},
    {"continuity_weight", NSI_KEY_NUMBER, offsetof(nsi_stage, windows.continuity_weight), 1e-9, 1e9,
     .fallback = "10", .help = "weight of that pull, for `tied`"},
    {"huber", NSI_KEY_NUMBER, offsetof(nsi_stage, windows.robust_width), 1e-9, 1e9,
     .read = set_huber, .help = "Huber loss: residuals beyond this many sigmas count less"},
    {"cauchy", NSI_KEY_NUMBER, offsetof(nsi_stage, windows.robust_width), 1e-9, 1e9,
     .read = set_cauchy, .help = "Cauchy loss of this width"},
    {"weight_decay", NSI_KEY_NUMBER, offsetof(nsi_stage, windows.weight_decay), 0.0, 1e9,
     .fallback = "0", .help = "R of R \\|w\\|^2 for all weights; not for coefficients of formulas"},
    {"weight_decay_upper", NSI_KEY_NUMBER, offsetof(nsi_stage, windows.weight_decay_upper), 0.0,
     1e9, .fallback = "0", .help = "in addition, for all layers but the first"},
    {"l1", NSI_KEY_NUMBER, offsetof(nsi_stage, l1), 0.0, 1e9, .fallback = "0",
     .help = "lasso on single weights of first layers; for `lm`, `proximal`, `owlqn`"},
    {"group", NSI_KEY_NUMBER, offsetof(nsi_stage, group), 0.0, 1e9, .fallback = "0",
     .help = "group lasso on first layers: a group is all weights of one input, or one coefficient"
             " of a formula; for `lm`, `proximal`"},
    {"adaptive", NSI_KEY_FLAG, offsetof(nsi_stage, adaptive), .fallback = "false",
     .help = "the penalty of each group is divided by its norm at the beginning of the stage, and"
             " what is 0 then stays out; just after a stage with a penalty"},
    {"method", NSI_KEY_OTHER, .read = read_method,
     .values = "`lm`, `lbfgs`, `owlqn`, `adam`, `proximal`, or a registered solver",
     .fallback = "lm", .help = "Levenberg-Marquardt, L-BFGS, OWL-QN, Adam, proximal gradient"},
    {"iterations", NSI_KEY_COUNT, offsetof(nsi_stage, iterations), 0, 10000000, .fallback = "50",
     .help = "at most; with 0 a model is scored as it is"},
    {"tolerance", NSI_KEY_NUMBER, offsetof(nsi_stage, tolerance), 0.0, 1.0, .fallback = "1e-9",
     .help = "stop when two steps gain less than this share of the cost"},
    {"learning_rate", NSI_KEY_NUMBER, offsetof(nsi_stage, learning_rate), 1e-12, 1e6,
     .fallback = "0.01", .help = "of Adam"},
    {"learning_rate_end", NSI_KEY_NUMBER, offsetof(nsi_stage, learning_rate_end), 0.0, 1e6,
     .fallback = "(a hundredth of `learning_rate`)",
     .help = "to which the rate falls along half a cosine over the stage"},
    {"batch", NSI_KEY_COUNT, offsetof(nsi_stage, batch), 1, 10000000, .fallback = "(all)",
     .help = "windows per step of Adam"},
    {"clip_norm", NSI_KEY_NUMBER, offsetof(nsi_stage, clip_norm), 0.0, 1e12,
     .fallback = "(no limit)", .help = "longest gradient of the mean cost, for Adam"},
    {"teacher_forcing", NSI_KEY_FLAG, offsetof(nsi_stage, teacher_forcing), .fallback = "false",
     .help = "of a learned LSTM: train it on recorded states"},
    {"optimise", NSI_KEY_CHOICE, offsetof(nsi_stage, windows.optimise), .choices = &ns_optimises,
     .fallback = "all", .help = "what to optimise; coefficients of formulas go with `weights`"},
};
const nsi_schema nsi_fit_train_schema = NSI_SCHEMA("train", train_keys, check_penalties);

static ns_status check_teacher(nsi_schema_reader* r, const nsi_yaml_node* node,
                               const nsi_stage* stage) {
    const nsi_learned* learned = ((nsi_fit_spec*)r->context)->learned;
    if (!stage->teacher_forcing) return NS_OK;
    if (!learned) {
        return spec_fail(r, node, "teacher_forcing is for a `learned` system of kind lstm");
    }
    if (learned->kind != NS_LEARNED_LSTM) {
        return spec_fail(r, node,
                         "teacher_forcing is for lstm; a network without memory is trained so by"
                         " `window: one`");
    }
    if (learned->integrate) {
        return spec_fail(r, node,
                         "teacher_forcing does not go with `integrate`: begin with `window: one`");
    }
    if (stage->windows.initial_state != NS_INITIAL_STATE_RECORDED) {
        return spec_fail(r, node,
                         "teacher_forcing takes all states from the data: it needs"
                         " `initial_state: recorded`");
    }
    return NS_OK;
}

// Norms at the beginning of a stage are those at the end of the path so far, which checkpoints have.
static ns_status check_adaptive(nsi_schema_reader* r, const nsi_yaml_node* node,
                                const nsi_stage* stage) {
    const nsi_fit_spec* p = r->context;
    const nsi_stage* last = p->stages.count > 0 ? &p->stages.data[p->stages.count - 1] : NULL;
    if (!stage->adaptive) return NS_OK;
    if (nsi_optimises_weights(stage->windows.optimise) && last &&
        nsi_optimises_weights(last->windows.optimise) && (last->l1 > 0.0 || last->group > 0.0)) {
        return NS_OK;
    }
    return spec_fail(r, node,
                     "adaptive needs a stage with l1 or group just before it, and weights to fit in"
                     " both");
}

static ns_status add_read_stage(nsi_schema_reader* r, const nsi_yaml_node* node,
                                const nsi_stage* stage) {
    ns_status status = check_teacher(r, node, stage);
    if (status == NS_OK) status = check_adaptive(r, node, stage);
    return status == NS_OK ? SPEC_PUSH(r, &((nsi_fit_spec*)r->context)->stages, *stage) : status;
}

// A stage for each length of the list `window`.
static ns_status add_schedule(nsi_schema_reader* r, const nsi_yaml_node* train,
                              const nsi_yaml_node* window, nsi_stage* stage) {
    ns_status status = NS_OK;
    if (window->count == 0) return spec_fail(r, window, "expected lengths of windows: [25, 100]");
    for (const nsi_yaml_node* n = window->first; n && status == NS_OK; n = n->next) {
        status = read_length(r, n, &stage->windows.length);
        if (status == NS_OK) status = add_read_stage(r, train, stage);
    }
    return status;
}

// `train` has what all stages share.
static ns_status read_stages(nsi_schema_reader* r, const nsi_yaml_node* train,
                             const nsi_yaml_node* stages) {
    nsi_stage stage = {.solver = &nsi_solver_lm, .learning_rate_end = -1.0};
    nsi_schema_defaults(&nsi_fit_train_schema, &stage);
    ns_status status = nsi_schema_read(r, &nsi_fit_train_schema, train, &stage);
    if (status != NS_OK) return status;
    const nsi_yaml_node* window = nsi_yaml_find(train, "window");
    bool schedule = window && window->type == NSI_YAML_LIST;
    if (!stages) {
        // Long windows are no place to begin for least squares; other solvers take what they are given.
        bool squares = (stage.solver->capabilities & NS_SOLVER_LEAST_SQUARES) != 0;
        ((nsi_fit_spec*)r->context)->choose_windows = !window && squares && stage.iterations > 0;
        return schedule ? add_schedule(r, train, window, &stage) : add_read_stage(r, train, &stage);
    }

    if (schedule) {
        return spec_fail(r, window, "with `stages`, each of them has its own length of windows");
    }
    if (stages->type != NSI_YAML_LIST || stages->count == 0) {
        return spec_fail(r, stages, "expected a list of stages: [{window: 25}, {window: 100}]");
    }
    for (const nsi_yaml_node* n = stages->first; n && status == NS_OK; n = n->next) {
        nsi_stage own = stage;
        status = nsi_schema_read(r, &nsi_fit_train_schema, n, &own);
        const nsi_yaml_node* length = status == NS_OK ? nsi_yaml_find(n, "window") : NULL;
        if (length) status = read_length(r, length, &own.windows.length);
        if (status == NS_OK) status = add_read_stage(r, n, &own);
    }
    return status;
}

// ---- search, predict, discover -------------------------------------------------------------------

static ns_status read_search_method(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    nsi_search* s = out;
    if (node->type != NSI_YAML_SCALAR || strcmp(node->text, "none") != 0) {
        return read_solver(r, node, NS_SOLVER_GLOBAL, 0, &s->solver);
    }
    s->solver = NULL;
    return NS_OK;
}

static const nsi_schema_key search_keys[] = {
    {"method", NSI_KEY_OTHER, .read = read_search_method,
     .values = "`basin_hopping`, `restart`, `crs2`, `isres`, `esch`, `mlsl`, `none`, or a "
               "registered solver",
     .fallback = "basin_hopping",
     .help = "`basin_hopping`: rounds of local fits around the best so far, combined and mutated;"
             " `restart`: local fits from anywhere between the bounds; the others: population"
             " methods of NLopt before the stages"},
    {"population", NSI_KEY_COUNT, offsetof(nsi_search, population), 1, 100000, .fallback = "8",
     .help = "local fits of a round"},
    {"rounds", NSI_KEY_COUNT, offsetof(nsi_search, rounds), 1, 1000000, .fallback = "20",
     .help = "stop after so many"},
    {"patience", NSI_KEY_COUNT, offsetof(nsi_search, patience), 1, 1000000, .fallback = "(none)",
     .help = "stop after so many rounds without a better one"},
    {"evaluations", NSI_KEY_COUNT, offsetof(nsi_search, evaluations), 1, 100000000,
     .fallback = "10000", .help = "of population methods"},
    {"sigma", NSI_KEY_NUMBER, offsetof(nsi_search, sigma), 1e-9, 10.0, .fallback = "0.2",
     .help = "of mutations, as a share of the bounds"},
    {"target", NSI_KEY_NUMBER, offsetof(nsi_search, target), 0.0, DBL_MAX, .fallback = "(none)",
     .help = "stop at this cost"},
    {"seconds", NSI_KEY_NUMBER, offsetof(nsi_search, seconds), 0.0, 1e9, .fallback = "(none)",
     .help = "stop after this time; the result then depends on the machine"},
};
const nsi_schema nsi_fit_search_schema = NSI_SCHEMA("search", search_keys, NULL);

static ns_status read_search(nsi_schema_reader* r, const nsi_yaml_node* node) {
    nsi_fit_spec* p = r->context;
    nsi_search* s = &p->search;
    *s = (nsi_search){.target = -INFINITY};
    nsi_schema_defaults(&nsi_fit_search_schema, s);
    if (node) s->solver = &nsi_solver_basin_hopping;
    ns_status status = nsi_schema_read(r, &nsi_fit_search_schema, node, s);
    bool starts = s->solver && (s->solver->capabilities & NS_SOLVER_STARTS);
    for (uint32_t k = 0; k < p->stages.count && status == NS_OK && starts; k++) {
        if (p->stages.data[k].adaptive) {
            status = spec_fail(
                r, node, "adaptive penalties do not go with a search from many initial points");
        }
    }
    return status;
}

static const nsi_schema_key posterior_keys[] = {
    {"method", NSI_KEY_CHOICE, offsetof(ns_posterior_options, method),
     .choices = &ns_posterior_methods, .fallback = "hmc", .help = "how the posterior is sampled"},
    {"chains", NSI_KEY_COUNT, offsetof(ns_posterior_options, chains), 1, 1000, .fallback = "4",
     .help = "at least; as many for each mode"},
    {"warmup", NSI_KEY_COUNT, offsetof(ns_posterior_options, warmup), 1, 1000000, .fallback = "500",
     .help = "iterations of each chain that are not kept, of `hmc`"},
    {"samples", NSI_KEY_COUNT, offsetof(ns_posterior_options, samples), 4, 1000000,
     .fallback = "1000", .help = "that each chain keeps"},
    {"target_accept", NSI_KEY_NUMBER, offsetof(ns_posterior_options, target_accept), 0.01, 0.999,
     .fallback = "0.8",
     .help =
         "mean acceptance that `hmc` chooses its step size for; nearer to 1 against divergences"},
    {"weights", NSI_KEY_FLAG, offsetof(ns_posterior_options, weights), .fallback = "false",
     .help = "sample weights of networks, too; `weight_decay` is their prior"},
};
const nsi_schema nsi_fit_posterior_schema = NSI_SCHEMA("posterior", posterior_keys, NULL);

// A method alone, or a mapping.
static ns_status read_posterior(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    ns_posterior_options* o = &((nsi_fit_spec*)out)->posterior;
    nsi_schema_defaults(&nsi_fit_posterior_schema, o);
    if (node->type != NSI_YAML_SCALAR) {
        return nsi_schema_read(r, &nsi_fit_posterior_schema, node, o);
    }
    int method;
    if (!ns_choice_find(&ns_posterior_methods, node->text, &method)) {
        return spec_fail(r, node, "expected laplace, hmc or none, or a mapping");
    }
    o->method = (ns_posterior_method)method;
    return NS_OK;
}

static ns_status read_after(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    nsi_fit_spec* p = out;
    bool is_share = false;
    ns_status status = read_time(r, node, &is_share, &p->after);
    if (status != NS_OK) return status;
    if (!is_share || !(p->after > 0.0 && p->after < 1.0)) {
        return spec_fail(r, node,
                         "expected a share of each recording above 0% and below 100%: 50%");
    }
    return NS_OK;
}

static ns_status check_horizons(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    const nsi_number_list* horizons = &((nsi_fit_spec*)out)->horizons;
    const nsi_yaml_node* n = list->first;
    for (uint32_t k = 1; k < horizons->count; k++) {
        n = n->next;
        if (horizons->data[k] <= horizons->data[k - 1])
            return spec_fail(r, n, "horizons must grow");
    }
    return NS_OK;
}

static ns_status check_predict(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    const nsi_fit_spec* p = out;
    const nsi_yaml_node* after = nsi_yaml_find(map, "after");
    if (after && (nsi_yaml_find(map, "history") || nsi_yaml_find(map, "origins"))) {
        return spec_fail(r, after, "`after` does not go with history or origins");
    }
    if (p->adapt && !after) return spec_fail(r, p->adapt, "`adapt` needs `after`");
    return NS_OK;
}

// Of a measure the formulas are read with the data (assemble.c).
static const nsi_schema_key measure_keys[] = {
    {"distance", NSI_KEY_OTHER, .values = "list of formulas",
     .help = "Euclidean distance between formulas of channels"},
    {"rotation", NSI_KEY_OTHER, .values = "four formulas",
     .help = "angle between two quaternions w, x, y, z, in degrees"},
    {"average", NSI_KEY_CHOICE, offsetof(nsi_fit_measure, average), .choices = &averages,
     .fallback = "rms", .help = "over the samples of a prediction; then the mean of predictions"},
    {"unit", NSI_KEY_TEXT, offsetof(nsi_fit_measure, unit), .help = "for tables"},
};
const nsi_schema nsi_fit_measure_schema = NSI_SCHEMA("a measure", measure_keys, NULL);

static const nsi_schema_key predict_keys[] = {
    {"history", NSI_KEY_COUNT, offsetof(nsi_fit_spec, history), 0, 1000000, .fallback = "0",
     .help = "samples up to an origin that its state is fitted to"},
    {"origins", NSI_KEY_COUNT, offsetof(nsi_fit_spec, origins), 1, 1000000,
     .fallback = "(the first row of each recording)",
     .help = "places in each set from which predictions start"},
    {"after", NSI_KEY_OTHER, .read = read_after, .values = "a share: `50%`",
     .help = "instead: one prediction of what follows this share of each recording"},
    {"adapt", NSI_KEY_MAP, offsetof(nsi_fit_spec, adapt), .values = "`{NAME: standard deviation}`",
     .help = "parameters that a prediction first fits to the part before, with a prior around the"
             " fitted value; needs `after`"},
    {"horizons", NSI_KEY_NUMBERS, offsetof(nsi_fit_spec, horizons), 1e-9, 1e9,
     .read = check_horizons, .values = "list of s, growing",
     .help = "times after an origin up to which errors are averaged"},
    {"errors", NSI_KEY_MAP, offsetof(nsi_fit_spec, errors), .values = "`{NAME: formula}`",
     .fallback = "(all positions)", .help = "formulas of channels whose errors count"},
    {"measures", NSI_KEY_MAP, offsetof(nsi_fit_spec, measures), .values = "`{NAME: measure}`",
     .help = "error metrics: distances between points, angles between rotations"},
};
const nsi_schema nsi_fit_predict_schema = NSI_SCHEMA("predict", predict_keys, check_predict);

static const nsi_schema_key discover_keys[] = {
    {"parameters", NSI_KEY_TEXTS, offsetof(nsi_fit_spec, discover_parameters), .filled = true,
     .values = "list of globs", .fallback = "(its own choice)",
     .help = "parameters that may be fitted"},
    {"outputs", NSI_KEY_TEXTS, offsetof(nsi_fit_spec, discover_outputs), .filled = true,
     .values = "list of globs", .fallback = "(its own choice)",
     .help = "quantities to which a term may be added"},
};
const nsi_schema nsi_fit_discover_schema = NSI_SCHEMA("discover", discover_keys, NULL);

// ---- models --------------------------------------------------------------------------------------

static const nsi_schema_key variant_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(nsi_fit_spec_variant, name), .required = true,
     .help = "of the variant"},
    {"files", NSI_KEY_TEXT, offsetof(nsi_fit_spec_variant, files), .required = true,
     .values = "glob", .help = "names of its recordings, without folders"},
    {"model", NSI_KEY_PATH, offsetof(nsi_fit_spec_variant, model), .required = true,
     .help = "URDF or MJCF"},
};
const nsi_schema nsi_fit_variant_schema = NSI_SCHEMA("a variant", variant_keys, NULL);

static ns_status read_variant(nsi_schema_reader* r, const nsi_yaml_node* map) {
    nsi_fit_spec_variant v = {.node = map};
    nsi_fit_spec* p = r->context;
    ns_status status = nsi_schema_read(r, &nsi_fit_variant_schema, map, &v);
    if (status != NS_OK) return status;
    if (ns_hybrid_is_path(v.model)) {
        return spec_fail(r, nsi_yaml_find(map, "model"),
                         "a variant is a URDF or MJCF file; what it shares with others"
                         " stands in this file");
    }
    for (uint32_t k = 0; k < p->variants.count; k++) {
        if (strcmp(p->variants.data[k].name, v.name) == 0) {
            return spec_fail(r, map, "there is another variant of this name");
        }
    }
    return SPEC_PUSH(r, &p->variants, v);
}

static ns_status read_variants(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    if (((nsi_fit_spec*)out)->model) {
        return spec_fail(r, list, "model and variants: leave one of the two out");
    }
    if (list->type != NSI_YAML_LIST || list->count == 0) {
        return spec_fail(
            r, list, "expected a list of variants: [{name: a, files: \"*_a_*\", model: a.xml}]");
    }
    ns_status status = NS_OK;
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        status = read_variant(r, n);
    }
    return status;
}

// What belongs to physics does not go with a learned system.
static ns_status read_learned(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    static const char* const others[] = {"blueprint", "weights", "parameters", "set",
                                         "search",    "contact", "integrator", "variants"};
    nsi_fit_spec* p = out;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
        const nsi_yaml_node* other = nsi_yaml_find(node->parent, others[k]);
        if (!other) continue;
        return nsi_yaml_fail(r->yaml, other, r->error,
                             "%s does not go with `learned`: all of the step is a network's;"
                             " leave one of the two out",
                             others[k]);
    }
    const nsi_yaml_node* timestep = nsi_yaml_find(node->parent, "timestep");
    if (timestep) {
        return spec_fail(r, timestep,
                         "a learned system goes from sample to sample: give `period` under `data`"
                         " instead of timestep");
    }
    p->learned = nsi_arena_alloc(&p->yaml.arena, sizeof *p->learned);
    if (!p->learned) return nsi_fail_nomem(r->error);
    return nsi_learned_read(r->yaml, node, false, &p->yaml.arena, p->learned, r->error);
}

static ns_status check_weights(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    if (((nsi_fit_spec*)out)->blueprint) return NS_OK;
    return spec_fail(r, node, "weights need a blueprint beside them");
}

// ---- the whole -----------------------------------------------------------------------------------

static ns_status check_read_spec(nsi_schema_reader* r, const nsi_yaml_node* root, void* out) {
    nsi_fit_spec* p = out;
    ns_status status = NS_OK;
    if (!p->model && p->variants.count == 0) {
        status = spec_fail(r, root, "`model` is missing: a URDF, MJCF or YAML file");
    }
    if (status == NS_OK) {
        status = read_stages(r, nsi_yaml_find(root, "train"), nsi_yaml_find(root, "stages"));
    }
    if (status == NS_OK) status = read_search(r, nsi_yaml_find(root, "search"));
    return status;
}

static ns_status read_seed(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    uint32_t seed = 1;
    ns_status status = nsi_yaml_count(r->yaml, node, 0, UINT32_MAX, &seed, r->error);
    ((nsi_fit_spec*)out)->seed = seed;
    return status;
}

static const nsi_schema_key spec_keys[] = {
    {"title", NSI_KEY_TEXT, offsetof(nsi_fit_spec, title), .fallback = "(the path)",
     .help = "for the report"},
    {"citation", NSI_KEY_TEXT, offsetof(nsi_fit_spec, citation), .help = "for the report"},
    {"model", NSI_KEY_PATH, offsetof(nsi_fit_spec, model), .help = "URDF, MJCF or hybrid model"},
    {"variants", NSI_KEY_OTHER, .read = read_variants, .values = "list of variants",
     .help = "in place of `model`: several robots that share parameters"},
    {"learned", NSI_KEY_OTHER, .read = read_learned, .values = "learned system",
     .help = "a network in place of all physics"},
    {"blueprint", NSI_KEY_PATH, offsetof(nsi_fit_spec, blueprint),
     .help = "networks and formulas ([blueprint.md](blueprint.md))"},
    {"weights", NSI_KEY_PATH, offsetof(nsi_fit_spec, weights), .read = check_weights,
     .fallback = "(drawn from seeds)", .help = "to start from"},
    {"ground", NSI_KEY_FLAG, offsetof(nsi_fit_spec, ground), .fallback = "false",
     .help = "add a ground plane if the model has none"},
    {"self_collision", NSI_KEY_FLAG, offsetof(nsi_fit_spec, self_collision), .fallback = "false",
     .help = "links of a robot collide with one another"},
    {"floating_base", NSI_KEY_FLAG, offsetof(nsi_fit_spec, floating_base), .fallback = "false",
     .help = "the root link of a URDF moves freely"},
    {"contact", NSI_KEY_CHOICE, offsetof(nsi_fit_spec, contact), .choices = &ns_contact_laws,
     .fallback = "(the model's)", .help = "contact model of all pairs"},
    {"integrator", NSI_KEY_CHOICE, offsetof(nsi_fit_spec, integrator), .choices = &ns_integrators,
     .fallback = "(the model's)", .help = "of the fit and of the fitted model"},
    {"timestep", NSI_KEY_NUMBER, offsetof(nsi_fit_spec, timestep), 1e-9, 10.0,
     .fallback = "(the longest that divides the period and is not above the model's)",
     .help = "s; must divide the time between samples"},
    {"data", NSI_KEY_TABLE, 0, .table = &nsi_fit_data_schema, .required = true,
     .help = "which recordings to fit to"},
    {"parameters", NSI_KEY_OTHER, .read = read_parameters,
     .values = "`{NAME: free}`, `{NAME: 0.2}`, `{NAME: {initial: 0.2, ..}}`",
     .help = "parameters to estimate: names or globs of the model's, or user-defined names"},
    {"set", NSI_KEY_OTHER, .read = read_settings, .values = "`{NAME: formula}`",
     .help = "parameters that are formulas of others"},
    {"train", NSI_KEY_OTHER, .values = "mapping", .help = "windows, cost and method"},
    {"stages", NSI_KEY_OTHER, .values = "list of mappings",
     .help = "fits in turn, each with keys of `train` on top of it"},
    {"search", NSI_KEY_OTHER, .values = "mapping", .fallback = "(no search)",
     .help = "fits from many initial points"},
    {"posterior", NSI_KEY_OTHER, .read = read_posterior, .values = "`laplace`, `hmc`, or mapping",
     .fallback = "none", .help = "sample the posterior ([posterior.md](posterior.md))"},
    {"predict", NSI_KEY_TABLE, 0, .table = &nsi_fit_predict_schema,
     .help = "how predictions are scored"},
    {"discover", NSI_KEY_TABLE, 0, .table = &nsi_fit_discover_schema,
     .help = "for `neuralsim discover` only ([discover.md](discover.md))"},
    {"seed", NSI_KEY_OTHER, .read = read_seed, .values = "whole number", .fallback = "1",
     .help = "of everything random"},
};
const nsi_schema nsi_fit_schema = NSI_SCHEMA("a fit", spec_keys, check_read_spec);

static ns_status read_spec(nsi_fit_spec* p, ns_error* error) {
    nsi_schema_reader r = {.yaml = &p->yaml, .arena = &p->yaml.arena, .context = p, .error = error};
    p->contact = p->integrator = -1;
    p->seed = 1;
    p->data_base = "";
    ns_status status = nsi_schema_read(&r, &nsi_fit_schema, p->yaml.root, p);
    if (!p->title) p->title = p->path;
    if (!p->citation) p->citation = "";
    return status;
}

static ns_status finish_spec(nsi_fit_spec* p, ns_status status, nsi_fit_spec** out,
                             ns_error* error) {
    if (status == NS_OK) status = read_spec(p, error);
    if (status != NS_OK) {
        nsi_fit_spec_free(p);
        return status;
    }
    *out = p;
    return NS_OK;
}

nsi_fit_spec* nsi_fit_spec_make(const char* path, const ns_allocator* allocator) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    nsi_fit_spec* p = nsi_alloc_zeroed(&memory, sizeof *p);
    if (!p) return NULL;
    p->allocator = p->yaml.arena.allocator = memory;
    p->folder = nsi_file_folder(path, &memory);
    char* copy = nsi_alloc(&memory, strlen(path) + 1);
    p->path = copy;
    if (!p->folder || !copy) {
        nsi_fit_spec_free(p);
        return NULL;
    }
    memcpy(copy, path, strlen(path) + 1);
    return p;
}

ns_status nsi_fit_spec_read(const char* path, const ns_allocator* allocator, nsi_fit_spec** out,
                            ns_error* error) {
    *out = NULL;
    nsi_fit_spec* p = nsi_fit_spec_make(path, allocator);
    if (!p) return nsi_fail_nomem(error);
    return finish_spec(p, nsi_yaml_read(p->path, &p->allocator, &p->yaml, error), out, error);
}

ns_status nsi_fit_spec_parse(const char* text, size_t size, const char* path,
                             const ns_allocator* allocator, nsi_fit_spec** out, ns_error* error) {
    *out = NULL;
    nsi_fit_spec* p = nsi_fit_spec_make(path, allocator);
    if (!p) return nsi_fail_nomem(error);
    return finish_spec(p, nsi_yaml_parse(text, size, p->path, &p->allocator, &p->yaml, error), out,
                       error);
}

ns_status nsi_fit_spec_derive(const nsi_yaml* yaml, const nsi_yaml_node* entry, const char* skip,
                              const char* title, nsi_yaml_finder* before, void* context,
                              const ns_allocator* allocator, nsi_fit_spec** out, ns_error* error) {
    *out = NULL;
    nsi_fit_spec* p = nsi_fit_spec_make(yaml->file, allocator);
    if (!p) return nsi_fail_nomem(error);
    ns_status status =
        nsi_yaml_derive(yaml, entry, skip, before, context, &p->allocator, &p->yaml, error);
    status = finish_spec(p, status, out, error);
    if (status != NS_OK || !title || nsi_yaml_find(entry, "title")) return status;
    p->title = nsi_arena_string(&p->yaml.arena, title, strlen(title));
    if (p->title) return NS_OK;
    *out = NULL;
    nsi_fit_spec_free(p);
    return nsi_fail_nomem(error);
}

void nsi_fit_spec_free(nsi_fit_spec* p) {
    if (!p) return;
    ns_allocator memory = p->allocator;
    for (int role = 0; role < NS_ROLE_COUNT; role++) nsi_array_free(&memory, &p->files[role]);
    nsi_array_free(&memory, &p->variants);
    nsi_array_free(&memory, &p->parameters);
    nsi_array_free(&memory, &p->settings);
    nsi_array_free(&memory, &p->stages);
    nsi_yaml_free(&p->yaml);
    nsi_free(&memory, p->folder);
    nsi_free(&memory, (char*)p->path);
    nsi_free(&memory, p);
}
