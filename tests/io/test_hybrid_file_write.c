// Files of hybrid models that are written: they read back, with relative paths; failing loses nothing.

#define _XOPEN_SOURCE 700

#include "io/file.h"
#include "io/hybrid_file.h"
#include "io/hybrid_file_rig.h"
#include "io/yaml.h"
#include "neuralsim/model.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static void assert_text(const char* text, const char* expected) {
    if (!expected) {
        assert_null(text);
    } else {
        assert_non_null(text);
        assert_string_equal(text, expected);
    }
}

// ---- writing -------------------------------------------------------------------------------

#define SET(name, number)                                                                          \
    { .pattern = name, .value = number }

// A new folder, with a folder "sub" in it, made the current one.
static char before[PATH_MAX];

static int enter_folder(void** state) {
    (void)state;
    if (!getcwd(before, sizeof before)) return -1;
    tempdir_mkdir("sub");
    return chdir(tempdir());
}

static int leave_folder(void** state) {
    (void)state;
    tempdir_remove();
    return chdir(before);
}

static void assert_same(const nsi_hybrid* a, const nsi_hybrid* b) {
    assert_int_equal(a->contact, b->contact);
    assert_true(check_same_bits(a->timestep, b->timestep));
    assert_int_equal(a->ground, b->ground);
    assert_int_equal(a->self_collision, b->self_collision);
    assert_int_equal(a->floating_base, b->floating_base);
    assert_int_equal(a->parameters.count, b->parameters.count);
    for (uint32_t k = 0; k < a->parameters.count; k++) {
        assert_string_equal(a->parameters.data[k].pattern, b->parameters.data[k].pattern);
        assert_true(check_same_bits(a->parameters.data[k].value, b->parameters.data[k].value));
    }
}

static void written_files_read_back(void** state) {
    (void)state;
    static nsi_hybrid_parameter parameters[] = {
        SET("link/*/mass", 0.1),
        SET("link/a \"b\" \\ c: d # e/mass", -0.0),
        SET("{[!&*|>%@`,'", 5e-324),
        SET("- x", -DBL_MAX),
        SET("é\xe2\x80\xa8\xe2\x80\xa9\xef\xbb\xbf\xef\xbf\xbe\xf0\x9f\xa4\x96", DBL_MIN),
        SET("true", 1.0 / 3.0),
        SET("~", 1e300),
        SET(" spaces ", 1e-5),
    };
    char long_pattern[NSI_HYBRID_MAX_PATTERN + 1] = "";
    memset(long_pattern, '"', NSI_HYBRID_MAX_PATTERN);
    static const char* const robots[] = {"a.urdf", "true", "1e5", "-x", "a b", "é: #\"'", "~"};
    for (size_t k = 0; k < sizeof robots / sizeof *robots; k++) {
        nsi_hybrid h;
        nsi_hybrid_init(NULL, &h);
        h.robot = robots[k];
        h.contact = (int)(k % 4) - 1;
        h.timestep = k == 0 ? 0.0 : 1.0 / (double)(3 * k);
        h.ground = k % 2 == 1;
        h.self_collision = k % 3 == 1;
        h.floating_base = k % 4 == 1;
        h.blueprint = k == 2 ? "b.yaml" : NULL;
        h.weights = k == 2 ? "sub/w" : NULL;
        uint32_t count = sizeof parameters / sizeof *parameters;
        for (uint32_t i = 0; i < count && k > 0; i++) {
            assert_true(nsi_array_push(&h.arena.allocator, &h.parameters, parameters[i]));
        }
        nsi_hybrid_parameter last = SET(long_pattern, 2.0);
        assert_true(nsi_array_push(&h.arena.allocator, &h.parameters, last));
        ns_error error = {0};
        must(nsi_hybrid_write("h.yaml", &h, NULL, &error), &error);
        nsi_hybrid back;
        must(nsi_hybrid_read("h.yaml", NULL, &back, &error), &error);
        assert_same(&h, &back);
        assert_text(back.robot, h.robot);
        assert_text(back.blueprint, h.blueprint);
        assert_text(back.weights, h.weights);
        nsi_hybrid_free(&back);
        nsi_hybrid_free(&h);
    }
}

