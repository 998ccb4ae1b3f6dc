// Contact of robots with equality constraints, in all contact models: welded bodies touch as merged ones, a
// leg with two loops stands, gradients, and what is refused.

#include "neuralsim/gradcheck.h"
#include "neuralsim/neuralsim.h"
#include "support/assert.h"
#include "support/modelfile.h"
#include "support/trial.h"

#include <math.h>
#include <string.h>

static const char* const rigid_laws[] = {"ncp", "baumgarte", "convex"};
static const char* const all_laws[] = {"ncp", "baumgarte", "convex", "spring"};

static ns_system_options options_of(const char* law) {
    ns_system_options options = ns_default_system_options();
    assert_true(ns_choice_find(&ns_contact_laws, law, &options.contact));
    options.integrator = NS_INTEGRATOR_EULER;
    options.timestep = 1e-3;

    // Automatic springs suit the mass of a tree, which a weld does not change.
    static const ns_param_value springs[] = {{"contact/*/stiffness", 3e4},
                                             {"contact/*/damping", 1.0}};
    options.set = springs;
    options.nset = 2;
    return options;
}

// ---- welded bodies -------------------------------------------------------------------------------

// Two boxes, side by side, on a floor; as one body or as two that are welded. What they weigh is far apart,
// so that masses at contact matter.
#define BOX(x, mass) "<geom type='box' size='0.1 0.1 0.05' pos='" x " 0 0' mass='" mass "'/>"
#define SCENE(bodies, rest)                                                                        \
    "<mujoco><worldbody><geom name='floor' type='plane' size='5 5 1' friction='0.5'/>" bodies      \
    "</worldbody>" rest "</mujoco>"
static const char merged[] = SCENE(
    "<body name='a' pos='0 0 0.12'><freejoint/>" BOX("0", "1") BOX("0.3", "0.2") "</body>", "");
static const char welded[] =
    SCENE("<body name='a' pos='0 0 0.12'><freejoint/>" BOX(
              "0", "1") "</body>"
                        "<body name='b' pos='0.3 0 0.12'><freejoint/>" BOX("0", "0.2") "</body>",
          "<equality><weld name='w' body1='a' body2='b'/></equality>");

// Dropped flat and pushed, they hit the floor and slide. One body and the other part by what the impact tells
// two integrations of orientation apart, of the order of the step.
static void welded_boxes_slide_as_one(void** state) {
    (void)state;
    for (size_t k = 0; k < sizeof all_laws / sizeof *all_laws; k++) {
        ns_system_options options = options_of(all_laws[k]);
        options.timestep = 5e-4;
        enum { STEPS = 1200 };
        trial one = trial_make(merged, &options, STEPS), two = trial_make(welded, &options, STEPS);
        one.x0[7] = 1.0;
        two.x0[14] = two.x0[20] = 1.0;
        trial_run(&one);
        trial_run(&two);
        const double *a = trial_end(&one), *b = trial_end(&two);
        assert_true(a[0] > 0.05); // it has slid
        close_to("x", b[0], a[0], 2e-3);
        close_to("z", b[2], a[2], 1e-4);
        close_to("speed", b[14], a[7], 2e-2);
        double distance = sqrt((b[7] - b[0]) * (b[7] - b[0]) + (b[8] - b[1]) * (b[8] - b[1]) +
                               (b[9] - b[2]) * (b[9] - b[2]));
        close_to("distance", distance, 0.3, 1e-7);
        trial_free(&one);
        trial_free(&two);
    }
}

// ---- a leg with two loops ------------------------------------------------------------------------

// A base on two legs; on each a rod and a link close a loop from the base to the shin, as the springs of
// Cassie do. Held by the hips and rods, whose joints are coupled to nothing.
#define LEG(side, y)                                                                               \
    "<body name='thigh" side "' pos='0 " y " 0'><joint name='hip" side "' axis='0 1 0'/>"          \
    "<geom type='capsule' fromto='0 0 0 0.1 0 -0.35' size='0.02' mass='0.5' class='ghost'/>"       \
    "<body name='shin" side "' pos='0.1 0 -0.35'><joint name='knee" side "' axis='0 1 0'/>"        \
    "<geom type='capsule' fromto='0 0 0 -0.1 0 -0.35' size='0.02' mass='0.4' class='ghost'/>"      \
    "<geom name='foot" side "' type='box' pos='-0.05 0 -0.38' size='0.12 0.04 0.02' mass='0.2'/>"  \
    "</body></body><body name='rod" side "' pos='-0.12 " y " 0'>"                                  \
    "<joint name='crank" side "' axis='0 1 0'/>"                                                   \
    "<geom type='capsule' fromto='0 0 0 0.1 0 -0.35' size='0.01' mass='0.2' class='ghost'/>"       \
    "<body name='link" side "' pos='0.1 0 -0.35'><joint name='pin" side "' axis='0 1 0'/>"         \
    "<geom type='capsule' fromto='0 0 0 0.12 0 -0.1' size='0.01' mass='0.1' class='ghost'/>"       \
    "</body></body>"
#define LOOP(side)                                                                                 \
    "<connect name='loop" side "' body1='link" side "' body2='shin" side "' anchor='0.1 0 -0.1'/>" \
    "<joint name='hold" side "' joint1='hip" side "' polycoef='0 0 0 0 0'/>"                       \
    "<joint name='brake" side "' joint1='crank" side "' polycoef='0 0 0 0 0'/>"
