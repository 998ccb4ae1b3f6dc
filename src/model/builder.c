// The model builder: definitions are checked and copied as they come; finishing computes the sizes,
// takes one block and carves it up.

#include "model/model.h"
#include "model/pose.h"

#include <math.h>
#include <stdio.h>

// Far above any robot; they keep every size below within 32 bits.
enum { MAX_LINKS = 1 << 16, MAX_ACTUATORS = 1 << 16, MAX_GEOMS = 1 << 20, MAX_IGNORED = 1 << 20 };

struct ns_model_builder {
    ns_allocator allocator;
    nsi_arena strings; // of all definitions
    const char* name;
    ns_world_def world;
    NSI_ARRAY(nsi_link) links; // with everything but the parameter number
    NSI_ARRAY(nsi_geom) geoms;
    NSI_ARRAY(nsi_actuator) actuators;
    NSI_ARRAY(const char*) ignored;
    nsi_index link_names, joint_names, geom_names, actuator_names;
    NSI_ARRAY(uint32_t) next_geom; // number for the next "<link>_geom<k>" of each link
    uint32_t next_world_geom;
    uint32_t nq, nv;
    bool failed; // memory ran out half way through an addition
};

// ---- defaults --------------------------------------------------------------------------------

ns_link_def ns_default_link_def(void) {
    return (ns_link_def){
        .joint_type = NS_JOINT_FIXED,
        .origin = nsi_pose_identity(),
        .axis = {0.0, 0.0, 1.0},
        .friction_velocity = 0.01,
        .limit_stiffness = NS_LIMIT_AUTO,
        .limit_damping = NS_LIMIT_AUTO,
        .mimic_multiplier = 1.0,
    };
}

ns_geom_def ns_default_geom_def(void) {
    return (ns_geom_def){
        .pose = nsi_pose_identity(),
        .visual = true,
        .collision = true,
        .friction = {1.0, 0.005, 0.0001},
        .color = {0.5, 0.5, 0.5, 1.0},
    };
}

ns_actuator_def ns_default_actuator_def(void) {
    return (ns_actuator_def){.type = NS_ACTUATOR_TORQUE, .gear = 1.0};
}

ns_world_def ns_default_world_def(void) {
    return (ns_world_def){
        .gravity = {0.0, 0.0, -9.81},
        .timestep = 0.001,
        .integrator = NS_INTEGRATOR_EULER,
    };
}

// ---- life ------------------------------------------------------------------------------------

ns_status ns_model_builder_create(const ns_allocator* allocator, ns_model_builder** out,
                                  ns_error* error) {
    if (!out) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_builder_create: out is NULL");
    *out = NULL;
    ns_allocator own = allocator ? *allocator : ns_default_allocator();
    ns_model_builder* builder = nsi_alloc_zeroed(&own, sizeof *builder);
    if (!builder) return nsi_fail_nomem(error);
    builder->allocator = builder->strings.allocator = own;
    builder->name = "model";
    builder->world = ns_default_world_def();
    *out = builder;
    return NS_OK;
}

void ns_model_builder_free(ns_model_builder* builder) {
    if (!builder) return;
    ns_allocator allocator = builder->allocator;
    nsi_array_free(&allocator, &builder->links);
    nsi_array_free(&allocator, &builder->geoms);
    nsi_array_free(&allocator, &builder->actuators);
    nsi_array_free(&allocator, &builder->ignored);
    nsi_array_free(&allocator, &builder->next_geom);
    nsi_index_free(&allocator, &builder->link_names);
    nsi_index_free(&allocator, &builder->joint_names);
    nsi_index_free(&allocator, &builder->geom_names);
    nsi_index_free(&allocator, &builder->actuator_names);
    nsi_arena_free(&builder->strings);
    nsi_free(&allocator, builder);
}

// ---- names -----------------------------------------------------------------------------------

static const char* keep(ns_model_builder* builder, const char* text) {
    return nsi_arena_string(&builder->strings, text, strlen(text));
}

static uint32_t name_hash(const char* name) {
    return nsi_hash_bytes(name, strlen(name));
}

