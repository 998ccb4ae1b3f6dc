// Welded links are merged, mimic joints are a projection, and only what is asked for is traced.

#include "dyn/dynamics_rig.h"
#include "dyn/robot.h"
#include "expr/graph.h"
#include "model/pose.h"
#include "sim/system.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"
#include "support/tracing.h"

#include <stdlib.h>
#include <string.h>

// ---- frames --------------------------------------------------------------------------------

// Everything that should be equal for two descriptions of one robot.
// Mass matrix and Jacobians are traced for those who ask for them, in whatever way, and for no one
// else: there are as many of them as pairs of joints.
static void only_what_is_asked_for_is_traced(void** state) {
    (void)state;
    static const struct {
        const char* pattern;
        uint32_t count; // of the quadruped
    } cases[] = {{"energy/total", 1},
                 {"link/**/pose/*", 13 * 7},
                 {"mass_matrix", 18 * 18},
                 {"mass_matrix/1?/17", 8},
                 {"link/*/jacobian/linear/2/17", 13},
                 {"link/*/jacobian/linear/?/??", 13 * 3 * 8},
                 {"**/1/12", 1 + 13 * 2}};
    ns_model* model = NULL;
    assert_int_equal(
        ns_model_load(NEURALSIM_SOURCE_DIR "/models/quadruped.urdf", NULL, &model, NULL), NS_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_system_options options = ns_default_system_options();
        ns_system* system = NULL;
        options.observe = &cases[k].pattern;
        options.nobserve = 1;
        assert_int_equal(ns_system_create(model, &options, &system, NULL), NS_OK);
        assert_int_equal(ns_system_get_sizes(system).ny, cases[k].count);
        for (uint32_t i = 0; i < system->graph->quantities.count && k < 2; i++) {
            const char* name = system->graph->quantities.data[i].name;
            if (strncmp(name, "mass_matrix/", 12) == 0) fail_msg("%s is traced", name);
        }
        ns_system_free(system);
    }
    ns_model_free(model);
}

// ---- welded links --------------------------------------------------------------------------

// Add a body to another: masses, centres of mass and inertias about the common one.
static void add_body(ns_link_def* to, const ns_pose* pose, const ns_link_def* from) {
    double com[3], moments[6], total = to->mass + from->mass;
    nsi_quat_rotate(pose->quaternion, from->com, com);
    for (int i = 0; i < 3; i++) com[i] += pose->position[i];
    nsi_inertia_rotate(pose->quaternion, from->inertia, moments);
    if (total == 0.0) return;
    double common[3], offset[3];
    for (int i = 0; i < 3; i++) common[i] = (to->mass * to->com[i] + from->mass * com[i]) / total;
    for (int i = 0; i < 3; i++) offset[i] = to->com[i] - common[i];
    nsi_inertia_shift(to->mass, offset, to->inertia);
    for (int i = 0; i < 3; i++) offset[i] = com[i] - common[i];
    nsi_inertia_shift(from->mass, offset, moments);
    for (int i = 0; i < 6; i++) to->inertia[i] += moments[i];
    for (int i = 0; i < 3; i++) to->com[i] = common[i];
    to->mass = total;
}

// The same robot without fixed joints.
static void merge_welded(const random_tree* tree, random_tree* merged) {
    ns_pose place[RANDOM_TREE_LINKS]; // of each link in its body
    uint32_t body[RANDOM_TREE_LINKS]; // in `merged`, or UINT32_MAX for the world
    merged->world = tree->world;
    merged->nlink = merged->nactuator = 0;
    for (uint32_t i = 0; i < tree->nlink; i++) {
        ns_link_def link = tree->link[i];
        uint32_t parent = random_tree_find(tree, link.parent);
        ns_pose origin = link.origin;
        if (parent != UINT32_MAX) origin = nsi_pose_compose(&place[parent], &link.origin);
        uint32_t carrier = parent == UINT32_MAX ? UINT32_MAX : body[parent];
        if (link.joint_type == NS_JOINT_FIXED) {
            place[i] = origin;
            body[i] = carrier;
            if (carrier != UINT32_MAX) add_body(&merged->link[carrier], &origin, &link);
        } else {
            link.origin = origin;
            link.parent = carrier == UINT32_MAX ? NULL : merged->link[carrier].name;
            place[i] = nsi_pose_identity();
            body[i] = merged->nlink;
            merged->link[merged->nlink++] = link;
        }
    }
}

