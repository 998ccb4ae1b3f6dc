// What moves in a page: a model, and motions of it side by side, as web/README.md says.
//
//     nsi_viewer_create(model, NULL, &viewer, error);
//     nsi_viewer_add_episode(viewer, "run4.csv", time, rows, NULL, error);
//     nsi_viewer_add_track(viewer, "recorded", "recorded", error);
//     nsi_motion_show(motion, viewer, &states, error);          // poses, contacts, quantities
//     nsi_viewer_add_quantity(viewer, "joint/a/position", "rad", values, 1, error);
//     nsi_viewer_write(viewer, page, error);

#ifndef NSI_REPORT_VIEWER_H
#define NSI_REPORT_VIEWER_H

#include "neuralsim/sim.h"

#include "base/common.h"

typedef struct nsi_viewer nsi_viewer;

// @param model  to be drawn; must outlive the viewer
// @param allocator  NULL for the default one
ns_status nsi_viewer_create(const ns_model* model, const ns_allocator* allocator, nsi_viewer** out,
                            ns_error* error);
void nsi_viewer_free(nsi_viewer* viewer); // NULL is allowed

// A new episode, to which everything belongs that is added from now on.
// @param time  (rows) s, ascending
// @param note  a sentence for people, or NULL
ns_status nsi_viewer_add_episode(nsi_viewer* viewer, const char* name, const double* time,
                                 uint32_t rows, const char* note, ns_error* error);

// Which data a stretch of time was: "train", "validation", "test".
ns_status nsi_viewer_add_span(nsi_viewer* viewer, double from, double to, const char* role,
                              ns_error* error);

// A new track of the episode. role: "run", "recorded", "before" or "after".
ns_status nsi_viewer_add_track(nsi_viewer* viewer, const char* name, const char* role,
                               ns_error* error);

// Rows of the last episode; 0 when there is none.
uint32_t nsi_viewer_rows(const nsi_viewer* viewer);

// Numbers of the last track over time: values[k * stride] in row k. The quantity of the same name in
// other tracks of the episode is the same. NaN: missing. Again for the same track: they are replaced.
ns_status nsi_viewer_add_quantity(nsi_viewer* viewer, const char* name, const char* unit,
                                  const double* values, size_t stride, ns_error* error);

// Poses of all links of the last track: (rows x nlink x 7), x y z qw qx qy qz in the world. They are
// quantities "link/<l>/pose/x" too.
ns_status nsi_viewer_set_poses(nsi_viewer* viewer, const double* poses, ns_error* error);

// A contact point of the last track: (rows x 6) position, and force on the first geometry, in the
// world; zero or NaN: no contact.
ns_status nsi_viewer_add_contact(nsi_viewer* viewer, const char* name, const double* values,
                                 ns_error* error);

// The place in the page, its data behind it.
ns_status nsi_viewer_write(const nsi_viewer* viewer, nsi_text_builder* page, ns_error* error);

// ---- motion.c: from states to what is shown of them ------------------------------------------

typedef struct nsi_motion nsi_motion;

// @param options   of the system that moved; what it observes does not matter
// @param patterns  quantities to show besides poses, contacts, states, controls and energies
// @return as ns_system_create()
ns_status nsi_motion_create(const ns_model* model, const ns_system_options* options,
                            const char* const* patterns, uint32_t npattern, nsi_motion** out,
                            ns_error* error);
void nsi_motion_free(nsi_motion* motion); // NULL is allowed

// Most columns that a track gets from it, so that a caller can see early whether they fit a page
// (NSI_COLUMNS_MOST).
uint32_t nsi_motion_column_count(const nsi_motion* motion);

typedef struct nsi_motion_rows {
    const double* states;   // (rows x nx) of the episode; a row that is not finite is missing
    const double* controls; // (rows x nc), or NULL for zero: then they are not shown
    const double* params;   // (np) of the system, or NULL: the model's
    const double* weights;  // (nw), or NULL: the initial ones
    bool poses_only;        // states tell no velocities
} nsi_motion_rows;

// Give the last track of the viewer its poses, contacts and quantities.
ns_status nsi_motion_show(nsi_motion* motion, nsi_viewer* viewer, const nsi_motion_rows* rows,
                          ns_error* error);

#endif
