// neuralsim inspect: print how a model file is interpreted.

#include "inspect_values.h"

#include <neuralsim/closure.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char help[] =
    "usage: neuralsim inspect MODEL [OPTIONS]\n"
    "\n"
    "Loads a URDF or MJCF file and prints the resulting model: whether it is complete, or which\n"
    "parts of the file that change the motion it lacks; the tree of links and joints with\n"
    "coordinates, masses and inertias, actuators, geometries, contact pairs, keyframes, "
    "parameters,\n"
    "and what else of the file was ignored. For a hybrid model (YAML), with the parameters that "
    "it\n"
    "changes, and its networks. Units are SI.\n"
    "\n"
    "  --params            list all parameters with unit, value, bounds and transform\n"
    "  --json              print everything as one JSON object\n"
    "  --ground            add the plane z = 0 unless the file has a plane\n"
    "  --floating-base, --self-collision   of a URDF: the root link is free; links collide\n"
    "  --no-self-collision   of an MJCF: links of one robot do not collide\n"
    "  --package-path DIR   packages of meshes, or a folder of such; may be given again\n"
    "  --variant NAME, --strict   robot of a hybrid model; refuse what would be repaired\n"
    "\n"
    "example: the tree of a robot and its joint parameters\n"
    "  neuralsim inspect models/quadruped.urdf --params\n";

static double total_mass(const ns_model* model, const inspect_additions* a) {
    double mass = 0.0;
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        mass += inspect_link(model, a, i).mass;
    }
    return mass;
}

static uint32_t count_notes(const ns_model* model, ns_ignored_effect effect) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nignored; i++) {
        count += ns_model_ignored_effect(model, i) == effect;
    }
    return count;
}

static bool is_complete(const ns_model* model) {
    return count_notes(model, NS_IGNORED_CHANGING) + count_notes(model, NS_IGNORED_UNKNOWN) == 0;
}

// ---- tree ----------------------------------------------------------------------------------

// Links in the order of a tree read from top to bottom.
typedef struct tree {
    uint32_t* order; // (nlink)
    uint32_t* depth; // (nlink) of each link, by its number
    int width;       // of the widest indented name
} tree;

enum { MAX_INDENT = 20 }; // levels; deeper ones are not indented further

static int indent(uint32_t depth) {
    return 2 * (int)(depth < MAX_INDENT ? depth : MAX_INDENT);
}

static bool make_tree(const ns_model* model, tree* out) {
    uint32_t n = ns_model_get_sizes(model).nlink, count = 0, top = 0;
    uint32_t* next = malloc(((size_t)n + 1) * sizeof *next);   // sibling
    uint32_t* child = malloc(((size_t)n + 1) * sizeof *child); // first; that of the world last
    uint32_t* stack = malloc(((size_t)n + 1) * sizeof *stack);
    // Links in depth-first order, and their depths.
    *out = (tree){.order = calloc((size_t)n + 1, sizeof *out->order),
                  .depth = calloc((size_t)n + 1, sizeof *out->depth)};
    bool ok = next && child && stack && out->order && out->depth;
    if (ok) {
        // Link each parent to its children; going backwards keeps their order.
        for (uint32_t i = 0; i <= n; i++) child[i] = UINT32_MAX;
        for (uint32_t i = n; i-- > 0;) {
            uint32_t parent = ns_model_link_parent(model, i),
                     at = parent == UINT32_MAX ? n : parent;
            next[i] = child[at];
            child[at] = i;
        }

        // Traverse depth first without recursion, measuring the widest name.
        for (uint32_t at = child[n]; at != UINT32_MAX || top > 0;) {
            if (at == UINT32_MAX) { // all below done: on with the sibling
                at = next[stack[--top]];
                continue;
            }
            out->order[count++] = at;
            out->depth[at] = top + 1;
            int width = indent(top + 1) + (int)strlen(ns_model_link(model, at)->name);
            if (width > out->width) out->width = width;
            stack[top++] = at;
            at = child[at];
        }
    } else {
        // One of the arrays is missing.
        cli_fail("out of memory");
    }

    free(next);
    free(child);
    free(stack);
    return ok;
}

static void free_tree(tree* t) {
    free(t->order);
    free(t->depth);
}

// ---- for people ----------------------------------------------------------------------------

static void print_vector(const char* before, const double* v, int count) {
    printf("%s", before);
    for (int k = 0; k < count; k++) printf(" %g", v[k]);
}

static void print_if(const char* what, double value) {
    if (value != 0.0) printf(", %s %g", what, value);
}

// "q0" or "q0..6", or nothing for a joint that does not move by itself.
static void print_range(const char* prefix, uint32_t first, uint32_t count) {
    char text[48] = "-";
    if (count == 1) snprintf(text, sizeof text, "%s%u", prefix, first);
    if (count > 1) snprintf(text, sizeof text, "%s%u..%u", prefix, first, first + count - 1);
    printf(" %-9s", text);
}

