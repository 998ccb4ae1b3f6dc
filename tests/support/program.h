// The program, run as a process: what it wrote and its exit code.

#ifndef TEST_PROGRAM_H
#define TEST_PROGRAM_H

#include "support/assert.h"

#include <jansson.h>

typedef struct program_result {
    int code;        // exit code; -1 when it did not exit by itself
    char *out, *err; // NUL-terminated
} program_result;

// "neuralsim <arguments>", read by the shell, in `folder` and with nothing to read. Redirections
// among the arguments come after those to `out` and `err`.
program_result program_run(const char* folder, const char* arguments);
void program_result_free(program_result* result);

// The program in the temporary folder: it must succeed; it must fail with this code and say this.
// What it wrote is in `last` until the next run.
extern program_result last;
void run_ok(const char* arguments);
void run_bad(const char* arguments, int code, const char* message);

// A number of the object "metrics" of a result.
double metric(const json_t* root, const char* name);

#endif
