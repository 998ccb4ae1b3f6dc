// Where readers of mesh files put vertices and faces: into a hull, which takes no faces, or a surface.

#ifndef NSI_IO_MESH_SINK_H
#define NSI_IO_MESH_SINK_H

#include "io/mesh.h"

typedef struct nsi_mesh_sink {
    nsi_hull* hull;
    nsi_surface* surface; // NULL: the hull
    const ns_allocator* allocator;
    nsi_index places; // of the surface's vertices
    uint32_t most;    // triangles
    bool loose;       // vertices of the surface need no faces
    uint32_t face[2]; // the first corner of the current face, and the last one
    uint32_t ncorner; // of the face so far
    ns_status status; // NS_ERR_NOMEM, NS_ERR_LIMIT
} nsi_mesh_sink;

// Nothing more is taken: see `status`.
bool nsi_mesh_has_failed(const nsi_mesh_sink* sink);

// A vertex, whether faces have it or not. False when it is not finite or further out than 1e9.
bool nsi_mesh_add_point(nsi_mesh_sink* sink, const double v[3]);

// A face, and its corners in turn; each is a vertex that has been added. Polygons are cut into triangles
// from their first corner.
void nsi_mesh_begin_face(nsi_mesh_sink* sink);
void nsi_mesh_add_corner(nsi_mesh_sink* sink, const double v[3]);

// Readers of formats. NS_OK also when the sink has failed.
ns_status nsi_mesh_parse_ply(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                             ns_error* error);
ns_status nsi_mesh_parse_dae(const char* bytes, size_t size, const char* name, nsi_mesh_sink* to,
                             ns_error* error);

#endif
