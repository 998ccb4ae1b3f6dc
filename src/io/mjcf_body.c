// Bodies of MJCF: names, inertia, joints, and the links they become.

#include "io/mjcf.h"
#include "model/pose.h"

#include <stdio.h>

// ---- names -----------------------------------------------------------------------------------

// Names given in the file are kept for those they are given to. Duplicates are for the builder to
// find. Recursion is bounded by the depth of a document.
static bool collect_names(nsi_mjcf* m, const nsi_xml_element* element) {
    for (const nsi_xml_element* child = element->first_child; child; child = child->next) {
        bool body = strcmp(child->name, "body") == 0;
        bool joint = strcmp(child->name, "joint") == 0 || strcmp(child->name, "freejoint") == 0;
        const char* name = nsi_xml_value(child, "name");
        nsi_names* names = body ? &m->body_names : &m->joint_names;
        if ((body || joint) && name && nsi_names_find(names, name) == NSI_NONE &&
            !nsi_names_add(m->reader, names, name, child)) {
            return false;
        }
        if (body && !collect_names(m, child)) return false;
    }
    return true;
}

// A name of our own for a link or joint: the given one, with underscores as long as it is taken.
static bool make_name(nsi_mjcf* m, bool link, const char* wanted, const char** out) {
    char name[3 * NSI_MODEL_MAX_NAME];
    size_t length = (size_t)snprintf(name, sizeof name, "%s", wanted);
    if (length >= sizeof name) length = sizeof name - 1;
    const nsi_names* given = link ? &m->body_names : &m->joint_names;
    const ns_model_builder* builder = m->reader->builder;
    while (length + 1 < sizeof name && (nsi_names_find(given, name) != NSI_NONE ||
                                        (link ? nsi_model_builder_has_link(builder, name)
                                              : nsi_model_builder_has_joint(builder, name)))) {
        name[length++] = '_';
        name[length] = '\0';
    }
    *out = nsi_arena_string(&m->strings, name, length);
    return *out || nsi_reader_fail_nomem(m->reader);
}

// ---- joints ----------------------------------------------------------------------------------

typedef struct joint {
    const nsi_xml_element* element;
    ns_link_def def; // what belongs to the joint
    double pos[3];   // the point it turns about, in the body's frame
    double ref;      // its coordinate where the file draws it
} joint;

// A limited ball, or a spring on a ball or free joint.
static bool note_joint(nsi_mjcf* m, nsi_mjcf_item c, joint* j) {
    if (ns_joint_type_info(j->def.joint_type)->has_axis) return true;
    const char* stiffness = j->def.stiffness != 0.0 ? "stiffness" : NULL;
    const char* what = !j->def.limited ? stiffness : stiffness ? "stiffness and range" : "range";
    j->def.stiffness = j->def.rest = 0.0;
    j->def.limited = false;
    j->def.lower = j->def.upper = 0.0;
    return !what || nsi_reader_note(m->reader, c.element,
                                    "has %s, which is not represented on a joint of this type; "
                                    "changes the motion",
                                    what);
}

