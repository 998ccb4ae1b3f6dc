// Names of states, controls and parameters.

#include "neuralsim/io_names.h"

#include "model/model_data.h"
#include "sim/system.h"

#include <stdarg.h>
#include <stdio.h>

enum { IO_NAME_SIZE = NSI_MODEL_MAX_NAME + 32 }; // "motor_", "q_.._6" and a name

typedef struct named_target {
    const char* name;
    ns_io_target target;
} named_target;

struct ns_io_names {
    const ns_system* system;
    const ns_model* model; // NULL: a learned system
    nsi_arena arena;       // names, and the two lists of them
    bool by_joint;
    const char** state;   // (nx) q_<joint>.., qd_<joint>.., motor_<actuator> or act_<actuator>..
    const char** control; // (nc) u_<actuator>.., tau_<joint>..
    uint32_t njoint;      // states that have a name by joint or actuator; those of memory have not
    NSI_ARRAY(named_target) list;
    nsi_index index; // of the list
};

static const char* format_name(ns_io_names* n, const char* format, ...) NSI_PRINTF(2, 3);
static const char* format_name(ns_io_names* n, const char* format, ...) {
    char name[IO_NAME_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    return nsi_arena_string(&n->arena, name, strlen(name));
}

static const named_target* find_io_name(const ns_io_names* n, const char* name) {
    if (n->list.count == 0) return NULL;
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&n->index, hash), id; nsi_index_at(&n->index, at, &id);
         at = nsi_index_next(&n->index, at)) {
        if (strcmp(n->list.data[id].name, name) == 0) return &n->list.data[id];
    }
    return NULL;
}

// ---- making the names ----------------------------------------------------------------------

typedef enum added { ADDED, TAKEN, NO_MEMORY } added;

static added add_io_name(ns_io_names* n, const char* name, ns_io_kind kind, uint32_t index) {
    if (!name) return NO_MEMORY;
    if (find_io_name(n, name)) return TAKEN;
    named_target entry = {name, {kind, index}};
    uint32_t hash = nsi_hash_bytes(name, strlen(name)), number = n->list.count;
    bool ok = nsi_array_push(&n->arena.allocator, &n->list, entry) &&
              nsi_index_insert(&n->arena.allocator, &n->index, hash, number);
    return ok ? ADDED : NO_MEMORY;
}

// The names that the system has itself, and u0, u1..
static bool add_system_names(ns_io_names* n) {
    ns_system_sizes z = n->system->sizes;
    uint32_t nu = n->model ? n->model->sizes.nu : 0;
    bool ok = true;
    for (uint32_t k = 0; k < z.nx && ok; k++) {
        ok = add_io_name(n, ns_system_state_name(n->system, k), NS_IO_STATE, k) != NO_MEMORY;
    }
    for (uint32_t k = 0; k < z.nc && ok; k++) {
        ok = add_io_name(n, ns_system_control_name(n->system, k), NS_IO_CONTROL, k) != NO_MEMORY;
    }
    for (uint32_t k = 0; k < nu && ok; k++) {
        ok = add_io_name(n, format_name(n, "u%u", k), NS_IO_CONTROL, k) != NO_MEMORY;
    }
    for (uint32_t k = 0; k < z.np && ok; k++) {
        ok = add_io_name(n, ns_system_param_name(n->system, k), NS_IO_PARAM, k) != NO_MEMORY;
    }
    return ok;
}

// prefix_<joint>, or prefix_<joint>_<k> for each of several.
static void name_joint(ns_io_names* n, const char* prefix, const char* joint, uint32_t count,
                       const char** out) {
    for (uint32_t k = 0; k < count; k++) {
        out[k] = count == 1 ? format_name(n, "%s_%s", prefix, joint)
                            : format_name(n, "%s_%s_%u", prefix, joint, k);
    }
}

// Names by joint and actuator, into `state` and `control`; NULL where there is no memory.
static void make_joint_names(ns_io_names* n) {
    ns_model_sizes m = n->model->sizes;
    for (uint32_t i = 0; i < m.nlink; i++) {
        const nsi_link* link = &n->model->links[i];
        if (link->nq == 0) continue;
        name_joint(n, "q", link->def.joint, link->nq, n->state + link->q);
        name_joint(n, "qd", link->def.joint, link->nv, n->state + m.nq + link->v);
        name_joint(n, "tau", link->def.joint, link->nv, n->control + m.nu + link->v);
    }

    // Series-elastic actuators and those with an activation have a state, in their order.
    uint32_t motor = m.nq + m.nv;
    for (uint32_t i = 0; i < m.nu; i++) {
        const ns_actuator_def* a = ns_model_actuator(n->model, i);
        n->control[i] = format_name(n, "u_%s", a->name);
        const char* kind = nsi_actuator_state(a);
        if (kind) n->state[motor++] = format_name(n, "%s_%s", kind, a->name);
    }
    n->njoint = motor;
    for (; motor < n->system->sizes.nx; motor++) {
        n->state[motor] = ns_system_state_name(n->system, motor);
    }
}

