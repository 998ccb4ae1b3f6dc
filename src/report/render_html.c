// A report for a browser: one page with its style, figures (SVG) and motion in it.

#include "report/report_data.h"

#include "io/file.h"
#include "report/html.h"
#include "report/motion_data.h"

enum { PAGE_MAX_ROWS = 200 };

// ---- parts -------------------------------------------------------------------------------------

// A network of NaN cannot be drawn and is left out.
static void page_add_figure(nsi_text_builder* b, const ns_figure* figure) {
    nsi_drawing drawing;
    ns_status status = nsi_figure_draw(figure, &b->allocator, &drawing, NULL);
    if (status == NS_ERR_NOMEM) b->failed = true;
    if (status == NS_OK) {
        if (figure->caption) {
            nsi_text_add(b, "<p class=\"faint\">");
            nsi_html_text(b, figure->caption);
            nsi_text_add(b, "</p>\n");
        }
        nsi_html_drawing(b, &drawing);
    }
    nsi_drawing_free(&drawing);
}

static void page_add_headings(nsi_text_builder* b, const ns_report_table* t) {
    nsi_text_add(b, "<div class=\"wide\"><table>\n<tr>");
    for (uint32_t k = 0; k < t->ncolumn; k++) {
        const ns_report_column* column = &t->columns[k];
        nsi_text_add(b, "<th%s>", nsi_column_is_left(column) ? " class=\"l\"" : "");
        nsi_html_text(b, column->name);
        if (column->unit && *column->unit) nsi_text_add(b, ", ");
        nsi_html_text(b, column->unit);
        nsi_text_add(b, "</th>");
        if (column->format == NS_FORMAT_ESTIMATE) nsi_text_add(b, "<th>\xc2\xb1</th>");
    }
    nsi_text_add(b, "</tr>\n");
}

// An address leads to a page below this one, never elsewhere.
static bool page_may_link(const char* link) {
    return link && *link && *link != '/' && !strchr(link, ':') && !strstr(link, "..");
}

static void page_add_cell(nsi_text_builder* b, const ns_report_column* column, const ns_cell* cell,
                          bool error) {
    nsi_formatted number;
    bool left = nsi_column_is_left(column), link = page_may_link(cell->link) && !error;
    bool bad = cell->kind == NS_CELL_VERDICT && cell->bad;
    nsi_text_add(b, "<td class=\"%s%s%s\">", left ? "l" : "", left && bad ? " " : "",
                 bad ? "bad" : "");
    if (link) {
        nsi_text_add(b, "<a href=\"");
        nsi_html_text(b, cell->link);
        nsi_text_add(b, "\">");
    }
    nsi_html_text(b, nsi_cell_format(column, cell, error, &number));
    nsi_text_add(b, "%s</td>", link ? "</a>" : "");
}

static void page_add_table(nsi_text_builder* b, const ns_report_table* t) {
    uint32_t rows = t->nrow < PAGE_MAX_ROWS ? t->nrow : PAGE_MAX_ROWS;
    if (t->title) nsi_html_element(b, "h3", t->title);
    if (rows == 0) return;
    page_add_headings(b, t);
    for (uint32_t row = 0; row < rows; row++) {
        nsi_text_add(b, "<tr>");
        for (uint32_t k = 0; k < t->ncolumn; k++) {
            const ns_report_column* column = &t->columns[k];
            const ns_cell* cell = ns_report_table_cell(t, row, k);
            page_add_cell(b, column, cell, false);
            if (column->format == NS_FORMAT_ESTIMATE) page_add_cell(b, column, cell, true);
        }
        nsi_text_add(b, "</tr>\n");
    }
    nsi_html_close_table(b);
    if (t->nrow > rows) {
        nsi_text_add(b, "<p>%u more rows are in the JSON.</p>\n", t->nrow - rows);
    }
}

static void page_add_item(nsi_text_builder* b, const char* class, const char* lead,
                          const char* text) {
    nsi_text_add(b, "<li%s%s%s>%s", *class ? " class=\"" : "", class, *class ? "\"" : "", lead);
    nsi_html_text(b, text);
    nsi_text_add(b, "</li>\n");
}

// Items that follow one another are one list.
static bool page_is_item(const ns_section* s, uint32_t k) {
    if (k >= s->items.count || s->items.data[k].kind != NSI_ITEM_NOTE) return false;
    ns_note_level level = s->notes.data[s->items.data[k].number].level;
    return level == NS_NOTE_INFO || level == NS_NOTE_WARNING;
}

