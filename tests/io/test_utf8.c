// UTF-8, strictly: characters at the borders of each length, and what is none.

#include "io/utf8.h"
#include "support/assert.h"

#include <string.h>

static void characters_at_borders_are_read(void** state) {
    (void)state;
    static const struct {
        const char* text;
        uint32_t code;
    } cases[] = {
        {"A", 0x41},
        {"\x7f", 0x7F},
        {"\xc2\x80", 0x80},
        {"\xdf\xbf", 0x7FF},
        {"\xe0\xa0\x80", 0x800},
        {"\xed\x9f\xbf", 0xD7FF},
        {"\xee\x80\x80", 0xE000},
        {"\xef\xbf\xbf", 0xFFFF},
        {"\xf0\x90\x80\x80", 0x10000},
        {"\xf4\x8f\xbf\xbf", 0x10FFFF},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        uint32_t code = 0;
        size_t size = strlen(cases[k].text);
        assert_int_equal(nsi_utf8_next(cases[k].text, size, &code), size);
        assert_int_equal(code, cases[k].code);

        // A character that is cut off is none.
        if (size > 1) assert_int_equal(nsi_utf8_next(cases[k].text, size - 1, &code), 0);
    }
}

static void what_is_no_character_is_refused(void** state) {
    (void)state;
    static const char* const cases[] = {
        "\x80",             // a byte that only continues
        "\xc0\x80",         // overlong forms of 0, U+007F, U+07FF, U+FFFF
        "\xc1\xbf",         //
        "\xe0\x9f\xbf",     //
        "\xf0\x8f\xbf\xbf", //
        "\xed\xa0\x80",     // surrogates
        "\xed\xbf\xbf",     //
        "\xf4\x90\x80\x80", // past U+10FFFF
        "\xf8\x88\x80\x80", // five bytes
        "\xff",             //
        "\xc3\x41",         // not continued
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        uint32_t code = 0;
        assert_int_equal(nsi_utf8_next(cases[k], strlen(cases[k]), &code), 0);
    }
}

static void faults_of_lines_have_words(void** state) {
    (void)state;
    assert_null(nsi_line_fault("Gelenk \xc3\xa4", 9));
    assert_string_equal(nsi_line_fault("", 0), "is empty");
    assert_string_equal(nsi_line_fault("a\xff", 2), "is not UTF-8");
    assert_string_equal(nsi_line_fault("a\nb", 3), "has a control character");
    assert_string_equal(nsi_line_fault("a\0b", 3), "has a control character");
    assert_string_equal(nsi_line_fault("\x7f", 1), "has a control character");
    assert_string_equal(nsi_line_fault("\xc2\x9f", 2), "has a control character");
    assert_null(nsi_line_fault("\xc2\xa0", 2)); // U+00A0 is the first that is none
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_at_borders_are_read),
        cmocka_unit_test(what_is_no_character_is_refused),
        cmocka_unit_test(faults_of_lines_have_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
