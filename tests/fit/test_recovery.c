// Synthetic recovery: what the data was made with is found again, or said not to be in it.

#include "fit/fit_state.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

// ---- every parameter by itself -----------------------------------------------------------------

typedef struct trial {
    const char* text;      // of the model
    ns_param_value set[2]; // values instead of the model's; NULL: no more
    motion motion;         // its model is filled in
    const char* settings;  // further lines of the experiment
    const char* only;      // glob of parameters; NULL: all
} trial;

// Largest difference between two recordings.
static double difference(const char* one, const char* other) {
    FILE *a = fopen(tempdir_path(one), "r"), *b = fopen(tempdir_path(other), "r");
    assert_true(a && b);
    char x[4096], y[4096];
    double most = 0.0;
    while (fgets(x, sizeof x, a) && fgets(y, sizeof y, b)) {
        char *p = x, *q = y, *p_end, *q_end;
        for (;; p = p_end + 1, q = q_end + 1) {
            double u = strtod(p, &p_end), v = strtod(q, &q_end);
            if (p_end == p || q_end == q) break;
            most = fmax(most, fabs(u - v));
            if (*p_end != ',') break;
        }
    }
    fclose(a);
    fclose(b);
    return most;
}

static void record(const trial* t, const char* also, double value, const char* file) {
    motion m = t->motion;
    ns_param_value set[3] = {t->set[0], t->set[1]};
    while (set[m.options.nset].pattern) m.options.nset++;
    if (also) set[m.options.nset++] = (ns_param_value){also, value};
    m.options.set = set;
    motion_record(&m, file);
}

// Somewhere near; limits are moved into the motion, where they can be felt.
static double elsewhere(const ns_param* p) {
    double value = p->value != 0.0 ? 1.05 * p->value : strstr(p->name, "inertia") ? 2e-4 : 0.02;
    bool limit = strstr(p->name, "/lower") || strstr(p->name, "/upper");
    return value > p->upper || limit ? 0.95 * p->value : value;
}

// From one-step predictions, which are smooth where long ones are not: when a limit or the floor is
// hit a step earlier, everything after it is different.
static void recover_each(trial* t, uint32_t* found, uint32_t* none) {
    char path[256];
    snprintf(path, sizeof path, "%s", tempdir_path("robot.xml"));
    t->motion.model = path;
    experiment_write("robot.xml", "%s", t->text);
    experiment_write("truth.yaml", "robot: robot.xml\n%s",
                     t->set[0].pattern ? "parameters:\n" : "");
    for (int k = 0; k < 2 && t->set[k].pattern; k++) {
        FILE* file = fopen(tempdir_path("truth.yaml"), "a");
        assert_non_null(file);
        fprintf(file, "  \"%s\": %.17g\n", t->set[k].pattern, t->set[k].value);
        fclose(file);
    }
    record(t, NULL, 0.0, "truth.csv");
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_load(path, NULL, &model, &error), &error);
    *found = *none = 0;
    for (uint32_t k = 0; k < ns_model_get_sizes(model).nparam; k++) {
        ns_param p = *ns_model_param(model, k);
        if (t->only && !ns_glob_match(t->only, p.name)) continue;
        for (int i = 0; i < 2 && t->set[i].pattern; i++) {
            if (ns_glob_match(t->set[i].pattern, p.name)) p.value = t->set[i].value;
        }
        double start = elsewhere(&p);
        record(t, p.name, start, "other.csv");
        double effect = difference("truth.csv", "other.csv");
        experiment_write("fit.yaml",
                         "model: truth.yaml\ndata: {train: [truth.csv]}\n"
                         "timestep: %.17g\nparameters: {\"%s\": {initial: %.17g}}\n%s"
                         "train: {window: one, initial_state: recorded}\n",
                         t->motion.options.timestep, p.name, start, t->settings);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        if (ns_fit_run(fit, NULL, &error) != NS_OK) fail_msg("%s: %s", p.name, error.message);
        const ns_estimate* e = &fit->result.estimates.data[0];
        double off = fabs(e->value - p.value) / fmax(fabs(p.value), 0.02);
        bool good = effect <= 1e-12 ? e->verdict == NS_VERDICT_NO_EFFECT
                                    : e->verdict != NS_VERDICT_NO_EFFECT && off <= 1e-6;
        if (!good) {
            fail_msg("%s is %g, found %g from %g, verdict %d; its effect is %g", p.name, p.value,
                     e->value, start, (int)e->verdict, effect);
        }
        *(effect <= 1e-12 ? none : found) += 1;
        ns_fit_free(fit);
    }
    ns_model_free(model);
}

