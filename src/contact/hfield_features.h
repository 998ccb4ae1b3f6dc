// The blocks that find where a height field is touched: the triangles, edges and vertices of its
// surface that are nearest to points and balls, and the vertices that stick into a shape. What is
// made of them are expressions (hfield.c), so both blocks are piecewise constant as far as derivatives
// are concerned: they have none.
//
// Unit coordinates of a field run from -1 to 1 along x (columns) and y (rows); z is the elevation. The
// point is (size) times these.

#ifndef NSI_HFIELD_FEATURES_H
#define NSI_HFIELD_FEATURES_H

#include "expr/block.h"
#include "model/model_data.h"

// Nearest points. Parameters: rows, columns, number of balls; 0: one that touches in several places.
// Inputs: size (3), of each ball: centre in the field's frame (3), radius; elevations by rows.
// Outputs: the slots, one for each ball, or NSI_HFIELD_NEAREST of a ball that touches in several places.
typedef enum nsi_hfield_output {
    NSI_HFIELD_EXISTS,    // 1 or 0
    NSI_HFIELD_FACE,      // 1: a face is nearest; 0: an edge or a vertex
    NSI_HFIELD_SIDE,      // -1 when the centre is below the surface, otherwise 1
    NSI_HFIELD_VERTEX,    // (3) a point of the feature, in unit coordinates as all that follow
    NSI_HFIELD_EDGE = 6,  // (3) direction of the edge, 0 for others
    NSI_HFIELD_SIDES = 9, // twice (3): two sides of the triangle, counterclockwise from above
    NSI_HFIELD_SLOT_SIZE = 15
} nsi_hfield_output;

enum { NSI_HFIELD_NEAREST = 3 };

extern const nsi_block_kind nsi_hfield_nearest;

// Vertices that stick into a shape. Parameters: rows, columns, nsi_hfield_solid.
// Inputs: size (3), of the shape: orientation by rows (9), position (3), sizes (3), all in the field's
// frame; elevations by rows. Outputs: for each of NSI_HFIELD_PEAKS whether it exists, and where (3).
typedef enum nsi_hfield_solid {
    NSI_HFIELD_CAPSULE,
    NSI_HFIELD_CYLINDER,
    NSI_HFIELD_BOX
} nsi_hfield_solid;

enum { NSI_HFIELD_PEAKS = 4 };

extern const nsi_block_kind nsi_hfield_peaks;

#endif
