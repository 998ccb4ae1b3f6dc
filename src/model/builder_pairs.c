// Pairs of geometries that touch, as they are given by hand, and pairs of links that do not.

#include "model/builder.h"

#include "contact/law.h"

#include <stdio.h>

enum { MAX_EXCLUSIONS = 1 << 20 }; // keeps sizes within 32 bits

static ns_status check_contact_value(void* context, const ns_contact_param* param,
                                     ns_error* error) {
    const ns_contact_def* def = context;
    const char* wanted = nsi_contact_value_fault(param, nsi_contact_value(def, param));
    if (!wanted) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": %s must be %s", def->name, param->name,
                    wanted);
}

static ns_status check_contact_numbers(const ns_contact_def* def, ns_error* error) {
    if (!nsi_contact_law_get(def->model)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "pair \"%s\": model is the number of no contact law", def->name);
    }
    for (uint32_t k = 0; k < def->nvalue; k++) {
        const char* name = def->values ? def->values[k].param : NULL;
        const ns_contact_param* param = name ? nsi_contact_find_param(name) : NULL;
        if (!param || param->field > 0) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": values: %s parameter \"%.40s\"",
                            def->name, param ? "there is a field for" : "no contact law has a",
                            name ? name : "");
        }
    }
    ns_contact_def copy = *def;
    return nsi_contact_each_param(check_contact_value, &copy, error);
}

// Copy the list of values; false when out of memory.
static bool keep_contact_values(ns_model_builder* builder, ns_contact_def* def) {
    if (def->nvalue == 0) return true;
    ns_contact_value* values =
        nsi_arena_alloc(&builder->strings, def->nvalue * sizeof *def->values);
    for (uint32_t k = 0; values && k < def->nvalue; k++) {
        values[k] = (ns_contact_value){nsi_builder_keep(builder, def->values[k].param),
                                       def->values[k].value};
        if (!values[k].param) return false;
    }
    def->values = values;
    return values != NULL;
}

static const char* pair_fault(const ns_model_builder* builder, uint32_t a, uint32_t b) {
    const nsi_link* links = builder->links.data;
    const nsi_geom *x = &builder->geoms.data[a], *y = &builder->geoms.data[b];
    if (!x->def.collision || !y->def.collision) {
        return "has a geometry that is not for contact (collision is false)";
    }
    if (nsi_link_body(links, x->link) == nsi_link_body(links, y->link)) {
        return "is on one body, or both of its geometries are fixed to the world";
    }
    if (!nsi_geoms_can_touch(&x->def, &y->def)) return "is of shapes whose contact is not handled";
    for (uint32_t i = 0; i < builder->contacts.count; i++) {
        const nsi_contact* other = &builder->contacts.data[i];
        if ((other->a == a && other->b == b) || (other->a == b && other->b == a)) {
            return "has the geometries of another pair";
        }
    }
    return NULL;
}

const char* nsi_model_builder_pair_fault(const ns_model_builder* builder, const char* a,
                                         const char* b) {
    return pair_fault(builder, nsi_builder_find_geom(builder, a),
                      nsi_builder_find_geom(builder, b));
}

// The geometry with the name in a field of a pair.
static ns_status find_pair_geom(const ns_model_builder* builder, const char* pair,
                                const char* field, const char* name, uint32_t* out,
                                ns_error* error) {
    *out = name ? nsi_builder_find_geom(builder, name) : NSI_NONE;
    if (*out != NSI_NONE) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": %s names no earlier geometry \"%.*s\"",
                    pair, field, NSI_MODEL_MAX_NAME, name ? name : "");
}

// Name and geometries; a name that is not given is written to `made`.
static ns_status resolve_contact(const ns_model_builder* builder, nsi_contact* contact,
                                 char made[NSI_PAIR_MAX_NAME + 1], ns_error* error) {
    ns_contact_def* def = &contact->def;
    ns_status status = def->name ? nsi_builder_check_name("pair", def->name, error) : NS_OK;
    if (status != NS_OK) return status;
    const char* shown = def->name ? def->name : "";
    status = find_pair_geom(builder, shown, "a", def->a, &contact->a, error);
    if (status == NS_OK) status = find_pair_geom(builder, shown, "b", def->b, &contact->b, error);
    if (status != NS_OK) return status;
    if (!def->name) {
        snprintf(made, NSI_PAIR_MAX_NAME + 1, "%s:%s", def->a, def->b);
        def->name = made;
    }
    const char* fault = pair_fault(builder, contact->a, contact->b);
    if (fault) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "pair \"%s\": it %s", def->name, fault);
    }
    if (nsi_builder_find_contact(builder, def->name) != NSI_NONE) {
        return nsi_builder_fail_duplicate("pair", def->name, error);
    }
    return NS_OK;
}

ns_status ns_model_builder_add_contact(ns_model_builder* builder, const ns_contact_def* given,
                                       ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_contact", error);
    if (status != NS_OK) return status;
    nsi_contact contact = {.def = *given};
    ns_contact_def* def = &contact.def;
    char made[NSI_PAIR_MAX_NAME + 1];
    if (builder->contacts.count >= NSI_MAX_PAIRS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d pairs", NSI_MAX_PAIRS);
    }

    // Its geometries by name, and its parameters.
    status = resolve_contact(builder, &contact, made, error);
    if (status == NS_OK) status = check_contact_numbers(def, error);
    if (status != NS_OK) return status;

    // Keep a copy; the names of its geometries are kept already.
    uint32_t id = builder->contacts.count;
    def->a = builder->geoms.data[contact.a].def.name;
    def->b = builder->geoms.data[contact.b].def.name;
    def->name = nsi_builder_keep(builder, def->name);
    if (!def->name || !keep_contact_values(builder, def) ||
        !nsi_array_reserve(&builder->allocator, &builder->contacts, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->contact_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->contacts.data[builder->contacts.count++] = contact;
    return NS_OK;
}

void nsi_model_builder_forbid_self_collision(ns_model_builder* builder) {
    builder->apart = true;
}

ns_status ns_model_builder_exclude_contact(ns_model_builder* builder, const char* link_a,
                                           const char* link_b, ns_error* error) {
    const char* const names[2] = {link_a, link_b};
    uint32_t links[2] = {NSI_NONE, NSI_NONE};
    ns_status status =
        nsi_builder_check(builder, builder, "ns_model_builder_exclude_contact", error);
    if (status != NS_OK) return status;
    for (int k = 0; k < 2; k++) {
        if (nsi_builder_is_world(names[k])) continue;
        links[k] = nsi_builder_find_link(builder, names[k]);
        if (links[k] == NSI_NONE) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            "exclusion: link_%c names no earlier link \"%.*s\"", "ab"[k],
                            NSI_MODEL_MAX_NAME, names[k]);
        }
    }
    if (builder->exclusions.count >= MAX_EXCLUSIONS) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d exclusions", MAX_EXCLUSIONS);
    }
    nsi_exclusion exclusion = {links[0], links[1]};
    if (nsi_array_push(&builder->allocator, &builder->exclusions, exclusion)) return NS_OK;
    return nsi_fail_nomem(error);
}
