// Making a model of what a builder holds: compute the sizes, take one block, carve it up.

#include "model/builder.h"

#include "contact/law.h"

#include <math.h>

// The arrays of a model, in the order in which they follow it in its block: type, field, count.
#define MODEL_ARRAYS(X)                                                                            \
    X(nsi_link, links, sizes.nlink)                                                                \
    X(nsi_geom, geoms, sizes.ngeom)                                                                \
    X(nsi_actuator, actuators, sizes.nu)                                                           \
    X(nsi_model_site, sites, sizes.nsite)                                                          \
    X(nsi_tendon, tendons, sizes.ntendon)                                                          \
    X(nsi_sensor, sensors, sizes.nsensor)                                                          \
    X(ns_tendon_part, tendon_parts, ntendon_part)                                                  \
    X(nsi_tendon_part, tendon_part_data, ntendon_part)                                             \
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
        actuator.def.tendon = put_text(f->room, actuator.def.tendon);
        actuator.def.site = put_text(f->room, actuator.def.site);
        actuator.def.refsite = put_text(f->room, actuator.def.refsite);
        if (f->arrays) f->arrays->actuators[i] = actuator;
    }
}

static bool has_medium(const ns_world_def* world) {
    return world->density > 0.0 || world->viscosity > 0.0;
}

static void fill_medium(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    f->model->medium_param = NSI_NONE;
    if (!has_medium(&f->builder->world)) return;
    f->model->medium_param = f->param;
    for (uint32_t k = 0; k < NSI_MEDIUM_PARAMS; k++) {
        ns_param param = nsi_medium_param(&f->builder->world, k, name);
        param.owner = UINT32_MAX;
        put_param(f, param, name);
    }
}

static void fill_sites(filling* f) {
    for (uint32_t i = 0; i < f->builder->sites.count; i++) {
        nsi_model_site site = f->builder->sites.data[i];
        site.def.name = put_text(f->room, site.def.name);
        site.def.link = put_text(f->room, site.def.link);
        if (f->arrays) f->arrays->sites[i] = site;
    }
}

static void fill_tendons(filling* f) {
    char name[NSI_PARAM_NAME_SIZE];
    uint32_t next = 0;
    for (uint32_t i = 0; i < f->builder->tendons.count; i++) {
        nsi_tendon tendon = f->builder->tendons.data[i];
        tendon.param = f->param;
        for (uint32_t k = 0; k < NSI_TENDON_PARAMS; k++) {
            ns_param param = nsi_tendon_param(&tendon, k, name);
            param.owner = i;
            put_param(f, param, name);
        }
        tendon.def.name = put_text(f->room, tendon.def.name);
        for (uint32_t k = 0; k < tendon.def.npart; k++) {
            ns_tendon_part part = tendon.def.parts[k];
            part.joint = put_text(f->room, part.joint);
            part.site = put_text(f->room, part.site);
            part.geom = put_text(f->room, part.geom);
            part.side = put_text(f->room, part.side);
            if (!f->arrays) continue;
            f->arrays->tendon_parts[next + k] = part;
            f->arrays->tendon_part_data[next + k] = tendon.parts[k];
        }
        if (!f->arrays) continue;
        tendon.def.parts = f->arrays->tendon_parts + next;
        tendon.parts = f->arrays->tendon_part_data + next;
        next += tendon.def.npart;
        f->arrays->tendons[i] = tendon;
    }
}

