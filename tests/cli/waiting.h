// Waiting and watching the clock.

#ifndef TEST_WAITING_H
#define TEST_WAITING_H

#include "support/assert.h"

#include <time.h>

static inline void wait_milliseconds(long milliseconds) {
    nanosleep(&(struct timespec){milliseconds / 1000, milliseconds % 1000 * 1000000}, NULL);
}

static inline double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

#endif
