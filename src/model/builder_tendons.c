// Tendons of a model builder.

#include "model/builder.h"

#include <math.h>

// Far above any robot; they keep sizes within 32 bits.
enum { MAX_TENDONS = 1 << 14, MAX_PARTS = 1 << 18 };

static ns_status check_tendon_numbers(const ns_tendon_def* def, ns_error* error) {
    nsi_builder_part of = {"tendon", def->name};
    const struct {
        const char* field;
        double value;
        nsi_number_rule rule;
    } numbers[] = {
        {"stiffness", def->stiffness, NSI_NUMBER_NOT_NEGATIVE},
        {"damping", def->damping, NSI_NUMBER_NOT_NEGATIVE},
        {"rest", def->rest, NSI_NUMBER_ANY},
        {"slack", def->slack, NSI_NUMBER_NOT_NEGATIVE},
        {"friction", def->friction, NSI_NUMBER_NOT_NEGATIVE},
        {"friction_velocity", def->friction_velocity, NSI_NUMBER_POSITIVE},
        {"lower", def->lower, NSI_NUMBER_ANY},
        {"upper", def->upper, NSI_NUMBER_ANY},
        {"limit_stiffness", nsi_builder_if_given(def->limit_stiffness, NS_LIMIT_AUTO),
         NSI_NUMBER_NOT_NEGATIVE},
        {"limit_damping", nsi_builder_if_given(def->limit_damping, NS_LIMIT_AUTO),
         NSI_NUMBER_NOT_NEGATIVE},
    };
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        ns_status status = nsi_builder_check_number(of, numbers[k].field, numbers[k].value,
                                                    numbers[k].rule, error);
        if (status != NS_OK) return status;
    }
    if (def->limited && !(def->lower < def->upper)) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "tendon \"%s\": lower must be less than upper",
                        def->name);
    }
    return NS_OK;
}

// A geometry between two sites, and the site on whose side the tendon passes.
static ns_status resolve_obstacle(const ns_model_builder* builder, const ns_tendon_def* def,
                                  uint32_t k, nsi_tendon_part* out, ns_error* error) {
    const ns_tendon_part* part = &def->parts[k];
    out->geom = nsi_builder_find_geom(builder, part->geom);
    if (out->geom == NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "tendon \"%s\": there is no geometry \"%.*s\"",
                        def->name, NSI_MODEL_MAX_NAME, part->geom);
    }
    ns_geom_type type = builder->geoms.data[out->geom].def.type;
    if (type != NS_GEOM_SPHERE && type != NS_GEOM_CYLINDER) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "tendon \"%s\": geometry \"%.*s\" must be a sphere or a cylinder",
                        def->name, NSI_MODEL_MAX_NAME, part->geom);
    }
    bool between = k > 0 && k + 1 < def->npart && def->parts[k - 1].site && def->parts[k + 1].site;
    if (!between) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "tendon \"%s\": geometry \"%.*s\" must be between two sites", def->name,
                        NSI_MODEL_MAX_NAME, part->geom);
    }
    if (!part->side) return NS_OK;
    out->side = nsi_builder_find_site(builder, part->side);
    if (out->side != NSI_NONE) return NS_OK;
    return nsi_fail(error, NS_ERR_ARGUMENT, "tendon \"%s\": there is no site \"%.*s\"", def->name,
                    NSI_MODEL_MAX_NAME, part->side);
}

