// Functions shared by the readers of model files.

#include "io/reader.h"

#include "contact/law.h"

#include "io/file.h"
#include "io/numbers.h"

#include <stdarg.h>
#include <stdio.h>

// ---- messages --------------------------------------------------------------------------------

enum { DESCRIPTION_SIZE = 2 * NSI_QUOTE_SIZE + 96, PLACE_SIZE = 256, MAX_NOTES = 1000 };

static void describe_one(const nsi_xml_element* element, char* out, size_t size) {
    char quote[NSI_QUOTE_SIZE];
    const char* name = nsi_xml_value(element, "name");
    if (name) {
        snprintf(out, size, "<%.40s name=%s>", element->name, nsi_quote(name, strlen(name), quote));
    } else {
        snprintf(out, size, "<%.40s>", element->name);
    }
}

// The element, and the nearest one around it that has a name if it has none itself.
static void reader_describe(const nsi_xml_element* element, char out[DESCRIPTION_SIZE]) {
    describe_one(element, out, DESCRIPTION_SIZE);
    if (nsi_xml_find(element, "name")) return;
    const nsi_xml_element* outer = element->parent;
    while (outer && !nsi_xml_find(outer, "name")) outer = outer->parent;
    if (!outer) return;
    size_t length = strlen(out);
    length += (size_t)snprintf(out + length, DESCRIPTION_SIZE - length, " in ");
    describe_one(outer, out + length, DESCRIPTION_SIZE - length);
}

static bool reader_fail_at(nsi_reader* reader, const nsi_xml_element* element, ns_status status,
                           const char* what) {
    char description[DESCRIPTION_SIZE];
    reader_describe(element, description);
    reader->status = nsi_fail(reader->error, status, "%s:%u: %s: %s", element->file, element->line,
                              description, what);
    return false;
}