static const char pendulum[] =
    "<mujoco><option timestep='0.005'/><worldbody>"
    "<body name='upper'><joint name='shoulder' type='hinge' axis='0 1 0' damping='0.1'"
    " frictionloss='0.2' stiffness='1.5' springref='0.3' armature='0.05'/>"
    "<inertial pos='0.02 0.01 -0.4' mass='1.5' fullinertia='0.05 0.06 0.02 0.001 0.002 0.003'/>"
    "<body name='lower' pos='0 0.1 -0.8'><joint name='elbow' type='hinge' axis='0.2 0.9 0.1'"
    " damping='0.05' frictionloss='0.1' stiffness='0.5' armature='0.02' limited='true'"
    " range='-40 40'/>"
    "<inertial pos='0.01 0.02 -0.3' mass='0.8' fullinertia='0.03 0.04 0.02 0.001 0.002 0.003'/>"
    "</body></body></worldbody>"
    "<actuator><motor name='torque' joint='shoulder' gear='2'/>"
    "<position name='servo' joint='elbow' kp='3' kv='0.1'/></actuator></mujoco>";

static void parameters_of_a_driven_pendulum(void** state) {
    (void)state;
    static const double x0[] = {0.9, -0.5, 0.5, -1.0};
    trial t = {.text = pendulum, .motion = motion_of(NULL, 0.005, 201), .settings = ""};
    t.motion.x0 = x0;
    t.motion.push = 1.0;
    uint32_t found, none;
    recover_each(&t, &found, &none);
    print_message("found %u, %u without effect\n", found, none);
    assert_true(found >= 45);
}

static const char thrown[] =
    "<mujoco><option timestep='0.005'/><worldbody>"
    "<geom name='floor' type='plane' size='5 5 1' friction='0.4'/>"
    "<body name='ball' pos='0 0 0.5'><freejoint/><geom name='skin' type='%s' size='%s'"
    " friction='0.3' mass='1.2'/></body></worldbody></mujoco>";

static void throw_it(const char* shape, const char* size, ns_contact_model contact, double speed,
                     const char* only, uint32_t least) {
    const double x0[] = {0, 0, 0.2, 1, 0, 0, 0, speed, 0.5, -1.0, 1.0, 2.0, 3.0};
    char text[1000];
    snprintf(text, sizeof text, thrown, shape, size);
    trial t = {.text = text, .motion = motion_of(NULL, 0.005, 101), .only = only};
    t.settings = contact == NS_CONTACT_NCP ? "contact: ncp\n" : "contact: spring\n";
    if (contact == NS_CONTACT_NCP) t.set[0] = (ns_param_value){"contact/*/restitution", 0.6};
    t.motion.x0 = x0;
    t.motion.options.contact = (int)contact;
    uint32_t found, none;
    recover_each(&t, &found, &none);
    print_message("%s, %s: found %u, %u without effect\n", shape, only ? only : "all", found, none);
    assert_true(found >= least);
}

static void parameters_of_things_that_touch(void** state) {
    (void)state;
    throw_it("sphere", "0.1", NS_CONTACT_SPRING, 1.0, NULL, 25);
    throw_it("box", "0.1 0.12 0.08", NS_CONTACT_SPRING, 1.0, NULL, 25);
}

// Rigid contact: whether a step bounces jumps with gravity and with where things are.
static void parameters_of_things_that_bounce(void** state) {
    (void)state;
    throw_it("sphere", "0.1", NS_CONTACT_NCP, 7.0, "contact/**", 3); // mu, restitution, cfm
    throw_it("sphere", "0.1", NS_CONTACT_NCP, 1.0, "link/**", 10);
}

// ---- several together --------------------------------------------------------------------------

