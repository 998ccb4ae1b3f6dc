// The page of an experiment of kind `walk`: tables, figures, and the robots in 3D. A page shows one
// robot; others have a page of their own, which the first one links.

#include "experiment_walk.h"
#include "report/format.h"
#include "report/html.h"
#include "report/motion_data.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 50, GAIT_SECONDS = 3, QUANTILES = 199 }; // frames a second

static const char* const classes[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
static const char* const leg_names[QUAD_LEGS] = {"front right", "front left", "rear right",
                                                 "rear left"};

// Does the page of this robot show this run?
static bool is_shown(const walk_run* r, uint32_t robot) {
    return r->show && r->robot == robot && r->trace.count > 0;
}

static bool has_any(const walk_experiment* w, uint32_t robot) {
    for (uint32_t k = 0; k < w->nrun; k++) {
        if (is_shown(&w->runs[k], robot)) return true;
    }
    return false;
}

// ---- tables ------------------------------------------------------------------------------------

static void add_runs(const walk_experiment* w, nsi_text_builder* page) {
    nsi_html_open_table(page,
                        "<run|falls|m/s|forward|sideways|rad/s|m/s, each moment|height, m|its "
                        "mean|tilt, rad|decision, us|99 %|times real time");
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        nsi_text_add(page, "<tr>");
        nsi_html_cell(page, "l", r->label);
        nsi_text_add(page, "<td%s>%u of %u</td>", r->sum.falls ? " class=\"bad\"" : "",
                     r->sum.falls, r->seeds);
        const double numbers[] = {walk_speed_error(&r->sum),
                                  r->sum.velocity[0],
                                  r->sum.velocity[1],
                                  r->sum.velocity[2],
                                  hypot(r->sum.raw[0], r->sum.raw[1]),
                                  r->sum.height,
                                  r->sum.bias,
                                  r->sum.tilt,
                                  1e6 * walk_quantile(&r->times, 0.5),
                                  1e6 * walk_quantile(&r->times, 0.99),
                                  r->sum.seconds / r->sum.cpu};
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            nsi_html_number(page, numbers[i], i < 7 ? 3 : 2);
        }
        nsi_text_add(page, "</tr>\n");
    }
    nsi_html_close_table(page);
    nsi_text_add(
        page, "<p class=\"faint\">Errors are root mean squares against the command: of velocities "
              "averaged over a stride, then of each moment, and of the height of the trunk. A "
              "decision is all that the controller does in a control period.</p>\n");
}

static void add_policies(const walk_experiment* w, nsi_text_builder* page) {
    if (w->npolicy == 0) return;
    nsi_text_add(page, "<h2>Networks</h2>\n<ul>\n");
    for (uint32_t k = 0; k < w->npolicy; k++) {
        const walk_policy* p = &w->policies[k];
        nsi_text_add(page, "<li>");
        nsi_html_text(page, p->label);
        if (p->from == NSI_NONE) {
            nsi_text_add(page,
                         ": %u weights, %u transitions; torques are %s N m off, %s on held-out "
                         "ones, of %s",
                         p->policy->nweight, p->transitions, nsi_format(p->imitated.train, 2).text,
                         nsi_format(p->imitated.held, 2).text,
                         nsi_format(p->imitated.spread, 3).text);
        } else {
            nsi_text_add(page,
                         ": %u iterations through the simulator, %u kept; on validation seeds "
                         "%s to %s m/s, %s to %s m",
                         p->tune.iterations, p->best,
                         nsi_format(walk_speed_error(&p->first), 3).text,
                         nsi_format(walk_speed_error(&p->last), 3).text,
                         nsi_format(p->first.height, 3).text, nsi_format(p->last.height, 3).text);
        }
        nsi_text_add(page, "; %s s. <a href=\"", nsi_format(p->took, 2).text);
        nsi_html_text(page, p->name);
        nsi_text_add(page, ".safetensors\">weights</a>, <a href=\"");
        nsi_html_text(page, p->name);
        nsi_text_add(page, ".c\">C</a></li>\n");
    }
    nsi_text_add(page, "</ul>\n");
}

