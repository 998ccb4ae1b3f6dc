/// @file model.h
/// Robot models: trees of links and joints, loaded from a file or built by calls.
///
///     ns_model* robot = NULL;
///     if (ns_model_load("arm.urdf", NULL, &robot, &error) != NS_OK) puts(error.message);
///
///     ns_model_builder* builder = NULL;                          // or without a file
///     ns_model_builder_create(NULL, &builder, NULL);
///     ns_link_def rod = ns_default_link_def();
///     rod.name = "rod";
///     rod.joint_type = NS_JOINT_REVOLUTE;
///     rod.axis[0] = 0, rod.axis[1] = 1, rod.axis[2] = 0;
///     rod.mass = 1.0, rod.com[2] = -0.5, rod.inertia[0] = rod.inertia[1] = 0.02;
///     ns_model_builder_add_link(builder, &rod, &error);
///     ns_model_builder_finish(builder, &robot, &error);
///
/// Units are SI, angles radians. Conventions (frames, quaternions, order of coordinates) are those
/// of MuJoCo and stand on one page, docs/conventions.md. A model is immutable; threads may share
/// it.

#ifndef NEURALSIM_MODEL_H
#define NEURALSIM_MODEL_H

#include "neuralsim/base.h"
#include "neuralsim/words.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_model ns_model;
typedef struct ns_model_builder ns_model_builder;

/// Position and orientation of a frame in another: x_outer = position + R(quaternion) x_inner.
typedef struct ns_pose {
    double position[3];   ///< m
    double quaternion[4]; ///< w x y z, unit
} ns_pose;

/// Joint types: enumerator and record (src/dyn/joints).
///
///   FIXED      no coordinate
///   REVOLUTE   q: angle; qd: its rate
///   PRISMATIC  q: distance; qd: its rate
///   SPHERICAL  q: quaternion w x y z; qd: angular velocity in the link's frame
///   FLOATING   q: position, quaternion; qd: velocity in the world, angular velocity in the link's
///              frame. Only on links carried by the world
#define NS_JOINT_TYPES(X)                                                                          \
    X(FIXED, fixed)                                                                                \
    X(REVOLUTE, revolute)                                                                          \
    X(PRISMATIC, prismatic)                                                                        \
    X(SPHERICAL, spherical)                                                                        \
    X(FLOATING, floating)

typedef enum ns_joint_type {
#define NS_JOINT_ENUMERATOR(ENUMERATOR, record) NS_JOINT_##ENUMERATOR,
    NS_JOINT_TYPES(NS_JOINT_ENUMERATOR)
#undef NS_JOINT_ENUMERATOR
} ns_joint_type;

/// What there is to know about a joint type. Coordinates are lengths, then angles, then a quaternion
/// w x y z if there is one; the velocities are their rates, three angular ones for the quaternion.
typedef struct ns_joint_info {
    const char* name;    ///< "revolute"
    uint32_t nq, nv;     ///< coordinates and velocities
    uint32_t nlinear;    ///< the first so many of either are in m and m/s
    uint32_t quaternion; ///< first coordinate of the quaternion; nq: there is none
    bool has_axis; ///< one coordinate, along or about ns_link_def.axis: can have a spring, limits,
                   ///< an actuator, and follow another joint
    bool in_world; ///< the coordinates are the link's pose in the world, which must carry it
} ns_joint_info;

/// @return what is known about a joint type; NULL when it is none
NS_API const ns_joint_info* ns_joint_type_info(ns_joint_type type);

/// Limits that suit the inertia I a joint moves and the time step dt: a critically damped spring of
/// w = min(200, 0.2 / dt) rad/s, stiffness I w^2 and damping 2 I w.
#define NS_LIMIT_AUTO (-1.0)

/// A link and the joint that carries it. The joint frame is `origin` in the parent's frame; the
/// link's frame coincides with it at q = 0.
typedef struct ns_link_def {
    const char* name;   ///< unique among links; not "world"
    const char* parent; ///< an earlier link; NULL or "world" for the world. Default NULL

    double mass;       ///< kg, >= 0. Default 0 (massless)
    double com[3];     ///< centre of mass in the link's frame, m. Default 0
    double inertia[6]; ///< xx yy zz xy xz yz about the centre of mass, axes of the link, kg m^2.
                       ///< Must be physical: positive semidefinite, triangle inequalities

    double
        gravity_compensation; ///< share of the link's weight that is held up; 1: floats. Default 0

    const char* joint;        ///< unique among joints; NULL: "<link>_joint"
    ns_joint_type joint_type; ///< default NS_JOINT_FIXED
    ns_pose origin;           ///< default identity; a floating joint's is only its start pose
    double axis[3];           ///< in the joint frame; made unit length. Default 0 0 1

    double stiffness;         ///< N m/rad or N/m towards `rest`; revolute and prismatic. Default 0
    double rest;              ///< rad or m. Default 0
    double damping;           ///< N m s/rad or N s/m, each velocity of the joint. Default 0
    double friction;          ///< Coulomb friction, N m or N. Default 0
    double friction_velocity; ///< friction is friction * tanh(qd / friction_velocity). Default 0.01
    double armature;          ///< rotor inertia added to the joint, kg m^2 or kg. Default 0

    bool limited;           ///< soft limits on a revolute or prismatic joint. Default false
    double lower, upper;    ///< rad or m; lower < upper
    double limit_stiffness; ///< N m/rad or N/m beyond a limit. Default NS_LIMIT_AUTO
    double limit_damping;   ///< N m s/rad or N s/m while beyond a limit. Default NS_LIMIT_AUTO

    bool drive_limited; ///< clamp the sum of all actuators' forces on a joint with an axis to
    double drive_lower, drive_upper; ///< N m or N. Default false, 0, 0

    const char* mimic; ///< an earlier joint (revolute or prismatic) that this one follows:
    double
        mimic_multiplier; ///< q = multiplier * q_mimic + offset; the joint then has no coordinate
    double mimic_offset;  ///< of its own. Default NULL, 1, 0

    double reference; ///< rad or m, of a revolute or prismatic joint: the coordinate at which
                      ///< equality constraints hold by construction (ns_equality_def). Default 0
} ns_link_def;

