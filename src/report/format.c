// Numbers and texts as people read them.

#include "report/format.h"

#include "io/utf8.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- numbers ---------------------------------------------------------------------------------

enum { MAX_DIGITS = 7, LEAST_DIGITS = 2, PLAIN_DIGITS = 5 };

// Outside of 10^-4 .. 10^6 numbers are easier to read with an exponent.
enum { LEAST_EXPONENT = -4, MAX_EXPONENT = 5 };

static bool is_part(char c) {
    return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e';
}

// Whatever the locale puts between digits, of one byte or more, becomes a point.
static nsi_formatted with_point(const char* local) {
    nsi_formatted out = {""};
    size_t size = 0;
    while (*local && size + 1 < sizeof out.text) {
        if (is_part(*local)) {
            out.text[size++] = *local++;
        } else {
            while (*local && !is_part(*local)) local++;
            out.text[size++] = '.';
        }
    }
    return out;
}

static nsi_formatted not_finite(double value) {
    return isnan(value)  ? (nsi_formatted){"-"}
           : value > 0.0 ? (nsi_formatted){"inf"}
                         : (nsi_formatted){"-inf"};
}

// Exponent of the first digit after rounding to `digits` of them; `first` receives that digit.
static int find_exponent(double value, int digits, char* first) {
    char local[64];
    snprintf(local, sizeof local, "%.*e", digits - 1, fabs(value));
    *first = local[0];
    return atoi(strchr(local, 'e') + 1);
}

// With the last digit at 10^last.
static nsi_formatted show_to(double value, int exponent, int last) {
    char local[64];
    if (exponent < LEAST_EXPONENT || exponent > MAX_EXPONENT) {
        snprintf(local, sizeof local, "%.*e", exponent > last ? exponent - last : 0, value);
    } else {
        snprintf(local, sizeof local, "%.*f", last < 0 ? -last : 0, value);
    }
    return with_point(local);
}

nsi_formatted nsi_format(double value, int digits) {
    if (!isfinite(value)) return not_finite(value);
    if (value == 0.0) return (nsi_formatted){"0"};
    char first;
    int exponent = find_exponent(value, digits, &first);
    return show_to(value, exponent, exponent - digits + 1);
}

nsi_formatted nsi_format_short(double value, int digits) {
    nsi_formatted out = nsi_format(value, digits);
    char *point = strchr(out.text, '.'), *exponent = strchr(out.text, 'e');
    if (!point) return out;
    char *end = exponent ? exponent : out.text + strlen(out.text), *last = end;
    while (last[-1] == '0') last--;
    if (last - 1 == point) last--;
    memmove(last, end, strlen(end) + 1);
    return out;
}

// Where the last digit of an error is.
static int last_digit(double error) {
    char first;
    int exponent = find_exponent(error, 2, &first);
    return first == '1' ? exponent - 1 : exponent;
}

nsi_formatted nsi_format_value(double value, double error) {
    if (!isfinite(value)) return not_finite(value);
    if (!isfinite(error) || error <= 0.0) return nsi_format(value, PLAIN_DIGITS);
    int last = last_digit(error);
    if (value == 0.0) return show_to(value, 0, last < -MAX_DIGITS ? 0 : last);

    char first;
    int exponent = find_exponent(value, MAX_DIGITS, &first);
    if (last > exponent - LEAST_DIGITS + 1) last = exponent - LEAST_DIGITS + 1;
    if (last < exponent - MAX_DIGITS + 1) last = exponent - MAX_DIGITS + 1;
    return show_to(value, exponent, last);
}

nsi_formatted nsi_format_error(double value, double error) {
    if (!isfinite(error)) return not_finite(error);
    if (error == 0.0) return (nsi_formatted){"0"};
    char first;
    int last = last_digit(error), exponent = find_exponent(error, 2, &first);
    // As many places as the value, where both are written without an exponent.
    if (isfinite(value) && value != 0.0) {
        int of_value = find_exponent(value, MAX_DIGITS, &first);
        bool plain = of_value >= LEAST_EXPONENT && of_value <= MAX_EXPONENT;
        bool fits = last >= of_value - MAX_DIGITS + 1 && last < of_value;
        if (plain && fits) exponent = 0;
    }
    return show_to(error, exponent, last);
}

// ---- texts -----------------------------------------------------------------------------------

size_t nsi_format_next(const char* text, uint32_t* code) {
    size_t there = 1; // no character is longer than four bytes
    while (there < 4 && text[there]) there++;
    size_t size = nsi_utf8_next(text, there, code);
    bool blank = size > 0 && (*code == '\t' || *code == '\n' || *code == '\r' || *code == 0x2028 ||
                              *code == 0x2029);
    // What turns the order of all that follows around shows other names than there are.
    bool turns = (*code >= 0x202a && *code <= 0x202e) || (*code >= 0x2066 && *code <= 0x2069);
    bool allowed = size > 0 && !blank && !turns && *code >= 0x20 &&
                   (*code < 0x7f || *code > 0x9f) && *code != 0xfffe && *code != 0xffff;
    if (!allowed) *code = blank ? ' ' : 0xfffd;
    return size > 0 ? size : 1;
}

void nsi_format_add(nsi_text_builder* out, const char* text) {
    uint32_t code;
    for (size_t size; text && *text; text += size) {
        size = nsi_format_next(text, &code);
        if (code == 0xfffd) {
            nsi_text_add(out, "\xef\xbf\xbd");
        } else if (code == ' ') {
            nsi_text_add(out, " ");
        } else {
            nsi_text_add_bytes(out, text, size);
        }
    }
}

// Those from Hangul on are wide in most scripts.
uint32_t nsi_format_columns(uint32_t code) {
    return code < 0x1100 || code == 0xfffd ? 1 : 2;
}

uint32_t nsi_format_width(const char* text) {
    uint32_t width = 0, code;
    while (*text) {
        text += nsi_format_next(text, &code);
        width += nsi_format_columns(code);
    }
    return width;
}

uint32_t nsi_format_clipped(nsi_text_builder* out, const char* text, uint32_t most) {
    uint32_t width = nsi_format_width(text), column = 0, at = 0, code;
    bool whole = width <= most, cut = false;
    uint32_t head = whole ? width : (most - 3) / 2, tail = most - 3 - (most - 3) / 2;
    for (size_t size; *text; text += size) {
        size = nsi_format_next(text, &code);
        at += nsi_format_columns(code);
        if (at > head && !whole) {
            if (!cut) nsi_text_add(out, "...");
            column += cut ? 0 : 3;
            cut = true;
            if (width - at + nsi_format_columns(code) > tail) continue;
        }
        bool plain = code != 0xfffd && code != ' ';
        nsi_text_add_bytes(out, plain ? text : code == ' ' ? " " : "?", plain ? size : 1);
        column += nsi_format_columns(code);
    }
    return column;
}
