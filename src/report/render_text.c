// A report for a terminal: plain text, at most 100 columns wide.

#include "report/report_data.h"

enum {
    TEXT_COLUMNS = 100,
    TEXT_MAX_ROWS = 60,
    TEXT_MIN_LABEL = 10, // "citation  "
    TEXT_GAP = 2,        // between columns of a table
    TEXT_MIN_WIDTH = 12  // to which a column of texts is cut at most
};

// ---- lines -------------------------------------------------------------------------------------

static void text_add_character(nsi_text_builder* b, const char* text, size_t size, uint32_t code) {
    if (code == 0xfffd || code == ' ') {
        nsi_text_add(b, code == ' ' ? " " : "?");
    } else {
        nsi_text_add_bytes(b, text, size);
    }
}

static void text_pad(nsi_text_builder* b, uint32_t count) {
    if (count > 0) nsi_text_add(b, "%*s", (int)count, "");
}

// Without blanks at its end.
static void text_end_line(nsi_text_builder* b) {
    while (b->text.count > 0 && b->text.data[b->text.count - 1] == ' ') b->text.count--;
    nsi_text_add(b, "\n");
}

// A paragraph, broken between words. It starts in column `first`, to which its other lines are indented.
typedef struct paragraph {
    nsi_text_builder* b;
    uint32_t first, column;
} paragraph;

static void text_add_words(paragraph* p, const char* text) {
    uint32_t code;
    while (*text) {
        // Find the end of the word, and skip the space behind it.
        const char *word = text, *stop = text;
        uint32_t width = 0;
        while (*text) {
            text += nsi_format_next(text, &code);
            if (code == ' ') break;
            // Width on the screen: characters may take two columns, or none.
            width += nsi_format_columns(code);
            stop = text;
        }
        // Several spaces count as one.
        if (stop == word) continue;

        // Continue in this line, or begin the next one.
        if (p->column > p->first) {
            bool fits = p->column + 1 + width <= TEXT_COLUMNS;
            nsi_text_add(p->b, "%s", fits ? " " : "\n");
            // Hanging indent.
            if (!fits) text_pad(p->b, p->first);
            p->column = fits ? p->column + 1 : p->first;
        }

        // Break a word longer than a line anywhere.
        for (size_t size; word < stop; word += size) {
            size = nsi_format_next(word, &code);
            if (p->column + nsi_format_columns(code) > TEXT_COLUMNS) {
                nsi_text_add(p->b, "\n");
                text_pad(p->b, p->first);
                p->column = p->first;
            }
            // Invalid bytes are printed as question marks.
            text_add_character(p->b, word, size, code);
            p->column += nsi_format_columns(code);
        }
    }
}

static void text_add_wrapped(nsi_text_builder* b, const char* text, uint32_t first) {
    paragraph p = {b, first, first};
    text_add_words(&p, text);
    nsi_text_add(b, "\n");
}

// ---- tables ------------------------------------------------------------------------------------

// A column as it is printed: an estimate takes two.
typedef struct printed_column {
    uint32_t column;
    bool error;
    uint32_t width;
} printed_column;

typedef struct printed_table {
    const ns_report_table* table;
    printed_column* columns;
    uint32_t ncolumn, rows;
} printed_table;

// "horizon, s"; the error of an estimate has a heading of its own. `room` is scratch.
static const char* text_heading(const ns_report_column* column, bool error,
                                nsi_text_builder* room) {
    room->text.count = 0;
    nsi_format_add(room, error ? "+-" : column->name);
    if (!error && column->unit && *column->unit) {
        nsi_text_add(room, ", ");
        nsi_format_add(room, column->unit);
    }
    nsi_text_add_bytes(room, "", 1);
    return room->failed ? "" : room->text.data;
}

static bool text_is_left(const printed_table* p, uint32_t k) {
    return nsi_column_is_left(&p->table->columns[p->columns[k].column]);
}

