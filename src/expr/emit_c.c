// The C backend: the code as standalone C17 for one lane.
//
// Steps are spread over functions of at most PART_STEPS steps, because compilers need more than
// linear time in the size of a function. Values used in another part, and those of blocks, live in
// the caller's work array; the rest are local constants. All identifiers are made here; no name of
// the graph reaches the text, so none can break it.

#include "expr/code.h"

#include <ctype.h>
#include <math.h>

enum { PART_STEPS = 500, MAX_FUNCTION_NAME = 100, MAX_KINDS = 64 };

typedef struct emitter {
    const nsi_code* code;
    const char* function;
    nsi_text_builder text;
    uint32_t* part;   // per value: number of the part that defines it
    uint32_t* slot;   // per value: its place in the work array, or NSI_NONE for a local
    uint32_t* output; // per value: the first output it is, or NSI_NONE
    uint32_t* same;   // per output: the next output of the same value, or NSI_NONE
    uint8_t* fused;   // per value: is it the result of a fused multiply-add?
    uint32_t nslot, stage;
} emitter;

static const char* const parameters = "(const double* in, double* out, const double* const* arrays,"
                                      " double* const* sinks, double* work)";

// ---- operands ------------------------------------------------------------------------------

static void put_number(emitter* e, double x) {
    if (isnan(x)) {
        nsi_text_add(&e->text, "NAN");
    } else if (isinf(x)) {
        nsi_text_add(&e->text, x > 0 ? "INFINITY" : "(-INFINITY)");
    } else {
        // Hexadecimal, hence exact. Written from the parts of x: %a may differ between C libraries.
        uint64_t u;
        memcpy(&u, &x, sizeof u);
        uint64_t fraction = u & UINT64_C(0xfffffffffffff);
        int exponent = (int)((u >> 52) & 0x7ff);
        bool negative = (u >> 63) != 0;
        nsi_text_add(&e->text, negative ? "(-0x%d.%013llxp%+d)" : "0x%d.%013llxp%+d", exponent != 0,
                     (unsigned long long)fraction,
                     exponent != 0   ? exponent - 1023
                     : fraction != 0 ? -1022
                                     : 0);
    }
}

static void put_ref(emitter* e, uint32_t ref) {
    uint32_t n = NSI_REF_COMPONENT(ref);
    switch (NSI_REF_BASE(ref)) {
    case NSI_BASE_INPUT: nsi_text_add(&e->text, "in[%u]", n); break;
    case NSI_BASE_CONST: put_number(e, e->code->consts.data[n]); break;
    default:
        if (e->slot[n] == NSI_NONE) {
            nsi_text_add(&e->text, "v%u", n);
        } else {
            nsi_text_add(&e->text, "work[%u]", e->slot[n]);
        }
    }
}

// The C expression of the table with its operands a, b, c put in.
static void put_expression(emitter* e, const nsi_step* step) {
    const char* p = nsi_ops[step->op].value;
    while (*p) {
        if (isalpha((unsigned char)*p) || *p == '_') {
            size_t length = 1;
            while (isalnum((unsigned char)p[length]) || p[length] == '_') length++;
            if (length == 1 && *p >= 'a' && *p <= 'c') {
                put_ref(e, *p == 'a' ? step->a : *p == 'b' ? step->b : step->c);
            } else {
                nsi_text_add_bytes(&e->text, p, length);
            }
            p += length;
        } else {
            // A number may hold letters (1e3), an operand never follows a digit.
            size_t length = 1;
            if (isdigit((unsigned char)*p)) {
                while (isalnum((unsigned char)p[length]) || p[length] == '.') length++;
            }
            nsi_text_add_bytes(&e->text, p, length);
            p += length;
        }
    }
}

// ---- steps ---------------------------------------------------------------------------------

static void put_outputs(emitter* e, uint32_t value) {
    for (uint32_t k = e->output[value]; k != NSI_NONE; k = e->same[k]) {
        nsi_text_add(&e->text, "    out[%u] = ", k);
        put_ref(e, NSI_REF(NSI_BASE_WORK, value));
        nsi_text_add(&e->text, ";\n");
    }
}

