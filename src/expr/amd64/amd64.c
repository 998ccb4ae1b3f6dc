// The x86-64 target: AVX2 and FMA, for one lane (scalar instructions) or four.
//
//   rdi inputs   rsi outputs   rdx frame   rcx constants   r8 the ns_run   rax, ymm15 scratch
//
// Truth values are bit masks in registers and slots; lower.c keeps them apart from numbers.

#include "expr/amd64/x86.h"

#include "expr/target.h"

enum { REGISTERS = 15, SCRATCH = 15 };

enum { BITS_SIGN, BITS_MAGNITUDE, BITS_ONES, BITS_TWO52, BITS_EXPONENT, BITS_COUNT };

static const uint64_t bit_patterns[BITS_COUNT] = {
    [BITS_SIGN] = UINT64_C(0x8000000000000000),     [BITS_MAGNITUDE] = UINT64_C(0x7fffffffffffffff),
    [BITS_ONES] = UINT64_C(0xffffffffffffffff),     [BITS_TWO52] = UINT64_C(0x4330000000000000),
    [BITS_EXPONENT] = UINT64_C(0x43300000000003ff), // 2^52 + 1023, see bits.def
};

// ---- addresses and instructions ------------------------------------------------------------

static x86_rm address_of(const nsi_regalloc* ra, uint32_t place) {
    static const uint8_t base[4] = {[NSI_BASE_WORK] = X86_RDX,
                                    [NSI_BASE_INPUT] = X86_RDI,
                                    [NSI_BASE_CONST] = X86_RCX,
                                    [NSI_BASE_OUTPUT] = X86_RSI};
    return (x86_rm){true, base[NSI_REF_BASE(place)],
                    (int32_t)(NSI_REF_COMPONENT(place) * ra->lanes * 8)};
}

static x86_rm pattern_at(const nsi_regalloc* ra, uint32_t pattern) {
    return (x86_rm){
        true, X86_RCX,
        (int32_t)(ra->code->consts.count * ra->lanes * 8 + pattern * NSI_PATTERN_BYTES)};
}

static x86_rm rm_of(const nsi_regalloc* ra, nsi_location location) {
    return location.memory ? address_of(ra, location.place) : x86_reg(location.reg);
}

// Arithmetic on doubles: packed for four lanes, scalar for one.
static void emit_arithmetic(nsi_regalloc* ra, uint8_t opcode, uint32_t dst, uint32_t a, x86_rm rm) {
    bool wide = ra->lanes == 4;
    x86_op op = {X86_MAP_0F, wide ? X86_PREFIX_66 : X86_PREFIX_F2, opcode, false, wide};
    x86_vex(&ra->machine, op, dst, a, rm);
}

