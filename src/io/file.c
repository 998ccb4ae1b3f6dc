#define _XOPEN_SOURCE 700

#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PATH_MAX
#define PATH_MAX 4096
#endif

static ns_status read_all(FILE* file, uint32_t most, const ns_allocator* allocator,
                          nsi_bytes* out) {
    enum { CHUNK = 1 << 16 };
    while (out->count <= most) {
        if (!nsi_array_reserve(allocator, out, CHUNK)) return NS_ERR_NOMEM;
        size_t got = fread(out->data + out->count, 1, CHUNK, file);
        out->count += (uint32_t)got;
        if (got < CHUNK) break;
    }
    return ferror(file) ? NS_ERR_IO : NS_OK;
}

ns_status nsi_file_read(const char* path, uint32_t most, const ns_allocator* allocator,
                        nsi_bytes* out, ns_error* error) {
    FILE* file = fopen(path, "rb");
    if (!file) {
        return nsi_fail(error, NS_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    ns_status status = read_all(file, most, allocator, out);
    if (status == NS_ERR_IO) {
        nsi_fail(error, NS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    } else if (status == NS_ERR_NOMEM) {
        nsi_fail_nomem(error);
    }
    fclose(file);
    return status;
}

bool nsi_file_exists(const char* path) {
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

// Does a part of a path lead out of the folder that it is in?
static bool leads_up(const char* name) {
    while (true) {
        size_t size = strcspn(name, "/");
        if (size == 2 && name[0] == '.' && name[1] == '.') return true;
        if (!name[size]) return false;
        name += size + 1;
    }
}

uint32_t nsi_data_folders(const char* own, const char* out[NSI_DATA_FOLDERS]) {
    const char* named = getenv("NEURALSIM_DATA");
    out[0] = own;
    if (!named || !*named) return 1;
    out[1] = named;
    return 2;
}

bool nsi_file_below(const char* file, const char* folder) {
    char* real = realpath(folder, NULL);
    size_t length = real ? strlen(real) : 0;
    if (length == 1) length = 0; // the root
    bool below = real && strncmp(file, real, length) == 0 && file[length] == '/';
    free(real);
    return below;
}

bool nsi_file_find_data(const char* name, const ns_allocator* allocator, char** out) {
    const char* root = getenv("NEURALSIM_DATA");
    *out = NULL;
    if (!root || !*root || *name == '/' || leads_up(name)) return true;
    size_t size = strlen(root) + 1 + strlen(name) + 1;
    char* path = nsi_alloc(allocator, size);
    if (!path) return false;
    snprintf(path, size, "%s/%s", root, name);
    char* real = nsi_file_exists(path) ? realpath(path, NULL) : NULL;
    if (real && nsi_file_below(real, root)) {
        *out = path;
    } else {
        nsi_free(allocator, path);
    }
    free(real);
    return true;
}

char* nsi_file_folder(const char* path, const ns_allocator* allocator) {
    const char* slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) + 1 : 0;
    char* folder = nsi_alloc(allocator, length + 1);
    if (!folder) return NULL;
    memcpy(folder, path, length);
    folder[length] = '\0';
    return folder;
}

// ---- writing -------------------------------------------------------------------------------

static ns_status fail_write(const char* path, int reason, ns_error* error) {
    return nsi_fail(error, NS_ERR_IO, "%s: cannot be written: %s", path, strerror(reason));
}

// Write and close; 0 or an errno. `keep`: wait until it is on the disk.
static int file_write_all(int handle, const char* bytes, size_t size, bool keep) {
    int reason = 0;
    while (size > 0 && reason == 0) {
        ssize_t written = write(handle, bytes, size);
        if (written >= 0) {
            bytes += written;
            size -= (size_t)written;
        } else if (errno != EINTR) {
            reason = errno;
        }
    }
    if (reason == 0 && keep && fsync(handle) != 0) reason = errno;
    if (close(handle) != 0 && reason == 0) reason = errno;
    return reason;
}

enum { TEMPORARY_SIZE = sizeof ".neuralsim-2147483648-1000.tmp" };

// A file in this folder that was not there before. `name` receives its path; returns -1 when there
// is none, with errno.
static int create_temporary(const char* folder, char* name, size_t room) {
    for (int n = 0; n < 1000; n++) { // names taken by others, or left by a crash
        snprintf(name, room, "%s.neuralsim-%ld-%d.tmp", folder, (long)getpid(), n);
        int handle = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (handle >= 0 || errno != EEXIST) return handle;
    }
    return -1;
}

// `old` is what the file is now, or NULL.
static int replace(const char* path, const struct stat* old, const char* folder, char* temporary,
                   size_t room, const char* bytes, size_t size, bool keep) {
    int handle = create_temporary(folder, temporary, room);
    if (handle < 0) return errno;
    int reason = 0;
    if (old && fchmod(handle, old->st_mode & 0777) != 0) reason = errno;
    int written = file_write_all(handle, bytes, size, keep);
    if (reason == 0) reason = written;
    if (reason == 0 && rename(temporary, path) != 0) reason = errno;
    if (reason != 0) unlink(temporary);
    return reason;
}

static ns_status write_file(const char* path, const void* bytes, size_t size, bool keep,
                            const ns_allocator* allocator, ns_error* error) {
    // Devices and pipes cannot be replaced by renaming: write into them.
    // The old file decides how the new one is written.
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode)) {
        int handle = open(path, O_WRONLY | O_CLOEXEC);
        int reason = handle < 0 ? errno : file_write_all(handle, bytes, size, false);
        return reason == 0 ? NS_OK : fail_write(path, reason, error);
    }

    // Renaming would replace a link and a write-protected file without asking.
    char resolved[PATH_MAX];
    // Respect write protection.
    if (exists && access(path, W_OK) != 0) return fail_write(path, errno, error);
    // Write to the target of a symbolic link, not over the link.
    if (exists && !realpath(path, resolved)) return fail_write(path, errno, error);
    const char* target = exists ? resolved : path;

    // Write a temporary file in the same folder, then rename it, so that readers never see half a
    // file.
    char* folder = nsi_file_folder(target, allocator);
    size_t room = (folder ? strlen(folder) : 0) + TEMPORARY_SIZE + 1;
    char* temporary = nsi_alloc(allocator, room);
    int reason = 0;
    // The folder must be the same: renaming between file systems fails.
    if (folder && temporary) {
        reason = replace(target, exists ? &old : NULL, folder, temporary, room, bytes, size, keep);
    }

    // Report the path that the user gave.
    ns_status status = !folder || !temporary ? nsi_fail_nomem(error)
                       : reason != 0         ? fail_write(path, reason, error)
                                             : NS_OK;
    nsi_free(allocator, folder);
    nsi_free(allocator, temporary);
    return status;
}

ns_status nsi_file_write(const char* path, const void* bytes, size_t size,
                         const ns_allocator* allocator, ns_error* error) {
    return write_file(path, bytes, size, true, allocator, error);
}

ns_status nsi_file_write_soon(const char* path, const void* bytes, size_t size,
                              const ns_allocator* allocator, ns_error* error) {
    return write_file(path, bytes, size, false, allocator, error);
}
