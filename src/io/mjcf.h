// Types and functions shared by the parts of the MJCF reader. mjcf.c documents what is read and how
// bodies become links.

#ifndef NSI_IO_MJCF_H
#define NSI_IO_MJCF_H

#include "io/mesh_mass.h"
#include "io/reader.h"

// Attributes that actuators of all kinds have.
#define NSI_MJCF_ACTUATOR                                                                          \
    "name class joint jointinparent tendon site refsite gear ctrlrange ctrllimited forcerange "    \
    "forcelimited"

extern const nsi_schema_row nsi_mjcf_schema[];

// Elements that have defaults.
typedef enum nsi_mjcf_kind {
    NSI_MJCF_JOINT,
    NSI_MJCF_GEOM,
    NSI_MJCF_MESH,
    NSI_MJCF_MATERIAL,
    NSI_MJCF_PAIR,
    NSI_MJCF_EQUALITY,
    NSI_MJCF_SITE,
    NSI_MJCF_TENDON,
    NSI_MJCF_MOTOR, // actuators from here on
    NSI_MJCF_POSITION,
    NSI_MJCF_VELOCITY,
    NSI_MJCF_GENERAL,
    NSI_MJCF_INTVELOCITY,
    NSI_MJCF_DAMPER,
    NSI_MJCF_CYLINDER,
    NSI_MJCF_MUSCLE,
    NSI_MJCF_KINDS
} nsi_mjcf_kind;

extern const char* const nsi_mjcf_kind_names[NSI_MJCF_KINDS];

// An attribute and the element it stands in.
typedef struct nsi_mjcf_source {
    const nsi_xml_element* element;
    const nsi_xml_attribute* attribute;
} nsi_mjcf_source;

// What holds in a default class, its parents' attributes included.
typedef struct nsi_mjcf_class {
    NSI_ARRAY(nsi_mjcf_source) attributes[NSI_MJCF_KINDS];
} nsi_mjcf_class;

enum { NSI_MJCF_MAIN_CLASS = 0 };

// What a mesh weighs by one of the rules, or why it cannot be known.
typedef struct nsi_mjcf_mesh_mass {
    nsi_mesh_mass mass;
    const char* fault; // NULL: none
} nsi_mjcf_mesh_mass;

// A mesh asset.
typedef struct nsi_mjcf_mesh {
    const nsi_mesh* corners;                      // of vertices in the file, or NULL
    nsi_mjcf_mesh_mass* mass[NSI_MESH_SHELL + 1]; // by rule; NULL: not asked for yet
} nsi_mjcf_mesh;

typedef struct nsi_mjcf {
    nsi_reader* reader;
    nsi_names class_names;
    NSI_ARRAY(nsi_mjcf_class) classes; // the first is "main"
    nsi_names body_names, joint_names; // that are given in the file
    nsi_names meshes, materials, hfields;
    NSI_ARRAY(nsi_mjcf_mesh) mesh_data; // of each mesh
    nsi_names paired;                   // geoms named by a <pair>
    nsi_names left_out;                 // geoms of types that are not represented
    nsi_arena strings;                  // names that are made up, corners of meshes

    double angle; // radians per unit of angle in the file
    bool autolimits;
    char eulerseq[4];
    bool inertia_from_geom; // even where there is an <inertial>
    bool inertia_never_from_geom;
    double inertia_groups[2];         // groups of geoms that count
    double bound_mass, bound_inertia; // lower bounds
    double total_mass;                // kg, of all bodies; <= 0: as it is
    bool balance_inertia, exact_mesh_inertia, fit_bounds;
    bool needs_mass; // of the geoms of the body that is read
    const char* mesh_folder;
    bool strip_path; // of file names
    bool contact;    // false: disabled by a flag
    uint32_t nbodies, nreplicates, ntendons, nsensors;
    uint32_t nlooks; // at elements that might refer to what a replicate copies
} nsi_mjcf;

// ---- mjcf_include.c --------------------------------------------------------------------------

// Put the contents of included files into the document.
bool nsi_mjcf_include(nsi_reader* reader);

// ---- mjcf_frame.c ----------------------------------------------------------------------------

