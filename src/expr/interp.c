// The interpreter: values get slots of a frame, slots are used again, steps run in kernels.c.

#include "expr/code.h"

typedef struct interp_builder {
    const nsi_code* code;
    const ns_allocator* memory;
    nsi_interp* out;
    uint32_t* place;  // per value: its reference at run time
    uint32_t* last;   // per value: step of its last use
    uint32_t* output; // per value: the first output it is, or NSI_NONE
    nsi_slots slots;
} interp_builder;

static uint32_t resolve_reference(const interp_builder* b, uint32_t ref) {
    return nsi_is_value(ref) ? b->place[NSI_REF_COMPONENT(ref)] : ref;
}

// A value that is an output lives there; others get a slot.
static void place_value(interp_builder* b, uint32_t value) {
    if (b->output[value] != NSI_NONE) {
        b->place[value] = NSI_REF(NSI_BASE_OUTPUT, b->output[value]);
        return;
    }
    b->place[value] = NSI_REF(NSI_BASE_WORK, nsi_slots_take(&b->slots));
}

static bool release_if_last(interp_builder* b, uint32_t ref, uint32_t step) {
    if (!nsi_is_value(ref)) return true;
    uint32_t value = NSI_REF_COMPONENT(ref);
    if (b->last[value] != step || !nsi_is_value(b->place[value])) return true;
    b->last[value] = NSI_NONE; // once, also when an operand occurs twice
    return nsi_slots_release(b->memory, &b->slots, NSI_REF_COMPONENT(b->place[value]));
}

static bool build_block(interp_builder* b, uint32_t i, uint32_t number) {
    const nsi_code* code = b->code;
    const nsi_code_block* block = &code->blocks.data[number];
    for (uint32_t k = 0; k < block->ninput; k++) {
        uint32_t at = block->first_input + k;
        b->out->block_inputs[at] = resolve_reference(b, code->block_inputs.data[at]);
    }
    // Outputs of a block are one range; those that are graph outputs are copied from it at the end.
    uint32_t first = nsi_slots_take_range(&b->slots, block->noutput);
    b->out->blocks[number].first_value = first;
    for (uint32_t k = 0; k < block->noutput; k++) {
        b->place[block->first_value + k] = NSI_REF(NSI_BASE_WORK, first + k);
        b->output[block->first_value + k] = NSI_NONE;
    }
    for (uint32_t k = 0; k < block->ninput; k++) {
        if (!release_if_last(b, code->block_inputs.data[block->first_input + k], i)) return false;
    }
    return true;
}

static bool build_steps(interp_builder* b) {
    const nsi_code* code = b->code;
    for (uint32_t i = 0; i < code->steps.count; i++) {
        const nsi_step* step = &code->steps.data[i];
        nsi_step* out = &b->out->steps[i];
        *out = *step;
        if (step->op == NSI_BLOCK) {
            if (!build_block(b, i, step->a)) return false;
            continue;
        }
        // The result's slot is taken before the operands' are released: kernels rely on it.
        out->a = resolve_reference(b, step->a);
        out->b = resolve_reference(b, step->b);
        out->c = resolve_reference(b, step->c);
        place_value(b, NSI_REF_COMPONENT(step->dst));
        out->dst = b->place[NSI_REF_COMPONENT(step->dst)];
        for (uint32_t k = 0; k < nsi_ops[step->op].arity; k++) {
            if (!release_if_last(b, nsi_step_operand(step, k), i)) return false;
        }
    }
    return true;
}

// Values that are outputs of a block and of the graph are needed to the end.
static void keep_block_outputs(interp_builder* b) {
    for (uint32_t n = 0; n < b->code->blocks.count; n++) {
        const nsi_code_block* block = &b->code->blocks.data[n];
        for (uint32_t k = 0; k < block->noutput; k++) {
            if (b->output[block->first_value + k] != NSI_NONE) {
                b->last[block->first_value + k] = NSI_NONE;
            }
        }
    }
}

