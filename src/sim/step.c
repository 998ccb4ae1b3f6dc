// One time step: state and control to the next state, by an integrator (integrators.c).

#include "sim/step.h"

#include "contact/law.h"
#include "contact/scene.h"
#include "expr/trace.h"
#include "sim/equality_step.h"
#include "sim/integrators.h"
#include "sim/sensors.h"

#include <stdio.h>

uint32_t nsi_model_actuator_states(const ns_model* model) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        count += nsi_actuator_state(&model->actuators[i].def) != NULL;
    }
    return count;
}

bool nsi_step_has_impulses(const ns_model* model, const nsi_step_options* options) {
    return nsi_contact_has_impulses(model, &options->contact);
}

ns_expr* nsi_step_expressions(const nsi_stepper* s, size_t count) {
    ns_expr* list = nsi_arena_alloc(&s->graph->arena, (count + 1) * sizeof *list);
    if (!list) nsi_graph_fail_nomem(s->graph);
    return list;
}

// ---- inputs and outputs --------------------------------------------------------------------

static void numbered_inputs(const char* prefix, uint32_t count, ns_expr* out) {
    char name[32];
    for (uint32_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s%u", prefix, i);
        out[i] = ns_input(name);
    }
}

static ns_expr named_input(const char* prefix, const char* name) {
    char full[1200];
    snprintf(full, sizeof full, "%s/%s", prefix, name);
    return ns_input(full);
}

static bool make_step_inputs(nsi_stepper* s) {
    const ns_model* m = s->model;
    s->q = nsi_step_expressions(s, m->sizes.nq);
    s->qd = nsi_step_expressions(s, m->sizes.nv);
    s->actuator = nsi_step_expressions(s, m->sizes.nu);
    s->activation = nsi_step_expressions(s, m->sizes.nu);
    s->start = nsi_step_expressions(s, m->sizes.nu);
    s->rate = nsi_step_expressions(s, m->sizes.nu);
    s->qdd = nsi_step_expressions(s, m->sizes.nv);
    s->u = nsi_step_expressions(s, m->sizes.nu);
    s->tau = nsi_step_expressions(s, m->sizes.nv);
    s->param = nsi_step_expressions(s, m->sizes.nparam);
    if (s->graph->error.status != NS_OK) return false;

    // The order of inputs is that of the state, the control and the parameters. Values that
    // networks keep are part of the state.
    numbered_inputs("q", m->sizes.nq, s->q);
    numbered_inputs("qd", m->sizes.nv, s->qd);
    for (uint32_t i = 0; i < m->sizes.nu; i++) {
        const ns_actuator_def* def = &m->actuators[i].def;
        const char* kind = nsi_actuator_state(def);
        s->actuator[i] = kind ? named_input(kind, def->name) : ns_const(0.0);
        s->activation[i] = s->actuator[i];
    }
    if (s->options->binding) {
        s->augmenter = nsi_augmenter_create(s->options->binding);
        if (!s->augmenter) return false;
    }

    // Controls.
    for (uint32_t i = 0; i < m->sizes.nu; i++) s->u[i] = named_input("u", m->actuators[i].def.name);
    numbered_inputs("tau", m->sizes.nv, s->tau);

    // Parameters that are not free are constants, which folding uses.
    for (uint32_t i = 0; i < m->sizes.nparam; i++) {
        bool is_free = s->options->is_free && s->options->is_free[i];
        double value = s->options->params ? s->options->params[i] : m->params[i].value;
        s->param[i] = is_free ? ns_input(m->params[i].name) : ns_const(value);
    }
    return s->graph->error.status == NS_OK;
}

static void make_outputs(const nsi_stepper* s, const ns_expr* q, const ns_expr* qd) {
    char name[1200];
    if (nsi_step_has_impulses(s->model, s->options)) {
        ns_output("solver/residual", s->residual);
        ns_output("solver/relaxation", s->relaxation);
    }
    for (uint32_t i = 0; i < s->model->sizes.nq; i++) {
        snprintf(name, sizeof name, "q%u", i);
        ns_output(name, q[i]);
    }
    for (uint32_t i = 0; i < s->model->sizes.nv; i++) {
        snprintf(name, sizeof name, "qd%u", i);
        ns_output(name, qd[i]);
    }
    for (uint32_t i = 0; i < s->model->sizes.nu; i++) {
        const ns_actuator_def* def = &s->model->actuators[i].def;
        const char* kind = nsi_actuator_state(def);
        if (!kind) continue;
        snprintf(name, sizeof name, "%s/%s", kind, def->name);
        ns_output(name, s->activation[i]);
    }
    if (s->augmenter) nsi_augmenter_put_memory(s->augmenter);
}

