// Whole files: where data files are searched, folders of paths, what cannot be read or written.

#define _POSIX_C_SOURCE 200809L // setenv

#include "io/file.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The path that a data file is found at, to be freed; NULL when there is none.
static char* find(const char* name) {
    char* path = NULL;
    ns_allocator allocator = ns_default_allocator();
    assert_true(nsi_file_find_data(name, &allocator, &path));
    return path;
}

static void assert_found(const char* name, const char* expected) {
    char* path = find(name);
    assert_non_null(path);
    assert_string_equal(path, expected);
    free(path);
}

// own/ has a.csv and both.csv; data/ has b.csv, both.csv and deep/c.csv.
static int make_files(void** state) {
    (void)state;
    tempdir_mkdir("own");
    tempdir_mkdir("data");
    tempdir_mkdir("data/deep");
    tempdir_write("own/a.csv", "1\n");
    tempdir_write("own/both.csv", "1\n");
    tempdir_write("data/b.csv", "1\n");
    tempdir_write("data/both.csv", "1\n");
    tempdir_write("data/deep/c.csv", "1\n");
    return 0;
}

static void data_is_below_the_folder_of_the_environment(void** state) {
    (void)state;
    setenv("NEURALSIM_DATA", tempdir_path("data"), 1);
    assert_found("b.csv", tempdir_path("data/b.csv"));
    assert_found("deep/c.csv", tempdir_path("data/deep/c.csv"));
    assert_null(find("a.csv"));
    assert_null(find("none.csv"));
    assert_null(find("deep")); // a folder is no file

    // Out of it leads no name, and no link.
    assert_null(find(tempdir_path("data/b.csv")));
    assert_null(find("deep/../b.csv"));
    assert_null(find("../own/a.csv"));
    assert_int_equal(symlink("../own/a.csv", tempdir_path("data/out.csv")), 0);
    assert_int_equal(symlink("../own", tempdir_path("data/folder")), 0);
    assert_int_equal(symlink("deep/c.csv", tempdir_path("data/in.csv")), 0);
    assert_null(find("out.csv"));
    assert_null(find("folder/a.csv"));
    assert_found("in.csv", tempdir_path("data/in.csv"));

    // The folder itself may be a link.
    assert_int_equal(symlink("data", tempdir_path("linked")), 0);
    setenv("NEURALSIM_DATA", tempdir_path("linked"), 1);
    assert_found("b.csv", tempdir_path("linked/b.csv"));
}

static void the_environment_may_name_none(void** state) {
    (void)state;
    for (int k = 0; k < 2; k++) {
        if (k == 0) unsetenv("NEURALSIM_DATA");
        if (k == 1) setenv("NEURALSIM_DATA", "", 1);
        const char* folders[NSI_DATA_FOLDERS];
        assert_int_equal(nsi_data_folders("own/", folders), 1);
        assert_string_equal(folders[0], "own/");
        assert_null(find("b.csv"));
    }
    setenv("NEURALSIM_DATA", "elsewhere", 1);
    const char* folders[NSI_DATA_FOLDERS];
    assert_int_equal(nsi_data_folders("own/", folders), 2);
    assert_string_equal(folders[1], "elsewhere");
}

// What lies beside the current folder does not matter.
static void no_other_folder_is_searched(void** state) {
    (void)state;
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    tempdir_mkdir("work");
    tempdir_mkdir("shared");
    tempdir_mkdir("shared/data");
    tempdir_write("shared/data/d.csv", "1\n");
    unsetenv("NEURALSIM_DATA");
    assert_int_equal(chdir(tempdir_path("work")), 0);
    assert_int_equal(access("../shared/data/d.csv", R_OK), 0);
    assert_null(find("d.csv"));
    assert_int_equal(chdir(before), 0);
}

static void folders_of_paths_end_with_a_slash(void** state) {
    (void)state;
    static const char* const cases[][2] = {{"a/b/c.csv", "a/b/"}, {"c.csv", ""}, {"/c.csv", "/"}};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_allocator allocator = ns_default_allocator();
        char* folder = nsi_file_folder(cases[k][0], &allocator);
        assert_non_null(folder);
        assert_string_equal(folder, cases[k][1]);
        free(folder);
    }
}

static void files_are_written_and_read(void** state) {
    (void)state;
    ns_allocator memory = ns_default_allocator();
    const ns_allocator* allocator = &memory;
    ns_error error = {0};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", tempdir_path("text"));
    must(nsi_file_write(path, "first", 5, allocator, &error), &error);
    must(nsi_file_write_soon(path, "other\n", 6, allocator, &error), &error);
    nsi_bytes bytes = {0};
    must(nsi_file_read(path, 100, allocator, &bytes, &error), &error);
    assert_int_equal(bytes.count, 6);
    assert_memory_equal(bytes.data, "other\n", 6);
    nsi_array_free(allocator, &bytes);

    assert_true(nsi_file_exists(path));
    assert_false(nsi_file_exists(tempdir()));
    assert_false(nsi_file_exists(tempdir_path("none")));
    assert_int_equal(nsi_file_read(tempdir_path("none"), 100, allocator, &bytes, &error),
                     NS_ERR_IO);
    assert_says(error.message, "none: cannot be opened: No such file or directory");
    nsi_array_free(allocator, &bytes);
    assert_int_equal(nsi_file_write(tempdir_path("no/such/folder"), "x", 1, allocator, &error),
                     NS_ERR_IO);
    assert_says(error.message, "cannot be written: No such file or directory");
}

static void every_allocation_may_fail(void** state) {
    (void)state;
    setenv("NEURALSIM_DATA", tempdir_path("data"), 1);
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        char* path = NULL;
        bool enough = nsi_file_find_data("b.csv", &allocator, &path);
        assert_true(enough == (path != NULL));
        nsi_free(&allocator, path);
        assert_int_equal(counter.live_blocks, 0);
        if (enough) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_below_the_folder_of_the_environment),
        cmocka_unit_test(the_environment_may_name_none),
        cmocka_unit_test(no_other_folder_is_searched),
        cmocka_unit_test(folders_of_paths_end_with_a_slash),
        cmocka_unit_test(files_are_written_and_read),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, make_files, NULL);
}
