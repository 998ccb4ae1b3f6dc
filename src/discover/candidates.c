// The dictionary: every parameter that might be wrong and every formula that might be missing, as one
// blueprint with coefficients of 0. A quantity has one formula at most, so that all terms of one stand in
// one formula; a drag along three axes is a sum of three coefficients' columns.
//
// Parameters that do what a formula at the joint does (damping, friction, stiffness) are left to the
// formula, which is told to be the same.

#include "discover/discover_state.h"
#include "sim/system.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    MOST_COLUMNS = 500,
    MOST_NAME = 120, // letters of a joint's or link's name; longer ones are left out
    ALL_PAIRS = 4,   // up to so many joints, each is coupled to each; otherwise to its neighbours
    MOST_COUPLED = 6 // others that a joint is coupled to
};

typedef struct joint {
    const char* name;
    uint32_t link;
    bool turns; // otherwise it slides
    char q[160], qd[160];
    const char* tau;
} joint;

typedef struct builder {
    ns_fit* fit;
    nsi_dictionary* d;
    const ns_model* model;
    NSI_ARRAY(const char*) names; // quantities that formulas can stand at
    NSI_ARRAY(const char*) taken; // by networks and formulas of the model
    NSI_ARRAY(joint) joints;
    NSI_ARRAY(nsi_parameter_request) requests;
    NSI_ARRAY(nsi_setting_request) settings;
    const char* host; // where atoms are put instead of their output, or NULL
    bool failed;      // no memory
} builder;

// ---- texts -------------------------------------------------------------------------------------

static const char* format(builder* b, const char* text, ...) NSI_PRINTF(2, 3);
static const char* format(builder* b, const char* text, ...) {
    char buffer[1200];
    va_list arguments;
    va_start(arguments, text);
    int size = vsnprintf(buffer, sizeof buffer, text, arguments);
    va_end(arguments);
    const char* kept = NULL;
    if (size >= 0 && (size_t)size < sizeof buffer) {
        kept = nsi_arena_string(&b->d->arena, buffer, (size_t)size);
    }
    if (!kept) b->failed = true;
    return kept ? kept : "";
}

static void see_quantity(void* context, const ns_quantity_info* quantity) {
    builder* b = context;
    bool near =
        strncmp(quantity->name, "joint/", 6) == 0 || strncmp(quantity->name, "link/", 5) == 0;
    bool odd = strpbrk(quantity->name, "\"{}*?") || strlen(quantity->name) > 150;
    if (!quantity->affects_state || !near || odd || quantity->stage != NS_STAGE_FORCES) return;
    const char* name = format(b, "%s", quantity->name);
    if (!b->failed && !nsi_array_push(&b->d->allocator, &b->names, name)) b->failed = true;
}

static bool is_in(const char* const* list, uint32_t count, const char* name) {
    for (uint32_t k = 0; k < count; k++) {
        if (strcmp(list[k], name) == 0) return true;
    }
    return false;
}

static bool fits(const nsi_text_list* globs, const char* name) {
    for (uint32_t k = 0; k < globs->count; k++) {
        if (ns_glob_match(globs->data[k], name)) return true;
    }
    return globs->count == 0;
}

// ---- atoms and terms ---------------------------------------------------------------------------

// The number of the quantity as an output; NSI_NONE when nothing may stand there.
static uint32_t output_of(builder* b, const char* name) {
    nsi_dictionary* d = b->d;
    for (uint32_t k = 0; k < d->outputs.count; k++) {
        if (strcmp(d->outputs.data[k], name) == 0) return k;
    }
    bool there = is_in(b->names.data, b->names.count, name);
    if (!there || is_in(b->taken.data, b->taken.count, name)) return NSI_NONE;
    if (!b->host && !fits(&b->fit->plan->discover_outputs, name)) return NSI_NONE;
    const char* kept = format(b, "%s", name);
    if (b->failed || !nsi_array_push(&d->allocator, &d->outputs, kept)) {
        b->failed = true;
        return NSI_NONE;
    }
    return d->outputs.count - 1;
}

typedef struct parts {
    NSI_ARRAY(nsi_term_part) list;
    bool missing; // one of them cannot be
} parts;

// `factor` times a coefficient at a quantity, as a part of a term.
static uint32_t add_part(builder* b, parts* p, const char* output, const char* factor,
                         double sign) {
    nsi_dictionary* d = b->d;
    uint32_t number = output_of(b, output), at = NSI_NONE, index = 0;
    uint32_t host = b->host && number != NSI_NONE ? output_of(b, b->host) : number;
    if (number == NSI_NONE || host == NSI_NONE || b->failed) {
        p->missing = true;
        return NSI_NONE;
    }
    for (uint32_t k = 0; k < d->atoms.count; k++) {
        index += d->atoms.data[k].host == host;
        if (d->atoms.data[k].output != number) continue;
        if (strcmp(d->atoms.data[k].factor, factor) == 0) at = k;
    }
    if (at == NSI_NONE) {
        nsi_atom atom = {.output = number,
                         .host = host,
                         .factor = format(b, "%s", factor),
                         .column = NSI_NONE,
                         .shape = NSI_NONE,
                         .index = index};
        at = d->atoms.count;
        if (!nsi_array_push(&d->allocator, &d->atoms, atom)) b->failed = true;
    }
    nsi_term_part part = {.column = NSI_NONE, .sign = sign, .atom = at};
    if (!nsi_array_push(&d->allocator, &p->list, part)) b->failed = true;
    return at;
}

