// Parts of a page for a browser: texts, tables and pictures. "Ours" are texts of this library,
// which go out as they are; all others are escaped.

#ifndef NSI_REPORT_HTML_H
#define NSI_REPORT_HTML_H

#include "report/scale.h"

void nsi_html_open(nsi_text_builder* b, const char* title);
void nsi_html_open_live(nsi_text_builder* b, const char* title); // may ask its server for news
void nsi_html_close(nsi_text_builder* b);                        // with the script, if there is one

void nsi_html_text(nsi_text_builder* b, const char* text); // NULL: nothing
void nsi_html_text_part(nsi_text_builder* b, const char* text, const char* end);
void nsi_html_element(nsi_text_builder* b, const char* tag, const char* text);

// Headings, ours, are separated by bars; those of columns of text begin with "<". A row is up to
// the caller. Class "l" is aligned to the left, "bad" stands out.
void nsi_html_open_table(nsi_text_builder* b, const char* headings);
void nsi_html_cell(nsi_text_builder* b, const char* class, const char* text);
void nsi_html_number(nsi_text_builder* b, double value, int digits);
void nsi_html_close_table(nsi_text_builder* b);

// Pictures: SVG whose looks are nsi_figure_style (figure.h). Classes of lines: "grid", "ink", "dash";
// of bars: "blue", "red", "grey", "span"; of labels: "e" to end at x, "m" to have their middle there,
// "faint", "bad"; of curves: "c0" to "c7", "recorded", "before", "after", "other".
void nsi_html_open_picture(nsi_text_builder* b, const char* class, const char* title, double width,
                           double height); // class: besides "figure", or ""
void nsi_html_line(nsi_text_builder* b, const char* class, double x1, double y1, double x2,
                   double y2);
void nsi_html_open_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                       double height, double opacity); // ends with </rect>
void nsi_html_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                  double height, double opacity);
void nsi_html_ring(nsi_text_builder* b, const char* class, double x, double y, double radius);
void nsi_html_label(nsi_text_builder* b, const char* class, double x, double y, const char* text);
// In so much room. A long one loses its beginning and can be read by pointing at it.
void nsi_html_name(nsi_text_builder* b, const char* class, double x, double y, const char* name,
                   double room);
void nsi_html_fit(nsi_text_builder* b, const char* name, double room); // inside of a <text>
// Width of a label, in a wide font.
double nsi_html_width(const char* text);
// Ticks of an axis that lies, at most so many, whose labels do not touch.
nsi_ticks nsi_html_ticks(const nsi_scale* scale, uint32_t wanted);
// A length or a share: at most three decimals, with a point in every locale.
nsi_formatted nsi_html_length(double length);
void nsi_html_close_picture(nsi_text_builder* b);

// A legend of curves on top of a picture: entries side by side, in as many lines as they need.
typedef struct nsi_legend {
    nsi_text_builder* b; // NULL: only how high it is
    double left, right;  // of the picture
    double height;       // so far
    double x;            // behind the last entry
} nsi_legend;

void nsi_legend_add(nsi_legend* legend, const char* name, const char* class);

#endif
