// Identifiability of each parameter, from the information matrix H = J'J of the residuals.
//
// Parameters are measured in their own size, u = p / s, so that an error of 1 is 100 % and units do
// not matter: H_u = S H S.
//
//   no effect   the diagonal of H_u: what changing the parameter alone does to the residuals
//   null        eigenvectors of H_u brought to a unit diagonal. Each parameter then has the same
//               weight, and what is left to make an eigenvalue small is that parameters act alike
//               (Belsley, Kuh & Welsch 1980, chapter 3).
//   errors      sigma^2 times the Moore-Penrose inverse of H_u without the null directions. For a
//               parameter with no part in them every other choice of an inverse gives the same
//               variance (Rao 1973, chapter 4a).
//   poor        eigenvectors of that inverse: the combinations with the largest relative errors
//
// Bounds play no part in this: a parameter that ended at one is analysed as if it could move.

#include "sysid/identifiability.h"

#include "solver/solvers.h"

#include <math.h>

static const ns_choice verdict_rows[] = {NS_VERDICT_MAP(NS_CHOICE_ROW)};
const ns_choices ns_verdicts = NS_CHOICES("verdict", verdict_rows);

// A value below this share of its start says little about what the parameter is measured in; where
// it started at 0 it is taken for a length in metres or the like.
static const double NEXT_TO_NOTHING = 1e-3;

// Doubling the parameter moves the residuals, all of them together, by less than this share of the
// standard deviation of one: nobody can see that.
static const double NO_EFFECT = 1e-6;

// Null: an eigenvalue below this share of the largest, and a standard deviation of more than 100 %;
static const double NULL_SHARE = 1e-10;
static const double NULL_ERROR = 1.0;
// or one that J'J, whose entries carry the rounding of long sums, cannot distinguish from zero, however
// small the residuals are: data made by the model itself has no noise.
static const double ROUNDING_SHARE = 1e-12;

static const double POOR_ERROR = 0.5; // relative standard deviation
static const double SIZEABLE = 0.1;   // part of a parameter in a null direction, the largest is 1
static const double SMALL_CHANGE = 0.02; // shown as 0
static const double TIE = 1e-6; // relative difference that rounding may make; the first one counts

// At a bound: this close, as a share of the size; or of the range, where a solver that walks into a bound
// may stop early. Ranges are often generous, so that it must be close for the parameter's size as well.
static const double AT_BOUND = 1e-6;
static const double NEAR_FOR_RANGE = 5e-3;
static const double NEAR_FOR_SIZE = 1e-2;

typedef struct analysis {
    uint32_t n;      // parameters with an effect
    uint32_t* index; // (n) their numbers
    double* size;    // (of all) s
    double* scale;   // (n) root of the diagonal of H_u
    double* value;   // (n) eigenvalues
    double *A, *V;   // (n x n) a matrix that is used up, its eigenvectors in rows
    double* P;       // (n x n) inverse of H_u; times sigma^2 a covariance
    double* basis;   // (n x n) rows that span the null directions
    uint32_t nnull;
    uint32_t* pivot; // (n) column in which only this row of the basis is not 0
    double sigma;
} analysis;

// ---- memory and scales -----------------------------------------------------------------------

static bool identify_allocate(const ns_allocator* memory, uint32_t count, analysis* out) {
    size_t n = count, matrix = n * n;
    *out = (analysis){0};
    double* block = nsi_alloc(memory, sizeof(double) * (4 * matrix + 3 * n));
    uint32_t* numbers = nsi_alloc(memory, sizeof(uint32_t) * 2 * n);
    if (!block || !numbers) {
        nsi_free(memory, block);
        nsi_free(memory, numbers);
        return false;
    }
    out->A = block;
    out->V = out->A + matrix;
    out->P = out->V + matrix;
    out->basis = out->P + matrix;
    out->size = out->basis + matrix;
    out->scale = out->size + n;
    out->value = out->scale + n;
    out->index = numbers;
    out->pivot = numbers + n;
    return true;
}

static void release(const ns_allocator* memory, analysis* a) {
    nsi_free(memory, a->A);
    nsi_free(memory, a->index);
}

