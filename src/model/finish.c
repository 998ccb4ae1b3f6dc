// Making a model of what a builder holds: compute the sizes, take one block, carve it up.

#include "model/builder.h"

#include "contact/law.h"

#include <math.h>

// The arrays of a model, in the order in which they follow it in its block: type, field, count.
#define MODEL_ARRAYS(X)                                                                            \
    X(nsi_link, links, sizes.nlink)                                                                \
    X(nsi_geom, geoms, sizes.ngeom)                                                                \
    X(nsi_actuator, actuators, sizes.nu)                                                           \
    X(nsi_contact, contacts, sizes.ncontact)                                                       \
    X(nsi_equality_constraint, equalities, sizes.nequality)                                        \
    X(ns_param, params, sizes.nparam)                                                              \
    X(const char*, ignored, sizes.nignored)                                                        \
    X(nsi_keyframe, keyframes, sizes.nkeyframe)                                                    \
    X(double, keyframe_numbers, nkeyframe_number)                                                  \
    X(double, vertices, nvertex * 3)                                                               \
    X(double, elevations, nelevation)                                                              \
    X(uint32_t, param_table, param_table_size)

// The same arrays while they are written.
typedef struct model_arrays {
#define ARRAY_FIELD(type, field, count) type* field;
    MODEL_ARRAYS(ARRAY_FIELD)
#undef ARRAY_FIELD
} model_arrays;

// Strings at the end of the block. The first time round there is no block, and they are counted.
typedef struct string_room {
    char* at; // NULL: only count
    size_t size;
} string_room;

static const char* put_text(string_room* room, const char* text) {
    if (!text) return NULL;
    size_t size = strlen(text) + 1;
    const char* copy = text;
    if (room->at) {
        copy = memcpy(room->at, text, size);
        room->at += size;
    }
    room->size += size;
    return copy;
}

// A model being filled in. The first time round there are no arrays, and strings are counted.
typedef struct filling {
    const ns_model_builder* builder;
    const nsi_pairs* pairs;
    ns_model* model;
    const model_arrays* arrays; // NULL: only count
    string_room* room;
    uint32_t param, vertex, elevation; // next
} filling;

static void put_param(filling* f, ns_param param, const char* name) {
    param.name = put_text(f->room, name);
    if (f->arrays) f->arrays->params[f->param] = param;
    f->param++;
}

static void fill_links(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    for (uint32_t i = 0; i < f->builder->links.count; i++) {
        nsi_link link = f->builder->links.data[i];
        link.param = f->param;
        for (uint32_t k = 0; k < NSI_LINK_PARAMS; k++) {
            ns_param param = nsi_link_param(&link, k, name);
            param.owner = i;
            put_param(f, param, name);
        }
        link.def.name = put_text(f->room, link.def.name);
        link.def.parent = put_text(f->room, link.def.parent);
        link.def.joint = put_text(f->room, link.def.joint);
        link.def.mimic = put_text(f->room, link.def.mimic);
        if (f->arrays) f->arrays->links[i] = link;
        f->model->has_mimic = f->model->has_mimic || link.mimic != NSI_NONE;
    }
}

static void fill_actuators(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    for (uint32_t i = 0; i < f->builder->actuators.count; i++) {
        nsi_actuator actuator = f->builder->actuators.data[i];
        actuator.param = f->param;
        uint8_t count = 0;
        for (uint32_t k = 0; k < NSI_ACTUATOR_PARAMS; k++) {
            bool has = nsi_actuator_has_param(&actuator.def, k);
            actuator.slot[k] = has ? count++ : NSI_NO_SLOT;
            if (!has) continue;
            ns_param param = nsi_actuator_param(&actuator, k, name);
            param.owner = i;
            put_param(f, param, name);
        }
        actuator.def.name = put_text(f->room, actuator.def.name);
        actuator.def.joint = put_text(f->room, actuator.def.joint);
        if (f->arrays) f->arrays->actuators[i] = actuator;
    }
}

static void fill_gravity(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    f->model->gravity_param = f->param;
    for (uint32_t k = 0; k < 3; k++) {
        ns_param param = nsi_gravity_param(&f->builder->world, k, name);
        param.owner = UINT32_MAX;
        put_param(f, param, name);
    }
}

static void fill_vertices(filling* f, ns_geom_def* def) {
    if (!f->arrays || def->nvertex == 0) return;
    double* vertices = f->arrays->vertices + 3 * (size_t)f->vertex;
    memcpy(vertices, def->vertices, 3 * (size_t)def->nvertex * sizeof *vertices);
    def->vertices = vertices;
    f->vertex += def->nvertex;
}

