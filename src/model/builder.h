// The inside of a model builder: what builder.c collects and finish.c makes a model of.

#ifndef NSI_MODEL_BUILDER_H
#define NSI_MODEL_BUILDER_H

#include "model/model_data.h"

struct ns_model_builder {
    ns_allocator allocator;
    nsi_arena strings; // of all definitions, and their vertices
    const char* name;
    const char* folder; // or NULL
    ns_world_def world;
    NSI_ARRAY(nsi_link) links; // with everything but the parameter number
    NSI_ARRAY(nsi_geom) geoms;
    NSI_ARRAY(nsi_actuator) actuators;
    NSI_ARRAY(nsi_contact) contacts; // given by hand, names made, numbers as given
    NSI_ARRAY(nsi_exclusion) exclusions;
    NSI_ARRAY(const char*) ignored;
    nsi_index link_names, joint_names, geom_names, actuator_names, contact_names;
    NSI_ARRAY(uint32_t) next_geom; // number for the next "<link>_geom<k>" of each link
    uint32_t next_world_geom;
    uint32_t nq, nv;
    uint32_t nvertex; // of all geometries
    bool failed;      // memory ran out half way through an addition
};

static inline uint32_t nsi_name_hash(const char* name) {
    return nsi_hash_bytes(name, strlen(name));
}

#endif
