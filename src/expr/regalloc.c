// Register allocation and the order of emitted code, for any target (target.h).
//
// Code is emitted in one pass over the steps. When a register is needed, the value whose next use is
// farthest goes (Belady 1966), into a slot of the frame unless memory has it already. Inputs and
// constants always have a place in memory, outputs get theirs when they are computed. An operand that
// is in memory and is not used again sooner than what it would displace is used from there, where the
// target has such instructions.

#include "expr/target.h"

static uint32_t entity_of(const nsi_regalloc* ra, uint32_t ref) {
    uint32_t component = NSI_REF_COMPONENT(ref);
    switch (NSI_REF_BASE(ref)) {
    case NSI_BASE_INPUT: return ra->code->nvalue + component;
    case NSI_BASE_CONST: return ra->code->nvalue + ra->code->ninput + component;
    default: return component;
    }
}

// ---- registers -----------------------------------------------------------------------------

static void reserve_code(nsi_regalloc* ra, uint32_t instructions) {
    uint32_t size = instructions * ra->target->max_instruction;
    if (!nsi_array_reserve(ra->memory, &ra->machine.bytes, size)) ra->failed = true;
}

static void drop_register(nsi_regalloc* ra, uint32_t e) {
    if (ra->reg[e] == NSI_NO_REGISTER) return;
    ra->holds[ra->reg[e]] = NSI_NONE;
    ra->reg[e] = NSI_NO_REGISTER;
}

// Save what a register holds if it is still needed and nowhere else.
static void save_register(nsi_regalloc* ra, uint32_t r) {
    uint32_t e = ra->holds[r];
    if (e == NSI_NONE || ra->next[e] == NSI_NONE || ra->home[e] != NSI_NONE) return;
    ra->home[e] = NSI_REF(NSI_BASE_WORK, nsi_slots_take(&ra->slots));
    ra->target->store(ra, ra->home[e], r);
}

// Empty a register.
static void evict_register(nsi_regalloc* ra, uint32_t r) {
    save_register(ra, r);
    if (ra->holds[r] != NSI_NONE) drop_register(ra, ra->holds[r]);
}

// A free register, else the one whose next use is farthest; `pinned` is a set of registers to
// leave, never all of them.
static uint32_t choose_register(const nsi_regalloc* ra, uint32_t pinned) {
    uint32_t best = 0, farthest = 0;
    bool found = false;
    for (uint32_t r = 0; r < ra->target->registers; r++) {
        if (pinned & (1u << r)) continue;
        uint32_t e = ra->holds[r];
        if (e == NSI_NONE) return r;
        if (!found || ra->next[e] > farthest) {
            found = true;
            best = r;
            farthest = ra->next[e];
        }
    }
    return best;
}

uint32_t nsi_regalloc_take(nsi_regalloc* ra, uint32_t pinned) {
    uint32_t r = choose_register(ra, pinned);
    evict_register(ra, r);
    return r;
}

static void hold_entity(nsi_regalloc* ra, uint32_t r, uint32_t e) {
    ra->holds[r] = e;
    ra->reg[e] = (int8_t)r;
}

// Is it worth a register to load this entity, which is in memory?
static bool worth_loading(const nsi_regalloc* ra, uint32_t e, uint32_t pinned) {
    if (ra->next[e] == NSI_NONE) return false;
    uint32_t r = choose_register(ra, pinned);
    return ra->holds[r] == NSI_NONE || ra->next[e] < ra->next[ra->holds[r]];
}

uint32_t nsi_regalloc_register(nsi_regalloc* ra, uint32_t e, uint32_t* pinned) {
    uint32_t r = (uint32_t)ra->reg[e];
    if (ra->reg[e] == NSI_NO_REGISTER) {
        r = nsi_regalloc_take(ra, *pinned);
        ra->target->load(ra, r, ra->home[e]);
        hold_entity(ra, r, e);
    }
    *pinned |= 1u << r;
    return r;
}

nsi_location nsi_regalloc_anywhere(nsi_regalloc* ra, uint32_t e, uint32_t* pinned) {
    if (ra->reg[e] == NSI_NO_REGISTER && !worth_loading(ra, e, *pinned)) {
        return (nsi_location){.memory = true, .place = ra->home[e]};
    }
    return (nsi_location){.reg = nsi_regalloc_register(ra, e, pinned)};
}

