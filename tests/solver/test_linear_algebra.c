// Dense linear algebra against plain loops and against what factors must multiply to.

#include "solver/solvers.h"
#include "support/residual.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

static double* random_numbers(size_t count, uint64_t seed) {
    ns_rng rng = ns_rng_seed(seed);
    double* v = malloc((count + 1) * sizeof *v);
    assert_non_null(v);
    for (size_t i = 0; i < count; i++) v[i] = ns_rng_uniform(&rng, -1.0, 1.0);
    return v;
}

static double* copy(const double* v, size_t count) {
    double* c = malloc((count + 1) * sizeof *c);
    assert_non_null(c);
    memcpy(c, v, count * sizeof *c);
    return c;
}

// Around the sizes at which it is done in another way, and with rows that are apart.
static void the_gram_matrix_is_that_of_loops(void** state) {
    (void)state;
    const uint32_t sizes[][2] = {{0, 5},    {1, 1},    {7, 3},     {6, 7},     {9, 8},   {30, 40},
                                 {40, 127}, {40, 128}, {300, 129}, {20, 300},  {3, 511}, {5, 640},
                                 {17, 641}, {2, 700},  {1000, 5},  {10, 1100}, {4, 0}};
    residual gram = {.name = "J'J", .tolerance = 1e-14};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        uint32_t m = sizes[s][0], n = sizes[s][1];
        size_t stride = n + s % 3;
        double* J = random_numbers(m * stride, s);
        double* before = random_numbers((size_t)n * n, s + 200);
        double* H = copy(before, (size_t)n * n);
        nsi_dense_add_gram(m, n, J, stride, H, 2);
        double scale = (double)m + 1.0;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j < n; j++) {
                size_t at = (size_t)i * n + j;
                double sum = 0.0;
                for (uint32_t k = 0; k < m && j <= i; k++) {
                    sum += J[k * stride + i] * J[k * stride + j];
                }
                // The upper triangle stays as it was.
                if (j > i) assert_true(H[at] == before[at]);
                residual_add(&gram, H[at], before[at] + sum, scale);
            }
        }
        free(J), free(before), free(H);
    }
    residual_check(&gram);
}

static void threads_do_not_change_the_gram_matrix(void** state) {
    (void)state;
    const uint32_t m = 700, n = 900;
    double* J = random_numbers((size_t)m * n, 1);
    double* start = random_numbers((size_t)n * n, 2);
    double* first = copy(start, (size_t)n * n);
    nsi_dense_add_gram(m, n, J, n, first, 1);
    for (int k = 0; k < 12; k++) {
        const uint32_t threads[] = {2, 3, 0, 64};
        double* H = copy(start, (size_t)n * n);
        nsi_dense_add_gram(m, n, J, n, H, threads[k % 4]);
        assert_memory_equal(first, H, (size_t)n * n * sizeof *H);
        free(H);
    }
    free(J), free(start), free(first);
}

// J'J plus a diagonal, in the lower triangle only.
static double* random_positive(uint32_t n, uint64_t seed) {
    double* J = random_numbers((size_t)n * n, seed);
    double* A = calloc((size_t)n * n + 1, sizeof *A);
    assert_non_null(A);
    nsi_dense_add_gram(n, n, J, n, A, 1);
    for (uint32_t i = 0; i < n; i++) {
        A[(size_t)i * n + i] += 0.1 * n;
        for (uint32_t j = i + 1; j < n; j++) A[(size_t)i * n + j] = NAN; // must not be read
    }
    free(J);
    return A;
}

static double symmetric(const double* A, uint32_t n, uint32_t i, uint32_t j) {
    return j <= i ? A[(size_t)i * n + j] : A[(size_t)j * n + i];
}

static void the_cholesky_factor_multiplies_to_the_matrix_and_solves(void** state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 5, 24, 63, 150, 530};
    residual factor = {.name = "L L'", .tolerance = 1e-14};
    residual solved = {.name = "A x", .tolerance = 1e-12};
    for (int s = 0; s < 7; s++) {
        uint32_t n = sizes[s];
        double *A = random_positive(n, (uint64_t)s), *L = copy(A, (size_t)n * n);
        assert_true(nsi_dense_cholesky(n, L, 2));
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j <= i; j++) {
                double sum = 0.0;
                for (uint32_t k = 0; k <= j; k++) {
                    sum += L[(size_t)i * n + k] * L[(size_t)j * n + k];
                }
                residual_add(&factor, sum, A[(size_t)i * n + j], n);
            }
        }
        for (uint32_t count = 1; count <= 4; count += 3) {
            double *b = random_numbers((size_t)n * count, 9), *x = copy(b, (size_t)n * count);
            nsi_dense_cholesky_solve(n, L, count, x);
            for (uint32_t i = 0; i < n; i++) {
                for (uint32_t c = 0; c < count; c++) {
                    double sum = 0.0;
                    for (uint32_t j = 0; j < n; j++)
                        sum += symmetric(A, n, i, j) * x[j * count + c];
                    residual_add(&solved, sum, b[i * count + c], 1.0);
                }
            }
            free(b), free(x);
        }
        free(A), free(L);
    }
    residual_check(&factor);
    residual_check(&solved);
}

static void a_factor_is_the_same_at_any_number_of_threads(void** state) {
    (void)state;
    const uint32_t n = 700;
    double *A = random_positive(n, 3), *L = copy(A, (size_t)n * n);
    assert_true(nsi_dense_cholesky(n, L, 1));
    for (uint32_t threads = 0; threads < 4; threads++) {
        double* other = copy(A, (size_t)n * n);
        assert_true(nsi_dense_cholesky(n, other, threads));
        assert_memory_equal(L, other, (size_t)n * n * sizeof *L);
        free(other);
    }
    free(A), free(L);
}