NS_API ns_link_def ns_default_link_def(void);

/// Shapes, and what their sizes are.
#define NS_GEOM_TYPE_MAP(X)                                                                        \
    X(NS_GEOM_SPHERE, "sphere", "radius")                                                          \
    X(NS_GEOM_CAPSULE, "capsule", "radius, half length of the cylinder, along z")                  \
    X(NS_GEOM_CYLINDER, "cylinder", "radius, half length, along z")                                \
    X(NS_GEOM_BOX, "box", "half lengths")                                                          \
    X(NS_GEOM_PLANE, "plane",                                                                      \
      "z = 0 of its frame, outside is z > 0; half lengths to draw (0: all)")                       \
    X(NS_GEOM_MESH, "mesh", "scale; `mesh` names a file, or `vertices` are given; convex")         \
    X(NS_GEOM_ELLIPSOID, "ellipsoid", "half axes")                                                 \
    X(NS_GEOM_POLYGON, "polygon",                                                                  \
      "a plate: outline `vertices` in the x-y plane, any simple polygon; half thickness")          \
    X(NS_GEOM_ELLIPSE, "ellipse", "a plate: half axes along x and y, half thickness")              \
    X(NS_GEOM_POINTS, "points", "contact points at `vertices`, with no surface between them")      \
    X(NS_GEOM_HFIELD, "hfield", "terrain: half lengths along x and y, height of `elevation` 1")

typedef enum ns_geom_type { NS_GEOM_TYPE_MAP(NS_CHOICE_VALUE) } ns_geom_type;
extern NS_API const ns_choices ns_geom_types;

typedef struct ns_geom_def {
    const char* name; ///< NULL: "<link>_geom<k>"
    const char* link; ///< NULL or "world" for the world
    ns_geom_type type;
    double size[3];
    ns_pose pose;       ///< in the link's frame
    const char* mesh;   ///< file of a mesh, as the model's file names it; NULL for none
    const char* path;   ///< where that file is, for drawing; NULL: it was not found. Default NULL
    bool visual;        ///< to be drawn. Default true
    bool collision;     ///< takes part in contact. Default true
    double friction[3]; ///< sliding, torsional (m), rolling (m), of which `condim` says what acts.
                        ///< Default 1 0.005 0.0001 as MuJoCo
    double color[4];    ///< red green blue alpha, 0 to 1. Default 0.5 0.5 0.5 1

    const double* vertices; ///< (nvertex x 3) in the geometry's frame; z of an outline is ignored.
    uint32_t nvertex; ///< Meshes (scaled by `size`), polygons, points. Of a mesh with more than
                      ///< 128 only the corners of the convex hull stay. Default NULL, 0

    /// Of a height field: (nrow x ncol), at least 2 x 2. Rows are along x and begin at y = -size[1],
    /// columns at x = -size[0]; the surface is at z = size[2] * elevation. Default NULL, 0, 0
    const double* elevation;
    uint32_t nrow, ncol;

    double restitution; ///< 0 to 1. Default 0
    double stiffness;   ///< of the spring model, see ns_contact_def. Default NS_CONTACT_AUTO
    double damping;     ///< of the spring model. Default NS_CONTACT_AUTO
    uint32_t groups;    ///< bits: groups it is in. Default 1
    uint32_t touches;   ///< bits: groups it touches; two geometries can touch when either of them
                        ///< touches a group of the other. Default 1
    double exponent; ///< of the spring model, to which `stiffness` belongs. Default NS_CONTACT_AUTO
    uint32_t condim; ///< 1: no friction, 3: sliding, 4: and torsional, 6: and rolling friction. A
                     ///< pair has the larger condim and the larger `friction`. Default 3
    int32_t priority; ///< the geometry with the higher priority alone decides friction. Default 0
} ns_geom_def;

NS_API ns_geom_def ns_default_geom_def(void);

/// Contact laws of the library: enumerator and record (src/contact). Others are added by
/// ns_contact_law_register() (contact.h).
///
///   NONE       bodies pass through each other
///   NCP        rigid: impulses with Coulomb friction
///   SPRING     nonlinear spring and damper with smooth friction
///   BAUMGARTE  rigid: one problem per step, with the papers' stabilisation
///   CONVEX     rigid: one convex problem per step; a contact that slides also parts
#define NS_CONTACT_LAWS(X)                                                                         \
    X(NONE, none)                                                                                  \
    X(NCP, ncp)                                                                                    \
    X(SPRING, spring)                                                                              \
    X(BAUMGARTE, baumgarte)                                                                        \
    X(CONVEX, convex)

typedef enum ns_contact_model {
#define NS_CONTACT_ENUMERATOR(ENUMERATOR, record) NS_CONTACT_##ENUMERATOR,
    NS_CONTACT_LAWS(NS_CONTACT_ENUMERATOR)
#undef NS_CONTACT_ENUMERATOR
} ns_contact_model;

/// The value of a parameter of a contact law.
typedef struct ns_contact_value {
    const char* param; ///< as the law names it
    double value;
} ns_contact_value;

/// Choose automatically; each field documents the rule.
#define NS_CONTACT_AUTO (-1.0)

