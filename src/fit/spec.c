// Reading an experiment file: every key is checked before anything is loaded.

#include "fit/spec.h"

#include "fit/result_words.h"
#include "io/file.h"
#include "io/hybrid_file.h"
#include "neuralsim/contact.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct reader {
    nsi_fit_spec* plan;
    const nsi_yaml* yaml;
    ns_error* error;
    ns_status status; // the first failure
} reader;

// Each of these does nothing after a failure, so that one check at the end is enough.
static const nsi_yaml_node* find(const nsi_yaml_node* map, const char* key) {
    return map ? nsi_yaml_find(map, key) : NULL;
}

static void check_map(reader* r, const nsi_yaml_node* node, const char* what, const char* keys) {
    if (r->status == NS_OK) r->status = nsi_yaml_check_map(r->yaml, node, what, keys, r->error);
}

static void read_number(reader* r, const nsi_yaml_node* map, const char* key, double lower,
                        double upper, double* out) {
    if (r->status != NS_OK) return;
    r->status = nsi_yaml_number(r->yaml, find(map, key), lower, upper, out, r->error);
}

static void read_count(reader* r, const nsi_yaml_node* map, const char* key, uint32_t lower,
                       uint32_t upper, uint32_t* out) {
    if (r->status != NS_OK) return;
    r->status = nsi_yaml_count(r->yaml, find(map, key), lower, upper, out, r->error);
}

static void read_flag(reader* r, const nsi_yaml_node* map, const char* key, bool* out) {
    if (r->status != NS_OK) return;
    r->status = nsi_yaml_flag(r->yaml, find(map, key), out, r->error);
}

static void read_text(reader* r, const nsi_yaml_node* map, const char* key, const char** out) {
    if (r->status != NS_OK) return;
    r->status = nsi_yaml_text(r->yaml, find(map, key), out, r->error);
}

static void read_choice(reader* r, const nsi_yaml_node* map, const char* key,
                        const ns_choices* choices, int* out) {
    if (r->status != NS_OK) return;
    r->status = nsi_yaml_choice(r->yaml, find(map, key), choices, out, r->error);
}

static void fail(reader* r, const nsi_yaml_node* node, const char* what) {
    if (r->status == NS_OK) r->status = nsi_yaml_fail(r->yaml, node, r->error, "%s", what);
}

static void out_of_memory(reader* r) {
    if (r->status == NS_OK) r->status = nsi_fail_nomem(r->error);
}

// ---- data --------------------------------------------------------------------------------------

// "0-9", "3"
static bool read_range(reader* r, const nsi_yaml_node* node, const char* what, uint32_t* from,
                       uint32_t* to) {
    if (!node || r->status != NS_OK) return false;
    char rest;
    const char* text = node->type == NSI_YAML_SCALAR ? node->text : "";
    size_t digits = strspn(text, "0123456789"), more = 0;
    if (text[digits] == '-') more = strspn(text + digits + 1, "0123456789");
    bool plain = digits > 0 && digits < 10 && more < 10; // below 2^32
    int n = plain ? sscanf(text, "%u-%u%c", from, to, &rest) : 0;
    if (n == 1 && sscanf(text, "%u%c", from, &rest) == 1) *to = *from, n = 2;
    if (n != 2 || *to < *from) fail(r, node, what);
    return r->status == NS_OK;
}

static void read_trajectories(reader* r, const nsi_yaml_node* node, ns_data_part* part) {
    uint32_t first, last;
    if (!read_range(r, node, "expected numbers of trajectories: 3, or 0-9", &first, &last)) return;
    part->all_trajectories = false;
    part->first_trajectory = first;
    part->last_trajectory = last;
}

// Of the files that a glob fits.
static void read_take(reader* r, const nsi_yaml_node* node, nsi_fit_spec_file* file) {
    file->last = UINT32_MAX;
    read_range(r, node, "expected numbers of files, in the order of their names: 3, or 0-9",
               &file->first, &file->last);
}

