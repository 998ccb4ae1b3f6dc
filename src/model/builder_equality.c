// Equality constraints of a model builder.

#include "model/builder.h"

#include "dyn/joint.h"
#include "model/pose.h"

#include <stdio.h>

enum { MAX_EQUALITIES = 1 << 12 }; // far above what a step can solve; keeps sizes within 32 bits

// ---- links and joints --------------------------------------------------------------------------

// The number of the link, or of the link of the joint, with this name; NSI_NONE for the world and for
// no joint. False: there is none of this name.
static bool find_equality_end(const ns_model_builder* builder, ns_equality_type type,
                              const char* name, bool second, uint32_t* out) {
    *out = NSI_NONE;
    if (type == NS_EQUALITY_JOINT) {
        if (!name) return second;
        *out = nsi_builder_find_joint(builder, name);
    } else {
        if (nsi_builder_is_world(name)) return true;
        *out = nsi_builder_find_link(builder, name);
    }
    return *out != NSI_NONE;
}

static bool has_axis(const ns_model_builder* builder, uint32_t link) {
    return ns_joint_type_info(builder->links.data[link].def.joint_type)->has_axis;
}

static const char* equality_fault(const ns_model_builder* builder, ns_equality_type type,
                                  uint32_t a, uint32_t b) {
    const nsi_link* links = builder->links.data;
    if (type != NS_EQUALITY_JOINT) {
        bool fixed = nsi_link_body(links, a) == nsi_link_body(links, b);
        return fixed ? "constrains links that do not move relative to each other" : NULL;
    }
    if (!has_axis(builder, a) || (b != NSI_NONE && !has_axis(builder, b))) {
        return "constrains a joint that is neither revolute nor prismatic";
    }
    return a == b ? "constrains a joint by itself" : NULL;
}

const char* nsi_model_builder_equality_fault(const ns_model_builder* builder,
                                             const ns_equality_def* def) {
    uint32_t a, b;
    find_equality_end(builder, def->type, def->a, false, &a);
    find_equality_end(builder, def->type, def->b, true, &b);
    return equality_fault(builder, def->type, a, b);
}

static ns_status resolve_equality(const ns_model_builder* builder, nsi_equality_constraint* e,
                                  ns_error* error) {
    const ns_equality_def* def = &e->def;
    const char* what = def->type == NS_EQUALITY_JOINT ? "joint" : "link";
    for (int k = 0; k < 2; k++) {
        const char* name = k == 0 ? def->a : def->b;
        if (find_equality_end(builder, def->type, name, k == 1, k == 0 ? &e->a : &e->b)) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "equality \"%s\": %c names no earlier %s \"%.*s\"",
                        def->name, "ab"[k], what, NSI_MODEL_MAX_NAME, name ? name : "");
    }
    const char* fault = equality_fault(builder, def->type, e->a, e->b);
    if (!fault) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "equality \"%s\": it %s", def->name, fault);
}

// ---- anchors -----------------------------------------------------------------------------------

// Coordinate of a joint with an axis where equality constraints hold by construction.
static double reference_of(const nsi_link* links, uint32_t link) {
    const nsi_link* l = &links[link];
    if (l->mimic == NSI_NONE) return l->def.reference;
    return l->def.mimic_multiplier * links[l->mimic].def.reference + l->def.mimic_offset;
}

// Pose of a link in the world there.
static ns_pose reference_pose(const nsi_link* links, uint32_t link) {
    ns_pose pose = nsi_pose_identity();
    for (; link != NSI_NONE; link = links[link].parent) {
        const nsi_joint* type = nsi_joint_get(links[link].def.joint_type);
        ns_pose joint = nsi_pose_identity();
        if (type->info.has_axis) {
            type->pose(&links[link].def, reference_of(links, link), &joint);
        }
        joint = nsi_pose_compose(&links[link].def.origin, &joint);
        pose = nsi_pose_compose(&joint, &pose);
    }
    return pose;
}

