// Normal equations of an objective: the Jacobian of each window by forward sensitivities, and products
// of all rows by BLAS. normal_solve.c eliminates initial states and solves.

#include "sysid/objective_state.h"

#include "solver/solvers.h"
#include "sysid/bounded_step.h"

#include <math.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum {
    SLAB_NUMBERS = 1 << 23, // of a Jacobian kept at a time, about
    FOLD_FROM = 64          // unknowns below which products of rows cost less than looking at them
};

static uint32_t columns_of(const nsi_objective* e) {
    return e->nt + e->n;
}

// Are derivatives carried along for the fitted parameters rather than for each parameter of the system, of
// which there may be many more? With weights, rows of the Jacobian cost the same for any number of parameters.
static bool is_along(const nsi_objective* e, uint32_t variant) {
    return e->nw == 0 && e->nz < e->p->param_at[variant + 1] - e->p->param_at[variant];
}

static uint32_t rows_of(const nsi_objective* e, uint32_t window) {
    return (uint32_t)(e->row_at[window + 1] - e->row_at[window]);
}

void nsi_normal_free(nsi_objective* e) {
    nsi_normal* m = &e->normal;
    for (size_t k = 0; m->sensitivity && k < (size_t)e->threads * e->p->nvariant; k++) {
        nsi_sensitivity_free(m->sensitivity[k]);
    }
    void* blocks[] = {
        m->sensitivity, m->slab,  m->slab_residual, m->kept, m->H, m->g,   m->Hxx,        m->Hxn,
        m->gx,          m->Hnext, m->ends,          m->S,    m->L, m->Y,   m->E,          m->yg,
        m->step,        m->row,   m->step_x,        m->x,    m->b, m->box, m->box_numbers};
    for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) nsi_free(&e->allocator, blocks[k]);
    *m = (nsi_normal){0};
}

static bool need_normal(nsi_objective* e) {
    nsi_normal* m = &e->normal;
    if (m->row) return true;

    // Rows of the Jacobian are made in slabs of some windows, so that memory stays bounded.
    size_t count = e->windows.count, n = (size_t)e->nz + e->nw, nt = e->nt, most = 1;
    for (uint32_t k = 0; k < count; k++) {
        if (rows_of(e, k) > most) most = rows_of(e, k);
    }
    size_t columns = nt + n, windows = SLAB_NUMBERS / (most * columns + 1) + 1;
    m->slab_windows = (uint32_t)(windows < count ? windows : count);
    m->slab = nsi_numbers(e, m->slab_windows * most * columns);
    m->slab_residual = nsi_numbers(e, m->slab_windows * most);
    m->kept = nsi_alloc_zeroed(&e->allocator, (m->slab_windows + (size_t)1) * sizeof *m->kept);

    // Normal equations of the shared unknowns, and their step.
    m->H = nsi_numbers(e, n * n);
    m->S = nsi_numbers(e, n * n);
    m->g = nsi_numbers(e, n);
    m->step = nsi_numbers(e, n);
    m->x = nsi_numbers(e, n);
    m->b = nsi_numbers(e, n);
    bool box = nsi_bounded_step_prepare(e);

    // Blocks of each window's initial state, and what their elimination makes of them.
    m->step_x = nsi_numbers(e, count * nt);
    m->Hxx = nsi_numbers(e, count * nt * nt);
    m->L = nsi_numbers(e, count * nt * nt);
    m->Hnext = nsi_numbers(e, count * nt * nt);
    m->E = nsi_numbers(e, count * nt * nt);
    m->Hxn = nsi_numbers(e, count * nt * n);
    m->Y = nsi_numbers(e, count * nt * n);
    m->gx = nsi_numbers(e, count * nt);
    m->yg = nsi_numbers(e, count * nt);
    size_t ends =
        e->options.initial_state == NS_INITIAL_STATE_TIED ? count * e->p->sizes.nx * columns : 0;
    m->ends = nsi_numbers(e, ends);

    // A sensitivity for each thread and each variant that has windows.
    uint32_t nvariant = e->p->nvariant;
    m->sensitivity =
        nsi_alloc_zeroed(&e->allocator, (size_t)e->threads * nvariant * sizeof *m->sensitivity);
    bool ok = m->slab && m->slab_residual && m->kept && m->H && m->S && m->g && m->step && m->x &&
              m->b && m->step_x && m->Hxx && m->L && m->Hnext && m->E && m->Hxn && m->Y && m->gx &&
              m->yg && m->ends && m->sensitivity && box;
    for (uint32_t k = 0; ok && k < e->threads * nvariant; k++) {
        uint32_t variant = k % nvariant;
        if (!e->used[variant]) continue;
        const ns_system* system = e->p->variants[variant].system;
        nsi_sensitivity** out = &m->sensitivity[k];
        ns_status status = is_along(e, variant)
                               ? nsi_sensitivity_create_along(system, nt > 0, e->nz, out, NULL)
                               : nsi_sensitivity_create(system, nt > 0, e->nw > 0, out, NULL);
        ok = status == NS_OK;
    }

    // The row comes last: it says that all the rest is there.
    if (ok) m->row = nsi_numbers(e, 2 * (size_t)e->p->sizes.nx + nt);
    if (!m->row) nsi_normal_free(e);
    return m->row != NULL;
}

