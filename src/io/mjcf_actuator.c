// Actuators of MJCF files: force laws, activation dynamics and transmissions to joints.
//
// MuJoCo has one actuator with shortcuts for usual ones. What a <general> says is one of our force laws
// where it can be, which has the gains as parameters kp and kd, and NS_ACTUATOR_GENERAL otherwise.

#include "io/mjcf.h"

enum { FIXED, AFFINE, MUSCLE, NOT_READ }; // gain types; biases are none, affine and so on

static bool read_fixed_numbers(nsi_mjcf* m, nsi_mjcf_item c, const char* attribute,
                               double out[10]) {
    uint32_t count;
    return nsi_mjcf_numbers(m, c, attribute, 1, 10, out, &count);
}

// ---- force laws ------------------------------------------------------------------------------

// force = gain * input + bias, as the law of ours that it is.
static void choose_law(const double gain[3], const double bias[3], ns_actuator_def* def) {
    bool fixed = gain[1] == 0.0 && gain[2] == 0.0 && bias[0] == 0.0;
    bool servo = fixed && gain[0] > 0.0 && bias[1] == -gain[0];
    if (fixed && gain[0] == 1.0 && bias[1] == 0.0 && bias[2] == 0.0) {
        def->type = NS_ACTUATOR_TORQUE;
    } else if (fixed && gain[0] > 0.0 && bias[1] == 0.0 && bias[2] == -gain[0]) {
        def->type = NS_ACTUATOR_VELOCITY;
        def->kd = gain[0];
    } else if (servo) {
        // As in MuJoCo, a positive number is a damping ratio.
        def->type = NS_ACTUATOR_POSITION;
        def->kp = gain[0];
        def->kd = bias[2] < 0.0 ? -bias[2] : 0.0;
        def->damping_ratio = bias[2] > 0.0 ? bias[2] : 0.0;
    } else {
        def->type = NS_ACTUATOR_GENERAL;
        memcpy(def->gain, gain, sizeof def->gain);
        memcpy(def->bias, bias, sizeof def->bias);
    }
}

// MuJoCo's parameters of a muscle, in its order. `bias` has the same of its passive force; NULL: none.
static bool choose_muscle(const double gain[9], const double* bias, ns_actuator_def* def) {
    for (int k = 0; bias && k < 9; k++) {
        if (bias[k] != gain[k]) return false;
    }
    def->type = NS_ACTUATOR_MUSCLE;
    def->muscle = (ns_muscle_def){.range = {gain[0], gain[1]},
                                  .force = gain[2],
                                  .scale = gain[3],
                                  .lmin = gain[4],
                                  .lmax = gain[5],
                                  .vmax = gain[6],
                                  .fpmax = bias ? gain[7] : 0.0,
                                  .fvmax = gain[8]};
    return true;
}

static bool read_general(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def, bool* known) {
    static const char* const gains[] = {"fixed", "affine", "muscle", "user", "dcmotor", NULL};
    static const char* const biases[] = {"none", "affine", "muscle", "user", "dcmotor", NULL};
    static const char* const dynamics[] = {"none",   "integrator", "filter",  "filterexact",
                                           "muscle", "user",       "dcmotor", NULL};
    uint32_t gaintype = FIXED, biastype = 0, dyntype = 0;
    double gain[10] = {1.0}, bias[10] = {0.0}, constants[10] = {1.0};

    // Absent attributes keep MuJoCo's defaults.
    if (!nsi_mjcf_word(m, c, "gaintype", gains, &gaintype) ||
        !nsi_mjcf_word(m, c, "biastype", biases, &biastype) ||
        !nsi_mjcf_word(m, c, "dyntype", dynamics, &dyntype) ||
        !read_fixed_numbers(m, c, "gainprm", gain) || !read_fixed_numbers(m, c, "biasprm", bias) ||
        !read_fixed_numbers(m, c, "dynprm", constants)) {
        return false;
    }

    // Numbers that the types do not use are ignored.
    if (gaintype == FIXED) gain[1] = gain[2] = 0.0;
    if (biastype == 0) bias[0] = bias[1] = bias[2] = 0.0;
    *known = gaintype < NOT_READ && biastype < NOT_READ && dyntype <= NS_DYNAMICS_MUSCLE;
    if (!*known) return true;
    if (gaintype == MUSCLE) {
        *known = biastype != AFFINE && choose_muscle(gain, biastype == 0 ? NULL : bias, def);
    } else if (biastype == MUSCLE) {
        *known = false; // a passive muscle with another gain
    } else {
        choose_law(gain, bias, def);
    }
    def->dynamics = (ns_actuator_dynamics)dyntype;
    def->time_constant = constants[0];
    if (dyntype == NS_DYNAMICS_MUSCLE) def->deactivation_time = constants[1];
    return true;
}

