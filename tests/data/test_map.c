// Maps: what is read from YAML and from the names of columns, and what is refused, where and why.

#define _POSIX_C_SOURCE 200809L

#include "data/map.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <unistd.h>

static ns_data_map* parse(const char* text) {
    ns_data_map* map = NULL;
    ns_error error = {0};
    must(nsi_data_map_parse(text, strlen(text), "m.yaml", NULL, &map, &error), &error);
    return map;
}

static const char full[] =
    "columns: [run, t, a, b, c]\n"
    "trajectory: run\n"
    "resample: cubic\n"
    "max_gap: 0.02\n"
    "sources:\n"
    "  - where: {stream: obj, phase: '2'}\n"
    "    time: t/1000\n"
    "    offset: -0.5\n"
    "    time_repair: true\n"
    "    define:\n"
    "      w: a*deg\n"
    "      angle: unwrap(w)\n"
    "    quaternions: [[w, a, b, c]]\n"
    "    observe:\n"
    "      joint/x/position: {value: angle - pi/2, sigma: 0.1*deg, weight: 0}\n"
    "      joint/y/position: smooth(b, 5, 2)\n"
    "  - rate: 250\n"
    "    resample: nearest\n"
    "    observe: {q0: c}\n"
    "    control: {u/motor: '\"a\" * 2', tau0: 1}\n";

static void everything_is_read(void** state) {
    (void)state;
    ns_data_map* map = parse(full);
    assert_int_equal(map->columns.count, 5);
    assert_string_equal(map->columns.data[4], "c");
    assert_string_equal(map->trajectory, "run");
    assert_int_equal(map->sources.count, 2);

    const nsi_map_source* s = &map->sources.data[0];
    assert_int_equal(s->where.count, 2);
    assert_string_equal(s->where.data[1].column, "phase");
    assert_string_equal(s->where.data[1].text, "2");
    assert_true(s->rate == 0.0 && s->offset == -0.5 && s->time_repair && s->max_gap == 0.02);
    assert_string_equal(s->time.text, "t/1000");
    assert_int_equal(s->resample, NS_RESAMPLE_CUBIC);
    assert_int_equal(s->define.count, 2);
    assert_string_equal(s->define.data[1].name, "angle");
    assert_int_equal(s->define.data[1].line, 12);
    assert_int_equal(s->define.data[1].column, 14);
    assert_int_equal(s->quaternions.count, 1);
    assert_int_equal(s->quaternions.data[0].after, 1); // w is defined first

    s = &map->sources.data[1];
    assert_true(s->rate == 250.0 && !s->time.formula && !s->time_repair);
    assert_int_equal(s->resample, NS_RESAMPLE_NEAREST);
    assert_int_equal(s->first_channel, 2);
    assert_int_equal(s->first_control, 0);

    assert_int_equal(map->channels.count, 3);
    const ns_channel* c = &map->channels.data[0];
    assert_string_equal(c->name, "joint/x/position");
    assert_string_equal(c->value, "angle - pi/2");
    assert_true(fabs(c->sigma - 0.1 * 3.14159265358979323846 / 180.0) < 1e-18 && c->weight == 0.0);
    c = &map->channels.data[1];
    assert_true(c->sigma == 0.0 && c->weight == 1.0);
    assert_string_equal(map->channels.data[2].name, "q0");
    assert_int_equal(map->controls.count, 2);
    assert_string_equal(map->controls.data[1], "tau0");
    ns_data_map_free(map);
    ns_data_map_free(NULL);
}

static void files_are_read(void** state) {
    (void)state;
    const char* path = tempdir_write("m.yaml", "rate: 10\nobserve: {q0: a}\n");
    ns_data_map* map = NULL;
    ns_error error = {0};
    assert_int_equal(ns_data_map_load(path, NULL, &map, &error), NS_OK);
    assert_string_equal(map->file, path);
    ns_data_map_free(map);
    unlink(path);
    assert_int_equal(ns_data_map_load("/no/such/map.yaml", NULL, &map, &error), NS_ERR_IO);
    assert_null(map);
    assert_non_null(strstr(error.message, "/no/such/map.yaml"));
}

