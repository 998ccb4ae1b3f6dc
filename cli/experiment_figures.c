// Figures of an experiment of fits: losses while they are trained, what they predict beside what was
// recorded, and errors over the number of training trajectories, or of one fit beside another.

#include "cli.h"
#include "experiment_fits.h"
#include "fit/result_words.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const ns_choice figure_rows[] = {FITS_FIGURE_MAP(NS_CHOICE_ROW)};
static const ns_choices figure_kinds = NS_CHOICES("figure", figure_rows);

// ---- reading -----------------------------------------------------------------------------------

static const nsi_schema_key mark_keys[] = {
    {"at", NSI_KEY_NUMBER, offsetof(ns_line_mark, x), .required = true, .help = "where it is"},
    {"label", NSI_KEY_TEXT, offsetof(ns_line_mark, label), .required = true, .help = "its text"},
};
static const nsi_schema mark_schema = NSI_SCHEMA("mark", mark_keys, NULL);

static ns_status read_figure_fits(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    fits* f = r->context;
    fits_figure* figure = out;
    ns_status status = nsi_yaml_check_list(r->yaml, list, r->error);
    if (status == NS_OK && list->count > FITS_MOST_SHOWN) {
        status = nsi_yaml_fail(r->yaml, list, r->error, "at most 7 fits in a figure");
    }
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        uint32_t k = fits_find(f, n);
        if (k == NSI_NONE) return f->e->status;
        if (figure->kind == FITS_FIGURE_LEARNING && f->entries[k].counts[0] == 0) {
            return nsi_yaml_fail(r->yaml, n, r->error,
                                 "a figure of learning needs fits with `trajectories`");
        }
        if (f->entries[k].chosen) figure->fits[figure->nfit++] = &f->entries[k];
    }
    return status;
}

static ns_status check_recordings(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    const nsi_number_list* numbers = &((fits_figure*)out)->recordings;
    for (uint32_t k = 0; k < numbers->count; k++) {
        if (numbers->data[k] != floor(numbers->data[k])) {
            return nsi_yaml_fail(r->yaml, list, r->error, "`recordings` are counted: 0, 1, 2");
        }
    }
    return NS_OK;
}

static ns_status check_figure(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    fits_figure* figure = out;
    static double first[] = {0.0};
    bool outlines = figure->kind == FITS_FIGURE_OUTLINES;
    bool channels = figure->kind == FITS_FIGURE_PREDICTION || outlines;
    const char* fault = NULL;
    if (channels && figure->channels.count == 0) fault = "`channels` is missing";
    if (outlines && !figure->model) fault = "`model` is missing";
    if (figure->kind == FITS_FIGURE_BARS && !figure->measure) fault = "`measure` is missing";
    if (outlines && figure->channels.count != 3) {
        fault = "outlines need three channels: x, y, and the angle";
    }
    if (fault) return nsi_yaml_fail(r->yaml, map, r->error, "%s", fault);
    if (figure->recordings.count == 0) figure->recordings = (nsi_number_list){first, 1};
    return NS_OK;
}

static const nsi_schema_key figure_keys[] = {
    {"kind", NSI_KEY_CHOICE, offsetof(fits_figure, kind), .choices = &figure_kinds,
     .required = true, .help = "what it shows, below"},
    {"title", NSI_KEY_TEXT, offsetof(fits_figure, title), .required = true,
     .help = "of the figure"},
    {"fits", NSI_KEY_OTHER, .read = read_figure_fits, .required = true, .values = "list of names",
     .help = "at most 7"},
    {"channels", NSI_KEY_TEXTS, offsetof(fits_figure, channels), .most = FITS_MOST_CHANNELS,
     .filled = true, .values = "list of names",
     .help = "columns of `predictions.csv`; of `outlines` x, y and the angle"},
    {"against", NSI_KEY_TEXT, offsetof(fits_figure, against), .fallback = "(time)",
     .help = "column of the horizontal axis, of `prediction`"},
    {"before", NSI_KEY_TEXT, offsetof(fits_figure, before),
     .help = "what the initial values of the first fit are called, if they are to be shown"},
    {"recordings", NSI_KEY_NUMBERS, offsetof(fits_figure, recordings), 0.0, 1e9,
     .most = FITS_MOST_RECORDINGS, .read = check_recordings, .fallback = "(0)",
     .help = "numbers of recordings, those to test on first"},
    {"mark", NSI_KEY_TABLE, offsetof(fits_figure, mark), .table = &mark_schema,
     .values = "`{at, label}`", .help = "a line across the figure"},
    {"measure", NSI_KEY_TEXT, offsetof(fits_figure, measure), .help = "of `bars`"},
    {"model", NSI_KEY_PATH, offsetof(fits_figure, model), .help = "that has the outline"},
};
const nsi_schema study_figure_schema = NSI_SCHEMA("a figure", figure_keys, check_figure);