// A hydraulic or pneumatic cylinder: filtered pressure times area.
static bool read_cylinder(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def) {
    double area = 1.0, diameter = 0.0, bias[3] = {0.0};
    uint32_t count;
    def->dynamics = NS_DYNAMICS_FILTER;
    if (!nsi_mjcf_number(m, c, "timeconst", &def->time_constant) ||
        !nsi_mjcf_number(m, c, "area", &area) || !nsi_mjcf_number(m, c, "diameter", &diameter) ||
        !nsi_mjcf_numbers(m, c, "bias", 1, 3, bias, &count)) {
        return false;
    }
    if (diameter > 0.0) area = 0.25 * 3.14159265358979323846 * diameter * diameter;
    const double gain[3] = {area, 0.0, 0.0};
    choose_law(gain, bias, def);
    return true;
}

static bool read_muscle(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def) {
    ns_muscle_def* muscle = &def->muscle;
    double constants[2] = {0.01, 0.04};
    uint32_t count;
    const struct {
        const char* name;
        double* value;
    } numbers[] = {{"force", &muscle->force}, {"scale", &muscle->scale}, {"lmin", &muscle->lmin},
                   {"lmax", &muscle->lmax},   {"vmax", &muscle->vmax},   {"fpmax", &muscle->fpmax},
                   {"fvmax", &muscle->fvmax}};
    def->type = NS_ACTUATOR_MUSCLE;
    def->dynamics = NS_DYNAMICS_MUSCLE;
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        if (!nsi_mjcf_number(m, c, numbers[k].name, numbers[k].value)) return false;
    }
    if (!nsi_mjcf_numbers(m, c, "range", 2, 2, muscle->range, &count) ||
        !nsi_mjcf_numbers(m, c, "timeconst", 1, 2, constants, &count)) {
        return false;
    }
    def->time_constant = constants[0], def->deactivation_time = constants[1];
    return true;
}

// The gains of a servo, with MuJoCo's defaults.
static bool read_servo(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def) {
    def->type = NS_ACTUATOR_POSITION;
    def->kp = 1.0;
    if (!nsi_mjcf_number(m, c, "kp", &def->kp) || !nsi_mjcf_number(m, c, "kv", &def->kd) ||
        !nsi_mjcf_number(m, c, "dampratio", &def->damping_ratio)) {
        return false;
    }
    if (def->kd == 0.0 || def->damping_ratio == 0.0) return true;
    return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                           "has both kv and dampratio; keep one of them");
}

static bool read_law(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def, bool* known) {
    double time_constant = 0.0, kv = 1.0;
    *known = true;
    switch (c.kind) {
    case NSI_MJCF_MOTOR: def->type = NS_ACTUATOR_TORQUE; return true;
    case NSI_MJCF_POSITION:
        if (!read_servo(m, c, def) || !nsi_mjcf_number(m, c, "timeconst", &time_constant)) {
            return false;
        }
        if (time_constant > 0.0) {
            def->dynamics = NS_DYNAMICS_FILTER_EXACT;
            def->time_constant = time_constant;
        }
        return true;
    case NSI_MJCF_VELOCITY:
        def->type = NS_ACTUATOR_VELOCITY;
        def->kd = 1.0;
        return nsi_mjcf_number(m, c, "kv", &def->kd);
    case NSI_MJCF_INTVELOCITY: def->dynamics = NS_DYNAMICS_INTEGRATOR; return read_servo(m, c, def);
    case NSI_MJCF_DAMPER:
        if (!nsi_mjcf_number(m, c, "kv", &kv)) return false;
        def->type = NS_ACTUATOR_GENERAL;
        def->gain[0] = 0.0, def->gain[2] = -kv;
        return true;
    case NSI_MJCF_CYLINDER: return read_cylinder(m, c, def);
    case NSI_MJCF_MUSCLE: return read_muscle(m, c, def);
    default: return read_general(m, c, def, known);
    }
}

