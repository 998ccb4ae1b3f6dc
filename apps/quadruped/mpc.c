// The MPC's QP and its solution.
//
// States are roll pitch yaw, position, angular velocity w, velocity, gravity; forces f of the stance
// feet are constant in each of the N steps of dt:
//
//     d/dt rpy = T w    d/dt position = v    d/dt w = I^-1 sum r x f    d/dt v = sum f / m - (0, 0, g)
//
// with T (angular velocity to rates of roll, pitch and yaw), I and the feet r frozen over the horizon.
// The system matrix is nilpotent, so its exponential is short: a force of step j adds to the state i
// (counted from 1) dt G_v f to the velocities and dt^2 (i - j - 1/2) G_p f to the positions, with
// G_v = [I^-1 [r]x; 1/m] and G_p = [T I^-1 [r]x; 1/m]. Hence the Hessian of all forces is
//
//     H = 2 (a (x) G_p' Q_p G_p + b (x) G_v' Q_v G_v) + force_weight,    (x) the Kronecker product
//     a_jk = dt^4 sum_i (i - j - 1/2) (i - k - 1/2),    b_jk = dt^2 (N - max(j, k))
//
// where a and b are known from the start. Nothing is multiplied out.

#include "quadruped/mpc.h"

#include <math.h>

#define USABLE 1e-5 // residual of an answer that is better than none

enum {
    N = QUAD_MPC_STEPS,
    ROWS = 5,            // of a foot in a step: four of the pyramid, one normal
    ENTRIES = 2 * 4 + 1, // of these
    MOST_VARIABLES = N * QUAD_LEGS * 3,
    MOST_ROWS = N * QUAD_LEGS * ROWS,
};

struct quad_mpc {
    ns_allocator allocator;
    quad_qp* qp;
    quad_mpc_options options;
    double mass, inertia[3];
    double a[N][N], b[N][N];
    int8_t last[N][QUAD_LEGS][ROWS]; // active rows of the last answer

    double H[MOST_VARIABLES * MOST_VARIABLES], g[MOST_VARIABLES];
    uint32_t start[MOST_ROWS + 1], columns[N * QUAD_LEGS * ENTRIES];
    double values[N * QUAD_LEGS * ENTRIES], lower[MOST_ROWS], upper[MOST_ROWS];
    double x[MOST_VARIABLES], y[MOST_ROWS];
    int8_t active[MOST_ROWS];
};

ns_status quad_mpc_create(double mass, const double inertia[3], const quad_mpc_options* options,
                          const ns_allocator* allocator, quad_mpc** out, ns_error* error) {
    *out = NULL;
    quad_mpc* mpc = quad_alloc_zeroed(allocator, sizeof *mpc);
    if (!mpc) return quad_fail_nomem(error);
    mpc->allocator = allocator ? *allocator : ns_default_allocator();
    mpc->options = *options;
    mpc->mass = mass;
    memcpy(mpc->inertia, inertia, sizeof mpc->inertia);
    const double dt = options->timestep;
    for (int j = 0; j < N; j++) {
        for (int k = 0; k < N; k++) {
            for (int i = (j > k ? j : k) + 1; i <= N; i++) {
                mpc->a[j][k] += pow(dt, 4) * ((i - j - 0.5) * (i - k - 0.5));
                mpc->b[j][k] += dt * dt;
            }
        }
    }
    ns_status status = quad_qp_create(MOST_VARIABLES, MOST_ROWS, allocator, &mpc->qp, error);
    if (status != NS_OK) {
        quad_mpc_free(mpc);
        return status;
    }
    *out = mpc;
    return NS_OK;
}

void quad_mpc_free(quad_mpc* mpc) {
    if (!mpc) return;
    ns_allocator memory = mpc->allocator;
    quad_qp_free(mpc->qp);
    quad_free(&memory, mpc);
}

void quad_mpc_reset(quad_mpc* mpc) {
    memset(mpc->last, 0, sizeof mpc->last);
}

// ---- the model -----------------------------------------------------------------------------

// Most columns of G: three for each foot.
enum { WIDE = 3 * QUAD_LEGS };

typedef struct linear {
    uint32_t nfoot, feet[QUAD_LEGS];
    double T[9];
    double Gp[6][WIDE], Gv[6][WIDE];
} linear;

// From angular velocity to rates of roll, pitch and yaw, at yaw 0 (ZYX angles).
static void rates_matrix(double pitch, double T[9]) {
    double c = cos(pitch);
    if (fabs(c) < 1e-3) c = copysign(1e-3, c); // upended: the controller has called it a fall
    const double rows[9] = {1.0 / c, 0.0, 0.0, 0.0, 1.0, 0.0, sin(pitch) / c, 0.0, 1.0};
    memcpy(T, rows, sizeof rows);
}

