// Tables of numbers with named columns, as comma-separated values.
//
//     # lines before the header that start with # are comments
//     t,q_elbow,"a name, quoted"
//     0,0.5,1e-3
//
// The first row names the columns; every other row has one number per column, written the same way
// in every locale. Fields may be quoted ("" is a quote inside). Lines end with LF, CRLF or CR; a
// byte order mark at the start and empty lines are skipped. "inf", "-inf" and "nan" are numbers.
//
// Memory for reading is proportional to the file: its text, and 8 bytes for each number.

#ifndef NSI_IO_CSV_H
#define NSI_IO_CSV_H

#include "base/common.h"

#include <stdio.h>

enum {
    NSI_CSV_MAX_SIZE = 1 << 30, // bytes of a file
    NSI_CSV_MAX_COLUMNS = 100 * 1000,
    NSI_CSV_MAX_NAME = 1023 // bytes of a column's name
};

// ---- reading -------------------------------------------------------------------------------

// Rows whose field in this column is this text.
typedef struct nsi_csv_where {
    const char *column, *text;
} nsi_csv_where;

// What kind of table it is. Zero is the one described above.
typedef struct nsi_csv_form {
    bool allow_missing;       // an empty field is NaN instead of an error
    const char* const* names; // of the columns: there is no row of names. NULL: there is
    uint32_t nname;
    const nsi_csv_where*
        where;       // only rows for which all of these hold; in others the fields are not
    uint32_t nwhere; // looked at. These columns may hold text, whose number is NaN
    bool names_only; // no rows
    // Is a column looked at? One that is not may hold text, too. NULL: all are.
    bool (*is_used)(const void* context, const char* name);
    const void* context;
} nsi_csv_form;

typedef struct nsi_csv {
    ns_allocator allocator;
    uint32_t ncol, nrow;
    const char** names;    // (ncol)
    const double* numbers; // (nrow x ncol), row-major
    const uint32_t* lines; // (nrow) where each row stands in the file
    nsi_arena arena;       // holds the names
    nsi_index index;       // columns by name
} nsi_csv;

// Read a file, or text from memory. `out` is to be freed after success, and may be in any case.
// @param allow_missing  an empty field is NaN instead of an error
// @param allocator      NULL for the default one
// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE and NS_ERR_LIMIT with "file:line:column: what is wrong;
//         what to do" (columns count bytes); NS_ERR_NOMEM
ns_status nsi_csv_read(const char* path, bool allow_missing, const ns_allocator* allocator,
                       nsi_csv* out, ns_error* error);
ns_status nsi_csv_parse(const char* text, size_t size, const char* name, bool allow_missing,
                        const ns_allocator* allocator, nsi_csv* out, ns_error* error);

// The same for other kinds of tables. Columns of `where` that are not there are NS_ERR_PARSE.
ns_status nsi_csv_read_form(const char* path, const nsi_csv_form* form,
                            const ns_allocator* allocator, nsi_csv* out, ns_error* error);
ns_status nsi_csv_parse_form(const char* text, size_t size, const char* name,
                             const nsi_csv_form* form, const ns_allocator* allocator, nsi_csv* out,
                             ns_error* error);
void nsi_csv_free(nsi_csv* csv); // zeroed and freed ones are allowed

// Number of the column with this name, or NSI_NONE.
uint32_t nsi_csv_column(const nsi_csv* csv, const char* name);

static inline double nsi_csv_at(const nsi_csv* csv, uint32_t row, uint32_t column) {
    return csv->numbers[(size_t)row * csv->ncol + column];
}

// ---- writing -------------------------------------------------------------------------------

// A table being written. A failure sticks: later rows are dropped and nsi_csv_finish() reports it.
typedef struct nsi_csv_writer {
    FILE* file;
    const char* name; // for messages
    bool owned;       // close the file at the end
    bool whole;       // write a file of this name at the end, in one go
    nsi_text_builder text;
    int failure; // an errno, or 0
} nsi_csv_writer;

// Create a file. `path` must outlive the writer.
// @return NS_OK, NS_ERR_IO
ns_status nsi_csv_create(const char* path, const ns_allocator* allocator, nsi_csv_writer* out,
                         ns_error* error);

// Collect a table that becomes a file at the end, as nsi_file_write() does it. `path` must outlive the
// writer.
void nsi_csv_collect(const char* path, const ns_allocator* allocator, nsi_csv_writer* out);

// Write to a stream that is open already and stays so.
void nsi_csv_attach(FILE* file, const char* name, const ns_allocator* allocator,
                    nsi_csv_writer* out);

// A row of names or of numbers; numbers read back to the same bits.
void nsi_csv_put_names(nsi_csv_writer* writer, const char* const* names, uint32_t count);
void nsi_csv_put_numbers(nsi_csv_writer* writer, const double* numbers, uint32_t count);

// Has everything gone well so far? Rows are buffered, so a full disk shows late.
bool nsi_csv_ok(const nsi_csv_writer* writer);

// Write what is buffered, close what was created, and free the buffer.
// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
ns_status nsi_csv_finish(nsi_csv_writer* writer, ns_error* error);

#endif
