// Gauss-Newton steps: initial states eliminated by their Schur complement, then the rest.
//
// With the damped blocks D_w = Hxx + damping diag(Hxx), and B_w the coupling of the start of window w
// to that of the next, the elimination goes along a recording:
//
//     L_w L_w' = D_w - E_{w-1}' E_{w-1}     E_w = L_w^-1 B_w     Y_w = L_w^-1 (Hxn_w - E' Y_{w-1})
//     S = H + damping diag(H) - sum_w Y_w' Y_w

#include "solver/solvers.h"
#include "sysid/bounded_step.h"

#include <math.h>

// Of a step with a penalty. One that is not the exact minimum still goes down.
enum { INNER_ITERATIONS = 1000 };
static const double INNER_TOLERANCE = 1e-9;

// b (n x count) := L^-1 b.
static void forward(uint32_t n, const double* L, uint32_t count, double* b) {
    for (uint32_t i = 0; i < n; i++) {
        double* row = b + (size_t)i * count;
        for (uint32_t k = 0; k < i; k++) {
            const double* other = b + (size_t)k * count;
            for (uint32_t j = 0; j < count; j++) row[j] -= L[i * n + k] * other[j];
        }
        for (uint32_t j = 0; j < count; j++) row[j] /= L[i * n + i];
    }
}

static bool small_cholesky(uint32_t n, double* A) {
    for (uint32_t j = 0; j < n; j++) {
        for (uint32_t k = 0; k < j; k++) A[j * n + j] -= A[j * n + k] * A[j * n + k];
        if (!(A[j * n + j] > 0.0)) return false;
        A[j * n + j] = sqrt(A[j * n + j]);
        for (uint32_t i = j + 1; i < n; i++) {
            for (uint32_t k = 0; k < j; k++) A[i * n + j] -= A[i * n + k] * A[j * n + k];
            A[i * n + j] /= A[j * n + j];
        }
    }
    return true;
}

// Diagonal of initial states of all windows together (nt): what a direction that one window says nothing
// about is damped by. One that no window says anything about, such as the spin of a ball of which only
// positions are recorded, has nothing but rounding there and is damped as the others are.
static void mean_diagonal(const nsi_objective* e, double* out) {
    const double rounding = 1e-24; // derivatives of 1e-12
    uint32_t nt = e->nt, count = e->windows.count;
    double largest = 0.0;
    for (uint32_t i = 0; i < nt; i++) {
        out[i] = 0.0;
        for (size_t k = 0; k < count; k++) out[i] += e->normal.Hxx[(k * nt + i) * nt + i] / count;
        if (out[i] > largest) largest = out[i];
    }
    for (uint32_t i = 0; i < nt; i++) {
        if (!(out[i] > rounding * largest)) out[i] = largest > 0.0 ? largest : 1.0;
    }
}

// Factors of all initial states along their chains; false when one is singular.
static bool eliminate_states(nsi_objective* e, double damping) {
    nsi_normal* m = &e->normal;
    uint32_t nt = e->nt, n = e->n;

    // Work on copies: the same equations are solved again with other damping.
    memcpy(m->Y, m->Hxn, (size_t)e->windows.count * nt * n * sizeof(double));
    memcpy(m->yg, m->gx, (size_t)e->windows.count * nt * sizeof(double));
    memcpy(m->L, m->Hxx, (size_t)e->windows.count * nt * nt * sizeof(double));
    mean_diagonal(e, m->row);

    // Along the chain of windows.
    for (uint32_t w = 0; w < e->windows.count; w++) {
        size_t at = (size_t)w * nt;
        double *L = m->L + at * nt, *Y = m->Y + at * n, *yg = m->yg + at;

        // Damping by the block's own diagonal, and a little of the mean where that is 0.
        for (uint32_t i = 0; i < nt; i++) {
            L[i * nt + i] += damping * L[i * nt + i] + (1e-9 * damping + 1e-14) * m->row[i];
        }

        // What the elimination of the window before leaves in this one.
        if (w > 0 && nsi_is_tied(e, w - 1)) {
            const double *E = m->E + (at - nt) * nt, *Yb = m->Y + (at - nt) * n;
            for (uint32_t k = 0; k < nt; k++) {
                for (uint32_t i = 0; i < nt; i++) {
                    double a = E[k * nt + i];
                    yg[i] -= a * m->yg[at - nt + k];
                    for (uint32_t j = 0; j <= i; j++) L[i * nt + j] -= a * E[k * nt + j];
                    for (uint32_t j = 0; j < n; j++)
                        Y[(size_t)i * n + j] -= a * Yb[(size_t)k * n + j];
                }
            }
        }

        // Factor, and carry the coupling to the next window.
        if (!small_cholesky(nt, L)) return false;
        forward(nt, L, n, Y);
        forward(nt, L, 1, yg);
        if (nsi_is_tied(e, w)) {
            memcpy(m->E + at * nt, m->Hnext + at * nt, (size_t)nt * nt * sizeof(double));
            forward(nt, L, nt, m->E + at * nt);
        }
    }
    return true;
}

