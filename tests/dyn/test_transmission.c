// Lengths of transmissions change at their velocities. tests/io/test_mujoco_drives.c compares both with
// MuJoCo's.

#include "neuralsim/sim.h"
#include "support/assert.h"
#include "support/evaluate.h"
#include "support/modelfile.h"

#include <math.h>

// Servos with kp = kd = 1 and no target: their forces are -(length + velocity).
static void velocities_are_rates_of_lengths(void** state) {
    (void)state;
    static const char* const observe[] = {"tendon/*/length", "tendon/*/velocity", "actuator", NULL};
    ns_model* model = modelfile_parse(
        "<mujoco><compiler angle='radian'/><worldbody><site name='w' pos='0.3 -0.2 0.4'/>"
        "<body><joint name='a' axis='0 1 0.2'/><inertial pos='0.1 0 0' mass='1' diaginertia='1 1 "
        "1'/><site name='p' pos='0.1 0.3 0.2' euler='0.3 0.2 0.1'/>"
        "<body pos='0.4 0 0'><joint name='b' axis='1 0 0'/><inertial pos='0.1 0 0' mass='1' "
        "diaginertia='1 1 1'/><site name='q' pos='0.2 0.3 0.5'/></body></body>"
        "<body pos='1 0 0'><joint name='c' type='slide' axis='0 1 1'/><inertial pos='0 0 0' "
        "mass='1' diaginertia='1 1 1'/><site name='r' euler='0.4 0.2 0.7'/></body></worldbody>"
        "<tendon><fixed name='f'><joint joint='a' coef='2'/><joint joint='c' coef='-3'/></fixed>"
        "<spatial name='s'><site site='w'/><site site='p'/><site site='q'/><pulley divisor='2'/>"
        "<site site='q'/><site site='r'/></spatial></tendon><actuator>"
        "<position name='x' site='q' refsite='w' kp='1' kv='1' gear='1 2 -1 0 0 0'/>"
        "<position name='y' tendon='s' kp='1' kv='1' gear='3'/></actuator></mujoco>");
    evaluator* e = evaluator_create(model, observe);
    ns_rng rng = ns_rng_seed(11);
    const double h = 1e-5;
    for (int n = 0; n < 20; n++) {
        double q[3], qd[3], length[3][4], velocity[4] = {0.0};
        for (int k = 0; k < 3; k++) q[k] = ns_rng_normal(&rng);
        for (int k = 0; k < 3; k++) qd[k] = ns_rng_normal(&rng);
        for (int side = -1; side <= 1; side++) {
            for (int k = 0; k < 3; k++) e->q[k] = q[k] + side * h * qd[k];
            for (int k = 0; k < 3; k++) e->qd[k] = 0.0;
            evaluator_run(e);
            double* at = length[side + 1];
            at[0] = *evaluator_get(e, "tendon/f/length");
            at[1] = *evaluator_get(e, "tendon/s/length");
            at[2] = -*evaluator_get(e, "actuator/x/force");
            at[3] = -*evaluator_get(e, "actuator/y/force");
        }
        for (int k = 0; k < 3; k++) e->q[k] = q[k];
        for (int k = 0; k < 3; k++) e->qd[k] = qd[k];
        evaluator_run(e);
        velocity[0] = *evaluator_get(e, "tendon/f/velocity");
        velocity[1] = *evaluator_get(e, "tendon/s/velocity");
        velocity[2] = -*evaluator_get(e, "actuator/x/force") - length[1][2];
        velocity[3] = -*evaluator_get(e, "actuator/y/force") - length[1][3];
        for (int k = 0; k < 4; k++) {
            double rate = (length[2][k] - length[0][k]) / (2.0 * h);
            close_to("rate", velocity[k], rate, 1e-8 * (1.0 + fabs(rate)));
        }
        close_to("gear", length[1][3], 3.0 * length[1][1], 1e-13);
    }
    evaluator_free(e);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(velocities_are_rates_of_lengths)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
