// The report of a scoring, and its record for programs.

#include "fit/scoring_state.h"

#include "neuralsim/json.h"
#include "neuralsim/words.h"
#include "report/report_data.h"

#include <math.h>

static const char* integrator_name(const ns_scoring* s) {
    if (s->learned) return "learned";
    return ns_choice_name(&ns_integrators, (int)s->problem->sizes.integrator);
}

// ---- record ------------------------------------------------------------------------------------

static ns_status make_scoring_record(const ns_scoring* s, ns_text* out, ns_error* error) {
    // Errors over all predictions.
    ns_scoring_total total = ns_scoring_get(s);
    ns_json* j = ns_json_create(&s->allocator);
    ns_json_number(j, "rmse_q", total.rmse_q);
    ns_json_number(j, "rmse_qd", total.rmse_qd);
    ns_json_count(j, "count", total.samples);

    // Errors of channels, up to horizons, and of trajectories.
    ns_json_open(j, "coordinates", '[');
    for (uint32_t k = 0; k < ns_scoring_channel_count(s); k++) {
        ns_scoring_channel channel = ns_scoring_get_channel(s, k);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", channel.name);
        ns_json_text(j, "unit", channel.unit);
        ns_json_number(j, "rmse", channel.rmse);
        ns_json_close(j);
    }
    ns_json_close(j);

    // Pooled errors are dominated by the worst window, hence the medians.
    ns_json_open(j, "horizons", '[');
    for (uint32_t k = 0; k < ns_scoring_horizon_count(s); k++) {
        ns_scoring_horizon h = ns_scoring_get_horizon(s, k);
        ns_json_open(j, NULL, '{');
        ns_json_number(j, "seconds", h.seconds);
        ns_json_count(j, "steps", h.samples);
        ns_json_number(j, "pooled", h.pooled);
        ns_json_number(j, "median", h.median);
        ns_json_count(j, "windows", h.predictions);
        ns_json_close(j);
    }
    ns_json_close(j);

    // By recording: where the model is wrong.
    ns_json_open(j, "trajectories", '[');
    for (uint32_t k = 0; k < ns_scoring_recording_count(s); k++) {
        ns_scoring_recording r = ns_scoring_get_recording(s, k);
        ns_json_open(j, NULL, '{');
        ns_json_text(j, "name", r.name);
        ns_json_number(j, "rmse_q", r.rmse_q);
        ns_json_number(j, "rmse_qd", r.rmse_qd);
        ns_json_count(j, "samples", r.samples);
        ns_json_close(j);
    }
    ns_json_close(j);

    nsi_data_warnings_record(&s->data_warnings, j);

    // How they were predicted.
    ns_json_count(j, "predictions", total.predictions);
    ns_json_count(j, "lost", total.lost);
    ns_json_text(j, "treatment", ns_dataset_treatment(s->data));
    ns_json_number(j, "timestep", s->problem->sizes.timestep);
    ns_json_text(j, "integrator", integrator_name(s));
    return ns_json_finish(j, out, error);
}

// ---- facts -------------------------------------------------------------------------------------

static void end_fact(ns_report* report, const char* name, nsi_text_builder* b) {
    nsi_text_add_bytes(b, "", 1);
    if (b->failed) report->failed = true;
    if (!b->failed) ns_report_add_fact(report, name, b->text.data);
    b->text.count = 0;
}

static void add_scoring_facts(ns_report* report, const ns_scoring* s) {
    // The model, its time step and its variants.
    nsi_text_builder b = {.allocator = s->allocator};
    nsi_text_add(&b, "%s; %s, steps of %s ms", s->model, integrator_name(s),
                 nsi_format_short(1e3 * s->problem->sizes.timestep, 6).text);

    // A fact takes the text and empties the builder.
    end_fact(report, "model", &b);
    for (uint32_t k = 0; k < s->nrobot && s->robots[0].name; k++) {
        nsi_text_add(&b, "%s%s", k > 0 ? ", " : "", s->robots[k].name);
    }
    end_fact(report, "variants", &b);

    // The data and the controls that drive the simulation.
    ns_report_add_fact(report, "data", ns_dataset_treatment(s->data));
    for (uint32_t k = 0; k < s->problem->ncontrol; k++) {
        nsi_text_add(&b, "%s%s", k > 0 ? ", " : "", ns_dataset_control(s->data, k));
    }
    if (s->problem->ncontrol == 0) nsi_text_add(&b, "none");
    end_fact(report, "controls", &b);

    // What was predicted, and from which states.
    ns_scoring_total total = ns_scoring_get(s);
    uint32_t used = 0, count = s->result.nrecording;

    // Recordings that are too short have no prediction.
    for (uint32_t k = 0; k < count; k++) used += s->result.recordings[k].samples > 0;
    nsi_text_add(&b, "%llu samples by %u prediction%s in %u of %u trajector%s; ",
                 (unsigned long long)total.samples, total.predictions,
                 total.predictions == 1 ? "" : "s", used, count, count == 1 ? "y" : "ies");
    if (s->options.history > 1) {
        nsi_text_add(&b, "states fitted to %u samples", s->options.history);
    } else {
        nsi_text_add(&b, "states as recorded");
    }
    end_fact(report, "predicted", &b);
    nsi_array_free(&b.allocator, &b.text);
}

