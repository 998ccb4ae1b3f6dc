// Code: a graph as a straight list of steps, the common ground of all backends.
//
//   graph --lower.c--> primitive operations --contract.c--> fused --code.c, regions.c--> code
//                                                       |
//                             interp.c (slots)  native.c (target.h)   emit_c.c (C text)
//
// Steps are in index order, which is the order of tracing: the best schedule of those tried
// (docs/design.md); only those of a region are moved together. Operands and results are references
// (NSI_REF): NSI_BASE_WORK numbers values, one per step and one per block output; NSI_BASE_INPUT and
// NSI_BASE_CONST are inputs and constants.

#ifndef NSI_CODE_H
#define NSI_CODE_H

#include "expr/block.h"
#include "neuralsim/program.h"

typedef struct nsi_code_block {
    const nsi_block_kind* kind;
    uint32_t params[NSI_BLOCK_PARAMS];
    uint32_t ninput, noutput;
    uint32_t first_input; // into nsi_code.block_inputs
    uint32_t first_value; // outputs are the values from here on
    uint32_t step;        // where in the list of steps it stands
    uint32_t stage;       // numbers per lane to stage: inputs, then the kernel's scratch
    uint32_t source, source_offset, sink, sink_offset;
    bool source_per_lane, sink_per_lane;
    nsi_block_data* data;
} nsi_code_block;

// Steps, no blocks among them, whose results matter only in lanes where `condition`, a mask, is
// `when`: in others whatever comes of them is thrown away by selects. See regions.c.
typedef struct nsi_region {
    uint32_t first, count; // steps
    uint32_t condition;    // a value, computed before
    bool when;
} nsi_region;

// The fewest steps of a region. Regions cost: what registers hold is saved before, and some of it
// loaded again behind. Below 32 a logarithm, which selects its value at the end of its domain,
// would become one that is always needed (docs/design.md has the measurements).
enum { NSI_REGION_STEPS = 32 };

typedef struct nsi_code {
    ns_allocator allocator;
    NSI_ARRAY(nsi_step) steps; // NSI_BLOCK: a = number of the block
    NSI_ARRAY(double) consts;
    NSI_ARRAY(nsi_code_block) blocks;
    NSI_ARRAY(uint32_t) block_inputs; // references
    NSI_ARRAY(uint32_t) outputs;      // references
    NSI_ARRAY(nsi_region) regions;    // in the order of their steps; a backend may ignore them
    uint32_t ninput, nvalue;
} nsi_code;

// Lower, fuse and number a graph. `code` is overwritten.
ns_status nsi_code_build(const ns_graph* g, nsi_code* code, ns_error* error);
void nsi_code_free(nsi_code* code);

// regions.c: find regions and move their steps together; false when out of memory. The last part of
// nsi_code_build().
bool nsi_code_find_regions(nsi_code* code);

static inline bool nsi_is_value(uint32_t ref) {
    return NSI_REF_BASE(ref) == NSI_BASE_WORK;
}

static inline uint32_t nsi_step_operand(const nsi_step* step, uint32_t k) {
    return k == 0 ? step->a : k == 1 ? step->b : step->c;
}

// last[v] becomes the number of the last step that reads value v; its own step when none does.
void nsi_code_last_uses(const nsi_code* code, uint32_t* last);

// Slots of a frame: released ones are used again, ranges are always fresh.
typedef struct nsi_slots {
    NSI_ARRAY(uint32_t) unused;
    uint32_t count;
} nsi_slots;

uint32_t nsi_slots_take(nsi_slots* slots);
uint32_t nsi_slots_take_range(nsi_slots* slots, uint32_t count);
bool nsi_slots_release(const ns_allocator* memory, nsi_slots* slots, uint32_t slot);

// Call a block's kernel on staged inputs `x` and outputs `y`, both [component][lane].
void nsi_code_block_run(const nsi_code_block* block, nsi_block_kernel* kernel, uint32_t lanes,
                        const ns_run* run, double* x, double* y);

// ---- interp.c ------------------------------------------------------------------------------

typedef struct nsi_interp {
    nsi_step* steps; // references resolved to slots, inputs, constants, outputs
    size_t nstep;
    double* consts;         // [const][lane]
    uint32_t* block_inputs; // resolved
    nsi_code_block* blocks; // first_value: first slot
    uint32_t nblock;
    uint32_t* outputs; // resolved; those that need no copy are NSI_NONE
    uint32_t noutput;
    uint32_t nslot; // values, then the staging area for block inputs
    uint32_t stage; // first slot of the staging area
    uint32_t lanes;
    const nsi_kernels* kernels;
    uint32_t form; // index of `lanes` in nsi_lane_counts
} nsi_interp;

ns_status nsi_interp_build(const nsi_code* code, uint32_t form, nsi_interp* out, ns_error* error);
void nsi_interp_run(const nsi_interp* interp, const ns_run* run);
void nsi_interp_free(const ns_allocator* memory, nsi_interp* interp);

// ---- native.c ------------------------------------------------------------------------------

typedef struct nsi_native_block nsi_native_block;

typedef struct nsi_native {
    void* code; // executable; NULL when there is none
    size_t code_size;
    double* consts; // lane-wise, then bit patterns for signs and exponents
    nsi_native_block* blocks;
    uint32_t nslot;
} nsi_native;

// Sets `out->code` to NULL and `*why` when this machine or this lane count has no native form.
ns_status nsi_native_build(const nsi_code* code, uint32_t form, nsi_native* out, const char** why,
                           ns_error* error);
void nsi_native_free(const ns_allocator* memory, nsi_native* native);
void nsi_native_run(const nsi_native* native, const ns_run* run);

#endif