// ---- Jacobians ---------------------------------------------------------------------------------

typedef struct window_job {
    const nsi_objective* e;
    uint32_t window;
    nsi_sensitivity* sensitivity; // of the thread and the variant
    double* rows;                 // where its Jacobian goes
} window_job;

// A row of derivatives (initial state, parameters or our numbers, weights) for our columns, times
// `scale`. Variables that the window's variant does not have are columns of zeros.
static void convert_row(const window_job* job, const double* x0, const double* row, double scale,
                        double* out) {
    const nsi_objective* e = job->e;
    const uint32_t* at = e->p->param_at + e->variant[job->window];
    uint32_t np = at[1] - at[0], nz = e->nz;

    // The derivatives of this variant's parameters for z.
    const double* dparams = e->dparams + (size_t)at[0] * nz;

    // The initial state, along its tangent directions.
    if (e->nt > 0) {
        nsi_problem_tangent(e->p, x0, row, out);
        for (uint32_t k = 0; k < e->nt; k++) out[k] *= scale;
        row += e->p->sizes.nx;
        out += e->nt;
    }

    // Carried for z itself: only the chosen columns are copied.
    if (is_along(e, e->variant[job->window])) {
        for (uint32_t k = 0; k < e->n; k++) out[k] = row[nsi_column_of(e, k)] * scale;
        return;
    }

    // A subset of the unknowns.
    if (e->chosen) {
        for (uint32_t k = 0; k < e->n; k++) {
            uint32_t j = e->chosen[k];
            out[k] = j < nz ? 0.0 : row[np + j - nz] * scale;
            for (uint32_t i = 0; i < np && j < nz; i++) {
                out[k] += row[i] * scale * dparams[(size_t)i * nz + j];
            }
        }
        return;
    }

    // From parameters to z by the chain rule; weights as they are.
    for (uint32_t j = 0; j < nz; j++) out[j] = 0.0;
    for (uint32_t i = 0; i < np && nz > 0; i++) {
        double d = row[i] * scale;
        for (uint32_t j = 0; j < nz; j++) out[j] += d * dparams[(size_t)i * nz + j];
    }
    for (uint32_t k = 0; k < e->nw; k++) out[nz + k] = row[np + k] * scale;
}

static void take_sample(void* context, uint32_t step, const double* x, const double* dx,
                        const double* y, const double* dy) {
    (void)x, (void)y; // residuals are there already
    const window_job* job = context;
    const nsi_objective* e = job->e;
    const nsi_problem* p = e->p;
    const nsi_window* w = &e->windows.data[job->window];
    uint32_t columns = columns_of(e), nx = p->sizes.nx, k = step / p->substeps;
    size_t all = nsi_sensitivity_columns(job->sensitivity);
    const double* x0 = e->point.x + (size_t)job->window * nx;

    // Between samples there is nothing to compare.
    if (step % p->substeps != 0) return;

    // The end of a tied window is compared with the start of the next.
    if (k == w->length && nsi_is_tied(e, job->window)) {
        double* end = e->normal.ends + (size_t)job->window * nx * columns;
        for (uint32_t i = 0; i < nx; i++) {
            convert_row(job, x0, dx + i * all, e->tie_scale[i], end + (size_t)i * columns);
        }
    }

    // A row for each channel, with the square root of its robust weight.
    if (k < nsi_first_sample(e) || k > w->length) return;
    size_t first = (size_t)(k - nsi_first_sample(e)) * p->nchannel;
    for (uint32_t c = 0; c < p->nchannel; c++) {
        const nsi_source* s = &p->sources[c];
        double weight = e->row_weight[e->row_at[job->window] + first + c];
        double* out = job->rows + (first + c) * columns;

        // What was not recorded has no weight: a row of zeros adds nothing.
        if (weight == 0.0) {
            memset(out, 0, columns * sizeof(double));
            continue;
        }
        const double* d = s->state ? dx + s->number * all : dy + s->number * all;
        convert_row(job, x0, d, e->scale[c] * sqrt(weight), out);
    }
}

