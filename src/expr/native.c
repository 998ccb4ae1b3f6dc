// The native backend: x86-64 code with AVX2 and FMA, for one lane (scalar instructions) or four;
// straight but for jumps over regions that no lane needs.
//
// Code is emitted in one pass over the steps. Values are kept in fifteen registers (the sixteenth
// is scratch); when one is needed, the value whose next use is farthest goes (Belady 1966), into a
// slot of the frame unless memory has it already. Inputs and constants always have a place in
// memory, outputs get theirs when they are computed. An operand that is in memory and is not used
// again sooner than what it would displace is used from there.
//
//   rdi inputs   rsi outputs   rdx frame   rcx constants   r8 the ns_run   rax, ymm15 scratch
//
// Truth values are bit masks in registers and slots; lower.c keeps them apart from numbers.

#if defined(__unix__) || defined(__APPLE__)
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include <sys/mman.h>
#endif

#include "expr/code.h"
#include "expr/x86.h"

enum { REGISTERS = 15, SCRATCH = 15, NO_REGISTER = -1 };

// Bit patterns behind the constants; 32 bytes each, whatever the lane count.
enum { BITS_SIGN, BITS_MAGNITUDE, BITS_ONES, BITS_TWO52, BITS_EXPONENT, BITS_COUNT };

static const uint64_t bit_patterns[BITS_COUNT] = {
    [BITS_SIGN] = UINT64_C(0x8000000000000000),     [BITS_MAGNITUDE] = UINT64_C(0x7fffffffffffffff),
    [BITS_ONES] = UINT64_C(0xffffffffffffffff),     [BITS_TWO52] = UINT64_C(0x4330000000000000),
    [BITS_EXPONENT] = UINT64_C(0x43300000000003ff), // 2^52 + 1023, see bits.def
};

struct nsi_native_block {
    nsi_code_block block;
    nsi_block_kernel* kernel;
    uint32_t lanes, stage, first; // slots
};

// An entity is anything an operand can be: a value, an input or a constant.
typedef struct native_builder {
    const nsi_code* code;
    const ns_allocator* memory;
    uint32_t lanes;
    uint32_t nentity;
    uint32_t* next;            // per entity: next step that reads it, or NSI_NONE
    uint32_t* home;            // per entity: its place in memory (NSI_REF), or NSI_NONE
    int8_t* reg;               // per entity: its register, or NO_REGISTER
    uint32_t* step_next;       // per operand of a step: the entity's next use after it
    uint32_t* block_next;      // the same per input of a block
    uint32_t* output;          // per value: the first output it is, or NSI_NONE
    uint32_t* same;            // per output: the next output of the same value, or NSI_NONE
    uint32_t holds[REGISTERS]; // entity in a register, or NSI_NONE
    nsi_slots slots;
    nsi_native_block* blocks;
    x86_code x86;
    bool failed; // out of memory
} native_builder;

static uint32_t entity(const native_builder* b, uint32_t ref) {
    uint32_t component = NSI_REF_COMPONENT(ref);
    switch (NSI_REF_BASE(ref)) {
    case NSI_BASE_INPUT: return b->code->nvalue + component;
    case NSI_BASE_CONST: return b->code->nvalue + b->code->ninput + component;
    default: return component;
    }
}

// ---- addresses and instructions ------------------------------------------------------------

static x86_rm at(const native_builder* b, uint32_t place) {
    static const uint8_t base[4] = {[NSI_BASE_WORK] = X86_RDX,
                                    [NSI_BASE_INPUT] = X86_RDI,
                                    [NSI_BASE_CONST] = X86_RCX,
                                    [NSI_BASE_OUTPUT] = X86_RSI};
    return (x86_rm){true, base[NSI_REF_BASE(place)],
                    (int32_t)(NSI_REF_COMPONENT(place) * b->lanes * 8)};
}

static x86_rm bits(const native_builder* b, uint32_t pattern) {
    return (x86_rm){true, X86_RCX, (int32_t)(b->code->consts.count * b->lanes * 8 + pattern * 32)};
}

// Arithmetic on doubles: packed for four lanes, scalar for one.
static void arithmetic(native_builder* b, uint8_t opcode, uint32_t dst, uint32_t a, x86_rm rm) {
    bool wide = b->lanes == 4;
    x86_op op = {X86_MAP_0F, wide ? X86_PREFIX_66 : X86_PREFIX_F2, opcode, false, wide};
    x86_vex(&b->x86, op, dst, a, rm);
}