static void add_disturbances(const walk_experiment* w, nsi_text_builder* page) {
    if (w->ndisturbance == 0) return;
    nsi_text_add(page,
                 "<h2>Disturbed</h2>\n<p class=\"faint\">%u runs of %s s each: falls, error of the "
                 "velocity in m/s, of the height in m. Errors are up to a fall.</p>\n"
                 "<table><tr><th class=\"l\">disturbance</th>",
                 w->disturbed_seeds, nsi_format_short(w->disturbed_seconds, 3).text);
    for (uint32_t k = 0; k < w->ndisturbed; k++) {
        nsi_text_add(page, "<th colspan=\"3\">");
        nsi_html_text(page, w->runs[w->disturbed[k]].label);
        nsi_text_add(page, "</th>");
    }
    nsi_text_add(page, "</tr>\n");
    for (uint32_t d = 0; d < w->ndisturbance; d++) {
        nsi_text_add(page, "<tr>");
        nsi_html_cell(page, "l", w->disturbances[d].label);
        for (uint32_t k = 0; k < w->ndisturbed; k++) {
            const quad_walk_result* r = &w->disturbances[d].sums[k];
            nsi_text_add(page, "<td%s>%u</td>", r->falls ? " class=\"bad\"" : "", r->falls);
            nsi_html_number(page, walk_speed_error(r), 2);
            nsi_html_number(page, r->height, 2);
        }
        nsi_text_add(page, "</tr>\n");
    }
    nsi_text_add(page, "</table>\n");
}

// ---- figures -----------------------------------------------------------------------------------

// Wanted and reached velocities, and the height, of the first seed of all shown runs of a robot.
static bool chart_motion(const walk_experiment* w, uint32_t robot, nsi_figures* charts) {
    static const char* const axes[] = {"forward, m/s", "to the left, m/s", "turning, rad/s",
                                       "height, m"};
    uint32_t count = 0, nshown = 0;
    for (uint32_t k = 0; k < w->nrun; k++) {
        if (!is_shown(&w->runs[k], robot)) continue;
        nshown++;
        if (w->runs[k].trace.count > count) count = w->runs[k].trace.count;
    }
    ns_figure* chart = nsi_figures_add(charts, NS_FIGURE_LINES,
                                       nsi_figures_text(charts, "motion_%s", w->robots[robot].name),
                                       "Wanted and reached, each moment, of the first seed");
    ns_figure_column* columns =
        chart ? nsi_figure_table(charts, chart, 4 * (nshown + 1) + 1, count) : NULL;
    double* time = nsi_figures_zeros(charts, count, sizeof *time);
    ns_line_panel* panels = nsi_figures_zeros(charts, 4, sizeof *panels);
    if (!columns || !time || !panels) return false;
    for (uint32_t n = 0; n < count; n++) time[n] = 1e-3 * n * walk_period(robot);
    *columns++ = (ns_figure_column){.name = "t", .numbers = time};
    for (int panel = 0; panel < 4; panel++) {
        ns_line_series* series = nsi_figures_zeros(charts, nshown + 1, sizeof *series);
        double* wanted = nsi_figures_zeros(charts, count, sizeof *wanted);
        if (!series || !wanted) return false;
        uint32_t at = 1;
        for (uint32_t k = 0; k < w->nrun; k++) {
            const walk_run* r = &w->runs[k];
            if (!is_shown(r, robot)) continue;
            double* y = nsi_figures_zeros(charts, count, sizeof *y);
            if (!y) return false;
            for (uint32_t n = 0; n < count; n++) {
                bool there = n < r->trace.count;
                y[n] = !there      ? (double)NAN
                       : panel < 3 ? r->trace.velocity[n][panel]
                                   : r->trace.height[n];
                if (there) {
                    wanted[n] =
                        panel < 3 ? r->trace.wanted[n][panel] : w->robots[robot].body_height;
                }
            }
            series[at] = (ns_line_series){.name = r->label, .line_style = classes[at % 8], .y = y};
            at++;
            *columns++ = (ns_figure_column){
                .name = nsi_figures_text(charts, "%s, %s", r->name, axes[panel]), .numbers = y};
        }
        series[0] = (ns_line_series){.name = "wanted", .line_style = "recorded", .y = wanted};
        *columns++ = (ns_figure_column){.name = nsi_figures_text(charts, "wanted, %s", axes[panel]),
                                        .numbers = wanted};
        panels[panel] =
            (ns_line_panel){.y = {.label = axes[panel]}, .series = series, .nseries = nshown + 1};
    }
    chart->as.lines = (ns_line_chart){
        .x_axis = {.label = "time, s"}, .x = time, .count = count, .panels = panels, .npanel = 4};
    return true;
}