static void page_add_note(nsi_text_builder* b, const ns_section* s, uint32_t k) {
    const ns_note* note = &s->notes.data[s->items.data[k].number];
    bool item = page_is_item(s, k);
    if (item && (k == 0 || !page_is_item(s, k - 1))) nsi_text_add(b, "<ul>\n");
    if (note->level == NS_NOTE_TEXT) {
        nsi_text_add(b, "<p class=\"faint\">");
        nsi_html_text(b, note->text);
        nsi_text_add(b, "</p>\n");
    } else if (note->level == NS_NOTE_INFO) {
        page_add_item(b, "", "", note->text);
    } else if (note->level == NS_NOTE_WARNING) {
        page_add_item(b, "warning", "<strong>Warning:</strong> ", note->text);
    }
    if (item && !page_is_item(s, k + 1)) nsi_text_add(b, "</ul>\n");
}

// ---- page --------------------------------------------------------------------------------------

// A section that has nothing to show has no heading.
static bool page_shows(const ns_section* s) {
    for (uint32_t k = 0; k < s->items.count; k++) {
        const nsi_item* item = &s->items.data[k];
        bool problem =
            item->kind == NSI_ITEM_NOTE && s->notes.data[item->number].level == NS_NOTE_PROBLEM;
        if (!problem) return true;
    }
    return false;
}

static ns_status page_add_section(nsi_text_builder* b, const ns_report* r, const ns_section* s,
                                  ns_error* error) {
    ns_status status = NS_OK;
    if (s->title && page_shows(s)) nsi_html_element(b, "h2", s->title);
    for (uint32_t k = 0; k < s->items.count && status == NS_OK; k++) {
        uint32_t number = s->items.data[k].number;
        switch (s->items.data[k].kind) {
        case NSI_ITEM_NOTE: page_add_note(b, s, k); break;
        case NSI_ITEM_TABLE: page_add_table(b, s->tables.data[number]); break;
        case NSI_ITEM_FIGURE: page_add_figure(b, &r->figures.list.data[number]); break;
        case NSI_ITEM_MOTION: status = nsi_motion_write(s->motions.data[number], b, error); break;
        }
    }
    return status;
}

// A result that should not be trusted says so before everything else.
static void page_add_problems(nsi_text_builder* b, const ns_report* r) {
    for (uint32_t s = 0; s < r->sections.count; s++) {
        const ns_section* section = r->sections.data[s];
        for (uint32_t k = 0; k < section->notes.count; k++) {
            if (section->notes.data[k].level != NS_NOTE_PROBLEM) continue;
            nsi_text_add(b, "<p class=\"problem\" role=\"alert\"><strong>Problem:</strong> ");
            nsi_html_text(b, section->notes.data[k].text);
            nsi_text_add(b, "</p>\n");
        }
    }
}

ns_status ns_report_html(const ns_report* report, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = report->allocator, .failed = report->failed};
    ns_status status = NS_OK;
    nsi_html_open(&b, report->title);
    page_add_problems(&b, report);
    nsi_html_element(&b, "h1", report->title);

    // Facts, then sections.
    if (report->facts.count > 0) nsi_text_add(&b, "<dl>\n");
    for (uint32_t k = 0; k < report->facts.count; k++) {
        nsi_html_element(&b, "dt", report->facts.data[k].name);
        nsi_html_element(&b, "dd", report->facts.data[k].text);
    }
    if (report->facts.count > 0) nsi_text_add(&b, "</dl>\n");
    for (uint32_t k = 0; k < report->sections.count && status == NS_OK; k++) {
        status = page_add_section(&b, report, report->sections.data[k], error);
    }
    nsi_html_close(&b);

    if (status == NS_OK) return nsi_text_finish(&b, out, error);
    *out = (ns_text){0};
    nsi_array_free(&b.allocator, &b.text);
    return status;
}

ns_status ns_report_save_html(const ns_report* report, const char* path, size_t* size,
                              ns_error* error) {
    ns_text text;
    if (size) *size = 0;
    ns_status status = ns_report_html(report, &text, error);
    if (status == NS_OK) {
        status = nsi_file_write(path, text.data, text.size, &report->allocator, error);
    }
    if (status == NS_OK && size) *size = text.size;
    ns_text_free(&text);
    return status;
}
