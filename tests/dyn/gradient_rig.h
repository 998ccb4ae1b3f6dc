// Are the gradients of a system right? For tests that trace a force of their own.

#ifndef TEST_GRADIENT_RIG_H
#define TEST_GRADIENT_RIG_H

#include "neuralsim/gradcheck.h"
#include "support/assert.h"

#include <stdio.h>

// Reverse mode against forward mode and differences, for states, controls and parameters, from `count`
// random states. Each parameter that fits one of `acting` must have an effect in one of them.
static inline void gradients_agree(const ns_model* model, ns_system_options options,
                                   const char* free_params, const char* const* acting,
                                   uint32_t count) {
    ns_system* system = NULL;
    ns_error error;
    options.free_params = &free_params;
    options.nfree = 1;
    options.contact = NS_CONTACT_NONE;
    must(ns_system_create(model, &options, &system, &error), &error);
    uint32_t np = ns_system_get_sizes(system).np;
    uint32_t seen[200] = {0}, judged = 0, all = 0;
    assert_true(np <= 200);
    for (uint32_t seed = 1; seed <= count; seed++) {
        ns_gradcheck_options check = ns_default_gradcheck_options();
        ns_gradcheck_result* result = NULL;
        check.seed = seed;
        must(ns_gradcheck(system, &check, &result, &error), &error);
        uint32_t p = 0;
        for (uint32_t k = 0; k < result->ninput; k++) {
            const ns_gradcheck_input* in = &result->inputs[k];
            if (in->verdict == NS_GRADCHECK_FAIL) {
                fail_msg("%s: reverse %.12g, forward %.12g, differences %.12g: %s", in->name,
                         in->reverse, in->forward, in->difference, in->reason);
            }
            judged += in->verdict == NS_GRADCHECK_OK || in->verdict == NS_GRADCHECK_ZERO;
            all++;
            if (in->kind == NS_GRADCHECK_PARAMETER) seen[p++] += in->verdict == NS_GRADCHECK_OK;
        }
        ns_gradcheck_free(result);
    }
    assert_true(judged * 10 >= all * 9); // the others are at a kink
    for (uint32_t k = 0; k < np; k++) {
        const char* name = ns_system_param_name(system, k);
        for (uint32_t i = 0; acting[i]; i++) {
            if (seen[k] == 0 && ns_glob_match(acting[i], name)) fail_msg("%s has no effect", name);
        }
    }
    ns_system_free(system);
}

#endif
