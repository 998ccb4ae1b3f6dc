// Names and sizes of states, controls and parameters of a system.

#include "model_io.h"

// Series-elastic actuators keep the angle of their motor, others their activation.
static bool has_state(const ns_model* model, uint32_t actuator) {
    const ns_actuator_def* def = ns_model_actuator(model, actuator);
    return def->type == NS_ACTUATOR_SERIES_ELASTIC || def->dynamics != NS_DYNAMICS_NONE;
}

bool model_io_create(model_io* io, const cli_model* source, const ns_system* system) {
    *io = (model_io){.source = source,
                     .model = source->model,
                     .system = system,
                     .n = ns_model_get_sizes(source->model),
                     .z = ns_system_get_sizes(system)};
    for (uint32_t k = 0; k < io->n.nu; k++) io->nactuator_state += has_state(io->model, k);
    ns_error error;
    if (ns_io_names_create(system, &io->names, &error) != NS_OK) {
        cli_fail("%s", error.message);
        return false;
    }
    if (!ns_io_names_by_joint(io->names)) {
        cli_note(
            "column names by joint are ambiguous for this model; columns are named by index (q0)");
    }
    return true;
}

void model_io_free(model_io* io) {
    ns_io_names_free(io->names);
    *io = (model_io){0};
}

const char* model_io_state_name(const model_io* io, uint32_t index, bool by_index) {
    return by_index ? ns_system_state_name(io->system, index) : ns_io_names_state(io->names, index);
}

const char* model_io_control_name(const model_io* io, uint32_t index, bool by_index) {
    return by_index ? ns_system_control_name(io->system, index)
                    : ns_io_names_control(io->names, index);
}

uint32_t model_io_state_actuator(const model_io* io, uint32_t k) {
    for (uint32_t a = 0; a < io->n.nu; a++) {
        if (has_state(io->model, a) && k-- == 0) return a;
    }
    return UINT32_MAX;
}
