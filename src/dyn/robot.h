// A robot being traced: parameters as expressions, links welded together into moving bodies, joint
// transforms, velocities, joint forces. The algorithms of this folder (kinematics, RNEA, CRBA, ABA)
// read it; each computes what it needs from here.
//
// Bodies. A link on a fixed joint does not move by itself: its inertia is added to the body it is
// welded to, which costs nothing at run time. A body has the number of its moving link; NSI_NONE is
// the world.

#ifndef NSI_ROBOT_H
#define NSI_ROBOT_H

#include "dyn/joint.h"
#include "model/model_data.h"

enum { NSI_MAX_DOF = 6 };

struct nsi_body {
    const nsi_joint* joint;    // its type
    uint32_t parent;           // body that carries it, or NSI_NONE
    transform x;               // from the parent body's frame to this one's
    inertia inertia;           // of the link and all that is welded to it, in this frame
    uint32_t nv;               // 0 for a link that is welded, 1, 3 or 6
    motion s[NSI_MAX_DOF];     // motion subspace in this frame: twist per unit of internal velocity
    ns_expr rate[NSI_MAX_DOF]; // internal velocities: as qd, but a floating joint's velocity is in
                               // the body's frame, angular part first
    motion velocity;           // twist in this frame
    ns_expr ratio;             // rate per velocity of the model: 1, or a mimic joint's multiplier
    mat3 joint_R;              // link to joint frame; of a floating joint the world's
};

// A welded or moving link in its body: x = position + R x_link.
typedef struct nsi_placement {
    uint32_t body; // or NSI_NONE
    mat3 R;
    vec3 position;
} nsi_placement;

// What networks do to the pose of a link, as contact sees it: its geometries move, the joints do not.
typedef struct nsi_pose_change {
    bool moved, turned;
    vec3 displacement; // in the world
    mat3 turn;         // before the link's own orientation
} nsi_pose_change;

// How forces between two bodies resist a change of their relative twist, in the world's axes about its
// origin. NSI_NONE is the world.
typedef struct nsi_contact_coupling {
    uint32_t body_a, body_b;
    art_inertia B; // force per acceleration: dt times the slope
} nsi_contact_coupling;

// How the forces of contact resist changes of the velocities over a step: matrices that add to the
// mass matrix. Either by body, or as a list.
typedef struct nsi_contact_resistance {
    ns_expr any;       // 0: nothing touches, all of it is zero
    art_inertia* body; // (nlink) against the world, in the body's frame; NULL: the list
    nsi_contact_coupling* coupling; // the list
    uint32_t ncoupling;
} nsi_contact_resistance;

typedef struct nsi_equality nsi_equality;

struct nsi_robot {
    const ns_model* model;
    ns_graph* graph;
    const ns_expr* q;      // (nq)
    const ns_expr* qd;     // (nv)
    const ns_expr* param;  // (nparam)
    nsi_body* body;        // (nlink); nv = 0 and unused for welded links
    nsi_placement* place;  // (nlink)
    const force* external; // (nlink) forces on bodies in their frames, or NULL; set by the caller

    // What networks change beyond parameters; NULL for nothing. Set by the caller.
    const nsi_pose_change* pose_change; // (nlink)
    const ns_expr* mass_change;         // (nv x nv) added to the mass matrix, symmetric

    const nsi_contact_resistance* resistance; // of contact forces, or NULL; set by the caller
    const ns_expr* coupling; // (nv x nv) added to the mass matrix off the diagonal, or NULL
    double spin_step; // s: gyroscopic torques are those over such a step; 0: at the start of it
};

// Names and expressions of all this at state q, qd. `param` has one expression per parameter of the
// model: a constant, or an input for those that are free. Arrays must outlive the robot; memory is
// taken from the traced graph's arena. False when out of memory (the trace fails).
bool nsi_robot_init(nsi_robot* robot, const ns_model* model, const ns_expr* param, const ns_expr* q,
                    const ns_expr* qd);

// The same robot at another state, with the changes of networks; without forces from outside.
bool nsi_robot_move(const nsi_robot* robot, const ns_expr* q, const ns_expr* qd, nsi_robot* moved);

static inline ns_expr nsi_robot_param(const nsi_robot* robot, uint32_t link, uint32_t which) {
    return robot->param[robot->model->links[link].param + which];
}

vec3 nsi_robot_gravity(const nsi_robot* robot);

// Coordinate of a joint with an axis; a mimic joint's follows from that of another.
ns_expr nsi_joint_coordinate(const ns_model* model, uint32_t link, const ns_expr* q);

// Coordinates of a joint before its quaternion, or all when it has none.
static inline uint32_t nsi_plain_coordinates(const nsi_link* l) {
    return l->nq == 0 ? 0 : nsi_joint_get(l->def.joint_type)->info.quaternion;
}

