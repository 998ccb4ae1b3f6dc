// The report of a data check, and its record for programs.

#include "neuralsim/data_report.h"

#include "neuralsim/json.h"
#include "report/report_data.h"

#include <math.h>
#include <stdio.h>

enum { MAX_FIGURES = 24, MAX_MARKS = 20, TITLE_SIZE = 320 };

static const char* severity_name(const ns_data_finding* f) {
    return ns_choice_name(&ns_data_severities, (int)f->severity);
}

// ---- record ------------------------------------------------------------------------------------

static void record_findings(ns_json* j, const ns_data_check* c) {
    ns_json_open(j, "findings", '[');
    for (uint32_t k = 0; k < ns_data_check_finding_count(c); k++) {
        const ns_data_finding* f = ns_data_check_finding(c, k);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "code", ns_choice_name(&ns_data_codes, (int)f->code));
        ns_json_text(j, "severity", severity_name(f));
        if (f->channel) ns_json_text(j, "channel", f->channel);
        ns_json_count(j, "count", f->count);
        ns_json_number(j, "value", f->value);
        ns_json_text(j, "message", f->message);
        ns_json_text(j, "advice", f->advice);
        ns_json_text(j, "text", f->text);

        // The first places.
        ns_json_open(j, "places", '[');
        for (uint32_t i = 0; i < f->nplace; i++) {
            ns_json_open(j, NULL, '{');
            ns_json_text(j, "recording", f->places[i].recording);
            ns_json_text(j, "file", f->places[i].file);
            ns_json_count(j, "line", f->places[i].line);
            ns_json_number(j, "time", f->places[i].time);
            ns_json_close(j);
        }
        ns_json_close(j);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void record_channels(ns_json* j, const ns_data_check* c) {
    ns_json_open(j, "channels", '[');
    for (uint32_t k = 0; k < ns_data_check_channel_count(c); k++) {
        const ns_data_channel* s = ns_data_check_channel(c, k);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", s->name);
        ns_json_text(j, "unit", s->unit);
        ns_json_text(j, "file", s->file);
        ns_json_bool(j, "control", s->control);
        ns_json_count(j, "count", s->count);
        ns_json_count(j, "missing", s->missing);
        ns_json_number(j, "min", s->min);
        ns_json_number(j, "max", s->max);
        ns_json_number(j, "mean", s->mean);
        ns_json_number(j, "deviation", s->deviation);
        ns_json_number(j, "rate", s->rate);
        ns_json_number(j, "noise", s->noise);
        ns_json_number(j, "resolution", s->resolution);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void record_recordings(ns_json* j, const ns_data_check* c) {
    ns_json_open(j, "recordings", '[');
    for (uint32_t k = 0; k < ns_data_check_recording_count(c); k++) {
        const ns_data_recording* r = ns_data_check_recording(c, k);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", r->name);
        ns_json_text(j, "file", r->file);
        ns_json_text(j, "set", r->set);
        ns_json_count(j, "rows", r->rows);
        ns_json_number(j, "start", r->start);
        ns_json_number(j, "duration", r->duration);
        ns_json_number(j, "rate", r->rate);
        ns_json_number(j, "jitter", r->jitter);
        ns_json_count(j, "gaps", r->gaps);
        ns_json_number(j, "longest_gap", r->longest_gap);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static ns_status make_data_record(const ns_data_check* c, const ns_report* report, ns_text* out,
                                  ns_error* error) {
    ns_json* j = ns_json_create(&report->allocator);
    uint32_t problems = ns_data_check_count(c, NS_DATA_PROBLEM);
    ns_json_count(j, "problems", problems);
    ns_json_count(j, "warnings", ns_data_check_count(c, NS_DATA_WARNING) - problems);
    record_findings(j, c);
    record_channels(j, c);
    record_recordings(j, c);
    return ns_json_finish(j, out, error);
}

// ---- sections ----------------------------------------------------------------------------------

static void report_findings(ns_report* report, const ns_data_check* c) {
    const ns_note_level levels[] = {NS_NOTE_INFO, NS_NOTE_WARNING, NS_NOTE_PROBLEM};
    ns_section* section = ns_report_add_section(report, "Findings");
    uint32_t count = ns_data_check_finding_count(c);
    uint32_t warnings = ns_data_check_count(c, NS_DATA_WARNING);
    if (warnings == 0) {
        ns_section_add_note(section, NS_NOTE_TEXT,
                            "No mistakes were found. This does not say that there are none.");
    } else {
        nsi_section_add_notef(section, NS_NOTE_TEXT, "%u likely mistake%s, %u note%s.", warnings,
                              warnings == 1 ? "" : "s", count - warnings,
                              count - warnings == 1 ? "" : "s");
    }
    for (uint32_t k = 0; k < count; k++) {
        const ns_data_finding* f = ns_data_check_finding(c, k);
        ns_section_add_note(section, levels[f->severity], f->text);
    }
}

// The first recording that has rows of the channel, or NSI_NONE.
static uint32_t first_recording(const ns_data_check* c, uint32_t channel) {
    const double *times, *values;
    for (uint32_t k = 0; k < ns_data_check_recording_count(c); k++) {
        if (ns_data_check_rows(c, k, channel, &times, &values) > 0) return k;
    }
    return NSI_NONE;
}

// The name of a channel. Where files with other columns have the same one: with the first of its files.
static const char* channel_title(const ns_data_check* c, uint32_t channel, char* text,
                                 size_t size) {
    const char* name = ns_data_check_channel(c, channel)->name;
    bool again = false;
    for (uint32_t k = 0; k < ns_data_check_channel_count(c); k++) {
        again = again || (k != channel && strcmp(ns_data_check_channel(c, k)->name, name) == 0);
    }
    if (!again) return name;
    snprintf(text, size, "%.150s (%.150s)", name, ns_data_check_channel(c, channel)->file);
    return text;
}

static void report_data_channels(ns_report* report, const ns_data_check* c) {
    const ns_report_column columns[] = {{.name = "channel"},
                                        {.name = "unit"},
                                        {.name = "min", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "max", .format = NS_FORMAT_NUMBER, .digits = 4},
                                        {.name = "samples", .format = NS_FORMAT_COUNT},
                                        {.name = "missing", .format = NS_FORMAT_COUNT},
                                        {.name = "rate", .unit = "Hz", .format = NS_FORMAT_NUMBER},
                                        {.name = "noise", .format = NS_FORMAT_NUMBER, .digits = 2},
                                        {.name = "resolution", .format = NS_FORMAT_NUMBER}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    if (ns_data_check_channel_count(c) == 0) return;
    ns_section* section = ns_report_add_section(report, "Channels");
    ns_report_table* table = ns_section_add_table(section, "channels", NULL, columns, COLUMNS);
    for (uint32_t k = 0; k < ns_data_check_channel_count(c); k++) {
        const ns_data_channel* s = ns_data_check_channel(c, k);
        char title[TITLE_SIZE];
        const ns_cell row[] = {ns_cell_text(channel_title(c, k, title, sizeof title)),
                               ns_cell_text(s->control ? "control"
                                            : *s->unit ? s->unit
                                                       : "-"),
                               ns_cell_number(s->min),
                               ns_cell_number(s->max),
                               ns_cell_number((double)s->count),
                               ns_cell_number((double)s->missing),
                               ns_cell_number(s->rate),
                               ns_cell_number(s->noise),
                               s->resolution > 0.0 ? ns_cell_number(s->resolution)
                                                   : ns_cell_missing()};
        ns_report_table_add_row(table, row, COLUMNS);
    }
    ns_section_add_note(section, NS_NOTE_TEXT,
                        "Noise: standard deviation of the white part, from differences of high "
                        "order. Resolution: step of quantisation.");
}

// Are there sets: of a fit, not of files?
static bool has_sets(const ns_data_check* c) {
    for (uint32_t k = 0; k < ns_data_check_recording_count(c); k++) {
        if (*ns_data_check_recording(c, k)->set) return true;
    }
    return false;
}

static void report_data_recordings(ns_report* report, const ns_data_check* c) {
    const ns_report_column columns[] = {
        {.name = "recording"},
        {.name = "rows", .format = NS_FORMAT_COUNT},
        {.name = "duration", .unit = "s", .format = NS_FORMAT_NUMBER, .digits = 4},
        {.name = "rate", .unit = "Hz", .format = NS_FORMAT_NUMBER, .digits = 4},
        {.name = "jitter", .unit = "s", .format = NS_FORMAT_NUMBER, .digits = 2},
        {.name = "gaps", .format = NS_FORMAT_COUNT},
        {.name = "longest", .unit = "s", .format = NS_FORMAT_NUMBER},
        {.name = "set"}};
    enum { COLUMNS = sizeof columns / sizeof *columns };
    uint32_t ncolumn = has_sets(c) ? COLUMNS : COLUMNS - 1;
    if (ns_data_check_recording_count(c) == 0) return;
    ns_section* section = ns_report_add_section(report, "Recordings");
    ns_report_table* table = ns_section_add_table(section, "recordings", NULL, columns, ncolumn);
    for (uint32_t k = 0; k < ns_data_check_recording_count(c); k++) {
        const ns_data_recording* r = ns_data_check_recording(c, k);
        const ns_cell row[] = {ns_cell_text(r->name),
                               ns_cell_number(r->rows),
                               ns_cell_number(r->duration),
                               ns_cell_number(r->rate),
                               ns_cell_number(r->jitter),
                               ns_cell_number(r->gaps),
                               r->gaps > 0 ? ns_cell_number(r->longest_gap) : ns_cell_missing(),
                               ns_cell_text(r->set)};
        ns_report_table_add_row(table, row, ncolumn);
    }
}

// ---- figures -----------------------------------------------------------------------------------

// The recording where something was found in the channel; the first one that has it otherwise, or NSI_NONE.
static uint32_t shown_recording(const ns_data_check* c, uint32_t channel) {
    const char* name = ns_data_check_channel(c, channel)->name;
    const double *times, *values;
    for (uint32_t k = 0; k < ns_data_check_finding_count(c); k++) {
        const ns_data_finding* f = ns_data_check_finding(c, k);
        if (!f->channel || strcmp(f->channel, name) != 0 || f->nplace == 0) continue;
        for (uint32_t r = 0; r < ns_data_check_recording_count(c); r++) {
            bool same = strcmp(ns_data_check_recording(c, r)->name, f->places[0].recording) == 0;
            if (same && ns_data_check_rows(c, r, channel, &times, &values) > 0) return r;
        }
    }
    return first_recording(c, channel);
}

static uint32_t add_marks(const ns_data_check* c, const char* channel, const char* recording,
                          ns_line_mark* marks) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < ns_data_check_finding_count(c); k++) {
        const ns_data_finding* f = ns_data_check_finding(c, k);
        if (!f->channel || strcmp(f->channel, channel) != 0) continue;
        for (uint32_t i = 0; i < f->nplace && count < MAX_MARKS; i++) {
            if (strcmp(f->places[i].recording, recording) != 0) continue;
            const char* label = i == 0 ? ns_choice_name(&ns_data_codes, (int)f->code) : "";
            marks[count++] = (ns_line_mark){f->places[i].time, label};
        }
    }
    return count;
}

static void add_channel_figure(ns_section* section, const ns_data_check* c, uint32_t channel) {
    // The curve is borrowed from the check.
    ns_report* report = section->report;
    const ns_data_channel* s = ns_data_check_channel(c, channel);
    uint32_t recording = shown_recording(c, channel);
    if (recording == NSI_NONE) return;
    const ns_data_recording* r = ns_data_check_recording(c, recording);
    const double *times, *values;
    uint32_t count = ns_data_check_rows(c, recording, channel, &times, &values);
    if (count < 2) return;
    char title[400], name[200], unique[TITLE_SIZE];
    const char* shown = channel_title(c, channel, unique, sizeof unique);
    snprintf(title, sizeof title, "%.180s in %.180s", s->name, r->name);
    snprintf(name, sizeof name, "channel_%.180s", shown);
    ns_figure* figure = ns_section_add_figure(section, NS_FIGURE_LINES, name, title);
    ns_line_mark* marks = ns_report_alloc(report, MAX_MARKS, sizeof *marks);
    ns_line_series* series = ns_report_alloc(report, 1, sizeof *series);
    ns_line_panel* panel = ns_report_alloc(report, 1, sizeof *panel);
    ns_figure_column* columns = ns_report_alloc(report, 2, sizeof *columns);
    if (!figure || !marks || !series || !panel || !columns) return;

    // One panel with one curve, and a line at each finding. Without times, rows were counted.
    bool counted = isnan(r->rate);
    *series = (ns_line_series){.line_style = "recorded", .y = values};
    *panel =
        (ns_line_panel){.y.label = *s->unit ? s->unit : s->name, .series = series, .nseries = 1};
    figure->as.lines = (ns_line_chart){.x_axis.label = counted ? "row" : "t [s]",
                                       .x = times,
                                       .count = count,
                                       .panels = panel,
                                       .npanel = 1,
                                       .marks = marks,
                                       .nmark = add_marks(c, s->name, r->name, marks)};
    columns[0] = (ns_figure_column){.name = counted ? "row" : "t", .numbers = times};
    columns[1] = (ns_figure_column){.name = s->name, .numbers = values};
    figure->columns = columns;
    figure->ncolumn = 2;
    figure->nrow = count;
}

static bool has_finding(const ns_data_check* c, const char* channel) {
    for (uint32_t k = 0; k < ns_data_check_count(c, NS_DATA_WARNING); k++) {
        const ns_data_finding* f = ns_data_check_finding(c, k);
        if (f->channel && strcmp(f->channel, channel) == 0) return true;
    }
    return false;
}

// Channels with findings first.
static void report_curves(ns_report* report, const ns_data_check* c) {
    if (ns_data_check_recording_count(c) == 0) return;
    ns_section* section = ns_report_add_section(report, "Curves");
    uint32_t count = ns_data_check_channel_count(c), shown = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < count && shown < MAX_FIGURES; k++) {
            if (has_finding(c, ns_data_check_channel(c, k)->name) != (pass == 0)) continue;
            add_channel_figure(section, c, k);
            shown++;
        }
    }
    if (shown < count) {
        nsi_section_add_notef(section, NS_NOTE_TEXT, "%u more channels are not drawn.",
                              count - shown);
    }
}

ns_status ns_data_check_report(const ns_data_check* c, ns_report** out, ns_error* error) {
    ns_report* report = NULL;
    ns_text record = {0};
    *out = NULL;
    ns_status status = ns_report_create("Recordings", NULL, &report, error);
    if (status == NS_OK) status = make_data_record(c, report, &record, error);
    if (status == NS_OK) {
        report_findings(report, c);
        report_data_channels(report, c);
        report_data_recordings(report, c);
        report_curves(report, c);
        ns_report_set_record(report, record.data, record.size);
        status = ns_report_check(report, error);
    }
    ns_text_free(&record);
    if (status == NS_OK) {
        *out = report;
    } else {
        ns_report_free(report);
    }
    return status;
}
