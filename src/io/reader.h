// Functions shared by the readers of model files. A reader connects an XML document to a model builder
// and reports errors with file, line and element.
//
// Functions return false on failure; status and message are then in the reader.

#ifndef NSI_IO_READER_H
#define NSI_IO_READER_H

#include "io/mesh.h"
#include "io/mesh_path.h"
#include "io/xml.h"
#include "model/model_data.h"

// Elements by a name, which need not be an attribute of theirs.
typedef struct nsi_named {
    const char* name;
    const nsi_xml_element* element;
} nsi_named;

typedef struct nsi_names {
    NSI_ARRAY(nsi_named) items;
    nsi_index index;
} nsi_names;

// The file of a mesh.
typedef struct nsi_reader_mesh {
    nsi_mesh_place place;
    const char* path;        // NULL: it was not found
    const char* folder;      // that would have to be a folder of packages; "": none would help
    const nsi_mesh* corners; // NULL: not read yet
} nsi_reader_mesh;

typedef struct nsi_reader {
    nsi_xml* xml;
    ns_model_builder* builder;
    ns_allocator allocator;
    ns_load_options options;
    const char* folder; // of the document, ending with '/' or empty; NULL: there is none
    NSI_ARRAY(const nsi_xml_element*) links;     // of each link, for what is found out at the end
    NSI_ARRAY(const nsi_xml_element*) actuators; // of each actuator
    nsi_arena meshes;                            // files that have been read, with their names
    nsi_names mesh_names;
    NSI_ARRAY(nsi_reader_mesh*) mesh_files; // of each name
    uint32_t nnotes;
    uint32_t nhollow;              // links that move and have mass, but no inertia about some axis
    bool fill_hollow;              // give them some
    bool unresisted;               // the model failed because nothing resists the motion of a joint
    char lost_mass[NS_ERROR_SIZE]; // the first shape whose mass is not known, with its place; or ""
    ns_status status;
    ns_error* error;
} nsi_reader;

void nsi_reader_free(nsi_reader* reader); // what it has allocated itself

// A finished model from a document.
bool nsi_urdf_read(nsi_reader* reader);
bool nsi_mjcf_read(nsi_reader* reader);

// ---- messages --------------------------------------------------------------------------------

// "file:line: <origin> in <joint name="elbow">: ...". Always false.
bool nsi_reader_fail(nsi_reader* reader, const nsi_xml_element* element, ns_status status,
                     const char* format, ...) NSI_PRINTF(4, 5);
bool nsi_reader_fail_nomem(nsi_reader* reader);

// Note what the model does not represent: "line 12: <sensor> ...". Of a file with very many such
// things only the first are noted, and that there are more.
bool nsi_reader_note(nsi_reader* reader, const nsi_xml_element* element, const char* format, ...)
    NSI_PRINTF(3, 4);

// Note what was repaired or left out because it could not be meant so; with the option `strict` it is
// refused, NS_ERR_PARSE.
bool nsi_reader_tolerate(nsi_reader* reader, const nsi_xml_element* element, const char* format,
                         ...) NSI_PRINTF(3, 4);

// ---- what is represented ---------------------------------------------------------------------

// An element that is read, and what is read of it; lists are words separated by spaces. A schema
// ends with a row without an element.
typedef struct nsi_schema_row {
    const char* parents; // elements it is read in; "" for the root
    const char* element;
    const char* read;     // attributes
    const char* changing; // attributes that are not read though they change the motion; may be NULL
} nsi_schema_row;

// In `read`: the attributes of contact laws (ns_contact_param).
#define NSI_SCHEMA_CONTACT "@contact"

// In `read`: the text inside.
#define NSI_SCHEMA_TEXT "@text"

bool nsi_word_in(const char* words, const char* word);

// Is this attribute read?
bool nsi_schema_reads(const nsi_schema_row* row, const char* attribute);

// The row of an element in its place, or NULL.
const nsi_schema_row* nsi_schema_find(const nsi_schema_row* schema, const nsi_xml_element* element);

// Names of a format that are not read and do not change the motion.
typedef struct nsi_known_names {
    const char* attributes;         // of any element
    const nsi_schema_row* elements; // `read` lists elements inside of `parents`
} nsi_known_names;

// What a format has, and what of it is read.
typedef struct nsi_format {
    const nsi_schema_row* schema;
    const char* changing;         // elements that are not read though they change the motion
    const char* refused;          // elements without which nothing sensible is left
    const nsi_known_names* known; // names that are in neither list may change the motion; NULL:
                                  // others are extensions, which do not
} nsi_format;