// Memory that lives as long as the graph.
void* nsi_robot_alloc(const nsi_robot* robot, size_t count, size_t size);
ns_expr* nsi_robot_zeros(const nsi_robot* robot, size_t count);

// Is an expression the constant 0, or none?
bool nsi_robot_is_zero(const nsi_robot* robot, ns_expr x);

// Generalised forces of one body's joint from the model's order to that of nsi_body.s.
void nsi_robot_force_to_body(const nsi_robot* robot, uint32_t link, const ns_expr* tau,
                             ns_expr* internal);

// ---- forces.c: joint forces ----------------------------------------------------------------

// A quantity with a unit ("" for none) and a formatted name, e.g. (x, "N m", "joint/%s/tau", name).
ns_expr nsi_named(ns_expr x, const char* unit, const char* format, ...) NSI_PRINTF(3, 4);

// The same for a force of joint velocity k: "joint/<joint>/<what>", then "/<k>" where there are several.
ns_expr nsi_named_force(ns_expr x, const nsi_link* link, uint32_t k, const char* what);

// A name for what nothing depends on unless a network changes it: what to go on with then.
ns_expr nsi_observed(ns_expr x, const char* unit, const char* format, ...) NSI_PRINTF(3, 4);

// The forces that a step takes at the velocity it ends with, to first order.
typedef enum nsi_implicit {
    NSI_EXPLICIT,       // none
    NSI_IMPLICIT_STIFF, // friction and limits of joints, contact forces: stiff at any setting
    NSI_IMPLICIT        // all joint forces
} nsi_implicit;

// Spring, damper, friction, limits and actuators of all joints; tau (nv) holds the applied forces
// and receives the total. u (nu) are the controls; `state` (nu) the activations, and the angles that
// series-elastic motors had a step of dt seconds ago (others are not read). `slope` (nv) receives how
// much of a change of the velocity the forces resist, -d(force)/d(qd), with the stiffness of limits
// over a step; zero for forces that are taken explicitly. Returns the part of that matrix off the
// diagonal (nv x nv), NULL when there is none.
ns_expr* nsi_joint_forces(const nsi_robot* robot, const ns_expr* u, const ns_expr* state, double dt,
                          nsi_implicit implicit, ns_expr* tau, ns_expr* slope);

// Forces along a velocity of the model: those that are stiff by themselves, and the others.
typedef struct nsi_passive_force {
    ns_expr smooth, stiff;
    ns_expr slope; // of the stiff ones, without what networks change in them
} nsi_passive_force;

// A soft limit at coordinate q: `range` are its ends, `gains` stiffness and damping.
ns_expr nsi_limit_force(ns_expr q, ns_expr qd, const ns_expr range[2], const ns_expr gains[2]);

// How f = -friction * tanh(qd / velocity), and a soft limit f with these gains, resist a change of qd over
// a step. In closed form: qd may be part of an expression that has taken its sign.
ns_expr nsi_friction_slope(const nsi_robot* robot, ns_expr f, ns_expr friction, ns_expr qd,
                           ns_expr velocity);
ns_expr nsi_limit_slope(const nsi_robot* robot, ns_expr f, const ns_expr gains[2], double dt);

// ---- medium.c ------------------------------------------------------------------------------

// Add compensated gravity and the drag of the medium to the forces on bodies (nlink), in their frames.
void nsi_medium_forces(const nsi_robot* robot, force* external);

// ---- tendons.c -----------------------------------------------------------------------------

// Add the forces of all tendons to `added` (nv), and how they resist along pairs of velocities to
// `coupling` (nv x nv, off the diagonal), made when there is any.
void nsi_tendon_forces(const nsi_robot* robot, double dt, nsi_implicit implicit,
                       nsi_passive_force* added, ns_expr** coupling);

// ---- actuators.c ---------------------------------------------------------------------------

// The control of an actuator as it acts: within its limits. For a series-elastic one this is its
// motor's angle.
ns_expr nsi_actuator_control(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr u);

// Activation of an actuator with dynamics after `time` seconds at the control u: from `start`, with the
// rate that nsi_activation_rate() gives at one or more activations.
ns_expr nsi_activation_rate(const ns_model* model, const ns_expr* param, uint32_t number, ns_expr u,
                            ns_expr activation);
ns_expr nsi_activation_after(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr start, ns_expr rate, double time);

// The activation within its limits, as a step ends with it.
ns_expr nsi_activation_clamp(const ns_model* model, const ns_expr* param, uint32_t number,
                             ns_expr activation);

// Add the forces of all actuators to `drive` (nv). `coupling`, unless NULL, receives how much the
// forces along one velocity resist another one (nv x nv, off the diagonal), made when there is any.
void nsi_actuator_forces(const nsi_robot* robot, const ns_expr* u, const ns_expr* state, double dt,
                         ns_expr* drive, ns_expr** coupling);

