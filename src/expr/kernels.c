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

// Call `function(..., n)` with a constant n, which is `count`, 1 to 12.
#define CASE(function, n, ...)                                                                     \
    case n:                                                                                        \
        function(__VA_ARGS__, n);                                                                  \
        break;
#define FOR_COUNT(count, function, ...)                                                            \
    switch (count) {                                                                               \
        CASE(function, 1, __VA_ARGS__)                                                             \
        CASE(function, 2, __VA_ARGS__)                                                             \
        CASE(function, 3, __VA_ARGS__)                                                             \
        CASE(function, 4, __VA_ARGS__)                                                             \
        CASE(function, 5, __VA_ARGS__)                                                             \
        CASE(function, 6, __VA_ARGS__)                                                             \
        CASE(function, 7, __VA_ARGS__)                                                             \
        CASE(function, 8, __VA_ARGS__)                                                             \
        CASE(function, 9, __VA_ARGS__)                                                             \
        CASE(function, 10, __VA_ARGS__)                                                            \
        CASE(function, 11, __VA_ARGS__)                                                            \
        CASE(function, 12, __VA_ARGS__)                                                            \
    default: break;                                                                                \
    }

// A machine starts two multiply-adds in each cycle and has their results four later: with fewer
// than eight sums at a time it waits. So `total` sums are made in tiles of at most 12, which is what
// registers hold, and of about the same size.
INLINE size_t tile_size(size_t total) {
    const size_t tiles = (total + 11) / 12;
    return tiles > 0 ? (total + tiles - 1) / tiles : 0;
}

// One lane: y[i .. i + 4 vectors), sums over j in order. The last vector may be part of one.
INLINE void dense_columns(const nsi_block_args* p, size_t i, size_t vectors) {
    const size_t nin = p->params[0], nout = p->params[1];
    vec4 sum[12];
    for (size_t r = 0; r < vectors; r++) sum[r] = vec4_zero();
    for (size_t j = 0; j < nin; j++) {
        const double* w = p->source + j * nout + i;
        const vec4 x = vec4_all(p->x + j);
        for (size_t r = 0; r < vectors; r++) sum[r] = vec4_fma(vec4_load(w + 4 * r), x, sum[r]);
    }
    for (size_t r = 0; r < vectors; r++) vec4_store(p->y + i + 4 * r, sum[r]);
}

INLINE void dense_last_columns(const nsi_block_args* p, size_t i, size_t vectors) {
    const size_t nin = p->params[0], nout = p->params[1], last = vectors - 1;
    const size_t rest = nout - i - 4 * last;
    vec4 sum[12];
    for (size_t r = 0; r < vectors; r++) sum[r] = vec4_zero();
    for (size_t j = 0; j < nin; j++) {
        const double* w = p->source + j * nout + i;
        const vec4 x = vec4_all(p->x + j);
        for (size_t r = 0; r < last; r++) sum[r] = vec4_fma(vec4_load(w + 4 * r), x, sum[r]);
        sum[last] = vec4_fma(vec4_load_first(w + 4 * last, rest), x, sum[last]);
    }
    for (size_t r = 0; r < last; r++) vec4_store(p->y + i + 4 * r, sum[r]);
    double e[4];
    vec4_store(e, sum[last]);
    for (size_t k = 0; k < rest; k++) p->y[i + 4 * last + k] = e[k];
}