bool nsi_reader_fail(nsi_reader* reader, const nsi_xml_element* element, ns_status status,
                     const char* format, ...) {
    char what[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return reader_fail_at(reader, element, status, what);
}

bool nsi_reader_fail_nomem(nsi_reader* reader) {
    reader->status = nsi_fail_nomem(reader->error);
    return false;
}

// Pass on what the builder says, with the place.
static bool pass_on(nsi_reader* reader, const nsi_xml_element* element, ns_status status,
                    const ns_error* from) {
    if (status == NS_OK) return true;
    if (status == NS_ERR_NOMEM) return nsi_reader_fail_nomem(reader);
    if (status == NS_ERR_ARGUMENT) status = NS_ERR_PARSE; // to the caller it is the file's fault
    return reader_fail_at(reader, element, status, from->message);
}

// "line 12", or "leg.xml line 12" of a file that the document includes.
static void reader_place(const nsi_reader* reader, const nsi_xml_element* element,
                         char out[PLACE_SIZE]) {
    const char *file = element->file, *folder = reader->folder ? reader->folder : "";
    if (file == reader->xml->file) {
        snprintf(out, PLACE_SIZE, "line %u", element->line);
        return;
    }
    size_t length = strlen(folder);
    if (strncmp(file, folder, length) == 0) file += length;
    snprintf(out, PLACE_SIZE, "%.200s line %u", file, element->line);
}

bool nsi_reader_note(nsi_reader* reader, const nsi_xml_element* element, const char* format, ...) {
    if (reader->nnotes > MAX_NOTES) return true;
    char what[NS_ERROR_SIZE], place[PLACE_SIZE], description[DESCRIPTION_SIZE];
    char note[sizeof what + sizeof place + sizeof description + 80];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    reader_describe(element, description);
    reader_place(reader, element, place);
    if (reader->nnotes++ < MAX_NOTES) {
        snprintf(note, sizeof note, "%s: %s %s", place, description, what);
    } else {
        snprintf(note, sizeof note, "%s: more of the file is not represented; this list ends",
                 place);
    }
    ns_error error;
    return pass_on(reader, element, ns_model_builder_add_ignored(reader->builder, note, &error),
                   &error);
}

bool nsi_reader_tolerate(nsi_reader* reader, const nsi_xml_element* element, const char* format,
                         ...) {
    char what[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    if (!reader->options.strict) return nsi_reader_note(reader, element, "%s", what);
    return nsi_reader_fail(reader, element, NS_ERR_PARSE, "%s; refused by strict (--strict)", what);
}

// ---- what is represented ---------------------------------------------------------------------

bool nsi_word_in(const char* words, const char* word) {
    size_t size = strlen(word);
    if (!words || size == 0) return false;
    for (const char* at = words; (at = strstr(at, word)) != NULL; at += size) {
        bool starts = at == words || at[-1] == ' ';
        bool ends = at[size] == '\0' || at[size] == ' ';
        if (starts && ends) return true;
    }
    return false;
}

bool nsi_schema_reads(const nsi_schema_row* row, const char* attribute) {
    if (nsi_word_in(row->read, attribute)) return true;
    if (!nsi_word_in(row->read, NSI_SCHEMA_CONTACT)) return false;
    const ns_contact_param* param = nsi_contact_find_param(attribute);
    return param && param->attribute;
}

const nsi_schema_row* nsi_schema_find(const nsi_schema_row* schema,
                                      const nsi_xml_element* element) {
    for (const nsi_schema_row* row = schema; row->element; row++) {
        if (strcmp(row->element, element->name) != 0) continue;
        if (element->parent ? nsi_word_in(row->parents, element->parent->name)
                            : row->parents[0] == '\0') {
            return row;
        }
    }
    return NULL;
}

static ns_ignored_effect attribute_effect(const nsi_format* format, const nsi_schema_row* row,
                                          const char* name) {
    if (nsi_word_in(row->changing, name)) return NS_IGNORED_CHANGING;
    bool known = !format->known || nsi_word_in(format->known->attributes, name);
    return known ? NS_IGNORED_HARMLESS : NS_IGNORED_UNKNOWN;
}

// The ends of notes, by effect.
static const char* const attribute_notes[] = {
    [NS_IGNORED_HARMLESS] = "not represented",
    [NS_IGNORED_UNKNOWN] = "unknown and not read; may change the motion",
    [NS_IGNORED_CHANGING] = "not represented; changes the motion"};

// One note on all attributes that are not read, for each effect that they have.
static bool note_attributes(nsi_reader* reader, const nsi_xml_element* element,
                            const nsi_format* format, const nsi_schema_row* row) {
    for (int effect = 0; effect <= NS_IGNORED_CHANGING; effect++) {
        char list[200] = "";
        size_t length = 0;
        for (uint32_t i = 0; i < element->nattributes; i++) {
            const char* name = element->attributes[i].name;
            if (nsi_schema_reads(row, name) || strncmp(name, "xmlns", 5) == 0) continue;
            if ((int)attribute_effect(format, row, name) != effect) continue;
            int added = snprintf(list + length, sizeof list - length, "%s%.60s",
                                 length > 0 ? ", " : "", name);
            length += (size_t)added;
            if (length >= sizeof list) { // many or long: what fits, and that there is more
                memcpy(list + sizeof list - sizeof "...", "...", sizeof "...");
                break;
            }
        }
        if (length > 0 &&
            !nsi_reader_note(reader, element, "%s: %s", list, attribute_notes[effect])) {
            return false;
        }
    }
    return true;
}

// The first element inside that changes the motion, or NULL. Recursion is bounded by the depth of a
// document.
static const nsi_xml_element* find_changing(const nsi_xml_element* element, const char* changing) {
    for (const nsi_xml_element* child = element->first_child; child; child = child->next) {
        const nsi_xml_element* found =
            nsi_word_in(changing, child->name) ? child : find_changing(child, changing);
        if (found) return found;
    }
    return NULL;
}

// Does the format have this element in its place?
static bool is_known(const nsi_format* format, const nsi_xml_element* element) {
    if (!format->known) return true;
    const char* parent = element->parent ? element->parent->name : "";
    for (const nsi_schema_row* row = format->known->elements; row->parents; row++) {
        if (nsi_word_in(row->parents, parent) && nsi_word_in(row->read, element->name)) return true;
    }
    return false;
}

static bool note_element(nsi_reader* reader, const nsi_xml_element* element,
                         const nsi_format* format) {
    if (nsi_word_in(format->changing, element->name)) {
        return nsi_reader_note(reader, element, "is not represented; changes the motion");
    }
    const nsi_xml_element* inside = find_changing(element, format->changing);
    if (inside) {
        return nsi_reader_note(
            reader, element, "is not represented, with <%.40s>; changes the motion", inside->name);
    }
    if (is_known(format, element)) return nsi_reader_note(reader, element, "is not represented");
    return nsi_reader_note(reader, element,
                           "is unknown in this place and not read; may change the motion");
}

// Recursion is bounded by the depth of a document.
static bool note_unread(nsi_reader* reader, const nsi_xml_element* element,
                        const nsi_format* format) {
    if (nsi_word_in(format->refused, element->name) || strncmp(element->name, "xacro:", 6) == 0) {
        return nsi_reader_fail(reader, element, NS_ERR_UNSUPPORTED,
                               "this element is not supported; expand it first (xacro, or saving "
                               "the compiled model, does that)");
    }
    const nsi_schema_row* row = nsi_schema_find(format->schema, element);
    if (!row) return note_element(reader, element, format);
    if (!note_attributes(reader, element, format, row)) return false;
    if (element->text_line > 0 && !nsi_word_in(row->read, NSI_SCHEMA_TEXT) &&
        !nsi_reader_note(reader, element, "has text inside, which is not read")) {
        return false;
    }
    for (const nsi_xml_element* child = element->first_child; child; child = child->next) {
        if (!note_unread(reader, child, format)) return false;
    }
    return true;
}

bool nsi_reader_note_unread(nsi_reader* reader, const nsi_format* format) {
    return note_unread(reader, reader->xml->root, format);
}

// ---- values ----------------------------------------------------------------------------------

bool nsi_reader_numbers(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                        uint32_t min, uint32_t max, double* out, uint32_t* count) {
    *count = 0;
    const char* text = nsi_xml_value(element, attribute);
    if (!text) return true;
    ns_error error;
    ns_status status = nsi_numbers_parse(text, min, max, out, count, &error);
    if (status == NS_OK) return true;
    return nsi_reader_fail(reader, element, status, "%s: %s", attribute, error.message);
}

bool nsi_reader_number(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                       double* out) {
    uint32_t count;
    return nsi_reader_numbers(reader, element, attribute, 1, 1, out, &count);
}

bool nsi_reader_vector(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                       double out[3]) {
    uint32_t count;
    return nsi_reader_numbers(reader, element, attribute, 3, 3, out, &count);
}

bool nsi_reader_required(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                         const char** out) {
    *out = nsi_xml_value(element, attribute);
    if (*out && **out != '\0') return true;
    return nsi_reader_fail(reader, element, NS_ERR_PARSE, "the attribute %s is %s; it is needed",
                           attribute, *out ? "empty" : "missing");
}

bool nsi_reader_only_child(nsi_reader* reader, const nsi_xml_element* element, const char* name,
                           const nsi_xml_element** out) {
    *out = nsi_xml_child(element, name);
    const nsi_xml_element* second = *out ? nsi_xml_next(*out, name) : NULL;
    if (!second) return true;
    return nsi_reader_fail(reader, second, NS_ERR_PARSE,
                           "this is the second <%s>, the first is on line %u; keep one", name,
                           (*out)->line);
}

// ---- building --------------------------------------------------------------------------------

bool nsi_reader_repair_inertia(nsi_reader* reader, const nsi_xml_element* element, bool moves,
                               double mass, double inertia[6]) {
    const char* fault = nsi_inertia_fault(mass, inertia);
    if (!fault) return true;
    double given[6], before[3], after[3], axes[9];
    memcpy(given, inertia, sizeof given);
    nsi_inertia_repair(mass, inertia);
    if (!moves) {
        return nsi_reader_note(reader, element,
                               "has an unphysical inertia (it %s), which does not matter: the link "
                               "does not move",
                               fault);
    }
    nsi_inertia_eigen(given, before, axes);
    nsi_inertia_eigen(inertia, after, axes);
    return nsi_reader_tolerate(reader, element,
                               "has an unphysical inertia (it %s); the nearest physical one is "
                               "used: principal moments %.4g %.4g %.4g instead of %.4g %.4g %.4g "
                               "kg m^2; changes the motion",
                               fault, after[0], after[1], after[2], before[0], before[1],
                               before[2]);
}

bool nsi_reader_check_inertia(nsi_reader* reader, const nsi_xml_element* element,
                              ns_link_def* link) {
    if (link->mass < 0.0) {
        return nsi_reader_fail(reader, element, NS_ERR_PARSE,
                               "the mass is negative; give zero or a positive one");
    }
    return nsi_reader_repair_inertia(reader, element, true, link->mass, link->inertia);
}

bool nsi_reader_set_name(nsi_reader* reader, const nsi_xml_element* element, const char* name) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_set_name(reader->builder, name, &error),
                   &error);
}

