// The report of a study of fits: a table of errors for each group and kind of data, beside the errors of
// others, and what is known of the truth.

#include "fit/result_words.h"
#include "study/study_fits.h"

#include <math.h>
#include <stdio.h>

// ---- rows --------------------------------------------------------------------------------------

typedef struct study_row {
    const char *label, *folder;       // folder: of the report, or NULL
    const study_entry* entry;         // or
    const study_reference* reference; //
    bool after;
} study_row;

// What data of a role is called.
static const char* row_data_name(const study_entry* x, ns_data_role role) {
    return nsi_study_is_folded(x, role) ? "left-out" : nsi_role_name(role);
}

// Scores of the headline of a group, whose measures name columns.
static const ns_score* row_scores(const study_fits* f, uint32_t group, ns_data_role role) {
    const study_entry* headline = &f->entries[f->groups[group].headline];
    return nsi_study_example(headline, headline->ncount - 1, true, role);
}

// Nothing was fitted: its end is its start.
static bool row_is_only_scored(const study_entry* x) {
    return nsi_study_runs(x)->result.history.count == 0;
}

// References, the baseline, and the fits that are run. `rows` has room for all; 0: there is no such data.
static uint32_t row_list(const study_fits* f, uint32_t group, ns_data_role role, study_row* rows) {
    uint32_t count = 0;
    const study_group* g = &f->groups[group];

    // No rows if the recordings are missing, were not scored, or were not trained on.
    if (g->missing || g->headline == NSI_NONE) return 0;
    if (row_scores(f, group, role)->windows == 0) return 0;
    if (role == NS_ROLE_TRAIN && row_is_only_scored(&f->entries[g->headline])) return 0;

    // Published results of others come first.
    for (uint32_t k = 0; k < f->nreference; k++) {
        const study_reference* r = &f->references[k];
        if (r->group == group && r->role == (int)role) {
            rows[count++] = (study_row){.label = r->name, .reference = r};
        }
    }

    // Then the baseline: the initial model, or a fit of its own if that is only scored.
    const study_entry* baseline = &f->entries[g->baseline];
    rows[count++] = (study_row){.label = g->baseline_label,
                                .folder = row_is_only_scored(baseline) ? baseline->name : NULL,
                                .entry = baseline};

    // Then all selected fits of the group.
    for (uint32_t k = 0; k < f->nentry; k++) {
        const study_entry* x = &f->entries[k];
        // The baseline is not listed twice.
        if (x->group != group || !x->chosen || (x == baseline && row_is_only_scored(x))) continue;
        rows[count++] =
            (study_row){.label = x->full_label, .folder = x->name, .entry = x, .after = true};
    }
    return count;
}

// ---- cells -------------------------------------------------------------------------------------

typedef struct study_text {
    char text[100];
} study_text;

static double cell_score(const study_row* r, ns_data_role role, study_quantity what) {
    if (!r->entry) return NAN;
    return nsi_study_score(r->entry, r->entry->ncount - 1, r->after, role, what).median;
}

// "pooled (median)"; the numbers of others with the digits they have.
static study_text cell_horizon(const study_row* r, ns_data_role role, double seconds) {
    double pooled = cell_score(r, role, (study_quantity){STUDY_POOLED, seconds, NULL});
    double median = cell_score(r, role, (study_quantity){STUDY_MEDIAN, seconds, NULL});
    const study_reference* other = r->reference;
    for (uint32_t k = 0; other && k < other->horizons.count; k++) {
        if (fabs(other->horizons.data[k] - seconds) >= 1e-9) continue;
        if (other->pooled.count > 0) pooled = other->pooled.data[k];
        if (other->median.count > 0) median = other->median.data[k];
    }

    study_text out = {"-"};
    if (isnan(median) && isnan(pooled)) return out;
    nsi_formatted (*show)(double, int) = other ? nsi_format_short : nsi_format;
    snprintf(out.text, sizeof out.text, isnan(median) ? "%s" : "%s (%s)", show(pooled, 3).text,
             show(median, 3).text);
    return out;
}

// What seeds, or folds, do to the error at the longest horizon or to the first measure; or nothing.
static study_text cell_range(const study_row* r, ns_data_role role) {
    study_text out = {""};
    const study_entry* x = r->entry;
    if (!x || !r->after) return out;
    uint32_t runs = nsi_study_is_folded(x, role) ? x->nrun - 1 : x->seeds;
    const ns_score* score = nsi_study_example(x, x->ncount - 1, true, role);
    if (runs == 1 || (x->nhorizon == 0 && score->nmetric == 0)) return out;

    study_quantity what = {.kind = STUDY_MEASURE,
                           .name = score->nmetric > 0 ? score->metrics[0].name : NULL};
    if (x->nhorizon > 0) what = (study_quantity){STUDY_POOLED, x->horizons[x->nhorizon - 1], NULL};
    study_spread spread = nsi_study_score(x, x->ncount - 1, true, role, what);
    if (isnan(spread.median)) return out; // nothing of this role is so long
    snprintf(out.text, sizeof out.text, "%u: %s to %s", runs, nsi_format(spread.least, 3).text,
             nsi_format(spread.most, 3).text);
    return out;
}

