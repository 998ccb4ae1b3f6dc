// Mass and inertia of the body that a triangle surface encloses.

#ifndef NSI_MESH_MASS_H
#define NSI_MESH_MASS_H

#include "io/mesh.h"

// What counts as the body.
typedef enum nsi_mesh_inertia {
    NSI_MESH_LEGACY, // MuJoCo's default: pyramids over the triangles, none of which counts as negative
    NSI_MESH_EXACT,  // the inside of a closed surface whose triangles point outwards
    NSI_MESH_CONVEX, // the convex hull
    NSI_MESH_SHELL   // the surface itself
} nsi_mesh_inertia;

// Of density 1 (per volume, of a shell per area).
typedef struct nsi_mesh_mass {
    double mass;
    double com[3];
    double inertia[6]; // about `com`: xx yy zz xy xz yz
} nsi_mesh_mass;

// `fault` receives NULL or what is wrong, as the end of a sentence that starts with "the mesh"; `out`
// then has no meaning.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_mesh_mass_find(const nsi_surface* surface, nsi_mesh_inertia kind,
                             const ns_allocator* allocator, nsi_mesh_mass* out, const char** fault);

#endif
