// Dense layers with ELU in single precision. Compiled twice (CMakeLists.txt), as expr/kernels.c is:
// plain loops over outputs, so that both give the same bits.

#include "quadruped/mlp_f32.h"

// Four inputs at a time: one load and one store of y for four products.
static void add_four(float* restrict y, const float* restrict w, const float* x, size_t n) {
    const float *a = w, *b = w + n, *c = w + 2 * n, *d = w + 3 * n;
    for (size_t i = 0; i < n; i++) {
        y[i] += (x[0] * a[i] + x[1] * b[i]) + (x[2] * c[i] + x[3] * d[i]);
    }
}

static void mlp_add_row(float* restrict y, const float* restrict w, float x, size_t n) {
    for (size_t i = 0; i < n; i++) y[i] += x * w[i];
}

// x, or exp(x) - 1 below 0, to 2e-7. exp(x) = 2^k exp(r) with |r| <= ln(2)/2 and the series of exp;
// k is found by adding 1.5 * 2^23, which leaves it in the last bits.
static void elu(float* restrict y, size_t n) {
    const float shift = 12582912.0f, log2e = 1.44269504f, high = 0.693359375f,
                low = -2.12194440e-4f;
    for (size_t i = 0; i < n; i++) {
        float x = y[i], below = x < 0.0f ? x : 0.0f;
        below = below > -80.0f ? below : -80.0f;
        float big = below * log2e + shift, k = big - shift;
        float r = (below - k * high) - k * low;
        float series =
            1.0f + r * (1.0f + r * (0.5f + r * (1.66666667e-1f +
                                                r * (4.16666667e-2f +
                                                     r * (8.33333333e-3f + r * 1.38888889e-3f)))));
        int32_t power = ((int32_t)k + 127) << 23;
        float scale;
        memcpy(&scale, &power, sizeof scale);
        y[i] = x < 0.0f ? series * scale - 1.0f : x;
    }
}

#define JOIN(a, b) a##b
#define KERNEL(suffix) JOIN(quad_mlp_f32_, suffix)

void KERNEL(QUAD_KERNEL_SUFFIX)(uint32_t nlayer, const uint32_t* sizes, const float* weights,
                                const float* x, float* y) {
    float even[QUAD_MLP_F32_WIDEST], odd[QUAD_MLP_F32_WIDEST];
    float* const hidden[2] = {even, odd};
    for (uint32_t layer = 0; layer < nlayer; layer++) {
        const size_t nin = sizes[layer], nout = sizes[layer + 1];
        const bool last = layer + 1 == nlayer;
        float* out = last ? y : hidden[layer % 2];
        memcpy(out, weights + nin * nout, nout * sizeof *out);
        size_t j = 0;
        for (; j + 4 <= nin; j += 4) add_four(out, weights + j * nout, x + j, nout);
        for (; j < nin; j++) mlp_add_row(out, weights + j * nout, x[j], nout);
        if (!last) elu(out, nout);
        weights += (nin + 1) * nout;
        x = out;
    }
}
