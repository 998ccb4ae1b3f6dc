#define _POSIX_C_SOURCE 200809L

#include "support/realdata.h"

#include "support/assert.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

const char* need_data(const char* name) {
    static char path[PATH_MAX];
    const char* folder = getenv("NEURALSIM_DATA");
    snprintf(path, sizeof path, "%s/%s", folder ? folder : "", name);
    if (!folder || !*folder || access(path, R_OK) != 0) {
        print_message("%s is not at hand (NEURALSIM_DATA names the folder): skipped\n", name);
        skip();
    }
    return path;
}
