// Actuators of URDF: <transmission> with one joint and one actuator, in either form,
//
//     <transmission name="t">
//       <type>transmission_interface/SimpleTransmission</type>
//       <joint name="j"><hardwareInterface>EffortJointInterface</hardwareInterface></joint>
//       <actuator name="m"><mechanicalReduction>50</mechanicalReduction></actuator>
//     </transmission>
//
//     <transmission type="pr2_mechanism_model/SimpleTransmission" name="t">
//       <actuator name="m"/><joint name="j"/><mechanicalReduction>50</mechanicalReduction>
//     </transmission>
//
// The control is the torque or force of the motor, the reduction its gear, and the joint's effort limit
// bounds what arrives at the joint.

#include "io/numbers.h"
#include "io/urdf.h"

#include <math.h>
#include <stdio.h>

// The first <mechanicalReduction> of the places where it may be; 1 without one. False, without a
// message, when it is not a number other than zero.
static bool read_reduction(const nsi_xml_element* const places[3], double* out) {
    *out = 1.0;
    for (int k = 0; k < 3; k++) {
        const nsi_xml_element* reduction = nsi_xml_child(places[k], "mechanicalReduction");
        if (!reduction) continue;
        uint32_t count;
        return reduction->text &&
               nsi_numbers_parse(reduction->text, 1, 1, out, &count, NULL) == NS_OK && *out != 0.0;
    }
    return true;
}

// Why there cannot be an actuator on this joint, or NULL.
static const char* joint_fault(const nsi_urdf* u, uint32_t number) {
    if (number == NSI_NONE) return "drives a joint that is not in the file: not represented";
    const nsi_urdf_joint* joint = &u->joints.data[number];
    if (joint->leader != NSI_NONE) return "drives a joint that follows another: not represented";
    if (joint->type == NSI_URDF_REVOLUTE || joint->type == NSI_URDF_CONTINUOUS ||
        joint->type == NSI_URDF_PRISMATIC) {
        return NULL;
    }
    return "drives a joint that is neither revolute nor prismatic: not represented";
}

// What arrives at the joint is limited by the effort of its <limit>.
static bool limit_effort(nsi_urdf* u, nsi_urdf_joint* joint, ns_actuator_def* def) {
    const nsi_xml_element* limit = nsi_xml_child(joint->element, "limit");
    double effort = 0.0;
    joint->driven = true;
    if (limit && !nsi_reader_number(u->reader, limit, "effort", &effort)) return false;
    double force = effort / fabs(def->gear); // at the motor
    def->force_limited = effort > 0.0 && isfinite(force) && force > 0.0;
    if (!def->force_limited) return true;
    def->force_lower = -force;
    def->force_upper = force;
    return true;
}

static bool add_transmission(nsi_urdf* u, nsi_names* names, const nsi_xml_element* element) {
    const nsi_xml_element *joint = nsi_xml_child(element, "joint"),
                          *actuator = nsi_xml_child(element, "actuator");

    // One joint and one actuator; others couple several.
    if (!joint || !actuator || nsi_xml_next(joint, "joint") || nsi_xml_next(actuator, "actuator")) {
        return nsi_reader_note(u->reader, element,
                               "does not join one actuator to one joint: not represented");
    }
    const char* joint_name = nsi_xml_value(joint, "name");
    uint32_t number = nsi_names_find(&u->joint_names, joint_name ? joint_name : "");
    const char* fault = joint_fault(u, number);
    if (fault) return nsi_reader_note(u->reader, element, "%s", fault);

    ns_actuator_def def = ns_default_actuator_def();
    def.joint = joint_name;
    if (!read_reduction((const nsi_xml_element*[]){actuator, joint, element}, &def.gear)) {
        return nsi_reader_tolerate(u->reader, element,
                                   "has a mechanicalReduction that is not a number other than "
                                   "zero: not represented");
    }
    if (!limit_effort(u, &u->joints.data[number], &def)) return false;

    // A name that no other actuator has.
    char name[NSI_URDF_NAME];
    const char* given = nsi_xml_value(actuator, "name");
    if (given && *given) {
        snprintf(name, sizeof name, "%.*s", NSI_MODEL_MAX_NAME + 1, given);
    } else {
        snprintf(name, sizeof name, "%.*s_motor", NSI_MODEL_MAX_NAME + 1, joint_name);
    }
    for (size_t length = strlen(name); nsi_names_find(names, name) != NSI_NONE; length++) {
        if (length + 1 >= sizeof name) break;
        name[length] = '_';
        name[length + 1] = '\0';
    }
    def.name = nsi_arena_string(&u->reader->meshes, name, strlen(name));
    if (!def.name) return nsi_reader_fail_nomem(u->reader);
    return nsi_names_add(u->reader, names, def.name, element) &&
           nsi_reader_add_actuator(u->reader, element, &def);
}

// An effort limit bounds an actuator, so without one it has no effect.
static bool note_efforts(nsi_urdf* u) {
    for (uint32_t i = 0; i < u->joints.count; i++) {
        const nsi_urdf_joint* joint = &u->joints.data[i];
        const nsi_xml_element* limit = nsi_xml_child(joint->element, "limit");
        if (joint->driven || !limit || !nsi_xml_find(limit, "effort")) continue;
        if (!nsi_reader_note(u->reader, limit,
                             "effort: not represented, since no <transmission> drives the joint")) {
            return false;
        }
    }
    return true;
}

bool nsi_urdf_add_transmissions(nsi_urdf* u) {
    nsi_names names = {0};
    bool added = true;
    const nsi_xml_element* e = nsi_xml_child(u->reader->xml->root, "transmission");
    for (; e && added; e = nsi_xml_next(e, "transmission")) {
        added = add_transmission(u, &names, e);
    }
    nsi_names_free(&u->reader->allocator, &names);
    return added && note_efforts(u);
}
