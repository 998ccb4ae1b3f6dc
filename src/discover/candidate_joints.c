// Candidate formulas at the forces of joints.

#include "discover/candidate_library.h"

const char* const nsi_library_hosts[NSI_LIBRARY_HOSTS] = {"damping", "friction", "spring", "limit"};

// A formula of a joint. In texts, {q} and {qd} are its coordinate and velocity, {p}, {pd} and
// {name} those of another joint and that joint's name.
typedef struct joint_formula {
    const char* form;
    const char* factor;
    double complexity;
    bool turning; // only for joints that turn; of formulas with another joint, when that one turns
    ns_param_kind equivalent; // of linear_formulas: the parameter with the same effect
} joint_formula;

// Friction comes after the first two; see add_friction().
static const joint_formula linear_formulas[] = {
    {"qd", "{qd}", 1.0, false, NS_PARAM_JOINT_DAMPING},
    {"q", "{q}", 1.0, false, NS_PARAM_JOINT_STIFFNESS},
};

static const joint_formula usual_formulas[] = {
    {.form = "|qd| qd", .factor = "abs({qd}) * {qd}", .complexity = 1.5},
    {.form = "1", .factor = "1", .complexity = 2.0},
    {.form = "q^3", .factor = "{q}^3", .complexity = 2.5},
    {.form = "q^2", .factor = "{q}^2", .complexity = 3.0},
    {.form = "qd^3", .factor = "{qd}^3", .complexity = 2.5},
    {.form = "q qd", .factor = "{q} * {qd}", .complexity = 3.0},
    {.form = "q^2 qd", .factor = "{q}^2 * {qd}", .complexity = 3.0},
    {.form = "sin(q)", .factor = "sin(1 * {q})", .complexity = 2.0, .turning = true},
    {.form = "sin(q) qd", .factor = "sin(1 * {q}) * {qd}", .complexity = 2.5, .turning = true},
    {.form = "sin(2 q)", .factor = "sin(2 * {q})", .complexity = 2.5, .turning = true},
    {.form = "sin(2 q) qd", .factor = "sin(2 * {q}) * {qd}", .complexity = 3.0, .turning = true},
    {.form = "cos(q)", .factor = "cos(1 * {q})", .complexity = 2.5, .turning = true},
    {.form = "cos(q) qd", .factor = "cos(1 * {q}) * {qd}", .complexity = 3.0, .turning = true},
    {.form = "cos(2 q)", .factor = "cos(2 * {q})", .complexity = 3.0, .turning = true},
    {.form = "cos(2 q) qd", .factor = "cos(2 * {q}) * {qd}", .complexity = 3.5, .turning = true},
};

// The extended library of one joint.
static const joint_formula extended_formulas[] = {
    {.form = "(exp(q) - 1)", .factor = "(exp({q}) - 1)", .complexity = 4.0},
    {.form = "(exp(-q) - 1)", .factor = "(exp(-{q}) - 1)", .complexity = 4.0},
    {.form = "|q| q", .factor = "abs({q}) * {q}", .complexity = 3.5},
    {.form = "|q|", .factor = "abs({q})", .complexity = 4.0},
    {.form = "|q| qd", .factor = "abs({q}) * {qd}", .complexity = 4.0},
    {.form = "exp(q) qd", .factor = "exp({q}) * {qd}", .complexity = 4.0},
    {.form = "exp(-q) qd", .factor = "exp(-{q}) * {qd}", .complexity = 4.0},
    {.form = "q |qd| qd", .factor = "{q} * abs({qd}) * {qd}", .complexity = 4.0},
    {.form = "q^2 |qd| qd", .factor = "{q}^2 * abs({qd}) * {qd}", .complexity = 4.5},
    {.form = "qd^2", .factor = "{qd}^2", .complexity = 4.0},
    {.form = "q qd^2", .factor = "{q} * {qd}^2", .complexity = 4.0},
    {.form = "|qd|", .factor = "abs({qd})", .complexity = 4.0},
    {.form = "qd / (1 + qd^2)", .factor = "{qd} / (1 + {qd}^2)", .complexity = 4.0},
    {.form = "qd exp(-|qd|)", .factor = "{qd} * exp(-abs({qd}))", .complexity = 4.0},
    {.form = "sqrt(|qd|) tanh(10 qd)",
     .factor = "sqrt(abs({qd})) * tanh(10 * {qd})",
     .complexity = 4.0},
    {.form = "sin(3 q)", .factor = "sin(3 * {q})", .complexity = 3.5, .turning = true},
    {.form = "cos(3 q)", .factor = "cos(3 * {q})", .complexity = 3.5, .turning = true},
    {.form = "sin(4 q)", .factor = "sin(4 * {q})", .complexity = 3.5, .turning = true},
    {.form = "cos(4 q)", .factor = "cos(4 * {q})", .complexity = 3.5, .turning = true},
    {.form = "sin(q) |qd| qd",
     .factor = "sin(1 * {q}) * abs({qd}) * {qd}",
     .complexity = 4.5,
     .turning = true},
    {.form = "cos(q) |qd| qd",
     .factor = "cos(1 * {q}) * abs({qd}) * {qd}",
     .complexity = 4.5,
     .turning = true},
    {.form = "sin(q) qd^2", .factor = "sin(1 * {q}) * {qd}^2", .complexity = 4.5, .turning = true},
    {.form = "cos(q) qd^2", .factor = "cos(1 * {q}) * {qd}^2", .complexity = 4.5, .turning = true},
    {.form = "sin(2 q) |qd| qd",
     .factor = "sin(2 * {q}) * abs({qd}) * {qd}",
     .complexity = 4.5,
     .turning = true},
    {.form = "cos(2 q) |qd| qd",
     .factor = "cos(2 * {q}) * abs({qd}) * {qd}",
     .complexity = 4.5,
     .turning = true},
    {.form = "sin(2 q) qd^2",
     .factor = "sin(2 * {q}) * {qd}^2",
     .complexity = 4.5,
     .turning = true},
    {.form = "cos(2 q) qd^2",
     .factor = "cos(2 * {q}) * {qd}^2",
     .complexity = 4.5,
     .turning = true},
};

