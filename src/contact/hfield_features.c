// The block kinds of hfield_features.h. The arithmetic is hfield_grid.def, hfield_nearest.def and
// hfield_peaks.def, once for the kernels and once as text for emitted C.

#include "contact/hfield_features.h"

#include <math.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#define NAME(f) hfield_##f
// clang-format off
#include "contact/hfield_grid.def"
#include "contact/hfield_nearest.def"
#include "contact/hfield_peaks.def"
// clang-format on
#undef NAME
#undef NSI_C_SOURCE

enum { MAX_BALLS = NSI_MAX_HULL_VERTICES };

// ---- sizes ---------------------------------------------------------------------------------

static bool grid_size(const uint32_t* params, uint32_t* count) {
    if (params[0] < 2 || params[1] < 2 || params[0] > NSI_MAX_ELEVATIONS / params[1]) return false;
    *count = params[0] * params[1];
    return true;
}

static bool nearest_sizes(const uint32_t* params, nsi_block_sizes* out) {
    uint32_t count, balls = params[2] > 0 ? params[2] : 1;
    uint32_t slots = params[2] > 0 ? balls : NSI_HFIELD_NEAREST;
    if (!grid_size(params, &count) || balls > MAX_BALLS) return false;
    *out = (nsi_block_sizes){.ninput = 3 + 4 * balls + count,
                             .noutput = slots * NSI_HFIELD_SLOT_SIZE,
                             .scratch = 3 + 4 * balls + count + slots * NSI_HFIELD_SLOT_SIZE};
    return true;
}

static bool peaks_sizes(const uint32_t* params, nsi_block_sizes* out) {
    uint32_t count;
    if (!grid_size(params, &count) || params[2] > NSI_HFIELD_BOX) return false;
    *out = (nsi_block_sizes){.ninput = 18 + count,
                             .noutput = 4 * NSI_HFIELD_PEAKS,
                             .scratch = 18 + count + 4 * NSI_HFIELD_PEAKS};
    return true;
}

// ---- derivatives ---------------------------------------------------------------------------

// The features do not move; see hfield.c for the derivatives of what is made of them.
static void hfield_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                       uint32_t dsink, nsi_id* dy) {
    (void)g, (void)dx, (void)dsource, (void)dsink;
    for (uint32_t k = 0; k < block->noutput; k++) dy[k] = NSI_NONE;
}

static void hfield_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                       uint32_t source_bar, nsi_id* xbar) {
    (void)g, (void)ybar, (void)sink_seed, (void)source_bar;
    for (uint32_t k = 0; k < block->ninput; k++) xbar[k] = NSI_NONE;
}

// ---- kernels -------------------------------------------------------------------------------

typedef void value_function(const uint32_t* params, const double* x, double* y);

// Lane by lane, since branches differ; the scratch holds one lane's inputs and outputs.
static void hfield_lanes(const nsi_block_args* args, const nsi_block_sizes* sizes,
                         value_function* value, size_t lanes) {
    double *x = args->scratch, *y = x + sizes->ninput;
    for (size_t e = 0; e < lanes; e++) {
        for (size_t k = 0; k < sizes->ninput; k++) x[k] = args->x[k * lanes + e];
        value(args->params, x, y);
        for (size_t k = 0; k < sizes->noutput; k++) args->y[k * lanes + e] = y[k];
    }
}

static void nearest_lanes(const nsi_block_args* args, size_t lanes) {
    nsi_block_sizes sizes;
    if (lanes == 1) {
        hfield_nearest_value(args->params, args->x, args->y);
    } else if (nearest_sizes(args->params, &sizes)) {
        hfield_lanes(args, &sizes, hfield_nearest_value, lanes);
    }
}

static void peaks_lanes(const nsi_block_args* args, size_t lanes) {
    nsi_block_sizes sizes;
    if (lanes == 1) {
        hfield_peaks_value(args->params, args->x, args->y);
    } else if (peaks_sizes(args->params, &sizes)) {
        hfield_lanes(args, &sizes, hfield_peaks_value, lanes);
    }
}

#define FORMS(kind)                                                                                \
    static void kind##_1(const nsi_block_args* args) {                                             \
        kind##_lanes(args, 1);                                                                     \
    }                                                                                              \
    static void kind##_4(const nsi_block_args* args) {                                             \
        kind##_lanes(args, 4);                                                                     \
    }                                                                                              \
    static void kind##_16(const nsi_block_args* args) {                                            \
        kind##_lanes(args, 16);                                                                    \
    }                                                                                              \
    static void kind##_64(const nsi_block_args* args) {                                            \
        kind##_lanes(args, 64);                                                                    \
    }                                                                                              \
    static nsi_block_kernel* kind##_kernel(uint32_t form) {                                        \
        static nsi_block_kernel* const forms[NSI_LANE_FORMS] = {kind##_1, kind##_4, kind##_16,     \
                                                                kind##_64};                        \
        return forms[form];                                                                        \
    }
FORMS(nearest)
FORMS(peaks)

#define NAME(f) ns_hfield_##f
#define TEXT(...) #__VA_ARGS__
#define NSI_C_SOURCE(...) TEXT(__VA_ARGS__)
static const char hfield_grid[] =
#include "contact/hfield_grid.def"
    ;

const nsi_block_kind nsi_hfield_nearest = {
    .name = "hfield_nearest",
    .nparam = 3,
    .param_names = {"nrow", "ncol", "balls"},
    .sizes = nearest_sizes,
    .jvp = hfield_jvp,
    .vjp = hfield_vjp,
    .kernel = nearest_kernel,
    .c_name = "ns_hfield_nearest_block",
    .c_shared = hfield_grid,
    .c_source =
#include "contact/hfield_nearest.def"
        "static void ns_hfield_nearest_block(const uint32_t* p, const double* x,\n"
        "                                    double* y, const double* w, double* g) {\n"
        "    (void)w, (void)g;\n"
        "    ns_hfield_nearest_value(p, x, y);\n"
        "}\n",
};

const nsi_block_kind nsi_hfield_peaks = {
    .name = "hfield_peaks",
    .nparam = 3,
    .param_names = {"nrow", "ncol", "solid"},
    .sizes = peaks_sizes,
    .jvp = hfield_jvp,
    .vjp = hfield_vjp,
    .kernel = peaks_kernel,
    .c_name = "ns_hfield_peaks_block",
    .c_shared = hfield_grid,
    .c_source =
#include "contact/hfield_peaks.def"
        "static void ns_hfield_peaks_block(const uint32_t* p, const double* x,\n"
        "                                  double* y, const double* w, double* g) {\n"
        "    (void)w, (void)g;\n"
        "    ns_hfield_peaks_value(p, x, y);\n"
        "}\n",
};