bool nsi_reader_set_world(nsi_reader* reader, const nsi_xml_element* element,
                          const ns_world_def* world) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_set_world(reader->builder, world, &error),
                   &error);
}

bool nsi_reader_add_link(nsi_reader* reader, const nsi_xml_element* element,
                         const ns_link_def* link) {
    ns_error error;
    if (!nsi_array_push(&reader->allocator, &reader->links, element)) {
        return nsi_reader_fail_nomem(reader);
    }
    return pass_on(reader, element, ns_model_builder_add_link(reader->builder, link, &error),
                   &error);
}

bool nsi_reader_add_geom(nsi_reader* reader, const nsi_xml_element* element,
                         const ns_geom_def* geom) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_add_geom(reader->builder, geom, &error),
                   &error);
}

bool nsi_reader_add_site(nsi_reader* reader, const nsi_xml_element* element,
                         const ns_site_def* site) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_add_site(reader->builder, site, &error),
                   &error);
}

bool nsi_reader_add_tendon(nsi_reader* reader, const nsi_xml_element* element,
                           const ns_tendon_def* tendon) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_add_tendon(reader->builder, tendon, &error),
                   &error);
}

bool nsi_reader_add_sensor(nsi_reader* reader, const nsi_xml_element* element,
                           const ns_sensor_def* sensor) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_add_sensor(reader->builder, sensor, &error),
                   &error);
}