static bool read_figure(fits* f, const nsi_yaml_node* n, fits_figure* out) {
    *out = (fits_figure){.kind = -1};
    return experiment_read(f->e, &study_figure_schema, n, f, out);
}

void fits_check_figures(fits* f) {
    uint32_t count;
    fits_figure out;
    const nsi_yaml_node* n = experiment_list(f->e, f->e->yaml.root, "figures", false, &count);
    while (n && read_figure(f, n, &out)) n = n->next;
}

// ---- curves of several fits --------------------------------------------------------------------

const char* const fits_classes[FITS_MOST_SHOWN] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6"};

// One x for all, and a series in each panel for everything that is shown: each has points of its own,
// one after the other, and nothing at those of others.
typedef struct curves {
    nsi_figures* charts;
    ns_figure* chart;
    uint32_t count, capacity, nseries, npanel;
    double* x;
    bool* breaks;
    ns_line_series* series; // (npanel x nseries)
    ns_line_panel* panels;
} curves;

static bool make_curves(curves* c, const char* kind, const char* title, uint32_t points,
                        uint32_t npanel, uint32_t nseries, nsi_figures* charts) {
    *c = (curves){.charts = charts, .capacity = points, .nseries = nseries, .npanel = npanel};
    c->chart = nsi_figures_add(charts, NS_FIGURE_LINES, kind, title);
    c->x = nsi_figures_zeros(charts, points + 1, sizeof *c->x);
    c->breaks = nsi_figures_zeros(charts, points + 1, sizeof *c->breaks);
    c->series = nsi_figures_zeros(charts, (size_t)npanel * nseries, sizeof *c->series);
    c->panels = nsi_figures_zeros(charts, npanel, sizeof *c->panels);
    bool ok = c->chart && c->x && c->breaks && c->series && c->panels;
    for (uint32_t k = 0; ok && k < npanel * nseries; k++) {
        double* y = nsi_figures_zeros(charts, points + 1, sizeof *y);
        for (uint32_t i = 0; y && i < points; i++) y[i] = NAN;
        c->series[k].y = y;
        ok = y != NULL;
    }
    for (uint32_t p = 0; ok && p < npanel; p++) {
        c->panels[p] =
            (ns_line_panel){.series = c->series + (size_t)p * nseries, .nseries = nseries};
    }
    if (!ok) cli_fail("out of memory");
    return ok;
}

static void name_series(curves* c, uint32_t series, const char* name, const char* class) {
    for (uint32_t p = 0; p < c->npanel; p++) {
        c->series[p * c->nseries + series].name = name;
        c->series[p * c->nseries + series].line_style = class;
    }
}

// The next point; its values are put by put().
static void add_point(curves* c, double x, bool first) {
    c->x[c->count] = x;
    c->breaks[c->count++] = first;
}

static void put(curves* c, uint32_t panel, uint32_t series, double y) {
    double* values = (double*)c->series[panel * c->nseries + series].y;
    values[c->count - 1] = y;
}