static void fail_no_quantity(const nsi_stepper* s, const char* pattern) {
    // A name by joint is near to the quantity of a joint.
    char hint[NS_HINT_SIZE], alias[NSI_MODEL_MAX_NAME + 32];
    bool by_joint = nsi_quantity_alias(pattern, false, alias, sizeof alias);
    ns_nearest nearest = {.wanted = by_joint ? alias : pattern};
    for (uint32_t i = 0; i < s->graph->quantities.count; i++) {
        const char* name = s->graph->quantities.data[i].name;
        ns_nearest_offer(&nearest, name);

        // Vectors and groups have names too: "qdd" of "qdd/0".
        const char* slash = strrchr(name, '/');
        char group[NS_WORD_SIZE];
        if (!slash || (size_t)(slash - name) >= sizeof group) continue;
        snprintf(group, sizeof group, "%.*s", (int)(slash - name), name);
        ns_nearest_offer(&nearest, group);
    }
    nsi_graph_fail(s->graph, NS_ERR_ARGUMENT, "no quantity of the model matches \"%.100s\"%s",
                   pattern, ns_nearest_hint(&nearest, hint));
}

bool nsi_quantity_matches(const char* pattern, const char* name) {
    char below[1200];
    snprintf(below, sizeof below, "%.1100s/**", pattern);
    return ns_glob_match(pattern, name) || ns_glob_match(below, name);
}

// A pattern of the observed quantities; where it fits nothing and is a name by joint or actuator, the
// quantity that it stands for.
static const char* observed_pattern(const nsi_stepper* s, uint32_t number, char* out, size_t size) {
    const nsi_ports* all = &s->graph->quantities;
    const char *given = s->options->observe[number], *pattern = given;
    for (int numbered = 0; numbered < 3; numbered++) {
        for (uint32_t i = 0; i < all->count; i++) {
            if (nsi_quantity_matches(pattern, all->data[i].name)) return pattern;
        }
        if (numbered == 2 || !nsi_quantity_alias(given, numbered == 1, out, size)) break;
        pattern = out;
    }
    return given;
}

// Outputs for the observed quantities.
static void make_observations(const nsi_stepper* s) {
    const nsi_ports* all = &s->graph->quantities;
    for (uint32_t p = 0; p < s->options->nobserve; p++) {
        char alias[NSI_MODEL_MAX_NAME + 32];
        const char* pattern = observed_pattern(s, p, alias, sizeof alias);
        bool found = false;
        for (uint32_t i = 0; i < all->count && s->graph->error.status == NS_OK; i++) {
            const nsi_port* quantity = &all->data[i];
            if (!nsi_quantity_matches(pattern, quantity->name)) continue;
            found = true;
            if (nsi_graph_find(s->graph, NSI_PORT_OUTPUT, quantity->name) == NSI_NONE) {
                nsi_graph_output_quantity(s->graph, i);
            }
        }
        if (!found && s->graph->error.status == NS_OK) fail_no_quantity(s, pattern);
    }
}

// ---- one state -----------------------------------------------------------------------------

static bool mass_matrix_may_change(const nsi_stepper* s);
static void change_mass_matrix(const nsi_stepper* s, nsi_robot* robot);
static void name_state(const nsi_stepper* s, nsi_robot* robot);
static void name_rest(const nsi_stepper* s, const nsi_robot* robot);
static bool networks_read_rest(const nsi_stepper* s);

static bool is_zero(const nsi_stepper* s, ns_expr x) {
    if (!ns_expr_is_valid(x)) return false;
    const nsi_node* node = &s->graph->nodes.data[x.id];
    return node->op == NSI_CONST && node->value == 0.0;
}

// How fast the activations change.
static void find_activation_rates(const nsi_stepper* s, const nsi_step_state* at) {
    const ns_model* m = s->model;
    for (uint32_t i = 0; i < m->sizes.nu; i++) {
        if (m->actuators[i].def.dynamics == NS_DYNAMICS_NONE) continue;
        at->rate[i] = nsi_activation_rate(m, at->param, i, at->u[i], at->actuator[i]);
        if (s->first->graph) continue;
        s->start[i] = at->actuator[i];
        s->rate[i] = at->rate[i];
    }
}