/// Two geometries that can touch. Pairs are made by themselves from the geometries' groups; one that
/// is given by hand takes the place of the one made, and needs no group.
typedef struct ns_contact_def {
    const char* name;  ///< NULL: "<a>:<b>"
    const char *a, *b; ///< geometries; the normal points from b to a
    int model;         ///< an ns_contact_model, or the number of another contact law; default
                       ///< NS_CONTACT_NCP; a system may override it

    double mu; ///< Coulomb friction; of the spring model while sliding. Default AUTO: the
               ///< larger of the two geometries', 0 when both have condim 1; that of the
               ///< one with the higher priority if they differ in it
    double
        mu_torsion; ///< m, moment about the normal per normal force, of rigid laws (not springs).
                    ///< Default AUTO: as mu, where the condim is 4 or 6; otherwise 0: none
    double
        mu_rolling; ///< m, moment about the tangents per normal force, likewise. Default AUTO: as
                    ///< mu, where the condim is 6; otherwise 0: none
    double restitution; ///< 0 to 1. Default AUTO: the larger of the two geometries'

    // Impulses (docs/contact-gradients.md)
    double baumgarte_alpha; ///< share of the closing speed taken away in one step while
                            ///< penetrating, 0 to 1. Default 1
    double baumgarte_beta;  ///< share of the penetration undone in one step, 0 to 1. Default 0.2
    double max_push;        ///< m/s, most speed given to undo penetration. Default 2
    double cfm; ///< regularisation, relative to the diagonal of the Delassus matrix. Default 1e-4
    double margin; ///< m, gap from which on a contact is watched. Default 0.02

    // Springs: normal force stiffness d^exponent (1 + damping dd/dt) at the depth d, of which no
    // more counts than max_depth. A stiffness that is automatic, also in both geometries, makes
    // the force at 1 cm 100 m/s^2 times the mass M of the lighter of the two trees of links (1e5 M
    // for the exponent 1.5), but no more than the model's time step dt can follow: a quarter of the
    // mass of the lighter of the two bodies, which is what the end of a rod or the corner of a cube
    // resists with, then moves with at most 0.3/dt rad/s.
    double
        stiffness;  ///< N/m^exponent. Default AUTO: the geometries' (two springs in a row), or that
    double damping; ///< s/m. Default AUTO: the larger of the geometries', or 1
    double exponent;  ///< >= 1. Default AUTO: the larger of the geometries', or 1.5
    double mu_static; ///< friction from which sliding starts. Default AUTO: mu, also if it changes
    double transition_velocity; ///< m/s, slip from which friction acts in full. Default 0.05
    double
        max_depth; ///< m, positive: the force does not grow beyond this depth, so that bodies that
                   ///< start inside each other are not shot apart. Default AUTO: 0.05 where the
                   ///< stiffness is automatic, otherwise infinite

    const ns_contact_value*
        values;      ///< parameters of other laws; those that are not here have their
    uint32_t nvalue; ///< defaults. ns_model_contact() gives none: see its parameters
} ns_contact_def;

NS_API ns_contact_def ns_default_contact_def(void);

/// A named frame on a link: where sensors, tendons and actuators are attached.
typedef struct ns_site_def {
    const char* name; ///< unique among sites
    const char* link; ///< NULL or "world" for the world
    ns_pose pose;     ///< in the link's frame. Default identity
} ns_site_def;

NS_API ns_site_def ns_default_site_def(void);

/// What a tendon is made of. Either each part names a joint with an axis, and the length is the sum of
/// coefficient * q (a fixed tendon); or parts are sites, and pulleys between them, and the length is the sum of the
/// distances between successive sites of a branch, divided by the divisor of its pulley (a spatial tendon). Between two
/// sites it can wrap around a geometry: a sphere, or a cylinder, whose ends do not count.
typedef struct ns_tendon_part {
    const char* joint; ///< of a fixed tendon
    const char* site;  ///< of a spatial one
    double factor;     ///< coefficient of a joint, divisor (positive) of a pulley
    const char* geom;  ///< of a spatial one; neither joint, site nor geometry: a pulley, at which a
                       ///< new branch begins
    const char* side;  ///< of a geometry: NULL, or a site on whose side the tendon passes; when it
                       ///< is inside, the tendon passes through the inside. Default NULL
} ns_tendon_part;

/// Choose automatically: the length at which all joints are at their `rest`.
#define NS_TENDON_AUTO (-1.0)

typedef struct ns_tendon_def {
    const char* name; ///< unique among tendons
    const ns_tendon_part* parts;
    uint32_t npart;
    double stiffness; ///< N/m, or of a fixed tendon whatever its lengths are. Default 0
    double damping;   ///< N s/m. Default 0
    double rest;      ///< the spring acts below this length and above rest + slack. Default
    double slack;     ///< NS_TENDON_AUTO, 0
    double
        friction; ///< Coulomb friction, N: friction * tanh(velocity / friction_velocity). Default 0
    double friction_velocity; ///< m/s. Default 0.01
    bool limited;             ///< soft limits of the length. Default false
    double lower, upper;
    double limit_stiffness, limit_damping; ///< as of joints. Default NS_LIMIT_AUTO
} ns_tendon_def;

NS_API ns_tendon_def ns_default_tendon_def(void);

/// What a sensor belongs to.
typedef enum ns_sensor_object {
    NS_SENSOR_OF_JOINT,
    NS_SENSOR_OF_BALL, ///< a spherical joint
    NS_SENSOR_OF_ACTUATOR,
    NS_SENSOR_OF_TENDON,
    NS_SENSOR_OF_SITE,
    NS_SENSOR_OF_FRAME, ///< a site or a link
    NS_SENSOR_OF_LINK
} ns_sensor_object;

