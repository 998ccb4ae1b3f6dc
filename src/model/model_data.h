// The inside of a model. One block of memory; everything in it is found by number.

#ifndef NSI_MODEL_DATA_H
#define NSI_MODEL_DATA_H

#include "base/common.h"
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

// Parameters of an actuator. Those up to NSI_ACTUATOR_GAINS are there for every actuator, from
// nsi_actuator.param on; the others only where its law, dynamics and limits have them.
enum {
    NSI_ACTUATOR_GEAR,
    NSI_ACTUATOR_KP,
    NSI_ACTUATOR_KD,
    NSI_ACTUATOR_GAINS,
    NSI_ACTUATOR_TIME_CONSTANT = NSI_ACTUATOR_GAINS,
    NSI_ACTUATOR_GAIN,     // 0 1 2
    NSI_ACTUATOR_BIAS = 7, // 0 1 2
    NSI_ACTUATOR_CONTROL_LOWER = 10,
    NSI_ACTUATOR_CONTROL_UPPER,
    NSI_ACTUATOR_FORCE_LOWER,
    NSI_ACTUATOR_FORCE_UPPER,
    NSI_ACTUATOR_ACTIVATION_LOWER,
    NSI_ACTUATOR_ACTIVATION_UPPER,
    NSI_ACTUATOR_PEAK_FORCE,
    NSI_ACTUATOR_DEACTIVATION_TIME,
    NSI_ACTUATOR_PARAMS
};

// Parameters of the medium, from ns_model.medium_param on.
enum { NSI_MEDIUM_DENSITY, NSI_MEDIUM_VISCOSITY, NSI_MEDIUM_WIND, NSI_MEDIUM_PARAMS = 5 };

// Parameters of a tendon, from nsi_tendon.param on.
enum {
    NSI_TENDON_STIFFNESS,
    NSI_TENDON_DAMPING,
    NSI_TENDON_REST,
    NSI_TENDON_SLACK,
    NSI_TENDON_FRICTION,
    NSI_TENDON_FRICTION_VELOCITY,
    NSI_TENDON_LOWER,
    NSI_TENDON_UPPER,
    NSI_TENDON_LIMIT_STIFFNESS,
    NSI_TENDON_LIMIT_DAMPING,
    NSI_TENDON_PARAMS
};

// Parameters of a geometry that is in a pair, from nsi_geom.param on; as many sizes as its type has.
enum { NSI_GEOM_ORIGIN, NSI_GEOM_ROTATION = 3, NSI_GEOM_SIZE = 6 };

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
    uint32_t link;                     // whose joint it drives, or NSI_NONE
    uint32_t tendon, site, ref_site;   // or NSI_NONE
    uint32_t param;                    // first parameter
    uint8_t slot[NSI_ACTUATOR_PARAMS]; // of each parameter after the first; NSI_NO_SLOT: not there
} nsi_actuator;

enum { NSI_NO_SLOT = 0xff };

// The state that an actuator has: the word its name begins with, "motor" or "act"; NULL for none.
const char* nsi_actuator_state(const ns_actuator_def* def);

typedef struct nsi_model_site {
    ns_site_def def;
    uint32_t link; // NSI_NONE: the world
} nsi_model_site;

typedef struct nsi_tendon_part {
    uint32_t link, site; // whose joint, or a site
    double factor;
    uint32_t geom, side; // what it wraps around, and a site; all but `side` NSI_NONE: a pulley
} nsi_tendon_part;

typedef struct nsi_tendon {
    ns_tendon_def def;            // parts with strings in the model's block
    const nsi_tendon_part* parts; // (npart)
    uint32_t param;               // first parameter
} nsi_tendon;

typedef struct nsi_sensor {
    ns_sensor_def def;
    uint32_t
        object; // number of the link (of its joint), actuator, tendon or site; NSI_NONE: the world
    uint32_t reference; // number of the site or link that it is relative to; NSI_NONE: the world
} nsi_sensor;

typedef struct nsi_geom {
    ns_geom_def def;
    uint32_t link;  // NSI_NONE: the world
    uint32_t param; // first parameter, or NSI_NONE when it is in no pair
} nsi_geom;

typedef struct nsi_contact {
    ns_contact_def def;
    uint32_t a, b;    // geometries
    uint32_t param;   // first parameter; they are those of contact/law.h
    uint64_t follows; // bit per parameter: automatic, and equal to another one (ns_contact_param)
} nsi_contact;

