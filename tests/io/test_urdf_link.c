// Links of URDF: files that are accepted with a note, and inertias that are repaired.

#include "support/assert.h"
#include "support/modelfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

static void accepted_files_are_noted(void** state) {
    (void)state;
    assert_true(modelfile_try_accepted("urdf/accepted", ".urdf") >= 9);
    assert_true(modelfile_try_accepted("mjcf/accepted", ".xml") >= 1);
}

static void the_nearest_physical_inertia_is_used(void** state) {
    (void)state;
    // Raised by the half of what is missing to the triangle inequality, each.
    ns_model* model = modelfile_load("urdf/accepted/triangle.urdf");
    all_close(ns_model_link(model, 0)->inertia, (const double[]){1, 1, 2, 0, 0, 0}, 6, 1e-15);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepted_files_are_noted),
        cmocka_unit_test(the_nearest_physical_inertia_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
