// What the gradient through contact is worth: the tables of docs/contact-gradients.md.

#include <neuralsim/neuralsim.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A way of treating contact.
typedef struct contact_form {
    const char* name;
    ns_contact_model model;
    ns_friction friction;
    uint32_t sweeps;
    double timestep; // s
} contact_form;

static const contact_form forms[] = {
    {"impulses, cone", NS_CONTACT_NCP, NS_FRICTION_CONE, 0, 1e-3},
    {"impulses, pyramid", NS_CONTACT_NCP, NS_FRICTION_PYRAMID, 0, 1e-3},
    {"impulses, 50 sweeps", NS_CONTACT_BAUMGARTE, NS_FRICTION_CONE, 50, 1e-3},
    {"springs, step 0.2 ms", NS_CONTACT_SPRING, NS_FRICTION_CONE, 0, 2e-4},
};
enum { FORMS = sizeof forms / sizeof *forms };

typedef struct scene {
    ns_model* model;
    ns_system* system;
    ns_workspace* work;
    uint32_t nx, nq, np, steps;
    double *x0, *params, *states, *dstates;
} scene;

static _Noreturn void die(const char* what) {
    fprintf(stderr, "contact_gradients: %s\n", what);
    exit(1);
}

static scene make_scene(const char* text, const char* path, const contact_form* form,
                        const char* free_param, double seconds) {
    uint32_t steps = (uint32_t)lround(seconds / form->timestep);
    scene s = {.steps = steps};
    if (!text) text = "";
    ns_error error = {0};
    ns_status status = path ? ns_model_load(path, NULL, &s.model, &error)
                            : ns_model_parse(text, strlen(text), "scene", NULL, &s.model, &error);
    if (status != NS_OK) die(error.message);
    ns_system_options options = ns_default_system_options();
    options.contact = (int)form->model;
    options.friction = form->friction;
    options.contact_sweeps = form->sweeps;
    options.timestep = form->timestep;
    options.free_params = &free_param;
    options.nfree = 1;
    if (ns_system_create(s.model, &options, &s.system, &error) != NS_OK) die(error.message);
    ns_system_sizes n = ns_system_get_sizes(s.system);
    s.nx = n.nx, s.np = n.np, s.nq = ns_model_get_sizes(s.model).nq;
    ns_workspace_size size = {.batch = s.nx, .steps = steps};
    if (ns_workspace_create(s.system, &size, &s.work, &error) != NS_OK) die(error.message);
    s.x0 = calloc(s.nx, sizeof(double));
    s.params = calloc(s.np + 1, sizeof(double));
    s.states = calloc((size_t)s.nx * s.nx * (steps + 1), sizeof(double));
    s.dstates = calloc((size_t)s.nx * s.nx * (steps + 1), sizeof(double));
    if (!s.x0 || !s.params || !s.states || !s.dstates) die("no memory");
    ns_model_default_q(s.model, s.x0);
    ns_system_default_params(s.system, s.params);
    return s;
}

static void free_scene(scene* s) {
    ns_workspace_free(s->work);
    ns_system_free(s->system);
    ns_model_free(s->model);
    free(s->x0), free(s->params), free(s->states), free(s->dstates);
}

// Roll out; states at the end.
static const double* run(scene* s) {
    ns_error error = {0};
    ns_rollout_args args = {
        .batch = 1, .steps = s->steps, .x0 = s->x0, .params = s->params, .states = s->states};
    if (ns_rollout(s->system, s->work, &args, &error) != NS_OK) die(error.message);
    return s->states + (size_t)s->steps * s->nx;
}

// Derivatives for all initial states, in s->dstates: [k][step][i] = d state_i / d x0_k.
static void differentiate(scene* s) {
    ns_error error = {0};
    double* x0 = calloc((size_t)s->nx * s->nx, sizeof *x0);
    double* dx0 = calloc((size_t)s->nx * s->nx, sizeof *dx0);
    if (!x0 || !dx0) die("no memory");
    for (uint32_t k = 0; k < s->nx; k++) {
        memcpy(x0 + (size_t)k * s->nx, s->x0, s->nx * sizeof *x0);
        dx0[(size_t)k * s->nx + k] = 1.0;
    }
    ns_rollout_args args = {
        .batch = s->nx, .steps = s->steps, .x0 = x0, .params = s->params, .states = s->states};
    ns_rollout_tangent tangent = {.dx0 = dx0, .dstates = s->dstates};
    // A gradient that overflows is a result here.
    if (ns_rollout_jvp(s->system, s->work, &args, &tangent, &error) != NS_OK &&
        !strstr(error.message, "derivative")) {
        die(error.message);
    }
    free(x0), free(dx0);
}

