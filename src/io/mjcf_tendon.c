// Sites and tendons of MJCF files.

#include "io/mjcf.h"
#include "model/pose.h"

#include <stdio.h>

// ---- sites -----------------------------------------------------------------------------------

static bool add_site(nsi_mjcf* m, const nsi_xml_element* element, uint32_t class_number,
                     const char* link) {
    nsi_mjcf_item c = {element, NSI_MJCF_SITE, class_number};
    ns_site_def def = ns_default_site_def();
    def.name = nsi_xml_value(element, "name");
    def.link = link;
    if (!def.name) {
        return nsi_reader_note(m->reader, element,
                               "has no name, so that nothing can refer to it: left out");
    }
    if (!nsi_mjcf_find_class(m, element, "class", class_number, &c.class_number) ||
        !nsi_mjcf_pose(m, c, &def.pose)) {
        return false;
    }

    // Two ends instead, in the body or in the frames around the site.
    ns_pose ends = nsi_pose_identity(), frame = ends;
    double length;
    bool given;
    if (!nsi_mjcf_ends(m, c, &ends, &length, &given) ||
        (given && !nsi_mjcf_frame_pose(m, element, &frame))) {
        return false;
    }
    if (given) def.pose = nsi_pose_compose(&frame, &ends);
    return nsi_reader_add_site(m->reader, element, &def);
}

bool nsi_mjcf_add_sites(nsi_mjcf* m, const nsi_xml_element* body, uint32_t class_number,
                        const char* link) {
    const nsi_xml_element* element = nsi_xml_child(body, "site");
    for (; element; element = nsi_xml_next(element, "site")) {
        if (!add_site(m, element, class_number, link)) return false;
    }
    return true;
}

// ---- tendons ---------------------------------------------------------------------------------

typedef NSI_ARRAY(ns_tendon_part) tendon_parts;

// Can a tendon wrap around this geom? NULL, or why not.
static const char* obstacle_fault(const nsi_mjcf* m, const char* geom) {
    if (!nsi_model_builder_has_geom(m->reader->builder, geom)) return "is not represented";
    ns_geom_type type = nsi_model_builder_geom_type(m->reader->builder, geom);
    bool round = type == NS_GEOM_SPHERE || type == NS_GEOM_CYLINDER;
    return round ? NULL : "is neither a sphere nor a cylinder";
}

// The joints of a fixed tendon, or the sites, geoms and pulleys of a spatial one. `known` is false, with a
// note, when it wraps around a geom that it cannot.
static bool read_parts(nsi_mjcf* m, const nsi_xml_element* element, tendon_parts* parts,
                       bool* known) {
    *known = true;
    for (const nsi_xml_element* e = element->first_child; e; e = e->next) {
        ns_tendon_part part = {.factor = 1.0};
        nsi_mjcf_item c = nsi_mjcf_plain(e);
        bool joint = strcmp(e->name, "joint") == 0, site = strcmp(e->name, "site") == 0;
        bool geom = strcmp(e->name, "geom") == 0;
        if (!joint && !site && !geom && strcmp(e->name, "pulley") != 0) continue; // noted already
        if (joint && !nsi_reader_required(m->reader, e, "joint", &part.joint)) return false;
        if (site && !nsi_reader_required(m->reader, e, "site", &part.site)) return false;
        if (geom && !nsi_reader_required(m->reader, e, "geom", &part.geom)) return false;
        part.side = nsi_xml_value(e, "sidesite");
        const char* fault = geom ? obstacle_fault(m, part.geom) : NULL;
        if (fault) {
            *known = false;
            return nsi_reader_note(
                m->reader, element,
                "is not represented: it wraps around geom \"%.100s\", which %s; changes the "
                "motion",
                part.geom, fault);
        }
        if (!nsi_mjcf_number(m, c, joint ? "coef" : "divisor", &part.factor)) return false;
        if (!nsi_array_push(&m->reader->allocator, parts, part)) {
            return nsi_reader_fail_nomem(m->reader);
        }
    }
    return true;
}

static bool read_tendon_numbers(nsi_mjcf* m, nsi_mjcf_item c, ns_tendon_def* def) {
    double range[2] = {0.0}, rest[2] = {0.0};
    uint32_t count;
    if (!nsi_mjcf_number(m, c, "stiffness", &def->stiffness) ||
        !nsi_mjcf_number(m, c, "damping", &def->damping) ||
        !nsi_mjcf_number(m, c, "frictionloss", &def->friction) ||
        !nsi_mjcf_limit(m, c, "limited", "range", &def->limited, range) ||
        !nsi_mjcf_numbers(m, c, "springlength", 1, 2, rest, &count)) {
        return false;
    }
    def->lower = range[0], def->upper = range[1];

    // Two lengths, between which the spring is slack; -1 is automatic, as with us.
    if (count > 0) def->rest = rest[0];
    if (count == 2 && rest[0] != NS_TENDON_AUTO) {
        if (!(rest[0] <= rest[1])) {
            return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                                   "springlength: the first number must not exceed the second");
        }
        def->slack = rest[1] - rest[0];
    }
    return true;
}

static bool add_tendon(nsi_mjcf* m, const nsi_xml_element* element, tendon_parts* parts) {
    nsi_mjcf_item c = {element, NSI_MJCF_TENDON, NSI_MJCF_MAIN_CLASS};
    ns_tendon_def def = ns_default_tendon_def();
    char name[32];
    bool known;
    def.name = nsi_xml_value(element, "name");
    if (!def.name) {
        snprintf(name, sizeof name, "tendon%u", m->ntendons);
        def.name = name;
    }
    m->ntendons++;
    if (!nsi_mjcf_find_class(m, element, "class", NSI_MJCF_MAIN_CLASS, &c.class_number) ||
        !read_tendon_numbers(m, c, &def) || !read_parts(m, element, parts, &known)) {
        return false;
    }
    if (!known) return true;
    def.parts = parts->data;
    def.npart = parts->count;
    return nsi_reader_add_tendon(m->reader, element, &def);
}

bool nsi_mjcf_read_tendons(nsi_mjcf* m) {
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "tendon");
    for (; section; section = nsi_xml_next(section, "tendon")) {
        for (const nsi_xml_element* e = section->first_child; e; e = e->next) {
            if (strcmp(e->name, "fixed") != 0 && strcmp(e->name, "spatial") != 0) continue;
            tendon_parts parts = {0};
            bool added = add_tendon(m, e, &parts);
            nsi_array_free(&m->reader->allocator, &parts);
            if (!added) return false;
        }
    }
    return true;
}
