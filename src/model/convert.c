// States in the layouts of Pinocchio and PyBullet: one function per direction and neighbour.

#include "neuralsim/convert.h"
#include "model/model_data.h"

#include <math.h>

// y = R(q) x for a unit quaternion w x y z; `back` turns with the conjugate.
static void rotate(const double quaternion[4], const double x[3], bool back, double y[3]) {
    double w = quaternion[0], s = back ? -1.0 : 1.0;
    const double u[3] = {s * quaternion[1], s * quaternion[2], s * quaternion[3]};
    // x + 2 u x (u x x + w x)
    double t[3];
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        t[i] = 2.0 * (u[j] * x[k] - u[k] * x[j]);
    }
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        y[i] = x[i] + w * t[i] + (u[j] * t[k] - u[k] * t[j]);
    }
}

static void cross(const double a[3], const double b[3], double c[3]) {
    for (int i = 0; i < 3; i++) {
        int j = (i + 1) % 3, k = (i + 2) % 3;
        c[i] = a[j] * b[k] - a[k] * b[j];
    }
}

static void wxyz_to_xyzw(const double* from, double* to) {
    double w = from[0];
    to[0] = from[1], to[1] = from[2], to[2] = from[3], to[3] = w;
}

static void xyzw_to_wxyz(const double* from, double* to) {
    double w = from[3], x = from[0], y = from[1], z = from[2];
    to[0] = w, to[1] = x, to[2] = y, to[3] = z;
}

static void copy(const double* from, double* to, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) to[k] = from[k];
}

// ---- Pinocchio -----------------------------------------------------------------------------

static bool is_cos_sin(const nsi_link* l, bool continuous_as_cos_sin) {
    const ns_joint_info* info = ns_joint_type_info(l->def.joint_type);
    return continuous_as_cos_sin && l->nq == 1 && info->nlinear == 0 && !l->def.limited;
}

uint32_t ns_pinocchio_nq(const ns_model* model, bool continuous_as_cos_sin) {
    uint32_t nq = 0;
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        nq += model->links[i].nq + is_cos_sin(&model->links[i], continuous_as_cos_sin);
    }
    return nq;
}

void ns_state_to_pinocchio(const ns_model* model, bool continuous_as_cos_sin, const double* q,
                           const double* qd, double* pin_q, double* pin_v) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        const double *lq = q + l->q, *lv = qd + l->v;
        if (l->nq == 7) {
            copy(lq, pin_q, 3);
            wxyz_to_xyzw(lq + 3, pin_q + 3);
            rotate(lq + 3, lv, true, pin_v);
            copy(lv + 3, pin_v + 3, 3);
        } else if (l->nq == 4) {
            wxyz_to_xyzw(lq, pin_q);
            copy(lv, pin_v, 3);
        } else if (is_cos_sin(l, continuous_as_cos_sin)) {
            pin_q[0] = cos(lq[0]);
            pin_q[1] = sin(lq[0]);
            pin_v[0] = lv[0];
            pin_q++;
        } else if (l->nq == 1) {
            pin_q[0] = lq[0];
            pin_v[0] = lv[0];
        }
        pin_q += l->nq;
        pin_v += l->nv;
    }
}

void ns_state_from_pinocchio(const ns_model* model, bool continuous_as_cos_sin, const double* pin_q,
                             const double* pin_v, double* q, double* qd) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        double *lq = q + l->q, *lv = qd + l->v;
        if (l->nq == 7) {
            copy(pin_q, lq, 3);
            xyzw_to_wxyz(pin_q + 3, lq + 3);
            rotate(lq + 3, pin_v, false, lv);
            copy(pin_v + 3, lv + 3, 3);
        } else if (l->nq == 4) {
            xyzw_to_wxyz(pin_q, lq);
            copy(pin_v, lv, 3);
        } else if (is_cos_sin(l, continuous_as_cos_sin)) {
            lq[0] = atan2(pin_q[1], pin_q[0]);
            lv[0] = pin_v[0];
            pin_q++;
        } else if (l->nq == 1) {
            lq[0] = pin_q[0];
            lv[0] = pin_v[0];
        }
        pin_q += l->nq;
        pin_v += l->nv;
    }
}

// ---- PyBullet ------------------------------------------------------------------------------

void ns_state_to_pybullet(const ns_model* model, const double* q, const double* qd,
                          double* bullet_q, double* bullet_v) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        const double *lq = q + l->q, *lv = qd + l->v;
        double *bq = bullet_q + l->q, *bv = bullet_v + l->v;
        if (l->nq == 7) {
            double arm[3], omega[3], spin[3];
            rotate(lq + 3, l->def.com, false, arm);
            rotate(lq + 3, lv + 3, false, omega);
            cross(omega, arm, spin);
            for (int k = 0; k < 3; k++) {
                bq[k] = lq[k] + arm[k];
                bv[k] = lv[k] + spin[k];
                bv[3 + k] = omega[k];
            }
            wxyz_to_xyzw(lq + 3, bq + 3);
        } else if (l->nq == 4) {
            wxyz_to_xyzw(lq, bq);
            copy(lv, bv, 3);
        } else {
            copy(lq, bq, l->nq);
            copy(lv, bv, l->nv);
        }
    }
}

void ns_state_from_pybullet(const ns_model* model, const double* bullet_q, const double* bullet_v,
                            double* q, double* qd) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        const double *bq = bullet_q + l->q, *bv = bullet_v + l->v;
        double *lq = q + l->q, *lv = qd + l->v;
        if (l->nq == 7) {
            double arm[3], spin[3];
            xyzw_to_wxyz(bq + 3, lq + 3);
            rotate(lq + 3, l->def.com, false, arm);
            cross(bv + 3, arm, spin);
            for (int k = 0; k < 3; k++) {
                lq[k] = bq[k] - arm[k];
                lv[k] = bv[k] - spin[k];
            }
            rotate(lq + 3, bv + 3, true, lv + 3);
        } else if (l->nq == 4) {
            xyzw_to_wxyz(bq, lq);
            copy(bv, lv, 3);
        } else {
            copy(bq, lq, l->nq);
            copy(bv, lv, l->nv);
        }
    }
}
