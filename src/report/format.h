// Numbers and texts as people read them.

#ifndef NSI_REPORT_FORMAT_H
#define NSI_REPORT_FORMAT_H

#include "base/common.h"

// A number for people, with a point in every locale; "-" for NaN.
typedef struct nsi_formatted {
    char text[32];
} nsi_formatted;

// With so many significant digits (1 .. 17): 0.0760, 12.5, 1.3e-07.
nsi_formatted nsi_format(double value, int digits);
// The same without zeros at the end, for numbers that somebody chose: 0.1, 25.
nsi_formatted nsi_format_short(double value, int digits);

// An estimate and its standard error, with the digits that the error leaves: 0.0760 and 0.0003. The
// error has one digit, or two where the first is 1; the value has two at least and seven at most,
// and five where there is no error.
nsi_formatted nsi_format_value(double value, double error);
nsi_formatted nsi_format_error(double value, double error);

// The next character of a text that does not end here, and its length in bytes. Line breaks and
// tabs are spaces; U+FFFD stands for what is no character, or controls a terminal or the direction of
// writing.
size_t nsi_format_next(const char* text, uint32_t* code);

// Columns of a character in a terminal, and of a text.
uint32_t nsi_format_columns(uint32_t code);
uint32_t nsi_format_width(const char* text);

// Add a text in so many columns (3 at least) at most; a long one loses its middle, "?" stands for
// what is no character. Returns the columns it took.
uint32_t nsi_format_clipped(nsi_text_builder* out, const char* text, uint32_t most);

// Add a text in such characters; NULL adds nothing.
void nsi_format_add(nsi_text_builder* out, const char* text);

#endif
