// Sensitivities carried forward, against closed forms and against the derivatives of rollouts: column
// by column with the forward one, and summed up with the reverse one.

#include "base/common.h"
#include "neuralsim/learned.h"
#include "sim/sensitivity.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/malloccount.h"
#include "support/modelfile.h"
#include "support/residual.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- what visitors see -------------------------------------------------------------------------

// All that is seen of a rollout.
typedef struct record {
    ns_system_sizes z;
    uint32_t steps, columns, every;
    uint32_t visits, next; // next: the step that must be visited
    double *x, *dx, *y, *dy;
} record;

static record record_create(const ns_system* system, uint32_t steps, uint32_t columns,
                            uint32_t every) {
    record r = {
        .z = ns_system_get_sizes(system), .steps = steps, .columns = columns, .every = every};
    r.x = doubles((size_t)(steps + 1) * r.z.nx);
    r.dx = doubles((size_t)(steps + 1) * r.z.nx * columns);
    r.y = doubles((size_t)steps * r.z.ny);
    r.dy = doubles((size_t)steps * r.z.ny * columns);
    return r;
}

static void record_free(record* r) {
    free(r->x);
    free(r->dx);
    free(r->y);
    free(r->dy);
}

static void keep(void* context, uint32_t k, const double* x, const double* dx, const double* y,
                 const double* dy) {
    record* r = context;
    const size_t nx = r->z.nx, ny = r->z.ny, columns = r->columns;
    assert_int_equal(k, r->next);
    r->visits++;
    uint32_t every = r->every > 0 ? r->every : 1;
    r->next = k + every < r->steps ? k + every : r->steps;
    memcpy(r->x + k * nx, x, nx * sizeof *x);
    memcpy(r->dx + k * nx * columns, dx, nx * columns * sizeof *dx);
    if (k == r->steps) {
        assert_null(y);
        assert_null(dy);
        return;
    }
    memcpy(r->y + k * ny, y, ny * sizeof *y);
    memcpy(r->dy + k * ny * columns, dy, ny * columns * sizeof *dy);
}

static nsi_sensitivity* make_sensitivity(const ns_system* system, bool initial, bool weights) {
    nsi_sensitivity* d = NULL;
    ns_error error = {0};
    must(nsi_sensitivity_create(system, initial, weights, &d, &error), &error);
    return d;
}

// ---- against rollouts --------------------------------------------------------------------------

static const double tolerance = 1e-10; // relative to the largest number of a column

// One column of all that was kept.
static double* column_of(const double* d, size_t rows, size_t columns, size_t column) {
    double* out = doubles(rows);
    for (size_t i = 0; i < rows; i++) out[i] = d[i * columns + column];
    return out;
}

// Compare each column with a rollout whose tangent is a unit vector.
static void check_columns(const ns_system* system, ns_workspace* work, const record* r,
                          const nsi_sensitivity_args* args, bool initial) {
    const ns_system_sizes* z = &r->z;
    size_t nstate = (size_t)(r->steps + 1) * z->nx, nobserved = (size_t)r->steps * z->ny;
    double *states = doubles(nstate), *observations = doubles(nobserved);
    double *dstates = doubles(nstate), *dobservations = doubles(nobserved);
    double *dx0 = doubles(z->nx), *dparams = doubles(z->np), *dweights = doubles(z->nw);
    residual columns = {.name = "columns", .tolerance = tolerance};
    residual values = {.name = "values", .tolerance = 1e-12};
    for (uint32_t c = 0; c < r->columns; c++) {
        uint32_t n = c + (initial ? 0 : z->nx);
        double* unit = n < z->nx           ? &dx0[n]
                       : n < z->nx + z->np ? &dparams[n - z->nx]
                                           : &dweights[n - z->nx - z->np];
        ns_rollout_args rollout = {.batch = 1,
                                   .steps = args->steps,
                                   .x0 = args->x0,
                                   .controls = args->controls,
                                   .params = args->params,
                                   .weights = args->weights,
                                   .states = states,
                                   .observations = observations};
        ns_rollout_tangent tangent = {.dx0 = dx0,
                                      .dparams = dparams,
                                      .dweights = dweights,
                                      .dstates = dstates,
                                      .dobservations = dobservations};
        ns_error error = {0};
        *unit = 1.0;
        must(ns_rollout_jvp(system, work, &rollout, &tangent, &error), &error);
        *unit = 0.0;
        double* got = column_of(r->dx, nstate, r->columns, c);
        residual_array(&columns, got, dstates, nstate, 1e-6);
        free(got);
        if (z->ny > 0) {
            got = column_of(r->dy, nobserved, r->columns, c);
            residual_array(&columns, got, dobservations, nobserved, 1e-6);
            free(got);
        }
    }
    residual_array(&values, r->x, states, nstate, 1.0);
    if (z->ny > 0) residual_array(&values, r->y, observations, nobserved, 1.0);
    residual_check(&columns);
    residual_check(&values);
    double* all[] = {states, observations, dstates, dobservations, dx0, dparams, dweights};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
}

