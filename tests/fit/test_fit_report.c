// Results as text and as a page: at any width of letters, whole and safe with any names.

#define _XOPEN_SOURCE 700

#include "fit/result_rig.h"
#include "report/web_bundle.h"
#include "support/testalloc.h"

#include <expat.h>
#include <locale.h>
#include <wchar.h>

static form* const forms[] = {as_text, nsi_result_json, as_page, as_report_json};

// The widest line in columns, by the C library's reckoning.
static int widest(const char* text) {
    int most = 0;
    while (*text) {
        size_t length = strcspn(text, "\n");
        wchar_t line[1000];
        char bytes[1000];
        assert_true(length < sizeof bytes);
        memcpy(bytes, text, length);
        bytes[length] = '\0';
        size_t count = mbstowcs(line, bytes, 1000);
        assert_true(count != (size_t)-1); // UTF-8
        int width = wcswidth(line, count);
        assert_true(width >= 0); // nothing that controls the terminal
        if (width > most) most = width;
        text += length + (text[length] == '\n');
    }
    return most;
}

static void text_fits_a_terminal(void** state) {
    (void)state;
    if (!setlocale(LC_CTYPE, "C.UTF-8")) skip();
    nsi_result a;
    make_sample(NULL, &a);
    ns_text text = show(as_text, &a);
    assert_true(widest(text.data) <= 100);
    assert_null(strstr(text.data, " \n"));
    static const char* const expected[] = {
        "0.0760   0.0003  ok",
        "- warning: At the lower bound: link/a/damping (0 kg m^2).",
        "+1 % (the motion does not change). Fix one of them.",
        "- warning: No effect on the data: half",
        "- Strongly correlated: first and second (-0.98",
        "PROBLEM: train: 2 of 40 windows do not stay finite",
        "61.2 s in all",
    };
    for (char* at; (at = strstr(text.data, "\n  "));) memmove(at, at + 2, strlen(at + 2) + 1);
    for (size_t k = 0; k < sizeof expected / sizeof *expected; k++) {
        if (!strstr(text.data, expected[k])) fail_msg("no \"%s\"", expected[k]);
    }
    assert_null(strstr(text.data, "stopped before"));
    ns_text_free(&text);

    a.complete = false;
    a.title = lengthy;
    for (uint32_t k = 0; k < a.estimates.count; k++) { // as wide as numbers get
        a.estimates.data[k].initial = -1.2345678e-300;
        a.estimates.data[k].value = -1.2345678e-300;
        a.estimates.data[k].standard_error = 1.2345678e-305;
    }
    text = show(as_text, &a);
    assert_true(widest(text.data) <= 100);
    assert_non_null(strstr(text.data, "The fit was stopped before its end;"));
    ns_text_free(&text);
    nsi_result_free(&a);
    setlocale(LC_CTYPE, "C");
}

static void many_parameters_are_counted(void** state) {
    (void)state;
    enum { MANY = 250 };
    static char names[MANY][16];
    nsi_result a;
    make_large(&a, MANY, names);
    ns_text text = show(as_text, &a);
    assert_non_null(strstr(text.data, "\np59 "));
    assert_null(strstr(text.data, "\np60 "));
    assert_non_null(strstr(text.data, "190 more rows are in the JSON."));
    ns_text_free(&text);
    text = show(nsi_result_json, &a);
    assert_non_null(strstr(text.data, "\"p249\""));
    ns_text_free(&text);
    text = show(as_page, &a);
    assert_non_null(strstr(text.data, "50 more rows are in the JSON"));
    nsi_web_bundle bundle;
    nsi_web_bundle_get(&bundle);
    assert_true(text.size < bundle.script_size + 1000000);
    ns_text_free(&text);
    nsi_result_free(&a);
}

// What an XML reader finds in a page, which is strict about what is open and what is closed.
typedef struct page {
    int elements, pictures, bars, items;
    char text[400000]; // of all elements
    size_t size;
} page;

