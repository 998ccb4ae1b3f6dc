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

static uint32_t count_of(const ns_data_check* check, ns_data_code code) {
    uint32_t count = 0;
    for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
        count += ns_data_check_finding(check, k)->code == code;
    }
    return count;
}

// A table of trajectories, each a sine of this frequency.
static const char* write_trajectories(const char* name, const double* frequencies, int count) {
    FILE* file = fopen(tempdir_path(name), "w");
    assert_non_null(file);
    fprintf(file, "t,traj,a\n");
    for (int k = 0; k < count; k++) {
        for (int i = 0; i < 50; i++) {
            fprintf(file, "%g,%d,%.9g\n", 0.01 * i, k, sin(0.1 * frequencies[k] * i));
        }
    }
    assert_int_equal(fclose(file), 0);
    return tempdir_path(name);
}

// Equal recordings are one finding, which names trajectories.
static void equal_trajectories_are_one_finding(void** state) {
    (void)state;
    const double a[] = {1.0, 2.0, 1.0, 3.0}, b[] = {4.0, 1.0, 3.0};
    const char* files[] = {write_trajectories("a.csv", a, 4), write_trajectories("b.csv", b, 3)};
    ns_data_check* check = rig_check_files(files, 2, NULL, NULL);
    assert_int_equal(count_of(check, NS_DATA_DUPLICATE), 2);
    int found = 0;
    for (uint32_t k = 0; k < ns_data_check_finding_count(check); k++) {
        const ns_data_finding* f = ns_data_check_finding(check, k);
        if (f->code != NS_DATA_DUPLICATE) continue;
        char three[700], two[700];
        snprintf(three, sizeof three, "3 recordings have the same numbers: %s:0, %s:2, %s:1; ",
                 files[0], files[0], files[1]);
        snprintf(two, sizeof two, "2 recordings have the same numbers: %s:3, %s:2; ", files[0],
                 files[1]);
        if (strstr(f->text, three)) {
            found |= 1;
            assert_int_equal(f->count, 3);
            assert_int_equal(f->nplace, 3);
            assert_string_equal(f->places[1].recording, "a.csv:2");
            assert_int_equal(f->places[1].line, 2 + 2 * 50);
        } else {
            assert_says(f->text, two);
            found |= 2;
        }
    }
    assert_int_equal(found, 3);
    ns_data_check_free(check);

    // The same file twice: one finding for all of its recordings.
    const char* twice[] = {files[1], files[1]};
    check = rig_check_files(twice, 2, NULL, NULL);
    assert_int_equal(count_of(check, NS_DATA_DUPLICATE), 1);
    const ns_data_finding* f = rig_must_find(check, NS_DATA_DUPLICATE, NULL, "(3 recordings: ");
    assert_int_equal(f->count, 3);
    ns_data_check_free(check);
}

// Copies in both sets: a finding for the set, and one for the pair of sets.
static void copies_in_two_sets_are_one_finding_each(void** state) {
    (void)state;
    const double train[] = {1.0, 2.0, 3.0}, test[] = {1.0, 5.0, 1.0};
    const char* files[] = {write_trajectories("a.csv", train, 3),
                           write_trajectories("b.csv", test, 3)};
    const char* names[] = {"train", "test"};
    ns_error error = {0};
    ns_data_map* map = NULL;
    ns_dataset* sets[2];
    ns_data_check* check = NULL;
    const char text[] = "time: t\ntrajectory: traj\nobserve: {a: a}\n";
    must(ns_data_map_load(tempdir_write("map.yaml", text), NULL, &map, &error), &error);
    for (int k = 0; k < 2; k++) {
        must(ns_dataset_create(map, 0.0, NULL, &sets[k], &error), &error);
        nsi_dataset_keep_rows(sets[k]);
        must(ns_dataset_add(sets[k], files[k], NULL, &error), &error);
    }
    must(ns_data_check_sets((const ns_dataset* const*)sets, names, 2, NULL, NULL, &check, &error),
         &error);
    assert_int_equal(count_of(check, NS_DATA_DUPLICATE), 1);
    assert_int_equal(count_of(check, NS_DATA_TRAIN_IS_TEST), 1);
    const ns_data_finding* f =
        rig_must_find(check, NS_DATA_TRAIN_IS_TEST, NULL, "a.csv:0 of the train data: ");
    assert_int_equal(f->count, 2);
    assert_says(f->text, "b.csv:2; ");
    rig_must_find(check, NS_DATA_DUPLICATE, NULL, "2 recordings have the same numbers: ");
    ns_data_check_free(check);
    for (int i = 0; i < 2; i++) ns_dataset_free(sets[i]);
    ns_data_map_free(map);
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
        cmocka_unit_test(equal_trajectories_are_one_finding),
        cmocka_unit_test(copies_in_two_sets_are_one_finding_each),
        cmocka_unit_test(test_data_that_is_training_data_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
