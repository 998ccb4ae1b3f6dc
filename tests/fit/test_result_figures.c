// Figures of a result: their numbers are those of the result, and the pictures show them.

#define _XOPEN_SOURCE 700

#include "fit/fit_state.h"
#include "fit/result.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/picture.h"
#include "support/program.h"
#include "support/rendered.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { N = 3, POINTS = 30, GROUPS = 10 };

static const char* const names[N] = {"link/a/mass", "b <&> \"c\"", "d"};

static void make_sample(const ns_allocator* memory, nsi_result* a) {
    nsi_result_init(memory, a);
    static const double values[N] = {2.0, -4.0, 0.5}, errors[N] = {0.1, INFINITY, NAN};
    static const ns_verdict verdicts[N] = {NS_VERDICT_OK, NS_VERDICT_UNDETERMINED,
                                           NS_VERDICT_NO_EFFECT};
    a->correlation = nsi_alloc(&a->allocator, N * N * sizeof *a->correlation);
    assert_non_null(a->correlation);
    for (uint32_t k = 0; k < N; k++) {
        ns_estimate e = {names[k],  "kg",     1.0,       values[k],
                         -INFINITY, INFINITY, errors[k], verdicts[k]};
        assert_true(nsi_array_push(&a->allocator, &a->estimates, e));
        for (uint32_t i = 0; i < N; i++) a->correlation[k * N + i] = i == k ? 1.0 : -0.25 * (i + k);
    }
    for (int s = 0; s < 2; s++) {
        ns_score* score = s == 0 ? &a->before[NS_ROLE_TEST] : &a->after[NS_ROLE_TEST];
        *score = (ns_score){.windows = 5, .nhorizon = 2};
        score->horizons = nsi_alloc(&a->allocator, 2 * sizeof *score->horizons);
        assert_non_null(score->horizons);
        score->horizons[0] = (ns_horizon_error){0.5, 4.0 - s, 2.0 - s, 5, 10};
        score->horizons[1] = (ns_horizon_error){1.0, s ? 8.0 : INFINITY, 3.0, 5, 20};
    }
    for (uint32_t k = 0; k < 2; k++) {
        ns_fit_phase phase = {k ? "second" : "first", 10,  21 * (k + 1),
                              0.25 * (k + 1),         0.5, "converged"};
        assert_true(nsi_array_push(&a->allocator, &a->phases, phase));
    }
    for (uint32_t k = 0; k < POINTS; k++) {
        ns_fit_history_point point = {k / 20, k % 20 + 1, 0.1 * k, 100.0 / (k + 1.0)};
        assert_true(nsi_array_push(&a->allocator, &a->history, point));
    }
}

static void add_path(nsi_result* a, bool along) {
    static char labels[GROUPS][16];
    static double norms[8][GROUPS];
    for (uint32_t g = 0; g < GROUPS; g++) {
        snprintf(labels[g], sizeof labels[g], "input %u", g);
        assert_true(nsi_array_push(&a->allocator, &a->path_names, labels[g]));
    }
    for (uint32_t k = 0; k < 8; k++) {
        for (uint32_t g = 0; g < GROUPS; g++) norms[k][g] = fmax(0.0, 10.0 + g - 2.5 * k);
        ns_sparsity_point point = {along ? k / 4 : k,
                                   along ? k % 4 * 10 + 10 : 50,
                                   along ? 1e-3 : 1e-5 * pow(10.0, k),
                                   0.0,
                                   0.1 * k,
                                   norms[k]};
        assert_true(nsi_array_push(&a->allocator, &a->path, point));
    }
}

static const ns_figure* find(const nsi_figures* charts, const char* name) {
    const ns_figure* chart = nsi_figures_find(charts, name);
    if (!chart) fail_msg("no chart %s", name);
    return chart;
}

static double cell(const ns_figure* chart, const char* column, uint32_t row) {
    for (uint32_t c = 0; c < chart->ncolumn; c++) {
        if (strcmp(chart->columns[c].name, column) == 0) return chart->columns[c].numbers[row];
    }
    fail_msg("no column %s", column);
    return NAN;
}

static const picture* draw(const ns_figure* chart) {
    nsi_drawing figure;
    assert_int_equal(nsi_figure_draw(chart, NULL, &figure, NULL), NS_OK);
    const picture* p = picture_read(figure.svg.data, figure.svg.size);
    nsi_drawing_free(&figure);
    return p;
}

// ---- tests -------------------------------------------------------------------------------------

