// Equality constraints in a time step: velocities, positions, names.

#include "sim/equality_step.h"

#include "contact/contact_rows.h"
#include "expr/trace.h"

#include <stdio.h>

// ---- names ---------------------------------------------------------------------------------------

static void name_row(const nsi_equality_constraint* e, const char* what, uint32_t k,
                     const char* unit, ns_expr x) {
    char name[NSI_MODEL_MAX_NAME + 64];
    if (e->def.type == NS_EQUALITY_JOINT) {
        snprintf(name, sizeof name, "equality/%s/%s", e->def.name, what);
    } else {
        snprintf(name, sizeof name, "equality/%s/%s/%c", e->def.name, what, "xyz"[k % 3]);
    }
    nsi_trace_observe(name, unit, x);
}

// What a row of a constraint is called, and its unit.
typedef struct row_words {
    const char *what, *unit;
} row_words;

// Name x (n), something of all rows: of lengths and of angles.
static void name_rows(const nsi_stepper* s, row_words length, row_words angle, const ns_expr* x) {
    for (uint32_t i = 0, row = 0; i < s->model->sizes.nequality; i++) {
        const nsi_equality_constraint* e = &s->model->equalities[i];
        uint32_t count = ns_model_equality_rows(s->model, i);
        bool joint = e->def.type == NS_EQUALITY_JOINT;
        bool slides = !joint || nsi_joint_slides(&s->model->links[e->a], 0);
        for (uint32_t k = 0; k < count; k++) {
            row_words words = k >= 3 ? angle : length;
            const char* unit = joint && !slides ? angle.unit : words.unit;
            name_row(e, words.what, k, unit, x[row + k]);
        }
        row += count;
    }
}

void nsi_equality_name_forces(const nsi_stepper* s, const nsi_step_state* at) {
    if (!at->equality) return;
    name_rows(s, (row_words){"force", "N"}, (row_words){"torque", "N m"}, at->equality_force);
}

// ---- the step ------------------------------------------------------------------------------------

bool nsi_equality_step_begin(const nsi_stepper* s, nsi_step_state* at) {
    uint32_t count = nsi_equality_count(s->model);
    at->equality = NULL;
    at->equality_force = NULL;
    if (count == 0) return s->graph->error.status == NS_OK;
    at->equality = nsi_robot_alloc(&at->robot, 1, sizeof *at->equality);
    at->equality_force = nsi_step_expressions(s, count);
    if (!at->equality || !at->equality_force) return false;
    if (!nsi_equality_rows(&at->robot, at->equality)) return false;
    name_rows(s, (row_words){"violation", "m"}, (row_words){"violation/angle", "rad"},
              at->equality->phi);
    return s->graph->error.status == NS_OK;
}

void nsi_equality_keep_velocities(const nsi_stepper* s, const nsi_step_state* at, ns_expr* qd) {
    const nsi_equality* rows = at->equality;
    if (!rows) return;
    double dt = s->options->timestep;
    ns_expr* l = nsi_step_expressions(s, rows->n);
    ns_expr* change = nsi_step_expressions(s, rows->nv);
    if (s->graph->error.status != NS_OK) return;

    // Impulses that make J qd = -dt/2 drift.
    ns_expr half = ns_const(-0.5 * dt);
    nsi_equality_rates(rows, qd, l);
    for (uint32_t i = 0; i < rows->n; i++) l[i] = ns_sub(ns_mul(half, rows->drift[i]), l[i]);
    nsi_equality_solve(rows, l, l);
    nsi_equality_respond(rows, l, change);
    for (uint32_t k = 0; k < rows->nv; k++) qd[k] = ns_add(qd[k], change[k]);
}

// The displacement (nv) that takes the violation away, or a share of it; l (n) is scratch.
static void find_displacement(const nsi_stepper* s, const nsi_equality* rows, ns_expr* l,
                              ns_expr* displacement) {
    double dt = s->options->timestep;
    for (uint32_t i = 0; i < rows->n; i++) {
        double tau = rows->recovery[i];
        l[i] = ns_mul(ns_const(tau > dt ? dt / tau : 1.0), rows->phi[i]);
    }
    nsi_equality_solve(rows, l, l);
    nsi_equality_respond(rows, l, displacement);
}

void nsi_equality_keep_positions(const nsi_stepper* s, const nsi_step_state* at,
                                 nsi_impact* impact) {
    const nsi_equality* rows = at->equality;
    if (!rows) return;
    ns_expr* l = nsi_step_expressions(s, rows->n);
    ns_expr* change = nsi_step_expressions(s, rows->nv);
    if (s->graph->error.status != NS_OK) return;

    // It is taken off dt times the velocity.
    find_displacement(s, rows, l, change);
    for (uint32_t k = 0; k < rows->nv; k++) {
        impact->position_correction[k] = ns_add(impact->position_correction[k], change[k]);
    }
    nsi_equality_name_forces(s, at);
}

// ---- a state -------------------------------------------------------------------------------------

void nsi_equality_project_state(const nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    uint32_t nq = s->model->sizes.nq, nv = s->model->sizes.nv;
    uint32_t n = nsi_equality_count(s->model);
    if (n == 0 || s->graph->error.status != NS_OK) return;
    ns_expr *M = nsi_step_expressions(s, (size_t)nv * nv), *root = nsi_step_expressions(s, nv);
    ns_expr *l = nsi_step_expressions(s, n), *change = nsi_step_expressions(s, nv);
    ns_expr* from = nsi_step_expressions(s, nq);
    nsi_robot robot;
    nsi_equality rows;
    if (s->graph->error.status != NS_OK || !nsi_robot_move(s->first, q, qd, &robot)) return;
    nsi_mass_factors(&robot, NULL, M, root);
    if (!nsi_equality_rows(&robot, &rows) || !nsi_equality_factor(&robot, M, root, &rows)) return;

    // Velocities along the constraints.
    nsi_equality_rates(&rows, qd, l);
    nsi_equality_solve(&rows, l, l);
    nsi_equality_respond(&rows, l, change);
    for (uint32_t k = 0; k < nv; k++) qd[k] = ns_sub(qd[k], change[k]);

    // The nearest configuration on them.
    find_displacement(s, &rows, l, change);
    for (uint32_t k = 0; k < nv; k++) change[k] = ns_neg(change[k]);
    for (uint32_t k = 0; k < nq; k++) from[k] = q[k];
    nsi_integrate_config(s->model, from, change, q);
}
