// Controls between samples: held, continuous, or those of the end of each interval.

#include "data/check_rig.h"

static double fast_force(double t) {
    return 4.0 * sin(6.0 * t) + 6.0 * sin(21.0 * t + 1.0) + 6.0 * cos(47.0 * t);
}

static checked check_force(double noise, uint64_t seed, rig_hold hold, bool velocities) {
    recording* r = rig_record_force(noise, seed, fast_force, hold);
    checked c = rig_check(r, velocities ? NULL : "t,q_slide,q_hinge,a,b,tau_slide", NULL);
    free(r);
    return c;
}

static void other_controls_than_held_ones_are_found(void** state) {
    (void)state;
    static const struct {
        rig_hold hold;
        double share; // of the end of an interval
        const char *says, *offset;
    } cases[] = {{RIG_CONTINUOUS, 0.5, "the mean of it and the next one", "`offset: -0.005`"},
                 {RIG_END, 1.0, "the value of the end of each interval", "`offset: -0.01`"}};
    for (int k = 0; k < NOISE_LEVELS - 1; k++) {
        for (int i = 0; i < 2; i++) {
            for (int velocities = 0; velocities < 2; velocities++) {
                if (!velocities && noise_levels[k] > 1e-4) continue;
                checked c = check_force(noise_levels[k], 29, cases[i].hold, velocities);
                const ns_data_finding* f =
                    rig_must_find(c.check, NS_DATA_CONTROL_HOLD, "tau_slide", cases[i].says);
                close_to("share", f->value, cases[i].share, 0.1);
                assert_says(f->advice, cases[i].offset);
                rig_only(c.check, NS_DATA_CONTROL_HOLD);
                rig_drop(&c);
            }
        }
    }
}

static void held_controls_are_silent(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int velocities = 0; velocities < 2; velocities++) {
            checked c = check_force(noise_levels[k], 31, RIG_HELD, velocities);
            rig_only(c.check, -1);
            rig_drop(&c);
        }
    }
}

// The model of the rig with some texts replaced by others of the same length.
static ns_model* changed_model(const char* const (*changes)[2], int count) {
    char text[sizeof model_text];
    memcpy(text, model_text, sizeof text);
    for (int k = 0; k < count; k++) {
        char* at = strstr(text, changes[k][0]);
        assert_non_null(at);
        assert_int_equal(strlen(changes[k][0]), strlen(changes[k][1]));
        memcpy(at, changes[k][1], strlen(changes[k][1]));
    }
    ns_model* model = NULL;
    ns_error error = {0};
    must(ns_model_parse(text, strlen(text), "cartpole.xml", NULL, &model, &error), &error);
    return model;
}

// Models are wrong before they are fitted: their masses, springs and dampers are not taken for time.
static void wrong_models_do_not_matter(void** state) {
    (void)state;
    static const char* const wrong[][2] = {{"mass='1'", "mass='2'"},
                                           {"damping='0.5'", "damping='9.5'"},
                                           {"damping='0.01'", "damping='0.20'"},
                                           {"stiffness='8'", "stiffness='2'"},
                                           {"mass='0.2'", "mass='0.3'"}};
    const rig_hold holds[] = {RIG_HELD, RIG_CONTINUOUS, RIG_END};
    ns_model* model = changed_model(wrong, 5);
    for (int i = 0; i < 3; i++) {
        recording* r = rig_record_force(1e-4, 37, fast_force, holds[i]);
        const char* path = rig_write("run.csv", r, NULL);
        ns_data_check* check = rig_check_files(&path, 1, NULL, model);
        const ns_data_finding* f = rig_find(check, NS_DATA_CONTROL_HOLD, "tau_slide");
        assert_int_equal(f != NULL, holds[i] != RIG_HELD);
        if (f) close_to("share", f->value, 0.5 * i, 0.1);
        ns_data_check_free(check);
        free(r);
    }
    ns_model_free(model);
}

// Differences to the next row are half a row ahead of what held controls make.
static void early_velocities_are_silent(void** state) {
    (void)state;
    recording* r = rig_record_force(0.0, 37, fast_force, RIG_HELD);
    for (int k = 0; k + 1 < ROWS; k++) {
        r->x[k][QD_SLIDE] = (r->x[k + 1][Q_SLIDE] - r->x[k][Q_SLIDE]) / PERIOD;
        r->x[k][QD_HINGE] = (r->x[k + 1][Q_HINGE] - r->x[k][Q_HINGE]) / PERIOD;
    }
    checked c = rig_check(r, NULL, NULL);
    rig_only(c.check, -1);
    rig_drop(&c);
    free(r);
}

