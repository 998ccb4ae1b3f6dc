// Height fields of MJCF: order of rows, scale, files, and messages for faulty ones.

#define _XOPEN_SOURCE 700 // symlink, strdup

#include "base/common.h"
#include "io/mjcf.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/tempdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FIELD(attributes)                                                                          \
    "<mujoco><asset><hfield name='h' " attributes "/></asset><worldbody>"                          \
    "<geom name='hills' type='hfield' hfield='h'/><body name='b' pos='0 0 1'><freejoint/>"         \
    "<geom name='ball' size='0.1'/></body></worldbody></mujoco>"

static void elevations_are_from_top_to_bottom(void** state) {
    (void)state;
    ns_model* model =
        modelfile_parse(FIELD("nrow='3' ncol='2' size='1 2 3 4' elevation='1 2  3 4  5 9'"));
    const ns_geom_def* g = ns_model_geom(model, 0);
    assert_int_equal(g->type, NS_GEOM_HFIELD);
    assert_int_equal(g->nrow, 3);
    assert_int_equal(g->ncol, 2);
    all_close(g->size, (const double[]){1, 2, 3}, 3, 0.0);
    all_close(g->elevation, (const double[]){0.5, 1, 0.25, 0.375, 0, 0.125}, 6, 0.0);
    assert_int_equal(ns_model_get_sizes(model).ncontact, 1);
    ns_model_free(model);

    // Without elevations it is flat.
    model = modelfile_parse(FIELD("nrow='201' ncol='201' size='1 2 3 4'"));
    all_close(ns_model_geom(model, 0)->elevation, (const double[]){0, 0, 0, 0}, 4, 0.0);
    ns_model_free(model);
}

static void files_are_read(void** state) {
    (void)state;
    static const unsigned char bytes[] = {
        2, 0, 0,    0,    2, 0, 0, 0,    0, 0, 0,    0,
        0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 0, 0, 0x80, 0x40}; // 0 1 2 4
    static const char text[] = "<mujoco><asset><hfield name='h' file='hills.bin' size='1 1 1 1'/>"
                               "</asset><worldbody><geom type='hfield' hfield='h'/></worldbody>"
                               "</mujoco>";
    ns_model* model = NULL;
    ns_error error;
    tempdir_write_bytes("hills.bin", bytes, sizeof bytes);
    const char* path = tempdir_write("model.xml", text);
    must(ns_model_load(path, NULL, &model, &error), &error);
    all_close(ns_model_geom(model, 0)->elevation, (const double[]){0, 0.25, 0.5, 1}, 4, 0.0);
    ns_model_free(model);

    // Cut off.
    tempdir_write_bytes("hills.bin", bytes, sizeof bytes - 1);
    assert_int_equal(ns_model_load(path, NULL, &model, &error), NS_ERR_PARSE);
    assert_non_null(strstr(error.message, "2 rows and 2 columns need 24 bytes"));
}

static void faults_are_told(void** state) {
    (void)state;
    static const struct {
        const char* text;
        ns_status status;
        const char* message;
    } cases[] = {
        {FIELD("nrow='1' ncol='2' size='1 2 3 4'"), NS_ERR_LIMIT, "hfield of 1 rows and 2 columns"},
        {FIELD("nrow='2.5' ncol='2' size='1 2 3 4'"), NS_ERR_LIMIT,
         "hfield of 2.5 rows and 2 columns"},
        {FIELD("nrow='1e9' ncol='1e9' size='1 2 3 4' elevation='1'"), NS_ERR_LIMIT,
         "hfield of 1e+09 rows"},
        {FIELD("size='1 2 3 4'"), NS_ERR_LIMIT, "hfield of 0 rows and 0 columns"},
        {FIELD("nrow='2' ncol='2'"), NS_ERR_PARSE, "the attribute size is missing"},
        {FIELD("nrow='2' ncol='2' size='1 2'"), NS_ERR_PARSE, "size"},
        {FIELD("nrow='2' ncol='2' size='1 2 3 4' elevation='1 2 3'"), NS_ERR_PARSE, "elevation"},
        {FIELD("nrow='2' ncol='2' size='1 2 3 4' elevation='1 2 3 nan'"), NS_ERR_PARSE,
         "elevation"},
        {FIELD("nrow='2' ncol='2' size='-1 2 3 4'"), NS_ERR_PARSE, "size"},
        {FIELD("file='hills.bin' size='1 2 3 4'"), NS_ERR_IO, "not loaded from a file"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char* message = modelfile_error(cases[k].text, cases[k].status);
        if (!strstr(message, cases[k].message)) {
            fail_msg("\"%s\" without \"%s\"", message, cases[k].message);
        }
    }

    // An image is left out, with what touches it.
    ns_model* model = modelfile_parse(FIELD("file='hills.png' size='1 2 3 4'"));
    assert_true(modelfile_notes(model, "images are not read"));
    assert_int_equal(ns_model_get_sizes(model).ngeom, 1);
    ns_model_free(model);
}

// Height fields obey the rule of meshes: nothing is read from outside the model's package.
static void files_elsewhere_are_refused(void** state) {
    (void)state;
    static const char* const names[] = {"/etc/hostname", "../../../hills.bin", "link.bin",
                                        "d/../secret.bin"};
    tempdir_mkdir("robot");
    tempdir_mkdir("secret");
    tempdir_mkdir("secret/sub");
    tempdir_write("secret/secret.bin", "x");
    assert_int_equal(symlink("../secret/sub", tempdir_path("robot/d")), 0);
    char* link = strdup(tempdir_path("robot/link.bin"));
    assert_int_equal(symlink("/etc/hostname", link), 0);
    free(link);
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char text[600];
        snprintf(text, sizeof text, FIELD("file='%s' size='1 2 3 4'"), names[k]);
        ns_model* model = NULL;
        ns_error error;
        const char* path = tempdir_write("robot/field.xml", text);
        assert_int_equal(ns_model_load(path, NULL, &model, &error), NS_ERR_IO);
        // The name without ".." is that of no file.
        const char* want = names[k][0] == 'd' ? "there is no file" : "is outside of the model's";
        if (!strstr(error.message, want)) {
            fail_msg("%s: %s", names[k], error.message);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elevations_are_from_top_to_bottom),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(faults_are_told),
        cmocka_unit_test(files_elsewhere_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