static void fill_elevation(filling* f, ns_geom_def* def) {
    uint32_t count = def->nrow * def->ncol;
    if (!f->arrays || count == 0) return;
    double* elevation = f->arrays->elevations + f->elevation;
    memcpy(elevation, def->elevation, count * sizeof *elevation);
    def->elevation = elevation;
    f->elevation += count;
}

static void fill_geoms(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    for (uint32_t i = 0; i < f->builder->geoms.count; i++) {
        nsi_geom geom = f->builder->geoms.data[i];
        geom.param = f->pairs->in_pair[i] ? f->param : NSI_NONE;
        uint32_t count = f->pairs->in_pair[i] ? nsi_geom_param_count(&geom.def) : 0;
        for (uint32_t k = 0; k < count; k++) {
            ns_param param = nsi_geom_param(&geom, k, name);
            param.owner = i;
            put_param(f, param, name);
        }
        geom.def.name = put_text(f->room, geom.def.name);
        geom.def.link = put_text(f->room, geom.def.link);
        geom.def.mesh = put_text(f->room, geom.def.mesh);
        geom.def.path = put_text(f->room, geom.def.path);
        fill_vertices(f, &geom.def);
        fill_elevation(f, &geom.def);
        if (f->arrays) f->arrays->geoms[i] = geom;
    }
}

// After the geometries, whose names they share.
static void fill_contacts(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    for (uint32_t i = 0; i < f->pairs->contacts.count; i++) {
        nsi_contact contact = f->pairs->contacts.data[i];
        contact.param = f->param;
        for (uint32_t k = 0; k < f->model->ncontact_param; k++) {
            ns_param param = nsi_contact_param(&contact, k, name);
            param.owner = i;
            put_param(f, param, name);
        }
        contact.def.name = put_text(f->room, contact.def.name);
        contact.def.values = NULL, contact.def.nvalue = 0; // the parameters have them
        if (!f->arrays) continue;
        contact.def.a = f->arrays->geoms[contact.a].def.name;
        contact.def.b = f->arrays->geoms[contact.b].def.name;
        f->arrays->contacts[i] = contact;
    }
}

static void fill_equalities(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    for (uint32_t i = 0; i < f->builder->equalities.count; i++) {
        nsi_equality_constraint equality = f->builder->equalities.data[i];
        equality.param = f->param;
        uint32_t count = nsi_equality_param_count(equality.def.type);
        for (uint32_t k = 0; k < count; k++) {
            ns_param param = nsi_equality_param(&equality, k, name);
            param.owner = i;
            put_param(f, param, name);
        }
        equality.def.name = put_text(f->room, equality.def.name);
        equality.def.a = put_text(f->room, equality.def.a);
        equality.def.b = put_text(f->room, equality.def.b);
        if (f->arrays) f->arrays->equalities[i] = equality;
    }
}

static void fill_ignored(filling* f) {
    uint32_t count = f->builder->ignored.count;
    for (uint32_t i = 0; i < f->model->sizes.nignored; i++) {
        const char* what = put_text(f->room, i < count ? f->builder->ignored.data[i]
                                                       : f->pairs->notes.data[i - count]);
        if (f->arrays) f->arrays->ignored[i] = what;
    }
}

static void fill_keyframes(filling* f) {
    const ns_model_sizes* n = &f->model->sizes;
    for (uint32_t i = 0; i < n->nkeyframe; i++) {
        nsi_keyframe keyframe = f->builder->keyframes.data[i];
        keyframe.def.name = put_text(f->room, keyframe.def.name);
        if (!f->arrays) continue;
        double* q = f->arrays->keyframe_numbers + (size_t)i * (n->nq + n->nv + n->nu);
        memcpy(q, keyframe.def.q, n->nq * sizeof *q);
        memcpy(q + n->nq, keyframe.def.qd, n->nv * sizeof *q);
        memcpy(q + n->nq + n->nv, keyframe.def.control, n->nu * sizeof *q);
        keyframe.def.q = q, keyframe.def.qd = q + n->nq, keyframe.def.control = q + n->nq + n->nv;
        f->arrays->keyframes[i] = keyframe;
    }
}

// Fill in everything but the hash table; `arrays` is NULL to count the strings.
static void fill_model(const ns_model_builder* builder, const nsi_pairs* pairs, ns_model* model,
                       const model_arrays* arrays, string_room* room) {
    filling f = {builder, pairs, model, arrays, room, 0, 0, 0};
    model->name = put_text(room, builder->name);
    model->folder = put_text(room, builder->folder);
    fill_links(&f);
    fill_actuators(&f);
    fill_gravity(&f);
    fill_geoms(&f);
    fill_contacts(&f);
    fill_equalities(&f);
    fill_ignored(&f);
    fill_keyframes(&f);
    NS_ASSERT(f.param == model->sizes.nparam);
}

