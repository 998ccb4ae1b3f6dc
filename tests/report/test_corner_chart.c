// Corner plots: bars and cells where samples are, weights, hostile input.

#include "report/figure_data.h"
#include "support/assert.h"

#include <math.h>
#include <string.h>

static uint32_t count_bars(const ns_corner_chart* corner) {
    const ns_figure figure = {.kind = NS_FIGURE_CORNER, .title = "t", .as.corner = *corner};
    ns_text svg;
    ns_error error = {0};
    must(ns_figure_svg(&figure, NULL, &svg, &error), &error);
    uint32_t count = 0;
    for (const char* at = svg.data; (at = strstr(at, "class=\"blue\"")); at++) count++;
    ns_text_free(&svg);
    return count;
}

static void samples_are_bars_and_cells(void** state) {
    (void)state;
    const char* const names[] = {"a", "<b>"};

    // Three samples in different bins: three bars in both histograms, three cells in the pair.
    double values[] = {0.0, 0.0, 1.0, 2.0, 2.0, 1.0};
    ns_corner_chart corner = {.names = names, .values = values, .n = 2, .count = 3};
    assert_int_equal(count_bars(&corner), 9);

    // Without weight, or not finite, a sample is not there; a constant fills one bin.
    const double weights[] = {1.0, 0.0, 1.0};
    corner.weights = weights;
    assert_int_equal(count_bars(&corner), 6);
    corner.weights = NULL;
    values[0] = NAN;
    assert_int_equal(count_bars(&corner), 2 + 3 + 2);
    values[0] = values[2] = values[4] = 5.0;
    assert_int_equal(count_bars(&corner), 1 + 3 + 3);
    corner.count = 0;
    assert_int_equal(count_bars(&corner), 0);
}

static void corners_are_not_drawn_in_characters(void** state) {
    (void)state;
    const ns_figure figure = {.kind = NS_FIGURE_CORNER, .title = "t"};
    ns_text text;
    ns_error error = {0};
    assert_int_equal(ns_figure_text(&figure, 80, false, NULL, &text, &error), NS_ERR_UNSUPPORTED);
    assert_says(error.message, "corner");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_bars_and_cells),
        cmocka_unit_test(corners_are_not_drawn_in_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