#define FIND_BY_NAME(function, names, items, field)                                                \
    static uint32_t function(const ns_model_builder* builder, const char* name) {                  \
        const nsi_index* index = &builder->names;                                                  \
        for (uint32_t at = nsi_index_first(index, name_hash(name)), id;                            \
             nsi_index_at(index, at, &id); at = nsi_index_next(index, at)) {                       \
            if (strcmp(builder->items.data[id].def.field, name) == 0) return id;                   \
        }                                                                                          \
        return NSI_NONE;                                                                           \
    }

FIND_BY_NAME(find_link, link_names, links, name)
FIND_BY_NAME(find_joint, joint_names, links, joint)
FIND_BY_NAME(find_geom, geom_names, geoms, name)
FIND_BY_NAME(find_actuator, actuator_names, actuators, name)

bool nsi_model_builder_has_link(const ns_model_builder* builder, const char* name) {
    return find_link(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_joint(const ns_model_builder* builder, const char* name) {
    return find_joint(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_geom(const ns_model_builder* builder, const char* name) {
    return find_geom(builder, name) != NSI_NONE;
}

static bool is_world(const char* name) {
    return !name || strcmp(name, "world") == 0;
}

// `what` says whose name it is: "link", "joint", ...
static ns_status check_name(const char* what, const char* name, ns_error* error) {
    if (name[0] == '\0') return nsi_fail(error, NS_ERR_ARGUMENT, "%s: the name is empty", what);
    size_t length = strlen(name);
    if (length > NSI_MODEL_MAX_NAME) {
        return nsi_fail(error, NS_ERR_LIMIT, "%s \"%.40s...\": the name has %zu bytes; at most %d",
                        what, name, length, NSI_MODEL_MAX_NAME);
    }
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)name[i];
        if (c < 0x20 || c == 0x7F) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "%s \"%.*s...\": byte %zu of the name is a control character", what,
                            (int)i, name, i + 1);
        }
    }
    return NS_OK;
}

static ns_status fail_duplicate(const char* what, const char* name, ns_error* error) {
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s \"%s\": another %s has this name", what, name,
                    what);
}

// ---- numbers ---------------------------------------------------------------------------------

typedef enum number_rule { ANY_NUMBER, NOT_NEGATIVE, POSITIVE } number_rule;

// Whose field it is, for messages.
typedef struct owner {
    const char *what, *name;
} owner;

static ns_status check_number(owner of, const char* field, double value, number_rule rule,
                              ns_error* error) {
    const char* wanted = !isfinite(value)                          ? "finite"
                         : rule == NOT_NEGATIVE && !(value >= 0.0) ? "zero or positive"
                         : rule == POSITIVE && !(value > 0.0)      ? "positive"
                                                                   : NULL;
    if (!wanted) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s \"%s\": %s must be %s", of.what, of.name, field,
                    wanted);
}

static ns_status check_numbers(owner of, const char* field, const double* values, uint32_t count,
                               ns_error* error) {
    for (uint32_t i = 0; i < count; i++) {
        ns_status status = check_number(of, field, values[i], ANY_NUMBER, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status check_pose(owner of, const char* field, ns_pose* pose, ns_error* error) {
    ns_status status = check_numbers(of, field, pose->position, 3, error);
    if (status != NS_OK) return status;

    double unit[4];
    memcpy(unit, pose->quaternion, sizeof unit);
    const double slack = 1e-6; // a quaternion printed with few digits
    double distance = 2.0;     // from the given quaternion to the normalised one
    if (nsi_normalize(unit, 4)) {
        distance = 0.0;
        for (int i = 0; i < 4; i++) distance += fabs(unit[i] - pose->quaternion[i]);
    }
    if (!(distance <= slack)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "%s \"%s\": the quaternion of %s must have length 1 (1 0 0 0 is no "
                        "rotation)",
                        of.what, of.name, field);
    }
    memcpy(pose->quaternion, unit, sizeof unit);
    return NS_OK;
}

// ---- name and world --------------------------------------------------------------------------

static ns_status check_builder(const ns_model_builder* builder, const void* given,
                               const char* function, ns_error* error) {
    if (!builder || !given) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "%s: an argument is NULL", function);
    }
    return builder->failed ? nsi_fail_nomem(error) : NS_OK;
}

