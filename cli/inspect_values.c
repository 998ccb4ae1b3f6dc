// The values that `inspect` shows: those of the model, or of the hybrid model that changes them.

#include "inspect_values.h"

#include <string.h>

double inspect_param_value(const inspect_additions* a, const ns_param* p) {
    double value = p->value;
    for (uint32_t k = 0; k < a->options.nset; k++) {
        const ns_param_value* set = &a->options.set[k];
        if (ns_glob_match(set->pattern, p->name)) value = set->value;
    }
    return value;
}

// Where a definition holds the value of a parameter; NULL for one that is not printed.
typedef struct definitions {
    ns_link_def* link;
    ns_actuator_def* actuator;
    ns_geom_def* geom;
    ns_contact_def* contact;
} definitions;

static double* param_place(const definitions* d, const ns_param* p) {
    ns_link_def* l = d->link;
    ns_actuator_def* a = d->actuator;
    const char* last = strrchr(p->name, '/');
    if (d->contact && p->kind == NS_PARAM_CONTACT && last) {
        ns_contact_def* c = d->contact;
        if (strcmp(last, "/mu") == 0) return &c->mu;
        if (strcmp(last, "/mu_torsion") == 0) return &c->mu_torsion;
        if (strcmp(last, "/mu_rolling") == 0) return &c->mu_rolling;
        return strcmp(last, "/restitution") == 0 ? &c->restitution : NULL;
    }
    switch (p->kind) {
    case NS_PARAM_MASS: return l ? &l->mass : NULL;
    case NS_PARAM_COM: return l ? &l->com[p->component] : NULL;
    case NS_PARAM_INERTIA: return l ? &l->inertia[p->component] : NULL;
    case NS_PARAM_JOINT_ORIGIN: return l ? &l->origin.position[p->component] : NULL;
    case NS_PARAM_JOINT_AXIS: return l ? &l->axis[p->component] : NULL;
    case NS_PARAM_JOINT_STIFFNESS: return l ? &l->stiffness : NULL;
    case NS_PARAM_JOINT_REST: return l ? &l->rest : NULL;
    case NS_PARAM_JOINT_DAMPING: return l ? &l->damping : NULL;
    case NS_PARAM_JOINT_FRICTION: return l ? &l->friction : NULL;
    case NS_PARAM_JOINT_ARMATURE: return l ? &l->armature : NULL;
    case NS_PARAM_JOINT_LOWER: return l ? &l->lower : NULL;
    case NS_PARAM_JOINT_UPPER: return l ? &l->upper : NULL;
    case NS_PARAM_ACTUATOR_GEAR: return a ? &a->gear : NULL;
    case NS_PARAM_ACTUATOR_KP: return a ? &a->kp : NULL;
    case NS_PARAM_ACTUATOR_KD: return a ? &a->kd : NULL;
    case NS_PARAM_GEOM_ORIGIN: return d->geom ? &d->geom->pose.position[p->component] : NULL;
    case NS_PARAM_GEOM_SIZE: return d->geom ? &d->geom->size[p->component] : NULL;
    default: return NULL;
    }
}

// Put the values of the parameters of an object into a copy of its definition.
static void apply_params(const ns_model* model, const inspect_additions* a, uint32_t owner,
                         const definitions* d) {
    for (uint32_t i = 0; a->options.nset > 0 && i < ns_model_get_sizes(model).nparam; i++) {
        const ns_param* p = ns_model_param(model, i);
        double* place = p->owner == owner ? param_place(d, p) : NULL;
        if (place) *place = inspect_param_value(a, p);
    }
}

ns_link_def inspect_link(const ns_model* model, const inspect_additions* a, uint32_t i) {
    ns_link_def link = *ns_model_link(model, i);
    apply_params(model, a, i, &(definitions){.link = &link});
    return link;
}

ns_actuator_def inspect_actuator(const ns_model* model, const inspect_additions* a, uint32_t i) {
    ns_actuator_def actuator = *ns_model_actuator(model, i);
    apply_params(model, a, i, &(definitions){.actuator = &actuator});
    return actuator;
}

ns_geom_def inspect_geom(const ns_model* model, const inspect_additions* a, uint32_t i) {
    ns_geom_def geom = *ns_model_geom(model, i);
    apply_params(model, a, i, &(definitions){.geom = &geom});
    return geom;
}

ns_contact_def inspect_contact(const ns_model* model, const inspect_additions* a, uint32_t i) {
    ns_contact_def contact = *ns_model_contact(model, i);
    apply_params(model, a, i, &(definitions){.contact = &contact});
    return contact;
}