// Room for so many more coefficients? What has none is counted.
static bool has_room(builder* b, uint32_t more) {
    if (b->d->atoms.count + more <= MOST_COLUMNS) return true;
    b->d->left_out++;
    return false;
}

static uint32_t add_term(builder* b, parts* p, nsi_term term) {
    nsi_dictionary* d = b->d;
    uint32_t number = NSI_NONE;
    if (!p->missing && !b->failed) {
        size_t size = p->list.count * sizeof(nsi_term_part);
        nsi_term_part* copy = nsi_arena_alloc(&d->arena, size + 1);
        if (copy) {
            memcpy(copy, p->list.data, size);
            term.parts = copy;
            term.npart = p->list.count;
            term.name = term.kind == NSI_TERM_FORMULA ? format(b, "%s: %s", term.place, term.form)
                                                      : term.place;
            number = d->terms.count;
        }
        if (!copy || !nsi_array_push(&d->allocator, &d->terms, term)) b->failed = true;
    }
    nsi_array_free(&d->allocator, &p->list);
    p->missing = false;
    return number;
}

static void add_formula(builder* b, parts* p, const char* place, const char* form, double cost,
                        const char* same_as) {
    add_term(b, p,
             (nsi_term){.kind = NSI_TERM_FORMULA,
                        .place = place,
                        .form = form,
                        .unit = "",
                        .same_as = same_as,
                        .cost = cost,
                        .of = NSI_NONE});
}

// ---- joints ------------------------------------------------------------------------------------

static void add_simple(builder* b, const char* tau, const char* factor, const char* form,
                       double cost, const char* same_as) {
    parts p = {0};
    if (!has_room(b, 1)) return;
    add_part(b, &p, tau, factor, 1.0);
    add_formula(b, &p, tau, format(b, "%s", form), cost, same_as);
}

// Coulomb friction, from some speed on: its logarithm is looked for on a grid and then by itself.
static void add_friction(builder* b, const char* tau, const char* qd, const char* same_as) {
    static const double shares[] = {0.4, 0.1, 0.025, 0.006};
    for (int k = 0; k < 4; k++) {
        parts p = {0};
        if (!has_room(b, 2)) return;
        const char* factor = format(b, "tanh(%s / s%d)", qd, k);
        uint32_t at = add_part(b, &p, tau, factor, 1.0);
        if (at != NSI_NONE && !b->failed) {
            b->d->atoms.data[at].speed = format(b, "%s", qd);
            b->d->atoms.data[at].share = shares[k];
        }
        uint32_t term = add_term(b, &p,
                                 (nsi_term){.kind = NSI_TERM_FORMULA,
                                            .place = tau,
                                            .form = format(b, "tanh(qd / v%d)", k),
                                            .unit = "",
                                            .same_as = same_as,
                                            .cost = 1.2,
                                            .of = NSI_NONE});
        if (term == NSI_NONE) continue;
        nsi_term shape = {
            .kind = NSI_TERM_SHAPE, .place = format(b, "%s: v%d", tau, k), .unit = "", .of = term};
        nsi_term_part part = {.column = NSI_NONE, .sign = 1.0, .atom = at};
        if (!nsi_array_push(&b->d->allocator, &p.list, part)) b->failed = true;
        uint32_t number = add_term(b, &p, shape);
        if (number != NSI_NONE) b->d->terms.data[term].of = number;
    }
}

static void add_joint(builder* b, const joint* j) {
    char f[800];
    const char *q = j->q, *qd = j->qd, *tau = j->tau;
#define SAME(what) format(b, "joint/%s/%s", j->name, what)
    add_simple(b, tau, qd, "qd", 1.0, SAME("damping"));
    add_simple(b, tau, q, "q", 1.0, SAME("stiffness"));
    add_friction(b, tau, qd, SAME("friction"));
#undef SAME
    snprintf(f, sizeof f, "abs(%s) * %s", qd, qd);
    add_simple(b, tau, f, "|qd| qd", 1.5, NULL);
    add_simple(b, tau, "1", "1", 2.0, NULL);
    snprintf(f, sizeof f, "%s^3", q);
    add_simple(b, tau, f, "q^3", 2.5, NULL);
    snprintf(f, sizeof f, "%s^2", q);
    add_simple(b, tau, f, "q^2", 3.0, NULL);
    snprintf(f, sizeof f, "%s^3", qd);
    add_simple(b, tau, f, "qd^3", 2.5, NULL);
    snprintf(f, sizeof f, "%s * %s", q, qd);
    add_simple(b, tau, f, "q qd", 3.0, NULL);
    snprintf(f, sizeof f, "%s^2 * %s", q, qd);
    add_simple(b, tau, f, "q^2 qd", 3.0, NULL);
    static const char* const waves[] = {"sin", "cos"};
    for (int k = 0; k < 2 && j->turns; k++) {
        for (int twice = 1; twice <= 2; twice++) {
            char form[60], wave[400];
            snprintf(wave, sizeof wave, "%s(%d * %s)", waves[k], twice, q);
            snprintf(form, sizeof form, "%s(%sq)", waves[k], twice == 2 ? "2 " : "");
            add_simple(b, tau, wave, form, 2.0 + 0.5 * (k + twice - 1), NULL);
            snprintf(f, sizeof f, "%s * %s", wave, qd);
            snprintf(form, sizeof form, "%s(%sq) qd", waves[k], twice == 2 ? "2 " : "");
            add_simple(b, tau, f, form, 2.5 + 0.5 * (k + twice - 1), NULL);
        }
    }
}

