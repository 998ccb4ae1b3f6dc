// Default definitions of links, geometries, pairs, actuators, equality constraints and the world.

#include "model/model_data.h"

#include "contact/law.h"
#include "model/pose.h"

#include <math.h>

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
        .condim = 3,
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

ns_site_def ns_default_site_def(void) {
    return (ns_site_def){.pose = nsi_pose_identity()};
}

ns_tendon_def ns_default_tendon_def(void) {
    return (ns_tendon_def){
        .rest = NS_TENDON_AUTO,
        .friction_velocity = 0.01,
        .limit_stiffness = NS_LIMIT_AUTO,
        .limit_damping = NS_LIMIT_AUTO,
    };
}

ns_sensor_def ns_default_sensor_def(void) {
    return (ns_sensor_def){.type = NS_SENSOR_JOINT_POSITION};
}

ns_actuator_def ns_default_actuator_def(void) {
    return (ns_actuator_def){.type = NS_ACTUATOR_TORQUE,
                             .gear = 1.0,
                             .direction = {1.0},
                             .gain = {1.0},
                             .time_constant = 1.0,
                             .deactivation_time = 0.04,
                             .muscle = {.force = -1.0,
                                        .scale = 200.0,
                                        .range = {0.75, 1.05},
                                        .lmin = 0.5,
                                        .lmax = 1.6,
                                        .vmax = 1.5,
                                        .fpmax = 1.3,
                                        .fvmax = 1.2}};
}

ns_equality_def ns_default_equality_def(void) {
    return (ns_equality_def){.type = NS_EQUALITY_CONNECT,
                             .anchor_a = nsi_pose_identity(),
                             .anchor_b = nsi_pose_identity(),
                             .coefficients = {0.0, 1.0, 0.0, 0.0, 0.0}};
}

ns_world_def ns_default_world_def(void) {
    return (ns_world_def){
        .gravity = {0.0, 0.0, -9.81},
        .timestep = 0.001,
        .integrator = NS_INTEGRATOR_EULER,
    };
}