// The residual that stands beside a row.
static double weighted(const nsi_objective* e, size_t row) {
    return e->residuals[row] * sqrt(e->row_weight[row]);
}

// Products of a window's rows with the directions of its initial state.
static void add_state_products(nsi_objective* e, uint32_t window, const double* rows) {
    uint32_t nt = e->nt, n = e->n, columns = columns_of(e);
    double* Hxx = e->normal.Hxx + (size_t)window * nt * nt;
    double* Hxn = e->normal.Hxn + (size_t)window * nt * n;
    double* gx = e->normal.gx + (size_t)window * nt;
    for (uint32_t r = 0; r < rows_of(e, window); r++) {
        const double* row = rows + (size_t)r * columns;
        double residual = weighted(e, e->row_at[window] + r);
        for (uint32_t i = 0; i < nt; i++) {
            double a = row[i];
            gx[i] += a * residual;
            for (uint32_t j = 0; j <= i; j++) Hxx[i * nt + j] += a * row[j];
            for (uint32_t j = 0; j < n; j++) Hxn[(size_t)i * n + j] += a * row[nt + j];
        }
    }
}

// Is row b a multiple of row a, which has a large number at `pivot`, up to rounding?
static bool is_multiple(uint32_t columns, const double* a, uint32_t pivot, const double* b,
                        double* ratio) {
    enum { BLOCK = 64 }; // looked at before giving up: without branches this is much faster
    double c = b[pivot] / a[pivot], most = 1e-12 * fabs(b[pivot]);
    bool same = isfinite(c);
    for (uint32_t from = 0; from < columns && same; from += BLOCK) {
        uint32_t to = columns - from < BLOCK ? columns : from + BLOCK;
        for (uint32_t k = from; k < to; k++) same &= fabs(b[k] - c * a[k]) <= most;
    }
    *ratio = c;
    return same;
}

// One of the largest numbers of a row: the largest of every 16th.
static uint32_t large_of(uint32_t columns, const double* row) {
    uint32_t at = 0;
    for (uint32_t k = 0; k < columns; k += 16) {
        if (fabs(row[k]) > fabs(row[at])) at = k;
    }
    return at;
}

// Rows of a window as few as they can be without a change of any product: those of missing samples go,
// and those of one sample that are multiples of each other become one. After one step of semi-implicit
// Euler, a position depends on weights as dt times its velocity does.
static uint32_t fold_rows(const nsi_objective* e, uint32_t window, double* rows,
                          double* residuals) {
    enum { MOST = 64 }; // channels, for which this is done
    uint32_t columns = columns_of(e), channels = e->p->nchannel, count = rows_of(e, window);
    uint32_t kept = 0, first = 0, pivots[MOST];
    for (uint32_t r = 0; r < count; r++) residuals[r] = weighted(e, e->row_at[window] + r);

    // Few unknowns: folding costs more than it saves.
    if (e->n < FOLD_FROM || channels > MOST) return count;
    for (uint32_t r = 0; r < count; r++) {
        double *row = rows + (size_t)r * columns, ratio;
        if (r % channels == 0) first = kept;
        if (e->row_weight[e->row_at[window] + r] == 0.0) continue;

        // Look for a row of this sample that is a multiple of it.
        uint32_t same = first;
        while (same < kept && !is_multiple(columns, rows + (size_t)same * columns,
                                           pivots[same - first], row, &ratio)) {
            same++;
        }

        // Fold it in: one row whose square is the sum of both.
        double* to = rows + (size_t)same * columns;
        if (same < kept) {
            double length = sqrt(1.0 + ratio * ratio);
            for (uint32_t k = 0; k < columns; k++) to[k] *= length;
            residuals[same] = (residuals[same] + ratio * residuals[r]) / length;
            continue;
        }

        // Otherwise keep it as a row of its own.
        if (to != row) memcpy(to, row, columns * sizeof(double));
        residuals[kept] = residuals[r];
        pivots[kept - first] = large_of(columns, row);
        kept++;
    }
    return kept;
}