// ---- ranges ----------------------------------------------------------------------------------

// The range of a servo's target may be that of its joint, scaled about its middle.
static bool inherit_range(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def) {
    double scale = 0.0;
    if (!nsi_mjcf_number(m, c, "inheritrange", &scale)) return false;
    if (scale == 0.0) return true;
    bool integrates = c.kind == NSI_MJCF_INTVELOCITY;
    bool limited = integrates ? def->activation_limited : def->control_limited;
    const ns_link_def* joint = nsi_model_builder_joint(m->reader->builder, def->joint);
    if (scale < 0.0 || limited || !joint || !joint->limited) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               scale < 0.0 ? "inheritrange must not be negative"
                               : limited   ? "has both inheritrange and a range; keep one of them"
                                           : "inheritrange needs a joint with a range");
    }
    double middle = 0.5 * (joint->lower + joint->upper);
    double radius = 0.5 * (joint->upper - joint->lower) * scale;
    double* lower = integrates ? &def->activation_lower : &def->control_lower;
    double* upper = integrates ? &def->activation_upper : &def->control_upper;
    *lower = middle - radius, *upper = middle + radius;
    *(integrates ? &def->activation_limited : &def->control_limited) = true;
    return true;
}

static bool read_ranges(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def) {
    double control[2] = {0.0}, force[2] = {0.0}, activation[2] = {0.0};
    if (!nsi_mjcf_limit(m, c, "ctrllimited", "ctrlrange", &def->control_limited, control) ||
        !nsi_mjcf_limit(m, c, "forcelimited", "forcerange", &def->force_limited, force) ||
        !nsi_mjcf_limit(m, c, "actlimited", "actrange", &def->activation_limited, activation)) {
        return false;
    }
    def->control_lower = control[0], def->control_upper = control[1];
    def->force_lower = force[0], def->force_upper = force[1];
    def->activation_lower = activation[0], def->activation_upper = activation[1];
    if (def->activation_limited && def->dynamics == NS_DYNAMICS_NONE) {
        def->activation_limited = false;
        if (!nsi_reader_note(m->reader, c.element,
                             "has actrange without an activation: no limit")) {
            return false;
        }
    }
    return inherit_range(m, c, def);
}

// ---- transmission ----------------------------------------------------------------------------

// What the actuator acts on; `known` is false, with a note, when that is not represented.
static bool read_transmission(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def, bool* known) {
    double gear[6] = {1.0};
    uint32_t count;
    if (!nsi_mjcf_numbers(m, c, "gear", 1, 6, gear, &count)) return false;

    // A joint, with the torque's direction in its own frame or in its parent's; a tendon; a site.
    const char* in_parent = nsi_xml_value(c.element, "jointinparent");
    def->joint = in_parent ? in_parent : nsi_xml_value(c.element, "joint");
    def->in_parent = in_parent != NULL;
    def->tendon = nsi_xml_value(c.element, "tendon");
    def->site = nsi_xml_value(c.element, "site");
    def->refsite = nsi_xml_value(c.element, "refsite");
    if (def->tendon && !nsi_model_builder_has_tendon(m->reader->builder, def->tendon)) {
        *known = false;
        return nsi_reader_note(m->reader, c.element,
                               "acts on tendon \"%.100s\", which is not represented; changes the "
                               "motion",
                               def->tendon);
    }
    *known = def->joint || def->tendon || def->site;
    if (!*known) {
        return nsi_reader_note(m->reader, c.element,
                               "does not act on a joint, tendon or site and is not represented; "
                               "changes the motion");
    }

    // A law of the angle between two sites.
    bool turns = gear[3] != 0.0 || gear[4] != 0.0 || gear[5] != 0.0;
    if (def->site && def->refsite && turns && def->type != NS_ACTUATOR_TORQUE) {
        *known = false;
        return nsi_reader_note(m->reader, c.element,
                               "holds the angle of a site from its refsite and is not represented; "
                               "changes the motion");
    }
    bool is_ball =
        def->joint && nsi_model_builder_joint_has_no_axis(m->reader->builder, def->joint);
    if (is_ball || def->site) {
        memcpy(def->direction, gear, sizeof gear);
    } else {
        def->gear = gear[0];
    }
    return true;
}

