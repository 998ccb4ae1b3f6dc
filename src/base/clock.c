// Clocks for measuring; neither tells the time of day.

#define _POSIX_C_SOURCE 200809L // clock_gettime

#include "base/common.h"

#include <time.h>

static double read_clock(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return 0.0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double nsi_clock_wall(void) {
    return read_clock(CLOCK_MONOTONIC);
}

double nsi_clock_thread_cpu(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}
