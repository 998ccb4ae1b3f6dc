// Contacts that are found at run time are those that are traced one by one: the same motion, and the same
// derivatives by a different route.

#include "base/common.h"
#include "contact/scene.h"
#include "neuralsim/program.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/malloccount.h"
#include "support/modelfile.h"
#include "support/testalloc.h"
#include "support/trial.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static const char* const free_names[] = {
    "contact/*/mu", "contact/*/restitution", "contact/*/cfm", "contact/*/baumgarte_beta",
    "geom/**",      "world/gravity/*",       "link/*/mass"};

enum { SEEN = 3 }; // observations; sweeps of the two ways are counted differently

static ns_system_options scene_options(ns_detection detection) {
    ns_system_options options = ns_default_system_options();
    options.detection = detection;
    options.free_params = free_names;
    options.nfree = sizeof free_names / sizeof *free_names;
    static const char* const names[] = {"contact/penetration", "energy/total", "contact/sweeps"};
    options.observe = names;
    options.nobserve = SEEN;
    return options;
}

// Largest difference of two vectors, relative to the largest number in them.
static double difference(uint32_t n, const double* a, const double* b) {
    double largest = 0.0, apart = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        largest = fmax(largest, fmax(fabs(a[k]), fabs(b[k])));
        apart = fmax(apart, fabs(a[k] - b[k]));
    }
    return apart / fmax(largest, 1e-6); // what is zero has no more than rounding
}

// A motion from where the model stands.
typedef struct scene_run {
    const char* text; // of the model
    uint32_t steps;
    ns_friction friction;
    double restitution;
    const double* velocity; // (nv), or NULL
    const char* file;       // instead of the text: URDF, on the ground
    bool touches_itself;    // the robot of the file
    double lift;            // m, of a floating base
} scene_run;

static trial start_run(const scene_run* run, ns_detection detection) {
    ns_system_options options = scene_options(detection);
    options.friction = run->friction;
    ns_model* model = NULL;
    if (run->file) {
        ns_load_options load = ns_default_load_options();
        load.ground = true;
        load.self_collision = run->touches_itself;
        ns_error error = {0};
        must(ns_model_load(run->file, &load, &model, &error), &error);
    } else {
        model = modelfile_parse(run->text);
    }
    trial t = trial_of_model(model, &options, run->steps);
    trial_set(&t, "contact/*/restitution", run->restitution);
    t.x0[2] += run->lift;
    for (uint32_t k = t.nq; run->velocity && k < t.n.nx; k++) t.x0[k] = run->velocity[k - t.nq];
    return t;
}

// The same motion, and the same gradients of every third number of its end.
static void compare(const scene_run* run) {
    trial traced = start_run(run, NS_DETECTION_TRACED);
    trial found = start_run(run, NS_DETECTION_RUN_TIME);
    uint32_t nx = traced.n.nx, np = traced.n.np;
    assert_int_equal(nx, found.n.nx);
    assert_int_equal(np, found.n.np);
    trial_run(&traced);
    trial_run(&found);
    double moved = difference(nx * (run->steps + 1), traced.states, found.states);
    double seen = 0.0, sweeps = 0.0;
    for (uint32_t k = 0; k < run->steps; k++) {
        const double* y = found.observations + SEEN * k;
        seen = fmax(seen, difference(SEEN - 1, traced.observations + SEEN * k, y));
        sweeps += y[SEEN - 1];
    }
    assert_true(sweeps > 0.0); // something touched

    double* g[4];
    for (int k = 0; k < 4; k++) g[k] = doubles(k % 2 ? np : nx);
    double worst = 0.0;
    for (uint32_t k = 0; k < nx; k += 3) {
        trial_gradient(&traced, k, g[0], g[1]);
        trial_gradient(&found, k, g[2], g[3]);
        worst = fmax(worst, difference(nx, g[0], g[2]));
        worst = fmax(worst, difference(np, g[1], g[3]));
    }
    print_message("states %.1e, observations %.1e, gradients %.1e\n", moved, seen, worst);
    assert_true(moved < 1e-9);
    assert_true(seen < 1e-9);
    assert_true(worst < 1e-6);
    for (int k = 0; k < 4; k++) free(g[k]);
    trial_free(&traced);
    trial_free(&found);
}

#define HEAD                                                                                       \
    "<mujoco><option timestep=\"0.001\"/><worldbody>"                                              \
    "<geom name=\"floor\" type=\"plane\" size=\"5 5 1\"/>"
#define TAIL "</worldbody></mujoco>"

