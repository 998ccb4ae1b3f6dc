// Links of URDF: materials, inertia and geometries.

#include "io/urdf.h"

#include "io/numbers.h"
#include "model/pose.h"

#include <math.h>
#include <stdio.h>

// ---- materials -------------------------------------------------------------------------------

// Materials can be defined at the top or inside a <visual>, and used by name before or after.
static bool collect_material(nsi_urdf* u, const nsi_xml_element* material) {
    const nsi_xml_element* color;
    const char* name = nsi_xml_value(material, "name");
    if (!nsi_urdf_child(u, material, "color", &color)) return false;
    if (!name || !color) return true;
    uint32_t known = nsi_names_find(&u->colors, name);
    if (known != NSI_NONE) {
        const char *before = nsi_xml_value(u->colors.items.data[known].element, "rgba"),
                   *now = nsi_xml_value(color, "rgba");
        bool same = before && now && strcmp(before, now) == 0;
        return same || nsi_reader_note(u->reader, material,
                                       "is defined again, with another colour: by its name the one "
                                       "on line %u is used",
                                       u->colors.items.data[known].element->line);
    }
    return nsi_names_add(u->reader, &u->colors, name, color);
}

bool nsi_urdf_collect_materials(nsi_urdf* u) {
    const nsi_xml_element* material = nsi_xml_child(u->reader->xml->root, "material");
    for (; material; material = nsi_xml_next(material, "material")) {
        if (!collect_material(u, material)) return false;
    }
    for (uint32_t i = 0; i < u->links.count; i++) {
        const nsi_xml_element* visual = nsi_xml_child(u->links.data[i].element, "visual");
        for (; visual; visual = nsi_xml_next(visual, "visual")) {
            if (!nsi_urdf_child(u, visual, "material", &material)) return false;
            if (material && !collect_material(u, material)) return false;
        }
    }
    return true;
}

static bool urdf_read_color(nsi_urdf* u, const nsi_xml_element* visual, double rgba[4]) {
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

    // A colour does not matter enough to refuse a file.
    const char* text = nsi_xml_value(color, "rgba");
    double read[4];
    uint32_t count;
    if (!text || nsi_numbers_parse(text, 4, 4, read, &count, NULL) != NS_OK) {
        return nsi_reader_note(u->reader, color, "has no rgba of four numbers: it is not used");
    }
    memcpy(rgba, read, sizeof read);
    return true;
}

// ---- parts of a link -------------------------------------------------------------------------

bool nsi_urdf_read_origin(nsi_urdf* u, const nsi_xml_element* element, ns_pose* pose) {
    *pose = nsi_pose_identity();
    const nsi_xml_element* origin;
    if (!nsi_urdf_child(u, element, "origin", &origin)) return false;
    if (!origin) return true;
    double rpy[3] = {0.0, 0.0, 0.0};
    if (!nsi_reader_vector(u->reader, origin, "xyz", pose->position) ||
        !nsi_reader_vector(u->reader, origin, "rpy", rpy)) {
        return false;
    }
    nsi_quat_from_rpy(rpy, pose->quaternion);
    return true;
}

