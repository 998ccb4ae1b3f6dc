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

// The frame of a sensor: a site, or a body by its own or its inertial frame. `known` is false, with a
// note, for others.
static bool read_sensor_frame(nsi_mjcf* m, const nsi_xml_element* element, ns_sensor_def* def,
                              bool* known) {
    const char *type, *name;
    if (!nsi_reader_required(m->reader, element, "objtype", &type) ||
        !nsi_reader_required(m->reader, element, "objname", &name)) {
        return false;
    }
    bool turns = def->type >= NS_SENSOR_FRAME_QUATERNION && def->type <= NS_SENSOR_FRAME_Z_AXIS;
    bool site = strcmp(type, "site") == 0, body = strcmp(type, "body") == 0;
    *known = site || strcmp(type, "xbody") == 0 || (body && !turns);
    if (nsi_xml_find(element, "reftype")) {
        *known = false;
        return nsi_reader_note(m->reader, element,
                               "is relative to another frame and is not represented");
    }
    if (!*known) {
        return nsi_reader_note(m->reader, element, "objtype %.40s: not represented%s", type,
                               body ? "; use xbody" : "");
    }
    *(site ? &def->site : &def->link) = name;
    def->at_com = body;
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
