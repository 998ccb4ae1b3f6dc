// <frame> and <replicate>: elements of the tree that group others and move them.
//
// Both are taken out of the tree. What is in a frame takes its place and keeps a pointer to it, by which
// nsi_mjcf_pose() and nsi_mjcf_find_class() find its pose and its childclass. A replicate becomes
// frames with copies of what is in it, of which names have a number at the end:
//
//   <replicate count="3" offset="0.1 0 0" euler="0 0 10" sep="_"> <body name="b"/> </replicate>
//   b_0, b_1, b_2; each turned by 10 degrees and moved along the axes of the one before
//
// Elements outside that name such a body, joint, geom or site are copied as well, with the same number.

#include "io/mjcf.h"
#include "model/pose.h"

#include <stdio.h>

// ---- copies --------------------------------------------------------------------------------

// What is copied: an element with all that is in it, and what refers to it.
typedef struct replicator {
    nsi_mjcf* m;
    nsi_names names; // of elements inside: kind, space, name
    NSI_ARRAY(nsi_xml_element*) referring;
    char suffix[40];
} replicator;

// The kind of an element that others can refer to, by the words of `reference_kinds`.
static const char* element_kind(const nsi_xml_element* element) {
    const char* section = element->parent ? element->parent->name : "";
    if (nsi_word_in("tendon actuator sensor", section)) return section;
    return strcmp(element->name, "freejoint") == 0 ? "joint" : element->name;
}

// The kind that an attribute refers to, NULL for one that is no reference.
static const char* reference_kind(const nsi_xml_element* element, const char* attribute) {
    static const struct {
        const char *attributes, *kind;
    } kinds[] = {{"joint joint1 joint2 jointinparent", "joint"},
                 {"geom geom1 geom2", "geom"},
                 {"body body1 body2 target", "body"},
                 {"site site1 site2 refsite cranksite slidersite sidesite", "site"},
                 {"tendon tendon1 tendon2", "tendon"},
                 {"actuator", "actuator"}};
    if (strcmp(attribute, "name") == 0) return element_kind(element);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        if (nsi_word_in(kinds[k].attributes, attribute)) return kinds[k].kind;
    }
    const char* type = strcmp(attribute, "objname") == 0   ? nsi_xml_value(element, "objtype")
                       : strcmp(attribute, "refname") == 0 ? nsi_xml_value(element, "reftype")
                                                           : NULL;
    return type && strcmp(type, "xbody") == 0 ? "body" : type;
}

// "joint elbow"; false for a name that is too long for a model.
enum { KEY_SIZE = NSI_MODEL_MAX_NAME + 220 };

static bool make_key(const char* kind, const char* name, char out[KEY_SIZE]) {
    if (strlen(name) > NSI_MODEL_MAX_NAME || strlen(kind) > NSI_XML_MAX_NAME) return false;
    snprintf(out, KEY_SIZE, "%s %s", kind, name);
    return true;
}

// Is this the name of something that is copied, or a reference to it?
static bool is_copied(const replicator* r, const nsi_xml_element* element,
                      const nsi_xml_attribute* a) {
    char key[KEY_SIZE];
    const char* kind = reference_kind(element, a->name);
    return kind && make_key(kind, a->value, key) && nsi_names_find(&r->names, key) != NSI_NONE;
}

static bool has_reference(const replicator* r, const nsi_xml_element* element) {
    for (uint32_t k = 0; k < element->nattributes; k++) {
        if (is_copied(r, element, &element->attributes[k])) return true;
    }
    for (const nsi_xml_element* e = element->first_child; e; e = e->next) {
        if (has_reference(r, e)) return true;
    }
    return false;
}

