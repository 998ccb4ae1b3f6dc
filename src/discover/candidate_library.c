// The candidate library: every parameter that might be wrong and every formula that might be
// missing, as one blueprint with coefficients of 0. A quantity has one formula at most, so that all
// terms of one are summed in one formula; drag along three axes is a sum of three columns.
//
// Parameters with the effect of a formula at the joint (damping, friction, stiffness) are
// represented by that formula, which names the parameter it is equivalent to.

#include "discover/candidate_library.h"

#include "nn/binding.h"
#include "sim/quantity_parts.h"

#include "sim/system.h"

#include <stdarg.h>
#include <stdio.h>

const char* nsi_library_text(nsi_library_builder* b, const char* format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int size = vsnprintf(NULL, 0, format, arguments);
    char* text = size < 0 ? NULL : nsi_arena_alloc(&b->library->arena, (size_t)size + 1);
    if (text) vsnprintf(text, (size_t)size + 1, format, again);
    va_end(again);
    va_end(arguments);
    if (!text) b->failed = true;
    return text ? text : "";
}

// Does a glob of `outputs` match a force? Forces of joints are also tau_<joint>.
static bool output_matches(const char* glob, const char* name) {
    char alias[NSI_FAMILY_SIZE];
    if (ns_glob_match(glob, name)) return true;
    return nsi_quantity_alias(glob, false, alias, sizeof alias) && ns_glob_match(alias, name);
}

static bool is_wanted_output(const nsi_text_list* globs, const char* name) {
    for (uint32_t k = 0; k < globs->count; k++) {
        if (output_matches(globs->data[k], name)) return true;
    }
    return globs->count == 0;
}

// ---- targets -----------------------------------------------------------------------------------

static nsi_target* find_target(const nsi_library_builder* b, const char* name) {
    for (uint32_t k = 0; k < b->targets.count; k++) {
        if (strcmp(b->targets.data[k].name, name) == 0) return &b->targets.data[k];
    }
    return NULL;
}

bool nsi_library_has_target(const nsi_library_builder* b, const char* name) {
    const nsi_target* target = find_target(b, name);
    return target && target->exists;
}

static void add_target(nsi_library_builder* b, nsi_site_kind kind, uint32_t link,
                       const char* name) {
    nsi_target target = {.name = name, .kind = kind, .link = link};
    bool quotable = !strpbrk(name, "\"{}*?") && strlen(name) <= nsi_thresholds.library.max_name;
    if (!quotable || b->failed) return;
    if (!nsi_array_push(&b->library->allocator, &b->targets, target)) b->failed = true;
}

// Forces of the joint that carries a link, and those on the link itself.
static void add_link_targets(nsi_library_builder* b, uint32_t number) {
    // The number of coordinates decides which forces of the joint have a name.
    const ns_link_def* link = ns_model_link(b->model, number);
    const ns_joint_info* info = ns_joint_type_info(link->joint_type);

    // With one coordinate, the joint torque is a sum of named forces, and each can hold formulas.
    if (info->has_axis) {
        add_target(b, NSI_SITE_JOINT, number, nsi_library_text(b, "joint/%s/tau", link->joint));
    }
    // Its parts are hosts for further formulas.
    for (int k = 0; k < NSI_LIBRARY_HOSTS && info->has_axis; k++) {
        add_target(b, NSI_SITE_JOINT, number,
                   nsi_library_text(b, "joint/%s/force/%s", link->joint, nsi_library_hosts[k]));
    }

    // With several coordinates, each velocity component has its own torque.
    for (uint32_t k = 0; k < info->nv && !info->has_axis; k++) {
        add_target(b, NSI_SITE_JOINT_COMPONENT, number,
                   nsi_library_text(b, "joint/%s/tau/%u", link->joint, k));
    }

    // Links whose names are too long for a formula are counted as omitted.
    const char* longest = nsi_library_text(b, "link/%s/torque/x", link->name);
    b->library->omitted += strlen(longest) > nsi_thresholds.library.max_name;

    // External force and torque on the link, by component.
    for (int k = 0; k < 3; k++) {
        add_target(b, NSI_SITE_LINK_FORCE, number,
                   nsi_library_text(b, "link/%s/force/%c", link->name, "xyz"[k]));
        add_target(b, NSI_SITE_LINK_TORQUE, number,
                   nsi_library_text(b, "link/%s/torque/%c", link->name, "xyz"[k]));
    }
}

