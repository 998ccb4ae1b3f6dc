// Pairs of geometries as calls of functions (expr/call.h). Two boxes are the same function of their
// poses, sizes, velocities and parameters as two others: it is traced once, and called for each pair.
//
// Constants of a pair are inputs, too, so that pairs of other sizes and parameters share the function:
// knowing them would make it faster by less than 1 %. A function knows zeros and ones, with which much
// folds, and those by which a law chooses formulas, such as its exponent. Where two of the expressions of
// a pair are the same, it knows that as well, equal sizes apart.

#include "contact/contact_stages.h"
#include "expr/trace.h"

#include <math.h>
#include <stdio.h>

enum {
    CALLED_POINTS = 32, // points of all pairs of a kind from which on they are called
    MAX_ITEMS = 80 + NS_CONTACT_MAX_PARAMS,
    MAX_NAME = 1024
};

// An expression that the trace of a pair reads: a constant of the function, or an input.
typedef struct pair_item {
    uint32_t input; // its number, or NSI_NONE: `value`
    double value;
} pair_item;

typedef struct pair_pattern {
    uint32_t count, ninput;
    pair_item items[MAX_ITEMS];
    nsi_id inputs[MAX_ITEMS]; // (ninput) nodes of the graph
} pair_pattern;

typedef struct pair_quantity {
    const char* name; // behind "contact/<pair>/"
    const char* unit;
} pair_quantity;

typedef struct pair_function {
    struct pair_function* next;
    nsi_pair_trace* trace;
    nsi_placed_pair like; // for what is no expression
    uint32_t count;
    const pair_item* items; // (count)
    nsi_function* function; // the graph owns it
    uint32_t noutput;       // quantities are the outputs behind these
    uint32_t nquantity;
    pair_quantity* quantities;
} pair_function;

// What a graph keeps.
typedef struct pair_functions {
    pair_function* first;
} pair_functions;

// ---- expressions of a pair -----------------------------------------------------------------

// All expressions of a pair, in the same order for pairs of the same kind. The first `*nshape` belong to
// poses and shapes, the others are parameters of the law.
static uint32_t list_items(nsi_placed_pair* pair, ns_expr** items, uint32_t* nshape) {
    uint32_t n = 0;
    for (int side = 0; side < 2; side++) {
        nsi_shape* shape = &pair->shape[side];
        for (int k = 0; k < 9; k++) items[n++] = &shape->R.e[k / 3][k % 3];
        for (int k = 0; k < 3; k++) items[n++] = &shape->position.e[k];
        for (int k = 0; k < 3; k++) items[n++] = &shape->size[k];
        if (pair->body[side] == NSI_NONE) continue;
        for (int k = 0; k < 9; k++) items[n++] = &pair->pose[side].R.e[k / 3][k % 3];
        for (int k = 0; k < 3; k++) items[n++] = &pair->pose[side].position.e[k];
        for (int k = 0; k < 3; k++) items[n++] = &pair->velocity[side].w.e[k];
        for (int k = 0; k < 3; k++) items[n++] = &pair->velocity[side].v.e[k];
    }
    for (int k = 0; pair->on_link && k < 9; k++) items[n++] = &pair->link.R.e[k / 3][k % 3];
    for (int k = 0; pair->on_link && k < 3; k++) items[n++] = &pair->link.position.e[k];
    *nshape = n;
    const ns_contact_law* law = ns_contact_law_get(pair->law);
    for (uint32_t k = 0; k < law->nparam; k++) items[n++] = &pair->params[k];
    return n;
}

// Does the law choose formulas by this parameter?
static bool chooses_formulas(int law, uint32_t k) {
    const nsi_contact_law* record = nsi_contact_law_get(law);
    const ns_contact_param* param = nsi_contact_find_param(record->law.params[k].name);
    return param->constant || (record->formulas >> k & 1);
}

static void find_pattern(const ns_graph* g, const nsi_placed_pair* pair, pair_pattern* out) {
    nsi_placed_pair copy = *pair;
    ns_expr* items[MAX_ITEMS];
    uint32_t nshape, first_param = 0;
    *out = (pair_pattern){.count = list_items(&copy, items, &nshape)};
    for (uint32_t k = 0; k < out->count; k++) {
        nsi_id id = items[k]->id;
        const nsi_node* node = &g->nodes.data[id];
        bool constant = node->op == NSI_CONST, is_param = k >= nshape;
        if (k == nshape) first_param = out->ninput;

        // A constant that the function knows.
        bool folds = constant && (node->value == 0.0 || fabs(node->value) == 1.0);
        if (folds || (constant && is_param && chooses_formulas(pair->law, k - nshape))) {
            out->items[k] = (pair_item){NSI_NONE, node->value};
            continue;
        }

        // An input. Sizes that happen to be equal to another number are inputs of their own.
        uint32_t input = !constant ? 0 : is_param ? first_param : out->ninput;
        while (input < out->ninput && out->inputs[input] != id) input++;
        if (input == out->ninput) out->inputs[out->ninput++] = id;
        out->items[k] = (pair_item){input, 0.0};
    }
}

