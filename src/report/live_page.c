// The page of a fit that is running.

#include "neuralsim/live_page.h"

#include "report/html.h"
#include "report/web_bundle.h"

ns_status ns_live_page_write(const ns_live_page* page, const ns_allocator* allocator, ns_text* out,
                             ns_error* error) {
    // A page that works without scripts: title, text, link.
    nsi_text_builder b = {.allocator = allocator ? *allocator : ns_default_allocator()};
    *out = (ns_text){0};
    nsi_html_open_live(&b, page->title);
    nsi_html_element(&b, "h1", page->title);

    // With a script, live progress replaces the text.
    nsi_web_bundle bundle;
    bool has_script = page->progress_url && nsi_web_bundle_get(&bundle);

    // The script finds its data by the address in this element.
    if (page->progress_url) {
        nsi_text_add(&b, "<div id=\"live\" data-url=\"");
        nsi_html_text(&b, page->progress_url);
        nsi_text_add(&b, "\"></div>\n");
    }
    // Without a script, the text is all there is.
    if (has_script) nsi_text_add(&b, "<noscript>");
    nsi_html_element(&b, "p", page->text);
    if (has_script) nsi_text_add(&b, "</noscript>\n");

    // A message of the run, such as an error.
    if (page->message) nsi_html_element(&b, "p", page->message);

    // Keep the last report accessible while the new one is computed.
    if (page->report_url) {
        nsi_text_add(&b, "<p><a href=\"");
        nsi_html_text(&b, page->report_url);
        nsi_text_add(&b, "\">The report before</a></p>\n");
    }
    // Escaping and memory errors are reported once, at the end.
    nsi_html_close(&b);
    return nsi_text_finish(&b, out, error);
}
