// Controls over time: from formulas of t or from a table.

#ifndef CLI_CONTROLS_H
#define CLI_CONTROLS_H

#include "states.h"

#include <neuralsim/formula.h>

typedef struct driven_control {
    uint32_t index;      // in the control
    uint32_t column;     // of the table
    ns_formula* formula; // or how to compute it from t
} driven_control;

typedef struct controls {
    const model_io* io;
    const char* source;              // as given
    const ns_keyframe_def* keyframe; // whose controls hold where nothing is given; NULL: 0
    driven_control* driven;
    uint32_t ndriven;

    ns_table table;
    bool from_table;
    uint32_t time_column; // or UINT32_MAX: one row for each step
    uint32_t* first;      // (ntrajectory + 1) first rows of trajectories
    uint32_t ntrajectory;
} controls;

// Read what --control was given: "tau0=0.1*sin(t), u_knee=2" (anything with a '=') or a table with
// columns as for states, and `t` (a row holds until the next), or a row for each step. A table with a column `traj` has the controls of several trajectories. `source`
// may be NULL: no controls. Free it in any case. CLI_GO_ON, or an exit code after saying what is
// wrong.
int controls_create(controls* c, const char* command, const model_io* p, const char* source);
void controls_free(controls* c);

// Are there controls for these many trajectories and steps? One trajectory of controls serves all;
// the last row is held to the end, and if rows are steps, it says so. False after saying why.
bool controls_check(const controls* c, uint32_t ntrajectory, uint64_t steps);

// Controls (steps x nc) of a trajectory from a step on. False after saying which is not finite.
bool controls_fill(const controls* c, uint32_t trajectory, uint64_t first, uint32_t steps,
                   double dt, double* out);

#endif