// Compare the sum of all rows, each times a random number, with the reverse derivative.
static void check_rows(const ns_system* system, ns_workspace* work, const record* r,
                       const nsi_sensitivity_args* args, bool initial) {
    const ns_system_sizes* z = &r->z;
    ns_rng rng = ns_rng_seed(77);
    size_t nstate = (size_t)(r->steps + 1) * z->nx, nobserved = (size_t)r->steps * z->ny;
    double* seeds = random_doubles(&rng, nstate, 1.0);
    double* observation_seeds = random_doubles(&rng, nobserved, 1.0);
    double* gradient = doubles((size_t)z->nx + z->np + z->nw);
    double* sum = doubles(r->columns);
    ns_rollout_args rollout = {.batch = 1,
                               .steps = args->steps,
                               .x0 = args->x0,
                               .controls = args->controls,
                               .params = args->params,
                               .weights = args->weights};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds,
                                  .observation_seeds = observation_seeds,
                                  .dx0 = gradient,
                                  .dparams = gradient + z->nx,
                                  .dweights = gradient + z->nx + z->np};
    ns_error error = {0};
    must(ns_rollout_vjp(system, work, &rollout, &adjoint, &error), &error);
    for (uint32_t c = 0; c < r->columns; c++) {
        for (size_t i = 0; i < nstate; i++) sum[c] += seeds[i] * r->dx[i * r->columns + c];
        for (size_t i = 0; i < nobserved; i++) {
            sum[c] += observation_seeds[i] * r->dy[i * r->columns + c];
        }
    }
    residual rows = {.name = "gradient", .tolerance = tolerance};
    residual_array(&rows, sum, gradient + (initial ? 0 : z->nx), r->columns, 1e-6);
    residual_check(&rows);
    free(seeds);
    free(observation_seeds);
    free(gradient);
    free(sum);
}

