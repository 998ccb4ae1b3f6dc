// A definition in terms of a model's names becomes one in terms of numbers (learned.h).

#include "sim/learned_model.h"

#include "model/model_data.h"

#include <stdio.h>

// ---- does it fit? ------------------------------------------------------------------------------

static ns_status check_joints(const nsi_learned* l, const ns_model* model, ns_error* error) {
    for (uint32_t k = 0; k < model->sizes.nlink && !l->integrate; k++) {
        const ns_link_def* link = ns_model_link(model, k);
        const ns_joint_info* info = ns_joint_type_info(link->joint_type);
        if (info->quaternion == info->nq) continue;
        return nsi_fail(
            error, NS_ERR_UNSUPPORTED,
            "joint %.200s has a rotation, which a network cannot keep on its sphere; add"
            " `integrate: true`, so that it follows from the angular velocity",
            link->joint);
    }
    if (model->sizes.nq == 0) {
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "the model has no coordinate that a learned system could predict");
    }
    return NS_OK;
}

// A joint's rotation: the first of its four coordinates, or NSI_NONE.
static uint32_t rotation_of(const ns_model* model, uint32_t link) {
    const ns_joint_info* info = ns_joint_type_info(ns_model_link(model, link)->joint_type);
    return info->quaternion < info->nq ? ns_model_joint_q(model, link) + info->quaternion
                                       : NSI_NONE;
}

// Coordinates by the name of a joint, or of a floating joint's part.
typedef struct place {
    uint32_t first, count; // count 0: there are none
} place;

// Find a name, and offer all there are to `nearest` (or NULL).
static place find_place(const ns_model* model, const char* name, ns_nearest* nearest) {
    static const char* const parts[] = {"x", "y", "z", "rotation"};
    place found = {0, 0};
    for (uint32_t k = 0; k < model->sizes.nlink; k++) {
        const char* joint = ns_model_link(model, k)->joint;
        uint32_t first = ns_model_joint_q(model, k), rotation = rotation_of(model, k);
        if (first == NSI_NONE) continue;
        uint32_t count = rotation == NSI_NONE ? 1 : rotation + 4 - first;
        if (strcmp(name, joint) == 0 && found.count == 0) found = (place){first, count};
        if (nearest) ns_nearest_offer(nearest, joint);

        // Parts of a joint that slides and turns.
        for (uint32_t i = 0; i < 4 && rotation != NSI_NONE && rotation != first; i++) {
            char part[NSI_MODEL_MAX_NAME + 16];
            snprintf(part, sizeof part, "%s/%s", joint, parts[i]);
            bool same = strcmp(name, part) == 0 && found.count == 0;
            if (same) found = i < 3 ? (place){first + i, 1} : (place){rotation, 4};
            if (nearest) ns_nearest_offer(nearest, part);
        }
    }
    return found;
}

static ns_status check_coordinate_names(const char* key, const nsi_text_list* names,
                                        const ns_model* model, ns_error* error) {
    for (uint32_t k = 0; k < names->count; k++) {
        ns_nearest nearest = {.wanted = names->data[k]};
        char hint[NS_HINT_SIZE];
        if (find_place(model, names->data[k], &nearest).count > 0) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "%s: the model has no joint \"%.150s\" with a coordinate%s", key,
                        names->data[k], ns_nearest_hint(&nearest, hint));
    }
    return NS_OK;
}

// Sine and cosine are of one number, and not of what is hidden.
static ns_status check_angles(const nsi_learned* l, const ns_model* model, ns_error* error) {
    for (uint32_t i = 0; i < l->angle.count; i++) {
        place angle = find_place(model, l->angle.data[i], NULL);
        if (angle.count > 1) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "angle: joint %.200s has a rotation, which is seen as its matrix",
                            l->angle.data[i]);
        }
        for (uint32_t k = 0; k < l->hide.count; k++) {
            place hidden = find_place(model, l->hide.data[k], NULL);
            if (angle.first < hidden.first || angle.first >= hidden.first + hidden.count) continue;
            return nsi_fail(error, NS_ERR_ARGUMENT, "%.200s is under hide and under angle",
                            l->angle.data[i]);
        }
    }
    return NS_OK;
}

// "u/<actuator>", "tau0": as ns_system_control_name() of the model's own system.
static bool is_control(const ns_model* model, const char* name) {
    char other[NSI_MODEL_MAX_NAME + 8];
    for (uint32_t k = 0; k < model->sizes.nu; k++) {
        snprintf(other, sizeof other, "u/%s", ns_model_actuator(model, k)->name);
        if (strcmp(name, other) == 0) return true;
    }
    for (uint32_t k = 0; k < model->sizes.nv; k++) {
        snprintf(other, sizeof other, "tau%u", k);
        if (strcmp(name, other) == 0) return true;
    }
    return false;
}

