// Figures of a study of fits: losses while they are trained, what they predict beside what was
// recorded, and errors over the number of training trajectories, or of one fit beside another.

#include "report/format.h"
#include "study/study_fits.h"

#include <math.h>
#include <stdio.h>

static const ns_choice figure_rows[] = {STUDY_FIGURE_MAP(NS_CHOICE_ROW)};
static const ns_choices figure_kinds = NS_CHOICES("figure", figure_rows);

// ---- reading -----------------------------------------------------------------------------------

static const nsi_schema_key figure_mark_keys[] = {
    {"at", NSI_KEY_NUMBER, offsetof(ns_line_mark, x), .required = true, .help = "where it is"},
    {"label", NSI_KEY_TEXT, offsetof(ns_line_mark, label), .required = true, .help = "its text"},
};
static const nsi_schema figure_mark_schema = NSI_SCHEMA("mark", figure_mark_keys, NULL);

static ns_status figure_read_fits(nsi_schema_reader* r, const nsi_yaml_node* list, void* out) {
    study_fits* f = r->context;
    study_figure* figure = out;
    ns_status status = nsi_yaml_check_list(r->yaml, list, r->error);
    if (status == NS_OK && list->count > STUDY_MAX_SHOWN) {
        status = nsi_yaml_fail(r->yaml, list, r->error, "at most 7 fits in a figure");
    }
    for (const nsi_yaml_node* n = list->first; n && status == NS_OK; n = n->next) {
        uint32_t k = nsi_study_find_fit(f, n);
        if (k == NSI_NONE) return f->study->status;
        if (figure->kind == STUDY_FIGURE_LEARNING && f->entries[k].counts[0] == 0) {
            return nsi_yaml_fail(r->yaml, n, r->error,
                                 "a figure of learning needs fits with `trajectories`");
        }
        if (f->entries[k].chosen) figure->fits[figure->nfit++] = &f->entries[k];
    }
    return status;
}

static ns_status figure_check_recordings(nsi_schema_reader* r, const nsi_yaml_node* list,
                                         void* out) {
    const nsi_number_list* numbers = &((study_figure*)out)->recordings;
    for (uint32_t k = 0; k < numbers->count; k++) {
        if (numbers->data[k] != floor(numbers->data[k])) {
            return nsi_yaml_fail(r->yaml, list, r->error, "`recordings` are counted: 0, 1, 2");
        }
    }
    return NS_OK;
}

static ns_status figure_check(nsi_schema_reader* r, const nsi_yaml_node* map, void* out) {
    static double first[] = {0.0};
    study_figure* figure = out;
    bool outlines = figure->kind == STUDY_FIGURE_OUTLINES;
    bool channels = figure->kind == STUDY_FIGURE_PREDICTION || outlines;
    const char* fault = NULL;
    if (channels && figure->channels.count == 0) fault = "`channels` is missing";
    if (outlines && !figure->model) fault = "`model` is missing";
    if (figure->kind == STUDY_FIGURE_BARS && !figure->measure) fault = "`measure` is missing";
    if (outlines && figure->channels.count != 3) {
        fault = "outlines need three channels: x, y, and the angle";
    }
    if (fault) return nsi_yaml_fail(r->yaml, map, r->error, "%s", fault);
    if (figure->recordings.count == 0) figure->recordings = (nsi_number_list){first, 1};
    return NS_OK;
}

static const nsi_schema_key figure_keys[] = {
    {"kind", NSI_KEY_CHOICE, offsetof(study_figure, kind), .choices = &figure_kinds,
     .required = true, .help = "what it shows, below"},
    {"title", NSI_KEY_TEXT, offsetof(study_figure, title), .required = true,
     .help = "of the figure"},
    {"fits", NSI_KEY_OTHER, .read = figure_read_fits, .required = true, .values = "list of names",
     .help = "at most 7"},
    {"channels", NSI_KEY_TEXTS, offsetof(study_figure, channels), .most = STUDY_MAX_CHANNELS,
     .filled = true, .values = "list of names",
     .help = "columns of `predictions.csv`; of `outlines` x, y and the angle"},
    {"against", NSI_KEY_TEXT, offsetof(study_figure, against), .fallback = "(time)",
     .help = "column of the horizontal axis, of `prediction`"},
    {"before", NSI_KEY_TEXT, offsetof(study_figure, before),
     .help = "what the initial values of the first fit are called, if they are to be shown"},
    {"recordings", NSI_KEY_NUMBERS, offsetof(study_figure, recordings), 0.0, 1e9,
     .most = STUDY_MAX_RECORDINGS, .read = figure_check_recordings, .fallback = "(0)",
     .help = "numbers of recordings, those to test on first"},
    {"mark", NSI_KEY_TABLE, offsetof(study_figure, mark), .table = &figure_mark_schema,
     .values = "`{at, label}`", .help = "a line across the figure"},
    {"measure", NSI_KEY_TEXT, offsetof(study_figure, measure), .help = "of `bars`"},
    {"model", NSI_KEY_PATH, offsetof(study_figure, model), .help = "that has the outline"},
};
const nsi_schema nsi_study_figure_schema = NSI_SCHEMA("a figure", figure_keys, figure_check);