// Seconds, or a share: 70%
static void read_time(reader* r, const nsi_yaml_node* map, const char* key, bool* is_share,
                      double* out) {
    const nsi_yaml_node* node = find(map, key);
    if (!node || r->status != NS_OK) return;
    double share;
    char rest[2];
    if (node->type == NSI_YAML_SCALAR && strchr(node->text, '%')) {
        if (sscanf(node->text, "%lf%1[%]", &share, rest) != 2 || !(share >= 0 && share <= 100)) {
            fail(r, node, "expected a share between 0% and 100%");
            return;
        }
        *is_share = true;
        *out = share / 100.0;
        return;
    }
    read_number(r, map, key, 0.0, 1e9, out);
}

static void read_part(reader* r, const nsi_yaml_node* map, ns_data_part* part) {
    const nsi_yaml_node *from = find(map, "from"), *to = find(map, "to");
    bool from_share = false, to_share = false;
    read_time(r, map, "from", &from_share, &part->from);
    read_time(r, map, "to", &to_share, &part->to);
    part->fractions = from_share || to_share;
    if (from && to && from_share != to_share) {
        fail(r, from, "from and to must both be seconds or both be shares");
    }
    if (to && part->to <= part->from) fail(r, to, "to must be later than from");
    read_trajectories(r, find(map, "trajectories"), part);
}

static void read_files(reader* r, const nsi_yaml_node* list, nsi_role role) {
    if (!list || r->status != NS_OK) return;
    if (list->type != NSI_YAML_LIST) {
        fail(r, list, "expected a list of files, [a.csv, b.csv]");
        return;
    }
    for (const nsi_yaml_node* node = list->first; node && r->status == NS_OK; node = node->next) {
        nsi_fit_spec_file file = {
            .node = node, .part = {.all_trajectories = true}, .last = UINT32_MAX};
        if (node->type == NSI_YAML_SCALAR) {
            r->status = nsi_yaml_text(r->yaml, node, &file.path, r->error);
        } else {
            check_map(r, node, "a file", "file take from to trajectories");
            read_text(r, node, "file", &file.path);
            read_part(r, node, &file.part);
            read_take(r, find(node, "take"), &file);
            if (!file.path) fail(r, node, "the name of the file is missing: {file: a.csv, to: 7}");
        }
        if (r->status == NS_OK &&
            !nsi_array_push(&r->plan->allocator, &r->plan->files[role], file)) {
            out_of_memory(r);
        }
    }
}

static void read_data(reader* r, const nsi_yaml_node* node) {
    nsi_fit_spec* p = r->plan;
    if (!node) fail(r, NULL, "`data` is missing: which recordings to fit to");
    check_map(r, node, "data", "map folder period noise train validation test");
    read_text(r, node, "map", &p->map);
    read_text(r, node, "folder", &p->data_folder);
    read_number(r, node, "period", 1e-9, 1e6, &p->period);
    read_number(r, node, "noise", 0.0, 1e6, &p->noise);
    for (int role = 0; role < NSI_ROLES; role++) {
        read_files(r, find(node, nsi_role_name((nsi_role)role)), (nsi_role)role);
    }
    if (r->status == NS_OK && p->files[NSI_ROLE_TRAIN].count == 0) {
        fail(r, node, "there is nothing to train on; give `train: [a.csv]`");
    }
}

// ---- parameters --------------------------------------------------------------------------------

static void read_parameters(reader* r, const nsi_yaml_node* map) {
    if (!map || r->status != NS_OK) return;
    if (map->type != NSI_YAML_MAP) fail(r, map, "expected a map of names");
    for (const nsi_yaml_node* node = map->first; node && r->status == NS_OK; node = node->next) {
        nsi_parameter_request q = {.name = node->key,
                                   .how = ns_default_parameter(),
                                   .line = node->key_line,
                                   .column = node->key_column};
        if (node->type == NSI_YAML_SCALAR && strcmp(node->text, "free") == 0) {
            // from the model's value
        } else if (node->type == NSI_YAML_SCALAR) {
            r->status =
                nsi_yaml_number(r->yaml, node, -INFINITY, INFINITY, &q.how.initial, r->error);
        } else {
            check_map(r, node, "a parameter", "start lower upper size prior");
            read_number(r, node, "start", -INFINITY, INFINITY, &q.how.initial);
            read_number(r, node, "lower", -INFINITY, INFINITY, &q.how.lower);
            read_number(r, node, "upper", -INFINITY, INFINITY, &q.how.upper);
            read_number(r, node, "size", 0.0, INFINITY, &q.how.scale);
            read_number(r, node, "prior", 0.0, INFINITY, &q.how.prior_sigma);
        }
        if (r->status == NS_OK && !nsi_array_push(&r->plan->allocator, &r->plan->parameters, q)) {
            out_of_memory(r);
        }
    }
}

