// Parts of a page for a browser: texts, tables and pictures. "Ours" are texts of this library,
// which go out as they are; all others are escaped.

#ifndef NSI_PAGE_HTML_H
#define NSI_PAGE_HTML_H

#include "page/show.h"

void nsi_page_open(nsi_text_builder* b, const char* title);
void nsi_page_open_live(nsi_text_builder* b, const char* title); // may ask its server for news
void nsi_page_close(nsi_text_builder* b);                        // with the script, if there is one

void nsi_page_text(nsi_text_builder* b, const char* text); // NULL: nothing
void nsi_page_element(nsi_text_builder* b, const char* tag, const char* text);

// Headings, ours, are separated by bars; those of columns of text begin with "<". A row is up to
// the caller. Class "l" is aligned to the left, "bad" stands out.
void nsi_page_open_table(nsi_text_builder* b, const char* headings);
void nsi_page_cell(nsi_text_builder* b, const char* class, const char* text);
void nsi_page_number(nsi_text_builder* b, double value, int digits);
void nsi_page_close_table(nsi_text_builder* b);

// Pictures. Classes: "grid", "ink" and "dash" of lines; "blue", "red" and "grey" of bars; of labels
// "e" to end at x, "m" to have their middle there. `name` of a picture and labels are ours.
void nsi_page_open_picture(nsi_text_builder* b, const char* name, double width, double height);
void nsi_page_line(nsi_text_builder* b, const char* class, double x1, double y1, double x2,
                   double y2);
void nsi_page_open_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                       double height, double opacity); // ends with </rect>
void nsi_page_bar(nsi_text_builder* b, const char* class, double x, double y, double width,
                  double height, double opacity);
void nsi_page_label(nsi_text_builder* b, const char* class, double x, double y, const char* text);
// Ends at x. A long one loses its beginning and can be read by pointing at it.
void nsi_page_name(nsi_text_builder* b, double x, double y, const char* name);
nsi_shown nsi_page_length(double length);
void nsi_page_close_picture(nsi_text_builder* b);

#endif