/// Sensors: words and meanings of MJCF, how many numbers they give, and what they belong to.
#define NS_SENSOR_TYPE_MAP(X)                                                                      \
    X(NS_SENSOR_JOINT_POSITION, "jointpos", "coordinate of a hinge or slide", 1, JOINT)            \
    X(NS_SENSOR_JOINT_VELOCITY, "jointvel", "its rate", 1, JOINT)                                  \
    X(NS_SENSOR_BALL_QUATERNION, "ballquat", "quaternion of a ball joint", 4, BALL)                \
    X(NS_SENSOR_BALL_VELOCITY, "ballangvel", "its angular velocity, in the link", 3, BALL)         \
    X(NS_SENSOR_ACTUATOR_POSITION, "actuatorpos", "length of a transmission", 1, ACTUATOR)         \
    X(NS_SENSOR_ACTUATOR_VELOCITY, "actuatorvel", "its rate", 1, ACTUATOR)                         \
    X(NS_SENSOR_ACTUATOR_FORCE, "actuatorfrc", "force of an actuator", 1, ACTUATOR)                \
    X(NS_SENSOR_TENDON_POSITION, "tendonpos", "length of a tendon", 1, TENDON)                     \
    X(NS_SENSOR_TENDON_VELOCITY, "tendonvel", "its rate", 1, TENDON)                               \
    X(NS_SENSOR_FRAME_POSITION, "framepos", "position, world (m)", 3, FRAME)                       \
    X(NS_SENSOR_FRAME_QUATERNION, "framequat", "orientation, world", 4, FRAME)                     \
    X(NS_SENSOR_FRAME_X_AXIS, "framexaxis", "x axis, world", 3, FRAME)                             \
    X(NS_SENSOR_FRAME_Y_AXIS, "frameyaxis", "y axis, world", 3, FRAME)                             \
    X(NS_SENSOR_FRAME_Z_AXIS, "framezaxis", "z axis, world", 3, FRAME)                             \
    X(NS_SENSOR_FRAME_LINEAR_VELOCITY, "framelinvel", "velocity, world (m/s)", 3, FRAME)           \
    X(NS_SENSOR_FRAME_ANGULAR_VELOCITY, "frameangvel", "angular velocity, world (rad/s)", 3,       \
      FRAME)                                                                                       \
    X(NS_SENSOR_FRAME_LINEAR_ACCELERATION, "framelinacc",                                          \
      "acceleration less gravity, world (m/s^2)", 3, FRAME)                                        \
    X(NS_SENSOR_FRAME_ANGULAR_ACCELERATION, "frameangacc",                                         \
      "angular acceleration, world (rad/s^2)", 3, FRAME)                                           \
    X(NS_SENSOR_GYRO, "gyro", "angular velocity, site (rad/s)", 3, SITE)                           \
    X(NS_SENSOR_VELOCIMETER, "velocimeter", "velocity, site (m/s)", 3, SITE)                       \
    X(NS_SENSOR_ACCELEROMETER, "accelerometer", "acceleration less gravity, site (m/s^2)", 3,      \
      SITE)                                                                                        \
    X(NS_SENSOR_SUBTREE_COM, "subtreecom", "centre of mass of a link and all beyond, world (m)",   \
      3, LINK)                                                                                     \
    X(NS_SENSOR_SUBTREE_VELOCITY, "subtreelinvel", "its velocity, world (m/s)", 3, LINK)

typedef enum ns_sensor_type {
#define NS_SENSOR_ENUMERATOR(ENUMERATOR, word, help, size, object) ENUMERATOR,
    NS_SENSOR_TYPE_MAP(NS_SENSOR_ENUMERATOR)
#undef NS_SENSOR_ENUMERATOR
} ns_sensor_type;

typedef struct ns_sensor_info {
    const char *name, *help; ///< "jointpos"
    uint32_t size;           ///< numbers
    ns_sensor_object object;
} ns_sensor_info;

/// @return what is known about a sensor type; NULL when it is none
NS_API const ns_sensor_info* ns_sensor_type_info(ns_sensor_type type);

/// A sensor is a name for numbers that follow from the state: the quantity sensor/<name>, or
/// sensor/<name>/x, y, z or qw, qx, qy, qz. It measures where a step begins.
typedef struct ns_sensor_def {
    const char* name; ///< unique among sensors
    ns_sensor_type type;
    const char *joint, *actuator, *tendon, *site,
        *link;     ///< one of them, as the type has it; "world" is a
                   ///< link for sensors of subtrees
    bool at_com;   ///< of a link: at its centre of mass, not its frame's origin. Default false
    double cutoff; ///< clamp the numbers to +-cutoff, unless it is an orientation; 0: no. Default 0

    /// Of positions, orientations and velocities of frames: relative to another one, in its axes, as seen from
    /// it. A site or a link; NULL: the world. Default NULL
    const char *ref_site, *ref_link;
} ns_sensor_def;

NS_API ns_sensor_def ns_default_sensor_def(void);

/// Actuator laws: the scalar force of an actuator. `s` is its input: the control, or the activation where
/// `dynamics` makes one of it. Length x and velocity v are those of its transmission: gear q and
/// gear qd on a joint with an axis. The joint feels gear times the force. The motor of a
/// series-elastic actuator is at angle u; du/dt is its rate over the last step, held in the state.
#define NS_ACTUATOR_TYPE_MAP(X)                                                                    \
    X(NS_ACTUATOR_TORQUE, "torque", "force = s")                                                   \
    X(NS_ACTUATOR_POSITION, "position", "force = kp (s - x) - kd v")                               \
    X(NS_ACTUATOR_VELOCITY, "velocity", "force = kd (s - v)")                                      \
    X(NS_ACTUATOR_SERIES_ELASTIC, "series-elastic", "force = kp (u - x) + kd (du/dt - v)")         \
    X(NS_ACTUATOR_GENERAL, "general",                                                              \
      "force = (gain0 + gain1 x + gain2 v) s + bias0 + bias1 x + bias2 v")                         \
    X(NS_ACTUATOR_MUSCLE, "muscle",                                                                \
      "force = -F (s FL(L) FV(V) + FP(L)), of the muscle's normalised length and velocity")

