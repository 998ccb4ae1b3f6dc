// What the native backend needs to know about a machine, and what it offers to one.
//
//   native.c    picks a target, makes the code executable, runs it
//   regalloc.c  decides which value is in which register or slot, walks steps, regions and blocks
//   amd64/      selects and encodes instructions: one folder per machine, one nsi_target each
//
// A target is added by its folder and one word of NSI_TARGETS. It implements the functions of
// nsi_target, which ask the allocator below for the places of operands and results.

#ifndef NSI_TARGET_H
#define NSI_TARGET_H

#include "expr/code.h"

enum { NSI_TARGET_MAX_REGISTERS = 31, NSI_NO_REGISTER = -1 };

typedef struct nsi_target nsi_target;

// Growing machine code. Room is reserved before emitting.
typedef struct nsi_machine_code {
    NSI_ARRAY(uint8_t) bytes;
} nsi_machine_code;

struct nsi_native_block {
    nsi_code_block block;
    nsi_block_kernel* kernel;
    uint32_t lanes, stage, first; // slots
    const nsi_native* function;   // of a call, else NULL
    const double* off;            // its outputs where the call is inactive, [component][lane]
};

// State of the allocator. An entity is anything an operand can be: a value, an input or a constant.
typedef struct nsi_regalloc {
    const nsi_target* target;
    const nsi_code* code;
    const ns_allocator* memory;
    uint32_t lanes;
    uint32_t nentity;
    uint32_t* next;       // per entity: next step that reads it, or NSI_NONE
    uint32_t* home;       // per entity: its place in memory (NSI_REF), or NSI_NONE
    int8_t* reg;          // per entity: its register, or NSI_NO_REGISTER
    uint32_t* step_next;  // per operand of a step: the entity's next use after it
    uint32_t* block_next; // the same per input of a block
    uint32_t* output;     // per value: the first output it is, or NSI_NONE
    uint32_t* same;       // per output: the next output of the same value, or NSI_NONE
    uint32_t holds[NSI_TARGET_MAX_REGISTERS]; // entity in a register, or NSI_NONE
    nsi_slots slots;
    nsi_native_block* blocks;
    const nsi_native* functions; // of the code, compiled
    nsi_machine_code machine;
    bool failed; // out of memory
} nsi_regalloc;

// The operands of a step; `pinned` is the set of registers that must keep what they hold.
typedef struct nsi_step_operands {
    uint32_t entity[3];
    uint32_t count;
    uint32_t pinned;
} nsi_step_operands;

// Where an operand is.
typedef struct nsi_location {
    bool memory;
    uint32_t reg;   // unless in memory
    uint32_t place; // in memory: NSI_REF
} nsi_location;

struct nsi_target {
    const char* name;
    uint32_t registers;         // 0 to registers - 1 hold values
    uint32_t scratch;           // a register that never does
    uint32_t max_instruction;   // bytes of the longest instruction
    uint32_t step_instructions; // the most that step(), skip() or call() emits, spills included
    const uint64_t*
        patterns; // (npattern) bit patterns that instructions read, behind the constants
    uint32_t npattern;

    // Why this machine cannot run the code, or NULL.
    const char* (*refusal)(const nsi_code* code, uint32_t lanes);

    void (*load)(nsi_regalloc* ra, uint32_t reg, uint32_t place);
    void (*store)(nsi_regalloc* ra, uint32_t place, uint32_t reg);

    // Emit one operation and return the register of its result.
    uint32_t (*step)(nsi_regalloc* ra, nsi_step_operands* operands, nsi_op op);

    // Jump forward unless some lane of `mask` is `when`; returns what land() takes, which makes the
    // jump end here.
    uint32_t (*skip)(nsi_regalloc* ra, uint32_t mask, bool when);
    void (*land)(nsi_regalloc* ra, uint32_t jump);

    // Call function(block, run); all registers are free.
    void (*call)(nsi_regalloc* ra, void (*function)(const nsi_native_block*, const ns_run*),
                 const nsi_native_block* block);

    void (*finish)(nsi_regalloc* ra); // return to the caller
};

// All targets, in order of preference: the first that does not refuse is used.
#define NSI_TARGETS(X) X(amd64)

#define DECLARE_TARGET(machine) extern const nsi_target nsi_target_##machine;
NSI_TARGETS(DECLARE_TARGET)
#undef DECLARE_TARGET

// Patterns are stored four times, 32 bytes each, whatever the lane count.
enum { NSI_PATTERN_BYTES = 32 };

// ---- regalloc.c: for targets ---------------------------------------------------------------

// The entity in a register, pinned.
uint32_t nsi_regalloc_register(nsi_regalloc* ra, uint32_t e, uint32_t* pinned);

// The entity in a register, pinned, or in memory where loading it is not worth a register.
nsi_location nsi_regalloc_anywhere(nsi_regalloc* ra, uint32_t e, uint32_t* pinned);

// A register for the result: that of a dying operand, else another one.
uint32_t nsi_regalloc_result(nsi_regalloc* ra, const nsi_step_operands* operands);

// An empty register other than the pinned ones.
uint32_t nsi_regalloc_take(nsi_regalloc* ra, uint32_t pinned);

// Pin the operands that are in registers, before any of them is loaded.
void nsi_regalloc_pin(const nsi_regalloc* ra, nsi_step_operands* operands);

// Is the entity the constant +0?
bool nsi_regalloc_is_zero(const nsi_regalloc* ra, uint32_t e);

// ---- regalloc.c: for native.c --------------------------------------------------------------

// Emit the whole program; false when out of memory. `ra` holds target, code, memory and lanes; it must
// be freed in any case.
bool nsi_regalloc_emit(nsi_regalloc* ra, uint32_t form);
void nsi_regalloc_free(nsi_regalloc* ra);

#endif
