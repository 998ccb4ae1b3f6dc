// Results as text, JSON and a page: read back by other programs' readers, at any width of letters,
// with names that would like to be something else.

#define _XOPEN_SOURCE 700

#include "fit/result.h"
#include "fit/result_words.h"
#include "report/web_bundle.h"
#include "support/check.h"
#include "support/rendered.h"
#include "support/testalloc.h"

#include <expat.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <wchar.h>
#include <cmocka.h>

typedef ns_status form(const nsi_result* result, ns_text* out, ns_error* error);

static ns_status as_text(const nsi_result* result, ns_text* out, ns_error* error) {
    return render_result(result, ns_report_text, out, error);
}

static ns_status as_page(const nsi_result* result, ns_text* out, ns_error* error) {
    return render_result(result, ns_report_html, out, error);
}

static ns_status as_report_json(const nsi_result* result, ns_text* out, ns_error* error) {
    return render_result(result, ns_report_json, out, error);
}

static form* const forms[] = {as_text, nsi_result_json, as_page, as_report_json};

static ns_text show(form* f, const nsi_result* result) {
    ns_text text;
    assert_int_equal(f(result, &text, NULL), NS_OK);
    assert_int_equal(strlen(text.data), text.size);
    return text;
}

// ---- a sample --------------------------------------------------------------------------------

enum { N = 7 };

static const char hostile[] = "</script><b a=\"1\" c='2'>&amp;]]>--><!--";
static const char wide[] =
    "\xe9\x96\xa2\xe7\xaf\x80/\xd0\xbc\xd0\xb0\xd1\x81\xd1\x81\xd0\xb0"; // 関節/масса
static const char broken[] = "half\xe3\x81 esc\x1b[2J\x01 \xff";
static const char lengthy[] =
    "link/a_name_that_goes_on_and_on_and_on_and_on_and_on_and_on/inertia/xx";

static void add_estimate(nsi_result* a, const char* name, double start, double value, double lower,
                         double upper) {
    ns_estimate e = {name, "kg m^2", start, value, lower, upper, NAN, NS_VERDICT_OK};
    assert_true(nsi_array_push(&a->allocator, &a->estimates, e));
}

