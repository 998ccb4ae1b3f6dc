// Names that a builder takes, and how long they may be.

#include "model/builder_rig.h"
#include "model/model_data.h"
#include "support/assert.h"

static void long_names_are_refused(void** state) {
    (void)state;
    char name[NSI_MODEL_MAX_NAME + 2];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod(name, NULL);
    link.joint = "j";
    ns_error error;
    assert_int_equal(ns_model_builder_add_link(builder, &link, &error), NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "201 bytes; at most 200"));
    link.name = name + 1; // just short enough
    add(builder, &link);
    ns_model* model = finish(builder);
    assert_string_equal(ns_model_link(model, 0)->name, name + 1);
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