static bool interp_allocate(interp_builder* b, uint32_t lanes) {
    const nsi_code* code = b->code;
    nsi_interp* out = b->out;
    const ns_allocator* memory = b->memory;
    size_t nvalue = (size_t)code->nvalue + 1;
    b->place = nsi_alloc(memory, nvalue * sizeof(uint32_t));
    b->last = nsi_alloc(memory, nvalue * sizeof(uint32_t));
    b->output = nsi_alloc(memory, nvalue * sizeof(uint32_t));
    out->nstep = code->steps.count;
    out->steps = nsi_alloc(memory, (out->nstep + 1) * sizeof(nsi_step));
    out->consts = nsi_alloc(memory, ((size_t)code->consts.count + 1) * lanes * sizeof(double));
    out->block_inputs =
        nsi_alloc(memory, ((size_t)code->block_inputs.count + 1) * sizeof(uint32_t));
    out->blocks = nsi_alloc(memory, ((size_t)code->blocks.count + 1) * sizeof(nsi_code_block));
    out->outputs = nsi_alloc(memory, ((size_t)code->outputs.count + 1) * sizeof(uint32_t));
    return b->place && b->last && b->output && out->steps && out->consts && out->block_inputs &&
           out->blocks && out->outputs;
}

static bool interp_resolve(interp_builder* b, uint32_t lanes) {
    const nsi_code* code = b->code;
    nsi_interp* out = b->out;
    if (!interp_allocate(b, lanes)) return false;

    // Replicate constants for every lane.
    for (uint32_t i = 0; i < code->consts.count; i++) {
        for (uint32_t l = 0; l < lanes; l++)
            out->consts[(size_t)i * lanes + l] = code->consts.data[i];
    }
    // Blocks are copied; the code is freed after building.
    if (code->blocks.count > 0) {
        memcpy(out->blocks, code->blocks.data, code->blocks.count * sizeof(nsi_code_block));
    }

    // Values that are outputs are computed in place; others share slots by their last uses.
    for (uint32_t v = 0; v < code->nvalue; v++) b->output[v] = NSI_NONE;
    // In reverse, so that the first of several equal outputs counts.
    for (uint32_t k = code->outputs.count; k-- > 0;) {
        uint32_t ref = code->outputs.data[k];
        if (nsi_is_value(ref)) b->output[NSI_REF_COMPONENT(ref)] = k;
    }
    // Lifetimes determine when a slot can be reused.
    nsi_code_last_uses(code, b->last);
    keep_block_outputs(b);
    if (!build_steps(b)) return false;

    // All blocks share one staging area; that of a call holds the frame of its function.
    uint32_t stage = 0;
    for (uint32_t n = 0; n < code->blocks.count; n++) {
        const nsi_code_block* block = &code->blocks.data[n];
        uint32_t size = block->stage;
        if (block->function != NSI_NONE) size += out->functions[block->function].interp.nslot;
        if (size > stage) stage = size;
    }
    out->stage = nsi_slots_take_range(&b->slots, stage);
    // Size of the work array.
    out->nslot = b->slots.count;

    // Outputs that are not computed in place are copied at the end.
    for (uint32_t k = 0; k < code->outputs.count; k++) {
        uint32_t place = resolve_reference(b, code->outputs.data[k]);
        out->outputs[k] = place == NSI_REF(NSI_BASE_OUTPUT, k) ? NSI_NONE : place;
    }
    return true;
}

static ns_status interp_functions(const nsi_code* code, uint32_t form, nsi_interp* out,
                                  ns_error* error) {
    uint32_t count = code->functions.count;
    out->functions =
        nsi_alloc_zeroed(&code->allocator, ((size_t)count + 1) * sizeof *out->functions);
    if (!out->functions) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count; k++) {
        const nsi_code_function* f = &code->functions.data[k];
        out->functions[k].first_off = f->first_off;
        ns_status status = nsi_interp_build(f->code, form, &out->functions[k].interp, error);
        if (status != NS_OK) return status;
        out->nfunction++;
    }
    return NS_OK;
}