// What physics reads is named here. The order in which things are traced is the same with and without networks and observations, and so are all
// bits (contract.c).
bool nsi_step_begin(const nsi_stepper* s, const ns_expr* q, const ns_expr* qd, nsi_step_state* at) {
    const ns_model* m = s->model;
    at->q = nsi_step_expressions(s, m->sizes.nq);
    at->qd = nsi_step_expressions(s, m->sizes.nv);
    at->u = nsi_step_expressions(s, m->sizes.nu);
    at->actuator = nsi_step_expressions(s, m->sizes.nu);
    at->rate = nsi_step_expressions(s, m->sizes.nu);
    at->tau = nsi_step_expressions(s, m->sizes.nv);
    at->param = nsi_step_expressions(s, m->sizes.nparam);
    if (s->graph->error.status != NS_OK) return false;

    // State and controls, as networks may change them.
    if (s->augmenter) nsi_augmenter_begin(s->augmenter);
    nsi_trace_stage(NS_STAGE_START);
    for (uint32_t k = 0; k < m->sizes.nq; k++) {
        at->q[k] = nsi_named(q[k], nsi_state_unit(m, k), "q/%u", k);
    }
    for (uint32_t k = 0; k < m->sizes.nv; k++) {
        at->qd[k] = nsi_named(qd[k], nsi_state_unit(m, m->sizes.nq + k), "qd/%u", k);
    }
    for (uint32_t i = 0; i < m->sizes.nu; i++) {
        const ns_actuator_def* def = &m->actuators[i].def;
        at->u[i] = nsi_named(s->u[i], "", "control/%s", def->name);
        at->actuator[i] = s->activation[i];
        if (def->dynamics != NS_DYNAMICS_NONE) {
            at->actuator[i] = nsi_named(at->actuator[i], "", "actuator/%s/activation", def->name);
        }
    }
    for (uint32_t k = 0; k < m->sizes.nv; k++) {
        at->tau[k] = nsi_named(s->tau[k], nsi_force_unit(m, k), "tau/%u", k);
    }

    // Networks may be attached to any parameter, free or not, but of what is not there.
    bool all = s->augmenter || s->options->hook;
    for (uint32_t i = 0; i < m->sizes.nparam; i++) {
        const ns_param* p = &m->params[i];
        bool is_free = s->options->is_free && s->options->is_free[i];
        double value = s->options->params ? s->options->params[i] : p->value;
        bool absent = !is_free && nsi_contact_param_is_absent(p, value);
        bool named = is_free || (all && !absent);
        at->param[i] = named ? nsi_trace_quantity(p->name, p->unit, s->param[i]) : s->param[i];
    }

    // What follows from these.
    find_activation_rates(s, at);
    if (!nsi_robot_init(&at->robot, m, at->param, at->q, at->qd)) return false;
    nsi_trace_stage(NS_STAGE_STATE);
    if (mass_matrix_may_change(s)) change_mass_matrix(s, &at->robot);
    name_state(s, &at->robot);
    if (!s->first->graph) *s->first = at->robot;
    return s->graph->error.status == NS_OK;
}

// A force in the axes of a link at its centre of mass, and a torque, from outside: none, unless a
// network stands there. Links without mass, such as those between the joints of one MJCF body, have
// none.
static void link_force(const nsi_stepper* s, const nsi_robot* robot, uint32_t i, force* external) {
    const nsi_placement* place = &robot->place[i];
    const char* name = s->model->links[i].def.name;
    char velocity[NSI_MODEL_MAX_NAME + 64];
    ns_expr f[6];
    bool any = false;
    uint32_t mass = s->model->links[i].param + NSI_LINK_MASS;
    double kg = s->options->params ? s->options->params[mass] : s->model->params[mass].value;
    if (place->body == NSI_NONE || kg == 0.0) return;
    for (int k = 0; k < 6; k++) {
        f[k] = nsi_named(ns_const(0.0), k < 3 ? "N" : "N m", "link/%s/%s/%c", name,
                         k < 3 ? "force" : "torque", "xyz"[k % 3]);
        snprintf(velocity, sizeof velocity, "link/%s/velocity/%s/%c", name,
                 k < 3 ? "com" : "angular", "xyz"[k % 3]);
        nsi_trace_conjugate(velocity);
        any = any || !is_zero(s, f[k]);
    }
    if (!any) return;
    const ns_expr* c = robot->param + s->model->links[i].param + NSI_LINK_COM;
    vec3 at = v3_add(place->position, m3_apply(place->R, v3(c[0], c[1], c[2])));
    vec3 linear = m3_apply(place->R, v3(f[0], f[1], f[2]));
    vec3 torque = m3_apply(place->R, v3(f[3], f[4], f[5]));
    force total = {v3_add(torque, v3_cross(at, linear)), linear};
    external[place->body] = fo_add(external[place->body], total);
}

