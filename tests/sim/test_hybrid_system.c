// Hybrid models from files: what a file gives reaches the step, weights come back bit for bit, and what
// does not fit gets a message.

#define _XOPEN_SOURCE 700

#include "neuralsim/hybrid.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROBOT NEURALSIM_SOURCE_DIR "/models/double_pendulum.urdf"

static const char blueprint[] = "networks:\n"
                                "  - name: friction\n"
                                "    each: joint/*\n"
                                "    weights: separate\n"
                                "    inputs: \"{}/velocity\"\n"
                                "    outputs: \"{}/tau\"\n"
                                "    hidden: [3]\n";

static ns_hybrid* load(const char* path) {
    ns_hybrid* hybrid = NULL;
    ns_error error;
    must(ns_hybrid_load(path, NULL, &hybrid, &error), &error);
    return hybrid;
}

static ns_system* system_of(const ns_hybrid* hybrid, const ns_system_options* options) {
    ns_system* system = NULL;
    ns_error error;
    must(ns_system_create(ns_hybrid_model(hybrid), options, &system, &error), &error);
    return system;
}

static void a_robot_alone_changes_nothing(void** state) {
    (void)state;
    ns_hybrid* hybrid = load(ROBOT);
    assert_non_null(ns_hybrid_model(hybrid));
    assert_null(ns_hybrid_blueprint(hybrid));
    ns_param_value set = {"link/link1/mass", 2.0};
    ns_system_options options = ns_default_system_options();
    options.set = &set;
    options.nset = 1;
    options.contact = NS_CONTACT_SPRING;
    options.timestep = 0.25;
    ns_hybrid_apply(hybrid, &options);
    assert_ptr_equal(options.set, &set);
    assert_int_equal(options.nset, 1);
    assert_null(options.blueprint);
    assert_int_equal(options.contact, NS_CONTACT_SPRING);
    assert_true(options.timestep == 0.25);
    ns_hybrid_free(hybrid);
    ns_hybrid_free(NULL);
}

static void what_a_file_gives_reaches_the_step(void** state) {
    (void)state;
    tempdir_write("b.yaml", blueprint);
    ns_hybrid* hybrid = load(tempdir_write("h.yaml", "robot: " ROBOT "\n"
                                                     "parameters: {\"link/*/mass\": 2.5}\n"
                                                     "contact: spring\n"
                                                     "timestep: 0.002\n"
                                                     "blueprint: b.yaml\n"
                                                     "ground: true\n"));
    assert_int_equal(ns_model_get_sizes(ns_hybrid_model(hybrid)).ncontact, 2);
    assert_int_equal(ns_blueprint_network_count(ns_hybrid_blueprint(hybrid)), 1);
    const char* free_params[] = {"link/*/mass"};
    const char* observe[] = {"net"};
    ns_system_options options = ns_default_system_options();
    options.free_params = free_params;
    options.observe = observe;
    options.nfree = options.nobserve = 1;
    ns_hybrid_apply(hybrid, &options);
    assert_int_equal(options.contact, NS_CONTACT_SPRING);
    ns_system* system = system_of(hybrid, &options);
    ns_system_sizes z = ns_system_get_sizes(system);
    assert_true(z.timestep == 0.002);
    assert_int_equal(z.nw, 2 * (2 * 3 + 4));
    assert_int_equal(z.ny, 2);
    double masses[2];
    ns_system_default_params(system, masses);
    assert_true(masses[0] == 2.5 && masses[1] == 2.5);
    ns_system_free(system);
    ns_hybrid_free(hybrid);
}

// Weights of the system of a hybrid model, to be freed.
static double* weights_of(const char* path, uint32_t* count) {
    ns_hybrid* hybrid = load(path);
    ns_system_options options = ns_default_system_options();
    ns_hybrid_apply(hybrid, &options);
    ns_system* system = system_of(hybrid, &options);
    *count = ns_system_get_sizes(system).nw;
    double* weights = malloc((*count + 1) * sizeof *weights);
    ns_system_default_weights(system, weights);
    ns_system_free(system);
    ns_hybrid_free(hybrid);
    return weights;
}

