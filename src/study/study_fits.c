// Reads a study of kind `fits`: groups, fits, references.

#include "study/study_fits.h"

#include <stdio.h>

enum { STUDY_MAX_RUNS = 10000, STUDY_MAX_FOLDS = 100 };

// ---- reading -----------------------------------------------------------------------------------

uint32_t nsi_study_find_fit(study_fits* f, const nsi_yaml_node* node) {
    ns_study* s = f->study;
    const char* name = NULL;
    if (s->status == NS_OK) s->status = nsi_yaml_text(&s->yaml, node, &name, &s->error);
    for (uint32_t k = 0; name && k < f->nentry; k++) {
        if (strcmp(f->entries[k].name, name) == 0) return k;
    }
    char list[200] = "";
    for (uint32_t k = 0; k < f->nentry; k++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? ", " : "", f->entries[k].name);
    }
    if (s->status == NS_OK) {
        s->status = nsi_yaml_fail(&s->yaml, node, &s->error,
                                  "\"%.60s\" is none of the names under `fits`: %s", name, list);
    }
    return NSI_NONE;
}

static ns_status fits_read_group(nsi_schema_reader* r, const nsi_yaml_node* map, uint32_t* out) {
    const study_fits* f = r->context;
    const nsi_yaml_node* node = nsi_yaml_find(map, "group");
    const char* name = "";
    ns_status status = nsi_yaml_text(r->yaml, node, &name, r->error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < f->ngroup; k++) {
        if (strcmp(f->groups[k].name, name) != 0) continue;
        *out = k;
        return NS_OK;
    }
    return nsi_yaml_fail(r->yaml, node ? node : map, r->error,
                         node ? "this is none of the names under `groups`"
                              : "say to which of `groups` it belongs: `group: NAME`");
}

static ns_status fits_check_name(nsi_schema_reader* r, const nsi_yaml_node* node,
                                 const char* name) {
    for (const nsi_yaml_node* n = node->parent->first; n != node; n = n->next) {
        const nsi_yaml_node* other = nsi_yaml_find(n, "name");
        if (other && strcmp(other->text, name) == 0) {
            return nsi_yaml_fail(r->yaml, node, r->error, "another one before it has this name");
        }
    }
    if (strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name)) return NS_OK;
    return nsi_yaml_fail(r->yaml, node, r->error,
                         "a name is made of a-z, 0-9 and _: it becomes that of a folder");
}

// ---- groups

static ns_status fits_keep_baseline(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)r;
    ((study_group*)out)->baseline_node = node;
    return NS_OK;
}

static const nsi_schema_key baseline_keys[] = {
    {"fit", NSI_KEY_OTHER, .read = fits_keep_baseline, .values = "name", .fallback = "(the first)",
     .help = "the fit whose initial values are shown"},
    {"label", NSI_KEY_TEXT, offsetof(study_group, baseline_label),
     .fallback = "(before, initial values)", .help = "what they are called"},
};
const nsi_schema nsi_study_baseline_schema = NSI_SCHEMA("baseline", baseline_keys, NULL);

static ns_status fits_check_group(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    return fits_check_name(r, map, ((study_group*)out)->name);
}

static const nsi_schema_key group_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(study_group, name), .required = true,
     .help = "for `group` of fits and references"},
    {"title", NSI_KEY_TEXT, offsetof(study_group, title), .required = true, .help = "of its table"},
    {"data", NSI_KEY_TEXT, offsetof(study_group, data), .values = "folder",
     .help = "of the recordings; a group without them is left out, with the fits that start from"
             " one of it"},
    {"baseline", NSI_KEY_TABLE, 0, .table = &nsi_study_baseline_schema,
     .help = "the fit whose initial values are shown as baseline"},
};
const nsi_schema nsi_study_group_schema = NSI_SCHEMA("a group", group_keys, fits_check_group);

