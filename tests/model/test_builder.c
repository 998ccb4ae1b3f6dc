// The model builder: the model it makes, its world, memory that runs out.

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>

static void one_rod(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("rod", NULL);
    add(builder, &link);
    ns_model* model = finish(builder);
    ns_model_sizes sizes = ns_model_get_sizes(model);
    assert_int_equal(sizes.nlink, 1);
    assert_int_equal(sizes.nq, 1);
    assert_int_equal(sizes.nv, 1);
    assert_int_equal(sizes.nu + sizes.ngeom + sizes.nignored, 0);
    assert_int_equal(sizes.nparam, NSI_LINK_PARAMS + 3);
    assert_string_equal(ns_model_name(model), "model");

    const ns_link_def* held = ns_model_link(model, 0);
    assert_string_equal(held->name, "rod");
    assert_string_equal(held->parent, "world");
    assert_string_equal(held->joint, "rod_joint");
    assert_true(held->axis[1] == 1.0);
    assert_true(held->friction_velocity == 0.01);
    assert_true(ns_model_world(model)->gravity[2] == -9.81);
    assert_true(ns_model_world(model)->timestep == 0.001);

    // Past the end there is nothing.
    assert_null(ns_model_link(model, 1));
    assert_null(ns_model_geom(model, 0));
    assert_null(ns_model_actuator(model, 0));
    assert_null(ns_model_ignored(model, 0));
    assert_null(ns_model_param(model, sizes.nparam));
    assert_int_equal(ns_model_link_parent(model, 1), UINT32_MAX);
    assert_int_equal(ns_model_joint_q(model, 1), UINT32_MAX);
    assert_int_equal(ns_model_joint_v(model, 1), UINT32_MAX);
    ns_model_free(model);
}

static void nothing_is_fine_too(void** state) {
    (void)state;
    ns_model* model = finish(new_builder());
    assert_int_equal(ns_model_get_sizes(model).nlink, 0);
    assert_int_equal(ns_model_get_sizes(model).nparam, 3);
    ns_model_default_q(model, NULL);
    ns_model_free(model);

    ns_model_free(NULL);
    ns_model_builder_free(NULL);
    assert_int_equal(ns_model_get_sizes(NULL).nlink, 0);
    assert_string_equal(ns_model_name(NULL), "");
    assert_null(ns_model_world(NULL));
    assert_null(ns_model_link(NULL, 0));
    assert_int_equal(ns_model_find_param(NULL, "x"), UINT32_MAX);
}

static void names_are_copied(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    char name[] = "first", joint[] = "hinge", text[] = "a note";
    ns_link_def link = rod(name, NULL);
    link.joint = joint;
    add(builder, &link);
    assert_int_equal(ns_model_builder_set_name(builder, text, NULL), NS_OK);
    assert_int_equal(ns_model_builder_add_ignored(builder, text, NULL), NS_OK);
    memset(name, 'x', sizeof name - 1);
    memset(joint, 'x', sizeof joint - 1);
    memset(text, 'x', sizeof text - 1);

    // The builder is left as it was: a second model, and one with more, can be made.
    ns_model* early = NULL;
    assert_int_equal(ns_model_builder_finish(builder, &early, NULL), NS_OK);
    link = rod("second", "first");
    add(builder, &link);
    ns_model* model = finish(builder);
    assert_int_equal(ns_model_get_sizes(early).nlink, 1);
    assert_int_equal(ns_model_get_sizes(model).nlink, 2);
    assert_string_equal(ns_model_link(early, 0)->joint, "hinge");
    assert_string_equal(ns_model_link(model, 1)->parent, "first");
    assert_string_equal(ns_model_name(model), "a note");
    assert_string_equal(ns_model_ignored(model, 0), "a note");
    ns_model_free(early);
    ns_model_free(model);
}

static void geometries_and_actuators(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("arm", NULL);
    add(builder, &link);
    ns_geom_def geom = ns_default_geom_def();
    geom.type = NS_GEOM_SPHERE;
    geom.size[0] = 0.1;
    geom.size[1] = 77.0; // a sphere has one size
    geom.name = "arm_geom1";
    geom.color[0] = 7.0;
    assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    geom.name = NULL;
    geom.link = "arm";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);
    }
    geom.link = NULL;
    geom.type = NS_GEOM_MESH;
    geom.mesh = "hand.stl";
    assert_int_equal(ns_model_builder_add_geom(builder, &geom, NULL), NS_OK);

    ns_actuator_def actuator = ns_default_actuator_def();
    actuator.joint = "arm_joint";
    actuator.gear = 3.0;
    assert_int_equal(ns_model_builder_add_actuator(builder, &actuator, NULL), NS_OK);
    actuator.name = "servo";
    actuator.type = NS_ACTUATOR_POSITION;
    actuator.kp = 10.0;
    actuator.control_limited = true;
    actuator.control_lower = -1.0, actuator.control_upper = 1.0;
    assert_int_equal(ns_model_builder_add_actuator(builder, &actuator, NULL), NS_OK);

    ns_model* model = finish(builder);
    assert_int_equal(ns_model_get_sizes(model).ngeom, 4);
    assert_string_equal(ns_model_geom(model, 0)->link, "world");
    assert_true(ns_model_geom(model, 0)->size[1] == 0.0);
    assert_true(ns_model_geom(model, 0)->color[0] == 1.0);
    assert_string_equal(ns_model_geom(model, 1)->name, "arm_geom0");
    assert_string_equal(ns_model_geom(model, 2)->name, "arm_geom2"); // 1 is taken
    assert_string_equal(ns_model_geom(model, 3)->name, "world_geom0");
    assert_string_equal(ns_model_geom(model, 3)->mesh, "hand.stl");
    assert_int_equal(model->geoms[0].link, NSI_NONE);
    assert_int_equal(model->geoms[1].link, 0);
    assert_int_equal(ns_model_get_sizes(model).nu, 2);
    assert_string_equal(ns_model_actuator(model, 0)->name, "arm_joint_motor");
    assert_int_equal(model->actuators[1].link, 0);
    assert_true(ns_model_actuator(model, 1)->control_upper == 1.0);
    ns_model_free(model);
}

