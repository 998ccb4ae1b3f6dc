// Tables of an experiment of fits: errors of all of them beside those of others, in the terminal, on a
// page, and as numbers.

#include "cli.h"
#include "experiment_fits.h"
#include "fit/result_words.h"
#include "report/html.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// In the order in which they are shown.
static const ns_data_role roles[] = {NS_ROLE_TEST, NS_ROLE_VALIDATION, NS_ROLE_TRAIN};
enum { ROLES = sizeof roles / sizeof *roles };

// ---- numbers of runs ---------------------------------------------------------------------------

// What is asked of a score.
typedef struct quantity {
    enum { POOLED, MEDIAN, RMSE_Q, RMSE_QD, MEASURE } kind;
    double seconds;   // of the first two: the horizon
    const char* name; // of a measure
} quantity;

// NaN: there is no such thing.
static double number_of(const ns_score* score, quantity what) {
    if (score->windows == 0) return NAN; // no such data
    if (what.kind == RMSE_Q) return score->rmse_q;
    if (what.kind == RMSE_QD) return score->rmse_qd;
    for (uint32_t k = 0; what.kind == MEASURE && k < score->nmetric; k++) {
        if (strcmp(score->metrics[k].name, what.name) == 0) return score->metrics[k].mean;
    }
    for (uint32_t k = 0; what.kind != MEASURE && k < score->nhorizon; k++) {
        const ns_horizon_error* h = &score->horizons[k];
        if (fabs(h->seconds - what.seconds) >= 1e-9) continue;
        return what.kind == POOLED ? h->pooled : h->median;
    }
    return NAN;
}

// Scores of one run that say what there is: of the first seed, or the first fold.
static const ns_score* example(const fits_entry* x, uint32_t number, bool after, ns_data_role role) {
    uint32_t run = fits_is_folded(x, role) ? 1 : number * x->seeds;
    const nsi_result* a = &x->runs[run].answer;
    return after ? &a->after[role] : &a->before[role];
}

// What data of a role is called in a table.
static const char* role_name(const fits_entry* x, ns_data_role role) {
    return fits_is_folded(x, role) ? "left-out" : nsi_role_name(role);
}

// How much such a number counts in an average: the predictions, or samples, that it is of.
static double weight_of(const ns_score* score, quantity what) {
    for (uint32_t k = 0; what.kind == MEASURE && k < score->nmetric; k++) {
        if (strcmp(score->metrics[k].name, what.name) == 0) return score->metrics[k].windows;
    }
    for (uint32_t k = 0; what.kind == POOLED && k < score->nhorizon; k++) {
        const ns_horizon_error* h = &score->horizons[k];
        if (fabs(h->seconds - what.seconds) < 1e-9) return h->windows;
    }
    return (double)score->samples;
}

// Of all that folds leave out: measures and squares are averaged over predictions.
static fits_spread spread_of_folds(const fits_entry* x, bool after, quantity what) {
    double values[FITS_MOST_SEEDS] = {0}, sum = 0.0, count = 0.0;
    bool squares = what.kind != MEASURE && what.kind != MEDIAN;
    uint32_t folds = 0; // in which there is something
    for (uint32_t k = 1; k < x->nrun; k++) {
        const nsi_result* a = &x->runs[k].answer;
        const ns_score* score = after ? &a->after[NS_ROLE_TEST] : &a->before[NS_ROLE_TEST];
        double value = number_of(score, what), weight = weight_of(score, what);
        if (isnan(value)) continue;
        values[folds++] = value;
        sum += weight * (squares ? value * value : value);
        count += weight;
    }
    fits_spread out = fits_spread_of(values, folds);
    if (folds == 0) return out;
    if (what.kind != MEDIAN) out.median = squares ? sqrt(sum / count) : sum / count;
    return out;
}