static void read_settings(reader* r, const nsi_yaml_node* map) {
    if (!map || r->status != NS_OK) return;
    if (map->type != NSI_YAML_MAP) fail(r, map, "expected a map of parameters and formulas");
    for (const nsi_yaml_node* node = map->first; node && r->status == NS_OK; node = node->next) {
        nsi_setting_request q = {.name = node->key, .line = node->line, .column = node->column};
        r->status = nsi_yaml_text(r->yaml, node, &q.formula, r->error);
        if (r->status == NS_OK && !nsi_array_push(&r->plan->allocator, &r->plan->settings, q)) {
            out_of_memory(r);
        }
    }
}

// ---- stages ------------------------------------------------------------------------------------

#define STAGE_KEYS                                                                                 \
    "windows count overlap states reach tie huber cauchy decay decay_upper l1 group method "       \
    "adaptive iterations tolerance rate rate_end batch clip teacher fit"

// A length of windows: samples, `one` or `whole`.
static void read_length(reader* r, const nsi_yaml_node* node, uint32_t* out) {
    if (!node || r->status != NS_OK) return;
    if (node->type == NSI_YAML_SCALAR && strcmp(node->text, "whole") == 0) {
        *out = 0;
    } else if (node->type == NSI_YAML_SCALAR && strcmp(node->text, "one") == 0) {
        *out = 1;
    } else {
        r->status = nsi_yaml_count(r->yaml, node, 1, 10000000, out, r->error);
    }
}

// A solver by its name.
static void read_solver(reader* r, const nsi_yaml_node* node, uint32_t needed, uint32_t excluded,
                        const ns_solver** out) {
    const char* name = NULL;
    if (!node || r->status != NS_OK) return;
    r->status = nsi_yaml_text(r->yaml, node, &name, r->error);
    if (r->status != NS_OK) return;
    ns_error why;
    *out = nsi_solver_choose(name, needed, excluded, &why);
    if (!*out) fail(r, node, why.message);
}

// Does the solver minimise with this penalty?
static void check_penalty(reader* r, const nsi_yaml_node* node, const char* key, bool wanted,
                          uint32_t capability, const ns_solver* solver) {
    if (r->status != NS_OK || !wanted || (solver->capabilities & capability)) return;
    char list[200];
    nsi_solver_list(capability, NS_SOLVER_GLOBAL, list, sizeof list);
    r->status = nsi_yaml_fail(r->yaml, node, r->error, "%s needs method %s", key, list);
}

// What `node` says, on top of what `stage` has; not the length of windows.
static void read_stage(reader* r, const nsi_yaml_node* node, nsi_stage* stage) {
    ns_window_options* loss = &stage->windows;
    int states = (int)loss->initial_state, fit = -1;
    read_count(r, node, "count", 1, 10000000, &loss->max_windows);
    read_flag(r, node, "overlap", &loss->overlap);
    read_choice(r, node, "states", &ns_initial_states, &states);
    read_count(r, node, "reach", 1, 10000, &loss->smoothing);
    read_number(r, node, "tie", 1e-9, 1e9, &loss->continuity_weight);
    if (find(node, "huber")) {
        loss->robust = NS_ROBUST_HUBER;
        read_number(r, node, "huber", 1e-9, 1e9, &loss->robust_width);
    }
    if (find(node, "cauchy")) {
        loss->robust = NS_ROBUST_CAUCHY;
        read_number(r, node, "cauchy", 1e-9, 1e9, &loss->robust_width);
        if (find(node, "huber")) fail(r, find(node, "cauchy"), "give huber or cauchy, not both");
    }
    read_number(r, node, "decay", 0.0, 1e9, &loss->weight_decay);
    read_number(r, node, "decay_upper", 0.0, 1e9, &loss->weight_decay_upper);
    read_number(r, node, "l1", 0.0, 1e9, &stage->l1);
    read_number(r, node, "group", 0.0, 1e9, &stage->group);
    read_flag(r, node, "adaptive", &stage->adaptive);
    read_solver(r, find(node, "method"), 0, NS_SOLVER_GLOBAL, &stage->solver);
    read_count(r, node, "iterations", 0, 10000000, &stage->iterations);
    read_number(r, node, "tolerance", 0.0, 1.0, &stage->tolerance);
    read_number(r, node, "rate", 1e-12, 1e6, &stage->rate);
    read_number(r, node, "rate_end", 0.0, 1e6, &stage->rate_end);
    read_count(r, node, "batch", 1, 10000000, &stage->batch);
    read_number(r, node, "clip", 0.0, 1e12, &stage->clip);
    read_flag(r, node, "teacher", &stage->teacher);
    read_choice(r, node, "fit", &ns_optimises, &fit);
    loss->initial_state = (ns_initial_state)states;
    if (fit >= 0) loss->optimise = (ns_optimise)fit;
    check_penalty(r, node, "l1", stage->l1 > 0.0, NS_SOLVER_L1, stage->solver);
    check_penalty(r, node, "group", stage->group > 0.0, NS_SOLVER_GROUPS, stage->solver);
    check_penalty(r, node, "adaptive", stage->adaptive, NS_SOLVER_GROUPS, stage->solver);
}

