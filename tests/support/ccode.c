#include "support/ccode.h"

#include "base/common.h"
#include "neuralsim/program.h"
#include "support/tempdir.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Inline fused multiply-adds where the machine has them, the same numbers either way.
#ifdef __x86_64__
#define MACHINE "-march=native "
#else
#define MACHINE ""
#endif
#define FLAGS "-std=c17 -ffp-contract=off " MACHINE "-Wall -Wextra -Werror"

typedef void function(const double* in, double* out, const double* const* arrays,
                      double* const* sinks, double* work);

struct ccode {
    nsi_text_builder text;
    uint32_t count;
    void* library;
    function* const* functions; // in the library
    const int* work;            // doubles of work, per function
};

// Names that every emitted file defines for itself begin with ns_; give them the function's name in
// front, so that many files can be one.
static void add_renamed(nsi_text_builder* text, const char* from, const char* name) {
    bool inside = false; // an identifier or number
    for (; *from; from++) {
        bool part = *from == '_' || (*from >= 'a' && *from <= 'z') ||
                    (*from >= 'A' && *from <= 'Z') || (*from >= '0' && *from <= '9');
        if (part && !inside && strncmp(from, "ns_", 3) == 0) nsi_text_add(text, "%s_", name);
        nsi_text_add_bytes(text, from, 1);
        inside = part;
    }
}

ccode* ccode_create(void) {
    ccode* c = calloc(1, sizeof *c);
    if (c) c->text.allocator = ns_default_allocator();
    return c;
}

static void unload(ccode* c) {
    if (c->library) dlclose(c->library);
    c->library = NULL;
}

void ccode_free(ccode* c) {
    if (!c) return;
    unload(c);
    ns_text text;
    if (nsi_text_finish(&c->text, &text, NULL) == NS_OK) ns_text_free(&text);
    free(c);
}

uint32_t ccode_add(ccode* c, const ns_graph* graph, ns_error* error) {
    char name[32];
    snprintf(name, sizeof name, "f%u", c->count);
    ns_text text;
    if (ns_graph_emit_c(graph, name, &text, error) != NS_OK) return UINT32_MAX;
    add_renamed(&c->text, text.data, name);
    ns_text_free(&text);
    return c->count++;
}

// ---- compiling -----------------------------------------------------------------------------

static bool write_source(const ccode* c, const char* path) {
    FILE* file = fopen(path, "w");
    if (!file) return false;
    bool ok = !c->text.failed &&
              fwrite(c->text.text.data, 1, c->text.text.count, file) == c->text.text.count;
    // Tables of everything, so that two symbols are enough.
    fprintf(file, "\nvoid (*const ccode_functions[])(const double*, double*, const double* const*,"
                  " double* const*, double*) = {\n");
    for (uint32_t i = 0; i < c->count; i++) fprintf(file, "f%u,\n", i);
    fprintf(file, "};\nconst int ccode_work[] = {\n");
    for (uint32_t i = 0; i < c->count; i++) fprintf(file, "f%u_work,\n", i);
    fprintf(file, "};\n");
    return fclose(file) == 0 && ok;
}

static void read_log(const char* path, char* message, size_t size) {
    FILE* file = fopen(path, "r");
    size_t used = strlen(message);
    if (!file) return;
    used += fread(message + used, 1, size - 1 - used, file);
    message[used] = '\0';
    fclose(file);
}

static bool load(ccode* c, const char* path, char* message, size_t size) {
    c->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!c->library) {
        snprintf(message, size, "emitted C was compiled but not loaded: %s", dlerror());
        return false;
    }
    c->functions = (function* const*)dlsym(c->library, "ccode_functions");
    c->work = (const int*)dlsym(c->library, "ccode_work");
    return c->functions && c->work;
}

bool ccode_compile(ccode* c, const char* compiler, bool optimised, char* message, size_t size) {
    unload(c);
    snprintf(message, size, "cannot write a temporary file");
    // dlopen() tells libraries apart by their paths: each has a number of its own.
    static unsigned number;
    char name[32];
    snprintf(name, sizeof name, "ccode%u.so", number++);
    const char* library = tempdir_path(name);
    const char* source = tempdir_path("ccode.c");
    const char* log = tempdir_path("ccode.log");
    bool ok = write_source(c, source);
    if (ok) {
        static const char form[] = "%s %s " FLAGS " -fPIC -shared -o '%s' '%s' -lm > '%s' 2>&1";
        size_t length =
            sizeof form + strlen(compiler) + strlen(source) + strlen(library) + strlen(log) + 8;
        char* command = malloc(length);
        if (!command) return false;
        snprintf(command, length, form, compiler, optimised ? "-O1" : "-O0", library, source, log);
        snprintf(message, size, "%s refuses emitted C:\n", compiler);
        ok = system(command) == 0;
        if (!ok) read_log(log, message, size);
        free(command);
    }
    ok = ok && load(c, library, message, size);
    remove(source);
    remove(library);
    remove(log);
    return ok;
}

static bool installed(const char* compiler) {
    char command[100];
    snprintf(command, sizeof command, "%s --version > /dev/null 2>&1", compiler);
    return system(command) == 0;
}

const char* ccode_compiler(uint32_t number) {
    static const char* found[3];
    static uint32_t count;
    static bool searched;
    if (!searched) {
        static const char* const wanted[] = {"gcc", "clang"};
        searched = true;
        for (int i = 0; i < 2; i++) {
            if (installed(wanted[i])) {
                found[count++] = wanted[i];
            } else {
                printf("%s is not installed: emitted C is not compiled with it\n", wanted[i]);
            }
        }
        if (count == 0 && installed("cc")) found[count++] = "cc";
        if (count == 0) printf("no C compiler is installed: emitted C is not checked at all\n");
    }
    return number < count ? found[number] : NULL;
}

// ---- running -------------------------------------------------------------------------------

bool ccode_run(const ccode* c, uint32_t number, const double* in, double* out,
               const double* const* arrays, double* const* sinks) {
    enum { GUARD = 8 }; // doubles behind the work array that must stay as they are
    size_t count = (size_t)c->work[number], bytes = (count + GUARD) * sizeof(double);
    unsigned char* work = malloc(bytes);
    if (!work) return false;
    memset(work, 0xff, bytes); // NaNs: a value that is read before it is written shows
    c->functions[number](in, out, arrays, sinks, (double*)(void*)work);
    bool intact = true;
    for (size_t i = count * sizeof(double); i < bytes; i++) intact = intact && work[i] == 0xff;
    free(work);
    return intact;
}