// Four lanes from l on: y[i .. i + rows). Weights shared by the lanes.
INLINE void dense_rows(const nsi_block_args* p, size_t lanes, size_t l, size_t i, size_t rows) {
    const size_t nin = p->params[0], nout = p->params[1];
    vec4 sum[12];
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

    // Three layouts, with the same sums in the same order: results are bit-identical.
    size_t i = 0;
    if (p->source_step != 1) {
        // Weights per lane: plain loops, which the compiler vectorises over lanes.
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
        // One lane: vectors over outputs, in tiles that fit the registers.
        const size_t tile = tile_size((nout + 3) / 4);
        for (size_t vectors; i < nout; i += 4 * vectors) {
            const size_t left = (nout - i + 3) / 4;
            vectors = left < tile ? left : tile;
            // The last tile may end in the middle of a vector.
            if (i + 4 * vectors <= nout) {
                FOR_COUNT(vectors, dense_columns, p, i)
            } else {
                FOR_COUNT(vectors, dense_last_columns, p, i)
            }
        }
    } else {
        // Shared weights: vectors over lanes, and tiles over outputs.
        for (size_t l = 0; l < lanes; l += 4) {
            const size_t tile = tile_size(nout);
            size_t rows;
            for (i = 0; i < nout; i += rows) {
                // FOR_COUNT makes the tile size a compile-time constant.
                rows = nout - i < tile ? nout - i : tile;
                FOR_COUNT(rows, dense_rows, p, lanes, l, i)
            }
        }
    }
}

// One lane: y[j .. j + rows), each as four interleaved sums over i.
INLINE void transpose_columns(const nsi_block_args* p, size_t j, size_t rows) {
    const size_t nout = p->params[1];
    const double* w = p->source + j * nout;
    // Four partial sums per row hide the latency of the multiply-add.
    vec4 sum[8];
    for (size_t r = 0; r < rows; r++) sum[r] = vec4_zero();
    size_t i = 0;

    // Four products at a time.
    for (; i + 4 <= nout; i += 4) {
        const vec4 z = vec4_load(p->x + i);
        for (size_t r = 0; r < rows; r++) {
            sum[r] = vec4_fma(vec4_load(w + r * nout + i), z, sum[r]);
        }
    }

    // The remaining one to three.
    if (i < nout) { // zeros behind add nothing
        const vec4 z = vec4_load_first(p->x + i, nout - i);
        for (size_t r = 0; r < rows; r++) {
            sum[r] = vec4_fma(vec4_load_first(w + r * nout + i, nout - i), z, sum[r]);
        }
    }

    // Add the four partial sums of each row.
    if (rows % 4 != 0) {
        for (size_t r = 0; r < rows; r++) p->y[j + r] = vec4_sum(sum[r]);
        return;
    }
    for (size_t r = 0; r < rows; r += 4) { // vec4_sum() of four at a time
        vec4_transpose(sum + r);
        const vec4 low = vec4_add(sum[r], sum[r + 1]), high = vec4_add(sum[r + 2], sum[r + 3]);
        vec4_store(p->y + j + r, vec4_add(low, high));
    }
}

// Four lanes from l on: y[j .. j + rows). Weights shared by the lanes.
INLINE void transpose_rows(const nsi_block_args* p, size_t lanes, size_t l, size_t j, size_t rows) {
    const size_t nout = p->params[1];
    // The same order of summation as with one lane.
    const double *w = p->source + j * nout, *z = p->x + l;
    vec4 sum[3][4];
    for (size_t r = 0; r < rows; r++) {
        for (size_t k = 0; k < 4; k++) sum[r][k] = vec4_zero();
    }

    // Products i, i + 1, i + 2 and i + 3 go to separate sums.
    size_t i = 0;
    for (; i + 4 <= nout; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            // One load serves all rows.
            const vec4 zk = vec4_load(z + (i + k) * lanes);
            for (size_t r = 0; r < rows; r++) {
                sum[r][k] = vec4_fma(vec4_all(w + r * nout + i + k), zk, sum[r][k]);
            }
        }
    }

    // The remaining one to three.
    for (size_t k = 0; k < 3; k++) {
        if (i + k >= nout) break;
        const vec4 zk = vec4_load(z + (i + k) * lanes);
        for (size_t r = 0; r < rows; r++) {
            sum[r][k] = vec4_fma(vec4_all(w + r * nout + i + k), zk, sum[r][k]);
        }
    }

    // Add the partial sums pairwise, as vec4_sum() does.
    for (size_t r = 0; r < rows; r++) {
        const vec4 low = vec4_add(sum[r][0], sum[r][1]), high = vec4_add(sum[r][2], sum[r][3]);
        vec4_store(p->y + (j + r) * lanes + l, vec4_add(low, high));
    }
}