// Open addressing, at most half full.
static void fill_param_table(const ns_model* model, uint32_t* table) {
    uint32_t mask = model->param_table_size - 1;
    for (uint32_t i = 0; i <= mask; i++) table[i] = NSI_NONE;
    for (uint32_t k = 0; k < model->sizes.nparam; k++) {
        uint32_t at = nsi_name_hash(model->params[k].name) & mask;
        while (table[at] != NSI_NONE) at = (at + 1) & mask;
        table[at] = k;
    }
}

enum { BLOCK_ALIGNMENT = 16 };

// Add room for `count` items to `size` and return where they start.
static size_t carve(size_t* size, size_t count, size_t item) {
    size_t start = (*size + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT;
    *size = start + count * item;
    return start;
}

// Limits left to us: see NS_LIMIT_AUTO.
static void choose_limits(const ns_world_def* world, double inertia, nsi_link* link,
                          ns_param* params) {
    double w = 0.2 / world->timestep;
    if (w > 200.0) w = 200.0;
    inertia = fmin(inertia, 1e9); // what a hostile file may hold must stay finite
    const double chosen[2] = {inertia * w * w, 2.0 * inertia * w};
    double* const fields[2] = {&link->def.limit_stiffness, &link->def.limit_damping};
    for (uint32_t k = 0; k < 2; k++) {
        if (*fields[k] != NS_LIMIT_AUTO) continue;
        ns_param* param = &params[link->param + NSI_JOINT_LIMIT_STIFFNESS + k];
        *fields[k] = param->value = chosen[k];
        param->transform = chosen[k] > 0.0 ? NS_TRANSFORM_LOG : NS_TRANSFORM_IDENTITY;
    }
}

// The gain of actuators that have a damping ratio.
static ns_status choose_damping(ns_model* model, const model_arrays* arrays, ns_error* error) {
    bool any = false;
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        any = any || arrays->actuators[i].def.damping_ratio > 0.0;
    }
    if (!any) return NS_OK;
    double* inertia = nsi_alloc(&model->allocator, (model->sizes.nv + 1) * sizeof *inertia);
    if (!inertia) return nsi_fail_nomem(error);
    ns_status status = nsi_model_joint_inertia(model, inertia, error);
    for (uint32_t i = 0; i < model->sizes.nu && status == NS_OK; i++) {
        nsi_actuator* a = &arrays->actuators[i];
        const nsi_link* link = &model->links[a->link];
        if (a->def.damping_ratio == 0.0) continue;

        // The inertia that the actuator sees through its transmission.
        double mass = 0.0;
        for (uint32_t k = 0; k < link->nv; k++) {
            double moment = a->def.gear * (link->nv == 1 ? 1.0 : a->def.direction[k]);
            if (moment * moment > 1e-15) mass += inertia[link->v + k] / (moment * moment);
        }
        mass = fmin(mass, 1e12); // what a hostile file may hold must stay finite
        a->def.kd = 2.0 * a->def.damping_ratio * sqrt(fmin(a->def.kp, 1e12) * mass);
        ns_param* kd = &arrays->params[a->param + NSI_ACTUATOR_KD];
        kd->value = a->def.kd;
        kd->transform = kd->value > 0.0 ? NS_TRANSFORM_LOG : NS_TRANSFORM_IDENTITY;
    }
    nsi_free(&model->allocator, inertia);
    return status;
}

// Sizes, and what follows from them. The limits on links, geometries and so on keep all of them
// small.
static ns_model make_head(const ns_model_builder* builder, const nsi_pairs* pairs) {
    ns_model head = {
        .allocator = builder->allocator,
        .world = builder->world,
        .sizes = {.nlink = builder->links.count,
                  .nq = builder->nq,
                  .nv = builder->nv,
                  .nu = builder->actuators.count,
                  .ngeom = builder->geoms.count,
                  .ncontact = pairs->contacts.count,
                  .nequality = builder->equalities.count,
                  .nignored = builder->ignored.count + pairs->notes.count,
                  .nkeyframe = builder->keyframes.count},
        .nvertex = builder->nvertex,
        .nelevation = builder->nelevation,
        .ncontact_param = nsi_contact_slot_count(),
    };
    ns_model_sizes* n = &head.sizes;
    n->nparam = NSI_LINK_PARAMS * n->nlink + 3 + head.ncontact_param * n->ncontact;
    for (uint32_t i = 0; i < n->nu; i++) {
        const ns_actuator_def* def = &builder->actuators.data[i].def;
        for (uint32_t k = 0; k < NSI_ACTUATOR_PARAMS; k++) {
            n->nparam += nsi_actuator_has_param(def, k);
        }
    }
    for (uint32_t i = 0; i < n->ngeom; i++) {
        if (pairs->in_pair[i]) n->nparam += nsi_geom_param_count(&builder->geoms.data[i].def);
    }
    for (uint32_t i = 0; i < n->nequality; i++) {
        n->nparam += nsi_equality_param_count(builder->equalities.data[i].def.type);
    }
    head.nkeyframe_number = n->nkeyframe * (n->nq + n->nv + n->nu);
    head.param_table_size = 8;
    while (head.param_table_size < 2 * n->nparam) head.param_table_size *= 2;
    return head;
}