typedef enum ns_actuator_type { NS_ACTUATOR_TYPE_MAP(NS_CHOICE_VALUE) } ns_actuator_type;
extern NS_API const ns_choices ns_actuator_types;

/// Activation dynamics. The activation a is a state of the system, act/<actuator>, and a step is dt.
#define NS_DYNAMICS_MAP(X)                                                                         \
    X(NS_DYNAMICS_NONE, "none", "the force follows the control at once; no state")                 \
    X(NS_DYNAMICS_INTEGRATOR, "integrator", "da/dt = u")                                           \
    X(NS_DYNAMICS_FILTER, "filter", "da/dt = (u - a) / time_constant, by Euler's method")          \
    X(NS_DYNAMICS_FILTER_EXACT, "filterexact", "the same, exact for a control held over a step")   \
    X(NS_DYNAMICS_MUSCLE, "muscle",                                                                \
      "a filter that rises and falls with its own time constants, which depend on a")

typedef enum ns_actuator_dynamics { NS_DYNAMICS_MAP(NS_CHOICE_VALUE) } ns_actuator_dynamics;
extern NS_API const ns_choices ns_actuator_dynamics_types;

/// A muscle: MuJoCo's. Lengths L and velocities V are in units of the optimal length L0, where it is
/// strongest: `length_range` of the transmission is `range` of the muscle. It pulls only.
typedef struct ns_muscle_def {
    double force;           ///< peak, at the optimal length without motion, N; negative: `scale`
                            ///< over the acceleration of the joints (norm of M^-1 moment at
                            ///< ns_link_def.reference) by a force of 1. Default -1
    double scale;           ///< default 200
    double range[2];        ///< operating lengths, in units of L0. Default 0.75 1.05
    double length_range[2]; ///< of the transmission there, m or rad; must be given
    double lmin, lmax;      ///< lengths between which it is active. Default 0.5 1.6
    double vmax;            ///< velocity of shortening without force, L0/s. Default 1.5
    double fpmax;           ///< passive force at the length lmax, in units of F. Default 1.3
    double fvmax;           ///< active force when lengthened fast, in units of F. Default 1.2
} ns_muscle_def;

typedef struct ns_actuator_def {
    const char* name;  ///< NULL: "<joint>_motor", followed by its number where that is taken
    const char* joint; ///< a joint with coordinates of its own; or one of the next two
    const char* tendon;
    const char*
        site; ///< force gear * direction[0..2] and torque gear * direction[3..5], in its frame
    const char*
        refsite; ///< of a site: the force and torque act between the two, in this one's frame; x is
                 ///< the site's position in it along direction[0..2]. Default NULL
    ns_actuator_type type;
    double gear;          ///< default 1
    double kp, kd;        ///< default 0
    double damping_ratio; ///< positive, of a position actuator with kd = 0: kd = 2 damping_ratio
        ///< sqrt(kp m), with m the joint's entry of the mass matrix at coordinates
        ///< 0, over gear^2. Default 0: kd as given
    bool control_limited; ///< clamp u to
    double control_lower, control_upper;
    bool force_limited; ///< clamp the force to
    double force_lower, force_upper;

    /// On a spherical joint the torque is gear * direction[0..2] in the link's frame; on a floating one
    /// the force gear * direction[0..2] acts along the velocities (in the world) and the torque gear *
    /// direction[3..5]. Length: the rotation vector of a spherical joint times that; 0 of a
    /// floating one. Not used on joints with an axis. Default 1 0 0 0 0 0
    double direction[6];
    bool in_parent; ///< the torque's direction is in the frame of the parent, not of the link

    double gain[3], bias[3];       ///< of a general actuator. Default 1 0 0 and 0 0 0
    ns_actuator_dynamics dynamics; ///< default NS_DYNAMICS_NONE
    double time_constant;          ///< s, positive, of filters. Default 1
    bool activation_limited;       ///< clamp the activation after each step to
    double activation_lower, activation_upper;

    ns_muscle_def muscle;     ///< of a muscle
    double deactivation_time; ///< s, positive, of a muscle's dynamics: time constant of falling;
                              ///< time_constant is that of rising. Default 0.04
} ns_actuator_def;

/// A named state. All arrays are of the model's sizes; NULL: default coordinates, or zeros.
typedef struct ns_keyframe_def {
    const char* name;         ///< unique among keyframes; NULL: "key<k>"
    const double* q;          ///< (nq) quaternions are made unit length
    const double* qd;         ///< (nv)
    const double* control;    ///< (nu)
    const double* activation; ///< (nu) 0 of actuators without an activation
} ns_keyframe_def;

NS_API ns_actuator_def ns_default_actuator_def(void);

/// Integrators: a row here, and a function with its record in src/sim/integrators.c.
#define NS_INTEGRATOR_MAP(X)                                                                       \
    X(NS_INTEGRATOR_EULER, "euler", "semi-implicit Euler")                                         \
    X(NS_INTEGRATOR_RK4, "rk4", "Runge-Kutta of order 4")                                          \
    X(NS_INTEGRATOR_IMPLICIT, "implicit", "Euler, implicit in joint forces")                       \
    X(NS_INTEGRATOR_EXPLICIT, "explicit", "Euler, all forces at the start of the step")            \
    X(NS_INTEGRATOR_GYRO, "gyro", "implicit, and gyroscopic torques by the midpoint rule")

typedef enum ns_integrator { NS_INTEGRATOR_MAP(NS_CHOICE_VALUE) } ns_integrator;
extern NS_API const ns_choices ns_integrators;

