// An experiment of kind `fits`: fits to recordings, one after the other, from several seeds and to
// more and more recordings, and tables of their errors beside those of others.

#define _POSIX_C_SOURCE 200809L

#include "experiment_fits.h"

#include "cli.h"
#include "fit/fit_state.h"
#include "interrupt.h"
#include "io/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_RUNS = 10000, MOST_FOLDS = 100 };

// ---- reading -----------------------------------------------------------------------------------

uint32_t fits_find(fits* f, const nsi_yaml_node* node) {
    experiment* e = f->e;
    const char* name = NULL;
    if (e->status == NS_OK) e->status = nsi_yaml_text(&e->yaml, node, &name, &e->error);
    for (uint32_t k = 0; name && k < f->nentry; k++) {
        if (strcmp(f->entries[k].name, name) == 0) return k;
    }
    char list[200] = "";
    for (uint32_t k = 0; k < f->nentry; k++) {
        size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%s", k > 0 ? ", " : "", f->entries[k].name);
    }
    if (e->status == NS_OK) {
        e->status = nsi_yaml_fail(&e->yaml, node, &e->error,
                                  "\"%.60s\" is none of the names under `fits`: %s", name, list);
    }
    return NSI_NONE;
}

static ns_status read_group(nsi_schema_reader* r, const nsi_yaml_node* map, uint32_t* out) {
    const fits* f = r->context;
    const nsi_yaml_node* node = nsi_yaml_find(map, "group");
    const char* name = "";
    ns_status status = nsi_yaml_text(r->yaml, node, &name, r->error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < f->ncase; k++) {
        if (strcmp(f->cases[k].name, name) != 0) continue;
        *out = k;
        return NS_OK;
    }
    return nsi_yaml_fail(r->yaml, node ? node : map, r->error,
                         node ? "this is none of the names under `groups`"
                              : "say to which of `groups` it belongs: `group: NAME`");
}

static ns_status check_name(nsi_schema_reader* r, const nsi_yaml_node* node, const char* name) {
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

static ns_status keep_baseline_fit(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    (void)r;
    ((fits_case*)out)->before_node = node;
    return NS_OK;
}

static const nsi_schema_key baseline_keys[] = {
    {"fit", NSI_KEY_OTHER, .read = keep_baseline_fit, .values = "name", .fallback = "(the first)",
     .help = "the fit whose initial values are shown"},
    {"label", NSI_KEY_TEXT, offsetof(fits_case, before_label),
     .fallback = "(before, initial values)", .help = "what they are called"},
};
const nsi_schema study_baseline_schema = NSI_SCHEMA("baseline", baseline_keys, NULL);

static ns_status check_group(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    return check_name(r, map, ((fits_case*)out)->name);
}

static const nsi_schema_key group_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(fits_case, name), .required = true,
     .help = "for `group` of fits and references"},
    {"title", NSI_KEY_TEXT, offsetof(fits_case, title), .required = true, .help = "of its table"},
    {"data", NSI_KEY_TEXT, offsetof(fits_case, data), .values = "folder",
     .help = "of the recordings; a group without them is left out, with the fits that start from"
             " one of it"},
    {"baseline", NSI_KEY_TABLE, 0, .table = &study_baseline_schema,
     .help = "the fit whose initial values are shown as baseline"},
};
const nsi_schema study_group_schema = NSI_SCHEMA("a group", group_keys, check_group);

// Groups, or one without a name.
static void read_groups(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    const nsi_yaml_node *list = nsi_yaml_find(root, "groups"),
                        *baseline = nsi_yaml_find(root, "baseline");
    if (!experiment_read_list(e, &study_group_schema, list, f, sizeof *f->cases, &f->cases,
                              &f->ncase)) {
        return;
    }
    if (f->ncase == 0) {
        f->cases[f->ncase++] = (fits_case){.name = "", .title = ""};
        experiment_read(e, &study_baseline_schema, baseline, f, &f->cases[0]);
    } else if (baseline) {
        experiment_fault(e, baseline, "with `groups`, each has its own `baseline`");
    }
    for (uint32_t k = 0; k < f->ncase; k++) {
        if (!f->cases[k].before_label) f->cases[k].before_label = "before, initial values";
    }
}

