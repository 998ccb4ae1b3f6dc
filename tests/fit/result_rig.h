// A result with everything in it, also names that would like to be something else, and its forms.

#ifndef TEST_RESULT_RIG_H
#define TEST_RESULT_RIG_H

#include "fit/result.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/rendered.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef ns_status form(const nsi_result* result, ns_text* out, ns_error* error);

static inline ns_status as_text(const nsi_result* result, ns_text* out, ns_error* error) {
    return render_result(result, ns_report_text, out, error);
}

static inline ns_status as_page(const nsi_result* result, ns_text* out, ns_error* error) {
    return render_result(result, ns_report_html, out, error);
}

static inline ns_status as_report_json(const nsi_result* result, ns_text* out, ns_error* error) {
    return render_result(result, ns_report_json, out, error);
}

static inline ns_text show(form* f, const nsi_result* result) {
    ns_text text;
    assert_int_equal(f(result, &text, NULL), NS_OK);
    assert_int_equal(strlen(text.data), text.size);
    return text;
}

enum { N = 7 };

static const char hostile[] = "</script><b a=\"1\" c='2'>&amp;]]>--><!--";

static const char wide[] =
    "\xe9\x96\xa2\xe7\xaf\x80/\xd0\xbc\xd0\xb0\xd1\x81\xd1\x81\xd0\xb0"; // 関節/масса

static const char broken[] = "half\xe3\x81 esc\x1b[2J\x01 \xff";

static const char lengthy[] =
    "link/a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on/inertia/xx";

static inline void add_estimate(nsi_result* a, const char* name, double start, double value,
                                double lower, double upper) {
    ns_estimate e = {name, "kg m^2", start, value, lower, upper, NAN, NS_VERDICT_OK};
    assert_true(nsi_array_push(&a->allocator, &a->estimates, e));
}

static inline ns_score make_score(const ns_allocator* memory, double scale, uint32_t lost) {
    ns_score score = {.loss = 7.25 * scale,
                      .rmse_q = 0.03125 * scale,
                      .rmse_qd = NAN,
                      .nhorizon = 3,
                      .windows = 40,
                      .lost = lost};
    score.horizons = nsi_alloc(memory, 3 * sizeof *score.horizons);
    assert_non_null(score.horizons);
    for (uint32_t k = 0; k < 3; k++) {
        score.horizons[k] =
            (ns_horizon_error){0.1 * (k + 1), scale * (k + 1), 0.5 * scale, 40 - k, 10 * (k + 1)};
    }
    score.horizons[2].pooled = INFINITY;
    return score;
}

