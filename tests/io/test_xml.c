// The XML tree: what it holds, what it refuses, and where it says so. Also lists of numbers.

#include "io/numbers.h"
#include "io/xml.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

static void parse(const char* text, nsi_xml* xml) {
    ns_error error = {0};
    must(nsi_xml_parse(text, strlen(text), "t", NULL, xml, &error), &error);
}

// The text must fail with this status and message.
static void refuse(const char* text, size_t size, ns_status status, const char* message) {
    nsi_xml xml;
    ns_error error = {0};
    ns_status got = nsi_xml_parse(text, size, "t", NULL, &xml, &error);
    nsi_xml_free(&xml);
    if (got == NS_OK) fail_msg("accepted: %.100s", text);
    if (!strstr(error.message, message)) fail_msg("\"%s\" is not \"%s\"", error.message, message);
    assert_int_equal(got, status);
    assert_int_equal(error.status, status);
}

static void refuse_text(const char* text, ns_status status, const char* message) {
    refuse(text, strlen(text), status, message);
}

static void the_tree_has_everything(void** state) {
    (void)state;
    nsi_xml xml;
    parse("<?xml version=\"1.0\"?>\n<!-- a comment -->\n"
          "<robot name='r &lt; &#65;'\n   other=\"x\">\n"
          "  <link/>\n  <joint a='1'>\n    <axis/>hello\n  </joint>\n  <link n='2'/>\n</robot>\n",
          &xml);
    const nsi_xml_element* root = xml.root;
    assert_string_equal(root->name, "robot");
    assert_int_equal(root->line, 3);
    assert_int_equal(root->nattributes, 2);
    assert_string_equal(nsi_xml_value(root, "name"), "r < A");
    assert_string_equal(nsi_xml_value(root, "other"), "x");
    assert_null(nsi_xml_value(root, "Name"));
    assert_null(nsi_xml_find(root, ""));
    assert_null(root->parent);
    assert_null(root->next);
    assert_int_equal(root->text_line, 0);
    assert_int_equal(xml.nelements, 5);

    const nsi_xml_element* link = nsi_xml_child(root, "link");
    assert_int_equal(link->line, 5);
    assert_ptr_equal(link->parent, root);
    assert_int_equal(link->nattributes, 0);
    assert_null(nsi_xml_child(link, "link"));
    const nsi_xml_element* second = nsi_xml_next(link, "link");
    assert_int_equal(second->line, 9);
    assert_ptr_equal(second, root->last_child);
    assert_null(nsi_xml_next(second, "link"));
    const nsi_xml_element* joint = nsi_xml_child(root, "joint");
    assert_string_equal(joint->first_child->name, "axis");
    assert_int_equal(joint->text_line, 7);
    nsi_xml_free(&xml);
    nsi_xml_free(&xml);
}

// The names of an element's children, and whether their links are right.
static void expect_children(const nsi_xml_element* parent, const char* names) {
    char all[100] = "";
    const nsi_xml_element* last = NULL;
    for (const nsi_xml_element* child = parent->first_child; child; child = child->next) {
        strcat(all, child->name);
        assert_ptr_equal(child->parent, parent);
        last = child;
    }
    assert_string_equal(all, names);
    assert_ptr_equal(parent->last_child, last);
}

