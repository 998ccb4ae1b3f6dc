// Block kinds of the impulse solver: sizes and graph-level derivatives. The arithmetic is ncp.def.

#include "contact/ncp.h"

#include "contact/ncp_kernels.h"

static const nsi_ncp_kernels* kernels(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_ncp_kernels_avx2;
#endif
    return &nsi_ncp_kernels_generic;
}

// ---- sizes ---------------------------------------------------------------------------------

static bool params_ok(const uint32_t* params) {
    return params[0] >= 1 && params[0] <= NSI_NCP_MAX_CONTACTS && params[1] <= NSI_FRICTION_CONE &&
           params[2] >= 1 && params[2] <= NSI_NCP_MAX_VELOCITIES;
}

// Inputs that have derivatives (Z, b, mu, cfm), and all of them.
static uint32_t smooth_inputs(const uint32_t* params) {
    return 3 * params[0] * (params[2] + 1) + 2 * params[0];
}
static uint32_t value_inputs(const uint32_t* params) {
    return smooth_inputs(params) + params[0];
}

// As ncp.def lays it out: nine vectors, Z in fours and two of its rows, A and K in rows of up to six
// numbers more; aligned.
static uint32_t scratch(const uint32_t* params) {
    uint32_t rows = 3 * params[0], nv = params[2];
    return 9 * (rows + 3) + 4 * params[0] * (nv + nv / 64) + 2 * nv + 2 * rows * (rows + 6) + 4;
}

static bool value_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!params_ok(params)) return false;
    *out = (nsi_block_sizes){value_inputs(params), 3 * params[0] + 3, 0, 0, scratch(params)};
    return true;
}

static bool tangent_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!params_ok(params)) return false;
    uint32_t rows = 3 * params[0];
    *out = (nsi_block_sizes){value_inputs(params) + rows + smooth_inputs(params), rows, 0, 0,
                             scratch(params)};
    return true;
}

static bool adjoint_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!params_ok(params)) return false;
    uint32_t rows = 3 * params[0];
    *out = (nsi_block_sizes){value_inputs(params) + 2 * rows, smooth_inputs(params), 0, 0,
                             scratch(params)};
    return true;
}

// ---- derivatives ---------------------------------------------------------------------------

// A block of `kind` on the value's inputs, the impulses and `more`; NSI_NONE among those is zero.
static nsi_id append_ncp_block(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                               const nsi_id* more, uint32_t nmore) {
    uint32_t n = value->params[0], count = value->ninput + 3 * n + nmore;
    nsi_id* inputs = nsi_alloc(&g->allocator, count * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(g);
    memcpy(inputs, value->inputs, value->ninput * sizeof *inputs);
    nsi_id node = nsi_graph_block(g, value); // consing finds the value's own node
    for (uint32_t k = 0; k < 3 * n; k++) inputs[value->ninput + k] = nsi_graph_out(g, node, k);
    nsi_id zero = nsi_graph_const(g, 0.0);
    for (uint32_t k = 0; k < nmore; k++) {
        inputs[value->ninput + 3 * n + k] = more[k] == NSI_NONE ? zero : more[k];
    }
    nsi_block block = {.kind = kind,
                       .params = {value->params[0], value->params[1], value->params[2]},
                       .ninput = count,
                       .inputs = inputs,
                       .source = NSI_NONE,
                       .sink = NSI_NONE};
    node = nsi_graph_block(g, &block);
    nsi_free(&g->allocator, inputs);
    return node;
}

static void value_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                      uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    uint32_t n = block->params[0];
    nsi_id node = append_ncp_block(g, &nsi_ncp_tangent, block, dx, smooth_inputs(block->params));
    for (uint32_t k = 0; k < 3 * n && node != NSI_NONE; k++) dy[k] = nsi_graph_out(g, node, k);
}

static void value_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                      uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    uint32_t count = smooth_inputs(block->params);
    nsi_id node = append_ncp_block(g, &nsi_ncp_adjoint, block, ybar, 3 * block->params[0]);
    for (uint32_t k = 0; k < count && node != NSI_NONE; k++) xbar[k] = nsi_graph_out(g, node, k);
}

// The derivative of a frozen pattern is not differentiated again.
static void no_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                   uint32_t dsink, nsi_id* dy) {
    (void)dx, (void)dsource, (void)dsink, (void)dy;
    nsi_graph_fail(g, NS_ERR_UNSUPPORTED, "%s: contact impulses have first derivatives only",
                   block->kind->name);
}

static void no_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                   uint32_t source_bar, nsi_id* xbar) {
    (void)ybar, (void)sink_seed, (void)source_bar, (void)xbar;
    nsi_graph_fail(g, NS_ERR_UNSUPPORTED, "%s: contact impulses have first derivatives only",
                   block->kind->name);
}

// ---- the kinds -----------------------------------------------------------------------------

static nsi_block_kernel* value_kernel(uint32_t form) {
    return kernels()->value[form];
}
static nsi_block_kernel* tangent_kernel(uint32_t form) {
    return kernels()->tangent[form];
}
static nsi_block_kernel* adjoint_kernel(uint32_t form) {
    return kernels()->adjoint[form];
}

// The solver's text for one lane, with its macros expanded.
#define L 1
#define NAME(f) ns_ncp_##f
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)
static const char solver[] =
#include "contact/ncp.def"
    ;

// Each kind carries the solver along; emit_c.c prints a source once, however many kinds share it.
#define BLOCK_FUNCTION(function)                                                                   \
    "static void ns_ncp_" #function                                                                \
    "_block(const uint32_t* p, const double* x, double* y, const double* w, double* g) {\n"        \
    "    (void)w, (void)g, (void)ns_ncp_value, (void)ns_ncp_tangent, (void)ns_ncp_adjoint;\n"      \
    "    size_t n = p[0], rows = 3 * n, smooth = rows * (p[2] + 1) + 2 * n;\n"

const nsi_block_kind nsi_ncp = {
    .name = "ncp",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = value_sizes,
    .jvp = value_jvp,
    .vjp = value_vjp,
    .kernel = value_kernel,
    .c_name = "ns_ncp_value_block",
    .c_shared = solver,
    .c_source =
        BLOCK_FUNCTION(value) "    ns_ncp_value(p, x, y, (double*)x + smooth + n, 1, 0);\n}",
};

const nsi_block_kind nsi_ncp_tangent = {
    .name = "ncp_tangent",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = tangent_sizes,
    .jvp = no_jvp,
    .vjp = no_vjp,
    .kernel = tangent_kernel,
    .c_name = "ns_ncp_tangent_block",
    .c_shared = solver,
    .c_source = BLOCK_FUNCTION(tangent) "    size_t inputs = 2 * smooth + n + rows;\n"
                                        "    ns_ncp_tangent(p, x, y, (double*)x + inputs, 1);\n}",
};

const nsi_block_kind nsi_ncp_adjoint = {
    .name = "ncp_adjoint",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = adjoint_sizes,
    .jvp = no_jvp,
    .vjp = no_vjp,
    .kernel = adjoint_kernel,
    .c_name = "ns_ncp_adjoint_block",
    .c_shared = solver,
    .c_source = BLOCK_FUNCTION(adjoint) "    size_t inputs = smooth + n + 2 * rows;\n"
                                        "    ns_ncp_adjoint(p, x, y, (double*)x + inputs, 1);\n}",
};
