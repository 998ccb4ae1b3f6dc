// Figures of a posterior, from numbers in memory or from the files of a fit.

#include "fit/posterior_figures.h"

#include "fit/posterior_summary.h"
#include "neuralsim/posterior.h"
#include "neuralsim/table.h"

#include <math.h>
#include <stdio.h>

// ---- from numbers --------------------------------------------------------------------------------

ns_status nsi_corner_add_figure(nsi_figures* figures, const char* const* names, uint32_t n,
                                const double* values, uint32_t count, ns_error* error) {
    ns_figure* figure =
        nsi_figures_add(figures, NS_FIGURE_CORNER, "corner", "Samples of the posterior");
    ns_figure_column* columns = figure ? nsi_figure_table(figures, figure, n, count) : NULL;
    double* table = nsi_figures_zeros(figures, (size_t)n * count, sizeof *table);
    if (!columns || !table) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < n; k++) {
        double* column = table + (size_t)k * count;
        for (uint32_t i = 0; i < count; i++) column[i] = values[(size_t)i * n + k];
        columns[k] = (ns_figure_column){.name = names[k], .numbers = column};
    }
    figure->caption = "Diagonal: each parameter by itself. Below: pairs, darker where samples are"
                      " denser. Axes are in SI units.";
    figure->as.corner = (ns_corner_chart){.names = names, .values = values, .n = n, .count = count};
    return NS_OK;
}

ns_status nsi_bands_add_figure(nsi_figures* figures, const char* const* channels, uint32_t n,
                               double* numbers, uint32_t rows, ns_error* error) {
    static const char* const what[3] = {"recorded", "5 % and 95 %", "5 % and 95 %"};
    static const char* const style[3] = {"recorded", "c0", "c0"};
    static const char* const ending[3] = {"", "/low", "/high"};
    ns_figure* figure = nsi_figures_add(figures, NS_FIGURE_LINES, "bands",
                                        "Predictions with 90 % bands of the posterior");
    ns_figure_column* columns = figure ? nsi_figure_table(figures, figure, 1 + 3 * n, rows) : NULL;
    ns_line_panel* panels = nsi_figures_zeros(figures, n, sizeof *panels);
    ns_line_series* series = nsi_figures_zeros(figures, 3 * (size_t)n, sizeof *series);
    if (!columns || !panels || !series) return nsi_fail_nomem(error);

    // A panel for each channel.
    columns[0] = (ns_figure_column){.name = "t", .numbers = numbers};
    for (uint32_t c = 0; c < n; c++) {
        for (uint32_t k = 0; k < 3; k++) {
            const double* y = numbers + (size_t)(1 + 3 * c + k) * rows;
            const char* column = nsi_figures_text(figures, "%s%s", channels[c], ending[k]);
            if (!column) return nsi_fail_nomem(error);
            columns[1 + 3 * c + k] = (ns_figure_column){.name = column, .numbers = y};
            series[3 * c + k] = (ns_line_series){.name = what[k], .line_style = style[k], .y = y};
        }
        panels[c] =
            (ns_line_panel){.y = {channels[c], false}, .series = series + 3 * c, .nseries = 3};
    }
    figure->caption =
        "The motion itself: without noise of measurements. Each prediction starts from"
        " a state that is recorded, or fitted anew for each draw.";
    figure->as.lines = (ns_line_chart){
        .x_axis = {"t (s)", false}, .x = numbers, .count = rows, .panels = panels, .npanel = n};
    return NS_OK;
}

// ---- from files ----------------------------------------------------------------------------------

// Samples of equal weight from a table, at most so many.
static ns_status pick_samples(const ns_table* t, const char* path, uint32_t* rows, uint32_t count,
                              ns_error* error) {
    uint32_t column = ns_table_column(t, "weight"), row = 0;
    double sum = 0.0, below = 0.0;
    bool good = column != NSI_NONE;
    for (uint32_t k = 0; k < t->nrow && good; k++) {
        double weight = ns_table_at(t, k, column);
        good = weight >= 0.0;
        sum += weight;
    }
    if (!good || !(sum > 0.0) || !isfinite(sum)) {
        return nsi_fail(error, NS_ERR_PARSE, "%s has no samples with a weight", path);
    }
    for (uint32_t k = 0; k < count; k++) {
        double share = (k + 0.5) / count * sum;
        while (row + 1 < t->nrow && below + ns_table_at(t, row, column) < share) {
            below += ns_table_at(t, row++, column);
        }
        rows[k] = row;
    }
    return NS_OK;
}

