// Read and write tables of comma-separated values, in one pass, field by field.

#include "neuralsim/table.h"

#include "base/common.h"
#include "io/file.h"

#include <errno.h>
#include <stdarg.h>

typedef NSI_ARRAY(char) bytes;

// What a table owns apart from its arrays.
typedef struct ns_table_memory {
    ns_allocator allocator;
    nsi_arena arena; // holds the names
    nsi_index index; // columns by name
} ns_table_memory;

typedef struct parser {
    const char *at, *end;
    const char* line_start;
    uint32_t line;
    const char* name; // of the file
    const ns_table_options* form;
    ns_allocator allocator;
    ns_error* error;
    ns_table_memory* table; // arena and index are filled on the way
    NSI_ARRAY(const char*) names;
    NSI_ARRAY(double) numbers;
    NSI_ARRAY(uint32_t) lines; // of rows
    bytes unquoted;            // text of the latest quoted field
    NSI_ARRAY(uint32_t) where; // columns of the conditions of the form
} parser;

typedef struct field {
    const char* text; // not NUL-terminated; white space and quotes removed
    size_t size;
    const char* start; // in the file, for messages
    bool quoted;
} field;

// ---- messages ------------------------------------------------------------------------------

// "file:line:column: " and the message.
static ns_status fail_in_table(const parser* p, ns_status status, const char* where,
                               const char* format, ...) NSI_PRINTF(4, 5);
static ns_status fail_in_table(const parser* p, ns_status status, const char* where,
                               const char* format, ...) {
    char message[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    return nsi_fail(p->error, status, "%.200s:%u:%zu: %s", p->name, p->line,
                    (size_t)(where - p->line_start) + 1, message);
}

enum { SHOWN = 40 };

// The beginning of a field, fit for a message.
typedef struct shown {
    char text[SHOWN + 4];
} shown;

static shown show_field(const field* f) {
    shown s;
    size_t length = f->size < SHOWN ? f->size : SHOWN;
    for (size_t i = 0; i < length; i++) {
        bool control = (unsigned char)f->text[i] < 0x20 || f->text[i] == 0x7f;
        s.text[i] = f->text[i];
        if (control) s.text[i] = '?';
    }
    memcpy(s.text + length, "...", 4);
    if (f->size == length) s.text[length] = '\0';
    return s;
}

// ---- fields --------------------------------------------------------------------------------

static bool at_line_end(const parser* p) {
    return p->at == p->end || *p->at == '\n' || *p->at == '\r';
}

static bool at_field_end(const parser* p) {
    return at_line_end(p) || *p->at == ',';
}

// Step over LF, CRLF or CR.
static void next_line(parser* p) {
    if (p->at == p->end) return;
    if (*p->at++ == '\r' && p->at < p->end && *p->at == '\n') p->at++;
    p->line_start = p->at;
    p->line++;
}

static void skip_blanks(parser* p) {
    while (p->at < p->end && (*p->at == ' ' || *p->at == '\t')) p->at++;
}

// Empty lines, and before the header comments too.
static void skip_lines(parser* p, bool comments) {
    while (p->at < p->end) {
        skip_blanks(p);
        if (comments && p->at < p->end && *p->at == '#') {
            while (!at_line_end(p)) p->at++;
        }
        if (!at_line_end(p)) {
            p->at = p->line_start;
            break;
        }
        next_line(p);
    }
}

// After the opening quote. A quoted field must end on its line: neither a name nor a number goes
// over two, and a forgotten quote would swallow the rest of the file.
static ns_status read_quoted(parser* p, field* f) {
    p->unquoted.count = 0;
    for (;; p->at++) {
        if (at_line_end(p)) {
            return fail_in_table(p, NS_ERR_PARSE, f->start,
                                 "the quoted field does not end on its line; add a closing quote");
        }
        if (*p->at == '"') {
            if (p->end - p->at < 2 || p->at[1] != '"') break;
            p->at++;
        }
        if (!nsi_array_push(&p->allocator, &p->unquoted, *p->at)) return nsi_fail_nomem(p->error);
    }
    p->at++;
    skip_blanks(p);
    if (!at_field_end(p)) {
        return fail_in_table(p, NS_ERR_PARSE, p->at,
                             "text after a closing quote; write \"\" for a quote inside a field");
    }
    f->text = p->unquoted.data;
    f->size = p->unquoted.count;
    return NS_OK;
}

// Leaves the parser at the comma or the end of the line after the field.
static ns_status read_table_field(parser* p, field* f) {
    skip_blanks(p);
    *f = (field){.text = p->at, .start = p->at};
    if (p->at < p->end && *p->at == '"') {
        p->at++;
        f->quoted = true;
        return read_quoted(p, f);
    }
    while (!at_field_end(p)) p->at++;
    f->size = (size_t)(p->at - f->text);
    while (f->size > 0 && (f->text[f->size - 1] == ' ' || f->text[f->size - 1] == '\t')) f->size--;
    return NS_OK;
}

// Other separators than commas in a field?
static bool has_separator(const field* f) {
    return !f->quoted && (memchr(f->text, ';', f->size) || memchr(f->text, '\t', f->size));
}

static ns_status fail_separator(const parser* p, const field* f) {
    return fail_in_table(p, NS_ERR_PARSE, f->start,
                         "\"%s\": columns must be separated by commas, not by semicolons or tabs",
                         show_field(f).text);
}

// ---- header --------------------------------------------------------------------------------

static uint32_t find_column_name(const nsi_index* index, const char* const* names,
                                 const char* name) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(index, hash), id; nsi_index_at(index, at, &id);
         at = nsi_index_next(index, at)) {
        if (strcmp(names[id], name) == 0) return id;
    }
    return NSI_NONE;
}