// Bitwise operations have no scalar form; the upper half is ignored.
static void bitwise(native_builder* b, uint8_t opcode, uint32_t dst, uint32_t a, x86_rm rm) {
    x86_op op = {X86_MAP_0F, X86_PREFIX_66, opcode, false, b->lanes == 4};
    x86_vex(&b->x86, op, dst, a, rm);
}

enum {
    ADDPD = 0x58,
    MULPD = 0x59,
    SUBPD = 0x5c,
    MINPD = 0x5d,
    DIVPD = 0x5e,
    MAXPD = 0x5f,
    SQRTPD = 0x51,
    CMPPD = 0xc2,
    ANDPD = 0x54,
    ANDNPD = 0x55,
    ORPD = 0x56,
    XORPD = 0x57
};
enum { CMP_EQ = 0x00, CMP_LT = 0x11, CMP_LE = 0x12, CMP_NE = 0x04 }; // quiet

static void load(native_builder* b, uint32_t reg, x86_rm from) {
    arithmetic(b, 0x10, reg, 0, from);
}
static void store(native_builder* b, x86_rm to, uint32_t reg) {
    arithmetic(b, 0x11, reg, 0, to);
}

static void copy(native_builder* b, uint32_t dst, uint32_t src) {
    if (dst != src) bitwise(b, 0x28, dst, 0, x86_reg(src)); // vmovapd
}

static void compare(native_builder* b, uint32_t predicate, uint32_t dst, uint32_t a, x86_rm rm) {
    arithmetic(b, CMPPD, dst, a, rm);
    x86_byte(&b->x86, predicate);
}

static void round_to(native_builder* b, uint32_t mode, uint32_t dst, uint32_t a) {
    bool wide = b->lanes == 4;
    x86_op op = {X86_MAP_0F3A, X86_PREFIX_66, wide ? 0x09 : 0x0b, false, wide};
    x86_vex(&b->x86, op, dst, wide ? 0 : a, x86_reg(a));
    x86_byte(&b->x86, mode | 8u); // no exceptions
}

// Shift each 64-bit element: left (/6) or right (/2).
static void shift(native_builder* b, uint32_t extension, uint32_t dst, uint32_t a, uint32_t count) {
    x86_op op = {X86_MAP_0F, X86_PREFIX_66, 0x73, false, b->lanes == 4};
    x86_vex(&b->x86, op, extension, dst, x86_reg(a));
    x86_byte(&b->x86, count);
}

static void blend(native_builder* b, uint32_t dst, uint32_t otherwise, x86_rm then, uint32_t mask) {
    x86_op op = {X86_MAP_0F3A, X86_PREFIX_66, 0x4b, false, b->lanes == 4};
    x86_vex(&b->x86, op, dst, otherwise, then);
    x86_byte(&b->x86, mask << 4);
}

// ---- registers -----------------------------------------------------------------------------

static void reserve_code(native_builder* b, uint32_t size) {
    if (!nsi_array_reserve(b->memory, &b->x86.bytes, size)) b->failed = true;
}

static void drop_register(native_builder* b, uint32_t e) {
    if (b->reg[e] == NO_REGISTER) return;
    b->holds[b->reg[e]] = NSI_NONE;
    b->reg[e] = NO_REGISTER;
}

// Save what a register holds if it is still needed and nowhere else.
static void save(native_builder* b, uint32_t r) {
    uint32_t e = b->holds[r];
    if (e == NSI_NONE || b->next[e] == NSI_NONE || b->home[e] != NSI_NONE) return;
    b->home[e] = NSI_REF(NSI_BASE_WORK, nsi_slots_take(&b->slots));
    store(b, at(b, b->home[e]), r);
}

// Empty a register.
static void evict(native_builder* b, uint32_t r) {
    save(b, r);
    if (b->holds[r] != NSI_NONE) drop_register(b, b->holds[r]);
}

// A free register, else the one whose next use is farthest; `pinned` is a set of registers to
// leave.
static uint32_t choose_register(const native_builder* b, uint32_t pinned) {
    uint32_t best = NSI_NONE, farthest = 0;
    for (uint32_t r = 0; r < REGISTERS; r++) {
        if (pinned & (1u << r)) continue;
        uint32_t e = b->holds[r];
        if (e == NSI_NONE) return r;
        if (best == NSI_NONE || b->next[e] > farthest) {
            best = r;
            farthest = b->next[e];
        }
    }
    return best;
}

