// Where a file is that a model names.

#define _XOPEN_SOURCE 700 // realpath

#include "io/mesh_path.h"

#include "io/file.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct finder {
    const nsi_mesh_search* search;
    char home[NSI_MESH_MAX_PATH]; // of the model's file: absolute, without '/' at the end
    uint32_t levels;              // folders above it that are searched
    uint32_t within;              // folders above it that names with ".." may lead to
    char rest[NSI_MESH_MAX_PATH]; // of the name, without "." and ".." except at the start
    uint32_t up;                  // how many ".." these are, left out of `rest`
    const char* package;          // (package_size) or NULL
    size_t package_size;
    char* out;
    bool outside;                           // something was found where nothing may be read
    char outside_folder[NSI_MESH_MAX_PATH]; // of the first such file
} finder;

// ---- names -----------------------------------------------------------------------------------

size_t nsi_mesh_package(const char* name, const char** out) {
    static const char* const schemes[] = {"package://", "model://"};
    for (int k = 0; k < 2; k++) {
        size_t length = strlen(schemes[k]);
        if (strncmp(name, schemes[k], length) != 0) continue;
        *out = name + length;
        return strcspn(*out, "/\\");
    }
    return 0;
}

void nsi_mesh_permission(const char* folder, char* out, size_t size) {
    // Letters of other languages need no quotes.
    bool plain = true;
    for (const char* c = folder; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c & 0x80);
        plain = plain && (letter || strchr("0123456789/._-+@%:,=", *c));
    }
    if (plain) {
        snprintf(out, size, "--package-path %s", *folder ? folder : "FOLDER");
        return;
    }

    // A quote ends the quoted text, stands behind a backslash, and starts it again.
    size_t length = (size_t)snprintf(out, size, "--package-path '");
    for (const char* c = folder; *c; c++) {
        const char* text = *c == '\'' ? "'\\''" : c;
        size_t count = text == c ? 1 : 4;
        if (length + count + 2 > size) break;
        memcpy(out + length, text, count);
        length += count;
    }
    memcpy(out + length, "'", 2);
}

static bool is_slash(char c) {
    return c == '/' || c == '\\'; // names written on Windows
}

// Take "." and ".." out of a name. ".." at the start is counted instead. False when it is too long.
static bool normalise(const char* name, char out[NSI_MESH_MAX_PATH], uint32_t* up) {
    size_t length = 0;
    *up = 0;
    while (*name) {
        while (is_slash(*name)) name++;
        size_t size = 0;
        while (name[size] && !is_slash(name[size])) size++;
        bool back = size == 2 && memcmp(name, "..", 2) == 0;
        if (back && length > 0) {
            while (length > 0 && out[length - 1] != '/') length--;
            if (length > 0) length--;
        } else if (back) {
            (*up)++;
        } else if (size > 0 && !(size == 1 && *name == '.')) {
            if (length + size + 2 > NSI_MESH_MAX_PATH) return false;
            if (length > 0) out[length++] = '/';
            memcpy(out + length, name, size);
            length += size;
        }
        name += size;
    }
    out[length] = '\0';
    return true;
}

// ---- folders ---------------------------------------------------------------------------------

// Cut the last part off an absolute path; false at the root.
static bool cut_last(char* path) {
    char* slash = strrchr(path, '/');
    if (!slash) return false;
    *slash = '\0';
    return true;
}

// The folders above the model that may be searched, and how far up names may lead.
static void measure(finder* f) {
    const char* folder = f->search->folder;
    f->home[0] = '\0';
    char* real = realpath(*folder ? folder : ".", NULL);
    if (real && strlen(real) < sizeof f->home) memcpy(f->home, real, strlen(real) + 1);
    free(real);

    const char* user = getenv("HOME");
    char* limit = user && *user ? realpath(user, NULL) : NULL;
    char at[NSI_MESH_MAX_PATH], mark[NSI_MESH_MAX_PATH + 16];
    memcpy(at, f->home, sizeof at);
    bool found = false;
    f->levels = f->within = 0;
    for (uint32_t k = 0; k <= NSI_MESH_LEVELS; k++) {
        bool last = limit && strcmp(at, limit) == 0;
        if (at[0] == '\0' || (last && k > 0)) break;
        f->levels = k;
        snprintf(mark, sizeof mark, "%s/package.xml", at);
        if (!found && nsi_file_exists(mark)) {
            found = true;
            f->within = k;
        }
        if (last || !cut_last(at)) break;
    }
    free(limit);
    if (!found) f->within = f->levels > 0 ? 1 : 0;
}

// The k-th folder above the model's, without '/' at the end.
static void folder_above(const finder* f, uint32_t k, char out[NSI_MESH_MAX_PATH]) {
    memcpy(out, f->home, sizeof f->home);
    while (k-- > 0) cut_last(out);
}

