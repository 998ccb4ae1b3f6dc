// The native backend: machine code for this machine, straight but for jumps over regions that no lane
// needs. target.h has the division of work.

#if defined(__unix__) || defined(__APPLE__)
#define _DEFAULT_SOURCE // MAP_ANONYMOUS
#include <sys/mman.h>
#endif

#include "expr/target.h"

static const nsi_target* const targets[] = {
#define TARGET_ROW(machine) &nsi_target_##machine,
    NSI_TARGETS(TARGET_ROW)
#undef TARGET_ROW
};

enum { NTARGET = sizeof targets / sizeof *targets };

// Constants lane-wise, then the target's bit patterns.
static double* make_constants(const nsi_target* target, const nsi_code* code, uint32_t lanes) {
    size_t count = (size_t)code->consts.count * lanes;
    double* consts =
        nsi_alloc(&code->allocator, count * sizeof(double) + target->npattern * NSI_PATTERN_BYTES);
    if (!consts) return NULL;
    for (size_t i = 0; i < count; i++) consts[i] = code->consts.data[i / lanes];
    for (size_t p = 0; p < target->npattern; p++) {
        for (size_t k = 0; k < 4; k++) {
            memcpy(&consts[count + 4 * p + k], &target->patterns[p], sizeof(uint64_t));
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

// The target that can run the code, or NULL with the reason of the last one.
static const nsi_target* choose_target(const nsi_code* code, uint32_t lanes, const char** why) {
    for (size_t k = 0; k < NTARGET; k++) {
        const char* refusal = targets[k]->refusal(code, lanes);
        if (!refusal) return targets[k];
        *why = refusal;
    }
    return NULL;
}

// The functions that blocks call. `*complete` when all of them have a native form.
static ns_status build_native_functions(const nsi_code* code, uint32_t form, nsi_native* out,
                                        bool* complete, const char** why, ns_error* error) {
    uint32_t count = code->functions.count;
    *complete = true;
    out->functions = nsi_alloc_zeroed(&code->allocator, (count + 1) * sizeof *out->functions);
    if (!out->functions) return nsi_fail_nomem(error);
    for (uint32_t k = 0; k < count && *complete; k++) {
        nsi_native* f = &out->functions[out->nfunction++];
        ns_status status = nsi_native_build(code->functions.data[k].code, form, f, why, error);
        if (status != NS_OK) return status;
        *complete = f->code != NULL;
    }
    return NS_OK;
}

ns_status nsi_native_build(const nsi_code* code, uint32_t form, nsi_native* out, const char** why,
                           ns_error* error) {
    *out = (nsi_native){0};

    // Choose a target for this machine and number of lanes.
    uint32_t lanes = nsi_lane_counts[form];
    const nsi_target* target = choose_target(code, lanes, why);
    // `why` explains to the user why there is none.
    if (!target) return NS_OK;

    // Functions first: without their native form there is none of the caller.
    bool complete;
    ns_status status = build_native_functions(code, form, out, &complete, why, error);
    if (status != NS_OK || !complete) {
        nsi_native_free(&code->allocator, out);
        return status;
    }

    // Allocate registers and emit machine code in one pass.
    nsi_regalloc r = {.target = target,
                      .code = code,
                      .memory = &code->allocator,
                      .lanes = lanes,
                      .functions = out->functions};
    bool done = nsi_regalloc_emit(&r, form);
    if (done) {
        // Constants in the layout of the target.
        out->consts = make_constants(target, code, lanes);
        done = out->consts != NULL;
    }

    // Map the code as executable memory; without it there is no native form, which is no error.
    if (done) {
        out->nslot = r.slots.count;
        if (map_code(out, r.machine.bytes.data, r.machine.bytes.count)) {
            // The blocks are called from the code: they must stay at their address.
            out->blocks = r.blocks;
            r.blocks = NULL;
            for (uint32_t n = 0; n < code->blocks.count; n++) {
                if (!out->blocks[n].function) continue;
                uint32_t number = code->blocks.data[n].function;
                size_t first = (size_t)code->functions.data[number].first_off * lanes;
                out->blocks[n].off = out->consts + first;
            }
        } else {
            *why = "the system gave no executable memory";
            nsi_native_free(r.memory, out);
        }
    }

    if (!done) nsi_native_free(r.memory, out);
    nsi_regalloc_free(&r);
    return done ? NS_OK : nsi_fail_nomem(error);
}

void nsi_native_free(const ns_allocator* memory, nsi_native* native) {
#if defined(__unix__) || defined(__APPLE__)
    if (native->code) munmap(native->code, native->code_size);
#endif
    nsi_free(memory, native->consts);
    nsi_free(memory, native->blocks);
    for (uint32_t k = 0; k < native->nfunction; k++) {
        nsi_native_free(memory, &native->functions[k]);
    }
    nsi_free(memory, native->functions);
    *native = (nsi_native){0};
}

void nsi_native_run(const nsi_native* native, const ns_run* run) {
    void (*function)(const double* in, double* out, void* frame, const double* consts,
                     const ns_run* whole);
    memcpy(&function, &native->code, sizeof function);
    function(run->in, run->out, run->work, native->consts, run);
}
