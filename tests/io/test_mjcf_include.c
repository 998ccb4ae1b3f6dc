// <include>: what is included where, and what is refused.

#define _XOPEN_SOURCE 700 // symlink, strdup

#include "support/assert.h"
#include "support/modelfile.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

static void files_are_nested(void** state) {
    (void)state;
    ns_model* model = modelfile_load("mjcf/include/scene.xml");
    static const char* const links[] = {"base", "upper", "forearm", "box"};
    assert_int_equal(ns_model_get_sizes(model).nlink, 4);
    for (uint32_t i = 0; i < 4; i++) assert_string_equal(ns_model_link(model, i)->name, links[i]);
    assert_string_equal(ns_model_name(model), "scene"); // names of included models do not count
    assert_int_equal(ns_model_get_sizes(model).nignored, 0);
    assert_true(ns_model_world(model)->timestep == 0.001);
    assert_true(ns_model_world(model)->gravity[2] == -5.0);
    const ns_link_def* forearm = ns_model_link(model, 2);
    assert_true(forearm->damping == 0.1 && forearm->limited && forearm->axis[2] == 1.0);
    ns_model_free(model);
}

// An empty folder with another in it.
static void start_folder(void) {
    tempdir_remove();
    tempdir_mkdir("parts");
}

// A main file below the temporary folder that includes `first` in its <worldbody>.
static ns_status load_scene(const char* first, ns_model** out, ns_error* error) {
    char text[1000];
    snprintf(text, sizeof text,
             "<mujoco>\n<worldbody>\n<body><joint/><geom size='1'/></body>\n<include %s/>\n"
             "</worldbody>\n</mujoco>\n",
             first);
    return ns_model_load(tempdir_write("scene.xml", text), NULL, out, error);
}

// Loading fails, and the message has these fragments.
static void refuse(const char* first, ns_status want, const char* a, const char* b) {
    ns_model* model = NULL;
    ns_error error;
    ns_status status = load_scene(first, &model, &error);
    if (status != want || !strstr(error.message, a) || !strstr(error.message, b)) {
        fail_msg("status %d, message: %s", (int)status, status == NS_OK ? "" : error.message);
    }
    assert_null(model);
}

static void names_and_lines_are_those_of_the_file(void** state) {
    (void)state;
    start_folder();
    tempdir_write("parts/leg.xml", "<mujoco>\n\n<body name='leg'>\n<joint range='2 1'/></body>\n"
                                   "</mujoco>");
    refuse("file='parts/leg.xml'", NS_ERR_PARSE, "/parts/leg.xml:4: <joint>", "range must be");

    // XML that is damaged, and what the builder finds out at the end.
    tempdir_write("parts/leg.xml", "<mujoco>\n<body>\n</mujoco>");
    refuse("file='parts/leg.xml'", NS_ERR_PARSE, "/parts/leg.xml:3: ", "mismatched tag");
    tempdir_write("parts/leg.xml", "<mujoco>\n<body name='a'>\n<joint/>\n</body></mujoco>");
    refuse("file='parts/leg.xml'", NS_ERR_PARSE,
           "/parts/leg.xml:3: ", "no inertia resists its motion");

    // Notes name the file when it is not the main one.
    tempdir_write("parts/leg.xml", "<mujoco>\n<body name='a' odd='1'/>\n</mujoco>");
    ns_model* model = NULL;
    ns_error error;
    must(load_scene("file='parts/leg.xml' odd='1'", &model, &error), &error);
    assert_true(modelfile_notes(model, "parts/leg.xml line 2: <body name=\"a\"> odd"));
    assert_true(modelfile_notes(model, "line 4: <include> odd"));
    ns_model_free(model);
}

