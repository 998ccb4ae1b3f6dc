// Throw a ball so that it is at a target after 0.8, 1.5 or 3 s, over several bounces. The distance as a
// function of the throw has kinks and valleys: one for each number of bounces. Exact gradients follow the
// nearest valley; where that leads nowhere, smoothed ones (smoothing.h) follow the trend.
//
// usage: smoothed_throw

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>

static const double HIT = 0.01; // m

// State: x, z, angle, then their velocities.
enum { NX = 6, MAX_STEPS = 1500, STARTS = 8, STAGES = 4 };

static const char text[] =
    "<mujoco><option timestep='0.002'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body pos='0 0 0'><joint name='x' type='slide' axis='1 0 0'/>"
    "<joint name='z' type='slide' axis='0 0 1'/><joint name='turn' axis='0 1 0'/>"
    "<geom name='ball' type='sphere' size='0.1' mass='0.5'/></body></worldbody></mujoco>";

// The problem: from (0, 1) m, where is the ball after so many steps?
typedef struct throw_problem {
    const ns_system* system;
    ns_workspace* work;
    ns_smoother* smoother;
    uint32_t steps;
    double target[2];
    double sigma; // of both velocities, m/s
    double seeds[(MAX_STEPS + 1) * NX], states[(MAX_STEPS + 1) * NX];
} throw_problem;

// Half the square of the distance from the target.
static double distance_cost(void* context, const double* states, const double* observations,
                            double* dstates, double* dobservations) {
    (void)observations;
    (void)dobservations;
    const throw_problem* p = context;
    size_t end = (size_t)p->steps * NX;
    double dx = states[end] - p->target[0], dz = states[end + 1] - p->target[1];
    dstates[end] = dx;
    dstates[end + 1] = dz;
    return 0.5 * (dx * dx + dz * dz);
}

static void set_throw(const double* velocity, double x0[NX]) {
    for (int k = 0; k < NX; k++) x0[k] = 0.0;
    x0[1] = 1.0;
    x0[3] = velocity[0];
    x0[4] = velocity[1];
}

// The cost of a throw, and its exact gradient.
static double exact_cost(void* context, const double* velocity, double* gradient) {
    throw_problem* p = context;
    double x0[NX], dx0[NX];
    set_throw(velocity, x0);
    ns_rollout_args args = {.batch = 1, .steps = p->steps, .x0 = x0, .states = p->states};
    if (ns_rollout(p->system, p->work, &args, NULL) != NS_OK) return INFINITY;
    double* end = p->seeds + (size_t)p->steps * NX;
    double cost = distance_cost(p, p->states, NULL, p->seeds, NULL);
    ns_rollout_adjoint adjoint = {.state_seeds = p->seeds, .dx0 = dx0};
    ns_status status = ns_rollout_vjp(p->system, p->work, &args, &adjoint, NULL);
    end[0] = end[1] = 0.0; // seeds of other steps are zero
    if (gradient) {
        gradient[0] = dx0[3];
        gradient[1] = dx0[4];
    }
    return status == NS_OK ? cost : INFINITY;
}

// The same, averaged over throws nearby.
static double smoothed_cost(void* context, const double* velocity, double* gradient) {
    throw_problem* p = context;
    double x0[NX];
    set_throw(velocity, x0);
    ns_rollout_args args = {.batch = 1, .steps = p->steps, .x0 = x0};
    ns_smoothing smoothing = ns_default_smoothing();
    smoothing.samples = 16;
    smoothing.x0_sigma = (const double[NX]){0.0, 0.0, 0.0, p->sigma, p->sigma, 0.0};
    ns_smoothed_derivative dx0[NX];
    ns_smoothed_gradient result = {.dx0 = dx0};
    ns_status status = ns_rollout_smoothed_gradient(p->smoother, &args, &smoothing, distance_cost,
                                                    p, &result, NULL);
    if (gradient) {
        gradient[0] = dx0[3].estimate;
        gradient[1] = dx0[4].estimate;
    }
    return status == NS_OK ? result.value : INFINITY;
}

