// Records recording.csv beside it: the cart-pole of truth.xml in MuJoCo 2.2.2, pushed at the cart, with
// noise.
//
//     cc record.c -o record -lmujoco -lm && ./record truth.xml > recording.csv

#include <math.h>
#include <mujoco/mujoco.h>
#include <stdint.h>
#include <stdio.h>

enum { RUNS = 4, SAMPLES = 250, SUBSTEPS = 20 };        // 4 x 5 s at 50 Hz, steps of 1 ms
static const double sigma_x = 1e-3, sigma_angle = 2e-3; // m, rad

// Gaussian noise: a sum of 12 uniform numbers of an xorshift generator.
static double noise(void) {
    static uint64_t s = 88172645463325252u;
    double sum = -6.0;
    for (int k = 0; k < 12; k++) {
        s ^= s << 13;
        s ^= s >> 7;
        s ^= s << 17;
        sum += (double)(s >> 11) * 0x1p-53;
    }
    return sum;
}

int main(int argc, char** argv) {
    static const double start[RUNS][2] = {{0.0, 0.6}, {0.2, -1.1}, {-0.1, 1.6}, {0.0, -0.4}};
    char error[500];
    mjModel* m = argc == 2 ? mj_loadXML(argv[1], NULL, error, sizeof error) : NULL;
    if (!m) return 1;
    mjData* d = mj_makeData(m);
    printf("traj,t,slide,hinge,push\n");
    for (int run = 0; run < RUNS; run++) {
        mj_resetData(m, d);
        for (int k = 0; k < 2; k++) d->qpos[k] = start[run][k];
        for (int k = 0; k < SAMPLES; k++) {
            double t = 0.02 * k;
            d->qfrc_applied[0] = 4.0 * sin((2.0 + run) * t) + 2.0 * sin(7.3 * t + run);
            printf("%d,%.2f,%.6f,%.6f,%.9g\n", run, t, d->qpos[0] + sigma_x * noise(),
                   d->qpos[1] + sigma_angle * noise(), d->qfrc_applied[0]);
            for (int i = 0; i < SUBSTEPS; i++) mj_step(m, d);
        }
    }
    mj_deleteData(d);
    mj_deleteModel(m);
    return 0;
}
