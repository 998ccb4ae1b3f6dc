// An experiment of kind `fits`: fits to the same recordings, one after the other, and a table of their
// errors beside those of others.

#define _POSIX_C_SOURCE 200809L

#include "cli.h"
#include "experiment.h"
#include "fit/fit.h"
#include "fit/show.h"
#include "page/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct entry {
    const char *name, *file, *label;
    ns_fit* fit; // NULL: not run
} entry;

// Errors that others reach.
typedef struct reference {
    const char* name;
    int role;
    const double *horizons, *pooled, *median; // the last two NULL: not known
    uint32_t nhorizon;
} reference;

typedef struct fits {
    experiment* e;
    const char* data; // folder of the recordings
    entry* entries;
    uint32_t nentry;
    reference* references;
    uint32_t nreference;
    uint32_t main, before; // entries
    const char* before_label;
} fits;

// In the order in which they are shown.
static const nsi_role roles[] = {NSI_ROLE_TEST, NSI_ROLE_VALIDATION, NSI_ROLE_TRAIN};

// ---- reading -----------------------------------------------------------------------------------

static uint32_t find_entry(fits* f, const nsi_yaml_node* node) {
    const char* name = NULL;
    if (f->e->status == NS_OK) {
        f->e->status = nsi_yaml_text(&f->e->yaml, node, &name, &f->e->error);
    }
    for (uint32_t k = 0; name && k < f->nentry; k++) {
        if (strcmp(f->entries[k].name, name) == 0) return k;
    }
    experiment_fault(f->e, node, "this is none of the names under `fits`");
    return 0;
}

static void read_entries(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count;
    const nsi_yaml_node* n = experiment_list(e, root, "fits", true, &count);
    f->entries = experiment_zeros(e, (count + 1) * sizeof *f->entries);
    for (; n && e->status == NS_OK; n = n->next) {
        entry* x = &f->entries[f->nentry];
        experiment_check_map(e, n, "a fit", "name file label");
        experiment_text(e, n, "name", true, &x->name);
        experiment_text(e, n, "file", true, &x->file);
        experiment_text(e, n, "label", false, &x->label);
        if (!x->label) x->label = x->name;
        if (x->name &&
            strspn(x->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(x->name)) {
            experiment_fault(e, n, "a name is made of a-z, 0-9 and _: it becomes that of a folder");
        }
        f->nentry++;
    }
}

static void read_references(fits* f, const nsi_yaml_node* root) {
    experiment* e = f->e;
    uint32_t count, others;
    const nsi_yaml_node* n = experiment_list(e, root, "references", false, &count);
    f->references = experiment_zeros(e, (count + 1) * sizeof *f->references);
    for (; n && e->status == NS_OK; n = n->next) {
        reference* r = &f->references[f->nreference++];
        r->role = NSI_ROLE_TEST;
        experiment_check_map(e, n, "a reference", "name on horizons pooled median");
        experiment_text(e, n, "name", true, &r->name);
        if (e->status == NS_OK) {
            e->status = nsi_yaml_choice(&e->yaml, nsi_yaml_find(n, "on"), "train validation test",
                                        &r->role, &e->error);
        }
        r->horizons = experiment_numbers(e, nsi_yaml_find(n, "horizons"), &r->nhorizon);
        r->pooled = experiment_numbers(e, nsi_yaml_find(n, "pooled"), &others);
        bool fits_in = !r->pooled || others == r->nhorizon;
        r->median = experiment_numbers(e, nsi_yaml_find(n, "median"), &others);
        fits_in = fits_in && (!r->median || others == r->nhorizon);
        if (!r->horizons || !fits_in) {
            experiment_fault(e, n, "expected horizons, and as many numbers in pooled and median");
        }
    }
}

// Which of the fits are run: all, or the quick ones.
static void choose(fits* f, const nsi_yaml_node* root, bool* chosen) {
    experiment* e = f->e;
    uint32_t count;
    const nsi_yaml_node* quick = experiment_list(e, root, "quick", false, &count);
    if (!chosen) return;
    for (uint32_t k = 0; k < f->nentry; k++) chosen[k] = !e->quick || count == 0;
    for (; quick && e->status == NS_OK; quick = quick->next) chosen[find_entry(f, quick)] = true;
}

static bool* read_fits(fits* f) {
    experiment* e = f->e;
    const nsi_yaml_node* root = e->yaml.root;
    experiment_check_map(e, root, "an experiment of fits",
                         EXPERIMENT_KEYS "data fits main before quick references");
    experiment_text(e, root, "data", true, &f->data);
    read_entries(f, root);
    read_references(f, root);
    bool* chosen = experiment_zeros(e, f->nentry + 1);
    choose(f, root, chosen);
    const nsi_yaml_node *main = nsi_yaml_find(root, "main"),
                        *before = nsi_yaml_find(root, "before");
    f->main = main ? find_entry(f, main) : f->nentry - 1;
    f->before_label = "before, start values";
    experiment_check_map(e, before, "before", "fit label");
    experiment_text(e, before, "label", false, &f->before_label);
    const nsi_yaml_node* of = e->status == NS_OK && before ? nsi_yaml_find(before, "fit") : NULL;
    f->before = of ? find_entry(f, of) : 0;
    if (e->status != NS_OK) return NULL;
    // Of those that are run the last stands for the main one, and the first for the start.
    uint32_t first = NSI_NONE, last = 0;
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (!chosen[k]) continue;
        if (first == NSI_NONE) first = k;
        last = k;
    }
    if (!chosen[f->main]) f->main = last;
    if (!chosen[f->before]) f->before = first;
    return chosen;
}