// The chart, with all series as columns of its table.
static bool finish_curves(curves* c, ns_axis x_axis, const char* const* panel_names) {
    uint32_t all = c->npanel * c->nseries;
    ns_figure_column* columns = nsi_figure_table(c->charts, c->chart, all + 1, c->count);
    if (!columns) return cli_fail("out of memory"), false;
    columns[0] = (ns_figure_column){.name = x_axis.label, .numbers = c->x};
    for (uint32_t k = 0; k < all; k++) {
        const ns_line_series* s = &c->series[k];
        const char* name = nsi_figures_text(c->charts, panel_names ? "%s: %s" : "%s%s",
                                            panel_names ? panel_names[k / c->nseries] : "",
                                            s->name ? s->name : s->line_style);
        if (!name) return cli_fail("out of memory"), false;
        columns[k + 1] = (ns_figure_column){.name = name, .numbers = s->y};
    }
    c->chart->as.lines = (ns_line_chart){.x_axis = x_axis,
                                         .x = c->x,
                                         .count = c->count,
                                         .breaks = c->breaks,
                                         .panels = c->panels,
                                         .npanel = c->npanel};
    return true;
}

// ---- loss --------------------------------------------------------------------------------------

static bool add_loss(const fits_figure* of, nsi_figures* charts) {
    uint32_t points = 0;
    for (uint32_t k = 0; k < of->nfit; k++) points += fits_runs(of->fits[k])->answer.history.count;
    curves c;
    if (!make_curves(&c, "loss", of->title, points, 1, of->nfit, charts)) return false;
    for (uint32_t k = 0; k < of->nfit; k++) {
        const nsi_result* a = &fits_runs(of->fits[k])->answer;
        name_series(&c, k, of->fits[k]->label, fits_classes[k]);
        for (uint32_t i = 0; i < a->history.count; i++) {
            const ns_fit_history_point* h = &a->history.data[i];
            add_point(&c, i, i == 0 || h->phase != a->history.data[i - 1].phase);
            put(&c, 0, k, h->value);
        }
    }
    c.panels[0].y = (ns_axis){.label = "loss", .log = true};
    return finish_curves(&c, (ns_axis){.label = "iterations"}, NULL);
}

// ---- learning ----------------------------------------------------------------------------------

// Errors on test data, a panel for each: measures where there are some, else of the longest horizon.
static uint32_t error_count(const fits_entry* x) {
    uint32_t measures = x->runs[0].answer.after[NS_ROLE_TEST].nmetric;
    return measures > 0 ? measures : 1;
}

// @param of  measures by their names in the first fit of the figure
static double test_error(const nsi_result* a, const fits_entry* of, uint32_t number) {
    const ns_score *s = &a->after[NS_ROLE_TEST],
                    *names = &of->runs[0].answer.after[NS_ROLE_TEST];
    for (uint32_t k = 0; names->nmetric > 0 && k < s->nmetric; k++) {
        if (strcmp(s->metrics[k].name, names->metrics[number].name) == 0) {
            return s->metrics[k].mean;
        }
    }
    if (names->nmetric > 0) return NAN;
    return s->nhorizon > 0 ? s->horizons[s->nhorizon - 1].pooled : s->rmse_q;
}

static const char* error_name(const fits_entry* x, uint32_t number, nsi_figures* charts) {
    const ns_score* s = &x->runs[0].answer.after[NS_ROLE_TEST];
    if (s->nmetric == 0) return "error on test data";
    const ns_metric_score* m = &s->metrics[number];
    return nsi_figures_text(charts, *m->unit ? "%s, %s" : "%s%s", m->name, m->unit);
}

// Is there more than one number of trajectories? A quick run has no others.
static bool is_curve(const fits_figure* of) {
    uint32_t points = 0;
    for (uint32_t k = 0; k < of->nfit; k++) points += of->fits[k]->ncount;
    return points > of->nfit;
}

// One line of a figure: the median, least or most of all seeds.
static void add_learning_line(curves* c, const fits_entry* of, const fits_entry* x, uint32_t series,
                              uint32_t line) {
    for (uint32_t n = 0; n < x->ncount; n++) {
        add_point(c, x->counts[n], n == 0);
        for (uint32_t panel = 0; panel < c->npanel; panel++) {
            double values[FITS_MOST_SEEDS];
            for (uint32_t s = 0; s < x->seeds; s++) {
                values[s] = test_error(&x->runs[(size_t)n * x->seeds + s].answer, of, panel);
            }
            fits_spread spread = fits_spread_of(values, x->seeds);
            put(c, panel, series,
                line == 0 ? spread.median : (line == 1 ? spread.least : spread.most));
        }
    }
}

