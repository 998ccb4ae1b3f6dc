// Text: a growing buffer, and numbers as text that mean the same in every locale.

#include "base/common.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void ns_text_free(ns_text* text) {
    if (!text || !text->data) return;
    nsi_free(&text->allocator, text->data);
    *text = (ns_text){0};
}

// ---- builder -------------------------------------------------------------------------------

// Make room for `extra` bytes and the final NUL.
static bool reserve(nsi_text_builder* builder, size_t extra) {
    if (!builder->failed &&
        (extra >= UINT32_MAX ||
         !nsi_array_reserve(&builder->allocator, &builder->text, (uint32_t)extra + 1))) {
        builder->failed = true;
    }
    return !builder->failed;
}

void nsi_text_add_bytes(nsi_text_builder* builder, const char* bytes, size_t size) {
    if (!reserve(builder, size)) return;
    if (size > 0) memcpy(builder->text.data + builder->text.count, bytes, size);
    builder->text.count += (uint32_t)size;
}

void nsi_text_add(nsi_text_builder* builder, const char* format, ...) {
    if (!reserve(builder, 0)) return;

    // Nearly everything fits into the room there is; what does not is formatted once more.
    size_t room = builder->text.capacity - builder->text.count;
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(builder->text.data + builder->text.count, room, format, arguments);
    if (length < 0) {
        builder->failed = true;
    } else if ((size_t)length >= room && reserve(builder, (size_t)length)) {
        vsnprintf(builder->text.data + builder->text.count, (size_t)length + 1, format, again);
    }
    if (!builder->failed) builder->text.count += (uint32_t)length;
    va_end(again);
    va_end(arguments);
}

ns_status nsi_text_finish(nsi_text_builder* builder, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    if (!reserve(builder, 0)) {
        nsi_array_free(&builder->allocator, &builder->text);
        return nsi_fail_nomem(error);
    }
    builder->text.data[builder->text.count] = '\0';
    *out = (ns_text){builder->text.data, builder->text.count, builder->allocator};
    *builder = (nsi_text_builder){.allocator = builder->allocator};
    return NS_OK;
}

// ---- numbers -------------------------------------------------------------------------------

// printf and strtod use the decimal separator of the locale, which may be several bytes long.
// Asking for it with localeconv() is not safe while other threads do the same, so it is taken from
// where it shows: writing replaces whatever printf put between digits by a point, and reading puts
// in what printf puts between the digits of 0.5.

static bool is_number_digit(char c) {
    return c >= '0' && c <= '9';
}

enum { NUMBER_SIZE = 64 }; // "-1.7976931348623157e+308" with a separator of many bytes

void nsi_text_add_double(nsi_text_builder* builder, double value) {
    if (!isfinite(value)) {
        const char* text = isnan(value) ? "nan" : value > 0.0 ? "inf" : "-inf";
        nsi_text_add_bytes(builder, text, strlen(text));
        return;
    }

    // The fewest digits that read back to the same number; 17 always do.
    char local[NUMBER_SIZE];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(local, sizeof local, "%.*g", digits, value);
        if (strtod(local, NULL) == value) break;
    }

    char text[NUMBER_SIZE];
    size_t size = 0;
    for (const char* at = local; *at;) {
        if (is_number_digit(*at) || *at == '-' || *at == '+' || *at == 'e') {
            text[size++] = *at++;
        } else {
            while (*at && !is_number_digit(*at)) at++;
            text[size++] = '.';
        }
    }
    nsi_text_add_bytes(builder, text, size);
}

// [+-] digits [. digits] [e [+-] digits], with a digit at least on one side of the point.
static bool is_decimal(const char* at, const char* end, const char** point) {
    *point = NULL;
    if (at < end && (*at == '-' || *at == '+')) at++;
    const char* first = at;
    while (at < end && is_number_digit(*at)) at++;
    bool any_digit = at > first;
    if (at < end && *at == '.') {
        *point = at++;
        first = at;
        while (at < end && is_number_digit(*at)) at++;
        any_digit = any_digit || at > first;
    }
    if (!any_digit) return false;
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '-' || *at == '+')) at++;
        if (at == end) return false; // else what is there is a digit or fails below
        while (at < end && is_number_digit(*at)) at++;
    }
    return at == end;
}

static bool equals(const char* text, size_t size, const char* word) {
    return strlen(word) == size && memcmp(text, word, size) == 0;
}

ns_status nsi_text_read_double(const char* text, size_t size, double* out) {
    // Non-finite numbers are written as in our own files.
    *out = equals(text, size, "inf") ? INFINITY : equals(text, size, "-inf") ? -INFINITY : NAN;
    if (isinf(*out) || equals(text, size, "nan")) return NS_OK;

    // Accept plain decimal numbers only: strtod() would take more, such as hexadecimal ones.
    const char* point;
    if (!is_decimal(text, text + size, &point)) return NS_ERR_PARSE;
    // Bounds the copy below.
    if (size > NSI_MAX_NUMBER) return NS_ERR_LIMIT;

    // Find the decimal separator of the locale: print 0.5 and look between the digits.
    char half[NUMBER_SIZE];
    int half_size = snprintf(half, sizeof half, "%.1f", 0.5);
    size_t separator = half_size > 2 && half_size < NUMBER_SIZE ? (size_t)half_size - 2 : 0;

    // strtod() reads in the locale: replace the point by its separator.
    char local[NSI_MAX_NUMBER + NUMBER_SIZE];
    size_t before = point ? (size_t)(point - text) : size;
    memcpy(local, text, before);
    size_t length = before;
    if (point) {
        // Separators may have several bytes.
        memcpy(local + length, half + 1, separator);
        length += separator;
        memcpy(local + length, point + 1, size - before - 1);
        length += size - before - 1;
    }
    local[length] = '\0';

    // The whole text must be consumed; overflow is an error, underflow is not.
    char* end;
    *out = strtod(local, &end);
    if (end != local + length) return NS_ERR_PARSE;
    return isinf(*out) ? NS_ERR_LIMIT : NS_OK;
}
