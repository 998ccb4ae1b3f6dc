// Read URDF, as specified at wiki.ros.org/urdf/XML, with these additional rules:
//
//   tree      Links and joints may come in any order. The model's order is depth first from the
//             root, the joints of a link in the order of the file.
//   root      A root link named "world" without <inertial> is the world. Any other root link is
//             welded to the world.
//   joints    fixed, revolute, continuous, prismatic, planar, floating; and the extension spherical
//             (or ball), as Bullet and Drake have it. A planar joint `j` of a link `l` becomes two
//             prismatic joints j_x and j_y along axes of the plane and a revolute joint j_theta
//             about its normal, with massless links l_j_x and l_j_y between. The parent of a
//             floating joint is the root link; its origin is the initial pose only.
//   dynamics  damping and friction, and the extensions stiffness, rest (or springref), armature and
//             friction_velocity
//   limit     A revolute or prismatic joint is limited when lower < upper. Effort and velocity are
//             not represented: they limit a drive, and URDF has no drives.
//   inertial  A link without one is massless. The inertia is about the centre of mass in the axes
//             of the inertial's origin, and is rotated into those of the link.
//   geometry  Each <visual> and <collision> becomes a geometry, drawn or in contact respectively.
//             A name that is already taken is replaced. Mesh files are read for contact only.
//   contact   The robot collides with the world, and with self_collision also with itself: its
//             geometries are in group 2, the world's in group 1. A link never collides with its
//             parent. <contact> in a link, as in PyBullet, applies to all of its geometries.

#include "io/reader.h"
#include "model/pose.h"

#include <math.h>
#include <stdio.h>

static const nsi_schema_row schema[] = {
    {"", "robot", "name version", NULL},
    {"robot", "link", "name", NULL},
    {"link", "inertial", "", NULL},
    {"link", "visual", "name", NULL},
    {"link", "collision", "name", NULL},
    {"inertial visual collision joint", "origin", "xyz rpy", NULL},
    {"inertial", "mass", "value", NULL},
    {"inertial", "inertia", "ixx iyy izz ixy ixz iyz", NULL},
    {"visual collision", "geometry", "", NULL},
    {"geometry", "box", "size", NULL},
    {"geometry", "cylinder", "radius length", NULL},
    {"geometry", "capsule", "radius length", NULL},
    {"geometry", "sphere", "radius", NULL},
    {"geometry", "mesh", "filename scale", NULL},
    {"link", "contact", "", NULL},
    {"contact", "lateral_friction", "value", NULL},
    {"contact", "restitution", "value", NULL},
    {"contact", "stiffness", "value", NULL},
    {"contact", "damping", "value", NULL},
    {"robot visual", "material", "name", NULL},
    {"material", "color", "rgba", NULL},
    {"robot", "joint", "name type", NULL},
    {"joint", "parent", "link", NULL},
    {"joint", "child", "link", NULL},
    {"joint", "axis", "xyz", NULL},
    {"joint", "limit", "lower upper", NULL},
    {"joint", "dynamics", "damping friction stiffness rest springref armature friction_velocity",
     NULL},
    {"joint", "mimic", "joint multiplier offset", NULL},
    {NULL, NULL, NULL, NULL},
};

// Not read though they change the motion.
static const char changing[] =
    "rolling_friction spinning_friction contact_cfm contact_erp inertia_scaling friction_anchor";

typedef struct urdf_link {
    const nsi_xml_element* element;
    uint32_t carrier;                 // joint whose child it is, or NSI_NONE
    uint32_t first_joint, last_joint; // that it carries, or NSI_NONE
} urdf_link;

typedef struct urdf_joint {
    const nsi_xml_element* element;
    uint32_t parent, child; // links
    uint32_t next;          // joint of the same parent, or NSI_NONE
} urdf_joint;

typedef struct urdf {
    nsi_reader* reader;
    nsi_names link_names, joint_names;
    nsi_names colors; // of materials, by the name of the material
    NSI_ARRAY(urdf_link) links;
    NSI_ARRAY(urdf_joint) joints;
    uint32_t root;
    bool root_is_world;
} urdf;

// ---- links and joints of the file ------------------------------------------------------------

// Add the element's name to the set; a second one of the same name is an error.
static bool urdf_add_name(urdf* u, nsi_names* names, const nsi_xml_element* element) {
    const char* name;
    if (!nsi_reader_required(u->reader, element, "name", &name)) return false;
    if (nsi_names_find(names, name) != NSI_NONE) {
        return nsi_reader_fail(u->reader, element, NS_ERR_PARSE,
                               "there is already a <%s> of this name; names must be unique",
                               element->name);
    }
    return nsi_names_add(u->reader, names, name, element);
}