// After its last use an entity leaves its register and slot.
static void release_dead(nsi_regalloc* ra, uint32_t e) {
    if (ra->next[e] != NSI_NONE) return;
    drop_register(ra, e);
    if (ra->home[e] != NSI_NONE && nsi_is_value(ra->home[e])) {
        if (!nsi_slots_release(ra->memory, &ra->slots, NSI_REF_COMPONENT(ra->home[e]))) {
            ra->failed = true;
        }
        ra->home[e] = NSI_NONE;
    }
}

void nsi_regalloc_pin(const nsi_regalloc* ra, nsi_step_operands* o) {
    for (uint32_t k = 0; k < o->count; k++) {
        if (ra->reg[o->entity[k]] != NSI_NO_REGISTER) o->pinned |= 1u << ra->reg[o->entity[k]];
    }
}

bool nsi_regalloc_is_zero(const nsi_regalloc* ra, uint32_t e) {
    uint32_t first = ra->code->nvalue + ra->code->ninput;
    uint64_t pattern = 1;
    if (e >= first) memcpy(&pattern, &ra->code->consts.data[e - first], sizeof pattern);
    return pattern == 0;
}

uint32_t nsi_regalloc_result(nsi_regalloc* ra, const nsi_step_operands* o) {
    for (uint32_t k = 0; k < o->count; k++) {
        uint32_t e = o->entity[k];
        if (ra->next[e] == NSI_NONE && ra->reg[e] != NSI_NO_REGISTER) return (uint32_t)ra->reg[e];
    }
    return nsi_regalloc_take(ra, o->pinned);
}

// ---- one step ------------------------------------------------------------------------------

// A value that has just been computed into `dst` goes to its outputs and stays in the register
// while it is needed.
static void define_value(nsi_regalloc* ra, uint32_t value, uint32_t dst) {
    for (uint32_t k = ra->output[value]; k != NSI_NONE; k = ra->same[k]) {
        uint32_t place = NSI_REF(NSI_BASE_OUTPUT, k);
        reserve_code(ra, 1);
        if (ra->failed) return;
        ra->target->store(ra, place, dst);
        ra->home[value] = place;
    }
    if (ra->next[value] != NSI_NONE) hold_entity(ra, dst, value);
}

static void emit_step(nsi_regalloc* ra, uint32_t i) {
    const nsi_step* step = &ra->code->steps.data[i];
    reserve_code(ra, ra->target->step_instructions);
    if (ra->failed) return;
    nsi_step_operands o = {.count = nsi_ops[step->op].arity};
    for (uint32_t k = 0; k < o.count; k++) {
        o.entity[k] = entity_of(ra, nsi_step_operand(step, k));
        ra->next[o.entity[k]] = ra->step_next[3 * i + k];
    }
    uint32_t dst = ra->target->step(ra, &o, step->op);
    for (uint32_t k = 0; k < o.count; k++) release_dead(ra, o.entity[k]);
    define_value(ra, NSI_REF_COMPONENT(step->dst), dst);
}

// ---- regions -------------------------------------------------------------------------------

// Steps that are jumped over when no lane needs them. Both ways meet behind them, so what is known
// there about registers and memory has to hold on both:
//
// - What is live before the region is saved before the jump, so nothing is saved inside that was
//   computed outside: its place in memory is right on both ways.
// - A register is kept only if it holds at the end what it held at the jump.
// - What is computed inside and read behind, by selects that drop it, gets its place inside. Jumped
//   over, that place holds anything. No output is among it (regions.c).
// - A slot released inside belonged to a value that no step behind reads; jumped over, no step
//   inside reads it either. A slot taken inside was free, or released inside. So slots may be used
//   again inside and behind: what is live behind the region keeps its own all the way.
static void emit_region(nsi_regalloc* ra, const nsi_region* region) {
    reserve_code(ra, ra->target->registers + ra->target->step_instructions);
    if (ra->failed) return;
    uint32_t pinned = 0, before[NSI_TARGET_MAX_REGISTERS];
    uint32_t mask = nsi_regalloc_register(ra, entity_of(ra, region->condition), &pinned);
    for (uint32_t r = 0; r < ra->target->registers; r++) save_register(ra, r);
    memcpy(before, ra->holds, sizeof before);

    uint32_t jump = ra->target->skip(ra, mask, region->when);
    for (uint32_t i = 0; i < region->count && !ra->failed; i++) emit_step(ra, region->first + i);
    reserve_code(ra, ra->target->registers);
    if (ra->failed) return;
    for (uint32_t r = 0; r < ra->target->registers; r++) {
        if (ra->holds[r] != before[r]) evict_register(ra, r);
    }
    ra->target->land(ra, jump);
}