static void there_is_a_figure_for_all_there_is(void** state) {
    (void)state;
    nsi_result a;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    nsi_result_init(NULL, &a);
    assert_int_equal(nsi_result_add_figures(&a, &charts, NULL), NS_OK);
    assert_int_equal(charts.list.count, 0);
    make_sample(NULL, &a);
    add_path(&a, false);
    assert_int_equal(nsi_result_add_figures(&a, &charts, NULL), NS_OK);
    static const char* const expected[] = {"loss",        "parameters", "correlation",
                                           "errors_test", "timing",     "path"};
    assert_int_equal(charts.list.count, 6);
    for (uint32_t k = 0; k < 6; k++) assert_string_equal(charts.list.data[k].name, expected[k]);
    for (uint32_t k = 0; k < 6; k++) draw(&charts.list.data[k]);
    nsi_figures_free(&charts);
    nsi_result_free(&a);
}

static void numbers_are_those_of_the_answer(void** state) {
    (void)state;
    nsi_result a;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    make_sample(NULL, &a);
    add_path(&a, false);
    assert_int_equal(nsi_result_add_figures(&a, &charts, NULL), NS_OK);

    const ns_figure* chart = find(&charts, "loss");
    for (uint32_t k = 0; k < POINTS; k++) {
        assert_true(cell(chart, "loss", k) == a.history.data[k].value);
        assert_true(cell(chart, "seconds", k) == a.history.data[k].seconds);
        assert_true(cell(chart, "phase", k) == a.history.data[k].phase + 1.0);
    }
    const picture* p = draw(chart);
    assert_int_equal(picture_count(p, "polyline", NULL), 2); // one for each phase
    assert_int_equal(picture_item_at(p, "polyline", NULL, 0)->count, 20);
    assert_int_equal(picture_count(p, "line", "dash"), 1);
    assert_true(picture_says(p, "first") && picture_says(p, "second"));

    chart = find(&charts, "parameters");
    assert_true(cell(chart, "estimate", 1) == -4.0 && isinf(cell(chart, "standard_error", 1)));
    assert_true(fabs(cell(chart, "low", 0) - (2.0 - 0.196)) < 1e-5);
    p = draw(chart);
    assert_true(picture_says(p, "undetermined") && picture_says(p, "no effect"));
    assert_true(picture_says(p, "b <&> \"c\""));
    // The finite interval is 1.96 * 5 %, and the picture goes a quarter further.
    const picture_item *bar = picture_item_at(p, "rect", "blue", 0),
                       *all = picture_item_at(p, "rect", "red", 0);
    assert_true(fabs(bar->x2 / all->x2 - 0.8) < 1e-3);
    assert_int_equal(picture_count(p, "rect", "red"), 1); // none for the one without effect

    chart = find(&charts, "correlation");
    assert_true(cell(chart, "d", 0) == -0.5 && cell(chart, "d", 2) == 1.0);
    assert_int_equal(picture_count(draw(chart), "rect", NULL), 6 + 9); // and the legend

    chart = find(&charts, "errors_test");
    assert_true(cell(chart, "horizon", 1) == 1.0 && cell(chart, "after", 0) == 3.0);
    assert_true(isinf(cell(chart, "before", 1)) && cell(chart, "after_median", 0) == 1.0);
    p = draw(chart);
    const picture_item *before = picture_item_at(p, "rect", "grey", 1), // 0 is in the legend
        *after = picture_item_at(p, "rect", "blue", 1);
    assert_true(fabs(after->x2 / before->x2 - 0.75) < 1e-3);

    chart = find(&charts, "timing");
    assert_true(cell(chart, "seconds", 1) == 0.5 && cell(chart, "evaluations", 1) == 42.0);
    p = draw(chart);
    assert_true(
        fabs(picture_item_at(p, "rect", "blue", 0)->x2 / picture_item_at(p, "rect", "blue", 1)->x2 -
             0.5) < 1e-3);
    assert_true(picture_says(p, "0.50 s, 42 evaluations"));
    nsi_figures_free(&charts);
    nsi_result_free(&a);
}

