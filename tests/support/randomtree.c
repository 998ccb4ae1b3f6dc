#include "support/randomtree.h"

#include "model/model_data.h"
#include "model/pose.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

// ---- numbers -------------------------------------------------------------------------------

static bool chance(ns_rng* rng, double p) {
    return ns_rng_uniform(rng, 0.0, 1.0) < p;
}

void random_unit(ns_rng* rng, double v[3]) {
    do {
        for (int i = 0; i < 3; i++) v[i] = ns_rng_normal(rng);
    } while (!nsi_normalize(v, 3));
}

void random_quaternion(ns_rng* rng, double q[4]) {
    do {
        for (int i = 0; i < 4; i++) q[i] = ns_rng_normal(rng);
    } while (!nsi_normalize(q, 4));
}

// Sometimes a coordinate axis, forwards or backwards, for which expressions fold.
static void random_axis(ns_rng* rng, double axis[3]) {
    if (!chance(rng, 0.4)) {
        random_unit(rng, axis);
        return;
    }
    axis[0] = axis[1] = axis[2] = 0.0;
    axis[ns_rng_below(rng, 3)] = chance(rng, 0.5) ? 1.0 : -1.0;
}

static ns_pose random_pose(ns_rng* rng) {
    ns_pose pose = nsi_pose_identity();
    if (!chance(rng, 0.1)) {
        for (int i = 0; i < 3; i++) pose.position[i] = ns_rng_uniform(rng, -0.5, 0.5);
    }
    if (!chance(rng, 0.2)) random_quaternion(rng, pose.quaternion);
    return pose;
}

// A body of second moments S = integral of rho x x' has the inertia tr(S) 1 - S.
static void random_inertia(ns_rng* rng, ns_link_def* link) {
    double s[3], principal[6] = {0.0}, turn[4];
    link->mass = ns_rng_uniform(rng, 0.3, 3.0);
    for (int i = 0; i < 3; i++) {
        double radius = ns_rng_uniform(rng, 0.05, 0.3);
        s[i] = link->mass * radius * radius;
    }
    if (chance(rng, 0.1)) s[0] = 0.0; // a plate: on the border of what is physical
    for (int i = 0; i < 3; i++) principal[i] = s[(i + 1) % 3] + s[(i + 2) % 3];
    random_quaternion(rng, turn);
    nsi_inertia_rotate(turn, principal, link->inertia);
    for (int i = 0; i < 3; i++) link->com[i] = ns_rng_uniform(rng, -0.3, 0.3);
}

// ---- joints --------------------------------------------------------------------------------

static bool has_axis(const ns_link_def* link) {
    return link->joint_type == NS_JOINT_REVOLUTE || link->joint_type == NS_JOINT_PRISMATIC;
}

static ns_joint_type random_joint_type(ns_rng* rng, const random_tree_options* o, uint32_t i) {
    if (i == 0 && o->root == ROOT_FLOATING) return NS_JOINT_FLOATING;
    if (i == 0 && o->root == ROOT_ANY && chance(rng, 0.35)) return NS_JOINT_FLOATING;
    double x = ns_rng_uniform(rng, 0.0, 1.0);
    if (x < 0.15 && !o->no_welds && o->nlink > 1) return NS_JOINT_FIXED;
    return x < 0.55 ? NS_JOINT_REVOLUTE : x < 0.8 ? NS_JOINT_PRISMATIC : NS_JOINT_SPHERICAL;
}

static void random_joint_forces(ns_rng* rng, const random_tree_options* o, ns_link_def* link) {
    if (link->joint_type == NS_JOINT_FIXED) return;
    if ((o->springs || o->forces) && has_axis(link) && chance(rng, 0.5)) {
        link->stiffness = ns_rng_uniform(rng, 1.0, 20.0);
        link->rest = ns_rng_uniform(rng, -0.5, 0.5);
    }
    if (o->armature && chance(rng, 0.5)) link->armature = ns_rng_uniform(rng, 0.01, 0.5);
    if (!o->forces) return;
    if (chance(rng, 0.5)) link->damping = ns_rng_uniform(rng, 0.05, 1.0);
    if (chance(rng, 0.4)) {
        // Slip velocities that central differences resolve.
        link->friction = ns_rng_uniform(rng, 0.05, 1.0);
        link->friction_velocity = ns_rng_uniform(rng, 0.2, 1.0);
    }
    if (has_axis(link) && chance(rng, 0.5)) {
        link->limited = true;
        link->lower = ns_rng_uniform(rng, -1.0, -0.1);
        link->upper = ns_rng_uniform(rng, 0.1, 1.0);
        link->limit_stiffness = ns_rng_uniform(rng, 10.0, 50.0);
        link->limit_damping = ns_rng_uniform(rng, 0.1, 1.0);
    }
}

