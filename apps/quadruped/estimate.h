// A moving average of a vector: the velocity of the trunk as the controller sees it.

#ifndef QUADRUPED_ESTIMATE_H
#define QUADRUPED_ESTIMATE_H

#include "quadruped/support.h"

enum { QUAD_MAX_WINDOW = 100 };

// Zero-initialise and set `window`.
typedef struct quad_average {
    uint32_t window;        // 1 to QUAD_MAX_WINDOW
    uint32_t count, oldest; // samples there are, up to the window
    double samples[QUAD_MAX_WINDOW][3];
} quad_average;

// Add a sample and give the mean of those in the window; of fewer at the start.
void quad_average_add(quad_average* average, const double sample[3], double mean[3]);

#endif
