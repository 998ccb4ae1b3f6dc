// Maps inferred from the names of columns.

#define _POSIX_C_SOURCE 200809L

#include "data/map.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <unistd.h>

// Joints: base (floating), shoulder with a motor, elbow without.
static const char robot[] = "<mujoco><worldbody>"
                            "<body name='trunk'><freejoint name='base'/>"
                            "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
                            "<body name='upper'><joint name='shoulder' type='hinge' axis='0 1 0'/>"
                            "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
                            "<body name='lower'><joint name='elbow' type='hinge' axis='0 1 0'/>"
                            "<inertial pos='0 0 0' mass='1' diaginertia='1 1 1'/>"
                            "</body></body></body></worldbody>"
                            "<actuator><motor name='drive' joint='shoulder'/></actuator></mujoco>";

static ns_model* make_robot(void) {
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(robot, strlen(robot), "robot.xml", NULL, &model, &error), &error);
    return model;
}

static ns_status infer(const ns_model* model, const char* header, const ns_allocator* allocator,
                       ns_data_map** out, ns_error* error) {
    const char* path = tempdir_write("t.csv", header);
    ns_status status = ns_data_map_infer(path, model, allocator, out, error);
    // Messages name the file, which is in another folder each time.
    char* at = strstr(error->message, path);
    if (at == error->message) {
        memmove(error->message, error->message + strlen(path), strlen(at + strlen(path)) + 1);
    }
    unlink(path);
    return status;
}

static void columns_are_known_by_name(void** state) {
    (void)state;
    ns_model* model = make_robot();
    static const struct {
        const char *column, *channel, *control, *formula;
    } cases[] = {
        {"q0", "q0", NULL, "q0"},
        {"q8", "q8", NULL, "q8"},
        {"qd7", "qd7", NULL, "qd7"},
        {"q_shoulder", "q7", NULL, "q_shoulder"},
        {"qd_elbow", "qd7", NULL, "qd_elbow"},
        {"q_base_3", "q3", NULL, "q_base_3"},
        {"qd_base_5", "qd5", NULL, "qd_base_5"},
        {"joint/elbow/position", "joint/elbow/position", NULL, "\"joint/elbow/position\""},
        {"energy/total", "energy/total", NULL, "\"energy/total\""},
        {"u_shoulder", NULL, "u/drive", "u_shoulder"},
        {"u_drive", NULL, "u/drive", "u_drive"},
        {"u/drive", NULL, "u/drive", "\"u/drive\""},
        {"u_elbow", NULL, "tau7", "u_elbow"},
        {"tau_elbow", NULL, "tau7", "tau_elbow"},
        {"tau0", NULL, "tau0", "tau0"},
        {"tau_base_1", NULL, "tau1", "tau_base_1"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char header[200];
        snprintf(header, sizeof header, "traj,step,time,%s,strange\n", cases[k].column);
        ns_data_map* map = NULL;
        ns_error error = {0};
        must(infer(model, header, NULL, &map, &error), &error);
        const nsi_map_source* s = &map->sources.data[0];
        assert_string_equal(s->time.text, "time");
        assert_string_equal(map->trajectory, "traj");
        assert_int_equal(map->unused.count, 1);
        assert_string_equal(map->unused.data[0], "strange");
        assert_int_equal(map->channels.count, cases[k].channel ? 1 : 0);
        assert_int_equal(map->controls.count, cases[k].control ? 1 : 0);
        if (cases[k].channel) assert_string_equal(map->channels.data[0].name, cases[k].channel);
        if (cases[k].control) assert_string_equal(map->controls.data[0], cases[k].control);
        assert_string_equal((cases[k].channel ? s->observe.data : s->control.data)[0].text,
                            cases[k].formula);
        ns_data_map_free(map);
    }
    ns_data_map* map = NULL;
    ns_error error = {0};
    assert_int_equal(infer(model, "t,q0,q1,q2,q3,q4,q5,q6\n", NULL, &map, &error), NS_OK);
    assert_int_equal(map->sources.data[0].quaternions.count, 1); // of the floating joint
    assert_string_equal(map->sources.data[0].quaternions.data[0].names[0], "q3");
    ns_data_map_free(map);
    ns_model_free(model);
}

static void tables_of_other_models_are_refused(void** state) {
    (void)state;
    ns_model* model = make_robot();
    static const struct {
        const char *header, *message;
    } cases[] = {
        {"t,a,b\n",
         ":1: no column name is known: t, a, b; known names are q0, qd0, q_<joint> "
         "(q_base), names of quantities, u_<joint>, tau0, t, traj; rename columns or give a map"},
        {"t,q9\n", ":1: column q9: the model has only 9 of them; is this the table of another "
                   "model?"},
        {"t,tau8\n", ":1: column tau8: the model has only 8 of them; is this the table of another "
                     "model?"},
        {"q0,q1\n", ":1: column t (time in s) is missing; add it, or give a map with the sample "
                    "rate (rate: 400)"},
        {"t,q7,q_shoulder\n", ":1:1: \"q7\" is given twice; remove one"},
        {"t,q8,link/upper/mass,q_base,u_base,u_none,u/none\n", NULL},
        {"0.1,0.2\n", ":1:1: the first row has the number 0.1 where a column's name should be; put "
                      "a row with names first"},
        {"", ":1:1: there is no table; the first row must name the columns"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_data_map* map = NULL;
        ns_error error = {0};
        ns_status status = infer(model, cases[k].header, NULL, &map, &error);
        if (cases[k].message) {
            assert_int_equal(status, NS_ERR_PARSE);
            assert_string_equal(error.message, cases[k].message);
        } else {
            assert_int_equal(status, NS_OK);
            assert_int_equal(map->unused.count, 5); // parameters are not measured
        }
        ns_data_map_free(map);
    }
    ns_model_free(model);
}

static void failing_inferences_are_reported(void** state) {
    (void)state;
    ns_model* model = make_robot();
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_data_map* map = NULL;
        ns_error error = {0};
        ns_status status =
            infer(model, "traj,t,q_elbow,q3,q4,q5,q6,u_elbow,strange\n", &allocator, &map, &error);
        ns_data_map_free(map);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_true(n > 10);
            break;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
    }
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_known_by_name),
        cmocka_unit_test(tables_of_other_models_are_refused),
        cmocka_unit_test(failing_inferences_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
