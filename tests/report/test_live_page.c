// The page of a running fit: what is in it, escaped; memory.

#include "neuralsim/live_page.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <string.h>

static void shows_what_is_given(void** state) {
    (void)state;
    ns_live_page page = {.title = "a <b>", .text = "Wait & see.", .progress_url = "progress"};
    ns_text html;
    ns_error error;
    must(ns_live_page_write(&page, NULL, &html, &error), &error);
    assert_says(html.data, "<h1>a &lt;b&gt;</h1>");
    assert_says(html.data, "<div id=\"live\" data-url=\"progress\"></div>");
    assert_says(html.data, "<p>Wait &amp; see.</p>");
    assert_null(strstr(html.data, "report.html"));
    ns_text_free(&html);

    page = (ns_live_page){
        .title = "t", .text = "It failed.", .message = "no data", .report_url = "report.html"};
    must(ns_live_page_write(&page, NULL, &html, &error), &error);
    assert_null(strstr(html.data, "id=\"live\""));
    assert_says(html.data, "<p>no data</p>");
    assert_says(html.data, "<a href=\"report.html\">");
    ns_text_free(&html);
}

static void out_of_memory_is_reported(void** state) {
    (void)state;
    ns_live_page page = {.title = "t", .text = "x", .progress_url = "progress"};
    ns_status status = NS_ERR_NOMEM;
    for (size_t n = 1; status == NS_ERR_NOMEM; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_text html;
        status = ns_live_page_write(&page, &allocator, &html, NULL);
        assert_true(status == NS_OK || !html.data);
        ns_text_free(&html);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_int_equal(status, NS_OK);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shows_what_is_given),
        cmocka_unit_test(out_of_memory_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