// With and without the initial state and weights; with the values of the system and with others.
static void check_system(const ns_system* system, const double* x0, uint32_t steps, double size) {
    ns_system_sizes z = ns_system_get_sizes(system);
    ns_rng rng = ns_rng_seed(5);
    ns_workspace* work = NULL;
    ns_error error = {0};
    ns_workspace_size room = {.batch = 1, .steps = steps, .threads = 1};
    must(ns_workspace_create(system, &room, &work, &error), &error);
    double* controls = random_doubles(&rng, (size_t)steps * z.nc, size);
    double *params = doubles(z.np), *weights = doubles(z.nw);
    ns_system_default_params(system, params);
    ns_system_default_weights(system, weights);
    for (uint32_t k = 0; k < z.np; k++) params[k] *= ns_rng_uniform(&rng, 1.0, 1.1);
    for (uint32_t k = 0; k < z.nw; k++) weights[k] += ns_rng_uniform(&rng, -0.1, 0.1);
    for (int n = 0; n < 8; n++) {
        bool initial = n % 2 == 1, given = n / 2 % 2 == 1, weighted = n < 4;
        nsi_sensitivity* d = make_sensitivity(system, initial, weighted);
        uint32_t columns = nsi_sensitivity_columns(d);
        assert_int_equal(columns, (initial ? z.nx : 0) + z.np + (weighted ? z.nw : 0));
        nsi_sensitivity_args args = {.steps = steps, .x0 = x0};
        if (given) args.controls = controls, args.params = params, args.weights = weights;
        record r = record_create(system, steps, columns, 0);
        assert_true(nsi_sensitivity_run(d, &args, keep, &r));
        assert_int_equal(r.visits, steps + 1);
        if (columns > 0) check_columns(system, work, &r, &args, initial);
        if (columns > 0) check_rows(system, work, &r, &args, initial);

        // Once more, looking less often: the same bits.
        uint32_t every = 2 + (uint32_t)n;
        record s = record_create(system, steps, columns, every);
        args.every = every;
        assert_true(nsi_sensitivity_run(d, &args, keep, &s));
        assert_int_equal(s.visits, (steps - 1) / every + 2);
        for (uint32_t k = 0; k <= steps; k++) {
            if (k % every != 0 && k < steps) continue;
            size_t at = (size_t)k * z.nx, seen = (size_t)k * z.ny;
            assert_memory_equal(s.x + at, r.x + at, z.nx * sizeof(double));
            assert_memory_equal(s.dx + at * columns, r.dx + at * columns,
                                (size_t)z.nx * columns * sizeof(double));
            if (k == steps) continue;
            assert_memory_equal(s.y + seen, r.y + seen, z.ny * sizeof(double));
            assert_memory_equal(s.dy + seen * columns, r.dy + seen * columns,
                                (size_t)z.ny * columns * sizeof(double));
        }
        record_free(&r);
        record_free(&s);
        nsi_sensitivity_free(d);
    }
    free(controls);
    free(params);
    free(weights);
    ns_workspace_free(work);
}

// ---- systems -----------------------------------------------------------------------------------

static ns_model* load_model(const char* name) {
    char path[300];
    ns_model* model = NULL;
    ns_error error = {0};
    snprintf(path, sizeof path, NEURALSIM_SOURCE_DIR "/models/%s", name);
    must(ns_model_load(path, NULL, &model, &error), &error);
    return model;
}

static ns_system* make_system(const ns_model* model, const ns_system_options* options) {
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create(model, options, &system, &error), &error);
    return system;
}

static const char* const pendulum_params[] = {"link/link0/mass", "link/link1/mass",
                                              "link/link1/com/z", "joint/joint1/origin/z",
                                              "link/link0/com/z"};

// 0 to 9 columns: lanes that are full, left over, alone.
static void a_double_pendulum_agrees(void** state) {
    (void)state;
    static const char* const observe[] = {"qdd", "energy/total"};
    static const double x0[] = {0.7, -0.4, 0.5, 1.2};
    ns_model* model = load_model("double_pendulum.urdf");
    for (uint32_t nfree = 0; nfree <= 5; nfree++) {
        ns_system_options options = ns_default_system_options();
        options.free_params = pendulum_params;
        options.nfree = nfree;
        options.observe = observe;
        options.nobserve = nfree % 3 == 2 ? 0 : 2;
        options.timestep = 5e-3;
        options.integrator = (int)(nfree % 3);
        ns_system* system = make_system(model, &options);
        assert_int_equal(ns_system_get_sizes(system).np, nfree);
        check_system(system, x0, 60, 0.5);
        ns_system_free(system);
    }
    ns_model_free(model);
}

