// Random robots: trees of links with every joint type, any axes and frames, physical inertias, and
// on demand all that joints can do. A tree is a list of definitions that a test may change before
// it is built.
//
//     random_tree tree;
//     random_tree_make(&tree, &(random_tree_options){.nlink = 8, .seed = 1, .forces = true});
//     ns_model* model = random_tree_build(&tree, NULL);
//     random_state(model, &rng, q, qd);

#ifndef TEST_RANDOMTREE_H
#define TEST_RANDOMTREE_H

#include "base/common.h"
#include "neuralsim/model.h"

enum { RANDOM_TREE_LINKS = 128 };

typedef enum random_root { ROOT_ANY, ROOT_FLOATING, ROOT_WORLD } random_root;

typedef struct random_tree_options {
    uint64_t seed;
    uint32_t nlink;   // links, welded ones included; at most RANDOM_TREE_LINKS
    random_root root; // ROOT_ANY: floating in one of three trees
    bool one_root;    // the world carries only link 0; otherwise sometimes others too
    bool no_welds;    // no fixed joints, no massless links
    bool springs;     // on some joints, as with the following
    bool forces;      // springs, dampers, friction, limits
    bool armature;
    bool mimic;
    bool actuators; // of all four types
} random_tree_options;

// Names are static: "l0", "l1"... for links, "l0_joint"... for joints, "l0_motor"... for actuators.
typedef struct random_tree {
    ns_world_def world;
    uint32_t nlink, nactuator;
    ns_link_def link[RANDOM_TREE_LINKS];
    ns_actuator_def actuator[RANDOM_TREE_LINKS];
} random_tree;

void random_tree_make(random_tree* tree, const random_tree_options* options);

// NULL when the builder refuses it (a test fails through cmocka only in random_tree_build).
ns_model* random_tree_try(const random_tree* tree, const ns_allocator* allocator, ns_error* error);
ns_model* random_tree_build(const random_tree* tree, const ns_allocator* allocator);

// Number of the link called `name`; UINT32_MAX for the world.
uint32_t random_tree_find(const random_tree* tree, const char* name);

// Coordinates within a turn or half a metre, velocities up to 2 rad/s or m/s.
void random_state(const ns_model* model, ns_rng* rng, double* q, double* qd);

void random_quaternion(ns_rng* rng, double q[4]);
void random_unit(ns_rng* rng, double v[3]);

// q (+) dq: coordinates after moving by dq (nv), in the sense of the velocities: quaternions are
// multiplied by the exponential of a rotation vector in the link's frame. `out` may be `q`.
void move_coordinates(const ns_model* model, const double* q, const double* dq, double* out);

#endif