// As wide as the widest cell.
static void text_measure(printed_table* p, nsi_text_builder* room) {
    const ns_report_table* t = p->table;
    for (uint32_t k = 0; k < t->ncolumn; k++) {
        uint32_t parts = t->columns[k].format == NS_FORMAT_ESTIMATE ? 2 : 1;
        for (uint32_t part = 0; part < parts; part++) {
            printed_column c = {.column = k, .error = part == 1};
            c.width = nsi_format_width(text_heading(&t->columns[k], c.error, room));
            for (uint32_t row = 0; row < p->rows; row++) {
                nsi_formatted number;
                const ns_cell* cell = ns_report_table_cell(t, row, k);
                const char* text = nsi_cell_format(&t->columns[k], cell, c.error, &number);
                uint32_t width = nsi_format_width(text);
                if (width > c.width) c.width = width;
            }
            p->columns[p->ncolumn++] = c;
        }
    }
}

static uint32_t text_total_width(const printed_table* p) {
    uint32_t total = 0;
    for (uint32_t k = 0; k < p->ncolumn; k++) total += p->columns[k].width + (k > 0 ? TEXT_GAP : 0);
    return total;
}

// The widest column of texts that may be cut; NSI_NONE: there is none.
static uint32_t text_find_widest(const printed_table* p) {
    uint32_t widest = NSI_NONE;
    for (uint32_t k = 0; k < p->ncolumn; k++) {
        uint32_t width = p->columns[k].width;
        if (!text_is_left(p, k) || width <= TEXT_MIN_WIDTH) continue;
        if (widest == NSI_NONE || width > p->columns[widest].width) widest = k;
    }
    return widest;
}

// Cut columns of texts where that makes the table fit; otherwise it is printed in parts, for which a
// third of a line is enough for each.
static void text_shrink(printed_table* p) {
    uint32_t total = text_total_width(p), spare = 0;
    for (uint32_t k = 0; k < p->ncolumn; k++) {
        uint32_t width = p->columns[k].width;
        if (text_is_left(p, k) && width > TEXT_MIN_WIDTH) spare += width - TEXT_MIN_WIDTH;
    }
    bool fits = total <= TEXT_COLUMNS + spare;
    for (; fits && total > TEXT_COLUMNS; total--) p->columns[text_find_widest(p)].width--;
    for (uint32_t k = 0; k < p->ncolumn && !fits; k++) {
        if (p->columns[k].width > TEXT_COLUMNS / 3) p->columns[k].width = TEXT_COLUMNS / 3;
    }
}

static void text_add_cell(nsi_text_builder* b, const char* text, uint32_t width, bool left) {
    uint32_t used = nsi_format_width(text);
    if (!left && used < width) text_pad(b, width - used);
    used = nsi_format_clipped(b, text, width < 3 ? 3 : width);
    if (left && used < width) text_pad(b, width - used);
}

// A row, or the headings, of the first column and columns from `first` to `end`.
static void text_add_row(nsi_text_builder* b, const printed_table* p, uint32_t row, uint32_t first,
                         uint32_t end, nsi_text_builder* room) {
    for (uint32_t k = 0; k < end; k = k == 0 ? first : k + 1) {
        const printed_column* c = &p->columns[k];
        const ns_report_column* column = &p->table->columns[c->column];
        nsi_formatted number;
        const char* text =
            row == NSI_NONE
                ? text_heading(column, c->error, room)
                : nsi_cell_format(column, ns_report_table_cell(p->table, row, c->column), c->error,
                                  &number);
        if (k > 0) text_pad(b, TEXT_GAP);
        text_add_cell(b, text, c->width, text_is_left(p, k));
    }
    text_end_line(b);
}

// A table that is too wide is printed in parts, each with the first column.
static void text_add_parts(nsi_text_builder* b, const printed_table* p, nsi_text_builder* room) {
    for (uint32_t first = 1, end = 1; end < p->ncolumn || first == 1; first = end) {
        uint32_t width = p->columns[0].width;
        while (end < p->ncolumn &&
               (end == first || width + TEXT_GAP + p->columns[end].width <= TEXT_COLUMNS)) {
            width += TEXT_GAP + p->columns[end++].width;
        }
        if (first > 1) nsi_text_add(b, "\n");
        text_add_row(b, p, NSI_NONE, first, end, room);
        for (uint32_t row = 0; row < p->rows; row++) text_add_row(b, p, row, first, end, room);
        if (p->ncolumn <= 1) break;
    }
}