// Over the seeds of an entry, after the fit or before it, with the number-th count of trajectories.
static fits_spread spread(const fits_entry* x, uint32_t number, bool after, ns_data_role role,
                          quantity what) {
    double values[FITS_MOST_SEEDS];
    const fits_run* runs = x->runs + (size_t)number * x->seeds;
    if (fits_is_folded(x, role)) return spread_of_folds(x, after, what);
    for (uint32_t k = 0; k < x->seeds; k++) {
        const nsi_result* a = &runs[k].answer;
        values[k] = number_of(after ? &a->after[role] : &a->before[role], what);
    }
    return fits_spread_of(values, x->seeds);
}

double fits_measure(const fits_entry* x, ns_data_role role, const char* name) {
    return spread(x, x->ncount - 1, true, role, (quantity){.kind = MEASURE, .name = name}).median;
}

static fits_spread seconds_of(const fits_entry* x, uint32_t number) {
    double values[FITS_MOST_SEEDS];
    const fits_run* runs = x->runs + (size_t)number * x->seeds;
    for (uint32_t k = 0; k < x->seeds; k++) values[k] = runs[k].answer.seconds;
    return fits_spread_of(values, x->seeds);
}

// Are exactly the expected inputs left at the end of a sparsity path?
static bool has_inputs(const fits_entry* x, const nsi_result* a) {
    if (a->path.count == 0) return false;
    const double* norms = a->path.data[a->path.count - 1].norms;
    uint32_t found = 0;
    for (uint32_t k = 0; k < a->path_names.count; k++) {
        bool expected = false;
        for (const nsi_yaml_node* n = x->inputs->first; n; n = n->next) {
            expected |= strcmp(n->text, a->path_names.data[k]) == 0;
        }
        if (expected != (norms[k] != 0.0)) return false;
        found += expected;
    }
    return found == x->inputs->count;
}

static uint32_t count_right_inputs(const fits_entry* x) {
    uint32_t right = 0;
    for (uint32_t k = 0; k < x->seeds; k++) right += has_inputs(x, &fits_runs(x)[k].answer);
    return right;
}

// A parameter, or "<set>/<coefficient>"; NaN: there is none of this name.
static double value_of(const nsi_result* a, const char* name) {
    for (uint32_t k = 0; k < a->estimates.count; k++) {
        if (strcmp(a->estimates.data[k].name, name) == 0) return a->estimates.data[k].value;
    }
    for (uint32_t k = 0; k < a->coefficients.count; k++) {
        const ns_fitted_coefficient* c = &a->coefficients.data[k];
        size_t length = strlen(c->set);
        if (strncmp(c->set, name, length) == 0 && name[length] == '/' &&
            strcmp(c->name, name + length + 1) == 0) {
            return c->value;
        }
    }
    return NAN;
}

// The largest relative error of what should have been found; NaN: there is nothing of such a name.
static double truth_error(fits* f, const fits_entry* x, const nsi_result* a) {
    double worst = 0.0;
    for (const nsi_yaml_node* n = x->truth->first; n; n = n->next) {
        double truth = NAN;
        experiment_number(f->e, x->truth, n->key, -1e300, 1e300, &truth);
        double off = fabs(value_of(a, n->key) - truth) / fmax(fabs(truth), 1e-300);
        if (isnan(off)) return NAN;
        worst = fmax(worst, off);
    }
    return worst;
}

// Names of the file that mean nothing, which would look like results that are missing.
static bool check_names(const fits* f) {
    for (uint32_t k = 0; k < f->nentry; k++) {
        const fits_entry* x = &f->entries[k];
        if (!x->chosen) continue;
        const nsi_result* a = &fits_runs(x)->answer;
        for (const nsi_yaml_node* n = x->truth ? x->truth->first : NULL; n; n = n->next) {
            if (!isnan(value_of(a, n->key))) continue;
            return cli_fail("%s has no parameter or coefficient %s", x->name, n->key), false;
        }
        for (const nsi_yaml_node* n = x->inputs ? x->inputs->first : NULL; n; n = n->next) {
            bool found = false;
            for (uint32_t i = 0; i < a->path_names.count; i++) {
                found |= strcmp(a->path_names.data[i], n->text) == 0;
            }
            if (!found) return cli_fail("the path of %s has no input %s", x->name, n->text), false;
        }
    }
    return true;
}

