// The default allocator, arenas and growing arrays. Every size is checked before it is computed:
// a request that does not fit into size_t fails like one for which there is no memory.

#include "base/common.h"

#include <stdlib.h>

// ---- allocator -----------------------------------------------------------------------------

static void* default_alloc(void* user, size_t size) {
    (void)user;
    return malloc(size);
}

static void* default_realloc(void* user, void* block, size_t size) {
    (void)user;
    return realloc(block, size);
}

static void default_free(void* user, void* block) {
    (void)user;
    free(block);
}

ns_allocator ns_default_allocator(void) {
    return (ns_allocator){default_alloc, default_realloc, default_free, NULL};
}

void* nsi_alloc(const ns_allocator* allocator, size_t size) {
    // Never ask for zero bytes: malloc may answer NULL, which would look like a failure.
    if (size == 0) size = 1;
    return allocator ? allocator->alloc(allocator->user, size) : malloc(size);
}

void* nsi_alloc_zeroed(const ns_allocator* allocator, size_t size) {
    void* block = nsi_alloc(allocator, size);
    if (block) memset(block, 0, size);
    return block;
}

void nsi_free(const ns_allocator* allocator, void* block) {
    if (allocator) {
        allocator->free(allocator->user, block);
    } else {
        free(block);
    }
}

// ---- arena ---------------------------------------------------------------------------------

#define ARENA_ALIGNMENT ((size_t)16)
#define ARENA_CHUNK_MIN ((size_t)4 << 10) // bytes
#define ARENA_CHUNK_MAX ((size_t)1 << 20) // bytes

// `used` and `size` of an arena count from the start of this header. The allocator may align less
// than we promise, so the first block of a chunk starts at the next aligned address.
struct nsi_arena_chunk {
    nsi_arena_chunk* next;
};

#define ARENA_OVERHEAD (sizeof(nsi_arena_chunk) + ARENA_ALIGNMENT - 1)

static size_t first_offset(const nsi_arena_chunk* chunk) {
    uintptr_t payload = (uintptr_t)(chunk + 1);
    size_t misaligned = (size_t)(payload % ARENA_ALIGNMENT);
    return sizeof *chunk + (misaligned ? ARENA_ALIGNMENT - misaligned : 0);
}

static size_t next_chunk_size(const nsi_arena* arena) {
    if (arena->size >= ARENA_CHUNK_MAX / 2) return ARENA_CHUNK_MAX;
    if (arena->size <= ARENA_CHUNK_MIN / 2) return ARENA_CHUNK_MIN;
    return arena->size * 2;
}

void* nsi_arena_alloc(nsi_arena* arena, size_t size) {
    // Round up to the alignment, without overflow.
    if (size > SIZE_MAX - ARENA_OVERHEAD - ARENA_ALIGNMENT) return NULL;
    size = (size + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    if (size == 0) size = ARENA_ALIGNMENT; // so that no two blocks share an address

    // Common case: the block fits into the newest chunk.
    if (arena->size - arena->used >= size) {
        void* block = (char*)arena->chunks + arena->used;
        arena->used += size;
        return block;
    }

    // A large block gets its own chunk, so that the room left in the newest is not lost.
    size_t chunk_size = next_chunk_size(arena);
    bool alone = size > chunk_size / 4;
    if (alone) chunk_size = size + ARENA_OVERHEAD;

    // Allocate the chunk; its header links it into the list.
    nsi_arena_chunk* chunk = nsi_alloc(&arena->allocator, chunk_size);
    if (!chunk) return NULL;
    size_t offset = first_offset(chunk);

    // A chunk of its own goes behind the newest, which stays open for small blocks.
    if (alone && arena->chunks) {
        chunk->next = arena->chunks->next;
        arena->chunks->next = chunk;
    } else {
        // Otherwise the new chunk becomes the newest.
        chunk->next = arena->chunks;
        arena->chunks = chunk;
        arena->used = offset + size;
        arena->size = chunk_size;
    }
    return (char*)chunk + offset;
}

char* nsi_arena_string(nsi_arena* arena, const char* text, size_t length) {
    if (length == SIZE_MAX) return NULL;
    char* copy = nsi_arena_alloc(arena, length + 1);
    if (!copy) return NULL;
    if (length > 0) memcpy(copy, text, length);
    copy[length] = '\0';
    return copy;
}

void nsi_arena_free(nsi_arena* arena) {
    nsi_arena_chunk* chunk = arena->chunks;
    while (chunk) {
        nsi_arena_chunk* next = chunk->next;
        nsi_free(&arena->allocator, chunk);
        chunk = next;
    }
    arena->chunks = NULL;
    arena->used = arena->size = 0;
}

// ---- array ---------------------------------------------------------------------------------

#define ARRAY_CAPACITY_MIN 8u

bool nsi_array_grow(const ns_allocator* allocator, void** data, uint32_t* capacity, uint32_t count,
                    uint32_t extra, size_t item_size) {
    NS_ASSERT(item_size > 0);
    if (extra > UINT32_MAX - count) return false;
    uint32_t needed = count + extra;
    if (needed <= *capacity) return true;

    // Double, unless that is too little or past what the types hold.
    uint32_t wanted = *capacity <= UINT32_MAX / 2 ? *capacity * 2 : UINT32_MAX;
    if (wanted < ARRAY_CAPACITY_MIN) wanted = ARRAY_CAPACITY_MIN;
    if (wanted < needed || wanted > SIZE_MAX / item_size) wanted = needed;
    if (wanted > SIZE_MAX / item_size) return false;

    // `data` points at a T*, not at a void*: copied bytewise, the access is no aliasing violation.
    void* block = NULL;
    memcpy(&block, data, sizeof block);
    size_t size = wanted * item_size;
    block = allocator ? allocator->realloc(allocator->user, block, size) : realloc(block, size);
    if (!block) return false;
    memcpy(data, &block, sizeof block);
    *capacity = wanted;
    return true;
}
