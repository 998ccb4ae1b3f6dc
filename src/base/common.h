// What all of src/ may use: errors, memory, arenas, arrays, hash index, text, random numbers,
// clocks.

#ifndef NSI_COMMON_H
#define NSI_COMMON_H

#include "neuralsim/base.h"
#include "neuralsim/random.h"
#include "neuralsim/words.h"

#include <stdbool.h>
#include <string.h>

#ifdef NDEBUG
#define NS_ASSERT(condition) ((void)0)
#else
#include <assert.h>
// Guards our own invariants in debug builds; user input gets a status instead.
#define NS_ASSERT(condition) assert(condition)
#endif

#if defined(__GNUC__) || defined(__clang__)
#define NSI_PRINTF(format_index, first_argument)                                                   \
    __attribute__((format(printf, format_index, first_argument)))
#else
#define NSI_PRINTF(format_index, first_argument)
#endif

// ---- status.c ------------------------------------------------------------------------------

// Write `status` and a formatted message into `error` (which may be NULL).
void nsi_set_error(ns_error* error, ns_status status, const char* format, ...) NSI_PRINTF(3, 4);

// The same as an expression with the value `status`, so that a failing function reads
// `return nsi_fail(error, NS_ERR_PARSE, "...", ...);` and whoever reads a caller sees that it is not NS_OK.
static inline ns_status nsi_same_status(ns_status status) {
    return status;
}
#define nsi_fail(error, status, ...)                                                               \
    (nsi_set_error((error), (status), __VA_ARGS__), nsi_same_status(status))

// The message for a failed allocation.
static inline ns_status nsi_fail_nomem(ns_error* error) {
    return nsi_fail(error, NS_ERR_NOMEM, "%s", ns_status_text(NS_ERR_NOMEM));
}

// ---- memory.c ------------------------------------------------------------------------------

// NULL for the allocator means the default one. Zero bytes are a block like any other: NULL always
// says that there is no memory.
void* nsi_alloc(const ns_allocator* allocator, size_t size);
void* nsi_alloc_zeroed(const ns_allocator* allocator, size_t size);
void nsi_free(const ns_allocator* allocator, void* block);

// An arena hands out memory that is freed all at once. Zero-initialise and set `allocator`.
typedef struct nsi_arena_chunk nsi_arena_chunk;
typedef struct nsi_arena {
    ns_allocator allocator;
    nsi_arena_chunk* chunks;
    size_t used, size; // of the newest chunk
} nsi_arena;

void* nsi_arena_alloc(nsi_arena* arena, size_t size); // 16-byte aligned; NULL when out of memory
char* nsi_arena_string(nsi_arena* arena, const char* text, size_t length); // NUL-terminated copy
void nsi_arena_free(nsi_arena* arena);

// A growing array: `struct { T* data; uint32_t count, capacity; }`. Zero is the empty array.
#define NSI_ARRAY(T)                                                                               \
    struct {                                                                                       \
        T* data;                                                                                   \
        uint32_t count, capacity;                                                                  \
    }

// Make room for `extra` more items; false when out of memory or past 2^32 - 1 items. Capacity at
// least doubles, so that pushing n items costs O(n).
bool nsi_array_grow(const ns_allocator* allocator, void** data, uint32_t* capacity, uint32_t count,
                    uint32_t extra, size_t item_size);

#define nsi_array_reserve(allocator, array, extra)                                                 \
    ((array)->capacity - (array)->count >= (extra) ||                                              \
     nsi_array_grow((allocator), (void**)&(array)->data, &(array)->capacity, (array)->count,       \
                    (extra), sizeof *(array)->data))

// True when pushed.
#define nsi_array_push(allocator, array, item)                                                     \
    (nsi_array_reserve((allocator), (array), 1) && ((array)->data[(array)->count++] = (item), true))

#define nsi_array_free(allocator, array)                                                           \
    (nsi_free((allocator), (array)->data), (array)->data = NULL, (array)->count = 0,               \
     (array)->capacity = 0)

// ---- index.c -------------------------------------------------------------------------------

// A hash index: open addressing over 32-bit item numbers; the items themselves, and what makes two
// of them equal, belong to the caller:
//
//     for (uint32_t at = nsi_index_first(&index, hash), id; nsi_index_at(&index, at, &id);
//          at = nsi_index_next(&index, at)) {
//         if (equal(items[id], wanted)) return id;
//     }
//     nsi_index_insert(allocator, &index, hash, new_id);
typedef struct nsi_index {
    uint32_t* ids;            // capacity entries; NSI_NONE is empty
    uint32_t* hashes;         // of the item in the same entry
    uint32_t count, capacity; // capacity is zero or a power of two
} nsi_index;

#define NSI_NONE UINT32_MAX

uint32_t nsi_hash_bytes(const void* bytes, size_t size);
bool nsi_index_insert(const ns_allocator* allocator, nsi_index* index, uint32_t hash, uint32_t id);
void nsi_index_free(const ns_allocator* allocator, nsi_index* index);

// Position of the first entry with this hash, or NSI_NONE.
uint32_t nsi_index_first(const nsi_index* index, uint32_t hash);

// Position of the next entry with the same hash as the one at `at`, or NSI_NONE.
uint32_t nsi_index_next(const nsi_index* index, uint32_t at);

static inline bool nsi_index_at(const nsi_index* index, uint32_t at, uint32_t* id) {
    if (at == NSI_NONE) return false;
    *id = index->ids[at];
    return true;
}

// ---- text.c --------------------------------------------------------------------------------

// A growing text. Zero-initialise and set `allocator`, add, finish; a failure on the way sticks and
// comes out at the end:
//
//     nsi_text_builder b = {.allocator = graph->allocator};
//     nsi_text_add(&b, "%u nodes\n", n);
//     return nsi_text_finish(&b, out, error);
typedef struct nsi_text_builder {
    ns_allocator allocator;
    NSI_ARRAY(char) text;
    bool failed;
} nsi_text_builder;

// Not for floating-point numbers: their decimal point would be that of the locale.
void nsi_text_add(nsi_text_builder* builder, const char* format, ...) NSI_PRINTF(2, 3);
void nsi_text_add_bytes(nsi_text_builder* builder, const char* bytes, size_t size);

// Hand the text over to `out` and leave the builder empty. When something failed, the text is freed
// and the result is NS_ERR_NOMEM.
ns_status nsi_text_finish(nsi_text_builder* builder, ns_text* out, ns_error* error);

// The shortest of 15, 16 or 17 digits that reads back to the same number; "inf", "-inf", "nan".
// The same in every locale.
void nsi_text_add_double(nsi_text_builder* builder, double value);

// Read what nsi_text_add_double() writes, or another decimal number; all `size` bytes must belong
// to it. The same in every locale. NS_OK; NS_ERR_PARSE: not a number; NS_ERR_LIMIT: too large for a
// double, or longer than NSI_MAX_NUMBER.
enum { NSI_MAX_NUMBER = 256 };
ns_status nsi_text_read_double(const char* text, size_t size, double* out);

// ---- clock.c -------------------------------------------------------------------------------

double nsi_clock_wall(void);       // seconds, monotonic
double nsi_clock_thread_cpu(void); // seconds of CPU time of the calling thread

#endif
