// What the commands share: exit codes, options, files, messages.

#ifndef CLI_H
#define CLI_H

#include <stdbool.h>
#include <stddef.h>

enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

// Each command gets its arguments after its own name and returns the exit code.
int cmd_bench(int argc, char** argv);
int cmd_graph(int argc, char** argv);

// "neuralsim: <message>" on stderr; returns EXIT_FAILED.
int cli_fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The same with a hint at --help; returns EXIT_USAGE.
int cli_usage(const char* command, const char* format, ...) __attribute__((format(printf, 2, 3)));

// If argv[*i] is `--name VALUE` or `--name=VALUE`, set *value, step over it and return true. A
// missing value sets *value to NULL.
bool cli_option(int argc, char** argv, int* i, const char* name, const char** value);

// The whole file, NUL-terminated, to be freed; NULL after saying why. "-" is standard input.
char* cli_read_file(const char* path, size_t* size);

// Write a whole file, or standard output for NULL; false after saying why.
bool cli_write_file(const char* path, const char* data, size_t size);

// Flush standard output; EXIT_FAILED with a message when it could not be written (a full disk).
int cli_finish(void);

#endif
