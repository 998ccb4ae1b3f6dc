// Discovery: what the recordings were made with is found, and nothing else, without being told where.

#include "io/file.h"
#include "neuralsim/discover.h"
#include "neuralsim/hybrid.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/rendered.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define PENDULUM NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

static const char chain[] =
    "<mujoco><worldbody><body name='a'><joint name='hip' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.3' mass='1' diaginertia='0.03 0.03 0.002'/>"
    "<body name='b' pos='0 0 -0.6'><joint name='knee' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.25' mass='0.7' diaginertia='0.015 0.015 0.001'/>"
    "<body name='c' pos='0 0 -0.5'><joint name='ankle' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.2' mass='0.4' diaginertia='0.006 0.006 0.0005'/>"
    "</body></body></body></worldbody></mujoco>";

static const char cart[] =
    "<mujoco><worldbody><body name='cart'><joint name='slide' type='slide' axis='1 0 0'/>"
    "<inertial pos='0 0 0' mass='1.5' diaginertia='0.01 0.01 0.01'/>"
    "<body name='pole'><joint name='hinge' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.4' mass='0.5' diaginertia='0.03 0.03 0.001'/>"
    "</body></body></worldbody></mujoco>";

static const char rod[] =
    "<mujoco><worldbody><body name='rod'><joint name='hinge' type='hinge' axis='0 1 0'/>"
    "<inertial pos='0 0 -0.5' mass='1' diaginertia='0.05 0.05 0.002'/></body></worldbody></mujoco>";

static const char stopped_rod[] =
    "<mujoco><compiler angle='radian'/><worldbody><body name='rod'><joint name='hinge' type='hinge'"
    " axis='0 1 0' limited='true' range='-0.6 3'/><inertial pos='0 0 -0.5' mass='1'"
    " diaginertia='0.05 0.05 0.002'/></body></worldbody></mujoco>";

static const char ball[] =
    "<mujoco><worldbody><body name='ball' pos='0 0 1'><freejoint name='free'/>"
    "<inertial pos='0 0 0' mass='0.046' diaginertia='1e-5 1e-5 1e-5'/></body></worldbody></mujoco>";

// What the truth has and the model has not, and what is to be found.
typedef struct expected {
    const char *quantity, *form;
    double value;
} expected;

typedef struct missing {
    const char* model;     // a file, or NULL with
    const char* text;      // an MJCF model
    ns_param_value set[3]; // of the truth
    const char* blueprint; // of the truth, or NULL
    double sigma;          // of noise
    bool positions;        // only these are recorded
    double timestep;       // of the truth; 0: that of the model, 0.02
    int integrator;        // of the truth
    uint32_t samples;      // of each recording; 0: 70
    const char* settings;  // further lines of the experiment
    const char* map;       // of the columns, a file; NULL: by their names
    expected expected[2];
} missing;

static const double starts[] = {0.9,  -1.1, 0.4, 0.5,  -0.8, 0.3, //
                                -0.7, 0.8,  1.0, 1.0,  0.6,  -0.9, 1.2, 0.5,  -0.9,
                                -0.4, 0.9,  0.7, -0.3, -1.2, 0.6,  0.2, -0.5, 1.1};

// Flights of a ball: x, q and its rates, of which the spin does not change.
static const double flights[3 * 13] = {0, 0, 1, 1, 0, 0, 0, 30, 3,  15, 0, 0, 5, //
                                       0, 0, 1, 1, 0, 0, 0, 20, -3, 25, 2, 0, 0, //
                                       0, 0, 1, 1, 0, 0, 0, 40, 0,  10, 0, 1, 0};