static uint32_t take_register(native_builder* b, uint32_t pinned) {
    uint32_t r = choose_register(b, pinned);
    evict(b, r);
    return r;
}

static void hold(native_builder* b, uint32_t r, uint32_t e) {
    b->holds[r] = e;
    b->reg[e] = (int8_t)r;
}

// Is it worth a register to load this entity, which is in memory?
static bool worth_loading(const native_builder* b, uint32_t e, uint32_t pinned) {
    if (b->next[e] == NSI_NONE) return false;
    uint32_t r = choose_register(b, pinned);
    return b->holds[r] == NSI_NONE || b->next[e] < b->next[b->holds[r]];
}

// The entity in a register, pinned.
static uint32_t in_register(native_builder* b, uint32_t e, uint32_t* pinned) {
    if (b->reg[e] == NO_REGISTER) {
        uint32_t r = take_register(b, *pinned);
        load(b, r, at(b, b->home[e]));
        hold(b, r, e);
    }
    *pinned |= 1u << b->reg[e];
    return (uint32_t)b->reg[e];
}

// The entity in a register, pinned, or in memory.
static x86_rm anywhere(native_builder* b, uint32_t e, uint32_t* pinned) {
    if (b->reg[e] == NO_REGISTER && !worth_loading(b, e, *pinned)) return at(b, b->home[e]);
    return x86_reg(in_register(b, e, pinned));
}

// After its last use an entity leaves its register and slot.
static void release_dead(native_builder* b, uint32_t e) {
    if (b->next[e] != NSI_NONE) return;
    drop_register(b, e);
    if (b->home[e] != NSI_NONE && nsi_is_value(b->home[e])) {
        if (!nsi_slots_release(b->memory, &b->slots, NSI_REF_COMPONENT(b->home[e]))) {
            b->failed = true;
        }
        b->home[e] = NSI_NONE;
    }
}

// ---- one step ------------------------------------------------------------------------------

typedef struct operands {
    uint32_t entity[3];
    uint32_t count;
    uint32_t pinned;
} operands;

// A register for the result: that of a dying operand, else another one.
static uint32_t result_register(native_builder* b, const operands* o) {
    for (uint32_t k = 0; k < o->count; k++) {
        uint32_t e = o->entity[k];
        if (b->next[e] == NSI_NONE && b->reg[e] != NO_REGISTER) return (uint32_t)b->reg[e];
    }
    return take_register(b, o->pinned);
}

// dst = a op b with b possibly in memory.
static uint32_t emit_binary(native_builder* b, operands* o, nsi_op op) {
    uint32_t x = o->entity[0], y = o->entity[1];
    bool commutes = (nsi_ops[op].flags & NSI_FLAG_COMMUTES) != 0;
    if (commutes && b->reg[x] == NO_REGISTER && b->reg[y] != NO_REGISTER) {
        uint32_t swap = x;
        x = y;
        y = swap;
    }
    // Both operands' registers are pinned before either is loaded.
    if (b->reg[y] != NO_REGISTER) o->pinned |= 1u << b->reg[y];
    uint32_t ra = in_register(b, x, &o->pinned);
    bool masks = op == NSI_AND || op == NSI_OR;
    x86_rm rb = masks && b->lanes == 1 ? x86_reg(in_register(b, y, &o->pinned))
                                       : anywhere(b, y, &o->pinned);
    uint32_t dst = result_register(b, o);
    switch (op) {
    case NSI_ADD: arithmetic(b, ADDPD, dst, ra, rb); break;
    case NSI_SUB: arithmetic(b, SUBPD, dst, ra, rb); break;
    case NSI_MUL: arithmetic(b, MULPD, dst, ra, rb); break;
    case NSI_DIV: arithmetic(b, DIVPD, dst, ra, rb); break;
    case NSI_MIN: arithmetic(b, MINPD, dst, ra, rb); break;
    case NSI_MAX: arithmetic(b, MAXPD, dst, ra, rb); break;
    case NSI_LT: compare(b, CMP_LT, dst, ra, rb); break;
    case NSI_LE: compare(b, CMP_LE, dst, ra, rb); break;
    case NSI_EQ: compare(b, CMP_EQ, dst, ra, rb); break;
    case NSI_NE: compare(b, CMP_NE, dst, ra, rb); break;
    case NSI_AND: bitwise(b, ANDPD, dst, ra, rb); break;
    case NSI_OR: bitwise(b, ORPD, dst, ra, rb); break;
    default: NS_ASSERT(false && "binary operation without an encoding");
    }
    return dst;
}