static bool collect_links(urdf* u) {
    const nsi_xml_element* e = nsi_xml_child(u->reader->xml->root, "link");
    for (; e; e = nsi_xml_next(e, "link")) {
        urdf_link link = {e, NSI_NONE, NSI_NONE, NSI_NONE};
        if (!urdf_add_name(u, &u->link_names, e)) return false;
        if (!nsi_array_push(&u->reader->allocator, &u->links, link)) {
            return nsi_reader_fail_nomem(u->reader);
        }
    }
    if (u->links.count == 0) {
        nsi_reader_fail(u->reader, u->reader->xml->root, NS_ERR_PARSE,
                        "there is no <link>; a robot has at least one");
        return false;
    }
    return true;
}

// The link named by the <parent> or <child> of a joint.
static bool find_end(urdf* u, const nsi_xml_element* joint, const char* which, uint32_t* out) {
    const nsi_xml_element* end;
    const char* name;
    if (!nsi_reader_only_child(u->reader, joint, which, &end)) return false;
    if (!end) {
        return nsi_reader_fail(u->reader, joint, NS_ERR_PARSE, "the joint has no <%s>", which);
    }
    if (!nsi_reader_required(u->reader, end, "link", &name)) return false;
    *out = nsi_names_find(&u->link_names, name);
    if (*out != NSI_NONE) return true;
    return nsi_reader_fail(u->reader, end, NS_ERR_PARSE,
                           "there is no link \"%.100s\"; check the name or add the link", name);
}

static bool collect_joints(urdf* u) {
    const nsi_xml_element* e = nsi_xml_child(u->reader->xml->root, "joint");
    for (; e; e = nsi_xml_next(e, "joint")) {
        // Parent and child must be links of the file.
        urdf_joint joint = {.element = e, .next = NSI_NONE};
        if (!urdf_add_name(u, &u->joint_names, e) || !find_end(u, e, "parent", &joint.parent) ||
            !find_end(u, e, "child", &joint.child)) {
            return false;
        }
        // Position in the file, which is kept in the model.
        uint32_t number = u->joints.count;
        if (!nsi_array_push(&u->reader->allocator, &u->joints, joint)) {
            return nsi_reader_fail_nomem(u->reader);
        }

        // A link has at most one parent joint, so the joints form a tree.
        urdf_link *parent = &u->links.data[joint.parent], *child = &u->links.data[joint.child];
        const char* child_name = u->link_names.items.data[joint.child].name;
        if (parent == child) {
            return nsi_reader_fail(u->reader, e, NS_ERR_PARSE,
                                   "link \"%.100s\" is both parent and child of the joint",
                                   child_name);
        }
        // A second parent closes a loop.
        if (child->carrier != NSI_NONE) {
            return nsi_reader_fail(u->reader, e, NS_ERR_PARSE,
                                   "link \"%.100s\" is already the child of the joint on line %u; "
                                   "loops are not supported",
                                   child_name, u->joints.data[child->carrier].element->line);
        }

        // Append to the children of the parent, in the order of the file.
        // Joints of a link form a linked list.
        child->carrier = number;
        if (parent->last_joint == NSI_NONE) {
            parent->first_joint = number;
        } else {
            u->joints.data[parent->last_joint].next = number;
        }
        parent->last_joint = number;
    }
    return true;
}

// The one link that no joint carries.
static bool find_root(urdf* u) {
    u->root = NSI_NONE;

    // A second link without a parent joint is an error, not another robot.
    for (uint32_t i = 0; i < u->links.count; i++) {
        const urdf_link* link = &u->links.data[i];
        if (link->carrier != NSI_NONE) continue;
        if (u->root != NSI_NONE) {
            return nsi_reader_fail(u->reader, link->element, NS_ERR_PARSE,
                                   "no joint has this link as its child, and the same is true of "
                                   "link \"%.100s\"; there must be one root: join them by a joint",
                                   u->link_names.items.data[u->root].name);
        }
        u->root = i;
    }

    // Every link has a parent, so following parents never ends.
    if (u->root == NSI_NONE) {
        nsi_reader_fail(u->reader, u->links.data[0].element, NS_ERR_PARSE,
                        "every link is the child of a joint: the joints form a cycle, and there is "
                        "no root");
        return false;
    }

    // A root named "world" is the fixed frame itself.
    const nsi_xml_element* root = u->links.data[u->root].element;
    // By convention of ROS.
    u->root_is_world = strcmp(u->link_names.items.data[u->root].name, "world") == 0;
    // Inertia of the world would be ignored silently.
    if (u->root_is_world && nsi_xml_child(root, "inertial")) {
        return nsi_reader_fail(u->reader, root, NS_ERR_PARSE,
                               "the link \"world\" stands for the world and has no inertia; remove "
                               "<inertial> or rename the link");
    }
    return true;
}

