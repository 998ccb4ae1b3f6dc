// Formulas that set parameters by others.

#include "model/model_data.h"
#include "support/assert.h"
#include "sysid/parameter_map.h"
#include "sysid/parameter_rig.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static void formulas_set_parameters(void** state) {
    (void)state;
    nsi_parameter_request requests[] = {ask_own("length", 0.9, 0.1, 2.0), ask_own("m", 1.5, 0, NAN),
                                        ask("link/link1/mass")};
    nsi_setting_request settings[] = {
        set("link/link1/com/z", "-length / 2"),
        set("link/link0/mass", "m"),
        set("link/link1/inertia/yy", "\"link/link1/mass\" * length^2 / 12"),
        set("joint/*/damping", "0.01 * m + \"link/link0/inertia/yy\""),
    };
    ns_parameters* v = make(requests, 3, settings, 4);
    assert_int_equal(ns_parameters_count(v), 3);
    assert_int_equal(nsi_parameters_param_count(v, 0), 6);
    double *scratch = scratch_of(v), x[3] = {0.8, 1.2, 0.7}, p[6], z[3];
    nsi_parameters_params(v, 0, x, p, NULL, scratch);
    for (uint32_t k = 0; k < 6; k++) {
        const char* name = nsi_parameters_param_names(v, 0)[k];
        double expected = strstr(name, "com/z")        ? -0.4
                          : strstr(name, "link0/mass") ? 1.2
                          : strstr(name, "link1/mass") ? 0.7
                          : strstr(name, "inertia/yy") ? 0.7 * 0.64 / 12
                                                       : 0.01 * 1.2 + 0.085;
        assert_near(p[k], expected, 1e-15, name);
    }
    nsi_parameters_to_z(v, x, z);
    check_derivatives(v, z);
    free(scratch);
    ns_parameters_free(v);
}

// {} stands for what the * of the name stands for.
static void formulas_follow_their_names(void** state) {
    (void)state;
    nsi_parameter_request own = ask_own("a", 2.0, 0, NAN);
    nsi_setting_request s =
        set("link/*/mass", "a * \"link/{}/inertia/yy\" + 0 * \"link/{}/com/z\"");
    ns_parameters* v = make(&own, 1, &s, 1);
    double *scratch = scratch_of(v), x = 3.0, p[2];
    assert_int_equal(nsi_parameters_param_count(v, 0), 2);
    nsi_parameters_params(v, 0, &x, p, NULL, scratch);
    for (uint32_t k = 0; k < 2; k++) {
        char name[60];
        snprintf(name, sizeof name, "link/link%u/inertia/yy", k);
        assert_near(p[k],
                    3.0 * ns_model_param(pendulum, ns_model_find_param(pendulum, name))->value,
                    1e-15, name);
    }
    free(scratch);
    ns_parameters_free(v);
    s = set("link/link?/mass", "a * \"link/{}/inertia/yy\"");
    refuse(&own, 1, &s, 1, "7:9", "needs one *");
    s = set("l*/*/mass", "a * \"link/{}/inertia/yy\"");
    refuse(&own, 1, &s, 1, "7:9", "needs one *");
    s = set("link/*/mass", "a * \"link/{}/inertia/yyy\"");
    refuse(&own, 1, &s, 1, "7:9", "inertia/yyy");
}

// Where one of the names that fit has not all that the formula uses, the others still have it.
static void formulas_hold_where_they_can(void** state) {
    (void)state;
    static const char body[] = "<inertial pos='0 0 0' mass='2' diaginertia='1 1 1'/>";
    static const char* const links[] = {"h0", "other"};
    ns_model* models[2];
    ns_variant variants[2];
    for (int k = 0; k < 2; k++) {
        char text[600];
        snprintf(text, sizeof text,
                 "<mujoco><worldbody><body name='%s'><joint name='h0'/>%s</body>"
                 "<body name='h1'><joint name='h1'/>%s</body></worldbody></mujoco>",
                 links[k], body, body);
        assert_int_equal(ns_model_parse(text, strlen(text), "m.xml", NULL, &models[k], NULL),
                         NS_OK);
        variants[k] = (ns_variant){links[k], links[k], models[k], &no_options};
    }
    nsi_parameter_request own = ask_own("a", 2.0, 0, NAN);
    nsi_setting_request s = set("joint/*/armature", "a * \"link/{}/mass\"");
    ns_parameters* v = NULL;
    assert_int_equal(nsi_parameters_read(variants, 2, "e.yaml", &own, 1, &s, 1, NULL, &v, NULL),
                     NS_OK);
    assert_int_equal(nsi_parameters_param_count(v, 0), 2);
    assert_int_equal(nsi_parameters_param_count(v, 1), 1);
    assert_string_equal(nsi_parameters_param_names(v, 1)[0], "joint/h1/armature");
    ns_parameters_free(v);
    for (int k = 0; k < 2; k++) ns_model_free(models[k]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_set_parameters),
        cmocka_unit_test(formulas_follow_their_names),
        cmocka_unit_test(formulas_hold_where_they_can),
    };
    return cmocka_run_group_tests(tests, load_pendulum, free_pendulum);
}