// What a part names, and whether it suits the other parts.
static ns_status resolve_part(const ns_model_builder* builder, const ns_tendon_def* def, uint32_t k,
                              nsi_tendon_part* out, ns_error* error) {
    const ns_tendon_part* part = &def->parts[k];
    bool fixed = def->parts[0].joint != NULL;
    nsi_builder_part of = {"tendon", def->name};
    *out = (nsi_tendon_part){NSI_NONE, NSI_NONE, part->factor, NSI_NONE, NSI_NONE};
    int named = (part->joint != NULL) + (part->site != NULL) + (part->geom != NULL);
    if (fixed != (part->joint != NULL) || named > 1) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "tendon \"%s\": its parts must be joints, or sites, pulleys and geometries",
                        def->name);
    }
    if (part->geom) return resolve_obstacle(builder, def, k, out, error);
    if (part->joint) {
        out->link = nsi_builder_find_joint(builder, part->joint);
        bool found = out->link != NSI_NONE;
        const nsi_link* l = found ? &builder->links.data[out->link] : NULL;
        if (!found || !ns_joint_type_info(l->def.joint_type)->has_axis) {
            return nsi_fail(error, NS_ERR_ARGUMENT,
                            found ? "tendon \"%s\": joint \"%.*s\" must be revolute or prismatic"
                                  : "tendon \"%s\": there is no joint \"%.*s\"",
                            def->name, NSI_MODEL_MAX_NAME, part->joint);
        }
        return nsi_builder_check_number(of, "coefficient", part->factor, NSI_NUMBER_ANY, error);
    }
    if (!part->site) {
        return nsi_builder_check_number(of, "divisor", part->factor, NSI_NUMBER_POSITIVE, error);
    }
    out->site = nsi_builder_find_site(builder, part->site);
    if (out->site == NSI_NONE) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "tendon \"%s\": there is no site \"%.*s\"",
                        def->name, NSI_MODEL_MAX_NAME, part->site);
    }
    return NS_OK;
}

// Copies of the parts that live as long as the builder.
static ns_status keep_parts(ns_model_builder* builder, nsi_tendon* tendon, ns_error* error) {
    ns_tendon_def* def = &tendon->def;
    size_t count = def->npart;
    ns_tendon_part* parts = nsi_arena_alloc(&builder->strings, count * sizeof *parts);
    nsi_tendon_part* data = nsi_arena_alloc(&builder->strings, count * sizeof *data);
    if (!parts || !data) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    for (uint32_t k = 0; k < def->npart; k++) {
        ns_status status = resolve_part(builder, def, k, &data[k], error);
        if (status != NS_OK) return status;
        parts[k] = def->parts[k];
        if (parts[k].joint) parts[k].joint = builder->links.data[data[k].link].def.joint;
        if (parts[k].site) parts[k].site = builder->sites.data[data[k].site].def.name;
        if (parts[k].geom) parts[k].geom = builder->geoms.data[data[k].geom].def.name;
        if (data[k].geom != NSI_NONE && parts[k].side) {
            parts[k].side = builder->sites.data[data[k].side].def.name;
        } else {
            parts[k].side = NULL;
        }
    }
    def->parts = parts;
    tendon->parts = data;
    return NS_OK;
}

ns_status ns_model_builder_add_tendon(ns_model_builder* builder, const ns_tendon_def* given,
                                      ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_tendon", error);
    if (status != NS_OK) return status;
    nsi_tendon tendon = {.def = *given};
    ns_tendon_def* def = &tendon.def;
    status = nsi_builder_check_name("tendon", def->name ? def->name : "", error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_tendon(builder, def->name) != NSI_NONE) {
        return nsi_builder_fail_duplicate("tendon", def->name, error);
    }
    if (def->npart == 0 || !def->parts) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "tendon \"%s\": it has no parts", def->name);
    }
    if (builder->tendons.count >= MAX_TENDONS || def->npart > MAX_PARTS - builder->ntendon_part) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d tendons with %d parts",
                        MAX_TENDONS, MAX_PARTS);
    }
    status = check_tendon_numbers(def, error);
    if (status == NS_OK) status = keep_parts(builder, &tendon, error);
    if (status != NS_OK) return status;

    def->name = nsi_builder_keep(builder, def->name);
    uint32_t id = builder->tendons.count;
    if (!def->name || !nsi_array_reserve(&builder->allocator, &builder->tendons, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->tendon_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->tendons.data[builder->tendons.count++] = tendon;
    builder->ntendon_part += def->npart;
    return NS_OK;
}
