// The report of an experiment: tables, figures, and the robots in motion. A page shows the motion of one
// robot; others have a page of their own, which the first one links.

#include "quadruped/walk_experiment.h"

#include "neuralsim/json.h"
#include "quadruped/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { FRAMES = 50, GAIT_SECONDS = 3, QUANTILES = 199 }; // frames a second

static const char* const line_styles[] = {"c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7"};
static const char* const leg_names[QUAD_LEGS] = {"front right", "front left", "rear right",
                                                 "rear left"};

static bool is_shown(const walk_run* r, uint32_t robot) {
    return r->def->record_trace && r->robot == robot && r->trace.count > 0;
}

static uint32_t count_shown(const walk_experiment* w, uint32_t robot) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < w->nrun; k++) count += is_shown(&w->runs[k], robot);
    return count;
}

// The robot whose motion is on the first page: the larger one, if it is shown.
static uint32_t first_robot(const walk_experiment* w) {
    for (uint32_t k = WALK_ROBOTS; k-- > 0;) {
        if (count_shown(w, k) > 0) return k;
    }
    return QUAD_NONE;
}

// Three texts in a row, which live as long as the report; "" when out of memory, which the report
// remembers.
static const char* join_text(ns_report* report, const char* a, const char* b, const char* c) {
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    char* text = ns_report_alloc(report, size, 1);
    if (!text) return "";
    snprintf(text, size, "%s%s%s", a, b, c);
    return text;
}

// ---- tables --------------------------------------------------------------------------------------

static void add_runs(const walk_experiment* w, ns_section* section) {
    // Columns: falls, tracking errors, timing.
    static const ns_report_column columns[] = {
        {.name = "run"},
        {.name = "falls", .format = NS_FORMAT_COUNT},
        {.name = "runs", .format = NS_FORMAT_COUNT},
        {.name = "velocity error", .unit = "m/s", .format = NS_FORMAT_NUMBER},
        {.name = "forward error", .unit = "m/s", .format = NS_FORMAT_NUMBER},
        {.name = "sideways error", .unit = "m/s", .format = NS_FORMAT_NUMBER},
        {.name = "turn error", .unit = "rad/s", .format = NS_FORMAT_NUMBER},
        {.name = "instant error", .unit = "m/s", .format = NS_FORMAT_NUMBER},
        {.name = "height error", .unit = "m", .format = NS_FORMAT_NUMBER},
        {.name = "height bias", .unit = "m", .format = NS_FORMAT_NUMBER},
        {.name = "largest tilt", .unit = "rad", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "decision", .unit = "us", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "99 %", .unit = "us", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "real time", .format = NS_FORMAT_NUMBER, .digits = 2},
    };

    enum { COLUMNS = sizeof columns / sizeof *columns };
    ns_report_table* table = ns_section_add_table(section, "runs", NULL, columns, COLUMNS);

    // One row per run.
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        const ns_cell cells[COLUMNS] = {ns_cell_text(r->def->label),
                                        ns_cell_number(r->sum.falls),
                                        ns_cell_number(r->seeds),
                                        ns_cell_number(walk_speed_error(&r->sum)),
                                        ns_cell_number(r->sum.velocity[0]),
                                        ns_cell_number(r->sum.velocity[1]),
                                        ns_cell_number(r->sum.velocity[2]),
                                        ns_cell_number(hypot(r->sum.raw[0], r->sum.raw[1])),
                                        ns_cell_number(r->sum.height),
                                        ns_cell_number(r->sum.bias),
                                        ns_cell_number(r->sum.tilt),
                                        ns_cell_number(1e6 * walk_quantile(&r->times, 0.5)),
                                        ns_cell_number(1e6 * walk_quantile(&r->times, 0.99)),
                                        ns_cell_number(r->sum.seconds / r->sum.cpu)};
        ns_report_table_add_row(table, cells, COLUMNS);
    }

    // Explain the numbers below the table.
    ns_section_add_note(section, NS_NOTE_TEXT,
                        "Errors are root mean squares against the command: of velocities averaged "
                        "over a stride, of instant velocities, and of the height of the trunk. A "
                        "decision is all that the controller does in a control period; real time "
                        "is simulated time over CPU time.");
}