static void faults_have_a_place(void** state) {
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "m.yaml:1:1: "},
        {"a map", "m.yaml:1:1: "},
        {"rte: 5\nobserve: {q0: a}\n", "m.yaml:1:1: "},
        {"observe: {q0: a}\n", "m.yaml:1:1: neither rate nor time is given; "},
        {"rate: 5\ntime: t\nobserve: {q0: a}\n", "m.yaml:2:7: rate and time are both given; "},
        {"rate: 0\nobserve: {q0: a}\n", "m.yaml:1:7: "},
        {"rate: x\nobserve: {q0: a}\n", "m.yaml:1:7: "},
        {"rate: 5\n", "m.yaml:1:1: neither observe nor control is given; "},
        {"rate: 5\nobserve: q0\n", "m.yaml:2:10: observe: write a mapping such as "},
        {"rate: 5\nobserve: {}\n", "m.yaml:2:10: observe: write a mapping such as "},
        {"rate: 5\nobserve: {q0: a +}\n",
         "m.yaml:2:18: the formula ends where a number should come"},
        {"rate: 5\nobserve: {q0: 'a + ]'}\n",
         "m.yaml:2:20: expected a number, a name, a function or '('"},
        {"rate: 5\nobserve: {q0: {sigma: 1}}\n", "m.yaml:2:15: q0 has no value; "},
        {"rate: 5\nobserve: {q0: {value: a, sigma: -1}}\n", "m.yaml:2:33: this must be a finite "},
        {"rate: 5\nobserve: {q0: {value: a, sigma: b}}\n", "m.yaml:2:33: \"b\" is not known; "},
        {"rate: 5\nobserve: {q0: {value: a, wait: 1}}\n", "m.yaml:2:26: "},
        {"rate: 5\nobserve: {q0: [a]}\n", "m.yaml:2:15: "},
        {"rate: 5\nobserve: {q0: a, q0: b}\n", "m.yaml:2:"},
        {"sources:\n  - rate: 5\n    observe: {q0: a}\n  - rate: 5\n    observe: {q0: a}\n",
         "m.yaml:5:19: \"q0\" is given twice; remove one"},
        {"sources:\n  - rate: 5\n    control: {u: a}\n  - rate: 5\n    control: {u: a}\n",
         "m.yaml:5:18: \"u\" is given twice; remove one"},
        {"rate: 5\nsources: [{rate: 5, observe: {q0: a}}]\n", "m.yaml:1:1: "},
        {"sources: []\n", "m.yaml:1:10: sources: write a list of mappings "},
        {"sources: [{rate: 5, columns: [a], observe: {q0: a}}]\n", "m.yaml:1:21: "},
        {"rate: 5\nobserve: {q0: a}\ncolumns: a\n", "m.yaml:3:10: columns: write a list of names"},
        {"rate: 5\nobserve: {q0: a}\ncolumns: [a, b, a]\n",
         "m.yaml:3:17: columns: \"a\" is given twice; rename one"},
        {"rate: 5\nobserve: {q0: a}\nresample: spline\n", "m.yaml:3:11: "},
        {"rate: 5\nobserve: {q0: a}\nmax_gap: 0\n", "m.yaml:3:10: "},
        {"rate: 5\nobserve: {q0: a}\nuntil: a >\n", "m.yaml:3:10: "},
        {"rate: 5\nobserve: {q0: a}\nuntil: {a: 1}\n", "m.yaml:3:8: "},
        {"rate: 5\nobserve: {q0: a}\nsince: a >\n", "m.yaml:3:10: "},
        {"rows: columns\ntime: [0, 1]\nobserve: {q0: a}\n", "m.yaml:1:7: "},
        {"rows: recordings\nrate: 5\nobserve: {q0: a}\n", "m.yaml:2:1: "},
        {"rows: recordings\nobserve: {q0: a}\n", "m.yaml:1:7: rows: recordings needs the times"},
        {"rows: recordings\ntime: t\nobserve: {q0: a}\n",
         "m.yaml:2:7: rows: recordings needs the times of at least two samples"},
        {"rows: recordings\ntime: [1]\nobserve: {q0: a}\n", "m.yaml:2:7: rows: recordings needs"},
        {"rows: recordings\ntime: [0, 1]\nobserve: {q0: [a, b, c]}\n",
         "m.yaml:3:15: a list of 3 where time has 2: write a value for each sample, or one for "
         "all"},
        {"rows: recordings\ntime: [0, 1]\nobserve: {q0: [a, b +]}\n",
         "m.yaml:3:22: the formula ends"},
        {"rows: recordings\ntime: [0, [1]]\nobserve: {q0: a}\n", "m.yaml:2:11: "},
        {"rows: recordings\ntime: [0, 1]\nobserve: {q0: {value: a, sigma: [1, 2]}}\n",
         "m.yaml:3:33: "},
        {"rows: recordings\ntime: [0, 1]\ntrajectory: r\nobserve: {q0: a}\n", "m.yaml:3:1: "},
        {"rows: recordings\ntime: [0, 1]\nuntil: a\nobserve: {q0: a}\n", "m.yaml:3:1: "},
        {"rows: samples\ntime: [0, 1]\nobserve: {q0: a}\n", "m.yaml:2:7: "},
        {"rate: 5\nobserve: {q0: a}\ntable: index.csv\n", "m.yaml:3:8: "},
        {"rate: 5\nobserve: {q0: a}\ntable: {file: i.csv}\n", "m.yaml:3:8: table: write {file: "},
        {"rate: 5\nobserve: {q0: a}\ntable: {key: k}\n", "m.yaml:3:8: table: write {file: "},
        {"rate: 5\nobserve: {q0: a}\ntable: {file: i.csv, key: k, row: 1}\n", "m.yaml:3:30: "},
        {"rate: 5\nobserve: {q0: a}\ntable: {file: ../i.csv, key: k}\n",
         "m.yaml:3:15: table: write the name of a file beside the recordings, no folder"},
        {"rate: 5\nobserve: {q0: a}\ntable: {file: /etc/passwd, key: k}\n",
         "m.yaml:3:15: table: write the name of a file beside the recordings, no folder"},
        {"rate: 5\nobserve: {q0: a}\ntable: {file: '', key: k}\n", "m.yaml:3:15: "},
        {"sources: [{rate: 5, table: {file: i.csv, key: k}, observe: {q0: a}}]\n", "m.yaml:1:21: "},
        {"rate: 5\nobserve: {q0: a}\ntime_repair: maybe\n", "m.yaml:3:14: "},
        {"rate: 5\nobserve: {q0: a}\nquaternions: [[a, b, c]]\n",
         "m.yaml:3:15: quaternions: write a list of lists of four columns"},
        {"rate: 5\nobserve: {q0: a}\nwhere: [a]\n", "m.yaml:3:8: where: write a mapping such as "},
        {"rate: 5\nobserve: {q0: a}\ndefine: {a: b*}\n", "m.yaml:3:15: the formula ends "},
        {"rate: 5\nobserve: {q0: a}\ntrajectory: [a]\n", "m.yaml:3:13: "},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_data_map* map = NULL;
        ns_error error = {0};
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        ns_status status = nsi_data_map_parse(cases[k].text, strlen(cases[k].text), "m.yaml",
                                              &allocator, &map, &error);
        if (status != NS_ERR_PARSE || map) fail_msg("accepted: %s", cases[k].text);
        if (strncmp(error.message, cases[k].message, strlen(cases[k].message)) != 0) {
            fail_msg("%s\n  gives    %s\n  expected %s", cases[k].text, error.message,
                     cases[k].message);
        }
        assert_int_equal(counter.live_blocks, 0);
    }
}

