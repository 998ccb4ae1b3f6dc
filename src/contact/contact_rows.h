// Rows of rigid contact: directions at contact points as rows of a Jacobian, and the masses they feel.
// Shared by the laws of stage IMPULSES.

#ifndef NSI_CONTACT_ROWS_H
#define NSI_CONTACT_ROWS_H

#include "contact/contact_stages.h"

// Rows come in blocks of three, as ncp.h takes them: velocity along the normal and the two tangents of a
// candidate; behind it, where it has such friction, 0 and the angular velocity about the normal, and
// 0 and those about the tangents.
enum { NSI_CONTACT_ROWS = 3 };
typedef enum nsi_contact_part {
    NSI_PART_POINT,
    NSI_PART_TORSION,
    NSI_PART_ROLLING
} nsi_contact_part;

typedef struct nsi_row_block {
    uint32_t candidate;
    nsi_contact_part part;
} nsi_row_block;

// Parameters of these laws; the last one is that of the law "baumgarte" alone.
enum {
    NSI_RIGID_MU,
    NSI_RIGID_RESTITUTION,
    NSI_RIGID_BETA,
    NSI_RIGID_MAX_PUSH,
    NSI_RIGID_CFM,
    NSI_RIGID_MARGIN,
    NSI_RIGID_MU_TORSION,
    NSI_RIGID_MU_ROLLING,
    NSI_RIGID_ALPHA,
    NSI_RIGID_NPARAM
};
extern const ns_contact_param nsi_rigid_params[NSI_RIGID_NPARAM];

// Candidates and what the solver needs of them, at one configuration. Z Z' = J M^-1 J'.
typedef struct nsi_contact_rows {
    uint32_t nv, n, rows;      // velocities, blocks, rows
    nsi_row_block* blocks;     // (n)
    nsi_candidates candidates; // at the configuration
    ns_expr* J;                // (rows x nv)
    ns_expr* Z;           // (rows x nv) J L^-1 D^-1/2 with M = L' D L; with equality constraints
                          // what the constrained robot lets be of it (nsi_equality_project())
    ns_expr* M;           // (nv x nv) factors of the mass matrix
    ns_expr* root;        // (nv) D^-1/2
    uint32_t nconstraint; // rows of equality constraints
    ns_expr* answer;      // (rows x nconstraint) their impulses per contact impulse
} nsi_contact_rows;

// Are there few enough for the solver's block? Otherwise the graph has failed.
bool nsi_contact_fits(const nsi_robot* robot, uint32_t n);

// Twists of unit velocities in the world and about its origin, NSI_MAX_DOF per link; NULL when out of
// memory.
motion* nsi_unit_twists(const nsi_robot* robot, const nsi_link_pose* pose);

// Friction coefficient of a block, of a candidate at the start of the step.
ns_expr nsi_contact_block_mu(const nsi_robot* robot, const nsi_candidates* at_start,
                             const nsi_row_block* block);

// Flag of a block whose candidate has this one: 0 when it is off.
ns_expr nsi_contact_block_flag(const nsi_row_block* block, ns_expr flag);

// Row of the Jacobian: velocity of a relative to b along d at the candidate's point.
void nsi_contact_row(const nsi_robot* robot, const motion* twists, const nsi_candidate* candidate,
                     vec3 d, ns_expr* row);

// Factors M (nv x nv) of the mass matrix and root (nv) D^-1/2, as in nsi_contact_rows.
void nsi_mass_factors(const nsi_robot* robot, const ns_expr* added, ns_expr* M, ns_expr* root);

// The rows of all candidates of a law at the robot's configuration, with what networks have done to those
// at the start of the step, and blocks of torsion and rolling where these have coefficients other than the
// constant 0; `added` (nv) as in nsi_aba(), or NULL. False when the graph has failed.
bool nsi_contact_rows_build(const nsi_robot* robot, const nsi_contact_options* options, int law,
                            const nsi_candidates* at_start, const ns_expr* added,
                            nsi_contact_rows* out);

// Add the forces by which equality constraints answer impulses g (rows) over dt to `forces`
// (nconstraint); NULL without any.
void nsi_contact_constraint_forces(const nsi_contact_rows* r, const ns_expr* g, double dt,
                                   ns_expr* forces);

// M^-1 J' g for impulses g (rows), of the constrained robot.
void nsi_contact_respond(const nsi_contact_rows* r, const ns_expr* g, ns_expr* out);

// Name the forces of impulses l (rows) over dt, which networks may change for candidates that are `on`
// (one for each); `at_start` has the candidates that quantities are named after.
void nsi_contact_name_forces(const nsi_robot* robot, const nsi_contact_rows* r,
                             const nsi_candidates* at_start, double dt, const ns_expr* on,
                             ns_expr* l);

ns_expr nsi_row_product(uint32_t n, const ns_expr* a, const ns_expr* b);

#endif
