// Which way must the masses change for the simulation to end elsewhere? Set them free, simulate,
// and read the gradient: the step that system identification repeats.
//
// usage: free_parameter [MODEL]     default models/double_pendulum.urdf

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 500 };

// Distance squared of the final state from zero, for given parameters. With `gradient`, also its
// derivatives for them.
static ns_status loss(const ns_system* system, ns_workspace* work, const double* x0,
                      const double* params, double* states, double* seeds, double* value,
                      double* gradient, ns_error* error) {
    uint32_t nx = ns_system_get_sizes(system).nx;
    ns_rollout_args args = {
        .batch = 1, .steps = STEPS, .x0 = x0, .params = params, .states = states};
    ns_status status = ns_rollout(system, work, &args, error);
    const double* final = states + (size_t)STEPS * nx;
    *value = 0.0;
    for (uint32_t k = 0; k < nx && status == NS_OK; k++) {
        *value += final[k] * final[k];
        seeds[(size_t)STEPS * nx + k] = 2.0 * final[k]; // d value / d final[k]
    }
    if (status != NS_OK || !gradient) return status;
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dparams = gradient};
    return ns_rollout_vjp(system, work, &args, &adjoint, error);
}

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "models/double_pendulum.urdf";
    ns_error error = {0};
    ns_model* robot = NULL;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    int ok = 1;

    // Free parameters are named by patterns; all the others stay constants of the program.
    const char* free_params[] = {"link/*/mass"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.nfree = 1;
    if (ns_model_load(path, NULL, &robot, &error) != NS_OK) goto failed;
    if (ns_system_create(robot, &options, &system, &error) != NS_OK) goto failed;
    ns_system_sizes size = ns_system_get_sizes(system);
    ns_workspace_size room = {.batch = 1, .steps = STEPS};
    if (ns_workspace_create(system, &room, &work, &error) != NS_OK) goto failed;

    double* x0 = calloc(size.nx, sizeof *x0);
    double* states = calloc((STEPS + 1) * (size_t)size.nx, sizeof *states);
    double* seeds = calloc((STEPS + 1) * (size_t)size.nx, sizeof *seeds);
    double* params = calloc(size.np, sizeof *params);
    double* gradient = calloc(size.np, sizeof *gradient);
    if (!x0 || !states || !seeds || !params || !gradient) goto failed;
    ns_model_default_q(robot, x0);
    x0[0] = 1.0;
    ns_system_default_params(system, params); // the masses of the file

    double value;
    if (loss(system, work, x0, params, states, seeds, &value, gradient, &error) != NS_OK) {
        goto failed;
    }
    printf("%s: loss %.9f, and its derivative for\n", ns_model_name(robot), value);
    for (uint32_t k = 0; k < size.np; k++) {
        // The check: the same by a central difference.
        const double mass = params[k], h = 1e-5;
        double above, below;
        params[k] = mass + h;
        if (loss(system, work, x0, params, states, seeds, &above, NULL, &error)) goto failed;
        params[k] = mass - h;
        if (loss(system, work, x0, params, states, seeds, &below, NULL, &error)) goto failed;
        params[k] = mass;
        double quotient = (above - below) / (2.0 * h);
        printf("  %-20s %+.9f per kg, difference quotient %+.9f\n", ns_system_param_name(system, k),
               gradient[k], quotient);
        ok &= fabs(gradient[k] - quotient) < 1e-6 * fmax(fabs(quotient), 1e-3);
    }

    free(x0);
    free(states);
    free(seeds);
    free(params);
    free(gradient);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(robot);
    return ok ? 0 : 1;

failed:
    fprintf(stderr, "%s\n", error.status != NS_OK ? error.message : "out of memory");
    return 1;
}
