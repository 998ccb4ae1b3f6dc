// Integrators: semi-implicit Euler (the default), which takes friction and limits of joints at the
// end of the step; Euler that does so with all joint forces, also with gyroscopic torques over the
// step; explicit Euler; classical Runge-Kutta.

#include "sim/integrators.h"

#include "expr/trace.h"
#include "sim/equality_step.h"
#include "sim/sensors.h"

// ---- Euler ---------------------------------------------------------------------------------

// Velocities first, coordinates with the new velocities. With the slope B of the forces that are taken
// at the end of the step, (M + dt B) (qd+ - qd) = dt (tau - bias).
static void euler_step(nsi_stepper* s, nsi_implicit implicit, bool gyroscopic, ns_expr* q,
                       ns_expr* qd) {
    nsi_step_state at = {.gyroscopic = gyroscopic};
    uint32_t nv = s->model->sizes.nv;
    ns_expr* qdd = nsi_step_expressions(s, nv);
    ns_expr *dq = nsi_step_expressions(s, nv), *correction = nsi_step_expressions(s, nv);
    if (s->graph->error.status != NS_OK || !nsi_step_begin(s, s->q, s->qd, &at)) return;
    nsi_step_accelerate(s, &at, implicit, qdd);
    ns_expr dt = ns_const(s->options->timestep);
    for (uint32_t k = 0; k < nv; k++) qd[k] = ns_add(at.qd[k], ns_mul(dt, qdd[k]));
    nsi_equality_keep_velocities(s, &at, qd);
    nsi_trace_stage(NS_STAGE_IMPULSES);
    nsi_impact impact = {
        .qd = qd, .position_correction = correction, .constraint = at.equality_force};
    nsi_contact_impulses(&at.robot, &s->options->contact, s->options->timestep, qdd, at.added,
                         &impact);
    s->residual = impact.residual;
    s->relaxation = impact.relaxation;
    if (s->graph->error.status != NS_OK) return;
    nsi_equality_keep_positions(s, &at, &impact);
    for (uint32_t k = 0; k < nv; k++) dq[k] = ns_sub(ns_mul(dt, qd[k]), correction[k]);
    nsi_integrate_config(s->model, at.q, dq, q);
}

static void semi_implicit_euler(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    euler_step(s, NSI_IMPLICIT_STIFF, false, q, qd);
}

static void explicit_euler(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    euler_step(s, NSI_EXPLICIT, false, q, qd);
}

static void implicit_euler(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    euler_step(s, NSI_IMPLICIT, false, q, qd);
}

static void gyroscopic_euler(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    euler_step(s, NSI_IMPLICIT, true, q, qd);
}

// ---- Runge-Kutta ---------------------------------------------------------------------------

static quat quat_of(const ns_expr* q) {
    return (quat){q[0], q[1], q[2], q[3]};
}

static void put_quat(ns_expr* to, quat q) {
    to[0] = q.w;
    to[1] = q.x;
    to[2] = q.y;
    to[3] = q.z;
}

// Rate of the coordinates: dq/dt of a quaternion is q (0, w) / 2.
static void coordinate_rates(const nsi_stepper* s, const ns_expr* q, const ns_expr* qd,
                             ns_expr* rate) {
    for (uint32_t i = 0; i < s->model->sizes.nlink; i++) {
        const nsi_link* l = &s->model->links[i];
        uint32_t plain = nsi_plain_coordinates(l);
        for (uint32_t k = 0; k < plain; k++) rate[l->q + k] = qd[l->v + k];
        if (plain == l->nq) continue;
        const ns_expr* w = qd + l->v + plain;
        ns_expr half = ns_const(0.5);
        quat spin = {ns_const(0.0), ns_mul(half, w[0]), ns_mul(half, w[1]), ns_mul(half, w[2])};
        put_quat(rate + l->q + plain, q_mul(quat_of(q + l->q + plain), spin));
    }
}

// Make the quaternions among the coordinates unit length.
static void normalize_quaternions(const nsi_stepper* s, ns_expr* q) {
    for (uint32_t i = 0; i < s->model->sizes.nlink; i++) {
        const nsi_link* l = &s->model->links[i];
        if (nsi_plain_coordinates(l) == l->nq) continue;
        ns_expr* at = q + l->q + nsi_plain_coordinates(l);
        put_quat(at, q_normalize(quat_of(at)));
    }
}

