// Load a model file in either format, URDF or MJCF.

#include "io/file.h"
#include "io/reader.h"

ns_load_options ns_default_load_options(void) {
    return (ns_load_options){0};
}

// Which format is it?
static bool read_document(nsi_reader* reader) {
    const nsi_xml_element* root = reader->xml->root;
    if (strcmp(root->name, "robot") == 0) return nsi_urdf_read(reader);
    if (strcmp(root->name, "mujoco") == 0) {
        if (!reader->options.floating_base) return nsi_mjcf_read(reader);
        return nsi_reader_fail(reader, root, NS_ERR_UNSUPPORTED,
                               "a floating base is asked for, which is an option for URDF; give "
                               "the body a <freejoint/>");
    }
    return nsi_reader_fail(reader, root, NS_ERR_UNSUPPORTED,
                           "the root element is neither <robot> (URDF) nor <mujoco> (MJCF)");
}

static ns_status robot_finish(nsi_reader* reader, ns_model** out) {
    uint32_t bad_link;
    ns_error error;
    ns_status status = nsi_model_builder_finish(reader->builder, out, &bad_link, &error);
    if (status == NS_OK) return NS_OK;
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(reader->error);
    if (status == NS_ERR_ARGUMENT) status = NS_ERR_PARSE; // to the caller it is the file's fault
    const nsi_xml_element* element =
        bad_link < reader->links.count ? reader->links.data[bad_link] : reader->xml->root;
    return nsi_fail(reader->error, status, "%s:%u: %s", element->file, element->line,
                    error.message);
}

// `folder` is where files that the document names are; NULL: they are not looked for.
static ns_status robot_parse(const char* text, size_t size, const char* name, const char* folder,
                             const ns_load_options* options, ns_model** out, ns_error* error) {
    ns_load_options given = options ? *options : ns_default_load_options();
    ns_allocator allocator = given.allocator ? *given.allocator : ns_default_allocator();

    nsi_xml xml;
    nsi_reader reader = {.xml = &xml,
                         .allocator = allocator,
                         .options = given,
                         .folder = folder,
                         .meshes = {.allocator = allocator},
                         .error = error};
    ns_status status = nsi_xml_parse(text, size, name, &allocator, &xml, error);
    if (status == NS_OK) status = ns_model_builder_create(&allocator, &reader.builder, error);
    if (status == NS_OK && folder) {
        status = nsi_model_builder_set_folder(reader.builder, folder, error);
    }
    if (status == NS_OK) {
        bool read = read_document(&reader) && nsi_reader_add_ground(&reader);
        status = read ? robot_finish(&reader, out) : reader.status;
    }
    ns_model_builder_free(reader.builder);
    nsi_reader_free(&reader);
    nsi_xml_free(&xml);
    return status;
}

ns_status ns_model_parse(const char* text, size_t size, const char* name,
                         const ns_load_options* options, ns_model** out, ns_error* error) {
    if (out) *out = NULL;
    if (!text || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_parse: text or out is NULL");
    }
    return robot_parse(text, size, name ? name : "model", NULL, options, out, error);
}

ns_status ns_model_load(const char* path, const ns_load_options* options, ns_model** out,
                        ns_error* error) {
    if (out) *out = NULL;
    if (!path || !out) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "ns_model_load: path or out is NULL");
    }
    ns_allocator allocator =
        options && options->allocator ? *options->allocator : ns_default_allocator();
    char* folder = nsi_file_folder(path, &allocator);
    if (!folder) return nsi_fail_nomem(error);
    nsi_bytes text = {0};
    // One byte past the limit is read, so that the parser sees that it is too much.
    ns_status status = nsi_file_read(path, NSI_XML_MAX_SIZE, &allocator, &text, error);
    if (status == NS_OK)
        status = robot_parse(text.data, text.count, path, folder, options, out, error);
    nsi_array_free(&allocator, &text);
    nsi_free(&allocator, folder);
    return status;
}
