// Figures of a result, as charts.

#include "fit/result_words.h"

#include <math.h>
#include <stdio.h>

enum { MAX_ROWS = 60, MAX_CELLS = 40, MAX_CURVES = 8 };

// All functions here return false when out of memory, and true without a chart where there is nothing
// to show.

static ns_figure_column number_column(const char* name, const double* values) {
    return (ns_figure_column){.name = name, .numbers = values};
}

static ns_figure_column text_column(const char* name, const char* const* values) {
    return (ns_figure_column){.name = name, .texts = values};
}

static uint32_t at_most(uint32_t count, uint32_t most) {
    return count < most ? count : most;
}

// (columns x count) numbers, one column after the other.
static double* new_numbers(nsi_figures* charts, uint32_t columns, uint32_t count) {
    return nsi_figures_zeros(charts, (size_t)columns * count, sizeof(double));
}

// A title that says so where only the first are drawn; NULL when out of memory.
static const char* figure_title(nsi_figures* charts, const char* title, uint32_t drawn,
                                uint32_t count) {
    return drawn < count ? nsi_figures_text(charts, "%s, the first %u of %u", title, drawn, count)
                         : nsi_figures_text(charts, "%s", title);
}

// ---- loss --------------------------------------------------------------------------------------

// A line for each phase: from phase to phase the loss may be of other data.
static bool figure_loss(const nsi_result* a, nsi_figures* charts) {
    // The axis is logarithmic: without a positive loss there is nothing to draw.
    const ns_fit_history_point* points = a->history.data;
    uint32_t count = a->history.count, drawn = 0;
    for (uint32_t k = 0; k < count; k++)
        drawn += isfinite(points[k].value) && points[k].value > 0.0;
    if (count < 2 || drawn == 0) return true;

    // The chart and room for its numbers.
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_LINES, "loss", "Loss over iterations");
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 5, count) : NULL;
    double* table = new_numbers(charts, 5, count);
    bool* breaks = nsi_figures_zeros(charts, count, sizeof *breaks);
    ns_line_mark* marks = nsi_figures_zeros(charts, count, sizeof *marks);
    ns_line_series* series = nsi_figures_zeros(charts, 1, sizeof *series);
    ns_line_panel* panel = nsi_figures_zeros(charts, 1, sizeof *panel);
    if (!columns || !table || !breaks || !marks || !series || !panel) return false;

    // A point for each iteration; a phase begins with a mark.
    uint32_t nmark = 0;
    double *number = table, *phase = number + count, *iteration = phase + count,
           *seconds = iteration + count, *loss = seconds + count;
    for (uint32_t k = 0; k < count; k++) {
        number[k] = k + 1;
        phase[k] = points[k].phase + 1.0;
        iteration[k] = points[k].iteration;
        seconds[k] = points[k].seconds;
        loss[k] = points[k].value;
        breaks[k] = k == 0 || points[k].phase != points[k - 1].phase;
        if (!breaks[k]) continue;
        bool known = points[k].phase < a->phases.count;
        marks[nmark++] =
            (ns_line_mark){number[k], known ? a->phases.data[points[k].phase].name : NULL};
    }

    // Columns and the chart.
    columns[0] = number_column("number", number);
    columns[1] = number_column("phase", phase);
    columns[2] = number_column("iteration", iteration);
    columns[3] = number_column("seconds", seconds);
    columns[4] = number_column("loss", loss);

    // One line, interrupted between phases, whose losses are of different windows.
    *series = (ns_line_series){.line_style = "c0", .y = loss};
    *panel = (ns_line_panel){{"loss", true}, series, 1};
    chart->as.lines = (ns_line_chart){.x_axis = {.label = "iterations of all phases"},
                                      .x = number,
                                      .count = count,
                                      .breaks = breaks,
                                      .panels = panel,
                                      .npanel = 1,
                                      .marks = marks,
                                      .nmark = nmark};
    return true;
}

