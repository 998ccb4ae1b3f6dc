// The record of a result, and the view that callers have of it.

#define _XOPEN_SOURCE 700

#include "fit/result_rig.h"

// The report of the public view is that of the record.
static void the_public_result_has_the_same_report(void** state) {
    (void)state;
    nsi_result a;
    make_sample(NULL, &a);
    ns_fit_result view = nsi_result_view(&a);
    ns_report* report = NULL;
    assert_int_equal(ns_fit_result_report(&view, &report, NULL), NS_OK);
    static report_renderer* const all[] = {ns_report_text, ns_report_html, ns_report_json};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        ns_text one, other;
        assert_int_equal(all[k](report, &one, NULL), NS_OK);
        assert_int_equal(render_result(&a, all[k], &other, NULL), NS_OK);
        assert_string_equal(one.data, other.data);
        ns_text_free(&one);
        ns_text_free(&other);
    }
    ns_report_free(report);
    nsi_result_free(&a);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_public_result_has_the_same_report),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
