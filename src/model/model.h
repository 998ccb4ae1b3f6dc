// The inside of a model. One block of memory; everything in it is found by number.

#ifndef NSI_MODEL_H
#define NSI_MODEL_H

#include "base/base.h"
#include "neuralsim/model.h"

// Parameters of a link and its joint, in registry order, from nsi_link.param on.
enum {
    NSI_LINK_MASS,
    NSI_LINK_COM,            // x y z
    NSI_LINK_INERTIA = 4,    // xx yy zz xy xz yz
    NSI_JOINT_ORIGIN = 10,   // x y z
    NSI_JOINT_ROTATION = 13, // rx ry rz
    NSI_JOINT_AXIS = 16,     // x y z
    NSI_JOINT_STIFFNESS = 19,
    NSI_JOINT_REST,
    NSI_JOINT_DAMPING,
    NSI_JOINT_FRICTION,
    NSI_JOINT_FRICTION_VELOCITY,
    NSI_JOINT_ARMATURE,
    NSI_JOINT_LOWER,
    NSI_JOINT_UPPER,
    NSI_JOINT_LIMIT_STIFFNESS,
    NSI_JOINT_LIMIT_DAMPING,
    NSI_LINK_PARAMS
};

// Parameters of an actuator, from nsi_actuator.param on.
enum { NSI_ACTUATOR_GEAR, NSI_ACTUATOR_KP, NSI_ACTUATOR_KD, NSI_ACTUATOR_PARAMS };

typedef struct nsi_link {
    ns_link_def def; // strings in the model's block
    uint32_t parent; // NSI_NONE: the world; always smaller than the link's own number
    uint32_t q, v;   // first coordinate and velocity; of the followed joint for a mimic joint
    uint32_t nq, nv; // how many; 0 for fixed and mimic joints
    uint32_t mimic;  // link whose joint is followed, or NSI_NONE
    uint32_t param;  // first parameter
} nsi_link;

typedef struct nsi_actuator {
    ns_actuator_def def;
    uint32_t link;  // whose joint it drives
    uint32_t param; // first parameter
} nsi_actuator;

typedef struct nsi_geom {
    ns_geom_def def;
    uint32_t link; // NSI_NONE: the world
} nsi_geom;

struct ns_model {
    ns_allocator allocator;
    const char* name;
    ns_world_def world;
    ns_model_sizes sizes;
    uint32_t gravity_param; // world/gravity/x; y and z follow
    const nsi_link* links;
    const nsi_geom* geoms;
    const nsi_actuator* actuators;
    const ns_param* params;
    const char* const* ignored;
    bool has_mimic;
    const uint32_t* param_table; // numbers of parameters by hash of their names; NSI_NONE is empty
    uint32_t param_table_size;   // a power of two, or 0
};

// Longest name of a link, joint, geometry or actuator, in bytes: a parameter's name must fit a
// graph's with room for prefixes.
enum { NSI_MODEL_MAX_NAME = 200 };

// ---- builder.c -----------------------------------------------------------------------------

// ns_model_builder_finish() that also tells which link is at fault, or NSI_NONE.
ns_status nsi_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                   uint32_t* bad_link, ns_error* error);

// Is the name taken? For loaders that make names up.
bool nsi_model_builder_has_link(const ns_model_builder* builder, const char* name);
bool nsi_model_builder_has_joint(const ns_model_builder* builder, const char* name);
bool nsi_model_builder_has_geom(const ns_model_builder* builder, const char* name);

// Is there a joint of this name, and is it one that does not turn or slide?
bool nsi_model_builder_joint_has_no_axis(const ns_model_builder* builder, const char* name);

// ---- params.c ------------------------------------------------------------------------------

// Fill in parameter k of a link and its joint, of an actuator, or of gravity; the name is written
// to `name` and not to the parameter.
enum { NSI_PARAM_NAME_SIZE = NSI_MODEL_MAX_NAME + 64 };
ns_param nsi_link_param(const nsi_link* link, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_actuator_param(const nsi_actuator* actuator, uint32_t k,
                            char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_gravity_param(const ns_world_def* world, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);

// ---- inertia.c -----------------------------------------------------------------------------
// Inertias are xx yy zz xy xz yz.

// NULL when a rigid body of this mass can have this inertia about its centre of mass; otherwise
// what is wrong, as the end of a sentence that starts with "the inertia".
const char* nsi_inertia_fault(double mass, const double inertia[6]);

// Replace an unphysical inertia by the nearest physical one: no principal moment gets smaller,
// except that without mass there is no inertia.
void nsi_inertia_repair(double mass, double inertia[6]);

// Eigenvalues, ascending, and eigenvectors (columns of `vectors`, row-major) of a symmetric matrix.
void nsi_inertia_eigen(const double inertia[6], double values[3], double vectors[9]);

// R I R': from the axes of a frame with this orientation to the outer axes.
void nsi_inertia_rotate(const double quaternion[4], const double inertia[6], double out[6]);

// Add the inertia of a point mass at `offset` (parallel axis theorem).
void nsi_inertia_shift(double mass, const double offset[3], double inertia[6]);

// ---- mobility.c ----------------------------------------------------------------------------

// Can every joint be accelerated by a finite force? Names the first that cannot. `resistance` (nlink)
// receives the inertia that resists each joint (of its last velocity), 0 for fixed ones.
// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_NOMEM
ns_status nsi_model_check_mobility(const ns_model* model, double* resistance, uint32_t* bad_link,
                                   ns_error* error);

#endif