static void saved_weights_come_back(void** state) {
    (void)state;
    tempdir_write("b.yaml", blueprint);
    static const char* const files[] = {"w.safetensors", "w.json"};
    for (int k = 0; k < 2; k++) {
        ns_hybrid* hybrid = load(tempdir_write("h.yaml", "robot: " ROBOT "\nblueprint: b.yaml\n"));
        ns_system_options options = ns_default_system_options();
        ns_hybrid_apply(hybrid, &options);
        ns_system* system = system_of(hybrid, &options);
        double weights[20];
        for (int i = 0; i < 20; i++) weights[i] = 1.0 / (3.0 + i) - 0.1;
        ns_error error;
        assert_int_equal(ns_system_save_weights(system, weights, tempdir_path(files[k]), &error),
                         NS_OK);

        char text[400];
        snprintf(text, sizeof text, "robot: " ROBOT "\nblueprint: b.yaml\nweights: %s\n", files[k]);
        uint32_t count = 0;
        double* back = weights_of(tempdir_write("w.yaml", text), &count);
        assert_int_equal(count, 20);
        assert_memory_equal(back, weights, sizeof weights);
        free(back);

        double again[20] = {0};
        assert_int_equal(ns_system_load_weights(system, tempdir_path(files[k]), again, &error),
                         NS_OK);
        assert_memory_equal(again, weights, sizeof weights);

        // NULL: the initial ones
        assert_int_equal(ns_system_save_weights(system, NULL, tempdir_path(files[k]), &error),
                         NS_OK);
        back = weights_of(tempdir_path("w.yaml"), &count);
        ns_system_default_weights(system, weights);
        assert_memory_equal(back, weights, sizeof weights);
        free(back);

        assert_int_equal(ns_system_save_weights(system, NULL, "/nowhere/w.json", &error),
                         NS_ERR_IO);
        assert_int_equal(ns_system_save_weights(system, NULL, NULL, NULL), NS_ERR_ARGUMENT);
        const char* wrong = tempdir_write("wrong.json", "{\"n/w0\": [[1, 2]]}");
        assert_int_equal(ns_system_load_weights(system, wrong, again, &error), NS_ERR_ARGUMENT);
        assert_non_null(strstr(error.message, "wrong.json"));
        weights[0] = 1.0 / (weights[0] - weights[0]);
        assert_int_equal(ns_system_save_weights(system, weights, tempdir_path(files[k]), &error),
                         NS_ERR_NONFINITE);
        assert_non_null(strstr(error.message, "friction/joint/joint0/w0"));
        ns_system_free(system);
        ns_hybrid_free(hybrid);
    }
}

static void a_system_without_networks_has_no_weights_to_save(void** state) {
    (void)state;
    ns_hybrid* hybrid = load(ROBOT);
    ns_system* system = system_of(hybrid, NULL);
    ns_error error;
    assert_int_equal(ns_system_save_weights(system, NULL, tempdir_path("none.json"), &error),
                     NS_ERR_ARGUMENT);
    assert_non_null(strstr(error.message, "no networks"));
    ns_system_free(system);
    ns_hybrid_free(hybrid);
}

