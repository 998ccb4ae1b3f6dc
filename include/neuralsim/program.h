/// @file program.h
/// Programs: a graph made ready to run, many times, on one robot or on several side by side.
///
///     ns_program_options options = ns_default_program_options();
///     options.lanes = 4;
///     ns_program* program = NULL;
///     ns_program_build(graph, &options, &program, &error);
///     double in[2][4], out[1][4];                      // [component][lane]
///     void* work = malloc(ns_program_work_size(program));
///     ns_program_run(program, &(ns_run){.in = &in[0][0], .out = &out[0][0], .work = work});
///
/// A program is immutable: threads may run it at once, each with its own `work`. Running allocates
/// nothing and cannot fail. All backends give the same bits, in any lane (of a NaN, sign and
/// payload excepted); sums over lanes are those of the lane count.

#ifndef NEURALSIM_PROGRAM_H
#define NEURALSIM_PROGRAM_H

#include "neuralsim/base.h"
#include "neuralsim/expr.h"
#include "neuralsim/words.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ns_program ns_program;

#define NS_BACKEND_MAP(X)                                                                          \
    X(NS_BACKEND_AUTO, "auto", "native where the machine has it, else the interpreter")            \
    X(NS_BACKEND_INTERP, "interp", "the interpreter, for any machine")                             \
    X(NS_BACKEND_NATIVE, "native", "machine code for x86-64 with AVX2 and FMA")

typedef enum ns_backend { NS_BACKEND_MAP(NS_CHOICE_VALUE) } ns_backend;
extern NS_API const ns_choices ns_backends;

/// "auto", "interp", "native"; "unknown" for anything else.
NS_API const char* ns_backend_name(ns_backend backend);

typedef struct ns_program_options {
    ns_backend backend; ///< default NS_BACKEND_AUTO
    uint32_t lanes;     ///< robots per run: 1, 4, 16 or 64; native has 1 and 4. Default 1
} ns_program_options;

NS_API ns_program_options ns_default_program_options(void);

/// Build a program; the graph is not needed afterwards.
/// Where NS_BACKEND_NATIVE is not to be had (another machine, other lane counts, executable memory
/// refused) the interpreter is built instead and ns_program_info says why.
/// @param options  NULL for ns_default_program_options()
/// @param out      receives the program; free it with ns_program_free()
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_program_build(const ns_graph* graph, const ns_program_options* options,
                                  ns_program** out, ns_error* error);

NS_API void ns_program_free(ns_program* program); ///< NULL is allowed

/// What one run reads and writes. No two of these may overlap, except that inputs may.
typedef struct ns_run {
    const double* in; ///< [input][lane]
    double* out;      ///< [output][lane]
    const double* const*
        arrays;           ///< one pointer per array input: [size], or [size][lanes] if per lane
    double* const* sinks; ///< one pointer per array output, added to: [size], the sum over
                          ///< lanes, or [size][lanes] if per lane
    void* work;           ///< ns_program_work_size() bytes, aligned for double; contents do
                          ///< not matter before or after
} ns_run;

NS_API size_t ns_program_work_size(const ns_program* program);

/// Run once. Pointers for which the graph has nothing (no arrays, say) may be NULL.
NS_API void ns_program_run(const ns_program* program, const ns_run* run);

typedef struct ns_program_info {
    ns_backend backend;   ///< the one in use
    const char* note;     ///< why it is not the one asked for, or ""; owned by the program
    uint32_t lanes;       ///< robots per run
    uint32_t input_count; ///< scalar inputs
    uint32_t output_count;
    uint32_t step_count;  ///< operations executed per run, after lowering and fusing
    size_t code_size;     ///< bytes of machine code, 0 for the interpreter
    double build_seconds; ///< wall time of ns_program_build
} ns_program_info;

NS_API ns_program_info ns_program_get_info(const ns_program* program);

/// The graph as backends see it: elementary functions expanded into primitive operations, dead
/// nodes dropped, and, with `fuse`, products and sums joined to fused multiply-adds. To look at and
/// to run; it cannot be differentiated, since rounding and bits stand for functions in it.
/// @param out  receives a new graph; free it with ns_graph_free()
/// @return NS_OK, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_graph_lower(const ns_graph* graph, bool fuse, ns_graph** out, ns_error* error);

/// Standalone C17 that computes the graph for one robot: allocation-free, needs only the C library.
/// The file defines
///     void <function>(const double* in, double* out, const double* const* arrays,
///                     double* const* sinks, double* work);
///     enum { <function>_inputs, ..._outputs, ..._work };  // numbers of doubles
/// The same graph gives the same text, byte for byte. Compile it with -ffp-contract=off for the
/// same bits as the other backends; with GCC and second derivatives of rigid contact also with
/// -fno-tree-slp-vectorize, since GCC contracts complex products regardless.
/// @param function  a C identifier of at most 100 characters that is no keyword or name of the C
///                  library and does not begin with ns_
/// @param out       receives the text; free it with ns_text_free()
/// @return NS_OK, NS_ERR_ARGUMENT, NS_ERR_LIMIT, NS_ERR_NOMEM
NS_API ns_status ns_graph_emit_c(const ns_graph* graph, const char* function, ns_text* out,
                                 ns_error* error);

#ifdef __cplusplus
}
#endif

#endif
