// Kinematics: Jacobians are velocities and slopes of poses.

#include "dyn/dynamics_rig.h"
#include "dyn/robot.h"
#include "expr/graph.h"
#include "model/pose.h"
#include "sim/system.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/randomtree.h"
#include "support/residual.h"

#include <stdio.h>
#include <string.h>

// ---- differences ---------------------------------------------------------------------------

// Angular velocity in the world of a quaternion and its rate: 2 dq/dt q*.
static void angular_velocity(const double q[4], const double rate[4], double w[3]) {
    double conjugate[4] = {q[0], -q[1], -q[2], -q[3]}, product[4];
    nsi_quat_multiply(rate, conjugate, product);
    for (int i = 0; i < 3; i++) w[i] = 2.0 * product[i + 1];
}

// ---- kinematics ----------------------------------------------------------------------------

typedef struct kinematics_residuals {
    residual velocity, linear, angular, unit;
} kinematics_residuals;

static void compare_link(evaluator* e, const char* link, const double* q, const double* qd,
                         kinematics_residuals* r) {
    uint32_t nv = e->sizes.nv;
    double pose[7], twist[6], world[6], J[2][3 * MAX_V], got[6];
    char first[64];
    memcpy(pose, evaluator_get(e, "link/%s/pose/x", link), sizeof pose);
    memcpy(twist, evaluator_get(e, "link/%s/velocity/angular/x", link), sizeof twist);
    memcpy(J[0], evaluator_get(e, "link/%s/jacobian/linear/0/0", link), 3 * nv * sizeof(double));
    memcpy(J[1], evaluator_get(e, "link/%s/jacobian/angular/0/0", link), 3 * nv * sizeof(double));
    residual_add(&r->unit, dot(4, pose + 3, pose + 3), 1.0, 1.0);

    // J qd is the twist, turned into the world's axes.
    nsi_quat_rotate(pose + 3, twist, world + 3);
    nsi_quat_rotate(pose + 3, twist + 3, world);
    multiply(3, nv, J[0], qd, got);
    multiply(3, nv, J[1], qd, got + 3);
    residual_array(&r->velocity, got, world, 6, 1.0);

    // Column k is how the pose changes with velocity k.
    snprintf(first, sizeof first, "link/%s/pose/x", link);
    for (uint32_t k = 0; k < nv; k++) {
        double unit[MAX_V] = {0.0}, rate[7], w[3];
        unit[k] = 1.0;
        observation_rate(e, q, qd, unit, NULL, 1e-2, first, 7, rate);
        angular_velocity(pose + 3, rate + 3, w);
        for (uint32_t row = 0; row < 3; row++) {
            residual_add(&r->linear, J[0][row * nv + k], rate[row], 1.0);
            residual_add(&r->angular, J[1][row * nv + k], w[row], 1.0);
        }
    }
}

static void jacobians_are_velocities_and_slopes_of_poses(void** state) {
    (void)state;
    kinematics_residuals r = {
        {.name = "J qd = velocity of the link", .tolerance = ROUNDING},
        {.name = "linear Jacobian = slope of position", .tolerance = DIFFERENCES},
        {.name = "angular Jacobian = slope of orientation", .tolerance = DIFFERENCES},
        {.name = "orientations are unit quaternions", .tolerance = ROUNDING}};
    ns_rng rng = ns_rng_seed(12);
    const char* const observe[] = {"link/*/pose", "link/*/velocity", "link/*/jacobian/linear",
                                   "link/*/jacobian/angular", NULL};
    for (uint32_t n = 0; n < 24; n++) {
        random_tree tree;
        random_tree_options o = vary((random_tree_options){.mimic = n % 2}, n);
        random_tree_make(&tree, &o);
        ns_model* model = random_tree_build(&tree, NULL);
        if (ns_model_get_sizes(model).nv > 0) {
            double q[MAX_Q], qd[MAX_V];
            evaluator* e = evaluator_create(model, observe);
            random_state(model, &rng, q, qd);
            memcpy(e->q, q, e->sizes.nq * sizeof *q);
            memcpy(e->qd, qd, e->sizes.nv * sizeof *qd);
            evaluator_run(e);
            for (uint32_t i = 0; i < tree.nlink; i++) {
                compare_link(e, tree.link[i].name, q, qd, &r);
            }
            evaluator_free(e);
        }
        ns_model_free(model);
    }
    residual_check(&r.velocity);
    residual_check(&r.linear);
    residual_check(&r.angular);
    residual_check(&r.unit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(jacobians_are_velocities_and_slopes_of_poses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
