// The model builder: definitions are checked and copied as they come. finish.c makes the model.

#include "model/builder.h"

#include "contact/law.h"
#include "model/pose.h"

#include <math.h>
#include <stdio.h>

// Far above any robot; they keep every size below within 32 bits.
enum {
    MAX_LINKS = 1 << 16,
    MAX_ACTUATORS = 1 << 16,
    MAX_GEOMS = 1 << 20,
    MAX_ALL_VERTICES = 1 << 22, // of all geometries
    MAX_EXCLUSIONS = 1 << 20,
    MAX_IGNORED = 1 << 20
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
        .stiffness = NS_CONTACT_AUTO,
        .damping = NS_CONTACT_AUTO,
        .groups = 1,
        .touches = 1,
        .exponent = NS_CONTACT_AUTO,
    };
}

static ns_status set_default_value(void* context, const ns_contact_param* param, ns_error* error) {
    (void)error;
    if (param->field > 0) {
        memcpy((char*)context + param->field, &param->value, sizeof param->value);
    }
    return NS_OK;
}

ns_contact_def ns_default_contact_def(void) {
    ns_contact_def def = {.model = NS_CONTACT_NCP};
    nsi_contact_each_param(set_default_value, &def, NULL);
    return def;
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
    nsi_array_free(&allocator, &builder->contacts);
    nsi_array_free(&allocator, &builder->exclusions);
    nsi_array_free(&allocator, &builder->ignored);
    nsi_array_free(&allocator, &builder->next_geom);
    nsi_index_free(&allocator, &builder->link_names);
    nsi_index_free(&allocator, &builder->joint_names);
    nsi_index_free(&allocator, &builder->geom_names);
    nsi_index_free(&allocator, &builder->actuator_names);
    nsi_index_free(&allocator, &builder->contact_names);
    nsi_arena_free(&builder->strings);
    nsi_free(&allocator, builder);
}

// ---- names -----------------------------------------------------------------------------------

static const char* keep(ns_model_builder* builder, const char* text) {
    return nsi_arena_string(&builder->strings, text, strlen(text));
}

#define FIND_BY_NAME(function, names, items, field)                                                \
    static uint32_t function(const ns_model_builder* builder, const char* name) {                  \
        const nsi_index* index = &builder->names;                                                  \
        for (uint32_t at = nsi_index_first(index, nsi_name_hash(name)), id;                        \
             nsi_index_at(index, at, &id); at = nsi_index_next(index, at)) {                       \
            if (strcmp(builder->items.data[id].def.field, name) == 0) return id;                   \
        }                                                                                          \
        return NSI_NONE;                                                                           \
    }

FIND_BY_NAME(find_link, link_names, links, name)
FIND_BY_NAME(find_joint, joint_names, links, joint)
FIND_BY_NAME(find_geom, geom_names, geoms, name)
FIND_BY_NAME(find_actuator, actuator_names, actuators, name)
FIND_BY_NAME(find_contact, contact_names, contacts, name)

