// The command line as a person meets it: help, its examples, mistakes, full disks. The program runs as
// a process; what is wrong gets a message and an exit code other than 0.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "cli/commands_rig.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- command line --------------------------------------------------------------------------

static void every_command_has_help(void** state) {
    (void)state;
    run_ok("--help");
    char arguments[64];
    for (int k = 0; k < COMMANDS; k++) {
        assert_says(last.out, commands[k]);
    }
    run_ok("-h");
    assert_says(last.out, "usage: neuralsim COMMAND");
    run_ok("graph -h");
    run_ok("bench -h");
    for (int k = 0; k < COMMANDS; k++) {
        snprintf(arguments, sizeof arguments, "%s --help", commands[k]);
        run_ok(arguments);
        assert_says(last.out, "usage: neuralsim ");
        assert_says(last.out, "\nexample: ");
        int lines = 0;
        size_t width = 0;
        for (const char* line = last.out; *line; line += strcspn(line, "\n") + 1, lines++) {
            if (strcspn(line, "\n") > width) width = strcspn(line, "\n");
        }
        assert_true(lines <= 32); // a screen
        assert_true(width <= 100);
        char* text = strdup(last.out);
        snprintf(arguments, sizeof arguments, "%s x -h", commands[k]);
        run_ok(arguments);
        assert_string_equal(last.out, text);
        free(text);
    }
}

// The examples of the help texts work as they stand.
static void examples_of_help_work(void** state) {
    (void)state;
    for (int k = 0; k < COMMANDS; k++) {
        char arguments[4096];
        snprintf(arguments, sizeof arguments, "%s --help", commands[k]);
        run_ok(arguments);
        const char* example = strstr(strstr(last.out, "\nexample: "), "  neuralsim ");
        assert_non_null(example);
        int size = (int)strcspn(example + 12, "\n");
        while (example[12 + size - 1] == '\\') { // goes on in the next line
            size += 1 + (int)strcspn(example + 12 + size + 1, "\n");
        }
        snprintf(arguments, sizeof arguments, "%.*s", size, example + 12);
        char link[9000];
        snprintf(link, sizeof link, "ln -sfn '%s' '%s/examples' '%s'", MODELS, NEURALSIM_SOURCE_DIR,
                 tempdir());
        assert_int_equal(system(link), 0);
        run_ok(arguments);
    }
}