static bool fill_window(nsi_objective* e, uint32_t window, uint32_t thread, double* rows) {
    const ns_system_sizes* z = &e->p->sizes;
    uint32_t variant = e->variant[window];
    nsi_sensitivity* sensitivity = e->normal.sensitivity[(size_t)thread * e->p->nvariant + variant];
    window_job job = {e, window, sensitivity, rows};
    nsi_sensitivity_args args = {
        .steps = nsi_problem_steps(e->p, e->windows.data[window].length),
        .x0 = e->point.x + (size_t)window * z->nx,
        .controls = e->controls ? e->controls + e->control_at[window] * z->nc : NULL,
        .params = e->params + e->p->param_at[variant],
        .weights = e->point.w,
        .every = e->p->substeps,
        .along = e->dparams + (size_t)e->p->param_at[variant] * e->nz};
    if (!nsi_sensitivity_run(sensitivity, &args, take_sample, &job)) return false;
    if (e->nt > 0) add_state_products(e, window, rows);
    return true;
}

// Jacobians of windows first .. first + count into the slab, one below the other.
static bool fill_slab(nsi_objective* e, uint32_t first, uint32_t count) {
    bool ok = true;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic, 1) num_threads((int)e->threads) reduction(&& : ok)
#endif
    for (int i = 0; i < (int)count; i++) {
        uint32_t window = first + (uint32_t)i, thread = 0;
#ifdef _OPENMP
        thread = (uint32_t)omp_get_thread_num();
#endif
        size_t row = e->row_at[window] - e->row_at[first];
        double* rows = e->normal.slab + row * columns_of(e);
        ok = fill_window(e, window, thread, rows) && ok;
        e->normal.kept[i] = fold_rows(e, window, rows, e->normal.slab_residual + row);
    }
    return ok;
}

// Rows that are left one below the other; how many are there?
static uint32_t close_gaps(nsi_objective* e, uint32_t first, uint32_t count) {
    nsi_normal* m = &e->normal;
    uint32_t columns = columns_of(e);
    size_t to = 0;
    for (uint32_t i = 0; i < count; to += m->kept[i++]) {
        size_t from = e->row_at[first + i] - e->row_at[first];
        if (from == to) continue;
        memmove(m->slab + to * columns, m->slab + from * columns,
                (size_t)m->kept[i] * columns * sizeof(double));
        memmove(m->slab_residual + to, m->slab_residual + from, m->kept[i] * sizeof(double));
    }
    return (uint32_t)to;
}

// ---- sums --------------------------------------------------------------------------------------

// The tie of a window to the next one: its rows depend on both starts and on the numbers.
static void add_tie(nsi_objective* e, uint32_t window) {
    nsi_normal* m = &e->normal;
    uint32_t nt = e->nt, n = e->n, nx = e->p->sizes.nx;
    double *unit = m->row, *after = unit + nx; // after: for the start of the next window
    size_t here = (size_t)window * nt, next = here + nt;
    nsi_objective_continuity(e, &e->point, window, e->tie);

    // Each component of the state is a residual of its own.
    for (uint32_t k = 0; k < nx; k++) {
        const double* row = m->ends + ((size_t)window * nx + k) * columns_of(e);
        double r = e->tie[k];
        if (e->tie_scale[k] == 0.0) continue;

        // Its derivative for the next window's start.
        memset(unit, 0, nx * sizeof(double));
        unit[k] = -e->tie_scale[k];
        nsi_problem_tangent(e->p, e->point.x + ((size_t)window + 1) * nx, unit, after);

        // Blocks of both initial states, between them, and with the shared unknowns.
        for (uint32_t i = 0; i < nt; i++) {
            m->gx[here + i] += row[i] * r;
            m->gx[next + i] += after[i] * r;
            for (uint32_t j = 0; j <= i; j++) {
                m->Hxx[(here + i) * nt + j] += row[i] * row[j];
                m->Hxx[(next + i) * nt + j] += after[i] * after[j];
            }
            for (uint32_t j = 0; j < nt; j++) m->Hnext[(here + i) * nt + j] += row[i] * after[j];
            for (uint32_t j = 0; j < n; j++) {
                m->Hxn[(here + i) * n + j] += row[i] * row[nt + j];
                m->Hxn[(next + i) * n + j] += after[i] * row[nt + j];
            }
        }

        // The shared unknowns.
        nsi_dense_add_gram(1, n, row + nt, columns_of(e), m->H, 1);
        for (uint32_t j = 0; j < n; j++) m->g[j] += row[nt + j] * r;
    }
}

