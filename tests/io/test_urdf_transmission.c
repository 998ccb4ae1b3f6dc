// Transmissions of URDF: actuators with their gear, and what is not represented.

#include "support/assert.h"
#include "support/modelfile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#define LINK(name)                                                                                 \
    "<link name='" name "'><inertial><mass value='1'/><inertia ixx='0.1' iyy='0.1' izz='0.1'/>"    \
    "</inertial></link>"
#define JOINT(name, type, parent, child, more)                                                     \
    "<joint name='" name "' type='" type "'><parent link='" parent "'/><child link='" child        \
    "'/>" more "</joint>"
#define ROBOT(transmissions)                                                                       \
    "<robot>" LINK("a") LINK("b") LINK("c") LINK("d") LINK("e")                                    \
        JOINT("j", "revolute", "a", "b", "<limit lower='-1' upper='1' effort='10' velocity='1'/>") \
            JOINT("k", "prismatic", "b", "c", "<limit lower='-1' upper='1'/>")                     \
                JOINT("m", "continuous", "a", "d", "<mimic joint='j'/>")                           \
                    JOINT("f", "fixed", "a", "e", "") transmissions "</robot>"

static void transmissions_become_actuators(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        ROBOT("<transmission name='t'><type>transmission_interface/SimpleTransmission</type>"
              "<joint name='j'><hardwareInterface>EffortJointInterface</hardwareInterface></joint>"
              "<actuator name='motor'><mechanicalReduction> -50 </mechanicalReduction></actuator>"
              "</transmission>"
              "<transmission type='pr2_mechanism_model/SimpleTransmission' name='u'>"
              "<actuator name='motor'/><joint name='k'/>"
              "<mechanicalReduction>3</mechanicalReduction></transmission>"));
    assert_int_equal(ns_model_get_sizes(model).nu, 2);
    const ns_actuator_def *j = ns_model_actuator(model, 0), *k = ns_model_actuator(model, 1);
    assert_string_equal(j->name, "motor");
    assert_string_equal(j->joint, "j");
    assert_int_equal(j->type, NS_ACTUATOR_TORQUE);
    assert_true(j->gear == -50.0);
    // 10 N m at the joint are 0.2 N m at the motor.
    assert_true(j->force_limited && j->force_lower == -0.2 && j->force_upper == 0.2);
    assert_string_equal(k->name, "motor_"); // a name only once
    assert_string_equal(k->joint, "k");
    assert_true(k->gear == 3.0 && !k->force_limited);
    ns_model_free(model);
}

static void other_transmissions_are_noted(void** state) {
    (void)state;
    static const struct {
        const char *text, *note;
    } cases[] = {
        {"<joint name='j'/><joint name='k'/><actuator name='x'/>", "does not join one actuator"},
        {"<joint name='j'/>", "does not join one actuator to one joint"},
        {"<joint name='nobody'/><actuator name='x'/>", "a joint that is not in the file"},
        {"<joint/><actuator name='x'/>", "a joint that is not in the file"},
        {"<joint name='m'/><actuator name='x'/>", "a joint that follows another"},
        {"<joint name='f'/><actuator name='x'/>", "neither revolute nor prismatic"},
        {"<joint name='j'/><actuator><mechanicalReduction>0</mechanicalReduction></actuator>",
         "a mechanicalReduction that is not a number other than zero"},
        {"<joint name='j'/><actuator><mechanicalReduction/></actuator>",
         "a mechanicalReduction that is not a number other than zero"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[2000];
        snprintf(text, sizeof text, ROBOT("<transmission name='t'>%s</transmission>"),
                 cases[k].text);
        ns_model* model = modelfile_parse(text);
        assert_int_equal(ns_model_get_sizes(model).nu, 0);
        if (!modelfile_notes(model, cases[k].note)) fail_msg("no note: %s", cases[k].note);
        assert_true(modelfile_notes(model, "no <transmission> drives the joint"));
        ns_model_free(model);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transmissions_become_actuators),
        cmocka_unit_test(other_transmissions_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
