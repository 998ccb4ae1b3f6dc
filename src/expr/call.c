// Functions and the block that calls them: see call.h.

#include "expr/call.h"

#include <stdio.h>

// ---- functions -----------------------------------------------------------------------------

// Can an operation of the graph, or its derivative, be infinite or NaN where its operands are finite?
static bool has_hazard(const ns_graph* g) {
    for (uint32_t i = 0; i < g->nodes.count; i++) {
        uint32_t op = g->nodes.data[i].op;
        if (op == NSI_DIV || (nsi_ops[op].flags & NSI_FLAG_HAZARD)) return true;
    }
    return false;
}

ns_status nsi_function_create(ns_graph* body, const double* off, nsi_function** out,
                              ns_error* error) {
    static atomic_uint last_id;
    *out = NULL;
    ns_status status = nsi_graph_finish(&body, error);
    if (status != NS_OK) return status;
    if (body->blocks.count > 0 || body->arrays.count > 0 || body->sinks.count > 0) {
        ns_graph_free(body);
        return nsi_fail(error, NS_ERR_UNSUPPORTED,
                        "the body of a function consists of operations: it has no blocks and no"
                        " arrays");
    }

    // The function, and constants for where the call is inactive.
    ns_allocator memory = body->allocator;
    uint32_t noutput = body->outputs.count;
    nsi_function* f = nsi_alloc_zeroed(&memory, sizeof *f);
    double* constants = nsi_alloc_zeroed(&memory, ((size_t)noutput + 1) * sizeof *constants);
    if (!f || !constants) {
        nsi_free(&memory, f);
        nsi_free(&memory, constants);
        ns_graph_free(body);
        return nsi_fail_nomem(error);
    }
    if (off) memcpy(constants, off, noutput * sizeof *constants);
    f->allocator = memory;
    f->body = body;
    f->off = constants;
    f->hazard = has_hazard(body);
    f->id = atomic_fetch_add(&last_id, 1) + 1;
    atomic_init(&f->references, 1);
    *out = f;
    return NS_OK;
}

nsi_function* nsi_function_retain(nsi_function* f) {
    atomic_fetch_add(&f->references, 1);
    return f;
}

void nsi_function_release(nsi_function* f) {
    if (!f || atomic_fetch_sub(&f->references, 1) > 1) return;
    ns_allocator memory = f->allocator;
    ns_graph_free(f->body);
    nsi_free(&memory, f->off);
    nsi_free(&memory, f);
}

// ---- functions of a graph ------------------------------------------------------------------

bool nsi_graph_own_function(ns_graph* g, nsi_function* f) {
    for (uint32_t k = g->functions.count; k-- > 0;) { // the newest is the likeliest
        if (g->functions.data[k] == f) return true;
    }
    if (!nsi_array_push(&g->allocator, &g->functions, f)) {
        nsi_graph_fail_nomem(g);
        return false;
    }
    nsi_function_retain(f);
    return true;
}

void nsi_graph_release_functions(ns_graph* g) {
    for (uint32_t k = 0; k < g->functions.count; k++) nsi_function_release(g->functions.data[k]);
    for (uint32_t k = 0; k < g->derived.count; k++) {
        nsi_function_release(g->derived.data[k].from);
        nsi_function_release(g->derived.data[k].function);
    }
    nsi_array_free(&g->allocator, &g->functions);
    nsi_array_free(&g->allocator, &g->derived);
}

nsi_id nsi_graph_call(ns_graph* g, nsi_function* f, nsi_id active, const nsi_id* inputs) {
    uint32_t count = f->body->inputs.count;
    nsi_id* all = nsi_alloc(&g->allocator, ((size_t)count + 1) * sizeof *all);
    if (!all) return nsi_graph_fail_nomem(g);
    all[0] = active;
    memcpy(all + 1, inputs, count * sizeof *all);
    nsi_block block = {.kind = &nsi_call,
                       .ninput = count + 1,
                       .inputs = all,
                       .source = NSI_NONE,
                       .sink = NSI_NONE,
                       .function = f};
    nsi_id node = nsi_graph_block(g, &block);
    nsi_free(&g->allocator, all);
    return node;
}

// ---- derived functions ---------------------------------------------------------------------

