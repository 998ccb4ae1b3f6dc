// Read JSON files of unknown origin.

#include "io/json_read.h"

ns_status nsi_json_read(const char* text, size_t size, const char* path, size_t most, json_t** out,
                        ns_error* error) {
    json_error_t why;
    *out = NULL;
    if (size > most) {
        return nsi_fail(error, NS_ERR_LIMIT, "%.200s: more than %zu MiB", path, most >> 20);
    }
    *out = json_loadb(text, size, JSON_REJECT_DUPLICATES, &why);
    if (*out) return NS_OK;
    if (json_error_code(&why) == json_error_out_of_memory) return nsi_fail_nomem(error);
    return nsi_fail(error, NS_ERR_PARSE, "%.200s:%d:%d: %s", path, why.line, why.column, why.text);
}
