// Reports inside the library: what the renderers read.

#ifndef NSI_REPORT_REPORT_DATA_H
#define NSI_REPORT_REPORT_DATA_H

#include "neuralsim/report.h"
#include "report/figure_data.h"

// A part of a section, in the order in which it is shown.
typedef enum nsi_item_kind {
    NSI_ITEM_NOTE,
    NSI_ITEM_TABLE,
    NSI_ITEM_FIGURE,
    NSI_ITEM_MOTION
} nsi_item_kind;

typedef struct nsi_item {
    nsi_item_kind kind;
    uint32_t number; // in the list of its kind; of figures, in that of the report
} nsi_item;

struct ns_report_table {
    ns_report* report;
    const char *name, *title;
    const ns_report_column* columns; // (ncolumn)
    uint32_t ncolumn, nrow;
    NSI_ARRAY(ns_cell) cells; // (nrow x ncolumn)
};

struct ns_section {
    ns_report* report;
    const char* title;
    NSI_ARRAY(nsi_item) items;
    NSI_ARRAY(ns_note) notes;
    NSI_ARRAY(ns_report_table*) tables;
    NSI_ARRAY(uint32_t) figures; // numbers in the report's list
    NSI_ARRAY(ns_motion*) motions;
};

// What figures borrow from, freed with the report in reverse order.
typedef struct nsi_report_owned {
    void* object;
    void (*release)(void* object);
} nsi_report_owned;

struct ns_report {
    ns_allocator allocator;
    NSI_ARRAY(nsi_report_owned) owned;
    const char* title;
    NSI_ARRAY(ns_fact) facts;
    NSI_ARRAY(ns_section*) sections;
    nsi_figures figures; // its arena holds sections, tables and texts, too
    const char* record;  // an object of JSON, or NULL
    size_t record_size;
    bool failed; // out of memory
};

// ---- report.c ----------------------------------------------------------------------------------

// A note that is formatted as by printf; not for floating-point numbers, whose point is the locale's.
void nsi_section_add_notef(ns_section* section, ns_note_level level, const char* format, ...)
    NSI_PRINTF(3, 4);

// Show a figure that the report has already, from nsi_report_figures(); without one of this name, nothing.
void nsi_section_show_figure(ns_section* section, const char* name);
// The same for all figures from number `first` of its list on.
void nsi_section_show_figures(ns_section* section, uint32_t first);
static inline nsi_figures* nsi_report_figures(ns_report* report) {
    return &report->figures;
}

// Hand an object over, also after a failure: the report releases it at its end.
void nsi_report_own(ns_report* report, void* object, void (*release)(void* object));

// A cell as a reader sees it; `room` holds the text of a number.
// @param error  of an estimate: its standard error
const char* nsi_cell_format(const ns_report_column* column, const ns_cell* cell, bool error,
                            nsi_formatted* room);

static inline bool nsi_column_is_left(const ns_report_column* column) {
    return column->align == NS_ALIGN_AUTO ? column->format == NS_FORMAT_TEXT
                                          : column->align == NS_ALIGN_LEFT;
}

#endif