// Without limits, and with inertias that have room to all sides.
static const char smooth[] =
    "<mujoco><option timestep='0.005'/><worldbody>"
    "<body name='upper'><joint name='shoulder' type='hinge' axis='0 1 0' damping='0.1'"
    " frictionloss='0.2' stiffness='1.5' armature='0.05'/>"
    "<inertial pos='0 0 -0.4' mass='1.5' diaginertia='0.06 0.06 0.06'/>"
    "<body name='lower' pos='0 0 -0.8'><joint name='elbow' type='hinge' axis='0 1 0'"
    " damping='0.05'/>"
    "<inertial pos='0 0 -0.3' mass='0.8' diaginertia='0.04 0.04 0.04'/></body></body></worldbody>"
    "<actuator><motor name='torque' joint='shoulder' gear='2'/>"
    "<position name='servo' joint='elbow' kp='3'/></actuator></mujoco>";

static void write_swing(double sigma, uint64_t seed, bool velocities) {
    static const char* const positions[] = {"q0", "q1"};
    static const double x0[] = {0.9, -0.5, 0.5, -1.0, -0.7, 0.3, 0.0, 1.0};
    experiment_write("robot.xml", "%s", smooth);
    motion m = motion_of(tempdir_path("robot.xml"), 0.005, 101);
    m.runs = 2;
    m.x0 = x0;
    m.push = 1.0;
    m.channels = velocities ? NULL : positions;
    m.nchannel = velocities ? 0 : 2;
    m.sigma = sigma;
    m.seed = seed;
    motion_record(&m, "swing.csv");
}

static const struct {
    const char* name;
    double truth;
} together[] = {{"link/upper/com/z", -0.4},        {"link/lower/mass", 0.8},
                {"link/lower/com/z", -0.3},        {"joint/shoulder/damping", 0.1},
                {"joint/elbow/damping", 0.05},     {"joint/shoulder/friction", 0.2},
                {"joint/shoulder/stiffness", 1.5}, {"actuator/torque/gear", 2.0},
                {"actuator/servo/kp", 3.0}};
enum { TOGETHER = sizeof together / sizeof *together };

static void many_parameters_and_all_start_states(void** state) {
    (void)state;
    static const char* const fits[] = {"train: {window: 25}\n",
                                       "train: {window: 25, initial_state: tied}\n",
                                       "train: {window: [5, 20, 50]}\n"};
    for (int k = 0; k < 3; k++) {
        write_swing(0.0, 0, k == 2);
        FILE* file = fopen(tempdir_path("fit.yaml"), "w");
        assert_non_null(file);
        fprintf(file,
                "model: robot.xml\ndata: {train: [swing.csv]}\ntimestep: 0.005\n%s"
                "parameters:\n",
                fits[k]);
        for (int i = 0; i < TOGETHER; i++) {
            fprintf(file, "  %s: %.17g\n", together[i].name,
                    together[i].truth * (i % 2 ? 1.2 : 0.85));
        }
        fclose(file);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        for (int i = 0; i < TOGETHER; i++) {
            double value;
            assert_true(ns_fit_estimate(fit, together[i].name, &value, NULL));
            if (!(fabs(value - together[i].truth) <= 1e-6 * fabs(together[i].truth))) {
                fail_msg("%s%s: %.10g", fits[k], together[i].name, value);
            }
        }
        ns_fit_free(fit);
    }
}

