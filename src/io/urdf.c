// Read URDF, as specified at wiki.ros.org/urdf/XML, with these additional rules:
//
//   tree      Links and joints may come in any order. The model's order is depth first from the
//             root, the joints of a link in the order of the file. A joint that follows a later one
//             (<mimic>) comes with all it carries after that one.
//   root      A root link named "world" is the world. Any other root link is welded to the world, or
//             moves freely with the option floating_base.
//   joints    fixed, revolute, continuous, prismatic, planar, floating; and the extension spherical
//             (or ball), as Bullet and Drake have it. A planar joint `j` of a link `l` becomes two
//             prismatic joints j_x and j_y along axes of the plane and a revolute joint j_theta
//             about its normal, with massless links l_j_x and l_j_y between. The parent of a
//             floating joint is the root link; its origin is the initial pose only.
//             A joint that moves no mass is fixed.
//   dynamics  damping and friction, and the extensions stiffness, rest (or springref), armature and
//             friction_velocity
//   limit     A revolute or prismatic joint is limited when lower < upper. Velocity is not
//             represented; effort limits the actuators of <transmission>.
//   inertial  A link without one is massless. The inertia is about the centre of mass in the axes
//             of the inertial's origin, and is rotated into those of the link. One that is not
//             physical is repaired.
//   geometry  Each <visual> and <collision> becomes a geometry, drawn or in contact respectively.
//             A name that is already taken is replaced. Mesh files are read for contact only.
//   contact   The robot collides with the world, and with self_collision also with itself: its
//             geometries are in group 2, the world's in group 1. A link never collides with its
//             parent. <contact> in a link, as in PyBullet, applies to all of its geometries.
//   equality  constraints, an extension (urdf_equality.c)
//
// What is repaired or left out is noted, and with the option `strict` refused.

#include "io/urdf.h"

#include <stdio.h>

static const nsi_schema_row schema[] = {
    {"", "robot", "name version", NULL},
    {"robot", "link", "name", NULL},
    {"link", "inertial", "", NULL},
    {"link", "visual", "name", NULL},
    {"link", "collision", "name", NULL},
    {"inertial visual collision joint link1 link2", "origin", "xyz rpy", NULL},
    {"inertial", "mass", "value", NULL},
    {"inertial", "inertia", "ixx iyy izz ixy ixz iyz", NULL},
    {"visual collision", "geometry", "", NULL},
    {"geometry", "box", "size", NULL},
    {"geometry", "cylinder", "radius length", NULL},
    {"geometry", "capsule", "radius length", NULL},
    {"geometry", "sphere", "radius", NULL},
    {"geometry", "mesh", "filename scale", NULL},
    {"geometry", "plane", "normal", NULL},
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
    {"joint", "limit", "lower upper effort", NULL},
    {"joint", "dynamics", "damping friction stiffness rest springref armature friction_velocity",
     NULL},
    {"joint", "mimic", "joint multiplier offset", NULL},
    {"robot", "equality", "name type active recovery coefficients", NULL},
    {"equality", "link1", "link", NULL},
    {"equality", "link2", "link", NULL},
    {"equality", "joint1", "joint", NULL},
    {"equality", "joint2", "joint", NULL},
    {"robot", "transmission", "name type", NULL},
    {"transmission", "type", NSI_SCHEMA_TEXT, NULL},
    {"transmission", "joint", "name", NULL},
    {"transmission", "actuator", "name", NULL},
    {"joint actuator", "hardwareInterface", NSI_SCHEMA_TEXT, NULL},
    {"joint actuator transmission", "mechanicalReduction", NSI_SCHEMA_TEXT, NULL},
    {NULL, NULL, NULL, NULL},
};

// Not read though they change the motion.
static const char changing[] =
    "rolling_friction spinning_friction contact_cfm contact_erp inertia_scaling friction_anchor "
    "mu1 mu2 mu mu_2 fdir1 kp kd maxVel minDepth selfCollide self_collide turnGravityOff gravity "
    "static "
    "dampingFactor implicitSpringDamper springStiffness springReference stopCfm stopErp";

// ---- names and elements ----------------------------------------------------------------------

bool nsi_urdf_child(nsi_urdf* u, const nsi_xml_element* element, const char* name,
                    const nsi_xml_element** out) {
    *out = nsi_xml_child(element, name);
    const nsi_xml_element* second = *out ? nsi_xml_next(*out, name) : NULL;
    return !second || nsi_reader_tolerate(u->reader, second,
                                          "is the second <%s>; the first, on line %u, is used and "
                                          "this one ignored",
                                          name, (*out)->line);
}

