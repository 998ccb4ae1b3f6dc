// Tendons where all joints are at their rest: the length that a spring has there, and the moments that
// the stiffness of automatic limits follows from. In numbers; src/dyn/transmission.c traces them.

#include "dyn/joint.h"
#include "model/model_data.h"
#include "model/pose.h"

#include <math.h>

static void rotate(const double q[4], const double v[3], double out[3]) {
    double r[9];
    nsi_quat_to_matrix(q, r);
    for (int i = 0; i < 3; i++)
        out[i] = r[3 * i] * v[0] + r[3 * i + 1] * v[1] + r[3 * i + 2] * v[2];
}

static void find_poses(const ns_model* model, ns_pose* pose) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const ns_link_def* def = &model->links[i].def;
        const nsi_joint* type = nsi_joint_get(def->joint_type);
        ns_pose joint = nsi_pose_identity();
        if (type->info.has_axis) type->pose(def, def->rest, &joint);
        pose[i] = nsi_pose_compose(&def->origin, &joint);
        uint32_t parent = model->links[i].parent;
        if (parent != NSI_NONE) pose[i] = nsi_pose_compose(&pose[parent], &pose[i]);
    }
}

// Add the moments of a force at a point of a link, along all joints that carry it.
static void add_moments(const ns_model* model, const ns_pose* pose, uint32_t link,
                        const double point[3], const double along[3], double* moment) {
    for (uint32_t i = link; i != NSI_NONE; i = model->links[i].parent) {
        const nsi_link* l = &model->links[i];
        double arm[3];
        for (int k = 0; k < 3; k++) arm[k] = point[k] - pose[i].position[k];
        for (uint32_t k = 0; k < l->nv; k++) {
            double s[6] = {0.0}, turn[3], slide[3], lever[3];
            nsi_joint_get(l->def.joint_type)->subspace(&l->def, k, s);
            rotate(pose[i].quaternion, s, turn);
            rotate(pose[i].quaternion, s + 3, slide);
            nsi_cross(turn, arm, lever);
            for (int c = 0; c < 3; c++) moment[l->v + k] += along[c] * (slide[c] + lever[c]);
        }
    }
}

ns_status nsi_tendon_at_rest(const ns_model* model, const nsi_tendon* tendon, double* length,
                             double* moment, ns_error* error) {
    ns_pose* pose = nsi_alloc(&model->allocator, (model->sizes.nlink + 1) * sizeof *pose);
    if (!pose) return nsi_fail_nomem(error);
    memset(moment, 0, model->sizes.nv * sizeof *moment);
    find_poses(model, pose);

    // Joints by their coefficients; or distances of sites, of each branch by its divisor.
    double sum = 0.0, divisor = 1.0, before[3] = {0.0};
    uint32_t last = NSI_NONE;
    for (uint32_t k = 0; k < tendon->def.npart; k++) {
        const nsi_tendon_part* part = &tendon->parts[k];
        if (part->link != NSI_NONE) {
            const nsi_link* l = &model->links[part->link];
            sum += part->factor * l->def.rest;
            moment[l->v] += part->factor * (l->mimic == NSI_NONE ? 1.0 : l->def.mimic_multiplier);
            continue;
        }
        if (part->site == NSI_NONE) {
            divisor = part->factor, last = NSI_NONE;
            continue;
        }
        const nsi_model_site* site = &model->sites[part->site];
        ns_pose at = site->def.pose;
        if (site->link != NSI_NONE) at = nsi_pose_compose(&pose[site->link], &at);
        double along[3], distance = 0.0;
        for (int c = 0; c < 3; c++) along[c] = at.position[c] - before[c];
        for (int c = 0; c < 3; c++) distance += along[c] * along[c];
        distance = sqrt(distance);
        if (last != NSI_NONE && distance > 0.0) {
            sum += distance / divisor;
            for (int c = 0; c < 3; c++) along[c] /= distance * divisor;
            add_moments(model, pose, site->link, at.position, along, moment);
            for (int c = 0; c < 3; c++) along[c] = -along[c];
            add_moments(model, pose, model->sites[last].link, before, along, moment);
        }
        memcpy(before, at.position, sizeof before);
        last = part->site;
    }
    nsi_free(&model->allocator, pose);
    *length = sum;
    return NS_OK;
}