// Which feet stand by the controller, and which touch the ground: 1 or 0, for some seconds.
static bool chart_gait(const walk_run* r, nsi_figures* charts) {
    const walk_trace* t = &r->trace;
    uint32_t count = 0;
    while (count < t->count && t->time[count] < GAIT_SECONDS) count++;
    ns_figure* chart =
        nsi_figures_add(charts, NS_FIGURE_LINES, nsi_figures_text(charts, "gait_%s", r->name),
                        nsi_figures_text(charts, "Feet that stand and touch: %s", r->label));
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 9, count) : NULL;
    ns_line_panel* panels = nsi_figures_zeros(charts, QUAD_LEGS, sizeof *panels);
    if (!columns || !panels) return false;
    *columns++ = (ns_figure_column){.name = "t", .numbers = t->time};
    for (int leg = 0; leg < QUAD_LEGS; leg++) {
        ns_line_series* series = nsi_figures_zeros(charts, 2, sizeof *series);
        double* y[3]; // the last is the second a little lower, so that both can be seen
        for (int k = 0; k < 3; k++) y[k] = nsi_figures_zeros(charts, count, sizeof *y[k]);
        if (!series || !y[0] || !y[1] || !y[2]) return false;
        for (uint32_t n = 0; n < count; n++) {
            y[0][n] = t->stands[n][leg];
            y[1][n] = t->touches[n][leg];
            y[2][n] = 0.9 * y[1][n];
        }
        series[0] = (ns_line_series){.name = "is given a force", .line_style = "c0", .y = y[0]};
        series[1] = (ns_line_series){.name = "touches", .line_style = "c1", .y = y[2]};
        panels[leg] =
            (ns_line_panel){.y = {.label = leg_names[leg]}, .series = series, .nseries = 2};
        for (int k = 0; k < 2; k++) {
            *columns++ = (ns_figure_column){
                .name = nsi_figures_text(charts, "%s %s", leg_names[leg], k ? "touches" : "stands"),
                .numbers = y[k]};
        }
    }
    chart->as.lines = (ns_line_chart){.x_axis = {.label = "time, s"},
                                      .x = t->time,
                                      .count = count,
                                      .panels = panels,
                                      .npanel = QUAD_LEGS};
    return true;
}

// How long decisions take: quantiles of shown runs.
static bool chart_times(const walk_experiment* w, nsi_figures* charts) {
    uint32_t nshown = 0, at = 0;
    for (uint32_t k = 0; k < w->nrun; k++) nshown += w->runs[k].show;
    ns_figure* chart =
        nsi_figures_add(charts, NS_FIGURE_LINES, "times", "Time for a decision, all of it");
    ns_figure_column* columns =
        chart ? nsi_figure_table(charts, chart, nshown + 1, QUANTILES) : NULL;
    double* share = nsi_figures_zeros(charts, QUANTILES, sizeof *share);
    ns_line_series* series = nsi_figures_zeros(charts, nshown, sizeof *series);
    ns_line_panel* panel = nsi_figures_zeros(charts, 1, sizeof *panel);
    if (!columns || !share || !series || !panel) return false;
    for (uint32_t n = 0; n < QUANTILES; n++) share[n] = 100.0 * (n + 1) / (QUANTILES + 1);
    *columns++ = (ns_figure_column){.name = "percent", .numbers = share};
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        if (!r->show) continue;
        double* y = nsi_figures_zeros(charts, QUANTILES, sizeof *y);
        if (!y) return false;
        for (uint32_t n = 0; n < QUANTILES; n++) {
            y[n] = 1e6 * walk_quantile(&r->times, 0.01 * share[n]);
        }
        series[at] = (ns_line_series){.name = r->label, .line_style = classes[at % 8], .y = y};
        at++;
        *columns++ = (ns_figure_column){.name = r->name, .numbers = y};
    }
    *panel = (ns_line_panel){
        .y = {.label = "at most, us", .log = true}, .series = series, .nseries = nshown};
    chart->as.lines = (ns_line_chart){.x_axis = {.label = "percent of decisions"},
                                      .x = share,
                                      .count = QUANTILES,
                                      .panels = panel,
                                      .npanel = 1};
    return true;
}

