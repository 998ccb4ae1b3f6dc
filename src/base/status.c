// Status texts, error messages and the version.

#include "base/common.h"

#include <stdarg.h>
#include <stdio.h>

const char* ns_version(void) {
    return NS_VERSION;
}

const char* ns_status_text(ns_status status) {
    switch (status) {
#define STATUS_CASE(name, code, text)                                                              \
    case name: return text;
        NS_STATUS_MAP(STATUS_CASE)
#undef STATUS_CASE
    }
    return "unknown status";
}

// End a message that did not fit with "...", without leaving half a UTF-8 character before it.
static void mark_cut(char message[NS_ERROR_SIZE]) {
    size_t at = NS_ERROR_SIZE - sizeof "...";
    while (at > 0 && ((unsigned char)message[at] & 0xC0) == 0x80) at--;
    memcpy(message + at, "...", sizeof "...");
}

void nsi_set_error(ns_error* error, ns_status status, const char* format, ...) {
    if (!error) return;

    // Formatted aside, because an argument may well be the old message: "in file x: <message>".
    char message[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);

    if (length < 0) {
        snprintf(message, sizeof message, "%s", ns_status_text(status));
    } else if ((size_t)length >= sizeof message) {
        mark_cut(message);
    }

    error->status = status;
    memcpy(error->message, message, strlen(message) + 1);
}