// The forces on bodies from outside: networks on links, the medium, contact forces.
static void external_forces(const nsi_stepper* s, nsi_robot* robot, bool implicit) {
    uint32_t n = s->model->sizes.nlink;
    force* external = nsi_robot_alloc(robot, n, sizeof *external);
    if (!external) return;
    for (uint32_t i = 0; i < n; i++) external[i] = fo_zero();
    for (uint32_t i = 0; i < n; i++) link_force(s, robot, i, external);
    nsi_medium_forces(robot, external);
    nsi_trace_stage(NS_STAGE_CONTACT);
    robot->resistance =
        nsi_contact_forces(robot, &s->options->contact, s->options->timestep, implicit, external);
    nsi_trace_stage(NS_STAGE_FORCES);
    robot->external = external;
}

// Name the bias of M qdd + bias = tau; what a network adds to it is taken off the forces. Nothing of
// it is computed otherwise.
static void name_bias(const nsi_stepper* s, const nsi_robot* robot, ns_expr* tau) {
    uint32_t nv = s->model->sizes.nv;
    ns_expr* bias = nsi_step_expressions(s, nv);
    if (s->graph->error.status != NS_OK) return;
    nsi_rnea(robot, NULL, bias);
    for (uint32_t k = 0; k < nv; k++) {
        ns_expr changed = nsi_named(bias[k], nsi_force_unit(s->model, k), "bias/%u", k);
        if (changed.id != bias[k].id) {
            tau[k] = ns_sub(tau[k], nsi_trace_change(changed, bias[k]));
        }
    }
}

// Forward dynamics. While a hook only looks at what depends on what, the factors of a mass matrix that
// may change are left out, which are many: accelerations depend on its numbers as on forces.
static void solve_accelerations(const nsi_stepper* s, nsi_step_state* at, ns_expr* qdd) {
    uint32_t nv = s->model->sizes.nv;
    nsi_robot plain = at->robot;
    ns_expr* tau = at->tau;
    if (s->options->hook && plain.mass_change) {
        for (uint32_t k = 0; k < nv * nv; k++) {
            tau[k / nv] = ns_add(tau[k / nv], plain.mass_change[k]);
        }
        plain.mass_change = NULL;
    }
    if (at->equality) {
        nsi_constrained_dynamics(&plain, tau, at->added, at->equality, qdd, at->equality_force);
    } else {
        nsi_forward_dynamics(&plain, tau, at->added, qdd);
    }
}

void nsi_step_accelerate(const nsi_stepper* s, nsi_step_state* at, nsi_implicit implicit,
                         ns_expr* qdd) {
    uint32_t nv = s->model->sizes.nv;
    ns_expr* slope = nsi_step_expressions(s, nv);
    if (s->graph->error.status != NS_OK) return;
    nsi_trace_stage(NS_STAGE_FORCES);
    name_bias(s, &at->robot, at->tau);

    // Impulses are solved for with the mass matrix alone, so that springs beside them stay explicit.
    bool rigid = nsi_step_has_impulses(s->model, s->options);
    external_forces(s, &at->robot, implicit != NSI_EXPLICIT && !rigid);
    ns_expr* coupling = nsi_joint_forces(&at->robot, at->u, at->actuator, s->options->timestep,
                                         implicit, at->tau, slope);

    // The slopes over a step add to the mass matrix; where all vanish it costs nothing.
    ns_expr dt = ns_const(s->options->timestep);
    for (uint32_t k = 0; coupling && k < nv * nv; k++) coupling[k] = ns_mul(dt, coupling[k]);
    at->robot.coupling = coupling;
    at->added = NULL;
    for (uint32_t k = 0; k < nv; k++) {
        slope[k] = ns_mul(dt, slope[k]);
        if (!is_zero(s, slope[k])) at->added = slope;
    }
    at->robot.spin_step = at->gyroscopic ? s->options->timestep : 0.0;
    if (!nsi_equality_step_begin(s, at)) return;
    solve_accelerations(s, at, qdd);
    nsi_trace_stage(NS_STAGE_ACCELERATION);
    for (uint32_t k = 0; k < nv; k++) {
        const char* unit = nsi_velocity_slides(s->model, k) ? "m/s^2" : "rad/s^2";
        qdd[k] = nsi_named(qdd[k], unit, "qdd/%u", k);
    }
    if (s->first->qd == at->qd) memcpy(s->qdd, qdd, nv * sizeof *qdd);
    if (networks_read_rest(s)) name_rest(s, &at->robot);
}