// Errors on validation seeds while a policy is tuned.
static bool chart_tuning(const walk_policy* p, nsi_figures* charts) {
    ns_figure* chart =
        nsi_figures_add(charts, NS_FIGURE_LINES, nsi_figures_text(charts, "tuning_%s", p->name),
                        nsi_figures_text(charts, "Validation while tuned: %s", p->label));
    ns_figure_column* columns = chart ? nsi_figure_table(charts, chart, 3, p->nhistory) : NULL;
    ns_line_panel* panels = nsi_figures_zeros(charts, 2, sizeof *panels);
    ns_line_series* series = nsi_figures_zeros(charts, 2, sizeof *series);
    ns_line_mark* mark = nsi_figures_zeros(charts, 1, sizeof *mark);
    if (!columns || !panels || !series || !mark) return false;
    const char* const names[] = {"velocity, m/s", "height, m"};
    const double* const values[] = {p->history_v, p->history_h};
    columns[0] = (ns_figure_column){.name = "iteration", .numbers = p->history_at};
    for (int k = 0; k < 2; k++) {
        series[k] = (ns_line_series){.line_style = "after", .y = values[k]};
        panels[k] = (ns_line_panel){.y = {.label = names[k]}, .series = &series[k], .nseries = 1};
        columns[k + 1] = (ns_figure_column){.name = names[k], .numbers = values[k]};
    }
    *mark = (ns_line_mark){.x = p->best, .label = "kept"};
    chart->as.lines = (ns_line_chart){.x_axis = {.label = "iteration"},
                                      .x = p->history_at,
                                      .count = p->nhistory,
                                      .panels = panels,
                                      .npanel = 2,
                                      .marks = mark,
                                      .nmark = 1,
                                      .points = true};
    return true;
}

// Into the page, and beside it as files.
static bool add_charts(const walk_experiment* w, const nsi_figures* charts,
                       nsi_text_builder* page) {
    bool done = true;
    for (uint32_t k = 0; k < charts->list.count && done; k++) {
        nsi_drawing figure = {0};
        ns_text text = {0};
        ns_error error;
        ns_status status = nsi_figure_draw(&charts->list.data[k], NULL, &figure, &error);
        if (status == NS_OK) status = nsi_drawing_file(&figure, &text, &error);
        done = status == NS_OK;
        if (done) {
            char name[80];
            snprintf(name, sizeof name, "%s.svg", figure.name);
            nsi_html_drawing(page, &figure);
            done = experiment_write(w->e, name, &text);
        } else {
            cli_fail("%s", error.message);
        }
        ns_text_free(&text);
        nsi_drawing_free(&figure);
    }
    return done;
}

static bool add_figures(const walk_experiment* w, uint32_t robot, bool first,
                        nsi_text_builder* page) {
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    bool done = chart_motion(w, robot, &charts);
    for (uint32_t k = 0; k < w->nrun && done; k++) {
        if (is_shown(&w->runs[k], robot)) done = chart_gait(&w->runs[k], &charts);
    }
    if (first) done = done && chart_times(w, &charts);
    for (uint32_t k = 0; k < w->npolicy && done && first; k++) {
        if (w->policies[k].from != NSI_NONE) done = chart_tuning(&w->policies[k], &charts);
    }
    if (!done) cli_fail("out of memory");
    done = done && add_charts(w, &charts, page);
    nsi_figures_free(&charts);
    return done;
}

// ---- robots ------------------------------------------------------------------------------------

