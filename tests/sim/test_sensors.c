// Quantities of sites and sensors against their definitions. tests/io/test_mujoco_drives.c has MuJoCo's
// readings.

#include "dyn/gradient_rig.h"
#include "neuralsim/sim.h"
#include "support/evaluate.h"
#include "support/modelfile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A wheel that turns about z with a sensor on its rim, whose x axis points along the rim.
#define WHEEL(more)                                                                                \
    "<mujoco><compiler angle='radian'/><option gravity='0 0 -9.81' timestep='0.01'/><worldbody>"   \
    "<body><joint name='hub' axis='0 0 1'/><inertial pos='0 0 0' mass='1' diaginertia='1 1 2'/>"   \
    "<site name='rim' pos='0.5 0 0' euler='0 0 1.5707963267948966'/></body></worldbody>"           \
    "<actuator><motor name='m' joint='hub'/></actuator>" more "</mujoco>"

// Speed r w along the rim; the accelerometer feels r dw/dt along it, r w^2 towards the hub (+y of the
// site), and what holds it against gravity.
static void a_rim_feels_what_it_should(void** state) {
    (void)state;
    static const char* const observe[] = {"site", "sensor", NULL};
    ns_model* model = modelfile_parse(
        WHEEL("<sensor><accelerometer name='a' site='rim'/><gyro name='g' site='rim' cutoff='1'/>"
              "<framelinvel name='v' objtype='site' objname='rim'/></sensor>"));
    evaluator* e = evaluator_create(model, observe);
    const double w = 3.0, torque = 4.0, q = 0.7;
    e->q[0] = q, e->qd[0] = w, e->u[0] = torque;
    evaluator_run(e);
    close_to("position", *evaluator_get(e, "site/rim/position/x"), 0.5 * cos(q), 1e-15);
    close_to("orientation", *evaluator_get(e, "site/rim/orientation/qz"),
             sin(0.5 * q + 0.785398163397448), 1e-14);
    close_to("speed", *evaluator_get(e, "site/rim/velocity/linear/x"), 0.5 * w, 1e-14);
    close_to("spin", *evaluator_get(e, "site/rim/velocity/angular/z"), w, 1e-15);
    close_to("along", *evaluator_get(e, "sensor/a/x"), 0.5 * torque / 2.0, 1e-14);
    close_to("inwards", *evaluator_get(e, "sensor/a/y"), 0.5 * w * w, 1e-14);
    close_to("up", *evaluator_get(e, "sensor/a/z"), 9.81, 1e-14);
    close_to("cut off", *evaluator_get(e, "sensor/g/z"), 1.0, 1e-15);
    close_to("in the world", *evaluator_get(e, "sensor/v/x"), -0.5 * w * sin(q), 1e-14);
    evaluator_free(e);
    ns_model_free(model);
}

// With rigid contact, the accelerometer of a box that lies on the ground reads the weight's reaction.
static void accelerometers_feel_impulses(void** state) {
    (void)state;
    static const char* const observe[] = {"sensor"};
    ns_model* model = modelfile_parse(
        "<mujoco><option timestep='0.002'/><worldbody><geom type='plane' size='1 1 1'/>"
        "<body pos='0 0 0.1'><freejoint/><geom type='box' size='0.1 0.1 0.1' mass='1'/>"
        "<site name='s'/></body></worldbody><sensor><accelerometer name='a' site='s'/></sensor>"
        "</mujoco>");
    ns_system_options options = ns_default_system_options();
    options.observe = observe;
    options.nobserve = 1;
    options.contact = NS_CONTACT_NCP;
    double x0[13];
    ns_model_default_q(model, x0);
    memset(x0 + 7, 0, 6 * sizeof *x0);
    uint32_t ny;
    double* y = observe_rollout(model, &options, x0, 200, &ny);
    assert_int_equal(ny, 3);
    close_to("reaction", y[199 * 3 + 2], 9.81, 1e-2);
    close_to("sideways", y[199 * 3], 0.0, 1e-6);
    free(y);
    ns_model_free(model);
}

// Observed sensors pull on the parameters that they depend on: reverse against forward mode.
static void sensors_have_gradients(void** state) {
    (void)state;
    static const char* const observe[] = {"sensor"};
    static const char* const free_params[] = {"link/*/mass", "actuator/m/gear"};
    ns_model* model =
        modelfile_parse(WHEEL("<sensor><accelerometer name='a' site='rim'/></sensor>"));
    ns_system_options options = ns_default_system_options();
    options.observe = observe, options.nobserve = 1;
    options.free_params = free_params, options.nfree = 2;
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error;
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_workspace_size size = {.batch = 1, .steps = 1, .threads = 1};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    double x0[2] = {0.3, 2.0}, c[2] = {4.0, 0.0}, y[3], seeds[3] = {1.0, 0.0, 0.0};
    double dparams[2] = {0.0}, params[2] = {1.0, 1.0};
    ns_rollout_args args = {
        .batch = 1, .steps = 1, .x0 = x0, .controls = c, .params = params, .observations = y};
    ns_rollout_adjoint adjoint = {.observation_seeds = seeds, .dparams = dparams};
    must(ns_rollout(system, work, &args, &error), &error);
    must(ns_rollout_vjp(system, work, &args, &adjoint, &error), &error);
    close_to("d(acceleration)/d(gear)", dparams[1], 0.5 * 4.0 / 2.0, 1e-13); // r u / I
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rim_feels_what_it_should),
        cmocka_unit_test(accelerometers_feel_impulses),
        cmocka_unit_test(sensors_have_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
