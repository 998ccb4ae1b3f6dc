// Dense linear algebra: CBLAS and LAPACKE.
//
// A lower triangle in rows is an upper triangle in columns, so LAPACK works on our matrices as they
// lie and nothing is transposed.

#include "solver/solvers.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <pthread.h>
#ifdef _OPENMP
#include <omp.h>
#endif

// Of OpenBLAS; another library may be linked, which has neither.
void openblas_set_num_threads(int count);
int openblas_get_parallel(void);
#pragma weak openblas_set_num_threads
#pragma weak openblas_get_parallel

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool one_at_a_time;
static pthread_mutex_t calls = PTHREAD_MUTEX_INITIALIZER;

// Threads of OpenBLAS would change sums with their number and fight with ours. And when it is built
// without threads, two callers at a time may get the same buffer and wrong numbers, unless it is
// also built with USE_LOCKING, which cannot be asked for (OpenBLAS issues 1755 and 2126; Debian's
// libopenblas0-serial is such a one, libopenblas0-pthread is not).
static void prepare_blas(void) {
    if (openblas_set_num_threads) openblas_set_num_threads(1);
    one_at_a_time = openblas_get_parallel && openblas_get_parallel() == 0;
}

static void enter_blas(void) {
    pthread_once(&once, prepare_blas);
    if (one_at_a_time) pthread_mutex_lock(&calls);
}

static void leave_blas(void) {
    if (one_at_a_time) pthread_mutex_unlock(&calls);
}

// ---- products ------------------------------------------------------------------------------

enum {
    TALL = 128,      // a tile of the Gram matrix has so many rows
    WIDE = 512,      // and columns, a multiple of TALL: 95 % of the speed of taller and wider ones
    TINY = 8,        // columns below which loops are faster than a call
    PANEL = 128,     // columns of a panel of a Cholesky factor
    MAX_THREADS = 32 // OpenBLAS has buffers for no fewer than 50 callers
};

// How many may call at a time, of those that are asked for; 0: one per core.
static uint32_t threads_for(uint32_t threads) {
#ifdef _OPENMP
    if (threads == 0) threads = (uint32_t)omp_get_num_procs();
#endif
    if (threads == 0 || one_at_a_time) return 1;
    return threads < MAX_THREADS ? threads : MAX_THREADS;
}

// Four rows at a time, so that the matrix is read and written a quarter as often.
static void add_gram_tiny(uint32_t m, uint32_t n, const double* J, size_t stride, double* H) {
    uint32_t k = 0;
    for (; m - k >= 4; k += 4) {
        const double* a = J + k * stride;
        const double *b = a + stride, *c = b + stride, *d = c + stride;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j <= i; j++) {
                H[i * n + j] += (a[i] * a[j] + b[i] * b[j]) + (c[i] * c[j] + d[i] * d[j]);
            }
        }
    }
    for (; k < m; k++) {
        const double* a = J + k * stride;
        for (uint32_t i = 0; i < n; i++) {
            for (uint32_t j = 0; j <= i; j++) H[i * n + j] += a[i] * a[j];
        }
    }
}

// What of the lower triangle lies in rows from `row` and columns from `column`.
static void add_gram_tile(uint32_t m, uint32_t n, const double* J, size_t stride, double* H,
                          uint32_t row, uint32_t column) {
    uint32_t rows = n - row < TALL ? n - row : TALL;
    uint32_t columns = row - column < WIDE ? row - column : WIDE; // left of the diagonal block
    if (columns > 0) {
        cblas_dgemm(CblasRowMajor, CblasTrans, CblasNoTrans, (int)rows, (int)columns, (int)m, 1.0,
                    J + row, (int)stride, J + column, (int)stride, 1.0,
                    H + (size_t)row * n + column, (int)n);
    }
    if (columns < WIDE) {
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasTrans, (int)rows, (int)m, 1.0, J + row,
                    (int)stride, 1.0, H + (size_t)row * n + row, (int)n);
    }
}

void nsi_dense_add_gram(uint32_t m, uint32_t n, const double* J, size_t stride, double* H,
                        uint32_t threads) {
    if (m == 0 || n == 0) return;
    if (n < TINY) {
        add_gram_tiny(m, n, J, stride, H);
        return;
    }
    enter_blas();
    threads = threads_for(threads);
    int parts = (int)((n + WIDE - 1) / WIDE), tiles = (int)((n + TALL - 1) / TALL) * parts;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) num_threads((int)threads) if (threads > 1 && tiles > 1)