static void on_start(void* context, const char* name, const char** attributes) {
    page* p = context;
    p->elements++;
    p->pictures += strcmp(name, "svg") == 0;
    p->bars += strcmp(name, "rect") == 0;
    p->items += strcmp(name, "li") == 0;
    static const char* const known[] = {
        "html",       "head",    "meta",    "title",  "style",    "body", "h1",
        "h2",         "h3",      "dl",      "dt",     "dd",       "div",  "table",
        "tr",         "th",      "td",      "p",      "ul",       "li",   "svg",
        "rect",       "line",    "text",    "circle", "polyline", "path", "figure",
        "figcaption", "details", "summary", "pre",    "strong"};
    bool found = false;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) found |= strcmp(name, known[k]) == 0;
    if (!found) fail_msg("<%s>", name);
    for (; *attributes; attributes += 2) { // nothing is fetched or run
        if (strcmp(attributes[0], "href") == 0 || strcmp(attributes[0], "src") == 0 ||
            strncmp(attributes[0], "on", 2) == 0 || strstr(attributes[1], "nan") ||
            strstr(attributes[1], "inf")) {
            fail_msg("%s=\"%s\"", attributes[0], attributes[1]);
        }
    }
}

static void on_text(void* context, const char* text, int length) {
    page* p = context;
    assert_true(p->size + (size_t)length < sizeof p->text);
    memcpy(p->text + p->size, text, (size_t)length);
    p->size += (size_t)length;
    p->text[p->size] = '\0';
}

// A page ends with our script, if there is one, and has no other.
static void remove_script(ns_text* text) {
    nsi_web_bundle bundle;
    char* script = strstr(text->data, "<script>");
    if (!nsi_web_bundle_get(&bundle)) {
        assert_null(script);
        return;
    }
    assert_non_null(script);
    char* end = script + strlen("<script>");
    assert_memory_equal(end, bundle.script, bundle.script_size);
    end += bundle.script_size + strlen("</script>");
    memmove(script, end, strlen(end) + 1);
    text->size = strlen(text->data);
}

static void read_page(ns_text* text, page* out) {
    remove_script(text);
    *out = (page){0};
    XML_Parser parser = XML_ParserCreate("UTF-8");
    XML_SetUserData(parser, out);
    XML_SetStartElementHandler(parser, on_start);
    XML_SetCharacterDataHandler(parser, on_text);
    if (XML_Parse(parser, text->data, (int)text->size, 1) != XML_STATUS_OK) {
        fail_msg("line %lu: %s", XML_GetCurrentLineNumber(parser),
                 XML_ErrorString(XML_GetErrorCode(parser)));
    }
    XML_ParserFree(parser);
}

static int occurrences(const char* text, const char* wanted) {
    int count = 0;
    for (; (text = strstr(text, wanted)); text++) count++;
    return count;
}

static void the_page_is_whole_and_safe(void** state) {
    (void)state;
    static page p;
    nsi_result a;
    make_sample(NULL, &a);
    ns_text text = show(as_page, &a);
    read_page(&text, &p);
    assert_int_equal(p.pictures, 7); // intervals, correlation, two roles, path, history, timing
    assert_null(strstr(text.data, "<script"));
    assert_null(strstr(text.data, "</script"));
    assert_null(strstr(text.data, "http:"));
    assert_null(strstr(text.data, "https:"));
    // Title (twice), parameter, direction, interval, correlation, phase and note.
    assert_true(occurrences(p.text, hostile) >= 7);
    assert_true(occurrences(p.text, wide) >= 4);
    assert_non_null(strstr(p.text, "0.0760"));
    assert_non_null(strstr(p.text, "half\xef\xbf\xbd"));
    assert_non_null(strstr(p.text, "Fix one of them."));
    assert_true(strlen(text.data) < 300000); // with the numbers of 2500 points of history
    ns_text_free(&text);
    nsi_result_free(&a);
}

