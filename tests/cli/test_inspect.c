// The commands inspect and names: what a model holds, as text and as JSON.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "cli/commands_rig.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

// ---- inspect -------------------------------------------------------------------------------

static void inspect_tells_what_was_read(void** state) {
    (void)state;
    run_ok("inspect " PENDULUM " --params");
    assert_says(last.out, "pendulum: 1 link, nq 1, nv 1, nu 0, total mass 2 kg\n");
    assert_says(last.out, "gravity 0 0 -9.81 m/s^2, time step 0.001 s, integrator euler\n");
    assert_says(last.out,
                "rod  hinge revolute   q0        qd0       at 0 0 0, axis 0 1 0, damping 0.3");
    assert_says(last.out, "rod    2           0 0 -0.7; 0.1 0.1 0.01 0 0 0\n");
    assert_says(last.out, "<gazebo> in <robot name=\"pendulum\"> is not represented\n");
    assert_says(last.out, "joint/hinge/damping");
    assert_says(last.out, "N m s/rad  [0, inf] log\n");

    run_ok("inspect " MODELS "quadruped.urdf");
    assert_says(last.out, "13 links, nq 19, nv 18, nu 0, total mass 15.6 kg\n");
    assert_says(last.out, "\n  trunk          root    floating   q0..6     qd0..5 ");
    assert_says(last.out, "\n        FR_calf  FR_knee revolute   q9        qd8 ");
    assert_null(strstr(last.out, "pairs that can touch"));
    run_ok("inspect --ground " MODELS "quadruped.urdf");
    assert_says(last.out,
                "\npairs that can touch\n  trunk_geom1:ground               box and plane, ncp, "
                "mu 1, restitution 0\n");
    assert_null(strstr(last.out, "FR_calf_geom3:trunk_geom1"));
    run_ok("inspect --self-collision " MODELS "quadruped.urdf");
    assert_says(last.out, "\n  FR_calf_geom3:trunk_geom1        sphere and box, ncp, mu 1");
    run_ok("quantities --params --ground " MODELS
           "quadruped.urdf 'contact/FL_calf_geom3:ground/*'");
    assert_says(last.out, "parameters\n");
    assert_says(last.out, "  contact/FL_calf_geom3:ground/mu          1 \n");
    assert_says(last.out, "  contact/FL_calf_geom3:ground/max_push    2 m/s\n");

    run_ok("inspect " DATA "../mjcf/contact.xml");
    assert_says(last.out,
                "foot:step                        sphere and box, ncp, mu 0.8, mu_torsion "
                "0.005 m, restitution 0\n");
    run_ok("inspect " DATA "turning.xml");
    assert_says(last.out,
                ", spring, mu 1, mu_torsion 0.02 m (no effect: spring has no such friction), "
                "mu_rolling 0.003 m (no effect: spring has no such friction), restitution 0");

    run_ok("inspect " DATA "motors.xml");
    assert_says(last.out, "u0   m_left               torque on j_left, gear 3\n");
    assert_says(last.out, "u1   m_right              position on j_right, gear 1, kp 4\n");
    assert_memory_equal(last.out, "complete: nothing of the file that changes the motion", 53);
    assert_null(strstr(last.out, "ignored"));
}

