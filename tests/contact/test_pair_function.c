// Pairs as calls of functions: the same forces, derivatives and quantities as in place, whatever sizes
// and parameters pairs have; work in proportion to the kinds of pairs; networks still reach points.

#include "neuralsim/neuralsim.h"
#include "sim/step.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tracing.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- scenes --------------------------------------------------------------------------------

enum { MIXED = 24 }; // boxes, spheres and capsules in turn: 28 pairs of each two of the same

// Bodies on the ground and into each other. Sizes are all alike, or all different.
static ns_model* heap(uint32_t count, bool mixed, bool different) {
    nsi_text_builder t = {.allocator = ns_default_allocator()};
    nsi_text_add(&t, "<mujoco><worldbody><geom name=\"floor\" type=\"plane\" size=\"5 5 1\"/>\n");
    for (uint32_t i = 0; i < count; i++) {
        static const char* const types[3] = {"box", "sphere", "capsule"};
        uint32_t size = different ? 40 + i : 50; // mm
        nsi_text_add(&t,
                     "<body name=\"b%u\" pos=\"%u.%02u 0.0%u 0.05\"><freejoint/>"
                     "<geom name=\"g%u\" type=\"%s\" size=\"0.0%u 0.050 0.050\" mass=\"1\"/>"
                     "</body>\n",
                     i, i * 9 / 100, i * 9 % 100, i % 7, i, types[mixed ? i % 3 : 0], size);
    }
    nsi_text_add(&t, "</worldbody></mujoco>");
    ns_text text;
    ns_model* model;
    ns_error error;
    must(nsi_text_finish(&t, &text, &error), &error);
    must(ns_model_parse(text.data, text.size, "heap", NULL, &model, &error), &error);
    ns_text_free(&text);
    return model;
}

static ns_expr leave_alone(void* context, const char* name, ns_expr x) {
    (void)context, (void)name;
    return x;
}

// The step, with pairs as they come or, for a hook that may want every quantity, all in place.
static ns_graph* step_of(const ns_model* model, bool in_place, const char* const* observe,
                         uint32_t nobserve) {
    nsi_step_options options = {.timestep = 0.001,
                                .contact.model = NS_CONTACT_SPRING,
                                .hook = in_place ? leave_alone : NULL,
                                .observe = observe,
                                .nobserve = nobserve};
    ns_graph* g;
    ns_error error;
    must(nsi_step_trace(model, &options, &g, &error), &error);
    return g;
}

// A state near that of the model, moving.
static void random_inputs(ns_rng* rng, const ns_model* model, uint32_t count, double* in) {
    ns_model_sizes m = ns_model_get_sizes(model);
    for (uint32_t k = 0; k < count; k++) in[k] = 0.3 * ns_rng_normal(rng);
    ns_model_default_q(model, in);
    for (uint32_t k = 0; k < m.nq; k++) in[k] += 0.02 * ns_rng_normal(rng);
}

// ---- the same as in place --------------------------------------------------------------------

static void run_once(const ns_graph* g, const double* in, double* out) {
    ns_program* program;
    must(ns_program_build(g, NULL, &program, NULL), NULL);
    void* work = malloc(ns_program_work_size(program));
    memset(work, 0xff, ns_program_work_size(program));
    ns_program_run(program, &(ns_run){.in = in, .out = out, .work = work});
    free(work);
    ns_program_free(program);
}

// Largest difference between two graphs at random states, relative to the size of each output.
static double difference(const ns_model* model, const ns_graph* a, const ns_graph* b) {
    uint32_t nin = ns_graph_input_count(a), nout = ns_graph_output_count(a);
    assert_int_equal(nin, ns_graph_input_count(b));
    assert_int_equal(nout, ns_graph_output_count(b));
    double *in = doubles(nin), *x = doubles(nout), *y = doubles(nout), max = 0.0;
    ns_rng rng = ns_rng_seed(3);
    for (int trial = 0; trial < 5; trial++) {
        random_inputs(&rng, model, nin, in);
        run_once(a, in, x);
        run_once(b, in, y);
        double scale = 1.0;
        for (uint32_t k = 0; k < nout; k++) scale = fmax(scale, fabs(y[k]));
        for (uint32_t k = 0; k < nout; k++) {
            assert_true(isfinite(x[k]));
            assert_string_equal(ns_graph_output_name(a, k), ns_graph_output_name(b, k));
            max = fmax(max, fabs(x[k] - y[k]) / scale);
        }
    }
    free(in), free(x), free(y);
    return max;
}