static void what_is_wrong_gets_a_message(void** state) {
    (void)state;
    tempdir_write("b.yaml", blueprint);
    tempdir_write("bad.yaml", "networks: 3\n");
    tempdir_write("bad.json", "{\"friction/w0\": [[1, 2], [3]]}");
    static const struct {
        const char* text;
        ns_status status;
        const char* message;
    } cases[] = {
        {"robot: none.urdf\n", NS_ERR_IO, "none.urdf"},
        {"robot: " ROBOT "\nblueprint: none.yaml\n", NS_ERR_IO, "none.yaml"},
        {"robot: " ROBOT "\nblueprint: bad.yaml\n", NS_ERR_PARSE, "bad.yaml:1:"},
        {"robot: " ROBOT "\nblueprint: b.yaml\nweights: none.json\n", NS_ERR_IO, "none.json"},
        {"robot: " ROBOT "\nblueprint: b.yaml\nweights: bad.json\n", NS_ERR_PARSE, "bad.json"},
        {"robots: " ROBOT "\n", NS_ERR_PARSE, "did you mean \"robot\"?"},
        {"robot: " ROBOT "\nparameters:\n  link/link1/mass: 1\n  \"link/link1/mas\": 1\n",
         NS_ERR_PARSE,
         "h.yaml:4:3: parameters: no parameter of the model matches"
         " \"link/link1/mas\"; did you mean \"link/link1/mass\"?"},
        {"robot: " ROBOT "\nparameters: {\"link/*/mass\": -1}\n", NS_ERR_PARSE,
         "h.yaml:2:14: parameters: link/link0/mass cannot be -1: it lies in 0 to inf"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        ns_hybrid* hybrid = NULL;
        ns_error error;
        ns_status status =
            ns_hybrid_load(tempdir_write("h.yaml", cases[k].text), NULL, &hybrid, &error);
        if (status != cases[k].status || !strstr(error.message, cases[k].message)) {
            fail_msg("case %zu: %d, %s", k, status, error.message);
        }
        assert_null(hybrid);
    }
    ns_hybrid* hybrid = NULL;
    assert_int_equal(ns_hybrid_load(NULL, NULL, &hybrid, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_hybrid_load("none.yaml", NULL, NULL, NULL), NS_ERR_ARGUMENT);
}

// A parameter that the chosen variant lacks must be right for one that has it.
static void parameters_of_other_variants_are_checked(void** state) {
    (void)state;
    static const char two[] = "variants:\n"
                              "  - {name: a, files: \"a*\", robot: " ROBOT "}\n"
                              "  - {name: b, files: \"b*\", robot: %s}\n"
                              "parameters: {link/bb/mass: %d}\n";
    static const struct {
        const char* robot;
        int mass;
        ns_status status;
        const char* says;
    } cases[] = {
        {"bb.xml", 5, NS_OK, ""},
        {"bb.xml", -5, NS_ERR_PARSE, "two.yaml:4:14: parameters: "},
        {"none.xml", 5, NS_ERR_IO, "two.yaml:4:14: looking for link/bb/mass in variant b: "}};
    tempdir_write("bb.xml", "<mujoco><worldbody><body name='bb'><joint/><geom size='0.1'/></body>"
                            "</worldbody></mujoco>\n");
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[600];
        ns_hybrid* hybrid = NULL;
        ns_error error = {0};
        ns_load_options options = ns_default_load_options();
        options.variant = "a";
        snprintf(text, sizeof text, two, cases[k].robot, cases[k].mass);
        ns_status status =
            ns_hybrid_load(tempdir_write("two.yaml", text), &options, &hybrid, &error);
        if (!strstr(error.message, cases[k].says)) fail_msg("%s", error.message);
        assert_int_equal(status, cases[k].status);
        ns_hybrid_free(hybrid);
    }
}

// What does not fit the robot is found when a system is made.
static void what_does_not_fit_is_found_by_the_system(void** state) {
    (void)state;
    tempdir_write("b.yaml", blueprint);
    tempdir_write("two.json", "{\"friction/joint/joint0/w0\": [[1, 2]]}");
    tempdir_write("slip.json", "{\"friction/joint/joint/w0\": [[1, 2]]}");
    static const char* const cases[][2] = {
        {"blueprint: b.yaml\nweights: two.json\n",
         "two.json: set \"friction/joint/joint0\": the loaded tensor"
         " \"friction/joint/joint0/w0\" is 1 x 2"},
        {"blueprint: b.yaml\nweights: slip.json\n",
         "slip.json: set \"friction/joint/joint0\": the tensor \"friction/joint/joint0/w0\""
         " (2 x 3) is missing from the loaded weights; nearest: friction/joint/joint/w0"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[400];
        snprintf(text, sizeof text, "robot: " ROBOT "\n%s", cases[k][0]);
        ns_hybrid* hybrid = load(tempdir_write("h.yaml", text));
        ns_system_options options = ns_default_system_options();
        ns_hybrid_apply(hybrid, &options);
        ns_system* system = NULL;
        ns_error error;
        assert_int_equal(ns_system_create(ns_hybrid_model(hybrid), &options, &system, &error),
                         NS_ERR_ARGUMENT);
        if (!strstr(error.message, cases[k][1])) fail_msg("%s", error.message);
        ns_hybrid_free(hybrid);
    }
}

static void failing_allocations_are_reported(void** state) {
    (void)state;
    tempdir_write("b.yaml", blueprint);
    const char* path = tempdir_write("h.yaml", "robot: " ROBOT "\n"
                                               "parameters: {\"link/*/mass\": 2.5}\n"
                                               "blueprint: b.yaml\n");
    size_t n = 1;
    for (bool done = false; !done; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_load_options options = ns_default_load_options();
        options.allocator = &allocator;
        ns_hybrid* hybrid = NULL;
        ns_error error = {0};
        ns_status status = ns_hybrid_load(path, &options, &hybrid, &error);
        done = counter.calls < n;
        assert_int_equal(status, done ? NS_OK : NS_ERR_NOMEM);
        ns_hybrid_free(hybrid);
        assert_int_equal(counter.live_blocks, 0);
    }
    assert_true(n > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_robot_alone_changes_nothing),
        cmocka_unit_test(what_a_file_gives_reaches_the_step),
        cmocka_unit_test(saved_weights_come_back),
        cmocka_unit_test(a_system_without_networks_has_no_weights_to_save),
        cmocka_unit_test(what_is_wrong_gets_a_message),
        cmocka_unit_test(parameters_of_other_variants_are_checked),
        cmocka_unit_test(what_does_not_fit_is_found_by_the_system),
        cmocka_unit_test(failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
