// The default allocator, arenas and arrays, with allocations that fail and sizes that overflow.

#include "base/common.h"
#include "support/testalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

// ---- allocator -----------------------------------------------------------------------------

static void default_allocator_works(void** state) {
    (void)state;
    ns_allocator a = ns_default_allocator();
    unsigned char* block = a.alloc(a.user, 100);
    assert_non_null(block);
    for (int i = 0; i < 100; i++) block[i] = (unsigned char)i;
    block = a.realloc(a.user, block, 10000);
    assert_non_null(block);
    for (int i = 0; i < 100; i++) assert_int_equal(block[i], i);
    a.free(a.user, block);
    a.free(a.user, NULL);
    block = a.realloc(a.user, NULL, 5);
    assert_non_null(block);
    a.free(a.user, block);
}

static void null_allocator_is_the_default(void** state) {
    (void)state;
    void* block = nsi_alloc(NULL, 16);
    assert_non_null(block);
    nsi_free(NULL, block);
    nsi_free(NULL, NULL);

    NSI_ARRAY(int) array = {0};
    assert_true(nsi_array_push(NULL, &array, 3));
    assert_int_equal(array.data[0], 3);
    nsi_array_free(NULL, &array);
}

static void zero_bytes_are_a_block(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator a = test_allocator(&counter);
    void* x = nsi_alloc(&a, 0);
    void* y = nsi_alloc_zeroed(&a, 0);
    assert_non_null(x);
    assert_non_null(y);
    assert_ptr_not_equal(x, y);
    assert_int_equal(counter.live_blocks, 2);
    nsi_free(&a, x);
    nsi_free(&a, y);
    nsi_free(&a, NULL);
    assert_int_equal(counter.live_blocks, 0);
}

static void zeroed_memory_is_zero(void** state) {
    (void)state;
    test_alloc counter = {0}; // fills new memory with a pattern
    ns_allocator a = test_allocator(&counter);
    unsigned char* block = nsi_alloc_zeroed(&a, 1000);
    assert_non_null(block);
    for (int i = 0; i < 1000; i++) assert_int_equal(block[i], 0);
    nsi_free(&a, block);

    counter.fail_at = counter.calls + 1;
    assert_null(nsi_alloc_zeroed(&a, 1000));
}

static void test_allocator_counts_and_fails(void** state) {
    (void)state;
    test_alloc counter = {.fail_at = 2};
    ns_allocator a = test_allocator(&counter);
    char* x = a.alloc(a.user, 10);
    assert_non_null(x);
    memcpy(x, "unchanged", 10);
    assert_null(a.realloc(a.user, x, 20)); // call 2; the old block stays
    assert_string_equal(x, "unchanged");
    assert_int_equal(counter.live_blocks, 1);
    assert_int_equal(counter.live_bytes, 10);
    x = a.realloc(a.user, x, 20);
    assert_non_null(x);
    assert_string_equal(x, "unchanged");
    assert_int_equal(counter.live_bytes, 20);
    assert_int_equal(counter.calls, 3);
    assert_null(a.alloc(a.user, SIZE_MAX));
    a.free(a.user, x);
    a.free(a.user, NULL);
    assert_int_equal(counter.live_blocks, 0);
    assert_int_equal(counter.live_bytes, 0);
}

// ---- arena ---------------------------------------------------------------------------------

// An allocator that aligns to 8 bytes and never to 16, as one may.
static void* misaligned_alloc(void* user, size_t size) {
    (void)user;
    char* block = malloc(size + 8);
    // cppcheck-suppress memleak ; misaligned_free steps back
    return block ? block + 8 : NULL;
}

static void misaligned_free(void* user, void* block) {
    (void)user;
    if (block) free((char*)block - 8);
}

// Blocks of many sizes, each filled with its own byte: aligned, apart from each other and intact.
static void check_arena_blocks(ns_allocator allocator) {
    enum { NBLOCK = 3000 };
    static unsigned char* blocks[NBLOCK];
    static size_t sizes[NBLOCK];
    nsi_arena arena = {.allocator = allocator};
    ns_rng rng = ns_rng_seed(1);
    for (int i = 0; i < NBLOCK; i++) {
        sizes[i] = ns_rng_below(&rng, 100);
        if (i % 100 == 50) sizes[i] = ns_rng_below(&rng, 100000);
        blocks[i] = nsi_arena_alloc(&arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 16, 0);
        memset(blocks[i], i % 251, sizes[i]);
    }
    for (int i = 0; i < NBLOCK; i++) {
        if (i > 0) assert_ptr_not_equal(blocks[i], blocks[i - 1]);
        for (size_t k = 0; k < sizes[i]; k++) assert_true(blocks[i][k] == i % 251);
    }
    nsi_arena_free(&arena);
}