static bool read_joint(nsi_mjcf* m, const nsi_xml_element* element, uint32_t class_number,
                       joint* j) {
    // Words of MJCF, in the order of our types.
    static const char* const words[] = {"hinge", "slide", "ball", "free", NULL};
    static const ns_joint_type types[] = {NS_JOINT_REVOLUTE, NS_JOINT_PRISMATIC, NS_JOINT_SPHERICAL,
                                          NS_JOINT_FLOATING};

    // A <freejoint> has no attributes besides its name.
    *j = (joint){.element = element, .def = ns_default_link_def()};
    j->def.joint = nsi_xml_value(element, "name");
    if (strcmp(element->name, "freejoint") == 0) {
        j->def.joint_type = NS_JOINT_FLOATING;
        return true;
    }

    // All other joints inherit attributes from default classes.
    nsi_mjcf_item c = {element, NSI_MJCF_JOINT, NSI_MJCF_MAIN_CLASS};
    uint32_t type = 0, count;
    double limits[2] = {0.0, 0.0}, drive[2] = {0.0, 0.0};
    if (!nsi_mjcf_find_class(m, element, "class", class_number, &c.class_number) ||
        !nsi_mjcf_word(m, c, "type", words, &type) ||
        !nsi_mjcf_numbers(m, c, "axis", 3, 3, j->def.axis, &count) ||
        !nsi_mjcf_numbers(m, c, "pos", 3, 3, j->pos, &count) ||
        !nsi_mjcf_number(m, c, "stiffness", &j->def.stiffness) ||
        !nsi_mjcf_number(m, c, "springref", &j->def.rest) ||
        !nsi_mjcf_number(m, c, "damping", &j->def.damping) ||
        !nsi_mjcf_number(m, c, "frictionloss", &j->def.friction) ||
        !nsi_mjcf_number(m, c, "armature", &j->def.armature) ||
        !nsi_mjcf_number(m, c, "ref", &j->ref)) {
        return false;
    }

    // Limits and axis, for the types that have them.
    j->def.joint_type = types[type];
    bool has_axis = type < 2, is_free = type == 3;
    if (!is_free && !nsi_mjcf_limit(m, c, "limited", "range", &j->def.limited, limits))
        return false;
    if (has_axis && !nsi_mjcf_limit(m, c, "actuatorfrclimited", "actuatorfrcrange",
                                    &j->def.drive_limited, drive)) {
        return false;
    }
    j->def.drive_lower = drive[0], j->def.drive_upper = drive[1];

    // The axis need not be normalised in the file.
    if (has_axis && !nsi_normalize(j->def.axis, 3)) {
        return nsi_reader_fail(m->reader, element, NS_ERR_PARSE,
                               "the axis is zero; give a direction");
    }

    // Angles of hinges are in the file's unit.
    double unit = type == 0 ? m->angle : 1.0;
    // `ref` shifts the coordinate of hinges and slides only.
    j->ref = j->def.reference = has_axis ? j->ref * unit : 0.0;
    j->def.rest *= unit;
    j->def.lower = limits[0] * unit;
    j->def.upper = limits[1] * unit;
    // A slide or free joint has no anchor.
    if (type == 1 || is_free) memset(j->pos, 0, sizeof j->pos);

    // In the frames that the joint is in.
    ns_pose frames;
    if (!nsi_mjcf_frame_pose(m, element, &frames)) return false;
    if (has_axis) nsi_quat_rotate(frames.quaternion, j->def.axis, j->def.axis);
    if (type != 1 && !is_free) {
        nsi_quat_rotate(frames.quaternion, j->pos, j->pos);
        for (int i = 0; i < 3; i++) j->pos[i] += frames.position[i];
    }

    // Attributes that are not represented get a note.
    return note_joint(m, c, j);
}

// Turn or move the joint's frame back by `ref`.
static void apply_ref(joint* j) {
    ns_pose back = nsi_pose_identity();
    if (j->def.joint_type == NS_JOINT_REVOLUTE) {
        nsi_quat_from_axis(j->def.axis, -j->ref, back.quaternion);
    } else {
        for (int i = 0; i < 3; i++) back.position[i] = -j->ref * j->def.axis[i];
    }
    j->def.origin = nsi_pose_compose(&j->def.origin, &back);
}

static bool mjcf_name_joints(nsi_mjcf* m, const char* body, joint* joints, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        if (joints[k].def.joint) continue;
        char name[2 * NSI_MODEL_MAX_NAME];
        if (count == 1) {
            snprintf(name, sizeof name, "%.*s_joint", NSI_MODEL_MAX_NAME + 1, body);
        } else {
            snprintf(name, sizeof name, "%.*s_joint%u", NSI_MODEL_MAX_NAME + 1, body, k);
        }
        if (!make_name(m, false, name, &joints[k].def.joint)) return false;
    }
    return true;
}

// ---- bodies ----------------------------------------------------------------------------------