static void print_joint(const ns_model* model, const inspect_additions* a, uint32_t i, int width,
                        int joint_width, int depth) {
    const ns_link_def shown = inspect_link(model, a, i), *l = &shown;
    printf("%*s%-*s  %-*s %-10s", depth, "", width - depth, l->name, joint_width, l->joint,
           ns_joint_type_info(l->joint_type)->name);
    print_range("q", ns_model_joint_q(model, i), cli_joint_nq(model, i));
    print_range("qd", ns_model_joint_v(model, i), cli_joint_nv(model, i));
    print_vector(" at", l->origin.position, 3);
    if (fabs(l->origin.quaternion[0]) != 1.0) print_vector(", quat", l->origin.quaternion, 4);
    if (ns_joint_type_info(l->joint_type)->has_axis) {
        print_vector(", axis", l->axis, 3);
        print_if("stiffness", l->stiffness);
        if (l->stiffness != 0.0) print_if("rest", l->rest);
        if (l->limited) printf(", limits %g to %g", l->lower, l->upper);
    }
    print_if("damping", l->damping);
    print_if("friction", l->friction);
    print_if("armature", l->armature);
    if (l->mimic) {
        printf(", follows %s: %g q + %g", l->mimic, l->mimic_multiplier, l->mimic_offset);
    }
    printf("\n");
}

static void print_tree(const ns_model* model, const inspect_additions* a, const tree* t) {
    uint32_t n = ns_model_get_sizes(model).nlink;
    int joint_width = 5;
    for (uint32_t i = 0; i < n; i++) {
        int length = (int)strlen(ns_model_link(model, i)->joint);
        if (length > joint_width) joint_width = length;
    }
    printf("\n%-*s  %-*s %-10s %-9s qd\n", t->width, "link", joint_width, "joint", "type", "q");
    printf("world\n");
    for (uint32_t k = 0; k < n; k++) {
        uint32_t i = t->order[k];
        print_joint(model, a, i, t->width, joint_width, indent(t->depth[i]));
    }
    printf("\n%-*s  mass (kg)   centre of mass (m); inertia about it (xx yy zz xy xz yz, kg m^2)\n",
           t->width, "link");
    for (uint32_t k = 0; k < n; k++) {
        const ns_link_def shown = inspect_link(model, a, t->order[k]), *l = &shown;
        printf("%-*s  %-11g", t->width, l->name, l->mass);
        print_vector("", l->com, 3);
        print_vector(";", l->inertia, 6);
        printf("\n");
    }
}

// The joint, tendon or site of an actuator.
static const char* acts_on(const ns_actuator_def* a) {
    return a->joint ? a->joint : a->tendon ? a->tendon : a->site;
}

static void print_actuators(const ns_model* model, const inspect_additions* added) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nu; i++) {
        const ns_actuator_def shown = inspect_actuator(model, added, i), *a = &shown;
        if (i == 0) printf("\nactuators\n");
        printf("  u%-3u %-20s %s on %s, gear %g", i, a->name,
               ns_choice_name(&ns_actuator_types, (int)a->type), acts_on(a), a->gear);
        print_if("kp", a->kp);
        print_if("kd", a->kd);
        if (a->type == NS_ACTUATOR_GENERAL) {
            print_vector(", gain", a->gain, 3);
            print_vector(", bias", a->bias, 3);
        }
        if (a->type == NS_ACTUATOR_MUSCLE) {
            printf(", peak force %g N, range", a->muscle.force);
            print_vector("", a->muscle.length_range, 2);
        }
        if (a->dynamics != NS_DYNAMICS_NONE) {
            printf(", %s", ns_choice_name(&ns_actuator_dynamics_types, (int)a->dynamics));
            if (a->dynamics != NS_DYNAMICS_INTEGRATOR) printf(" of %g s", a->time_constant);
        }
        if (a->control_limited) printf(", u %g to %g", a->control_lower, a->control_upper);
        if (a->force_limited) printf(", force %g to %g", a->force_lower, a->force_upper);
        if (a->activation_limited) {
            printf(", activation %g to %g", a->activation_lower, a->activation_upper);
        }
        printf("\n");
    }
}

static void print_geoms(const ns_model* model, const inspect_additions* a) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ngeom; i++) {
        const ns_geom_def shown = inspect_geom(model, a, i), *g = &shown;
        if (i == 0) printf("\ngeometries\n");
        printf("  %-24s %-9s on %s, size", g->name, ns_choice_name(&ns_geom_types, (int)g->type),
               g->link ? g->link : "world");
        print_vector("", g->size, 3);
        print_vector(", at", g->pose.position, 3);
        if (g->mesh) printf(", file %s", g->mesh);
        if (g->nvertex > 0) printf(", %u vertices", g->nvertex);
        static const char* const uses[2][2] = {{", not used", ", only for contact"},
                                               {", only drawn", ""}};
        printf("%s\n", uses[g->visual][g->collision]);
    }
}

