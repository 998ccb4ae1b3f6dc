// Columns of numbers as they stand in a page (web/README.md): quantised to 32 bits, their differences
// in four planes of bytes, packed by zlib, as base64.
//
//     nsi_columns columns = {.allocator = allocator};
//     nsi_columns_add(&columns, time, 1, rows, NSI_ANY_STEP, error);        // column 0
//     nsi_columns_add(&columns, poses + 3, 7, rows, NSI_POSE_STEP, error);  // column 1
//     nsi_columns_describe(&columns, "columns", json);
//     nsi_columns_write(&columns, &page, error);
//     nsi_columns_free(&columns);

#ifndef NSI_REPORT_PACKED_COLUMNS_H
#define NSI_REPORT_PACKED_COLUMNS_H

#include "base/common.h"
#include "neuralsim/json.h"
#include "neuralsim/motion.h"

#include <float.h>

// What is read back is half a step off at most. Steps are 2^-24 of a column's range, or smaller where
// a column asks for it, but not below 2^-31 of the range: numbers must fit 32 bits.
#define NSI_ANY_STEP DBL_MAX
#define NSI_POSE_STEP 1e-7 // of lengths (m) and quaternions

enum { NSI_COLUMN_ORDERS = 5 }; // of differences: 0 to 4

typedef struct nsi_column {
    uint32_t first, rows; // its numbers in the planes
    uint32_t order;       // of their differences
    double offset, step;
} nsi_column;

typedef struct nsi_columns {
    ns_allocator allocator;
    NSI_ARRAY(nsi_column) list;
    NSI_ARRAY(uint8_t) planes[4]; // lowest byte first
} nsi_columns;

// Add a column of values[k * stride]; its number is that of columns before. NaN, infinities and what
// is beyond half of the largest double are missing. Evenly spaced numbers, such as times, are exact.
// @param step  the largest to be used, > 0
// @return NS_OK; NS_ERR_LIMIT: more than NS_MOTION_MAX_NUMBERS; NS_ERR_NOMEM
ns_status nsi_columns_add(nsi_columns* columns, const double* values, size_t stride, uint32_t rows,
                          double step, ns_error* error);

// Other numbers for a column, as many as it has.
void nsi_columns_replace(nsi_columns* columns, uint32_t number, const double* values, size_t stride,
                         double step);

// What a reader has to know: rows, orders, offsets and steps.
void nsi_columns_describe(const nsi_columns* columns, const char* key, ns_json* j);

// Add the numbers to a page.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_columns_write(const nsi_columns* columns, nsi_text_builder* page, ns_error* error);

void nsi_columns_free(nsi_columns* columns);

#endif