static void put_block(emitter* e, const nsi_code_block* block) {
    nsi_text_builder* t = &e->text;

    // Copy the inputs to the staging area: kernels expect them in a row.
    for (uint32_t k = 0; k < block->ninput; k++) {
        nsi_text_add(t, "    work[%u] = ", e->stage + k);
        put_ref(e, e->code->block_inputs.data[block->first_input + k]);
        nsi_text_add(t, ";\n");
    }

    // Call the kernel with its parameters, as a compound literal.
    nsi_text_add(t, "    %s((const uint32_t[]){", block->kind->c_name);
    for (uint32_t k = 0; k < block->kind->nparam; k++) {
        nsi_text_add(t, k == 0 ? "%u" : ", %u", block->params[k]);
    }
    nsi_text_add(t, "}, work + %u, ", e->stage);

    // Results go to consecutive slots.
    if (block->noutput > 0) {
        nsi_text_add(t, "work + %u, ", e->slot[block->first_value]);
    } else {
        nsi_text_add(t, "NULL, ");
    }

    // Array input.
    if (block->source != NSI_NONE) {
        nsi_text_add(t, "arrays[%u] + %u, ", block->source, block->source_offset);
    } else {
        nsi_text_add(t, "NULL, ");
    }

    // Array output, to which kernels add.
    if (block->sink != NSI_NONE) {
        nsi_text_add(t, "sinks[%u] + %u);\n", block->sink, block->sink_offset);
    } else {
        nsi_text_add(t, "NULL);\n");
    }

    // Results that are outputs of the function.
    for (uint32_t k = 0; k < block->noutput; k++) put_outputs(e, block->first_value + k);
}

static void put_step(emitter* e, const nsi_step* step) {
    if (step->op == NSI_BLOCK) {
        put_block(e, &e->code->blocks.data[step->a]);
        return;
    }
    uint32_t value = NSI_REF_COMPONENT(step->dst);
    nsi_text_add(&e->text, e->slot[value] == NSI_NONE ? "    const double " : "    ");
    put_ref(e, step->dst);
    nsi_text_add(&e->text, " = ");
    put_expression(e, step);
    nsi_text_add(&e->text, ";\n");
    put_outputs(e, value);
}

// ---- layout --------------------------------------------------------------------------------

static void need_slot(emitter* e, uint32_t ref, uint32_t part) {
    if (!nsi_is_value(ref)) return;
    uint32_t value = NSI_REF_COMPONENT(ref);
    if (e->part[value] != part && e->slot[value] == NSI_NONE) e->slot[value] = e->nslot++;
}

// gcc 12 turns -fma(a, b, c) into fma(-a, b, -c), also inside another fma, which differs in the
// sign of a zero. It does so only when the inner result has no other use. So a fused result that is
// negated somewhere is stored in the work array: that store is another use.
static bool is_fused(uint32_t op) {
    return op == NSI_FMA || op == NSI_FMS || op == NSI_FNMA || op == NSI_FNMS;
}

// Does the C text of this operation negate operand k?
static bool negates(uint32_t op, uint32_t k) {
    if (k == 0) return op == NSI_NEG || op == NSI_FNMA || op == NSI_FNMS;
    return k == 2 && (op == NSI_FMS || op == NSI_FNMS);
}

static void keep_negated_fused(emitter* e) {
    const nsi_code* code = e->code;
    for (uint32_t v = 0; v < code->nvalue; v++) e->fused[v] = 0;
    for (uint32_t i = 0; i < code->steps.count; i++) {
        const nsi_step* step = &code->steps.data[i];
        if (step->op == NSI_BLOCK) continue;
        for (uint32_t k = 0; k < nsi_ops[step->op].arity; k++) {
            uint32_t ref = nsi_step_operand(step, k), value = NSI_REF_COMPONENT(ref);
            if (!nsi_is_value(ref) || !e->fused[value] || !negates(step->op, k)) continue;
            if (e->slot[value] == NSI_NONE) e->slot[value] = e->nslot++;
        }
        e->fused[NSI_REF_COMPONENT(step->dst)] = is_fused(step->op);
    }
}

// Decide which values go through the work array.
static void lay_out_emitted(emitter* e) {
    const nsi_code* code = e->code;
    uint32_t stage_size = 0;

    // Map values to outputs; several outputs of one value form a linked list.
    for (uint32_t v = 0; v < code->nvalue; v++) e->slot[v] = e->output[v] = NSI_NONE;
    // In reverse, so that lists are in order.
    for (uint32_t k = code->outputs.count; k-- > 0;) {
        uint32_t ref = code->outputs.data[k];
        if (!nsi_is_value(ref)) continue;
        e->same[k] = e->output[NSI_REF_COMPONENT(ref)];
        e->output[NSI_REF_COMPONENT(ref)] = k;
    }

    // Values that another part reads need a slot, because parts are separate functions.
    for (uint32_t i = 0; i < code->steps.count; i++) {
        const nsi_step* step = &code->steps.data[i];
        uint32_t part = i / PART_STEPS;
        // Values within a part are local variables.
        if (step->op != NSI_BLOCK) {
            e->part[NSI_REF_COMPONENT(step->dst)] = part;
            for (uint32_t k = 0; k < nsi_ops[step->op].arity; k++) {
                need_slot(e, nsi_step_operand(step, k), part);
            }
            continue;
        }

        // Blocks read and write slots.
        const nsi_code_block* block = &code->blocks.data[step->a];
        if (block->stage > stage_size) stage_size = block->stage;
        for (uint32_t k = 0; k < block->ninput; k++) {
            need_slot(e, code->block_inputs.data[block->first_input + k], part);
        }
        // Results of a block are consecutive.
        for (uint32_t k = 0; k < block->noutput; k++) {
            e->part[block->first_value + k] = part;
            e->slot[block->first_value + k] = e->nslot++;
        }
    }

    // The staging area for inputs of blocks comes last.
    keep_negated_fused(e);
    e->stage = e->nslot;
    e->nslot += stage_size;
}

