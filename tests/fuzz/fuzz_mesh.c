// Any bytes as a mesh file; the first byte chooses the format. What is read must be a sound mesh, and a
// refusal must have a message.

#include "io/mesh.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const char* const names[] = {"fuzz.dae", "fuzz.ply", "fuzz.obj", "fuzz.stl"};
    if (size == 0) return 0;
    const char *name = names[data[0] % 4], *bytes = (const char*)data + 1;
    ns_allocator allocator = ns_default_allocator();

    nsi_mesh mesh;
    ns_error error = {0};
    ns_status status = nsi_mesh_parse(bytes, size - 1, name, &allocator, &mesh, &error);
    REQUIRE(status == error.status);
    REQUIRE(status == NS_OK || strncmp(error.message, "fuzz.", 5) == 0);
    REQUIRE((status == NS_OK) == (mesh.count > 0));
    for (uint32_t k = 0; k < 3 * mesh.count; k++) REQUIRE(fabs(mesh.corners[k]) <= 1e9);

    nsi_surface surface;
    error = (ns_error){0};
    status = nsi_surface_parse(bytes, size - 1, name, 1000, &allocator, &surface, &error);
    REQUIRE(status == error.status);
    REQUIRE(surface.triangles.count <= 3000);
    for (uint32_t k = 0; k < surface.triangles.count; k++) {
        REQUIRE(surface.triangles.data[k] < surface.vertices.count / 3);
    }
    nsi_surface_free(&allocator, &surface);
    return 0;
}