static bool add_learning(const fits_figure* of, nsi_figures* charts) {
    uint32_t points = 0, npanel = error_count(of->fits[0]);
    for (uint32_t k = 0; k < of->nfit; k++) points += 3 * of->fits[k]->ncount;
    curves c;
    if (!make_curves(&c, "learning", of->title, points, npanel, 3 * of->nfit, charts)) return false;
    const char** names = nsi_figures_zeros(charts, npanel, sizeof *names);
    bool done = names != NULL;
    for (uint32_t k = 0; k < npanel && done; k++) {
        names[k] = error_name(of->fits[0], k, charts);
        c.panels[k].y = (ns_axis){.label = names[k], .log = true};
        done = names[k] != NULL;
    }
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        const fits_entry* x = of->fits[k];
        static const char* const lines[] = {"%s", "%s, best seed", "%s, worst seed"};
        for (uint32_t line = 0; line < 3 && done; line++) {
            const char* name = nsi_figures_text(charts, lines[line], x->label);
            done = name != NULL;
            name_series(&c, 3 * k + line, name, fits_classes[k]);
            add_learning_line(&c, of->fits[0], x, 3 * k + line, line);
        }
    }
    if (!done) return cli_fail("out of memory"), false;
    done = finish_curves(&c, (ns_axis){.label = "training trajectories", .log = true},
                         npanel > 1 ? names : NULL);
    c.chart->as.lines.points = true;
    return done;
}

// ---- predictions -------------------------------------------------------------------------------

// Rows of a recording as points of a series: columns of the channels that end so.
static bool add_rows(curves* c, const fits_figure* of, const ns_table* t, const char* path,
                     double recording, uint32_t series, const char* ending) {
    uint32_t first, end, columns[FITS_MOST_CHANNELS + 1]; // the last one is across
    if (!fits_find_recording(t, recording, &first, &end)) {
        cli_note("%s has no recording %g: the figure is without it", path, recording);
        return true;
    }
    for (uint32_t k = 0; k <= of->channels.count; k++) {
        const char* channel = k < of->channels.count ? of->channels.data[k] : of->against;
        char name[300];
        snprintf(name, sizeof name, "%s%s", channel ? channel : "t", channel ? ending : "");
        columns[k] = ns_table_column(t, name);
        if (columns[k] == NSI_NONE) return fits_fail_column(t, path, channel);
    }
    for (uint32_t r = first; r < end && c->count < c->capacity; r++) {
        add_point(c, ns_table_at(t, r, columns[of->channels.count]), r == first);
        for (uint32_t k = 0; k < of->channels.count; k++) {
            put(c, k, series, ns_table_at(t, r, columns[k]));
        }
    }
    return true;
}

// Recorded, the start of the first fit, and the ends of all.
static bool add_prediction(fits* f, const fits_figure* of, nsi_figures* charts) {
    ns_table tables[FITS_MOST_SHOWN];
    memset(tables, 0, sizeof tables);
    const char* paths[FITS_MOST_SHOWN];
    uint32_t points = 0, own = of->before ? 2 : 1; // series that are no fit's end
    bool done = true;
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        done = fits_read_predictions(f, of->fits[k], &paths[k], &tables[k]);
        points += (k == 0 ? 3 : 1) * tables[k].nrow;
    }
    curves c;
    done = done && make_curves(&c, "prediction", of->title, points, of->channels.count,
                               own + of->nfit, charts);
    if (done) name_series(&c, 0, "recorded", "recorded");
    if (done && of->before) name_series(&c, 1, of->before, "before");
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        name_series(&c, own + k, of->fits[k]->label, fits_classes[k]);
        for (uint32_t r = 0; r < of->recordings.count && done; r++) {
            double recording = of->recordings.data[r];
            if (k == 0) done = add_rows(&c, of, &tables[k], paths[k], recording, 0, "");
            if (k == 0 && of->before && done) {
                done = add_rows(&c, of, &tables[k], paths[k], recording, 1, "/before");
            }
            done = done && add_rows(&c, of, &tables[k], paths[k], recording, own + k, "/after");
        }
    }
    for (uint32_t k = 0; k < of->channels.count && done; k++) {
        c.panels[k].y = (ns_axis){.label = of->channels.data[k]};
    }
    done = done && finish_curves(&c, (ns_axis){.label = of->against ? of->against : "time, s"},
                                 of->channels.data);
    if (done && of->mark.label) {
        ns_line_mark* mark = nsi_figures_zeros(charts, 1, sizeof *mark);
        if (mark) {
            *mark = of->mark;
            c.chart->as.lines.marks = mark;
            c.chart->as.lines.nmark = 1;
        }
    }
    for (uint32_t k = 0; k < of->nfit; k++) ns_table_free(&tables[k]);
    return done;
}

