// Data checks as a whole: good recordings are silent, findings have places, tables of any form.

#include "data/check_rig.h"

// ---- good recordings -----------------------------------------------------------------------------

static void good_recordings_are_silent(void** state) {
    (void)state;
    for (int k = 0; k < NOISE_LEVELS; k++) {
        recording* r = rig_record(noise_levels[k], 7 + (uint64_t)k);
        checked c = rig_check(r, NULL, NULL);
        rig_only(c.check, -1);
        assert_int_equal(ns_data_check_recording_count(c.check), 1);
        assert_int_equal(ns_data_check_channel_count(c.check), 5);
        rig_drop(&c);

        // And without the model.
        const char* path = tempdir_path("run.csv");
        ns_data_check* plain = rig_check_files(&path, 1, NULL, NULL);
        rig_only(plain, -1);
        ns_data_check_free(plain);
        free(r);
    }
}

// The repository's own recordings.
static void own_recordings_are_silent(void** state) {
    (void)state;
    static const struct {
        const char *file, *model, *map;
    } sets[] = {
        {"examples/pendulum_recording.csv", "models/double_pendulum.urdf", NULL},
        {"examples/rusty_pendulum_run.csv", "models/double_pendulum.urdf", NULL},
        {"tests/data/cartpole/recording.csv", "tests/data/cartpole/model.xml",
         "tests/data/cartpole/map.yaml"},
        {"tests/data/posterior/driven.csv", NULL, NULL},
        {"tests/data/posterior/bound.csv", NULL, NULL},
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        char file[500], model_path[500], map[500];
        const char* root = NEURALSIM_SOURCE_DIR;
        snprintf(file, sizeof file, "%s/%s", root, sets[k].file);
        snprintf(model_path, sizeof model_path, "%s/%s", root, sets[k].model ? sets[k].model : "");
        snprintf(map, sizeof map, "%s/%s", root, sets[k].map ? sets[k].map : "");
        ns_model* model = NULL;
        ns_error error = {0};
        if (sets[k].model) must(ns_model_load(model_path, NULL, &model, &error), &error);
        const char* files[] = {file};
        ns_data_check* check = rig_check_files(files, 1, sets[k].map ? map : NULL, model);
        rig_only(check, -1);
        ns_data_check_free(check);
        ns_model_free(model);
    }
}

// ---- places --------------------------------------------------------------------------------------

static void findings_have_places_and_order(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 3);
    r->x[400][Q_HINGE] += 1.0;
    r->x[600][Q_HINGE] = NAN;
    checked c = rig_check(r, NULL, NULL);
    const ns_data_finding* f =
        rig_must_find(c.check, NS_DATA_OUTLIERS, "q_hinge", "run.csv:402: q_hinge: ");
    assert_int_equal(f->nplace, 1);
    assert_int_equal(f->places[0].line, 402);
    close_to("time", f->places[0].time, 4.0, 1e-9);
    assert_string_equal(f->places[0].recording, "run.csv");
    assert_non_null(strstr(f->text, f->message));
    assert_non_null(strstr(f->text, f->advice));

    // The outlier is a warning, a missing sample is worth a note.
    assert_int_equal(ns_data_check_count(c.check, NS_DATA_WARNING), 1);
    assert_int_equal(ns_data_check_finding(c.check, 0)->code, NS_DATA_OUTLIERS);
    f = rig_must_find(c.check, NS_DATA_MISSING, "q_hinge", "0.12 % of the samples");
    assert_int_equal(f->severity, NS_DATA_NOTE);
    assert_null(ns_data_check_finding(c.check, ns_data_check_finding_count(c.check)));

    // Rows without the missing one.
    const double *times, *values;
    assert_int_equal(ns_data_check_rows(c.check, 0, 1, &times, &values), ROWS - 1);
    close_to("time", times[600], 6.01, 1e-9);
    rig_drop(&c);
    free(r);
}

// ---- forms of tables -----------------------------------------------------------------------------

static void tables_of_any_form_are_checked(void** state) {
    (void)state;
    static const char* const texts[] = {
        "t\n",
        "t,a\n0,1\n",
        "t,a\n0,nan\n1,nan\n",
        "a,b\nx,y\n1,2\n",
        "t,a\n0,inf\n1,-inf\n2,1e308\n3,-1e308\n",
        "t,a\n0,1\n0,1\n0,1\n",
        "t,a\n1e300,1\n-1e300,2\n",
        "t,traj,a\n0,0,1\n1,0,2\n0,1,5\n1,1,6\n",
        "t,q0,qd0\n0,1,2\n1e-9,2,3\n5,1,1\n",
    };
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
        const char* path = tempdir_write("any.csv", texts[k]);
        ns_data_check* check = rig_check_files(&path, 1, NULL, NULL);
        for (uint32_t i = 0; i < ns_data_check_finding_count(check); i++) {
            const ns_data_finding* f = ns_data_check_finding(check, i);
            assert_non_null(f->text);
            assert_true(strlen(f->text) > 5);
        }
        ns_data_check_free(check);
    }
}

// ---- data sets -----------------------------------------------------------------------------------

static void arrays_are_checked_on_the_grid(void** state) {
    (void)state;
    recording* r = rig_record(1e-3, 5);
    double values[ROWS], controls[ROWS];
    for (int k = 0; k < ROWS; k++) values[k] = r->x[k][Q_HINGE] + (k == 300 ? 1.0 : 0.0);
    for (int k = 0; k < ROWS; k++) controls[k] = r->x[k][TAU];
    ns_array_channel hinge = {.name = "joint/hinge/position"};
    const char* names[] = {"tau0"};
    ns_dataset* data = NULL;
    ns_error error = {0};
    must(ns_dataset_create_arrays(&hinge, 1, names, 1, PERIOD, NULL, &data, &error), &error);
    must(ns_dataset_add_arrays(data, "swing", ROWS, values, controls, &error), &error);
    const ns_dataset* sets[] = {data};
    const char* roles[] = {"train"};
    ns_data_check* check = NULL;
    ns_model* model = rig_model();
    must(ns_data_check_sets(sets, roles, 1, model, NULL, &check, &error), &error);
    const ns_data_finding* f = rig_must_find(check, NS_DATA_OUTLIERS, "joint/hinge/position",
                                             "swing: joint/hinge/position");
    close_to("time", f->places[0].time, 3.0, 1e-9);
    assert_int_equal(ns_data_check_count(check, NS_DATA_WARNING), 1);
    ns_data_check_free(check);
    ns_dataset_free(data);
    ns_model_free(model);
    free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_recordings_are_silent),
        cmocka_unit_test(own_recordings_are_silent),
        cmocka_unit_test(findings_have_places_and_order),
        cmocka_unit_test(tables_of_any_form_are_checked),
        cmocka_unit_test(arrays_are_checked_on_the_grid),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
