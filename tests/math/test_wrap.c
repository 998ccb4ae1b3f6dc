// Paths around spheres and cylinders, against closed forms.

#include "expr/trace.h"
#include "math/wrap.h"
#include "support/assert.h"

#include <math.h>

static const double pi = 3.14159265358979323846;

// A path in numbers.
typedef struct path {
    double wraps, length, first[3], second[3];
} path;

static double value_of(const ns_graph* graph, ns_expr x) {
    assert_true(ns_expr_is_valid(x));
    const nsi_node* node = &graph->nodes.data[x.id];
    assert_int_equal(node->op, NSI_CONST);
    return node->value;
}

// All of constants, which fold.
static path find_path(bool sphere, double radius, const double from[3], const double to[3],
                      const double* side) {
    ns_graph* graph = NULL;
    ns_error error;
    must(ns_graph_create(NULL, &graph, &error), &error);
    must(ns_trace_begin(graph, &error), &error);
    vec3 at = side ? v3_const(side[0], side[1], side[2]) : v3_zero();
    nsi_wrap wrap = nsi_wrap_path(sphere, ns_const(radius), v3_const(from[0], from[1], from[2]),
                                  v3_const(to[0], to[1], to[2]), side ? &at : NULL);
    path out = {.wraps = value_of(graph, wrap.wraps), .length = value_of(graph, wrap.length)};
    for (int k = 0; k < 3; k++) {
        out.first[k] = value_of(graph, wrap.first.e[k]);
        out.second[k] = value_of(graph, wrap.second.e[k]);
    }
    must(ns_trace_end(&error), &error);
    ns_graph_free(graph);
    return out;
}

// From (-2, 0) to (2, 0) around the unit circle: each tangent spans 60 degrees, which leaves 60 for the arc.
static void arcs_have_closed_forms(void** state) {
    (void)state;
    const double from[3] = {-2, 0.01, 0}, to[3] = {2, 0.01, 0}, rise[3] = {2, 0.01, 1.5};
    const double l = hypot(2.0, 0.01), tangent = sqrt(l * l - 1.0);
    const double arc = pi - 2.0 * atan2(0.01, 2.0) - 2.0 * acos(1.0 / l);
    for (int sphere = 0; sphere < 2; sphere++) {
        path p = find_path(sphere == 1, 1.0, from, to, NULL);
        assert_true(p.wraps == 1.0);
        close_to("arc", p.length, arc, 1e-14);
        close_to("first", hypot(p.first[0] + 2.0, p.first[1] - 0.01), tangent, 1e-14);
        assert_true(p.first[0] < 0.0 && p.second[0] > 0.0 && p.first[1] > 0.0);
    }

    // Unrolled, a path that rises is straight.
    path p = find_path(false, 1.0, from, rise, NULL);
    double flat = 2.0 * tangent + arc, whole = hypot(flat, 1.5);
    close_to("along the surface", p.length, whole * arc / flat, 1e-14);
    close_to("height", p.first[2], 1.5 * tangent / flat, 1e-14);
    close_to("second height", p.second[2], 1.5 * (tangent + arc) / flat, 1e-14);
}

static void sides_decide(void** state) {
    (void)state;
    const double low[3] = {0.2, -3, 7}, high[3] = {-0.1, 2, 0}, in[3] = {0.1, 0.2, 5};
    const double from[3] = {-2, 0.3, 0}, to[3] = {2, 0.3, 0};
    assert_true(find_path(false, 1.0, from, to, low).first[1] < 0.0);
    assert_true(find_path(false, 1.0, from, to, high).first[1] > 0.0);

    // A path that misses stays straight, unless it misses on the wrong side: then it goes all the way round.
    const double above[3] = {-2, 1.5, 0}, across[3] = {2, 1.5, 0};
    assert_true(find_path(false, 1.0, above, across, NULL).wraps == 0.0);
    assert_true(find_path(true, 1.0, above, across, NULL).wraps == 0.0);
    assert_true(find_path(false, 1.0, above, across, high).wraps == 0.0);
    path p = find_path(false, 1.0, above, across, low);
    double l = hypot(2.0, 1.5), between = 2.0 * atan2(2.0, 1.5);
    assert_true(p.wraps == 1.0 && p.first[1] < 0.5);
    close_to("the long way", p.length, 2.0 * pi - between - 2.0 * acos(1.0 / l), 1e-13);

    // From inside it touches at the top, by symmetry, at one point.
    p = find_path(false, 1.0, above, across, in);
    assert_true(p.wraps == 1.0 && p.length == 0.0);
    all_close(p.first, (const double[]){0, 1, 0}, 3, 1e-14);
    all_close(p.second, p.first, 3, 0.0);
    assert_true(find_path(false, 1.0, from, to, in).wraps == 0.0); // the segment meets the circle
}

static void awkward_places_are_finite(void** state) {
    (void)state;
    static const double places[][2][3] = {{{0, 0, 0}, {2, 0, 0}},      {{0, 0, 0}, {0, 0, 0}},
                                          {{2, 0, 0}, {2, 0, 0}},      {{-2, 0, 0}, {2, 0, 0}},
                                          {{0, 0, 1}, {0, 0, -1}},     {{1, 0, 0}, {0, 1, 0}},
                                          {{0.5, 0, 0}, {-0.5, 0, 0}}, {{0, 2, 0}, {0, -2, 0}}};
    static const double sides[][3] = {{0, 0, 0}, {0, 0, 3}, {1, 0, 0}};
    for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
        for (int n = 0; n < 8; n++) {
            const double* side = n / 2 < 3 ? sides[n / 2] : NULL;
            path p = find_path(n % 2 == 1, 1.0, places[k][0], places[k][1], side);
            assert_true(isfinite(p.length) && p.length >= 0.0);
            for (int i = 0; i < 3; i++) assert_true(isfinite(p.first[i] + p.second[i]));
        }
    }

    // In line with the centre of a ball, any plane is as good: half a turn less the tangents.
    path p = find_path(true, 1.0, places[3][0], places[3][1], NULL);
    assert_true(p.wraps == 1.0);
    close_to("in line", p.length, pi / 3.0, 1e-14);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arcs_have_closed_forms),
        cmocka_unit_test(sides_decide),
        cmocka_unit_test(awkward_places_are_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