// Copy what the marked outputs need; `inputs` (of `from`) receives which inputs are left, or is NULL
// to keep all of them.
static void copy_marked(const ns_graph* from, const uint8_t* marks, ns_graph* to, uint32_t* inputs,
                        uint8_t* live, nsi_id* map) {
    // The same graph with these outputs only: enough to find and copy what they depend on.
    ns_graph view = *from;
    view.outputs = (nsi_ports){0};
    for (uint32_t k = 0; k < from->outputs.count; k++) {
        if (marks[k] && !nsi_array_push(&to->allocator, &view.outputs, from->outputs.data[k])) {
            nsi_graph_fail_nomem(to);
        }
    }
    nsi_graph_mark_live(&view, live);

    // Inputs, then operations, then outputs.
    nsi_id* nodes = nsi_alloc(&to->allocator, ((size_t)from->inputs.count + 1) * sizeof *nodes);
    if (!nodes) nsi_graph_fail_nomem(to);
    for (uint32_t k = 0, count = 0; nodes && k < from->inputs.count; k++) {
        nodes[k] = NSI_NONE;
        if (inputs && !live[from->inputs.data[k].node]) continue;
        nodes[k] = nsi_graph_input(to, from->inputs.data[k].name);
        if (inputs) inputs[count++] = k;
    }
    if (to->error.status == NS_OK) nsi_graph_copy_with_inputs(&view, to, nodes, map);
    for (uint32_t k = 0; k < view.outputs.count && to->error.status == NS_OK; k++) {
        const nsi_port* port = &view.outputs.data[k];
        nsi_graph_output(to, port->name, map[port->node]);
    }
    nsi_free(&to->allocator, nodes);
    nsi_array_free(&to->allocator, &view.outputs);
}

static ns_status pick_outputs(const ns_graph* from, const uint8_t* marks, uint32_t* inputs,
                              ns_graph** out, ns_error* error) {
    ns_status status = ns_graph_create(&from->allocator, out, error);
    if (status != NS_OK) return status;
    uint8_t* live = nsi_alloc(&from->allocator, (size_t)from->nodes.count + 1);
    nsi_id* map = nsi_alloc(&from->allocator, ((size_t)from->nodes.count + 1) * sizeof *map);
    if (live && map) {
        copy_marked(from, marks, *out, inputs, live, map);
    } else {
        nsi_graph_fail_nomem(*out);
    }
    nsi_free(&from->allocator, live);
    nsi_free(&from->allocator, map);
    return nsi_graph_finish(out, error);
}

static ns_status derive_tangents(const ns_graph* from, const uint8_t* marks, ns_graph** out,
                                 ns_error* error) {
    ns_diff_options options = ns_default_diff_options();
    uint32_t* wrt = nsi_alloc(&from->allocator, ((size_t)from->inputs.count + 1) * sizeof *wrt);
    if (!wrt) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < from->inputs.count; k++) {
        if (marks[k]) wrt[options.nwrt++] = k;
    }
    options.wrt = wrt;
    options.skip_value = true;
    ns_status status = ns_graph_jvp(from, &options, out, error);
    nsi_free(&from->allocator, wrt);
    return status;
}

static ns_status derive_adjoints(const ns_graph* from, const uint8_t* marks, ns_graph** out,
                                 ns_error* error) {
    ns_graph* picked;
    ns_status status = pick_outputs(from, marks, NULL, &picked, error);
    if (status != NS_OK) return status;
    ns_diff_options options = ns_default_diff_options();
    options.skip_value = true;
    status = ns_graph_vjp(picked, &options, out, error);
    ns_graph_free(picked);
    return status;
}

// The constants of the outputs that are left.
static void pick_constants(const nsi_function* from, const uint8_t* marks, nsi_function* to) {
    for (uint32_t k = 0, count = 0; k < from->body->outputs.count; k++) {
        if (marks[k]) to->off[count++] = from->off[k];
    }
}

