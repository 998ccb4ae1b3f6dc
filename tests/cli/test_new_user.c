// Mistakes of a new user with a cart-pole: each message names the fault, its place and the remedy. Also names
// and defaults that a new user expects to work.

#include "support/program.h"
#include "support/tempdir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CARTPOLE NEURALSIM_SOURCE_DIR "/tests/data/cartpole/"
#define MODEL "model: model.xml\n"
#define DATA "data: {map: map.yaml, train: [recording.csv]}\n"
#define MASS "parameters: {link/pole/mass: free}\n"

// ---- files ---------------------------------------------------------------------------------------

static const char map[] = "time: t\ntrajectory: traj\nobserve:\n"
                          "  joint/slide/position: {value: slide, sigma: 0.001}\n"
                          "  joint/hinge/position: {value: hinge, sigma: 0.002}\n"
                          "control:\n  tau0: push\n";

// A file of the temporary folder with the first `from` in it replaced.
static void write_changed(const char* name, const char* text, const char* from, const char* to) {
    const char* at = strstr(text, from);
    assert_non_null(at);
    size_t size = strlen(text) + strlen(to) + 1;
    char* changed = malloc(size);
    assert_non_null(changed);
    snprintf(changed, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    tempdir_write(name, changed);
    free(changed);
}

static int write_files(void** state) {
    (void)state;
    char *model = file_text(CARTPOLE "model.xml"), *recording = file_text(CARTPOLE "recording.csv");
    tempdir_write("model.xml", model);
    tempdir_write("recording.csv", recording);
    tempdir_write("map.yaml", map);
    tempdir_write("fit.yaml", MODEL DATA MASS);

    // Recordings and maps that are not right.
    write_changed("word.csv", recording, ",0.450921063\n", ",high\n");
    write_changed("back.csv", recording, "\n0,0.04,", "\n0,0.01,");
    write_changed("short.csv", recording, ",0.450921063\n", "\n");
    write_changed("column.yaml", map, "value: slide", "value: slid");
    write_changed("channel.yaml", map, "joint/hinge/", "joint/hing/");
    write_changed("control.yaml", map, "tau0", "tau_slid");
    write_changed("sigma.yaml", map, "sigma", "sigm");
    free(model);
    free(recording);
    return 0;
}

// ---- mistakes ------------------------------------------------------------------------------------

typedef struct mistake {
    const char* fit;       // of the file f.yaml; NULL: there is none
    const char* arguments; // of the program
    const char *what, *where, *help;
} mistake;

static const mistake mistakes[] = {
    // The command line.
    {NULL, "fti fit.yaml", "there is no command", "'fti'", "did you mean 'fit'?"},
    {NULL, "fit", "expected one fit file", "neuralsim fit:", "--help"},
    {NULL, "fit fit.yaml --treads 2", "unknown option", "'--treads'", "did you mean '--threads'?"},
    {NULL, "fit model.xml", "this is a robot",
     "model.xml:", "write a YAML file with `model: model.xml`"},
    {NULL, "fit recording.csv", "this is a recording",
     "recording.csv:", "`data: {train: [recording.csv]}`"},
    {NULL, "fit none.yaml", "No such file", "none.yaml:", "cannot be opened"},
    {NULL, "fit fit.yaml -o recording.csv", "is no folder", "recording.csv",
     "give another one with -o"},
    {NULL, "discover model.xml", "this is a robot", "model.xml:", "docs/discover.md"},
    {NULL, "simulate model.xml --control tau_slde=1", "is not a control", "--control: 'tau_slde'",
     "did you mean 'tau_slide'?"},
    {NULL, "simulate model.xml --q0 1", "needs 2 numbers", "--q0", "--help"},
    {NULL, "simulate model.xml --dt -1", "must be positive", "--dt", "--help"},
    {NULL, "simulate model.xml --integrator rk5", "is not one of", "--integrator: 'rk5'", "rk4"},
    {NULL, "simulate model.xml --observe q_hing", "q_hing", "", "joint/hinge"},
    {NULL, "score model.xml", "no --data given", "neuralsim score:", "--help"},
    {NULL, "score model.xml --data recording.csv", "no column name is known",
     "recording.csv:1:", "rename columns or give a map"},

    // The fit file.
    {"modle: model.xml\n" DATA MASS, "fit f.yaml", "unknown key \"modle\"",
     "f.yaml:1:1:", "\"model\"?"},
    {"model: modl.xml\n" DATA MASS, "fit f.yaml", "there is no file",
     "f.yaml:1:8:", "correct the path"},
    {MODEL DATA "parameters:\n\tlink/pole/mass: free\n", "fit f.yaml", "a tab",
     "f.yaml:4:1:", "spaces"},
    {MODEL DATA "parameters: {link/pol/mass: free}\n", "fit f.yaml", "no parameter matches",
     "f.yaml:3:14:", "did you mean \"link/pole/mass\"?"},
    {MODEL DATA "parameters: {'*/mass': free}\n", "fit f.yaml", "no parameter matches",
     "f.yaml:3:14:", "link/cart/mass"},
    {MODEL DATA "parameters: {link/pole/mass: fre}\n", "fit f.yaml", "neither `free` nor a number",
     "f.yaml:3:30:", "write one of them"},
    {MODEL DATA "parameters: {link/pole/mass: {lower: 1}}\n", "fit f.yaml",
     "0.2 is not between 1 and inf", "f.yaml:3:14:", "give another `initial`"},
    {MODEL DATA, "fit f.yaml", "there is nothing to fit", "f.yaml:1:1:", "give `parameters`"},
    {MODEL DATA MASS "timestep: 0.03\n", "fit f.yaml", "no multiple of the time step",
     "f.yaml:4:11:", "give a timestep that divides it"},
    {MODEL DATA MASS "train: {window: 1000}\n", "fit f.yaml", "longer than every recording",
     "f.yaml:4:8:", "take shorter ones"},
    {MODEL DATA MASS "train: {method: lmm}\n", "fit f.yaml", "\"lmm\" is not one of",
     "f.yaml:4:17:", "did you mean \"lm\"?"},
    {MODEL DATA MASS "search: {}\n", "fit f.yaml", "a search needs to know where",
     "f.yaml:4:9:", "give lower and upper"},
    {MODEL DATA MASS "predict: {horizons: [30]}\n", "fit f.yaml", "longer than every recording",
     "f.yaml:4:10:", "take shorter `horizons`"},
    {MODEL DATA MASS "set: {link/pole/com/z: lenght}\n", "fit f.yaml", "uses \"lenght\"",
     "f.yaml:4:24:", "double quotes"},

    // The data.
    {MODEL "data: {train: [recordin.csv]}\n" MASS, "fit f.yaml", "there is no recordin.csv",
     "f.yaml:2:16:", "beside this file"},
    {MODEL "data: {train: [recording.csv]}\n" MASS, "fit f.yaml", "no column name is known",
     "recording.csv:1:", "give a map"},
    {MODEL "data: {map: column.yaml, train: [recording.csv]}\n" MASS, "fit f.yaml",
     "there is no column \"slid\"", "column.yaml:4:33:", "did you mean \"slide\"?"},
    {MODEL "data: {map: channel.yaml, train: [recording.csv]}\n" MASS, "fit f.yaml",
     "which the model does not know", "joint/hing/position",
     "did you mean \"joint/hinge/position\"?"},
    {MODEL "data: {map: control.yaml, train: [recording.csv]}\n" MASS, "fit f.yaml",
     "which the model does not know", "tau_slid", "did you mean \"tau_slide\"?"},
    {MODEL "data: {map: sigma.yaml, train: [recording.csv]}\n" MASS, "fit f.yaml",
     "unknown key \"sigm\"", "sigma.yaml:4:40:", "did you mean \"sigma\"?"},
    {MODEL "data: {map: map.yaml, train: [word.csv]}\n" MASS, "fit f.yaml", "is not a number",
     "word.csv:3:", "write one, with a point"},
    {MODEL "data: {map: map.yaml, train: [back.csv]}\n" MASS, "fit f.yaml", "the time goes back",
     "back.csv:4:", "set time_repair: true"},
    {MODEL "data: {map: map.yaml, train: [short.csv]}\n" MASS, "fit f.yaml",
     "4 fields for 5 columns", "short.csv:3:", "add what is missing"},
};

static void mistakes_score_three_of_three(void** state) {
    (void)state;
    uint32_t count = sizeof mistakes / sizeof *mistakes, missed = 0;
    assert_true(count >= 30);
    for (uint32_t k = 0; k < count; k++) {
        const mistake* m = &mistakes[k];
        if (m->fit) tempdir_write("f.yaml", m->fit);
        program_result r = program_run(tempdir(), m->arguments);
        const char* parts[] = {m->what, m->where, m->help};
        int score = 0;
        for (int i = 0; i < 3; i++) score += strstr(r.err, parts[i]) != NULL;
        bool good = score == 3 && (r.code == 1 || r.code == 2);
        if (!good) print_error("%s: %d of 3, exit code %d: %s", m->arguments, score, r.code, r.err);
        missed += !good;
        program_result_free(&r);
    }
    assert_int_equal(missed, 0);
}

// ---- mistakes in the data ------------------------------------------------------------------------

// The rows of the recording, each changed as a mistake would.
typedef struct row {
    int trajectory, number; // number: in the trajectory
    double t, slide, hinge, push;
} row;

static void write_rows(const char* name, const char* header, bool (*change)(row*)) {
    char* recording = file_text(CARTPOLE "recording.csv");
    nsi_text_builder text = {.allocator = ns_default_allocator()};
    nsi_text_add(&text, "%s\n", header);
    row r = {.trajectory = -1};
    for (char* at = strchr(recording, '\n'); at && at[1]; at = strchr(at + 1, '\n')) {
        row next = {0};
        if (sscanf(at + 1, "%d,%lf,%lf,%lf,%lf", &next.trajectory, &next.t, &next.slide,
                   &next.hinge, &next.push) != 5) {
            continue;
        }
        next.number = next.trajectory == r.trajectory ? r.number + 1 : 0;
        r = next;
        if (change && !change(&next)) continue;
        char line[200];
        snprintf(line, sizeof line, "%d,%.9g,%.6f,%.6f,%.9g\n", next.trajectory, next.t, next.slide,
                 next.hinge, next.push);
        nsi_text_add(&text, "%s", line);
    }
    nsi_text_add_bytes(&text, "", 1);
    tempdir_write(name, text.text.data);
    nsi_array_free(&text.allocator, &text.text);
    free(recording);
}

static bool in_milliseconds(row* r) {
    r->t *= 1e3;
    return true;
}
static bool lost_sample(row* r) {
    if (r->trajectory == 1 && r->number == 100) r->hinge = 99.0;
    return true;
}
static bool frozen_sensor(row* r) {
    static double before;
    bool frozen = r->trajectory == 2 && r->number > 60 && r->number < 100;
    if (frozen) r->slide = before;
    before = r->slide;
    return true;
}
static bool lost_rows(row* r) {
    return r->number < 100 || r->number >= 150;
}
static bool in_degrees(row* r) {
    r->hinge *= 57.29577951308232;
    return true;
}
static bool in_millimetres(row* r) {
    r->slide *= 1e3;
    return true;
}

static const char header[] = "traj,t,slide,hinge,push";

typedef struct data_mistake {
    const char *from, *to; // in the map; NULL: as it is
    const char* data;      // of the fit file
    const char *what, *where, *help;
} data_mistake;

#define TRAIN(file) "data: {map: d.yaml, train: [" file "]}\n"

static const data_mistake data_mistakes[] = {
    {NULL, NULL, TRAIN("ms.csv"), "the time seems to be in milliseconds", "ms.csv",
     "write `time: t * 0.001` in the map"},
    {"hinge, sigma", "hinge_deg, sigma", TRAIN("deg.csv"), "seems to be in degrees",
     "deg.csv: joint/hinge/position", "write hinge_deg * deg in the map"},
    {"slide, sigma", "slide_mm, sigma", TRAIN("mm.csv"), "seems to be in mm",
     "mm.csv: joint/slide/position", "write slide_mm * mm in the map"},
    {"value: hinge", "value: 'atan2(sin(hinge + 3), cos(hinge + 3))'", TRAIN("recording.csv"),
     "jumps by a whole turn", "recording.csv:", "write unwrap("},
    {"tau0: push", "tau0: -push", TRAIN("recording.csv"), "its sign seems wrong", "tau0",
     "change its sign in the map"},
    {"observe:", "observe:\n  joint/slide/velocity: {value: '3 * rate(slide, 11, 3)'}",
     TRAIN("recording.csv"), "times this velocity", "joint/slide/velocity", "check units"},
    {"observe:", "observe:\n  joint/slide/velocity: {value: 'shift(rate(slide, 11, 3), 6)'}",
     TRAIN("recording.csv"), "late relative to joint/slide/position", "joint/slide/velocity",
     "write shift("},
    {NULL, NULL, TRAIN("lost.csv"), "away from both neighbours",
     "lost.csv:352: joint/hinge/position", "make these cells empty"},
    {NULL, NULL, TRAIN("frozen.csv"), "the same value for up to 0.",
     "frozen.csv:562:", "leave that part of the file out"},
    {NULL, NULL, TRAIN("gap.csv"), "20 % of the rows are missing", "gap.csv:102:", "max_gap"},
    {NULL, NULL, TRAIN("recording.csv, copy.csv"),
     "2 recordings have the same numbers: ", "copy.csv", "keep one of them"},
    {NULL, NULL, "data: {map: d.yaml, train: [recording.csv], test: [recording.csv]}\n",
     "of this test data is train data, too", "recording.csv", "use other recordings"},
};

static void write_data_mistakes(void) {
    write_rows("ms.csv", header, in_milliseconds);
    write_rows("deg.csv", "traj,t,slide,hinge_deg,push", in_degrees);
    write_rows("mm.csv", "traj,t,slide_mm,hinge,push", in_millimetres);
    write_rows("lost.csv", header, lost_sample);
    write_rows("frozen.csv", header, frozen_sensor);
    write_rows("gap.csv", header, lost_rows);
    write_rows("copy.csv", header, NULL);
}

// `fit --check` warns; so do `fit`, `discover`, `score` and `data`, below.
static void data_mistakes_score_three_of_three(void** state) {
    (void)state;
    write_data_mistakes();
    uint32_t count = sizeof data_mistakes / sizeof *data_mistakes, missed = 0;
    for (uint32_t k = 0; k < count; k++) {
        const data_mistake* m = &data_mistakes[k];
        char fit[400];
        write_changed("d.yaml", map, m->from ? m->from : "time", m->from ? m->to : "time");
        snprintf(fit, sizeof fit, MODEL "%s" MASS, m->data);
        tempdir_write("f.yaml", fit);
        program_result r = program_run(tempdir(), "fit f.yaml --check");
        const char* parts[] = {m->what, m->where, m->help};
        int score = 0;
        for (int i = 0; i < 3; i++) score += strstr(r.err, parts[i]) != NULL;
        bool good = score == 3 && r.code == 0 && strstr(r.err, "neuralsim: warning: ");
        if (!good) print_error("%u: %d of 3, exit code %d: %s\n", k, score, r.code, r.err);
        missed += !good;
        program_result_free(&r);
    }
    assert_int_equal(missed, 0);

    // Good data: not a word.
    tempdir_write("d.yaml", map);
    tempdir_write("f.yaml", MODEL TRAIN("recording.csv") MASS);
    program_result r = program_run(tempdir(), "fit f.yaml --check");
    assert_string_equal(r.err, "");
    program_result_free(&r);
}

// On the terminal, on the page and in result.json, by every command that reads recordings.
static void warnings_are_everywhere(void** state) {
    (void)state;
    static const char said[] = "deg.csv: joint/hinge/position: it seems to be in degrees";
    write_data_mistakes();
    write_changed("d.yaml", map, "hinge, sigma", "hinge_deg, sigma");
    tempdir_write("f.yaml", MODEL TRAIN("deg.csv") MASS "train: {iterations: 1}\n");
    program_result r = program_run(tempdir(), "fit f.yaml -o warned");
    assert_says(r.err, said);
    assert_says(r.out, "\nData\n");
    program_result_free(&r);
    char *page = tempdir_read("warned/report.html"), *record = tempdir_read("warned/result.json");
    assert_says(page, "it seems to be in degrees");
    assert_says(record, "\"data_warnings\": [\"");
    free(page);
    free(record);
    run_ok("plot warned");
    run_ok("score model.xml --data deg.csv --map d.yaml --horizon 5");
    assert_says(last.err, said);
    run_ok("score model.xml --data deg.csv --map d.yaml --horizon 5 --json");
    assert_says(last.out, "\"data_warnings\": [");
    assert_says(last.out, said);
    run_ok("data deg.csv --map d.yaml --model model.xml");
    assert_says(last.out, said);
}

// ---- fits that fail ------------------------------------------------------------------------------

// Mass alone cannot explain what was recorded, without damping and with another inertia.
static void a_failed_fit_says_so_first(void** state) {
    (void)state;
    program_result r = program_run(tempdir(), "fit fit.yaml -o failed");
    assert_int_equal(r.code, 4);
    assert_int_equal(strncmp(r.out, "PROBLEM: The fit failed: residuals are ", 39), 0);
    assert_non_null(strstr(r.out, "Most likely: (1)"));
    assert_null(strstr(r.out, " ok\n"));
    program_result_free(&r);
    char *page = tempdir_read("failed/report.html"), *record = tempdir_read("failed/result.json");
    const char* headline = strstr(page, "The fit failed: residuals are ");
    assert_true(headline && headline < strstr(page, "<h1>"));
    assert_non_null(strstr(record, "\"failure\": \"The fit failed: residuals are "));
    free(page);
    free(record);
}

// ---- names by joint ------------------------------------------------------------------------------

static void names_by_joint_are_taken_everywhere(void** state) {
    (void)state;
    tempdir_write("names.yaml", "time: t\ntrajectory: traj\nobserve:\n"
                                "  q_slide: {value: slide, sigma: 0.001}\n"
                                "  q_hinge: {value: hinge, sigma: 0.002}\n"
                                "control: {tau_slide: push}\n");
    tempdir_write("net.yaml", "networks:\n  - name: n\n    inputs: [q_hinge, qd_slide]\n"
                              "    outputs: tau_hinge\n    hidden: [2]\n");
    static const char rest[] = "parameters: {link/pole/mass: free, link/pole/inertia/yy: free,"
                               " \"joint/*/damping\": {initial: 0.1, lower: 0}}\n";
    char text[600];
    snprintf(text, sizeof text, MODEL "data: {map: %s, train: [recording.csv]}\n%s", "names.yaml",
             rest);
    tempdir_write("by_joint.yaml", text);
    snprintf(text, sizeof text, MODEL "data: {map: %s, train: [recording.csv]}\n%s", "map.yaml",
             rest);
    tempdir_write("by_path.yaml", text);

    // The same fit, whatever the channels are called.
    run_ok("fit by_joint.yaml -o by_joint");
    run_ok("fit by_path.yaml -o by_path");
    char *joint = tempdir_read("by_joint/fitted.yaml"), *path = tempdir_read("by_path/fitted.yaml");
    assert_true(strlen(joint) > 50);
    assert_string_equal(joint, path);
    free(joint);
    free(path);

    // In blueprints and options.
    run_ok("simulate model.xml --steps 2 --blueprint net.yaml --observe tau_hinge q_slide");
    assert_says(last.out, "joint/hinge/tau,joint/slide/position");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_score_three_of_three),
        cmocka_unit_test(data_mistakes_score_three_of_three),
        cmocka_unit_test(warnings_are_everywhere),
        cmocka_unit_test(a_failed_fit_says_so_first),
        cmocka_unit_test(names_by_joint_are_taken_everywhere),
    };
    return cmocka_run_group_tests(tests, write_files, NULL);
}
