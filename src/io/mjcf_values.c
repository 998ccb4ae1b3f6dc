// Attributes of MJCF elements, with inheritance from default classes; poses and orientations.

#include "io/mjcf.h"
#include "model/pose.h"

#include <stdio.h>

const char* const nsi_mjcf_kind_names[NSI_MJCF_KINDS] = {
    "joint", "geom",     "mesh",     "material", "pair",        "equality", "site",     "tendon",
    "motor", "position", "velocity", "general",  "intvelocity", "damper",   "cylinder", "muscle"};

// ---- blanks ----------------------------------------------------------------------------------

// Drop the blank attributes of one element. Names may be blank, which means none, and separators.
static bool drop_own_blanks(nsi_reader* reader, nsi_xml_element* element) {
    nsi_xml_attribute* kept = NULL;
    uint32_t count = 0;
    for (uint32_t k = 0; k < element->nattributes; k++) {
        const nsi_xml_attribute* a = &element->attributes[k];
        bool blank = a->value[strspn(a->value, " \t\r\n")] == '\0';
        if (!blank || nsi_word_in("model sep prefix", a->name)) {
            if (kept) kept[count] = *a;
            count++;
            continue;
        }
        // The first blank one: copy those before it.
        if (!kept) {
            kept = nsi_arena_alloc(&reader->xml->arena, element->nattributes * sizeof *kept);
            if (!kept) return nsi_reader_fail_nomem(reader);
            memcpy(kept, element->attributes, count * sizeof *kept);
        }
        if (!nsi_reader_note(reader, element, "%.60s is blank: ignored", a->name)) return false;
    }
    if (kept) {
        element->attributes = kept;
        element->nattributes = count;
    }
    return true;
}

// Recursion is bounded by the depth of a document.
static bool drop_blanks(nsi_reader* reader, nsi_xml_element* element) {
    if (!drop_own_blanks(reader, element)) return false;
    for (nsi_xml_element* child = element->first_child; child; child = child->next) {
        if (!drop_blanks(reader, child)) return false;
    }
    return true;
}

bool nsi_mjcf_drop_blanks(nsi_reader* reader) {
    return drop_blanks(reader, reader->xml->root);
}

// ---- default classes -------------------------------------------------------------------------

enum { MAX_CLASSES = 4096 };

static bool set_default(nsi_mjcf* m, nsi_mjcf_class* c, nsi_mjcf_kind kind, nsi_mjcf_source given) {
    for (uint32_t i = 0; i < c->attributes[kind].count; i++) {
        nsi_mjcf_source* old = &c->attributes[kind].data[i];
        if (strcmp(old->attribute->name, given.attribute->name) == 0) {
            *old = given;
            return true;
        }
    }
    if (nsi_array_push(&m->reader->allocator, &c->attributes[kind], given)) return true;
    return nsi_reader_fail_nomem(m->reader);
}

static bool is_actuator(nsi_mjcf_kind kind) {
    return kind >= NSI_MJCF_MOTOR;
}

static bool names_actuator(const nsi_xml_element* element) {
    for (nsi_mjcf_kind kind = NSI_MJCF_MOTOR; kind < NSI_MJCF_KINDS; kind++) {
        if (strcmp(element->name, nsi_mjcf_kind_names[kind]) == 0) return true;
    }
    return false;
}

// The attributes of one element of a <default>. Actuators of all kinds have one set of defaults in
// MuJoCo, so what they share holds for all of them.
static bool set_defaults(nsi_mjcf* m, nsi_mjcf_class* c, const nsi_xml_element* element) {
    for (nsi_mjcf_kind kind = 0; kind < NSI_MJCF_KINDS; kind++) {
        bool same = strcmp(element->name, nsi_mjcf_kind_names[kind]) == 0;
        bool related = is_actuator(kind) && nsi_schema_find(nsi_mjcf_schema, element) &&
                       names_actuator(element);
        if (!same && !related) continue;
        const nsi_schema_row* row = nsi_schema_find(nsi_mjcf_schema, element);
        for (uint32_t i = 0; i < element->nattributes; i++) {
            const nsi_xml_attribute* attribute = &element->attributes[i];
            bool read = same ? nsi_schema_reads(row, attribute->name)
                             : nsi_word_in(NSI_MJCF_ACTUATOR, attribute->name);
            if (!read || nsi_word_in("name class joint geom1 geom2", attribute->name)) {
                continue;
            }
            if (!set_default(m, c, kind, (nsi_mjcf_source){element, attribute})) return false;
        }
    }
    return true;
}