// Is the name taken, by the file or by what has been added?
static bool is_taken(const nsi_urdf* u, bool joint, const char* name) {
    const ns_model_builder* builder = u->reader->builder;
    return joint ? nsi_names_find(&u->joint_names, name) != NSI_NONE ||
                       nsi_model_builder_has_joint(builder, name)
                 : nsi_names_find(&u->link_names, name) != NSI_NONE ||
                       nsi_model_builder_has_link(builder, name);
}

void nsi_urdf_free_name(const nsi_urdf* u, bool joint, const char* base, char out[NSI_URDF_NAME]) {
    snprintf(out, NSI_URDF_NAME, "%s", base);
    for (size_t length = strlen(out); length + 1 < NSI_URDF_NAME && is_taken(u, joint, out);) {
        out[length++] = '_';
        out[length] = '\0';
    }
}

// ---- links and joints of the file ------------------------------------------------------------

// Add the element's name to the set; a second one of the same name is an error.
static bool urdf_add_name(nsi_urdf* u, nsi_names* names, const nsi_xml_element* element) {
    const char* name;
    if (!nsi_reader_required(u->reader, element, "name", &name)) return false;
    if (nsi_names_find(names, name) != NSI_NONE) {
        return nsi_reader_fail(u->reader, element, NS_ERR_PARSE,
                               "there is already a <%s> of this name; names must be unique",
                               element->name);
    }
    return nsi_names_add(u->reader, names, name, element);
}