// Parameters of an equality constraint, from nsi_equality_constraint.param on: of links, and of joints.
enum { NSI_EQUALITY_ANCHOR_A, NSI_EQUALITY_ANCHOR_B = 3, NSI_EQUALITY_ROTATION = 6 };
enum { NSI_EQUALITY_COEFFICIENT, NSI_EQUALITY_COEFFICIENTS = 5 };

typedef struct nsi_equality_constraint {
    ns_equality_def def;
    uint32_t a, b;  // links, or those whose joints these are; NSI_NONE: the world, or no joint
    uint32_t param; // first parameter
} nsi_equality_constraint;

typedef struct nsi_keyframe {
    ns_keyframe_def def;
    uint32_t nq, nv, nu; // sizes of the model when it was given
} nsi_keyframe;

// Two links whose geometries do not touch; NSI_NONE is the world.
typedef struct nsi_exclusion {
    uint32_t a, b;
} nsi_exclusion;

struct ns_model {
    ns_allocator allocator;
    const char* name;
    const char* folder; // of its file, ending with '/' or empty; NULL: it is from none
    ns_world_def world;
    ns_model_sizes sizes;
    uint32_t gravity_param;  // world/gravity/x; y and z follow
    uint32_t medium_param;   // first of the medium; NSI_NONE: there is none
    uint32_t ncontact_param; // parameters of a pair
    const nsi_link* links;
    const nsi_geom* geoms;
    const nsi_actuator* actuators;
    const nsi_model_site* sites;
    const nsi_tendon* tendons;
    const nsi_sensor* sensors;
    const ns_tendon_part* tendon_parts;      // of all tendons
    const nsi_tendon_part* tendon_part_data; // the same
    uint32_t ntendon_part;
    const nsi_contact* contacts;
    const nsi_equality_constraint* equalities;
    const ns_param* params;
    const char* const* ignored;
    const nsi_keyframe* keyframes;
    const double* keyframe_numbers; // q, qd and controls of each
    const double* vertices;         // (nvertex x 3), of all geometries
    const double* elevations;       // of all height fields
    uint32_t nvertex, nelevation, nkeyframe_number;
    bool has_mimic;
    const uint32_t* param_table; // numbers of parameters by hash of their names; NSI_NONE is empty
    uint32_t param_table_size;   // a power of two, or 0
};

// Longest name of a link, joint, geometry or actuator, in bytes: a parameter's name must fit a
// graph's with room for prefixes. The name of a pair may be made of two.
enum { NSI_MODEL_MAX_NAME = 200, NSI_PAIR_MAX_NAME = 2 * NSI_MODEL_MAX_NAME + 1 };

// ---- finish.c ------------------------------------------------------------------------------

// ns_model_builder_finish() that also tells which link is at fault, or NSI_NONE.
ns_status nsi_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                   uint32_t* bad_link, ns_error* error);

// ---- builder.c -----------------------------------------------------------------------------

// The folder from which mesh files are named, as the model keeps it.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_model_builder_set_folder(ns_model_builder* builder, const char* folder,
                                       ns_error* error);

// Coordinates, velocities and actuators so far.
void nsi_model_builder_get_sizes(const ns_model_builder* builder, uint32_t* nq, uint32_t* nv,
                                 uint32_t* nu);

// The site of this name; NULL when there is none.
const ns_site_def* nsi_model_builder_site(const ns_model_builder* builder, const char* name);

// An actuator that has been added, by number.
const ns_actuator_def* nsi_model_builder_actuator(const ns_model_builder* builder, uint32_t number);

// Links that are joined to each other do not touch, except in pairs given by hand.
void nsi_model_builder_forbid_self_collision(ns_model_builder* builder);

// Is the name taken? For loaders that make names up.
bool nsi_model_builder_has_link(const ns_model_builder* builder, const char* name);
bool nsi_model_builder_has_joint(const ns_model_builder* builder, const char* name);
bool nsi_model_builder_has_actuator(const ns_model_builder* builder, const char* name);
bool nsi_model_builder_has_tendon(const ns_model_builder* builder, const char* name);
bool nsi_model_builder_has_geom(const ns_model_builder* builder, const char* name);

// The type of a geometry that is there.
ns_geom_type nsi_model_builder_geom_type(const ns_model_builder* builder, const char* name);

