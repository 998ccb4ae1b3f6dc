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

// MuJoCo 2.2.2 has no frames: it reads the file without them.
static void frames_agree(void** state) {
    (void)state;
    ns_model* ours = modelfile_load("mjcf/frames.xml");
    mjModel* theirs = mujoco_file("mjcf/frames_expanded.xml");
    mujoco_difference worst = mujoco_compare(ours, theirs, 20);
    print_message("frames against MuJoCo: mass matrix %.1e, accelerations %.1e\n", worst.mass,
                  worst.acceleration);
    assert_true(worst.mass < SAME && worst.acceleration < SAME);
    mj_deleteModel(theirs);
    ns_model_free(ours);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(included_files_agree),
        cmocka_unit_test(frames_agree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
