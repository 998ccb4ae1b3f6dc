// Rows of equality constraints against differences, and responses against dense linear algebra.

#include "dyn/equality.h"

#include "dyn/dynamics_rig.h"
#include "support/modelfile.h"
#include "support/tracing.h"

#include <stdio.h>

// A weld of links of two trees, a connect to a ball joint's link and a polynomial between two more, all of
// which hold at the reference coordinates: 10 rows of 12 velocities.
static const char text[] =
    "<mujoco><compiler angle='radian'/><worldbody>"
    "<body name='a' pos='0.1 0.2 0.3' euler='0.1 0.2 0.3'><freejoint/>"
    "<inertial pos='0.1 0 0.05' mass='1' diaginertia='0.02 0.03 0.01'/>"
    "<body name='a1' pos='0.3 0 0.1' euler='0 0.4 0'><joint name='h' axis='0 1 1' ref='0.3'/>"
    "<inertial pos='0.1 0.1 0' mass='0.6' diaginertia='0.01 0.02 0.01'/>"
    "<body name='a2' pos='0.1 0.1 0'><joint name='s' type='ball'/>"
    "<inertial pos='0 0.1 0.2' mass='0.5' diaginertia='0.01 0.02 0.015'/></body></body></body>"
    "<body name='b' pos='-0.2 0 0.4'><joint name='x' axis='1 0 0.3' ref='-0.4'/>"
    "<inertial pos='0 0 0.1' mass='0.8' diaginertia='0.02 0.01 0.02'/>"
    "<body name='b2' pos='0 0 0.3'><joint name='y' type='slide' axis='0 1 0' ref='0.2'/>"
    "<inertial pos='0 0.1 0' mass='0.3' diaginertia='0.01 0.01 0.01'/></body></body></worldbody>"
    "<equality><weld name='w' body1='a1' body2='b2' anchor='0.1 -0.2 0.3'/>"
    "<connect name='c' body1='a2' body2='b' anchor='0.3 0.1 0'/>"
    "<joint name='p' joint1='y' joint2='x' polycoef='0 0.4 0.3 -0.2 0.6'/></equality></mujoco>";
enum { NQ = 14, NV = 12, ROWS = 10, NOUT = 3 * ROWS + ROWS * NV + NV * NV + 2 * NV };

// What a graph of the model gives at a state.
typedef struct rows_at {
    double phi[ROWS], rate[ROWS], drift[ROWS], J[ROWS * NV], M[NV * NV];
    double projected[NV], response[NV]; // of a given row: what is left, M^-1 times it
} rows_at;

// J = 1, 2, .. of that row.
static double test_row(uint32_t k) {
    return sin(1.0 + 2.0 * k);
}

static ns_graph* trace_rows(const ns_model* model) {
    ns_graph* g = tracing_begin();
    ns_expr q[NQ], qd[NV], M[NV * NV], F[NV * NV], root[NV], rate[ROWS], z[NV], y[NV];
    ns_model_sizes n = ns_model_get_sizes(model);
    ns_expr* param = malloc(n.nparam * sizeof *param);
    char name[32];
    assert_true(n.nq == NQ && n.nv == NV && param);
    for (uint32_t k = 0; k < NQ; k++) snprintf(name, sizeof name, "q%u", k), q[k] = ns_input(name);
    for (uint32_t k = 0; k < NV; k++) {
        snprintf(name, sizeof name, "qd%u", k);
        qd[k] = ns_input(name);
    }
    for (uint32_t k = 0; k < n.nparam; k++) param[k] = ns_const(ns_model_param(model, k)->value);

    // Rows, and a row of another Jacobian as the constrained robot feels it.
    nsi_robot robot;
    nsi_equality rows;
    assert_true(nsi_robot_init(&robot, model, param, q, qd));
    nsi_crba(&robot, M);
    memcpy(F, M, sizeof F);
    nsi_ltdl_factor(NV, F);
    for (uint32_t k = 0; k < NV; k++)
        root[k] = ns_sqrt(F[k * NV + k]), z[k] = ns_const(test_row(k));
    assert_true(nsi_equality_rows(&robot, &rows));
    assert_int_equal(rows.n, ROWS);
    assert_true(nsi_equality_factor(&robot, F, root, &rows));
    nsi_equality_rates(&rows, qd, rate);
    nsi_ltdl_begin(NV, F, z);
    for (uint32_t k = 0; k < NV; k++) z[k] = ns_mul(z[k], root[k]);
    nsi_equality_project(&robot, &rows, z, NULL);
    for (uint32_t k = 0; k < NV; k++) y[k] = ns_mul(z[k], root[k]);
    nsi_ltdl_finish(NV, F, y);

    const struct {
        const ns_expr* x;
        uint32_t count;
    } outputs[] = {
        {rows.phi, ROWS}, {rate, ROWS}, {rows.drift, ROWS}, {rows.J, ROWS * NV}, {M, NV * NV},
        {z, NV},          {y, NV}};
    for (uint32_t i = 0, at = 0; i < sizeof outputs / sizeof *outputs; i++) {
        for (uint32_t k = 0; k < outputs[i].count; k++) {
            snprintf(name, sizeof name, "y%u", at++);
            ns_output(name, outputs[i].x[k]);
        }
    }
    tracing_end();
    free(param);
    return g;
}