// What penalties add in terms of z. With `natural` numbers priors are left out: what the residuals
// say counts by their standard deviation, which is not known yet, and a prior does not.
static void add_penalty(nsi_objective* e, bool natural) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n, nz = e->nz;
    for (uint32_t k = 0; k < nz && !natural; k++) {
        nsi_prior prior = nsi_prior_of(e, k);
        double weight = 1.0 / (prior.deviation * prior.deviation);
        if (weight == 0.0) continue;
        const double* dv = e->dv + (size_t)k * nz;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t row = nsi_column_of(e, i);
            if (row >= nz) continue;
            m->g[i] += weight * (e->v[k] - prior.mean) * dv[row];
            for (uint32_t j = 0; j <= i; j++) {
                uint32_t column = nsi_column_of(e, j);
                if (column < nz) m->H[(size_t)i * n + j] += weight * dv[row] * dv[column];
            }
        }
    }
    for (uint32_t k = 0; k < n; k++) {
        uint32_t column = nsi_column_of(e, k);
        if (column < nz) continue;
        double decay = e->decay[column - nz] * e->nresidual;
        m->g[k] += decay * (e->point.w[column - nz] - nsi_weight_mean(e, column - nz));
        m->H[(size_t)k * n + k] += decay;
    }
}

// dp/dz from dp/dv and dv/dz, in place of dp/dv.
static void chain_params(nsi_objective* e) {
    uint32_t nz = e->nz;
    for (uint32_t i = 0; i < e->p->param_at[e->p->nvariant]; i++) {
        double* row = e->dparams + (size_t)i * nz;
        for (uint32_t j = 0; j < nz; j++) {
            e->scratch[j] = 0.0;
            for (uint32_t k = 0; k < nz; k++) e->scratch[j] += row[k] * e->dv[(size_t)k * nz + j];
        }
        memcpy(row, e->scratch, nz * sizeof(double));
    }
}

bool nsi_normal_linearise(nsi_objective* e, bool natural, double* value) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n, nt = e->nt, count = e->windows.count;

    // Cost at the point; without one there are no equations.
    *value = need_normal(e) ? nsi_objective_cost(e) : INFINITY;
    if (!isfinite(*value)) return false;
    m->squares = e->squares;

    // Parameters and their derivatives for z, or for their natural values.
    nsi_objective_set_params(e, e->point.z, true);
    if (!natural) chain_params(e);

    // Start from zero.
    memset(m->H, 0, (size_t)n * n * sizeof(double));
    memset(m->g, 0, n * sizeof(double));
    memset(m->Hxx, 0, (size_t)count * nt * nt * sizeof(double));
    memset(m->Hnext, 0, (size_t)count * nt * nt * sizeof(double));
    memset(m->Hxn, 0, (size_t)count * nt * n * sizeof(double));
    memset(m->gx, 0, (size_t)count * nt * sizeof(double));

    // Slab by slab: rows, then their products.
    for (uint32_t first = 0; first < count; first += m->slab_windows) {
        uint32_t windows = count - first < m->slab_windows ? count - first : m->slab_windows;
        if (!fill_slab(e, first, windows)) return false;
        uint32_t rows = close_gaps(e, first, windows);

        // Matrix and gradient of the shared unknowns, in the order of windows: the same bits with any number of threads.
        nsi_dense_add_gram(rows, n, m->slab + nt, columns_of(e), m->H, e->threads);
        for (size_t r = 0; r < rows; r++) {
            const double* row = m->slab + r * columns_of(e) + nt;
            double residual = m->slab_residual[r];
            for (uint32_t k = 0; k < n; k++) m->g[k] += row[k] * residual;
        }
    }

    // Ties between windows, then priors and weight decay.
    for (uint32_t k = 0; k < count; k++) {
        if (nsi_is_tied(e, k)) add_tie(e, k);
    }
    add_penalty(e, natural);
    return true;
}

// The penalty at a point; what is no weight does not count.
double nsi_penalty_at(const nsi_objective* e, const nsi_point* point) {
    if (e->penalty.ngroup == 0) return 0.0;
    memcpy(e->normal.x + e->nz, point->w, e->nw * sizeof(double));
    return nsi_penalty(&e->penalty, e->normal.x);
}

void nsi_objective_set_penalty(nsi_objective* e, const ns_solver_options* options) {
    e->penalty = *options;
    e->penalty.l1 *= e->nresidual;
    e->penalty.group_lasso *= e->nresidual;
}

bool nsi_objective_linearise(nsi_objective* e, double* value) {
    nsi_bounded_step_hold_off(e);
    bool done = nsi_normal_linearise(e, false, value);
    if (done) *value += nsi_penalty_at(e, &e->point);
    return done && isfinite(*value);
}
