// Reports: built, read. Everything lives in one arena; a failure to allocate sticks.

#include "report/report_data.h"

#include "report/web_bundle.h"

#include <stdarg.h>
#include <stdio.h>

// More digits than a double has.
enum { MAX_COLUMN_DIGITS = 17 };

// ---- memory ------------------------------------------------------------------------------------

ns_status ns_report_create(const char* title, const ns_allocator* allocator, ns_report** out,
                           ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_report* report = nsi_alloc_zeroed(&memory, sizeof *report);
    *out = NULL;
    if (!report) return nsi_fail_nomem(error);
    report->allocator = memory;
    nsi_figures_init(&memory, &report->figures);
    if (!title) title = "";
    report->title = nsi_arena_string(&report->figures.arena, title, strlen(title));
    if (!report->title) {
        ns_report_free(report);
        return nsi_fail_nomem(error);
    }
    *out = report;
    return NS_OK;
}

void ns_report_free(ns_report* report) {
    if (!report) return;
    ns_allocator memory = report->allocator;
    for (uint32_t k = 0; k < report->sections.count; k++) {
        ns_section* section = report->sections.data[k];
        for (uint32_t t = 0; t < section->tables.count; t++) {
            nsi_array_free(&memory, &section->tables.data[t]->cells);
        }
        for (uint32_t m = 0; m < section->motions.count; m++) {
            ns_motion_free(section->motions.data[m]);
        }
        nsi_array_free(&memory, &section->items);
        nsi_array_free(&memory, &section->notes);
        nsi_array_free(&memory, &section->tables);
        nsi_array_free(&memory, &section->figures);
        nsi_array_free(&memory, &section->motions);
    }
    nsi_array_free(&memory, &report->facts);
    nsi_array_free(&memory, &report->sections);
    nsi_figures_free(&report->figures); // the sections themselves, too
    for (uint32_t k = report->owned.count; k-- > 0;) {
        report->owned.data[k].release(report->owned.data[k].object);
    }
    nsi_array_free(&memory, &report->owned);
    nsi_free(&memory, report);
}

ns_status ns_report_check(const ns_report* report, ns_error* error) {
    return report->failed ? nsi_fail_nomem(error) : NS_OK;
}

void nsi_report_own(ns_report* report, void* object, void (*release)(void* object)) {
    nsi_report_owned owned = {object, release};
    if (nsi_array_push(&report->allocator, &report->owned, owned)) return;
    report->failed = true;
    release(object);
}

void* ns_report_alloc(ns_report* report, size_t count, size_t size) {
    void* block = nsi_figures_zeros(&report->figures, count, size);
    if (!block) report->failed = true;
    return block;
}

// A copy of a text; NULL stays NULL.
static const char* report_keep(ns_report* report, const char* text) {
    if (!text) return NULL;
    const char* kept = nsi_arena_string(&report->figures.arena, text, strlen(text));
    if (!kept) report->failed = true;
    return kept;
}

// ---- sections ----------------------------------------------------------------------------------

void ns_report_add_fact(ns_report* report, const char* name, const char* text) {
    if (!text || !*text) return;
    ns_fact fact = {report_keep(report, name), report_keep(report, text)};
    if (report->failed || !nsi_array_push(&report->allocator, &report->facts, fact)) {
        report->failed = true;
    }
}

ns_section* ns_report_add_section(ns_report* report, const char* title) {
    ns_section* section = ns_report_alloc(report, 1, sizeof *section);
    if (!section) return NULL;
    section->report = report;
    section->title = report_keep(report, title);
    if (report->failed || !nsi_array_push(&report->allocator, &report->sections, section)) {
        report->failed = true;
        return NULL;
    }
    return section;
}

static void section_add_item(ns_section* section, nsi_item_kind kind, uint32_t number) {
    nsi_item item = {kind, number};
    if (!nsi_array_push(&section->report->allocator, &section->items, item)) {
        section->report->failed = true;
    }
}

void ns_section_add_note(ns_section* section, ns_note_level level, const char* text) {
    if (!section) return;
    ns_report* report = section->report;
    ns_note note = {level, report_keep(report, text ? text : "")};
    if (report->failed || !nsi_array_push(&report->allocator, &section->notes, note)) {
        report->failed = true;
        return;
    }
    section_add_item(section, NSI_ITEM_NOTE, section->notes.count - 1);
}

