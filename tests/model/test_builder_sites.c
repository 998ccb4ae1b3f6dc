// Sites that a builder refuses, and one that it takes.

#include "model/builder_rig.h"
#include "support/assert.h"

#include <math.h>

static void bad_sites_are_named(void** state) {
    (void)state;
    ns_model_builder* builder = new_builder();
    ns_link_def link = rod("a", NULL);
    add(builder, &link);
    ns_site_def good = ns_default_site_def(), site = good;
    ns_error error;
    assert_int_equal(ns_model_builder_add_site(builder, &site, &error), NS_ERR_ARGUMENT);
    good.name = "s", good.link = "a";
    site = good;
    site.link = "nobody";
    assert_int_equal(ns_model_builder_add_site(builder, &site, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "site \"s\": there is no link \"nobody\"");
    site = good;
    site.pose.position[1] = NAN;
    assert_int_equal(ns_model_builder_add_site(builder, &site, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "pose");
    must(ns_model_builder_add_site(builder, &good, &error), &error);
    assert_int_equal(ns_model_builder_add_site(builder, &good, &error), NS_ERR_ARGUMENT);
    assert_says(error.message, "another site has this name");
    ns_model* model = NULL;
    must(ns_model_builder_finish(builder, &model, &error), &error);
    ns_model_builder_free(builder);
    assert_int_equal(ns_model_get_sizes(model).nsite, 1);
    assert_string_equal(ns_model_site(model, 0)->link, "a");
    assert_null(ns_model_site(model, 1));
    ns_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_sites_are_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