// Said before anything is run, and with where the data comes from: nobody has it by default.
static bool has_data(fits* f) {
    experiment* e = f->e;
    const char* named = getenv("NEURALSIM_DATA");
    const char* roots[] = {e->folder, named ? named : "", "../shared/data"};
    for (int k = 0; k < 3; k++) {
        if (*roots[k] && cli_is_folder(experiment_path(e, roots[k], f->data))) return true;
    }
    cli_fail("%s needs recordings in a folder %s, which is neither in %s%s%s nor in %s nor in"
             " ../shared/data; get them from %s and set NEURALSIM_DATA to the folder that holds %s",
             e->name, f->data, named ? "$NEURALSIM_DATA (" : "$NEURALSIM_DATA", named ? named : "",
             named ? ")" : " (not set)", e->folder, e->source ? e->source : "their authors",
             f->data);
    return false;
}

// ---- running -----------------------------------------------------------------------------------

static bool watch(void* context, const ns_fit_progress* p) {
    double share = p->iterations > 0 ? (double)p->iteration / p->iterations : 0.0;
    cli_progress_update(context, p->number + fmin(share, 1.0), p->count);
    return false;
}

static bool run_entry(fits* f, entry* x) {
    experiment* e = f->e;
    ns_error error;
    const char *path = experiment_path(e, e->folder, x->file),
               *folder = experiment_path(e, e->output, x->name);
    if (!path || !folder) return experiment_complain(e) == EXIT_OK;
    cli_progress progress = cli_progress_start(x->name);
    ns_fit_options options = {.observe = watch, .context = &progress};
    ns_status status = ns_fit_load(path, e->threads, &x->fit, &error);
    if (status == NS_OK) status = ns_fit_run(x->fit, &options, &error);
    cli_progress_end(&progress);
    if (status == NS_OK) status = ns_fit_save(x->fit, folder, &error);
    if (status != NS_OK) cli_fail("%s: %s", x->name, error.message);
    return status == NS_OK;
}

// ---- the table ---------------------------------------------------------------------------------

typedef struct row {
    const char *label, *folder; // folder: of the report, or NULL
    const nsi_score* score;     // or
    const reference* reference; //
    double seconds;             // NaN: not run here
} row;

// Error at a horizon; NaN where there is none.
static nsi_horizon_error error_of(const nsi_score* score, const reference* r, double seconds) {
    nsi_horizon_error out = {.seconds = seconds, .pooled = NAN, .median = NAN};
    for (uint32_t k = 0; score && k < score->nhorizon; k++) {
        if (fabs(score->horizons[k].seconds - seconds) < 1e-9) out = score->horizons[k];
    }
    for (uint32_t k = 0; r && k < r->nhorizon; k++) {
        if (fabs(r->horizons[k] - seconds) >= 1e-9) continue;
        if (r->pooled) out.pooled = r->pooled[k];
        if (r->median) out.median = r->median[k];
    }
    return out;
}

typedef struct cell_text {
    char text[80];
} cell_text;

// "pooled (median)"; the numbers of others with the digits they have.
static cell_text show_cell(const row* r, double seconds) {
    nsi_horizon_error h = error_of(r->score, r->reference, seconds);
    cell_text out = {"-"};
    if (isnan(h.median) && isnan(h.pooled)) return out;
    nsi_shown (*show)(double, int) = r->reference ? nsi_show_short : nsi_show;
    snprintf(out.text, sizeof out.text, isnan(h.median) ? "%s" : "%s (%s)", show(h.pooled, 3).text,
             show(h.median, 3).text);
    return out;
}

