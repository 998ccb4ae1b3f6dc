/// @file report.h
/// Reports: results as data, rendered for a terminal, a browser or a program.
///
///     ns_report* report = NULL;
///     ns_report_create("Pendulum", NULL, &report, &error);
///     ns_report_add_fact(report, "model", "pendulum.urdf");
///     ns_section* section = ns_report_add_section(report, "Parameters");
///     ns_report_table* table = ns_section_add_table(
///         section, "parameters", NULL,
///         (const ns_report_column[]){{.name = "parameter"},
///                                    {.name = "estimate", .format = NS_FORMAT_ESTIMATE}}, 2);
///     ns_report_table_add_row(table, (const ns_cell[]){ns_cell_text("link/upper/mass"),
///                                                      ns_cell_estimate(0.076, 0.0003)}, 2);
///     ns_section_add_note(section, NS_NOTE_WARNING, "No effect on the data: link/base/mass.");
///     ns_text text;
///     ns_report_text(report, &text, &error);            // or ns_report_html(), ns_report_json()
///
/// A report has a title, facts and sections. A section has tables, figures (figure.h), notes and motions
/// (motion.h), shown in the order in which they were added. All texts are copied and may hold anything: a
/// renderer escapes them. Notes of level NS_NOTE_PROBLEM are shown before everything else.
///
/// A failure to allocate sticks: functions that add return NULL or nothing, accept NULL, and
/// ns_report_check() and the renderers return NS_ERR_NOMEM. Link libneuralsim_report.a before
/// libneuralsim.a.

#ifndef NEURALSIM_REPORT_H
#define NEURALSIM_REPORT_H

#include "neuralsim/figure.h"
#include "neuralsim/motion.h"
#include "neuralsim/table.h"

#include <math.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_report ns_report;
typedef struct ns_section ns_section;
typedef struct ns_report_table ns_report_table;

// ---- building ------------------------------------------------------------------------------------

/// @param title      NULL: ""
/// @param allocator  NULL for ns_default_allocator()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_report_create(const char* title, const ns_allocator* allocator, ns_report** out,
                                  ns_error* error);
NS_API void ns_report_free(ns_report* report); ///< NULL is allowed; frees sections, tables, motions

/// Has everything been added? NS_ERR_NOMEM otherwise.
NS_API ns_status ns_report_check(const ns_report* report, ns_error* error);

/// Zeroed memory that lives as long as the report, for arrays of figures; NULL when out of memory.
NS_API void* ns_report_alloc(ns_report* report, size_t count, size_t size);

/// Add what the report is about: "model", "pendulum.urdf". Without a text it is not shown.
NS_API void ns_report_add_fact(ns_report* report, const char* name, const char* text);

/// Add a section.
/// @param title  NULL: without a heading
NS_API ns_section* ns_report_add_section(ns_report* report, const char* title);

/// Level of a note.
typedef enum ns_note_level {
    NS_NOTE_TEXT,    ///< a sentence that explains the tables beside it
    NS_NOTE_INFO,    ///< an item of a list
    NS_NOTE_WARNING, ///< a part of the result needs care
    NS_NOTE_PROBLEM  ///< the result should not be trusted: shown first in the report
} ns_note_level;

NS_API void ns_section_add_note(ns_section* section, ns_note_level level, const char* text);

/// How the numbers of a column are written.
typedef enum ns_format {
    NS_FORMAT_TEXT,    ///< texts, to the left
    NS_FORMAT_COUNT,   ///< whole numbers
    NS_FORMAT_NUMBER,  ///< `digits` significant digits: 0.0760
    NS_FORMAT_SETTING, ///< the same without zeros at the end, for numbers that somebody chose: 0.1
    NS_FORMAT_PERCENT, ///< as NS_FORMAT_NUMBER, times 100, with a % sign
    NS_FORMAT_ESTIMATE ///< value and standard error, with the digits that the error leaves
} ns_format;

typedef enum ns_align {
    NS_ALIGN_AUTO, ///< texts to the left, numbers to the right
    NS_ALIGN_LEFT,
    NS_ALIGN_RIGHT
} ns_align;