static bool are_neighbours(const builder* b, const joint* a, const joint* c) {
    if (b->joints.count <= ALL_PAIRS) return true;
    return ns_model_link_parent(b->model, a->link) == c->link ||
           ns_model_link_parent(b->model, c->link) == a->link;
}

// ---- a wider dictionary ------------------------------------------------------------------------

enum { MOST_ON_HOST = 40, MOST_OTHERS = 3 }; // formulas have at most 512 operations

// One more term at a joint. It is put where there is room: all forces of a joint add up to the same.
static void add_wide_term(builder* b, const joint* j, const char* factor, const char* form,
                          double cost) {
    static const char* const hosts[] = {"damping", "friction", "spring", "limit"};
    nsi_dictionary* d = b->d;
    uint32_t output = output_of(b, j->tau), terms = d->terms.count;
    for (uint32_t k = 0; k < d->atoms.count; k++) {
        bool same =
            d->atoms.data[k].output == output && strcmp(d->atoms.data[k].factor, factor) == 0;
        if (same) return;
    }
    for (int k = 0; k < 4 && !b->failed; k++) {
        const char* host = format(b, "joint/%s/force/%s", j->name, hosts[k]);
        uint32_t on = 0;
        b->host = host;
        uint32_t number = output_of(b, host);
        for (uint32_t i = 0; i < d->atoms.count; i++) on += d->atoms.data[i].host == number;
        if (number != NSI_NONE && on < MOST_ON_HOST) {
            add_simple(b, j->tau, factor, form, cost, NULL);
            b->host = NULL;
            if (d->terms.count > terms) d->terms.data[terms].wide = true;
            return;
        }
        b->host = NULL;
    }
    d->left_out++;
}

// Laws of one joint, then those of two together.
static void add_wide(builder* b, const joint* j) {
    char f[900];
    const char *q = j->q, *qd = j->qd;
#define TERM(form, cost, ...)                                                                      \
    do {                                                                                           \
        snprintf(f, sizeof f, __VA_ARGS__);                                                        \
        add_wide_term(b, j, f, form, cost);                                                        \
    } while (0)
    TERM("(exp(q) - 1)", 4.0, "(exp(%s) - 1)", q);
    TERM("(exp(-q) - 1)", 4.0, "(exp(-%s) - 1)", q);
    TERM("|q| q", 3.5, "abs(%s) * %s", q, q);
    TERM("|q|", 4.0, "abs(%s)", q);
    TERM("|q| qd", 4.0, "abs(%s) * %s", q, qd);
    TERM("exp(q) qd", 4.0, "exp(%s) * %s", q, qd);
    TERM("exp(-q) qd", 4.0, "exp(-%s) * %s", q, qd);
    TERM("q |qd| qd", 4.0, "%s * abs(%s) * %s", q, qd, qd);
    TERM("q^2 |qd| qd", 4.5, "%s^2 * abs(%s) * %s", q, qd, qd);
    TERM("qd^2", 4.0, "%s^2", qd);
    TERM("q qd^2", 4.0, "%s * %s^2", q, qd);
    TERM("|qd|", 4.0, "abs(%s)", qd);
    TERM("qd / (1 + qd^2)", 4.0, "%s / (1 + %s^2)", qd, qd);
    TERM("qd exp(-|qd|)", 4.0, "%s * exp(-abs(%s))", qd, qd);
    TERM("sqrt(|qd|) tanh(10 qd)", 4.0, "sqrt(abs(%s)) * tanh(10 * %s)", qd, qd);
    for (int n = 3; n <= 4 && j->turns; n++) {
        TERM(format(b, "sin(%d q)", n), 3.5, "sin(%d * %s)", n, q);
        TERM(format(b, "cos(%d q)", n), 3.5, "cos(%d * %s)", n, q);
    }
    for (int n = 1; n <= 2 && j->turns; n++) {
        const char* m = n == 2 ? "2 " : "";
        TERM(format(b, "sin(%sq) |qd| qd", m), 4.5, "sin(%d * %s) * abs(%s) * %s", n, q, qd, qd);
        TERM(format(b, "cos(%sq) |qd| qd", m), 4.5, "cos(%d * %s) * abs(%s) * %s", n, q, qd, qd);
        TERM(format(b, "sin(%sq) qd^2", m), 4.5, "sin(%d * %s) * %s^2", n, q, qd);
        TERM(format(b, "cos(%sq) qd^2", m), 4.5, "cos(%d * %s) * %s^2", n, q, qd);
    }
    uint32_t others = 0;
    for (uint32_t k = 0; k < b->joints.count && others < MOST_OTHERS && !b->failed; k++) {
        const joint* o = &b->joints.data[k];
        if (strcmp(o->name, j->name) == 0 || !are_neighbours(b, j, o)) continue;
        others++;
        const char* of = o->name;
        TERM(format(b, "q_%s qd", of), 4.0, "%s * %s", o->q, qd);
        TERM(format(b, "q_%s q", of), 4.0, "%s * %s", o->q, q);
        TERM(format(b, "qd_%s q", of), 4.0, "%s * %s", o->qd, q);
        TERM(format(b, "qd_%s qd", of), 4.0, "%s * %s", o->qd, qd);
        TERM(format(b, "q_%s qd_%s", of, of), 4.5, "%s * %s", o->q, o->qd);
        TERM(format(b, "|qd_%s| qd", of), 4.0, "abs(%s) * %s", o->qd, qd);
        TERM(format(b, "|qd| qd_%s", of), 4.5, "abs(%s) * %s", qd, o->qd);
        TERM(format(b, "|qd_%s| qd_%s", of, of), 4.5, "abs(%s) * %s", o->qd, o->qd);
        TERM(format(b, "q_%s^2 qd", of), 4.5, "%s^2 * %s", o->q, qd);
        TERM(format(b, "q_%s^2 q", of), 4.5, "%s^2 * %s", o->q, q);
        TERM(format(b, "q_%s q^2", of), 4.5, "%s * %s^2", o->q, q);
        TERM(format(b, "q_%s^2", of), 4.5, "%s^2", o->q);
        if (!o->turns) continue;
        TERM(format(b, "sin(q_%s)", of), 4.0, "sin(%s)", o->q);
        TERM(format(b, "cos(q_%s)", of), 4.0, "cos(%s)", o->q);
        TERM(format(b, "sin(q_%s) qd", of), 4.0, "sin(%s) * %s", o->q, qd);
        TERM(format(b, "cos(q_%s) qd", of), 4.0, "cos(%s) * %s", o->q, qd);
        TERM(format(b, "sin(q + q_%s)", of), 4.0, "sin(%s + %s)", q, o->q);
        TERM(format(b, "cos(q + q_%s)", of), 4.0, "cos(%s + %s)", q, o->q);
        TERM(format(b, "sin(q) qd_%s", of), 4.5, "sin(%s) * %s", q, o->qd);
        TERM(format(b, "cos(q) qd_%s", of), 4.5, "cos(%s) * %s", q, o->qd);
    }
#undef TERM
}

