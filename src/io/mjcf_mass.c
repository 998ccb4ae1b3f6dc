// Mass and inertia of MJCF bodies: from <inertial>, or from geoms by their mass or density.
//
// What a mesh weighs follows MuJoCo (io/mesh_mass.h): its attribute inertia, the geom's shellinertia and
// the compiler's exactmeshinertia choose among the rules.

#include "io/mjcf.h"
#include "io/numbers.h"
#include "model/pose.h"

#include <math.h>
#include <stdio.h>

static const double PI = 3.14159265358979323846;

// ---- shapes ----------------------------------------------------------------------------------

// Volume, and principal moments divided by the mass, of a solid shape about its centre.
static double shape_volume(const ns_geom_def* geom, double moments[3]) {
    // Sizes as MuJoCo defines them.
    double a = geom->size[0], b = geom->size[1], c = geom->size[2];
    moments[0] = moments[1] = moments[2] = 0.0;

    switch (geom->type) {
    case NS_GEOM_SPHERE:
        // Solid ball: 2/5 m r^2.
        moments[0] = moments[1] = moments[2] = 0.4 * a * a;
        return 4.0 / 3.0 * PI * a * a * a;
    case NS_GEOM_CYLINDER: // radius a, half length b
        // Transverse and axial moments of a solid cylinder.
        moments[0] = moments[1] = (3.0 * a * a + 4.0 * b * b) / 12.0;
        moments[2] = 0.5 * a * a;
        return PI * a * a * 2.0 * b;
    case NS_GEOM_CAPSULE: { // the same, and two half balls 3/8 a from their flat sides
        double tube = PI * a * a * 2.0 * b, ball = 4.0 / 3.0 * PI * a * a * a;
        double tube_part = tube / (tube + ball), ball_part = ball / (tube + ball);
        // Half balls are shifted by b: Steiner's theorem about the common centre.
        moments[0] = moments[1] = tube_part * (3.0 * a * a + 4.0 * b * b) / 12.0 +
                                  ball_part * (0.4 * a * a + b * b + 0.75 * a * b);
        moments[2] = tube_part * 0.5 * a * a + ball_part * 0.4 * a * a;
        return tube + ball;
    }
    case NS_GEOM_BOX: // half lengths
        moments[0] = (b * b + c * c) / 3.0;
        moments[1] = (a * a + c * c) / 3.0;
        moments[2] = (a * a + b * b) / 3.0;
        return 8.0 * a * b * c;
    case NS_GEOM_ELLIPSOID:
        // Solid ellipsoid with semi-axes a, b, c.
        moments[0] = (b * b + c * c) / 5.0;
        moments[1] = (a * a + c * c) / 5.0;
        moments[2] = (a * a + b * b) / 5.0;
        return 4.0 / 3.0 * PI * a * b * c;

    // Surfaces and meshes have no mass of their own here.
    case NS_GEOM_PLANE:
    case NS_GEOM_MESH:
    case NS_GEOM_POLYGON:
    case NS_GEOM_ELLIPSE:
    case NS_GEOM_POINTS:
    case NS_GEOM_HFIELD: break;
    }
    return 0.0;
}

// Area, and principal moments divided by the mass, of the surface of a shape about its centre.
static double shape_area(const ns_geom_def* geom, double moments[3]) {
    double a = geom->size[0], b = geom->size[1], c = geom->size[2];
    moments[0] = moments[1] = moments[2] = 0.0;

    switch (geom->type) {
    case NS_GEOM_SPHERE:
        moments[0] = moments[1] = moments[2] = 2.0 / 3.0 * a * a;
        return 4.0 * PI * a * a;
    case NS_GEOM_CYLINDER: { // radius a, half length b: a tube and two discs
        double tube = 4.0 * PI * a * b, discs = 2.0 * PI * a * a, area = tube + discs;
        moments[0] = moments[1] =
            (tube * (0.5 * a * a + b * b / 3.0) + discs * (0.25 * a * a + b * b)) / area;
        moments[2] = (tube * a * a + discs * 0.5 * a * a) / area;
        return area;
    }
    case NS_GEOM_CAPSULE: { // a tube and two half spheres, whose centres of mass are a/2 from their rims
        double tube = 4.0 * PI * a * b, ball = 4.0 * PI * a * a, area = tube + ball;
        moments[0] = moments[1] =
            (tube * (0.5 * a * a + b * b / 3.0) + ball * (2.0 / 3.0 * a * a + a * b + b * b)) /
            area;
        moments[2] = (tube * a * a + ball * 2.0 / 3.0 * a * a) / area;
        return area;
    }
    case NS_GEOM_BOX: { // half lengths: three pairs of faces
        const double half[3] = {a, b, c};
        double area = 8.0 * (a * b + b * c + c * a), squares[3]; // mean x^2, y^2, z^2
        for (int i = 0; i < 3; i++) {
            double u = half[(i + 1) % 3], v = half[(i + 2) % 3], w = half[i];
            squares[i] = 8.0 * (u * v * w * w + (u + v) * w * w * w / 3.0) / area;
        }
        for (int i = 0; i < 3; i++) moments[i] = squares[(i + 1) % 3] + squares[(i + 2) % 3];
        return area;
    }
    default: return 0.0;
    }
}

