// Sets of weights: shapes of their layers, and where their values come from.

#include "nn/binding_rig.h"

#include <math.h>

static void layers_have_the_documented_shapes(void** state) {
    (void)state;
    static const uint32_t hidden[] = {7, 5};
    ns_network_def def = ns_default_network_def();
    def.hidden = hidden, def.nhidden = 2;
    nsi_layer layers[NSI_MAX_LAYERS];
    for (int kind = 0; kind < 4; kind++) {
        def.no_bias = kind == 3;
        def.structure = kind == 1   ? NS_STRUCTURE_DISSIPATIVE
                        : kind == 2 ? NS_STRUCTURE_CONSERVATIVE
                                    : NS_STRUCTURE_EVEN;
        uint32_t bias = kind == 3 ? 0 : 1, last = kind == 1 ? 6 : kind == 2 ? 1 : 3;
        assert_int_equal(nsi_network_layers(&def, 3, 3, layers), 3);
        // A constant in the potential would have no effect: no bias there.
        const uint32_t rows[] = {3 + bias, 7 + bias, 5 + (kind == 2 ? 0 : bias)};
        const uint32_t columns[] = {7, 5, last};
        uint32_t offset = 0;
        for (int k = 0; k < 3; k++) {
            assert_int_equal(layers[k].rows, rows[k]);
            assert_int_equal(layers[k].columns, columns[k]);
            assert_int_equal(layers[k].offset, offset);
            assert_int_equal(layers[k].bias, kind == 2 && k == 2 ? 0 : bias);
            offset += rows[k] * columns[k];
        }
        assert_int_equal(nsi_network_weight_count(&def, 3, 3), offset);
    }
    // Sizes that do not fit 32 bits.
    def.nhidden = 0;
    def.no_bias = false;
    def.structure = NS_STRUCTURE_DISSIPATIVE;
    assert_true(nsi_network_weight_count(&def, 4096, 4096) == 4097ull * (4096ull * 4097 / 2));
}

static void weights_are_random_or_loaded(void** state) {
    (void)state;
    ns_blueprint* blueprint = parse(TWO_SETS);
    nsi_binding* binding = binding_of(blueprint);
    enum { N = 2 * (2 * 2 + 3) };
    double weights[N], again[N];
    ns_error error;
    assert_int_equal(binding->nweight, N);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_OK);
    assert_int_equal(nsi_binding_weights(binding, again, &error), NS_OK);
    assert_memory_equal(weights, again, sizeof weights);
    assert_true(weights[0] != weights[N / 2]); // sets differ
    for (int i = 0; i < N; i++) assert_true(isfinite(weights[i]));

    double numbers[N];
    for (int i = 0; i < N; i++) numbers[i] = i;
    static const char* const tensors[] = {"a/link/thigh/w0", "a/link/thigh/w1", "a/link/shin/w0",
                                          "a/link/shin/w1"};
    for (int i = 3; i >= 0; i--) { // in any order
        assert_int_equal(nsi_blueprint_add_tensor(blueprint, tensors[i], i % 2 ? 3 : 2,
                                                  i % 2 ? 1 : 2,
                                                  numbers + 7 * (i / 2) + 4 * (i % 2), &error),
                         NS_OK);
    }
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_OK);
    assert_memory_equal(weights, numbers, sizeof weights);

    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/link/shin/w2", 1, 2, numbers, &error),
                     NS_OK);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "the loaded tensor \"a/link/shin/w2\" (1 x 2) belongs to no"
                                       " set of weights of this blueprint and model");

    nsi_blueprint_clear_tensors(blueprint);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "set \"a/link/thigh\": the tensor \"a/link/thigh/w0\" (2 x 2)"
                        " is missing from the loaded weights");
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, tensors[0], 2, 2, numbers, &error), NS_OK);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, tensors[1], 1, 3, numbers, &error), NS_OK);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "set \"a/link/thigh\": the loaded tensor \"a/link/thigh/w1\" is 1 x 3, but"
                        " the network of 1 inputs and 1 outputs needs 3 x 1");

    // Errors propose the nearest name.
    nsi_blueprint_clear_tensors(blueprint);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "b/link/shin/w0", 2, 2, numbers, &error),
                     NS_OK);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/link/thig/w0", 2, 2, numbers, &error),
                     NS_OK);
    assert_int_equal(nsi_binding_weights(binding, weights, &error), NS_ERR_ARGUMENT);
    assert_string_equal(error.message,
                        "set \"a/link/thigh\": the tensor \"a/link/thigh/w0\" (2 x 2) is missing"
                        " from the loaded weights; nearest: a/link/thig/w0, b/link/shin/w0");
    nsi_binding_free(binding);
    ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_have_the_documented_shapes),
        cmocka_unit_test(weights_are_random_or_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