static void text_add_table(nsi_text_builder* b, const ns_report_table* t) {
    if (t->title) text_add_wrapped(b, t->title, 0);
    if (t->ncolumn == 0 || t->nrow == 0) return;
    nsi_text_builder room = {.allocator = b->allocator};
    printed_table p = {.table = t, .rows = t->nrow < TEXT_MAX_ROWS ? t->nrow : TEXT_MAX_ROWS};
    p.columns = nsi_alloc(&b->allocator, 2 * (size_t)t->ncolumn * sizeof *p.columns);
    if (p.columns) {
        text_measure(&p, &room);
        text_shrink(&p);
        text_add_parts(b, &p, &room);
        if (t->nrow > p.rows) nsi_text_add(b, "%u more rows are in the JSON.\n", t->nrow - p.rows);
    }
    if (!p.columns || room.failed) b->failed = true;
    nsi_free(&b->allocator, p.columns);
    nsi_array_free(&room.allocator, &room.text);
}

// ---- sections ----------------------------------------------------------------------------------

static void text_add_note(nsi_text_builder* b, const ns_note* note) {
    bool item = note->level != NS_NOTE_TEXT;
    paragraph p = {b, item ? 2 : 0, item ? 2 : 0};
    if (item) nsi_text_add(b, "- ");
    if (note->level == NS_NOTE_WARNING) text_add_words(&p, "warning:");
    text_add_words(&p, note->text);
    nsi_text_add(b, "\n");
}

static bool text_shows(const ns_section* s, const nsi_item* item) {
    if (item->kind == NSI_ITEM_TABLE) return true;
    return item->kind == NSI_ITEM_NOTE && s->notes.data[item->number].level != NS_NOTE_PROBLEM;
}

static void text_add_section(nsi_text_builder* b, const ns_section* s) {
    bool begun = false, after_note = false;
    for (uint32_t k = 0; k < s->items.count; k++) {
        const nsi_item* item = &s->items.data[k];
        if (!text_shows(s, item)) continue;

        // The heading stands over the first thing that is shown; tables are set apart.
        bool note = item->kind == NSI_ITEM_NOTE;
        if (!begun) {
            nsi_text_add(b, "\n");
            if (s->title) text_add_wrapped(b, s->title, 0);
        } else if (!note || !after_note) {
            bool text = note && s->notes.data[item->number].level == NS_NOTE_TEXT;
            if (!text) nsi_text_add(b, "\n");
        }
        begun = true;

        after_note = note;
        if (note) text_add_note(b, &s->notes.data[item->number]);
        if (!note) text_add_table(b, s->tables.data[item->number]);
    }
}

static void text_add_facts(nsi_text_builder* b, const ns_report* r) {
    uint32_t label = TEXT_MIN_LABEL;
    for (uint32_t k = 0; k < r->facts.count; k++) {
        uint32_t width = nsi_format_width(r->facts.data[k].name) + TEXT_GAP;
        if (width > label && width < TEXT_COLUMNS / 2) label = width;
    }
    for (uint32_t k = 0; k < r->facts.count; k++) {
        text_add_cell(b, r->facts.data[k].name, label - TEXT_GAP, true);
        text_pad(b, TEXT_GAP);
        text_add_wrapped(b, r->facts.data[k].text, label);
    }
}

// A result that should not be trusted says so before everything else.
static void text_add_problems(nsi_text_builder* b, const ns_report* r) {
    static const char mark[] = "PROBLEM: ";
    bool any = false;
    for (uint32_t s = 0; s < r->sections.count; s++) {
        const ns_section* section = r->sections.data[s];
        for (uint32_t k = 0; k < section->notes.count; k++) {
            if (section->notes.data[k].level != NS_NOTE_PROBLEM) continue;
            nsi_text_add(b, "%s", mark);
            any = true;
            text_add_wrapped(b, section->notes.data[k].text, sizeof mark - 1);
        }
    }
    if (any) nsi_text_add(b, "\n");
}

ns_status ns_report_text(const ns_report* report, ns_text* out, ns_error* error) {
    nsi_text_builder b = {.allocator = report->allocator, .failed = report->failed};
    text_add_problems(&b, report);
    text_add_wrapped(&b, report->title, 0);
    text_add_facts(&b, report);
    for (uint32_t k = 0; k < report->sections.count; k++) {
        text_add_section(&b, report->sections.data[k]);
    }
    return nsi_text_finish(&b, out, error);
}
