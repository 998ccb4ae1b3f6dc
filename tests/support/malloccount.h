// Counts every call of malloc, calloc and realloc in the program that includes it, in one file of it:
// glibc lets a program replace them; sanitizers have already done so. COUNTS_MALLOC: it does count.

#ifndef TEST_MALLOCCOUNT_H
#define TEST_MALLOCCOUNT_H

#include "support/sanitized.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_ulong malloc_calls; // stays 0 where malloc cannot be replaced

#if defined(__GLIBC__) && !defined(SANITIZED)
#define COUNTS_MALLOC 1
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);

void* malloc(size_t size) {
    malloc_calls++;
    return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
    malloc_calls++;
    return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
    malloc_calls++;
    return __libc_realloc(block, size);
}
#endif

#endif