ns_status ns_model_builder_set_name(ns_model_builder* builder, const char* name, ns_error* error) {
    ns_status status = check_builder(builder, name, "ns_model_builder_set_name", error);
    if (status == NS_OK) status = check_name("model", name, error);
    if (status != NS_OK) return status;
    const char* copy = keep(builder, name);
    if (!copy) return nsi_fail_nomem(error);
    builder->name = copy;
    return NS_OK;
}

ns_status ns_model_builder_set_world(ns_model_builder* builder, const ns_world_def* world,
                                     ns_error* error) {
    ns_status status = check_builder(builder, world, "ns_model_builder_set_world", error);
    if (status != NS_OK) return status;
    owner of = {"world of model", builder->name};
    status = check_numbers(of, "gravity", world->gravity, 3, error);
    if (status == NS_OK) status = check_number(of, "timestep", world->timestep, POSITIVE, error);
    if (status == NS_OK) status = check_number(of, "density", world->density, NOT_NEGATIVE, error);
    if (status == NS_OK) {
        status = check_number(of, "viscosity", world->viscosity, NOT_NEGATIVE, error);
    }
    if (status != NS_OK) return status;
    if ((uint32_t)world->integrator > NS_INTEGRATOR_IMPLICIT) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "world: integrator is none of ns_integrator");
    }
    builder->world = *world;
    return NS_OK;
}

// ---- links -----------------------------------------------------------------------------------

static bool has_axis(ns_joint_type type) {
    return type == NS_JOINT_REVOLUTE || type == NS_JOINT_PRISMATIC;
}

bool nsi_model_builder_joint_has_no_axis(const ns_model_builder* builder, const char* name) {
    uint32_t number = find_joint(builder, name);
    return number != NSI_NONE && !has_axis(builder->links.data[number].def.joint_type);
}

static ns_status check_inertia(const ns_link_def* def, ns_error* error) {
    owner of = {"link", def->name};
    ns_status status = check_number(of, "mass", def->mass, NOT_NEGATIVE, error);
    if (status == NS_OK) status = check_numbers(of, "com", def->com, 3, error);
    if (status == NS_OK) status = check_numbers(of, "inertia", def->inertia, 6, error);
    if (status != NS_OK) return status;
    const char* fault = nsi_inertia_fault(def->mass, def->inertia);
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "link \"%s\": the inertia %s: not a physical inertia",
                    def->name, fault);
}

// A limit that is left to us passes as a number.
static double limit_number(double value) {
    return value == NS_LIMIT_AUTO ? 0.0 : value;
}

static ns_status check_joint_numbers(const ns_link_def* def, ns_error* error) {
    const struct {
        const char* field;
        double value;
        number_rule rule;
        bool force; // acts on the joint's motion, so a fixed joint cannot have it
    } numbers[] = {
        {"stiffness", def->stiffness, NOT_NEGATIVE, true},
        {"rest", def->rest, ANY_NUMBER, false},
        {"damping", def->damping, NOT_NEGATIVE, true},
        {"friction", def->friction, NOT_NEGATIVE, true},
        {"friction_velocity", def->friction_velocity, POSITIVE, false},
        {"armature", def->armature, NOT_NEGATIVE, true},
        {"lower", def->lower, ANY_NUMBER, false},
        {"upper", def->upper, ANY_NUMBER, false},
        {"limit_stiffness", limit_number(def->limit_stiffness), NOT_NEGATIVE, false},
        {"limit_damping", limit_number(def->limit_damping), NOT_NEGATIVE, false},
        {"mimic_multiplier", def->mimic_multiplier, ANY_NUMBER, false},
        {"mimic_offset", def->mimic_offset, ANY_NUMBER, false},
    };
    owner of = {"joint", def->joint};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ns_status status =
            check_number(of, numbers[i].field, numbers[i].value, numbers[i].rule, error);
        if (status != NS_OK) return status;
        if (def->joint_type == NS_JOINT_FIXED && numbers[i].force && numbers[i].value != 0.0) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": %s must be 0 on a fixed joint",
                            def->joint, numbers[i].field);
        }
    }
    return NS_OK;
}

