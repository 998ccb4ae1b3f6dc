// Actuators of a model builder.

#include "model/builder.h"

#include <math.h>
#include <stdio.h>

enum { MAX_ACTUATORS = 1 << 16 }; // far above any robot; keeps sizes within 32 bits

// Curves of a muscle need lengths in order.
static ns_status check_muscle(const ns_actuator_def* def, ns_error* error) {
    const ns_muscle_def* m = &def->muscle;
    nsi_builder_part of = {"actuator", def->name};
    const struct {
        const char* what;
        double value;
        nsi_number_rule rule;
    } numbers[] = {
        {"muscle.force", m->force, NSI_NUMBER_ANY},
        {"muscle.scale", m->scale, NSI_NUMBER_NOT_NEGATIVE},
        {"muscle.range[0]", m->range[0], NSI_NUMBER_ANY},
        {"muscle.length_range[0]", m->length_range[0], NSI_NUMBER_ANY},
        {"muscle.lmin", m->lmin, NSI_NUMBER_ANY},
        {"muscle.range[1] - range[0]", m->range[1] - m->range[0], NSI_NUMBER_POSITIVE},
        {"muscle.length_range[1] - length_range[0]", m->length_range[1] - m->length_range[0],
         NSI_NUMBER_POSITIVE},
        {"1 - muscle.lmin", 1.0 - m->lmin, NSI_NUMBER_POSITIVE},
        {"muscle.lmax - 1", m->lmax - 1.0, NSI_NUMBER_POSITIVE},
        {"muscle.vmax", m->vmax, NSI_NUMBER_POSITIVE},
        {"muscle.fpmax", m->fpmax, NSI_NUMBER_NOT_NEGATIVE},
        {"muscle.fvmax - 1", m->fvmax - 1.0, NSI_NUMBER_POSITIVE},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        ns_status status =
            nsi_builder_check_number(of, numbers[k].what, numbers[k].value, numbers[k].rule, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

static ns_status check_actuator_numbers(const ns_actuator_def* def, ns_error* error) {
    nsi_builder_part of = {"actuator", def->name};
    if ((uint32_t)def->type > NS_ACTUATOR_MUSCLE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "actuator \"%s\": type is none of ns_actuator_type",
                        def->name);
    }

    if ((uint32_t)def->dynamics > NS_DYNAMICS_MUSCLE) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": dynamics is none of ns_actuator_dynamics", def->name);
    }

    // A negative gear turns the other way; negative gains would drive away from the target.
    ns_status status = nsi_builder_check_number(of, "gear", def->gear, NSI_NUMBER_ANY, error);
    if (status == NS_OK)
        status = nsi_builder_check_number(of, "kp", def->kp, NSI_NUMBER_NOT_NEGATIVE, error);
    if (status == NS_OK)
        status = nsi_builder_check_number(of, "kd", def->kd, NSI_NUMBER_NOT_NEGATIVE, error);
    if (status == NS_OK)
        status = nsi_builder_check_number(of, "damping_ratio", def->damping_ratio,
                                          NSI_NUMBER_NOT_NEGATIVE, error);
    if (status == NS_OK)
        status = nsi_builder_check_numbers(of, "direction", def->direction, 6, error);
    if (status == NS_OK) status = nsi_builder_check_numbers(of, "gain", def->gain, 3, error);
    if (status == NS_OK) status = nsi_builder_check_numbers(of, "bias", def->bias, 3, error);
    if (status == NS_OK && def->dynamics >= NS_DYNAMICS_FILTER)
        status = nsi_builder_check_number(of, "time_constant", def->time_constant,
                                          NSI_NUMBER_POSITIVE, error);
    if (status == NS_OK && def->dynamics == NS_DYNAMICS_MUSCLE)
        status = nsi_builder_check_number(of, "deactivation_time", def->deactivation_time,
                                          NSI_NUMBER_POSITIVE, error);
    if (status == NS_OK && def->type == NS_ACTUATOR_MUSCLE) status = check_muscle(def, error);
    if (status != NS_OK) return status;

    // The motor of a series-elastic actuator is at its control: it has no activation as well.
    if (def->dynamics != NS_DYNAMICS_NONE && def->type == NS_ACTUATOR_SERIES_ELASTIC) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": a series-elastic actuator cannot have an activation; "
                        "set dynamics to NS_DYNAMICS_NONE",
                        def->name);
    }
    if (def->activation_limited && def->dynamics == NS_DYNAMICS_NONE) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "actuator \"%s\": activation_limited needs dynamics, without which there is "
            "no activation",
            def->name);
    }

    if (def->type == NS_ACTUATOR_MUSCLE && def->site) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": a muscle acts on a joint or a tendon", def->name);
    }
    if (def->damping_ratio > 0.0 && (def->type != NS_ACTUATOR_POSITION || def->site)) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "actuator \"%s\": damping_ratio belongs to position actuators on joints and "
            "tendons",
            def->name);
    }

    // Limits.
    const struct {
        const char* what;
        bool limited;
        double lower, upper;
    } ranges[] = {
        {"control", def->control_limited, def->control_lower, def->control_upper},
        {"force", def->force_limited, def->force_lower, def->force_upper},
        {"activation", def->activation_limited, def->activation_lower, def->activation_upper},
    };
    for (int i = 0; i < 3; i++) {
        bool finite = isfinite(ranges[i].lower) && isfinite(ranges[i].upper);
        if (ranges[i].limited && !(finite && ranges[i].lower < ranges[i].upper)) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "actuator \"%s\": %s_lower must be less than %s_upper, both finite",
                            def->name, ranges[i].what, ranges[i].what);
        }
    }
    return NS_OK;
}

