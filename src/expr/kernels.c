// Numeric loops over lanes. Compiled twice (CMakeLists.txt): NSI_KERNEL_SUFFIX is `generic` or
// `avx2`. Plain C with constant trip counts, which gcc and clang vectorise; fused multiply-adds
// are explicit, so both builds give the same bits.

#include "expr/kernels.h"

#include "expr/graph.h"
#include "expr/vec4.h"

#include <math.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#include "expr/bits.def"
#undef NSI_C_SOURCE

// ---- interpreter ---------------------------------------------------------------------------

// The steps loop for L lanes. A result never shares its slot with an operand of the same step.
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges) STEP_##kind(ENUM, value)
#define STEP_LEAF(ENUM, value)
#define STEP_LOWER(ENUM, value)
#define STEP_PRIM(ENUM, value)                                                                     \
    case NSI_##ENUM:                                                                               \
        for (size_t l = 0; l < LANES; l++) {                                                       \
            const double a = pa[l], b = pb[l], c = pc[l];                                          \
            (void)a, (void)b, (void)c;                                                             \
            dst[l] = value;                                                                        \
        }                                                                                          \
        break;

#define STEPS_FUNCTION(function)                                                                   \
    static void function(const nsi_step* steps, size_t count, double* const bases[4])

#define STEPS_BODY                                                                                 \
    for (size_t i = 0; i < count; i++) {                                                           \
        const nsi_step* s = &steps[i];                                                             \
        double* restrict dst = bases[NSI_REF_BASE(s->dst)] + LANES * NSI_REF_COMPONENT(s->dst);    \
        const double* pa = bases[NSI_REF_BASE(s->a)] + LANES * NSI_REF_COMPONENT(s->a);            \
        const double* pb = bases[NSI_REF_BASE(s->b)] + LANES * NSI_REF_COMPONENT(s->b);            \
        const double* pc = bases[NSI_REF_BASE(s->c)] + LANES * NSI_REF_COMPONENT(s->c);            \
        switch (s->op) {

#define STEPS_END                                                                                  \
    default: break; /* code.c makes no others */                                                   \
        }                                                                                          \
        }

#define LANES ((size_t)1)
STEPS_FUNCTION(steps_1){STEPS_BODY
#include "expr/ops.def"
                            STEPS_END}
#undef LANES
#define LANES ((size_t)4)
STEPS_FUNCTION(steps_4){STEPS_BODY
#include "expr/ops.def"
                            STEPS_END}
#undef LANES
#define LANES ((size_t)16)
STEPS_FUNCTION(steps_16){STEPS_BODY
#include "expr/ops.def"
                             STEPS_END}
#undef LANES
#define LANES ((size_t)64)
STEPS_FUNCTION(steps_64) {
    STEPS_BODY
#include "expr/ops.def"
    STEPS_END
}
#undef LANES
#undef OP

// ---- dense blocks --------------------------------------------------------------------------
// Sums are kept in tiles of registers. With one lane a vector holds four outputs, with more lanes
// four lanes of one output. The order of every sum is that of dense.c. Tile sizes are arguments of
// functions that are forced inline, so that each use has constant trip counts.

#if defined(__GNUC__) || defined(__clang__)
#define INLINE static inline __attribute__((always_inline))
#else
#define INLINE static inline
#endif

// One lane: y[i .. i + 4 vectors), sums over j in order.
INLINE void dense_columns(const nsi_block_args* p, size_t i, size_t vectors) {
    const size_t nin = p->params[0], nout = p->params[1];
    vec4 sum[4];
    for (size_t r = 0; r < vectors; r++) sum[r] = vec4_zero();
    for (size_t j = 0; j < nin; j++) {
        const double* w = p->source + j * nout + i;
        const vec4 x = vec4_all(p->x + j);
        for (size_t r = 0; r < vectors; r++) sum[r] = vec4_fma(vec4_load(w + 4 * r), x, sum[r]);
    }
    for (size_t r = 0; r < vectors; r++) vec4_store(p->y + i + 4 * r, sum[r]);
}

// The last one to three outputs.
INLINE void dense_last_columns(const nsi_block_args* p, size_t i) {
    const size_t nin = p->params[0], nout = p->params[1];
    vec4 sum = vec4_zero();
    for (size_t j = 0; j < nin; j++) {
        const vec4 w = vec4_load_first(p->source + j * nout + i, nout - i);
        sum = vec4_fma(w, vec4_all(p->x + j), sum);
    }
    double e[4];
    vec4_store(e, sum);
    for (size_t k = 0; i + k < nout; k++) p->y[i + k] = e[k];
}