/// Equality constraints: how many equations, and what they demand.
#define NS_EQUALITY_TYPE_MAP(X)                                                                    \
    X(NS_EQUALITY_JOINT, "joint",                                                                  \
      "1: q_a - r_a = c0 + c1 x + c2 x^2 + c3 x^3 + c4 x^4 with x = q_b - r_b")                    \
    X(NS_EQUALITY_CONNECT, "connect", "3: a point of link a and one of link b coincide")           \
    X(NS_EQUALITY_WELD, "weld", "6: a frame fixed in link a and one in link b coincide")

typedef enum ns_equality_type { NS_EQUALITY_TYPE_MAP(NS_CHOICE_VALUE) } ns_equality_type;
extern NS_API const ns_choices ns_equality_types;

/// An equality constraint, such as the one that closes a kinematic loop. It is hard: it carries any
/// load without giving way. What is computed holds where all joints have their reference coordinates r
/// (ns_link_def.reference), and floating joints are at their origins.
typedef struct ns_equality_def {
    const char* name; ///< unique among equality constraints; NULL: "<type><k>", k its number
    ns_equality_type type;
    const char *a, *b; ///< earlier links, NULL or "world" for the world; of type JOINT earlier
                       ///< revolute or prismatic joints, b NULL for none (x = 0)
    ns_pose anchor_a, anchor_b; ///< point or frame in each link's frame. Default identity
    bool compute_a, compute_b;  ///< compute this anchor from the other one. Default false
    double coefficients[5];     ///< c0 to c4, of type JOINT. Default 0 1 0 0 0
    double
        recovery;  ///< s: a violation dies away with this time constant; less than a time step: at
                   ///< once. Only for violations of initial states, since loads cause none.
                   ///< Default 0
    bool inactive; ///< it is listed and has parameters, but constrains nothing. Default false
} ns_equality_def;

NS_API ns_equality_def ns_default_equality_def(void);

typedef struct ns_world_def {
    double gravity[3];        ///< m/s^2. Default 0 0 -9.81
    double timestep;          ///< s. Default 0.001
    ns_integrator integrator; ///< default NS_INTEGRATOR_EULER
    double density;           ///< of the medium, kg/m^3; its drag acts on links by their equivalent
                              ///< boxes (docs/models.md). Default 0
    double viscosity;         ///< of the medium, Pa s. Default 0
    double wind[3];           ///< velocity of the medium, m/s. Default 0
} ns_world_def;

NS_API ns_world_def ns_default_world_def(void);

// ---- building --------------------------------------------------------------------------------

/// @param allocator  NULL for ns_default_allocator()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_model_builder_create(const ns_allocator* allocator, ns_model_builder** out,
                                         ns_error* error);
NS_API void ns_model_builder_free(ns_model_builder* builder); ///< NULL is allowed

/// Each copies what it is given, names included.
/// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong; NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_model_builder_set_name(ns_model_builder* builder, const char* name,
                                           ns_error* error);
NS_API ns_status ns_model_builder_set_world(ns_model_builder* builder, const ns_world_def* world,
                                            ns_error* error);
NS_API ns_status ns_model_builder_add_link(ns_model_builder* builder, const ns_link_def* link,
                                           ns_error* error);
NS_API ns_status ns_model_builder_add_geom(ns_model_builder* builder, const ns_geom_def* geom,
                                           ns_error* error);
NS_API ns_status ns_model_builder_add_actuator(ns_model_builder* builder,
                                               const ns_actuator_def* actuator, ns_error* error);

/// After all links and actuators.
NS_API ns_status ns_model_builder_add_keyframe(ns_model_builder* builder,
                                               const ns_keyframe_def* keyframe, ns_error* error);

NS_API ns_status ns_model_builder_add_site(ns_model_builder* builder, const ns_site_def* site,
                                           ns_error* error);

/// A tendon of earlier joints or sites.
NS_API ns_status ns_model_builder_add_tendon(ns_model_builder* builder, const ns_tendon_def* tendon,
                                             ns_error* error);

/// A sensor of something earlier.
NS_API ns_status ns_model_builder_add_sensor(ns_model_builder* builder, const ns_sensor_def* sensor,
                                             ns_error* error);

/// A pair of geometries that can touch; of earlier geometries.
NS_API ns_status ns_model_builder_add_contact(ns_model_builder* builder,
                                              const ns_contact_def* contact, ns_error* error);

/// No pairs are made between the geometries of two links (NULL or "world" for the world).
NS_API ns_status ns_model_builder_exclude_contact(ns_model_builder* builder, const char* link_a,
                                                  const char* link_b, ns_error* error);

/// A constraint between earlier links or joints.
NS_API ns_status ns_model_builder_add_equality(ns_model_builder* builder,
                                               const ns_equality_def* equality, ns_error* error);

/// Note something of the source that the model does not represent, for ns_model_ignored().
NS_API ns_status ns_model_builder_add_ignored(ns_model_builder* builder, const char* what,
                                              ns_error* error);

/// Make the model. The builder is left as it was and must still be freed.
/// @param out  receives the model, one block of memory; free it with ns_model_free()
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_LIMIT (more than 4096 pairs), NS_ERR_NOMEM
NS_API ns_status ns_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                         ns_error* error);

// ---- loading ---------------------------------------------------------------------------------