static void put_parts(emitter* e) {
    const nsi_code* code = e->code;
    for (uint32_t i = 0; i < code->steps.count; i++) {
        if (i % PART_STEPS == 0) {
            nsi_text_add(&e->text, "%sstatic void %s_part%u%s {\n", i > 0 ? "}\n\n" : "\n",
                         e->function, i / PART_STEPS, parameters);
            nsi_text_add(&e->text,
                         "    (void)in, (void)out, (void)arrays, (void)sinks, (void)work;\n");
        }
        put_step(e, &code->steps.data[i]);
    }
    if (code->steps.count > 0) nsi_text_add(&e->text, "}\n");
}

// Source that was one argument of a macro is one line; compilers and people want several.
static void put_source(nsi_text_builder* t, const char* source) {
    while (*source) {
        size_t length = strcspn(source, ";{}");
        length += source[length] != '\0';
        nsi_text_add_bytes(t, source, length);
        source += length;
        if (*source == ' ') {
            nsi_text_add(t, "\n");
            source++;
        }
    }
    nsi_text_add(t, "\n");
}

static void put_file(emitter* e) {
    const nsi_code* code = e->code;
    nsi_text_builder* t = &e->text;
    // Header with the sizes that a caller needs.
    nsi_text_add(t,
                 "// Made by neuralsim %s. For the bits of the other backends compile with"
                 " -ffp-contract=off.\n\n",
                 NS_VERSION);
    nsi_text_add(t, "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n"
                    "#include <stdbool.h>\n#include <string.h>\n\n");
    nsi_text_add(t, "enum { %s_inputs = %u, %s_outputs = %u, %s_work = %u };\n", e->function,
                 code->ninput, e->function, code->outputs.count, e->function, e->nslot);
    nsi_text_add(t, "void %s%s;\n\n", e->function, parameters);

    // Emit helpers only if used: an unused static function is a warning.
    static const char* const bit_functions[] = {
#define NSI_C_SOURCE(...) #__VA_ARGS__,
#include "expr/bits.def"
#undef NSI_C_SOURCE
    };
    static const uint32_t bit_ops[] = {NSI_POW2I, NSI_EXPONENT};
    _Static_assert(sizeof bit_functions / sizeof *bit_functions == 2, "one for each operation");
    // Look for a step that needs the helper.
    for (int k = 0; k < 2; k++) {
        bool used = false;
        for (uint32_t i = 0; i < code->steps.count; i++) {
            used = used || code->steps.data[i].op == bit_ops[k];
        }
        if (used) nsi_text_add(t, "%s\n", bit_functions[k]);
    }

    // Emit each kernel once, with the code that several of them share.
    const nsi_block_kind* seen[MAX_KINDS];
    uint32_t nseen = 0;
    for (uint32_t n = 0; n < code->blocks.count; n++) {
        const nsi_block_kind* kind = code->blocks.data[n].kind;
        uint32_t k = 0;
        // Kinds are compared by address.
        while (k < nseen && seen[k] != kind) k++;
        if (k < nseen || nseen == MAX_KINDS) continue;
        // Shared code comes before its first user.
        bool shared = kind->c_shared != NULL;
        for (k = 0; k < nseen; k++) shared = shared && seen[k]->c_shared != kind->c_shared;
        if (shared) put_source(t, kind->c_shared);
        seen[nseen++] = kind;
        put_source(t, kind->c_source);
    }

    // Emit the steps in functions of bounded size, so that compilers stay fast.
    put_parts(e);

    // Emit the entry point, which calls them in order.
    nsi_text_add(t, "\nvoid %s%s {\n", e->function, parameters);
    nsi_text_add(t, "    (void)in, (void)out, (void)arrays, (void)sinks, (void)work;\n");
    for (uint32_t i = 0; i < code->steps.count; i += PART_STEPS) {
        nsi_text_add(t, "    %s_part%u(in, out, arrays, sinks, work);\n", e->function,
                     i / PART_STEPS);
    }

    // Outputs that are inputs or constants.
    for (uint32_t k = 0; k < code->outputs.count; k++) {
        if (nsi_is_value(code->outputs.data[k])) continue;
        nsi_text_add(t, "    out[%u] = ", k);
        put_ref(e, code->outputs.data[k]);
        nsi_text_add(t, ";\n");
    }
    nsi_text_add(t, "}\n");
}