// ---- blocks --------------------------------------------------------------------------------

// What the emitted code calls.
static void call_block(const nsi_native_block* nb, const ns_run* run) {
    double* work = run->work;
    nsi_code_block_run(&nb->block, nb->kernel, nb->lanes, run, work + nb->stage * nb->lanes,
                       work + nb->first * nb->lanes);
}

// A function, on inputs that are staged; its frame is behind them.
static void call_function(const nsi_native_block* nb, const ns_run* run) {
    uint32_t lanes = nb->lanes;
    double *work = run->work, *x = work + (size_t)nb->stage * lanes;
    double* y = work + (size_t)nb->first * lanes;
    nsi_native_run(
        nb->function,
        &(ns_run){.in = x + lanes, .out = y, .work = x + (size_t)nb->block.ninput * lanes});
    if (lanes > 1) nsi_call_put_off(&nb->block, x, nb->off, lanes, y);
}

static void stage_block(nsi_regalloc* ra, const nsi_code_block* block, uint32_t stage) {
    const uint32_t* inputs = ra->code->block_inputs.data + block->first_input;
    for (uint32_t k = 0; k < block->ninput; k++) {
        reserve_code(ra, 2);
        if (ra->failed) return;
        uint32_t e = entity_of(ra, inputs[k]);
        uint32_t to = NSI_REF(NSI_BASE_WORK, stage + k);
        // From a register or, through the scratch register, from memory.
        if (ra->reg[e] != NSI_NO_REGISTER) {
            ra->target->store(ra, to, (uint32_t)ra->reg[e]);
        } else {
            ra->target->load(ra, ra->target->scratch, ra->home[e]);
            ra->target->store(ra, to, ra->target->scratch);
        }
    }
}

// Inputs are read for the last time, or until their next use.
static void advance_inputs(nsi_regalloc* ra, const nsi_code_block* block) {
    for (uint32_t k = 0; k < block->ninput; k++) {
        uint32_t n = block->first_input + k;
        ra->next[entity_of(ra, ra->code->block_inputs.data[n])] = ra->block_next[n];
    }
}

static void release_inputs(nsi_regalloc* ra, const nsi_code_block* block) {
    const uint32_t* inputs = ra->code->block_inputs.data + block->first_input;
    for (uint32_t k = 0; k < block->ninput; k++) release_dead(ra, entity_of(ra, inputs[k]));
}

// The kernel of a block.
static void emit_kernel(nsi_regalloc* ra, nsi_native_block* nb) {
    stage_block(ra, &nb->block, nb->stage);
    advance_inputs(ra, &nb->block);

    // Save every register that is still needed: the call keeps none.
    release_inputs(ra, &nb->block);
    reserve_code(ra, ra->target->registers + ra->target->step_instructions);
    if (ra->failed) return;
    for (uint32_t r = 0; r < ra->target->registers; r++) evict_register(ra, r);
    ra->target->call(ra, call_block, nb);
}

// A function, which is jumped over, staging included, if no lane is active: then the outputs are the
// constants that were stored before. Whatever is needed behind the call is in memory on both ways.
static void emit_call(nsi_regalloc* ra, nsi_native_block* nb, uint32_t first_off) {
    const nsi_code_block* block = &nb->block;
    uint32_t flag = ra->code->block_inputs.data[block->first_input], jump = 0, pinned = 0;
    bool always = !nsi_is_value(flag); // a constant, which is true

    // Save what is needed behind, store the constants, jump.
    reserve_code(ra, 2 * ra->target->registers + 2 * ra->target->step_instructions);
    if (ra->failed) return;
    uint32_t mask = always ? 0 : nsi_regalloc_register(ra, entity_of(ra, flag), &pinned);
    advance_inputs(ra, block);
    for (uint32_t r = 0; r < ra->target->registers; r++) save_register(ra, r);
    const double* off = ra->code->consts.data + first_off;
    for (uint32_t k = 0; k < block->noutput && !always; k++) {
        reserve_code(ra, 2);
        if (ra->failed) return;
        uint32_t scratch = ra->target->scratch;
        bool loaded = k > 0 && memcmp(&off[k], &off[k - 1], sizeof *off) == 0;
        if (!loaded) ra->target->load(ra, scratch, NSI_REF(NSI_BASE_CONST, first_off + k));
        ra->target->store(ra, NSI_REF(NSI_BASE_WORK, nb->first + k), scratch);
    }
    reserve_code(ra, ra->target->step_instructions);
    if (ra->failed) return;
    if (!always) jump = ra->target->skip(ra, mask, true);

    // The call; registers are forgotten on both ways.
    stage_block(ra, block, nb->stage);
    reserve_code(ra, ra->target->step_instructions);
    if (ra->failed) return;
    ra->target->call(ra, call_function, nb);
    if (!always) ra->target->land(ra, jump);
    release_inputs(ra, block);
    for (uint32_t r = 0; r < ra->target->registers; r++) evict_register(ra, r);
}