static const nsi_answer* answer_of(const fits* f, uint32_t k) {
    return &f->entries[k].fit->answer;
}

// `rows` has room for all; 0 when there is no such data.
static uint32_t make_rows(const fits* f, nsi_role role, row* rows) {
    uint32_t count = 0;
    if (answer_of(f, f->main)->after[role].windows == 0) return 0;
    for (uint32_t k = 0; k < f->nreference; k++) {
        const reference* r = &f->references[k];
        if (r->role == (int)role) rows[count++] = (row){r->name, NULL, NULL, r, NAN};
    }
    rows[count++] = (row){f->before_label, NULL, &answer_of(f, f->before)->before[role], NULL, NAN};
    for (uint32_t k = 0; k < f->nentry; k++) {
        const entry* x = &f->entries[k];
        if (!x->fit) continue;
        rows[count++] =
            (row){x->label, x->name, &x->fit->answer.after[role], NULL, x->fit->answer.seconds};
    }
    return count;
}

static const nsi_fit_plan* plan_of(const fits* f) {
    return f->entries[f->main].fit->plan;
}

static void print_role(const fits* f, nsi_role role, row* rows) {
    uint32_t count = make_rows(f, role, rows), nhorizon = plan_of(f)->horizons.count;
    const double* horizons = plan_of(f)->horizons.data;
    if (count == 0) return;
    int width = 10;
    for (uint32_t k = 0; k < count; k++) {
        if ((int)strlen(rows[k].label) > width) width = (int)strlen(rows[k].label);
    }
    printf("\n%-*s", width, nsi_show_role(role));
    for (uint32_t h = 0; h < nhorizon; h++) {
        char heading[40];
        snprintf(heading, sizeof heading, "%s s", nsi_show_short(horizons[h], 6).text);
        printf(" %17s", heading);
    }
    printf("     time\n");
    for (uint32_t k = 0; k < count; k++) {
        printf("%-*s", width, rows[k].label);
        for (uint32_t h = 0; h < nhorizon; h++) {
            printf(" %17s", show_cell(&rows[k], horizons[h]).text);
        }
        if (!isnan(rows[k].seconds)) printf(" %6s s", nsi_show(rows[k].seconds, 2).text);
        printf("\n");
    }
}

static void print_all(const fits* f, row* rows) {
    const experiment* e = f->e;
    printf("%s\nerror of all windows up to a horizon (of the median window)\n", e->title);
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++) print_role(f, roles[k], rows);
    printf("\n");
    for (const nsi_yaml_node* n = e->remarks ? e->remarks->first : NULL; n; n = n->next) {
        printf("- %s\n", n->text);
    }
    printf("\n%s s in all\nmodel   %s/fitted.yaml (%s)\npage    %s/report.html\n",
           nsi_show(nsi_clock_wall() - e->began, 3).text, e->output, f->entries[f->main].name,
           e->output);
}

static void add_role(const fits* f, nsi_role role, row* rows, nsi_text_builder* page) {
    uint32_t count = make_rows(f, role, rows), nhorizon = plan_of(f)->horizons.count;
    const double* horizons = plan_of(f)->horizons.data;
    if (count == 0) return;
    nsi_text_add(page, "<h2>Error on %s data</h2>\n", nsi_show_role(role));
    char headings[1000] = "<";
    for (uint32_t h = 0; h < nhorizon; h++) {
        size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, "|%s s",
                 nsi_show_short(horizons[h], 6).text);
    }
    strncat(headings, "|seconds", sizeof headings - strlen(headings) - 1);
    nsi_page_open_table(page, headings);
    for (uint32_t k = 0; k < count; k++) {
        nsi_text_add(page, "<tr><td class=\"l\">");
        if (rows[k].folder) nsi_text_add(page, "<a href=\"%s/report.html\">", rows[k].folder);
        nsi_page_text(page, rows[k].label);
        nsi_text_add(page, "%s</td>", rows[k].folder ? "</a>" : "");
        for (uint32_t h = 0; h < nhorizon; h++) {
            nsi_page_cell(page, "", show_cell(&rows[k], horizons[h]).text);
        }
        nsi_page_cell(page, "", isnan(rows[k].seconds) ? "" : nsi_show(rows[k].seconds, 3).text);
        nsi_text_add(page, "</tr>\n");
    }
    nsi_page_close_table(page);
}