static void add_policies(const walk_experiment* w, ns_report* report) {
    // Runs without networks need no section.
    if (w->npolicy == 0) return;
    // Columns: size, training data, errors, time, files.
    static const ns_report_column columns[] = {
        {.name = "network"},
        {.name = "weights", .format = NS_FORMAT_COUNT},
        {.name = "transitions", .format = NS_FORMAT_COUNT},
        {.name = "torque error", .unit = "N m", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "held-out", .unit = "N m", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "torque spread", .unit = "N m", .format = NS_FORMAT_NUMBER},
        {.name = "iterations", .format = NS_FORMAT_COUNT},
        {.name = "kept", .format = NS_FORMAT_COUNT},
        {.name = "time", .unit = "s", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "file"},
        {.name = "C code"},
    };
    enum { COLUMNS = sizeof columns / sizeof *columns };

    // A section of its own.
    ns_section* section = ns_report_add_section(report, "Networks");
    ns_report_table* table = ns_section_add_table(section, "policies", NULL, columns, COLUMNS);

    // One row per policy.
    for (uint32_t k = 0; k < w->npolicy; k++) {
        const walk_policy* p = &w->policies[k];
        // Imitation has training errors, tuning has validated iterations.
        const bool imitates = p->from == QUAD_NONE;
        // Weights and C code are files beside the report.
        const char* weights = join_text(report, p->def->name, ".safetensors", "");
        const char* code = join_text(report, p->def->name, ".c", "");
        const ns_cell cells[COLUMNS] = {
            ns_cell_text(p->def->label),
            ns_cell_number(p->policy->nweight),
            imitates ? ns_cell_number(p->transitions) : ns_cell_missing(),
            imitates ? ns_cell_number(p->imitated.train) : ns_cell_missing(),
            imitates ? ns_cell_number(p->imitated.held) : ns_cell_missing(),
            imitates ? ns_cell_number(p->imitated.spread) : ns_cell_missing(),
            ns_cell_number(p->iterations),
            imitates ? ns_cell_missing() : ns_cell_number(p->best),
            ns_cell_number(p->seconds),
            ns_cell_link(weights, weights),
            ns_cell_link(code, code)};
        ns_report_table_add_row(table, cells, COLUMNS);
    }
}

static void add_comparisons(const walk_experiment* w, ns_section* section) {
    if (w->def->npair == 0) return;
    static const ns_report_column columns[] = {
        {.name = "run"},
        {.name = "compared with"},
        {.name = "velocity error", .format = NS_FORMAT_PERCENT, .digits = 2},
        {.name = "height error", .format = NS_FORMAT_PERCENT, .digits = 2},
    };
    ns_report_table* table =
        ns_section_add_table(section, "comparisons", "Reduction of errors by tuning", columns, 4);
    for (uint32_t k = 0; k < w->def->npair; k++) {
        const walk_run *before = walk_find_run(w, w->def->pairs[k][0]),
                       *after = walk_find_run(w, w->def->pairs[k][1]);
        if (!before || !after) continue; // left out of quick runs
        const ns_cell cells[] = {
            ns_cell_text(after->def->label), ns_cell_text(before->def->label),
            ns_cell_number(1.0 - walk_speed_error(&after->sum) / walk_speed_error(&before->sum)),
            ns_cell_number(1.0 - after->sum.height / before->sum.height)};
        ns_report_table_add_row(table, cells, 4);
    }
}

static void add_disturbances(const walk_experiment* w, ns_report* report) {
    if (w->def->ndisturbance == 0) return;
    // Three columns per run.
    ns_report_column columns[1 + 3 * WALK_MAX_DISTURBED] = {{.name = "disturbance"}};

    // Only the first of them carries the name of the run.
    for (uint32_t k = 0; k < w->ndisturbed; k++) {
        const char* label = w->runs[w->disturbed[k]].def->label;
        columns[1 + 3 * k] = (ns_report_column){.name = join_text(report, label, ": ", "falls"),
                                                .format = NS_FORMAT_COUNT};
        columns[2 + 3 * k] = (ns_report_column){
            .name = "velocity error", .unit = "m/s", .format = NS_FORMAT_NUMBER, .digits = 2};
        columns[3 + 3 * k] = (ns_report_column){
            .name = "height error", .unit = "m", .format = NS_FORMAT_NUMBER, .digits = 2};
    }

    // The note gives the size of the sample.
    char note[200];
    snprintf(note, sizeof note,
             "%u runs of %g s each: falls, and errors of velocity and height up to a fall.",
             w->disturbed_seeds, w->disturbed_seconds);
    ns_section* section = ns_report_add_section(report, "Disturbed");
    ns_section_add_note(section, NS_NOTE_TEXT, note);

    const uint32_t count = 1 + 3 * w->ndisturbed;
    ns_report_table* table = ns_section_add_table(section, "robustness", NULL, columns, count);

    // One row per disturbance.
    for (uint32_t d = 0; d < w->def->ndisturbance; d++) {
        ns_cell cells[1 + 3 * WALK_MAX_DISTURBED] = {ns_cell_text(w->def->disturbances[d].label)};
        for (uint32_t k = 0; k < w->ndisturbed; k++) {
            // Results are stored by disturbance, then by run.
            const quad_walk_result* r = &w->disturbed_sums[d * w->ndisturbed + k];
            cells[1 + 3 * k] = ns_cell_number(r->falls);
            cells[2 + 3 * k] = ns_cell_number(walk_speed_error(r));
            cells[3 + 3 * k] = ns_cell_number(r->height);
        }
        ns_report_table_add_row(table, cells, count);
    }
}