static rows_at rows_of_state(const ns_graph* g, const double* q, const double* qd) {
    double in[NQ + NV];
    rows_at at;
    assert_int_equal(sizeof at, NOUT * sizeof(double));
    memcpy(in, q, NQ * sizeof *q);
    memcpy(in + NQ, qd, NV * sizeof *qd);
    run_graph(g, in, (double*)&at);
    return at;
}

// The reference: the free joint at its origin, joints at `ref`.
static void reference_state(const ns_model* model, double* q) {
    ns_model_default_q(model, q);
    for (uint32_t i = 0; i < ns_model_get_sizes(model).nlink; i++) {
        const ns_link_def* link = ns_model_link(model, i);
        if (ns_joint_type_info(link->joint_type)->has_axis) {
            q[ns_model_joint_q(model, i)] = link->reference;
        }
    }
}

static void constraints_hold_at_the_reference(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(text);
    ns_graph* g = trace_rows(model);
    double q[NQ], qd[NV] = {0.0};
    reference_state(model, q);
    rows_at at = rows_of_state(g, q, qd);
    assert_true(largest(ROWS, at.phi) < 1e-14);
    ns_graph_free(g);
    ns_model_free(model);
}

// d phi / dt = J qd, and d (J qd) / dt = drift at constant qd. Velocities of anchors are taken at the point
// between them, and the rate of a rotation vector is the relative angular velocity only where it is zero: so
// rates are those of violations where there is none, those of joints at any state.
static void rates_are_those_of_violations(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(text);
    ns_graph* g = trace_rows(model);
    ns_rng rng = ns_rng_seed(3);
    for (int trial = 0; trial < 20; trial++) {
        double from[NQ], q[NQ], qd[NV], step[NV], rate[ROWS] = {0.0}, drift[ROWS] = {0.0};
        bool on = trial % 2 == 0;
        reference_state(model, from);
        randomize(&rng, step, NV, on ? 0.0 : 0.5);
        move_coordinates(model, from, step, q);
        randomize(&rng, qd, NV, 1.0);
        rows_at at = rows_of_state(g, q, qd);
        const double h = 1e-3;
        for (int k = -3; k <= 3; k++) {
            if (k == 0) continue;
            double weight = (k > 0 ? 1.0 : -1.0) * difference_weight[abs(k) - 1] / h, moved[NQ];
            for (uint32_t i = 0; i < NV; i++) step[i] = k * h * qd[i];
            move_coordinates(model, q, step, moved);
            rows_at there = rows_of_state(g, moved, qd);
            for (uint32_t i = 0; i < ROWS; i++) {
                rate[i] += weight * there.phi[i];
                drift[i] += weight * there.rate[i];
            }
        }
        for (uint32_t i = 0; i < ROWS; i++) {
            bool joints = i == ROWS - 1;
            if (on || joints) close_to("rate", at.rate[i], rate[i], 1e-9);
            close_to("drift", at.drift[i], drift[i], 1e-9);
        }
    }
    ns_graph_free(g);
    ns_model_free(model);
}

// M^-1 K' - M^-1 J'(J M^-1 J')^-1 J M^-1 K', by Cholesky factors of both matrices.
static void responses_are_those_of_the_constrained_robot(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(text);
    ns_graph* g = trace_rows(model);
    double q[NQ], qd[NV] = {0.0}, K[NV], u[NV], X[ROWS * NV], A[ROWS * ROWS], b[ROWS], l[ROWS];
    reference_state(model, q);
    rows_at at = rows_of_state(g, q, qd);
    for (uint32_t k = 0; k < NV; k++) K[k] = test_row(k);
    assert_true(cholesky(NV, at.M));
    cholesky_solve(NV, at.M, K, u);
    double free_response = dot(NV, K, u);
    for (uint32_t i = 0; i < ROWS; i++) cholesky_solve(NV, at.M, at.J + i * NV, X + i * NV);
    for (uint32_t i = 0; i < ROWS; i++) {
        for (uint32_t j = 0; j < ROWS; j++) A[i * ROWS + j] = dot(NV, at.J + i * NV, X + j * NV);
        b[i] = dot(NV, at.J + i * NV, u);
    }
    assert_true(cholesky(ROWS, A));
    cholesky_solve(ROWS, A, b, l);
    for (uint32_t k = 0; k < NV; k++) {
        for (uint32_t i = 0; i < ROWS; i++) u[k] -= X[i * NV + k] * l[i];
    }

    // To the regularisation, 1e-9 of the diagonal, times the condition number.
    all_close(at.response, u, NV, 1e-6 * largest(NV, u));
    close_relative(dot(NV, at.projected, at.projected), dot(NV, K, u), 1e-6);
    assert_true(dot(NV, K, u) < 0.9 * free_response);
    ns_graph_free(g);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constraints_hold_at_the_reference),
        cmocka_unit_test(rates_are_those_of_violations),
        cmocka_unit_test(responses_are_those_of_the_constrained_robot),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