static void a_ball_bounces(void** state) {
    (void)state;
    static const char text[] =
        HEAD "<body name=\"a\" pos=\"0 0 0.12\"><freejoint/><geom name=\"a\" type=\"sphere\" "
             "size=\".1\" mass=\"1\"/></body>" TAIL;
    double v[6] = {0.3, 0.1, -1.0, 1.0, 2.0, 0.5};
    compare(&(scene_run){.text = text, .steps = 60, .velocity = v});
}

static const char islands[] =
    HEAD "<body name=\"a\" pos=\"0 0 0.1\"><freejoint/><geom name=\"a\" type=\"sphere\" "
         "size=\".1\" mass=\"1\"/></body>"
         "<body name=\"b\" pos=\"0.02 0 0.302\"><freejoint/><geom name=\"b\" type=\"sphere\" "
         "size=\".1\" mass=\"2\"/></body>"
         "<body name=\"c\" pos=\"1 0 0.15\"><freejoint/><geom name=\"c\" type=\"box\" "
         "size=\".05 .06 .07\" mass=\"2\"/></body>" TAIL;
static const double islands_velocity[18] = {0,   0,   0, 0,   0,   0,  0.1, 0, -1,
                                            0.2, 0.3, 0, 0.4, 0.2, -2, 3,   1, 2};

static void two_islands(void** state) {
    (void)state;
    compare(&(scene_run){.text = islands, .steps = 80, .velocity = islands_velocity});
}

static void friction_is_a_pyramid(void** state) {
    (void)state;
    compare(&(scene_run){.text = islands,
                         .steps = 80,
                         .velocity = islands_velocity,
                         .friction = NS_FRICTION_PYRAMID});
}

static void bodies_rebound(void** state) {
    (void)state;
    compare(&(scene_run){
        .text = islands, .steps = 80, .velocity = islands_velocity, .restitution = 0.5});
}

// A chain with its own collisions, beside a box on the ground: bodies of one tree touch each other.
static void a_chain_folds(void** state) {
    (void)state;
    static const char text[] =
        HEAD "<body name=\"l0\" pos=\"0 0 .5\"><joint axis=\"0 1 0\"/><joint axis=\"1 0 0\"/>"
             "<geom name=\"g0\" type=\"capsule\" fromto=\"0 0 0 .3 0 0\" size=\".03\" mass=\"1\"/>"
             "<body name=\"l1\" pos=\".3 0 0\"><joint axis=\"0 1 0\"/>"
             "<geom name=\"g1\" type=\"capsule\" fromto=\"0 0 0 .3 0 0\" size=\".03\" mass=\"1\"/>"
             "<body name=\"l2\" pos=\".3 0 0\"><joint axis=\"0 1 0\"/>"
             "<geom name=\"g2\" type=\"capsule\" fromto=\"0 0 0 .3 0 0\" size=\".03\" mass=\"1\"/>"
             "</body></body></body>"
             "<body name=\"box\" pos=\".3 0.02 .1\"><freejoint/><geom name=\"box\" type=\"box\" "
             "size=\".1 .1 .1\" mass=\"3\"/></body>" TAIL;
    double v[10] = {0.5, 0.2, 6.0, 9.0};
    compare(&(scene_run){.text = text, .steps = 200, .velocity = v});
}

// Every kind of convex body on terrain, and on one another.
static void all_shapes_touch(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><option timestep='0.001'/><asset><hfield name='h' nrow='3' ncol='3' "
        "size='2 2 .3 .1' elevation='1 .8 .9 .8 .1 .7 .9 .8 1'/><mesh name='cube' vertex='-.1 -.1 "
        "-.1 .1 -.1 -.1 -.1 .1 -.1 .1 .1 -.1 -.1 -.1 .1 .1 -.1 .1 -.1 .1 .1 .1 .1 .1'/></asset>"
        "<worldbody><geom name='ground' type='hfield' hfield='h'/>"
        "<body name='a' pos='.02 .01 .3'><freejoint/><geom name='a' type='cylinder' size='.2 .1' "
        "mass='1'/></body>"
        "<body name='b' pos='.03 0 .47'><freejoint/><geom name='b' type='ellipsoid' "
        "size='.1 .08 .06' mass='1'/></body>"
        "<body name='c' pos='.5 .1 .4' quat='.9 .2 .1 .3'><freejoint/><inertial pos='0 0 0' "
        "mass='1' diaginertia='.007 .007 .007'/><geom name='c' type='mesh' "
        "mesh='cube'/></body>" TAIL;
    double v[18] = {0.3, 0.1, -1, 0.2, 0.3, 0, 0.1, 0, -1, 1, 2, 0, -2, 0, -1, 1, 0, 2};
    compare(&(scene_run){.text = text, .steps = 100, .velocity = v});
}

