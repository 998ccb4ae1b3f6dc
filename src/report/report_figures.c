// Figures of tables and networks in reports.

#include "io/hybrid_file.h"
#include "neuralsim/hybrid.h"
#include "nn/binding.h"
#include "report/curves.h"
#include "report/network_charts.h"
#include "report/report_data.h"

ns_status ns_section_add_curves(ns_section* section, const ns_table* table, const char* file,
                                const char* const* patterns, uint32_t npattern, const char* name,
                                const char* title, ns_error* error) {
    if (!section) return nsi_fail_nomem(error);
    nsi_figures* figures = nsi_report_figures(section->report);
    uint32_t first = figures->list.count;
    ns_status status =
        nsi_curves_add_figure(table, file, patterns, npattern, name, title, figures, error);
    if (status != NS_OK) return status;
    nsi_section_show_figures(section, first);
    return ns_report_check(section->report, error);
}

// ---- networks ----------------------------------------------------------------------------------

// Sets of formulas come last.
uint32_t ns_network_count(const ns_system* system) {
    const nsi_binding* binding = system->binding;
    uint32_t count = 0;
    while (binding && count < binding->nset && binding->sets[count].formula == NSI_NONE) count++;
    return count;
}

const char* ns_network_name(const ns_system* system, uint32_t number) {
    return system->binding->sets[number].name;
}

ns_status ns_section_add_network(ns_section* section, const ns_system* system, uint32_t number,
                                 ns_error* error) {
    if (!section) return nsi_fail_nomem(error);
    nsi_figures* figures = nsi_report_figures(section->report);
    uint32_t first = figures->list.count;
    ns_status status =
        nsi_weights_add_figure(system, number, system->weights, NULL, figures, error);
    if (status != NS_OK) return status;
    nsi_section_show_figures(section, first);
    return ns_report_check(section->report, error);
}

static void release_hybrid(void* hybrid) {
    ns_hybrid_free(hybrid);
}

static void release_system(void* system) {
    ns_system_free(system);
}

// Networks are the same for all variants.
static ns_status load_first_variant(const char* path, const ns_allocator* allocator,
                                    ns_hybrid** out, ns_error* error) {
    nsi_hybrid file = {0};
    ns_load_options load = ns_default_load_options();
    ns_status status = nsi_hybrid_read(path, allocator, &file, error);
    if (status == NS_OK && file.variants.count > 0) load.variant = file.variants.data[0].name;
    if (status == NS_OK) status = ns_hybrid_load(path, &load, out, error);
    nsi_hybrid_free(&file);
    return status;
}

ns_status ns_section_add_networks(ns_section* section, const char* path, uint32_t max,
                                  ns_error* error) {
    if (!section) return nsi_fail_nomem(error);
    ns_hybrid* hybrid = NULL;
    ns_system* system = NULL;
    ns_status status = load_first_variant(path, &section->report->allocator, &hybrid, error);
    if (status != NS_OK) return status;
    nsi_report_own(section->report, hybrid, release_hybrid);
    status = ns_report_check(section->report, error);
    if (status != NS_OK || !ns_hybrid_blueprint(hybrid)) return status;

    // The system is released before the model.
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    options.blueprint = ns_hybrid_blueprint(hybrid);
    status = ns_system_create(ns_hybrid_model(hybrid), &options, &system, error);
    if (status != NS_OK) return status;
    nsi_report_own(section->report, system, release_system);
    status = ns_report_check(section->report, error);
    for (uint32_t k = 0; status == NS_OK && k < ns_network_count(system) && k < max; k++) {
        status = ns_section_add_network(section, system, k, error);
    }
    return status;
}
