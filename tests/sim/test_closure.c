// Moving states onto equality constraints: what is found satisfies them and is the nearest, and what cannot
// be is said.

#include "neuralsim/closure.h"

#include "support/assert.h"
#include "support/modelfile.h"

#include <math.h>
#include <string.h>

// A point mass on two sliders (2 kg along x, in all; 0.5 kg along y), on the parabola y = x^2.
static const char parabola[] =
    "<mujoco><worldbody><body><joint name='x' type='slide' axis='1 0 0'/>"
    "<inertial pos='0 0 0' mass='1.5' diaginertia='1 1 1'/>"
    "<body><joint name='y' type='slide' axis='0 1 0'/>"
    "<inertial pos='0 0 0' mass='0.5' diaginertia='1 1 1'/></body></body></worldbody><equality>"
    "<joint name='wire' joint1='y' joint2='x' polycoef='0 0 1 0 0' solref='0.5 1'/>"
    "</equality></mujoco>";

static ns_system* make_system(const ns_model* model, const char* free_param) {
    ns_system_options options = ns_default_system_options();
    options.free_params = &free_param;
    options.nfree = free_param ? 1 : 0;
    ns_system* system = NULL;
    ns_error error = {0};
    must(ns_system_create(model, &options, &system, &error), &error);
    return system;
}

static ns_closure* make_closure(const ns_system* system) {
    ns_closure* closure = NULL;
    ns_error error = {0};
    must(ns_closure_create(system, &closure, &error), &error);
    return closure;
}

static void a_state_is_moved_to_the_constraint(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(parabola);
    ns_system* system = make_system(model, NULL);
    ns_closure* closure = make_closure(system);
    ns_error error = {0};
    uint32_t constraint;
    double x[4] = {1.0, 1.01, 0.3, -0.2};
    close_to("violation", ns_closure_violation(closure, NULL, x, &constraint), 0.01, 1e-15);
    assert_int_equal(constraint, 0);
    must(ns_closure_close(closure, NULL, x, &error), &error);
    close_to("y", x[1], x[0] * x[0], 1e-13);
    close_to("velocity", x[3], 2.0 * x[0] * x[2], 1e-8);

    // What moved is M^-1 J' to first order, J = (-2 x, 1), M = (2, 0.5); so is the velocity, whose part along the
    // wire, (1, 2 x) M v, has stayed.
    double ratio = (x[0] - 1.0) / (x[1] - 1.01);
    close_to("direction", ratio, (-2.0 / 2.0) / (1.0 / 0.5), 0.02);
    double along = 2.0 * x[2] + 0.5 * 2.0 * x[0] * x[3];
    close_to("momentum", along, 2.0 * 0.3 + 0.5 * 2.0 * x[0] * -0.2, 0.01);

    // A state on the constraint stays, to rounding.
    double again[4];
    memcpy(again, x, sizeof x);
    must(ns_closure_close(closure, NULL, again, &error), &error);
    all_close(again, x, 4, 1e-8);
    ns_closure_free(closure);
    ns_system_free(system);
    ns_model_free(model);
}

static void parameters_count(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(parabola);
    ns_system* system = make_system(model, "equality/wire/coefficient/0");
    ns_closure* closure = make_closure(system);
    ns_error error = {0};
    double x[4] = {0.5, 0.3, 0.0, 0.0}, lifted = 0.04;
    close_to("of the model", ns_closure_violation(closure, NULL, x, NULL), 0.05, 1e-15);
    close_to("given", ns_closure_violation(closure, &lifted, x, NULL), 0.01, 1e-15);
    must(ns_closure_close(closure, &lifted, x, &error), &error);
    close_to("y", x[1], x[0] * x[0] + lifted, 1e-13);
    ns_closure_free(closure);
    ns_system_free(system);
    ns_model_free(model);
}

