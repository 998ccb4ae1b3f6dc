// Block kinds of the second derivatives of rigid contact, and the rules that lead to them.

#include "contact/second_derivative.h"

#include "contact/contact_step.h"
#include "contact/convex_block.h"

static const nsi_second_kernel_set* second_kernels(void) {
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) return &nsi_second_kernels_avx2;
#endif
    return &nsi_second_kernels_generic;
}

// ---- families ------------------------------------------------------------------------------

const nsi_contact_family nsi_ncp_family = {
    .tangent = &nsi_ncp_tangent,
    .adjoint = &nsi_ncp_adjoint,
    .tangent_tangent = &nsi_ncp_tangent_tangent,
    .adjoint_tangent = &nsi_ncp_adjoint_tangent,
};
const nsi_contact_family nsi_contact_step_family = {
    .tangent = &nsi_contact_step_tangent,
    .adjoint = &nsi_contact_step_adjoint,
    .tangent_tangent = &nsi_contact_step_tangent_tangent,
    .adjoint_tangent = &nsi_contact_step_adjoint_tangent,
};
const nsi_contact_family nsi_convex_family = {
    .tangent = &nsi_convex_tangent,
    .adjoint = &nsi_convex_adjoint,
    .tangent_tangent = &nsi_convex_tangent_tangent,
    .adjoint_tangent = &nsi_convex_adjoint_tangent,
};

static const nsi_contact_family* family_of(const nsi_block_kind* kind) {
    static const nsi_contact_family* const families[] = {&nsi_ncp_family, &nsi_contact_step_family,
                                                         &nsi_convex_family};
    for (size_t k = 0; k < sizeof families / sizeof *families; k++) {
        if (families[k]->tangent == kind || families[k]->adjoint == kind) return families[k];
    }
    return NULL;
}

bool nsi_contact_family_measure(const nsi_contact_family* family, const uint32_t* params,
                                nsi_contact_family_sizes* out) {
    nsi_block_sizes tangent, adjoint;
    if (!family->tangent->sizes(params, &tangent)) return false;
    if (!family->adjoint->sizes(params, &adjoint)) return false;
    *out = (nsi_contact_family_sizes){
        .smooth = adjoint.noutput,
        .fixed = tangent.ninput - adjoint.noutput,
        .noutput = tangent.noutput,
        .scratch = tangent.scratch > adjoint.scratch ? tangent.scratch : adjoint.scratch};
    return true;
}

// Scratch as second() uses it: inputs, outputs and what the first derivative needs, in dual numbers.
static bool second_sizes(const nsi_contact_family* family, bool reverse, const uint32_t* params,
                         nsi_block_sizes* out) {
    nsi_contact_family_sizes z;
    if (!nsi_contact_family_measure(family, params, &z)) return false;
    uint32_t last = reverse ? z.noutput : z.smooth, noutput = reverse ? z.smooth : z.noutput;
    *out = (nsi_block_sizes){.ninput = z.fixed + last + z.smooth + last,
                             .noutput = noutput,
                             .scratch = 2 * (z.fixed + last + noutput + z.scratch)};
    return true;
}

// ---- rules ---------------------------------------------------------------------------------

// Inputs of a block in the making.
typedef struct second_inputs {
    nsi_id* list;
    uint32_t count;
    nsi_id zero;
} second_inputs;

static void add_inputs(second_inputs* to, const nsi_id* from, uint32_t count) {
    for (uint32_t k = 0; k < count; k++) {
        to->list[to->count++] = !from || from[k] == NSI_NONE ? to->zero : from[k];
    }
}

// Append a block of `kind`: what the value has, then up to three lists; NULL is zero. Results go to
// `out`, one for each output.
static void append_second(ns_graph* g, const nsi_block_kind* kind, const nsi_block* block,
                          uint32_t fixed, const nsi_id* const* lists, const uint32_t* counts,
                          uint32_t nlist, nsi_id* out) {
    uint32_t total = fixed;
    for (uint32_t k = 0; k < nlist; k++) total += counts[k];
    nsi_id* inputs = nsi_alloc(&g->allocator, ((size_t)total + 1) * sizeof *inputs);
    if (!inputs) {
        nsi_graph_fail_nomem(g);
        return;
    }
    second_inputs to = {.list = inputs, .zero = nsi_graph_const(g, 0.0)};
    add_inputs(&to, block->inputs, fixed);
    for (uint32_t k = 0; k < nlist; k++) add_inputs(&to, lists[k], counts[k]);

    nsi_block second = {
        .kind = kind, .ninput = total, .inputs = inputs, .source = NSI_NONE, .sink = NSI_NONE};
    memcpy(second.params, block->params, sizeof second.params);
    nsi_id node = nsi_graph_block(g, &second);
    nsi_free(&g->allocator, inputs);
    if (node == NSI_NONE || g->error.status != NS_OK) return;
    uint32_t noutput = g->blocks.data[g->nodes.data[node].a].noutput;
    for (uint32_t k = 0; k < noutput; k++) out[k] = nsi_graph_out(g, node, k);
}

// The family of a block and its sizes; false when the graph has failed.
static const nsi_contact_family* find_family(ns_graph* g, const nsi_block* block,
                                             nsi_contact_family_sizes* z) {
    const nsi_contact_family* family = family_of(block->kind);
    if (family && nsi_contact_family_measure(family, block->params, z)) return family;
    nsi_graph_fail(g, NS_ERR_ARGUMENT, "block %s has no second derivative", block->kind->name);
    return NULL;
}

