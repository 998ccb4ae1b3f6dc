// The program that measures what is asked of contact (apps/contact), a small part of each trial: it ends
// with success, which means that no row of its table is missed, and every trial has rows.

#define _POSIX_C_SOURCE 200809L

#include "support/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// Run the program of the build folder; returns its exit status.
static int run_trials(const char* arguments, char* output, size_t size) {
    char command[4500], folder[] = NEURALSIM_PROGRAM;
    *strrchr(folder, '/') = '\0';
    snprintf(command, sizeof command, "%s/contact_trials %s 2>&1", folder, arguments);
    FILE* pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, size - 1, pipe);
    output[length] = '\0';
    return pclose(pipe);
}

static void quick_trials_pass(void** state) {
    (void)state;
    static const char* const rows[] = {"impacts of a double pendulum",
                                       "impacts of a box",
                                       "impacts of a capsule",
                                       "mu 1, cone: unsolved steps",
                                       "mu 1, pyramid: unsolved steps",
                                       "mu 0.3: unsolved steps",
                                       "mu 0.7: unsolved steps",
                                       "mu 1: unsolved steps",
                                       ">= 99 % of clean differences",
                                       "worst step / median",
                                       "cube to a place",
                                       "ball to a target",
                                       "box pushed to",
                                       "largest d x / d x0"};
    static char output[20000];
    int status = run_trials("--quick", output, sizeof output);
    print_message("%s", output);
    assert_int_equal(status, 0);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (!strstr(output, rows[k])) fail_msg("there is no row \"%s\"", rows[k]);
    }
}

static void unknown_trials_are_refused(void** state) {
    (void)state;
    char output[4000];
    assert_int_not_equal(run_trials("jumps", output, sizeof output), 0);
    assert_non_null(strstr(output, "usage: contact_trials"));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(quick_trials_pass),
                                       cmocka_unit_test(unknown_trials_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