ns_status nsi_interp_build(const nsi_code* code, uint32_t form, nsi_interp* out, ns_error* error) {
    uint32_t lanes = nsi_lane_counts[form];
    *out = (nsi_interp){.lanes = lanes,
                        .form = form,
                        .kernels = nsi_kernels_best(),
                        .nblock = code->blocks.count,
                        .noutput = code->outputs.count};
    interp_builder b = {.code = code, .memory = &code->allocator, .out = out};
    ns_status status = interp_functions(code, form, out, error);
    if (status != NS_OK) {
        nsi_interp_free(b.memory, out);
        return status;
    }
    bool built = interp_resolve(&b, lanes);
    nsi_free(b.memory, b.place);
    nsi_free(b.memory, b.last);
    nsi_free(b.memory, b.output);
    nsi_array_free(b.memory, &b.slots.unused);
    if (built) return NS_OK;
    nsi_interp_free(b.memory, out);
    return nsi_fail_nomem(error);
}

void nsi_interp_free(const ns_allocator* memory, nsi_interp* interp) {
    nsi_free(memory, interp->steps);
    nsi_free(memory, interp->consts);
    nsi_free(memory, interp->block_inputs);
    nsi_free(memory, interp->blocks);
    nsi_free(memory, interp->outputs);
    for (uint32_t k = 0; k < interp->nfunction; k++) {
        nsi_interp_free(memory, &interp->functions[k].interp);
    }
    nsi_free(memory, interp->functions);
    *interp = (nsi_interp){0};
}

static void copy_lanes(double* to, const double* from, size_t lanes) {
    for (size_t l = 0; l < lanes; l++) to[l] = from[l];
}

static void stage_inputs(const nsi_interp* interp, const nsi_code_block* block,
                         double* const bases[4], double* x) {
    const size_t lanes = interp->lanes;
    const uint32_t* inputs = interp->block_inputs + block->first_input;
    for (size_t k = 0; k < block->ninput; k++) {
        const double* from = bases[NSI_REF_BASE(inputs[k])];
        copy_lanes(x + k * lanes, from + NSI_REF_COMPONENT(inputs[k]) * lanes, lanes);
    }
}

static void interp_call(const nsi_interp* interp, const nsi_code_block* block,
                        double* const bases[4], double* x, double* y) {
    const uint32_t lanes = interp->lanes;
    const nsi_interp_function* f = &interp->functions[block->function];
    uint32_t ref = interp->block_inputs[block->first_input];
    const double* flag = bases[NSI_REF_BASE(ref)] + (size_t)NSI_REF_COMPONENT(ref) * lanes;
    if (nsi_call_is_active(flag, lanes)) {
        stage_inputs(interp, block, bases, x);
        nsi_interp_run(
            &f->interp,
            &(ns_run){.in = x + lanes, .out = y, .work = x + (size_t)block->ninput * lanes});
    }
    nsi_call_put_off(block, flag, interp->consts + (size_t)f->first_off * lanes, lanes, y);
}

void nsi_interp_run(const nsi_interp* interp, const ns_run* run) {
    const size_t lanes = interp->lanes;

    double* work = run->work;
    // Base addresses; the cast lets one table hold read-only memory, too.
    double* const bases[4] = {[NSI_BASE_WORK] = work,
                              [NSI_BASE_INPUT] = (double*)run->in,
                              [NSI_BASE_CONST] = interp->consts,
                              [NSI_BASE_OUTPUT] = run->out};
    nsi_step_kernel* kernel = interp->kernels->steps[interp->form];

    // Execute steps up to each block, then the block on its staged inputs.
    size_t next = 0;
    for (uint32_t n = 0; n < interp->nblock; n++) {
        const nsi_code_block* block = &interp->blocks[n];
        kernel(interp->steps + next, block->step - next, bases);
        next = (size_t)block->step + 1;
        double *x = work + interp->stage * lanes, *y = work + block->first_value * lanes;
        if (block->function != NSI_NONE) {
            interp_call(interp, block, bases, x, y);
            continue;
        }
        stage_inputs(interp, block, bases, x);
        nsi_code_block_run(block, block->kind->kernel(interp->form), interp->lanes, run, x, y);
    }

    // Steps after the last block.
    kernel(interp->steps + next, interp->nstep - next, bases);

    // Copy outputs that were not computed in place.
    for (size_t k = 0; k < interp->noutput; k++) {
        uint32_t ref = interp->outputs[k];
        if (ref == NSI_NONE) continue;
        const double* from = bases[NSI_REF_BASE(ref)];
        copy_lanes(run->out + k * lanes, from + NSI_REF_COMPONENT(ref) * lanes, lanes);
    }
}