static ns_score make_score(const ns_allocator* memory, double scale, uint32_t lost) {
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
static void make_sample(const ns_allocator* memory, nsi_result* a) {
    nsi_result_init(memory, a);
    a->title = hostile;
    a->model = wide;
    a->treatment =
        "filtered at 20 Hz; velocities by differences.\nEvery second sample is used, and "
        "this sentence is long enough to need another line in any terminal there is.";
    a->setting = broken;
    a->citation = "";
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
    assert_true(nsi_array_push(&a->allocator, &a->notes, hostile));
    assert_true(nsi_array_push(&a->allocator, &a->notes, broken));
    a->noise_known = true;
    a->seconds = 61.25;
    a->complete = true;
}

static void make_large(nsi_result* a, uint32_t n, char (*names)[16]) {
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

// ---- numbers ---------------------------------------------------------------------------------

static void digits_follow_the_error(void** state) {
    (void)state;
    static const struct {
        double value, error;
        const char *shown, *shown_error;
    } cases[] = {
        {0.076, 0.0003, "0.0760", "0.0003"},
        {0.0760432, 0.00012, "0.07604", "0.00012"},
        {0.0760432, 0.00099, "0.0760", "0.0010"},
        {-12.3456, 0.5, "-12.3", "0.5"},
        {12345.6, 300.0, "12346", "300"},
        {0.5, 3e-6, "0.500000", "0.000003"},
        {3.25e-8, 1.2e-10, "3.250e-08", "1.2e-10"},
        {2.5e7, 4e3, "2.5000e+07", "4000"},
        {1.0, 1e-12, "1.000000", "1.0e-12"},
        {0.003, 5.0, "0.0030", "5"},
        {0.0, 0.01, "0.000", "0.010"},
        {1.5, INFINITY, "1.5000", "inf"},
        {1.5, NAN, "1.5000", "-"},
        {1.5, 0.0, "1.5000", "0"},
        {NAN, 1.0, "-", "1.0"},
        {-INFINITY, 1.0, "-inf", "1.0"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_string_equal(nsi_format_value(cases[k].value, cases[k].error).text, cases[k].shown);
        assert_string_equal(nsi_format_error(cases[k].value, cases[k].error).text,
                            cases[k].shown_error);
    }
    static const struct {
        double value;
        const char* shown;
    } chosen[] = {{0.1, "0.1"},     {25.0, "25"},     {1.0, "1"},          {100.0, "100"},
                  {-0.25, "-0.25"}, {0.0, "0"},       {2.5e-9, "2.5e-09"}, {1e20, "1e+20"},
                  {NAN, "-"},       {INFINITY, "inf"}};
    for (size_t k = 0; k < sizeof chosen / sizeof *chosen; k++) {
        assert_string_equal(nsi_format_short(chosen[k].value, 4).text, chosen[k].shown);
    }
    assert_string_equal(nsi_format(0.0, 3).text, "0");
    assert_string_equal(nsi_format(99.96, 3).text, "100");
    assert_string_equal(nsi_format(0.000123456, 3).text, "0.000123");
    assert_string_equal(nsi_format(0.0000123456, 3).text, "1.23e-05");
    assert_string_equal(nsi_format(-1.7976931348623157e308, 17).text, "-1.7976931348623157e+308");
    assert_string_equal(nsi_format(-999999.9, 6).text, "-1.00000e+06");
}

// What is shown reads back to within half of its last digit.
static void shown_numbers_are_right(void** state) {
    (void)state;
    ns_rng rng = ns_rng_seed(1);
    for (int k = 0; k < 20000; k++) {
        double value = ns_rng_normal(&rng) * pow(10.0, ns_rng_uniform(&rng, -12.0, 12.0));
        double error = fabs(value) * pow(10.0, ns_rng_uniform(&rng, -9.0, 3.0));
        double shown = strtod(nsi_format_value(value, error).text, NULL);
        double shown_error = strtod(nsi_format_error(value, error).text, NULL);
        // Two digits at least, and below the error.
        assert_true(fabs(shown - value) <=
                    fmin(0.0501 * fabs(value), 0.51 * error + 1e-6 * fabs(value)));
        assert_true(fabs(shown_error - error) <= 0.251 * error);
    }
}

// ---- text ------------------------------------------------------------------------------------

// The widest line in columns, by the C library's reckoning.
static int widest(const char* text) {
    int most = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        wchar_t line[1000];
        char bytes[1000];
        assert_true(length < sizeof bytes);
        memcpy(bytes, text, length);
        bytes[length] = '\0';
        size_t count = mbstowcs(line, bytes, 1000);
        assert_true(count != (size_t)-1); // UTF-8
        int width = wcswidth(line, count);
        assert_true(width >= 0); // nothing that controls the terminal
        if (width > most) most = width;
        text += length + (text[length] == '\n');
    }
    return most;
}

static void text_fits_a_terminal(void** state) {
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) skip();
    nsi_result a;
    make_sample(NULL, &a);
    ns_text text = show(as_text, &a);
    assert_true(widest(text.data) <= 100);
    assert_null(strstr(text.data, " \n"));
    static const char* const expected[] = {
        "0.0760   0.0003  ok",
        "- warning: At the lower bound: link/a/damping (0 kg m^2).",
        "+1 % (the motion does not change). Fix one of them.",
        "- warning: No effect on the data: half",
        "- Strongly correlated: first and second (-0.98",
        "PROBLEM: train: 2 of 40 windows do not stay finite",
        "61.2 s in all",
    };
    for (char* at; (at = strstr(text.data, "\n  "));) memmove(at, at + 2, strlen(at + 2) + 1);
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        if (!strstr(text.data, expected[k])) fail_msg("no \"%s\"", expected[k]);
    }
    assert_null(strstr(text.data, "stopped before"));
    ns_text_free(&text);

    a.complete = false;
    a.title = lengthy;
    for (uint32_t k = 0; k < a.estimates.count; k++) { // as wide as numbers get
        a.estimates.data[k].initial = -1.2345678e-300;
        a.estimates.data[k].value = -1.2345678e-300;
        a.estimates.data[k].standard_error = 1.2345678e-305;
    }
    text = show(as_text, &a);
    assert_true(widest(text.data) <= 100);
    assert_non_null(strstr(text.data, "The fit was stopped before its end;"));
    ns_text_free(&text);
    nsi_result_free(&a);
    setlocale(LC_CTYPE, "C");
}

static void many_parameters_are_counted(void** state) {
    (void)state;
    enum { MANY = 250 };
    static char names[MANY][16];
    nsi_result a;
    make_large(&a, MANY, names);
    ns_text text = show(as_text, &a);
    assert_non_null(strstr(text.data, "\np59 "));
    assert_null(strstr(text.data, "\np60 "));
    assert_non_null(strstr(text.data, "190 more rows are in the JSON."));
    ns_text_free(&text);
    text = show(nsi_result_json, &a);
    assert_non_null(strstr(text.data, "\"p249\""));
    ns_text_free(&text);
    text = show(as_page, &a);
    assert_non_null(strstr(text.data, "50 more rows are in the JSON"));
    nsi_web_bundle bundle;
    nsi_web_bundle_get(&bundle);
    assert_true(text.size < bundle.script_size + 1000000);
    ns_text_free(&text);
    nsi_result_free(&a);
}

// ---- JSON ------------------------------------------------------------------------------------

static json_t* parse(const ns_text* text) {
    json_error_t error;
    json_t* root = json_loadb(text->data, text->size, JSON_REJECT_DUPLICATES, &error);
    if (!root) fail_msg("line %d: %s", error.line, error.text);
    return root;
}

