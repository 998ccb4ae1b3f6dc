// Complete MJCF files, loaded here and by MuJoCo: mass matrices and accelerations.

#include "io/mujoco_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// MuJoCo diagonalises inertias only so far.
static const double SAME = 1e-6;

static void included_files_agree(void** state) {
    (void)state;
    mujoco_difference worst = mujoco_compare_file("mjcf/include/scene.xml", 20);
    assert_true(worst.mass < SAME && worst.acceleration < SAME);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(included_files_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