// Is there a joint of this name, and is it one that does not turn or slide?
bool nsi_model_builder_joint_has_no_axis(const ns_model_builder* builder, const char* name);

// The joint of this name, with the link it carries; NULL when there is none.
const ns_link_def* nsi_model_builder_joint(const ns_model_builder* builder, const char* name);

// Scale the masses and inertias of all links so that the sum of the masses is this; without mass,
// nothing happens.
void nsi_model_builder_set_total_mass(ns_model_builder* builder, double mass);

// Is there a plane in contact that does not move?
bool nsi_model_builder_has_ground(const ns_model_builder* builder);

// Can these two be a pair? NULL, or why not, as the end of a sentence that starts with "the pair".
// Both must be names of geometries.
const char* nsi_model_builder_pair_fault(const ns_model_builder* builder, const char* a,
                                         const char* b);

// ---- builder_equality.c ----------------------------------------------------------------------

// Can this constraint be added? NULL, or why not, as the end of a sentence that starts with "it".
// Its links or joints must be in the model.
const char* nsi_model_builder_equality_fault(const ns_model_builder* builder,
                                             const ns_equality_def* def);

// ---- outline.c -----------------------------------------------------------------------------

// Is the polygon (count x 3, in the x-y plane) simple? NULL, or what is wrong, as the end of a
// sentence that starts with "the outline".
const char* nsi_outline_fault(const double* vertices, uint32_t count);

// Make it counter-clockwise, and z zero.
void nsi_outline_orient(double* vertices, uint32_t count);

// ---- access.c ------------------------------------------------------------------------------

// Default coordinates without keyframes, and unit quaternions, as the functions of models.
void nsi_links_default_q(const nsi_link* links, uint32_t count, double* q);
double nsi_links_normalize_q(const nsi_link* links, uint32_t count, double* q);

// ---- pairs.c -------------------------------------------------------------------------------

// Is this pair of shapes handled? In either order.
bool nsi_geoms_can_touch(const ns_geom_def* a, const ns_geom_def* b);

// The link that moves a link: itself, or the one it is welded to; NSI_NONE when that is the world.
uint32_t nsi_link_body(const nsi_link* links, uint32_t link);

// What pairs are made of.
typedef struct nsi_pair_source {
    const nsi_link* links;
    const nsi_geom* geoms;
    const nsi_contact* given; // by hand
    const nsi_exclusion* exclusions;
    uint32_t nlink, ngeom, ngiven, nexclusion;
    double timestep; // s
    bool apart;      // links of one tree do not touch
} nsi_pair_source;

typedef struct nsi_pairs {
    NSI_ARRAY(nsi_contact) contacts; // all numbers chosen
    bool* in_pair;                   // (ngeom)
    NSI_ARRAY(const char*) notes;    // on pairs that are not simulated
    nsi_arena strings;               // names and notes
} nsi_pairs;

enum { NSI_MAX_PAIRS = 1 << 14 };
enum { NSI_MAX_VERTICES = 4096 };      // of one geometry
enum { NSI_MAX_HULL_VERTICES = 128 };  // of a mesh that touches more than planes
enum { NSI_MAX_ELEVATIONS = 1 << 14 }; // of one height field

// Pairs given by hand in their order, then those that follow from groups in the order of their later
// geometries, then earlier ones. `out` must be freed in any case.
// @return NS_OK, NS_ERR_ARGUMENT (two names are the same), NS_ERR_LIMIT, NS_ERR_NOMEM
ns_status nsi_pairs_make(const nsi_pair_source* source, const ns_allocator* allocator,
                         nsi_pairs* out, ns_error* error);
void nsi_pairs_free(nsi_pairs* pairs);

// ---- params.c ------------------------------------------------------------------------------