static fits_spread truth_errors(fits* f, const fits_entry* x) {
    double values[FITS_MOST_SEEDS];
    for (uint32_t k = 0; k < x->seeds; k++) {
        values[k] = truth_error(f, x, &fits_runs(x)[k].answer);
    }
    return fits_spread_of(values, x->seeds);
}

// ---- rows --------------------------------------------------------------------------------------

typedef struct row {
    const char *label, *folder;      // folder: of the report, or NULL
    const fits_entry* entry;         // or
    const fits_reference* reference; //
    bool after;
} row;

typedef struct cell_text {
    char text[100];
} cell_text;

// "pooled (median)"; the numbers of others with the digits they have.
static cell_text show_cell(const row* r, ns_data_role role, double seconds) {
    double pooled = NAN, median = NAN;
    const fits_reference* other = r->reference;
    if (r->entry) {
        uint32_t last = r->entry->ncount - 1;
        pooled = spread(r->entry, last, r->after, role, (quantity){POOLED, seconds, NULL}).median;
        median = spread(r->entry, last, r->after, role, (quantity){MEDIAN, seconds, NULL}).median;
    }
    for (uint32_t k = 0; other && k < other->horizons.count; k++) {
        if (fabs(other->horizons.data[k] - seconds) >= 1e-9) continue;
        if (other->pooled.count > 0) pooled = other->pooled.data[k];
        if (other->median.count > 0) median = other->median.data[k];
    }
    cell_text out = {"-"};
    if (isnan(median) && isnan(pooled)) return out;
    nsi_formatted (*show)(double, int) = other ? nsi_format_short : nsi_format;
    snprintf(out.text, sizeof out.text, isnan(median) ? "%s" : "%s (%s)", show(pooled, 3).text,
             show(median, 3).text);
    return out;
}

// What seeds, or folds, do to the error at the longest horizon or to the first measure; or nothing.
static cell_text show_seeds(const row* r, ns_data_role role) {
    cell_text out = {""};
    const fits_entry* x = r->entry;
    if (!x || !r->after) return out;
    uint32_t runs = fits_is_folded(x, role) ? x->nrun - 1 : x->seeds;
    const ns_score* score = example(x, x->ncount - 1, true, role);
    if (runs == 1 || (x->nhorizon == 0 && score->nmetric == 0)) return out;
    quantity what = {.kind = MEASURE, .name = score->nmetric > 0 ? score->metrics[0].name : NULL};
    if (x->nhorizon > 0) what = (quantity){POOLED, x->horizons[x->nhorizon - 1], NULL};
    fits_spread s = spread(x, x->ncount - 1, true, role, what);
    if (isnan(s.median)) return out; // nothing of this role is so long
    snprintf(out.text, sizeof out.text, "%u: %s to %s", runs, nsi_format(s.least, 3).text,
             nsi_format(s.most, 3).text);
    return out;
}

static cell_text show_number(double value, int digits) {
    cell_text out = {""};
    if (!isnan(value)) snprintf(out.text, sizeof out.text, "%s", nsi_format(value, digits).text);
    return out;
}

static cell_text show_quantity(const row* r, ns_data_role role, quantity what) {
    if (!r->entry) return (cell_text){""};
    return show_number(spread(r->entry, r->entry->ncount - 1, r->after, role, what).median, 3);
}

static cell_text show_velocity(const row* r, ns_data_role role) {
    return show_quantity(r, role, (quantity){.kind = RMSE_QD});
}

static cell_text show_measure(const row* r, ns_data_role role, const char* name) {
    const nsi_yaml_node* others = r->reference ? r->reference->metrics : NULL;
    for (const nsi_yaml_node* n = others ? others->first : NULL; n; n = n->next) {
        if (strcmp(n->key, name) == 0) return show_number(strtod(n->text, NULL), 3);
    }
    return show_quantity(r, role, (quantity){.kind = MEASURE, .name = name});
}

// Measures of the main fit of a case, whose names are those of columns.
static const ns_score* measures_of(const fits* f, uint32_t of, ns_data_role role) {
    const fits_entry* main = &f->entries[f->cases[of].main];
    return example(main, main->ncount - 1, true, role);
}

