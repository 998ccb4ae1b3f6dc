// How does the angle at the end of a simulation depend on how it began, and on the torque at every
// step? One reverse sweep gives all of it; a difference quotient checks one number of each.
//
// usage: rollout_gradient [MODEL]     default models/double_pendulum.urdf

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 500, MAX = 64 }; // MAX: numbers in a state or control of this example

static ns_system* sys;
static ns_workspace* work;
static ns_system_sizes size;
static double x0[MAX], controls[STEPS * MAX], states[(STEPS + 1) * MAX];
static ns_error error;

// The first angle after all steps.
static double final_angle(void) {
    ns_rollout_args args = {
        .batch = 1, .steps = STEPS, .x0 = x0, .controls = controls, .states = states};
    if (ns_rollout(sys, work, &args, &error) != NS_OK) return NAN;
    return states[STEPS * size.nx];
}

// d final_angle / d input by a central difference.
static double difference(double* input) {
    const double h = 1e-5, at = *input;
    *input = at + h;
    double above = final_angle();
    *input = at - h;
    double below = final_angle();
    *input = at;
    return (above - below) / (2.0 * h);
}

static int check(const char* what, double gradient, double quotient) {
    double off = fabs(gradient - quotient) / fmax(fabs(gradient), 1e-3);
    printf("  %-28s %+.9f, difference quotient %+.9f\n", what, gradient, quotient);
    return off < 1e-6;
}

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "models/double_pendulum.urdf";
    ns_model* robot = NULL;
    if (ns_model_load(path, NULL, &robot, &error) != NS_OK) goto failed;
    if (ns_system_create(robot, NULL, &sys, &error) != NS_OK) goto failed;
    ns_workspace_size room = {.batch = 1, .steps = STEPS};
    if (ns_workspace_create(sys, &room, &work, &error) != NS_OK) goto failed;
    size = ns_system_get_sizes(sys);
    if (size.nx > MAX || size.nc > MAX) {
        fprintf(stderr, "this example is for robots with at most %d states\n", MAX);
        return 1;
    }
    ns_model_default_q(robot, x0);
    x0[0] = 0.5;
    for (uint32_t step = 0; step < STEPS; step++) controls[step * size.nc] = 0.2;

    // What is differentiated: a weight of 1 on the first number of the last state.
    static double seeds[(STEPS + 1) * MAX], dx0[MAX], dcontrols[STEPS * MAX];
    seeds[STEPS * size.nx] = 1.0;
    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .controls = controls};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0, .dcontrols = dcontrols};
    if (ns_rollout_vjp(sys, work, &args, &adjoint, &error) != NS_OK) goto failed;

    printf("%s after %d steps: the derivative of %s for\n", ns_model_name(robot), STEPS,
           ns_system_state_name(sys, 0));
    int ok = 1;
    char what[64];
    for (uint32_t k = 0; k < size.nx; k++) {
        snprintf(what, sizeof what, "initial %s", ns_system_state_name(sys, k));
        ok &= check(what, dx0[k], difference(&x0[k]));
    }
    for (uint32_t k = 0; k < size.nc; k++) {
        snprintf(what, sizeof what, "%s in step 100", ns_system_control_name(sys, k));
        size_t at = 100 * (size_t)size.nc + k;
        ok &= check(what, dcontrols[at], difference(&controls[at]));
    }
    printf("and %u more, from the same sweep\n", (STEPS - 1) * size.nc);

    ns_workspace_free(work);
    ns_system_free(sys);
    ns_model_free(robot);
    return ok ? 0 : 1;

failed:
    fprintf(stderr, "%s\n", error.message);
    return 1;
}