static bool figure_read(study_fits* f, const nsi_yaml_node* n, study_figure* out) {
    *out = (study_figure){.kind = -1};
    return nsi_study_read(f->study, &nsi_study_figure_schema, n, f, out);
}

void nsi_study_check_figures(study_fits* f) {
    uint32_t count;
    study_figure out;
    ns_study* s = f->study;
    const nsi_yaml_node* n = nsi_study_list(s, s->yaml.root, "figures", false, &count);
    while (n && figure_read(f, n, &out)) n = n->next;
}

// ---- curves of several fits --------------------------------------------------------------------

const char* const nsi_study_line_styles[STUDY_MAX_SHOWN] = {"c0", "c1", "c2", "c3",
                                                            "c4", "c5", "c6"};

// One x for all, and a series in each panel for everything that is shown: each has points of its own,
// one after the other, and nothing at those of others.
typedef struct study_curves {
    ns_study* study;
    ns_figure* chart;
    uint32_t count, capacity, nseries, npanel;
    double* x;
    bool* breaks;
    ns_line_series* series; // (npanel x nseries)
    ns_line_panel* panels;
} study_curves;

static bool curves_make(study_curves* c, const char* kind, const char* title, uint32_t points,
                        uint32_t npanel, uint32_t nseries, ns_study* s) {
    nsi_figures* charts = &s->charts;
    *c = (study_curves){.study = s, .capacity = points, .nseries = nseries, .npanel = npanel};
    c->chart = nsi_figures_add(charts, NS_FIGURE_LINES, kind, title);
    c->x = nsi_figures_zeros(charts, points + 1, sizeof *c->x);
    c->breaks = nsi_figures_zeros(charts, points + 1, sizeof *c->breaks);
    c->series = nsi_figures_zeros(charts, (size_t)npanel * nseries, sizeof *c->series);
    c->panels = nsi_figures_zeros(charts, npanel, sizeof *c->panels);
    bool ok = c->chart && c->x && c->breaks && c->series && c->panels;

    // Nothing is shown where no value is put.
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
    return ok || nsi_study_fail_nomem(s);
}

static void curves_name(study_curves* c, uint32_t series, const char* name, const char* style) {
    for (uint32_t p = 0; p < c->npanel; p++) {
        c->series[p * c->nseries + series].name = name;
        c->series[p * c->nseries + series].line_style = style;
    }
}

// The next point; its values are put by curves_put().
static void curves_add_point(study_curves* c, double x, bool first) {
    c->x[c->count] = x;
    c->breaks[c->count++] = first;
}

static void curves_put(study_curves* c, uint32_t panel, uint32_t series, double y) {
    double* values = (double*)c->series[panel * c->nseries + series].y;
    values[c->count - 1] = y;
}

