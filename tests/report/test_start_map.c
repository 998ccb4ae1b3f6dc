// Errors by start, read from the result of an experiment.

#define _XOPEN_SOURCE 700

#include "neuralsim/table.h"
#include "report/figure_data.h"
#include "report/start_map.h"
#include "support/assert.h"
#include "support/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

static void starts_are_read(void** state) {
    (void)state;
    static const char good[] =
        "{\"grid\": {\"parameters\": [\"a\", \"<b>\"], \"truth\": [1.5, 2], \"from\": 1, \"to\": 2,"
        " \"cells\": 2}, \"methods\": [{\"name\": \"local\", \"label\": \"LM & co\"}],"
        " \"headline\": \"hop\", \"compare\": \"local\", \"poses\": [{\"errors\":"
        " {\"local\": [0, 1, 2, null], \"hop\": [0, 0.5, 0, 0]}}]}";
    nsi_figures charts;
    ns_error error;
    nsi_figures_init(NULL, &charts);
    must(nsi_starts_read(good, strlen(good), "r.json", &charts, &error), &error);
    assert_int_equal(charts.list.count, 1);
    assert_string_equal(charts.list.data[0].name, "starts_pose1");
    const ns_heatmap* map = &charts.list.data[0].as.heatmap;
    assert_string_equal(map->titles[0], "LM & co");
    assert_string_equal(map->titles[1], "hop");
    assert_true(map->values[0][2] == 2.0 && isnan(map->values[0][3]) && map->values[1][1] == 0.5);
    nsi_drawing figure;
    assert_int_equal(nsi_figure_draw(charts.list.data, NULL, &figure, NULL), NS_OK);
    const picture* p = picture_read(figure.svg.data, figure.svg.size);
    assert_int_equal(picture_count(p, "rect", "cell"), 8);
    assert_true(picture_says(p, "<b>") && picture_says(p, "LM & co"));
    assert_non_null(strstr(figure.csv.data, "a,<b>,LM & co,hop\n1,1,0,0\n2,1,1,0.5\n"));
    nsi_drawing_free(&figure);
    nsi_figures_free(&charts);

    static const struct {
        const char *from, *to, *message;
    } wrong[] = {
        {"\"cells\": 2", "\"cells\": 3", "r.json: poses.errors: expected a list with"},
        {"\"cells\": 2", "\"cells\": 1000000", "grid.cells: expected"},
        {"\"cells\": 2", "\"cells\": -2", "grid.cells: expected"},
        {"\"to\": 2", "\"to\": 0", "grid.to: expected"},
        {"\"headline\": \"hop\"", "\"headline\": 3", "headline: expected a text"},
        {"[0, 1, 2, null]", "[0, 1, 2, -1]", "a distance is not below 0"},
        {"[0, 1, 2, null]", "[0, 1, 2, \"x\"]", "poses.errors: expected a number"},
        {"\"grid\"", "\"gird\"", "grid: it is missing"},
        {"\"truth\": [1.5, 2]", "\"truth\": 2", "grid.truth: expected a number"},
        {"\"poses\"", "\"roses\"", "there are no poses"},
    };
    for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
        char text[1000];
        const char* at = strstr(good, wrong[k].from);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, wrong[k].to,
                 at + strlen(wrong[k].from));
        assert_true(nsi_starts_read(text, strlen(text), "r.json", &charts, &error) != NS_OK);
        if (!strstr(error.message, wrong[k].message)) fail_msg("%s", error.message);
        nsi_figures_free(&charts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(starts_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