// ---- pairs of joints ---------------------------------------------------------------------------

// What one joint does to another, and springs and dampers between the two.
static void add_pair(builder* b, const joint* a, const joint* c) {
    if (!has_room(b, 4)) return;
    const joint* two[] = {a, c};
    for (int k = 0; k < 2; k++) {
        const joint *at = two[k], *other = two[1 - k];
        add_simple(b, at->tau, other->qd, format(b, "qd of %s", other->name), 3.0, NULL);
        add_simple(b, at->tau, other->q, format(b, "q of %s", other->name), 3.0, NULL);
    }
    if (a->turns != c->turns) return;
    const char* place = format(b, "%s, %s", a->tau, c->tau);
    for (int rate = 0; rate < 2; rate++) {
        const char *qa = rate ? a->qd : a->q, *qc = rate ? c->qd : c->q;
        parts p = {0};
        add_part(b, &p, a->tau, qc, 1.0);
        add_part(b, &p, a->tau, qa, -1.0);
        add_part(b, &p, c->tau, qa, 1.0);
        add_part(b, &p, c->tau, qc, -1.0);
        add_formula(b, &p, place, rate ? "(qd of the other - qd)" : "(q of the other - q)", 2.5,
                    NULL);
    }
}

static void list_joints(builder* b) {
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nlink && !b->failed; k++) {
        const ns_link_def* link = ns_model_link(b->model, k);
        const ns_joint_info* info = ns_joint_type_info(link->joint_type);
        if (!info->has_axis) continue;
        bool turns = info->nlinear == 0;
        if (ns_model_joint_v(b->model, k) == UINT32_MAX) continue; // mimics another
        if (strlen(link->joint) > MOST_NAME) {
            b->d->left_out++;
            continue;
        }
        joint j = {.name = link->joint, .link = k, .turns = turns};
        j.tau = format(b, "joint/%s/tau", link->joint);
        snprintf(j.q, sizeof j.q, "\"joint/%.*s/position\"", MOST_NAME, link->joint);
        snprintf(j.qd, sizeof j.qd, "\"joint/%.*s/velocity\"", MOST_NAME, link->joint);
        if (!is_in(b->names.data, b->names.count, j.tau)) continue;
        if (!nsi_array_push(&b->d->allocator, &b->joints, j)) b->failed = true;
    }
}

// Ball and floating joints: damping and friction along each velocity.
static void add_ball_joints(builder* b) {
    for (uint32_t k = 0; k < b->names.count && !b->failed; k++) {
        const char *name = b->names.data[k], *number = strrchr(name, '/') + 1, *tau = number - 5;
        // "joint/free/tau/0"; a joint may have a name with slashes, too
        bool component = strncmp(name, "joint/", 6) == 0 && tau > name + 6 &&
                         strncmp(tau, "/tau/", 5) == 0 && strspn(number, "0123456789") > 0;
        if (!component) continue;
        char qd[300], f[800];
        snprintf(qd, sizeof qd, "\"%.*s/velocity/%s\"", (int)(tau - name), name, number);
        add_simple(b, name, qd, "qd", 1.5, NULL);
        snprintf(f, sizeof f, "abs(%s) * %s", qd, qd);
        add_simple(b, name, f, "|qd| qd", 2.0, NULL);
        add_simple(b, name, "1", "1", 2.5, NULL);
    }
}

// ---- links -------------------------------------------------------------------------------------

// Laws of drag by the axes they act along, and whose velocities make the speed.
typedef struct law {
    const char* form;
    const char* axes; // that it acts along
    const char*
        speed; // axes of the speed it is multiplied by; "": linear; one: that of the axis itself
    double cost;
} law;

