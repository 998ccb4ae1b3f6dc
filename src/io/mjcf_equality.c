// Equality constraints in MJCF: joint, connect and weld.
//
// They are hard here. MuJoCo's are soft springs and dampers, which give way under load; of their
// parameters, the time constant of solref says how fast a violation of the initial state dies away, and
// solimp means nothing. torquescale weighs torques of a soft weld against forces and means nothing either.

#include "io/mjcf.h"
#include "model/pose.h"

#include <math.h>

// MuJoCo's solref: time constant and damping ratio, or minus stiffness and damping of a unit mass. The
// time constant of a critically damped spring is as good as its first-order decay here.
static bool read_recovery(nsi_mjcf* m, nsi_mjcf_item c, ns_equality_def* def) {
    double solref[2] = {0.02, 1.0}, solimp[5] = {0.9, 0.95, 0.001, 0.5, 2.0};
    uint32_t count;
    if (!nsi_mjcf_numbers(m, c, "solref", 1, 2, solref, &count)) return false;
    if (count > 0) {
        bool direct = solref[0] <= 0.0 && solref[1] <= 0.0;
        def->recovery = direct ? solref[1] / solref[0] : solref[0];
        if (direct && solref[0] == 0.0) def->recovery = 0.0;
        if (!(def->recovery >= 0.0) || !isfinite(def->recovery)) {
            return nsi_reader_fail(m->reader, nsi_mjcf_holder(m, c, "solref"), NS_ERR_PARSE,
                                   "solref must be a time constant and a damping ratio, both"
                                   " positive, or minus a stiffness and minus a damping");
        }
    }

    // How soft it is; MuJoCo limits these numbers to 0.9999.
    const double hard = 0.99;
    if (!nsi_mjcf_numbers(m, c, "solimp", 1, 5, solimp, &count)) return false;
    if (count == 0 || (solimp[0] >= hard && solimp[1] >= hard)) return true;
    return nsi_reader_note(m->reader, c.element,
                           "solimp: the constraint is hard, and does not give way under load; "
                           "changes the motion");
}

// What all constraints have; false in `wanted`: it is left out, with a note.
static bool read_common(nsi_mjcf* m, nsi_mjcf_item* c, ns_equality_def* def) {
    static const char* const false_true[] = {"false", "true", NULL};
    uint32_t active = 1;
    def->name = nsi_xml_value(c->element, "name");
    if (!nsi_mjcf_find_class(m, c->element, "class", NSI_MJCF_MAIN_CLASS, &c->class_number) ||
        !nsi_mjcf_word(m, *c, "active", false_true, &active) || !read_recovery(m, *c, def)) {
        return false;
    }
    def->inactive = active == 0;
    return true;
}

// A constraint that has been read, unless it constrains nothing.
static bool add_equality(nsi_mjcf* m, const nsi_xml_element* element, const ns_equality_def* def) {
    const char* fault = nsi_model_builder_equality_fault(m->reader->builder, def);
    if (fault) return nsi_reader_note(m->reader, element, "is left out: it %s", fault);
    return nsi_reader_add_equality(m->reader, element, def);
}

// Is there a body or joint of this name? NULL and "world" are the world, or no joint.
static bool check_end(nsi_mjcf* m, const nsi_xml_element* element, bool joint, const char* name) {
    const ns_model_builder* builder = m->reader->builder;
    bool found = joint ? nsi_model_builder_has_joint(builder, name)
                       : strcmp(name, "world") == 0 || nsi_model_builder_has_link(builder, name);
    if (found) return true;
    return nsi_reader_fail(m->reader, element, NS_ERR_PARSE, "there is no %s \"%.100s\"",
                           joint ? "joint" : "body", name);
}

static bool read_joint_equality(nsi_mjcf* m, nsi_mjcf_item c, ns_equality_def* def) {
    uint32_t count;
    def->type = NS_EQUALITY_JOINT;
    def->b = nsi_xml_value(c.element, "joint2");
    return nsi_reader_required(m->reader, c.element, "joint1", &def->a) &&
           check_end(m, c.element, true, def->a) &&
           (!def->b || check_end(m, c.element, true, def->b)) &&
           nsi_mjcf_numbers(m, c, "polycoef", 1, 5, def->coefficients, &count);
}

static bool read_bodies(nsi_mjcf* m, nsi_mjcf_item c, ns_equality_def* def) {
    def->b = nsi_xml_value(c.element, "body2");
    return nsi_reader_required(m->reader, c.element, "body1", &def->a) &&
           check_end(m, c.element, false, def->a) &&
           (!def->b || check_end(m, c.element, false, def->b));
}

