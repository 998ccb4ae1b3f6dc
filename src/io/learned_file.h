// Learned systems in files: the key `learned` of experiments and hybrid models. A model gives names to
// coordinates and controls; the step is a network (learned.h).
//
//     learned:
//       kind: lstm               # or feedforward
//       hidden: [16]             # widths of layers
//       increment: true          # predict the change of the state, not the next one
//       integrate: true          # predict velocities only: coordinates follow from them
//       hide: [rootx, root/y]    # coordinates that the network does not see (sim/learned_model.h)
//       angle: [rootz]           # joints whose coordinate it sees as sine and cosine
//       activation: tanh         # of the hidden layers of feedforward
//       init: {scale: 1, last: 0.1}
//       seed: 1
//
// Hybrid models also contain what a fit derived from its data: `controls` (names), `state_shift`,
// `state_scale`, `control_shift`, `control_scale` and `output_scale` (lists of numbers).

#ifndef NSI_IO_LEARNED_FILE_H
#define NSI_IO_LEARNED_FILE_H

#include "io/schema.h"
#include "neuralsim/learned.h"

enum { NSI_LEARNED_MAX_LAYERS = 16, NSI_LEARNED_MAX_NUMBERS = 4096 };

// Start from nsi_default_learned(). What it points to belongs to an arena, or to whoever filled it.
typedef struct nsi_learned {
    ns_learned_kind kind;
    uint32_t hidden[NSI_LEARNED_MAX_LAYERS], nhidden;
    bool increment, integrate;
    nsi_text_list hide, angle; // joints, or their coordinates
    ns_activation activation;
    double init_scale, init_last_scale;
    uint64_t seed;

    nsi_text_list controls;                       // in the order of inputs
    nsi_number_list state_shift, state_scale;     // (nq + nv)
    nsi_number_list control_shift, control_scale; // (controls.count)
    nsi_number_list output_scale;                 // (nq + nv)
} nsi_learned;

nsi_learned nsi_default_learned(void);

// @param found  also what is found in data; otherwise those keys are unknown
// @param arena  receives all texts and numbers
// @return NS_OK; NS_ERR_PARSE, NS_ERR_LIMIT with file:line:column; NS_ERR_NOMEM
ns_status nsi_learned_read(const nsi_yaml* yaml, const nsi_yaml_node* node, bool found,
                           nsi_arena* arena, nsi_learned* out, ns_error* error);

// Tables of keys, without and with what is found in data.
extern const nsi_schema nsi_learned_schema, nsi_learned_found_schema, nsi_learned_init_schema;

// Is it such as can be written and read back?
// @return NS_OK; NS_ERR_ARGUMENT naming the key that is wrong
ns_status nsi_learned_check(const nsi_learned* learned, ns_error* error);

#endif
