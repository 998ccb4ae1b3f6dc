// Conversions of states, held to what the other layouts mean: the same body in the same motion.

#include "neuralsim/convert.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const double tolerance = 1e-14;

// An unsymmetric floating body that carries a ball joint and two hinges, one of them limited.
static ns_model* make_model(void) {
    ns_model_builder* builder = NULL;
    ns_model* model = NULL;
    ns_error error;
    assert_int_equal(ns_model_builder_create(NULL, &builder, &error), NS_OK);
    static const struct {
        const char *name, *parent;
        ns_joint_type type;
        bool limited;
    } links[] = {{"base", NULL, NS_JOINT_FLOATING, false},
                 {"ball", "base", NS_JOINT_SPHERICAL, false},
                 {"wheel", "ball", NS_JOINT_REVOLUTE, false},
                 {"knee", "base", NS_JOINT_REVOLUTE, true},
                 {"rail", "knee", NS_JOINT_PRISMATIC, false}};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        ns_link_def def = ns_default_link_def();
        def.name = links[i].name;
        def.parent = links[i].parent;
        def.joint_type = links[i].type;
        def.limited = links[i].limited;
        def.lower = -2.0;
        def.upper = 2.0;
        def.mass = 1.5;
        def.com[0] = 0.3;
        def.com[1] = -0.2;
        def.com[2] = 0.5;
        def.inertia[0] = 0.02, def.inertia[1] = 0.03, def.inertia[2] = 0.04;
        assert_int_equal(ns_model_builder_add_link(builder, &def, &error), NS_OK);
    }
    assert_int_equal(ns_model_builder_finish(builder, &model, &error), NS_OK);
    ns_model_builder_free(builder);
    return model;
}

enum { NQ = 7 + 4 + 1 + 1 + 1, NV = 6 + 3 + 1 + 1 + 1 };

static const double q[NQ] = {0.1, -0.7, 1.3, 0.5, 0.5, -0.1, 0.7, // |quaternion| = 1
                             0.8, 0.0,  0.6, 0.0, 2.5, -0.4, 0.9};
static const double qd[NV] = {0.3, -1.1, 0.2, 0.7, -0.5, 1.9, 0.2, 0.4, -0.6, 3.0, -2.0, 0.8};

// R(q) written out as a matrix, independently of the library.
static void matrix(const double* w, double R[3][3]) {
    double a = w[0], b = w[1], c = w[2], d = w[3];
    double rows[3][3] = {{a * a + b * b - c * c - d * d, 2 * (b * c - a * d), 2 * (b * d + a * c)},
                         {2 * (b * c + a * d), a * a - b * b + c * c - d * d, 2 * (c * d - a * b)},
                         {2 * (b * d - a * c), 2 * (c * d + a * b), a * a - b * b - c * c + d * d}};
    memcpy(R, rows, sizeof rows);
}

static void assert_near(double a, double b) {
    if (!(fabs(a - b) <= tolerance)) fail_msg("%.17g is not %.17g", a, b);
}

static void pinocchio_means_the_same_motion(void** state) {
    (void)state;
    ns_model* model = make_model();
    assert_int_equal(ns_pinocchio_nq(model, false), NQ);
    assert_int_equal(ns_pinocchio_nq(model, true), NQ + 1); // the wheel alone has no limits
    double pq[NQ + 1], pv[NV], R[3][3];
    ns_state_to_pinocchio(model, true, q, qd, pq, pv);
    matrix(q + 3, R);
    for (int i = 0; i < 3; i++) {
        assert_near(pq[i], q[i]);
        // Linear velocity in the body's frame, turned back, is the one in the world.
        assert_near(R[i][0] * pv[0] + R[i][1] * pv[1] + R[i][2] * pv[2], qd[i]);
        assert_near(pv[3 + i], qd[3 + i]);
        assert_near(pq[3 + i], q[4 + i]); // x y z
        assert_near(pq[7 + i], q[8 + i]);
    }
    assert_near(pq[6], q[3]); // w last
    assert_near(pq[10], q[7]);
    assert_near(pq[11], cos(2.5));
    assert_near(pq[12], sin(2.5));
    assert_near(pq[13], -0.4);
    assert_near(pq[14], 0.9);
    for (int i = 6; i < NV; i++) assert_near(pv[i], qd[i]);
    ns_model_free(model);
}

static void pybullet_means_the_same_motion(void** state) {
    (void)state;
    ns_model* model = make_model();
    const double* com = ns_model_link(model, 0)->com;
    double bq[NQ], bv[NV], R[3][3];
    ns_state_to_pybullet(model, q, qd, bq, bv);
    matrix(q + 3, R);
    for (int i = 0; i < 3; i++) {
        double arm = R[i][0] * com[0] + R[i][1] * com[1] + R[i][2] * com[2];
        assert_near(bq[i], q[i] + arm);
        double omega = R[i][0] * qd[3] + R[i][1] * qd[4] + R[i][2] * qd[5];
        assert_near(bv[3 + i], omega);
        // d(R c)/dt = R (w x c)
        double spin[3] = {qd[4] * com[2] - qd[5] * com[1], qd[5] * com[0] - qd[3] * com[2],
                          qd[3] * com[1] - qd[4] * com[0]};
        double rate = qd[i] + R[i][0] * spin[0] + R[i][1] * spin[1] + R[i][2] * spin[2];
        assert_near(bv[i], rate);
        assert_near(bq[3 + i], q[4 + i]);
    }
    assert_near(bq[6], q[3]);
    for (int i = 11; i < NQ; i++) assert_near(bq[i], q[i]);
    ns_model_free(model);
}

static void conversions_come_back(void** state) {
    (void)state;
    ns_model* model = make_model();
    for (int form = 0; form < 3; form++) {
        double other_q[NQ + 1], other_v[NV], back_q[NQ], back_v[NV];
        if (form < 2) {
            ns_state_to_pinocchio(model, form == 1, q, qd, other_q, other_v);
            ns_state_from_pinocchio(model, form == 1, other_q, other_v, back_q, back_v);
        } else {
            ns_state_to_pybullet(model, q, qd, other_q, other_v);
            ns_state_from_pybullet(model, other_q, other_v, back_q, back_v);
        }
        for (int i = 0; i < NQ; i++) assert_near(back_q[i], q[i]);
        for (int i = 0; i < NV; i++) assert_near(back_v[i], qd[i]);
    }
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pinocchio_means_the_same_motion),
        cmocka_unit_test(pybullet_means_the_same_motion),
        cmocka_unit_test(conversions_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
