// Blueprints made by calls.

#include "nn/blueprint_data.h"
#include "nn/blueprint_rig.h"
#include "support/assert.h"
#include "support/testalloc.h"

#include <math.h>
#include <stdio.h>

static const char* const two_inputs[] = {"joint/a/position", "joint/a/velocity"};

static const char* const one_output[] = {"joint/a/tau"};

// A network that is fine.
static ns_network_def good_network(void) {
    ns_network_def def = ns_default_network_def();
    def.name = "net";
    def.inputs = two_inputs;
    def.ninput = 2;
    def.outputs = one_output;
    def.noutput = 1;
    return def;
}

static void add(ns_blueprint* blueprint, const ns_network_def* def) {
    ns_error error;
    must(ns_blueprint_add(blueprint, def, &error), &error);
}

// ---- by calls --------------------------------------------------------------------------------

static void defaults_are_documented_ones(void** state) {
    (void)state;
    ns_network_def def = ns_default_network_def();
    assert_null(def.name);
    assert_null(def.each);
    assert_false(def.separate);
    assert_int_equal(def.mode, NS_AUGMENT_ADD);
    assert_int_equal(def.activation, NS_TANH);
    assert_false(def.no_bias);
    assert_int_equal(def.structure, 0);
    assert_true(def.bound == 1.0 && def.init_scale == 1.0 && def.init_last_scale == 0.1);
    assert_int_equal(def.seed, 1);
}

static void everything_is_copied(void** state) {
    (void)state;
    char name[] = "net", each[] = "joint/*", input[] = "{}/velocity", output[] = "{}/tau";
    char conjugate[] = "{}/velocity";
    const char *inputs[] = {input}, *outputs[] = {output}, *velocities[] = {conjugate};
    uint32_t hidden[] = {3, 4};
    double shift[] = {0.5}, scale[] = {2.0}, power[] = {3.0}, velocity[] = {4.0};
    ns_network_def def = ns_default_network_def();
    def.name = name;
    def.each = each;
    def.separate = true;
    def.inputs = inputs, def.ninput = 1;
    def.outputs = outputs, def.noutput = 1;
    def.conjugate = velocities;
    def.hidden = hidden, def.nhidden = 2;
    def.structure = NS_STRUCTURE_DISSIPATIVE | NS_STRUCTURE_EVEN;
    def.input_shift = shift, def.ninput_shift = 1;
    def.input_scale = scale, def.ninput_scale = 1;
    def.output_scale = power, def.noutput_scale = 1;
    def.conjugate_scale = velocity, def.nconjugate_scale = 1;
    ns_blueprint* blueprint = empty_blueprint();
    add(blueprint, &def);

    name[0] = each[0] = input[0] = output[0] = conjugate[0] = 'X';
    inputs[0] = outputs[0] = velocities[0] = NULL;
    hidden[0] = hidden[1] = 0;
    shift[0] = scale[0] = power[0] = velocity[0] = 0.0;
    assert_int_equal(ns_blueprint_network_count(blueprint), 1);
    const ns_network_def* got = ns_blueprint_network(blueprint, 0);
    assert_string_equal(got->name, "net");
    assert_string_equal(got->each, "joint/*");
    assert_true(got->separate);
    assert_string_equal(got->inputs[0], "{}/velocity");
    assert_string_equal(got->outputs[0], "{}/tau");
    assert_string_equal(got->conjugate[0], "{}/velocity");
    assert_int_equal(got->hidden[0], 3);
    assert_int_equal(got->hidden[1], 4);
    assert_true(got->input_shift[0] == 0.5 && got->input_scale[0] == 2.0);
    assert_true(got->output_scale[0] == 3.0 && got->conjugate_scale[0] == 4.0);
    assert_null(ns_blueprint_network(blueprint, 1));
    assert_null(ns_blueprint_network(NULL, 0));
    assert_int_equal(ns_blueprint_network_count(NULL), 0);
    ns_blueprint_free(blueprint);
    ns_blueprint_free(NULL);
}