bool nsi_model_builder_has_link(const ns_model_builder* builder, const char* name) {
    return find_link(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_joint(const ns_model_builder* builder, const char* name) {
    return find_joint(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_geom(const ns_model_builder* builder, const char* name) {
    return find_geom(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_ground(const ns_model_builder* builder) {
    for (uint32_t i = 0; i < builder->geoms.count; i++) {
        const nsi_geom* geom = &builder->geoms.data[i];
        if (geom->def.type == NS_GEOM_PLANE && geom->def.collision &&
            nsi_link_body(builder->links.data, geom->link) == NSI_NONE) {
            return true;
        }
    }
    return false;
}

static bool is_world(const char* name) {
    return !name || strcmp(name, "world") == 0;
}

// `what` says whose name it is: "link", "joint", ...
static ns_status check_part_name(const char* what, const char* name, ns_error* error) {
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

typedef enum number_rule { ANY_NUMBER, NOT_NEGATIVE, POSITIVE, SHARE, ONE_OR_MORE } number_rule;

// Whose field it is, for messages.
typedef struct owner {
    const char *what, *name;
} owner;

static ns_status check_part_number(owner of, const char* field, double value, number_rule rule,
                                   ns_error* error) {
    const char* wanted = !isfinite(value)                                ? "finite"
                         : rule == NOT_NEGATIVE && value < 0.0           ? "zero or positive"
                         : rule == POSITIVE && value <= 0.0              ? "positive"
                         : rule == SHARE && (value < 0.0 || value > 1.0) ? "between 0 and 1"
                         : rule == ONE_OR_MORE && value < 1.0            ? "1 or more"
                                                                         : NULL;
    if (!wanted) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s \"%s\": %s must be %s", of.what, of.name, field,
                    wanted);
}

// A number that is left to us passes for any rule.
static double if_given(double value, double automatic) {
    return value == automatic ? 0.0 : value;
}

static ns_status check_part_numbers(owner of, const char* field, const double* values,
                                    uint32_t count, ns_error* error) {
    for (uint32_t i = 0; i < count; i++) {
        ns_status status = check_part_number(of, field, values[i], ANY_NUMBER, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status check_pose(owner of, const char* field, ns_pose* pose, ns_error* error) {
    ns_status status = check_part_numbers(of, field, pose->position, 3, error);
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
    if (status == NS_OK) status = check_part_name("model", name, error);
    if (status != NS_OK) return status;
    const char* copy = keep(builder, name);
    if (!copy) return nsi_fail_nomem(error);
    builder->name = copy;
    return NS_OK;
}

ns_status nsi_model_builder_set_folder(ns_model_builder* builder, const char* folder,
                                       ns_error* error) {
    builder->folder = keep(builder, folder);
    return builder->folder ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_model_builder_set_world(ns_model_builder* builder, const ns_world_def* world,
                                     ns_error* error) {
    ns_status status = check_builder(builder, world, "ns_model_builder_set_world", error);
    if (status != NS_OK) return status;
    owner of = {"world of model", builder->name};
    status = check_part_numbers(of, "gravity", world->gravity, 3, error);
    if (status == NS_OK)
        status = check_part_number(of, "timestep", world->timestep, POSITIVE, error);
    if (status == NS_OK)
        status = check_part_number(of, "density", world->density, NOT_NEGATIVE, error);
    if (status == NS_OK) {
        status = check_part_number(of, "viscosity", world->viscosity, NOT_NEGATIVE, error);
    }
    if (status != NS_OK) return status;
    if (!ns_choice_has(&ns_integrators, (int)world->integrator)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "world: integrator is none of ns_integrator");
    }
    builder->world = *world;
    return NS_OK;
}

// ---- links -----------------------------------------------------------------------------------

static bool has_axis(ns_joint_type type) {
    return ns_joint_type_info(type)->has_axis;
}

bool nsi_model_builder_joint_has_no_axis(const ns_model_builder* builder, const char* name) {
    uint32_t number = find_joint(builder, name);
    return number != NSI_NONE && !has_axis(builder->links.data[number].def.joint_type);
}

static ns_status check_inertia(const ns_link_def* def, ns_error* error) {
    owner of = {"link", def->name};
    ns_status status = check_part_number(of, "mass", def->mass, NOT_NEGATIVE, error);
    if (status == NS_OK) status = check_part_numbers(of, "com", def->com, 3, error);
    if (status == NS_OK) status = check_part_numbers(of, "inertia", def->inertia, 6, error);
    if (status != NS_OK) return status;
    const char* fault = nsi_inertia_fault(def->mass, def->inertia);
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "link \"%s\": the inertia %s: not a physical inertia",
                    def->name, fault);
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
        {"limit_stiffness", if_given(def->limit_stiffness, NS_LIMIT_AUTO), NOT_NEGATIVE, false},
        {"limit_damping", if_given(def->limit_damping, NS_LIMIT_AUTO), NOT_NEGATIVE, false},
        {"mimic_multiplier", def->mimic_multiplier, ANY_NUMBER, false},
        {"mimic_offset", def->mimic_offset, ANY_NUMBER, false},
    };

    // A fixed joint must not have forces: they would be dropped without a word.
    owner of = {"joint", def->joint};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ns_status status =
            check_part_number(of, numbers[i].field, numbers[i].value, numbers[i].rule, error);
        if (status != NS_OK) return status;
        bool moves = ns_joint_type_info(def->joint_type)->nv > 0;
        if (!moves && numbers[i].force && numbers[i].value != 0.0) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": %s must be 0 on a fixed joint",
                            def->joint, numbers[i].field);
        }
    }
    return NS_OK;
}

// The joint's own fields; makes the axis and the quaternion unit length.
static ns_status check_joint(ns_link_def* def, ns_error* error) {
    if (!ns_joint_type_info(def->joint_type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": joint_type is none of ns_joint_type",
                        def->joint);
    }
    owner of = {"joint", def->joint};
    ns_status status = check_pose(of, "origin", &def->origin, error);
    if (status == NS_OK) status = check_joint_numbers(def, error);
    if (status != NS_OK) return status;

    // Axes are stored at unit length; other joints get a default that nothing reads.
    if (!has_axis(def->joint_type)) {
        def->axis[0] = def->axis[1] = 0.0, def->axis[2] = 1.0;
    } else if (!nsi_normalize(def->axis, 3)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": axis must be finite and not zero",
                        def->joint);
    }

    // Limits and springs act along one coordinate.
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

    // Find the joint it follows.
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

    // Of a joint that follows another one, follow that instead: chains are resolved here.
    if (leader->mimic != NSI_NONE) {
        def->mimic_offset += def->mimic_multiplier * leader->def.mimic_offset;
        def->mimic_multiplier *= leader->def.mimic_multiplier;
        followed = leader->mimic;
        leader = &builder->links.data[followed];
        def->mimic = leader->def.joint;
        owner of = {"joint", def->joint};
        ns_status status =
            check_part_number(of, "mimic_multiplier", def->mimic_multiplier, ANY_NUMBER, error);
        if (status == NS_OK) {
            status = check_part_number(of, "mimic_offset", def->mimic_offset, ANY_NUMBER, error);
        }
        if (status != NS_OK) return status;
    }

    link->mimic = followed;
    return NS_OK;
}

static void count_coordinates(ns_model_builder* builder, nsi_link* link) {
    if (link->mimic != NSI_NONE) {
        const nsi_link* leader = &builder->links.data[link->mimic];
        link->q = leader->q, link->v = leader->v;
        return;
    }
    const ns_joint_info* info = ns_joint_type_info(link->def.joint_type);
    link->nq = info->nq, link->nv = info->nv;
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
    status = check_part_name("link", def->name ? def->name : "", error);
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
    status = check_part_name("joint", def->joint, error);
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
        const ns_joint_info* info = ns_joint_type_info(def->joint_type);
        if (info && info->in_world) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "joint \"%s\": a %s joint must be carried by the world, not by "
                            "link \"%s\"",
                            def->joint, info->name, def->parent);
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
        !nsi_index_insert(&builder->allocator, &builder->link_names, nsi_name_hash(def->name),
                          id) ||
        !nsi_index_insert(&builder->allocator, &builder->joint_names, nsi_name_hash(def->joint),
                          id)) {
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

// A plane may be drawn with any size, and a plate may have no thickness; the scale of a mesh may be
// negative.
static number_rule size_rule(ns_geom_type type, uint32_t i) {
    switch (type) {
    case NS_GEOM_MESH: return ANY_NUMBER;
    case NS_GEOM_PLANE:
    case NS_GEOM_POLYGON: return NOT_NEGATIVE;
    case NS_GEOM_ELLIPSE: return i < 2 ? POSITIVE : NOT_NEGATIVE;
    default: return POSITIVE;
    }
}

static ns_status check_geom_size(ns_geom_def* def, ns_error* error) {
    static const uint32_t nsize[] = {1, 2, 2, 3, 2, 3, 3, 1, 3, 0};
    owner of = {"geometry", def->name};
    for (uint32_t i = 0; i < nsize[def->type]; i++) {
        ns_status status =
            check_part_number(of, "size", def->size[i], size_rule(def->type, i), error);
        if (status != NS_OK) return status;
    }
    for (uint32_t i = nsize[def->type]; i < 3; i++) def->size[i] = 0.0;
    return NS_OK;
}

static ns_status check_geom_numbers(ns_geom_def* def, ns_error* error) {
    owner of = {"geometry", def->name};
    if ((uint32_t)def->type > NS_GEOM_POINTS) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": type is none of ns_geom_type",
                        def->name);
    }

    // Shape and pose.
    ns_status status = check_geom_size(def, error);
    if (status == NS_OK) status = check_pose(of, "pose", &def->pose, error);

    // Contact parameters; automatic ones are chosen later.
    for (uint32_t i = 0; i < 3 && status == NS_OK; i++) {
        status = check_part_number(of, "friction", def->friction[i], NOT_NEGATIVE, error);
    }
    if (status == NS_OK) status = check_part_numbers(of, "color", def->color, 4, error);
    if (status == NS_OK)
        status = check_part_number(of, "restitution", def->restitution, SHARE, error);
    if (status == NS_OK) {
        status = check_part_number(of, "stiffness", if_given(def->stiffness, NS_CONTACT_AUTO),
                                   NOT_NEGATIVE, error);
    }
    if (status == NS_OK) {
        status = check_part_number(of, "damping", if_given(def->damping, NS_CONTACT_AUTO),
                                   NOT_NEGATIVE, error);
    }
    if (status == NS_OK) {
        double exponent = def->exponent == NS_CONTACT_AUTO ? 1.5 : def->exponent;
        status = check_part_number(of, "exponent", exponent, ONE_OR_MORE, error);
    }

    if (status != NS_OK) return status;
    for (uint32_t i = 0; i < 4; i++) def->color[i] = fmin(1.0, fmax(0.0, def->color[i]));
    return NS_OK;
}

static ns_status check_vertices(const ns_model_builder* builder, const ns_geom_def* def,
                                ns_error* error) {
    bool mesh = def->type == NS_GEOM_MESH, polygon = def->type == NS_GEOM_POLYGON;
    bool may = mesh || polygon || def->type == NS_GEOM_POINTS;
    owner of = {"geometry", def->name};
    const char* fault = NULL;
    if (def->mesh && !mesh) fault = "mesh must be NULL unless the type is NS_GEOM_MESH";
    if (mesh && !def->mesh && def->nvertex == 0) fault = "mesh must name a file, or give vertices";
    if (def->nvertex > 0 && !def->vertices) fault = "vertices is NULL and nvertex is not 0";
    if (def->nvertex > 0 && !may) fault = "only meshes, polygons and points have vertices";
    if (def->nvertex == 0 && may && !mesh) fault = "vertices must be given";
    if (fault) return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": %s", def->name, fault);
    if (def->nvertex > NSI_MAX_VERTICES || def->nvertex > MAX_ALL_VERTICES - builder->nvertex) {
        return nsi_fail(error, NS_ERR_LIMIT,
                        "geometry \"%s\": too many vertices, %u; at most %d, and %d in a model",
                        def->name, def->nvertex, NSI_MAX_VERTICES, MAX_ALL_VERTICES);
    }
    ns_status status = check_part_numbers(of, "vertices", def->vertices, 3 * def->nvertex, error);
    if (status != NS_OK || !polygon) return status;
    fault = nsi_outline_fault(def->vertices, def->nvertex);
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "geometry \"%s\": vertices: the outline %s", def->name,
                    fault);
}