static void arena_blocks_are_apart(void** state) {
    (void)state;
    test_alloc counter = {0};
    check_arena_blocks(test_allocator(&counter));
    assert_int_equal(counter.live_blocks, 0);
    // Far fewer calls than blocks is the point of an arena.
    assert_in_range(counter.calls, 1, 200);

    ns_allocator misaligned = ns_default_allocator();
    misaligned.alloc = misaligned_alloc;
    misaligned.free = misaligned_free;
    check_arena_blocks(misaligned);
}

static void large_block_keeps_the_rest_of_the_chunk(void** state) {
    (void)state;
    test_alloc counter = {0};
    nsi_arena arena = {.allocator = test_allocator(&counter)};
    char* first = nsi_arena_alloc(&arena, 16);
    assert_non_null(nsi_arena_alloc(&arena, 1 << 20));
    char* second = nsi_arena_alloc(&arena, 16);
    assert_ptr_equal(second, first + 16);
    assert_int_equal(counter.live_blocks, 2);
    nsi_arena_free(&arena);
    assert_int_equal(counter.live_blocks, 0);

    // A large block first is no different.
    char* large = nsi_arena_alloc(&arena, 1 << 20);
    assert_non_null(large);
    memset(large, 1, 1 << 20);
    char* small = nsi_arena_alloc(&arena, 16);
    assert_non_null(small);
    assert_true(small + 16 <= large || small >= large + (1 << 20));
    nsi_arena_free(&arena);
    nsi_arena_free(&arena); // of an empty arena
    assert_int_equal(counter.live_blocks, 0);
}

static void arena_sizes_do_not_overflow(void** state) {
    (void)state;
    test_alloc counter = {0};
    nsi_arena arena = {.allocator = test_allocator(&counter)};
    for (int filled = 0; filled < 2; filled++) {
        for (size_t below = 0; below < 100; below++) {
            assert_null(nsi_arena_alloc(&arena, SIZE_MAX - below));
        }
        assert_null(nsi_arena_string(&arena, "x", SIZE_MAX));
        assert_null(nsi_arena_string(&arena, "x", SIZE_MAX - 1));
        assert_non_null(nsi_arena_alloc(&arena, 100));
    }
    nsi_arena_free(&arena);
    assert_int_equal(counter.live_blocks, 0);
}

static void arena_survives_a_failed_allocation(void** state) {
    (void)state;
    for (size_t n = 1; n <= 5; n++) {
        test_alloc counter = {.fail_at = n};
        nsi_arena arena = {.allocator = test_allocator(&counter)};
        int failures = 0;
        for (int i = 0; i < 2000; i++) {
            char* block = nsi_arena_alloc(&arena, 100);
            if (block) {
                memset(block, i, 100);
            } else {
                failures++;
            }
        }
        assert_int_equal(failures, 1);
        nsi_arena_free(&arena);
        assert_int_equal(counter.live_blocks, 0);
    }
}

static void arena_strings_are_copies(void** state) {
    (void)state;
    test_alloc counter = {0};
    nsi_arena arena = {.allocator = test_allocator(&counter)};
    char text[] = "link/upper/mass";
    char* whole = nsi_arena_string(&arena, text, strlen(text));
    char* part = nsi_arena_string(&arena, text, 4);
    char* none = nsi_arena_string(&arena, NULL, 0);
    memset(text, '?', sizeof text - 1);
    assert_string_equal(whole, "link/upper/mass");
    assert_string_equal(part, "link");
    assert_string_equal(none, "");

    // Exactly at the end of 16-byte units, where a forgotten NUL would hit the neighbour.
    char* sixteen = nsi_arena_string(&arena, "0123456789abcdef", 16);
    char* next = nsi_arena_string(&arena, "next", 4);
    assert_string_equal(sixteen, "0123456789abcdef");
    assert_string_equal(next, "next");
    nsi_arena_free(&arena);
    assert_int_equal(counter.live_blocks, 0);
}

// ---- array ---------------------------------------------------------------------------------

static void pushing_costs_few_allocations(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator a = test_allocator(&counter);
    NSI_ARRAY(uint64_t) array = {0};
    const uint32_t n = 100000;
    for (uint32_t i = 0; i < n; i++) {
        assert_true(nsi_array_push(&a, &array, (uint64_t)i * i));
        assert_true(array.count <= array.capacity);
    }
    assert_int_equal(array.count, n);
    for (uint32_t i = 0; i < n; i++) assert_true(array.data[i] == (uint64_t)i * i);
    // Doubling from 8 passes 100,000 after 14 steps.
    assert_in_range(counter.calls, 1, 15);

    nsi_array_free(&a, &array);
    assert_null(array.data);
    assert_int_equal(array.count, 0);
    assert_int_equal(array.capacity, 0);
    assert_int_equal(counter.live_blocks, 0);
}