static cell_text show_seconds(const row* r) {
    if (!r->entry || !r->after) return (cell_text){""};
    return show_number(seconds_of(r->entry, r->entry->ncount - 1).median, 2);
}

// Nothing was fitted: its end is its start.
static bool is_only_scored(const fits_entry* x) {
    return fits_runs(x)->answer.history.count == 0;
}

// `rows` has room for all; 0 when there is no such data.
static uint32_t make_rows(const fits* f, uint32_t of, ns_data_role role, row* rows) {
    uint32_t count = 0;
    const fits_case* c = &f->cases[of];
    if (c->missing || c->main == NSI_NONE) return 0;
    if (measures_of(f, of, role)->windows == 0) return 0;
    if (role == NS_ROLE_TRAIN && is_only_scored(&f->entries[c->main])) return 0; // on nothing
    for (uint32_t k = 0; k < f->nreference; k++) {
        const fits_reference* r = &f->references[k];
        if (r->of == of && r->role == (int)role) {
            rows[count++] = (row){.label = r->name, .reference = r};
        }
    }
    const fits_entry* before = &f->entries[c->before];
    rows[count++] = (row){.label = c->before_label,
                          .folder = is_only_scored(before) ? before->name : NULL,
                          .entry = before};
    for (uint32_t k = 0; k < f->nentry; k++) {
        const fits_entry* x = &f->entries[k];
        if (x->of != of || !x->chosen || (x == before && is_only_scored(x))) continue;
        rows[count++] = (row){.label = x->full_label, .folder = x->name, .entry = x, .after = true};
    }
    return count;
}

// Is none of the fits of a case run, by choice?
static bool is_empty(const fits* f, uint32_t of) {
    return !f->cases[of].missing && f->cases[of].main == NSI_NONE;
}

static bool any(cell_text (*show)(const row*, ns_data_role), const row* rows, uint32_t count,
                ns_data_role role) {
    for (uint32_t k = 0; k < count; k++) {
        if (*show(&rows[k], role).text) return true;
    }
    return false;
}

// ---- in the terminal ---------------------------------------------------------------------------

static void print_role(const fits* f, uint32_t of, ns_data_role role, row* rows) {
    uint32_t count = make_rows(f, of, role, rows);
    if (count == 0) return;
    const fits_entry* main = &f->entries[f->cases[of].main];
    bool velocity = any(show_velocity, rows, count, role),
         seeds = any(show_seeds, rows, count, role);
    int width = 10;
    for (uint32_t k = 0; k < count; k++) {
        if ((int)strlen(rows[k].label) > width) width = (int)strlen(rows[k].label);
    }
    printf("\n%-*s", width, role_name(main, role));
    for (uint32_t h = 0; h < main->nhorizon; h++) {
        char heading[40];
        snprintf(heading, sizeof heading, "%s s", nsi_format_short(main->horizons[h], 6).text);
        printf(" %17s", heading);
    }
    const ns_score* measured = measures_of(f, of, role);
    for (uint32_t m = 0; m < measured->nmetric; m++) {
        printf(" %9.9s", measured->metrics[m].name);
    }
    if (velocity) printf(" %9s", "qd");
    printf("     time");
    if (seeds) printf("  runs, at the end");
    printf("\n");
    for (uint32_t k = 0; k < count; k++) {
        const row* r = &rows[k];
        printf("%-*s", width, r->label);
        for (uint32_t h = 0; h < main->nhorizon; h++) {
            printf(" %17s", show_cell(r, role, main->horizons[h]).text);
        }
        for (uint32_t m = 0; m < measured->nmetric; m++) {
            printf(" %9s", show_measure(r, role, measured->metrics[m].name).text);
        }
        if (velocity) printf(" %9s", show_velocity(r, role).text);
        cell_text time = show_seconds(r), spread_text = show_seeds(r, role);
        if (*time.text || *spread_text.text) printf(" %6s s", time.text);
        if (*spread_text.text) printf("  %s", spread_text.text);
        printf("\n");
    }
}

