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

static uint32_t find_case(fits* f, const nsi_yaml_node* map) {
    const nsi_yaml_node* node = nsi_yaml_find(map, "case");
    const char* name = "";
    experiment_text(f->e, map, "case", false, &name);
    for (uint32_t k = 0; k < f->ncase; k++) {
        if (strcmp(f->cases[k].name, name) == 0) return k;
    }
    experiment_fault(f->e, node ? node : map,
                     node ? "this is none of the names under `cases`"
                          : "say to which of `cases` it belongs: `case: NAME`");
    return 0;
}

static void check_name(experiment* e, const nsi_yaml_node* node, const char* name) {
    for (const nsi_yaml_node* n = node->parent->first; name && n != node; n = n->next) {
        const nsi_yaml_node* other = nsi_yaml_find(n, "name");
        if (other && strcmp(other->text, name) == 0) {
            experiment_fault(e, node, "another one before it has this name");
        }
    }
    if (name && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(name)) {
        experiment_fault(e, node, "a name is made of a-z, 0-9 and _: it becomes that of a folder");
    }
}

static void read_cases(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count;
    const nsi_yaml_node* n = experiment_list(e, root, "cases", false, &count);
    f->cases = experiment_zeros(e, (count + 1) * sizeof *f->cases);
    if (!f->cases) return;
    if (!n) f->cases[f->ncase++] = (fits_case){.name = "", .title = ""};
    for (; n && e->status == NS_OK; n = n->next) {
        fits_case* c = &f->cases[f->ncase++];
        experiment_check_map(e, n, "a case", "name title data before");
        experiment_text(e, n, "name", true, &c->name);
        experiment_text(e, n, "title", true, &c->title);
        experiment_text(e, n, "data", false, &c->data);
        check_name(e, n, c->name);
    }
}

// The fit whose start is shown as "before", and what that is called.
static void read_before(fits* f, fits_case* c, const nsi_yaml_node* map) {
    experiment* e = f->e;
    const nsi_yaml_node* before = e->status == NS_OK ? nsi_yaml_find(map, "before") : NULL;
    c->before_label = "before, start values";
    c->before = NSI_NONE;
    experiment_check_map(e, before, "before", "fit label");
    experiment_text(e, before, "label", false, &c->before_label);
    const nsi_yaml_node* of = e->status == NS_OK && before ? nsi_yaml_find(before, "fit") : NULL;
    if (of) c->before = fits_find(f, of);
}

static void read_counts(fits* f, fits_entry* x, const nsi_yaml_node* map) {
    experiment* e = f->e;
    const nsi_yaml_node *list = e->status == NS_OK ? nsi_yaml_find(map, "trajectories") : NULL, *n;
    n = list ? experiment_list(e, map, "trajectories", true, &x->ncount) : NULL;
    uint32_t* counts = experiment_zeros(e, (x->ncount + 1) * sizeof *counts);
    x->counts = counts;
    for (uint32_t k = 0; n && e->status == NS_OK; n = n->next, k++) {
        e->status = nsi_yaml_count(&e->yaml, n, 1, 1000000, &counts[k], &e->error);
        if (counts[k] <= x->most_trajectories) experiment_fault(e, n, "numbers must grow");
        x->most_trajectories = counts[k];
    }
    if (x->ncount == 0 || e->quick) x->ncount = 1;
}

// What is known of the truth.
static void read_truth(experiment* e, fits_entry* x, const nsi_yaml_node* map) {
    uint32_t count;
    const nsi_yaml_node* n = experiment_list(e, map, "inputs", false, &count);
    if (n) x->inputs = n->parent;
    for (const char* text = NULL; n && e->status == NS_OK; n = n->next) {
        e->status = nsi_yaml_text(&e->yaml, n, &text, &e->error);
    }
    x->truth = nsi_yaml_find(map, "truth");
    if (x->truth && x->truth->type != NSI_YAML_MAP) {
        experiment_fault(e, x->truth, "expected names and values");
    }
    for (n = x->truth ? x->truth->first : NULL; n && e->status == NS_OK; n = n->next) {
        double value = 0.0;
        e->status = nsi_yaml_number(&e->yaml, n, -1e300, 1e300, &value, &e->error);
        if (value == 0.0) experiment_fault(e, n, "errors are relative: expected a number but 0");
    }
}

