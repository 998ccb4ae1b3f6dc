// A report for programs: one object of JSON.

#include "report/report_data.h"

#include "neuralsim/json.h"
#include "report/motion_data.h"

static void json_add_cell(ns_json* j, const ns_cell* cell) {
    switch (cell->kind) {
    case NS_CELL_MISSING: ns_json_text(j, NULL, NULL); break;
    case NS_CELL_TEXT:
    case NS_CELL_VERDICT: ns_json_text(j, NULL, cell->text); break;
    case NS_CELL_NUMBER: ns_json_number(j, NULL, cell->value); break;
    case NS_CELL_ESTIMATE:
        ns_json_open(j, NULL, '{');
        ns_json_number(j, "value", cell->value);
        ns_json_number(j, "standard_error", cell->standard_error);
        ns_json_close(j);
        break;
    }
}

static void json_add_table(ns_json* j, const ns_report_table* t) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", t->name);
    if (t->title) ns_json_text(j, "title", t->title);
    ns_json_open(j, "columns", '[');
    for (uint32_t k = 0; k < t->ncolumn; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", t->columns[k].name);
        ns_json_text(j, "unit", t->columns[k].unit);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_open(j, "rows", '[');
    for (uint32_t row = 0; row < t->nrow; row++) {
        ns_json_open(j, NULL, '[');
        for (uint32_t k = 0; k < t->ncolumn; k++) {
            json_add_cell(j, ns_report_table_cell(t, row, k));
        }
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_close(j);
}

static void json_add_notes(ns_json* j, const ns_section* s) {
    static const char* const levels[] = {"text", "info", "warning", "problem"};
    ns_json_open(j, "notes", '[');
    for (uint32_t k = 0; k < s->notes.count; k++) {
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "level", levels[s->notes.data[k].level]);
        ns_json_text(j, "text", s->notes.data[k].text);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void json_add_section(ns_json* j, const ns_section* s) {
    // Notes and tables first, as in the other renderers.
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", s->title);
    json_add_notes(j, s);

    // Tables hold numbers in full precision.
    ns_json_open(j, "tables", '[');
    for (uint32_t k = 0; k < s->tables.count; k++) json_add_table(j, s->tables.data[k]);
    ns_json_close(j);

    // Figures are listed by name; their numbers are in the record or in files of their own.
    ns_json_open(j, "figures", '[');
    for (uint32_t k = 0; k < s->figures.count; k++) {
        const ns_figure* figure = ns_section_figure(s, k);
        ns_json_open(j, NULL, '{');
        // The name is also that of the file.
        ns_json_text(j, "name", figure->name);
        ns_json_text(j, "title", figure->title);
        ns_json_close(j);
    }
    ns_json_close(j);

    // Motions are described without their samples.
    ns_json_open(j, "motions", '[');
    for (uint32_t k = 0; k < s->motions.count; k++) {
        ns_json_open(j, NULL, '{');
        // Episodes, tracks and quantities.
        nsi_motion_describe(s->motions.data[k], "episodes", j);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_close(j);
}

static void json_add_report(ns_json* j, const ns_report* r) {
    ns_json_text(j, "title", r->title);
    ns_json_open(j, "facts", '{');
    for (uint32_t k = 0; k < r->facts.count; k++) {
        ns_json_text(j, r->facts.data[k].name, r->facts.data[k].text);
    }
    ns_json_close(j);
    ns_json_open(j, "problems", '[');
    for (uint32_t s = 0; s < r->sections.count; s++) {
        const ns_section* section = r->sections.data[s];
        for (uint32_t k = 0; k < section->notes.count; k++) {
            const ns_note* note = &section->notes.data[k];
            if (note->level == NS_NOTE_PROBLEM) ns_json_text(j, NULL, note->text);
        }
    }
    ns_json_close(j);
    ns_json_open(j, "sections", '[');
    for (uint32_t k = 0; k < r->sections.count; k++) json_add_section(j, r->sections.data[k]);
    ns_json_close(j);
}

// The members of the record, between its braces, in front of those of the report.
static ns_status json_join(const ns_report* r, const ns_text* report, ns_text* out,
                           ns_error* error) {
    nsi_text_builder b = {.allocator = r->allocator};
    size_t size = r->record_size;
    while (size > 0 && r->record[size - 1] != '}') size--;
    while (size > 1 && (r->record[size - 2] == '\n' || r->record[size - 2] == ' ')) size--;
    bool empty = size <= 2;
    nsi_text_add_bytes(&b, r->record, size > 0 ? size - 1 : 0);
    nsi_text_add(&b, "%s", empty ? "" : ",");
    nsi_text_add_bytes(&b, report->data + 1, report->size - 1); // without its brace
    return nsi_text_finish(&b, out, error);
}

ns_status ns_report_json(const ns_report* report, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    if (report->failed) return nsi_fail_nomem(error);
    ns_json* j = ns_json_create(&report->allocator);
    ns_json_open(j, "report", '{');
    json_add_report(j, report);
    ns_json_close(j);
    if (!report->record) return ns_json_finish(j, out, error);
    ns_text text;
    ns_status status = ns_json_finish(j, &text, error);
    if (status == NS_OK) status = json_join(report, &text, out, error);
    ns_text_free(&text);
    return status;
}
