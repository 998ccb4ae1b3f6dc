// The page of a simulation: its rows are kept as they come, and shown at the end.

#ifndef CLI_PAGE_SIMULATE_H
#define CLI_PAGE_SIMULATE_H

#include "cli.h"
#include <neuralsim/motion.h>

enum { PAGE_TRACKS = 9 }; // trajectories that are shown side by side, at most

typedef struct motion_page {
    const char* path;
    const char* model_path;
    const ns_model* model;
    ns_motion_observer* motion;
    ns_system_sizes z;
    int contact;      // as in ns_system_options
    bool batch;       // tracks have numbers
    uint64_t steps;   // of a trajectory
    uint32_t every;   // steps from row to row
    uint32_t ntraj;   // all there are
    uint32_t ntrack;  // of them shown
    uint32_t nrow;    // of each
    uint32_t reached; // rows that a trajectory has come to, at most
    bool diverged;    // trajectory `lost` left the finite numbers after `last` seconds
    uint32_t lost;
    double last;
    double* time;     // (nrow)
    double* states;   // (ntrack x nrow x nx); NaN: not reached
    double* controls; // (ntrack x nrow x nc)
    double* params;   // (ntrack x np)
} motion_page;

// Can a page be written there? False after saying why not.
bool motion_page_check(const char* path);

// Make room for all rows, once everything up to ntraj is filled in; false after saying why. Free it
// in any case.
// @param params  (ntraj x np)
bool motion_page_prepare(motion_page* page, const double* params);
void motion_page_free(motion_page* page);

// A state that is finite, at a step that is a row: every so many steps, and the last.
void motion_page_put(motion_page* page, uint32_t trajectory, uint64_t step, const double* x,
                     const double* c);

// Write the file with what there is; nothing when there is nothing. False after saying why.
// @param size  receives that of the file, in bytes; 0: there is none
bool motion_page_write(motion_page* page, size_t* size);

#endif
