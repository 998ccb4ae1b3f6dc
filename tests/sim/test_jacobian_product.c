// The product A S + B: exact on whole numbers, the same bits for any machine and for AVX2, and nothing
// that is not finite goes unseen.

#include "expr/kernels.h"
#include "sim/jacobian_product.h"
#include "support/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MOST = 11, COLUMNS = 700 };

typedef struct product {
    size_t nrow, nx, columns;
    double a[MOST * MOST], s[MOST * COLUMNS], b[MOST * COLUMNS], out[MOST * COLUMNS];
} product;

static double whole(ns_rng* rng) {
    return (double)ns_rng_below(rng, 201) - 100.0;
}

static void make_product(product* p, ns_rng* rng, bool integers) {
    p->nrow = 1 + ns_rng_below(rng, MOST);
    p->nx = 1 + ns_rng_below(rng, MOST);
    p->columns = 1 + ns_rng_below(rng, COLUMNS);
    for (size_t k = 0; k < p->nrow * p->nx; k++) {
        bool zero = ns_rng_below(rng, 3) == 0;
        p->a[k] = zero ? 0.0 : integers ? whole(rng) : ns_rng_normal(rng);
    }
    for (size_t k = 0; k < p->nx * p->columns; k++) {
        p->s[k] = integers ? whole(rng) : ns_rng_normal(rng);
    }
    for (size_t k = 0; k < p->nrow * p->columns; k++) {
        p->b[k] = integers ? whole(rng) : ns_rng_normal(rng);
    }
}

static bool multiply(product* p, nsi_jacobian_product_kernel* kernel) {
    nsi_jacobian_product_row rows[MOST];
    double values[MOST * MOST] = {0};
    const double* states[MOST * MOST] = {0};
    memcpy(p->out, p->b, p->nrow * p->columns * sizeof(double));
    for (size_t i = 0; i < p->nrow; i++) {
        nsi_jacobian_product_row* r = &rows[i];
        *r = (nsi_jacobian_product_row){p->out + i * p->columns, values + i * MOST,
                                        states + i * MOST, 0};
        for (size_t k = 0; k < p->nx; k++) {
            if (p->a[i * p->nx + k] == 0.0) continue;
            r->value[r->count] = p->a[i * p->nx + k];
            r->state[r->count++] = p->s + k * p->columns;
        }
    }
    return kernel(rows, p->nrow, p->nx, p->columns);
}

static nsi_jacobian_product_kernel* const kernels[] = {
    nsi_jacobian_product_generic,
#ifdef NSI_HAVE_AVX2_KERNELS
    nsi_jacobian_product_avx2,
#endif
};

static size_t kernel_count(void) {
    return nsi_cpu_has_avx2_fma() ? sizeof kernels / sizeof *kernels : 1;
}

static void whole_numbers_are_exact(void** state) {
    (void)state;
    static product p;
    ns_rng rng = ns_rng_seed(1);
    for (int n = 0; n < 200; n++) {
        make_product(&p, &rng, true);
        for (size_t c = 0; c < kernel_count(); c++) {
            assert_true(multiply(&p, kernels[c]));
            for (size_t i = 0; i < p.nrow; i++) {
                for (size_t j = 0; j < p.columns; j++) {
                    double sum = p.b[i * p.columns + j];
                    for (size_t k = 0; k < p.nx; k++) {
                        sum += p.a[i * p.nx + k] * p.s[k * p.columns + j];
                    }
                    assert_true(p.out[i * p.columns + j] == sum);
                }
            }
        }
    }
}

static void machines_agree_to_the_bit(void** state) {
    (void)state;
    static product p;
    static double first[MOST * COLUMNS];
    ns_rng rng = ns_rng_seed(2);
    if (kernel_count() < 2) skip();
    for (int n = 0; n < 200; n++) {
        make_product(&p, &rng, false);
        assert_true(multiply(&p, kernels[0]));
        memcpy(first, p.out, sizeof first);
        assert_true(multiply(&p, kernels[1]));
        for (size_t k = 0; k < p.nrow * p.columns; k++) {
            assert_true(check_same_bits(first[k], p.out[k]));
        }
    }
}

static void what_is_not_finite_is_seen(void** state) {
    (void)state;
    static const double bad[] = {INFINITY, -INFINITY, NAN};
    static product p;
    ns_rng rng = ns_rng_seed(3);
    for (int n = 0; n < 1000; n++) {
        make_product(&p, &rng, false);
        uint32_t at = ns_rng_below(&rng, (uint32_t)(p.nrow * p.columns));
        p.b[at] = bad[n % 3];
        for (size_t c = 0; c < kernel_count(); c++) assert_false(multiply(&p, kernels[c]));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_numbers_are_exact),
        cmocka_unit_test(machines_agree_to_the_bit),
        cmocka_unit_test(what_is_not_finite_is_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
