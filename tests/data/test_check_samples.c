// Checks of single channels: outliers, stuck, wrapped and missing values, limits, constants.

#include "data/check_rig.h"

// ---- outliers ------------------------------------------------------------------------------------

static void outliers_are_found_and_counted(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        recording* r = rig_record(noise_levels[k], 11);
        r->x[100][Q_SLIDE] = 5.0; // a marker of a lost sample
        r->x[350][Q_SLIDE] -= 1.0;
        r->x[351][Q_SLIDE] -= 1.0; // two in a row
        checked c = rig_check(r, NULL, NULL);
        const ns_data_finding* f =
            rig_must_find(c.check, NS_DATA_OUTLIERS, "q_slide", "run.csv:102: q_slide: ");
        assert_int_equal(f->count, 2);
        assert_int_equal(f->places[1].line, 352);
        rig_drop(&c);
        free(r);
    }
}

// An encoder at rest that flickers to its next step once has two values: that may be no mistake.
static void a_flicker_at_rest_is_a_note(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 11);
    for (int i = 0; i < ROWS; i++) r->x[i][Q_SLIDE] = i == 500 ? 0.0015 : 0.0;
    for (int i = 0; i < ROWS; i++) r->x[i][QD_SLIDE] = 0.0;
    checked c = rig_check(r, NULL, NULL);
    const ns_data_finding* f = rig_must_find(c.check, NS_DATA_OUTLIERS, "q_slide", "run.csv:502");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    rig_drop(&c);
    free(r);
}

// ---- stuck values --------------------------------------------------------------------------------

static void stuck_values_are_found(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        recording* r = rig_record(noise_levels[k], 13);
        for (int i = 201; i < 240; i++) r->x[i][Q_HINGE] = r->x[200][Q_HINGE];
        checked c = rig_check(r, NULL, NULL);
        const ns_data_finding* f =
            rig_must_find(c.check, NS_DATA_STUCK, "q_hinge", "run.csv:202: q_hinge: ");
        assert_int_equal(f->count, 1);
        close_to("seconds", f->value, 0.39, 1e-6);
        rig_drop(&c);
        free(r);
    }
}

// A joint at rest with an encoder, while the other one moves, is not stuck.
static void rest_is_not_stuck(void** state) {
    (void)state;
    recording* r = rig_record(0.0, 13);
    for (int k = 0; k < ROWS; k++) {
        double t = PERIOD * k, rest = t < 3.0 ? 0.2 : 0.2 + 0.3 * (t - 3.0) * (t - 3.0) * (8.0 - t);
        if (t > 5.0) rest = 0.2 + 0.3 * 4.0 * 3.0;
        r->x[k][Q_HINGE] = 0.0015 * round(rest / 0.0015);
        r->x[k][QD_HINGE] = NAN;
    }
    const char* path = rig_write("rest.csv", r, NULL);
    ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
    assert_null(rig_find(check, NS_DATA_STUCK, "q_hinge"));
    ns_data_check_free(check);
    free(r);
}

// A command that is saturated while it would change is worth a note.
static void saturation_is_a_note(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 13);
    for (int i = 0; i < ROWS; i++) {
        r->x[i][TAU] += 0.002 * sin(1.7 * i); // it changes in every row
        if (i >= 300 && i < 340) r->x[i][TAU] = 20.0;
    }
    const char* path = rig_write("pwm.csv", r, "t,q_slide,q_hinge,qd_slide,qd_hinge,pwm");
    ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
    const ns_data_finding* f = rig_must_find(check, NS_DATA_STUCK, "pwm", "pwm.csv:302: pwm");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    rig_only(check, -1);
    ns_data_check_free(check);
    free(r);
}

// ---- controls ------------------------------------------------------------------------------------