// Is the k-th folder above the model's named like the package?
static bool is_package(const finder* f, uint32_t k) {
    char at[NSI_MESH_MAX_PATH];
    folder_above(f, k, at);
    const char* slash = strrchr(at, '/');
    return slash && strlen(slash + 1) == f->package_size &&
           memcmp(slash + 1, f->package, f->package_size) == 0;
}

// ---- what may be read ------------------------------------------------------------------------

// Is the file inside the folder? `size` is the length of the folder's name.
static bool is_inside(const char* file, const char* folder, size_t size) {
    char copy[NSI_MESH_MAX_PATH];
    if (size == 0 || size >= sizeof copy) return false;
    memcpy(copy, folder, size);
    copy[size] = '\0';
    return nsi_file_below(file, copy);
}

// In a folder of packages given by the caller or by the environment?
static bool is_given(const finder* f, const char* file) {
    for (uint32_t k = 0; k < f->search->npackage; k++) {
        const char* folder = f->search->packages[k];
        if (folder && is_inside(file, folder, strlen(folder))) return true;
    }
    static const char* const lists[] = {"ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH"};
    for (int i = 0; i < 2; i++) {
        const char* list = getenv(lists[i]);
        while (list && *list) {
            size_t size = strcspn(list, ":");
            if (is_inside(file, list, size)) return true;
            list += size + (list[size] == ':');
        }
    }
    return false;
}

// In the model's package, which the root of all files is not, or in a folder that is given?
static bool is_allowed(const finder* f, const char* file) {
    char root[NSI_MESH_MAX_PATH];
    folder_above(f, f->within, root);
    return (strcmp(root, "/") != 0 && is_inside(file, root, strlen(root))) || is_given(f, file);
}

// Keep the folder of the first file that may not be read.
static void forbid(finder* f, const char* file) {
    if (f->outside) return;
    f->outside = true;
    snprintf(f->outside_folder, sizeof f->outside_folder, "%.*s", NSI_MESH_MAX_PATH - 1, file);
    cut_last(f->outside_folder);
    if (f->outside_folder[0] == '\0') memcpy(f->outside_folder, "/", 2);
}

// ---- attempts --------------------------------------------------------------------------------

// Is there a file <folder>/<middle><rest>? `size` is the length of the folder's name; `start` receives
// where the rest begins.
static bool compose(finder* f, const char* folder, size_t size, const char* middle, size_t* start) {
    bool slash = size > 0 && folder[size - 1] != '/';
    int length = snprintf(f->out, NSI_MESH_MAX_PATH, "%.*s%s%s", (int)size, folder,
                          slash ? "/" : "", middle);
    if (length < 0 || (size_t)length + strlen(f->rest) >= NSI_MESH_MAX_PATH) return false;
    memcpy(f->out + length, f->rest, strlen(f->rest) + 1);
    *start = (size_t)length;
    return nsi_file_exists(f->out);
}

// May the file that was composed be read? With `package`, a folder without links that the file's package
// is in, also from that package.
static bool may_read(finder* f, size_t start, const char* package) {
    char before[NSI_MESH_MAX_PATH] = ".", named[2 * NSI_MESH_MAX_PATH];
    if (start > 0) snprintf(before, sizeof before, "%.*s", (int)start, f->out);
    char *folder = realpath(before, NULL), *real = realpath(f->out, NULL);
    bool allowed = false;
    if (folder && real) {
        // Links in folders that are given may lead out of them.
        snprintf(named, sizeof named, "%s/%s", strcmp(folder, "/") == 0 ? "" : folder, f->rest);
        allowed = is_allowed(f, real) || is_given(f, named);

        // Links must not lead to another package, nor out of it.
        if (package && (strcmp(folder, package) == 0 || nsi_file_below(folder, package))) {
            allowed = allowed || nsi_file_below(real, folder);
        }
        if (!allowed) forbid(f, real);
    }
    free(folder);
    free(real);
    return allowed;
}

static bool attempt(finder* f, const char* folder, size_t size, const char* middle) {
    size_t start;
    return compose(f, folder, size, middle, &start) && may_read(f, start, NULL);
}

// The same in the k-th folder above the model's, which may be or contain the name's package.
static bool attempt_above(finder* f, uint32_t k, const char* middle, bool package) {
    char up[3 * (NSI_MESH_LEVELS + 1) + 1 + NSI_MESH_MAX_PATH] = "", above[NSI_MESH_MAX_PATH];
    for (uint32_t i = 0; i < k; i++) memcpy(up + 3 * i, "../", 4);
    snprintf(up + 3 * (size_t)k, sizeof up - 3 * (size_t)k, "%s", middle);
    folder_above(f, k, above);
    size_t start;
    return compose(f, f->search->folder, strlen(f->search->folder), up, &start) &&
           may_read(f, start, package ? above : NULL);
}

// The package's name as a folder.
static void package_folder(const finder* f, const char* before, char out[NSI_MESH_MAX_PATH]) {
    snprintf(out, NSI_MESH_MAX_PATH, "%s%.*s/", before, (int)f->package_size, f->package);
}