// ---- materials -------------------------------------------------------------------------------

// Materials can be defined at the top or inside a <visual>, and used by name before or after.
static bool collect_material(urdf* u, const nsi_xml_element* material) {
    const nsi_xml_element* color;
    const char* name = nsi_xml_value(material, "name");
    if (!nsi_reader_only_child(u->reader, material, "color", &color)) return false;
    if (!name || !color || nsi_names_find(&u->colors, name) != NSI_NONE) return true;
    return nsi_names_add(u->reader, &u->colors, name, color);
}

static bool collect_materials(urdf* u) {
    const nsi_xml_element* material = nsi_xml_child(u->reader->xml->root, "material");
    for (; material; material = nsi_xml_next(material, "material")) {
        if (!collect_material(u, material)) return false;
    }
    for (uint32_t i = 0; i < u->links.count; i++) {
        const nsi_xml_element* visual = nsi_xml_child(u->links.data[i].element, "visual");
        for (; visual; visual = nsi_xml_next(visual, "visual")) {
            if (!nsi_reader_only_child(u->reader, visual, "material", &material)) return false;
            if (material && !collect_material(u, material)) return false;
        }
    }
    return true;
}

static bool urdf_read_color(urdf* u, const nsi_xml_element* visual, double rgba[4]) {
    const nsi_xml_element* material = nsi_xml_child(visual, "material");
    if (!material) return true;
    const nsi_xml_element* color = nsi_xml_child(material, "color");
    const char* name = nsi_xml_value(material, "name");
    if (!color && name) {
        uint32_t number = nsi_names_find(&u->colors, name);
        if (number != NSI_NONE) color = u->colors.items.data[number].element;
    }
    if (!color) {
        return nsi_xml_child(material, "texture") ||
               nsi_reader_note(u->reader, material, "names no material with a colour");
    }
    uint32_t count;
    return nsi_reader_numbers(u->reader, color, "rgba", 4, 4, rgba, &count);
}

// ---- parts of a link -------------------------------------------------------------------------

static bool read_origin(urdf* u, const nsi_xml_element* element, ns_pose* pose) {
    *pose = nsi_pose_identity();
    const nsi_xml_element* origin;
    if (!nsi_reader_only_child(u->reader, element, "origin", &origin)) return false;
    if (!origin) return true;
    double rpy[3] = {0.0, 0.0, 0.0};
    if (!nsi_reader_vector(u->reader, origin, "xyz", pose->position) ||
        !nsi_reader_vector(u->reader, origin, "rpy", rpy)) {
        return false;
    }
    nsi_quat_from_rpy(rpy, pose->quaternion);
    return true;
}

static bool urdf_read_inertial(urdf* u, const nsi_xml_element* link, ns_link_def* def) {
    // Links without <inertial> are massless.
    const nsi_xml_element *inertial, *mass, *inertia;
    if (!nsi_reader_only_child(u->reader, link, "inertial", &inertial)) return false;
    if (!inertial) return true;
    ns_pose pose;
    const char* value;
    // The origin is that of the centre of mass.
    if (!read_origin(u, inertial, &pose) ||
        !nsi_reader_only_child(u->reader, inertial, "mass", &mass) ||
        !nsi_reader_only_child(u->reader, inertial, "inertia", &inertia)) {
        return false;
    }

    // Mass and inertia come together.
    if (!mass || !inertia) {
        return nsi_reader_fail(u->reader, inertial, NS_ERR_PARSE,
                               "<%s> is missing; give mass and inertia, or leave <inertial> out "
                               "for a massless link",
                               mass ? "inertia" : "mass");
    }

    if (!nsi_reader_required(u->reader, mass, "value", &value) ||
        !nsi_reader_number(u->reader, mass, "value", &def->mass)) {
        return false;
    }

    // Diagonal entries are required, the others default to 0.
    static const char* const names[6] = {"ixx", "iyy", "izz", "ixy", "ixz", "iyz"};
    double tensor[6] = {0.0};
    for (int i = 0; i < 6; i++) {
        // A missing diagonal entry would make the inertia invalid.
        if (i < 3 && !nsi_reader_required(u->reader, inertia, names[i], &value)) return false;
        if (!nsi_reader_number(u->reader, inertia, names[i], &tensor[i])) return false;
    }

    // Express the inertia in the axes of the link.
    memcpy(def->com, pose.position, sizeof def->com);
    nsi_inertia_rotate(pose.quaternion, tensor, def->inertia);

    // Positive definite, and within the triangle inequality.
    return nsi_reader_check_inertia(u->reader, inertial, def);
}

