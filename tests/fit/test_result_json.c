// Results as JSON: everything is there, as another reader sees it; memory may run out.

#define _XOPEN_SOURCE 700

#include "fit/result_rig.h"

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

    static const char* const keys[] = {"title",         "model",       "treatment",
                                       "setting",       "citation",    "unreliable_gradients",
                                       "failure",       "doubts",      "complete",
                                       "seconds",       "sigma",       "noise_known",
                                       "residuals",     "weights",     "parameters",
                                       "coefficients",  "correlation", "directions",
                                       "before",        "after",       "phases",
                                       "history",       "path_names",  "path",
                                       "data_warnings", "notes"};
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
    assert_string_equal(json_string_value(json_array_get(get(root, "data_warnings"), 0)), hostile);
    assert_string_equal(json_string_value(json_array_get(get(root, "notes"), 0)), hostile);
    json_decref(root);
    ns_text_free(&text);
    nsi_result_free(&a);
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
        cmocka_unit_test(json_has_it_all),
        cmocka_unit_test(no_memory_for_jansson_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
