/// @file table.h
/// Tables of numbers with named columns, read from and written as comma-separated values (CSV).
///
///     ns_table table;
///     if (ns_table_read("run.csv", NULL, NULL, &table, &error) == NS_OK) {
///         uint32_t angle = ns_table_column(&table, "q_elbow");
///         for (uint32_t row = 0; row < table.nrow; row++) use(ns_table_at(&table, row, angle));
///     }
///     ns_table_free(&table);
///
///     ns_table_writer* writer = NULL;
///     ns_table_writer_create("out.csv", NULL, &writer, &error);
///     ns_table_writer_put_names(writer, (const char* const[]){"t", "q_elbow"}, 2);
///     ns_table_writer_put_row(writer, (const double[]){0.0, 0.5}, 2);
///     ns_table_writer_finish(writer, &error);
///
/// Format: the first row names the columns; every other row has one number per column.
///
///     # lines before the header that start with # are comments
///     t,q_elbow,"a name, quoted"
///     0,0.5,1e-3
///
/// Numbers are read and written the same way in every locale and keep all their bits; "inf", "-inf"
/// and "nan" are numbers. Fields may be quoted ("" is a quote inside). Lines end with LF, CRLF or
/// CR. A byte order mark at the start and empty lines are skipped.

#ifndef NEURALSIM_TABLE_H
#define NEURALSIM_TABLE_H

#include "neuralsim/base.h"

#include <stdbool.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NS_TABLE_MAX_SIZE (1 << 30) ///< bytes of a file
#define NS_TABLE_MAX_COLUMNS 100000 ///< columns of a table
#define NS_TABLE_MAX_NAME 1023      ///< bytes of a column name

// ---- reading ---------------------------------------------------------------------------------

/// Selects the rows whose field in `column` is exactly `text`.
typedef struct ns_table_where {
    const char *column, *text;
} ns_table_where;

/// How a table is read. Zero is the format described above.
typedef struct ns_table_options {
    bool allow_missing; ///< an empty field, "NA" or "null" is NaN instead of an error
    const char* const*
        names; ///< (nname) column names of a table without a header; NULL: it has one
    uint32_t nname;
    const ns_table_where* where; ///< (nwhere) keep only rows that match all of these; the fields of
    uint32_t nwhere;             ///< other rows are not parsed. These columns may hold text (NaN)
    bool names_only;             ///< read the header, no rows
    /// Is a column used? Columns that are not may hold text, which reads as NaN. NULL: all are used.
    bool (*is_used)(const void* context, const char* name);
    const void* context; ///< passed to is_used
} ns_table_options;

/// A table in memory. Read the fields; change none of them.
typedef struct ns_table {
    uint32_t ncol, nrow;
    const char* const* names;       ///< (ncol)
    const double* numbers;          ///< (nrow x ncol), row-major
    const uint32_t* lines;          ///< (nrow) line of the file in which each row stands, from 1
    struct ns_table_memory* memory; ///< private
} ns_table;

/// Read a file, or text from memory. It takes memory for the text and 8 bytes for each number.
/// @param options    NULL for the default format
/// @param allocator  NULL for ns_default_allocator()
/// @param out        to be freed by ns_table_free(); zeroed after a failure
/// @param error      "file:line:column: what is wrong; what to do"; columns count bytes
/// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE, also for a column of `where` that does not exist;
///         NS_ERR_LIMIT; NS_ERR_NOMEM
NS_API ns_status ns_table_read(const char* path, const ns_table_options* options,
                               const ns_allocator* allocator, ns_table* out, ns_error* error);

/// @param name  stands for the file in messages
NS_API ns_status ns_table_parse(const char* text, size_t size, const char* name,
                                const ns_table_options* options, const ns_allocator* allocator,
                                ns_table* out, ns_error* error);

NS_API void ns_table_free(ns_table* table); ///< NULL and zeroed tables are allowed; zeroes it

/// Number of the column with this name; UINT32_MAX when there is none.
NS_API uint32_t ns_table_column(const ns_table* table, const char* name);

/// The number at a row and column, both of which must exist.
static inline double ns_table_at(const ns_table* table, uint32_t row, uint32_t column) {
    return table->numbers[(size_t)row * table->ncol + column];
}

// ---- writing ---------------------------------------------------------------------------------

/// A table being written. A failure sticks: later rows are dropped and ns_table_writer_finish()
/// reports it.
typedef struct ns_table_writer ns_table_writer;

/// Create a file and write rows to it as they come.
/// @param path       must outlive the writer
/// @param allocator  NULL for ns_default_allocator()
/// @param out        to be passed to ns_table_writer_finish(); NULL after a failure
/// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_table_writer_create(const char* path, const ns_allocator* allocator,
                                        ns_table_writer** out, ns_error* error);

/// The same, but rows are kept in memory and the file is replaced as a whole by
/// ns_table_writer_finish(): a reader sees the old file or the new one.
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_table_writer_replace(const char* path, const ns_allocator* allocator,
                                         ns_table_writer** out, ns_error* error);

/// Write to an open stream, which stays open.
/// @param name  of the stream in messages; must outlive the writer
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_table_writer_attach(FILE* stream, const char* name,
                                        const ns_allocator* allocator, ns_table_writer** out,
                                        ns_error* error);

/// Write a row of names or of numbers.
NS_API void ns_table_writer_put_names(ns_table_writer* writer, const char* const* names,
                                      uint32_t count);
NS_API void ns_table_writer_put_row(ns_table_writer* writer, const double* numbers, uint32_t count);

/// Has everything succeeded so far? Rows are buffered, so a full disk shows late.
NS_API bool ns_table_writer_ok(const ns_table_writer* writer);

/// Write what is buffered, close a file that was created, and free the writer. NULL is allowed.
/// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_table_writer_finish(ns_table_writer* writer, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