static void check_refused(const ns_network_def* def, ns_status expected, const char* message) {
    ns_blueprint* blueprint = empty_blueprint();
    ns_network_def first = good_network();
    first.name = "first";
    add(blueprint, &first);
    ns_error error = {0};
    ns_status status = ns_blueprint_add(blueprint, def, &error);
    if (status != expected || !strstr(error.message, message)) {
        fail_msg("%d: \"%s\", not %d: \"%s\"", status, error.message, expected, message);
    }
    assert_int_equal(error.status, expected);
    assert_int_equal(ns_blueprint_add(blueprint, def, NULL), expected);
    assert_int_equal(ns_blueprint_network_count(blueprint), 1); // nothing was added
    ns_blueprint_free(blueprint);
}

#define REFUSED(change, status, message)                                                           \
    do {                                                                                           \
        ns_network_def def = good_network();                                                       \
        change;                                                                                    \
        check_refused(&def, status, message);                                                      \
    } while (0)

#define WRONG(change, message) REFUSED(change, NS_ERR_ARGUMENT, message)

static void wrong_names_are_refused(void** state) {
    (void)state;
    static char long_name[300], long_text[1100];
    memset(long_name, 'a', sizeof long_name - 1);
    memset(long_text, 'a', sizeof long_text - 1);
    static const char* const with_empty[] = {"q/0", ""};
    static const char* const with_null[] = {"q/0", NULL};
    static const char* const with_hole[] = {"q/0", "{}/velocity"};
    static const char* const with_control[] = {"q/0", "q\n"};
    static const char* const with_long[] = {long_text};
    static const char* const lag_zero[] = {"lag0:q/0"};
    static const char* const lag_large[] = {"lag1001:q/0"};
    static const char* const lag_huge[] = {"lag4294967297:q/0"};
    static const char* const lag_none[] = {"lag:q/0"};
    static const char* const lag_empty[] = {"lag3:"};
    static const char* const lag_twice[] = {"lag3:prev:q/0"};
    static const char* const previous[] = {"prev:q/0"};

    WRONG(def.name = NULL, "network 2: name: there is none");
    WRONG(def.name = "", "network 2: name: it is empty");
    WRONG(def.name = "a/b", "network 2: name: byte 2 is none of letters");
    WRONG(def.name = "gr\xC3\xBC\xC3\x9F", "name: byte 3");
    WRONG(def.name = "first", "network 2: name: network 1 has it too");
    REFUSED(def.name = long_name, NS_ERR_LIMIT, "name: it has more than 200 bytes");
    WRONG(def.each = "", "network \"net\": each: a name is empty");
    WRONG(def.ninput = 0, "network \"net\": inputs: the list is empty");
    WRONG(def.inputs = NULL, "inputs: the list is NULL");
    WRONG(def.noutput = 0, "network \"net\": outputs: the list is empty");
    WRONG(def.outputs = NULL, "outputs: the list is NULL");
    WRONG(def.inputs = with_empty, "inputs[1]: a name is empty");
    WRONG(def.inputs = with_null, "inputs[1]: a name is NULL");
    WRONG(def.inputs = with_hole, "inputs[1]: \"{}/velocity\" has a {}");
    WRONG((def.outputs = with_hole, def.noutput = 2), "outputs[1]: \"{}/velocity\" has a {}");
    WRONG(def.inputs = with_control, "inputs[1]: byte 2 of a name is a control character");
    REFUSED((def.inputs = with_long, def.ninput = 1), NS_ERR_LIMIT, "has more than 1000 bytes");
    WRONG((def.inputs = lag_zero, def.ninput = 1), "inputs[0]: \"lag0:q/0\" is no earlier value");
    WRONG((def.inputs = lag_large, def.ninput = 1), "k from 1 to 1000");
    WRONG((def.inputs = lag_huge, def.ninput = 1), "is no earlier value");
    WRONG((def.inputs = lag_none, def.ninput = 1), "is no earlier value");
    WRONG((def.inputs = lag_empty, def.ninput = 1), "is no earlier value");
    WRONG((def.inputs = lag_twice, def.ninput = 1), "is no earlier value");
    WRONG(def.outputs = previous, "outputs[0]: \"prev:q/0\": prev: and lag<k>: are for inputs");
    WRONG((def.structure = NS_STRUCTURE_DISSIPATIVE, def.conjugate = previous),
          "conjugate[0]: \"prev:q/0\": prev: and lag<k>: are for inputs");
    WRONG((def.structure = NS_STRUCTURE_DISSIPATIVE, def.conjugate = with_hole + 1),
          "conjugate[0]: \"{}/velocity\" has a {}");
}

