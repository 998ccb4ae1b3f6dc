// Can every joint be accelerated by a finite force?
//
// Forward dynamics divides by D = S' IA S + armature, the inertia that resists a joint's motion
// when all joints beyond it are free (RBDA, Featherstone 2008, section 7.3). D is zero for a joint
// that moves no mass, for a hinge whose mass lies on its axis without inertia, for two parallel
// sliders with a massless link between them, and so on. Whether it vanishes does not depend on
// where the joints stand, apart from exceptional positions; so it is computed once, at an arbitrary
// one.
//
// What a force of the joint feels is less than D, since the bodies that carry it give way as well:
// 1 / (M^-1)_ii. A second pass, from the root to the leaves, computes it.

#include "model/model_data.h"

#include "dyn/joint.h"
#include "model/pose.h"

#include <math.h>

// Relative to the inertia that would resist if all joints beyond were locked. Rounding leaves some
// 1e-16 of that where it should cancel.
static const double singular = 1e-13;

typedef double matrix6[6][6]; // spatial, angular part first

typedef struct mobility_body {
    matrix6 articulated;           // inertia of the subtree with its joints free
    matrix6 composite;             // the same with its joints locked
    bool followed;                 // by a mimic joint
    ns_pose pose;                  // in the parent
    double s[6][6], u[6][6], d[6]; // of each velocity k: subspace s, U = IA s, and D
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

// The link's pose in its parent where the joint is at `value`, or somewhere if it has no axis.
static ns_pose link_pose(const ns_link_def* def, double value) {
    ns_pose joint = nsi_pose_identity();
    const nsi_joint* type = nsi_joint_get(def->joint_type);
    if (type->pose) type->pose(def, value, &joint);
    return nsi_pose_compose(&def->origin, &joint);
}

// The same at a coordinate of its own: joints without an axis are at their origin.
static ns_pose link_pose_at(const ns_link_def* def, double value) {
    bool has_axis = nsi_joint_get(def->joint_type)->info.has_axis;
    return has_axis ? link_pose(def, value) : def->origin;
}

// X takes motions from the parent's frame to the link's: RBDA eq. (2.24)
static void motion_transform(const ns_pose* pose, matrix6 x) {
    double r[9];
    nsi_quat_to_matrix(pose->quaternion, r); // link to parent, so E = r'
    const double* p = pose->position;
    const double cross[3][3] = {{0.0, -p[2], p[1]}, {p[2], 0.0, -p[0]}, {-p[1], p[0], 0.0}};
    memset(x, 0, sizeof(matrix6));
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            x[i][j] = x[i + 3][j + 3] = r[3 * j + i];
            for (int k = 0; k < 3; k++) x[i + 3][j] -= r[3 * k + i] * cross[k][j];
        }
    }
}

// into += X' spatial X: RBDA eq. (2.66)
static void add_to_parent(const ns_pose* pose, const matrix6 spatial, matrix6 into) {
    matrix6 x;
    motion_transform(pose, x);
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
static joint_state release_joint(const nsi_link* link, mobility_body* body) {
    for (uint32_t k = 0; k < link->nv; k++) {
        double *s = body->s[k], *u = body->u[k], d = link->def.armature, locked = d;
        subspace(&link->def, k, s);
        memset(u, 0, sizeof body->u[k]);
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) {
                u[i] += body->articulated[i][j] * s[j];
                locked += s[i] * body->composite[i][j] * s[j];
            }
            d += s[i] * u[i];
        }
        if (!isfinite(d) || !isfinite(locked)) return TOO_LARGE;
        if (!(d > singular * locked)) return UNRESISTED;
        body->d[k] = d;
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) body->articulated[i][j] -= u[i] * u[j] / d;
        }
    }
    return MOVABLE;
}

