// The program, run as a process: what it wrote and its exit code.

#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include <stdbool.h>

typedef struct program_result {
    int code;        // exit code; -1 when it did not exit by itself
    char *out, *err; // NUL-terminated
} program_result;

// "neuralsim <arguments>", read by the shell, in `folder` and with nothing to read. Redirections
// among the arguments come after those to `out` and `err`.
program_result program_run(const char* folder, const char* arguments);
void program_result_free(program_result* result);

// The whole file, NUL-terminated, to be freed; "" when there is none.
char* program_read_file(const char* path);

#endif