void nsi_tangent_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                     uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    nsi_contact_family_sizes z;
    const nsi_contact_family* family = find_family(g, block, &z);
    if (!family) return;
    const nsi_id* const lists[] = {block->inputs + z.fixed, dx, dx + z.fixed};
    append_second(g, family->tangent_tangent, block, z.fixed, lists,
                  (uint32_t[]){z.smooth, z.smooth, z.smooth}, 3, dy);
}

void nsi_tangent_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                     uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    nsi_contact_family_sizes z;
    const nsi_contact_family* family = find_family(g, block, &z);
    if (!family) return;
    const nsi_id* const lists[] = {ybar, block->inputs + z.fixed, NULL};
    append_second(g, family->adjoint_tangent, block, z.fixed, lists,
                  (uint32_t[]){z.noutput, z.smooth, z.noutput}, 3, xbar);
    append_second(g, family->adjoint, block, z.fixed, lists, &z.noutput, 1, xbar + z.fixed);
}

void nsi_adjoint_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                     uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dsink;
    nsi_contact_family_sizes z;
    const nsi_contact_family* family = find_family(g, block, &z);
    if (!family) return;
    const nsi_id* const lists[] = {block->inputs + z.fixed, dx, dx + z.fixed};
    append_second(g, family->adjoint_tangent, block, z.fixed, lists,
                  (uint32_t[]){z.noutput, z.smooth, z.noutput}, 3, dy);
}

void nsi_adjoint_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                     uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    nsi_contact_family_sizes z;
    const nsi_contact_family* family = find_family(g, block, &z);
    if (!family) return;
    const nsi_id* const lists[] = {block->inputs + z.fixed, ybar, NULL};
    append_second(g, family->adjoint_tangent, block, z.fixed, lists,
                  (uint32_t[]){z.noutput, z.smooth, z.noutput}, 3, xbar);
    append_second(g, family->tangent, block, z.fixed, &ybar, &z.smooth, 1, xbar + z.fixed);
}

static void no_third_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                         uint32_t dsink, nsi_id* dy) {
    (void)dx, (void)dsource, (void)dsink, (void)dy;
    nsi_graph_fail(g, NS_ERR_UNSUPPORTED,
                   "%s: rigid contact has first and second derivatives, and no third ones",
                   block->kind->name);
}

static void no_third_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar,
                         uint32_t sink_seed, uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed, (void)source_bar;
    no_third_jvp(g, block, ybar, NSI_NONE, NSI_NONE, xbar);
}

// ---- the kinds -----------------------------------------------------------------------------

// The text in dual numbers, with its macros expanded.
#define L 1
#define DUAL
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)

#define NAME(f) ns_ncp_dual_##f
static const char ncp_text[] =
#include "contact/ncp_second_source.def"
    ;
#undef NAME
#define NAME(f) ns_contact_step_dual_##f
static const char contact_step_text[] =
#include "contact/contact_step_second_source.def"
    ;
#undef NAME
#define NAME(f) ns_convex_dual_##f
static const char convex_text[] =
#include "contact/convex_second_source.def"
    ;
#undef NAME

// In emitted C: s smooth inputs, f fixed ones, o outputs.
#define C_FUNCTION(block, function, reverse, last, noutput, smooth, fixed, outputs)                \
    "static void ns_" #block "_" #function                                                         \
    "_tangent_block(const uint32_t* p, const double* x, double* y, const double* w, double* g) {"  \
    "\n    (void)w, (void)g;\n"                                                                    \
    "    size_t n = p[0], s = " smooth ", f = " fixed ", o = " outputs ";\n"                       \
    "    ns_" #block "_dual_second(" reverse ", p, s, f, " last ", " noutput                       \
    ", x, y, (double*)x + f + 2 * " last " + s, 1);\n}"

#define KIND(block, function, reverse, last, noutput, smooth, fixed, outputs, ...)                 \
    static bool block##_##function##_tangent_sizes(const uint32_t* params, nsi_block_sizes* out) { \
        return second_sizes(&nsi_##block##_family, reverse, params, out);                          \
    }                                                                                              \
    static nsi_block_kernel* block##_##function##_tangent_kernel(uint32_t form) {                  \
        return second_kernels()->block.function[form];                                             \
    }                                                                                              \
    const nsi_block_kind nsi_##block##_##function##_tangent = {                                    \
        .name = #block "_" #function "_tangent",                                                   \
        __VA_ARGS__,                                                                               \
        .sizes = block##_##function##_tangent_sizes,                                               \
        .jvp = no_third_jvp,                                                                       \
        .vjp = no_third_vjp,                                                                       \
        .kernel = block##_##function##_tangent_kernel,                                             \
        .c_name = "ns_" #block "_" #function "_tangent_block",                                     \
        .c_shared = block##_text,                                                                  \
        .c_source = C_FUNCTION(block, function, #reverse, last, noutput, smooth, fixed, outputs),  \
    };
#define KINDS(block, smooth, fixed, outputs, ...)                                                  \
    KIND(block, tangent, false, "s", "o", smooth, fixed, outputs, __VA_ARGS__)                     \
    KIND(block, adjoint, true, "o", "s", smooth, fixed, outputs, __VA_ARGS__)

// Numbers of inputs in terms of n contacts and the parameters p.
KINDS(ncp, "n * (3 * (p[2] + 1) + 2)", "s + 4 * n + 1", "3 * n", .nparam = 3,
      .param_names = {"contacts", "cone", "velocities"})
KINDS(contact_step, "n * (3 * (p[2] + 2) + 9)", "s + 14 * n + 4", "6 * n", .nparam = 3,
      .param_names = {"contacts", "cone", "velocities"})
KINDS(convex, "n * (3 * (p[1] + 1) + 2)", "s + 4 * n", "3 * n", .nparam = 2,
      .param_names = {"contacts", "velocities"})
