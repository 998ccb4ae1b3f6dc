// Load a model file in either format, URDF or MJCF.

#include "io/file.h"
#include "io/reader.h"
#include "io/xml_tidy.h"

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
    reader->unresisted = bad_link < reader->links.count;
    const nsi_xml_element* element =
        bad_link < reader->links.count ? reader->links.data[bad_link] : reader->xml->root;
    // A mass that was lost is why nothing resists.
    const char* lost = reader->unresisted ? reader->lost_mass : "";
    return nsi_fail(reader->error, status, *lost ? "%s; so %s:%u: %s" : "%s%s:%u: %s", lost,
                    element->file, element->line, error.message);
}

// Read the document. Where it is not well-formed only in ways that other readers accept it is read all the
// same; `faults` receives these.
static ns_status parse_document(const char* text, size_t size, const char* name,
                                const ns_allocator* allocator, nsi_xml* xml, uint32_t* faults,
                                ns_error* error) {
    *faults = 0;
    ns_status status = nsi_xml_parse(text, size, name, allocator, xml, error);
    if (status != NS_ERR_PARSE) return status;

    // A tidy copy; the error of the first attempt is that of the file.
    nsi_xml tidy;
    ns_error second;
    char* copy = nsi_alloc(allocator, size + 1);
    if (!copy) return nsi_fail_nomem(error);
    memcpy(copy, text, size);
    *faults = nsi_xml_tidy(copy, &size);
    ns_status again = NS_ERR_PARSE;
    if (*faults != 0) {
        again = nsi_xml_parse(copy, size, name, allocator, &tidy, &second);
        nsi_xml* unused = again == NS_OK ? xml : &tidy;
        nsi_xml_free(unused);
        if (again == NS_OK) *xml = tidy;
        if (again == NS_ERR_NOMEM) status = nsi_fail_nomem(error);
    }
    nsi_free(allocator, copy);
    if (again == NS_OK && error) *error = (ns_error){0};
    return again == NS_OK ? NS_OK : status;
}

static bool note_faults(nsi_reader* reader, uint32_t faults) {
    for (uint32_t k = 0; k < NSI_XML_FAULTS; k++) {
        if ((faults >> k & 1) == 0) continue;
        if (!nsi_reader_tolerate(reader, reader->xml->root, "is read from a file with %s",
                                 nsi_xml_fault_names[k])) {
            return false;
        }
    }
    return true;
}

// A model from the document.
static ns_status build_model(nsi_reader* reader, uint32_t faults, ns_model** out) {
    ns_status status = ns_model_builder_create(&reader->allocator, &reader->builder, reader->error);
    if (status == NS_OK && reader->folder) {
        status = nsi_model_builder_set_folder(reader->builder, reader->folder, reader->error);
    }
    if (status == NS_OK) {
        bool read =
            note_faults(reader, faults) && read_document(reader) && nsi_reader_add_ground(reader);
        status = read ? robot_finish(reader, out) : reader->status;
    }
    ns_model_builder_free(reader->builder);
    reader->builder = NULL;
    return status;
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
    uint32_t faults;
    ns_status status = parse_document(text, size, name, &allocator, &xml, &faults, error);
    if (status == NS_OK) status = build_model(&reader, faults, out);

    // Where a joint has nothing to resist it, links without inertia may have been meant to have some.
    if (status == NS_ERR_PARSE && reader.unresisted && reader.nhollow > 0 && !given.strict) {
        reader.fill_hollow = true;
        reader.links.count = reader.nnotes = 0;
        if (error) *error = (ns_error){0};
        status = build_model(&reader, faults, out);
    }
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
