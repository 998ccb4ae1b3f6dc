// The parameter registry: names, units, bounds and transforms of every number of a model.
//
// Bounds are what the number can be at all, not what it is likely to be. A number that must not be
// negative has the transform LOG when it is positive; from zero no logarithm leads away, so there
// it is IDENTITY with the lower bound 0. One that must be positive, as the builder demands, is
// always LOG: the bound 0 is not reached.

#include "model/model_data.h"

#include "contact/law.h"

#include <math.h>
#include <stdio.h>

typedef enum param_rule {
    FREE,         // any number
    NOT_NEGATIVE, // zero or more
    POSITIVE,     // more than zero
    AT_LEAST_ONE, // one or more
    SHARE,        // zero to one
    INERTIA,      // any number, physical together with the others of the link
    MOMENT        // the same, zero or more
} param_rule;

typedef enum param_unit {
    NONE,
    KG,
    M,
    KG_M2,
    RAD,
    Q,
    FORCE,
    FORCE_Q,
    FORCE_QD,
    QD,
    Q_MASS
} param_unit;

// Are the components of this kind those of a vector or tensor in space? Sizes depend on the geometry.
static bool kind_is_spatial(ns_param_kind kind) {
    switch (kind) {
    case NS_PARAM_COM:
    case NS_PARAM_INERTIA:
    case NS_PARAM_JOINT_ORIGIN:
    case NS_PARAM_JOINT_ROTATION:
    case NS_PARAM_JOINT_AXIS:
    case NS_PARAM_GRAVITY:
    case NS_PARAM_GEOM_ORIGIN:
    case NS_PARAM_GEOM_ROTATION: return true;
    default: return false;
    }
}

typedef struct param_row {
    const char* name; // after "link/<l>/" or "joint/<j>/"
    param_unit unit;
    param_rule rule;
    ns_param_kind kind;
    bool may_vanish;
} param_row;

static const param_row link_rows[NSI_LINK_PARAMS] = {
    [NSI_LINK_MASS] = {"mass", KG, MOMENT, NS_PARAM_MASS, false},
    [NSI_LINK_COM] = {"com/x", M, INERTIA, NS_PARAM_COM, false},
    [NSI_LINK_COM + 1] = {"com/y", M, INERTIA, NS_PARAM_COM, false},
    [NSI_LINK_COM + 2] = {"com/z", M, INERTIA, NS_PARAM_COM, false},
    [NSI_LINK_INERTIA] = {"inertia/xx", KG_M2, MOMENT, NS_PARAM_INERTIA, false},
    [NSI_LINK_INERTIA + 1] = {"inertia/yy", KG_M2, MOMENT, NS_PARAM_INERTIA, false},
    [NSI_LINK_INERTIA + 2] = {"inertia/zz", KG_M2, MOMENT, NS_PARAM_INERTIA, false},
    [NSI_LINK_INERTIA + 3] = {"inertia/xy", KG_M2, INERTIA, NS_PARAM_INERTIA, false},
    [NSI_LINK_INERTIA + 4] = {"inertia/xz", KG_M2, INERTIA, NS_PARAM_INERTIA, false},
    [NSI_LINK_INERTIA + 5] = {"inertia/yz", KG_M2, INERTIA, NS_PARAM_INERTIA, false},
    [NSI_JOINT_ORIGIN] = {"origin/x", M, FREE, NS_PARAM_JOINT_ORIGIN, false},
    [NSI_JOINT_ORIGIN + 1] = {"origin/y", M, FREE, NS_PARAM_JOINT_ORIGIN, false},
    [NSI_JOINT_ORIGIN + 2] = {"origin/z", M, FREE, NS_PARAM_JOINT_ORIGIN, false},
    [NSI_JOINT_ROTATION] = {"origin/rx", RAD, FREE, NS_PARAM_JOINT_ROTATION, false},
    [NSI_JOINT_ROTATION + 1] = {"origin/ry", RAD, FREE, NS_PARAM_JOINT_ROTATION, false},
    [NSI_JOINT_ROTATION + 2] = {"origin/rz", RAD, FREE, NS_PARAM_JOINT_ROTATION, false},
    [NSI_JOINT_AXIS] = {"axis/x", NONE, FREE, NS_PARAM_JOINT_AXIS, false},
    [NSI_JOINT_AXIS + 1] = {"axis/y", NONE, FREE, NS_PARAM_JOINT_AXIS, false},
    [NSI_JOINT_AXIS + 2] = {"axis/z", NONE, FREE, NS_PARAM_JOINT_AXIS, false},
    [NSI_JOINT_STIFFNESS] = {"stiffness", FORCE_Q, NOT_NEGATIVE, NS_PARAM_JOINT_STIFFNESS, true},
    [NSI_JOINT_REST] = {"rest", Q, FREE, NS_PARAM_JOINT_REST, false},
    [NSI_JOINT_DAMPING] = {"damping", FORCE_QD, NOT_NEGATIVE, NS_PARAM_JOINT_DAMPING, true},
    [NSI_JOINT_FRICTION] = {"friction", FORCE, NOT_NEGATIVE, NS_PARAM_JOINT_FRICTION, true},
    [NSI_JOINT_FRICTION_VELOCITY] = {"friction_velocity", QD, POSITIVE,
                                     NS_PARAM_JOINT_FRICTION_VELOCITY, false},
    [NSI_JOINT_ARMATURE] = {"armature", Q_MASS, NOT_NEGATIVE, NS_PARAM_JOINT_ARMATURE, true},
    [NSI_JOINT_LOWER] = {"lower", Q, FREE, NS_PARAM_JOINT_LOWER, false},
    [NSI_JOINT_UPPER] = {"upper", Q, FREE, NS_PARAM_JOINT_UPPER, false},
    [NSI_JOINT_LIMIT_STIFFNESS] = {"limit_stiffness", FORCE_Q, NOT_NEGATIVE,
                                   NS_PARAM_JOINT_LIMIT_STIFFNESS, true},
    [NSI_JOINT_LIMIT_DAMPING] = {"limit_damping", FORCE_QD, NOT_NEGATIVE,
                                 NS_PARAM_JOINT_LIMIT_DAMPING, true},
};

