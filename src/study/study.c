// Loads, runs, reports and saves studies. The kinds are in study_fits.c and study_grid.c.

#include "study/study_state.h"

#include "io/file.h"

#include <stdarg.h>
#include <stdio.h>

// ---- failures, notes, progress -------------------------------------------------------------------

bool nsi_study_fail(ns_study* s, ns_status status, const char* format, ...) {
    if (s->status != NS_OK) return false;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->error.message, sizeof s->error.message, format, arguments);
    va_end(arguments);
    s->status = s->error.status = status;
    return false;
}

bool nsi_study_fail_nomem(ns_study* s) {
    return nsi_study_fail(s, NS_ERR_NOMEM, "%s", ns_status_text(NS_ERR_NOMEM));
}

bool nsi_study_take(ns_study* s, ns_status status) {
    if (s->status == NS_OK) s->status = status;
    return s->status == NS_OK;
}

void nsi_study_keep_problem(ns_study* s) {
    if (s->status == NS_OK || s->status == NS_ERR_NOMEM) return;
    const char* message = s->error.message;
    const char* kept = nsi_arena_string(&s->yaml.arena, message, strlen(message));
    s->status = NS_OK;
    if (!kept) nsi_study_fail_nomem(s);
    if (kept && s->nproblem < STUDY_MAX_PROBLEMS) s->problems[s->nproblem++] = kept;
}