// The inverse of the inertia, in the frame of the horizon: R I^-1 R' with R = Ry(pitch) Rx(roll).
static void inverse_inertia(const quad_mpc* mpc, const double rpy[2], double out[9]) {
    double cr = cos(rpy[0]), sr = sin(rpy[0]), cp = cos(rpy[1]), sp = sin(rpy[1]);
    const double R[9] = {cp, sp * sr, sp * cr, 0.0, cr, -sr, -sp, cp * sr, cp * cr};
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            double sum = 0.0;
            for (int k = 0; k < 3; k++) sum += R[3 * i + k] * R[3 * j + k] / mpc->inertia[k];
            out[3 * i + j] = sum;
        }
    }
}

static void multiply3(const double A[9], const double B[9], double out[9]) {
    for (int i = 0; i < 3; i++) {
        for (int j = 0; j < 3; j++) {
            double sum = 0.0;
            for (int k = 0; k < 3; k++) sum += A[3 * i + k] * B[3 * k + j];
            out[3 * i + j] = sum;
        }
    }
}

static void make_linear(const quad_mpc* mpc, const quad_mpc_input* in, linear* out) {
    *out = (linear){0};
    double inverse[9];
    rates_matrix(in->rpy[1], out->T);
    inverse_inertia(mpc, in->rpy, inverse);
    for (uint32_t foot = 0; foot < QUAD_LEGS; foot++) {
        if (!in->stands[foot]) continue;
        const double* r = in->feet[foot];
        const double cross[9] = {0.0, -r[2], r[1], r[2], 0.0, -r[0], -r[1], r[0], 0.0};
        double turn[9], rates[9];
        multiply3(inverse, cross, turn);
        multiply3(out->T, turn, rates);
        uint32_t column = 3 * out->nfoot;
        for (int i = 0; i < 3; i++) {
            for (uint32_t j = 0; j < 3; j++) {
                out->Gv[i][column + j] = turn[3 * i + (int)j];
                out->Gp[i][column + j] = rates[3 * i + (int)j];
            }
            out->Gv[3 + i][column + (uint32_t)i] = 1.0 / mpc->mass;
            out->Gp[3 + i][column + (uint32_t)i] = 1.0 / mpc->mass;
        }
        out->feet[out->nfoot++] = foot;
    }
}

// out = 2 G' diag(weights) G.
static void weigh(uint32_t wide, const double G[6][WIDE], const double* weights,
                  double out[WIDE][WIDE]) {
    for (uint32_t i = 0; i < wide; i++) {
        for (uint32_t j = 0; j <= i; j++) {
            double sum = 0.0;
            for (int k = 0; k < 6; k++) sum += weights[k] * G[k][i] * G[k][j];
            out[i][j] = out[j][i] = 2.0 * sum;
        }
    }
}

// ---- the QP --------------------------------------------------------------------------------

static void put_hessian(quad_mpc* mpc, const linear* model) {
    const uint32_t wide = 3 * model->nfoot, n = N * wide;
    double P[WIDE][WIDE], V[WIDE][WIDE];
    weigh(wide, model->Gp, mpc->options.state_weights, P);
    weigh(wide, model->Gv, mpc->options.state_weights + 6, V);
    for (uint32_t j = 0; j < N; j++) {
        for (uint32_t i = 0; i < wide; i++) {
            double* row = mpc->H + (size_t)(j * wide + i) * n;
            for (uint32_t k = 0; k < N; k++, row += wide) {
                double a = mpc->a[j][k], b = mpc->b[j][k];
                for (uint32_t l = 0; l < wide; l++) row[l] = a * P[i][l] + b * V[i][l];
            }
            mpc->H[(size_t)(j * wide + i) * (n + 1)] += mpc->options.force_weight;
        }
    }
}