static void check_teacher(reader* r, const nsi_yaml_node* node, const nsi_stage* stage) {
    const nsi_learned* learned = r->plan->learned;
    if (!stage->teacher || r->status != NS_OK) return;
    if (!learned) {
        fail(r, node, "teacher forcing is for a `learned` system of kind lstm");
    } else if (learned->kind != NS_LEARNED_LSTM) {
        fail(r, node,
             "teacher forcing is for lstm; a network without memory is trained so by"
             " `windows: one`");
    } else if (learned->integrate) {
        fail(r, node, "teacher forcing does not go with `integrate`: begin with `windows: one`");
    } else if (stage->windows.initial_state != NS_INITIAL_STATE_RECORDED) {
        fail(r, node,
             "teacher forcing takes all states from the data: it needs `states: recorded`");
    }
}

// Sizes at the beginning of a stage are those at the end of the path so far, which checkpoints have.
static void check_adaptive(reader* r, const nsi_yaml_node* node, const nsi_stage* stage) {
    uint32_t count = r->plan->stages.count;
    const nsi_stage* last = count > 0 ? &r->plan->stages.data[count - 1] : NULL;
    if (!stage->adaptive || r->status != NS_OK) return;
    if (!nsi_optimises_weights(stage->windows.optimise) || !last ||
        !nsi_optimises_weights(last->windows.optimise) || !(last->l1 > 0.0 || last->group > 0.0)) {
        fail(r, node,
             "adaptive needs a stage with l1 or group just before it, and weights to fit in both");
    }
}

static void add_stage(reader* r, const nsi_stage* stage) {
    if (r->status == NS_OK && !nsi_array_push(&r->plan->allocator, &r->plan->stages, *stage)) {
        out_of_memory(r);
    }
}

static void read_stages(reader* r, const nsi_yaml_node* loss, const nsi_yaml_node* stages) {
    nsi_stage stage = {.windows = {.smoothing = 5, .continuity_weight = 10.0},
                       .solver = &nsi_solver_lm,
                       .iterations = 50,
                       .tolerance = 1e-9,
                       .rate = 1e-2,
                       .rate_end = -1.0};
    check_map(r, loss, "fit", STAGE_KEYS);
    read_stage(r, loss, &stage);
    const nsi_yaml_node* windows = find(loss, "windows");
    if (!stages) {
        check_teacher(r, loss, &stage);
        check_adaptive(r, loss, &stage);
        if (windows && windows->type == NSI_YAML_LIST) {
            if (windows->count == 0) fail(r, windows, "expected lengths of windows: [25, 100]");
            for (const nsi_yaml_node* n = windows->first; n && r->status == NS_OK; n = n->next) {
                read_length(r, n, &stage.windows.length);
                add_stage(r, &stage);
            }
            return;
        }
        read_length(r, windows, &stage.windows.length);
        add_stage(r, &stage);
        return;
    }
    if (windows && windows->type == NSI_YAML_LIST) {
        fail(r, windows, "with `stages`, each of them has its own length of windows");
    }
    read_length(r, windows, &stage.windows.length);
    if (r->status == NS_OK && (stages->type != NSI_YAML_LIST || stages->count == 0)) {
        fail(r, stages, "expected a list of stages: [{windows: 25}, {windows: 100}]");
    }
    for (const nsi_yaml_node* n = stages->first; n && r->status == NS_OK; n = n->next) {
        nsi_stage own = stage;
        check_map(r, n, "a stage", STAGE_KEYS);
        read_length(r, find(n, "windows"), &own.windows.length);
        read_stage(r, n, &own);
        check_teacher(r, n, &own);
        check_adaptive(r, n, &own);
        add_stage(r, &own);
    }
}

