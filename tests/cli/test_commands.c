// The program as a person meets it: run as a process, its output read as text, CSV or JSON. Numbers
// are compared with closed forms; what is wrong on the command line or in a file gets a message and
// an exit code other than 0.

#define _POSIX_C_SOURCE 200809L

#include "base/common.h"
#include "neuralsim/table.h"
#include "support/assert.h"
#include "support/program.h"
#include "support/tempdir.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#define DATA NEURALSIM_SOURCE_DIR "/tests/data/cli/"
#define MODELS NEURALSIM_SOURCE_DIR "/models/"
#define PENDULUM DATA "pendulum.urdf"

// The pendulum of tests/data/cli.
static const double mass = 2.0, length = 0.7, moment = 0.1 + 2.0 * 0.7 * 0.7, gravity = 9.81,
                    damping = 0.3, timestep = 0.001;

// ---- tables and JSON -----------------------------------------------------------------------

static ns_table table_of(const char* text) {
    ns_table csv;
    ns_error error;
    if (ns_table_parse(text, strlen(text), "output", NULL, NULL, &csv, &error) != NS_OK) {
        fail_msg("%s\n%s", error.message, text);
    }
    return csv;
}

static double cell(const ns_table* csv, uint32_t row, const char* column) {
    uint32_t k = ns_table_column(csv, column);
    if (k == NSI_NONE || row >= csv->nrow) {
        fail_msg("there is no row %u, column %s", row, column);
    }
    return ns_table_at(csv, row, k);
}

static json_t* json_of(const char* text) {
    json_error_t error;
    json_t* root = json_loads(text, 0, &error);
    if (!root) fail_msg("line %d: %s in\n%s", error.line, error.text, text);
    return root;
}

static double number(const json_t* object, const char* key) {
    const json_t* value = json_object_get(object, key);
    if (!json_is_number(value)) fail_msg("%s is not a number", key);
    return json_number_value(value);
}

// ---- command line --------------------------------------------------------------------------

static const char* const commands[] = {"inspect",  "names",     "eval",
                                       "simulate", "gradcheck", "replay"};
enum { COMMANDS = sizeof commands / sizeof *commands };

// What a command cannot do without, besides its model.
static const char* needs(const char* command) {
    if (strcmp(command, "eval") == 0) return "--quantity qdd";
    return strcmp(command, "replay") == 0 ? "--data recording.csv" : "";
}

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
        {"names", "no MODEL given"},
        {"names a b c", "one PATTERN at a time"},
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
        {"simulate " PENDULUM " --steps 5 --time 1", "--steps and --time exclude each other"},
        {"simulate " PENDULUM " --time 0", "--time must be positive, not 0"},
        {"simulate " PENDULUM " --time nan", "--time needs a time in s, not 'nan'"},
        {"simulate " PENDULUM " --dt=-1", "--dt must be positive, not -1"},
        {"simulate " PENDULUM " --every 0", "--every needs at least 1"},
        {"simulate " PENDULUM " --integrator verlet",
         "--integrator: 'verlet' is not one of: euler, rk4, "},
        {"simulate " PENDULUM " --q0 1 2", "--q0 needs 1 numbers for this model, not 2"},
        {"simulate " PENDULUM " --qd0 fast", "--qd0: 'fast' is not a number"},
        {"simulate " PENDULUM " --q0 1 --state s.csv", "exclude each other"},
        {"simulate " PENDULUM " --state s.csv --batch s.csv", "exclude each other"},
        {"simulate " PENDULUM " --control 'tau1=1'", "--control: 'tau1' is no control of this model"
                                                     "; there is, for example, tau_hinge"},
        {"simulate " PENDULUM " --control 'tau0=1, tau_hinge=2'", "'tau_hinge' is given twice"},
        {"simulate " PENDULUM " --control 'tau0=2*(t+'", "--control: character 11, at '': the "
                                                         "formula ends where a number should come"},
        {"simulate " PENDULUM " --control '=1'", "--control: '=1' is not NAME=FORMULA"},
        {"simulate " PENDULUM " --control 'tau0=1,'", "is not NAME=FORMULA"},
        {"simulate " PENDULUM " --control 'tau_hinje=1'", "is no control of this model; did you "
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
        {"graph a -o b", "-o goes with one of --dump and --emit-c"},
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

// The lines that "bench <arguments> --quick --json" printed, as an array.
static json_t* bench_rows(const char* arguments) {
    char line[256];
    snprintf(line, sizeof line, "bench %s --quick --json", arguments);
    run_ok(line);
    json_t* rows = json_array();
    for (const char* at = last.out; *at; at += strcspn(at, "\n") + 1) {
        char* text = strndup(at, strcspn(at, "\n"));
        json_array_append_new(rows, json_of(text));
        free(text);
    }
    return rows;
}

static const char* backend_of(const json_t* rows, size_t k) {
    return json_string_value(json_object_get(json_array_get(rows, k), "backend"));
}

static void bench_tells_of_contact(void** state) {
    (void)state;
    json_t* rows = bench_rows("double_pendulum/step pendulum5_ground/step --backend interp");
    assert_int_equal(json_array_size(rows), 4); // two cases, one and four lanes
    for (size_t k = 0; k < 4; k++) {
        const json_t* row = json_array_get(rows, k);
        static const char* const mean[] = {"sweeps", "solves"};
        assert_string_equal(backend_of(rows, k), "interp");
        assert_true(number(row, "ns") > 0.0);
        if (k < 2) {
            assert_true(json_is_null(json_object_get(row, "rows")));
        } else { // 5 spheres: all with the ground, and those that are not neighbours
            assert_true(number(row, "rows") == 3.0 * (5 + 6));
        }
        for (int m = 0; m < 2; m++) { // only if the step tells
            const json_t* value = json_object_get(row, mean[m]);
            assert_true(json_is_null(value) || (k >= 2 && json_number_value(value) >= 0.0));
        }
    }
    json_decref(rows);
    run_ok("bench double_pendulum/step --quick --backend interp");
    assert_says(last.out, "  rows  sweeps  solves\n");
    assert_says(last.out, "      -       -       -\n");
}

// Another simulator is timed where there is one; where there is none, that is no failure.
static void bench_times_peers(void** state) {
    (void)state;
    json_t* rows = bench_rows("pendulum5_ground --backend interp --peers");
    size_t count = json_array_size(rows);
    if (*last.err == '\0') { // two of the step, one of the peer, two of the gradient
        assert_int_equal(count, 5);
        assert_true(strncmp(backend_of(rows, 2), "mujoco-", 7) == 0);
        assert_true(number(json_array_get(rows, 2), "ns") > 0.0);
        assert_true(number(json_array_get(rows, 2), "rows") > 0.0);
        assert_true(number(json_array_get(rows, 2), "lanes") == 1.0);
    } else {
        assert_int_equal(count, 4);
        assert_says(last.err, "bench --peers: only our own rows: ");
    }
    json_decref(rows);

    // Files that are no libraries stand in the way of the ones there are.
    tempdir_write("libmujoco.so", "");
    tempdir_write("libmujoco.so.2.2.2", "");
    assert_int_equal(setenv("LD_LIBRARY_PATH", tempdir(), 1), 0);
    rows = bench_rows("double_pendulum/step --backend interp --peers");
    unsetenv("LD_LIBRARY_PATH");
    assert_int_equal(json_array_size(rows), 2);
    assert_says(last.err, "bench --peers: only our own rows: ");
    json_decref(rows);
}

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
    run_bad("simulate " PENDULUM " --tim 1", 2, "unknown option '--tim'; did you mean '--time'?");
    run_bad("simulate " PENDULUM " --timestep=1", 2, "'--timestep=1'; did you mean '--dt'?");
    run_bad("names " PENDULUM " --jsno", 2, "did you mean '--json'?");
    run_bad("names " PENDULUM " --frobnicate", 2, "unknown option '--frobnicate'; see");
}