// What is known of the truth, of the fits of a case.
static void print_findings(fits* f, uint32_t of) {
    for (uint32_t k = 0; k < f->nentry; k++) {
        const fits_entry* x = &f->entries[k];
        if (!x->chosen || x->of != of || !(x->inputs || x->truth)) continue;
        printf("\n%s:", x->label);
        if (x->inputs) {
            printf(" exactly the right inputs in %u of %u seeds", count_right_inputs(x), x->seeds);
        }
        if (x->truth) {
            fits_spread off = truth_errors(f, x);
            printf("%s at most %s %% from the truth", x->inputs ? ";" : "",
                   nsi_format(100 * off.median, 2).text);
            if (x->seeds > 1) {
                printf(" (median of %u seeds; worst %s %%)", x->seeds,
                       nsi_format(100 * off.most, 2).text);
            }
        }
        printf("\n");
    }
}

static bool has_analytic(const fits* f) {
    return f->analytic != NSI_NONE && f->entries[f->analytic].chosen;
}

static void print_all(fits* f, row* rows) {
    const experiment* e = f->e;
    printf("%s\nerror of all windows up to a horizon (of the median window)\n", e->title);
    for (uint32_t c = 0; c < f->ncase; c++) {
        if (is_empty(f, c)) continue;
        if (*f->cases[c].title) printf("\n== %s\n", f->cases[c].title);
        if (f->cases[c].missing) printf("left out: its recordings are missing\n");
        for (size_t k = 0; k < ROLES; k++) print_role(f, c, roles[k], rows);
        print_findings(f, c);
    }
    printf("\n");
    for (uint32_t k = 0; k < e->notes.count; k++) printf("- %s\n", e->notes.data[k]);
    printf("\n%s s in all\nmodel   %s/fitted.yaml (%s)\npage    %s/report.html\n",
           nsi_format(nsi_clock_wall() - e->began, 3).text, e->output, f->entries[f->main].name,
           e->output);
    if (has_analytic(f))
        printf("        %s/analytic.yaml (%s)\n", e->output, f->entries[f->analytic].name);
}

// ---- on a page ---------------------------------------------------------------------------------

static void add_role(const fits* f, uint32_t of, ns_data_role role, row* rows, nsi_text_builder* page) {
    uint32_t count = make_rows(f, of, role, rows);
    if (count == 0) return;
    const fits_entry* main = &f->entries[f->cases[of].main];
    bool velocity = any(show_velocity, rows, count, role),
         seeds = any(show_seeds, rows, count, role);
    nsi_text_add(page, "<h%c>Error on %s data</h%c>\n", f->ncase > 1 ? '3' : '2',
                 role_name(main, role), f->ncase > 1 ? '3' : '2');
    const ns_score* measured = measures_of(f, of, role);
    nsi_html_open_table(page, "");
    nsi_text_add(page, "<tr><th></th>"); // names of measures are not ours
    for (uint32_t h = 0; h < main->nhorizon; h++) {
        nsi_text_add(page, "<th>%s s</th>", nsi_format_short(main->horizons[h], 6).text);
    }
    for (uint32_t m = 0; m < measured->nmetric; m++) {
        nsi_text_add(page, "<th>");
        nsi_html_text(page, measured->metrics[m].name);
        nsi_text_add(page, *measured->metrics[m].unit ? ", " : "");
        nsi_html_text(page, measured->metrics[m].unit);
        nsi_text_add(page, "</th>");
    }
    nsi_text_add(page, "%s<th>seconds</th>%s</tr>\n", velocity ? "<th>qd</th>" : "",
                 seeds ? "<th>range of runs</th>" : "");
    for (uint32_t k = 0; k < count; k++) {
        const row* r = &rows[k];
        nsi_text_add(page, "<tr><td class=\"l\">");
        if (r->folder) nsi_text_add(page, "<a href=\"%s/report.html\">", r->folder);
        nsi_html_text(page, r->label);
        nsi_text_add(page, "%s</td>", r->folder ? "</a>" : "");
        for (uint32_t h = 0; h < main->nhorizon; h++) {
            nsi_html_cell(page, "", show_cell(r, role, main->horizons[h]).text);
        }
        for (uint32_t m = 0; m < measured->nmetric; m++) {
            nsi_html_cell(page, "", show_measure(r, role, measured->metrics[m].name).text);
        }
        if (velocity) nsi_html_cell(page, "", show_velocity(r, role).text);
        nsi_html_cell(page, "", show_seconds(r).text);
        if (seeds) nsi_html_cell(page, "", show_seeds(r, role).text);
        nsi_text_add(page, "</tr>\n");
    }
    nsi_html_close_table(page);
}