static ns_status check_column_name(const parser* p, const field* f) {
    // Empty and overlong names.
    // Numbers are detected below.
    double number;
    if (f->size == 0) {
        return fail_in_table(p, NS_ERR_PARSE, f->start,
                             "column %u has no name; name every column in the first row",
                             p->names.count + 1);
    }
    // Limits keep messages and formulas readable.
    if (f->size > NS_TABLE_MAX_NAME) {
        return fail_in_table(p, NS_ERR_LIMIT, f->start, "a name has more than %d bytes; shorten it",
                             NS_TABLE_MAX_NAME);
    }

    // A number in the first row means that the header is missing.
    // Quoted numbers are accepted as names.
    if (!f->quoted && nsi_text_read_double(f->text, f->size, &number) != NS_ERR_PARSE) {
        return fail_in_table(
            p, NS_ERR_PARSE, f->start,
            "the first row has the number %s where a column's name should be; put a row"
            " with names first",
            show_field(f).text);
    }

    // A control character is often a separator other than the comma.
    for (size_t i = 0; i < f->size; i++) {
        if ((unsigned char)f->text[i] >= 0x20 && f->text[i] != 0x7f) continue;
        // Tabs and semicolons have a message of their own.
        if (has_separator(f)) return fail_separator(p, f);
        return fail_in_table(p, NS_ERR_PARSE, f->start,
                             "the name \"%s\" has a control character; remove it",
                             show_field(f).text);
    }
    return NS_OK;
}

static ns_status add_column_name(parser* p, const field* f) {
    ns_status status = check_column_name(p, f);
    if (status != NS_OK) return status;
    if (p->names.count == NS_TABLE_MAX_COLUMNS) {
        return fail_in_table(p, NS_ERR_LIMIT, f->start, "more than %d columns; split the file",
                             NS_TABLE_MAX_COLUMNS);
    }
    const char* name = nsi_arena_string(&p->table->arena, f->text, f->size);
    if (!name) return nsi_fail_nomem(p->error);
    uint32_t other = find_column_name(&p->table->index, p->names.data, name);
    if (other != NSI_NONE) {
        return fail_in_table(p, NS_ERR_PARSE, f->start,
                             "columns %u and %u are both called \"%s\"; rename one", other + 1,
                             p->names.count + 1, show_field(f).text);
    }
    uint32_t hash = nsi_hash_bytes(name, f->size), number = p->names.count;
    if (!nsi_array_push(&p->allocator, &p->names, name) ||
        !nsi_index_insert(&p->allocator, &p->table->index, hash, number)) {
        return nsi_fail_nomem(p->error);
    }
    return NS_OK;
}

