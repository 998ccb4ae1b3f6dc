// Inputs of a system by name and by number, for commands that read and write tables.

#ifndef CLI_MODEL_IO_H
#define CLI_MODEL_IO_H

#include "cli.h"

#include <neuralsim/io_names.h>

typedef struct model_io {
    const cli_model* source;
    const ns_model* model;
    const ns_system* system;
    ns_model_sizes n;
    ns_system_sizes z;
    uint32_t nactuator_state; // after coordinates and velocities: motors and activations
    ns_io_names* names;
} model_io;

// False after saying why. Model and system must outlive it; free it in any case. Notes when names by
// joint would be ambiguous.
bool model_io_create(model_io* io, const cli_model* source, const ns_system* system);
void model_io_free(model_io* io);

// Columns for states and controls: by joint where possible, or by index.
const char* model_io_state_name(const model_io* io, uint32_t index, bool by_index);
const char* model_io_control_name(const model_io* io, uint32_t index, bool by_index);

// The actuator (its number, also among the controls) that state k of actuators belongs to.
uint32_t model_io_state_actuator(const model_io* io, uint32_t k);

#endif
