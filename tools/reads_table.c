#include "reads_table.h"

#include "nn/causality.h"
#include "sim/system.h"

#include <stdio.h>

enum { MAX_GLOBS = 11 };

// Groups of quantities, by globs. A quantity belongs to one of them; counts of the solver, which no
// network reads, to none.
typedef struct quantity_group {
    const char* name;
    const char* globs[MAX_GLOBS];
} quantity_group;

static const quantity_group groups[] = {
    {"state", {"q/*", "qd/*"}},
    {"controls", {"control/*", "tau/*"}},
    {"inertias", {"link/*/mass", "link/*/com/*", "link/*/inertia/*", "joint/*/armature"}},
    {"gravity", {"world/gravity/*"}},
    {"joint frames", {"joint/*/origin/*", "joint/*/axis/*"}},
    {"joint laws",
     {"joint/*/damping", "joint/*/stiffness", "joint/*/rest", "joint/*/friction",
      "joint/*/friction_velocity", "joint/*/limit_*", "joint/*/lower", "joint/*/upper"}},
    {"actuator laws", {"actuator/*/gear", "actuator/*/kp", "actuator/*/kd"}},
    {"shapes", {"geom/**"}},
    {"contact laws", {"contact/*/*"}},
    {"joint coordinates",
     {"joint/*/position", "joint/*/velocity", "joint/*/position/*", "joint/*/velocity/*",
      "joint/*/sin", "joint/*/cos"}},
    {"link poses", {"link/*/pose/*"}},
    {"link velocities", {"link/*/velocity/**"}},
    {"centre of mass", {"com/*"}},
    {"energies", {"energy/*"}},
    {"momenta", {"momentum/**"}},
    {"mass matrix", {"mass_matrix/**"}},
    {"Jacobians", {"link/*/jacobian/**"}},
    {"bias", {"bias/*"}},
    {"link forces", {"link/*/force/*", "link/*/torque/*"}},
    {"contact points", {"contact/*/*/position/*", "contact/*/*/normal/*"}},
    {"contact places", {"contact/*/*/local/*", "contact/penetration"}},
    {"contact depths", {"contact/*/*/depth"}},
    {"contact velocities", {"contact/*/*/velocity/*"}},
    {"contact friction", {"contact/*/*/mu", "contact/*/*/mu_*", "contact/*/*/restitution"}},
    {"contact forces",
     {"contact/*/*/force/elastic", "contact/*/*/force/damping", "contact/*/*/force/normal",
      "contact/*/*/friction", "contact/*/*/force/tangent*", "contact/*/*/moment/*"}},
    {"contact forces in the world",
     {"contact/*/*/force/x", "contact/*/*/force/y", "contact/*/*/force/z"}},
    {"joint forces", {"joint/*/force/*", "joint/*/force/*/*", "actuator/*/force"}},
    {"joint torques", {"joint/*/tau", "joint/*/tau/*"}},
    {"accelerations", {"qdd/*"}},
};

enum { GROUPS = sizeof groups / sizeof *groups };

static bool in_group(const quantity_group* group, const char* name) {
    for (int k = 0; k < MAX_GLOBS && group->globs[k]; k++) {
        if (ns_glob_match(group->globs[k], name)) return true;
    }
    return false;
}

// One law of contact: the quantities of the step by group.
typedef struct law_step {
    nsi_quantity_list list;
    uint32_t* members[GROUPS];
    uint32_t count[GROUPS];
} law_step;

static bool sort_quantities(law_step* step) {
    nsi_quantity_list* list = &step->list;
    for (int g = 0; g < GROUPS; g++) {
        step->members[g] =
            nsi_arena_alloc(&list->arena, ((size_t)list->count + 1) * sizeof(uint32_t));
        if (!step->members[g]) return false;
    }
    for (uint32_t k = 0; k < list->count; k++) {
        int found = list->is_diagnostic[k];
        for (int g = 0; g < GROUPS; g++) {
            if (!in_group(&groups[g], list->names[k])) continue;
            step->members[g][step->count[g]++] = k;
            found++;
        }
        if (found == 1) continue;
        fprintf(stderr, "%s is in %d groups of the table of what may read what\n", list->names[k],
                found);
        return false;
    }
    return true;
}