static const law laws[] = {{"|v| v", "xyz", "xyz", 1.8},
                           {"v", "xyz", "", 1.9},
                           {"|v| v", "x", "x", 2.2},
                           {"|v| v", "y", "y", 2.2},
                           {"|v| v", "z", "z", 2.2},
                           {"|v_yz| v_yz", "yz", "yz", 2.1},
                           {"|v_xz| v_xz", "xz", "xz", 2.1},
                           {"|v_xy| v_xy", "xy", "xy", 2.1},
                           {"v", "x", "", 2.4},
                           {"v", "y", "", 2.4},
                           {"v", "z", "", 2.4}};
enum { LAWS = sizeof laws / sizeof *laws };

static const char* const kinds[] = {"force", "torque"};
static const char* const velocities[] = {"com", "angular"};

static void add_law_parts(builder* b, parts* p, const char* link, int kind, const law* l) {
    char output[200], factor[900], v[3][200];
    for (int k = 0; k < 3; k++) {
        snprintf(v[k], sizeof v[k], "\"link/%.120s/velocity/%s/%c\"", link, velocities[kind],
                 "xyz"[k]);
    }
    for (const char* a = l->axes; *a; a++) {
        int axis = *a - 'x';
        size_t speeds = strlen(l->speed);
        snprintf(output, sizeof output, "link/%.120s/%s/%c", link, kinds[kind], *a);
        if (speeds == 0) {
            snprintf(factor, sizeof factor, "%s", v[axis]);
        } else if (speeds == 1) {
            snprintf(factor, sizeof factor, "abs(%s) * %s", v[axis], v[axis]);
        } else {
            int used = snprintf(factor, sizeof factor, "sqrt(");
            for (const char* s = l->speed; *s; s++) {
                used += snprintf(factor + used, sizeof factor - (size_t)used, "%s%s^2",
                                 s > l->speed ? " + " : "", v[*s - 'x']);
            }
            snprintf(factor + used, sizeof factor - (size_t)used, ") * %s", v[axis]);
        }
        add_part(b, p, output, factor, 1.0);
    }
}

static const char* place_of_law(builder* b, const char* link, int kind, const law* l) {
    bool one = strlen(l->axes) == 1;
    return format(b, "link/%s/%s%s%s", link, kinds[kind], one ? "/" : "", one ? l->axes : "");
}

static const char* form_of_law(builder* b, int kind, const law* l) {
    char form[40];
    snprintf(form, sizeof form, "%s", l->form);
    for (char* c = form; *c && kind == 1; c++) {
        if (*c == 'v') *c = 'w';
    }
    return format(b, "%s", form);
}

static bool is_moved(const builder* b, const char* link) {
    char name[200];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "link/%.120s/force/%c", link, "xyz"[k]);
        if (is_in(b->names.data, b->names.count, name)) return true;
    }
    return false;
}

static void add_links(builder* b) {
    uint32_t nlink = ns_model_get_sizes(b->model).nlink, moved = 0;
    for (uint32_t k = 0; k < nlink; k++) {
        const char* link = ns_model_link(b->model, k)->name;
        moved += is_moved(b, link);
        b->d->left_out += strlen(link) > MOST_NAME;
    }
    for (int kind = 0; kind < 2; kind++) {
        for (int n = 0; n < LAWS && !b->failed; n++) {
            const law* l = &laws[n];
            if (kind == 1 && strlen(l->axes) == 2) continue;
            uint32_t atoms = (uint32_t)strlen(l->axes) * moved;
            if (!has_room(b, atoms)) continue;
            parts shared = {0};
            for (uint32_t k = 0; k < nlink; k++) {
                const char* link = ns_model_link(b->model, k)->name;
                if (!is_moved(b, link)) continue;
                parts own = {0};
                add_law_parts(b, &own, link, kind, l);
                add_law_parts(b, &shared, link, kind, l);
                add_formula(b, &own, place_of_law(b, link, kind, l), form_of_law(b, kind, l),
                            l->cost + kind, NULL);
            }
            if (moved < 2) shared.missing = true;
            add_formula(b, &shared, place_of_law(b, "*", kind, l), form_of_law(b, kind, l),
                        l->cost - 0.2 + kind, NULL);
        }
    }
}

// ---- parameters --------------------------------------------------------------------------------

static const char* const usual[] = {"link/*/mass", "link/*/com/?", "link/*/inertia/??",
                                    "actuator/*/gear", "actuator/*/k?"};

static bool is_asked(const builder* b, const char* name) {
    const nsi_text_list* globs = &b->fit->plan->discover_parameters;
    if (globs->count > 0) return fits(globs, name);
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++) {
        if (ns_glob_match(usual[k], name)) return true;
    }
    return false;
}

// Does the file fit or set it?
static bool is_given(const builder* b, const char* name) {
    const nsi_fit_spec* plan = b->fit->plan;
    for (uint32_t k = 0; k < plan->parameters.count; k++) {
        if (ns_glob_match(plan->parameters.data[k].name, name)) return true;
    }
    for (uint32_t k = 0; k < plan->settings.count; k++) {
        if (ns_glob_match(plan->settings.data[k].name, name)) return true;
    }
    return false;
}

static double cost_of(const ns_param* param) {
    switch (param->kind) {
    case NS_PARAM_MASS: return 1.0;
    case NS_PARAM_COM: return 2.0;
    case NS_PARAM_INERTIA: return 2.2;
    default: return 1.5;
    }
}