// The lengths between which a muscle works; without lengthrange those at the limits of its joint. MuJoCo looks
// for them by simulation, which is not done here: `known` is false, with a note, where there are none.
static bool read_length_range(nsi_mjcf* m, nsi_mjcf_item c, ns_actuator_def* def, bool* known) {
    double* range = def->muscle.length_range;
    uint32_t count;
    if (!nsi_mjcf_numbers(m, c, "lengthrange", 2, 2, range, &count)) return false;
    *known = true;
    if (count > 0 && range[0] < range[1]) return true;
    const ns_link_def* joint =
        def->joint ? nsi_model_builder_joint(m->reader->builder, def->joint) : NULL;
    *known = joint && joint->limited && joint->lower < joint->upper && def->gear != 0.0;
    if (!*known) {
        return nsi_reader_note(m->reader, c.element,
                               "is a muscle without lengthrange, which is not computed, and is not "
                               "represented; give it the one of a compiled model (mj_saveLastXML); "
                               "changes the motion");
    }
    bool turned = def->gear < 0.0;
    range[0] = def->gear * (turned ? joint->upper : joint->lower);
    range[1] = def->gear * (turned ? joint->lower : joint->upper);
    return nsi_reader_note(m->reader, c.element,
                           "is a muscle without lengthrange: it works between the limits of its "
                           "joint, where MuJoCo simulates it to find its range; changes the motion "
                           "a little");
}

// ---- all actuators ---------------------------------------------------------------------------

static bool read_actuator(nsi_mjcf* m, const nsi_xml_element* element, nsi_mjcf_kind kind) {
    // Defaults depend on the kind of actuator.
    nsi_mjcf_item c = {element, kind, NSI_MJCF_MAIN_CLASS};
    ns_actuator_def def = ns_default_actuator_def();
    bool known, placed;
    def.name = nsi_xml_value(element, "name");
    if (!nsi_mjcf_find_class(m, element, "class", NSI_MJCF_MAIN_CLASS, &c.class_number) ||
        !read_law(m, c, &def, &known) || !read_transmission(m, c, &def, &placed)) {
        return false;
    }
    if (!placed) return true;
    if (known && def.type == NS_ACTUATOR_MUSCLE && !read_length_range(m, c, &def, &placed)) {
        return false;
    }
    if (!placed) return true;
    if (!known) {
        return nsi_reader_note(m->reader, element,
                               "has a force law that is not represented; changes the motion");
    }

    // The builder validates the rest.
    return read_ranges(m, c, &def) && nsi_reader_add_actuator(m->reader, element, &def);
}

bool nsi_mjcf_read_actuators(nsi_mjcf* m) {
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "actuator");
    for (; section; section = nsi_xml_next(section, "actuator")) {
        for (const nsi_xml_element* e = section->first_child; e; e = e->next) {
            for (nsi_mjcf_kind kind = NSI_MJCF_MOTOR; kind < NSI_MJCF_KINDS; kind++) {
                if (strcmp(e->name, nsi_mjcf_kind_names[kind]) == 0 && !read_actuator(m, e, kind)) {
                    return false;
                }
            }
        }
    }
    return true;
}
