// Degrees, turns, millimetres and milliseconds.

#include "data/check_rig.h"

#define HEADER "t,q_slide,q_hinge,qd_slide,qd_hinge,tau_slide"

static void scale_column(recording* r, int column, double factor) {
    for (int i = 0; i < ROWS; i++) r->x[i][column] *= factor;
}

static void clear_column(recording* r, int column) {
    for (int i = 0; i < ROWS; i++) r->x[i][column] = NAN;
}

// ---- angles --------------------------------------------------------------------------------------

static void degrees_are_found_by_the_velocity(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        recording* r = rig_record(noise_levels[k], 41);
        scale_column(r, Q_HINGE, 180.0 / PI);
        checked c = rig_check(r, NULL, NULL);
        const ns_data_finding* f =
            rig_must_find(c.check, NS_DATA_DEGREES, "q_hinge", "in degrees, not rad");
        assert_says(f->advice, "write q_hinge * deg in the map");
        rig_only(c.check, NS_DATA_DEGREES);
        rig_drop(&c);

        // The other way round, and in turns per minute.
        scale_column(r, Q_HINGE, PI / 180.0);
        scale_column(r, QD_HINGE, 180.0 / PI);
        c = rig_check(r, NULL, NULL);
        rig_must_find(c.check, NS_DATA_DEGREES, "qd_hinge", "in degrees per s, not rad/s");
        rig_only(c.check, NS_DATA_DEGREES);
        rig_drop(&c);
        scale_column(r, QD_HINGE, PI / 180.0 * 60.0 / (2.0 * PI));
        c = rig_check(r, NULL, NULL);
        rig_must_find(c.check, NS_DATA_DEGREES, "qd_hinge", "in turns per minute");
        rig_only(c.check, NS_DATA_DEGREES);
        rig_drop(&c);
        free(r);
    }
}

static void degrees_are_found_by_limits_and_names(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        // Both in degrees: the limits of the joint tell.
        recording* r = rig_record(noise_levels[k], 43);
        scale_column(r, Q_HINGE, 180.0 / PI);
        scale_column(r, QD_HINGE, 180.0 / PI);
        checked c = rig_check(r, NULL, NULL);
        rig_must_find(c.check, NS_DATA_DEGREES, "q_hinge",
                      "limits of the joint from -2.5 to 2.5 rad");
        assert_null(rig_find(c.check, NS_DATA_JOINT_LIMITS, "q_hinge"));
        rig_drop(&c);

        // The name of the column tells, until the map converts it.
        tempdir_write("deg.yaml", "time: t\nobserve: {joint/hinge/position: hinge_deg}\n");
        c = rig_check(r, "t,x,hinge_deg,xd,hinged,f", tempdir_path("deg.yaml"));
        rig_must_find(c.check, NS_DATA_DEGREES, "joint/hinge/position", "degrees");
        rig_drop(&c);
        tempdir_write("deg.yaml", "time: t\nobserve: {joint/hinge/position: hinge_deg * deg}\n");
        c = rig_check(r, "t,x,hinge_deg,xd,hinged,f", tempdir_path("deg.yaml"));
        rig_only(c.check, -1);
        rig_drop(&c);
        free(r);
    }
}

// ---- lengths -------------------------------------------------------------------------------------