// Geometries of a pair; the first is pushed along the normal.
static const ns_geom_def* pair_geom(const ns_model* model, uint32_t pair, bool first) {
    const ns_contact_def* contact = ns_model_contact(model, pair);
    return ns_model_geom(model, ns_model_find_geom(model, first ? contact->a : contact->b));
}

// Torsional or rolling friction, if there is some, and whether the pair's law has it.
static void print_turning_friction(const ns_contact_def* c, const char* name, double mu) {
    if (mu == 0.0) return;
    const ns_contact_law* law = ns_contact_law_get(c->model);
    bool acts = false;
    for (uint32_t k = 0; k < law->nparam; k++) {
        acts = acts || strcmp(law->params[k].name, name) == 0;
    }
    printf(", %s %g m", name, mu);
    if (!acts) printf(" (no effect: %s has no such friction)", law->name);
}

static void print_pairs(const ns_model* model, const inspect_additions* a) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ncontact; i++) {
        const ns_contact_def shown = inspect_contact(model, a, i), *c = &shown;
        if (i == 0) printf("\npairs that can touch\n");
        printf("  %-32s %s and %s, %s, mu %g", c->name,
               ns_choice_name(&ns_geom_types, (int)pair_geom(model, i, true)->type),
               ns_choice_name(&ns_geom_types, (int)pair_geom(model, i, false)->type),
               ns_choice_name(&ns_contact_laws, (int)c->model), c->mu);
        print_turning_friction(c, "mu_torsion", c->mu_torsion);
        print_turning_friction(c, "mu_rolling", c->mu_rolling);
        printf(", restitution %g\n", c->restitution);
    }
}

// Equations of all active constraints.
static uint32_t count_equations(const ns_model* model) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nequality; i++) {
        rows += ns_model_equality_rows(model, i);
    }
    return rows;
}

// Degrees of freedom that they leave in the model's pose, redundant equations apart.
static uint32_t count_freedom(const ns_model* model) {
    ns_system_options options = ns_default_system_options();
    ns_system* system = NULL;
    ns_closure* closure = NULL;
    options.contact = NS_CONTACT_NONE;
    options.backend = NS_BACKEND_INTERP;
    double* x = cli_zeros((size_t)ns_model_get_sizes(model).nq + ns_model_get_sizes(model).nv);
    uint32_t freedom = 0;
    if (x && ns_system_create(model, &options, &system, NULL) == NS_OK &&
        ns_closure_create(system, &closure, NULL) == NS_OK) {
        ns_model_default_q(model, x);
        freedom = ns_closure_freedom(closure, NULL, x);
    }
    ns_closure_free(closure);
    ns_system_free(system);
    free(x);
    return freedom;
}

static void print_equalities(const ns_model* model) {
    uint32_t n = ns_model_get_sizes(model).nequality, rows = count_equations(model);
    for (uint32_t i = 0; i < n; i++) {
        const ns_equality_def* e = ns_model_equality(model, i);
        if (i == 0) printf("\nequality constraints\n");
        printf("  %-32s %s, %s", e->name, ns_choice_name(&ns_equality_types, (int)e->type),
               e->a ? e->a : "world");
        if (e->b || e->type != NS_EQUALITY_JOINT) printf(" and %s", e->b ? e->b : "world");
        if (e->inactive) {
            printf(", inactive\n");
            continue;
        }
        uint32_t count = ns_model_equality_rows(model, i);
        printf(", %u %s\n", count, count == 1 ? "equation" : "equations");
    }
    if (rows > 0) {
        printf("  equations: %u; velocities: %u; degrees of freedom in the model's pose: %u\n",
               rows, ns_model_get_sizes(model).nv, count_freedom(model));
    }
}

static void print_sites(const ns_model* model) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nsite; i++) {
        const ns_site_def* s = ns_model_site(model, i);
        printf("%s  %-24s on %s", i == 0 ? "\nsites\n" : "", s->name, s->link ? s->link : "world");
        print_vector(", at", s->pose.position, 3);
        printf("\n");
    }
}

// What a tendon leads along: joints with their coefficients, or sites, geometries and pulleys.
static void print_tendon_part(const ns_tendon_part* part) {
    if (part->joint) {
        printf(" %+g %s", part->factor, part->joint);
    } else if (part->site) {
        printf(" %s", part->site);
    } else if (part->geom) {
        printf(" around %s%s%s", part->geom, part->side ? " by " : "",
               part->side ? part->side : "");
    } else {
        printf(" / %g:", part->factor);
    }
}