static void read_search(reader* r, const nsi_yaml_node* node) {
    nsi_search* s = &r->plan->search;
    *s = (nsi_search){
        .population = 8, .rounds = 20, .evaluations = 10000, .sigma = 0.2, .target = -INFINITY};
    const nsi_yaml_node* method = find(node, "method");
    if (node) s->solver = &nsi_solver_basin_hopping;
    check_map(r, node, "search",
              "method population rounds patience evaluations sigma target seconds");
    if (method && method->type == NSI_YAML_SCALAR && strcmp(method->text, "none") == 0) {
        s->solver = NULL;
    } else {
        read_solver(r, method, NS_SOLVER_GLOBAL, 0, &s->solver);
    }
    read_count(r, node, "population", 1, 100000, &s->population);
    read_count(r, node, "rounds", 1, 1000000, &s->rounds);
    read_count(r, node, "patience", 1, 1000000, &s->patience);
    read_count(r, node, "evaluations", 1, 100000000, &s->evaluations);
    read_number(r, node, "sigma", 1e-9, 10.0, &s->sigma);
    read_number(r, node, "target", 0.0, INFINITY, &s->target);
    read_number(r, node, "seconds", 0.0, 1e9, &s->seconds);
    for (uint32_t k = 0; k < r->plan->stages.count && r->status == NS_OK; k++) {
        bool starts = s->solver && (s->solver->capabilities & NS_SOLVER_STARTS);
        if (starts && r->plan->stages.data[k].adaptive) {
            fail(r, node, "adaptive penalties do not go with a search from many starts");
        }
    }
}

static void read_predict(reader* r, const nsi_yaml_node* node) {
    nsi_fit_spec* p = r->plan;
    check_map(r, node, "predict", "history origins after adapt horizons errors measures");
    read_count(r, node, "history", 0, 1000000, &p->history);
    read_count(r, node, "origins", 1, 1000000, &p->origins);
    const nsi_yaml_node* after = find(node, "after");
    bool is_share = false;
    read_time(r, node, "after", &is_share, &p->after);
    if (after && (!is_share || !(p->after > 0.0 && p->after < 1.0))) {
        fail(r, after, "expected a share of each recording above 0% and below 100%: 50%");
    }
    if (after && (find(node, "history") || find(node, "origins"))) {
        fail(r, after, "`after` does not go with history or origins");
    }
    p->adapt = find(node, "adapt");
    if (p->adapt && (!after || p->adapt->type != NSI_YAML_MAP)) {
        fail(r, p->adapt, "expected {NAME: standard deviation}, and `after`");
    }
    p->errors = find(node, "errors");
    if (p->errors && p->errors->type != NSI_YAML_MAP) {
        fail(r, p->errors, "expected names and formulas of channels");
    }
    p->measures = find(node, "measures");
    if (p->measures && p->measures->type != NSI_YAML_MAP) {
        fail(r, p->measures, "expected names, each with `distance` or `rotation`");
    }
    const nsi_yaml_node* list = find(node, "horizons");
    if (list && r->status == NS_OK && list->type != NSI_YAML_LIST) {
        fail(r, list, "expected a list of seconds: [0.25, 0.5, 1]");
    }
    double before = 0.0;
    for (const nsi_yaml_node* n = list ? list->first : NULL; n && r->status == NS_OK; n = n->next) {
        double seconds = 0.0;
        r->status = nsi_yaml_number(r->yaml, n, 1e-9, 1e9, &seconds, r->error);
        if (r->status == NS_OK && seconds <= before) fail(r, n, "horizons must grow");
        before = seconds;
        if (r->status == NS_OK && !nsi_array_push(&p->allocator, &p->horizons, seconds)) {
            out_of_memory(r);
        }
    }
}