// Units of a joint that turns and of one that slides.
static const char* const unit_names[][2] = {
    [NONE] = {"", ""},
    [KG] = {"kg", "kg"},
    [M] = {"m", "m"},
    [KG_M2] = {"kg m^2", "kg m^2"},
    [RAD] = {"rad", "rad"},
    [Q] = {"rad", "m"},
    [FORCE] = {"N m", "N"},
    [FORCE_Q] = {"N m/rad", "N/m"},
    [FORCE_QD] = {"N m s/rad", "N s/m"},
    [QD] = {"rad/s", "m/s"},
    [Q_MASS] = {"kg m^2", "kg"},
};

static double link_value(const nsi_link* link, uint32_t k) {
    const ns_link_def* def = &link->def;

    // Vectors.
    if (k >= NSI_JOINT_AXIS && k < NSI_JOINT_AXIS + 3) return def->axis[k - NSI_JOINT_AXIS];
    if (k >= NSI_JOINT_ROTATION && k < NSI_JOINT_ROTATION + 3) return 0.0;
    if (k >= NSI_JOINT_ORIGIN && k < NSI_JOINT_ORIGIN + 3) {
        return def->origin.position[k - NSI_JOINT_ORIGIN];
    }
    if (k >= NSI_LINK_INERTIA && k < NSI_LINK_INERTIA + 6) {
        return def->inertia[k - NSI_LINK_INERTIA];
    }
    if (k >= NSI_LINK_COM && k < NSI_LINK_COM + 3) return def->com[k - NSI_LINK_COM];

    // Single numbers.
    switch (k) {
    case NSI_LINK_MASS: return def->mass;
    case NSI_JOINT_STIFFNESS: return def->stiffness;
    case NSI_JOINT_REST: return def->rest;
    case NSI_JOINT_DAMPING: return def->damping;
    case NSI_JOINT_FRICTION: return def->friction;
    case NSI_JOINT_FRICTION_VELOCITY: return def->friction_velocity;
    case NSI_JOINT_ARMATURE: return def->armature;
    case NSI_JOINT_LOWER: return def->lower;
    case NSI_JOINT_UPPER: return def->upper;
    case NSI_JOINT_LIMIT_STIFFNESS: return def->limit_stiffness;
    case NSI_JOINT_LIMIT_DAMPING: return def->limit_damping;
    default: break;
    }
    NS_ASSERT(k < NSI_LINK_PARAMS);
    return 0.0;
}