static json_t* get(json_t* object, const char* key) {
    json_t* value = json_object_get(object, key);
    if (!value) fail_msg("no \"%s\"", key);
    return value;
}

static void assert_number(json_t* value, double expected) {
    if (!isfinite(expected)) {
        assert_true(json_is_null(value));
        return;
    }
    assert_true(json_is_real(value));
    assert_true(check_same_bits(json_real_value(value), expected));
}

static void assert_score(json_t* json, const ns_score* score) {
    if (score->nhorizon == 0) {
        assert_true(json_is_null(json));
        return;
    }
    assert_number(get(json, "loss"), score->loss);
    assert_number(get(json, "rmse_q"), score->rmse_q);
    assert_number(get(json, "rmse_qd"), score->rmse_qd);
    assert_int_equal(json_integer_value(get(json, "windows")), score->windows);
    assert_int_equal(json_integer_value(get(json, "lost")), score->lost);
    assert_int_equal(json_array_size(get(json, "horizons")), score->nhorizon);
    for (uint32_t k = 0; k < score->nhorizon; k++) {
        json_t* item = json_array_get(get(json, "horizons"), k);
        assert_number(get(item, "seconds"), score->horizons[k].seconds);
        assert_number(get(item, "pooled"), score->horizons[k].pooled);
        assert_number(get(item, "median"), score->horizons[k].median);
        assert_int_equal(json_integer_value(get(item, "windows")), score->horizons[k].windows);
    }
}

static void json_has_it_all(void** state) {
    (void)state;
    nsi_result a;
    make_sample(NULL, &a);
    ns_text text = show(nsi_result_json, &a);
    json_t* root = parse(&text);

    static const char* const keys[] = {
        "title",        "model",       "treatment",   "setting",   "citation", "complete",
        "seconds",      "sigma",       "noise_known", "residuals", "weights",  "parameters",
        "coefficients", "correlation", "directions",  "before",    "after",    "phases",
        "history",      "path_names",  "path",        "notes"};
    size_t count = 0;
    const char* key;
    json_t* value;
    json_object_foreach(root, key, value) {
        assert_true(count < sizeof keys / sizeof *keys);
        assert_string_equal(key, keys[count++]);
    }
    assert_int_equal(count, sizeof keys / sizeof *keys);

    assert_string_equal(json_string_value(get(root, "title")), hostile);
    assert_string_equal(json_string_value(get(root, "model")), wide);
    assert_string_equal(json_string_value(get(root, "treatment")), a.treatment);
    assert_string_equal(json_string_value(get(root, "setting")),
                        "half\xef\xbf\xbd\xef\xbf\xbd esc\x1b[2J\x01 \xef\xbf\xbd");
    assert_true(json_is_true(get(root, "complete")));
    assert_number(get(root, "seconds"), 61.25);
    assert_number(get(root, "sigma"), 1.0);
    assert_int_equal(json_integer_value(get(root, "residuals")), 1200);
    assert_int_equal(json_integer_value(get(root, "weights")), 33);
    assert_int_equal(json_array_size(get(root, "parameters")), N);
    for (uint32_t k = 0; k < N; k++) {
        json_t* item = json_array_get(get(root, "parameters"), k);
        const ns_estimate* e = &a.estimates.data[k];
        assert_number(get(item, "initial"), e->initial);
        assert_number(get(item, "value"), e->value);
        assert_number(get(item, "standard_error"), e->standard_error);
        assert_number(get(item, "lower"), e->lower);
        assert_number(get(item, "upper"), e->upper);
        assert_string_equal(json_string_value(get(item, "unit")), "kg m^2");
        for (uint32_t j = 0; j < N; j++) {
            assert_number(json_array_get(json_array_get(get(root, "correlation"), k), j),
                          a.correlation[k * N + j]);
        }
    }
    static const char* const verdicts[N] = {"undetermined",   "undetermined", "no effect", "ok",
                                            "at lower bound", "ok",           "ok"};
    for (uint32_t k = 0; k < N; k++) {
        json_t* item = json_array_get(get(root, "parameters"), k);
        assert_string_equal(json_string_value(get(item, "verdict")), verdicts[k]);
    }
    assert_int_equal(json_array_size(get(root, "directions")), a.directions.count);
    json_t* direction = json_array_get(get(root, "directions"), 0);
    assert_true(json_is_true(get(direction, "null")));
    assert_true(json_is_null(get(direction, "error")));
    json_t* changes = get(direction, "changes");
    assert_int_equal(json_object_size(changes), 2);
    assert_number(get(changes, hostile), a.directions.data[0].change[0]);
    assert_number(get(changes, wide), a.directions.data[0].change[1]);
    static const char* const roles[NS_ROLE_COUNT] = {"train", "validation", "test"};
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        assert_score(get(get(root, "before"), roles[role]), &a.before[role]);
        assert_score(get(get(root, "after"), roles[role]), &a.after[role]);
    }
    json_t* phase = json_array_get(get(root, "phases"), 0);
    assert_string_equal(json_string_value(get(phase, "name")), a.phases.data[0].name);
    assert_int_equal(json_integer_value(get(phase, "evaluations")), 40);
    assert_int_equal(json_integer_value(get(phase, "iterations")), 12);
    assert_string_equal(json_string_value(get(phase, "finish")), "converged");
    assert_number(get(phase, "value"), 0.0725);
    assert_int_equal(json_array_size(get(root, "history")), 2500);
    for (uint32_t k = 0; k < 2500; k++) {
        json_t* point = json_array_get(get(root, "history"), k);
        assert_number(get(point, "value"), a.history.data[k].value);
        assert_int_equal(json_integer_value(get(point, "phase")), k / 1500);
    }
    assert_string_equal(json_string_value(json_array_get(get(root, "notes"), 0)), hostile);
    json_decref(root);
    ns_text_free(&text);
    nsi_result_free(&a);
}