// ---- figures -------------------------------------------------------------------------------------

// A figure of curves in panels over one x, which fills itself and its table of numbers.
typedef struct line_figure {
    ns_report* report;
    ns_figure* figure;
    ns_line_panel* panels;
    ns_figure_column* columns;
    uint32_t ncolumn, count;
} line_figure;

static bool begin_lines(ns_report* report, ns_section* section, const char* name, const char* title,
                        const char* x_label, const double* x, uint32_t count, uint32_t npanel,
                        uint32_t nseries, line_figure* out) {
    *out = (line_figure){.report = report, .count = count};
    out->figure = ns_section_add_figure(section, NS_FIGURE_LINES, name, title);
    out->panels = ns_report_alloc(report, npanel, sizeof *out->panels);
    out->columns = ns_report_alloc(report, 1 + nseries, sizeof *out->columns);
    if (!out->figure || !out->panels || !out->columns) return false;
    out->columns[out->ncolumn++] = (ns_figure_column){.name = x_label, .numbers = x};
    out->figure->as.lines = (ns_line_chart){.x_axis = {.label = x_label},
                                            .x = x,
                                            .count = count,
                                            .panels = out->panels,
                                            .npanel = npanel};
    out->figure->columns = out->columns;
    out->figure->nrow = count;
    return true;
}

// Add a curve to a panel's array; `column` names it in the table.
static void add_series(line_figure* f, ns_line_series* series, uint32_t at, const char* name,
                       const char* style, const double* y, const char* column) {
    series[at] = (ns_line_series){.name = name, .line_style = style, .y = y};
    f->columns[f->ncolumn++] = (ns_figure_column){.name = column, .numbers = y};
    f->figure->ncolumn = f->ncolumn;
}

// Numbers of a trace over decisions: three velocities, then the height; NaN past its end.
static const double* trace_curve(ns_report* report, const walk_trace* t, bool wanted, int panel,
                                 double height, uint32_t count) {
    double* y = ns_report_alloc(report, count, sizeof *y);
    for (uint32_t n = 0; y && n < count; n++) {
        if (n >= t->count) {
            y[n] = (double)NAN;
        } else if (panel < 3) {
            y[n] = wanted ? t->wanted[n][panel] : t->velocity[n][panel];
        } else {
            y[n] = wanted ? height : t->height[n];
        }
    }
    return y;
}