// The chart, with all series as columns of its table.
static bool curves_finish(study_curves* c, ns_axis x_axis, const char* const* panel_names) {
    ns_study* s = c->study;
    uint32_t all = c->npanel * c->nseries;
    ns_figure_column* columns = nsi_figure_table(&s->charts, c->chart, all + 1, c->count);
    if (!columns) return nsi_study_fail_nomem(s);
    columns[0] = (ns_figure_column){.name = x_axis.label, .numbers = c->x};
    for (uint32_t k = 0; k < all; k++) {
        const ns_line_series* series = &c->series[k];
        const char* name = nsi_figures_text(&s->charts, panel_names ? "%s: %s" : "%s%s",
                                            panel_names ? panel_names[k / c->nseries] : "",
                                            series->name ? series->name : series->line_style);
        if (!name) return nsi_study_fail_nomem(s);
        columns[k + 1] = (ns_figure_column){.name = name, .numbers = series->y};
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

static bool figure_add_loss(ns_study* s, const study_figure* of) {
    uint32_t points = 0;
    for (uint32_t k = 0; k < of->nfit; k++) {
        points += nsi_study_runs(of->fits[k])->result.history.count;
    }
    study_curves c;
    if (!curves_make(&c, "loss", of->title, points, 1, of->nfit, s)) return false;
    for (uint32_t k = 0; k < of->nfit; k++) {
        const nsi_result* a = &nsi_study_runs(of->fits[k])->result;
        curves_name(&c, k, of->fits[k]->label, nsi_study_line_styles[k]);
        for (uint32_t i = 0; i < a->history.count; i++) {
            const ns_fit_history_point* h = &a->history.data[i];
            curves_add_point(&c, i, i == 0 || h->phase != a->history.data[i - 1].phase);
            curves_put(&c, 0, k, h->value);
        }
    }
    c.panels[0].y = (ns_axis){.label = "loss", .log = true};
    return curves_finish(&c, (ns_axis){.label = "iterations"}, NULL);
}

// ---- learning ----------------------------------------------------------------------------------

// Errors on test data, a panel for each: measures where there are some, else of the longest horizon.
static uint32_t learning_count(const study_entry* x) {
    uint32_t measures = x->runs[0].result.after[NS_ROLE_TEST].nmetric;
    return measures > 0 ? measures : 1;
}

// @param of  measures by their names in the first fit of the figure
static double learning_error(const nsi_result* a, const study_entry* of, uint32_t number) {
    const ns_score *score = &a->after[NS_ROLE_TEST],
                   *names = &of->runs[0].result.after[NS_ROLE_TEST];
    for (uint32_t k = 0; names->nmetric > 0 && k < score->nmetric; k++) {
        if (strcmp(score->metrics[k].name, names->metrics[number].name) == 0) {
            return score->metrics[k].mean;
        }
    }
    if (names->nmetric > 0) return NAN;
    return score->nhorizon > 0 ? score->horizons[score->nhorizon - 1].pooled : score->rmse_q;
}

static const char* learning_name(ns_study* s, const study_entry* x, uint32_t number) {
    const ns_score* score = &x->runs[0].result.after[NS_ROLE_TEST];
    if (score->nmetric == 0) return "error on test data";
    const ns_metric_score* m = &score->metrics[number];
    return nsi_figures_text(&s->charts, *m->unit ? "%s, %s" : "%s%s", m->name, m->unit);
}

// Is there more than one number of trajectories? A smoke run has no others.
static bool learning_is_curve(const study_figure* of) {
    uint32_t points = 0;
    for (uint32_t k = 0; k < of->nfit; k++) points += of->fits[k]->ncount;
    return points > of->nfit;
}

// One line of a figure: the median, least or most of all seeds.
static void learning_add_line(study_curves* c, const study_entry* of, const study_entry* x,
                              uint32_t series, uint32_t line) {
    for (uint32_t n = 0; n < x->ncount; n++) {
        curves_add_point(c, x->counts[n], n == 0);
        for (uint32_t panel = 0; panel < c->npanel; panel++) {
            double values[STUDY_MAX_SEEDS];
            for (uint32_t k = 0; k < x->seeds; k++) {
                values[k] = learning_error(&x->runs[(size_t)n * x->seeds + k].result, of, panel);
            }
            study_spread spread = nsi_study_spread_of(values, x->seeds);
            curves_put(c, panel, series,
                       line == 0 ? spread.median : (line == 1 ? spread.least : spread.most));
        }
    }
}

static bool figure_add_learning(ns_study* s, const study_figure* of) {
    // The first fit determines the panels; all fits are drawn into each of them.
    static const char* const lines[] = {"%s", "%s, best seed", "%s, worst seed"};
    uint32_t points = 0, npanel = learning_count(of->fits[0]);
    // Three points per training-set size: median, best and worst seed.
    for (uint32_t k = 0; k < of->nfit; k++) points += 3 * of->fits[k]->ncount;
    study_curves c;
    if (!curves_make(&c, "learning", of->title, points, npanel, 3 * of->nfit, s)) return false;

    // One panel per metric, on a logarithmic axis.
    const char** names = nsi_figures_zeros(&s->charts, npanel, sizeof *names);
    bool done = names != NULL;
    for (uint32_t k = 0; k < npanel && done; k++) {
        names[k] = learning_name(s, of->fits[0], k);
        c.panels[k].y = (ns_axis){.label = names[k], .log = true};
        done = names[k] != NULL;
    }

    // Three lines per fit, in one line style.
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        const study_entry* x = of->fits[k];
        for (uint32_t line = 0; line < 3 && done; line++) {
            const char* name = nsi_figures_text(&s->charts, lines[line], x->label);
            done = name != NULL;
            curves_name(&c, 3 * k + line, name, nsi_study_line_styles[k]);
            learning_add_line(&c, of->fits[0], x, 3 * k + line, line);
        }
    }

    if (!done) return nsi_study_fail_nomem(s);

    // Training-set sizes are few and spread over decades: logarithmic, with a marker each.
    done = curves_finish(&c, (ns_axis){.label = "training trajectories", .log = true},
                         npanel > 1 ? names : NULL);
    c.chart->as.lines.points = true;
    return done;
}

// ---- predictions -------------------------------------------------------------------------------

// Rows of a recording as points of a series: columns of the channels that end so.
static bool prediction_add_rows(study_fits* f, study_curves* c, const study_figure* of,
                                const ns_table* t, const char* path, double recording,
                                uint32_t series, const char* ending) {
    uint32_t first, end, columns[STUDY_MAX_CHANNELS + 1]; // the last one is across
    if (!nsi_study_find_recording(t, recording, &first, &end)) {
        nsi_study_note(f->study, "%s has no recording %g: the figure is without it", path,
                       recording);
        return true;
    }

    for (uint32_t k = 0; k <= of->channels.count; k++) {
        const char* channel = k < of->channels.count ? of->channels.data[k] : of->against;
        char name[300];
        snprintf(name, sizeof name, "%s%s", channel ? channel : "t", channel ? ending : "");
        columns[k] = ns_table_column(t, name);
        if (columns[k] == NSI_NONE) return nsi_study_fail_column(f, t, path, channel);
    }

    for (uint32_t r = first; r < end && c->count < c->capacity; r++) {
        curves_add_point(c, ns_table_at(t, r, columns[of->channels.count]), r == first);
        for (uint32_t k = 0; k < of->channels.count; k++) {
            curves_put(c, k, series, ns_table_at(t, r, columns[k]));
        }
    }
    return true;
}

// Recorded, the start of the first fit, and the ends of all.
static bool prediction_add_curves(study_fits* f, const study_figure* of, const ns_table* tables,
                                  const char* const* paths, study_curves* c) {
    uint32_t own = of->before ? 2 : 1; // series that are no fit's end
    bool done = true;
    curves_name(c, 0, "recorded", "recorded");
    if (of->before) curves_name(c, 1, of->before, "before");
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        curves_name(c, own + k, of->fits[k]->label, nsi_study_line_styles[k]);
        for (uint32_t r = 0; r < of->recordings.count && done; r++) {
            double recording = of->recordings.data[r];
            const ns_table* t = &tables[k];
            if (k == 0) done = prediction_add_rows(f, c, of, t, paths[k], recording, 0, "");
            if (k == 0 && of->before && done) {
                done = prediction_add_rows(f, c, of, t, paths[k], recording, 1, "/before");
            }
            done = done && prediction_add_rows(f, c, of, t, paths[k], recording, own + k, "/after");
        }
    }
    return done;
}

