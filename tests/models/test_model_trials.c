// The program that tries robot files as they are found (apps/models): every file has a row, what does not
// load says why, and a file that is refused, damaged or no robot does not stop the others.

#define _POSIX_C_SOURCE 200809L

#include "support/assert.h"
#include "support/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static char output[40000];

// Run the program of the build folder; returns its exit status.
static int run_trials(const char* arguments) {
    char command[4500], folder[] = NEURALSIM_PROGRAM;
    *strrchr(folder, '/') = '\0';
    snprintf(command, sizeof command, "'%s/model_trials' %s 2>&1", folder, arguments);
    FILE* pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t length = fread(output, 1, sizeof output - 1, pipe);
    output[length] = '\0';
    return pclose(pipe);
}

// The row of a file, after its name.
static const char* row(const char* name) {
    const char* at = strstr(output, name);
    if (!at) fail_msg("there is no row for \"%s\" in\n%s", name, output);
    return at + strlen(name);
}

static bool starts(const char* text, const char* with) {
    return strncmp(text, with, strlen(with)) == 0;
}

static void models_of_the_project_pass(void** state) {
    (void)state;
    assert_int_equal(run_trials("'" NEURALSIM_SOURCE_DIR "/models'"), 0);
    print_message("%s", output);
    assert_true(starts(row("/quadruped.urdf\""), ",yes,"));
    assert_true(starts(row("/swimmer6.xml\""), ",yes,"));
    assert_non_null(strstr(output, "  10 of   10  100.0 %"));
}

// The peer's accelerations of a file, where MuJoCo was there at build time.
static void accelerations_are_compared(void** state) {
    (void)state;
    assert_int_equal(run_trials("'" NEURALSIM_SOURCE_DIR "/models/pendulum5_ground.xml'"), 0);
    const char* rest = row("pendulum5_ground.xml\"");
    if (starts(rest, ",yes,no,")) skip();
    double error = -1.0;
    assert_int_equal(sscanf(rest, ",yes,yes,0,%lf", &error), 1);
    assert_true(error >= 0.0 && error < 1e-9);
}

static void bad_files_have_a_row(void** state) {
    (void)state;
    tempdir_write("broken.urdf", "<robot name='r'><link name='a'>");
    tempdir_write("empty.xml", "<mujoco/>");
    tempdir_write("other.xml", "<scene/>");
    tempdir_write(
        "pendulum.xml",
        "<mujoco><worldbody><body><joint axis='0 1 0'/>"
        "<geom type='capsule' size='.01' fromto='0 0 0 0 0 -1'/></body></worldbody></mujoco>");
    char arguments[600];
    snprintf(arguments, sizeof arguments, "'%s'", tempdir());
    assert_int_equal(run_trials(arguments), 0);
    print_message("%s", output);
    assert_true(starts(row("/broken.urdf\""), ",no,"));
    assert_non_null(strstr(row("/broken.urdf\""), "broken.urdf:1"));
    assert_true(starts(row("/pendulum.xml\""), ",yes,"));
    assert_null(strstr(output, "/other.xml"));
    assert_non_null(strstr(output, "of    3 "));
}

static void nothing_to_try_is_an_error(void** state) {
    (void)state;
    assert_int_not_equal(run_trials(""), 0);
    assert_non_null(strstr(output, "usage: model_trials"));
    assert_int_not_equal(run_trials("/nonexistent"), 0);
    assert_int_not_equal(run_trials("'" NEURALSIM_SOURCE_DIR "/LICENSE'"), 0);
    assert_non_null(strstr(output, "no URDF or MJCF file there"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(models_of_the_project_pass), cmocka_unit_test(accelerations_are_compared),
        cmocka_unit_test(bad_files_have_a_row), cmocka_unit_test(nothing_to_try_is_an_error)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