static uint32_t emit_unary(native_builder* b, operands* o, nsi_op op) {
    uint32_t a = in_register(b, o->entity[0], &o->pinned);
    uint32_t dst = result_register(b, o);
    switch (op) {
    case NSI_NEG: bitwise(b, XORPD, dst, a, bits(b, BITS_SIGN)); break;
    case NSI_ABS: bitwise(b, ANDPD, dst, a, bits(b, BITS_MAGNITUDE)); break;
    case NSI_NOT: bitwise(b, XORPD, dst, a, bits(b, BITS_ONES)); break;
    case NSI_SQRT: arithmetic(b, SQRTPD, dst, b->lanes == 4 ? 0 : a, x86_reg(a)); break;
    case NSI_FLOOR: round_to(b, 1, dst, a); break;
    case NSI_ROUND: round_to(b, 0, dst, a); break;
    case NSI_POW2I:
        arithmetic(b, ADDPD, dst, a, bits(b, BITS_EXPONENT));
        shift(b, 6, dst, dst, 52);
        break;
    case NSI_EXPONENT:
        shift(b, 2, dst, a, 52);
        bitwise(b, ORPD, dst, dst, bits(b, BITS_TWO52));
        arithmetic(b, SUBPD, dst, dst, bits(b, BITS_EXPONENT));
        break;
    default: NS_ASSERT(false && "unary operation without an encoding");
    }
    return dst;
}

static uint32_t emit_copysign(native_builder* b, operands* o) {
    if (b->reg[o->entity[1]] != NO_REGISTER) o->pinned |= 1u << b->reg[o->entity[1]];
    uint32_t magnitude = in_register(b, o->entity[0], &o->pinned);
    uint32_t sign = in_register(b, o->entity[1], &o->pinned);
    uint32_t dst = result_register(b, o);
    bitwise(b, ANDPD, SCRATCH, sign, bits(b, BITS_SIGN));
    bitwise(b, ANDPD, dst, magnitude, bits(b, BITS_MAGNITUDE));
    bitwise(b, ORPD, dst, dst, x86_reg(SCRATCH));
    return dst;
}

static void pin_all(const native_builder* b, operands* o) {
    for (uint32_t k = 0; k < o->count; k++) {
        if (b->reg[o->entity[k]] != NO_REGISTER) o->pinned |= 1u << b->reg[o->entity[k]];
    }
}

static bool is_zero_constant(const native_builder* b, uint32_t e) {
    uint32_t first = b->code->nvalue + b->code->ninput;
    uint64_t pattern = 1;
    if (e >= first) memcpy(&pattern, &b->code->consts.data[e - first], sizeof pattern);
    return pattern == 0;
}

// Choosing from zero is a bitwise and.
static uint32_t emit_select(native_builder* b, operands* o) {
    uint32_t condition = o->entity[0], then = o->entity[1], otherwise = o->entity[2];
    pin_all(b, o);
    uint32_t mask = in_register(b, condition, &o->pinned);
    bool memory_allowed = b->lanes == 4; // packed instructions read 16 bytes at least
    uint32_t dst;
    if (is_zero_constant(b, otherwise) || is_zero_constant(b, then)) {
        bool keep = is_zero_constant(b, otherwise);
        uint32_t value = keep ? then : otherwise;
        x86_rm rm = memory_allowed ? anywhere(b, value, &o->pinned)
                                   : x86_reg(in_register(b, value, &o->pinned));
        dst = result_register(b, o);
        bitwise(b, keep ? ANDPD : ANDNPD, dst, mask, rm);
        return dst;
    }
    uint32_t no = in_register(b, otherwise, &o->pinned);
    x86_rm yes =
        memory_allowed ? anywhere(b, then, &o->pinned) : x86_reg(in_register(b, then, &o->pinned));
    dst = result_register(b, o);
    blend(b, dst, no, yes, mask);
    return dst;
}