static void mark_target(void* context, const ns_quantity_info* quantity) {
    const nsi_library_builder* b = context;
    if (!quantity->affects_state || quantity->stage != NS_STAGE_FORCES) return;
    nsi_target* target = find_target(b, quantity->name);
    if (target) target->exists = true;
}

// Targets at which the model has a network or formula already.
static ns_status mark_taken(nsi_library_builder* b, ns_error* error) {
    if (!nsi_discover_base(b->fit)) return NS_OK;
    ns_system* system = NULL;
    ns_status status = ns_system_create(b->model, &b->fit->options, &system, error);
    if (status != NS_OK) return status;
    const nsi_binding* binding = system->binding;
    for (uint32_t k = 0; binding && k < binding->ninstance; k++) {
        for (uint32_t i = 0; i < binding->instances[k].noutput; i++) {
            nsi_target* target = find_target(b, binding->instances[k].outputs[i]);
            if (target) target->taken = true;
        }
    }
    ns_system_free(system);
    return NS_OK;
}

bool nsi_library_link_moves(const nsi_library_builder* b, uint32_t link) {
    for (uint32_t k = 0; k < b->targets.count; k++) {
        const nsi_target* target = &b->targets.data[k];
        if (target->exists && target->kind == NSI_SITE_LINK_FORCE && target->link == link) {
            return true;
        }
    }
    return false;
}

// ---- sites, atoms and terms --------------------------------------------------------------------

uint32_t nsi_library_site(nsi_library_builder* b, nsi_site site) {
    nsi_term_library* library = b->library;
    for (uint32_t k = 0; k < library->sites.count; k++) {
        const nsi_site* s = &library->sites.data[k];
        if (s->kind == site.kind && s->link == site.link && s->other == site.other &&
            s->component == site.component) {
            return k;
        }
    }
    if (!nsi_array_push(&library->allocator, &library->sites, site)) {
        b->failed = true;
        return NSI_NONE;
    }
    return library->sites.count - 1;
}

bool nsi_library_has_room(nsi_library_builder* b, uint32_t more) {
    if (b->library->atoms.count + more <= nsi_thresholds.library.max_coefficients) return true;
    b->library->omitted++;
    return false;
}

uint32_t nsi_library_output(nsi_library_builder* b, const char* name, bool outside) {
    nsi_term_library* library = b->library;
    for (uint32_t k = 0; k < library->outputs.count; k++) {
        if (strcmp(library->outputs.data[k], name) == 0) return k;
    }
    const nsi_target* target = find_target(b, name);
    if (!target || !target->exists || target->taken) return NSI_NONE;
    if (!outside && !is_wanted_output(&b->fit->spec->discover_outputs, name)) return NSI_NONE;
    if (!nsi_array_push(&library->allocator, &library->outputs, target->name)) {
        b->failed = true;
        return NSI_NONE;
    }
    return library->outputs.count - 1;
}

uint32_t nsi_library_add_part(nsi_library_builder* b, nsi_part_list* parts, const char* output,
                              const char* host, const char* factor, double sign) {
    nsi_term_library* library = b->library;

    // Formulas must be allowed both at the quantity and at its host.
    uint32_t at = NSI_NONE, number = nsi_library_output(b, output, host != NULL);
    uint32_t holder = host && number != NSI_NONE ? nsi_library_output(b, host, true) : number;
    // The caller drops the whole term if one part is missing.
    if (number == NSI_NONE || holder == NSI_NONE || b->failed) {
        parts->missing = true;
        return NSI_NONE;
    }

    // Parts with the same factor at the same quantity share one coefficient.
    for (uint32_t k = 0; k < library->atoms.count; k++) {
        const nsi_atom* atom = &library->atoms.data[k];
        if (atom->output == number && strcmp(atom->factor, factor) == 0) at = k;
    }

    // Otherwise, create the coefficient. Columns are assigned when the system is bound.
    if (at == NSI_NONE) {
        nsi_atom atom = {.output = number,
                         .host = holder,
                         .factor = nsi_library_text(b, "%s", factor),
                         .speed_link = NSI_NONE,
                         .column = NSI_NONE,
                         .shape_column = NSI_NONE};
        at = library->atoms.count;
        if (!nsi_array_push(&library->allocator, &library->atoms, atom)) b->failed = true;
    }

    // Add the part to the term.
    nsi_term_part part = {.column = NSI_NONE, .sign = sign, .atom = at};
    if (!nsi_array_push(&library->allocator, &parts->list, part)) b->failed = true;
    return at;
}