// ---- all quantities ------------------------------------------------------------------------

// The three components of a vector of a link, or of the whole robot (link "").
static void name_vec3(vec3 v, const char* unit, const char* link, const char* what) {
    static const char axis[3] = {'x', 'y', 'z'};
    for (int k = 0; k < 3; k++) {
        if (link[0]) {
            nsi_observed(v.e[k], unit, "link/%s/%s/%c", link, what, axis[k]);
        } else {
            nsi_observed(v.e[k], unit, "%s/%c", what, axis[k]);
        }
    }
}

// Name a link's pose. What networks do to it is left in `change`; false when there is none.
static bool name_pose(const char* link, const nsi_link_pose* pose, quat turn,
                      nsi_pose_change* change) {
    static const char* const parts[7] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    const ns_expr given[7] = {pose->position.e[0],
                              pose->position.e[1],
                              pose->position.e[2],
                              turn.w,
                              turn.x,
                              turn.y,
                              turn.z};
    ns_expr to[7];
    *change = (nsi_pose_change){.moved = false};
    for (int k = 0; k < 7; k++) {
        to[k] = nsi_observed(given[k], k < 3 ? "m" : "", "link/%s/pose/%s", link, parts[k]);
        bool same = to[k].id == given[k].id;
        if (k < 3) change->moved = change->moved || !same;
        if (k >= 3) change->turned = change->turned || !same;
    }
    if (change->moved) {
        for (int k = 0; k < 3; k++) change->displacement.e[k] = nsi_trace_change(to[k], given[k]);
    }
    if (change->turned) {
        mat3 R = m3_from_quat(q_normalize((quat){to[3], to[4], to[5], to[6]}));
        change->turn = m3_mul(m3_transpose(pose->R), R);
    }
    return change->moved || change->turned;
}

static void name_poses(const nsi_stepper* s, nsi_robot* robot, const nsi_link_pose* pose) {
    const ns_model* m = s->model;
    quat* turn = nsi_arena_alloc(&s->graph->arena, (m->sizes.nlink + 1) * sizeof *turn);
    nsi_pose_change* change = nsi_robot_alloc(robot, m->sizes.nlink, sizeof *change);
    bool any = false;
    if (!turn || !change) {
        nsi_graph_fail_nomem(s->graph);
        return;
    }

    nsi_link_turns(robot, turn);
    for (uint32_t i = 0; i < m->sizes.nlink; i++) {
        if (name_pose(m->links[i].def.name, &pose[i], turn[i], &change[i])) any = true;
    }
    if (any) robot->pose_change = change;
}

static void name_links(const nsi_stepper* s, nsi_robot* robot, const nsi_link_pose* pose) {
    name_poses(s, robot, pose);
    for (uint32_t i = 0; i < s->model->sizes.nlink; i++) {
        const char* name = s->model->links[i].def.name;
        motion v = nsi_link_velocity(robot, i);
        name_vec3(v.w, "rad/s", name, "velocity/angular");
        name_vec3(v.v, "m/s", name, "velocity/linear");
        const ns_expr* c = robot->param + s->model->links[i].param + NSI_LINK_COM;
        name_vec3(v3_add(v.v, v3_cross(v.w, v3(c[0], c[1], c[2]))), "m/s", name, "velocity/com");
    }
}

// The deepest point of all contacts, 0 when all are apart.
static void name_penetration(const nsi_stepper* s, const nsi_robot* robot,
                             const nsi_link_pose* pose) {
    ns_expr deepest = ns_const(0.0);
    for (int law = 0; law < nsi_contact_law_count(); law++) {
        nsi_candidates candidates;
        if (ns_contact_law_get(law)->stage == NS_CONTACT_STAGE_NONE) continue;
        if (nsi_scene_is_wanted(robot, &s->options->contact, law)) return; // named by the scene
        if (!nsi_candidates_find(robot, pose, &s->options->contact, law, NULL, &candidates)) return;
        for (uint32_t c = 0; c < candidates.count; c++) {
            const nsi_contact_point* p = &candidates.data[c].point;
            ns_expr depth = ns_select(p->exists, ns_neg(p->gap), ns_const(0.0));
            deepest = ns_max(deepest, depth);
        }
    }
    nsi_trace_observe("contact/penetration", "m", deepest);
}