static ns_discovery* look(const missing* c, uint32_t threads) {
    char model[300];
    snprintf(model, sizeof model, "%s", c->model ? c->model : tempdir_path("robot.xml"));
    if (c->text) experiment_write("robot.xml", "%s", c->text);
    ns_error error = {0};
    ns_blueprint* blueprint = NULL;
    double x0[4 * 6];
    uint32_t joints = c->text == chain ? 3 : c->text == rod || c->text == stopped_rod ? 1 : 2;
    for (uint32_t run = 0; run < 4; run++) {
        for (uint32_t k = 0; k < joints; k++) {
            x0[run * 2 * joints + k] = starts[run * 6 + k];
            x0[run * 2 * joints + joints + k] = starts[run * 6 + 3 + k];
        }
    }
    double timestep = c->timestep > 0.0 ? c->timestep : 0.02;
    motion m = motion_of(model, timestep, c->samples > 0 ? c->samples : 70);
    static const char* const positions[] = {"q0", "q1", "q2"};
    m.runs = c->text == ball ? 3 : 4;
    m.x0 = c->text == ball ? flights : x0;
    m.substeps = (uint32_t)(0.02 / timestep + 0.5);
    m.sigma = c->sigma;
    m.seed = 3;
    m.options.integrator = c->integrator;
    m.options.set = c->set;
    while (c->set[m.options.nset].pattern) m.options.nset++;
    if (c->positions) {
        m.channels = positions;
        m.nchannel = c->text == ball ? 3 : joints;
    }
    if (c->blueprint && ns_blueprint_parse(c->blueprint, strlen(c->blueprint), "truth", NULL,
                                           &blueprint, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    m.options.blueprint = blueprint;
    motion_record(&m, "data.csv");
    ns_blueprint_free(blueprint);
    experiment_write(
        "missing.yaml",
        "model: %s\nintegrator: rk4\ntimestep: 0.02\ndata: {train: [data.csv]%s%s}\n%s", model,
        c->map ? ", map: " : "", c->map ? c->map : "", c->settings ? c->settings : "");
    ns_discovery* d = NULL;
    if (ns_discover_load(tempdir_path("missing.yaml"), threads, &d, &error) != NS_OK ||
        ns_discover_run(d, NULL, NULL, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    return d;
}

// Everything that is expected, within this share, and nothing else.
static void check(const missing* c, double share) {
    ns_discovery* d = look(c, 1);
    uint32_t count = 0;
    while (count < 2 && c->expected[count].quantity) count++;
    for (uint32_t k = 0; k < ns_discover_count(d); k++) {
        print_message("    %s\n", ns_discover_found(d, k)->text);
    }
    assert_int_equal(ns_discover_count(d), count);
    for (uint32_t i = 0; i < count; i++) {
        const expected* e = &c->expected[i];
        bool found = false;
        for (uint32_t k = 0; k < count; k++) {
            const ns_discovered* f = ns_discover_found(d, k);
            if (strcmp(f->quantity, e->quantity) != 0 || strcmp(f->form, e->form) != 0) continue;
            found = true;
            assert_true(f->parameter == (e->form[0] == '\0'));
            if (fabs(f->value / e->value - 1.0) > share) {
                fail_msg("%s is not %g", f->text, e->value);
            }
            // The truth is within what the errors say, too.
            if (c->sigma > 0.0) assert_true(fabs(f->value - e->value) < 5.0 * f->standard_error);
        }
        if (!found) fail_msg("%s %s was not found", e->quantity, e->form);
    }
    ns_discover_free(d);
}

#define DRAG_AXIS(where, k, axis)                                                                  \
    "- {name: drag_" axis ", each: " where ", output: \"{}/force/" axis "\", coefficients: {k: " k \
    "}, formula: '-k * sqrt(\"{}/velocity/com/x\"^2 + \"{}/velocity/com/y\"^2 +"                   \
    " \"{}/velocity/com/z\"^2) * \"{}/velocity/com/" axis "\"'}\n"
#define DRAG(where, k)                                                                             \
    "formulas:\n" DRAG_AXIS(where, k, "x") DRAG_AXIS(where, k, "y") DRAG_AXIS(where, k, "z")

static const char across[] =
    "formulas:\n- name: drag\n  output: link/link1/force/x\n  formula: -0.3 *"
    " abs(\"link/link1/velocity/com/x\") * \"link/link1/velocity/com/x\"\n";

static const missing exact[] = {
    {.model = PENDULUM,
     .set = {{"joint/joint1/damping", 0.1}},
     .expected = {{"joint/joint1/tau", "qd", -0.1}}},
    {.model = PENDULUM,
     .set = {{"joint/joint0/stiffness", 1.5}},
     .expected = {{"joint/joint0/tau", "q", -1.5}}},
    {.model = PENDULUM,
     .set = {{"link/link1/mass", 0.75}},
     .expected = {{"link/link1/mass", "", 0.75}}},
    {.model = PENDULUM,
     .blueprint = DRAG("link/*", "0.2"),
     .expected = {{"link/*/force", "|v| v", -0.2}}},
    {.model = PENDULUM,
     .blueprint = DRAG("link/link1", "0.2"),
     .expected = {{"link/link1/force", "|v| v", -0.2}}},
    {.model = PENDULUM, // in a plane, across z is along x
     .blueprint = across,
     .expected = {{"link/link1/force", "|v_xy| v_xy", -0.3}}},
    {.model = PENDULUM,
     .set = {{"joint/joint1/friction", 0.15}, {"joint/joint1/friction_velocity", 0.1}},
     .expected = {{"joint/joint1/tau", "tanh(qd / v)", -0.15}}},
    {.model = PENDULUM,
     .set = {{"joint/joint0/damping", 0.08}, {"link/link1/mass", 0.72}},
     .expected = {{"joint/joint0/tau", "qd", -0.08}, {"link/link1/mass", "", 0.72}}},
    {.text = chain,
     .set = {{"joint/knee/damping", 0.03}},
     .expected = {{"joint/knee/tau", "qd", -0.03}}},
    {.text = chain, .set = {{"link/b/mass", 0.9}}, .expected = {{"link/b/mass", "", 0.9}}},
    {.text = cart,
     .set = {{"joint/slide/friction", 0.3}, {"joint/slide/friction_velocity", 0.1}},
     .expected = {{"joint/slide/tau", "tanh(qd / v)", -0.3}}},
    {.text = cart, .set = {{"link/pole/mass", 0.65}}, .expected = {{"link/pole/mass", "", 0.65}}},
};

static void what_is_missing_is_found(void** state) {
    (void)state;
    for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
        missing c = exact[k];
        c.integrator = NS_INTEGRATOR_RK4;
        check(&c, 1e-6);
    }
}

// Each of its two terms alone explains less than others do.
static void a_spring_rests_somewhere(void** state) {
    (void)state;
    missing c = {.text = rod,
                 .integrator = NS_INTEGRATOR_RK4,
                 .set = {{"joint/hinge/stiffness", 1.2}, {"joint/hinge/rest", 0.6}},
                 .expected = {{"joint/hinge/tau", "q", -1.2}, {"joint/hinge/tau", "1", 0.72}}};
    check(&c, 1e-6);
    c.sigma = 0.005;
    check(&c, 0.05);
}

// A free body whose spin stays as it is, or is not recorded at all.
static void drag_of_a_ball_in_flight(void** state) {
    (void)state;
    missing c = {.text = ball,
                 .integrator = NS_INTEGRATOR_RK4,
                 .blueprint = DRAG("link/ball", "0.002"),
                 .expected = {{"link/ball/force", "|v| v", -0.002}}};
    for (int positions = 0; positions < 2; positions++) {
        c.positions = positions > 0;
        check(&c, 1e-6);
        missing right = {.text = ball, .integrator = NS_INTEGRATOR_RK4, .positions = positions > 0};
        check(&right, 0.0);
    }
    c.sigma = 0.02;
    check(&c, 0.05);
}

// Nothing can move like this: an answer of some kind, or an error, but no failure of a later level.
static void recordings_of_no_motion(void** state) {
    (void)state;
    ns_error error = {0};
    ns_discovery* d = NULL;
    for (int k = 0; k < 2; k++) {
        char rows[4000];
        int used = 0;
        for (int i = 0; i < 100; i++) {
            used += snprintf(rows + used, sizeof rows - (size_t)used, "%.2f,%s\n", 0.02 * i,
                             k ? "0.7,0.7,0.7,0.7" : "0,0,0,0");
        }
        experiment_write("data.csv", "t,q0,q1,qd0,qd1\n%s", rows);
        experiment_write("still.yaml", "model: " PENDULUM "\nintegrator: rk4\ntimestep: 0.02\n"
                                       "data: {train: [data.csv]}\n");
        if (ns_discover_load(tempdir_path("still.yaml"), 1, &d, &error) != NS_OK ||
            ns_discover_run(d, NULL, NULL, &error) != NS_OK) {
            fail_msg("%s", error.message);
        }
        if (k == 0) assert_int_equal(ns_discover_count(d), 0); // it hangs
        ns_discover_free(d);
    }
}

// Names are looked at from their end.
static void joints_may_have_odd_names(void** state) {
    (void)state;
    static const char odd[] =
        "<mujoco><worldbody><body name='a'><joint name='tau/0' type='hinge' axis='0 1 0'/>"
        "<inertial pos='0 0 -0.3' mass='1' diaginertia='0.03 0.03 0.002'/>"
        "<body name='a/b' pos='0 0 -0.6'><joint name='s2, s)' type='hinge' axis='0 1 0'/>"
        "<inertial pos='0 0 -0.25' mass='0.7' diaginertia='0.015 0.015 0.001'/>"
        "</body></body></worldbody></mujoco>";
    missing c = {.text = odd,
                 .integrator = NS_INTEGRATOR_RK4,
                 .set = {{"joint/tau/0/damping", 0.1}},
                 .expected = {{"joint/tau/0/tau", "qd", -0.1}}};
    check(&c, 1e-6);
}

typedef struct stopper {
    uint32_t calls, last;
} stopper;

static bool stop_once(void* context, const char* doing, double seconds) {
    (void)doing, (void)seconds;
    stopper* s = context;
    return ++s->calls == s->last;
}

// At whichever call it is stopped, the observer is not asked again, and the answer says so.
static void an_observer_stops_it(void** state) {
    (void)state;
    missing c = exact[7];
    c.integrator = NS_INTEGRATOR_RK4;
    ns_discovery* whole = look(&c, 1); // for the files
    assert_false(ns_discover_stopped(whole));
    ns_discover_free(whole);
    ns_error error = {0};
    bool empty = false, some = false, ended = false;
    for (uint32_t last = 1; !ended; last += last / 4 + 1) {
        ns_discovery* d = NULL;
        stopper s = {.last = last};
        assert_int_equal(ns_discover_load(tempdir_path("missing.yaml"), 1, &d, &error), NS_OK);
        must(ns_discover_run(d, stop_once, &s, &error), &error);
        ended = s.calls < last;
        assert_true(ended || s.calls == last);
        assert_true(ns_discover_stopped(d) == !ended);
        ns_text text = {0}, json = {0}, page = {0};
        assert_int_equal(render_discovery(d, ns_report_text, &text, &error), NS_OK);
        assert_int_equal(render_discovery(d, ns_report_json, &json, &error), NS_OK);
        assert_int_equal(render_discovery(d, ns_report_html, &page, &error), NS_OK);
        const char* said = "interrupted: this is what was found so far, not an answer";
        assert_true((strstr(text.data, said) != NULL) == !ended);
        assert_true((strstr(page.data, said) != NULL) == !ended);
        assert_null(strstr(text.data, "Nothing is missing"));
        assert_non_null(strstr(json.data, ended ? "\"complete\": true" : "\"complete\": false"));
        for (uint32_t k = 0; k < ns_discover_count(d); k++) {
            assert_true(isfinite(ns_discover_found(d, k)->value));
            assert_true(isfinite(ns_discover_found(d, k)->standard_error));
        }
        // What was there before is not overwritten by nothing.
        remove(tempdir_path("stopped/result.json"));
        assert_int_equal(ns_discover_save(d, tempdir_path("stopped"), &error), NS_OK);
        FILE* file = fopen(tempdir_path("stopped/result.json"), "r");
        assert_true((file != NULL) == (ns_discover_count(d) > 0));
        if (file) fclose(file);
        *(ns_discover_count(d) > 0 ? &some : &empty) = true;
        ns_text_free(&text);
        ns_text_free(&json);
        ns_text_free(&page);
        ns_discover_free(d);
    }
    assert_true(empty && some);
}

// tanh(qd / 60) is damping: only 6 / 60 can be known.
static void friction_of_great_speeds_is_damping(void** state) {
    (void)state;
    missing c = {.model = PENDULUM,
                 .integrator = NS_INTEGRATOR_RK4,
                 .set = {{"joint/joint1/friction", 6.0}, {"joint/joint1/friction_velocity", 60.0}},
                 .expected = {{"joint/joint1/tau", "qd", -0.1}}};
    check(&c, 0.01);
}

static void assert_notes(ns_discovery* d, const char* part, bool there) {
    ns_error error = {0};
    ns_text text = {0};
    assert_int_equal(render_discovery(d, ns_report_json, &text, &error), NS_OK);
    if ((strstr(text.data, part) != NULL) != there) fail_msg("%s", text.data);
    ns_text_free(&text);
}

// Noise that is given as much less than it is.
static void what_is_left_is_told(void** state) {
    (void)state;
    const char* said = "the terms above may stand in for others, and their errors are too small";
    missing c = {.model = PENDULUM,
                 .integrator = NS_INTEGRATOR_RK4,
                 .set = {{"joint/joint1/damping", 0.1}},
                 .sigma = 0.01};
    ns_discovery* d = look(&c, 1);
    assert_notes(d, said, false);
    ns_discover_free(d);
    experiment_write("map.yaml",
                     "time: t\ntrajectory: traj\nobserve: {q0: {value: q0, sigma: 0.001},"
                     " q1: {value: q1, sigma: 0.001}}\n");
    c.map = "map.yaml";
    d = look(&c, 1);
    assert_notes(d, said, true);
    ns_discover_free(d);
}

static void a_limit_that_is_reached_is_told(void** state) {
    (void)state;
    missing c = {.text = stopped_rod, .integrator = NS_INTEGRATOR_RK4};
    ns_discovery* d = look(&c, 1);
    assert_notes(d, "joint/hinge reaches its limit of -0.6", true);
    assert_notes(d, "reaches its limit of 3", false);
    ns_discover_free(d);
    c.text = rod;
    d = look(&c, 1);
    assert_notes(d, "reaches its limit", false);
    ns_discover_free(d);
}

static void noise_does_not_hide_it(void** state) {
    (void)state;
    static const size_t cases[] = {2, 6, 7};
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        missing c = exact[cases[k]];
        c.integrator = NS_INTEGRATOR_RK4;
        c.sigma = 0.005;
        check(&c, 0.05);
        c.positions = true;
        c.sigma = 0.001;
        check(&c, 0.05);
    }
}

static void a_model_that_is_right_needs_nothing(void** state) {
    (void)state;
    missing c = {.model = PENDULUM, .integrator = NS_INTEGRATOR_RK4};
    check(&c, 0.0);
    c.sigma = 0.01;
    check(&c, 0.0);
    c.positions = true;
    check(&c, 0.0);
    // The error of an integrator is not physics.
    check(&(missing){.model = PENDULUM, .integrator = NS_INTEGRATOR_RK4, .timestep = 0.002}, 0.0);
    check(&(missing){.model = PENDULUM, .integrator = NS_INTEGRATOR_EULER, .timestep = 0.001}, 0.0);
}

// A law that the dictionary has not, at a joint that is not told.
static void an_odd_law_is_found_by_a_second_look(void** state) {
    (void)state;
    missing c = {.model = PENDULUM,
                 .integrator = NS_INTEGRATOR_RK4,
                 .blueprint =
                     "formulas:\n- name: odd\n  output: joint/joint1/tau\n  formula: -0.2 *"
                     " \"joint/joint0/position\" * \"joint/joint1/velocity\"\n",
                 .expected = {{"joint/joint1/tau", "q_joint0 qd", -0.2}}};
    check(&c, 1e-6);
}

// A law that no dictionary has: a network of the one coordinate that matters.
static void a_bump_needs_a_network(void** state) {
    (void)state;
    missing c = {.model = PENDULUM,
                 .integrator = NS_INTEGRATOR_RK4,
                 .samples = 100,
                 .settings = "discover: {parameters: [link/*/mass], outputs: [joint/*/tau]}\n",
                 .blueprint = "formulas:\n- name: bump\n  output: joint/joint1/tau\n  formula: -2 *"
                              " exp(-8 * (\"joint/joint1/position\" - 0.5)^2)\n"};
    ns_discovery* d = look(&c, 1);
    for (uint32_t k = 0; k < ns_discover_count(d); k++) {
        print_message("    %s\n", ns_discover_found(d, k)->text);
    }
    assert_true(ns_discover_count(d) > 0);
    const ns_discovered* f = ns_discover_found(d, ns_discover_count(d) - 1);
    assert_string_equal(f->quantity, "joint/joint1/tau");
    assert_non_null(strstr(f->form, "network of"));
    assert_non_null(strstr(f->form, "joint/joint1/position"));
    ns_error error = {0};
    ns_text json = {0};
    assert_int_equal(render_discovery(d, ns_report_json, &json, &error), NS_OK);
    assert_non_null(strstr(json.data, "\"network\""));
    ns_text_free(&json);
    must(ns_discover_save(d, tempdir_path("out"), &error), &error);
    assert_true(nsi_file_exists(tempdir_path("out/weights.safetensors")));
    ns_discover_free(d);
    ns_hybrid* hybrid = NULL;
    ns_status status = ns_hybrid_load(tempdir_path("out/fitted.yaml"), NULL, &hybrid, &error);
    must(status, &error);
    ns_hybrid_free(hybrid);
}

static void the_answer_does_not_depend_on_threads(void** state) {
    (void)state;
    missing c = exact[7];
    c.integrator = NS_INTEGRATOR_RK4;
    c.sigma = 0.005;
    double values[2][2];
    for (uint32_t threads = 1; threads <= 2; threads++) {
        ns_discovery* d = look(&c, threads);
        assert_int_equal(ns_discover_count(d), 2);
        for (uint32_t k = 0; k < 2; k++) values[threads - 1][k] = ns_discover_found(d, k)->value;
        ns_discover_free(d);
    }
    assert_memory_equal(values[0], values[1], sizeof values[0]);
}

// The model that is written moves as the recordings do.
static void the_saved_model_is_complete(void** state) {
    (void)state;
    missing c = exact[7];
    c.integrator = NS_INTEGRATOR_RK4;
    ns_discovery* d = look(&c, 1);
    ns_error error = {0};
    must(ns_discover_save(d, tempdir_path("out"), &error), &error);
    ns_text text = {0};
    assert_int_equal(render_discovery(d, ns_report_text, &text, &error), NS_OK);
    assert_non_null(strstr(text.data, "the same as joint/joint0/damping = 0.08"));
    ns_text_free(&text);
    ns_discover_free(d);
    assert_true(nsi_file_exists(tempdir_path("out/report.html")));
    assert_true(nsi_file_exists(tempdir_path("out/result.json")));

    // Nothing is missing in it.
    missing found = {.model = tempdir_path("out/fitted.yaml")};
    experiment_write("again.yaml", "model: %s\ndata: {train: [data.csv]}\n", found.model);
    if (ns_discover_load(tempdir_path("again.yaml"), 1, &d, &error) != NS_OK ||
        ns_discover_run(d, NULL, NULL, &error) != NS_OK) {
        fail_msg("%s", error.message);
    }
    assert_int_equal(ns_discover_count(d), 0);
    ns_discover_free(d);
}

static void parameters_of_the_file_are_fitted_along(void** state) {
    (void)state;
    missing c = exact[7];
    c.integrator = NS_INTEGRATOR_RK4;
    c.settings = "parameters: {link/link1/mass: free}\n";
    c.expected[1] = (expected){0};
    check(&c, 1e-6);
}

static const char* error_of(const char* lines) {
    static ns_error error;
    ns_discovery* d = NULL;
    error = (ns_error){0};
    experiment_write("bad.yaml", "model: " PENDULUM "\ndata: {train: [data.csv]}\n%s", lines);
    assert_int_not_equal(ns_discover_load(tempdir_path("bad.yaml"), 1, &d, &error), NS_OK);
    assert_null(d);
    return error.message;
}

static void what_cannot_be_is_refused(void** state) {
    (void)state;
    motion m = motion_of(PENDULUM, 0.02, 20);
    motion_record(&m, "data.csv");
    assert_non_null(strstr(error_of("discover: {parameters: [link/*/colour]}"), "link/*/colour"));
    assert_non_null(strstr(error_of("discover: {outputs: [qdd/*]}"), "qdd/*"));
    assert_non_null(strstr(error_of("discover: {outputs: []}"), "the list is empty"));
    assert_non_null(strstr(error_of("discover: {inputs: [a]}"), "inputs"));
    assert_non_null(strstr(error_of("learned: {kind: lstm, hidden: [4]}"), "no physics"));
    ns_error error = {0};
    ns_discovery* d = NULL;
    assert_int_equal(ns_discover_load(NULL, 1, &d, &error), NS_ERR_ARGUMENT);
    assert_int_equal(ns_discover_load(tempdir_path("none.yaml"), 1, &d, &error), NS_ERR_IO);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_missing_is_found),
        cmocka_unit_test(a_spring_rests_somewhere),
        cmocka_unit_test(drag_of_a_ball_in_flight),
        cmocka_unit_test(recordings_of_no_motion),
        cmocka_unit_test(joints_may_have_odd_names),
        cmocka_unit_test(an_observer_stops_it),
        cmocka_unit_test(friction_of_great_speeds_is_damping),
        cmocka_unit_test(what_is_left_is_told),
        cmocka_unit_test(a_limit_that_is_reached_is_told),
        cmocka_unit_test(noise_does_not_hide_it),
        cmocka_unit_test(a_model_that_is_right_needs_nothing),
        cmocka_unit_test(an_odd_law_is_found_by_a_second_look),
        cmocka_unit_test(a_bump_needs_a_network),
        cmocka_unit_test(the_answer_does_not_depend_on_threads),
        cmocka_unit_test(the_saved_model_is_complete),
        cmocka_unit_test(parameters_of_the_file_are_fitted_along),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
