// The inside of the URDF reader: urdf.c reads the tree, urdf_link.c and urdf_joint.c its parts.
//
// Functions return false on failure; status and message are then in the reader.

#ifndef NSI_IO_URDF_H
#define NSI_IO_URDF_H

#include "io/reader.h"

typedef enum nsi_urdf_type {
    NSI_URDF_FIXED,
    NSI_URDF_REVOLUTE,
    NSI_URDF_CONTINUOUS,
    NSI_URDF_PRISMATIC,
    NSI_URDF_SPHERICAL,
    NSI_URDF_PLANAR,
    NSI_URDF_FLOATING
} nsi_urdf_type;

typedef struct nsi_urdf_link {
    const nsi_xml_element* element;
    uint32_t carrier;                 // joint whose child it is, or NSI_NONE
    uint32_t first_joint, last_joint; // that it carries, or NSI_NONE
    double mass, com[3], inertia[6];  // in the axes of the link
    bool welded;                      // to the world: it never moves
    bool heavy;                       // it or a link that it carries has mass
} nsi_urdf_link;

typedef struct nsi_urdf_joint {
    const nsi_xml_element* element;
    nsi_urdf_type type;
    uint32_t parent, child; // links
    uint32_t next;          // joint of the same parent, or NSI_NONE
    uint32_t leader;        // joint that it follows (<mimic>), or NSI_NONE
    uint32_t first_waiting; // of the joints that follow this one and wait until it is added
    uint32_t next_waiting;  // joint that waits for the same one
    bool needed;            // joints that follow it move mass, or it has inertia itself
    bool idle;              // it moves no mass, and was made fixed
    bool added;
    bool driven; // by an actuator
} nsi_urdf_joint;

typedef struct nsi_urdf {
    nsi_reader* reader;
    nsi_names link_names, joint_names; // those of the file, in the order of `links` and `joints`
    nsi_names colors;                  // of materials, by the name of the material
    NSI_ARRAY(nsi_urdf_link) links;
    NSI_ARRAY(nsi_urdf_joint) joints;
    uint32_t root;
    bool root_is_world;
    bool root_floats; // the root link moves freely
    uint32_t ready;   // joint to be added: what it follows has been; a list by next_waiting
} nsi_urdf;

// The child of this name, NULL for none. Of several the first counts, as in other readers of URDF;
// the next is noted, and refused with the option `strict`.
bool nsi_urdf_child(nsi_urdf* u, const nsi_xml_element* element, const char* name,
                    const nsi_xml_element** out);

// <origin>, or the identity.
bool nsi_urdf_read_origin(nsi_urdf* u, const nsi_xml_element* element, ns_pose* pose);

// A name for something that the file does not name: `base`, with underscores added while a joint
// (`joint`) or a link of the file has this name.
enum { NSI_URDF_NAME = 4 * NSI_MODEL_MAX_NAME };
void nsi_urdf_free_name(const nsi_urdf* u, bool joint, const char* base, char out[NSI_URDF_NAME]);

// ---- urdf_link.c -----------------------------------------------------------------------------

bool nsi_urdf_collect_materials(nsi_urdf* u);

// Mass, centre of mass and inertia of a link, as the file gives them; zeros without <inertial>.
bool nsi_urdf_read_inertial(nsi_urdf* u, nsi_urdf_link* link);

// Repair an inertia that is not physical, with a note; `welded` must be known.
bool nsi_urdf_repair_inertial(nsi_urdf* u, nsi_urdf_link* link);

// All geometries of a link, which has been added under this name; NULL: the world.
bool nsi_urdf_read_geoms(nsi_urdf* u, const nsi_xml_element* link, const char* name);

// ---- urdf_transmission.c ---------------------------------------------------------------------

// Actuators of all <transmission>, after the joints.
bool nsi_urdf_add_transmissions(nsi_urdf* u);

// ---- urdf_equality.c -------------------------------------------------------------------------

bool nsi_urdf_add_equalities(nsi_urdf* u);

// ---- urdf_joint.c ----------------------------------------------------------------------------

bool nsi_urdf_read_type(nsi_urdf* u, const nsi_xml_element* joint, nsi_urdf_type* out);

// The joint that this one follows; a joint that is fixed follows none.
bool nsi_urdf_read_leader(nsi_urdf* u, nsi_urdf_joint* joint);

// Add the joint, the link that it carries, and the link's geometries.
bool nsi_urdf_add_joint(nsi_urdf* u, const nsi_urdf_joint* joint);

// Inertia of the file into a link that is to be added.
void nsi_urdf_set_inertia(const nsi_urdf_link* link, ns_link_def* def);

#endif
