// A moving average. Summed anew each time, so that rounding does not pile up over hours; a window is
// short.

#include "quadruped/estimate.h"

void quad_average_add(quad_average* average, const double sample[3], double mean[3]) {
    uint32_t at = average->oldest;
    memcpy(average->samples[at], sample, sizeof average->samples[at]);
    average->oldest = (at + 1) % average->window;
    if (average->count < average->window) average->count++;
    double sum[3] = {0};
    for (uint32_t k = 0; k < average->count; k++) {
        for (int i = 0; i < 3; i++) sum[i] += average->samples[k][i];
    }
    for (int i = 0; i < 3; i++) mean[i] = sum[i] / average->count;
}
