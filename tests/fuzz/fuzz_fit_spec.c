// Any bytes as a fit file. What is read must keep to its ranges; what is not must say where it
// fails, and must leave no memory behind.

#include "fit/spec.h"

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

static void check(nsi_fit_spec* p) {
    REQUIRE((p->model != NULL) == (p->variants.count == 0)); // one of the two
    REQUIRE(p->title && p->citation && p->stages.count > 0);
    REQUIRE(p->files[NS_ROLE_TRAIN].count > 0);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        for (uint32_t k = 0; k < p->files[role].count; k++) {
            const ns_data_part* part = &p->files[role].data[k].part;
            REQUIRE(p->files[role].data[k].path);
            REQUIRE(part->from >= 0.0 && (part->to == 0.0 || part->to > part->from));
            REQUIRE(!part->fractions || (part->from <= 1.0 && part->to <= 1.0));
        }
    }
    for (uint32_t k = 0; k < p->stages.count; k++) {
        const nsi_stage* s = &p->stages.data[k];
        REQUIRE(s->solver != NULL && s->windows.initial_state <= NS_INITIAL_STATE_TIED);
        REQUIRE(s->windows.smoothing > 0 && s->tolerance >= 0.0 && s->learning_rate > 0.0);
        REQUIRE(s->windows.robust == NS_ROBUST_NONE || s->windows.robust_width > 0.0);
    }
    for (uint32_t k = 0; k < p->parameters.count; k++) {
        REQUIRE(p->parameters.data[k].line > 0 && !isinf(p->parameters.data[k].how.initial));
    }
    double before = 0.0;
    for (uint32_t k = 0; k < p->horizons.count; k++) {
        REQUIRE(p->horizons.data[k] > before);
        before = p->horizons.data[k];
    }
    REQUIRE(p->search.population > 0);
    REQUIRE(!p->model || nsi_fit_spec_path(p, p->model));
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    nsi_fit_spec* spec;
    ns_error error = {0};
    ns_status status =
        nsi_fit_spec_parse((const char*)data, size, "/f/fuzz.yaml", NULL, &spec, &error);
    REQUIRE(status == error.status); // an error has its message, and only an error
    REQUIRE((status == NS_OK) == (spec != NULL));
    REQUIRE(status == NS_OK || strncmp(error.message, "/f/fuzz.yaml:", 13) == 0);
    if (spec) check(spec);
    nsi_fit_spec_free(spec);
    return 0;
}
