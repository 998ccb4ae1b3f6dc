// Load a robot from a file and simulate it. A double pendulum has no friction, so its energy must
// stay what it was: that is the check.
//
// usage: simulate [MODEL]     default models/double_pendulum.urdf

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { STEPS = 5000 };

int main(int argc, char** argv) {
    const char* path = argc > 1 ? argv[1] : "models/double_pendulum.urdf";
    ns_error error = {0};
    ns_model* robot = NULL;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    double *states = NULL, *energy = NULL, *x0 = NULL;

    // 1. Load the model. 2. Make its time step a program that also tells the energy.
    if (ns_model_load(path, NULL, &robot, &error) != NS_OK) goto failed;
    const char* observe[] = {"energy/total"};
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = 1;
    options.integrator = NS_INTEGRATOR_RK4;
    if (ns_system_create(robot, &options, &system, &error) != NS_OK) goto failed;
    ns_system_sizes size = ns_system_get_sizes(system);

    // 3. Memory for the rollout, once; rolling out allocates nothing.
    ns_workspace_size room = {.batch = 1, .steps = STEPS};
    if (ns_workspace_create(system, &room, &work, &error) != NS_OK) goto failed;
    states = malloc((STEPS + 1) * size.nx * sizeof *states);
    energy = malloc(STEPS * sizeof *energy);
    x0 = calloc(size.nx, sizeof *x0);
    if (!states || !energy || !x0) goto failed;

    // 4. From the model's own pose, the first joint turned by 2 rad, at rest: five seconds.
    ns_model_default_q(robot, x0);
    x0[0] = 2.0;
    ns_rollout_args args = {
        .batch = 1, .steps = STEPS, .x0 = x0, .states = states, .observations = energy};
    if (ns_rollout(system, work, &args, &error) != NS_OK) goto failed;

    printf("%s, %u coordinates, time step %g s\n", ns_model_name(robot),
           ns_model_get_sizes(robot).nq, size.timestep);
    for (int step = 0; step < STEPS; step += 1000) {
        const double* x = states + (size_t)step * size.nx;
        printf("t = %.1f s  %s = %+.6f  %s = %+.6f  energy %.9f J\n", step * size.timestep,
               ns_system_state_name(system, 0), x[0], ns_system_state_name(system, 1), x[1],
               energy[step]);
    }
    double drift = fabs(energy[STEPS - 1] - energy[0]);
    printf("check: the energy changed by %.1e J\n", drift);

    free(states);
    free(energy);
    free(x0);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(robot);
    return drift < 1e-6 ? 0 : 1;

failed:
    fprintf(stderr, "%s\n", error.status != NS_OK ? error.message : "out of memory");
    return 1;
}