static added add_joint_names(ns_io_names* n) {
    for (uint32_t k = 0; k < n->njoint; k++) {
        added result = add_io_name(n, n->state[k], NS_IO_STATE, k);
        if (result != ADDED) return result;
    }
    for (uint32_t k = 0; k < n->system->sizes.nc; k++) {
        added result = add_io_name(n, n->control[k], NS_IO_CONTROL, k);
        if (result != ADDED) return result;
    }
    return ADDED;
}

// u_<joint>: the joint's only actuator, or its generalised force when it has none.
static bool add_joint_controls(ns_io_names* n) {
    ns_model_sizes m = n->model->sizes;
    for (uint32_t i = 0; i < m.nlink; i++) {
        const nsi_link* link = &n->model->links[i];
        if (link->nv != 1) continue;
        uint32_t count = 0, control = m.nu + link->v;
        for (uint32_t a = 0; a < m.nu; a++) {
            if (n->model->actuators[a].link == i) count++, control = a;
        }
        if (count > 1) continue;
        const char* name = format_name(n, "u_%s", link->def.joint);
        if (add_io_name(n, name, NS_IO_CONTROL, control) == NO_MEMORY) return false;
    }
    return true;
}

// Take back the names from number `count` on.
static bool forget_names(ns_io_names* n, uint32_t count) {
    n->list.count = count;
    nsi_index_free(&n->arena.allocator, &n->index);
    bool ok = true;
    for (uint32_t k = 0; k < count && ok; k++) {
        const char* name = n->list.data[k].name;
        ok =
            nsi_index_insert(&n->arena.allocator, &n->index, nsi_hash_bytes(name, strlen(name)), k);
    }
    return ok;
}

static bool make_names(ns_io_names* n) {
    ns_system_sizes z = n->system->sizes;
    n->state = nsi_arena_alloc(&n->arena, ((size_t)z.nx + 1) * sizeof *n->state);
    n->control = nsi_arena_alloc(&n->arena, ((size_t)z.nc + 1) * sizeof *n->control);
    if (!n->state || !n->control || !add_system_names(n)) return false;
    if (!n->model) return true;

    // All names by joint, or none of them
    make_joint_names(n);
    uint32_t before = n->list.count;
    added result = add_joint_names(n);
    if (result == NO_MEMORY) return false;
    n->by_joint = result == ADDED;
    return n->by_joint ? add_joint_controls(n) : forget_names(n, before);
}

// ---- public ----------------------------------------------------------------------------------

ns_status ns_io_names_create(const ns_system* system, ns_io_names** out, ns_error* error) {
    *out = NULL;
    if (!system) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_io_names_create: the system is NULL");
    ns_io_names* n = nsi_alloc_zeroed(&system->allocator, sizeof *n);
    if (!n) return nsi_fail_nomem(error);
    n->system = system;
    n->model = system->model;
    n->arena.allocator = system->allocator;
    if (!make_names(n)) {
        ns_io_names_free(n);
        return nsi_fail_nomem(error);
    }
    *out = n;
    return NS_OK;
}

void ns_io_names_free(ns_io_names* names) {
    if (!names) return;
    ns_allocator memory = names->arena.allocator;
    nsi_array_free(&memory, &names->list);
    nsi_index_free(&memory, &names->index);
    nsi_arena_free(&names->arena);
    nsi_free(&memory, names);
}

bool ns_io_names_by_joint(const ns_io_names* names) {
    return names->by_joint;
}

ns_io_target ns_io_names_find(const ns_io_names* names, const char* name) {
    const named_target* found = find_io_name(names, name);
    return found ? found->target : (ns_io_target){NS_IO_NONE, 0};
}

const char* ns_io_names_state(const ns_io_names* names, uint32_t index) {
    bool by_joint = names->by_joint && index < names->system->sizes.nx;
    return by_joint ? names->state[index] : ns_system_state_name(names->system, index);
}

const char* ns_io_names_control(const ns_io_names* names, uint32_t index) {
    bool by_joint = names->by_joint && index < names->system->sizes.nc;
    return by_joint ? names->control[index] : ns_system_control_name(names->system, index);
}

uint32_t ns_io_names_count(const ns_io_names* names) {
    return names->list.count;
}

const char* ns_io_names_at(const ns_io_names* names, uint32_t number, ns_io_target* target) {
    if (number >= names->list.count) return NULL;
    if (target) *target = names->list.data[number].target;
    return names->list.data[number].name;
}