// A length that must be given, e.g. the radius of a sphere.
static bool urdf_read_length(urdf* u, const nsi_xml_element* shape, const char* attribute,
                             double* out) {
    const char* text;
    return nsi_reader_required(u->reader, shape, attribute, &text) &&
           nsi_reader_number(u->reader, shape, attribute, out);
}

static bool urdf_read_shape(urdf* u, const nsi_xml_element* shape, ns_geom_def* geom) {
    // Elements of <geometry>.
    static const struct {
        const char* name;
        ns_geom_type type;
    } types[] = {{"box", NS_GEOM_BOX},
                 {"cylinder", NS_GEOM_CYLINDER},
                 {"capsule", NS_GEOM_CAPSULE},
                 {"sphere", NS_GEOM_SPHERE},
                 {"mesh", NS_GEOM_MESH}};
    size_t k = 0;
    // The caller has checked the name.
    while (strcmp(types[k].name, shape->name) != 0) k++; // it is one of them
    geom->type = types[k].type;

    const char* text;
    uint32_t count;
    switch (geom->type) {
    case NS_GEOM_BOX: // full lengths
        if (!nsi_reader_required(u->reader, shape, "size", &text) ||
            !nsi_reader_vector(u->reader, shape, "size", geom->size)) {
            return false;
        }
        // Half lengths inside the library.
        for (int i = 0; i < 3; i++) geom->size[i] *= 0.5;
        return true;
    case NS_GEOM_MESH: {
        double scale[3] = {1.0, 1.0, 1.0};
        // The file is found later, by package and folder.
        if (!nsi_reader_required(u->reader, shape, "filename", &geom->mesh) ||
            !nsi_reader_numbers(u->reader, shape, "scale", 1, 3, scale, &count)) {
            return false;
        }
        if (count == 2) {
            return nsi_reader_fail(u->reader, shape, NS_ERR_PARSE, "scale has 2 numbers; give 3");
        }
        // One number scales all axes.
        for (int i = 0; i < 3; i++) geom->size[i] = count == 1 ? scale[0] : scale[i];
        return true;
    }
    case NS_GEOM_SPHERE: return urdf_read_length(u, shape, "radius", &geom->size[0]);
    default: // a capsule's length is that of its cylinder
        if (!urdf_read_length(u, shape, "radius", &geom->size[0]) ||
            !urdf_read_length(u, shape, "length", &geom->size[1])) {
            return false;
        }
        geom->size[1] *= 0.5;
        return true;
    }
}

static bool is_shape(const nsi_xml_element* element) {
    return nsi_word_in("box cylinder capsule sphere mesh", element->name);
}

// Stiffness and damping in PyBullet are those of a linear spring and damper, N/m and N s/m. The spring
// is represented as it is; our damping grows with the depth and is made to agree at 1 cm.
static bool convert_spring(urdf* u, const nsi_xml_element* contact, ns_geom_def* geom) {
    const double depth = 0.01; // m
    bool has_damping = geom->damping != NS_CONTACT_AUTO;
    if (geom->stiffness == NS_CONTACT_AUTO) {
        geom->damping = NS_CONTACT_AUTO;
        return !has_damping || nsi_reader_note(u->reader, contact,
                                               "has damping without stiffness: it does not act; "
                                               "changes the motion with springs");
    }
    geom->exponent = 1.0;
    if (!has_damping || geom->damping == 0.0) return true;
    double force = geom->stiffness * depth;
    geom->damping = force > 0.0 ? geom->damping / force : 0.0;
    if (!isfinite(geom->damping)) {
        return nsi_reader_fail(u->reader, contact, NS_ERR_PARSE,
                               "damping is too large for so little stiffness");
    }
    return nsi_reader_note(
        u->reader, contact,
        "damping grows with the depth here: read as %g s/m, which is the same at "
        "a depth of 1 cm; changes the motion with springs",
        geom->damping);
}