// Seven parameters: two only together, one without effect, one at a bound, two that go together.
static inline void make_sample(const ns_allocator* memory, nsi_result* a) {
    nsi_result_init(memory, a);
    a->title = hostile;
    a->model = wide;
    a->treatment =
        "filtered at 20 Hz; velocities by differences.\nEvery second sample is used, and "
        "this sentence is long enough to need another line in any terminal there is.";
    a->setting = broken;
    a->citation = "";
    a->failure = "The fit failed: a test.";
    a->doubts = hostile;
    a->unreliable_gradients = "3 of 12 windows (25 %), the first because of a test";
    add_estimate(a, hostile, 1.0, 2.0, -INFINITY, INFINITY);
    add_estimate(a, wide, 1.0, 4.0, -INFINITY, INFINITY);
    add_estimate(a, broken, 0.0, 0.5, -INFINITY, INFINITY);
    add_estimate(a, lengthy, 0.01, 0.076, 0.0, 1.0);
    add_estimate(a, "link/a/damping", 0.5, 1e-9, 0.0, 1.0);
    add_estimate(a, "first", -1.0, -1234.5678, -INFINITY, INFINITY);
    add_estimate(a, "second", 1.0, 3.25e-8, -INFINITY, INFINITY);
    double J[6][N] = {{10.0, -5.0},                   // the ratio of the first two
                      {[3] = 1.0 / 0.0003},           // standard error 0.0003
                      {[4] = 1e4},                    //
                      {[5] = 1.0, [6] = 1.0 / 1e-10}, // nearly the same row twice
                      {[5] = 0.1, [6] = -0.1 / 1e-10}};
    double H[N * N] = {0};
    for (int k = 0; k < 6; k++) {
        for (int i = 0; i < N; i++) {
            for (int j = 0; j < N; j++) H[i * N + j] += J[k][i] * J[k][j];
        }
    }
    assert_int_equal(nsi_result_identify(a, H, 1.0, NULL, NULL), NS_OK);
    a->sigma = 1.0;
    a->nresidual = 1200;
    a->nweight = 33;
    const ns_fitted_coefficient coefficients[] = {{hostile, wide, 0.0, 0.0978, 0.0012},
                                                  {lengthy, lengthy, 1.0, -3e-9, INFINITY},
                                                  {broken, "c", -2.0, 1e20, NAN}};
    for (int k = 0; k < 3; k++) {
        assert_true(nsi_array_push(&a->allocator, &a->coefficients, coefficients[k]));
    }
    a->before[NS_ROLE_TRAIN] = make_score(&a->allocator, 1.0, 0);
    a->after[NS_ROLE_TRAIN] = make_score(&a->allocator, 0.01, 2);
    a->after[NS_ROLE_TEST] = make_score(&a->allocator, 0.02, 0);
    ns_fit_phase phase = {"windows of 25 samples, lm, and a name that is far too long",
                          12,
                          40,
                          1.5,
                          0.0725,
                          "converged"};
    assert_true(nsi_array_push(&a->allocator, &a->phases, phase));
    assert_true(nsi_array_push(&a->allocator, &a->phases, ((ns_fit_phase){.name = hostile})));
    for (uint32_t k = 0; k < 2500; k++) {
        ns_fit_history_point point = {k / 1500, k, 0.001 * k, k == 7 ? NAN : 10.0 / (k + 1)};
        assert_true(nsi_array_push(&a->allocator, &a->history, point));
    }
    static const double norms[3][2] = {{1.0, 0.5}, {0.75, 0.125}, {0.5, 0.0}};
    assert_true(nsi_array_push(&a->allocator, &a->path_names, hostile));
    assert_true(nsi_array_push(&a->allocator, &a->path_names, wide));
    for (uint32_t k = 0; k < 3; k++) {
        ns_sparsity_point point = {k, 50, 1e-3 * (k + 1), 0.1, 0.3 + k, norms[k]};
        assert_true(nsi_array_push(&a->allocator, &a->path, point));
    }
    assert_true(nsi_array_push(&a->allocator, &a->data_warnings, hostile));
    assert_true(nsi_array_push(&a->allocator, &a->notes, hostile));
    assert_true(nsi_array_push(&a->allocator, &a->notes, broken));
    a->noise_known = true;
    a->seconds = 61.25;
    a->complete = true;
}

static inline void make_large(nsi_result* a, uint32_t n, char (*names)[16]) {
    nsi_result_init(NULL, a);
    double* H = calloc((size_t)n * n, sizeof *H);
    for (uint32_t k = 0; k < n; k++) {
        snprintf(names[k], sizeof names[k], "p%u", k);
        add_estimate(a, names[k], 1.0, 1.0 + k, 0.0, INFINITY);
        H[(size_t)k * n + k] = 1e6;
    }
    assert_int_equal(nsi_result_identify(a, H, 1.0, NULL, NULL), NS_OK);
    free(H);
}

static inline json_t* parse(const ns_text* text) {
    json_error_t error;
    json_t* root = json_loadb(text->data, text->size, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    return root;
}

static inline json_t* get(json_t* object, const char* key) {
    json_t* value = json_object_get(object, key);
    if (!value) fail_msg("no \"%s\"", key);
    return value;
}

static inline void assert_number(json_t* value, double expected) {
    if (!isfinite(expected)) {
        assert_true(json_is_null(value));
        return;
    }
    assert_true(json_is_real(value));
    assert_true(check_same_bits(json_real_value(value), expected));
}

#endif