static void documents_are_joined(void** state) {
    (void)state;
    nsi_xml xml;
    nsi_xml_element* root;
    ns_error error;
    parse("<r><a/><b><c/><d/></b><e/></r>", &xml);
    nsi_xml_element *a = xml.root->first_child, *b = a->next, *e = b->next;

    // In the middle, without children, at the start and at the end.
    nsi_xml_dissolve(b, a);
    expect_children(xml.root, "acde");
    nsi_xml_dissolve(a, NULL);
    expect_children(xml.root, "cde");
    nsi_xml_dissolve(e, xml.root->first_child->next);
    expect_children(xml.root, "cd");
    nsi_xml_dissolve(xml.root->first_child->next, xml.root->first_child);
    nsi_xml_dissolve(xml.root->first_child, NULL);
    expect_children(xml.root, "");

    // Another document has its own name, and counts.
    uint32_t before = xml.nelements;
    static const char more[] = "<s>\n<t/></s>", bad[] = "<s>\n<t></s>";
    must(nsi_xml_parse_more(&xml, more, strlen(more), "u", 3, &root, &error), &error);
    assert_int_equal(xml.nelements, before + 2);
    assert_string_equal(root->first_child->file, "u");
    assert_string_equal(xml.root->file, "t");
    assert_null(root->parent);
    assert_int_equal(nsi_xml_parse_more(&xml, bad, strlen(bad), "u", 3, &root, &error),
                     NS_ERR_PARSE);
    assert_memory_equal(error.message, "u:2: not well-formed", 20);
    assert_null(root);
    assert_int_equal(
        nsi_xml_parse_more(&xml, more, strlen(more), "u", NSI_XML_MAX_DEPTH - 1, &root, &error),
        NS_ERR_LIMIT);
    assert_int_equal(nsi_xml_parse_more(&xml, more, NSI_XML_MAX_SIZE - 10, "u", 0, &root, &error),
                     NS_ERR_LIMIT);
    assert_non_null(strstr(error.message, "u:1: the files together are larger than 64 MiB"));
    nsi_xml_free(&xml);
}

static void encodings_are_read(void** state) {
    (void)state;
    nsi_xml xml;
    parse("<?xml version='1.0' encoding='ISO-8859-1'?><a n='\xE9'/>", &xml);
    assert_string_equal(nsi_xml_value(xml.root, "n"), "\xC3\xA9");
    nsi_xml_free(&xml);
    parse("\xEF\xBB\xBF<a n='\xC3\xA9'/>", &xml);
    assert_string_equal(nsi_xml_value(xml.root, "n"), "\xC3\xA9");
    nsi_xml_free(&xml);
    const char utf16[] = "\xFE\xFF\0<\0a\0/\0>";
    ns_error error;
    assert_int_equal(nsi_xml_parse(utf16, sizeof utf16 - 1, "t", NULL, &xml, &error), NS_OK);
    assert_string_equal(xml.root->name, "a");
    nsi_xml_free(&xml);
    refuse_text("<?xml version='1.0' encoding='klingon'?><a/>", NS_ERR_PARSE, "t:1:");
    refuse_text("<a n='\xFF'/>", NS_ERR_PARSE, "t:1: not well-formed XML at column 7");
}

static void malformed_text_has_a_place(void** state) {
    (void)state;
    refuse_text("", NS_ERR_PARSE, "t:1: not well-formed XML at column 1: no element found");
    refuse_text("  \n \n", NS_ERR_PARSE, "t:3: not well-formed XML");
    refuse_text("hello", NS_ERR_PARSE, "t:1:");
    refuse_text("<a>\n<b>\n</a>", NS_ERR_PARSE, "t:3: not well-formed XML at column 3: mismatched");
    refuse_text("<a>\n<b/>", NS_ERR_PARSE, "t:2:");
    refuse_text("<a/>\n<b/>", NS_ERR_PARSE, "t:2:");
    refuse_text("<a x='1' x='2'/>", NS_ERR_PARSE, "duplicate attribute");
    refuse_text("<a x=1/>", NS_ERR_PARSE, "t:1:");
    refuse_text("<a>&nothing;</a>", NS_ERR_PARSE, "undefined entity");
    refuse_text("<a>&#0;</a>", NS_ERR_PARSE, "t:1:");
    refuse("<a>\0</a>", 8, NS_ERR_PARSE, "t:1:");
}