// Copy what a geometry points to; false when out of memory.
static bool keep_geom(ns_model_builder* builder, ns_geom_def* def) {
    def->name = keep(builder, def->name);
    def->link = keep(builder, def->link);
    bool kept = def->name && def->link;
    if (def->mesh) {
        def->mesh = keep(builder, def->mesh);
        kept = kept && def->mesh;
    }
    if (def->nvertex == 0) {
        def->vertices = NULL;
        return kept;
    }
    size_t size = 3 * (size_t)def->nvertex * sizeof *def->vertices;
    double* vertices = nsi_arena_alloc(&builder->strings, size);
    if (!vertices) return false;
    memcpy(vertices, def->vertices, size);
    if (def->type == NS_GEOM_POLYGON) nsi_outline_orient(vertices, def->nvertex);
    def->vertices = vertices;
    return kept;
}

ns_status ns_model_builder_add_geom(ns_model_builder* builder, const ns_geom_def* given,
                                    ns_error* error) {
    ns_status status = check_builder(builder, given, "ns_model_builder_add_geom", error);
    if (status != NS_OK) return status;
    nsi_geom geom = {.def = *given, .link = NSI_NONE};
    ns_geom_def* def = &geom.def;

    // The link it is fixed to.
    if (!def->link) def->link = "world";
    if (!is_world(def->link)) {
        geom.link = find_link(builder, def->link);
        if (geom.link == NSI_NONE) {
            return nsi_fail(
                error, NS_ERR_ARGUMENT, "geometry \"%.*s\": link names no earlier link \"%.*s\"",
                NSI_MODEL_MAX_NAME, def->name ? def->name : "", NSI_MODEL_MAX_NAME, def->link);
        }
    }

    // A name: given, or made from that of the link.
    char name[NSI_MODEL_MAX_NAME + sizeof "_geom4294967295"];
    if (builder->geoms.count >= MAX_GEOMS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d geometries", MAX_GEOMS);
    }
    if (!def->name) {
        make_geom_name(builder, def->link, geom.link, name, sizeof name);
        def->name = name;
    }
    status = check_part_name("geometry", def->name, error);
    if (status != NS_OK) return status;
    if (find_geom(builder, def->name) != NSI_NONE) {
        return fail_duplicate("geometry", def->name, error);
    }

    status = check_geom_numbers(def, error);
    if (status == NS_OK) status = check_vertices(builder, def, error);
    if (status != NS_OK) return status;

    // Keep a copy under its name.
    uint32_t id = builder->geoms.count;
    if (!keep_geom(builder, def) || !nsi_array_reserve(&builder->allocator, &builder->geoms, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->geom_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->geoms.data[builder->geoms.count++] = geom;
    builder->nvertex += def->nvertex;
    return NS_OK;
}

// ---- pairs -----------------------------------------------------------------------------------

static ns_status check_contact_value(void* context, const ns_contact_param* param,
                                     ns_error* error) {
    const ns_contact_def* def = context;
    const char* wanted = nsi_contact_value_fault(param, nsi_contact_value(def, param));
    if (!wanted) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": %s must be %s", def->name, param->name,
                    wanted);
}

static ns_status check_contact_numbers(const ns_contact_def* def, ns_error* error) {
    if (!nsi_contact_law_get(def->model)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "pair \"%s\": model is the number of no contact law", def->name);
    }
    for (uint32_t k = 0; k < def->nvalue; k++) {
        const char* name = def->values ? def->values[k].param : NULL;
        const ns_contact_param* param = name ? nsi_contact_find_param(name) : NULL;
        if (!param || param->field > 0) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": values: %s parameter \"%.40s\"",
                            def->name, param ? "there is a field for" : "no contact law has a",
                            name ? name : "");
        }
    }
    ns_contact_def copy = *def;
    return nsi_contact_each_param(check_contact_value, &copy, error);
}