bool nsi_reader_add_actuator(nsi_reader* reader, const nsi_xml_element* element,
                             const ns_actuator_def* actuator) {
    ns_error error;
    if (!nsi_array_push(&reader->allocator, &reader->actuators, element)) {
        return nsi_reader_fail_nomem(reader);
    }
    return pass_on(reader, element,
                   ns_model_builder_add_actuator(reader->builder, actuator, &error), &error);
}

bool nsi_reader_add_keyframe(nsi_reader* reader, const nsi_xml_element* element,
                             const ns_keyframe_def* keyframe) {
    ns_error error;
    return pass_on(reader, element,
                   ns_model_builder_add_keyframe(reader->builder, keyframe, &error), &error);
}

bool nsi_reader_add_contact(nsi_reader* reader, const nsi_xml_element* element,
                            const ns_contact_def* contact) {
    ns_error error;
    return pass_on(reader, element, ns_model_builder_add_contact(reader->builder, contact, &error),
                   &error);
}

bool nsi_reader_add_equality(nsi_reader* reader, const nsi_xml_element* element,
                             const ns_equality_def* equality) {
    ns_error error;
    return pass_on(reader, element,
                   ns_model_builder_add_equality(reader->builder, equality, &error), &error);
}

bool nsi_reader_exclude_contact(nsi_reader* reader, const nsi_xml_element* element,
                                const char* link_a, const char* link_b) {
    ns_error error;
    return pass_on(reader, element,
                   ns_model_builder_exclude_contact(reader->builder, link_a, link_b, &error),
                   &error);
}

bool nsi_reader_add_ground(nsi_reader* reader) {
    if (!reader->options.ground || nsi_model_builder_has_ground(reader->builder)) return true;
    ns_geom_def ground = ns_default_geom_def();
    char name[NSI_MODEL_MAX_NAME] = "ground";
    for (size_t length = strlen(name);
         nsi_model_builder_has_geom(reader->builder, name) && length + 1 < sizeof name; length++) {
        name[length] = '_';
        name[length + 1] = '\0';
    }
    ground.name = name;
    ground.type = NS_GEOM_PLANE;
    return nsi_reader_add_geom(reader, reader->xml->root, &ground);
}

// ---- meshes ----------------------------------------------------------------------------------

nsi_mesh_place nsi_reader_find_mesh(const nsi_reader* reader, const char* file,
                                    char out[NSI_MESH_MAX_PATH]) {
    const nsi_mesh_search search = {reader->folder, reader->options.package_paths,
                                    reader->options.npackage_path, NULL};
    return nsi_mesh_find(&search, file, out);
}