// ---- functions -----------------------------------------------------------------------------

static bool same_shape(const nsi_shape* a, const nsi_shape* b) {
    return a->type == b->type && a->nvertex == b->nvertex &&
           (a->nvertex == 0 ||
            memcmp(a->vertices, b->vertices, 3 * (size_t)a->nvertex * sizeof(double)) == 0);
}

static bool same_kind(const nsi_placed_pair* a, const nsi_placed_pair* b) {
    return a->law == b->law && a->on_link == b->on_link &&
           (a->body[0] == NSI_NONE) == (b->body[0] == NSI_NONE) &&
           (a->body[1] == NSI_NONE) == (b->body[1] == NSI_NONE) &&
           same_shape(&a->shape[0], &b->shape[0]) && same_shape(&a->shape[1], &b->shape[1]);
}

static bool same_items(const pair_function* f, const pair_pattern* pattern) {
    if (f->count != pattern->count) return false;
    for (uint32_t k = 0; k < f->count; k++) {
        const pair_item *p = &f->items[k], *q = &pattern->items[k];
        if (p->input != q->input || memcmp(&p->value, &q->value, sizeof p->value) != 0) {
            return false;
        }
    }
    return true;
}

static void prefix_of(const nsi_robot* robot, uint32_t pair, char out[MAX_NAME]) {
    snprintf(out, MAX_NAME, "contact/%s/", robot->model->contacts[pair].def.name);
}

// Trace the body. Its outputs are those of the trace, then the quantities.
static ns_graph* trace_body(const nsi_robot* robot, const nsi_placed_pair* pair,
                            const pair_pattern* pattern, const nsi_pair_work* work) {
    ns_graph* body;
    if (ns_graph_create(&robot->graph->allocator, &body, NULL) != NS_OK) {
        nsi_graph_fail_nomem(robot->graph);
        return NULL;
    }
    nsi_trace_state outside = nsi_trace_enter(body);
    char name[32];

    // The same pair in terms of the function's inputs.
    nsi_placed_pair inside = *pair;
    ns_expr *items[MAX_ITEMS], inputs[MAX_ITEMS];
    uint32_t nshape, count = list_items(&inside, items, &nshape);
    for (uint32_t k = 0; k < pattern->ninput; k++) {
        snprintf(name, sizeof name, "x%u", k);
        inputs[k] = ns_input(name);
    }
    for (uint32_t k = 0; k < count; k++) {
        const pair_item* item = &pattern->items[k];
        *items[k] = item->input == NSI_NONE ? ns_const(item->value) : inputs[item->input];
    }

    // What comes of it.
    nsi_robot in_body = {.model = robot->model, .graph = body};
    uint32_t noutput = work->noutput;
    ns_expr* out = nsi_robot_alloc(&in_body, noutput, sizeof *out);
    if (out) {
        work->trace(&in_body, &inside, out);
        for (uint32_t k = 0; k < noutput + body->quantities.count; k++) {
            snprintf(name, sizeof name, "y%u", k);
            nsi_id node = k < noutput ? out[k].id : body->quantities.data[k - noutput].node;
            nsi_graph_output(body, name, node);
            if (body->error.status != NS_OK) break;
        }
    }
    nsi_trace_leave(outside);
    return body;
}

// Copy what the graph has to know of the quantities of a body.
static bool keep_quantities(const nsi_robot* robot, const nsi_placed_pair* pair,
                            const ns_graph* body, pair_function* f) {
    char prefix[MAX_NAME];
    prefix_of(robot, pair->number, prefix);
    f->nquantity = body->quantities.count;
    f->quantities = nsi_robot_alloc(robot, f->nquantity, sizeof *f->quantities);
    for (uint32_t k = 0; f->quantities && k < f->nquantity; k++) {
        const nsi_port* quantity = &body->quantities.data[k];
        const char* name = quantity->name + strlen(prefix);
        name = nsi_arena_string(&robot->graph->arena, name, strlen(name));
        if (!name) nsi_graph_fail_nomem(robot->graph);
        f->quantities[k] = (pair_quantity){name, quantity->unit};
    }
    return robot->graph->error.status == NS_OK;
}