// ---- fits

static ns_status keep_from(nsi_schema_reader* r, const nsi_yaml_node* node, void* out) {
    fits* f = r->context;
    ((fits_entry*)out)->from = fits_find(f, node); // one of those before it
    return f->e->status;
}

static ns_status read_counts(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    fits_entry* x = out;
    const nsi_yaml_node* n = list->first;
    for (uint32_t k = 0; k < x->trajectories.count; k++, n = n->next) {
        if (x->trajectories.data[k] <= x->most_trajectories) {
            return nsi_yaml_fail(r->yaml, n, r->error, "numbers must grow");
        }
        x->most_trajectories = x->trajectories.data[k];
    }
    return NS_OK;
}

static ns_status read_inputs(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    const char* text = NULL;
    ns_status status = nsi_yaml_check_list(r->yaml, list, r->error);
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        status = nsi_yaml_text(r->yaml, n, &text, r->error);
    }
    ((fits_entry*)out)->inputs = list;
    return status;
}

static ns_status read_truth(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
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
static ns_status check_entry(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    fits* f = r->context;
    fits_entry* x = out;
    bool quick = f->e->quick;
    ns_status status = check_name(r, map, x->name);
    if (status == NS_OK) status = read_group(r, map, &x->of);
    if (status != NS_OK) return status;
    if (!x->label) x->label = x->name;
    x->node = map;

    static const uint32_t all = 0;
    x->counts = x->trajectories.count > 0 ? x->trajectories.data : &all;
    x->ncount = x->trajectories.count == 0 || quick ? 1 : x->trajectories.count;
    x->most_seeds = x->seeds;
    if (quick) x->seeds = 1;
    if (!nsi_yaml_find(map, "from")) x->from = NSI_NONE;

    if (x->folds > 0 && x->from != NSI_NONE && f->entries[x->from].folds != x->folds) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "the fit that it starts `from` has seen what folds leave out: give"
                             " that one as many `folds`");
    }
    if (x->folds > 0 && (x->counts[0] > 0 || x->most_seeds > 1)) {
        return nsi_yaml_fail(r->yaml, map, r->error,
                             "`folds` does not go with `seeds` or `trajectories`");
    }
    if ((size_t)x->ncount * x->seeds > MOST_RUNS) {
        return nsi_yaml_fail(r->yaml, map, r->error, "too many runs");
    }
    x->nrun = x->ncount * x->seeds + (quick && x->folds > 0 ? 1 : x->folds);
    f->nentry++; // from now on others find it
    return NS_OK;
}