static double size_of(const ns_estimate* e, const double* given) {
    double size = given ? fabs(*given) : NEXT_TO_NOTHING * fabs(e->initial);
    return fmax(fabs(e->value), size > 0.0 ? size : NEXT_TO_NOTHING);
}

// Sizes, who has an effect, and H_u with a unit diagonal in the lower triangle of A.
static ns_status scale_information(const nsi_identification* found, const double* information,
                                   const double* sizes, analysis* a, ns_error* error) {
    uint32_t count = found->estimates.count;

    // The effect of a relative change of each parameter; those without effect are left out.
    for (uint32_t j = 0; j < count; j++) {
        const ns_estimate* e = &found->estimates.data[j];

        // Measured in its own size, a change of 1 is 100 %.
        a->size[j] = size_of(e, sizes ? &sizes[j] : NULL);
        double diagonal = information[(size_t)j * count + j];
        double effect = diagonal > 0.0 ? a->size[j] * sqrt(diagonal) : 0.0;
        if (!isfinite(e->value) || !isfinite(diagonal) || !isfinite(effect)) {
            return nsi_fail(error, NS_ERR_NONFINITE,
                            "the information about \"%.200s\" is not finite; its value is %s",
                            e->name, isfinite(e->value) ? "finite" : "not finite either");
        }

        // The data cannot see a parameter whose effect is below rounding or noise.
        if (effect == 0.0 || effect < NO_EFFECT * a->sigma) continue;
        a->scale[a->n] = effect;
        a->index[a->n++] = j;
    }

    // Correlations of what is left: the matrix with a diagonal of 1.
    for (uint32_t row = 0; row < a->n; row++) {
        uint32_t j = a->index[row];
        for (uint32_t column = 0; column <= row; column++) {
            uint32_t k = a->index[column];
            // Scaled from both sides: products of sizes alone could overflow.
            double share = (a->size[j] / a->scale[row]) * information[(size_t)j * count + k] *
                           (a->size[k] / a->scale[column]);

            if (!isfinite(share)) {
                return nsi_fail(error, NS_ERR_NONFINITE,
                                "the information about \"%.120s\" and \"%.120s\" is not finite",
                                found->estimates.data[j].name, found->estimates.data[k].name);
            }
            a->A[(size_t)row * a->n + column] = row == column ? 1.0 : share;
        }
    }
    return NS_OK;
}

static ns_status eigen(analysis* a, ns_error* error) {
    if (nsi_dense_eigen(a->n, a->A, a->value, a->V)) return NS_OK;
    return nsi_fail(error, NS_ERR_INVALID, "the eigenvalues of the information were not found");
}

// ---- rows of numbers -------------------------------------------------------------------------

static double dot(uint32_t n, const double* x, const double* y) {
    double sum = 0.0;
    for (uint32_t j = 0; j < n; j++) sum += x[j] * y[j];
    return sum;
}

static void add_scaled(uint32_t n, double* x, double factor, const double* y) {
    for (uint32_t j = 0; j < n; j++) x[j] += factor * y[j];
}

static void scale_row(uint32_t n, double* x, double factor) {
    for (uint32_t j = 0; j < n; j++) x[j] *= factor;
}

// The first of the largest magnitudes.
static uint32_t find_largest(uint32_t n, const double* x) {
    double most = 0.0;
    for (uint32_t j = 0; j < n; j++) most = fmax(most, fabs(x[j]));
    uint32_t found = 0;
    while (found + 1 < n && fabs(x[found]) < (1.0 - TIE) * most) found++;
    return found;
}

// ---- null directions -------------------------------------------------------------------------

// Gram-Schmidt, each row against the earlier ones twice, which is enough (Giraud, Langou &
// Rozloznik 2005).
static void orthonormalize(analysis* a) {
    for (uint32_t r = 0; r < a->nnull; r++) {
        double* row = a->basis + (size_t)r * a->n;
        for (int again = 0; again < 2; again++) {
            scale_row(a->n, row, 1.0 / sqrt(dot(a->n, row, row)));
            for (uint32_t k = 0; k < r; k++) {
                const double* other = a->basis + (size_t)k * a->n;
                add_scaled(a->n, row, -dot(a->n, row, other), other);
            }
        }
        scale_row(a->n, row, 1.0 / sqrt(dot(a->n, row, row)));
    }
}