// What holds for all geometries of a link: where it is, and how it touches.
static bool read_contact(urdf* u, const nsi_xml_element* link, const char* name,
                         ns_geom_def* geom) {
    // Links touch the world; they touch each other with self-collision only.
    enum { WORLD = 1, ROBOT = 2 };
    // Defaults apply to all links alike.
    *geom = ns_default_geom_def();
    geom->link = name;
    if (name) {
        // Geometry without a link belongs to the world.
        geom->groups = ROBOT;
        geom->touches = u->reader->options.self_collision ? WORLD | ROBOT : WORLD;
    }

    // Properties of the optional <contact> element, none of them negative.
    const nsi_xml_element *contact, *element;
    if (!nsi_reader_only_child(u->reader, link, "contact", &contact)) return false;
    // Standard URDF files have no <contact>.
    if (!contact) return true;
    const struct {
        const char* name;
        double* value;
    } numbers[] = {
        {"lateral_friction", &geom->friction[0]},
        {"restitution", &geom->restitution},
        {"stiffness", &geom->stiffness},
        {"damping", &geom->damping},
    };

    // Absent elements keep the default.
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        const char* text;
        if (!nsi_reader_only_child(u->reader, contact, numbers[k].name, &element)) return false;
        if (!element) continue;
        if (!nsi_reader_required(u->reader, element, "value", &text) ||
            !nsi_reader_number(u->reader, element, "value", numbers[k].value)) {
            return false;
        }
        if (*numbers[k].value < 0.0) {
            return nsi_reader_fail(u->reader, element, NS_ERR_PARSE,
                                   "the value is negative; give zero or a positive one");
        }
    }

    // Stiffness and damping become parameters of the contact law.
    return convert_spring(u, contact, geom);
}

static bool urdf_read_geom(urdf* u, const nsi_xml_element* element, const ns_geom_def* of_link) {
    // Visual elements are drawn, collision elements are in contact.
    // Contact properties are those of the link.
    ns_geom_def geom = *of_link;
    geom.visual = strcmp(element->name, "visual") == 0;
    geom.collision = !geom.visual;
    const nsi_xml_element* geometry;
    // The pose relative to the link.
    if (!read_origin(u, element, &geom.pose) ||
        !nsi_reader_only_child(u->reader, element, "geometry", &geometry)) {
        return false;
    }

    // Exactly one shape; unknown elements are skipped.
    const nsi_xml_element* shape = geometry ? geometry->first_child : NULL;
    while (shape && !is_shape(shape)) shape = shape->next;
    if (!shape) {
        return nsi_reader_fail(u->reader, geometry ? geometry : element, NS_ERR_PARSE,
                               "there is no shape; give <geometry> one of <box>, <cylinder>, "
                               "<capsule>, <sphere>, <mesh>");
    }

    // A second shape would be ignored by other readers.
    for (const nsi_xml_element* other = shape->next; other; other = other->next) {
        if (is_shape(other)) {
            return nsi_reader_fail(u->reader, other, NS_ERR_PARSE,
                                   "this is the second shape of a <geometry>; use one <%s> for "
                                   "each",
                                   element->name);
        }
    }

    // A visual and a collision element may share a name; the first one keeps it.
    const char* name = nsi_xml_value(element, "name");
    if (name && *name && !nsi_model_builder_has_geom(u->reader->builder, name)) geom.name = name;
    // Visuals have a colour; meshes are loaded once all attributes are known.
    return urdf_read_shape(u, shape, &geom) &&
           (!geom.visual || urdf_read_color(u, element, geom.color)) &&
           nsi_reader_load_mesh(u->reader, shape, &geom) &&
           nsi_reader_add_geom(u->reader, element, &geom);
}

static bool read_geoms(urdf* u, const nsi_xml_element* link, const char* name) {
    ns_geom_def of_link;
    if (!read_contact(u, link, name, &of_link)) return false;
    for (const nsi_xml_element* child = link->first_child; child; child = child->next) {
        bool is_geom = strcmp(child->name, "visual") == 0 || strcmp(child->name, "collision") == 0;
        if (is_geom && !urdf_read_geom(u, child, &of_link)) return false;
    }
    return true;
}

// ---- joints ----------------------------------------------------------------------------------

typedef enum urdf_type {
    FIXED,
    REVOLUTE,
    CONTINUOUS,
    PRISMATIC,
    SPHERICAL,
    PLANAR,
    FLOATING
} urdf_type;

static bool read_type(urdf* u, const nsi_xml_element* joint, urdf_type* out) {
    static const struct {
        const char* name;
        urdf_type type;
    } types[] = {{"fixed", FIXED},         {"revolute", REVOLUTE},   {"continuous", CONTINUOUS},
                 {"prismatic", PRISMATIC}, {"spherical", SPHERICAL}, {"ball", SPHERICAL},
                 {"planar", PLANAR},       {"floating", FLOATING}};
    const char* name;
    if (!nsi_reader_required(u->reader, joint, "type", &name)) return false;
    for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
        if (strcmp(types[k].name, name) == 0) {
            *out = types[k].type;
            return true;
        }
    }
    return nsi_reader_fail(u->reader, joint, NS_ERR_UNSUPPORTED,
                           "type \"%.40s\" is not supported; use fixed, revolute, continuous, "
                           "prismatic, spherical, planar or floating",
                           name);
}