// Rods of length 1 and 1 at two points that are 3 apart cannot meet.
static void what_is_out_of_reach_is_said(void** state) {
    (void)state;
    static const char text[] =
        "<mujoco><compiler angle='radian'/><worldbody><body name='a'><joint axis='0 1 0'/>"
        "<geom type='capsule' size='0.01' fromto='0 0 0 0 0 1'/></body><body name='b' pos='3 0 0'>"
        "<joint axis='0 1 0'/><geom type='capsule' size='0.01' fromto='0 0 0 0 0 1'/></body>"
        "</worldbody><equality><weld name='idle' body1='a' body2='b' active='false'/>"
        "<weld name='far' body1='a' body2='b' relpose='0 0 1 1 0 0 0' anchor='0 0 1'/></equality>"
        "</mujoco>";
    ns_model* model = modelfile_parse(text);
    ns_system* system = make_system(model, NULL);
    ns_closure* closure = make_closure(system);
    ns_error error = {0};
    double x[4] = {0.2, -0.1, 0.5, 0.7}, before[4];
    uint32_t constraint;
    memcpy(before, x, sizeof x);
    assert_true(ns_closure_violation(closure, NULL, x, &constraint) > 0.9);
    assert_int_equal(constraint, 1);
    assert_int_equal(ns_closure_close(closure, NULL, x, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "\"far\" cannot be reached");
    same_bits("state", x, before, 4);
    ns_closure_free(closure);
    ns_system_free(system);
    ns_model_free(model);
}

// A planar loop of three hinges has three equations, of which two are independent; turned, too.
static void freedom_is_counted(void** state) {
    (void)state;
#define LOOP(turn)                                                                                 \
    "<mujoco><compiler angle='radian'/><worldbody><body " turn ">"                                 \
    "<body><joint axis='0 1 0'/><geom size='0.1'/><body pos='0 0 0.2'><joint axis='0 1 0'/>"       \
    "<geom size='0.1'/></body></body><body name='rocker' pos='0.5 0 0'><joint axis='0 1 0'/>"      \
    "<geom size='0.1'/></body></body></worldbody>"                                                 \
    "<equality><connect body1='rocker' body2='body3' anchor='0 0 0.4'/></equality></mujoco>"
    const char* const texts[] = {LOOP(""), LOOP("euler='0.3 0.4 0.5'"), parabola};
#undef LOOP
    for (int k = 0; k < 3; k++) {
        ns_model* model = modelfile_parse(texts[k]);
        ns_system* system = make_system(model, NULL);
        ns_closure* closure = make_closure(system);
        const double x[6] = {0.0};
        assert_int_equal(ns_closure_freedom(closure, NULL, x), 1);
        ns_closure_free(closure);
        ns_system_free(system);
        ns_model_free(model);
    }
}

// A weld is violated by the whole angle, up to half a turn, and closed from there.
static void welds_measure_the_angle(void** state) {
    (void)state;
    ns_model* model = modelfile_parse("<mujoco><compiler angle='radian'/><worldbody><body name='a'>"
                                      "<joint axis='0 1 0'/><geom size='0.1'/></body></worldbody>"
                                      "<equality><weld body1='a'/></equality></mujoco>");
    ns_system* system = make_system(model, NULL);
    ns_closure* closure = make_closure(system);
    ns_error error = {0};
    static const double angles[] = {0.0, 1e-5, -0.7, 1.5707, 2.0, -3.0, 3.14159};
    for (size_t k = 0; k < sizeof angles / sizeof *angles; k++) {
        double x[2] = {angles[k], 0.0};
        double violation = ns_closure_violation(closure, NULL, x, NULL);
        close_to("angle", violation, fabs(angles[k]), 1e-14);
        must(ns_closure_close(closure, NULL, x, &error), &error);
        close_to("closed", x[0], 0.0, 1e-12);
    }
    double half[2] = {3.14159265358979323846, 0.0};
    assert_true(ns_closure_violation(closure, NULL, half, NULL) > 3.1);
    ns_closure_free(closure);
    ns_system_free(system);
    ns_model_free(model);
}

static void without_constraints_nothing_happens(void** state) {
    (void)state;
    ns_model* model = modelfile_parse(
        "<mujoco><worldbody><body><joint/><geom size='1'/></body></worldbody></mujoco>");
    ns_system* system = make_system(model, NULL);
    ns_closure* closure = make_closure(system);
    double x[2] = {0.1, 0.2};
    uint32_t constraint;
    close_to("violation", ns_closure_violation(closure, NULL, x, &constraint), 0.0, 0.0);
    assert_int_equal(constraint, UINT32_MAX);
    assert_int_equal(ns_closure_close(closure, NULL, x, NULL), NS_OK);
    close_to("q", x[0], 0.1, 0.0);
    assert_int_equal(ns_closure_freedom(closure, NULL, x), 1);
    ns_closure_free(closure);
    ns_closure_free(NULL);
    assert_int_equal(ns_closure_create(NULL, &closure, NULL), NS_ERR_ARGUMENT);
    ns_system_free(system);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_state_is_moved_to_the_constraint),
        cmocka_unit_test(parameters_count),
        cmocka_unit_test(what_is_out_of_reach_is_said),
        cmocka_unit_test(freedom_is_counted),
        cmocka_unit_test(welds_measure_the_angle),
        cmocka_unit_test(without_constraints_nothing_happens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
