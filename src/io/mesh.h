// Meshes. Contact uses a few corners of the convex hull; the viewer uses the triangles.
//
// The corners are those of the convex hull (math/convex_hull.h). Of a mesh with more than 4096 different
// vertices they are the vertices that extend furthest in 64 fixed directions: the six axes and 58 more,
// evenly spread. If there are more than 32 corners, those of the axes are kept, then repeatedly the
// one furthest from all that are kept. So a box keeps its corners, and a finely triangulated ball
// becomes a polyhedron with 32 corners whose faces lie up to a sixth of the radius inside.

#ifndef NSI_IO_MESH_H
#define NSI_IO_MESH_H

#include "base/common.h"

enum {
    NSI_MESH_MAX_SIZE = 64 << 20, // bytes of a file
    NSI_MESH_MAX_CORNERS = 32,
    NSI_MESH_DIRECTIONS = 64,
    NSI_MESH_MAX_HULL = 4096 // different vertices of which the hull is computed
};

typedef struct nsi_mesh {
    double corners[3 * NSI_MESH_MAX_CORNERS]; // x y z of each
    uint32_t count;
} nsi_mesh;

// Collects vertices.
typedef struct nsi_hull {
    const ns_allocator* allocator;
    NSI_ARRAY(double) vertices; // x y z of the different ones, unless there are too many
    nsi_index places;           // of these
    ns_status status;           // NS_OK, NS_ERR_NOMEM
    uint32_t nvertex;           // so far, with copies
    double directions[NSI_MESH_DIRECTIONS][3];
    double reach[NSI_MESH_DIRECTIONS];       // furthest in each direction
    double furthest[NSI_MESH_DIRECTIONS][3]; // the first vertex that reaches there
} nsi_hull;

void nsi_hull_start(nsi_hull* hull, const ns_allocator* allocator);

// False, and nothing changed, when the vertex is not finite or further out than 1e9.
bool nsi_hull_add(nsi_hull* hull, const double vertex[3]);

// The corners; frees what was collected. Must be called in any case.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_hull_finish(nsi_hull* hull, nsi_mesh* out);

// The formats that can be read, for messages.
#define NSI_MESH_FORMATS ".stl, .obj, .ply or .dae"

// Does the name have the ending of a format that can be read?
bool nsi_mesh_is_path(const char* path);

// Read an STL file, binary or text, an OBJ, PLY or COLLADA file; the extension of the name selects the format.
// @return NS_OK; NS_ERR_UNSUPPORTED for another ending; NS_ERR_IO, NS_ERR_PARSE, NS_ERR_LIMIT,
//         NS_ERR_NOMEM with a message that starts with the name
ns_status nsi_mesh_read(const char* path, const ns_allocator* allocator, nsi_mesh* out,
                        ns_error* error);

// The same from memory.
ns_status nsi_mesh_parse(const char* bytes, size_t size, const char* name,
                         const ns_allocator* allocator, nsi_mesh* out, ns_error* error);

// ---- triangles -------------------------------------------------------------------------------

typedef struct nsi_surface {
    NSI_ARRAY(double) vertices;    // x y z of each
    NSI_ARRAY(uint32_t) triangles; // the three vertices of each
} nsi_surface;

// Read the triangles of such a file, or those of the convex hull where it has only vertices; vertices at the
// same place are one. Polygons of an OBJ file are
// cut into triangles from their first corners.
// @param out  freed by nsi_surface_free(), also after a failure
// @return as nsi_mesh_read(); NS_ERR_LIMIT also for more than `most` triangles, or more vertices than
//         these can have
ns_status nsi_surface_read(const char* path, uint32_t most, const ns_allocator* allocator,
                           nsi_surface* out, ns_error* error);
ns_status nsi_surface_parse(const char* bytes, size_t size, const char* name, uint32_t most,
                            const ns_allocator* allocator, nsi_surface* out, ns_error* error);
void nsi_surface_free(const ns_allocator* allocator, nsi_surface* surface);

#endif
