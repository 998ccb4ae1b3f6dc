// Data checks: the table of checks, their findings, and data sets; check_files.c has files.

#include "data/check_state.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const ns_choice severity_rows[] = {NS_DATA_SEVERITY_MAP(NS_CHOICE_ROW)};
const ns_choices ns_data_severities = NS_CHOICES("severity", severity_rows);
static const ns_choice code_rows[] = {NS_DATA_CODE_MAP(NS_CHOICE_ROW)};
const ns_choices ns_data_codes = NS_CHOICES("finding", code_rows);

// ---- the checks ----------------------------------------------------------------------------------

// In this order: later ones leave out what an earlier one explains.
static const struct {
    void (*run)(ns_data_check*);
    const char* looks_at;
} checks[] = {
    {nsi_match_velocities, "velocities beside positions, for the checks below"},
    {nsi_check_time, "times of rows"},
    {nsi_check_milliseconds, "distances of rows, velocities beside positions, names"},
    {nsi_check_wrapped, "steps of angles"},
    {nsi_check_degrees, "velocities beside positions, joint limits, turns of 360, names"},
    {nsi_check_degrees_by_motion, "accelerations of the motion and of the model, in both units"},
    {nsi_check_millimetres, "velocities beside positions, joint limits, names"},
    {nsi_check_velocities, "velocities beside positions"},
    {nsi_check_joint_limits, "range of positions"},
    {nsi_check_control_sign, "accelerations of the motion and of the model"},
    {nsi_check_control_hold, "accelerations of the motion and of the model between samples"},
    {nsi_check_stuck, "runs of identical values"},
    {nsi_check_outliers, "single values beside their neighbours"},
    {nsi_check_missing, "gaps"},
    {nsi_check_constant, "range"},
    {nsi_check_duplicates, "numbers and places of recordings"},
    {nsi_check_unknown_columns, "names of columns"},
};

// ---- findings ------------------------------------------------------------------------------------

void nsi_places_add(nsi_places* places, const nsi_checked_recording* recording,
                    const nsi_samples* samples, uint32_t row) {
    places->count++;
    if (places->last != recording) places->recordings++;
    places->last = recording;
    places->counted = recording->counted;
    if (places->kept == NSI_MAX_PLACES) return;
    const ns_recording* r = recording->recording;
    places->data[places->kept++] = (ns_data_place){
        r->name, r->file, samples->lines ? samples->lines[row] : 0, samples->times[row]};
}

const char* nsi_places_text(const nsi_places* places, char text[NSI_WHERE_SIZE]) {
    char recordings[40] = "";
    if (places->recordings > 1) {
        snprintf(recordings, sizeof recordings, " in %u recordings", places->recordings);
    }
    double time = places->data[0].time;
    int used =
        snprintf(text, NSI_WHERE_SIZE, ", %u time%s%s, %sat ", places->count,
                 places->count == 1 ? "" : "s", recordings, places->count == 1 ? "" : "first ");
    if (used > 0 && used < NSI_WHERE_SIZE) {
        snprintf(text + used, NSI_WHERE_SIZE - (size_t)used,
                 places->counted ? "row %.0f" : "%.6g s", places->counted ? time + 1.0 : time);
    }
    return text;
}

bool nsi_was_found(const ns_data_check* c, ns_data_code code, const char* channel) {
    for (uint32_t k = 0; k < c->findings.count; k++) {
        const ns_data_finding* f = &c->findings.data[k];
        if (f->code != code) continue;
        if (!channel || (f->channel && strcmp(f->channel, channel) == 0)) return true;
    }
    return false;
}

const char* nsi_check_keep(ns_data_check* c, const char* text) {
    const char* copy = text ? nsi_arena_string(&c->arena, text, strlen(text)) : NULL;
    if (text && !copy) c->failed = true;
    return copy ? copy : "";
}

// "run.csv:12: q_elbow: message; advice"
static const char* finding_text(ns_data_check* c, const ns_data_finding* f) {
    char text[1600], line[20] = "";
    const ns_data_place* place = f->nplace > 0 ? &f->places[0] : NULL;
    const char* file = place ? place->file : c->nrecording > 0 ? c->recordings[0].stats.file : "";
    if (place && place->line > 0) snprintf(line, sizeof line, ":%u", place->line);
    snprintf(text, sizeof text, "%.300s%s%s%.200s%s%.600s; %.400s", file, line, *file ? ": " : "",
             f->channel ? f->channel : "", f->channel ? ": " : "", f->message, f->advice);
    return nsi_check_keep(c, text);
}