// ---- read back -------------------------------------------------------------------------------

// The same, but for what UTF-8 does not allow.
static void assert_text(const char* is, const char* was) {
    if (was == broken) was = "half\xef\xbf\xbd\xef\xbf\xbd esc\x1b[2J\x01 \xef\xbf\xbd";
    assert_true((is == NULL) == (was == NULL));
    if (was) assert_string_equal(is, was);
}

static void assert_same_score(const ns_score* is, const ns_score* was) {
    assert_int_equal(is->windows, was->windows);
    assert_int_equal(is->nhorizon, was->nhorizon);
    if (was->windows == 0) return;
    assert_true(check_same_bits(is->loss, was->loss));
    assert_true(check_same_bits(is->rmse_q, was->rmse_q));
    assert_true(isnan(is->rmse_qd) && isnan(was->rmse_qd));
    assert_int_equal(is->lost, was->lost);
    for (uint32_t k = 0; k < was->nhorizon; k++) {
        const ns_horizon_error *a = &is->horizons[k], *b = &was->horizons[k];
        assert_true(check_same_bits(a->seconds, b->seconds));
        assert_true(check_same_bits(a->pooled, b->pooled));
        assert_true(check_same_bits(a->median, b->median));
        assert_int_equal(a->windows, b->windows);
        assert_int_equal(a->samples, b->samples);
    }
}

static bool same_number(double a, double b) {
    return (isnan(a) && isnan(b)) || check_same_bits(a, b);
}

static void assert_same_answer(const nsi_result* is, const nsi_result* was) {
    assert_text(is->title, was->title);
    assert_text(is->model, was->model);
    assert_text(is->treatment, was->treatment);
    assert_text(is->setting, was->setting);
    assert_text(is->citation, was->citation);
    assert_int_equal(is->estimates.count, was->estimates.count);
    uint32_t n = was->estimates.count;
    for (uint32_t k = 0; k < n; k++) {
        const ns_estimate *a = &is->estimates.data[k], *b = &was->estimates.data[k];
        assert_text(a->name, b->name);
        assert_text(a->unit, b->unit);
        assert_true(check_same_bits(a->initial, b->initial) && check_same_bits(a->value, b->value));
        assert_true(check_same_bits(a->lower, b->lower) && check_same_bits(a->upper, b->upper));
        assert_true(same_number(a->standard_error, b->standard_error));
        assert_int_equal(a->verdict, b->verdict);
    }
    assert_int_equal(is->coefficients.count, was->coefficients.count);
    for (uint32_t k = 0; k < was->coefficients.count; k++) {
        const ns_fitted_coefficient *a = &is->coefficients.data[k], *b = &was->coefficients.data[k];
        assert_text(a->set, b->set);
        assert_text(a->name, b->name);
        assert_true(check_same_bits(a->initial, b->initial) && check_same_bits(a->value, b->value));
        assert_true(same_number(a->standard_error, b->standard_error));
    }
    assert_true((is->correlation == NULL) == (was->correlation == NULL));
    for (uint32_t k = 0; was->correlation && k < n * n; k++) {
        assert_true(same_number(is->correlation[k], was->correlation[k]));
    }
    assert_int_equal(is->directions.count, was->directions.count);
    for (uint32_t k = 0; k < was->directions.count; k++) {
        const ns_parameter_direction *a = &is->directions.data[k], *b = &was->directions.data[k];
        assert_true(a->null == b->null && check_same_bits(a->error, b->error));
        for (uint32_t j = 0; j < n; j++) assert_true(a->change[j] == b->change[j]);
    }
    assert_true(check_same_bits(is->sigma, was->sigma) && is->noise_known == was->noise_known);
    assert_int_equal(is->nresidual, was->nresidual);
    assert_int_equal(is->nweight, was->nweight);
    for (int role = 0; role < NS_ROLE_COUNT; role++) {
        assert_same_score(&is->before[role], &was->before[role]);
        assert_same_score(&is->after[role], &was->after[role]);
    }
    assert_int_equal(is->phases.count, was->phases.count);
    for (uint32_t k = 0; k < was->phases.count; k++) {
        const ns_fit_phase *a = &is->phases.data[k], *b = &was->phases.data[k];
        assert_text(a->name, b->name);
        assert_text(a->finish, b->finish);
        assert_int_equal(a->iterations, b->iterations);
        assert_int_equal(a->evaluations, b->evaluations);
        assert_true(check_same_bits(a->seconds, b->seconds) && check_same_bits(a->value, b->value));
    }
    assert_int_equal(is->history.count, was->history.count);
    for (uint32_t k = 0; k < was->history.count; k++) {
        const ns_fit_history_point *a = &is->history.data[k], *b = &was->history.data[k];
        assert_true(a->phase == b->phase && a->iteration == b->iteration);
        assert_true(check_same_bits(a->seconds, b->seconds) && same_number(a->value, b->value));
    }
    assert_int_equal(is->path_names.count, was->path_names.count);
    assert_int_equal(is->path.count, was->path.count);
    for (uint32_t k = 0; k < was->path_names.count; k++) {
        assert_text(is->path_names.data[k], was->path_names.data[k]);
    }
    for (uint32_t k = 0; k < was->path.count; k++) {
        const ns_sparsity_point *a = &is->path.data[k], *b = &was->path.data[k];
        assert_true(a->phase == b->phase && a->iteration == b->iteration);
        assert_true(a->l1 == b->l1 && a->group == b->group && a->loss == b->loss);
        for (uint32_t i = 0; i < was->path_names.count; i++)
            assert_true(a->norms[i] == b->norms[i]);
    }
    assert_int_equal(is->notes.count, was->notes.count);
    for (uint32_t k = 0; k < was->notes.count; k++) {
        assert_text(is->notes.data[k], was->notes.data[k]);
    }
    assert_true(check_same_bits(is->seconds, was->seconds) && is->complete == was->complete);
}