// Fused multiply-add overwrites one operand: a dying one, else one that has to be loaded anyway,
// else a copy. The digits of a form number the operands: 132 is x1 = x1*x3 + x2, and so on; only
// the third can be in memory.
static uint32_t emit_fused(native_builder* b, operands* o, nsi_op op) {
    uint8_t base = op == NSI_FMA ? 0x98 : op == NSI_FMS ? 0x9a : op == NSI_FNMA ? 0x9c : 0x9e;
    enum { FORM_132 = 0x00, FORM_213 = 0x10, FORM_231 = 0x20 };
    pin_all(b, o);

    // Which operand to overwrite: 0 and 1 are factors, 2 the addend.
    uint32_t victim = NSI_NONE;
    bool dying = false;
    for (uint32_t k = 3; k-- > 0 && !dying;) {
        uint32_t e = o->entity[k];
        dying = b->reg[e] != NO_REGISTER && b->next[e] == NSI_NONE;
        if (dying || (victim == NSI_NONE && b->reg[e] == NO_REGISTER)) victim = k;
    }
    if (victim == NSI_NONE) victim = 2;
    uint32_t e = o->entity[victim];
    uint32_t dst;
    if (dying) {
        dst = (uint32_t)b->reg[e];
    } else {
        // A result in the making: not yet held, but pinned.
        dst = take_register(b, o->pinned);
        if (b->reg[e] == NO_REGISTER) {
            load(b, dst, at(b, b->home[e]));
        } else {
            copy(b, dst, (uint32_t)b->reg[e]);
        }
    }
    o->pinned |= 1u << dst;

    uint32_t second, form;
    x86_rm third;
    if (victim == 2) {
        uint32_t x = o->entity[0], y = o->entity[1];
        if (b->reg[x] == NO_REGISTER && b->reg[y] != NO_REGISTER) {
            x = o->entity[1];
            y = o->entity[0];
        }
        second = in_register(b, x, &o->pinned);
        third = anywhere(b, y, &o->pinned);
        form = FORM_231;
    } else {
        uint32_t factor = o->entity[1 - victim], addend = o->entity[2];
        if (b->reg[factor] == NO_REGISTER && b->reg[addend] != NO_REGISTER) {
            second = in_register(b, addend, &o->pinned);
            third = anywhere(b, factor, &o->pinned);
            form = FORM_132;
        } else {
            second = in_register(b, factor, &o->pinned);
            third = anywhere(b, addend, &o->pinned);
            form = FORM_213;
        }
    }
    bool wide = b->lanes == 4;
    x86_op code = {X86_MAP_0F38, X86_PREFIX_66, (uint8_t)(base + form + (wide ? 0 : 1)), true,
                   wide};
    x86_vex(&b->x86, code, dst, second, third);
    return dst;
}

// A value that has just been computed into `dst` goes to its outputs and stays in the register
// while it is needed.
static void define(native_builder* b, uint32_t value, uint32_t dst) {
    for (uint32_t k = b->output[value]; k != NSI_NONE; k = b->same[k]) {
        uint32_t place = NSI_REF(NSI_BASE_OUTPUT, k);
        reserve_code(b, X86_MAX_INSTRUCTION);
        if (b->failed) return;
        store(b, at(b, place), dst);
        b->home[value] = place;
    }
    if (b->next[value] != NSI_NONE) hold(b, dst, value);
}