// ---- bars --------------------------------------------------------------------------------------

// A measure of each fit, on what it was trained on and on what it has not seen.
static bool add_bars(const fits_figure* of, nsi_figures* charts) {
    bool any = false;
    for (uint32_t k = 0; k < of->nfit; k++) {
        any |= !isnan(fits_measure(of->fits[k], NS_ROLE_TRAIN, of->measure)) ||
               !isnan(fits_measure(of->fits[k], NS_ROLE_TEST, of->measure));
    }
    if (!any) return cli_fail("a figure of bars asks for %s, which no fit has", of->measure), false;
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_BARS, "bars", of->title);
    const char** labels = nsi_figures_zeros(charts, of->nfit, sizeof *labels);
    ns_bar* bars = nsi_figures_zeros(charts, 2 * (size_t)of->nfit, sizeof *bars);
    double* numbers = nsi_figures_zeros(charts, 2 * (size_t)of->nfit, sizeof *numbers);
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 3, of->nfit) : NULL;
    bool done = labels && bars && numbers && columns;
    for (uint32_t k = 0; k < 2 * of->nfit && done; k++) {
        const fits_entry* x = of->fits[k / 2];
        ns_data_role role = k % 2 == 0 ? NS_ROLE_TRAIN : NS_ROLE_TEST;
        double value = fits_measure(x, role, of->measure);
        const char* text =
            isnan(value) ? "" : nsi_figures_text(charts, "%s", nsi_format(value, 3).text);
        labels[k / 2] = x->label;
        numbers[k % 2 * of->nfit + k / 2] = value;
        bars[k] = (ns_bar){value, of->mark.label ? of->mark.x : NAN, text};
        done = text != NULL;
    }
    if (!done) return cli_fail("out of memory"), false;
    columns[0] = (ns_figure_column){.name = "model", .texts = labels};
    columns[1] = (ns_figure_column){.name = "trained on", .numbers = numbers};
    columns[2] = (ns_figure_column){.name = "unseen", .numbers = numbers + of->nfit};
    chart->as.bars =
        (ns_bar_chart){labels, bars, of->nfit, 2, {"trained on", "unseen"}, of->mark.label};
    return true;
}

// ------------------------------------------------------------------------------------------------

bool fits_make_figures(fits* f) {
    uint32_t count;
    fits_figure of;
    const nsi_yaml_node* n = experiment_list(f->e, f->e->yaml.root, "figures", false, &count);
    for (; n; n = n->next) {
        if (!read_figure(f, n, &of)) return experiment_complain(f->e) == EXIT_OK;
        bool done = true;
        if (of.nfit == 0) continue; // a quick run has none of them
        if (of.kind == FITS_FIGURE_LOSS) done = add_loss(&of, &f->charts);
        if (of.kind == FITS_FIGURE_LEARNING && is_curve(&of)) done = add_learning(&of, &f->charts);
        if (of.kind == FITS_FIGURE_PREDICTION) done = add_prediction(f, &of, &f->charts);
        if (of.kind == FITS_FIGURE_BARS) done = add_bars(&of, &f->charts);
        if (of.kind == FITS_FIGURE_OUTLINES) done = fits_add_outlines(f, &of);
        if (of.kind == FITS_FIGURE_SUPPORTS) done = fits_add_supports(f, &of);
        if (!done) return false;
    }
    return true;
}