static void wrong_values_are_refused(void** state) {
    (void)state;
    static const uint32_t zero[] = {4, 0}, wide[] = {4097}, many[17] = {1};
    static const double infinite[] = {1.0, INFINITY}, nan_[] = {NAN}, ones[] = {1.0, 1.0};
    static const double nothing[] = {1.0, 0.0}, negative[] = {-1.0};
    static const char* names[4097];
    for (int i = 0; i < 4097; i++) names[i] = "q/0";

    WRONG((def.hidden = zero, def.nhidden = 2), "hidden[1]: a layer is 0 wide");
    REFUSED((def.hidden = wide, def.nhidden = 1), NS_ERR_LIMIT, "hidden[0]: a layer is 4097 wide");
    REFUSED((def.hidden = many, def.nhidden = 17), NS_ERR_LIMIT, "hidden: 17 layers; at most 16");
    WRONG(def.nhidden = 1, "hidden: the list is NULL");
    REFUSED((def.inputs = names, def.ninput = 4097), NS_ERR_LIMIT, "inputs: 4097 of them");
    REFUSED((def.outputs = names, def.noutput = 4097), NS_ERR_LIMIT, "outputs: 4097 of them");
    WRONG(def.activation = NS_ACTIVATION_COUNT, "activation: 8 is no activation");
    WRONG(def.activation = (ns_activation)-1, "activation: -1 is no activation");
    WRONG(def.mode = (ns_augment)3, "mode: 3 is no mode");
    WRONG(def.bound = 0.0, "bound: it must be finite and greater than 0");
    WRONG(def.bound = INFINITY, "bound: it must be finite");
    WRONG(def.init_scale = NAN, "init_scale: it must be finite and at least 0");
    WRONG(def.init_last_scale = -1.0, "init_last_scale: it must be finite and at least 0");
    WRONG((def.input_shift = infinite, def.ninput_shift = 2),
          "input_shift[1]: number 2 is not fin");
    WRONG((def.input_scale = nan_, def.ninput_scale = 1), "input_scale[0]: number 1 is not finite");
    WRONG((def.input_scale = nothing, def.ninput_scale = 2),
          "input_scale[1]: number 2 is not greater than 0");
    WRONG((def.output_scale = infinite, def.noutput_scale = 2), "output_scale[1]: number 2 is not");
    WRONG(def.noutput_scale = 1, "output_scale: the list is NULL");
    REFUSED((def.input_scale = ones, def.ninput_scale = 5000), NS_ERR_LIMIT, "5000 of them");

    unsigned dissipative = NS_STRUCTURE_DISSIPATIVE, conservative = NS_STRUCTURE_CONSERVATIVE;
    unsigned bounded = NS_STRUCTURE_BOUNDED;
    WRONG(def.structure = NS_STRUCTURE_ODD | NS_STRUCTURE_EVEN,
          "structure: odd and even do not go");
    WRONG(def.structure = bounded | dissipative, "structure: bounded and dissipative do not");
    WRONG(def.structure = bounded | conservative, "structure: bounded and conservative do not");
    WRONG(def.structure = conservative | dissipative, "conservative and dissipative do not");
    WRONG(def.structure = 32, "structure: 0x20 has bits");
    WRONG((def.structure = dissipative, def.mode = NS_AUGMENT_SCALE),
          "mode: scale does not go with the structure dissipative");
    WRONG((def.structure = conservative, def.mode = NS_AUGMENT_SCALE),
          "mode: scale does not go with the structure conservative");
    WRONG((def.structure = dissipative, def.output_scale = ones, def.noutput_scale = 2),
          "output_scale: 2 numbers; the structure dissipative needs one");
    WRONG((def.structure = conservative, def.output_scale = ones, def.noutput_scale = 2),
          "output_scale: 2 numbers; the structure conservative needs one");
    WRONG((def.structure = dissipative, def.output_scale = negative, def.noutput_scale = 1),
          "output_scale[0]: number 1 is not greater than 0");
    WRONG((def.structure = dissipative, def.conjugate_scale = nothing, def.nconjugate_scale = 2),
          "conjugate_scale[1]: number 2 is not greater than 0");
    WRONG(def.conjugate = one_output, "conjugate: this is for the structure dissipative only");
    WRONG((def.conjugate_scale = ones, def.nconjugate_scale = 1), "conjugate_scale: this is for");

    // What is unusual and fine.
    ns_network_def def = good_network();
    static const double minus[] = {-2.0};
    def.output_scale = minus, def.noutput_scale = 1;
    def.init_scale = def.init_last_scale = 0.0;
    def.seed = UINT64_MAX;
    def.structure = NS_STRUCTURE_ODD | NS_STRUCTURE_BOUNDED;
    def.mode = NS_AUGMENT_SCALE;
    ns_blueprint* blueprint = empty_blueprint();
    add(blueprint, &def);
    ns_blueprint_free(blueprint);
}