// The same with another joint.
static const joint_formula coupled_formulas[] = {
    {.form = "q_{name} qd", .factor = "{p} * {qd}", .complexity = 4.0},
    {.form = "q_{name} q", .factor = "{p} * {q}", .complexity = 4.0},
    {.form = "qd_{name} q", .factor = "{pd} * {q}", .complexity = 4.0},
    {.form = "qd_{name} qd", .factor = "{pd} * {qd}", .complexity = 4.0},
    {.form = "q_{name} qd_{name}", .factor = "{p} * {pd}", .complexity = 4.5},
    {.form = "|qd_{name}| qd", .factor = "abs({pd}) * {qd}", .complexity = 4.0},
    {.form = "|qd| qd_{name}", .factor = "abs({qd}) * {pd}", .complexity = 4.5},
    {.form = "|qd_{name}| qd_{name}", .factor = "abs({pd}) * {pd}", .complexity = 4.5},
    {.form = "q_{name}^2 qd", .factor = "{p}^2 * {qd}", .complexity = 4.5},
    {.form = "q_{name}^2 q", .factor = "{p}^2 * {q}", .complexity = 4.5},
    {.form = "q_{name} q^2", .factor = "{p} * {q}^2", .complexity = 4.5},
    {.form = "q_{name}^2", .factor = "{p}^2", .complexity = 4.5},
    {.form = "sin(q_{name})", .factor = "sin({p})", .complexity = 4.0, .turning = true},
    {.form = "cos(q_{name})", .factor = "cos({p})", .complexity = 4.0, .turning = true},
    {.form = "sin(q_{name}) qd", .factor = "sin({p}) * {qd}", .complexity = 4.0, .turning = true},
    {.form = "cos(q_{name}) qd", .factor = "cos({p}) * {qd}", .complexity = 4.0, .turning = true},
    {.form = "sin(q + q_{name})", .factor = "sin({q} + {p})", .complexity = 4.0, .turning = true},
    {.form = "cos(q + q_{name})", .factor = "cos({q} + {p})", .complexity = 4.0, .turning = true},
    {.form = "sin(q) qd_{name}", .factor = "sin({q}) * {pd}", .complexity = 4.5, .turning = true},
    {.form = "cos(q) qd_{name}", .factor = "cos({q}) * {pd}", .complexity = 4.5, .turning = true},
};

// Forces of ball and floating joints, each with its velocity.
static const joint_formula component_formulas[] = {
    {.form = "qd", .factor = "{qd}", .complexity = 1.5},
    {.form = "|qd| qd", .factor = "abs({qd}) * {qd}", .complexity = 2.0},
    {.form = "1", .factor = "1", .complexity = 2.5},
};

#define FORMULAS(table) (sizeof table / sizeof *table)

