// Recordings that are there twice: the same numbers, or overlapping parts of the same file.

#include "data/check_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_PARTS = 64 }; // of a recording that are compared with each other

typedef struct fingerprint {
    const nsi_checked_recording* recording;
    uint32_t number;
    uint64_t hash; // of all numbers
} fingerprint;

// FNV-1a, Fowler, Noll & Vo.
static uint64_t hash_bytes(uint64_t hash, const void* bytes, size_t size) {
    const unsigned char* at = bytes;
    for (size_t k = 0; k < size; k++) hash = (hash ^ at[k]) * UINT64_C(1099511628211);
    return hash;
}

static fingerprint fingerprint_of(const ns_data_check* c, uint32_t number) {
    const nsi_checked_recording* r = &c->recordings[number];
    fingerprint f = {r, number, UINT64_C(14695981039346656037)};
    for (uint32_t k = 0; k < c->nsignal; k++) {
        f.hash = hash_bytes(f.hash, r->samples[k].x, r->samples[k].count * sizeof(double));
    }
    return f;
}

static bool same_numbers(const ns_data_check* c, const fingerprint* a, const fingerprint* b) {
    uint32_t most = 0;
    for (uint32_t k = 0; k < c->nsignal; k++) {
        const nsi_samples *x = &a->recording->samples[k], *y = &b->recording->samples[k];
        if (x->count != y->count || memcmp(x->x, y->x, x->count * sizeof(double)) != 0)
            return false;
        if (x->count > most) most = x->count;
    }
    return most > 0;
}

static bool same_recording(const nsi_checked_recording* a, const nsi_checked_recording* b) {
    return strcmp(a->stats.file, b->stats.file) == 0 && strcmp(a->stats.name, b->stats.name) == 0;
}

// Share of the samples of b that a has, when both are of the same recording of the same file.
static double overlap(const nsi_checked_recording* a, const nsi_checked_recording* b) {
    if (!same_recording(a, b)) return 0.0;
    const ns_recording *x = a->recording, *y = b->recording;
    double period = ns_dataset_period(a->data);
    double from = fmax(x->start, y->start);
    double to = fmin(x->start + (x->nsample - 1) * period, y->start + (y->nsample - 1) * period);
    double samples = floor((to - from) / period + 1.0 + 1e-6);
    return samples > 0.0 ? samples / y->nsample : 0.0;
}

// ---- findings ------------------------------------------------------------------------------------

enum { LABEL_SIZE = 200, MAX_NAMED = 6, LIST_SIZE = 360, MORE_SIZE = 24 };

// "logs/run.csv:3": the recording with the folder of its file, which other folders may have, too.
static const char* label_of(const nsi_checked_recording* r, char label[LABEL_SIZE]) {
    const char* slash = strrchr(r->stats.file, '/');
    int folder = slash ? (int)(slash - r->stats.file + 1) : 0;
    snprintf(label, LABEL_SIZE, "%.*s%.90s", folder < 100 ? folder : 100, r->stats.file,
             r->stats.name);
    return label;
}

// Recordings of a finding: their names in the message, and their places.
typedef struct recording_list {
    char text[LIST_SIZE];
    uint32_t named, count;
    nsi_places places;
} recording_list;

static void list_recording(recording_list* list, const nsi_checked_recording* r,
                           const char* label) {
    size_t used = strlen(list->text);
    nsi_places* places = &list->places;
    bool fits = used + strlen(label) + MORE_SIZE < LIST_SIZE;
    if (list->named == list->count && list->named < MAX_NAMED && fits) {
        snprintf(list->text + used, LIST_SIZE - used, "%s%s", used > 0 ? ", " : "", label);
        list->named++;
    }
    if (places->kept < NSI_MAX_PLACES) {
        places->data[places->kept++] =
            (ns_data_place){r->stats.name, r->stats.file, r->recording->line, r->stats.start};
    }
    list->count++;
}

static const char* list_text(recording_list* list) {
    size_t used = strlen(list->text);
    if (list->count > list->named) {
        snprintf(list->text + used, LIST_SIZE - used, " and %u more", list->count - list->named);
    }
    return list->text;
}

// ---- parts of the same recording -----------------------------------------------------------------

// Pairs of parts that share samples, of one file and two sets.
typedef struct shared_parts {
    const nsi_checked_recording *first, *second; // of the pair that shares most
    double share;
    recording_list later; // the second of each pair, each of them once
} shared_parts;

static void add_pair(shared_parts* p, const nsi_checked_recording* a,
                     const nsi_checked_recording* b, double share, bool listed) {
    if (!listed) list_recording(&p->later, b, b->stats.name);
    if (!(share > p->share)) return;
    p->share = share;
    p->first = a;
    p->second = b;
}

static void find_shared(ns_data_check* c, shared_parts* p) {
    if (!p->first || !p->second) return;
    char label[LABEL_SIZE], many[LIST_SIZE + 40] = "";
    p->later.places.count = p->later.places.recordings = p->later.count;
    const char *set = p->first->stats.set, *other = p->second->stats.set;
    if (p->later.count > 1) {
        snprintf(many, sizeof many, " (%u recordings: %.*s)", p->later.count, LIST_SIZE,
                 list_text(&p->later));
    }
    const char* most = p->later.count > 1 ? "up to " : "";
    label_of(p->first, label);
    if (p->first->set == p->second->set) {
        nsi_find(c, NS_DATA_DUPLICATE, NS_DATA_WARNING, NULL, &p->later.places, p->share,
                 "remove one: its numbers would count twice",
                 "%s%.3g %% of its samples are in another part of %s, too%s", most,
                 100.0 * p->share, label, many);
    } else {
        nsi_find(c, NS_DATA_TRAIN_IS_TEST, NS_DATA_WARNING, NULL, &p->later.places, p->share,
                 "use other recordings, or other parts of them",
                 "%s%.3g %% of this %s data is %s data, too: %s%s", most, 100.0 * p->share, other,
                 set, label, many);
    }
}

