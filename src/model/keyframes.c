// Keyframes: states that a model's file gives names to. The first one is where simulations start.

#include "model/builder.h"

#include <math.h>
#include <stdio.h>

enum { MAX_KEYFRAMES = 10000 };

// A copy of numbers that are all finite, zeros for NULL; NULL when out of memory.
static double* keep_numbers(ns_model_builder* builder, const double* numbers, uint32_t count) {
    double* copy = nsi_arena_alloc(&builder->strings, (count + 1) * sizeof *copy);
    if (!copy) return NULL;
    for (uint32_t k = 0; k < count; k++) copy[k] = numbers ? numbers[k] : 0.0;
    return copy;
}

static ns_status check_finite(const char* name, const char* what, const double* numbers,
                              uint32_t count, ns_error* error) {
    for (uint32_t k = 0; numbers && k < count; k++) {
        if (isfinite(numbers[k])) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT, "keyframe \"%s\": %s %u is not finite", name, what,
                        k);
    }
    return NS_OK;
}

ns_status ns_model_builder_add_keyframe(ns_model_builder* builder, const ns_keyframe_def* def,
                                        ns_error* error) {
    ns_status status = nsi_builder_check(builder, def, "ns_model_builder_add_keyframe", error);
    if (status != NS_OK) return status;

    // A name that is not taken.
    char made[32];
    snprintf(made, sizeof made, "key%u", builder->keyframes.count);
    const char* name = def->name ? def->name : made;
    status = nsi_builder_check_name("keyframe", name, error);
    if (status != NS_OK) return status;
    for (uint32_t k = 0; k < builder->keyframes.count; k++) {
        if (strcmp(builder->keyframes.data[k].def.name, name) == 0) {
            return nsi_builder_fail_duplicate("keyframe", name, error);
        }
    }
    if (builder->keyframes.count >= MAX_KEYFRAMES) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d keyframes", MAX_KEYFRAMES);
    }

    // Numbers, with unit quaternions.
    uint32_t nq = builder->nq, nv = builder->nv, nu = builder->actuators.count;
    if ((status = check_finite(name, "coordinate", def->q, nq, error)) != NS_OK ||
        (status = check_finite(name, "velocity", def->qd, nv, error)) != NS_OK ||
        (status = check_finite(name, "control", def->control, nu, error)) != NS_OK ||
        (status = check_finite(name, "activation", def->activation, nu, error)) != NS_OK) {
        return status;
    }
    const char* kept = nsi_builder_keep(builder, name);
    double *q = keep_numbers(builder, def->q, nq), *qd = keep_numbers(builder, def->qd, nv);
    double* control = keep_numbers(builder, def->control, nu);
    double* activation = keep_numbers(builder, def->activation, nu);
    if (!kept || !q || !qd || !control || !activation) return nsi_fail_nomem(error);
    if (!def->q) nsi_links_default_q(builder->links.data, builder->links.count, q);
    if (nsi_links_normalize_q(builder->links.data, builder->links.count, q) < 0.0) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "keyframe \"%s\": a quaternion is zero", name);
    }
    nsi_keyframe keyframe = {
        .def = {kept, q, qd, control, activation}, .nq = nq, .nv = nv, .nu = nu};
    if (nsi_array_push(&builder->allocator, &builder->keyframes, keyframe)) return NS_OK;
    return nsi_fail_nomem(error);
}

void nsi_model_builder_get_sizes(const ns_model_builder* builder, uint32_t* nq, uint32_t* nv,
                                 uint32_t* nu) {
    *nq = builder->nq;
    *nv = builder->nv;
    *nu = builder->actuators.count;
}

const ns_actuator_def* nsi_model_builder_actuator(const ns_model_builder* builder,
                                                  uint32_t number) {
    return &builder->actuators.data[number].def;
}

const ns_keyframe_def* ns_model_keyframe(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nkeyframe ? &model->keyframes[number].def : NULL;
}

uint32_t ns_model_find_keyframe(const ns_model* model, const char* name) {
    for (uint32_t k = 0; model && name && k < model->sizes.nkeyframe; k++) {
        if (strcmp(model->keyframes[k].def.name, name) == 0) return k;
    }
    return UINT32_MAX;
}