#endif
    for (int t = tiles - 1; t >= 0; t--) { // from below: the long rows first
        uint32_t row = (uint32_t)(t / parts) * TALL, column = (uint32_t)(t % parts) * WIDE;
        if (column <= row) add_gram_tile(m, n, J, stride, H, row, column);
    }
    leave_blas();
}

// ---- factors -------------------------------------------------------------------------------

// Rows of a panel of columns below its corner, whose factor is there: A := A L^-T.
static void factor_panel(uint32_t n, double* A, uint32_t first, uint32_t row, uint32_t rows) {
    cblas_dtrsm(CblasRowMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, (int)rows, PANEL,
                1.0, A + (size_t)first * n + first, (int)n, A + (size_t)row * n + first, (int)n);
}

// And what they take from the matrix to the right: A -= panel panel'.
static void subtract_panel(uint32_t n, double* A, uint32_t first, uint32_t row, uint32_t rows) {
    const double* panel = A + first;
    uint32_t from = first + PANEL;
    if (row > from) {
        cblas_dgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)rows, (int)(row - from), PANEL,
                    -1.0, panel + (size_t)row * n, (int)n, panel + (size_t)from * n, (int)n, 1.0,
                    A + (size_t)row * n + from, (int)n);
    }
    cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, (int)rows, PANEL, -1.0,
                panel + (size_t)row * n, (int)n, 1.0, A + (size_t)row * n + row, (int)n);
}

// Panels of columns, from the left, as long as there is work for more than one thread. Returns the first
// column that is left, n when the matrix is not positive definite.
static uint32_t factor_panels(uint32_t n, double* A, uint32_t threads) {
    uint32_t first = 0;

    // The caller factors the last columns: too few for panels to pay off.
    for (; n - first >= 4 * PANEL; first += PANEL) {
        // Factor the diagonal block.
        double* corner = A + (size_t)first * n + first;
        if (LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', PANEL, corner, (lapack_int)n) != 0) return n;

        // Rows below it: solve for the panel, then subtract its product from the rest (right-
        // looking).
        uint32_t from = first + PANEL;
        // Tall blocks of rows are the unit of work of a thread.
        int blocks = (int)((n - from + TALL - 1) / TALL);
#ifdef _OPENMP
#pragma omp parallel num_threads((int)threads) if (threads > 1)
#endif
        {
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif

            // The triangular solves are independent.
            for (int k = 0; k < blocks; k++) {
                uint32_t row = from + (uint32_t)k * TALL;
                factor_panel(n, A, first, row, n - row < TALL ? n - row : TALL);
            }
#ifdef _OPENMP
#pragma omp for schedule(dynamic)
#endif

            // The update of each block needs all solves: an implicit barrier separates the loops.
            for (int k = blocks - 1; k >= 0; k--) { // from below: the long rows first
                uint32_t row = from + (uint32_t)k * TALL;
                subtract_panel(n, A, first, row, n - row < TALL ? n - row : TALL);
            }
        }
    }
    return first;
}

bool nsi_dense_cholesky(uint32_t n, double* A, uint32_t threads) {
    if (n == 0) return true;
    enter_blas();
    uint32_t first = factor_panels(n, A, threads_for(threads));
    lapack_int left = (lapack_int)(n - first), result = first < n ? 0 : 1;
    if (result == 0) {
        result = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'U', left, A + (size_t)first * n + first,
                                     (lapack_int)n);
    }
    leave_blas();
    if (result != 0) return false;
    // Not every LAPACK notices a NaN, which is neither positive nor not.
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(A[(size_t)i * n + i])) return false;
    }
    return true;
}

void nsi_dense_cholesky_solve(uint32_t n, const double* L, uint32_t count, double* b) {
    if (n == 0 || count == 0) return;
    enter_blas();
    const CBLAS_TRANSPOSE order[2] = {CblasNoTrans, CblasTrans};
    for (int k = 0; k < 2; k++) {
        if (count == 1) {
            cblas_dtrsv(CblasRowMajor, CblasLower, order[k], CblasNonUnit, (int)n, L, (int)n, b, 1);
        } else {
            cblas_dtrsm(CblasRowMajor, CblasLeft, CblasLower, order[k], CblasNonUnit, (int)n,
                        (int)count, 1.0, L, (int)n, b, (int)count);
        }
    }
    leave_blas();
}

bool nsi_dense_eigen(uint32_t n, double* A, double* values, double* vectors) {
    if (n == 0) return true;
    lapack_int size = (lapack_int)n;
    enter_blas();
    lapack_int result = LAPACKE_dsyevd(LAPACK_COL_MAJOR, 'V', 'U', size, A, size, values);
    leave_blas();
    if (result != 0) return false;
    memcpy(vectors, A, (size_t)n * n * sizeof *A);
    return true;
}
