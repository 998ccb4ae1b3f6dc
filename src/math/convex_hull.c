#include "math/convex_hull.h"

#include <libqhull_r/qhull_ra.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const double FLAT = 1e-12; // of the extent: less is no extent

static void difference(const double* a, const double* b, double out[3]) {
    for (int i = 0; i < 3; i++) out[i] = a[i] - b[i];
}

static double hull_dot(const double a[3], const double b[3]) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

// A frame of the points: its origin is the first one, its axes go to the point furthest from the
// origin, from the line, and across both. Returns the dimension of the set, 0 to 3.
typedef struct point_frame {
    uint32_t far;      // the point furthest from the first
    double axis[3][3]; // unit vectors
    double extent;     // distance of `far`
} point_frame;

static uint32_t find_frame(const double* points, uint32_t count, point_frame* frame) {
    *frame = (point_frame){0};
    uint32_t found = 0;
    for (; found < 3; found++) {
        double best = 0.0, chosen[3] = {0.0, 0.0, 0.0};
        for (uint32_t k = 1; k < count; k++) {
            double d[3];
            difference(points + (size_t)3 * k, points, d);
            for (uint32_t j = 0; j < found; j++) {
                double along = hull_dot(d, frame->axis[j]);
                for (int i = 0; i < 3; i++) d[i] -= along * frame->axis[j][i];
            }
            double distance = sqrt(hull_dot(d, d));
            if (!(distance > best)) continue;
            best = distance;
            memcpy(chosen, d, sizeof chosen);
            if (found == 0) frame->far = k;
        }
        if (found == 0) frame->extent = best;
        if (!(best > FLAT * frame->extent) || best == 0.0) break;
        for (int i = 0; i < 3; i++) frame->axis[found][i] = chosen[i] / best;
    }
    return found;
}

// The hull of points of dimension `dimension`, in as many coordinates each. False when qhull fails.
static bool run_qhull(double* coordinates, uint32_t count, int dimension, bool* is_corner) {
    // Messages go nowhere: qhull needs a file for them.
    FILE* nowhere = fopen("/dev/null", "w");
    if (!nowhere) return false;
    char command[] = "qhull Pp";
    qhT state, *qh = &state;
    qh_zero(qh, nowhere);
    int code =
        qh_new_qhull(qh, dimension, (int)count, coordinates, False, command, nowhere, nowhere);

    if (code == 0) {
        vertexT* vertex;
        FORALLvertices {
            int id = qh_pointid(qh, vertex->point);
            if (id >= 0 && (uint32_t)id < count) is_corner[id] = true;
        }
    }

    int left, total;
    qh_freeqhull(qh, !qh_ALL);
    qh_memfreeshort(qh, &left, &total);
    fclose(nowhere);
    return code == 0;
}

// Of a set on a line: its ends.
static void mark_ends(const double* points, uint32_t count, const point_frame* frame,
                      bool* is_corner) {
    uint32_t low = 0, high = 0;
    double least = 0.0, most = 0.0;
    for (uint32_t k = 1; k < count; k++) {
        double d[3];
        difference(points + (size_t)3 * k, points, d);
        double along = hull_dot(d, frame->axis[0]);
        if (along < least) least = along, low = k;
        if (along > most) most = along, high = k;
    }
    is_corner[low] = is_corner[high] = true;
}

ns_status nsi_convex_hull(const double* points, uint32_t count, const ns_allocator* allocator,
                          bool* is_corner) {
    memset(is_corner, 0, count * sizeof *is_corner);
    if (count == 0) return NS_OK;

    // A point, or a line.
    point_frame frame;
    uint32_t dimension = find_frame(points, count, &frame);
    if (dimension == 0) {
        is_corner[0] = true;
        return NS_OK;
    }
    if (dimension == 1) {
        mark_ends(points, count, &frame, is_corner);
        return NS_OK;
    }

    // A plane or space, in coordinates of the frame, at unit size.
    double* coordinates = nsi_alloc(allocator, (size_t)dimension * count * sizeof *coordinates);
    if (!coordinates) return NS_ERR_NOMEM;
    for (uint32_t k = 0; k < count; k++) {
        double d[3];
        difference(points + (size_t)3 * k, points, d);
        for (uint32_t i = 0; i < dimension; i++) {
            coordinates[dimension * k + i] = hull_dot(d, frame.axis[i]) / frame.extent;
        }
    }
    if (!run_qhull(coordinates, count, (int)dimension, is_corner)) {
        for (uint32_t k = 0; k < count; k++) is_corner[k] = true;
    }
    nsi_free(allocator, coordinates);
    return NS_OK;
}

// ---- triangles -----------------------------------------------------------------------------

// Turn a triangle so that a point inside sees its back.
static void turn_outwards(const double* points, const double inside[3], uint32_t corners[3]) {
    double a[3], b[3], d[3];
    const double* first = points + (size_t)3 * corners[0];
    difference(points + (size_t)3 * corners[1], first, a);
    difference(points + (size_t)3 * corners[2], first, b);
    difference(inside, first, d);
    double volume = d[0] * (a[1] * b[2] - a[2] * b[1]) + d[1] * (a[2] * b[0] - a[0] * b[2]) +
                    d[2] * (a[0] * b[1] - a[1] * b[0]);
    if (volume <= 0.0) return;
    uint32_t swapped = corners[1];
    corners[1] = corners[2];
    corners[2] = swapped;
}

// Copy the facets of a finished hull.
static ns_status copy_facets(qhT* qh, const double* points, const ns_allocator* allocator,
                             uint32_t** triangles, uint32_t* ntriangle) {
    // The mean of the corners is inside.
    double inside[3] = {0.0, 0.0, 0.0};
    vertexT* vertex;
    FORALLvertices {
        for (int i = 0; i < 3; i++) inside[i] += vertex->point[i] / qh->num_vertices;
    }

    uint32_t* out = nsi_alloc(allocator, (size_t)qh->num_facets * 3 * sizeof *out);
    if (!out) return NS_ERR_NOMEM;
    uint32_t count = 0;
    facetT* facet;
    FORALLfacets {
        vertexT** vertexp;
        uint32_t corners[3], n = 0;
        FOREACHvertex_(facet->vertices) {
            if (n < 3) corners[n] = (uint32_t)qh_pointid(qh, vertex->point);
            n++;
        }
        if (n != 3 || count >= (uint32_t)qh->num_facets) continue;
        turn_outwards(points, inside, corners);
        memcpy(out + (size_t)3 * count++, corners, sizeof corners);
    }
    *triangles = out;
    *ntriangle = count;
    return NS_OK;
}

ns_status nsi_convex_hull_triangles(const double* points, uint32_t count,
                                    const ns_allocator* allocator, uint32_t** triangles,
                                    uint32_t* ntriangle) {
    point_frame frame;
    *triangles = NULL;
    *ntriangle = 0;
    if (count < 4 || find_frame(points, count, &frame) < 3) return NS_OK;

    FILE* nowhere = fopen("/dev/null", "w");
    if (!nowhere) return NS_OK;
    char command[] = "qhull Qt Pp";
    qhT state, *qh = &state;
    qh_zero(qh, nowhere);
    // qhull does not write to the points unless it is told to free them.
    ns_status status = NS_OK;
    if (qh_new_qhull(qh, 3, (int)count, (coordT*)(uintptr_t)points, False, command, nowhere,
                     nowhere) == 0) {
        status = copy_facets(qh, points, allocator, triangles, ntriangle);
    }
    int left, total;
    qh_freeqhull(qh, !qh_ALL);
    qh_memfreeshort(qh, &left, &total);
    fclose(nowhere);
    return status;
}