static double derivative(const scene* s, uint32_t step, uint32_t i, uint32_t k) {
    return s->dstates[((size_t)k * (s->steps + 1) + step) * s->nx + i];
}

// Derivative of the final state's component i for the free parameter, all at once where it stands
// for several.
static double param_derivative(scene* s, uint32_t i) {
    ns_error error = {0};
    double* seeds = calloc((size_t)s->nx * (s->steps + 1), sizeof *seeds);
    double* d = calloc(s->np, sizeof *d);
    if (!seeds || !d) die("no memory");
    seeds[(size_t)s->steps * s->nx + i] = 1.0;
    ns_rollout_args args = {.batch = 1, .steps = s->steps, .x0 = s->x0, .params = s->params};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dparams = d};
    if (ns_rollout_vjp(s->system, s->work, &args, &adjoint, &error) != NS_OK) die(error.message);
    double sum = 0.0;
    for (uint32_t k = 0; k < s->np; k++) sum += d[k];
    free(seeds), free(d);
    return sum;
}

static void set_params(scene* s, double value) {
    for (uint32_t k = 0; k < s->np; k++) s->params[k] = value;
}

// ---- a chain that falls and comes to rest ----------------------------------------------------

static double random_between(double low, double high) {
    static uint64_t state = 1;
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + (high - low) * (double)(state >> 11) / 9007199254740992.0;
}

static void random_chain(double* x0) {
    int above = 0;
    while (!above) {
        double height = 0.6, angle = 0.0;
        above = 1;
        for (int k = 0; k < 5; k++) {
            x0[k] = random_between(k == 0 ? -1.5 : -1.0, k == 0 ? 1.5 : 1.0);
            x0[5 + k] = random_between(-1.0, 1.0);
            angle += x0[k];
            height -= 0.3 * cos(angle);
            if (height < 0.06) above = 0;
        }
    }
}

static int by_size(const void* a, const void* b) {
    double x = *(const double*)a, y = *(const double*)b;
    return (x > y) - (x < y);
}

// |d q_N / d v_0| of the chain of models/pendulum5_ground.xml.
static void chain_table(void) {
    enum { STARTS = 10, TIMES = 4 };
    static const double times[TIMES] = {0.5, 1.0, 2.5, 5.0};
    printf("Five links fall on the ground: |d q(t) / d v(0)| over %d starts, median (largest)\n\n",
           STARTS);
    printf("| contact | t = 0.5 s | 1 s | 2.5 s | 5 s |\n|---|---|---|---|---|\n");
    double starts[STARTS][10];
    for (int n = 0; n < STARTS; n++) random_chain(starts[n]);
    for (int f = 0; f < FORMS; f++) {
        scene s = make_scene(NULL, "models/pendulum5_ground.xml", &forms[f], "contact/*/mu", 5.0);
        double norms[TIMES][STARTS];
        set_params(&s, 0.5);
        for (int n = 0; n < STARTS; n++) {
            memcpy(s.x0, starts[n], sizeof starts[n]);
            differentiate(&s);
            for (int t = 0; t < TIMES; t++) {
                double sum = 0.0;
                uint32_t step = (uint32_t)lround(times[t] / forms[f].timestep);
                for (uint32_t k = 5; k < 10; k++) {
                    for (uint32_t i = 0; i < 5; i++) {
                        sum += pow(derivative(&s, step, i, k), 2.0);
                    }
                }
                norms[t][n] = sqrt(sum);
            }
        }
        printf("| %s |", forms[f].name);
        for (int t = 0; t < TIMES; t++) {
            qsort(norms[t], STARTS, sizeof(double), by_size);
            printf(" %.2g (%.2g) |", norms[t][STARTS / 2], norms[t][STARTS - 1]);
        }
        printf("\n");
        free_scene(&s);
    }
}

// ---- cases with a known answer ---------------------------------------------------------------

