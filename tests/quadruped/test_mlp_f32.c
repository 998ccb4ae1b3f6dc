// Networks in single precision: the same bits on all machines, activations right everywhere.

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

#include <math.h>

// The exponential of ELU everywhere: one hidden unit, one input.
static void elu_is_right_everywhere(void** state) {
    (void)state;
    const uint32_t sizes[] = {1, 1, 1};
    const float weights[] = {1.0f, 0.0f, 1.0f, 0.0f};
    residual r = {.name = "ELU", .tolerance = 3e-7};
    for (int k = -12000; k <= 2000; k++) {
        float x = 0.01f * (float)k, y = 0.0f;
        quad_mlp_f32_generic(2, sizes, weights, &x, &y);
        residual_add(&r, (double)y, x < 0.0f ? expm1((double)x) : (double)x,
                     fmax(1.0, fabs((double)x)));
    }
    residual_check(&r);
}

static void all_machines_give_the_same_bits(void** state) {
    (void)state;
#ifdef QUAD_HAVE_AVX2_KERNELS
    if (!nsi_cpu_has_avx2_fma()) skip();
    ns_rng rng = ns_rng_seed(2);
    quad_policy* p = make(5, 3);
    for (int repeat = 0; repeat < 100; repeat++) {
        float x[FEATURES], a[JOINTS], b[JOINTS];
        for (int k = 0; k < FEATURES; k++) x[k] = (float)ns_rng_normal(&rng);
        quad_mlp_f32_generic(p->nlayer, p->sizes, p->single, x, a);
        quad_mlp_f32_avx2(p->nlayer, p->sizes, p->single, x, b);
        assert_memory_equal(a, b, sizeof a);
    }
    quad_policy_free(p);
#else
    skip();
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elu_is_right_everywhere),
        cmocka_unit_test(all_machines_give_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
