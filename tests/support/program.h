// The program, run as a process: what it wrote and its exit code.

#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "support/assert.h"

typedef struct program_result {
    int code;        // exit code; -1 when it did not exit by itself
    char *out, *err; // NUL-terminated
} program_result;

// "neuralsim <arguments>", read by the shell, in `folder` and with nothing to read. Redirections
// among the arguments come after those to `out` and `err`.
program_result program_run(const char* folder, const char* arguments);
void program_result_free(program_result* result);

// The same in place of an earlier result. It must succeed; it must fail with this code and say this.
void program_must_run(const char* folder, const char* arguments, program_result* last);
void program_must_fail(const char* folder, const char* arguments, int code, const char* message,
                       program_result* last);

// Write a file into a folder.
void program_write_file(const char* folder, const char* name, const char* text);

// Remove a folder with all that is in it; 0 when that worked.
int program_remove_folder(const char* folder);

// The whole file, NUL-terminated, to be freed; "" when there is none.
char* program_read_file(const char* path);

#endif