nsi_mesh_place nsi_reader_find_beside(const nsi_reader* reader, const char* folder,
                                      const char* file, char out[NSI_MESH_MAX_PATH]) {
    const nsi_mesh_search search = {reader->folder, reader->options.package_paths,
                                    reader->options.npackage_path, folder};
    return nsi_mesh_find(&search, file, out);
}

// How a file is allowed to be read from a folder, as the end of a sentence.
static void describe_permission(const char* folder, char* out, size_t size) {
    char option[NSI_MESH_PERMISSION - 50];
    nsi_mesh_permission(folder, option, sizeof option);
    snprintf(out, size, "put it there, or allow its folder by %s", option);
}

bool nsi_reader_fail_outside(nsi_reader* reader, const nsi_xml_element* element, const char* file,
                             const char* folder) {
    char quote[NSI_QUOTE_SIZE], permission[NSI_MESH_PERMISSION];
    describe_permission(folder, permission, sizeof permission);
    return nsi_reader_fail(reader, element, NS_ERR_IO,
                           "file %s is outside of the model's package and is not read; %s",
                           nsi_quote(file, strlen(file), quote), permission);
}

bool nsi_reader_find_data(nsi_reader* reader, const nsi_xml_element* element, const char* file,
                          char** path) {
    char quote[NSI_QUOTE_SIZE], found[NSI_MESH_MAX_PATH];
    *path = NULL;
    nsi_quote(file, strlen(file), quote);
    if (!reader->folder) { // a model from memory
        return nsi_reader_fail(
            reader, element, NS_ERR_IO,
            "file %s cannot be found, since the model was not loaded from a file", quote);
    }
    nsi_mesh_place place = nsi_reader_find_beside(reader, reader->folder, file, found);
    if (place == NSI_MESH_OUTSIDE) return nsi_reader_fail_outside(reader, element, file, found);
    if (place == NSI_MESH_FOUND) {
        *path = nsi_alloc(&reader->allocator, strlen(found) + 1);
        if (!*path) return nsi_reader_fail_nomem(reader);
        memcpy(*path, found, strlen(found) + 1);
        return true;
    }
    if (!nsi_file_find_data(file, &reader->allocator, path)) {
        return nsi_reader_fail_nomem(reader);
    }
    return *path ||
           nsi_reader_fail(reader, element, NS_ERR_IO,
                           "there is no file %s beside the model, nor below $NEURALSIM_DATA; set "
                           "NEURALSIM_DATA to the folder that holds it",
                           quote);
}

// Where the file of a mesh is, looked for once.
static bool locate_mesh(nsi_reader* reader, const nsi_xml_element* element, const char* file,
                        nsi_reader_mesh** out) {
    uint32_t number = nsi_names_find(&reader->mesh_names, file);
    if (number != NSI_NONE) {
        *out = reader->mesh_files.data[number];
        return true;
    }
    const char* name = nsi_arena_string(&reader->meshes, file, strlen(file));
    nsi_reader_mesh* mesh = nsi_arena_alloc(&reader->meshes, sizeof *mesh);
    if (!name || !mesh) return nsi_reader_fail_nomem(reader);
    *mesh = (nsi_reader_mesh){.place = NSI_MESH_MISSING, .folder = ""};

    // A model from memory has no folder to look in.
    if (reader->folder) {
        char path[NSI_MESH_MAX_PATH];
        mesh->place = nsi_reader_find_mesh(reader, file, path);
        const char* kept = nsi_arena_string(&reader->meshes, path, strlen(path));
        if (!kept) return nsi_reader_fail_nomem(reader);
        *(mesh->place == NSI_MESH_FOUND ? &mesh->path : &mesh->folder) = kept;
    }
    *out = mesh;
    if (!nsi_array_push(&reader->allocator, &reader->mesh_files, mesh)) {
        return nsi_reader_fail_nomem(reader);
    }
    return nsi_names_add(reader, &reader->mesh_names, name, element);
}

// The corners of a mesh that was found, read once. A format that is not read has none; what is damaged
// is an error.
static bool read_corners(nsi_reader* reader, const nsi_xml_element* element,
                         nsi_reader_mesh* mesh) {
    if (!mesh->path || mesh->corners) return true;
    nsi_mesh* corners = nsi_arena_alloc(&reader->meshes, sizeof *corners);
    if (!corners) return nsi_reader_fail_nomem(reader);
    ns_error error;
    ns_status status = nsi_mesh_read(mesh->path, &reader->allocator, corners, &error);
    mesh->corners = corners;
    return status == NS_ERR_UNSUPPORTED || pass_on(reader, element, status, &error);
}

