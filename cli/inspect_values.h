// The values that `inspect` shows: those of the model, or of the hybrid model that changes them.

#ifndef CLI_INSPECT_VALUES_H
#define CLI_INSPECT_VALUES_H

#include "cli.h"

// What a hybrid model adds to the robot.
typedef struct inspect_additions {
    ns_system_options options; // of the hybrid model
    const ns_system* system;   // or NULL: the robot's file was given
    const ns_blueprint* blueprint;
} inspect_additions;

// The value that a parameter is changed to, or its own.
double inspect_param_value(const inspect_additions* a, const ns_param* p);

// Definitions of the model's parts, with the values of all parameters that are shown.
ns_link_def inspect_link(const ns_model* model, const inspect_additions* a, uint32_t number);
ns_actuator_def inspect_actuator(const ns_model* model, const inspect_additions* a,
                                 uint32_t number);
ns_geom_def inspect_geom(const ns_model* model, const inspect_additions* a, uint32_t number);
ns_contact_def inspect_contact(const ns_model* model, const inspect_additions* a, uint32_t number);

#endif
