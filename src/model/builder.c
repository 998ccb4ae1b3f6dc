// The model builder: definitions are checked and copied as they come, links, geometries, pairs and
// actuators in files of their own. finish.c makes the model.

#include "model/builder.h"

enum { MAX_IGNORED = 1 << 20 }; // keeps sizes within 32 bits

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
    nsi_array_free(&allocator, &builder->sites);
    nsi_array_free(&allocator, &builder->tendons);
    nsi_array_free(&allocator, &builder->sensors);
    nsi_array_free(&allocator, &builder->contacts);
    nsi_array_free(&allocator, &builder->exclusions);
    nsi_array_free(&allocator, &builder->equalities);
    nsi_array_free(&allocator, &builder->ignored);
    nsi_array_free(&allocator, &builder->keyframes);
    nsi_array_free(&allocator, &builder->next_geom);
    nsi_index_free(&allocator, &builder->link_names);
    nsi_index_free(&allocator, &builder->joint_names);
    nsi_index_free(&allocator, &builder->geom_names);
    nsi_index_free(&allocator, &builder->actuator_names);
    nsi_index_free(&allocator, &builder->contact_names);
    nsi_index_free(&allocator, &builder->equality_names);
    nsi_index_free(&allocator, &builder->site_names);
    nsi_index_free(&allocator, &builder->tendon_names);
    nsi_index_free(&allocator, &builder->sensor_names);
    nsi_arena_free(&builder->strings);
    nsi_free(&allocator, builder);
}

// ---- what there is ---------------------------------------------------------------------------

bool nsi_model_builder_has_link(const ns_model_builder* builder, const char* name) {
    return nsi_builder_find_link(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_joint(const ns_model_builder* builder, const char* name) {
    return nsi_builder_find_joint(builder, name) != NSI_NONE;
}

bool nsi_model_builder_has_geom(const ns_model_builder* builder, const char* name) {
    return nsi_builder_find_geom(builder, name) != NSI_NONE;
}

ns_geom_type nsi_model_builder_geom_type(const ns_model_builder* builder, const char* name) {
    return builder->geoms.data[nsi_builder_find_geom(builder, name)].def.type;
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

// ---- name and world --------------------------------------------------------------------------

ns_status ns_model_builder_set_name(ns_model_builder* builder, const char* name, ns_error* error) {
    ns_status status = nsi_builder_check(builder, name, "ns_model_builder_set_name", error);
    if (status == NS_OK) status = nsi_builder_check_name("model", name, error);
    if (status != NS_OK) return status;
    const char* copy = nsi_builder_keep(builder, name);
    if (!copy) return nsi_fail_nomem(error);
    builder->name = copy;
    return NS_OK;
}

ns_status nsi_model_builder_set_folder(ns_model_builder* builder, const char* folder,
                                       ns_error* error) {
    builder->folder = nsi_builder_keep(builder, folder);
    return builder->folder ? NS_OK : nsi_fail_nomem(error);
}

ns_status ns_model_builder_set_world(ns_model_builder* builder, const ns_world_def* world,
                                     ns_error* error) {
    ns_status status = nsi_builder_check(builder, world, "ns_model_builder_set_world", error);
    if (status != NS_OK) return status;
    nsi_builder_part of = {"world of model", builder->name};
    status = nsi_builder_check_numbers(of, "gravity", world->gravity, 3, error);
    if (status == NS_OK)
        status =
            nsi_builder_check_number(of, "timestep", world->timestep, NSI_NUMBER_POSITIVE, error);
    if (status == NS_OK)
        status =
            nsi_builder_check_number(of, "density", world->density, NSI_NUMBER_NOT_NEGATIVE, error);
    if (status == NS_OK) {
        status = nsi_builder_check_number(of, "viscosity", world->viscosity,
                                          NSI_NUMBER_NOT_NEGATIVE, error);
    }
    if (status == NS_OK) status = nsi_builder_check_numbers(of, "wind", world->wind, 3, error);
    if (status != NS_OK) return status;
    if (!ns_choice_has(&ns_integrators, (int)world->integrator)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "world: integrator is none of ns_integrator");
    }
    builder->world = *world;
    return NS_OK;
}

ns_status ns_model_builder_add_ignored(ns_model_builder* builder, const char* what,
                                       ns_error* error) {
    ns_status status = nsi_builder_check(builder, what, "ns_model_builder_add_ignored", error);
    if (status != NS_OK) return status;
    if (builder->ignored.count >= MAX_IGNORED) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d notes on what is ignored",
                        MAX_IGNORED);
    }
    const char* copy = nsi_builder_keep(builder, what);
    if (!copy || !nsi_array_push(&builder->allocator, &builder->ignored, copy)) {
        return nsi_fail_nomem(error);
    }
    return NS_OK;
}
