/// @file base.h
/// Status codes, error messages, allocator hook, text and version: what every other header needs.
///
///     ns_error error;
///     ns_graph* graph = NULL;
///     if (ns_graph_create(NULL, &graph, &error) != NS_OK) {
///         fprintf(stderr, "%s\n", error.message);
///     }
///
/// The library never prints, aborts or exits. A function that can fail returns an `ns_status` and
/// takes a nullable `ns_error*` last. What is not declared under include/neuralsim/ is not API.

#ifndef NEURALSIM_BASE_H
#define NEURALSIM_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__) || defined(__clang__)
#define NS_API __attribute__((visibility("default")))
#else
#define NS_API
#endif

#define NS_VERSION_MAJOR 0
#define NS_VERSION_MINOR 1
#define NS_VERSION_PATCH 0
#define NS_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/// Every status and its text, listed once.
#define NS_STATUS_MAP(X)                                                                           \
    X(NS_OK, 0, "ok")                                                                              \
    X(NS_ERR_ARGUMENT, -1, "invalid argument")                                                     \
    X(NS_ERR_STATE, -2, "call not allowed in this state")                                          \
    X(NS_ERR_NOMEM, -3, "out of memory")                                                           \
    X(NS_ERR_LIMIT, -4, "a size limit was exceeded")                                               \
    X(NS_ERR_PARSE, -5, "malformed input")                                                         \
    X(NS_ERR_IO, -6, "input or output failed")                                                     \
    X(NS_ERR_UNSUPPORTED, -7, "not supported")                                                     \
    X(NS_ERR_INVALID, -8, "an internal invariant does not hold")                                   \
    X(NS_ERR_NONFINITE, -9, "a value is not finite")

typedef enum ns_status {
#define NS_STATUS_ENUM(name, code, text) name = code,
    NS_STATUS_MAP(NS_STATUS_ENUM)
#undef NS_STATUS_ENUM
} ns_status;

/// The general text of a status, never NULL; "unknown status" for a number that is none.
NS_API const char* ns_status_text(ns_status status);

#define NS_ERROR_SIZE 512

/// What went wrong, where, and what to do. Filled only when a call fails.
typedef struct ns_error {
    ns_status status;
    char message[NS_ERROR_SIZE]; ///< NUL-terminated; cut off, never overrun, when long
} ns_error;

/// Where memory comes from. All three functions must be set; `user` is passed to each.
/// `alloc` and `realloc` return NULL when there is no memory; `free` accepts NULL.
/// An object keeps a copy of the allocator it was created with and hands it on to what is built
/// from it.
typedef struct ns_allocator {
    void* (*alloc)(void* user, size_t size);
    void* (*realloc)(void* user, void* block, size_t size);
    void (*free)(void* user, void* block);
    void* user;
} ns_allocator;

/// The C library's malloc, realloc and free. Functions that take a `const ns_allocator*` use it
/// when given NULL.
NS_API ns_allocator ns_default_allocator(void);

/// Text owned by the caller.
typedef struct ns_text {
    char* data;  ///< NUL-terminated
    size_t size; ///< without the NUL
    ns_allocator allocator;
} ns_text;

NS_API void ns_text_free(ns_text* text); ///< NULL and zeroed texts are allowed

/// The version of the library that is linked, e.g. "0.1.0".
NS_API const char* ns_version(void);

#ifdef __cplusplus
}
#endif

#endif
