// Joints of URDF.

#include "io/urdf.h"

#include "model/pose.h"

#include <math.h>
#include <stdio.h>

// ---- joints ----------------------------------------------------------------------------------

bool nsi_urdf_read_type(nsi_urdf* u, const nsi_xml_element* joint, nsi_urdf_type* out) {
    static const struct {
        const char* name;
        nsi_urdf_type type;
    } types[] = {{"fixed", NSI_URDF_FIXED},           {"revolute", NSI_URDF_REVOLUTE},
                 {"continuous", NSI_URDF_CONTINUOUS}, {"prismatic", NSI_URDF_PRISMATIC},
                 {"spherical", NSI_URDF_SPHERICAL},   {"ball", NSI_URDF_SPHERICAL},
                 {"planar", NSI_URDF_PLANAR},         {"floating", NSI_URDF_FLOATING}};
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

static bool read_axis(nsi_urdf* u, const nsi_xml_element* joint, nsi_urdf_type type,
                      double axis[3]) {
    // An axis without a meaning may be anything; many exporters write zeros.
    if (type == NSI_URDF_FIXED || type == NSI_URDF_SPHERICAL || type == NSI_URDF_FLOATING) {
        return true;
    }
    axis[0] = 1.0, axis[1] = axis[2] = 0.0; // URDF's default
    const nsi_xml_element* element;
    const char* text;
    if (!nsi_urdf_child(u, joint, "axis", &element)) return false;
    if (!element) return true;
    if (!nsi_reader_required(u->reader, element, "xyz", &text) ||
        !nsi_reader_vector(u->reader, element, "xyz", axis)) {
        return false;
    }
    if (nsi_normalize(axis, 3)) return true;
    return nsi_reader_fail(u->reader, element, NS_ERR_PARSE, "the axis is zero; give a direction");
}

static bool read_dynamics(nsi_urdf* u, const nsi_xml_element* joint, nsi_urdf_type type,
                          ns_link_def* def) {
    const nsi_xml_element* dynamics;
    if (!nsi_urdf_child(u, joint, "dynamics", &dynamics)) return false;
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
    bool turns_or_slides =
        type == NSI_URDF_REVOLUTE || type == NSI_URDF_CONTINUOUS || type == NSI_URDF_PRISMATIC;
    // Nothing moves: forces have no effect.
    if (type == NSI_URDF_FIXED) {
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

static bool read_limit(nsi_urdf* u, const nsi_xml_element* joint, nsi_urdf_type type,
                       ns_link_def* def) {
    const nsi_xml_element* limit;
    if (!nsi_urdf_child(u, joint, "limit", &limit)) return false;
    // URDF requires limits for these types; many files omit them.
    if (!limit) {
        return (type != NSI_URDF_REVOLUTE && type != NSI_URDF_PRISMATIC) ||
               nsi_reader_note(u->reader, joint, "has no <limit>; it moves without limits");
    }

    // Both bounds default to 0, as URDF says.
    double lower = 0.0, upper = 0.0;
    if (!nsi_reader_number(u->reader, limit, "lower", &lower) ||
        !nsi_reader_number(u->reader, limit, "upper", &upper)) {
        return false;
    }

    // Other types have no range; a range is reported as ignored.
    if (type != NSI_URDF_REVOLUTE && type != NSI_URDF_PRISMATIC) {
        return !(lower < upper) ||
               nsi_reader_note(u->reader, limit,
                               "has a range, which has no effect on a joint of this type");
    }

    // An empty range means no limit rather than a locked joint: many exporters write zeros for
    // "unlimited", and Bullet's files a range upside down.
    def->limited = lower < upper;
    def->lower = def->limited ? lower : 0.0;
    def->upper = def->limited ? upper : 0.0;
    if (lower > upper) {
        return nsi_reader_tolerate(u->reader, limit,
                                   "has lower > upper; the joint moves without limits; changes the "
                                   "motion");
    }
    return def->limited ||
           nsi_reader_note(u->reader, limit, "has lower = upper; the joint moves without limits");
}

bool nsi_urdf_read_leader(nsi_urdf* u, nsi_urdf_joint* joint) {
    const nsi_xml_element* mimic;
    const char* name;
    if (!nsi_urdf_child(u, joint->element, "mimic", &mimic)) return false;
    if (!mimic) return true;
    if (joint->type == NSI_URDF_FIXED) {
        return nsi_reader_note(u->reader, mimic, "has no effect on a fixed joint");
    }
    if (!nsi_reader_required(u->reader, mimic, "joint", &name)) return false;
    joint->leader = nsi_names_find(&u->joint_names, name);
    return joint->leader != NSI_NONE ||
           nsi_reader_fail(u->reader, mimic, NS_ERR_PARSE,
                           "there is no joint \"%.100s\"; check the name", name);
}

static bool read_mimic(nsi_urdf* u, const nsi_urdf_joint* joint, ns_link_def* def) {
    if (joint->leader == NSI_NONE) return true;
    const nsi_xml_element* mimic = nsi_xml_child(joint->element, "mimic");
    def->mimic = u->joint_names.items.data[joint->leader].name;
    return nsi_reader_number(u->reader, mimic, "multiplier", &def->mimic_multiplier) &&
           nsi_reader_number(u->reader, mimic, "offset", &def->mimic_offset);
}

// Three joints for one. The link keeps the last; its mass is there already.
static bool add_planar(nsi_urdf* u, const nsi_xml_element* element, const char* joint,
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
    char base[NSI_URDF_NAME], joints[3][NSI_URDF_NAME], links[2][NSI_URDF_NAME];
    ns_link_def part = *link;
    for (int k = 0; k < 3; k++) {
        snprintf(base, sizeof base, "%.*s_%s", NSI_MODEL_MAX_NAME + 1, joint, suffixes[k]);
        nsi_urdf_free_name(u, true, base, joints[k]);
        part.joint = joints[k];
        part.joint_type = k < 2 ? NS_JOINT_PRISMATIC : NS_JOINT_REVOLUTE;
        memcpy(part.axis, axes[k], sizeof part.axis);

        // Massless links between the joints.
        if (k < 2) {
            snprintf(base, sizeof base, "%.*s_%.*s", NSI_MODEL_MAX_NAME + 1, link->name,
                     NSI_MODEL_MAX_NAME + 1, joints[k]);
            nsi_urdf_free_name(u, false, base, links[k]);
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
static bool exclude_carriers(nsi_urdf* u, const nsi_urdf_joint* joint, const char* link) {
    if (!u->reader->options.self_collision) return true;
    for (uint32_t at = joint->parent; at != u->root || !u->root_is_world;) {
        const char* carrier = u->link_names.items.data[at].name;
        if (!nsi_reader_exclude_contact(u->reader, joint->element, carrier, link)) return false;
        uint32_t next = u->links.data[at].carrier;
        if (next == NSI_NONE) break;
        const nsi_urdf_joint* inner = &u->joints.data[next];
        if (inner->type != NSI_URDF_FIXED) break;
        at = inner->parent;
    }
    return true;
}

// What acts on the joint; a joint that was made fixed has none of it.
static bool read_passive(nsi_urdf* u, const nsi_urdf_joint* joint, ns_link_def* def) {
    const nsi_xml_element* element = joint->element;
    return joint->idle || (read_axis(u, element, joint->type, def->axis) &&
                           read_dynamics(u, element, joint->type, def) &&
                           read_limit(u, element, joint->type, def) && read_mimic(u, joint, def));
}

bool nsi_urdf_add_joint(nsi_urdf* u, const nsi_urdf_joint* joint) {
    static const ns_joint_type types[] = {
        [NSI_URDF_FIXED] = NS_JOINT_FIXED,         [NSI_URDF_REVOLUTE] = NS_JOINT_REVOLUTE,
        [NSI_URDF_CONTINUOUS] = NS_JOINT_REVOLUTE, [NSI_URDF_PRISMATIC] = NS_JOINT_PRISMATIC,
        [NSI_URDF_SPHERICAL] = NS_JOINT_SPHERICAL,
        [NSI_URDF_PLANAR] = NS_JOINT_FIXED, // not used
        [NSI_URDF_FLOATING] = NS_JOINT_FLOATING,
    };

    // Collect the properties of link and joint.
    const nsi_urdf_link* link = &u->links.data[joint->child];
    ns_link_def def = ns_default_link_def();
    def.name = u->link_names.items.data[joint->child].name;
    def.joint = nsi_xml_value(joint->element, "name");
    def.joint_type = types[joint->type];
    nsi_urdf_set_inertia(link, &def);
    if (!nsi_urdf_read_origin(u, joint->element, &def.origin) || !read_passive(u, joint, &def)) {
        return false;
    }

    // A floating joint elsewhere would be relative to a moving link.
    bool at_root = joint->parent == u->root;
    if (joint->type == NSI_URDF_FLOATING && !at_root) {
        return nsi_reader_fail(u->reader, joint->element, NS_ERR_UNSUPPORTED,
                               "a floating joint must have the root link \"%.100s\" as its parent",
                               u->link_names.items.data[u->root].name);
    }

    // A root link that is not the world itself is welded to its origin, so a floating joint may as
    // well start from the world.
    bool on_world = at_root && (u->root_is_world || joint->type == NSI_URDF_FLOATING);
    def.parent = on_world ? NULL : u->link_names.items.data[joint->parent].name;

    // A planar joint has three coordinates, and <mimic> one.
    if (joint->type == NSI_URDF_PLANAR && def.mimic) {
        return nsi_reader_fail(u->reader, joint->element, NS_ERR_UNSUPPORTED,
                               "a planar joint cannot have <mimic>");
    }

    // Add the link before its geometry, which refers to it by name.
    bool added = joint->type == NSI_URDF_PLANAR
                     ? add_planar(u, joint->element, def.joint, &def)
                     : nsi_reader_add_link(u->reader, joint->element, &def);
    // A link does not collide with the link that carries it.
    return added && (on_world || exclude_carriers(u, joint, def.name)) &&
           nsi_urdf_read_geoms(u, link->element, def.name);
}