static void print_tendons(const ns_model* model) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ntendon; i++) {
        const ns_tendon_def* t = ns_model_tendon(model, i);
        printf("%s  %-24s %s:", i == 0 ? "\ntendons\n" : "", t->name,
               t->parts[0].joint ? "fixed" : "spatial");
        for (uint32_t k = 0; k < t->npart; k++) print_tendon_part(&t->parts[k]);
        print_if("stiffness", t->stiffness);
        if (t->stiffness != 0.0) print_if("rest", t->rest);
        print_if("damping", t->damping);
        print_if("friction", t->friction);
        if (t->limited) printf(", limits %g to %g", t->lower, t->upper);
        printf("\n");
    }
}

// The one thing that a sensor belongs to.
static const char* sensor_of(const ns_sensor_def* s) {
    const char* of[] = {s->joint, s->actuator, s->tendon, s->site};
    for (int k = 0; k < 4; k++) {
        if (of[k]) return of[k];
    }
    return s->link ? s->link : "world";
}

static void print_sensors(const ns_model* model) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nsensor; i++) {
        const ns_sensor_def* s = ns_model_sensor(model, i);
        const ns_sensor_info* info = ns_sensor_type_info(s->type);
        printf("%s  %-24s %s of %s: %s", i == 0 ? "\nsensors\n" : "", s->name, info->name,
               sensor_of(s), info->help);
        print_if("cutoff", s->cutoff);
        printf("\n");
    }
}

static void print_keyframes(const ns_model* model) {
    ns_model_sizes n = ns_model_get_sizes(model);
    for (uint32_t i = 0; i < n.nkeyframe; i++) {
        const ns_keyframe_def* key = ns_model_keyframe(model, i);
        printf("%s  %-24s", i == 0 ? "\nkeyframes (the first is where simulations start)\n" : "",
               key->name);
        print_vector("q", key->q, (int)n.nq);
        printf("\n");
    }
}

static void print_notes(const ns_model* model, ns_ignored_effect effect) {
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nignored; i++) {
        if (ns_model_ignored_effect(model, i) != effect) continue;
        printf("  %s\n", ns_model_ignored(model, i));
    }
}

// The first lines: is something missing that changes the motion, or may?
static void print_completeness(const ns_model* model) {
    uint32_t count = count_notes(model, NS_IGNORED_CHANGING);
    uint32_t unknown = count_notes(model, NS_IGNORED_UNKNOWN);
    if (is_complete(model)) {
        printf("complete: nothing of the file that changes the motion is left out\n");
    }
    if (count > 0) {
        printf("%u %s the motion %s not represented\n", count,
               count == 1 ? "thing that changes" : "things that change", count == 1 ? "is" : "are");
        print_notes(model, NS_IGNORED_CHANGING);
    }
    if (unknown > 0) {
        printf("%u %s unknown and may change the motion\n", unknown,
               unknown == 1 ? "thing is" : "things are");
        print_notes(model, NS_IGNORED_UNKNOWN);
    }
    printf("\n");
}

static void print_ignored(const ns_model* model) {
    if (count_notes(model, NS_IGNORED_HARMLESS) == 0) return;
    printf("\nignored, without effect on the motion\n");
    print_notes(model, NS_IGNORED_HARMLESS);
}

// Numbers of sets and of weights of a network or formula.
static void count_weights(const inspect_additions* a, const char* network, uint32_t* sets,
                          uint32_t* weights) {
    size_t size = strlen(network);
    *sets = *weights = 0;
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(a->system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(a->system, k);
        if (strncmp(m.set, network, size) != 0 || (m.set[size] != 0 && m.set[size] != '/'))
            continue;
        *sets += m.layer == 0;
        *weights += m.rows * m.columns;
    }
}

// A set of coefficients, in the system as it is: those of a file of weights, if there is one.
static void print_coefficients(const inspect_additions* a, const ns_weight_matrix* m) {
    double* weights = cli_zeros(ns_system_get_sizes(a->system).nw);
    if (!weights) return;
    ns_system_default_weights(a->system, weights);
    printf("    %s:", m->set);
    for (uint32_t k = 0; k < m->columns; k++) {
        printf("%s %s %g", k > 0 ? "," : "", m->formula->coefficients[k].name,
               weights[m->offset + k]);
    }
    printf("\n");
    free(weights);
}

static void print_formulas(const inspect_additions* a) {
    for (uint32_t k = 0; k < ns_blueprint_formula_count(a->blueprint); k++) {
        const ns_formula_def* def = ns_blueprint_formula(a->blueprint, k);
        if (k == 0) printf("\nformulas\n");
        printf("  %s at %s: %s\n", def->name, def->output, def->formula);
        for (uint32_t i = 0; i < ns_system_weight_matrix_count(a->system); i++) {
            ns_weight_matrix m = ns_system_weight_matrix(a->system, i);
            if (m.formula == def) print_coefficients(a, &m);
        }
    }
}