// Calls that the outputs depend on.
static uint32_t live_calls(const ns_graph* g) {
    uint8_t* live = malloc(g->nodes.count);
    uint32_t count = 0;
    nsi_graph_mark_live(g, live);
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        const nsi_node* node = &g->nodes.data[i];
        count += live[i] && node->op == NSI_BLOCK && g->blocks.data[node->a].function;
    }
    free(live);
    return count;
}

static void calls_act_as_pairs_in_place(void** state) {
    (void)state;
    static const char* const observe[] = {"contact/*/*/*", "contact/*/*/*/*"}; // of points
    for (int different = 0; different < 2; different++) {
        ns_model* model = heap(MIXED, true, different);
        for (uint32_t nobserve = 0; nobserve <= 2; nobserve += 2) {
            ns_graph* called = step_of(model, false, observe, nobserve);
            ns_graph* in_place = step_of(model, true, observe, nobserve);
            assert_true(live_calls(called) > 0);
            assert_int_equal(live_calls(in_place), 0);
            double values = difference(model, called, in_place);
            print_message("%s sizes%s: %u and %u operations; differ by %.1e",
                          different ? "different" : "equal", nobserve ? ", all observed" : "",
                          ns_graph_op_count(called), ns_graph_op_count(in_place), values);
            assert_true(values < 1e-13);

            // Reverse mode, from the next state.
            if (nobserve == 0) {
                ns_graph *d[2], *from[2] = {called, in_place};
                for (int k = 0; k < 2; k++) must(ns_graph_vjp(from[k], NULL, &d[k], NULL), NULL);
                double gradients = difference(model, d[0], d[1]);
                print_message(", gradients by %.1e", gradients);
                assert_true(gradients < 1e-11);
                for (int k = 0; k < 2; k++) ns_graph_free(d[k]);
            }
            print_message("\n");
            ns_graph_free(called);
            ns_graph_free(in_place);
        }
        ns_model_free(model);
    }
}

// Forward, reverse, differences, backends, lanes.
static void derivatives_are_right(void** state) {
    (void)state;
    ns_model* model = heap(4, false, false);
    ns_graph* g = step_of(model, false, NULL, 0);
    assert_true(g->functions.count > 0);
    double* in = doubles(ns_graph_input_count(g));
    ns_rng rng = ns_rng_seed(8);
    random_inputs(&rng, model, ns_graph_input_count(g), in);
    check_report report =
        check_function(g, in, NULL, &(check_options){.name = "boxes", .c = CHECK_C_VJP});
    print_message("%u slopes, %u undecided, differences agree to %.1e\n", report.slopes,
                  report.undecided, report.difference_error);
    assert_true(report.undecided < report.slopes / 4);
    free(in);
    ns_graph_free(g);
    ns_model_free(model);
}