static void an_empty_answer_can_be_shown(void** state) {
    (void)state;
    static page p;
    nsi_result a;
    nsi_result_init(NULL, &a);
    ns_text text = show(as_text, &a);
    assert_string_equal(
        text.data, "PROBLEM: The fit was stopped before its end; --resume continues it.\n\nFit\n");
    ns_text_free(&text);
    text = show(nsi_result_json, &a);
    json_t* root = parse(&text);
    assert_true(json_is_null(get(root, "title")));
    assert_int_equal(json_array_size(get(root, "parameters")), 0);
    json_decref(root);
    ns_text_free(&text);
    text = show(as_page, &a);
    read_page(&text, &p);
    assert_int_equal(p.pictures, 0);
    ns_text_free(&text);

    // Estimates without an analysis, without names; a history of nothing.
    add_estimate(&a, NULL, 0.0, 0.0, -INFINITY, INFINITY);
    a.estimates.data[0].unit = NULL;
    a.estimates.data[0].verdict = NS_VERDICT_NO_EFFECT;
    assert_true(nsi_array_push(&a.allocator, &a.history, (ns_fit_history_point){.value = NAN}));
    assert_true(nsi_array_push(&a.allocator, &a.history, (ns_fit_history_point){.value = 0.0}));
    assert_true(nsi_array_push(&a.allocator, &a.notes, NULL));
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        text = show(forms[k], &a);
        assert_null(strstr(text.data, "o effect"));
        if (forms[k] == as_page) read_page(&text, &p);
        ns_text_free(&text);
    }
    nsi_result_free(&a);
    nsi_result_free(&a); // again
}

static void all_zero_values_can_be_drawn(void** state) {
    (void)state;
    static page p;
    nsi_result a;
    nsi_result_init(NULL, &a);
    add_estimate(&a, "a", 0.0, 0.0, -INFINITY, INFINITY);
    add_estimate(&a, "b", 0.0, 0.0, -INFINITY, INFINITY);
    assert_int_equal(nsi_result_identify(&a, (double[]){1, 0, 0, 1}, 0.0, NULL, NULL), NS_OK);
    a.after[NS_ROLE_TRAIN] = make_score(&a.allocator, 0.0, 0);
    for (uint32_t k = 0; k < 3; k++) {
        assert_true(
            nsi_array_push(&a.allocator, &a.history, ((ns_fit_history_point){.value = 3.0})));
    }
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        ns_text text = show(forms[k], &a);
        if (forms[k] == as_page) read_page(&text, &p);
        ns_text_free(&text);
    }
    assert_int_equal(p.pictures, 4);
    nsi_result_free(&a);
}

static void locale_does_not_matter(void** state) {
    (void)state;
    nsi_result a;
    make_sample(NULL, &a);
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        ns_text one = show(forms[k], &a);
        setlocale(LC_ALL, "de_DE.UTF-8"); // where there is such a locale, its decimal comma
        ns_text other = show(forms[k], &a);
        setlocale(LC_ALL, "C");
        assert_string_equal(one.data, other.data);
        ns_text_free(&one);
        ns_text_free(&other);
    }
    nsi_result_free(&a);
}

static void no_memory_is_said(void** state) {
    (void)state;
    test_alloc counter = {0};
    ns_allocator memory = test_allocator(&counter);
    nsi_result a;
    make_sample(&memory, &a);
    a.history.count = 3;
    size_t live = counter.live_blocks;
    for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
        bool done = false;
        for (size_t n = 1; !done; n++) {
            counter.calls = 0;
            counter.fail_at = n;
            ns_text text = {0};
            ns_error error = {0};
            ns_status status = forms[k](&a, &text, &error);
            done = counter.calls < n;
            assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
            assert_int_equal(error.status, status);
            ns_text_free(&text);
            assert_int_equal(counter.live_blocks, live);
        }
    }
    counter.fail_at = 0;
    nsi_result_free(&a);
    assert_int_equal(counter.live_blocks, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_fits_a_terminal),
        cmocka_unit_test(many_parameters_are_counted),
        cmocka_unit_test(the_page_is_whole_and_safe),
        cmocka_unit_test(an_empty_answer_can_be_shown),
        cmocka_unit_test(all_zero_values_can_be_drawn),
        cmocka_unit_test(locale_does_not_matter),
        cmocka_unit_test(no_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
