// Files of hybrid models for tests.

#ifndef TEST_HYBRID_FILE_RIG_H
#define TEST_HYBRID_FILE_RIG_H

#include "io/hybrid_file.h"
#include "support/assert.h"

static inline nsi_hybrid parse(const char* text, const char* path) {
    nsi_hybrid hybrid;
    ns_error error = {0};
    must(nsi_hybrid_parse(text, strlen(text), path, NULL, &hybrid, &error), &error);
    assert_int_equal(error.status, NS_OK);
    return hybrid;
}

// ---- reading -------------------------------------------------------------------------------

static const char full[] = "robot: arm.urdf           # relative to this file\n"
                           "parameters: {\"link/*/mass\": 1.2, \"contact/*/mu\": 0.4}\n"
                           "contact: ncp\n"
                           "timestep: 0.001\n"
                           "blueprint: drag.yaml\n"
                           "weights: ../w/drag.safetensors\n"
                           "ground: true\n"
                           "self_collision: true\n";

#define LEARNED_FILE                                                                               \
    "robot: arm.urdf\n"                                                                            \
    "timestep: 0.01\n"                                                                             \
    "learned:\n"                                                                                   \
    "  kind: feedforward\n"                                                                        \
    "  hidden: [16, 8]\n"                                                                          \
    "  increment: true\n"                                                                          \
    "  activation: relu\n"                                                                         \
    "  hide: [a, \"null\"]\n"                                                                      \
    "  angle: [\"b: c\"]\n"                                                                        \
    "  init: {scale: 2, last: 0.5}\n"                                                              \
    "  seed: 18446744073709551615\n"                                                               \
    "  controls: [u/m, tau0]\n"                                                                    \
    "  state_shift: [1, -2]\n"                                                                     \
    "  state_scale: [0.1, 1e-300]\n"                                                               \
    "  control_shift: [0, 1e+300]\n"                                                               \
    "  control_scale: [3, 4]\n"                                                                    \
    "  output_scale: [0.5, 0.25]\n"

// ---- what is refused -------------------------------------------------------------------------

#define R "robot: a.urdf\n"

#endif