static void what_is_not_positive_definite_has_no_factor(void** state) {
    (void)state;
    const uint32_t sizes[] = {1, 3, 40, 200, 530};
    for (int s = 0; s < 5; s++) {
        uint32_t n = sizes[s];
        const double bad[] = {-1.0, 0.0, NAN, -INFINITY};
        for (int k = 0; k < 4; k++) {
            double* A = random_positive(n, 7);
            A[(size_t)n * n - 1] = bad[k]; // the last entry of the diagonal
            assert_false(nsi_dense_cholesky(n, A, 2));
            free(A);
            A = random_positive(n, 8);
            A[(size_t)(n / 2) * n + n / 2] = bad[k];
            assert_false(nsi_dense_cholesky(n, A, 2));
            free(A);
        }
    }
    assert_true(nsi_dense_cholesky(0, NULL, 2));
}

static void eigenvectors_are_orthogonal_and_belong_to_their_values(void** state) {
    (void)state;
    const uint32_t sizes[] = {1, 2, 7, 30, 120};
    residual vectors = {.name = "A v = lambda v", .tolerance = 1e-13};
    residual angles = {.name = "V V'", .tolerance = 1e-13};
    for (int s = 0; s < 5; s++) {
        uint32_t n = sizes[s];
        double *A = random_positive(n, (uint64_t)s), *work = copy(A, (size_t)n * n);
        double *values = random_numbers(n, 1), *V = random_numbers((size_t)n * n, 1);
        assert_true(nsi_dense_eigen(n, work, values, V));
        double trace = 0.0, sum = 0.0;
        for (uint32_t k = 0; k < n; k++) {
            const double* v = V + (size_t)k * n;
            if (k > 0) assert_true(values[k] >= values[k - 1]);
            trace += A[(size_t)k * n + k];
            sum += values[k];
            for (uint32_t i = 0; i < n; i++) {
                double row = 0.0, angle = 0.0;
                for (uint32_t j = 0; j < n; j++) {
                    row += symmetric(A, n, i, j) * v[j];
                    angle += V[(size_t)i * n + j] * v[j];
                }
                residual_add(&vectors, row, values[k] * v[i], n);
                residual_add(&angles, angle, i == k ? 1.0 : 0.0, 1.0);
            }
        }
        residual_add(&vectors, sum, trace, trace);
        free(A), free(work), free(values), free(V);
    }
    residual_check(&vectors);
    residual_check(&angles);

    // [2 1; 1 2] has 1 with (1, -1) and 3 with (1, 1).
    double A[4] = {2.0, 0.0, 1.0, 2.0}, values[2], V[4];
    assert_true(nsi_dense_eigen(2, A, values, V));
    assert_true(fabs(values[0] - 1.0) < 1e-15 && fabs(values[1] - 3.0) < 1e-15);
    assert_true(fabs(V[0] + V[1]) < 1e-15 && fabs(V[2] - V[3]) < 1e-15);

    double bad[4] = {1.0, 0.0, NAN, 1.0};
    assert_false(nsi_dense_eigen(2, bad, values, V));
}

// ---- several callers -----------------------------------------------------------------------

enum { CALLERS = 4, SIZE = 150 };

// All of it once, for a problem with this number; the results one after the other.
static void do_all(uint64_t number, double* out) {
    const size_t square = (size_t)SIZE * SIZE;
    double *J = random_numbers(square, number), *b = random_numbers(SIZE, number + 50);
    double *H = out, *A = out + square, *V = out + 2 * square;
    double *g = out + 3 * square, *values = g + SIZE;
    memset(out, 0, (3 * square + 2 * SIZE) * sizeof *out);
    nsi_dense_add_gram(SIZE, SIZE, J, SIZE, H, 1);
    for (uint32_t i = 0; i < SIZE; i++) H[(size_t)i * SIZE + i] += 1.0;
    memcpy(g, b, SIZE * sizeof *g);
    memcpy(A, H, square * sizeof *A);
    nsi_dense_eigen(SIZE, A, values, V);
    memcpy(A, H, square * sizeof *A);
    nsi_dense_cholesky(SIZE, A, 1);
    nsi_dense_cholesky_solve(SIZE, A, 1, g);
    free(J), free(b);
}

static void callers_do_not_disturb_each_other(void** state) {
    (void)state;
    const size_t count = 3 * (size_t)SIZE * SIZE + 2 * SIZE;
    double* want = random_numbers(CALLERS * count, 0);
    double* got = random_numbers(CALLERS * count, 0);
    for (int k = 0; k < CALLERS; k++) do_all((uint64_t)k, want + (size_t)k * count);
    for (int round = 0; round < 10; round++) {
#ifdef _OPENMP
#pragma omp parallel for num_threads(CALLERS)
#endif
        for (int k = 0; k < CALLERS; k++) do_all((uint64_t)k, got + (size_t)k * count);
        assert_memory_equal(want, got, CALLERS * count * sizeof *got);
    }
    free(want), free(got);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_gram_matrix_is_that_of_loops),
        cmocka_unit_test(threads_do_not_change_the_gram_matrix),
        cmocka_unit_test(the_cholesky_factor_multiplies_to_the_matrix_and_solves),
        cmocka_unit_test(a_factor_is_the_same_at_any_number_of_threads),
        cmocka_unit_test(what_is_not_positive_definite_has_no_factor),
        cmocka_unit_test(eigenvectors_are_orthogonal_and_belong_to_their_values),
        cmocka_unit_test(callers_do_not_disturb_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