// Points alone, as rigid contact asks for them: near and far, and where their distance matters.
static void points_by_calls_are_those_in_place(void** state) {
    (void)state;
    enum { REACH_MM = 30 };
    ns_model* model = heap(6, false, true);
    ns_model_sizes m = ns_model_get_sizes(model);
    nsi_contact_options options = {.model = NS_CONTACT_SPRING};
    uint32_t npoint = nsi_candidates_count(model, &options, NS_CONTACT_SPRING), nq = m.nq;
    enum { KINDS = 3, PER_POINT = 9 };

    // One graph with all three: in place, called everywhere, called within reach.
    ns_graph* g = tracing_begin();
    ns_expr *q = malloc(nq * sizeof *q), *qd = malloc(m.nv * sizeof *qd);
    ns_expr* param = malloc(m.nparam * sizeof *param);
    char name[64];
    for (uint32_t k = 0; k < nq; k++) {
        snprintf(name, sizeof name, "q%u", k);
        q[k] = ns_input(name);
    }
    for (uint32_t k = 0; k < m.nv; k++) qd[k] = ns_const(0.0);
    for (uint32_t k = 0; k < m.nparam; k++) param[k] = ns_const(model->params[k].value);
    nsi_robot robot;
    assert_true(nsi_robot_init(&robot, model, param, q, qd));
    nsi_link_pose* pose = malloc(m.nlink * sizeof *pose);
    nsi_link_poses(&robot, pose);
    nsi_candidates found[KINDS];
    int law = NS_CONTACT_SPRING;
    found[0].count = 0;
    found[0].data = malloc(npoint * sizeof *found[0].data);
    const uint32_t* slot = nsi_law_slots(&robot, law);
    for (uint32_t i = 0; i < m.ncontact; i++) {
        nsi_placed_pair pair;
        assert_true(nsi_pair_place(&robot, pose, &options, law, slot, i, &pair));
        nsi_pair_candidates(&pair, ns_const(1.0), found[0].data + found[0].count);
        found[0].count += pair.npoint;
    }
    assert_int_equal(live_calls(g), 0);
    assert_true(nsi_candidates_find(&robot, pose, &options, law, &found[1]));
    ns_expr reach = ns_const(1e-3 * REACH_MM);
    assert_true(nsi_candidates_find_within(&robot, pose, &options, law, reach, &found[2]));
    for (int n = 0; n < KINDS; n++) {
        assert_int_equal(found[n].count, npoint);
        for (uint32_t c = 0; c < npoint; c++) {
            const nsi_candidate* at = &found[n].data[c];
            ns_expr out[PER_POINT] = {at->point.position.e[0],
                                      at->point.position.e[1],
                                      at->point.normal.e[2],
                                      at->tangent[0].e[0],
                                      at->tangent[1].e[1],
                                      at->point.gap,
                                      at->point.exists,
                                      at->near,
                                      at->seen.gap};
            for (int k = 0; k < PER_POINT; k++) {
                snprintf(name, sizeof name, "%d/%u/%d", n, c, k);
                ns_output(name, out[k]);
            }
        }
    }
    tracing_end();

    // In place and called are the same; beyond reach there is no point, within it there is.
    uint32_t far = 0, near = 0;
    double *in = doubles(nq), *out = doubles((size_t)KINDS * npoint * PER_POINT);
    ns_rng rng = ns_rng_seed(4);
    for (int trial = 0; trial < 20; trial++) {
        ns_model_default_q(model, in);
        for (uint32_t k = 0; k < nq; k++) in[k] += 0.02 * ns_rng_normal(&rng);
        run_once(g, in, out);
        for (uint32_t c = 0; c < npoint; c++) {
            const double *a = out + (size_t)c * PER_POINT, *b = a + (size_t)npoint * PER_POINT,
                         *w = b + (size_t)npoint * PER_POINT;
            for (int k = 0; k < 7; k++) close_to("point", b[k], a[k], 1e-14);
            if (w[7] == 0.0) {
                far++;
                assert_true(w[6] == 0.0 && w[5] > 0.5);
                assert_true(a[6] == 0.0 || a[5] > 1e-3 * REACH_MM - 1e-12);
                close_to("gap that is seen", w[8], a[5], 1e-14);
            } else {
                near++;
                for (int k = 0; k < 7; k++) close_to("point within reach", w[k], a[k], 1e-14);
            }
        }
    }
    print_message("%u points within reach, %u beyond\n", near, far);
    assert_true(near > 100 && far > 100);
    free(in), free(out), free(found[0].data), free(pose), free(param), free(q), free(qd);
    ns_graph_free(g);
    ns_model_free(model);
}

// ---- work ------------------------------------------------------------------------------------

static uint32_t operations(uint32_t boxes, bool different, uint32_t* functions) {
    ns_model* model = heap(boxes, false, different);
    ns_graph *g = step_of(model, false, NULL, 0), *vjp;
    must(ns_graph_vjp(g, NULL, &vjp, NULL), NULL);
    uint32_t count = ns_graph_op_count(vjp);
    *functions = vjp->functions.count;
    ns_graph_free(g);
    ns_graph_free(vjp);
    ns_model_free(model);
    return count;
}

