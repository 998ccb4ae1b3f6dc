#define _POSIX_C_SOURCE 200809L

#include "io/file.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

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
