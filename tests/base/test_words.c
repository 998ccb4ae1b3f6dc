// Nearest names and closed sets.

#include "neuralsim/words.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

// The likely name among some, or "".
static const char* likely_of(const char* wanted, const char* const* names, ns_nearest* n) {
    *n = (ns_nearest){.wanted = wanted};
    for (; *names; names++) ns_nearest_offer(n, *names);
    const char* likely = ns_nearest_likely(n);
    return likely ? likely : "";
}

static void slips_of_spelling(void** state) {
    (void)state;
    static const char* const names[] = {"link/pole/mass", "link/cart/mass", "link/pole/com/x",
                                        NULL};
    ns_nearest n;
    assert_string_equal(likely_of("link/pol/mass", names, &n), "link/pole/mass");
    assert_string_equal(likely_of("lnik/cart/mass", names, &n), "link/cart/mass");
    assert_string_equal(likely_of("gravity", names, &n), "");
    static const char* const keys[] = {"title", "model", NULL};
    assert_string_equal(likely_of("modle", keys, &n), "model");
    assert_int_equal(n.best[0].cost, 1);
    assert_string_equal(likely_of("", names, &n), "");
    assert_int_equal(n.count, 3);
}

static void words_of_the_same_meaning(void** state) {
    (void)state;
    static const char* const names[] = {
        "joint/hip/tau", "joint/hip/position", "joint/hip/force", "joint/hip/velocity",
        "contact/f/mu",  "--timestep",         "link/a/torque/x", NULL};
    ns_nearest n;
    assert_string_equal(likely_of("joint/hip/angle", names, &n), "joint/hip/position");
    assert_string_equal(likely_of("joint/hip/speed", names, &n), "joint/hip/velocity");
    assert_string_equal(likely_of("joint/hip/torque", names, &n), "joint/hip/tau");
    assert_string_equal(likely_of("joint/hop/torque", names, &n), "joint/hip/tau");
    assert_string_equal(likely_of("contact/f/friction", names, &n), "contact/f/mu");
    assert_string_equal(likely_of("--dt", names, &n), "--timestep");
    assert_string_equal(likely_of("link/a/torqe/x", names, &n), "link/a/torque/x");
}

static void options_and_abbreviations(void** state) {
    (void)state;
    static const char* const names[] = {"--timestep", "--time", "--integrator", "-o", NULL};
    ns_nearest n;
    assert_string_equal(likely_of("--tim", names, &n), "--time");
    assert_string_equal(likely_of("--times", names, &n), "--time");
    assert_string_equal(likely_of("--integ", names, &n), "--integrator");
    assert_string_equal(likely_of("-x", names, &n), "");
    assert_string_equal(likely_of("--q", names, &n), "");
}

static void the_first_of_equals(void** state) {
    (void)state;
    static const char* const names[] = {"q10", "q11", "q12", "q13", NULL};
    ns_nearest n;
    assert_string_equal(likely_of("q1x", names, &n), "q10");
    assert_string_equal(likely_of("q19", names, &n), ""); // another number, not a slip
    assert_int_equal(n.count, NS_NEAREST_MAX);
    assert_string_equal(n.best[0].name, "q10");
    assert_string_equal(n.best[1].name, "q11");
    assert_string_equal(n.best[2].name, "q12");
    assert_string_equal(likely_of("q13", names, &n), "q13");
    assert_int_equal(n.best[0].cost, 0);
}

static void names_of_hostile_length(void** state) {
    (void)state;
    char longest[NS_WORD_SIZE], longer[NS_WORD_SIZE + 1], huge[4096], text[NS_HINT_SIZE];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    memset(longer, 'a', sizeof longer - 1);
    longer[sizeof longer - 1] = '\0';
    memset(huge, 'b', sizeof huge - 1);
    huge[sizeof huge - 1] = '\0';

    ns_nearest n = {.wanted = longest};
    ns_nearest_offer(&n, longer);
    ns_nearest_offer(&n, huge);
    ns_nearest_offer(&n, NULL);
    assert_int_equal(n.count, 0);
    assert_string_equal(ns_nearest_hint(&n, text), "");
    ns_nearest_offer(&n, longest);
    assert_int_equal(n.count, 1);
    assert_string_equal(n.best[0].name, longest);
    assert_true(strlen(ns_nearest_hint(&n, text)) > 255);

    n = (ns_nearest){.wanted = huge};
    ns_nearest_offer(&n, "b");
    assert_int_equal(n.count, 0);

    // Synonyms that make a name too long are left out, not cut.
    char angles[NS_WORD_SIZE] = "";
    while (strlen(angles) + 4 < sizeof angles) strcat(angles, "pos/");
    n = (ns_nearest){.wanted = angles};
    ns_nearest_offer(&n, "position");
    assert_int_equal(n.count, 1);
}

static void hints(void** state) {
    (void)state;
    char text[NS_HINT_SIZE];
    ns_nearest n = {.wanted = "velocty"};
    assert_string_equal(ns_nearest_hint(&n, text), "");
    ns_nearest_offer(&n, "velocity");
    assert_string_equal(ns_nearest_hint(&n, text), "; did you mean \"velocity\"?");
    n = (ns_nearest){.wanted = "zzz"};
    ns_nearest_offer(&n, "velocity");
    assert_string_equal(ns_nearest_hint(&n, text), "; the nearest is \"velocity\"");
}

// ---- closed sets -------------------------------------------------------------------------------

#define FRUIT_MAP(X)                                                                               \
    X(FRUIT_APPLE, "apple", "grows on trees")                                                      \
    X(FRUIT_PEAR, "pear", "")

typedef enum fruit { FRUIT_MAP(NS_CHOICE_VALUE) } fruit;
static const ns_choice fruit_rows[] = {FRUIT_MAP(NS_CHOICE_ROW)};
static const ns_choices fruits = NS_CHOICES("fruit", fruit_rows);

static void a_set_reads_and_prints(void** state) {
    (void)state;
    int value = -1;
    char text[128];
    assert_true(ns_choice_find(&fruits, "pear", &value));
    assert_int_equal(value, FRUIT_PEAR);
    assert_false(ns_choice_find(&fruits, "plum", &value));
    assert_int_equal(value, FRUIT_PEAR);
    assert_string_equal(ns_choice_name(&fruits, FRUIT_APPLE), "apple");
    assert_string_equal(ns_choice_help(&fruits, FRUIT_APPLE), "grows on trees");
    assert_string_equal(ns_choice_help(&fruits, 7), "");
    assert_true(ns_choice_has(&fruits, FRUIT_PEAR));
    assert_false(ns_choice_has(&fruits, -1));
    assert_string_equal(ns_choice_name(&fruits, 7), "unknown");
    ns_choices_list(&fruits, text, sizeof text);
    assert_string_equal(text, "apple, pear");
    ns_choices_list(&fruits, text, 8);
    assert_string_equal(text, "apple, ");
    ns_choice_fault(&fruits, "aple", text, sizeof text);
    assert_string_equal(text, "is not one of: apple, pear; did you mean \"apple\"?");
    ns_choice_fault(&fruits, "zucchini", text, sizeof text);
    assert_string_equal(text, "is not one of: apple, pear");
    ns_choice_fault(&fruits, "zucchini", text, 10);
    assert_string_equal(text, "is not on");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slips_of_spelling),         cmocka_unit_test(words_of_the_same_meaning),
        cmocka_unit_test(options_and_abbreviations), cmocka_unit_test(the_first_of_equals),
        cmocka_unit_test(names_of_hostile_length),   cmocka_unit_test(hints),
        cmocka_unit_test(a_set_reads_and_prints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
