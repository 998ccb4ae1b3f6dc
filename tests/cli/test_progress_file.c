// The file that tells how far a fit is: short histories without gaps, what was told.

#define _DEFAULT_SOURCE

#include "cli/progress_file.h"
#include "cli/waiting.h"
#include "support/assert.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

static uint32_t next_random(uint32_t* x) {
    return (*x = *x * 1664525u + 1013904223u) >> 16;
}

// Many iterations in phases of several lengths. The history is bounded, in order, holds only what
// happened, and knows where phases begin and end, if there are not too many of them.
static void check_history(uint32_t phases, uint32_t most) {
    progress_file* p = malloc(sizeof *p);
    double* ends = malloc(2 * phases * sizeof *ends);
    assert_true(p && ends);
    progress_file_begin(p, tempdir_path("not there"), "t"); // without a file
    assert_null(p->path);
    uint32_t x = phases;
    double time = 0.0;
    for (uint32_t k = 0; k < phases; k++) {
        uint32_t count = 1 + next_random(&x) % most;
        ends[2 * k] = time + 1.0;
        for (uint32_t i = 0; i < count; i++) {
            time += 1.0;
            ns_fit_progress now_at = {"phase", k, phases, i, count, 2.0 * time + k, time};
            progress_file_update(p, &now_at);
            assert_in_range(p->count, 1, PROGRESS_POINTS);
            assert_true(p->points[p->count - 1].seconds == time);
        }
        ends[2 * k + 1] = time;
    }
    uint32_t found = 0;
    for (uint32_t k = 0, end = 0; k < p->count; k++) {
        const progress_point* at = &p->points[k];
        assert_true(k == 0 || (at->seconds > at[-1].seconds && at->phase >= at[-1].phase));
        assert_true(at->loss == 2.0 * at->seconds + at->phase);
        while (end < 2 * phases && ends[end] < at->seconds) end++;
        for (; end < 2 * phases && ends[end] == at->seconds; end++) found++;
    }
    if (2 * phases < PROGRESS_POINTS / 2) assert_int_equal(found, 2 * phases);
    if (phases * most > 4 * PROGRESS_POINTS) assert_true(p->count >= PROGRESS_POINTS / 4);
    progress_file_end(p, "done", NULL);
    free(ends);
    free(p);
}

static void history_stays_short(void** state) {
    (void)state;
    check_history(1, 10);
    check_history(1, 100000);
    check_history(3, 30000);
    check_history(40, 5000);
    check_history(200, 50);
    check_history(5000, 3);
    check_history(3000, 1);
}

// An even share of the iterations is kept: no gap is longer than twice the stride.
static void history_has_no_gaps(void** state) {
    (void)state;
    progress_file p;
    progress_file_begin(&p, tempdir_path("not there"), "t");
    for (int k = 0; k < 123456; k++) {
        ns_fit_progress at = {"phase", 0, 1, 0, 0, k % 7 == 3 ? NAN : 1.0, k};
        progress_file_update(&p, &at);
    }
    double longest = 0.0;
    for (uint32_t k = 1; k < p.count; k++) {
        longest = fmax(longest, p.points[k].seconds - p.points[k - 1].seconds);
    }
    print_message("%u points, longest gap %g iterations of 123456\n", p.count, longest);
    assert_true(longest <= 2.0 * 123456 / (PROGRESS_POINTS / 4.0));
    assert_true(p.points[0].seconds == 0.0);
    progress_file_end(&p, "done", NULL);
}

static int syncs;

int fsync(int handle) { // instead of the system's
    (void)handle;
    syncs++;
    return 0;
}

static void the_file_is_what_was_told(void** state) {
    (void)state;
    progress_file p;
    syncs = 0;
    tempdir_mkdir("told");
    progress_file_begin(&p, tempdir_path("told"), "a \"title\"");
    json_t* file = json_load_file(tempdir_path("told/progress.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(file, "state")), "running");
    assert_string_equal(json_string_value(json_object_get(file, "title")), "a \"title\"");
    assert_true(json_is_null(json_object_get(file, "phase")));
    assert_true(json_is_null(json_object_get(file, "loss")));
    assert_int_equal(json_array_size(json_object_get(file, "history")), 0);
    json_decref(file);

    // It is not written for every iteration.
    ns_fit_progress at = {"one", 1, 2, 3, 4, 0.25, 1.5};
    double begin = now();
    progress_file_update(&p, &at);
    file = json_load_file(tempdir_path("told/progress.json"), 0, NULL);
    bool written = !json_is_null(json_object_get(file, "phase"));
    assert_true(!written || now() - begin > 0.4); // a slow machine
    json_decref(file);
    wait_milliseconds(550);
    at.seconds = 2.5;
    progress_file_update(&p, &at);
    file = json_load_file(tempdir_path("told/progress.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(file, "phase")), "one");
    assert_int_equal(json_integer_value(json_object_get(file, "number")), 1);
    assert_int_equal(json_integer_value(json_object_get(file, "count")), 2);
    assert_int_equal(json_integer_value(json_object_get(file, "iteration")), 3);
    assert_int_equal(json_integer_value(json_object_get(file, "iterations")), 4);
    assert_true(json_number_value(json_object_get(file, "loss")) == 0.25);
    assert_true(json_number_value(json_object_get(file, "seconds")) == 2.5);
    json_t* history = json_object_get(file, "history");
    assert_int_equal(json_array_size(history), 2);
    json_t* point = json_array_get(history, 0);
    assert_true(json_number_value(json_array_get(point, 0)) == 1.5);
    assert_true(json_number_value(json_array_get(point, 1)) == 0.25);
    assert_int_equal(json_integer_value(json_array_get(point, 2)), 1);
    json_decref(file);
    progress_file_end(&p, "failed", "why");
    file = json_load_file(tempdir_path("told/progress.json"), 0, NULL);
    assert_string_equal(json_string_value(json_object_get(file, "message")), "why");
    json_decref(file);
    assert_int_equal(syncs, 0); // a fit does not wait for the disk to tell how far it is
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(history_stays_short),
        cmocka_unit_test(history_has_no_gaps),
        cmocka_unit_test(the_file_is_what_was_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
