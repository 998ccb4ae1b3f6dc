// Named matrices in safetensors and JSON files.

#include "neuralsim/tensors.h"

#include "base/common.h"

#include "io/file.h"
#include "io/numbers.h"
#include "io/utf8.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

bool ns_tensors_is_json(const char* path) {
    size_t size = strlen(path);
    return size >= 5 && strcmp(path + size - 5, ".json") == 0;
}

#define METADATA "__metadata__"

// What is wrong with a name, or NULL.
static const char* name_fault(const char* name) {
    size_t size = strlen(name);
    if (size > NS_TENSORS_MAX_NAME) return "is longer than 1023 bytes";
    if (strcmp(name, METADATA) == 0) return "is not for tensors in safetensors files";
    return nsi_line_fault(name, size);
}

// ---- reading -------------------------------------------------------------------------------

typedef struct reader {
    const char* file;
    ns_error* error;
    nsi_arena* arena;
    uint64_t numbers; // of the tensors so far
    uint64_t most;    // of all tensors
} reader;

static ns_status fail_file(const reader* r, ns_status status, const char* format, ...)
    NSI_PRINTF(3, 4);
static ns_status fail_file(const reader* r, ns_status status, const char* format, ...) {
    char what[NS_ERROR_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_fail(r->error, status, "%.200s: %s", r->file, what);
}

// "file: tensor "name": " and the message.
static ns_status fail_tensor(const reader* r, const char* name, ns_status status,
                             const char* format, ...) NSI_PRINTF(4, 5);
static ns_status fail_tensor(const reader* r, const char* name, ns_status status,
                             const char* format, ...) {
    char what[NS_ERROR_SIZE], quote[NSI_QUOTE_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    return nsi_fail(r->error, status, "%.200s: tensor %s: %s", r->file,
                    nsi_quote(name, strlen(name), quote), what);
}

// Bound what jansson will need: each value takes memory, and each level takes stack.
static ns_status tensors_check_text(const reader* r, const char* text, size_t size) {
    enum { DEEPEST = 16 };
    uint32_t depth = 0, values = 0, line = 1;
    bool in_string = false;
    for (size_t i = 0; i < size; i++) {
        char c = text[i];
        line += c == '\n';
        if (in_string) {
            if (c == '\\') i++;
            if (c == '"') in_string = false;
            continue;
        }
        in_string = c == '"';
        bool opens = c == '[' || c == '{';
        depth += opens;
        if ((c == ']' || c == '}') && depth > 0) depth--;
        values += opens || c == ',';
        if (depth > DEEPEST || values > NS_TENSORS_MAX_VALUES) {
            return fail_file(r, NS_ERR_LIMIT, "line %u: %s", line,
                             depth > DEEPEST ? "lists are nested more than 16 deep"
                                             : "more values than are read from text; write the"
                                               " weights as safetensors");
        }
    }
    return NS_OK;
}

// `header`: positions count bytes of the header, else lines and columns of the file.
static ns_status load_json(const reader* r, const char* text, size_t size, bool header,
                           json_t** out) {
    ns_status status = tensors_check_text(r, text, size);
    if (status != NS_OK) return status;
    size_t flags = JSON_REJECT_DUPLICATES | (header ? 0u : JSON_DECODE_INT_AS_REAL);
    json_error_t error = {.text = ""};
    *out = json_loadb(text, size, flags, &error);
    if (*out) return NS_OK;
    if (json_error_code(&error) == json_error_out_of_memory || error.text[0] == '\0') {
        return nsi_fail_nomem(r->error);
    }
    for (char* at = error.text; *at; at++) { // it quotes the file
        if ((unsigned char)*at < 0x20 || *at == 0x7F) *at = '?';
    }
    if (header) {
        return fail_file(r, NS_ERR_PARSE, "header, byte %d: %s", error.position, error.text);
    }
    return nsi_fail(r->error, NS_ERR_PARSE, "%.200s:%d:%d: %s", r->file, error.line, error.column,
                    error.text);
}

static ns_status tensors_check_count(const reader* r, size_t count) {
    if (count <= NS_TENSORS_MAX_COUNT) return NS_OK;
    return fail_file(r, NS_ERR_LIMIT, "%zu tensors, more than %d", count, NS_TENSORS_MAX_COUNT);
}

// Name and size of a tensor; both sizes are at most 2^63.
static ns_status set_shape(reader* r, ns_tensor* tensor, const char* name, uint64_t rows,
                           uint64_t columns) {
    const char* fault = name_fault(name);
    if (fault) return fail_tensor(r, name, NS_ERR_PARSE, "the name %s", fault);
    if (rows == 0 || columns == 0) {
        return fail_tensor(r, name, NS_ERR_PARSE, "it is empty; leave it out");
    }
    const uint64_t most = r->most;
    if (rows > most || columns > most || rows * columns > most - r->numbers) {
        return fail_tensor(r, name, NS_ERR_LIMIT, "more than %" PRIu64 " numbers in one %sfile",
                           most, most == NS_TENSORS_MAX_IN_TEXT ? "JSON " : "");
    }
    r->numbers += rows * columns;
    tensor->name = nsi_arena_string(r->arena, name, strlen(name));
    tensor->rows = (uint32_t)rows;
    tensor->columns = (uint32_t)columns;
    return tensor->name ? NS_OK : nsi_fail_nomem(r->error);
}

static double* alloc_numbers(reader* r, const ns_tensor* tensor) {
    return nsi_arena_alloc(r->arena, (size_t)tensor->rows * tensor->columns * sizeof(double));
}

// ---- safetensors: numbers --------------------------------------------------------------------

static uint64_t read_little(const unsigned char* at, uint32_t bytes) {
    uint64_t value = 0;
    for (uint32_t i = 0; i < bytes; i++) value |= (uint64_t)at[i] << (8 * i);
    return value;
}

static void add_little(nsi_text_builder* text, uint64_t value, uint32_t bytes) {
    char little[8];
    for (uint32_t i = 0; i < bytes; i++) little[i] = (char)(value >> (8 * i) & 0xFF);
    nsi_text_add_bytes(text, little, bytes);
}

static double decode_f64(uint64_t bits) {
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static double decode_f32(uint64_t bits) {
    uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    return (double)value;
}

static uint64_t encode_f64(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static uint64_t encode_f32(double value) {
    float rounded = (float)value;
    uint32_t bits;
    memcpy(&bits, &rounded, sizeof bits);
    return bits;
}

// IEEE 754 binary16: sign, 5 bits of exponent with bias 15, 10 of fraction.
static double decode_f16(uint64_t bits) {
    int exponent = (int)(bits >> 10 & 0x1F);
    double fraction = (double)(bits & 0x3FF);
    double size = exponent == 0x1F ? (fraction > 0.0 ? (double)NAN : (double)INFINITY)
                  : exponent == 0  ? ldexp(fraction, -24)
                                   : ldexp(fraction + 1024.0, exponent - 25);
    return bits & 0x8000 ? -size : size;
}

// The upper half of an F32.
static double decode_bf16(uint64_t bits) {
    return decode_f32(bits << 16);
}

typedef struct dtype {
    const char* name;
    uint32_t size; // bytes
    double (*decode)(uint64_t bits);
} dtype;

static const dtype dtypes[] = {
    {"F64", 8, decode_f64},
    {"F32", 4, decode_f32},
    {"F16", 2, decode_f16},
    {"BF16", 2, decode_bf16},
};

static const dtype* find_dtype(const char* name) {
    for (size_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
        if (strcmp(dtypes[k].name, name) == 0) return &dtypes[k];
    }
    return NULL;
}

static ns_status decode(reader* r, const dtype* type, const unsigned char* bytes,
                        ns_tensor* tensor) {
    double* numbers = alloc_numbers(r, tensor);
    if (!numbers) return nsi_fail_nomem(r->error);
    uint32_t count = tensor->rows * tensor->columns;
    for (uint32_t i = 0; i < count; i++) {
        numbers[i] = type->decode(read_little(bytes + (size_t)i * type->size, type->size));
        if (!isfinite(numbers[i])) {
            return fail_tensor(r, tensor->name, NS_ERR_NONFINITE,
                               "row %u, column %u is not finite (both count from 0)",
                               i / tensor->columns, i % tensor->columns);
        }
    }
    tensor->data = numbers;
    return NS_OK;
}

// ---- safetensors: header ---------------------------------------------------------------------

// A tensor and where its bytes are.
typedef struct entry {
    ns_tensor tensor;
    const dtype* type;
    uint64_t begin, end;
    uint32_t number; // in the header
} entry;

// A list of up to `most` integers that are not negative; false when it is not that.
static bool read_sizes(const json_t* list, uint64_t* out, size_t most, size_t* count) {
    if (!json_is_array(list)) return false;
    *count = json_array_size(list);
    for (size_t k = 0; k < *count; k++) {
        const json_t* item = json_array_get(list, k);
        if (!json_is_integer(item) || json_integer_value(item) < 0) return false;
        if (k < most) out[k] = (uint64_t)json_integer_value(item);
    }
    return true;
}

static ns_status tensors_check_keys(const reader* r, const char* name, json_t* info) {
    for (void* at = json_object_iter(info); at; at = json_object_iter_next(info, at)) {
        const char* key = json_object_iter_key(at);
        char quote[NSI_QUOTE_SIZE];
        if (strcmp(key, "dtype") != 0 && strcmp(key, "shape") != 0 &&
            strcmp(key, "data_offsets") != 0) {
            return fail_tensor(r, name, NS_ERR_PARSE,
                               "unknown key %s; dtype, shape and data_offsets are known",
                               nsi_quote(key, strlen(key), quote));
        }
    }
    return NS_OK;
}

static ns_status tensors_read_shape(reader* r, const char* name, const json_t* info,
                                    ns_tensor* tensor) {
    uint64_t shape[2] = {0};
    size_t dimensions;
    if (!read_sizes(json_object_get(info, "shape"), shape, 2, &dimensions)) {
        return fail_tensor(r, name, NS_ERR_PARSE,
                           "shape must be a list of whole numbers, none negative");
    }
    if (dimensions == 1) return set_shape(r, tensor, name, 1, shape[0]);
    if (dimensions == 2) return set_shape(r, tensor, name, shape[0], shape[1]);
    return fail_tensor(r, name, NS_ERR_UNSUPPORTED,
                       "it has %zu dimensions; tensors of 1 or 2 are read", dimensions);
}

static ns_status read_dtype(const reader* r, const char* name, const json_t* info, entry* e) {
    const char* text = json_string_value(json_object_get(info, "dtype"));
    char quote[NSI_QUOTE_SIZE];
    if (!text) return fail_tensor(r, name, NS_ERR_PARSE, "dtype must be a text such as \"F64\"");
    e->type = find_dtype(text);
    if (e->type) return NS_OK;
    return fail_tensor(r, name, NS_ERR_UNSUPPORTED,
                       "dtype %s is not read; convert it to F64, F32, F16 or BF16",
                       nsi_quote(text, strlen(text), quote));
}

// `size` is that of the data.
static ns_status read_offsets(const reader* r, const json_t* info, uint64_t size, entry* e) {
    const ns_tensor* tensor = &e->tensor;
    uint64_t offsets[2] = {0};
    size_t count;
    if (!read_sizes(json_object_get(info, "data_offsets"), offsets, 2, &count) || count != 2 ||
        offsets[0] > offsets[1]) {
        return fail_tensor(r, tensor->name, NS_ERR_PARSE,
                           "data_offsets must be two whole numbers, begin and end");
    }
    e->begin = offsets[0];
    e->end = offsets[1];
    if (e->end > size) {
        return fail_tensor(r, tensor->name, NS_ERR_PARSE,
                           "it ends at byte %" PRIu64 " of %" PRIu64
                           " bytes of data; the file is cut off or its header is wrong",
                           e->end, size);
    }
    uint64_t needed = (uint64_t)tensor->rows * tensor->columns * e->type->size;
    if (e->end - e->begin != needed) {
        return fail_tensor(r, tensor->name, NS_ERR_PARSE,
                           "data_offsets give it %" PRIu64 " bytes; %u x %u numbers of type %s are"
                           " %" PRIu64,
                           e->end - e->begin, tensor->rows, tensor->columns, e->type->name, needed);
    }
    return NS_OK;
}

static ns_status read_entry(reader* r, const char* name, json_t* info, uint64_t size, entry* e) {
    if (!json_is_object(info)) {
        return fail_tensor(r, name, NS_ERR_PARSE,
                           "it must be an object with dtype, shape and data_offsets");
    }
    ns_status status = tensors_check_keys(r, name, info);
    if (status == NS_OK) status = read_dtype(r, name, info, e);
    if (status == NS_OK) status = tensors_read_shape(r, name, info, &e->tensor);
    if (status == NS_OK) status = read_offsets(r, info, size, e);
    return status;
}

static ns_status check_metadata(const reader* r, json_t* metadata) {
    bool good = json_is_object(metadata);
    for (void* at = json_object_iter(metadata); good && at;
         at = json_object_iter_next(metadata, at)) {
        good = json_is_string(json_object_iter_value(at));
    }
    return good ? NS_OK : fail_file(r, NS_ERR_PARSE, METADATA " must be an object of texts");
}

static int compare_entries(const void* left, const void* right) {
    const entry *a = left, *b = right;
    if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

// Sorted entries cover the data: each begins where the one before it ends.
static ns_status check_cover(const reader* r, const entry* entries, uint32_t count, uint64_t size) {
    uint64_t at = 0;
    for (uint32_t k = 0; k < count; k++) {
        const entry* e = &entries[k];
        char quote[NSI_QUOTE_SIZE];
        if (e->begin < at) {
            const char* other = entries[k - 1].tensor.name;
            return fail_tensor(r, e->tensor.name, NS_ERR_PARSE,
                               "its data overlaps that of tensor %s at byte %" PRIu64,
                               nsi_quote(other, strlen(other), quote), e->begin);
        }
        if (e->begin > at) {
            return fail_tensor(r, e->tensor.name, NS_ERR_PARSE,
                               "bytes %" PRIu64 " to %" PRIu64
                               " of the data, before it, belong to no tensor",
                               at, e->begin);
        }
        at = e->end;
    }
    if (at == size) return NS_OK;
    return fail_file(r, NS_ERR_PARSE,
                     "the last %" PRIu64 " bytes belong to no tensor; the header is wrong",
                     size - at);
}

static ns_status tensors_read_entries(reader* r, json_t* root, uint64_t size, entry* entries,
                                      uint32_t* count) {
    for (void* at = json_object_iter(root); at; at = json_object_iter_next(root, at)) {
        const char* name = json_object_iter_key(at);
        json_t* info = json_object_iter_value(at);
        bool metadata = strcmp(name, METADATA) == 0;
        entry* e = &entries[*count];
        *e = (entry){.number = *count};
        ns_status status = metadata ? check_metadata(r, info) : read_entry(r, name, info, size, e);
        if (status != NS_OK) return status;
        *count += !metadata;
    }
    qsort(entries, *count, sizeof *entries, compare_entries);
    return check_cover(r, entries, *count, size);
}

static ns_status read_header_object(reader* r, json_t* root, const unsigned char* data,
                                    uint64_t size, ns_tensors* out) {
    size_t most = json_object_size(root);
    ns_status status = tensors_check_count(r, most - (json_object_get(root, METADATA) ? 1 : 0));
    if (status != NS_OK) return status;
    const ns_allocator* allocator = &r->arena->allocator;
    entry* entries = nsi_alloc(allocator, most * sizeof *entries);
    ns_tensor* tensors = nsi_arena_alloc(r->arena, most * sizeof *tensors);
    uint32_t count = 0;
    if (!entries || !tensors) {
        status = nsi_fail_nomem(r->error);
    } else {
        status = tensors_read_entries(r, root, size, entries, &count);
    }
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        tensors[k] = entries[k].tensor;
        status = decode(r, entries[k].type, data + entries[k].begin, &tensors[k]);
    }
    nsi_free(allocator, entries);
    out->data = tensors;
    out->count = count;
    return status;
}

enum { LENGTH_SIZE = 8 }; // bytes of the header's length

static ns_status read_safetensors(reader* r, const unsigned char* bytes, size_t size,
                                  ns_tensors* out) {
    // The length of the header also reveals files of another format.
    if (size < LENGTH_SIZE) {
        return fail_file(r, NS_ERR_PARSE,
                         "%zu bytes are too few for a safetensors file; name JSON files .json",
                         size);
    }
    // 8 bytes, little endian.
    uint64_t length = read_little(bytes, LENGTH_SIZE);
    // JSON text read as a length is a huge number.
    if (length > NS_TENSORS_MAX_HEADER && bytes[0] == '{') {
        return fail_file(r, NS_ERR_PARSE,
                         "it starts like JSON, not like safetensors; name JSON files .json");
    }
    if (length > NS_TENSORS_MAX_HEADER) {
        return fail_file(r, NS_ERR_LIMIT,
                         "its header would be %" PRIu64
                         " bytes long, more than %d MiB; is this a safetensors file?",
                         length, NS_TENSORS_MAX_HEADER >> 20);
    }
    if (length > size - LENGTH_SIZE) {
        return fail_file(r, NS_ERR_PARSE,
                         "it ends within its header, after %zu of %" PRIu64 " bytes",
                         size - LENGTH_SIZE, length);
    }

    // The header must be a JSON object.
    const unsigned char *header = bytes + LENGTH_SIZE, *data = header + length;
    if (length == 0 || header[0] != '{') {
        return fail_file(r, NS_ERR_PARSE,
                         "its header does not start with {; is this a safetensors file?");
    }

    // Read the tensors that it describes from the rest of the file.
    json_t* root = NULL;
    ns_status status = load_json(r, (const char*)header, (size_t)length, true, &root);
    if (status != NS_OK) return status;
    // Offsets in the header are relative to its end.
    status = read_header_object(r, root, data, size - LENGTH_SIZE - length, out);
    json_decref(root);
    return status;
}

// ---- JSON ------------------------------------------------------------------------------------

static ns_status read_row(const reader* r, const ns_tensor* tensor, uint32_t row,
                          const json_t* list, double* numbers) {
    if (!json_is_array(list)) {
        return fail_tensor(r, tensor->name, NS_ERR_PARSE,
                           "row %u (counted from 0) is not a list of numbers", row);
    }
    if (json_array_size(list) != tensor->columns) {
        return fail_tensor(r, tensor->name, NS_ERR_PARSE,
                           "row %u (counted from 0) has %zu numbers, row 0 has %u", row,
                           json_array_size(list), tensor->columns);
    }
    for (uint32_t k = 0; k < tensor->columns; k++) {
        const json_t* item = json_array_get(list, k);
        if (!json_is_real(item)) {
            return fail_tensor(r, tensor->name, NS_ERR_PARSE,
                               "row %u, column %u (counted from 0) is not a number", row, k);
        }
        numbers[k] = json_real_value(item);
    }
    return NS_OK;
}

static ns_status read_matrix(reader* r, const char* name, const json_t* list, ns_tensor* tensor) {
    // Rows of numbers, or a single row.
    if (!json_is_array(list)) {
        return fail_tensor(r, name, NS_ERR_PARSE, "it must be a list of rows of numbers");
    }
    const json_t* first = json_array_get(list, 0);
    // A list of numbers is a matrix of one row.
    bool single = json_is_real(first); // the list is the only row
    uint64_t rows = single ? 1 : json_array_size(list);
    uint64_t columns = single ? json_array_size(list) : json_array_size(first);
    // Anything else cannot be a weight.
    if (first && !single && !json_is_array(first)) {
        return fail_tensor(r, name, NS_ERR_PARSE, "it must be a list of rows of numbers");
    }

    // Check the shape against the limits.
    ns_status status = set_shape(r, tensor, name, rows, columns);
    if (status != NS_OK) return status;

    // Compare row lengths before allocating: short rows cost a hostile file little.
    for (uint32_t row = 0; row < rows && !single; row++) {
        const json_t* item = json_array_get(list, row);
        if (!json_is_array(item) || json_array_size(item) != columns) {
            return read_row(r, tensor, row, item, NULL);
        }
    }

    // Allocate, and convert row by row.
    double* numbers = alloc_numbers(r, tensor);
    if (!numbers) return nsi_fail_nomem(r->error);
    for (uint32_t row = 0; row < rows && status == NS_OK; row++) {
        status = read_row(r, tensor, row, single ? list : json_array_get(list, row),
                          numbers + (size_t)row * tensor->columns);
    }
    tensor->data = numbers;
    return status;
}

static ns_status read_text_object(reader* r, json_t* root, ns_tensors* out) {
    ns_status status = tensors_check_count(r, json_object_size(root));
    if (status != NS_OK) return status;
    ns_tensor* tensors = nsi_arena_alloc(r->arena, json_object_size(root) * sizeof *tensors);
    if (!tensors) return nsi_fail_nomem(r->error);
    for (void* at = json_object_iter(root); at && status == NS_OK;
         at = json_object_iter_next(root, at)) {
        ns_tensor* tensor = &tensors[out->count++];
        *tensor = (ns_tensor){0};
        status = read_matrix(r, json_object_iter_key(at), json_object_iter_value(at), tensor);
    }
    out->data = tensors;
    return status;
}

static ns_status tensors_read_text(reader* r, const char* text, size_t size, ns_tensors* out) {
    if (size > NS_TENSORS_MAX_TEXT) {
        return fail_file(r, NS_ERR_LIMIT,
                         "more than %d MiB of JSON; write the weights as safetensors",
                         NS_TENSORS_MAX_TEXT >> 20);
    }
    json_t* root = NULL;
    ns_status status = load_json(r, text, size, false, &root);
    if (status != NS_OK) return status;
    status =
        json_is_object(root)
            ? read_text_object(r, root, out)
            : fail_file(r, NS_ERR_PARSE, "it must be an object with a list of rows for each name");
    json_decref(root);
    return status;
}

// ---- both ------------------------------------------------------------------------------------

ns_status ns_tensors_parse(const void* bytes, size_t size, const char* name,
                           const ns_allocator* allocator, ns_tensors* out, ns_error* error) {
    *out = (ns_tensors){.allocator = allocator ? *allocator : ns_default_allocator()};
    nsi_arena arena = {.allocator = out->allocator};
    reader r = {.file = name, .error = error, .arena = &arena};
    bool json = ns_tensors_is_json(name);
    r.most = json ? NS_TENSORS_MAX_IN_TEXT : NS_TENSORS_MAX_NUMBERS;
    ns_status status =
        json ? tensors_read_text(&r, bytes, size, out) : read_safetensors(&r, bytes, size, out);
    out->memory = arena.chunks;
    if (status != NS_OK) ns_tensors_free(out);
    return status;
}

ns_status ns_tensors_read(const char* path, const ns_allocator* allocator, ns_tensors* out,
                          ns_error* error) {
    *out = (ns_tensors){0};
    ns_allocator memory = allocator ? *allocator : ns_default_allocator();
    const uint32_t largest =
        LENGTH_SIZE + NS_TENSORS_MAX_HEADER + (uint32_t)NS_TENSORS_MAX_NUMBERS * sizeof(double);
    nsi_bytes bytes = {0};
    // One byte past the limit is read: it belongs to no tensor, or makes the text too long.
    ns_status status = nsi_file_read(path, ns_tensors_is_json(path) ? NS_TENSORS_MAX_TEXT : largest,
                                     &memory, &bytes, error);
    if (status == NS_OK) {
        status = ns_tensors_parse(bytes.data, bytes.count, path, &memory, out, error);
    }
    nsi_array_free(&memory, &bytes);
    return status;
}

void ns_tensors_free(ns_tensors* tensors) {
    if (!tensors) return;
    nsi_arena arena = {.allocator = tensors->allocator, .chunks = tensors->memory};
    nsi_arena_free(&arena);
    tensors->memory = NULL;
    tensors->data = NULL;
    tensors->count = 0;
}

// ---- writing -----------------------------------------------------------------------------------

static ns_status fail_argument(const char* name, ns_status status, const char* what,
                               ns_error* error) {
    char quote[NSI_QUOTE_SIZE];
    return nsi_fail(error, status, "tensor %s %s", nsi_quote(name, strlen(name), quote), what);
}

static ns_status check_tensor(const ns_tensor* tensor, ns_tensor_form form, uint64_t* numbers,
                              ns_error* error) {
    // Validate the name.
    // The name is a key of the header.
    if (!tensor->name || !tensor->data) {
        return nsi_fail(error, NS_ERR_ARGUMENT, "a tensor has no name or no data");
    }
    const char* fault = name_fault(tensor->name);
    if (fault) {
        char quote[NSI_QUOTE_SIZE];
        return nsi_fail(error, NS_ERR_ARGUMENT, "%s as a tensor's name %s",
                        nsi_quote(tensor->name, strlen(tensor->name), quote), fault);
    }

    // Limit the total over all tensors, to what a reader of the format accepts.
    uint64_t count = (uint64_t)tensor->rows * tensor->columns;
    // Empty tensors cannot be told from missing ones.
    if (count == 0) return fail_argument(tensor->name, NS_ERR_ARGUMENT, "is empty", error);
    bool text = form == NS_TENSORS_JSON;
    uint64_t most = text ? NS_TENSORS_MAX_IN_TEXT : NS_TENSORS_MAX_NUMBERS;
    // Text needs more memory for a number.
    if (count > most - *numbers) {
        return fail_argument(tensor->name, NS_ERR_LIMIT,
                             text ? "is too much for JSON; write the weights as safetensors"
                                  : "is too much for one file",
                             error);
    }

    *numbers += count;

    // All numbers must survive the conversion.
    for (uint64_t i = 0; i < count; i++) {
        if (!isfinite(tensor->data[i])) {
            return fail_argument(tensor->name, NS_ERR_NONFINITE,
                                 "has a number that is not finite; nothing was written", error);
        }
        // From here on numbers round to infinity: half a unit above the largest float.
        if (form == NS_TENSORS_F32 && fabs(tensor->data[i]) >= 0x1.ffffffp127) {
            return fail_argument(tensor->name, NS_ERR_ARGUMENT,
                                 "has a number too large for F32; write F64", error);
        }
    }
    return NS_OK;
}

static bool tensors_is_in(const nsi_index* index, const ns_tensor* tensors, uint32_t hash,
                          const char* name) {
    if (!index->ids) return false;
    for (uint32_t at = nsi_index_first(index, hash), id; nsi_index_at(index, at, &id);
         at = nsi_index_next(index, at)) {
        if (strcmp(tensors[id].name, name) == 0) return true;
    }
    return false;
}

static ns_status check_unique(const ns_tensor* tensors, uint32_t count,
                              const ns_allocator* allocator, ns_error* error) {
    nsi_index index = {0};
    ns_status status = NS_OK;
    for (uint32_t k = 0; k < count && status == NS_OK; k++) {
        const char* name = tensors[k].name;
        uint32_t hash = nsi_hash_bytes(name, strlen(name));
        if (tensors_is_in(&index, tensors, hash, name)) {
            status = fail_argument(name, NS_ERR_ARGUMENT, "is given twice", error);
        } else if (!nsi_index_insert(allocator, &index, hash, k)) {
            status = nsi_fail_nomem(error);
        }
    }
    nsi_index_free(allocator, &index);
    return status;
}

static ns_status check_tensors(const ns_tensor* tensors, uint32_t count, ns_tensor_form form,
                               const ns_allocator* allocator, ns_error* error) {
    if (count > NS_TENSORS_MAX_COUNT) {
        return nsi_fail(error, NS_ERR_LIMIT, "%u tensors, more than %d", count,
                        NS_TENSORS_MAX_COUNT);
    }
    uint64_t numbers = 0;
    for (uint32_t k = 0; k < count; k++) {
        ns_status status = check_tensor(&tensors[k], form, &numbers, error);
        if (status != NS_OK) return status;
    }
    return check_unique(tensors, count, allocator, error);
}

// In quotes. Names have no control characters.
static void tensors_add_name(nsi_text_builder* text, const char* name) {
    nsi_text_add_bytes(text, "\"", 1);
    for (; *name; name++) {
        if (*name == '"' || *name == '\\') nsi_text_add_bytes(text, "\\", 1);
        nsi_text_add_bytes(text, name, 1);
    }
    nsi_text_add_bytes(text, "\"", 1);
}

static void add_header(nsi_text_builder* text, const ns_tensor* tensors, uint32_t count,
                       const dtype* type) {
    uint64_t begin = 0;
    nsi_text_add_bytes(text, "{", 1);
    for (uint32_t k = 0; k < count; k++) {
        const ns_tensor* tensor = &tensors[k];
        uint64_t end = begin + (uint64_t)tensor->rows * tensor->columns * type->size;
        if (k > 0) nsi_text_add_bytes(text, ",", 1);
        tensors_add_name(text, tensor->name);
        nsi_text_add(text,
                     ":{\"dtype\":\"%s\",\"shape\":[%u,%u],\"data_offsets\":[%" PRIu64 ",%" PRIu64
                     "]}",
                     type->name, tensor->rows, tensor->columns, begin, end);
        begin = end;
    }
    nsi_text_add_bytes(text, "}", 1);
    while (text->text.count % 8 != 0 && !text->failed) nsi_text_add_bytes(text, " ", 1);
}

static ns_status add_safetensors(nsi_text_builder* text, const ns_tensor* tensors, uint32_t count,
                                 bool single, ns_error* error) {
    // Format the header first, since its length precedes it.
    // All tensors have one type.
    const dtype* type = find_dtype(single ? "F32" : "F64");
    nsi_text_builder header = {.allocator = text->allocator};
    add_header(&header, tensors, count, type);
    ns_text finished;
    // Errors of the builder appear here.
    ns_status status = nsi_text_finish(&header, &finished, error);
    if (status != NS_OK) return status;

    // Reading refuses larger headers.
    if (finished.size > NS_TENSORS_MAX_HEADER) {
        ns_text_free(&finished);
        return nsi_fail(error, NS_ERR_LIMIT,
                        "names and shapes of the tensors take more than"
                        " %d MiB; write several files",
                        NS_TENSORS_MAX_HEADER >> 20);
    }

    // Length, header, data.
    add_little(text, finished.size, LENGTH_SIZE);
    nsi_text_add_bytes(text, finished.data, finished.size);
    ns_text_free(&finished);

    // Numbers of all tensors, little endian, in the order of the header.
    for (uint32_t k = 0; k < count && !text->failed; k++) {
        uint32_t numbers = tensors[k].rows * tensors[k].columns;
        for (uint32_t i = 0; i < numbers; i++) {
            double number = tensors[k].data[i];
            // Independent of the byte order of the machine.
            add_little(text, single ? encode_f32(number) : encode_f64(number), type->size);
        }
    }
    return NS_OK;
}

static void tensors_add_row(nsi_text_builder* text, const double* row, uint32_t columns) {
    nsi_text_add_bytes(text, "[", 1);
    for (uint32_t k = 0; k < columns; k++) {
        if (k > 0) nsi_text_add_bytes(text, ", ", 2);
        nsi_text_add_double(text, row[k]);
    }
    nsi_text_add_bytes(text, "]", 1);
}

static ns_status tensors_add_text(nsi_text_builder* text, const ns_tensor* tensors, uint32_t count,
                                  ns_error* error) {
    nsi_text_add(text, "{");
    for (uint32_t k = 0; k < count; k++) {
        const ns_tensor* tensor = &tensors[k];
        nsi_text_add(text, k > 0 ? ",\n  " : "\n  ");
        tensors_add_name(text, tensor->name);
        nsi_text_add(text, ": [");
        for (uint32_t row = 0; row < tensor->rows; row++) {
            nsi_text_add(text, row > 0 ? ",\n    " : "\n    ");
            tensors_add_row(text, tensor->data + (size_t)row * tensor->columns, tensor->columns);
        }
        nsi_text_add(text, "\n  ]");
    }
    nsi_text_add(text, "\n}\n");
    if (text->text.count <= NS_TENSORS_MAX_TEXT) return NS_OK;
    return nsi_fail(error, NS_ERR_LIMIT,
                    "the tensors take more than %d MiB as JSON; write them as safetensors",
                    NS_TENSORS_MAX_TEXT >> 20);
}

ns_status ns_tensors_print(const ns_tensor* tensors, uint32_t count, ns_tensor_form form,
                           const ns_allocator* allocator, ns_text* out, ns_error* error) {
    *out = (ns_text){0};
    nsi_text_builder text = {.allocator = allocator ? *allocator : ns_default_allocator()};
    ns_status status = check_tensors(tensors, count, form, &text.allocator, error);
    if (status != NS_OK) return status;
    status = form == NS_TENSORS_JSON
                 ? tensors_add_text(&text, tensors, count, error)
                 : add_safetensors(&text, tensors, count, form == NS_TENSORS_F32, error);
    if (status != NS_OK) {
        nsi_array_free(&text.allocator, &text.text);
        return status;
    }
    return nsi_text_finish(&text, out, error);
}

ns_status ns_tensors_write(const char* path, const ns_tensor* tensors, uint32_t count, bool single,
                           const ns_allocator* allocator, ns_error* error) {
    ns_tensor_form form = ns_tensors_is_json(path) ? NS_TENSORS_JSON
                          : single                 ? NS_TENSORS_F32
                                                   : NS_TENSORS_F64;
    ns_text text;
    ns_error inner;
    ns_status status = ns_tensors_print(tensors, count, form, allocator, &text, &inner);
    if (status == NS_ERR_NOMEM) return nsi_fail_nomem(error);
    if (status != NS_OK) return nsi_fail(error, status, "%.200s: %s", path, inner.message);
    status = nsi_file_write(path, text.data, text.size, allocator, error);
    ns_text_free(&text);
    return status;
}