static ns_cell cell_number(double value) {
    return isnan(value) ? ns_cell_missing() : ns_cell_number(value);
}

static ns_cell cell_measure(const ns_study* s, const study_row* r, ns_data_role role,
                            const char* name) {
    double value = cell_score(r, role, (study_quantity){.kind = STUDY_MEASURE, .name = name});
    const nsi_yaml_node* others = r->reference ? r->reference->measures : NULL;
    const nsi_yaml_node* known = others ? nsi_yaml_find(others, name) : NULL;
    nsi_yaml_number(&s->yaml, known, 0.0, 1e300, &value, NULL); // was checked
    return cell_number(value);
}

static double cell_velocity(const study_row* r, ns_data_role role) {
    return cell_score(r, role, (study_quantity){.kind = STUDY_RMSE_QD});
}

static double cell_seconds(const study_row* r) {
    if (!r->entry || !r->after) return NAN;
    return nsi_study_seconds(r->entry, r->entry->ncount - 1).median;
}

// ---- tables ------------------------------------------------------------------------------------

// A table of errors: which columns there are.
typedef struct study_errors {
    const study_fits* f;
    ns_data_role role;
    const study_entry* headline;
    const ns_score* measured;
    bool velocity, range;
} study_errors;

static uint32_t errors_add_columns(const study_errors* e, ns_report* report,
                                   ns_report_column* columns) {
    uint32_t n = 0;
    columns[n++] = (ns_report_column){.name = "fit"};
    for (uint32_t h = 0; h < e->headline->nhorizon; h++) {
        nsi_formatted seconds = nsi_format_short(e->headline->horizons[h], 6);
        char* name = ns_report_alloc(report, sizeof seconds.text + 2, 1);
        if (name) snprintf(name, sizeof seconds.text + 2, "%s s", seconds.text);
        columns[n++] = (ns_report_column){.name = name, .align = NS_ALIGN_RIGHT};
    }
    for (uint32_t m = 0; m < e->measured->nmetric; m++) {
        columns[n++] = (ns_report_column){.name = e->measured->metrics[m].name,
                                          .unit = e->measured->metrics[m].unit,
                                          .format = NS_FORMAT_NUMBER};
    }
    if (e->velocity) columns[n++] = (ns_report_column){.name = "qd", .format = NS_FORMAT_NUMBER};
    columns[n++] =
        (ns_report_column){.name = "time", .unit = "s", .format = NS_FORMAT_NUMBER, .digits = 2};
    if (e->range) columns[n++] = (ns_report_column){.name = "range of runs"};
    return n;
}

static void errors_add_row(const study_errors* e, const study_row* r, ns_report* report,
                           ns_report_table* table, ns_cell* cells) {
    uint32_t n = 0;
    char link[200];
    snprintf(link, sizeof link, "%.150s/report.html", r->folder ? r->folder : "");
    cells[n++] = r->folder ? ns_cell_link(r->label, link) : ns_cell_text(r->label);
    for (uint32_t h = 0; h < e->headline->nhorizon; h++) {
        study_text* text = ns_report_alloc(report, 1, sizeof *text);
        if (text) *text = cell_horizon(r, e->role, e->headline->horizons[h]);
        cells[n++] = ns_cell_text(text ? text->text : NULL);
    }
    for (uint32_t m = 0; m < e->measured->nmetric; m++) {
        cells[n++] = cell_measure(e->f->study, r, e->role, e->measured->metrics[m].name);
    }
    if (e->velocity) cells[n++] = cell_number(cell_velocity(r, e->role));
    cells[n++] = cell_number(cell_seconds(r));
    study_text range = cell_range(r, e->role);
    if (e->range) cells[n++] = ns_cell_text(range.text);
    ns_report_table_add_row(table, cells, n);
}