static void files_are_found_beside_the_main_file_first(void** state) {
    (void)state;
    start_folder();
    tempdir_write("parts/leg.xml", "<mujoco><include file='foot.xml'/></mujoco>");
    tempdir_write("parts/foot.xml", "<mujoco><body name='inner'/></mujoco>");
    ns_model* model = NULL;
    ns_error error;
    must(load_scene("file='parts/leg.xml'", &model, &error), &error);
    assert_int_not_equal(modelfile_link(model, "inner"), UINT32_MAX);
    ns_model_free(model);
    tempdir_write("foot.xml", "<mujoco><body name='outer'/></mujoco>");
    must(load_scene("file='parts/leg.xml'", &model, &error), &error);
    assert_int_not_equal(modelfile_link(model, "outer"), UINT32_MAX);
    assert_int_equal(modelfile_link(model, "inner"), UINT32_MAX);
    ns_model_free(model);

    // A file may be empty.
    tempdir_write("foot.xml", "<mujoco/>");
    must(load_scene("file='parts/leg.xml'", &model, &error), &error);
    assert_int_equal(ns_model_get_sizes(model).nlink, 1);
    ns_model_free(model);
}

static void cycles_and_copies_are_refused(void** state) {
    (void)state;
    start_folder();
    tempdir_write("a.xml", "<mujoco>\n<include file='b.xml'/></mujoco>");
    tempdir_write("b.xml", "<mujoco>\n\n<include file='./parts/../a.xml'/></mujoco>");
    refuse("file='a.xml'", NS_ERR_PARSE, "/b.xml:3: <include>", "a.xml is included already, by ");
    tempdir_write("b.xml", "<mujoco><include file='scene.xml'/></mujoco>");
    refuse("file='a.xml'", NS_ERR_PARSE, "/b.xml:1: <include>",
           "scene.xml is the model's main file");
    tempdir_write("a.xml", "<mujoco><body/></mujoco>");
    refuse("file='a.xml'/><include file='a.xml'", NS_ERR_PARSE, "/scene.xml:4: <include>",
           "a.xml is included already");
}

// What is read is in the folder around the main file's, or in one of --package-path.
static void files_elsewhere_are_refused(void** state) {
    (void)state;
    start_folder();
    static const char* const names[] = {"/etc/passwd", "../../a.xml", "parts/../../../a.xml",
                                        "./parts//..//../../a.xml", "../../../../etc/hosts"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char attribute[100];
        snprintf(attribute, sizeof attribute, "file='%s'", names[k]);
        refuse(attribute, NS_ERR_IO, "/scene.xml:4: <include>",
               "is outside of the model's package and is not read; put it there, or allow its "
               "folder by --package-path /");
    }
    // The same beside the including file, and by a link.
    tempdir_write("parts/leg.xml", "<mujoco><include file='../../../a.xml'/></mujoco>");
    refuse("file='parts/leg.xml'", NS_ERR_IO, "/parts/leg.xml:1:", "is outside of the model's");
    char* link = strdup(tempdir_path("parts/link.xml"));
    assert_int_equal(symlink("/etc/passwd", link), 0);
    free(link);
    refuse("file='parts/link.xml'", NS_ERR_IO, "/scene.xml:4: <include>",
           "is outside of the model's package and is not read; put it there, or allow its folder "
           "by --package-path /etc");
    tempdir_write("a.xml", "<mujoco/>");
    tempdir_write("parts/leg.xml", "<mujoco><include file='../a.xml'/></mujoco>");
    ns_model* model = NULL;
    ns_error error;
    must(load_scene("file='parts/leg.xml'", &model, &error), &error);
    ns_model_free(model);

    // A main file in a folder of its own, with one beside the folder.
    tempdir_mkdir("robot");
    tempdir_mkdir("robot/mjcf");
    char* path =
        strdup(tempdir_write("robot/mjcf/scene.xml", "<mujoco><include file='../leg.xml'/>"
                                                     "<include file='../../far.xml'/></mujoco>"));
    tempdir_write("robot/leg.xml", "<mujoco><worldbody><body name='leg'/></worldbody></mujoco>");
    tempdir_write("far.xml", "<mujoco><worldbody><body name='far'/></worldbody></mujoco>");
    assert_int_equal(ns_model_load(path, NULL, &model, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "file \"../../far.xml\" is outside"));
    const char* packages[] = {tempdir()};
    ns_load_options options = ns_default_load_options();
    options.package_paths = packages, options.npackage_path = 1;
    must(ns_model_load(path, &options, &model, &error), &error);
    assert_int_not_equal(modelfile_link(model, "leg"), UINT32_MAX);
    assert_int_not_equal(modelfile_link(model, "far"), UINT32_MAX);
    ns_model_free(model);
    free(path);

    // A folder with a space is quoted.
    tempdir_mkdir("far away");
    tempdir_write("far away/x.xml", "<mujoco/>");
    path = strdup(tempdir_write("robot/mjcf/scene.xml",
                                "<mujoco><include file='../../far away/x.xml'/></mujoco>"));
    assert_int_equal(ns_model_load(path, NULL, &model, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "--package-path '/"));
    assert_non_null(strstr(error.message, "far away'"));
    free(path);

    refuse("file='none.xml'", NS_ERR_IO, "/scene.xml:4: <include>", "\"none.xml\" not found");
    refuse("file='parts'", NS_ERR_IO, "/scene.xml:4: <include>", "\"parts\" not found");
    refuse("", NS_ERR_PARSE, "/scene.xml:4: <include>", "the attribute file is missing");
    refuse("file=''", NS_ERR_PARSE, "/scene.xml:4: <include>", "the attribute file is empty");
    refuse("file='a.xml'><body/></include><light", NS_ERR_PARSE, "/scene.xml:4: <include>",
           "there are elements inside");
    const char* message = modelfile_error(
        "<mujoco><worldbody><include file='a.xml'/></worldbody></mujoco>", NS_ERR_IO);
    assert_non_null(strstr(message, "the model was not loaded from a file"));
}

