// A humanoid with 29 joints from URDF, here and in MuJoCo: mass matrices and accelerations, with the pelvis
// on the world and free.

#include "io/mujoco_rig.h"
#include "support/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

// The file without transmissions, which MuJoCo does not read. With `root` in place of the start of the
// robot, when that is not NULL.
static char* read_humanoid(const char* root) {
    static const char start[] = "<robot name=\"humanoid35\">", end[] = "</transmission>";
    size_t size, extra = root ? strlen(root) : 0;
    char* text = modelfile_read("urdf/humanoid35.urdf", &size);
    for (char* at; (at = strstr(text, "<transmission")) != NULL;) {
        char* after = strstr(at, end) + sizeof end - 1;
        memmove(at, after, strlen(after) + 1);
    }
    char *whole = malloc(strlen(text) + extra + 1), *from = strstr(text, start);
    assert_true(whole && from);
    from += sizeof start - 1;
    memcpy(whole, text, (size_t)(from - text));
    memcpy(whole + (from - text), root ? root : "", extra);
    memcpy(whole + (from - text) + extra, from, strlen(from) + 1);
    free(text);
    return whole;
}

static void compare(const char* root, bool floating_base, uint32_t nv) {
    char *theirs_text = read_humanoid(root), *ours_text = read_humanoid(NULL), message[1000] = "";
    const char* path = tempdir_write("humanoid.urdf", theirs_text);
    mju_user_error = mujoco_complains;
    mjModel* theirs = mj_loadXML(path, NULL, message, sizeof message);
    if (!theirs) fail_msg("MuJoCo: %s", message);

    ns_load_options options = ns_default_load_options();
    options.floating_base = floating_base;
    ns_model* ours = NULL;
    ns_error error = {0};
    must(ns_model_parse(ours_text, strlen(ours_text), "t", &options, &ours, &error), &error);
    assert_int_equal(ns_model_get_sizes(ours).nv, nv);
    mujoco_difference worst = mujoco_compare(ours, theirs, 20);
    print_message("humanoid against MuJoCo: mass matrix %.1e, accelerations %.1e\n", worst.mass,
                  worst.acceleration);
    assert_true(worst.mass < 1e-6 && worst.acceleration < 1e-6);

    mj_deleteModel(theirs);
    ns_model_free(ours);
    free(theirs_text);
    free(ours_text);
}

static void on_the_world(void** state) {
    (void)state;
    compare(NULL, false, 29);
}

// Our option against a floating joint in the file.
static void with_a_floating_base(void** state) {
    (void)state;
    compare("<link name=\"world\"/><joint name=\"free\" type=\"floating\"><parent link=\"world\"/>"
            "<child link=\"pelvis\"/></joint>",
            true, 35);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_world),
        cmocka_unit_test(with_a_floating_base),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
