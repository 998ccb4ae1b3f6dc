// Run the program with its output in two temporary files.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

char* program_read_file(const char* path) {
    FILE* file = fopen(path, "rb");
    if (!file) return calloc(1, 1);
    size_t capacity = 1 << 16, size = 0;
    char* text = malloc(capacity + 1);
    while (text) {
        size += fread(text + size, 1, capacity - size, file);
        if (size < capacity) break;
        capacity *= 2;
        char* larger = realloc(text, capacity + 1);
        if (!larger) free(text);
        text = larger;
    }
    fclose(file);
    if (text) text[size] = '\0';
    return text;
}

program_result program_run(const char* folder, const char* arguments) {
    program_result result = {.code = -1};
    char out[] = "/tmp/neuralsim_out_XXXXXX", err[] = "/tmp/neuralsim_err_XXXXXX";
    int out_file = mkstemp(out), err_file = mkstemp(err);
    char command[8192];
    int length = snprintf(command, sizeof command, "cd '%s' && '%s' >%s 2>%s </dev/null %s", folder,
                          NEURALSIM_PROGRAM, out, err, arguments);
    if (out_file >= 0 && err_file >= 0 && length > 0 && (size_t)length < sizeof command) {
        int status = system(command); // NOLINT: the shell is what is wanted
        if (WIFEXITED(status)) result.code = WEXITSTATUS(status);
    }
    result.out = program_read_file(out);
    result.err = program_read_file(err);
    if (out_file >= 0) close(out_file);
    if (err_file >= 0) close(err_file);
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

static void run_again(const char* folder, const char* arguments, program_result* last) {
    program_result_free(last);
    *last = program_run(folder, arguments);
}

void program_must_run(const char* folder, const char* arguments, program_result* last) {
    run_again(folder, arguments, last);
    if (last->code != 0) {
        fail_msg("neuralsim %s: exit code %d: %s", arguments, last->code, last->err);
    }
}

void program_must_fail(const char* folder, const char* arguments, int code, const char* message,
                       program_result* last) {
    run_again(folder, arguments, last);
    if (last->code != code || !strstr(last->err, message)) {
        fail_msg("neuralsim %s: exit code %d, expected %d; said: %sexpected: %s", arguments,
                 last->code, code, last->err, message);
    }
}

void program_write_file(const char* folder, const char* name, const char* text) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE* file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

int program_remove_folder(const char* folder) {
    char command[600];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}