// Copy the list of values; false when out of memory.
static bool keep_contact_values(ns_model_builder* builder, ns_contact_def* def) {
    if (def->nvalue == 0) return true;
    ns_contact_value* values =
        nsi_arena_alloc(&builder->strings, def->nvalue * sizeof *def->values);
    for (uint32_t k = 0; values && k < def->nvalue; k++) {
        values[k] = (ns_contact_value){keep(builder, def->values[k].param), def->values[k].value};
        if (!values[k].param) return false;
    }
    def->values = values;
    return values != NULL;
}

static const char* pair_fault(const ns_model_builder* builder, uint32_t a, uint32_t b) {
    const nsi_link* links = builder->links.data;
    const nsi_geom *x = &builder->geoms.data[a], *y = &builder->geoms.data[b];
    if (!x->def.collision || !y->def.collision) {
        return "has a geometry that is not for contact (collision is false)";
    }
    if (nsi_link_body(links, x->link) == nsi_link_body(links, y->link)) {
        return "is on one body, or both of its geometries are fixed to the world";
    }
    if (!nsi_geoms_can_touch(&x->def, &y->def)) return "is of shapes whose contact is not handled";
    for (uint32_t i = 0; i < builder->contacts.count; i++) {
        const nsi_contact* other = &builder->contacts.data[i];
        if ((other->a == a && other->b == b) || (other->a == b && other->b == a)) {
            return "has the geometries of another pair";
        }
    }
    return NULL;
}

