/// @file motion.h
/// Motions: a model in motion, as a report shows it in a browser, with recordings and simulations side
/// by side.
///
///     ns_motion* motion = NULL;
///     ns_motion_create(model, NULL, &motion, &error);
///     ns_motion_add_episode(motion, "run4.csv", time, rows, NULL, &error);
///     ns_motion_add_track(motion, "simulated", "run", &error);
///     ns_motion_observer_add_states(observer, motion, &states, &error);  // poses, contacts, energies
///     ns_section_add_motion(section, motion);                            // report.h
///
/// A motion has episodes, an episode has tracks of the same length, and a track has poses, contacts and
/// quantities over time. Link libneuralsim_report.a before libneuralsim.a.

#ifndef NEURALSIM_MOTION_H
#define NEURALSIM_MOTION_H

#include "neuralsim/sim.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Largest count of numbers of a motion: 200 MB before they are packed.
#define NS_MOTION_MAX_NUMBERS 50000000

typedef struct ns_motion ns_motion;

/// @param model      to be drawn; must outlive the motion
/// @param allocator  NULL for ns_default_allocator()
/// @return NS_OK, NS_ERR_NOMEM
NS_API ns_status ns_motion_create(const ns_model* model, const ns_allocator* allocator,
                                  ns_motion** out, ns_error* error);
NS_API void ns_motion_free(ns_motion* motion); ///< NULL is allowed

/// Begin an episode. Everything added from now on belongs to it.
/// @param time  (rows) s, ascending
/// @param note  a sentence to show with it, or NULL
/// @return NS_OK; NS_ERR_LIMIT: more than NS_MOTION_MAX_NUMBERS; NS_ERR_NOMEM
NS_API ns_status ns_motion_add_episode(ns_motion* motion, const char* name, const double* time,
                                       uint32_t rows, const char* note, ns_error* error);

/// Mark a range of time as data of a role: "train", "validation", "test".
NS_API ns_status ns_motion_add_span(ns_motion* motion, double from, double to, const char* role,
                                    ns_error* error);

/// Begin a track of the episode.
/// @param role  "run", "recorded", "before" or "after"
NS_API ns_status ns_motion_add_track(ns_motion* motion, const char* name, const char* role,
                                     ns_error* error);

/// Rows of the last episode; 0 when there is none.
NS_API uint32_t ns_motion_rows(const ns_motion* motion);

/// Add numbers of the last track over time: values[k * stride] in row k. Quantities of the same name
/// in other tracks of the episode are drawn together. NaN: missing. Added again for the same track,
/// they are replaced.
NS_API ns_status ns_motion_add_quantity(ns_motion* motion, const char* name, const char* unit,
                                        const double* values, size_t stride, ns_error* error);

/// Set the poses of all links of the last track: (rows x nlink x 7), x y z qw qx qy qz in the world.
/// They are quantities "link/<l>/pose/x", too.
NS_API ns_status ns_motion_set_poses(ns_motion* motion, const double* poses, ns_error* error);

/// Add a contact point of the last track: (rows x 6) position, and force on the first geometry, both in
/// the world frame; zero or NaN: no contact.
NS_API ns_status ns_motion_add_contact(ns_motion* motion, const char* name, const double* values,
                                       ns_error* error);

// ---- from states to what is shown of them -----------------------------------------------------

/// Computes poses, contacts and quantities of a system from its states.
typedef struct ns_motion_observer ns_motion_observer;

/// @param options   of the system that moved; its observations are ignored
/// @param patterns  quantities to show besides poses, contacts, states, controls and energies
/// @return as ns_system_create()
NS_API ns_status ns_motion_observer_create(const ns_model* model, const ns_system_options* options,
                                           const char* const* patterns, uint32_t npattern,
                                           ns_motion_observer** out, ns_error* error);
NS_API void ns_motion_observer_free(ns_motion_observer* observer); ///< NULL is allowed

/// Largest count of columns that a track gets from it, to check early against NS_MOTION_MAX_NUMBERS.
NS_API uint32_t ns_motion_observer_column_count(const ns_motion_observer* observer);

typedef struct ns_motion_states {
    const double* states;   ///< (rows x nx) of the episode; a row that is not finite is missing
    const double* controls; ///< (rows x nc), or NULL for zero: then they are not shown
    const double* params;   ///< (np) of the system, or NULL: the model's
    const double* weights;  ///< (nw), or NULL: the initial ones
    bool poses_only;        ///< states hold no velocities
} ns_motion_states;

/// Give the last track of the motion its poses, contacts and quantities.
/// @return NS_OK, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_motion_observer_add_states(ns_motion_observer* observer, ns_motion* motion,
                                               const ns_motion_states* states, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