// A C identifier, in ASCII whatever the locale, that is free to be defined in the file: no keyword,
// nothing the headers it includes declare, nothing it uses itself.
static bool is_identifier(const char* name) {
    static const char* const reserved[] = {
        "main",    "NULL",      "NAN",      "INFINITY", "acos",      "asin",    "atan",
        "atan2",   "ceil",      "copysign", "cos",      "cosh",      "erf",     "exp",
        "exp2",    "expm1",     "fabs",     "fdim",     "floor",     "fma",     "fmax",
        "fmin",    "fmod",      "frexp",    "hypot",    "j0",        "j1",      "jn",
        "ldexp",   "lgamma",    "log",      "log10",    "log1p",     "log2",    "modf",
        "pow",     "remainder", "rint",     "round",    "sin",       "sinh",    "sqrt",
        "tan",     "tanh",      "tgamma",   "trunc",    "y0",        "y1",      "yn",
        "memchr",  "memcmp",    "memcpy",   "memmove",  "memset",    "strcat",  "strchr",
        "strcmp",  "strcpy",    "strlen",   "size_t",   "ptrdiff_t", "int32_t", "int64_t",
        "uint8_t", "uint16_t",  "uint32_t", "uint64_t", "auto",      "break",   "case",
        "char",    "const",     "continue", "default",  "do",        "double",  "else",
        "enum",    "extern",    "float",    "for",      "goto",      "if",      "inline",
        "int",     "long",      "register", "restrict", "return",    "short",   "signed",
        "sizeof",  "static",    "struct",   "switch",   "typedef",   "union",   "unsigned",
        "void",    "volatile",  "while"};
    if (!name || name[0] == '\0' || (name[0] >= '0' && name[0] <= '9')) return false;
    if (strncmp(name, "ns_", 3) == 0) return false;
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++) {
        if (strcmp(name, reserved[i]) == 0) return false;
    }
    size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
    return length <= MAX_FUNCTION_NAME && name[length] == '\0';
}

ns_status ns_graph_emit_c(const ns_graph* graph, const char* function, ns_text* out,
                          ns_error* error) {
    // On failure there is no text.
    *out = (ns_text){0};
    // The name becomes part of several identifiers.
    if (!is_identifier(function)) {
        return nsi_fail(error, NS_ERR_ARGUMENT,
                        "the function name for emitted C must be an identifier of at most %d"
                        " letters, digits and underscores, no word or name of C, and must not begin"
                        " with ns_",
                        MAX_FUNCTION_NAME);
    }

    // The same code that the other back ends execute.
    nsi_code code;
    ns_status status = nsi_code_build(graph, &code, error);
    if (status != NS_OK) return status;
    for (uint32_t n = 0; n < code.blocks.count; n++) {
        if (!code.blocks.data[n].data) continue;
        status = nsi_fail(error, NS_ERR_UNSUPPORTED,
                          "the block %s has tables, which emitted C cannot hold",
                          code.blocks.data[n].kind->name);
        nsi_code_free(&code);
        return status;
    }

    // Lay out the slots, then write the text.
    const ns_allocator* memory = &code.allocator;
    emitter e = {.code = &code, .function = function, .text = {.allocator = *memory}};
    // Per value: its part, slot, output and whether it is fused.
    e.part = nsi_alloc(memory, ((size_t)code.nvalue + 1) * sizeof(uint32_t));
    e.slot = nsi_alloc(memory, ((size_t)code.nvalue + 1) * sizeof(uint32_t));
    e.output = nsi_alloc(memory, ((size_t)code.nvalue + 1) * sizeof(uint32_t));
    e.same = nsi_alloc(memory, ((size_t)code.outputs.count + 1) * sizeof(uint32_t));
    e.fused = nsi_alloc(memory, (size_t)code.nvalue + 1);
    if (e.part && e.slot && e.output && e.same && e.fused) {
        lay_out_emitted(&e);
        put_file(&e);
        // Memory errors of the builder appear here.
        status = nsi_text_finish(&e.text, out, error);
    } else {
        status = nsi_fail_nomem(error);
    }

    // All of this was needed for the text only.
    nsi_free(memory, e.part);
    nsi_free(memory, e.slot);
    nsi_free(memory, e.output);
    nsi_free(memory, e.same);
    nsi_free(memory, e.fused);
    nsi_code_free(&code);
    return status;
}
