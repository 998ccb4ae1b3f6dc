// The command eval: quantities of states in a table against closed forms; tables that are wrong.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "cli/commands_rig.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void eval_agrees_with_the_closed_form(void** state) {
    (void)state;
    tempdir_write("s.csv", "t,q_hinge,qd0,tau0,energy\n0,0.4,1.5,0.2,7\n1,-2.5,-0.3,0,8\n");
    run_ok("eval " PENDULUM " --states s.csv --quantity qdd mass_matrix bias energy link/rod/pose "
           "--wrt q qd tau link/rod/mass joint/hinge/damping");
    assert_says(last.err, "s.csv: ignored 2 columns: t, energy\n");
    ns_table csv = table_of(last.out);
    static const double q[] = {0.4, -2.5}, qd[] = {1.5, -0.3}, tau[] = {0.2, 0.0};
    assert_int_equal(csv.nrow, 2);
    for (uint32_t k = 0; k < 2; k++) {
        double torque = tau[k] - mass * gravity * length * sin(q[k]) - damping * qd[k];
        double qdd = torque / moment, weight = gravity * length;
        close_relative(cell(&csv, k, "qdd0"), qdd, 1e-14);
        close_relative(cell(&csv, k, "mass_matrix_0_0"), moment, 1e-14);
        close_relative(cell(&csv, k, "bias0"), mass * weight * sin(q[k]), 1e-14);
        double kinetic = 0.5 * moment * qd[k] * qd[k], potential = -mass * weight * cos(q[k]);
        close_relative(cell(&csv, k, "energy/kinetic"), kinetic, 1e-14);
        close_relative(cell(&csv, k, "energy/potential"), potential, 1e-14);
        close_relative(cell(&csv, k, "energy/total"), kinetic + potential, 1e-14);
        close_relative(cell(&csv, k, "link/rod/pose/qw"), cos(q[k] / 2.0), 1e-14);
        close_relative(cell(&csv, k, "link/rod/pose/qy"), sin(q[k] / 2.0), 1e-14);

        close_relative(cell(&csv, k, "dqdd0/dq0"), -mass * weight * cos(q[k]) / moment, 1e-14);
        close_relative(cell(&csv, k, "dqdd0/dqd0"), -damping / moment, 1e-14);
        close_relative(cell(&csv, k, "dqdd0/dtau0"), 1.0 / moment, 1e-14);
        close_relative(cell(&csv, k, "dqdd0/djoint/hinge/damping"), -qd[k] / moment, 1e-14);
        double by_mass = -weight * sin(q[k]) / moment - qdd * length * length / moment;
        close_relative(cell(&csv, k, "dqdd0/dlink/rod/mass"), by_mass, 1e-13);
        close_relative(cell(&csv, k, "dmass_matrix_0_0/dlink/rod/mass"), length * length, 1e-14);
        close_relative(cell(&csv, k, "denergy/kinetic/dqd0"), moment * qd[k], 1e-14);
    }
    ns_table_free(&csv);
}

static void eval_takes_parameters_from_columns(void** state) {
    (void)state;
    tempdir_write("p.csv", "q0,link/rod/mass\n0.5,2\n0.5,4\n");
    run_ok("eval " PENDULUM " --states p.csv --quantity qdd0 mass_matrix_0_0 "
           "--set joint/hinge/damping=0 world/gravity/z=-1 -o r.csv");
    char* text = tempdir_read("r.csv");
    ns_table csv = table_of(text);
    assert_int_equal(csv.ncol, 2);
    for (uint32_t k = 0; k < 2; k++) {
        double m = k == 0 ? 2.0 : 4.0, inertia = 0.1 + m * length * length;
        close_relative(cell(&csv, k, "mass_matrix_0_0"), inertia, 1e-14);
        close_relative(cell(&csv, k, "qdd0"), -m * length * sin(0.5) / inertia, 1e-14);
    }
    ns_table_free(&csv);
    free(text);
}

static void eval_backends_give_the_same_bytes(void** state) {
    (void)state;
    tempdir_write("s.csv", "q_j_yaw,qd_j_elbow,tau_j_ball_1\n0.1,2,3\n-1,0.5,0.25\n");
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q qd tau "
           "--backend interp");
    char* interp = strdup(last.out);
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q qd tau "
           "--backend native");
    assert_string_equal(last.out, interp);
    free(interp);
}

