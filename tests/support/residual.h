// Comparing numbers, with the worst disagreement kept, printed, and held against a tolerance.
//
//     residual r = {.name = "mass matrix", .tolerance = 1e-12};
//     residual_array(&r, got, want, n, 1.0);
//     residual_check(&r);                     // prints "mass matrix: 3.1e-16 (tolerance 1e-12)"

#ifndef TEST_RESIDUAL_H
#define TEST_RESIDUAL_H

#include <stddef.h>
#include <stdint.h>

typedef struct residual {
    const char* name;
    double tolerance;
    double worst;   // largest |got - want| / scale; infinite once a number was not finite
    uint64_t count; // numbers compared
} residual;

void residual_add(residual* r, double got, double want, double scale);

// Relative to the largest magnitude in `want`, or `floor` where that is larger.
void residual_array(residual* r, const double* got, const double* want, size_t n, double floor);

// Fails the test when the tolerance is exceeded or nothing was compared.
void residual_check(const residual* r);

#endif
