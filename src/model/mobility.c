// Can every joint be accelerated by a finite force?
//
// Forward dynamics divides by D = S' IA S + armature, the inertia that resists a joint's motion
// when all joints beyond it are free (RBDA, Featherstone 2008, section 7.3). D is zero for a joint
// that moves no mass, for a hinge whose mass lies on its axis without inertia, for two parallel
// sliders with a massless link between them, and so on. Whether it vanishes does not depend on
// where the joints stand, apart from exceptional positions; so it is computed once, at an arbitrary
// one.

#include "model/model_data.h"

#include "dyn/joint.h"
#include "model/pose.h"

#include <math.h>

// Relative to the inertia that would resist if all joints beyond were locked. Rounding leaves some
// 1e-16 of that where it should cancel.
static const double singular = 1e-13;

typedef double matrix6[6][6]; // spatial, angular part first

typedef struct mobility_body {
    matrix6 articulated; // inertia of the subtree with its joints free
    matrix6 composite;   // the same with its joints locked
    bool followed;       // by a mimic joint
} mobility_body;

// Inertia about the link's origin from mass, centre of mass c and inertia at c:
//     [ I + m cx cx'   m cx ]
//     [     m cx'       m 1 ]
static void link_inertia(const ns_link_def* def, matrix6 out) {
    double m = def->mass, moments[6];
    const double* c = def->com;
    memcpy(moments, def->inertia, sizeof moments);
    nsi_inertia_shift(m, c, moments);
    const double full[3][3] = {{moments[0], moments[3], moments[4]},
                               {moments[3], moments[1], moments[5]},
                               {moments[4], moments[5], moments[2]}};
    const double cross[3][3] = {{0.0, -c[2], c[1]}, {c[2], 0.0, -c[0]}, {-c[1], c[0], 0.0}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            out[i][j] = full[i][j];
            out[i][j + 3] = m * cross[i][j];
            out[i + 3][j] = m * cross[j][i];
            out[i + 3][j + 3] = i == j ? m : 0.0;
        }
    }
}

// The link's pose in its parent at an arbitrary position of the joint.
static ns_pose link_pose(const ns_link_def* def, uint32_t number) {
    ns_pose joint = nsi_pose_identity();
    double value = 0.4 + 0.5 * sin(1.7 * number);
    const nsi_joint* type = nsi_joint_get(def->joint_type);
    if (type->pose) type->pose(def, value, &joint);
    return nsi_pose_compose(&def->origin, &joint);
}

// into += X' spatial X, with X taking motions from the parent's frame to the link's: RBDA eq.
// (2.66)
static void add_to_parent(const ns_pose* pose, const matrix6 spatial, matrix6 into) {
    double r[9];
    nsi_quat_to_matrix(pose->quaternion, r); // link to parent, so E = r'
    const double* p = pose->position;
    const double cross[3][3] = {{0.0, -p[2], p[1]}, {p[2], 0.0, -p[0]}, {-p[1], p[0], 0.0}};
    matrix6 x = {{0.0}};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            x[i][j] = x[i + 3][j + 3] = r[3 * j + i];
            for (int k = 0; k < 3; k++) x[i + 3][j] -= r[3 * k + i] * cross[k][j];
        }
    }
    matrix6 ix = {{0.0}};
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 6; k++) {
            for (int j = 0; j < 6; j++) ix[i][j] += spatial[i][k] * x[k][j];
        }
    }
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) into[i][j] += x[k][i] * ix[k][j];
        }
    }
}

// Column k of the joint's motion subspace.
static void subspace(const ns_link_def* def, uint32_t k, double s[6]) {
    for (int i = 0; i < 6; i++) s[i] = 0.0;
    nsi_joint_get(def->joint_type)->subspace(def, k, s);
}

typedef enum joint_state { MOVABLE, UNRESISTED, TOO_LARGE } joint_state;

// Take the joint's freedom out of the articulated inertia, one velocity at a time:
// IA <- IA - U U' / D with U = IA s. The later velocities of a joint then see what the earlier
// ones leave, which is elimination on S' IA S.
static joint_state release_joint(const nsi_link* link, mobility_body* body, double* resistance) {
    *resistance = 0.0;
    for (uint32_t k = 0; k < link->nv; k++) {
        double s[6], u[6] = {0.0}, d = link->def.armature, locked = d;
        subspace(&link->def, k, s);
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) {
                u[i] += body->articulated[i][j] * s[j];
                locked += s[i] * body->composite[i][j] * s[j];
            }
            d += s[i] * u[i];
        }
        if (!isfinite(d) || !isfinite(locked)) return TOO_LARGE;
        if (!(d > singular * locked)) return UNRESISTED;
        *resistance = d;
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) body->articulated[i][j] -= u[i] * u[j] / d;
        }
    }
    return MOVABLE;
}

ns_status nsi_model_check_mobility(const ns_model* model, double* resistance, uint32_t* bad_link,
                                   ns_error* error) {
    uint32_t n = model->sizes.nlink;
    mobility_body* bodies = nsi_alloc(&model->allocator, n * sizeof *bodies);
    if (!bodies) return nsi_fail_nomem(error);

    // Inertias of single links to begin with.
    for (uint32_t i = 0; i < n; i++) {
        link_inertia(&model->links[i].def, bodies[i].articulated);
        memcpy(bodies[i].composite, bodies[i].articulated, sizeof bodies[i].composite);
        bodies[i].followed = false;
        if (model->links[i].mimic != NSI_NONE) bodies[model->links[i].mimic].followed = true;
    }

    // From the leaves to the root, each joint releases its own motion.
    ns_status status = NS_OK;
    for (uint32_t i = n; i-- > 0 && status == NS_OK;) {
        const nsi_link* link = &model->links[i];
        // A joint that others follow moves their links too, wherever they are in the tree: whether
        // that resists is not computed here.
        joint_state state = release_joint(link, &bodies[i], &resistance[i]);
        if (state != MOVABLE && !bodies[i].followed) {
            *bad_link = i;
            status =
                state == TOO_LARGE
                    ? nsi_fail(error, NS_ERR_ARGUMENT,
                               "joint \"%s\": the masses or inertias it moves are too large to "
                               "compute with",
                               link->def.joint)
                    : nsi_fail(error, NS_ERR_ARGUMENT,
                               "joint \"%s\": no inertia resists its motion, or only that "
                               "of a joint that moves the same way; give link \"%s\" mass and "
                               "inertia, or the joint armature, or make it fixed",
                               link->def.joint, link->def.name);
        }

        // What is left of the inertia moves with the parent.
        if (link->parent != NSI_NONE) {
            ns_pose pose = link_pose(&link->def, i);
            mobility_body* parent = &bodies[link->parent];
            add_to_parent(&pose, bodies[i].articulated, parent->articulated);
            add_to_parent(&pose, bodies[i].composite, parent->composite);
        }
    }
    nsi_free(&model->allocator, bodies);
    return status;
}
