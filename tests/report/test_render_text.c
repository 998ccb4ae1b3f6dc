// Reports in a terminal: problems first, columns aligned, nothing wider than 100 columns.

#include "report/report_data.h"

#include "support/assert.h"
#include "support/sample_report.h"

#include <stdio.h>
#include <string.h>

static ns_text render(const ns_report* report) {
    ns_text text;
    ns_error error;
    must(ns_report_text(report, &text, &error), &error);
    return text;
}

static const char* place(const ns_text* text, const char* part) {
    const char* at = strstr(text->data, part);
    if (!at) fail_msg("'%s' is not in:\n%s", part, text->data);
    return at;
}

// The line in which a text stands.
static void line_of(const ns_text* text, const char* part, char* out, size_t size) {
    const char *at = place(text, part), *from = at;
    while (from > text->data && from[-1] != '\n') from--;
    snprintf(out, size, "%.*s", (int)strcspn(from, "\n"), from);
}

static void check_lines(const ns_text* text) {
    for (const char* line = text->data; *line; line += strcspn(line, "\n") + 1) {
        char copy[2000];
        snprintf(copy, sizeof copy, "%.*s", (int)strcspn(line, "\n"), line);
        if (nsi_format_width(copy) > 100) fail_msg("wider than 100 columns:\n%s", copy);
        size_t size = strlen(copy);
        if (size > 0 && copy[size - 1] == ' ') fail_msg("a blank at the end of: %s", copy);
    }
}

static void test_sample(void** state) {
    (void)state;
    ns_report* r = sample_report(NULL);
    ns_text text = render(r);
    check_lines(&text);

    // The problem stands before everything else, and only there.
    const char* problem = place(&text, "PROBLEM: The fit was stopped before its end.");
    assert_ptr_equal(problem, text.data);
    assert_true(problem < place(&text, "A sample"));
    assert_true(problem < place(&text, "model     pendulum.urdf"));
    assert_null(strstr(problem + 10, "The fit was stopped"));
    assert_true(place(&text, "Parameters") > problem);
    place(&text, "3 residuals.");
    place(&text, "- An item.");
    place(&text, "- warning: Careful: ");

    // Numbers end where their headings end; an estimate has its error beside it.
    char heading[300], first[300], second[300];
    line_of(&text, "start, kg", heading, sizeof heading);
    line_of(&text, "link/upper/mass", first, sizeof first);
    line_of(&text, "not identifiable", second, sizeof second);
    size_t end = (size_t)(strstr(heading, "start, kg") - heading) + strlen("start, kg");
    assert_memory_equal(first + end - 3, "0.1", 3);
    assert_memory_equal(second + end - 3, "  -", 3);
    end = (size_t)(strstr(heading, "+-") - heading) + 2;
    assert_memory_equal(first + end - 6, "0.0003", 6);
    assert_memory_equal(second + end - 5, "  inf", 5);
    assert_non_null(strstr(first, "0.0760"));
    assert_non_null(strstr(first, "1234567"));
    assert_non_null(strstr(first, "25.0 %"));
    assert_non_null(strstr(second, "-inf"));

    // A long name loses its middle, a long table its end.
    assert_null(strstr(text.data, SAMPLE_LONG));
    place(&text, "...");
    place(&text, "Many rows");
    place(&text, "190 more rows are in the JSON.");
    assert_null(strstr(text.data, "Motion"));  // nothing of it can be shown here
    assert_null(strstr(text.data, "Nothing")); // there is nothing in it
    ns_text_free(&text);
    ns_report_free(r);
}

// Many columns are printed in parts, each with the first one.
static void test_wide_table(void** state) {
    (void)state;
    enum { COLUMNS = 14 };
    ns_report* r = NULL;
    assert_int_equal(ns_report_create("Wide", NULL, &r, NULL), NS_OK);
    ns_report_column columns[COLUMNS] = {{.name = "model"}};
    ns_cell cells[COLUMNS] = {ns_cell_text("the first model")};
    char names[COLUMNS][20];
    for (uint32_t k = 1; k < COLUMNS; k++) {
        snprintf(names[k], sizeof names[k], "horizon %u", k);
        columns[k] = (ns_report_column){.name = names[k], .format = NS_FORMAT_NUMBER};
        cells[k] = ns_cell_number(1.0 / k);
    }
    ns_report_table* t =
        ns_section_add_table(ns_report_add_section(r, NULL), "wide", NULL, columns, COLUMNS);
    ns_report_table_add_row(t, cells, COLUMNS);
    ns_text text = render(r);
    check_lines(&text);
    const char* again = strstr(place(&text, "the first model") + 1, "the first model");
    assert_non_null(again);
    for (uint32_t k = 1; k < COLUMNS; k++) place(&text, names[k]);
    ns_text_free(&text);
    ns_report_free(r);
}

// Whatever is in a text, it neither controls a terminal nor breaks a line.
static void test_hostile_text(void** state) {
    (void)state;
    ns_report* r = NULL;
    assert_int_equal(ns_report_create("\x1b[31mred\xff\n\tx", NULL, &r, NULL), NS_OK);
    ns_section* s = ns_report_add_section(r, "a\rb");
    const ns_report_column column = {.name = "\x1b]0;title\x07"};
    const ns_cell cell = ns_cell_text("x\ny\xe2\x80\xaez");
    ns_report_table_add_row(ns_section_add_table(s, "t", NULL, &column, 1), &cell, 1);
    for (uint32_t k = 0; k < 3; k++) {
        char note[400];
        memset(note, 'm', sizeof note);
        note[sizeof note - 1] = '\0';
        ns_section_add_note(s, (ns_note_level)k, note);
    }
    ns_text text = render(r);
    check_lines(&text);
    for (size_t k = 0; k < text.size; k++) {
        assert_true((unsigned char)text.data[k] >= 0x20 || text.data[k] == '\n');
    }
    assert_null(strstr(text.data, "\xe2\x80\xae"));
    place(&text, "x y?z");
    ns_text_free(&text);
    ns_report_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sample),
                                       cmocka_unit_test(test_wide_table),
                                       cmocka_unit_test(test_hostile_text)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
