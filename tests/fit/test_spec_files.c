// Which files a fit file means: where data is searched, and globs.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "fit/spec_rig.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Data lies beside the spec, or below the folder of the environment.
static void data_is_looked_for(void** state) {
    (void)state;
    experiment_write("fit.yaml", MODEL "data: {folder: runs, train: [far.csv]}\n" MASS);
    const char* message = experiment_error("fit.yaml", NS_ERR_IO);
    assert_non_null(strstr(message, "NEURALSIM_DATA"));
    char folder[256], command[600];
    snprintf(folder, sizeof folder, "%s", tempdir_path("elsewhere"));
    snprintf(command, sizeof command, "mkdir -p '%s/runs' && cp '%s' '%s/runs/far.csv'", folder,
             tempdir_path("a.csv"), folder);
    assert_int_equal(system(command), 0); // NOLINT
    setenv("NEURALSIM_DATA", folder, 1);
    ns_fit_free(experiment_load("fit.yaml", 1));
    unsetenv("NEURALSIM_DATA");
    snprintf(command, sizeof command, "%s/runs/far.csv", folder);
    experiment_write("fit.yaml", MODEL "data: {train: [%s]}\n" MASS, command);
    ns_fit_free(experiment_load("fit.yaml", 1));
}

// What is wrong in a file that another extends is told with its name and its lines.
static void errors_name_the_extended_file(void** state) {
    (void)state;
    experiment_write("fit.yaml", "title: a fit\nextends: base.yaml\n");
    experiment_write("base.yaml", MODEL "data: {train: [a.csv]}\n" MASS "train: {window: 5000}\n");
    assert_says(experiment_error("fit.yaml", NS_ERR_PARSE), "base.yaml:4:8: ");
    experiment_write("base.yaml", "data: {train: [a.csv]}\nmodel: none.urdf\n" MASS);
    assert_says(experiment_error("fit.yaml", NS_ERR_IO), "base.yaml:2:8: there is no file ");
}

// Files in the order of their names; those that `take` says.
static void globs_stand_for_files(void** state) {
    (void)state;
    static const char* const names[] = {"run_b.csv", "run_a.csv", "run_c.csv"};
    for (int k = 0; k < 3; k++) {
        char command[600];
        snprintf(command, sizeof command, "%s", tempdir_path(names[k]));
        char copy[700];
        snprintf(copy, sizeof copy, "cp '%s' '%s'", tempdir_path("a.csv"), command);
        assert_int_equal(system(copy), 0); // NOLINT
    }
    experiment_write("fit.yaml", MODEL
                     "data: {train: [{file: run_*.csv, select: 1-2, to: 0.1}], test: [run_?.csv,"
                     " a.csv]}\n" MASS);
    ns_fit* fit = experiment_load("fit.yaml", 1);
    const nsi_fit_spec_files* files = fit->spec->files;
    assert_int_equal(files[NS_ROLE_TRAIN].count, 2);
    assert_non_null(strstr(files[NS_ROLE_TRAIN].data[0].path, "run_b.csv"));
    assert_non_null(strstr(files[NS_ROLE_TRAIN].data[1].path, "run_c.csv"));
    assert_true(files[NS_ROLE_TRAIN].data[1].part.to == 0.1);
    assert_int_equal(files[NS_ROLE_TEST].count, 4);
    ns_fit_free(fit);
    experiment_write("fit.yaml", MODEL "data: {train: [ran_*.csv]}\n" MASS);
    assert_non_null(strstr(experiment_error("fit.yaml", NS_ERR_PARSE), "no file that fits ran_*"));
    experiment_write("fit.yaml", MODEL "data: {train: [{file: run_*.csv, select: 3}]}\n" MASS);
    assert_non_null(
        strstr(experiment_error("fit.yaml", NS_ERR_PARSE), "only 3 files fit run_*.csv"));
    experiment_write("fit.yaml", MODEL "data: {train: [{file: run_*.csv, select: 1-7}]}\n" MASS);
    assert_non_null(strstr(experiment_error("fit.yaml", NS_ERR_PARSE), "only 3 files fit"));
    experiment_write("fit.yaml", MODEL "data: {train: [{file: a.csv, select: 0-1}]}\n" MASS);
    assert_non_null(strstr(experiment_error("fit.yaml", NS_ERR_PARSE), "`select` is for globs"));
    experiment_write("fit.yaml", MODEL
                     "data: {train: [{file: run_*.csv, select: 4294967296-4294967299}]}\n" MASS);
    assert_non_null(strstr(experiment_error("fit.yaml", NS_ERR_PARSE), "numbers of files"));
    experiment_write("fit.yaml", MODEL "data: {train: [{file: run_*.csv, select: 3-1}]}\n" MASS);
    assert_non_null(strstr(experiment_error("fit.yaml", NS_ERR_PARSE), "numbers of files"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(data_is_looked_for),
        cmocka_unit_test(errors_name_the_extended_file),
        cmocka_unit_test(globs_stand_for_files),
    };
    return cmocka_run_group_tests(tests, write_files, NULL);
}