// Bitwise operations have no scalar form; the upper half is ignored.
static void emit_bitwise(nsi_regalloc* ra, uint8_t opcode, uint32_t dst, uint32_t a, x86_rm rm) {
    x86_op op = {X86_MAP_0F, X86_PREFIX_66, opcode, false, ra->lanes == 4};
    x86_vex(&ra->machine, op, dst, a, rm);
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

static void emit_copy(nsi_regalloc* ra, uint32_t dst, uint32_t src) {
    if (dst != src) emit_bitwise(ra, 0x28, dst, 0, x86_reg(src)); // vmovapd
}

static void emit_compare(nsi_regalloc* ra, uint32_t predicate, uint32_t dst, uint32_t a,
                         x86_rm rm) {
    emit_arithmetic(ra, CMPPD, dst, a, rm);
    x86_byte(&ra->machine, predicate);
}

static void emit_round(nsi_regalloc* ra, uint32_t mode, uint32_t dst, uint32_t a) {
    bool wide = ra->lanes == 4;
    x86_op op = {X86_MAP_0F3A, X86_PREFIX_66, wide ? 0x09 : 0x0b, false, wide};
    x86_vex(&ra->machine, op, dst, wide ? 0 : a, x86_reg(a));
    x86_byte(&ra->machine, mode | 8u); // no exceptions
}

// Shift each 64-bit element: left (/6) or right (/2).
static void emit_shift(nsi_regalloc* ra, uint32_t extension, uint32_t dst, uint32_t a,
                       uint32_t count) {
    x86_op op = {X86_MAP_0F, X86_PREFIX_66, 0x73, false, ra->lanes == 4};
    x86_vex(&ra->machine, op, extension, dst, x86_reg(a));
    x86_byte(&ra->machine, count);
}

static void emit_blend(nsi_regalloc* ra, uint32_t dst, uint32_t otherwise, x86_rm then,
                       uint32_t mask) {
    x86_op op = {X86_MAP_0F3A, X86_PREFIX_66, 0x4b, false, ra->lanes == 4};
    x86_vex(&ra->machine, op, dst, otherwise, then);
    x86_byte(&ra->machine, mask << 4);
}

// ---- operations ----------------------------------------------------------------------------

// dst = a op b with b possibly in memory.
static uint32_t emit_binary(nsi_regalloc* ra, nsi_step_operands* o, nsi_op op) {
    uint32_t x = o->entity[0], y = o->entity[1];
    bool commutes = (nsi_ops[op].flags & NSI_FLAG_COMMUTES) != 0;
    // Only the second operand can be in memory: swap if that saves a load.
    if (commutes && ra->reg[x] == NSI_NO_REGISTER && ra->reg[y] != NSI_NO_REGISTER) {
        uint32_t swap = x;
        x = y;
        y = swap;
    }
    // Pin both registers before either operand is loaded, which could evict the other.
    if (ra->reg[y] != NSI_NO_REGISTER) o->pinned |= 1u << ra->reg[y];
    uint32_t first = nsi_regalloc_register(ra, x, &o->pinned);

    // The scalar forms of masks need registers: memory operands would be 16 bytes wide.
    bool masks = op == NSI_AND || op == NSI_OR;
    x86_rm second = masks && ra->lanes == 1 ? x86_reg(nsi_regalloc_register(ra, y, &o->pinned))
                                            : rm_of(ra, nsi_regalloc_anywhere(ra, y, &o->pinned));

    // The result may reuse the register of an operand that is not needed any more.
    uint32_t dst = nsi_regalloc_result(ra, o);
    switch (op) {
    case NSI_ADD: emit_arithmetic(ra, ADDPD, dst, first, second); break;
    case NSI_SUB: emit_arithmetic(ra, SUBPD, dst, first, second); break;
    case NSI_MUL: emit_arithmetic(ra, MULPD, dst, first, second); break;
    case NSI_DIV: emit_arithmetic(ra, DIVPD, dst, first, second); break;
    case NSI_MIN: emit_arithmetic(ra, MINPD, dst, first, second); break;
    case NSI_MAX: emit_arithmetic(ra, MAXPD, dst, first, second); break;
    // Comparisons give masks: all bits set, or none.
    case NSI_LT: emit_compare(ra, CMP_LT, dst, first, second); break;
    case NSI_LE: emit_compare(ra, CMP_LE, dst, first, second); break;
    case NSI_EQ: emit_compare(ra, CMP_EQ, dst, first, second); break;
    case NSI_NE: emit_compare(ra, CMP_NE, dst, first, second); break;
    // Masks combine bitwise.
    case NSI_AND: emit_bitwise(ra, ANDPD, dst, first, second); break;
    case NSI_OR: emit_bitwise(ra, ORPD, dst, first, second); break;
    default: NS_ASSERT(false && "binary operation without an encoding");
    }
    return dst;
}

static uint32_t emit_unary(nsi_regalloc* ra, nsi_step_operands* o, nsi_op op) {
    uint32_t a = nsi_regalloc_register(ra, o->entity[0], &o->pinned);
    uint32_t dst = nsi_regalloc_result(ra, o);
    switch (op) {
    case NSI_NEG: emit_bitwise(ra, XORPD, dst, a, pattern_at(ra, BITS_SIGN)); break;
    case NSI_ABS: emit_bitwise(ra, ANDPD, dst, a, pattern_at(ra, BITS_MAGNITUDE)); break;
    case NSI_NOT: emit_bitwise(ra, XORPD, dst, a, pattern_at(ra, BITS_ONES)); break;
    case NSI_SQRT: emit_arithmetic(ra, SQRTPD, dst, ra->lanes == 4 ? 0 : a, x86_reg(a)); break;
    case NSI_FLOOR: emit_round(ra, 1, dst, a); break;
    case NSI_ROUND: emit_round(ra, 0, dst, a); break;
    case NSI_POW2I:
        emit_arithmetic(ra, ADDPD, dst, a, pattern_at(ra, BITS_EXPONENT));
        emit_shift(ra, 6, dst, dst, 52);
        break;
    case NSI_EXPONENT:
        emit_shift(ra, 2, dst, a, 52);
        emit_bitwise(ra, ORPD, dst, dst, pattern_at(ra, BITS_TWO52));
        emit_arithmetic(ra, SUBPD, dst, dst, pattern_at(ra, BITS_EXPONENT));
        break;
    default: NS_ASSERT(false && "unary operation without an encoding");
    }
    return dst;
}

static uint32_t emit_copysign(nsi_regalloc* ra, nsi_step_operands* o) {
    if (ra->reg[o->entity[1]] != NSI_NO_REGISTER) o->pinned |= 1u << ra->reg[o->entity[1]];
    uint32_t magnitude = nsi_regalloc_register(ra, o->entity[0], &o->pinned);
    uint32_t sign = nsi_regalloc_register(ra, o->entity[1], &o->pinned);
    uint32_t dst = nsi_regalloc_result(ra, o);
    emit_bitwise(ra, ANDPD, SCRATCH, sign, pattern_at(ra, BITS_SIGN));
    emit_bitwise(ra, ANDPD, dst, magnitude, pattern_at(ra, BITS_MAGNITUDE));
    emit_bitwise(ra, ORPD, dst, dst, x86_reg(SCRATCH));
    return dst;
}

// Choosing from zero is a bitwise and.
static uint32_t emit_select(nsi_regalloc* ra, nsi_step_operands* o) {
    uint32_t condition = o->entity[0], then = o->entity[1], otherwise = o->entity[2];
    nsi_regalloc_pin(ra, o);
    uint32_t mask = nsi_regalloc_register(ra, condition, &o->pinned);
    bool memory_allowed = ra->lanes == 4; // packed instructions read 16 bytes at least
    uint32_t dst;
    if (nsi_regalloc_is_zero(ra, otherwise) || nsi_regalloc_is_zero(ra, then)) {
        bool keep = nsi_regalloc_is_zero(ra, otherwise);
        uint32_t value = keep ? then : otherwise;
        x86_rm rm = memory_allowed ? rm_of(ra, nsi_regalloc_anywhere(ra, value, &o->pinned))
                                   : x86_reg(nsi_regalloc_register(ra, value, &o->pinned));
        dst = nsi_regalloc_result(ra, o);
        emit_bitwise(ra, keep ? ANDPD : ANDNPD, dst, mask, rm);
        return dst;
    }
    uint32_t no = nsi_regalloc_register(ra, otherwise, &o->pinned);
    x86_rm yes = memory_allowed ? rm_of(ra, nsi_regalloc_anywhere(ra, then, &o->pinned))
                                : x86_reg(nsi_regalloc_register(ra, then, &o->pinned));
    dst = nsi_regalloc_result(ra, o);
    emit_blend(ra, dst, no, yes, mask);
    return dst;
}

// Fused multiply-add overwrites one operand: a dying one, else one that has to be loaded anyway,
// else a copy. The digits of a form number the operands: 132 is x1 = x1*x3 + x2, and so on; only
// the third can be in memory.
static uint32_t emit_fused(nsi_regalloc* ra, nsi_step_operands* o, nsi_op op) {
    // Opcode of the first form; the others follow at fixed distances.
    uint8_t base = op == NSI_FMA ? 0x98 : op == NSI_FMS ? 0x9a : op == NSI_FNMA ? 0x9c : 0x9e;
    enum { FORM_132 = 0x00, FORM_213 = 0x10, FORM_231 = 0x20 };
    // No operand may be evicted while another is loaded.
    nsi_regalloc_pin(ra, o);

    // Choose the operand to overwrite: 0 and 1 are factors, 2 the addend.
    uint32_t victim = NSI_NONE;
    bool dying = false;
    for (uint32_t k = 3; k-- > 0 && !dying;) {
        uint32_t e = o->entity[k];
        dying = ra->reg[e] != NSI_NO_REGISTER && ra->next[e] == NSI_NONE;
        // A dying one costs nothing; one in memory has to be loaded in any case.
        if (dying || (victim == NSI_NONE && ra->reg[e] == NSI_NO_REGISTER)) victim = k;
    }
    if (victim == NSI_NONE) victim = 2;

    // Take over its register, or make a copy.
    uint32_t e = o->entity[victim];
    uint32_t dst;
    if (dying) {
        dst = (uint32_t)ra->reg[e];
    } else {
        dst = nsi_regalloc_take(ra, o->pinned);
        // Load or move, depending on where it is.
        if (ra->reg[e] == NSI_NO_REGISTER) {
            emit_arithmetic(ra, 0x10, dst, 0, address_of(ra, ra->home[e]));
        } else {
            emit_copy(ra, dst, (uint32_t)ra->reg[e]);
        }
    }
    o->pinned |= 1u << dst; // a result in the making: not yet held

    // The second operand must be in a register, the third may be in memory.
    uint32_t second, form;
    x86_rm third;
    if (victim == 2) {
        // Overwriting the addend: the factors can be swapped.
        uint32_t x = o->entity[0], y = o->entity[1];
        if (ra->reg[x] == NSI_NO_REGISTER && ra->reg[y] != NSI_NO_REGISTER) {
            x = o->entity[1];
            y = o->entity[0];
        }
        second = nsi_regalloc_register(ra, x, &o->pinned);
        third = rm_of(ra, nsi_regalloc_anywhere(ra, y, &o->pinned));
        form = FORM_231;
    } else {
        // Overwriting a factor: the other factor or the addend can be in memory.
        uint32_t factor = o->entity[1 - victim], addend = o->entity[2];
        if (ra->reg[factor] == NSI_NO_REGISTER && ra->reg[addend] != NSI_NO_REGISTER) {
            second = nsi_regalloc_register(ra, addend, &o->pinned);
            third = rm_of(ra, nsi_regalloc_anywhere(ra, factor, &o->pinned));
            form = FORM_132;
        } else {
            second = nsi_regalloc_register(ra, factor, &o->pinned);
            third = rm_of(ra, nsi_regalloc_anywhere(ra, addend, &o->pinned));
            form = FORM_213;
        }
    }

    // Encode; scalar and packed forms differ in one bit.
    bool wide = ra->lanes == 4;
    x86_op code = {X86_MAP_0F38, X86_PREFIX_66, (uint8_t)(base + form + (wide ? 0 : 1)), true,
                   wide};
    x86_vex(&ra->machine, code, dst, second, third);
    return dst;
}

static uint32_t amd64_step(nsi_regalloc* ra, nsi_step_operands* o, nsi_op op) {
    switch (op) {
    case NSI_FMA:
    case NSI_FMS:
    case NSI_FNMA:
    case NSI_FNMS: return emit_fused(ra, o, op);
    case NSI_SELECT: return emit_select(ra, o);
    case NSI_COPYSIGN: return emit_copysign(ra, o);
    default: return o->count == 1 ? emit_unary(ra, o, op) : emit_binary(ra, o, op);
    }
}

// ---- moves, jumps and calls ----------------------------------------------------------------

static void amd64_load(nsi_regalloc* ra, uint32_t reg, uint32_t place) {
    emit_arithmetic(ra, 0x10, reg, 0, address_of(ra, place));
}

static void amd64_store(nsi_regalloc* ra, uint32_t place, uint32_t reg) {
    emit_arithmetic(ra, 0x11, reg, 0, address_of(ra, place));
}

static uint32_t amd64_skip(nsi_regalloc* ra, uint32_t mask, bool when) {
    // One bit per lane; with one lane the others are anything.
    x86_op movmskpd = {X86_MAP_0F, X86_PREFIX_66, 0x50, false, ra->lanes == 4};
    x86_vex(&ra->machine, movmskpd, X86_RAX, 0, x86_reg(mask));
    if (!when) x86_not_eax(&ra->machine);
    x86_test_al(&ra->machine, (1u << ra->lanes) - 1);
    return x86_jump_if_zero(&ra->machine);
}

static void amd64_land(nsi_regalloc* ra, uint32_t jump) {
    x86_land(&ra->machine, jump);
}

static void amd64_call(nsi_regalloc* ra, void (*function)(const nsi_native_block*, const ns_run*),
                       const nsi_native_block* nb) {
    nsi_machine_code* c = &ra->machine;
    uint64_t block_address = (uint64_t)(uintptr_t)nb;
    uint64_t function_address = (uint64_t)(uintptr_t)function;
    x86_vzeroupper(c);
    x86_bytes(c, "\x57\x56\x52\x51\x41\x50", 6); // push rdi rsi rdx rcx r8: rsp is 16-aligned again
    x86_mov_imm64(c, X86_RDI, block_address);
    x86_bytes(c, "\x4c\x89\xc6", 3); // mov rsi, r8
    x86_mov_imm64(c, X86_RAX, function_address);
    x86_bytes(c, "\xff\xd0", 2);                 // call rax
    x86_bytes(c, "\x41\x58\x59\x5a\x5e\x5f", 6); // pop r8 rcx rdx rsi rdi
}

static void amd64_finish(nsi_regalloc* ra) {
    x86_vzeroupper(&ra->machine);
    x86_ret(&ra->machine);
}

static const char* amd64_refusal(const nsi_code* code, uint32_t lanes) {
    if (!nsi_cpu_has_avx2_fma()) return "native needs an x86-64 machine with AVX2 and FMA";
    if (lanes != 1 && lanes != 4) return "native has 1 or 4 lanes";
    // Displacements are signed 32-bit numbers of bytes.
    size_t components = (size_t)code->nvalue + code->ninput + code->consts.count +
                        code->outputs.count + code->block_inputs.count;
    for (uint32_t k = 0; k < code->functions.count; k++) {
        components += code->functions.data[k].code->nvalue;
    }
    if (components > (size_t)INT32_MAX / 64) return "the program is too large for native";
    return NULL;
}

const nsi_target nsi_target_amd64 = {
    .name = "amd64",
    .registers = REGISTERS,
    .scratch = SCRATCH,
    .max_instruction = X86_MAX_INSTRUCTION,
    .step_instructions = 12,
    .patterns = bit_patterns,
    .npattern = BITS_COUNT,
    .refusal = amd64_refusal,
    .load = amd64_load,
    .store = amd64_store,
    .step = amd64_step,
    .skip = amd64_skip,
    .land = amd64_land,
    .call = amd64_call,
    .finish = amd64_finish,
};