// ---- parameters --------------------------------------------------------------------------------

// Shares of the estimate; where that is 0, of the start.
static double share_of(const ns_estimate* e, double length) {
    double size = e->value != 0.0 ? fabs(e->value) : fabs(e->initial);
    return size > 0.0 ? length / size : 0.0;
}

static const char** figure_names(const nsi_result* a, nsi_figures* charts) {
    const char** names = nsi_figures_zeros(charts, a->estimates.count, sizeof *names);
    for (uint32_t k = 0; names && k < a->estimates.count; k++) {
        names[k] = a->estimates.data[k].name ? a->estimates.data[k].name : "";
    }
    return names;
}

static bool figure_parameters(const nsi_result* a, nsi_figures* charts) {
    static const double NORMAL = 1.959963984540054; // 97.5 % of a normal distribution lie below
    uint32_t count = a->estimates.count, rows = at_most(count, MAX_ROWS);
    if (count == 0 || !a->correlation) return true;
    const char* title = figure_title(
        charts, "Estimates with 95 % intervals, relative to the estimate", rows, count);
    ns_figure* chart =
        title ? nsi_figures_add(charts, NS_FIGURE_INTERVALS, "parameters", title) : NULL;
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 8, count) : NULL;
    double* table = new_numbers(charts, 5, count);
    const char **names = figure_names(a, charts),
               **units = nsi_figures_zeros(charts, count, sizeof *units),
               **verdicts = nsi_figures_zeros(charts, count, sizeof *verdicts);
    ns_interval* intervals = nsi_figures_zeros(charts, rows, sizeof *intervals);
    if (!columns || !table || !names || !units || !verdicts || !intervals) return false;

    // Numbers of all parameters.
    double *start = table, *value = start + count, *error = value + count, *low = error + count,
           *high = low + count, reach = 0.0, furthest = 0.0;
    for (uint32_t k = 0; k < count; k++) {
        const ns_estimate* e = &a->estimates.data[k];
        units[k] = e->unit;
        verdicts[k] = nsi_result_verdict(a, k);
        start[k] = e->initial;
        value[k] = e->value;
        error[k] = e->standard_error;
        low[k] = e->value - NORMAL * e->standard_error;
        high[k] = e->value + NORMAL * e->standard_error;
    }

    // Intervals of those that are drawn, relative to the estimate.
    for (uint32_t k = 0; k < rows; k++) {
        const ns_estimate* e = &a->estimates.data[k];
        intervals[k] = (ns_interval){.label = names[k],
                                     .note = verdicts[k],
                                     .bad = e->verdict != NS_VERDICT_OK,
                                     .half = share_of(e, NORMAL * e->standard_error),
                                     .start = share_of(e, e->initial - e->value)};
        if (isinf(e->standard_error)) intervals[k].half = INFINITY; // of nothing, too
        if (isnan(e->standard_error)) intervals[k].half = NAN;
        if (isfinite(intervals[k].half)) reach = fmax(reach, 1.25 * intervals[k].half);
        if (isfinite(intervals[k].start)) furthest = fmax(furthest, fabs(intervals[k].start));
    }
    // Intervals count; where there are none to be seen, starts do.
    if (reach < 1e-6) reach = fmax(furthest, 0.001);

    // All parameters in the table, those that fit in the chart.
    columns[0] = text_column("parameter", names);
    columns[1] = text_column("unit", units);
    columns[2] = number_column("start", start);
    columns[3] = number_column("estimate", value);
    columns[4] = number_column("standard_error", error);
    columns[5] = number_column("low", low);
    columns[6] = number_column("high", high);
    columns[7] = text_column("verdict", verdicts);
    chart->as.intervals = (ns_interval_chart){intervals, rows, fmin(reach, 1.0)};
    chart->caption = nsi_figures_text(
        charts,
        "Relative to the estimate, cut off at %s %%. Bars: 1.96 standard errors each way, faint "
        "over "
        "the whole width where the data cannot identify it. Rings: start; arrows: further away.",
        nsi_format_short(100.0 * fmin(reach, 1.0), 2).text);
    if (!chart->caption) return false;
    return true;
}

