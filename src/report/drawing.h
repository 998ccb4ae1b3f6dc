// Drawings: a figure drawn as SVG with its numbers, for a page or a file.

#ifndef NSI_REPORT_DRAWING_H
#define NSI_REPORT_DRAWING_H

#include "base/common.h"

typedef struct nsi_drawing {
    char name[64]; // "loss": of files and in addresses; letters, digits and '_'
    ns_text title; // any text
    ns_text svg;   // from <svg to </svg>; its style is apart
    ns_text csv;   // the numbers in it, with a header
} nsi_drawing;

void nsi_drawing_free(nsi_drawing* figure); // zeroed and freed ones are allowed

// How figures look: CSS for SVG of class "figure", in pages and in files.
extern const char nsi_figure_style[];

// Into a page (web/README.md), with the numbers behind a fold.
void nsi_html_drawing(nsi_text_builder* page, const nsi_drawing* figure);

// As a file of its own.
ns_status nsi_drawing_file(const nsi_drawing* figure, ns_text* out, ns_error* error);

#endif
