// The script that bundles the page's script, with an npm and a node of our own: without packages it
// leaves empty files that the next build tries to make again, and several builds at a time install
// packages once.

#define _XOPEN_SOURCE 700

#include "support/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

static char folder[] = "/tmp/neuralsim_bundle_XXXXXX";

// A command in the folder, where "npm" and "node" are those of the test.
static int run(const char* command) {
    char text[1000];
    snprintf(text, sizeof text, "cd %s && PATH=%s/bin:$PATH && %s", folder, folder, command);
    return system(text);
}

static int make_folder(void** state) {
    (void)state;
    if (!mkdtemp(folder)) return -1;
    if (run("mkdir bin tools web && cp " NEURALSIM_SOURCE_DIR "/tools/build_page.sh tools") != 0) {
        return -1;
    }
    program_write_file(folder, "web/package-lock.json", "{}");
    program_write_file(folder, "bin/npm",
                       "#!/bin/sh\necho npm >>../log\n[ ! -e ../offline ] || exit 1\n"
                       "rm -rf node_modules && mkdir node_modules && sleep 0.2 &&"
                       " touch node_modules/.package-lock.json\n");
    program_write_file(folder, "bin/node",
                       "#!/bin/sh\n[ -e node_modules/.package-lock.json ] || exit 1\n"
                       "for file in page.js page.css page.sha256; do echo x >\"$2/$file\"; done\n");
    return run("chmod +x bin/npm bin/node");
}

static int remove_folder(void** state) {
    (void)state;
    return run("rm -rf bin tools web log one two three offline") != 0 || rmdir(folder) != 0;
}

static struct stat about(const char* name) {
    char path[200];
    struct stat out;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    if (stat(path, &out) != 0) fail_msg("there is no %s", name);
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
    char path[200];
    snprintf(path, sizeof path, "%s/message", folder);
    char* message = program_read_file(path);
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
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
