// Contact in a time step: the candidate points of all pairs of a model, and the stages in which contact
// laws (law.h) act on them. Forces are added before the accelerations are computed; impulses change the
// velocities after them.

#ifndef NSI_CONTACT_STAGES_H
#define NSI_CONTACT_STAGES_H

#include "contact/law.h"
#include "contact/ncp.h"
#include "contact/shapes.h"
#include "dyn/robot.h"

// How rigid contacts are found: see scene.h.
typedef enum nsi_detection {
    NSI_DETECT_AUTO,
    NSI_DETECT_TRACED,  // each traced into the step, with names and networks
    NSI_DETECT_RUN_TIME // when the step runs
} nsi_detection;

struct nsi_contact_options {
    int model;             // number of a law for all pairs; -1: as each pair says
    nsi_friction friction; // of impulses
    nsi_detection detection;
    uint32_t sweeps; // 0: solved exactly; otherwise so many sweeps, differentiated as they are
};

// A point at which a pair can touch.
typedef struct nsi_candidate {
    const ns_contact_law* law; // of its pair
    const uint32_t* slot; // (nparam of the law) numbers of its parameters in the pair, or NSI_NONE
    uint32_t pair, index; // the index'th point of the pair
    uint32_t body_a, body_b; // moving bodies, or NSI_NONE
    ns_expr near;            // 0: balls around the two shapes are apart, so nothing can touch
    nsi_contact_point point;
    vec3 tangent[2]; // with the normal a right-handed frame: normal, tangent 1, tangent 2
    ns_expr* param;  // (nparam of the law) known so far, invalid before: nsi_candidate_param()

    // What networks did to position and normal (nsi_candidates_name()).
    bool named, moved, turned;
    vec3 displacement, turn;
} nsi_candidate;

typedef struct nsi_candidates {
    uint32_t count;
    nsi_candidate* data;
    const nsi_link_pose* pose; // of links, where they were found
} nsi_candidates;

// ---- candidates.c ---------------------------------------------------------------------------------

// The points of all pairs that follow law number `law`, with the links at `pose`, which must live as long
// as `out`. With `at_start` they are the same points as there, where the links are now. False when the
// trace has failed.
bool nsi_candidates_find(const nsi_robot* robot, const nsi_link_pose* pose,
                         const nsi_contact_options* options, int law,
                         const nsi_candidates* at_start, nsi_candidates* out);

// A geometry of the model where it is in the world, with the links at `pose`.
nsi_shape nsi_geom_shape(const nsi_robot* robot, const nsi_link_pose* pose, uint32_t geom);

// Two unit vectors that make a frame with the unit vector n.
void nsi_contact_tangents(vec3 n, vec3 t[2]);

// How many there are.
uint32_t nsi_candidates_count(const ns_model* model, const nsi_contact_options* options, int law);

// Name position and normal of all points, once per step; networks there change them and the tangents. Before
// anything is computed from them.
void nsi_candidates_name(const nsi_robot* robot, nsi_candidates* candidates);

// The same points of a robot that has moved since: what networks did to the named ones is done to them.
void nsi_candidates_follow(const nsi_candidates* named, nsi_candidates* moved);

// Is it the constant 0, whatever parameters are?
bool nsi_is_zero_constant(const nsi_robot* robot, ns_expr x);

// Parameter k of the candidate's law at this point. Friction and restitution are quantities of the point,
// contact/<pair>/<index>/mu, restitution, and where they are not the constant 0 mu_torsion, mu_rolling:
// asked of candidates of the state at which a step begins, not of those of a moved robot.
ns_expr nsi_candidate_param(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t k);

// The pair's value of parameter k, from which that of the point follows.
ns_expr nsi_pair_param(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t k);

// Numbers of a law's parameters among those of a pair; NULL when the trace has failed.
const uint32_t* nsi_contact_find_slots(const nsi_robot* robot, int law);

// A quantity contact/<pair>/<index>/<what>, to go on with.
ns_expr nsi_candidate_named(const nsi_robot* robot, const nsi_candidate* candidate,
                            const char* what, const char* unit, ns_expr x);

// Names the place on the first geometry's link, and gives the gap after its depth has been named. Position
// and normal are named as well, to look at only, if nsi_candidates_name() did not.
ns_expr nsi_candidate_gap(const nsi_robot* robot, const nsi_link_pose* pose,
                          const nsi_candidate* candidate);

// Names the force on the first geometry, in the world, for those who look at it.
void nsi_candidate_force(const nsi_robot* robot, const nsi_candidate* candidate, vec3 f);

// ---- stages.c --------------------------------------------------------------------------------

// Add the forces of all laws of stage FORCES to `external` (nlink), the forces on bodies in their own
// frames. With `implicit` returns how they resist a change of the velocities in a step of dt seconds,
// for robot->resistance; NULL when there are none.
nsi_contact_resistance* nsi_contact_forces(const nsi_robot* robot,
                                           const nsi_contact_options* options, double dt,
                                           bool implicit, force* external);

// Has a pair of the model a law of stage IMPULSES?
bool nsi_contact_has_impulses(const ns_model* model, const nsi_contact_options* options);

// Does the quantity of this name tell how a solver worked? Counts and rounding have no derivative.
bool nsi_contact_is_diagnostic(const char* quantity);

struct nsi_impact {
    ns_expr* qd;                  // (nv) velocities after the step; holds those without contact
    ns_expr* position_correction; // (nv) dt * qd overshoots because impulses act from the impact on
    ns_expr residual;             // of the complementarity conditions, relative; 0 without impulses
    ns_expr relaxation;           // 0, or the least cfm of a softer problem that was solved instead
    ns_expr*
        constraint; // forces of equality constraints in the step (dyn/equality.h), to which those
                    // that answer contact are added; NULL without any
};

// The impulses, of the one law of stage IMPULSES, of a step of dt seconds from the robot's state. qdd (nv) are the accelerations
// without contact; `added` (nv) as in nsi_aba().
void nsi_contact_impulses(const nsi_robot* robot, const nsi_contact_options* options, double dt,
                          const ns_expr* qdd, const ns_expr* added, nsi_impact* impact);

// A contact point while its law is traced; `given` is what the law sees.
typedef struct nsi_point_trace {
    ns_contact_point given;
    const nsi_robot* robot;
    const nsi_candidate* candidate;
} nsi_point_trace;

// ---- sweeps.c --------------------------------------------------------------------------------

// `sweeps` sweeps of projected Gauss-Seidel from zero as plain expressions, so that derivatives go
// through them as they are: the form of the paper, for comparison. A (3n x 3n), b (3n), mu (n),
// on (n); writes l (3n).
void nsi_ncp_sweeps(uint32_t n, nsi_friction friction, uint32_t sweeps, const ns_expr* A,
                    const ns_expr* b, const ns_expr* mu, const ns_expr* on, ns_expr* l);

// By how much impulses l miss their conditions: what one more, simultaneous sweep would change,
// relative to the largest.
ns_expr nsi_ncp_residual(uint32_t n, nsi_friction friction, const ns_expr* A, const ns_expr* b,
                         const ns_expr* mu, const ns_expr* on, const ns_expr* l);

#endif
