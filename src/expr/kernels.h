// Numeric loops over lanes: the interpreter's and the blocks'. kernels.c is compiled once for any
// machine and once for AVX2+FMA; nsi_kernels_best() picks at run time. Both give the same bits.

#ifndef NSI_KERNELS_H
#define NSI_KERNELS_H

#include "base/common.h"

// Lane counts a program can be built for.
enum { NSI_LANE_FORMS = 4 };
static const uint32_t nsi_lane_counts[NSI_LANE_FORMS] = {1, 4, 16, 64};

// One block at run time. Scalars are [component][lane]; element k of an array for lane l is at
// k * step + (step == 1 ? 0 : l): step is 1 for an array shared by all lanes, else the lane count.
struct nsi_block_data;
typedef struct nsi_block_args {
    const uint32_t* params;
    const struct nsi_block_data* data; // or NULL
    const double* x;
    double* y;
    const double* source;
    size_t source_step;
    double* sink;
    size_t sink_step;
    double* scratch; // as much per lane as the kind asks for
} nsi_block_args;

typedef void nsi_block_kernel(const nsi_block_args* args);

// An interpreter instruction. Operands are a base (top two bits) and a component number.
enum { NSI_BASE_WORK, NSI_BASE_INPUT, NSI_BASE_CONST, NSI_BASE_OUTPUT };
#define NSI_REF(base, component) (((uint32_t)(base) << 30) | (uint32_t)(component))
#define NSI_REF_BASE(ref) ((ref) >> 30)
#define NSI_REF_COMPONENT(ref) ((ref)&0x3fffffffu)

typedef struct nsi_step {
    uint32_t op; // nsi_op; NSI_BLOCK ends a run of straight steps
    uint32_t dst, a, b, c;
} nsi_step;

// Execute `count` steps, none of them NSI_BLOCK.
typedef void nsi_step_kernel(const nsi_step* steps, size_t count, double* const bases[4]);

typedef struct nsi_kernels {
    nsi_step_kernel* steps[NSI_LANE_FORMS];
    nsi_block_kernel* dense[NSI_LANE_FORMS];
    nsi_block_kernel* transpose[NSI_LANE_FORMS];
    nsi_block_kernel* outer[NSI_LANE_FORMS];
} nsi_kernels;

extern const nsi_kernels nsi_kernels_generic;
extern const nsi_kernels nsi_kernels_avx2; // only with NSI_HAVE_AVX2_KERNELS

const nsi_kernels* nsi_kernels_best(void);

// True when this machine executes AVX2 and FMA instructions.
bool nsi_cpu_has_avx2_fma(void);

#endif