// The joint's own fields; makes the axis and the quaternion unit length.
static ns_status check_joint(ns_link_def* def, ns_error* error) {
    if ((uint32_t)def->joint_type > NS_JOINT_FLOATING) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": joint_type is none of ns_joint_type",
                        def->joint);
    }
    owner of = {"joint", def->joint};
    ns_status status = check_pose(of, "origin", &def->origin, error);
    if (status == NS_OK) status = check_joint_numbers(def, error);
    if (status != NS_OK) return status;

    if (!has_axis(def->joint_type)) {
        def->axis[0] = def->axis[1] = 0.0, def->axis[2] = 1.0;
    } else if (!nsi_normalize(def->axis, 3)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": axis must be finite and not zero",
                        def->joint);
    }
    if (def->limited && !has_axis(def->joint_type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": only revolute and prismatic joints can be limited",
                        def->joint);
    }
    if (def->limited && !(def->lower < def->upper)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": lower must be less than upper",
                        def->joint);
    }
    if ((def->stiffness != 0.0 || def->rest != 0.0) && !has_axis(def->joint_type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": %s must be 0 unless the joint is revolute or prismatic",
                        def->joint, def->stiffness != 0.0 ? "stiffness" : "rest");
    }
    return NS_OK;
}

// Find the joint that is followed. What follows a follower follows the same joint as that one.
static ns_status resolve_mimic(const ns_model_builder* builder, nsi_link* link, ns_error* error) {
    ns_link_def* def = &link->def;
    link->mimic = NSI_NONE;
    if (!def->mimic) return NS_OK;
    uint32_t followed = find_joint(builder, def->mimic);
    if (followed == NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": mimic names no earlier joint \"%.*s\"", def->joint,
                        NSI_MODEL_MAX_NAME, def->mimic);
    }
    const nsi_link* leader = &builder->links.data[followed];
    if (!has_axis(def->joint_type) || !has_axis(leader->def.joint_type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": mimic \"%s\": both must be revolute or prismatic",
                        def->joint, def->mimic);
    }
    if (leader->mimic != NSI_NONE) {
        def->mimic_offset += def->mimic_multiplier * leader->def.mimic_offset;
        def->mimic_multiplier *= leader->def.mimic_multiplier;
        followed = leader->mimic;
        leader = &builder->links.data[followed];
        def->mimic = leader->def.joint;
        owner of = {"joint", def->joint};
        ns_status status =
            check_number(of, "mimic_multiplier", def->mimic_multiplier, ANY_NUMBER, error);
        if (status == NS_OK) {
            status = check_number(of, "mimic_offset", def->mimic_offset, ANY_NUMBER, error);
        }
        if (status != NS_OK) return status;
    }
    link->mimic = followed;
    return NS_OK;
}

static void count_coordinates(ns_model_builder* builder, nsi_link* link) {
    static const uint32_t nq[] = {0, 1, 1, 4, 7}, nv[] = {0, 1, 1, 3, 6};
    if (link->mimic != NSI_NONE) {
        const nsi_link* leader = &builder->links.data[link->mimic];
        link->q = leader->q, link->v = leader->v;
        return;
    }
    link->nq = nq[link->def.joint_type], link->nv = nv[link->def.joint_type];
    link->q = builder->nq, link->v = builder->nv;
    builder->nq += link->nq, builder->nv += link->nv;
}

// Copy all strings of a link; false when out of memory.
static bool keep_link_strings(ns_model_builder* builder, ns_link_def* def) {
    def->name = keep(builder, def->name);
    def->parent = keep(builder, def->parent ? def->parent : "world");
    def->joint = keep(builder, def->joint);
    bool kept = def->name && def->parent && def->joint;
    if (def->mimic) {
        def->mimic = keep(builder, def->mimic);
        kept = kept && def->mimic;
    }
    return kept;
}

