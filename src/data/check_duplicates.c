// Recordings that are there twice: the same numbers, or overlapping parts of the same file.

#include "data/check_state.h"

#include <math.h>
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

static void find_twice(ns_data_check* c, const fingerprint* a, const fingerprint* b, double share) {
    const nsi_checked_recording *first = a->recording, *second = b->recording;
    const char *set = first->stats.set, *other = second->stats.set;
    bool same_set = strcmp(set, other) == 0;
    nsi_places places = {.kept = 1, .count = 1, .recordings = 1};
    places.data[0] = (ns_data_place){second->stats.name, second->stats.file,
                                     second->recording->line, second->stats.start};
    if (same_set) {
        nsi_find(c, NS_DATA_DUPLICATE, NS_DATA_WARNING, NULL, &places, share,
                 "remove one: its numbers would count twice",
                 "%.3g %% of its samples are those of %s", 100.0 * share, first->stats.file);
    } else {
        nsi_find(c, NS_DATA_TRAIN_IS_TEST, NS_DATA_WARNING, NULL, &places, share,
                 "use other recordings, or other parts of them",
                 "%.3g %% of this %s data is %s data, too (%s)", 100.0 * share, other, set,
                 first->stats.file);
    }
}

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

    // Parts of the same recording.
    qsort(all, c->nrecording, sizeof *all, by_name);
    for (uint32_t k = 1; k < c->nrecording; k++) {
        uint32_t first = k > MAX_PARTS ? k - MAX_PARTS : 0;
        for (uint32_t i = first; i < k; i++) {
            double share = overlap(all[i].recording, all[k].recording);
            if (share > 0.0) find_twice(c, &all[i], &all[k], share);
        }
    }

    // The same numbers under another name.
    qsort(all, c->nrecording, sizeof *all, by_hash);
    for (uint32_t k = 1; k < c->nrecording; k++) {
        const fingerprint *a = &all[k - 1], *b = &all[k];
        bool one_file = same_recording(a->recording, b->recording);
        if (a->hash == b->hash && !one_file && same_numbers(c, a, b)) find_twice(c, a, b, 1.0);
    }
    nsi_free(&c->allocator, all);
}