static void errors_add_table(const study_fits* f, uint32_t group, ns_data_role role,
                             study_row* rows, ns_section* section) {
    // No table for data that was not scored.
    uint32_t count = row_list(f, group, role, rows);
    if (count == 0 || !section) return;
    study_errors e = {.f = f,
                      .role = role,
                      .headline = &f->entries[f->groups[group].headline],
                      .measured = row_scores(f, group, role)};

    // Leave out columns that would be empty.
    for (uint32_t k = 0; k < count; k++) {
        e.velocity |= !isnan(cell_velocity(&rows[k], role));
        e.range |= *cell_range(&rows[k], role).text != '\0';
    }

    // Upper bound of the columns: name, horizons, metrics, velocity, time, range.
    ns_report* report = section->report;
    uint32_t most = e.headline->nhorizon + e.measured->nmetric + 4;
    ns_report_column* columns = ns_report_alloc(report, most, sizeof *columns);
    ns_cell* cells = ns_report_alloc(report, most, sizeof *cells);
    if (!columns || !cells) return;

    // With several groups, the name of the table includes the group.
    const char* of = f->groups[group].name;
    char name[200], title[100];
    snprintf(name, sizeof name, "%.100s%serrors_%s", of, *of ? "_" : "", nsi_role_name(role));
    // The title names the data set.
    snprintf(title, sizeof title, "Error on %s data", row_data_name(e.headline, role));

    // Fill the table row by row, reusing one array of cells.
    uint32_t ncolumn = errors_add_columns(&e, report, columns);
    ns_report_table* table = ns_section_add_table(section, name, title, columns, ncolumn);
    for (uint32_t k = 0; k < count; k++) errors_add_row(&e, &rows[k], report, table, cells);
}

// ---- report ------------------------------------------------------------------------------------

// What is known of the truth, of the fits of a group.
static void report_add_truth(const study_fits* f, uint32_t group, ns_section* section) {
    for (uint32_t k = 0; k < f->nentry; k++) {
        const study_entry* x = &f->entries[k];
        if (!x->chosen || x->group != group || !(x->inputs || x->truth)) continue;
        char inputs[100] = "", truth[100] = "", seeds[100] = "";
        if (x->inputs) {
            snprintf(inputs, sizeof inputs, " exactly the right inputs in %u of %u seeds%s",
                     nsi_study_count_inputs(x), x->seeds, x->truth ? ";" : "");
        }
        if (x->truth) {
            study_spread off = nsi_study_truth_errors(f, x);
            snprintf(truth, sizeof truth, " at most %s %% from the truth",
                     nsi_format(100 * off.median, 2).text);
            if (x->seeds > 1) {
                snprintf(seeds, sizeof seeds, " (median of %u seeds; worst %s %%)", x->seeds,
                         nsi_format(100 * off.most, 2).text);
            }
        }
        nsi_section_add_notef(section, NS_NOTE_TEXT, "%s:%s%s%s.", x->label, inputs, truth, seeds);
    }
}

void nsi_study_report_fits(ns_study* s, ns_report* report) {
    const study_fits* f = s->fits;
    // Scratch for the rows of one table at a time.
    size_t most = (size_t)f->nreference + f->nentry + 1;
    study_row* rows = ns_report_alloc(report, most, sizeof *rows);
    if (!rows) return;

    // State which fits the files in the folder come from.
    ns_report_add_fact(report, "fitted.yaml", f->entries[f->headline].name);
    if (nsi_study_has_analytic(f)) {
        ns_report_add_fact(report, "analytic.yaml", f->entries[f->analytic].name);
    }

    // Explain the numbers once, ahead of all tables.
    ns_section_add_note(ns_report_add_section(report, NULL), NS_NOTE_TEXT,
                        "Errors of all windows up to a horizon, in brackets of the median window;"
                        " of the median seed where there are several. Names lead to the reports of"
                        " the fits.");

    // One section per group; groups without a selected fit are not shown.
    for (uint32_t g = 0; g < f->ngroup; g++) {
        const study_group* group = &f->groups[g];
        if (!group->missing && group->headline == NSI_NONE) continue;
        ns_section* section =
            ns_report_add_section(report, *group->title ? group->title : "Errors");
        // A group without recordings says so instead.
        if (group->missing) {
            ns_section_add_note(section, NS_NOTE_TEXT, "Left out: its recordings are missing.");
        }

        // One table per data set.
        for (size_t k = 0; k < STUDY_ROLES; k++) {
            errors_add_table(f, g, nsi_study_roles[k], rows, section);
        }

        // Identified parameters against their true values, if known.
        report_add_truth(f, g, section);
    }

    // Figures that the file defines.
    if (s->charts.list.count == 0) return;
    ns_section* figures = ns_report_add_section(report, "Figures");
    for (uint32_t k = 0; k < s->charts.list.count; k++) {
        nsi_study_show_figure(figures, &s->charts.list.data[k]);
    }
}
