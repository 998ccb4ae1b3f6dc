// Lists of named matrices of doubles in files: weights of networks. Two forms, told by the name of
// the file:
//
//     drag.json          {"drag/w0": [[0.5, -1], [2, 0]], ...}, rows by rows, one row a line;
//                        numbers read back bit for bit. A plain list of numbers is one row.
//     anything else      safetensors (https://github.com/huggingface/safetensors): 8 bytes with the
//                        length of a header, little-endian; the header, JSON that gives type, shape
//                        and place of each tensor; their numbers. F64, F32, F16 and BF16 are read,
//                        F64 or F32 written. Tensors have one dimension (a row) or two.
//
// Made for files from anywhere: sizes are checked before memory is asked for, and tensors must cover
// the data without overlap and without holes, as the format demands. Data may start at any address:
// it is decoded byte by byte, so that headers which are not padded are fine. "__metadata__" must be
// what the format allows and is ignored. Numbers must be finite and tensors not empty, in files and
// in memory: weights never are otherwise.
//
// jansson takes its memory from malloc, not from the allocator. It is given at most
// NSI_TENSORS_MAX_VALUES values, which bounds it to about 400 MB.

#ifndef NSI_IO_TENSORS_H
#define NSI_IO_TENSORS_H

#include "base/common.h"

enum {
    NSI_TENSORS_MAX_COUNT = 65536,
    NSI_TENSORS_MAX_NUMBERS = 1 << 26,             // in all tensors
    NSI_TENSORS_MAX_NAME = 1023,                   // bytes
    NSI_TENSORS_MAX_HEADER = 16 << 20,             // bytes, safetensors
    NSI_TENSORS_MAX_TEXT = 64 << 20,               // bytes, JSON
    NSI_TENSORS_MAX_IN_TEXT = 1 << 20,             // numbers, JSON
    NSI_TENSORS_MAX_VALUES = (1 << 21) + (1 << 20) // commas and opening brackets, header or JSON
};

typedef struct nsi_tensor {
    const char* name; // one line of UTF-8; not "__metadata__"
    uint32_t rows, columns;
    const double* data; // (rows x columns), row-major
} nsi_tensor;

typedef struct nsi_tensors {
    uint32_t count;
    const nsi_tensor* data; // (count) in the order of the file
    nsi_arena arena;        // holds them
} nsi_tensors;

// Read a file, or bytes from memory. `out` is to be freed after success, and may be in any case.
// @param allocator  NULL for the default one
// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE; NS_ERR_UNSUPPORTED (type, dimensions); NS_ERR_NONFINITE;
//         NS_ERR_LIMIT; NS_ERR_NOMEM. Messages start with the file, and for malformed JSON its line
//         and column, and name the tensor
ns_status nsi_tensors_read(const char* path, const ns_allocator* allocator, nsi_tensors* out,
                           ns_error* error);
ns_status nsi_tensors_parse(const void* bytes, size_t size, const char* name,
                            const ns_allocator* allocator, nsi_tensors* out, ns_error* error);
void nsi_tensors_free(nsi_tensors* tensors); // NULL, zeroed and freed ones are allowed

typedef enum nsi_tensor_form {
    NSI_TENSORS_F64, // safetensors
    NSI_TENSORS_F32, // safetensors, numbers rounded; those too large for a float are refused
    NSI_TENSORS_JSON
} nsi_tensor_form;

// The form in which a file of this name is read: JSON or one of the others.
bool nsi_tensors_is_json(const char* path);

// The bytes of a file, or the file itself, which is replaced in one go (nsi_file_write). The same
// tensors give the same bytes.
// @param single  write F32; no meaning for JSON
// @return NS_OK; NS_ERR_ARGUMENT, NS_ERR_NONFINITE, NS_ERR_LIMIT naming the tensor; NS_ERR_IO,
//         NS_ERR_NOMEM
ns_status nsi_tensors_print(const nsi_tensor* tensors, uint32_t count, nsi_tensor_form form,
                            const ns_allocator* allocator, ns_text* out, ns_error* error);
ns_status nsi_tensors_write(const char* path, const nsi_tensor* tensors, uint32_t count,
                            bool single, const ns_allocator* allocator, ns_error* error);

#endif
