// The step with rigid contact of an island of many bodies (sparse_step.h). Compiled twice, as
// expr/kernels.c is.

#include "contact/sparse_step.h"

#include "contact/scene.h"

#include <math.h>
#include <stdbool.h>

#define NSI_C_SOURCE(...) __VA_ARGS__
#define SPARSE
#define L 1
#define NAME(f) sparse_##f
#include "contact/sparse_step_source.def"

static void step_value(const uint32_t* params, const double* x, double* y, double* scratch) {
    sparse_value(params, x, y, scratch, 1);
}
static void step_tangent(const uint32_t* params, const double* x, double* y, double* scratch) {
    sparse_tangent(params, x, y, scratch, 1);
}
static void step_adjoint(const uint32_t* params, const double* x, double* y, double* scratch) {
    sparse_adjoint(params, x, y, scratch, 1);
}

#define PASTE2(a, b) a##b
#define PASTE(a, b) PASTE2(a, b)
const nsi_sparse_step PASTE(nsi_sparse_step_, NSI_KERNEL_SUFFIX) = {step_value, step_tangent,
                                                                    step_adjoint};