// The text with its placeholders replaced; `other` may be NULL.
static const char* fill_formula(nsi_library_builder* b, const char* text,
                                const nsi_library_joint* j, const nsi_library_joint* other) {
    const struct {
        const char *key, *value;
    } values[] = {{"{q}", j->q},
                  {"{qd}", j->qd},
                  {"{p}", other ? other->q : ""},
                  {"{pd}", other ? other->qd : ""},
                  {"{name}", other ? other->name : ""}};
    nsi_text_builder out = {.allocator = b->library->allocator};
    while (*text) {
        size_t size = 0;
        for (size_t k = 0; k < FORMULAS(values) && size == 0; k++) {
            size_t length = strlen(values[k].key);
            if (strncmp(text, values[k].key, length) != 0) continue;
            nsi_text_add(&out, "%s", values[k].value);
            size = length;
        }
        if (size == 0) nsi_text_add_bytes(&out, text, 1);
        text += size > 0 ? size : 1;
    }
    nsi_text_add_bytes(&out, "", 1);
    const char* filled = out.failed ? "" : nsi_library_text(b, "%s", out.text.data);
    if (out.failed) b->failed = true;
    nsi_array_free(&out.allocator, &out.text);
    return filled;
}

// One coefficient at one force; the term, or NSI_NONE.
static uint32_t add_joint_formula(nsi_library_builder* b, const nsi_library_joint* j,
                                  const nsi_library_joint* other, const joint_formula* f) {
    nsi_part_list parts = {0};
    if (!nsi_library_has_room(b, 1)) return NSI_NONE;
    nsi_library_add_part(b, &parts, j->tau, NULL, fill_formula(b, f->factor, j, other), 1.0);
    return nsi_library_add_formula(b, &parts, j->site, fill_formula(b, f->form, j, other),
                                   f->complexity);
}

// ---- one joint ---------------------------------------------------------------------------------

// Coulomb friction above some speed: the scale of that speed is searched on a grid, then refined as
// a shape.
static void add_friction(nsi_library_builder* b, const nsi_library_joint* j) {
    nsi_term_library* library = b->library;
    // Candidate speeds relative to the RMS speed of the joint in the recordings.
    const double* speeds = nsi_thresholds.library.friction_speeds;
    for (uint32_t k = 0; k < FORMULAS(nsi_thresholds.library.friction_speeds); k++) {
        nsi_part_list parts = {0};
        if (!nsi_library_has_room(b, 2)) return;

        // Formula with its coefficient.
        const char* factor = nsi_library_text(b, "tanh(%s / s%u)", j->qd, k);
        uint32_t at = nsi_library_add_part(b, &parts, j->tau, NULL, factor, 1.0);
        // The scale is a number of the formula, starting at its point on the grid.
        if (at != NSI_NONE && !b->failed) {
            library->atoms.data[at].speed_link = j->link;
            library->atoms.data[at].shape_number = k;
            library->atoms.data[at].speed_share = speeds[k];
        }
        uint32_t term = nsi_library_add_formula(b, &parts, j->site,
                                                nsi_library_text(b, "tanh(qd / v%u)", k), 1.2);
        if (term == NSI_NONE || b->failed) continue;
        // A friction parameter of the model has the same effect; the result mentions it.
        library->terms.data[term].equivalent =
            nsi_discover_find_param(b->model, NS_PARAM_JOINT_FRICTION, j->link);

        // The scale is a term of its own that enters and leaves with the formula.
        nsi_term shape = {.kind = NSI_TERM_SHAPE,
                          .site = NSI_NONE,
                          .quantity = nsi_library_text(b, "%s: v%u", j->tau, k),
                          .unit = "",
                          .equivalent = NSI_NONE,
                          .shape = NSI_NONE,
                          .owner = term};
        nsi_term_part part = {.column = NSI_NONE, .sign = 1.0, .atom = at};
        // It refers to the same atom, by its shape column.
        if (!nsi_array_push(&library->allocator, &parts.list, part)) b->failed = true;
        uint32_t number = nsi_library_add_term(b, &parts, shape);
        // Link both directions: owner to shape, shape to owner.
        if (number != NSI_NONE) library->terms.data[term].shape = number;
    }
}

static void add_single_joint(nsi_library_builder* b, const nsi_library_joint* j) {
    for (size_t k = 0; k < FORMULAS(linear_formulas); k++) {
        uint32_t term = add_joint_formula(b, j, NULL, &linear_formulas[k]);
        if (term == NSI_NONE || b->failed) continue;
        b->library->terms.data[term].equivalent =
            nsi_discover_find_param(b->model, linear_formulas[k].equivalent, j->link);
    }
    add_friction(b, j);
    for (size_t k = 0; k < FORMULAS(usual_formulas); k++) {
        const joint_formula* f = &usual_formulas[k];
        if (!f->turning || j->turns) add_joint_formula(b, j, NULL, f);
    }
}

