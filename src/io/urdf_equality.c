// Equality constraints of URDF files, an extension:
//
//   <equality name="loop" type="connect">                      or weld
//     <link1 link="rocker"><origin xyz="0 0 0.4" rpy="0 0 0"/></link1>
//     <link2 link="coupler"/>
//   </equality>
//   <equality type="joint" coefficients="0 2 0 0 0"><joint1 joint="a"/><joint2 joint="b"/></equality>
//
// Of the two origins one may be left out: it is where the other one is when all joints are at zero. A link
// named "world" is the world, as is a <link2> that is left out.

#include "io/urdf.h"

static bool read_equality_type(nsi_urdf* u, const nsi_xml_element* e, ns_equality_def* def) {
    const char* name;
    int type;
    if (!nsi_reader_required(u->reader, e, "type", &name)) return false;
    if (ns_choice_find(&ns_equality_types, name, &type)) {
        def->type = (ns_equality_type)type;
        return true;
    }
    return nsi_reader_fail(u->reader, e, NS_ERR_PARSE,
                           "type: \"%.40s\" is not a constraint; there are joint, connect, weld",
                           name);
}

// A link or joint, and the origin of a link.
static bool read_end(nsi_urdf* u, const nsi_xml_element* e, const char* child, bool joint,
                     const char** name, ns_pose* anchor, bool* has_origin) {
    const nsi_xml_element *end, *origin = NULL;
    *name = NULL;
    *has_origin = false;
    if (!nsi_urdf_child(u, e, child, &end)) return false;
    if (!end) return true;
    if (!nsi_reader_required(u->reader, end, joint ? "joint" : "link", name)) return false;
    if (joint) return true;
    if (!nsi_urdf_child(u, end, "origin", &origin)) return false;
    *has_origin = origin != NULL;
    return nsi_urdf_read_origin(u, end, anchor);
}

static bool read_active(nsi_urdf* u, const nsi_xml_element* e, ns_equality_def* def) {
    const char* text = nsi_xml_value(e, "active");
    bool yes = !text || strcmp(text, "true") == 0, no = text && strcmp(text, "false") == 0;
    def->inactive = no;
    return yes || no || nsi_reader_fail(u->reader, e, NS_ERR_PARSE, "active must be true or false");
}

static bool add_urdf_equality(nsi_urdf* u, const nsi_xml_element* e) {
    ns_equality_def def = ns_default_equality_def();
    uint32_t count;
    bool given[2];
    def.name = nsi_xml_value(e, "name");
    if (!read_equality_type(u, e, &def) || !read_active(u, e, &def) ||
        !nsi_reader_number(u->reader, e, "recovery", &def.recovery) ||
        !nsi_reader_numbers(u->reader, e, "coefficients", 1, 5, def.coefficients, &count)) {
        return false;
    }

    // What it constrains; an anchor that is left out follows from the other.
    bool joint = def.type == NS_EQUALITY_JOINT;
    if (!read_end(u, e, joint ? "joint1" : "link1", joint, &def.a, &def.anchor_a, &given[0]) ||
        !read_end(u, e, joint ? "joint2" : "link2", joint, &def.b, &def.anchor_b, &given[1])) {
        return false;
    }
    if (!def.a) {
        return nsi_reader_fail(u->reader, e, NS_ERR_PARSE, "there is no <%s>",
                               joint ? "joint1" : "link1");
    }
    def.compute_a = !joint && given[1] && !given[0];
    def.compute_b = !joint && !given[1];
    return nsi_reader_add_equality(u->reader, e, &def);
}

bool nsi_urdf_add_equalities(nsi_urdf* u) {
    const nsi_xml_element* e = nsi_xml_child(u->reader->xml->root, "equality");
    for (; e; e = nsi_xml_next(e, "equality")) {
        if (!add_urdf_equality(u, e)) return false;
    }
    return true;
}