// Of mass, centre and inertia about it a swinging rod shows m c and I + m c^2: what cannot be told
// apart is said, and what is shown is right.
static void what_is_not_in_the_data_is_said(void** state) {
    (void)state;
    experiment_write("rod.xml",
                     "<mujoco><option timestep='0.005'/><worldbody><body name='rod'>"
                     "<joint name='j' type='hinge' axis='0 1 0'/>"
                     "<inertial pos='0 0 -0.4' mass='1.5' diaginertia='0.08 0.05 0.04'/></body>"
                     "</worldbody><actuator><motor name='m' joint='j'/></actuator></mujoco>");
    motion m = motion_of(tempdir_path("rod.xml"), 0.005, 201);
    m.x0 = (const double[]){0.8, 0.0};
    m.push = 1.0;
    m.sigma = 1e-3;
    motion_record(&m, "rod.csv");
    experiment_write("fit.yaml", "model: rod.xml\ndata: {train: [rod.csv]}\ntimestep: 0.005\n"
                                 "parameters: {link/rod/mass: 1.7, link/rod/com/z: -0.35,"
                                 " link/rod/inertia/yy: 0.055, link/rod/com/y: 0.01}\n");
    ns_fit* fit = experiment_load("fit.yaml", 1);
    ns_error error = {0};
    must(ns_fit_run(fit, NULL, &error), &error);
    double mass, z, yy;
    ns_fit_estimate(fit, "link/rod/mass", &mass, NULL);
    ns_fit_estimate(fit, "link/rod/com/z", &z, NULL);
    ns_fit_estimate(fit, "link/rod/inertia/yy", &yy, NULL);
    assert_true(fabs(mass * z + 0.6) < 0.01 && fabs(yy + mass * z * z - 0.29) < 0.01);
    for (uint32_t k = 0; k < 4; k++) {
        const ns_estimate* e = &fit->result.estimates.data[k];
        bool y = strcmp(e->name, "link/rod/com/y") == 0;
        assert_int_equal(e->verdict, y ? NS_VERDICT_NO_EFFECT : NS_VERDICT_UNDETERMINED);
    }
    assert_true(fit->result.directions.count >= 1 && fit->result.directions.data[0].null);
    ns_fit_free(fit);
}

// ---- noise -------------------------------------------------------------------------------------

enum { REPEATS = 200 };

// How often the truth lies within 1.96 and 3 standard errors, of REPEATS recordings with noise.
static void cover(const char* fit_line, bool velocities, double least) {
    static const char* const names[] = {"link/lower/mass", "joint/elbow/damping",
                                        "actuator/torque/gear"};
    static const double truth[] = {0.8, 0.05, 2.0};
    uint32_t within[3] = {0}, far = 0;
    experiment_write("map.yaml",
                     "time: t\ntrajectory: traj\nobserve:\n"
                     "  q0: {value: q0, sigma: 0.005}\n  q1: {value: q1, sigma: 0.005}\n%s"
                     "control:\n  u/torque: \"\\\"u/torque\\\"\"\n"
                     "  u/servo: \"\\\"u/servo\\\"\"\n  tau0: tau0\n  tau1: tau1\n",
                     velocities ? "  qd0: {value: qd0, sigma: 0.005}\n"
                                  "  qd1: {value: qd1, sigma: 0.005}\n"
                                : "");
    experiment_write(
        "fit.yaml",
        "model: robot.xml\ndata: {train: [swing.csv], map: map.yaml}\n"
        "timestep: 0.005\nparameters: {link/lower/mass: 0.9, joint/elbow/damping: 0.07,"
        " actuator/torque/gear: 1.8}\n%s",
        fit_line);
    for (uint32_t repeat = 0; repeat < REPEATS; repeat++) {
        write_swing(0.005, 1000 + repeat, velocities);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        for (int k = 0; k < 3; k++) {
            double value, deviation;
            assert_true(ns_fit_estimate(fit, names[k], &value, &deviation));
            assert_true(deviation > 0.0);
            within[k] += fabs(value - truth[k]) <= 1.96 * deviation;
            far += fabs(value - truth[k]) > 3.0 * deviation;
        }
        ns_fit_free(fit);
    }
    for (int k = 0; k < 3; k++) {
        double share = (double)within[k] / REPEATS;
        print_message("%s%s: %.1f %%\n", fit_line, names[k], 100.0 * share);
        if (!(share >= least && share <= 0.99)) fail_msg("%s: %g", names[k], share);
    }
    assert_true(far <= 3 * REPEATS / 50);
}

static void errors_are_as_large_as_they_are_said_to_be(void** state) {
    (void)state;
    cover("train: {window: whole}\n", false, 0.90);
    cover("train: {window: 10}\n", true, 0.90);
}

