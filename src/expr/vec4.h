// Four doubles: an AVX register where kernels.c is compiled for AVX2 and FMA, else a plain array.
// Compilers vectorise the loops of the interpreter well, but not the register tiles of the dense
// kernels; those are written with this.

#ifndef NSI_VEC4_H
#define NSI_VEC4_H

#include <math.h>
#include <stddef.h>

#if defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>

typedef __m256d vec4;

static inline vec4 vec4_zero(void) {
    return _mm256_setzero_pd();
}
static inline vec4 vec4_all(const double* p) {
    return _mm256_broadcast_sd(p);
}
static inline vec4 vec4_load(const double* p) {
    return _mm256_loadu_pd(p);
}
static inline void vec4_store(double* p, vec4 a) {
    _mm256_storeu_pd(p, a);
}
static inline vec4 vec4_fma(vec4 a, vec4 b, vec4 c) {
    return _mm256_fmadd_pd(a, b, c);
}
static inline vec4 vec4_add(vec4 a, vec4 b) {
    return _mm256_add_pd(a, b);
}

// Rows become columns.
static inline void vec4_transpose(vec4 r[4]) {
    const vec4 a = _mm256_unpacklo_pd(r[0], r[1]), b = _mm256_unpackhi_pd(r[0], r[1]);
    const vec4 c = _mm256_unpacklo_pd(r[2], r[3]), d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}

// The first n of four, zeros behind; memory past them is not touched.
static inline __m256i vec4_mask(size_t n) {
    const __m256i index = _mm256_set_epi64x(3, 2, 1, 0);
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)n), index);
}
static inline vec4 vec4_load_first(const double* p, size_t n) {
    return _mm256_maskload_pd(p, vec4_mask(n));
}

#else

typedef struct vec4 {
    double e[4];
} vec4;

static inline vec4 vec4_zero(void) {
    return (vec4){{0.0, 0.0, 0.0, 0.0}};
}
static inline vec4 vec4_all(const double* p) {
    return (vec4){{*p, *p, *p, *p}};
}
static inline vec4 vec4_load(const double* p) {
    return (vec4){{p[0], p[1], p[2], p[3]}};
}
static inline void vec4_store(double* p, vec4 a) {
    for (size_t k = 0; k < 4; k++) p[k] = a.e[k];
}
static inline vec4 vec4_fma(vec4 a, vec4 b, vec4 c) {
    for (size_t k = 0; k < 4; k++) c.e[k] = fma(a.e[k], b.e[k], c.e[k]);
    return c;
}
static inline vec4 vec4_add(vec4 a, vec4 b) {
    for (size_t k = 0; k < 4; k++) a.e[k] += b.e[k];
    return a;
}
static inline void vec4_transpose(vec4 r[4]) {
    for (size_t i = 0; i < 4; i++) {
        for (size_t j = 0; j < i; j++) {
            const double swap = r[i].e[j];
            r[i].e[j] = r[j].e[i];
            r[j].e[i] = swap;
        }
    }
}
static inline vec4 vec4_load_first(const double* p, size_t n) {
    vec4 a = vec4_zero();
    for (size_t k = 0; k < n; k++) a.e[k] = p[k];
    return a;
}

#endif

// (a0 + a1) + (a2 + a3)
static inline double vec4_sum(vec4 a) {
    double e[4];
    vec4_store(e, a);
    return (e[0] + e[1]) + (e[2] + e[3]);
}

#endif
