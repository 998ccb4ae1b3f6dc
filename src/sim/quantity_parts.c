// The only place that takes names of quantities apart. They are written as
//
//     <kind>/<object>/<what>             link/foot/velocity/linear/x, joint/knee/tau
//     equality/<constraint>/<what>       equality/loop/force/x
//     contact/<pair>/<point>/<what>      contact/foot:ground/0/depth
//     control/<actuator>
//     <what>                             qdd/3, mass_matrix/0/1, momentum/linear/x
//
// where <what> ends in a component, in one index or two, or in neither. Objects may have any name,
// with slashes and digits, too: which part of a name is one follows from the model.

#include "sim/quantity_parts.h"

#include <stdio.h>
#include <stdlib.h>

static const char* link_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.nlink ? m->links[k].def.name : NULL;
}

static const char* joint_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.nlink ? m->links[k].def.joint : NULL;
}

static const char* actuator_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.nu ? m->actuators[k].def.name : NULL;
}

static const char* geom_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.ngeom ? m->geoms[k].def.name : NULL;
}

static const char* pair_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.ncontact ? m->contacts[k].def.name : NULL;
}

static const char* equality_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.nequality ? m->equalities[k].def.name : NULL;
}

static const char* site_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.nsite ? m->sites[k].def.name : NULL;
}

static const char* tendon_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.ntendon ? m->tendons[k].def.name : NULL;
}

static const char* sensor_name(const ns_model* m, uint32_t k) {
    return k < m->sizes.nsensor ? m->sensors[k].def.name : NULL;
}

// Kinds of objects: the word that names begin with, and the names of the objects.
typedef struct object_kind {
    const char* word;
    const char* (*name)(const ns_model* model, uint32_t number); // NULL after the last
    bool has_points;
} object_kind;

static const object_kind object_kinds[] = {
    {"link", link_name, false},         {"joint", joint_name, false},
    {"actuator", actuator_name, false}, {"geom", geom_name, false},
    {"equality", equality_name, false}, {"site", site_name, false},
    {"tendon", tendon_name, false},     {"sensor", sensor_name, false},
    {"contact", pair_name, true}};

// The text after "<word>/", or NULL.
static const char* text_after(const char* name, const char* word) {
    size_t size = strlen(word);
    return strncmp(name, word, size) == 0 && name[size] == '/' ? name + size + 1 : NULL;
}

// The '/' after the name of an object; of two that fit, after the longer. NULL: there is none.
static const char* object_end(const ns_model* model, const object_kind* kind, const char* at) {
    const char *end = NULL, *object;
    for (uint32_t k = 0; (object = kind->name(model, k)); k++) {
        size_t size = strlen(object);
        bool fits = strncmp(at, object, size) == 0 && at[size] == '/';
        if (fits && (!end || at + size > end)) end = at + size;
    }
    return end;
}

// Write the family up to where <what> begins, which is returned; "" for names without an object.
static const char* split_object(const ns_model* model, const char* name, nsi_quantity_parts* out) {
    for (size_t k = 0; k < sizeof object_kinds / sizeof *object_kinds; k++) {
        const object_kind* kind = &object_kinds[k];
        const char* at = text_after(name, kind->word);
        const char* end = at ? object_end(model, kind, at) : NULL;
        if (!end) continue;

        // Points of a contact are objects of their own; parameters of the pair have none.
        size_t digits = kind->has_points ? strspn(end + 1, "0123456789") : 0;
        bool point = digits > 0 && end[1 + digits] == '/';
        if (point) end += 1 + digits;
        out->object = point ? "point" : kind->word;
        snprintf(out->family, sizeof out->family, point ? "%s/*/*" : "%s/*", kind->word);
        return end;
    }
    return name;
}

// Take indices off the end of <what>; returns its new size.
static size_t split_indices(const char* what, size_t size, nsi_quantity_parts* out) {
    while (out->rank < 2) {
        size_t rest = size;
        while (rest > 0 && what[rest - 1] >= '0' && what[rest - 1] <= '9') rest--;
        if (rest == size || rest < 2 || what[rest - 1] != '/') break;
        out->index[1] = out->index[0];
        out->index[0] = (uint32_t)strtoul(what + rest, NULL, 10);
        size = rest - 1;
        out->rank++;
    }
    return size;
}

// Take a component off the end of <what>; returns its new size.
static size_t split_component(const char* what, size_t size, nsi_quantity_parts* out) {
    static const char* const components[] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    for (uint32_t k = 0; k < sizeof components / sizeof *components; k++) {
        size_t length = strlen(components[k]) + 1; // with the slash
        if (size <= length || what[size - length] != '/') continue;
        if (memcmp(what + size - length + 1, components[k], length - 1) != 0) continue;
        out->component = components[k];
        out->spatial = k < 3;
        return size - length;
    }
    return size;
}

void nsi_quantity_parts_of(const ns_model* model, const char* name, nsi_quantity_parts* out) {
    *out = (nsi_quantity_parts){.object = "", .component = ""};

    // The name of an actuator is all that follows "control/", whatever it ends in.
    if (text_after(name, "control")) {
        snprintf(out->group, sizeof out->group, "%s", name);
        snprintf(out->family, sizeof out->family, "%s", name);
        return;
    }

    // What ends in digits is an element of a vector or matrix, and has no axis.
    const char* what = split_object(model, name, out);
    size_t size = split_indices(what, strlen(what), out);
    if (out->rank == 0) size = split_component(what, size, out);

    // The rest of <what> is common to all of the group.
    size_t used = strlen(out->family);
    snprintf(out->group, sizeof out->group, "%.*s", (int)(size + (size_t)(what - name)), name);
    snprintf(out->family + used, sizeof out->family - used, "%.*s", (int)size, what);

    // Parameters say it themselves: there are more vectors and tensors among them.
    const ns_param* param = ns_model_param(model, ns_model_find_param(model, name));
    if (param) out->spatial = param->spatial;
}
