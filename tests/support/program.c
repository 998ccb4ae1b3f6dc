// Run the program with its output in two files of the temporary folder.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"

#include "support/tempdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

program_result program_run(const char* folder, const char* arguments) {
    program_result result = {.code = -1};
    const char *out = tempdir_path(".stdout"), *err = tempdir_path(".stderr");
    static const char form[] = "cd '%s' && '%s' >'%s' 2>'%s' </dev/null %s";
    size_t size = sizeof form + strlen(folder) + strlen(NEURALSIM_PROGRAM) + strlen(out) +
                  strlen(err) + strlen(arguments);
    char* command = malloc(size);
    assert_non_null(command);
    snprintf(command, size, form, folder, NEURALSIM_PROGRAM, out, err, arguments);

    int status = system(command); // NOLINT: the shell is what is wanted
    if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    free(command);
    result.out = file_text(out);
    result.err = file_text(err);
    unlink(out);
    unlink(err);
    return result;
}

void program_result_free(program_result* result) {
    free(result->out);
    free(result->err);
    *result = (program_result){0};
}

// ---- what must be ------------------------------------------------------------------------------

program_result last;

static void run_again(const char* arguments) {
    program_result_free(&last);
    last = program_run(tempdir(), arguments);
}

void run_ok(const char* arguments) {
    run_again(arguments);
    if (last.code != 0) fail_msg("neuralsim %s: exit code %d: %s", arguments, last.code, last.err);
}

void run_bad(const char* arguments, int code, const char* message) {
    run_again(arguments);
    if (last.code != code || !strstr(last.err, message)) {
        fail_msg("neuralsim %s: exit code %d, expected %d; said: %sexpected: %s", arguments,
                 last.code, code, last.err, message);
    }
}

double metric(const json_t* root, const char* name) {
    const json_t* value = json_object_get(json_object_get(root, "metrics"), name);
    if (!json_is_number(value)) fail_msg("there is no metric %s", name);
    return json_number_value(value);
}