static void what_was_written_is_read_back(void** state) {
    (void)state;
    nsi_result a, b;
    make_sample(NULL, &a);
    for (int analysed = 1; analysed >= 0; analysed--) {
        ns_text text = show(nsi_result_json, &a);
        assert_int_equal(nsi_result_read(text.data, text.size, "f.json", "x", NULL, &b, NULL),
                         NS_OK);
        assert_same_answer(&b, &a);
        assert_null(b.fit);
        ns_text again = show(nsi_result_json, &b);
        assert_string_equal(again.data, text.data);
        nsi_result_free(&b);
        // The same without an analysis.
        nsi_free(&a.allocator, a.correlation);
        a.correlation = NULL;
        for (uint32_t k = 0; k < N; k++) {
            a.estimates.data[k].standard_error = NAN;
            a.estimates.data[k].verdict = NS_VERDICT_OK;
        }
        ns_text_free(&text);
        ns_text_free(&again);
    }
    nsi_result_free(&a);
}

static ns_status read_text(const char* text, const char* fit, nsi_result* out, ns_error* error) {
    *error = (ns_error){0};
    ns_status status = nsi_result_read(text, strlen(text), "f.json", fit, NULL, out, error);
    assert_int_equal(status, error->status);
    return status;
}

static void one_of_several_fits_is_read(void** state) {
    (void)state;
    nsi_result a, b;
    ns_error error;
    make_sample(NULL, &a);
    a.history.count = 2;
    ns_text one = show(nsi_result_json, &a);
    nsi_text_builder both = {.allocator = ns_default_allocator()};
    nsi_text_add(&both, "{\"fits\": {\"first\": %s, \"second\": ", one.data);
    a.seconds = 7.0;
    ns_text two = show(nsi_result_json, &a);
    nsi_text_add(&both, "%s}, \"headline\": \"second\"}", two.data);
    ns_text text;
    assert_int_equal(nsi_text_finish(&both, &text, NULL), NS_OK);
    assert_int_equal(read_text(text.data, "first", &b, &error), NS_OK);
    assert_true(b.seconds == 61.25);
    nsi_result_free(&b);

    // Without a name the headline, or the first where there is none.
    assert_int_equal(read_text(text.data, NULL, &b, &error), NS_OK);
    assert_true(b.seconds == 7.0);
    assert_string_equal(b.fit, "second");
    nsi_result_free(&b);
    char* headline = strstr(text.data, "\"headline\"");
    headline[1] = 'H';
    assert_int_equal(read_text(text.data, NULL, &b, &error), NS_OK);
    assert_true(b.seconds == 61.25);
    assert_string_equal(b.fit, "first");
    nsi_result_free(&b);
    assert_int_equal(read_text(text.data, "third", &b, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "f.json: there is no fit 'third'; there are: first second");
    ns_text_free(&text);
    ns_text_free(&one);
    ns_text_free(&two);
    nsi_result_free(&a);
}

// Every value of the text in turn becomes something else: it is read, or refused with its name.
static void wrong_files_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "f.json:1:0:"},
        {"[]", "f.json: this is no result of a fit"},
        {"{\"fits\": {}}", "this is no result of a fit"},
        {"{\"fits\": {\"a\": 1}}", "f.json: fits: expected objects"},
        {"{\"before\": {}, \"title\": 3}", "f.json: title: expected a text"},
        {"{\"before\": {}, \"before\": {}}", "f.json:1:"},
        {"{\"before\": {}, \"complete\": 1}", "f.json: complete: expected true or false"},
        {"{\"before\": {}}", "f.json: complete: it is missing; run the fit again"},
    };
    nsi_result a, b;
    ns_error error;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_true(read_text(cases[k].text, NULL, &b, &error) != NS_OK);
        if (!strstr(error.message, cases[k].message)) fail_msg("%s", error.message);
        nsi_result_free(&b);
    }
    static const struct {
        const char *from, *to, *message;
    } changes[] = {
        {"\"value\": 2.0", "\"value\": \"2\"", "f.json: parameters[0].value: expected a number"},
        {"\"lower\": null", "\"lower\": true", "parameters[0].lower: expected a number or null"},
        {"\"at lower bound\"", "\"great\"", "parameters[4].verdict: this is none"},
        {"\"iterations\": 12", "\"iterations\": -1", "phases[0].iterations: expected a whole"},
        {"\"iterations\": 12", "\"iterations\": 1.5", "phases[0].iterations: expected a whole"},
        {"\"evaluations\": 40", "\"evaluations\": 9999999999", "phases[0].evaluations"},
        {"\"samples\": 20", "\"samples\": null", "before.train.horizons[1].samples"},
        {"\"norms\": [1.0, 0.5]", "\"norms\": [1.0]", "path[0].norms: expected a number for each"},
        {"\"history\": [", "\"history\": [3,", "history[0]: expected an object"},
        {"\"residuals\": 1200", "\"residuals\": {}", "residuals: expected a whole number"},
        {"\"correlation\": [", "\"correlation\": [[],", "correlation: expected a row for each"},
    };
    make_sample(NULL, &a);
    a.history.count = 2;
    ns_text text = show(nsi_result_json, &a);
    for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
        const char* at = strstr(text.data, changes[k].from);
        if (!at) fail_msg("no %s", changes[k].from);
        nsi_text_builder changed = {.allocator = ns_default_allocator()};
        nsi_text_add_bytes(&changed, text.data, (size_t)(at - text.data));
        nsi_text_add(&changed, "%s%s", changes[k].to, at + strlen(changes[k].from));
        ns_text other;
        assert_int_equal(nsi_text_finish(&changed, &other, NULL), NS_OK);
        assert_true(read_text(other.data, NULL, &b, &error) != NS_OK);
        if (!strstr(error.message, changes[k].message)) fail_msg("%s", error.message);
        ns_text_free(&other);
        nsi_result_free(&b);
    }
    // Cut off anywhere it is no JSON.
    for (size_t size = 0; size + 2 < text.size; size += 97) {
        ns_status status = nsi_result_read(text.data, size, "f.json", NULL, NULL, &b, &error);
        assert_int_equal(status, NS_ERR_PARSE);
    }
    ns_text_free(&text);
    nsi_result_free(&a);
}

