// The hash and the hash index, compared to a search through a plain array.

#include "base/common.h"
#include "support/testalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

// ---- hash ----------------------------------------------------------------------------------

// Computed with an independent Python version of the formula (tests/base/hash_reference.py).
static void hash_has_the_reference_values(void** state) {
    (void)state;
    const unsigned char probe[] = {1};
    const uint16_t one = 1;
    if (memcmp(&one, probe, 1) != 0) skip(); // big-endian machines hash differently

    static const struct {
        const char* text;
        uint32_t hash;
    } cases[] = {
        {"", 0x1AB11EA5u},
        {"a", 0x6F6754D9u},
        {"abc", 0x969E2C8Cu},
        {"link/arm", 0xC729D3F4u},
        {"link/upper/mass", 0x1A9093B3u},
        {"joint/elbow/damping", 0x4BF33C4Fu},
        {"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", 0xD6BBB1BCu},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(nsi_hash_bytes(cases[i].text, strlen(cases[i].text)), cases[i].hash);
    }
}

static void hash_does_not_depend_on_the_address(void** state) {
    (void)state;
    char buffer[64];
    const char text[] = "joint/elbow/damping and more";
    uint32_t expected = nsi_hash_bytes(text, sizeof text);
    for (size_t shift = 0; shift < 16; shift++) {
        memset(buffer, (int)shift, sizeof buffer); // what lies around does not count either
        memcpy(buffer + shift, text, sizeof text);
        assert_int_equal(nsi_hash_bytes(buffer + shift, sizeof text), expected);
    }
    assert_int_equal(nsi_hash_bytes(NULL, 0), nsi_hash_bytes(text, 0));
}

static void zeros_of_different_length_differ(void** state) {
    (void)state;
    static const char zeros[256];
    uint32_t seen[257];
    for (size_t size = 0; size <= 256; size++) {
        seen[size] = nsi_hash_bytes(zeros, size);
        for (size_t i = 0; i < size; i++) assert_int_not_equal(seen[i], seen[size]);
    }
}

// Each input bit should flip each of the 32 hash bits in half of all cases.
static void every_bit_reaches_every_bit(void** state) {
    (void)state;
    static const size_t sizes[] = {1, 4, 8, 12, 24};
    enum { NTRY = 2000 };
    ns_rng rng = ns_rng_seed(7);
    double worst = 0.0;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        for (size_t bit = 0; bit < 8 * sizes[k]; bit++) {
            int flips[32] = {0};
            for (int i = 0; i < NTRY; i++) {
                unsigned char key[24];
                for (size_t b = 0; b < sizeof key; b++) key[b] = (unsigned char)ns_rng_next(&rng);
                uint32_t change = nsi_hash_bytes(key, sizes[k]);
                key[bit / 8] = (unsigned char)(key[bit / 8] ^ (1u << bit % 8));
                change ^= nsi_hash_bytes(key, sizes[k]);
                for (int b = 0; b < 32; b++) flips[b] += (int)((change >> b) & 1);
            }
            for (int b = 0; b < 32; b++) {
                double bias = (double)flips[b] / NTRY - 0.5;
                if (bias < 0) bias = -bias;
                if (bias > worst) worst = bias;
            }
        }
    }
    // One byte has only 256 keys, so its share is known to 0.5 / sqrt(128) = 0.044 at best; five
    // of these standard deviations.
    print_message("largest bias of a bit flip: %.3f\n", worst);
    assert_true(worst < 0.22);
}