static void what_is_missing_comes_first(void** state) {
    (void)state;
    run_ok("inspect " DATA "../mjcf/incomplete.xml");
    assert_memory_equal(last.out,
                        "1 thing that changes the motion is not represented\n  line 4: ", 61);
    assert_says(last.out, "\nignored, without effect on the motion\n");
    run_ok("inspect --json " DATA "../mjcf/incomplete.xml");
    json_t* root = json_of(last.out);
    assert_false(json_is_true(json_object_get(root, "complete")));
    assert_int_equal(json_array_size(json_object_get(root, "not_represented")), 1);
    assert_true(json_array_size(json_object_get(root, "ignored")) > 1);
    json_decref(root);

    // Names that nobody knows.
    run_ok("inspect " DATA "../mjcf/unknown.xml");
    assert_says(last.out, "1 thing that changes the motion is not represented\n  line 5: ");
    assert_says(last.out, "\n3 things are unknown and may change the motion\n  line 3: <geoms>");
    assert_null(strstr(last.out, "complete: "));
    run_ok("inspect --json " DATA "../mjcf/unknown.xml");
    root = json_of(last.out);
    assert_false(json_is_true(json_object_get(root, "complete")));
    assert_int_equal(json_array_size(json_object_get(root, "not_represented")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "unknown")), 3);
    json_decref(root);
    run_ok("simulate " DATA "../mjcf/unknown.xml --steps 1");
    assert_says(last.err, "3 parts of ");
    assert_says(last.err, "that may change the motion are unknown and ignored");

    // Sites, tendons and sensors.
    run_ok("inspect " DATA "../mjcf/instruments.xml");
    assert_says(last.out, "\nsites\n  w                        on world, at 0 0 2\n");
    assert_says(last.out,
                "\ntendons\n  f                        fixed: +2 j, stiffness 3, limits -1 to 2\n");
    assert_says(last.out, "  s                        spatial: w around ball by up p / 2: w p\n");
    assert_says(last.out, "\nsensors\n  g                        gyro of p: angular velocity, site "
                          "(rad/s), cutoff 5\n");
    run_ok("inspect --json " DATA "../mjcf/instruments.xml");
    root = json_of(last.out);
    assert_int_equal(json_array_size(json_object_get(root, "sites")), 3);
    json_t* tendon = json_array_get(json_object_get(root, "tendons"), 1);
    assert_int_equal(json_array_size(json_object_get(tendon, "parts")), 6);
    json_t* around = json_array_get(json_object_get(tendon, "parts"), 1);
    assert_string_equal(json_string_value(json_object_get(around, "geom")), "ball");
    json_t* sensor = json_array_get(json_object_get(root, "sensors"), 0);
    assert_string_equal(json_string_value(json_object_get(sensor, "type")), "gyro");
    json_decref(root);

    // Keyframes.
    run_ok("inspect " DATA "../mjcf/keyframes.xml");
    assert_says(last.out, "keyframes (the first is where simulations start)\n  home      ");
    run_ok("inspect --json " DATA "../mjcf/keyframes.xml");
    root = json_of(last.out);
    assert_true(json_is_true(json_object_get(root, "complete")));
    json_t* home = json_array_get(json_object_get(root, "keyframes"), 0);
    assert_int_equal(json_array_size(json_object_get(home, "q")), 13);
    close_relative(json_number_value(json_array_get(json_object_get(home, "control"), 1)), 3.0,
                   0.0);
    json_decref(root);
}

static void inspect_as_json(void** state) {
    (void)state;
    run_ok("inspect " DATA "four_bar.xml");
    assert_says(last.out, "connect, rocker and coupler, 3 equations");
    assert_says(last.out,
                "equations: 3; velocities: 3; degrees of freedom in the model's pose: 1\n");

    run_ok("inspect --json " PENDULUM);
    json_t* root = json_of(last.out);
    assert_string_equal(json_string_value(json_object_get(root, "name")), "pendulum");
    close_relative(number(root, "total_mass"), 2.0, 0.0);
    close_relative(number(root, "nv"), 1.0, 0.0);
    json_t* link = json_array_get(json_object_get(root, "links"), 0);
    assert_string_equal(json_string_value(json_object_get(link, "parent")), "world");
    json_t* joint = json_object_get(link, "joint");
    close_relative(number(joint, "damping"), damping, 0.0);
    close_relative(json_number_value(json_array_get(json_object_get(joint, "axis"), 1)), 1.0, 0.0);
    json_t* params = json_object_get(root, "parameters");
    assert_int_equal(json_array_size(params), 32);
    assert_int_equal(json_array_size(json_object_get(root, "ignored")) +
                         json_array_size(json_object_get(root, "not_represented")),
                     1);
    assert_int_equal(json_array_size(json_object_get(root, "pairs")), 0);
    json_decref(root);

    run_ok("inspect --json --ground " MODELS "quadruped.urdf");
    root = json_of(last.out);
    json_t* pair = json_array_get(json_object_get(root, "pairs"), 1);
    assert_string_equal(json_string_value(json_object_get(pair, "name")), "FR_hip_geom1:ground");
    assert_string_equal(json_string_value(json_object_get(pair, "a")), "FR_hip_geom1");
    assert_string_equal(json_string_value(json_object_get(pair, "b_type")), "plane");
    assert_string_equal(json_string_value(json_object_get(pair, "model")), "ncp");
    close_relative(number(pair, "mu"), 1.0, 0.0);
    close_relative(number(pair, "mu_torsion"), 0.0, 0.0);
    close_relative(number(pair, "mu_rolling"), 0.0, 0.0);
    close_relative(number(pair, "restitution"), 0.0, 0.0);
    json_decref(root);
}

// ---- names ---------------------------------------------------------------------------------

