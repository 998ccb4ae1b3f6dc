// The dense family of blocks. Three bilinear kinds, closed under differentiation:
//
//   dense            y_i = sum_j W_ji x_j            dense_transpose  y_j = sum_i W_ji z_i
//   dense_outer      G_ji += x_j z_i
//
//   kind        tangent                        adjoints for seed s
//   dense       dense(W, dx) + dense(dW, x)    x: dense_transpose(W, s)   W: dense_outer(x, s)
//   transpose   the same with transpose        z: dense(W, s)             W: dense_outer(s, z)
//   outer       outer(dx, z) + outer(x, dz)    x: dense_transpose(S, z)   z: dense(S, x)
//
// A layer with bias gives the constant 1 as one more input. The kernels, and the C below that
// emitted programs carry, sum in the same order: dense over j in order, transpose over i in four
// interleaved partial sums, so that any lane count gives the same bits and one lane can use SIMD.

#include "expr/block.h"

static bool widths_ok(const uint32_t* params) {
    return params[0] >= 1 && params[0] <= NSI_DENSE_MAX_WIDTH && params[1] >= 1 &&
           params[1] <= NSI_DENSE_MAX_WIDTH;
}

static bool dense_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!widths_ok(params)) return false;
    *out = (nsi_block_sizes){params[0], params[1], params[0] * params[1], 0, 0};
    return true;
}

static bool transpose_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!widths_ok(params)) return false;
    *out = (nsi_block_sizes){params[1], params[0], params[0] * params[1], 0, 0};
    return true;
}

static bool outer_sizes(const uint32_t* params, nsi_block_sizes* out) {
    if (!widths_ok(params)) return false;
    *out = (nsi_block_sizes){params[0] + params[1], 0, 0, params[0] * params[1], 0};
    return true;
}

// ---- building blocks of derivatives --------------------------------------------------------

static bool any_nonzero(const nsi_id* ids, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (ids[i] != NSI_NONE) return true;
    }
    return false;
}

// Add a block that has the same parameters as `like`; inputs NSI_NONE are zero.
static nsi_id append_dense_block(ns_graph* g, const nsi_block_kind* kind, const nsi_block* like,
                                 const nsi_id* x, uint32_t nx, const nsi_id* z, uint32_t nz,
                                 uint32_t source, uint32_t source_offset, uint32_t sink,
                                 uint32_t sink_offset) {
    nsi_id* inputs = nsi_alloc(&g->allocator, ((size_t)nx + nz) * sizeof *inputs);
    if (!inputs) return nsi_graph_fail_nomem(g);
    nsi_id zero = nsi_graph_const(g, 0.0);
    for (uint32_t k = 0; k < nx; k++) inputs[k] = x[k] == NSI_NONE ? zero : x[k];
    for (uint32_t k = 0; k < nz; k++) inputs[nx + k] = z[k] == NSI_NONE ? zero : z[k];
    nsi_block block = {.kind = kind,
                       .params = {like->params[0], like->params[1]},
                       .ninput = nx + nz,
                       .inputs = inputs,
                       .source = source,
                       .source_offset = source_offset,
                       .sink = sink,
                       .sink_offset = sink_offset};
    nsi_id node = nsi_graph_block(g, &block);
    nsi_free(&g->allocator, inputs);
    return node;
}

// total[k] += outputs of a matrix-vector product with `x`.
static void add_dense_product(ns_graph* g, const nsi_block_kind* kind, const nsi_block* like,
                              const nsi_id* x, uint32_t nx, uint32_t source, uint32_t offset,
                              nsi_id* total, uint32_t ntotal) {
    nsi_id node = append_dense_block(g, kind, like, x, nx, NULL, 0, source, offset, NSI_NONE, 0);
    for (uint32_t k = 0; k < ntotal && node != NSI_NONE; k++) {
        nsi_id out = nsi_graph_out(g, node, k);
        total[k] = total[k] == NSI_NONE ? out : nsi_make(g, NSI_ADD, total[k], out, NSI_NONE);
    }
}

static void add_outer(ns_graph* g, const nsi_block* like, const nsi_id* x, const nsi_id* z,
                      uint32_t sink, uint32_t offset) {
    append_dense_block(g, &nsi_dense_outer, like, x, like->params[0], z, like->params[1], NSI_NONE,
                       0, sink, offset);
}

// ---- derivatives ---------------------------------------------------------------------------

// dense and dense_transpose: linear in the input and in the weights.
static void product_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                        uint32_t dsink, nsi_id* dy) {
    (void)dsink;
    uint32_t n = block->ninput, m = block->noutput, offset = block->source_offset;
    if (any_nonzero(dx, n))
        add_dense_product(g, block->kind, block, dx, n, block->source, offset, dy, m);
    if (dsource != NSI_NONE) {
        add_dense_product(g, block->kind, block, block->inputs, n, dsource, offset, dy, m);
    }
}

