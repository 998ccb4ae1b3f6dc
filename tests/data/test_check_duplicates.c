// Recordings that are there twice, and test data that is training data.

#include "data/check_rig.h"
#include "data/map.h"

static void copies_are_found(void** state) {
    (void)state;
    recording *a = rig_record(1e-3, 79), *b = rig_record(1e-3, 83);
    ns_model* model = rig_model();
    const char* files[] = {rig_write("a.csv", a, NULL), rig_write("b.csv", b, NULL),
                           rig_write("copy.csv", a, NULL)};
    ns_data_check* check = rig_check_files(files, 3, NULL, model);
    const ns_data_finding* f = rig_must_find(check, NS_DATA_DUPLICATE, NULL, "copy.csv");
    assert_says(f->text, "a.csv");
    close_to("share", f->value, 1.0, 0.0);
    assert_int_equal(ns_data_check_count(check, NS_DATA_WARNING), 1);
    ns_data_check_free(check);

    // Others, with one number that differs.
    a->x[5][Q_SLIDE] += 1e-6;
    files[2] = rig_write("copy.csv", a, NULL);
    check = rig_check_files(files, 3, NULL, model);
    assert_null(rig_find(check, NS_DATA_DUPLICATE, NULL));
    ns_data_check_free(check);

    // The same file twice.
    const char* twice[] = {files[0], files[0]};
    check = rig_check_files(twice, 2, NULL, model);
    rig_must_find(check, NS_DATA_DUPLICATE, NULL, "100 %");
    assert_int_equal(ns_data_check_count(check, NS_DATA_WARNING), 1);
    ns_data_check_free(check);
    ns_model_free(model);
    free(a);
    free(b);
}

// Parts of a file as training and test data.
static ns_data_check* check_parts(const ns_model* model, ns_data_part train, ns_data_part test,
                                  ns_dataset* sets[2], ns_data_map** map) {
    ns_error error = {0};
    ns_data_check* check = NULL;
    const ns_data_part parts[] = {train, test};
    const char* names[] = {"train", "test"};
    must(ns_data_map_infer(tempdir_path("a.csv"), model, NULL, map, &error), &error);
    for (int k = 0; k < 2; k++) {
        must(ns_dataset_create(*map, 0.0, NULL, &sets[k], &error), &error);
        nsi_dataset_keep_rows(sets[k]);
        must(ns_dataset_add(sets[k], tempdir_path("a.csv"), &parts[k], &error), &error);
    }
    must(ns_data_check_sets((const ns_dataset* const*)sets, names, 2, model, NULL, &check, &error),
         &error);
    return check;
}

static void test_data_that_is_training_data_is_found(void** state) {
    (void)state;
    recording* a = rig_record(1e-3, 79);
    rig_write("a.csv", a, NULL);
    ns_model* model = rig_model();
    const struct {
        double train, test,
            share; // end of train and start of test, as fractions; share of the test data
    } cases[] = {{0.7, 0.7, 0.0}, {0.75, 0.5, 0.5}, {1.0, 0.0, 1.0}};
    for (int k = 0; k < 3; k++) {
        ns_dataset* sets[2];
        ns_data_map* map = NULL;
        ns_data_part train = {.to = cases[k].train, .fractions = true, .all_trajectories = true};
        ns_data_part test = {
            .from = cases[k].test, .to = 1.0, .fractions = true, .all_trajectories = true};
        ns_data_check* check = check_parts(model, train, test, sets, &map);
        const ns_data_finding* f = rig_find(check, NS_DATA_TRAIN_IS_TEST, NULL);
        assert_int_equal(f != NULL, cases[k].share > 0.0);
        if (f) close_to("share", f->value, cases[k].share, 0.01);
        if (f) assert_says(f->text, "of this test data is train data, too");
        rig_only(check, NS_DATA_TRAIN_IS_TEST);
        ns_data_check_free(check);
        for (int i = 0; i < 2; i++) ns_dataset_free(sets[i]);
        ns_data_map_free(map);
    }
    ns_model_free(model);
    free(a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(copies_are_found),
        cmocka_unit_test(test_data_that_is_training_data_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