double nsi_discover_value(const ns_fit* fit, const ns_param* param) {
    double value = param->value;
    for (uint32_t k = 0; k < fit->options.nset; k++) {
        const ns_param_value* set = &fit->options.set[k];
        if (ns_glob_match(set->pattern, param->name)) value = set->value;
    }
    return value;
}

static void add_variable(builder* b, nsi_term term, uint32_t column) {
    parts p = {0};
    nsi_term_part part = {.column = column, .sign = 1.0, .atom = NSI_NONE};
    term.of = NSI_NONE;
    if (!nsi_array_push(&b->d->allocator, &p.list, part)) b->failed = true;
    add_term(b, &p, term);
}

// A parameter is a variable of our own, which is set free of bounds and transforms: what no body can
// have is refused.
static void add_parameters(builder* b) {
    const nsi_fit_spec* plan = b->fit->plan;
    ns_allocator* memory = &b->d->allocator;
    for (uint32_t k = 0; k < plan->parameters.count; k++) {
        nsi_parameter_request request = plan->parameters.data[k];
        request.how.prior_sigma = NAN; // residuals are not weighed against anything here
        if (!nsi_array_push(memory, &b->requests, request)) b->failed = true;
    }
    for (uint32_t k = 0; k < plan->settings.count; k++) {
        if (!nsi_array_push(memory, &b->settings, plan->settings.data[k])) b->failed = true;
    }
    for (uint32_t k = 0; k < ns_model_get_sizes(b->model).nparam && !b->failed; k++) {
        const ns_param* param = ns_model_param(b->model, k);
        bool of_link = param->kind <= NS_PARAM_INERTIA;
        bool fixed = of_link && !is_moved(b, ns_model_link(b->model, param->owner)->name);
        if (fixed || !is_asked(b, param->name) || is_given(b, param->name)) continue;
        if (!has_room(b, b->requests.count - plan->parameters.count + 1)) continue;
        nsi_parameter_request request = {.name = format(b, "discover_%u", k),
                                         .how = ns_default_parameter(),
                                         .line = 1,
                                         .column = 1};
        request.how.initial = nsi_discover_value(b->fit, param);
        nsi_setting_request setting = {
            .name = param->name, .formula = request.name, .line = 1, .column = 1};
        if (!nsi_array_push(memory, &b->requests, request) ||
            !nsi_array_push(memory, &b->settings, setting)) {
            b->failed = true;
        }
    }
}

// Terms for variables, after those have their order.
static void name_variables(builder* b) {
    const ns_parameters* v = b->d->variables;
    for (uint32_t k = 0; k < ns_parameters_count(v) && !b->failed; k++) {
        const ns_parameter_info* variable = ns_parameters_at(v, k);
        nsi_term term = {.kind = NSI_TERM_GIVEN,
                         .place = variable->name,
                         .form = "",
                         .unit = variable->unit ? variable->unit : "",
                         .start = variable->initial,
                         .cost = 1.0};
        for (uint32_t i = 0; i < b->settings.count; i++) {
            const nsi_setting_request* s = &b->settings.data[i];
            if (strcmp(s->formula, variable->name) != 0 ||
                strncmp(s->formula, "discover_", 9) != 0) {
                continue;
            }
            const ns_param* param =
                ns_model_param(b->model, ns_model_find_param(b->model, s->name));
            term.kind = NSI_TERM_PARAMETER;
            term.place = s->name;
            term.unit = param->unit;
            term.cost = cost_of(param);
        }
        add_variable(b, term, k);
    }
}

// ---- the blueprint -----------------------------------------------------------------------------

const ns_blueprint* nsi_discover_base(const ns_fit* fit) {
    return fit->options.blueprint;
}

static ns_status copy_base(const ns_fit* fit, ns_blueprint* to, ns_error* error) {
    const ns_blueprint* base = nsi_discover_base(fit);
    ns_status status = NS_OK;
    for (uint32_t k = 0; base && k < ns_blueprint_network_count(base) && status == NS_OK; k++) {
        status = ns_blueprint_add(to, ns_blueprint_network(base, k), error);
    }
    for (uint32_t k = 0; base && k < ns_blueprint_formula_count(base) && status == NS_OK; k++) {
        status = ns_blueprint_add_formula(to, ns_blueprint_formula(base, k), error);
    }
    return status;
}

// Coefficients k<n> and s<n> of one formula: its text and their values.
typedef struct formula_text {
    nsi_text_builder text;
    NSI_ARRAY(ns_coefficient) list;
    char names[MOST_COLUMNS * 2][12];
} formula_text;

static void add_coefficient(formula_text* f, char letter, uint32_t number, double value) {
    if (f->list.count >= MOST_COLUMNS * 2) return;
    char* name = f->names[f->list.count];
    snprintf(name, sizeof f->names[0], "%c%u", letter, number);
    if (!nsi_array_push(&f->text.allocator, &f->list, ((ns_coefficient){name, value}))) {
        f->text.failed = true;
    }
}

// "tanh(qd / s2)" names s by its number on the grid, which is that of the formula's own here.
static void add_atom(formula_text* f, const nsi_atom* atom, uint32_t number, double value,
                     double shape) {
    nsi_text_add(&f->text, "%sk%u * %s", f->list.count > 0 ? " + " : "", number, atom->factor);
    add_coefficient(f, 'k', number, value);
    if (!atom->speed) return;
    const char* s = strrchr(atom->factor, 's'); // of "/ s2)"
    add_coefficient(f, 's', (uint32_t)(s[1] - '0'), shape);
}