// The columns of the conditions.
static ns_status find_where(parser* p) {
    for (uint32_t k = 0; k < p->form->nwhere; k++) {
        const char* name = p->form->where[k].column;
        uint32_t column = find_column_name(&p->table->index, p->names.data, name);
        if (column == NSI_NONE) {
            return fail_in_table(p, NS_ERR_PARSE, p->line_start, "there is no column \"%.100s\"",
                                 name);
        }
        if (!nsi_array_push(&p->allocator, &p->where, column)) return nsi_fail_nomem(p->error);
    }
    return NS_OK;
}

static ns_status add_given_names(parser* p) {
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < p->form->nname && status == NS_OK; k++) {
        const char* name = p->form->names[k];
        status = add_column_name(p, &(field){name, strlen(name), p->at, true});
    }
    return status == NS_OK ? find_where(p) : status;
}

static ns_status read_header(parser* p) {
    if (p->end - p->at >= 3 && memcmp(p->at, "\xEF\xBB\xBF", 3) == 0) {
        p->at += 3; // byte order mark
        p->line_start = p->at;
    }
    skip_lines(p, true);
    if (p->form->names) return add_given_names(p);
    if (p->at == p->end) {
        return fail_in_table(p, NS_ERR_PARSE, p->at,
                             "there is no table; the first row must name the columns");
    }
    for (;;) {
        field f;
        ns_status status = read_table_field(p, &f);
        if (status == NS_OK) status = add_column_name(p, &f);
        if (status != NS_OK) return status;
        if (at_line_end(p) && p->names.count == 1 && has_separator(&f)) {
            return fail_separator(p, &f);
        }
        if (at_line_end(p)) break;
        p->at++; // the comma
    }
    ns_status status = find_where(p);
    next_line(p);
    return status;
}

// ---- rows ----------------------------------------------------------------------------------

static bool may_be_text(const parser* p, uint32_t column) {
    for (uint32_t k = 0; k < p->where.count; k++) {
        if (p->where.data[k] == column) return true;
    }
    return p->form->is_used && !p->form->is_used(p->form->context, p->names.data[column]);
}

// How other programs write a number that is missing.
static bool is_missing(const field* f) {
    static const char* const words[] = {"nan", "NaN", "NAN", "NA", "N/A", "null"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++) {
        if (f->size == strlen(words[k]) && memcmp(f->text, words[k], f->size) == 0) return true;
    }
    return false;
}

// Do the conditions that look at this column hold?
static bool row_is_wanted(const parser* p, const field* f, uint32_t column) {
    for (uint32_t k = 0; k < p->where.count; k++) {
        const char* text = p->form->where[k].text;
        if (p->where.data[k] != column) continue;
        if (strlen(text) != f->size || (f->size > 0 && memcmp(text, f->text, f->size) != 0)) {
            return false;
        }
    }
    return true;
}

// Does the row that starts here fulfil the conditions? Leaves the parser where it was.
static ns_status check_where(parser* p, bool* wanted) {
    const char* start = p->at;
    *wanted = true;
    for (uint32_t column = 0; p->where.count > 0; column++) {
        field f;
        ns_status status = read_table_field(p, &f);
        if (status != NS_OK) return status;
        if (!row_is_wanted(p, &f, column)) *wanted = false;
        if (!*wanted || at_line_end(p)) break;
        p->at++; // the comma
    }
    p->at = start;
    return NS_OK;
}

