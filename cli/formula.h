// Formulas of one variable, the time t: what --control takes.
//
//     0.1 * sin(2*pi*t) + max(0, t - 1)^2
//
// Numbers, t, pi, + - * / ^ (from the right, before the sign: -2^2 is -4), parentheses, and the
// functions sin cos tan exp log sqrt abs tanh (of one number), min max (of two).

#ifndef CLI_FORMULA_H
#define CLI_FORMULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    FORMULA_MAX_OPS = 512,  // numbers and operations of a formula
    FORMULA_MAX_DEPTH = 64, // parentheses, signs and powers within each other
    FORMULA_MESSAGE = 160
};

// A formula ready to be evaluated: a program for a machine with a stack.
typedef struct formula {
    struct {
        uint8_t code;
        double number;
    } ops[FORMULA_MAX_OPS];
    uint32_t count;
} formula;

// Read a formula; all `size` bytes must belong to it. When it is none: false, with the offset of
// the fault and a message.
bool formula_parse(const char* text, size_t size, formula* out, size_t* where,
                   char message[FORMULA_MESSAGE]);

// Its value at time t; not finite where the formula is not (1/0, log(-1)).
double formula_eval(const formula* f, double t);

#endif
