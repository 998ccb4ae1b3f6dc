// UTF-8, strictly: no overlong forms, no surrogates, nothing past U+10FFFF.

#ifndef NSI_IO_UTF8_H
#define NSI_IO_UTF8_H

#include "base/common.h"

// Length in bytes of the character at `text`, of which `size` > 0 bytes are there; 0 when it is
// none. `code` receives the character.
size_t nsi_utf8_next(const char* text, size_t size, uint32_t* code);

// What is wrong with a text that should be one line of UTF-8, or NULL: "is empty", "is not UTF-8",
// "has a control character" (up to U+001F, and U+007F to U+009F).
const char* nsi_line_fault(const char* text, size_t size);

#endif
