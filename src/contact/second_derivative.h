// Second derivatives of the blocks of rigid contact: the tangent of the tangent and the tangent of the
// adjoint, as blocks. All others follow from these, because the derivative of ybar'f is symmetric:
//
//     tangent of tangent    d (J v) = f''[v, dx] + J dv
//     tangent of adjoint    d (J'ybar) = (ybar'f)'' dx + J' dybar
//     adjoint of tangent    for v J'ybar, for x (ybar'f)'' v
//     adjoint of adjoint    with the seed v: for ybar J v, for x (ybar'f)'' v
//
// The patterns of contacts are held fixed, as in first derivatives. There are no third derivatives.

#ifndef NSI_SECOND_DERIVATIVE_H
#define NSI_SECOND_DERIVATIVE_H

#include "expr/block.h"

// Inputs of both: those of the tangent, or of the adjoint; then the direction of the inputs of the value
// that have derivatives, then that of v, or of ybar. Outputs: the derivatives of its outputs.
extern const nsi_block_kind nsi_ncp_tangent_tangent, nsi_ncp_adjoint_tangent;
extern const nsi_block_kind nsi_contact_step_tangent_tangent, nsi_contact_step_adjoint_tangent;
extern const nsi_block_kind nsi_convex_tangent_tangent, nsi_convex_adjoint_tangent;

// For the tables of the first derivatives: rules that differentiate them.
void nsi_tangent_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                     uint32_t dsink, nsi_id* dy);
void nsi_tangent_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                     uint32_t source_bar, nsi_id* xbar);
void nsi_adjoint_jvp(ns_graph* g, const nsi_block* block, const nsi_id* dx, uint32_t dsource,
                     uint32_t dsink, nsi_id* dy);
void nsi_adjoint_vjp(ns_graph* g, const nsi_block* block, const nsi_id* ybar, uint32_t sink_seed,
                     uint32_t source_bar, nsi_id* xbar);

// A block by its kinds. The tangent reads the inputs of the value, those with derivatives first, and the
// outputs that it keeps: `fixed` in all; then a direction of the `smooth` inputs. The adjoint reads the
// same, then an adjoint of the `noutput` outputs that have derivatives.
typedef struct nsi_contact_family {
    const nsi_block_kind *tangent, *adjoint, *tangent_tangent, *adjoint_tangent;
} nsi_contact_family;

typedef struct nsi_contact_family_sizes {
    uint32_t smooth, fixed, noutput;
    uint32_t scratch; // of both
} nsi_contact_family_sizes;

extern const nsi_contact_family nsi_ncp_family, nsi_contact_step_family, nsi_convex_family;

bool nsi_contact_family_measure(const nsi_contact_family* family, const uint32_t* params,
                                nsi_contact_family_sizes* out);

// ---- kernels (second_derivative_kernels.c) ---------------------------------------------------

typedef struct nsi_second_kernels {
    nsi_block_kernel* tangent[NSI_LANE_FORMS];
    nsi_block_kernel* adjoint[NSI_LANE_FORMS];
} nsi_second_kernels;

typedef struct nsi_second_kernel_set {
    nsi_second_kernels ncp, contact_step, convex;
} nsi_second_kernel_set;

// The latter only with NSI_HAVE_AVX2_KERNELS.
extern const nsi_second_kernel_set nsi_second_kernels_generic, nsi_second_kernels_avx2;

#endif