static ns_status add_number(parser* p, const field* f, uint32_t column) {
    // Empty fields are NaN where missing values are allowed.
    double number = 0.0;
    if (f->size == 0) {
        // A quoted empty field is a text, not a gap.
        if (!p->form->allow_missing || f->quoted) {
            return fail_in_table(p, NS_ERR_PARSE, f->start,
                                 "there is nothing in column \"%.100s\"; write a number",
                                 p->names.data[column]);
        }
        nsi_text_read_double("nan", 3, &number);
    } else {
        // Texts that mark a missing value, or stand in a column of text, are NaN as well.
        // Conversion is independent of the locale.
        ns_status status = nsi_text_read_double(f->text, f->size, &number);
        bool missing = p->form->allow_missing && is_missing(f);
        if (status != NS_OK && (missing || may_be_text(p, column))) { // left as NaN
            status = nsi_text_read_double("nan", 3, &number);
        }

        // Overflow is a mistake in the data rather than a missing value.
        if (status == NS_ERR_LIMIT) {
            return fail_in_table(p, NS_ERR_LIMIT, f->start,
                                 "%s in column \"%.100s\" is too large or too long for a number;"
                                 " shorten it",
                                 show_field(f).text, p->names.data[column]);
        }

        // A decimal comma or another separator has a message of its own.
        if (status != NS_OK && has_separator(f)) return fail_separator(p, f);
        if (status != NS_OK) {
            return fail_in_table(
                p, NS_ERR_PARSE, f->start,
                "\"%s\" in column \"%.100s\" is not a number; write one, with a point"
                " for decimals",
                show_field(f).text, p->names.data[column]);
        }
    }

    if (!nsi_array_push(&p->allocator, &p->numbers, number)) return nsi_fail_nomem(p->error);
    return NS_OK;
}

static ns_status read_table_row(parser* p) {
    // Skip rows that the selection excludes.
    bool wanted;
    ns_status checked = check_where(p, &wanted);
    if (checked != NS_OK) return checked;
    if (!wanted) {
        while (!at_line_end(p)) p->at++;
        next_line(p);
        return NS_OK;
    }

    // Keep the line number for messages, then one number for each column.
    // Errors found later refer to the file.
    if (!nsi_array_push(&p->allocator, &p->lines, p->line)) return nsi_fail_nomem(p->error);
    uint32_t count = 0;
    for (;;) {
        field f;
        ns_status status = read_table_field(p, &f);
        if (status != NS_OK) return status;

        // Every row has exactly one field per column.
        if (count == p->names.count) {
            return fail_in_table(p, NS_ERR_PARSE, f.start,
                                 "more fields than the %u columns; remove them, or name them%s",
                                 count, p->form->names ? "" : " in the first row");
        }
        status = add_number(p, &f, count++);
        if (status != NS_OK) return status;
        if (at_line_end(p)) break;
        p->at++; // the comma
    }

    // Too few fields: name the first column without a value.
    if (count < p->names.count) {
        return fail_in_table(
            p, NS_ERR_PARSE, p->at,
            "%u field%s for %u columns; add what is missing from column \"%.100s\" on", count,
            count == 1 ? "" : "s", p->names.count, p->names.data[count]);
    }
    next_line(p);
    return NS_OK;
}

// A NUL byte is never part of a table, and would hide what comes after it in a name.
static ns_status check_bytes(parser* p, size_t size) {
    if (size > NS_TABLE_MAX_SIZE) {
        return fail_in_table(p, NS_ERR_LIMIT, p->at, "more than %d MiB; split the file",
                             NS_TABLE_MAX_SIZE >> 20);
    }
    const char* nul = size > 0 ? memchr(p->at, '\0', size) : NULL;
    if (!nul) return NS_OK;
    while (p->at < nul) {
        if (at_line_end(p)) {
            next_line(p);
        } else {
            p->at++;
        }
    }
    return fail_in_table(p, NS_ERR_PARSE, nul, "a NUL byte; save the table as text in UTF-8");
}

