// Text that is nearly XML: what becomes of it, and what is left as it is.

#include "io/xml_tidy.h"
#include "support/assert.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

typedef struct tidy_case {
    const char* given;
    size_t size;
    const char* expected;
    uint32_t faults;
} tidy_case;

#define TEXT(text) text, sizeof text - 1

static void each_fault_is_mended(void** state) {
    (void)state;
    static const tidy_case cases[] = {
        {TEXT("<?xml version='1.0'?><a/>"), "<?xml version='1.0'?><a/>", 0},
        {TEXT(" \n<?xml?>\n<a/>"), " \n       \n<a/>", NSI_XML_LEADING},
        {TEXT("\xEF\xBB\xBF <?xml\n?><a/>"), "         \n  <a/>", NSI_XML_LEADING},
        {TEXT("\n<a/>"), "\n<a/>", 0}, // without a declaration that is fine
        {TEXT("<a/>\n\0\0"), "<a/>\n", NSI_XML_TRAILING},
        {TEXT("<!-- a -- b --><a/>"), "<!-- a  - b --><a/>", NSI_XML_DASHES},
        {TEXT("<!----- a ---><a/>"), "<!--  - a  --><a/>", NSI_XML_DASHES},
        {TEXT("<!---><a>--</a>"), "<!---><a> -</a>",
         NSI_XML_DASHES}, // never closed: all is comment
        {TEXT("<a><![CDATA[<!-- -- -->]]></a>"), "<a><![CDATA[<!-- -- -->]]></a>", 0},
        {TEXT("<a n='\xFF\xC3\xA4'/>"), "<a n='?\xC3\xA4'/>", NSI_XML_BYTES},
        {TEXT("<a n='\x01'/>"), "<a n='?'/>", NSI_XML_BYTES},
        {TEXT(""), "", 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const tidy_case* c = &cases[k];
        size_t size = c->size;
        char* exact = malloc(size + (size == 0)); // a sanitizer sees a read past the end
        memcpy(exact, c->given, size);
        uint32_t faults = nsi_xml_tidy(exact, &size);
        if (faults != c->faults || size != strlen(c->expected) ||
            memcmp(exact, c->expected, size) != 0) {
            fail_msg("%s: %.*s, faults %u", c->expected, (int)size, exact, faults);
        }
        free(exact);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_fault_is_mended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
