// Assertions and blocks of numbers for all tests; includes cmocka with the headers that it needs.

#ifndef TEST_ASSERT_H
#define TEST_ASSERT_H

#include "base/common.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

// Each names the place of its call when it fails; TEST_AT is that place.
#define TEST_AT __FILE__, __LINE__

// must(status, error): the call succeeds; else the test fails with the message of the error.
//     must(ns_rollout(system, work, &args, &error), &error);
#define must(...) assert_ok(TEST_AT, __VA_ARGS__)
void assert_ok(const char* file, int line, ns_status status, const ns_error* error);

// close_to(what, got, want, tolerance): |got - want| <= tolerance. NaN is close to nothing.
#define close_to(...) assert_close_to(TEST_AT, __VA_ARGS__)
void assert_close_to(const char* file, int line, const char* what, double got, double want,
                     double tolerance);

// close_relative(got, want, tolerance): |got - want| <= tolerance * max(1, |want|).
#define close_relative(...) assert_close_relative(TEST_AT, __VA_ARGS__)
void assert_close_relative(const char* file, int line, double got, double want, double tolerance);

// all_close(got, want, count, tolerance): |got[i] - want[i]| <= tolerance for all i.
#define all_close(...) assert_all_close(TEST_AT, __VA_ARGS__)
void assert_all_close(const char* file, int line, const double* got, const double* want,
                      size_t count, double tolerance);

// same_bits(what, got, want, count): the same doubles; NaN equals NaN, 0 differs from -0.
#define same_bits(...) assert_same_bits(TEST_AT, __VA_ARGS__)
void assert_same_bits(const char* file, int line, const char* what, const double* got,
                      const double* want, size_t count);

// assert_says(text, part): `part` occurs in `text`; both NUL-terminated.
#define assert_says(...) assert_text_says(TEST_AT, __VA_ARGS__)
void assert_text_says(const char* file, int line, const char* text, const char* part);

bool all_finite(const double* x, size_t count);
double max_abs(const double* x, size_t count); // 0 for none; NaN when one is NaN

// A block of zeros, or of numbers between -size and size; to be freed. Fails the test without memory.
double* doubles(size_t count);
double* random_doubles(ns_rng* rng, size_t count, double size);

#endif
