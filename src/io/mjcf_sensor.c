// Sensors of MJCF files.

#include "io/mjcf.h"

#include <stdio.h>

// The type that an element stands for; false when it is none of ours.
static bool find_type(const nsi_xml_element* element, ns_sensor_type* out) {
    const ns_sensor_info* info;
    for (int k = 0; (info = ns_sensor_type_info((ns_sensor_type)k)); k++) {
        if (strcmp(info->name, element->name) != 0) continue;
        *out = (ns_sensor_type)k;
        return true;
    }
    return false;
}

// A frame that a sensor names: a site, or a body by its own or its inertial frame.
typedef struct sensor_frame {
    const char *site, *link;
    bool at_com;
} sensor_frame;

// `known` is false, with a note, for frames that are not represented.
static bool read_named_frame(nsi_mjcf* m, const nsi_xml_element* element, const char* types,
                             const char* names, bool turns, sensor_frame* out, bool* known) {
    const char *type, *name;
    if (!nsi_reader_required(m->reader, element, types, &type) ||
        !nsi_reader_required(m->reader, element, names, &name)) {
        return false;
    }
    bool site = strcmp(type, "site") == 0, body = strcmp(type, "body") == 0;
    *known = site || strcmp(type, "xbody") == 0 || (body && !turns);
    if (!*known) {
        return nsi_reader_note(m->reader, element, "%s %.40s: not represented%s", types, type,
                               body ? "; use xbody" : "");
    }
    *out = (sensor_frame){site ? name : NULL, site ? NULL : name, body};
    return true;
}

// The frame of a sensor, and the one that it is relative to. The axes of an inertial frame are not known.
static bool read_sensor_frame(nsi_mjcf* m, const nsi_xml_element* element, ns_sensor_def* def,
                              bool* known) {
    bool turns = def->type >= NS_SENSOR_FRAME_QUATERNION && def->type <= NS_SENSOR_FRAME_Z_AXIS;
    sensor_frame frame = {0}, from = {0};
    if (!read_named_frame(m, element, "objtype", "objname", turns, &frame, known)) return false;
    bool relative = nsi_xml_find(element, "reftype") || nsi_xml_find(element, "refname");
    if (*known && relative &&
        !read_named_frame(m, element, "reftype", "refname", true, &from, known)) {
        return false;
    }
    def->site = frame.site, def->link = frame.link, def->at_com = frame.at_com;
    def->ref_site = from.site, def->ref_link = from.link;
    return true;
}

static bool add_sensor(nsi_mjcf* m, const nsi_xml_element* element, ns_sensor_type type) {
    ns_sensor_def def = ns_default_sensor_def();
    char name[32];
    bool known = true;
    m->nsensors++;
    def.type = type;
    def.name = nsi_xml_value(element, "name");
    if (!def.name) {
        snprintf(name, sizeof name, "sensor%u", m->nsensors - 1);
        def.name = name;
    }
    if (!nsi_reader_number(m->reader, element, "cutoff", &def.cutoff)) return false;

    // What it belongs to.
    switch (ns_sensor_type_info(type)->object) {
    case NS_SENSOR_OF_JOINT:
    case NS_SENSOR_OF_BALL: def.joint = nsi_xml_value(element, "joint"); break;
    case NS_SENSOR_OF_ACTUATOR: def.actuator = nsi_xml_value(element, "actuator"); break;
    case NS_SENSOR_OF_TENDON: def.tendon = nsi_xml_value(element, "tendon"); break;
    case NS_SENSOR_OF_SITE: def.site = nsi_xml_value(element, "site"); break;
    case NS_SENSOR_OF_LINK: def.link = nsi_xml_value(element, "body"); break;
    case NS_SENSOR_OF_FRAME:
        if (!read_sensor_frame(m, element, &def, &known)) return false;
        break;
    }
    if (!known) return true;

    // Actuators and tendons that are not represented take their sensors with them.
    if ((def.actuator && !nsi_model_builder_has_actuator(m->reader->builder, def.actuator)) ||
        (def.tendon && !nsi_model_builder_has_tendon(m->reader->builder, def.tendon))) {
        return nsi_reader_note(m->reader, element, "%s \"%.100s\" is not represented: left out",
                               def.actuator ? "actuator" : "tendon",
                               def.actuator ? def.actuator : def.tendon);
    }
    return nsi_reader_add_sensor(m->reader, element, &def);
}

bool nsi_mjcf_read_sensors(nsi_mjcf* m) {
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "sensor");
    for (; section; section = nsi_xml_next(section, "sensor")) {
        for (const nsi_xml_element* e = section->first_child; e; e = e->next) {
            ns_sensor_type type;
            if (find_type(e, &type) && !add_sensor(m, e, type)) return false;
        }
    }
    return true;
}