// What changes the motion and is ignored is told by the commands that compute motions.
static void ignored_parts_are_mentioned(void** state) {
    (void)state;
    tempdir_write("p.xml", "<mujoco><worldbody><body><joint name='j' type='hinge'/>"
                           "<geom size='1' mass='1'/></body></worldbody>"
                           "<tendon><fixed name='f'><joint joint='j' coef='1'/></fixed></tendon>"
                           "<equality><joint joint1='j'/></equality></mujoco>");
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

// ---- inspect -------------------------------------------------------------------------------

static void inspect_tells_what_was_read(void** state) {
    (void)state;
    run_ok("inspect " PENDULUM " --params");
    assert_says(last.out, "pendulum: 1 link, nq 1, nv 1, nu 0, total mass 2 kg\n");
    assert_says(last.out, "gravity 0 0 -9.81 m/s^2, time step 0.001 s, integrator euler\n");
    assert_says(last.out,
                "rod  hinge revolute   q0        qd0       at 0 0 0, axis 0 1 0, damping 0.3");
    assert_says(last.out, "rod    2           0 0 -0.7; 0.1 0.1 0.01 0 0 0\n");
    assert_says(last.out, "<gazebo> in <robot name=\"pendulum\"> is not represented\n");
    assert_says(last.out, "joint/hinge/damping");
    assert_says(last.out, "N m s/rad  [0, inf] log\n");

    run_ok("inspect " MODELS "quadruped.urdf");
    assert_says(last.out, "13 links, nq 19, nv 18, nu 0, total mass 15.6 kg\n");
    assert_says(last.out, "\n  trunk          root    floating   q0..6     qd0..5 ");
    assert_says(last.out, "\n        FR_calf  FR_knee revolute   q9        qd8 ");
    assert_null(strstr(last.out, "pairs that can touch"));
    run_ok("inspect --ground " MODELS "quadruped.urdf");
    assert_says(last.out,
                "\npairs that can touch\n  trunk_geom1:ground               box and plane, ncp, "
                "mu 1, restitution 0\n");
    assert_null(strstr(last.out, "FR_calf_geom3:trunk_geom1"));
    run_ok("inspect --self-collision " MODELS "quadruped.urdf");
    assert_says(last.out, "\n  FR_calf_geom3:trunk_geom1        sphere and box, ncp, mu 1");
    run_ok("names --params --ground " MODELS "quadruped.urdf 'contact/FL_calf_geom3:ground/*'");
    assert_says(last.out, "parameters\n");
    assert_says(last.out, "  contact/FL_calf_geom3:ground/mu          1 \n");
    assert_says(last.out, "  contact/FL_calf_geom3:ground/max_push    2 m/s\n");

    run_ok("inspect " DATA "motors.xml");
    assert_says(last.out, "u0   m_left               torque on j_left, gear 3\n");
    assert_says(last.out, "u1   m_right              position on j_right, gear 1, kp 4\n");
    assert_says(last.out, "nothing of the file was ignored");
}

static void inspect_as_json(void** state) {
    (void)state;
    run_ok("inspect --json " PENDULUM);
    json_t* root = json_of(last.out);
    assert_string_equal(json_string_value(json_object_get(root, "name")), "pendulum");
    close_relative(number(root, "total_mass"), 2.0, 0.0);
    close_relative(number(root, "nv"), 1.0, 0.0);
    json_t* link = json_array_get(json_object_get(root, "links"), 0);
    assert_string_equal(json_string_value(json_object_get(link, "parent")), "world");
    json_t* joint = json_object_get(link, "joint");
    close_relative(number(joint, "damping"), damping, 0.0);
    close_relative(json_number_value(json_array_get(json_object_get(joint, "axis"), 1)), 1.0, 0.0);
    json_t* params = json_object_get(root, "parameters");
    assert_int_equal(json_array_size(params), 32);
    assert_int_equal(json_array_size(json_object_get(root, "ignored")), 1);
    assert_int_equal(json_array_size(json_object_get(root, "pairs")), 0);
    json_decref(root);

    run_ok("inspect --json --ground " MODELS "quadruped.urdf");
    root = json_of(last.out);
    json_t* pair = json_array_get(json_object_get(root, "pairs"), 1);
    assert_string_equal(json_string_value(json_object_get(pair, "name")), "FR_hip_geom1:ground");
    assert_string_equal(json_string_value(json_object_get(pair, "a")), "FR_hip_geom1");
    assert_string_equal(json_string_value(json_object_get(pair, "b_type")), "plane");
    assert_string_equal(json_string_value(json_object_get(pair, "model")), "ncp");
    close_relative(number(pair, "mu"), 1.0, 0.0);
    close_relative(number(pair, "restitution"), 0.0, 0.0);
    json_decref(root);
}

// ---- names ---------------------------------------------------------------------------------

// The output has a line that starts with this name, this unit and ends like this.
static void assert_line(const char* name, const char* unit, const char* end) {
    char line[256];
    snprintf(line, sizeof line, "\n%-46s  %-16s  %s\n", name, unit, end);
    assert_says(last.out, line);
}

static void names_lists_everything(void** state) {
    (void)state;
    run_ok("names " MODELS "quadruped.urdf --params");
    assert_says(last.out, "states\n  q0           q_root_0\n");
    assert_says(last.out, "  q18          q_RL_knee\n");
    assert_says(last.out, "controls\n  tau0         tau_root_0\n");
    assert_says(last.out, "\nquantities      ");
    assert_line("  qdd [18]", "m/s^2, rad/s^2", "acceleration  yes");
    assert_line("  mass_matrix [18 x 18]", "kg, kg m, kg m^2", "after         no");
    assert_line("  energy/kinetic", "J", "state         no");
    assert_line("  link/*/pose [x y z qw qx qy qz]", "m, -", "state         no       13 links");
    assert_line("  link/*/jacobian/linear [3 x 18]", "-, m", "after         no       13 links");
    assert_line("  link/*/force [x y z]", "N", "forces        yes      13 links");
    assert_true(strstr(last.out, "\n  bias [18]") <
                strstr(last.out, "\n  qdd [18]")); // as in the step
    assert_says(last.out, "parameters\n");
    assert_says(last.out, "  link/trunk/mass                          8 kg\n");

    run_ok("names " MODELS "quadruped.urdf 'link/trunk/pose' --all");
    static const char* const parts[] = {"x", "y", "z", "qw", "qx", "qy", "qz"};
    int lines = 0;
    for (const char* at = last.out; *at; at++) lines += *at == '\n';
    assert_int_equal(lines, 1 + 7);
    for (int k = 0; k < 7; k++) {
        char name[64];
        snprintf(name, sizeof name, "  link/trunk/pose/%s", parts[k]);
        assert_line(name, k < 3 ? "m" : "-", "state         no");
    }
    run_ok("names " PENDULUM " 'q*'");
    assert_line("  q [1]", "rad", "start         yes");
    assert_line("  qdd [1]", "rad/s^2", "acceleration  yes");
    run_ok("names --ground " MODELS "quadruped.urdf");
    assert_line("  contact/*/*/depth", "m", "impulses      yes      32 points");
    assert_line("  contact/penetration", "m", "after         no");
    run_bad("names " PENDULUM " nothing", 1, "nothing of the model is called, or fits, 'nothing'");

    // Quantities depend on how contact is treated; a table with those of springs is a table of
    // states all the same.
    tempdir_write("ground.xml",
                  "<mujoco><option integrator='Euler'/><worldbody>"
                  "<geom name='g' type='plane' size='5 5 1'/><body name='b' pos='0 0 0.1'>"
                  "<joint name='z' type='slide' axis='0 0 1'/>"
                  "<geom name='b' type='sphere' size='0.1' mass='1'/></body></worldbody></mujoco>");
    run_ok("names ground.xml 'contact/**'");
    assert_says(last.out, "contact/b:g/0/force/normal");
    assert_true(strstr(last.out, "elastic") == NULL);
    run_ok("names ground.xml 'contact/**' --contact spring");
    assert_says(last.out, "contact/b:g/0/force/elastic");
    assert_says(last.out, "contact/b:g/0/friction");
    run_ok("names ground.xml --contact ncp --friction pyramid --sweeps 5");
    run_ok("names ground.xml 'contact/**' --contact none");
    assert_true(strstr(last.out, "force") == NULL);
    run_ok("simulate ground.xml --steps 5 --contact spring --observe 'contact/**' -o spring.csv");
    run_ok("simulate ground.xml --steps 5 --contact spring --state spring.csv");

    // An integrator that does not go with impulses hides no names.
    tempdir_write("rk4.xml",
                  "<mujoco><option integrator='RK4'/><worldbody>"
                  "<geom name='g' type='plane' size='5 5 1'/><body name='b' pos='0 0 0.1'>"
                  "<joint name='z' type='slide' axis='0 0 1'/>"
                  "<geom name='b' type='sphere' size='0.1' mass='1'/></body></worldbody>"
                  "</mujoco>");
    run_ok("names rk4.xml 'contact/**' --contact spring");
    assert_says(last.out, "contact/b:g/0/force/elastic");
    run_ok("names rk4.xml 'contact/**'");
    assert_says(last.out, "contact/b:g/0/force/normal");

    run_ok("names " DATA "motors.xml --json");
    json_t* root = json_of(last.out);
    json_t* controls = json_object_get(root, "controls");
    assert_int_equal(json_array_size(controls), 4);
    const json_t* first = json_array_get(controls, 0);
    assert_string_equal(json_string_value(json_object_get(first, "name")), "u/m_left");
    assert_string_equal(json_string_value(json_object_get(first, "column")), "u_m_left");
    json_t* quantities = json_object_get(root, "quantities");
    size_t k;
    json_t* entry;
    bool found = false;
    json_array_foreach(quantities, k, entry) {
        if (strcmp(json_string_value(json_object_get(entry, "name")), "mass_matrix") != 0) continue;
        json_t* shape = json_object_get(entry, "shape");
        assert_int_equal(json_integer_value(json_array_get(shape, 0)), 2);
        assert_int_equal(json_integer_value(json_array_get(shape, 1)), 2);
        assert_string_equal(json_string_value(json_object_get(entry, "unit")), "kg m^2");
        assert_string_equal(json_string_value(json_object_get(entry, "stage")), "after");
        assert_string_equal(json_string_value(json_object_get(entry, "network")), "no");
        found = true;
    }
    assert_true(found);
    json_decref(root);
}

// ---- networks and hybrid models --------------------------------------------------------------

// A network without hidden layers, so that what it does is known: tau - 0.5 qd - 0.1.
static void write_networks(void) {
    tempdir_write("b.yaml", "networks:\n"
                            "  - name: drag\n"
                            "    inputs: joint/hinge/velocity\n"
                            "    outputs: joint/hinge/tau\n");
    tempdir_write("w.json", "{\"drag/w0\": [[-0.5], [-0.1]]}");
    tempdir_write("h.yaml", "robot: " PENDULUM "\n"
                            "parameters: {joint/hinge/damping: 0.2, link/rod/mass: 3}\n"
                            "timestep: 0.002\n"
                            "blueprint: b.yaml\n"
                            "weights: w.json\n");
    tempdir_write("s.csv", "q0,qd0\n0.4,1.5\n");
}

// Acceleration at q = 0.4, qd = 1.5 with this damping, mass and further torque.
static double known_qdd(double d, double m, double tau) {
    return (tau - d * 1.5 - m * gravity * length * sin(0.4)) / (0.1 + m * length * length);
}

static double first_qdd(const char* arguments) {
    char command[1024];
    snprintf(command, sizeof command, "eval %s --states s.csv --quantity qdd", arguments);
    run_ok(command);
    ns_table csv = table_of(last.out);
    double qdd = cell(&csv, 0, "qdd0");
    ns_table_free(&csv);
    return qdd;
}

static void networks_do_what_they_say(void** state) {
    (void)state;
    write_networks();
    double drag = -0.5 * 1.5 - 0.1;
    close_relative(first_qdd(PENDULUM), known_qdd(damping, mass, 0.0), 1e-12);
    close_relative(first_qdd(PENDULUM " --blueprint b.yaml --weights w.json"),
                   known_qdd(damping, mass, drag), 1e-12);
    close_relative(first_qdd("h.yaml"), known_qdd(0.2, 3.0, drag), 1e-12);
    // options of the command line win
    tempdir_write("v.json", "{\"drag/w0\": [[0], [-0.3]]}");
    close_relative(first_qdd("h.yaml --weights v.json"), known_qdd(0.2, 3.0, -0.3), 1e-12);
    close_relative(first_qdd("h.yaml --blueprint b.yaml --weights v.json --set link/rod/mass=2"),
                   known_qdd(0.2, 2.0, -0.3), 1e-12);
    tempdir_write("none.yaml", "networks: []\n");
    close_relative(first_qdd("h.yaml --blueprint none.yaml"), known_qdd(0.2, 3.0, 0.0), 1e-12);
    run_ok("eval h.yaml --states s.csv --quantity net --wrt qd");
    ns_table csv = table_of(last.out);
    close_relative(cell(&csv, 0, "net/drag/joint/hinge/tau"), drag, 1e-15);
    close_relative(cell(&csv, 0, "dnet/drag/joint/hinge/tau/dqd0"), -0.5, 1e-15);
    ns_table_free(&csv);

    run_ok("simulate h.yaml --state s.csv --steps 1 --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "timestep"), 0.002, 0.0);
    close_relative(number(json_object_get(root, "final_state"), "qd_hinge"),
                   1.5 + 0.002 * known_qdd(0.2, 3.0, drag), 1e-12);
    json_decref(root);
    run_ok("simulate h.yaml --state s.csv --steps 1 --dt 0.01 --json");
    root = json_of(last.out);
    close_relative(number(root, "timestep"), 0.01, 0.0);
    json_decref(root);
}

static void hybrid_models_are_shown(void** state) {
    (void)state;
    write_networks();
    run_ok("inspect h.yaml");
    assert_says(last.out, "time step 0.002 s");
    assert_says(last.out,
                "\nchanged parameters (above is what the robot's file has)\n  link/rod/mass  ");
    assert_says(last.out, "3 kg, in the robot's file 2\n");
    assert_says(last.out, "\nnetworks\n  drag                     1 set, 2 weights\n");
    run_ok("inspect h.yaml --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "timestep"), 0.002, 0.0);
    const json_t* network = json_array_get(json_object_get(root, "networks"), 0);
    close_relative(number(network, "weights"), 2.0, 0.0);
    json_decref(root);
    run_ok("names h.yaml 'net/**'");
    assert_line("  net/drag/joint/hinge/tau", "N m", "forces        no");
}

// The same pendulum, its drag by a formula.
static void formulas_do_what_they_say(void** state) {
    (void)state;
    write_networks();
    tempdir_write("f.yaml",
                  "formulas:\n"
                  "  - {name: drag, each: joint/*, output: '{}/tau',"
                  " formula: '-b * \"{}/velocity\" - c', coefficients: {b: 0.5, c: 0.1}}\n"
                  "  - {name: more, output: joint/hinge/force/damping, mode: scale,"
                  " formula: '1'}\n");
    tempdir_write("fw.json", "{\"drag/w0\": [[0.25, 0.3]]}");
    tempdir_write("fh.yaml", "robot: " PENDULUM "\nblueprint: f.yaml\n");
    double drag = -0.5 * 1.5 - 0.1;
    close_relative(first_qdd("fh.yaml"), known_qdd(2.0 * damping, mass, drag), 1e-12);
    close_relative(first_qdd(PENDULUM " --blueprint f.yaml --weights fw.json"),
                   known_qdd(2.0 * damping, mass, -0.25 * 1.5 - 0.3), 1e-12);
    run_ok("inspect fh.yaml");
    assert_says(last.out, "\nformulas\n  drag at {}/tau: -b * \"{}/velocity\" - c\n"
                          "    drag: b 0.5, c 0.1\n  more at joint/hinge/force/damping: 1\n");
    run_ok("inspect fh.yaml --json");
    json_t* root = json_of(last.out);
    const json_t* formula = json_array_get(json_object_get(root, "formulas"), 0);
    close_relative(number(formula, "coefficients"), 2.0, 0.0);
    json_decref(root);
    run_ok("names fh.yaml 'formula/**'");
    assert_line("  formula/drag/joint/hinge/tau", "N m", "forces        no");
    assert_line("  formula/more/joint/hinge/force/damping", "-", "forces        no");
    run_ok("gradcheck fh.yaml");
    assert_says(last.out, "\nweight    drag/b ");
    assert_says(last.out, "\nweight    drag/c ");
    assert_says(last.out, "5 inputs over 20 steps: 5 ok, 0 unsure, 0 FAIL");
}

static void gradcheck_checks_weights(void** state) {
    (void)state;
    write_networks();
    run_ok("gradcheck h.yaml --free link/rod/mass");
    assert_says(last.out, "\nweight    drag/w0[0,0]");
    assert_says(last.out, "\nweight    drag/w0[1,0]");
    assert_says(last.out, "6 inputs over 20 steps: 6 ok, 0 unsure, 0 FAIL");
    // Of many weights some are taken, others with another seed.
    tempdir_write("b.yaml", "networks:\n"
                            "  - {name: big, inputs: [q/*, prev:qdd/*, lag2:joint/*/tau],"
                            " outputs: joint/hinge/tau, hidden: [8, 8]}\n");
    run_ok("gradcheck " PENDULUM " --blueprint b.yaml --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "fail"), 0.0, 0.0);
    assert_int_equal(json_array_size(json_object_get(root, "inputs")), 5 + 1 + 20);
    json_decref(root);
    char* one = strdup(last.out);
    run_ok("gradcheck " PENDULUM " --blueprint b.yaml --json --seed 2");
    assert_true(strcmp(one, last.out) != 0);
    free(one);
}

// Values of earlier steps are part of the state: a run goes on where it stopped.
static void runs_with_memory_go_on(void** state) {
    (void)state;
    tempdir_write("b.yaml", "networks:\n"
                            "  - {name: n, inputs: lag2:joint/*/tau, outputs: joint/j_left/tau}\n");
    run_ok("simulate " DATA "motors.xml --blueprint b.yaml --steps 6 --every 3 -o whole.csv");
    run_ok("simulate " DATA "motors.xml --blueprint b.yaml --steps 3 --every 3 -o half.csv");
    char* half = tempdir_read("half.csv");
    const char* row = strstr(strchr(half, '\n') + 1, "\n") + 1;
    char text[4096];
    snprintf(text, sizeof text, "%.*s\n%s", (int)strcspn(half, "\n"), half, row);
    tempdir_write("middle.csv", text);
    run_ok("simulate " DATA "motors.xml --blueprint b.yaml --steps 3 --every 3 --state middle.csv");
    char* whole = tempdir_read("whole.csv");
    ns_table all = table_of(whole), rest = table_of(last.out);
    assert_true(ns_table_column(&rest, "memory/joint/j_left/tau/2") != NSI_NONE);
    for (uint32_t k = 1; k < rest.ncol; k++) {
        close_relative(ns_table_at(&rest, 1, k), cell(&all, 2, rest.names[k]), 0.0);
    }
    ns_table_free(&all);
    ns_table_free(&rest);
    free(half);
    free(whole);
}

static void mistakes_with_networks_are_explained(void** state) {
    (void)state;
    write_networks();
    tempdir_write("wrong.yaml",
                  "networks:\n  - {name: a, inputs: q/0, outputs: joint/hinge/taus}\n");
    tempdir_write("shape.json", "{\"drag/w0\": [[1, 2, 3]]}");
    tempdir_write("param.yaml", "robot: " PENDULUM "\nparameters: {link/rod/mas: 3}\n");
    static const char* const with_networks[] = {"names", "eval", "simulate", "gradcheck"};
    char arguments[512];
    for (int k = 0; k < 4; k++) {
        const char* more = k == 1 ? "--quantity qdd" : "";
        snprintf(arguments, sizeof arguments, "%s " PENDULUM " --blueprint wrong.yaml %s",
                 with_networks[k], more);
        run_bad(arguments, 1, "joint/hinge/tau");
        assert_says(last.err, "wrong.yaml:2");
        snprintf(arguments, sizeof arguments, "%s h.yaml --weights shape.json %s", with_networks[k],
                 more);
        run_bad(arguments, 1, "drag/w0");
        snprintf(arguments, sizeof arguments, "%s " PENDULUM " --weights w.json %s",
                 with_networks[k], more);
        run_bad(arguments, 1, "there are no networks; name them by --blueprint");
        snprintf(arguments, sizeof arguments, "%s " PENDULUM " --blueprint nothing.yaml %s",
                 with_networks[k], more);
        run_bad(arguments, 1, "nothing.yaml");
        snprintf(arguments, sizeof arguments, "%s h.yaml --blueprint b.yaml --blueprint b.yaml %s",
                 with_networks[k], more);
        run_bad(arguments, 2, "--blueprint is given twice");
    }
    for (int k = 0; k < COMMANDS; k++) {
        snprintf(arguments, sizeof arguments, "%s param.yaml %s", commands[k], needs(commands[k]));
        run_bad(arguments, 1, "did you mean \"link/rod/mass\"?");
    }
}

// ---- eval ----------------------------------------------------------------------------------

static void eval_agrees_with_the_closed_form(void** state) {
    (void)state;
    tempdir_write("s.csv", "t,q_hinge,qd0,tau0,energy\n0,0.4,1.5,0.2,7\n1,-2.5,-0.3,0,8\n");
    run_ok("eval " PENDULUM " --states s.csv --quantity qdd mass_matrix bias energy link/rod/pose "
           "--wrt q qd tau link/rod/mass joint/hinge/damping");
    assert_says(last.err, "s.csv: ignored 2 columns: t, energy\n");
    ns_table csv = table_of(last.out);
    static const double q[] = {0.4, -2.5}, qd[] = {1.5, -0.3}, tau[] = {0.2, 0.0};
    assert_int_equal(csv.nrow, 2);
    for (uint32_t k = 0; k < 2; k++) {
        double torque = tau[k] - mass * gravity * length * sin(q[k]) - damping * qd[k];
        double qdd = torque / moment, weight = gravity * length;
        close_relative(cell(&csv, k, "qdd0"), qdd, 1e-14);
        close_relative(cell(&csv, k, "mass_matrix_0_0"), moment, 1e-14);
        close_relative(cell(&csv, k, "bias0"), mass * weight * sin(q[k]), 1e-14);
        double kinetic = 0.5 * moment * qd[k] * qd[k], potential = -mass * weight * cos(q[k]);
        close_relative(cell(&csv, k, "energy/kinetic"), kinetic, 1e-14);
        close_relative(cell(&csv, k, "energy/potential"), potential, 1e-14);
        close_relative(cell(&csv, k, "energy/total"), kinetic + potential, 1e-14);
        close_relative(cell(&csv, k, "link/rod/pose/qw"), cos(q[k] / 2.0), 1e-14);
        close_relative(cell(&csv, k, "link/rod/pose/qy"), sin(q[k] / 2.0), 1e-14);

        close_relative(cell(&csv, k, "dqdd0/dq0"), -mass * weight * cos(q[k]) / moment, 1e-14);
        close_relative(cell(&csv, k, "dqdd0/dqd0"), -damping / moment, 1e-14);
        close_relative(cell(&csv, k, "dqdd0/dtau0"), 1.0 / moment, 1e-14);
        close_relative(cell(&csv, k, "dqdd0/djoint/hinge/damping"), -qd[k] / moment, 1e-14);
        double by_mass = -weight * sin(q[k]) / moment - qdd * length * length / moment;
        close_relative(cell(&csv, k, "dqdd0/dlink/rod/mass"), by_mass, 1e-13);
        close_relative(cell(&csv, k, "dmass_matrix_0_0/dlink/rod/mass"), length * length, 1e-14);
        close_relative(cell(&csv, k, "denergy/kinetic/dqd0"), moment * qd[k], 1e-14);
    }
    ns_table_free(&csv);
}

static void eval_takes_parameters_from_columns(void** state) {
    (void)state;
    tempdir_write("p.csv", "q0,link/rod/mass\n0.5,2\n0.5,4\n");
    run_ok("eval " PENDULUM " --states p.csv --quantity qdd0 mass_matrix_0_0 "
           "--set joint/hinge/damping=0 world/gravity/z=-1 -o r.csv");
    char* text = tempdir_read("r.csv");
    ns_table csv = table_of(text);
    assert_int_equal(csv.ncol, 2);
    for (uint32_t k = 0; k < 2; k++) {
        double m = k == 0 ? 2.0 : 4.0, inertia = 0.1 + m * length * length;
        close_relative(cell(&csv, k, "mass_matrix_0_0"), inertia, 1e-14);
        close_relative(cell(&csv, k, "qdd0"), -m * length * sin(0.5) / inertia, 1e-14);
    }
    ns_table_free(&csv);
    free(text);
}

static void eval_backends_give_the_same_bytes(void** state) {
    (void)state;
    tempdir_write("s.csv", "q_j_yaw,qd_j_elbow,tau_j_ball_1\n0.1,2,3\n-1,0.5,0.25\n");
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q qd tau "
           "--backend interp");
    char* interp = strdup(last.out);
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q qd tau "
           "--backend native");
    assert_string_equal(last.out, interp);
    free(interp);
}

static void eval_normalizes_quaternions(void** state) {
    (void)state;
    const char* eval = "eval " MODELS "quadruped.urdf --states s.csv --quantity link/trunk/pose";
    tempdir_write("s.csv", "q3,q4,q5,q6\n2,0,0,0\n0.6,0.8,0,0\n0,0,0,-3\n");
    run_ok(eval);
    assert_says(last.err,
                "s.csv: quaternions of 2 rows made unit length (first in line 2; off by up to "
                "2)\n");
    ns_table csv = table_of(last.out);
    close_relative(cell(&csv, 0, "link/trunk/pose/qw"), 1.0, 0.0);
    close_relative(cell(&csv, 0, "link/trunk/pose/z"), 0.4, 0.0); // of the model
    close_relative(cell(&csv, 1, "link/trunk/pose/qx"), 0.8, 1e-15);
    close_relative(cell(&csv, 2, "link/trunk/pose/qz"), -1.0, 0.0);
    ns_table_free(&csv);

    tempdir_write("s.csv", "q0\n5\n"); // quaternions that are missing are the identity
    run_ok(eval);
    assert_string_equal(last.err, "");
    csv = table_of(last.out);
    close_relative(cell(&csv, 0, "link/trunk/pose/x"), 5.0, 0.0);
    close_relative(cell(&csv, 0, "link/trunk/pose/qw"), 1.0, 0.0);
    ns_table_free(&csv);

    tempdir_write("s.csv", "q3,q4,q5,q6\n0,0,0,0\n");
    run_bad(eval, 1, "s.csv:2: a quaternion is zero; write 1 0 0 0 for no rotation");
}

// With --tangent the derivatives are those of the oracle, which come from central differences along
// q * exp(dq).
static void eval_tangents_are_those_of_the_oracle(void** state) {
    (void)state;
    json_error_t error;
    json_t* root =
        json_load_file(NEURALSIM_SOURCE_DIR "/tests/data/mujoco/oracle/arm7_mixed.json", 0, &error);
    if (!root) fail_msg("%s", error.text);
    json_t* list = json_object_get(root, "states");
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    nsi_text_add(&text, "q0,q1,q2,q3,q4,q5,q6,q7,qd0,qd1,qd2,qd3,qd4,qd5,qd6,"
                        "tau0,tau1,tau2,tau3,tau4,tau5,tau6\n");
    static const char* const parts[] = {"q", "qd", "tau"};
    for (size_t row = 0; row < 10; row++) {
        for (int k = 0; k < 3; k++) {
            json_t* numbers = json_object_get(json_array_get(list, row), parts[k]);
            for (size_t i = 0; i < json_array_size(numbers); i++) {
                if (k > 0 || i > 0) nsi_text_add(&text, ",");
                nsi_text_add_double(&text, json_number_value(json_array_get(numbers, i)));
            }
        }
        nsi_text_add(&text, "\n");
    }
    ns_text states;
    assert_int_equal(nsi_text_finish(&text, &states, NULL), NS_OK);
    tempdir_write("s.csv", states.data);
    ns_text_free(&states);
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q qd --tangent");
    ns_table csv = table_of(last.out);
    assert_int_equal(csv.ncol, 7 + 7 * 14);
    for (uint32_t row = 0; row < 10; row++) {
        json_t* sample = json_array_get(list, row);
        double off = 0.0, size = 0.0;
        for (size_t n = 0; n < 7 * 14; n++) {
            size_t i = n / 14, j = n % 7;
            const char* key = n % 14 < 7 ? "dqdd_dq" : "dqdd_dqd";
            json_t* line = json_array_get(json_object_get(sample, key), i);
            double expected = json_number_value(json_array_get(line, j));
            char column[64];
            snprintf(column, sizeof column, "dqdd%zu/d%s%zu", i, key + 6, j);
            off = fmax(off, fabs(cell(&csv, row, column) - expected));
            size = fmax(size, fabs(expected));
        }
        assert_true(size > 1.0);
        close_relative(off / size, 0.0, 1e-5); // the oracle's inertias are good to 1e-7
    }
    ns_table_free(&csv);
    json_decref(root);
}

// The derivative for the components of a quaternion gives that for the tangent by the chain rule.
static void eval_tangents_and_components_agree(void** state) {
    (void)state;
    tempdir_write("s.csv", "q2,q3,q4,q5,qd2,qd3,q6\n0.5,-0.5,0.1,0.7,1,-2,0.4\n");
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --wrt q2 q3 q4 q5 q6");
    ns_table components = table_of(last.out);
    run_ok("eval " MODELS "arm7_mixed.urdf --states s.csv --quantity qdd --tangent "
           "--wrt q_j_ball_0 q3 q4 q_j_elbow");
    ns_table tangents = table_of(last.out);
    double norm = sqrt(0.25 + 0.25 + 0.01 + 0.49);
    double w = 0.5 / norm, x = -0.5 / norm, y = 0.1 / norm, z = 0.7 / norm;
    const double turn[3][4] = {{-x, w, z, -y}, {-y, -z, w, x}, {-z, y, -x, w}};
    static const char* const names[] = {"q_j_ball_0", "q3", "q4"};
    char column[64];
    for (int i = 0; i < 7; i++) {
        for (int k = 0; k < 3; k++) {
            double sum = 0.0;
            for (int j = 0; j < 4; j++) {
                snprintf(column, sizeof column, "dqdd%d/dq%d", i, j + 2);
                sum += 0.5 * turn[k][j] * cell(&components, 0, column);
            }
            snprintf(column, sizeof column, "dqdd%d/d%s", i, names[k]);
            close_relative(cell(&tangents, 0, column), sum, 1e-12);
        }
        char other[64];
        snprintf(column, sizeof column, "dqdd%d/dq6", i);
        snprintf(other, sizeof other, "dqdd%d/dq_j_elbow", i);
        close_relative(cell(&tangents, 0, other), cell(&components, 0, column), 0.0);
    }
    ns_table_free(&components);
    ns_table_free(&tangents);
}

static void eval_explains_bad_tables(void** state) {
    (void)state;
    const char* eval = "eval " PENDULUM " --states s.csv --quantity qdd";
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"q0,velocity\n1,2\n", "s.csv: column \"velocity\" is nothing of this model; it takes "
                               "columns such as q0, qd0, tau0, q_hinge"},
        {"q1\n1\n", "s.csv: column \"q1\" is nothing of this model"},
        {"q0,q_hinge\n1,2\n", "s.csv: columns \"q0\" and \"q_hinge\" are the same number; remove "
                              "one"},
        {"q0\n1\nnan\n", "s.csv:3: column \"q0\" is nan; it must be finite"},
        {"q0,q_hinje\n1,2\n", "s.csv: column \"q_hinje\" is nothing of this model; did you mean "
                              "\"q_hinge\"?"},
        {"link/rod/mas\n1\n", "did you mean \"link/rod/mass\"?"},
        {"length\n1\n", "('neuralsim names MODEL' lists all; with --params, parameters too)"},
        {"q0,link/rod/mass\n1,2\n1,-5\n", "s.csv:3: link/rod/mass = -5 is outside its range 0 to "
                                          "inf"},
        {"link/rod/inertia/xx\n9\n", "s.csv:2: link \"rod\": the inertia "},
        {"q0;qd0\n1;2\n", "s.csv:1:1: \"q0;qd0\": columns must be separated by commas"},
        {"q0,qd0\n1\n", "s.csv:2:2: 1 field for 2 columns"},
        {"q0\none\n", "s.csv:2:1: \"one\" in column \"q0\" is not a number"},
        {"q0\n", "s.csv: the table has no rows"},
        {"", "s.csv:1:1: there is no table"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        tempdir_write("s.csv", cases[k].text);
        run_bad(eval, 1, cases[k].message);
    }
    run_bad("eval " PENDULUM " --quantity qdd --set link/rod/mass=-5", 1,
            "--set: link/rod/mass = -5 is outside its range 0 to inf");
    run_bad("simulate " PENDULUM " --set link/rod/inertia/zz=7", 1, "not a physical inertia");
    run_bad("eval " PENDULUM " --states none.csv --quantity qdd", 1, "cannot open none.csv: ");
    run_bad("eval " PENDULUM " --quantity qddd", 1, "no quantity of the model matches \"qddd\"");
    run_bad("eval " PENDULUM " --quantity qdd --free link/arm/mass", 1,
            "no parameter of the model matches \"link/arm/mass\"");
    // Results of an earlier run may stand in the table.
    tempdir_write("s.csv", "q0,qdd0,energy/total,bias0\n1,2,3,4\n");
    run_ok(eval);
    assert_says(last.err, "s.csv: ignored 3 columns: qdd0, energy/total, bias0\n");
}

static void ambiguous_joint_names_are_not_used(void** state) {
    (void)state;
    tempdir_write("s.csv", "q_a_0\n1\n");
    run_bad("eval " DATA "ball_and_names.urdf --states s.csv --quantity qdd", 1,
            "column \"q_a_0\" is nothing of this model");
    assert_says(last.err, "names by joint would be ambiguous");
    tempdir_write("s.csv", "q4\n1\n");
    run_ok("eval " DATA "ball_and_names.urdf --states s.csv --quantity link/second/pose");
    ns_table csv = table_of(last.out);
    close_relative(cell(&csv, 0, "link/second/pose/qy"), sin(0.5), 1e-15);
    ns_table_free(&csv);
}

// ---- simulate ------------------------------------------------------------------------------

// Semi-implicit Euler by hand.
static void step_by_hand(double* q, double* qd, double tau, double dt) {
    double torque = tau - mass * gravity * length * sin(*q) - damping * *qd;
    *qd += dt * torque / moment;
    *q += dt * *qd;
}

static void simulate_agrees_with_steps_by_hand(void** state) {
    (void)state;
    run_ok("simulate " PENDULUM " --steps 3000 --q0 1 --qd0 -0.5 --every 100 "
           "--control 'tau_hinge = 0.5*sin(2*pi*t)' --observe qdd energy/total");
    assert_string_equal(last.err, "");
    ns_table csv = table_of(last.out);
    assert_int_equal(csv.nrow, 31);
    double q = 1.0, qd = -0.5;
    const double pi = 3.14159265358979323846;
    for (uint32_t k = 0; k <= 3000; k++) {
        double t = k * timestep, tau = 0.5 * sin(2.0 * pi * t);
        if (k % 100 == 0) {
            close_relative(cell(&csv, k / 100, "t"), t, 1e-15);
            close_relative(cell(&csv, k / 100, "q_hinge"), q, 1e-11);
            close_relative(cell(&csv, k / 100, "qd_hinge"), qd, 1e-11);
            close_relative(cell(&csv, k / 100, "tau_hinge"), tau, 1e-15);
            double energy = 0.5 * moment * qd * qd - mass * gravity * length * cos(q);
            close_relative(cell(&csv, k / 100, "energy/total"), energy, 1e-11);
            double torque = tau - mass * gravity * length * sin(q) - damping * qd;
            close_relative(cell(&csv, k / 100, "qdd0"), torque / moment, 1e-10);
        }
        step_by_hand(&q, &qd, tau, timestep);
    }
    ns_table_free(&csv);
}

// A small oscillation has its period, whatever the integrator.
static void simulate_has_the_right_period(void** state) {
    (void)state;
    static const char* const integrators[] = {"euler", "rk4", "implicit"};
    double period = 2.0 * 3.14159265358979323846 / sqrt(mass * gravity * length / moment);
    char arguments[512];
    for (int k = 0; k < 3; k++) {
        snprintf(arguments, sizeof arguments,
                 "simulate " PENDULUM " --q0 1e-4 --set 'joint/*/damping=0' --dt 1e-4 --time %.17g "
                 "--integrator %s --json",
                 period, integrators[k]);
        run_ok(arguments);
        json_t* root = json_of(last.out);
        json_t* end = json_object_get(root, "final_state");
        close_relative(number(end, "q_hinge") / 1e-4, 1.0, 1e-3);
        close_relative(number(root, "energy_end"), number(root, "energy_start"), 1e-10);
        close_relative(number(root, "steps"), round(period / 1e-4), 0.0);
        assert_true(number(root, "steps_per_second") > 0.0);
        json_decref(root);
    }
}

static void simulate_writes_the_last_row(void** state) {
    (void)state;
    static const char* const more[] = {"", " --observe qdd", " --batch b.csv",
                                       " --batch b.csv --observe qdd"};
    tempdir_write("b.csv", "q0\n0.1\n0.2\n");
    char arguments[512];
    for (int k = 0; k < 4; k++) {
        snprintf(arguments, sizeof arguments, "simulate " PENDULUM " --time 0.0104 --every 4%s",
                 more[k]);
        run_ok(arguments);
        ns_table csv = table_of(last.out);
        assert_int_equal(csv.nrow, k < 2 ? 4 : 8);
        for (uint32_t row = 0; row < csv.nrow; row++) {
            static const double times[] = {0.0, 0.004, 0.008, 0.010};
            close_relative(cell(&csv, row, "t"), times[row % 4], 1e-15);
        }
        ns_table_free(&csv);
    }
}

static void simulate_observes_the_last_state_too(void** state) {
    (void)state;
    run_ok("simulate " PENDULUM " --steps 10 --q0 0.3 --observe q qd energy/kinetic --index-names");
    ns_table csv = table_of(last.out);
    assert_int_equal(csv.nrow, 11);
    for (uint32_t k = 0; k < 11; k++) {
        double qd = cell(&csv, k, "qd0");
        close_relative(cell(&csv, k, "q/0"), cell(&csv, k, "q0"), 0.0);
        close_relative(cell(&csv, k, "qd/0"), qd, 0.0);
        close_relative(cell(&csv, k, "energy/kinetic"), 0.5 * moment * qd * qd, 1e-14);
    }
    ns_table_free(&csv);
}

// A table of controls: by time or by row; actuators by their name or their joint's.
static void simulate_takes_controls_from_tables(void** state) {
    (void)state;
    tempdir_write("c.csv", "t,tau0\n0,1\n0.01,-2\n0.02,0.5\n");
    run_ok("simulate " PENDULUM " --steps 40 --control c.csv");
    assert_string_equal(last.err, ""); // a row by time holds until the next, as it should
    ns_table csv = table_of(last.out);
    double q = 0.0, qd = 0.0;
    for (uint32_t k = 0; k <= 40; k++) {
        double tau = k < 10 ? 1.0 : k < 20 ? -2.0 : 0.5;
        close_relative(cell(&csv, k, "tau_hinge"), tau, 0.0);
        close_relative(cell(&csv, k, "q_hinge"), q, 1e-13);
        step_by_hand(&q, &qd, tau, timestep);
    }
    ns_table_free(&csv);

    // Nothing acts before the first row.
    tempdir_write("c.csv", "t,tau0\n0.005,3\n");
    run_ok("simulate " PENDULUM " --steps 10 --control c.csv");
    csv = table_of(last.out);
    for (uint32_t k = 0; k <= 10; k++) {
        close_relative(cell(&csv, k, "tau_hinge"), k < 5 ? 0.0 : 3.0, 0.0);
        assert_true((cell(&csv, k, "q_hinge") == 0.0) == (k <= 5));
    }
    ns_table_free(&csv);

    // No gravity: the motor makes 3 * u / 0.5, the servo is a spring of 4 / 0.25.
    tempdir_write("c.csv", "u_j_left,u_m_right\n0.1,0\n0.2,0\n0.3,0\n");
    run_ok("simulate " DATA "motors.xml --steps 3 --control c.csv --q0 0 0.5 --index-names");
    csv = table_of(last.out);
    double left = 0.0, right = 0.5, right_v = 0.0;
    for (uint32_t k = 0; k < 3; k++) {
        left += 0.002 * 3.0 * 0.1 * (k + 1) / 0.5;
        right_v -= 0.002 * 4.0 * right / 0.25;
        right += 0.002 * right_v;
        close_relative(cell(&csv, k, "u/m_left"), 0.1 * (k + 1), 1e-15);
        close_relative(cell(&csv, k + 1, "qd0"), left, 1e-14);
        close_relative(cell(&csv, k + 1, "q1"), right, 1e-14);
    }
    ns_table_free(&csv);

    tempdir_write("c.csv", "u_hinge\n1\n");
    run_ok("simulate " PENDULUM " --steps 2 --control c.csv");
    assert_says(last.err, "c.csv ends before the simulation does; its last row is held");
    assert_says(last.err,
                "c.csv: column u_hinge is taken as tau0, since no actuator drives that joint");
    tempdir_write("c.csv", "t,tau0\n0,1\n-1,2\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1, "c.csv:3: the time goes back");
    tempdir_write("c.csv", "t,torque\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1,
            "c.csv: column \"torque\" is nothing of this model; did you mean \"tau0\"?");
    tempdir_write("c.csv", "t,volts\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1,
            "c.csv: column \"volts\" is nothing of this model; controls are tau_hinge ('neuralsim");
    tempdir_write("c.csv", "t,tau_hing\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1, "did you mean \"tau_hinge\"?");
    run_bad("simulate " PENDULUM " --control 'sin(t)'", 1,
            "(a formula is written NAME=..., for example tau0=sin(t))");
    tempdir_write("c.csv", "t,q0\n0,1\n");
    run_bad("simulate " PENDULUM " --control c.csv", 1,
            "c.csv: no column is a control of this model");
    run_bad("simulate " PENDULUM " --control 'tau0=1/(t-0.002)'", 1,
            "--control: tau_hinge is inf at t = 0.002 s");
}

// Many trajectories at once are the single ones after each other, at any number of threads.
static void batches_are_single_trajectories(void** state) {
    (void)state;
    tempdir_write("b.csv", "q0,qd0,link/rod/mass\n0.1,0,2\n0.2,1,2\n0.3,-1,2\n0.4,0,3\n0.5,0,2\n"
                           "2,2,1\n");
    const char* batch = "simulate " PENDULUM " --steps 2000 --every 500 --batch b.csv "
                        "--control 'tau0=cos(t)' --observe energy/total --threads ";
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s1", batch);
    run_ok(arguments);
    char* one = strdup(last.out);
    snprintf(arguments, sizeof arguments, "%s3", batch);
    run_ok(arguments);
    assert_string_equal(last.out, one);
    ns_table csv = table_of(one);
    assert_int_equal(csv.nrow, 6 * 5);
    for (uint32_t n = 0; n < 6; n++) {
        for (uint32_t k = 0; k < 5; k++) {
            close_relative(cell(&csv, n * 5 + k, "traj"), n, 0.0);
            close_relative(cell(&csv, n * 5 + k, "t"), 0.5 * k, 1e-15);
        }
    }
    run_ok("simulate " PENDULUM " --steps 2000 --q0 0.4 --set link/rod/mass=3 --every 500 "
           "--control 'tau0=cos(t)'");
    ns_table single = table_of(last.out);
    for (uint32_t k = 0; k < 5; k++) {
        close_relative(cell(&csv, 15 + k, "q_hinge"), cell(&single, k, "q_hinge"), 0.0);
        close_relative(cell(&csv, 15 + k, "qd_hinge"), cell(&single, k, "qd_hinge"), 0.0);
    }
    ns_table_free(&single);
    ns_table_free(&csv);
    free(one);

    run_ok("simulate " PENDULUM " --steps 10 --batch b.csv --json -o t.csv");
    json_t* root = json_of(last.out);
    assert_int_equal(json_array_size(json_object_get(root, "results")), 6);
    json_decref(root);

    // Controls for each of them.
    tempdir_write("b.csv", "q0\n0\n0\n");
    tempdir_write("c.csv", "traj,t,tau0\n0,0,1\n0,1,1\n1,0,-2\n1,1,-2\n");
    run_ok("simulate " PENDULUM " --steps 5 --batch b.csv --control c.csv");
    csv = table_of(last.out);
    close_relative(cell(&csv, 11, "qd_hinge"), -2.0 * cell(&csv, 5, "qd_hinge") * 1.0, 1e-2);
    close_relative(cell(&csv, 7, "tau_hinge"), -2.0, 0.0);
    ns_table_free(&csv);
    tempdir_write("b.csv", "q0\n0\n0\n0\n");
    run_bad("simulate " PENDULUM " --steps 5 --batch b.csv --control c.csv", 1,
            "c.csv has controls for 2 trajectories, but there are 3 initial states");
}

// What was written can be read: stopping in the middle changes nothing.
static void simulations_can_be_continued(void** state) {
    (void)state;
    run_ok("simulate " MODELS "quadruped.urdf --steps 200 --every 100 --control 'tau_FR_knee=0.1' "
           "--observe energy/total -o whole.csv");
    char* text = tempdir_read("whole.csv");
    ns_table whole = table_of(text);
    // Header and the row of the middle.
    char* header_end = strchr(text, '\n');
    char* first_end = strchr(header_end + 1, '\n');
    char* middle_end = strchr(first_end + 1, '\n');
    nsi_text_builder middle = {.allocator = ns_default_allocator()};
    nsi_text_add_bytes(&middle, text, (size_t)(header_end + 1 - text));
    nsi_text_add_bytes(&middle, first_end + 1, (size_t)(middle_end - first_end));
    ns_text state_text;
    assert_int_equal(nsi_text_finish(&middle, &state_text, NULL), NS_OK);
    tempdir_write("middle.csv", state_text.data);
    run_ok("simulate " MODELS "quadruped.urdf --steps 100 --every 100 --state middle.csv "
           "--control 'tau_FR_knee=0.1'");
    assert_says(last.err, "middle.csv: ignored 2 columns: t, energy/total\n");
    ns_table rest = table_of(last.out);
    for (uint32_t k = 0; k < rest.ncol; k++) {
        if (strcmp(rest.names[k], "t") == 0) continue;
        close_relative(ns_table_at(&rest, 1, k), cell(&whole, 2, rest.names[k]), 0.0);
    }
    ns_table_free(&rest);
    ns_table_free(&whole);
    ns_text_free(&state_text);
    free(text);
}

static void divergence_is_reported_and_rows_are_kept(void** state) {
    (void)state;
    run_bad("simulate " PENDULUM " --set joint/hinge/damping=1e5 --qd0 1 --time 5 -o d.csv", 1,
            "trajectory 0, step 155 (t = 0.155 s): quantity joint/hinge/tau is not finite");
    char* text = tempdir_read("d.csv");
    ns_table csv = table_of(text);
    assert_int_equal(csv.nrow, 156);
    for (uint32_t k = 0; k < csv.nrow; k++) assert_true(isfinite(cell(&csv, k, "q_hinge")));
    ns_table_free(&csv);
    free(text);

    // Far into the run, and only one of several.
    tempdir_write("b.csv", "qd0,joint/hinge/damping\n1,0\n1,2220\n1,0.1\n");
    run_bad("simulate " PENDULUM " --batch b.csv --time 50 --observe energy/total", 1,
            "trajectory 1, step ");
    csv = table_of(last.out);
    assert_true(csv.nrow > 3000);
    ns_table_free(&csv);
}

// ---- gradcheck -----------------------------------------------------------------------------

static void gradients_are_right(void** state) {
    (void)state;
    run_ok("gradcheck " PENDULUM " --free link/rod/mass joint/hinge/damping");
    assert_says(last.out, "state     q0 ");
    assert_says(last.out, "control   tau0 ");
    assert_says(last.out, "parameter link/rod/mass ");
    assert_says(last.out,
                "5 inputs over 20 steps: 5 ok, 0 unsure, 0 FAIL; largest relative error ");
    run_ok("gradcheck " DATA "motors.xml --free '**' --integrator rk4 --seed 7");
    run_ok("gradcheck " MODELS "arm7_mixed.urdf --free '**' --steps 5 --json");
    json_t* root = json_of(last.out);
    close_relative(number(root, "fail") + number(root, "unsure"), 0.0, 0.0);
    close_relative(number(root, "ok") + number(root, "zero"), 15 + 7 + 148, 0.0);
    assert_true(number(root, "zero") > 0.0);
    assert_true(number(root, "largest_error") < 1e-7);
    json_decref(root);

    // Damping of a joint that cannot move acts on nothing.
    tempdir_write("fixed.urdf",
                  "<robot name='r'><link name='world'/>"
                  "<joint name='h' type='revolute'><parent link='world'/>"
                  "<child link='a'/><axis xyz='0 1 0'/><limit effort='1' velocity='1'/>"
                  "</joint><link name='a'><inertial><origin xyz='0 0 -1'/>"
                  "<mass value='1'/><inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' "
                  "iyz='0'/></inertial></link><joint name='f' type='fixed'>"
                  "<parent link='a'/><child link='b'/></joint><link name='b'/></robot>");
    run_ok("gradcheck fixed.urdf --free 'joint/*/damping'");
    assert_says(last.out, "   0.0e+00  zero\n");
    assert_says(last.out, "5 inputs over 20 steps: 4 ok, 1 zero, 0 unsure, 0 FAIL; ");

    // One step of the pendulum by hand: the ratio of two derivatives does not know the weights.
    run_ok("gradcheck " PENDULUM " --steps 1 --json --free joint/hinge/damping");
    root = json_of(last.out);
    json_t* inputs = json_object_get(root, "inputs");
    double by_tau = number(json_array_get(inputs, 2), "reverse");
    double by_damping = number(json_array_get(inputs, 3), "reverse");
    assert_true(by_tau != 0.0 && by_damping != 0.0);
    double by_qd = number(json_array_get(inputs, 1), "reverse");
    // d/dqd = A (1 - h d/I) and d/dtau = A h/I for the same A
    close_relative(by_qd / by_tau, (1.0 - timestep * damping / moment) / (timestep / moment),
                   1e-12);
    json_decref(root);
}

static const char tumbling_box[] =
    "<mujoco><option timestep='0.001'/><worldbody><geom name='ground' type='plane' size='5 5 1'/>"
    "<body name='box' pos='0 0 3'><freejoint/>"
    "<geom name='box' type='box' size='0.1 0.15 0.2' mass='1'/></body></worldbody></mujoco>";

// Right gradients are not called wrong because coarse differences agree on the trend over kinks, and
// what is checked is said.
static void gradients_of_contact_are_right(void** state) {
    (void)state;
    tempdir_write("box.xml", tumbling_box);
    run_ok("gradcheck box.xml");
    assert_says(last.out, "; no contact acted (--q0 and --qd0 choose the start)\n");
    run_ok("gradcheck box.xml --contact none");
    assert_true(strstr(last.out, "contact") == NULL);
    double ok = 0.0;
    for (int k = 0; k < 12; k++) {
        static const char* const models[] = {"ncp", "ncp --friction pyramid", "spring"};
        static const int lengths[] = {150, 300, 1000, 2000};
        char command[200];
        snprintf(command, sizeof command,
                 "gradcheck box.xml --steps %d --contact %s --q0 0 0 .3 .9 .2 .3 .1 --seed %d"
                 " --json --free 'link/*/mass' 'geom/**' 'contact/**'",
                 lengths[k / 3], models[k % 3], k + 1);
        run_ok(command);
        json_t* root = json_of(last.out);
        close_relative(number(root, "fail"), 0.0, 0.0);
        assert_true(number(root, "contact_steps") > 20.0);
        ok += number(root, "ok");
        json_decref(root);
    }
    print_message("%g derivatives are ok\n", ok);
    assert_true(ok >= 150.0);

    // A ball that bounces, without kinks nearby: all are sure.
    tempdir_write("ball.urdf",
                  "<robot name='r'><link name='world'/><joint name='z' type='prismatic'>"
                  "<parent link='world'/><child link='b'/><axis xyz='0 0 1'/>"
                  "<limit effort='1' velocity='1' lower='-9' upper='9'/></joint><link name='b'>"
                  "<contact><restitution value='0.5'/></contact><inertial><mass value='1'/>"
                  "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/></inertial><collision>"
                  "<geometry><sphere radius='0.1'/></geometry></collision></link></robot>");
    run_ok("gradcheck ball.urdf --ground --steps 100 --q0 0.15023 --qd0 -1"
           " --free 'contact/*/restitution'");
    assert_says(last.out, "4 inputs over 100 steps: ");
    assert_says(last.out, " 0 unsure, 0 FAIL; ");
    assert_says(last.out, "; contact acted in ");
    // At a kink up is not down: it just touches, and is pressed in the only step.
    run_ok("gradcheck ball.urdf --ground --steps 1 --q0 0.1 --qd0 -1 --json");
    json_t* root = json_of(last.out);
    assert_true(number(root, "unsure") >= 1.0);
    json_decref(root);
    run_bad("gradcheck ball.urdf --q0 1 2", 2, "--q0 needs 1 numbers for this model, not 2");
    run_bad("gradcheck ball.urdf --qd0 x", 2, "--qd0: 'x' is not a number");
    run_bad("gradcheck box.xml --q0 0 0 0 0 0 0 0", 2, "--q0: a quaternion is zero");
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
    run_bad("names " PENDULUM " --json >/dev/full", 1, "cannot write the output: ");
    run_bad("gradcheck " PENDULUM " >/dev/full", 1, "cannot write the output: ");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_command_has_help),
        cmocka_unit_test(examples_of_help_work),
        cmocka_unit_test(mistakes_on_the_command_line_are_explained),
        cmocka_unit_test(bench_tells_of_contact),
        cmocka_unit_test(bench_times_peers),
        cmocka_unit_test(commands_can_be_misspelt),
        cmocka_unit_test(options_can_be_misspelt),
        cmocka_unit_test(ignored_parts_are_mentioned),
        cmocka_unit_test(results_of_a_fit_need_a_folder),
        cmocka_unit_test(missing_and_broken_models_are_explained),
        cmocka_unit_test(inspect_tells_what_was_read),
        cmocka_unit_test(inspect_as_json),
        cmocka_unit_test(names_lists_everything),
        cmocka_unit_test(networks_do_what_they_say),
        cmocka_unit_test(hybrid_models_are_shown),
        cmocka_unit_test(formulas_do_what_they_say),
        cmocka_unit_test(gradcheck_checks_weights),
        cmocka_unit_test(runs_with_memory_go_on),
        cmocka_unit_test(mistakes_with_networks_are_explained),
        cmocka_unit_test(eval_agrees_with_the_closed_form),
        cmocka_unit_test(eval_takes_parameters_from_columns),
        cmocka_unit_test(eval_backends_give_the_same_bytes),
        cmocka_unit_test(eval_normalizes_quaternions),
        cmocka_unit_test(eval_tangents_are_those_of_the_oracle),
        cmocka_unit_test(eval_tangents_and_components_agree),
        cmocka_unit_test(eval_explains_bad_tables),
        cmocka_unit_test(ambiguous_joint_names_are_not_used),
        cmocka_unit_test(simulate_agrees_with_steps_by_hand),
        cmocka_unit_test(simulate_has_the_right_period),
        cmocka_unit_test(simulate_writes_the_last_row),
        cmocka_unit_test(simulate_observes_the_last_state_too),
        cmocka_unit_test(simulate_takes_controls_from_tables),
        cmocka_unit_test(batches_are_single_trajectories),
        cmocka_unit_test(simulations_can_be_continued),
        cmocka_unit_test(divergence_is_reported_and_rows_are_kept),
        cmocka_unit_test(gradients_are_right),
        cmocka_unit_test(gradients_of_contact_are_right),
        cmocka_unit_test(full_disks_are_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