// The names of an element and of all in it.
static bool collect_inner_names(replicator* r, const nsi_xml_element* element) {
    char key[KEY_SIZE];
    const char* name = nsi_xml_value(element, "name");
    if (name && make_key(element_kind(element), name, key) &&
        nsi_names_find(&r->names, key) == NSI_NONE) {
        const char* kept = nsi_arena_string(&r->m->strings, key, strlen(key));
        if (!kept) return nsi_reader_fail_nomem(r->m->reader);
        if (!nsi_names_add(r->m->reader, &r->names, kept, element)) return false;
    }
    for (const nsi_xml_element* child = element->first_child; child; child = child->next) {
        if (!collect_inner_names(r, child)) return false;
    }
    return true;
}

// Names of copies, and references to them, get the suffix.
static bool copy_attribute(replicator* r, const nsi_xml_element* element,
                           const nsi_xml_attribute* from, nsi_xml_attribute* to) {
    *to = *from;
    if (!is_copied(r, element, from)) return true;
    size_t length = strlen(from->value), more = strlen(r->suffix);
    char* text = nsi_arena_alloc(&r->m->reader->xml->arena, length + more + 1);
    if (!text) return nsi_reader_fail_nomem(r->m->reader);
    memcpy(text, from->value, length);
    memcpy(text + length, r->suffix, more + 1);
    to->value = text;
    return true;
}

static void append_child(nsi_xml_element* parent, nsi_xml_element* child) {
    child->parent = parent;
    child->next = NULL;
    if (parent->last_child) {
        parent->last_child->next = child;
    } else {
        parent->first_child = child;
    }
    parent->last_child = child;
}

// A new element, and room for its attributes; NULL after a failure. They count like those of the file.
static nsi_xml_element* new_element(nsi_mjcf* m, const nsi_xml_element* from, uint32_t nattributes,
                                    nsi_xml_attribute** attributes) {
    nsi_xml* xml = m->reader->xml;
    if (xml->nelements >= NSI_XML_MAX_ELEMENTS) {
        nsi_reader_fail(m->reader, from, NS_ERR_LIMIT,
                        "there are more than %d elements, copies included", NSI_XML_MAX_ELEMENTS);
        return NULL;
    }
    xml->nelements++;
    nsi_xml_element* element = nsi_arena_alloc(&xml->arena, sizeof *element);
    *attributes = nsi_arena_alloc(&xml->arena, (nattributes + 1) * sizeof **attributes);
    if (element && *attributes) return element;
    nsi_reader_fail_nomem(m->reader);
    return NULL;
}

// A copy at the end of a parent's children. Recursion is bounded by the depth of a document.
static bool copy_element(replicator* r, const nsi_xml_element* from, nsi_xml_element* parent) {
    nsi_xml_attribute* attributes;
    nsi_xml_element* copy = new_element(r->m, from, from->nattributes, &attributes);
    if (!copy) return false;
    *copy = *from;
    copy->attributes = attributes;
    copy->first_child = copy->last_child = NULL;
    for (uint32_t k = 0; k < from->nattributes; k++) {
        if (!copy_attribute(r, from, &from->attributes[k], &attributes[k])) return false;
    }
    append_child(parent, copy);
    for (const nsi_xml_element* child = from->first_child; child; child = child->next) {
        if (!copy_element(r, child, copy)) return false;
    }
    return true;
}

// ---- replicate -----------------------------------------------------------------------------

