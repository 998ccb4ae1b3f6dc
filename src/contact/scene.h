// Rigid contact of many bodies, found at run time. The contacts of a small model are traced one by
// one into the step (rigid.c), which gives each of them names and networks; that takes time and memory
// for every pair that could touch. Here pairs are found when the step runs, and only those that are
// near cost anything. Laws and equations are the same.
//
// A step has two blocks, between which the graph computes poses, twists and masses at the impact:
//
//     scene_detect   boxes around the shapes, the points of pairs that are near, classes of contacts
//                      (contact_classes.h), impacts of islands: a list of contacts that act
//     scene_respond  rows of these contacts at the impact, and the step (contact_step.h) of each island
//
// Points of a pair are programs, traced once for each kind of pair (scene_functions.c), with their
// derivatives. A kernel does lanes one after the other.

#ifndef NSI_SCENE_H
#define NSI_SCENE_H

#include "contact/contact_stages.h"
#include "expr/block.h"
#include "neuralsim/program.h"

enum {
    NSI_SCENE_POSE = 15,             // numbers of a geometry: rotation (row-major), position, size
    NSI_SCENE_MOTION = 12,           // of a body: twist about the world's origin, acceleration
    NSI_SCENE_CONTACT = 6,           // of a contact in the list
    NSI_SCENE_KEPT = 23,             // numbers of a contact that derivatives of the response read
    NSI_SCENE_PARAMS = 5,            // of a pair: mu, cfm, restitution, beta, max_push
    NSI_SCENE_MAX_POINTS = 1 << 10,  // of a pair
    NSI_SCENE_MAX_CONTACTS = 1 << 11 // in the list
};

// A contact in the list. `id` is pair * NSI_SCENE_MAX_POINTS + point, or -1; `kind` a sum of
// NSI_CONTACT_RESTS, HIT, CLOSED, FOLLOWS and NSI_SCENE_LATE.
typedef enum nsi_scene_field {
    NSI_SCENE_ID,
    NSI_SCENE_KIND,
    NSI_SCENE_PHI,
    NSI_SCENE_VN,
    NSI_SCENE_A,
    NSI_SCENE_TIME
} nsi_scene_field;
enum { NSI_SCENE_LATE = 32 };

// Value, tangents and adjoints of a traced function. Tangents read the inputs, then their directions;
// adjoints the inputs, then the adjoints of the smooth outputs, which come first.
typedef struct nsi_scene_function {
    ns_program *value, *tangent, *adjoint;
    uint32_t ninput, noutput, nsmooth;
} nsi_scene_function;

// Pairs of the same shapes.
typedef struct nsi_scene_kind {
    nsi_shape like[2]; // without pose and size
    uint32_t npoint;
    nsi_scene_function
        start; // per point phi, vn, a, time; then per point rests, passes, late, nears
    nsi_scene_function rows; // per point three directions as wrenches about the origin (3 x 6)
} nsi_scene_kind;

typedef struct nsi_scene_geom {
    ns_geom_type type;
    uint32_t body;   // NSI_NONE: the world
    double reach[3]; // half lengths of a box around its vertices
} nsi_scene_geom;

typedef struct nsi_scene_body {
    uint32_t link, parent; // of the model; among the bodies, or NSI_NONE
    uint32_t tree;
    uint32_t first_axis, naxis;
} nsi_scene_body;

typedef struct nsi_scene_pair {
    uint32_t pair; // of the model
    uint32_t a, b; // among the geometries here
    uint32_t kind;
} nsi_scene_pair;

// Trees of bodies that move together, with their velocities.
typedef struct nsi_scene_tree {
    uint32_t first, nv; // into `dofs`; the factor of its mass matrix has nv (nv + 1) / 2 numbers
    uint32_t factor;    // where they begin
    bool dense;         // all velocities of the tree respond to all
} nsi_scene_tree;

