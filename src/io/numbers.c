// Lists of numbers in files.

#include "io/numbers.h"

#include <math.h>

const char* nsi_quote(const char* text, size_t size, char out[NSI_QUOTE_SIZE]) {
    const size_t room = NSI_QUOTE_SIZE - sizeof "\"...\"";
    bool cut = size > room;
    if (cut) {
        size = room;
        // Not in the middle of a UTF-8 character.
        while (size > 0 && ((unsigned char)text[size] & 0xC0) == 0x80) size--;
    }
    size_t at = 0;
    out[at++] = '"';
    for (size_t i = 0; i < size; i++) {
        unsigned char c = (unsigned char)text[i];
        out[at++] = c < 0x20 || c == 0x7F ? ' ' : text[i];
    }
    memcpy(out + at, cut ? "...\"" : "\"", cut ? sizeof "...\"" : sizeof "\"");
    return out;
}

static bool is_space(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

ns_status nsi_numbers_parse(const char* text, uint32_t min, uint32_t max, double* out,
                            uint32_t* count, ns_error* error) {
    // Messages quote the word in a printable form.
    char quote[NSI_QUOTE_SIZE];
    *count = 0;
    uint32_t found = 0;
    const char* at = text;
    for (;;) {
        // Split at white space.
        while (is_space(*at)) at++;
        if (*at == '\0') break;
        const char* word = at;
        // The end of the word.
        while (*at != '\0' && !is_space(*at)) at++;
        size_t size = (size_t)(at - word);

        // The conversion does not depend on the locale; NaN and infinity are refused.
        double value;
        ns_status status = nsi_text_read_double(word, size, &value);
        // Distinguish typing errors, overflow and inf or nan.
        if (status != NS_OK || !isfinite(value)) {
            return nsi_fail(error, NS_ERR_PARSE, "%s is %s", nsi_quote(word, size, quote),
                            status == NS_ERR_PARSE   ? "not a number"
                            : status == NS_ERR_LIMIT ? "too large or too long a number"
                                                     : "not finite");
        }

        // Numbers beyond the limit are counted for the message only.
        if (found < max) out[found] = value;
        found++;
    }

    // Check the count; a fixed count has a shorter message.
    if (found < min || found > max) {
        const char* quoted = nsi_quote(text, strlen(text), quote);
        return min == max
                   ? nsi_fail(error, NS_ERR_PARSE, "%s has %u numbers where %u are needed", quoted,
                              found, min)
                   : nsi_fail(error, NS_ERR_PARSE, "%s has %u numbers where %u to %u are needed",
                              quoted, found, min, max);
    }
    // On failure the count is 0.
    *count = found;
    return NS_OK;
}