// Recursion is bounded by the depth of a document.
static bool read_default(nsi_mjcf* m, const nsi_xml_element* element, uint32_t parent) {
    // The main class exists from the start.
    const char* name = nsi_xml_value(element, "class");
    uint32_t number = NSI_MJCF_MAIN_CLASS;

    // The outermost <default> elements all describe the main class.
    if (parent == NSI_NONE) {
        if (name && nsi_names_find(&m->class_names, name) != NSI_MJCF_MAIN_CLASS) {
            return nsi_reader_fail(m->reader, element, NS_ERR_PARSE,
                                   "top-level <default> elements all define the main class; nest "
                                   "this class in another <default>");
        }
    } else {
        // Nested ones start a class that inherits everything from its parent.
        // Names of classes are global.
        if (!nsi_reader_required(m->reader, element, "class", &name)) return false;
        if (nsi_names_find(&m->class_names, name) != NSI_NONE) {
            return nsi_reader_fail(m->reader, element, NS_ERR_PARSE,
                                   "there is already a class \"%.100s\"", name);
        }
        // Bound memory, since each class copies its parent's attributes.
        if (m->classes.count >= MAX_CLASSES) {
            return nsi_reader_fail(m->reader, element, NS_ERR_LIMIT,
                                   "there are more than %d default classes", MAX_CLASSES);
        }

        number = m->classes.count;
        if (!nsi_array_push(&m->reader->allocator, &m->classes, (nsi_mjcf_class){0})) {
            return nsi_reader_fail_nomem(m->reader);
        }
        if (!nsi_names_add(m->reader, &m->class_names, name, element)) return false;

        // Copy the attributes by kind of element; own ones override them later.
        for (nsi_mjcf_kind kind = 0; kind < NSI_MJCF_KINDS; kind++) {
            for (uint32_t i = 0; i < m->classes.data[parent].attributes[kind].count; i++) {
                nsi_mjcf_source inherited = m->classes.data[parent].attributes[kind].data[i];
                if (!set_default(m, &m->classes.data[number], kind, inherited)) return false;
            }
        }
    }

    // The class's own attributes come before its subclasses, wherever they are in the file.
    for (const nsi_xml_element* child = element->first_child; child; child = child->next) {
        if (!set_defaults(m, &m->classes.data[number], child)) return false;
    }

    // Then its subclasses, which inherit them.
    const nsi_xml_element* child = nsi_xml_child(element, "default");
    for (; child; child = nsi_xml_next(child, "default")) {
        if (!read_default(m, child, number)) return false;
    }
    return true;
}

bool nsi_mjcf_read_defaults(nsi_mjcf* m) {
    const nsi_xml_element* root = m->reader->xml->root;
    const nsi_xml_element* element = nsi_xml_child(root, "default");
    const char* main_name = element ? nsi_xml_value(element, "class") : NULL;
    if (!nsi_array_push(&m->reader->allocator, &m->classes, (nsi_mjcf_class){0})) {
        return nsi_reader_fail_nomem(m->reader);
    }
    if (!nsi_names_add(m->reader, &m->class_names, main_name ? main_name : "main", element)) {
        return false;
    }
    for (; element; element = nsi_xml_next(element, "default")) {
        if (!read_default(m, element, NSI_NONE)) return false;
    }
    return true;
}

void nsi_mjcf_free_defaults(nsi_mjcf* m) {
    const ns_allocator* allocator = &m->reader->allocator;
    for (uint32_t i = 0; i < m->classes.count; i++) {
        for (nsi_mjcf_kind kind = 0; kind < NSI_MJCF_KINDS; kind++) {
            nsi_array_free(allocator, &m->classes.data[i].attributes[kind]);
        }
    }
    nsi_array_free(allocator, &m->classes);
    nsi_names_free(allocator, &m->class_names);
}

bool nsi_mjcf_find_class(nsi_mjcf* m, const nsi_xml_element* element, const char* attribute,
                         uint32_t otherwise, uint32_t* out) {
    *out = otherwise;
    const char* name = nsi_xml_value(element, attribute);
    for (const nsi_xml_element* frame = element->frame; frame && !name; frame = frame->frame) {
        element = frame;
        name = nsi_xml_value(frame, "childclass");
    }
    if (!name) return true;
    *out = nsi_names_find(&m->class_names, name);
    if (*out != NSI_NONE) return true;
    return nsi_reader_fail(m->reader, element, NS_ERR_PARSE, "there is no default class \"%.100s\"",
                           name);
}

