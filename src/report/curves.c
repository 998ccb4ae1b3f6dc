// Columns of a table over time.

#include "report/curves.h"

#include "neuralsim/model.h"

#include <math.h>
#include <stdio.h>

enum { MAX_TRAJECTORIES = 6, MAX_NAME = NS_TABLE_MAX_NAME + 10 };

typedef struct channel {
    uint32_t own;        // the column that it is named after
    uint32_t columns[3]; // recorded, before, after; NSI_NONE: not there
    bool replayed;       // what came after is a prediction
} channel;

typedef struct maker {
    const ns_table* table;
    uint32_t t, traj, test; // columns, or NSI_NONE
    channel channels[NSI_CURVES_MAX];
    uint32_t nchannel;
    uint32_t* rows; // (count) those that are drawn
    uint32_t count, ntraj, drawn;
    nsi_figures* charts;
} maker;

enum { RECORDED = 3 };
static const char* const endings[] = {"", "/before", "/after", [RECORDED] = "_recorded"};

// The column with this name and ending.
static uint32_t find_partner(const ns_table* table, const char* name, const char* ending) {
    char whole[MAX_NAME];
    int size = snprintf(whole, sizeof whole, "%s%s", name, ending);
    return size >= 0 && (size_t)size < sizeof whole ? ns_table_column(table, whole) : NSI_NONE;
}

// Does the column belong to another one?
static bool is_partner(const ns_table* table, const char* name) {
    size_t size = strlen(name);
    for (int k = 1; k <= RECORDED; k++) {
        size_t more = strlen(endings[k]);
        char own[MAX_NAME];
        if (size <= more || size >= sizeof own || strcmp(name + size - more, endings[k]) != 0) {
            continue;
        }
        memcpy(own, name, size - more);
        own[size - more] = '\0';
        bool taken = k == RECORDED && find_partner(table, own, endings[2]) != NSI_NONE;
        if (ns_table_column(table, own) != NSI_NONE && !taken) return true;
    }
    return false;
}

static channel make_channel(const ns_table* table, uint32_t column) {
    channel c = {.own = column};
    const char* name = table->names[column];
    uint32_t recorded = find_partner(table, name, endings[RECORDED]);
    for (int k = 0; k < 3; k++) c.columns[k] = find_partner(table, name, endings[k]);
    if (recorded != NSI_NONE && c.columns[2] == NSI_NONE) {
        c.columns[0] = recorded;
        c.columns[2] = column;
        c.replayed = true;
    }
    return c;
}

// Is one of its columns asked for?
static bool is_wanted(const ns_table* table, const channel* c, const char* const* patterns,
                      uint32_t npattern) {
    for (uint32_t k = 0; k < 3 * npattern; k++) {
        uint32_t column = c->columns[k % 3];
        if (column != NSI_NONE && ns_glob_match(patterns[k / 3], table->names[column])) return true;
    }
    return npattern == 0;
}

static ns_status choose_channels(maker* m, const char* file, const char* const* patterns,
                                 uint32_t npattern, ns_error* error) {
    const ns_table* table = m->table;

    // A pattern that matches nothing is most likely a typing error.
    for (uint32_t k = 0; k < npattern; k++) {
        bool found = false;
        for (uint32_t c = 0; c < table->ncol; c++)
            found |= ns_glob_match(patterns[k], table->names[c]);
        if (!found) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "%.200s: there is no column '%.100s'", file,
                            patterns[k]);
        }
    }

    // Channels in table order; patterns may ask for more of them than the default shows.
    uint32_t most = npattern > 0 ? NSI_CURVES_MAX : NSI_CURVES_DEFAULT;
    for (uint32_t c = 0; c < table->ncol; c++) {
        const char* name = table->names[c];
        // Columns that organise the table are no channels.
        if (c == m->t || c == m->traj || c == m->test) continue;
        // Predictions are drawn in the panel of the recorded channel.
        if (is_partner(table, name)) continue;
        channel one = make_channel(table, c);
        if (!is_wanted(table, &one, patterns, npattern)) continue;
        // Without patterns, the first channels are a preview.
        if (m->nchannel == most && npattern == 0) break;
        if (m->nchannel == most) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "%.200s: more than %u columns; choose fewer",
                            file, most);
        }
        m->channels[m->nchannel++] = one;
    }

    // A table of times alone has nothing to plot.
    if (m->nchannel > 0) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT,
                    "%.200s: there are no columns to draw besides t, traj and test", file);
}