static void print_additions(const ns_model* model, const inspect_additions* a) {
    if (!a->system) return;
    if (a->options.contact >= 0)
        printf("\ncontact %s\n", ns_choice_name(&ns_contact_laws, (int)a->options.contact));
    for (uint32_t i = 0, n = 0; i < ns_model_get_sizes(model).nparam; i++) {
        const ns_param* p = ns_model_param(model, i);
        double value = inspect_param_value(a, p);
        if (value == p->value) continue;
        if (n++ == 0) printf("\nchanged parameters\n");
        printf("  %-40s %12g %s, in the robot's file %g\n", p->name, value, p->unit, p->value);
    }
    uint32_t count = a->blueprint ? ns_blueprint_network_count(a->blueprint) : 0;
    for (uint32_t k = 0; k < count; k++) {
        const ns_network_def* def = ns_blueprint_network(a->blueprint, k);
        uint32_t sets, weights;
        count_weights(a, def->name, &sets, &weights);
        if (k == 0) printf("\nnetworks\n");
        printf("  %-24s %u %s, %u weights\n", def->name, sets, sets == 1 ? "set" : "sets", weights);
    }
    print_formulas(a);
}

static void print_model_params(const ns_model* model, const inspect_additions* a, bool all) {
    uint32_t n = ns_model_get_sizes(model).nparam;
    printf("\n%u parameters can be set free%s\n", n, all ? "" : "; --params lists them");
    for (uint32_t i = 0; i < n && all; i++) {
        const ns_param* p = ns_model_param(model, i);
        printf("  %-40s %12g %-10s", p->name, inspect_param_value(a, p), p->unit);
        printf(" [%g, %g] %s\n", p->lower, p->upper,
               ns_choice_name(&ns_param_transforms, (int)p->transform));
    }
}

static int print_model(const ns_model* model, const inspect_additions* a, bool params) {
    ns_model_sizes n = ns_model_get_sizes(model);
    const ns_world_def* world = ns_model_world(model);
    double timestep = a->options.timestep > 0.0 ? a->options.timestep : world->timestep;
    int integrator = a->options.integrator >= 0 ? a->options.integrator : (int)world->integrator;
    tree t;
    if (!make_tree(model, &t)) {
        free_tree(&t);
        return EXIT_FAILED;
    }
    print_completeness(model);
    printf("%s: %u link%s, nq %u, nv %u, nu %u, total mass %g kg\n", ns_model_name(model), n.nlink,
           n.nlink == 1 ? "" : "s", n.nq, n.nv, n.nu, total_mass(model, a));
    print_vector("gravity", world->gravity, 3);
    printf(" m/s^2, time step %g s, integrator %s\n", timestep,
           ns_choice_name(&ns_integrators, (int)integrator));
    print_tree(model, a, &t);
    print_actuators(model, a);
    print_geoms(model, a);
    print_pairs(model, a);
    print_equalities(model);
    print_sites(model);
    print_tendons(model);
    print_sensors(model);
    print_keyframes(model);
    print_additions(model, a);
    print_model_params(model, a, params);
    print_ignored(model);
    free_tree(&t);
    return cli_finish();
}

// ---- for programs --------------------------------------------------------------------------

static void json_pose(ns_json* j, const char* key, const ns_pose* pose) {
    ns_json_open(j, key, '{');
    ns_json_numbers(j, "position", pose->position, 3);
    ns_json_numbers(j, "quaternion", pose->quaternion, 4);
    ns_json_close(j);
}

static void json_indices(ns_json* j, const char* key, uint32_t first, uint32_t count) {
    ns_json_open(j, key, '[');
    for (uint32_t k = 0; k < count; k++) ns_json_count(j, NULL, first + k);
    ns_json_close(j);
}