static ns_status check_length(const char* key, const nsi_number_list* list, uint32_t count,
                              ns_error* error) {
    if (list->count == 0 || list->count == count) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "%s has %u numbers; the model needs %u", key,
                    list->count, count);
}

ns_status nsi_learned_check_model(const nsi_learned* l, const ns_model* model, ns_error* error) {
    uint32_t nx = model->sizes.nq + model->sizes.nv, nc = l->controls.count;
    ns_status status = check_joints(l, model, error);
    if (status == NS_OK) status = check_coordinate_names("hide", &l->hide, model, error);
    if (status == NS_OK) status = check_coordinate_names("angle", &l->angle, model, error);
    if (status == NS_OK) status = check_angles(l, model, error);
    for (uint32_t k = 0; k < nc && status == NS_OK; k++) {
        if (is_control(model, l->controls.data[k])) continue;
        status = nsi_fail(error, NS_ERR_ARGUMENT, "controls: the model has no control %.200s",
                          l->controls.data[k]);
    }
    if (status == NS_OK) status = check_length("state_shift", &l->state_shift, nx, error);
    if (status == NS_OK) status = check_length("state_scale", &l->state_scale, nx, error);
    if (status == NS_OK) status = check_length("control_shift", &l->control_shift, nc, error);
    if (status == NS_OK) status = check_length("control_scale", &l->control_scale, nc, error);
    if (status == NS_OK) status = check_length("output_scale", &l->output_scale, nx, error);
    return status;
}

void nsi_learned_inputs(const nsi_learned* l, const ns_model* model, ns_learned_input* out) {
    for (uint32_t k = 0; k < model->sizes.nq + model->sizes.nv; k++) out[k] = NS_LEARNED_RAW;
    for (uint32_t k = 0; k < model->sizes.nlink; k++) {
        uint32_t rotation = rotation_of(model, k);
        for (uint32_t i = 0; rotation != NSI_NONE && i < 4; i++) {
            out[rotation + i] = i == 0 ? NS_LEARNED_ROTATION : NS_LEARNED_HIDE;
        }
    }
    for (uint32_t k = 0; k < l->angle.count; k++) {
        out[find_place(model, l->angle.data[k], NULL).first] = NS_LEARNED_ANGLE;
    }
    for (uint32_t k = 0; k < l->hide.count; k++) {
        place hidden = find_place(model, l->hide.data[k], NULL);
        for (uint32_t i = 0; i < hidden.count; i++) out[hidden.first + i] = NS_LEARNED_HIDE;
    }
}

// ---- making ------------------------------------------------------------------------------------

typedef struct maker {
    const nsi_learned* l;
    const ns_model* model;
    uint32_t nx, nc; // nc: with what a teacher gives
    ns_learned_input* inputs;
    ns_learned_motion* motions; // with `integrate`: of all coordinates
    uint32_t nmotion;
    const char **state_names, **control_names;
    double *control_shift, *control_scale, *state_shift;
    nsi_arena arena;
} maker;

static const char* number_name(maker* m, const char* prefix, uint32_t number) {
    char text[32];
    int size = snprintf(text, sizeof text, "%s%u", prefix, number);
    return nsi_arena_string(&m->arena, text, (size_t)size);
}

static double listed_number(const nsi_number_list* list, uint32_t k, double otherwise) {
    return k < list->count ? list->data[k] : otherwise;
}

// What the network sees of recorded states, as controls, in the order in which it sees them.
static void add_taught(maker* m) {
    for (uint32_t i = 0; i < m->nx; i++) {
        bool angle = m->inputs[i] == NS_LEARNED_ANGLE;
        uint32_t count = m->inputs[i] == NS_LEARNED_HIDE ? 0 : angle ? 2 : 1;
        for (uint32_t k = 0; k < count; k++, m->nc++) {
            m->control_names[m->nc] = number_name(m, "taught/", m->nc);
            m->control_shift[m->nc] = angle ? 0.0 : listed_number(&m->l->state_shift, i, 0.0);
            m->control_scale[m->nc] = angle ? 1.0 : listed_number(&m->l->state_scale, i, 1.0);
        }
        m->inputs[i] = NS_LEARNED_HIDE;
    }
}

static void add_motions(maker* m) {
    for (uint32_t k = 0; k < m->model->sizes.nlink; k++) {
        uint32_t q = ns_model_joint_q(m->model, k), v = ns_model_joint_v(m->model, k);
        uint32_t rotation = rotation_of(m->model, k);
        if (q == NSI_NONE) continue;
        uint32_t plain = rotation == NSI_NONE ? 1 : rotation - q, nq = m->model->sizes.nq;
        for (uint32_t i = 0; i < plain; i++) {
            m->motions[m->nmotion++] = (ns_learned_motion){q + i, nq + v + i, false};
        }
        if (rotation == NSI_NONE) continue;
        m->motions[m->nmotion++] = (ns_learned_motion){rotation, nq + v + plain, true};
    }
}