static bool figure_correlation(const nsi_result* a, nsi_figures* charts) {
    uint32_t count = a->estimates.count, n = at_most(count, MAX_CELLS);
    if (count < 2 || !a->correlation) return true;
    const char* title = figure_title(charts, "Correlation of the errors", n, count);
    ns_figure* chart =
        title ? nsi_figures_add(charts, NS_FIGURE_MATRIX, "correlation", title) : NULL;
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, count + 1, count) : NULL;
    const char** names = figure_names(a, charts);
    if (!columns || !names) return false;
    columns[0] = text_column("parameter", names);
    for (uint32_t k = 0; k < count; k++) { // the matrix is symmetric: a row is a column
        columns[k + 1] = number_column(names[k], a->correlation + (size_t)k * count);
    }
    chart->as.matrix = (ns_matrix_chart){names, a->correlation, n, count};
    return true;
}

// ---- errors ------------------------------------------------------------------------------------

static bool figure_errors(const nsi_result* a, ns_data_role role, nsi_figures* charts) {
    // Before and after may reach different horizons; the longer list counts.
    const ns_score* scores[2] = {&a->before[role], &a->after[role]};
    uint32_t rows =
        scores[0]->nhorizon > scores[1]->nhorizon ? scores[0]->nhorizon : scores[1]->nhorizon;
    if (rows == 0) return true;

    // Room for the chart and the table behind it.
    char name[40], plain[80];
    snprintf(name, sizeof name, "errors_%s", nsi_role_name(role));
    snprintf(plain, sizeof plain, "Prediction error at horizons, %s data", nsi_role_name(role));
    const char* title = figure_title(charts, plain, at_most(rows, MAX_ROWS), rows);
    ns_figure* chart = title ? nsi_figures_add(charts, NS_FIGURE_BARS, name, title) : NULL;
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 6, rows) : NULL;
    double* table = new_numbers(charts, 6, rows);
    const char** labels = nsi_figures_zeros(charts, rows, sizeof *labels);
    ns_bar* bars = nsi_figures_zeros(charts, 2 * (size_t)rows, sizeof *bars);
    if (!columns || !table || !labels || !bars) return false;

    // A row for each horizon, with bars before and after.
    for (uint32_t k = 0; k < rows; k++) {
        const ns_score* known = k < scores[1]->nhorizon ? scores[1] : scores[0];
        labels[k] =
            nsi_figures_text(charts, "%s s", nsi_format_short(known->horizons[k].seconds, 3).text);
        if (!labels[k]) return false;
        table[k] = known->horizons[k].seconds;
        table[rows + k] = known->horizons[k].windows;
        for (uint32_t s = 0; s < 2; s++) {
            ns_bar* bar = &bars[2 * k + s];
            // Without a score at this horizon there is no bar.
            *bar = (ns_bar){.length = NAN, .mark = NAN};
            if (k < scores[s]->nhorizon) {
                const ns_horizon_error* h = &scores[s]->horizons[k];
                *bar = (ns_bar){.length = h->pooled, .mark = h->median};
                bar->text = nsi_figures_text(charts, "%s", nsi_format(h->pooled, 3).text);
                if (!bar->text) return false;
            }
            table[(2 + s) * (size_t)rows + k] = bar->length;
            table[(4 + s) * (size_t)rows + k] = bar->mark;
        }
    }

    // Columns and the chart.
    static const char* const headings[] = {"horizon", "windows",       "before",
                                           "after",   "before_median", "after_median"};
    for (uint32_t c = 0; c < 6; c++)
        columns[c] = number_column(headings[c], table + (size_t)c * rows);
    chart->as.bars = (ns_bar_chart){.labels = labels,
                                    .bars = bars,
                                    .rows = at_most(rows, MAX_ROWS),
                                    .ngroup = 2,
                                    .groups = {"before", "after"},
                                    .mark = "median window"};
    chart->caption = "Bars: pooled over all windows; strokes: the median window.";
    return true;
}