// The force of the rig changes in every row, between about -5 and 5.
static void spikes_of_a_control_are_noted(void** state) {
    (void)state;
    const double spikes[] = {40.0, -30.0};
    recording* r = rig_record(1e-3, 11);
    for (int i = 0; i < 2; i++) r->x[100 + 300 * i][TAU] = spikes[i];
    checked c = rig_check(r, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(c.check, NS_DATA_OUTLIERS, "tau_slide", "run.csv:102: tau_slide: ");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    assert_int_equal(f->count, 2);
    assert_int_equal(f->places[1].line, 402);
    double size = fmax(fabs(40.0 - r->x[99][TAU]), fabs(-30.0 - r->x[399][TAU]));
    close_to("size", f->value, size, 1e-6);
    rig_drop(&c);
    free(r);
}

static void a_stuck_control_is_noted(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 13);
    for (int i = 201; i < 280; i++) r->x[i][TAU] = r->x[200][TAU];
    checked c = rig_check(r, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(c.check, NS_DATA_STUCK, "tau_slide", "run.csv:202: tau_slide: ");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    assert_int_equal(f->count, 1);
    close_to("seconds", f->value, 0.79, 1e-6);
    rig_drop(&c);
    free(r);
}

// Commands of usual kinds, by the number of the row.
static double zero_command(int k) {
    (void)k;
    return 0.0;
}
static double step_command(int k) {
    return k < 300 ? 0.0 : 2.0;
}
static double impulse_command(int k) {
    return k == 300 ? 50.0 : 0.0;
}
static double pulse_command(int k) { // one row long, from a level to another
    return k % 97 == 50 ? 3.0 : k < 400 ? 1.0 : -1.0;
}
static double staircase_command(int k) {
    return 0.5 * (k / 80);
}
static double random_binary_command(int k) {
    uint32_t hash = (uint32_t)(k / 3) * 2654435761u;
    return (hash >> 16) & 1 ? 1.0 : -1.0;
}
static double saturated_command(int k) {
    return fmax(-1.0, fmin(1.0, 2.0 * sin(0.05 * k)));
}
static double slow_controller_command(int k) { // a row in ten has a new value
    return sin(0.01 * (k / 10 * 10)) + 0.3 * sin(0.04 * (k / 10 * 10));
}
static double switched_off_command(int k) { // off, then on with a jump
    return k >= 300 && k < 400 ? 0.0 : 2.0 + sin(0.05 * k);
}
static double square_command(int k) {
    return (k / 60) % 2 ? 1.0 + 1e-3 * sin(1.3 * k) : -1.0 + 1e-3 * sin(1.3 * k);
}

static void usual_commands_are_silent(void** state) {
    (void)state;
    double (*const commands[])(int) = {
        zero_command,      step_command,         impulse_command,
        pulse_command,     staircase_command,    random_binary_command,
        saturated_command, switched_off_command, slow_controller_command,
        square_command,
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        recording* r = rig_record(1e-3, 13);
        ns_rng rng = ns_rng_seed(3);
        for (int noise = 0; noise < 2; noise++) {
            for (int k = 0; k < ROWS; k++) {
                r->x[k][TAU] = commands[i](k) + 0.01 * noise * ns_rng_normal(&rng);
            }
            const char* path = rig_write("command.csv", r, NULL);
            ns_model* model = rig_model();
            ns_data_check* check = rig_check_files(&path, 1, NULL, model);
            const ns_data_code codes[] = {NS_DATA_STUCK, NS_DATA_OUTLIERS};
            for (int k = 0; k < 2; k++) {
                // Noise around an impulse is motion: that one is an outlier.
                bool impulse = noise && (commands[i] == impulse_command) && k == 1;
                const ns_data_finding* f = rig_find(check, codes[k], "tau_slide");
                assert_null(rig_find(check, NS_DATA_CONSTANT, "tau_slide"));
                if (f && !impulse) fail_msg("command %zu: %s", i, f->text);
            }
            ns_data_check_free(check);
            ns_model_free(model);
        }
        free(r);
    }
}

// ---- wrapped angles ------------------------------------------------------------------------------

static void wrapped_angles_are_found(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int degrees = 0; degrees < 2; degrees++) {
            recording* r = rig_record(noise_levels[k], 17);
            ns_rng rng = ns_rng_seed(4);
            double turn = degrees ? 360.0 : 2.0 * PI;
            int jumps = 0, first = 0;
            for (int i = 0; i < ROWS; i++) {
                double angle =
                    0.3 + 2.5 * PERIOD * i + noise_levels[k] * ns_rng_normal(&rng); // rad
                angle = angle * turn / (2.0 * PI);
                r->x[i][Q_HINGE] = angle - turn * round(angle / turn);
                r->x[i][QD_HINGE] = 2.5 * turn / (2.0 * PI);
                bool jump = i > 0 && fabs(r->x[i][Q_HINGE] - r->x[i - 1][Q_HINGE]) > 0.5 * turn;
                jumps += jump;
                if (jump && first == 0) first = i;
            }
            assert_true(jumps >= 3 && jumps < 20);
            checked c = rig_check(r, NULL, NULL);
            const ns_data_finding* f =
                rig_must_find(c.check, NS_DATA_WRAPPED, "q_hinge", degrees ? "(360)" : "(2 pi)");
            assert_int_equal(f->count, jumps);
            assert_int_equal(f->places[0].line, first + 2);
            assert_says(f->advice, degrees ? "unwrap(q_hinge * deg)" : "unwrap(q_hinge)");
            assert_null(rig_find(c.check, NS_DATA_OUTLIERS, "q_hinge"));
            // Steps of 360 also say that it is in degrees.
            assert_int_equal(rig_find(c.check, NS_DATA_DEGREES, "q_hinge") != NULL, degrees);
            rig_drop(&c);
            free(r);
        }
    }
}

