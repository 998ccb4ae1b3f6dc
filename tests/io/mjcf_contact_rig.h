// Pairs of a model by their names.

#ifndef TEST_MJCF_CONTACT_RIG_H
#define TEST_MJCF_CONTACT_RIG_H

#include "io/mjcf_rig.h"
#include "model/model_data.h"
#include "support/assert.h"

#include <stdio.h>

static inline void expect_pairs(const ns_model* model, const char* names) {
    char all[400] = "";
    for (uint32_t i = 0; i < ns_model_get_sizes(model).ncontact; i++) {
        size_t length = strlen(all);
        snprintf(all + length, sizeof all - length, "%s%s", i > 0 ? " " : "",
                 ns_model_contact(model, i)->name);
    }
    assert_string_equal(all, names);
}

#endif