static bool collect_links(nsi_urdf* u) {
    const nsi_xml_element* e = nsi_xml_child(u->reader->xml->root, "link");
    for (; e; e = nsi_xml_next(e, "link")) {
        nsi_urdf_link link = {
            .element = e, .carrier = NSI_NONE, .first_joint = NSI_NONE, .last_joint = NSI_NONE};
        if (!urdf_add_name(u, &u->link_names, e) || !nsi_urdf_read_inertial(u, &link)) return false;
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
static bool find_end(nsi_urdf* u, const nsi_xml_element* joint, const char* which, uint32_t* out) {
    const nsi_xml_element* end;
    const char* name;
    if (!nsi_urdf_child(u, joint, which, &end)) return false;
    if (!end) {
        return nsi_reader_fail(u->reader, joint, NS_ERR_PARSE, "the joint has no <%s>", which);
    }
    if (!nsi_reader_required(u->reader, end, "link", &name)) return false;
    *out = nsi_names_find(&u->link_names, name);
    if (*out != NSI_NONE) return true;
    return nsi_reader_fail(u->reader, end, NS_ERR_PARSE,
                           "there is no link \"%.100s\"; check the name or add the link", name);
}

// Hang the joint and its child on the parent. A link has at most one parent joint, so the joints form
// a tree.
static bool hang_joint(nsi_urdf* u, uint32_t number) {
    const nsi_urdf_joint* joint = &u->joints.data[number];
    nsi_urdf_link *parent = &u->links.data[joint->parent], *child = &u->links.data[joint->child];
    const char* child_name = u->link_names.items.data[joint->child].name;
    if (parent == child) {
        return nsi_reader_fail(u->reader, joint->element, NS_ERR_PARSE,
                               "link \"%.100s\" is both parent and child of the joint", child_name);
    }
    // A second parent closes a loop.
    if (child->carrier != NSI_NONE) {
        return nsi_reader_fail(u->reader, joint->element, NS_ERR_PARSE,
                               "link \"%.100s\" is already the child of the joint on line %u; "
                               "loops are not supported",
                               child_name, u->joints.data[child->carrier].element->line);
    }

    // Append to the children of the parent, in the order of the file.
    child->carrier = number;
    if (parent->last_joint == NSI_NONE) {
        parent->first_joint = number;
    } else {
        u->joints.data[parent->last_joint].next = number;
    }
    parent->last_joint = number;
    return true;
}

static bool collect_joints(nsi_urdf* u) {
    const nsi_xml_element* e = nsi_xml_child(u->reader->xml->root, "joint");
    for (; e; e = nsi_xml_next(e, "joint")) {
        nsi_urdf_joint joint = {.element = e,
                                .next = NSI_NONE,
                                .leader = NSI_NONE,
                                .first_waiting = NSI_NONE,
                                .next_waiting = NSI_NONE};
        // Parent and child must be links of the file.
        if (!urdf_add_name(u, &u->joint_names, e) || !find_end(u, e, "parent", &joint.parent) ||
            !find_end(u, e, "child", &joint.child) || !nsi_urdf_read_type(u, e, &joint.type)) {
            return false;
        }
        if (!nsi_array_push(&u->reader->allocator, &u->joints, joint)) {
            return nsi_reader_fail_nomem(u->reader);
        }
        if (!hang_joint(u, u->joints.count - 1)) return false;
    }

    // Followers may come before those they follow.
    for (uint32_t i = 0; i < u->joints.count; i++) {
        if (!nsi_urdf_read_leader(u, &u->joints.data[i])) return false;
    }
    return true;
}

// The one link that no joint carries.
static bool find_root(nsi_urdf* u) {
    u->root = NSI_NONE;

    // A second link without a parent joint is an error, not another robot.
    for (uint32_t i = 0; i < u->links.count; i++) {
        const nsi_urdf_link* link = &u->links.data[i];
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

    // By convention of ROS, a root named "world" is the fixed frame itself.
    const nsi_xml_element* root = u->links.data[u->root].element;
    u->root_is_world = strcmp(u->link_names.items.data[u->root].name, "world") == 0;
    return !u->root_is_world || !nsi_xml_child(root, "inertial") ||
           nsi_reader_tolerate(u->reader, root,
                               "stands for the world, which has no inertia: <inertial> is ignored");
}

// ---- what moves ------------------------------------------------------------------------------

// With floating_base the root link moves freely; under a root link "world" the one joint does that
// would weld the robot to it. Where a joint of the root is floating already, nothing is left to do.
static bool float_base(nsi_urdf* u) {
    if (!u->reader->options.floating_base) return true;
    uint32_t count = 0, only = NSI_NONE;
    for (uint32_t at = u->links.data[u->root].first_joint; at != NSI_NONE;
         at = u->joints.data[at].next) {
        if (u->joints.data[at].type == NSI_URDF_FLOATING) return true;
        only = at;
        count++;
    }
    u->root_floats = !u->root_is_world;
    if (u->root_floats) return true;

    // Which of several joints was meant cannot be guessed.
    if (count == 1 && u->joints.data[only].type == NSI_URDF_FIXED) {
        u->joints.data[only].type = NSI_URDF_FLOATING;
        return true;
    }
    return nsi_reader_fail(u->reader, u->links.data[u->root].element, NS_ERR_UNSUPPORTED,
                           "a floating base is asked for, but the root link \"world\" does not "
                           "carry the robot by one fixed joint; remove the link \"world\", or "
                           "do not ask for it");
}

// Which links never move: the root, unless it floats, and what fixed joints hold on it.
static void find_welded(nsi_urdf* u) {
    u->links.data[u->root].welded = !u->root_floats;
    uint32_t at = u->root_floats ? NSI_NONE : u->links.data[u->root].first_joint;
    while (at != NSI_NONE) {
        const nsi_urdf_joint* joint = &u->joints.data[at];
        nsi_urdf_link* child = &u->links.data[joint->child];
        child->welded = joint->type == NSI_URDF_FIXED;

        // Down on welded links, else sideways, else up to where there is another joint.
        uint32_t next = child->welded ? child->first_joint : NSI_NONE;
        while (next == NSI_NONE && at != NSI_NONE) {
            next = u->joints.data[at].next;
            at = u->links.data[u->joints.data[at].parent].carrier;
        }
        at = next;
    }
}

// Mark the link and all that carry it, up to the first that is marked.
static void mark_heavy(nsi_urdf* u, uint32_t link) {
    while (!u->links.data[link].heavy) {
        u->links.data[link].heavy = true;
        if (u->links.data[link].carrier == NSI_NONE) return;
        link = u->joints.data[u->links.data[link].carrier].parent;
    }
}

// A joint is needed when joints that follow it move mass, or when it has inertia itself.
static void find_needed(nsi_urdf* u) {
    for (uint32_t i = 0; i < u->joints.count; i++) {
        nsi_urdf_joint* joint = &u->joints.data[i];
        const nsi_xml_element* dynamics = nsi_xml_child(joint->element, "dynamics");
        if (dynamics && nsi_xml_find(dynamics, "armature")) joint->needed = true;
        if (!u->links.data[joint->child].heavy) continue;
        for (uint32_t at = joint->leader; at != NSI_NONE && !u->joints.data[at].needed;
             at = u->joints.data[at].leader) {
            u->joints.data[at].needed = true;
        }
    }
}

// Repair inertias, and fix joints that move no mass: forces on them have no finite effect.
static bool find_mass(nsi_urdf* u) {
    bool some = false, moves = u->root_floats;
    for (uint32_t i = 0; i < u->links.count; i++) {
        nsi_urdf_link* link = &u->links.data[i];
        if (!nsi_urdf_repair_inertial(u, link)) return false;
        if (link->mass > 0.0) mark_heavy(u, i);
        some = some || link->mass > 0.0;
    }
    find_needed(u);
    for (uint32_t i = 0; i < u->joints.count; i++) {
        nsi_urdf_joint* joint = &u->joints.data[i];
        if (joint->type == NSI_URDF_FIXED) continue;
        some = some || joint->needed;
        moves = true;
    }

    // All joints would be fixed: that is not the robot that was meant.
    if (moves && !some) {
        return nsi_reader_fail(u->reader, u->reader->xml->root, NS_ERR_PARSE,
                               "no link has mass, so nothing can move; give the links <inertial>");
    }
    for (uint32_t i = 0; i < u->joints.count; i++) {
        nsi_urdf_joint* joint = &u->joints.data[i];
        if (joint->type == NSI_URDF_FIXED || joint->needed || u->links.data[joint->child].heavy) {
            continue;
        }
        joint->type = NSI_URDF_FIXED;
        joint->leader = NSI_NONE;
        joint->idle = true;
        if (!nsi_reader_tolerate(u->reader, joint->element,
                                 "moves no mass: it is fixed; give link \"%.100s\" an <inertial>, "
                                 "or the joint <dynamics armature>, to let it move; changes the "
                                 "motion",
                                 u->link_names.items.data[joint->child].name)) {
            return false;
        }
    }
    return true;
}

// ---- adding to the model ---------------------------------------------------------------------

void nsi_urdf_set_inertia(const nsi_urdf_link* link, ns_link_def* def) {
    def->mass = link->mass;
    memcpy(def->com, link->com, sizeof def->com);
    memcpy(def->inertia, link->inertia, sizeof def->inertia);
}

static bool urdf_add_root(nsi_urdf* u) {
    const nsi_urdf_link* link = &u->links.data[u->root];
    if (u->root_is_world) return nsi_urdf_read_geoms(u, link->element, NULL);

    // The joint that holds the root is not in the file, and its name must be none of the file's.
    char base[NSI_URDF_NAME], joint[NSI_URDF_NAME];
    ns_link_def def = ns_default_link_def();
    def.name = u->link_names.items.data[u->root].name;
    snprintf(base, sizeof base, "%.*s_joint", NSI_MODEL_MAX_NAME + 1, def.name);
    nsi_urdf_free_name(u, true, base, joint);
    def.joint = joint;
    def.joint_type = u->root_floats ? NS_JOINT_FLOATING : NS_JOINT_FIXED;
    nsi_urdf_set_inertia(link, &def);
    return nsi_reader_add_link(u->reader, link->element, &def) &&
           nsi_urdf_read_geoms(u, link->element, def.name);
}

// Add a joint, or let it wait until the one that it follows has been added.
static bool add_or_wait(nsi_urdf* u, uint32_t number, bool* added) {
    nsi_urdf_joint *joints = u->joints.data, *joint = &joints[number];
    nsi_urdf_joint* leader = joint->leader == NSI_NONE ? NULL : &joints[joint->leader];
    *added = !leader || leader->added;
    if (!*added) {
        joint->next_waiting = leader->first_waiting;
        leader->first_waiting = number;
        return true;
    }
    if (!nsi_urdf_add_joint(u, joint)) return false;
    joint->added = true;

    // Those that waited for it are ready.
    while (joint->first_waiting != NSI_NONE) {
        uint32_t waiting = joint->first_waiting;
        joint->first_waiting = joints[waiting].next_waiting;
        joints[waiting].next_waiting = u->ready;
        u->ready = waiting;
    }
    return true;
}

// A joint and all it carries, depth first without recursion: down to the first joint, else to the
// next one, else up.
static bool add_subtree(nsi_urdf* u, uint32_t start) {
    uint32_t at = start;
    while (at != NSI_NONE) {
        bool added;
        if (!add_or_wait(u, at, &added)) return false;

        // Down to the first joint of the child.
        uint32_t next = added ? u->links.data[u->joints.data[at].child].first_joint : NSI_NONE;
        while (next == NSI_NONE && at != start) {
            // Sideways to the next joint of the same parent, else up to the joint that carries it.
            next = u->joints.data[at].next;
            if (next == NSI_NONE) at = u->links.data[u->joints.data[at].parent].carrier;
        }
        at = next;
    }
    return true;
}

static bool add_tree(nsi_urdf* u) {
    u->ready = NSI_NONE;
    if (!urdf_add_root(u)) return false;
    for (uint32_t at = u->links.data[u->root].first_joint; at != NSI_NONE;
         at = u->joints.data[at].next) {
        if (!add_subtree(u, at)) return false;
    }
    while (u->ready != NSI_NONE) {
        uint32_t at = u->ready;
        u->ready = u->joints.data[at].next_waiting;
        if (!add_subtree(u, at)) return false;
    }
    return true;
}

// All links must have been reached.
static bool check_reached(nsi_urdf* u) {
    // A joint that waits follows one that it carries itself, or one that waits for it.
    for (uint32_t i = 0; i < u->joints.count; i++) {
        const nsi_urdf_joint* joint = &u->joints.data[i];
        if (joint->added || joint->leader == NSI_NONE) continue;
        if (joint->parent != u->root && !u->joints.data[u->links.data[joint->parent].carrier].added)
            continue;
        return nsi_reader_fail(u->reader, joint->element, NS_ERR_UNSUPPORTED,
                               "the joint follows joint \"%.100s\", which it carries or which "
                               "follows it; remove <mimic> from one of them",
                               u->joint_names.items.data[joint->leader].name);
    }

    // What else was not reached hangs on a cycle.
    for (uint32_t i = 0; i < u->links.count; i++) {
        if (i == u->root || u->joints.data[u->links.data[i].carrier].added) continue;
        return nsi_reader_fail(u->reader, u->links.data[i].element, NS_ERR_PARSE,
                               "the joints lead from this link back to it, not to the root "
                               "link \"%.100s\": they form a cycle",
                               u->link_names.items.data[u->root].name);
    }
    return true;
}

// ---- xacro -------------------------------------------------------------------------------------

// The first element that xacro would expand, or NULL. Recursion is bounded by the depth of a document.
static const nsi_xml_element* find_xacro(const nsi_xml_element* element) {
    if (strncmp(element->name, "xacro:", 6) == 0) return element;
    for (uint32_t i = 0; i < element->nattributes; i++) {
        const char* value = element->attributes[i].value;
        if (strstr(value, "${") || strstr(value, "$(")) return element;
    }
    const nsi_xml_element* found = NULL;
    for (const nsi_xml_element* child = element->first_child; child && !found;
         child = child->next) {
        found = find_xacro(child);
    }
    return found;
}

static bool refuse_xacro(nsi_urdf* u) {
    const nsi_xml_element* found = find_xacro(u->reader->xml->root);
    return !found || nsi_reader_fail(u->reader, found, NS_ERR_UNSUPPORTED,
                                     "this is a xacro file; expand it first: xacro %.200s > "
                                     "robot.urdf",
                                     u->reader->xml->file);
}

bool nsi_urdf_read(nsi_reader* reader) {
    static const nsi_format format = {schema, changing, "", NULL};
    const nsi_xml_element* root = reader->xml->root;
    nsi_urdf u = {.reader = reader};
    const char* name = nsi_xml_value(root, "name");
    bool read = refuse_xacro(&u) && nsi_reader_note_unread(reader, &format) &&
                (!name || !*name || nsi_reader_set_name(reader, root, name)) && collect_links(&u) &&
                collect_joints(&u) && find_root(&u) && float_base(&u);
    if (read) find_welded(&u);
    read = read && find_mass(&u) && nsi_urdf_collect_materials(&u) && add_tree(&u) &&
           check_reached(&u) && nsi_urdf_add_transmissions(&u) && nsi_urdf_add_equalities(&u);
    nsi_names_free(&reader->allocator, &u.link_names);
    nsi_names_free(&reader->allocator, &u.joint_names);
    nsi_names_free(&reader->allocator, &u.colors);
    nsi_array_free(&reader->allocator, &u.links);
    nsi_array_free(&reader->allocator, &u.joints);
    return read;
}