ns_status ns_model_builder_add_link(ns_model_builder* builder, const ns_link_def* given,
                                    ns_error* error) {
    ns_status status = check_builder(builder, given, "ns_model_builder_add_link", error);
    if (status != NS_OK) return status;
    nsi_link link = {.def = *given};
    ns_link_def* def = &link.def;

    // Names.
    status = check_name("link", def->name ? def->name : "", error);
    if (status != NS_OK) return status;
    if (is_world(def->name)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "link \"world\": this name stands for the world and cannot be a link's");
    }
    if (find_link(builder, def->name) != NSI_NONE) return fail_duplicate("link", def->name, error);
    char joint[NSI_MODEL_MAX_NAME + sizeof "_joint"];
    if (!def->joint) {
        snprintf(joint, sizeof joint, "%s_joint", def->name);
        def->joint = joint;
    }
    status = check_name("joint", def->joint, error);
    if (status != NS_OK) return status;
    if (find_joint(builder, def->joint) != NSI_NONE) {
        return fail_duplicate("joint", def->joint, error);
    }

    // Place in the tree.
    link.parent = NSI_NONE;
    if (!is_world(def->parent)) {
        link.parent = find_link(builder, def->parent);
        if (link.parent == NSI_NONE) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "link \"%s\": parent names no earlier link "
                            "\"%.*s\"",
                            def->name, NSI_MODEL_MAX_NAME, def->parent);
        }
        if (def->joint_type == NS_JOINT_FLOATING) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "joint \"%s\": a floating joint must be carried by the world, not by "
                            "link \"%s\"",
                            def->joint, def->parent);
        }
    }

    // Numbers.
    status = check_inertia(def, error);
    if (status == NS_OK) status = check_joint(def, error);
    if (status == NS_OK) status = resolve_mimic(builder, &link, error);
    if (status != NS_OK) return status;
    if (builder->links.count >= MAX_LINKS) {
        return nsi_fail(error, NS_ERR_LIMIT, "link \"%s\": a model has at most %d links", def->name,
                        MAX_LINKS);
    }

    uint32_t id = builder->links.count;
    if (!keep_link_strings(builder, def) ||
        !nsi_array_reserve(&builder->allocator, &builder->links, 1) ||
        !nsi_array_push(&builder->allocator, &builder->next_geom, 0) ||
        !nsi_index_insert(&builder->allocator, &builder->link_names, name_hash(def->name), id) ||
        !nsi_index_insert(&builder->allocator, &builder->joint_names, name_hash(def->joint), id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    count_coordinates(builder, &link);
    builder->links.data[builder->links.count++] = link;
    return NS_OK;
}

// ---- geometries ------------------------------------------------------------------------------

// "<link>_geom<k>", k counting the link's geometries without a name; names that are taken are left
// out for good, so that this takes no longer than there are names.
static void make_geom_name(ns_model_builder* builder, const char* link, uint32_t number, char* name,
                           size_t size) {
    uint32_t* next =
        number == NSI_NONE ? &builder->next_world_geom : &builder->next_geom.data[number];
    do {
        snprintf(name, size, "%s_geom%u", link, (*next)++);
    } while (find_geom(builder, name) != NSI_NONE);
}

static ns_status check_geom_numbers(ns_geom_def* def, ns_error* error) {
    owner of = {"geometry", def->name};
    if ((uint32_t)def->type > NS_GEOM_ELLIPSOID) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": type is none of ns_geom_type",
                        def->name);
    }
    // How many sizes a type has; those of a plane may be zero, the scale of a mesh negative.
    static const uint32_t nsize[] = {1, 2, 2, 3, 2, 3, 3};
    number_rule rule = def->type == NS_GEOM_PLANE  ? NOT_NEGATIVE
                       : def->type == NS_GEOM_MESH ? ANY_NUMBER
                                                   : POSITIVE;
    ns_status status = NS_OK;
    for (uint32_t i = 0; i < nsize[def->type] && status == NS_OK; i++) {
        status = check_number(of, "size", def->size[i], rule, error);
    }
    for (uint32_t i = nsize[def->type]; i < 3; i++) def->size[i] = 0.0;
    if (status == NS_OK) status = check_pose(of, "pose", &def->pose, error);
    for (uint32_t i = 0; i < 3 && status == NS_OK; i++) {
        status = check_number(of, "friction", def->friction[i], NOT_NEGATIVE, error);
    }
    if (status == NS_OK) status = check_numbers(of, "color", def->color, 4, error);
    if (status != NS_OK) return status;
    for (uint32_t i = 0; i < 4; i++) def->color[i] = fmin(1.0, fmax(0.0, def->color[i]));
    if ((def->type == NS_GEOM_MESH) != (def->mesh != NULL)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": mesh must %s", def->name,
                        def->mesh ? "be NULL unless the type is NS_GEOM_MESH" : "name a file");
    }
    return NS_OK;
}