static void mistakes_on_the_command_line_are_explained(void** state) {
    (void)state;
    static const struct {
        const char *arguments, *message;
    } cases[] = {
        {"inspect", "neuralsim inspect: no MODEL given"},
        {"inspect a.urdf b.urdf", "one MODEL at a time, not also 'b.urdf'; see 'neuralsim inspect "
                                  "--help'"},
        {"inspect --frobnicate x", "unknown option '--frobnicate'"},
        {"quantities", "no MODEL given"},
        {"quantities a b c", "one PATTERN at a time"},
        {"eval " PENDULUM, "no --quantity given"},
        {"eval --quantity qdd", "no MODEL given"},
        {"eval " PENDULUM " --quantity", "--quantity needs names of quantities"},
        {"eval " PENDULUM " --quantity --wrt q", "--quantity needs names of quantities, not "
                                                 "'--wrt'"},
        {"eval " PENDULUM " --quantity qdd --backend gpu",
         "--backend: 'gpu' is not one of: auto, interp, native"},
        {"eval " PENDULUM " --quantity qdd --wrt qq", "--wrt: 'qq' is neither q, qd, tau, u"},
        {"eval " PENDULUM " --quantity qdd --tangent", "--tangent is for --wrt q"},
        {"eval " PENDULUM " --quantity qdd --set link/rod/mass", "--set needs PARAMETER=NUMBER"},
        {"eval " PENDULUM " --quantity qdd --set link/rod/mass=heavy", "not 'link/rod/mass=heavy'"},
        {"simulate " PENDULUM " --steps 0", "--steps needs at least 1"},
        {"simulate " PENDULUM " --steps -5", "--steps needs a whole number of steps, not '-5'"},
        {"simulate " PENDULUM " --steps 1.5", "--steps needs a whole number of steps, not '1.5'"},
        {"simulate " PENDULUM " --steps 5 --time 1", "give --steps or --time, not both"},
        {"simulate " PENDULUM " --time 0", "--time must be positive, not 0"},
        {"simulate " PENDULUM " --time nan", "--time needs a time in s, not 'nan'"},
        {"simulate " PENDULUM " --dt=-1", "--dt must be positive, not -1"},
        {"simulate " PENDULUM " --every 0", "--every needs at least 1"},
        {"simulate " PENDULUM " --integrator verlet",
         "--integrator: 'verlet' is not one of: euler, rk4, "},
        {"simulate " PENDULUM " --q0 1 2", "--q0 needs 1 numbers for this model, not 2"},
        {"simulate " PENDULUM " --qd0 fast", "--qd0: 'fast' is not a number"},
        {"simulate " PENDULUM " --q0 1 --state s.csv", "give only one of --state, --batch"},
        {"simulate " PENDULUM " --state s.csv --batch s.csv", "give only one of --state, --batch"},
        {"simulate " PENDULUM " --control 'tau1=1'",
         "--control: 'tau1' is not a control of this model"
         "; for example, tau_hinge"},
        {"simulate " PENDULUM " --control 'tau0=1, tau_hinge=2'", "'tau_hinge' is given twice"},
        {"simulate " PENDULUM " --control 'tau0=2*(t+'", "--control: character 11, at '': the "
                                                         "formula ends where a number should come"},
        {"simulate " PENDULUM " --control '=1'", "--control: '=1' is not NAME=FORMULA"},
        {"simulate " PENDULUM " --control 'tau0=1,'", "is not NAME=FORMULA"},
        {"simulate " PENDULUM " --control 'tau_hinje=1'", "is not a control of this model; did you "
                                                          "mean 'tau_hinge'?"},
        {"simulate " PENDULUM " --control tau0=1 --control tau0=2",
         "--control is given twice; separate controls by commas: \"tau0=1, tau1=2\""},
        {"simulate " PENDULUM " --time 1 --time=2", "--time is given twice"},
        {"simulate " PENDULUM " -o a -o b", "-o is given twice"},
        {"eval " PENDULUM " --quantity qdd --backend auto --backend interp",
         "--backend is given twice"},
        {"gradcheck " PENDULUM " --seed 1 --seed 1", "--seed is given twice"},
        {"bench --backend interp --backend native", "--backend is given twice"},
        {"bench --backend gpu", "--backend: 'gpu' is not one of: auto, interp, native"},
        {"bench nothing", "no case is called 'nothing'"},
        {"graph", "no FILE given"},
        {"graph a b", "one FILE at a time, not also 'b'"},
        {"graph a --eval x=1 --eval x=2", "--eval is given twice"},
        {"graph a --derive up", "--derive needs jvp or vjp, not 'up'"},
        {"graph a --dump all", "--dump: 'all' is not one of: built, lowered, fused"},
        {"graph a -o b", "-o needs exactly one of --dump and --emit-c"},
        {"gradcheck " PENDULUM " --steps 0", "--steps needs at least 1"},
        {"gradcheck " PENDULUM " --seed -1", "--seed needs a whole number, not '-1'"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        run_bad(cases[k].arguments, 2, cases[k].message);
        assert_says(last.err, "--help'\n");
        assert_string_equal(last.out, "");
    }
}

// ---- bench ---------------------------------------------------------------------------------

static void commands_can_be_misspelt(void** state) {
    (void)state;
    run_bad("simulte", 2,
            "there is no command 'simulte'; did you mean 'simulate'? 'neuralsim "
            "--help' lists all\n");
    run_bad("grad x.urdf", 2, "did you mean 'gradcheck'?");
    run_bad("frobnicate", 2, "there is no command 'frobnicate'; 'neuralsim --help' lists all\n");
    assert_null(strstr(last.err, "usage"));
    run_bad("identify x.yaml", 2, "did you mean 'fit'?");
}

static void options_can_be_misspelt(void** state) {
    (void)state;
    run_bad("simulate " PENDULUM " --tim 1", 2,
            "did you mean '--time'? See 'neuralsim simulate --help'");
    run_bad("fit " PENDULUM, 1, "this is a robot (URDF or MJCF), not a fit file");
    run_bad("simulate " PENDULUM " --timestep=1", 2, "'--timestep=1'; did you mean '--dt'?");
    run_bad("quantities " PENDULUM " --jsno", 2, "did you mean '--json'?");
    run_bad("quantities " PENDULUM " --frobnicate", 2, "unknown option '--frobnicate'; see");
}

// What changes the motion and is ignored is told by the commands that compute motions.
static void ignored_parts_are_mentioned(void** state) {
    (void)state;
    tempdir_write("p.xml", "<mujoco><worldbody><body><joint name='j' type='hinge'/>"
                           "<geom size='1' mass='1'/></body></worldbody>"
                           "<actuator><muscle joint='j'/></actuator>"
                           "<equality><flex flex='x'/></equality></mujoco>");
    static const char* const lines[] = {"simulate p.xml --steps 1", "eval p.xml --quantity qdd",
                                        "gradcheck p.xml"};
    for (int k = 0; k < 3; k++) {
        run_ok(lines[k]);
        static const char told[] =
            "neuralsim: 2 parts of p.xml that change the motion are ignored; "
            "'neuralsim inspect p.xml' lists them\n";
        size_t size = sizeof told - 1;
        assert_int_equal(strncmp(last.err, told, size), 0);
        // Nothing else, except that OpenMP may have a word on its threads.
        assert_true(last.err[size] == '\0' || strncmp(last.err + size, "OMP:", 4) == 0);
    }
}

static void results_of_a_fit_need_a_folder(void** state) {
    (void)state;
    tempdir_write("taken", "");
    run_bad("fit " NEURALSIM_SOURCE_DIR "/examples/pendulum_fit.yaml -o taken", 1,
            "taken is there and is no folder");
}

static void missing_and_broken_models_are_explained(void** state) {
    (void)state;
    char arguments[512];
    tempdir_write("broken.urdf", "<robot name='r'><link name='a'></robot>");
    for (int k = 0; k < COMMANDS; k++) {
        const char* more = needs(commands[k]);
        snprintf(arguments, sizeof arguments, "%s none.urdf %s", commands[k], more);
        run_bad(arguments, 1, "none.urdf: cannot be opened: No such file or directory");
        snprintf(arguments, sizeof arguments, "%s broken.urdf %s", commands[k], more);
        run_bad(arguments, 1, "broken.urdf:1: ");
    }
}

// ---- files that cannot be written ----------------------------------------------------------

static void full_disks_are_noticed(void** state) {
    (void)state;
    run_bad("eval " PENDULUM " --quantity qdd -o /no/such/folder/x.csv", 1,
            "cannot create /no/such/folder/x.csv: No such file or directory");
    run_bad("simulate " PENDULUM " -o /no/such/folder/x.csv", 1,
            "cannot create /no/such/folder/x.csv: No such file or directory");
    if (access("/dev/full", W_OK) != 0) skip();
    run_bad("eval " PENDULUM " --quantity qdd -o /dev/full", 1,
            "cannot write /dev/full: No space left on device");
    run_bad("simulate " PENDULUM " --time 100 -o /dev/full", 1,
            "cannot write /dev/full: No space left on device");
    run_bad("eval " PENDULUM " --quantity qdd >/dev/full", 1,
            "cannot write the output: No space left on device");
    run_bad("simulate " PENDULUM " --json >/dev/full", 1,
            "cannot write the output: No space left on device");
    run_bad("inspect " PENDULUM " >/dev/full", 1, "cannot write the output: ");
    run_bad("quantities " PENDULUM " --json >/dev/full", 1, "cannot write the output: ");
    run_bad("gradcheck " PENDULUM " >/dev/full", 1, "cannot write the output: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_help),
        cmocka_unit_test(examples_of_help_work),
        cmocka_unit_test(mistakes_on_the_command_line_are_explained),
        cmocka_unit_test(commands_can_be_misspelt),
        cmocka_unit_test(options_can_be_misspelt),
        cmocka_unit_test(ignored_parts_are_mentioned),
        cmocka_unit_test(results_of_a_fit_need_a_folder),
        cmocka_unit_test(missing_and_broken_models_are_explained),
        cmocka_unit_test(full_disks_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