// ---- numbers -----------------------------------------------------------------------------------

static void add_metric(nsi_json* j, const char* who, const char* what, double seconds,
                       double value) {
    char key[200];
    snprintf(key, sizeof key, "%s_%s_%ss", who, what, nsi_show_short(seconds, 6).text);
    nsi_json_number(j, key, value);
}

static void add_scores(nsi_json* j, const char* who, const nsi_score scores[NSI_ROLES]) {
    for (size_t r = 0; r < sizeof roles / sizeof *roles; r++) {
        const nsi_score* score = &scores[roles[r]];
        for (uint32_t h = 0; h < score->nhorizon; h++) {
            char what[40];
            snprintf(what, sizeof what, "%s_median", nsi_show_role(roles[r]));
            add_metric(j, who, what, score->horizons[h].seconds, score->horizons[h].median);
            snprintf(what, sizeof what, "%s_pooled", nsi_show_role(roles[r]));
            add_metric(j, who, what, score->horizons[h].seconds, score->horizons[h].pooled);
        }
    }
}

static void add_metrics(nsi_json* j, const fits* f) {
    const nsi_score* before = answer_of(f, f->before)->before;
    nsi_json_open(j, "metrics", '{');
    add_scores(j, "before", before);
    for (uint32_t k = 0; k < f->nentry; k++) {
        const entry* x = &f->entries[k];
        if (!x->fit) continue;
        char key[200];
        const nsi_answer* answer = &x->fit->answer;
        add_scores(j, x->name, answer->after);
        const nsi_score* after = &answer->after[NSI_ROLE_TEST];
        for (uint32_t h = 0; h < after->nhorizon; h++) {
            double seconds = after->horizons[h].seconds;
            add_metric(j, x->name, "gain", seconds,
                       error_of(&before[NSI_ROLE_TEST], NULL, seconds).pooled /
                           after->horizons[h].pooled);
        }
        snprintf(key, sizeof key, "%s_seconds", x->name);
        nsi_json_number(j, key, answer->seconds);
    }
    nsi_json_close(j);
}

static bool add_fits(nsi_json* j, const fits* f) {
    nsi_json_open(j, "fits", '{');
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (!f->entries[k].fit) continue;
        ns_text text = {0};
        ns_error error;
        if (ns_fit_json(f->entries[k].fit, &text, &error) != NS_OK) {
            cli_fail("%s", error.message);
            return false;
        }
        size_t size = text.size;
        while (size > 0 && text.data[size - 1] == '\n') size--;
        nsi_json_value(j, f->entries[k].name, text.data, size);
        ns_text_free(&text);
    }
    nsi_json_close(j);
    return true;
}

static int report(fits* f) {
    experiment* e = f->e;
    row* rows = experiment_zeros(e, (f->nreference + f->nentry + 1) * sizeof *rows);
    if (!rows) return experiment_complain(e);
    if (!e->json) print_all(f, rows);
    nsi_text_builder page = {.allocator = ns_default_allocator()};
    experiment_open_page(e, &page);
    nsi_text_add(&page,
                 "<p class=\"faint\">Of all windows up to a horizon, in brackets of the median "
                 "window. Names lead to the reports of the fits.</p>\n");
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++) add_role(f, roles[k], rows, &page);
    experiment_close_page(e, &page);
    nsi_json j = experiment_begin_json(e, plan_of(f)->seed);
    add_metrics(&j, f);
    bool done = add_fits(&j, f);
    int code = experiment_finish(e, &j, &page);
    return done ? code : EXIT_FAILED;
}

static int run_all(fits* f, const bool* chosen) {
    experiment* e = f->e;
    if (!has_data(f) || !experiment_make_folder(e->output)) return EXIT_FAILED;
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (chosen[k] && !run_entry(f, &f->entries[k])) return EXIT_FAILED;
    }
    ns_error error;
    if (ns_fit_save(f->entries[f->main].fit, e->output, &error) != NS_OK) {
        return cli_fail("%s", error.message);
    }
    return report(f);
}

int experiment_run_fits(experiment* e) {
    fits f = {.e = e};
    const bool* chosen = read_fits(&f);
    int code = chosen ? run_all(&f, chosen) : experiment_complain(e);
    for (uint32_t k = 0; k < f.nentry; k++) ns_fit_free(f.entries[k].fit);
    return code;
}
