// Mass and inertia of meshes, as MuJoCo computes them.
//
// A solid is a sum of pyramids over the triangles with a common apex. With signed volumes, the apex
// does not matter and the result is exact for a closed surface. MuJoCo's legacy rule takes absolute
// volumes, first with the mean of the surface as the apex, which gives volume and centre of mass, then
// with the centre of mass as the apex, which gives the inertia. That is exact for convex meshes and
// overestimates others.

#include "io/mesh_mass.h"

#include "math/convex_hull.h"
#include "model/model_data.h"
#include "model/pose.h"

#include <math.h>

// The corners of a triangle relative to a point.
typedef struct triangle {
    double corner[3][3];
    double center[3]; // mean of the corners
    double area;
    double volume; // of the pyramid with its apex in the point; positive when it sees the back
} triangle;

static triangle mesh_triangle(const nsi_surface* s, uint32_t first, const double from[3]) {
    triangle t = {0};
    double a[3], b[3], normal[3];
    for (int k = 0; k < 3; k++) {
        const double* vertex =
            s->vertices.data + 3 * (size_t)s->triangles.data[first + (uint32_t)k];
        for (int i = 0; i < 3; i++) {
            t.corner[k][i] = vertex[i] - from[i];
            t.center[i] += t.corner[k][i] / 3.0;
        }
    }
    for (int i = 0; i < 3; i++) {
        a[i] = t.corner[1][i] - t.corner[0][i];
        b[i] = t.corner[2][i] - t.corner[0][i];
    }
    nsi_cross(a, b, normal);
    for (int i = 0; i < 3; i++) {
        t.area += normal[i] * normal[i];
        t.volume += normal[i] * t.center[i] / 6.0;
    }
    t.area = 0.5 * sqrt(t.area);
    return t;
}

// Add the products of inertia (integral of x_i x_j) of a triangle or of a pyramid with its apex in the
// origin; `weight` is the measure divided by 12 or by 20.
static void add_products(const triangle* t, double weight, double products[6]) {
    static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
    for (int n = 0; n < 6; n++) {
        int i = row[n], j = column[n];
        double sum = 9.0 * t->center[i] * t->center[j]; // of all pairs of corners
        for (int k = 0; k < 3; k++) sum += t->corner[k][i] * t->corner[k][j];
        products[n] += weight * sum;
    }
}

// Mean of the surface, weighted by area; returns the area.
static double surface_mean(const nsi_surface* s, double mean[3]) {
    const double origin[3] = {0.0, 0.0, 0.0};
    double area = 0.0, sum[3] = {0.0, 0.0, 0.0};
    for (uint32_t k = 0; k < s->triangles.count; k += 3) {
        triangle t = mesh_triangle(s, k, origin);
        area += t.area;
        for (int i = 0; i < 3; i++) sum[i] += t.area * t.center[i];
    }
    for (int i = 0; i < 3 && area > 0.0; i++) mean[i] = sum[i] / area;
    return area;
}

static const char* find_mass(const nsi_surface* s, nsi_mesh_inertia kind, nsi_mesh_mass* out) {
    static const double NOTHING = 1e-14; // m^3 or m^2, as MuJoCo
    bool shell = kind == NSI_MESH_SHELL, legacy = kind == NSI_MESH_LEGACY;
    double apex[3] = {0.0, 0.0, 0.0}, products[6] = {0.0};
    *out = (nsi_mesh_mass){0};
    double area = surface_mean(s, apex);
    if (!(area > NOTHING)) return "has no area";

    // Volume and centre of mass; a pyramid has its own at three quarters of the way to its base.
    double moment[3] = {0.0, 0.0, 0.0};
    out->mass = area;
    for (uint32_t k = 0; k < s->triangles.count && !shell; k += 3) {
        triangle t = mesh_triangle(s, k, apex);
        double volume = legacy ? fabs(t.volume) : t.volume;
        if (k == 0) out->mass = 0.0;
        out->mass += volume;
        for (int i = 0; i < 3; i++) moment[i] += 0.75 * volume * t.center[i];
    }
    if (out->mass < -NOTHING) return "has a negative volume: its triangles point inwards";
    if (!(out->mass > NOTHING)) return "has no volume";
    for (int i = 0; i < 3; i++) out->com[i] = apex[i] + moment[i] / out->mass;

    // Products of inertia about the centre of mass.
    for (uint32_t k = 0; k < s->triangles.count; k += 3) {
        triangle t = mesh_triangle(s, k, out->com);
        double weight = shell ? t.area / 12.0 : (legacy ? fabs(t.volume) : t.volume) / 20.0;
        add_products(&t, weight, products);
    }
    double trace = products[0] + products[1] + products[2];
    for (int n = 0; n < 6; n++) out->inertia[n] = n < 3 ? trace - products[n] : -products[n];
    return nsi_inertia_fault(out->mass, out->inertia)
               ? "has no physical inertia: its surface is not closed, or intersects itself"
               : NULL;
}

ns_status nsi_mesh_mass_find(const nsi_surface* surface, nsi_mesh_inertia kind,
                             const ns_allocator* allocator, nsi_mesh_mass* out,
                             const char** fault) {
    // Without triangles, or by choice: of the hull.
    if (kind != NSI_MESH_CONVEX && surface->triangles.count > 0) {
        *fault = find_mass(surface, kind, out);
        return NS_OK;
    }
    nsi_surface hull = *surface;
    uint32_t* triangles = NULL;
    uint32_t count = 0;
    ns_status status = nsi_convex_hull_triangles(
        surface->vertices.data, surface->vertices.count / 3, allocator, &triangles, &count);
    hull.triangles.data = triangles;
    hull.triangles.count = 3 * count;
    *fault = count == 0 ? "has no convex hull" : find_mass(&hull, kind, out);
    nsi_free(allocator, triangles);
    return status;
}
