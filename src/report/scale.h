// Axes: where a value is in a picture, and where ticks are.

#ifndef NSI_REPORT_SCALE_H
#define NSI_REPORT_SCALE_H

#include "report/format.h"

typedef struct nsi_scale {
    bool log;
    double low, high; // values at the ends; of a logarithmic scale their decimal logarithms
    double from, to;  // places of the ends
} nsi_scale;

// Can this value be shown?
bool nsi_scale_shows(const nsi_scale* scale, double value);

// Take in a value, before the scale is used; start with nsi_scale_empty().
nsi_scale nsi_scale_empty(bool log);
void nsi_scale_include(nsi_scale* scale, double value);
// Make what was included a range, wider by this share at both ends.
void nsi_scale_finish(nsi_scale* scale, double margin);

double nsi_scale_place(const nsi_scale* scale, double value);

enum { NSI_MAX_TICKS = 16 };

typedef struct nsi_ticks {
    double value[NSI_MAX_TICKS];
    nsi_formatted label[NSI_MAX_TICKS];
    uint32_t count;
} nsi_ticks;

// About `wanted` (2 .. 8) round numbers, two at least.
nsi_ticks nsi_scale_ticks(const nsi_scale* scale, uint32_t wanted);

#endif
