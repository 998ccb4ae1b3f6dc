// Recordings that a study simulates: motions, friction, rotations, noise.

#define _POSIX_C_SOURCE 200809L

#include "study_rig.h"

// The same motions as the command simulate makes from the same starts.
static void truth_is_simulated(void** state) {
    (void)state;
    uint32_t count, others;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE("") //
                    "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(study_rig_run("clean"));
    double* table = study_rig_numbers("clean/data/a.csv", &count);
    assert_int_equal(count, 15 * 101 * 6);
    FILE* starts = fopen(tempdir_path("starts.csv"), "w");
    fprintf(starts, "q_joint0,q_joint1,qd_joint0,qd_joint1\n");
    for (uint32_t k = 0; k < 15; k++) {
        const double* row = table + (size_t)k * 101 * 6;
        assert_true(row[0] == k && row[1] == 0.0);
        assert_true(fabs(row[2]) <= 2.0 && fabs(row[3]) <= 2.0);
        assert_true(row[4] == 0.5 && row[5] == 0.0);
        if (k > 0) assert_true(row[2] != table[2]);
        fprintf(starts, "%.17g,%.17g,%.17g,%.17g\n", row[2], row[3], row[4], row[5]);
    }
    fclose(starts);
    run_ok("simulate experiments/mine/truth.yaml --batch starts.csv --time 1 --dt 0.01"
           " --integrator rk4 -o same.csv");
    char* header = tempdir_read("same.csv");
    assert_int_equal(strncmp(header, "traj,t,q_joint0,q_joint1,qd_joint0,qd_joint1\n", 45), 0);
    double* same = study_rig_numbers("same.csv", &others);
    assert_int_equal(count, others);
    for (uint32_t k = 0; k < count; k++) assert_true(fabs(table[k] - same[k]) < 1e-12);
    free(header);
    free(table);
    free(same);
}

// A block slides over a floor, from 2 and 1 m/s: with a pyramid each loses mu g t, with a cone both together
// do. Quaternions are drawn number by number, and made unit.
static void friction_and_rotations_of_a_truth(void** state) {
    (void)state;
    uint32_t count;
    tempdir_write("experiments/mine/block.xml",
                  "<mujoco><option cone=\"elliptic\"/><worldbody>"
                  "<geom type=\"plane\" size=\"1 1 1\" friction=\"0.4 0 0\"/>"
                  "<body pos=\"0 0 0.1\"><freejoint name=\"root\"/>"
                  "<geom type=\"box\" size=\"0.1 0.1 0.1\" friction=\"0.4 0 0\"/></body>"
                  "</worldbody></mujoco>\n");
    study_rig_write(
        "kind: fits\ntitle: Mine\n" SIMULATE("") //
        "  - {file: cone.csv, model: block.xml, seconds: 0.2, initial_state: {qd0: 2, qd1: 1}}\n"
        "  - {file: pyramid.csv, model: block.xml, seconds: 0.2, friction: pyramid,"
        " initial_state: {qd0: 2, qd1: 1}}\n"
        "  - {file: turned.csv, model: block.xml, trajectories: 20, seconds: 0.01,"
        " initial_state: {q2: 1, q3: [-1, 1], q4: [-1, 1], q5: [-1, 1], q6: [-1, 1]}}\n"
        "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(study_rig_run("block"));
    double lost = 0.4 * 9.81 * 0.2, along = 2.0 / sqrt(5.0), across = 1.0 / sqrt(5.0);
    double *cone = study_rig_numbers("block/data/cone.csv", &count), *end = cone + count - 15;
    assert_true(fabs(end[9] - 2.0 + lost * along) < 1e-3);
    assert_true(fabs(end[10] - 1.0 + lost * across) < 1e-3);
    double* pyramid = study_rig_numbers("block/data/pyramid.csv", &count);
    end = pyramid + count - 15;
    assert_true(fabs(end[9] - 2.0 + lost) < 1e-3);
    assert_true(fabs(end[10] - 1.0 + lost) < 1e-3);
    double* turned = study_rig_numbers("block/data/turned.csv", &count);
    for (uint32_t k = 0; k < count; k += count / 20) {
        const double* q = turned + k + 5;
        assert_true(fabs(q[0] * q[0] + q[1] * q[1] + q[2] * q[2] + q[3] * q[3] - 1.0) < 1e-12);
    }
    free(cone);
    free(pyramid);
    free(turned);
}

// Noise is a share of how far a column goes, on every row.
static void noise_is_as_large_as_asked_for(void** state) {
    (void)state;
    uint32_t count, others;
    study_rig_write("kind: fits\ntitle: Mine\n" SIMULATE(", noise: 0.01") //
                    "fits: [{name: formula, extends: formula.yaml}]\n");
    json_decref(study_rig_run("noisy"));
    double *clean = study_rig_numbers("clean/data/a.csv", &count),
           *noisy = study_rig_numbers("noisy/data/a.csv", &others);
    assert_int_equal(count, others);
    for (uint32_t c = 2; c < 6; c++) {
        double sum = 0.0, square = 0.0, off = 0.0, n = count / 6;
        for (uint32_t r = 0; r < count / 6; r++) {
            double x = clean[r * 6 + c], d = noisy[r * 6 + c] - x;
            sum += x;
            square += x * x;
            off += d * d;
        }
        double share = sqrt(off / (square - sum * sum / n));
        assert_true(fabs(share - 0.01) < 0.0007); // 1,515 numbers: 1.8 % is one sigma
    }
    free(clean);
    free(noisy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truth_is_simulated),
        cmocka_unit_test(friction_and_rotations_of_a_truth),
        cmocka_unit_test(noise_is_as_large_as_asked_for),
    };
    return cmocka_run_group_tests(tests, study_rig_start, NULL);
}