// Follow an earlier joint that turns or slides.
static void random_mimic(ns_rng* rng, const random_tree* tree, ns_link_def* link) {
    if (!has_axis(link) || !chance(rng, 0.4)) return;
    uint32_t first = tree->nlink > 0 ? ns_rng_below(rng, tree->nlink) : 0;
    for (uint32_t k = 0; k < tree->nlink; k++) {
        const ns_link_def* leader = &tree->link[(first + k) % tree->nlink];
        if (!has_axis(leader)) continue;
        link->mimic = leader->joint;
        link->mimic_multiplier = ns_rng_uniform(rng, 0.5, 2.0) * (chance(rng, 0.5) ? 1.0 : -1.0);
        link->mimic_offset = ns_rng_uniform(rng, -0.5, 0.5);
        return;
    }
}

static ns_actuator_def random_actuator(ns_rng* rng, const ns_link_def* link, const char* name) {
    ns_actuator_def a = ns_default_actuator_def();
    a.name = name;
    a.joint = link->joint;
    a.type = (ns_actuator_type)ns_rng_below(rng, NS_ACTUATOR_SERIES_ELASTIC + 1);
    a.gear = ns_rng_uniform(rng, 0.5, 2.0) * (chance(rng, 0.7) ? 1.0 : -1.0);
    a.kp = ns_rng_uniform(rng, 1.0, 10.0);
    a.kd = ns_rng_uniform(rng, 0.01, 0.1);
    if (chance(rng, 0.3)) {
        a.control_limited = true;
        a.control_lower = ns_rng_uniform(rng, -1.0, -0.3);
        a.control_upper = ns_rng_uniform(rng, 0.3, 1.0);
    }
    if (chance(rng, 0.3)) {
        a.force_limited = true;
        a.force_lower = ns_rng_uniform(rng, -4.0, -1.0);
        a.force_upper = ns_rng_uniform(rng, 1.0, 4.0);
    }
    return a;
}

// ---- trees ---------------------------------------------------------------------------------

typedef struct tree_names {
    char link[8], joint[16], motor[16];
} tree_names;

static const tree_names* names_of(uint32_t i) {
    static tree_names names[RANDOM_TREE_LINKS];
    tree_names* n = &names[i];
    if (n->link[0] == '\0') {
        snprintf(n->link, sizeof n->link, "l%u", (unsigned)i % 1000);
        snprintf(n->joint, sizeof n->joint, "l%u_joint", (unsigned)i % 1000);
        snprintf(n->motor, sizeof n->motor, "l%u_motor", (unsigned)i % 1000);
    }
    return n;
}

static const char* random_parent(ns_rng* rng, const random_tree_options* o, uint32_t i) {
    if (i == 0) return NULL;
    if (!o->one_root && chance(rng, 0.08)) return NULL;
    return names_of(chance(rng, 0.6) ? i - 1 : ns_rng_below(rng, i))->link;
}

static bool is_parent(const random_tree* tree, uint32_t link) {
    for (uint32_t i = link + 1; i < tree->nlink; i++) {
        if (tree->link[i].parent && strcmp(tree->link[i].parent, tree->link[link].name) == 0) {
            return true;
        }
    }
    return false;
}

// Take the mass off links that need none: welded ones, and such with one joint axis that carry
// others, as long as the builder has no objection. One mass is left, since a robot without any has
// no centre of mass.
static void remove_masses(ns_rng* rng, random_tree* tree) {
    uint32_t heavy = tree->nlink;
    for (uint32_t i = 0; i < tree->nlink && heavy > 1; i++) {
        ns_link_def *link = &tree->link[i], full = *link;
        bool carries = has_axis(link) && is_parent(tree, i);
        if (!(carries || link->joint_type == NS_JOINT_FIXED) || !chance(rng, 0.25)) continue;
        link->mass = 0.0;
        for (int k = 0; k < 3; k++) link->com[k] = 0.0;
        for (int k = 0; k < 6; k++) link->inertia[k] = 0.0;
        ns_model* model = random_tree_try(tree, NULL, NULL);
        if (!model) *link = full;
        if (model) heavy--;
        ns_model_free(model);
    }
}