static void a_quadruped_touches_itself(void** state) {
    (void)state;
    double v[18] = {0.2, 0.1, -3.0, 1.0, 2.0, 0.5, 4, 5, -6, -4, 5, -6, 3, -7, -5, -3, -7, -5};
    scene_run run = {.file = NEURALSIM_SOURCE_DIR "/models/quadruped.urdf",
                     .touches_itself = true,
                     .steps = 150,
                     .velocity = v,
                     .lift = 0.1};
    compare(&run);
    trial with = start_run(&run, NS_DETECTION_RUN_TIME);
    run.touches_itself = false;
    trial without = start_run(&run, NS_DETECTION_RUN_TIME);
    trial_run(&with);
    trial_run(&without);
    assert_true(difference(with.n.nx, trial_end(&with), trial_end(&without)) > 1e-3);
    trial_free(&with);
    trial_free(&without);
}

// A robot has the same bits alone and in a batch.
static void robots_of_a_batch_do_not_know_each_other(void** state) {
    (void)state;
    enum { ROBOTS = 6, STEPS = 60 };
    const scene_run run = {.text = islands, .steps = STEPS, .velocity = islands_velocity};
    trial t = start_run(&run, NS_DETECTION_RUN_TIME);
    const uint32_t nx = t.n.nx;
    const size_t row = (size_t)(STEPS + 1) * nx;
    double *x0 = doubles(ROBOTS * nx), *seeds = doubles(ROBOTS * row);
    double *states = doubles(ROBOTS * row), *dx0 = doubles(ROBOTS * nx);
    double *alone = doubles(row), *dalone = doubles(nx);
    ns_rng rng = ns_rng_seed(5);
    for (uint32_t k = 0; k < ROBOTS * nx; k++) {
        x0[k] = t.x0[k % nx] + (k % nx < t.nq ? 0.0 : ns_rng_uniform(&rng, -0.5, 0.5));
    }
    for (size_t k = 0; k < ROBOTS * row; k++) seeds[k] = ns_rng_normal(&rng);

    ns_error error = {0};
    ns_rollout_args args = {
        .batch = ROBOTS, .steps = STEPS, .x0 = x0, .params = t.params, .states = states};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
    must(ns_rollout_vjp(t.system, t.work, &args, &adjoint, &error), &error);
    for (uint32_t b = 0; b < ROBOTS; b++) {
        args = (ns_rollout_args){
            .batch = 1, .steps = STEPS, .x0 = x0 + b * nx, .params = t.params, .states = alone};
        adjoint = (ns_rollout_adjoint){.state_seeds = seeds + b * row, .dx0 = dalone};
        must(ns_rollout_vjp(t.system, t.work, &args, &adjoint, &error), &error);
        for (size_t k = 0; k < row; k++)
            assert_true(check_same_bits(alone[k], states[b * row + k]));
        for (uint32_t k = 0; k < nx; k++) assert_true(check_same_bits(dalone[k], dx0[b * nx + k]));
    }
    double* const all[] = {x0, seeds, states, dx0, alone, dalone};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    trial_free(&t);
}

// ---- gradients ---------------------------------------------------------------------------------

// A height of the end, after a change of an initial velocity.
static double height_after(trial* t, uint32_t k, double change, uint32_t height) {
    const double kept = t->x0[k];
    t->x0[k] = kept + change;
    trial_run(t);
    t->x0[k] = kept;
    return trial_end(t)[height];
}