static void no_memory_for_reading_is_said(void** state) {
    (void)state;
    nsi_result a, b;
    make_sample(NULL, &a);
    a.history.count = 3;
    ns_text text = show(nsi_result_json, &a);
    test_alloc counter = {0};
    ns_allocator memory = test_allocator(&counter);
    bool done = false;
    for (size_t n = 1; !done; n++) {
        counter.calls = 0;
        counter.fail_at = n;
        ns_status status = nsi_result_read(text.data, text.size, "f", NULL, &memory, &b, NULL);
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        nsi_result_free(&b);
        assert_int_equal(counter.live_blocks, 0);
    }
    ns_text_free(&text);
    nsi_result_free(&a);
}

// ---- page ------------------------------------------------------------------------------------

// What an XML reader finds in a page, which is strict about what is open and what is closed.
typedef struct page {
    int elements, pictures, bars, items;
    char text[400000]; // of all elements
    size_t size;
} page;

static void on_start(void* context, const char* name, const char** attributes) {
    page* p = context;
    p->elements++;
    p->pictures += strcmp(name, "svg") == 0;
    p->bars += strcmp(name, "rect") == 0;
    p->items += strcmp(name, "li") == 0;
    static const char* const known[] = {
        "html",       "head",    "meta",    "title",  "style",    "body", "h1",
        "h2",         "h3",      "dl",      "dt",     "dd",       "div",  "table",
        "tr",         "th",      "td",      "p",      "ul",       "li",   "svg",
        "rect",       "line",    "text",    "circle", "polyline", "path", "figure",
        "figcaption", "details", "summary", "pre",    "strong"};
    bool found = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) found |= strcmp(name, known[k]) == 0;
    if (!found) fail_msg("<%s>", name);
    for (; *attributes; attributes += 2) { // nothing is fetched or run
        if (strcmp(attributes[0], "href") == 0 || strcmp(attributes[0], "src") == 0 ||
            strncmp(attributes[0], "on", 2) == 0 || strstr(attributes[1], "nan") ||
            strstr(attributes[1], "inf")) {
            fail_msg("%s=\"%s\"", attributes[0], attributes[1]);
        }
    }
}