// Directions in the space of the parameters: products with the derivatives for each of them.
static void directions_are_products(void** state) {
    (void)state;
    enum { NP = 5, STEPS = 40, MOST = 6 };
    static const char* const observe[] = {"qdd"};
    static const double x0[] = {0.7, -0.4, 0.5, 1.2};
    ns_model* model = load_model("double_pendulum.urdf");
    ns_system_options options = ns_default_system_options();
    options.free_params = pendulum_params;
    options.nfree = NP;
    options.observe = observe;
    options.nobserve = 1;
    ns_system* system = make_system(model, &options);
    ns_rng rng = ns_rng_seed(3);
    for (uint32_t directions = 0; directions <= MOST; directions++) {
        for (uint32_t first = 0; first <= 4; first += 4) { // without the initial state, and with it
            double* along = random_doubles(&rng, (size_t)NP * directions, 1.0);
            nsi_sensitivity *each = make_sensitivity(system, first > 0, false), *d = NULL;
            ns_error error = {0};
            must(nsi_sensitivity_create_along(system, first > 0, directions, &d, &error), &error);
            assert_int_equal(nsi_sensitivity_columns(d), first + directions);
            record r = record_create(system, STEPS, first + NP, 0);
            record s = record_create(system, STEPS, first + directions, 0);
            nsi_sensitivity_args args = {.steps = STEPS, .x0 = x0, .along = along};
            assert_true(nsi_sensitivity_run(each, &args, keep, &r));
            assert_true(nsi_sensitivity_run(d, &args, keep, &s));
            size_t states = (size_t)(STEPS + 1) * r.z.nx, all = states + (size_t)STEPS * r.z.ny;
            for (size_t i = 0; i < all; i++) {
                size_t at = i < states ? i : i - states;
                const double* full = (i < states ? r.dx : r.dy) + at * r.columns;
                const double* row = (i < states ? s.dx : s.dy) + at * s.columns;
                for (uint32_t c = 0; c < s.columns; c++) {
                    double sum = c < first ? full[c] : 0.0, size = fabs(sum);
                    for (uint32_t k = 0; k < NP && c >= first; k++) {
                        double term = full[first + k] * along[k * directions + c - first];
                        sum += term;
                        size += fabs(term);
                    }
                    assert_true(fabs(row[c] - sum) <= tolerance * (size + 1e-6));
                }
            }
            record_free(&r);
            record_free(&s);
            nsi_sensitivity_free(each);
            nsi_sensitivity_free(d);
            free(along);
        }
    }
    ns_system_free(system);
    ns_model_free(model);
}

static const char body_text[] =
    "<mujoco model=\"body\"><compiler angle=\"radian\"/><option timestep=\"0.005\"/><worldbody>"
    "<body name=\"body\" pos=\"0 0 1\"><freejoint/><inertial pos=\"0.1 -0.05 0.02\" mass=\"2\""
    " fullinertia=\"0.05 0.09 0.07 0.004 -0.003 0.002\"/></body></worldbody></mujoco>\n";

static void a_floating_body_agrees(void** state) {
    (void)state;
    static const char *const free_params[] = {"link/body/mass", "link/body/com/*"},
                             *const observe[] = {"link/body/pose", "momentum/angular"};
    static const double x0[] = {0.1, 0.2, 1.0, 0.8, 0.2, -0.4, 0.4, 0.5, -0.3, 1.0, 2.0, -1.0, 0.7};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.observe = observe;
    options.nfree = options.nobserve = 2;
    ns_model* model = modelfile_parse(body_text);
    ns_system* system = make_system(model, &options);
    assert_int_equal(ns_system_get_sizes(system).nx, 13);
    check_system(system, x0, 50, 0.5);
    ns_system_free(system);
    ns_model_free(model);
}

// Where a rollout ends.
static double* last_state(const ns_system* system, const double* x0, uint32_t steps) {
    uint32_t nx = ns_system_get_sizes(system).nx;
    nsi_sensitivity* d = make_sensitivity(system, false, true);
    record r = record_create(system, steps, nsi_sensitivity_columns(d), steps);
    assert_true(nsi_sensitivity_run(
        d, &(nsi_sensitivity_args){.steps = steps, .x0 = x0, .every = steps}, keep, &r));
    double* x = doubles(nx);
    memcpy(x, r.x + (size_t)steps * nx, nx * sizeof *x);
    record_free(&r);
    nsi_sensitivity_free(d);
    return x;
}