static void names_lists_everything(void** state) {
    (void)state;
    run_ok("quantities " MODELS "quadruped.urdf --params");
    assert_says(last.out, "states\n  q/0          q_root_0\n");
    assert_says(last.out, "  q/18         q_RL_knee\n");
    assert_says(last.out, "controls\n  tau/0        tau_root_0\n");
    assert_says(last.out, "\nquantities      ");
    assert_line("  qdd [18]", "m/s^2, rad/s^2", "acceleration  yes");
    assert_line("  mass_matrix [18 x 18]", "kg, kg m, kg m^2", "state         yes");
    assert_line("  energy/kinetic", "J", "state         no");
    assert_line("  link/*/pose [x y z qw qx qy qz]", "m, -", "state         no       13 links");
    assert_line("  link/*/jacobian/linear [3 x 18]", "-, m", "after         no       13 links");
    assert_line("  link/*/force [x y z]", "N", "forces        yes      13 links");
    assert_true(strstr(last.out, "\n  bias [18]") <
                strstr(last.out, "\n  qdd [18]")); // as in the step
    assert_says(last.out, "parameters\n");
    assert_says(last.out, "  link/trunk/mass                          8 kg\n");

    run_ok("quantities " MODELS "quadruped.urdf 'link/trunk/pose' --all");
    static const char* const parts[] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    int lines = 0;
    for (const char* at = last.out; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 1 + 7);
    for (int k = 0; k < 7; k++) {
        char name[64];
        snprintf(name, sizeof name, "  link/trunk/pose/%s", parts[k]);
        assert_line(name, k < 3 ? "m" : "-", "state         no");
    }
    run_ok("quantities " PENDULUM " 'q*'");
    assert_line("  q [1]", "rad", "start         yes");
    assert_line("  qdd [1]", "rad/s^2", "acceleration  yes");
    run_ok("quantities --ground " MODELS "quadruped.urdf");
    assert_line("  contact/*/*/depth", "m", "impulses      yes      32 points");
    assert_line("  contact/penetration", "m", "after         no");
    run_bad("quantities " PENDULUM " nothing", 1, "no name in the model matches 'nothing'");

    // Quantities depend on how contact is treated; a table with those of springs is a table of
    // states all the same.
    tempdir_write("ground.xml",
                  "<mujoco><option integrator='Euler'/><worldbody>"
                  "<geom name='g' type='plane' size='5 5 1'/><body name='b' pos='0 0 0.1'>"
                  "<joint name='z' type='slide' axis='0 0 1'/>"
                  "<geom name='b' type='sphere' size='0.1' mass='1'/></body></worldbody></mujoco>");
    run_ok("quantities ground.xml 'contact/**'");
    assert_says(last.out, "contact/b:g/0/force/normal");
    assert_true(strstr(last.out, "elastic") == NULL);
    run_ok("quantities ground.xml 'contact/**' --contact spring");
    assert_says(last.out, "contact/b:g/0/force/elastic");
    assert_says(last.out, "contact/b:g/0/friction");
    run_ok("quantities ground.xml --contact baumgarte --friction pyramid --sweeps 5");
    run_ok("quantities ground.xml 'contact/**' --contact none");
    assert_true(strstr(last.out, "force") == NULL);
    run_ok("simulate ground.xml --steps 5 --contact spring --observe 'contact/**' -o spring.csv");
    run_ok("simulate ground.xml --steps 5 --contact spring --state spring.csv");

    // An integrator that does not go with impulses hides no names.
    tempdir_write("rk4.xml",
                  "<mujoco><option integrator='RK4'/><worldbody>"
                  "<geom name='g' type='plane' size='5 5 1'/><body name='b' pos='0 0 0.1'>"
                  "<joint name='z' type='slide' axis='0 0 1'/>"
                  "<geom name='b' type='sphere' size='0.1' mass='1'/></body></worldbody>"
                  "</mujoco>");
    run_ok("quantities rk4.xml 'contact/**' --contact spring");
    assert_says(last.out, "contact/b:g/0/force/elastic");
    run_ok("quantities rk4.xml 'contact/**'");
    assert_says(last.out, "contact/b:g/0/force/normal");

    run_ok("quantities " DATA "motors.xml --json");
    json_t* root = json_of(last.out);
    json_t* controls = json_object_get(root, "controls");
    assert_int_equal(json_array_size(controls), 4);
    const json_t* first = json_array_get(controls, 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "control/m_left");
    assert_string_equal(json_string_value(json_object_get(first, "column")), "u_m_left");
    json_t* quantities = json_object_get(root, "quantities");
    size_t k;
    json_t* entry;
    bool found = false;
    json_array_foreach(quantities, k, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), "mass_matrix") != 0) continue;
        json_t* shape = json_object_get(entry, "shape");
        assert_int_equal(json_integer_value(json_array_get(shape, 0)), 2);
        assert_int_equal(json_integer_value(json_array_get(shape, 1)), 2);
        assert_string_equal(json_string_value(json_object_get(entry, "unit")), "kg m^2");
        assert_string_equal(json_string_value(json_object_get(entry, "stage")), "state");
        assert_string_equal(json_string_value(json_object_get(entry, "network")), "yes");
        found = true;
    }
    assert_true(found);
    json_decref(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inspect_tells_what_was_read),
        cmocka_unit_test(what_is_missing_comes_first),
        cmocka_unit_test(inspect_as_json),
        cmocka_unit_test(names_lists_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