// Coordinates and velocities by joint; of an angle also what does not know about full turns, for
// networks.
static void name_joints(const nsi_stepper* s, const nsi_robot* robot) {
    for (uint32_t i = 0; i < s->model->sizes.nlink; i++) {
        const nsi_link* l = &s->model->links[i];
        for (uint32_t k = 0; k < l->nq; k++) {
            const char* unit = nsi_joint_position_unit(l, k);
            if (l->nq == 1) {
                nsi_observed(robot->q[l->q], unit, "joint/%s/position", l->def.joint);
            } else {
                nsi_observed(robot->q[l->q + k], unit, "joint/%s/position/%u", l->def.joint, k);
            }
        }
        if (l->nq == 1 && nsi_joint_get(l->def.joint_type)->info.nlinear == 0) { // an angle
            nsi_observed(ns_sin(robot->q[l->q]), "", "joint/%s/sin", l->def.joint);
            nsi_observed(ns_cos(robot->q[l->q]), "", "joint/%s/cos", l->def.joint);
        }
        for (uint32_t k = 0; k < l->nv; k++) {
            const char* unit = nsi_joint_velocity_unit(l, k);
            if (l->nv == 1) {
                nsi_observed(robot->qd[l->v], unit, "joint/%s/velocity", l->def.joint);
            } else {
                nsi_observed(robot->qd[l->v + k], unit, "joint/%s/velocity/%u", l->def.joint, k);
            }
        }
    }
}

// What follows from the state alone, before the forces: networks may read all of it.
static void name_state(const nsi_stepper* s, nsi_robot* robot) {
    nsi_link_pose* pose = nsi_robot_alloc(robot, s->model->sizes.nlink, sizeof *pose);
    if (s->graph->error.status != NS_OK) return;
    name_joints(s, robot);
    nsi_link_poses(robot, pose);
    ns_expr kinetic = nsi_kinetic_energy(robot);
    ns_expr potential = ns_add(nsi_potential_energy(robot, pose), nsi_spring_energy(robot));
    nsi_trace_observe("energy/kinetic", "J", kinetic);
    nsi_trace_observe("energy/potential", "J", potential);
    nsi_trace_observe("energy/total", "J", ns_add(kinetic, potential));
    vec3 linear, angular;
    nsi_momentum(robot, pose, &linear, &angular);
    name_vec3(linear, "kg m/s", "", "momentum/linear");
    name_vec3(angular, "kg m^2/s", "", "momentum/angular");
    name_vec3(nsi_center_of_mass(robot, pose), "m", "", "com");
    name_links(s, robot, pose);
    nsi_name_sites(robot, pose);
}

// Could a pattern ask for a quantity of this name, or of one with other numbers in it?
static bool may_match(const char* pattern, const char* name) {
    char any[1200];
    size_t size = 0;
    for (; *pattern && size + 1 < sizeof any; pattern++) {
        bool digit = *pattern >= '0' && *pattern <= '9';
        any[size++] = digit || *pattern == '?' ? '*' : *pattern;
    }
    any[size] = '\0';
    return nsi_quantity_matches(any, name);
}

// Is this the name of a quantity of name_rest()?
static bool is_rest(const char* name) {
    return ns_glob_match("mass_matrix/**", name) || ns_glob_match("link/*/jacobian/**", name) ||
           strcmp(name, "contact/penetration") == 0;
}

// Does a network read one in the step itself? Then each evaluation of the dynamics has them.
static bool networks_read_rest(const nsi_stepper* s) {
    const nsi_binding* binding = s->options->binding;
    for (uint32_t u = 0; binding && u < binding->ninstance; u++) {
        const nsi_network_instance* use = &binding->instances[u];
        for (uint32_t k = 0; k < use->ninput; k++) {
            if (use->inputs[k].lag == 0 && is_rest(use->inputs[k].name)) return true;
        }
    }
    return false;
}

