// What the app needs besides the library: memory, errors, clocks, rotations.

#ifndef QUADRUPED_SUPPORT_H
#define QUADRUPED_SUPPORT_H

#include "neuralsim/base.h"

#include <stdbool.h>
#include <string.h>

#define QUAD_NONE UINT32_MAX

// NULL for the allocator means the default one; NULL from these means out of memory.
void* quad_alloc(const ns_allocator* allocator, size_t size);
void* quad_alloc_zeroed(const ns_allocator* allocator, size_t size);
void quad_free(const ns_allocator* allocator, void* block);

// Write `status` and a formatted message into `error` (which may be NULL).
#if defined(__GNUC__) || defined(__clang__)
__attribute__((format(printf, 3, 4)))
#endif
void quad_set_error(ns_error* error, ns_status status, const char* format, ...);

// The same as an expression with the value `status`: callers, and static analysis, see that it is
// not NS_OK.
static inline ns_status quad_same_status(ns_status status) {
    return status;
}
#define quad_fail(error, status, ...)                                                              \
    (quad_set_error((error), (status), __VA_ARGS__), quad_same_status(status))

static inline ns_status quad_fail_nomem(ns_error* error) {
    return quad_fail(error, NS_ERR_NOMEM, "%s", ns_status_text(NS_ERR_NOMEM));
}

// Write a text to a file.
ns_status quad_write_file(const char* path, const ns_text* text, ns_error* error);

double quad_clock_wall(void);       // s, monotonic
double quad_clock_thread_cpu(void); // s of CPU time of the calling thread

// Can this machine run the kernels compiled for AVX2 and FMA?
bool quad_cpu_has_avx2_fma(void);

// Make a quaternion unit length; false, and nothing changed, when it is too short or not finite.
bool quad_normalize(double quaternion[4]);
void quad_cross(const double a[3], const double b[3], double out[3]);
// Row-major; its columns are the axes of the body. Quaternions are w x y z and of unit length.
void quad_to_matrix(const double quaternion[4], double r[9]);

#endif
