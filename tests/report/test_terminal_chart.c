// Charts of characters keep to their columns.

#define _XOPEN_SOURCE 700

#include "neuralsim/table.h"
#include "report/figure_data.h"
#include "report/figure_rig.h"
#include "report/html.h"
#include "report/start_map.h"
#include "support/assert.h"
#include "support/picture.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

// By the C library's reckoning.
static void characters_keep_to_their_columns(void** state) {
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) skip();
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    assert_true(make_charts(&charts));
    for (uint32_t k = 0; k < charts.list.count; k++) {
        for (uint32_t columns = 40; columns <= 200; columns += 40) {
            ns_text text;
            ns_error error = {0};
            ns_status status =
                ns_figure_text(&charts.list.data[k], columns, false, NULL, &text, &error);
            ns_figure_kind kind = charts.list.data[k].kind;
            if (kind == NS_FIGURE_NETWORK || kind == NS_FIGURE_PLANE || kind == NS_FIGURE_CORNER) {
                assert_int_equal(status, NS_ERR_UNSUPPORTED);
                assert_non_null(strstr(error.message, "-o"));
                continue;
            }
            assert_int_equal(status, NS_OK);
            for (char *line = text.data, *end; *line; line = end + 1) {
                end = strchr(line, '\n');
                assert_non_null(end);
                *end = '\0';
                wchar_t letters[1000];
                size_t count = mbstowcs(letters, line, 1000);
                assert_true(count != (size_t)-1);
                int width = wcswidth(letters, count);
                if (width < 0 || width > (int)columns) fail_msg("%d columns: %s", width, line);
            }
            ns_text_free(&text);
        }
    }
    nsi_figures_free(&charts);
    setlocale(LC_CTYPE, "C");
}

static void assert_columns(const ns_figure* chart, uint32_t columns) {
    ns_text text;
    assert_int_equal(ns_figure_text(chart, columns, false, NULL, &text, NULL), NS_OK);
    for (char *line = text.data, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        *end = '\0';
        wchar_t letters[1000];
        size_t count = mbstowcs(letters, line, 1000);
        assert_true(count != (size_t)-1);
        int width = wcswidth(letters, count);
        if (width < 0 || width > (int)columns) fail_msg("%d columns: %s", width, line);
    }
    ns_text_free(&text);
}

// As many cells as there may be, texts as long as there are.
static void large_charts_keep_to_their_columns(void** state) {
    (void)state;
    enum { N = 100 };
    static double values[N * N];
    static const char* const rows[] = {"windows of 100, proximal, weights"};
    static const ns_bar bar = {1.0, NAN, "0.12 s, 4294967295 evaluations"};
    if (!setlocale(LC_CTYPE, "C.UTF-8")) skip();
    for (int k = 0; k < N * N; k++) values[k] = k % N;
    ns_figure map = {.kind = NS_FIGURE_HEATMAP, .title = "t"};
    map.as.heatmap = (ns_heatmap){.titles = {"one", "two"},
                                  .axes = {"a", "b"},
                                  .values = {values, values},
                                  .cells = N,
                                  .to = N - 1.0,
                                  .mark = {37.0, 63.0},
                                  .max = N};
    ns_figure bars = {.kind = NS_FIGURE_BARS, .title = "t"};
    bars.as.bars = (ns_bar_chart){rows, &bar, 1, 1, {"seconds"}, NULL};
    for (uint32_t columns = 40; columns <= 260; columns += 20) {
        assert_columns(&map, columns);
        assert_columns(&bars, columns);
        ns_text text;
        assert_int_equal(ns_figure_text(&map, columns, false, NULL, &text, NULL), NS_OK);
        assert_int_equal(occurrences(text.data, "*") - 1, 2); // and in the last line
        ns_text_free(&text);
    }
    setlocale(LC_CTYPE, "C");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_keep_to_their_columns),
        cmocka_unit_test(large_charts_keep_to_their_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
