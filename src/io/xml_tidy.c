// Text that other readers of robot files take for XML, made well-formed.

#include "io/xml_tidy.h"

#include "io/utf8.h"

const char* const nsi_xml_fault_names[NSI_XML_FAULTS] = {
    "white space before the XML declaration",
    "zero bytes at the end",
    "\"--\" in a comment",
    "bytes that are not UTF-8",
};

static bool is_white(char c) {
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static bool starts_with(const char* at, const char* end, const char* mark) {
    size_t size = strlen(mark);
    return (size_t)(end - at) >= size && memcmp(at, mark, size) == 0;
}

// The first `mark` from `at` on, or `end`.
static char* find(char* at, char* end, const char* mark) {
    while (at < end && !starts_with(at, end, mark)) at++;
    return at;
}

static uint32_t trim_end(const char* text, size_t* size) {
    size_t before = *size;
    while (*size > 0 && text[*size - 1] == '\0') (*size)--;
    return *size < before ? NSI_XML_TRAILING : 0;
}

// A declaration must come first; behind anything else it becomes white space itself, and the text is
// read as UTF-8.
static uint32_t blank_declaration(char* text, char* end) {
    char* at = text;
    while (at < end && (is_white(*at) || starts_with(at, end, "\xEF\xBB\xBF"))) {
        if (is_white(*at)) {
            at++;
        } else {
            memset(at, ' ', 3);
            at += 3;
        }
    }
    if (at == text || !starts_with(at, end, "<?xml")) return 0;
    char* close = find(at, end, "?>");
    if (close == end) return 0;
    for (; at < close + 2; at++) {
        if (*at != '\n') *at = ' ';
    }
    return NSI_XML_LEADING;
}

// Comments must not contain "--", nor end with a third dash.
static uint32_t blank_dashes(char* text, char* end) {
    uint32_t faults = 0;
    for (char* at = text; at < end;) {
        // What looks like a comment in a CDATA section is none.
        if (starts_with(at, end, "<![CDATA[")) {
            at = find(at, end, "]]>");
            continue;
        }
        if (!starts_with(at, end, "<!--")) {
            at++;
            continue;
        }
        char* close = find(at + 4, end, "-->");
        for (char* dash = at + 4; dash < close; dash++) {
            bool second = *dash == '-' && (dash + 1 == close || dash[1] == '-');
            if (!second) continue;
            *dash = ' ';
            faults = NSI_XML_DASHES;
        }
        at = close < end ? close + 3 : end;
    }
    return faults;
}

static uint32_t replace_bytes(char* text, size_t size) {
    uint32_t faults = 0;
    for (size_t i = 0; i < size;) {
        uint32_t code;
        size_t length = nsi_utf8_next(text + i, size - i, &code);
        bool control = length == 1 && (unsigned char)text[i] < 0x20 && !is_white(text[i]);
        if (length == 0 || control) {
            text[i] = '?';
            faults = NSI_XML_BYTES;
        }
        i += length > 0 ? length : 1;
    }
    return faults;
}

uint32_t nsi_xml_tidy(char* text, size_t* size) {
    uint32_t faults = trim_end(text, size);
    faults |= blank_declaration(text, text + *size);
    faults |= blank_dashes(text, text + *size);
    return faults | replace_bytes(text, *size);
}
