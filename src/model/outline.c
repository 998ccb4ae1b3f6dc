// Outlines of plates: simple polygons in the x-y plane.

#include "model/model_data.h"

#include <math.h>

// Points by number; z is not looked at.
static const double* at(const double* vertices, uint32_t count, uint32_t i) {
    return vertices + 3 * (size_t)(i % count);
}

// Twice the area of the triangle, positive when it is counter-clockwise.
static double turn(const double* a, const double* b, const double* c) {
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

static bool same(const double* a, const double* b) {
    return a[0] == b[0] && a[1] == b[1];
}

// Is c, which is on the line through a and b, between them?
static bool between(const double* a, const double* b, const double* c) {
    return c[0] >= fmin(a[0], b[0]) && c[0] <= fmax(a[0], b[0]) && c[1] >= fmin(a[1], b[1]) &&
           c[1] <= fmax(a[1], b[1]);
}

// Do the segments a b and c d have a point in common?
static bool segments_meet(const double* a, const double* b, const double* c, const double* d) {
    double c_side = turn(a, b, c), d_side = turn(a, b, d);
    double a_side = turn(c, d, a), b_side = turn(c, d, b);
    if (((c_side > 0.0 && d_side < 0.0) || (c_side < 0.0 && d_side > 0.0)) &&
        ((a_side > 0.0 && b_side < 0.0) || (a_side < 0.0 && b_side > 0.0))) {
        return true;
    }
    return (c_side == 0.0 && between(a, b, c)) || (d_side == 0.0 && between(a, b, d)) ||
           (a_side == 0.0 && between(c, d, a)) || (b_side == 0.0 && between(c, d, b));
}

// Does the edge after b lie on the one before it?
static bool folds_back(const double* a, const double* b, const double* c) {
    double along = (b[0] - a[0]) * (c[0] - b[0]) + (b[1] - a[1]) * (c[1] - b[1]);
    return turn(a, b, c) == 0.0 && along < 0.0;
}

// Twice the area, positive when counter-clockwise; from the first vertex, so that an outline far
// away loses no digits.
static double doubled_area(const double* vertices, uint32_t count) {
    double sum = 0.0;
    for (uint32_t i = 1; i + 1 < count; i++) {
        sum += turn(vertices, at(vertices, count, i), at(vertices, count, i + 1));
    }
    return sum;
}

// Are all vertices on a line, to rounding? The vertices are finite.
static bool is_flat(const double* vertices, uint32_t count) {
    const double* far = vertices;
    double length = 0.0, width = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        const double* v = at(vertices, count, i);
        double distance = hypot(v[0] - vertices[0], v[1] - vertices[1]);
        if (distance > length) length = distance, far = v;
    }
    for (uint32_t i = 0; i < count; i++) {
        width = fmax(width, fabs(turn(vertices, far, at(vertices, count, i))));
    }
    const double flat = 1e-12;
    return !(width > flat * length * length);
}

// Quadratic in the number of vertices, which is small.
const char* nsi_outline_fault(const double* vertices, uint32_t count) {
    if (count < 3) return "has fewer than 3 vertices";
    const double largest = 1e100; // products of four such numbers are finite
    for (uint32_t i = 0; i < count; i++) {
        const double* v = at(vertices, count, i);
        if (!(fabs(v[0]) < largest && fabs(v[1]) < largest)) return "is too large to compute with";
        if (same(v, at(vertices, count, i + 1))) return "has the same vertex twice in a row";
    }
    if (is_flat(vertices, count)) return "has all vertices on a line";

    for (uint32_t i = 0; i < count; i++) {
        const double *a = at(vertices, count, i), *b = at(vertices, count, i + 1);
        if (folds_back(a, b, at(vertices, count, i + 2))) return "folds back on itself";
        // The edges next to this one share a vertex with it; the last is next to the first.
        uint32_t end = i == 0 ? count - 1 : count;
        for (uint32_t j = i + 2; j < end; j++) {
            if (segments_meet(a, b, at(vertices, count, j), at(vertices, count, j + 1))) {
                return "crosses or touches itself";
            }
        }
    }
    return NULL;
}

void nsi_outline_orient(double* vertices, uint32_t count) {
    bool clockwise = doubled_area(vertices, count) < 0.0;
    for (uint32_t i = 0, j = count - 1; clockwise && i < j; i++, j--) {
        for (uint32_t k = 0; k < 2; k++) {
            double swapped = vertices[3 * i + k];
            vertices[3 * i + k] = vertices[3 * j + k];
            vertices[3 * j + k] = swapped;
        }
    }
    for (uint32_t i = 0; i < count; i++) vertices[3 * i + 2] = 0.0;
}
