// A solver from outside the library: Nelder & Mead 1965, registered by its record. It minimises a
// function, is the local search of basin hopping, and runs a stage of a fit, with checkpoints.

#include "neuralsim/fit.h"
#include "neuralsim/solver.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- the solver --------------------------------------------------------------------------------

typedef struct simplex {
    const ns_solver_problem* problem;
    uint32_t n, iteration;
    double tolerance;
    double* corners; // (n + 1) x n, the best first
    double* values;  // (n + 1); NaN in the first: not begun yet
    double* trial;   // (2 n) reflected and expanded
} simplex;

static double simplex_cost(simplex* s, const double* x, ns_solver_result* out) {
    double value = s->problem->cost(s->problem->context, x, NULL);
    out->evaluations++;
    return isfinite(value) ? value : (double)INFINITY;
}

// Put a corner where it belongs.
static void simplex_sort(simplex* s) {
    for (uint32_t k = 1; k <= s->n; k++) {
        for (uint32_t i = k; i > 0 && s->values[i] < s->values[i - 1]; i--) {
            double *a = s->corners + (size_t)i * s->n, *b = a - s->n, kept = s->values[i];
            s->values[i] = s->values[i - 1], s->values[i - 1] = kept;
            for (uint32_t j = 0; j < s->n; j++) kept = a[j], a[j] = b[j], b[j] = kept;
        }
    }
}

static void simplex_begin(simplex* s, const double* x, ns_solver_result* out) {
    for (uint32_t k = 0; k <= s->n; k++) {
        double* corner = s->corners + (size_t)k * s->n;
        memcpy(corner, x, s->n * sizeof *x);
        if (k > 0) corner[k - 1] += x[k - 1] != 0.0 ? 0.1 * x[k - 1] : 0.1;
        s->values[k] = simplex_cost(s, corner, out);
    }
    simplex_sort(s);
}

// x = center + factor * (worst - center), the center of all but the worst.
static double simplex_try(simplex* s, double factor, double* x, ns_solver_result* out) {
    const double* worst = s->corners + (size_t)s->n * s->n;
    for (uint32_t j = 0; j < s->n; j++) {
        double center = 0.0;
        for (uint32_t k = 0; k < s->n; k++) center += s->corners[(size_t)k * s->n + j] / s->n;
        x[j] = center + factor * (worst[j] - center);
    }
    return simplex_cost(s, x, out);
}

static void simplex_replace_worst(simplex* s, const double* x, double value) {
    memcpy(s->corners + (size_t)s->n * s->n, x, s->n * sizeof *x);
    s->values[s->n] = value;
}

static void simplex_iterate(simplex* s, ns_solver_result* out) {
    double *a = s->trial, *b = s->trial + s->n, second = s->values[s->n > 0 ? s->n - 1 : 0];
    double reflected = simplex_try(s, -1.0, a, out);
    if (reflected < s->values[0]) {
        double expanded = simplex_try(s, -2.0, b, out);
        bool further = expanded < reflected;
        simplex_replace_worst(s, further ? b : a, further ? expanded : reflected);
    } else if (reflected < second) {
        simplex_replace_worst(s, a, reflected);
    } else {
        double contracted = simplex_try(s, 0.5, b, out);
        if (contracted < s->values[s->n]) {
            simplex_replace_worst(s, b, contracted);
        } else { // towards the best
            for (uint32_t k = 1; k <= s->n; k++) {
                double* corner = s->corners + (size_t)k * s->n;
                for (uint32_t j = 0; j < s->n; j++) {
                    corner[j] = 0.5 * (corner[j] + s->corners[j]);
                }
                s->values[k] = simplex_cost(s, corner, out);
            }
        }
    }
    simplex_sort(s);
}

static ns_status simplex_step(void* state, double* x, uint32_t iterations, ns_solver_result* out,
                              ns_error* error) {
    (void)error;
    simplex* s = state;
    const ns_solver_problem* p = s->problem;
    *out = (ns_solver_result){.finish = NS_FINISH_LIMIT};
    if (isnan(s->values[0])) simplex_begin(s, x, out);
    while (out->iterations < iterations && out->finish == NS_FINISH_LIMIT) {
        simplex_iterate(s, out);
        s->iteration++;
        out->iterations++;
        ns_solver_progress progress = {.iteration = s->iteration,
                                       .value = s->values[0],
                                       .gradient_norm = NAN,
                                       .x = s->corners};
        bool stop = p->observe && p->observe(p->context, &progress);
        double spread = s->values[s->n] - s->values[0];
        if (spread <= s->tolerance * fabs(s->values[0])) out->finish = NS_FINISH_CONVERGED;
        if (stop) out->finish = NS_FINISH_STOPPED;
    }
    if (!isfinite(s->values[0])) out->finish = NS_FINISH_FAILED;
    out->value = s->values[0];
    memcpy(x, s->corners, s->n * sizeof *x);
    return NS_OK;
}