// A frame at the end of a parent's children, where one copy is.
static bool add_frame(nsi_mjcf* m, const nsi_xml_element* replicate, nsi_xml_element* parent,
                      const ns_pose* pose, nsi_xml_element** out) {
    nsi_arena* arena = &m->reader->xml->arena;
    const double *p = pose->position, *q = pose->quaternion;
    const char* class_name = nsi_xml_value(replicate, "childclass");
    char position[100], turn[130];
    snprintf(position, sizeof position, "%.17g %.17g %.17g", p[0], p[1], p[2]);
    snprintf(turn, sizeof turn, "%.17g %.17g %.17g %.17g", q[0], q[1], q[2], q[3]);
    nsi_xml_attribute* attributes;
    nsi_xml_element* frame = new_element(m, replicate, 3, &attributes);
    if (!frame) return false;
    const char* pos = nsi_arena_string(arena, position, strlen(position));
    const char* quat = nsi_arena_string(arena, turn, strlen(turn));
    if (!pos || !quat) return nsi_reader_fail_nomem(m->reader);
    attributes[0] = (nsi_xml_attribute){"pos", pos};
    attributes[1] = (nsi_xml_attribute){"quat", quat};
    attributes[2] = (nsi_xml_attribute){"childclass", class_name};
    *frame = (nsi_xml_element){.name = "frame",
                               .attributes = attributes,
                               .nattributes = class_name ? 3 : 2,
                               .line = replicate->line,
                               .file = replicate->file};
    append_child(parent, frame);
    *out = frame;
    return true;
}

typedef struct replicate {
    uint32_t count;
    double offset[3], euler[3];
    const char* separator;
} replicate;

static bool read_replicate(nsi_mjcf* m, const nsi_xml_element* element, replicate* out) {
    const char* text;
    double count = 0.0;
    *out = (replicate){.separator = nsi_xml_value(element, "sep")};
    if (!out->separator) out->separator = "";
    if (!nsi_reader_required(m->reader, element, "count", &text) ||
        !nsi_reader_number(m->reader, element, "count", &count) ||
        !nsi_reader_vector(m->reader, element, "offset", out->offset) ||
        !nsi_reader_vector(m->reader, element, "euler", out->euler)) {
        return false;
    }
    if (!(count >= 1.0 && count <= NSI_XML_MAX_ELEMENTS) || count != (double)(uint32_t)count) {
        return nsi_reader_fail(m->reader, element, NS_ERR_PARSE,
                               "count must be an integer from 1 to %d", NSI_XML_MAX_ELEMENTS);
    }
    if (strlen(out->separator) > 20) {
        return nsi_reader_fail(m->reader, element, NS_ERR_PARSE, "sep is longer than 20 bytes");
    }
    out->count = (uint32_t)count;
    return true;
}

// Each replicate looks at all elements that might refer to what it copies.
enum { MAX_REPLICATES = 1000, MAX_LOOKS = 4 << 20 };

// Which elements of other sections refer to what is copied? Their names count as well, for later ones.
static bool collect_referring(replicator* r) {
    static const char sections[] = "contact tendon equality actuator sensor";
    nsi_xml_element* section = r->m->reader->xml->root->first_child;
    for (; section; section = section->next) {
        if (!nsi_word_in(sections, section->name)) continue;
        for (nsi_xml_element* e = section->first_child; e; e = e->next) {
            if (++r->m->nlooks > MAX_LOOKS) {
                return nsi_reader_fail(
                    r->m->reader, e, NS_ERR_LIMIT,
                    "there are too many replicates together with elements that "
                    "could refer to them; put several bodies into one replicate");
            }
            if (!has_reference(r, e)) continue;
            if (!collect_inner_names(r, e)) return false;
            if (!nsi_array_push(&r->m->reader->allocator, &r->referring, e)) {
                return nsi_reader_fail_nomem(r->m->reader);
            }
        }
    }
    return true;
}

// Remove what has been copied from its section.
static void remove_referring(replicator* r) {
    // They are in the order of the document.
    nsi_xml_element* before = NULL;
    for (uint32_t k = 0; k < r->referring.count; k++) {
        nsi_xml_element* e = r->referring.data[k];
        if (before && before->parent != e->parent) before = NULL;
        nsi_xml_element* at = before ? before->next : e->parent->first_child;
        for (; at != e; at = at->next) before = at;
        e->first_child = e->last_child = NULL;
        nsi_xml_dissolve(e, before);
    }
}