void nsi_section_add_notef(ns_section* section, ns_note_level level, const char* format, ...) {
    if (!section) return;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    size_t size = length < 0 ? 1 : (size_t)length + 1;
    char* text = ns_report_alloc(section->report, size, 1);
    if (text) {
        vsnprintf(text, size, format, again);
        ns_section_add_note(section, level, text);
    }
    va_end(again);
    va_end(arguments);
}

void ns_section_add_motion(ns_section* section, ns_motion* motion) {
    if (!motion) return;
    if (!section || !nsi_array_push(&section->report->allocator, &section->motions, motion)) {
        if (section) section->report->failed = true;
        ns_motion_free(motion);
        return;
    }
    section_add_item(section, NSI_ITEM_MOTION, section->motions.count - 1);
}

// ---- tables ------------------------------------------------------------------------------------

ns_report_table* ns_section_add_table(ns_section* section, const char* name, const char* title,
                                      const ns_report_column* columns, uint32_t ncolumn) {
    // A failed section swallows what is added to it: the renderer reports the failure.
    if (!section) return NULL;
    ns_report* report = section->report;

    // The report owns its tables.
    ns_report_table* table = ns_report_alloc(report, 1, sizeof *table);
    ns_report_column* own = ns_report_alloc(report, ncolumn, sizeof *own);
    if (!table || !own) return NULL;

    // Copy the columns; callers may pass temporary texts.
    for (uint32_t k = 0; k < ncolumn; k++) {
        own[k] = columns[k];
        own[k].name = report_keep(report, columns[k].name ? columns[k].name : "");
        own[k].unit = report_keep(report, columns[k].unit);
        // Defaults and limits: formatting buffers hold 17 digits.
        if (own[k].digits <= 0) own[k].digits = 3;
        if (own[k].digits > MAX_COLUMN_DIGITS) own[k].digits = MAX_COLUMN_DIGITS;
    }

    // Tables of the JSON report are found by name.
    *table = (ns_report_table){.report = report,
                               .name = report_keep(report, name),
                               .title = report_keep(report, title),
                               .columns = own,
                               .ncolumn = ncolumn};

    // Register the table, both by kind and in reading order.
    if (report->failed || !nsi_array_push(&report->allocator, &section->tables, table)) {
        report->failed = true;
        return NULL;
    }
    section_add_item(section, NSI_ITEM_TABLE, section->tables.count - 1);
    return table;
}

void ns_report_table_add_row(ns_report_table* table, const ns_cell* cells, uint32_t ncell) {
    if (!table) return;
    ns_report* report = table->report;
    if (!nsi_array_reserve(&report->allocator, &table->cells, table->ncolumn)) {
        report->failed = true;
        return;
    }
    for (uint32_t k = 0; k < table->ncolumn; k++) {
        ns_cell cell = k < ncell ? cells[k] : ns_cell_missing();
        cell.text = report_keep(report, cell.text);
        cell.link = report_keep(report, cell.link);
        table->cells.data[table->cells.count++] = cell;
    }
    table->nrow++;
}

const char* nsi_cell_format(const ns_report_column* column, const ns_cell* cell, bool error,
                            nsi_formatted* room) {
    bool estimate = column->format == NS_FORMAT_ESTIMATE;
    if (cell->kind == NS_CELL_TEXT || cell->kind == NS_CELL_VERDICT) {
        return error || !cell->text ? "" : cell->text;
    }
    if (cell->kind == NS_CELL_MISSING) return "";

    // A number alone in a column of estimates has no error.
    double deviation = cell->kind == NS_CELL_ESTIMATE ? cell->standard_error : NAN;
    if (error) {
        *room = nsi_format_error(cell->value, deviation);
    } else if (estimate) {
        *room = nsi_format_value(cell->value, deviation);
    } else if (column->format == NS_FORMAT_COUNT && isfinite(cell->value)) {
        snprintf(room->text, sizeof room->text, "%.0f", cell->value); // no point: any locale
    } else if (column->format == NS_FORMAT_SETTING) {
        *room = nsi_format_short(cell->value, column->digits);
    } else if (column->format == NS_FORMAT_PERCENT && isfinite(cell->value)) {
        nsi_formatted number = nsi_format(100.0 * cell->value, column->digits);
        snprintf(room->text, sizeof room->text, "%.28s %%", number.text);
    } else {
        *room = nsi_format(cell->value, column->digits);
    }
    return room->text;
}