INLINE void transpose(const nsi_block_args* p, size_t lanes) {
    const size_t nin = p->params[0], nout = p->params[1];

    // The same three layouts as in dense(), with four interleaved sums in each.
    size_t j = 0;
    if (p->source_step != 1) {
        // Weights per lane.
        for (; j < nin; j++) {
            for (size_t l = 0; l < lanes; l++) {
                double sum[4] = {0.0, 0.0, 0.0, 0.0};
                for (size_t i = 0; i < nout; i++) {
                    sum[i % 4] =
                        fma(p->source[(j * nout + i) * lanes + l], p->x[i * lanes + l], sum[i % 4]);
                }
                // Pairwise, as vec4_sum() does.
                p->y[j * lanes + l] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
            }
        }
    } else if (lanes == 1) {
        // One lane: eight rows at a time, then what remains.
        for (; j + 8 <= nin; j += 8) transpose_columns(p, j, 8);
        if (j + 4 <= nin) transpose_columns(p, j, 4), j += 4;
        if (j + 2 <= nin) transpose_columns(p, j, 2), j += 2;
        if (j < nin) transpose_columns(p, j, 1);
    } else {
        for (size_t l = 0; l < lanes; l += 4) {
            // Shared weights: three rows of four sums fit the registers.
            j = 0;
            for (; j + 3 <= nin; j += 3) transpose_rows(p, lanes, l, j, 3);
            if (j + 2 <= nin) transpose_rows(p, lanes, l, j, 2), j += 2;
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

// The same for eight columns, which share what is loaded of x.
INLINE void outer_eight_columns(const nsi_block_args* p, size_t lanes, size_t l, size_t i) {
    const size_t nin = p->params[0], nout = p->params[1];
    const double* z = p->x + nin * lanes + l;
    vec4 column[2][4];
    for (size_t h = 0; h < 2; h++) {
        for (size_t c = 0; c < 4; c++) column[h][c] = vec4_load(z + (i + 4 * h + c) * lanes);
        vec4_transpose(column[h]);
    }
    for (size_t j = 0; j < nin; j++) {
        double* g = p->sink + j * nout + i;
        const double* x = p->x + j * lanes + l;
        vec4 first = vec4_load(g), second = vec4_load(g + 4);
        for (size_t k = 0; k < 4; k++) {
            const vec4 xk = vec4_all(x + k);
            first = vec4_fma(xk, column[0][k], first);
            second = vec4_fma(xk, column[1][k], second);
        }
        vec4_store(g, first);
        vec4_store(g + 4, second);
    }
}

INLINE void outer(const nsi_block_args* p, size_t lanes) {
    const size_t nin = p->params[0], nout = p->params[1];
    // Inputs of the layer, then adjoints of its outputs.
    const double* z = p->x + nin * lanes;

    // Three layouts: a gradient per lane, one lane, or lanes that add to one gradient, in order.
    if (p->sink_step != 1) {
        // No sum over lanes: each has its own gradient.
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
            // Vectors over outputs.
            const vec4 x = vec4_all(p->x + j);
            double* g = p->sink + j * nout;
            size_t i = 0;
            for (; i + 4 <= nout; i += 4) {
                vec4_store(g + i, vec4_fma(x, vec4_load(z + i), vec4_load(g + i)));
            }
            // The remaining one to three.
            for (; i < nout; i++) g[i] = fma(p->x[j], z[i], g[i]);
        }
    } else {
        for (size_t l = 0; l < lanes; l += 4) {
            size_t i = 0;
            // Lanes are added in their order, so that results do not depend on the width.
            for (; i + 8 <= nout; i += 8) outer_eight_columns(p, lanes, l, i);
            if (i + 4 <= nout) outer_columns(p, lanes, l, i, 4), i += 4;
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