// The children become frames with copies of them.
static bool expand_replicate(replicator* r, nsi_xml_element* element) {
    nsi_mjcf* m = r->m;
    replicate what;
    if (!read_replicate(m, element, &what)) return false;
    nsi_xml_element* inside = element->first_child;
    for (const nsi_xml_element* child = inside; child; child = child->next) {
        if (!collect_inner_names(r, child)) return false;
    }
    if (!collect_referring(r)) return false;
    element->first_child = element->last_child = NULL;

    // Suffixes have as many digits as the count.
    int digits = snprintf(NULL, 0, "%u", what.count);
    ns_pose pose = nsi_pose_identity();
    for (uint32_t k = 0; k < what.count; k++) {
        snprintf(r->suffix, sizeof r->suffix, "%.20s%0*u", what.separator, digits, k);

        // Turned by k times the angles; moved along the axes of the copy before.
        double angles[3], moved[3];
        nsi_xml_element* frame = NULL;
        for (int i = 0; i < 3; i++) angles[i] = k * what.euler[i];
        nsi_mjcf_quat_from_euler(m, angles, pose.quaternion);
        if (!add_frame(m, element, element, &pose, &frame)) return false;
        for (const nsi_xml_element* child = inside; child; child = child->next) {
            if (!copy_element(r, child, frame)) return false;
        }
        for (uint32_t i = 0; i < r->referring.count; i++) {
            if (!copy_element(r, r->referring.data[i], r->referring.data[i]->parent)) return false;
        }
        nsi_quat_rotate(pose.quaternion, what.offset, moved);
        for (int i = 0; i < 3; i++) pose.position[i] += moved[i];
    }
    remove_referring(r);
    return true;
}

// Inner ones first, so that their copies are copied.
static bool expand_replicates(nsi_mjcf* m, nsi_xml_element* parent) {
    for (nsi_xml_element* child = parent->first_child; child; child = child->next) {
        if (!expand_replicates(m, child)) return false;
    }
    nsi_xml_element *before = NULL, *child = parent->first_child, *next;
    for (; child; child = next) {
        next = child->next;
        if (strcmp(child->name, "replicate") != 0) {
            before = child;
            continue;
        }
        if (++m->nreplicates > MAX_REPLICATES) {
            return nsi_reader_fail(m->reader, child, NS_ERR_LIMIT, "there are more than %d",
                                   MAX_REPLICATES);
        }
        replicator r = {.m = m};
        bool expanded = expand_replicate(&r, child);
        nsi_names_free(&m->reader->allocator, &r.names);
        nsi_array_free(&m->reader->allocator, &r.referring);
        if (!expanded) return false;

        // The frames stay.
        if (child->first_child) {
            nsi_xml_element* last = child->last_child;
            nsi_xml_dissolve(child, before);
            before = last;
        } else {
            nsi_xml_dissolve(child, before);
        }
    }
    return true;
}

// ---- frame ---------------------------------------------------------------------------------

static bool dissolve_frames(nsi_mjcf* m, nsi_xml_element* parent) {
    nsi_xml_element *before = NULL, *child = parent->first_child;
    while (child) {
        if (strcmp(child->name, "frame") != 0) {
            if (!dissolve_frames(m, child)) return false;
            before = child;
            child = child->next;
            continue;
        }
        const nsi_xml_element* inertial = nsi_xml_child(child, "inertial");
        if (inertial) {
            return nsi_reader_fail(m->reader, inertial, NS_ERR_PARSE,
                                   "must be directly in a <body>, not in a frame");
        }
        // What has taken its place may be a frame again.
        for (nsi_xml_element* e = child->first_child; e; e = e->next) e->frame = child;
        nsi_xml_dissolve(child, before);
        child = before ? before->next : parent->first_child;
    }
    return true;
}

bool nsi_mjcf_expand_frames(nsi_mjcf* m) {
    nsi_xml_element* element = m->reader->xml->root->first_child;
    for (; element; element = element->next) {
        if (strcmp(element->name, "worldbody") == 0 &&
            (!expand_replicates(m, element) || !dissolve_frames(m, element))) {
            return false;
        }
    }
    return true;
}
