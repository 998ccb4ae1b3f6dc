// An allocator for tests: counts what is asked of it and can refuse one request.
//
//     test_alloc counter = {0};
//     ns_allocator allocator = test_allocator(&counter);
//     ... use &allocator ...
//     assert_int_equal(counter.live_blocks, 0);
//
// To try a function against every failure: for n = 1, 2, ... set `.fail_at = n` and run it until a
// run ends with `calls < n`.
//
// New memory is filled with a pattern, freed memory is overwritten, and realloc always moves, so
// that reading what was never written, or through an old pointer, gives wrong numbers at once.
// Not for use from several threads at a time.

#ifndef TEST_ALLOC_H
#define TEST_ALLOC_H

#include "neuralsim/base.h"

typedef struct test_alloc {
    size_t live_blocks; // allocated and not yet freed
    size_t live_bytes;  // in those blocks
    size_t calls;       // of alloc and realloc, whether they succeeded or not
    size_t fail_at;     // number, from 1, of the call that fails; 0 = never
} test_alloc;

// `t` must outlive every block.
ns_allocator test_allocator(test_alloc* t);

#endif