static void welded_links_are_merged_inertias(void** state) {
    (void)state;
    residual r = {.name = "welded against merged: accelerations", .tolerance = SOLVED};
    residual M = {.name = "welded against merged: M, bias, energy", .tolerance = ROUNDING};
    ns_rng rng = ns_rng_seed(18);
    uint32_t welds = 0;
    for (uint32_t n = 0; n < 60; n++) {
        random_tree tree, merged;
        random_tree_options o = vary((random_tree_options){.seed = 700}, n);
        random_tree_make(&tree, &o);
        merge_welded(&tree, &merged);
        ns_model* a = random_tree_build(&tree, NULL);
        ns_model_sizes z = ns_model_get_sizes(a);
        if (merged.nlink > 0 && merged.nlink < tree.nlink) {
            welds += tree.nlink - merged.nlink;
            ns_model* b = random_tree_build(&merged, NULL);
            evaluator* ea = evaluator_create(a, robot_quantities);
            evaluator* eb = evaluator_create(b, robot_quantities);
            random_state(a, &rng, ea->q, ea->qd);
            randomize(&rng, ea->tau, z.nv, 2.0);
            memcpy(eb->q, ea->q, z.nq * sizeof(double));
            memcpy(eb->qd, ea->qd, z.nv * sizeof(double));
            memcpy(eb->tau, ea->tau, z.nv * sizeof(double));
            evaluator_run(ea);
            evaluator_run(eb);
            residual_array(&r, evaluator_get(ea, "qdd/0"), evaluator_get(eb, "qdd/0"), z.nv, 1.0);
            residual_array(&M, evaluator_get(ea, "mass_matrix/0/0"),
                           evaluator_get(eb, "mass_matrix/0/0"), (size_t)z.nv * z.nv, 0.1);
            residual_array(&M, evaluator_get(ea, "bias/0"), evaluator_get(eb, "bias/0"), z.nv, 1.0);
            residual_array(&M, evaluator_get(ea, "energy/kinetic"),
                           evaluator_get(eb, "energy/kinetic"), 3, 1.0);
            evaluator_free(ea);
            evaluator_free(eb);
            ns_model_free(b);
        }
        ns_model_free(a);
    }
    assert_in_range(welds, 20, 1000);
    residual_check(&r);
    residual_check(&M);
}

// ---- mimic joints --------------------------------------------------------------------------