static void millimetres_are_found(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        recording* r = rig_record(noise_levels[k], 47);
        scale_column(r, Q_SLIDE, 1000.0);
        checked c = rig_check(r, NULL, NULL);
        const ns_data_finding* f =
            rig_must_find(c.check, NS_DATA_MILLIMETRES, "q_slide", "in mm, not m");
        assert_says(f->advice, "write q_slide * mm in the map");
        rig_only(c.check, NS_DATA_MILLIMETRES);
        rig_drop(&c);

        // Without a velocity, the limits tell.
        clear_column(r, QD_SLIDE);
        tempdir_write("mm.yaml", "time: t\nobserve: {joint/slide/position: q_slide}\n");
        c = rig_check(r, HEADER, tempdir_path("mm.yaml"));
        rig_must_find(c.check, NS_DATA_MILLIMETRES, "joint/slide/position", "limits of the joint");
        rig_drop(&c);

        // The name of the column tells, until the map converts it.
        tempdir_write("mm.yaml", "time: t\nobserve: {joint/slide/position: x_mm}\n");
        c = rig_check(r, "t,x_mm,a,b,c,f", tempdir_path("mm.yaml"));
        rig_must_find(c.check, NS_DATA_MILLIMETRES, "joint/slide/position", "in mm");
        rig_drop(&c);
        tempdir_write("mm.yaml", "time: t\nobserve: {joint/slide/position: x_mm * 1e-3}\n");
        c = rig_check(r, "t,x_mm,a,b,c,f", tempdir_path("mm.yaml"));
        rig_only(c.check, -1);
        rig_drop(&c);
        free(r);

        // A velocity in mm/s.
        r = rig_record(noise_levels[k], 47);
        scale_column(r, QD_SLIDE, 1000.0);
        c = rig_check(r, NULL, NULL);
        rig_must_find(c.check, NS_DATA_MILLIMETRES, "qd_slide", "in mm/s, not m/s");
        rig_only(c.check, NS_DATA_MILLIMETRES);
        rig_drop(&c);
        free(r);
    }
}

// ---- time ----------------------------------------------------------------------------------------

static void milliseconds_are_found(void** state) {
    (void)state;
    const double factors[] = {1e3, 1e6};
    for (int k = 0; k < NOISE_LEVELS; k++) {
        for (int i = 0; i < 2; i++) {
            recording* r = rig_record(noise_levels[k], 53);
            scale_column(r, T, factors[i]);
            checked c = rig_check(r, NULL, NULL);
            const ns_data_finding* f =
                rig_must_find(c.check, NS_DATA_MILLISECONDS, NULL,
                              i == 0 ? "in milliseconds" : "in microseconds");
            close_to("factor", f->value / factors[i], 1.0, 1e-12);
            rig_only(c.check, NS_DATA_MILLISECONDS);
            rig_drop(&c);

            // Without velocities and a model, by the distance of rows.
            const char* path = rig_write("ms.csv", r, "t,a,b,c,d,e");
            ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
            rig_must_find(check, NS_DATA_MILLISECONDS, NULL, "s apart");
            ns_data_check_free(check);
            free(r);
        }
    }

    // The name of the column says how small the unit is: 100 us between rows are no 100 ms.
    recording* r = rig_record(1e-3, 53);
    for (int i = 0; i < ROWS; i++) r->x[i][T] = 100.0 * i;
    tempdir_write("us.yaml", "time: t_us\nobserve: {a: x}\n");
    const char* path = rig_write("us.csv", r, "t_us,x,a,xd,b,f");
    ns_data_check* check = rig_check_files(&path, 1, tempdir_path("us.yaml"), NULL);
    const ns_data_finding* f =
        rig_must_find(check, NS_DATA_MILLISECONDS, NULL, "in microseconds, not s");
    assert_says(f->advice, "`time: t_us * 1e-06`");
    ns_data_check_free(check);
    free(r);

    // Converted in the map.
    r = rig_record(1e-3, 53);
    scale_column(r, T, 1e3);
    tempdir_write("ms.yaml", "time: t_ms * 0.001\nobserve: {q_hinge: a, qd_hinge: b}\n");
    checked c = rig_check(r, "t_ms,x,a,xd,b,f", tempdir_path("ms.yaml"));
    rig_only(c.check, -1);
    rig_drop(&c);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(degrees_are_found_by_the_velocity),
        cmocka_unit_test(degrees_are_found_by_limits_and_names),
        cmocka_unit_test(millimetres_are_found),
        cmocka_unit_test(milliseconds_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
