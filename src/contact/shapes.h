// Where two shapes touch, as expressions. Each pair of shapes has a fixed number of slots, one per
// point at which it can touch; a slot whose point is not there now says so.

#ifndef NSI_SHAPES_H
#define NSI_SHAPES_H

#include "neuralsim/model.h"
#include "neuralsim/vec.h"

typedef struct nsi_shape {
    ns_geom_type type;
    mat3 R; // shape to world
    vec3 position;
    ns_expr size[3]; // as in ns_geom_def
    uint32_t nvertex;
    const double* vertices;  // (nvertex x 3)
    uint32_t nrow, ncol;     // of a height field
    const double* elevation; // (nrow x ncol)
    // The shape where it was when faces, edges and corners were chosen that its points belong to, so
    // that a slot is the same point while shapes move; NULL: they are chosen here.
    const struct nsi_shape* chosen;
} nsi_shape;

static inline const nsi_shape* nsi_chosen_shape(const nsi_shape* s) {
    return s->chosen ? s->chosen : s;
}

typedef struct nsi_contact_point {
    vec3 position;  // in the world, half way between the two surfaces
    vec3 normal;    // unit, in the world, from b to a
    ns_expr gap;    // distance along the normal; negative: penetration
    ns_expr exists; // 1, or 0 when the slot has no point now
} nsi_contact_point;

// Number of slots of a pair of shapes; 0 when such a pair is not handled.
uint32_t nsi_contact_slots(ns_geom_type a, uint32_t nvertex_a, ns_geom_type b, uint32_t nvertex_b);

// The points, one per slot. Memory is not needed; a pair that is not handled writes nothing.
void nsi_contact_points(const nsi_shape* a, const nsi_shape* b, nsi_contact_point* out);

#endif