// Networks may not change the state itself when the dynamics is evaluated at several states: each would
// be changed anew.
static bool keeps_state(const nsi_stepper* s, const ns_expr* q, const ns_expr* qd,
                        const nsi_step_state* at) {
    bool same = true;
    if (!s->augmenter) return true;
    for (uint32_t k = 0; k < s->model->sizes.nq; k++) same = same && at->q[k].id == q[k].id;
    for (uint32_t k = 0; k < s->model->sizes.nv; k++) same = same && at->qd[k].id == qd[k].id;
    for (uint32_t k = 0; k < s->model->sizes.nu; k++) {
        same = same && at->actuator[k].id == s->actuator[k].id;
    }
    if (same) return true;
    const char* name = ns_choice_name(&ns_integrators, (int)s->options->integrator);
    nsi_graph_fail(s->graph, NS_ERR_ARGUMENT,
                   "a network at q, qd or an activation changes the state a step starts from, "
                   "which %s does not"
                   " support; use %s",
                   name, nsi_integrator_name_with(NSI_STATE_NETWORKS));
    return false;
}

// Activations of a later stage, from the rates of the stage before; exact ones from the start.
static void activate_stage(const nsi_stepper* s, const ns_expr* before, double time) {
    for (uint32_t i = 0; i < s->model->sizes.nu; i++) {
        ns_actuator_dynamics dynamics = s->model->actuators[i].def.dynamics;
        if (dynamics == NS_DYNAMICS_NONE) continue;
        ns_expr rate = dynamics == NS_DYNAMICS_FILTER_EXACT ? s->rate[i] : before[i];
        s->activation[i] =
            nsi_activation_after(s->model, s->first->param, i, s->start[i], rate, time);
    }
}

static void add_activation_rates(const nsi_stepper* s, const ns_expr* rate, double weight,
                                 ns_expr* sum) {
    for (uint32_t i = 0; i < s->model->sizes.nu; i++) {
        if (s->model->actuators[i].def.dynamics == NS_DYNAMICS_NONE) continue;
        sum[i] = ns_add(sum[i], ns_mul(ns_const(weight), rate[i]));
    }
}

// Classical Runge-Kutta on coordinates, velocities and activations. Quaternions leave the sphere on their way through
// the stages: bodies see them at unit length, without which a fast spin would change how they fall.
// That keeps the order, since what is integrated is smooth off the sphere, too.
static void runge_kutta(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    static const double node[4] = {0.0, 0.5, 0.5, 1.0};
    static const double weight[4] = {1.0 / 6.0, 1.0 / 3.0, 1.0 / 3.0, 1.0 / 6.0};
    uint32_t nq = s->model->sizes.nq, nv = s->model->sizes.nv;
    double dt = s->options->timestep;
    ns_expr *rate = nsi_step_expressions(s, nq), *qdd = nsi_step_expressions(s, nv);
    ns_expr *qs = nsi_step_expressions(s, nq), *unit = nsi_step_expressions(s, nq),
            *qds = nsi_step_expressions(s, nv);
    ns_expr* mean = nsi_step_expressions(s, s->model->sizes.nu); // rate of the activations
    nsi_step_state at = {.gyroscopic = false};
    if (s->graph->error.status != NS_OK) return;
    for (uint32_t k = 0; k < s->model->sizes.nu; k++) mean[k] = ns_const(0.0);

    // The sums over the stages start from the old state.
    for (uint32_t k = 0; k < nq; k++) q[k] = s->q[k];
    for (uint32_t k = 0; k < nv; k++) qd[k] = s->qd[k];
    for (int stage = 0; stage < 4; stage++) {
        // The state of this stage, from the rates of the stage before.
        ns_expr step = ns_const(node[stage] * dt);
        for (uint32_t k = 0; k < nq; k++) {
            qs[k] = stage == 0 ? s->q[k] : ns_add(s->q[k], ns_mul(step, rate[k]));
        }
        for (uint32_t k = 0; k < nv; k++) {
            qds[k] = stage == 0 ? s->qd[k] : ns_add(s->qd[k], ns_mul(step, qdd[k]));
        }

        // Bodies see unit quaternions. Quantities are named at the first stage only.
        for (uint32_t k = 0; k < nq; k++) unit[k] = qs[k];
        if (stage > 0) normalize_quaternions(s, unit);
        nsi_trace_mute(stage > 0);
        if (stage > 0) activate_stage(s, at.rate, node[stage] * dt);

        if (!nsi_step_begin(s, unit, qds, &at)) break;
        if (stage == 0 && !keeps_state(s, unit, qds, &at)) break;

        coordinate_rates(s, qs, at.qd, rate);
        nsi_step_accelerate(s, &at, NSI_EXPLICIT, qdd);
        nsi_equality_name_forces(s, &at);

        ns_expr b = ns_const(weight[stage] * dt);
        for (uint32_t k = 0; k < nq; k++) q[k] = ns_add(q[k], ns_mul(b, rate[k]));
        for (uint32_t k = 0; k < nv; k++) qd[k] = ns_add(qd[k], ns_mul(b, qdd[k]));
        add_activation_rates(s, at.rate, weight[stage], mean);
    }

    for (uint32_t i = 0; i < s->model->sizes.nu; i++) {
        ns_actuator_dynamics dynamics = s->model->actuators[i].def.dynamics;
        if (dynamics != NS_DYNAMICS_FILTER_EXACT) s->rate[i] = mean[i];
    }

    // Quaternions, and equality constraints, which the stages keep to the order of the method.
    normalize_quaternions(s, q);
    nsi_equality_project_state(s, q, qd);
    nsi_trace_mute(false);
}

