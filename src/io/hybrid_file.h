// Hybrid model files: a YAML file that names a robot, fitted parameters and networks.
//
//     robot: arm.urdf                # URDF or MJCF; needed
//     parameters:                    # names or globs of parameters, and their values, in this order
//       "link/*/mass": 1.2
//       "contact/*/mu": 0.4
//     contact: ncp                   # a contact law for all pairs, or none
//     integrator: rk4                # euler, rk4 or implicit
//     timestep: 0.001                # s
//     blueprint: drag.yaml
//     weights: drag.safetensors
//     ground: true                   # as in ns_load_options
//     self_collision: true
//     floating_base: true
//
// or, instead of parameters, contact, integrator and blueprint, a network that is the whole step:
//
//     timestep: 0.01                 # needed
//     learned: {kind: lstm, ..}      # io/learned_file.h
//     weights: lstm.safetensors
//
// `variants` replaces `robot` by several robots that share everything else. A variant is selected by
// its name, or by the name of a recording's file:
//
//     variants:
//       - name: butter
//         files: "*_butter_*"        # glob of file names without folders; the first match counts
//         robot: butter.xml
//         parameters: {"link/plate/mass": 0.9} # for this variant only, in addition
//
// A name or glob under `parameters` must then match in at least one variant.
//
// Paths are absolute or relative to the folder of this file; nothing in them is expanded. Unknown keys
// are refused; io/yaml.h lists what else is.

#ifndef NSI_IO_HYBRID_FILE_H
#define NSI_IO_HYBRID_FILE_H

#include "base/common.h"
#include "io/learned_file.h"
#include "neuralsim/hybrid.h"

enum {
    NSI_HYBRID_MAX_PATH = 4095,   // bytes, as it is written in the file
    NSI_HYBRID_MAX_PATTERN = 500, // bytes; a key of YAML has at most 1024 characters
    NSI_HYBRID_MAX_PARAMETERS = 65536,
    NSI_HYBRID_MAX_VARIANTS = 1024
};

typedef struct nsi_hybrid_parameter {
    const char* pattern; // a name, or for ns_glob_match()
    double value;
    uint32_t line, column; // of the name in the file, from 1; 0: made by calls
    const char* file;      // that it stands in; NULL: the hybrid model's own
} nsi_hybrid_parameter;

typedef NSI_ARRAY(nsi_hybrid_parameter) nsi_hybrid_parameters;

typedef struct nsi_hybrid_variant {
    const char *name, *files, *robot;
    nsi_hybrid_parameters parameters;
} nsi_hybrid_variant;

// Start from nsi_hybrid_init(), or read a file. Paths are resolved: as for open().
typedef struct nsi_hybrid {
    const char* robot;                      // NULL: there are variants
    NSI_ARRAY(nsi_hybrid_variant) variants; // arrays from the allocator, texts from anywhere
    const char *blueprint, *weights;        // NULL: none
    const nsi_learned* learned;             // NULL: the step is that of physics
    nsi_hybrid_parameters parameters;       // likewise
    int contact;                            // an ns_contact_model; -1: as each pair says
    int integrator;                         // an ns_integrator; -1: the model's
    double timestep;                        // s; 0: the model's
    bool ground, self_collision, floating_base;
    nsi_arena arena; // holds the texts of a file; its allocator is that of the array
} nsi_hybrid;

// Does the name of a recording's file, without its folder, fit the glob of a variant?
bool nsi_variant_has_file(const char* files, const char* recording);

// The first of the variants to which a recording belongs, or NULL; and the one of a name.
const nsi_hybrid_variant* nsi_hybrid_variant_of(const nsi_hybrid* hybrid, const char* recording);
const nsi_hybrid_variant* nsi_hybrid_find_variant(const nsi_hybrid* hybrid, const char* name);

void nsi_hybrid_init(const ns_allocator* allocator, nsi_hybrid* out); // NULL: the default one

// Read a file, or text that stands for the file `path`. `out` is to be freed after success, and may
// be in any case. That the files it names exist is not checked.
// @return NS_OK; NS_ERR_IO; NS_ERR_PARSE and NS_ERR_LIMIT with "file:line:column: what is wrong;
//         what to do"; NS_ERR_NOMEM
ns_status nsi_hybrid_read(const char* path, const ns_allocator* allocator, nsi_hybrid* out,
                          ns_error* error);
ns_status nsi_hybrid_parse(const char* text, size_t size, const char* path,
                           const ns_allocator* allocator, nsi_hybrid* out, ns_error* error);

// The text of a file, or the file itself, which is replaced in one go (nsi_file_write). Files below
// the folder of `path` are named relative to it, others by their absolute path.
// @return NS_OK; NS_ERR_ARGUMENT naming the field that is wrong; NS_ERR_LIMIT, NS_ERR_IO,
//         NS_ERR_NOMEM
ns_status nsi_hybrid_print(const nsi_hybrid* hybrid, const char* path,
                           const ns_allocator* allocator, ns_text* out, ns_error* error);
ns_status nsi_hybrid_write(const char* path, const nsi_hybrid* hybrid,
                           const ns_allocator* allocator, ns_error* error);

// Tables of keys.
extern const nsi_schema nsi_hybrid_schema, nsi_hybrid_variant_schema;

void nsi_hybrid_free(nsi_hybrid* hybrid); // NULL, zeroed and freed ones are allowed

#endif