// Random bodies fall on each other; gradients agree with central differences of two widths wherever these
// agree with one another, and both sides with each other, that is away from switches.
static void gradients_are_differences(void** state) {
    (void)state;
    enum { SCENES = 4, BODIES = 3, STEPS = 60 };
    static const char* const shapes[] = {"type='sphere' size='.1'", "type='box' size='.1 .07 .05'",
                                         "type='capsule' size='.06 .08'"};
    ns_rng rng = ns_rng_seed(12);
    uint32_t clean = 0, right = 0, total = 0;
    for (int scene = 0; scene < SCENES; scene++) {
        char text[2000] = HEAD;
        for (uint32_t b = 0; b < BODIES; b++) {
            // One after the other: the order of arguments is the compiler's.
            double at[2], turn[4];
            for (int i = 0; i < 2; i++) at[i] = ns_rng_uniform(&rng, -0.03, 0.03);
            for (int i = 0; i < 4; i++) turn[i] = ns_rng_normal(&rng);
            const char* shape = shapes[ns_rng_next(&rng) % 3];
            char part[400];
            snprintf(part, sizeof part,
                     "<body name='b%u' pos='%.9g %.9g %.9g' quat='%.9g %.9g %.9g %.9g'><freejoint/>"
                     "<geom name='g%u' %s mass='%.9g'/></body>",
                     b, at[0], at[1], 0.15 + 0.23 * b, turn[0], turn[1], turn[2], turn[3], b, shape,
                     ns_rng_uniform(&rng, 0.5, 2.0));
            strcat(text, part);
        }
        strcat(text, TAIL);
        double v[6 * BODIES];
        for (uint32_t k = 0; k < 6 * BODIES; k++) v[k] = ns_rng_normal(&rng);
        for (uint32_t b = 0; b < BODIES; b++) v[6 * b + 2] = -2.0 - 1.5 * b;
        const scene_run run = {
            .text = text, .steps = STEPS, .velocity = v, .restitution = scene % 2 ? 0.4 : 0.0};
        trial t = start_run(&run, NS_DETECTION_RUN_TIME);

        double* g = doubles(t.n.nx);
        for (uint32_t b = 0; b < BODIES; b++) {
            const uint32_t height = 7 * b + 2;
            trial_gradient(&t, height, g, NULL);
            for (uint32_t k = t.nq; k < t.n.nx; k += 3) {
                double d[2], sides[2], size = 0.0;
                const double middle = height_after(&t, k, 0.0, height);
                for (int w = 0; w < 2; w++) {
                    const double h = w ? 2e-6 : 1e-6;
                    const double more = height_after(&t, k, h, height);
                    const double less = height_after(&t, k, -h, height);
                    d[w] = (more - less) / 2 / h;
                    size = fmax(size, fabs(d[w]));
                    sides[0] = (more - middle) / h;
                    sides[1] = (middle - less) / h;
                }
                total++;
                if (fabs(d[0] - d[1]) > 1e-6 * size + 1e-9) continue;         // a jump nearby
                if (fabs(sides[0] - sides[1]) > 1e-3 * size + 1e-6) continue; // a kink, here
                clean++;
                const bool agrees = fabs(g[k] - d[0]) < 1e-5 * size + 1e-8;
                if (!agrees)
                    print_message("%u: %.9g, differences %.9g %.9g\n", k, g[k], d[0], d[1]);
                right += agrees;
            }
        }
        free(g);
        trial_free(&t);
    }
    print_message("%u of %u differences are clean, %u agree\n", clean, total, right);
    assert_true(clean * 2 > total);
    assert_int_equal(right, clean);
}

// ---- limits ------------------------------------------------------------------------------------

static ns_system* system_of(ns_model* model) {
    ns_system_options options = scene_options(NS_DETECTION_RUN_TIME);
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create(model, &options, &system, &error), &error);
    return system;
}

// Tables of a scene are neither text nor C.
static void scenes_cannot_leave_the_process(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(islands);
    ns_system* system = system_of(model);
    const ns_graph* graph = ns_system_graph(system);
    ns_error error = {0};
    ns_text text = {0};
    ns_graph* copy = NULL;

    assert_int_equal(ns_graph_emit_c(graph, "step", &text, &error), NS_ERR_UNSUPPORTED);
    assert_non_null(strstr(error.message, "scene_detect"));
    assert_non_null(strstr(error.message, "emitted C"));
    must(ns_graph_print(graph, &text, &error), &error);
    assert_int_equal(ns_graph_parse(text.data, text.size, "t", NULL, &copy, &error), NS_ERR_PARSE);
    print_message("%s\n", error.message);
    assert_non_null(strstr(error.message, "scene_"));
    assert_null(copy);
    ns_text_free(&text);
    ns_system_free(system);
    ns_model_free(model);
}