// Take frames and replicates out of the tree of bodies.
bool nsi_mjcf_expand_frames(nsi_mjcf* m);

// ---- mjcf_values.c: attributes with defaults -------------------------------------------------

// An element with the class it is in.
typedef struct nsi_mjcf_item {
    const nsi_xml_element* element;
    nsi_mjcf_kind kind; // NSI_MJCF_KINDS: one that has no defaults
    uint32_t class_number;
} nsi_mjcf_item;

// Take attributes without a value out of the document, with notes.
bool nsi_mjcf_drop_blanks(nsi_reader* reader);

bool nsi_mjcf_read_defaults(nsi_mjcf* m);
void nsi_mjcf_free_defaults(nsi_mjcf* m);

// The class named by an attribute of the element; without it the childclass of the nearest frame
// around it, or else `otherwise`.
bool nsi_mjcf_find_class(nsi_mjcf* m, const nsi_xml_element* element, const char* attribute,
                         uint32_t otherwise, uint32_t* out);

// An element that has no defaults.
nsi_mjcf_item nsi_mjcf_plain(const nsi_xml_element* element);

// The element that has the attribute: the item's, or one of a <default>; NULL for neither.
const nsi_xml_element* nsi_mjcf_holder(const nsi_mjcf* m, nsi_mjcf_item item,
                                       const char* attribute);
const char* nsi_mjcf_text(const nsi_mjcf* m, nsi_mjcf_item item, const char* attribute);

// As nsi_reader_numbers() and nsi_reader_number().
bool nsi_mjcf_numbers(nsi_mjcf* m, nsi_mjcf_item item, const char* attribute, uint32_t min,
                      uint32_t max, double* out, uint32_t* count);
bool nsi_mjcf_number(nsi_mjcf* m, nsi_mjcf_item item, const char* attribute, double* out);

// One of some words, the number of which goes to `out`; left alone without the attribute.
bool nsi_mjcf_word(nsi_mjcf* m, nsi_mjcf_item item, const char* attribute, const char* const* words,
                   uint32_t* out);

// Is the thing limited to its range? With "auto", which is the default, when there is one.
bool nsi_mjcf_limit(nsi_mjcf* m, nsi_mjcf_item item, const char* limited, const char* range,
                    bool* is_limited, double limits[2]);

// Identity without attributes; `given` says whether there was an orientation.
bool nsi_mjcf_orientation(nsi_mjcf* m, nsi_mjcf_item item, double q[4], bool* given);

// The pose that the attributes give.
bool nsi_mjcf_own_pose(nsi_mjcf* m, nsi_mjcf_item item, ns_pose* pose);

// The pose of the frames that the element is in, relative to its body.
bool nsi_mjcf_frame_pose(nsi_mjcf* m, const nsi_xml_element* element, ns_pose* pose);

// The one in the other: where the element is in its body.
bool nsi_mjcf_pose(nsi_mjcf* m, nsi_mjcf_item item, ns_pose* pose);

// Rotations about three axes, by angles in the file's unit.
void nsi_mjcf_quat_from_euler(const nsi_mjcf* m, const double angles[3], double q[4]);

// ---- mjcf_hfield.c ---------------------------------------------------------------------------

// The height field that a geom names: sizes and elevations. `known` is false, with a note, when the
// asset is missing or not read.
bool nsi_mjcf_read_hfield(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom, bool* known);

// ---- mjcf_geom.c: geoms and assets -----------------------------------------------------------

// The file of a mesh or height field, in the folder the compiler names.
bool nsi_mjcf_find_file(nsi_mjcf* m, const char* file, const char** out);

// The pose of what is given by two ends, along z: `given` says whether it is.
bool nsi_mjcf_ends(nsi_mjcf* m, nsi_mjcf_item item, ns_pose* pose, double* length, bool* given);

// A geom as read; its link is added first, and may need its mass.
typedef struct nsi_mjcf_geom {
    const nsi_xml_element* element;
    ns_geom_def def;
    uint32_t mesh; // asset, or NSI_NONE
    double mass;   // 0 where the body does not need it
    double com[3];
    double inertia[6]; // about `com`, axes of the body
} nsi_mjcf_geom;