// Its end swings to the ground and stays there.
static void contact_agrees(void** state) {
    (void)state;
    static const char *const free_params[] = {"link/link1/mass", "link/link4/mass"},
                             *const observe[] = {"com"};
    static const double x0[] = {0.5, 0.4, 0.3, 0.3, 0.2, -0.5, 0.3, -0.4, 0.2, 0.1};
    static const int contacts[] = {NS_CONTACT_NONE, NS_CONTACT_NCP, NS_CONTACT_SPRING};
    ns_model* model = load_model("pendulum5_ground.xml");
    double* last[3];
    for (int n = 0; n < 3; n++) {
        ns_system_options options = ns_default_system_options();
        options.free_params = free_params;
        options.nfree = 2;
        options.observe = observe;
        options.nobserve = 1;
        options.contact = contacts[n];
        ns_system* system = make_system(model, &options);
        last[n] = last_state(system, x0, 120);
        if (n > 0) assert_true(fabs(last[n][4] - last[0][4]) > 1e-3); // it did touch
        check_system(system, x0, 120, 0.2);
        ns_system_free(system);
    }
    for (int n = 0; n < 3; n++) free(last[n]);
    ns_model_free(model);
}

static ns_blueprint* make_blueprint(void) {
    static const char* const inputs[] = {"q/*", "qd/*"};
    static const char* const outputs[] = {"joint/*/tau"};
    static const uint32_t hidden[] = {5, 3};
    static const double scale = 1e-4;
    ns_network_def def = ns_default_network_def();
    def.name = "net";
    def.inputs = inputs;
    def.ninput = 2;
    def.outputs = outputs;
    def.noutput = 1;
    def.hidden = hidden;
    def.nhidden = 2;
    def.output_scale = &scale;
    def.noutput_scale = 1;
    ns_blueprint* blueprint = NULL;
    ns_error error = {0};
    must(ns_blueprint_create(NULL, &blueprint, &error), &error);
    must(ns_blueprint_add(blueprint, &def, &error), &error);
    return blueprint;
}

static void a_hybrid_agrees(void** state) {
    (void)state;
    static const char *const free_params[] = {"link/*/mass"}, *const observe[] = {"qdd", "com/x"};
    static const double x0[] = {0.1, -0.2, 0.3, 0.4, 0.3, -0.2, 0.5, -0.4};
    ns_model* model = load_model("swimmer2.xml");
    ns_blueprint* blueprint = make_blueprint();
    for (uint32_t n = 0; n < 4; n++) {
        ns_system_options options = ns_default_system_options();
        options.blueprint = blueprint;
        options.free_params = free_params;
        options.nfree = n % 2;
        options.observe = observe;
        options.nobserve = n < 2 ? 2 : 0;
        ns_system* system = make_system(model, &options);
        assert_true(ns_system_get_sizes(system).nw > 0);
        check_system(system, x0, 30, 1e-3);
        ns_system_free(system);
    }
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

static ns_system* make_lstm(const ns_allocator* allocator) {
    static const uint32_t hidden[] = {4, 3};
    ns_learned_def def = ns_default_learned_def();
    def.kind = NS_LEARNED_LSTM;
    def.nx = 3;
    def.nc = 1;
    def.hidden = hidden;
    def.nhidden = 2;
    def.increment = true;
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create_learned(&def, allocator, NS_BACKEND_AUTO, &system, &error), &error);
    return system;
}

static void a_learned_system_agrees(void** state) {
    (void)state;
    ns_system* system = make_lstm(NULL);
    uint32_t nx = ns_system_get_sizes(system).nx;
    assert_int_equal(nx, 3 + 2 * (4 + 3));
    ns_rng rng = ns_rng_seed(8);
    double* x0 = random_doubles(&rng, nx, 0.5);
    check_system(system, x0, 25, 1.0);
    free(x0);
    ns_system_free(system);
}

