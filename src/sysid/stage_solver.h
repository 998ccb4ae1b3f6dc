// One stage of a fit: a local optimisation of an objective by a solver of the table.

#ifndef NSI_SYSID_STAGE_SOLVER_H
#define NSI_SYSID_STAGE_SOLVER_H

#include "sysid/gauss_newton.h"

// One local optimisation.
typedef struct nsi_stage {
    ns_window_options windows;
    bool teacher_forcing; // the network sees recorded states instead of its own
    const ns_solver* solver;
    uint32_t iterations;
    double tolerance;
    double learning_rate;     // of stochastic solvers
    double learning_rate_end; // at the end of the stage; negative: learning_rate / 100
    uint32_t batch;           // windows per step of them; 0: all
    double clip_norm;         // of the gradient; 0: any
    double l1, group;         // sparse-group lasso on first layers
    bool adaptive;            // over the sizes that groups have at the beginning
} nsi_stage;

typedef struct nsi_stage_solver nsi_stage_solver;

// Can this stage be run?
// @return NS_OK; NS_ERR_PARSE: it has nothing to fit; NS_ERR_UNSUPPORTED: its method needs recorded
//         states here
ns_status nsi_stage_solver_check(const nsi_problem* problem, const nsi_stage* stage,
                                 ns_error* error);

// @param objective  of the stage's loss, at its start
// @param seed       for the order of batches
// @param threads    of objectives it makes for batches
// @return NS_OK; as nsi_stage_solver_check(); NS_ERR_NOMEM
ns_status nsi_stage_solver_create(const nsi_problem* problem, const ns_dataset* data,
                                  const nsi_stage* stage, nsi_objective* objective, uint64_t seed,
                                  uint32_t threads, nsi_stage_solver** out, ns_error* error);
void nsi_stage_solver_free(nsi_stage_solver* solver); // NULL is allowed

// What a stage keeps from round to round besides the objective's point and the solver's state.
typedef struct nsi_stage_solver_state {
    uint32_t iteration;
    bool converged;
    double*
        best; // stochastic solvers: the best point so far (unknowns), and the loss of all windows
    double best_value; // there; INFINITY: none yet. NULL for other solvers
} nsi_stage_solver_state;
nsi_stage_solver_state* nsi_stage_solver_get_state(nsi_stage_solver* solver);

// The solver's state as numbers, for checkpoints.
uint32_t nsi_stage_solver_state_size(const nsi_stage_solver* solver);
void nsi_stage_solver_save(const nsi_stage_solver* solver, double* numbers);
void nsi_stage_solver_load(nsi_stage_solver* solver, const double* numbers);

// Begin anew at the objective's point.
// @return NS_OK, NS_ERR_NOMEM, NS_ERR_ARGUMENT: the solver refuses its options
ns_status nsi_stage_solver_restart(nsi_stage_solver* solver, ns_error* error);

// Called after each iteration, or after some of them, at which the objective's point and the state
// are enough to go on. `value`: mean of squared residuals and penalties, halved.
typedef bool nsi_stage_solver_observer(void* context, uint32_t iteration, double value);

// Sparsity: sizes of the groups of first-layer weights, one for each input of each set of weights,
// in the order of the system's weight matrices. Called after each iteration of a solver with a penalty.
// `value`: as above, without the penalty.
typedef void nsi_stage_solver_path_observer(void* context, uint32_t iteration, double value,
                                            const double* norms);
void nsi_stage_solver_watch_path(nsi_stage_solver* solver, nsi_stage_solver_path_observer* observe,
                                 void* context);
void nsi_stage_solver_tell_path(nsi_stage_solver* solver); // where the objective stands now

// Adaptive penalties: sizes of the groups at the beginning of the stage, when the point is not there any
// more. Without them, those at the point are taken.
void nsi_stage_solver_set_sizes(nsi_stage_solver* solver, const double* norms);

// Run from the current state. The value of the result is that of `value` above. A stochastic solver ends at
// the best point for which the loss of all windows was computed, also when it is stopped: every point
// without batches, otherwise those between epochs.
ns_solver_result nsi_stage_solver_run(nsi_stage_solver* solver, nsi_stage_solver_observer* observe,
                                      void* context);

#endif