// ---- limits --------------------------------------------------------------------------------------

static void values_beyond_limits_are_found(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        recording* r = rig_record(noise_levels[k], 19);
        for (int i = 0; i < ROWS; i++) r->x[i][Q_HINGE] += PI; // another zero
        checked c = rig_check(r, NULL, NULL);
        const ns_data_finding* f = rig_must_find(c.check, NS_DATA_JOINT_LIMITS, "q_hinge",
                                                 "the joint's limits are -2.5 and 2.5");
        assert_true(f->count > ROWS / 4);
        assert_null(rig_find(c.check, NS_DATA_JOINT_LIMITS, "q_slide"));
        rig_drop(&c);
        free(r);
    }
}

// ---- missing and constant ------------------------------------------------------------------------

static void missing_samples_are_counted(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 23);
    for (int i = 100; i < 300; i++) r->x[i][Q_SLIDE] = NAN;
    r->x[500][Q_SLIDE] = NAN;
    // A channel of a fifth of the rate misses nothing.
    for (int i = 0; i < ROWS; i++) {
        if (i % 5 != 0) r->x[i][QD_HINGE] = NAN;
    }
    checked c = rig_check(r, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(c.check, NS_DATA_MISSING, "q_slide", "run.csv:302: q_slide: 25 %");
    assert_int_equal(f->severity, NS_DATA_WARNING);
    assert_int_equal(f->count, 2);
    assert_int_equal(ns_data_check_channel(c.check, 0)->missing, 201);
    assert_null(rig_find(c.check, NS_DATA_MISSING, "qd_hinge"));
    close_to("rate", ns_data_check_channel(c.check, 3)->rate, 20.0, 1e-6);
    rig_drop(&c);

    // Nothing at all.
    for (int i = 0; i < ROWS; i++) r->x[i][Q_SLIDE] = NAN;
    for (int i = 0; i < ROWS; i++) r->x[i][QD_SLIDE] = 0.25;
    c = rig_check(r, NULL, NULL);
    rig_must_find(c.check, NS_DATA_MISSING, "q_slide", "it has no numbers");
    f = rig_must_find(c.check, NS_DATA_CONSTANT, "qd_slide", "0.25 in all samples");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    rig_drop(&c);
    free(r);
}

static void unknown_columns_are_noted(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 23);
    checked c = rig_check(r, "t,q_slide,q_hing,qd_slide,qd_hinge,tau_slide", NULL);
    rig_must_find(c.check, NS_DATA_UNKNOWN_COLUMN, "q_hing", "no quantity of this name");
    assert_null(rig_find(c.check, NS_DATA_UNKNOWN_COLUMN, "q_slide"));
    rig_drop(&c);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outliers_are_found_and_counted),
        cmocka_unit_test(a_flicker_at_rest_is_a_note),
        cmocka_unit_test(stuck_values_are_found),
        cmocka_unit_test(rest_is_not_stuck),
        cmocka_unit_test(saturation_is_a_note),
        cmocka_unit_test(spikes_of_a_control_are_noted),
        cmocka_unit_test(a_stuck_control_is_noted),
        cmocka_unit_test(usual_commands_are_silent),
        cmocka_unit_test(wrapped_angles_are_found),
        cmocka_unit_test(values_beyond_limits_are_found),
        cmocka_unit_test(missing_samples_are_counted),
        cmocka_unit_test(unknown_columns_are_noted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