// ---- the table -----------------------------------------------------------------------------

static const nsi_integrator records[] = {
    [NS_INTEGRATOR_EULER] = {NSI_RIGID_CONTACT | NSI_STATE_NETWORKS, semi_implicit_euler},
    [NS_INTEGRATOR_RK4] = {0, runge_kutta},
    [NS_INTEGRATOR_IMPLICIT] = {NSI_RIGID_CONTACT | NSI_STATE_NETWORKS | NSI_STIFF_JOINTS,
                                implicit_euler},
    [NS_INTEGRATOR_EXPLICIT] = {NSI_RIGID_CONTACT | NSI_STATE_NETWORKS, explicit_euler},
    [NS_INTEGRATOR_GYRO] = {NSI_RIGID_CONTACT | NSI_STATE_NETWORKS | NSI_STIFF_JOINTS |
                                NSI_FAST_SPINS,
                            gyroscopic_euler},
};

const nsi_integrator* nsi_integrator_get(ns_integrator integrator) {
    size_t number = (size_t)integrator;
    bool known = number < sizeof records / sizeof *records && records[number].step;
    return known ? &records[number] : NULL;
}

bool nsi_integrator_has(ns_integrator integrator, nsi_integrator_trait trait) {
    const nsi_integrator* record = nsi_integrator_get(integrator);
    return record && record->traits & trait;
}

ns_integrator nsi_integrator_with(nsi_integrator_trait trait) {
    int k = 0;
    while (k + 1 < (int)(sizeof records / sizeof *records) && !(records[k].traits & trait)) k++;
    return (ns_integrator)k;
}

const char* nsi_integrator_name_with(nsi_integrator_trait trait) {
    return ns_choice_name(&ns_integrators, (int)nsi_integrator_with(trait));
}

void nsi_integrate(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    ns_integrator integrator = s->options->integrator;
    if (!nsi_integrator_has(integrator, NSI_RIGID_CONTACT) &&
        nsi_step_has_impulses(s->model, s->options)) {
        nsi_graph_fail(s->graph, NS_ERR_ARGUMENT,
                       "rigid contact is not supported with %s; use %s, or spring contact",
                       ns_choice_name(&ns_integrators, (int)integrator),
                       nsi_integrator_name_with(NSI_RIGID_CONTACT));
        return;
    }
    nsi_integrator_get(integrator)->step(s, q, qd);

    // The states of actuators at the end of the step: activations, motors where their controls are.
    const ns_model* m = s->model;
    const ns_expr* param = s->first->param;
    for (uint32_t i = 0; i < m->sizes.nu && s->graph->error.status == NS_OK; i++) {
        if (m->actuators[i].def.dynamics == NS_DYNAMICS_NONE) {
            s->activation[i] = nsi_actuator_control(m, s->param, i, s->u[i]);
            continue;
        }
        double dt = s->options->timestep;
        ns_expr next = nsi_activation_after(m, param, i, s->start[i], s->rate[i], dt);
        s->activation[i] = nsi_activation_clamp(m, param, i, next);
    }

    if (s->graph->error.status != NS_OK) return;

    // Sensors feel impulses as accelerations over the step.
    ns_expr per_step = ns_const(1.0 / s->options->timestep);
    bool impulses = nsi_step_has_impulses(m, s->options);
    for (uint32_t k = 0; k < m->sizes.nv && impulses; k++) {
        s->qdd[k] = ns_mul(per_step, ns_sub(qd[k], s->first->qd[k]));
    }
    nsi_trace_stage(NS_STAGE_AFTER);
    nsi_name_sensors(s->first, s->qdd);
}
