// Encoding of the few AVX2 and FMA instructions that the x86-64 target uses.
// Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, "VEX prefix".

#ifndef NSI_X86_H
#define NSI_X86_H

#include "expr/target.h"

enum { X86_RAX = 0, X86_RCX = 1, X86_RDX = 2, X86_RSI = 6, X86_RDI = 7 };

enum { X86_MAX_INSTRUCTION = 15 };

// A register, or memory at [base + displacement].
typedef struct x86_rm {
    bool memory;
    uint8_t reg; // vector register, or base register (rax..rdi, not rsp) of a memory operand
    int32_t displacement;
} x86_rm;

static inline x86_rm x86_reg(uint32_t reg) {
    return (x86_rm){false, (uint8_t)reg, 0};
}

static inline void x86_byte(nsi_machine_code* c, uint32_t byte) {
    NS_ASSERT(c->bytes.count < c->bytes.capacity);
    c->bytes.data[c->bytes.count++] = (uint8_t)byte;
}

static inline void x86_bytes(nsi_machine_code* c, const void* data, size_t size) {
    NS_ASSERT(c->bytes.capacity - c->bytes.count >= size);
    memcpy(c->bytes.data + c->bytes.count, data, size);
    c->bytes.count += (uint32_t)size;
}

// Opcode map and mandatory prefix, as the VEX prefix numbers them.
enum { X86_MAP_0F = 1, X86_MAP_0F38 = 2, X86_MAP_0F3A = 3 };
enum { X86_PREFIX_66 = 1, X86_PREFIX_F2 = 3 };

typedef struct x86_op {
    uint8_t map, prefix, opcode;
    bool w;    // VEX.W
    bool wide; // VEX.L: 256 bits
} x86_op;

// One VEX instruction `op reg, vvvv, rm`; an immediate, if any, is appended by the caller. A
// two-operand instruction passes vvvv = 0.
static inline void x86_vex(nsi_machine_code* c, x86_op op, uint32_t reg, uint32_t vvvv, x86_rm rm) {
    uint32_t not_r = reg < 8, not_b = rm.memory || rm.reg < 8;
    uint32_t tail = ((~vvvv & 15u) << 3) | ((uint32_t)op.wide << 2) | op.prefix;
    if (op.map == X86_MAP_0F && !op.w && not_b) {
        x86_byte(c, 0xc5);
        x86_byte(c, (not_r << 7) | tail);
    } else {
        x86_byte(c, 0xc4);
        x86_byte(c, (not_r << 7) | (1u << 6) | (not_b << 5) | op.map);
        x86_byte(c, ((uint32_t)op.w << 7) | tail);
    }
    x86_byte(c, op.opcode);
    if (!rm.memory) {
        x86_byte(c, 0xc0u | ((reg & 7u) << 3) | (rm.reg & 7u));
    } else if (rm.displacement >= -128 && rm.displacement <= 127) {
        x86_byte(c, 0x40u | ((reg & 7u) << 3) | rm.reg);
        x86_byte(c, (uint8_t)rm.displacement);
    } else {
        x86_byte(c, 0x80u | ((reg & 7u) << 3) | rm.reg);
        x86_bytes(c, &rm.displacement, 4);
    }
}

static inline void x86_vzeroupper(nsi_machine_code* c) {
    x86_bytes(c, "\xc5\xf8\x77", 3);
}
static inline void x86_ret(nsi_machine_code* c) {
    x86_byte(c, 0xc3);
}

// mov reg, imm64 for rax..rdi
static inline void x86_mov_imm64(nsi_machine_code* c, uint32_t reg, uint64_t value) {
    x86_byte(c, 0x48);
    x86_byte(c, 0xb8 + reg);
    x86_bytes(c, &value, 8);
}

static inline void x86_not_eax(nsi_machine_code* c) {
    x86_bytes(c, "\xf7\xd0", 2);
}

// Is any of these bits of al set?
static inline void x86_test_al(nsi_machine_code* c, uint32_t bits) {
    x86_byte(c, 0xa8);
    x86_byte(c, bits);
}

// A jump forward if the last test found no bit; returns what x86_land() wants.
static inline uint32_t x86_jump_if_zero(nsi_machine_code* c) {
    x86_bytes(c, "\x0f\x84\0\0\0\0", 6); // jz rel32
    return c->bytes.count;
}

// The jump goes to here.
static inline void x86_land(nsi_machine_code* c, uint32_t jump) {
    uint32_t distance = c->bytes.count - jump;
    NS_ASSERT(distance <= INT32_MAX);
    memcpy(c->bytes.data + jump - 4, &distance, 4);
}

#endif