ns_status ns_model_builder_add_geom(ns_model_builder* builder, const ns_geom_def* given,
                                    ns_error* error) {
    ns_status status = check_builder(builder, given, "ns_model_builder_add_geom", error);
    if (status != NS_OK) return status;
    nsi_geom geom = {.def = *given, .link = NSI_NONE};
    ns_geom_def* def = &geom.def;
    if (!def->link) def->link = "world";
    if (!is_world(def->link)) {
        geom.link = find_link(builder, def->link);
        if (geom.link == NSI_NONE) {
            return nsi_fail(
                error, NS_ERR_ARGUMENT, "geometry \"%.*s\": link names no earlier link \"%.*s\"",
                NSI_MODEL_MAX_NAME, def->name ? def->name : "", NSI_MODEL_MAX_NAME, def->link);
        }
    }

    char name[NSI_MODEL_MAX_NAME + sizeof "_geom4294967295"];
    if (builder->geoms.count >= MAX_GEOMS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d geometries", MAX_GEOMS);
    }
    if (!def->name) {
        make_geom_name(builder, def->link, geom.link, name, sizeof name);
        def->name = name;
    }
    status = check_name("geometry", def->name, error);
    if (status != NS_OK) return status;
    if (find_geom(builder, def->name) != NSI_NONE) {
        return fail_duplicate("geometry", def->name, error);
    }
    status = check_geom_numbers(def, error);
    if (status != NS_OK) return status;

    def->name = keep(builder, def->name);
    def->link = keep(builder, def->link);
    if (def->mesh) def->mesh = keep(builder, def->mesh);
    uint32_t id = builder->geoms.count;
    if (!def->name || !def->link || (def->type == NS_GEOM_MESH && !def->mesh) ||
        !nsi_array_reserve(&builder->allocator, &builder->geoms, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->geom_names, name_hash(def->name), id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->geoms.data[builder->geoms.count++] = geom;
    return NS_OK;
}

// ---- actuators -------------------------------------------------------------------------------

static ns_status check_actuator_numbers(const ns_actuator_def* def, ns_error* error) {
    owner of = {"actuator", def->name};
    if ((uint32_t)def->type > NS_ACTUATOR_SERIES_ELASTIC) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "actuator \"%s\": type is none of ns_actuator_type",
                        def->name);
    }
    ns_status status = check_number(of, "gear", def->gear, ANY_NUMBER, error);
    if (status == NS_OK) status = check_number(of, "kp", def->kp, NOT_NEGATIVE, error);
    if (status == NS_OK) status = check_number(of, "kd", def->kd, NOT_NEGATIVE, error);
    if (status != NS_OK) return status;

    const struct {
        const char* what;
        bool limited;
        double lower, upper;
    } ranges[] = {
        {"control", def->control_limited, def->control_lower, def->control_upper},
        {"force", def->force_limited, def->force_lower, def->force_upper},
    };
    for (int i = 0; i < 2; i++) {
        bool finite = isfinite(ranges[i].lower) && isfinite(ranges[i].upper);
        if (ranges[i].limited && !(finite && ranges[i].lower < ranges[i].upper)) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "actuator \"%s\": %s_lower must be less than %s_upper, both finite",
                            def->name, ranges[i].what, ranges[i].what);
        }
    }
    return NS_OK;
}