static void collision_table(void) {
    static const char balls[] =
        "<mujoco><option gravity='0 0 0'/><worldbody>"
        "<body pos='-0.5 0 0'><joint type='slide' axis='1 0 0'/><geom size='0.1' mass='1'/></body>"
        "<body pos='0.5 0 0'><joint type='slide' axis='1 0 0'/><geom size='0.1' mass='1'/></body>"
        "</worldbody></mujoco>";
    printf("\nTwo equal balls, 1.1 and -0.4 m/s, elastic: d v+ / d v-, which is [0 1; 1 0]\n\n");
    printf("| contact | d v1 / d v1 | d v1 / d v2 | d v2 / d v1 | d v2 / d v2 |\n"
           "|---|---|---|---|---|\n");
    for (int f = 0; f < FORMS; f++) {
        contact_form form = forms[f];
        bool springs = form.model == NS_CONTACT_SPRING;
        if (springs) form.timestep = 1e-4;
        scene s = make_scene(balls, NULL, &form,
                             springs ? "contact/*/damping" : "contact/*/restitution", 1.0);
        set_params(&s, springs ? 0.0 : 1.0);
        s.x0[2] = 1.1, s.x0[3] = -0.4;
        differentiate(&s);
        printf("| %s |", form.name);
        for (uint32_t i = 2; i < 4; i++) {
            for (uint32_t k = 2; k < 4; k++) printf(" %.6f |", derivative(&s, s.steps, i, k));
        }
        printf("\n");
        free_scene(&s);
    }
}

static const char block[] =
    "<mujoco><worldbody><geom type='plane' size='5 5 1'/><body pos='0 0 0.1'><freejoint/>"
    "<geom type='box' size='0.2 0.15 0.1' mass='2'/></body></worldbody></mujoco>";
enum { BLOCK_VX = 7 };

static void sliding_table(void) {
    const double g = 9.81, mu = 0.4, v = 1.5;
    printf("\nA block slides to rest: v = %g m/s, mu = %g\n\n", v, mu);
    printf("| contact | distance | d / d v | d / d mu |\n|---|---|---|---|\n");
    printf("| closed form | %.5f | %.5f | %.5f |\n", v * v / (2.0 * mu * g), v / (mu * g),
           -v * v / (2.0 * mu * mu * g));
    for (int f = 0; f < FORMS; f++) {
        scene s = make_scene(block, NULL, &forms[f], "contact/*/mu", 1.0);
        set_params(&s, mu);
        s.x0[BLOCK_VX] = v;
        double distance = run(&s)[0];
        differentiate(&s);
        printf("| %s | %.5f | %.5f | %.5f |\n", forms[f].name, distance,
               derivative(&s, s.steps, 0, BLOCK_VX), param_derivative(&s, 0));
        free_scene(&s);
    }
}

// ---- where a gradient says little ------------------------------------------------------------

// A block that rests: no small force moves it, a large one does.
static void sticking_table(void) {
    printf(
        "\nA block at rest is pushed for half a second; way, and its derivative for the push\n\n");
    printf("| push / (mu m g) | impulses: way | d way / d push | springs: way | d way / d push |\n"
           "|---|---|---|---|---|\n");
    const double g = 9.81, mu = 1.0;
    static const double pushes[] = {0.0, 0.5, 0.9, 0.99, 1.01, 1.1, 1.5};
    for (size_t n = 0; n < sizeof pushes / sizeof *pushes; n++) {
        printf("| %g |", pushes[n]);
        for (int f = 0; f < FORMS; f += 3) { // impulses, springs
            // Gravity that leans over pushes it.
            scene s = make_scene(block, NULL, &forms[f], "world/gravity/x", 0.5);
            set_params(&s, pushes[n] * mu * g);
            double way = run(&s)[0];
            printf(" %.5f | %.5f |", way, param_derivative(&s, 0));
            free_scene(&s);
        }
        printf("\n");
    }
}

// A box dropped flat and bouncing: all corners hit at once, and any tilt decides which one first.
static void flat_drop_table(void) {
    static const char drop[] =
        "<mujoco><worldbody><geom type='plane' size='5 5 1'/><body pos='0 0 0.3'><freejoint/>"
        "<geom type='box' size='0.1 0.15 0.2' mass='1'/></body></worldbody></mujoco>";
    printf("\nA box dropped flat, restitution 0.5: d x / d (turning rate about y) after 1 s\n\n");
    printf("| contact | gradient | differences over 1e-6 | 1e-3 | 1e-1 |\n|---|---|---|---|---|\n");
    for (int f = 0; f < 2; f++) {
        scene s = make_scene(drop, NULL, &forms[f], "contact/*/restitution", 1.0);
        set_params(&s, 0.5);
        differentiate(&s);
        printf("| %s | %.4f |", forms[f].name, derivative(&s, s.steps, 0, 11));
        static const double steps[] = {1e-6, 1e-3, 1e-1};
        for (int k = 0; k < 3; k++) {
            s.x0[11] = steps[k];
            double up = run(&s)[0];
            s.x0[11] = -steps[k];
            printf(" %.4f |", (up - run(&s)[0]) / (2.0 * steps[k]));
        }
        printf("\n");
        free_scene(&s);
    }
}

int main(void) {
    chain_table();
    collision_table();
    sliding_table();
    sticking_table();
    flat_drop_table();
    return 0;
}