// Of a step and its gradient. In place a pair of boxes has more than 10,000 operations.
static void operations_grow_with_kinds_not_with_pairs(void** state) {
    (void)state;
    for (int different = 0; different < 2; different++) {
        uint32_t functions[3], ops[3], boxes[3] = {8, 16, 32};
        for (int k = 0; k < 3; k++) ops[k] = operations(boxes[k], different, &functions[k]);
        print_message("%s sizes: %u, %u, %u operations, %u, %u, %u functions\n",
                      different ? "different" : "equal", ops[0], ops[1], ops[2], functions[0],
                      functions[1], functions[2]);
        // What bodies cost grows with their number, what pairs cost with the number of pairs.
        uint32_t pairs = 32 * 33 / 2 - 16 * 17 / 2, bodies = 16;
        assert_true(ops[2] - ops[1] < 100 * pairs + 1000 * bodies);
        for (int k = 0; k < 3; k++)
            assert_int_equal(functions[k], 4); // of two kinds, and gradients
    }
}

// ---- networks --------------------------------------------------------------------------------

// A network at one point, whose pair is in place then; the others still are calls.
static void networks_reach_points(void** state) {
    (void)state;
    ns_model* model = heap(6, false, false);
    char name[200], far[200];
    const char* pair = ns_model_contact(model, 1)->name;
    snprintf(name, sizeof name, "contact/%s/0/force/normal", pair);
    snprintf(far, sizeof far, "contact/%s/0/depth", pair);
    const char *inputs[1] = {far}, *outputs[1] = {name};
    ns_network_def def = ns_default_network_def();
    def.name = "push";
    def.inputs = inputs, def.ninput = 1;
    def.outputs = outputs, def.noutput = 1;
    ns_blueprint* blueprint;
    ns_error error;
    must(ns_blueprint_create(NULL, &blueprint, &error), &error);
    must(ns_blueprint_add(blueprint, &def, &error), &error);

    // Created alike with and without; the network's weights then decide whether it matters.
    double end[3][200] = {{0}};
    for (int k = 0; k < 3; k++) {
        ns_system_options options = ns_default_system_options();
        options.contact = NS_CONTACT_SPRING;
        options.blueprint = k > 0 ? blueprint : NULL;
        ns_system* system;
        must(ns_system_create(model, &options, &system, &error), &error);
        assert_true(ns_system_graph(system)->functions.count > 0);
        ns_system_sizes z = ns_system_get_sizes(system);
        ns_workspace* work;
        ns_workspace_size size = {.batch = 1, .steps = 20, .threads = 1};
        must(ns_workspace_create(system, &size, &work, &error), &error);
        double *x0 = doubles(z.nx), *states = doubles(21 * (size_t)z.nx), *w = doubles(z.nw);
        ns_model_default_q(model, x0);
        for (uint32_t i = 0; i < z.nw; i++) w[i] = k == 2 ? 5.0 : 0.0;
        ns_rollout_args args = {.batch = 1, .steps = 20, .x0 = x0, .states = states, .weights = w};
        must(ns_rollout(system, work, &args, &error), &error);
        assert_true(z.nx <= 200);
        memcpy(end[k], states + 20 * (size_t)z.nx, z.nx * sizeof *states);
        free(x0), free(states), free(w);
        ns_workspace_free(work);
        ns_system_free(system);
    }
    double silent = 0.0, loud = 0.0;
    for (int i = 0; i < 200; i++) {
        silent = fmax(silent, fabs(end[1][i] - end[0][i]));
        loud = fmax(loud, fabs(end[2][i] - end[0][i]));
    }
    print_message("a network of weights 0 changes %.1e, of weights 5 %.1e\n", silent, loud);
    assert_true(silent < 1e-11);
    assert_true(loud > 1e-4);
    ns_blueprint_free(blueprint);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_act_as_pairs_in_place),
        cmocka_unit_test(derivatives_are_right),
        cmocka_unit_test(points_by_calls_are_those_in_place),
        cmocka_unit_test(operations_grow_with_kinds_not_with_pairs),
        cmocka_unit_test(networks_reach_points),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
