/// @file json.h
/// JSON, written front to back.
///
///     ns_json* j = ns_json_create(NULL);             // {
///     ns_json_text(j, "name", "arm");                //   "name": "arm",
///     ns_json_open(j, "axis", '[');                  //   "axis": [
///     ns_json_number(j, NULL, 1.0);                  //     1
///     ns_json_close(j);                              //   ]
///     ns_text text;
///     ns_json_finish(j, &text, &error);              // }
///
/// Keys are NULL inside arrays. Numbers keep all their bits and are written the same way in every
/// locale; those that are not finite, which JSON does not have, are null. The text is UTF-8 whatever
/// it is made of (U+FFFD replaces invalid bytes) and has no '<', so that it can stand in a page. A
/// failure sticks and comes out at the end.

#ifndef NEURALSIM_JSON_H
#define NEURALSIM_JSON_H

#include "neuralsim/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_json ns_json;

#define NS_JSON_DEPTH 16 ///< objects and arrays within each other, at most

/// Open the outermost object.
/// @param allocator  NULL for ns_default_allocator()
/// @return a writer for ns_json_finish(); NULL when out of memory, which all functions accept
NS_API ns_json* ns_json_create(const ns_allocator* allocator);

NS_API void ns_json_open(ns_json* j, const char* key, char bracket);      ///< '{' or '['
NS_API void ns_json_close(ns_json* j);                                    ///< the innermost one
NS_API void ns_json_text(ns_json* j, const char* key, const char* value); ///< NULL: null
NS_API void ns_json_number(ns_json* j, const char* key, double value);
NS_API void ns_json_count(ns_json* j, const char* key, uint64_t value);
NS_API void ns_json_bool(ns_json* j, const char* key, bool value);

/// An array of numbers.
NS_API void ns_json_numbers(ns_json* j, const char* key, const double* values, size_t count);

/// A value that is JSON already (size bytes).
NS_API void ns_json_value(ns_json* j, const char* key, const char* text, size_t size);

/// Close what is open, hand the text over and free the writer.
/// @param out  to be freed by ns_text_free(); zeroed after a failure
/// @return NS_OK; NS_ERR_LIMIT: more than NS_JSON_DEPTH levels; NS_ERR_NOMEM
NS_API ns_status ns_json_finish(ns_json* j, ns_text* out, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