// Commands and what the shown runs of a robot did, of the first seed.
static void add_tracking(const walk_experiment* w, uint32_t robot, ns_report* report,
                         ns_section* section) {
    static const char* const axes[] = {"forward, m/s", "to the left, m/s", "turn, rad/s",
                                       "height, m"};
    // Runs that fall early have shorter traces.
    const uint32_t nshown = count_shown(w, robot);
    const walk_run* longest = NULL;
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        if (!is_shown(r, robot)) continue;
        if (!longest || r->trace.count > longest->trace.count) longest = r;
    }

    if (!longest) return;

    // The longest trace defines the time axis.
    const uint32_t count = longest->trace.count;
    line_figure f;
    if (!begin_lines(report, section, join_text(report, "motion_", w->robots[robot].name, ""),
                     "Commanded and measured, first seed", "time, s", longest->trace.time, count, 4,
                     4 * (nshown + 1), &f)) {
        return;
    }

    // One panel per component: the command, then all runs.
    for (int panel = 0; panel < 4; panel++) {
        ns_line_series* series = ns_report_alloc(report, nshown + 1, sizeof *series);
        if (!series) return;
        // The command of the height is constant.
        const double height = w->robots[robot].body_height;
        uint32_t at = 0;
        add_series(&f, series, at++, "command", "recorded",
                   trace_curve(report, &longest->trace, true, panel, height, count),
                   join_text(report, "command", ", ", axes[panel]));

        // Runs, each in its own line style.
        for (uint32_t k = 0; k < w->nrun; k++) {
            const walk_run* r = &w->runs[k];
            if (!is_shown(r, robot)) continue;
            add_series(&f, series, at, r->def->label, line_styles[at % 8],
                       trace_curve(report, &r->trace, false, panel, height, count),
                       join_text(report, r->def->name, ", ", axes[panel]));
            at++;
        }
        f.panels[panel] =
            (ns_line_panel){.y = {.label = axes[panel]}, .series = series, .nseries = nshown + 1};
    }
}

// Which feet the controller plans to stand on, and which touch the ground.
static void add_gait(const walk_run* r, ns_report* report, ns_section* section) {
    const walk_trace* t = &r->trace;
    // A few strides are enough to see the gait.
    uint32_t count = 0;
    while (count < t->count && t->time[count] < GAIT_SECONDS) count++;

    // One panel per leg, over the first seconds.
    line_figure f;
    if (!begin_lines(report, section, join_text(report, "gait_", r->def->name, ""),
                     join_text(report, "Planned stance and contact: ", r->def->label, ""),
                     "time, s", t->time, count, QUAD_LEGS, 2 * QUAD_LEGS, &f)) {
        return;
    }

    for (int leg = 0; leg < QUAD_LEGS; leg++) {
        ns_line_series* series = ns_report_alloc(report, 2, sizeof *series);
        double* stands = ns_report_alloc(report, count, sizeof *stands);
        double* touches = ns_report_alloc(report, count, sizeof *touches);
        // The report notices a lack of memory itself.
        if (!series || !stands || !touches) return;

        for (uint32_t n = 0; n < count; n++) {
            stands[n] = t->stands[n][leg];
            touches[n] = 0.9 * t->touches[n][leg]; // a little lower, so that both can be seen
        }
        // Planned, then measured.
        add_series(&f, series, 0, "planned stance", "c0", stands,
                   join_text(report, leg_names[leg], " ", "stance"));
        add_series(&f, series, 1, "contact (0.9)", "c1", touches,
                   join_text(report, leg_names[leg], " ", "contact"));
        f.panels[leg] =
            (ns_line_panel){.y = {.label = leg_names[leg]}, .series = series, .nseries = 2};
    }
}

// How long decisions take: quantiles of shown runs.
static void add_times(const walk_experiment* w, ns_report* report, ns_section* section) {
    uint32_t nshown = 0, at = 0;
    for (uint32_t k = 0; k < w->nrun; k++) nshown += w->runs[k].def->record_trace;
    double* percent = ns_report_alloc(report, QUANTILES, sizeof *percent);
    ns_line_series* series = ns_report_alloc(report, nshown, sizeof *series);
    line_figure f;
    if (!percent || !series ||
        !begin_lines(report, section, "times", "Time for a decision", "percent of decisions",
                     percent, QUANTILES, 1, nshown, &f)) {
        return;
    }
    for (uint32_t n = 0; n < QUANTILES; n++) percent[n] = 100.0 * (n + 1) / (QUANTILES + 1);
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        if (!r->def->record_trace) continue;
        double* y = ns_report_alloc(report, QUANTILES, sizeof *y);
        if (!y) return;
        for (uint32_t n = 0; n < QUANTILES; n++) {
            y[n] = 1e6 * walk_quantile(&r->times, 0.01 * percent[n]);
        }
        add_series(&f, series, at, r->def->label, line_styles[at % 8], y, r->def->name);
        at++;
    }
    f.panels[0] = (ns_line_panel){
        .y = {.label = "at most, us", .log = true}, .series = series, .nseries = nshown};
}