// All pairs of one file, all[first..end), of these two sets or within one: a finding.
static void check_file(ns_data_check* c, const fingerprint* all, uint32_t first, uint32_t end,
                       uint32_t set, uint32_t other) {
    shared_parts shared = {0};
    for (uint32_t k = first; k < end; k++) {
        const nsi_checked_recording* b = all[k].recording;
        bool listed = false;
        if (b->set != other) continue;
        for (uint32_t i = k > first + MAX_PARTS ? k - MAX_PARTS : first; i < k; i++) {
            const nsi_checked_recording* a = all[i].recording;
            double share = a->set == set ? overlap(a, b) : 0.0;
            if (!(share > 0.0)) continue;
            add_pair(&shared, a, b, share, listed);
            listed = true;
        }
    }
    find_shared(c, &shared);
}

// ---- the same numbers ----------------------------------------------------------------------------

// Is there another part of this recording in the set among the first ones of the group? Parts share samples
// and have a finding of their own.
static bool has_part(const fingerprint* group, uint32_t count, uint32_t set,
                     const nsi_checked_recording* r) {
    for (uint32_t k = 0; k < count; k++) {
        const nsi_checked_recording* other = group[k].recording;
        if (other->set == set && same_recording(other, r)) return true;
    }
    return false;
}

// Equal recordings within a set.
static void check_copies(ns_data_check* c, const fingerprint* group, uint32_t count, uint32_t set) {
    recording_list list = {0};
    char label[LABEL_SIZE];
    for (uint32_t k = 0; k < count; k++) {
        const nsi_checked_recording* r = group[k].recording;
        if (r->set != set || has_part(group, k, set, r)) continue;
        list_recording(&list, r, label_of(r, label));
    }
    if (list.count < 2) return;
    list.places.count = list.places.recordings = list.count;
    nsi_find(c, NS_DATA_DUPLICATE, NS_DATA_WARNING, NULL, &list.places, 1.0,
             "keep one of them: its numbers would count more than once",
             "%u recordings have the same numbers: %s", list.count, list_text(&list));
}

// Recordings of a set that have the numbers of an earlier one under another name.
static void check_sets(ns_data_check* c, const fingerprint* group, uint32_t count, uint32_t set,
                       uint32_t other) {
    recording_list list = {0};
    const nsi_checked_recording *first = NULL, *copy = NULL;
    char label[LABEL_SIZE];
    for (uint32_t k = 0; k < count; k++) {
        const nsi_checked_recording* r = group[k].recording;
        if (r->set == set && !first) first = r;
        if (r->set != other || has_part(group, k, other, r)) continue;
        if (has_part(group, count, set, r)) continue;
        list_recording(&list, r, label_of(r, label));
        copy = r;
    }
    if (!first || !copy) return;
    list.places.count = list.places.recordings = list.count;
    nsi_find(c, NS_DATA_TRAIN_IS_TEST, NS_DATA_WARNING, NULL, &list.places, 1.0,
             "use other recordings, or other parts of them",
             "this %s data has the same numbers as %s of the %s data: %s", copy->stats.set,
             label_of(first, label), first->stats.set, list_text(&list));
}

// ---- order ---------------------------------------------------------------------------------------

static int by_hash(const void* a, const void* b) {
    const fingerprint *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    return (x->number > y->number) - (x->number < y->number);
}

static int by_name(const void* a, const void* b) {
    const fingerprint *x = a, *y = b;
    int order = strcmp(x->recording->stats.file, y->recording->stats.file);
    if (order == 0) order = strcmp(x->recording->stats.name, y->recording->stats.name);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

void nsi_check_duplicates(ns_data_check* c) {
    fingerprint* all = nsi_alloc(&c->allocator, (c->nrecording + 1) * sizeof *all);
    if (!all) {
        c->failed = true;
        return;
    }
    for (uint32_t k = 0; k < c->nrecording; k++) all[k] = fingerprint_of(c, k);

    // Parts of the same recording, by files.
    qsort(all, c->nrecording, sizeof *all, by_name);
    for (uint32_t first = 0, end; first < c->nrecording; first = end) {
        const char* file = all[first].recording->stats.file;
        for (end = first + 1; end < c->nrecording; end++) {
            if (strcmp(all[end].recording->stats.file, file) != 0) break;
        }
        for (uint32_t set = 0; set < c->nset; set++) {
            for (uint32_t k = set; k < c->nset; k++) check_file(c, all, first, end, set, k);
        }
    }

    // The same numbers under another name, by groups of equal recordings.
    qsort(all, c->nrecording, sizeof *all, by_hash);
    for (uint32_t first = 0, end; first < c->nrecording; first = end) {
        for (end = first + 1; end < c->nrecording && all[end].hash == all[first].hash; end++) {
            if (!same_numbers(c, &all[first], &all[end])) break;
        }
        uint32_t count = end - first;
        for (uint32_t set = 0; set < c->nset && count > 1; set++) {
            check_copies(c, &all[first], count, set);
            for (uint32_t k = set + 1; k < c->nset; k++) {
                check_sets(c, &all[first], count, set, k);
            }
        }
    }
    nsi_free(&c->allocator, all);
}