static ns_param make_param(double value, const char* unit, param_rule rule) {
    ns_param param = {.unit = unit, .value = value, .lower = -INFINITY, .upper = INFINITY};
    if (rule == NOT_NEGATIVE || rule == POSITIVE || rule == MOMENT || rule == SHARE) {
        param.lower = 0.0;
    }
    if (rule == AT_LEAST_ONE) param.lower = 1.0;
    if (rule == SHARE) param.upper = 1.0, param.transform = NS_TRANSFORM_BOX;
    if (rule == INERTIA || rule == MOMENT) param.transform = NS_TRANSFORM_INERTIA;
    if (rule == POSITIVE || (rule == NOT_NEGATIVE && value > 0.0)) {
        param.transform = NS_TRANSFORM_LOG;
    }
    NS_ASSERT(rule != POSITIVE || value > 0.0);
    return param;
}

ns_param nsi_link_param(const nsi_link* link, uint32_t k, char name[NSI_PARAM_NAME_SIZE]) {
    const param_row* row = &link_rows[k];
    bool of_link = k < NSI_JOINT_ORIGIN;
    snprintf(name, NSI_PARAM_NAME_SIZE, "%s/%s/%s", of_link ? "link" : "joint",
             of_link ? link->def.name : link->def.joint, row->name);
    const ns_joint_info* info = ns_joint_type_info(link->def.joint_type);
    bool slides = info->has_axis && info->nlinear == 1;
    ns_param param = make_param(link_value(link, k), unit_names[row->unit][slides], row->rule);
    param.kind = row->kind;
    param.spatial = kind_is_spatial(row->kind);
    param.may_vanish = row->may_vanish;
    while (k > param.component && link_rows[k - param.component - 1].kind == row->kind) {
        param.component++;
    }
    return param;
}

// Which actuators have a parameter.
typedef enum actuator_part {
    ALWAYS,
    FILTERS,
    GENERAL,
    CONTROL,
    FORCE_LIMIT,
    ACTIVATION,
    MUSCLE,
    MUSCLE_DYNAMICS
} actuator_part;

// A parameter of actuators. A gain's unit depends on what the gear makes of the joint's: left open.
typedef struct actuator_row {
    const char* name;
    size_t offset; // in ns_actuator_def
    const char* unit;
    actuator_part part;
    param_rule rule;
    ns_param_kind kind;
    uint32_t component;
    bool may_vanish;
} actuator_row;

#define IN_DEF(field) offsetof(ns_actuator_def, field)

