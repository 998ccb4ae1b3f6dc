// <include file="leg.xml"/>: the children of the file's root element take the place of the element.
//
// Files are searched in the folder of the main file, as in MuJoCo, then in that of the file that
// includes them. A file can be included once, so that cycles are impossible. Names that lead out of the
// main file's folder are refused: nothing that a stranger's model includes is read from elsewhere.

#include "io/file.h"
#include "io/mjcf.h"
#include "io/numbers.h"

#include <stdio.h>

typedef struct includer {
    nsi_reader* reader;
    nsi_names files; // names relative to the main file's folder, the main file first
} includer;

// Append a name to a folder and resolve "." and "..". False when that leads out of the folder where
// both start. `out` has room for both and two more characters.
static bool join_path(const char* folder, const char* name, char* out) {
    const char* parts[2] = {folder, name};
    size_t length = 0;
    for (int k = 0; k < 2; k++) {
        for (const char* at = parts[k]; *at; at += strspn(at, "/")) {
            size_t size = strcspn(at, "/");
            if (size == 2 && memcmp(at, "..", 2) == 0) {
                if (length == 0) return false;
                while (length > 0 && out[--length] != '/') {
                }
            } else if (size > 0 && !(size == 1 && *at == '.')) {
                if (length > 0) out[length++] = '/';
                memcpy(out + length, at, size);
                length += size;
            }
            at += size;
        }
    }
    out[length] = '\0';
    return true;
}

// A path below the main file's folder, NULL when it leads out of it; false when out of memory.
static bool include_path(includer* i, const char* within, size_t within_size, const char* name,
                         char** out) {
    nsi_arena* arena = &i->reader->xml->arena;
    size_t root = strlen(i->reader->folder);
    char* path = nsi_arena_alloc(arena, root + within_size + strlen(name) + 3);
    const char* folder = nsi_arena_string(arena, within, within_size);
    *out = NULL;
    if (!path || !folder) return nsi_reader_fail_nomem(i->reader);
    memcpy(path, i->reader->folder, root);
    if (join_path(folder, name, path + root)) *out = path;
    return true;
}

// The path of the file that an element names.
static bool find_included(includer* i, const nsi_xml_element* element, const char** out) {
    nsi_reader* reader = i->reader;
    const char* name;
    char quote[NSI_QUOTE_SIZE], *path;
    if (!nsi_reader_required(reader, element, "file", &name)) return false;
    nsi_quote(name, strlen(name), quote);
    if (!reader->folder) {
        return nsi_reader_fail(reader, element, NS_ERR_IO,
                               "file %s cannot be found, since the model was not loaded from a "
                               "file",
                               quote);
    }

    // Beside the main file, or beside the file that includes it.
    const char* including = element->file + strlen(reader->folder);
    const char* slash = strrchr(including, '/');
    bool outside = name[0] == '/';
    for (int k = 0; k < (slash ? 2 : 1) && name[0] != '/'; k++) {
        if (!include_path(i, including, k == 0 ? 0 : (size_t)(slash - including), name, &path)) {
            return false;
        }
        *out = path;
        if (path && nsi_file_exists(path)) return true;
        outside = outside || !path;
    }
    return nsi_reader_fail(
        reader, element, NS_ERR_IO, "file %s %s", quote,
        outside ? "is not in the folder of the model's main file; included files must be there, or "
                  "in folders below"
                : "not found in the folder of the model's main file");
}

// The root element of a file, to be put where the include element is; NULL after a failure.
static nsi_xml_element* parse_included(includer* i, const nsi_xml_element* element,
                                       const char* path) {
    nsi_reader* reader = i->reader;
    uint32_t depth = 0;
    for (const nsi_xml_element* outer = element->parent; outer; outer = outer->parent) depth++;
    nsi_bytes text = {0};
    nsi_xml_element* root = NULL;
    ns_error error;
    ns_status status = nsi_file_read(path, NSI_XML_MAX_SIZE, &reader->allocator, &text, &error);
    if (status == NS_OK) {
        status = nsi_xml_parse_more(reader->xml, text.data, text.count, path, depth, &root, &error);
    }
    nsi_array_free(&reader->allocator, &text);
    if (status == NS_OK) return root;
    if (status == NS_ERR_NOMEM) {
        nsi_reader_fail_nomem(reader);
    } else {
        reader->status = nsi_fail(reader->error, status, "%s", error.message);
    }
    return NULL;
}

// Replace an element by what it includes.
static bool include_file(includer* i, nsi_xml_element* element, nsi_xml_element* before) {
    nsi_reader* reader = i->reader;
    const char* path = NULL;
    if (element->first_child) {
        return nsi_reader_fail(reader, element, NS_ERR_PARSE, "there are elements inside");
    }
    for (uint32_t k = 0; k < element->nattributes; k++) {
        const char* name = element->attributes[k].name;
        if (strcmp(name, "file") != 0 &&
            !nsi_reader_note(reader, element, "%.60s: not represented", name)) {
            return false;
        }
    }
    if (!find_included(i, element, &path)) return false;

    // Each file once.
    const char* name = path + strlen(reader->folder);
    uint32_t number = nsi_names_find(&i->files, name);
    if (number != NSI_NONE) {
        const nsi_xml_element* first = i->files.items.data[number].element;
        return first == reader->xml->root
                   ? nsi_reader_fail(reader, element, NS_ERR_PARSE,
                                     "%.200s is the model's main file and cannot be included", name)
                   : nsi_reader_fail(reader, element, NS_ERR_PARSE,
                                     "%.200s is included already, by %s:%u; a file can be included "
                                     "once",
                                     name, first->file, first->line);
    }
    if (!nsi_names_add(reader, &i->files, name, element)) return false;
    nsi_xml_element* root = parse_included(i, element, path);
    if (!root) return false;

    // The root's children become those of the element, and then take its place.
    for (nsi_xml_element* child = root->first_child; child; child = child->next) {
        child->parent = element;
    }
    element->first_child = root->first_child;
    element->last_child = root->last_child;
    nsi_xml_dissolve(element, before);
    return true;
}

// Recursion is bounded by the depth of a document.
static bool include_below(includer* i, nsi_xml_element* parent) {
    nsi_xml_element *before = NULL, *child = parent->first_child;
    while (child) {
        if (strcmp(child->name, "include") == 0) {
            // What has taken its place may be an include element again.
            if (!include_file(i, child, before)) return false;
            child = before ? before->next : parent->first_child;
        } else {
            if (!include_below(i, child)) return false;
            before = child;
            child = child->next;
        }
    }
    return true;
}

bool nsi_mjcf_include(nsi_reader* reader) {
    includer i = {.reader = reader};
    const char* main_file = reader->xml->file;
    if (reader->folder) main_file += strlen(reader->folder);
    bool included = nsi_names_add(reader, &i.files, main_file, reader->xml->root) &&
                    include_below(&i, reader->xml->root);
    nsi_names_free(&reader->allocator, &i.files);
    return included;
}