// Small records with small numbers, like graph nodes: collisions no more frequent than by chance.
static void small_numbers_rarely_collide(void** state) {
    (void)state;
    enum { NSIDE = 300, NKEY = NSIDE * NSIDE, NBUCKET = 1 << 16 };
    static uint32_t buckets[2][NBUCKET];
    for (uint32_t a = 0; a < NSIDE; a++) {
        for (uint32_t b = 0; b < NSIDE; b++) {
            uint32_t node[4] = {3, a, b, 0};
            uint32_t hash = nsi_hash_bytes(node, sizeof node);
            buckets[0][hash & 0xFFFF]++;
            buckets[1][hash >> 16]++;
        }
    }
    // Chi-square has NBUCKET - 1 degrees of freedom: mean 65,535, standard deviation 362.
    for (int half = 0; half < 2; half++) {
        double expected = (double)NKEY / NBUCKET, chi2 = 0.0;
        for (int i = 0; i < NBUCKET; i++) {
            double d = (double)buckets[half][i] - expected;
            chi2 += d * d / expected;
        }
        print_message("chi-square of the %s half: %.0f\n", half ? "upper" : "lower", chi2);
        assert_true(chi2 > 65535 - 5 * 362 && chi2 < 65535 + 5 * 362);
    }
}

// ---- index ---------------------------------------------------------------------------------

static void empty_index_finds_nothing(void** state) {
    (void)state;
    nsi_index index = {0};
    assert_int_equal(nsi_index_first(&index, 0), NSI_NONE);
    assert_int_equal(nsi_index_first(&index, 12345), NSI_NONE);
    uint32_t id = 17;
    assert_false(nsi_index_at(&index, NSI_NONE, &id));
    assert_int_equal(id, 17);
    nsi_index_free(NULL, &index);
}

// Checks that the entries found for `hash` are exactly the ids i < n with hashes[i] == hash.
static void check_hash(const nsi_index* index, const uint32_t* hashes, uint32_t n, uint32_t hash) {
    static unsigned char found[1 << 16];
    memset(found, 0, sizeof found);
    uint32_t nfound = 0, nexpected = 0, id;
    for (uint32_t at = nsi_index_first(index, hash); nsi_index_at(index, at, &id);
         at = nsi_index_next(index, at)) {
        assert_true(id < n);
        assert_int_equal(hashes[id], hash);
        assert_false(found[id]);
        found[id] = 1;
        assert_true(++nfound <= n);
    }
    for (uint32_t i = 0; i < n; i++) nexpected += hashes[i] == hash;
    assert_int_equal(nfound, nexpected);
}

// Insert n hashes made by `make` and compare with the array, along the way and at the end.
static void compare_with_array(uint32_t n, uint32_t (*make)(ns_rng* rng, uint32_t i),
                               uint32_t check_every) {
    static uint32_t hashes[1 << 16];
    assert_true(n <= 1 << 16);
    test_alloc counter = {0};
    ns_allocator a = test_allocator(&counter);
    ns_rng rng = ns_rng_seed(42);
    nsi_index index = {0};
    for (uint32_t i = 0; i < n; i++) {
        hashes[i] = make(&rng, i);
        assert_true(nsi_index_insert(&a, &index, hashes[i], i));
        assert_int_equal(index.count, i + 1);
        assert_true(2 * index.count <= index.capacity);
        assert_int_equal(index.capacity & (index.capacity - 1), 0);
        if (i % check_every == 0) {
            check_hash(&index, hashes, i + 1, hashes[i]);
            check_hash(&index, hashes, i + 1, hashes[ns_rng_below(&rng, i + 1)]);
            check_hash(&index, hashes, i + 1, (uint32_t)ns_rng_next(&rng));
        }
    }
    for (uint32_t i = 0; i < n; i += check_every) check_hash(&index, hashes, n, hashes[i]);
    // It doubles from 16: few allocations.
    assert_in_range(counter.calls, 1, 14);

    nsi_index_free(&a, &index);
    assert_int_equal(index.capacity, 0);
    assert_int_equal(counter.live_blocks, 0);
}

static uint32_t random_hash(ns_rng* rng, uint32_t i) {
    (void)i;
    return (uint32_t)ns_rng_next(rng);
}

static uint32_t few_hashes(ns_rng* rng, uint32_t i) {
    (void)i;
    return ns_rng_below(rng, 1000) * 0x10001u;
}

static uint32_t counting_hash(ns_rng* rng, uint32_t i) {
    (void)rng;
    return i;
}