static const actuator_row actuator_rows[NSI_ACTUATOR_PARAMS] = {
    {"gear", IN_DEF(gear), "", ALWAYS, FREE, NS_PARAM_ACTUATOR_GEAR, 0, false},
    {"kp", IN_DEF(kp), "", ALWAYS, NOT_NEGATIVE, NS_PARAM_ACTUATOR_KP, 0, true},
    {"kd", IN_DEF(kd), "", ALWAYS, NOT_NEGATIVE, NS_PARAM_ACTUATOR_KD, 0, true},
    {"time_constant", IN_DEF(time_constant), "s", FILTERS, POSITIVE,
     NS_PARAM_ACTUATOR_TIME_CONSTANT, 0, false},
    {"gain/0", IN_DEF(gain[0]), "", GENERAL, FREE, NS_PARAM_ACTUATOR_GAIN, 0, true},
    {"gain/1", IN_DEF(gain[1]), "", GENERAL, FREE, NS_PARAM_ACTUATOR_GAIN, 1, true},
    {"gain/2", IN_DEF(gain[2]), "", GENERAL, FREE, NS_PARAM_ACTUATOR_GAIN, 2, true},
    {"bias/0", IN_DEF(bias[0]), "", GENERAL, FREE, NS_PARAM_ACTUATOR_BIAS, 0, true},
    {"bias/1", IN_DEF(bias[1]), "", GENERAL, FREE, NS_PARAM_ACTUATOR_BIAS, 1, true},
    {"bias/2", IN_DEF(bias[2]), "", GENERAL, FREE, NS_PARAM_ACTUATOR_BIAS, 2, true},
    {"control_lower", IN_DEF(control_lower), "", CONTROL, FREE, NS_PARAM_ACTUATOR_LIMIT, 0, true},
    {"control_upper", IN_DEF(control_upper), "", CONTROL, FREE, NS_PARAM_ACTUATOR_LIMIT, 1, true},
    {"force_lower", IN_DEF(force_lower), "", FORCE_LIMIT, FREE, NS_PARAM_ACTUATOR_LIMIT, 2, true},
    {"force_upper", IN_DEF(force_upper), "", FORCE_LIMIT, FREE, NS_PARAM_ACTUATOR_LIMIT, 3, true},
    {"activation_lower", IN_DEF(activation_lower), "", ACTIVATION, FREE, NS_PARAM_ACTUATOR_LIMIT, 4,
     true},
    {"activation_upper", IN_DEF(activation_upper), "", ACTIVATION, FREE, NS_PARAM_ACTUATOR_LIMIT, 5,
     true},
    {"peak_force", IN_DEF(muscle.force), "N", MUSCLE, NOT_NEGATIVE, NS_PARAM_ACTUATOR_GAIN, 3,
     true},
    {"deactivation_time", IN_DEF(deactivation_time), "s", MUSCLE_DYNAMICS, POSITIVE,
     NS_PARAM_ACTUATOR_TIME_CONSTANT, 1, false},
};

bool nsi_actuator_has_param(const ns_actuator_def* def, uint32_t k) {
    switch (actuator_rows[k].part) {
    case FILTERS:
        return def->dynamics != NS_DYNAMICS_NONE && def->dynamics != NS_DYNAMICS_INTEGRATOR;
    case GENERAL: return def->type == NS_ACTUATOR_GENERAL;
    case CONTROL: return def->control_limited;
    case FORCE_LIMIT: return def->force_limited;
    case ACTIVATION: return def->activation_limited;
    case MUSCLE: return def->type == NS_ACTUATOR_MUSCLE;
    case MUSCLE_DYNAMICS: return def->dynamics == NS_DYNAMICS_MUSCLE;
    case ALWAYS: break;
    }
    return true;
}

ns_param nsi_actuator_param(const nsi_actuator* actuator, uint32_t k,
                            char name[NSI_PARAM_NAME_SIZE]) {
    const actuator_row* row = &actuator_rows[k];
    double value;
    memcpy(&value, (const char*)&actuator->def + row->offset, sizeof value);
    snprintf(name, NSI_PARAM_NAME_SIZE, "actuator/%s/%s", actuator->def.name, row->name);
    ns_param param = make_param(value, row->unit, row->rule);
    param.kind = row->kind;
    param.component = row->component;
    param.may_vanish = row->may_vanish;
    return param;
}

ns_param nsi_medium_param(const ns_world_def* world, uint32_t k, char name[NSI_PARAM_NAME_SIZE]) {
    static const struct {
        const char *name, *unit;
    } rows[NSI_MEDIUM_PARAMS] = {{"density", "kg/m^3"},
                                 {"viscosity", "Pa s"},
                                 {"wind/x", "m/s"},
                                 {"wind/y", "m/s"},
                                 {"wind/z", "m/s"}};
    bool wind = k >= NSI_MEDIUM_WIND;
    double value = k == NSI_MEDIUM_DENSITY     ? world->density
                   : k == NSI_MEDIUM_VISCOSITY ? world->viscosity
                                               : world->wind[k - NSI_MEDIUM_WIND];
    snprintf(name, NSI_PARAM_NAME_SIZE, "world/%s", rows[k].name);
    ns_param param = make_param(value, rows[k].unit, wind ? FREE : NOT_NEGATIVE);
    param.kind = NS_PARAM_MEDIUM;
    param.component = k;
    param.spatial = wind;
    param.may_vanish = true;
    return param;
}