// ---- closed forms ------------------------------------------------------------------------------

static const char slider_text[] =
    "<mujoco model=\"slider\"><option timestep=\"0.01\" gravity=\"0 0 0\"/><worldbody>"
    "<body name=\"body\"><joint type=\"slide\" axis=\"1 0 0\"/>"
    "<inertial pos=\"0 0 0\" mass=\"2\" diaginertia=\"1 1 1\"/></body></worldbody></mujoco>\n";

static ns_system* make_slider(const ns_model* model, bool observe_energy) {
    static const char *const free_params[] = {"link/body/mass"}, *const observe[] = {
                                                                     "energy/total"};
    ns_system_options options = ns_default_system_options();
    options.integrator = NS_INTEGRATOR_EULER;
    options.free_params = free_params;
    options.observe = observe;
    options.nfree = 1;
    options.nobserve = observe_energy;
    return make_system(model, &options);
}

// A mass m under a force f, semi-implicit Euler: v_k = v + k h f / m, q_k = q + k h v + h^2 f / m
// k (k + 1) / 2, energy m v_k^2 / 2.
static void a_mass_under_a_force(void** state) {
    (void)state;
    enum { STEPS = 40 };
    const double m = 2.0, f = 3.0, h = 0.01, x0[] = {0.5, -1.5};
    ns_model* model = modelfile_parse(slider_text);
    ns_system* system = make_slider(model, true);
    nsi_sensitivity* d = make_sensitivity(system, true, true);
    record r = record_create(system, STEPS, nsi_sensitivity_columns(d), 0);
    double controls[STEPS];
    for (int k = 0; k < STEPS; k++) controls[k] = f;
    assert_int_equal(r.z.nc, 1);
    nsi_sensitivity_args args = {.steps = STEPS, .x0 = x0, .controls = controls};
    assert_true(nsi_sensitivity_run(d, &args, keep, &r));
    residual closed = {.name = "closed form", .tolerance = 1e-13};
    for (int k = 0; k <= STEPS; k++) {
        const double v = x0[1] + k * h * f / m, path = h * h * f / m * k * (k + 1) / 2.0;
        const double x[] = {x0[0] + k * h * x0[1] + path, v};
        const double dx[] = {1.0, k * h, -path / m, 0.0, 1.0, -k * h * f / (m * m)};
        residual_array(&closed, r.x + 2 * k, x, 2, 1.0);
        residual_array(&closed, r.dx + 6 * k, dx, 6, 1.0);
        if (k == STEPS) continue;
        const double dy[] = {0.0, m * v, v * v / 2.0 + m * v * dx[5]};
        residual_add(&closed, r.y[k], m * v * v / 2.0, 1.0);
        residual_array(&closed, r.dy + 3 * k, dy, 3, 1.0);
    }
    residual_check(&closed);
    record_free(&r);
    nsi_sensitivity_free(d);
    ns_system_free(system);
    ns_model_free(model);
}

// x' = a x + b.
static ns_system* make_line(void) {
    ns_learned_def def = ns_default_learned_def();
    def.nx = 1;
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create_learned(&def, NULL, NS_BACKEND_AUTO, &system, &error), &error);
    return system;
}

