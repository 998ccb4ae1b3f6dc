// What the trials share: a model with its system and room for rollouts, rows of results, derivatives
// beside differences.

#ifndef CONTACT_RIG_H
#define CONTACT_RIG_H

#include <neuralsim/neuralsim.h>

#include <stdbool.h>
#include <stdint.h>

// Options of the program.
typedef struct trial_options {
    bool quick;         // a part of the trials, in seconds
    const char* models; // folder of quadruped.urdf
    const char* scenes; // folder of push.xml and quadruped.xml
} trial_options;

_Noreturn void trial_die(const char* what, const char* detail);
void* trial_alloc(size_t count, size_t size); // zeroed; ends the program when there is no memory

// One row of the table of results. Rows that are not `required` are measurements without a bound.
void trial_row(const char* what, const char* requested, const char* measured, bool ok);
void trial_note(const char* what, const char* measured);
uint32_t trial_misses(void); // rows so far that were not ok

double trial_clock(void); // s, CPU time of this thread

// ---- rollouts --------------------------------------------------------------------------------

typedef struct rig {
    ns_model* model;
    ns_system* system;
    ns_workspace* work;
    ns_system_sizes n;
    uint32_t nq, steps, batch;
    double *x0, *controls;         // (nx), (steps x nc), to be set by the trial
    double* params;                // (np)
    double *states, *observations; // of the last run
    ns_contact_report contact;
} rig;

// The model of a file, or of `text` when path is NULL.
ns_model* rig_load(const char* path, const char* text, bool ground);
rig rig_create(ns_model* model, const ns_system_options* options, uint32_t batch, uint32_t steps);
void rig_free(rig* r);
void rig_set(rig* r, const char* glob, double value); // free parameters
bool rig_run(rig* r, uint32_t steps);                 // false: not finite
const double* rig_state(const rig* r, uint32_t step);

// One step from x0, which is moved on; the first observation is left. Least CPU time of some repetitions, s.
double rig_time_step(rig* r, int repeats);

// Times of steps. Fills the row "worst step / median", which a quick run does not judge: it may share its
// core with other tests. Sorts the times.
void rig_report_times(const trial_options* options, const char* what, float* times, size_t count);

// ---- derivatives -----------------------------------------------------------------------------

// Derivatives of a linear function of the final state beside differences. Differences count as clean when
// those to both sides, over three sizes of the change, agree.
typedef struct gradient_count {
    uint32_t inputs, clean, wrong; // wrong: clean, and the gradient is another
    double worst;                  // relative error where clean
} gradient_count;

// For all components of x0, and for all controls together where the trial `has_control`: a change of control
// 0 in all steps. `weights` (nx) are those of the function. The rig has a batch of at least
// 6 (nx + 1) lanes.
void rig_check_gradient(rig* r, uint32_t steps, const double* weights, bool has_control,
                        gradient_count* count);

// ---- the trials ------------------------------------------------------------------------------

typedef void trial_function(const trial_options* options);
trial_function trial_impacts, trial_pushes, trial_drops, trial_stance, trial_targets;

// ---- MuJoCo ----------------------------------------------------------------------------------

typedef struct mujoco_peer mujoco_peer;

// NULL: this program was built without it.
mujoco_peer* mujoco_peer_open(const char* path, double friction);
void mujoco_peer_close(mujoco_peer* peer);
void mujoco_peer_start(mujoco_peer* peer, const double* x0); // q, then qd
double mujoco_peer_step(mujoco_peer* peer, int repeats);     // least CPU time of a step, s

#endif
