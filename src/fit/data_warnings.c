// Warnings of data checks: what fits, discoveries and scorings say of their recordings.

#include "fit/data_warnings.h"

#include "data/map.h"

#include <stdio.h>

enum { MAX_WARNINGS = 8, MAX_SETS = 8 };

static bool add_text(nsi_data_warnings* w, const char* text) {
    const char* kept = nsi_arena_string(&w->arena, text, strlen(text));
    return kept && nsi_array_push(&w->arena.allocator, &w->texts, kept);
}

// The first warnings, and how many more there are.
static bool take_warnings(nsi_data_warnings* w, const ns_data_check* check) {
    uint32_t count = ns_data_check_count(check, NS_DATA_WARNING);
    bool done = true;
    for (uint32_t k = 0; k < count && k < MAX_WARNINGS; k++) {
        done = done && add_text(w, ns_data_check_finding(check, k)->text);
    }
    if (count > MAX_WARNINGS) {
        char text[80];
        snprintf(text, sizeof text, "and %u more likely mistakes in the data",
                 count - MAX_WARNINGS);
        done = done && add_text(w, text);
    }
    return done;
}

ns_status nsi_data_warnings_check(nsi_data_warnings* w, ns_dataset* const* sets,
                                  const char* const* names, uint32_t nset, const ns_model* model,
                                  ns_error* error) {
    // Sets that are there.
    const ns_dataset* there[MAX_SETS] = {NULL};
    const char* called[MAX_SETS] = {NULL};
    uint32_t count = 0;
    for (uint32_t k = 0; k < nset && count < MAX_SETS; k++) {
        if (!sets[k]) continue;
        there[count] = sets[k];
        called[count++] = names[k];
    }

    ns_data_check* check = NULL;
    ns_status status =
        ns_data_check_sets(there, called, count, model, &w->arena.allocator, &check, error);
    if (status == NS_OK && !take_warnings(w, check)) status = nsi_fail_nomem(error);
    ns_data_check_free(check);
    for (uint32_t k = 0; k < nset; k++) {
        if (sets[k]) nsi_dataset_drop_rows(sets[k]);
    }
    return status;
}

void nsi_data_warnings_free(nsi_data_warnings* w) {
    nsi_array_free(&w->arena.allocator, &w->texts);
    nsi_arena_free(&w->arena);
}

void nsi_data_warnings_report(const char* const* texts, uint32_t count, ns_report* report) {
    if (count == 0) return;
    ns_section* section = ns_report_add_section(report, "Data");
    for (uint32_t k = 0; k < count; k++) ns_section_add_note(section, NS_NOTE_WARNING, texts[k]);
    ns_section_add_note(section, NS_NOTE_TEXT,
                        "`neuralsim data` with these files, the map and the model shows more.");
}

void nsi_data_warnings_record(const nsi_data_warnings* w, ns_json* j) {
    ns_json_open(j, "data_warnings", '[');
    for (uint32_t k = 0; k < w->texts.count; k++) ns_json_text(j, NULL, w->texts.data[k]);
    ns_json_close(j);
}
