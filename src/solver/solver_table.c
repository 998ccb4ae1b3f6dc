// The table of solvers: the library's own, then those that were registered.

#include "solver/solvers.h"

#include <pthread.h>
#include <stdio.h>

enum { MAX_REGISTERED = 64 };

#define OWN_ADDRESS(record) &record,
static const ns_solver* const own[] = {NSI_SOLVER_MAP(OWN_ADDRESS)};
#undef OWN_ADDRESS
enum { OWN_COUNT = sizeof own / sizeof *own };

// Entries are added and never change: the lock is for the count and for whoever adds.
static const ns_solver* registered[MAX_REGISTERED];
static uint32_t registered_count;
static pthread_mutex_t registered_lock = PTHREAD_MUTEX_INITIALIZER;

const ns_solver* ns_solver_at(uint32_t number) {
    if (number < OWN_COUNT) return own[number];
    number -= OWN_COUNT;
    pthread_mutex_lock(&registered_lock);
    const ns_solver* solver = number < registered_count ? registered[number] : NULL;
    pthread_mutex_unlock(&registered_lock);
    return solver;
}

const ns_solver* ns_solver_find(const char* name) {
    const ns_solver* solver = NULL;
    for (uint32_t k = 0; name && (solver = ns_solver_at(k)) != NULL; k++) {
        if (strcmp(solver->name, name) == 0) return solver;
    }
    return NULL;
}

ns_status ns_solver_register(const ns_solver* solver, ns_error* error) {
    // Required functions.
    if (!solver || !solver->name || !solver->create || !solver->step || !solver->free) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_solver_register: a solver needs name, create, step and free");
    }

    // Checkpoints need all three functions or none.
    int states = (solver->state_size != NULL) + (solver->save != NULL) + (solver->load != NULL);
    if (states != 0 && states != 3) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_solver_register: %s needs all of state_size, save and load, or none",
                        solver->name);
    }

    // Add the solver, unless the name is taken; the first search includes built-in solvers.
    bool taken = ns_solver_find(solver->name) != NULL, full;
    pthread_mutex_lock(&registered_lock);
    // Another thread may have registered the same name since.
    for (uint32_t k = 0; k < registered_count && !taken; k++) {
        taken = strcmp(registered[k]->name, solver->name) == 0;
    }
    full = registered_count == MAX_REGISTERED;
    if (!taken && !full) registered[registered_count++] = solver;
    pthread_mutex_unlock(&registered_lock);

    // Report errors outside the lock.
    if (taken) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_solver_register: there is a solver \"%s\" already", solver->name);
    }
    // The limit only guards against programs that register without end.
    if (full) {
        return nsi_fail(error, NS_ERR_LIMIT, "ns_solver_register: more than %d solvers",
                        MAX_REGISTERED);
    }
    return NS_OK;
}

static bool is_among(const ns_solver* solver, uint32_t needed, uint32_t excluded) {
    return (solver->capabilities & needed) == needed && (solver->capabilities & excluded) == 0;
}

const ns_solver* nsi_solver_choose(const char* name, uint32_t needed, uint32_t excluded,
                                   ns_error* error) {
    const ns_solver* solver = ns_solver_find(name);
    if (solver && is_among(solver, needed, excluded)) return solver;
    // The names that there are, as a closed set.
    ns_choice rows[OWN_COUNT + MAX_REGISTERED];
    ns_choices choices = {.what = "solver", .items = rows};
    for (uint32_t k = 0; (solver = ns_solver_at(k)) != NULL; k++) {
        if (!is_among(solver, needed, excluded)) continue;
        rows[choices.count++] = (ns_choice){(int)k, solver->name, solver->help};
    }
    char fault[NS_ERROR_SIZE];
    ns_choice_fault(&choices, name ? name : "", fault, sizeof fault);
    nsi_set_error(error, NS_ERR_ARGUMENT, "\"%.60s\" %s", name ? name : "", fault);
    return NULL;
}

void nsi_solver_list(uint32_t needed, uint32_t excluded, char* text, size_t size) {
    const ns_solver *solver, *last = NULL;
    size_t used = 0;
    text[0] = '\0';
    // One behind, so that the last one gets its "or".
    for (uint32_t k = 0;; k++) {
        solver = ns_solver_at(k);
        if (solver && !is_among(solver, needed, excluded)) continue;
        if (last && used < size) {
            const char* joint = used == 0 ? "" : solver ? ", " : " or ";
            int more = snprintf(text + used, size - used, "%s%s", joint, last->name);
            used += more > 0 ? (size_t)more : 0;
        }
        if (!solver) return;
        last = solver;
    }
}
