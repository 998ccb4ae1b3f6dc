// The report of a fit: its result as tables, notes, figures and motions.

#include "fit/fit_report.h"

#include "fit/data_warnings.h"
#include "fit/posterior_report.h"
#include "fit/prediction_traces.h"
#include "io/file.h"
#include "nn/binding.h"
#include "report/network_charts.h"
#include "report/start_map.h"

#include <math.h>
#include <stdio.h>

enum { MAX_NETWORKS = 6 };

// ---- parameters --------------------------------------------------------------------------------

static void report_parameters(ns_report* report, const nsi_result* a) {
    ns_section* section = ns_report_add_section(report, "Parameters");

    // One row per parameter, with a standard error where the covariance is known.
    const ns_report_column columns[] = {{.name = "parameter"},
                                        {.name = "unit"},
                                        {.name = "start", .format = NS_FORMAT_SETTING, .digits = 5},
                                        {.name = "estimate", .format = NS_FORMAT_ESTIMATE},
                                        {.name = "verdict"}};
    if (a->estimates.count > 0) {
        ns_report_table* table = ns_section_add_table(section, "parameters", NULL, columns, 5);
        for (uint32_t k = 0; k < a->estimates.count; k++) {
            const ns_estimate* e = &a->estimates.data[k];
            // NaN shows the estimate alone.
            double error = a->correlation ? e->standard_error : NAN;
            const ns_cell row[] = {
                ns_cell_text(e->name), ns_cell_text(e->unit), ns_cell_number(e->initial),
                ns_cell_estimate(e->value, error),
                ns_cell_verdict(nsi_result_verdict(a, k), e->verdict != NS_VERDICT_OK)};
            ns_report_table_add_row(table, row, 5);
        }
    }

    // What the estimates rest on.
    if (a->nweight > 0) {
        nsi_section_add_notef(section, NS_NOTE_TEXT, "%u weights of networks were fitted, too.",
                              a->nweight);
    }

    // All standard errors are proportional to the spread of the residuals.
    if (a->nresidual > 0) {
        nsi_section_add_notef(section, NS_NOTE_TEXT, "%u residuals of standard deviation %s, %s.",
                              a->nresidual, nsi_format(a->sigma, 3).text,
                              nsi_result_residual_unit(a));
    }

    // The same estimates as a figure with confidence intervals.
    nsi_section_show_figure(section, "parameters");
}

static void report_coefficients(ns_report* report, const nsi_result* a) {
    if (a->coefficients.count == 0) return;
    ns_section* section = ns_report_add_section(report, "Coefficients of formulas");
    const ns_report_column columns[] = {{.name = "formula"},
                                        {.name = "coefficient"},
                                        {.name = "start", .format = NS_FORMAT_SETTING, .digits = 5},
                                        {.name = "estimate", .format = NS_FORMAT_ESTIMATE}};
    ns_report_table* table = ns_section_add_table(section, "coefficients", NULL, columns, 4);
    for (uint32_t k = 0; k < a->coefficients.count; k++) {
        const ns_fitted_coefficient* c = &a->coefficients.data[k];
        const ns_cell row[] = {ns_cell_text(c->set), ns_cell_text(c->name),
                               ns_cell_number(c->initial),
                               ns_cell_estimate(c->value, c->standard_error)};
        ns_report_table_add_row(table, row, 4);
    }
}

// ---- prediction error --------------------------------------------------------------------------

// Before and after: pooled or mean, and median.
static void score_add_row(ns_report_table* table, ns_cell label, ns_cell windows,
                          const double values[4], uint32_t count) {
    ns_cell row[6] = {label, windows};
    for (uint32_t k = 0; k < count; k++) row[2 + k] = ns_cell_number(values[k]);
    ns_report_table_add_row(table, row, 2 + count);
}