static void add_findings(fits* f, uint32_t of, nsi_text_builder* page) {
    for (uint32_t k = 0; k < f->nentry; k++) {
        const fits_entry* x = &f->entries[k];
        if (!x->chosen || x->of != of || !(x->inputs || x->truth)) continue;
        nsi_text_add(page, "<p>");
        nsi_html_text(page, x->label);
        if (x->inputs) {
            nsi_text_add(page, ": exactly the right inputs in %u of %u seeds",
                         count_right_inputs(x), x->seeds);
        }
        if (x->truth) {
            fits_spread off = truth_errors(f, x);
            nsi_text_add(page, "%s at most %s %% from the truth", x->inputs ? ";" : ":",
                         nsi_format(100 * off.median, 2).text);
            if (x->seeds > 1) {
                nsi_text_add(page, " (median of %u seeds; worst %s %%)", x->seeds,
                             nsi_format(100 * off.most, 2).text);
            }
        }
        nsi_text_add(page, ".</p>\n");
    }
}

// Figures go into the page, and beside it as files.
static bool add_figures(const fits* f, nsi_text_builder* page) {
    for (uint32_t k = 0; k < f->charts.list.count; k++) {
        const ns_figure* chart = &f->charts.list.data[k];
        nsi_drawing figure = {0};
        ns_text text = {0};
        ns_error error;
        char name[80];
        ns_status status = nsi_figure_draw(chart, NULL, &figure, &error);
        if (status == NS_OK) status = nsi_drawing_file(&figure, &text, &error);
        bool done = status == NS_OK;
        if (!done) cli_fail("%s", error.message);
        if (done) {
            nsi_html_drawing(page, &figure);
            snprintf(name, sizeof name, "%s.svg", figure.name);
            done = experiment_write(f->e, name, &text);
            snprintf(name, sizeof name, "%s.csv", figure.name);
            done = done && experiment_write(f->e, name, &figure.csv);
        }
        ns_text_free(&text);
        nsi_drawing_free(&figure);
        if (!done) return false;
    }
    return true;
}

// ---- as numbers --------------------------------------------------------------------------------

// Keys of metrics: "<who>_<role>_<what>_<horizon>s".
static void add_metric(ns_json* j, const char* who, const char* what, double seconds,
                       double value) {
    char key[300];
    snprintf(key, sizeof key, isnan(seconds) ? "%.150s_%.110s" : "%.150s_%.110s_%ss", who, what,
             nsi_format_short(seconds, 6).text);
    ns_json_number(j, key, value);
}

static void add_scores(ns_json* j, const char* who, const fits_entry* x, uint32_t number,
                       bool after) {
    for (size_t r = 0; r < ROLES; r++) {
        const ns_score* score = example(x, number, after, roles[r]);
        char what[40];
        if (score->windows == 0) continue;
        for (uint32_t h = 0; h < score->nhorizon; h++) {
            double seconds = score->horizons[h].seconds;
            snprintf(what, sizeof what, "%s_median", nsi_role_name(roles[r]));
            add_metric(
                j, who, what, seconds,
                spread(x, number, after, roles[r], (quantity){MEDIAN, seconds, NULL}).median);
            snprintf(what, sizeof what, "%s_pooled", nsi_role_name(roles[r]));
            add_metric(
                j, who, what, seconds,
                spread(x, number, after, roles[r], (quantity){POOLED, seconds, NULL}).median);
        }
        for (uint32_t m = 0; m < score->nmetric; m++) {
            quantity measure = {.kind = MEASURE, .name = score->metrics[m].name};
            char named[200];
            snprintf(named, sizeof named, "%s_%.100s", nsi_role_name(roles[r]), measure.name);
            add_metric(j, who, named, NAN, spread(x, number, after, roles[r], measure).median);
        }
        snprintf(what, sizeof what, "%s_q", nsi_role_name(roles[r]));
        add_metric(j, who, what, NAN,
                   spread(x, number, after, roles[r], (quantity){.kind = RMSE_Q}).median);
        snprintf(what, sizeof what, "%s_qd", nsi_role_name(roles[r]));
        add_metric(j, who, what, NAN,
                   spread(x, number, after, roles[r], (quantity){.kind = RMSE_QD}).median);
    }
}

