// The inverse of a matrix: it multiplies to the identity, is the same on any machine and with AVX2, and
// what is not positive definite is told.

#include "expr/kernels.h"
#include "neuralsim/random.h"
#include "quadruped/dense_kernels.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

enum { MOST = 121 };
static double A[MOST * MOST], copy[MOST * MOST], other[MOST * MOST], work[3 * MOST];

static quad_inverse_kernel* best(void) {
#ifdef QUAD_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return quad_inverse_avx2;
#endif
    return quad_inverse_generic;
}

// B'B plus a diagonal, whose upper triangle must not be read.
static void make(uint32_t n, uint32_t rank, double least, ns_rng* rng) {
    for (uint32_t k = 0; k < n * n; k++) other[k] = ns_rng_normal(rng);
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j < n; j++) {
            double sum = i == j ? least : 0.0;
            for (uint32_t k = 0; k < rank; k++) sum += other[k * n + i] * other[k * n + j];
            copy[i * n + j] = sum;
            A[i * n + j] = j <= i ? sum : NAN;
        }
    }
}

static void it_multiplies_to_the_identity(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    residual r = {.name = "A A^-1", .tolerance = 1e-9};
    for (uint32_t n = 1; n <= MOST; n = n < 8 ? n + 1 : n * 3 / 2) {
        make(n, n, 0.1, &rng);
        assert_true(quad_inverse_generic(n, A, 1e-13, work));
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < n; j++) {
                double sum = 0.0;
                for (uint32_t k = 0; k < n; k++) sum += copy[i * n + k] * A[k * n + j];
                residual_add(&r, sum, i == j ? 1.0 : 0.0, 1.0);
                assert_true(A[i * n + j] == A[j * n + i]);
            }
        }
    }
    residual_check(&r);
}

static void every_machine_has_the_same_bits(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(2);
    for (uint32_t n = 1; n <= 70; n++) {
        make(n, n, 0.01, &rng);
        memcpy(other, A, sizeof A);
        assert_true(quad_inverse_generic(n, A, 1e-13, work));
        assert_true(best()(n, other, 1e-13, work));
        assert_memory_equal(A, other, n * n * sizeof *A);
    }
}

static void what_is_not_positive_is_told(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(3);
    for (uint32_t n = 2; n < 30; n++) {
        make(n, n - 1, 0.0, &rng);
        assert_false(best()(n, A, 1e-11, work));
        make(n, n, 0.1, &rng);
        A[(n - 1) * n + n / 2] = NAN;
        assert_false(best()(n, A, 0.0, work));
    }
    double zero = 0.0, negative = -1.0;
    assert_false(best()(1, &zero, 0.0, work));
    assert_false(best()(1, &negative, 0.0, work));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_multiplies_to_the_identity),
        cmocka_unit_test(every_machine_has_the_same_bits),
        cmocka_unit_test(what_is_not_positive_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
