// What a model holds, by number.

#include "model/model_data.h"

#include <float.h>
#include <math.h>

void ns_model_free(ns_model* model) {
    if (!model) return;
    ns_allocator allocator = model->allocator; // the model itself is in the block
    nsi_free(&allocator, model);
}

ns_model_sizes ns_model_get_sizes(const ns_model* model) {
    return model ? model->sizes : (ns_model_sizes){0};
}

const char* ns_model_name(const ns_model* model) {
    return model ? model->name : "";
}

const ns_world_def* ns_model_world(const ns_model* model) {
    return model ? &model->world : NULL;
}

const ns_link_def* ns_model_link(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nlink ? &model->links[number].def : NULL;
}

const ns_geom_def* ns_model_geom(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.ngeom ? &model->geoms[number].def : NULL;
}

const ns_actuator_def* ns_model_actuator(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nu ? &model->actuators[number].def : NULL;
}

const ns_contact_def* ns_model_contact(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.ncontact ? &model->contacts[number].def : NULL;
}

const ns_equality_def* ns_model_equality(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nequality ? &model->equalities[number].def : NULL;
}

uint32_t ns_model_equality_rows(const ns_model* model, uint32_t number) {
    static const uint32_t rows[] = {
        [NS_EQUALITY_JOINT] = 1, [NS_EQUALITY_CONNECT] = 3, [NS_EQUALITY_WELD] = 6};
    const ns_equality_def* def = ns_model_equality(model, number);
    return def && !def->inactive ? rows[def->type] : 0;
}

const ns_site_def* ns_model_site(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nsite ? &model->sites[number].def : NULL;
}

const ns_tendon_def* ns_model_tendon(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.ntendon ? &model->tendons[number].def : NULL;
}

const ns_sensor_def* ns_model_sensor(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nsensor ? &model->sensors[number].def : NULL;
}

const char* ns_model_ignored(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nignored ? model->ignored[number] : NULL;
}

ns_ignored_effect ns_model_ignored_effect(const ns_model* model, uint32_t number) {
    const char* note = ns_model_ignored(model, number);
    if (note && strstr(note, "changes the motion")) return NS_IGNORED_CHANGING;
    if (note && strstr(note, "may change the motion")) return NS_IGNORED_UNKNOWN;
    return NS_IGNORED_HARMLESS;
}

uint32_t ns_model_link_parent(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nlink ? model->links[number].parent : NSI_NONE;
}

uint32_t ns_model_joint_q(const ns_model* model, uint32_t number) {
    if (!model || number >= model->sizes.nlink) return NSI_NONE;
    const nsi_link* link = &model->links[number];
    return link->nq > 0 ? link->q : NSI_NONE;
}

uint32_t ns_model_joint_v(const ns_model* model, uint32_t number) {
    if (!model || number >= model->sizes.nlink) return NSI_NONE;
    const nsi_link* link = &model->links[number];
    return link->nv > 0 ? link->v : NSI_NONE;
}

void nsi_links_default_q(const nsi_link* links, uint32_t count, double* q) {
    for (uint32_t i = 0; i < count; i++) {
        const nsi_link* link = &links[i];
        double* at = q + link->q;
        if (link->nq == 0) continue;
        memset(at, 0, link->nq * sizeof *at);
        if (link->nq == 1) at[0] = link->def.reference;
        const ns_joint_info* info = ns_joint_type_info(link->def.joint_type);
        if (info->quaternion < info->nq) at[info->quaternion] = 1.0;
        if (info->in_world) {
            memcpy(at, link->def.origin.position, 3 * sizeof *at);
            memcpy(at + 3, link->def.origin.quaternion, 4 * sizeof *at);
        }
    }
}

void ns_model_default_q(const ns_model* model, double* q) {
    if (!model || !q) return;
    if (model->sizes.nkeyframe > 0) {
        memcpy(q, model->keyframes[0].def.q, model->sizes.nq * sizeof *q);
    } else {
        nsi_links_default_q(model->links, model->sizes.nlink, q);
    }
}

// By how much its length is not 1; negative when it cannot be made so.
static double normalize_quaternion(double q[4]) {
    double length = sqrt(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3]);
    if (!(length > 0.0) || !isfinite(length)) return -1.0;
    double off = fabs(length - 1.0);
    if (off <= 4.0 * DBL_EPSILON) return off; // as good as it gets: keep its bits
    for (int k = 0; k < 4; k++) q[k] /= length;
    return off;
}

double nsi_links_normalize_q(const nsi_link* links, uint32_t count, double* q) {
    double worst = 0.0;
    bool fine = true;
    for (uint32_t i = 0; i < count; i++) {
        const nsi_link* link = &links[i];
        if (link->nq < 4) continue;
        double off = normalize_quaternion(q + link->q + link->nq - 4); // the last coordinates
        fine = fine && off >= 0.0;
        worst = fmax(worst, off);
    }
    return fine ? worst : -1.0;
}

double ns_model_normalize_q(const ns_model* model, double* q) {
    return nsi_links_normalize_q(model->links, model->sizes.nlink, q);
}

uint32_t ns_model_find_link(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        if (strcmp(model->links[i].def.name, name) == 0) return i;
    }
    return UINT32_MAX;
}

uint32_t ns_model_find_joint(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        if (strcmp(model->links[i].def.joint, name) == 0) return i;
    }
    return UINT32_MAX;
}

uint32_t ns_model_find_geom(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < model->sizes.ngeom; i++) {
        if (strcmp(model->geoms[i].def.name, name) == 0) return i;
    }
    return UINT32_MAX;
}