// An arm on a base: damping and friction from starts on both sides of the truth, by globs. A step that
// takes one of them to its bound, 0, must not keep it there.
static const char arm[] =
    "<robot name='arm'><link name='base'/>"
    "<link name='a'><inertial><origin xyz='0 0 -.2'/><mass value='2.3'/>"
    "<inertia ixx='.045' iyy='.045' izz='.045' ixy='0' ixz='0' iyz='0'/></inertial></link>"
    "<link name='b'><inertial><origin xyz='0 0 -.19'/><mass value='1.4'/>"
    "<inertia ixx='.019' iyy='.019' izz='.019' ixy='0' ixz='0' iyz='0'/></inertial></link>"
    "<link name='c'><inertial><origin xyz='0 0 -.11'/><mass value='.55'/>"
    "<inertia ixx='.004' iyy='.004' izz='.004' ixy='0' ixz='0' iyz='0'/></inertial></link>"
    "<joint name='ja' type='continuous'><parent link='base'/><child link='a'/><axis xyz='0 1 0'/>"
    "<dynamics damping='.12' friction='.25'/></joint>"
    "<joint name='jb' type='continuous'><parent link='a'/><child link='b'/><origin xyz='0 0 -.45'/>"
    "<axis xyz='0 1 0'/><dynamics damping='.05' friction='.12'/></joint>"
    "<joint name='jc' type='continuous'><parent link='b'/><child link='c'/><origin xyz='0 0 -.35'/>"
    "<axis xyz='0 1 0'/><dynamics damping='.02' friction='.04'/></joint></robot>";

static void bounds_can_be_left(void** state) {
    (void)state;
    static const char* const positions[] = {"q0", "q1", "q2"};
    static const ns_param_value speed[] = {{"joint/*/friction_velocity", 0.05}};
    static const double x0[] = {0.8, -0.6, 0.4, 0, 0, 0}, starts[] = {0.02, 0.05, 0.1, 0.3, 0.5};
    static const struct {
        const char* name;
        double truth;
    } found[] = {{"joint/ja/damping", 0.12},  {"joint/jb/damping", 0.05},
                 {"joint/jc/damping", 0.02},  {"joint/ja/friction", 0.25},
                 {"joint/jb/friction", 0.12}, {"joint/jc/friction", 0.04}};
    experiment_write("arm.urdf", "%s", arm);
    motion m = motion_of(tempdir_path("arm.urdf"), 0.01, 501);
    m.options.integrator = NS_INTEGRATOR_RK4;
    m.options.set = speed;
    m.options.nset = 1;
    m.x0 = x0;
    m.push = 2.0;
    m.channels = positions;
    m.nchannel = 3;
    motion_record(&m, "arm.csv");
    for (size_t k = 0; k < sizeof starts / sizeof *starts; k++) {
        experiment_write("fit.yaml",
                         "model: arm.urdf\nintegrator: rk4\ntimestep: 0.01\n"
                         "data: {train: [arm.csv]}\ntrain: {window: [10, 25, 50]}\n"
                         "set: {joint/*/friction_velocity: 0.05}\n"
                         "parameters:\n  joint/*/damping: {initial: %g}\n"
                         "  joint/*/friction: {initial: %g}\n  link/*/mass: free\n",
                         starts[k], starts[k]);
        ns_fit* fit = experiment_load("fit.yaml", 1);
        ns_error error = {0};
        must(ns_fit_run(fit, NULL, &error), &error);
        for (size_t i = 0; i < sizeof found / sizeof *found; i++) {
            double value;
            assert_true(ns_fit_estimate(fit, found[i].name, &value, NULL));
            if (!(fabs(value - found[i].truth) <= 1e-5)) {
                fail_msg("from %g %s: %.10g", starts[k], found[i].name, value);
            }
        }
        assert_false(ns_fit_estimate(fit, "link/base/mass", NULL, NULL)); // globs pass it over
        ns_fit_free(fit);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_of_a_driven_pendulum),
        cmocka_unit_test(parameters_of_things_that_touch),
        cmocka_unit_test(parameters_of_things_that_bounce),
        cmocka_unit_test(many_parameters_and_all_start_states),
        cmocka_unit_test(what_is_not_in_the_data_is_said),
        cmocka_unit_test(bounds_can_be_left),
        cmocka_unit_test(errors_are_as_large_as_they_are_said_to_be),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    tempdir_remove();
    return failed;
}
