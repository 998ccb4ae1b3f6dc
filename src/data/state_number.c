// Which component of the state a channel is, by its name.

#include "data/state_number.h"

#include "base/common.h"
#include "io/numbers.h"
#include "model/model_data.h"

#include <stdarg.h>
#include <stdio.h>

static bool is_called(const char* name, const char* format, ...) NSI_PRINTF(2, 3);

static bool is_called(const char* name, const char* format, ...) {
    char other[NSI_MODEL_MAX_NAME + 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(other, sizeof other, format, arguments);
    va_end(arguments);
    return strcmp(name, other) == 0;
}

// q_<joint>, qd_<joint>, or q_<joint>_0, q_<joint>_1.. of a joint with several, as in tables
// (neuralsim/io_names.h); NSI_NONE: none of this joint's.
static uint32_t joint_state_number(const ns_model* model, uint32_t k, const char* name) {
    const ns_link_def* link = ns_model_link(model, k);
    const ns_joint_info* type = ns_joint_type_info(link->joint_type);
    if (link->mimic) return NSI_NONE;
    for (int velocity = 0; velocity < 2; velocity++) {
        uint32_t count = velocity ? type->nv : type->nq;
        const char* prefix = velocity ? "qd" : "q";
        for (uint32_t i = 0; i < count; i++) {
            bool found = count == 1 ? is_called(name, "%s_%s", prefix, link->joint)
                                    : is_called(name, "%s_%s_%u", prefix, link->joint, i);
            if (!found) continue;
            return velocity ? ns_model_get_sizes(model).nq + ns_model_joint_v(model, k) + i
                            : ns_model_joint_q(model, k) + i;
        }
    }
    return NSI_NONE;
}

uint32_t nsi_state_number(const ns_model* model, const char* name) {
    ns_model_sizes m = ns_model_get_sizes(model);
    for (uint32_t k = 0; k < m.nq + m.nv; k++) {
        if (k < m.nq ? is_called(name, "q%u", k) : is_called(name, "qd%u", k - m.nq)) return k;
    }
    for (uint32_t k = 0; k < m.nlink; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        uint32_t number = joint_state_number(model, k, name);
        if (number != NSI_NONE) return number;
        if (!ns_joint_type_info(link->joint_type)->has_axis || link->mimic) continue;
        if (is_called(name, "joint/%s/position", link->joint)) return ns_model_joint_q(model, k);
        if (is_called(name, "joint/%s/velocity", link->joint)) {
            return m.nq + ns_model_joint_v(model, k);
        }
    }
    return NSI_NONE;
}
