// The record itself: made, freed.

#include "fit/result.h"

void nsi_result_init(const ns_allocator* allocator, nsi_result* out) {
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    *out = (nsi_result){.allocator = memory, .arena = {.allocator = memory}};
}

static void free_score(const ns_allocator* memory, nsi_score* score) {
    nsi_free(memory, score->horizons);
    nsi_free(memory, score->measures);
}

void nsi_result_free(nsi_result* answer) {
    ns_allocator memory = answer->allocator;
    nsi_array_free(&memory, &answer->estimates);
    nsi_array_free(&memory, &answer->coefficients);
    nsi_free(&memory, answer->correlation);
    for (uint32_t k = 0; k < answer->directions.count; k++) {
        nsi_free(&memory, answer->directions.data[k].change);
    }
    nsi_array_free(&memory, &answer->directions);
    for (int role = 0; role < NSI_ROLES; role++) {
        free_score(&memory, &answer->before[role]);
        free_score(&memory, &answer->after[role]);
    }
    nsi_array_free(&memory, &answer->phases);
    nsi_array_free(&memory, &answer->history);
    nsi_array_free(&memory, &answer->path);
    nsi_array_free(&memory, &answer->path_names);
    nsi_array_free(&memory, &answer->notes);
    nsi_arena_free(&answer->arena);
    nsi_result_init(&memory, answer);
}
