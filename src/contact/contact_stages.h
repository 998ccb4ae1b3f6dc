// Contact in a time step: the candidate points of all pairs of a model, and the stages in which contact
// laws (law.h) act on them. Forces are added before the accelerations are computed; impulses change the
// velocities after them.

#ifndef NSI_CONTACT_STAGES_H
#define NSI_CONTACT_STAGES_H

#include "contact/law.h"
#include "contact/ncp.h"
#include "contact/shapes.h"
#include "dyn/robot.h"

struct nsi_contact_options {
    int model;             // number of a law for all pairs; -1: as each pair says
    nsi_friction friction; // of impulses
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
    nsi_contact_point seen; // for quantities: the same, also where the shapes are not near
    vec3 tangent[2];        // with the normal a right-handed frame: normal, tangent 1, tangent 2
} nsi_candidate;

typedef struct nsi_candidates {
    uint32_t count;
    nsi_candidate* data;
} nsi_candidates;

// A pair of geometries where they are now: all that the trace of its points reads.
typedef struct nsi_placed_pair {
    uint32_t number;    // of the pair
    int law;            // that it follows
    uint32_t npoint;    // candidates
    nsi_shape shape[2]; // in the world
    uint32_t body[2];   // moving bodies, or NSI_NONE; what follows is not used then
    nsi_link_pose pose[2];
    motion velocity[2]; // twists in their frames
    bool on_link;       // is the first geometry on a link, and where is that?
    nsi_link_pose link;
    const uint32_t* slot;                  // as in nsi_candidate
    ns_expr params[NS_CONTACT_MAX_PARAMS]; // of the law
} nsi_placed_pair;

// ---- candidates.c ---------------------------------------------------------------------------------

// The points of all pairs that follow law number `law`, with the links at `pose`. False when the trace
// has failed.
bool nsi_candidates_find(const nsi_robot* robot, const nsi_link_pose* pose,
                         const nsi_contact_options* options, int law, nsi_candidates* out);

// The same, where points need only exist while balls around the shapes are within `reach` (m) of each
// other. Otherwise they do not, and cost next to nothing.
bool nsi_candidates_find_within(const nsi_robot* robot, const nsi_link_pose* pose,
                                const nsi_contact_options* options, int law, ns_expr reach,
                                nsi_candidates* out);

// How many there are.
uint32_t nsi_candidates_count(const ns_model* model, const nsi_contact_options* options, int law);

// Parameter k of the candidate's law.
ns_expr nsi_candidate_param(const nsi_robot* robot, const nsi_candidate* candidate, uint32_t k);

// The same pair by pair. Numbers of a law's parameters among those of a pair; NULL when the trace has
// failed.
const uint32_t* nsi_law_slots(const nsi_robot* robot, int law);

// Pair `number`, if it follows the law.
bool nsi_pair_place(const nsi_robot* robot, const nsi_link_pose* pose,
                    const nsi_contact_options* options, int law, const uint32_t* slot,
                    uint32_t number, nsi_placed_pair* out);

// 0: balls around the two shapes are apart, so nothing can touch.
ns_expr nsi_pair_near(const nsi_placed_pair* pair);

// 0: they are apart by `reach` (m) or more.
ns_expr nsi_pair_within(const nsi_placed_pair* pair, ns_expr reach);

// Its candidates, (npoint), with expressions of the current graph.
void nsi_pair_candidates(const nsi_placed_pair* pair, ns_expr near, nsi_candidate* out);

// A quantity contact/<pair>/<index>/<what>, to go on with.
ns_expr nsi_candidate_named(const nsi_robot* robot, const nsi_candidate* candidate,
                            const char* what, const char* unit, ns_expr x);

// Names position, normal and the place on the first geometry's link, and gives the gap after its
// depth has been named.
ns_expr nsi_candidate_gap(const nsi_robot* robot, const nsi_link_pose* pose,
                          const nsi_candidate* candidate);

// The same; `link` is where the first geometry's link is, or NULL.
ns_expr nsi_candidate_gap_on(const nsi_robot* robot, const nsi_link_pose* link,
                             const nsi_candidate* candidate);

// Names the force on the first geometry, in the world, for those who look at it.
void nsi_candidate_force(const nsi_robot* robot, const nsi_candidate* candidate, vec3 f);

// ---- pair_function.c ---------------------------------------------------------------------------

// Writes outputs from the expressions of a pair, and names quantities of its points. The robot has the
// model and the graph that is traced; nothing else of it may be read.
typedef void nsi_pair_trace(const nsi_robot* robot, const nsi_placed_pair* pair, ns_expr* out);

typedef struct nsi_pair_work {
    nsi_pair_trace* trace;
    uint32_t noutput;
    uint32_t noff; // outputs where the call is inactive: these numbers again and again; 0: zero
    const double* off;
} nsi_pair_work;

// Are there so many pairs of this kind that a function for them pays?
bool nsi_pair_is_frequent(const nsi_robot* robot, const nsi_contact_options* options,
                          const nsi_placed_pair* pair);

// Does a network, or who else asks for quantities, look at those of its points?
bool nsi_pair_is_augmented(const nsi_robot* robot, const nsi_placed_pair* pair);

// The outputs (noutput) of the work by a call of a function that all pairs of the kind share. Quantities
// that it names can be observed whether the call is `active` or not.
void nsi_pair_call(const nsi_robot* robot, const nsi_placed_pair* pair, ns_expr active,
                   const nsi_pair_work* work, ns_expr* out);

// ---- stages.c --------------------------------------------------------------------------------

// Add the forces of all laws of stage FORCES to `external` (nlink), the forces on bodies in their own
// frames.
void nsi_contact_forces(const nsi_robot* robot, const nsi_contact_options* options,
                        force* external);

// Has a pair of the model a law of stage IMPULSES?
bool nsi_contact_has_impulses(const ns_model* model, const nsi_contact_options* options);

struct nsi_impact {
    ns_expr* qd;                  // (nv) velocities after the step; holds those without contact
    ns_expr* position_correction; // (nv) dt * qd overshoots because impulses act from the impact on
    ns_expr residual;             // of the complementarity conditions, relative; 0 without impulses
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
