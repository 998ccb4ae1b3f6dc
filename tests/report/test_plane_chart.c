// Planes: both axes have one scale, angles are kept.

#define _XOPEN_SOURCE 700

#include "report/figure_data.h"
#include "report/html.h"
#include "support/assert.h"
#include "support/picture.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

// A square is a square: the same scale both ways, and a bar of a round length.
static void planes_keep_angles(void** state) {
    (void)state;
    static const double x[] = {0.0, 0.1, 0.1, 0.0, NAN}, y[] = {1.0, 1.0, 1.1, 1.1, 7.0};
    static const ns_plane_curve square = {"square", "c0", x, y, 5, true};
    static const ns_plane_dot dots[] = {{0.05, 1.05, 1.0, "a"}, {0.02, 1.02, 0.25, "b"}};
    static const ns_plane_panel panel = {"one", &square, 1, dots, 2};
    ns_figure chart = {.kind = NS_FIGURE_PLANE, .title = "t", .as.plane = {&panel, 1, "m", 1.0}};
    nsi_drawing figure;
    assert_int_equal(nsi_figure_draw(&chart, NULL, &figure, NULL), NS_OK);
    const char* points = strstr(figure.svg.data, "<polygon class=\"curve c0\" points=\"");
    assert_non_null(points);
    double px[4], py[4], r[2];
    points = strstr(points, "points=") + 8;
    assert_int_equal(sscanf(points, "%lf,%lf %lf,%lf %lf,%lf %lf,%lf", &px[0], &py[0], &px[1],
                            &py[1], &px[2], &py[2], &px[3], &py[3]),
                     8);
    double side = px[1] - px[0];
    assert_true(side > 100.0);
    assert_true(fabs(py[0] - py[1]) < 0.11 && fabs(px[1] - px[2]) < 0.11);
    assert_true(fabs((py[1] - py[2]) - side) < 0.21); // up is up
    const char* disc = figure.svg.data;
    for (int k = 0; k < 2; k++) {
        disc = strstr(disc + 1, " r=\"");
        assert_non_null(disc);
        r[k] = strtod(disc + 4, NULL);
    }
    assert_true(fabs(r[0] - 2.0 * r[1]) < 0.2); // areas
    assert_non_null(strstr(figure.svg.data, ">0.05 m<"));
    picture_check_labels(picture_read(figure.svg.data, figure.svg.size), true);
    nsi_drawing_free(&figure);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(planes_keep_angles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