static void simplex_free(void* state) {
    simplex* s = state;
    if (s) free(s->corners);
    free(s);
}

static uint32_t simplex_state_size(const void* state) {
    uint32_t n = ((const simplex*)state)->n;
    return 1 + (n + 1) * (n + 1);
}

static ns_status simplex_create(const ns_solver_problem* problem, const ns_solver_options* options,
                                void** state, ns_error* error) {
    if (options->tolerance > 1.0) {
        snprintf(error->message, sizeof error->message, "nelder_mead: tolerance is above 1");
        return error->status = NS_ERR_ARGUMENT;
    }
    size_t n = problem->n;
    simplex* s = malloc(sizeof *s);
    double* memory = malloc(((n + 1) * (n + 1) + 2 * n + 1) * sizeof *memory);
    if (!s || !memory) {
        free(s);
        free(memory);
        return NS_ERR_NOMEM;
    }
    *s = (simplex){.problem = problem, .n = problem->n, .tolerance = options->tolerance};
    if (s->tolerance == 0.0) s->tolerance = 1e-12;
    s->corners = memory;
    s->values = s->corners + n * (n + 1);
    s->trial = s->values + n + 1;
    s->values[0] = NAN;
    *state = s;
    return NS_OK;
}

static void simplex_save(const void* state, double* numbers) {
    const simplex* s = state;
    numbers[0] = s->iteration;
    memcpy(numbers + 1, s->corners, (simplex_state_size(s) - 1) * sizeof *numbers);
}

static void simplex_load(void* state, const double* numbers) {
    simplex* s = state;
    s->iteration = (uint32_t)numbers[0];
    memcpy(s->corners, numbers + 1, (simplex_state_size(s) - 1) * sizeof *numbers);
}

static const ns_solver nelder_mead = {
    .name = "nelder_mead",
    .title = "Nelder-Mead",
    .help = "downhill simplex without derivatives",
    .round = 5,
    .max_iterations = 2000,
    .create = simplex_create,
    .step = simplex_step,
    .state_size = simplex_state_size,
    .save = simplex_save,
    .load = simplex_load,
    .free = simplex_free,
};

static int register_solver(void** state) {
    (void)state;
    ns_error error = {0};
    must(ns_solver_register(&nelder_mead, &error), &error);
    return 0;
}

// ---- functions ---------------------------------------------------------------------------------

static double rosenbrock(void* context, const double* x, double* g) {
    (void)context;
    assert_null(g); // it has not said that it asks for gradients
    double a = x[1] - x[0] * x[0], b = 1.0 - x[0];
    return 100.0 * a * a + b * b;
}

static void it_minimises_a_function_by_its_name(void** state) {
    (void)state;
    ns_solver_problem p = {.n = 2, .cost = rosenbrock};
    double x[2] = {-1.2, 1.0};
    ns_solver_result out;
    ns_error error = {0};
    must(ns_minimise("nelder_mead", &p, NULL, x, &out, &error), &error);
    assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    assert_true(fabs(x[0] - 1.0) < 1e-4 && fabs(x[1] - 1.0) < 1e-4);
    assert_true(out.iterations > 10 && out.value < 1e-8);

    // Its own errors come through.
    ns_solver_options o = {.tolerance = 2.0};
    assert_int_equal(ns_minimise("nelder_mead", &p, &o, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "above 1"));

    // A penalty is refused: it has not said that it minimises one.
    o = (ns_solver_options){.l1 = 1.0};
    assert_int_equal(ns_minimise("nelder_mead", &p, &o, x, &out, &error), NS_ERR_ARGUMENT);
}

// Rastrigin.
static double rastrigin(void* context, const double* x, double* g) {
    (void)context, (void)g;
    double value = 0.0;
    for (int i = 0; i < 2; i++) {
        value += x[i] * x[i] + 10.0 * (1.0 - cos(6.28318530717958648 * x[i]));
    }
    return value;
}

static void it_searches_locally_for_basin_hopping(void** state) {
    (void)state;
    const double lower[2] = {-5.0, -5.0}, upper[2] = {5.0, 5.0};
    ns_solver_problem p = {.n = 2, .cost = rastrigin, .lower = lower, .upper = upper};
    ns_solver_options o = {
        .max_iterations = 50, .target = 1e-6, .local = "nelder_mead", .threads = 1};
    double x[2] = {4.3, -3.7};
    ns_solver_result out;
    ns_error error = {0};
    must(ns_minimise("basin_hopping", &p, &o, x, &out, &error), &error);
    assert_int_equal(out.finish, NS_FINISH_CONVERGED);
    assert_true(fabs(x[0]) < 1e-3 && fabs(x[1]) < 1e-3);
}

// ---- the table ---------------------------------------------------------------------------------