static bool figure_add_prediction(study_fits* f, const study_figure* of) {
    ns_study* s = f->study;
    // Predictions of each fit, read from its folder.
    ns_table tables[STUDY_MAX_SHOWN];
    const char* paths[STUDY_MAX_SHOWN];
    // Lines besides those of the fits: the recording and, on request, the initial model.
    uint32_t points = 0, own = of->before ? 2 : 1;
    bool done = true;
    memset(tables, 0, sizeof tables);

    // The first table also provides the recording and the initial model.
    for (uint32_t k = 0; k < of->nfit && done; k++) {
        done = nsi_study_read_predictions(f, of->fits[k], &paths[k], &tables[k]);
        points += (k == 0 ? 3 : 1) * tables[k].nrow;
    }

    // One panel per channel.
    study_curves c;
    done = done &&
           curves_make(&c, "prediction", of->title, points, of->channels.count, own + of->nfit, s);

    // The time axis may be replaced by another channel (a phase plot).
    done = done && prediction_add_curves(f, of, tables, paths, &c);
    for (uint32_t k = 0; k < of->channels.count && done; k++) {
        c.panels[k].y = (ns_axis){.label = of->channels.data[k]};
    }
    done = done && curves_finish(&c, (ns_axis){.label = of->against ? of->against : "time, s"},
                                 of->channels.data);

    // Optional vertical line with a label.
    ns_line_mark* mark =
        done && of->mark.label ? nsi_figures_zeros(&s->charts, 1, sizeof *mark) : NULL;
    if (mark) {
        *mark = of->mark;
        c.chart->as.lines.marks = mark;
        c.chart->as.lines.nmark = 1;
    }

    // The chart has its own copy of the numbers.
    for (uint32_t k = 0; k < of->nfit; k++) ns_table_free(&tables[k]);
    return done;
}