ns_status ns_table_parse(const char* text, size_t size, const char* name,
                         const ns_table_options* options, const ns_allocator* allocator,
                         ns_table* out, ns_error* error) {
    // NULL options mean a plain table of numbers.
    static const ns_table_options defaults = {0};
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    // The table owns its memory, from the start.
    *out = (ns_table){.memory = nsi_alloc_zeroed(&memory, sizeof *out->memory)};
    if (!out->memory) return nsi_fail_nomem(error);
    out->memory->allocator = out->memory->arena.allocator = memory;

    parser p = {.at = text,
                .end = text + size,
                .line_start = text,
                .line = 1,
                .name = name,
                .form = options ? options : &defaults,
                .allocator = memory,
                .error = error,
                .table = out->memory};

    // Read the header, then row by row.
    ns_status status = check_bytes(&p, size);
    if (status == NS_OK) status = read_header(&p);
    while (status == NS_OK && !p.form->names_only) {
        // Blank and comment lines.
        skip_lines(&p, false);
        if (p.at == p.end) break;
        status = read_table_row(&p);
    }

    // Scratch of the parser.
    nsi_array_free(&memory, &p.unquoted);
    nsi_array_free(&memory, &p.where);

    // The table takes over the arrays, which are also freed with it after a failure.
    out->names = p.names.data;
    out->numbers = p.numbers.data;
    out->lines = p.lines.data;
    out->ncol = p.names.count;
    out->nrow = p.lines.count;
    if (status != NS_OK) ns_table_free(out);
    return status;
}

// ---- files ---------------------------------------------------------------------------------

// To the end, or to just past the limit, so that the parser sees that it is too much.
static ns_status read_whole_table(FILE* file, const ns_allocator* allocator, bytes* out) {
    enum { CHUNK = 1 << 16 };
    while (out->count <= NS_TABLE_MAX_SIZE) {
        if (!nsi_array_reserve(allocator, out, CHUNK)) return NS_ERR_NOMEM;
        size_t got = fread(out->data + out->count, 1, CHUNK, file);
        out->count += (uint32_t)got;
        if (got < CHUNK) break;
    }
    return ferror(file) ? NS_ERR_IO : NS_OK;
}

ns_status ns_table_read(const char* path, const ns_table_options* options,
                        const ns_allocator* allocator, ns_table* out, ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = (ns_table){0};
    FILE* file = fopen(path, "rb");
    if (!file) return nsi_fail(error, NS_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    bytes text = {0};
    ns_status status = read_whole_table(file, &memory, &text);
    if (status == NS_ERR_IO) {
        nsi_fail(error, NS_ERR_IO, "cannot read %s: %s", path, strerror(errno));
    } else if (status == NS_ERR_NOMEM) {
        nsi_fail_nomem(error);
    } else {
        status = ns_table_parse(text.data, text.count, path, options, &memory, out, error);
    }
    fclose(file);
    nsi_array_free(&memory, &text);
    return status;
}

void ns_table_free(ns_table* table) {
    if (!table || !table->memory) return;
    ns_allocator memory = table->memory->allocator;
    nsi_free(&memory, (void*)table->names);
    nsi_free(&memory, (void*)table->numbers);
    nsi_free(&memory, (void*)table->lines);
    nsi_index_free(&memory, &table->memory->index);
    nsi_arena_free(&table->memory->arena);
    nsi_free(&memory, table->memory);
    *table = (ns_table){0};
}

uint32_t ns_table_column(const ns_table* table, const char* name) {
    return table->memory ? find_column_name(&table->memory->index, table->names, name) : NSI_NONE;
}

// ---- writing -------------------------------------------------------------------------------

enum { BUFFER = 1 << 16 };

struct ns_table_writer {
    FILE* file;
    const char* name; // for messages
    bool owned;       // close the file at the end
    bool whole;       // write a file of this name at the end, in one go
    nsi_text_builder text;
    int failure; // an errno, or 0
};

ns_status ns_table_writer_attach(FILE* stream, const char* name, const ns_allocator* allocator,
                                 ns_table_writer** out, ns_error* error) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = nsi_alloc(&memory, sizeof **out);
    if (!*out) return nsi_fail_nomem(error);
    **out = (ns_table_writer){.file = stream, .name = name, .text.allocator = memory};
    return NS_OK;
}

ns_status ns_table_writer_create(const char* path, const ns_allocator* allocator,
                                 ns_table_writer** out, ns_error* error) {
    *out = NULL;
    FILE* file = fopen(path, "wb");
    if (!file) return nsi_fail(error, NS_ERR_IO, "cannot create %s: %s", path, strerror(errno));
    ns_status status = ns_table_writer_attach(file, path, allocator, out, error);
    if (status == NS_OK) {
        (*out)->owned = true;
    } else {
        fclose(file);
    }
    return status;
}