static void the_table_knows_it(void** state) {
    (void)state;
    assert_ptr_equal(ns_solver_find("nelder_mead"), &nelder_mead);
    uint32_t count = 0;
    while (ns_solver_at(count)) count++;
    assert_ptr_equal(ns_solver_at(count - 1), &nelder_mead);
    assert_string_equal(ns_solver_at(0)->name, "lm");
    for (uint32_t k = 0; k < count; k++) {
        const ns_solver* solver = ns_solver_at(k);
        assert_ptr_equal(ns_solver_find(solver->name), solver);
        assert_true(solver->help && solver->title && solver->max_iterations > 0);
    }
    assert_null(ns_solver_find("nelder-mead"));
    assert_null(ns_solver_find(NULL));

    ns_solver_problem p = {.n = 2, .cost = rosenbrock};
    double x[2] = {0.0, 0.0};
    ns_solver_result out;
    ns_error error;
    assert_int_equal(ns_minimise("nelder_maed", &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "did you mean \"nelder_mead\"?"));
    assert_int_equal(ns_minimise(NULL, &p, NULL, x, &out, &error), NS_ERR_ARGUMENT);
}

// ---- a fit -------------------------------------------------------------------------------------

#define PENDULUM(mass, damping)                                                                    \
    "<mujoco><option timestep='0.01'/><worldbody><body name='rod'>"                                \
    "<joint name='hinge' type='hinge' axis='0 1 0' damping='" damping "'/>"                        \
    "<inertial pos='0 0 -0.5' mass='" mass "' diaginertia='0.02 0.02 0.01'/>"                      \
    "</body></worldbody></mujoco>"

enum { STEPS = 200 };

static void write_files(const char* method) {
    trial t = trial_make(PENDULUM("1.5", "0.2"), NULL, STEPS);
    t.x0[0] = 1.2;
    trial_run(&t);
    FILE* out = fopen(tempdir_path("swing.csv"), "w");
    assert_non_null(out);
    fprintf(out, "t,q0,qd0\n");
    for (uint32_t k = 0; k <= STEPS; k++) {
        const double* x = trial_state(&t, k);
        fprintf(out, "%.3f,%.17g,%.17g\n", 0.01 * k, x[0], x[1]);
    }
    fclose(out);
    trial_free(&t);
    tempdir_write("pendulum.xml", PENDULUM("1.0", "0.05"));
    char text[512];
    snprintf(text, sizeof text,
             "model: pendulum.xml\n"
             "data: {train: [swing.csv]}\n"
             "parameters: {joint/hinge/damping: free, link/rod/mass: free}\n"
             "train: {window: 50, initial_state: recorded, method: %s, iterations: 400}\n",
             method);
    tempdir_write("fit.yaml", text);
}

static bool stop_at_third(void* context, const ns_fit_progress* progress) {
    assert_non_null(strstr(progress->phase, "Nelder-Mead"));
    return ++*(int*)context == 3;
}

static void fit_estimates(ns_fit* fit, double estimates[2]) {
    assert_true(ns_fit_estimate(fit, "joint/hinge/damping", &estimates[0], NULL));
    assert_true(ns_fit_estimate(fit, "link/rod/mass", &estimates[1], NULL));
}

static void it_runs_a_stage_of_a_fit(void** state) {
    (void)state;
    ns_error error = {0};
    write_files("nelder_mead");
    ns_fit* fit = NULL;
    must(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    double whole[2], resumed[2];
    fit_estimates(fit, whole);
    close_to("damping", whole[0], 0.2, 1e-3);
    close_to("mass", whole[1], 1.5, 1e-2);

    // Stopped, and resumed in another run: the same bits.
    int calls = 0;
    char checkpoint[256];
    snprintf(checkpoint, sizeof checkpoint, "%s", tempdir_path("checkpoint.json"));
    ns_fit_options options = {
        .observe = stop_at_third, .context = &calls, .checkpoint = checkpoint, .interval = 1e-9};
    must(ns_fit_run(fit, &options, &error), &error);
    assert_true(ns_fit_stopped(fit));
    options.observe = NULL;
    options.resume = true;
    must(ns_fit_run(fit, &options, &error), &error);
    assert_false(ns_fit_stopped(fit));
    fit_estimates(fit, resumed);
    assert_memory_equal(whole, resumed, sizeof whole);
    ns_fit_free(fit);
}

static void a_misspelt_name_is_told(void** state) {
    (void)state;
    write_files("nelder_maed");
    ns_fit* fit = NULL;
    ns_error error;
    assert_int_equal(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), NS_ERR_PARSE);
    assert_non_null(strstr(error.message, "did you mean \"nelder_mead\"?"));
    write_files("crs2"); // a search is no stage
    assert_int_equal(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), NS_ERR_PARSE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_knows_it),
        cmocka_unit_test(it_minimises_a_function_by_its_name),
        cmocka_unit_test(it_searches_locally_for_basin_hopping),
        cmocka_unit_test(it_runs_a_stage_of_a_fit),
        cmocka_unit_test(a_misspelt_name_is_told),
    };
    return cmocka_run_group_tests(tests, register_solver, NULL);
}
