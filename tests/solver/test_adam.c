// Adam: the first steps by hand, a minimum that is known, runs that are stored and continued.

#include "solver/solvers.h"
#include "support/assert.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

enum { N = 5 };

// Sum of (i + 1) (x_i - i)^2; for `wall` above 0, no value where x_0 is below -wall.
typedef struct bowl {
    double wall;
    uint32_t calls, without, stop_at;
    double at[N]; // where an observer stopped
} bowl;

static double bowl_value(void* context, const double* x, double* g) {
    bowl* b = context;
    b->calls++;
    if (b->wall > 0.0 && x[0] < -b->wall) {
        b->without++;
        return NAN;
    }
    double value = 0.0;
    for (int i = 0; i < N; i++) {
        double d = x[i] - (double)i, a = (double)(i + 1);
        value += a * d * d;
        g[i] = 2.0 * a * d;
    }
    return value;
}

static bool stop(void* context, const ns_solver_progress* progress) {
    bowl* b = context;
    memcpy(b->at, progress->x, sizeof b->at);
    return progress->iteration == b->stop_at;
}

typedef struct run {
    double x[N], numbers[2 * N + 1]; // numbers: the state, iteration and moments
    ns_solver_result out;
} run;

static void start(run* r) {
    *r = (run){.x = {-3.0, 4.0, 0.5, 9.0, -2.0}};
}

// From a state to another one.
static void go(run* r, bowl* b, ns_solver_observer* observe, const ns_solver_options* options) {
    ns_error error = {0};
    ns_solver_options o = options ? *options : (ns_solver_options){.max_iterations = 1000};
    ns_solver_problem p = {.n = N, .cost = bowl_value, .observe = observe, .context = b};
    void* state = NULL;
    must(nsi_solver_adam.create(&p, &o, &state, &error), &error);
    assert_int_equal(nsi_solver_adam.state_size(state), 2 * N + 1);
    nsi_solver_adam.load(state, r->numbers);
    must(nsi_solver_adam.step(state, r->x, o.max_iterations, &r->out, &error), &error);
    nsi_solver_adam.save(state, r->numbers);
    nsi_solver_adam.free(state);
}

// The first step is the rate in every coordinate, whatever the gradient.
static void the_first_steps_are_those_of_the_paper(void** state) {
    (void)state;
    ns_solver_options o = {0};
    o.learning_rate = 0.1;
    o.final_learning_rate = 0.1;
    o.max_iterations = 3;
    run r;
    start(&r);
    bowl b = {0};
    go(&r, &b, NULL, &o);
    double x[N] = {-3.0, 4.0, 0.5, 9.0, -2.0}, m[N] = {0}, v[N] = {0}, g[N];
    for (int t = 1; t <= 3; t++) {
        bowl_value(&b, x, g);
        for (int i = 0; i < N; i++) {
            m[i] = 0.9 * m[i] + 0.1 * g[i];
            v[i] = 0.999 * v[i] + 0.001 * g[i] * g[i];
            double mean = m[i] / (1.0 - pow(0.9, t)), square = v[i] / (1.0 - pow(0.999, t));
            x[i] -= 0.1 * mean / (sqrt(square) + 1e-8);
        }
    }
    residual residuals = {.name = "three steps", .tolerance = 1e-14};
    residual_array(&residuals, r.x, x, N, 1.0);
    residual_check(&residuals);
    assert_int_equal(r.out.finish, NS_FINISH_LIMIT);
    assert_int_equal(r.out.iterations, 3);
    assert_int_equal(r.out.evaluations, 3);
}

static void finds_the_minimum_of_a_bowl(void** state) {
    (void)state;
    const double clips[] = {0.0, 2.0};
    for (int k = 0; k < 2; k++) {
        ns_solver_options o = {0};
        o.learning_rate = 0.1;
        o.clip_norm = clips[k];
        o.max_iterations = 3000;
        run r;
        start(&r);
        bowl b = {0};
        go(&r, &b, NULL, &o);
        double want[N] = {0.0, 1.0, 2.0, 3.0, 4.0};
        residual residuals = {.name = "bowl", .tolerance = 1e-6};
        residual_array(&residuals, r.x, want, N, 1.0);
        residual_check(&residuals);
        assert_true(r.out.value < 1e-9);
    }
}