void nsi_find(ns_data_check* c, ns_data_code code, ns_data_severity severity, const char* channel,
              const nsi_places* places, double value, const char* advice, const char* format, ...) {
    char message[600];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    ns_data_finding f = {.code = code,
                         .severity = severity,
                         .channel = channel,
                         .count = places ? places->count : 1,
                         .value = value,
                         .message = nsi_check_keep(c, message),
                         .advice = nsi_check_keep(c, advice)};
    if (places && places->kept > 0) {
        ns_data_place* copy = nsi_arena_alloc(&c->arena, places->kept * sizeof *copy);
        if (copy) memcpy(copy, places->data, places->kept * sizeof *copy);
        if (!copy) c->failed = true;
        f.places = copy;
        f.nplace = copy ? places->kept : 0;
    }
    f.text = finding_text(c, &f);
    if (!nsi_array_push(&c->allocator, &c->findings, f)) c->failed = true;
}

// The most severe first, otherwise as they were found.
void nsi_check_sort(ns_data_check* c) {
    for (uint32_t k = 1; k < c->findings.count; k++) {
        ns_data_finding f = c->findings.data[k];
        uint32_t to = k;
        for (; to > 0 && c->findings.data[to - 1].severity < f.severity; to--) {
            c->findings.data[to] = c->findings.data[to - 1];
        }
        c->findings.data[to] = f;
    }
}

// ---- running -------------------------------------------------------------------------------------

ns_data_check* nsi_check_create(const ns_model* model, const ns_allocator* allocator) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    ns_data_check* c = nsi_alloc_zeroed(&memory, sizeof *c);
    if (c) *c = (ns_data_check){.allocator = memory, .arena.allocator = memory, .model = model};
    return c;
}

static bool take_recordings(ns_data_check* c, const ns_dataset* const* sets,
                            const char* const* names, uint32_t nset) {
    uint32_t count = 0, at = 0;
    for (uint32_t s = 0; s < nset; s++) count += ns_dataset_recording_count(sets[s]);
    c->recordings = nsi_arena_alloc(&c->arena, ((size_t)count + 1) * sizeof *c->recordings);
    if (!c->recordings) return false;
    for (uint32_t s = 0; s < nset; s++) {
        const char* name = nsi_check_keep(c, names[s]);
        uint32_t number = 0;
        while (strcmp(names[number], names[s]) != 0) number++;
        for (uint32_t k = 0; k < ns_dataset_recording_count(sets[s]); k++) {
            const ns_recording* r = ns_dataset_recording(sets[s], k);
            c->recordings[at++] =
                (nsi_checked_recording){.recording = r,
                                        .data = sets[s],
                                        .rows = nsi_dataset_rows(sets[s], k),
                                        .counted = !c->has_time,
                                        .set = number,
                                        .stats = {.name = r->name, .file = r->file, .set = name}};
        }
    }
    c->nrecording = count;
    c->nset = nset;
    return true;
}

ns_status nsi_check_run(ns_data_check* c, const ns_dataset* const* sets, const char* const* names,
                        uint32_t nset, ns_error* error) {
    c->map = nsi_dataset_map(sets[0]);
    // A table without a time has rows that were counted.
    const nsi_map_source* source = c->map->sources.count > 0 ? &c->map->sources.data[0] : NULL;
    c->has_time = !(c->map->inferred && source && !source->time.formula && !source->time.each);
    if (!take_recordings(c, sets, names, nset) || !nsi_signals_create(c))
        return nsi_fail_nomem(error);
    if (!c->file) c->file = c->nrecording > 0 ? c->recordings[0].stats.file : "";
    nsi_statistics_fill(c);
    for (size_t k = 0; k < sizeof checks / sizeof *checks && c->nrecording > 0; k++)
        checks[k].run(c);
    nsi_check_sort(c);
    nsi_free(&c->allocator, c->scratch);
    c->scratch = NULL;
    return c->failed ? nsi_fail_nomem(error) : NS_OK;
}