static void json_link(ns_json* j, const ns_model* model, const inspect_additions* a, uint32_t i) {
    // The link itself.
    const ns_link_def shown = inspect_link(model, a, i), *l = &shown;
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", l->name);
    ns_json_text(j, "parent", l->parent ? l->parent : "world");
    ns_json_number(j, "mass", l->mass);
    // Centre of mass and inertia in the frame of the link.
    ns_json_numbers(j, "com", l->com, 3);
    ns_json_numbers(j, "inertia", l->inertia, 6);

    // The joint that carries it: position in the state vector, and geometry.
    ns_json_open(j, "joint", '{');
    ns_json_text(j, "name", l->joint);
    ns_json_text(j, "type", ns_joint_type_info(l->joint_type)->name);
    // A fixed joint has no coordinates.
    json_indices(j, "q", ns_model_joint_q(model, i), cli_joint_nq(model, i));
    json_indices(j, "qd", ns_model_joint_v(model, i), cli_joint_nv(model, i));
    json_pose(j, "origin", &l->origin);
    ns_json_numbers(j, "axis", l->axis, 3);

    // Passive forces and limits.
    ns_json_number(j, "stiffness", l->stiffness);
    ns_json_number(j, "rest", l->rest);
    ns_json_number(j, "damping", l->damping);
    ns_json_number(j, "friction", l->friction);
    ns_json_number(j, "armature", l->armature);
    ns_json_bool(j, "limited", l->limited);
    ns_json_number(j, "lower", l->lower);
    ns_json_number(j, "upper", l->upper);

    // Coupling to another joint.
    if (l->mimic) {
        ns_json_text(j, "mimic", l->mimic);
        ns_json_number(j, "mimic_multiplier", l->mimic_multiplier);
        ns_json_number(j, "mimic_offset", l->mimic_offset);
    }

    ns_json_close(j);
    ns_json_close(j);
}

static void json_actuator(ns_json* j, const ns_actuator_def* a) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", a->name);
    ns_json_text(j, "type", ns_choice_name(&ns_actuator_types, (int)a->type));
    ns_json_text(j, a->joint ? "joint" : a->tendon ? "tendon" : "site", acts_on(a));
    ns_json_number(j, "gear", a->gear);
    ns_json_number(j, "kp", a->kp);
    ns_json_number(j, "kd", a->kd);
    if (a->control_limited) {
        ns_json_numbers(j, "control_limits", (double[]){a->control_lower, a->control_upper}, 2);
    }
    if (a->force_limited) {
        ns_json_numbers(j, "force_limits", (double[]){a->force_lower, a->force_upper}, 2);
    }
    if (a->type == NS_ACTUATOR_GENERAL) {
        ns_json_numbers(j, "gain", a->gain, 3);
        ns_json_numbers(j, "bias", a->bias, 3);
    }
    if (a->type == NS_ACTUATOR_MUSCLE) {
        ns_json_number(j, "peak_force", a->muscle.force);
        ns_json_numbers(j, "length_range", a->muscle.length_range, 2);
    }
    if (a->dynamics != NS_DYNAMICS_NONE) {
        ns_json_text(j, "dynamics", ns_choice_name(&ns_actuator_dynamics_types, (int)a->dynamics));
        ns_json_number(j, "time_constant", a->time_constant);
    }
    if (a->activation_limited) {
        ns_json_numbers(j, "activation_limits",
                        (double[]){a->activation_lower, a->activation_upper}, 2);
    }
    ns_json_close(j);
}

static void json_geom(ns_json* j, const ns_geom_def* g) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", g->name);
    ns_json_text(j, "link", g->link ? g->link : "world");
    ns_json_text(j, "type", ns_choice_name(&ns_geom_types, (int)g->type));
    ns_json_numbers(j, "size", g->size, 3);
    json_pose(j, "pose", &g->pose);
    if (g->mesh) ns_json_text(j, "mesh", g->mesh);
    if (g->nvertex > 0) ns_json_numbers(j, "vertices", g->vertices, 3 * g->nvertex);
    ns_json_bool(j, "visual", g->visual);
    ns_json_bool(j, "collision", g->collision);
    ns_json_close(j);
}

static void json_pair(ns_json* j, const ns_model* model, const inspect_additions* a, uint32_t i) {
    const ns_contact_def shown = inspect_contact(model, a, i), *c = &shown;
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", c->name);
    ns_json_text(j, "a", c->a);
    ns_json_text(j, "b", c->b);
    ns_json_text(j, "a_type", ns_choice_name(&ns_geom_types, (int)pair_geom(model, i, true)->type));
    ns_json_text(j, "b_type",
                 ns_choice_name(&ns_geom_types, (int)pair_geom(model, i, false)->type));
    ns_json_text(j, "model", ns_choice_name(&ns_contact_laws, (int)c->model));
    ns_json_number(j, "mu", c->mu);
    ns_json_number(j, "mu_torsion", c->mu_torsion);
    ns_json_number(j, "mu_rolling", c->mu_rolling);
    ns_json_number(j, "restitution", c->restitution);
    ns_json_close(j);
}

static void json_equality(ns_json* j, const ns_model* model, uint32_t i) {
    const ns_equality_def* e = ns_model_equality(model, i);
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", e->name);
    ns_json_text(j, "type", ns_choice_name(&ns_equality_types, (int)e->type));
    ns_json_text(j, "a", e->a ? e->a : "world");
    if (e->b || e->type != NS_EQUALITY_JOINT) ns_json_text(j, "b", e->b ? e->b : "world");
    ns_json_count(j, "equations", ns_model_equality_rows(model, i));
    ns_json_close(j);
}

