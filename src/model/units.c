// Units of coordinates, velocities and forces of joints: sliding components come first, then turning ones.

#include "model/model_data.h"

bool nsi_joint_slides(const nsi_link* l, uint32_t k) {
    return k < ns_joint_type_info(l->def.joint_type)->nlinear;
}

const char* nsi_joint_position_unit(const nsi_link* l, uint32_t k) {
    const ns_joint_info* info = ns_joint_type_info(l->def.joint_type);
    return k < info->nlinear ? "m" : k >= info->quaternion ? "" : "rad";
}

const char* nsi_joint_velocity_unit(const nsi_link* l, uint32_t k) {
    return nsi_joint_slides(l, k) ? "m/s" : "rad/s";
}

const char* nsi_joint_force_unit(const nsi_link* l, uint32_t k) {
    return nsi_joint_slides(l, k) ? "N" : "N m";
}

bool nsi_velocity_slides(const ns_model* model, uint32_t v) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->nv > 0 && v >= l->v && v < l->v + l->nv) return nsi_joint_slides(l, v - l->v);
    }
    return false;
}

const char* nsi_state_unit(const ns_model* model, uint32_t k) {
    uint32_t nq = model->sizes.nq;
    if (k >= nq + model->sizes.nv) return "";
    if (k >= nq) return nsi_velocity_slides(model, k - nq) ? "m/s" : "rad/s";
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->nq > 0 && k >= l->q && k < l->q + l->nq) {
            return nsi_joint_position_unit(l, k - l->q);
        }
    }
    return "";
}

const char* nsi_force_unit(const ns_model* model, uint32_t v) {
    return nsi_velocity_slides(model, v) ? "N" : "N m";
}