// The reduced matrix without damping of the numbers, and its right-hand side into `step`.
bool nsi_normal_reduce(nsi_objective* e, double damping) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n, rows = e->windows.count * e->nt;
    for (uint32_t k = 0; k < n; k++) m->step[k] = -m->g[k];
    memset(m->S, 0, (size_t)n * n * sizeof(double));
    if (e->nt > 0) {
        if (!eliminate_states(e, damping)) return false;
        nsi_dense_add_gram(rows, n, m->Y, n, m->S, e->threads);
        for (uint32_t r = 0; r < rows; r++) {
            for (uint32_t k = 0; k < n; k++) m->step[k] += m->Y[(size_t)r * n + k] * m->yg[r];
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            m->S[(size_t)i * n + j] = m->H[(size_t)i * n + j] - m->S[(size_t)i * n + j];
        }
    }
    return true;
}

bool nsi_objective_eliminate_states(nsi_objective* e, double damping, double* S, double* b,
                                    double* squares) {
    nsi_normal* m = &e->normal;
    if (!nsi_normal_reduce(e, damping)) return false;
    memcpy(S, m->S, (size_t)e->n * e->n * sizeof(double));
    memcpy(b, m->step, e->n * sizeof(double));
    *squares = m->squares;
    for (uint32_t r = 0; r < e->windows.count * e->nt; r++) *squares -= m->yg[r] * m->yg[r];
    return true;
}

// Weights of networks are alike; parameters and coefficients of formulas have each a size of their own.
bool nsi_is_network_weight(const nsi_objective* e, uint32_t k) {
    uint32_t column = nsi_column_of(e, k);
    return column >= e->nz && !e->coefficient[column - e->nz];
}

// The mean of the diagonal of A (n x n) over weights of networks; 0 when there are none.
double nsi_mean_weight_diagonal(const nsi_objective* e, const double* A) {
    uint32_t weights = 0;
    double mean = 0.0;
    for (uint32_t k = 0; k < e->n; k++) weights += nsi_is_network_weight(e, k);
    for (uint32_t k = 0; k < e->n; k++) {
        if (nsi_is_network_weight(e, k)) mean += A[(size_t)k * e->n + k] / weights;
    }
    return mean;
}

// Damping: parameters each by their own diagonal (Marquardt 1963), weights by their mean.
static void damp(nsi_objective* e, double damping) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n;
    double mean = nsi_mean_weight_diagonal(e, m->H), most = 0.0;
    for (uint32_t k = 0; k < n; k++) most = fmax(most, m->H[(size_t)k * n + k]);
    double least = most > 0.0 ? 1e-14 * most : 1.0;
    for (uint32_t k = 0; k < n; k++) {
        double d = nsi_is_network_weight(e, k) ? mean : m->H[(size_t)k * n + k];
        m->S[(size_t)k * n + k] += damping * d + (d > least ? 0.0 : least);
    }
}

// Steps of initial states for a step of the numbers, last window first.
static void back_substitute(nsi_objective* e) {
    nsi_normal* m = &e->normal;
    uint32_t nt = e->nt, n = e->n;
    for (uint32_t w = e->windows.count; w-- > 0;) {
        size_t at = (size_t)w * nt;
        const double *L = m->L + at * nt, *Y = m->Y + at * n;
        double* x = m->step_x + at;
        for (uint32_t i = 0; i < nt; i++) {
            x[i] = -m->yg[at + i];
            for (uint32_t j = 0; j < n; j++) x[i] -= Y[(size_t)i * n + j] * m->step[j];
            for (uint32_t j = 0; nsi_is_tied(e, w) && j < nt; j++) {
                x[i] -= m->E[(at + i) * nt + j] * x[nt + j];
            }
        }
        for (uint32_t i = nt; i-- > 0;) {
            for (uint32_t k = i + 1; k < nt; k++) x[i] -= L[k * nt + i] * x[k];
            x[i] /= L[i * nt + i];
        }
    }
}

// Does a step change a positive number more than twentyfold? A linear model knows nothing of what is
// there, and near zero nothing leads back.
static bool is_too_long(const nsi_objective* e) {
    for (uint32_t k = 0; k < e->n; k++) {
        uint32_t column = nsi_column_of(e, k);
        if (column >= e->nz) continue;
        ns_parameter_transform transform = ns_parameters_at(e->p->parameters, column)->transform;
        bool logarithm = transform == NS_PARAMETER_LOG || transform == NS_PARAMETER_INERTIA;
        if (logarithm && fabs(e->normal.step[k]) > 3.0) return true;
    }
    return false;
}

