// Block kinds of the impulse solver: sizes and graph-level derivatives. The arithmetic is ncp.def.

#include "contact/ncp.h"

#include "contact/ncp_kernels.h"
#include "contact/second_derivative.h"

static const nsi_ncp_kernels* kernels(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_ncp_kernels_avx2;
#endif
    return &nsi_ncp_kernels_generic;
}

// ---- sizes ---------------------------------------------------------------------------------

bool nsi_ncp_params_ok(const uint32_t* params) {
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

// As ncp.def lays it out: twelve vectors and those of the caller, Z in fours and two of its rows, A and
// K in rows of up to six numbers more, softness; aligned. Where there are fewer velocities than rows also
// what ncp_velocity.def adds: rows of Z and two matrices with up to three numbers more in a row, vectors,
// blocks and columns of contacts.
uint32_t nsi_ncp_scratch(const uint32_t* params, uint32_t extra) {
    uint32_t active = params[0] < NSI_NCP_MAX_ACTIVE ? params[0] : NSI_NCP_MAX_ACTIVE;
    uint32_t rows = 3 * active, nv = params[2];
    uint32_t narrow = nv < rows ? 40 + (rows + 2 * nv + 5) * (nv + 3) +
                                      active * (20 + (nv + 3) / 2) + 3 * (rows + 3)
                                : 0;
    return (13 + extra) * (rows + 3) + 4 * active * (nv + nv / 64) + 2 * nv +
           2 * rows * (rows + 6) + 4 + narrow;
}

enum { TOLD = 4, EXTRA = 3 }; // numbers behind the impulses; vectors of ncp_block.def

static bool value_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!nsi_ncp_params_ok(params)) return false;
    *out = (nsi_block_sizes){value_inputs(params), 3 * params[0] + TOLD, 0, 0,
                             nsi_ncp_scratch(params, EXTRA)};
    return true;
}

// Derivatives read the inputs of the value, the impulses, the level, then the direction or adjoint.
static bool tangent_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!nsi_ncp_params_ok(params)) return false;
    uint32_t rows = 3 * params[0];
    *out = (nsi_block_sizes){value_inputs(params) + rows + 1 + smooth_inputs(params), rows, 0, 0,
                             nsi_ncp_scratch(params, EXTRA)};
    return true;
}

static bool adjoint_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!nsi_ncp_params_ok(params)) return false;
    uint32_t rows = 3 * params[0];
    *out = (nsi_block_sizes){value_inputs(params) + 2 * rows + 1, smooth_inputs(params), 0, 0,
                             nsi_ncp_scratch(params, EXTRA)};
    return true;
}

// ---- derivatives ---------------------------------------------------------------------------

nsi_id nsi_ncp_append(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                      const nsi_ncp_kept* kept, const nsi_id* more, uint32_t nmore) {
    uint32_t count = value->ninput + kept->count + (kept->last != NSI_NONE) + nmore;
    nsi_id* inputs = nsi_alloc(&g->allocator, count * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(g);
    nsi_id *at = inputs, zero = nsi_graph_const(g, 0.0);
    memcpy(at, value->inputs, value->ninput * sizeof *inputs);
    at += value->ninput;
    nsi_id node = nsi_graph_block(g, value); // consing finds the value's own node
    for (uint32_t k = 0; k < kept->count; k++) *at++ = nsi_graph_out(g, node, kept->first + k);
    if (kept->last != NSI_NONE) *at++ = nsi_graph_out(g, node, kept->last);
    for (uint32_t k = 0; k < nmore; k++) *at++ = more[k] == NSI_NONE ? zero : more[k];
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

// The impulses and the level.
static nsi_ncp_kept kept_outputs(const nsi_block* block) {
    uint32_t rows = 3 * block->params[0];
    return (nsi_ncp_kept){.first = 0, .count = rows, .last = rows + TOLD - 1};
}

static void value_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                      uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    nsi_ncp_kept kept = kept_outputs(block);
    nsi_id node =
        nsi_ncp_append(g, &nsi_ncp_tangent, block, &kept, dx, smooth_inputs(block->params));
    for (uint32_t k = 0; k < kept.count && node != NSI_NONE; k++) dy[k] = nsi_graph_out(g, node, k);
}

static void value_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                      uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    nsi_ncp_kept kept = kept_outputs(block);
    nsi_id node = nsi_ncp_append(g, &nsi_ncp_adjoint, block, &kept, ybar, kept.count);
    uint32_t count = smooth_inputs(block->params);
    for (uint32_t k = 0; k < count && node != NSI_NONE; k++) xbar[k] = nsi_graph_out(g, node, k);
}

// For blocks without second derivatives, as those of contacts that are found when the step runs.
void nsi_ncp_no_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                    uint32_t dsink, nsi_id* dy) {
    (void)dx, (void)dsource, (void)dsink, (void)dy;
    nsi_graph_fail(g, NS_ERR_UNSUPPORTED,
                   "%s: contacts that are found at run time have first derivatives only; choose"
                   " detection traced",
                   block->kind->name);
}

void nsi_ncp_no_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                    uint32_t source_bar, nsi_id* xbar) {
    (void)ybar, (void)sink_seed, (void)source_bar, (void)xbar;
    nsi_graph_fail(g, NS_ERR_UNSUPPORTED,
                   "%s: contacts that are found at run time have first derivatives only; choose"
                   " detection traced",
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

// The text for one lane, with its macros expanded.
#define L 1
#define NAME(f) ns_ncp_##f
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)
static const char ncp_source[] =
#include "contact/ncp_source.def"
    ;

const nsi_block_kind nsi_ncp = {
    .name = "ncp",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = value_sizes,
    .jvp = value_jvp,
    .vjp = value_vjp,
    .kernel = value_kernel,
    .c_name = "ns_ncp_value_block",
    .c_shared = ncp_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_ncp_", value, "3 * n * (p[2] + 1) + 3 * n"),
};

const nsi_block_kind nsi_ncp_tangent = {
    .name = "ncp_tangent",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = tangent_sizes,
    .jvp = nsi_tangent_jvp,
    .vjp = nsi_tangent_vjp,
    .kernel = tangent_kernel,
    .c_name = "ns_ncp_tangent_block",
    .c_shared = ncp_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION(
        "ns_ncp_", tangent, "3 * n * (p[2] + 1) + 3 * n + 3 * n + 1 + 3 * n * (p[2] + 1) + 2 * n"),
};

const nsi_block_kind nsi_ncp_adjoint = {
    .name = "ncp_adjoint",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = adjoint_sizes,
    .jvp = nsi_adjoint_jvp,
    .vjp = nsi_adjoint_vjp,
    .kernel = adjoint_kernel,
    .c_name = "ns_ncp_adjoint_block",
    .c_shared = ncp_source,
    .c_source =
        NSI_NCP_BLOCK_FUNCTION("ns_ncp_", adjoint, "3 * n * (p[2] + 1) + 3 * n + 6 * n + 1"),
};
