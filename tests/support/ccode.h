// Emitted C, compiled by the system's compilers and loaded: hundreds of functions in one library,
// since starting a compiler costs far more than compiling one function.
//
//     ccode* c = ccode_create();
//     uint32_t number = ccode_add(c, graph, &error);       // for each graph
//     if (!ccode_compile(c, "gcc", true, message, sizeof message)) ...
//     ccode_run(c, number, in, out, arrays, sinks);
//     ccode_free(c);
//
// Everything is compiled with -Wall -Wextra -Werror. Temporary files are gone when ccode_compile()
// returns.

#ifndef TEST_CCODE_H
#define TEST_CCODE_H

#include "neuralsim/expr.h"

typedef struct ccode ccode;

ccode* ccode_create(void);
void ccode_free(ccode* c); // NULL is allowed

// Emit the graph and return the number of its function; UINT32_MAX when emission failed.
uint32_t ccode_add(ccode* c, const ns_graph* graph, ns_error* error);

// Compile and load what was added, replacing what was loaded before; optimised a little, since some
// faults show only then, or not at all, which is faster. False, with the compiler's complaint in
// `message`, when that failed.
bool ccode_compile(ccode* c, const char* compiler, bool optimised, char* message, size_t size);

// Call function `number` with a work array of the size it asks for. False when it wrote beyond
// that.
bool ccode_run(const ccode* c, uint32_t number, const double* in, double* out,
               const double* const* arrays, double* const* sinks);

// "gcc" and "clang" as far as they are installed, else "cc" if that is; NULL after the last. Says
// on standard output, once, what is missing.
const char* ccode_compiler(uint32_t number);

#endif
