// Normal equations of candidate terms, made by hand.

#include "discover/discover_state.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

enum { MANY = 150, NFOLD = 3 };

// Independent terms, each with a share of its own in each fold; the best step of term k is k + 1.
static nsi_gram diagonal(const ns_allocator* allocator) {
    nsi_gram gram;
    ns_error error = {0};
    must(nsi_gram_make(allocator, MANY, NFOLD, &gram, &error), &error);
    for (uint32_t f = 0; f < NFOLD; f++) {
        for (uint32_t k = 0; k < MANY; k++) {
            double g = 1.0 + f, x = k + 1.0;
            gram.G[f][(size_t)k * MANY + k] = g;
            gram.h[f][k] = g * x;
            gram.squares[f] += g * x * x;
            gram.G[NSI_FOLDS][(size_t)k * MANY + k] += g;
            gram.h[NSI_FOLDS][k] += g * x;
        }
        gram.squares[NSI_FOLDS] += gram.squares[f];
    }
    return gram;
}

// All terms at a time explain everything, however many they are.
static void no_term_is_cut_off(void** state) {
    (void)state;
    ns_allocator allocator = ns_default_allocator();
    nsi_gram gram = diagonal(&allocator);
    uint32_t all[MANY];
    double variances[MANY], first = gram.squares[NSI_FOLDS];
    for (uint32_t k = 0; k < MANY; k++) all[k] = k;
    assert_true(fabs(nsi_gram_explain(&gram, all, MANY, 0.0)) < 1e-12 * first);
    assert_true(fabs(nsi_gram_held_out(&gram, all, MANY, 0.0)) < 1e-12 * first);
    // Without the last term, its own squares are left: 6 = 1 + 2 + 3 of the folds.
    double left = nsi_gram_explain(&gram, all, MANY - 1, 0.0);
    assert_true(fabs(left - 6.0 * MANY * MANY) < 1e-9 * left);
    nsi_gram_variances(&gram, all, MANY, variances);
    for (uint32_t k = 0; k < MANY; k++) assert_true(fabs(variances[k] - 1.0 / 6.0) < 1e-15);
    assert_true(fabs(nsi_gram_own_share(&gram, all, MANY - 1, MANY - 1) - 1.0) < 1e-12);
    nsi_gram_free(&gram);
}

// A copy of a term has nothing of its own, does not move and has no variance.
static void copies_are_dropped(void** state) {
    (void)state;
    ns_allocator allocator = ns_default_allocator();
    nsi_gram gram = diagonal(&allocator);
    for (uint32_t f = 0; f <= NSI_FOLDS; f++) {
        if (!gram.G[f]) continue;
        for (uint32_t k = 0; k < 2; k++) {
            for (uint32_t i = 0; i < 2; i++) gram.G[f][(size_t)k * MANY + i] = gram.G[f][0];
            gram.h[f][k] = gram.h[f][0];
        }
    }
    const uint32_t both[] = {0, 1};
    double variances[2], one = nsi_gram_explain(&gram, both, 1, 0.0);
    assert_true(nsi_gram_own_share(&gram, both, 1, 1) < 1e-9);
    assert_true(fabs(nsi_gram_explain(&gram, both, 2, 0.0) - one) < 1e-9 * one);
    nsi_gram_variances(&gram, both, 2, variances);
    assert_true(isfinite(variances[0]) && isinf(variances[1]));
    nsi_gram_free(&gram);
}

// A fold that contradicts the others is not explained by them.
static void held_out_folds_are_not_fitted(void** state) {
    (void)state;
    ns_allocator allocator = ns_default_allocator();
    nsi_gram gram = diagonal(&allocator);
    const uint32_t term = 0;
    // Fold 0 has its minimum at -1 rather than 1.
    gram.h[NSI_FOLDS][0] -= 2.0 * gram.h[0][0];
    gram.h[0][0] = -gram.h[0][0];
    double none = nsi_gram_held_out(&gram, &term, 0, 0.0);
    double fitted = nsi_gram_explain(&gram, &term, 1, 0.0);
    double held_out = nsi_gram_held_out(&gram, &term, 1, 0.0);
    assert_true(fabs(none - gram.squares[NSI_FOLDS]) < 1e-9 * none);
    assert_true(fitted < none);
    assert_true(held_out > fitted);
    // By hand: steps without fold 0, 1, 2 are 1, 2/4 and 1/3; folds have g of 1, 2 and 3.
    double expected = 1.0 * 4.0 + 2.0 * 0.25 + 3.0 * 4.0 / 9.0;
    assert_true(fabs(held_out - (none - 6.0) - expected) < 1e-6);
    nsi_gram_free(&gram);
}

static void memory_can_run_out(void** state) {
    (void)state;
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_gram gram;
        ns_error error = {0};
        ns_status status = nsi_gram_make(&allocator, 4, NFOLD, &gram, &error);
        nsi_gram_free(&gram);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_true(n > 10);
            return;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_term_is_cut_off),
        cmocka_unit_test(copies_are_dropped),
        cmocka_unit_test(held_out_folds_are_not_fitted),
        cmocka_unit_test(memory_can_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