typedef struct ns_load_options {
    bool ground; ///< add a plane "ground" at z = 0 when the file has no plane. Default false
    bool self_collision;           ///< URDF: links of the robot can touch each other. Default false
    const ns_allocator* allocator; ///< NULL for ns_default_allocator()
    const char* variant;   ///< hybrid models with variants: the name of one. Default NULL: as
    const char* recording; ///< the name of this file tells, if one is given. Default NULL
    bool floating_base;    ///< URDF: the root link moves freely instead of being welded to the
                           ///< world; MJCF has <freejoint>. Default false
    bool strict;           ///< refuse what is otherwise repaired or left out with a note: inertias
                           ///< that no body can have, joints that move no mass, limits upside
                           ///< down, second elements where one is meant. Default false
    bool
        no_self_collision; ///< MJCF: links that are joined to each other do not touch, except in pairs
    ///< given by <pair>. Default false; that of a URDF without self_collision
    const char* const* package_paths; ///< (npackage_path) folders that are a package of meshes or
    uint32_t npackage_path;           ///< contain packages: package://P/..., model://P/...
} ns_load_options;

NS_API ns_load_options ns_default_load_options(void);

/// Load a URDF or MJCF file; which one is told by its root element.
/// @param options  NULL for ns_default_load_options()
/// @param error    names file, line and element, and what to do
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_IO, NS_ERR_PARSE, NS_ERR_UNSUPPORTED, NS_ERR_LIMIT,
///         NS_ERR_NOMEM
NS_API ns_status ns_model_load(const char* path, const ns_load_options* options, ns_model** out,
                               ns_error* error);

/// The same from memory. `name` stands for the file in messages.
NS_API ns_status ns_model_parse(const char* text, size_t size, const char* name,
                                const ns_load_options* options, ns_model** out, ns_error* error);

NS_API void ns_model_free(ns_model* model); ///< NULL is allowed

// ---- what a model holds ----------------------------------------------------------------------

typedef struct ns_model_sizes {
    uint32_t nlink;     ///< links, the world not counted; a joint has the number of its link
    uint32_t nq, nv;    ///< coordinates, velocities
    uint32_t nu;        ///< actuators
    uint32_t ngeom;     ///< geometries
    uint32_t ncontact;  ///< pairs of geometries that can touch
    uint32_t nequality; ///< equality constraints, inactive ones included
    uint32_t nparam;    ///< parameters
    uint32_t nignored;  ///< notes on what was ignored
    uint32_t nsite, ntendon, nsensor, nkeyframe;
} ns_model_sizes;

NS_API ns_model_sizes ns_model_get_sizes(const ns_model* model);
NS_API const char* ns_model_name(const ns_model* model);
NS_API const ns_world_def* ns_model_world(const ns_model* model);

/// By number; NULL for a number that is too large. Strings are owned by the model. A definition is
/// what the model holds: defaults filled in, quantities in SI.
NS_API const ns_link_def* ns_model_link(const ns_model* model, uint32_t number);
NS_API const ns_geom_def* ns_model_geom(const ns_model* model, uint32_t number);
NS_API const ns_actuator_def* ns_model_actuator(const ns_model* model, uint32_t number);
NS_API const ns_contact_def* ns_model_contact(const ns_model* model, uint32_t number);
NS_API const ns_equality_def* ns_model_equality(const ns_model* model, uint32_t number);
NS_API const ns_site_def* ns_model_site(const ns_model* model, uint32_t number);
NS_API const ns_tendon_def* ns_model_tendon(const ns_model* model, uint32_t number);
NS_API const ns_sensor_def* ns_model_sensor(const ns_model* model, uint32_t number);
NS_API const char* ns_model_ignored(const ns_model* model, uint32_t number);

/// What a note of ns_model_ignored() means for the motion.
typedef enum ns_ignored_effect {
    NS_IGNORED_HARMLESS, ///< the motion is that of the file
    NS_IGNORED_UNKNOWN,  ///< a name that this version does not know: it may change the motion
    NS_IGNORED_CHANGING  ///< it changes the motion
} ns_ignored_effect;

/// @return NS_IGNORED_HARMLESS for a number that is too large
NS_API ns_ignored_effect ns_model_ignored_effect(const ns_model* model, uint32_t number);

/// Equations of a constraint: 1, 3 or 6; 0 when it is inactive.
NS_API uint32_t ns_model_equality_rows(const ns_model* model, uint32_t number);

/// Number of the parent link; UINT32_MAX for the world.
NS_API uint32_t ns_model_link_parent(const ns_model* model, uint32_t number);

/// Number of the link with this name, or of the link whose joint has this name; UINT32_MAX when there
/// is none.
NS_API uint32_t ns_model_find_link(const ns_model* model, const char* name);
NS_API uint32_t ns_model_find_joint(const ns_model* model, const char* name);

/// Number of the geometry with this name; UINT32_MAX when there is none.
NS_API uint32_t ns_model_find_geom(const ns_model* model, const char* name);

/// First coordinate and velocity of a link's joint; see ns_joint_type for how many there are. A
/// mimic joint has none: UINT32_MAX.
NS_API uint32_t ns_model_joint_q(const ns_model* model, uint32_t number);
NS_API uint32_t ns_model_joint_v(const ns_model* model, uint32_t number);

/// Coordinates to start from (nq): those of the first keyframe; without one the `reference` of each
/// joint, unit quaternions, floating joints at their origin.
NS_API void ns_model_default_q(const ns_model* model, double* q);

/// A keyframe by number, with all numbers given; NULL for a number that is too large. The first one is
/// where simulations start unless they are told otherwise.
NS_API const ns_keyframe_def* ns_model_keyframe(const ns_model* model, uint32_t number);

/// Number of the keyframe with this name; UINT32_MAX when there is none.
NS_API uint32_t ns_model_find_keyframe(const ns_model* model, const char* name);

/// Make the quaternions in coordinates q (nq) unit length, unless they are to rounding.
/// @return the largest amount by which a length differed from 1; negative when a quaternion is zero
///         or not finite, and then left as it is
NS_API double ns_model_normalize_q(const ns_model* model, double* q);