// Errors on validation seeds while a policy is tuned.
static void add_tuning(const walk_policy* p, ns_report* report, ns_section* section) {
    line_figure f;
    ns_line_series* series = ns_report_alloc(report, 2, sizeof *series);
    ns_line_mark* mark = ns_report_alloc(report, 1, sizeof *mark);
    if (!series || !mark ||
        !begin_lines(report, section, join_text(report, "tuning_", p->def->name, ""),
                     join_text(report, "Validation during tuning: ", p->def->label, ""),
                     "iteration", p->history_at, p->nhistory, 2, 2, &f)) {
        return;
    }
    const char* const names[] = {"velocity error, m/s", "height error, m"};
    const double* const values[] = {p->history_velocity, p->history_height};
    for (uint32_t k = 0; k < 2; k++) {
        add_series(&f, series, k, NULL, "after", values[k], names[k]);
        f.panels[k] = (ns_line_panel){.y = {.label = names[k]}, .series = &series[k], .nseries = 1};
    }
    *mark = (ns_line_mark){.x = p->best, .label = "kept"};
    f.figure->as.lines.marks = mark;
    f.figure->as.lines.nmark = 1;
    f.figure->as.lines.points = true;
}

// ---- motions -------------------------------------------------------------------------------------

// A run as a track, some frames a second.
static ns_status add_track(const walk_run* r, uint32_t stride, uint32_t rows,
                           ns_motion_observer* observer, ns_motion* motion, ns_error* error) {
    const walk_trace* t = &r->trace;
    double* states = quad_alloc(NULL, (size_t)rows * t->nx * sizeof *states);
    double* controls = quad_alloc_zeroed(NULL, (size_t)rows * t->nc * sizeof *controls);
    ns_status status = states && controls ? NS_OK : quad_fail_nomem(error);
    for (uint32_t n = 0; n < rows && status == NS_OK; n++) {
        const size_t from = (size_t)n * stride;
        const bool there = from < t->count;
        for (uint32_t i = 0; i < t->nx; i++) {
            states[(size_t)n * t->nx + i] = there ? t->states[from * t->nx + i] : (double)NAN;
        }
        for (uint32_t i = 0; there && i < t->nc; i++) {
            controls[(size_t)n * t->nc + i] = t->controls[from * t->nc + i];
        }
    }
    const ns_motion_states moved = {.states = states, .controls = controls};
    if (status == NS_OK) status = ns_motion_add_track(motion, r->def->label, "run", error);
    if (status == NS_OK) status = ns_motion_observer_add_states(observer, motion, &moved, error);
    quad_free(NULL, states);
    quad_free(NULL, controls);
    return status;
}

static ns_status add_motion(const walk_experiment* w, uint32_t robot, ns_section* section,
                            ns_error* error) {
    // Decisions per frame of the viewer.
    const uint32_t stride = 1000 / FRAMES / walk_period(robot);

    // All tracks share the time of the longest run.
    uint32_t rows = 0;
    for (uint32_t k = 0; k < w->nrun; k++) {
        uint32_t count = (w->runs[k].trace.count + stride - 1) / stride;
        if (is_shown(&w->runs[k], robot) && count > rows) rows = count;
    }
    double* time = malloc(((size_t)rows + 1) * sizeof *time);
    if (!time) return quad_fail_nomem(error);
    for (uint32_t n = 0; n < rows; n++) time[n] = (double)n / FRAMES;

    // The observer computes poses and contacts from the states.
    ns_motion* motion = NULL;
    ns_motion_observer* observer = NULL;
    ns_system_options options = ns_default_system_options();
    options.contact = NS_CONTACT_NCP;
    ns_status status = ns_motion_create(w->models[robot], NULL, &motion, error);
    if (status == NS_OK) {
        status = ns_motion_observer_create(w->models[robot], &options, NULL, 0, &observer, error);
    }

    // One episode with one track per run.
    if (status == NS_OK) {
        status = ns_motion_add_episode(motion, "first seed", time, rows, NULL, error);
    }
    for (uint32_t k = 0; k < w->nrun && status == NS_OK; k++) {
        if (is_shown(&w->runs[k], robot)) {
            status = add_track(&w->runs[k], stride, rows, observer, motion, error);
        }
    }

    // The report owns the motion from here on.
    ns_motion_observer_free(observer);
    free(time);
    if (status == NS_OK) {
        ns_section_add_motion(section, motion);
    } else {
        ns_motion_free(motion);
    }
    return status;
}