// How many times smaller an error on test data is than before.
static double gain_of(const fits* f, const fits_entry* x, uint32_t number, quantity what) {
    const fits_entry* before = &f->entries[f->cases[x->of].before];
    return spread(before, before->ncount - 1, false, NS_ROLE_TEST, what).median /
           spread(x, number, true, NS_ROLE_TEST, what).median;
}

static void add_gains(ns_json* j, const char* who, const fits* f, const fits_entry* x,
                      uint32_t number) {
    const ns_score* after = example(x, number, true, NS_ROLE_TEST);
    if (after->windows == 0) return;
    for (uint32_t h = 0; h < after->nhorizon; h++) {
        double seconds = after->horizons[h].seconds;
        add_metric(j, who, "gain", seconds,
                   gain_of(f, x, number, (quantity){POOLED, seconds, NULL}));
    }
    for (uint32_t m = 0; m < after->nmetric; m++) {
        quantity measure = {.kind = MEASURE, .name = after->metrics[m].name};
        char named[200];
        snprintf(named, sizeof named, "gain_%.100s", measure.name);
        add_metric(j, who, named, NAN, gain_of(f, x, number, measure));
    }
    add_metric(j, who, "gain_q", NAN, gain_of(f, x, number, (quantity){.kind = RMSE_Q}));
    add_metric(j, who, "gain_qd", NAN, gain_of(f, x, number, (quantity){.kind = RMSE_QD}));
}

static void add_metrics(ns_json* j, fits* f) {
    char who[200];
    ns_json_open(j, "metrics", '{');
    for (uint32_t c = 0; c < f->ncase; c++) {
        const fits_case* of = &f->cases[c];
        if (of->missing || of->main == NSI_NONE) continue;
        const fits_entry* before = &f->entries[of->before];
        snprintf(who, sizeof who, *of->name ? "%.100s_before" : "%.100sbefore", of->name);
        add_scores(j, who, before, before->ncount - 1, false);
    }
    for (uint32_t k = 0; k < f->nentry; k++) {
        const fits_entry* x = &f->entries[k];
        for (uint32_t n = 0; x->chosen && n < x->ncount; n++) {
            // The largest number of trajectories goes by the name alone, too.
            for (int named = 0; named < 2; named++) {
                if (named == 0 ? n + 1 < x->ncount : x->counts[n] == 0) continue;
                snprintf(who, sizeof who, named ? "%.100s_n%u" : "%.100s", x->name, x->counts[n]);
                add_scores(j, who, x, n, true);
                add_gains(j, who, f, x, n);
                add_metric(j, who, "seconds", NAN, seconds_of(x, n).median);
            }
        }
        if (!x->chosen) continue;
        if (x->inputs) add_metric(j, x->name, "right_inputs", NAN, count_right_inputs(x));
        if (x->truth) add_metric(j, x->name, "truth_error", NAN, truth_errors(f, x).median);
        if (x->truth) add_metric(j, x->name, "truth_error_worst", NAN, truth_errors(f, x).most);
    }
    ns_json_close(j);
}

