// Figures: in pages, as files, as tables and in characters, with texts that would like to be something
// else.

#define _XOPEN_SOURCE 700

#include "neuralsim/table.h"
#include "report/figure_data.h"
#include "report/figure_rig.h"
#include "report/html.h"
#include "report/start_map.h"
#include "support/assert.h"
#include "support/picture.h"
#include "support/testalloc.h"

#include <math.h>
#include <string.h>
#include <wchar.h>

static void names_are_plain_and_different(void** state) {
    (void)state;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    assert_true(make_charts(&charts));
    assert_string_equal(charts.list.data[0].name, "one_two__3_");
    for (uint32_t k = 0; k < charts.list.count; k++) {
        const char* name = charts.list.data[k].name;
        assert_ptr_equal(nsi_figures_find(&charts, name), &charts.list.data[k]);
        for (const char* c = name; *c; c++)
            assert_non_null(strchr("abcdefghijklmnopqrstuvwxyz_0123456789", *c));
    }
    char longest[300];
    memset(longest, 'x', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    for (int k = 0; k < 12; k++)
        assert_non_null(nsi_figures_add(&charts, NS_FIGURE_LINES, longest, ""));
    assert_true(strlen(charts.list.data[charts.list.count - 1].name) < 64);
    nsi_figures_free(&charts);
    nsi_figures_free(&charts); // again
}

static void figures_stand_in_a_page(void** state) {
    (void)state;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    assert_true(make_charts(&charts));
    nsi_text_builder page = {.allocator = ns_default_allocator()};
    nsi_text_add(&page, "<body>");
    for (uint32_t k = 0; k < charts.list.count; k++) {
        nsi_drawing figure;
        assert_int_equal(nsi_figure_draw(&charts.list.data[k], NULL, &figure, NULL), NS_OK);
        assert_int_equal(strncmp(figure.svg.data, "<svg ", 5), 0);
        assert_int_equal(strcmp(figure.svg.data + figure.svg.size - 7, "</svg>\n"), 0);
        nsi_html_drawing(&page, &figure);
        nsi_drawing_free(&figure);
        nsi_drawing_free(&figure); // again
    }
    nsi_text_add(&page, "</body>");
    ns_text text;
    assert_int_equal(nsi_text_finish(&page, &text, NULL), NS_OK);
    assert_null(strstr(text.data, "<b a"));
    assert_null(strstr(text.data, "</script"));
    assert_null(strstr(text.data, "\x1b"));
    assert_int_equal(occurrences(text.data, "<figure id=\"figure-one_two__3_"), 7);
    const picture* p = picture_read(text.data, text.size);
    assert_int_equal(picture_count(p, "figure", "figure"), 7);
    assert_int_equal(picture_count(p, "figcaption", NULL), 7);
    assert_int_equal(picture_count(p, "svg", NULL), 7);
    assert_int_equal(picture_count(p, "svg", "figure network"), 1);
    assert_int_equal(picture_count(p, "pre", NULL), 7);
    assert_true(picture_says(p, hostile) && picture_says(p, wide));
    ns_text_free(&text);
    nsi_figures_free(&charts);
}

// A file is XML with the style in it, and the same picture.
static void figures_are_files(void** state) {
    (void)state;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    assert_true(make_charts(&charts));
    for (uint32_t k = 0; k < charts.list.count; k++) {
        nsi_drawing figure;
        ns_text file;
        assert_int_equal(nsi_figure_draw(&charts.list.data[k], NULL, &figure, NULL), NS_OK);
        assert_int_equal(nsi_drawing_file(&figure, &file, NULL), NS_OK);
        assert_int_equal(strncmp(file.data, "<?xml version=\"1.0\"", 19), 0);
        assert_int_equal(occurrences(file.data, "xmlns=\"http://www.w3.org/2000/svg\""), 1);
        assert_non_null(strstr(file.data, nsi_figure_style));
        assert_null(strstr(file.data, "var("));
        const picture* p = picture_read(file.data, file.size);
        assert_int_equal(picture_count(p, "rect", "paper"), 1);
        assert_int_equal(picture_count(p, "style", NULL), 1);
        assert_true(p->width > 100.0 && p->height > 10.0);
        ns_text_free(&file);
        nsi_drawing_free(&figure);
    }
    ns_text file;
    ns_error error;
    assert_int_equal(nsi_drawing_file(&(nsi_drawing){.name = "x"}, &file, &error), NS_ERR_ARGUMENT);
    nsi_figures_free(&charts);
}

// Selectors keep to our own pictures.
static void the_style_keeps_to_figures(void** state) {
    (void)state;
    const char* line = nsi_figure_style;
    while (*line) {
        size_t length = strcspn(line, "\n");
        bool ours = strncmp(line, "svg.figure ", 11) == 0 || strncmp(line, "svg.network ", 12) == 0;
        if (!ours && line[0] != '@' && line[0] != '}') fail_msg("%.*s", (int)length, line);
        line += length + 1;
    }
    assert_null(strchr(nsi_figure_style, '<'));
}

static void numbers_are_a_table(void** state) {
    (void)state;
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    assert_true(make_charts(&charts));
    ns_text text;
    assert_int_equal(ns_figure_csv(&charts.list.data[0], NULL, &text, NULL), NS_OK);
    ns_table table;
    ns_error error;
    ns_table_where who = {"who", hostile};
    ns_table_options form = {.allow_missing = true, .where = &who, .nwhere = 1};
    must(ns_table_parse(text.data, text.size, "t", &form, NULL, &table, &error), &error);
    assert_int_equal(table.nrow, 1);
    assert_string_equal(table.names[1], hostile);
    assert_true(ns_table_at(&table, 0, 0) == 1.0 && ns_table_at(&table, 0, 1) == 0.5);
    ns_table_free(&table);
    who.text = wide;
    assert_int_equal(ns_table_parse(text.data, text.size, "t", &form, NULL, &table, NULL), NS_OK);
    assert_true(table.nrow == 1 && isnan(ns_table_at(&table, 0, 1)));
    ns_table_free(&table);
    ns_text_free(&text);

    // Bits survive, and texts that look like something else.
    static const double odd[] = {0.1, -1.0 / 3.0, 2.5e-300};
    static const char* const tricky[] = {"1.5", " a", "a,\"b\"\nc"};
    ns_figure_column columns[] = {{.name = "n", .numbers = odd}, {.name = "t", .texts = tricky}};
    ns_figure chart = {.columns = columns, .ncolumn = 2, .nrow = 3};
    assert_int_equal(ns_figure_csv(&chart, NULL, &text, NULL), NS_OK);
    assert_string_equal(text.data, "n,t\n0.1,\"1.5\"\n-0.3333333333333333,\" a\"\n"
                                   "2.5e-300,\"a,\"\"b\"\" c\"\n");
    ns_text_free(&text);
    nsi_figures_free(&charts);
}

static void names_stay_in_the_picture(void** state) {
    (void)state;
    static const char m[] = "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm";
    static const char han[] =
        "\u95a2\u7bc0\u306e\u89d2\u5ea6\u306e\u6e2c\u5b9a\u5024\u3068\u3066\u3082\u9577\u3044\u540d"
        "\u524d\u95a2\u7bc0\u306e\u89d2\u5ea6\u306e\u6e2c\u5b9a\u5024\u3068\u3066\u3082\u9577"
        "\u3044";
    static const char* const both[] = {m, han};
    static const double numbers[] = {1.0, 0.5, 0.5, 1.0};
    static const ns_bar bars[] = {{1.0, NAN, "0.12 s, 4294967295 evaluations"},
                                  {5e-324, -1.0, "0"}};
    static const ns_interval rows[] = {{m, "at lower bound", true, 0.1, 5.0},
                                       {han, "undetermined", true, INFINITY, -5.0}};
    ns_figure charts[] = {
        {.kind = NS_FIGURE_BARS, .as.bars = {both, bars, 2, 1, {"seconds"}, NULL}},
        {.kind = NS_FIGURE_INTERVALS, .as.intervals = {rows, 2, 1.0}},
        {.kind = NS_FIGURE_MATRIX, .as.matrix = {both, numbers, 2, 2}},
        {.kind = NS_FIGURE_HEATMAP,
         .as.heatmap = {{m, han}, {han, m}, {numbers, numbers}, 2, 1e4, 6e4, {1e4, 1e4}, 1.0}},
        {.kind = NS_FIGURE_HEATMAP,
         .as.heatmap = {{m, han}, {han, m}, {numbers, numbers}, 2, 1e-5, 9e-5, {0, 0}, 1.0}}};
    for (size_t k = 0; k < sizeof charts / sizeof *charts; k++) {
        nsi_drawing figure;
        assert_int_equal(nsi_figure_draw(&charts[k], NULL, &figure, NULL), NS_OK);
        const picture* p = picture_read(figure.svg.data, figure.svg.size);
        picture_check_labels(p, true);
        // What starts further away than the edge is no ring there.
        if (k == 1) assert_int_equal(picture_count(p, "circle", NULL), 0);
        if (k == 1) assert_int_equal(picture_count(p, "path", "ink"), 2);
        nsi_drawing_free(&figure);
    }
}

// Titles and notes lie inside of the picture, however long they are.
static void long_notes_have_room(void** state) {
    (void)state;
    char title[200], note[400];
    memset(title, 'n', sizeof title);
    memset(note, 'n', sizeof note);
    title[sizeof title - 1] = note[sizeof note - 1] = '\0';
    static const double weight = 1.0;
    static const char* const ports[] = {"a"};
    const char* const notes[] = {note};
    ns_network_diagram_layer layer = {&weight, 1, 1, false, "outputs"};
    ns_network_diagram network = {title, notes, 1, &layer, 1, ports, ports};
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    ns_text text;
    assert_int_equal(nsi_network_diagram_draw(&b, &network, NULL), NS_OK);
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    const picture* p = picture_read(text.data, text.size);
    static const char* const classes[] = {"title", "faint"};
    static const double sizes[] = {0.72 * 15.0, 0.634 * 12.0}; // of an n: bold, and not
    for (int k = 0; k < 2; k++) {
        const picture_item* item = picture_item_at(p, "text", classes[k], 0);
        const char *at = p->text + item->text, *end = at + item->size, *drawn = at;
        for (; at < end; at++) drawn = *at == '\n' ? at + 1 : drawn;
        assert_true(end - drawn > 60);
        assert_true(item->x + sizes[k] * (double)(end - drawn - 2) < p->width);
    }
    ns_text_free(&text);
}

// U+202E writes "gninrut" for "turning".
static void directions_are_not_obeyed(void** state) {
    (void)state;
    nsi_text_builder b = {.allocator = ns_default_allocator()};
    ns_text text;
    nsi_format_add(&b, "a\u202eb\u2066c\u2028d \u05d0\u200f");
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    assert_string_equal(text.data, "a\ufffdb\ufffdc d \u05d0\u200f");
    ns_text_free(&text);
}

// A straight line from corner to corner has a dot in every column.
static void curves_are_dots(void** state) {
    (void)state;
    static const double ends[] = {0.0, 1.0};
    ns_line_series series = {NULL, "c0", ends};
    ns_line_panel panel = {{"y", false}, &series, 1};
    ns_figure chart = {.kind = NS_FIGURE_LINES, .title = "t"};
    chart.as.lines = (ns_line_chart){
        .x_axis = {"x", false}, .x = ends, .count = 2, .panels = &panel, .npanel = 1};
    ns_text text;
    assert_int_equal(ns_figure_text(&chart, 60, false, NULL, &text, NULL), NS_OK);
    uint32_t dotted = 0;
    for (const unsigned char* c = (const unsigned char*)text.data; *c; c++) {
        dotted += c[0] == 0xe2 && c[1] >= 0xa0 && c[1] <= 0xa3; // U+2800 to U+28FF
    }
    assert_in_range(dotted, 50, 80);
    assert_null(strstr(text.data, "\033"));
    ns_text_free(&text);
    assert_int_equal(ns_figure_text(&chart, 60, true, NULL, &text, NULL), NS_OK);
    assert_non_null(strstr(text.data, "\033[34m"));
    ns_text_free(&text);
}

static void no_memory_is_said(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator memory = test_allocator(&counter);
    nsi_figures charts;
    nsi_figures_init(NULL, &charts);
    assert_true(make_charts(&charts));
    for (uint32_t k = 0; k < charts.list.count; k++) {
        for (int form = 0; form < 2; form++) {
            bool done = false;
            for (size_t n = 1; !done; n++) {
                counter.calls = 0;
                counter.fail_at = n;
                nsi_drawing figure = {0};
                ns_text text = {0};
                ns_error error = {0};
                ns_status status =
                    form == 0
                        ? nsi_figure_draw(&charts.list.data[k], &memory, &figure, &error)
                        : ns_figure_text(&charts.list.data[k], 60, true, &memory, &text, &error);
                done = counter.calls < n;
                if (status != NS_ERR_UNSUPPORTED) {
                    assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
                }
                assert_int_equal(error.status, status);
                nsi_drawing_free(&figure);
                ns_text_free(&text);
                assert_int_equal(counter.live_blocks, 0);
            }
        }
    }
    nsi_figures_free(&charts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_plain_and_different),
        cmocka_unit_test(figures_stand_in_a_page),
        cmocka_unit_test(figures_are_files),
        cmocka_unit_test(the_style_keeps_to_figures),
        cmocka_unit_test(numbers_are_a_table),
        cmocka_unit_test(names_stay_in_the_picture),
        cmocka_unit_test(long_notes_have_room),
        cmocka_unit_test(directions_are_not_obeyed),
        cmocka_unit_test(curves_are_dots),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
