// The hash index: open addressing with linear probing, at most half full, no removal.

#include "base/common.h"

#define INDEX_CAPACITY_MIN 16u
#define INDEX_CAPACITY_MAX ((uint32_t)1 << 31)

// ---- hash ----------------------------------------------------------------------------------

// The multiplier and shift of MurmurHash64A (Austin Appleby, public domain), whose scheme this is:
// each 8-byte word is mixed by multiply-xorshift-multiply and folded into the state.
#define HASH_MULTIPLIER UINT64_C(0xC6A4A7935BD1E995)
#define HASH_SHIFT 47

static uint64_t hash_word(uint64_t state, uint64_t word) {
    word *= HASH_MULTIPLIER;
    word ^= word >> HASH_SHIFT;
    word *= HASH_MULTIPLIER;
    return (state ^ word) * HASH_MULTIPLIER;
}

uint32_t nsi_hash_bytes(const void* bytes, size_t size) {
    const unsigned char* at = bytes;
    // The size is part of the state, so the zero padding of the last word is not ambiguous.
    uint64_t state = ((uint64_t)size + 1) * HASH_MULTIPLIER;
    uint64_t word;
    for (; size >= sizeof word; size -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        state = hash_word(state, word);
    }
    if (size > 0) {
        word = 0;
        memcpy(&word, at, size);
        state = hash_word(state, word);
    }

    state ^= state >> HASH_SHIFT;
    state *= HASH_MULTIPLIER;
    return (uint32_t)(state >> 32);
}

// ---- index ---------------------------------------------------------------------------------

// Where the search for a hash starts: the top bits of its product with 2^32 / golden ratio (Knuth,
// TAOCP 6.4), so that hashes that differ only in high bits, or count up, spread as well.
static uint32_t home(const nsi_index* index, uint32_t hash) {
    uint32_t spread = hash * 0x9E3779B1u;
    return (uint32_t)(((uint64_t)spread * index->capacity) >> 32);
}

// The first empty entry for `hash`; there is one, because the index is never full.
static void put_slot(nsi_index* index, uint32_t hash, uint32_t id) {
    uint32_t at = home(index, hash);
    while (index->ids[at] != NSI_NONE) at = (at + 1) & (index->capacity - 1);
    index->ids[at] = id;
    index->hashes[at] = hash;
}

static bool grow(const ns_allocator* allocator, nsi_index* index) {
    if (index->capacity >= INDEX_CAPACITY_MAX) return false;
    nsi_index larger = {.count = index->count};
    larger.capacity = index->capacity ? index->capacity * 2 : INDEX_CAPACITY_MIN;

    // One block holds both arrays.
    size_t half = larger.capacity;
    if (half > SIZE_MAX / (2 * sizeof(uint32_t))) return false;
    half *= sizeof(uint32_t);
    larger.ids = nsi_alloc(allocator, 2 * half);
    if (!larger.ids) return false;
    larger.hashes = larger.ids + larger.capacity;
    memset(larger.ids, 0xFF, half); // NSI_NONE everywhere

    for (uint32_t at = 0; at < index->capacity; at++) {
        if (index->ids[at] != NSI_NONE) put_slot(&larger, index->hashes[at], index->ids[at]);
    }
    nsi_free(allocator, index->ids);
    *index = larger;
    return true;
}

bool nsi_index_insert(const ns_allocator* allocator, nsi_index* index, uint32_t hash, uint32_t id) {
    NS_ASSERT(id != NSI_NONE);
    if (index->count >= index->capacity / 2 && !grow(allocator, index)) return false;
    put_slot(index, hash, id);
    index->count++;
    return true;
}

void nsi_index_free(const ns_allocator* allocator, nsi_index* index) {
    nsi_free(allocator, index->ids);
    *index = (nsi_index){0};
}

// The first entry with `hash` at `at` or after it, before the next empty one.
static uint32_t find_hash(const nsi_index* index, uint32_t hash, uint32_t at) {
    while (index->ids[at] != NSI_NONE) {
        if (index->hashes[at] == hash) return at;
        at = (at + 1) & (index->capacity - 1);
    }
    return NSI_NONE;
}

uint32_t nsi_index_first(const nsi_index* index, uint32_t hash) {
    if (index->capacity == 0) return NSI_NONE;
    return find_hash(index, hash, home(index, hash));
}

uint32_t nsi_index_next(const nsi_index* index, uint32_t at) {
    NS_ASSERT(at < index->capacity);
    return find_hash(index, index->hashes[at], (at + 1) & (index->capacity - 1));
}
