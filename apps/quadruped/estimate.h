// A moving average of a vector: the velocity of the trunk as the controller sees it.

#ifndef NSI_QUADRUPED_ESTIMATE_H
#define NSI_QUADRUPED_ESTIMATE_H

#include "base/common.h"

enum { NSI_MOST_WINDOW = 100 };

// Zero-initialise and set `window`.
typedef struct nsi_average {
    uint32_t window;        // 1 to NSI_MOST_WINDOW
    uint32_t count, oldest; // samples there are, up to the window
    double samples[NSI_MOST_WINDOW][3];
} nsi_average;

// Add a sample and give the mean of those in the window; of fewer at the start.
void nsi_average_add(nsi_average* average, const double sample[3], double mean[3]);

#endif
