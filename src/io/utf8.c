// UTF-8.

#include "io/utf8.h"

size_t nsi_utf8_next(const char* text, size_t size, uint32_t* code) {
    static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000}; // that needs so many bytes
    unsigned char first = (unsigned char)text[0];
    size_t length = first < 0x80   ? 1
                    : first < 0xC0 ? 0
                    : first < 0xE0 ? 2
                    : first < 0xF0 ? 3
                    : first < 0xF8 ? 4
                                   : 0;
    if (length == 0 || length > size) return 0;
    uint32_t c = length == 1 ? first : first & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        unsigned char next = (unsigned char)text[i];
        if ((next & 0xC0) != 0x80) return 0;
        c = c << 6 | (next & 0x3F);
    }
    if (c < least[length] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
    *code = c;
    return length;
}

const char* nsi_line_fault(const char* text, size_t size) {
    if (size == 0) return "is empty";
    for (size_t at = 0; at < size;) {
        uint32_t code = 0;
        size_t length = nsi_utf8_next(text + at, size - at, &code);
        if (length == 0) return "is not UTF-8";
        if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return "has a control character";
        at += length;
    }
    return NULL;
}
