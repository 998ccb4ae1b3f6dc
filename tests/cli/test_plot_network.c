// The command plot of networks: its pictures, read back.

#define _POSIX_C_SOURCE 200809L

#include "support/picture.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define SWIMMER NEURALSIM_SOURCE_DIR "/models/swimmer2.xml"

// ---- the command ---------------------------------------------------------------------------

static const picture* run_picture(const char* arguments) {
    run_ok(arguments);
    return picture_read(last.out, strlen(last.out));
}

static void the_command_draws_networks_of_a_blueprint(void** state) {
    (void)state;
    tempdir_write("joints.yaml", "networks:\n"
                                 "  - name: joints\n"
                                 "    inputs: ['q/*', 'qd/*', 'lag2:qd/0']\n"
                                 "    outputs: 'joint/*/tau'\n"
                                 "    hidden: [6]\n");
    tempdir_write("two.yaml", "networks:\n"
                              "  - name: drag\n"
                              "    each: link/*\n"
                              "    inputs: ['{}/velocity/com/x', '{}/velocity/com/y']\n"
                              "    outputs: ['{}/force/x', '{}/force/y']\n"
                              "    hidden: [5]\n"
                              "    structure: dissipative\n"
                              "  - name: spring\n"
                              "    each: joint/*\n"
                              "    weights: separate\n"
                              "    inputs: '{}/position'\n"
                              "    outputs: '{}/force/spring'\n"
                              "    structure: conservative\n"
                              "    hidden: [3]\n");
    tempdir_write("formulas.yaml", "networks:\n"
                                   "  - {name: n, inputs: q/0, outputs: joint/rootx/tau}\n"
                                   "formulas:\n"
                                   "  - {name: f, output: joint/joint1/tau, formula: c,"
                                   " coefficients: {c: 1}}\n");
    tempdir_write("formula.yaml", "formulas: [{name: f, output: qdd/0, formula: c,"
                                  " coefficients: {c: 1}}]\n");
    tempdir_write("hybrid.yaml", "robot: " SWIMMER "\nblueprint: joints.yaml\n");

    const picture* p = run_picture("plot " SWIMMER " --blueprint joints.yaml");
    assert_int_equal(picture_count(p, "circle", NULL), 10 + 1 + 6 + 1 + 4);
    assert_int_equal(picture_count(p, "line", NULL), 11 * 6 + 7 * 4);
    assert_true(picture_says(p, "q/3") && picture_says(p, "joint/joint1/tau"));
    assert_true(picture_says(p, "prev:qd/0") && picture_says(p, "qd/0, 2 steps before"));
    p = run_picture("plot hybrid.yaml");
    assert_int_equal(picture_count(p, "line", NULL), 11 * 6 + 7 * 4);

    // Shared weights: the part of names that differs is a star.
    p = run_picture("plot " SWIMMER " --blueprint two.yaml --network drag");
    assert_int_equal(picture_count(p, "line", NULL), 3 * 5 + 6 * 3);
    assert_true(picture_says(p, "link/*/velocity/com/x") && picture_says(p, "L 2,1"));
    assert_true(picture_says(p, "-L L' v adds to link/*/force/x, link/*/force/y"));
    p = run_picture("plot " SWIMMER " --blueprint two.yaml --network spring/joint/joint1");
    assert_int_equal(picture_count(p, "line", NULL), 2 * 3 + 3 * 1); // a potential has no bias
    assert_true(picture_says(p, "joint/joint1/position") && picture_says(p, "potential V"));

    // Weights of a file.
    tempdir_write("zero.json", "{\"w\": 1}");
    run_bad("plot " SWIMMER " --blueprint joints.yaml --weights zero.json", 1, "zero.json");

    // Formulas are not drawn.
    p = run_picture("plot " SWIMMER " --blueprint formulas.yaml");
    assert_int_equal(picture_count(p, "line", NULL), 2);
    run_bad("plot " SWIMMER " --blueprint formulas.yaml --network f", 1,
            "'f' is a formula; only networks are drawn");
    run_bad("plot " SWIMMER " --blueprint formula.yaml", 1, "the blueprint has no networks");

    run_bad("plot " SWIMMER " --network drag", 2, "--blueprint");
    run_bad("plot --blueprint two.yaml", 2, "MODEL");
    run_bad("plot " SWIMMER " --blueprint two.yaml", 1, "drag spring/joint/rootx");
    run_bad("plot " SWIMMER " --blueprint two.yaml --network spring/joint/joint2", 1,
            "did you mean 'spring/joint/joint1'");
    run_bad("plot " SWIMMER " --blueprint two.yaml --network x", 1, "there are: drag");
    run_bad("plot " SWIMMER " --blueprint none.yaml", 1, "none.yaml");

    run_ok("plot " SWIMMER " --blueprint joints.yaml -o a.svg");
    assert_string_equal(last.out, "");
    static const char* const files[] = {"joints.yaml", "two.yaml",  "formulas.yaml", "formula.yaml",
                                        "hybrid.yaml", "zero.json", "a.svg"};
    for (size_t k = 0; k < sizeof files / sizeof *files; k++) {
        assert_int_equal(remove(tempdir_path(files[k])), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_command_draws_networks_of_a_blueprint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
