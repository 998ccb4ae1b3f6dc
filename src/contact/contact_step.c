// Block kinds of a step with rigid contact: sizes and graph-level derivatives. The arithmetic is
// contact_step.def.

#include "contact/contact_step.h"

#include "contact/ncp_kernels.h"
#include "contact/second_derivative.h"

enum { EXTRA_VECTORS = 24, TOLD_NUMBERS = 4, PROBLEMS = 4 };

static const nsi_ncp_kernels* step_kernels(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_contact_step_kernels_avx2;
#endif
    return &nsi_contact_step_kernels_generic;
}

// ---- sizes ---------------------------------------------------------------------------------

static uint32_t step_smooth_inputs(const uint32_t* params) {
    return params[0] * (3 * (params[2] + 2) + NSI_CONTACT_STEP_PER_CONTACT);
}

static uint32_t contact_step_inputs(const uint32_t* params) {
    return step_smooth_inputs(params) + params[0];
}

// Outputs of the value that derivatives read: impulses of the problems and positions, levels.
static uint32_t step_kept(const uint32_t* params) {
    return 13 * params[0] + PROBLEMS;
}

static bool step_sizes(const uint32_t* params, uint32_t ninput, uint32_t noutput,
                       nsi_block_sizes* out) {
    if (!nsi_ncp_params_ok(params)) return false;
    *out = (nsi_block_sizes){ninput, noutput, 0, 0, nsi_ncp_scratch(params, EXTRA_VECTORS)};
    return true;
}

static bool step_value_sizes(const uint32_t* params, nsi_block_sizes* out) {
    return step_sizes(params, contact_step_inputs(params),
                      NSI_CONTACT_STEP_TOLD(params[0]) + TOLD_NUMBERS, out);
}

static bool step_tangent_sizes(const uint32_t* params, nsi_block_sizes* out) {
    return step_sizes(params,
                      contact_step_inputs(params) + step_kept(params) + step_smooth_inputs(params),
                      6 * params[0], out);
}

static bool step_adjoint_sizes(const uint32_t* params, nsi_block_sizes* out) {
    return step_sizes(params, contact_step_inputs(params) + step_kept(params) + 6 * params[0],
                      step_smooth_inputs(params), out);
}

// ---- derivatives ---------------------------------------------------------------------------

static nsi_id append_derivative(ns_graph* g, const nsi_block_kind* kind, const nsi_block* value,
                                const nsi_id* more, uint32_t nmore) {
    nsi_ncp_kept kept = {6 * value->params[0], step_kept(value->params), NSI_NONE};
    return nsi_ncp_append(g, kind, value, &kept, more, nmore);
}

static void step_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                     uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    uint32_t n = block->params[0];
    nsi_id node = append_derivative(g, &nsi_contact_step_tangent, block, dx,
                                    step_smooth_inputs(block->params));
    for (uint32_t k = 0; k < 6 * n && node != NSI_NONE; k++) dy[k] = nsi_graph_out(g, node, k);
}

static void step_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                     uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    nsi_id node =
        append_derivative(g, &nsi_contact_step_adjoint, block, ybar, 6 * block->params[0]);
    uint32_t count = step_smooth_inputs(block->params);
    for (uint32_t k = 0; k < count && node != NSI_NONE; k++) xbar[k] = nsi_graph_out(g, node, k);
}

// ---- the kinds -----------------------------------------------------------------------------

static nsi_block_kernel* step_value_kernel(uint32_t form) {
    return step_kernels()->value[form];
}
static nsi_block_kernel* step_tangent_kernel(uint32_t form) {
    return step_kernels()->tangent[form];
}
static nsi_block_kernel* step_adjoint_kernel(uint32_t form) {
    return step_kernels()->adjoint[form];
}

// The text for one lane, with its macros expanded.
#define L 1
#define NAME(f) ns_contact_step_##f
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)
static const char step_source[] =
#include "contact/contact_step_source.def"
    ;

#define SMOOTH "n * (3 * (p[2] + 2) + 9)"
#define INPUTS SMOOTH " + n"
#define KEPT "13 * n + 4"

const nsi_block_kind nsi_contact_step = {
    .name = "contact_step",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = step_value_sizes,
    .jvp = step_jvp,
    .vjp = step_vjp,
    .kernel = step_value_kernel,
    .c_name = "ns_contact_step_value_block",
    .c_shared = step_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_contact_step_", value, INPUTS),
};

const nsi_block_kind nsi_contact_step_tangent = {
    .name = "contact_step_tangent",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = step_tangent_sizes,
    .jvp = nsi_tangent_jvp,
    .vjp = nsi_tangent_vjp,
    .kernel = step_tangent_kernel,
    .c_name = "ns_contact_step_tangent_block",
    .c_shared = step_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_contact_step_", tangent, INPUTS " + " KEPT " + " SMOOTH),
};

const nsi_block_kind nsi_contact_step_adjoint = {
    .name = "contact_step_adjoint",
    .nparam = 3,
    .param_names = {"contacts", "cone", "velocities"},
    .sizes = step_adjoint_sizes,
    .jvp = nsi_adjoint_jvp,
    .vjp = nsi_adjoint_vjp,
    .kernel = step_adjoint_kernel,
    .c_name = "ns_contact_step_adjoint_block",
    .c_shared = step_source,
    .c_source = NSI_NCP_BLOCK_FUNCTION("ns_contact_step_", adjoint, INPUTS " + " KEPT " + 6 * n"),
};