static void reserve_makes_room(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator a = test_allocator(&counter);
    NSI_ARRAY(char) array = {0};
    const uint32_t nothing = 0;
    assert_true(nsi_array_reserve(&a, &array, nothing));
    assert_int_equal(counter.calls, 0);
    assert_true(nsi_array_reserve(&a, &array, 1000));
    assert_true(array.capacity >= 1000);
    assert_int_equal(array.count, 0);
    for (int i = 0; i < 1000; i++) assert_true(nsi_array_push(&a, &array, 'x'));
    assert_int_equal(counter.calls, 1);
    assert_true(nsi_array_reserve(&a, &array, 3));
    assert_true(array.capacity >= 1003);
    nsi_array_free(&a, &array);
    assert_int_equal(counter.live_blocks, 0);
}

static void failed_growth_changes_nothing(void** state) {
    (void)state;
    for (size_t n = 1; n <= 6; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator a = test_allocator(&counter);
        NSI_ARRAY(uint32_t) array = {0};
        int failures = 0;
        uint32_t pushed = 0;
        for (uint32_t i = 0; i < 200; i++) {
            if (nsi_array_push(&a, &array, i)) {
                pushed++;
            } else {
                failures++;
            }
            assert_int_equal(array.count, pushed);
        }
        assert_int_equal(failures, 1);
        uint32_t skipped = 0;
        for (uint32_t i = 0; i < array.count; i++) {
            if (array.data[i] != i + skipped) skipped++;
            assert_int_equal(array.data[i], i + skipped);
        }
        assert_int_equal(skipped, 1);
        nsi_array_free(&a, &array);
        assert_int_equal(counter.live_blocks, 0);
    }
}

static size_t asked; // by the last call of recording_realloc

static void* recording_realloc(void* user, void* block, size_t size) {
    (void)user;
    asked = size;
    return block;
}

static void array_sizes_do_not_overflow(void** state) {
    (void)state;
    // Grants everything without giving it, so that huge sizes can be tried.
    static char some[1];
    ns_allocator a = ns_default_allocator();
    a.realloc = recording_realloc;
    void* data = some;
    uint32_t capacity;

    // More than 2^32 - 1 items.
    asked = 0;
    capacity = UINT32_MAX;
    assert_false(nsi_array_grow(&a, &data, &capacity, UINT32_MAX, 1, 1));
    capacity = 10;
    assert_false(nsi_array_grow(&a, &data, &capacity, 10, UINT32_MAX, 1));
    assert_false(nsi_array_grow(&a, &data, &capacity, 10, UINT32_MAX - 9, 1));
    // More bytes than size_t counts.
    assert_false(nsi_array_grow(&a, &data, &capacity, 10, 1, SIZE_MAX / 10));
    assert_false(nsi_array_grow(&a, &data, &capacity, 10, 6, SIZE_MAX / 16 + 1));
    assert_int_equal(capacity, 10);
    assert_int_equal(asked, 0);

    // Doubling would overflow the bytes, what is needed does not.
    assert_true(nsi_array_grow(&a, &data, &capacity, 10, 1, SIZE_MAX / 11));
    assert_int_equal(capacity, 11);
    assert_true(asked == SIZE_MAX / 11 * 11);

    // Doubling would overflow the count.
    capacity = UINT32_C(0x90000000);
    assert_true(nsi_array_grow(&a, &data, &capacity, capacity, 1, 1));
    assert_int_equal(capacity, UINT32_MAX);
    assert_true(asked == UINT32_MAX);

    // Up to the last item.
    capacity = UINT32_MAX - 1;
    assert_true(nsi_array_grow(&a, &data, &capacity, UINT32_MAX - 1, 1, 1));
    assert_int_equal(capacity, UINT32_MAX);

    // Enough room already: nothing is asked for.
    asked = 0;
    assert_true(nsi_array_grow(&a, &data, &capacity, 5, 5, 1));
    assert_int_equal(asked, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_allocator_works),
        cmocka_unit_test(null_allocator_is_the_default),
        cmocka_unit_test(zero_bytes_are_a_block),
        cmocka_unit_test(zeroed_memory_is_zero),
        cmocka_unit_test(test_allocator_counts_and_fails),
        cmocka_unit_test(arena_blocks_are_apart),
        cmocka_unit_test(large_block_keeps_the_rest_of_the_chunk),
        cmocka_unit_test(arena_sizes_do_not_overflow),
        cmocka_unit_test(arena_survives_a_failed_allocation),
        cmocka_unit_test(arena_strings_are_copies),
        cmocka_unit_test(pushing_costs_few_allocations),
        cmocka_unit_test(reserve_makes_room),
        cmocka_unit_test(failed_growth_changes_nothing),
        cmocka_unit_test(array_sizes_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