static void document_types_are_refused(void** state) {
    (void)state;
    static const char wanted[] = "document types and entities are not accepted";
    refuse_text("<!DOCTYPE a>\n<a/>", NS_ERR_UNSUPPORTED, wanted);
    refuse_text("<!-- x -->\n<!DOCTYPE a SYSTEM '/etc/passwd'>\n<a/>", NS_ERR_UNSUPPORTED, "t:2:");
    refuse_text("<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
                NS_ERR_UNSUPPORTED, wanted);
    // A billion laughs.
    refuse_text("<!DOCTYPE a [<!ENTITY b 'ha'><!ENTITY c '&b;&b;&b;&b;&b;&b;&b;&b;&b;'>"
                "<!ENTITY d '&c;&c;&c;&c;&c;&c;&c;&c;&c;'>]><a n='&d;&d;&d;&d;'/>",
                NS_ERR_UNSUPPORTED, wanted);
}

// `count` times `unit` between `start` and `end`.
static char* repeat(const char* start, const char* unit, size_t count, const char* end,
                    size_t* size) {
    size_t length = strlen(unit);
    char* text = malloc(strlen(start) + count * length + strlen(end) + 1);
    strcpy(text, start);
    char* at = text + strlen(start);
    for (size_t i = 0; i < count; i++, at += length) memcpy(at, unit, length);
    strcpy(at, end);
    *size = (size_t)(at - text) + strlen(end);
    return text;
}

static void sizes_are_limited(void** state) {
    (void)state;
    size_t size;
    char* text = repeat("", "<a>", NSI_XML_MAX_DEPTH + 1, "", &size);
    refuse(text, size, NS_ERR_LIMIT, "t:1: elements are nested more than 512 deep");
    free(text);
    // As deep as can be, and closed again: that is fine. A million deep is not.
    text = repeat("", "<a>", NSI_XML_MAX_DEPTH, "", &size);
    refuse(text, size, NS_ERR_PARSE, "no element found");
    free(text);
    text = repeat("", "<a>", 1000000, "", &size);
    refuse(text, size, NS_ERR_LIMIT, "deep");
    free(text);

    text = repeat("<a>", "<b/>", NSI_XML_MAX_ELEMENTS, "</a>", &size);
    refuse(text, size, NS_ERR_LIMIT, "there are more than 250000 elements");
    free(text);
    text = repeat("<a>", "<b/>", NSI_XML_MAX_ELEMENTS - 1, "</a>", &size);
    nsi_xml xml;
    assert_int_equal(nsi_xml_parse(text, size, "t", NULL, &xml, NULL), NS_OK);
    assert_int_equal(xml.nelements, NSI_XML_MAX_ELEMENTS);
    nsi_xml_free(&xml);
    free(text);

    text = repeat("<a x='", "0123456789", NSI_XML_MAX_VALUE / 10 + 1, "'/>", &size);
    refuse(text, size, NS_ERR_LIMIT, "the name or value of an attribute is too long");
    free(text);
    text = repeat("<a ", "abcdefghij", NSI_XML_MAX_NAME / 10 + 1, "='1'/>", &size);
    refuse(text, size, NS_ERR_LIMIT, "the name or value of an attribute is too long");
    free(text);
    text = repeat("<", "abcdefghij", NSI_XML_MAX_NAME / 10 + 1, "/>", &size);
    refuse(text, size, NS_ERR_LIMIT, "the name of an element is too long");
    free(text);

    char attributes[2000] = "<a";
    for (int i = 0; i <= NSI_XML_MAX_ATTRIBUTES; i++) {
        size_t length = strlen(attributes);
        snprintf(attributes + length, sizeof attributes - length, " a%d='1'", i);
    }
    strcat(attributes, "/>");
    refuse_text(attributes, NS_ERR_LIMIT, "an element has more than 64 attributes");

    // The size itself is looked at before anything is read.
    refuse("", (size_t)NSI_XML_MAX_SIZE + 1, NS_ERR_LIMIT, "t:1: the file is larger than 64 MiB");
}

