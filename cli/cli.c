// Shared by all commands.

#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE = 256 << 20 };

int cli_fail(const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "neuralsim: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    return EXIT_FAILED;
}

int cli_usage(const char* command, const char* format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "neuralsim %s: ", command);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "; see 'neuralsim %s --help'\n", command);
    va_end(arguments);
    return EXIT_USAGE;
}

bool cli_option(int argc, char** argv, int* i, const char* name, const char** value) {
    const char* argument = argv[*i];
    size_t length = strlen(name);
    if (strncmp(argument, name, length) != 0) return false;
    if (argument[length] == '=') {
        *value = argument + length + 1;
        return true;
    }
    if (argument[length] != '\0') return false;
    *value = *i + 1 < argc ? argv[++*i] : NULL;
    return true;
}

char* cli_read_file(const char* path, size_t* size) {
    bool standard = strcmp(path, "-") == 0;
    FILE* file = standard ? stdin : fopen(path, "rb");
    if (!file) {
        cli_fail("cannot open %s: %s", path, strerror(errno));
        return NULL;
    }
    size_t capacity = 1 << 16, used = 0;
    char* data = malloc(capacity + 1);
    while (data) {
        used += fread(data + used, 1, capacity - used, file);
        if (used < capacity || capacity >= MAX_FILE) break;
        char* larger = realloc(data, 2 * capacity + 1);
        if (!larger) free(data);
        data = larger;
        capacity *= 2;
    }
    bool failed = ferror(file) != 0;
    bool more = data && used == capacity && fgetc(file) != EOF;
    int reason = errno;
    if (!standard) fclose(file);
    if (!data) {
        cli_fail("out of memory reading %s", path);
    } else if (failed) {
        cli_fail("cannot read %s: %s", path, strerror(reason));
    } else if (more) {
        cli_fail("%s is larger than %d MiB", path, MAX_FILE >> 20);
    } else {
        data[used] = '\0';
        *size = used;
        return data;
    }
    free(data);
    return NULL;
}

bool cli_write_file(const char* path, const char* data, size_t size) {
    FILE* file = path ? fopen(path, "wb") : stdout;
    if (!file) {
        cli_fail("cannot create %s: %s", path, strerror(errno));
        return false;
    }
    bool written = fwrite(data, 1, size, file) == size;
    written = (path ? fclose(file) : fflush(file)) == 0 && written;
    if (!written) cli_fail("cannot write %s: %s", path ? path : "the output", strerror(errno));
    return written;
}

int cli_finish(void) {
    if (fflush(stdout) == 0 && !ferror(stdout)) return EXIT_OK;
    return cli_fail("cannot write the output: %s", strerror(errno));
}
