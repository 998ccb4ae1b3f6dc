// Convex hulls of points, by qhull.

#ifndef NSI_CONVEX_HULL_H
#define NSI_CONVEX_HULL_H

#include "base/common.h"

// Say which points (count x 3, finite) are corners of their hull; of equal points one. Points on faces and
// edges of the hull, to rounding, are not corners. A flat set has the corners of its polygon, or its two
// ends. Where qhull finds no answer all points count as corners.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_convex_hull(const double* points, uint32_t count, const ns_allocator* allocator,
                          bool* is_corner);

// The triangles of the hull: three numbers of points each, counter-clockwise seen from outside. Of a
// flat set, and where qhull finds no answer, there are none.
// @param triangles  (ntriangle x 3), freed by nsi_free(); NULL when there are none
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_convex_hull_triangles(const double* points, uint32_t count,
                                    const ns_allocator* allocator, uint32_t** triangles,
                                    uint32_t* ntriangle);

#endif