static void eval_normalizes_quaternions(void** state) {
    (void)state;
    const char* eval = "eval " MODELS "quadruped.urdf --states s.csv --quantity link/trunk/pose";
    tempdir_write("s.csv", "q3,q4,q5,q6\n2,0,0,0\n0.6,0.8,0,0\n0,0,0,-3\n");
    run_ok(eval);
    assert_says(last.err,
                "s.csv: quaternions of 2 rows made unit length (first in line 2; off by up to "
                "2)\n");
    ns_table csv = table_of(last.out);
    close_relative(cell(&csv, 0, "link/trunk/pose/qw"), 1.0, 0.0);
    close_relative(cell(&csv, 0, "link/trunk/pose/z"), 0.4, 0.0); // of the model
    close_relative(cell(&csv, 1, "link/trunk/pose/qx"), 0.8, 1e-15);
    close_relative(cell(&csv, 2, "link/trunk/pose/qz"), -1.0, 0.0);
    ns_table_free(&csv);

    tempdir_write("s.csv", "q0\n5\n"); // quaternions that are missing are the identity
    run_ok(eval);
    assert_string_equal(last.err, "");
    csv = table_of(last.out);
    close_relative(cell(&csv, 0, "link/trunk/pose/x"), 5.0, 0.0);
    close_relative(cell(&csv, 0, "link/trunk/pose/qw"), 1.0, 0.0);
    ns_table_free(&csv);

    tempdir_write("s.csv", "q3,q4,q5,q6\n0,0,0,0\n");
    run_bad(eval, 1, "s.csv:2: a quaternion is zero; write 1 0 0 0 for no rotation");
}

// With --tangent the derivatives are those of the oracle, which come from central differences along
// q * exp(dq).
static void eval_tangents_are_those_of_the_oracle(void** state) {
    (void)state;
    json_error_t error;
    json_t* root =
        json_load_file(NEURALSIM_SOURCE_DIR "/tests/data/mujoco/oracle/arm7_mixed.json", 0, &error);
    if (!root) fail_msg("%s", error.text);
    json_t* list = json_object_get(root, "states");
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    nsi_text_add(&text, "q0,q1,q2,q3,q4,q5,q6,q7,qd0,qd1,qd2,qd3,qd4,qd5,qd6,"
                        "tau0,tau1,tau2,tau3,tau4,tau5,tau6\n");
    static const char* const parts[] = {"q", "qd", "tau"};
    for (size_t row = 0; row < 10; row++) {
        for (int k = 0; k < 3; k++) {
            json_t* numbers = json_object_get(json_array_get(list, row), parts[k]);
            for (size_t i = 0; i < json_array_size(numbers); i++) {
                if (k > 0 || i > 0) nsi_text_add(&text, ",");
                nsi_text_add_double(&text, json_number_value(json_array_get(numbers, i)));
            }
        }
        nsi_text_add(&text, "\n");
    }
    ns_text states;
    assert_int_equal(nsi_text_finish(&text, &states, NULL), NS_OK);
    tempdir_write("s.csv", states.data);
    ns_text_free(&states);
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q qd --tangent");
    ns_table csv = table_of(last.out);
    assert_int_equal(csv.ncol, 7 + 7 * 14);
    for (uint32_t row = 0; row < 10; row++) {
        json_t* sample = json_array_get(list, row);
        double off = 0.0, size = 0.0;
        for (size_t n = 0; n < 7 * 14; n++) {
            size_t i = n / 14, j = n % 7;
            const char* key = n % 14 < 7 ? "dqdd_dq" : "dqdd_dqd";
            json_t* line = json_array_get(json_object_get(sample, key), i);
            double expected = json_number_value(json_array_get(line, j));
            char column[64];
            snprintf(column, sizeof column, "dqdd%zu/d%s%zu", i, key + 6, j);
            off = fmax(off, fabs(cell(&csv, row, column) - expected));
            size = fmax(size, fabs(expected));
        }
        assert_true(size > 1.0);
        close_relative(off / size, 0.0, 1e-5); // the oracle's inertias are good to 1e-7
    }
    ns_table_free(&csv);
    json_decref(root);
}

// The derivative for the components of a quaternion gives that for the tangent by the chain rule.
static void eval_tangents_and_components_agree(void** state) {
    (void)state;
    tempdir_write("s.csv", "q2,q3,q4,q5,qd2,qd3,q6\n0.5,-0.5,0.1,0.7,1,-2,0.4\n");
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q2 q3 q4 q5 q6");
    ns_table components = table_of(last.out);
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --tangent "
           "--wrt q_j_ball_0 q3 q4 q_j_elbow");
    ns_table tangents = table_of(last.out);
    double norm = sqrt(0.25 + 0.25 + 0.01 + 0.49);
    double w = 0.5 / norm, x = -0.5 / norm, y = 0.1 / norm, z = 0.7 / norm;
    const double turn[3][4] = {{-x, w, z, -y}, {-y, -z, w, x}, {-z, y, -x, w}};
    static const char* const names[] = {"q_j_ball_0", "q3", "q4"};
    char column[64];
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < 3; k++) {
            double sum = 0.0;
            for (int j = 0; j < 4; j++) {
                snprintf(column, sizeof column, "dqdd%d/dq%d", i, j + 2);
                sum += 0.5 * turn[k][j] * cell(&components, 0, column);
            }
            snprintf(column, sizeof column, "dqdd%d/d%s", i, names[k]);
            close_relative(cell(&tangents, 0, column), sum, 1e-12);
        }
        char other[64];
        snprintf(column, sizeof column, "dqdd%d/dq6", i);
        snprintf(other, sizeof other, "dqdd%d/dq_j_elbow", i);
        close_relative(cell(&tangents, 0, other), cell(&components, 0, column), 0.0);
    }
    ns_table_free(&components);
    ns_table_free(&tangents);
}

