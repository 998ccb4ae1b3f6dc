// Reports: what was added is what is read, copies of texts, and every failure of memory.

#include "neuralsim/report.h"

#include "support/assert.h"
#include "support/sample_report.h"
#include "support/testalloc.h"

#include <math.h>
#include <string.h>

static void test_what_was_added(void** state) {
    (void)state;
    ns_report* r = sample_report(NULL);
    assert_non_null(r);
    assert_string_equal(ns_report_title(r), "A sample, " SAMPLE_HOSTILE);
    assert_int_equal(ns_report_fact_count(r), 1); // the citation has no text
    assert_string_equal(ns_report_fact(r, 0).name, "model");
    assert_string_equal(ns_report_fact(r, 0).text, "pendulum.urdf");
    assert_int_equal(ns_report_section_count(r), 4);

    const ns_section* s = ns_report_section(r, 0);
    assert_string_equal(ns_section_title(s), "Parameters");
    assert_int_equal(ns_section_note_count(s), 4);
    assert_int_equal(ns_section_note(s, 3).level, NS_NOTE_PROBLEM);
    assert_string_equal(ns_section_note(s, 1).text, "An item.");
    assert_int_equal(ns_section_table_count(s), 1);
    const ns_report_table* t = ns_section_table(s, 0);
    assert_string_equal(ns_report_table_name(t), "parameters");
    assert_null(ns_report_table_title(t));
    assert_int_equal(ns_report_table_column_count(t), 6);
    assert_int_equal(ns_report_table_row_count(t), 3);
    assert_string_equal(ns_report_table_column(t, 1)->unit, "kg");
    const ns_cell* cell = ns_report_table_cell(t, 0, 2);
    assert_int_equal(cell->kind, NS_CELL_ESTIMATE);
    assert_true(cell->value == 0.076 && cell->standard_error == 0.0003);
    assert_int_equal(ns_report_table_cell(t, 2, 5)->kind, NS_CELL_MISSING);

    s = ns_report_section(r, 1);
    assert_int_equal(ns_section_figure_count(s), 1);
    assert_int_equal(ns_section_motion_count(s), 1);
    assert_string_equal(ns_section_figure(s, 0)->name, "angle_1");
    assert_int_equal(ns_report_figure_count(r), 1);
    assert_ptr_equal(ns_report_find_figure(r, "angle_1"), ns_report_figure(r, 0));
    assert_null(ns_report_find_figure(r, "angle"));
    assert_null(ns_section_title(ns_report_section(r, 2)));
    ns_report_free(r);
}

// Texts of a caller may change afterwards.
static void test_texts_are_copied(void** state) {
    (void)state;
    char text[] = "mass";
    ns_report* r = NULL;
    assert_int_equal(ns_report_create(text, NULL, &r, NULL), NS_OK);
    ns_report_add_fact(r, text, text);
    ns_section* s = ns_report_add_section(r, text);
    ns_section_add_note(s, NS_NOTE_INFO, text);
    const ns_report_column column = {.name = text, .unit = text};
    ns_report_table* t = ns_section_add_table(s, text, text, &column, 1);
    const ns_cell cell = ns_cell_link(text, text);
    ns_report_table_add_row(t, &cell, 1);
    memset(text, 'x', 4);
    assert_string_equal(ns_report_title(r), "mass");
    assert_string_equal(ns_report_fact(r, 0).text, "mass");
    assert_string_equal(ns_section_title(s), "mass");
    assert_string_equal(ns_section_note(s, 0).text, "mass");
    assert_string_equal(ns_report_table_name(t), "mass");
    assert_string_equal(ns_report_table_title(t), "mass");
    assert_string_equal(ns_report_table_column(t, 0)->name, "mass");
    assert_string_equal(ns_report_table_column(t, 0)->unit, "mass");
    assert_string_equal(ns_report_table_cell(t, 0, 0)->text, "mass");
    assert_string_equal(ns_report_table_cell(t, 0, 0)->link, "mass");
    ns_report_free(r);
}

// Nothing that was not added can be added to.
static void test_null(void** state) {
    (void)state;
    ns_report_free(NULL);
    ns_section_add_note(NULL, NS_NOTE_INFO, "x");
    assert_null(ns_section_add_table(NULL, "x", NULL, NULL, 0));
    assert_null(ns_section_add_figure(NULL, NS_FIGURE_BARS, "x", "x"));
    ns_report_table_add_row(NULL, NULL, 0);
    ns_section_add_motion(NULL, NULL);
}

// A report without a title, with a motion that failed and more digits than a number has, is rendered.
static void test_careless_arguments(void** state) {
    (void)state;
    const ns_report_column columns[] = {{.name = "x", .format = NS_FORMAT_NUMBER, .digits = 100},
                                        {.name = "y", .format = NS_FORMAT_PERCENT, .digits = 1000},
                                        {.name = "z", .format = NS_FORMAT_SETTING, .digits = -1}};
    const ns_cell cells[] = {ns_cell_number(-1.0 / 3e200), ns_cell_number(1.0 / 3.0),
                             ns_cell_number(2.0 / 3.0)};
    ns_report* r = NULL;
    assert_int_equal(ns_report_create(NULL, NULL, &r, NULL), NS_OK);
    assert_string_equal(ns_report_title(r), "");
    ns_section* s = ns_report_add_section(r, NULL);
    ns_section_add_motion(s, NULL);
    assert_int_equal(ns_section_motion_count(s), 0);
    ns_report_table* t = ns_section_add_table(s, "t", NULL, columns, 3);
    ns_report_table_add_row(t, cells, 3);
    assert_int_equal(ns_report_table_column(t, 0)->digits, 17);
    assert_int_equal(ns_report_table_column(t, 2)->digits, 3);

    typedef ns_status renderer(const ns_report*, ns_text*, ns_error*);
    renderer* const all[] = {ns_report_text, ns_report_html, ns_report_json};
    for (size_t k = 0; k < 3; k++) {
        ns_text text;
        assert_int_equal(all[k](r, &text, NULL), NS_OK);
        if (k == 0) assert_non_null(strstr(text.data, "-3.333333333333333"));
        if (k == 0) assert_non_null(strstr(text.data, "0.667"));
        ns_text_free(&text);
    }
    ns_report_free(r);
}

// Each failure is told at the end, and nothing leaks.
static void test_memory(void** state) {
    (void)state;
    sample_model();
    typedef ns_status renderer(const ns_report*, ns_text*, ns_error*);
    renderer* const all[] = {ns_report_text, ns_report_html, ns_report_json};
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator memory = test_allocator(&counter);
        ns_report* r = sample_report(&memory);
        bool whole = r != NULL;
        for (size_t k = 0; k < 3 && r; k++) {
            ns_text text;
            ns_status status = all[k](r, &text, NULL);
            whole = whole && status == NS_OK;
            if (status != NS_OK) assert_int_equal(status, NS_ERR_NOMEM);
            ns_text_free(&text);
        }
        bool reached = counter.calls >= n;
        ns_report_free(r);
        assert_int_equal(counter.live_blocks, 0);
        assert_int_equal(whole, !reached);
        if (!reached) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_added), cmocka_unit_test(test_texts_are_copied),
        cmocka_unit_test(test_null), cmocka_unit_test(test_careless_arguments),
        cmocka_unit_test(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