// Links, joints and limits that are left to us.
static ns_status check_motion(ns_model* model, const model_arrays* arrays, uint32_t* bad_link,
                              ns_error* error) {
    uint32_t nlink = model->sizes.nlink;
    double* resistance = nsi_alloc(&model->allocator, (nlink + 1) * sizeof *resistance);
    if (!resistance) return nsi_fail_nomem(error);
    ns_status status = nsi_model_check_mobility(model, resistance, bad_link, error);
    for (uint32_t i = 0; status == NS_OK && i < nlink; i++) {
        choose_limits(&model->world, resistance[i], &arrays->links[i], arrays->params);
    }
    nsi_free(&model->allocator, resistance);
    return status;
}

static ns_status make_model(const ns_model_builder* builder, const nsi_pairs* pairs, ns_model** out,
                            uint32_t* bad_link, ns_error* error) {
    ns_model head = make_head(builder, pairs);

    // A first pass without memory counts strings and parameters.
    string_room room = {0};
    fill_model(builder, pairs, &head, NULL, &room);
    size_t size = sizeof head;
#define ARRAY_START(type, field, count)                                                            \
    size_t field##_start = carve(&size, head.count, sizeof(type));
    MODEL_ARRAYS(ARRAY_START)
#undef ARRAY_START
    size_t strings_start = carve(&size, room.size, 1);

    // One block.
    char* block = nsi_alloc_zeroed(&builder->allocator, size);
    if (!block) return nsi_fail_nomem(error);
    ns_model* model = (ns_model*)(void*)block;
    *model = head;
    model_arrays arrays;
#define ARRAY_POINTER(type, field, count)                                                          \
    arrays.field = (type*)(void*)(block + field##_start);                                          \
    model->field = arrays.field;
    MODEL_ARRAYS(ARRAY_POINTER)
#undef ARRAY_POINTER

    // The second pass fills the block in the same order.
    room = (string_room){.at = block + strings_start};
    fill_model(builder, pairs, model, &arrays, &room);
    fill_param_table(model, arrays.param_table);

    ns_status status = check_motion(model, &arrays, bad_link, error);
    if (status == NS_OK) status = choose_damping(model, &arrays, error);
    if (status != NS_OK) {
        ns_model_free(model);
        return status;
    }
    *out = model;
    return NS_OK;
}

ns_status nsi_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                   uint32_t* bad_link, ns_error* error) {
    *bad_link = NSI_NONE;
    if (!builder || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_builder_finish: an argument is NULL");
    }
    *out = NULL;
    if (builder->failed) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < builder->keyframes.count; k++) {
        const nsi_keyframe* key = &builder->keyframes.data[k];
        if (key->nq == builder->nq && key->nv == builder->nv &&
            key->nu == builder->actuators.count) {
            continue;
        }
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "keyframe \"%s\" was added before the last link or actuator",
                        key->def.name);
    }
    const nsi_pair_source source = {.links = builder->links.data,
                                    .geoms = builder->geoms.data,
                                    .given = builder->contacts.data,
                                    .exclusions = builder->exclusions.data,
                                    .nlink = builder->links.count,
                                    .ngeom = builder->geoms.count,
                                    .ngiven = builder->contacts.count,
                                    .nexclusion = builder->exclusions.count,
                                    .timestep = builder->world.timestep,
                                    .apart = builder->apart};
    nsi_pairs pairs;
    ns_status status = nsi_pairs_make(&source, &builder->allocator, &pairs, error);
    if (status == NS_OK) status = make_model(builder, &pairs, out, bad_link, error);
    nsi_pairs_free(&pairs);
    return status;
}

ns_status ns_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                  ns_error* error) {
    uint32_t bad_link;
    return nsi_model_builder_finish(builder, out, &bad_link, error);
}
