#include "support/sample_report.h"

#include "neuralsim/model.h"
#include "support/assert.h"

#include <stdio.h>
#include <string.h>

const ns_model* sample_model(void) {
    static ns_model* model = NULL;
    ns_error error;
    if (!model)
        must(ns_model_load(NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf", NULL, &model,
                           &error),
             &error);
    return model;
}

static void add_parameters(ns_section* section) {
    const ns_report_column columns[] = {
        {.name = "parameter"},
        {.name = "start", .unit = "kg", .format = NS_FORMAT_SETTING, .digits = 5},
        {.name = "estimate", .format = NS_FORMAT_ESTIMATE},
        {.name = "samples", .format = NS_FORMAT_COUNT},
        {.name = "share", .format = NS_FORMAT_PERCENT},
        {.name = SAMPLE_HOSTILE}};
    ns_report_table* table = ns_section_add_table(section, "parameters", NULL, columns, 6);
    const ns_cell first[] = {ns_cell_link("link/upper/mass", "upper/report.html"),
                             ns_cell_number(0.1),
                             ns_cell_estimate(0.076, 0.0003),
                             ns_cell_number(1234567.0),
                             ns_cell_number(0.25),
                             ns_cell_verdict("ok", false)};
    const ns_cell second[] = {ns_cell_link(SAMPLE_HOSTILE, "javascript:alert(1)"),
                              ns_cell_number(NAN),
                              ns_cell_estimate(2.5, INFINITY),
                              ns_cell_number(-INFINITY),
                              ns_cell_missing(),
                              ns_cell_verdict("not identifiable", true)};
    const ns_cell third[] = {ns_cell_text(SAMPLE_LONG), ns_cell_number(0.0)};
    ns_report_table_add_row(table, first, 6);
    ns_report_table_add_row(table, second, 6);
    ns_report_table_add_row(table, third, 2);
    ns_section_add_note(section, NS_NOTE_TEXT, "3 residuals.");
    ns_section_add_note(section, NS_NOTE_INFO, "An item.");
    ns_section_add_note(section, NS_NOTE_WARNING, "Careful: " SAMPLE_HOSTILE);
    ns_section_add_note(section, NS_NOTE_PROBLEM, "The fit was stopped before its end.");
}

static void add_motion(ns_report* report, ns_section* section, const ns_allocator* allocator) {
    static const double time[] = {0.0, 0.1, 0.2};
    ns_motion* motion = NULL;
    if (ns_motion_create(sample_model(), allocator, &motion, NULL) == NS_OK) {
        bool added = ns_motion_add_episode(motion, "swing", time, 3, NULL, NULL) == NS_OK &&
                     ns_motion_add_track(motion, "run", "run", NULL) == NS_OK &&
                     ns_motion_add_quantity(motion, "angle", "rad", time, 1, NULL) == NS_OK;
        if (!added) ns_report_alloc(report, SIZE_MAX / 2, 1); // a motion that is not whole: failed
        ns_section_add_motion(section, motion);
    } else {
        ns_report_alloc(report, SIZE_MAX / 2, 1);
    }
    ns_figure* figure = ns_section_add_figure(section, NS_FIGURE_LINES, "angle/1", "Angle");
    double* x = ns_report_alloc(report, 3, sizeof *x);
    ns_line_series* series = ns_report_alloc(report, 1, sizeof *series);
    ns_line_panel* panel = ns_report_alloc(report, 1, sizeof *panel);
    if (!figure || !x || !series || !panel) return;
    memcpy(x, time, sizeof time);
    *series = (ns_line_series){.name = "angle", .line_style = "c0", .y = x};
    *panel = (ns_line_panel){{"angle, rad", false}, series, 1};
    figure->caption = "Over " SAMPLE_HOSTILE;
    figure->as.lines =
        (ns_line_chart){.x_axis = {.label = "t"}, .x = x, .count = 3, .panels = panel, .npanel = 1};
}

ns_report* sample_report(const ns_allocator* allocator) {
    ns_report* report = NULL;
    if (ns_report_create("A sample, " SAMPLE_HOSTILE, allocator, &report, NULL) != NS_OK) {
        return NULL;
    }
    ns_report_add_fact(report, "model", "pendulum.urdf");
    ns_report_add_fact(report, "citation", "");
    add_parameters(ns_report_add_section(report, "Parameters"));
    add_motion(report, ns_report_add_section(report, "Motion"), allocator);

    // A long table of numbers.
    ns_section* section = ns_report_add_section(report, NULL);
    const ns_report_column columns[] = {{.name = "row", .format = NS_FORMAT_COUNT},
                                        {.name = "value", .format = NS_FORMAT_NUMBER}};
    ns_report_table* table = ns_section_add_table(section, "many", "Many rows", columns, 2);
    for (uint32_t k = 0; k < SAMPLE_ROWS; k++) {
        const ns_cell row[] = {ns_cell_number(k), ns_cell_number(k * 0.01)};
        ns_report_table_add_row(table, row, 2);
    }
    ns_report_add_section(report, "Nothing");
    ns_report_set_record(report, "{\n  \"answer\": 42\n}\n", 19);
    if (ns_report_check(report, NULL) == NS_OK) return report;
    ns_report_free(report);
    return NULL;
}
