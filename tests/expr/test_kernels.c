// The numeric loops of kernels.c, each build of them (any machine, AVX2) and each lane count against
// plain loops: the same bits, and nothing read or written out of bounds. Elsewhere only the build
// that suits this machine is used.

#include "expr/graph.h"
#include "expr/kernels.h"
#include "support/check.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct build {
    const char* name;
    const nsi_kernels* kernels;
} build;

static uint32_t list_builds(build list[2]) {
    uint32_t count = 0;
    list[count++] = (build){"generic", &nsi_kernels_generic};
#ifdef NSI_HAVE_AVX2_KERNELS
    if (nsi_cpu_has_avx2_fma()) list[count++] = (build){"avx2", &nsi_kernels_avx2};
#endif
    return count;
}

static void the_best_build_is_chosen(void** state) {
    (void)state;
    build builds[2];
    uint32_t count = list_builds(builds);
    assert_ptr_equal(nsi_kernels_best(), builds[count - 1].kernels);
}

// ---- steps ---------------------------------------------------------------------------------

#define NSI_C_SOURCE(...) __VA_ARGS__
#include "expr/bits.def"
#undef NSI_C_SOURCE

// The table's C text, compiled here once more.
static double value_of(nsi_op op, double a, double b, double c) {
    const double lowered = NAN;
    (void)a, (void)b, (void)c;
    switch (op) {
#define OP(ENUM, name, arity, kind, flags, value, da, db, dc, edges)                               \
    case NSI_##ENUM:                                                                               \
        return value;
#include "expr/ops.def"
#undef OP
    case NSI_OP_COUNT: break;
    }
    return lowered;
}

// Every operation on all triples of numbers that are special to some of them.
static void steps_do_what_the_table_says(void** state) {
    (void)state;
    static const double special[] = {0.0, -0.0,     1.0,       -1.0, 0.5,   2.5,   -3.5,
                                     7.0, 1e-310,   -1e300,    1e16, 0.1,   -0.75, 1.0 / 3.0,
                                     NAN, INFINITY, -INFINITY, 1e-7, 1023.0};
    enum { N = sizeof special / sizeof *special, TRIPLES = N * N * N };
    build builds[2];
    uint32_t nbuild = list_builds(builds);
    uint64_t compared = 0;
    for (nsi_op op = 0; op < NSI_OP_COUNT; op++) {
        if (nsi_ops[op].kind != NSI_KIND_PRIM) continue;
        bool bits = op == NSI_POW2I || op == NSI_EXPONENT;
        for (uint32_t form = 0; form < NSI_LANE_FORMS; form++) {
            uint32_t lanes = nsi_lane_counts[form];
            double *in = malloc(3 * lanes * sizeof *in), *out = malloc(lanes * sizeof *out);
            nsi_step step = {.op = op,
                             .dst = NSI_REF(NSI_BASE_OUTPUT, 0),
                             .a = NSI_REF(NSI_BASE_INPUT, 0),
                             .b = NSI_REF(NSI_BASE_INPUT, 1),
                             .c = NSI_REF(NSI_BASE_INPUT, 2)};
            double* const bases[4] = {
                [NSI_BASE_WORK] = NULL, [NSI_BASE_INPUT] = in, [NSI_BASE_OUTPUT] = out};
            for (uint32_t first = 0; first < TRIPLES; first += lanes) {
                for (uint32_t l = 0; l < lanes; l++) {
                    uint32_t t = (first + l) % TRIPLES;
                    in[l] = bits ? fabs(special[t % N]) + 1.0 : special[t % N];
                    if (op == NSI_POW2I) in[l] = (double)(t % 2046) - 1022.0;
                    in[lanes + l] = special[t / N % N];
                    in[2 * lanes + l] = special[t / N / N];
                }
                for (uint32_t n = 0; n < nbuild; n++) {
                    for (uint32_t l = 0; l < lanes; l++) out[l] = -123.0;
                    builds[n].kernels->steps[form](&step, 1, bases);
                    for (uint32_t l = 0; l < lanes; l++) {
                        double a = in[l], b = in[lanes + l], c = in[2 * lanes + l];
                        double expected = value_of(op, a, b, c);
                        compared++;
                        if (!check_same_bits(out[l], expected)) {
                            fail_msg("%s x%u: %s(%g, %g, %g) is %.17g, should be %.17g",
                                     builds[n].name, lanes, nsi_ops[op].name, a, b, c, out[l],
                                     expected);
                        }
                    }
                }
            }
            free(in);
            free(out);
        }
    }
    print_message("%u builds, %llu results\n", nbuild, (unsigned long long)compared);
}

// ---- blocks --------------------------------------------------------------------------------

typedef struct operands {
    uint32_t nin, nout, lanes;
    bool per_lane;
    double *x, *z, *w, *y, *g; // each exactly as large as it has to be
} operands;

static double* numbers(ns_rng* rng, size_t count) {
    double* x = malloc(count * sizeof *x);
    for (size_t i = 0; i < count; i++) x[i] = ns_rng_uniform(rng, -1.0, 1.0);
    return x;
}

static double weight(const operands* o, uint32_t j, uint32_t i, uint32_t l) {
    uint32_t at = j * o->nout + i;
    return o->per_lane ? o->w[at * o->lanes + l] : o->w[at];
}

