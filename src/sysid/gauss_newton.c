#include "sysid/gauss_newton.h"

static bool objective_linearise(void* context, double* cost) {
    return nsi_objective_linearise(context, cost);
}

static bool objective_solve(void* context, double damping, double* predicted) {
    return nsi_objective_solve(context, damping, predicted);
}

static double objective_trial_cost(void* context) {
    return nsi_objective_trial_cost(context);
}

static void objective_commit(void* context) {
    nsi_objective_commit(context);
}

ns_gauss_newton nsi_objective_gauss_newton(nsi_objective* objective) {
    return (ns_gauss_newton){.context = objective,
                             .linearise = objective_linearise,
                             .solve = objective_solve,
                             .trial_cost = objective_trial_cost,
                             .commit = objective_commit};
}

ns_solver_result nsi_objective_lm(nsi_objective* objective, const ns_solver_options* options,
                                  ns_solver_observer* observe, void* context) {
    ns_gauss_newton problem = nsi_objective_gauss_newton(objective);
    return nsi_lm(&problem, options, observe, context);
}
