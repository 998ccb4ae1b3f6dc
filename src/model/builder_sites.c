// Sites of a model builder.

#include "model/builder.h"

enum { MAX_SITES = 1 << 16 }; // far above any robot; keeps sizes within 32 bits

ns_status ns_model_builder_add_site(ns_model_builder* builder, const ns_site_def* given,
                                    ns_error* error) {
    ns_status status = nsi_builder_check(builder, given, "ns_model_builder_add_site", error);
    if (status != NS_OK) return status;
    nsi_model_site site = {.def = *given, .link = NSI_NONE};
    ns_site_def* def = &site.def;

    // Name and link.
    status = nsi_builder_check_name("site", def->name ? def->name : "", error);
    if (status != NS_OK) return status;
    if (nsi_builder_find_site(builder, def->name) != NSI_NONE) {
        return nsi_builder_fail_duplicate("site", def->name, error);
    }
    if (!nsi_builder_is_world(def->link)) {
        site.link = nsi_builder_find_link(builder, def->link);
        if (site.link == NSI_NONE) {
            return nsi_fail(error, NS_ERR_ARGUMENT, "site \"%s\": there is no link \"%.*s\"",
                            def->name, NSI_MODEL_MAX_NAME, def->link);
        }
    }

    nsi_builder_part of = {"site", def->name};
    status = nsi_builder_check_pose(of, "pose", &def->pose, error);
    if (status != NS_OK) return status;
    if (builder->sites.count >= MAX_SITES) {
        return nsi_fail(error, NS_ERR_LIMIT, "a model has at most %d sites", MAX_SITES);
    }

    def->name = nsi_builder_keep(builder, def->name);
    def->link = nsi_builder_keep(builder, site.link == NSI_NONE ? "world" : def->link);
    uint32_t id = builder->sites.count;
    if (!def->name || !def->link || !nsi_array_reserve(&builder->allocator, &builder->sites, 1) ||
        !nsi_index_insert(&builder->allocator, &builder->site_names, nsi_name_hash(def->name),
                          id)) {
        builder->failed = true;
        return nsi_fail_nomem(error);
    }
    builder->sites.data[builder->sites.count++] = site;
    return NS_OK;
}

const ns_site_def* nsi_model_builder_site(const ns_model_builder* builder, const char* name) {
    uint32_t number = nsi_builder_find_site(builder, name);
    return number == NSI_NONE ? NULL : &builder->sites.data[number].def;
}