// How link i accelerates when a force acts on it, `mobility` (6 x 6, in its frame), from how its
// parent does; and the smallest inertia that a force of its joint feels. With the articulated
// inertias above, an acceleration a of the parent makes the joint accelerate by -U'a / D, and a joint
// force of 1, which acts back on the parent by U / D, by 1/D + U' mobility U / D^2 = (M^-1)_kk.
static double resist_joint(uint32_t nv, const mobility_body* body, const matrix6 parent,
                           matrix6 mobility) {
    // The parent's, in this frame: X parent X'.
    matrix6 x, half = {{0.0}};
    motion_transform(&body->pose, x);
    memset(mobility, 0, sizeof(matrix6));
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 6; k++) {
            for (int j = 0; j < 6; j++) half[i][j] += x[i][k] * parent[k][j];
        }
    }
    for (int i = 0; i < 6; i++) {
        for (int k = 0; k < 6; k++) {
            for (int j = 0; j < 6; j++) mobility[i][j] += half[i][k] * x[j][k];
        }
    }

    // The velocities of the joint, the one next to the parent first.
    double least = INFINITY;
    for (uint32_t n = nv; n-- > 0;) {
        const double *s = body->s[n], *u = body->u[n], d = body->d[n];
        if (d == INFINITY) continue;         // only what follows it resists
        double moved[6] = {0.0}, back = 0.0; // mobility U / D, and U' of it / D
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) moved[i] += mobility[i][j] * u[j] / d;
            back += u[i] * moved[i] / d;
        }
        double own = 1.0 / d + back;
        least = fmin(least, 1.0 / own);
        for (int i = 0; i < 6; i++) {
            for (int j = 0; j < 6; j++) {
                mobility[i][j] += s[i] * own * s[j] - moved[i] * s[j] - s[i] * moved[j];
            }
        }
    }
    return least < INFINITY ? least : 0.0;
}

// The inertias that forces of the joints feel; mimic joints apart, as above.
static ns_status find_resistance(const ns_model* model, const mobility_body* bodies,
                                 double* resistance, ns_error* error) {
    uint32_t n = model->sizes.nlink;
    matrix6* mobility = nsi_alloc(&model->allocator, (n + 1) * sizeof *mobility);
    if (!mobility) return nsi_fail_nomem(error);
    memset(mobility[n], 0, sizeof mobility[n]); // the world's
    for (uint32_t i = 0; i < n; i++) {
        const nsi_link* link = &model->links[i];
        uint32_t parent = link->parent == NSI_NONE ? n : link->parent;
        resistance[i] = resist_joint(link->nv, &bodies[i], mobility[parent], mobility[i]);
    }
    nsi_free(&model->allocator, mobility);
    return NS_OK;
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
        for (int k = 0; k < 6; k++) bodies[i].d[k] = INFINITY;
        if (model->links[i].mimic != NSI_NONE) bodies[model->links[i].mimic].followed = true;
    }

    // From the leaves to the root, each joint releases its own motion.
    ns_status status = NS_OK;
    for (uint32_t i = n; i-- > 0 && status == NS_OK;) {
        const nsi_link* link = &model->links[i];
        // A joint that others follow moves their links too, wherever they are in the tree: whether
        // that resists is not computed here.
        joint_state state = release_joint(link, &bodies[i]);
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

        // What is left of the inertia moves with the parent, at an arbitrary position of the joint.
        bodies[i].pose = link_pose(&link->def, 0.4 + 0.5 * sin(1.7 * i));
        if (link->parent != NSI_NONE) {
            mobility_body* parent = &bodies[link->parent];
            add_to_parent(&bodies[i].pose, bodies[i].articulated, parent->articulated);
            add_to_parent(&bodies[i].pose, bodies[i].composite, parent->composite);
        }
    }

    // From the root to the leaves: what each joint feels.
    if (status == NS_OK) status = find_resistance(model, bodies, resistance, error);
    nsi_free(&model->allocator, bodies);
    return status;
}