static void null_arguments_are_refused(void** state) {
    (void)state;
    ns_blueprint* blueprint = empty_blueprint();
    ns_network_def def = good_network();
    assert_int_equal(ns_blueprint_create(NULL, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_blueprint_add(NULL, &def, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_blueprint_add(blueprint, NULL, NULL), NS_ERR_ARGUMENT);
    ns_blueprint* other = blueprint;
    assert_int_equal(ns_blueprint_load(NULL, NULL, &other, NULL), NS_ERR_ARGUMENT);
    assert_null(other);
    assert_int_equal(ns_blueprint_load("x", NULL, NULL, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_blueprint_parse(NULL, 0, NULL, NULL, &other, NULL), NS_ERR_ARGUMENT);
    assert_int_equal(ns_blueprint_parse("", 0, NULL, NULL, NULL, NULL), NS_ERR_ARGUMENT);
    ns_blueprint_free(blueprint);
}

static void networks_are_limited(void** state) {
    (void)state;
    ns_blueprint* blueprint = empty_blueprint();
    ns_network_def def = good_network();
    char name[20];
    def.name = name;
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "net%d", i);
        add(blueprint, &def);
    }
    ns_error error;
    def.name = "more";
    assert_int_equal(ns_blueprint_add(blueprint, &def, &error), NS_ERR_LIMIT);
    assert_string_equal(error.message, "network 1001: a blueprint has at most 1000 networks");
    ns_blueprint_free(blueprint);
}

static void lags_are_understood(void** state) {
    (void)state;
    static const struct {
        const char *input, *rest;
        uint32_t first, last;
    } rows[] = {
        {"q/0", "q/0", 0, 0},
        {"prev:q/0", "q/0", 1, 1},
        {"lag3:{}/tau", "{}/tau", 1, 3},
        {"lag1000:q/*", "q/*", 1, 1000},
        {"lag", "lag", 0, 0},
        {"lagging:q", "lagging:q", 0, 0},
        {"lag3", "lag3", 0, 0},
        {"lag-3:q", "lag-3:q", 0, 0},
        {"prev", "prev", 0, 0},
        {"lag007:q", "q", 1, 7},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t first, last;
        const char* rest = nsi_input_lags(rows[i].input, &first, &last);
        assert_non_null(rest);
        assert_string_equal(rest, rows[i].rest);
        assert_int_equal(first, rows[i].first);
        assert_int_equal(last, rows[i].last);
    }
}

// ---- memory ----------------------------------------------------------------------------------

static void every_allocation_may_fail(void** state) {
    (void)state;
    static const double numbers[] = {1, 2, 3};
    for (size_t n = 1;; n++) {
        test_alloc counter = {.fail_at = n};
        ns_allocator allocator = test_allocator(&counter);
        ns_blueprint* blueprint = NULL;
        ns_error error = {0};
        ns_status status = ns_blueprint_parse(everything, sizeof everything - 1, "f", &allocator,
                                              &blueprint, &error);
        if (status == NS_OK) {
            status = nsi_blueprint_add_tensor(blueprint, "a/w0", 1, 3, numbers, &error);
        }
        bool reached = counter.calls >= n;
        assert_int_equal(status, reached ? NS_ERR_NOMEM : NS_OK);
        if (reached) assert_int_equal(error.status, NS_ERR_NOMEM);
        ns_blueprint_free(blueprint);
        assert_int_equal(counter.live_blocks, 0);
        if (!reached) break;
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_documented_ones), cmocka_unit_test(everything_is_copied),
        cmocka_unit_test(wrong_names_are_refused),      cmocka_unit_test(wrong_values_are_refused),
        cmocka_unit_test(null_arguments_are_refused),   cmocka_unit_test(networks_are_limited),
        cmocka_unit_test(lags_are_understood),          cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
