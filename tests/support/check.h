// The derivative check: one call compares everything this library says about a function with
// everything else it says, and with finite differences.
//
//     static void pendulum_has_the_right_derivatives(void** state) {
//         ... trace f(q, qd) with weights "net" ...
//         check_function(f, (double[]){0.3, -1.0}, (const double* const[]){weights}, NULL);
//     }
//
// For the function f, its forward derivative (jvp) and its reverse derivative (vjp):
//
//   backends    the interpreter with 1, 4, 16 and 64 lanes, native code with 1 and 4, and the
//               emitted C, compiled, give the same bits in every lane (NaN equals NaN). Lane 0 is
//               the given point; the others are points around it. Array outputs are checked per
//               lane and summed over lanes.
//   transpose   <s, J v> = <J' s, v> for random s and v, arrays included, in every lane
//   differences J v against central differences of f along v, arrays included. Two steps are
//               compared first; where no pair of steps agrees (a kink nearby, or noise) the output
//               counts as undecided.
//   not zero    J is not zero everywhere
//   second      on demand the same for the function vjp, and the Hessian is symmetric
//
// A failure names the function, what was compared, the output and both numbers.

#ifndef TEST_CHECK_H
#define TEST_CHECK_H

#include "neuralsim/expr.h"

// What is compiled as emitted C, which takes most of the time: value, jvp and vjp, for second
// derivatives twice; or one of the three, the derivatives containing the value.
typedef enum check_c { CHECK_C_ALL, CHECK_C_VALUE, CHECK_C_JVP, CHECK_C_VJP } check_c;

typedef struct check_options {
    const char* name; // of the function, for messages; NULL: "function"
    bool second;      // second derivatives too
    bool may_vanish;  // a derivative that is zero everywhere is fine
    bool at_kink;     // the point is a kink or an edge: no central differences
    bool nonfinite;   // derivatives may be infinite or NaN at the point: backends only
    check_c c;        // what is also compiled as emitted C
    uint64_t seed;    // for directions and for the points in other lanes
} check_options;

typedef struct check_report {
    uint32_t functions;     // checked
    uint32_t vanished;      // of these: derivative zero everywhere, which was allowed
    uint64_t numbers;       // compared between backends
    double backend_error;   // largest relative difference between two backends: 0, or it failed
    double transpose_error; // largest, relative to the sum of magnitudes
    uint32_t slopes;        // directional derivatives compared with central differences
    uint32_t undecided;     // those for which the differences had no answer
    uint32_t functions_undecided; // functions with such a slope
    double difference_error;      // largest, relative to slope and value
} check_report;

// Check `f` at inputs x with arrays (one pointer per array input; a per-lane array is given for one
// lane). Fails the test, through cmocka, when anything disagrees.
// @param options  NULL for all zero
check_report check_function(const ns_graph* f, const double* x, const double* const* arrays,
                            const check_options* options);

// The same for many functions, whose emitted C is compiled at once. `f` must live until
// check_batch_finish(); x, arrays and options are copied, the name is not.
typedef struct check_batch check_batch;
check_batch* check_batch_create(void);
void check_batch_add(check_batch* batch, const ns_graph* f, const double* x,
                     const double* const* arrays, const check_options* options);
check_report check_batch_finish(check_batch* batch); // frees it; fails the test on disagreement

// For testing the check itself: true when all agreed, else the complaint is in `message`.
bool check_batch_finish_quietly(check_batch* batch, check_report* report, char* message,
                                size_t size);

// Are these the same double? NaN equals NaN, 0 differs from -0.
bool check_same_bits(double a, double b);

#endif
