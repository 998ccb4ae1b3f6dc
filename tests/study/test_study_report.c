// The report of a study of fits: tables of errors beside those of others, and what is known of the truth.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

// The report, and its study, which must outlive it.
static ns_report* run_report(const char* text, const char* folder, ns_study** study) {
    ns_report* report = NULL;
    ns_error error;
    study_rig_write(text);
    *study = study_rig_load(false);
    must(ns_study_run(*study, tempdir_path(folder), &error), &error);
    must(ns_study_report(*study, &report, &error), &error);
    return report;
}

static const ns_section* find_section(const ns_report* report, const char* title) {
    for (uint32_t k = 0; k < ns_report_section_count(report); k++) {
        const ns_section* section = ns_report_section(report, k);
        const char* own = ns_section_title(section);
        if (own && strcmp(own, title) == 0) return section;
    }
    fail_msg("no section %s", title);
    return NULL;
}

static const ns_report_table* find_table(const ns_section* section, const char* name) {
    for (uint32_t k = 0; k < ns_section_table_count(section); k++) {
        const ns_report_table* table = ns_section_table(section, k);
        if (strcmp(ns_report_table_name(table), name) == 0) return table;
    }
    return NULL;
}

static uint32_t find_column(const ns_report_table* table, const char* name) {
    for (uint32_t k = 0; k < ns_report_table_column_count(table); k++) {
        if (strcmp(ns_report_table_column(table, k)->name, name) == 0) return k;
    }
    fail_msg("no column %s", name);
    return 0;
}

// Others first, then the baseline, then the fits, whose names lead to their reports.
static void errors_stand_beside_those_of_others(void** state) {
    (void)state;
    ns_study* study;
    ns_report* report = run_report(
        "kind: fits\ntitle: Mine\n" SIMULATE("") //
        "fits:\n"
        "  - {name: near, extends: near_far.yaml, label: Scored}\n"
        "  - name: formula\n"
        "    extends: formula.yaml\n"
        "    seeds: 2\n"
        "    trajectories: [2]\n"
        "    label: A formula\n"
        "    truth: {friction/joint/joint0/b: 0.1, friction/joint/joint1/b: 0.05}\n"
        "headline: near\n"
        "baseline: {fit: formula, label: Nothing}\n"
        "references:\n"
        "  - {name: Others, horizons: [0.5, 1], pooled: [0.25, 0.5], median: [0.125, 1]}\n"
        "  - {name: Theirs, measures: {near: 0.75}}\n",
        "report", &study);
    const ns_section* section = find_section(report, "Errors");
    const ns_report_table* table = find_table(section, "errors_test");
    assert_non_null(table);
    assert_null(find_table(section, "errors_train")); // the headline was fitted to nothing
    assert_string_equal(ns_report_table_title(table), "Error on test data");
    static const char* const labels[] = {"Others", "Theirs", "Nothing", "Scored", "A formula"};
    static const char* const links[] = {NULL, NULL, NULL, "near/report.html",
                                        "formula/report.html"};
    assert_int_equal(ns_report_table_row_count(table), 5);
    for (uint32_t k = 0; k < 5; k++) {
        const ns_cell* cell = ns_report_table_cell(table, k, 0);
        assert_string_equal(cell->text, labels[k]);
        if (links[k]) assert_string_equal(cell->link, links[k]);
        if (!links[k]) assert_null(cell->link);
    }

    // Horizons as pooled (median), measures as numbers, ranges of seeds.
    uint32_t half = find_column(table, "0.5 s"), near = find_column(table, "near");
    uint32_t range = find_column(table, "range of runs"), time = find_column(table, "time");
    assert_string_equal(ns_report_table_cell(table, 0, half)->text, "0.25 (0.125)");
    assert_string_equal(ns_report_table_cell(table, 1, half)->text, "-");
    assert_true(ns_report_table_cell(table, 1, near)->value == 0.75);
    assert_int_equal(ns_report_table_cell(table, 0, near)->kind, NS_CELL_MISSING);
    assert_true(ns_report_table_cell(table, 3, near)->value > 0.0);
    assert_says(ns_report_table_cell(table, 4, range)->text, "2: ");
    assert_string_equal(ns_report_table_cell(table, 3, range)->text, "");
    assert_int_equal(ns_report_table_cell(table, 2, time)->kind, NS_CELL_MISSING);
    assert_true(ns_report_table_cell(table, 4, time)->value > 0.0);

    // The truth.
    assert_int_equal(ns_section_note_count(section), 1);
    assert_says(ns_section_note(section, 0).text, "A formula: at most ");
    assert_says(ns_section_note(section, 0).text, "from the truth (median of 2 seeds; worst ");
    ns_report_free(report);
    ns_study_free(study);
}

// A group has a section of its own, also when it is left out.
static void groups_are_sections(void** state) {
    (void)state;
    ns_study* study;
    ns_error error;
    ns_report* report = run_report("kind: fits\ntitle: Mine\n" SIMULATE("") //
                                   "groups:\n"
                                   "  - {name: first, title: The first}\n"
                                   "  - {name: third, title: The <third>, data: not_there_at_all}\n"
                                   "fits:\n"
                                   "  - {name: formula, extends: formula.yaml, group: first}\n"
                                   "  - {name: lost, extends: again.yaml, group: third}\n"
                                   "figures: [{kind: loss, title: Loss, fits: [formula]}]\n",
                                   "groups", &study);
    assert_non_null(find_table(find_section(report, "The first"), "first_errors_test"));
    assert_non_null(find_table(find_section(report, "The first"), "first_errors_train"));
    const ns_section* third = find_section(report, "The <third>");
    assert_int_equal(ns_section_table_count(third), 0);
    assert_says(ns_section_note(third, 0).text, "Left out");
    assert_int_equal(ns_section_figure_count(find_section(report, "Figures")), 1);

    ns_text text;
    must(ns_report_html(report, &text, &error), &error);
    assert_says(text.data, "The &lt;third&gt;");
    ns_text_free(&text);
    ns_report_free(report);
    ns_study_free(study);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_stand_beside_those_of_others),
        cmocka_unit_test(groups_are_sections),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