// ---- attributes ------------------------------------------------------------------------------

nsi_mjcf_item nsi_mjcf_plain(const nsi_xml_element* element) {
    return (nsi_mjcf_item){element, NSI_MJCF_KINDS, NSI_MJCF_MAIN_CLASS};
}

const nsi_xml_element* nsi_mjcf_holder(const nsi_mjcf* m, nsi_mjcf_item c, const char* attribute) {
    if (nsi_xml_find(c.element, attribute)) return c.element;
    if (c.kind == NSI_MJCF_KINDS) return NULL;
    const nsi_mjcf_class* defaults = &m->classes.data[c.class_number];
    for (uint32_t i = 0; i < defaults->attributes[c.kind].count; i++) {
        const nsi_mjcf_source* from = &defaults->attributes[c.kind].data[i];
        if (strcmp(from->attribute->name, attribute) == 0) return from->element;
    }
    return NULL;
}

const char* nsi_mjcf_text(const nsi_mjcf* m, nsi_mjcf_item c, const char* attribute) {
    const nsi_xml_element* element = nsi_mjcf_holder(m, c, attribute);
    return element ? nsi_xml_value(element, attribute) : NULL;
}

bool nsi_mjcf_numbers(nsi_mjcf* m, nsi_mjcf_item c, const char* attribute, uint32_t min,
                      uint32_t max, double* out, uint32_t* count) {
    *count = 0;
    const nsi_xml_element* element = nsi_mjcf_holder(m, c, attribute);
    return !element || nsi_reader_numbers(m->reader, element, attribute, min, max, out, count);
}

bool nsi_mjcf_number(nsi_mjcf* m, nsi_mjcf_item c, const char* attribute, double* out) {
    uint32_t count;
    return nsi_mjcf_numbers(m, c, attribute, 1, 1, out, &count);
}

bool nsi_mjcf_word(nsi_mjcf* m, nsi_mjcf_item c, const char* attribute, const char* const* words,
                   uint32_t* out) {
    const nsi_xml_element* element = nsi_mjcf_holder(m, c, attribute);
    if (!element) return true;
    const char* text = nsi_xml_value(element, attribute);
    for (uint32_t k = 0; words[k]; k++) {
        if (strcmp(words[k], text) == 0) {
            *out = k;
            return true;
        }
    }
    char list[120] = "";
    for (uint32_t k = 0; words[k]; k++) {
        size_t length = strlen(list);
        snprintf(list + length, sizeof list - length, "%s%s", k > 0 ? ", " : "", words[k]);
    }
    return nsi_reader_fail(m->reader, element, NS_ERR_PARSE, "%s: \"%.40s\" is none of %s",
                           attribute, text, list);
}

bool nsi_mjcf_limit(nsi_mjcf* m, nsi_mjcf_item c, const char* limited, const char* range,
                    bool* is_limited, double limits[2]) {
    static const char* const words[] = {"false", "true", "auto", NULL};
    enum { NO, YES, AUTO };
    uint32_t word = AUTO, count;
    if (!nsi_mjcf_word(m, c, limited, words, &word) ||
        !nsi_mjcf_numbers(m, c, range, 2, 2, limits, &count)) {
        return false;
    }
    *is_limited = word == YES || (word == AUTO && m->autolimits && count > 0);
    if (word == AUTO && !m->autolimits && count > 0) {
        return nsi_reader_note(m->reader, c.element,
                               "has %s without %s=\"true\", and autolimits is off: no limit", range,
                               limited);
    }
    if (*is_limited && !(count == 2 && limits[0] < limits[1])) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "%s must be two numbers, the first less than the second, since %s "
                               "is true",
                               range, limited);
    }
    return true;
}

// ---- poses -----------------------------------------------------------------------------------

void nsi_mjcf_quat_from_euler(const nsi_mjcf* m, const double angles[3], double q[4]) {
    q[0] = 1.0, q[1] = q[2] = q[3] = 0.0;
    for (int i = 0; i < 3; i++) {
        char letter = m->eulerseq[i];
        bool fixed_axes = letter >= 'X' && letter <= 'Z';
        double axis[3] = {0.0, 0.0, 0.0}, turn[4];
        axis[letter - (fixed_axes ? 'X' : 'x')] = 1.0;
        nsi_quat_from_axis(axis, angles[i] * m->angle, turn);
        if (fixed_axes) {
            nsi_quat_multiply(turn, q, q);
        } else {
            nsi_quat_multiply(q, turn, q);
        }
    }
    nsi_normalize(q, 4);
}

