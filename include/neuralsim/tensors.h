/// @file tensors.h
/// Named matrices of doubles in files: weights of networks.
///
///     ns_tensors weights;
///     ns_tensors_read("policy.safetensors", NULL, &weights, &error);
///     for (uint32_t k = 0; k < weights.count; k++) puts(weights.data[k].name);
///     ns_tensors_free(&weights);
///
/// The name of the file decides between two formats:
///
///     drag.json       {"drag/w0": [[0.5, -1], [2, 0]], ...}, row by row, one row a line; numbers read
///                     back bit for bit. A plain list of numbers is one row.
///     anything else   safetensors (https://github.com/huggingface/safetensors): 8 bytes with the
///                     length of a header, little-endian; the header, JSON that gives type, shape and
///                     place of each tensor; their numbers. F64, F32, F16 and BF16 are read, F64 or
///                     F32 written. Tensors have one dimension (a row) or two.
///
/// Files may come from anywhere: sizes are checked before memory is allocated, and tensors must cover
/// the data without overlap and without holes, as the format demands. "__metadata__" must be what the
/// format allows and is ignored. Numbers must be finite and tensors not empty. jansson takes its memory
/// from malloc, not from the allocator; NS_TENSORS_MAX_VALUES bounds it to about 400 MB.

#ifndef NEURALSIM_TENSORS_H
#define NEURALSIM_TENSORS_H

#include "neuralsim/base.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    NS_TENSORS_MAX_COUNT = 65536,
    NS_TENSORS_MAX_NUMBERS = 1 << 26,             ///< in all tensors
    NS_TENSORS_MAX_NAME = 1023,                   ///< bytes
    NS_TENSORS_MAX_HEADER = 16 << 20,             ///< bytes, safetensors
    NS_TENSORS_MAX_TEXT = 64 << 20,               ///< bytes, JSON
    NS_TENSORS_MAX_IN_TEXT = 1 << 20,             ///< numbers, JSON
    NS_TENSORS_MAX_VALUES = (1 << 21) + (1 << 20) ///< commas and opening brackets, header or JSON
};

typedef struct ns_tensor {
    const char* name; ///< one line of UTF-8; not "__metadata__"
    uint32_t rows, columns;
    const double* data; ///< (rows x columns), row-major
} ns_tensor;

typedef struct ns_tensors {
    uint32_t count;
    const ns_tensor* data; ///< (count) in the order of the file
    ns_allocator allocator;
    void* memory; ///< holds them; private
} ns_tensors;

/// Read a file, or bytes from memory. `out` is to be freed after success, and may be in any case.
/// @param allocator  NULL for the default one
/// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE; NS_ERR_UNSUPPORTED (type, dimensions); NS_ERR_NONFINITE;
///         NS_ERR_LIMIT; NS_ERR_NOMEM. Messages start with the file, and for malformed JSON its line
///         and column, and name the tensor
NS_API ns_status ns_tensors_read(const char* path, const ns_allocator* allocator, ns_tensors* out,
                                 ns_error* error);
NS_API ns_status ns_tensors_parse(const void* bytes, size_t size, const char* name,
                                  const ns_allocator* allocator, ns_tensors* out, ns_error* error);
NS_API void ns_tensors_free(ns_tensors* tensors); ///< NULL, zeroed and freed ones are allowed

typedef enum ns_tensor_form {
    NS_TENSORS_F64, ///< safetensors
    NS_TENSORS_F32, ///< safetensors, numbers rounded; those too large for a float are refused
    NS_TENSORS_JSON
} ns_tensor_form;

/// The form in which a file of this name is read: JSON or one of the others.
NS_API bool ns_tensors_is_json(const char* path);

/// The bytes of a file, or the file itself, which is replaced in one go (nsi_file_write). The same
/// tensors give the same bytes.
/// @param single  write F32; no meaning for JSON
/// @return NS_OK; NS_ERR_ARGUMENT, NS_ERR_NONFINITE, NS_ERR_LIMIT naming the tensor; NS_ERR_IO,
///         NS_ERR_NOMEM
NS_API ns_status ns_tensors_print(const ns_tensor* tensors, uint32_t count, ns_tensor_form form,
                                  const ns_allocator* allocator, ns_text* out, ns_error* error);
NS_API ns_status ns_tensors_write(const char* path, const ns_tensor* tensors, uint32_t count,
                                  bool single, const ns_allocator* allocator, ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