// x_k = a^k x + b s_k, s_k = 1 + a + .. a^(k-1)
static void a_line_repeated(void** state) {
    (void)state;
    enum { STEPS = 30 };
    const double weights[] = {0.9, 0.3}, x0 = 2.0;
    ns_system* system = make_line();
    assert_int_equal(ns_system_get_sizes(system).nw, 2);
    nsi_sensitivity* d = make_sensitivity(system, true, true);
    record r = record_create(system, STEPS, nsi_sensitivity_columns(d), 0);
    nsi_sensitivity_args args = {.steps = STEPS, .x0 = &x0, .weights = weights};
    assert_true(nsi_sensitivity_run(d, &args, keep, &r));
    residual closed = {.name = "closed form", .tolerance = 1e-13};
    double power = 1.0, dpower = 0.0, sum = 0.0, dsum = 0.0; // d: for a
    for (int k = 0; k <= STEPS; k++) {
        const double dx[] = {power, dpower * x0 + weights[1] * dsum, sum};
        residual_add(&closed, r.x[k], power * x0 + weights[1] * sum, 1.0);
        residual_array(&closed, r.dx + 3 * k, dx, 3, 1.0);
        sum += power;
        dsum += dpower;
        power *= weights[0];
        dpower = (k + 1) * pow(weights[0], k);
    }
    residual_check(&closed);
    record_free(&r);
    nsi_sensitivity_free(d);
    ns_system_free(system);
}

// ---- edges -------------------------------------------------------------------------------------

static void no_steps_are_one_visit(void** state) {
    (void)state;
    const double x0[] = {0.5, -1.5}, unit[] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0};
    ns_model* model = modelfile_parse(slider_text);
    ns_system *slider = make_slider(model, true), *line = make_line();
    nsi_sensitivity* d = make_sensitivity(slider, true, true);
    record r = record_create(slider, 0, 3, 0);
    assert_true(nsi_sensitivity_run(d, &(nsi_sensitivity_args){.x0 = x0}, keep, &r));
    assert_int_equal(r.visits, 1);
    assert_memory_equal(r.x, x0, sizeof x0);
    assert_memory_equal(r.dx, unit, sizeof unit);
    record_free(&r);
    nsi_sensitivity_free(d);

    d = make_sensitivity(line, true, true);
    r = record_create(line, 0, 3, 0);
    assert_true(nsi_sensitivity_run(d, &(nsi_sensitivity_args){.x0 = x0}, keep, &r));
    assert_int_equal(r.visits, 1);
    assert_true(r.x[0] == 0.5 && r.dx[0] == 1.0 && r.dx[1] == 0.0 && r.dx[2] == 0.0);
    record_free(&r);
    nsi_sensitivity_free(d);
    ns_system_free(line);
    ns_system_free(slider);
    ns_model_free(model);
}

// States grow by 1e100 a step from 1: those of k = 0 .. 3 are finite. With b = 0 and a start at 0 they
// stay there, but the derivative for the initial state grows.
static void what_is_not_finite_ends_a_rollout(void** state) {
    (void)state;
    const double weights[] = {1e100, 0.0}, start[] = {1.0, 0.0, NAN};
    const uint32_t visits[] = {4, 4, 0};
    ns_system* line = make_line();
    for (int n = 0; n < 3; n++) {
        nsi_sensitivity* d = make_sensitivity(line, true, true);
        record r = record_create(line, 9, 3, 0);
        nsi_sensitivity_args args = {.steps = 9, .x0 = &start[n], .weights = weights};
        assert_false(nsi_sensitivity_run(d, &args, keep, &r));
        assert_int_equal(r.visits, visits[n]);
        // Afterwards it is as good as new.
        record_free(&r);
        r = record_create(line, 9, 3, 0);
        args.weights = (double[]){0.5, 0.0};
        args.x0 = &start[0];
        assert_true(nsi_sensitivity_run(d, &args, keep, &r));
        assert_true(r.dx[9 * 3] == 1.0 / 512);
        record_free(&r);
        nsi_sensitivity_free(d);
    }
    ns_system_free(line);

    // Lanes: rates of 1e160, whose squares are too large.
    ns_model* model = load_model("double_pendulum.urdf");
    ns_system_options options = ns_default_system_options();
    options.free_params = pendulum_params;
    options.nfree = 2;
    ns_system* system = make_system(model, &options);
    nsi_sensitivity* d = make_sensitivity(system, true, true);
    record r = record_create(system, 9, 6, 0);
    nsi_sensitivity_args args = {.steps = 9, .x0 = (double[]){0.3, 0.2, 1e160, -1e160}};
    assert_false(nsi_sensitivity_run(d, &args, keep, &r));
    assert_int_equal(r.visits, 1);
    record_free(&r);
    nsi_sensitivity_free(d);
    ns_system_free(system);
    ns_model_free(model);

    // The motion is finite, the energy is not: seen only by those who look.
    model = modelfile_parse(slider_text);
    for (int observe = 0; observe < 2; observe++) {
        system = make_slider(model, observe);
        d = make_sensitivity(system, false, true);
        r = record_create(system, 9, 1, 0);
        args.x0 = (double[]){0.0, 1e160};
        assert_int_equal(nsi_sensitivity_run(d, &args, keep, &r), !observe);
        assert_int_equal(r.visits, observe ? 0 : 10);
        record_free(&r);
        nsi_sensitivity_free(d);
        ns_system_free(system);
    }
    ns_model_free(model);
}

