// The unit of angles and the sign of a control, from accelerations of the motion and of the model.

#include "data/check_rig.h"

// The check of positions and the control alone, with a model whose joints have no limits: nothing else tells
// the unit.
static checked check_positions(const recording* r) {
    char text[sizeof model_text];
    memcpy(text, model_text, sizeof text);
    for (char* at = text; (at = strstr(at, "limited='true' ")) != NULL;) memset(at, ' ', 15);
    for (char* at = text; (at = strstr(at, "range='")) != NULL;) {
        memset(at, ' ', strcspn(at + 7, "'") + 8);
    }
    checked c = {0};
    ns_error error = {0};
    must(ns_model_parse(text, strlen(text), "cartpole.xml", NULL, &c.model, &error), &error);
    tempdir_write("map.yaml",
                  "time: t\nobserve: {q_slide: a, q_hinge: b}\ncontrol: {tau_slide: f}\n");
    const char* path = rig_write("run.csv", r, "t,a,b,c,d,f");
    c.check = rig_check_files(&path, 1, tempdir_path("map.yaml"), c.model);
    return c;
}

static void degrees_without_velocities_are_found(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int milliseconds = 0; milliseconds < 2; milliseconds++) {
            recording* r = rig_record(noise_levels[k], 67);
            checked right = check_positions(r);
            rig_only(right.check, -1);
            rig_drop(&right);
            for (int i = 0; i < ROWS; i++) {
                r->x[i][Q_HINGE] *= 180.0 / PI;
                if (milliseconds) r->x[i][T] *= 1000.0;
            }
            checked c = check_positions(r);
            const ns_data_finding* f =
                rig_must_find(c.check, NS_DATA_DEGREES, "q_hinge", "the model explains");
            assert_says(f->advice, "write b * deg in the map");
            if (milliseconds) rig_must_find(c.check, NS_DATA_MILLISECONDS, NULL, "milliseconds");
            if (!milliseconds) rig_only(c.check, NS_DATA_DEGREES);
            rig_drop(&c);
            free(r);
        }
    }
}

// A joint that has made some turns is not in degrees.
static void turns_are_silent(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 71);
    for (int i = 0; i < ROWS; i++) r->x[i][Q_HINGE] += 8.0 * PI;
    checked c = check_positions(r);
    assert_null(rig_find(c.check, NS_DATA_DEGREES, "q_hinge"));
    rig_drop(&c);
    free(r);
}

static void a_wrong_sign_is_found(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int velocities = 0; velocities < 2; velocities++) {
            recording* r = rig_record(noise_levels[k], 59);
            tempdir_write("map.yaml",
                          velocities ? "time: t\nobserve: {q_slide: a, q_hinge: b, qd_slide: c,"
                                       " qd_hinge: d}\ncontrol: {tau_slide: f}\n"
                                     : "time: t\nobserve: {q_slide: a, q_hinge: b}\n"
                                       "control: {tau_slide: f}\n");
            checked right = rig_check(r, "t,a,b,c,d,f", tempdir_path("map.yaml"));
            rig_only(right.check, -1);
            rig_drop(&right);
            for (int i = 0; i < ROWS; i++) r->x[i][TAU] = -r->x[i][TAU];
            checked c = rig_check(r, "t,a,b,c,d,f", tempdir_path("map.yaml"));
            // Twice differentiated noise hides all else.
            bool hidden = !velocities && noise_levels[k] > 2e-3;
            if (!hidden) {
                const ns_data_finding* f = rig_must_find(c.check, NS_DATA_CONTROL_SIGN, "tau_slide",
                                                         "its sign seems wrong");
                close_to("factor", f->value, -1.0, 0.3);
                assert_says(f->advice, "-(f)");
            }
            rig_only(c.check, NS_DATA_CONTROL_SIGN);
            rig_drop(&c);
            free(r);
        }
    }
}

// A control that has nothing to do with the motion is no wrong sign.
static void an_unrelated_control_is_silent(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 61);
    for (int i = 0; i < ROWS; i++) r->x[i][TAU] = 2.0 * sin(0.37 * i) + sin(0.11 * i);
    checked c = rig_check(r, NULL, NULL);
    assert_null(rig_find(c.check, NS_DATA_CONTROL_SIGN, "tau_slide"));
    rig_drop(&c);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degrees_without_velocities_are_found),
        cmocka_unit_test(turns_are_silent),
        cmocka_unit_test(a_wrong_sign_is_found),
        cmocka_unit_test(an_unrelated_control_is_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
