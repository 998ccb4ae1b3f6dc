// Sensors that a builder refuses.

#include "model/builder_rig.h"
#include "support/assert.h"

static void expect_error(ns_model_builder* builder, const ns_sensor_def* sensor, const char* says) {
    ns_error error;
    assert_int_equal(ns_model_builder_add_sensor(builder, sensor, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, says);
}

static void bad_sensors_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    ns_error error;
    add(builder, &link);
    ns_sensor_def good = ns_default_sensor_def(), sensor;
    good.name = "s", good.joint = "a_joint";
    sensor = good;
    sensor.type = (ns_sensor_type)99;
    expect_error(builder, &sensor, "type is none of ns_sensor_type");
    sensor = good;
    sensor.joint = NULL;
    expect_error(builder, &sensor, "a jointpos is of one joint; name that alone");
    sensor.joint = "a_joint", sensor.link = "a";
    expect_error(builder, &sensor, "name that alone");
    sensor = good;
    sensor.joint = "nobody";
    expect_error(builder, &sensor, "there is no joint \"nobody\"");
    sensor = good;
    sensor.type = NS_SENSOR_BALL_QUATERNION;
    expect_error(builder, &sensor, "joint \"a_joint\" must be spherical");
    sensor = good;
    sensor.type = NS_SENSOR_GYRO, sensor.joint = NULL, sensor.site = "x";
    expect_error(builder, &sensor, "there is no site \"x\"");
    sensor = good;
    sensor.cutoff = -1.0;
    expect_error(builder, &sensor, "cutoff must be zero or positive");
    must(ns_model_builder_add_sensor(builder, &good, &error), &error);
    expect_error(builder, &good, "another sensor has this name");
    sensor = good;
    sensor.name = "all", sensor.joint = NULL, sensor.link = "world";
    sensor.type = NS_SENSOR_SUBTREE_COM;
    must(ns_model_builder_add_sensor(builder, &sensor, &error), &error);
    ns_model_builder_free(builder);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_sensors_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