static ns_status add_robot(const walk_experiment* w, uint32_t robot, ns_report* report,
                           ns_error* error) {
    ns_section* section = ns_report_add_section(report, w->robots[robot].name);
    ns_status status = add_motion(w, robot, section, error);
    if (status != NS_OK) return status;
    add_tracking(w, robot, report, section);
    for (uint32_t k = 0; k < w->nrun; k++) {
        if (is_shown(&w->runs[k], robot)) add_gait(&w->runs[k], report, section);
    }
    return NS_OK;
}

// ---- numbers for programs ------------------------------------------------------------------------

static void add_result(ns_json* j, const char* name, const quad_walk_result* r) {
    // Names of the record, which scripts rely on.
    const struct {
        const char* name;
        double value;
    } numbers[] = {{"seconds_walked", r->seconds},
                   {"velocity_error", walk_speed_error(r)},
                   {"forward_error", r->velocity[0]},
                   {"sideways_error", r->velocity[1]},
                   {"turn_error", r->velocity[2]},
                   {"velocity_error_raw", hypot(r->raw[0], r->raw[1])},
                   {"height_error", r->height},
                   {"height_bias", r->bias},
                   {"tilt", r->tilt}};
    // Events.
    const struct {
        const char* name;
        uint32_t value;
    } counts[] = {{"falls", r->falls},
                  {"shared", r->shared},
                  {"unreachable", r->unreachable},
                  {"limited", r->limited}};

    // Keys are the run and the metric.
    char key[200];
    for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
        snprintf(key, sizeof key, "%.100s_%s", name, counts[k].name);
        ns_json_count(j, key, counts[k].value);
    }
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        snprintf(key, sizeof key, "%.100s_%s", name, numbers[k].name);
        ns_json_number(j, key, numbers[k].value);
    }
}

static void record_metrics(ns_json* j, const walk_experiment* w) {
    char key[300];
    for (uint32_t k = 0; k < w->nrun; k++) {
        const walk_run* r = &w->runs[k];
        snprintf(key, sizeof key, "%.100s_seeds", r->def->name);
        ns_json_count(j, key, r->seeds);
        add_result(j, r->def->name, &r->sum);
        snprintf(key, sizeof key, "%.100s_decision_median", r->def->name);
        ns_json_number(j, key, walk_quantile(&r->times, 0.5));
        snprintf(key, sizeof key, "%.100s_decision_99", r->def->name);
        ns_json_number(j, key, walk_quantile(&r->times, 0.99));
        snprintf(key, sizeof key, "%.100s_realtime", r->def->name);
        ns_json_number(j, key, r->sum.seconds / r->sum.cpu);
    }
    for (uint32_t k = 0; k < w->def->npair; k++) {
        const walk_run *before = walk_find_run(w, w->def->pairs[k][0]),
                       *after = walk_find_run(w, w->def->pairs[k][1]);
        if (!before || !after) continue;
        snprintf(key, sizeof key, "%.100s_velocity_reduction", after->def->name);
        ns_json_number(j, key,
                       1.0 - walk_speed_error(&after->sum) / walk_speed_error(&before->sum));
        snprintf(key, sizeof key, "%.100s_height_reduction", after->def->name);
        ns_json_number(j, key, 1.0 - after->sum.height / before->sum.height);
    }
}

static void add_policy_records(ns_json* j, const walk_experiment* w) {
    for (uint32_t k = 0; k < w->npolicy; k++) {
        const walk_policy* p = &w->policies[k];
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", p->def->name);
        ns_json_count(j, "weights", p->policy->nweight);
        ns_json_number(j, "seconds", p->seconds);
        if (p->from == QUAD_NONE) {
            ns_json_count(j, "transitions", p->transitions);
            ns_json_number(j, "train_error", p->imitated.train);
            ns_json_number(j, "held_error", p->imitated.held);
            ns_json_number(j, "torque_spread", p->imitated.spread);
        } else {
            ns_json_count(j, "iterations", p->iterations);
            ns_json_count(j, "kept_iteration", p->best);
            ns_json_numbers(j, "validated_at", p->history_at, p->nhistory);
            ns_json_numbers(j, "validation_velocity_error", p->history_velocity, p->nhistory);
            ns_json_numbers(j, "validation_height_error", p->history_height, p->nhistory);
        }
        ns_json_close(j);
    }
}

