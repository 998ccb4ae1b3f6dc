// Resample rows at arbitrary times to a uniform grid.

#ifndef NSI_DATA_RESAMPLE_H
#define NSI_DATA_RESAMPLE_H

#include "base/common.h"
#include "neuralsim/data.h"

#define NSI_GRID_MIN_PERIOD 1e-9 // s
#define NSI_GRID_MAX_PERIOD 1e9

// Sample k is at start + k period.
typedef struct nsi_grid {
    double start, period; // s
    uint32_t count;
    double tolerance; // s: a row this near to a sample is at it
} nsi_grid;

// A row counts as at a sample when it is so near: a millionth of a period, or the rounding of times
// that are large.
double nsi_grid_tolerance(double period, double largest_time);

// The period of a grid for rows at these times: their spacing when they are even, otherwise the
// median. It, or its inverse, is rounded to as few digits as the times allow: 0.01, 1/148. NaN for
// fewer than two rows.
// @param scratch  (count)
double nsi_grid_period(const double* times, uint32_t count, double* scratch);

// How rows fit a grid.
typedef struct nsi_grid_fit {
    uint32_t rows;    // between the first and the last sample
    uint32_t at;      // samples at a row
    uint32_t between; // others, where rows are not further apart than max_gap
    bool gaps;        // rows are missing: more than 1.5 spacings without one
    bool uneven;      // distances are not multiples of the median spacing, within 1 %
} nsi_grid_fit;
nsi_grid_fit nsi_grid_compare(const nsi_grid* grid, const double* times, uint32_t count,
                              double spacing, double max_gap);

// Numbers at samples. One at which there is a row gets its number as it is.
// @param x        (count) at `times` (count), which grow
// @param max_gap  s: NaN where the rows around are further apart than this, or not on both sides;
//                 infinite: such gaps are bridged and the ends held
// @param out      for sample k at out[k stride]
void nsi_resample(const nsi_grid* grid, const double* times, const double* x, uint32_t count,
                  ns_resample manner, double max_gap, double* out, size_t stride);

// The same for what holds from its row to the next, a command: its mean from each sample to the next.
// Before the first row it has that row's number, after the last the last one's.
void nsi_resample_held(const nsi_grid* grid, const double* times, const double* x, uint32_t count,
                       double* out, size_t stride);

#endif