// Could a pattern ask for one?
static bool pattern_asks_rest(const nsi_stepper* s, const char* pattern) {
    const ns_model* m = s->model;
    bool asked = may_match(pattern, "mass_matrix/0/0") || may_match(pattern, "contact/penetration");
    for (uint32_t i = 0; i < m->sizes.nlink && !asked; i++) {
        char name[NSI_MODEL_MAX_NAME + 40];
        for (int k = 0; k < 2 && !asked; k++) {
            snprintf(name, sizeof name, "link/%s/jacobian/%s/0/0", m->links[i].def.name,
                     k == 0 ? "linear" : "angular");
            asked = may_match(pattern, name);
        }
    }
    return asked;
}

// Is anything of name_rest() asked for: by networks, which keep earlier values of it, or by
// observations? Also by a pattern that fits nothing else: then the error proposes the nearest name.
static bool needs_rest(const nsi_stepper* s) {
    if (networks_read_rest(s)) return false; // it is there already
    const nsi_binding* binding = s->options->binding;
    for (uint32_t k = 0; binding && k < binding->nmemory; k++) {
        if (is_rest(binding->memory[k].name)) return true;
    }
    const nsi_ports* named = &s->graph->quantities;
    for (uint32_t p = 0; p < s->options->nobserve; p++) {
        char alias[NSI_MODEL_MAX_NAME + 32];
        const char* pattern = observed_pattern(s, p, alias, sizeof alias);
        bool found = false;
        for (uint32_t i = 0; i < named->count && !found; i++) {
            found = nsi_quantity_matches(pattern, named->data[i].name);
        }
        if (!found || pattern_asks_rest(s, pattern)) return true;
    }
    return false;
}

static ns_expr name_mass(const nsi_stepper* s, uint32_t row, uint32_t column, ns_expr x) {
    int sliding = nsi_velocity_slides(s->model, row) + nsi_velocity_slides(s->model, column);
    const char* unit = sliding == 2 ? "kg" : sliding == 1 ? "kg m" : "kg m^2";
    return nsi_observed(x, unit, "mass_matrix/%u/%u", row, column);
}

// Is there a network at the mass matrix, or a hook that looks for places of networks?
static bool mass_matrix_may_change(const nsi_stepper* s) {
    const nsi_binding* binding = s->options->binding;
    if (s->options->hook) return true;
    for (uint32_t u = 0; binding && u < binding->ninstance; u++) {
        const nsi_network_instance* use = &binding->instances[u];
        for (uint32_t k = 0; k < use->noutput; k++) {
            if (ns_glob_match("mass_matrix/**", use->outputs[k])) return true;
        }
    }
    return false;
}

// Name the mass matrix, and keep what networks do to it. It stays symmetric: a network at one of two
// equal numbers changes both.
static void change_mass_matrix(const nsi_stepper* s, nsi_robot* robot) {
    uint32_t nv = s->model->sizes.nv;
    ns_expr* M = nsi_step_expressions(s, (size_t)nv * nv);
    ns_expr* change = nsi_step_expressions(s, (size_t)nv * nv);
    if (s->graph->error.status != NS_OK) return;

    // Name both triangles; a change of either number is one of both.
    nsi_crba(robot, M);
    for (uint32_t i = 0; i < nv; i++) {
        for (uint32_t j = 0; j < nv; j++) {
            ns_expr given = M[i * nv + j], *upper = &change[j * nv + i];
            if (j >= i) { // `change` holds the number itself until its mirror image is named
                change[i * nv + j] = name_mass(s, i, j, given);
                continue;
            }
            ns_expr to = name_mass(s, i, j, *upper);
            if (s->augmenter && upper->id != given.id && to.id != upper->id) {
                nsi_graph_fail(s->graph, NS_ERR_ARGUMENT,
                               "mass_matrix/%u/%u and mass_matrix/%u/%u are one number; attach a"
                               " network to one of them",
                               j, i, i, j);
                return;
            }
            *upper = change[i * nv + j] = to;
        }
    }

    // What was added to the matrix.
    for (uint32_t k = 0; k < nv * nv; k++) change[k] = nsi_trace_change(change[k], M[k]);
    robot->mass_change = change;
}

