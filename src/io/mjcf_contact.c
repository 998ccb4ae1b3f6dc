// Contact in MJCF: contact pairs and their friction.
//
// A geom takes part in contact if it has a contype or conaffinity or a <pair> names it, unless a flag
// disables contact. Of two geoms MuJoCo takes the larger condim and the larger friction, or those of
// the geom with the higher priority; condim 1 is frictionless, 4 adds torsional and 6
// rolling friction. The parameters of a <pair> override those of its geoms.

#include "io/mjcf.h"

#include "contact/law.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Bits of an integer, which may be written as a negative one.
static bool read_bits(nsi_mjcf* m, nsi_mjcf_item c, const char* attribute, uint32_t* out) {
    double value = 1.0; // MuJoCo's default
    if (!nsi_mjcf_number(m, c, attribute, &value)) return false;
    if (value != floor(value) || value < INT32_MIN || value > UINT32_MAX) {
        return nsi_reader_fail(m->reader, nsi_mjcf_holder(m, c, attribute), NS_ERR_PARSE,
                               "%s must be an integer of 32 bits", attribute);
    }
    *out = (uint32_t)(int64_t)value;
    return true;
}

static bool read_condim(nsi_mjcf* m, nsi_mjcf_item c, uint32_t* out) {
    double value = *out;
    if (!nsi_mjcf_number(m, c, "condim", &value)) return false;
    if (value != 1.0 && value != 3.0 && value != 4.0 && value != 6.0) {
        return nsi_reader_fail(m->reader, nsi_mjcf_holder(m, c, "condim"), NS_ERR_PARSE,
                               "condim must be 1, 3, 4 or 6");
    }
    *out = (uint32_t)value;
    return true;
}

static bool read_priority(nsi_mjcf* m, nsi_mjcf_item c, int32_t* out) {
    double value = 0.0;
    if (!nsi_mjcf_number(m, c, "priority", &value)) return false;
    if (value != floor(value) || fabs(value) > INT32_MAX) {
        return nsi_reader_fail(m->reader, nsi_mjcf_holder(m, c, "priority"), NS_ERR_PARSE,
                               "priority must be an integer of 32 bits");
    }
    *out = (int32_t)value;
    return true;
}

bool nsi_mjcf_geom_contact(nsi_mjcf* m, nsi_mjcf_item c, ns_geom_def* geom) {
    uint32_t count;
    if (!read_bits(m, c, "contype", &geom->groups) ||
        !read_bits(m, c, "conaffinity", &geom->touches) || !read_condim(m, c, &geom->condim) ||
        !read_priority(m, c, &geom->priority) ||
        !nsi_mjcf_numbers(m, c, "friction", 1, 3, geom->friction, &count)) {
        return false;
    }
    const char* name = nsi_xml_value(c.element, "name");
    bool paired = name && nsi_names_find(&m->paired, name) != NSI_NONE;
    geom->collision = m->contact && (geom->groups != 0 || geom->touches != 0 || paired);
    return true;
}

// Call a function for each child of this name of all <contact>.
static bool for_each(nsi_mjcf* m, const char* name,
                     bool (*function)(nsi_mjcf* m, const nsi_xml_element* element)) {
    const nsi_xml_element* section = nsi_xml_child(m->reader->xml->root, "contact");
    for (; section; section = nsi_xml_next(section, "contact")) {
        const nsi_xml_element* element = nsi_xml_child(section, name);
        for (; element; element = nsi_xml_next(element, name)) {
            if (!function(m, element)) return false;
        }
    }
    return true;
}

static bool collect_pair(nsi_mjcf* m, const nsi_xml_element* pair) {
    static const char* const attributes[2] = {"geom1", "geom2"};
    for (int k = 0; k < 2; k++) {
        const char* name;
        if (!nsi_reader_required(m->reader, pair, attributes[k], &name)) return false;
        if (nsi_names_find(&m->paired, name) == NSI_NONE &&
            !nsi_names_add(m->reader, &m->paired, name, pair)) {
            return false;
        }
    }
    return true;
}

bool nsi_mjcf_collect_pairs(nsi_mjcf* m) {
    return for_each(m, "pair", collect_pair);
}

