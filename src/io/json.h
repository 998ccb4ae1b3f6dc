// JSON, written front to back into a text builder:
//
//     nsi_json j = nsi_json_begin(allocator);        // {
//     nsi_json_text(&j, "name", "arm");              //   "name": "arm",
//     nsi_json_open(&j, "axis", '[');                //   "axis": [
//     nsi_json_number(&j, NULL, 1.0);                //     1
//     nsi_json_close(&j);                            //   ]
//     return nsi_json_finish(&j, &text, error);      // }
//
// Keys are NULL inside arrays. Numbers that are not finite, which JSON does not have, are null. The
// text is UTF-8 whatever it is made of (U+FFFD stands for what is not), and has no '<', so that it
// can stand in a page.

#ifndef NSI_IO_JSON_H
#define NSI_IO_JSON_H

#include "base/common.h"

enum { NSI_JSON_DEPTH = 16 };

typedef struct nsi_json {
    nsi_text_builder text;
    char closers[NSI_JSON_DEPTH];
    bool filled[NSI_JSON_DEPTH]; // has something at this level already
    int depth;
} nsi_json;

// Opens the outermost object. NULL for the default allocator.
nsi_json nsi_json_begin(const ns_allocator* allocator);
void nsi_json_open(nsi_json* j, const char* key, char c); // c is '{' or '['
void nsi_json_close(nsi_json* j);
void nsi_json_text(nsi_json* j, const char* key, const char* value); // NULL: null
void nsi_json_number(nsi_json* j, const char* key, double value);
void nsi_json_count(nsi_json* j, const char* key, uint64_t value);
void nsi_json_bool(nsi_json* j, const char* key, bool value);
void nsi_json_numbers(nsi_json* j, const char* key, const double* values, size_t count); // an array

// A value that is JSON already.
void nsi_json_value(nsi_json* j, const char* key, const char* text, size_t size);

// Close what is open and hand the text over, as nsi_text_finish().
ns_status nsi_json_finish(nsi_json* j, ns_text* out, ns_error* error);

#endif
