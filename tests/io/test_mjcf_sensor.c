// What sensors of MJCF files become.

#include "io/mjcf_rig.h"

#define FILE_WITH(sensors)                                                                         \
    "<mujoco><worldbody><body name='a'><joint name='j'/>" BALL "<site name='s'/></body>"           \
    "</worldbody><actuator><muscle name='m' joint='j'/></actuator><sensor>" sensors                \
    "</sensor></mujoco>"

static void sensors_are_read(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        FILE_WITH("<jointpos joint='j' cutoff='2'/><gyro name='g' site='s'/>"
                  "<framepos objtype='body' objname='a'/><framequat objtype='xbody' objname='a'/>"
                  "<framequat objtype='site' objname='s'/><subtreecom body='world'/>"));
    assert_int_equal(ns_model_get_sizes(model).nsensor, 6);
    const ns_sensor_def* s = ns_model_sensor(model, 0);
    assert_string_equal(s->name, "sensor0");
    assert_true(s->type == NS_SENSOR_JOINT_POSITION && s->cutoff == 2.0);
    assert_string_equal(ns_model_sensor(model, 1)->name, "g");
    assert_true(ns_model_sensor(model, 2)->at_com && !ns_model_sensor(model, 3)->at_com);
    assert_string_equal(ns_model_sensor(model, 4)->site, "s");
    ns_model_free(model);
}

static void frames_are_relative_to_others(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        FILE_WITH("<framepos objtype='body' objname='a' reftype='site' refname='s'/>"
                  "<framequat objtype='site' objname='s' reftype='xbody' refname='a'/>"));
    assert_int_equal(ns_model_get_sizes(model).nignored, 1); // the muscle
    const ns_sensor_def* s = ns_model_sensor(model, 0);
    assert_string_equal(s->ref_site, "s");
    assert_true(s->at_com && !s->ref_link);
    assert_string_equal(ns_model_sensor(model, 1)->ref_link, "a");
    ns_model_free(model);
    assert_says(modelfile_error(FILE_WITH("<framepos objtype='site' objname='s' reftype='site' "
                                          "refname='x'/>"),
                                NS_ERR_PARSE),
                "there is no site \"x\"");
    assert_says(modelfile_error(FILE_WITH("<framepos objtype='site' objname='s' reftype='site'/>"),
                                NS_ERR_PARSE),
                "refname is missing");
}

static void what_is_not_represented_is_noted(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(FILE_WITH(
        "<touch site='s'/><framepos objtype='geom' objname='x'/><actuatorfrc actuator='m'/>"
        "<framequat objtype='body' objname='a'/>"
        "<framepos objtype='site' objname='s' reftype='body' refname='a'/>"
        "<framepos objtype='site' objname='s' reftype='camera' refname='c'/>"));
    assert_int_equal(ns_model_get_sizes(model).nsensor, 0);
    assert_true(modelfile_notes(model, "<touch>"));
    assert_true(modelfile_notes(model, "objtype geom: not represented"));
    assert_true(modelfile_notes(model, "objtype body: not represented; use xbody"));
    assert_true(modelfile_notes(model, "reftype body: not represented; use xbody"));
    assert_true(modelfile_notes(model, "reftype camera: not represented"));
    assert_true(modelfile_notes(model, "actuator \"m\" is not represented: left out"));
    ns_model_free(model);
    assert_says(modelfile_error(FILE_WITH("<gyro site='x'/>"), NS_ERR_PARSE),
                "there is no site \"x\"");
    assert_says(modelfile_error(FILE_WITH("<framepos objtype='site'/>"), NS_ERR_PARSE), "objname");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sensors_are_read),
        cmocka_unit_test(frames_are_relative_to_others),
        cmocka_unit_test(what_is_not_represented_is_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
