// Memory, errors, clocks and rotations of the app.

#define _POSIX_C_SOURCE 200809L // clock_gettime

#include "quadruped/support.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

// ---- memory and errors ---------------------------------------------------------------------

void* quad_alloc(const ns_allocator* allocator, size_t size) {
    ns_allocator a = allocator ? *allocator : ns_default_allocator();
    return a.alloc(a.user, size > 0 ? size : 1);
}

void* quad_alloc_zeroed(const ns_allocator* allocator, size_t size) {
    void* block = quad_alloc(allocator, size);
    if (block) memset(block, 0, size);
    return block;
}

void quad_free(const ns_allocator* allocator, void* block) {
    ns_allocator a = allocator ? *allocator : ns_default_allocator();
    a.free(a.user, block);
}

void quad_set_error(ns_error* error, ns_status status, const char* format, ...) {
    if (!error) return;
    error->status = status;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->message, sizeof error->message, format, arguments);
    va_end(arguments);
}

ns_status quad_write_file(const char* path, const ns_text* text, ns_error* error) {
    FILE* file = fopen(path, "wb");
    if (!file) return quad_fail(error, NS_ERR_IO, "%s: %s", path, strerror(errno));
    bool written = fwrite(text->data, 1, text->size, file) == text->size;
    if (fclose(file) != 0 || !written) {
        return quad_fail(error, NS_ERR_IO, "%s: cannot write it: %s", path, strerror(errno));
    }
    return NS_OK;
}

// ---- the machine ---------------------------------------------------------------------------

static double support_clock(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0) return 0.0;
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double quad_clock_wall(void) {
    return support_clock(CLOCK_MONOTONIC);
}

double quad_clock_thread_cpu(void) {
    return support_clock(CLOCK_THREAD_CPUTIME_ID);
}

bool quad_cpu_has_avx2_fma(void) {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
    return false;
#endif
}

// ---- rotations -----------------------------------------------------------------------------

bool quad_normalize(double quaternion[4]) {
    // Scaled by the largest component, so that neither huge nor tiny numbers spoil the square.
    double largest = 0.0;
    for (int i = 0; i < 4; i++) {
        if (!isfinite(quaternion[i])) return false;
        largest = fmax(largest, fabs(quaternion[i]));
    }
    if (largest < 1e-100) return false;
    double square = 0.0;
    for (int i = 0; i < 4; i++) {
        square += (quaternion[i] / largest) * (quaternion[i] / largest);
    }
    double length = largest * sqrt(square);
    if (!isfinite(length)) return false;

    // A quaternion that is unit length to rounding keeps its bits.
    if (fabs(length - 1.0) <= 4e-16) return true;
    for (int i = 0; i < 4; i++) quaternion[i] /= length;
    return true;
}

void quad_cross(const double a[3], const double b[3], double out[3]) {
    const double x = a[1] * b[2] - a[2] * b[1];
    const double y = a[2] * b[0] - a[0] * b[2];
    const double z = a[0] * b[1] - a[1] * b[0];
    out[0] = x, out[1] = y, out[2] = z;
}

void quad_to_matrix(const double quaternion[4], double r[9]) {
    const double w = quaternion[0], x = quaternion[1], y = quaternion[2], z = quaternion[3];
    r[0] = 1.0 - 2.0 * (y * y + z * z);
    r[1] = 2.0 * (x * y - w * z);
    r[2] = 2.0 * (x * z + w * y);
    r[3] = 2.0 * (x * y + w * z);
    r[4] = 1.0 - 2.0 * (x * x + z * z);
    r[5] = 2.0 * (y * z - w * x);
    r[6] = 2.0 * (x * z - w * y);
    r[7] = 2.0 * (y * z + w * x);
    r[8] = 1.0 - 2.0 * (x * x + y * y);
}
