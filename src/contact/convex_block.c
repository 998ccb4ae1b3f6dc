// Block kinds of the convex relaxation of contact: sizes and graph-level derivatives. The arithmetic is
// convex_block.def.

#include "contact/convex_block.h"

#include "contact/convex_kernels.h"

enum { CONVEX_TOLD = 4 }; // numbers behind the impulses

static const nsi_ncp_kernels* convex_kernels(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_convex_kernels_avx2;
#endif
    return &nsi_convex_kernels_generic;
}

// ---- sizes ---------------------------------------------------------------------------------

// Inputs that have derivatives (Z, b, mu, cfm), and all of them.
static uint32_t convex_smooth_inputs(const uint32_t* params) {
    return 3 * params[0] * (params[1] + 1) + 2 * params[0];
}

static uint32_t convex_inputs(const uint32_t* params) {
    return convex_smooth_inputs(params) + params[0];
}

// Scratch: Z, H, thirteen vectors of velocities and three of rows.
static bool convex_sizes(const uint32_t* params, uint32_t ninput, uint32_t noutput,
                         nsi_block_sizes* out) {
    uint32_t n = params[0], nv = params[1];
    if (n < 1 || n > NSI_NCP_MAX_CONTACTS || nv < 1 || nv > NSI_CONVEX_MAX_VELOCITIES) return false;
    uint32_t active = n < NSI_NCP_MAX_ACTIVE ? n : NSI_NCP_MAX_ACTIVE;
    uint32_t scratch = 3 * active * nv + nv * nv + 13 * nv + 9 * active;
    *out = (nsi_block_sizes){ninput, noutput, 0, 0, scratch};
    return true;
}

static bool convex_value_sizes(const uint32_t* params, nsi_block_sizes* out) {
    return convex_sizes(params, convex_inputs(params), 3 * params[0] + CONVEX_TOLD, out);
}

static bool convex_tangent_sizes(const uint32_t* params, nsi_block_sizes* out) {
    uint32_t rows = 3 * params[0];
    return convex_sizes(params, convex_inputs(params) + rows + convex_smooth_inputs(params), rows,
                        out);
}

static bool convex_adjoint_sizes(const uint32_t* params, nsi_block_sizes* out) {
    return convex_sizes(params, convex_inputs(params) + 6 * params[0], convex_smooth_inputs(params),
                        out);
}

// ---- derivatives ---------------------------------------------------------------------------

// A block that also reads the impulses, and then `more`.
static nsi_id convex_derivative(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                                const nsi_id* more, uint32_t nmore) {
    nsi_ncp_kept kept = {0, 3 * value->params[0], NSI_NONE};
    return nsi_ncp_append(g, kind, value, &kept, more, nmore);
}

static void convex_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                       uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    uint32_t rows = 3 * block->params[0];
    nsi_id node =
        convex_derivative(g, &nsi_convex_tangent, block, dx, convex_smooth_inputs(block->params));
    for (uint32_t k = 0; k < rows && node != NSI_NONE; k++) dy[k] = nsi_graph_out(g, node, k);
}

static void convex_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                       uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    nsi_id node = convex_derivative(g, &nsi_convex_adjoint, block, ybar, 3 * block->params[0]);
    uint32_t count = convex_smooth_inputs(block->params);
    for (uint32_t k = 0; k < count && node != NSI_NONE; k++) xbar[k] = nsi_graph_out(g, node, k);
}

// ---- the kinds -----------------------------------------------------------------------------

static nsi_block_kernel* convex_value_kernel(uint32_t form) {
    return convex_kernels()->value[form];
}
static nsi_block_kernel* convex_tangent_kernel(uint32_t form) {
    return convex_kernels()->tangent[form];
}
static nsi_block_kernel* convex_adjoint_kernel(uint32_t form) {
    return convex_kernels()->adjoint[form];
}

// The text, with its macros expanded.
#define L 1
#define NAME(f) ns_convex_##f
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)
static const char convex_source[] =
#include "contact/convex_block_source.def"
    ;

#define SMOOTH "3 * n * (p[1] + 1) + 2 * n"
#define INPUTS SMOOTH " + n"

const nsi_block_kind nsi_convex = {
    .name = "convex",
    .nparam = 2,
    .param_names = {"contacts", "velocities"},
    .sizes = convex_value_sizes,
    .jvp = convex_jvp,
    .vjp = convex_vjp,
    .kernel = convex_value_kernel,
    .c_name = "ns_convex_value_block",
    .c_shared = convex_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_convex_", value, INPUTS),
};

const nsi_block_kind nsi_convex_tangent = {
    .name = "convex_tangent",
    .nparam = 2,
    .param_names = {"contacts", "velocities"},
    .sizes = convex_tangent_sizes,
    .jvp = nsi_ncp_no_jvp,
    .vjp = nsi_ncp_no_vjp,
    .kernel = convex_tangent_kernel,
    .c_name = "ns_convex_tangent_block",
    .c_shared = convex_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_convex_", tangent, INPUTS " + 3 * n + " SMOOTH),
};

const nsi_block_kind nsi_convex_adjoint = {
    .name = "convex_adjoint",
    .nparam = 2,
    .param_names = {"contacts", "velocities"},
    .sizes = convex_adjoint_sizes,
    .jvp = nsi_ncp_no_jvp,
    .vjp = nsi_ncp_no_vjp,
    .kernel = convex_adjoint_kernel,
    .c_name = "ns_convex_adjoint_block",
    .c_shared = convex_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_convex_", adjoint, INPUTS " + 6 * n"),
};