// The links of one body: one for each joint, and one more when the last joint is not at the body's
// origin. `body` has name, parent, pose in the parent, and mass.
static bool mjcf_add_links(nsi_mjcf* m, const nsi_xml_element* element, const ns_link_def* body,
                           joint* joints, uint32_t count) {
    const char* parent = body->parent;
    ns_pose origin = body->origin;  // of the next joint, up to its pos
    double at[3] = {0.0, 0.0, 0.0}; // the point of the body where the parent link's frame is

    for (uint32_t k = 0; k < count; k++) {
        joint* j = &joints[k];

        // Place the joint relative to the link before it.
        ns_pose step = nsi_pose_identity();
        for (int i = 0; i < 3; i++) {
            step.position[i] = j->pos[i] - at[i];
            at[i] = j->pos[i];
        }
        bool last = k + 1 == count && at[0] == 0.0 && at[1] == 0.0 && at[2] == 0.0;
        j->def.parent = parent;
        j->def.origin = nsi_pose_compose(&origin, &step);
        if (j->ref != 0.0) apply_ref(j);
        origin = nsi_pose_identity();

        // The last link carries the mass and the name of the body.
        if (last) {
            j->def.name = body->name;
            j->def.mass = body->mass;
            j->def.gravity_compensation = body->gravity_compensation;
            memcpy(j->def.com, body->com, sizeof body->com);
            memcpy(j->def.inertia, body->inertia, sizeof body->inertia);
            return nsi_reader_add_link(m->reader, j->element, &j->def);
        }

        // Links before it are massless and named after body and joint.
        char name[2 * NSI_MODEL_MAX_NAME + 8];
        snprintf(name, sizeof name, "%.*s_%.*s", NSI_MODEL_MAX_NAME + 1, body->name,
                 NSI_MODEL_MAX_NAME + 1, j->def.joint);
        if (!make_name(m, true, name, &j->def.name) ||
            !nsi_reader_add_link(m->reader, j->element, &j->def)) {
            return false;
        }
        parent = j->def.name;
    }

    // A fixed link moves the frame back to the origin of the body.
    ns_link_def fixed = *body;
    fixed.parent = parent;
    ns_pose back = nsi_pose_identity();
    for (int i = 0; i < 3; i++) back.position[i] = -at[i];
    fixed.origin = nsi_pose_compose(&origin, &back);
    char name[NSI_MODEL_MAX_NAME + 16];
    snprintf(name, sizeof name, "%.*s_joint", NSI_MODEL_MAX_NAME + 1, body->name);
    return make_name(m, false, name, &fixed.joint) &&
           nsi_reader_add_link(m->reader, element, &fixed);
}

// More than six on one body cannot be independent.
enum { MAX_JOINTS = 6 };

static bool read_joints(nsi_mjcf* m, const nsi_xml_element* body, uint32_t class_number,
                        bool on_world, joint joints[MAX_JOINTS], uint32_t* count) {
    *count = 0;
    bool floating = false;
    for (const nsi_xml_element* child = body->first_child; child; child = child->next) {
        if (strcmp(child->name, "joint") != 0 && strcmp(child->name, "freejoint") != 0) continue;
        if (*count == MAX_JOINTS) {
            return nsi_reader_fail(m->reader, child, NS_ERR_PARSE,
                                   "the body has more than %d joints", MAX_JOINTS);
        }
        joint* j = &joints[(*count)++];
        if (!read_joint(m, child, class_number, j)) return false;
        floating = floating || j->def.joint_type == NS_JOINT_FLOATING;
        if (floating && (*count > 1 || !on_world)) {
            return nsi_reader_fail(m->reader, child, NS_ERR_PARSE,
                                   "a free joint must be the only joint of a body directly in "
                                   "<worldbody>");
        }
    }
    return true;
}

// A body that has been added, while its children are.
typedef struct open_body {
    const nsi_xml_element* element;
    const char* link; // NULL: the world
    uint32_t class_number;
} open_body;