// With a penalty, the step leads to the minimum of the damped quadratic and the penalty: a proximal
// Gauss-Newton step (Lee, Sun & Saunders 2014, Proximal Newton-type methods). In terms of the weights
// x = w + step the model is 1/2 x'Sx + b'x, b = -Sw - r, with r the right-hand side, which is in
// `step` and replaced.
// `predicted` receives the decrease of the penalty alone.
static bool solve_with_penalty(nsi_objective* e, double* predicted) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n;
    double most = 0.0, before = nsi_penalty_at(e, &e->point);

    // Parameters carry no penalty: for them the step itself is the unknown.
    memset(m->x, 0, e->nz * sizeof *m->x);
    for (uint32_t k = 0; k < n; k++) most = fmax(most, m->S[(size_t)k * n + k]);

    // The linear part of the model around 0, since the penalty is of the weights, not of their
    // step.
    for (uint32_t i = 0; i < n; i++) {
        m->b[i] = -m->step[i];
        for (uint32_t j = 0; j < n; j++) {
            m->b[i] -= m->S[(size_t)(j < i ? i : j) * n + (j < i ? j : i)] * m->x[j];
        }
    }

    // Minimise quadratic and penalty; the step bound is that of the largest diagonal entry.
    ns_solver_options options = e->penalty;
    options.max_iterations = INNER_ITERATIONS;
    options.tolerance = INNER_TOLERANCE;
    options.step = most > 0.0 ? 1.0 / most : 1.0;
    if (!nsi_proximal_quadratic(n, m->S, m->b, m->x, &options)) return false;

    // The step, and what it gains of the penalty.
    *predicted = before - nsi_penalty(&e->penalty, m->x);
    for (uint32_t i = 0; i < n; i++) {
        m->step[i] = m->x[i] - (i < e->nz ? 0.0 : e->point.w[i - e->nz]);
    }
    return true;
}

// The decrease -g's - 1/2 s'Hs of the quadratic without damping for the step s of numbers and initial states.
// Half the slope would be that of the damped one, and only where no bound stops the step.
static double model_decrease(const nsi_objective* e) {
    const nsi_normal* m = &e->normal;
    uint32_t n = e->n, nt = e->nt;
    double slope = 0.0, bend = 0.0; // g's and s'Hs

    // Numbers.
    for (uint32_t i = 0; i < n; i++) {
        const double* row = m->H + (size_t)i * n;
        double sum = 0.5 * row[i] * m->step[i];
        for (uint32_t j = 0; j < i; j++) sum += row[j] * m->step[j];
        slope += m->g[i] * m->step[i];
        bend += 2.0 * sum * m->step[i];
    }

    // Initial states: with themselves, with numbers, and with the start of the next window.
    for (uint32_t w = 0; w < e->windows.count; w++) {
        size_t at = (size_t)w * nt;
        const double* x = m->step_x + at;
        for (uint32_t i = 0; i < nt; i++) {
            const double *own = m->Hxx + (at + i) * nt, *cross = m->Hxn + (at + i) * n;
            double sum = 0.5 * own[i] * x[i];
            for (uint32_t j = 0; j < i; j++) sum += own[j] * x[j];
            for (uint32_t j = 0; j < n; j++) sum += cross[j] * m->step[j];
            for (uint32_t j = 0; nsi_is_tied(e, w) && j < nt; j++) {
                sum += m->Hnext[(at + i) * nt + j] * x[nt + j];
            }
            slope += m->gx[at + i] * x[i];
            bend += 2.0 * sum * x[i];
        }
    }
    return -slope - 0.5 * bend;
}

bool nsi_objective_solve(nsi_objective* e, double damping, double* predicted) {
    nsi_normal* m = &e->normal;
    uint32_t n = e->n;
    if (!nsi_normal_reduce(e, damping)) return false;
    damp(e, damping);
    if (e->penalty.ngroup > 0) {
        bool solved = solve_with_penalty(e, predicted);
        if (!solved || is_too_long(e)) return false;
        back_substitute(e);
        *predicted += model_decrease(e);
        return true;
    }
    bool bounded = nsi_has_bounded_numbers(e);
    if (bounded) {
        if (!nsi_bounded_step_solve(e)) return false;
    } else if (n > 0) {
        if (!nsi_dense_cholesky(n, m->S, e->threads)) return false;
        nsi_dense_cholesky_solve(n, m->S, 1, m->step);
    }
    if (is_too_long(e)) return false;
    back_substitute(e);
    // The linear step leads to the same values as the finished one, in which the quadratic is meant.
    *predicted = model_decrease(e);
    if (bounded) nsi_bounded_step_finish(e);
    return true;
}

void nsi_objective_set_step(nsi_objective* e, const double* step) {
    memcpy(e->normal.step, step, e->n * sizeof(double));
    back_substitute(e);
}

double nsi_objective_trial_cost(nsi_objective* e) {
    nsi_objective_moved(e, e->normal.step, e->normal.step_x, &e->trial);
    nsi_objective_repair(e, e->trial.z);
    return nsi_objective_cost_at(e, &e->trial) + nsi_penalty_at(e, &e->trial);
}

void nsi_objective_commit(nsi_objective* e) {
    nsi_point old = e->point;
    e->point = e->trial;
    e->trial = old;
}
