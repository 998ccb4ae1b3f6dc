// Weights in files that are broken or too large: refused with a message, never a crash.

#define _XOPEN_SOURCE 700

#include "io/file.h"
#include "io/tensors_rig.h"
#include "neuralsim/tensors.h"
#include "support/assert.h"
#include "support/tempdir.h"
#include "support/testalloc.h"

#include <stdio.h>
#include <stdlib.h>

// ---- helpers -------------------------------------------------------------------------------

static void assert_refused(const void* bytes, size_t size, const char* name, ns_status expected,
                           const char* message) {
    test_alloc counter = {0};
    ns_allocator allocator = test_allocator(&counter);
    ns_tensors tensors;
    ns_error error = {0};
    ns_status status = ns_tensors_parse(bytes, size, name, &allocator, &tensors, &error);
    if (status == NS_OK) fail_msg("accepted, not refused with: %s", message);
    assert_string_equal(error.message, message);
    assert_int_equal(status, expected);
    assert_int_equal(error.status, expected);
    assert_int_equal(tensors.count, 0);
    assert_int_equal(counter.live_blocks, 0);
}

// ---- broken safetensors ----------------------------------------------------------------------

// One tensor "a" with these members.
#define ONE(members) "{\"a\":{" members "}}"

#define F64_1x1 "\"dtype\":\"F64\",\"shape\":[1,1],\"data_offsets\":"