static void memory_may_run_out_anywhere(void** state) {
    (void)state;
    static const char text[] =
        "<a x='1' y='2'><b/><c z='a long value that makes expat take more memory'>text</c></a>";
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_xml xml;
        ns_error error = {0};
        ns_status status = nsi_xml_parse(text, sizeof text - 1, "t", &allocator, &xml, &error);
        nsi_xml_free(&xml);
        assert_int_equal(counter.live_blocks, 0);
        if (counter.calls < n) {
            assert_int_equal(status, NS_OK);
            assert_true(n > 5);
            return;
        }
        assert_int_equal(status, NS_ERR_NOMEM);
        assert_int_equal(error.status, NS_ERR_NOMEM);
    }
}

// ---- numbers -----------------------------------------------------------------------------------

static void numbers_are_read(void** state) {
    (void)state;
    double v[4] = {0.0};
    uint32_t count;
    assert_int_equal(nsi_numbers_parse(" 1 -2.5e-3\t.5\n", 3, 3, v, &count, NULL), NS_OK);
    assert_int_equal(count, 3);
    assert_true(v[0] == 1.0 && v[1] == -2.5e-3 && v[2] == 0.5);
    assert_int_equal(nsi_numbers_parse("7", 1, 4, v, &count, NULL), NS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(nsi_numbers_parse("", 0, 4, v, &count, NULL), NS_OK);
    assert_int_equal(count, 0);
}

static void other_words_are_not_numbers(void** state) {
    (void)state;
    static const struct {
        const char* text;
        const char* message;
    } cases[] = {
        {"", "\"\" has 0 numbers where 3 are needed"},
        {"1 2", "\"1 2\" has 2 numbers where 3 are needed"},
        {"1 2 3 4", "has 4 numbers"},
        {"1 2 x", "\"x\" is not a number"},
        {"1,2,3", "\"1,2,3\" is not a number"},
        {"1 2 nan", "\"nan\" is not finite"},
        {"1 -inf 2", "\"-inf\" is not finite"},
        {"1 2 1e999", "\"1e999\" is too large"},
        {"0x1 2 3", "\"0x1\" is not a number"},
        {"1 2 a\tb", "\"a\" is not a number"},
        {"\x01\x7F", "\"  \" is not a number"}, // control characters do not reach a message
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         "aaa...\""},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        double v[3];
        uint32_t count = 9;
        ns_error error = {0};
        assert_int_equal(nsi_numbers_parse(cases[k].text, 3, 3, v, &count, &error), NS_ERR_PARSE);
        assert_int_equal(count, 0);
        if (!strstr(error.message, cases[k].message)) {
            fail_msg("\"%s\" is not \"%s\"", error.message, cases[k].message);
        }
    }
    double v[3];
    uint32_t count;
    ns_error error;
    assert_int_equal(nsi_numbers_parse("1 2 3 4", 1, 3, v, &count, &error), NS_ERR_PARSE);
    assert_non_null(strstr(error.message, "where 1 to 3 are needed"));

    // A cut never leaves half a character.
    char quote[NSI_QUOTE_SIZE], text[200];
    for (size_t shift = 0; shift < 4; shift++) {
        memset(text, 'x', shift);
        for (size_t i = shift; i + 2 < sizeof text; i += 2) memcpy(text + i, "\xC3\xA9", 3);
        nsi_quote(text, strlen(text), quote);
        size_t length = strlen(quote);
        assert_true(length < NSI_QUOTE_SIZE);
        assert_string_equal(quote + length - 4, "...\"");
        assert_int_equal((unsigned char)quote[length - 5], 0xA9);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tree_has_everything),     cmocka_unit_test(documents_are_joined),
        cmocka_unit_test(encodings_are_read),          cmocka_unit_test(malformed_text_has_a_place),
        cmocka_unit_test(document_types_are_refused),  cmocka_unit_test(sizes_are_limited),
        cmocka_unit_test(memory_may_run_out_anywhere), cmocka_unit_test(numbers_are_read),
        cmocka_unit_test(other_words_are_not_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
