// Integrators by their records: every name works, and those that need forces refuse rigid contact.

#include "neuralsim/sim.h"
#include "sim/integrators.h"
#include "support/modelfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static const char pendulum[] =
    "<mujoco><worldbody><body><joint name='hinge' type='hinge' axis='0 1 0'/>"
    "<geom type='sphere' size='0.1' pos='0 0 -1' mass='1'/></body></worldbody></mujoco>";
static const char ball[] =
    "<mujoco><worldbody><geom type='plane' size='1 1 1'/><body pos='0 0 1'><freejoint/>"
    "<geom type='sphere' size='0.1' mass='1'/></body></worldbody></mujoco>";

static void every_name_has_a_record(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(pendulum);
    for (uint32_t k = 0; k < ns_integrators.count; k++) {
        ns_integrator integrator = (ns_integrator)ns_integrators.items[k].value;
        assert_non_null(nsi_integrator_get(integrator));
        ns_system_options options = ns_default_system_options();
        options.integrator = (int)integrator;
        ns_system* system = NULL;
        ns_error error;
        assert_int_equal(ns_system_create(model, &options, &system, &error), NS_OK);
        assert_int_equal(ns_system_get_sizes(system).integrator, integrator);
        ns_system_free(system);
    }
    assert_null(nsi_integrator_get((ns_integrator)ns_integrators.count));
    assert_null(nsi_integrator_get((ns_integrator)-1));
    ns_model_free(model);
}

static void rigid_contact_needs_support(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(ball);
    for (uint32_t k = 0; k < ns_integrators.count; k++) {
        ns_integrator integrator = (ns_integrator)ns_integrators.items[k].value;
        bool supported = nsi_integrator_has(integrator, NSI_RIGID_CONTACT);
        ns_system_options options = ns_default_system_options();
        options.integrator = (int)integrator;
        ns_system* system = NULL;
        ns_error error;
        ns_status status = ns_system_create(model, &options, &system, &error);
        assert_int_equal(status, supported ? NS_OK : NS_ERR_ARGUMENT);
        if (!supported) {
            assert_non_null(strstr(error.message, "rigid contact is not supported with"));
            assert_non_null(strstr(error.message, ns_integrators.items[k].name));
        }
        ns_system_free(system);
    }
    assert_false(nsi_integrator_has(NS_INTEGRATOR_RK4, NSI_RIGID_CONTACT));
    ns_model_free(model);
}

// What messages and the choice for rigid contact rely on.
static void traits_find_an_integrator(void** state) {
    (void)state;
    assert_int_equal(nsi_integrator_with(NSI_RIGID_CONTACT), NS_INTEGRATOR_EULER);
    assert_int_equal(nsi_integrator_with(NSI_STATE_NETWORKS), NS_INTEGRATOR_EULER);
    assert_string_equal(nsi_integrator_name_with(NSI_STIFF_JOINTS), "implicit");
    assert_false(nsi_integrator_has((ns_integrator)-1, NSI_RIGID_CONTACT));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_name_has_a_record),
        cmocka_unit_test(rigid_contact_needs_support),
        cmocka_unit_test(traits_find_an_integrator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
