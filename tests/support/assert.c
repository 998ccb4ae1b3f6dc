#include "support/assert.h"

#include "support/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// cmocka prints what failed and where, then leaves the test.
#define FAIL_AT(file, line, ...)                                                                   \
    do {                                                                                           \
        print_error("ERROR: " __VA_ARGS__);                                                        \
        print_error("\n");                                                                         \
        _fail(file, line);                                                                         \
    } while (0)

void assert_ok(const char* file, int line, ns_status status, const ns_error* error) {
    if (status != NS_OK) FAIL_AT(file, line, "%s", error->message);
}

void assert_close_to(const char* file, int line, const char* what, double got, double want,
                     double tolerance) {
    double distance = fabs(got - want);
    if (distance <= tolerance) return;
    FAIL_AT(file, line, "%s is %.17g, not %.17g; they differ by %.3g", what, got, want, distance);
}

void assert_close_relative(const char* file, int line, double got, double want, double tolerance) {
    if (fabs(got - want) <= tolerance * fmax(1.0, fabs(want))) return;
    FAIL_AT(file, line, "%.17g is not %.17g", got, want);
}

void assert_all_close(const char* file, int line, const double* got, const double* want,
                      size_t count, double tolerance) {
    for (size_t i = 0; i < count; i++) {
        double distance = fabs(got[i] - want[i]);
        if (distance <= tolerance) continue;
        FAIL_AT(file, line, "[%zu]: %.17g, not %.17g; they differ by %.3g", i, got[i], want[i],
                distance);
    }
}

void assert_same_bits(const char* file, int line, const char* what, const double* got,
                      const double* want, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (check_same_bits(got[i], want[i])) continue;
        FAIL_AT(file, line, "%s: number %zu of %zu is %.17g, not %.17g", what, i, count, got[i],
                want[i]);
    }
}

void assert_text_says(const char* file, int line, const char* text, const char* part) {
    if (!strstr(text, part)) FAIL_AT(file, line, "'%s' is not in:\n%s", part, text);
}

bool all_finite(const double* x, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (!isfinite(x[i])) return false;
    }
    return true;
}

double max_abs(const double* x, size_t count) {
    double size = 0.0;
    for (size_t i = 0; i < count; i++) {
        if (!(fabs(x[i]) <= size)) size = fabs(x[i]);
    }
    return size;
}

double* doubles(size_t count) {
    double* block = calloc(count + 1, sizeof *block);
    assert_non_null(block);
    return block;
}

double* random_doubles(ns_rng* rng, size_t count, double size) {
    double* block = doubles(count);
    for (size_t i = 0; i < count; i++) block[i] = ns_rng_uniform(rng, -size, size);
    return block;
}