// Note everything in the document that is not read. Refused elements are NS_ERR_UNSUPPORTED.
bool nsi_reader_note_unread(nsi_reader* reader, const nsi_format* format);

// ---- values ----------------------------------------------------------------------------------

// Between `min` and `max` numbers; `count` receives how many, 0 when there is no such attribute.
bool nsi_reader_numbers(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                        uint32_t min, uint32_t max, double* out, uint32_t* count);

// One number; `out` is left alone when there is no such attribute.
bool nsi_reader_number(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                       double* out);

// The same for three.
bool nsi_reader_vector(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                       double out[3]);

// The value of an attribute that must be there and not be empty.
bool nsi_reader_required(nsi_reader* reader, const nsi_xml_element* element, const char* attribute,
                         const char** out);

// The child of this name, NULL for none; two of them are an error.
bool nsi_reader_only_child(nsi_reader* reader, const nsi_xml_element* element, const char* name,
                           const nsi_xml_element** out);

// ---- building --------------------------------------------------------------------------------

// Make the inertia about the centre of mass physical, with a note by how much it changes; with `strict`
// only that of a link that never moves is.
bool nsi_reader_repair_inertia(nsi_reader* reader, const nsi_xml_element* element, bool moves,
                               double mass, double inertia[6]);

// The same for a link that moves, whose mass must not be negative.
bool nsi_reader_check_inertia(nsi_reader* reader, const nsi_xml_element* element,
                              ns_link_def* link);

bool nsi_reader_set_name(nsi_reader* reader, const nsi_xml_element* element, const char* name);
bool nsi_reader_set_world(nsi_reader* reader, const nsi_xml_element* element,
                          const ns_world_def* world);
bool nsi_reader_add_link(nsi_reader* reader, const nsi_xml_element* element,
                         const ns_link_def* link);
bool nsi_reader_add_geom(nsi_reader* reader, const nsi_xml_element* element,
                         const ns_geom_def* geom);
bool nsi_reader_add_site(nsi_reader* reader, const nsi_xml_element* element,
                         const ns_site_def* site);
bool nsi_reader_add_tendon(nsi_reader* reader, const nsi_xml_element* element,
                           const ns_tendon_def* tendon);
bool nsi_reader_add_sensor(nsi_reader* reader, const nsi_xml_element* element,
                           const ns_sensor_def* sensor);
bool nsi_reader_add_actuator(nsi_reader* reader, const nsi_xml_element* element,
                             const ns_actuator_def* actuator);
bool nsi_reader_add_keyframe(nsi_reader* reader, const nsi_xml_element* element,
                             const ns_keyframe_def* keyframe);
bool nsi_reader_add_contact(nsi_reader* reader, const nsi_xml_element* element,
                            const ns_contact_def* contact);
bool nsi_reader_add_equality(nsi_reader* reader, const nsi_xml_element* element,
                             const ns_equality_def* equality);
bool nsi_reader_exclude_contact(nsi_reader* reader, const nsi_xml_element* element,
                                const char* link_a, const char* link_b);

// Give a geometry for contact the vertices of its mesh, from the file it names. Without them, which
// is noted, it takes no part in contact. They last as long as the reader.
bool nsi_reader_load_mesh(nsi_reader* reader, const nsi_xml_element* element, ns_geom_def* geom);

// Where the file of a mesh is that a model with a folder names (nsi_mesh_find()).
nsi_mesh_place nsi_reader_find_mesh(const nsi_reader* reader, const char* file,
                                    char out[NSI_MESH_MAX_PATH]);

// The same for a file that must be exactly there, relative to a folder.
nsi_mesh_place nsi_reader_find_beside(const nsi_reader* reader, const char* folder,
                                      const char* file, char out[NSI_MESH_MAX_PATH]);

// The path of a file with data that an element names: beside the model, or below $NEURALSIM_DATA. It
// must be freed.
bool nsi_reader_find_data(nsi_reader* reader, const nsi_xml_element* element, const char* file,
                          char** path);

// The file is where it may not be read; `folder` is the one to be given by --package-path, or "".
bool nsi_reader_fail_outside(nsi_reader* reader, const nsi_xml_element* element, const char* file,
                             const char* folder);

// The ground, if it is wanted and there is none.
bool nsi_reader_add_ground(nsi_reader* reader);

// ---- sets of names ---------------------------------------------------------------------------

// Number of the name, in the order of adding, or NSI_NONE.
uint32_t nsi_names_find(const nsi_names* names, const char* name);
bool nsi_names_add(nsi_reader* reader, nsi_names* names, const char* name,
                   const nsi_xml_element* element);
void nsi_names_free(const ns_allocator* allocator, nsi_names* names);

#endif