// A run as a track, some frames a second.
static ns_status add_track(const walk_run* r, uint32_t every, uint32_t rows,
                           ns_motion_observer* motion, ns_motion* viewer, ns_error* error) {
    const walk_trace* t = &r->trace;
    double* states = malloc((size_t)rows * t->nx * sizeof *states);
    double* controls = calloc((size_t)rows * t->nc, sizeof *controls);
    if (!states || !controls) {
        free(states);
        free(controls);
        return nsi_fail_nomem(error);
    }
    for (uint32_t n = 0; n < rows; n++) {
        const size_t from = (size_t)n * every;
        bool there = from < t->count;
        for (uint32_t i = 0; i < t->nx; i++) {
            states[(size_t)n * t->nx + i] = there ? t->states[from * t->nx + i] : (double)NAN;
        }
        if (there) {
            memcpy(controls + (size_t)n * t->nc, t->controls + from * t->nc,
                   t->nc * sizeof *controls);
        }
    }
    ns_status status = ns_motion_add_track(viewer, r->label, "run", error);
    ns_motion_states motion_rows = {.states = states, .controls = controls};
    if (status == NS_OK)
        status = ns_motion_observer_add_states(motion, viewer, &motion_rows, error);
    free(states);
    free(controls);
    return status;
}

static bool add_viewer(const walk_experiment* w, uint32_t robot, nsi_text_builder* page) {
    ns_motion* viewer = NULL;
    ns_motion_observer* motion = NULL;
    ns_error error;
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NCP;
    const uint32_t every = 1000 / FRAMES / walk_period(robot);
    uint32_t rows = 0;
    for (uint32_t k = 0; k < w->nrun; k++) {
        uint32_t count = (w->runs[k].trace.count + every - 1) / every;
        if (is_shown(&w->runs[k], robot) && count > rows) rows = count;
    }
    double* time = cli_zeros(rows);
    if (!time) return false;
    for (uint32_t n = 0; n < rows; n++) time[n] = (double)n / FRAMES;
    ns_status status = ns_motion_create(w->models[robot], NULL, &viewer, &error);
    if (status == NS_OK) {
        status = ns_motion_observer_create(w->models[robot], &options, NULL, 0, &motion, &error);
    }
    if (status == NS_OK) {
        status = ns_motion_add_episode(viewer, "first seed", time, rows, NULL, &error);
    }
    for (uint32_t k = 0; k < w->nrun && status == NS_OK; k++) {
        if (is_shown(&w->runs[k], robot)) {
            status = add_track(&w->runs[k], every, rows, motion, viewer, &error);
        }
    }
    if (status == NS_OK) status = nsi_motion_write(viewer, page, &error);
    if (status != NS_OK) cli_fail("%s", error.message);
    ns_motion_observer_free(motion);
    ns_motion_free(viewer);
    free(time);
    return status == NS_OK;
}

// The page of another robot, beside the first.
static bool write_other(const walk_experiment* w, uint32_t robot) {
    nsi_text_builder page = {.allocator = ns_default_allocator()};
    ns_text text = {0};
    ns_error error;
    char name[80];
    nsi_html_open(&page, w->robots[robot].name);
    nsi_html_element(&page, "h1", w->robots[robot].name);
    nsi_text_add(&page, "<p><a href=\"report.html\">all runs</a></p>\n");
    bool done = add_viewer(w, robot, &page) && add_figures(w, robot, false, &page);
    nsi_html_close(&page);
    if (nsi_text_finish(&page, &text, &error) != NS_OK) {
        cli_fail("%s", error.message);
        done = false;
    }
    snprintf(name, sizeof name, "%s.html", w->robots[robot].name);
    done = done && experiment_write(w->e, name, &text);
    ns_text_free(&text);
    return done;
}

bool walk_make_page(const walk_experiment* w, nsi_text_builder* page) {
    bool done = true, first = true;
    experiment_open_page(w->e, page);
    nsi_text_add(page, "<p class=\"faint\">Runs of %s s under random commands.</p>\n",
                 nsi_format_short(w->options.seconds, 4).text);
    add_runs(w, page);
    add_policies(w, page);
    add_disturbances(w, page);
    for (uint32_t k = 0; k < WALK_ROBOTS && done; k++) {
        uint32_t robot = WALK_ROBOTS - 1 - k; // the larger one first
        if (!has_any(w, robot)) continue;
        if (first) {
            nsi_html_element(page, "h2", w->robots[robot].name);
            done = add_viewer(w, robot, page) && add_figures(w, robot, true, page);
        } else {
            nsi_text_add(page, "<p><a href=\"%s.html\">%s</a></p>\n", w->robots[robot].name,
                         w->robots[robot].name);
            done = write_other(w, robot);
        }
        first = false;
    }
    experiment_close_page(w->e, page);
    return done;
}