static void on_text(void* context, const char* text, int length) {
    page* p = context;
    assert_true(p->size + (size_t)length < sizeof p->text);
    memcpy(p->text + p->size, text, (size_t)length);
    p->size += (size_t)length;
    p->text[p->size] = '\0';
}

// A page ends with our script, if there is one, and has no other.
static void remove_script(ns_text* text) {
    nsi_web_bundle bundle;
    char* script = strstr(text->data, "<script>");
    if (!nsi_web_bundle_get(&bundle)) {
        assert_null(script);
        return;
    }
    assert_non_null(script);
    char* end = script + strlen("<script>");
    assert_memory_equal(end, bundle.script, bundle.script_size);
    end += bundle.script_size + strlen("</script>");
    memmove(script, end, strlen(end) + 1);
    text->size = strlen(text->data);
}

static void read_page(ns_text* text, page* out) {
    remove_script(text);
    *out = (page){0};
    XML_Parser parser = XML_ParserCreate("UTF-8");
    XML_SetUserData(parser, out);
    XML_SetStartElementHandler(parser, on_start);
    XML_SetCharacterDataHandler(parser, on_text);
    if (XML_Parse(parser, text->data, (int)text->size, 1) != XML_STATUS_OK) {
        fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser),
                 XML_ErrorString(XML_GetErrorCode(parser)));
    }
    XML_ParserFree(parser);
}

static int occurrences(const char* text, const char* wanted) {
    int count = 0;
    for (; (text = strstr(text, wanted)); text++) count++;
    return count;
}

static void the_page_is_whole_and_safe(void** state) {
    (void)state;
    static page p;
    nsi_result a;
    make_sample(NULL, &a);
    ns_text text = show(as_page, &a);
    read_page(&text, &p);
    assert_int_equal(p.pictures, 7); // intervals, correlation, two roles, path, history, timing
    assert_null(strstr(text.data, "<script"));
    assert_null(strstr(text.data, "</script"));
    assert_null(strstr(text.data, "http:"));
    assert_null(strstr(text.data, "https:"));
    // Title (twice), parameter, direction, interval, correlation, phase and note.
    assert_true(occurrences(p.text, hostile) >= 7);
    assert_true(occurrences(p.text, wide) >= 4);
    assert_non_null(strstr(p.text, "0.0760"));
    assert_non_null(strstr(p.text, "half\xef\xbf\xbd"));
    assert_non_null(strstr(p.text, "Fix one of them."));
    assert_true(strlen(text.data) < 300000); // with the numbers of 2500 points of history
    ns_text_free(&text);
    nsi_result_free(&a);
}

// ---- edges -----------------------------------------------------------------------------------

static void an_empty_answer_can_be_shown(void** state) {
    (void)state;
    static page p;
    nsi_result a;
    nsi_result_init(NULL, &a);
    ns_text text = show(as_text, &a);
    assert_string_equal(
        text.data, "Fit\n\nPROBLEM: The fit was stopped before its end; --resume continues it.\n");
    ns_text_free(&text);
    text = show(nsi_result_json, &a);
    json_t* root = parse(&text);
    assert_true(json_is_null(get(root, "title")));
    assert_int_equal(json_array_size(get(root, "parameters")), 0);
    json_decref(root);
    ns_text_free(&text);
    text = show(as_page, &a);
    read_page(&text, &p);
    assert_int_equal(p.pictures, 0);
    ns_text_free(&text);

    // Estimates without an analysis, without names; a history of nothing.
    add_estimate(&a, NULL, 0.0, 0.0, -INFINITY, INFINITY);
    a.estimates.data[0].unit = NULL;
    a.estimates.data[0].verdict = NS_VERDICT_NO_EFFECT;
    assert_true(nsi_array_push(&a.allocator, &a.history, (ns_fit_history_point){.value = NAN}));
    assert_true(nsi_array_push(&a.allocator, &a.history, (ns_fit_history_point){.value = 0.0}));
    assert_true(nsi_array_push(&a.allocator, &a.notes, NULL));
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        text = show(forms[k], &a);
        assert_null(strstr(text.data, "o effect"));
        if (forms[k] == as_page) read_page(&text, &p);
        ns_text_free(&text);
    }
    nsi_result_free(&a);
    nsi_result_free(&a); // again
}