static void fill_sensors(filling* f) {
    for (uint32_t i = 0; i < f->builder->sensors.count; i++) {
        nsi_sensor sensor = f->builder->sensors.data[i];
        const char** texts[] = {&sensor.def.name,     &sensor.def.joint,   &sensor.def.actuator,
                                &sensor.def.tendon,   &sensor.def.site,    &sensor.def.link,
                                &sensor.def.ref_site, &sensor.def.ref_link};
        for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
            *texts[k] = put_text(f->room, *texts[k]);
        }
        if (f->arrays) f->arrays->sensors[i] = sensor;
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
        double* q = f->arrays->keyframe_numbers + (size_t)i * (n->nq + n->nv + 2 * n->nu);
        memcpy(q, keyframe.def.q, n->nq * sizeof *q);
        memcpy(q + n->nq, keyframe.def.qd, n->nv * sizeof *q);
        memcpy(q + n->nq + n->nv, keyframe.def.control, n->nu * sizeof *q);
        memcpy(q + n->nq + n->nv + n->nu, keyframe.def.activation, n->nu * sizeof *q);
        keyframe.def.q = q, keyframe.def.qd = q + n->nq, keyframe.def.control = q + n->nq + n->nv;
        keyframe.def.activation = keyframe.def.control + n->nu;
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
    fill_medium(&f);
    fill_sites(&f);
    fill_tendons(&f);
    fill_sensors(&f);
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

// Limits left to us: see NS_LIMIT_AUTO. `params`: stiffness and damping.
static void choose_limits(const ns_world_def* world, double inertia, double* stiffness,
                          double* damping, ns_param* params) {
    double w = 0.2 / world->timestep;
    if (w > 200.0) w = 200.0;
    inertia = fmin(inertia, 1e9); // what a hostile file may hold must stay finite
    const double chosen[2] = {inertia * w * w, 2.0 * inertia * w};
    double* const fields[2] = {stiffness, damping};
    for (uint32_t k = 0; k < 2; k++) {
        if (*fields[k] != NS_LIMIT_AUTO) continue;
        *fields[k] = params[k].value = chosen[k];
        params[k].transform = chosen[k] > 0.0 ? NS_TRANSFORM_LOG : NS_TRANSFORM_IDENTITY;
    }
}

// Lengths and limits of tendons that are left to us. A tendon moves the inertias that its joints feel
// (`resistance`, nlink), each through its moment.
static ns_status choose_tendons(ns_model* model, const model_arrays* arrays,
                                const double* resistance, ns_error* error) {
    double* moment = nsi_alloc(&model->allocator, (model->sizes.nv + 1) * sizeof *moment);
    ns_status status = moment ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t i = 0; i < model->sizes.ntendon && status == NS_OK; i++) {
        nsi_tendon* t = &arrays->tendons[i];
        ns_param* params = &arrays->params[t->param];
        double length, compliance = 0.0;
        status = nsi_tendon_at_rest(model, t, &length, moment, error);
        if (status != NS_OK) break;
        if (t->def.rest == NS_TENDON_AUTO) t->def.rest = params[NSI_TENDON_REST].value = length;
        for (uint32_t k = 0; k < model->sizes.nlink; k++) {
            const nsi_link* l = &model->links[k];
            for (uint32_t v = l->v; v < l->v + l->nv; v++) {
                if (resistance[k] > 0.0) compliance += moment[v] * moment[v] / resistance[k];
            }
        }
        choose_limits(&model->world, compliance > 0.0 ? 1.0 / compliance : 0.0,
                      &t->def.limit_stiffness, &t->def.limit_damping,
                      params + NSI_TENDON_LIMIT_STIFFNESS);
    }
    nsi_free(&model->allocator, moment);
    return status;
}

// How much of an actuator's force each velocity feels, `moment` (nv), but for its gear.
static ns_status actuator_moment(const ns_model* model, const nsi_actuator* a, bool at_reference,
                                 double* moment, ns_error* error) {
    double length;
    if (a->tendon != NSI_NONE) {
        const nsi_tendon* tendon = &model->tendons[a->tendon];
        return at_reference ? nsi_tendon_at_reference(model, tendon, &length, moment, error)
                            : nsi_tendon_at_rest(model, tendon, &length, moment, error);
    }
    const nsi_link* link = &model->links[a->link];
    memset(moment, 0, model->sizes.nv * sizeof *moment);
    for (uint32_t k = 0; k < link->nv; k++) {
        moment[link->v + k] = link->nv == 1 ? 1.0 : a->def.direction[k];
    }
    return NS_OK;
}

// The gain of an actuator with a damping ratio. `inertia` (nv): the diagonal of the mass matrix.
static void set_damping(const ns_model* model, const double* inertia, const double* moment,
                        nsi_actuator* a, ns_param* kd) {
    double mass = 0.0;
    for (uint32_t k = 0; k < model->sizes.nv; k++) {
        double square = a->def.gear * moment[k] * a->def.gear * moment[k];
        if (square > 1e-15) mass += inertia[k] / square;
    }
    mass = fmin(mass, 1e12); // what a hostile file may hold must stay finite
    a->def.kd = 2.0 * a->def.damping_ratio * sqrt(fmin(a->def.kp, 1e12) * mass);
    kd->value = a->def.kd;
    kd->transform = kd->value > 0.0 ? NS_TRANSFORM_LOG : NS_TRANSFORM_IDENTITY;
}

