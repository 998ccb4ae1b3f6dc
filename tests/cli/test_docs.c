// What the documents say the program prints is what it prints. An indented line "$ neuralsim ..."
// is run from the project's folder; the indented lines after it are the output. Numbers need to
// agree to some digits only, since the last ones change with the order of a sum; a line "..."
// stands for any lines.

#include "support/program.h"
#include "support/tempdir.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const char prompt[] = "    $ neuralsim ";

// ---- comparison ----------------------------------------------------------------------------

static const char separators[] = " ,:;()[]\"";

static bool same_word(const char* a, size_t na, const char* b, size_t nb) {
    char one[64], two[64], *end_one, *end_two;
    if (na == nb && memcmp(a, b, na) == 0) return true;
    if (na == 0 || nb == 0 || na >= sizeof one || nb >= sizeof two) return false;
    snprintf(one, sizeof one, "%.*s", (int)na, a);
    snprintf(two, sizeof two, "%.*s", (int)nb, b);
    double x = strtod(one, &end_one), y = strtod(two, &end_two);
    return *end_one == '\0' && *end_two == '\0' &&
           fabs(x - y) <= 1e-6 * fmax(fabs(x), fabs(y)) + 1e-9;
}

// Word by word; how much space is between them does not matter, a minus sign may take its place.
static bool same_line(const char* a, size_t na, const char* b, size_t nb) {
    const char *end_a = a + na, *end_b = b + nb;
    for (;;) {
        while (a < end_a && strchr(separators, *a)) a++;
        while (b < end_b && strchr(separators, *b)) b++;
        if (a == end_a || b == end_b) return a == end_a && b == end_b;
        size_t la = 0, lb = 0;
        while (a + la < end_a && !strchr(separators, a[la])) la++;
        while (b + lb < end_b && !strchr(separators, b[lb])) lb++;
        if (!same_word(a, la, b, lb)) return false;
        a += la;
        b += lb;
    }
}

static const char* next_line(const char* at) {
    at += strcspn(at, "\n");
    return *at ? at + 1 : at;
}

// ---- documents -----------------------------------------------------------------------------

static bool is_blank(const char* line) {
    return line[strspn(line, " ")] == '\n';
}

static bool is_indented(const char* line) {
    return strncmp(line, "    ", 4) == 0;
}

// The end of the output that starts at `line`: before the next prompt or text.
static const char* output_end(const char* line) {
    const char* end = line;
    for (; *line; line = next_line(line)) {
        if (strncmp(line, prompt, strlen(prompt)) == 0) break;
        if (is_blank(line)) continue;
        if (!is_indented(line)) break;
        end = next_line(line);
    }
    return end;
}

static void check_output(const char* command, const char* expected, const char* end,
                         const char* output) {
    bool skipping = false;
    while (expected < end) {
        const char* line = is_indented(expected) ? expected + 4 : expected;
        size_t size = strcspn(line, "\n");
        expected = next_line(expected);
        if (size == 3 && strncmp(line, "...", 3) == 0) {
            skipping = true;
            continue;
        }
        while (skipping && *output && !same_line(line, size, output, strcspn(output, "\n"))) {
            output = next_line(output);
        }
        if (!same_line(line, size, output, strcspn(output, "\n"))) {
            fail_msg("neuralsim %s\nsays    %.*s\nand not %.*s", command,
                     (int)strcspn(output, "\n"), output, (int)size, line);
        }
        output = next_line(output);
        skipping = false;
    }
    if (!skipping && *output) fail_msg("neuralsim %s\nsays more: %s", command, output);
}

// Runs every command of a document; how many there were.
static int check_document(const char* name) {
    char path[512], command[2048];
    snprintf(path, sizeof path, "%s/%s", NEURALSIM_SOURCE_DIR, name);
    char* text = file_text(path);
    int count = 0;
    for (const char* line = text; *line; line = next_line(line)) {
        if (strncmp(line, prompt, strlen(prompt)) != 0) continue;
        const char* start = line + strlen(prompt);
        snprintf(command, sizeof command, "%.*s", (int)strcspn(start, "\n"), start);
        program_result result = program_run(NEURALSIM_SOURCE_DIR, command);
        if (result.code != 0) {
            fail_msg("%s: neuralsim %s: exit code %d: %s", name, command, result.code, result.err);
        }
        check_output(command, next_line(line), output_end(next_line(line)), result.out);
        program_result_free(&result);
        count++;
    }
    free(text);
    print_message("%d commands in %s\n", count, name);
    return count;
}

static void comparison_tells_numbers_from_words(void** state) {
    (void)state;
    static const struct {
        const char *a, *b;
        bool same;
    } cases[] = {
        {"q0 = 1.5", "q0 = 1.5000000001", true},
        {"1,2", "1, 2", true},
        {"1.5", "1.6", false},
        {"ok", "FAIL", false},
        {"2.0e-13 ok", "0 ok", true},
        {"a b", "a", false},
        {"", "x", false},
        {"\"x\": 1,", "\"x\": 1", true},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const char *a = cases[k].a, *b = cases[k].b;
        assert_int_equal(same_line(a, strlen(a), b, strlen(b)), cases[k].same);
    }
}

static void cli_page_is_true(void** state) {
    (void)state;
    assert_true(check_document("docs/cli.md") >= 8);
}

static void blueprint_page_is_true(void** state) {
    (void)state;
    assert_true(check_document("docs/blueprint.md") >= 1);
}

static void readme_is_true(void** state) {
    (void)state;
    assert_true(check_document("README.md") >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comparison_tells_numbers_from_words),
        cmocka_unit_test(cli_page_is_true),
        cmocka_unit_test(blueprint_page_is_true),
        cmocka_unit_test(readme_is_true),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
