// Policies: what is run in single precision, exported as C, and written to files and read again is the
// network that its weights and scales say.

#define _POSIX_C_SOURCE 200809L

#include "expr/kernels.h"
#include "neuralsim/random.h"
#include "quadruped/policy.h"
#include "quadruped/policy_rig.h"
#include "support/assert.h"
#include "support/ccode.h"
#include "support/residual.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void draw(ns_rng* rng, double* features) {
    for (int k = 0; k < FEATURES; k++) features[k] = ns_rng_normal(rng);
}

// The definition, in double precision.
static void compute(const quad_policy* p, const double* features, double* torques) {
    double x[200], y[200];
    for (int k = 0; k < FEATURES; k++) x[k] = (features[k] - p->mean[k]) * p->scale[k];
    const double* w = p->weights;
    for (uint32_t layer = 0; layer < p->nlayer; layer++) {
        const uint32_t nin = p->sizes[layer], nout = p->sizes[layer + 1];
        for (uint32_t i = 0; i < nout; i++) {
            y[i] = w[nin * nout + i];
            for (uint32_t j = 0; j < nin; j++) y[i] += x[j] * w[j * nout + i];
            if (layer + 1 < p->nlayer && y[i] < 0.0) y[i] = expm1(y[i]);
        }
        memcpy(x, y, nout * sizeof *y);
        w += (nin + 1) * nout;
    }
    for (int k = 0; k < JOINTS; k++) torques[k] = x[k] * p->torque[k];
}

static void decisions_are_those_of_the_network(void** state) {
    (void)state;
    residual r = {.name = "single precision", .tolerance = 1e-5};
    ns_rng rng = ns_rng_seed(1);
    for (uint32_t nhidden = 1; nhidden <= 3; nhidden++) {
        quad_policy* p = make(nhidden, nhidden);
        for (int repeat = 0; repeat < 100; repeat++) {
            double features[FEATURES], got[JOINTS], want[JOINTS];
            draw(&rng, features);
            assert_true(quad_policy_decide(p, features, got));
            compute(p, features, want);
            residual_array(&r, got, want, JOINTS, 1.0);
        }
        quad_policy_free(p);
    }
    residual_check(&r);
}

// A network that gives no number says so.
static void what_is_not_finite_is_refused(void** state) {
    (void)state;
    quad_policy* p = make(1, 2);
    double features[FEATURES] = {0}, torques[JOINTS];
    features[3] = (double)NAN;
    assert_false(quad_policy_decide(p, features, torques));
    quad_policy_free(p);
}

// ---- files -----------------------------------------------------------------------------------

static void files_are_read_as_they_were_written(void** state) {
    (void)state;
    quad_policy *p = make(3, 2), *q = NULL, *copy = NULL;
    const char* path = tempdir_path("weights.safetensors");
    assert_int_equal(quad_policy_save(p, path, NULL), NS_OK);
    assert_int_equal(quad_policy_load(path, NULL, &q, NULL), NS_OK);
    assert_int_equal(quad_policy_copy(p, &copy, NULL), NS_OK);
    assert_int_equal(q->nweight, p->nweight);
    assert_memory_equal(q->sizes, p->sizes, sizeof p->sizes);
    assert_memory_equal(q->single, p->single, p->nweight * sizeof *p->single);
    assert_memory_equal(copy->single, p->single, p->nweight * sizeof *p->single);
    unlink(path);
    quad_policy_free(p);
    quad_policy_free(q);
    quad_policy_free(copy);
}

static void other_files_are_refused(void** state) {
    (void)state;
    quad_policy* p = NULL;
    ns_error error;
    const char* path = tempdir_path("other.json");
    const char* const texts[] = {"{\"policy/w0\": [[1, 2], [3, 4]]}",
                                 "{\"policy/w0\": [[1, 2]], \"policy/w1\": [[1, 2]]}",
                                 "{\"drag/w0\": [[1, 2]], \"drag/w1\": [[1, 2]]}"};
    for (int k = 0; k < 3; k++) {
        FILE* file = fopen(path, "w");
        assert_non_null(file);
        fputs(texts[k], file);
        fclose(file);
        assert_int_equal(quad_policy_load(path, NULL, &p, &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "policy/w0"));
        assert_null(p);
    }
    unlink(path);
    assert_int_equal(quad_policy_load(path, NULL, &p, &error), NS_ERR_IO);
    assert_int_equal(quad_policy_create((uint32_t[]){0}, 1, 1, NULL, &p, &error), NS_ERR_ARGUMENT);
    assert_int_equal(quad_policy_create((uint32_t[]){1000}, 1, 1, NULL, &p, &error),
                     NS_ERR_ARGUMENT);
    assert_int_equal(quad_policy_create(NULL, 0, 1, NULL, &p, &error), NS_ERR_ARGUMENT);
}

// The C file, compiled by itself.
static void exported_c_is_the_network(void** state) {
    (void)state;
    const char* compiler = ccode_compiler(0);
    if (!compiler) skip();
    quad_policy* p = make(4, 2);
    ns_text text = {0};
    char command[10000];
    assert_int_equal(quad_policy_emit_c(p, "walk_policy", &text, NULL), NS_OK);
    const char* source = tempdir_write_bytes("policy.c", text.data, text.size);
    const char* library = tempdir_path("policy.so");
    snprintf(
        command, sizeof command,
        "%s -std=c17 -O1 -Wall -Wextra -Werror -ffp-contract=off -fPIC -shared -o '%s' '%s' -lm",
        compiler, library, source);
    assert_int_equal(system(command), 0);
    void* loaded = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(loaded);
    void (*function)(const double*, double*) = NULL;
    *(void**)&function = dlsym(loaded, "walk_policy");
    assert_non_null(function);
    residual r = {.name = "exported C", .tolerance = 1e-12};
    ns_rng rng = ns_rng_seed(3);
    for (int repeat = 0; repeat < 20; repeat++) {
        double features[FEATURES], got[JOINTS], want[JOINTS];
        draw(&rng, features);
        function(features, got);
        compute(p, features, want);
        residual_array(&r, got, want, JOINTS, 1.0);
    }
    residual_check(&r);
    dlclose(loaded);
    unlink(source);
    unlink(library);
    ns_text_free(&text);
    assert_int_equal(quad_policy_emit_c(p, "not a name", &text, NULL), NS_ERR_ARGUMENT);
    quad_policy_free(p);
}

static void memory_is_checked(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        quad_policy* p = NULL;
        ns_text text = {0};
        ns_status status = quad_policy_create((uint32_t[]){8, 8}, 2, 1, &allocator, &p, NULL);
        if (status == NS_OK) status = quad_policy_emit_c(p, "walk_policy", &text, NULL);
        bool last = counter.calls < n;
        assert_int_equal(status, last ? NS_OK : NS_ERR_NOMEM);
        ns_text_free(&text);
        quad_policy_free(p);
        assert_int_equal(counter.live_blocks, 0);
        if (last) break;
    }
    quad_policy_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_those_of_the_network),
        cmocka_unit_test(what_is_not_finite_is_refused),
        cmocka_unit_test(files_are_read_as_they_were_written),
        cmocka_unit_test(other_files_are_refused),
        cmocka_unit_test(exported_c_is_the_network),
        cmocka_unit_test(memory_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