static void paths_go_over_penalties_or_iterations(void** state) {
    (void)state;
    for (int along = 0; along < 2; along++) {
        nsi_result a;
        nsi_figures charts;
        nsi_figures_init(NULL, &charts);
        nsi_result_init(NULL, &a);
        add_path(&a, along);
        assert_int_equal(nsi_result_add_figures(&a, &charts, NULL), NS_OK);
        const ns_figure* chart = find(&charts, "path");
        const ns_line_chart* lines = &chart->as.lines;
        assert_true(lines->x_axis.log == !along);
        assert_string_equal(lines->x_axis.label, along ? "iterations" : "penalty, l1");
        for (uint32_t k = 0; k < 8; k++) {
            assert_true(cell(chart, "input 3", k) == a.path.data[k].norms[3]);
            double x = along ? 10.0 * (k + 1) : a.path.data[k].l1;
            assert_true(fabs(lines->x[k] - x) < 1e-12);
        }
        const picture* p = draw(chart);
        // The eight largest have a colour of their own; a path ends between stages.
        uint32_t pieces = along ? 2 : 1;
        assert_int_equal(picture_count(p, "polyline", "curve c0"), pieces);
        assert_int_equal(picture_count(p, "polyline", "curve other"), 2 * pieces);
        assert_true(picture_says(p, "input 9") && picture_says(p, "input 2"));
        assert_true(picture_says(p, "others") && !picture_says(p, "input 0"));
        nsi_figures_free(&charts);
        nsi_result_free(&a);
    }
}

// A penalty of 0 beside another one has a place, which a logarithmic axis does not.
static void paths_may_begin_without_a_penalty(void** state) {
    (void)state;
    nsi_result a;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    nsi_result_init(NULL, &a);
    add_path(&a, false);
    for (uint32_t k = 0; k < 8; k++) {
        a.path.data[k].l1 = k == 0 ? 0.0 : 1e-3 * k;
        a.path.data[k].group = 1e-3;
    }
    assert_int_equal(nsi_result_add_figures(&a, &charts, NULL), NS_OK);
    const ns_figure* chart = find(&charts, "path");
    assert_false(chart->as.lines.x_axis.log);
    assert_int_equal(picture_item_at(draw(chart), "polyline", "curve c0", 0)->count, 8);
    nsi_figures_free(&charts);
    nsi_result_free(&a);
}

// Nothing is left out in silence.
static void titles_say_what_is_drawn(void** state) {
    (void)state;
    enum { PARAMETERS = 250, PHASES = 61 };
    nsi_result a;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    nsi_result_init(NULL, &a);
    for (uint32_t k = 0; k < PARAMETERS; k++) {
        ns_estimate e = {.name = "a", .unit = "", .value = 1.0, .verdict = NS_VERDICT_OK};
        assert_true(nsi_array_push(&a.allocator, &a.estimates, e));
    }
    for (uint32_t k = 0; k < PHASES; k++) {
        ns_fit_phase phase = {.name = "b", .finish = "limit", .seconds = 1.0};
        assert_true(nsi_array_push(&a.allocator, &a.phases, phase));
    }
    a.correlation = nsi_alloc_zeroed(&a.allocator, PARAMETERS * PARAMETERS * sizeof(double));
    assert_non_null(a.correlation);
    assert_int_equal(nsi_result_add_figures(&a, &charts, NULL), NS_OK);
    assert_non_null(strstr(find(&charts, "parameters")->title, ", the first 60 of 250"));
    assert_non_null(strstr(find(&charts, "correlation")->title, ", the first 40 of 250"));
    assert_non_null(strstr(find(&charts, "timing")->title, ", the first 60 of 61"));
    assert_int_equal(find(&charts, "parameters")->nrow, PARAMETERS); // the numbers are all there
    nsi_figures_free(&charts);
    nsi_result_free(&a);
}

static bool stop_in_second(void* context, const ns_fit_progress* p) {
    (void)context;
    return p->number == 1;
}

// Stopped in its second stage and resumed, a fit has the same path.
static void check_resumed(ns_fit* fit) {
    const nsi_result* a = &fit->result;
    double norms[3][2];
    for (uint32_t k = 0; k < 3; k++) memcpy(norms[k], a->path.data[k].norms, sizeof norms[k]);
    ns_fit_options options = {.observe = stop_in_second,
                              .checkpoint = tempdir_path("checkpoint.json")};
    assert_int_equal(ns_fit_run(fit, &options, NULL), NS_OK);
    assert_true(ns_fit_stopped(fit) && a->path.count == 2);
    options.observe = NULL;
    options.resume = true;
    assert_int_equal(ns_fit_run(fit, &options, NULL), NS_OK);
    assert_int_equal(a->path.count, 3);
    for (uint32_t k = 0; k < 3; k++) {
        assert_memory_equal(a->path.data[k].norms, norms[k], sizeof norms[k]);
    }
}