// Friction of a pair: of sliding twice, torsion, of rolling twice. What its geoms have does not count, as
// in MuJoCo.
static bool read_pair_friction(nsi_mjcf* m, nsi_mjcf_item c, ns_contact_def* def) {
    double friction[5] = {1.0, 1.0, 0.005, 0.0001, 0.0001}; // MuJoCo's defaults
    uint32_t count, condim = 3;
    if (!nsi_mjcf_numbers(m, c, "friction", 1, 5, friction, &count) ||
        !read_condim(m, c, &condim)) {
        return false;
    }
    for (uint32_t k = 0; k < count; k++) {
        if (friction[k] >= 0.0) continue;
        return nsi_reader_fail(m->reader, nsi_mjcf_holder(m, c, "friction"), NS_ERR_PARSE,
                               "friction is negative");
    }
    def->mu = condim < 3 ? 0.0 : friction[0];
    def->mu_torsion = condim < 4 ? 0.0 : friction[2];
    def->mu_rolling = condim < 6 ? 0.0 : friction[3];
    bool slides_alike = count < 2 || condim < 3 || friction[1] == friction[0];
    bool rolls_alike = count < 4 || condim < 6 || friction[4] == friction[3];
    return (slides_alike && rolls_alike) ||
           nsi_reader_note(m->reader, c.element,
                           "has different friction in two directions; the first acts in both; "
                           "changes the motion");
}

// Attributes of a pair that are parameters of contact laws.
typedef struct pair_values {
    nsi_mjcf* m;
    nsi_mjcf_item item;
    ns_contact_def* def;
    ns_contact_value list[NSI_CONTACT_MAX_SLOTS]; // for parameters without a field
} pair_values;

// One of them. A negative number would mean "automatic" to the builder.
static ns_status read_pair_value(void* context, const ns_contact_param* param, ns_error* error) {
    (void)error;
    pair_values* v = context;
    const nsi_xml_element* holder = nsi_mjcf_holder(v->m, v->item, param->name);
    double value = 0.0;
    if (!param->attribute || !holder) return NS_OK;
    if (!nsi_mjcf_number(v->m, v->item, param->name, &value)) return NS_ERR_PARSE;
    if (param->lower >= 0.0 && !(value >= 0.0)) {
        nsi_reader_fail(v->m->reader, holder, NS_ERR_PARSE, "%s is negative", param->name);
        return NS_ERR_PARSE;
    }
    if (param->field > 0) {
        memcpy((char*)v->def + param->field, &value, sizeof value);
    } else {
        v->list[v->def->nvalue++] = (ns_contact_value){param->name, value};
        v->def->values = v->list;
    }
    return NS_OK;
}

// The contact law of the pair, which MuJoCo has no words for.
static bool read_pair_law(pair_values* v) {
    const char* laws[NS_CONTACT_MAX_LAWS + 1] = {NULL};
    const int first = NS_CONTACT_NONE + 1; // a pair without contact is not written
    for (int k = first; k < nsi_contact_law_count(); k++) {
        laws[k - first] = ns_contact_law_get(k)->name;
    }
    uint32_t law = (uint32_t)(v->def->model - first);
    if (!nsi_mjcf_word(v->m, v->item, "model", laws, &law)) return false;
    v->def->model = first + (int)law;
    return nsi_contact_each_param(read_pair_value, v, NULL) == NS_OK;
}

// A geom named by a pair: is it in the model? One of a type that is not represented is left out.
static bool find_geom(nsi_mjcf* m, const nsi_xml_element* pair, const char* name, bool* found) {
    *found = nsi_model_builder_has_geom(m->reader->builder, name);
    if (*found) return true;
    if (nsi_names_find(&m->left_out, name) == NSI_NONE) {
        return nsi_reader_fail(m->reader, pair, NS_ERR_PARSE, "there is no geom \"%.100s\"", name);
    }
    return nsi_reader_note(m->reader, pair,
                           "names the geom \"%.100s\", which is not represented; changes the "
                           "motion",
                           name);
}