static void expect(const char* name, const operands* o, const char* what, uint32_t number,
                   double got, double expected) {
    if (check_same_bits(got, expected)) return;
    fail_msg("%s x%u, %u x %u%s: %s %u is %a, should be %a", name, o->lanes, o->nin, o->nout,
             o->per_lane ? " per lane" : "", what, number, got, expected);
}

static void check_dense(const build* b, uint32_t form, const operands* o) {
    const uint32_t params[2] = {o->nin, o->nout};
    b->kernels->dense[form](&(nsi_block_args){.params = params,
                                              .x = o->x,
                                              .y = o->y,
                                              .source = o->w,
                                              .source_step = o->per_lane ? o->lanes : 1});
    for (uint32_t i = 0; i < o->nout; i++) {
        for (uint32_t l = 0; l < o->lanes; l++) {
            double sum = 0.0;
            for (uint32_t j = 0; j < o->nin; j++) {
                sum = fma(weight(o, j, i, l), o->x[j * o->lanes + l], sum);
            }
            expect(b->name, o, "output", i, o->y[i * o->lanes + l], sum);
        }
    }
}

static void check_transpose(const build* b, uint32_t form, const operands* o, double* y) {
    const uint32_t params[2] = {o->nin, o->nout};
    b->kernels->transpose[form](&(nsi_block_args){.params = params,
                                                  .x = o->z,
                                                  .y = y,
                                                  .source = o->w,
                                                  .source_step = o->per_lane ? o->lanes : 1});
    for (uint32_t j = 0; j < o->nin; j++) {
        for (uint32_t l = 0; l < o->lanes; l++) {
            double t[4] = {0.0, 0.0, 0.0, 0.0};
            for (uint32_t i = 0; i < o->nout; i++) {
                t[i % 4] = fma(weight(o, j, i, l), o->z[i * o->lanes + l], t[i % 4]);
            }
            expect(b->name, o, "input", j, y[j * o->lanes + l], (t[0] + t[1]) + (t[2] + t[3]));
        }
    }
}

// Adds to what is there; lanes in order when they share the sink.
static void check_outer(const build* b, uint32_t form, const operands* o) {
    const uint32_t params[2] = {o->nin, o->nout}, size = o->nin * o->nout;
    const uint32_t width = o->per_lane ? o->lanes : 1;
    double* x = malloc((o->nin + o->nout) * o->lanes * sizeof *x);
    double* expected = malloc(size * width * sizeof *expected);
    memcpy(x, o->x, o->nin * o->lanes * sizeof *x);
    memcpy(x + o->nin * o->lanes, o->z, o->nout * o->lanes * sizeof *x);
    for (uint32_t e = 0; e < size * width; e++) expected[e] = o->g[e] = 0.25 * (e % 7);
    for (uint32_t e = 0; e < size; e++) {
        for (uint32_t l = 0; l < o->lanes; l++) {
            double* g = &expected[o->per_lane ? e * o->lanes + l : e];
            *g = fma(o->x[e / o->nout * o->lanes + l], o->z[e % o->nout * o->lanes + l], *g);
        }
    }
    b->kernels->outer[form](
        &(nsi_block_args){.params = params, .x = x, .sink = o->g, .sink_step = width});
    for (uint32_t e = 0; e < size * width; e++) {
        expect(b->name, o, "element", e, o->g[e], expected[e]);
    }
    free(x);
    free(expected);
}

static void blocks_sum_in_the_order_they_promise(void** state) {
    (void)state;
    static const uint32_t widths[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13,
                                      15, 16, 17, 19, 24, 29, 31, 35, 46, 48, 49, 97};
    enum { N = sizeof widths / sizeof *widths };
    build builds[2];
    uint32_t nbuild = list_builds(builds);
    ns_rng rng = ns_rng_seed(12);
    for (uint32_t k = 0; k < N * N; k++) {
        for (uint32_t variant = 0; variant < 2 * NSI_LANE_FORMS; variant++) {
            uint32_t form = variant / 2;
            operands o = {.nin = widths[k % N],
                          .nout = widths[k / N],
                          .lanes = nsi_lane_counts[form],
                          .per_lane = variant % 2 == 1};
            size_t size = (size_t)o.nin * o.nout * (o.per_lane ? o.lanes : 1);
            o.x = numbers(&rng, (size_t)o.nin * o.lanes);
            o.z = numbers(&rng, (size_t)o.nout * o.lanes);
            o.w = numbers(&rng, size);
            o.y = numbers(&rng, (size_t)o.nout * o.lanes);
            o.g = numbers(&rng, size);
            double* y = numbers(&rng, (size_t)o.nin * o.lanes);
            for (uint32_t n = 0; n < nbuild; n++) {
                check_dense(&builds[n], form, &o);
                check_transpose(&builds[n], form, &o, y);
                check_outer(&builds[n], form, &o);
            }
            free(o.x);
            free(o.z);
            free(o.w);
            free(o.y);
            free(o.g);
            free(y);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_build_is_chosen),
        cmocka_unit_test(steps_do_what_the_table_says),
        cmocka_unit_test(blocks_sum_in_the_order_they_promise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
