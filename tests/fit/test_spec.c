// Experiment files: what is wrong with one is said before any work, with file and line.

#define _POSIX_C_SOURCE 200809L

#include "fit/fit_state.h"
#include "fit/spec_rig.h"
#include "support/assert.h"
#include "support/experiment.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- whole files -------------------------------------------------------------------------------

typedef struct bad {
    const char* text;
    ns_status status;
    const char* place; // how the message begins, after the folder
    const char* says;
} bad;

#define DATA "data: {train: [a.csv]}\n"

static const bad bads[] = {
    // The file.
    {"", NS_ERR_PARSE, "fit.yaml:1:1:", "this is nothing"},
    {"- a\n", NS_ERR_PARSE, "fit.yaml:1:1:", "this is a list"},
    {MODEL DATA "masses: {}\n", NS_ERR_PARSE, "fit.yaml:3:1:", "masses"},
    {"modle: a\n", NS_ERR_PARSE, "fit.yaml:1:1:", "did you mean \"model\"?"},
    {MODEL MODEL, NS_ERR_PARSE, "fit.yaml:2:1:", "model"},
    {"model: [a\n", NS_ERR_PARSE, "fit.yaml:2:1:", ""},
    {MODEL DATA MASS "seed: -1\n", NS_ERR_PARSE, "fit.yaml:4:7:", "seed"},
    {MODEL DATA MASS "seed: soon\n", NS_ERR_PARSE, "fit.yaml:4:7:", "seed"},

    // The model.
    {DATA MASS, NS_ERR_PARSE, "fit.yaml:1:1:", "`model` is missing"},
    {"model: none.urdf\n" DATA MASS, NS_ERR_IO, "fit.yaml:1:8:", "there is no file"},
    {"model: bad.urdf\n" DATA MASS, NS_ERR_PARSE, "bad.urdf:3:", ""},
    {"model: [a.urdf]\n" DATA MASS, NS_ERR_PARSE, "fit.yaml:1:8:", "model"},
    {MODEL DATA MASS "blueprint: none.yaml\n", NS_ERR_IO, "fit.yaml:4:12:", "there is no file"},
    {MODEL DATA MASS "blueprint: bad_net.yaml\n", NS_ERR_ARGUMENT,
     "bad_net.yaml:3:", "joint/*/speed"},
    {MODEL DATA MASS "weights: w.json\n", NS_ERR_PARSE, "fit.yaml:4:10:", "need a blueprint"},
    {MODEL DATA MASS "blueprint: net.yaml\nweights: w.json\n", NS_ERR_IO,
     "fit.yaml:5:10:", "there is no file"},
    {MODEL DATA MASS "contact: soft\n", NS_ERR_PARSE, "fit.yaml:4:10:", "spring"},
    {MODEL DATA MASS "integrator: heun\n", NS_ERR_PARSE, "fit.yaml:4:13:", "rk4"},
    {MODEL DATA MASS "ground: maybe\n", NS_ERR_PARSE, "fit.yaml:4:9:", "true"},
    {MODEL DATA MASS "timestep: 0\n", NS_ERR_PARSE, "fit.yaml:4:11:", "timestep"},
    {MODEL DATA MASS "timestep: 0.003\n", NS_ERR_PARSE,
     "fit.yaml:4:11:", "no multiple of the time step of 0.003 s"},
    {MODEL DATA MASS "timestep: 0.02\n", NS_ERR_PARSE, "fit.yaml:4:11:", "no multiple"},

    // The data.
    {MODEL MASS, NS_ERR_PARSE, "fit.yaml:1:1:", "`data` is missing"},
    {MODEL "data: a.csv\n" MASS, NS_ERR_PARSE, "fit.yaml:2:7:", "data"},
    {MODEL "data: {}\n" MASS, NS_ERR_PARSE, "fit.yaml:2:7:", "nothing to train on"},
    {MODEL "data: {train: []}\n" MASS, NS_ERR_PARSE, "fit.yaml:2:7:", "nothing to train on"},
    {MODEL "data: {train: a.csv}\n" MASS, NS_ERR_PARSE, "fit.yaml:2:15:", "a list of files"},
    {MODEL "data: {train: [none.csv]}\n" MASS, NS_ERR_IO, "fit.yaml:2:16:", "there is no"},
    {MODEL "data: {train: [a.csv], test: [a.csv, none.csv]}\n" MASS, NS_ERR_IO,
     "fit.yaml:2:38:", "there is no"},
    {MODEL "data: {train: [{to: 7}]}\n" MASS, NS_ERR_PARSE, "fit.yaml:2:16:", "is missing"},
    {MODEL "data: {train: [{file: a.csv, until: 7}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:30:", "until"},
    {MODEL "data: {train: [{file: a.csv, to: 150%}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:34:", "between 0% and 100%"},
    {MODEL "data: {train: [{file: a.csv, from: 0.1, to: 70%}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:36:", "both be seconds or both be shares"},
    {MODEL "data: {train: [{file: a.csv, from: 10%, to: 0.1}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:36:", "both be seconds or both be shares"},
    {MODEL "data: {train: [{file: a.csv, trajectories: 3-1}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:44:", "numbers of trajectories"},
    {MODEL "data: {train: [{file: a.csv, trajectories: 7}]}\n" MASS, NS_ERR_PARSE,
     "a.csv:", "no samples remain"},
    {MODEL "data: {train: [{file: a.csv, from: 3, to: 4}]}\n" MASS, NS_ERR_PARSE,
     "a.csv:", "no samples remain"},
    {MODEL "data: {train: [{file: a.csv, from: 60%, to: 50%}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:45:", "to must be later than from"},
    {MODEL "data: {train: [header.csv]}\n" MASS, NS_ERR_PARSE, "header.csv:", ""},
    {MODEL "data: {train: [nan.csv]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:7:", "nothing to compare with"},
    {MODEL "data: {train: [back.csv]}\n" MASS, NS_ERR_PARSE, "back.csv:4:", "t"},
    {MODEL "data: {train: [text.csv]}\n" MASS, NS_ERR_PARSE, "text.csv:3:", "two"},
    {MODEL "data: {train: [ragged.csv]}\n" MASS, NS_ERR_PARSE, "ragged.csv:3:", ""},
    {MODEL "data: {train: [strange.csv]}\n" MASS, NS_ERR_PARSE, "strange.csv:1:", "height"},
    {MODEL "data: {train: [gap.csv]}\n" MASS, NS_ERR_PARSE, "gap.csv:3:", "tau0"},
    {MODEL "data: {train: [a.csv], map: none.yaml}\n" MASS, NS_ERR_IO,
     "fit.yaml:2:29:", "there is no file"},
    {MODEL "data: {train: [a.csv], map: pose.yaml}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:7:", "did you mean \"link/link1/pose/x"},
    {MODEL "data: {train: [a.csv], map: motor.yaml}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:7:", "a control \"tau7\""},
    {MODEL "data: {train: [a.csv], map: noise.yaml}\n" MASS, NS_ERR_PARSE,
     "noise.yaml:3:", "not negative"},
    {MODEL "data: {train: [a.csv], map: formula.yaml}\n" MASS, NS_ERR_PARSE, "formula.yaml:3:", ""},
    {MODEL "data: {train: [a.csv], map: column.yaml}\n" MASS, NS_ERR_PARSE, "", "q7"},
    {MODEL "data: {train: [a.csv], map: unweighted.yaml}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:7:", "nothing to compare with"},
    {MODEL "data: {train: [a.csv], period: 0}\n" MASS, NS_ERR_PARSE, "fit.yaml:2:32:", "period"},

    // Parameters.
    {MODEL DATA, NS_ERR_PARSE, "fit.yaml:1:1:", "there is nothing to fit"},
    {MODEL DATA "parameters: {}\n", NS_ERR_PARSE, "fit.yaml:1:1:", "there is nothing to fit"},
    {MODEL DATA "parameters: [link/link1/mass]\n", NS_ERR_PARSE, "fit.yaml:3:13:", "map of names"},
    {MODEL DATA "parameters: {link/link1/mas: free}\n", NS_ERR_PARSE,
     "fit.yaml:3:14:", "did you mean \"link/link1/mass\"?"},
    {MODEL DATA "parameters: {length: free}\n", NS_ERR_PARSE,
     "fit.yaml:3:14:", "needs an initial value"},
    {MODEL DATA "parameters: {link/link1/mass: heavy}\n", NS_ERR_PARSE,
     "fit.yaml:3:31:", "link/link1/mass: \"heavy\" is neither `free` nor a number"},
    {MODEL DATA "parameters: {link/link1/mass: {begin: 1}}\n", NS_ERR_PARSE,
     "fit.yaml:3:32:", "begin"},
    {MODEL DATA "parameters: {link/link1/mass: {initial: 5, upper: 2}}\n", NS_ERR_PARSE,
     "fit.yaml:3:14:", "the initial value 5 is not between 0 and 2"},
    {MODEL DATA "parameters: {link/link1/mass: .nan}\n", NS_ERR_PARSE, "fit.yaml:3:31:", ""},
    {MODEL DATA "parameters: {a: 1}\nset: {link/link1/inertia/yy: -a}\n", NS_ERR_PARSE,
     "fit.yaml:3:13:", "link1 is not physical"},
    {MODEL DATA "parameters: {a: 1}\nset: {link/link1/mass: a +}\n", NS_ERR_PARSE,
     "fit.yaml:4:24:", "formula"},
    {MODEL DATA "parameters: {a: 1}\nset: {link/link1/mass: a - 1 / 0}\n", NS_ERR_PARSE,
     "fit.yaml:3:13:", "not physical"},
    {MODEL DATA "parameters: {a: 1}\nset: [a]\n", NS_ERR_PARSE, "fit.yaml:4:6:", "map"},

    // Predictions.
    {MODEL DATA MASS "predict: {horizons: [0.1, 50]}\n", NS_ERR_PARSE,
     "fit.yaml:4:10:", "a horizon of 50 s is longer than every recording allows"},

    // Stages.
    {MODEL DATA MASS "train: {windows: 10}\n", NS_ERR_PARSE,
     "fit.yaml:4:9:", "did you mean \"window\"?"},
    {MODEL DATA MASS "train: {window: 0}\n", NS_ERR_PARSE, "fit.yaml:4:17:", ""},
    {MODEL DATA MASS "train: {window: []}\n", NS_ERR_PARSE, "fit.yaml:4:17:", "lengths of windows"},
    {MODEL DATA MASS "train: {window: 21}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "longer than every recording (21 samples"},
    {MODEL DATA MASS "stages:\n  - {window: 10}\n  - {window: 30}\n", NS_ERR_PARSE,
     "fit.yaml:6:5:", "longer than every recording"},
    {MODEL DATA MASS "stages: {window: 10}\n", NS_ERR_PARSE, "fit.yaml:4:9:", "list of stages"},
    {MODEL DATA MASS "train: {window: [5, 10]}\nstages: [{}]\n", NS_ERR_PARSE,
     "fit.yaml:4:17:", "its own length"},
    {MODEL DATA MASS "train: {method: newton}\n", NS_ERR_PARSE, "fit.yaml:4:17:", "lbfgs"},
    {MODEL DATA MASS "train: {initial_state: given}\n", NS_ERR_PARSE, "fit.yaml:4:24:", "recorded"},
    {MODEL DATA MASS "train: {huber: 1, cauchy: 1}\n", NS_ERR_PARSE, "fit.yaml:4:27:", "not both"},
    {MODEL DATA MASS "train: {huber: 0}\n", NS_ERR_PARSE, "fit.yaml:4:16:", "huber"},
    {MODEL DATA MASS "train: {l1: 0.1, method: lbfgs}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "needs method lm, owlqn or proximal"},
    {MODEL DATA MASS "train: {group: 0.1, method: adam}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "needs method"},
    {MODEL DATA MASS "train: {adaptive: true, method: owlqn}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "adaptive needs method lm or proximal"},
    {MODEL DATA MASS "train: {adaptive: true, group: 0.1}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "just before it"},
    {MODEL DATA MASS "stages:\n  - {group: 0.1}\n  - {}\n  - {adaptive: true}\n", NS_ERR_PARSE,
     "fit.yaml:7:5:", "just before it"},
    {MODEL DATA MASS
     "stages:\n  - {group: 0.1}\n  - {adaptive: true}\nsearch: {method: basin_hopping}\n",
     NS_ERR_PARSE, "fit.yaml:7:9:", "many initial points"},
    {MODEL DATA MASS "train: {group: 0.1, method: owlqn}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "group needs method lm or proximal"},
    {MODEL DATA MASS "train: {optimise: weights}\n", NS_ERR_PARSE, "fit.yaml:4:8:", "no weights"},
    {MODEL DATA "blueprint: net.yaml\ntrain: {optimise: parameters}\n", NS_ERR_PARSE,
     "fit.yaml:4:8:", "no parameters"},
    {MODEL DATA MASS "train: {method: adam, batch: 4}\n", NS_ERR_UNSUPPORTED,
     "fit.yaml:4:8:", "initial_state: recorded"},
    {"model: ball.xml\ndata: {train: [ball.csv]}\nparameters: {link/b/mass: 1}\ntimestep: 0.01\n"
     "train: {method: lbfgs}\n",
     NS_ERR_UNSUPPORTED, "fit.yaml:5:8:", "need method lm"},

    // Searches and predictions.
    {MODEL DATA MASS "search: {method: genetic}\n", NS_ERR_PARSE,
     "fit.yaml:4:18:", "basin_hopping"},
    {MODEL DATA MASS "search: {population: 0}\n", NS_ERR_PARSE, "fit.yaml:4:22:", "population"},
    {MODEL DATA MASS "search: {}\n", NS_ERR_PARSE,
     "fit.yaml:4:9:", "give lower and upper for link/link1/mass"},
    {MODEL DATA "blueprint: net.yaml\nsearch: {}\n", NS_ERR_PARSE,
     "fit.yaml:4:9:", "needs `parameters`"},
    {MODEL DATA MASS "predict: {horizons: 1}\n", NS_ERR_PARSE, "fit.yaml:4:21:", "write a list"},
    {MODEL DATA MASS "predict: {horizons: [1, 1]}\n", NS_ERR_PARSE, "fit.yaml:4:25:", "must grow"},
    {MODEL DATA MASS "predict: {history: 21}\n", NS_ERR_PARSE,
     "fit.yaml:4:10:", "to predict after the first 21"},
    {MODEL "data: {train: [a.csv], test: [{file: a.csv, to: 0.03}]}\n" MASS
           "predict: {history: 5}\n",
     NS_ERR_PARSE, "fit.yaml:4:10:", "to predict after the first 5"},
    {MODEL "data: {train: [a.csv], test: [{file: a.csv, to: 0.005}]}\n" MASS, NS_ERR_PARSE,
     "fit.yaml:2:31:", "no recording has a sample to predict"},
};

// The message without the folder; it must begin with a file and a line.
static const char* without_folder(const char* message) {
    size_t size = strlen(tempdir());
    return strncmp(message, tempdir(), size) == 0 ? message + size + 1 : message;
}

static void every_fault_has_a_place(void** state) {
    (void)state;
    uint32_t wrong = 0;
    for (size_t k = 0; k < sizeof bads / sizeof *bads; k++) {
        const bad* b = &bads[k];
        experiment_write("fit.yaml", "%s", b->text);
        ns_fit* fit = NULL;
        ns_error error = {0};
        ns_status status = ns_fit_load(tempdir_path("fit.yaml"), 1, &fit, &error);
        const char* message = without_folder(error.message);
        char file[100];
        unsigned line = 0;
        bool placed = sscanf(message, "%99[^:]:%u", file, &line) == 2 && line > 0;
        if (status != b->status || fit || !placed || strncmp(message, b->place, strlen(b->place)) ||
            !strstr(message, b->says)) {
            print_error("%zu. status %d, not %d\n%s'%s'\n   not '%s ... %s'\n", k, status,
                        b->status, b->text, message, b->place, b->says);
            wrong++;
        }
        ns_fit_free(fit);
    }
    assert_int_equal(wrong, 0);
}

// The file itself is not there, or a folder.
static void missing_specs_are_said_to_be_missing(void** state) {
    (void)state;
    ns_fit* fit = NULL;
    ns_error error = {0};
    assert_int_equal(ns_fit_load("/none/fit.yaml", 1, &fit, &error), NS_ERR_IO);
    assert_non_null(strstr(error.message, "/none/fit.yaml"));
    assert_int_equal(ns_fit_load(tempdir(), 1, &fit, &error), NS_ERR_IO);
    assert_int_equal(ns_fit_load(NULL, 1, &fit, &error), NS_ERR_ARGUMENT);
    assert_null(fit);
}

// ---- what a spec says --------------------------------------------------------------------------

static nsi_fit_spec* parse(const char* text) {
    nsi_fit_spec* spec = NULL;
    ns_error error = {0};
    must(nsi_fit_spec_parse(text, strlen(text), "/f/fit.yaml", NULL, &spec, &error), &error);
    return spec;
}

static void plans_say_what_was_written(void** state) {
    (void)state;
    nsi_fit_spec* p =
        parse("title: A pendulum\n"
              "model: a.urdf\n"
              "timestep: 0.002\n"
              "contact: spring\n"
              "data:\n"
              "  folder: runs\n"
              "  period: 0.01\n"
              "  train: [a.csv, {file: b.csv, from: 10%, to: 60%}]\n"
              "  test: [{file: c.csv, trajectories: 2-5, to: 3}]\n"
              "parameters:\n"
              "  link/*/mass: {initial: 1, lower: 0.5, upper: 2, scale: 0.1, prior_sigma: 3}\n"
              "  joint/a/damping: free\n"
              "  length: 0.7\n"
              "set:\n"
              "  link/a/com/z: -length / 2\n"
              "train: {initial_state: tied, continuity_weight: 4, huber: 2, weight_decay: 0.1}\n"
              "stages:\n"
              "  - {window: one, max_windows: 50, overlap: true}\n"
              "  - {window: 25, method: adam, learning_rate: 0.1, batch: 8, clip_norm: 2}\n"
              "  - {window: whole, initial_state: recorded, cauchy: 3, optimise: parameters}\n"
              "search: {method: restart, population: 3, target: 0.5}\n"
              "predict: {history: 9, origins: 12, horizons: [0.25, 1]}\n"
              "seed: 42\n");
    assert_string_equal(p->title, "A pendulum");
    assert_true(p->timestep == 0.002 && p->contact == NS_CONTACT_SPRING && p->integrator == -1);
    assert_true(p->period == 0.01 && p->seed == 42);
    assert_int_equal(p->files[NS_ROLE_TRAIN].count, 2);
    assert_int_equal(p->files[NS_ROLE_VALIDATION].count, 0);
    const ns_data_part* part = &p->files[NS_ROLE_TRAIN].data[1].part;
    assert_true(part->fractions && fabs(part->from - 0.1) < 1e-15 && fabs(part->to - 0.6) < 1e-15);
    assert_true(part->all_trajectories);
    part = &p->files[NS_ROLE_TEST].data[0].part;
    assert_true(!part->fractions && part->to == 3.0 && !part->all_trajectories);
    assert_true(part->first_trajectory == 2.0 && part->last_trajectory == 5.0);
    assert_int_equal(p->parameters.count, 3);
    assert_true(p->parameters.data[0].how.prior_sigma == 3.0);
    assert_true(isnan(p->parameters.data[1].how.initial));
    assert_true(p->parameters.data[2].how.initial == 0.7);
    assert_string_equal(p->settings.data[0].formula, "-length / 2");
    assert_int_equal(p->stages.count, 3);
    const nsi_stage* s = p->stages.data;
    assert_true(s[0].windows.length == 1 && s[0].windows.max_windows == 50 && s[0].windows.overlap);
    assert_true(s[0].windows.initial_state == NS_INITIAL_STATE_TIED &&
                s[0].windows.continuity_weight == 4.0);
    assert_true(s[0].windows.robust == NS_ROBUST_HUBER && s[0].windows.robust_width == 2.0);
    assert_true(s[1].windows.length == 25 && strcmp(s[1].solver->name, "adam") == 0 &&
                s[1].learning_rate == 0.1);
    assert_true(s[1].batch == 8 && s[1].clip_norm == 2.0 && s[1].windows.weight_decay == 0.1);
    assert_true(s[2].windows.length == 0 &&
                s[2].windows.initial_state == NS_INITIAL_STATE_RECORDED);
    assert_true(s[2].windows.robust == NS_ROBUST_CAUCHY && s[2].windows.robust_width == 3.0);
    assert_true(nsi_optimises_parameters(s[2].windows.optimise) &&
                !nsi_optimises_weights(s[2].windows.optimise));
    assert_true(strcmp(p->search.solver->name, "restart") == 0 && p->search.target == 0.5);
    assert_true(p->history == 9 && p->origins == 12 && p->horizons.count == 2);
    assert_string_equal(nsi_fit_spec_path(p, "a.urdf"), "/f/a.urdf");
    assert_string_equal(nsi_fit_spec_path(p, "/b/a.urdf"), "/b/a.urdf");
    nsi_fit_spec_free(p);
}

static void what_is_left_out_has_defaults(void** state) {
    (void)state;
    nsi_fit_spec* p = parse("model: a.urdf\ndata: {train: [a.csv]}\n");
    assert_int_equal(p->stages.count, 1);
    const nsi_stage* s = p->stages.data;
    assert_true(s->windows.length == 0 && s->windows.initial_state == NS_INITIAL_STATE_FREE);
    assert_true(strcmp(s->solver->name, "lm") == 0 &&
                nsi_optimises_parameters(s->windows.optimise) &&
                nsi_optimises_weights(s->windows.optimise));
    assert_true(!p->search.solver && p->seed == 1 && p->timestep == 0.0);
    nsi_fit_spec_free(p);
}

static void memory_may_run_out(void** state) {
    (void)state;
    static const char text[] =
        "model: a.urdf\n"
        "data: {train: [a.csv, {file: b.csv, to: 50%}], test: [c.csv]}\n"
        "parameters: {link/a/mass: {initial: 1}, a: 2}\nset: {link/b/mass: 2 * a}\n"
        "stages: [{window: 5}, {window: 10}]\npredict: {horizons: [1, 2]}\n";
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        nsi_fit_spec* spec = NULL;
        ns_error error = {0};
        ns_status status =
            nsi_fit_spec_parse(text, strlen(text), "fit.yaml", &allocator, &spec, &error);
        assert_int_equal(status, counter.calls < n ? NS_OK : NS_ERR_NOMEM);
        nsi_fit_spec_free(spec);
        assert_int_equal(counter.live_blocks, 0);
        if (status == NS_OK) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_fault_has_a_place),
        cmocka_unit_test(missing_specs_are_said_to_be_missing),
        cmocka_unit_test(plans_say_what_was_written),
        cmocka_unit_test(what_is_left_out_has_defaults),
        cmocka_unit_test(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, write_files, NULL);
}