ns_status nsi_model_joint_inertia(const ns_model* model, double* diagonal, ns_error* error) {
    uint32_t n = model->sizes.nlink;
    matrix6* composite = nsi_alloc(&model->allocator, (n + 1) * sizeof *composite);
    if (!composite) return nsi_fail_nomem(error);
    for (uint32_t i = 0; i < n; i++) link_inertia(&model->links[i].def, composite[i]);

    // From the leaves to the root: s' I s of all that a joint carries.
    for (uint32_t i = n; i-- > 0;) {
        const nsi_link* link = &model->links[i];
        for (uint32_t k = 0; k < link->nv; k++) {
            double s[6], sum = link->def.armature;
            subspace(&link->def, k, s);
            for (int r = 0; r < 36; r++) sum += s[r / 6] * composite[i][r / 6][r % 6] * s[r % 6];
            diagonal[link->v + k] = sum;
        }
        if (link->parent == NSI_NONE) continue;
        ns_pose pose = link_pose_at(&link->def, 0.0);
        add_to_parent(&pose, composite[i], composite[link->parent]);
    }
    nsi_free(&model->allocator, composite);
    return NS_OK;
}

// The articulated body algorithm at rest (RBDA, table 7.1, without velocities), with a joint's velocities
// eliminated one by one.
ns_status nsi_model_accelerate(const ns_model* model, const double* push, double* acceleration,
                               ns_error* error) {
    uint32_t n = model->sizes.nlink;
    mobility_body* bodies = nsi_alloc(&model->allocator, (n + 1) * sizeof *bodies);
    double(*bias)[6] = nsi_alloc(&model->allocator, (n + 1) * sizeof *bias);
    if (!bodies || !bias) {
        nsi_free(&model->allocator, bodies);
        nsi_free(&model->allocator, bias);
        return nsi_fail_nomem(error);
    }
    for (uint32_t i = 0; i < n; i++) {
        link_inertia(&model->links[i].def, bodies[i].articulated);
        memcpy(bodies[i].composite, bodies[i].articulated, sizeof bodies[i].composite);
        memset(bias[i], 0, sizeof bias[i]);
    }

    // From the leaves to the root: what is left of each push for its joint, in `acceleration`.
    for (uint32_t i = n; i-- > 0;) {
        const nsi_link* link = &model->links[i];
        mobility_body* body = &bodies[i];
        bool released = release_joint(link, body) == MOVABLE;
        for (uint32_t k = 0; k < link->nv; k++) {
            double left = push[link->v + k];
            for (int r = 0; r < 6; r++) left -= body->s[k][r] * bias[i][r];
            if (!released) left = 0.0, body->d[k] = INFINITY;
            acceleration[link->v + k] = left;
            for (int r = 0; r < 6; r++) bias[i][r] += body->u[k][r] / body->d[k] * left;
        }
        body->pose = link_pose_at(&link->def, link->def.reference);
        if (link->parent == NSI_NONE) continue;
        add_to_parent(&body->pose, body->articulated, bodies[link->parent].articulated);
        add_to_parent(&body->pose, body->composite, bodies[link->parent].composite);
        matrix6 x;
        motion_transform(&body->pose, x);
        for (int r = 0; r < 36; r++) bias[link->parent][r % 6] += x[r / 6][r % 6] * bias[i][r / 6];
    }

    // From the root to the leaves: accelerations of links take the place of the biases.
    for (uint32_t i = 0; i < n; i++) {
        const nsi_link* link = &model->links[i];
        const mobility_body* body = &bodies[i];
        double a[6] = {0.0};
        if (link->parent != NSI_NONE) {
            matrix6 x;
            motion_transform(&body->pose, x);
            for (int r = 0; r < 36; r++) a[r / 6] += x[r / 6][r % 6] * bias[link->parent][r % 6];
        }
        for (uint32_t k = link->nv; k-- > 0;) {
            double along = acceleration[link->v + k];
            for (int r = 0; r < 6; r++) along -= body->u[k][r] * a[r];
            along /= body->d[k];
            acceleration[link->v + k] = along;
            for (int r = 0; r < 6; r++) a[r] += body->s[k][r] * along;
        }
        memcpy(bias[i], a, sizeof a);
    }
    nsi_free(&model->allocator, bodies);
    nsi_free(&model->allocator, bias);
    return NS_OK;
}
