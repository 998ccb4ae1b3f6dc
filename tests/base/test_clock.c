// Clocks. Bounds are one-sided, so that a busy machine does not fail the test.

#define _POSIX_C_SOURCE 200809L // nanosleep

#include "base/common.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <time.h>
#include <cmocka.h>

static void sleep_ms(long ms) {
    struct timespec wait = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&wait, NULL);
}

// Work until the calling thread has used `seconds` of CPU time.
static void burn(double seconds) {
    double start = nsi_clock_thread_cpu();
    while (nsi_clock_thread_cpu() - start < seconds) {
        for (volatile int i = 0; i < 1000; i = i + 1) {
        }
    }
}

static void clocks_never_go_back(void** state) {
    (void)state;
    double wall = nsi_clock_wall(), cpu = nsi_clock_thread_cpu();
    for (int i = 0; i < 10000; i++) {
        double next_wall = nsi_clock_wall(), next_cpu = nsi_clock_thread_cpu();
        assert_true(next_wall >= wall);
        assert_true(next_cpu >= cpu);
        wall = next_wall;
        cpu = next_cpu;
    }
}

static void wall_clock_counts_seconds(void** state) {
    (void)state;
    double start = nsi_clock_wall();
    sleep_ms(50);
    double elapsed = nsi_clock_wall() - start;
    assert_true(elapsed >= 0.0499);
    assert_true(elapsed < 30.0);
}

static void sleeping_costs_no_cpu_time(void** state) {
    (void)state;
    double start = nsi_clock_thread_cpu();
    sleep_ms(100);
    assert_true(nsi_clock_thread_cpu() - start < 0.05);
}

static void working_costs_cpu_time(void** state) {
    (void)state;
    double wall = nsi_clock_wall(), cpu = nsi_clock_thread_cpu();
    burn(0.03);
    cpu = nsi_clock_thread_cpu() - cpu;
    wall = nsi_clock_wall() - wall;
    assert_true(cpu >= 0.03);
    // One thread cannot work for longer than the time that passes; 1 ms for clock granularity.
    assert_true(cpu <= wall + 1e-3);
}

static void* burn_in_thread(void* argument) {
    (void)argument;
    burn(0.1);
    return NULL;
}

static void other_threads_do_not_count(void** state) {
    (void)state;
    double start = nsi_clock_thread_cpu();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, burn_in_thread, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(nsi_clock_thread_cpu() - start < 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clocks_never_go_back),       cmocka_unit_test(wall_clock_counts_seconds),
        cmocka_unit_test(sleeping_costs_no_cpu_time), cmocka_unit_test(working_costs_cpu_time),
        cmocka_unit_test(other_threads_do_not_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