// x and y axes, made perpendicular as MuJoCo does.
static bool quat_from_axes(const double axes[6], double q[4]) {
    double x[3], y[3], z[3];
    memcpy(x, axes, sizeof x);
    memcpy(y, axes + 3, sizeof y);
    if (!nsi_normalize(x, 3)) return false;
    double along = x[0] * y[0] + x[1] * y[1] + x[2] * y[2];
    for (int i = 0; i < 3; i++) y[i] -= along * x[i];
    if (!nsi_normalize(y, 3)) return false;
    nsi_cross(x, y, z);
    const double r[9] = {x[0], y[0], z[0], x[1], y[1], z[1], x[2], y[2], z[2]};
    nsi_quat_from_matrix(r, q);
    return true;
}

bool nsi_mjcf_orientation(nsi_mjcf* m, nsi_mjcf_item c, double q[4], bool* given) {
    // Forms of an orientation, with their sizes.
    static const struct {
        const char* name;
        uint32_t count;
    } forms[] = {{"quat", 4}, {"axisangle", 4}, {"euler", 3}, {"xyaxes", 6}, {"zaxis", 3}};
    // Without any form: the identity.
    q[0] = 1.0, q[1] = q[2] = q[3] = 0.0;
    *given = false;

    // Attributes of the element take precedence over those of its default class.
    uint32_t own = 0, which = NSI_NONE;
    for (uint32_t k = 0; k < 5; k++) {
        if (nsi_xml_find(c.element, forms[k].name)) {
            own++;
            which = k;
        }
    }
    // MuJoCo refuses several forms, too.
    if (own > 1) {
        return nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                               "there is more than one of quat, axisangle, euler, xyaxes, zaxis; "
                               "keep one");
    }

    // Otherwise the default class may give one.
    for (uint32_t k = 0; k < 5 && which == NSI_NONE; k++) {
        if (nsi_mjcf_holder(m, c, forms[k].name)) which = k;
    }
    if (which == NSI_NONE) return true;

    // Read the numbers of the form that applies.
    double v[6] = {0.0};
    uint32_t count;
    if (!nsi_mjcf_numbers(m, c, forms[which].name, forms[which].count, forms[which].count, v,
                          &count)) {
        return false;
    }

    // Convert to a quaternion; only angles depend on the unit of the file.
    *given = true;
    bool good = true;
    switch (which) {
    // quat: w, x, y, z.
    case 0:
        memcpy(q, v, 4 * sizeof *q);
        good = nsi_normalize(q, 4);
        break;
    case 1:
        // axisangle: axis, then angle.
        good = nsi_normalize(v, 3);
        if (good) nsi_quat_from_axis(v, v[3] * m->angle, q);
        break;
    case 2: nsi_mjcf_quat_from_euler(m, v, q); break;
    case 3: good = quat_from_axes(v, q); break;
    default:
        // zaxis: the shortest rotation from z.
        good = nsi_normalize(v, 3);
        if (good) nsi_quat_from_z(v, q);
        break;
    }

    // Zero or parallel vectors define no rotation.
    return good || nsi_reader_fail(m->reader, c.element, NS_ERR_PARSE,
                                   "%s gives no rotation; its vectors must not be zero or parallel",
                                   forms[which].name);
}

bool nsi_mjcf_own_pose(nsi_mjcf* m, nsi_mjcf_item c, ns_pose* pose) {
    *pose = nsi_pose_identity();
    uint32_t count;
    bool given;
    return nsi_mjcf_numbers(m, c, "pos", 3, 3, pose->position, &count) &&
           nsi_mjcf_orientation(m, c, pose->quaternion, &given);
}

bool nsi_mjcf_frame_pose(nsi_mjcf* m, const nsi_xml_element* element, ns_pose* pose) {
    *pose = nsi_pose_identity();
    for (const nsi_xml_element* frame = element->frame; frame; frame = frame->frame) {
        ns_pose own;
        if (!nsi_mjcf_own_pose(m, nsi_mjcf_plain(frame), &own)) return false;
        *pose = nsi_pose_compose(&own, pose);
    }
    return true;
}

bool nsi_mjcf_pose(nsi_mjcf* m, nsi_mjcf_item c, ns_pose* pose) {
    ns_pose own, frames;
    if (!nsi_mjcf_own_pose(m, c, &own) || !nsi_mjcf_frame_pose(m, c.element, &frames)) return false;
    *pose = nsi_pose_compose(&frames, &own);
    return true;
}
