// Sensors of a model builder.

#include "model/builder.h"

enum { MAX_SENSORS = 1 << 16 }; // far above any robot; keeps sizes within 32 bits

bool nsi_model_builder_has_actuator(const ns_model_builder* builder, const char* name) {
    return nsi_builder_find_actuator(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_tendon(const ns_model_builder* builder, const char* name) {
    return nsi_builder_find_tendon(builder, name) != NSI_NONE;
}

// What a sensor names, where to find it, and the field that must name it.
typedef struct sensor_object {
    const char *what, *name;
    uint32_t number;
} sensor_object;

static sensor_object find_object(const ns_model_builder* builder, const ns_sensor_def* def) {
    switch (ns_sensor_type_info(def->type)->object) {
    case NS_SENSOR_OF_JOINT:
    case NS_SENSOR_OF_BALL: {
        const char* name = def->joint ? def->joint : "";
        return (sensor_object){"joint", def->joint, nsi_builder_find_joint(builder, name)};
    }
    case NS_SENSOR_OF_ACTUATOR: {
        const char* name = def->actuator ? def->actuator : "";
        return (sensor_object){"actuator", def->actuator, nsi_builder_find_actuator(builder, name)};
    }
    case NS_SENSOR_OF_TENDON: {
        const char* name = def->tendon ? def->tendon : "";
        return (sensor_object){"tendon", def->tendon, nsi_builder_find_tendon(builder, name)};
    }
    case NS_SENSOR_OF_FRAME:
        if (!def->site) break;
        // fall through
    case NS_SENSOR_OF_SITE: {
        const char* name = def->site ? def->site : "";
        return (sensor_object){"site", def->site, nsi_builder_find_site(builder, name)};
    }
    case NS_SENSOR_OF_LINK: break;
    }
    const char* name = def->link ? def->link : "";
    return (sensor_object){"link", def->link, nsi_builder_find_link(builder, name)};
}

static ns_status resolve_object(const ns_model_builder* builder, nsi_sensor* sensor,
                                ns_error* error) {
    const ns_sensor_def* def = &sensor->def;
    ns_sensor_object kind = ns_sensor_type_info(def->type)->object;
    sensor_object object = find_object(builder, def);
    int given = (def->joint != NULL) + (def->actuator != NULL) + (def->tendon != NULL) +
                (def->site != NULL) + (def->link != NULL);
    if (!object.name || given != 1) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "sensor \"%s\": a %s is of one %s; name that alone",
                        def->name, ns_sensor_type_info(def->type)->name, object.what);
    }
    sensor->object = object.number;
    bool world = kind == NS_SENSOR_OF_LINK && nsi_builder_is_world(object.name);
    if (object.number == NSI_NONE && !world) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "sensor \"%s\": there is no %s \"%.*s\"", def->name,
                        object.what, NSI_MODEL_MAX_NAME, object.name);
    }

    // Joints of the right type.
    if (kind > NS_SENSOR_OF_BALL) return NS_OK;
    ns_joint_type type = builder->links.data[object.number].def.joint_type;
    bool fits =
        kind == NS_SENSOR_OF_BALL ? type == NS_JOINT_SPHERICAL : ns_joint_type_info(type)->has_axis;
    if (fits) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "sensor \"%s\": joint \"%.*s\" must be %s", def->name,
                    NSI_MODEL_MAX_NAME, object.name,
                    kind == NS_SENSOR_OF_BALL ? "spherical" : "revolute or prismatic");
}

// The frame that a sensor is relative to.
static ns_status resolve_reference(const ns_model_builder* builder, nsi_sensor* sensor,
                                   ns_error* error) {
    const ns_sensor_def* def = &sensor->def;
    const char* name = def->ref_site ? def->ref_site : def->ref_link;
    sensor->reference = NSI_NONE;
    if (!name) return NS_OK;
    bool fits = def->type >= NS_SENSOR_FRAME_POSITION &&
                def->type <= NS_SENSOR_FRAME_ANGULAR_VELOCITY && !(def->ref_site && def->ref_link);
    if (!fits) {
        return nsi_fail(
            error, NS_ERR_ARGUMENT,
            "sensor \"%s\": positions, orientations and velocities of frames are relative "
            "to a site or a link, others to none",
            def->name);
    }
    sensor->reference =
        def->ref_site ? nsi_builder_find_site(builder, name) : nsi_builder_find_link(builder, name);
    if (sensor->reference != NSI_NONE || (def->ref_link && nsi_builder_is_world(name)))
        return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "sensor \"%s\": there is no %s \"%.*s\"", def->name,
                    def->ref_site ? "site" : "link", NSI_MODEL_MAX_NAME, name);
}

ns_status ns_model_builder_add_sensor(ns_model_builder* builder, const ns_sensor_def* given,
                                      ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_sensor", error);
    if (status != NS_OK) return status;
    nsi_sensor sensor = {.def = *given};
    ns_sensor_def* def = &sensor.def;
    status = nsi_builder_check_name("sensor", def->name ? def->name : "", error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_sensor(builder, def->name) != NSI_NONE) {
        return nsi_builder_fail_duplicate("sensor", def->name, error);
    }
    if (!ns_sensor_type_info(def->type)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "sensor \"%s\": type is none of ns_sensor_type",
                        def->name);
    }
    nsi_builder_part of = {"sensor", def->name};
    status = nsi_builder_check_number(of, "cutoff", def->cutoff, NSI_NUMBER_NOT_NEGATIVE, error);
    if (status == NS_OK) status = resolve_object(builder, &sensor, error);
    if (status == NS_OK) status = resolve_reference(builder, &sensor, error);
    if (status != NS_OK) return status;
    if (builder->sensors.count >= MAX_SENSORS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d sensors", MAX_SENSORS);
    }

    const char** texts[] = {&def->name, &def->joint, &def->actuator, &def->tendon,
                            &def->site, &def->link,  &def->ref_site, &def->ref_link};
    bool kept = true;
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        if (!*texts[k]) continue;
        *texts[k] = nsi_builder_keep(builder, *texts[k]);
        kept = kept && *texts[k];
    }
    uint32_t id = builder->sensors.count;
    if (!kept || !nsi_array_reserve(&builder->allocator, &builder->sensors, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->sensor_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->sensors.data[builder->sensors.count++] = sensor;
    return NS_OK;
}