static ns_status add_formula_text(formula_text* f, ns_blueprint* to, const char* name,
                                  const char* output, ns_error* error) {
    ns_status status = NS_OK;
    nsi_text_add_bytes(&f->text, "", 1);
    if (f->text.failed) {
        status = nsi_fail_nomem(error);
    } else if (f->list.count > 0) {
        ns_formula_def def = ns_default_formula_def();
        def.name = name;
        def.output = output;
        def.formula = f->text.text.data;
        def.coefficients = f->list.data;
        def.ncoefficient = f->list.count;
        status = ns_blueprint_add_formula(to, &def, error);
    }
    return status;
}

// A name for a formula: that of its output in letters that names may have.
static void name_formula(const char* output, const char* prefix, char* out, size_t size) {
    snprintf(out, size, "%s%.150s", prefix, output);
    for (char* c = out; *c; c++) {
        bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
                      (*c >= '0' && *c <= '9') || strchr("-.", *c);
        if (!letter) *c = '_';
    }
}

// All atoms, or those of some terms with their values.
static ns_status write_blueprint(const nsi_dictionary* d, const ns_fit* fit, const double* values,
                                 const uint8_t* used, const double* shapes, ns_blueprint** out,
                                 ns_error* error) {
    ns_blueprint* blueprint = NULL;
    ns_status status = ns_blueprint_create(&d->allocator, &blueprint, error);
    if (status == NS_OK) status = copy_base(fit, blueprint, error);
    formula_text* f = nsi_alloc(&d->allocator, sizeof *f);
    if (!f && status == NS_OK) status = nsi_fail_nomem(error);
    for (uint32_t k = 0; k < d->outputs.count && status == NS_OK; k++) {
        char name[200];
        memset(f, 0, offsetof(formula_text, names));
        f->text.allocator = d->allocator;
        uint32_t number = 0;
        for (uint32_t i = 0; i < d->atoms.count; i++) {
            const nsi_atom* atom = &d->atoms.data[i];
            if ((used ? atom->output : atom->host) != k || (used && !used[i])) continue;
            add_atom(f, atom, number++, values ? values[i] : 0.0, shapes ? shapes[i] : 1.0);
        }
        name_formula(d->outputs.data[k], "missing.", name, sizeof name);
        status = add_formula_text(f, blueprint, name, d->outputs.data[k], error);
        nsi_array_free(&d->allocator, &f->text.text);
        nsi_array_free(&d->allocator, &f->list);
    }
    nsi_free(&d->allocator, f);
    if (status != NS_OK) {
        ns_blueprint_free(blueprint);
        return status;
    }
    *out = blueprint;
    return NS_OK;
}

ns_status nsi_dictionary_blueprint(const nsi_dictionary* d, const ns_fit* fit,
                                   const uint32_t* terms, uint32_t nterm, const double* values,
                                   ns_blueprint** out, ns_error* error) {
    size_t count = (size_t)d->atoms.count + 1;
    double* numbers = nsi_alloc_zeroed(&d->allocator, 2 * count * sizeof *numbers);
    uint8_t* used = nsi_alloc_zeroed(&d->allocator, count);
    ns_status status = numbers && used ? NS_OK : nsi_fail_nomem(error);
    for (uint32_t k = 0; k < nterm && status == NS_OK; k++) {
        const nsi_term* t = &d->terms.data[terms[k]];
        for (uint32_t i = 0; i < t->npart; i++) {
            uint32_t atom = t->parts[i].atom;
            if (atom == NSI_NONE) continue;
            if (t->kind == NSI_TERM_SHAPE) {
                numbers[count + atom] = t->start + values[terms[k]];
            } else {
                used[atom] = 1;
                numbers[atom] += t->parts[i].sign * values[terms[k]];
            }
        }
    }
    if (status == NS_OK) {
        status = write_blueprint(d, fit, numbers, used, numbers + count, out, error);
    }
    nsi_free(&d->allocator, numbers);
    nsi_free(&d->allocator, used);
    return status;
}

// ---- the whole ---------------------------------------------------------------------------------

// Quantities at which the model has a network or formula already.
static ns_status find_taken(builder* b, ns_error* error) {
    if (!nsi_discover_base(b->fit)) return NS_OK;
    ns_system* system = NULL;
    ns_status status = ns_system_create(b->model, &b->fit->options, &system, error);
    if (status != NS_OK) return status;
    const nsi_binding* binding = system->binding;
    for (uint32_t k = 0; binding && k < binding->ninstance; k++) {
        for (uint32_t i = 0; i < binding->instances[k].noutput && !b->failed; i++) {
            const char* name = format(b, "%s", binding->instances[k].outputs[i]);
            if (b->failed || !nsi_array_push(&b->d->allocator, &b->taken, name)) b->failed = true;
        }
    }
    ns_system_free(system);
    return NS_OK;
}

