// The report of a study on a grid: how often each method finds the truth, and at what cost.

#include "report/start_map.h"
#include "study/study_grid.h"

#include <stdio.h>

typedef struct study_summary {
    double success; // share of cells
    double runs_mean;
    uint32_t runs_max;
    double seconds;
} study_summary;

// Of a pose, or of all for NSI_NONE.
static study_summary grid_summarise(const study_grid* g, uint32_t pose, uint32_t method) {
    study_summary sum = {0};
    double count = 0.0;
    for (uint32_t p = 0; p < g->npose; p++) {
        if (pose != NSI_NONE && p != pose) continue;
        const study_cell* cells = nsi_study_cells(g, p, method);
        for (uint32_t k = 0; k < nsi_study_cell_count(g); k++) {
            count++;
            sum.success += cells[k].found;
            sum.runs_mean += cells[k].runs;
            if (cells[k].runs > sum.runs_max) sum.runs_max = cells[k].runs;
            sum.seconds += cells[k].seconds;
        }
    }
    sum.success /= count;
    sum.runs_mean /= count;
    return sum;
}

// ---- figures -----------------------------------------------------------------------------------

bool nsi_study_draw_grid(study_grid* g) {
    ns_study* s = g->study;
    uint32_t n = nsi_study_cell_count(g);
    const uint32_t methods[2] = {g->compare, g->headline};
    const nsi_starts starts = {
        .names = {g->names[0], g->names[1]},
        .labels = {g->methods[g->compare].label, g->methods[g->headline].label},
        .truth = {g->truth[0], g->truth[1]},
        .from = g->from,
        .to = g->to,
        .cells = g->cells};
    for (uint32_t pose = 0; pose < g->npose; pose++) {
        double* values = g->errors + 2 * (size_t)pose * n;
        for (size_t side = 0; side < 2; side++) {
            const study_cell* cells = nsi_study_cells(g, pose, methods[side]);
            for (uint32_t k = 0; k < n; k++) values[side * n + k] = cells[k].error;
        }
        const double* errors[2] = {values, values + n};
        ns_status status = nsi_starts_add_figure(&starts, pose, errors, &s->charts, &s->error);
        if (!nsi_study_take(s, status)) return false;
    }
    return true;
}

// ---- report ------------------------------------------------------------------------------------

static void grid_add_table(const study_grid* g, uint32_t pose, ns_section* section) {
    const ns_report_column columns[] = {
        {.name = "method"},
        {.name = "found", .format = NS_FORMAT_PERCENT},
        {.name = "LM runs, mean", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "most", .format = NS_FORMAT_COUNT},
        {.name = "seconds", .format = NS_FORMAT_NUMBER, .digits = 2}};
    char name[40] = "all";
    if (pose != NSI_NONE) snprintf(name, sizeof name, "pose%u", pose + 1);
    ns_report_table* table = ns_section_add_table(section, name, NULL, columns, 5);
    for (uint32_t m = 0; m < g->nmethod; m++) {
        study_summary sum = grid_summarise(g, pose, m);
        const ns_cell row[] = {ns_cell_text(g->methods[m].label), ns_cell_number(sum.success),
                               ns_cell_number(sum.runs_mean), ns_cell_number(sum.runs_max),
                               ns_cell_number(sum.seconds)};
        ns_report_table_add_row(table, row, 5);
    }
}

static void grid_add_facts(const study_grid* g, ns_report* report) {
    char text[600];
    snprintf(text, sizeof text, "%u x %u from %s to %s", g->cells, g->cells,
             nsi_format_short(g->from, 3).text, nsi_format_short(g->to, 3).text);
    ns_report_add_fact(report, "starts", text);
    snprintf(text, sizeof text, "%.200s %s, %.200s %s", g->names[0],
             nsi_format_short(g->truth[0], 3).text, g->names[1],
             nsi_format_short(g->truth[1], 3).text);
    ns_report_add_fact(report, "truth", text);
    ns_report_add_fact(report, "fitted.yaml", g->methods[g->headline].name);
}

// "Pose 1: released at rest from (0.1, 0.2) rad"
static void grid_add_pose(const ns_study* s, uint32_t pose, ns_report* report) {
    const study_grid* g = s->grid;
    char title[400];
    int used = snprintf(title, sizeof title, "Pose %u: released at rest from (", pose + 1);
    for (uint32_t k = 0; k < g->nq && used < (int)sizeof title - 60; k++) {
        used += snprintf(title + used, sizeof title - (size_t)used, "%s%s", k > 0 ? ", " : "",
                         nsi_format_short(g->poses[pose][k], 4).text);
    }
    snprintf(title + used, sizeof title - (size_t)used, ") rad");
    ns_section* section = ns_report_add_section(report, title);
    nsi_study_show_figure(section, &s->charts.list.data[pose]);
    grid_add_table(g, pose, section);
}