typedef struct nsi_scene {
    nsi_block_data shared;
    ns_allocator memory;
    nsi_arena arena;
    double dt;
    uint32_t friction;
    uint32_t ngeom, nbody, naxis, ntree, npair, nkind, nv, nfactor, ncontact;
    nsi_scene_geom* geoms;
    uint32_t* geom_number; // (ngeom) in the model
    nsi_scene_body* bodies;
    uint32_t* axis_v; // (naxis) the velocity of each axis
    nsi_scene_tree* trees;
    uint32_t* dofs;                 // (nv) velocities by tree, ascending
    uint32_t *dof_tree, *dof_local; // (nv) of each velocity
    nsi_scene_pair* pairs;
    nsi_scene_kind* kinds;
    nsi_scene_function terms;           // of a contact: contact_classes.h
    uint32_t most_inputs, most_outputs; // of all functions
    size_t work;                        // doubles, of all programs
    uint32_t chain;                     // most velocities of a contact
} nsi_scene;

// ---- sizes of the blocks' parts --------------------------------------------------------------

static inline uint32_t nsi_scene_detect_inputs(const nsi_scene* s) {
    return NSI_SCENE_POSE * s->ngeom + NSI_SCENE_MOTION * s->nbody + 1 + s->npair;
}
// Shares of the trees and which contacts they are from, the list, the deepest overlap, 1 if contacts are
// missing from the list.
static inline uint32_t nsi_scene_detect_outputs(const nsi_scene* s) {
    return 2 * s->ntree + NSI_SCENE_CONTACT * s->ncontact + 2;
}
static inline uint32_t nsi_scene_respond_inputs(const nsi_scene* s) {
    return 2 * NSI_SCENE_POSE * s->ngeom + 6 * s->naxis + s->nfactor + 2 * s->nv + s->ntree +
           NSI_SCENE_CONTACT * s->ncontact + NSI_SCENE_PARAMS * s->npair + 1;
}
// Changes of velocities and of coordinates (before the masses have acted in full), what contacts keep,
// residual, relaxation, sweeps, solves.
static inline uint32_t nsi_scene_respond_outputs(const nsi_scene* s) {
    return 2 * s->nv + NSI_SCENE_KEPT * s->ncontact + 4;
}

// ---- scene.c -----------------------------------------------------------------------------------

// Are contacts of this law found at run time?
bool nsi_scene_is_wanted(const nsi_robot* robot, const nsi_contact_options* options, int law);

// Has the graph of a step contacts that are found at run time? They have no quantities of their own.
bool nsi_scene_is_part_of(const ns_graph* graph);

// As nsi_contact_law.impulses.
void nsi_scene_impulses(const nsi_robot* robot, const nsi_contact_options* options, int law,
                        double dt, const ns_expr* qdd, const ns_expr* added, nsi_impact* impact);

// ---- scene_functions.c ------------------------------------------------------------------------

ns_status nsi_scene_trace_kind(nsi_scene* scene, nsi_scene_kind* kind, ns_error* error);
ns_status nsi_scene_trace_terms(nsi_scene* scene, ns_error* error);
void nsi_scene_function_free(nsi_scene_function* f);

typedef enum nsi_term { // inputs of the terms; outputs are those of nsi_contact_terms
    NSI_TERM_PHI,
    NSI_TERM_VN,
    NSI_TERM_A,
    NSI_TERM_SHARE,
    NSI_TERM_BETA,
    NSI_TERM_MAX_PUSH,
    NSI_TERM_HIT,
    NSI_TERM_LATE,
    NSI_TERM_INPUTS,
    NSI_TERM_OUTPUTS = 5
} nsi_term;

// ---- scene_detect.c, scene_respond.c ------------------------------------------------------------

extern const nsi_block_kind nsi_scene_detect, nsi_scene_detect_tangent, nsi_scene_detect_adjoint;
extern const nsi_block_kind nsi_scene_respond, nsi_scene_respond_tangent, nsi_scene_respond_adjoint;

// Doubles of scratch that the kernels need.
size_t nsi_scene_detect_scratch(const nsi_scene* scene);
size_t nsi_scene_respond_scratch(const nsi_scene* scene);

#endif
