// Reports for programs: read back by a parser, all rows, null for what is not finite.

#include "neuralsim/report.h"

#include "support/assert.h"
#include "support/sample_report.h"

#include <math.h>
#include <string.h>

#include <jansson.h>

static json_t* render(const ns_report* report) {
    ns_text text;
    ns_error error;
    must(ns_report_json(report, &text, &error), &error);
    json_error_t fault;
    json_t* root = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &fault);
    if (!root) fail_msg("%s in:\n%s", fault.text, text.data);
    ns_text_free(&text);
    return root;
}

static const char* text_at(const json_t* object, const char* key) {
    return json_string_value(json_object_get(object, key));
}

static void test_sample(void** state) {
    (void)state;
    ns_report* r = sample_report(NULL);
    json_t *root = render(r), *report = json_object_get(root, "report");
    assert_int_equal(json_integer_value(json_object_get(root, "answer")), 42); // of the record
    assert_string_equal(text_at(report, "title"), "A sample, " SAMPLE_HOSTILE);
    assert_string_equal(text_at(json_object_get(report, "facts"), "model"), "pendulum.urdf");
    const json_t* problems = json_object_get(report, "problems");
    assert_int_equal(json_array_size(problems), 1);
    assert_string_equal(json_string_value(json_array_get(problems, 0)),
                        "The fit was stopped before its end.");

    const json_t *sections = json_object_get(report, "sections"), *s = json_array_get(sections, 0);
    assert_int_equal(json_array_size(sections), 4);
    assert_string_equal(text_at(s, "name"), "Parameters");
    const json_t* note = json_array_get(json_object_get(s, "notes"), 2);
    assert_string_equal(text_at(note, "level"), "warning");
    assert_string_equal(text_at(note, "text"), "Careful: " SAMPLE_HOSTILE);

    // Cells by their kinds.
    const json_t *table = json_array_get(json_object_get(s, "tables"), 0),
                 *rows = json_object_get(table, "rows"), *row = json_array_get(rows, 1);
    assert_string_equal(text_at(table, "name"), "parameters");
    assert_int_equal(json_array_size(json_object_get(table, "columns")), 6);
    assert_string_equal(text_at(json_array_get(json_object_get(table, "columns"), 1), "unit"),
                        "kg");
    assert_int_equal(json_array_size(rows), 3);
    assert_int_equal(json_array_size(row), 6);
    assert_true(json_is_null(json_array_get(row, 1)));
    const json_t* estimate = json_array_get(row, 2);
    assert_true(json_number_value(json_object_get(estimate, "value")) == 2.5);
    assert_true(json_is_null(json_object_get(estimate, "standard_error")));
    assert_true(json_is_null(json_array_get(row, 3)));
    assert_true(json_is_null(json_array_get(row, 4)));
    assert_string_equal(json_string_value(json_array_get(row, 5)), "not identifiable");

    // Figures and motions by name; tables with all their rows.
    s = json_array_get(sections, 1);
    assert_string_equal(text_at(json_array_get(json_object_get(s, "figures"), 0), "name"),
                        "angle_1");
    const json_t* motion = json_array_get(json_object_get(s, "motions"), 0);
    const json_t* episode = json_array_get(json_object_get(motion, "episodes"), 0);
    assert_string_equal(text_at(episode, "name"), "swing");
    assert_int_equal(json_integer_value(json_object_get(episode, "rows")), 3);
    s = json_array_get(sections, 2);
    assert_true(json_is_null(json_object_get(s, "name")));
    table = json_array_get(json_object_get(s, "tables"), 0);
    assert_int_equal(json_array_size(json_object_get(table, "rows")), SAMPLE_ROWS);
    json_decref(root);
    ns_report_free(r);
}

// Without a record there is the report alone; with an empty one, too.
static void test_record(void** state) {
    (void)state;
    static const char* const records[] = {NULL, "{}", "{ }\n", "{\"a\": [1, {}]}"};
    for (size_t k = 0; k < 4; k++) {
        ns_report* r = NULL;
        assert_int_equal(ns_report_create("x", NULL, &r, NULL), NS_OK);
        if (records[k]) ns_report_set_record(r, records[k], strlen(records[k]));
        json_t* root = render(r);
        assert_int_equal(json_object_size(root), k == 3 ? 2 : 1);
        assert_non_null(json_object_get(root, "report"));
        json_decref(root);
        ns_report_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sample),
                                       cmocka_unit_test(test_record)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