uint32_t nsi_library_add_term(nsi_library_builder* b, nsi_part_list* parts, nsi_term term) {
    nsi_term_library* library = b->library;
    uint32_t number = NSI_NONE;
    if (!parts->missing && !b->failed) {
        size_t size = parts->list.count * sizeof(nsi_term_part);
        nsi_term_part* copy = nsi_arena_alloc(&library->arena, size + 1);
        if (copy) {
            memcpy(copy, parts->list.data, size);
            term.parts = copy;
            term.npart = parts->list.count;
            if (term.site != NSI_NONE) term.quantity = library->sites.data[term.site].name;
            term.name = term.kind == NSI_TERM_FORMULA
                            ? nsi_library_text(b, "%s: %s", term.quantity, term.form)
                            : term.quantity;
            number = library->terms.count;
        }
        if (!copy || !nsi_array_push(&library->allocator, &library->terms, term)) b->failed = true;
    }
    nsi_array_free(&library->allocator, &parts->list);
    parts->missing = false;
    return number;
}

uint32_t nsi_library_add_formula(nsi_library_builder* b, nsi_part_list* parts, uint32_t site,
                                 const char* form, double complexity) {
    return nsi_library_add_term(b, parts,
                                (nsi_term){.kind = NSI_TERM_FORMULA,
                                           .site = site,
                                           .form = form,
                                           .unit = "",
                                           .equivalent = NSI_NONE,
                                           .complexity = complexity,
                                           .shape = NSI_NONE,
                                           .owner = NSI_NONE});
}

// ---- the whole ---------------------------------------------------------------------------------

// Globs of the file must match something.
static ns_status check_globs(const nsi_library_builder* b, ns_error* error) {
    const nsi_fit_spec* spec = b->fit->spec;

    // Each glob of `parameters` must match a parameter of the model.
    for (uint32_t k = 0; k < spec->discover_parameters.count; k++) {
        const char* glob = spec->discover_parameters.data[k];
        bool any = false;
        for (uint32_t i = 0; i < ns_model_get_sizes(b->model).nparam && !any; i++) {
            any = ns_glob_match(glob, ns_model_param(b->model, i)->name);
        }
        // A glob without a match is most likely a typing error.
        if (!any) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%.200s: discover: parameters: no parameter matches \"%.200s\";"
                            " 'neuralsim inspect MODEL --params' lists them",
                            spec->path, glob);
        }
    }

    // Each glob of `outputs` must match a force that a formula can be added to.
    for (uint32_t k = 0; k < spec->discover_outputs.count; k++) {
        const char* glob = spec->discover_outputs.data[k];
        bool any = false;
        for (uint32_t i = 0; i < b->targets.count && !any; i++) {
            // Only targets that exist in this system count.
            any = b->targets.data[i].exists && output_matches(glob, b->targets.data[i].name);
        }
        // Again a likely typing error.
        if (!any) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%.200s: discover: outputs: no force of a joint or link matches"
                            " \"%.200s\"; 'neuralsim quantities MODEL' lists them",
                            spec->path, glob);
        }
    }
    return NS_OK;
}

static ns_status build_library(nsi_library_builder* b, uint32_t extended, ns_error* error) {
    nsi_term_library* library = b->library;

    // List the forces that formulas can be added to, then keep those that the system has.
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink; k++) add_link_targets(b, k);
    if (b->failed) return nsi_fail_nomem(error);
    ns_status status = ns_model_quantities(b->model, &b->fit->options, mark_target, b, error);
    if (status == NS_OK) status = check_globs(b, error);

    // Forces that the model's own blueprint corrects already are excluded.
    if (status == NS_OK) status = mark_taken(b, error);
    if (status != NS_OK) return status;

    // Add formulas, common laws first, because the library may run out of room.
    nsi_library_list_joints(b);
    nsi_library_add_joints(b);
    nsi_library_add_links(b);
    nsi_library_add_couplings(b);

    // A second search extends the library at one joint.
    if (extended != NSI_NONE) nsi_library_extend_joint(b, extended);

    // Add parameters as terms, in the order of the variables.
    nsi_library_request_parameters(b);
    if (b->failed) return nsi_fail_nomem(error);
    // The library belongs to a single variant of the robot.
    ns_variant only = {.model = b->model, .options = &b->fit->options};
    status = nsi_parameters_read(&only, 1, b->fit->spec->path, b->requests.data, b->requests.count,
                                 b->settings.data, b->settings.count, &library->allocator,
                                 &library->variables, error);
    if (status != NS_OK) return status;

    // One term per variable, after which the number of variables is final.
    nsi_library_add_parameters(b);
    library->nz = ns_parameters_count(library->variables);
    if (b->failed) return nsi_fail_nomem(error);
    // One blueprint holds all formulas, so that one compiled system serves the whole search.
    return nsi_library_write_all(library, b->fit, &library->blueprint, error);
}

