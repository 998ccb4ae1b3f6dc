// Keyframes of MJCF: named states. Coordinates, velocities and controls have MuJoCo's order and
// conventions, except that actuators that are not represented have no control here.

#include "io/mjcf.h"

// Numbers of an attribute, as many as `count`; NULL without the attribute. To be freed.
static bool read_state(nsi_mjcf* m, const nsi_xml_element* key, const char* attribute,
                       uint32_t count, double** out) {
    uint32_t given;
    if (!nsi_mjcf_number_list(m, key, attribute, 1, out, &given)) return false;
    if (!*out || given == count) return true;
    return nsi_reader_fail(m->reader, key, NS_ERR_PARSE,
                           "%s has %u numbers, and the model %u; correct the keyframe or remove it",
                           attribute, given, count);
}

// Numbers of controls in the file, in the order of the model's actuators.
static bool read_controls(nsi_mjcf* m, const nsi_xml_element* key, uint32_t nu, double** out) {
    // All actuators of the file, and where the model's are among them.
    uint32_t total = 0, kept = 0;
    uint32_t* place = nsi_alloc(&m->reader->allocator, (nu + 1) * sizeof *place);
    if (!place) return nsi_reader_fail_nomem(m->reader);
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "actuator");
    for (; section; section = nsi_xml_next(section, "actuator")) {
        for (const nsi_xml_element* e = section->first_child; e; e = e->next, total++) {
            if (kept < nu && m->reader->actuators.data[kept] == e) place[kept++] = total;
        }
    }

    double* all = NULL;
    bool read = read_state(m, key, "ctrl", total, &all);
    *out = NULL;
    if (read && all) {
        *out = nsi_alloc(&m->reader->allocator, (nu + 1) * sizeof **out);
        if (!*out) read = nsi_reader_fail_nomem(m->reader);
        for (uint32_t k = 0; *out && k < kept; k++) (*out)[k] = all[place[k]];
    }
    nsi_free(&m->reader->allocator, all);
    nsi_free(&m->reader->allocator, place);
    return read;
}

// Activations in the file, which are of the actuators that have one, in their order; of all actuators here.
static bool read_activations(nsi_mjcf* m, const nsi_xml_element* key, uint32_t nu, double** out) {
    *out = NULL;
    if (!nsi_xml_value(key, "act")) return true;
    const ns_allocator* allocator = &m->reader->allocator;
    uint32_t in_file = 0, count = 0;
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "actuator");
    for (; section; section = nsi_xml_next(section, "actuator")) {
        for (const nsi_xml_element* e = section->first_child; e; e = e->next) in_file++;
    }
    if (in_file != nu) {
        return nsi_reader_note(
            m->reader, key,
            "act: not read, since not all actuators are represented; changes the "
            "motion");
    }
    for (uint32_t i = 0; i < nu; i++) {
        count += nsi_model_builder_actuator(m->reader->builder, i)->dynamics != NS_DYNAMICS_NONE;
    }

    double* given = NULL;
    if (read_state(m, key, "act", count, &given)) {
        *out = nsi_alloc(allocator, (nu + 1) * sizeof **out);
        if (!*out) nsi_reader_fail_nomem(m->reader);
    }
    for (uint32_t i = 0, k = 0; *out && given && i < nu; i++) {
        const ns_actuator_def* a = nsi_model_builder_actuator(m->reader->builder, i);
        (*out)[i] = a->dynamics != NS_DYNAMICS_NONE ? given[k++] : 0.0;
    }
    nsi_free(allocator, given);
    return *out != NULL;
}

static bool read_key(nsi_mjcf* m, const nsi_xml_element* key) {
    const ns_allocator* allocator = &m->reader->allocator;
    uint32_t nq, nv, nu;
    nsi_model_builder_get_sizes(m->reader->builder, &nq, &nv, &nu);
    double *q = NULL, *qd = NULL, *control = NULL, *activation = NULL;
    bool read = read_state(m, key, "qpos", nq, &q) && read_state(m, key, "qvel", nv, &qd) &&
                read_controls(m, key, nu, &control) && read_activations(m, key, nu, &activation);
    if (read) {
        ns_keyframe_def def = {nsi_xml_value(key, "name"), q, qd, control, activation};
        read = nsi_reader_add_keyframe(m->reader, key, &def);
    }
    nsi_free(allocator, q);
    nsi_free(allocator, qd);
    nsi_free(allocator, control);
    nsi_free(allocator, activation);
    return read;
}

bool nsi_mjcf_read_keyframes(nsi_mjcf* m) {
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "keyframe");
    for (; section; section = nsi_xml_next(section, "keyframe")) {
        const nsi_xml_element* key = nsi_xml_child(section, "key");
        for (; key; key = nsi_xml_next(key, "key")) {
            if (!read_key(m, key)) return false;
        }
    }
    return true;
}