static ns_status derive_function(ns_graph* g, nsi_derived* d, ns_error* error) {
    const ns_graph* from = d->from->body;
    ns_graph* body = NULL;
    ns_status status = NS_OK;
    switch (d->mode) {
    case NSI_DERIVED_PICK:
        d->inputs =
            nsi_arena_alloc(&g->arena, ((size_t)from->inputs.count + 1) * sizeof *d->inputs);
        status = d->inputs ? pick_outputs(from, d->marks, d->inputs, &body, error)
                           : nsi_fail_nomem(error);
        break;
    case NSI_DERIVED_FORWARD: status = derive_tangents(from, d->marks, &body, error); break;
    case NSI_DERIVED_REVERSE: status = derive_adjoints(from, d->marks, &body, error); break;
    }
    if (status == NS_OK) status = nsi_function_create(body, NULL, &d->function, error);
    if (status == NS_OK && d->mode == NSI_DERIVED_PICK) {
        pick_constants(d->from, d->marks, d->function);
    }
    return status;
}

const nsi_derived* nsi_graph_derive(ns_graph* g, nsi_function* from, nsi_derived_mode mode,
                                    const uint8_t* marks, uint32_t nmark) {
    if (g->error.status != NS_OK) return NULL;
    for (uint32_t k = g->derived.count; k-- > 0;) {
        const nsi_derived* d = &g->derived.data[k];
        if (d->from == from && d->mode == mode && memcmp(d->marks, marks, nmark) == 0) return d;
    }

    nsi_derived d = {.from = from, .mode = mode, .nmark = nmark};
    d.marks = nsi_arena_alloc(&g->arena, (size_t)nmark + 1);
    if (!d.marks || !nsi_array_reserve(&g->allocator, &g->derived, 1)) {
        nsi_graph_fail_nomem(g);
        return NULL;
    }
    memcpy(d.marks, marks, nmark);
    ns_error error;
    ns_status status = derive_function(g, &d, &error);
    if (status != NS_OK) {
        nsi_graph_fail(g, status, "%s", error.message);
        return NULL;
    }
    nsi_function_retain(from);
    g->derived.data[g->derived.count++] = d;
    return &g->derived.data[g->derived.count - 1];
}

// ---- derivatives ---------------------------------------------------------------------------

// Is output k of a function constantly zero?
static bool is_zero_output(const nsi_function* f, uint32_t k) {
    return nsi_is_const(f->body, f->body->outputs.data[k].node, 0.0);
}

// Call a derived function on the inputs of the block and the marked ones of `more`; results (one per
// output, `nout`) that are not constantly zero are written.
static void call_derived(ns_graph* g, const nsi_block* block, nsi_derived_mode mode,
                         const nsi_id* more, uint32_t nmore, nsi_id* results, uint32_t nresult) {
    uint32_t count = block->ninput - 1;
    uint8_t* marks = nsi_alloc(&g->allocator, (size_t)nmore + 1);
    nsi_id* inputs = nsi_alloc(&g->allocator, ((size_t)count + nmore + 1) * sizeof *inputs);
    if (marks && inputs) {
        memcpy(inputs, block->inputs + 1, count * sizeof *inputs);
        for (uint32_t k = 0; k < nmore; k++) {
            marks[k] = more[k] != NSI_NONE;
            if (marks[k]) inputs[count++] = more[k];
        }
        const nsi_derived* d = nsi_graph_derive(g, block->function, mode, marks, nmore);
        nsi_function* f = d ? d->function : NULL;
        nsi_id node = f ? nsi_graph_call(g, f, block->inputs[0], inputs) : NSI_NONE;
        for (uint32_t k = 0; k < nresult && node != NSI_NONE; k++) {
            if (!is_zero_output(f, k)) results[k] = nsi_graph_out(g, node, k);
        }
    } else {
        nsi_graph_fail_nomem(g);
    }
    nsi_free(&g->allocator, marks);
    nsi_free(&g->allocator, inputs);
}

static void call_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                     uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    call_derived(g, block, NSI_DERIVED_FORWARD, dx + 1, block->ninput - 1, dy, block->noutput);
}

static void call_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                     uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    call_derived(g, block, NSI_DERIVED_REVERSE, ybar, block->noutput, xbar + 1, block->ninput - 1);
}

// Sizes and arithmetic follow from the function, which all backends know of.
const nsi_block_kind nsi_call = {
    .name = "call",
    .nparam = 1,
    .param_names = {"function"}, // its number in the text form
    .jvp = call_jvp,
    .vjp = call_vjp,
};