// Each run by itself.
static void add_runs(ns_json* j, fits* f) {
    ns_json_open(j, "runs", '{');
    for (uint32_t k = 0; k < f->nentry; k++) {
        const fits_entry* x = &f->entries[k];
        if (!x->chosen || x->nrun == 1) continue;
        ns_json_open(j, x->name, '[');
        for (uint32_t run = 0; run < x->nrun; run++) {
            const nsi_result* a = &x->runs[run].answer;
            ns_json_open(j, NULL, '{');
            if (x->folds > 0) {
                if (run > 0) ns_json_count(j, "fold", run);
            } else if (x->counts[run / x->seeds] > 0) {
                ns_json_count(j, "trajectories", x->counts[run / x->seeds]);
            }
            ns_json_count(j, "seed", x->seed + (x->folds > 0 ? 0 : run % x->seeds));
            ns_json_number(j, "seconds", a->seconds);
            for (size_t r = 0; r < ROLES; r++) {
                if (a->after[roles[r]].windows == 0) continue;
                ns_json_open(j, nsi_role_name(roles[r]), '{');
                ns_json_number(j, "q", a->after[roles[r]].rmse_q);
                ns_json_number(j, "qd", a->after[roles[r]].rmse_qd);
                for (uint32_t h = 0; h < a->after[roles[r]].nhorizon; h++) {
                    const ns_horizon_error* e = &a->after[roles[r]].horizons[h];
                    add_metric(j, "pooled", "at", e->seconds, e->pooled);
                }
                for (uint32_t m = 0; m < a->after[roles[r]].nmetric; m++) {
                    const ns_metric_score* measured = &a->after[roles[r]].metrics[m];
                    ns_json_number(j, measured->name, measured->mean);
                }
                ns_json_close(j);
            }
            if (x->inputs) ns_json_bool(j, "right_inputs", has_inputs(x, a));
            if (x->truth) ns_json_number(j, "truth_error", truth_error(f, x, a));
            ns_json_close(j);
        }
        ns_json_close(j);
    }
    ns_json_close(j);
}

static bool add_fits(ns_json* j, const fits* f) {
    ns_json_open(j, "fits", '{');
    for (uint32_t k = 0; k < f->nentry; k++) {
        if (!f->entries[k].chosen) continue;
        ns_text text = {0};
        ns_error error;
        if (nsi_result_json(&fits_runs(&f->entries[k])->answer, &text, &error) != NS_OK) {
            cli_fail("%s", error.message);
            return false;
        }
        size_t size = text.size;
        while (size > 0 && text.data[size - 1] == '\n') size--;
        ns_json_value(j, f->entries[k].name, text.data, size);
        ns_text_free(&text);
    }
    ns_json_close(j);
    return true;
}

int fits_report(fits* f) {
    experiment* e = f->e;
    row* rows = experiment_zeros(e, (f->nreference + f->nentry + 1) * sizeof *rows);
    if (!rows) return experiment_complain(e);
    if (!e->json) print_all(f, rows);
    nsi_text_builder page = {.allocator = ns_default_allocator()};
    experiment_open_page(e, &page);
    nsi_text_add(&page,
                 "<p class=\"faint\">Of all windows up to a horizon, in brackets of the median "
                 "window; of the median seed where there are several. Names lead to the reports of "
                 "the fits.</p>\n");
    for (uint32_t c = 0; c < f->ncase; c++) {
        if (is_empty(f, c)) continue;
        if (*f->cases[c].title) nsi_html_element(&page, "h2", f->cases[c].title);
        if (f->cases[c].missing) {
            nsi_text_add(&page, "<p>Left out: its recordings are missing.</p>\n");
        }
        for (size_t k = 0; k < ROLES; k++) add_role(f, c, roles[k], rows, &page);
        add_findings(f, c, &page);
    }
    bool done = add_figures(f, &page);
    experiment_close_page(e, &page);
    ns_json* j = experiment_begin_json(e, f->entries[f->main].seed);
    ns_json_text(j, "main", f->entries[f->main].name);
    add_metrics(j, f);
    add_runs(j, f);
    done = add_fits(j, f) && done;
    int code = experiment_finish(e, j, &page);
    bool named = check_names(f); // said at the end: nothing is lost
    return done && named ? code : EXIT_FAILED;
}