static ns_status check_globs(const builder* b, ns_error* error) {
    const nsi_fit_spec* plan = b->fit->plan;
    for (uint32_t k = 0; k < plan->discover_parameters.count; k++) {
        const char* glob = plan->discover_parameters.data[k];
        bool any = false;
        for (uint32_t i = 0; i < ns_model_get_sizes(b->model).nparam && !any; i++) {
            any = ns_glob_match(glob, ns_model_param(b->model, i)->name);
        }
        if (!any) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%.200s: discover: parameters: the model has none that fits %.200s;"
                            " 'neuralsim inspect MODEL --params' lists them",
                            plan->path, glob);
        }
    }
    for (uint32_t k = 0; k < plan->discover_outputs.count; k++) {
        const char* glob = plan->discover_outputs.data[k];
        bool any = false;
        for (uint32_t i = 0; i < b->names.count && !any; i++) {
            any = ns_glob_match(glob, b->names.data[i]);
        }
        if (!any) {
            return nsi_fail(error, NS_ERR_PARSE,
                            "%.200s: discover: outputs: there is no force at a joint or link that"
                            " fits %.200s; 'neuralsim quantities MODEL' lists them",
                            plan->path, glob);
        }
    }
    return NS_OK;
}

static ns_status build(builder* b, const char* wide, ns_error* error) {
    ns_status status = ns_model_quantities(b->model, &b->fit->options, see_quantity, b, error);
    if (status == NS_OK) status = check_globs(b, error);
    if (status == NS_OK) status = find_taken(b, error);
    if (status != NS_OK) return status;
    list_joints(b);
    for (uint32_t k = 0; k < b->joints.count && !b->failed; k++) add_joint(b, &b->joints.data[k]);
    add_ball_joints(b);
    add_links(b);
    for (uint32_t k = 0; k < b->joints.count; k++) {
        uint32_t coupled = 0;
        for (uint32_t i = 0; i < k && coupled < MOST_COUPLED && !b->failed; i++) {
            if (!are_neighbours(b, &b->joints.data[k], &b->joints.data[i])) continue;
            add_pair(b, &b->joints.data[i], &b->joints.data[k]);
            coupled++;
        }
    }
    for (uint32_t k = 0; k < b->joints.count && wide; k++) {
        if (strcmp(b->joints.data[k].tau, wide) == 0) add_wide(b, &b->joints.data[k]);
    }
    add_parameters(b);
    if (b->failed) return nsi_fail_nomem(error);
    ns_variant only = {.model = b->model, .options = &b->fit->options};
    status = nsi_parameters_read(&only, 1, b->fit->plan->path, b->requests.data, b->requests.count,
                                 b->settings.data, b->settings.count, &b->d->allocator,
                                 &b->d->variables, error);
    if (status != NS_OK) return status;
    name_variables(b);
    b->d->nz = ns_parameters_count(b->d->variables);
    if (b->failed) return nsi_fail_nomem(error);
    return write_blueprint(b->d, b->fit, NULL, NULL, NULL, &b->d->blueprint, error);
}

ns_status nsi_dictionary_make(ns_fit* fit, const char* wide, nsi_dictionary* d, ns_error* error) {
    *d = (nsi_dictionary){.allocator = fit->allocator, .arena = {.allocator = fit->allocator}};
    builder b = {.fit = fit, .d = d, .model = ns_hybrid_model(fit->hybrid)};
    ns_status status = build(&b, wide, error);
    nsi_array_free(&d->allocator, &b.names);
    nsi_array_free(&d->allocator, &b.taken);
    nsi_array_free(&d->allocator, &b.joints);
    nsi_array_free(&d->allocator, &b.requests);
    nsi_array_free(&d->allocator, &b.settings);
    if (status != NS_OK) nsi_dictionary_free(d);
    return status;
}

void nsi_dictionary_free(nsi_dictionary* d) {
    ns_blueprint_free(d->blueprint);
    ns_parameters_free(d->variables);
    nsi_array_free(&d->allocator, &d->outputs);
    nsi_array_free(&d->allocator, &d->atoms);
    nsi_array_free(&d->allocator, &d->terms);
    nsi_arena_free(&d->arena);
    *d = (nsi_dictionary){.allocator = d->allocator};
}

// Coefficients stand in each formula's set in the order in which add_atom() named them.
ns_status nsi_dictionary_bind(nsi_dictionary* d, const ns_system* system, ns_error* error) {
    d->ncolumn = d->nz + ns_system_get_sizes(system).nw;
    for (uint32_t k = 0; k < d->outputs.count; k++) {
        char name[200];
        uint32_t at = NSI_NONE;
        name_formula(d->outputs.data[k], "missing.", name, sizeof name);
        for (uint32_t i = 0; i < ns_system_weight_matrix_count(system); i++) {
            ns_weight_matrix m = ns_system_weight_matrix(system, i);
            if (m.formula && strcmp(m.set, name) == 0) at = d->nz + m.offset;
        }
        bool any = false;
        for (uint32_t i = 0; i < d->atoms.count; i++) any = any || d->atoms.data[i].host == k;
        if (at == NSI_NONE && any) {
            return nsi_fail(error, NS_ERR_UNSUPPORTED, "formulas at %.200s have no effect",
                            d->outputs.data[k]);
        }
        for (uint32_t i = 0; i < d->atoms.count; i++) {
            nsi_atom* atom = &d->atoms.data[i];
            if (atom->host != k) continue;
            atom->column = at++;
            if (atom->speed) atom->shape = at++;
        }
    }
    for (uint32_t k = 0; k < d->terms.count; k++) {
        nsi_term* t = &d->terms.data[k];
        for (uint32_t i = 0; i < t->npart; i++) {
            nsi_term_part* part = (nsi_term_part*)&t->parts[i]; // ours, from the arena
            if (part->atom == NSI_NONE) continue;
            const nsi_atom* atom = &d->atoms.data[part->atom];
            part->column = t->kind == NSI_TERM_SHAPE ? atom->shape : atom->column;
        }
    }
    return NS_OK;
}
