// A pendulum is to hang at an angle at the end of a simulation: how does the gradient of the cost for all
// torques change along a direction? One forward and one reverse sweep give the product of the Hessian with
// it, which is what Newton's method with conjugate gradients needs; a difference of gradients checks it.
//
// usage: hessian_product [MODEL]     default models/double_pendulum.urdf

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>

enum { STEPS = 500, MAX = 16 }; // MAX: numbers in a state or control of this example

static ns_system* sys;
static ns_workspace* work;
static ns_system_sizes size;
static double x0[MAX], controls[STEPS * MAX], direction[STEPS * MAX];
static double states[(STEPS + 1) * MAX], dstates[(STEPS + 1) * MAX];
static double seeds[(STEPS + 1) * MAX], dseeds[(STEPS + 1) * MAX];
static ns_error error;

// The gradient of the cost (q - 1)^2 / 2 of the first angle at the end, for the controls, and its product
// with the direction.
static ns_status differentiate(double* gradient, double* product) {
    ns_rollout_args args = {
        .batch = 1, .steps = STEPS, .x0 = x0, .controls = controls, .states = states};
    ns_rollout_tangent tangent = {.dcontrols = direction, .dstates = dstates};
    ns_status status = ns_rollout_jvp(sys, work, &args, &tangent, &error);
    if (status != NS_OK) return status;

    // The derivative of the cost for the states, and that of this along the direction.
    const size_t last = (size_t)STEPS * size.nx;
    seeds[last] = states[last] - 1.0;
    dseeds[last] = dstates[last];
    ns_rollout_adjoint first = {.state_seeds = seeds, .dcontrols = gradient};
    ns_rollout_adjoint second = {.state_seeds = dseeds, .dcontrols = product};
    return ns_rollout_hvp(sys, work, &args, &tangent, &first, &second, &error);
}

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "models/double_pendulum.urdf";
    ns_model* robot = NULL;
    if (ns_model_load(path, NULL, &robot, &error) != NS_OK) goto failed;
    if (ns_system_create(robot, NULL, &sys, &error) != NS_OK) goto failed;
    if (ns_system_build_hvp(sys, &error) != NS_OK) goto failed; // before the workspace
    ns_workspace_size room = {.batch = 1, .steps = STEPS};
    if (ns_workspace_create(sys, &room, &work, &error) != NS_OK) goto failed;
    size = ns_system_get_sizes(sys);
    if (size.nx > MAX || size.nc > MAX) {
        fprintf(stderr, "this example is for robots with at most %d states\n", MAX);
        return 1;
    }
    ns_model_default_q(robot, x0);
    for (uint32_t k = 0; k < STEPS; k++) {
        controls[k * size.nc] = 0.2;
        direction[k * size.nc] = sin(0.02 * k);
    }
    static double gradient[STEPS * MAX], product[STEPS * MAX], unused[STEPS * MAX];
    if (differentiate(gradient, product) != NS_OK) goto failed;

    // The same by a difference of gradients.
    static double above[STEPS * MAX], below[STEPS * MAX];
    const double h = 1e-5;
    for (uint32_t k = 0; k < STEPS * size.nc; k++) controls[k] += h * direction[k];
    if (differentiate(above, unused) != NS_OK) goto failed;
    for (uint32_t k = 0; k < STEPS * size.nc; k++) controls[k] -= 2.0 * h * direction[k];
    if (differentiate(below, unused) != NS_OK) goto failed;
    double worst = 0.0, largest = 0.0;
    for (uint32_t k = 0; k < STEPS * size.nc; k++) {
        worst = fmax(worst, fabs((above[k] - below[k]) / (2.0 * h) - product[k]));
        largest = fmax(largest, fabs(product[k]));
    }
    printf("%s: gradient for the first torque %+.9f, product %+.9f\n", ns_model_name(robot),
           gradient[0], product[0]);
    printf("largest number of the product %.3g, error against differences %.1e\n", largest, worst);

    ns_workspace_free(work);
    ns_system_free(sys);
    ns_model_free(robot);
    return worst < 1e-6 * largest ? 0 : 1;

failed:
    fprintf(stderr, "%s\n", error.message);
    return 1;
}