/// A column of a table. A zeroed one is a column of texts.
typedef struct ns_report_column {
    const char* name;
    const char* unit; ///< NULL or "": none
    ns_format format;
    ns_align align;
    int digits; ///< significant digits, 1 to 17, more count as 17; 0: 3
} ns_report_column;

typedef enum ns_cell_kind {
    NS_CELL_MISSING, ///< there is no such thing: blank
    NS_CELL_TEXT,
    NS_CELL_NUMBER,   ///< NaN: not known
    NS_CELL_ESTIMATE, ///< NaN error: not computed; infinite: not identifiable
    NS_CELL_VERDICT   ///< a text that stands out when it is bad
} ns_cell_kind;

/// A cell of a table. A zeroed one is missing.
typedef struct ns_cell {
    ns_cell_kind kind;
    const char* text; ///< of texts and verdicts
    double value, standard_error;
    bool bad;         ///< of verdicts
    const char* link; ///< address of another page that the text leads to, relative; NULL: none
} ns_cell;

static inline ns_cell ns_cell_missing(void) {
    ns_cell cell = {NS_CELL_MISSING, NULL, NAN, NAN, false, NULL};
    return cell;
}
static inline ns_cell ns_cell_text(const char* text) {
    ns_cell cell = {NS_CELL_TEXT, text, NAN, NAN, false, NULL};
    return cell;
}
static inline ns_cell ns_cell_link(const char* text, const char* link) {
    ns_cell cell = {NS_CELL_TEXT, text, NAN, NAN, false, link};
    return cell;
}
static inline ns_cell ns_cell_number(double value) {
    ns_cell cell = {NS_CELL_NUMBER, NULL, value, NAN, false, NULL};
    return cell;
}
static inline ns_cell ns_cell_estimate(double value, double standard_error) {
    ns_cell cell = {NS_CELL_ESTIMATE, NULL, value, standard_error, false, NULL};
    return cell;
}
static inline ns_cell ns_cell_verdict(const char* text, bool bad) {
    ns_cell cell = {NS_CELL_VERDICT, text, NAN, NAN, bad, NULL};
    return cell;
}

/// Add a table.
/// @param name     for programs: "parameters"
/// @param title    over the table; NULL: none
/// @param columns  (ncolumn), copied
NS_API ns_report_table* ns_section_add_table(ns_section* section, const char* name,
                                             const char* title, const ns_report_column* columns,
                                             uint32_t ncolumn);

/// Add a row; columns past `ncell` are missing, cells past the columns are dropped.
NS_API void ns_report_table_add_row(ns_report_table* table, const ns_cell* cells, uint32_t ncell);

/// Add a figure, to be filled before the next one is added. Characters that its name may not have
/// become '_', and a number follows where another figure of the report has the name.
/// @return NULL when out of memory
NS_API ns_figure* ns_section_add_figure(ns_section* section, ns_figure_kind kind, const char* name,
                                        const char* title);

/// Add a figure of columns of a table over its column `t` (without one, over rows), each in a panel of
/// its own. `name/before`, `name/after` and `name_recorded` are drawn with the column `name`. Where `traj`
/// changes, a new trajectory begins. Rows in which `test` is not 0 are shaded.
/// @param table     must outlive the report
/// @param file      its name, for messages
/// @param patterns  (npattern) names or globs of columns; none: the first four
/// @return NS_OK; NS_ERR_ARGUMENT: no such column, or too many; NS_ERR_PARSE: no numbers at all;
///         NS_ERR_NOMEM
NS_API ns_status ns_section_add_curves(ns_section* section, const ns_table* table, const char* file,
                                       const char* const* patterns, uint32_t npattern,
                                       const char* name, const char* title, ns_error* error);

/// Networks of a system, and their names: one for each set of weights, formulas apart.
NS_API uint32_t ns_network_count(const ns_system* system);
NS_API const char* ns_network_name(const ns_system* system, uint32_t number);

/// Add a figure of a network of a system, "network_<name>", with its initial weights.
/// @param system  must outlive the report
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_section_add_network(ns_section* section, const ns_system* system,
                                        uint32_t number, ns_error* error);