static void eval_explains_bad_tables(void** state) {
    (void)state;
    const char* eval = "eval " PENDULUM " --states s.csv --quantity qdd";
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"q0,velocity\n1,2\n", "s.csv: column \"velocity\" is not part of this model; it takes "
                               "columns such as q0, qd0, tau0, q_hinge"},
        {"q1\n1\n", "s.csv: column \"q1\" is not part of this model"},
        {"q0,q_hinge\n1,2\n",
         "s.csv: columns \"q0\" and \"q_hinge\" refer to the same value; remove one"},
        {"q0\n1\nnan\n", "s.csv:3: column \"q0\" is nan; it must be finite"},
        {"q0,q_hinje\n1,2\n", "s.csv: column \"q_hinje\" is not part of this model; did you mean "
                              "\"q_hinge\"?"},
        {"link/rod/mas\n1\n", "did you mean \"link/rod/mass\"?"},
        {"length\n1\n", "('neuralsim quantities MODEL' lists all; with --params, parameters too)"},
        {"q0,link/rod/mass\n1,2\n1,-5\n", "s.csv:3: link/rod/mass = -5 is outside its range 0 to "
                                          "inf"},
        {"link/rod/inertia/xx\n9\n", "s.csv:2: link \"rod\": the inertia "},
        {"q0;qd0\n1;2\n", "s.csv:1:1: \"q0;qd0\": columns must be separated by commas"},
        {"q0,qd0\n1\n", "s.csv:2:2: 1 field for 2 columns"},
        {"q0\none\n", "s.csv:2:1: \"one\" in column \"q0\" is not a number"},
        {"q0\n", "s.csv: the table has no rows"},
        {"", "s.csv:1:1: there is no table"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        tempdir_write("s.csv", cases[k].text);
        run_bad(eval, 1, cases[k].message);
    }
    run_bad("eval " PENDULUM " --quantity qdd --set link/rod/mass=-5", 1,
            "--set: link/rod/mass = -5 is outside its range 0 to inf");
    run_bad("simulate " PENDULUM " --set link/rod/inertia/zz=7", 1, "not a physical inertia");
    run_bad("eval " PENDULUM " --states none.csv --quantity qdd", 1, "cannot open none.csv: ");
    run_bad("eval " PENDULUM " --quantity qddd", 1,
            "no quantity of the model matches \"qddd\"; did you mean \"qdd\"?");
    run_bad("eval " PENDULUM " --quantity qdd --free link/arm/mass", 1,
            "no parameter of the model matches \"link/arm/mass\"");
    // Results of an earlier run may stand in the table.
    tempdir_write("s.csv", "q0,qdd0,energy/total,bias0\n1,2,3,4\n");
    run_ok(eval);
    assert_says(last.err, "s.csv: ignored 3 columns: qdd0, energy/total, bias0\n");
}

static void ambiguous_joint_names_are_not_used(void** state) {
    (void)state;
    tempdir_write("s.csv", "q_a_0\n1\n");
    run_bad("eval " DATA "ball_and_names.urdf --states s.csv --quantity qdd", 1,
            "column \"q_a_0\" is not part of this model");
    assert_says(last.err, "column names by joint are ambiguous");
    tempdir_write("s.csv", "q4\n1\n");
    run_ok("eval " DATA "ball_and_names.urdf --states s.csv --quantity link/second/pose");
    ns_table csv = table_of(last.out);
    close_relative(cell(&csv, 0, "link/second/pose/qy"), sin(0.5), 1e-15);
    ns_table_free(&csv);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eval_agrees_with_the_closed_form),
        cmocka_unit_test(eval_takes_parameters_from_columns),
        cmocka_unit_test(eval_backends_give_the_same_bytes),
        cmocka_unit_test(eval_normalizes_quaternions),
        cmocka_unit_test(eval_tangents_are_those_of_the_oracle),
        cmocka_unit_test(eval_tangents_and_components_agree),
        cmocka_unit_test(eval_explains_bad_tables),
        cmocka_unit_test(ambiguous_joint_names_are_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