// ---- geoms -----------------------------------------------------------------------------------

// Of shapes that have no mass here.
static bool note_mass(nsi_mjcf* m, const nsi_xml_element* element, const ns_geom_def* geom,
                      bool given) {
    bool points = geom->type == NS_GEOM_POINTS, hfield = geom->type == NS_GEOM_HFIELD;
    bool plate = geom->type == NS_GEOM_POLYGON || geom->type == NS_GEOM_ELLIPSE;
    if (!plate && !hfield && !(points && given)) return true;
    return nsi_reader_note(m->reader, element,
                           "is a %s, whose mass is %s: give the body an <inertial>; changes the "
                           "motion",
                           points   ? "set of points"
                           : hfield ? "height field"
                                    : "plate",
                           given ? "left out" : "not computed");
}

// A mesh whose mass is not known. The first one is kept, for the case that a joint has no other mass.
static bool note_lost_mass(nsi_mjcf* m, nsi_mjcf_item c, const char* fault) {
    nsi_reader* reader = m->reader;
    const char* mesh = nsi_mjcf_text(m, c, "mesh");
    char quote[NSI_QUOTE_SIZE];
    nsi_quote(mesh ? mesh : "", mesh ? strlen(mesh) : 0, quote);
    if (reader->lost_mass[0] == '\0') {
        snprintf(reader->lost_mass, sizeof reader->lost_mass, "%.200s:%u: mesh %s %.200s",
                 c.element->file, c.element->line, quote, fault);
    }
    return nsi_reader_note(reader, c.element,
                           "is a mesh without mass: it %s. Give the body an <inertial>; changes "
                           "the motion",
                           fault);
}

// Mass, centre of mass and inertia of density 1; without a mass `measure` is 0.
static bool unit_mass(nsi_mjcf* m, nsi_mjcf_item c, const nsi_mjcf_geom* geom, nsi_mesh_mass* out) {
    static const char* const false_true[] = {"false", "true", NULL};
    *out = (nsi_mesh_mass){0};
    if (geom->def.type == NS_GEOM_MESH) {
        const char* fault = "is not among the assets";
        if (geom->mesh != NSI_NONE && !nsi_mjcf_mesh_mass_find(m, c, geom->mesh, out, &fault)) {
            return false;
        }
        if (!fault) return true;
        *out = (nsi_mesh_mass){0};
        return note_lost_mass(m, c, fault);
    }
    double moments[3];
    uint32_t shell = 0;
    if (!nsi_mjcf_word(m, c, "shellinertia", false_true, &shell)) return false;
    if (shell && geom->def.type == NS_GEOM_ELLIPSOID) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_UNSUPPORTED,
                               "shellinertia is not supported for ellipsoids; give the body an "
                               "<inertial>");
    }
    out->mass = shell ? shape_area(&geom->def, moments) : shape_volume(&geom->def, moments);
    for (int i = 0; i < 3; i++) out->inertia[i] = out->mass * moments[i];
    return true;
}

bool nsi_mjcf_geom_mass(nsi_mjcf* m, nsi_mjcf_item c, nsi_mjcf_geom* geom) {
    double density = 1000.0, mass = 0.0; // MuJoCo's default
    if (!nsi_mjcf_number(m, c, "density", &density) || !nsi_mjcf_number(m, c, "mass", &mass)) {
        return false;
    }
    if (mass < 0.0 || density < 0.0) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE, "%s is negative",
                               mass < 0.0 ? "mass" : "density");
    }
    if (!m->needs_mass) return true;

    // A given mass of zero needs no shape.
    nsi_mesh_mass unit = {0};
    bool given = nsi_mjcf_holder(m, c, "mass") != NULL;
    bool nothing = given ? mass == 0.0 : density == 0.0;
    if (nothing) return true;
    if (!unit_mass(m, c, geom, &unit)) return false;
    if (unit.mass == 0.0) return note_mass(m, c.element, &geom->def, mass > 0.0);

    // In the body's axes.
    geom->mass = given ? mass : density * unit.mass;
    for (int i = 0; i < 6; i++) unit.inertia[i] *= geom->mass / unit.mass;
    nsi_inertia_rotate(geom->def.pose.quaternion, unit.inertia, geom->inertia);
    nsi_quat_rotate(geom->def.pose.quaternion, unit.com, geom->com);
    for (int i = 0; i < 3; i++) geom->com[i] += geom->def.pose.position[i];
    return true;
}

// ---- bodies ----------------------------------------------------------------------------------