static const nsi_schema_key entry_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(fits_entry, name), .required = true,
     .help = "becomes a folder of results"},
    {"extends", NSI_KEY_OTHER, .values = "file, or name of a fit before it",
     .help = "what the fit is but for its own keys, which are those of a fit file"
             " ([fit.md](fit.md))"},
    {"label", NSI_KEY_TEXT, offsetof(fits_entry, label), .fallback = "(the name)",
     .help = "in tables, and the title of its report if it has none"},
    {"group", NSI_KEY_OTHER, .values = "name", .help = "the table it belongs to"},
    {"seeds", NSI_KEY_COUNT, offsetof(fits_entry, seeds), 1, FITS_MOST_SEEDS, .fallback = "1",
     .help = "runs. Run k adds k to the seeds of the fit, its networks and its learned system;"
             " tables show the median and the range"},
    {"folds", NSI_KEY_COUNT, offsetof(fits_entry, folds), 2, MOST_FOLDS, .fallback = "(none)",
     .help = "cross-validation: after a run with all training files, so many runs that leave out"
             " every so-many-th file. Errors on what they leave out take the place of those on"
             " test data. `from` must have as many folds. Each is written to `<fit>/fold<k>`;"
             " `--quick` runs one"},
    {"trajectories", NSI_KEY_COUNTS, offsetof(fits_entry, trajectories), 1, 1000000,
     .read = read_counts, .filled = true, .values = "list, growing",
     .help = "a learning curve: trained on so many trajectories of the first training file, in"
             " turn. Run k takes the k-th so many, so the file must name (`trajectories: A-B`)"
             " `seeds` times the largest; of whole files, the first so many"},
    {"from", NSI_KEY_OTHER, .read = keep_from, .values = "name of a fit before it",
     .help = "weights, and parameters of the same name, start where its first run ended. With"
             " `iterations: 0` it is only scored"},
    {"inputs", NSI_KEY_OTHER, .read = read_inputs, .values = "list of names",
     .help = "`path_names` of `result.json` that should be left at the end of a sparsity path, and"
             " no others"},
    {"truth", NSI_KEY_MAP, offsetof(fits_entry, truth), .read = read_truth,
     .values = "`{NAME: value}`",
     .help = "of parameters, or of coefficients as `<set>/<name>`: the largest relative error is"
             " shown"},
    {"smoke_iterations", NSI_KEY_COUNT, offsetof(fits_entry, quick_iterations), 1, UINT32_MAX,
     .fallback = "(all)", .help = "of each stage at most, for `--quick`"},
};
const nsi_schema study_fit_schema = {.what = "a fit",
                                     .keys = entry_keys,
                                     .count = sizeof entry_keys / sizeof *entry_keys,
                                     .check = check_entry,
                                     .also = &nsi_fit_schema};

// What `extends` of an entry names, if that is an entry before it.
typedef struct entry_finder {
    const fits* f;
    const fits_entry* x;
} entry_finder;

static const nsi_yaml_node* find_before(void* context, const char* name) {
    const entry_finder* finder = context;
    for (const fits_entry* x = finder->f->entries; x < finder->x; x++) {
        if (strcmp(x->name, name) == 0) return x->node;
    }
    return NULL;
}

ns_status fits_read_spec(fits* f, const fits_entry* x, nsi_fit_spec** out, ns_error* error) {
    char skip[NSI_SCHEMA_WORDS_SIZE];
    entry_finder finder = {f, x};
    return nsi_fit_spec_derive(&f->e->yaml, x->node, nsi_schema_words(&study_fit_schema, skip),
                               x->label, find_before, &finder, NULL, out, error);
}

// Is it a fit, and does it name as many trajectories as all runs take?
static void check_spec(fits* f, const fits_entry* x) {
    experiment* e = f->e;
    nsi_fit_spec* plan = NULL;
    if (e->status != NS_OK) return;
    e->status = fits_read_spec(f, x, &plan, &e->error);
    // Files of a glob are counted when they are there.
    if (e->status == NS_OK && nsi_fit_spec_expand(plan, NULL) == NS_OK) {
        e->status = nsi_fit_spec_choose(plan, x->most_trajectories, x->most_seeds - 1, &e->error);
        if (e->status == NS_OK && x->folds > 0) {
            e->status = nsi_fit_spec_fold(plan, x->folds, 0, &e->error);
        }
    }
    nsi_fit_spec_free(plan);
}

static const char* full_label(experiment* e, const fits_entry* x) {
    size_t size = strlen(x->label) + 40;
    char* text = x->ncount > 1 ? experiment_zeros(e, size) : NULL;
    if (!text) return x->label;
    snprintf(text, size, "%s, from %u", x->label, x->counts[x->ncount - 1]);
    return text;
}

static void read_entries(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count;
    const nsi_yaml_node* list = nsi_yaml_find(root, "fits");
    if (!list || list->count == 0) experiment_fault(e, list ? list : root, "`fits` is missing");
    experiment_read_list(e, &study_fit_schema, list, f, sizeof *f->entries, &f->entries, &count);
    for (uint32_t k = 0; k < f->nentry && e->status == NS_OK; k++) {
        fits_entry* x = &f->entries[k];
        x->full_label = full_label(e, x);
        x->runs = experiment_zeros(e, (size_t)x->nrun * sizeof *x->runs);
    }
}

// ---- references