// L-BFGS with the exact gradient; returns the distance that is left, in m.
static double polish(throw_problem* p, const double* from) {
    double velocity[2] = {from[0], from[1]};
    ns_solver_result result;
    ns_solver_problem problem = {.n = 2, .cost = exact_cost, .context = p};
    ns_solver_options lbfgs = {.max_iterations = 100};
    if (ns_minimise("lbfgs", &problem, &lbfgs, velocity, &result, NULL) != NS_OK) return INFINITY;
    return sqrt(2.0 * exact_cost(p, velocity, NULL));
}

// Adam with the smoothed gradient, with less noise in each stage, until a polished throw hits.
static double search_smoothed(throw_problem* p, const double* from) {
    static const double sigmas[STAGES] = {1.0, 0.4, 0.15, 0.05}; // m/s
    double velocity[2] = {from[0], from[1]}, left = INFINITY;
    ns_solver_result result;
    ns_solver_problem problem = {.n = 2, .cost = smoothed_cost, .context = p};
    for (int k = 0; k < STAGES && left > HIT; k++) {
        p->sigma = sigmas[k];
        ns_solver_options adam = {.max_iterations = 40, .learning_rate = 0.5 * sigmas[k]};
        if (ns_minimise("adam", &problem, &adam, velocity, &result, NULL) != NS_OK) return INFINITY;
        left = fmin(left, polish(p, velocity));
    }
    return left;
}

int main(void) {
    static throw_problem p;
    ns_model* model = NULL;
    ns_system* system = NULL;
    ns_error error;
    ns_param_value set[] = {{"contact/*/restitution", 0.8}, {"contact/*/mu", 0.3}};
    ns_system_options options = ns_default_system_options();
    options.set = set;
    options.nset = 2;
    ns_workspace_size room = {.batch = 1, .steps = MAX_STEPS};
    ns_smoother_size smoother = {.steps = MAX_STEPS};
    if (ns_model_parse(text, sizeof text - 1, "ball", NULL, &model, &error) != NS_OK ||
        ns_system_create(model, &options, &system, &error) != NS_OK ||
        ns_workspace_create(system, &room, &p.work, &error) != NS_OK ||
        ns_smoother_create(system, &smoother, &p.smoother, &error) != NS_OK) {
        fprintf(stderr, "smoothed_throw: %s\n", error.message);
        return 1;
    }
    p.system = system;

    // For each time a target that some throw reaches, and eight first throws that do not
    static const double seconds[] = {0.8, 1.5, 3.0};
    int reached = 0;
    printf("| time | L-BFGS, exact gradient | smoothed where that misses |\n|---|---|---|\n");
    for (int n = 0; n < 3; n++) {
        ns_rng rng = ns_rng_seed(1);
        int hits[2] = {0, 0};
        p.steps = (uint32_t)(seconds[n] / 0.002 + 0.5);
        for (int k = 0; k < STARTS; k++) {
            double aim[2] = {ns_rng_uniform(&rng, 0.5, 1.5), ns_rng_uniform(&rng, -2.0, 2.0)};
            double first[2] = {ns_rng_uniform(&rng, -1.0, 1.0), ns_rng_uniform(&rng, -2.0, 2.0)};
            p.target[0] = p.target[1] = 0.0;
            exact_cost(&p, aim, NULL); // leaves the states
            p.target[0] = p.states[(size_t)p.steps * NX];
            p.target[1] = p.states[(size_t)p.steps * NX + 1];
            bool hit = polish(&p, first) < HIT;
            hits[0] += hit;
            hits[1] += hit || search_smoothed(&p, first) < HIT;
        }
        printf("| %g s | %d of %d | %d of %d |\n", seconds[n], hits[0], STARTS, hits[1], STARTS);
        reached += hits[1];
    }
    ns_smoother_free(p.smoother);
    ns_workspace_free(p.work);
    ns_system_free(system);
    ns_model_free(model);
    return reached == 3 * STARTS ? 0 : 1;
}