// A parameter of tendons.
typedef struct tendon_row {
    const char* name;
    size_t offset; // in ns_tendon_def
    const char* unit;
    param_rule rule;
    bool may_vanish;
} tendon_row;

#define IN_TENDON(field) offsetof(ns_tendon_def, field)

// Lengths of fixed tendons are whatever their coefficients make of the joints': no unit.
static const tendon_row tendon_rows[NSI_TENDON_PARAMS] = {
    {"stiffness", IN_TENDON(stiffness), "", NOT_NEGATIVE, true},
    {"damping", IN_TENDON(damping), "", NOT_NEGATIVE, true},
    {"rest", IN_TENDON(rest), "", FREE, false},
    {"slack", IN_TENDON(slack), "", NOT_NEGATIVE, true},
    {"friction", IN_TENDON(friction), "", NOT_NEGATIVE, true},
    {"friction_velocity", IN_TENDON(friction_velocity), "", POSITIVE, false},
    {"lower", IN_TENDON(lower), "", FREE, false},
    {"upper", IN_TENDON(upper), "", FREE, false},
    {"limit_stiffness", IN_TENDON(limit_stiffness), "", NOT_NEGATIVE, true},
    {"limit_damping", IN_TENDON(limit_damping), "", NOT_NEGATIVE, true},
};

ns_param nsi_tendon_param(const nsi_tendon* tendon, uint32_t k, char name[NSI_PARAM_NAME_SIZE]) {
    const tendon_row* row = &tendon_rows[k];
    double value;
    memcpy(&value, (const char*)&tendon->def + row->offset, sizeof value);
    snprintf(name, NSI_PARAM_NAME_SIZE, "tendon/%s/%s", tendon->def.name, row->name);
    ns_param param = make_param(value, row->unit, row->rule);
    param.kind = NS_PARAM_TENDON;
    param.component = k;
    param.may_vanish = row->may_vanish;
    return param;
}

const char* nsi_actuator_state(const ns_actuator_def* def) {
    if (def->type == NS_ACTUATOR_SERIES_ELASTIC) return "motor";
    return def->dynamics != NS_DYNAMICS_NONE ? "act" : NULL;
}

ns_param nsi_gravity_param(const ns_world_def* world, uint32_t k, char name[NSI_PARAM_NAME_SIZE]) {
    snprintf(name, NSI_PARAM_NAME_SIZE, "world/gravity/%c", "xyz"[k]);
    ns_param param = make_param(world->gravity[k], "m/s^2", FREE);
    param.kind = NS_PARAM_GRAVITY;
    param.spatial = true;
    param.component = k;
    return param;
}

// ---- geometries and pairs --------------------------------------------------------------------

typedef struct size_row {
    const char* names[3]; // NULL: no such size, or not a parameter
    const char* unit;
    param_rule rules[3];
    uint32_t naxis; // how many of them, from the first on, are along the axes x y z
} size_row;

static const size_row size_rows[] = {
    [NS_GEOM_SPHERE] = {.names = {"radius"}, .unit = "m", .rules = {POSITIVE}},
    [NS_GEOM_CAPSULE] = {.names = {"radius", "half_length"},
                         .unit = "m",
                         .rules = {POSITIVE, POSITIVE}},
    [NS_GEOM_CYLINDER] = {.names = {"radius", "half_length"},
                          .unit = "m",
                          .rules = {POSITIVE, POSITIVE}},
    [NS_GEOM_BOX] = {.names = {"half/x", "half/y", "half/z"},
                     .unit = "m",
                     .rules = {POSITIVE, POSITIVE, POSITIVE},
                     .naxis = 3},
    [NS_GEOM_PLANE] = {.unit = ""},
    [NS_GEOM_MESH] = {.names = {"scale/x", "scale/y", "scale/z"},
                      .unit = "",
                      .rules = {FREE, FREE, FREE},
                      .naxis = 3},
    [NS_GEOM_ELLIPSOID] = {.names = {"half/x", "half/y", "half/z"},
                           .unit = "m",
                           .rules = {POSITIVE, POSITIVE, POSITIVE},
                           .naxis = 3},
    [NS_GEOM_POLYGON] = {.names = {"half_thickness"}, .unit = "m", .rules = {NOT_NEGATIVE}},
    [NS_GEOM_ELLIPSE] = {.names = {"half/x", "half/y", "half_thickness"},
                         .unit = "m",
                         .rules = {POSITIVE, POSITIVE, NOT_NEGATIVE},
                         .naxis = 2},
    [NS_GEOM_POINTS] = {.unit = ""},
    [NS_GEOM_HFIELD] = {.names = {"half/x", "half/y", "height"},
                        .unit = "m",
                        .rules = {POSITIVE, POSITIVE, POSITIVE},
                        .naxis = 3},
};