// ---- time --------------------------------------------------------------------------------------

static bool figure_timing(const nsi_result* a, nsi_figures* charts) {
    uint32_t count = a->phases.count;
    if (count == 0) return true;

    // Room for the chart and the table behind it.
    const char* title =
        figure_title(charts, "Seconds in each phase", at_most(count, MAX_ROWS), count);
    ns_figure* chart = title ? nsi_figures_add(charts, NS_FIGURE_BARS, "timing", title) : NULL;
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 6, count) : NULL;
    double* table = new_numbers(charts, 4, count);
    const char **labels = nsi_figures_zeros(charts, count, sizeof *labels),
               **finish = nsi_figures_zeros(charts, count, sizeof *finish);
    ns_bar* bars = nsi_figures_zeros(charts, count, sizeof *bars);
    if (!columns || !table || !labels || !finish || !bars) return false;

    // A row for each phase.
    for (uint32_t k = 0; k < count; k++) {
        const ns_fit_phase* phase = &a->phases.data[k];
        labels[k] = phase->name ? phase->name : "";
        finish[k] = phase->finish;
        table[k] = phase->iterations;
        table[count + k] = phase->evaluations;
        table[2 * (size_t)count + k] = phase->seconds;
        table[3 * (size_t)count + k] = phase->value;

        // Evaluations beside the seconds tell long windows from many steps.
        bars[k] = (ns_bar){.length = phase->seconds, .mark = NAN};
        bars[k].text = nsi_figures_text(charts, "%s s, %u evaluations",
                                        nsi_format(phase->seconds, 2).text, phase->evaluations);
        if (!bars[k].text) return false;
    }

    // Columns and the chart.
    columns[0] = text_column("phase", labels);
    columns[1] = number_column("iterations", table);
    columns[2] = number_column("evaluations", table + count);
    columns[3] = number_column("seconds", table + 2 * (size_t)count);
    columns[4] = number_column("loss", table + 3 * (size_t)count);
    columns[5] = text_column("end", finish);

    // The chart has the first rows, the table all of them.
    chart->as.bars = (ns_bar_chart){.labels = labels,
                                    .bars = bars,
                                    .rows = at_most(count, MAX_ROWS),
                                    .ngroup = 1,
                                    .groups = {"seconds"}};
    return true;
}

// ---- sparsity path -----------------------------------------------------------------------------

// What changes from point to point: l1, group, both, or neither.
static const char* find_penalty(const nsi_result* a, double* x) {
    bool l1 = false, group = false;
    const ns_sparsity_point* p = a->path.data;
    for (uint32_t k = 1; k < a->path.count; k++) {
        l1 |= p[k].l1 != p[0].l1;
        group |= p[k].group != p[0].group;
    }
    if (!l1 && !group) return NULL;
    for (uint32_t k = 0; k < a->path.count; k++) {
        x[k] = (l1 ? p[k].l1 : 0.0) + (group ? p[k].group : 0.0);
    }
    return l1 && group ? "penalty, l1 + group" : l1 ? "penalty, l1" : "penalty, group";
}

// Iterations of all stages with a penalty, one after the other.
static void count_iterations(const nsi_result* a, double* x, bool* breaks) {
    double before = 0.0;
    for (uint32_t k = 0; k < a->path.count; k++) {
        breaks[k] = k > 0 && a->path.data[k].phase != a->path.data[k - 1].phase;
        if (breaks[k]) before = x[k - 1];
        x[k] = before + a->path.data[k].iteration;
    }
}