// Sort the eigenvectors of A: null ones go to the basis, the others into P.
static void split(analysis* a) {
    uint32_t n = a->n;
    memset(a->P, 0, sizeof(double) * n * n);
    double largest = a->value[n - 1];
    for (uint32_t k = 0; k < n; k++) {
        double* row = a->V + (size_t)k * n;
        for (uint32_t j = 0; j < n; j++) row[j] /= a->scale[j]; // relative changes
        double most = fabs(row[find_largest(n, row)]);
        double value = a->value[k];
        bool null = value <= ROUNDING_SHARE * largest ||
                    (value < NULL_SHARE * largest && a->sigma * most / sqrt(value) > NULL_ERROR);
        if (null) {
            double* to = a->basis + (size_t)a->nnull++ * n;
            for (uint32_t j = 0; j < n; j++) to[j] = row[j] / most;
            continue;
        }
        for (uint32_t i = 0; i < n; i++) {
            add_scaled(n, a->P + (size_t)i * n, row[i] / value, row);
        }
    }
    orthonormalize(a);
}

// P <- Q P Q with Q = 1 - N N', N the null directions: whichever inverse P was, this is the one of
// Moore and Penrose.
static void project(analysis* a) {
    uint32_t n = a->n;
    double* product = a->value; // P q; eigenvalues are used up
    for (uint32_t r = 0; r < a->nnull; r++) {
        const double* q = a->basis + (size_t)r * n;
        for (uint32_t i = 0; i < n; i++) product[i] = dot(n, a->P + (size_t)i * n, q);
        add_scaled(n, product, -0.5 * dot(n, q, product), q);
        for (uint32_t i = 0; i < n; i++) {
            double* row = a->P + (size_t)i * n;
            add_scaled(n, row, -q[i], product);
            add_scaled(n, row, -product[i], q);
        }
    }
}

// Choose a column for each direction: the one with the largest part in the null space, then in what
// is left of it without that column, and so on (QR with column pivoting). Unlike the largest
// entries of a basis this does not depend on the basis.
static void choose_pivots(analysis* a) {
    uint32_t n = a->n, m = a->nnull;
    double *left = a->A, *norm = a->value, *unit = a->V;
    memcpy(left, a->basis, sizeof(double) * m * n);
    for (uint32_t r = 0; r < m; r++) {
        for (uint32_t j = 0; j < n; j++) {
            norm[j] = 0.0;
            for (uint32_t i = 0; i < m; i++)
                norm[j] += left[(size_t)i * n + j] * left[(size_t)i * n + j];
        }
        uint32_t p = find_largest(n, norm);
        a->pivot[r] = p;
        for (uint32_t i = 0; i < m; i++) unit[i] = left[(size_t)i * n + p] / sqrt(norm[p]);
        double* along = norm; // unit' left
        memset(along, 0, sizeof(double) * n);
        for (uint32_t i = 0; i < m; i++) add_scaled(n, along, unit[i], left + (size_t)i * n);
        for (uint32_t i = 0; i < m; i++) add_scaled(n, left + (size_t)i * n, -unit[i], along);
    }
}

static void swap_rows(uint32_t n, double* x, double* y) {
    for (uint32_t j = 0; j < n; j++) {
        double kept = x[j];
        x[j] = y[j];
        y[j] = kept;
    }
}