static void the_world_can_be_set(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_world_def world = ns_default_world_def();
    world.gravity[0] = 1.5;
    world.timestep = 0.01;
    world.integrator = NS_INTEGRATOR_RK4;
    world.viscosity = 0.001;
    assert_int_equal(ns_model_builder_set_world(builder, &world, NULL), NS_OK);
    ns_model* model = finish(builder);
    assert_memory_equal(ns_model_world(model), &world, sizeof world);
    uint32_t number = ns_model_find_param(model, "world/gravity/x");
    assert_int_equal(number, model->gravity_param);
    assert_true(ns_model_param(model, number)->value == 1.5);
    ns_model_free(model);
}

static void bad_worlds_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_error error;
    ns_world_def world = ns_default_world_def();
    world.gravity[1] = NAN;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "gravity must be finite"));
    world = ns_default_world_def();
    world.timestep = 0.0;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "timestep must be positive"));
    world = ns_default_world_def();
    world.density = -1.0;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "density"));
    world = ns_default_world_def();
    world.viscosity = -1.0;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "viscosity"));
    world = ns_default_world_def();
    world.integrator = (ns_integrator)5;
    assert_int_equal(ns_model_builder_set_world(builder, &world, &error), NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "integrator"));
    assert_int_equal(ns_model_builder_set_world(builder, NULL, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_set_world(NULL, &world, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_set_name(builder, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_set_name(builder, "", NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_finish(builder, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_model_builder_create(NULL, NULL, NULL), NS_ERR_ARGUMENT);
    ns_model_builder_free(builder);
}

static ns_status build(const ns_allocator* allocator, ns_model** out, ns_error* error) {
    ns_model_builder* builder = NULL;
    ns_status status = ns_model_builder_create(allocator, &builder, error);
    if (status != NS_OK) return status;
    status = ns_model_builder_set_name(builder, "many", error);
    char name[20], parent[20];
    for (uint32_t i = 0; i < 30 && status == NS_OK; i++) {
        snprintf(name, sizeof name, "link%u", i);
        ns_link_def link = rod(name, i > 0 ? parent : NULL);
        status = ns_model_builder_add_link(builder, &link, error);
        snprintf(parent, sizeof parent, "%s", name);
        ns_geom_def geom = ns_default_geom_def();
        geom.link = name;
        geom.type = NS_GEOM_MESH;
        geom.mesh = "file.obj";
        if (status == NS_OK) status = ns_model_builder_add_geom(builder, &geom, error);
        ns_actuator_def actuator = ns_default_actuator_def();
        char joint[30];
        snprintf(joint, sizeof joint, "%s_joint", name);
        actuator.joint = joint;
        if (status == NS_OK) status = ns_model_builder_add_actuator(builder, &actuator, error);
        if (status == NS_OK) status = ns_model_builder_add_ignored(builder, "something", error);
    }
    if (status == NS_OK) status = ns_model_builder_finish(builder, out, error);
    ns_model_builder_free(builder);
    return status;
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    fail_each_allocation(build, NULL);
}

// After a failure half way through, the builder only says that there is no memory.
static void a_failed_builder_stays_failed(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_model_builder* builder = NULL;
    assert_int_equal(ns_model_builder_create(&allocator, &builder, NULL), NS_OK);
    counter.fail_at = counter.calls + 3; // the strings, the links, ...
    ns_link_def link = rod("a", NULL);
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_ERR_NOMEM);
    assert_int_equal(ns_model_builder_add_link(builder, &link, NULL), NS_ERR_NOMEM);
    ns_model* model = NULL;
    assert_int_equal(ns_model_builder_finish(builder, &model, NULL), NS_ERR_NOMEM);
    ns_model_builder_free(builder);
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rod),
        cmocka_unit_test(nothing_is_fine_too),
        cmocka_unit_test(names_are_copied),
        cmocka_unit_test(geometries_and_actuators),
        cmocka_unit_test(the_world_can_be_set),
        cmocka_unit_test(bad_worlds_are_named),
        cmocka_unit_test(memory_may_run_out_anywhere),
        cmocka_unit_test(a_failed_builder_stays_failed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