static void nothing_is_allocated_on_the_way(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model* model = load_model("double_pendulum.urdf");
    ns_system_options options = ns_default_system_options();
    options.free_params = pendulum_params;
    options.nfree = 2;
    ns_system* systems[] = {make_system(model, &options), make_lstm(&allocator)};
    for (int n = 0; n < 2; n++) {
        double* x0 = doubles(ns_system_get_sizes(systems[n]).nx);
        nsi_sensitivity* d = make_sensitivity(systems[n], true, true);
        record r = record_create(systems[n], 20, nsi_sensitivity_columns(d), 0);
        size_t calls = counter.calls, mallocs = malloc_calls;
        nsi_sensitivity_args args = {.steps = 20, .x0 = x0};
        assert_true(nsi_sensitivity_run(d, &args, keep, &r));
        assert_int_equal(counter.calls, calls);
        assert_int_equal(malloc_calls, mallocs);
        record_free(&r);
        nsi_sensitivity_free(d);
        free(x0);
        ns_system_free(systems[n]);
    }
#ifdef COUNTS_MALLOC
    assert_true(malloc_calls > 0); // it does count
#endif
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

static void memory_running_out_is_an_error(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_load_options loading = ns_default_load_options();
    loading.allocator = &allocator;
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(body_text, sizeof body_text - 1, "body", &loading, &model, &error), &error);
    ns_system* systems[] = {make_system(model, NULL), make_lstm(&allocator)};
    size_t blocks = counter.live_blocks;
    for (int k = 0; k < 2; k++) {
        uint32_t failures = 0;
        for (size_t n = 1;; n++) {
            nsi_sensitivity* d = NULL;
            counter.calls = 0;
            counter.fail_at = n;
            ns_status status = nsi_sensitivity_create(systems[k], true, true, &d, &error);
            bool reached = counter.calls >= n;
            counter.fail_at = 0;
            assert_int_equal(status, reached ? NS_ERR_NOMEM : NS_OK);
            assert_true(reached == (d == NULL));
            failures += reached;
            nsi_sensitivity_free(d);
            assert_int_equal(counter.live_blocks, blocks);
            if (!reached) break;
        }
        assert_in_range(failures, 2, 1000);
    }
    nsi_sensitivity_free(NULL);
    ns_system_free(systems[0]);
    ns_system_free(systems[1]);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_double_pendulum_agrees),
        cmocka_unit_test(directions_are_products),
        cmocka_unit_test(a_floating_body_agrees),
        cmocka_unit_test(contact_agrees),
        cmocka_unit_test(a_hybrid_agrees),
        cmocka_unit_test(a_learned_system_agrees),
        cmocka_unit_test(a_mass_under_a_force),
        cmocka_unit_test(a_line_repeated),
        cmocka_unit_test(no_steps_are_one_visit),
        cmocka_unit_test(what_is_not_finite_ends_a_rollout),
        cmocka_unit_test(nothing_is_allocated_on_the_way),
        cmocka_unit_test(memory_running_out_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