// ---- parameters ------------------------------------------------------------------------------

/// How a parameter keeps to its range when it is estimated.
#define NS_TRANSFORM_MAP(X)                                                                        \
    X(NS_TRANSFORM_IDENTITY, "identity", "")                                                       \
    X(NS_TRANSFORM_LOG, "log", "positive: a lower bound of 0 is itself not allowed")               \
    X(NS_TRANSFORM_BOX, "box", "between two finite bounds")                                        \
    X(NS_TRANSFORM_INERTIA, "inertia",                                                             \
      "one of the ten numbers of a link that must stay physical together")

typedef enum ns_param_transform { NS_TRANSFORM_MAP(NS_CHOICE_VALUE) } ns_param_transform;
extern NS_API const ns_choices ns_param_transforms;

/// A number of the model that can be set free. Names are
///   link/<l>/mass, link/<l>/com/x..z, link/<l>/inertia/xx yy zz xy xz yz
///   joint/<j>/origin/x..z and origin/rx ry rz (a rotation vector, added to the orientation, so 0)
///   joint/<j>/axis/x..z, stiffness, rest, damping, friction, friction_velocity, armature, lower,
///   upper, limit_stiffness, limit_damping
///   actuator/<a>/gear, kp, kd; where the actuator has them: time_constant, gain/0..2, bias/0..2,
///   peak_force, deactivation_time,
///   control_lower, control_upper, force_lower, force_upper, activation_lower, activation_upper
///   tendon/<t>/stiffness, damping, rest, slack, friction, friction_velocity, lower, upper,
///   limit_stiffness, limit_damping
///   geom/<g>/origin/x..z and origin/rx ry rz (as for joints), and its sizes: radius, half_length,
///   half/x..z, height, half_thickness, scale/x..z; of geometries that are in a pair
///   contact/<pair>/mu, restitution, baumgarte_alpha, baumgarte_beta, max_push, cfm, margin,
///   mu_torsion, mu_rolling, stiffness, damping, exponent, mu_static, transition_velocity
///   world/gravity/x..z; with a density or viscosity: world/density, viscosity, wind/x..z
///   equality/<e>/coefficient/0..4 of type joint; equality/<e>/anchor_a/x..z, anchor_b/x..z of the
///   others, and rotation/x..z of a weld (a rotation vector, added to the orientation of anchor_a, so 0)
/// What a parameter is, and whose: of a link and of the joint that carries it, of an actuator, of
/// the world, of a geometry, of a pair, of an equality constraint.
typedef enum ns_param_kind {
    NS_PARAM_MASS,
    NS_PARAM_COM,     ///< component: x y z
    NS_PARAM_INERTIA, ///< xx yy zz xy xz yz
    NS_PARAM_JOINT_ORIGIN,
    NS_PARAM_JOINT_ROTATION,
    NS_PARAM_JOINT_AXIS,
    NS_PARAM_JOINT_STIFFNESS,
    NS_PARAM_JOINT_REST,
    NS_PARAM_JOINT_DAMPING,
    NS_PARAM_JOINT_FRICTION,
    NS_PARAM_JOINT_FRICTION_VELOCITY,
    NS_PARAM_JOINT_ARMATURE,
    NS_PARAM_JOINT_LOWER,
    NS_PARAM_JOINT_UPPER,
    NS_PARAM_JOINT_LIMIT_STIFFNESS,
    NS_PARAM_JOINT_LIMIT_DAMPING,
    NS_PARAM_ACTUATOR_GEAR,
    NS_PARAM_ACTUATOR_KP,
    NS_PARAM_ACTUATOR_KD,
    NS_PARAM_GRAVITY, ///< of the world
    NS_PARAM_GEOM_ORIGIN,
    NS_PARAM_GEOM_ROTATION,
    NS_PARAM_GEOM_SIZE,
    NS_PARAM_CONTACT, ///< component: its number among the parameters of a pair
    NS_PARAM_ACTUATOR_TIME_CONSTANT,
    NS_PARAM_ACTUATOR_GAIN,
    NS_PARAM_ACTUATOR_BIAS,
    NS_PARAM_ACTUATOR_LIMIT,  ///< of control, force and activation
    NS_PARAM_EQUALITY_ANCHOR, ///< component: x y z of anchor_a, then of anchor_b
    NS_PARAM_EQUALITY_ROTATION,
    NS_PARAM_EQUALITY_COEFFICIENT,
    NS_PARAM_MEDIUM, ///< of the world: density, viscosity, wind x y z
    NS_PARAM_TENDON  ///< component: its number among those of a tendon
} ns_param_kind;

typedef struct ns_param {
    const char* name;
    const char* unit; ///< "" for none
    double value;
    double lower, upper; ///< may be infinite
    ns_param_transform transform;
    ns_param_kind kind;
    uint32_t owner;     ///< number of the link, actuator, geometry, pair or equality constraint;
                        ///< UINT32_MAX: the world
    uint32_t component; ///< of a vector or matrix, from 0
    bool spatial;       ///< one number of a vector or tensor in space: x y z, rx ry rz, xx xy ...
    bool may_vanish;    ///< 0 is a value like any other, unlike of a mass or a length: an estimate
                        ///< must be able to reach it, and to leave it again
} ns_param;

NS_API const ns_param* ns_model_param(const ns_model* model, uint32_t number);

/// Number of the parameter with this name; UINT32_MAX when there is none.
NS_API uint32_t ns_model_find_param(const ns_model* model, const char* name);

/// Does a name fit a pattern? `*` stands for any characters but '/', `**` for any at all, `?` for
/// one character but '/'.
NS_API bool ns_glob_match(const char* pattern, const char* name);

#ifdef __cplusplus
}
#endif

#endif