static void emit_block(nsi_regalloc* ra, uint32_t number, uint32_t stage) {
    const nsi_code_block* block = &ra->code->blocks.data[number];
    // Describe the call; emitted code passes the description on.
    nsi_native_block* nb = &ra->blocks[number];
    nb->block = *block;
    nb->lanes = ra->lanes;
    nb->stage = stage;
    // Results are consecutive.
    nb->first = nsi_slots_take_range(&ra->slots, block->noutput);
    if (block->function != NSI_NONE) {
        nb->function = &ra->functions[block->function];
        emit_call(ra, nb, ra->code->functions.data[block->function].first_off);
    } else {
        emit_kernel(ra, nb);
    }
    if (ra->failed) return;

    // Results stay in their slots; copy those that are outputs.
    for (uint32_t k = 0; k < block->noutput; k++) {
        uint32_t value = block->first_value + k;
        ra->home[value] = NSI_REF(NSI_BASE_WORK, nb->first + k);
        if (ra->output[value] == NSI_NONE) continue;
        reserve_code(ra, 1);
        if (ra->failed) return;
        ra->target->load(ra, ra->target->scratch, ra->home[value]);
        // One value may be several outputs.
        for (uint32_t n = ra->output[value]; n != NSI_NONE; n = ra->same[n]) {
            reserve_code(ra, 1);
            if (ra->failed) return;
            ra->target->store(ra, NSI_REF(NSI_BASE_OUTPUT, n), ra->target->scratch);
        }
    }
}

// ---- whole programs ------------------------------------------------------------------------

// For every occurrence of an entity as an operand: the step of its next occurrence.
static void find_next_uses(nsi_regalloc* ra) {
    for (uint32_t e = 0; e < ra->nentity; e++) ra->next[e] = NSI_NONE;
    for (uint32_t i = ra->code->steps.count; i-- > 0;) {
        const nsi_step* step = &ra->code->steps.data[i];
        if (step->op == NSI_BLOCK) {
            const nsi_code_block* block = &ra->code->blocks.data[step->a];
            for (uint32_t k = block->ninput; k-- > 0;) {
                uint32_t n = block->first_input + k;
                uint32_t e = entity_of(ra, ra->code->block_inputs.data[n]);
                ra->block_next[n] = ra->next[e];
                ra->next[e] = i;
            }
            continue;
        }
        for (uint32_t k = nsi_ops[step->op].arity; k-- > 0;) {
            uint32_t e = entity_of(ra, nsi_step_operand(step, k));
            ra->step_next[3 * i + k] = ra->next[e];
            ra->next[e] = i;
        }
    }
}

static bool regalloc_allocate(nsi_regalloc* ra) {
    const nsi_code* code = ra->code;
    const ns_allocator* memory = ra->memory;
    size_t nentity = (size_t)ra->nentity + 1;
    ra->next = nsi_alloc(memory, nentity * sizeof(uint32_t));
    ra->home = nsi_alloc(memory, nentity * sizeof(uint32_t));
    ra->reg = nsi_alloc(memory, nentity);
    ra->step_next = nsi_alloc(memory, ((size_t)code->steps.count + 1) * 3 * sizeof(uint32_t));
    ra->block_next = nsi_alloc(memory, ((size_t)code->block_inputs.count + 1) * sizeof(uint32_t));
    ra->output = nsi_alloc(memory, ((size_t)code->nvalue + 1) * sizeof(uint32_t));
    ra->same = nsi_alloc(memory, ((size_t)code->outputs.count + 1) * sizeof(uint32_t));
    ra->blocks = nsi_alloc_zeroed(memory, ((size_t)code->blocks.count + 1) * sizeof *ra->blocks);
    return ra->next && ra->home && ra->reg && ra->step_next && ra->block_next && ra->output &&
           ra->same && ra->blocks;
}