bool nsi_urdf_read_inertial(nsi_urdf* u, nsi_urdf_link* link) {
    // Links without <inertial> are massless.
    const nsi_xml_element *inertial, *mass, *inertia;
    if (!nsi_urdf_child(u, link->element, "inertial", &inertial)) return false;
    if (!inertial) return true;
    ns_pose pose;
    const char* value;
    // The origin is that of the centre of mass.
    if (!nsi_urdf_read_origin(u, inertial, &pose) || !nsi_urdf_child(u, inertial, "mass", &mass) ||
        !nsi_urdf_child(u, inertial, "inertia", &inertia)) {
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
        !nsi_reader_number(u->reader, mass, "value", &link->mass)) {
        return false;
    }
    if (link->mass < 0.0) {
        return nsi_reader_fail(u->reader, inertial, NS_ERR_PARSE,
                               "the mass is negative; give zero or a positive one");
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
    memcpy(link->com, pose.position, sizeof link->com);
    nsi_inertia_rotate(pose.quaternion, tensor, link->inertia);
    return true;
}

// A link without inertia about some axis is a point or a rod, and may leave a joint without any. Where it
// does it gets the inertia of a ball of its mass, in addition.
static bool fill_hollow(nsi_urdf* u, const nsi_xml_element* inertial, nsi_urdf_link* link) {
    const double density = 1000.0, pi = 3.14159265358979323846; // kg/m^3, of water
    double moments[3], axes[9];
    nsi_inertia_eigen(link->inertia, moments, axes);
    bool hollow = moments[0] <= 1e-9 * moments[2];
    if (!hollow || link->welded || link->mass == 0.0) return true;
    u->reader->nhollow++;
    if (!u->reader->fill_hollow) return true;
    double radius = cbrt(3.0 * link->mass / (4.0 * pi * density));
    double added = 0.4 * link->mass * radius * radius;
    for (int i = 0; i < 3; i++) link->inertia[i] += added;
    return nsi_reader_note(u->reader, inertial,
                           "has principal moments %.4g %.4g %.4g, which leave a joint without "
                           "inertia: those of a ball of water of %.4g kg are added, %.4g kg m^2; "
                           "changes the motion",
                           moments[0], moments[1], moments[2], link->mass, added);
}

bool nsi_urdf_repair_inertial(nsi_urdf* u, nsi_urdf_link* link) {
    const nsi_xml_element* inertial = nsi_xml_child(link->element, "inertial");
    return !inertial || (nsi_reader_repair_inertia(u->reader, inertial, !link->welded, link->mass,
                                                   link->inertia) &&
                         fill_hollow(u, inertial, link));
}

// A length that must be given, e.g. the radius of a sphere.
static bool urdf_read_length(nsi_urdf* u, const nsi_xml_element* shape, const char* attribute,
                             double* out) {
    const char* text;
    return nsi_reader_required(u->reader, shape, attribute, &text) &&
           nsi_reader_number(u->reader, shape, attribute, out);
}

static bool urdf_read_shape(nsi_urdf* u, const nsi_xml_element* shape, ns_geom_def* geom) {
    // Elements of <geometry>.
    static const struct {
        const char* name;
        ns_geom_type type;
    } types[] = {{"box", NS_GEOM_BOX},         {"cylinder", NS_GEOM_CYLINDER},
                 {"capsule", NS_GEOM_CAPSULE}, {"sphere", NS_GEOM_SPHERE},
                 {"mesh", NS_GEOM_MESH},       {"plane", NS_GEOM_PLANE}};
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
    case NS_GEOM_PLANE: { // Bullet's, through the origin
        double normal[3] = {0.0, 0.0, 1.0}, angle;
        if (!nsi_reader_vector(u->reader, shape, "normal", normal)) return false;
        if (!nsi_normalize(normal, 3)) {
            return nsi_reader_fail(u->reader, shape, NS_ERR_PARSE,
                                   "the normal is zero; give a direction");
        }
        // Turn z to the normal, about an axis that is normal to both.
        ns_pose turn = nsi_pose_identity();
        double axis[3] = {-normal[1], normal[0], 0.0};
        angle = atan2(hypot(axis[0], axis[1]), normal[2]);
        if (!nsi_normalize(axis, 3)) axis[0] = 1.0;
        nsi_quat_from_axis(axis, angle, turn.quaternion);
        geom->pose = nsi_pose_compose(&geom->pose, &turn);
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
    return nsi_word_in("box cylinder capsule sphere mesh plane", element->name);
}

// Stiffness and damping in PyBullet are those of a linear spring and damper, N/m and N s/m. The spring
// is represented as it is; our damping grows with the depth and is made to agree at 1 cm.
static bool convert_spring(nsi_urdf* u, const nsi_xml_element* contact, ns_geom_def* geom) {
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
static bool read_contact(nsi_urdf* u, const nsi_xml_element* link, const char* name,
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
    if (!nsi_urdf_child(u, link, "contact", &contact)) return false;
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
        if (!nsi_urdf_child(u, contact, numbers[k].name, &element)) return false;
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

// Is one of the sizes zero that the shape has?
static bool is_empty(const ns_geom_def* geom) {
    static const int count[] = {
        [NS_GEOM_SPHERE] = 1,
        [NS_GEOM_CAPSULE] = 1, // without a length it is a ball
        [NS_GEOM_CYLINDER] = 2, [NS_GEOM_BOX] = 3, [NS_GEOM_PLANE] = 0, [NS_GEOM_MESH] = 3};
    for (int i = 0; i < count[geom->type]; i++) {
        if (geom->size[i] == 0.0) return true;
    }
    return false;
}

// A geometry without extent is left out.
static bool leave_out(nsi_urdf* u, const nsi_xml_element* element, bool visual, const char* why) {
    if (visual) return nsi_reader_note(u->reader, element, "%s: it is not drawn", why);
    return nsi_reader_tolerate(u->reader, element,
                               "%s: it does not touch anything; changes the motion", why);
}

static bool urdf_read_geom(nsi_urdf* u, const nsi_xml_element* element,
                           const ns_geom_def* of_link) {
    // Visual elements are drawn, collision elements are in contact.
    // Contact properties are those of the link.
    ns_geom_def geom = *of_link;
    geom.visual = strcmp(element->name, "visual") == 0;
    geom.collision = !geom.visual;
    const nsi_xml_element* geometry;
    // The pose relative to the link.
    if (!nsi_urdf_read_origin(u, element, &geom.pose) ||
        !nsi_urdf_child(u, element, "geometry", &geometry)) {
        return false;
    }

    // Exactly one shape; unknown elements are skipped.
    const nsi_xml_element* shape = geometry ? geometry->first_child : NULL;
    while (shape && !is_shape(shape)) shape = shape->next;
    if (!shape) return leave_out(u, geometry ? geometry : element, geom.visual, "has no shape");
    for (const nsi_xml_element* other = shape->next; other; other = other->next) {
        if (is_shape(other) &&
            !nsi_reader_tolerate(u->reader, other,
                                 "is the second shape of a <geometry>; the first is used, and this "
                                 "one ignored")) {
            return false;
        }
    }

    // A visual and a collision element may share a name; the first one keeps it.
    const char* name = nsi_xml_value(element, "name");
    if (name && *name && !nsi_model_builder_has_geom(u->reader->builder, name)) geom.name = name;
    // Visuals have a colour; meshes are loaded once all attributes are known.
    if (!urdf_read_shape(u, shape, &geom) ||
        (geom.visual && !urdf_read_color(u, element, geom.color))) {
        return false;
    }
    if (is_empty(&geom)) return leave_out(u, shape, geom.visual, "has a size of zero");
    return nsi_reader_load_mesh(u->reader, shape, &geom) &&
           nsi_reader_add_geom(u->reader, element, &geom);
}

bool nsi_urdf_read_geoms(nsi_urdf* u, const nsi_xml_element* link, const char* name) {
    ns_geom_def of_link;
    if (!read_contact(u, link, name, &of_link)) return false;
    for (const nsi_xml_element* child = link->first_child; child; child = child->next) {
        bool is_geom = strcmp(child->name, "visual") == 0 || strcmp(child->name, "collision") == 0;
        if (is_geom && !urdf_read_geom(u, child, &of_link)) return false;
    }
    return true;
}