static bool same_channels(const ns_dataset* a, const ns_dataset* b) {
    uint32_t n = ns_dataset_channel_count(a), m = ns_dataset_control_count(a);
    if (n != ns_dataset_channel_count(b) || m != ns_dataset_control_count(b)) return false;
    for (uint32_t k = 0; k < n; k++) {
        if (strcmp(ns_dataset_channel(a, k)->name, ns_dataset_channel(b, k)->name) != 0)
            return false;
    }
    for (uint32_t k = 0; k < m; k++) {
        if (strcmp(ns_dataset_control(a, k), ns_dataset_control(b, k)) != 0) return false;
    }
    return true;
}

ns_status ns_data_check_sets(const ns_dataset* const* sets, const char* const* names, uint32_t nset,
                             const ns_model* model, const ns_allocator* allocator,
                             ns_data_check** out, ns_error* error) {
    *out = NULL;
    for (uint32_t k = 1; k < nset; k++) {
        if (same_channels(sets[0], sets[k])) continue;
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "ns_data_check_sets: the channels of the sets differ");
    }
    if (nset == 0) return nsi_fail(error, NS_ERR_ARGUMENT, "ns_data_check_sets: there are no sets");
    ns_data_check* c = nsi_check_create(model, allocator);
    if (!c) return nsi_fail_nomem(error);
    ns_status status = nsi_check_run(c, sets, names, nset, error);
    if (status == NS_OK) {
        *out = c;
    } else {
        ns_data_check_free(c);
    }
    return status;
}

// ---- freeing -------------------------------------------------------------------------------------

void ns_data_check_free(ns_data_check* c) {
    while (c) {
        ns_data_check* next = c->next;
        ns_allocator memory = c->allocator;
        ns_dataset_free(c->own_data);
        ns_data_map_free(c->own_map);
        nsi_free(&memory, c->scratch);
        nsi_array_free(&memory, &c->findings);
        nsi_arena_free(&c->arena);
        nsi_free(&memory, c);
        c = next;
    }
}

// ---- reading -------------------------------------------------------------------------------------

uint32_t ns_data_check_finding_count(const ns_data_check* c) {
    return c->findings.count;
}
const ns_data_finding* ns_data_check_finding(const ns_data_check* c, uint32_t number) {
    return number < c->findings.count ? &c->findings.data[number] : NULL;
}
uint32_t ns_data_check_count(const ns_data_check* c, ns_data_severity severity) {
    uint32_t count = 0;
    while (count < c->findings.count && c->findings.data[count].severity >= severity) count++;
    return count;
}
// The check that has this channel or recording; `number` becomes its own. NULL: there is none.
static const ns_data_check* check_of_channel(const ns_data_check* c, uint32_t* number) {
    for (; c && *number >= c->nsignal; c = c->next) *number -= c->nsignal;
    return c;
}
static const ns_data_check* check_of_recording(const ns_data_check* c, uint32_t* number) {
    for (; c && *number >= c->nrecording; c = c->next) *number -= c->nrecording;
    return c;
}

uint32_t ns_data_check_channel_count(const ns_data_check* c) {
    uint32_t count = 0;
    for (; c; c = c->next) count += c->nsignal;
    return count;
}
const ns_data_channel* ns_data_check_channel(const ns_data_check* c, uint32_t number) {
    c = check_of_channel(c, &number);
    return c ? &c->signals[number].stats : NULL;
}
uint32_t ns_data_check_recording_count(const ns_data_check* c) {
    uint32_t count = 0;
    for (; c; c = c->next) count += c->nrecording;
    return count;
}
const ns_data_recording* ns_data_check_recording(const ns_data_check* c, uint32_t number) {
    c = check_of_recording(c, &number);
    return c ? &c->recordings[number].stats : NULL;
}
uint32_t ns_data_check_rows(const ns_data_check* c, uint32_t recording, uint32_t channel,
                            const double** times, const double** values) {
    const ns_data_check* owner = check_of_recording(c, &recording);
    *times = *values = NULL;
    if (!owner || check_of_channel(c, &channel) != owner) return 0;
    const nsi_samples* s = &owner->recordings[recording].samples[channel];
    *times = s->times;
    *values = s->x;
    return s->count;
}