ns_status ns_model_builder_add_actuator(ns_model_builder* builder, const ns_actuator_def* given,
                                        ns_error* error) {
    ns_status status = check_builder(builder, given, "ns_model_builder_add_actuator", error);
    if (status != NS_OK) return status;
    nsi_actuator actuator = {.def = *given};
    ns_actuator_def* def = &actuator.def;

    char name[NSI_MODEL_MAX_NAME + sizeof "_motor"];
    const char* joint = def->joint ? def->joint : "";
    if (!def->name) {
        snprintf(name, sizeof name, "%.*s_motor", NSI_MODEL_MAX_NAME, joint);
        def->name = name;
    }
    status = check_name("actuator", def->name, error);
    if (status != NS_OK) return status;
    if (find_actuator(builder, def->name) != NSI_NONE) {
        return fail_duplicate("actuator", def->name, error);
    }

    actuator.link = find_joint(builder, joint);
    if (actuator.link == NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "actuator \"%s\": there is no joint \"%.*s\"",
                        def->name, NSI_MODEL_MAX_NAME, joint);
    }
    const nsi_link* link = &builder->links.data[actuator.link];
    if (!has_axis(link->def.joint_type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": joint \"%s\" must be revolute or prismatic", def->name,
                        joint);
    }
    if (link->mimic != NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": joint \"%s\" has no coordinate of its own, it follows "
                        "joint \"%s\"; drive that one",
                        def->name, joint, link->def.mimic);
    }
    status = check_actuator_numbers(def, error);
    if (status != NS_OK) return status;
    if (builder->actuators.count >= MAX_ACTUATORS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d actuators", MAX_ACTUATORS);
    }

    def->name = keep(builder, def->name);
    def->joint = keep(builder, joint);
    uint32_t id = builder->actuators.count;
    if (!def->name || !def->joint ||
        !nsi_array_reserve(&builder->allocator, &builder->actuators, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->actuator_names, name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->actuators.data[builder->actuators.count++] = actuator;
    return NS_OK;
}

ns_status ns_model_builder_add_ignored(ns_model_builder* builder, const char* what,
                                       ns_error* error) {
    ns_status status = check_builder(builder, what, "ns_model_builder_add_ignored", error);
    if (status != NS_OK) return status;
    if (builder->ignored.count >= MAX_IGNORED) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d notes on what is ignored",
                        MAX_IGNORED);
    }
    const char* copy = keep(builder, what);
    if (!copy || !nsi_array_push(&builder->allocator, &builder->ignored, copy)) {
        return nsi_fail_nomem(error);
    }
    return NS_OK;
}

// ---- finish ----------------------------------------------------------------------------------

// The arrays of a model, in the order in which they follow it in its block: type, field, count.
#define MODEL_ARRAYS(X)                                                                            \
    X(nsi_link, links, sizes.nlink)                                                                \
    X(nsi_geom, geoms, sizes.ngeom)                                                                \
    X(nsi_actuator, actuators, sizes.nu)                                                           \
    X(ns_param, params, sizes.nparam)                                                              \
    X(const char*, ignored, sizes.nignored)                                                        \
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