static bool depends(const law_step* step, uint32_t ninput, const uint32_t* inputs, uint32_t noutput,
                    const uint32_t* outputs) {
    nsi_causal_use use = {ninput, noutput, inputs, outputs};
    nsi_causal_cycle cycle;
    return nsi_causality_check(&step->list.causality, 1, &use, &cycle, NULL) != NS_OK ||
           cycle.use != NSI_NONE;
}

// Does any quantity of one group follow from one of the other, or of the same group from another?
static bool group_depends(law_step* step, int input, int output, const uint32_t* outputs,
                          uint32_t noutput) {
    if (input != output) {
        return depends(step, step->count[input], step->members[input], noutput, outputs);
    }
    uint32_t* others =
        nsi_arena_alloc(&step->list.arena, ((size_t)step->count[input] + 1) * sizeof(uint32_t));
    for (uint32_t k = 0; others && k < noutput; k++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < step->count[input]; i++) {
            if (step->members[input][i] != outputs[k]) others[count++] = step->members[input][i];
        }
        if (depends(step, count, others, 1, &outputs[k])) return true;
    }
    return !others;
}

// The groups that networks at a group read with prev: only.
static void print_cell(law_step* step, int group, nsi_text_builder* out) {
    uint32_t* outputs =
        nsi_arena_alloc(&step->list.arena, ((size_t)step->count[group] + 1) * sizeof(uint32_t));
    uint32_t noutput = 0, nacting = 0, nlisted = 0;
    for (uint32_t k = 0; outputs && k < step->count[group]; k++) {
        uint32_t quantity = step->members[group][k];
        if (!step->list.affects_state[quantity]) continue;
        nacting++;
        if (!step->list.is_state[quantity]) outputs[noutput++] = quantity;
    }
    if (nacting == 0) {
        nsi_text_add(out, "%s", step->count[group] > 0 ? "(no network)" : "(absent)");
        return;
    }
    for (int g = 0; g < GROUPS && noutput > 0; g++) {
        if (step->count[g] == 0 || !group_depends(step, g, group, outputs, noutput)) continue;
        nsi_text_add(out, "%s%s", nlisted++ > 0 ? ", " : "", groups[g].name);
    }
    if (nlisted == 0) nsi_text_add(out, "nothing");
}

static void print_row(law_step* laws, int group, nsi_text_builder* out) {
    nsi_text_add(out, "| %s |", groups[group].name);
    for (int k = 0; k < MAX_GLOBS && groups[group].globs[k]; k++) {
        nsi_text_add(out, " `%s`", groups[group].globs[k]);
    }
    for (int law = 0; law < 2; law++) {
        nsi_text_add(out, " | ");
        print_cell(&laws[law], group, out);
    }
    nsi_text_add(out, " |\n");
}

bool reads_table_print(const char* robot, nsi_text_builder* out) {
    static const int contact[2] = {NS_CONTACT_SPRING, NS_CONTACT_NCP};
    law_step laws[2] = {{.count = {0}}, {.count = {0}}};
    ns_model* model = NULL;
    ns_error error = {0};
    bool ok = ns_model_load(robot, NULL, &model, &error) == NS_OK;
    for (int law = 0; ok && law < 2; law++) {
        ns_system_options options = ns_default_system_options();
        options.contact = contact[law];
        nsi_step_options step = nsi_system_step_options(model, &options);
        ok = nsi_step_quantities(model, &step, &laws[law].list, &error) == NS_OK &&
             sort_quantities(&laws[law]);
    }
    if (ok) {
        nsi_text_add(out, "| group | quantities | springs: `prev:` for | rigid: `prev:` for |\n"
                          "|---|---|---|---|\n");
    }
    for (int g = 0; ok && g < GROUPS; g++) print_row(laws, g, out);
    if (*error.message) fprintf(stderr, "%s: %s\n", robot, error.message);
    for (int law = 0; law < 2; law++) {
        if (laws[law].list.graph) nsi_quantity_list_free(&laws[law].list);
    }
    ns_model_free(model);
    return ok;
}