void nsi_study_note(ns_study* s, const char* format, ...) {
    char text[2 * NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (s->options.notify) s->options.notify(s->options.context, text);
}

bool nsi_study_observe(ns_study* s, const char* what, double done, double total) {
    ns_study_progress progress = {what, done, total, nsi_clock_wall() - s->began};
    if (s->options.observe && s->options.observe(s->options.context, &progress)) s->stopped = true;
    return s->stopped;
}

// ---- loading -------------------------------------------------------------------------------------

static const study_kind* const study_kinds[] = {&nsi_study_kind_fits, &nsi_study_kind_grid};
enum { STUDY_KINDS = sizeof study_kinds / sizeof *study_kinds };

static const nsi_schema_key study_keys[] = {
    {"kind", NSI_KEY_OTHER, .values = "`fits`, `grid`", .help = "what the study runs"},
    {"title", NSI_KEY_TEXT, offsetof(ns_study, title), .required = true, .help = "one line"},
    {"citation", NSI_KEY_TEXT, offsetof(ns_study, citation), .help = "whose work this is"},
    {"source", NSI_KEY_TEXT, offsetof(ns_study, source), .help = "where to get the data"},
    {"notes", NSI_KEY_TEXTS, offsetof(ns_study, notes), .help = "shown below the tables"},
};
const nsi_schema nsi_study_schema = NSI_SCHEMA("a study", study_keys, NULL);

// The kind, and the keys that all kinds have.
static void study_read_common(ns_study* s) {
    ns_choice rows[STUDY_KINDS];
    for (int k = 0; k < STUDY_KINDS; k++) {
        rows[k] = (ns_choice){k, study_kinds[k]->name, study_kinds[k]->help};
    }
    const ns_choices kinds = NS_CHOICES("kind of experiment", rows);
    const nsi_yaml_node* root = s->yaml.root;
    int kind = -1;
    if (root->type != NSI_YAML_MAP) nsi_study_fault(s, root, "expected keys: kind, title");
    if (s->status != NS_OK) return;

    nsi_study_take(
        s, nsi_yaml_choice(&s->yaml, nsi_yaml_find(root, "kind"), &kinds, &kind, &s->error));
    if (kind < 0) nsi_study_fault(s, root, "`kind` is missing: fits or grid");
    if (s->status != NS_OK) return;

    nsi_schema_reader r = {.yaml = &s->yaml, .arena = &s->yaml.arena, .error = &s->error};
    nsi_study_take(s, nsi_schema_read_known(&r, &nsi_study_schema, root, s));
    s->kind = study_kinds[kind];
}

// The name of the folder that the file is in.
static const char* study_folder_name(ns_study* s) {
    const char *end = s->folder + strlen(s->folder), *first;
    while (end > s->folder && end[-1] == '/') end--;
    for (first = end; first > s->folder && first[-1] != '/'; first--) {
    }
    const char* name =
        first < end ? nsi_arena_string(&s->yaml.arena, first, (size_t)(end - first)) : "study";
    if (!name) nsi_study_fail_nomem(s);
    return name;
}

static void study_load(ns_study* s, const char* path) {
    // The tree refers to the path, and owns everything else that is read.
    size_t size = strlen(path) + 1;
    s->path = nsi_alloc(NULL, size);
    if (!s->path) {
        nsi_study_fail_nomem(s);
        return;
    }
    memcpy(s->path, path, size);
    if (!nsi_study_take(s, nsi_yaml_read(s->path, NULL, &s->yaml, &s->error))) return;

    char* folder = nsi_file_folder(path, NULL);
    s->folder = folder ? nsi_arena_string(&s->yaml.arena, folder, strlen(folder)) : NULL;
    nsi_free(NULL, folder);
    if (!s->folder) {
        nsi_study_fail_nomem(s);
        return;
    }
    s->name = study_folder_name(s);

    study_read_common(s);
    if (s->status == NS_OK) s->kind->read(s);
}

ns_status ns_study_load(const char* path, const ns_study_options* options, ns_study** out,
                        ns_error* error) {
    ns_study* s = nsi_alloc_zeroed(NULL, sizeof *s);
    *out = NULL;
    if (!s) return nsi_fail_nomem(error);
    if (options) s->options = *options;
    s->began = nsi_clock_wall();
    nsi_figures_init(NULL, &s->charts);

    study_load(s, path);
    if (s->status == NS_OK) {
        *out = s;
        return NS_OK;
    }
    ns_status status = s->status;
    if (error) *error = s->error;
    ns_study_free(s);
    return status;
}

void ns_study_free(ns_study* s) {
    if (!s) return;
    if (s->kind) s->kind->free(s);
    nsi_figures_free(&s->charts);
    nsi_yaml_free(&s->yaml);
    nsi_free(NULL, s->path);
    nsi_free(NULL, s);
}

const char* ns_study_name(const ns_study* s) {
    return s->name;
}

const char* ns_study_title(const ns_study* s) {
    return s->title;
}

// ---- running -------------------------------------------------------------------------------------

ns_status ns_study_run(ns_study* s, const char* folder, ns_error* error) {
    if (s->ran) return nsi_fail(error, NS_ERR_STATE, "%s: a study is run once", s->name);
    s->ran = true;
    s->output = nsi_arena_string(&s->yaml.arena, folder, strlen(folder));
    if (!s->output) nsi_study_fail_nomem(s);

    // A folder is made only when there is something to run.
    bool done = s->output && s->kind->prepare(s) && nsi_study_make_folder(s, s->output);
    if (done) {
        nsi_study_remove_results(s);
        done = s->kind->run(s) && !s->stopped;
        if (!done) nsi_study_remove_results(s);
    }
    s->seconds = nsi_clock_wall() - s->began;
    s->finished = done;

    if (s->status != NS_OK && error) *error = s->error;
    return s->status;
}

bool ns_study_stopped(const ns_study* s) {
    return s->stopped;
}

uint32_t ns_study_problem_count(const ns_study* s) {
    return s->nproblem;
}

const char* ns_study_problem(const ns_study* s, uint32_t number) {
    return number < s->nproblem ? s->problems[number] : NULL;
}

// ---- report --------------------------------------------------------------------------------------

static ns_status study_set_record(ns_study* s, ns_report* report, ns_error* error) {
    ns_json* j = ns_json_create(NULL);
    ns_json_text(j, "experiment", s->name);
    ns_json_text(j, "title", s->title);
    ns_json_count(j, "seed", s->kind->seed(s));
    ns_json_bool(j, "quick", s->options.smoke);
    ns_json_number(j, "seconds", s->seconds);
    bool done = s->kind->record(s, j);

    ns_text text = {0};
    ns_status status = ns_json_finish(j, &text, error);
    if (!done && status == NS_OK) {
        status = s->status;
        if (error) *error = s->error;
    }
    if (status == NS_OK) ns_report_set_record(report, text.data, text.size);
    ns_text_free(&text);
    return status;
}

static void study_add_facts(const ns_study* s, ns_report* report) {
    char text[300];
    ns_report_add_fact(report, "citation", s->citation);
    ns_report_add_fact(report, "data", s->source);
    snprintf(text, sizeof text, "neuralsim experiment %.200s%s", s->name,
             s->options.smoke ? " --quick (only a part of it)" : "");
    ns_report_add_fact(report, "command", text);
    snprintf(text, sizeof text, "%s s", nsi_format(s->seconds, 3).text);
    ns_report_add_fact(report, "time", text);
}

// Notes of the file, after the results; problems are shown first wherever they stand.
static void study_add_notes(const ns_study* s, ns_report* report) {
    if (s->notes.count + s->nproblem == 0) return;
    ns_section* section = ns_report_add_section(report, "Notes");
    for (uint32_t k = 0; k < s->nproblem; k++) {
        ns_section_add_note(section, NS_NOTE_PROBLEM, s->problems[k]);
    }
    for (uint32_t k = 0; k < s->notes.count; k++) {
        ns_section_add_note(section, NS_NOTE_INFO, s->notes.data[k]);
    }
}

void nsi_study_show_figure(ns_section* section, const ns_figure* chart) {
    if (!section) return;
    nsi_figures* figures = nsi_report_figures(section->report);
    if (!nsi_array_push(&section->report->allocator, &figures->list, *chart)) {
        section->report->failed = true;
        return;
    }
    nsi_section_show_figure(section, chart->name);
}

ns_status ns_study_report(ns_study* s, ns_report** out, ns_error* error) {
    *out = NULL;
    if (!s->finished) {
        return nsi_fail(error, NS_ERR_STATE, "%s: there is no finished run to report", s->name);
    }
    ns_report* report = NULL;
    ns_status status = ns_report_create(s->title, NULL, &report, error);
    if (status != NS_OK) return status;

    study_add_facts(s, report);
    s->kind->report(s, report);
    study_add_notes(s, report);
    status = study_set_record(s, report, error);
    if (status == NS_OK) status = ns_report_check(report, error);

    if (status == NS_OK) {
        *out = report;
    } else {
        ns_report_free(report);
    }
    return status;
}

// ---- saving --------------------------------------------------------------------------------------

static void study_write_rendered(ns_study* s, const ns_report* report, const char* name,
                                 ns_status (*render)(const ns_report*, ns_text*, ns_error*)) {
    ns_text text = {0};
    if (s->status == NS_OK && nsi_study_take(s, render(report, &text, &s->error))) {
        nsi_study_write(s, s->output, name, &text);
    }
    ns_text_free(&text);
}

static void study_write_figure(ns_study* s, const ns_figure* figure, const char* ending,
                               ns_status (*draw)(const ns_figure*, const ns_allocator*, ns_text*,
                                                 ns_error*)) {
    ns_text text = {0};
    char name[100];
    snprintf(name, sizeof name, "%.80s%s", figure->name, ending);
    if (s->status == NS_OK && nsi_study_take(s, draw(figure, NULL, &text, &s->error))) {
        nsi_study_write(s, s->output, name, &text);
    }
    ns_text_free(&text);
}

ns_status ns_study_save(ns_study* s, ns_error* error) {
    ns_report* report = NULL;
    ns_status status = ns_study_report(s, &report, error);
    if (status != NS_OK) return status;

    for (uint32_t k = 0; k < ns_report_figure_count(report); k++) {
        study_write_figure(s, ns_report_figure(report, k), ".svg", ns_figure_svg);
        study_write_figure(s, ns_report_figure(report, k), ".csv", ns_figure_csv);
    }
    study_write_rendered(s, report, "result.json", ns_report_json);
    study_write_rendered(s, report, "report.html", ns_report_html);
    ns_report_free(report);

    // A folder that could not be written can be written later.
    status = s->status;
    s->status = NS_OK;
    if (status != NS_OK && error) *error = s->error;
    return status;
}