static void numbers_of_things_are_limited(void** state) {
    (void)state;
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    nsi_text_add(&text, "rate: 5\nobserve:\n");
    for (int k = 0; k <= NSI_MAP_MAX_FORMULAS; k++) nsi_text_add(&text, "  x%d: a\n", k);
    ns_text map_text;
    assert_int_equal(nsi_text_finish(&text, &map_text, NULL), NS_OK);
    ns_data_map* map = NULL;
    ns_error error = {0};
    assert_int_equal(nsi_data_map_parse(map_text.data, map_text.size, "m.yaml", NULL, &map, &error),
                     NS_ERR_LIMIT);
    assert_string_equal(error.message, "m.yaml:4099:10: more than 4096 formulas; split the map");
    ns_text_free(&map_text);
}

static void every_prefix_is_survived(void** state) {
    (void)state;
    uint32_t good = 0;
    for (size_t size = 0; size < sizeof full; size++) {
        test_alloc counter = {0};
        ns_allocator allocator = test_allocator(&counter);
        ns_data_map* map = NULL;
        ns_error error = {0};
        ns_status status = nsi_data_map_parse(full, size, "m.yaml", &allocator, &map, &error);
        assert_int_equal(status, error.status);
        good += status == NS_OK;
        ns_data_map_free(map);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(good > 3);
}

static const char ends[] = "rows: recordings\n"
                           "define: {turn: [0, 'b - a']}\n"
                           "time: [0, t]\n"
                           "observe: {q0: {value: [a, nan], sigma: 0.1}, q1: [a, a + turn]}\n"
                           "control: {u: [c/t, 0]}\n";

static void rows_can_be_recordings(void** state) {
    (void)state;
    ns_data_map* map = parse(ends);
    assert_int_equal(map->row_samples, 2);
    assert_int_equal(map->channels.count, 2);
    assert_string_equal(map->channels.data[0].value, "[a, nan]");
    const nsi_map_source* s = &map->sources.data[0];
    assert_null(s->time.formula);
    assert_string_equal(s->time.each[1].text, "t");
    assert_null(s->observe.data[0].each[1].formula); // missing
    assert_non_null(s->observe.data[1].each[1].formula);
    ns_data_map_free(map);
}

static void fail_each_allocation(const char* text) {
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_data_map* map = NULL;
        ns_error error = {0};
        ns_status status =
            nsi_data_map_parse(text, strlen(text), "m.yaml", &allocator, &map, &error);
        ns_data_map_free(map);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_true(n > 20);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
    }
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    fail_each_allocation(full);
    fail_each_allocation(ends);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_read),
        cmocka_unit_test(files_are_read),
        cmocka_unit_test(faults_have_a_place),
        cmocka_unit_test(numbers_of_things_are_limited),
        cmocka_unit_test(every_prefix_is_survived),
        cmocka_unit_test(rows_can_be_recordings),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