// Make the directions readable: the reduced row echelon form has a parameter of its own in each
// row, and few others. Rows are in the order of those parameters.
static void make_sparse(analysis* a) {
    uint32_t n = a->n;
    choose_pivots(a);
    for (uint32_t r = 1; r < a->nnull; r++) { // insertion sort
        for (uint32_t k = r; k > 0 && a->pivot[k - 1] > a->pivot[k]; k--) {
            uint32_t kept = a->pivot[k];
            a->pivot[k] = a->pivot[k - 1];
            a->pivot[k - 1] = kept;
        }
    }
    for (uint32_t r = 0; r < a->nnull; r++) {
        uint32_t p = a->pivot[r], best = r;
        double* rows = a->basis;
        for (uint32_t i = r + 1; i < a->nnull; i++) {
            if (fabs(rows[(size_t)i * n + p]) > fabs(rows[(size_t)best * n + p])) best = i;
        }
        double* row = rows + (size_t)r * n;
        if (best != r) swap_rows(n, row, rows + (size_t)best * n);
        scale_row(n, row, 1.0 / row[p]);
        for (uint32_t i = 0; i < a->nnull; i++) {
            double* other = rows + (size_t)i * n;
            if (i != r) add_scaled(n, other, -other[p], row);
        }
    }
}

// ---- findings --------------------------------------------------------------------------------

static bool push_direction(nsi_identification* found, const analysis* a, const double* row,
                           double error, bool null) {
    double* change = nsi_alloc_zeroed(&found->allocator, sizeof(double) * found->estimates.count);
    if (!change) return false;
    double largest = row[find_largest(a->n, row)];
    for (uint32_t j = 0; j < a->n; j++) {
        double share = row[j] / largest;
        if (fabs(share) >= SMALL_CHANGE) change[a->index[j]] = share;
    }
    ns_parameter_direction direction = {.change = change, .error = error, .null = null};
    if (nsi_array_push(&found->allocator, &found->directions, direction)) return true;
    nsi_free(&found->allocator, change);
    return false;
}

static bool push_null_directions(nsi_identification* found, const analysis* a) {
    for (uint32_t r = 0; r < a->nnull; r++) {
        if (!push_direction(found, a, a->basis + (size_t)r * a->n, INFINITY, true)) return false;
    }
    return true;
}

// The worst first.
static void sort_directions(nsi_identification* found, uint32_t from) {
    ns_parameter_direction* d = found->directions.data;
    for (uint32_t k = from + 1; k < found->directions.count; k++) {
        ns_parameter_direction moved = d[k];
        uint32_t to = k;
        for (; to > from && d[to - 1].error < moved.error; to--) d[to] = d[to - 1];
        d[to] = moved;
    }
}

static bool push_poor_directions(nsi_identification* found, const analysis* a) {
    uint32_t first = found->directions.count;
    for (uint32_t k = a->n; k-- > 0;) {
        const double* row = a->V + (size_t)k * a->n;
        double largest = fabs(row[find_largest(a->n, row)]);
        double error = a->sigma * sqrt(fmax(0.0, a->value[k])) * largest;
        if (error > POOR_ERROR && !push_direction(found, a, row, error, false)) return false;
    }
    sort_directions(found, first);
    return true;
}

static bool is_undetermined(const nsi_identification* found, uint32_t estimate) {
    for (uint32_t k = 0; k < found->directions.count; k++) {
        const ns_parameter_direction* direction = &found->directions.data[k];
        if (direction->null && fabs(direction->change[estimate]) > SIZEABLE) return true;
    }
    return false;
}

static bool is_at(double gap, double range, double size, double error) {
    if (!isfinite(range)) return gap <= AT_BOUND * size;
    bool near = gap <= NEAR_FOR_RANGE * range && gap <= error;
    return (gap <= AT_BOUND * range || near) && gap <= NEAR_FOR_SIZE * size;
}

// Has it any part in a combination that the data does not determine?
static bool is_in_combination(const nsi_identification* found, uint32_t estimate) {
    for (uint32_t k = 0; k < found->directions.count; k++) {
        const ns_parameter_direction* direction = &found->directions.data[k];
        if (direction->null && direction->change[estimate] != 0.0) return true;
    }
    return false;
}

static ns_verdict identify_judge(const ns_estimate* e, double size, bool combined) {
    double range = e->upper - e->lower;
    if (isnan(e->standard_error)) return NS_VERDICT_NO_EFFECT;
    if (is_at(e->value - e->lower, range, size, e->standard_error)) return NS_VERDICT_AT_LOWER;
    if (is_at(e->upper - e->value, range, size, e->standard_error)) return NS_VERDICT_AT_UPPER;
    if (isinf(e->standard_error) || combined) return NS_VERDICT_UNDETERMINED;
    return e->standard_error > POOR_ERROR * size ? NS_VERDICT_POOR : NS_VERDICT_OK;
}