static void score_add_horizons(ns_report_table* table, const ns_score* before,
                               const ns_score* after) {
    const ns_horizon_error none = {.pooled = NAN, .median = NAN};
    for (uint32_t k = 0; k < before->nhorizon || k < after->nhorizon; k++) {
        ns_horizon_error was = k < before->nhorizon ? before->horizons[k] : none;
        ns_horizon_error is = k < after->nhorizon ? after->horizons[k] : none;
        const ns_horizon_error* known = k < after->nhorizon ? &is : &was;
        char label[48];
        snprintf(label, sizeof label, "%s s", nsi_format_short(known->seconds, 3).text);
        score_add_row(table, ns_cell_text(label), ns_cell_number(known->windows),
                      (double[]){was.pooled, is.pooled, was.median, is.median}, 4);
    }
}

static void score_add_measures(ns_report_table* table, const ns_score* before,
                               const ns_score* after) {
    const ns_metric_score none = {.mean = NAN, .median = NAN};
    for (uint32_t k = 0; k < before->nmetric || k < after->nmetric; k++) {
        ns_metric_score was = k < before->nmetric ? before->metrics[k] : none;
        ns_metric_score is = k < after->nmetric ? after->metrics[k] : none;
        const ns_metric_score* known = k < after->nmetric ? &is : &was;
        char label[200];
        bool unit = known->unit && *known->unit;
        snprintf(label, sizeof label, "%.120s%s%.60s", known->name ? known->name : "",
                 unit ? ", " : "", unit ? known->unit : "");
        score_add_row(table, ns_cell_text(label), ns_cell_missing(),
                      (double[]){was.mean, is.mean, was.median, is.median}, 4);
    }
}

static void score_add_totals(ns_report_table* table, const ns_score* before,
                             const ns_score* after) {
    static const char* const labels[] = {"RMS residual / scale", "RMSE of q", "RMSE of qd"};
    const double was[] = {before->loss, before->rmse_q, before->rmse_qd};
    const double is[] = {after->loss, after->rmse_q, after->rmse_qd};
    for (int k = 0; k < 3; k++) {
        const double values[4] = {before->windows > 0 ? was[k] : NAN,
                                  after->windows > 0 ? is[k] : NAN};
        if (isnan(values[0]) && isnan(values[1])) continue;
        score_add_row(table, ns_cell_text(labels[k]), ns_cell_missing(), values, 2);
    }
}

static void report_scores(ns_report* report, const nsi_result* a) {
    const ns_report_column columns[] = {{.name = "horizon"},
                                        {.name = "windows", .format = NS_FORMAT_COUNT},
                                        {.name = "pooled, before", .format = NS_FORMAT_NUMBER},
                                        {.name = "after", .format = NS_FORMAT_NUMBER},
                                        {.name = "median, before", .format = NS_FORMAT_NUMBER},
                                        {.name = "after", .format = NS_FORMAT_NUMBER}};
    ns_section* section = NULL;

    // A table for each role that has data, its figure below.
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        const ns_score *before = &a->before[role], *after = &a->after[role];

        // A fit without test data has no such table.
        if (before->windows == 0 && after->windows == 0) continue;

        // The section exists only if some role has scores.
        if (!section) {
            section = ns_report_add_section(report, "Prediction error");
            ns_section_add_note(section, NS_NOTE_TEXT,
                                "Up to a horizon: RMSE pooled over all windows, and of the median "
                                "window. Of measures: mean and median over windows.");
        }

        // Table and figure have the same name.
        const char* name = nsi_role_name((ns_data_role)role);
        char table_name[40], title[80];
        snprintf(table_name, sizeof table_name, "errors_%s", name);
        snprintf(title, sizeof title, "%s data", name);
        ns_report_table* table = ns_section_add_table(section, table_name, title, columns, 6);

        // Rows of one table, so that before and after stand side by side.
        score_add_horizons(table, before, after);
        score_add_measures(table, before, after);
        score_add_totals(table, before, after);
        nsi_section_show_figure(section, table_name);
    }
}

// ---- course ------------------------------------------------------------------------------------

// A section for a figure, if there is such a figure.
static void report_figure(ns_report* report, const char* name, const char* title) {
    if (!ns_report_find_figure(report, name)) return;
    nsi_section_show_figure(ns_report_add_section(report, title), name);
}