static pair_function* make_function(const nsi_robot* robot, const nsi_placed_pair* pair,
                                    const pair_pattern* pattern, const nsi_pair_work* work) {
    ns_graph* g = robot->graph;
    pair_function* f = nsi_robot_alloc(robot, 1, sizeof *f);
    pair_item* items = nsi_robot_alloc(robot, pattern->count, sizeof *items);
    if (!f || !items) return NULL;
    memcpy(items, pattern->items, pattern->count * sizeof *items);
    *f = (pair_function){.trace = work->trace,
                         .like = *pair,
                         .count = pattern->count,
                         .items = items,
                         .noutput = work->noutput};

    // Quantities are copied before the body, which may fail, is handed over.
    ns_graph* body = trace_body(robot, pair, pattern, work);
    if (!body) return NULL;
    ns_error error;
    bool kept = body->error.status != NS_OK || keep_quantities(robot, pair, body, f);
    double* off = nsi_robot_alloc(robot, body->outputs.count, sizeof *off);
    for (uint32_t k = 0; off && k < body->outputs.count; k++) {
        off[k] = work->noff > 0 && k < work->noutput ? work->off[k % work->noff] : 0.0;
    }
    ns_status status = nsi_function_create(body, off, &f->function, &error);
    if (status != NS_OK) nsi_graph_fail(g, status, "%s", error.message);
    bool owned = status == NS_OK && kept && nsi_graph_own_function(g, f->function);
    if (status == NS_OK) nsi_function_release(f->function);
    return owned ? f : NULL;
}

// The function for a pair, and in `pattern` its inputs; NULL when the trace has failed.
static const pair_function* find_function(const nsi_robot* robot, const nsi_placed_pair* pair,
                                          const nsi_pair_work* work, pair_pattern* pattern) {
    static const char owner;
    pair_functions* all = nsi_graph_memo(robot->graph, &owner, sizeof *all);
    if (!all) return NULL;
    find_pattern(robot->graph, pair, pattern);
    for (const pair_function* f = all->first; f; f = f->next) {
        if (f->trace == work->trace && same_kind(&f->like, pair) && same_items(f, pattern)) {
            return f;
        }
    }
    pair_function* made = make_function(robot, pair, pattern, work);
    if (!made) return NULL;
    made->next = all->first;
    all->first = made;
    return made;
}

// ---- calls ---------------------------------------------------------------------------------

bool nsi_pair_is_frequent(const nsi_robot* robot, const nsi_contact_options* options,
                          const nsi_placed_pair* pair) {
    // Points of all pairs of the kind.
    const ns_model* m = robot->model;
    uint32_t points = 0;
    for (uint32_t i = 0; i < m->sizes.ncontact && points < CALLED_POINTS; i++) {
        const nsi_contact* other = &m->contacts[i];
        bool follows = (options->model < 0 ? other->def.model : options->model) == pair->law;
        if (follows && m->geoms[other->a].def.type == pair->shape[0].type &&
            m->geoms[other->b].def.type == pair->shape[1].type) {
            points += pair->npoint;
        }
    }
    return points >= CALLED_POINTS && points > pair->npoint;
}

bool nsi_pair_is_augmented(const nsi_robot* robot, const nsi_placed_pair* pair) {
    char prefix[MAX_NAME];
    prefix_of(robot, pair->number, prefix);
    return nsi_trace_touches(prefix);
}

// Names of the points' quantities, which a second call gives wherever the shapes are. Nothing but what is
// observed is computed.
static void name_quantities(const nsi_robot* robot, const nsi_placed_pair* pair,
                            const pair_function* f, const nsi_id* inputs) {
    ns_graph* g = robot->graph;
    char name[2 * MAX_NAME], prefix[MAX_NAME];
    prefix_of(robot, pair->number, prefix);
    nsi_id everywhere = nsi_graph_call(g, f->function, nsi_graph_const(g, 1.0), inputs);
    for (uint32_t k = 0; k < f->nquantity && g->error.status == NS_OK; k++) {
        snprintf(name, sizeof name, "%s%s", prefix, f->quantities[k].name);
        ns_expr x = {nsi_graph_out(g, everywhere, f->noutput + k)};
        nsi_trace_observe(name, f->quantities[k].unit, x);
    }
}

void nsi_pair_call(const nsi_robot* robot, const nsi_placed_pair* pair, ns_expr active,
                   const nsi_pair_work* work, ns_expr* out) {
    ns_graph* g = robot->graph;
    pair_pattern pattern;
    for (uint32_t k = 0; k < work->noutput; k++) out[k] = ns_const(0.0);
    if (g->error.status != NS_OK) return;
    const pair_function* f = find_function(robot, pair, work, &pattern);
    if (!f) return;
    nsi_id node = nsi_graph_call(g, f->function, active.id, pattern.inputs);
    for (uint32_t k = 0; k < work->noutput && node != NSI_NONE; k++) {
        nsi_id result = f->function->body->outputs.data[k].node;
        bool zero = nsi_is_const(f->function->body, result, 0.0) && f->function->off[k] == 0.0;
        if (!zero) out[k].id = nsi_graph_out(g, node, k);
    }
    if (f->nquantity > 0 && !nsi_trace_is_muted()) name_quantities(robot, pair, f, pattern.inputs);
}
