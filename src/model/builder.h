// The inside of a model builder: what builder.c and builder_*.c collect and finish.c makes a model of.

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
    NSI_ARRAY(nsi_model_site) sites;
    NSI_ARRAY(nsi_tendon) tendons; // parts in `strings`
    uint32_t ntendon_part;         // of all tendons
    NSI_ARRAY(nsi_sensor) sensors;
    NSI_ARRAY(nsi_contact) contacts; // given by hand, names made, numbers as given
    NSI_ARRAY(nsi_exclusion) exclusions;
    NSI_ARRAY(nsi_equality_constraint) equalities;
    NSI_ARRAY(nsi_keyframe) keyframes; // numbers in `strings`
    NSI_ARRAY(const char*) ignored;
    nsi_index link_names, joint_names, geom_names, actuator_names, contact_names, site_names,
        tendon_names, sensor_names, equality_names;
    NSI_ARRAY(uint32_t) next_geom; // number for the next "<link>_geom<k>" of each link
    uint32_t next_world_geom;
    uint32_t nq, nv;
    uint32_t nvertex;    // of all geometries
    uint32_t nelevation; // of all height fields
    bool apart;          // links of one tree do not touch
    bool failed;         // memory ran out half way through an addition
};

static inline uint32_t nsi_name_hash(const char* name) {
    return nsi_hash_bytes(name, strlen(name));
}

// ---- builder_checks.c ------------------------------------------------------------------------

// Can the builder take something? `given`: what a caller passed; `function`: its name.
ns_status nsi_builder_check(const ns_model_builder* builder, const void* given,
                            const char* function, ns_error* error);

// A copy that lives as long as the builder, or NULL.
const char* nsi_builder_keep(ns_model_builder* builder, const char* text);

// Numbers of parts by name, or NSI_NONE. The joint's is that of its link.
uint32_t nsi_builder_find_link(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_joint(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_geom(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_actuator(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_site(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_tendon(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_sensor(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_contact(const ns_model_builder* builder, const char* name);
uint32_t nsi_builder_find_equality(const ns_model_builder* builder, const char* name);
bool nsi_builder_is_world(const char* name);

// `what` says whose name it is: "link", "joint", ...
ns_status nsi_builder_check_name(const char* what, const char* name, ns_error* error);
ns_status nsi_builder_fail_duplicate(const char* what, const char* name, ns_error* error);

typedef enum nsi_number_rule {
    NSI_NUMBER_ANY,
    NSI_NUMBER_NOT_NEGATIVE,
    NSI_NUMBER_POSITIVE,
    NSI_NUMBER_SHARE,
    NSI_NUMBER_ONE_OR_MORE
} nsi_number_rule;

// Whose field it is, for messages: 'link "arm"'.
typedef struct nsi_builder_part {
    const char *what, *name;
} nsi_builder_part;

// All numbers must be finite, too; the quaternion of a pose is normalised.
ns_status nsi_builder_check_number(nsi_builder_part of, const char* field, double value,
                                   nsi_number_rule rule, ns_error* error);
ns_status nsi_builder_check_numbers(nsi_builder_part of, const char* field, const double* values,
                                    uint32_t count, ns_error* error);
ns_status nsi_builder_check_pose(nsi_builder_part of, const char* field, ns_pose* pose,
                                 ns_error* error);

// The value, or where it is to be chosen automatically 0, which passes for any rule.
double nsi_builder_if_given(double value, double automatic);

#endif