void random_tree_make(random_tree* tree, const random_tree_options* o) {
    ns_rng rng = ns_rng_seed(o->seed);
    *tree = (random_tree){.world = ns_default_world_def()};
    for (uint32_t i = 0; i < o->nlink; i++) {
        ns_link_def link = ns_default_link_def();
        link.name = names_of(i)->link;
        link.joint = names_of(i)->joint;
        link.parent = random_parent(&rng, o, i);
        link.joint_type = random_joint_type(&rng, o, i);
        link.origin = random_pose(&rng);
        random_axis(&rng, link.axis);
        random_inertia(&rng, &link);
        random_joint_forces(&rng, o, &link);
        if (o->mimic) random_mimic(&rng, tree, &link);
        if (o->actuators && has_axis(&link) && !link.mimic && chance(&rng, 0.5)) {
            tree->actuator[tree->nactuator++] = random_actuator(&rng, &link, names_of(i)->motor);
        }
        tree->link[tree->nlink++] = link;
    }
    if (!o->no_welds) remove_masses(&rng, tree);
}

ns_model* random_tree_try(const random_tree* tree, const ns_allocator* allocator, ns_error* error) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_status status = ns_model_builder_create(allocator, &builder, error);
    if (status == NS_OK) status = ns_model_builder_set_world(builder, &tree->world, error);
    for (uint32_t i = 0; i < tree->nlink && status == NS_OK; i++) {
        status = ns_model_builder_add_link(builder, &tree->link[i], error);
    }
    for (uint32_t i = 0; i < tree->nactuator && status == NS_OK; i++) {
        status = ns_model_builder_add_actuator(builder, &tree->actuator[i], error);
    }
    if (status == NS_OK) ns_model_builder_finish(builder, &model, error);
    ns_model_builder_free(builder);
    return model;
}

ns_model* random_tree_build(const random_tree* tree, const ns_allocator* allocator) {
    ns_error error = {0};
    ns_model* model = random_tree_try(tree, allocator, &error);
    if (!model) fail_msg("random tree refused: %s", error.message);
    return model;
}

uint32_t random_tree_find(const random_tree* tree, const char* name) {
    for (uint32_t i = 0; i < tree->nlink && name; i++) {
        if (strcmp(tree->link[i].name, name) == 0) return i;
    }
    return UINT32_MAX;
}

// ---- states --------------------------------------------------------------------------------

void random_state(const ns_model* model, ns_rng* rng, double* q, double* qd) {
    ns_model_sizes n = ns_model_get_sizes(model);
    for (uint32_t i = 0; i < n.nlink; i++) {
        const nsi_link* link = &model->links[i];
        double* at = q + link->q;
        double reach = link->def.joint_type == NS_JOINT_REVOLUTE ? 3.0 : 0.5;
        if (link->nq == 1) at[0] = ns_rng_uniform(rng, -reach, reach);
        if (link->nq == 4) random_quaternion(rng, at);
        if (link->nq == 7) {
            for (int k = 0; k < 3; k++) at[k] = ns_rng_uniform(rng, -1.0, 1.0);
            random_quaternion(rng, at + 3);
        }
    }
    for (uint32_t k = 0; k < n.nv; k++) qd[k] = ns_rng_uniform(rng, -2.0, 2.0);
}

void move_coordinates(const ns_model* model, const double* q, const double* dq, double* out) {
    for (uint32_t i = 0; i < model->sizes.nlink; i++) {
        const nsi_link* link = &model->links[i];
        uint32_t plain = link->nq == 7 ? 3 : link->nq == 4 ? 0 : link->nq;
        for (uint32_t k = 0; k < plain; k++) out[link->q + k] = q[link->q + k] + dq[link->v + k];
        if (plain == link->nq) continue;
        const double* w = dq + link->v + plain;
        double angle = sqrt(w[0] * w[0] + w[1] * w[1] + w[2] * w[2]);
        // sin(angle / 2) / angle, the series where the quotient loses digits.
        double s = angle < 1e-4 ? 0.5 - angle * angle / 48.0 : sin(0.5 * angle) / angle;
        double turn[4] = {cos(0.5 * angle), s * w[0], s * w[1], s * w[2]};
        nsi_quat_multiply(q + link->q + plain, turn, out + link->q + plain);
    }
}