const char* nsi_model_builder_pair_fault(const ns_model_builder* builder, const char* a,
                                         const char* b) {
    return pair_fault(builder, find_geom(builder, a), find_geom(builder, b));
}

// The geometry with the name in a field of a pair.
static ns_status find_pair_geom(const ns_model_builder* builder, const char* pair,
                                const char* field, const char* name, uint32_t* out,
                                ns_error* error) {
    *out = name ? find_geom(builder, name) : NSI_NONE;
    if (*out != NSI_NONE) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": %s names no earlier geometry \"%.*s\"",
                    pair, field, NSI_MODEL_MAX_NAME, name ? name : "");
}

// Name and geometries; a name that is not given is written to `made`.
static ns_status resolve_contact(const ns_model_builder* builder, nsi_contact* contact,
                                 char made[NSI_PAIR_MAX_NAME + 1], ns_error* error) {
    ns_contact_def* def = &contact->def;
    ns_status status = def->name ? check_part_name("pair", def->name, error) : NS_OK;
    if (status != NS_OK) return status;
    const char* shown = def->name ? def->name : "";
    status = find_pair_geom(builder, shown, "a", def->a, &contact->a, error);
    if (status == NS_OK) status = find_pair_geom(builder, shown, "b", def->b, &contact->b, error);
    if (status != NS_OK) return status;
    if (!def->name) {
        snprintf(made, NSI_PAIR_MAX_NAME + 1, "%s:%s", def->a, def->b);
        def->name = made;
    }
    const char* fault = pair_fault(builder, contact->a, contact->b);
    if (fault) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": it %s", def->name, fault);
    }
    if (find_contact(builder, def->name) != NSI_NONE) {
        return fail_duplicate("pair", def->name, error);
    }
    return NS_OK;
}