// Groups, or one without a name.
static void fits_read_groups(study_fits* f, const nsi_yaml_node* root) {
    ns_study* s = f->study;
    const nsi_yaml_node *list = nsi_yaml_find(root, "groups"),
                        *baseline = nsi_yaml_find(root, "baseline");
    if (!nsi_study_read_list(s, &nsi_study_group_schema, list, f, sizeof *f->groups, &f->groups,
                             &f->ngroup)) {
        return;
    }
    if (f->ngroup == 0) {
        f->groups[f->ngroup++] = (study_group){.name = "", .title = ""};
        nsi_study_read(s, &nsi_study_baseline_schema, baseline, f, &f->groups[0]);
    } else if (baseline) {
        nsi_study_fault(s, baseline, "with `groups`, each has its own `baseline`");
    }
    for (uint32_t k = 0; k < f->ngroup; k++) {
        if (!f->groups[k].baseline_label) f->groups[k].baseline_label = "before, initial values";
    }
}

// ---- fits

static ns_status fits_keep_from(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    study_fits* f = r->context;
    ((study_entry*)out)->from = nsi_study_find_fit(f, node); // one of those before it
    return f->study->status;
}

static ns_status fits_read_counts(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    study_entry* x = out;
    const nsi_yaml_node* n = list->first;
    for (uint32_t k = 0; k < x->trajectories.count; k++, n = n->next) {
        if (x->trajectories.data[k] <= x->max_trajectories) {
            return nsi_yaml_fail(r->yaml, n, r->error, "numbers must grow");
        }
        x->max_trajectories = x->trajectories.data[k];
    }
    return NS_OK;
}

static ns_status fits_read_inputs(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    const char* text = NULL;
    ns_status status = nsi_yaml_check_list(r->yaml, list, r->error);
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        status = nsi_yaml_text(r->yaml, n, &text, r->error);
    }
    ((study_entry*)out)->inputs = list;
    return status;
}

static ns_status fits_read_truth(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    (void)out;
    for (const nsi_yaml_node* n = map->first; n; n = n->next) {
        double value = 0.0;
        ns_status status = nsi_yaml_number(r->yaml, n, -1e300, 1e300, &value, r->error);
        if (status != NS_OK) return status;
        if (value == 0.0) {
            return nsi_yaml_fail(r->yaml, n, r->error,
                                 "errors are relative: expected a number but 0");
        }
    }
    return NS_OK;
}

// Rules between the keys of a fit, and how often it is run.
static ns_status fits_check_entry(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    study_fits* f = r->context;
    study_entry* x = out;
    bool smoke = f->study->options.smoke;
    // Name and group come first: other fits refer to them.
    ns_status status = fits_check_name(r, map, x->name);
    if (status == NS_OK) status = fits_read_group(r, map, &x->group);
    if (status != NS_OK) return status;
    // Reports show the label.
    if (!x->label) x->label = x->name;
    x->node = map;

    // A smoke run has one seed and the smallest training set only.
    static const uint32_t all = 0;
    x->counts = x->trajectories.count > 0 ? x->trajectories.data : &all;
    x->ncount = x->trajectories.count == 0 || smoke ? 1 : x->trajectories.count;
    // Later checks use the number of seeds of the full run.
    x->max_seeds = x->seeds;
    if (smoke) x->seeds = 1;
    // Without `from`, the fit starts from the model.
    if (!nsi_yaml_find(map, "from")) x->from = NSI_NONE;

    // Cross-validation: the fit that it starts from must not have seen the held-out fold.
    if (x->folds > 0 && x->from != NSI_NONE && f->entries[x->from].folds != x->folds) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "the fit that it starts `from` has seen what folds leave out: give"
                             " that one as many `folds`");
    }

    // Folds, seeds and training-set sizes are alternative ways to repeat a fit.
    if (x->folds > 0 && (x->counts[0] > 0 || x->max_seeds > 1)) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "`folds` does not go with `seeds` or `trajectories`");
    }

    // Bound the number of runs before memory is allocated for them.
    if ((size_t)x->ncount * x->seeds > STUDY_MAX_RUNS) {
        return nsi_yaml_fail(r->yaml, map, r->error, "too many runs");
    }
    // Runs are all combinations of sizes and seeds, or the folds.
    x->nrun = x->ncount * x->seeds + (smoke && x->folds > 0 ? 1 : x->folds);
    f->nentry++; // from now on others find it
    return NS_OK;
}