static ns_status choose_damping(ns_model* model, const model_arrays* arrays, ns_error* error) {
    bool any = false;
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        any = any || arrays->actuators[i].def.damping_ratio > 0.0;
    }
    if (!any) return NS_OK;
    size_t nv = model->sizes.nv + 1;
    double* inertia = nsi_alloc(&model->allocator, 2 * nv * sizeof *inertia);
    if (!inertia) return nsi_fail_nomem(error);
    double* moment = inertia + nv;
    ns_status status = nsi_model_joint_inertia(model, inertia, error);
    for (uint32_t i = 0; i < model->sizes.nu && status == NS_OK; i++) {
        nsi_actuator* a = &arrays->actuators[i];
        if (a->def.damping_ratio == 0.0) continue;
        status = actuator_moment(model, a, false, moment, error);
        ns_param* kd = &arrays->params[a->param + NSI_ACTUATOR_KD];
        if (status == NS_OK) set_damping(model, inertia, moment, a, kd);
    }
    nsi_free(&model->allocator, inertia);
    return status;
}

// Peak forces of muscles that are left to us: `scale` over the acceleration that a force of 1 makes.
static ns_status choose_muscles(ns_model* model, const model_arrays* arrays, ns_error* error) {
    size_t nv = model->sizes.nv + 1;
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < model->sizes.nu && status == NS_OK; i++) {
        nsi_actuator* a = &arrays->actuators[i];
        if (a->def.type != NS_ACTUATOR_MUSCLE || !(a->def.muscle.force < 0.0)) continue;
        double *moment = nsi_alloc(&model->allocator, 2 * nv * sizeof *moment), square = 0.0;
        if (!moment) return nsi_fail_nomem(error);
        status = actuator_moment(model, a, true, moment, error);
        for (size_t k = 0; k + 1 < nv; k++) moment[k] *= a->def.gear;
        if (status == NS_OK) status = nsi_model_accelerate(model, moment, moment + nv, error);
        for (size_t k = 0; k + 1 < nv; k++) square += moment[nv + k] * moment[nv + k];
        nsi_free(&model->allocator, moment);
        if (status != NS_OK) break;

        // What a hostile file may hold must stay finite.
        double force = fmin(a->def.muscle.scale / fmax(sqrt(square), 1e-15), 1e15);
        ns_param* peak = &arrays->params[a->param + a->slot[NSI_ACTUATOR_PEAK_FORCE]];
        a->def.muscle.force = peak->value = isfinite(force) ? force : 0.0;
        peak->transform = peak->value > 0.0 ? NS_TRANSFORM_LOG : NS_TRANSFORM_IDENTITY;
    }
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
                  .nsite = builder->sites.count,
                  .ntendon = builder->tendons.count,
                  .nsensor = builder->sensors.count,
                  .nignored = builder->ignored.count + pairs->notes.count,
                  .nkeyframe = builder->keyframes.count},
        .nvertex = builder->nvertex,
        .nelevation = builder->nelevation,
        .ntendon_part = builder->ntendon_part,
        .ncontact_param = nsi_contact_slot_count(),
    };
    ns_model_sizes* n = &head.sizes;
    n->nparam = NSI_LINK_PARAMS * n->nlink + 3 + head.ncontact_param * n->ncontact +
                NSI_TENDON_PARAMS * n->ntendon +
                (has_medium(&builder->world) ? NSI_MEDIUM_PARAMS : 0);
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
    head.nkeyframe_number = n->nkeyframe * (n->nq + n->nv + 2 * n->nu);
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
        ns_link_def* def = &arrays->links[i].def;
        choose_limits(&model->world, resistance[i], &def->limit_stiffness, &def->limit_damping,
                      arrays->params + arrays->links[i].param + NSI_JOINT_LIMIT_STIFFNESS);
    }
    if (status == NS_OK) status = choose_tendons(model, arrays, resistance, error);
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
    if (status == NS_OK) status = choose_muscles(model, &arrays, error);
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
