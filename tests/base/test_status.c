// Status texts and error messages.

#include "base/common.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <cmocka.h>

static void texts_are_there_and_differ(void** state) {
    (void)state;
    static const ns_status all[] = {
#define STATUS_VALUE(name, code, text) name,
        NS_STATUS_MAP(STATUS_VALUE)
#undef STATUS_VALUE
    };
    const size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++) {
        const char* text = ns_status_text(all[i]);
        assert_non_null(text);
        assert_true(strlen(text) > 0);
        assert_string_not_equal(text, "unknown status");
        // Success is zero, every error negative.
        if (i > 0) assert_true((int)all[i] < 0);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(text, ns_status_text(all[j]));
    }
    assert_int_equal(NS_OK, 0);
    assert_string_equal(ns_status_text(NS_ERR_PARSE), "malformed input");
}

static void unknown_numbers_have_a_text(void** state) {
    (void)state;
    assert_string_equal(ns_status_text((ns_status)1), "unknown status");
    assert_string_equal(ns_status_text((ns_status)-1000), "unknown status");
}

static void version_matches_its_parts(void** state) {
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "%d.%d.%d", NS_VERSION_MAJOR, NS_VERSION_MINOR,
             NS_VERSION_PATCH);
    assert_string_equal(ns_version(), expected);
    assert_string_equal(ns_version(), NS_VERSION);
}

static void fail_fills_the_error(void** state) {
    (void)state;
    ns_error error = {NS_OK, "old"};
    ns_status status = nsi_fail(&error, NS_ERR_PARSE, "%s:%d: unexpected '%c'", "a.urdf", 41, '<');
    assert_int_equal(status, NS_ERR_PARSE);
    assert_int_equal(error.status, NS_ERR_PARSE);
    assert_string_equal(error.message, "a.urdf:41: unexpected '<'");
}

static void fail_without_an_error_returns_the_status(void** state) {
    (void)state;
    assert_int_equal(nsi_fail(NULL, NS_ERR_IO, "%d", 1), NS_ERR_IO);
    assert_int_equal(nsi_fail_nomem(NULL), NS_ERR_NOMEM);
}

static void nomem_has_its_message(void** state) {
    (void)state;
    ns_error error = {NS_OK, ""};
    assert_int_equal(nsi_fail_nomem(&error), NS_ERR_NOMEM);
    assert_int_equal(error.status, NS_ERR_NOMEM);
    assert_string_equal(error.message, "out of memory");
}

// An error with a guard behind it, to see an overrun without a sanitizer.
typedef struct guarded_error {
    ns_error error;
    unsigned char guard[64];
} guarded_error;

static void long_messages_are_cut(void** state) {
    (void)state;
    char text[3 * NS_ERROR_SIZE];
    for (size_t length = NS_ERROR_SIZE - 4; length < sizeof text; length += 1) {
        memset(text, 'x', length);
        text[length] = '\0';

        guarded_error e;
        memset(&e, 0x5A, sizeof e);
        nsi_fail(&e.error, NS_ERR_LIMIT, "%s", text);
        for (size_t i = 0; i < sizeof e.guard; i++) assert_int_equal(e.guard[i], 0x5A);

        if (length < NS_ERROR_SIZE) {
            assert_string_equal(e.error.message, text);
        } else {
            // Full to the last byte, and it shows that something is missing.
            assert_int_equal(strlen(e.error.message), NS_ERROR_SIZE - 1);
            assert_memory_equal(e.error.message, text, NS_ERROR_SIZE - 4);
            assert_string_equal(e.error.message + NS_ERROR_SIZE - 4, "...");
        }
    }
}

// True when `text` is valid UTF-8 made of one-, two- and three-byte characters.
static bool is_utf8(const char* text) {
    for (const unsigned char* c = (const unsigned char*)text; *c;) {
        int length = *c < 0x80 ? 1 : (*c & 0xE0) == 0xC0 ? 2 : (*c & 0xF0) == 0xE0 ? 3 : 0;
        if (length == 0) return false;
        for (int i = 1; i < length; i++) {
            if ((c[i] & 0xC0) != 0x80) return false;
        }
        c += length;
    }
    return true;
}

static void cutting_keeps_characters_whole(void** state) {
    (void)state;
    // Shift three-byte characters past the cut, one byte at a time.
    for (size_t shift = 0; shift < 6; shift++) {
        char text[2 * NS_ERROR_SIZE];
        memset(text, 'x', shift);
        size_t length = shift;
        while (length + 4 < sizeof text) {
            memcpy(text + length, "\xE2\x82\xAC", 3); // euro sign
            length += 3;
        }
        text[length] = '\0';

        ns_error error;
        nsi_fail(&error, NS_ERR_LIMIT, "%s", text);
        size_t cut = strlen(error.message);
        assert_true(cut >= NS_ERROR_SIZE - 4);
        assert_true(is_utf8(error.message));
        assert_string_equal(error.message + cut - 3, "...");
    }
}

static void the_old_message_can_be_an_argument(void** state) {
    (void)state;
    ns_error error;
    nsi_fail(&error, NS_ERR_PARSE, "bad number");
    nsi_fail(&error, error.status, "line %d: %s", 7, error.message);
    assert_string_equal(error.message, "line 7: bad number");

    // Again and again, until it no longer fits.
    for (int i = 0; i < 200; i++) nsi_fail(&error, error.status, "line %d: %s", i, error.message);
    assert_int_equal(strlen(error.message), NS_ERROR_SIZE - 1);
    assert_memory_equal(error.message, "line 199: line 198: ", 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_there_and_differ),
        cmocka_unit_test(unknown_numbers_have_a_text),
        cmocka_unit_test(version_matches_its_parts),
        cmocka_unit_test(fail_fills_the_error),
        cmocka_unit_test(fail_without_an_error_returns_the_status),
        cmocka_unit_test(nomem_has_its_message),
        cmocka_unit_test(long_messages_are_cut),
        cmocka_unit_test(cutting_keeps_characters_whole),
        cmocka_unit_test(the_old_message_can_be_an_argument),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