// What is not there, in words.
static bool note_mesh(nsi_reader* reader, const nsi_xml_element* element, const char* file,
                      const nsi_reader_mesh* mesh, const char* effect) {
    char quote[NSI_QUOTE_SIZE];
    nsi_quote(file, strlen(file), quote);
    const char* package;
    size_t size = nsi_mesh_package(file, &package);
    if (!reader->folder) {
        return nsi_reader_note(reader, element,
                               "mesh file %s cannot be found, since the model was not loaded from "
                               "a file: %s",
                               quote, effect);
    }
    if (mesh->place == NSI_MESH_OUTSIDE) {
        char permission[NSI_MESH_PERMISSION];
        describe_permission(mesh->folder, permission, sizeof permission);
        return nsi_reader_note(reader, element,
                               "mesh file %s is outside of the model's package and is not read; "
                               "%s: %s",
                               quote, permission, effect);
    }
    if (mesh->path) {
        return nsi_reader_note(reader, element, "mesh file %s is not %s: %s", quote,
                               NSI_MESH_FORMATS, effect);
    }
    if (size == 0) {
        return nsi_reader_note(reader, element, "mesh file %s not found: %s", quote, effect);
    }
    return nsi_reader_note(reader, element,
                           "mesh file %s not found; name the folder of package %.*s by "
                           "--package-path or ROS_PACKAGE_PATH: %s",
                           quote, size < 60 ? (int)size : 60, package, effect);
}

bool nsi_reader_load_mesh(nsi_reader* reader, const nsi_xml_element* element, ns_geom_def* geom) {
    nsi_reader_mesh* mesh;
    if (!geom->mesh) return true;
    if (!locate_mesh(reader, element, geom->mesh, &mesh)) return false;
    geom->path = mesh->path;

    // A mesh that is only to be looked at is read when a page is made; that it will not be there is
    // said now.
    if (!geom->collision) {
        return !reader->folder || (mesh->path && nsi_mesh_is_path(mesh->path)) ||
               note_mesh(reader, element, geom->mesh, mesh, "the geometry is not drawn");
    }
    if (!read_corners(reader, element, mesh)) return false;
    if (mesh->corners && mesh->corners->count > 0) {
        geom->vertices = mesh->corners->corners;
        geom->nvertex = mesh->corners->count;
        return true;
    }
    geom->collision = false;
    return note_mesh(reader, element, geom->mesh, mesh,
                     "the geometry does not touch anything; changes the motion");
}

// ---- sets of names ---------------------------------------------------------------------------

uint32_t nsi_names_find(const nsi_names* names, const char* name) {
    uint32_t hash = nsi_hash_bytes(name, strlen(name));
    for (uint32_t at = nsi_index_first(&names->index, hash), id;
         nsi_index_at(&names->index, at, &id); at = nsi_index_next(&names->index, at)) {
        if (strcmp(names->items.data[id].name, name) == 0) return id;
    }
    return NSI_NONE;
}

bool nsi_names_add(nsi_reader* reader, nsi_names* names, const char* name,
                   const nsi_xml_element* element) {
    uint32_t id = names->items.count, hash = nsi_hash_bytes(name, strlen(name));
    nsi_named item = {name, element};
    if (nsi_array_push(&reader->allocator, &names->items, item) &&
        nsi_index_insert(&reader->allocator, &names->index, hash, id)) {
        return true;
    }
    return nsi_reader_fail_nomem(reader);
}

void nsi_names_free(const ns_allocator* allocator, nsi_names* names) {
    nsi_array_free(allocator, &names->items);
    nsi_index_free(allocator, &names->index);
}

void nsi_reader_free(nsi_reader* reader) {
    nsi_array_free(&reader->allocator, &reader->links);
    nsi_array_free(&reader->allocator, &reader->actuators);
    nsi_array_free(&reader->allocator, &reader->mesh_files);
    nsi_names_free(&reader->allocator, &reader->mesh_names);
    nsi_arena_free(&reader->meshes);
}
