// What was written is read back; files that say something else are refused.

#define _XOPEN_SOURCE 700

#include "fit/result_rig.h"
#include "support/testalloc.h"

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
    assert_text(is->unreliable_gradients, was->unreliable_gradients);
    assert_text(is->failure, was->failure);
    assert_text(is->doubts, was->doubts);
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
    assert_int_equal(is->data_warnings.count, was->data_warnings.count);
    for (uint32_t k = 0; k < was->data_warnings.count; k++) {
        assert_text(is->data_warnings.data[k], was->data_warnings.data[k]);
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_written_is_read_back),
        cmocka_unit_test(one_of_several_fits_is_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(no_memory_for_reading_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
