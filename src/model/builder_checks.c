// What additions to a model builder have in common: names, and numbers that make sense.

#include "model/builder.h"

#include "model/pose.h"

#include <math.h>

ns_status nsi_builder_check(const ns_model_builder* builder, const void* given,
                            const char* function, ns_error* error) {
    if (!builder || !given) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "%s: an argument is NULL", function);
    }
    return builder->failed ? nsi_fail_nomem(error) : NS_OK;
}

// ---- names -----------------------------------------------------------------------------------

const char* nsi_builder_keep(ns_model_builder* builder, const char* text) {
    return nsi_arena_string(&builder->strings, text, strlen(text));
}

#define FIND_BY_NAME(function, names, items, field)                                                \
    uint32_t function(const ns_model_builder* builder, const char* name) {                         \
        const nsi_index* index = &builder->names;                                                  \
        for (uint32_t at = nsi_index_first(index, nsi_name_hash(name)), id;                        \
             nsi_index_at(index, at, &id); at = nsi_index_next(index, at)) {                       \
            if (strcmp(builder->items.data[id].def.field, name) == 0) return id;                   \
        }                                                                                          \
        return NSI_NONE;                                                                           \
    }

FIND_BY_NAME(nsi_builder_find_link, link_names, links, name)
FIND_BY_NAME(nsi_builder_find_joint, joint_names, links, joint)
FIND_BY_NAME(nsi_builder_find_geom, geom_names, geoms, name)
FIND_BY_NAME(nsi_builder_find_actuator, actuator_names, actuators, name)
FIND_BY_NAME(nsi_builder_find_site, site_names, sites, name)
FIND_BY_NAME(nsi_builder_find_tendon, tendon_names, tendons, name)
FIND_BY_NAME(nsi_builder_find_sensor, sensor_names, sensors, name)
FIND_BY_NAME(nsi_builder_find_contact, contact_names, contacts, name)
FIND_BY_NAME(nsi_builder_find_equality, equality_names, equalities, name)

bool nsi_builder_is_world(const char* name) {
    return !name || strcmp(name, "world") == 0;
}

ns_status nsi_builder_check_name(const char* what, const char* name, ns_error* error) {
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

ns_status nsi_builder_fail_duplicate(const char* what, const char* name, ns_error* error) {
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s \"%s\": another %s has this name", what, name,
                    what);
}

// ---- numbers ---------------------------------------------------------------------------------

ns_status nsi_builder_check_number(nsi_builder_part of, const char* field, double value,
                                   nsi_number_rule rule, ns_error* error) {
    const char* wanted = !isfinite(value)                                 ? "finite"
                         : rule == NSI_NUMBER_NOT_NEGATIVE && value < 0.0 ? "zero or positive"
                         : rule == NSI_NUMBER_POSITIVE && value <= 0.0    ? "positive"
                         : rule == NSI_NUMBER_SHARE && (value < 0.0 || value > 1.0)
                             ? "between 0 and 1"
                         : rule == NSI_NUMBER_ONE_OR_MORE && value < 1.0 ? "1 or more"
                                                                         : NULL;
    if (!wanted) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s \"%s\": %s must be %s", of.what, of.name, field,
                    wanted);
}

double nsi_builder_if_given(double value, double automatic) {
    return value == automatic ? 0.0 : value;
}

ns_status nsi_builder_check_numbers(nsi_builder_part of, const char* field, const double* values,
                                    uint32_t count, ns_error* error) {
    for (uint32_t i = 0; i < count; i++) {
        ns_status status = nsi_builder_check_number(of, field, values[i], NSI_NUMBER_ANY, error);
        if (status != NS_OK) return status;
    }
    return NS_OK;
}

ns_status nsi_builder_check_pose(nsi_builder_part of, const char* field, ns_pose* pose,
                                 ns_error* error) {
    ns_status status = nsi_builder_check_numbers(of, field, pose->position, 3, error);
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