static const nsi_schema_key entry_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(study_entry, name), .required = true,
     .help = "becomes a folder of results"},
    {"extends", NSI_KEY_OTHER, .values = "file, or name of a fit before it",
     .help = "what the fit is but for its own keys, which are those of a fit file"
             " ([fit.md](fit.md))"},
    {"label", NSI_KEY_TEXT, offsetof(study_entry, label), .fallback = "(the name)",
     .help = "in tables, and the title of its report if it has none"},
    {"group", NSI_KEY_OTHER, .values = "name", .help = "the table it belongs to"},
    {"seeds", NSI_KEY_COUNT, offsetof(study_entry, seeds), 1, STUDY_MAX_SEEDS, .fallback = "1",
     .help = "runs. Run k adds k to the seeds of the fit, its networks and its learned system;"
             " tables show the median and the range"},
    {"folds", NSI_KEY_COUNT, offsetof(study_entry, folds), 2, STUDY_MAX_FOLDS, .fallback = "(none)",
     .help = "cross-validation: after a run with all training files, so many runs that leave out"
             " every so-many-th file. Errors on what they leave out take the place of those on"
             " test data. `from` must have as many folds. Each is written to `<fit>/fold<k>`;"
             " `--quick` runs one"},
    {"trajectories", NSI_KEY_COUNTS, offsetof(study_entry, trajectories), 1, 1000000,
     .read = fits_read_counts, .filled = true, .values = "list, growing",
     .help = "a learning curve: trained on so many trajectories of the first training file, in"
             " turn. Run k takes the k-th so many, so the file must name (`trajectories: A-B`)"
             " `seeds` times the largest; of whole files, the first so many"},
    {"from", NSI_KEY_OTHER, .read = fits_keep_from, .values = "name of a fit before it",
     .help = "weights, and parameters of the same name, start where its first run ended. With"
             " `iterations: 0` it is only scored"},
    {"inputs", NSI_KEY_OTHER, .read = fits_read_inputs, .values = "list of names",
     .help = "`path_names` of `result.json` that should be left at the end of a sparsity path, and"
             " no others"},
    {"truth", NSI_KEY_MAP, offsetof(study_entry, truth), .read = fits_read_truth,
     .values = "`{NAME: value}`",
     .help = "of parameters, or of coefficients as `<set>/<name>`: the largest relative error is"
             " shown"},
    {"smoke_iterations", NSI_KEY_COUNT, offsetof(study_entry, smoke_iterations), 1, UINT32_MAX,
     .fallback = "(all)", .help = "of each stage at most, for `--quick`"},
};
const nsi_schema nsi_study_fit_schema = {.what = "a fit",
                                         .keys = entry_keys,
                                         .count = sizeof entry_keys / sizeof *entry_keys,
                                         .check = fits_check_entry,
                                         .also = &nsi_fit_schema};

// What `extends` of an entry names, if that is an entry before it.
typedef struct fits_finder {
    const study_fits* f;
    const study_entry* x;
} fits_finder;

static const nsi_yaml_node* fits_find_before(void* context, const char* name) {
    const fits_finder* finder = context;
    for (const study_entry* x = finder->f->entries; x < finder->x; x++) {
        if (strcmp(x->name, name) == 0) return x->node;
    }
    return NULL;
}

ns_status nsi_study_read_spec(const study_fits* f, const study_entry* x, nsi_fit_spec** out,
                              ns_error* error) {
    char skip[NSI_SCHEMA_WORDS_SIZE];
    fits_finder finder = {f, x};
    return nsi_fit_spec_derive(&f->study->yaml, x->node,
                               nsi_schema_words(&nsi_study_fit_schema, skip), x->label,
                               fits_find_before, &finder, NULL, out, error);
}

// Is it a fit, and does it name as many trajectories as all runs take?
static void fits_check_spec(study_fits* f, const study_entry* x) {
    ns_study* s = f->study;
    nsi_fit_spec* spec = NULL;
    if (s->status != NS_OK) return;
    s->status = nsi_study_read_spec(f, x, &spec, &s->error);
    // Files of a glob are counted when they are there.
    if (s->status == NS_OK && nsi_fit_spec_expand(spec, NULL) == NS_OK) {
        s->status = nsi_fit_spec_choose(spec, x->max_trajectories, x->max_seeds - 1, &s->error);
        if (s->status == NS_OK && x->folds > 0) {
            s->status = nsi_fit_spec_fold(spec, x->folds, 0, &s->error);
        }
    }
    nsi_fit_spec_free(spec);
}