// ---- the algorithms ------------------------------------------------------------------------

// Forward dynamics: qdd (nv) from tau (nv) by the articulated body algorithm. `inertia_added` (nv)
// is added to the diagonal of the mass matrix (armature, implicit damping); NULL: nothing but
// armature.
void nsi_aba(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
             ns_expr* qdd);

// f less the force from outside on body i. It is rounded by itself, so that a force of zero changes
// no bit (contract.c).
force nsi_without_external(const nsi_robot* robot, uint32_t i, force f);

// What gyroscopic torques of body i over a step of spin_step seconds have more than those at its start, in
// its frame; zero for bodies on other than ball and floating joints (gyroscopic.c).
vec3 nsi_gyroscopic_change(const nsi_robot* robot, uint32_t i);

// Forward dynamics of any model: nsi_aba(), or, where mimic joints, contact forces or a mass_change couple
// bodies otherwise than as a tree, M qdd = tau - bias with the mass matrix. What contact forces resist is
// in it; nsi_rnea() and nsi_crba() leave it out.
void nsi_forward_dynamics(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
                          ns_expr* qdd);

// Forward dynamics with equality constraints (equality.h), which `rows` has for this robot: factors the
// mass matrix with all that nsi_forward_dynamics() adds to it, which `rows` then has, too. Also gives the
// constraint forces (rows->n).
void nsi_constrained_dynamics(const nsi_robot* robot, const ns_expr* tau,
                              const ns_expr* inertia_added, nsi_equality* rows, ns_expr* qdd,
                              ns_expr* forces);

// Inverse dynamics: tau (nv) from qdd (nv; NULL for zero), recursive Newton-Euler; armature
// included.
void nsi_rnea(const nsi_robot* robot, const ns_expr* qdd, ns_expr* tau);

// Spatial accelerations a (nlink) of bodies in their frames when qdd is zero: what velocities alone make.
// Without gravity.
void nsi_drift_accelerations(const nsi_robot* robot, motion* a);

// Spatial accelerations of bodies (nlink) in their frames, gravity taken off: at rest on the ground they point up.
void nsi_body_accelerations(const nsi_robot* robot, const ns_expr* qdd, motion* a);

// Mass matrix M (nv x nv, row-major, symmetric), composite rigid bodies; armature and the robot's
// mass_change included.
void nsi_crba(const nsi_robot* robot, ns_expr* M);

// Twist of a unit of velocity k of a body's joint, in the world's axes about the link's origin; R is
// the link's orientation.
motion nsi_unit_world_twist(const nsi_body* body, mat3 R, uint32_t k);

// Pose of a link in the world.
typedef struct nsi_link_pose {
    mat3 R; // link to world
    vec3 position;
} nsi_link_pose;

void nsi_link_poses(const nsi_robot* robot, nsi_link_pose* pose); // (nlink)

// Orientations of links in the world as quaternions (nlink).
void nsi_link_turns(const nsi_robot* robot, quat* turn);

// The rotation vector of a quaternion, of the shorter way round.
vec3 nsi_rotation_vector(quat q);

// A geometry in the frame of its link: by its parameters if it is in a pair, which has some.
nsi_link_pose nsi_geom_place(const nsi_robot* robot, uint32_t geom);

// Where the geometries of a link are: at its pose, unless a network changes that.
nsi_link_pose nsi_surface_pose(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t link);

// q (+) dq: coordinates after a displacement dq (nv), a velocity times a time. Quaternions use the
// exponential map of the rotation in the body frame. `next` (nq) may not be q.
void nsi_integrate_config(const ns_model* model, const ns_expr* q, const ns_expr* dq,
                          ns_expr* next);

// Jacobians of the origin of a link in the world's coordinates, row-major (3 x nv) each.
void nsi_link_jacobian(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t link,
                       ns_expr* linear, ns_expr* angular);

// Twist of a link's frame in the link's own coordinates.
motion nsi_link_velocity(const nsi_robot* robot, uint32_t link);

// Kinetic energy, and potential energy of gravity (zero at the world's origin).
ns_expr nsi_kinetic_energy(const nsi_robot* robot);
ns_expr nsi_potential_energy(const nsi_robot* robot, const nsi_link_pose* pose);
ns_expr nsi_spring_energy(const nsi_robot* robot); // of joint springs

// Linear momentum and angular momentum about the world's origin, in world coordinates, and centre
// of mass.
void nsi_momentum(const nsi_robot* robot, const nsi_link_pose* pose, vec3* linear, vec3* angular);
vec3 nsi_center_of_mass(const nsi_robot* robot, const nsi_link_pose* pose);

#endif