static bool read_pair(nsi_mjcf* m, const nsi_xml_element* pair) {
    ns_contact_def def = ns_default_contact_def();
    nsi_mjcf_item c = {pair, NSI_MJCF_PAIR, NSI_MJCF_MAIN_CLASS};
    pair_values values = {.m = m, .def = &def};
    bool found = true;
    def.name = nsi_xml_value(pair, "name");
    def.a = nsi_xml_value(pair, "geom1");
    def.b = nsi_xml_value(pair, "geom2");
    if (!nsi_mjcf_find_class(m, pair, "class", NSI_MJCF_MAIN_CLASS, &c.class_number) ||
        !read_pair_friction(m, c, &def)) {
        return false;
    }
    values.item = c;
    if (!read_pair_law(&values) || !find_geom(m, pair, def.a, &found) ||
        (found && !find_geom(m, pair, def.b, &found))) {
        return false;
    }
    if (!found) return true;
    const char* fault = nsi_model_builder_pair_fault(m->reader->builder, def.a, def.b);
    if (fault) {
        return nsi_reader_note(m->reader, pair,
                               "is not represented: the pair %s; changes the motion", fault);
    }
    return nsi_reader_add_contact(m->reader, pair, &def);
}

static bool read_exclude(nsi_mjcf* m, const nsi_xml_element* exclude) {
    const char *a, *b;
    return nsi_reader_required(m->reader, exclude, "body1", &a) &&
           nsi_reader_required(m->reader, exclude, "body2", &b) &&
           nsi_reader_exclude_contact(m->reader, exclude, a, b);
}

// ---- softness --------------------------------------------------------------------------------

// Attributes of MuJoCo's soft constraints, and what holds here instead.
static const struct {
    const char *elements, *attributes, *instead;
} softness[] = {
    {"geom pair", "solref solimp solmix solreffriction",
     "contact is rigid, or has springs of its own"},
    {"geom pair", "margin gap", "contact acts from distance 0 on"},
    {"joint", "solreflimit solimplimit margin", "limits have springs of their own"},
    {"joint", "solreffriction solimpfriction", "friction is that of this library"},
};
enum { SOFTNESS = sizeof softness / sizeof *softness };

// The elements that have some of the attributes, and a list of these.
typedef struct soft_note {
    const nsi_xml_element* first;
    uint32_t count;
    char list[120];
} soft_note;

static void find_softness(const nsi_xml_element* element, soft_note notes[SOFTNESS]) {
    for (int k = 0; k < SOFTNESS; k++) {
        soft_note* note = &notes[k];
        bool any = false;
        for (uint32_t i = 0; i < element->nattributes; i++) {
            const nsi_xml_attribute* a = &element->attributes[i];
            bool distance = strcmp(a->name, "margin") == 0 || strcmp(a->name, "gap") == 0;
            if (!nsi_word_in(softness[k].elements, element->name) ||
                !nsi_word_in(softness[k].attributes, a->name) ||
                (distance && strtod(a->value, NULL) == 0.0)) {
                continue;
            }
            any = true;
            if (nsi_word_in(note->list, a->name)) continue;
            size_t length = strlen(note->list);
            snprintf(note->list + length, sizeof note->list - length, "%s%s", length > 0 ? " " : "",
                     a->name);
        }
        if (!any) continue;
        if (!note->first) note->first = element;
        note->count++;
    }
    for (const nsi_xml_element* e = element->first_child; e; e = e->next) find_softness(e, notes);
}

bool nsi_mjcf_note_softness(nsi_mjcf* m) {
    soft_note notes[SOFTNESS] = {0};
    find_softness(m->reader->xml->root, notes);
    for (int k = 0; k < SOFTNESS; k++) {
        if (notes[k].count == 0) continue;
        char others[60] = "", list[2 * sizeof notes[k].list] = "";
        for (const char* at = notes[k].list; *at; at++) { // with commas
            size_t length = strlen(list);
            snprintf(list + length, sizeof list - length, *at == ' ' ? ", " : "%c", *at);
        }
        if (notes[k].count > 1) {
            snprintf(others, sizeof others, ", as %u other %s", notes[k].count - 1,
                     notes[k].count == 2 ? "element has" : "elements have");
        }
        if (!nsi_reader_note(m->reader, notes[k].first,
                             "has %s%s, not represented: %s; changes the motion", list, others,
                             softness[k].instead)) {
            return false;
        }
    }
    return true;
}

// ---- all of it -------------------------------------------------------------------------------

bool nsi_mjcf_read_contacts(nsi_mjcf* m) {
    if (m->contact && !for_each(m, "pair", read_pair)) return false;
    return for_each(m, "exclude", read_exclude);
}