// Ball and floating joints: damping and friction along each velocity.
static void add_joint_components(nsi_library_builder* b, uint32_t link) {
    const ns_link_def* def = ns_model_link(b->model, link);
    const ns_joint_info* info = ns_joint_type_info(def->joint_type);
    for (uint32_t k = 0; k < info->nv && !info->has_axis && !b->failed; k++) {
        nsi_library_joint j = {.link = link,
                               .tau = nsi_library_text(b, "joint/%s/tau/%u", def->joint, k),
                               .q = "",
                               .qd =
                                   nsi_library_text(b, "\"joint/%s/velocity/%u\"", def->joint, k)};
        if (!nsi_library_has_target(b, j.tau)) continue;
        j.site = nsi_library_site(b, (nsi_site){.kind = NSI_SITE_JOINT_COMPONENT,
                                                .name = j.tau,
                                                .link = link,
                                                .other = NSI_NONE,
                                                .component = k});
        for (size_t i = 0; i < FORMULAS(component_formulas) && !b->failed; i++) {
            add_joint_formula(b, &j, NULL, &component_formulas[i]);
        }
    }
}

void nsi_library_list_joints(nsi_library_builder* b) {
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink && !b->failed; k++) {
        const ns_link_def* link = ns_model_link(b->model, k);
        const ns_joint_info* info = ns_joint_type_info(link->joint_type);
        if (!info->has_axis || ns_model_joint_v(b->model, k) == UINT32_MAX) continue; // mimics
        nsi_library_joint j = {.name = link->joint,
                               .link = k,
                               .turns = info->nlinear == 0,
                               .tau = nsi_library_text(b, "joint/%s/tau", link->joint),
                               .q = nsi_library_text(b, "\"joint/%s/position\"", link->joint),
                               .qd = nsi_library_text(b, "\"joint/%s/velocity\"", link->joint)};
        b->library->omitted += strlen(j.tau) > nsi_thresholds.library.max_name;
        if (!nsi_library_has_target(b, j.tau)) continue;
        j.site = nsi_library_site(b, (nsi_site){.kind = NSI_SITE_JOINT,
                                                .name = j.tau,
                                                .link = k,
                                                .other = NSI_NONE,
                                                .component = NSI_NONE});
        if (!nsi_array_push(&b->library->allocator, &b->joints, j)) b->failed = true;
    }
}

void nsi_library_add_joints(nsi_library_builder* b) {
    for (uint32_t k = 0; k < b->joints.count && !b->failed; k++) {
        add_single_joint(b, &b->joints.data[k]);
    }
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink && !b->failed; k++) {
        add_joint_components(b, k);
    }
}

// ---- two joints --------------------------------------------------------------------------------

static bool are_coupled(const nsi_library_builder* b, const nsi_library_joint* j,
                        const nsi_library_joint* other) {
    if (b->joints.count <= nsi_thresholds.library.all_pairs) return true;
    return ns_model_link_parent(b->model, j->link) == other->link ||
           ns_model_link_parent(b->model, other->link) == j->link;
}

// Forces of one joint that depend on the other, and springs and dampers between the two.
static void add_coupling(nsi_library_builder* b, const nsi_library_joint* j,
                         const nsi_library_joint* other) {
    // Each joint's torque may depend on the position or velocity of the other.
    static const joint_formula crossed[] = {
        {.form = "qd of {name}", .factor = "{pd}", .complexity = 3.0},
        {.form = "q of {name}", .factor = "{p}", .complexity = 3.0}};
    if (!nsi_library_has_room(b, 4)) return;
    for (size_t k = 0; k < FORMULAS(crossed); k++) add_joint_formula(b, j, other, &crossed[k]);
    for (size_t k = 0; k < FORMULAS(crossed); k++) add_joint_formula(b, other, j, &crossed[k]);

    // A spring or damper connects coordinates of one unit only.
    if (j->turns != other->turns) return;
    // The pair is a site of its own: its terms act on both joints.
    nsi_site pair = {.kind = NSI_SITE_JOINT_PAIR,
                     .name = nsi_library_text(b, "%s, %s", j->tau, other->tau),
                     .link = j->link,
                     .other = other->link,
                     .component = NSI_NONE};
    uint32_t site = nsi_library_site(b, pair);

    // First the spring on positions, then the damper on velocities.
    for (int rate = 0; rate < 2 && !b->failed; rate++) {
        const char *own = rate ? j->qd : j->q, *its = rate ? other->qd : other->q;
        nsi_part_list parts = {0};
        // Equal and opposite torques: action and reaction share one coefficient.
        nsi_library_add_part(b, &parts, j->tau, NULL, its, 1.0);
        nsi_library_add_part(b, &parts, j->tau, NULL, own, -1.0);
        nsi_library_add_part(b, &parts, other->tau, NULL, own, 1.0);
        nsi_library_add_part(b, &parts, other->tau, NULL, its, -1.0);
        nsi_library_add_formula(b, &parts, site,
                                rate ? "(qd of the other - qd)" : "(q of the other - q)", 2.5);
    }
}

