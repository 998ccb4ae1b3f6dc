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