// What takes long to trace: numbers for each pair of joints. At the state where the step begins, with
// what networks do to it.
static void name_rest(const nsi_stepper* s, const nsi_robot* robot) {
    const ns_model* m = s->model;
    uint32_t nv = m->sizes.nv;
    nsi_link_pose* pose = nsi_robot_alloc(robot, m->sizes.nlink, sizeof *pose);
    ns_expr* M = nsi_step_expressions(s, (size_t)nv * nv);
    ns_expr *linear = nsi_step_expressions(s, 3 * (size_t)nv),
            *angular = nsi_step_expressions(s, 3 * (size_t)nv);
    if (s->graph->error.status != NS_OK) return;

    // The mass matrix, unless networks had to see it before.
    if (!mass_matrix_may_change(s)) {
        nsi_trace_stage(NS_STAGE_STATE);
        nsi_crba(robot, M);
        for (uint32_t k = 0; k < nv * nv; k++) name_mass(s, k / nv, k % nv, M[k]);
    }

    // Jacobians of link origins, in world axes.
    nsi_trace_stage(NS_STAGE_AFTER);
    nsi_link_poses(robot, pose);
    for (uint32_t i = 0; i < m->sizes.nlink; i++) {
        const char* name = m->links[i].def.name;
        nsi_link_jacobian(robot, pose, i, linear, angular);
        for (uint32_t k = 0; k < 3 * nv; k++) {
            bool slides = nsi_velocity_slides(m, k % nv);
            nsi_observed(linear[k], slides ? "" : "m", "link/%s/jacobian/linear/%u/%u", name,
                         k / nv, k % nv);
            nsi_observed(angular[k], slides ? "1/m" : "", "link/%s/jacobian/angular/%u/%u", name,
                         k / nv, k % nv);
        }
    }

    if (m->sizes.ncontact > 0) name_penetration(s, robot, pose);
}

// What make_outputs() reads, in the graph that the augmenter made.
static void resolve_outputs(nsi_stepper* s, ns_expr* q, ns_expr* qd) {
    const ns_model* m = s->model;
    for (uint32_t k = 0; k < m->sizes.nq; k++) q[k] = nsi_augmenter_resolved(s->augmenter, q[k]);
    for (uint32_t k = 0; k < m->sizes.nv; k++) qd[k] = nsi_augmenter_resolved(s->augmenter, qd[k]);
    for (uint32_t k = 0; k < m->sizes.nu; k++) {
        s->u[k] = nsi_augmenter_resolved(s->augmenter, s->u[k]);
        s->activation[k] = nsi_augmenter_resolved(s->augmenter, s->activation[k]);
    }
    if (nsi_step_has_impulses(m, s->options)) {
        s->residual = nsi_augmenter_resolved(s->augmenter, s->residual);
        s->relaxation = nsi_augmenter_resolved(s->augmenter, s->relaxation);
    }
}

ns_status nsi_step_trace(const ns_model* model, const nsi_step_options* options, ns_graph** out,
                         ns_error* error) {
    nsi_robot first = {0};
    nsi_stepper s = {.model = model, .options = options, .first = &first};
    ns_status status = ns_graph_create(&model->allocator, &s.graph, error);
    if (status == NS_OK) status = ns_trace_begin(s.graph, error);
    if (status != NS_OK) {
        ns_graph_free(s.graph);
        return status;
    }

    s.names = options->all_quantities || options->binding || options->hook;
    ns_expr *q = NULL, *qd = NULL;

    // The step, then quantities that take long, if any is asked for.
    if (make_step_inputs(&s)) {
        if (options->hook) {
            nsi_trace_hook(options->hook, options->hook_context);
            nsi_trace_filter(options->filter);
        }
        q = nsi_step_expressions(&s, model->sizes.nq);
        qd = nsi_step_expressions(&s, model->sizes.nv);
        if (s.graph->error.status == NS_OK) {
            nsi_integrate(&s, q, qd);
        }
        bool rest = options->hook || (s.graph->error.status == NS_OK && needs_rest(&s));
        if (s.graph->error.status == NS_OK && rest) name_rest(&s, &first);
    }

    // Networks whose inputs were known too late get their place: in a copy, where the step goes on.
    ns_graph* traced = s.graph;
    if (s.augmenter) s.graph = nsi_augmenter_resolve(s.augmenter);
    if (s.graph != traced && q && qd) resolve_outputs(&s, q, qd);

    // Outputs: observations first, then the next state.
    if (s.graph->error.status == NS_OK) make_observations(&s);
    if (s.graph->error.status == NS_OK && q && qd) make_outputs(&s, q, qd);
    if (s.augmenter) nsi_augmenter_finish(s.augmenter);

    ns_trace_end(NULL);
    if (s.graph != traced) ns_graph_free(traced);
    *out = s.graph;
    return nsi_graph_finish(out, error);
}