// q_full = G q + g with constant G: M = G' M_full G, forces G' f, and no further terms.
static void mimic_joints_are_a_projection(void** state) {
    (void)state;
    residual M = {.name = "mimic: mass matrix and bias", .tolerance = ROUNDING};
    residual tau = {.name = "mimic: joint forces", .tolerance = ROUNDING};
    residual r = {.name = "mimic: accelerations", .tolerance = SOLVED};
    ns_rng rng = ns_rng_seed(19);
    uint32_t followers = 0;
    for (uint32_t n = 0; n < 80; n++) {
        random_tree tree, full;
        random_tree_options o = {.mimic = true, .armature = true, .forces = true, .seed = 800};
        o = vary(o, n);
        random_tree_make(&tree, &o);
        full = tree;
        for (uint32_t i = 0; i < full.nlink; i++) full.link[i].mimic = NULL;
        // A link that the followed joint moves may be massless; alone it may not.
        ns_model *a = random_tree_build(&tree, NULL), *b = random_tree_try(&full, NULL, NULL);
        ns_model_sizes z = ns_model_get_sizes(a), zb = ns_model_get_sizes(b);
        if (b && zb.nv > z.nv) {
            const char* const observe[] = {"qdd", "mass_matrix", "bias", "joint/*/tau", NULL};
            evaluator *ea = evaluator_create(a, observe), *eb = evaluator_create(b, observe);
            double G[MAX_V * MAX_V] = {0.0}, MG[MAX_V * MAX_V], GMG[MAX_V * MAX_V] = {0.0};
            double forces[MAX_V] = {0.0}, bias[MAX_V] = {0.0}, want[MAX_V];
            random_state(a, &rng, ea->q, ea->qd);
            for (uint32_t i = 0; i < tree.nlink; i++) {
                const nsi_link *la = &a->links[i], *lb = &b->links[i];
                if (la->mimic != NSI_NONE) {
                    double multiplier = la->def.mimic_multiplier;
                    eb->q[lb->q] = multiplier * ea->q[la->q] + la->def.mimic_offset;
                    eb->qd[lb->v] = multiplier * ea->qd[la->v];
                    G[lb->v * z.nv + la->v] = multiplier;
                    followers++;
                }
                for (uint32_t k = 0; k < la->nq; k++) eb->q[lb->q + k] = ea->q[la->q + k];
                for (uint32_t k = 0; k < la->nv; k++) {
                    eb->qd[lb->v + k] = ea->qd[la->v + k];
                    G[(lb->v + k) * z.nv + la->v + k] = 1.0;
                }
            }
            randomize(&rng, eb->tau, zb.nv, 2.0);
            for (uint32_t k = 0; k < z.nv; k++) { // tau = G' tau_full
                ea->tau[k] = 0.0;
                for (uint32_t i = 0; i < zb.nv; i++) ea->tau[k] += G[i * z.nv + k] * eb->tau[i];
            }
            evaluator_run(ea);
            evaluator_run(eb);

            const double* full_M = evaluator_get(eb, "mass_matrix/0/0");
            const double* full_bias = evaluator_get(eb, "bias/0");
            const double* full_tau = full_bias + zb.nv; // all joint forces follow the bias
            for (uint32_t i = 0; i < zb.nv; i++) {
                for (uint32_t k = 0; k < z.nv; k++) {
                    MG[i * z.nv + k] = 0.0;
                    for (uint32_t j = 0; j < zb.nv; j++) {
                        MG[i * z.nv + k] += full_M[i * zb.nv + j] * G[j * z.nv + k];
                    }
                    forces[k] += G[i * z.nv + k] * full_tau[i];
                    bias[k] += G[i * z.nv + k] * full_bias[i];
                }
            }
            for (uint32_t i = 0; i < zb.nv; i++) {
                for (uint32_t k = 0; k < z.nv * z.nv; k++) {
                    GMG[k] += G[i * z.nv + k / z.nv] * MG[i * z.nv + k % z.nv];
                }
            }
            residual_array(&M, evaluator_get(ea, "mass_matrix/0/0"), GMG, (size_t)z.nv * z.nv, 0.1);
            residual_array(&M, evaluator_get(ea, "bias/0"), bias, z.nv, 1.0);
            residual_array(&tau, evaluator_get(ea, "bias/0") + z.nv, forces, z.nv, 1.0);
            for (uint32_t k = 0; k < z.nv; k++) want[k] = forces[k] - bias[k];
            assert_true(cholesky(z.nv, GMG));
            cholesky_solve(z.nv, GMG, want, want);
            residual_array(&r, evaluator_get(ea, "qdd/0"), want, z.nv, 1.0);
            evaluator_free(ea);
            evaluator_free(eb);
        }
        ns_model_free(a);
        ns_model_free(b);
    }
    assert_in_range(followers, 20, 1000);
    residual_check(&M);
    residual_check(&tau);
    residual_check(&r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(welded_links_are_merged_inertias),
        cmocka_unit_test(mimic_joints_are_a_projection),
        cmocka_unit_test(only_what_is_asked_for_is_traced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
