// Velocities that do not match positions: scale, sign, delay.

#include "data/check_rig.h"

static void wrong_scales_are_measured(void** state) {
    (void)state;
    const double scales[] = {2.0, 0.5, -1.0, 1.4};
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int s = 0; s < 4; s++) {
            recording* r = rig_record(noise_levels[k], 29);
            for (int i = 0; i < ROWS; i++) r->x[i][QD_HINGE] /= scales[s];
            checked c = rig_check(r, NULL, NULL);
            const ns_data_finding* f = rig_must_find(c.check, NS_DATA_VELOCITY_SCALE, "qd_hinge",
                                                     "the rate of q_hinge is ");
            close_to("scale", f->value / scales[s], 1.0, 0.02);
            rig_only(c.check, NS_DATA_VELOCITY_SCALE);
            rig_drop(&c);
            free(r);
        }
    }
}

static void delays_are_measured(void** state) {
    (void)state;
    const int delays[] = {3, -4, 8};
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int d = 0; d < 3; d++) {
            recording *r = rig_record(noise_levels[k], 31), *late = rig_record(noise_levels[k], 31);
            for (int i = 0; i < ROWS; i++) {
                int from = i - delays[d];
                from = from < 0 ? 0 : from >= ROWS ? ROWS - 1 : from;
                late->x[i][QD_HINGE] = r->x[from][QD_HINGE];
            }
            checked c = rig_check(late, NULL, NULL);
            const ns_data_finding* f = rig_must_find(c.check, NS_DATA_VELOCITY_DELAY, "qd_hinge",
                                                     delays[d] > 0 ? " late " : " early ");
            close_to("delay", f->value, delays[d] * PERIOD, 0.4 * PERIOD);
            rig_only(c.check, NS_DATA_VELOCITY_DELAY);
            rig_drop(&c);
            free(r);
            free(late);
        }
    }
}

// Without a model, names tell what belongs together.
static void names_tell_pairs(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 37);
    for (int i = 0; i < ROWS; i++) r->x[i][QD_HINGE] *= 3.0;
    const char* path = rig_write("names.csv", r, "t,a,joint/x/position,a_dot,joint/x/velocity,f");
    ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(check, NS_DATA_VELOCITY_SCALE, "joint/x/velocity", "rate of");
    close_to("scale", f->value, 1.0 / 3.0, 0.01);
    assert_int_equal(ns_data_check_count(check, NS_DATA_WARNING), 1);
    ns_data_check_free(check);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_scales_are_measured),
        cmocka_unit_test(delays_are_measured),
        cmocka_unit_test(names_tell_pairs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