// With and without points that have no value, where a stored run must still find its way back.
static void a_stored_run_goes_on_bit_for_bit(void** state) {
    (void)state;
    const double walls[] = {0.0, 0.1};
    for (int k = 0; k < 2; k++) {
        ns_solver_options o = {0};
        o.learning_rate = 0.4;
        o.max_iterations = 120;
        run whole;
        start(&whole);
        bowl b = {.wall = walls[k]};
        if (k == 1) whole.x[0] = 3.0;
        go(&whole, &b, NULL, &o);
        if (k == 1) assert_true(b.without > 0);
        for (uint32_t at = 1; at < 60; at += 3) {
            run part;
            start(&part);
            if (k == 1) part.x[0] = 3.0;
            bowl c = {.wall = walls[k], .stop_at = at};
            go(&part, &c, stop, &o);
            assert_int_equal(part.out.finish, NS_FINISH_STOPPED);
            assert_true(part.numbers[0] == at);
            assert_memory_equal(c.at, part.x, sizeof part.x);
            run rest = part;
            c.stop_at = 0;
            go(&rest, &c, NULL, &o);
            assert_int_equal(rest.out.iterations, 120 - at);
            assert_memory_equal(rest.x, whole.x, sizeof rest.x);
            assert_memory_equal(rest.numbers, whole.numbers, sizeof rest.numbers);
            assert_true(rest.out.value == whole.out.value);
        }
    }
}

// Momentum carries x_0 past the wall beyond the minimum.
static void goes_back_from_where_there_is_no_value(void** state) {
    (void)state;
    ns_solver_options o = {0};
    o.learning_rate = 0.5;
    o.max_iterations = 2000;
    run r;
    start(&r);
    r.x[0] = 5.0;
    bowl b = {.wall = 0.1};
    go(&r, &b, NULL, &o);
    assert_true(b.without > 0);
    double want[N] = {0.0, 1.0, 2.0, 3.0, 4.0};
    residual residuals = {.name = "bowl with a wall", .tolerance = 1e-6};
    residual_array(&residuals, r.x, want, N, 1.0);
    residual_check(&residuals);
}

static void a_start_without_a_value_fails(void** state) {
    (void)state;
    run r;
    start(&r);
    bowl b = {.wall = 1.0};
    go(&r, &b, NULL, NULL);
    assert_int_equal(r.out.finish, NS_FINISH_FAILED);
    assert_true(r.numbers[0] == 0.0);
    assert_true(r.x[0] == -3.0);
}

static void bad_options_are_named(void** state) {
    (void)state;
    run r;
    start(&r);
    bowl b = {0};
    ns_solver_problem p = {.n = N, .cost = bowl_value, .context = &b};
    const struct {
        ns_solver_options options;
        const char* named;
    } cases[] = {{{.learning_rate = -0.1}, "learning_rate"},
                 {{.final_learning_rate = NAN}, "final_learning_rate"},
                 {{.beta1 = 1.0}, "beta1"},
                 {{.beta2 = 1.0}, "beta2"},
                 {{.epsilon = -1.0}, "epsilon"},
                 {{.clip_norm = -1.0}, "clip_norm"},
                 {{.l1 = 1.0}, "l1"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_error error;
        ns_status status = ns_minimise("adam", &p, &cases[k].options, r.x, &r.out, &error);
        assert_int_equal(status, NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, cases[k].named));
    }
    assert_int_equal(b.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_steps_are_those_of_the_paper),
        cmocka_unit_test(finds_the_minimum_of_a_bowl),
        cmocka_unit_test(a_stored_run_goes_on_bit_for_bit),
        cmocka_unit_test(goes_back_from_where_there_is_no_value),
        cmocka_unit_test(a_start_without_a_value_fails),
        cmocka_unit_test(bad_options_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