uint32_t nsi_geom_param_count(const ns_geom_def* geom) {
    uint32_t count = 0;
    while (count < 3 && size_rows[geom->type].names[count]) count++;
    return NSI_GEOM_SIZE + count;
}

ns_param nsi_geom_param(const nsi_geom* geom, uint32_t k, char name[NSI_PARAM_NAME_SIZE]) {
    static const char* const origin[NSI_GEOM_SIZE] = {"origin/x",  "origin/y",  "origin/z",
                                                      "origin/rx", "origin/ry", "origin/rz"};

    // Pose first, then as many sizes as the type has.
    const ns_geom_def* def = &geom->def;
    const size_row* row = &size_rows[def->type];
    bool size = k >= NSI_GEOM_SIZE;
    snprintf(name, NSI_PARAM_NAME_SIZE, "geom/%s/%s", def->name,
             size ? row->names[k - NSI_GEOM_SIZE] : origin[k]);

    // The rotation is a change of the given one, so it begins at 0.
    ns_param param;
    if (size) {
        uint32_t i = k - NSI_GEOM_SIZE;
        param = make_param(def->size[i], row->unit, row->rules[i]);
        param.kind = NS_PARAM_GEOM_SIZE;
        param.component = i;
        param.spatial = i < row->naxis;
    } else if (k < NSI_GEOM_ROTATION) {
        param = make_param(def->pose.position[k], "m", FREE);
        param.kind = NS_PARAM_GEOM_ORIGIN;
        param.component = k;
    } else {
        param = make_param(0.0, "rad", FREE);
        param.kind = NS_PARAM_GEOM_ROTATION;
        param.component = k - NSI_GEOM_ROTATION;
    }
    param.spatial = param.spatial || kind_is_spatial(param.kind);
    return param;
}

// The rule of a contact law's parameter.
static param_rule contact_rule(const ns_contact_param* param) {
    if (param->lower == 0.0 && param->upper == 1.0) return SHARE;
    if (param->lower == 0.0 && param->upper == INFINITY) {
        return param->positive ? POSITIVE : NOT_NEGATIVE;
    }
    return FREE;
}

ns_param nsi_contact_param(const nsi_contact* contact, uint32_t k, char name[NSI_PARAM_NAME_SIZE]) {
    const ns_contact_param* row = nsi_contact_slot(k);
    snprintf(name, NSI_PARAM_NAME_SIZE, "contact/%s/%s", contact->def.name, row->name);
    ns_param param =
        make_param(nsi_contact_value(&contact->def, row), row->unit, contact_rule(row));
    param.lower = row->lower, param.upper = row->upper;
    if (isfinite(row->lower) && isfinite(row->upper)) param.transform = NS_TRANSFORM_BOX;
    param.kind = NS_PARAM_CONTACT;
    param.component = k;
    param.may_vanish = row->may_vanish;
    return param;
}

// ---- equality constraints --------------------------------------------------------------------

uint32_t nsi_equality_param_count(ns_equality_type type) {
    static const uint32_t counts[] = {[NS_EQUALITY_JOINT] = NSI_EQUALITY_COEFFICIENTS,
                                      [NS_EQUALITY_CONNECT] = NSI_EQUALITY_ROTATION,
                                      [NS_EQUALITY_WELD] = NSI_EQUALITY_ROTATION + 3};
    return counts[type];
}