// The joint must have coordinates of its own.
static ns_status resolve_joint(const ns_model_builder* builder, nsi_actuator* actuator,
                               ns_error* error) {
    const ns_actuator_def* def = &actuator->def;
    const char* joint = def->joint ? def->joint : "";
    actuator->link = nsi_builder_find_joint(builder, joint);
    if (actuator->link == NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "actuator \"%s\": there is no joint \"%.*s\"",
                        def->name, NSI_MODEL_MAX_NAME, joint);
    }
    const nsi_link* link = &builder->links.data[actuator->link];
    const ns_joint_info* info = ns_joint_type_info(link->def.joint_type);
    if (!info->has_axis && info->quaternion == info->nq) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": joint \"%s\" is %s, which cannot be driven", def->name,
                        joint, info->name);
    }
    if (link->mimic != NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "actuator \"%s\": joint \"%s\" has no coordinate of its own, it follows "
                        "joint \"%s\"; drive that one",
                        def->name, joint, link->def.mimic);
    }
    return NS_OK;
}

static ns_status fail_not_there(const ns_actuator_def* def, const char* what, const char* name,
                                ns_error* error) {
    return nsi_fail(error, NS_ERR_ARGUMENT, "actuator \"%s\": there is no %s \"%.*s\"", def->name,
                    what, NSI_MODEL_MAX_NAME, name);
}

// Keep an optional name; false when out of memory.
static bool keep_name(ns_model_builder* builder, const char** name) {
    if (!*name) return true;
    *name = nsi_builder_keep(builder, *name);
    return *name != NULL;
}

// What the actuator acts on: a joint, a tendon or a site.
static ns_status resolve_transmission(const ns_model_builder* builder, nsi_actuator* actuator,
                                      ns_error* error) {
    const ns_actuator_def* def = &actuator->def;
    actuator->link = actuator->tendon = actuator->site = actuator->ref_site = NSI_NONE;
    if ((def->joint != NULL) + (def->tendon != NULL) + (def->site != NULL) > 1 ||
        (def->refsite && !def->site)) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "actuator \"%s\": give one of joint, tendon and site; refsite goes with site",
            def->name);
    }
    if (def->tendon) {
        actuator->tendon = nsi_builder_find_tendon(builder, def->tendon);
        if (actuator->tendon == NSI_NONE) return fail_not_there(def, "tendon", def->tendon, error);
        return NS_OK;
    }
    if (!def->site) return resolve_joint(builder, actuator, error);
    actuator->site = nsi_builder_find_site(builder, def->site);
    if (actuator->site == NSI_NONE) return fail_not_there(def, "site", def->site, error);
    if (!def->refsite) return NS_OK;
    actuator->ref_site = nsi_builder_find_site(builder, def->refsite);
    if (actuator->ref_site == NSI_NONE) return fail_not_there(def, "site", def->refsite, error);

    // Its length would be an angle between the two, of which there is no one definition.
    const double* d = def->direction;
    if (def->type == NS_ACTUATOR_TORQUE || (d[3] == 0.0 && d[4] == 0.0 && d[5] == 0.0))
        return NS_OK;
    return nsi_fail(
        error, NS_ERR_ARGUMENT,
        "actuator \"%s\": with a refsite, only a torque actuator can turn (direction[3..5])",
        def->name);
}

ns_status ns_model_builder_add_actuator(ns_model_builder* builder, const ns_actuator_def* given,
                                        ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_actuator", error);
    if (status != NS_OK) return status;
    nsi_actuator actuator = {.def = *given};
    ns_actuator_def* def = &actuator.def;

    // A name: given, or "<joint>_motor", followed by its number where that is taken.
    char name[NSI_MODEL_MAX_NAME + sizeof "_motor4294967295"];
    const char* acts_on = def->joint    ? def->joint
                          : def->tendon ? def->tendon
                          : def->site   ? def->site
                                        : "";
    if (!def->name) {
        snprintf(name, sizeof name, "%.*s_motor", NSI_MODEL_MAX_NAME, acts_on);
        for (uint32_t k = builder->actuators.count;
             nsi_builder_find_actuator(builder, name) != NSI_NONE; k++) {
            snprintf(name, sizeof name, "%.*s_motor%u", NSI_MODEL_MAX_NAME, acts_on, k);
        }
        def->name = name;
    }
    status = nsi_builder_check_name("actuator", def->name, error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_actuator(builder, def->name) != NSI_NONE) {
        return nsi_builder_fail_duplicate("actuator", def->name, error);
    }

    status = resolve_transmission(builder, &actuator, error);
    if (status != NS_OK) return status;
    status = check_actuator_numbers(def, error);
    if (status != NS_OK) return status;
    if (builder->actuators.count >= MAX_ACTUATORS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d actuators", MAX_ACTUATORS);
    }

    def->name = nsi_builder_keep(builder, def->name);
    bool kept = keep_name(builder, &def->joint) && keep_name(builder, &def->tendon) &&
                keep_name(builder, &def->site) && keep_name(builder, &def->refsite);
    uint32_t id = builder->actuators.count;
    if (!def->name || !kept || !nsi_array_reserve(&builder->allocator, &builder->actuators, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->actuator_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->actuators.data[builder->actuators.count++] = actuator;
    return NS_OK;
}