// A list of globs.
static void read_globs(reader* r, const nsi_yaml_node* node, nsi_globs* out) {
    if (!node || r->status != NS_OK) return;
    if (node->type != NSI_YAML_LIST || node->count == 0) {
        fail(r, node, "expected a list of names or globs: [\"link/*/mass\"]");
    }
    for (const nsi_yaml_node* n = node->first; n && r->status == NS_OK; n = n->next) {
        const char* text = NULL;
        r->status = nsi_yaml_text(r->yaml, n, &text, r->error);
        if (r->status == NS_OK && !nsi_array_push(&r->plan->allocator, out, text)) out_of_memory(r);
    }
}

static void read_discover(reader* r, const nsi_yaml_node* node) {
    check_map(r, node, "discover", "parameters outputs");
    read_globs(r, find(node, "parameters"), &r->plan->discover_parameters);
    read_globs(r, find(node, "outputs"), &r->plan->discover_outputs);
}

// ---- the whole ---------------------------------------------------------------------------------

static void read_variant(reader* r, const nsi_yaml_node* map) {
    nsi_fit_spec_variant v = {.node = map};
    nsi_fit_spec* p = r->plan;
    check_map(r, map, "a variant", "name files model");
    read_text(r, map, "name", &v.name);
    read_text(r, map, "files", &v.files);
    read_text(r, map, "model", &v.model);
    if (r->status == NS_OK && (!v.name || !v.files || !v.model)) {
        fail(r, map, "a variant needs all of {name: a, files: \"*_a_*\", model: a.xml}");
    }
    if (r->status == NS_OK && ns_hybrid_is_path(v.model)) {
        fail(r, find(map, "model"),
             "a variant is a URDF or MJCF file; what it shares with others"
             " stands in this file");
    }
    for (uint32_t k = 0; k < p->variants.count && r->status == NS_OK; k++) {
        if (strcmp(p->variants.data[k].name, v.name) == 0) {
            fail(r, map, "there is another variant of this name");
        }
    }
    if (r->status == NS_OK && !nsi_array_push(&p->allocator, &p->variants, v)) out_of_memory(r);
}

// One model, or several.
static void read_models(reader* r, const nsi_yaml_node* root) {
    const nsi_yaml_node* variants = find(root, "variants");
    read_text(r, root, "model", &r->plan->model);
    if (r->status != NS_OK) return;
    if (!r->plan->model && !variants) {
        fail(r, root, "`model` is missing: a URDF, MJCF or YAML file");
    } else if (r->plan->model && variants) {
        fail(r, variants, "model and variants: leave one of the two out");
    } else if (variants && (variants->type != NSI_YAML_LIST || variants->count == 0)) {
        fail(r, variants,
             "expected a list of variants: [{name: a, files: \"*_a_*\", model: a.xml}]");
    }
    if (!variants) return;
    for (const nsi_yaml_node* n = variants->first; n && r->status == NS_OK; n = n->next) {
        read_variant(r, n);
    }
}

// What belongs to physics does not go with a learned system.
static void read_learned(reader* r, const nsi_yaml_node* root) {
    static const char* const others[] = {"blueprint", "weights", "parameters", "set",
                                         "search",    "contact", "integrator", "variants"};
    const nsi_yaml_node* node = find(root, "learned");
    nsi_fit_spec* p = r->plan;
    if (!node || r->status != NS_OK) return;
    for (size_t k = 0; k < sizeof others / sizeof *others && r->status == NS_OK; k++) {
        const nsi_yaml_node* other = find(root, others[k]);
        if (!other) continue;
        r->status = nsi_yaml_fail(r->yaml, other, r->error,
                                  "%s does not go with `learned`: all of the step is a network's;"
                                  " leave one of the two out",
                                  others[k]);
    }
    if (find(root, "timestep")) {
        fail(r, find(root, "timestep"),
             "a learned system goes from sample to sample: give `period` under `data` instead of"
             " timestep");
    }
    p->learned = nsi_arena_alloc(&p->yaml.arena, sizeof *p->learned);
    if (!p->learned) out_of_memory(r);
    if (r->status != NS_OK) return;
    r->status = nsi_learned_read(r->yaml, node, false, &p->yaml.arena, p->learned, r->error);
}