static void broken_headers_get_a_message(void** state) {
    (void)state;
    static const struct {
        const char* header;
        size_t data_size;
        ns_status status;
        const char* message;
    } cases[] = {
        {"", 8, NS_ERR_PARSE, "w: its header does not start with {; is this a safetensors file?"},
        {" {}", 0, NS_ERR_PARSE,
         "w: its header does not start with {; is this a safetensors file?"},
        {"[]", 0, NS_ERR_PARSE, "w: its header does not start with {; is this a safetensors file?"},
        {"{\"a\":", 0, NS_ERR_PARSE, "w: header, byte 5: unexpected token near end of file"},
        {"{\"a\":{}} x", 0, NS_ERR_PARSE, "w: header, byte 10: end of file expected near 'x'"},
        {"{\"a\x01\":{}}", 0, NS_ERR_PARSE, "w: header, byte 3: control character 0x1 near '\"a'"},
        {"{\"a\xff\":{}}", 0, NS_ERR_PARSE,
         "w: header, byte 3: unable to decode byte 0xff near '\"a'"},
        {"{\"a\\u0000b\":{}}", 0, NS_ERR_PARSE,
         "w: header, byte 11: NUL byte in object key not supported near '\"a\\u0000b\"'"},
        {"{\"a\":{},\"a\":{}}", 0, NS_ERR_PARSE,
         "w: header, byte 11: duplicate object key near '\"a\"'"},
        {"{\"a\":[]}", 0, NS_ERR_PARSE,
         "w: tensor \"a\": it must be an object with dtype, shape and data_offsets"},
        {"{\"__metadata__\":[]}", 0, NS_ERR_PARSE, "w: __metadata__ must be an object of texts"},
        {"{\"__metadata__\":{\"a\":1}}", 0, NS_ERR_PARSE,
         "w: __metadata__ must be an object of texts"},
        {"{\"\":{" F64_1x1 "[0,8]}}", 8, NS_ERR_PARSE, "w: tensor \"\": the name is empty"},
        {"{\"a\\nb\":{" F64_1x1 "[0,8]}}", 8, NS_ERR_PARSE,
         "w: tensor \"a b\": the name has a control character"},
        {ONE("\"shape\":[1,1],\"data_offsets\":[0,8]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": dtype must be a text such as \"F64\""},
        {ONE("\"dtype\":64,\"shape\":[1,1],\"data_offsets\":[0,8]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": dtype must be a text such as \"F64\""},
        {ONE("\"dtype\":\"I64\",\"shape\":[1,1],\"data_offsets\":[0,8]"), 8, NS_ERR_UNSUPPORTED,
         "w: tensor \"a\": dtype \"I64\" is not read; convert it to F64, F32, F16 or BF16"},
        {ONE(F64_1x1 "[0,8],\"strides\":[1]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": unknown key \"strides\"; dtype, shape and data_offsets are known"},
        {ONE("\"dtype\":\"F64\",\"data_offsets\":[0,8]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": shape must be a list of whole numbers, none negative"},
        {ONE("\"dtype\":\"F64\",\"shape\":[-1,-1],\"data_offsets\":[0,8]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": shape must be a list of whole numbers, none negative"},
        {ONE("\"dtype\":\"F64\",\"shape\":[1.0],\"data_offsets\":[0,8]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": shape must be a list of whole numbers, none negative"},
        {ONE("\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]"), 8, NS_ERR_UNSUPPORTED,
         "w: tensor \"a\": it has 0 dimensions; tensors of 1 or 2 are read"},
        {ONE("\"dtype\":\"F64\",\"shape\":[1,1,1],\"data_offsets\":[0,8]"), 8, NS_ERR_UNSUPPORTED,
         "w: tensor \"a\": it has 3 dimensions; tensors of 1 or 2 are read"},
        {ONE("\"dtype\":\"F64\",\"shape\":[0,3],\"data_offsets\":[0,0]"), 0, NS_ERR_PARSE,
         "w: tensor \"a\": it is empty; leave it out"},
        {ONE("\"dtype\":\"F64\",\"shape\":[99999999999999999999],\"data_offsets\":[0,0]"), 0,
         NS_ERR_PARSE, "w: header, byte 49: too big integer near '99999999999999999999'"},
        // Their product wraps to 0 and to 1.
        {ONE("\"dtype\":\"F64\",\"shape\":[4294967296,4294967296],\"data_offsets\":[0,0]"), 0,
         NS_ERR_LIMIT, "w: tensor \"a\": more than 67108864 numbers in one file"},
        {ONE("\"dtype\":\"F64\",\"shape\":[4294967297,4294967297],\"data_offsets\":[0,8]"), 8,
         NS_ERR_LIMIT, "w: tensor \"a\": more than 67108864 numbers in one file"},
        {ONE("\"dtype\":\"F64\",\"shape\":[9223372036854775807,1],\"data_offsets\":[0,8]"), 8,
         NS_ERR_LIMIT, "w: tensor \"a\": more than 67108864 numbers in one file"},
        {ONE("\"dtype\":\"F64\",\"shape\":[8192,8193],\"data_offsets\":[0,8]"), 8, NS_ERR_LIMIT,
         "w: tensor \"a\": more than 67108864 numbers in one file"},
        {ONE("\"dtype\":\"F64\",\"shape\":[8192,8192],\"data_offsets\":[0,8]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": data_offsets give it 8 bytes; 8192 x 8192 numbers of type F64 are"
         " 536870912"},
        {ONE(F64_1x1 "[0,8,16]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": data_offsets must be two whole numbers, begin and end"},
        {ONE(F64_1x1 "[0,\"8\"]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": data_offsets must be two whole numbers, begin and end"},
        {ONE(F64_1x1 "[8,0]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": data_offsets must be two whole numbers, begin and end"},
        {ONE(F64_1x1 "[-8,0]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": data_offsets must be two whole numbers, begin and end"},
        {ONE(F64_1x1 "[0,8]"), 7, NS_ERR_PARSE,
         "w: tensor \"a\": it ends at byte 8 of 7 bytes of data; the file is cut off or its header"
         " is wrong"},
        {ONE(F64_1x1 "[9223372036854775799,9223372036854775807]"), 8, NS_ERR_PARSE,
         "w: tensor \"a\": it ends at byte 9223372036854775807 of 8 bytes of data; the file is cut"
         " off or its header is wrong"},
        {ONE(F64_1x1 "[0,4]"), 4, NS_ERR_PARSE,
         "w: tensor \"a\": data_offsets give it 4 bytes; 1 x 1 numbers of type F64 are 8"},
        {ONE(F64_1x1 "[0,8]"), 9, NS_ERR_PARSE,
         "w: the last 1 bytes belong to no tensor; the header is wrong"},
        {"{}", 3, NS_ERR_PARSE, "w: the last 3 bytes belong to no tensor; the header is wrong"},
        {ONE(F64_1x1 "[8,16]"), 16, NS_ERR_PARSE,
         "w: tensor \"a\": bytes 0 to 8 of the data, before it, belong to no tensor"},
        {"{\"a\":{" F64_1x1 "[0,8]},\"b\":{" F64_1x1 "[9,17]}}", 17, NS_ERR_PARSE,
         "w: tensor \"b\": bytes 8 to 9 of the data, before it, belong to no tensor"},
        {"{\"a\":{" F64_1x1 "[0,8]},\"b\":{" F64_1x1 "[4,12]}}", 12, NS_ERR_PARSE,
         "w: tensor \"b\": its data overlaps that of tensor \"a\" at byte 4"},
        {"{\"b\":{" F64_1x1 "[0,8]},\"a\":{" F64_1x1 "[0,8]}}", 8, NS_ERR_PARSE,
         "w: tensor \"a\": its data overlaps that of tensor \"b\" at byte 0"},
        {"{\"a\":[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}", 0, NS_ERR_LIMIT,
         "w: line 1: lists are nested more than 16 deep"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        size_t size;
        char* bytes = make_file(cases[k].header, cases[k].data_size, &size);
        assert_refused(bytes, size, "w", cases[k].status, cases[k].message);
        free(bytes);
    }
}

static void lengths_of_the_header_are_checked(void** state) {
    (void)state;
    assert_refused("", 0, "w", NS_ERR_PARSE,
                   "w: 0 bytes are too few for a safetensors file; name JSON files .json");
    assert_refused("{\"a\":1}", 7, "w.JSON", NS_ERR_PARSE,
                   "w.JSON: 7 bytes are too few for a safetensors file; name JSON files .json");
    assert_refused("\0\0\0\0\0\0\0\0", 8, "w", NS_ERR_PARSE,
                   "w: its header does not start with {; is this a safetensors file?");
    assert_refused("\3\0\0\0\0\0\0\0{}", 10, "w", NS_ERR_PARSE,
                   "w: it ends within its header, after 2 of 3 bytes");
    assert_refused("\377\377\377\377\377\377\377\377{}", 10, "w", NS_ERR_LIMIT,
                   "w: its header would be 18446744073709551615 bytes long, more than 16 MiB; is"
                   " this a safetensors file?");
    assert_refused("{\"drag/w0\": [[1]]}", 18, "w", NS_ERR_PARSE,
                   "w: it starts like JSON, not like safetensors; name JSON files .json");
}

static void numbers_that_are_not_finite_are_refused(void** state) {
    (void)state;
    static const struct {
        const char *dtype, *bytes;
        int size;
    } cases[] = {
        {"F64", "\0\0\0\0\0\0\360\177", 8},
        {"F64", "\1\0\0\0\0\0\370\377", 8},
        {"F32", "\0\0\200\377", 4},
        {"F32", "\1\0\200\177", 4},
        {"F16", "\0\374", 2},
        {"F16", "\1\174", 2},
        {"BF16", "\200\377", 2},
        {"BF16", "\301\177", 2},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char header[128];
        int size = cases[k].size;
        snprintf(header, sizeof header,
                 "{\"a\":{\"dtype\":\"%s\",\"shape\":[2,3],\"data_offsets\":[0,%d]}}",
                 cases[k].dtype, 6 * size);
        size_t all;
        char* bytes = make_file(header, 6 * (size_t)size, &all);
        memcpy(bytes + all - 2 * size, cases[k].bytes, (size_t)size);
        assert_refused(bytes, all, "w", NS_ERR_NONFINITE,
                       "w: tensor \"a\": row 1, column 1 is not finite (both count from 0)");
        free(bytes);
    }
}

// ---- broken JSON -----------------------------------------------------------------------------

static void broken_json_gets_a_message(void** state) {
    (void)state;
    static const struct {
        const char* text;
        ns_status status;
        const char* message;
    } cases[] = {
        {"", NS_ERR_PARSE, "w.json:1:0: '[' or '{' expected near end of file"},
        {"1", NS_ERR_PARSE, "w.json:1:1: '[' or '{' expected near '1'"},
        {"[]", NS_ERR_PARSE, "w.json: it must be an object with a list of rows for each name"},
        {"{\n  \"a\": [[1,\n    2,]]}", NS_ERR_PARSE, "w.json:3:7: unexpected token near ']'"},
        {"{\"a\": [[1]], \"a\": [[2]]}", NS_ERR_PARSE,
         "w.json:1:16: duplicate object key near '\"a\"'"},
        {"{\"a\": [[NaN]]}", NS_ERR_PARSE, "w.json:1:11: invalid token near 'NaN'"},
        {"{\"a\": [[-Infinity]]}", NS_ERR_PARSE, "w.json:1:9: invalid token near '-'"},
        {"{\"a\": [[1e999]]}", NS_ERR_PARSE, "w.json:1:13: real number overflow near '1e999'"},
        {"{\"a\": [[0x10]]}", NS_ERR_PARSE, "w.json:1:10: ']' expected near 'x'"},
        {"{\"a\": [[1]]} {}", NS_ERR_PARSE, "w.json:1:14: end of file expected near '{'"},
        {"{\"a\": [[1]\001]}", NS_ERR_PARSE, "w.json:1:11: ']' expected near '?'"},
        {"{\"a\": 1}", NS_ERR_PARSE, "w.json: tensor \"a\": it must be a list of rows of numbers"},
        {"{\"a\": {\"b\": 1}}", NS_ERR_PARSE,
         "w.json: tensor \"a\": it must be a list of rows of numbers"},
        {"{\"a\": [\"1\"]}", NS_ERR_PARSE,
         "w.json: tensor \"a\": it must be a list of rows of numbers"},
        {"{\"a\": []}", NS_ERR_PARSE, "w.json: tensor \"a\": it is empty; leave it out"},
        {"{\"a\": [[]]}", NS_ERR_PARSE, "w.json: tensor \"a\": it is empty; leave it out"},
        {"{\"a\": [[1], [2, 3]]}", NS_ERR_PARSE,
         "w.json: tensor \"a\": row 1 (counted from 0) has 2 numbers, row 0 has 1"},
        {"{\"a\": [[1], 2]}", NS_ERR_PARSE,
         "w.json: tensor \"a\": row 1 (counted from 0) is not a list of numbers"},
        {"{\"a\": [1, [2]]}", NS_ERR_PARSE,
         "w.json: tensor \"a\": row 0, column 1 (counted from 0) is not a number"},
        {"{\"a\": [[1, 2], [3, null]]}", NS_ERR_PARSE,
         "w.json: tensor \"a\": row 1, column 1 (counted from 0) is not a number"},
        {"{\"\": [[1]]}", NS_ERR_PARSE, "w.json: tensor \"\": the name is empty"},
        {"{\"__metadata__\": [[1]]}", NS_ERR_PARSE,
         "w.json: tensor \"__metadata__\": the name is not for tensors in safetensors files"},
        {"{\"a\": \n[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]}", NS_ERR_LIMIT,
         "w.json: line 2: lists are nested more than 16 deep"},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        assert_refused(cases[k].text, strlen(cases[k].text), "w.json", cases[k].status,
                       cases[k].message);
    }
    assert_refused("{\"a\": [[1]]\0}", 13, "w.json", NS_ERR_PARSE,
                   "w.json:1:12: '}' expected near end of file");
}

static void json_is_read(void** state) {
    (void)state;
    static const char text[] = "{\"b\": [[1, -2.5e0], [3, 40E-1]],\n"
                               " \"a[\\\"{,\": [-0, 4.9e-324, 99999999999999999999],\n"
                               " \"c\": [[1e-999]]}";
    static const double b[4] = {1.0, -2.5, 3.0, 4.0}, a[3] = {-0.0, 5e-324, 1e20}, c[1] = {0.0};
    ns_tensors tensors = parse(text, strlen(text), "w.json");
    assert_int_equal(tensors.count, 3);
    assert_tensor(&tensors.data[0], "b", 2, 2, b);
    assert_tensor(&tensors.data[1], "a[\"{,", 1, 3, a);
    assert_tensor(&tensors.data[2], "c", 1, 1, c);
    ns_tensors_free(&tensors);
    tensors = parse("{}", 2, "w.json");
    assert_int_equal(tensors.count, 0);
    ns_tensors_free(&tensors);
}

// ---- limits ----------------------------------------------------------------------------------

static void limits_are_kept(void** state) {
    (void)state;
    // One name of 1023 bytes is read; one of 1024 is not.
    for (int extra = 0; extra < 2; extra++) {
        char name[NS_TENSORS_MAX_NAME + 2], header[2048], message[512];
        memset(name, 'n', sizeof name);
        name[NS_TENSORS_MAX_NAME + extra] = '\0';
        snprintf(header, sizeof header, "{\"%s\":{" F64_1x1 "[0,8]}}", name);
        size_t size;
        char* bytes = make_file(header, 8, &size);
        snprintf(message, sizeof message,
                 "w: tensor \"%.66s...\": the name is longer than 1023 bytes", name);
        if (extra) {
            assert_refused(bytes, size, "w", NS_ERR_PARSE, message);
        } else {
            ns_tensors tensors = parse(bytes, size, "w");
            assert_string_equal(tensors.data[0].name, name);
            ns_tensors_free(&tensors);
        }
        free(bytes);
    }

    // 65,536 tensors are written and read in both forms, 65,537 are not.
    ns_tensor* many = calloc(NS_TENSORS_MAX_COUNT + 1, sizeof *many);
    char(*names)[16] = calloc(NS_TENSORS_MAX_COUNT + 1, sizeof *names);
    static const double one = 1.0;
    for (uint32_t k = 0; k <= NS_TENSORS_MAX_COUNT; k++) {
        snprintf(names[k], sizeof *names, "t%u", k);
        many[k] = (ns_tensor){names[k], 1, 1, &one};
    }
    ns_error error;
    for (int form = NS_TENSORS_F64; form <= NS_TENSORS_JSON; form++) {
        const char* name = form == NS_TENSORS_JSON ? "w.json" : "w";
        ns_text text;
        assert_int_equal(
            ns_tensors_print(many, NS_TENSORS_MAX_COUNT, (ns_tensor_form)form, NULL, &text, NULL),
            NS_OK);
        ns_tensors tensors = parse(text.data, text.size, name);
        assert_same(&tensors, many, NS_TENSORS_MAX_COUNT);
        ns_tensors_free(&tensors);
        ns_text_free(&text);
        assert_int_equal(ns_tensors_print(many, NS_TENSORS_MAX_COUNT + 1, (ns_tensor_form)form,
                                          NULL, &text, &error),
                         NS_ERR_LIMIT);
        assert_string_equal(error.message, "65537 tensors, more than 65536");
    }
    free(many);
    free(names);

    nsi_text_builder b = {.allocator = ns_default_allocator()};
    for (int k = 0; k <= NS_TENSORS_MAX_COUNT; k++)
        nsi_text_add(&b, "%c\"%d\":0", k ? ',' : '{', k);
    nsi_text_add(&b, "}");
    ns_text text;
    assert_int_equal(nsi_text_finish(&b, &text, NULL), NS_OK);
    assert_refused(text.data, text.size, "w.json", NS_ERR_LIMIT,
                   "w.json: 65537 tensors, more than 65536");
    size_t size;
    char* bytes = make_file(text.data, 0, &size);
    assert_refused(bytes, size, "w", NS_ERR_LIMIT, "w: 65537 tensors, more than 65536");
    free(bytes);
    ns_text_free(&text);

    // More values than jansson is given memory for.
    size = NS_TENSORS_MAX_VALUES + 100;
    bytes = malloc(size);
    memset(bytes, ',', size);
    assert_refused(bytes, size, "w.json", NS_ERR_LIMIT,
                   "w.json: line 1: more values than are read from text; write the weights as"
                   " safetensors");
    free(bytes);
    size = NS_TENSORS_MAX_TEXT + 1;
    bytes = calloc(1, size);
    assert_refused(bytes, size, "w.json", NS_ERR_LIMIT,
                   "w.json: more than 64 MiB of JSON; write the weights as safetensors");
    free(bytes);

    size = (size_t)2 * (NS_TENSORS_MAX_IN_TEXT + 1) + 7;
    bytes = malloc(size + 1);
    memcpy(bytes, "{\"a\":[", 6);
    for (size_t i = 6; i < size; i += 2) memcpy(bytes + i, "0,", 2);
    memcpy(bytes + size - 2, "]}", 3);
    assert_refused(bytes, size, "w.json", NS_ERR_LIMIT,
                   "w.json: tensor \"a\": more than 1048576 numbers in one JSON file");
    free(bytes);

    // As many numbers as JSON may have, in one column, which takes the most text; one more is not
    // written.
    double* column = calloc(NS_TENSORS_MAX_IN_TEXT + 1, sizeof *column);
    ns_tensor long_one = {"a", NS_TENSORS_MAX_IN_TEXT, 1, column};
    assert_int_equal(ns_tensors_print(&long_one, 1, NS_TENSORS_JSON, NULL, &text, NULL), NS_OK);
    ns_tensors tensors = parse(text.data, text.size, "w.json");
    assert_same(&tensors, &long_one, 1);
    ns_tensors_free(&tensors);
    ns_text_free(&text);
    long_one.rows++;
    assert_int_equal(ns_tensors_print(&long_one, 1, NS_TENSORS_JSON, NULL, &text, &error),
                     NS_ERR_LIMIT);
    assert_string_equal(error.message,
                        "tensor \"a\" is too much for JSON; write the weights as safetensors");
    ns_tensor two[2] = {{"a", 1 << 25, 1, column}, {"b", 1 << 16, (1 << 16) - 1, column}};
    assert_int_equal(ns_tensors_print(two + 1, 1, NS_TENSORS_F64, NULL, &text, &error),
                     NS_ERR_LIMIT);
    assert_string_equal(error.message, "tensor \"b\" is too much for one file");
    free(column);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_headers_get_a_message),
        cmocka_unit_test(lengths_of_the_header_are_checked),
        cmocka_unit_test(numbers_that_are_not_finite_are_refused),
        cmocka_unit_test(broken_json_gets_a_message),
        cmocka_unit_test(json_is_read),
        cmocka_unit_test(limits_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
