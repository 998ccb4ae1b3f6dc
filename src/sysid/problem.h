// A fitting problem: a system, recordings, and how their names and samples correspond.
//
// There may be several variants of the system, robots with the same state, controls, observations and
// weights but parameters of their own; a recording belongs to the first variant whose glob fits the
// name of its file.
//
// A window is a stretch of a recording that is simulated in one go from an initial state. Sample k of a
// recording belongs to step k * substeps.

#ifndef NSI_SYSID_PROBLEM_H
#define NSI_SYSID_PROBLEM_H

#include "neuralsim/data.h"
#include "neuralsim/learned.h"
#include "sysid/parameter_map.h"

// Where a channel finds its value in the simulation.
typedef struct nsi_source {
    bool state;      // a component of the state, otherwise an observation
    uint32_t number; // in it
    double scale;    // residual = (simulated - recorded) * scale
} nsi_source;

// A part of the state that can be moved: a number, or a unit quaternion turned by an angular velocity
// in the body's frame.
typedef struct nsi_coordinate {
    uint32_t at;      // in the state
    uint32_t tangent; // its first direction: 1 for a number, 3 for a quaternion
    bool quaternion;
} nsi_coordinate;

// A variant of the system, with the number that it has among the parameters.
typedef struct nsi_variant {
    const char* name;      // NULL: there is only one
    const char* files;     // glob of names of files, without folders; NULL: there is only one
    const ns_model* model; // NULL: a learned system without one
    const ns_system* system;
} nsi_variant;

typedef struct nsi_problem {
    ns_allocator allocator;
    nsi_variant* variants; // (nvariant)
    uint32_t nvariant;
    const ns_model* model;           // of the first variant, as all of the following,
    const ns_system* system;         // which but for the number of parameters is the same for all
    const ns_parameters* parameters; // or NULL: none
    ns_system_sizes sizes;
    uint32_t* param_at; // (nvariant + 1) where each has its parameters among those of all
    uint32_t nq, nv;
    uint32_t substeps;
    bool observes; // a channel is an observation: the last sample needs a step of its own

    nsi_source* sources; // (nchannel)
    uint32_t nchannel;
    uint32_t* controls; // (ncontrol) the system's number of each control of the data
    uint32_t ncontrol;

    nsi_coordinate* coordinates;
    uint32_t ncoordinate;
    uint32_t ntangent;
    uint32_t* channel_of_state; // (nx) or NSI_NONE

    // Teacher forcing (sim/learned_model.h): recorded states are controls, before the others. To be set
    // after creation; NULL: none.
    const ns_learned_input* taught; // (nq + nv) how they are seen
    bool taught_changes;            // the system's q and qd are changes from sample to sample
} nsi_problem;

// The time step for samples `period` apart: the given one, or with 0 the longest that divides the
// period and is not above that of the options, or of the model where they have none.
double nsi_problem_timestep(const ns_model* model, const ns_system_options* options, double given,
                            double period);

// How the system must be made for this data: names of quantities to observe that are not components
// of the state, for ns_system_options.observe. `out` has room for all channels.
// @return NS_OK; NS_ERR_PARSE when the model has no such quantity or control, with the nearest name
ns_status nsi_problem_observations(const ns_model* model, const ns_dataset* data, const char** out,
                                   uint32_t* count, ns_error* error);

// The system of a variant of the parameters as this data needs it: with its free parameters, and
// channels that are not components of the state as observations.
// @return NS_OK; NS_ERR_PARSE as nsi_problem_observations(); as ns_system_create()
ns_status nsi_problem_make_system(const ns_parameters* params, uint32_t variant, double timestep,
                                  const ns_dataset* data, ns_system** out, ns_error* error);

// @param scaling  the recordings by which channels without a sigma are scaled
// @return NS_OK; NS_ERR_PARSE: a name is unknown, or the period is no multiple of the time step
ns_status nsi_problem_create(const ns_model* model, const ns_system* system,
                             const ns_parameters* parameters, const ns_dataset* scaling,
                             const ns_allocator* allocator, nsi_problem** out, ns_error* error);
void nsi_problem_free(nsi_problem* problem); // NULL is allowed

// The same for several variants, which must be alike. Texts, models and systems stay the caller's.
ns_status nsi_problem_create_shared(const nsi_variant* variants, uint32_t nvariant,
                                    const ns_parameters* parameters, const ns_dataset* scaling,
                                    const ns_allocator* allocator, nsi_problem** out,
                                    ns_error* error);

// Are variants alike in all but their parameters? Without systems, only their joints are compared.
// @return NS_OK; NS_ERR_PARSE, naming two that are not
ns_status nsi_variants_check(const nsi_variant* variants, uint32_t nvariant, ns_error* error);

// The number of the variant to which a recording belongs, the first if it fits none.
uint32_t nsi_problem_variant(const nsi_problem* problem, const ns_recording* recording);

// Unit of a channel, "" where there is none.
const char* nsi_problem_unit(const nsi_problem* problem, uint32_t channel);

// Steps of a window of `length` samples after its start; there must not be too many.
uint32_t nsi_problem_steps(const nsi_problem* problem, uint32_t length);
ns_status nsi_problem_check_length(const nsi_problem* problem, uint32_t length, ns_error* error);

// Move a state by a step (ntangent); quaternions stay unit.
void nsi_problem_move(const nsi_problem* problem, const double* x, const double* step, double* out);

// A row of derivatives for the components of the state (nx) as derivatives for its directions
// (ntangent) at x.
void nsi_problem_tangent(const nsi_problem* problem, const double* x, const double* row,
                         double* out);

// ---- windows -----------------------------------------------------------------------------------

typedef struct nsi_window {
    uint32_t recording, start, length; // samples start .. start + length
    bool joined;                       // the next window goes on where this one ends
} nsi_window;

typedef NSI_ARRAY(nsi_window) nsi_windows;

// Characteristic half-period of the motion in samples, from the range and speed of the coordinates.
uint32_t nsi_windows_half_period(const nsi_problem* problem, const ns_dataset* data);

// Windows of `length` samples (0: whole recordings), one after the other; more than `most` (0: any)
// are thinned out evenly, fewer are let overlap when `overlap` is set. Windows without a number to
// compare with are left out.
// @return NS_OK, NS_ERR_PARSE: no recording is long enough; NS_ERR_NOMEM
ns_status nsi_windows_make(const nsi_problem* problem, const ns_dataset* data, uint32_t length,
                           uint32_t most, bool overlap, nsi_windows* out, ns_error* error);

// The state at a sample, from the numbers around it: recorded ones where there are, otherwise a cubic
// through the `reach` samples on either side (Savitzky & Golay 1964, with gaps).
// @return false when nothing is there to tell a coordinate that the data has: it is the model's then
bool nsi_problem_guess(const nsi_problem* problem, const ns_recording* recording, uint32_t sample,
                       uint32_t reach, double* x);

// The controls of a window (steps x nc); those of a teacher are 0.
void nsi_problem_controls(const nsi_problem* problem, const ns_recording* recording,
                          const nsi_window* window, double* out);

// What a teacher gives for a window, into its controls: states as nsi_problem_guess() finds them.
// @param x  (nx) scratch
void nsi_problem_teach(const nsi_problem* problem, const ns_recording* recording,
                       const nsi_window* window, uint32_t reach, double* x, double* controls);

#endif
