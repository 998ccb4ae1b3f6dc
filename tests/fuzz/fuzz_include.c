// Any bytes as an MJCF file and files that it includes, separated by lines of ten equals signs:
// main.xml, a.xml, parts/b.xml, c.xml. They are written to a temporary folder, in memory where there is
// one. As fuzz_model: a sound model, or a message that says which file and where.

#define _XOPEN_SOURCE 700 // mkdtemp

#include "fuzz/model_check.h"

#include <sys/stat.h>

enum { FILES = 4, ROOM = 200 };
static const char separator[] = "==========\n";
static char paths[FILES][ROOM];

static void make_folder(void) {
    static const char* const names[FILES] = {"main.xml", "a.xml", "parts/b.xml", "c.xml"};
    char folder[100] = "/dev/shm/fuzz_include_XXXXXX", parts[ROOM];
    if (!mkdtemp(folder)) {
        strcpy(folder, "/tmp/fuzz_include_XXXXXX");
        REQUIRE(mkdtemp(folder));
    }
    snprintf(parts, sizeof parts, "%s/parts", folder);
    REQUIRE(mkdir(parts, 0700) == 0);
    for (int k = 0; k < FILES; k++) snprintf(paths[k], ROOM, "%s/%s", folder, names[k]);
}

// Where the next separator starts, or the end.
static size_t find_separator(const uint8_t* data, size_t size) {
    size_t length = sizeof separator - 1;
    for (size_t k = 0; k + length <= size; k++) {
        if (memcmp(data + k, separator, length) == 0) return k;
    }
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (!paths[0][0]) make_folder();
    for (int k = 0; k < FILES; k++) {
        size_t length = k + 1 < FILES ? find_separator(data, size) : size;
        FILE* file = fopen(paths[k], "wb");
        REQUIRE(file && fwrite(data, 1, length, file) == length);
        fclose(file);
        size_t taken = length < size ? length + sizeof separator - 1 : size;
        data += taken, size -= taken;
    }

    ns_model* model = NULL;
    ns_error error = {0};
    ns_status status = ns_model_load(paths[0], NULL, &model, &error);
    REQUIRE((status == NS_OK) == (model != NULL));
    REQUIRE(status == error.status);
    size_t folder = strlen(paths[0]) - strlen("main.xml");
    REQUIRE(status == NS_OK || strncmp(error.message, paths[0], folder) == 0);
    if (model) check_model(model);
    ns_model_free(model);
    return 0;
}