/// Load a hybrid model, which the report keeps, and add figures of its networks, at most `max`. Of
/// variants, which have the same networks, the first is loaded.
/// @return NS_OK, also without networks; as ns_hybrid_load() and ns_system_create()
NS_API ns_status ns_section_add_networks(ns_section* section, const char* path, uint32_t max,
                                         ns_error* error);

/// Add a motion, which belongs to the report from now on, also after a failure. A page shows one.
/// NULL is ignored.
NS_API void ns_section_add_motion(ns_section* section, ns_motion* motion);

/// Give the report the result as an object of JSON, whose members ns_report_json() writes as they are.
/// @param json  "{...}", copied; a member "report" is not allowed
NS_API void ns_report_set_record(ns_report* report, const char* json, size_t size);

// ---- reading -------------------------------------------------------------------------------------

typedef struct ns_note {
    ns_note_level level;
    const char* text;
} ns_note;

typedef struct ns_fact {
    const char *name, *text;
} ns_fact;

NS_API const char* ns_report_title(const ns_report* report);
NS_API uint32_t ns_report_fact_count(const ns_report* report);
NS_API ns_fact ns_report_fact(const ns_report* report, uint32_t number);
NS_API uint32_t ns_report_section_count(const ns_report* report);
NS_API const ns_section* ns_report_section(const ns_report* report, uint32_t number);
NS_API uint32_t ns_report_figure_count(const ns_report* report); ///< of all sections
NS_API const ns_figure* ns_report_figure(const ns_report* report, uint32_t number);
NS_API const ns_figure* ns_report_find_figure(const ns_report* report,
                                              const char* name); ///< or NULL

NS_API const char* ns_section_title(const ns_section* section); ///< NULL: none
NS_API uint32_t ns_section_note_count(const ns_section* section);
NS_API ns_note ns_section_note(const ns_section* section, uint32_t number);
NS_API uint32_t ns_section_table_count(const ns_section* section);
NS_API const ns_report_table* ns_section_table(const ns_section* section, uint32_t number);
NS_API uint32_t ns_section_figure_count(const ns_section* section);
NS_API const ns_figure* ns_section_figure(const ns_section* section, uint32_t number);
NS_API uint32_t ns_section_motion_count(const ns_section* section);

NS_API const char* ns_report_table_name(const ns_report_table* table);
NS_API const char* ns_report_table_title(const ns_report_table* table); ///< NULL: none
NS_API uint32_t ns_report_table_column_count(const ns_report_table* table);
NS_API const ns_report_column* ns_report_table_column(const ns_report_table* table,
                                                      uint32_t number);
NS_API uint32_t ns_report_table_row_count(const ns_report_table* table);
NS_API const ns_cell* ns_report_table_cell(const ns_report_table* table, uint32_t row,
                                           uint32_t column);

// ---- rendering -----------------------------------------------------------------------------------

/// Render for a terminal: plain text, at most 100 columns wide, tables up to 60 rows. Figures and
/// motions are left out.
/// @param out  to be freed by ns_text_free()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_report_text(const ns_report* report, ns_text* out, ns_error* error);

/// Render as one page that needs no other file and no network, tables up to 200 rows.
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_report_html(const ns_report* report, ns_text* out, ns_error* error);

/// Render a page and write it to a file, which is replaced as a whole: a reader sees the old file or the
/// new one.
/// @param size  NULL, or receives the bytes written
/// @return NS_OK, NS_ERR_IO, NS_ERR_NOMEM
NS_API ns_status ns_report_save_html(const ns_report* report, const char* path, size_t* size,
                                     ns_error* error);

/// Render as one object of JSON: the members of the record, if there is one, and "report": title,
/// facts, problems and sections with all rows of their tables. Numbers that are not finite are null.
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_report_json(const ns_report* report, ns_text* out, ns_error* error);

/// Do pages have the script that shows motions? It is missing where the library was built without npm.
NS_API bool ns_report_has_script(void);
NS_API const char* ns_report_script_hint(void); ///< what to do about a missing script

#ifdef __cplusplus
}
#endif

#endif