static const char* put(string_room* room, const char* text) {
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

static void put_param(string_room* room, ns_param* params, uint32_t number, ns_param param,
                      const char* name) {
    param.name = put(room, name);
    if (params) params[number] = param;
}

// Fill in everything but the hash table; `arrays` is NULL to count the strings.
static void fill(const ns_model_builder* builder, ns_model* model, const model_arrays* arrays,
                 string_room* room) {
    char name[NSI_PARAM_NAME_SIZE];
    ns_param* params = arrays ? arrays->params : NULL;
    uint32_t param = 0;
    model->name = put(room, builder->name);

    for (uint32_t i = 0; i < builder->links.count; i++) {
        nsi_link link = builder->links.data[i];
        link.param = param;
        for (uint32_t k = 0; k < NSI_LINK_PARAMS; k++) {
            put_param(room, params, param++, nsi_link_param(&link, k, name), name);
        }
        link.def.name = put(room, link.def.name);
        link.def.parent = put(room, link.def.parent);
        link.def.joint = put(room, link.def.joint);
        link.def.mimic = put(room, link.def.mimic);
        if (arrays) arrays->links[i] = link;
        model->has_mimic = model->has_mimic || link.mimic != NSI_NONE;
    }
    for (uint32_t i = 0; i < builder->geoms.count; i++) {
        nsi_geom geom = builder->geoms.data[i];
        geom.def.name = put(room, geom.def.name);
        geom.def.link = put(room, geom.def.link);
        geom.def.mesh = put(room, geom.def.mesh);
        if (arrays) arrays->geoms[i] = geom;
    }
    for (uint32_t i = 0; i < builder->actuators.count; i++) {
        nsi_actuator actuator = builder->actuators.data[i];
        actuator.param = param;
        for (uint32_t k = 0; k < NSI_ACTUATOR_PARAMS; k++) {
            put_param(room, params, param++, nsi_actuator_param(&actuator, k, name), name);
        }
        actuator.def.name = put(room, actuator.def.name);
        actuator.def.joint = put(room, actuator.def.joint);
        if (arrays) arrays->actuators[i] = actuator;
    }
    model->gravity_param = param;
    for (uint32_t k = 0; k < 3; k++) {
        put_param(room, params, param++, nsi_gravity_param(&builder->world, k, name), name);
    }
    for (uint32_t i = 0; i < builder->ignored.count; i++) {
        const char* what = put(room, builder->ignored.data[i]);
        if (arrays) arrays->ignored[i] = what;
    }
    NS_ASSERT(param == model->sizes.nparam);
}

// Open addressing, at most half full.
static void fill_param_table(const ns_model* model, uint32_t* table) {
    uint32_t mask = model->param_table_size - 1;
    for (uint32_t i = 0; i <= mask; i++) table[i] = NSI_NONE;
    for (uint32_t k = 0; k < model->sizes.nparam; k++) {
        uint32_t at = name_hash(model->params[k].name) & mask;
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

ns_status nsi_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                   uint32_t* bad_link, ns_error* error) {
    *bad_link = NSI_NONE;
    if (!builder || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_builder_finish: an argument is NULL");
    }
    *out = NULL;
    if (builder->failed) return nsi_fail_nomem(error);

    // Sizes. The limits on links, geometries and so on keep all of them small.
    ns_model head = {
        .allocator = builder->allocator,
        .world = builder->world,
        .sizes = {.nlink = builder->links.count,
                  .nq = builder->nq,
                  .nv = builder->nv,
                  .nu = builder->actuators.count,
                  .ngeom = builder->geoms.count,
                  .nignored = builder->ignored.count},
    };
    head.sizes.nparam =
        NSI_LINK_PARAMS * head.sizes.nlink + NSI_ACTUATOR_PARAMS * head.sizes.nu + 3;
    head.param_table_size = 8;
    while (head.param_table_size < 2 * head.sizes.nparam) head.param_table_size *= 2;

    string_room room = {0};
    fill(builder, &head, NULL, &room);
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
    room = (string_room){.at = block + strings_start};
    fill(builder, model, &arrays, &room);
    fill_param_table(model, arrays.param_table);

    double* resistance =
        nsi_alloc(&builder->allocator, (head.sizes.nlink + 1) * sizeof *resistance);
    ns_status status = resistance ? nsi_model_check_mobility(model, resistance, bad_link, error)
                                  : nsi_fail_nomem(error);
    for (uint32_t i = 0; resistance && status == NS_OK && i < head.sizes.nlink; i++) {
        choose_limits(&head.world, resistance[i], &arrays.links[i], arrays.params);
    }
    nsi_free(&builder->allocator, resistance);
    if (status != NS_OK) {
        ns_model_free(model);
        return status;
    }
    *out = model;
    return NS_OK;
}

ns_status ns_model_builder_finish(const ns_model_builder* builder, ns_model** out,
                                  ns_error* error) {
    uint32_t bad_link;
    return nsi_model_builder_finish(builder, out, &bad_link, error);
}
