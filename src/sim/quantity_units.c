// What there is to know about the quantities of a step: units, and where in it they are computed. Both
// follow from names and their order.

#include "sim/system.h"

#include <stdlib.h>

// Does velocity k of a joint slide (m/s)? Otherwise it turns (rad/s).
static bool slides(const nsi_link* l, uint32_t k) {
    return k < ns_joint_type_info(l->def.joint_type)->nlinear;
}

static bool velocity_slides(const ns_model* model, uint32_t v) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->nv > 0 && v >= l->v && v < l->v + l->nv) return slides(l, v - l->v);
    }
    return false;
}

// Unit of coordinate k of a joint.
static const char* coordinate_unit(const nsi_link* l, uint32_t k) {
    const ns_joint_info* info = ns_joint_type_info(l->def.joint_type);
    return k < info->nlinear ? "m" : k >= info->quaternion ? "" : "rad";
}

// The rest of a name after a prefix; NULL when it begins otherwise.
static const char* after(const char* name, const char* prefix) {
    size_t size = strlen(prefix);
    return strncmp(name, prefix, size) == 0 ? name + size : NULL;
}

// The rest of "<owner>/<what>" after the owner and its slash; NULL when it is another's.
static const char* after_owner(const char* name, const char* owner) {
    const char* rest = after(name, owner);
    return rest && *rest == '/' ? rest + 1 : NULL;
}

// The number at the end of a name, after its last slash; 0 when there is none.
static uint32_t last_number(const char* name) {
    const char* slash = strrchr(name, '/');
    return (uint32_t)strtoul(slash ? slash + 1 : name, NULL, 10);
}

static const char* q_unit(const ns_model* model, uint32_t q) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        if (l->nq > 0 && q >= l->q && q < l->q + l->nq) return coordinate_unit(l, q - l->q);
    }
    return "";
}

static const char* joint_unit(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* l = &model->links[i];
        const char* what = after_owner(name, l->def.joint);
        if (!what) continue;
        uint32_t k = last_number(what);
        if (after(what, "position")) return coordinate_unit(l, k);
        if (after(what, "velocity")) return slides(l, k) ? "m/s" : "rad/s";
        if (after(what, "force") || after(what, "tau")) return slides(l, k) ? "N" : "N m";
    }
    return "";
}

static const char* link_unit(const ns_model* model, const char* name) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const char* what = after_owner(name, model->links[i].def.name);
        if (!what) continue;
        if (after(what, "pose/q")) return "";
        if (after(what, "pose/")) return "m";
        if (after(what, "velocity/angular/")) return "rad/s";
        if (after(what, "velocity/")) return "m/s";
        if (after(what, "force/")) return "N";
        if (after(what, "torque/")) return "N m";
        bool sliding = velocity_slides(model, last_number(what));
        if (after(what, "jacobian/linear/")) return sliding ? "" : "m";
        if (after(what, "jacobian/angular/")) return sliding ? "1/m" : "";
    }
    return "";
}

static const char* contact_unit(const ns_model* model, const char* name) {
    if (strcmp(name, "penetration") == 0) return "m";
    for (uint32_t i = 0; i < model->sizes.ncontact; i++) {
        const char* what = after_owner(name, model->contacts[i].def.name);
        what = what ? strchr(what, '/') : NULL; // after the number of the point
        if (!what) continue;
        what++;
        if (after(what, "position/") || after(what, "local/") || after(what, "depth")) return "m";
        if (after(what, "velocity/")) return "m/s";
        if (after(what, "force/")) return "N";
    }
    return "";
}

static const char* matrix_unit(const ns_model* model, const char* indices) {
    int sliding = velocity_slides(model, (uint32_t)strtoul(indices, NULL, 10)) +
                  velocity_slides(model, last_number(indices));
    return sliding == 2 ? "kg" : sliding == 1 ? "kg m" : "kg m^2";
}

const char* nsi_quantity_unit(const ns_model* model, const char* name) {
    uint32_t param = ns_model_find_param(model, name);
    const char* rest;
    if (param != UINT32_MAX) return model->params[param].unit;
    if ((rest = after(name, "joint/"))) return joint_unit(model, rest);
    if ((rest = after(name, "link/"))) return link_unit(model, rest);
    if ((rest = after(name, "contact/"))) return contact_unit(model, rest);
    if ((rest = after(name, "mass_matrix/"))) return matrix_unit(model, rest);
    if (after(name, "q/")) return q_unit(model, last_number(name));
    bool sliding = velocity_slides(model, last_number(name));
    if (after(name, "qd/")) return sliding ? "m/s" : "rad/s";
    if (after(name, "qdd/")) return sliding ? "m/s^2" : "rad/s^2";
    if (after(name, "tau/") || after(name, "bias/")) return sliding ? "N" : "N m";
    if (after(name, "energy/")) return "J";
    if (after(name, "momentum/linear/")) return "kg m/s";
    if (after(name, "momentum/angular/")) return "kg m^2/s";
    if (after(name, "com/")) return "m";
    return ""; // what actuators are driven by depends on what the gear makes of it: left open
}

// `accelerated`: were accelerations computed before it?
static const char* stage_of(const ns_model* model, const char* name, bool accelerated) {
    if (ns_model_find_param(model, name) != UINT32_MAX) return "start";
    if (after(name, "q/") || after(name, "qd/") || after(name, "tau/") || after(name, "control/")) {
        return "start";
    }
    if (after(name, "qdd/")) return "acceleration";
    if (after(name, "mass_matrix/") || after(name, "contact/penetration") ||
        (after(name, "link/") && strstr(name, "/jacobian/"))) {
        return "after";
    }
    if (after(name, "contact/")) return accelerated ? "impulses" : "contact";
    if (after(name, "energy/") || after(name, "momentum/") || after(name, "com/")) return "state";
    if (after(name, "joint/")) {
        for (uint32_t i = 0; i < model->sizes.nlink; i++) {
            const char* what = after_owner(name + 6, model->links[i].def.joint);
            if (what && (after(what, "position") || after(what, "velocity") || after(what, "sin") ||
                         after(what, "cos"))) {
                return "state";
            }
        }
    }
    if (after(name, "link/")) {
        for (uint32_t i = 0; i < model->sizes.nlink; i++) {
            const char* what = after_owner(name + 5, model->links[i].def.name);
            if (what && (after(what, "pose/") || after(what, "velocity/"))) return "state";
        }
    }
    return "forces";
}

ns_status ns_model_quantities(const ns_model* model, const ns_system_options* options,
                              ns_quantity_visitor* visit, void* context, ns_error* error) {
    if (!model || !visit) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_quantities: model or visit is NULL");
    }
    ns_system_options defaults = ns_default_system_options();
    if (!options) options = &defaults;
    ns_status status = nsi_system_check_options(options, error);
    if (status != NS_OK) return status;
    nsi_step_options step = nsi_system_step_options(model, options);
    nsi_quantity_list list;
    status = nsi_step_quantities(model, &step, &list, error);
    if (status != NS_OK) return status;
    bool accelerated = false;
    for (uint32_t k = 0; k < list.count; k++) {
        const char* name = list.names[k];
        ns_quantity_info info = {.name = name,
                                 .unit = nsi_quantity_unit(model, name),
                                 .stage = stage_of(model, name, accelerated),
                                 .moves = list.moves[k] != 0};
        accelerated = accelerated || after(name, "qdd/");
        visit(context, &info);
    }
    nsi_quantity_list_free(&list);
    return NS_OK;
}
