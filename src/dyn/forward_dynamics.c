// Forward dynamics of any model: the articulated body algorithm for trees, a factored mass matrix for
// models with mimic joints, whose motion is not that of a tree, and for one that networks change.

#include "dyn/robot.h"
#include "dyn/solve.h"
#include "expr/graph.h"

void nsi_forward_dynamics(const nsi_robot* robot, const ns_expr* tau, const ns_expr* inertia_added,
                          ns_expr* qdd) {
    if (!robot->model->has_mimic && !robot->mass_change) {
        nsi_aba(robot, tau, inertia_added, qdd);
        return;
    }

    // M qdd = tau - bias by factoring the full mass matrix.
    uint32_t nv = robot->model->sizes.nv;
    ns_expr* M = nsi_robot_alloc(robot, (size_t)nv * nv, sizeof *M);
    ns_expr* rest = nsi_robot_alloc(robot, nv, sizeof *rest);
    if (!M || !rest) return;
    nsi_crba(robot, M);
    nsi_rnea(robot, NULL, rest);

    // Right-hand side, and the diagonal that armature and implicit damping add.
    for (uint32_t k = 0; k < nv; k++) {
        rest[k] = ns_sub(tau[k], rest[k]);
        nsi_graph_round(robot->graph, M[k * nv + k].id); // adding zero changes no bit
        if (inertia_added) M[k * nv + k] = ns_add(M[k * nv + k], inertia_added[k]);
    }
    nsi_ldl_factor(nv, M);
    nsi_ldl_solve(nv, M, rest, qdd);
}
