// Meshes for contact: what is left of them is a few corners of their convex hull.
//
// The corners are the vertices that reach furthest in 64 fixed directions: the six axes and 58 more,
// evenly spread. If that makes more than 32 corners, those of the axes are kept, and of the others
// the ones that are furthest from all that are kept already. So a box keeps its corners, and a ball
// of many triangles becomes a solid of 32 corners whose sides lie up to a sixth of its radius inside.

#ifndef NSI_IO_MESH_H
#define NSI_IO_MESH_H

#include "base/base.h"

enum {
    NSI_MESH_MAX_SIZE = 64 << 20, // bytes of a file
    NSI_MESH_MAX_CORNERS = 32,
    NSI_MESH_DIRECTIONS = 64
};

typedef struct nsi_mesh {
    double corners[3 * NSI_MESH_MAX_CORNERS]; // x y z of each
    uint32_t count;
} nsi_mesh;

// Collects vertices.
typedef struct nsi_hull {
    uint32_t nvertex; // so far
    double directions[NSI_MESH_DIRECTIONS][3];
    double reach[NSI_MESH_DIRECTIONS];       // furthest in each direction
    double furthest[NSI_MESH_DIRECTIONS][3]; // the first vertex that reaches there
} nsi_hull;

void nsi_hull_start(nsi_hull* hull);

// False, and nothing changed, when the vertex is not finite or further out than 1e9.
bool nsi_hull_add(nsi_hull* hull, const double vertex[3]);
void nsi_hull_finish(const nsi_hull* hull, nsi_mesh* out);

// Read an STL file, binary or text, or an OBJ file; the ending of the name tells which.
// @return NS_OK; NS_ERR_UNSUPPORTED for another ending; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT,
//         NS_ERR_NOMEM with a message that starts with the name
ns_status nsi_mesh_read(const char* path, const ns_allocator* allocator, nsi_mesh* out,
                        ns_error* error);

// The same from memory.
ns_status nsi_mesh_parse(const char* bytes, size_t size, const char* name, nsi_mesh* out,
                         ns_error* error);

#endif