// Is there a file, and does it name as many trajectories as all runs take?
static void check_file(experiment* e, const fits_entry* x) {
    const char* path = experiment_path(e, e->folder, x->file);
    nsi_fit_spec* plan = NULL;
    if (!path || e->status != NS_OK) return;
    e->status = nsi_fit_spec_read(path, NULL, &plan, &e->error);
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
    const nsi_yaml_node* n = experiment_list(e, root, "fits", true, &count);
    f->entries = experiment_zeros(e, (count + 1) * sizeof *f->entries);
    for (; n && e->status == NS_OK; n = n->next) {
        fits_entry* x = &f->entries[f->nentry];
        experiment_check_map(e, n, "a fit",
                             "name file label case seeds folds trajectories from inputs truth"
                             " quick_iterations");
        experiment_text(e, n, "name", true, &x->name);
        experiment_text(e, n, "file", true, &x->file);
        experiment_text(e, n, "label", false, &x->label);
        x->seeds = 1;
        experiment_count(e, n, "seeds", 1, FITS_MOST_SEEDS, &x->seeds);
        experiment_count(e, n, "folds", 2, MOST_FOLDS, &x->folds);
        experiment_count(e, n, "quick_iterations", 1, UINT32_MAX, &x->quick_iterations);
        if (e->status != NS_OK) return;
        if (!x->label) x->label = x->name;
        check_name(e, n, x->name);
        read_counts(f, x, n);
        x->full_label = full_label(e, x);
        x->most_seeds = x->seeds;
        if (e->quick) x->seeds = 1;
        x->of = find_case(f, n);
        const nsi_yaml_node* from = nsi_yaml_find(n, "from");
        x->from = from ? fits_find(f, from) : NSI_NONE; // one of those before it
        read_truth(e, x, n);
        if (x->folds > 0 && x->from != NSI_NONE && f->entries[x->from].folds != x->folds) {
            experiment_fault(e, n,
                             "the fit that it starts `from` has seen what folds leave out: give"
                             " that one as many `folds`");
        }
        if (x->folds > 0 && (x->counts[0] > 0 || x->most_seeds > 1)) {
            experiment_fault(e, n, "`folds` does not go with `seeds` or `trajectories`");
        }
        if ((size_t)x->ncount * x->seeds > MOST_RUNS) experiment_fault(e, n, "too many runs");
        x->nrun = x->ncount * x->seeds + (e->quick && x->folds > 0 ? 1 : x->folds);
        x->runs = experiment_zeros(e, (size_t)x->nrun * sizeof *x->runs);
        f->nentry++;
    }
}