static void variants_read_back(void** state) {
    (void)state;
    static const char text[] = "variants:\n"
                               "  - name: \"light\"\n"
                               "    files: \"*_light_*\"\n"
                               "    robot: light.xml\n"
                               "  - name: \"heavy\"\n"
                               "    files: \"*\"\n"
                               "    robot: heavy.xml\n"
                               "    parameters:\n"
                               "      \"link/a/mass\": 2\n"
                               "timestep: 0.5\n"
                               "parameters:\n"
                               "  \"link/*/com/x\": 1\n";
    nsi_hybrid h = parse(text, "models/h.yaml");
    assert_null(h.robot);
    assert_int_equal(h.variants.count, 2);
    assert_text(h.variants.data[1].robot, "models/heavy.xml");
    assert_int_equal(h.variants.data[0].parameters.count, 0);
    assert_true(h.variants.data[1].parameters.data[0].value == 2.0);
    assert_ptr_equal(nsi_hybrid_find_variant(&h, "heavy"), &h.variants.data[1]);
    assert_null(nsi_hybrid_find_variant(&h, "wide"));
    assert_ptr_equal(nsi_hybrid_variant_of(&h, "x_light_1.csv"), &h.variants.data[0]);
    assert_ptr_equal(nsi_hybrid_variant_of(&h, "a_light_b/x.csv"), &h.variants.data[1]);
    ns_text out;
    assert_int_equal(nsi_hybrid_print(&h, "models/new.yaml", NULL, &out, NULL), NS_OK);
    assert_string_equal(out.data, text);
    ns_text_free(&out);
    // What cannot be read is not written.
    ns_error error = {0};
    h.variants.data[0].name = "heavy";
    assert_int_equal(nsi_hybrid_print(&h, "new.yaml", NULL, &out, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "heavy is given twice"));
    h.variants.data[0].name = "";
    assert_int_equal(nsi_hybrid_print(&h, "new.yaml", NULL, &out, &error), NS_ERR_ARGUMENT);
    h.variants.data[0].name = "light";
    h.robot = "light.xml";
    assert_int_equal(nsi_hybrid_print(&h, "new.yaml", NULL, &out, &error), NS_ERR_ARGUMENT);
    nsi_hybrid_free(&h);
}

static void files_are_made_for_reading(void** state) {
    (void)state;
    nsi_hybrid h = parse(full, "models/h.yaml");
    ns_text text;
    assert_int_equal(nsi_hybrid_print(&h, "models/new.yaml", NULL, &text, NULL), NS_OK);
    assert_string_equal(text.data, "robot: arm.urdf\n"
                                   "blueprint: drag.yaml\n"
                                   "weights: ../w/drag.safetensors\n"
                                   "contact: ncp\n"
                                   "timestep: 0.001\n"
                                   "ground: true\n"
                                   "self_collision: true\n"
                                   "parameters:\n"
                                   "  \"link/*/mass\": 1.2\n"
                                   "  \"contact/*/mu\": 0.4\n");
    ns_text_free(&text);
    nsi_hybrid_free(&h);
}

