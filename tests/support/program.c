// Run the program with its output in two temporary files.

#define _POSIX_C_SOURCE 200809L

#include "support/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
