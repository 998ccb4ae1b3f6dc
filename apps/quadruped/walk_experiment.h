// An experiment: quadrupeds follow random commands, by model-predictive control or by networks that
// learned from it, undisturbed and disturbed. A case describes what is run, as constant data
// (walk_cases.c); an experiment runs it and keeps the results, from which walk_report.c makes a report.

#ifndef QUADRUPED_WALK_EXPERIMENT_H
#define QUADRUPED_WALK_EXPERIMENT_H

#include "neuralsim/report.h"
#include "quadruped/imitation.h"
#include "quadruped/tuning.h"

enum { WALK_A1, WALK_LAIKAGO, WALK_ROBOTS };
enum { WALK_MAX_DISTURBED = 8, WALK_TIME_BINS = 700 };

// ---- cases ---------------------------------------------------------------------------------------

// A network that imitates the MPC, or one that is tuned through the simulator from another.
typedef struct walk_policy_case {
    const char* name; // of files and of functions in C: letters, digits and '_'
    const char* label;
    uint32_t robot;
    bool full_only; // left out of quick runs
    uint32_t iterations, quick_iterations;

    uint32_t hidden[QUAD_MLP_F32_LAYERS], nhidden; // imitation: widths of layers
    uint32_t transitions, quick_transitions;       // decisions to record
    double keep_probability;                       // of a decision to be recorded

    const char* tuned_from; // tuning: name of a policy before it; NULL: imitation
    double learning_rate;
    double error_scale[QUAD_TUNE_ERRORS]; // errors that count as 1; all 0: the default
    uint32_t validate_every;              // iterations
    uint32_t validation_seeds;
    double validation_seconds;
} walk_policy_case;

typedef struct walk_run_case {
    const char *name, *label;
    uint32_t robot;
    bool full_only;
    const char* policy;       // name; NULL: QP
    ns_contact_model contact; // 0: rigid
    double planned_friction;  // of the MPC; 0: the default
    bool immediate_commands;  // commands change at once, not by a ramp
    bool command_correction;  // gains of commands and height from validation runs
    bool record_trace;        // shown in 3D and as curves
    uint32_t seeds;           // 0: those of the case
} walk_run_case;

typedef struct walk_disturbance {
    const char *name, *label;
    double mass, friction; // factor; coefficient
    double delay;          // s
    double push;           // m/s, every 5 s
    double noise;          // of sensors, 1: as of real ones
} walk_disturbance;

typedef struct walk_case {
    const char *name, *title, *citation;
    double seconds, quick_seconds;
    uint32_t seeds, quick_seeds;
    double playback; // s that traces hold
    const walk_policy_case* policies;
    const walk_run_case* runs;
    uint32_t npolicy, nrun;
    const char* const (*pairs)[2]; // names of runs that are compared: before, after
    uint32_t npair;

    const walk_disturbance* disturbances;
    const char* disturbed[WALK_MAX_DISTURBED]; // names of runs, up to a NULL
    uint32_t ndisturbance;
    uint32_t disturbed_seeds, quick_disturbed_seeds;
    double disturbed_seconds, quick_disturbed_seconds;
    const char* const* notes;
    uint32_t nnote;
} walk_case;

const walk_case* walk_find_case(const char* name); // "mpc", "imitation", or NULL
extern const walk_case walk_case_mpc, walk_case_imitation;

// ---- running -------------------------------------------------------------------------------------

// How long decisions took: counts by time, from 0.1 us on, each bin 2 % wider than the last.
typedef struct walk_times {
    uint64_t bins[WALK_TIME_BINS];
    uint64_t count;
} walk_times;

// The first seed of a run, decision by decision.
typedef struct walk_trace {
    uint32_t count, nx, nc; // rows
    double *time, *states, *controls;
    double (*wanted)[3], (*velocity)[3];
    double* height;
    bool (*stands)[QUAD_LEGS], (*touches)[QUAD_LEGS];
} walk_trace;

typedef struct walk_policy {
    const walk_policy_case* def;
    uint32_t from; // QUAD_NONE: it imitates
    uint32_t iterations, transitions;
    quad_policy* policy;
    quad_imitate_report imitated;
    uint32_t best;                                          // iteration that was kept
    quad_walk_result first, last;                           // on validation seeds
    double *history_at, *history_velocity, *history_height; // iterations, errors
    uint32_t nhistory;
    double seconds;
} walk_policy;

typedef struct walk_run {
    const walk_run_case* def;
    uint32_t policy; // QUAD_NONE: QP
    uint32_t robot, seeds;
    quad_walk_options options;
    quad_walk_result sum;
    walk_times times;
    walk_trace trace;
} walk_run;

typedef struct walk_options {
    const char* models; // folder of a1.urdf and laikago.urdf
    const char* output; // folder for the weights of policies and their C code, which is there
    bool quick;
    uint32_t threads; // 0: one per core. Results do not depend on it
    void (*progress)(void* context, const char* name, double fraction); // or NULL
    void* context;
} walk_options;

typedef struct walk_experiment {
    const walk_case* def;
    walk_options options;
    quad_robot robots[WALK_ROBOTS];
    ns_model* models[WALK_ROBOTS]; // NULL: not needed
    double walk_seconds, disturbed_seconds;
    uint32_t disturbed_seeds;
    walk_policy* policies;
    walk_run* runs;
    uint32_t npolicy, nrun;
    uint32_t disturbed[WALK_MAX_DISTURBED], ndisturbed; // runs
    quad_walk_result* disturbed_sums;                   // (ndisturbance x ndisturbed)
    double seconds;                                     // it took
} walk_experiment;

// Train the policies, walk all runs, disturbed ones too.
// @return NS_OK; NS_ERR_ARGUMENT: the case names a policy or run that is not there; NS_ERR_IO,
//         NS_ERR_NOMEM and what the simulator fails with
ns_status walk_experiment_create(const walk_case* def, const walk_options* options,
                                 walk_experiment** out, ns_error* error);
void walk_experiment_free(walk_experiment* experiment); // NULL is allowed

// A run by its name; NULL: there is none, or a quick run leaves it out.
const walk_run* walk_find_run(const walk_experiment* experiment, const char* name);

uint32_t walk_period(uint32_t robot);                        // ms from decision to decision
double walk_quantile(const walk_times* times, double share); // s
double walk_speed_error(const quad_walk_result* result);     // m/s, both directions; NaN: none

// ---- walk_report.c -------------------------------------------------------------------------------

// The report of all runs, with the record of their numbers for result.json.
ns_status walk_report(const walk_experiment* experiment, ns_report** out, ns_error* error);

// Pages of other robots than the first, since a page shows the motion of one: "a1.html" of the A1.
// @param out  receives NULL when the experiment shows no trace of the robot, or shows it in the first
ns_status walk_robot_report(const walk_experiment* experiment, uint32_t robot, ns_report** out,
                            ns_error* error);

#endif