static bool read_axis(urdf* u, const nsi_xml_element* joint, double axis[3]) {
    axis[0] = 1.0, axis[1] = axis[2] = 0.0; // URDF's default
    const nsi_xml_element* element;
    const char* text;
    if (!nsi_reader_only_child(u->reader, joint, "axis", &element)) return false;
    if (!element) return true;
    if (!nsi_reader_required(u->reader, element, "xyz", &text) ||
        !nsi_reader_vector(u->reader, element, "xyz", axis)) {
        return false;
    }
    if (nsi_normalize(axis, 3)) return true;
    return nsi_reader_fail(u->reader, element, NS_ERR_PARSE, "the axis is zero; give a direction");
}

static bool read_dynamics(urdf* u, const nsi_xml_element* joint, urdf_type type, ns_link_def* def) {
    const nsi_xml_element* dynamics;
    if (!nsi_reader_only_child(u->reader, joint, "dynamics", &dynamics)) return false;
    // No <dynamics>: no passive forces.
    if (!dynamics) return true;

    // URDF defines damping and friction; the other attributes are extensions.
    const struct {
        const char* name;
        double* value;
    } numbers[] = {
        {"damping", &def->damping},
        {"friction", &def->friction},
        {"stiffness", &def->stiffness},
        {"springref", &def->rest},
        {"rest", &def->rest},
        {"armature", &def->armature},
        {"friction_velocity", &def->friction_velocity},
    };

    // Attributes that are absent keep the default; "rest" and "springref" are synonyms.
    // Values are validated by the model builder.
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        if (!nsi_reader_number(u->reader, dynamics, numbers[k].name, numbers[k].value)) {
            return false;
        }
    }

    // Not every type of joint has these forces.
    bool turns_or_slides = type == REVOLUTE || type == CONTINUOUS || type == PRISMATIC;
    // Nothing moves: forces have no effect.
    if (type == FIXED) {
        def->damping = def->friction = def->stiffness = def->rest = def->armature = 0.0;
        return nsi_reader_note(u->reader, dynamics, "has no effect on a fixed joint");
    }
    // Springs need a coordinate with a rest position.
    if (!turns_or_slides && def->stiffness != 0.0) {
        return nsi_reader_fail(u->reader, dynamics, NS_ERR_UNSUPPORTED,
                               "stiffness is supported on revolute, continuous and prismatic "
                               "joints only");
    }
    if (!turns_or_slides) def->rest = 0.0;
    return true;
}

static bool read_limit(urdf* u, const nsi_xml_element* joint, urdf_type type, ns_link_def* def) {
    const nsi_xml_element* limit;
    if (!nsi_reader_only_child(u->reader, joint, "limit", &limit)) return false;
    // URDF requires limits for these types; many files omit them.
    if (!limit) {
        return (type != REVOLUTE && type != PRISMATIC) ||
               nsi_reader_note(u->reader, joint, "has no <limit>; it moves without limits");
    }

    // Both bounds default to 0, as URDF says.
    double lower = 0.0, upper = 0.0;
    if (!nsi_reader_number(u->reader, limit, "lower", &lower) ||
        !nsi_reader_number(u->reader, limit, "upper", &upper)) {
        return false;
    }
    if (lower > upper) {
        return nsi_reader_fail(u->reader, limit, NS_ERR_PARSE,
                               "lower is greater than upper; swap them");
    }

    // An empty range means no limit rather than a locked joint.
    if (type == REVOLUTE || type == PRISMATIC) {
        // Many exporters write zeros for "unlimited".
        def->limited = lower < upper;
        def->lower = lower;
        def->upper = upper;
        return def->limited || nsi_reader_note(u->reader, limit,
                                               "has lower = upper; the joint moves without limits");
    }

    // Other types have no range; a range is reported as ignored.

    return !(lower < upper) ||
           nsi_reader_note(u->reader, limit,
                           "has a range, which has no effect on a joint of this type");
}

static bool read_mimic(urdf* u, const nsi_xml_element* joint, ns_link_def* def) {
    const nsi_xml_element* mimic;
    if (!nsi_reader_only_child(u->reader, joint, "mimic", &mimic)) return false;
    if (!mimic) return true;
    if (!nsi_reader_required(u->reader, mimic, "joint", &def->mimic) ||
        !nsi_reader_number(u->reader, mimic, "multiplier", &def->mimic_multiplier) ||
        !nsi_reader_number(u->reader, mimic, "offset", &def->mimic_offset)) {
        return false;
    }
    if (nsi_names_find(&u->joint_names, def->mimic) == NSI_NONE) {
        return nsi_reader_fail(u->reader, mimic, NS_ERR_PARSE,
                               "there is no joint \"%.100s\"; check the name", def->mimic);
    }
    if (nsi_model_builder_has_joint(u->reader->builder, def->mimic)) return true;
    return nsi_reader_fail(u->reader, mimic, NS_ERR_UNSUPPORTED,
                           "joint \"%.100s\" does not come before this one in the tree; move it "
                           "further up in the file",
                           def->mimic);
}

