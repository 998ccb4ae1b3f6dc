// The data of a page, read as web/README.md says, by other means than those that write it.

#ifndef TEST_PAYLOAD_H
#define TEST_PAYLOAD_H

#include <jansson.h>
#include <stdint.h>

typedef struct payload {
    json_t* data; // the object viewer-data
    uint32_t ncolumn;
    uint32_t* rows;   // of each column
    double** columns; // NaN: missing
} payload;

// From the text of a page; fails the test when something is wrong with it.
payload payload_read(const char* page);
void payload_free(payload* p);

// From {"rows": ..., "orders": ...} and base64, for tests of columns alone; `data` is not set.
payload payload_unpack(const json_t* columns, const char* base64, size_t size);

// The column of a quantity of a track; NULL when it has none.
const double* payload_quantity(const payload* p, uint32_t episode, uint32_t track,
                               const char* name);

// How often `part` is in a text.
uint32_t payload_count(const char* text, const char* part);

#endif