ns_status nsi_term_library_make(ns_fit* fit, uint32_t extended, nsi_term_library* library,
                                ns_error* error) {
    *library =
        (nsi_term_library){.allocator = fit->allocator, .arena = {.allocator = fit->allocator}};
    nsi_library_builder b = {.fit = fit, .library = library, .model = fit->variants[0].model};
    ns_status status = build_library(&b, extended, error);
    nsi_array_free(&library->allocator, &b.targets);
    nsi_array_free(&library->allocator, &b.joints);
    nsi_array_free(&library->allocator, &b.requests);
    nsi_array_free(&library->allocator, &b.settings);
    nsi_array_free(&library->allocator, &b.params);
    if (status != NS_OK) nsi_term_library_free(library);
    return status;
}

void nsi_term_library_free(nsi_term_library* library) {
    ns_blueprint_free(library->blueprint);
    ns_parameters_free(library->variables);
    nsi_array_free(&library->allocator, &library->sites);
    nsi_array_free(&library->allocator, &library->outputs);
    nsi_array_free(&library->allocator, &library->atoms);
    nsi_array_free(&library->allocator, &library->terms);
    nsi_arena_free(&library->arena);
    *library = (nsi_term_library){.allocator = library->allocator};
}

// The column of the first coefficient of a formula; NSI_NONE: the system has no such formula.
static uint32_t first_column(const nsi_term_library* library, const ns_system* system,
                             const char* output) {
    char name[200];
    uint32_t first = NSI_NONE;
    nsi_library_formula_name(output, name, sizeof name);
    for (uint32_t k = 0; k < ns_system_weight_matrix_count(system); k++) {
        ns_weight_matrix m = ns_system_weight_matrix(system, k);
        if (m.formula && strcmp(m.set, name) == 0) first = library->nz + m.offset;
    }
    return first;
}

ns_status nsi_term_library_bind(nsi_term_library* library, const ns_system* system,
                                ns_error* error) {
    // Columns are parameters first, then weights.
    library->ncolumn = library->nz + ns_system_get_sizes(system).nw;

    // Weights of a formula are in the order in which candidate_blueprint.c writes them.
    for (uint32_t k = 0; k < library->outputs.count; k++) {
        uint32_t at = first_column(library, system, library->outputs.data[k]);
        for (uint32_t i = 0; i < library->atoms.count; i++) {
            nsi_atom* atom = &library->atoms.data[i];
            if (atom->host != k) continue;
            // The formula was removed as having no effect on the simulation.
            if (at == NSI_NONE) {
                return nsi_fail(error, NS_ERR_UNSUPPORTED, "formulas at %.200s have no effect",
                                library->outputs.data[k]);
            }
            // A friction scale follows its coefficient.
            atom->column = at++;
            if (atom->speed_link != NSI_NONE) atom->shape_column = at++;
        }
    }

    // Terms take the columns of their atoms; terms of parameters already have theirs.
    for (uint32_t k = 0; k < library->terms.count; k++) {
        nsi_term* t = &library->terms.data[k];
        for (uint32_t i = 0; i < t->npart; i++) {
            // Parts are const for readers only; the arena is writable here.
            nsi_term_part* part = (nsi_term_part*)&t->parts[i]; // ours, from the arena
            if (part->atom == NSI_NONE) continue;
            const nsi_atom* atom = &library->atoms.data[part->atom];
            part->column = t->kind == NSI_TERM_SHAPE ? atom->shape_column : atom->column;
        }
    }
    return NS_OK;
}