static void fill_estimates(nsi_identification* found, const analysis* a) {
    uint32_t count = found->estimates.count;
    for (uint32_t j = 0; j < count; j++) found->estimates.data[j].standard_error = NAN;
    for (uint32_t i = 0; i < a->n; i++) {
        uint32_t j = a->index[i];
        double deviation = a->sigma * sqrt(fmax(0.0, a->P[(size_t)i * a->n + i]));
        found->estimates.data[j].standard_error =
            is_undetermined(found, j) ? INFINITY : a->size[j] * deviation;
    }
    for (uint32_t j = 0; j < count; j++) {
        ns_estimate* e = &found->estimates.data[j];
        e->verdict = identify_judge(e, a->size[j], is_in_combination(found, j));
    }
}

static void fill_correlation(nsi_identification* found, const analysis* a) {
    uint32_t count = found->estimates.count, n = a->n;
    for (size_t k = 0; k < (size_t)count * count; k++) found->correlation[k] = NAN;
    for (uint32_t i = 0; i < n; i++) {
        if (!isfinite(found->estimates.data[a->index[i]].standard_error)) continue;
        for (uint32_t k = 0; k < n; k++) {
            if (!isfinite(found->estimates.data[a->index[k]].standard_error)) continue;
            double scale = sqrt(a->P[(size_t)i * n + i]) * sqrt(a->P[(size_t)k * n + k]);
            if (!(scale > 0.0)) continue;
            double share = i == k ? 1.0 : a->P[(size_t)i * n + k] / scale;
            found->correlation[(size_t)a->index[i] * count + a->index[k]] =
                fmax(-1.0, fmin(1.0, share));
        }
    }
}

static void drop_directions(nsi_identification* found) {
    for (uint32_t k = 0; k < found->directions.count; k++) {
        nsi_free(&found->allocator, found->directions.data[k].change);
    }
    nsi_array_free(&found->allocator, &found->directions);
}

void nsi_identification_free(nsi_identification* found) {
    drop_directions(found);
    nsi_array_free(&found->allocator, &found->estimates);
    nsi_free(&found->allocator, found->correlation);
    found->correlation = NULL;
}

static ns_status analyse(nsi_identification* found, const double* information, const double* sizes,
                         analysis* a, ns_error* error) {
    ns_status status = scale_information(found, information, sizes, a, error);
    if (status != NS_OK) return status;
    if (a->n > 0) {
        status = eigen(a, error);
        if (status != NS_OK) return status;
        split(a);
        project(a);
        make_sparse(a);
        if (!push_null_directions(found, a)) return nsi_fail_nomem(error);

        memcpy(a->A, a->P, sizeof(double) * a->n * a->n);
        status = eigen(a, error);
        if (status != NS_OK) return status;
        if (!push_poor_directions(found, a)) return nsi_fail_nomem(error);
    }
    fill_estimates(found, a);
    fill_correlation(found, a);
    return NS_OK;
}

ns_status nsi_identify(nsi_identification* found, const double* information, double sigma,
                       const double* sizes, ns_error* error) {
    uint32_t count = found->estimates.count;
    const ns_allocator* memory = &found->allocator;
    drop_directions(found);
    nsi_free(memory, found->correlation);
    found->correlation = NULL;
    if (!(sigma >= 0.0) || isinf(sigma)) {
        return nsi_fail(error, NS_ERR_NONFINITE,
                        "the standard deviation of the residuals is not a finite number from 0 on");
    }
    if (count == 0) return NS_OK;

    analysis a;
    if (!identify_allocate(memory, count, &a)) return nsi_fail_nomem(error);
    a.sigma = sigma;
    found->correlation = nsi_alloc(memory, sizeof(double) * count * count);
    ns_status status =
        found->correlation ? analyse(found, information, sizes, &a, error) : nsi_fail_nomem(error);
    release(memory, &a);
    if (status == NS_OK) return NS_OK;
    drop_directions(found);
    nsi_free(memory, found->correlation);
    found->correlation = NULL;
    return status;
}
