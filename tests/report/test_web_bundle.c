// The script that bundles the page's script, with an npm and a node of our own: without packages it
// leaves empty files that the next build tries to make again, and several builds at a time install
// packages once.

#define _XOPEN_SOURCE 700

#include "support/program.h"
#include "support/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

// A command in the folder, where "npm" and "node" are those of the test.
static int run(const char* command) {
    char text[9000];
    int size = snprintf(text, sizeof text, "cd '%s' && PATH='%s/bin':$PATH && %s", tempdir(),
                        tempdir(), command);
    assert_in_range(size, 1, sizeof text - 1);
    return system(text);
}

static int make_folder(void** state) {
    (void)state;
    if (run("mkdir bin tools web && cp " NEURALSIM_SOURCE_DIR "/tools/build_page.sh tools") != 0) {
        return -1;
    }
    tempdir_write("web/package-lock.json", "{}");
    tempdir_write("bin/npm", "#!/bin/sh\necho npm >>../log\n[ ! -e ../offline ] || exit 1\n"
                             "rm -rf node_modules && mkdir node_modules && sleep 0.2 &&"
                             " touch node_modules/.package-lock.json\n");
    tempdir_write("bin/node",
                  "#!/bin/sh\n[ -e node_modules/.package-lock.json ] || exit 1\n"
                  "for file in page.js page.css page.sha256; do echo x >\"$2/$file\"; done\n");
    return run("chmod +x bin/npm bin/node");
}

static struct stat about(const char* name) {
    struct stat out;
    if (stat(tempdir_path(name), &out) != 0) fail_msg("there is no %s", name);
    return out;
}

static void without_packages_the_next_build_tries_again(void** state) {
    (void)state;
    assert_int_equal(run("touch offline && tools/build_page.sh \"$PWD/one\" 2>message"), 0);
    static const char* const files[] = {"one/page.js", "one/page.css", "one/page.sha256"};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(about(files[k]).st_size, 0);
        assert_true(about(files[k]).st_mtime < about("web/package-lock.json").st_mtime);
    }
    char* message = tempdir_read("message");
    assert_says(message, "the next 'make' tries again");
    free(message);
    assert_int_equal(run("rm offline message log"), 0);
}

static void builds_at_the_same_time_install_once(void** state) {
    (void)state;
    assert_int_equal(run("(tools/build_page.sh \"$PWD/one\" & tools/build_page.sh \"$PWD/two\" & "
                         "tools/build_page.sh \"$PWD/three\" & wait)"),
                     0);
    static const char* const files[] = {"one/page.js", "two/page.js", "three/page.sha256"};
    for (int k = 0; k < 3; k++) {
        assert_int_equal(about(files[k]).st_size, 2);
        assert_true(about(files[k]).st_mtime >= about("web/package-lock.json").st_mtime);
    }
    if (run("command -v flock >/dev/null") == 0) assert_int_equal(about("log").st_size, 4);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_packages_the_next_build_tries_again),
        cmocka_unit_test(builds_at_the_same_time_install_once),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
