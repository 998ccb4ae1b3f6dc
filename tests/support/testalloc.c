#include "support/testalloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Stands before each block; as large as the strictest alignment, so the block stays aligned.
typedef union header {
    size_t size;
    max_align_t align;
} header;

#define PATTERN_NEW 0xA5
#define PATTERN_FREED 0xDD

static void* take(test_alloc* t, size_t size) {
    // More than any object may have. Sanitizers end the program when malloc is asked for this.
    if (size > PTRDIFF_MAX - sizeof(header)) return NULL;
    header* h = malloc(sizeof *h + size);
    if (!h) return NULL;
    h->size = size;
    memset(h + 1, PATTERN_NEW, size);
    t->live_blocks++;
    t->live_bytes += size;
    return h + 1;
}

static void give_back(test_alloc* t, void* block) {
    header* h = (header*)block - 1;
    t->live_blocks--;
    t->live_bytes -= h->size;
    memset(h, PATTERN_FREED, sizeof *h + h->size);
    free(h);
}

static void* counting_alloc(void* user, size_t size) {
    test_alloc* t = user;
    if (++t->calls == t->fail_at) return NULL;
    return take(t, size);
}

static void* counting_realloc(void* user, void* block, size_t size) {
    test_alloc* t = user;
    if (++t->calls == t->fail_at) return NULL;
    void* moved = take(t, size);
    if (moved && block) {
        size_t old_size = ((header*)block - 1)->size;
        memcpy(moved, block, old_size < size ? old_size : size);
        give_back(t, block);
    }
    return moved;
}

static void counting_free(void* user, void* block) {
    if (block) give_back(user, block);
}

ns_allocator test_allocator(test_alloc* t) {
    return (ns_allocator){counting_alloc, counting_realloc, counting_free, t};
}