static ns_status read_measured(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    (void)out;
    for (const nsi_yaml_node* m = map->first; m; m = m->next) {
        double value;
        ns_status status = nsi_yaml_number(r->yaml, m, 0.0, 1e300, &value, r->error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status check_reference(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    fits_reference* of = out;
    ns_status status = read_group(r, map, &of->of);
    if (status != NS_OK) return status;
    bool same = (of->pooled.count == 0 || of->pooled.count == of->horizons.count) &&
                (of->median.count == 0 || of->median.count == of->horizons.count);
    if ((of->horizons.count > 0 || of->metrics) && same) return NS_OK;
    return nsi_yaml_fail(r->yaml, map, r->error,
                         "expected horizons, and as many numbers in pooled and median; or"
                         " measures: {NAME: number}");
}

static const nsi_schema_key reference_keys[] = {
    {"name", NSI_KEY_TEXT, offsetof(fits_reference, name), .required = true, .help = "in tables"},
    {"group", NSI_KEY_OTHER, .values = "name", .help = "the table it belongs to"},
    {"on", NSI_KEY_CHOICE, offsetof(fits_reference, role), .choices = &ns_data_roles,
     .fallback = "test", .help = "data that the errors are of"},
    {"horizons", NSI_KEY_NUMBERS, offsetof(fits_reference, horizons), .values = "list of s",
     .help = "of the errors"},
    {"pooled", NSI_KEY_NUMBERS, offsetof(fits_reference, pooled),
     .help = "errors of all windows up to each horizon"},
    {"median", NSI_KEY_NUMBERS, offsetof(fits_reference, median),
     .help = "errors of the median window"},
    {"measures", NSI_KEY_MAP, offsetof(fits_reference, metrics), .read = read_measured,
     .values = "`{NAME: number}`", .help = "in place of horizons"},
};
const nsi_schema study_reference_schema =
    NSI_SCHEMA("a reference", reference_keys, check_reference);

// Which of the fits are run: all, or the quick ones.
static void choose(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count;
    const nsi_yaml_node* quick = experiment_list(e, root, "smoke", false, &count);
    for (uint32_t k = 0; k < f->nentry; k++) f->entries[k].chosen = !e->quick || count == 0;
    for (; quick && e->status == NS_OK; quick = quick->next) {
        uint32_t k = fits_find(f, quick);
        if (k != NSI_NONE) f->entries[k].chosen = true;
    }
    for (uint32_t k = 0; k < f->nentry; k++) { // what it starts from must be there
        const fits_entry* x = &f->entries[k];
        if (x->chosen && x->from != NSI_NONE && !f->entries[x->from].chosen) {
            experiment_fault(e, root, "a fit of `smoke` starts `from` one that is not in it");
        }
    }
}

// Of the fits that are run, the last of each case stands for the main one, and the first for the
// start, unless the file says otherwise.
static void choose_main(fits* f) {
    for (uint32_t c = 0; c < f->ncase; c++) {
        fits_case* of = &f->cases[c];
        uint32_t first = NSI_NONE;
        of->main = NSI_NONE;
        for (uint32_t k = 0; k < f->nentry; k++) {
            if (f->entries[k].of != c || !f->entries[k].chosen) continue;
            if (first == NSI_NONE) first = k;
            of->main = k;
        }
        if (of->before == NSI_NONE || !f->entries[of->before].chosen) of->before = first;
    }
    if (f->main != NSI_NONE && f->entries[f->main].chosen) {
        f->cases[f->entries[f->main].of].main = f->main;
        return;
    }
    uint32_t same = f->main != NSI_NONE ? f->cases[f->entries[f->main].of].main : NSI_NONE;
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (f->entries[k].chosen) f->main = k;
    }
    if (same != NSI_NONE) f->main = same; // another one of its case
}

static const nsi_schema_key fits_keys[] = {
    {"data", NSI_KEY_TEXT, offsetof(fits, data), .values = "folder",
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
const nsi_schema study_fits_schema = {.what = "a study of fits",
                                      .keys = fits_keys,
                                      .count = sizeof fits_keys / sizeof *fits_keys,
                                      .also = &study_schema};

// The fit that a key names, or NSI_NONE.
static uint32_t find_named(fits* f, const nsi_yaml_node* node) {
    return node && f->e->status == NS_OK ? fits_find(f, node) : NSI_NONE;
}

static bool read_fits(fits* f) {
    experiment* e = f->e;
    const nsi_yaml_node* root = e->yaml.root;
    experiment_read(e, &study_fits_schema, root, f, f);
    read_groups(f, root);
    read_entries(f, root);
    experiment_read_list(e, &study_reference_schema, nsi_yaml_find(root, "references"), f,
                         sizeof *f->references, &f->references, &f->nreference);

    // Names of fits.
    f->main = find_named(f, nsi_yaml_find(root, "headline"));
    f->analytic = find_named(f, nsi_yaml_find(root, "analytic_baseline"));
    for (uint32_t k = 0; k < f->ncase && e->status == NS_OK; k++) {
        f->cases[k].before = find_named(f, f->cases[k].before_node);
    }
    if (e->status != NS_OK) return false;
    choose(f, root);
    fits_check_figures(f);
    if (e->status != NS_OK || !fits_check_simulate(f)) return false;
    for (uint32_t k = 0; k < f->nentry; k++) check_spec(f, &f->entries[k]);
    return e->status == NS_OK;
}

// ---- recordings --------------------------------------------------------------------------------

static bool has_folder(fits* f, const char* name) {
    const char* roots[NSI_DATA_FOLDERS];
    uint32_t count = nsi_data_folders(f->e->folder, roots);
    for (uint32_t k = 0; k < count; k++) {
        if (cli_is_folder(experiment_path(f->e, roots[k], name))) return true;
    }
    return false;
}

// Said before anything is run, and with where the data comes from: nobody has it by default. A case
// whose data is missing is left out, and fits that start from one of it.
static bool has_data(fits* f) {
    experiment* e = f->e;
    const char* named = getenv("NEURALSIM_DATA");
    for (uint32_t c = 0; c < f->ncase; c++) {
        fits_case* of = &f->cases[c];
        if (!of->data || has_folder(f, of->data)) continue;
        of->missing = true;
        cli_note(
            "%s: left out, since its recordings are missing: a folder %s below $NEURALSIM_DATA,"
            " from %s",
            of->title, of->data, e->source ? e->source : "their authors");
        for (uint32_t k = 0; k < f->nentry; k++) {
            if (f->entries[k].of == c) f->entries[k].chosen = false;
        }
    }
    for (uint32_t k = 0; k < f->nentry; k++) {
        fits_entry* x = &f->entries[k];
        if (!x->chosen || x->from == NSI_NONE || f->entries[x->from].chosen) continue;
        x->chosen = false;
        cli_note("%s: left out, since it starts from %s", x->name, f->entries[x->from].name);
    }
    if (!f->data || has_folder(f, f->data)) return true;
    cli_fail("%s needs recordings in a folder %s, which is neither in %s%s%s nor in %s;"
             " get them from %s and set NEURALSIM_DATA to the folder that holds %s",
             e->name, f->data, named ? "$NEURALSIM_DATA (" : "$NEURALSIM_DATA", named ? named : "",
             named ? ")" : " (not set)", e->folder, e->source ? e->source : "their authors",
             f->data);
    return false;
}

// ---- running -----------------------------------------------------------------------------------

static bool watch(void* context, const ns_fit_progress* p) {
    double share = p->iterations > 0 ? (double)p->iteration / p->iterations : 0.0;
    cli_progress_update(context, p->number + fmin(share, 1.0), p->count);
    return interrupt_heard();
}

// The run that a run of an entry goes on from: the first, or that of the same fold, which has not seen
// the part that is left out either.
static uint32_t run_before(const fits_entry* from, const fits_entry* x, uint32_t run) {
    return x->folds > 0 ? run : (from->ncount - 1) * from->seeds;
}

// Parameters start where those of the same name ended.
static ns_status start_from(const nsi_result* a, ns_fit* fit, ns_error* error) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < fit->nz && status == NS_OK; k++) {
        const char* name = ns_parameters_at(fit->variables, k)->name;
        for (uint32_t i = 0; i < a->estimates.count && status == NS_OK; i++) {
            if (strcmp(a->estimates.data[i].name, name) != 0) continue;
            status = ns_fit_set_initial(fit, name, a->estimates.data[i].value, error);
        }
    }
    return status;
}

static bool keep_plan(fits* f, fits_entry* x, const ns_fit* fit) {
    const nsi_fit_spec* plan = fit->plan;
    double* horizons = experiment_zeros(f->e, (plan->horizons.count + 1) * sizeof *horizons);
    if (!horizons) return false;
    for (uint32_t k = 0; k < plan->horizons.count; k++) horizons[k] = plan->horizons.data[k];
    x->horizons = horizons;
    x->nhorizon = plan->horizons.count;
    x->seed = plan->seed;
    x->has_weights = fit->nw > 0;
    return true;
}

static bool stands_for_all(const fits_entry* x, uint32_t run) {
    return run == (x->ncount - 1) * x->seeds;
}

// Where a run is written, if it is: "hybrid", or "hybrid/fold2".
static const char* run_folder(fits* f, const fits_entry* x, uint32_t run) {
    const char* folder = experiment_path(f->e, f->e->output, x->name);
    char name[40];
    if (!folder || x->folds == 0 || run == 0) return folder;
    snprintf(name, sizeof name, "fold%u", run);
    return experiment_path(f->e, folder, name);
}

// The model of the fit that is called analytic; its weights, if it has some, are in its own folder.
static ns_status write_analytic(fits* f, const ns_fit* fit, const char* folder, ns_error* error) {
    const char* weights = fit->nw > 0 ? experiment_path(f->e, folder, "weights.safetensors") : NULL;
    return nsi_fit_write_model(fit, f->e->output, "analytic.yaml", weights, error);
}

// One run; the first of the largest number of trajectories is written to folders, and each fold.
static bool run_once(fits* f, fits_entry* x, uint32_t run, const nsi_fit_changes* changes) {
    experiment* e = f->e;
    ns_error error;
    ns_fit* fit = NULL;
    const char* folder = run_folder(f, x, run);
    if (!folder) return experiment_complain(e) == EXIT_OK;
    char what[200];
    snprintf(what, sizeof what, x->nrun > 1 ? "%.100s, run %u of %u" : "%.100s", x->name, run + 1,
             x->nrun);
    cli_progress progress = cli_progress_start(what);
    ns_fit_options options = {.observe = watch, .context = &progress};
    nsi_fit_changes all = *changes;
    ns_status status = fits_read_spec(f, x, &all.spec, &error);
    if (status == NS_OK) status = nsi_fit_load(e->yaml.file, e->threads, &all, &fit, &error);
    if (status == NS_OK && x->from != NSI_NONE) {
        const fits_entry* from = &f->entries[x->from];
        status = start_from(&from->runs[run_before(from, x, run)].answer, fit, &error);
    }
    if (status == NS_OK) status = ns_fit_run(fit, &options, &error);
    cli_progress_end(&progress);
    if (status == NS_OK && (ns_fit_stopped(fit) || interrupt_heard())) {
        cli_note("interrupted in %s; fits that were done before it are in %s", what, e->output);
        f->interrupted = true;
        ns_fit_free(fit);
        return false;
    }
    bool first = stands_for_all(x, run);
    if (status == NS_OK && (first || x->folds > 0)) status = ns_fit_save(fit, folder, &error);
    if (status == NS_OK && first && x == &f->entries[f->main]) {
        status = ns_fit_save(fit, e->output, &error);
    }
    if (status == NS_OK && first && f->analytic == (uint32_t)(x - f->entries)) {
        status = write_analytic(f, fit, folder, &error);
    }
    bool done = status == NS_OK && (!first || keep_plan(f, x, fit));
    if (done) { // all else can go
        x->runs[run] = (fits_run){.answer = fit->answer, .done = true};
        nsi_result_init(NULL, &fit->answer);
    }
    ns_fit_free(fit);
    if (status != NS_OK) cli_fail("%s: %s", x->name, error.message);
    return done;
}

static bool run_entry(fits* f, fits_entry* x) {
    experiment* e = f->e;
    nsi_fit_changes changes = {
        .data = f->simulated, .made = f->made, .iterations = e->quick ? x->quick_iterations : 0};
    const fits_entry* from = x->from != NSI_NONE ? &f->entries[x->from] : NULL;
    for (uint32_t run = 0; run < x->nrun; run++) {
        if (from && from->has_weights) {
            const char* folder = run_folder(f, from, run_before(from, x, run));
            changes.weights = folder ? experiment_path(e, folder, "weights.safetensors") : NULL;
            if (!changes.weights) return experiment_complain(e) == EXIT_OK;
        }
        if (x->folds > 0) {
            changes.folds = run > 0 ? x->folds : 0;
            changes.fold = run > 0 ? run - 1 : 0;
        } else {
            changes.trajectories = x->counts[run / x->seeds];
            changes.seed = changes.block = run % x->seeds;
        }
        if (!run_once(f, x, run, &changes)) return false;
    }
    return true;
}

const fits_run* fits_runs(const fits_entry* x) {
    return x->runs + (size_t)(x->ncount - 1) * x->seeds;
}

static int compare(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

fits_spread fits_spread_of(const double* values, uint32_t count) {
    double sorted[FITS_MOST_SEEDS];
    for (uint32_t k = 0; k < count; k++) {
        if (isnan(values[k])) return (fits_spread){NAN, NAN, NAN};
        sorted[k] = values[k];
    }
    if (count == 0) return (fits_spread){NAN, NAN, NAN};
    qsort(sorted, count, sizeof *sorted, compare);
    double low = sorted[(count - 1) / 2], high = sorted[count / 2];
    return (fits_spread){isinf(high) ? high : 0.5 * (low + high), sorted[0], sorted[count - 1]};
}

// Results of an earlier run: after an interruption they would look like those of this one.
static bool remove_results(experiment* e) {
    static const char* const names[] = {"report.html",   "result.json",         "fitted.yaml",
                                        "analytic.yaml", "weights.safetensors", "predictions.csv"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const char* path = experiment_path(e, e->output, names[k]);
        if (!path) return experiment_complain(e) == EXIT_OK;
        remove(path);
    }
    return true;
}

static int run_all(fits* f) {
    experiment* e = f->e;
    if (!has_data(f)) return EXIT_FAILED;
    choose_main(f);
    if (f->main == NSI_NONE || !f->entries[f->main].chosen) {
        return cli_fail("%s: there is nothing to run", e->name);
    }
    if (!experiment_make_folder(e->output) || !remove_results(e) || !fits_simulate(f)) {
        return EXIT_FAILED;
    }
    interrupt_listen();
    bool done = true;
    for (uint32_t k = 0; k < f->nentry && done; k++) {
        done = !f->entries[k].chosen || run_entry(f, &f->entries[k]);
    }
    interrupt_restore();
    if (!done) remove_results(e);
    if (!done) return f->interrupted ? EXIT_INTERRUPTED : EXIT_FAILED;
    bool drawn = fits_make_figures(f); // without a figure there is still a table
    int code = fits_report(f);
    return drawn ? code : EXIT_FAILED;
}

int experiment_run_fits(experiment* e) {
    fits f = {.e = e};
    nsi_figures_init(NULL, &f.charts);
    int code = read_fits(&f) ? run_all(&f) : experiment_complain(e);
    for (uint32_t k = 0; k < f.nentry; k++) {
        fits_entry* x = &f.entries[k];
        for (uint32_t run = 0; x->runs && run < x->nrun; run++) {
            if (x->runs[run].done) nsi_result_free(&x->runs[run].answer);
        }
    }
    nsi_figures_free(&f.charts);
    return code;
}