static void read_references(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count, others;
    const nsi_yaml_node* n = experiment_list(e, root, "references", false, &count);
    f->references = experiment_zeros(e, (count + 1) * sizeof *f->references);
    for (; n && e->status == NS_OK; n = n->next) {
        fits_reference* r = &f->references[f->nreference++];
        r->role = NSI_ROLE_TEST;
        experiment_check_map(e, n, "a reference", "name case on horizons pooled median measures");
        experiment_text(e, n, "name", true, &r->name);
        r->of = find_case(f, n);
        if (e->status == NS_OK) {
            e->status =
                nsi_yaml_choice(&e->yaml, nsi_yaml_find(n, "on"), &nsi_roles, &r->role, &e->error);
        }
        r->horizons = experiment_numbers(e, nsi_yaml_find(n, "horizons"), &r->nhorizon);
        r->pooled = experiment_numbers(e, nsi_yaml_find(n, "pooled"), &others);
        bool fits_in = !r->pooled || others == r->nhorizon;
        r->median = experiment_numbers(e, nsi_yaml_find(n, "median"), &others);
        fits_in = fits_in && (!r->median || others == r->nhorizon);
        r->measures = nsi_yaml_find(n, "measures");
        bool named = r->measures && r->measures->type == NSI_YAML_MAP;
        if (r->measures && !named) experiment_fault(e, r->measures, "expected {NAME: number}");
        for (const nsi_yaml_node* m = named ? r->measures->first : NULL; m; m = m->next) {
            double value;
            experiment_number(e, r->measures, m->key, 0.0, 1e300, &value);
        }
        if (!(r->horizons || named) || !fits_in) {
            experiment_fault(e, n,
                             "expected horizons, and as many numbers in pooled and median; or"
                             " measures: {NAME: number}");
        }
    }
}

// Which of the fits are run: all, or the quick ones.
static void choose(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count;
    const nsi_yaml_node* quick = experiment_list(e, root, "quick", false, &count);
    for (uint32_t k = 0; k < f->nentry; k++) f->entries[k].chosen = !e->quick || count == 0;
    for (; quick && e->status == NS_OK; quick = quick->next) {
        uint32_t k = fits_find(f, quick);
        if (k != NSI_NONE) f->entries[k].chosen = true;
    }
    for (uint32_t k = 0; k < f->nentry; k++) { // what it starts from must be there
        const fits_entry* x = &f->entries[k];
        if (x->chosen && x->from != NSI_NONE && !f->entries[x->from].chosen) {
            experiment_fault(e, root, "a `quick` fit starts `from` one that is not quick");
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

static bool read_fits(fits* f) {
    experiment* e = f->e;
    const nsi_yaml_node* root = e->yaml.root;
    experiment_check_map(e, root, "an experiment of fits",
                         EXPERIMENT_KEYS
                         "data simulate cases fits main analytic before quick references figures");
    experiment_text(e, root, "data", false, &f->data);
    read_cases(f, root);
    read_entries(f, root);
    read_references(f, root);
    if (e->status != NS_OK) return false;
    uint32_t count;
    const nsi_yaml_node *main = nsi_yaml_find(root, "main"),
                        *cases = experiment_list(e, root, "cases", false, &count);
    const nsi_yaml_node* analytic = nsi_yaml_find(root, "analytic");
    f->main = main ? fits_find(f, main) : NSI_NONE;
    f->analytic = analytic ? fits_find(f, analytic) : NSI_NONE;
    if (cases && nsi_yaml_find(root, "before")) {
        experiment_fault(e, nsi_yaml_find(root, "before"),
                         "with `cases`, each has its own `before`");
    }
    read_before(f, &f->cases[0], cases ? cases : root);
    for (uint32_t k = 1; cases && k < f->ncase; k++) {
        cases = cases->next;
        read_before(f, &f->cases[k], cases);
    }
    choose(f, root);
    fits_check_figures(f);
    if (e->status != NS_OK || !fits_check_simulate(f)) return false;
    for (uint32_t k = 0; k < f->nentry; k++) check_file(e, &f->entries[k]);
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
            status = ns_fit_set_start(fit, name, a->estimates.data[i].value, error);
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
    const char *path = experiment_path(e, e->folder, x->file), *folder = run_folder(f, x, run);
    if (!path || !folder) return experiment_complain(e) == EXIT_OK;
    char what[200];
    snprintf(what, sizeof what, x->nrun > 1 ? "%.100s, run %u of %u" : "%.100s", x->name, run + 1,
             x->nrun);
    cli_progress progress = cli_progress_start(what);
    ns_fit_options options = {.observe = watch, .context = &progress};
    ns_status status = nsi_fit_load(path, e->threads, changes, &fit, &error);
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