// How far the states are from the wanted ones without forces, times their weights, is pulled back to
// the forces of each step.
static void put_gradient(quad_mpc* mpc, const linear* model, const quad_mpc_input* in) {
    const uint32_t wide = 3 * model->nfoot;
    const double dt = mpc->options.timestep, *weights = mpc->options.state_weights;
    // Position and velocity parts of the adjoint, by step and state.
    double rates[3], pull_p[N][6] = {{0}}, pull_v[N][6] = {{0}};

    // Rates of roll, pitch and yaw from the angular velocity.
    for (int i = 0; i < 3; i++) {
        rates[i] = 0.0;
        for (int k = 0; k < 3; k++) rates[i] += model->T[3 * i + k] * in->angular_velocity[k];
    }

    // Free response: the error at each step of the horizon if no force acts.
    for (int i = 1; i <= N; i++) {
        double t = i * dt, fall = mpc->options.gravity * t;
        // Yaw and horizontal position are relative: only their errors count.
        const double position[6] = {in->rpy[0] + t * rates[0],
                                    in->rpy[1] + t * rates[1],
                                    t * (rates[2] - in->wanted_yaw_rate),
                                    t * (in->velocity[0] - in->wanted_velocity[0]),
                                    t * (in->velocity[1] - in->wanted_velocity[1]),
                                    in->height + t * in->velocity[2] - 0.5 * t * fall -
                                        in->wanted_height};
        // Velocity errors.
        const double velocity[6] = {in->angular_velocity[0],
                                    in->angular_velocity[1],
                                    in->angular_velocity[2] - in->wanted_yaw_rate,
                                    in->velocity[0] - in->wanted_velocity[0],
                                    in->velocity[1] - in->wanted_velocity[1],
                                    in->velocity[2] - fall};

        // A force at step j affects all later states.
        for (int j = 0; j < i; j++) {
            for (int s = 0; s < 6; s++) {
                // Positions by a parabola, velocities linearly.
                pull_p[j][s] += 2.0 * dt * dt * (i - j - 0.5) * weights[s] * position[s];
                pull_v[j][s] += 2.0 * dt * weights[6 + s] * velocity[s];
            }
        }
    }

    // From accelerations to forces of the feet.
    for (uint32_t j = 0; j < N; j++) {
        for (uint32_t l = 0; l < wide; l++) {
            double sum = 0.0;
            for (int s = 0; s < 6; s++) {
                // Gp and Gv map forces to accelerations.
                sum += model->Gp[s][l] * pull_p[j][s] + model->Gv[s][l] * pull_v[j][s];
            }
            mpc->g[j * wide + l] = sum;
        }
    }
}

// The pyramid: +-f_x + mu f_z and +-f_y + mu f_z are not negative; and bounds on f_z.
static uint32_t put_rows(quad_mpc* mpc, uint32_t nfoot) {
    const quad_mpc_options* o = &mpc->options;
    const double weight = mpc->mass * o->gravity, most = o->most_force * weight;
    uint32_t row = 0, e = 0;
    for (uint32_t foot = 0; foot < N * nfoot; foot++) {
        const uint32_t x = 3 * foot;
        for (uint32_t side = 0; side < 4; side++) {
            mpc->start[row] = e;
            mpc->lower[row] = 0.0;
            mpc->upper[row++] = (o->friction + 1.0) * most;
            mpc->columns[e] = x + side / 2;
            mpc->values[e++] = side % 2 == 0 ? 1.0 : -1.0;
            mpc->columns[e] = x + 2;
            mpc->values[e++] = o->friction;
        }
        mpc->start[row] = e;
        mpc->lower[row] = o->least_force * weight;
        mpc->upper[row++] = most;
        mpc->columns[e] = x + 2;
        mpc->values[e++] = 1.0;
    }
    mpc->start[row] = e;
    return row;
}

quad_qp_problem quad_mpc_build(quad_mpc* mpc, const quad_mpc_input* input) {
    linear model;
    make_linear(mpc, input, &model);
    put_hessian(mpc, &model);
    put_gradient(mpc, &model, input);
    uint32_t rows = put_rows(mpc, model.nfoot);
    return (quad_qp_problem){.n = N * 3 * model.nfoot,
                             .m = rows,
                             .H = mpc->H,
                             .g = mpc->g,
                             .start = mpc->start,
                             .columns = mpc->columns,
                             .values = mpc->values,
                             .lower = mpc->lower,
                             .upper = mpc->upper};
}

// Between the active rows of the QP and those of all feet.
static void copy_active(quad_mpc* mpc, const bool stands[QUAD_LEGS], bool keep) {
    int8_t* at = mpc->active;
    for (int j = 0; j < N; j++) {
        for (int foot = 0; foot < QUAD_LEGS; foot++) {
            int8_t* last = mpc->last[j][foot];
            if (!stands[foot]) {
                if (keep) memset(last, 0, ROWS);
                continue;
            }
            memcpy(keep ? last : at, keep ? at : last, ROWS);
            at += ROWS;
        }
    }
}

bool quad_mpc_solve(quad_mpc* mpc, const quad_mpc_input* input, double forces[QUAD_LEGS][3],
                    quad_qp_report* report) {
    memset(forces, 0, QUAD_LEGS * sizeof *forces);
    *report = (quad_qp_report){.status = QUAD_QP_SOLVED};
    quad_qp_problem problem = quad_mpc_build(mpc, input);
    if (problem.n == 0) return true;
    copy_active(mpc, input->stands, false);
    *report = quad_qp_solve(mpc->qp, &problem, mpc->active, mpc->x, mpc->y);
    bool usable = report->status == QUAD_QP_SOLVED ||
                  (report->status == QUAD_QP_INEXACT && report->residual <= USABLE);
    if (!usable) {
        quad_mpc_reset(mpc);
        return false;
    }
    copy_active(mpc, input->stands, true);
    const double* x = mpc->x;
    for (int foot = 0; foot < QUAD_LEGS; foot++) {
        if (!input->stands[foot]) continue;
        memcpy(forces[foot], x, sizeof forces[foot]);
        x += 3;
    }
    return true;
}