// Four lanes from l on: y[i .. i + rows). Weights shared by the lanes.
INLINE void dense_rows(const nsi_block_args* p, size_t lanes, size_t l, size_t i, size_t rows) {
    const size_t nin = p->params[0], nout = p->params[1];
    vec4 sum[8];
    for (size_t r = 0; r < rows; r++) sum[r] = vec4_zero();
    for (size_t j = 0; j < nin; j++) {
        const double* w = p->source + j * nout + i;
        const vec4 x = vec4_load(p->x + j * lanes + l);
        for (size_t r = 0; r < rows; r++) sum[r] = vec4_fma(vec4_all(w + r), x, sum[r]);
    }
    for (size_t r = 0; r < rows; r++) vec4_store(p->y + (i + r) * lanes + l, sum[r]);
}

INLINE void dense(const nsi_block_args* p, size_t lanes) {
    const size_t nin = p->params[0], nout = p->params[1];
    size_t i = 0;
    if (p->source_step != 1) {
        for (; i < nout; i++) {
            for (size_t l = 0; l < lanes; l++) {
                double sum = 0.0;
                for (size_t j = 0; j < nin; j++) {
                    sum = fma(p->source[(j * nout + i) * lanes + l], p->x[j * lanes + l], sum);
                }
                p->y[i * lanes + l] = sum;
            }
        }
    } else if (lanes == 1) {
        for (; i + 16 <= nout; i += 16) dense_columns(p, i, 4);
        if (i + 8 <= nout) dense_columns(p, i, 2), i += 8;
        if (i + 4 <= nout) dense_columns(p, i, 1), i += 4;
        if (i < nout) dense_last_columns(p, i);
    } else {
        for (size_t l = 0; l < lanes; l += 4) {
            i = 0;
            for (; i + 8 <= nout; i += 8) dense_rows(p, lanes, l, i, 8);
            if (i + 4 <= nout) dense_rows(p, lanes, l, i, 4), i += 4;
            if (i + 2 <= nout) dense_rows(p, lanes, l, i, 2), i += 2;
            if (i < nout) dense_rows(p, lanes, l, i, 1);
        }
    }
}

// One lane: y[j .. j + rows), each as four interleaved sums over i.
INLINE void transpose_columns(const nsi_block_args* p, size_t j, size_t rows) {
    const size_t nout = p->params[1];
    const double* w = p->source + j * nout;
    vec4 sum[4];
    for (size_t r = 0; r < rows; r++) sum[r] = vec4_zero();
    size_t i = 0;
    for (; i + 4 <= nout; i += 4) {
        const vec4 z = vec4_load(p->x + i);
        for (size_t r = 0; r < rows; r++) {
            sum[r] = vec4_fma(vec4_load(w + r * nout + i), z, sum[r]);
        }
    }
    if (i < nout) { // zeros behind add nothing
        const vec4 z = vec4_load_first(p->x + i, nout - i);
        for (size_t r = 0; r < rows; r++) {
            sum[r] = vec4_fma(vec4_load_first(w + r * nout + i, nout - i), z, sum[r]);
        }
    }
    for (size_t r = 0; r < rows; r++) p->y[j + r] = vec4_sum(sum[r]);
}

// Four lanes from l on: y[j .. j + rows). Weights shared by the lanes.
INLINE void transpose_rows(const nsi_block_args* p, size_t lanes, size_t l, size_t j, size_t rows) {
    const size_t nout = p->params[1];
    const double *w = p->source + j * nout, *z = p->x + l;
    vec4 sum[2][4];
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < 4; k++) sum[r][k] = vec4_zero();
    }
    size_t i = 0;
    for (; i + 4 <= nout; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            const vec4 zk = vec4_load(z + (i + k) * lanes);
            for (size_t r = 0; r < rows; r++) {
                sum[r][k] = vec4_fma(vec4_all(w + r * nout + i + k), zk, sum[r][k]);
            }
        }
    }
    for (size_t k = 0; k < 3; k++) {
        if (i + k >= nout) break;
        const vec4 zk = vec4_load(z + (i + k) * lanes);
        for (size_t r = 0; r < rows; r++) {
            sum[r][k] = vec4_fma(vec4_all(w + r * nout + i + k), zk, sum[r][k]);
        }
    }
    for (size_t r = 0; r < rows; r++) {
        const vec4 low = vec4_add(sum[r][0], sum[r][1]), high = vec4_add(sum[r][2], sum[r][3]);
        vec4_store(p->y + (j + r) * lanes + l, vec4_add(low, high));
    }
}