// What stands in the file, and that it names the same file when read.
static void paths_are_relative_below_the_folder(void** state) {
    (void)state;
    static const char* const cases[][3] = {
        // file, robot, as written; @ is the current folder
        {"h.yaml", "a.urdf", "a.urdf"},
        {"h.yaml", "./a.urdf", "a.urdf"},
        {"./h.yaml", "sub//./a.urdf", "sub/a.urdf"},
        {"sub/h.yaml", "sub/a.urdf", "a.urdf"},
        {"sub/h.yaml", "./sub/x/a.urdf", "x/a.urdf"},
        {"@/sub/h.yaml", "sub/a.urdf", "a.urdf"},
        {"sub/h.yaml", "@/sub/a.urdf", "a.urdf"},
        {"sub/h.yaml", "a.urdf", "@/a.urdf"},
        {"sub/h.yaml", "subway/a.urdf", "@/subway/a.urdf"},
        {"sub/h.yaml", "../a.urdf", "@/../a.urdf"},
        {"h.yaml", "/usr/a.urdf", "/usr/a.urdf"},
        {"/h.yaml", "/usr/a.urdf", "usr/a.urdf"},
        {"/h.yaml", "a.urdf", "@a.urdf"}, // without the first slash
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char full_names[3][2 * PATH_MAX];
        for (int i = 0; i < 3; i++) {
            const char* text = cases[k][i];
            bool below_root = strcmp(text, "@a.urdf") == 0;
            snprintf(full_names[i], sizeof *full_names, "%s%s%s",
                     text[0] == '@' ? tempdir() + below_root : "", below_root ? "/" : "",
                     text[0] == '@' ? text + 1 : text);
        }
        nsi_hybrid h;
        nsi_hybrid_init(NULL, &h);
        h.robot = full_names[1];
        ns_text text;
        assert_int_equal(nsi_hybrid_print(&h, full_names[0], NULL, &text, NULL), NS_OK);
        char expected[2 * PATH_MAX + 16];
        snprintf(expected, sizeof expected, "robot: %s\n", full_names[2]);
        assert_string_equal(text.data, expected);

        // Robot and what is read back are the same file when both are made absolute.
        nsi_hybrid back = parse(text.data, full_names[0]);
        h.robot = back.robot;
        ns_text again;
        assert_int_equal(nsi_hybrid_print(&h, full_names[0], NULL, &again, NULL), NS_OK);
        assert_string_equal(again.data, text.data);
        ns_text_free(&text);
        ns_text_free(&again);
        nsi_hybrid_free(&back);
    }
}