static void report_phases(ns_report* report, const nsi_result* a) {
    if (a->phases.count == 0) return;
    ns_section* section = ns_report_add_section(report, "Phases");
    const ns_report_column columns[] = {{.name = "phase"},
                                        {.name = "iterations", .format = NS_FORMAT_COUNT},
                                        {.name = "evaluations", .format = NS_FORMAT_COUNT},
                                        {.name = "seconds", .format = NS_FORMAT_NUMBER},
                                        {.name = "loss", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "end"}};
    nsi_section_show_figure(section, "timing");
    ns_report_table* table = ns_section_add_table(section, "phases", NULL, columns, 6);
    for (uint32_t k = 0; k < a->phases.count; k++) {
        const ns_fit_phase* phase = &a->phases.data[k];
        const ns_cell row[] = {
            ns_cell_text(phase->name),          ns_cell_number(phase->iterations),
            ns_cell_number(phase->evaluations), ns_cell_number(phase->seconds),
            ns_cell_number(phase->value),       ns_cell_text(phase->finish)};
        ns_report_table_add_row(table, row, 6);
    }
    nsi_section_add_notef(section, NS_NOTE_TEXT, "%s s in all.", nsi_format(a->seconds, 3).text);
}

// ---- the report --------------------------------------------------------------------------------

// Network figures stand behind those of the result in the report's list.
static void report_networks(ns_report* report, uint32_t first) {
    if (ns_report_figure_count(report) <= first) return;
    ns_section* section = ns_report_add_section(report, "Networks");
    for (uint32_t k = first; k < ns_report_figure_count(report); k++) {
        nsi_section_show_figure(section, ns_report_figure(report, k)->name);
    }
}

static ns_status report_record(ns_report* report, const nsi_result* a, ns_error* error) {
    ns_text record = {0};
    ns_status status = nsi_result_json(a, &record, error);
    if (status == NS_OK) ns_report_set_record(report, record.data, record.size);
    ns_text_free(&record);
    return status;
}

ns_status nsi_result_report(const nsi_result* a, ns_motion* moves,
                            ns_status (*add_networks)(const void*, nsi_figures*, ns_error*),
                            const void* context, ns_report** out, ns_error* error) {
    // The report owns the motion from here on, also after a failure.
    ns_report* report = NULL;
    const char* title = a->title && *a->title ? a->title : "Fit";
    ns_status status = ns_report_create(title, &a->allocator, &report, error);
    if (status != NS_OK) ns_motion_free(moves);
    *out = report;
    if (status != NS_OK) return status;

    // What it is about, and the motion.
    ns_report_add_fact(report, "model", a->model);
    ns_report_add_fact(report, "data", a->treatment);
    ns_report_add_fact(report, "setting", a->setting);
    ns_report_add_fact(report, "citation", a->citation);
    if (moves) ns_section_add_motion(ns_report_add_section(report, NULL), moves);

    // Figures are made first: sections show them where they belong.
    status = nsi_result_add_figures(a, nsi_report_figures(report), error);
    if (status == NS_OK) {
        status = nsi_posterior_add_figures(a, nsi_report_figures(report), error);
    }

    // Charts of networks come after all others: they begin at this number.
    uint32_t networks = ns_report_figure_count(report);
    if (status == NS_OK && add_networks) {
        status = add_networks(context, nsi_report_figures(report), error);
    }

    // Sections in reading order: estimates, identifiability, prediction error, convergence.
    if (status == NS_OK) {
        nsi_data_warnings_report(a->data_warnings.data, a->data_warnings.count, report);
        report_parameters(report, a);
        report_coefficients(report, a);
        nsi_posterior_report(report, a);
        nsi_result_diagnose(a, report);
        report_figure(report, "correlation", "Correlation");
        report_scores(report, a);
        report_networks(report, networks);
        report_figure(report, "path", "Sparsity");
        report_figure(report, "loss", "Loss");
        report_phases(report, a);
        ns_section* notes = a->notes.count > 0 ? ns_report_add_section(report, "Notes") : NULL;
        for (uint32_t k = 0; k < a->notes.count; k++) {
            ns_section_add_note(notes, NS_NOTE_INFO, a->notes.data[k]);
        }
        status = report_record(report, a, error);
    }

    // Allocation failures inside the sections show up in this check.
    if (status == NS_OK) status = ns_report_check(report, error);
    if (status != NS_OK) {
        ns_report_free(report);
        *out = NULL;
    }
    return status;
}