static const char* fits_full_label(ns_study* s, const study_entry* x) {
    size_t size = strlen(x->label) + 40;
    char* text = x->ncount > 1 ? nsi_study_zeros(s, size) : NULL;
    if (!text) return x->label;
    snprintf(text, size, "%s, from %u", x->label, x->counts[x->ncount - 1]);
    return text;
}

static void fits_read_entries(study_fits* f, const nsi_yaml_node* root) {
    ns_study* s = f->study;
    uint32_t count;
    const nsi_yaml_node* list = nsi_yaml_find(root, "fits");
    if (!list || list->count == 0) nsi_study_fault(s, list ? list : root, "`fits` is missing");
    nsi_study_read_list(s, &nsi_study_fit_schema, list, f, sizeof *f->entries, &f->entries, &count);
    for (uint32_t k = 0; k < f->nentry && s->status == NS_OK; k++) {
        study_entry* x = &f->entries[k];
        x->full_label = fits_full_label(s, x);
        x->runs = nsi_study_zeros(s, (size_t)x->nrun * sizeof *x->runs);
    }
}

// ---- references

static ns_status fits_read_measured(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    (void)out;
    for (const nsi_yaml_node* m = map->first; m; m = m->next) {
        double value;
        ns_status status = nsi_yaml_number(r->yaml, m, 0.0, 1e300, &value, r->error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status fits_check_reference(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    study_reference* of = out;
    ns_status status = fits_read_group(r, map, &of->group);
    if (status != NS_OK) return status;
    bool same = (of->pooled.count == 0 || of->pooled.count == of->horizons.count) &&
                (of->median.count == 0 || of->median.count == of->horizons.count);
    if ((of->horizons.count > 0 || of->measures) && same) return NS_OK;
    return nsi_yaml_fail(r->yaml, map, r->error,
                         "expected horizons, and as many numbers in pooled and median; or"
                         " measures: {NAME: number}");
}

static const nsi_schema_key reference_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(study_reference, name), .required = true, .help = "in tables"},
    {"group", NSI_KEY_OTHER, .values = "name", .help = "the table it belongs to"},
    {"on", NSI_KEY_CHOICE, offsetof(study_reference, role), .choices = &ns_data_roles,
     .fallback = "test", .help = "data that the errors are of"},
    {"horizons", NSI_KEY_NUMBERS, offsetof(study_reference, horizons), .values = "list of s",
     .help = "of the errors"},
    {"pooled", NSI_KEY_NUMBERS, offsetof(study_reference, pooled),
     .help = "errors of all windows up to each horizon"},
    {"median", NSI_KEY_NUMBERS, offsetof(study_reference, median),
     .help = "errors of the median window"},
    {"measures", NSI_KEY_MAP, offsetof(study_reference, measures), .read = fits_read_measured,
     .values = "`{NAME: number}`", .help = "in place of horizons"},
};
const nsi_schema nsi_study_reference_schema =
    NSI_SCHEMA("a reference", reference_keys, fits_check_reference);

// Which of the fits are run: all, or those of `smoke`.
static void fits_choose(study_fits* f, const nsi_yaml_node* root) {
    ns_study* s = f->study;
    uint32_t count;
    const nsi_yaml_node* named = nsi_study_list(s, root, "smoke", false, &count);
    for (uint32_t k = 0; k < f->nentry; k++) f->entries[k].chosen = !s->options.smoke || count == 0;
    for (; named && s->status == NS_OK; named = named->next) {
        uint32_t k = nsi_study_find_fit(f, named);
        if (k != NSI_NONE) f->entries[k].chosen = true;
    }
    for (uint32_t k = 0; k < f->nentry; k++) { // what it starts from must be there
        const study_entry* x = &f->entries[k];
        if (x->chosen && x->from != NSI_NONE && !f->entries[x->from].chosen) {
            nsi_study_fault(s, root, "a fit of `smoke` starts `from` one that is not in it");
        }
    }
}

static const nsi_schema_key study_fits_keys[] = {
    {"data", NSI_KEY_TEXT, offsetof(study_fits, data), .values = "folder",
     .help = "of the recordings; a study that simulates its own needs none"},
    {"simulate", NSI_KEY_OTHER, .values = "list", .help = "recordings to be made first"},
    {"groups", NSI_KEY_OTHER, .values = "list", .fallback = "(one)", .help = "a table for each"},
    {"fits", NSI_KEY_OTHER, .values = "list", .help = "run in order"},
    {"headline", NSI_KEY_OTHER, .values = "name", .fallback = "(the last)",
     .help = "the fit whose result becomes `fitted.yaml`"},
    {"analytic_baseline", NSI_KEY_OTHER, .values = "name",
     .help = "the fit whose model becomes `analytic.yaml`: the physics without networks, to compare"
             " with"},
    {"baseline", NSI_KEY_OTHER, .values = "`{fit, label}`",
     .help = "as in a group, of a study without `groups`"},
    {"smoke", NSI_KEY_OTHER, .values = "list of names", .fallback = "(all)",
     .help = "fits that `--quick` runs: one seed, the first of `trajectories`"},
    {"references", NSI_KEY_OTHER, .values = "list", .help = "errors of others"},
    {"figures", NSI_KEY_OTHER, .values = "list", .help = "on the page, and as files beside it"},
};
const nsi_schema nsi_study_fits_schema = {.what = "a study of fits",
                                          .keys = study_fits_keys,
                                          .count = sizeof study_fits_keys / sizeof *study_fits_keys,
                                          .also = &nsi_study_schema};

// The fit that a key names, or NSI_NONE.
static uint32_t fits_find_named(study_fits* f, const nsi_yaml_node* node) {
    return node && f->study->status == NS_OK ? nsi_study_find_fit(f, node) : NSI_NONE;
}

static bool fits_read(ns_study* s) {
    // The study owns its fits, and frees them after a failure, too.
    study_fits* f = nsi_study_zeros(s, sizeof *f);
    const nsi_yaml_node* root = s->yaml.root;
    if (!f) return false;
    f->study = s;
    s->fits = f;

    // Read the lists in the order in which they refer to each other.
    nsi_study_read(s, &nsi_study_fits_schema, root, f, f);
    fits_read_groups(f, root);
    fits_read_entries(f, root);
    // References are published results, shown next to those of the fits.
    nsi_study_read_list(s, &nsi_study_reference_schema, nsi_yaml_find(root, "references"), f,
                        sizeof *f->references, &f->references, &f->nreference);

    // Resolve names of fits, now that all of them are known.
    f->headline = fits_find_named(f, nsi_yaml_find(root, "headline"));
    f->analytic = fits_find_named(f, nsi_yaml_find(root, "analytic_baseline"));
    // Each group may have its own baseline.
    for (uint32_t k = 0; k < f->ngroup && s->status == NS_OK; k++) {
        f->groups[k].baseline = fits_find_named(f, f->groups[k].baseline_node);
    }
    if (s->status != NS_OK) return false;

    // Select the fits to run, then check everything that depends on the selection.
    fits_choose(f, root);
    nsi_study_check_figures(f);
    // Simulated data sets and figures refer to fits by name, too.
    if (s->status != NS_OK || !nsi_study_check_simulate(f)) return false;
    // Fit files are validated before the first fit runs.
    for (uint32_t k = 0; k < f->nentry; k++) fits_check_spec(f, &f->entries[k]);
    return s->status == NS_OK;
}

// ------------------------------------------------------------------------------------------------

static uint64_t fits_seed(const ns_study* s) {
    return s->fits->entries[s->fits->headline].seed;
}

static void fits_free(ns_study* s) {
    study_fits* f = s->fits;
    for (uint32_t k = 0; f && k < f->nentry; k++) {
        study_entry* x = &f->entries[k];
        for (uint32_t run = 0; x->runs && run < x->nrun; run++) {
            if (x->runs[run].done) nsi_result_free(&x->runs[run].result);
        }
    }
}

const study_kind nsi_study_kind_fits = {
    .name = "fits",
    .help = "fits to recordings",
    .read = fits_read,
    .prepare = nsi_study_prepare_fits,
    .run = nsi_study_run_fits,
    .report = nsi_study_report_fits,
    .record = nsi_study_record_fits,
    .seed = fits_seed,
    .free = fits_free,
};