static const char legs[] =
    "<mujoco><compiler angle='radian'/><default><default class='ghost'>"
    "<geom contype='0' conaffinity='0'/></default></default><worldbody>"
    "<geom name='floor' type='plane' size='5 5 1'/><body name='base' pos='0 0 0.75'><freejoint/>"
    "<geom type='box' size='0.15 0.2 0.05' mass='5' class='ghost'/>" LEG("L", "0.15")
        LEG("R", "-0.15") "</body></worldbody><equality>" LOOP("L")
            LOOP("R") "</equality></mujoco>";

// It stands where it was put, the floor carries its weight, and the loops stay closed.
static void a_leg_with_loops_stands(void** state) {
    (void)state;
    static const char* const observe[] = {"equality/*/violation", "contact/*/*/force/normal"};
    const double weight = (5.0 + 2.0 * (0.5 + 0.4 + 0.2 + 0.2 + 0.1)) * 9.81;
    for (size_t k = 0; k < 3; k++) {
        ns_system_options options = options_of(rigid_laws[k]);
        options.observe = observe;
        options.nobserve = 2;
        enum { STEPS = 1000 };
        trial t = trial_make(legs, &options, STEPS);
        trial_run(&t);
        all_close(trial_end(&t), t.x0, t.nq, 1e-5);
        double carried = 0.0;
        for (uint32_t i = 0; i < t.n.ny; i++) {
            double y = t.observations[(STEPS - 1) * (size_t)t.n.ny + i];
            if (strncmp(ns_system_observation_name(t.system, i), "contact", 7) == 0) {
                carried += y;
            } else {
                assert_true(fabs(y) < 1e-8);
            }
        }
        close_relative(carried, weight, 1e-4);
        trial_free(&t);
    }
}

// The forces of the loops are those that hold links which nothing else touches: about the pin that carries it,
// a link of mass 0.1 with its centre of mass at (0.06, -0.05) and the force at (0.1, -0.1) must balance.
static void forces_in_loops_are_statics(void** state) {
    (void)state;
    static const char* const observe[] = {"equality/loopL/force"};
    for (size_t k = 0; k < 3; k++) {
        ns_system_options options = options_of(rigid_laws[k]);
        options.observe = observe;
        options.nobserve = 1;
        enum { STEPS = 500 };
        trial t = trial_make(legs, &options, STEPS);
        trial_run(&t);
        const double* force = t.observations + (STEPS - 1) * (size_t)t.n.ny;

        // Torque about y by forces at (x, z): z fx - x fz.
        double torque = -0.1 * force[0] - 0.1 * force[2] + 0.06 * 0.1 * 9.81;
        assert_true(fabs(force[0]) > 10.0);
        close_to("torque about the pin", torque, 0.0, 1e-3);
        trial_free(&t);
    }
}

// ---- derivatives ---------------------------------------------------------------------------------

static void gradients_agree_with_differences(void** state) {
    (void)state;
    static const char* const parameters[] = {"equality/w/**", "link/*/mass", "contact/*/mu"};
    for (size_t k = 0; k < sizeof all_laws / sizeof *all_laws; k++) {
        ns_model* model = modelfile_parse(welded);
        ns_system_options options = options_of(all_laws[k]);
        options.free_params = parameters;
        options.nfree = 3;
        ns_system* system = NULL;
        ns_gradcheck_result* check = NULL;
        ns_error error = {0};
        must(ns_system_create(model, &options, &system, &error), &error);

        // Sliding on two corners of the second box.
        const double c = cos(0.02), s = sin(0.02), w = cos(0.01), y = sin(0.01);
        const double z = 0.05 * c + 0.1 * s - 1e-4;
        const double q0[14] = {0, 0, z + 0.3 * s, w, 0, y, 0, 0.3 * c, 0, z, w, 0, y, 0};
        const double qd0[12] = {1, 0.1, 0, 0, 0, 0, 1, 0.1, 0, 0, 0, 0};
        ns_gradcheck_options how = ns_default_gradcheck_options();
        how.q0 = q0;
        how.qd0 = qd0;
        must(ns_gradcheck(system, &how, &check, &error), &error);
        uint32_t good = 0;
        for (uint32_t i = 0; i < check->ninput; i++) {
            const ns_gradcheck_input* in = &check->inputs[i];
            if (in->verdict == NS_GRADCHECK_FAIL) {
                fail_msg("%s, %s: %.12g %.12g %.12g: %s", all_laws[k], in->name, in->reverse,
                         in->forward, in->difference, in->reason);
            }
            good += in->verdict == NS_GRADCHECK_OK;
        }
        // The convex law has kinks everywhere, for one body as for two.
        if (strcmp(all_laws[k], "convex") != 0) assert_true(good >= check->ninput * 2 / 3);
        ns_gradcheck_free(check);
        ns_system_free(system);
        ns_model_free(model);
    }
}

// ---- run time ------------------------------------------------------------------------------------

static void detection_at_run_time_is_refused(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(welded);
    ns_system_options options = options_of("ncp");
    options.detection = NS_DETECTION_RUN_TIME;
    ns_system* system = NULL;
    ns_error error = {0};
    assert_int_equal(ns_system_create(model, &options, &system, &error), NS_ERR_UNSUPPORTED);
    assert_says(error.message, "choose detection traced");
    assert_null(system);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(welded_boxes_slide_as_one),
        cmocka_unit_test(a_leg_with_loops_stands),
        cmocka_unit_test(forces_in_loops_are_statics),
        cmocka_unit_test(gradients_agree_with_differences),
        cmocka_unit_test(detection_at_run_time_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