// Fill in parameter k of a link and its joint, of an actuator, of gravity, of a geometry, of a pair or
// of an equality constraint; the name is written to `name` and not to the parameter.
enum { NSI_PARAM_NAME_SIZE = NSI_PAIR_MAX_NAME + 64 };
ns_param nsi_link_param(const nsi_link* link, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_actuator_param(const nsi_actuator* actuator, uint32_t k,
                            char name[NSI_PARAM_NAME_SIZE]);

// Does an actuator have parameter k?
bool nsi_actuator_has_param(const ns_actuator_def* def, uint32_t k);
ns_param nsi_medium_param(const ns_world_def* world, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_tendon_param(const nsi_tendon* tendon, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_gravity_param(const ns_world_def* world, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_geom_param(const nsi_geom* geom, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_contact_param(const nsi_contact* contact, uint32_t k, char name[NSI_PARAM_NAME_SIZE]);
ns_param nsi_equality_param(const nsi_equality_constraint* equality, uint32_t k,
                            char name[NSI_PARAM_NAME_SIZE]);

// How many parameters a geometry in a pair has.
uint32_t nsi_geom_param_count(const ns_geom_def* geom);

// How many parameters an equality constraint has.
uint32_t nsi_equality_param_count(ns_equality_type type);

// ---- tendon_rest.c -------------------------------------------------------------------------

// The length of a tendon where the joints are at their rest, or at their reference, and how much of its force
// each velocity of the model feels there, `moment` (nv).
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_tendon_at_rest(const ns_model* model, const nsi_tendon* tendon, double* length,
                             double* moment, ns_error* error);
ns_status nsi_tendon_at_reference(const ns_model* model, const nsi_tendon* tendon, double* length,
                                  double* moment, ns_error* error);

// ---- units.c -------------------------------------------------------------------------------

// Does velocity k of a joint slide (m/s)? Otherwise it turns (rad/s).
bool nsi_joint_slides(const nsi_link* link, uint32_t k);

// Units of coordinate k of a joint ("" of a quaternion), of velocity k and of the force along it.
const char* nsi_joint_position_unit(const nsi_link* link, uint32_t k);
const char* nsi_joint_velocity_unit(const nsi_link* link, uint32_t k);
const char* nsi_joint_force_unit(const nsi_link* link, uint32_t k);

// The same by numbers of the model: velocity v, component k of the state (q, qd; "" beyond them), the
// force along velocity v.
bool nsi_velocity_slides(const ns_model* model, uint32_t v);
const char* nsi_state_unit(const ns_model* model, uint32_t k);
const char* nsi_force_unit(const ns_model* model, uint32_t v);

// ---- inertia.c -----------------------------------------------------------------------------
// Inertias are xx yy zz xy xz yz.

// NULL when a rigid body of this mass can have this inertia about its centre of mass; otherwise
// what is wrong, as the end of a sentence that starts with "the inertia".
const char* nsi_inertia_fault(double mass, const double inertia[6]);

// Replace an unphysical inertia by the nearest physical one: no principal moment gets smaller,
// except that without mass there is no inertia.
void nsi_inertia_repair(double mass, double inertia[6]);

// Move the movable entries to the nearest values with which a body of this mass can have the inertia.
// @return false when there are none; `inertia` then has no meaning
bool nsi_inertia_complete(double mass, double inertia[6], const bool movable[6]);

// Eigenvalues, ascending, and eigenvectors (columns of `vectors`, row-major) of a symmetric matrix.
void nsi_inertia_eigen(const double inertia[6], double values[3], double vectors[9]);

// R I R': from the axes of a frame with this orientation to the outer axes.
void nsi_inertia_rotate(const double quaternion[4], const double inertia[6], double out[6]);

// Add the inertia of a point mass at `offset` (parallel axis theorem).
void nsi_inertia_shift(double mass, const double offset[3], double inertia[6]);

// ---- mobility.c ----------------------------------------------------------------------------

// The diagonal of the mass matrix at coordinates zero, `diagonal` (nv), of joints without followers.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_model_joint_inertia(const ns_model* model, double* diagonal, ns_error* error);

// Accelerations M^-1 force (nv) at the reference coordinates of all joints, without velocities and gravity.
// Those of floating joints are angular ones first, all in the link's frame, as the moments of tendons.
// @return NS_OK, NS_ERR_NOMEM
ns_status nsi_model_accelerate(const ns_model* model, const double* force, double* acceleration,
                               ns_error* error);

// Can every joint be accelerated by a finite force? Names the first that cannot. `resistance` (nlink)
// receives the inertia that a force of each joint feels, 1 / (M^-1)_kk at an arbitrary position, the
// smallest of its velocities; 0 for fixed joints.
// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_NOMEM
ns_status nsi_model_check_mobility(const ns_model* model, double* resistance, uint32_t* bad_link,
                                   ns_error* error);

#endif