// As many contacts as there is room for, and more.
static void too_many_contacts_are_unsolved(void** state) {
    (void)state;
    enum { BOXES = NSI_SCENE_MAX_CONTACTS / 4 + 1 };
    for (uint32_t count = BOXES - 1; count <= BOXES; count++) {
        const size_t size = 200 + 150 * (size_t)count;
        char* text = malloc(size);
        assert_non_null(text);
        size_t used = (size_t)snprintf(text, size, HEAD);
        for (uint32_t k = 0; k < count; k++) {
            used += (size_t)snprintf(text + used, size - used,
                                     "<body pos='%u 0 .1'><joint type='slide' axis='0 0 1'/>"
                                     "<geom type='box' size='.1 .1 .1' contype='0'/></body>",
                                     k);
        }
        snprintf(text + used, size - used, TAIL);
        ns_system_options options = ns_default_system_options();
        trial t = trial_make(text, &options, 2);
        ns_rollout_args args = {
            .batch = 1, .steps = 2, .x0 = t.x0, .states = t.states, .contact = &t.contact};
        ns_error error = {0};
        must(ns_rollout(t.system, t.work, &args, &error), &error);
        assert_int_equal(t.contact.unsolved, count == BOXES ? 2 : 0);
        trial_free(&t);
        free(text);
    }
}

// ---- memory ------------------------------------------------------------------------------------

static ns_model* counted_model(const ns_allocator* allocator) {
    ns_load_options load = ns_default_load_options();
    load.allocator = allocator;
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(islands, strlen(islands), "t", &load, &model, &error), &error);
    return model;
}

static void nothing_is_allocated_while_it_runs(void** state) {
    (void)state;
    enum { STEPS = 40 };
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model* model = counted_model(&allocator);
    ns_system* system = system_of(model);
    const uint32_t nx = ns_system_get_sizes(system).nx, nq = ns_model_get_sizes(model).nq;
    double *x0 = doubles(nx), *dx0 = doubles(nx), *states = doubles((STEPS + 1) * nx);
    double *seeds = doubles((STEPS + 1) * nx), *dstates = doubles((STEPS + 1) * nx);
    ns_model_default_q(model, x0);
    memcpy(x0 + nq, islands_velocity, sizeof islands_velocity);
    for (uint32_t k = 0; k < nx; k++) seeds[STEPS * nx + k] = 1.0;
    ns_workspace_size size = {.batch = 1, .steps = STEPS, .threads = 1};
    ns_workspace* work = NULL;
    ns_error error = {0};
    must(ns_workspace_create(system, &size, &work, &error), &error);

    ns_rollout_args args = {.batch = 1, .steps = STEPS, .x0 = x0, .states = states};
    ns_rollout_adjoint adjoint = {.state_seeds = seeds, .dx0 = dx0};
    ns_rollout_tangent tangent = {.dx0 = seeds + STEPS * nx, .dstates = dstates};
    const size_t calls = counter.calls, mallocs = malloc_calls;
    assert_int_equal(ns_rollout(system, work, &args, NULL), NS_OK);
    assert_int_equal(ns_rollout_vjp(system, work, &args, &adjoint, NULL), NS_OK);
    assert_int_equal(ns_rollout_jvp(system, work, &args, &tangent, NULL), NS_OK);
    assert_int_equal(counter.calls, calls);
    assert_int_equal(malloc_calls, mallocs);
#ifdef COUNTS_MALLOC
    assert_true(malloc_calls > 0); // it does count
#endif
    double* const all[] = {x0, dx0, states, seeds, dstates};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) free(all[k]);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

// Every allocation of a system fails once. One early, then in steps that grow.
static void memory_may_run_out(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model* model = counted_model(&allocator);
    const size_t blocks = counter.live_blocks;
    ns_system_options options = scene_options(NS_DETECTION_RUN_TIME);
    options.backend = NS_BACKEND_INTERP;
    uint32_t failures = 0;
    for (size_t n = 1;; n += 1 + n / 100) {
        ns_error error = {0};
        ns_system* system = NULL;
        counter.calls = 0;
        counter.fail_at = n;
        const ns_status status = ns_system_create(model, &options, &system, &error);
        const bool reached = counter.calls >= n;
        counter.fail_at = 0;
        ns_system_free(system);
        assert_int_equal(counter.live_blocks, blocks);
        if (!reached) break;
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
        failures++;
    }
    print_message("%u allocations failed\n", failures);
    assert_true(failures > 100);
    ns_model_free(model);
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ball_bounces),
        cmocka_unit_test(two_islands),
        cmocka_unit_test(friction_is_a_pyramid),
        cmocka_unit_test(bodies_rebound),
        cmocka_unit_test(a_chain_folds),
        cmocka_unit_test(all_shapes_touch),
        cmocka_unit_test(a_quadruped_touches_itself),
        cmocka_unit_test(robots_of_a_batch_do_not_know_each_other),
        cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(scenes_cannot_leave_the_process),
        cmocka_unit_test(too_many_contacts_are_unsolved),
        cmocka_unit_test(nothing_is_allocated_while_it_runs),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