static bool fill_lists(maker* m, bool teacher) {
    const nsi_learned* l = m->l;
    size_t most = 2 * (size_t)m->nx + l->controls.count + 1, one = sizeof(double);
    m->inputs = nsi_arena_alloc(&m->arena, m->nx * sizeof *m->inputs);
    m->motions = nsi_arena_alloc(&m->arena, m->nx * sizeof *m->motions);
    m->state_names = nsi_arena_alloc(&m->arena, m->nx * sizeof *m->state_names);
    m->control_names = nsi_arena_alloc(&m->arena, most * sizeof *m->control_names);
    m->state_shift = nsi_arena_alloc(&m->arena, m->nx * one);
    m->control_shift = nsi_arena_alloc(&m->arena, most * one);
    m->control_scale = nsi_arena_alloc(&m->arena, most * one);
    if (!m->inputs || !m->motions || !m->state_names || !m->control_names || !m->state_shift ||
        !m->control_shift || !m->control_scale) {
        return false;
    }

    // What is known of the states from the model's joints.
    nsi_learned_inputs(l, m->model, m->inputs);
    if (l->integrate) add_motions(m);
    uint32_t nq = m->model->sizes.nq;
    bool named = true;
    for (uint32_t k = 0; k < m->nx; k++) {
        m->state_names[k] = number_name(m, k < nq ? "q" : "qd", k < nq ? k : k - nq);
        // A teacher knows where the change starts from.
        bool change = teacher && l->increment;
        m->state_shift[k] = change ? 0.0 : listed_number(&l->state_shift, k, 0.0);
        named = named && m->state_names[k];
    }

    // A teacher's states come as controls, before those of the definition.
    if (teacher) add_taught(m);
    for (uint32_t k = 0; k < l->controls.count; k++, m->nc++) {
        m->control_names[m->nc] = l->controls.data[k];
        m->control_shift[m->nc] = listed_number(&l->control_shift, k, 0.0);
        m->control_scale[m->nc] = listed_number(&l->control_scale, k, 1.0);
    }
    for (uint32_t k = 0; k < m->nc; k++) named = named && m->control_names[k];
    return named;
}

ns_status nsi_learned_create(const nsi_learned* l, const ns_model* model, double timestep,
                             bool teacher, const ns_allocator* allocator, ns_system** out,
                             ns_error* error) {
    *out = NULL;

    ns_status status = nsi_learned_check_model(l, model, error);
    if (status == NS_OK && teacher && l->integrate) {
        status =
            nsi_fail(error, NS_ERR_UNSUPPORTED,
                     "a teacher does not go with `integrate`: positions follow from velocities");
    }
    if (status != NS_OK) return status;

    // Lists by number, from the names of the model.
    maker m = {.l = l,
               .model = model,
               .nx = model->sizes.nq + model->sizes.nv,
               .arena = {.allocator = allocator ? *allocator : ns_default_allocator()}};
    if (!fill_lists(&m, teacher)) {
        nsi_arena_free(&m.arena);
        return nsi_fail_nomem(error);
    }

    // The definition without names of a model.
    ns_learned_def def = ns_default_learned_def();
    def.kind = l->kind;
    def.nx = m.nx;
    def.nc = m.nc;
    def.state_names = m.state_names;
    def.control_names = m.control_names;
    def.hidden = l->hidden;
    def.nhidden = l->nhidden;
    def.activation = l->activation;
    def.increment = l->increment && !teacher;

    // How states and controls are scaled before the network sees them.
    def.state_input = m.inputs;
    def.nstate_input = m.nx;
    def.state_shift = m.state_shift;
    def.nstate_shift = m.nx;
    def.state_scale = l->state_scale.data;
    def.nstate_scale = l->state_scale.count;
    def.control_shift = m.control_shift;
    def.ncontrol_shift = m.nc;
    def.control_scale = m.control_scale;
    def.ncontrol_scale = m.nc;
    def.output_scale = l->output_scale.data;
    def.noutput_scale = l->output_scale.count;

    // States that follow from velocities, and initial weights.
    def.motions = m.motions;
    def.nmotion = m.nmotion;
    def.timestep = timestep;
    def.init_scale = l->init_scale;
    def.init_last_scale = l->init_last_scale;
    def.seed = l->seed;

    status = ns_system_create_learned(&def, &m.arena.allocator, NS_BACKEND_AUTO, out, error);
    nsi_arena_free(&m.arena);
    return status;
}