void nsi_study_report_grid(ns_study* s, ns_report* report) {
    const study_grid* g = s->grid;
    grid_add_facts(g, report);
    ns_section* section = ns_report_add_section(report, NULL);
    nsi_section_add_notef(
        section, NS_NOTE_TEXT,
        "Every cell is a start; its colour is the distance between the truth (star) and where the"
        " method ended. Found: both parameters within %s. Seconds are those of one core, on which"
        " %s rollouts of %u steps with Jacobian take a second.",
        nsi_format_short(g->tolerance, 3).text, nsi_format(g->rollouts, 3).text, g->steps);
    grid_add_table(g, NSI_NONE, ns_report_add_section(report, "All poses"));
    for (uint32_t pose = 0; pose < g->npose; pose++) grid_add_pose(s, pose, report);
}

// ---- record ------------------------------------------------------------------------------------

static void grid_record_success(ns_json* j, const study_grid* g, const char* name,
                                uint32_t method) {
    char key[200];
    snprintf(key, sizeof key, "%.150s_success", name);
    ns_json_number(j, key, grid_summarise(g, NSI_NONE, method).success);
    for (uint32_t p = 0; p < g->npose; p++) {
        snprintf(key, sizeof key, "%.150s_success_pose%u", name, p + 1);
        ns_json_number(j, key, grid_summarise(g, p, method).success);
    }
}

static void grid_record_metrics(ns_json* j, const study_grid* g) {
    ns_json_open(j, "metrics", '{');
    grid_record_success(j, g, "global", g->headline);
    for (uint32_t m = 0; m < g->nmethod; m++) {
        const char* name = g->methods[m].name;
        study_summary sum = grid_summarise(g, NSI_NONE, m);
        char key[200];
        grid_record_success(j, g, name, m);
        snprintf(key, sizeof key, "%.150s_runs_mean", name);
        ns_json_number(j, key, sum.runs_mean);
        snprintf(key, sizeof key, "%.150s_runs_max", name);
        ns_json_count(j, key, sum.runs_max);
        snprintf(key, sizeof key, "%.150s_seconds", name);
        ns_json_number(j, key, sum.seconds);
    }
    ns_json_number(j, "seconds", g->study->seconds);
    ns_json_number(j, "rollouts_per_second", g->rollouts);
    ns_json_close(j);
}

static void grid_record_setting(ns_json* j, const study_grid* g) {
    ns_json_open(j, "grid", '{');
    ns_json_open(j, "parameters", '[');
    for (int k = 0; k < 2; k++) ns_json_text(j, NULL, g->names[k]);
    ns_json_close(j);
    ns_json_numbers(j, "truth", g->truth, 2);
    ns_json_number(j, "tolerance", g->tolerance);
    ns_json_number(j, "from", g->from);
    ns_json_number(j, "to", g->to);
    ns_json_count(j, "cells", g->cells);
    ns_json_close(j);

    ns_json_open(j, "methods", '[');
    for (uint32_t m = 0; m < g->nmethod; m++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", g->methods[m].name);
        ns_json_text(j, "label", g->methods[m].label);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_text(j, "headline", g->methods[g->headline].name);
    ns_json_text(j, "compare", g->methods[g->compare].name);
}

bool nsi_study_record_grid(ns_study* s, ns_json* j) {
    const study_grid* g = s->grid;
    grid_record_metrics(j, g);
    grid_record_setting(j, g);

    // Errors of each pose by start: rows of the second parameter.
    ns_json_open(j, "poses", '[');
    for (uint32_t p = 0; p < g->npose; p++) {
        ns_json_open(j, NULL, '{');
        ns_json_numbers(j, "q", g->poses[p], g->nq);
        ns_json_open(j, "errors", '{');
        for (uint32_t m = 0; m < g->nmethod; m++) {
            const study_cell* cells = nsi_study_cells(g, p, m);
            ns_json_open(j, g->methods[m].name, '[');
            for (uint32_t k = 0; k < nsi_study_cell_count(g); k++) {
                ns_json_number(j, NULL, cells[k].error);
            }
            ns_json_close(j);
        }
        ns_json_close(j);
        ns_json_close(j);
    }
    ns_json_close(j);
    return true;
}
