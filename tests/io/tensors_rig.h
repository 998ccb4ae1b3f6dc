// Tensors in files, for tests of good and of broken ones.

#ifndef TEST_TENSORS_RIG_H
#define TEST_TENSORS_RIG_H

#include "io/file.h"
#include "neuralsim/tensors.h"
#include "support/assert.h"
#include "support/check.h"
#include "support/tempdir.h"

#include <stdlib.h>

// A safetensors file of this header and `data_size` bytes of data, all zero; free() it.
static inline char* make_file(const char* header, size_t data_size, size_t* size) {
    size_t length = strlen(header);
    *size = 8 + length + data_size;
    char* bytes = calloc(1, *size);
    for (int i = 0; i < 8; i++) bytes[i] = (char)(length >> (8 * i) & 0xFF);
    memcpy(bytes + 8, header, length);
    return bytes;
}

static inline ns_tensors parse(const void* bytes, size_t size, const char* name) {
    ns_tensors tensors;
    ns_error error = {0};
    must(ns_tensors_parse(bytes, size, name, NULL, &tensors, &error), &error);
    assert_int_equal(error.status, NS_OK);
    return tensors;
}

static inline void assert_tensor(const ns_tensor* tensor, const char* name, uint32_t rows,
                                 uint32_t columns, const double* numbers) {
    assert_string_equal(tensor->name, name);
    assert_int_equal(tensor->rows, rows);
    assert_int_equal(tensor->columns, columns);
    for (uint32_t i = 0; i < rows * columns; i++) {
        if (!check_same_bits(tensor->data[i], numbers[i])) {
            fail_msg("%s[%u] is %a, not %a", name, i, tensor->data[i], numbers[i]);
        }
    }
}

static inline void assert_same(const ns_tensors* tensors, const ns_tensor* expected,
                               uint32_t count) {
    assert_int_equal(tensors->count, count);
    for (uint32_t k = 0; k < count; k++) {
        assert_tensor(&tensors->data[k], expected[k].name, expected[k].rows, expected[k].columns,
                      expected[k].data);
    }
}

#endif