static ns_status set_record(const walk_experiment* w, ns_report* report, ns_error* error) {
    // Identity of the experiment.
    ns_json* j = ns_json_create(NULL);
    ns_text text = {0};
    ns_json_text(j, "experiment", w->def->name);
    ns_json_text(j, "title", w->def->title);
    ns_json_bool(j, "quick", w->options.quick);
    ns_json_number(j, "seconds", w->seconds);

    // One number per key, for scripts and tests.
    ns_json_open(j, "metrics", '{');
    record_metrics(j, w);
    ns_json_close(j);

    // Training results of the policies.
    ns_json_open(j, "policies", '[');
    add_policy_records(j, w);
    ns_json_close(j);

    // Errors under each disturbance.
    ns_json_open(j, "robustness", '[');
    for (uint32_t d = 0; d < w->def->ndisturbance; d++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", w->def->disturbances[d].name);
        ns_json_count(j, "seeds", w->disturbed_seeds);
        for (uint32_t k = 0; k < w->ndisturbed; k++) {
            // Keys as in `metrics`.
            add_result(j, w->runs[w->disturbed[k]].def->name,
                       &w->disturbed_sums[d * w->ndisturbed + k]);
        }
        ns_json_close(j);
    }
    ns_json_close(j);

    ns_status status = ns_json_finish(j, &text, error);
    if (status == NS_OK) ns_report_set_record(report, text.data, text.size);
    ns_text_free(&text);
    return status;
}

// ---- reports -------------------------------------------------------------------------------------

static void add_facts(const walk_experiment* w, ns_report* report) {
    char text[100];
    snprintf(text, sizeof text, "%g s under random commands%s", w->walk_seconds,
             w->options.quick ? "; a quick run, only a part of the experiment" : "");
    ns_report_add_fact(report, "runs", text);
    ns_report_add_fact(report, "citation", w->def->citation);
    snprintf(text, sizeof text, "%.3g s", w->seconds);
    ns_report_add_fact(report, "time", text);
}

ns_status walk_report(const walk_experiment* w, ns_report** out, ns_error* error) {
    *out = NULL;
    ns_report* report = NULL;
    ns_status status = ns_report_create(w->def->title, NULL, &report, error);
    if (status != NS_OK) return status;

    // Tables.
    add_facts(w, report);
    ns_section* section = ns_report_add_section(report, NULL);
    add_runs(w, section);
    add_comparisons(w, section);
    add_policies(w, report);
    add_disturbances(w, report);

    // One robot in motion; pages of the others are linked.
    const uint32_t first = first_robot(w);
    if (first != QUAD_NONE) status = add_robot(w, first, report, error);

    // Timing and tuning are details.
    section = ns_report_add_section(report, "Details");
    if (first != QUAD_NONE) add_times(w, report, section);
    for (uint32_t k = 0; k < w->npolicy; k++) {
        if (w->policies[k].from != QUAD_NONE) add_tuning(&w->policies[k], report, section);
    }

    // Links to the other robots' pages.
    ns_report_table* pages = NULL;
    for (uint32_t k = 0; k < WALK_ROBOTS; k++) {
        // Only robots that have something to show.
        if (k == first || count_shown(w, k) == 0) continue;
        static const ns_report_column columns[] = {{.name = "page"}};
        if (!pages)
            pages = ns_section_add_table(section, "pages", "Pages of other robots", columns, 1);
        const ns_cell cell =
            ns_cell_link(w->robots[k].name, join_text(report, w->robots[k].name, ".html", ""));
        ns_report_table_add_row(pages, &cell, 1);
    }
    for (uint32_t k = 0; k < w->def->nnote; k++) {
        ns_section_add_note(section, NS_NOTE_INFO, w->def->notes[k]);
    }

    if (status == NS_OK) status = set_record(w, report, error);
    if (status == NS_OK) status = ns_report_check(report, error);
    if (status != NS_OK) {
        ns_report_free(report);
        return status;
    }
    *out = report;
    return NS_OK;
}

ns_status walk_robot_report(const walk_experiment* w, uint32_t robot, ns_report** out,
                            ns_error* error) {
    *out = NULL;
    if (robot == first_robot(w) || count_shown(w, robot) == 0) return NS_OK;
    ns_report* report = NULL;
    ns_status status = ns_report_create(w->def->title, NULL, &report, error);
    if (status != NS_OK) return status;
    add_facts(w, report);
    status = add_robot(w, robot, report, error);
    if (status == NS_OK) status = ns_report_check(report, error);
    if (status != NS_OK) {
        ns_report_free(report);
        return status;
    }
    *out = report;
    return NS_OK;
}
