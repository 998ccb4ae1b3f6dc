// Weights that a blueprint was given.

#include "nn/blueprint_data.h"
#include "nn/blueprint_rig.h"
#include "support/assert.h"

#include <math.h>

static void tensors_are_kept(void** state) {
    (void)state;
    ns_blueprint* blueprint = empty_blueprint();
    ns_error error;
    double numbers[6] = {1, 2, 3, 4, 5, 6};
    assert_false(blueprint->has_weights);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/w0", 2, 3, numbers, &error), NS_OK);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "empty", 0, 3, NULL, &error), NS_OK);
    assert_true(blueprint->has_weights);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/w0", 1, 1, numbers, &error),
                     NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "two tensors are called \"a/w0\"");
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "", 1, 1, numbers, &error),
                     NS_ERR_ARGUMENT);
    assert_int_equal(
        nsi_blueprint_add_tensor(blueprint, "large", 1 << 14, 1 << 13, numbers, &error),
        NS_ERR_LIMIT);
    numbers[4] = NAN;
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "b", 2, 3, numbers, &error),
                     NS_ERR_ARGUMENT);
    assert_string_equal(error.message, "tensor \"b\": the number in row 1, column 1 is not finite");
    const nsi_blueprint_tensor* tensor = nsi_blueprint_find_tensor(blueprint, "a/w0");
    assert_int_equal(tensor->rows, 2);
    assert_int_equal(tensor->columns, 3);
    assert_true(tensor->data[4] == 5.0);
    assert_null(nsi_blueprint_find_tensor(blueprint, "b"));

    nsi_blueprint_clear_tensors(blueprint);
    assert_null(nsi_blueprint_find_tensor(blueprint, "a/w0"));
    assert_true(blueprint->has_weights);
    assert_int_equal(nsi_blueprint_add_tensor(blueprint, "a/w0", 1, 1, numbers, &error), NS_OK);
    ns_blueprint_free(blueprint);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