static void json_tendon(ns_json* j, const ns_tendon_def* t) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", t->name);
    ns_json_open(j, "parts", '[');
    for (uint32_t k = 0; k < t->npart; k++) {
        const ns_tendon_part* part = &t->parts[k];
        ns_json_open(j, NULL, '{');
        if (part->joint) ns_json_text(j, "joint", part->joint);
        if (part->site) ns_json_text(j, "site", part->site);
        if (part->geom) ns_json_text(j, "geom", part->geom);
        if (part->side) ns_json_text(j, "side", part->side);
        if (part->joint) ns_json_number(j, "coefficient", part->factor);
        if (!part->joint && !part->site && !part->geom) ns_json_number(j, "divisor", part->factor);
        ns_json_close(j);
    }
    ns_json_close(j);
    ns_json_number(j, "stiffness", t->stiffness);
    ns_json_number(j, "rest", t->rest);
    ns_json_number(j, "slack", t->slack);
    ns_json_number(j, "damping", t->damping);
    ns_json_number(j, "friction", t->friction);
    if (t->limited) ns_json_numbers(j, "limits", (double[]){t->lower, t->upper}, 2);
    ns_json_close(j);
}

// Sites, tendons and sensors.
static void json_instruments(ns_json* j, const ns_model* model) {
    ns_model_sizes n = ns_model_get_sizes(model);
    ns_json_open(j, "sites", '[');
    for (uint32_t i = 0; i < n.nsite; i++) {
        const ns_site_def* s = ns_model_site(model, i);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", s->name);
        ns_json_text(j, "link", s->link ? s->link : "world");
        json_pose(j, "pose", &s->pose);
        ns_json_close(j);
    }
    ns_json_close(j);

    ns_json_open(j, "tendons", '[');
    for (uint32_t i = 0; i < n.ntendon; i++) json_tendon(j, ns_model_tendon(model, i));
    ns_json_close(j);

    ns_json_open(j, "sensors", '[');
    for (uint32_t i = 0; i < n.nsensor; i++) {
        const ns_sensor_def* s = ns_model_sensor(model, i);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", s->name);
        ns_json_text(j, "type", ns_sensor_type_info(s->type)->name);
        ns_json_text(j, "of", sensor_of(s));
        ns_json_count(j, "size", ns_sensor_type_info(s->type)->size);
        ns_json_number(j, "cutoff", s->cutoff);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void json_param(ns_json* j, const inspect_additions* a, const ns_param* p) {
    ns_json_open(j, NULL, '{');
    ns_json_text(j, "name", p->name);
    ns_json_text(j, "unit", p->unit);
    ns_json_number(j, "value", inspect_param_value(a, p));
    ns_json_number(j, "lower", p->lower); // null: no bound
    ns_json_number(j, "upper", p->upper);
    ns_json_text(j, "transform", ns_choice_name(&ns_param_transforms, (int)p->transform));
    ns_json_close(j);
}

static void json_networks(ns_json* j, const inspect_additions* a) {
    if (!a->blueprint) return;
    ns_json_open(j, "networks", '[');
    for (uint32_t k = 0; k < ns_blueprint_network_count(a->blueprint); k++) {
        const ns_network_def* def = ns_blueprint_network(a->blueprint, k);
        uint32_t sets, weights;
        count_weights(a, def->name, &sets, &weights);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", def->name);
        ns_json_count(j, "sets", sets);
        ns_json_count(j, "weights", weights);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void json_formulas(ns_json* j, const inspect_additions* a) {
    if (ns_blueprint_formula_count(a->blueprint) == 0) return;
    ns_json_open(j, "formulas", '[');
    for (uint32_t k = 0; k < ns_blueprint_formula_count(a->blueprint); k++) {
        const ns_formula_def* def = ns_blueprint_formula(a->blueprint, k);
        uint32_t sets, weights;
        count_weights(a, def->name, &sets, &weights);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", def->name);
        ns_json_text(j, "formula", def->formula);
        ns_json_count(j, "sets", sets);
        ns_json_count(j, "coefficients", weights);
        ns_json_close(j);
    }
    ns_json_close(j);
}

static void json_notes(ns_json* j, const char* key, const ns_model* model,
                       ns_ignored_effect effect) {
    ns_json_open(j, key, '[');
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nignored; i++) {
        if (ns_model_ignored_effect(model, i) != effect) continue;
        ns_json_text(j, NULL, ns_model_ignored(model, i));
    }
    ns_json_close(j);
}

static int print_model_json(const ns_model* model, const inspect_additions* a) {
    ns_model_sizes n = ns_model_get_sizes(model);
    const ns_world_def* world = ns_model_world(model);

    // Sizes and world; a hybrid model overrides time step and integrator of the robot.
    ns_json* j = ns_json_create(NULL);
    ns_json_text(j, "name", ns_model_name(model));
    ns_json_bool(j, "complete", is_complete(model));
    json_notes(j, "not_represented", model, NS_IGNORED_CHANGING);
    json_notes(j, "unknown", model, NS_IGNORED_UNKNOWN);
    ns_json_count(j, "nq", n.nq);
    ns_json_count(j, "nv", n.nv);
    ns_json_count(j, "nu", n.nu);
    // A quick plausibility check of a robot file.
    ns_json_number(j, "total_mass", total_mass(model, a));
    ns_json_numbers(j, "gravity", world->gravity, 3);
    ns_json_number(j, "timestep",
                   a->options.timestep > 0.0 ? a->options.timestep : world->timestep);
    int integrator = a->options.integrator >= 0 ? a->options.integrator : (int)world->integrator;
    ns_json_text(j, "integrator", ns_choice_name(&ns_integrators, (int)integrator));

    // Parts of the robot.
    ns_json_open(j, "links", '[');
    for (uint32_t i = 0; i < n.nlink; i++) json_link(j, model, a, i);
    ns_json_close(j);
    ns_json_open(j, "actuators", '[');
    for (uint32_t i = 0; i < n.nu; i++) {
        ns_actuator_def actuator = inspect_actuator(model, a, i);
        json_actuator(j, &actuator);
    }
    ns_json_close(j);
    ns_json_open(j, "geoms", '[');
    for (uint32_t i = 0; i < n.ngeom; i++) {
        ns_geom_def geom = inspect_geom(model, a, i);
        json_geom(j, &geom);
    }
    ns_json_close(j);
    // Contact pairs that the collision filter leaves.
    ns_json_open(j, "pairs", '[');
    for (uint32_t i = 0; i < n.ncontact; i++) json_pair(j, model, a, i);
    ns_json_close(j);

    // States with names.
    ns_json_open(j, "keyframes", '[');
    for (uint32_t i = 0; i < n.nkeyframe; i++) {
        const ns_keyframe_def* key = ns_model_keyframe(model, i);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", key->name);
        ns_json_numbers(j, "q", key->q, n.nq);
        ns_json_numbers(j, "qd", key->qd, n.nv);
        ns_json_numbers(j, "control", key->control, n.nu);
        ns_json_numbers(j, "activation", key->activation, n.nu);
        ns_json_close(j);
    }
    ns_json_close(j);

    ns_json_open(j, "equalities", '[');
    for (uint32_t i = 0; i < n.nequality; i++) json_equality(j, model, i);
    ns_json_close(j);
    ns_json_count(j, "freedom", n.nequality > 0 ? count_freedom(model) : n.nv);

    json_instruments(j, model);

    // Parameters, and what a hybrid model adds.
    ns_json_open(j, "parameters", '[');
    for (uint32_t i = 0; i < n.nparam; i++) json_param(j, a, ns_model_param(model, i));
    ns_json_close(j);
    json_networks(j, a);
    json_formulas(j, a);

    // What of the file was ignored without effect on the motion.
    json_notes(j, "ignored", model, NS_IGNORED_HARMLESS);

    return cli_print_json(j);
}

int cmd_inspect(int argc, char** argv) {
    bool params = false, as_json = false;
    cli_load load = {.options = ns_default_load_options()};
    // Options, in the order of the help text.
    const cli_row rows[] = {{"--params", CLI_FLAG, &params, NULL},
                            {"--json", CLI_FLAG, &as_json, NULL},
                            CLI_LOAD_ROWS(load),
                            {0}};

    // Validate the arguments before the model is loaded.
    cli_list arguments = {.count = 0};
    int code = cli_parse("inspect", help, rows, argc, argv, &arguments);
    if (code != CLI_GO_ON) return code;
    const char* path = cli_model_argument("inspect", &arguments);
    if (!path) return EXIT_USAGE;

    // Load the model; creating a system checks that the additions of a hybrid model fit the robot.
    cli_model m;
    inspect_additions added = {.options = ns_default_system_options()};
    ns_system* system = NULL;
    bool ok = cli_model_load(path, &load, NULL, &m);
    if (ok) {
        cli_model_apply(&m, &added.options);
        added.blueprint = m.blueprint;
        if (ns_hybrid_is_path(path)) { // does what it adds fit the robot?
            added.options.backend = NS_BACKEND_INTERP;
            added.system = system = cli_create_system(m.model, &added.options);
            ok = system != NULL;
        }
    }

    code = EXIT_FAILED;
    if (ok)
        code = as_json ? print_model_json(m.model, &added) : print_model(m.model, &added, params);

    ns_system_free(system);
    cli_model_free(&m);
    return code;
}
