// <include file="leg.xml"/>: the children of the file's root element take the place of the element.
//
// Files are searched in the folder of the main file, as in MuJoCo, then in that of the file that
// includes them. A file can be included once, so that cycles are impossible. What may be read is what
// meshes may be read from (mesh_path.h).

#define _XOPEN_SOURCE 700 // realpath

#include "io/file.h"
#include "io/mjcf.h"
#include "io/numbers.h"

#include <stdio.h>
#include <stdlib.h>

typedef struct includer {
    nsi_reader* reader;
    nsi_names files; // paths without links, the main file first
} includer;

// The path of the file that an element names.
static bool find_included(includer* i, const nsi_xml_element* element, const char** out) {
    nsi_reader* reader = i->reader;
    const char* name;
    char quote[NSI_QUOTE_SIZE];
    if (!nsi_reader_required(reader, element, "file", &name)) return false;
    nsi_quote(name, strlen(name), quote);
    if (!reader->folder) {
        return nsi_reader_fail(reader, element, NS_ERR_IO,
                               "file %s cannot be found, since the model was not loaded from a "
                               "file",
                               quote);
    }

    // Beside the main file, or beside the file that includes it.
    char found[NSI_MESH_MAX_PATH], folder[NSI_MESH_MAX_PATH], needed[NSI_MESH_MAX_PATH] = "";
    const char* slash = strrchr(element->file, '/');
    size_t size = slash ? (size_t)(slash - element->file) + 1 : 0;
    bool outside = false;
    for (int k = 0; k < 2 && size < sizeof folder; k++) {
        if (k == 1 && element->file == reader->xml->file) break;
        snprintf(folder, sizeof folder, "%.*s", (int)size, element->file);
        nsi_mesh_place place =
            nsi_reader_find_beside(reader, k == 0 ? reader->folder : folder, name, found);
        if (place == NSI_MESH_FOUND) {
            *out = nsi_arena_string(&reader->xml->arena, found, strlen(found));
            if (!*out) nsi_reader_fail_nomem(reader);
            return *out != NULL;
        }
        if (place == NSI_MESH_OUTSIDE && !outside) memcpy(needed, found, sizeof needed);
        outside = outside || place == NSI_MESH_OUTSIDE;
    }
    if (outside) return nsi_reader_fail_outside(reader, element, name, needed);
    return nsi_reader_fail(reader, element, NS_ERR_IO,
                           "file %s not found in the folder of the model's main file", quote);
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

// The path of a file without links, which tells files apart; NULL after a failure.
static const char* resolve_path(includer* i, const char* path) {
    char* real = realpath(path, NULL);
    const char* kept = real ? real : path; // it may be gone by now
    kept = nsi_arena_string(&i->reader->xml->arena, kept, strlen(kept));
    free(real);
    if (!kept) nsi_reader_fail_nomem(i->reader);
    return kept;
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
    if (!find_included(i, element, &path) || !path) return false;

    // Each file once.
    const char *key = resolve_path(i, path), *folder = reader->folder, *name = path;
    if (!key) return false;
    if (strncmp(name, folder, strlen(folder)) == 0) name += strlen(folder);
    uint32_t number = nsi_names_find(&i->files, key);
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
    if (!nsi_names_add(reader, &i->files, key, element)) return false;
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
    const char* main_file = resolve_path(&i, reader->xml->file);
    bool included = main_file && nsi_names_add(reader, &i.files, main_file, reader->xml->root) &&
                    include_below(&i, reader->xml->root);
    nsi_names_free(&reader->allocator, &i.files);
    return included;
}