static void dense_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                      uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed;
    add_dense_product(g, &nsi_dense_transpose, block, ybar, block->noutput, block->source,
                      block->source_offset, xbar, block->ninput);
    if (source_bar != NSI_NONE) {
        add_outer(g, block, block->inputs, ybar, source_bar, block->source_offset);
    }
}

static void transpose_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar,
                          uint32_t sink_seed, uint32_t source_bar, nsi_id* xbar) {
    (void)sink_seed;
    add_dense_product(g, &nsi_dense, block, ybar, block->noutput, block->source,
                      block->source_offset, xbar, block->ninput);
    if (source_bar != NSI_NONE) {
        add_outer(g, block, ybar, block->inputs, source_bar, block->source_offset);
    }
}

static void outer_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                      uint32_t dsink, nsi_id* dy) {
    (void)dsource, (void)dy;
    if (dsink == NSI_NONE) return;
    uint32_t nin = block->params[0], nout = block->params[1];
    const nsi_id *x = block->inputs, *z = block->inputs + nin;
    if (any_nonzero(dx, nin)) add_outer(g, block, dx, z, dsink, block->sink_offset);
    if (any_nonzero(dx + nin, nout)) add_outer(g, block, x, dx + nin, dsink, block->sink_offset);
}

static void outer_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                      uint32_t source_bar, nsi_id* xbar) {
    (void)ybar, (void)source_bar;
    uint32_t nin = block->params[0], nout = block->params[1];
    const nsi_id *x = block->inputs, *z = block->inputs + nin;
    add_dense_product(g, &nsi_dense_transpose, block, z, nout, sink_seed, block->sink_offset, xbar,
                      nin);
    add_dense_product(g, &nsi_dense, block, x, nin, sink_seed, block->sink_offset, xbar + nin,
                      nout);
}

static nsi_block_kernel* dense_kernel(uint32_t form) {
    return nsi_kernels_best()->dense[form];
}
static nsi_block_kernel* transpose_kernel(uint32_t form) {
    return nsi_kernels_best()->transpose[form];
}
static nsi_block_kernel* outer_kernel(uint32_t form) {
    return nsi_kernels_best()->outer[form];
}

// ---- the kinds -----------------------------------------------------------------------------

#define SOURCE(...) #__VA_ARGS__

const nsi_block_kind nsi_dense = {
    .name = "dense",
    .nparam = 2,
    .param_names = {"nin", "nout"},
    .sizes = dense_sizes,
    .jvp = product_jvp,
    .vjp = dense_vjp,
    .kernel = dense_kernel,
    .c_name = "ns_dense",
    .c_source = SOURCE(static void ns_dense(const uint32_t* p, const double* x, double* y,
                                            const double* w, double* g) {
        (void)g;
        for (uint32_t i = 0; i < p[1]; i++) {
            double t = 0.0;
            for (uint32_t j = 0; j < p[0]; j++) t = fma(w[j * p[1] + i], x[j], t);
            y[i] = t;
        }
    }),
};

const nsi_block_kind nsi_dense_transpose = {
    .name = "dense_transpose",
    .nparam = 2,
    .param_names = {"nin", "nout"},
    .sizes = transpose_sizes,
    .jvp = product_jvp,
    .vjp = transpose_vjp,
    .kernel = transpose_kernel,
    .c_name = "ns_dense_transpose",
    .c_source = SOURCE(static void ns_dense_transpose(const uint32_t* p, const double* z, double* y,
                                                      const double* w, double* g) {
        (void)g;
        for (uint32_t j = 0; j < p[0]; j++) {
            double t[4] = {0.0, 0.0, 0.0, 0.0};
            for (uint32_t i = 0; i < p[1]; i++) {
                t[i % 4] = fma(w[j * p[1] + i], z[i], t[i % 4]);
            }
            y[j] = (t[0] + t[1]) + (t[2] + t[3]);
        }
    }),
};

const nsi_block_kind nsi_dense_outer = {
    .name = "dense_outer",
    .nparam = 2,
    .param_names = {"nin", "nout"},
    .sizes = outer_sizes,
    .jvp = outer_jvp,
    .vjp = outer_vjp,
    .kernel = outer_kernel,
    .c_name = "ns_dense_outer",
    .c_source = SOURCE(static void ns_dense_outer(const uint32_t* p, const double* x, double* y,
                                                  const double* w, double* g) {
        (void)y, (void)w;
        for (uint32_t j = 0; j < p[0]; j++) {
            for (uint32_t i = 0; i < p[1]; i++) {
                g[j * p[1] + i] = fma(x[j], x[p[0] + i], g[j * p[1] + i]);
            }
        }
    }),
};