// The record that a public result is a view of. Arrays are borrowed and only read.
static nsi_result record_of_view(const ns_fit_result* v) {
    ns_allocator memory = ns_default_allocator();

    // Scalars and texts are shared with the view.
    nsi_result a = {.allocator = memory,
                    .arena = {.allocator = memory},
                    .title = v->title,
                    .model = v->model,
                    .treatment = v->treatment,
                    .setting = v->setting,
                    .citation = v->citation,
                    .correlation = (double*)v->correlation,
                    .sigma = v->sigma,
                    .noise_known = v->noise_known,
                    .nresidual = v->nresidual,
                    .nweight = v->nweight,
                    .seconds = v->seconds,
                    .complete = v->complete,
                    .unreliable_gradients = v->unreliable_gradients,
                    .failure = v->failure,
                    .doubts = v->doubts,
                    .posterior = (ns_posterior*)v->posterior};

    // Lists alias the view's memory: this record is never freed.
    a.estimates.data = (ns_estimate*)v->estimates;
    a.estimates.count = v->nestimate;
    a.coefficients.data = (ns_fitted_coefficient*)v->coefficients;
    a.coefficients.count = v->ncoefficient;
    a.directions.data = (ns_parameter_direction*)v->directions;
    a.directions.count = v->ndirection;

    // How it was found.
    a.phases.data = (ns_fit_phase*)v->phases;
    a.phases.count = v->nphase;
    a.history.data = (ns_fit_history_point*)v->history;
    a.history.count = v->nhistory;
    a.path.data = (ns_sparsity_point*)v->path;
    a.path.count = v->npath;
    a.path_names.data = (const char**)v->path_names;
    a.path_names.count = v->npath_name;
    a.data_warnings.data = (const char**)v->data_warnings;
    a.data_warnings.count = v->ndata_warning;
    a.notes.data = (const char**)v->notes;
    a.notes.count = v->nnote;

    // Scores are optional in a result that a caller fills in.
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        if (v->before) a.before[role] = v->before[role];
        if (v->after) a.after[role] = v->after[role];
    }
    return a;
}

ns_status ns_fit_result_report(const ns_fit_result* result, ns_report** out, ns_error* error) {
    nsi_result record = record_of_view(result);
    return nsi_result_report(&record, NULL, NULL, NULL, out, error);
}

// ---- of a file ---------------------------------------------------------------------------------

enum { MAX_RESULT_BYTES = 256 << 20 };

static void release_result(void* result) {
    ns_allocator memory = ((nsi_result*)result)->allocator;
    nsi_result_free(result);
    nsi_free(&memory, result);
}

// The maps of a grid experiment, where the text is that of one; NS_ERR_UNSUPPORTED otherwise.
static ns_status report_of_grid(const nsi_bytes* bytes, const char* path, ns_report** out,
                                ns_error* error) {
    ns_report* report = NULL;
    ns_status status = ns_report_create("Starts", NULL, &report, error);
    if (status != NS_OK) return status;
    status = nsi_starts_read(bytes->data, bytes->count, path, nsi_report_figures(report), error);
    if (status == NS_OK) {
        ns_section* section = ns_report_add_section(report, NULL);
        if (section) nsi_section_show_figures(section, 0);
        status = ns_report_check(report, error);
    }
    if (status == NS_OK) {
        *out = report;
    } else {
        ns_report_free(report);
    }
    return status;
}

