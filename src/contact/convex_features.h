// The block that finds where two convex shapes touch: the normal, and the vertices, edges and faces
// that decide about it. The points themselves are expressions of these (convex_pairs.c), so the
// block is piecewise constant as far as derivatives are concerned: it has none.
//
// Features are in unit coordinates u of a shape, the point R (scale * u) + p:
//
//   kind        unit coordinates of vertices   curved part that is added to an anchor
//   point       0
//   segment     (0, 0, +-1)
//   cylinder    (cos, sin, +-1), 16 corners    scale (cos, sin, 0) towards the other shape
//   box         (+-1, +-1, +-1)
//   ellipsoid   0                              where it faces the other shape
//   mesh        its vertices
//
// Parameters: kind + 8 * number of vertices (of a mesh, else 0), of a and of b.
// Inputs: for a, then b: R by rows (9), p (3), scale (3), vertices of a mesh (3 each).
// Outputs: as in nsi_convex_output; the directions, anchors and points are in unit coordinates.

#ifndef NSI_CONVEX_FEATURES_H
#define NSI_CONVEX_FEATURES_H

#include "expr/block.h"
#include "model/model_data.h"

enum {
    NSI_CONVEX_POINT,
    NSI_CONVEX_SEGMENT,
    NSI_CONVEX_CYLINDER,
    NSI_CONVEX_BOX,
    NSI_CONVEX_ELLIPSOID,
    NSI_CONVEX_MESH
};

enum {
    NSI_CONVEX_MAX_VERTICES = NSI_MAX_HULL_VERTICES,
    NSI_CONVEX_SLOTS = 4,
    NSI_CONVEX_POSE = 15
};

typedef enum nsi_convex_output {
    NSI_CONVEX_MODE,            // number of directions that the normal is square to: 0 to 2
    NSI_CONVEX_NORMAL = 1,      // (3) in the world, from b to a
    NSI_CONVEX_TANGENT = 4,     // (3) in the world, square to the normal
    NSI_CONVEX_DIRECTION = 7,   // twice: 1 when it is of b, direction (3). Their product is along n
    NSI_CONVEX_ROUND = 15,      // of a, of b: 1 when the curved part counts
    NSI_CONVEX_ANCHOR = 17,     // (3) of a, of b
    NSI_CONVEX_INCIDENT = 23,   // 1 when the incident face is of b, two directions in it (3 each)
    NSI_CONVEX_FIRST_SLOT = 30, // the slots, each with these:
    NSI_CONVEX_EXISTS = 0,      // 1 or 0
    NSI_CONVEX_OWNER = 1,       // 1 when the line is of b
    NSI_CONVEX_CORNER = 2,      // 1: the gap is to the plane of the incident face
    NSI_CONVEX_END = 3,    // 1: the plane is square to SIDE; 0: it contains SIDE and the normal
    NSI_CONVEX_LINE = 4,   // (3) a point of the line,
    NSI_CONVEX_ALONG = 7,  // (3) and its direction; 0 for a point
    NSI_CONVEX_PLANE = 10, // (3) a point of the plane, of the other shape,
    NSI_CONVEX_SIDE = 13,  // (3) and a direction
    NSI_CONVEX_SLOT_SIZE = 16,
    NSI_CONVEX_OUTPUTS = NSI_CONVEX_FIRST_SLOT + NSI_CONVEX_SLOTS * NSI_CONVEX_SLOT_SIZE
} nsi_convex_output;

extern const nsi_block_kind nsi_convex_features;

#endif