static void wrong_models_are_not_written(void** state) {
    (void)state;
    static nsi_hybrid_parameter twice[] = {SET("a", 1.0), SET("a", 2.0)}, nan_[] = {SET("a", NAN)},
                                unnamed[] = {SET(NULL, 1.0)}, bad[] = {SET("a\nb", 1.0)};
    static char longer[NSI_HYBRID_MAX_PATTERN + 2];
    memset(longer, 'n', sizeof longer - 1);
    static nsi_hybrid_parameter too_long[] = {SET(longer, 1.0)};
    static const struct {
        const char *robot, *weights;
        nsi_hybrid_parameter* parameters;
        uint32_t count;
        int contact;
        double timestep;
        const char* message;
    } cases[] = {
        {NULL, NULL, NULL, 0, -1, 0.0, "h.yaml: robot is NULL"},
        {"x.yml", NULL, NULL, 0, -1, 0.0, "h.yaml: robot is YAML; give a URDF or MJCF file"},
        {"", NULL, NULL, 0, -1, 0.0, "h.yaml: robot: the path is empty"},
        {"a.yml/", NULL, NULL, 0, -1, 0.0, "h.yaml: robot: the path is a folder's"},
        {"a\n", NULL, NULL, 0, -1, 0.0, "h.yaml: robot: the path has a control character"},
        {"a\xe9", NULL, NULL, 0, -1, 0.0, "h.yaml: robot: the path is not UTF-8"},
        {"a", "w", NULL, 0, -1, 0.0, "h.yaml: weights without a blueprint"},
        {"a", NULL, NULL, 0, NS_CONTACT_CONVEX + 1, 0.0,
         "h.yaml: contact is neither -1 nor a contact law"},
        {"a", NULL, NULL, 0, -2, 0.0, "h.yaml: contact is neither -1 nor a contact law"},
        {"a", NULL, NULL, 0, -1, -1.0, "h.yaml: timestep is negative or not finite"},
        {"a", NULL, NULL, 0, -1, NAN, "h.yaml: timestep is negative or not finite"},
        {"a", NULL, NULL, 0, -1, INFINITY, "h.yaml: timestep is negative or not finite"},
        {"a", NULL, twice, 2, -1, 0.0, "h.yaml: parameters: \"a\" is given twice"},
        {"a", NULL, nan_, 1, -1, 0.0, "h.yaml: parameters: the value of \"a\" is not finite"},
        {"a", NULL, unnamed, 1, -1, 0.0, "h.yaml: parameters: a name is NULL"},
        {"a", NULL, bad, 1, -1, 0.0, "h.yaml: parameters: \"a b\" has a control character"},
        {"a", NULL, too_long, 1, -1, 0.0,
         "h.yaml: parameters: \"nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn"
         "...\" has more than 500 bytes"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        nsi_hybrid h;
        nsi_hybrid_init(NULL, &h);
        h.robot = cases[k].robot;
        h.weights = cases[k].weights;
        h.contact = cases[k].contact;
        h.timestep = cases[k].timestep;
        h.parameters.data = cases[k].parameters;
        h.parameters.count = h.parameters.capacity = cases[k].count;
        ns_error error = {0};
        assert_int_not_equal(nsi_hybrid_write("h.yaml", &h, NULL, &error), NS_OK);
        assert_string_equal(error.message, cases[k].message);
        assert_int_not_equal(access("h.yaml", F_OK), 0);
    }
}

static void failed_writing_loses_nothing(void** state) {
    (void)state;
    nsi_hybrid h = parse(R, "h.yaml");
    ns_error error;
    assert_int_equal(nsi_hybrid_write("/no/such/h.yaml", &h, NULL, &error), NS_ERR_IO);
    assert_string_equal(error.message,
                        "/no/such/h.yaml: cannot be written: No such file or directory");
    nsi_hybrid_free(&h);
    assert_int_equal(nsi_hybrid_read("/no/such/h.yaml", NULL, &h, &error), NS_ERR_IO);
    assert_string_equal(error.message,
                        "/no/such/h.yaml: cannot be opened: No such file or directory");
    nsi_hybrid_free(&h);

    h = parse(R, "h.yaml");
    assert_int_equal(nsi_hybrid_write("h.yaml", &h, NULL, NULL), NS_OK);
    nsi_hybrid_free(&h);
    h = parse(full, "h.yaml");
    size_t n = 1;
    for (bool done = false; !done; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        error = (ns_error){0};
        ns_status status = nsi_hybrid_write("h.yaml", &h, &allocator, &error);
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        assert_int_equal(error.status, status);
        assert_int_equal(counter.live_blocks, 0);
        nsi_hybrid back;
        assert_int_equal(nsi_hybrid_read("h.yaml", NULL, &back, NULL), NS_OK);
        assert_int_equal(back.parameters.count, done ? 2 : 0); // the old file or the new
        nsi_hybrid_free(&back);
    }
    assert_true(n > 5);
    nsi_hybrid_free(&h);
}

static void fail_allocations(const char* text) {
    assert_int_equal(nsi_file_write("h.yaml", text, strlen(text), NULL, NULL), NS_OK);
    size_t n = 1;
    for (bool done = false; !done; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_hybrid h;
        ns_error error = {0};
        ns_status status = nsi_hybrid_read("h.yaml", &allocator, &h, &error);
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        assert_int_equal(error.status, status);
        nsi_hybrid_free(&h);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(n > 5);
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    fail_allocations(full);
    fail_allocations(LEARNED_FILE);
}

#define IN_FOLDER(f) cmocka_unit_test_setup_teardown(f, enter_folder, leave_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        IN_FOLDER(written_files_read_back),
        cmocka_unit_test(variants_read_back),
        cmocka_unit_test(files_are_made_for_reading),
        IN_FOLDER(paths_are_relative_below_the_folder),
        IN_FOLDER(wrong_models_are_not_written),
        IN_FOLDER(failed_writing_loses_nothing),
        IN_FOLDER(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
