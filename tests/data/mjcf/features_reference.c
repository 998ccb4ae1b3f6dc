// What MuJoCo makes of features.xml: prints features.csv. Not built with the tests; made with
// Debian's MuJoCo 2.2.2:
//
//     cc features_reference.c -lmujoco -lm -o reference && ./reference features.xml > features.csv
//
// For three positions of the joints: body, position of its frame (3), rotation matrix of its frame
// (9, row-major). Then for each body: mass, centre of mass in its frame (3), inertia about that in
// the axes of its frame (xx yy zz xy xz yz).

#include <mujoco/mujoco.h>
#include <stdio.h>

int main(int argc, char** argv) {
    char error[1000];
    mjModel* m = argc > 1 ? mj_loadXML(argv[1], NULL, error, sizeof error) : NULL;
    if (!m) return 1;
    mjData* d = mj_makeData(m);
    for (int sample = 0; sample < 3; sample++) {
        for (int i = 0; i < m->nq; i++) d->qpos[i] = 0.25 * ((7 * i + 5 * sample) % 9) - 1.0;
        mj_normalizeQuat(m, d->qpos);
        mj_kinematics(m, d);
        printf("q,%d", sample);
        for (int i = 0; i < m->nq; i++) printf(",%.17g", d->qpos[i]);
        printf("\n");
        for (int b = 1; b < m->nbody; b++) {
            printf("pose,%s", mj_id2name(m, mjOBJ_BODY, b));
            for (int i = 0; i < 3; i++) printf(",%.17g", d->xpos[3 * b + i]);
            for (int i = 0; i < 9; i++) printf(",%.17g", d->xmat[9 * b + i]);
            printf("\n");
        }
    }
    for (int b = 1; b < m->nbody; b++) {
        mjtNum r[9];
        const mjtNum *I = m->body_inertia + 3 * b, *c = m->body_ipos + 3 * b;
        mju_quat2Mat(r, m->body_iquat + 4 * b);
        const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
        printf("mass,%s,%.17g,%.17g,%.17g,%.17g", mj_id2name(m, mjOBJ_BODY, b), m->body_mass[b],
               c[0], c[1], c[2]);
        for (int k = 0; k < 6; k++) {
            double sum = 0.0;
            for (int j = 0; j < 3; j++) sum += r[3 * row[k] + j] * I[j] * r[3 * column[k] + j];
            printf(",%.17g", sum);
        }
        printf("\n");
    }
    return 0;
}