// Stages with growing penalties are a path.
static void a_fit_records_its_path(void** state) {
    (void)state;
    tempdir_write("net.yaml", "networks:\n  - name: torque\n"
                              "    inputs: ['joint/joint0/velocity', 'joint/joint0/sin']\n"
                              "    outputs: 'joint/joint0/tau'\n    hidden: [2]\n");
    tempdir_write("fit.yaml",
                  "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                  "blueprint: net.yaml\nintegrator: rk4\ntimestep: 0.02\n"
                  "data: {train: [" NEURALSIM_SOURCE_DIR "/examples/rusty_pendulum_run.csv]}\n"
                  "train: {window: 5, initial_state: recorded, iterations: 20, optimise: weights}\n"
                  "stages:\n"
                  "  - {method: proximal, group: 1.0e-4}\n"
                  "  - {method: proximal, group: 1.0e-2, l1: 1.0e-3}\n"
                  "  - {method: lm, iterations: 2}\n"
                  "  - {method: owlqn, l1: 100}\n");
    ns_fit* fit = NULL;
    ns_error error;
    must(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    const nsi_result* a = &fit->result;
    assert_int_equal(a->path.count, 3);
    assert_int_equal(a->path_names.count, 2);
    assert_string_equal(a->path_names.data[0], "joint/joint0/velocity");
    assert_string_equal(a->path_names.data[1], "joint/joint0/sin");
    assert_true(a->path.data[0].phase == 0 && a->path.data[1].phase == 1 &&
                a->path.data[2].phase == 3);
    assert_true(a->path.data[1].l1 == 1e-3 && a->path.data[1].group == 1e-2);
    assert_true(a->path.data[2].l1 == 100.0 && a->path.data[2].group == 0.0);
    // So large a penalty leaves nothing; the norms at the end are those of the weights.
    assert_true(a->path.data[2].norms[0] == 0.0 && a->path.data[2].norms[1] == 0.0);
    ns_weight_matrix m = ns_system_weight_matrix(fit->system, 0);
    for (uint32_t row = 0; row < 2; row++) {
        double sum = 0.0;
        for (uint32_t k = 0; k < m.columns; k++) {
            sum += pow(fit->w[m.offset + row * m.columns + k], 2.0);
        }
        assert_true(sqrt(sum) == a->path.data[2].norms[row]);
    }
    check_resumed(fit);
    ns_fit_free(fit);

    // With one penalty, along the iterations; the loss falls with the penalty in it, and the last
    // point is where the stage ended.
    tempdir_write("fit.yaml",
                  "model: " NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf\n"
                  "blueprint: net.yaml\nintegrator: rk4\ntimestep: 0.02\n"
                  "data: {train: [" NEURALSIM_SOURCE_DIR "/examples/rusty_pendulum_run.csv]}\n"
                  "train: {window: 5, initial_state: recorded, iterations: 20, optimise: weights, "
                  "method: proximal,"
                  " group: 1.0e-3}\n");
    must(ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error), &error);
    must(ns_fit_run(fit, NULL, &error), &error);
    a = &fit->result;
    assert_true(a->path.count >= 10);
    double before = INFINITY;
    for (uint32_t k = 0; k < a->path.count; k++) {
        const ns_sparsity_point* point = &a->path.data[k];
        assert_int_equal(point->iteration, k + 1);
        double total = 0.5 * point->loss * point->loss +
                       1e-3 * sqrt(2.0) * (point->norms[0] + point->norms[1]);
        assert_true(total <= before * (1.0 + 1e-12));
        before = total;
    }
    assert_true(fabs(sqrt(2.0 * before) - a->phases.data[0].value) < 1e-12);
    ns_text page;
    assert_int_equal(render_fit(fit, ns_report_html, &page, NULL), NS_OK);
    assert_non_null(strstr(page.data, "id=\"figure-path\""));
    assert_non_null(strstr(page.data, "id=\"figure-timing\""));
    const char* before_it = strstr(page.data, "id=\"figure-network_torque_before\"");
    const char* after_it = strstr(page.data, "id=\"figure-network_torque\"");
    assert_true(before_it && after_it && before_it < after_it);
    ns_text_free(&page);
    ns_fit_free(fit);
}

static void no_memory_is_said(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator memory = test_allocator(&counter);
    nsi_result a;
    make_sample(NULL, &a);
    add_path(&a, true);
    bool done = false;
    for (size_t n = 1; !done; n++) {
        counter.calls = 0;
        counter.fail_at = n;
        nsi_figures charts;
        nsi_figures_init(&memory, &charts);
        ns_status status = nsi_result_add_figures(&a, &charts, NULL);
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        nsi_figures_free(&charts);
        assert_int_equal(counter.live_blocks, 0);
    }
    nsi_result_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_is_a_figure_for_all_there_is),
        cmocka_unit_test(numbers_are_those_of_the_answer),
        cmocka_unit_test(paths_go_over_penalties_or_iterations),
        cmocka_unit_test(paths_may_begin_without_a_penalty),
        cmocka_unit_test(titles_say_what_is_drawn),
        cmocka_unit_test(a_fit_records_its_path),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