// ---- sections ----------------------------------------------------------------------------------

static void report_horizons(ns_report* report, const ns_scoring* s) {
    ns_section* section = ns_report_add_section(report, "Prediction error");
    ns_scoring_total total = ns_scoring_get(s);

    // What the errors should be read with.
    for (uint32_t k = 0; k < s->notes.count; k++) {
        ns_section_add_note(section, NS_NOTE_WARNING, s->notes.data[k]);
    }

    // Otherwise an infinite RMSE would be a riddle.
    if (total.lost > 0) {
        nsi_section_add_notef(section, NS_NOTE_PROBLEM,
                              "%u of %u predictions did not stay finite: their error is infinite.",
                              total.lost, total.predictions);
    }

    // The table.
    if (ns_scoring_horizon_count(s) == 0) return;

    // Without positions among the channels the errors are over all channels.
    nsi_section_add_notef(section, NS_NOTE_TEXT, "RMSE of %s up to a horizon.",
                          isnan(total.rmse_q) ? "all channels" : "q");
    const ns_report_column columns[] = {
        {.name = "horizon", .unit = "s", .format = NS_FORMAT_SETTING, .digits = 4},
        {.name = "samples", .format = NS_FORMAT_COUNT},
        {.name = "predictions", .format = NS_FORMAT_COUNT},
        {.name = "pooled", .format = NS_FORMAT_NUMBER, .digits = 4},
        {.name = "median", .format = NS_FORMAT_NUMBER, .digits = 4}};

    // A row for each horizon, the shortest first.
    ns_report_table* table = ns_section_add_table(section, "horizons", NULL, columns, 5);
    for (uint32_t k = 0; k < ns_scoring_horizon_count(s); k++) {
        ns_scoring_horizon h = ns_scoring_get_horizon(s, k);
        const ns_cell row[] = {ns_cell_number(h.seconds), ns_cell_number(h.samples),
                               ns_cell_number(h.predictions), ns_cell_number(h.pooled),
                               ns_cell_number(h.median)};
        ns_report_table_add_row(table, row, 5);
    }
}

static void report_channels(ns_report* report, const ns_scoring* s) {
    const ns_report_column columns[] = {{.name = "channel"},
                                        {.name = "unit"},
                                        {.name = "RMSE", .format = NS_FORMAT_NUMBER, .digits = 4}};
    ns_report_table* table = ns_section_add_table(ns_report_add_section(report, "Channels"),
                                                  "channels", NULL, columns, 3);
    for (uint32_t k = 0; k < ns_scoring_channel_count(s); k++) {
        ns_scoring_channel c = ns_scoring_get_channel(s, k);
        const ns_cell row[] = {ns_cell_text(c.name), ns_cell_text(*c.unit ? c.unit : "-"),
                               ns_cell_number(c.rmse)};
        ns_report_table_add_row(table, row, 3);
    }
}

static void report_recordings(ns_report* report, const ns_scoring* s) {
    const ns_report_column columns[] = {
        {.name = "trajectory"},
        {.name = "samples", .format = NS_FORMAT_COUNT},
        {.name = "RMSE q", .format = NS_FORMAT_NUMBER, .digits = 4},
        {.name = "RMSE qd", .format = NS_FORMAT_NUMBER, .digits = 4}};
    ns_report_table* table = ns_section_add_table(ns_report_add_section(report, "Trajectories"),
                                                  "trajectories", NULL, columns, 4);
    ns_scoring_total total = ns_scoring_get(s);
    const ns_cell all[] = {ns_cell_text("all"), ns_cell_number((double)total.samples),
                           ns_cell_number(total.rmse_q), ns_cell_number(total.rmse_qd)};
    ns_report_table_add_row(table, all, 4);
    for (uint32_t k = 0; k < ns_scoring_recording_count(s); k++) {
        ns_scoring_recording r = ns_scoring_get_recording(s, k);
        const ns_cell row[] = {ns_cell_text(r.name), ns_cell_number(r.samples),
                               ns_cell_number(r.rmse_q), ns_cell_number(r.rmse_qd)};
        ns_report_table_add_row(table, row, 4);
    }
}

ns_status ns_scoring_report(const ns_scoring* s, ns_report** out, ns_error* error) {
    ns_report* report = NULL;
    ns_text record = {0};
    *out = NULL;
    ns_status status = ns_report_create("Open-loop prediction", &s->allocator, &report, error);
    if (status == NS_OK) status = make_scoring_record(s, &record, error);
    if (status == NS_OK) {
        add_scoring_facts(report, s);
        nsi_data_warnings_report(s->data_warnings.texts.data, s->data_warnings.texts.count, report);
        report_horizons(report, s);
        report_channels(report, s);
        report_recordings(report, s);
        ns_report_set_record(report, record.data, record.size);
        status = ns_report_check(report, error);
    }
    ns_text_free(&record);
    if (status == NS_OK) {
        *out = report;
    } else {
        ns_report_free(report);
    }
    return status;
}
