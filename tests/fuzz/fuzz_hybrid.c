// Any bytes as a hybrid model file. What is read must come back the same after writing; what is not
// must say where it fails, and must leave no memory behind.

#include "io/hybrid_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);          \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static bool parse(const char* text, size_t size, nsi_hybrid* out) {
    ns_error error = {0};
    ns_status status = nsi_hybrid_parse(text, size, "/f/fuzz.yaml", NULL, out, &error);
    REQUIRE(status == error.status); // an error has its message, and only an error
    REQUIRE(status == NS_OK || strncmp(error.message, "/f/fuzz.yaml:", 13) == 0);
    return status == NS_OK;
}

static void check_same(const nsi_hybrid* a, const nsi_hybrid* b) {
    REQUIRE(a->contact == b->contact && a->timestep == b->timestep && a->ground == b->ground &&
            a->self_collision == b->self_collision && a->floating_base == b->floating_base);
    REQUIRE(!a->blueprint == !b->blueprint && !a->weights == !b->weights);
    REQUIRE(a->parameters.count == b->parameters.count);
    for (uint32_t k = 0; k < a->parameters.count; k++) {
        const nsi_hybrid_parameter *p = &a->parameters.data[k], *q = &b->parameters.data[k];
        REQUIRE(strcmp(p->pattern, q->pattern) == 0);
        REQUIRE(memcmp(&p->value, &q->value, sizeof p->value) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    nsi_hybrid hybrid, back;
    if (!parse((const char*)data, size, &hybrid)) return 0;
    ns_text text, again;
    REQUIRE(nsi_hybrid_print(&hybrid, "/f/fuzz.yaml", NULL, &text, NULL) == NS_OK);
    REQUIRE(parse(text.data, text.size, &back));
    check_same(&hybrid, &back);
    REQUIRE(nsi_hybrid_print(&back, "/f/fuzz.yaml", NULL, &again, NULL) == NS_OK);
    REQUIRE(text.size == again.size && memcmp(text.data, again.data, text.size) == 0);
    ns_text_free(&text);
    ns_text_free(&again);
    nsi_hybrid_free(&back);
    nsi_hybrid_free(&hybrid);
    return 0;
}