static void limits_hold_for_all_files_together(void** state) {
    (void)state;
    // Depth: 300 levels and 300 more.
    enum { DEPTH = 300, MANY = 130 * 1000 };
    char* text = malloc(MANY * 20);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "<mujoco>");
    for (int k = 0; k < DEPTH; k++) at += (size_t)sprintf(text + at, "<body>");
    at += (size_t)sprintf(text + at, "<include file='b.xml'/>");
    for (int k = 0; k < DEPTH; k++) at += (size_t)sprintf(text + at, "</body>");
    sprintf(text + at, "</mujoco>");
    tempdir_write("a.xml", text);
    at = (size_t)sprintf(text, "<mujoco>");
    for (int k = 0; k < DEPTH; k++) at += (size_t)sprintf(text + at, "<body>");
    for (int k = 0; k < DEPTH; k++) at += (size_t)sprintf(text + at, "</body>");
    sprintf(text + at, "</mujoco>");
    tempdir_write("b.xml", text);
    refuse("file='a.xml'", NS_ERR_LIMIT, "/b.xml:1:", "nested more than 512 deep");

    // Elements.
    at = (size_t)sprintf(text, "<mujoco>");
    for (int k = 0; k < MANY; k++) at += (size_t)sprintf(text + at, "<light/>");
    sprintf(text + at, "</mujoco>");
    tempdir_write("a.xml", text);
    tempdir_write("b.xml", text);
    free(text);
    refuse("file='a.xml'/><include file='b.xml'", NS_ERR_LIMIT,
           "/b.xml:1:", "more than 250000 elements");
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = {.allocator = &allocator};
        ns_model* model = NULL;
        ns_error error = {0};
        ns_status status = ns_model_load(NEURALSIM_SOURCE_DIR "/tests/data/mjcf/include/scene.xml",
                                         &options, &model, &error);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            ns_model_free(model);
            assert_int_equal(counter.live_blocks, 0);
            return;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(counter.live_blocks, 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_are_nested),
        cmocka_unit_test(names_and_lines_are_those_of_the_file),
        cmocka_unit_test(files_are_found_beside_the_main_file_first),
        cmocka_unit_test(cycles_and_copies_are_refused),
        cmocka_unit_test(files_elsewhere_are_refused),
        cmocka_unit_test(limits_hold_for_all_files_together),
        cmocka_unit_test(memory_may_run_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
