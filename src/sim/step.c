// One time step: state and control to the next state, by an integrator (integrators.c).

#include "sim/step.h"

#include "expr/trace.h"
#include "sim/integrators.h"

#include <stdio.h>

uint32_t nsi_model_motor_count(const ns_model* model) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < model->sizes.nu; i++) {
        count += model->actuators[i].def.type == NS_ACTUATOR_SERIES_ELASTIC;
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
    s->motor = nsi_step_expressions(s, m->sizes.nu);
    s->u = nsi_step_expressions(s, m->sizes.nu);
    s->tau = nsi_step_expressions(s, m->sizes.nv);
    s->param = nsi_step_expressions(s, m->sizes.nparam);
    if (s->graph->error.status != NS_OK) return false;

    // The order of inputs is that of the state, the control and the parameters. Values that
    // networks keep are part of the state.
    numbered_inputs("q", m->sizes.nq, s->q);
    numbered_inputs("qd", m->sizes.nv, s->qd);
    for (uint32_t i = 0; i < m->sizes.nu; i++) {
        s->motor[i] = ns_const(0.0);
        if (m->actuators[i].def.type == NS_ACTUATOR_SERIES_ELASTIC) {
            s->motor[i] = named_input("motor", m->actuators[i].def.name);
        }
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
    if (nsi_step_has_impulses(s->model, s->options)) ns_output("solver/residual", s->residual);
    for (uint32_t i = 0; i < s->model->sizes.nq; i++) {
        snprintf(name, sizeof name, "q%u", i);
        ns_output(name, q[i]);
    }
    for (uint32_t i = 0; i < s->model->sizes.nv; i++) {
        snprintf(name, sizeof name, "qd%u", i);
        ns_output(name, qd[i]);
    }
    for (uint32_t i = 0; i < s->model->sizes.nu; i++) {
        if (s->model->actuators[i].def.type != NS_ACTUATOR_SERIES_ELASTIC) continue;
        snprintf(name, sizeof name, "motor/%s", s->model->actuators[i].def.name);
        ns_output(name, nsi_actuator_control(s->model, i, s->u[i]));
    }
    if (s->augmenter) nsi_augmenter_put_memory(s->augmenter);
}

static void fail_no_quantity(const nsi_stepper* s, const char* pattern) {
    ns_nearest nearest = {.wanted = pattern};
    char hint[NS_HINT_SIZE];
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

// Outputs for the observed quantities.
static void make_observations(const nsi_stepper* s) {
    const nsi_ports* all = &s->graph->quantities;
    for (uint32_t p = 0; p < s->options->nobserve; p++) {
        const char* pattern = s->options->observe[p];
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

static void name_state(const nsi_stepper* s, const nsi_robot* robot);

static bool is_zero(const nsi_stepper* s, ns_expr x) {
    if (!ns_expr_is_valid(x)) return false;
    const nsi_node* node = &s->graph->nodes.data[x.id];
    return node->op == NSI_CONST && node->value == 0.0;
}

// What physics reads is named here. The order in which things are traced is the same with and without networks and observations, and so are all
// bits (contract.c).
bool nsi_step_begin(const nsi_stepper* s, const ns_expr* q, const ns_expr* qd, nsi_step_state* at) {
    const ns_model* m = s->model;
    at->q = nsi_step_expressions(s, m->sizes.nq);
    at->qd = nsi_step_expressions(s, m->sizes.nv);
    at->u = nsi_step_expressions(s, m->sizes.nu);
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
        at->u[i] = nsi_named(s->u[i], "", "control/%s", m->actuators[i].def.name);
    }
    for (uint32_t k = 0; k < m->sizes.nv; k++) {
        at->tau[k] = nsi_named(s->tau[k], nsi_force_unit(m, k), "tau/%u", k);
    }

    // Networks may be attached to any parameter, free or not.
    bool all = s->augmenter || s->options->hook;
    for (uint32_t i = 0; i < m->sizes.nparam; i++) {
        bool named = all || (s->options->is_free && s->options->is_free[i]);
        const ns_param* p = &m->params[i];
        at->param[i] = named ? nsi_trace_quantity(p->name, p->unit, s->param[i]) : s->param[i];
    }

    // What follows from these.
    if (!nsi_robot_init(&at->robot, m, at->param, at->q, at->qd)) return false;
    nsi_trace_stage(NS_STAGE_STATE);
    name_state(s, &at->robot);
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

// The forces on bodies from outside: networks on links, contact forces.
static void external_forces(const nsi_stepper* s, nsi_robot* robot) {
    uint32_t n = s->model->sizes.nlink;
    force* external = nsi_robot_alloc(robot, n, sizeof *external);
    if (!external) return;
    for (uint32_t i = 0; i < n; i++) external[i] = fo_zero();
    for (uint32_t i = 0; i < n; i++) link_force(s, robot, i, external);
    nsi_trace_stage(NS_STAGE_CONTACT);
    nsi_contact_forces(robot, &s->options->contact, external);
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
        if (changed.id != bias[k].id) tau[k] = ns_sub(tau[k], ns_sub(changed, bias[k]));
    }
}

void nsi_step_accelerate(const nsi_stepper* s, nsi_step_state* at, ns_expr* slope, ns_expr* qdd) {
    uint32_t nv = s->model->sizes.nv;
    nsi_trace_stage(NS_STAGE_FORCES);
    name_bias(s, &at->robot, at->tau);
    external_forces(s, &at->robot);
    nsi_joint_forces(&at->robot, at->u, s->motor, s->options->timestep, at->tau, slope);
    ns_expr dt = ns_const(s->options->timestep);
    for (uint32_t k = 0; k < nv && slope; k++) slope[k] = ns_mul(dt, slope[k]);
    nsi_forward_dynamics(&at->robot, at->tau, slope, qdd);
    nsi_trace_stage(NS_STAGE_ACCELERATION);
    for (uint32_t k = 0; k < nv; k++) {
        const char* unit = nsi_velocity_slides(s->model, k) ? "m/s^2" : "rad/s^2";
        qdd[k] = nsi_named(qdd[k], unit, "qdd/%u", k);
    }
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

// Orientations as quaternions, from the parent down.
static void name_poses(const nsi_stepper* s, const nsi_robot* robot, const nsi_link_pose* pose) {
    const ns_model* m = s->model;
    quat* turn = nsi_arena_alloc(&s->graph->arena, (m->sizes.nlink + 1) * sizeof *turn);
    if (!turn) {
        nsi_graph_fail_nomem(s->graph);
        return;
    }

    for (uint32_t i = 0; i < m->sizes.nlink; i++) {
        const nsi_link* l = &m->links[i];

        // The joint's frame in the parent.
        const double* o = l->def.origin.quaternion;
        quat q = {ns_const(o[0]), ns_const(o[1]), ns_const(o[2]), ns_const(o[3])};
        const ns_expr* r = robot->param + l->param + NSI_JOINT_ROTATION;
        q = q_mul(q, q_exp(v3(r[0], r[1], r[2])));

        // The joint's own rotation; a floating joint's is in the world.
        const nsi_joint* joint = nsi_joint_get(l->def.joint_type);
        if (joint->info.in_world) {
            q = joint->rotation(robot, i);
        } else if (joint->rotation) {
            q = q_mul(q, joint->rotation(robot, i));
        }
        bool in_world = l->parent == NSI_NONE || joint->info.in_world;
        turn[i] = in_world ? q : q_mul(turn[l->parent], q);

        name_vec3(pose[i].position, "m", l->def.name, "pose");
        nsi_observed(turn[i].w, "", "link/%s/pose/qw", l->def.name);
        nsi_observed(turn[i].x, "", "link/%s/pose/qx", l->def.name);
        nsi_observed(turn[i].y, "", "link/%s/pose/qy", l->def.name);
        nsi_observed(turn[i].z, "", "link/%s/pose/qz", l->def.name);
    }
}

static void name_links(const nsi_stepper* s, const nsi_robot* robot, const nsi_link_pose* pose) {
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
        if (!nsi_candidates_find_within(robot, pose, &s->options->contact, law, ns_const(0.0),
                                        &candidates)) {
            return;
        }
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
static void name_state(const nsi_stepper* s, const nsi_robot* robot) {
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

// Is anything of name_rest() asked for? Also by a pattern that fits nothing else: then the nearest
// name of all is told.
static bool needs_rest(const nsi_stepper* s) {
    const ns_model* m = s->model;
    const nsi_ports* named = &s->graph->quantities;
    for (uint32_t p = 0; p < s->options->nobserve; p++) {
        const char* pattern = s->options->observe[p];
        bool found = false;
        for (uint32_t i = 0; i < named->count && !found; i++) {
            found = nsi_quantity_matches(pattern, named->data[i].name);
        }
        bool asked = !found || may_match(pattern, "mass_matrix/0/0") ||
                     may_match(pattern, "contact/penetration");
        for (uint32_t i = 0; i < m->sizes.nlink && !asked; i++) {
            char name[NSI_MODEL_MAX_NAME + 40];
            for (int k = 0; k < 2 && !asked; k++) {
                snprintf(name, sizeof name, "link/%s/jacobian/%s/0/0", m->links[i].def.name,
                         k == 0 ? "linear" : "angular");
                asked = may_match(pattern, name);
            }
        }
        if (asked) return true;
    }
    return false;
}

// What no network reads and takes long to trace: numbers for each pair of joints.
static void name_rest(const nsi_stepper* s) {
    const ns_model* m = s->model;
    uint32_t nv = m->sizes.nv;
    nsi_robot robot;
    if (!nsi_robot_init(&robot, m, s->param, s->q, s->qd)) return;
    nsi_link_pose* pose = nsi_robot_alloc(&robot, m->sizes.nlink, sizeof *pose);
    ns_expr* M = nsi_step_expressions(s, (size_t)nv * nv);
    ns_expr *linear = nsi_step_expressions(s, 3 * (size_t)nv),
            *angular = nsi_step_expressions(s, 3 * (size_t)nv);
    if (s->graph->error.status != NS_OK) return;

    // The mass matrix.
    nsi_trace_stage(NS_STAGE_AFTER);
    nsi_crba(&robot, M);
    for (uint32_t k = 0; k < nv * nv; k++) {
        int sliding = nsi_velocity_slides(m, k / nv) + nsi_velocity_slides(m, k % nv);
        const char* unit = sliding == 2 ? "kg" : sliding == 1 ? "kg m" : "kg m^2";
        nsi_observed(M[k], unit, "mass_matrix/%u/%u", k / nv, k % nv);
    }

    // Jacobians of link origins, in world axes.
    nsi_link_poses(&robot, pose);
    for (uint32_t i = 0; i < m->sizes.nlink; i++) {
        const char* name = m->links[i].def.name;
        nsi_link_jacobian(&robot, pose, i, linear, angular);
        for (uint32_t k = 0; k < 3 * nv; k++) {
            bool slides = nsi_velocity_slides(m, k % nv);
            nsi_observed(linear[k], slides ? "" : "m", "link/%s/jacobian/linear/%u/%u", name,
                         k / nv, k % nv);
            nsi_observed(angular[k], slides ? "1/m" : "", "link/%s/jacobian/angular/%u/%u", name,
                         k / nv, k % nv);
        }
    }

    if (m->sizes.ncontact > 0) name_penetration(s, &robot, pose);
}

ns_status nsi_step_trace(const ns_model* model, const nsi_step_options* options, ns_graph** out,
                         ns_error* error) {
    nsi_stepper s = {.model = model, .options = options};
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
        if (options->hook) nsi_trace_hook(options->hook, options->hook_context);
        q = nsi_step_expressions(&s, model->sizes.nq);
        qd = nsi_step_expressions(&s, model->sizes.nv);
        if (s.graph->error.status == NS_OK) {
            nsi_integrate(&s, q, qd);
        }
        bool rest = options->hook || (s.graph->error.status == NS_OK && needs_rest(&s));
        if (s.graph->error.status == NS_OK && rest) name_rest(&s);
    }

    // Outputs: observations first, then the next state.
    if (s.augmenter) nsi_augmenter_finish(s.augmenter);
    if (s.graph->error.status == NS_OK) make_observations(&s);
    if (s.graph->error.status == NS_OK) make_outputs(&s, q, qd);

    ns_trace_end(NULL);
    *out = s.graph;
    return nsi_graph_finish(out, error);
}