// ---- figures -----------------------------------------------------------------------------------

static void section_push_figure(ns_section* section, uint32_t number) {
    if (!nsi_array_push(&section->report->allocator, &section->figures, number)) {
        section->report->failed = true;
        return;
    }
    section_add_item(section, NSI_ITEM_FIGURE, number);
}

ns_figure* ns_section_add_figure(ns_section* section, ns_figure_kind kind, const char* name,
                                 const char* title) {
    if (!section) return NULL;
    ns_report* report = section->report;
    const char* kept = report_keep(report, title ? title : "");
    ns_figure* figure = kept ? nsi_figures_add(&report->figures, kind, name, kept) : NULL;
    if (!figure) {
        report->failed = true;
        return NULL;
    }
    section_push_figure(section, report->figures.list.count - 1);
    return figure;
}

void nsi_section_show_figure(ns_section* section, const char* name) {
    if (!section) return;
    const ns_figure* figure = nsi_figures_find(&section->report->figures, name);
    if (figure) {
        section_push_figure(section, (uint32_t)(figure - section->report->figures.list.data));
    }
}

void nsi_section_show_figures(ns_section* section, uint32_t first) {
    for (uint32_t k = first; k < section->report->figures.list.count; k++) {
        section_push_figure(section, k);
    }
}

void ns_report_set_record(ns_report* report, const char* json, size_t size) {
    report->record = nsi_arena_string(&report->figures.arena, json, size);
    report->record_size = size;
    if (!report->record) report->failed = true;
}

// ---- reading -----------------------------------------------------------------------------------

const char* ns_report_title(const ns_report* report) {
    return report->title;
}
uint32_t ns_report_fact_count(const ns_report* report) {
    return report->facts.count;
}
ns_fact ns_report_fact(const ns_report* report, uint32_t number) {
    return report->facts.data[number];
}
uint32_t ns_report_section_count(const ns_report* report) {
    return report->sections.count;
}
const ns_section* ns_report_section(const ns_report* report, uint32_t number) {
    return report->sections.data[number];
}
uint32_t ns_report_figure_count(const ns_report* report) {
    return report->figures.list.count;
}
const ns_figure* ns_report_figure(const ns_report* report, uint32_t number) {
    return &report->figures.list.data[number];
}
const ns_figure* ns_report_find_figure(const ns_report* report, const char* name) {
    return nsi_figures_find(&report->figures, name);
}

const char* ns_section_title(const ns_section* section) {
    return section->title;
}
uint32_t ns_section_note_count(const ns_section* section) {
    return section->notes.count;
}
ns_note ns_section_note(const ns_section* section, uint32_t number) {
    return section->notes.data[number];
}
uint32_t ns_section_table_count(const ns_section* section) {
    return section->tables.count;
}
const ns_report_table* ns_section_table(const ns_section* section, uint32_t number) {
    return section->tables.data[number];
}
uint32_t ns_section_figure_count(const ns_section* section) {
    return section->figures.count;
}
const ns_figure* ns_section_figure(const ns_section* section, uint32_t number) {
    return &section->report->figures.list.data[section->figures.data[number]];
}
uint32_t ns_section_motion_count(const ns_section* section) {
    return section->motions.count;
}

const char* ns_report_table_name(const ns_report_table* table) {
    return table->name;
}
const char* ns_report_table_title(const ns_report_table* table) {
    return table->title;
}
uint32_t ns_report_table_column_count(const ns_report_table* table) {
    return table->ncolumn;
}
const ns_report_column* ns_report_table_column(const ns_report_table* table, uint32_t number) {
    return &table->columns[number];
}
uint32_t ns_report_table_row_count(const ns_report_table* table) {
    return table->nrow;
}
const ns_cell* ns_report_table_cell(const ns_report_table* table, uint32_t row, uint32_t column) {
    return &table->cells.data[(size_t)row * table->ncolumn + column];
}

// ---- script ------------------------------------------------------------------------------------

bool ns_report_has_script(void) {
    nsi_web_bundle bundle;
    return nsi_web_bundle_get(&bundle);
}

const char* ns_report_script_hint(void) {
    return NSI_WEB_BUNDLE_MISSING;
}