// The largest groups have colours of their own.
static void choose_classes(const double* largest, uint32_t count, ns_line_series* series) {
    static const char* const classes[MAX_CURVES] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
    for (uint32_t rank = 0; rank < at_most(count, MAX_CURVES); rank++) {
        uint32_t best = NSI_NONE;
        for (uint32_t k = 0; k < count; k++) {
            if (series[k].line_style) continue;
            if (best == NSI_NONE || largest[k] > largest[best]) best = k;
        }
        series[best].line_style = classes[rank];
    }
    for (uint32_t k = 0; k < count; k++) {
        if (series[k].line_style) continue;
        series[k].line_style = "other";
        series[k].name = "others";
    }
}

static bool all_positive(const double* x, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        if (!(x[k] > 0.0)) return false;
    }
    return true;
}

static bool figure_path(const nsi_result* a, nsi_figures* charts) {
    uint32_t count = a->path.count, groups = a->path_names.count;
    if (count < 2 || groups == 0) return true;

    // Room for the chart, one series per network input.
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_LINES, "path",
                                       "Sparsity path: first-layer weights of each input");
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 5 + groups, count) : NULL;
    double *x = new_numbers(charts, 1, count), *table = new_numbers(charts, 5 + groups, count);
    double* largest = new_numbers(charts, 1, groups);
    bool* breaks = nsi_figures_zeros(charts, count, sizeof *breaks);
    ns_line_series* series = nsi_figures_zeros(charts, groups, sizeof *series);
    ns_line_panel* panel = nsi_figures_zeros(charts, 1, sizeof *panel);
    if (!columns || !x || !table || !largest || !breaks || !series || !panel) return false;

    // A row for each point; the largest norms decide which inputs are highlighted.
    for (uint32_t k = 0; k < count; k++) {
        const ns_sparsity_point* point = &a->path.data[k];
        double row[] = {point->phase + 1.0, point->iteration, point->l1, point->group, point->loss};
        for (uint32_t c = 0; c < 5; c++) table[(size_t)c * count + k] = row[c];
        for (uint32_t g = 0; g < groups; g++) {
            table[(5 + (size_t)g) * count + k] = point->norms[g];
            if (point->norms[g] > largest[g]) largest[g] = point->norms[g];
        }
    }

    // Columns of the table, whose norms are the lines of the chart.
    static const char* const headings[] = {"phase", "iteration", "l1", "group", "loss"};
    for (uint32_t c = 0; c < 5; c++)
        columns[c] = number_column(headings[c], table + (size_t)c * count);
    for (uint32_t g = 0; g < groups; g++) {
        const char* name = a->path_names.data[g] ? a->path_names.data[g] : "";
        columns[5 + g] = number_column(name, table + (5 + (size_t)g) * count);
        series[g] = (ns_line_series){.name = name, .y = columns[5 + g].numbers};
    }

    // The x axis is the penalty where it varies, otherwise the iteration.
    choose_classes(largest, groups, series);
    const char* penalty = find_penalty(a, x);
    if (!penalty) count_iterations(a, x, breaks);
    bool log = penalty && all_positive(x, count); // l1 may begin at 0 beside a group penalty

    *panel = (ns_line_panel){{"norm of the weights", false}, series, groups};
    chart->as.lines = (ns_line_chart){.x_axis = {penalty ? penalty : "iterations", log},
                                      .x = x,
                                      .count = count,
                                      .breaks = breaks,
                                      .panels = panel,
                                      .npanel = 1,
                                      .points = penalty != NULL};
    return true;
}

// ---- all of them -------------------------------------------------------------------------------

ns_status nsi_result_add_figures(const nsi_result* a, nsi_figures* charts, ns_error* error) {
    bool done =
        figure_loss(a, charts) && figure_parameters(a, charts) && figure_correlation(a, charts);
    for (int role = 0; role < NS_ROLE_COUNT && done; role++) {
        done = figure_errors(a, (ns_data_role)role, charts);
    }
    done = done && figure_timing(a, charts) && figure_path(a, charts);
    return done ? NS_OK : nsi_fail_nomem(error);
}