static void all_zero_values_can_be_drawn(void** state) {
    (void)state;
    static page p;
    nsi_result a;
    nsi_result_init(NULL, &a);
    add_estimate(&a, "a", 0.0, 0.0, -INFINITY, INFINITY);
    add_estimate(&a, "b", 0.0, 0.0, -INFINITY, INFINITY);
    assert_int_equal(nsi_result_identify(&a, (double[]){1, 0, 0, 1}, 0.0, NULL, NULL), NS_OK);
    a.after[NS_ROLE_TRAIN] = make_score(&a.allocator, 0.0, 0);
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(
            nsi_array_push(&a.allocator, &a.history, ((ns_fit_history_point){.value = 3.0})));
    }
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        ns_text text = show(forms[k], &a);
        if (forms[k] == as_page) read_page(&text, &p);
        ns_text_free(&text);
    }
    assert_int_equal(p.pictures, 4);
    nsi_result_free(&a);
}

static void locale_does_not_matter(void** state) {
    (void)state;
    nsi_result a;
    make_sample(NULL, &a);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        ns_text one = show(forms[k], &a);
        setlocale(LC_ALL, "de_DE.UTF-8"); // where there is such a locale, its decimal comma
        ns_text other = show(forms[k], &a);
        setlocale(LC_ALL, "C");
        assert_string_equal(one.data, other.data);
        ns_text_free(&one);
        ns_text_free(&other);
    }
    nsi_result_free(&a);
}

// The report of the public view is that of the record.
static void the_public_result_has_the_same_report(void** state) {
    (void)state;
    nsi_result a;
    make_sample(NULL, &a);
    ns_fit_result view = nsi_result_view(&a);
    ns_report* report = NULL;
    assert_int_equal(ns_fit_result_report(&view, &report, NULL), NS_OK);
    static report_renderer* const all[] = {ns_report_text, ns_report_html, ns_report_json};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        ns_text one, other;
        assert_int_equal(all[k](report, &one, NULL), NS_OK);
        assert_int_equal(render_result(&a, all[k], &other, NULL), NS_OK);
        assert_string_equal(one.data, other.data);
        ns_text_free(&one);
        ns_text_free(&other);
    }
    ns_report_free(report);
    nsi_result_free(&a);
}

// ---- memory ----------------------------------------------------------------------------------

static void no_memory_is_said(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator memory = test_allocator(&counter);
    nsi_result a;
    make_sample(&memory, &a);
    a.history.count = 3;
    size_t live = counter.live_blocks;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        bool done = false;
        for (size_t n = 1; !done; n++) {
            counter.calls = 0;
            counter.fail_at = n;
            ns_text text = {0};
            ns_error error = {0};
            ns_status status = forms[k](&a, &text, &error);
            done = counter.calls < n;
            assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
            assert_int_equal(error.status, status);
            ns_text_free(&text);
            assert_int_equal(counter.live_blocks, live);
        }
    }
    counter.fail_at = 0;
    nsi_result_free(&a);
    assert_int_equal(counter.live_blocks, 0);
}

static size_t json_calls, json_fail_at, json_live;

static void* failing_malloc(size_t size) {
    if (++json_calls == json_fail_at) return NULL;
    json_live++;
    return malloc(size);
}

static void counted_free(void* block) {
    if (block) json_live--;
    free(block);
}

// jansson has its own memory.
static void no_memory_for_jansson_is_said(void** state) {
    (void)state;
    nsi_result a;
    make_sample(NULL, &a);
    a.history.count = 2;
    json_malloc_t old_malloc;
    json_free_t old_free;
    json_get_alloc_funcs(&old_malloc, &old_free);
    json_set_alloc_funcs(failing_malloc, counted_free);
    bool done = false;
    size_t tried = 0;
    for (json_fail_at = 1; !done; json_fail_at++, tried++) {
        json_calls = 0;
        ns_text text;
        ns_status status = nsi_result_json(&a, &text, NULL);
        done = json_calls < json_fail_at;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        assert_int_equal(json_live, 0);
        ns_text_free(&text);
    }
    json_set_alloc_funcs(old_malloc, old_free);
    assert_true(tried > 100);
    nsi_result_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digits_follow_the_error),
        cmocka_unit_test(shown_numbers_are_right),
        cmocka_unit_test(text_fits_a_terminal),
        cmocka_unit_test(many_parameters_are_counted),
        cmocka_unit_test(json_has_it_all),
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(one_of_several_fits_is_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(no_memory_for_reading_is_said),
        cmocka_unit_test(the_page_is_whole_and_safe),
        cmocka_unit_test(an_empty_answer_can_be_shown),
        cmocka_unit_test(all_zero_values_can_be_drawn),
        cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(the_public_result_has_the_same_report),
        cmocka_unit_test(no_memory_is_said),
        cmocka_unit_test(no_memory_for_jansson_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
