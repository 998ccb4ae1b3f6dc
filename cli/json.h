// JSON, written front to back into a text builder:
//
//     json j = json_begin();                     // {
//     json_text(&j, "name", "arm");              //   "name": "arm",
//     json_open(&j, "axis", '[');                //   "axis": [
//     json_number(&j, NULL, 1.0);                //     1
//     json_close(&j);                            //   ]
//     return json_print(&j);                     // }
//
// Keys are NULL inside arrays. Numbers that are not finite, which JSON does not have, are null.

#ifndef CLI_JSON_H
#define CLI_JSON_H

#include "base/base.h"

enum { JSON_DEPTH = 16 };

typedef struct json {
    nsi_text_builder text;
    char closers[JSON_DEPTH];
    bool filled[JSON_DEPTH]; // has something at this level already
    int depth;
} json;

json json_begin(void);                            // opens the outermost object
void json_open(json* j, const char* key, char c); // c is '{' or '['
void json_close(json* j);
void json_text(json* j, const char* key, const char* value); // NULL: null
void json_number(json* j, const char* key, double value);
void json_count(json* j, const char* key, uint64_t value);
void json_bool(json* j, const char* key, bool value);
void json_numbers(json* j, const char* key, const double* values, size_t count); // an array

// A value that is JSON already.
void json_value(json* j, const char* key, const char* text, size_t size);

// Close what is open and hand the text over; false after saying why.
bool json_finish(json* j, ns_text* out);

// Close what is open, write it to standard output and free it; the exit code.
int json_print(json* j);

#endif