ns_param nsi_equality_param(const nsi_equality_constraint* equality, uint32_t k,
                            char name[NSI_PARAM_NAME_SIZE]) {
    // A polynomial has units of both joints: left open.
    const ns_equality_def* def = &equality->def;
    ns_param param;
    if (def->type == NS_EQUALITY_JOINT) {
        snprintf(name, NSI_PARAM_NAME_SIZE, "equality/%s/coefficient/%u", def->name, k);
        param = make_param(def->coefficients[k], "", FREE);
        param.kind = NS_PARAM_EQUALITY_COEFFICIENT;
        param.component = k;
        param.may_vanish = true;
        return param;
    }

    // The rotation is a change of the given one, so it begins at 0.
    bool turns = k >= NSI_EQUALITY_ROTATION, second = k >= NSI_EQUALITY_ANCHOR_B;
    const ns_pose* anchor = second ? &def->anchor_b : &def->anchor_a;
    snprintf(name, NSI_PARAM_NAME_SIZE, "equality/%s/%s/%c", def->name,
             turns    ? "rotation"
             : second ? "anchor_b"
                      : "anchor_a",
             "xyz"[k % 3]);
    param = make_param(turns ? 0.0 : anchor->position[k % 3], turns ? "rad" : "m", FREE);
    param.kind = turns ? NS_PARAM_EQUALITY_ROTATION : NS_PARAM_EQUALITY_ANCHOR;
    param.component = turns ? k - NSI_EQUALITY_ROTATION : k;
    param.spatial = true;
    return param;
}

// ---- finding ---------------------------------------------------------------------------------

const ns_param* ns_model_param(const ns_model* model, uint32_t number) {
    return model && number < model->sizes.nparam ? &model->params[number] : NULL;
}

uint32_t ns_model_find_param(const ns_model* model, const char* name) {
    if (!model || !name) return NSI_NONE;
    uint32_t mask = model->param_table_size - 1;
    uint32_t at = nsi_hash_bytes(name, strlen(name)) & mask;
    for (; model->param_table[at] != NSI_NONE; at = (at + 1) & mask) {
        if (strcmp(model->params[model->param_table[at]].name, name) == 0) {
            return model->param_table[at];
        }
    }
    return NSI_NONE;
}

// The bytes after a UTF-8 character that is not empty.
static const char* next_character(const char* at) {
    at++;
    while (((unsigned char)*at & 0xC0) == 0x80) at++;
    return at;
}

// Only the latest `*` and the latest `**` can need another try: what an earlier one took is as good
// as anything it could take instead (a later `*` may start anywhere after it), except that a `*`
// cannot pass a '/', where the latest `**` goes on. Each is a pointer moving forward, so the time
// is at most pattern times name times name, with no recursion.
bool ns_glob_match(const char* pattern, const char* name) {
    if (!pattern || !name) return false;
    const char *star = NULL, *star_name = NULL;   // after the latest `*`, and where it ends
    const char *stars = NULL, *stars_name = NULL; // the same for `**`

    for (;;) {
        // A star takes nothing at first, and more when the rest does not fit.
        if (*pattern == '*') {
            if (pattern[1] == '*') {
                while (*pattern == '*') pattern++;
                stars = pattern, stars_name = name;
                star = NULL;
            } else {
                star = ++pattern, star_name = name;
            }
            continue;
        }

        if (*pattern == '\0' && *name == '\0') return true;
        if (*name != '\0' && *name != '/' && *pattern == '?') {
            pattern++, name = next_character(name);
            continue;
        }
        if (*name != '\0' && *pattern == *name) {
            pattern++, name++;
            continue;
        }
        // Let the latest `*` take one more byte, or else the latest `**`.
        if (star && *star_name != '\0' && *star_name != '/') {
            pattern = star, name = ++star_name;
        } else if (stars && *stars_name != '\0') {
            pattern = stars, name = ++stars_name;
            star = NULL;
        } else {
            return false;
        }
    }
}