typedef NSI_ARRAY(nsi_mjcf_geom) nsi_mjcf_geoms;

bool nsi_mjcf_read_assets(nsi_mjcf* m);

// Numbers of an attribute, a multiple of `each`, to be freed also after a failure; NULL and 0 without
// the attribute.
bool nsi_mjcf_number_list(nsi_mjcf* m, const nsi_xml_element* element, const char* attribute,
                          uint32_t each, double** out, uint32_t* count);

// The geoms directly in a body or in the world.
bool nsi_mjcf_read_geoms(nsi_mjcf* m, const nsi_xml_element* body, uint32_t class_number,
                         nsi_mjcf_geoms* out);
bool nsi_mjcf_add_geoms(nsi_mjcf* m, const nsi_mjcf_geoms* geoms, const char* link);

// ---- mjcf_mesh.c: meshes as bodies -----------------------------------------------------------

// Mass and inertia of a mesh, of density 1, by the rule that holds for the geom. `fault` receives NULL
// or why there is none.
bool nsi_mjcf_mesh_mass_find(nsi_mjcf* m, nsi_mjcf_item geom, uint32_t number, nsi_mesh_mass* out,
                             const char** fault);

// The scale of a mesh; refpos and refquat are added to the pose.
bool nsi_mjcf_mesh_placement(nsi_mjcf* m, uint32_t number, double scale[3], ns_pose* pose);

// Size and place a primitive shape so that it fits a mesh.
bool nsi_mjcf_fit_mesh(nsi_mjcf* m, nsi_mjcf_item item, uint32_t number, ns_geom_def* geom);

// ---- mjcf_mass.c: mass and inertia -----------------------------------------------------------

// Is the mass of a body that of its geoms?
bool nsi_mjcf_needs_geom_mass(const nsi_mjcf* m, const nsi_xml_element* body);

// Mass, centre of mass and inertia of a geom whose shape has been read.
bool nsi_mjcf_geom_mass(nsi_mjcf* m, nsi_mjcf_item item, nsi_mjcf_geom* geom);

// Those of a body.
bool nsi_mjcf_body_inertia(nsi_mjcf* m, const nsi_xml_element* element, const nsi_mjcf_geoms* geoms,
                           ns_link_def* def);

// ---- mjcf_contact.c: what touches what -------------------------------------------------------

// Which geoms are in a <pair>; before geoms are read.
bool nsi_mjcf_collect_pairs(nsi_mjcf* m);

// How a geom takes part in contact.
bool nsi_mjcf_geom_contact(nsi_mjcf* m, nsi_mjcf_item item, ns_geom_def* geom);

// One note for all geoms, one for all joints, with attributes of MuJoCo's soft constraints.
bool nsi_mjcf_note_softness(nsi_mjcf* m);

// Pairs and exclusions; after geoms.
bool nsi_mjcf_read_contacts(nsi_mjcf* m);

// ---- mjcf_tendon.c: sites and tendons --------------------------------------------------------

// The sites directly in a body or in the world, on a link.
bool nsi_mjcf_add_sites(nsi_mjcf* m, const nsi_xml_element* body, uint32_t class_number,
                        const char* link);
bool nsi_mjcf_read_tendons(nsi_mjcf* m); // after joints and sites

// ---- mjcf_actuator.c -------------------------------------------------------------------------

bool nsi_mjcf_read_actuators(nsi_mjcf* m); // after the joints

// ---- mjcf_sensor.c ---------------------------------------------------------------------------

bool nsi_mjcf_read_sensors(nsi_mjcf* m); // after everything they can belong to

// ---- mjcf_equality.c: constraints ------------------------------------------------------------

// Constraints between bodies and joints that have been read.
bool nsi_mjcf_read_equalities(nsi_mjcf* m);

// ---- mjcf_keyframe.c -------------------------------------------------------------------------

// After bodies and actuators.
bool nsi_mjcf_read_keyframes(nsi_mjcf* m);

// ---- mjcf_body.c: bodies, their inertia and joints -------------------------------------------

bool nsi_mjcf_read_worldbody(nsi_mjcf* m);

#endif
