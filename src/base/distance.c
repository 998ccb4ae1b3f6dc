// How far two names are apart, for "did you mean".

#include "base/common.h"

enum { LONGEST = 255 };

static uint32_t min3(uint32_t a, uint32_t b, uint32_t c) {
    uint32_t m = a < b ? a : b;
    return m < c ? m : c;
}

// Levenshtein distance, one row of the table at a time.
uint32_t nsi_edit_distance(const char* a, const char* b) {
    size_t na = strlen(a), nb = strlen(b);
    uint32_t row[LONGEST + 1]; // distances of the first i letters of a to all prefixes of b
    if (na > LONGEST || nb > LONGEST) return UINT32_MAX;
    for (uint32_t j = 0; j <= nb; j++) row[j] = j;
    for (uint32_t i = 1; i <= na; i++) {
        uint32_t diagonal = row[0];
        row[0] = i;
        for (uint32_t j = 1; j <= nb; j++) {
            uint32_t above = row[j];
            row[j] = min3(above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[nb];
}