// A folder that is given and is the package, or contains it. Links may lead out of it.
static bool attempt_package(finder* f, const char* folder, size_t size) {
    while (size > 1 && folder[size - 1] == '/') size--;
    size_t p = f->package_size;
    bool ends = size >= p && memcmp(folder + size - p, f->package, p) == 0 &&
                (size == p || folder[size - p - 1] == '/');
    char middle[NSI_MESH_MAX_PATH];
    package_folder(f, "", middle);
    size_t start;
    return (ends && compose(f, folder, size, "", &start)) ||
           compose(f, folder, size, middle, &start);
}

// Each folder of a list separated by colons.
static bool attempt_list(finder* f, const char* list, bool share) {
    char middle[NSI_MESH_MAX_PATH];
    package_folder(f, "share/", middle);
    while (list && *list) {
        size_t size = strcspn(list, ":"), start;
        bool found = size > 0 && (share ? compose(f, list, size, middle, &start)
                                        : attempt_package(f, list, size));
        if (found) return true;
        list += size + (list[size] == ':');
    }
    return false;
}

static bool find_in_package(finder* f) {
    char middle[NSI_MESH_MAX_PATH];
    package_folder(f, "", middle);
    for (uint32_t k = 0; k < f->search->npackage; k++) {
        const char* folder = f->search->packages[k];
        if (folder && attempt_package(f, folder, strlen(folder))) return true;
    }
    for (uint32_t k = 0; k <= f->levels; k++) {
        if ((is_package(f, k) && attempt_above(f, k, "", true)) ||
            attempt_above(f, k, middle, true)) {
            return true;
        }
    }
    if (attempt_list(f, getenv("ROS_PACKAGE_PATH"), false) ||
        attempt_list(f, getenv("AMENT_PREFIX_PATH"), true)) {
        return true;
    }
    for (uint32_t k = 0; k <= f->levels; k++) {
        if (attempt_above(f, k, "", false)) return true;
    }
    return false;
}

// ---- all -------------------------------------------------------------------------------------

// An absolute name, or one that leads up from a folder: nothing else is tried. Where it must not lead,
// nothing is looked for either.
static bool find_exactly(finder* f, const char* folder) {
    char at[NSI_MESH_MAX_PATH], whole[2 * NSI_MESH_MAX_PATH + 1];
    char* real = realpath(*folder ? folder : ".", NULL);
    if (!real || strlen(real) >= sizeof at) {
        free(real);
        return false;
    }
    memcpy(at, real, strlen(real) + 1);
    free(real);
    if (strcmp(at, "/") == 0) at[0] = '\0';
    for (uint32_t k = 0; k < f->up && cut_last(at); k++) {
    }
    snprintf(whole, sizeof whole, "%s/%s", at, f->rest);
    if (!is_allowed(f, whole)) {
        // Folders may have been named through links.
        real = realpath(whole, NULL);
        bool allowed = real && is_allowed(f, real);
        free(real);
        if (!allowed) {
            forbid(f, whole);
            return false;
        }
    }

    // As it is named, from the folder: results copy such files with their model.
    char ups[NSI_MESH_MAX_PATH] = "";
    if (f->up >= sizeof ups / 3) return false;
    for (uint32_t k = 0; k < f->up; k++) memcpy(ups + 3 * (size_t)k, "../", 4);
    return attempt(f, folder, strlen(folder), ups);
}

static bool find_relative(finder* f) {
    const nsi_mesh_search* search = f->search;
    const char* folder = search->beside ? search->beside : search->folder;
    if (f->up > 0) return find_exactly(f, folder);
    if (search->beside) return attempt(f, folder, strlen(folder), "");
    for (uint32_t k = 0; k <= f->within; k++) {
        if (attempt_above(f, k, "", false)) return true;
    }
    return false;
}

nsi_mesh_place nsi_mesh_find(const nsi_mesh_search* search, const char* name,
                             char out[NSI_MESH_MAX_PATH]) {
    finder f = {.search = search, .out = out};
    *out = '\0';
    if (!search->beside) f.package_size = nsi_mesh_package(name, &f.package);
    const char* rest = strncmp(name, "file://", 7) == 0 ? name + 7 : name;
    if (f.package_size > 0) rest = f.package + f.package_size;
    if (!normalise(rest, f.rest, &f.up) || f.rest[0] == '\0') return NSI_MESH_MISSING;
    measure(&f);

    // In a package, of which one that is named ".." is none; absolute; relative.
    bool found = false;
    if (f.package_size > 0) {
        bool dots = f.package_size <= 2 && strncmp(f.package, "..", f.package_size) == 0;
        if (f.up > 0 || dots) return NSI_MESH_OUTSIDE;
        found = find_in_package(&f);
    } else {
        found = rest[0] == '/' ? find_exactly(&f, "/") : find_relative(&f);
    }
    if (found) return NSI_MESH_FOUND;
    memcpy(out, f.outside_folder, sizeof f.outside_folder);
    return f.outside ? NSI_MESH_OUTSIDE : NSI_MESH_MISSING;
}
