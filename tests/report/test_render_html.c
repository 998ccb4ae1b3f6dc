// Reports in a browser: problems first, everything there, everything escaped, no link elsewhere.

#include "neuralsim/report.h"

#include "support/assert.h"
#include "support/payload.h"
#include "support/sample_report.h"

#include <stdlib.h>
#include <string.h>

static ns_text render(const ns_report* report) {
    ns_text text;
    ns_error error;
    must(ns_report_html(report, &text, &error), &error);
    return text;
}

static const char* place(const ns_text* page, const char* part) {
    const char* at = strstr(page->data, part);
    if (!at) fail_msg("'%s' is not in the page", part);
    return at;
}

static void test_sample(void** state) {
    (void)state;
    static const char escaped[] =
        "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;";
    ns_report* r = sample_report(NULL);
    ns_text page = render(r);

    // The problem stands before everything else, and only there.
    const char *title = place(&page, "<h1>A sample"), *problem = place(&page, "class=\"problem\"");
    assert_true(problem < title && title < place(&page, "<dt>model</dt>"));
    assert_int_equal(payload_count(page.data, "The fit was stopped before its end."), 1);
    place(&page, "<dd>pendulum.urdf</dd>");
    assert_true(place(&page, "<h2>Parameters</h2>") < place(&page, "<h2>Motion</h2>"));
    assert_null(strstr(page.data, "<h2>Nothing</h2>"));

    // Tables: headings, alignment, estimates in two cells, verdicts, rows that are left out.
    place(&page, "<th class=\"l\">parameter</th><th>start, kg</th><th>estimate</th>"
                 "<th>\xc2\xb1</th>");
    place(&page, "<td class=\"\">0.0760</td><td class=\"\">0.0003</td>");
    place(&page, "<td class=\"l bad\">not identifiable</td>");
    place(&page, "<td class=\"l\">ok</td>");
    place(&page, SAMPLE_LONG);
    place(&page, "<h3>Many rows</h3>");
    place(&page, "<p>50 more rows are in the JSON.</p>");

    // Notes, figures, motions.
    place(&page, "<p class=\"faint\">3 residuals.</p>");
    place(&page, "<li>An item.</li>");
    place(&page, "<li class=\"warning\"><strong>Warning:</strong> Careful: ");
    place(&page, "<figure id=\"figure-angle_1\"");
    assert_int_equal(payload_count(page.data, "<div id=\"viewer\">"), 1);
    payload p = payload_read(page.data);
    assert_non_null(payload_quantity(&p, 0, 0, "angle"));
    payload_free(&p);

    // Title twice, a heading, a cell, a warning, a caption: escaped, and no script of theirs.
    assert_int_equal(payload_count(page.data, escaped), 6);
    assert_int_equal(payload_count(page.data, "alert('1"), 0);
    assert_int_equal(payload_count(page.data, "href="), 1);
    place(&page, "<a href=\"upper/report.html\">link/upper/mass</a>");
    ns_text_free(&page);
    ns_report_free(r);
}

// Addresses lead below the page and nowhere else.
static void test_links(void** state) {
    (void)state;
    static const char* const refused[] = {"/etc/passwd", "https://example.org", "../up.html",
                                          "data:text/html,x", ""};
    for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
        ns_report* r = NULL;
        assert_int_equal(ns_report_create("Links", NULL, &r, NULL), NS_OK);
        const ns_report_column column = {.name = "fit"};
        const ns_cell cell = ns_cell_link("name", refused[k]);
        ns_report_table_add_row(
            ns_section_add_table(ns_report_add_section(r, NULL), "t", NULL, &column, 1), &cell, 1);
        ns_text page = render(r);
        place(&page, "<td class=\"l\">name</td>");
        assert_int_equal(payload_count(page.data, "href="), 0);
        ns_text_free(&page);
        ns_report_free(r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sample), cmocka_unit_test(test_links)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