static double cell(const maker* m, uint32_t row, uint32_t column) {
    return column == NSI_NONE ? NAN : ns_table_at(m->table, row, column);
}

static bool is_test(const maker* m, uint32_t row) {
    double test = cell(m, row, m->test);
    return !isnan(test) && test != 0.0;
}

static bool begins(const maker* m, uint32_t row) {
    if (row == 0) return true;
    double own = cell(m, row, m->traj), before = cell(m, row - 1, m->traj);
    return own != before && !(isnan(own) && isnan(before));
}

// Rows of the first trajectories: all, or three of each kind, or six where there is one kind.
static bool curves_choose_rows(maker* m) {
    uint32_t nrow = m->table->nrow, kinds[2] = {0, 0}, taken[2] = {0, 0};
    bool chosen = false;
    m->rows = nsi_figures_zeros(m->charts, nrow, sizeof *m->rows);
    if (!m->rows) return false;
    for (uint32_t k = 0; k < nrow; k++) kinds[is_test(m, k)] += begins(m, k);
    m->ntraj = kinds[0] + kinds[1];
    uint32_t half = kinds[0] > 0 && kinds[1] > 0 ? MAX_TRAJECTORIES / 2 : MAX_TRAJECTORIES;
    for (uint32_t k = 0; k < nrow; k++) {
        if (begins(m, k)) {
            bool kind = is_test(m, k);
            chosen = m->ntraj <= MAX_TRAJECTORIES || taken[kind] < half;
            taken[kind] += chosen;
            m->drawn += chosen;
        }
        if (chosen) m->rows[m->count++] = k;
    }
    return true;
}

static double time_of(const maker* m, uint32_t k) {
    return m->t == NSI_NONE ? m->rows[k] : cell(m, m->rows[k], m->t);
}

// Times of the rows; where a trajectory begins before the one before it has ended, it is moved behind
// it. Says whether any was.
static bool place_rows(const maker* m, double* x, bool* breaks) {
    double shift = 0.0, last = -INFINITY, longest = 0.0, from = NAN;
    bool moved = false, fresh = false;
    for (uint32_t k = 0; k < m->count; k++) { // a gap of a fiftieth of the longest
        double t = time_of(m, k);
        breaks[k] = k == 0 || begins(m, m->rows[k]);
        if (breaks[k]) from = NAN;
        if (!isfinite(from)) from = t; // rows without a time may come first
        if (isfinite(t - from)) longest = fmax(longest, t - from);
    }
    for (uint32_t k = 0; k < m->count; k++) {
        double t = time_of(m, k);
        fresh = fresh || breaks[k];
        if (fresh && isfinite(t)) {
            if (t + shift < last) {
                shift = last + 0.02 * longest - t;
                moved = true;
            }
            fresh = false;
        }
        x[k] = t + shift;
        if (isfinite(x[k])) last = fmax(last, x[k]);
    }
    return moved;
}

static bool find_spans(const maker* m, const double* x, ns_line_chart* out) {
    ns_line_span* spans = nsi_figures_zeros(m->charts, m->count, sizeof *spans);
    ns_line_mark* marks = nsi_figures_zeros(m->charts, m->count, sizeof *marks);
    if (!spans || !marks) return false;
    bool inside = false, fresh = false;
    for (uint32_t k = 0; k < m->count; k++) {
        bool test = is_test(m, m->rows[k]);
        fresh = fresh || (k > 0 && begins(m, m->rows[k]));
        if (!isfinite(x[k])) continue;
        if (fresh) marks[out->nmark++] = (ns_line_mark){.x = x[k]};
        if (test && !inside) spans[out->nspan++] = (ns_line_span){x[k], x[k], "test"};
        if (test) {
            ns_line_span* span = &spans[out->nspan - 1];
            span->from = fmin(span->from, x[k]);
            span->to = fmax(span->to, x[k]);
        }
        inside = test;
        fresh = false;
    }
    out->spans = spans;
    out->marks = marks;
    return true;
}

// Values of a column in the rows that are drawn.
static const double* take_column(const maker* m, uint32_t column) {
    double* values = nsi_figures_zeros(m->charts, m->count, sizeof *values);
    for (uint32_t k = 0; values && k < m->count; k++) values[k] = cell(m, m->rows[k], column);
    return values;
}

