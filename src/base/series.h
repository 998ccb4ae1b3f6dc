// Columns of numbers over time: continuous angles, smoothing polynomials, spacing of rows. NaN is a
// missing number.

#ifndef NSI_SERIES_H
#define NSI_SERIES_H

#include "base/common.h"

enum { NSI_SERIES_MAX_WINDOW = 1001, NSI_SERIES_MAX_ORDER = 9 };

// Make an angle (rad) continuous: whole turns are added so that no step is larger than pi. Missing
// numbers are stepped over.
void nsi_series_unwrap(double* x, uint32_t count);

// Smooth as Savitzky & Golay 1964: the least-squares polynomial of this order through the `window`
// rows around each row (at the ends: the first or last ones there are), at that row, or its
// derivative per unit of time. The rows may be uneven. Missing numbers, and rows further away than
// `window` median spacings (beyond a gap), take no part; where a row is missing itself, or not enough
// others are there, so is the result.
// @param times   (count) growing; NULL for 0, 1, 2..
// @param window  odd, 3..NSI_SERIES_MAX_WINDOW, more than `order`
// @param out     (count), not x or times
void nsi_series_smooth(const double* x, const double* times, uint32_t count, uint32_t window,
                       uint32_t order, bool derivative, double* out);

// The number that stands at `rank` when sorted; reorders x (count), which has no NaN.
double nsi_series_select(double* x, size_t count, size_t rank);

// The median distance between rows, the lower of two; NaN when there are fewer than two rows.
// @param scratch  (count)
double nsi_series_spacing(const double* times, uint32_t count, double* scratch);

#endif