static ns_status add_corner(nsi_figures* figures, const ns_table* t, const char* path,
                            ns_error* error) {
    uint32_t chosen[NSI_MAX_CORNER], n = 0;
    uint32_t count = t->nrow < NSI_MAX_CORNER_POINTS ? t->nrow : NSI_MAX_CORNER_POINTS;
    for (uint32_t k = 0; k < t->ncol && n < NSI_MAX_CORNER; k++) {
        if (nsi_is_sampled_parameter(t->names[k])) chosen[n++] = k;
    }
    if (n == 0) return NS_OK;

    // Names and numbers outlive the table.
    const char** names = nsi_figures_zeros(figures, n, sizeof *names);
    double* values = nsi_figures_zeros(figures, (size_t)n * count, sizeof *values);
    uint32_t* rows = nsi_figures_zeros(figures, count, sizeof *rows);
    if (!names || !values || !rows) return nsi_fail_nomem(error);
    ns_status status = pick_samples(t, path, rows, count, error);
    for (uint32_t k = 0; k < n && status == NS_OK; k++) {
        names[k] = nsi_figures_text(figures, "%s", t->names[chosen[k]]);
        if (!names[k]) return nsi_fail_nomem(error);
        for (uint32_t i = 0; i < count; i++) {
            values[(size_t)i * n + k] = ns_table_at(t, rows[i], chosen[k]);
        }
    }
    return status == NS_OK ? nsi_corner_add_figure(figures, names, n, values, count, error)
                           : status;
}

ns_status ns_section_add_corner(ns_section* section, const char* path, ns_error* error) {
    if (!section) return nsi_fail_nomem(error);
    ns_table t;
    ns_table_options options = {.allow_missing = true};
    ns_status status = ns_table_read(path, &options, NULL, &t, error);
    if (status != NS_OK) return status;
    nsi_figures* figures = nsi_report_figures(section->report);
    uint32_t first = figures->list.count;
    status = add_corner(figures, &t, path, error);
    ns_table_free(&t);
    if (status != NS_OK) return status;
    nsi_section_show_figures(section, first);
    return ns_report_check(section->report, error);
}

// Columns of a channel with a band: what was recorded, and both ends. False: this is not the low end of one.
static bool find_band(const ns_table* t, uint32_t column, uint32_t columns[3], char name[256]) {
    static const char ending[] = "/low";
    const char* low = t->names[column];
    size_t size = strlen(low), end = sizeof ending - 1;
    if (size <= end || size >= 250 || strcmp(low + size - end, ending) != 0) return false;
    columns[1] = column;
    snprintf(name, 256, "%.*s/high", (int)(size - end), low);
    columns[2] = ns_table_column(t, name);
    name[size - end] = '\0';
    columns[0] = ns_table_column(t, name);
    return columns[0] != NSI_NONE && columns[2] != NSI_NONE;
}

ns_status ns_section_add_bands(ns_section* section, const ns_table* t, ns_error* error) {
    if (!section) return nsi_fail_nomem(error);
    nsi_figures* figures = nsi_report_figures(section->report);
    const uint32_t time = ns_table_column(t, "t"), run = ns_table_column(t, "traj");
    if (time == NSI_NONE || run == NSI_NONE || t->nrow == 0) return NS_OK;

    // The first recording.
    uint32_t rows = 1, n = 0, first = figures->list.count;
    while (rows < t->nrow && rows < NSI_MAX_BAND_ROWS &&
           ns_table_at(t, rows, run) == ns_table_at(t, 0, run)) {
        rows++;
    }
    double* numbers =
        nsi_figures_zeros(figures, (size_t)rows * (1 + 3 * NSI_MAX_BAND_PANELS), sizeof *numbers);
    const char** names = nsi_figures_zeros(figures, NSI_MAX_BAND_PANELS, sizeof *names);
    if (!numbers || !names) return nsi_fail_nomem(error);
    for (uint32_t i = 0; i < rows; i++) numbers[i] = ns_table_at(t, i, time);

    // Its channels with bands.
    for (uint32_t k = 0; k < t->ncol && n < NSI_MAX_BAND_PANELS; k++) {
        uint32_t columns[3];
        char name[256];
        if (!find_band(t, k, columns, name)) continue;
        names[n] = nsi_figures_text(figures, "%s", name);
        if (!names[n]) return nsi_fail_nomem(error);
        for (uint32_t i = 0; i < 3 * rows; i++) {
            numbers[(size_t)(1 + 3 * n) * rows + i] = ns_table_at(t, i % rows, columns[i / rows]);
        }
        n++;
    }
    if (n == 0) return NS_OK;
    ns_status status = nsi_bands_add_figure(figures, names, n, numbers, rows, error);
    if (status != NS_OK) return status;
    nsi_section_show_figures(section, first);
    return ns_report_check(section->report, error);
}