static void read_plan(reader* r) {
    nsi_fit_spec* p = r->plan;
    const nsi_yaml_node* root = r->yaml->root;
    uint32_t seed = 1;
    check_map(
        r, root, "an experiment",
        "title citation model variants learned blueprint weights ground self_collision contact "
        "integrator timestep data parameters set fit stages search predict seed discover");
    if (r->status == NS_OK && (!root || root->type != NSI_YAML_MAP)) {
        fail(r, root, "expected keys: model, data, parameters");
    }
    if (r->status != NS_OK) return;
    read_text(r, root, "title", &p->title);
    read_text(r, root, "citation", &p->citation);
    read_models(r, root);
    read_learned(r, root);
    read_text(r, root, "blueprint", &p->blueprint);
    read_text(r, root, "weights", &p->weights);
    if (p->weights && !p->blueprint) {
        fail(r, find(root, "weights"), "weights need a blueprint beside them");
    }
    read_flag(r, root, "ground", &p->ground);
    read_flag(r, root, "self_collision", &p->self_collision);
    p->contact = p->integrator = -1;
    read_choice(r, root, "contact", &ns_contact_laws, &p->contact);
    read_choice(r, root, "integrator", &ns_integrators, &p->integrator);
    read_number(r, root, "timestep", 1e-9, 10.0, &p->timestep);
    read_data(r, find(root, "data"));
    read_parameters(r, find(root, "parameters"));
    read_settings(r, find(root, "set"));
    read_stages(r, find(root, "fit"), find(root, "stages"));
    read_search(r, find(root, "search"));
    read_predict(r, find(root, "predict"));
    read_discover(r, find(root, "discover"));
    read_count(r, root, "seed", 0, UINT32_MAX, &seed);
    p->seed = seed;
    if (!p->title) p->title = p->path;
    if (!p->citation) p->citation = "";
}

static ns_status finish(nsi_fit_spec* p, ns_status status, nsi_fit_spec** out, ns_error* error) {
    reader r = {.plan = p, .yaml = &p->yaml, .error = error, .status = status};
    if (r.status == NS_OK) read_plan(&r);
    if (r.status != NS_OK) {
        nsi_fit_spec_free(p);
        return r.status;
    }
    *out = p;
    return NS_OK;
}

static nsi_fit_spec* make(const char* path, const ns_allocator* allocator) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    nsi_fit_spec* p = nsi_alloc_zeroed(&memory, sizeof *p);
    if (!p) return NULL;
    p->allocator = memory;
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
    nsi_fit_spec* p = make(path, allocator);
    if (!p) return nsi_fail_nomem(error);
    return finish(p, nsi_yaml_read(p->path, &p->allocator, &p->yaml, error), out, error);
}

ns_status nsi_fit_spec_parse(const char* text, size_t size, const char* path,
                             const ns_allocator* allocator, nsi_fit_spec** out, ns_error* error) {
    *out = NULL;
    nsi_fit_spec* p = make(path, allocator);
    if (!p) return nsi_fail_nomem(error);
    return finish(p, nsi_yaml_parse(text, size, p->path, &p->allocator, &p->yaml, error), out,
                  error);
}

void nsi_fit_spec_free(nsi_fit_spec* p) {
    if (!p) return;
    ns_allocator memory = p->allocator;
    for (int role = 0; role < NSI_ROLES; role++) nsi_array_free(&memory, &p->files[role]);
    nsi_array_free(&memory, &p->variants);
    nsi_array_free(&memory, &p->parameters);
    nsi_array_free(&memory, &p->settings);
    nsi_array_free(&memory, &p->stages);
    nsi_array_free(&memory, &p->horizons);
    nsi_array_free(&memory, &p->discover_parameters);
    nsi_array_free(&memory, &p->discover_outputs);
    nsi_yaml_free(&p->yaml);
    nsi_free(&memory, p->folder);
    nsi_free(&memory, (char*)p->path);
    nsi_free(&memory, p);
}
