// Links of a model builder, and the joints that carry them.

#include "model/builder.h"

#include "model/pose.h"

#include <math.h>
#include <stdio.h>

enum { MAX_LINKS = 1 << 16 }; // far above any robot; keeps sizes within 32 bits

const ns_link_def* nsi_model_builder_joint(const ns_model_builder* builder, const char* name) {
    uint32_t link = name ? nsi_builder_find_joint(builder, name) : NSI_NONE;
    return link == NSI_NONE ? NULL : &builder->links.data[link].def;
}

bool nsi_model_builder_joint_has_no_axis(const ns_model_builder* builder, const char* name) {
    uint32_t number = nsi_builder_find_joint(builder, name);
    return number != NSI_NONE &&
           !ns_joint_type_info(builder->links.data[number].def.joint_type)->has_axis;
}

static ns_status check_inertia(const ns_link_def* def, ns_error* error) {
    nsi_builder_part of = {"link", def->name};
    ns_status status =
        nsi_builder_check_number(of, "mass", def->mass, NSI_NUMBER_NOT_NEGATIVE, error);
    if (status == NS_OK) status = nsi_builder_check_numbers(of, "com", def->com, 3, error);
    if (status == NS_OK)
        status = nsi_builder_check_number(of, "gravity_compensation", def->gravity_compensation,
                                          NSI_NUMBER_ANY, error);
    if (status == NS_OK) status = nsi_builder_check_numbers(of, "inertia", def->inertia, 6, error);
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
        nsi_number_rule rule;
        bool force; // acts on the joint's motion, so a fixed joint cannot have it
    } numbers[] = {
        {"stiffness", def->stiffness, NSI_NUMBER_NOT_NEGATIVE, true},
        {"rest", def->rest, NSI_NUMBER_ANY, false},
        {"damping", def->damping, NSI_NUMBER_NOT_NEGATIVE, true},
        {"friction", def->friction, NSI_NUMBER_NOT_NEGATIVE, true},
        {"friction_velocity", def->friction_velocity, NSI_NUMBER_POSITIVE, false},
        {"armature", def->armature, NSI_NUMBER_NOT_NEGATIVE, true},
        {"lower", def->lower, NSI_NUMBER_ANY, false},
        {"upper", def->upper, NSI_NUMBER_ANY, false},
        {"limit_stiffness", nsi_builder_if_given(def->limit_stiffness, NS_LIMIT_AUTO),
         NSI_NUMBER_NOT_NEGATIVE, false},
        {"limit_damping", nsi_builder_if_given(def->limit_damping, NS_LIMIT_AUTO),
         NSI_NUMBER_NOT_NEGATIVE, false},
        {"mimic_multiplier", def->mimic_multiplier, NSI_NUMBER_ANY, false},
        {"reference", def->reference, NSI_NUMBER_ANY, false},
        {"mimic_offset", def->mimic_offset, NSI_NUMBER_ANY, false},
    };

    // A fixed joint must not have forces: they would be dropped without a word.
    nsi_builder_part of = {"joint", def->joint};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        ns_status status = nsi_builder_check_number(of, numbers[i].field, numbers[i].value,
                                                    numbers[i].rule, error);
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
    nsi_builder_part of = {"joint", def->joint};
    ns_status status = nsi_builder_check_pose(of, "origin", &def->origin, error);
    if (status == NS_OK) status = check_joint_numbers(def, error);
    if (status != NS_OK) return status;

    // Axes are stored at unit length; other joints get a default that nothing reads.
    if (!ns_joint_type_info(def->joint_type)->has_axis) {
        def->axis[0] = def->axis[1] = 0.0, def->axis[2] = 1.0;
    } else if (!nsi_normalize(def->axis, 3)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": axis must be finite and not zero",
                        def->joint);
    }

    // Limits and springs act along one coordinate.
    if (def->limited && !ns_joint_type_info(def->joint_type)->has_axis) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": only revolute and prismatic joints can be limited",
                        def->joint);
    }
    if (def->drive_limited && !ns_joint_type_info(def->joint_type)->has_axis) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "joint \"%s\": only the drive of a revolute or prismatic joint can be limited",
            def->joint);
    }
    if (def->drive_limited && !(isfinite(def->drive_lower) && isfinite(def->drive_upper) &&
                                def->drive_lower < def->drive_upper)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": drive_lower must be less than drive_upper, both finite",
                        def->joint);
    }
    if (def->limited && !(def->lower < def->upper)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "joint \"%s\": lower must be less than upper",
                        def->joint);
    }
    if ((def->stiffness != 0.0 || def->rest != 0.0) &&
        !ns_joint_type_info(def->joint_type)->has_axis) {
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
    uint32_t followed = nsi_builder_find_joint(builder, def->mimic);
    if (followed == NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "joint \"%s\": mimic names no earlier joint \"%.*s\"", def->joint,
                        NSI_MODEL_MAX_NAME, def->mimic);
    }

    const nsi_link* leader = &builder->links.data[followed];
    if (!ns_joint_type_info(def->joint_type)->has_axis ||
        !ns_joint_type_info(leader->def.joint_type)->has_axis) {
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
        nsi_builder_part of = {"joint", def->joint};
        ns_status status = nsi_builder_check_number(of, "mimic_multiplier", def->mimic_multiplier,
                                                    NSI_NUMBER_ANY, error);
        if (status == NS_OK) {
            status = nsi_builder_check_number(of, "mimic_offset", def->mimic_offset, NSI_NUMBER_ANY,
                                              error);
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
    def->name = nsi_builder_keep(builder, def->name);
    def->parent = nsi_builder_keep(builder, def->parent ? def->parent : "world");
    def->joint = nsi_builder_keep(builder, def->joint);
    bool kept = def->name && def->parent && def->joint;
    if (def->mimic) {
        def->mimic = nsi_builder_keep(builder, def->mimic);
        kept = kept && def->mimic;
    }
    return kept;
}

ns_status ns_model_builder_add_link(ns_model_builder* builder, const ns_link_def* given,
                                    ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_link", error);
    if (status != NS_OK) return status;
    nsi_link link = {.def = *given};
    ns_link_def* def = &link.def;

    // Names.
    status = nsi_builder_check_name("link", def->name ? def->name : "", error);
    if (status != NS_OK) return status;
    if (nsi_builder_is_world(def->name)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "link \"world\": this name stands for the world and cannot be a link's");
    }
    if (nsi_builder_find_link(builder, def->name) != NSI_NONE)
        return nsi_builder_fail_duplicate("link", def->name, error);
    char joint[NSI_MODEL_MAX_NAME + sizeof "_joint"];
    if (!def->joint) {
        snprintf(joint, sizeof joint, "%s_joint", def->name);
        def->joint = joint;
    }
    status = nsi_builder_check_name("joint", def->joint, error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_joint(builder, def->joint) != NSI_NONE) {
        return nsi_builder_fail_duplicate("joint", def->joint, error);
    }

    // Place in the tree.
    link.parent = NSI_NONE;
    if (!nsi_builder_is_world(def->parent)) {
        link.parent = nsi_builder_find_link(builder, def->parent);
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

void nsi_model_builder_set_total_mass(ns_model_builder* builder, double mass) {
    double sum = 0.0;
    for (uint32_t i = 0; i < builder->links.count; i++) sum += builder->links.data[i].def.mass;
    if (!(sum > 0.0)) return;
    for (uint32_t i = 0; i < builder->links.count; i++) {
        ns_link_def* def = &builder->links.data[i].def;
        def->mass *= mass / sum;
        for (int k = 0; k < 6; k++) def->inertia[k] *= mass / sum;
    }
}
