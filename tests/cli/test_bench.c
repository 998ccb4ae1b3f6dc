// The command bench: what its rows tell, with and without peers.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "cli/commands_rig.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The lines that "bench <arguments> --quick --json" printed, as an array.
static json_t* bench_rows(const char* arguments) {
    char line[256];
    snprintf(line, sizeof line, "bench %s --quick --json", arguments);
    run_ok(line);
    json_t* rows = json_array();
    for (const char* at = last.out; *at; at += strcspn(at, "\n") + 1) {
        char* text = strndup(at, strcspn(at, "\n"));
        json_array_append_new(rows, json_of(text));
        free(text);
    }
    return rows;
}

static const char* backend_of(const json_t* rows, size_t k) {
    return json_string_value(json_object_get(json_array_get(rows, k), "backend"));
}

static void bench_tells_of_contact(void** state) {
    (void)state;
    json_t* rows = bench_rows("double_pendulum/step pendulum5_ground/step --backend interp");
    assert_int_equal(json_array_size(rows), 4); // two cases, one and four lanes
    for (size_t k = 0; k < 4; k++) {
        const json_t* row = json_array_get(rows, k);
        static const char* const mean[] = {"sweeps", "solves"};
        assert_string_equal(backend_of(rows, k), "interp");
        assert_true(number(row, "ns") > 0.0);
        if (k < 2) {
            assert_true(json_is_null(json_object_get(row, "rows")));
        } else { // 5 spheres: all with the ground, and those that are not neighbours
            assert_true(number(row, "rows") == 3.0 * (5 + 6));
        }
        for (int m = 0; m < 2; m++) { // only if the step tells
            const json_t* value = json_object_get(row, mean[m]);
            assert_true(json_is_null(value) || (k >= 2 && json_number_value(value) >= 0.0));
        }
    }
    json_decref(rows);
    run_ok("bench double_pendulum/step --quick --backend interp");
    assert_says(last.out, "  rows  sweeps  solves\n");
    assert_says(last.out, "      -       -       -\n");
}

// Another simulator is timed where there is one; where there is none, that is no failure.
static void bench_times_peers(void** state) {
    (void)state;
    json_t* rows = bench_rows("pendulum5_ground --backend interp --peers");
    size_t count = json_array_size(rows);
    if (*last.err == '\0') { // two of the step, one of the peer, two of the gradient
        assert_int_equal(count, 5);
        assert_true(strncmp(backend_of(rows, 2), "mujoco-", 7) == 0);
        assert_true(number(json_array_get(rows, 2), "ns") > 0.0);
        assert_true(number(json_array_get(rows, 2), "rows") > 0.0);
        assert_true(number(json_array_get(rows, 2), "lanes") == 1.0);
    } else {
        assert_int_equal(count, 4);
        assert_says(last.err, "bench --peers: only our own rows: ");
    }
    json_decref(rows);

    // Files that are no libraries stand in the way of the ones there are.
    tempdir_write("libmujoco.so", "");
    tempdir_write("libmujoco.so.2.2.2", "");
    assert_int_equal(setenv("LD_LIBRARY_PATH", tempdir(), 1), 0);
    rows = bench_rows("double_pendulum/step --backend interp --peers");
    unsetenv("LD_LIBRARY_PATH");
    assert_int_equal(json_array_size(rows), 2);
    assert_says(last.err, "bench --peers: only our own rows: ");
    json_decref(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bench_tells_of_contact),
        cmocka_unit_test(bench_times_peers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
