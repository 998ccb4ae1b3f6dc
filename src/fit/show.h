// What all forms of an answer share: numbers for people, texts from anywhere, and the sentences
// that say what was found.

#ifndef NSI_FIT_SHOW_H
#define NSI_FIT_SHOW_H

#include "fit/answer.h"

// ---- show.c ----------------------------------------------------------------------------------

// A number for people, with a point in every locale; "-" for NaN.
typedef struct nsi_shown {
    char text[32];
} nsi_shown;

// With so many significant digits (1 .. 17): 0.0760, 12.5, 1.3e-07.
nsi_shown nsi_show(double value, int digits);
// The same without zeros at the end, for numbers that somebody chose: 0.1, 25.
nsi_shown nsi_show_short(double value, int digits);

// An estimate and its standard error, with the digits that the error leaves: 0.0760 and 0.0003. The
// error has one digit, or two where the first is 1; the value has two at least and seven at most,
// and five where there is no error.
nsi_shown nsi_show_value(double value, double error);
nsi_shown nsi_show_error(double value, double error);

// "ok", "at lower bound", ...; NULL when standard errors were not computed.
const char* nsi_show_verdict(const nsi_answer* answer, uint32_t estimate);
const char* nsi_show_residual_unit(const nsi_answer* answer); // "in units of the noise given"
const char* nsi_show_role(nsi_role role);                     // "train", "validation", "test"

// The next character of a text that does not end here, and its length in bytes. Line breaks and
// tabs are spaces; U+FFFD stands for what is no character or controls a terminal.
size_t nsi_show_next(const char* text, uint32_t* code);

// Add a text in such characters; NULL adds nothing.
void nsi_show_add(nsi_text_builder* out, const char* text);

// ---- findings.c ------------------------------------------------------------------------------

// Sentences, one on each line: what the data does not determine or only poorly, strong
// correlations, parameters without effect or at a bound, lost windows, an early end.
void nsi_show_findings(nsi_text_builder* out, const nsi_answer* answer);

#endif