static uint32_t high_bits_hash(ns_rng* rng, uint32_t i) {
    (void)rng;
    return i << 18; // the low bits never differ
}

static uint32_t one_hash(ns_rng* rng, uint32_t i) {
    (void)rng, (void)i;
    return 0xDEADBEEFu;
}

// The end of the table: probing must wrap around to its start.
static uint32_t last_home_hash(ns_rng* rng, uint32_t i) {
    (void)rng;
    // 0x0E8B2F51 is the inverse of the multiplier 0x9E3779B1 modulo 2^32, so these start in the
    // very last entries whatever the capacity.
    return (UINT32_MAX - i) * 0x0E8B2F51u;
}

static void index_agrees_with_an_array(void** state) {
    (void)state;
    compare_with_array(40000, random_hash, 97);
    compare_with_array(20000, few_hashes, 97);
    compare_with_array(40000, counting_hash, 97);
    compare_with_array(1 << 14, high_bits_hash, 97);
    compare_with_array(1500, one_hash, 50);
    compare_with_array(1500, last_home_hash, 7);
}

// Sequential hashes and hashes without low bits must not pile up: count the probes of a lookup.
static void probes_stay_short(void** state) {
    (void)state;
    uint32_t (*makers[])(ns_rng*, uint32_t) = {random_hash, counting_hash, high_bits_hash};
    for (int m = 0; m < 3; m++) {
        nsi_index index = {0};
        ns_rng rng = ns_rng_seed(3);
        const uint32_t n = 8000; // capacity 16,384: close to half full
        for (uint32_t i = 0; i < n; i++) {
            assert_true(nsi_index_insert(NULL, &index, makers[m](&rng, i), i));
        }
        // Longest run of occupied entries bounds every search.
        uint32_t run = 0, longest = 0;
        for (uint32_t at = 0; at < index.capacity; at++) {
            run = index.ids[at] == NSI_NONE ? 0 : run + 1;
            if (run > longest) longest = run;
        }
        print_message("longest run: %u\n", longest);
        assert_true(longest < 100);
        nsi_index_free(NULL, &index);
    }
}

static void failed_growth_changes_nothing(void** state) {
    (void)state;
    static uint32_t hashes[300];
    for (size_t n = 1; n <= 5; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator a = test_allocator(&counter);
        ns_rng rng = ns_rng_seed(5);
        nsi_index index = {0};
        int failures = 0;
        for (uint32_t i = 0; i < 300; i++) {
            hashes[i] = ns_rng_below(&rng, 100);
            if (!nsi_index_insert(&a, &index, hashes[i], i)) {
                failures++;
                check_hash(&index, hashes, i, hashes[i]); // as before
                assert_true(nsi_index_insert(&a, &index, hashes[i], i));
            }
            check_hash(&index, hashes, i + 1, hashes[i]);
        }
        assert_int_equal(failures, 1);
        nsi_index_free(&a, &index);
        assert_int_equal(counter.live_blocks, 0);
    }
}

static void index_does_not_outgrow_its_numbers(void** state) {
    (void)state;
    // As if 2^30 items were in it; there is no larger table.
    test_alloc counter = {0};
    ns_allocator a = test_allocator(&counter);
    nsi_index index = {.count = (uint32_t)1 << 30, .capacity = (uint32_t)1 << 31};
    assert_false(nsi_index_insert(&a, &index, 1, 1));
    assert_int_equal(index.count, (uint32_t)1 << 30);
    assert_int_equal(counter.calls, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hash_has_the_reference_values),
        cmocka_unit_test(hash_does_not_depend_on_the_address),
        cmocka_unit_test(zeros_of_different_length_differ),
        cmocka_unit_test(every_bit_reaches_every_bit),
        cmocka_unit_test(small_numbers_rarely_collide),
        cmocka_unit_test(empty_index_finds_nothing),
        cmocka_unit_test(index_agrees_with_an_array),
        cmocka_unit_test(probes_stay_short),
        cmocka_unit_test(failed_growth_changes_nothing),
        cmocka_unit_test(index_does_not_outgrow_its_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