void nsi_library_add_couplings(nsi_library_builder* b) {
    for (uint32_t k = 0; k < b->joints.count; k++) {
        for (uint32_t i = 0; i < k && !b->failed; i++) {
            const nsi_library_joint *j = &b->joints.data[k], *before = &b->joints.data[i];
            if (are_coupled(b, j, before)) add_coupling(b, before, j);
        }
    }
}

// ---- the extended library ----------------------------------------------------------------------

// One more term at a joint. All forces of a joint add up to the same: the first one with room holds
// it.
static void add_extended(nsi_library_builder* b, const nsi_library_joint* j,
                         const nsi_library_joint* other, const joint_formula* f) {
    nsi_term_library* library = b->library;
    const char* factor = fill_formula(b, f->factor, j, other);

    // Skip a term that the library already has.
    uint32_t output = nsi_library_output(b, j->tau, false);
    for (uint32_t k = 0; k < library->atoms.count; k++) {
        const nsi_atom* atom = &library->atoms.data[k];
        if (atom->output == output && strcmp(atom->factor, factor) == 0) return;
    }

    // Use the first force of the joint that has room for another term.
    for (int k = 0; k < NSI_LIBRARY_HOSTS && !b->failed; k++) {
        const char* host = nsi_library_text(b, "joint/%s/force/%s", j->name, nsi_library_hosts[k]);
        uint32_t held = 0, number = nsi_library_output(b, host, true);
        for (uint32_t i = 0; i < library->atoms.count; i++) {
            held += library->atoms.data[i].host == number;
        }
        // A formula can hold a limited number of terms.
        if (number == NSI_NONE || held >= nsi_thresholds.library.max_host_terms) continue;
        nsi_part_list parts = {0};
        if (!nsi_library_has_room(b, 1)) return;

        // The term acts on the joint torque and is hosted by that force.
        nsi_library_add_part(b, &parts, j->tau, host, factor, 1.0);
        uint32_t term = nsi_library_add_formula(b, &parts, j->site,
                                                fill_formula(b, f->form, j, other), f->complexity);
        // Reports mention terms that were added after the first search.
        if (term != NSI_NONE && !b->failed) library->terms.data[term].extended = true;
        return;
    }

    // All forces are full: count the term so that the result can report it.
    library->omitted++;
}

void nsi_library_extend_joint(nsi_library_builder* b, uint32_t link) {
    // Find the joint of the link.
    const nsi_library_joint* j = NULL;
    for (uint32_t k = 0; k < b->joints.count; k++) {
        if (b->joints.data[k].link == link) j = &b->joints.data[k];
    }
    if (!j) return;

    // Laws of the joint alone; some make sense for revolute joints only.
    for (size_t k = 0; k < FORMULAS(extended_formulas) && !b->failed; k++) {
        const joint_formula* f = &extended_formulas[k];
        if (!f->turning || j->turns) add_extended(b, j, NULL, f);
    }

    // Laws that couple the joint to a neighbour.
    uint32_t coupled = 0;
    for (uint32_t k = 0; k < b->joints.count && !b->failed; k++) {
        const nsi_library_joint* other = &b->joints.data[k];
        if (other == j || !are_coupled(b, j, other)) continue;
        // A robot with many joints would have too many: limit them and count the rest.
        if (coupled++ >= nsi_thresholds.library.max_coupled) {
            b->library->omitted++;
            continue;
        }
        for (size_t i = 0; i < FORMULAS(coupled_formulas) && !b->failed; i++) {
            const joint_formula* f = &coupled_formulas[i];
            if (!f->turning || other->turns) add_extended(b, j, other, f);
        }
    }
}