static bool curves_fill(maker* m, ns_figure* chart) {
    // Predicted files have one simulation, reports of a fit have two.
    static const char* const classes[3] = {"recorded", "before", "after"};
    static const char* const replayed[3] = {"recorded", "before", "predicted"};
    nsi_figures* charts = m->charts;
    uint32_t own[3] = {m->t, m->traj, m->test}, ncolumn = 1;
    // Room for x, t, traj, test and up to three curves per channel.
    ns_figure_column* columns = nsi_figure_table(charts, chart, 4 + 3 * m->nchannel, m->count);
    ns_line_panel* panels = nsi_figures_zeros(charts, m->nchannel, sizeof *panels);
    double* x = nsi_figures_zeros(charts, m->count, sizeof *x);
    bool* breaks = nsi_figures_zeros(charts, m->count, sizeof *breaks);
    if (!columns || !panels || !x || !breaks) return false;

    // Columns that place rows: t, traj, test. Trajectories are laid out one after another.
    bool moved = place_rows(m, x, breaks);
    // The axis is time only if nothing was moved.
    columns[0] = (ns_figure_column){.name = moved || m->t == NSI_NONE ? "x" : "t", .numbers = x};
    for (int k = moved ? 0 : 1; k < 3; k++) {
        if (own[k] == NSI_NONE) continue;
        const double* values = take_column(m, own[k]);
        if (!values) return false;
        columns[ncolumn++] = (ns_figure_column){.name = m->table->names[own[k]], .numbers = values};
    }

    // One panel per channel, with one curve per column: recorded, before, after.
    for (uint32_t c = 0; c < m->nchannel; c++) {
        ns_line_series* series = nsi_figures_zeros(charts, 3, sizeof *series);
        if (!series) return false;
        const channel* from = &m->channels[c];
        bool several = from->columns[1] != NSI_NONE || from->columns[2] != NSI_NONE;
        // A single curve needs no legend.
        const char* const* names = from->replayed ? replayed : classes;
        uint32_t nseries = 0;
        // Panels carry the name of the recorded column.
        panels[c].y.label = nsi_figures_text(charts, "%s", m->table->names[from->own]);
        if (!panels[c].y.label) return false;

        // Curves in a fixed order, so that colours mean the same in all panels.
        for (int k = 0; k < 3; k++) {
            if (from->columns[k] == NSI_NONE) continue;
            const char* name = nsi_figures_text(charts, "%s", m->table->names[from->columns[k]]);
            const double* values = take_column(m, from->columns[k]);
            if (!name || !values) return false;
            columns[ncolumn++] = (ns_figure_column){.name = name, .numbers = values};
            series[nseries++] =
                (ns_line_series){several ? names[k] : NULL, several ? classes[k] : "c0", values};
        }
        panels[c].series = series;
        panels[c].nseries = nseries;
    }

    // The chart refers to the columns of the table.
    chart->ncolumn = ncolumn;
    chart->as.lines = (ns_line_chart){
        .x = x, .count = m->count, .breaks = breaks, .panels = panels, .npanel = m->nchannel};
    chart->as.lines.x_axis.label = m->t == NSI_NONE ? "rows"
                                   : moved          ? "t (s), one trajectory after the other"
                                                    : "t (s)";

    // Shade the spans of test data.
    return find_spans(m, x, &chart->as.lines);
}

ns_status nsi_curves_add_figure(const ns_table* table, const char* file,
                                const char* const* patterns, uint32_t npattern, const char* name,
                                const char* title, nsi_figures* charts, ns_error* error) {
    maker m = {.table = table,
               .t = ns_table_column(table, "t"),
               .traj = ns_table_column(table, "traj"),
               .test = ns_table_column(table, "test"),
               .charts = charts};
    if (table->nrow == 0)
        return nsi_fail(error, NS_ERR_PARSE, "%.200s: the table has no rows", file);
    ns_status status = choose_channels(&m, file, patterns, npattern, error);
    if (status != NS_OK) return status;
    if (!curves_choose_rows(&m)) return nsi_fail_nomem(error);
    const char* whole = m.drawn < m.ntraj ? nsi_figures_text(charts, "%s, %u of %u trajectories",
                                                             title, m.drawn, m.ntraj)
                                          : nsi_figures_text(charts, "%s", title);
    ns_figure* chart = whole ? nsi_figures_add(charts, NS_FIGURE_LINES, name, whole) : NULL;
    return chart && curves_fill(&m, chart) ? NS_OK : nsi_fail_nomem(error);
}