// Three joints for one. The link keeps the last; its mass is there already.
static bool add_planar(urdf* u, const nsi_xml_element* element, const char* joint,
                       const ns_link_def* link) {
    // Two axes in the plane; for the normals x, y, z they are the next two of x, y, z, x, y.
    const double* n = link->axis;
    double axes[3][3] = {{0.0}};
    // The largest component of the normal is safe to project from.
    int largest = 0;
    for (int i = 1; i < 3; i++) {
        if (n[i] * n[i] > n[largest] * n[largest]) largest = i;
    }
    int along = (largest + 1) % 3;
    // Subtract the part along the normal (Gram-Schmidt).
    for (int i = 0; i < 3; i++) axes[0][i] = (i == along ? 1.0 : 0.0) - n[along] * n[i];
    nsi_normalize(axes[0], 3);
    // Right-handed frame.
    nsi_cross(n, axes[0], axes[1]);
    nsi_normalize(axes[1], 3);
    memcpy(axes[2], n, sizeof axes[2]);

    // Chain the three joints; all links but the last one are massless.
    // Names of the three coordinates.
    static const char* const suffixes[3] = {"x", "y", "theta"};
    char joints[3][2 * NSI_MODEL_MAX_NAME + 16], links[2][3 * NSI_MODEL_MAX_NAME + 32];
    ns_link_def part = *link;
    for (int k = 0; k < 3; k++) {
        snprintf(joints[k], sizeof joints[k], "%.*s_%s", NSI_MODEL_MAX_NAME + 1, joint,
                 suffixes[k]);
        part.joint = joints[k];
        part.joint_type = k < 2 ? NS_JOINT_PRISMATIC : NS_JOINT_REVOLUTE;
        memcpy(part.axis, axes[k], sizeof part.axis);

        // Massless links between the joints.
        if (k < 2) {
            snprintf(links[k], sizeof links[k], "%.*s_%s", NSI_MODEL_MAX_NAME + 1, link->name,
                     joints[k]);
            part.name = links[k];
            part.mass = 0.0;
            memset(part.com, 0, sizeof part.com);
            memset(part.inertia, 0, sizeof part.inertia);
        } else {
            // The last one is the link of the file.
            part.name = link->name;
            part.mass = link->mass;
            memcpy(part.com, link->com, sizeof part.com);
            memcpy(part.inertia, link->inertia, sizeof part.inertia);
        }

        // The next joint starts where this one ends.
        if (!nsi_reader_add_link(u->reader, element, &part)) return false;
        part.parent = part.name;
        part.origin = nsi_pose_identity();
    }
    return true;
}

// A link does not touch the one that carries it, nor what that one is welded to further in. Where
// these move the model sees to that; here they may be welded to the world, which counts as ground.
static bool exclude_carriers(urdf* u, const urdf_joint* joint, const char* link) {
    if (!u->reader->options.self_collision) return true;
    for (uint32_t at = joint->parent; at != u->root || !u->root_is_world;) {
        const char* carrier = u->link_names.items.data[at].name;
        if (!nsi_reader_exclude_contact(u->reader, joint->element, carrier, link)) return false;
        uint32_t next = u->links.data[at].carrier;
        if (next == NSI_NONE) break;
        const urdf_joint* inner = &u->joints.data[next];
        if (strcmp(nsi_xml_value(inner->element, "type"), "fixed") != 0) break;
        at = inner->parent;
    }
    return true;
}

