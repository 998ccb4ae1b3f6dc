// Which studies there are below folders.

#include "neuralsim/study.h"
#include "support/assert.h"
#include "support/tempdir.h"

static void write_study(const char* folder, const char* text) {
    char path[100];
    snprintf(path, sizeof path, "%s/study.yaml", folder);
    tempdir_mkdir(folder);
    tempdir_write(path, text);
}

// By name; of two of the same name the one of the first folder, with what it says.
static void studies_are_listed(void** state) {
    (void)state;
    tempdir_mkdir("one");
    tempdir_mkdir("two");
    tempdir_mkdir("one/empty");
    write_study("one/b", "kind: fits\ntitle: First\n");
    write_study("one/broken", "kind: [\n");
    write_study("one/.hidden", "title: Hidden\n");
    write_study("two/b", "title: Second\n");
    write_study("two/a", "title: Other\n");
    write_study("two/untitled", "kind: grid\n");
    const char* folders[3] = {tempdir_path("one"), tempdir_path("nowhere"), tempdir_path("two")};
    static const char* const names[] = {"a", "b", "broken", "untitled"};
    static const char* const titles[] = {"Other", "First", NULL, NULL};

    ns_study_list* list = NULL;
    ns_error error;
    must(ns_study_list_create(folders, 3, &list, &error), &error);
    assert_int_equal(ns_study_list_count(list), 4);
    for (uint32_t k = 0; k < 4; k++) {
        const ns_study_entry* entry = ns_study_list_at(list, k);
        assert_string_equal(entry->name, names[k]);
        if (titles[k]) assert_string_equal(entry->title, titles[k]);
        if (!titles[k]) assert_null(entry->title);
    }
    assert_says(ns_study_list_at(list, 1)->path, "one/b/study.yaml");
    assert_null(ns_study_list_at(list, 4));
    ns_study_list_free(list);

    must(ns_study_list_create(folders + 1, 1, &list, &error), &error);
    assert_int_equal(ns_study_list_count(list), 0);
    ns_study_list_free(list);
    ns_study_list_free(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(studies_are_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