static ns_status report_of_result(const nsi_bytes* bytes, const char* path, const char* fit,
                                  ns_report** out, ns_error* error) {
    nsi_result* result = nsi_alloc_zeroed(NULL, sizeof *result);
    if (!result) return nsi_fail_nomem(error);
    nsi_result_init(NULL, result);
    ns_status status = nsi_result_read(bytes->data, bytes->count, path, fit, NULL, result, error);
    if (status == NS_OK) status = nsi_result_report(result, NULL, NULL, NULL, out, error);
    if (status != NS_OK) {
        release_result(result);
        return status;
    }
    ns_report_add_fact(*out, "fit", result->fit);
    nsi_report_own(*out, result, release_result);
    status = ns_report_check(*out, error);
    if (status != NS_OK) {
        ns_report_free(*out);
        *out = NULL;
    }
    return status;
}

ns_status ns_result_report(const char* path, const char* fit, ns_report** out, ns_error* error) {
    nsi_bytes bytes = {0};
    ns_allocator memory = ns_default_allocator();
    *out = NULL;
    ns_status status = nsi_file_read(path, MAX_RESULT_BYTES, NULL, &bytes, error);
    if (status == NS_OK) status = report_of_grid(&bytes, path, out, error);
    if (status == NS_ERR_UNSUPPORTED) status = report_of_result(&bytes, path, fit, out, error);
    nsi_array_free(&memory, &bytes);
    return status;
}

// ---- of a fit ----------------------------------------------------------------------------------

static ns_status fit_add_networks(const void* context, nsi_figures* figures, ns_error* error) {
    const ns_fit* f = context;
    uint32_t sets = f->system->binding ? f->system->binding->nset : 0;
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < sets && k < MAX_NETWORKS && status == NS_OK; k++) {
        // Which inputs a sparsity path has left is seen beside those it began with.
        if (f->result.path.count > 0) {
            status = nsi_weights_add_figure(f->system, k, f->z0 + f->nz, "before", figures, error);
        }
        if (status == NS_OK) {
            status = nsi_weights_add_figure(f->system, k, f->w, NULL, figures, error);
        }
    }
    return status;
}

// Recorded and predicted motion, where pages have a script to show it.
static ns_status fit_make_motion(const ns_fit* f, const nsi_traces* traces, ns_motion** out,
                                 ns_error* error) {
    *out = NULL;
    if (!ns_report_has_script() || traces->rows == 0) return NS_OK;
    const ns_model* shown = f->variants[nsi_traces_variant(traces)].model;
    ns_status status = ns_motion_create(shown, &f->allocator, out, error);
    if (status == NS_OK) status = nsi_traces_show(traces, f, *out, error);
    if (status != NS_OK) {
        ns_motion_free(*out);
        *out = NULL;
    }
    return status;
}

ns_status nsi_fit_report(const ns_fit* f, const nsi_traces* traces, ns_report** out,
                         ns_error* error) {
    ns_motion* moves = NULL;
    *out = NULL;
    ns_status status = fit_make_motion(f, traces, &moves, error);
    if (status != NS_OK) return status;
    status = nsi_result_report(&f->result, moves, fit_add_networks, f, out, error);
    if (status == NS_OK) status = nsi_posterior_report_bands(*out, traces, f, error);
    if (status == NS_OK) return NS_OK;
    ns_report_free(*out);
    *out = NULL;
    return status;
}

ns_status ns_fit_report(const ns_fit* f, const ns_fit_report_options* options, ns_report** out,
                        ns_error* error) {
    nsi_traces traces = {0};
    *out = NULL;
    if (!f->has_result) {
        return nsi_fail(error, NS_ERR_STATE, "ns_fit_report: there is no result; call ns_fit_run");
    }
    if (!options || !options->motion) {
        return nsi_result_report(&f->result, NULL, fit_add_networks, f, out, error);
    }
    ns_status status = nsi_traces_make(f, &traces, error);
    if (status == NS_OK) status = nsi_fit_report(f, &traces, out, error);
    nsi_traces_free(&traces);
    return status;
}