// The pose `given` of link `from` in the frame of link `to`, where constraints hold by construction.
static ns_pose pose_in_other(const nsi_link* links, uint32_t from, const ns_pose* given,
                             uint32_t to) {
    ns_pose outer = reference_pose(links, from), other = reference_pose(links, to);
    ns_pose back = nsi_pose_identity();
    outer = nsi_pose_compose(&outer, given);

    // The inverse of the other link's pose.
    back.quaternion[0] = other.quaternion[0];
    for (int k = 1; k < 4; k++) back.quaternion[k] = -other.quaternion[k];
    nsi_quat_rotate(back.quaternion, other.position, back.position);
    for (int k = 0; k < 3; k++) back.position[k] = -back.position[k];
    return nsi_pose_compose(&back, &outer);
}

// ---- adding ------------------------------------------------------------------------------------

static ns_status check_equality_numbers(ns_equality_def* def, ns_error* error) {
    nsi_builder_part of = {"equality", def->name};
    if (def->compute_a && def->compute_b) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "equality \"%s\": compute_a and compute_b are both true; one anchor must"
                        " be given",
                        def->name);
    }
    ns_status status = nsi_builder_check_pose(of, "anchor_a", &def->anchor_a, error);
    if (status == NS_OK) status = nsi_builder_check_pose(of, "anchor_b", &def->anchor_b, error);
    if (status == NS_OK) {
        status = nsi_builder_check_numbers(of, "coefficients", def->coefficients,
                                           NSI_EQUALITY_COEFFICIENTS, error);
    }
    if (status != NS_OK) return status;
    return nsi_builder_check_number(of, "recovery", def->recovery, NSI_NUMBER_NOT_NEGATIVE, error);
}

// A name: given, or "<type><k>".
static ns_status name_equality(const ns_model_builder* builder, ns_equality_def* def, char made[32],
                               ns_error* error) {
    if (!ns_choice_has(&ns_equality_types, (int)def->type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "equality: type is none of ns_equality_type");
    }
    if (!def->name) {
        snprintf(made, 32, "%s%u", ns_choice_name(&ns_equality_types, (int)def->type),
                 builder->equalities.count);
        def->name = made;
    }
    ns_status status = nsi_builder_check_name("equality", def->name, error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_equality(builder, def->name) == NSI_NONE) return NS_OK;
    return nsi_builder_fail_duplicate("equality", def->name, error);
}

ns_status ns_model_builder_add_equality(ns_model_builder* builder, const ns_equality_def* given,
                                        ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_equality", error);
    if (status != NS_OK) return status;
    if (builder->equalities.count >= MAX_EQUALITIES) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d equality constraints",
                        MAX_EQUALITIES);
    }

    // Name, what it constrains, numbers.
    nsi_equality_constraint equality = {.def = *given};
    ns_equality_def* def = &equality.def;
    char made[32];
    status = name_equality(builder, def, made, error);
    if (status == NS_OK) status = resolve_equality(builder, &equality, error);
    if (status == NS_OK) status = check_equality_numbers(def, error);
    if (status != NS_OK) return status;

    // The anchor that follows from the other.
    const nsi_link* links = builder->links.data;
    if (def->type != NS_EQUALITY_JOINT && def->compute_a) {
        def->anchor_a = pose_in_other(links, equality.b, &def->anchor_b, equality.a);
    } else if (def->type != NS_EQUALITY_JOINT && def->compute_b) {
        def->anchor_b = pose_in_other(links, equality.a, &def->anchor_a, equality.b);
    }
    def->compute_a = def->compute_b = false;

    // Keep a copy.
    uint32_t id = builder->equalities.count;
    def->name = nsi_builder_keep(builder, def->name);
    if (def->a) def->a = nsi_builder_keep(builder, def->a);
    if (def->b) def->b = nsi_builder_keep(builder, def->b);
    bool kept = def->name && (def->a || !given->a) && (def->b || !given->b);
    if (!kept || !nsi_array_reserve(&builder->allocator, &builder->equalities, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->equality_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->equalities.data[builder->equalities.count++] = equality;
    return NS_OK;
}