// ---- bars --------------------------------------------------------------------------------------

static bool bars_has_measure(const study_figure* of) {
    for (uint32_t k = 0; k < of->nfit; k++) {
        if (!isnan(nsi_study_measure(of->fits[k], NS_ROLE_TRAIN, of->measure)) ||
            !isnan(nsi_study_measure(of->fits[k], NS_ROLE_TEST, of->measure))) {
            return true;
        }
    }
    return false;
}

// A measure of each fit, on what it was trained on and on what it has not seen.
static bool figure_add_bars(ns_study* s, const study_figure* of) {
    nsi_figures* charts = &s->charts;
    // A metric that no fit has is most likely misspelt.
    if (!bars_has_measure(of)) {
        return nsi_study_fail(s, NS_ERR_PARSE, "a figure of bars asks for %s, which no fit has",
                              of->measure);
    }

    // Labels, bars and numbers belong to the chart and live as long as the study.
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_BARS, "bars", of->title);
    const char** labels = nsi_figures_zeros(charts, of->nfit, sizeof *labels);
    ns_bar* bars = nsi_figures_zeros(charts, 2 * (size_t)of->nfit, sizeof *bars);
    double* numbers = nsi_figures_zeros(charts, 2 * (size_t)of->nfit, sizeof *numbers);
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 3, of->nfit) : NULL;
    bool done = labels && bars && numbers && columns;

    // Two bars per fit: training data, then held-out data.
    for (uint32_t k = 0; k < 2 * of->nfit && done; k++) {
        const study_entry* x = of->fits[k / 2];
        ns_data_role role = k % 2 == 0 ? NS_ROLE_TRAIN : NS_ROLE_TEST;
        // A fit without this metric has an empty bar.
        double value = nsi_study_measure(x, role, of->measure);
        const char* text =
            isnan(value) ? "" : nsi_figures_text(charts, "%s", nsi_format(value, 3).text);
        labels[k / 2] = x->label;
        // The table has one column per data set, the bars one group per fit.
        numbers[k % 2 * of->nfit + k / 2] = value;
        bars[k] = (ns_bar){value, of->mark.label ? of->mark.x : NAN, text};
        done = text != NULL;
    }
    if (!done) return nsi_study_fail_nomem(s);

    // The same numbers as a table, for the JSON and text reports.
    columns[0] = (ns_figure_column){.name = "model", .texts = labels};
    columns[1] = (ns_figure_column){.name = "trained on", .numbers = numbers};
    columns[2] = (ns_figure_column){.name = "unseen", .numbers = numbers + of->nfit};

    // Optional mark: a reference value to compare all bars with.
    chart->as.bars =
        (ns_bar_chart){labels, bars, of->nfit, 2, {"trained on", "unseen"}, of->mark.label};
    return true;
}

// ------------------------------------------------------------------------------------------------

bool nsi_study_make_figures(study_fits* f) {
    ns_study* s = f->study;
    uint32_t count;
    study_figure of;
    const nsi_yaml_node* n = nsi_study_list(s, s->yaml.root, "figures", false, &count);
    for (bool done = true; n && done; n = n->next) {
        if (!figure_read(f, n, &of)) return false;
        if (of.nfit == 0) continue; // a smoke run has none of them
        switch ((study_figure_kind)of.kind) {
        case STUDY_FIGURE_LOSS: done = figure_add_loss(s, &of); break;
        case STUDY_FIGURE_PREDICTION: done = figure_add_prediction(f, &of); break;
        case STUDY_FIGURE_LEARNING:
            done = !learning_is_curve(&of) || figure_add_learning(s, &of);
            break;
        case STUDY_FIGURE_BARS: done = figure_add_bars(s, &of); break;
        case STUDY_FIGURE_OUTLINES: done = nsi_study_add_outlines(f, &of); break;
        case STUDY_FIGURE_SUPPORTS: done = nsi_study_add_supports(f, &of); break;
        }
    }
    return s->status == NS_OK;
}
