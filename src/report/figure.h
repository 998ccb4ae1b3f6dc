// Figures: a picture with its numbers, for a page, a file or a terminal.

#ifndef NSI_REPORT_FIGURE_H
#define NSI_REPORT_FIGURE_H

#include "base/common.h"

typedef struct nsi_figure {
    char name[64]; // "loss": of files and in addresses; letters, digits and '_'
    ns_text title; // any text
    ns_text svg;   // from <svg to </svg>; its style is apart
    ns_text csv;   // the numbers in it, with a header
} nsi_figure;

typedef NSI_ARRAY(nsi_figure) nsi_figures;

void nsi_figure_free(nsi_figure* figure); // zeroed and freed ones are allowed

// How figures look: CSS for SVG of class "figure", in pages and in files.
extern const char nsi_figure_style[];

// Into a page (web/README.md), with the numbers behind a fold.
void nsi_html_figure(nsi_text_builder* page, const nsi_figure* figure);

// As a file of its own.
ns_status nsi_figure_file(const nsi_figure* figure, ns_text* out, ns_error* error);

#endif