// The link a joint carries, and the joint.
static bool urdf_add_joint(urdf* u, const urdf_joint* joint) {
    static const ns_joint_type types[] = {
        [FIXED] = NS_JOINT_FIXED,         [REVOLUTE] = NS_JOINT_REVOLUTE,
        [CONTINUOUS] = NS_JOINT_REVOLUTE, [PRISMATIC] = NS_JOINT_PRISMATIC,
        [SPHERICAL] = NS_JOINT_SPHERICAL, [PLANAR] = NS_JOINT_FIXED, // not used
        [FLOATING] = NS_JOINT_FLOATING,
    };

    // Collect the properties of link and joint.
    const nsi_xml_element *element = joint->element, *link = u->links.data[joint->child].element;
    ns_link_def def = ns_default_link_def();
    def.name = u->link_names.items.data[joint->child].name;
    def.joint = nsi_xml_value(element, "name");
    urdf_type type = FIXED;
    // Errors refer to the element that is wrong.
    if (!read_type(u, element, &type) || !urdf_read_inertial(u, link, &def) ||
        !read_origin(u, element, &def.origin) || !read_axis(u, element, def.axis) ||
        !read_dynamics(u, element, type, &def) || !read_limit(u, element, type, &def) ||
        !read_mimic(u, element, &def)) {
        return false;
    }

    // A floating joint elsewhere would be relative to a moving link.
    def.joint_type = types[type];
    bool at_root = joint->parent == u->root;
    if (type == FLOATING && !at_root) {
        return nsi_reader_fail(u->reader, element, NS_ERR_UNSUPPORTED,
                               "a floating joint must have the root link \"%.100s\" as its parent",
                               u->link_names.items.data[u->root].name);
    }

    // A root link that is not the world itself is welded to its origin, so a floating joint may as
    // well start from the world.
    bool on_world = at_root && (u->root_is_world || type == FLOATING);
    def.parent = on_world ? NULL : u->link_names.items.data[joint->parent].name;

    // A planar joint has three coordinates, and <mimic> one.
    if (type == PLANAR && def.mimic) {
        return nsi_reader_fail(u->reader, element, NS_ERR_UNSUPPORTED,
                               "a planar joint cannot have <mimic>");
    }

    // Add the link before its geometry, which refers to it by name.
    bool added = type == PLANAR ? add_planar(u, element, def.joint, &def)
                                : nsi_reader_add_link(u->reader, element, &def);
    // A link does not collide with the link that carries it.
    return added && (on_world || exclude_carriers(u, joint, def.name)) &&
           read_geoms(u, link, def.name);
}

static bool urdf_add_root(urdf* u) {
    const nsi_xml_element* link = u->links.data[u->root].element;
    if (u->root_is_world) return read_geoms(u, link, NULL);
    ns_link_def def = ns_default_link_def();
    def.name = u->link_names.items.data[u->root].name;
    return urdf_read_inertial(u, link, &def) && nsi_reader_add_link(u->reader, link, &def) &&
           read_geoms(u, link, def.name);
}

// Depth first without recursion: down to the first joint, else to the next one, else up.
static bool add_tree(urdf* u) {
    // The root has no joint.
    if (!urdf_add_root(u)) return false;

    // Add each joint before the joints of its child.
    // Count links, to detect cycles.
    uint32_t visited = 1;
    uint32_t at = u->links.data[u->root].first_joint;
    while (at != NSI_NONE) {
        const urdf_joint* joint = &u->joints.data[at];
        if (!urdf_add_joint(u, joint)) return false;
        visited++;

        // Without a child joint, climb until a link has another one.
        // Down to the first child joint.
        uint32_t next = u->links.data[joint->child].first_joint;
        while (next == NSI_NONE) {
            joint = &u->joints.data[at];
            // Sideways to the next joint of the same parent.
            next = joint->next;
            if (next != NSI_NONE) break;
            // Up to the joint that carries the parent.
            at = u->links.data[joint->parent].carrier;
            if (at == NSI_NONE) break;
        }
        at = next;
    }

    if (visited == u->links.count) return true;

    // What was not reached hangs on a cycle.
    for (uint32_t i = 0; i < u->links.count; i++) {
        const char* name = u->link_names.items.data[i].name;
        if (i != u->root && !nsi_model_builder_has_link(u->reader->builder, name)) {
            return nsi_reader_fail(u->reader, u->links.data[i].element, NS_ERR_PARSE,
                                   "the joints lead from this link back to it, not to the root "
                                   "link \"%.100s\": they form a cycle",
                                   u->link_names.items.data[u->root].name);
        }
    }
    return true;
}

bool nsi_urdf_read(nsi_reader* reader) {
    const nsi_xml_element* root = reader->xml->root;
    urdf u = {.reader = reader};
    const char* name = nsi_xml_value(root, "name");
    bool read = nsi_reader_note_unread(reader, schema, changing, "") &&
                (!name || !*name || nsi_reader_set_name(reader, root, name)) && collect_links(&u) &&
                collect_joints(&u) && find_root(&u) && collect_materials(&u) && add_tree(&u);
    nsi_names_free(&reader->allocator, &u.link_names);
    nsi_names_free(&reader->allocator, &u.joint_names);
    nsi_names_free(&reader->allocator, &u.colors);
    nsi_array_free(&reader->allocator, &u.links);
    nsi_array_free(&reader->allocator, &u.joints);
    return read;
}
