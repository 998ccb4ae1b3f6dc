// A heat map as SVG: two pictures of the same grid side by side.

#ifndef CLI_HEATMAP_H
#define CLI_HEATMAP_H

#include "base/base.h"

typedef struct heatmap {
    const char* titles[2];   // ours: not escaped
    const char* axes[2];     // across, up; ours
    const double* values[2]; // (cells x cells): row i, column k at value i up, k across
    uint32_t cells;          // in a row
    double from, to;         // of both axes: centres of the first and the last cell
    double mark[2];          // where the star is
    double most;             // what has the lightest colour: it and all above
} heatmap;

// One <rect> of class "cell" for each cell, dark where the value is small. The same text stands alone
// in a file and in a page.
void heatmap_add(nsi_text_builder* b, const heatmap* map);

#endif
