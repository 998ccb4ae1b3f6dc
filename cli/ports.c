// Names of states, controls and parameters.

#include "ports.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { NAME_SIZE = 320 }; // a joint's name has at most 200 bytes

static const char* format_name(ports* p, const char* format, ...) NSI_PRINTF(2, 3);
static const char* format_name(ports* p, const char* format, ...) {
    char name[NAME_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return nsi_arena_string(&p->arena, name, strlen(name));
}

static const named_port* find(const ports* p, const char* name) {
    if (p->names.count == 0) return NULL;
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&p->index, hash), id; nsi_index_at(&p->index, at, &id);
         at = nsi_index_next(&p->index, at)) {
        if (strcmp(p->names.data[id].name, name) == 0) return &p->names.data[id];
    }
    return NULL;
}

port ports_find(const ports* p, const char* name) {
    const named_port* found = find(p, name);
    return found ? found->port : (port){PORT_NONE, 0};
}

// ---- making the names ----------------------------------------------------------------------

typedef enum added { ADDED, TAKEN, NO_MEMORY } added;

static added add(ports* p, const char* name, port_kind kind, uint32_t index) {
    if (!name) return NO_MEMORY;
    if (find(p, name)) return TAKEN;
    named_port entry = {name, {kind, index}};
    uint32_t hash = nsi_hash_bytes(name, strlen(name)), number = p->names.count;
    bool ok = nsi_array_push(&p->arena.allocator, &p->names, entry) &&
              nsi_index_insert(&p->arena.allocator, &p->index, hash, number);
    return ok ? ADDED : NO_MEMORY;
}

// The names of the library, and u0, u1..
static bool add_system_names(ports* p) {
    bool ok = true;
    for (uint32_t k = 0; k < p->z.nx && ok; k++) {
        ok = add(p, ns_system_state_name(p->system, k), PORT_STATE, k) != NO_MEMORY;
    }
    for (uint32_t k = 0; k < p->z.nc && ok; k++) {
        ok = add(p, ns_system_control_name(p->system, k), PORT_CONTROL, k) != NO_MEMORY;
    }
    for (uint32_t k = 0; k < p->n.nu && ok; k++) {
        ok = add(p, format_name(p, "u%u", k), PORT_CONTROL, k) != NO_MEMORY;
    }
    for (uint32_t k = 0; k < p->z.np && ok; k++) {
        ok = add(p, ns_system_param_name(p->system, k), PORT_PARAM, k) != NO_MEMORY;
    }
    return ok;
}

// prefix_<joint>, or prefix_<joint>_<k> for each of several.
static void name_joint(ports* p, const char* prefix, const char* joint, uint32_t count,
                       const char** out) {
    for (uint32_t k = 0; k < count; k++) {
        out[k] = count == 1 ? format_name(p, "%s_%s", prefix, joint)
                            : format_name(p, "%s_%s_%u", prefix, joint, k);
    }
}

// Names by joint and actuator, into `state` and `control`.
static void make_joint_names(ports* p) {
    for (uint32_t i = 0; i < p->n.nlink; i++) {
        const char* joint = ns_model_link(p->model, i)->joint;
        uint32_t nq = cli_joint_nq(p->model, i), nv = cli_joint_nv(p->model, i);
        if (nq == 0) continue;
        uint32_t q = ns_model_joint_q(p->model, i), v = ns_model_joint_v(p->model, i);
        name_joint(p, "q", joint, nq, p->state + q);
        name_joint(p, "qd", joint, nv, p->state + p->n.nq + v);
        name_joint(p, "tau", joint, nv, p->control + p->n.nu + v);
    }
    uint32_t motor = p->n.nq + p->n.nv;
    for (uint32_t i = 0; i < p->n.nu; i++) {
        const ns_actuator_def* a = ns_model_actuator(p->model, i);
        p->control[i] = format_name(p, "u_%s", a->name);
        if (a->type == NS_ACTUATOR_SERIES_ELASTIC) {
            p->state[motor++] = format_name(p, "motor_%s", a->name);
        }
    }
    p->nmotor = motor - p->n.nq - p->n.nv;
    for (; motor < p->z.nx; motor++) p->state[motor] = ns_system_state_name(p->system, motor);
}