static void emit_step(native_builder* b, uint32_t i) {
    const nsi_step* step = &b->code->steps.data[i];
    reserve_code(b, 12 * X86_MAX_INSTRUCTION);
    if (b->failed) return;
    operands o = {.count = nsi_ops[step->op].arity};
    for (uint32_t k = 0; k < o.count; k++) {
        o.entity[k] = entity(b, nsi_step_operand(step, k));
        b->next[o.entity[k]] = b->step_next[3 * i + k];
    }
    uint32_t dst;
    switch (step->op) {
    case NSI_FMA:
    case NSI_FMS:
    case NSI_FNMA:
    case NSI_FNMS: dst = emit_fused(b, &o, step->op); break;
    case NSI_SELECT: dst = emit_select(b, &o); break;
    case NSI_COPYSIGN: dst = emit_copysign(b, &o); break;
    default: dst = o.count == 1 ? emit_unary(b, &o, step->op) : emit_binary(b, &o, step->op);
    }
    for (uint32_t k = 0; k < o.count; k++) release_dead(b, o.entity[k]);
    define(b, NSI_REF_COMPONENT(step->dst), dst);
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
static void emit_region(native_builder* b, const nsi_region* region) {
    reserve_code(b, (REGISTERS + 8) * X86_MAX_INSTRUCTION);
    if (b->failed) return;
    uint32_t pinned = 0, before[REGISTERS];
    uint32_t mask = in_register(b, entity(b, region->condition), &pinned);
    for (uint32_t r = 0; r < REGISTERS; r++) save(b, r);
    memcpy(before, b->holds, sizeof before);

    // One bit per lane; with one lane the others are anything.
    x86_op movmskpd = {X86_MAP_0F, X86_PREFIX_66, 0x50, false, b->lanes == 4};
    x86_vex(&b->x86, movmskpd, X86_RAX, 0, x86_reg(mask));
    if (!region->when) x86_not_eax(&b->x86);
    x86_test_al(&b->x86, (1u << b->lanes) - 1);
    uint32_t jump = x86_jump_if_zero(&b->x86);

    for (uint32_t i = 0; i < region->count && !b->failed; i++) emit_step(b, region->first + i);
    reserve_code(b, REGISTERS * X86_MAX_INSTRUCTION);
    if (b->failed) return;
    for (uint32_t r = 0; r < REGISTERS; r++) {
        if (b->holds[r] != before[r]) evict(b, r);
    }
    x86_land(&b->x86, jump);
}

// ---- blocks --------------------------------------------------------------------------------

// What the emitted code calls.
static void call_block(const nsi_native_block* nb, const ns_run* run) {
    double* work = run->work;
    nsi_code_block_run(&nb->block, nb->kernel, nb->lanes, run, work + nb->stage * nb->lanes,
                       work + nb->first * nb->lanes);
}

static void emit_call(native_builder* b, const nsi_native_block* nb) {
    x86_code* c = &b->x86;
    uint64_t block_address = (uint64_t)(uintptr_t)nb;
    uint64_t function_address = (uint64_t)(uintptr_t)call_block;
    x86_vzeroupper(c);
    x86_bytes(c, "\x57\x56\x52\x51\x41\x50", 6); // push rdi rsi rdx rcx r8: rsp is 16-aligned again
    x86_mov_imm64(c, X86_RDI, block_address);
    x86_bytes(c, "\x4c\x89\xc6", 3); // mov rsi, r8
    x86_mov_imm64(c, X86_RAX, function_address);
    x86_bytes(c, "\xff\xd0", 2);                 // call rax
    x86_bytes(c, "\x41\x58\x59\x5a\x5e\x5f", 6); // pop r8 rcx rdx rsi rdi
}

static void emit_block(native_builder* b, uint32_t number, uint32_t stage) {
    const nsi_code_block* block = &b->code->blocks.data[number];
    const uint32_t* inputs = b->code->block_inputs.data + block->first_input;

    // Stage the inputs, then save every register: the call keeps none.
    for (uint32_t k = 0; k < block->ninput; k++) {
        reserve_code(b, 2 * X86_MAX_INSTRUCTION);
        if (b->failed) return;
        uint32_t e = entity(b, inputs[k]);
        x86_rm to = at(b, NSI_REF(NSI_BASE_WORK, stage + k));
        if (b->reg[e] != NO_REGISTER) {
            store(b, to, (uint32_t)b->reg[e]);
        } else {
            load(b, SCRATCH, at(b, b->home[e]));
            store(b, to, SCRATCH);
        }
        b->next[e] = b->block_next[block->first_input + k];
    }
    for (uint32_t k = 0; k < block->ninput; k++) release_dead(b, entity(b, inputs[k]));
    reserve_code(b, (REGISTERS + 8) * X86_MAX_INSTRUCTION);
    if (b->failed) return;
    for (uint32_t r = 0; r < REGISTERS; r++) evict(b, r);

    nsi_native_block* nb = &b->blocks[number];
    nb->block = *block;
    nb->lanes = b->lanes;
    nb->stage = stage;
    nb->first = nsi_slots_take_range(&b->slots, block->noutput);
    emit_call(b, nb);

    for (uint32_t k = 0; k < block->noutput; k++) {
        uint32_t value = block->first_value + k;
        b->home[value] = NSI_REF(NSI_BASE_WORK, nb->first + k);
        if (b->output[value] == NSI_NONE) continue;
        reserve_code(b, X86_MAX_INSTRUCTION);
        if (b->failed) return;
        load(b, SCRATCH, at(b, b->home[value]));
        for (uint32_t n = b->output[value]; n != NSI_NONE; n = b->same[n]) {
            reserve_code(b, X86_MAX_INSTRUCTION);
            if (b->failed) return;
            store(b, at(b, NSI_REF(NSI_BASE_OUTPUT, n)), SCRATCH);
        }
    }
}

// ---- whole programs ------------------------------------------------------------------------

// For every occurrence of an entity as an operand: the step of its next occurrence.
static void find_next_uses(native_builder* b) {
    for (uint32_t e = 0; e < b->nentity; e++) b->next[e] = NSI_NONE;
    for (uint32_t i = b->code->steps.count; i-- > 0;) {
        const nsi_step* step = &b->code->steps.data[i];
        if (step->op == NSI_BLOCK) {
            const nsi_code_block* block = &b->code->blocks.data[step->a];
            for (uint32_t k = block->ninput; k-- > 0;) {
                uint32_t n = block->first_input + k;
                uint32_t e = entity(b, b->code->block_inputs.data[n]);
                b->block_next[n] = b->next[e];
                b->next[e] = i;
            }
            continue;
        }
        for (uint32_t k = nsi_ops[step->op].arity; k-- > 0;) {
            uint32_t e = entity(b, nsi_step_operand(step, k));
            b->step_next[3 * i + k] = b->next[e];
            b->next[e] = i;
        }
    }
}

static bool allocate(native_builder* b) {
    const nsi_code* code = b->code;
    const ns_allocator* memory = b->memory;
    size_t nentity = (size_t)b->nentity + 1;
    b->next = nsi_alloc(memory, nentity * sizeof(uint32_t));
    b->home = nsi_alloc(memory, nentity * sizeof(uint32_t));
    b->reg = nsi_alloc(memory, nentity);
    b->step_next = nsi_alloc(memory, ((size_t)code->steps.count + 1) * 3 * sizeof(uint32_t));
    b->block_next = nsi_alloc(memory, ((size_t)code->block_inputs.count + 1) * sizeof(uint32_t));
    b->output = nsi_alloc(memory, ((size_t)code->nvalue + 1) * sizeof(uint32_t));
    b->same = nsi_alloc(memory, ((size_t)code->outputs.count + 1) * sizeof(uint32_t));
    b->blocks = nsi_alloc_zeroed(memory, ((size_t)code->blocks.count + 1) * sizeof *b->blocks);
    return b->next && b->home && b->reg && b->step_next && b->block_next && b->output && b->same &&
           b->blocks;
}

static void release(native_builder* b) {
    nsi_free(b->memory, b->next);
    nsi_free(b->memory, b->home);
    nsi_free(b->memory, b->reg);
    nsi_free(b->memory, b->step_next);
    nsi_free(b->memory, b->block_next);
    nsi_free(b->memory, b->output);
    nsi_free(b->memory, b->same);
    nsi_free(b->memory, b->blocks);
    nsi_array_free(b->memory, &b->slots.unused);
    nsi_array_free(b->memory, &b->x86.bytes);
}

static void emit_program(native_builder* b, uint32_t form) {
    const nsi_code* code = b->code;
    for (uint32_t r = 0; r < REGISTERS; r++) b->holds[r] = NSI_NONE;
    for (uint32_t e = 0; e < b->nentity; e++) {
        b->reg[e] = NO_REGISTER;
        b->home[e] = e < code->nvalue ? NSI_NONE
                     : e < code->nvalue + code->ninput
                         ? NSI_REF(NSI_BASE_INPUT, e - code->nvalue)
                         : NSI_REF(NSI_BASE_CONST, e - code->nvalue - code->ninput);
    }
    for (uint32_t v = 0; v < code->nvalue; v++) b->output[v] = NSI_NONE;
    for (uint32_t k = code->outputs.count; k-- > 0;) {
        uint32_t ref = code->outputs.data[k];
        if (!nsi_is_value(ref)) continue;
        b->same[k] = b->output[NSI_REF_COMPONENT(ref)];
        b->output[NSI_REF_COMPONENT(ref)] = k;
    }
    find_next_uses(b);

    uint32_t stage_size = 0;
    for (uint32_t n = 0; n < code->blocks.count; n++) {
        if (code->blocks.data[n].stage > stage_size) stage_size = code->blocks.data[n].stage;
        b->blocks[n].kernel = code->blocks.data[n].kind->kernel(form);
    }
    uint32_t stage = nsi_slots_take_range(&b->slots, stage_size);

    for (uint32_t i = 0, next = 0; i < code->steps.count && !b->failed; i++) {
        if (next < code->regions.count && code->regions.data[next].first == i) {
            const nsi_region* region = &code->regions.data[next++];
            emit_region(b, region);
            i += region->count - 1;
        } else if (code->steps.data[i].op == NSI_BLOCK) {
            emit_block(b, code->steps.data[i].a, stage);
        } else {
            emit_step(b, i);
        }
    }
    // Outputs that are inputs or constants.
    for (uint32_t k = 0; k < code->outputs.count && !b->failed; k++) {
        if (nsi_is_value(code->outputs.data[k])) continue;
        reserve_code(b, 2 * X86_MAX_INSTRUCTION);
        if (b->failed) return;
        load(b, SCRATCH, at(b, code->outputs.data[k]));
        store(b, at(b, NSI_REF(NSI_BASE_OUTPUT, k)), SCRATCH);
    }
    reserve_code(b, X86_MAX_INSTRUCTION);
    if (b->failed) return;
    x86_vzeroupper(&b->x86);
    x86_ret(&b->x86);
}

static double* make_constants(const nsi_code* code, uint32_t lanes) {
    size_t count = (size_t)code->consts.count * lanes;
    double* consts = nsi_alloc(&code->allocator, count * sizeof(double) + BITS_COUNT * 32);
    if (!consts) return NULL;
    for (size_t i = 0; i < count; i++) consts[i] = code->consts.data[i / lanes];
    for (size_t p = 0; p < BITS_COUNT; p++) {
        for (size_t k = 0; k < 4; k++) {
            memcpy(&consts[count + 4 * p + k], &bit_patterns[p], sizeof(uint64_t));
        }
    }
    return consts;
}

// Write, then make executable: never both at once.
static bool map_code(nsi_native* out, const uint8_t* bytes, size_t size) {
#if defined(__unix__) || defined(__APPLE__)
    void* memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return false;
    memcpy(memory, bytes, size);
    if (mprotect(memory, size, PROT_READ | PROT_EXEC) != 0) {
        munmap(memory, size);
        return false;
    }
    out->code = memory;
    out->code_size = size;
    return true;
#else
    (void)out, (void)bytes, (void)size;
    return false;
#endif
}

// Why there is no native form here, or NULL.
static const char* refusal(const nsi_code* code, uint32_t lanes) {
    if (!nsi_cpu_has_avx2_fma()) return "native needs an x86-64 machine with AVX2 and FMA";
    if (lanes != 1 && lanes != 4) return "native has 1 or 4 lanes";
    // Displacements are signed 32-bit numbers of bytes.
    size_t components = (size_t)code->nvalue + code->ninput + code->consts.count +
                        code->outputs.count + code->block_inputs.count;
    if (components > (size_t)INT32_MAX / 64) return "the program is too large for native";
    return NULL;
}

ns_status nsi_native_build(const nsi_code* code, uint32_t form, nsi_native* out, const char** why,
                           ns_error* error) {
    *out = (nsi_native){0};
    uint32_t lanes = nsi_lane_counts[form];
    const char* refused = refusal(code, lanes);
    if (refused) {
        *why = refused;
        return NS_OK;
    }
    native_builder b = {.code = code,
                        .memory = &code->allocator,
                        .lanes = lanes,
                        .nentity = code->nvalue + code->ninput + code->consts.count};
    b.failed = !allocate(&b);
    if (!b.failed) emit_program(&b, form);
    if (!b.failed) {
        out->consts = make_constants(code, lanes);
        b.failed = !out->consts;
    }
    if (!b.failed) {
        out->nslot = b.slots.count;
        if (map_code(out, b.x86.bytes.data, b.x86.bytes.count)) {
            out->blocks = b.blocks;
            b.blocks = NULL;
        } else {
            *why = "the system gave no executable memory";
            nsi_free(b.memory, out->consts);
            *out = (nsi_native){0};
        }
    }
    ns_status status = b.failed ? nsi_fail_nomem(error) : NS_OK;
    if (b.failed) nsi_native_free(b.memory, out);
    release(&b);
    return status;
}

void nsi_native_free(const ns_allocator* memory, nsi_native* native) {
#if defined(__unix__) || defined(__APPLE__)
    if (native->code) munmap(native->code, native->code_size);
#endif
    nsi_free(memory, native->consts);
    nsi_free(memory, native->blocks);
    *native = (nsi_native){0};
}

void nsi_native_run(const nsi_native* native, const ns_run* run) {
    void (*function)(const double* in, double* out, void* frame, const double* consts,
                     const ns_run* whole);
    memcpy(&function, &native->code, sizeof function);
    function(run->in, run->out, run->work, native->consts, run);
}
