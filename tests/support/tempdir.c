#define _XOPEN_SOURCE 700 // mkdtemp, nftw, realpath

#include "support/tempdir.h"

#include "support/assert.h"

#include <errno.h>
#include <ftw.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char* tempdir_folder; // absolute; NULL when there is none
static pid_t tempdir_owner;  // a process forked by the test leaves the folder alone

// "folder/name" in memory of its own.
static char* tempdir_join(const char* folder, const char* name) {
    size_t size = strlen(folder) + strlen(name) + 2;
    char* path = malloc(size);
    assert_non_null(path);
    snprintf(path, size, "%s/%s", folder, name);
    return path;
}

static int tempdir_remove_one(const char* path, const struct stat* status, int type,
                              struct FTW* walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

void tempdir_remove(void) {
    if (!tempdir_folder || tempdir_owner != getpid()) return;
    nftw(tempdir_folder, tempdir_remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(tempdir_folder);
    tempdir_folder = NULL;
}

const char* tempdir(void) {
    static bool registered;
    if (tempdir_folder) return tempdir_folder;

    const char* place = getenv("TMPDIR");
    char* made = tempdir_join(place && *place ? place : "/tmp", "neuralsim_test_XXXXXX");
    if (!mkdtemp(made)) fail_msg("cannot make %s: %s", made, strerror(errno));

    // Absolute, so that it holds after chdir().
    tempdir_folder = realpath(made, NULL);
    free(made);
    assert_non_null(tempdir_folder);
    tempdir_owner = getpid();
    if (!registered) atexit(tempdir_remove);
    registered = true;
    return tempdir_folder;
}

const char* tempdir_path(const char* name) {
    static char* paths[8];
    static unsigned next;
    char** path = &paths[next++ % 8];
    char* joined = tempdir_join(tempdir(), name);
    free(*path);
    *path = joined;
    return joined;
}

const char* tempdir_write_bytes(const char* name, const void* bytes, size_t size) {
    const char* path = tempdir_path(name);
    FILE* file = fopen(path, "wb");
    bool written = file && fwrite(bytes, 1, size, file) == size;
    if (file && fclose(file) != 0) written = false;
    if (!written) fail_msg("cannot write %s: %s", path, strerror(errno));
    return path;
}

const char* tempdir_write(const char* name, const char* text) {
    return tempdir_write_bytes(name, text, strlen(text));
}

char* file_text(const char* path) {
    FILE* file = fopen(path, "rb");
    size_t capacity = 1 << 16, size = 0;
    char* text = malloc(capacity + 1);
    assert_non_null(text);
    while (file) {
        size += fread(text + size, 1, capacity - size, file);
        if (size < capacity) break;
        capacity *= 2;
        char* longer = realloc(text, capacity + 1);
        assert_non_null(longer);
        text = longer;
    }
    if (file) fclose(file);
    text[size] = '\0';
    return text;
}

char* tempdir_read(const char* name) {
    return file_text(tempdir_path(name));
}

const char* tempdir_mkdir(const char* name) {
    const char* path = tempdir_path(name);
    if (mkdir(path, 0777) != 0) fail_msg("cannot make %s: %s", path, strerror(errno));
    return path;
}
