// Load a model file, whichever of the two formats it is in.

#include "io/reader.h"

#include <errno.h>
#include <stdio.h>

ns_load_options ns_default_load_options(void) {
    return (ns_load_options){0};
}

// Which format is it?
static bool read_document(nsi_reader* reader) {
    const nsi_xml_element* root = reader->xml->root;
    if (strcmp(root->name, "robot") == 0) return nsi_urdf_read(reader);
    if (strcmp(root->name, "mujoco") == 0) return nsi_mjcf_read(reader);
    return nsi_reader_fail(reader, root, NS_ERR_UNSUPPORTED,
                           "the root element is neither <robot> (URDF) nor <mujoco> (MJCF)");
}

static ns_status finish(nsi_reader* reader, ns_model** out) {
    uint32_t bad_link;
    ns_error error;
    ns_status status = nsi_model_builder_finish(reader->builder, out, &bad_link, &error);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(reader->error);
    uint32_t line = bad_link < reader->lines.count ? reader->lines.data[bad_link] : 1;
    return nsi_fail(reader->error, NS_ERR_PARSE, "%s:%u: %s", reader->xml->file, line,
                    error.message);
}

ns_status ns_model_parse(const char* text, size_t size, const char* name,
                         const ns_load_options* options, ns_model** out, ns_error* error) {
    if (out) *out = NULL;
    if (!text || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_parse: text or out is NULL");
    }
    ns_load_options given = options ? *options : ns_default_load_options();
    ns_allocator allocator = given.allocator ? *given.allocator : ns_default_allocator();

    nsi_xml xml;
    nsi_reader reader = {.xml = &xml,
                         .allocator = allocator,
                         .repair_inertia = given.repair_inertia,
                         .error = error};
    ns_status status = nsi_xml_parse(text, size, name ? name : "model", &allocator, &xml, error);
    if (status == NS_OK) status = ns_model_builder_create(&allocator, &reader.builder, error);
    if (status == NS_OK) {
        status = read_document(&reader) ? finish(&reader, out) : reader.status;
    }
    ns_model_builder_free(reader.builder);
    nsi_array_free(&allocator, &reader.lines);
    nsi_xml_free(&xml);
    return status;
}

// ---- files -----------------------------------------------------------------------------------

typedef NSI_ARRAY(char) bytes;

// Read to the end, or to one byte past the limit, so that the parser sees that it is too much.
static ns_status read_all(FILE* file, const ns_allocator* allocator, bytes* out) {
    enum { CHUNK = 1 << 16 };
    while (out->count <= NSI_XML_MAX_SIZE) {
        if (!nsi_array_reserve(allocator, out, CHUNK)) return NS_ERR_NOMEM;
        size_t got = fread(out->data + out->count, 1, CHUNK, file);
        out->count += (uint32_t)got;
        if (got < CHUNK) break;
    }
    return ferror(file) ? NS_ERR_IO : NS_OK;
}

ns_status ns_model_load(const char* path, const ns_load_options* options, ns_model** out,
                        ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_load: path or out is NULL");
    }
    ns_allocator allocator =
        options && options->allocator ? *options->allocator : ns_default_allocator();
    FILE* file = fopen(path, "rb");
    if (!file) {
        return nsi_fail(error, NS_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    }
    bytes text = {0};
    ns_status status = read_all(file, &allocator, &text);
    if (status == NS_ERR_IO) {
        nsi_fail(error, NS_ERR_IO, "%s: cannot be read: %s", path, strerror(errno));
    } else if (status == NS_ERR_NOMEM) {
        nsi_fail_nomem(error);
    } else {
        status = ns_model_parse(text.data, text.count, path, options, out, error);
    }
    fclose(file);
    nsi_array_free(&allocator, &text);
    return status;
}