void nsi_regalloc_free(nsi_regalloc* ra) {
    nsi_free(ra->memory, ra->next);
    nsi_free(ra->memory, ra->home);
    nsi_free(ra->memory, ra->reg);
    nsi_free(ra->memory, ra->step_next);
    nsi_free(ra->memory, ra->block_next);
    nsi_free(ra->memory, ra->output);
    nsi_free(ra->memory, ra->same);
    nsi_free(ra->memory, ra->blocks);
    nsi_array_free(ra->memory, &ra->slots.unused);
    nsi_array_free(ra->memory, &ra->machine.bytes);
}

static void emit_program(nsi_regalloc* ra, uint32_t form) {
    const nsi_code* code = ra->code;

    // Registers are empty at first; inputs and constants are in memory.
    for (uint32_t r = 0; r < ra->target->registers; r++) ra->holds[r] = NSI_NONE;
    for (uint32_t e = 0; e < ra->nentity; e++) {
        ra->reg[e] = NSI_NO_REGISTER;
        // Values have no home until they are spilled.
        ra->home[e] = e < code->nvalue ? NSI_NONE
                      : e < code->nvalue + code->ninput
                          ? NSI_REF(NSI_BASE_INPUT, e - code->nvalue)
                          : NSI_REF(NSI_BASE_CONST, e - code->nvalue - code->ninput);
    }

    // Map values to outputs; several outputs of one value form a linked list.
    for (uint32_t v = 0; v < code->nvalue; v++) ra->output[v] = NSI_NONE;
    for (uint32_t k = code->outputs.count; k-- > 0;) {
        uint32_t ref = code->outputs.data[k];
        if (!nsi_is_value(ref)) continue;
        ra->same[k] = ra->output[NSI_REF_COMPONENT(ref)];
        ra->output[NSI_REF_COMPONENT(ref)] = k;
    }

    // Next uses decide what to evict (Belady).
    find_next_uses(ra);

    // All blocks share one staging area for their inputs; that of a call holds its function's frame.
    uint32_t stage_size = 0;
    for (uint32_t n = 0; n < code->blocks.count; n++) {
        const nsi_code_block* block = &code->blocks.data[n];
        bool call = block->function != NSI_NONE;
        uint32_t size = block->stage + (call ? ra->functions[block->function].nslot : 0);
        if (size > stage_size) stage_size = size;
        if (!call) ra->blocks[n].kernel = block->kind->kernel(form);
    }
    uint32_t stage = nsi_slots_take_range(&ra->slots, stage_size);

    // Emit regions, blocks and single steps.
    for (uint32_t i = 0, next = 0; i < code->steps.count && !ra->failed; i++) {
        if (next < code->regions.count && code->regions.data[next].first == i) {
            const nsi_region* region = &code->regions.data[next++];
            emit_region(ra, region);
            // A region consumes several steps.
            i += region->count - 1;
        } else if (code->steps.data[i].op == NSI_BLOCK) {
            emit_block(ra, code->steps.data[i].a, stage);
        } else {
            emit_step(ra, i);
        }
    }

    // Copy outputs that are inputs or constants.
    for (uint32_t k = 0; k < code->outputs.count && !ra->failed; k++) {
        if (nsi_is_value(code->outputs.data[k])) continue;
        reserve_code(ra, 2);
        if (ra->failed) return;
        ra->target->load(ra, ra->target->scratch, code->outputs.data[k]);
        ra->target->store(ra, NSI_REF(NSI_BASE_OUTPUT, k), ra->target->scratch);
    }

    reserve_code(ra, 1);
    if (ra->failed) return;
    ra->target->finish(ra);
}

bool nsi_regalloc_emit(nsi_regalloc* ra, uint32_t form) {
    const nsi_code* code = ra->code;
    ra->nentity = code->nvalue + code->ninput + code->consts.count;
    ra->failed = !regalloc_allocate(ra);
    if (!ra->failed) emit_program(ra, form);
    return !ra->failed;
}