INLINE void transpose(const nsi_block_args* p, size_t lanes) {
    const size_t nin = p->params[0], nout = p->params[1];
    size_t j = 0;
    if (p->source_step != 1) {
        for (; j < nin; j++) {
            for (size_t l = 0; l < lanes; l++) {
                double sum[4] = {0.0, 0.0, 0.0, 0.0};
                for (size_t i = 0; i < nout; i++) {
                    sum[i % 4] =
                        fma(p->source[(j * nout + i) * lanes + l], p->x[i * lanes + l], sum[i % 4]);
                }
                p->y[j * lanes + l] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            }
        }
    } else if (lanes == 1) {
        for (; j + 4 <= nin; j += 4) transpose_columns(p, j, 4);
        if (j + 2 <= nin) transpose_columns(p, j, 2), j += 2;
        if (j < nin) transpose_columns(p, j, 1);
    } else {
        for (size_t l = 0; l < lanes; l += 4) {
            j = 0;
            for (; j + 2 <= nin; j += 2) transpose_rows(p, lanes, l, j, 2);
            if (j < nin) transpose_rows(p, lanes, l, j, 1);
        }
    }
}

// Four lanes from l on, summed over: columns i .. i + count of G, count at most 4.
INLINE void outer_columns(const nsi_block_args* p, size_t lanes, size_t l, size_t i, size_t count) {
    const size_t nin = p->params[0], nout = p->params[1];
    const double* z = p->x + nin * lanes + l;
    vec4 column[4]; // of lane l + k: z[i .. i + count)
    for (size_t c = 0; c < 4; c++) {
        column[c] = c < count ? vec4_load(z + (i + c) * lanes) : vec4_zero();
    }
    vec4_transpose(column);
    for (size_t j = 0; j < nin; j++) {
        double* g = p->sink + j * nout + i;
        const double* x = p->x + j * lanes + l;
        vec4 sum = count == 4 ? vec4_load(g) : vec4_load_first(g, count);
        for (size_t k = 0; k < 4; k++) sum = vec4_fma(vec4_all(x + k), column[k], sum);
        double e[4];
        vec4_store(count == 4 ? g : e, sum);
        for (size_t c = 0; count < 4 && c < count; c++) g[c] = e[c];
    }
}

INLINE void outer(const nsi_block_args* p, size_t lanes) {
    const size_t nin = p->params[0], nout = p->params[1];
    const double* z = p->x + nin * lanes;
    if (p->sink_step != 1) {
        for (size_t j = 0; j < nin; j++) {
            for (size_t i = 0; i < nout; i++) {
                double* g = p->sink + (j * nout + i) * lanes;
                for (size_t l = 0; l < lanes; l++) {
                    g[l] = fma(p->x[j * lanes + l], z[i * lanes + l], g[l]);
                }
            }
        }
    } else if (lanes == 1) {
        for (size_t j = 0; j < nin; j++) {
            const vec4 x = vec4_all(p->x + j);
            double* g = p->sink + j * nout;
            size_t i = 0;
            for (; i + 4 <= nout; i += 4) {
                vec4_store(g + i, vec4_fma(x, vec4_load(z + i), vec4_load(g + i)));
            }
            for (; i < nout; i++) g[i] = fma(p->x[j], z[i], g[i]);
        }
    } else {
        for (size_t l = 0; l < lanes; l += 4) {
            size_t i = 0;
            for (; i + 4 <= nout; i += 4) outer_columns(p, lanes, l, i, 4);
            switch (nout - i) {
            case 1: outer_columns(p, lanes, l, i, 1); break;
            case 2: outer_columns(p, lanes, l, i, 2); break;
            case 3: outer_columns(p, lanes, l, i, 3); break;
            default: break;
            }
        }
    }
}

#define BLOCK_KERNELS(function)                                                                    \
    static void function##_1(const nsi_block_args* p) {                                            \
        function(p, 1);                                                                            \
    }                                                                                              \
    static void function##_4(const nsi_block_args* p) {                                            \
        function(p, 4);                                                                            \
    }                                                                                              \
    static void function##_16(const nsi_block_args* p) {                                           \
        function(p, 16);                                                                           \
    }                                                                                              \
    static void function##_64(const nsi_block_args* p) {                                           \
        function(p, 64);                                                                           \
    }

BLOCK_KERNELS(dense)
BLOCK_KERNELS(transpose)
BLOCK_KERNELS(outer)

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)

const nsi_kernels PASTE(nsi_kernels_, NSI_KERNEL_SUFFIX) = {
    .steps = {steps_1, steps_4, steps_16, steps_64},
    .dense = {dense_1, dense_4, dense_16, dense_64},
    .transpose = {transpose_1, transpose_4, transpose_16, transpose_64},
    .outer = {outer_1, outer_4, outer_16, outer_64},
};
