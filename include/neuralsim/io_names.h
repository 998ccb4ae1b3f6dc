/// @file io_names.h
/// Names of what goes into a system, as columns of tables and options of the program spell them.
///
///     ns_io_names* names = NULL;
///     ns_io_names_create(system, &names, &error);
///     ns_io_target target = ns_io_names_find(names, "q_elbow");
///     if (target.kind == NS_IO_STATE) x0[target.index] = 0.5;
///     ns_io_names_free(names);
///
/// Each state, control and free parameter has several names:
///
///     by index   q0 q1..  qd0..  tau0..  u0..   and the system's own u/<actuator>, motor/<actuator>
///     by joint   q_<joint>  qd_<joint>  tau_<joint>  u_<actuator>  motor_<actuator>
///                q_<joint>_0, q_<joint>_1.. for joints with several coordinates
///                u_<joint> for the only actuator of a joint, or tau_<joint> of one that has none
///     own        memory/<quantity>/<lag> for what networks keep from step to step;
///                parameters, link/<l>/mass
///
/// Names by joint may be ambiguous: q_a_0 is of joint "a_0", or the first of joint "a". Then the
/// system has names by index only.

#ifndef NEURALSIM_IO_NAMES_H
#define NEURALSIM_IO_NAMES_H

#include "neuralsim/sim.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_io_names ns_io_names;

typedef enum ns_io_kind { NS_IO_NONE, NS_IO_STATE, NS_IO_CONTROL, NS_IO_PARAM } ns_io_kind;

/// What a name stands for.
typedef struct ns_io_target {
    ns_io_kind kind; ///< NS_IO_NONE: nothing of the system
    uint32_t index;  ///< in the state, the control, or the free parameters
} ns_io_target;

/// @param system  must outlive the names
/// @param out     to be freed by ns_io_names_free(); NULL after a failure
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_NOMEM
NS_API ns_status ns_io_names_create(const ns_system* system, ns_io_names** out, ns_error* error);
NS_API void ns_io_names_free(ns_io_names* names); ///< NULL is allowed

/// Are there names by joint? Not when they are ambiguous, nor for learned systems.
NS_API bool ns_io_names_by_joint(const ns_io_names* names);

/// Find what a name stands for, in constant time.
NS_API ns_io_target ns_io_names_find(const ns_io_names* names, const char* name);

/// The column name of a state or control: by joint where there is one, otherwise by index. NULL for
/// a number that is too large.
NS_API const char* ns_io_names_state(const ns_io_names* names, uint32_t index);
NS_API const char* ns_io_names_control(const ns_io_names* names, uint32_t index);

/// All names, by number; NULL for a number that is too large.
/// @param target  receives what it stands for; may be NULL
NS_API uint32_t ns_io_names_count(const ns_io_names* names);
NS_API const char* ns_io_names_at(const ns_io_names* names, uint32_t number, ns_io_target* target);

#ifdef __cplusplus
}
#endif

#endif