static added add_joint_names(ports* p) {
    for (uint32_t k = 0; k < p->n.nq + p->n.nv + p->nmotor; k++) { // the rest has no other names
        added result = add(p, p->state[k], PORT_STATE, k);
        if (result != ADDED) return result;
    }
    for (uint32_t k = 0; k < p->z.nc; k++) {
        added result = add(p, p->control[k], PORT_CONTROL, k);
        if (result != ADDED) return result;
    }
    return ADDED;
}

// u_<joint>: the joint's only actuator, or its generalised force when it has none.
static bool add_joint_controls(ports* p) {
    for (uint32_t i = 0; i < p->n.nlink; i++) {
        if (cli_joint_nv(p->model, i) != 1) continue;
        const char* joint = ns_model_link(p->model, i)->joint;
        uint32_t count = 0, control = p->n.nu + ns_model_joint_v(p->model, i);
        for (uint32_t a = 0; a < p->n.nu; a++) {
            if (strcmp(ns_model_actuator(p->model, a)->joint, joint) == 0) count++, control = a;
        }
        if (count > 1) continue;
        if (add(p, format_name(p, "u_%s", joint), PORT_CONTROL, control) == NO_MEMORY) return false;
    }
    return true;
}

bool ports_create(ports* p, const cli_model* source, const ns_system* system) {
    const ns_model* model = source->model;
    *p = (ports){.source = source,
                 .model = model,
                 .system = system,
                 .n = ns_model_get_sizes(model),
                 .z = ns_system_get_sizes(system),
                 .by_name = true,
                 .arena = {.allocator = ns_default_allocator()}};
    p->state = calloc((size_t)p->z.nx + 1, sizeof *p->state);
    p->control = calloc((size_t)p->z.nc + 1, sizeof *p->control);
    bool ok = p->state && p->control && add_system_names(p);
    if (ok) {
        make_joint_names(p);
        uint32_t before = p->names.count;
        added result = add_joint_names(p);
        ok = result != NO_MEMORY;
        if (result == TAKEN) { // such as q_a_0: of joint "a_0", or the first of joint "a"?
            cli_note(
                "names by joint would be ambiguous for this model; by index (q0) they are not");
            p->by_name = false;
            p->names.count = before;
            nsi_index_free(&p->arena.allocator, &p->index);
            for (uint32_t k = 0; k < before && ok; k++) {
                const char* name = p->names.data[k].name;
                ok = nsi_index_insert(&p->arena.allocator, &p->index,
                                      nsi_hash_bytes(name, strlen(name)), k);
            }
        }
        if (ok && p->by_name) ok = add_joint_controls(p);
    }
    if (!ok) cli_fail("out of memory");
    return ok;
}

void ports_free(ports* p) {
    if (!p->model) return;
    free(p->state);
    free(p->control);
    nsi_array_free(&p->arena.allocator, &p->names);
    nsi_index_free(&p->arena.allocator, &p->index);
    nsi_arena_free(&p->arena);
    *p = (ports){0};
}

const char* ports_state_name(const ports* p, uint32_t index, bool by_index) {
    return by_index || !p->by_name ? ns_system_state_name(p->system, index) : p->state[index];
}

const char* ports_control_name(const ports* p, uint32_t index, bool by_index) {
    return by_index || !p->by_name ? ns_system_control_name(p->system, index) : p->control[index];
}

uint32_t ports_motor_actuator(const ports* p, uint32_t k) {
    for (uint32_t a = 0; a < p->n.nu; a++) {
        if (ns_model_actuator(p->model, a)->type == NS_ACTUATOR_SERIES_ELASTIC && k-- == 0) {
            return a;
        }
    }
    return NSI_NONE;
}
