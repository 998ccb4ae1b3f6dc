// Any bytes as a file of tensors: after the first byte, which says in which form. What is read must
// be sound, and must come back the same after writing in either form; what is not must say why, and
// must leave no memory behind.

#include "neuralsim/random.h"
#include "neuralsim/tensors.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static const char* const names[] = {"fuzz.safetensors", "fuzz.json"};

static bool read_tensors(const void* bytes, size_t size, int json, ns_tensors* out) {
    ns_error error = {0};
    ns_status status = ns_tensors_parse(bytes, size, names[json], NULL, out, &error);
    REQUIRE(status == error.status); // an error has its message, and only an error
    REQUIRE(status == NS_OK || strncmp(error.message, names[json], strlen(names[json])) == 0);
    REQUIRE(status != NS_OK || out->count == 0 || out->data);
    return status == NS_OK;
}

static void check_numbers(const ns_tensors* tensors) {
    for (uint32_t k = 0; k < tensors->count; k++) {
        const ns_tensor* t = &tensors->data[k];
        REQUIRE(t->rows > 0 && t->columns > 0);
        for (uint32_t i = 0; i < t->rows * t->columns; i++) REQUIRE(isfinite(t->data[i]));
    }
}

static void check_same(const ns_tensors* a, const ns_tensors* b) {
    REQUIRE(a->count == b->count);
    for (uint32_t k = 0; k < a->count; k++) {
        const ns_tensor *s = &a->data[k], *t = &b->data[k];
        REQUIRE(strcmp(s->name, t->name) == 0 && s->rows == t->rows && s->columns == t->columns);
        REQUIRE(memcmp(s->data, t->data, (size_t)s->rows * s->columns * sizeof *s->data) == 0);
    }
}

static void check_round_trip(const ns_tensors* tensors, int json) {
    ns_text text;
    REQUIRE(ns_tensors_print(tensors->data, tensors->count, json ? NS_TENSORS_JSON : NS_TENSORS_F64,
                             NULL, &text, NULL) == NS_OK);
    ns_tensors back;
    REQUIRE(read_tensors(text.data, text.size, json, &back));
    check_same(tensors, &back);
    ns_tensors_free(&back);
    ns_text_free(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    ns_tensors tensors;
    if (!read_tensors(data + 1, size - 1, data[0] == 'j', &tensors)) return 0;
    check_numbers(&tensors);
    for (int json = 0; json < 2; json++) check_round_trip(&tensors, json);
    ns_tensors_free(&tensors);
    return 0;
}

// ---- mutation ------------------------------------------------------------------------------

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// A header of the wrong length is refused at once: change header and data apart, then write the
// length that it has.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
    ns_rng rng = ns_rng_seed(seed);
    uint64_t length = 0;
    for (int i = 0; i < 8 && size > 9; i++) length |= (uint64_t)data[1 + i] << (8 * i);
    bool json = size > 0 && data[0] == 'j';
    if (json || size <= 9 || length > size - 9 || ns_rng_below(&rng, 8) == 0) {
        return LLVMFuzzerMutate(data, size, max_size);
    }
    uint8_t *header = data + 9, *rest = header + length;
    size_t rest_size = size - 9 - (size_t)length;
    if (rest_size > 0 && ns_rng_below(&rng, 4) == 0) {
        return 9 + (size_t)length + LLVMFuzzerMutate(rest, rest_size, max_size - 9 - length);
    }
    uint8_t* copy = malloc(rest_size + 1);
    if (!copy) return size;
    memcpy(copy, rest, rest_size);
    size_t changed = LLVMFuzzerMutate(header, (size_t)length, max_size - 9 - rest_size);
    memcpy(header + changed, copy, rest_size);
    free(copy);
    for (int i = 0; i < 8; i++) data[1 + i] = (uint8_t)((uint64_t)changed >> (8 * i) & 0xFF);
    return 9 + changed + rest_size;
}