// The sum of what the geoms are. Two passes: the centre first, then the inertia about it.
static void inertia_from_geoms(const nsi_mjcf_geoms* geoms, ns_link_def* def) {
    double moment[3] = {0.0, 0.0, 0.0};
    for (uint32_t k = 0; k < geoms->count; k++) {
        const nsi_mjcf_geom* geom = &geoms->data[k];
        def->mass += geom->mass;
        for (int i = 0; i < 3; i++) moment[i] += geom->mass * geom->com[i];
    }
    if (def->mass == 0.0) return;
    for (int i = 0; i < 3; i++) def->com[i] = moment[i] / def->mass;
    for (uint32_t k = 0; k < geoms->count; k++) {
        const nsi_mjcf_geom* geom = &geoms->data[k];
        double offset[3];
        for (int i = 0; i < 3; i++) offset[i] = geom->com[i] - def->com[i];
        for (int i = 0; i < 6; i++) def->inertia[i] += geom->inertia[i];
        nsi_inertia_shift(geom->mass, offset, def->inertia);
    }
}

static bool read_inertial(nsi_mjcf* m, const nsi_xml_element* inertial, ns_link_def* def) {
    nsi_reader* reader = m->reader;
    // <inertial> has no default class.
    nsi_mjcf_item c = nsi_mjcf_plain(inertial);
    const char* text;
    double q[4], diagonal[3], full[6];
    uint32_t ndiagonal, nfull;
    bool turned;

    // Mass and centre of mass; the inertia in one of two forms.
    if (!nsi_reader_vector(reader, inertial, "pos", def->com) ||
        !nsi_reader_required(reader, inertial, "mass", &text) ||
        !nsi_reader_number(reader, inertial, "mass", &def->mass) ||
        !nsi_mjcf_orientation(m, c, q, &turned) ||
        !nsi_reader_numbers(reader, inertial, "diaginertia", 3, 3, diagonal, &ndiagonal) ||
        !nsi_reader_numbers(reader, inertial, "fullinertia", 6, 6, full, &nfull)) {
        return false;
    }

    // The forms exclude each other, and only the diagonal one has axes of its own.
    if ((ndiagonal > 0) == (nfull > 0)) {
        return nsi_reader_fail(reader, inertial, NS_ERR_PARSE,
                               "give one of diaginertia and fullinertia");
    }
    // MuJoCo refuses this, too.
    if (nfull > 0 && turned) {
        return nsi_reader_fail(reader, inertial, NS_ERR_PARSE,
                               "fullinertia is in the body's axes; an orientation cannot be given "
                               "with it");
    }

    // Express the inertia in the axes of the body.
    if (nfull > 0) {
        memcpy(def->inertia, full, sizeof full);
    } else {
        // Principal moments, rotated.
        const double principal[6] = {diagonal[0], diagonal[1], diagonal[2], 0.0, 0.0, 0.0};
        nsi_inertia_rotate(q, principal, def->inertia);
    }

    return true;
}

// The compiler's lower bounds of mass and principal moments, and its repair of moments that violate the
// triangle inequality: all become their mean.
static void apply_bounds(const nsi_mjcf* m, ns_link_def* def) {
    if (m->bound_mass == 0.0 && m->bound_inertia == 0.0 && !m->balance_inertia) return;
    double values[3], vectors[9], diagonal[9] = {0.0};
    def->mass = fmax(def->mass, m->bound_mass);
    nsi_inertia_eigen(def->inertia, values, vectors);
    for (int i = 0; i < 3; i++) values[i] = fmax(values[i], m->bound_inertia);
    double sum = values[0] + values[1] + values[2];
    bool violated = false;
    for (int i = 0; i < 3; i++) violated = violated || values[i] > sum - values[i];
    for (int i = 0; i < 3; i++) {
        diagonal[i] = violated && m->balance_inertia ? sum / 3.0 : values[i];
    }

    // Back to the body's axes: V diag V'.
    static const int row[6] = {0, 1, 2, 0, 0, 1}, column[6] = {0, 1, 2, 1, 2, 2};
    for (int n = 0; n < 6; n++) {
        def->inertia[n] = 0.0;
        for (int k = 0; k < 3; k++) {
            def->inertia[n] += vectors[3 * row[n] + k] * diagonal[k] * vectors[3 * column[n] + k];
        }
    }
}

bool nsi_mjcf_needs_geom_mass(const nsi_mjcf* m, const nsi_xml_element* body) {
    if (m->inertia_from_geom) return true;
    return !m->inertia_never_from_geom && !nsi_xml_child(body, "inertial");
}

bool nsi_mjcf_body_inertia(nsi_mjcf* m, const nsi_xml_element* element, const nsi_mjcf_geoms* geoms,
                           ns_link_def* def) {
    const nsi_xml_element* inertial;
    if (!nsi_reader_only_child(m->reader, element, "inertial", &inertial)) return false;
    bool own = inertial && !m->inertia_from_geom;
    if (own && !read_inertial(m, inertial, def)) return false;
    if (!own && !m->inertia_never_from_geom) inertia_from_geoms(geoms, def);
    apply_bounds(m, def);

    // Positive definite, and within the triangle inequality.
    return !own || nsi_reader_check_inertia(m->reader, inertial, def);
}
