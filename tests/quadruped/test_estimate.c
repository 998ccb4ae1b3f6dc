// The moving average against sums over the window.

#include "neuralsim/random.h"
#include "quadruped/estimate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

static void means_are_those_of_the_window(void** state) {
    (void)state;
    enum { COUNT = 300 };
    const uint32_t windows[] = {1, 2, 20, QUAD_MAX_WINDOW};
    ns_rng rng = ns_rng_seed(1);
    for (int w = 0; w < 4; w++) {
        quad_average average = {.window = windows[w]};
        double samples[COUNT][3];
        for (uint32_t k = 0; k < COUNT; k++) {
            double mean[3];
            for (int i = 0; i < 3; i++) samples[k][i] = ns_rng_normal(&rng);
            quad_average_add(&average, samples[k], mean);
            uint32_t first = k + 1 > windows[w] ? k + 1 - windows[w] : 0;
            for (int i = 0; i < 3; i++) {
                double sum = 0.0;
                for (uint32_t j = first; j <= k; j++) sum += samples[j][i];
                assert_true(fabs(mean[i] - sum / (k + 1 - first)) < 1e-14);
            }
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(means_are_those_of_the_window)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