// A simulation by Euler's method with a step for each row: positions are half a step ahead of velocities, and
// a fit with the same steps is right.
static void simulations_with_a_step_for_each_row_are_silent(void** state) {
    (void)state;
    static const char* const steps[][2] = {
        {"timestep='0.001' integrator='RK4'", "timestep='0.010'                 "}};
    ns_model* model = changed_model(steps, 1);
    ns_system* system = NULL;
    ns_workspace* work = NULL;
    ns_error error = {0};
    ns_system_options options = ns_default_system_options();
    must(ns_system_create(model, &options, &system, &error), &error);
    ns_workspace_size size = {.batch = 1, .steps = ROWS};
    must(ns_workspace_create(system, &size, &work, &error), &error);
    ns_system_sizes n = ns_system_get_sizes(system);
    double* controls = doubles((size_t)ROWS * n.nc);
    double* states = doubles(((size_t)ROWS + 1) * n.nx);
    const double x0[4] = {0.1, 0.9, 0.0, 0.0};
    for (int k = 0; k < ROWS; k++) controls[(size_t)k * n.nc] = fast_force(PERIOD * k);
    ns_rollout_args args = {
        .batch = 1, .steps = ROWS, .x0 = x0, .controls = controls, .states = states};
    must(ns_rollout(system, work, &args, &error), &error);
    recording* r = calloc(1, sizeof *r);
    assert_non_null(r);
    for (int k = 0; k < ROWS; k++) {
        r->x[k][T] = PERIOD * k;
        for (int i = 0; i < 4; i++) r->x[k][Q_SLIDE + i] = states[(size_t)k * n.nx + (size_t)i];
        r->x[k][TAU] = controls[(size_t)k * n.nc];
    }
    const char* headers[] = {NULL, "t,q_slide,q_hinge,a,b,tau_slide"};
    for (int k = 0; k < 2; k++) {
        const char* path = rig_write("euler.csv", r, headers[k]);
        ns_data_check* check = rig_check_files(&path, 1, NULL, model);
        rig_only(check, -1);
        ns_data_check_free(check);
    }
    free(r);
    free(controls);
    free(states);
    ns_workspace_free(work);
    ns_system_free(system);
    ns_model_free(model);
}

// What the advice says holds the right controls.
static void the_advice_removes_the_finding(void** state) {
    (void)state;
    const rig_hold holds[] = {RIG_CONTINUOUS, RIG_END};
    for (int i = 0; i < 2; i++) {
        recording* r = rig_record_force(1e-4, 29, fast_force, holds[i]);
        char text[400];
        snprintf(text, sizeof text,
                 "sources:\n"
                 "  - time: t\n"
                 "    observe: {q_slide: a, q_hinge: b, qd_slide: c, qd_hinge: d}\n"
                 "  - time: t\n"
                 "    offset: %g\n"
                 "    control: {tau_slide: f}\n",
                 i == 0 ? -0.005 : -0.01);
        checked c = rig_check(r, "t,a,b,c,d,f", tempdir_write("hold.yaml", text));
        rig_only(c.check, -1);
        rig_drop(&c);
        free(r);
    }
}

// A map that is still late says how much is missing to the right offset, beside what it has.
static void the_advice_counts_from_the_offset_of_the_map(void** state) {
    (void)state;
    const struct {
        double has;
        const char* advice;
    } cases[] = {{-0.005, "`offset: -0.01`"}, {0.0, "`offset: -0.01`"}};
    recording* r = rig_record_force(1e-4, 29, fast_force, RIG_END);
    for (int i = 0; i < 2; i++) {
        char text[400];
        snprintf(text, sizeof text,
                 "sources:\n"
                 "  - time: t\n"
                 "    observe: {q_slide: a, q_hinge: b, qd_slide: c, qd_hinge: d}\n"
                 "  - time: t\n"
                 "    offset: %g\n"
                 "    control: {tau_slide: f}\n",
                 cases[i].has);
        checked c = rig_check(r, "t,a,b,c,d,f", tempdir_write("hold.yaml", text));
        const ns_data_finding* f = rig_must_find(c.check, NS_DATA_CONTROL_HOLD, "tau_slide", "");
        assert_says(f->advice, cases[i].advice);
        rig_drop(&c);
    }
    free(r);
}

static double slow_force(double t) {
    return 2.0 * sin(0.9 * t) + sin(1.7 * t + 1.0);
}

// A control that hardly changes within a sample is explained by either: no mistake, but a note.
static void a_gain_that_does_not_matter_is_a_note(void** state) {
    (void)state;
    double (*const forces[])(double t) = {fast_force, slow_force};
    const ns_data_severity severities[] = {NS_DATA_WARNING, NS_DATA_NOTE};
    for (int k = 0; k < 2; k++) {
        recording* r = rig_record_force(0.0, 29, forces[k], RIG_CONTINUOUS);
        checked c = rig_check(r, NULL, NULL);
        const ns_data_finding* f =
            rig_must_find(c.check, NS_DATA_CONTROL_HOLD, "tau_slide", "unexplained");
        assert_int_equal(f->severity, severities[k]);
        assert_null(strstr(f->message, "100 %"));

        // The shares that are left differ in what is printed.
        double left, held;
        const char* says = strstr(f->message, "that leaves ");
        assert_non_null(says);
        assert_int_equal(sscanf(says, "that leaves %lf %%", &left), 1);
        says = strstr(f->message, "held ones leave ");
        assert_non_null(says);
        assert_int_equal(sscanf(says, "held ones leave %lf %%", &held), 1);
        assert_true(held > 1.25 * left);
        assert_int_equal(held - left > 0.03, severities[k] == NS_DATA_WARNING);
        rig_drop(&c);
        free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_controls_than_held_ones_are_found),
        cmocka_unit_test(held_controls_are_silent),
        cmocka_unit_test(wrong_models_do_not_matter),
        cmocka_unit_test(early_velocities_are_silent),
        cmocka_unit_test(simulations_with_a_step_for_each_row_are_silent),
        cmocka_unit_test(the_advice_removes_the_finding),
        cmocka_unit_test(the_advice_counts_from_the_offset_of_the_map),
        cmocka_unit_test(a_gain_that_does_not_matter_is_a_note),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