ns_status ns_table_writer_replace(const char* path, const ns_allocator* allocator,
                                  ns_table_writer** out, ns_error* error) {
    ns_status status = ns_table_writer_attach(NULL, path, allocator, out, error);
    if (status == NS_OK) (*out)->whole = true;
    return status;
}

bool ns_table_writer_ok(const ns_table_writer* writer) {
    return writer->failure == 0 && !writer->text.failed;
}

static void write_buffer(ns_table_writer* w) {
    if (ns_table_writer_ok(w) && w->text.text.count > 0 &&
        fwrite(w->text.text.data, 1, w->text.text.count, w->file) != w->text.text.count) {
        w->failure = errno ? errno : EIO;
    }
    w->text.text.count = 0;
}

// Would this be read as something else when it stands without quotes?
static bool needs_quotes(const char* name) {
    double number;
    size_t size = strlen(name);
    return size == 0 || strpbrk(name, ",\"") || name[0] == ' ' || name[0] == '\t' ||
           name[0] == '#' || name[size - 1] == ' ' || name[size - 1] == '\t' ||
           nsi_text_read_double(name, size, &number) != NS_ERR_PARSE;
}

static void put_name(ns_table_writer* w, const char* name) {
    if (!needs_quotes(name)) {
        nsi_text_add_bytes(&w->text, name, strlen(name));
        return;
    }
    nsi_text_add_bytes(&w->text, "\"", 1);
    for (; *name; name++) {
        if (*name == '"') nsi_text_add_bytes(&w->text, "\"", 1);
        nsi_text_add_bytes(&w->text, name, 1);
    }
    nsi_text_add_bytes(&w->text, "\"", 1);
}

void ns_table_writer_put_names(ns_table_writer* writer, const char* const* names, uint32_t count) {
    if (!ns_table_writer_ok(writer)) return;
    for (uint32_t k = 0; k < count; k++) {
        if (k > 0) nsi_text_add_bytes(&writer->text, ",", 1);
        put_name(writer, names[k]);
    }
    nsi_text_add_bytes(&writer->text, "\n", 1);
}

void ns_table_writer_put_row(ns_table_writer* writer, const double* numbers, uint32_t count) {
    if (!ns_table_writer_ok(writer)) return;
    for (uint32_t k = 0; k < count; k++) {
        if (k > 0) nsi_text_add_bytes(&writer->text, ",", 1);
        nsi_text_add_double(&writer->text, numbers[k]);
    }
    nsi_text_add_bytes(&writer->text, "\n", 1);
    if (writer->text.text.count >= BUFFER && !writer->whole) write_buffer(writer);
}

static ns_status finish_whole(ns_table_writer* w, ns_error* error) {
    ns_text text = {0};
    ns_status status = nsi_text_finish(&w->text, &text, error);
    if (status == NS_OK) {
        status = nsi_file_write(w->name, text.data, text.size, &w->text.allocator, error);
    }
    ns_text_free(&text);
    return status;
}

static ns_status finish_stream(ns_table_writer* w, ns_error* error) {
    bool no_memory = w->text.failed;
    write_buffer(w);
    if (fflush(w->file) != 0 && w->failure == 0) w->failure = errno ? errno : EIO;
    if (w->owned && fclose(w->file) != 0 && w->failure == 0) w->failure = errno ? errno : EIO;
    nsi_array_free(&w->text.allocator, &w->text.text);
    if (w->failure != 0) {
        return nsi_fail(error, NS_ERR_IO, "cannot write %s: %s", w->name, strerror(w->failure));
    }
    return no_memory ? nsi_fail_nomem(error) : NS_OK;
}

ns_status ns_table_writer_finish(ns_table_writer* writer, ns_error* error) {
    if (!writer) return NS_OK;
    ns_allocator memory = writer->text.allocator;
    ns_status status = writer->whole ? finish_whole(writer, error) : finish_stream(writer, error);
    nsi_free(&memory, writer);
    return status;
}