// Two sites, which are to coincide; `given` says whether there are any.
static bool read_sites(nsi_mjcf* m, nsi_mjcf_item c, ns_equality_def* def, bool* given) {
    *given = nsi_xml_value(c.element, "site1") || nsi_xml_value(c.element, "site2");
    if (!*given) return true;
    static const char* const attributes[2] = {"site1", "site2"};
    if (nsi_xml_value(c.element, "body1") || nsi_xml_value(c.element, "body2")) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "has both bodies and sites; keep one of them");
    }
    for (int k = 0; k < 2; k++) {
        const char* name;
        if (!nsi_reader_required(m->reader, c.element, attributes[k], &name)) return false;
        const ns_site_def* site = nsi_model_builder_site(m->reader->builder, name);
        if (!site) {
            return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                                   "there is no site \"%.100s\"", name);
        }
        *(k == 0 ? &def->a : &def->b) = site->link;
        *(k == 0 ? &def->anchor_a : &def->anchor_b) = site->pose;
    }
    return true;
}

// The anchor is in body1; that in body2 is where it is in the file.
static bool read_connect(nsi_mjcf* m, nsi_mjcf_item c, ns_equality_def* def) {
    uint32_t count;
    bool by_sites;
    def->type = NS_EQUALITY_CONNECT;
    if (!read_sites(m, c, def, &by_sites)) return false;
    if (by_sites) return true;
    def->compute_b = true;
    if (!read_bodies(m, c, def) ||
        !nsi_mjcf_numbers(m, c, "anchor", 3, 3, def->anchor_a.position, &count)) {
        return false;
    }
    return count == 3 || nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                                         "anchor is missing: the point of body1, in its frame");
}

// The anchor is in body2. The position of relpose is that of the anchor in body1, its orientation that of
// body2; without relpose, or where its quaternion is zero, both are as in the file.
static bool read_weld(nsi_mjcf* m, nsi_mjcf_item c, ns_equality_def* def) {
    uint32_t count;
    bool by_sites;
    double relpose[7] = {0.0}, torquescale = 1.0;
    def->type = NS_EQUALITY_WELD;
    if (!read_sites(m, c, def, &by_sites)) return false;
    if (by_sites) return true;
    if (!read_bodies(m, c, def) ||
        !nsi_mjcf_numbers(m, c, "anchor", 3, 3, def->anchor_b.position, &count) ||
        !nsi_mjcf_numbers(m, c, "relpose", 7, 7, relpose, &count) ||
        !nsi_mjcf_number(m, c, "torquescale", &torquescale)) {
        return false;
    }
    bool given = false;
    for (int k = 3; k < 7; k++) given = given || relpose[k] != 0.0;
    def->compute_a = !given;
    if (!given) return true;
    memcpy(def->anchor_a.position, relpose, sizeof def->anchor_a.position);
    memcpy(def->anchor_a.quaternion, relpose + 3, sizeof def->anchor_a.quaternion);
    return nsi_normalize(def->anchor_a.quaternion, 4) ||
           nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                           "relpose has a quaternion that is too short to be one");
}

static bool note_missing(nsi_mjcf* m, const nsi_xml_element* element, const char* what) {
    return nsi_reader_note(m->reader, element, "as a constraint %s; changes the motion", what);
}

bool nsi_mjcf_read_equalities(nsi_mjcf* m) {
    static const struct {
        const char* name;
        bool (*read)(nsi_mjcf* m, nsi_mjcf_item item, ns_equality_def* def);
    } types[] = {{"joint", read_joint_equality}, {"connect", read_connect}, {"weld", read_weld}};

    // In the order of the file.
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "equality");
    for (; section; section = nsi_xml_next(section, "equality")) {
        for (const nsi_xml_element* e = section->first_child; e; e = e->next) {
            bool other = strcmp(e->name, "tendon") == 0 || strcmp(e->name, "distance") == 0;
            if (other && !note_missing(m, e, "is not represented")) return false;
            for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
                if (strcmp(e->name, types[k].name) != 0) continue;
                nsi_mjcf_item c = {e, NSI_MJCF_EQUALITY, NSI_MJCF_MAIN_CLASS};
                ns_equality_def def = ns_default_equality_def();
                if (!read_common(m, &c, &def) || !types[k].read(m, c, &def) ||
                    !add_equality(m, e, &def)) {
                    return false;
                }
            }
        }
    }
    return true;
}
