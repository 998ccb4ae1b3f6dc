// The block kind of convex_features.h. The arithmetic is convex_features.def, once for the kernels
// and once as text for emitted C.

#include "contact/convex_features.h"

#include <math.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#define NAME(f) cvx_##f
#include "contact/convex_features.def"
#undef NAME
#undef NSI_C_SOURCE

// ---- sizes ---------------------------------------------------------------------------------

static bool shape_inputs(uint32_t code, uint32_t* count) {
    uint32_t kind = code & 7, nvertex = code >> 3;
    *count += NSI_CONVEX_POSE + 3 * nvertex;
    if (kind == NSI_CONVEX_MESH) return nvertex >= 1 && nvertex <= NSI_CONVEX_MAX_VERTICES;
    return kind < NSI_CONVEX_MESH && nvertex == 0;
}

static bool features_sizes(const uint32_t* params, nsi_block_sizes* out) {
    uint32_t count = 0;
    if (!shape_inputs(params[0], &count) || !shape_inputs(params[1], &count)) return false;
    *out = (nsi_block_sizes){
        .ninput = count, .noutput = NSI_CONVEX_OUTPUTS, .scratch = count + NSI_CONVEX_OUTPUTS};
    return true;
}

// ---- derivatives ---------------------------------------------------------------------------

// The features do not move; see convex_pairs.c for the derivatives of what is made of them.
static void features_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                         uint32_t dsink, nsi_id* dy) {
    (void)g, (void)dx, (void)dsource, (void)dsink;
    for (uint32_t k = 0; k < block->noutput; k++) dy[k] = NSI_NONE;
}

static void features_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar,
                         uint32_t sink_seed, uint32_t source_bar, nsi_id* xbar) {
    (void)g, (void)ybar, (void)sink_seed, (void)source_bar;
    for (uint32_t k = 0; k < block->ninput; k++) xbar[k] = NSI_NONE;
}

// ---- kernels -------------------------------------------------------------------------------

// Lane by lane, since branches differ; the scratch holds one lane's inputs and outputs.
static void features_lanes(const nsi_block_args* args, size_t lanes) {
    nsi_block_sizes sizes;
    if (!features_sizes(args->params, &sizes)) return;
    double *x = args->scratch, *y = x + sizes.ninput;
    for (size_t e = 0; e < lanes; e++) {
        for (size_t k = 0; k < sizes.ninput; k++) x[k] = args->x[k * lanes + e];
        cvx_value(args->params, x, y);
        for (size_t k = 0; k < NSI_CONVEX_OUTPUTS; k++) args->y[k * lanes + e] = y[k];
    }
}

static void features_1(const nsi_block_args* args) {
    features_lanes(args, 1);
}
static void features_4(const nsi_block_args* args) {
    features_lanes(args, 4);
}
static void features_16(const nsi_block_args* args) {
    features_lanes(args, 16);
}
static void features_64(const nsi_block_args* args) {
    features_lanes(args, 64);
}

static nsi_block_kernel* features_kernel(uint32_t form) {
    static nsi_block_kernel* const forms[NSI_LANE_FORMS] = {features_1, features_4, features_16,
                                                            features_64};
    return forms[form];
}

#define NAME(f) ns_convex_##f
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)
static const char features_source[] =
#include "contact/convex_features.def"
    ;

const nsi_block_kind nsi_convex_features = {
    .name = "convex_features",
    .nparam = 2,
    .param_names = {"a", "b"},
    .sizes = features_sizes,
    .jvp = features_jvp,
    .vjp = features_vjp,
    .kernel = features_kernel,
    .c_name = "ns_convex_features",
    .c_shared = features_source,
    .c_source = "static void ns_convex_features(const uint32_t* p, const double* x, double* y,\n"
                "                               const double* w, double* g) {\n"
                "    (void)w, (void)g;\n"
                "    ns_convex_value(p, x, y);\n"
                "}\n",
};
