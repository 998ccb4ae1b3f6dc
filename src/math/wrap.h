// Shortest paths around a sphere or an infinite cylinder, as tendons take them.
//
// A path leads from one point to another and touches the surface of the obstacle between two tangent
// points, if it does not miss it. Everything is seen from the obstacle: its centre is the origin, the
// axis of a cylinder is z. The path of a sphere lies in the plane of the origin and the two points.

#ifndef NSI_WRAP_H
#define NSI_WRAP_H

#include "neuralsim/vec.h"

typedef struct nsi_wrap {
    ns_expr wraps;  // 1 or 0: the path is straight
    vec3 first;     // where it meets the surface; of a straight path anything finite
    vec3 second;    // where it leaves it
    ns_expr length; // along the surface; of a straight path anything finite
} nsi_wrap;

// @param from, to  ends of the path
// @param side      NULL, or a point on whose side the path goes around; where it is inside of the
//                  obstacle, the path touches the surface from inside
nsi_wrap nsi_wrap_path(bool sphere, ns_expr radius, vec3 from, vec3 to, const vec3* side);

#endif