ns_status ns_model_builder_add_contact(ns_model_builder* builder, const ns_contact_def* given,
                                       ns_error* error) {
    ns_status status = check_builder(builder, given, "ns_model_builder_add_contact", error);
    if (status != NS_OK) return status;
    nsi_contact contact = {.def = *given};
    ns_contact_def* def = &contact.def;
    char made[NSI_PAIR_MAX_NAME + 1];
    if (builder->contacts.count >= NSI_MAX_PAIRS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d pairs", NSI_MAX_PAIRS);
    }

    // Its geometries by name, and its parameters.
    status = resolve_contact(builder, &contact, made, error);
    if (status == NS_OK) status = check_contact_numbers(def, error);
    if (status != NS_OK) return status;

    // Keep a copy; the names of its geometries are kept already.
    uint32_t id = builder->contacts.count;
    def->a = builder->geoms.data[contact.a].def.name;
    def->b = builder->geoms.data[contact.b].def.name;
    def->name = keep(builder, def->name);
    if (!def->name || !keep_contact_values(builder, def) ||
        !nsi_array_reserve(&builder->allocator, &builder->contacts, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->contact_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->contacts.data[builder->contacts.count++] = contact;
    return NS_OK;
}

ns_status ns_model_builder_exclude_contact(ns_model_builder* builder, const char* link_a,
                                           const char* link_b, ns_error* error) {
    const char* const names[2] = {link_a, link_b};
    uint32_t links[2] = {NSI_NONE, NSI_NONE};
    ns_status status = check_builder(builder, builder, "ns_model_builder_exclude_contact", error);
    if (status != NS_OK) return status;
    for (int k = 0; k < 2; k++) {
        if (is_world(names[k])) continue;
        links[k] = find_link(builder, names[k]);
        if (links[k] == NSI_NONE) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "exclusion: link_%c names no earlier link \"%.*s\"", "ab"[k],
                            NSI_MODEL_MAX_NAME, names[k]);
        }
    }
    if (builder->exclusions.count >= MAX_EXCLUSIONS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d exclusions", MAX_EXCLUSIONS);
    }
    nsi_exclusion exclusion = {links[0], links[1]};
    if (nsi_array_push(&builder->allocator, &builder->exclusions, exclusion)) return NS_OK;
    return nsi_fail_nomem(error);
}

// ---- actuators -------------------------------------------------------------------------------

static ns_status check_actuator_numbers(const ns_actuator_def* def, ns_error* error) {
    owner of = {"actuator", def->name};
    if ((uint32_t)def->type > NS_ACTUATOR_SERIES_ELASTIC) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "actuator \"%s\": type is none of ns_actuator_type",
                        def->name);
    }

    // A negative gear turns the other way; negative gains would drive away from the target.
    ns_status status = check_part_number(of, "gear", def->gear, ANY_NUMBER, error);
    if (status == NS_OK) status = check_part_number(of, "kp", def->kp, NOT_NEGATIVE, error);
    if (status == NS_OK) status = check_part_number(of, "kd", def->kd, NOT_NEGATIVE, error);
    if (status != NS_OK) return status;

    // Limits of control and force.
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

    // A name: given, or "<joint>_motor".
    char name[NSI_MODEL_MAX_NAME + sizeof "_motor"];
    const char* joint = def->joint ? def->joint : "";
    if (!def->name) {
        snprintf(name, sizeof name, "%.*s_motor", NSI_MODEL_MAX_NAME, joint);
        def->name = name;
    }
    status = check_part_name("actuator", def->name, error);
    if (status != NS_OK) return status;
    if (find_actuator(builder, def->name) != NSI_NONE) {
        return fail_duplicate("actuator", def->name, error);
    }

    // The joint must have one coordinate of its own.
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
        !nsi_index_insert(&builder->allocator, &builder->actuator_names, nsi_name_hash(def->name),
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
