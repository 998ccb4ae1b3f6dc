// Every kind of block by name, for the text form. Kinds belong to the folder whose arithmetic they
// are; this table is the one place in expr that names those from elsewhere.

#include "expr/block.h"

// contact/ncp.h, contact/contact_step.h, contact/convex_block.h, contact/convex_features.h,
// contact/hfield_features.h
extern const nsi_block_kind nsi_ncp, nsi_ncp_tangent, nsi_ncp_adjoint;
extern const nsi_block_kind nsi_contact_step, nsi_contact_step_tangent, nsi_contact_step_adjoint;
extern const nsi_block_kind nsi_convex, nsi_convex_tangent, nsi_convex_adjoint;
// contact/second_derivative.h
extern const nsi_block_kind nsi_ncp_tangent_tangent, nsi_ncp_adjoint_tangent;
extern const nsi_block_kind nsi_contact_step_tangent_tangent, nsi_contact_step_adjoint_tangent;
extern const nsi_block_kind nsi_convex_tangent_tangent, nsi_convex_adjoint_tangent;
// contact/convex_features.h, contact/hfield_features.h
extern const nsi_block_kind nsi_convex_features, nsi_hfield_nearest, nsi_hfield_peaks;
// contact/scene.h
extern const nsi_block_kind nsi_scene_detect, nsi_scene_detect_tangent, nsi_scene_detect_adjoint;
extern const nsi_block_kind nsi_scene_respond, nsi_scene_respond_tangent, nsi_scene_respond_adjoint;

static const nsi_block_kind* const kinds[] = {
    &nsi_dense,
    &nsi_dense_transpose,
    &nsi_dense_outer,
    &nsi_ncp,
    &nsi_ncp_tangent,
    &nsi_ncp_adjoint,
    &nsi_contact_step,
    &nsi_contact_step_tangent,
    &nsi_contact_step_adjoint,
    &nsi_convex,
    &nsi_convex_tangent,
    &nsi_convex_adjoint,
    &nsi_ncp_tangent_tangent,
    &nsi_ncp_adjoint_tangent,
    &nsi_contact_step_tangent_tangent,
    &nsi_contact_step_adjoint_tangent,
    &nsi_convex_tangent_tangent,
    &nsi_convex_adjoint_tangent,
    &nsi_scene_detect,
    &nsi_scene_detect_tangent,
    &nsi_scene_detect_adjoint,
    &nsi_scene_respond,
    &nsi_scene_respond_tangent,
    &nsi_scene_respond_adjoint,
    &nsi_convex_features,
    &nsi_hfield_nearest,
    &nsi_hfield_peaks,
};

const nsi_block_kind* nsi_block_kind_find(const char* name, size_t length) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strlen(kinds[i]->name) == length && memcmp(kinds[i]->name, name, length) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}