// Add one body, without its children.
static bool add_body(nsi_mjcf* m, const open_body* parent, const nsi_xml_element* element,
                     open_body* out) {
    // The default class of the children.
    *out = (open_body){.element = element};
    if (!nsi_mjcf_find_class(m, element, "childclass", parent->class_number, &out->class_number)) {
        return false;
    }

    // Bodies without a name are numbered.
    ns_link_def def = ns_default_link_def();
    // Nameless bodies count, so that numbers do not depend on other names.
    m->nbodies++;
    def.name = nsi_xml_value(element, "name");
    def.parent = parent->link;
    if (!def.name) {
        // A generated name must not collide with one of the file.
        char name[32];
        snprintf(name, sizeof name, "body%u", m->nbodies);
        if (!make_name(m, true, name, &def.name)) return false;
    }
    out->link = def.name;

    // The inertia may come from the geoms, so these are read before links are added.
    joint joints[MAX_JOINTS];
    uint32_t njoints;
    nsi_mjcf_geoms geoms = {0};
    m->needs_mass = nsi_mjcf_needs_geom_mass(m, element);
    // The order matters: several joints need names before links are chained.
    bool added =
        nsi_mjcf_pose(m, nsi_mjcf_plain(element), &def.origin) &&
        nsi_mjcf_number(m, nsi_mjcf_plain(element), "gravcomp", &def.gravity_compensation) &&
        read_joints(m, element, out->class_number, !parent->link, joints, &njoints) &&
        mjcf_name_joints(m, def.name, joints, njoints) &&
        nsi_mjcf_read_geoms(m, element, out->class_number, &geoms) &&
        nsi_mjcf_body_inertia(m, element, &geoms, &def) &&
        mjcf_add_links(m, element, &def, joints, njoints) &&
        nsi_mjcf_add_geoms(m, &geoms, def.name) &&
        nsi_mjcf_add_sites(m, element, out->class_number, def.name);

    // Geoms are copied into the model.
    nsi_array_free(&m->reader->allocator, &geoms);
    return added;
}

// Depth first without recursion; a document is at most so deep.
static bool add_bodies(nsi_mjcf* m, const nsi_xml_element* worldbody, open_body* stack) {
    uint32_t depth = 0;
    stack[0] = (open_body){.element = worldbody, .class_number = NSI_MJCF_MAIN_CLASS};
    const nsi_xml_element* next = nsi_xml_child(worldbody, "body");
    for (;;) {
        if (next) {
            if (!add_body(m, &stack[depth], next, &stack[depth + 1])) return false;
            depth++;
            next = nsi_xml_child(next, "body");
        } else {
            if (depth == 0) return true;
            next = nsi_xml_next(stack[depth--].element, "body");
        }
    }
}

bool nsi_mjcf_read_worldbody(nsi_mjcf* m) {
    const nsi_xml_element* element = nsi_xml_child(m->reader->xml->root, "worldbody");
    if (!element) {
        return nsi_reader_fail(m->reader, m->reader->xml->root, NS_ERR_PARSE,
                               "there is no <worldbody>");
    }
    open_body* stack = nsi_arena_alloc(&m->strings, NSI_XML_MAX_DEPTH * sizeof *stack);
    if (!stack) return nsi_reader_fail_nomem(m->reader);
    for (; element; element = nsi_xml_next(element, "worldbody")) {
        nsi_mjcf_geoms geoms = {0};
        m->needs_mass = false; // the world does not move
        bool added = nsi_mjcf_read_geoms(m, element, NSI_MJCF_MAIN_CLASS, &geoms) &&
                     nsi_mjcf_add_geoms(m, &geoms, NULL) &&
                     nsi_mjcf_add_sites(m, element, NSI_MJCF_MAIN_CLASS, NULL);
        nsi_array_free(&m->reader->allocator, &geoms);
        if (!added || !collect_names(m, element) || !add_bodies(m, element, stack)) return false;
    }
    return true;
}
